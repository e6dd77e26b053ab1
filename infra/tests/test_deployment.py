"""The template deployed to the local stand-in, with IAM enforced and functions that do nothing."""

import os
import shutil
import tempfile
import unittest
from pathlib import Path

import boto3
from botocore.exceptions import ClientError
from devstack import build
from devstack.cloud import Cloud
from devstack.common import REGION, Refused
from devstack.stack import Emulator

PARAMETERS = {
    "Environment": "dev",
    "ToshiDev": "1",
    "EnabledConnectors": "demo",
    "DemoEndpoint": "http://127.0.0.1:9/demo",
    "LlmUrl": "http://127.0.0.1:9/v1",
    "LlmModel": "scripted",
    "LlmKey": "any",
    "ChatResponse": "buffer",
    "AllowedOrigin": "http://127.0.0.1:9",
}
REFUSALS = {"AccessDeniedException", "AccessDenied", "AccessDeniedFault"}


def row(**values: str) -> dict:
    return {name: {"S": value} for name, value in values.items()}


class Deployment(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        binaries = cls.folder / "bin"
        binaries.mkdir()
        for name in build.FUNCTIONS.values():
            shutil.copy(os.path.realpath("/bin/true"), binaries / name)
        (cls.folder / "emulator").mkdir()
        emulator = Emulator(cls.folder, auth=True, keep=False)
        cls.addClassCleanup(emulator.stop)
        emulator.wait()
        cls.endpoint = emulator.url
        cls.cloud = Cloud(emulator.url)
        cls.parameters = {**cls.cloud.upload(build.zips(binaries)), **PARAMETERS}
        cls.outputs = cls.cloud.deploy(cls.parameters)
        root = boto3.Session("test", "test", region_name=REGION)
        cls.root = lambda _, service: root.client(service, endpoint_url=emulator.url)

    def acting_as(self, function: str):
        """A way to make clients that have a function's role and nothing else."""
        name = self.outputs[f"{function}FunctionName"]
        role = self.root("lambda").get_function_configuration(FunctionName=name)["Role"]
        lent = self.root("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
        session = boto3.Session(
            lent["AccessKeyId"], lent["SecretAccessKey"], lent["SessionToken"], region_name=REGION
        )
        return lambda service: session.client(service, endpoint_url=self.endpoint)

    def allowed(self, call, **arguments) -> bool:
        try:
            call(**arguments)
        except ClientError as error:
            if error.response["Error"]["Code"] in REFUSALS:
                return False
            raise
        return True

    def test_every_role_works_on_rows_and_can_only_add_to_the_audit(self):
        table, audit = self.outputs["TableName"], self.outputs["AuditTableName"]
        key, day = row(PK="T#x", SK="1"), row(DAY="T#x#2026-01-01", AT="2026-01-01T00:00:00Z")
        for function in ("Chat", "Approvals", "ApprovalsWorker", "Refresh"):
            with self.subTest(function):
                rows = self.acting_as(function)("dynamodb")
                writes = [
                    {"Put": {"TableName": table, "Item": key}},
                    {"Put": {"TableName": audit, "Item": key | day}},
                ]
                self.assertTrue(self.allowed(rows.transact_write_items, TransactItems=writes))
                self.assertTrue(self.allowed(rows.get_item, TableName=table, Key=key))
                self.assertTrue(self.allowed(rows.delete_item, TableName=table, Key=key))
                query = {
                    "KeyConditionExpression": "PK = :p",
                    "ExpressionAttributeValues": {":p": {"S": "T#x"}},
                }
                self.assertTrue(self.allowed(rows.query, TableName=audit, **query))
                update = {
                    "UpdateExpression": "SET a = :a",
                    "ExpressionAttributeValues": {":a": {"S": "forged"}},
                }
                self.assertFalse(self.allowed(rows.update_item, TableName=audit, Key=key, **update))
                self.assertFalse(self.allowed(rows.delete_item, TableName=audit, Key=key))
                removal = [{"Delete": {"TableName": audit, "Key": key}}]
                self.assertFalse(self.allowed(rows.transact_write_items, TransactItems=removal))
                self.assertFalse(self.allowed(rows.scan, TableName=table))

    def test_indexes_are_read_by_whoever_needs_them(self):
        readers = {"due": "Refresh", "day": "Approvals"}
        for function in ("Chat", "Approvals", "ApprovalsWorker", "Refresh"):
            rows = self.acting_as(function)("dynamodb")
            for index, key, table in (("due", "G1PK", "TableName"), ("day", "DAY", "AuditTableName")):
                with self.subTest(f"{function} {index}"):
                    query = {
                        "TableName": self.outputs[table],
                        "IndexName": index,
                        "KeyConditionExpression": f"{key} = :p",
                        "ExpressionAttributeValues": {":p": {"S": "x"}},
                    }
                    self.assertEqual(self.allowed(rows.query, **query), readers[index] == function)

    def test_only_what_runs_a_turn_decrypts(self):
        for key in ("AccessKeyArn", "PlatformKeyArn"):
            made = self.root("kms").generate_data_key(KeyId=self.outputs[key], KeySpec="AES_256")
            for function in ("Chat", "Approvals", "ApprovalsWorker", "Refresh"):
                with self.subTest(f"{function} {key}"):
                    kms = self.acting_as(function)("kms")
                    runs_turns = function in ("Chat", "ApprovalsWorker")
                    sealed = {"CiphertextBlob": made["CiphertextBlob"], "KeyId": self.outputs[key]}
                    self.assertEqual(self.allowed(kms.decrypt, **sealed), runs_turns)
                    seal = {"KeyId": self.outputs[key], "KeySpec": "AES_256"}
                    self.assertFalse(self.allowed(kms.generate_data_key, **seal))

    def test_every_role_wakes_and_only_the_worker_takes(self):
        for function in ("Chat", "Approvals", "ApprovalsWorker", "Refresh"):
            with self.subTest(function):
                queues = self.acting_as(function)("sqs")
                wake = {"QueueUrl": self.outputs["WakeQueueUrl"]}
                dead = {"QueueUrl": self.outputs["WakeDeadLettersUrl"]}
                takes = function == "ApprovalsWorker"
                self.assertTrue(self.allowed(queues.send_message, **wake, MessageBody="{}"))
                self.assertEqual(self.allowed(queues.receive_message, **wake), takes)
                self.assertFalse(self.allowed(queues.receive_message, **dead))
                self.assertFalse(self.allowed(queues.purge_queue, **wake))

    def test_deploying_again_changes_functions_and_keeps_rows(self):
        rows = self.root("dynamodb")
        kept = row(PK="T#kept", SK="1")
        rows.put_item(TableName=self.outputs["TableName"], Item=kept)
        self.assertEqual(self.cloud.deploy(self.parameters), self.outputs)
        again = self.cloud.deploy({**self.parameters, "ApprovalTtl": "20"})
        self.assertEqual(again, self.outputs)
        environment = self.cloud.environment(again["ChatFunctionName"])
        self.assertEqual(environment["TOSHI_APPROVAL_TTL"], "20")
        found = rows.get_item(TableName=again["TableName"], Key=kept)
        self.assertEqual(found.get("Item"), kept)

    def test_development_is_refused_in_another_environment(self):
        with self.assertRaisesRegex(Refused, "only for the environment"):
            self.cloud.deploy({**self.parameters, "Environment": "prod"})


if __name__ == "__main__":
    unittest.main()
