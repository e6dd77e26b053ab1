#!/usr/bin/env python3
"""Write the API's 3.0.1 body into template.yaml, or check that it is already there.

API Gateway imports OpenAPI 3.0.1 and refuses 3.1, so the document people read (openapi.json) and
the body the gateway imports are two things. The body holds paths and integrations only; what a
request must look like is decided in the functions.

    openapi_body.py            rewrite the generated parts of template.yaml
    openapi_body.py --check    exit 1 when they are not what the routes say
"""

import hashlib
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TEMPLATE = HERE / "template.yaml"
DOCUMENT = HERE / "openapi.json"

BEGIN = "# generated body: begin (make openapi)"
END = "# generated body: end"
INDENT = 8

# Which function serves a path: the longest prefix wins.
FUNCTION_BY_PREFIX = {
    "/": "ChatFunction",
    "/approvals": "ApprovalsFunction",
    "/audit": "ApprovalsFunction",
}
STREAMED = {("post", "/chat"), ("get", "/chat/{id}/stream")}
METHODS = ("get", "post", "put", "patch", "delete")
LAMBDA = "arn:${AWS::Partition}:apigateway:${AWS::Region}:lambda:path"


# What the gateway answers itself, in the shape of the functions' own errors.
GATEWAY_RESPONSES = {
    "MISSING_AUTHENTICATION_TOKEN": (404, "Not found", "There is nothing at this address.", "not_found"),
    "THROTTLED": (429, "Too many requests", "Wait a moment and try again.", "rate_limited"),
    "REQUEST_TOO_LARGE": (413, "Too large", "The request is larger than allowed.", "too_large"),
    "INTEGRATION_TIMEOUT": (504, "Too slow", "The service took too long to answer.", "unavailable"),
    # All others keep the status that the gateway gives them.
    "DEFAULT_4XX": (None, "Bad request", "The request was not accepted.", "bad_request"),
    "DEFAULT_5XX": (None, "Unavailable", "The service could not answer. Try again.", "unavailable"),
}


class RouteError(ValueError):
    """The routes cannot be expressed in an API Gateway REST API."""


def load_routes() -> dict[str, list[str]]:
    """Paths (without the stage) and their methods, from openapi.json."""
    paths = json.loads(DOCUMENT.read_text())["paths"]
    routes: dict[str, list[str]] = {}
    for path, item in paths.items():
        found = [method for method in METHODS if method in item]
        routes.setdefault(gateway_path(path), []).extend(found)
    return routes


def gateway_path(path: str) -> str:
    """`/v1/approvals/{approval_id}` is `/approvals/{id}` below the stage.

    API Gateway refuses two variable names on one level, so all are called `id`.
    """
    path = re.sub(r"^/v1(?=/|$)", "", path) or "/"
    path = re.sub(r"\{[^}]+\}", "{id}", path)
    if path.count("{id}") > 1:
        raise RouteError(f"{path}: more than one variable; name them by hand")
    return path


def function_for(path: str) -> str:
    prefixes = [
        prefix
        for prefix in FUNCTION_BY_PREFIX
        if prefix == "/" or path == prefix or path.startswith(prefix + "/")
    ]
    return FUNCTION_BY_PREFIX[max(prefixes, key=len)]


def integration(method: str, path: str) -> list[str]:
    function = function_for(path)
    buffered = f"{LAMBDA}/2015-03-31/functions/${{{function}.Arn}}/invocations"
    lines = ["x-amazon-apigateway-integration:", "  type: aws_proxy", "  httpMethod: POST"]
    if (method, path) not in STREAMED:
        return [*lines, f"  uri: !Sub {buffered}", "  timeoutInMillis: 29000"]
    streamed = f"{LAMBDA}/2021-11-15/functions/${{{function}.Arn}}/response-streaming-invocations"
    return [
        *lines,
        "  uri: !If",
        "    - StreamChat",
        f"    - !Sub {streamed}",
        f"    - !Sub {buffered}",
        "  responseTransferMode: !If [StreamChat, STREAM, BUFFERED]",
        "  timeoutInMillis: !If [StreamChat, 300000, 29000]",
    ]


def preflight(methods: list[str]) -> list[str]:
    allowed = ",".join(sorted(method.upper() for method in [*methods, "options"]))
    values = {
        "Access-Control-Allow-Origin": "!Sub \"'${AllowedOrigin}'\"",
        "Access-Control-Allow-Methods": f"\"'{allowed}'\"",
        "Access-Control-Allow-Headers": "\"'authorization,content-type'\"",
        "Access-Control-Max-Age": "\"'600'\"",
    }
    declared = [f"{name}: {{ schema: {{ type: string }} }}" for name in values]
    mapped = [f"method.response.header.{name}: {value}" for name, value in values.items()]
    return [
        "options:",
        "  responses:",
        '    "204":',
        "      description: preflight",
        "      headers:",
        *(" " * 8 + line for line in declared),
        "  x-amazon-apigateway-integration:",
        "    type: mock",
        "    passthroughBehavior: when_no_match",
        "    requestTemplates:",
        "      application/json: '{\"statusCode\": 204}'",
        "    responses:",
        "      default:",
        '        statusCode: "204"',
        "        responseParameters:",
        *(" " * 10 + line for line in mapped),
    ]


def gateway_responses() -> list[str]:
    lines = ["x-amazon-apigateway-gateway-responses:"]
    for kind, (status, title, detail, code) in GATEWAY_RESPONSES.items():
        problem = {
            "type": "about:blank",
            "title": title,
            "status": status,
            "detail": detail,
            "code": code,
        }
        lines.append(f"  {kind}:")
        if status is None:
            del problem["status"]
        else:
            lines.append(f'    statusCode: "{status}"')
        lines += [
            "    responseParameters:",
            "      gatewayresponse.header.Content-Type: \"'application/problem+json'\"",
            "      gatewayresponse.header.Access-Control-Allow-Origin: !Sub \"'${AllowedOrigin}'\"",
        ]
        if status == 429:
            lines.append("      gatewayresponse.header.Retry-After: \"'1'\"")
        lines += [
            "    responseTemplates:",
            f"      application/json: '{json.dumps(problem)}'",
        ]
    return lines


def render_body(routes: dict[str, list[str]]) -> str:
    lines = [
        "openapi: 3.0.1",
        "info:",
        "  title: !Ref AWS::StackName",
        '  version: "1"',
        "paths:",
    ]
    for path in sorted(routes):
        lines.append(f"  {path}:")
        for method in sorted(routes[path]):
            operation = ["responses: {}", *integration(method, path)]
            lines.append(f"    {method}:")
            lines.extend(" " * 6 + line for line in operation)
        lines.extend(" " * 4 + line for line in preflight(routes[path]))
    lines.extend(gateway_responses())
    return "\n".join(" " * INDENT + line for line in lines)


def render_template(current: str, routes: dict[str, list[str]]) -> str:
    """The template with its body replaced and its deployment renamed after the body.

    A REST API serves what was last deployed, and CloudFormation makes a new deployment only for a
    new logical id; hence the digest of the body in that id.
    """
    body = render_body(routes)
    before, rest = current.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    digest = hashlib.sha256(body.encode()).hexdigest()[:10]
    text = f"{before}{BEGIN}\n{body}\n{' ' * INDENT}{END}{after}"
    return re.sub(r"\bApiDeployment[0-9a-f]{10}\b", f"ApiDeployment{digest}", text)


def main(arguments: list[str]) -> int:
    current = TEMPLATE.read_text()
    wanted = render_template(current, load_routes())
    if wanted == current:
        return 0
    if "--check" in arguments:
        print("infra/template.yaml: the API body is out of date; run `make openapi`", file=sys.stderr)
        return 1
    TEMPLATE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
