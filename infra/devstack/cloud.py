"""Deploys the template by CloudFormation: to the local stand-in here, by the same calls as on AWS."""

import time
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from .build import code_key
from .common import REGION, ROOT, STACK, Refused

TEMPLATE = ROOT / "infra" / "template.yaml"
BUCKET = "toshi-code"
Unreachable = (BotoCoreError, ClientError)


class Cloud:
    """The stand-in's services that a deployment uses."""

    def __init__(self, endpoint: str):
        self.endpoint = endpoint
        session = boto3.Session("test", "test", region_name=REGION)
        config = Config(
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 1},
            connect_timeout=5,
            read_timeout=120,
        )

        def client(service: str):
            return session.client(service, endpoint_url=endpoint, config=config)

        self.formation = client("cloudformation")
        self.functions = client("lambda")
        self.objects = client("s3")
        self.logs = client("logs")

    def upload(self, files: dict[str, Path]) -> dict[str, str]:
        """Put the zips and the template into the bucket; parameters that name the zips."""
        try:
            self.objects.create_bucket(
                Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "BucketAlreadyOwnedByYou":
                raise
        keys = {"CodeBucket": BUCKET}
        for parameter, path in files.items():
            keys[parameter] = code_key(path)
            self.objects.put_object(Bucket=BUCKET, Key=keys[parameter], Body=path.read_bytes())
        self.objects.put_object(Bucket=BUCKET, Key="template.yaml", Body=TEMPLATE.read_bytes())
        return keys

    def deploy(self, parameters: dict[str, str]) -> dict[str, str]:
        """Create or update the stack and wait; its outputs."""
        request = {
            "StackName": STACK,
            "TemplateURL": f"{self.endpoint}/{BUCKET}/template.yaml",
            "Parameters": [
                {"ParameterKey": key, "ParameterValue": value}
                for key, value in parameters.items()
            ],
            "Capabilities": ["CAPABILITY_IAM"],
        }
        known = self.describe()
        try:
            if known is None:
                self.formation.create_stack(**request)
            else:
                self.formation.update_stack(**request)
        except ClientError as error:
            message = error.response["Error"]["Message"]
            if "No updates are to be performed" in message:
                return outputs(known)
            raise Refused(f"CloudFormation refused the template: {message}") from error
        return outputs(self.wait())

    def describe(self) -> dict | None:
        try:
            return self.formation.describe_stacks(StackName=STACK)["Stacks"][0]
        except ClientError as error:
            if "does not exist" in error.response["Error"]["Message"]:
                return None
            raise

    def wait(self) -> dict:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            stack = self.describe()
            status = stack["StackStatus"]
            if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
                return stack
            if "FAILED" in status or "ROLLBACK" in status:
                raise Refused(f"the deployment ended as {status}:\n{self.failures()}")
            time.sleep(0.2)
        raise Refused("the deployment took longer than 120 s; see the emulator's log")

    def failures(self) -> str:
        events = self.formation.describe_stack_events(StackName=STACK)["StackEvents"]
        return "\n".join(
            f"  {event['LogicalResourceId']}: {event.get('ResourceStatusReason', '')}"
            for event in reversed(events)
            if event["ResourceStatus"].endswith("FAILED")
        )

    def environment(self, function: str) -> dict[str, str]:
        """The environment that the template gave a deployed function."""
        found = self.functions.get_function_configuration(FunctionName=function)
        return found.get("Environment", {}).get("Variables", {})


    def save_logs(self, folder: Path) -> None:
        """Write what the deployed functions logged, one file each; on AWS it is in CloudWatch."""
        for group in self.logs.describe_log_groups(logGroupNamePrefix="/aws/lambda/")["logGroups"]:
            name = group["logGroupName"]
            pages = self.logs.get_paginator("filter_log_events").paginate(logGroupName=name)
            with open(folder / f"{name.rpartition('/')[2]}.log", "w") as output:
                for page in pages:
                    for event in page["events"]:
                        output.write(event["message"].rstrip("\n") + "\n")


def outputs(stack: dict) -> dict[str, str]:
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
