"""The parts of `make run` that can be shown without a stack."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

from devstack import build, children, commands, common, requests, settings, stack, tools

DEV = Path(__file__).resolve().parents[1] / "dev.py"
CHOICES = ("APPROVAL_TTL", "TOSHI_LLM_URL", "TOSHI_LLM_MODEL", "TOSHI_LLM_KEY")


def dev(*arguments, **environment: str) -> subprocess.CompletedProcess:
    """Run a command as a person does whose shell chooses only this."""
    kept = {name: value for name, value in os.environ.items() if name not in CHOICES}
    return subprocess.run(
        [sys.executable, DEV, *map(str, arguments)],
        env={**kept, **environment}, capture_output=True, text=True, timeout=60,
    )


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

    def test_a_binary_with_a_failpoint_is_refused(self):
        names = build.failpoints()
        self.assertIn(b"claim::after_commit", names)
        with tempfile.TemporaryDirectory() as folder:
            for name in build.FUNCTIONS.values():
                Path(folder, name).write_bytes(b"\x7fELF..claim::after\0")
            build.require_no_failpoints(Path(folder))
            for point in names:
                Path(folder, "approvals").write_bytes(b"\x7fELF.." + point + b"..")
                with self.assertRaisesRegex(common.Refused, "approvals contains failpoints"):
                    build.require_no_failpoints(Path(folder))


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


class Server:
    """Something that listens on a port, is no Toshi, and answers every request with these bytes."""

    def __init__(self, answer: bytes):
        self.answer = answer
        self.socket = socket.create_server((common.LOOPBACK, 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(self.answer)

    def __enter__(self) -> int:
        return self.port

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(10)


def http(status: str, body: str) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()


STRANGERS = {
    "a page": http("200 OK", "<html>hello</html>"),
    "a page that is not there": http("404 Not Found", "<html>no</html>"),
    "another's JSON": http("404 Not Found", '{"detail": "Not Found"}'),
    "JSON that is no object": http("500 Oh", "[1]"),
    "an empty error": http("405 No", ""),
    "a way elsewhere": b"HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n",
    "an answer cut short": b"HTTP/1.1 500 Oh\r\ncontent-length: 99\r\n\r\n{",
    "no HTTP": b"SSH-2.0-OpenSSH\r\n",
    "nothing": b"",
}


class Requests(unittest.TestCase):
    def test_a_token_asked_of_something_else_than_toshi_is_one_line(self):
        for name, answer in STRANGERS.items():
            with self.subTest(name), Server(answer) as port:
                with self.assertRaises(common.Refused) as refused:
                    commands.token("lakeside", "admin", port)
                self.assertIn(f"what answers on port {port} is not Toshi", str(refused.exception))
                self.assertEqual(len(str(refused.exception).splitlines()), 1)

    def test_a_token_asked_of_nobody_says_how_to_start(self):
        port = common.free_port()
        with self.assertRaisesRegex(common.Refused, f"nothing answers on port {port}: start it"):
            commands.token("lakeside", "admin", port)

    def test_a_token_that_toshi_refuses_has_its_words(self):
        words = '{"status": 404, "code": "not_found", "detail": "No such school."}'
        with Server(http("404 Not Found", words)) as port:
            with self.assertRaisesRegex(common.Refused, "admin of lakeside: No such school."):
                commands.token("lakeside", "admin", port)

    def test_a_token_is_printed_alone(self):
        with Server(http("200 OK", "aa.b-b.c_c\n")) as port:
            done = dev("token", "--tenant", "lakeside", "--as", "admin", "--port", port)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "aa.b-b.c_c\n", ""))

    def test_a_status_is_a_number_or_words_whatever_answers(self):
        for name, answer in STRANGERS.items():
            with self.subTest(name), Server(answer) as port:
                found = requests.status(f"http://{common.LOOPBACK}:{port}/v1/health")
                self.assertIsInstance(found, (int, str))

    def test_a_proxy_of_the_shell_is_not_asked(self):
        proxy = {"http_proxy": f"http://{common.LOOPBACK}:1", "no_proxy": ""}
        with Server(http("200 OK", "a.b.c")) as port:
            done = dev("token", "--tenant", "t", "--as", "admin", "--port", port, **proxy)
        self.assertEqual((done.returncode, done.stdout), (0, "a.b.c\n"), done.stderr)


class Settings(unittest.TestCase):
    def refused(self, *command, **environment) -> str:
        done = dev(*command, **environment)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def test_a_port_that_is_none_is_one_line(self):
        for port in ("x", "99999", "0", "-1", "", "8_0", "08080", "٣"):
            with self.subTest(port):
                told = self.refused("run", f"--port={port}")
                self.assertIn(f"{port!r} is no port: use a number from 1 to 65535", told)

    def test_a_lifetime_that_is_none_is_one_line_before_the_build(self):
        for lifetime in ("abc", "0", "-5", "1.5", "20s", "604801", " "):
            with self.subTest(lifetime):
                told = self.refused("run", "--port", common.free_port(), APPROVAL_TTL=lifetime)
                self.assertIn(f"APPROVAL_TTL is {lifetime!r}: use a number of seconds", told)

    def test_a_lifetime_may_be_left_out_or_a_week(self):
        for lifetime in ("", "1", "604800"):
            with mock.patch.dict(os.environ, APPROVAL_TTL=lifetime):
                self.assertEqual(settings.approval_ttl(), lifetime)

    def test_half_a_model_is_one_line_before_the_build(self):
        port = common.free_port()
        url = "https://llm.example.com/v1"
        told = self.refused("run", "--port", port, TOSHI_LLM_URL=url)
        self.assertIn("TOSHI_LLM_URL is set without TOSHI_LLM_MODEL", told)
        told = self.refused("run", "--port", port, TOSHI_LLM_MODEL="large")
        self.assertIn("TOSHI_LLM_MODEL is set without TOSHI_LLM_URL", told)
        told = self.refused("run", "--port", port, TOSHI_LLM_URL="llm", TOSHI_LLM_MODEL="large")
        self.assertIn("TOSHI_LLM_URL is 'llm': use an address", told)

    def test_a_whole_model_is_taken(self):
        own = {"TOSHI_LLM_URL": "https://llm.example.com/v1", "TOSHI_LLM_MODEL": "large"}
        with mock.patch.dict(os.environ, {**own, "TOSHI_LLM_KEY": "k"}):
            self.assertEqual(settings.own_model(), (*own.values(), "k"))


class Words(unittest.TestCase):
    def described(self, **environment) -> str:
        with mock.patch.dict(os.environ, environment), redirect_stdout(StringIO()) as told:
            stack.Stack(8123, stack.folder_for(8123)).describe()
        return told.getvalue()

    def test_after_the_start_name_the_pages_to_open(self):
        told = self.described(APPROVAL_TTL="")
        self.assertIn("http://127.0.0.1:8123/_sandbox\n", told)
        self.assertIn("http://127.0.0.1:8123/v1/openapi.json\n", told)
        self.assertNotIn("APPROVAL_TTL", told)

    def test_after_the_start_name_how_long_questions_wait(self):
        self.assertIn("wait 20 s for an answer", self.described(APPROVAL_TTL="20"))

    def test_of_a_reset_say_whether_there_was_something(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(stack, "STATE", Path(folder)):
            with redirect_stdout(StringIO()) as told:
                commands.reset(8123)
                Path(folder, "8123").mkdir()
                commands.reset(8123)
            self.assertEqual(os.listdir(folder), [])
        nothing, removed = told.getvalue().splitlines()
        self.assertIn("there is nothing to remove: port 8123", nothing)
        self.assertEqual(removed, "removed the data of port 8123")


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
        self.assertNotIn(f"PORT={port}`", done.stderr)

    def test_the_port_to_use_instead_is_free(self):
        with Server(b"") as port:
            other = common.next_free_port(port)
            self.assertGreater(other, port)
            self.assertFalse(common.in_use(other))
            with self.assertRaisesRegex(common.Refused, f"another with `make run PORT={other}`"):
                commands.require_port(port)

    def test_a_missing_tool_is_one_line_that_says_what_to_do(self):
        advice = {
            "cargo": "install Rust", "cc": "install a C compiler", "strip": "install binutils",
            "npm": "install Node.js", "node": "install Node.js",
        }
        for missing, words in advice.items():
            with self.subTest(missing), tempfile.TemporaryDirectory() as folder:
                for tool in advice.keys() - {missing}:
                    Path(folder, tool).symlink_to(shutil.which(tool))
                done = dev("run", "--port", common.free_port(), PATH=folder)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(f"{missing} is missing: {words}", done.stderr)

    def test_a_command_that_is_none_is_one_line(self):
        with self.assertRaisesRegex(common.Refused, "no-such-tool cannot be run"):
            commands.execute_here(["no-such-tool"], dict(os.environ))


if __name__ == "__main__":
    unittest.main()
