#!/usr/bin/env python3
"""Toshi on this machine: run it, stop it, test it. `make help` lists the short forms."""

import argparse
import os
import sys
from pathlib import Path

if sys.version_info < (3, 11):
    sys.exit("python is too old: install Python 3.11 or newer and run make with PYTHON=python3.11")

from devstack import commands
from devstack.common import Refused, stderr_line
from devstack.settings import port_number, require_settings
from devstack.tools import advisories, environment_python, require_tools

# Commands that talk to the emulator run in the environment with its packages.
IN_ENVIRONMENT = {"run", "test", "emulator", "bench", "deploy"}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="infra/dev.py", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, text: str, *, port=False, auth=False, rest=False):
        added = commands.add_parser(name, help=text, description=text)
        if port:
            added.add_argument("--port", type=port_number, default=8080)
        if auth:
            added.add_argument("--auth", action="store_true", help="let the emulator enforce IAM")
        if rest:
            added.add_argument("rest", nargs=argparse.REMAINDER, metavar="-- command …")
        return added

    command("run", "build, start, deploy and seed everything; stay in the foreground", port=True, auth=True)
    command("stop", "stop what runs on a port", port=True)
    command("reset", "remove the kept data of a port", port=True)
    token = command("token", "print a bearer token of a demo person", port=True)
    token.add_argument("--tenant", required=True)
    token.add_argument("--as", dest="person", required=True)
    command("test", "run a command against a whole stack of its own", auth=True, rest=True)
    command("emulator", "run a command with only the emulator", auth=True, rest=True)
    command("setup", "install the pinned packages and the browser that the tests use")
    command("setup-python", "install the pinned Python packages only")
    command("advisories", "check the dependencies for known vulnerabilities")
    tests = command("rust-tests", "run the Rust tests of one package, built as all others are")
    tests.add_argument("package")
    tests.add_argument("rest", nargs=argparse.REMAINDER, metavar="filter …")
    peers = command("peers", "run the peer tests against a stack that runs")
    peers.add_argument("folders", nargs="*")
    command("openapi", "write infra/openapi.json from the code and the API body from it")
    command("bench", "measure turns and what is shipped (release builds: takes minutes)")
    command("sizes", "print what each function weighs as it is shipped")
    deploy = command("deploy", "build, upload and deploy to AWS")
    deploy.add_argument("--stack", required=True)
    deploy.add_argument("--bucket", required=True)
    deploy.add_argument("--target", default="x86_64-unknown-linux-gnu")
    deploy.add_argument("parameters", nargs="*", metavar="Name=value")
    return parser.parse_args(arguments)


def enter_environment() -> None:
    """Go on in the pinned environment; a no-op when already there."""
    python = environment_python("run")
    if Path(sys.prefix) != python.parents[1]:
        os.execv(python, [python, *sys.argv])


def rest_of(arguments: list[str]) -> list[str]:
    rest = arguments[1:] if arguments[:1] == ["--"] else arguments
    if not rest:
        raise Refused("say which command to run, after --")
    return rest


def main() -> int:
    options = parse(sys.argv[1:])
    if options.command in ("run", "test"):
        require_settings()
    if options.command == "run":
        commands.require_port(options.port)
    if options.command in IN_ENVIRONMENT:
        if options.command != "emulator":
            require_tools()
        enter_environment()
    match options.command:
        case "setup":
            require_tools()
            commands.setup()
            return 0
        case "setup-python":
            commands.setup_python()
            return 0
        case "advisories":
            commands.setup_python()
            return advisories()
        case "rust-tests":
            require_tools(console=False)
            return commands.rust_tests(options.package, options.rest)
        case "peers":
            require_tools()
            return commands.peers(options.folders)
        case "openapi":
            require_tools(console=False)
            return commands.openapi()
        case "bench":
            return commands.bench()
        case "sizes":
            require_tools()
            return commands.sizes()
        case "run":
            return commands.run(options.port, options.auth)
        case "stop":
            return commands.stop(options.port)
        case "reset":
            return commands.reset(options.port)
        case "token":
            return commands.token(options.tenant, options.person, options.port)
        case "test":
            return commands.test(rest_of(options.rest), options.auth)
        case "emulator":
            return commands.emulator(rest_of(options.rest), options.auth)
        case "deploy":
            environment_python("lint")
            return commands.deploy(options.stack, options.bucket, options.target, options.parameters)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Refused as refused:
        stderr_line(str(refused))
        sys.exit(1)
