"""What API Gateway refuses in a body, and neither the local stand-in nor cfn-lint notices."""

import unittest

import openapi_body
import template

MOST_RESOURCES = 300


def keys_in(node):
    if isinstance(node, dict):
        for key, value in node.items():
            yield key
            yield from keys_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from keys_in(value)


class Body(unittest.TestCase):
    def setUp(self):
        self.template = template.load()
        self.body = self.template["Resources"]["Api"]["Properties"]["Body"]
        self.paths = self.body["paths"]

    def test_is_of_the_version_that_the_gateway_imports(self):
        self.assertEqual(self.body["openapi"], "3.0.1")

    def test_is_what_the_routes_say(self):
        current = template.PATH.read_text()
        routes = openapi_body.load_routes()
        self.assertEqual(openapi_body.render_template(current, routes), current)
        self.assertEqual(sorted(self.paths), sorted(routes))

    def test_has_no_schemas_but_the_types_of_preflight_headers(self):
        self.assertNotIn("components", self.body)
        self.assertNotIn("$ref", set(keys_in(self.body)))
        for item in self.paths.values():
            for method, operation in item.items():
                self.assertNotIn("requestBody", operation)
                if method != "options":
                    self.assertEqual(operation["responses"], {})

    def test_has_one_variable_name_on_each_level(self):
        names: dict[str, set[str]] = {}
        for path in self.paths:
            parts = path.split("/")
            for depth, part in enumerate(parts):
                if part.startswith("{"):
                    names.setdefault("/".join(parts[:depth]), set()).add(part)
        self.assertTrue(names)
        for level, found in names.items():
            self.assertEqual(len(found), 1, f"{level}: {found}")

    def test_has_fewer_resources_than_an_api_may_have(self):
        nodes = set()
        for path in self.paths:
            parts = path.split("/")
            nodes.update("/".join(parts[: depth + 1]) for depth in range(len(parts)))
        self.assertLessEqual(len(nodes), MOST_RESOURCES)

    def test_hands_every_operation_to_a_function_that_lets_the_gateway_call_it(self):
        allowed = {
            permission["FunctionName"]["Fn::GetAtt"][0]
            for permission in template.of_type(self.template, "AWS::Lambda::Permission").values()
            if permission["Principal"] == "apigateway.amazonaws.com"
        }
        for path, item in self.paths.items():
            for method, operation in item.items():
                if method == "options":
                    continue
                integration = operation["x-amazon-apigateway-integration"]
                self.assertEqual(integration["type"], "aws_proxy")
                self.assertEqual(integration["httpMethod"], "POST")
                uri = str(integration["uri"])
                self.assertTrue(
                    any(f"${{{function}.Arn}}" in uri for function in allowed), f"{method} {path}"
                )

    def test_streams_the_chat_and_nothing_else(self):
        streamed = {
            (method, path)
            for path, item in self.paths.items()
            for method, operation in item.items()
            if "responseTransferMode" in operation["x-amazon-apigateway-integration"]
        }
        self.assertEqual(streamed, {("post", "/chat"), ("get", "/chat/{id}/stream")})
        chat = self.paths["/chat"]["post"]["x-amazon-apigateway-integration"]
        self.assertEqual(chat["responseTransferMode"]["Fn::If"], ["StreamChat", "STREAM", "BUFFERED"])
        streaming, buffered = (choice["Fn::Sub"] for choice in chat["uri"]["Fn::If"][1:])
        self.assertTrue(streaming.endswith("/response-streaming-invocations"), streaming)
        self.assertIn("/2021-11-15/", streaming)
        self.assertTrue(buffered.endswith("/invocations"), buffered)
        # Literals: a parameter would arrive in the body as a string.
        self.assertEqual(chat["timeoutInMillis"]["Fn::If"][1:], [300000, 29000])

    def test_answers_the_preflight_of_every_path_for_the_console_alone(self):
        for path, item in self.paths.items():
            integration = item["options"]["x-amazon-apigateway-integration"]
            self.assertEqual(integration["type"], "mock", path)
            sent = integration["responses"]["default"]["responseParameters"]
            prefix = "method.response.header."
            self.assertEqual(
                sent[f"{prefix}Access-Control-Allow-Origin"], {"Fn::Sub": "'${AllowedOrigin}'"}
            )
            methods = sent[f"{prefix}Access-Control-Allow-Methods"].strip("'").lower().split(",")
            self.assertEqual(sorted(methods), sorted(item))
            declared = item["options"]["responses"]["204"]["headers"]
            self.assertEqual({f"{prefix}{name}" for name in declared}, set(sent))


class Generator(unittest.TestCase):
    def test_calls_every_variable_id(self):
        self.assertEqual(
            openapi_body.gateway_path("/v1/approvals/{approval_id}/decision"), "/approvals/{id}/decision"
        )

    def test_refuses_a_path_with_two_variables(self):
        with self.assertRaises(openapi_body.RouteError):
            openapi_body.gateway_path("/a/{x}/b/{y}")

    def test_gives_a_path_to_the_longest_prefix_on_whole_segments(self):
        self.assertEqual(openapi_body.function_for("/audit/verify"), "ApprovalsFunction")
        self.assertEqual(openapi_body.function_for("/auditors"), "ChatFunction")

    def test_makes_a_new_deployment_when_the_routes_change(self):
        current = template.PATH.read_text()
        routes = openapi_body.load_routes()
        changed = openapi_body.render_template(current, {**routes, "/more": ["get"]})
        name = r"(?m)^  (ApiDeployment[0-9a-f]{10}):"
        self.assertRegex(changed, name)
        before = next(line for line in current.splitlines() if line.startswith("  ApiDeployment"))
        self.assertNotIn(before, changed)


if __name__ == "__main__":
    unittest.main()
