"""Which crate may depend on which, read from cargo's own metadata."""

import json
import subprocess
import unittest
from pathlib import Path

from devstack.build import PACKAGES

ROOT = Path(__file__).resolve().parents[2]

# What a crate of ours may use of our own crates. Dependencies point one way.
MAY_USE = {
    "toshi-core": set(),
    "toshi-failpoints": set(),
    "toshi-tls": set(),
    "toshi-store": {"toshi-core"},
    "toshi-connectors": {"toshi-core", "toshi-failpoints", "toshi-store", "toshi-tls"},
    "toshi-agent": {"toshi-core", "toshi-failpoints", "toshi-store", "toshi-connectors"},
    "toshi-http": {"toshi-core", "toshi-failpoints", "toshi-store", "toshi-tls"},
}
SHIPPED = ("toshi-chat", "toshi-approvals", "toshi-refresh", "toshi-cli")
NEVER_SHIPPED = {
    "toshi-sandbox",
    "toshi-tests",
    "toshi-test-support",
    "toshi-bench",
    "toshi-conformance",
    "dynoxide-rs",
}
MAY_CALL_HTTP = {"toshi-connectors", "toshi-agent", "toshi-http"}
IMPURE = ("tokio", "reqwest", "hyper", "aws-config", "aws-sdk-", "lambda_runtime", "rmcp")
LONGEST_MAIN = 80


def features(crate: str, *selection: str) -> set[str]:
    """The features that a crate gets when cargo builds this selection."""
    command = ["cargo", "tree", "--locked", "--prefix", "none", "--format", "{p} {f}", *selection]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    found = [line for line in lines if line and line[0] == crate]
    assert found, f"{crate} is in no such build"
    # Name, version, path, features; and a mark where the same was printed before.
    return {name for line in found for name in line[3:4] if name != "(*)"}


def read_metadata() -> dict:
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


class Crates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        metadata = read_metadata()
        members = set(metadata["workspace_members"])
        cls.names = {package["id"]: package["name"] for package in metadata["packages"]}
        cls.ours = {p["name"]: p for p in metadata["packages"] if p["id"] in members}
        cls.nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
        reached = set().union(*(cls.linked(crate) for crate in SHIPPED))
        cls.shipped = set(SHIPPED) | (reached & set(cls.ours))

    def direct(self, crate: str, kinds=(None,)) -> dict[str, dict]:
        """Declared dependencies of a crate; kind None is what cargo calls a normal one."""
        found = self.ours[crate]["dependencies"]
        return {item["name"]: item for item in found if item["kind"] in kinds}

    @classmethod
    def linked(cls, crate: str) -> set[str]:
        """Every crate that ends up in this one, directly or not."""
        seen, todo = set(), [cls.ours[crate]["id"]]
        while todo:
            for dependency in cls.nodes[todo.pop()]["deps"]:
                normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
                if normal and dependency["pkg"] not in seen:
                    seen.add(dependency["pkg"])
                    todo.append(dependency["pkg"])
        return {cls.names[package] for package in seen}

    def test_dependencies_point_one_way(self):
        for crate, allowed in MAY_USE.items():
            used = {name for name in self.direct(crate) if name in self.ours}
            self.assertLessEqual(used, allowed, crate)

    def test_core_is_pure(self):
        found = {name for name in self.linked("toshi-core") if name.startswith(IMPURE)}
        self.assertEqual(found, set())

    def test_one_crate_can_reach_a_tool(self):
        using = {crate for crate in self.shipped if "rmcp" in self.direct(crate, (None, "build"))}
        self.assertEqual(using, {"toshi-connectors"})
        features = self.direct("toshi-connectors")["rmcp"]["features"]
        self.assertIn("client", features)

    def test_only_the_store_and_the_wiring_of_its_clients_know_aws(self):
        using = {
            crate
            for crate in self.shipped
            for name in self.direct(crate)
            if name == "aws-config" or name.startswith("aws-sdk-")
        }
        self.assertEqual(using, {"toshi-store", "toshi-http"})

    def test_few_crates_call_over_http(self):
        using = {crate for crate in self.shipped if "reqwest" in self.direct(crate)}
        self.assertEqual(using, MAY_CALL_HTTP)

    def test_stand_ins_and_tests_are_never_shipped(self):
        for crate in SHIPPED:
            self.assertEqual(self.linked(crate) & NEVER_SHIPPED, set(), crate)

    def test_only_builds_for_tests_can_be_ended_at_a_failpoint(self):
        functions = [word for package in PACKAGES for word in ("-p", package)]
        for selection in (functions, ["-p", "toshi-cli"]):
            shipped = features("toshi-failpoints", "-e", "normal,build", *selection)
            self.assertEqual(shipped, set(), selection)
        tested = features("toshi-failpoints", "-e", "normal,build,dev", "--workspace")
        self.assertEqual(tested, {"failpoints"})

    def test_every_crate_takes_the_workspace_lints(self):
        for crate, package in self.ours.items():
            manifest = Path(package["manifest_path"]).read_text()
            self.assertIn("[lints]\nworkspace = true", manifest, crate)

    def test_binaries_of_functions_only_wire(self):
        for crate in SHIPPED[:3]:
            for target in self.ours[crate]["targets"]:
                if "bin" in target["kind"]:
                    lines = len(Path(target["src_path"]).read_text().splitlines())
                    self.assertLessEqual(lines, LONGEST_MAIN, target["src_path"])


if __name__ == "__main__":
    unittest.main()
