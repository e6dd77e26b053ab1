"""The threat model names tests: each of them exists."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`([\w./-]+\.(?:rs|py))::(\w+)`")


class ThreatModel(unittest.TestCase):
    def test_every_named_test_exists(self):
        named = NAMED.findall((ROOT / "docs" / "threat-model.md").read_text())
        self.assertGreater(len(named), 20)
        for path, name in named:
            text = (ROOT / path).read_text()
            # A macro makes some tests from a name that stands before a colon.
            is_there = re.search(rf"\b(fn|def) {name}\(|^\s*{name}:", text, re.MULTILINE)
            self.assertTrue(is_there, f"{path} has no test {name}")
