"""What the template promises about rights, data and lost work."""

import unittest

import template
from template import listed, of_type, statements

FUNCTIONS = ("Chat", "Approvals", "ApprovalsWorker", "Refresh")


def actions_on(found: list[dict], resource) -> set[str]:
    return {
        action
        for statement in found
        if resource in listed(statement["Resource"])
        for action in listed(statement["Action"])
    }


def attribute(resource: str, name: str = "Arn") -> dict:
    return {"Fn::GetAtt": [resource, name]}


class Rights(unittest.TestCase):
    def setUp(self):
        self.template = template.load()
        self.rights = {name: statements(self.template, f"{name}Role") for name in FUNCTIONS}

    def test_every_function_has_a_role_of_its_own(self):
        functions = of_type(self.template, "AWS::Lambda::Function")
        self.assertEqual(sorted(functions), sorted(f"{name}Function" for name in FUNCTIONS))
        for name, function in functions.items():
            self.assertEqual(function["Role"], attribute(name.replace("Function", "Role")))

    def test_no_function_has_a_right_on_everything(self):
        for name, found in self.rights.items():
            for statement in found:
                self.assertEqual(statement["Effect"], "Allow", name)
                for resource in listed(statement["Resource"]):
                    self.assertNotEqual(resource, "*", name)
                for action in listed(statement["Action"]):
                    self.assertNotIn("*", action, name)

    def test_audit_records_can_be_put_and_queried_only(self):
        for name, found in self.rights.items():
            self.assertEqual(
                actions_on(found, attribute("AuditTable")),
                {"dynamodb:PutItem", "dynamodb:Query"},
                name,
            )

    def test_only_what_runs_a_turn_can_decrypt_and_nothing_can_encrypt(self):
        for name, found in self.rights.items():
            used = {a for s in found for a in listed(s["Action"]) if a.startswith("kms:")}
            expected = {"kms:Decrypt"} if name in ("Chat", "ApprovalsWorker") else set()
            self.assertEqual(used, expected, name)

    def test_only_the_worker_takes_messages(self):
        for name, found in self.rights.items():
            takes = "sqs:ReceiveMessage" in actions_on(found, attribute("WakeQueue"))
            self.assertEqual(takes, name == "ApprovalsWorker", name)
            self.assertIn("sqs:SendMessage", actions_on(found, attribute("WakeQueue")), name)

    def test_only_the_sweeps_read_what_is_due(self):
        for name, found in self.rights.items():
            due = actions_on(found, {"Fn::Sub": "${Table.Arn}/index/due"})
            self.assertEqual(due, {"dynamodb:Query"} if name == "Refresh" else set(), name)

    def test_keys_and_the_model_are_told_only_to_what_runs_a_turn(self):
        for name, function in of_type(self.template, "AWS::Lambda::Function").items():
            told = set(function["Environment"]["Variables"])
            private = {"TOSHI_LLM_KEY", "TOSHI_KEY_ACCESS", "TOSHI_KEY_PLATFORM"}
            runs_turns = name in ("ChatFunction", "ApprovalsWorkerFunction")
            self.assertEqual(told & private, private if runs_turns else set(), name)


class Data(unittest.TestCase):
    def setUp(self):
        self.template = template.load()

    def test_tables_and_keys_survive_the_stack(self):
        for name, resource in self.template["Resources"].items():
            if resource["Type"] in ("AWS::DynamoDB::Table", "AWS::KMS::Key"):
                self.assertEqual(resource["DeletionPolicy"], "Retain", name)
                self.assertEqual(resource["UpdateReplacePolicy"], "Retain", name)

    def test_tables_are_protected_and_restorable_outside_development(self):
        protected = {"Fn::If": ["Dev", False, True]}
        tables = of_type(self.template, "AWS::DynamoDB::Table")
        self.assertEqual(sorted(tables), ["AuditTable", "Table"])
        for name, table in tables.items():
            self.assertEqual(table["DeletionProtectionEnabled"], protected, name)
            recovery = table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
            self.assertEqual(recovery, protected, name)

    def test_keys_rotate(self):
        keys = of_type(self.template, "AWS::KMS::Key")
        self.assertEqual(sorted(keys), ["AccessKey", "PlatformKey"])
        for name, key in keys.items():
            self.assertIs(key["EnableKeyRotation"], True, name)

    def test_logs_do_not_stay_for_ever(self):
        groups = of_type(self.template, "AWS::Logs::LogGroup")
        for name, function in of_type(self.template, "AWS::Lambda::Function").items():
            self.assertIn(function["LoggingConfig"]["LogGroup"]["Ref"], groups, name)
        for name, group in groups.items():
            self.assertEqual(group["RetentionInDays"], {"Ref": "LogRetentionDays"}, name)


class Work(unittest.TestCase):
    def setUp(self):
        self.template = template.load()
        self.resources = self.template["Resources"]

    def test_a_message_is_not_handed_out_twice_while_its_worker_may_still_run(self):
        visibility = self.resources["WakeQueue"]["Properties"]["VisibilityTimeout"]
        timeout = self.resources["ApprovalsWorkerFunction"]["Properties"]["Timeout"]
        self.assertGreater(visibility, timeout)

    def test_a_message_that_keeps_failing_is_kept(self):
        redrive = self.resources["WakeQueue"]["Properties"]["RedrivePolicy"]
        self.assertEqual(redrive["deadLetterTargetArn"], attribute("WakeDeadLetters"))
        self.assertEqual(redrive["maxReceiveCount"], 5)
        mapping = self.resources["WakeMapping"]["Properties"]
        self.assertEqual(mapping["FunctionResponseTypes"], ["ReportBatchItemFailures"])
        # A literal: a number that came through a parameter is a string to the local stand-in.
        self.assertIsInstance(mapping["ScalingConfig"]["MaximumConcurrency"], int)

    def test_every_sweep_runs_each_minute_and_a_failed_start_is_kept(self):
        schedules = of_type(self.template, "AWS::Scheduler::Schedule")
        inputs = sorted(schedule["Target"]["Input"] for schedule in schedules.values())
        self.assertEqual(
            inputs, ['{"sweep":"approvals"}', '{"sweep":"tokens"}', '{"sweep":"turns"}']
        )
        for name, schedule in schedules.items():
            self.assertEqual(schedule["ScheduleExpression"], "rate(1 minute)", name)
            self.assertEqual(
                schedule["Target"]["DeadLetterConfig"]["Arn"], attribute("ScheduleDeadLetters"), name
            )

    def test_development_cannot_be_unlocked_in_another_environment(self):
        rule = self.template["Rules"]["DevStaysLocal"]
        self.assertEqual(rule["RuleCondition"], {"Fn::Equals": [{"Ref": "ToshiDev"}, "1"]})
        self.assertEqual(rule["Assertions"][0]["Assert"], {"Fn::Equals": [{"Ref": "Environment"}, "dev"]})
        self.assertEqual(self.template["Parameters"]["ToshiDev"]["Default"], "0")


if __name__ == "__main__":
    unittest.main()
