"""Reads template.yaml with CloudFormation's short forms spelt out."""

from pathlib import Path

import yaml

PATH = Path(__file__).resolve().parents[1] / "template.yaml"


class Loader(yaml.SafeLoader):
    """A loader of its own, so that the tags stay out of yaml's shared one."""


def intrinsic(loader: Loader, suffix: str, node: yaml.Node):
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        return {name: value.split(".", 1) if suffix == "GetAtt" else value}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    return {name: loader.construct_mapping(node, deep=True)}


Loader.add_multi_constructor("!", intrinsic)


def load() -> dict:
    return yaml.load(PATH.read_text(), Loader)


def of_type(template: dict, kind: str) -> dict[str, dict]:
    """The resources of a type: logical id to properties."""
    return {
        name: resource["Properties"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == kind
    }


def statements(template: dict, role: str) -> list[dict]:
    """The statements that a role always has, without those under a condition."""
    policies = template["Resources"][role]["Properties"]["Policies"]
    return [
        statement
        for policy in policies
        if "PolicyDocument" in policy
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def listed(value) -> list:
    return value if isinstance(value, list) else [value]
