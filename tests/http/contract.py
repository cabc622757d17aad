"""openapi.yaml as a judge: which operation a request belongs to, whether a body or an answer is what the contract
says, and which operations and statuses have been seen."""
import json
import pathlib
import re

import yaml
from jsonschema import Draft202012Validator

ROOT = pathlib.Path(__file__).resolve().parents[2]
METHODS = ("get", "put", "post", "patch", "delete")
NDJSON = "application/x-ndjson"
PROBLEM = "application/problem+json"


class Contract:
    def __init__(self, path=ROOT / "openapi.yaml"):
        self.doc = yaml.safe_load(path.read_text())
        self.seen = set()
        self._validators = {}
        self.operations = {}
        for template, item in self.doc["paths"].items():
            pattern = re.compile("^" + re.sub(r"\{[a-z]+\}", "[^/]+", template) + "$")
            for method in METHODS:
                if method in item:
                    self.operations[item[method]["operationId"]] = (method, pattern, item[method])

    def resolve(self, node):
        while "$ref" in node:
            target = self.doc
            for part in node["$ref"][2:].split("/"):
                target = target[part]
            node = target
        return node

    def find(self, method, path):
        """operationId and operation, or (None, None)."""
        for name, (verb, pattern, operation) in self.operations.items():
            if verb == method.lower() and pattern.match(path):
                return name, operation
        return None, None

    def is_path(self, path):
        return any(pattern.match(path) for _, pattern, _ in self.operations.values())

    def errors(self, schema, value):
        """Faults of value under a schema of the document, as strings."""
        key = id(schema)
        if key not in self._validators:
            # References are local to the document: carry its components along instead of a resolver.
            whole = dict(schema, components=self.doc["components"])
            self._validators[key] = (Draft202012Validator(whole), schema)
        validator = self._validators[key][0]
        return [f"{list(e.absolute_path)}: {e.message[:300]}" for e in validator.iter_errors(value)]

    def media_errors(self, media, content_type, text):
        """Faults of a text under a media type object: JSON, NDJSON by line, or plain."""
        try:
            if not media:
                return []  # bytes that have no schema
            if content_type == NDJSON:
                lines = [json.loads(line) for line in text.splitlines() if line.strip()]
                return [f"line {i}: {e}" for i, v in enumerate(lines) for e in self.errors(media["x-line-schema"], v)]
            if content_type.endswith("json"):
                return self.errors(media["schema"], json.loads(text))
        except ValueError as fault:
            return [f"not JSON: {fault}"]
        return self.errors(media["schema"], text)

    def request_errors(self, method, path, content_type, text):
        operation = self.find(method, path)[1]
        media = operation["requestBody"]["content"].get(content_type)
        return ["content type"] if media is None else self.media_errors(media, content_type, text)

    def check_response(self, method, path, response):
        """Asserts that the answer is documented, and notes what was seen."""
        name, operation = self.find(method, path)
        status = str(response.status_code)
        if operation is None:
            kind = "MethodNotAllowed" if self.is_path(path) else "UnknownRoute"
            assert status == ("405" if kind == "MethodNotAllowed" else "404"), (method, path, status, response.text)
            documented = self.doc["components"]["responses"][kind]
            self.seen.add((kind, status))
        else:
            assert status in operation["responses"], f"{name}: undocumented status {status}: {response.text[:500]}"
            documented = self.resolve(operation["responses"][status])
            self.seen.add((name, status))
        self.check_headers(documented, response)
        self.check_body(documented, response, f"{method} {path} -> {status}")
        self.check_id(response)

    def check_headers(self, documented, response):
        for header, spec in documented.get("headers", {}).items():
            value = response.headers.get(header)
            assert value is not None or not spec.get("required"), f"no {header}"
            if value is not None:
                value = int(value) if spec["schema"]["type"] == "integer" else value
                assert not self.errors(spec["schema"], value), (header, value)

    def check_id(self, response):
        """Every answer has its request's id, and problems quote it."""
        request = response.headers.get("Laplaced-Request", "")
        assert re.fullmatch("[0-9a-f]{32}", request), request
        if response.headers.get("Content-Type") == PROBLEM and response.content:
            assert response.json()["instance"] == f"urn:laplaced:request:{request}"

    def check_body(self, documented, response, what):
        content = documented.get("content")
        if not content:
            assert response.content == b"", what
            return
        content_type = response.headers.get("Content-Type", "").split(";")[0].strip()
        assert content_type in content, f"{what}: content type {content_type!r}: {response.text[:300]}"
        text = response.content.decode("utf-8") if content[content_type] else ""
        faults = self.media_errors(content[content_type], content_type, text)
        assert not faults, f"{what}: {faults[:5]}: {text[:500]}"
        if content_type == PROBLEM:
            assert json.loads(text)["status"] == response.status_code, what

    def documented_statuses(self):
        return {(name, status) for name, (_, _, op) in self.operations.items() for status in op["responses"]}


CONTRACT = Contract()
