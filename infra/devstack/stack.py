"""One running stack on one port: its folder, its processes, its life from start to stop."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import build
from .children import Child
from .common import (
    CREDENTIALS, LOOPBACK, REGION, ROOT, STATE, Refused, free_port, in_use, phase, say, stderr_line,
    wait_until, write,
)
from .requests import status
from .settings import approval_ttl, own_model

PEOPLE = (
    "admin", "deputy", "teacher", "teacher2", "student", "parent", "parent2", "accountant",
    "librarian", "receptionist",
)
SCHOOLS = ("lakeside", "hilltop")


class Stopped(Exception):
    """Someone asked the stack to stop."""


def on_signal(*_):
    # A second signal must not interrupt the orderly stop that the first one began.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped


def folder_for(port: int) -> Path:
    return STATE / str(port)


def bare_environment(folder: Path) -> dict[str, str]:
    """What a child gets of ours: no credentials, no proxies, no settings of the person's shell."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "TMPDIR": str(folder / "tmp")}


class Emulator:
    """The local stand-in for AWS, in a process of its own."""

    def __init__(self, folder: Path, auth: bool = False, keep: bool = True):
        self.folder = folder
        self.port = self.choose_port()
        self.url = f"http://{LOOPBACK}:{self.port}"
        temporary = folder / "tmp"
        # Unpacked function code of earlier runs.
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        environment = {
            **bare_environment(folder),
            "BIND_HOST": LOOPBACK,
            "GATEWAY_PORT": str(self.port),
            "MINISTACK_REGION": REGION,
            "AUTH": "true" if auth else "false",
            "PERSIST_STATE": "1" if keep else "0",
            "STATE_DIR": str(folder / "emulator"),
            "S3_DATA_DIR": str(folder / "emulator" / "s3"),
            # Functions run as its children: this is the endpoint that they are given.
            "AWS_ENDPOINT_URL": self.url,
            "LOG_LEVEL": "INFO",
        }
        ministack = Path(sys.executable).with_name("ministack")
        self.child = Child("emulator", [ministack], environment, log(folder, "emulator"))

    def choose_port(self) -> int:
        """The port of the last run, since stored queue addresses contain it."""
        path = self.folder / "emulator-port"
        if path.exists():
            port = int(path.read_text())
            if in_use(port):
                raise Refused(
                    f"port {port}, which the kept data of {self.folder.name} belongs to, is in "
                    f"use: free it, or run `make reset PORT={self.folder.name}`"
                )
            return port
        port = free_port()
        write(path, str(port))
        return port

    def wait(self) -> None:
        ready = wait_until(
            lambda: self.child.ended() or status(f"{self.url}/_ministack/health") == 200, 30
        )
        if not ready or self.child.ended():
            raise Refused(died(self.child))

    def client_environment(self) -> dict[str, str]:
        """What a program needs to use this emulator as its AWS."""
        return {"AWS_ENDPOINT_URL": self.url, "AWS_REGION": REGION, **CREDENTIALS}

    def stop(self) -> None:
        self.child.stop(60)


class Stack:
    """Everything behind one address."""

    def __init__(self, port: int, folder: Path, auth: bool = False):
        self.port = port
        self.folder = folder
        self.auth = auth
        self.front = f"http://{LOOPBACK}:{port}"
        scripted = (f"{self.front}/_sandbox/llm/v1", "scripted", "scripted")
        self.own_model = own_model()
        self.model_url, self.model, self.model_key = self.own_model or scripted
        self.approval_ttl = approval_ttl()
        self.emulator: Emulator | None = None
        self.sandbox: Child | None = None
        self.bin: Path | None = None

    def start(self) -> None:
        """Build, start and deploy until the front answers; raises when a part fails."""
        for name in ("emulator", "logs"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "stack.json").unlink(missing_ok=True)
        for old in (self.folder / "logs").iterdir():
            old.unlink()
        self.bin = build.binaries()
        console = build.web()
        with phase("function zips"):
            zips = build.zips(self.bin)
        with phase("emulator"):
            self.emulator = Emulator(self.folder, self.auth)
            self.emulator.wait()
        with phase("sandbox"):
            self.start_sandbox(console)
        with phase("deployment of infra/template.yaml"):
            environment = self.deploy(zips)
        with phase("demo schools"):
            self.seed(environment)
        with phase("first answer"):
            self.wait_healthy()

    def start_sandbox(self, console: Path) -> None:
        command = [
            self.bin / "toshi-sandbox", "serve", "--port", self.port, "--state", self.folder,
            "--web", console,
        ]
        environment = {**bare_environment(self.folder), "RUST_LOG": rust_log()}
        self.sandbox = Child("sandbox", command, environment, log(self.folder, "sandbox"))
        wait_until(lambda: self.sandbox.ended() or in_use(self.port), 20)
        if self.sandbox.ended() or not in_use(self.port):
            raise Refused(died(self.sandbox))

    def deploy(self, zips: dict[str, Path]) -> dict[str, str]:
        """Deploy the template and write stack.json; the chat function's environment."""
        # Needs the packages of the pinned environment, which stop and token do without.
        from .cloud import Cloud, Unreachable

        cloud = Cloud(self.emulator.url)
        try:
            outputs = cloud.deploy({**cloud.upload(zips), **self.parameters()})
            given = cloud.environment(outputs["ChatFunctionName"])
        except Unreachable as error:
            raise Refused(
                f"the emulator did not take the deployment ({error}): "
                f"see {log(self.folder, 'emulator')}"
            ) from error
        functions = {
            "chat": outputs["ChatFunctionName"],
            "approvals": outputs["ApprovalsFunctionName"],
            "approvals_worker": outputs["ApprovalsWorkerFunctionName"],
            "refresh": outputs["RefreshFunctionName"],
        }
        environment = {
            **given,
            **self.emulator.client_environment(),
            # The front hosts the chat function itself and can stream.
            "TOSHI_RESPONSE": "stream",
        }
        described = {
            "emulator": self.emulator.url,
            "region": REGION,
            "api_id": outputs["ApiId"],
            "stage": "v1",
            "chat": {"bootstrap": str(self.bin / "chat"), "environment": environment},
            "functions": functions,
            "model": self.model,
        }
        write(self.folder / "stack.json", json.dumps(described, indent=2) + "\n")
        return environment

    def parameters(self) -> dict[str, str]:
        return {
            "Environment": "dev",
            "ToshiDev": "1",
            "EnabledConnectors": "demo",
            "DemoEndpoint": f"{self.front}/_sandbox/mcp/demo",
            "LlmUrl": self.model_url,
            "LlmModel": self.model,
            "LlmKey": self.model_key,
            "ApprovalTtl": self.approval_ttl,
            "Architecture": "arm64" if os.uname().machine in ("aarch64", "arm64") else "x86_64",
            "ChatResponse": "buffer",
            "AllowedOrigin": self.front,
            "LogLevel": rust_log(),
        }

    def seed(self, environment: dict[str, str]) -> None:
        try:
            seeded = subprocess.run(
                [self.bin / "toshi", "seed", "--front", self.front],
                env={**bare_environment(self.folder), **environment},
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
            )
        except subprocess.TimeoutExpired as late:
            raise Refused(
                f"seeding the demo schools took longer than 120 s; "
                f"see {log(self.folder, 'sandbox')} and {log(self.folder, 'emulator')}"
            ) from late
        if seeded.returncode:
            raise Refused(f"seeding the demo schools failed:\n{seeded.stdout}{seeded.stderr}".rstrip())

    def wait_healthy(self) -> None:
        url = f"{self.front}/v1/health"
        answered = wait_until(lambda: self.dead() or status(url) == 200, 60)
        if self.dead():
            raise Refused(died(self.dead()))
        if not answered:
            raise Refused(
                f"{url} did not answer 200 within 60 s (last: {status(url)}); "
                f"see {log(self.folder, 'sandbox')} and {log(self.folder, 'emulator')}"
            )

    def dead(self) -> Child | None:
        for child in (self.emulator.child, self.sandbox):
            if child and child.ended():
                return child
        return None

    def watch(self) -> None:
        """Wait until a part ends by itself, which is a failure."""
        while not self.dead():
            time.sleep(0.5)
        raise Refused(died(self.dead()))

    def stop(self) -> None:
        """Stop the front first, so that nothing writes while the emulator saves its state."""
        if self.sandbox:
            self.sandbox.stop(20)
        if self.emulator:
            self.save_logs()
            self.emulator.stop()
        (self.folder / "stack.json").unlink(missing_ok=True)
        shutil.rmtree(self.folder / "tmp", ignore_errors=True)

    def save_logs(self) -> None:
        """Keep the functions' logs beside the others; stopping goes on without them."""
        from .cloud import Cloud, Unreachable

        try:
            Cloud(self.emulator.url).save_logs(self.folder / "logs")
        except Unreachable as error:
            stderr_line(f"the functions' logs were not saved: {error}")

    def describe(self) -> None:
        scripted = "the scripted model (set TOSHI_LLM_URL, TOSHI_LLM_MODEL, TOSHI_LLM_KEY for your own)"
        say("")
        say(f"Toshi runs at {self.front}")
        say(f"  sign in as   {', '.join(PEOPLE)} of {' or '.join(SCHOOLS)}; or the platform's operator")
        say(f"  answers by   {self.model if self.own_model else scripted}")
        if self.approval_ttl:
            say(f"  questions    wait {self.approval_ttl} s for an answer (APPROVAL_TTL)")
        say(f"  the sandbox  {self.front}/_sandbox")
        say(f"  the API      {self.front}/v1/openapi.json")
        say(f"  a token      make -s token TENANT=lakeside AS=admin PORT={self.port}")
        say(f"  logs         {self.folder.relative_to(ROOT) / 'logs'}")
        say(f"  stop         Ctrl-C, or make stop PORT={self.port}; data is kept until make reset")


def log(folder: Path, name: str) -> Path:
    path = folder / "logs" / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def rust_log() -> str:
    return os.environ.get("RUST_LOG", "info")


def died(child: Child) -> str:
    return (
        f"{child.tail()}\nthe {child.name} ended (exit code {child.process.poll()}): its last lines "
        f"are above, all of them in {child.log}"
    )


def stop_on_signals() -> None:
    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)


def guarded(stack: Stack, during, stopped: int = 0) -> int:
    """Start a stack, do something with it, and stop it whatever happens.

    `stopped` is the exit code when someone asks it to stop.
    """
    stop_on_signals()
    try:
        stack.start()
        return during(stack)
    except Stopped:
        return stopped
    except Refused as refused:
        stderr_line(str(refused))
        return 1
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stack.stop()
