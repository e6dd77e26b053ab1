"""Paths, output and small helpers that every part of the commands shares."""

import hashlib
import os
import random
import socket
import sys
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / ".toshi"
CACHE = STATE / "cache"
REGION = "eu-west-1"
STACK = "toshi"
LOOPBACK = "127.0.0.1"
# The emulator takes any credentials; these are the ones that everything here uses.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


class Refused(Exception):
    """The command cannot go on; the text is the one line that says what to do."""


def say(text: str) -> None:
    print(text, flush=True)


@contextmanager
def phase(name: str):
    """Announce a phase when it starts and how long it took when it ends."""
    say(f"· {name} …")
    began = time.monotonic()
    yield
    say(f"  {name}: {time.monotonic() - began:.1f} s")


def bind_error(port: int) -> OSError | None:
    """Why nothing could listen on a port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return error
    return None


def in_use(port: int) -> bool:
    return bind_error(port) is not None


def next_free_port(port: int) -> int:
    """The first port above this one on which something could listen now."""
    found = (other for other in range(port + 1, 65536) if not in_use(other))
    return next(found, None) or free_port()


def free_port() -> int:
    """A free port outside the range from which the kernel takes ports for outgoing connections."""
    for port in random.sample(range(20000, 30000), 200):
        if not in_use(port):
            return port
    raise Refused("no free port between 20000 and 30000: end some servers and try again")


def digest(paths, base: Path) -> str:
    """A digest over names and contents of files."""
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(str(path.relative_to(base)).encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def remembered(name: str) -> str:
    """What was recorded under this name in the cache folder, or nothing."""
    path = CACHE / name
    return path.read_text() if path.exists() else ""


def make_state() -> None:
    """The state folder, readable by its owner alone: it may hold a model's key."""
    STATE.mkdir(mode=0o700, exist_ok=True)


def remember(name: str, value: str) -> None:
    make_state()
    CACHE.mkdir(exist_ok=True)
    write(CACHE / name, value)


def write(path: Path, text: str) -> None:
    """Replace a file in one step, so that a reader sees the old or the new text."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    os.replace(partial, path)


def wait_until(check, seconds: float, every: float = 0.1):
    """Poll until `check` gives something true; its last value when the deadline passes."""
    deadline = time.monotonic() + seconds
    while True:
        value = check()
        if value or time.monotonic() >= deadline:
            return value
        time.sleep(every)


def stderr_line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
