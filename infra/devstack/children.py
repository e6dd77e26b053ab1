"""Child processes of a stack: started with a log file, watched, and stopped gently."""

import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

from .common import stderr_line

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def end_with_parent() -> None:
    """In the child: be told to stop when the parent dies, however it dies (Linux only)."""
    if hasattr(LIBC, "prctl"):
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Child:
    """A running program of the stack."""

    def __init__(self, name: str, command: list, environment: dict[str, str], log: Path):
        self.name = name
        self.log = log
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Its own session: a Ctrl-C reaches only us, and we stop the parts in order.
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def ended(self) -> bool:
        return self.process.poll() is not None

    def tail(self, lines: int = 20) -> str:
        """The last lines of its log."""
        with open(self.log, "rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - 20_000))
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def stop(self, seconds: float) -> None:
        """Ask it to end and wait; it saves its state while it ends."""
        if self.ended():
            return
        self.process.terminate()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            stderr_line(f"{self.name} did not stop within {seconds:.0f} s and was killed")
            self.process.kill()
            self.process.wait()


def is_ours(pid: int, words: list[str]) -> bool:
    """Whether this process id belongs to a process whose command line has all these words."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return all(word.encode() in command for word in words)


def wait_for_end(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        state = Path(f"/proc/{pid}/stat")
        try:
            if state.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False
