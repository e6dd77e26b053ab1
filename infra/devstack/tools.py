"""The tools a machine must have, and the Python environments made from pinned lists."""

import fcntl
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from .common import CACHE, ROOT, Refused, digest, remember, remembered, stderr_line

NODE_MAJOR = 20
ENVIRONMENTS = {
    "run": ROOT / "infra" / "requirements.txt",
    "lint": ROOT / "infra" / "requirements-lint.txt",
}


def require_tools() -> None:
    """Refuse with one line per missing tool, each saying what to do."""
    missing = []
    if not shutil.which("cargo"):
        missing.append("cargo is missing: install Rust 1.95 with rustup (https://rustup.rs)")
    if not shutil.which("cc"):
        missing.append("cc is missing: install a C compiler (Debian: apt-get install build-essential)")
    if not shutil.which("strip"):
        missing.append("strip is missing: install binutils (Debian: apt-get install binutils)")
    if not shutil.which("npm"):
        missing.append(f"npm is missing: install Node.js {NODE_MAJOR} or newer (https://nodejs.org)")
    if not shutil.which("node"):
        missing.append(f"node is missing: install Node.js {NODE_MAJOR} or newer (https://nodejs.org)")
    else:
        version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
        if int(version.strip().lstrip("v").split(".")[0] or 0) < NODE_MAJOR:
            missing.append(
                f"node {version.strip()} is too old: install Node.js {NODE_MAJOR} or newer"
            )
    if missing:
        raise Refused("\n".join(missing))


@contextmanager
def prepared_by_one():
    """Let only one command at a time install and build."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stderr_line("· waiting for another command that installs or builds …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def environment_python(name: str) -> Path:
    """The interpreter of a Python environment, made or renewed when its list changed."""
    listed = ENVIRONMENTS[name]
    folder = ROOT / ".venv" / name
    python = folder / "bin" / "python"
    wanted = f"{sys.version_info[:2]} {digest([listed], ROOT)}"
    with prepared_by_one():
        if python.exists() and remembered(f"venv-{name}") == wanted:
            return python
        stderr_line(f"· Python packages for {name} (infra/{listed.name}) …")
        remember(f"venv-{name}", "")
        made = subprocess.run(
            [sys.executable, "-m", "venv", "--clear", folder], capture_output=True, text=True
        )
        if made.returncode:
            raise Refused(
                "python cannot make a virtual environment: install its venv module "
                "(Debian: apt-get install python3-venv)"
            )
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*pip, "-r", listed]).returncode:
            raise Refused(f"pip could not install infra/{listed.name}: see its message above")
        remember(f"venv-{name}", wanted)
    return python
