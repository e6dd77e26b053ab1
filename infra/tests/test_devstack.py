"""The parts of `make run` that can be shown without a stack."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from devstack import build, children, common, tools

DEV = Path(__file__).resolve().parents[1] / "dev.py"


class Zips(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for name in build.FUNCTIONS.values():
            shutil.copy(os.path.realpath("/bin/true"), self.folder / name)

    def test_hold_one_executable_bootstrap(self):
        with zipfile.ZipFile(build.zips(self.folder)["ChatCode"]) as archive:
            self.assertEqual(archive.namelist(), ["bootstrap"])
            self.assertEqual(archive.getinfo("bootstrap").external_attr >> 16, 0o100755)

    def test_are_the_same_bytes_for_the_same_binary(self):
        first = build.zips(self.folder)["ChatCode"].read_bytes()
        os.utime(self.folder / "chat", ns=(1, 1))
        again = build.zips(self.folder)["ChatCode"]
        self.assertEqual(again.name.split("-")[0], "1")
        self.assertEqual(again.read_bytes(), first)

    def test_are_made_again_when_the_binary_changes(self):
        before = build.code_key(build.zips(self.folder)["ChatCode"])
        shutil.copy(os.path.realpath("/bin/false"), self.folder / "chat")
        self.assertNotEqual(build.code_key(build.zips(self.folder)["ChatCode"]), before)


    def test_are_made_by_one_of_two_checkouts_that_share_the_folder(self):
        """Each has a state folder of its own; the lock is in what they share."""
        script = (
            "import sys\n"
            "from pathlib import Path\n"
            "from devstack import build, common, tools\n"
            "common.STATE = common.CACHE = tools.CACHE = Path(sys.argv[1])\n"
            "for path in build.zips(Path(sys.argv[2])).values():\n"
            "    print(path, len(path.read_bytes()))\n"
        )
        with tools.prepared_by_one(self.folder / "lambda"):
            checkouts = [
                subprocess.Popen(
                    [sys.executable, "-c", script, self.folder / f"state-{number}", self.folder],
                    cwd=DEV.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                )
                for number in range(2)
            ]
            # Both are at the door, and go at the same moment.
            for checkout in checkouts:
                self.assertIn("waiting for another", checkout.stderr.readline())
        told = [checkout.communicate(timeout=60) for checkout in checkouts]
        self.assertEqual([checkout.returncode for checkout in checkouts], [0, 0], told)
        self.assertEqual(told[0], told[1])
        left = [path for path in self.folder.glob("lambda/*/*") if path.suffix != ".zip"]
        self.assertEqual(left, [])

    def test_can_be_packed_twice_at_the_same_moment(self):
        target = self.folder / "same.zip"
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: build.pack(self.folder / "chat", target, 1), range(16)))
        with zipfile.ZipFile(target) as archive:
            self.assertIsNone(archive.testzip())
        self.assertEqual(list(self.folder.glob("pack-*")), [])

    def test_of_something_else_than_a_binary_are_refused(self):
        Path(self.folder, "chat").write_text("no binary")
        with self.assertRaisesRegex(common.Refused, "strip cannot read"):
            build.zips(self.folder)


class Releases(unittest.TestCase):
    def test_a_binary_that_asks_for_a_newer_c_library_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in build.FUNCTIONS.values():
                Path(folder, name).write_bytes(b"\x7fELF..GLIBC_2.9\0GLIBC_2.34\0GLIBC_PRIVATE")
            build.require_old_glibc(Path(folder))
            Path(folder, "refresh").write_bytes(b"GLIBC_2.34\0GLIBC_2.36\0")
            with self.assertRaisesRegex(common.Refused, "refresh needs glibc 2.36"):
                build.require_old_glibc(Path(folder))


class Processes(unittest.TestCase):
    def test_a_recorded_pid_that_now_belongs_to_another_program_is_not_ours(self):
        self.assertFalse(children.is_ours(os.getpid(), ["run", "--port", "8080"]))

    def test_a_child_is_asked_to_end_and_waited_for(self):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "log")
            script = (
                "import signal, sys, time\n"
                "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(0)))\n"
                "print('up', flush=True)\n"
                "time.sleep(60)\n"
            )
            child = children.Child("script", [sys.executable, "-c", script], dict(os.environ), log)
            self.assertTrue(common.wait_until(lambda: "up" in child.tail(), 20))
            child.stop(20)
            self.assertEqual(child.process.returncode, 0)
            self.assertEqual(child.tail().splitlines(), ["up", "saved"])


class Refusals(unittest.TestCase):
    def test_a_port_in_use_is_one_line_that_says_what_to_do(self):
        with socket.socket() as taken:
            taken.bind((common.LOOPBACK, 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = subprocess.run(
                [sys.executable, DEV, "run", "--port", str(port)], capture_output=True, text=True
            )
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(f"port {port} is in use", done.stderr)
        self.assertIn("make run PORT=", done.stderr)

    def test_a_missing_tool_is_one_line_that_says_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            for tool in ("cc", "strip", "node", "npm"):
                Path(folder, tool).symlink_to(shutil.which(tool))
            done = subprocess.run(
                [sys.executable, DEV, "run", "--port", "1"],
                env={"PATH": folder}, capture_output=True, text=True,
            )
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("cargo is missing: install Rust", done.stderr)


if __name__ == "__main__":
    unittest.main()
