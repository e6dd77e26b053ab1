"""Builds what a stack runs: the Rust binaries, the functions' zips, the web console."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from .common import CACHE, ROOT, Refused, digest, phase, remember, remembered
from .tools import prepared_by_one

# The template's parameter for a function's zip, and the binary inside it.
FUNCTIONS = {
    "ChatCode": "chat",
    "ApprovalsCode": "approvals",
    "ApprovalsWorkerCode": "approvals-worker",
    "RefreshCode": "refresh",
}
# Seeds the random generator from the kernel alone: docs/decisions/0015.
RELEASE_ENVIRONMENT = {"AWS_LC_SYS_NO_JITTER_ENTROPY": "1"}
# Of the runtime provided.al2023.
LAMBDA_GLIBC = (2, 34)
PACKAGES = ("toshi-chat", "toshi-approvals", "toshi-refresh")
FAILPOINTS = ROOT / "shared" / "failpoints" / "src" / "lib.rs"
WEB = ROOT / "web"
PEERS = ROOT / "tests" / "peers"
WEB_IGNORED = {"node_modules", "dist", "e2e", "test-results", "playwright-report"}


def target_folder() -> Path:
    """Where cargo puts its output, whatever sets it."""
    found = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1"],
        cwd=ROOT, capture_output=True, text=True,
    )
    if found.returncode:
        raise Refused(f"cargo cannot read the workspace: {found.stderr.strip()}")
    return Path(json.loads(found.stdout)["target_directory"])


def binaries() -> Path:
    """Build everything in the development profile; the folder with the binaries."""
    with phase("Rust build"), prepared_by_one():
        # As the tests select it: another selection would mean other features and a second copy of
        # the dependencies. `--examples` adds what only tests need to that choice, and no target.
        command = ["cargo", "build", "--workspace", "--bins", "--examples"]
        if subprocess.run(command, cwd=ROOT).returncode:
            raise Refused("the Rust build failed: see cargo's message above")
    return target_folder() / "debug"


def test_programs(package: str) -> list[Path]:
    """The built tests of one package, with the features that the whole workspace gives it.

    `cargo test -p` would choose other features and build most dependencies once more.
    """
    command = ["cargo", "test", "--workspace", "--no-run", "--message-format"]
    with phase("Rust test build"), prepared_by_one():
        built = subprocess.run(
            [*command, "json-render-diagnostics"], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
    if built.returncode:
        raise Refused("the Rust tests could not be built: see cargo's message above")
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    return [
        Path(message["executable"])
        for message in messages
        if message.get("executable")
        and message["profile"]["test"]
        and re.search(rf"[/#]{re.escape(package)}[@#]", message["package_id"])
    ]


def host_target() -> str:
    """The target of this machine, as rustc calls it."""
    told = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    return re.search(r"^host: (.+)$", told, re.MULTILINE)[1]


def release_binaries(target: str) -> Path:
    """Build the functions alone, as they are shipped; the folder with the binaries."""
    library = subprocess.run(
        ["rustc", "--print", "target-libdir", "--target", target], capture_output=True, text=True
    )
    if library.returncode or not Path(library.stdout.strip()).is_dir():
        raise Refused(f"Rust cannot build for {target} here: run `rustup target add {target}`")
    command = ["cargo", "build", "--release", "--bins", "--target", target]
    for package in PACKAGES:
        command += ["-p", package]
    with phase(f"release build for {target}"), prepared_by_one():
        if subprocess.run(command, cwd=ROOT, env={**os.environ, **RELEASE_ENVIRONMENT}).returncode:
            raise Refused("the release build failed: see cargo's message above")
    folder = target_folder() / target / "release"
    require_no_failpoints(folder)
    return folder


def failpoints() -> list[bytes]:
    """The names in the registry of failpoints; only a build that can stop there contains them."""
    return [name.encode() for name in re.findall(r' = "(\w+::\w+)",$', FAILPOINTS.read_text(), re.M)]


def require_no_failpoints(folder: Path) -> None:
    """Refuse to ship binaries that a test could end at a failpoint."""
    names = failpoints()
    for name in FUNCTIONS.values():
        code = (folder / name).read_bytes()
        found = [point.decode() for point in names if point in code]
        if found:
            raise Refused(f"{name} contains failpoints ({found[0]} …), which are for tests only")


def bench_binary(target: str) -> Path:
    """Build what measures, apart from the functions: together they would share features."""
    command = ["cargo", "build", "--release", "--target", target, "-p", "toshi-bench"]
    with phase("release build of the measurements"), prepared_by_one():
        if subprocess.run(command, cwd=ROOT, env={**os.environ, **RELEASE_ENVIRONMENT}).returncode:
            raise Refused("the release build failed: see cargo's message above")
    return target_folder() / target / "release" / "toshi-bench"


def newest_glibc(binary: Path) -> tuple[int, ...]:
    """The newest version of the C library that a binary asks for."""
    asked = re.findall(rb"GLIBC_(\d+)\.(\d+)", binary.read_bytes())
    return max((tuple(map(int, version)) for version in asked), default=(0,))


def require_old_glibc(folder: Path) -> None:
    """Refuse binaries that the functions' runtime could not load."""
    for name in FUNCTIONS.values():
        needed = newest_glibc(folder / name)
        if needed > LAMBDA_GLIBC:
            raise Refused(
                f"{name} needs glibc {'.'.join(map(str, needed))} and provided.al2023 has "
                f"{'.'.join(map(str, LAMBDA_GLIBC))}: build on an older system, such as Amazon Linux 2023"
            )


def zips(folder: Path, level: int = 1) -> dict[str, Path]:
    """One zip per function, by template parameter; a zip is made again when its binary changed."""
    store = folder / "lambda"
    with prepared_by_one(store):
        return {
            parameter: zipped(folder / name, store / name, level)
            for parameter, name in FUNCTIONS.items()
        }


def zipped(binary: Path, store: Path, level: int) -> Path:
    stat = binary.stat()
    target = store / f"{stat.st_mtime_ns}-{stat.st_size}.zip"
    if not target.exists():
        # The last one stays: another command may be about to read it.
        for old in sorted(store.glob("*.zip"), key=lambda path: path.stat().st_mtime)[:-1]:
            old.unlink(missing_ok=True)
        store.mkdir(parents=True, exist_ok=True)
        pack(binary, target, level)
    return target


def pack(binary: Path, target: Path, level: int) -> None:
    """A stripped copy of the binary as the executable `bootstrap`, byte for byte reproducible."""
    entry = zipfile.ZipInfo("bootstrap", date_time=(1980, 1, 1, 0, 0, 0))
    entry.create_system = 3
    entry.external_attr = 0o100755 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    with tempfile.TemporaryDirectory(
        prefix="pack-", dir=target.parent, ignore_cleanup_errors=True
    ) as temporary:
        stripped, partial = Path(temporary, "bootstrap"), Path(temporary, "zip")
        done = subprocess.run(
            ["strip", "-s", "-o", stripped, binary], capture_output=True, text=True
        )
        if done.returncode:
            raise Refused(f"strip cannot read {binary}: {done.stderr.strip()}")
        with zipfile.ZipFile(partial, "w") as archive:
            archive.writestr(entry, stripped.read_bytes(), compresslevel=level)
        os.replace(partial, target)


def code_key(path: Path) -> str:
    """The object key of a zip: its content decides, so that unchanged code is no change."""
    return f"functions/{path.parent.name}-{hashlib.sha256(path.read_bytes()).hexdigest()[:20]}.zip"


def web_packages() -> None:
    """Install the console's packages when their list changed."""
    node_packages(WEB, "web")


def peer_packages() -> None:
    """Install the clients and servers of others that the peer tests run."""
    node_packages(PEERS, "peers")


def node_packages(folder: Path, name: str) -> None:
    with prepared_by_one():
        lock = digest([folder / "package-lock.json"], folder)
        if remembered(f"{name}-packages") != lock or not (folder / "node_modules").is_dir():
            with phase(f"{name} packages"):
                remember(f"{name}-packages", "")
                npm(folder, "ci", "--no-audit", "--no-fund")
                remember(f"{name}-packages", lock)


def web() -> Path:
    """The console's static files, built when one of its inputs changed."""
    dist = WEB / "dist"
    web_packages()
    with prepared_by_one():
        inputs = digest(web_inputs(), WEB)
        if remembered("web-build") != inputs or not (dist / "index.html").exists():
            with phase("web build"):
                npm(WEB, "run", "build")
                remember("web-build", inputs)
    return dist


def web_inputs() -> list[Path]:
    found = []
    for folder, folders, files in os.walk(WEB):
        folders[:] = [name for name in folders if name not in WEB_IGNORED]
        found += [
            Path(folder, name) for name in files if not name.endswith(".tsbuildinfo")
        ]
    return found


def npm(folder: Path, *arguments: str) -> None:
    log = CACHE / f"npm-{folder.name}-{arguments[0]}.log"
    with open(log, "w") as output:
        done = subprocess.run(
            ["npm", *arguments], cwd=folder, stdout=output, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    if done.returncode:
        tail = "\n".join(log.read_text().splitlines()[-20:])
        raise Refused(f"{tail}\nnpm {' '.join(arguments)} failed in {folder.relative_to(ROOT)}: all of it is in {log}")
