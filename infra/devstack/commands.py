"""What can be asked for on the command line."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from . import build
from .children import is_ours, wait_for_end
from .common import (
    LOOPBACK, ROOT, STATE, Refused, bind_error, free_port, next_free_port, say, write,
)
from .requests import Unanswered, ask, cause
from .stack import Emulator, Stack, Stopped, folder_for, guarded, stop_on_signals
from .tools import ENVIRONMENTS, browser, environment_python

FOREGROUND = "foreground.pid"
# What shells report for a command that was interrupted.
INTERRUPTED = 130
# Goal and limit of a function as it is shipped, in 10^6 bytes.
BINARY_MB = (9, 14)
ZIP_MB = (4.2, 6)


def setup_python() -> None:
    for name in ENVIRONMENTS:
        environment_python(name)


def setup() -> None:
    setup_python()
    build.web_packages()
    build.peer_packages()
    browser()


def openapi() -> int:
    """Write the API's document from the code, and the gateway's body from the document."""
    toshi = build.binaries() / "toshi"
    document = subprocess.run([toshi, "openapi"], stdout=subprocess.PIPE, text=True, check=True)
    write(ROOT / "infra" / "openapi.json", document.stdout)
    return subprocess.run([sys.executable, ROOT / "infra" / "openapi_body.py"]).returncode


def run(port: int, auth: bool) -> int:
    """Run a stack in the foreground until it is stopped."""
    folder = folder_for(port)
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / FOREGROUND, str(os.getpid()))

    def stay(stack: Stack) -> int:
        stack.describe()
        stack.watch()
        return 0

    try:
        return guarded(Stack(port, folder, auth), stay)
    finally:
        (folder / FOREGROUND).unlink(missing_ok=True)
        say("stopped")


def require_port(port: int) -> None:
    if running(port):
        raise Refused(f"Toshi already runs on port {port}: stop it with `make stop PORT={port}`")
    error = bind_error(port)
    if error:
        other = f"`make run PORT={next_free_port(port)}`"
        if isinstance(error, PermissionError):
            raise Refused(f"port {port} is not open to you: choose another with {other}")
        raise Refused(f"port {port} is in use: free it, or choose another with {other}")


def running(port: int) -> int | None:
    """The process id of the foreground command on this port, if it is really ours."""
    path = folder_for(port) / FOREGROUND
    if not path.exists():
        return None
    pid = int(path.read_text() or 0)
    return pid if is_ours(pid, ["run", "--port", str(port)]) else None


def stop(port: int) -> int:
    pid = running(port)
    if pid is None:
        say(f"nothing of Toshi runs on port {port}")
        return 0
    os.kill(pid, signal.SIGTERM)
    if not wait_for_end(pid, 120):
        raise Refused(f"process {pid} did not stop within 120 s; see {folder_for(port) / 'logs'}")
    say(f"stopped Toshi on port {port}")
    return 0


def reset(port: int) -> int:
    """Remove the data of a stack that is not running."""
    if running(port):
        raise Refused(f"Toshi runs on port {port}: stop it first with `make stop PORT={port}`")
    folder = folder_for(port)
    if not folder.exists():
        say(f"there is nothing to remove: port {port} has no kept data")
        return 0
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise Refused(f"the data of port {port} is not all removed: {error}") from error
    say(f"removed the data of port {port}")
    return 0


def token(tenant: str, person: str, port: int) -> int:
    """Print a bearer token of a demo person and nothing else."""
    body = json.dumps({"tenant": tenant, "as": person}).encode()
    try:
        status, text = ask(f"http://{LOOPBACK}:{port}/_sandbox/token", body)
    except Unanswered as error:
        raise Refused(silence(port, cause(error))) from error
    if status == 200 and re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", text.strip(), re.ASCII):
        print(text.strip())
        return 0
    raise Refused(f"no token for {person} of {tenant}: {problem(text) or stranger(port)}")


def silence(port: int, error: Exception) -> str:
    """Why a request had no answer, and what to do."""
    if isinstance(error, ConnectionRefusedError):
        return f"nothing answers on port {port}: start it with `make run PORT={port}`"
    if isinstance(error, TimeoutError):
        return f"port {port} took a request and did not answer within 10 s: is it Toshi's?"
    return stranger(port)


def stranger(port: int) -> str:
    return f"what answers on port {port} is not Toshi: name Toshi's port, as in PORT=8080"


def problem(text: str) -> str | None:
    """What Toshi itself says is wrong; nothing when this is no answer of Toshi."""
    try:
        told = json.loads(text)
    except ValueError:
        return None
    if not isinstance(told, dict) or "code" not in told or not isinstance(told.get("detail"), str):
        return None
    return told["detail"]


def rust_tests(package: str, arguments: list[str]) -> int:
    """Run the Rust tests of one package as they are built; the first failure's exit code."""
    programs = build.test_programs(package)
    if not programs:
        raise Refused(f"there are no tests in a package called {package}")
    codes = [subprocess.run([program, *arguments], cwd=ROOT).returncode for program in programs]
    return next((code for code in codes if code), 0)


def peers(wanted: list[str]) -> int:
    """Run what others wrote against a stack that runs; all of it, or the folders that are named."""
    build.peer_packages()
    environment_python("peers")
    folders = [build.PEERS / name for name in wanted] or [build.PEERS]
    files = sorted(file for folder in folders for file in folder.rglob("*.test.mjs") if "node_modules" not in file.parts)
    # One after another: switches of the sandbox hold for everyone.
    command = ["node", "--test", "--test-concurrency=1", *files]
    return subprocess.run(command, cwd=ROOT).returncode


def test(command: list[str], auth: bool) -> int:
    """Run a command against a whole stack of its own; the command's exit code."""
    chromium = browser()
    remove_left_over()
    port = free_port()
    folder = STATE / f"test-{port}"
    folder.mkdir(parents=True)
    write(folder / FOREGROUND, str(os.getpid()))

    def execute(stack: Stack) -> int:
        say(f"· {' '.join(command)} against {stack.front}")
        environment = {
            **os.environ,
            "TOSHI_TEST_BASE": stack.front,
            "BASE_URL": stack.front,
            "CHROMIUM": chromium,
            "TOSHI_TEST_EMULATOR": stack.emulator.url,
            "TOSHI_TEST_STATE": str(folder),
        }
        return execute_here(command, environment)

    code = guarded(Stack(port, folder, auth), execute, stopped=INTERRUPTED)
    if code:
        say(f"the stack's logs are in {folder.relative_to(ROOT) / 'logs'}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def execute_here(command: list[str], environment: dict[str, str]) -> int:
    try:
        return subprocess.run(command, cwd=ROOT, env=environment).returncode
    except OSError as error:
        raise Refused(f"{command[0]} cannot be run: {error.strerror}") from error


def remove_left_over() -> None:
    """Remove the folders of earlier tests that failed; their logs have been read by now."""
    for folder in STATE.glob("test-*"):
        owner = folder / FOREGROUND
        if not owner.exists() or not is_ours(int(owner.read_text()), ["test", "--"]):
            shutil.rmtree(folder, ignore_errors=True)


def emulator(command: list[str], auth: bool) -> int:
    """Run a command with nothing but the emulator; the command's exit code."""
    folder = STATE / f"emulator-{os.getpid()}"
    folder.mkdir(parents=True)
    stop_on_signals()
    aws = Emulator(folder, auth, keep=False)
    try:
        aws.wait()
        environment = {**os.environ, **aws.client_environment(), "TOSHI_TEST_EMULATOR": aws.url}
        return execute_here(command, environment)
    except Stopped:
        return INTERRUPTED
    finally:
        aws.stop()
        shutil.rmtree(folder, ignore_errors=True)


def deploy(stack: str, bucket: str, target: str, parameters: list[str]) -> int:
    """Build the release zips, upload them and hand the template to `sam deploy`."""
    import boto3
    from boto3.exceptions import Boto3Error

    from .cloud import Unreachable

    unnamed = [parameter for parameter in parameters if "=" not in parameter]
    if unnamed:
        raise Refused(f"{unnamed[0]!r} is no parameter: write Name=value")
    overrides = dict(parameter.split("=", 1) for parameter in parameters)
    missing = [name for name in ("LlmUrl", "LlmModel", "AllowedOrigin") if name not in overrides]
    if missing:
        raise Refused(f"missing parameters: {', '.join(f'{name}=…' for name in missing)}")
    folder = build.release_binaries(target)
    build.require_old_glibc(folder)
    zips = build.zips(folder, level=9)
    overrides |= {"CodeBucket": bucket, "Architecture": architecture(target)}
    try:
        objects = boto3.client("s3")
        for parameter, path in zips.items():
            overrides[parameter] = build.code_key(path)
            say(f"· upload {overrides[parameter]}")
            objects.upload_file(str(path), bucket, overrides[parameter])
    except (*Unreachable, Boto3Error) as error:
        raise Refused(f"AWS did not take the upload: {error}") from error
    sam = ROOT / ".venv" / "lint" / "bin" / "sam"
    command = [
        sam, "deploy", "--template-file", ROOT / "infra" / "template.yaml", "--stack-name", stack,
        "--s3-bucket", bucket, "--capabilities", "CAPABILITY_IAM", "--no-fail-on-empty-changeset",
        "--parameter-overrides", *(f"{key}={value}" for key, value in overrides.items()),
    ]
    if os.isatty(0):
        command.append("--confirm-changeset")
    done = subprocess.run(command, env={**os.environ, "SAM_CLI_TELEMETRY": "0"})
    if done.returncode == 0:
        try:
            publish(stack)
        except Unreachable as error:
            raise Refused(f"{stack} is deployed, but its API's stage is not: {error}") from error
    return done.returncode


def bench() -> int:
    """Measure turns, and the functions' binaries as they are shipped."""
    folder = build.release_binaries(build.host_target())
    measure = build.bench_binary(build.host_target())
    command = ["env", f"TOSHI_BENCH_FUNCTIONS={folder}", str(measure)]
    code = emulator(command, auth=False)
    return sizes() or code


def sizes() -> int:
    """Print what each function weighs as it is shipped, against its goal and its limit."""
    target = build.host_target()
    folder = build.release_binaries(target)
    over = False
    say(f"{'function':<18} {'binary MB':>9} {'goal':>5} {'must':>5}   {'zip MB':>6} {'goal':>5} {'must':>5}")
    for path in build.zips(folder, level=9).values():
        binary = (folder / path.parent.name).stat().st_size / 1e6
        packed = path.stat().st_size / 1e6
        over |= binary > BINARY_MB[1] or packed > ZIP_MB[1]
        say(
            f"{path.parent.name:<18} {binary:>9.2f} {BINARY_MB[0]:>5} {BINARY_MB[1]:>5}   "
            f"{packed:>6.2f} {ZIP_MB[0]:>5} {ZIP_MB[1]:>5}"
        )
    return 1 if over else 0


def publish(stack: str) -> None:
    """Deploy the API's stage again: a changed parameter changes the API but makes no deployment."""
    import boto3

    described = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
    api = {item["OutputKey"]: item["OutputValue"] for item in described["Outputs"]}["ApiId"]
    boto3.client("apigateway").create_deployment(restApiId=api, stageName="v1")


def architecture(target: str) -> str:
    return "arm64" if Path(target).name.startswith("aarch64") else "x86_64"
