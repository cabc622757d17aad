"""openapi.yaml as a judge: which operation a request belongs to, whether a body or an answer is what the contract
says, to the last header, and which operations, statuses and media types have been seen."""
import collections
import http
import http.client
import io
import json
import os
import pathlib
import re

import yaml
from jsonschema import Draft202012Validator, FormatChecker

ROOT = pathlib.Path(__file__).resolve().parents[2]
METHODS = ("get", "put", "post", "patch", "delete")
NDJSON = "application/x-ndjson"
PROBLEM = "application/problem+json"
# What HTTP itself puts around an answer; every other header has to be documented.
OF_HTTP = {"date", "connection", "keep-alive", "content-length", "transfer-encoding", "content-type"}
FORMATS = FormatChecker(formats=())
FORMATS.checks("uri-reference")(lambda text: not isinstance(text, str) or re.fullmatch(r"[!-~]*", text) is not None)

# Reason phrases that RFC 9110 has changed since Python's.
RENAMED = {413: "Content Too Large", 414: "URI Too Long", 422: "Unprocessable Content"}

Answer = collections.namedtuple("Answer", "status_code headers content")


def pattern_of(template):
    """A user's id and what follows a key may have slashes, and end the path; a tenant's name has none. A version is one of another protocol's."""
    holes = re.sub(r"\{(user|key)\}$", ".+", template).replace("{version}/", "(?:v1[.](?:0|1-preview[.][123])/)?")  # in its interface of 2022 the query has it
    return re.compile("^" + re.sub(r"\{[a-z]+\}", "[^/]+", holes) + "$")


def strict_json(text):
    """JSON as every parser reads it: no member twice, no NaN."""
    def members(pairs):
        assert len({k for k, _ in pairs}) == len(pairs), f"a member twice: {[k for k, _ in pairs]}"
        return dict(pairs)

    def refuse(word):
        raise AssertionError(f"not a number of JSON: {word}")
    return json.loads(text, object_pairs_hook=members, parse_constant=refuse)


COVERED = ("seen", "taken", "headers_seen")


class Contract:
    def __init__(self, path=ROOT / "openapi.yaml"):
        self.doc = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
        self.seen = set()      # (operation, status) answered
        self.taken = set()     # (operation, media type) of bodies answered 2xx
        self.headers_seen = set()  # (operation, header)
        self._validators = {}
        self._branches = {}
        self._lines = set()  # of those that fit, by their hash: logs are read again and again
        self.operations = {}
        self.flags = set()  # operations whose refusals have the form of another protocol: OFREP's, or Azure Personalizer's
        for template, item in self.doc["paths"].items():
            for method in METHODS:
                if method in item:
                    self.operations[item[method]["operationId"]] = (method, pattern_of(template), item[method])
                    if template.startswith(("/ofrep/", "/personalizer/")):
                        self.flags.add(item[method]["operationId"])

    def note(self, folder, files, n_failed):
        """What this process has covered, for another one to take over."""
        told = {"files": sorted(files), "failed": n_failed, **{name: sorted(getattr(self, name)) for name in COVERED}}
        (pathlib.Path(folder) / f"{os.getpid()}.json").write_text(json.dumps(told))

    def take_over(self, folder):
        """Adds what others have covered; the files that they ran, and how many of their tests failed."""
        notes = [json.loads(path.read_text()) for path in pathlib.Path(folder).glob("*.json")]
        for name in COVERED:
            getattr(self, name).update(tuple(pair) for told in notes for pair in told[name])
        return {file for told in notes for file in told["files"]}, sum(told["failed"] for told in notes)

    def resolve(self, node):
        while "$ref" in node:
            target = self.doc
            for part in node["$ref"][2:].split("/"):
                target = target[part]
            node = target
        return node

    def find(self, method, path):
        """operationId and operation, or (None, None). HEAD belongs to GET."""
        verb = {"HEAD": "get"}.get(method, method.lower())
        for name, (other, pattern, operation) in self.operations.items():
            if other == verb and pattern.match(path):
                return name, operation
        return None, None

    def required(self, name):
        """{parameter: example} of what an operation's query cannot leave out."""
        found = [self.resolve(p) for p in self.operations[name][2].get("parameters", [])]
        return {p["name"]: p["example"] for p in found if p["in"] == "query" and p.get("required")}

    def methods(self, path):
        """Those that the path answers to."""
        own = {verb.upper() for verb, pattern, _ in self.operations.values() if pattern.match(path)}
        return own | ({"HEAD"} if "GET" in own else set()) | ({"OPTIONS"} if own else set())

    def branch(self, schema, value):
        """The one branch of a `oneOf` that the constants of the value leave possible (a line's type, a part's name), else the schema: the
        other branches, each of which requires another constant, take long to say no."""
        key = id(schema)
        if key not in self._branches:
            branches = [self.resolve(b) for b in self.resolve(schema).get("oneOf", [])]
            self._branches[key] = [(b, {k: p.get("enum", [p.get("const")]) for k, p in b.get("properties", {}).items()
                                        if ("const" in p or "enum" in p) and k in b.get("required", [])}) for b in branches], schema
        found = [b for b, words in self._branches[key][0] if isinstance(value, dict) and all(k in value and value[k] in told for k, told in words.items())]
        return found[0] if len(found) == 1 else schema

    def errors(self, schema, value):
        """Faults of value under a schema of the document, as strings."""
        schema = self.branch(schema, value)
        key = id(schema)
        if key not in self._validators:
            # References are local to the document: carry its components along instead of a resolver.
            whole = dict(schema, components=self.doc["components"])
            self._validators[key] = (Draft202012Validator(whole, format_checker=FORMATS), schema)
        validator = self._validators[key][0]
        return [f"{list(e.absolute_path)}: {e.message[:300]}" for e in validator.iter_errors(value)]

    def line_errors(self, schema, text):
        """NDJSON: each line a value, each ended by a newline, none empty."""
        lines = text.split("\n")
        faults = [] if lines.pop() == "" else ["the last line has no end"]
        for i, line in enumerate(lines):
            if hash((id(schema), line)) in self._lines:
                continue
            found = [f"line {i}: {e}" for e in (self.errors(schema, strict_json(line)) if line.strip() else ["empty"])]
            if not found:
                self._lines.add(hash((id(schema), line)))
            faults += found
        return faults

    def media_errors(self, media, content_type, text):
        """Faults of a text under a media type object: JSON, NDJSON by line, or plain."""
        try:
            if not media:
                return []  # bytes that have no schema
            if content_type == NDJSON:
                return self.line_errors(media["x-line-schema"], text)
            if content_type.endswith("json"):
                return self.errors(media["schema"], strict_json(text))
        except (ValueError, AssertionError) as fault:
            return [f"not JSON: {fault}"]
        return self.errors(media["schema"], text)

    def request_errors(self, method, path, content_type, text):
        """Faults of a body that a client sends; its NDJSON may have empty lines, and a last one without an end."""
        media = self.find(method, path)[1]["requestBody"]["content"].get(content_type)
        if media is None:
            return ["content type"]
        if content_type == NDJSON:
            text = "".join(line + "\n" for line in text.split("\n") if line.strip())
        return self.media_errors(media, content_type, text)

    def note_taken(self, method, path, content_type):
        self.taken.add((self.find(method, path)[0], content_type))

    def documented(self, method, path, status, is_last):
        """What the answer is called, and the response object that it has to fit. is_last: it ends the connection."""
        name, operation = self.find(method, path)
        shared, anywhere = self.doc["components"]["responses"], self.doc["x-any-path"]
        if operation is not None and status in operation["responses"]:
            return name, operation["responses"][status]
        if self.resolve(anywhere.get(status, {})) is shared["Refused"] and is_last:
            return "Refused", shared["Refused"]
        assert operation is None, f"{name}: undocumented status {status}"
        if path.startswith("/personalizer/") and status in ("400", "501"):  # what that service has and this one has not
            return "RankMissing", shared["RankRefused"] if status == "400" else self.resolve(self.doc["x-personalizer-path"][status])
        if status == "401":  # a stranger does not learn which paths there are
            return "Unauthorized", shared["Unauthorized"]
        if not self.methods(path):
            kind, right = "UnknownRoute", "404"
        elif method == "OPTIONS":
            kind, right = "Methods", "204"
        else:
            kind, right = "MethodNotAllowed", "405"
        assert status == right, (method, path, status)
        return kind, shared[kind]

    def check_response(self, method, path, response, is_streamed=False):
        """Asserts that the answer is documented, and notes what was seen. Of one that is streamed the body is not looked at."""
        status = str(response.status_code)
        name, documented = self.documented(method, path, status, response.headers.get("Connection") == "close")
        if name in self.flags and response.headers.get("Connection") == "close" and response.headers.get("Content-Type") == PROBLEM:
            name, documented = "Refused", self.doc["components"]["responses"]["Refused"]  # before its path was looked at
        documented = self.resolve(documented)
        self.seen.add((name, status))
        self.check_headers(name, documented, response)
        if "Allow" in response.headers:
            allowed = set(response.headers["Allow"].split(", "))
            assert allowed == self.methods(path), (path, allowed)
        self.check_id(response)
        if not is_streamed:
            self.check_body(documented, response, f"{method} {path} -> {status}", is_head=method == "HEAD")

    def check_raw(self, method, path, data):
        """The same for the bytes that came from a socket; the answer."""
        class Socket:
            def makefile(self, _):
                return io.BytesIO(data)
        reply = http.client.HTTPResponse(Socket(), method=method)
        reply.begin()
        answer = Answer(reply.status, reply.headers, reply.read())
        self.check_response(method, path, answer)
        return answer

    def check_headers(self, name, documented, response):
        specs = {header: self.resolve(spec) for header, spec in documented.get("headers", {}).items()}
        if "Laplaced-Seq" in response.headers:  # of a server that shares its log
            specs |= {header: self.resolve(spec) for header, spec in self.doc["x-shared-log"]["answers"].items()}
        extra = {h.lower() for h in response.headers.keys()} - {h.lower() for h in specs} - OF_HTTP
        assert not extra, f"{name}: undocumented headers {extra}"
        for header, spec in specs.items():
            value = response.headers.get(header)
            assert value is not None or not spec.get("required"), f"no {header}"
            if value is not None:
                self.headers_seen.add((name, header))
                value = int(value) if spec["schema"].get("type") == "integer" else value
                assert not self.errors(spec["schema"], value), (header, value)

    def check_id(self, response):
        """Every answer has its request's id, and problems quote it."""
        request = response.headers.get("Laplaced-Request", "")
        assert re.fullmatch("[0-9a-f]{32}", request), request
        if response.headers.get("Content-Type") == PROBLEM and response.content:
            assert json.loads(response.content)["instance"] == f"urn:laplaced:request:{request}"

    def check_body(self, documented, response, what, is_head=False):
        content = documented.get("content")
        if not content:
            assert response.content == b"" and "Content-Type" not in response.headers, what
            return
        content_type = response.headers.get("Content-Type", "").split(";")[0].strip()
        assert content_type in content, f"{what}: content type {content_type!r}: {response.content[:300]}"
        if is_head:
            assert response.content == b"", what
            return
        text = response.content.decode("utf-8") if content[content_type] else ""
        faults = self.media_errors(content[content_type], content_type, text)
        assert not faults, f"{what}: {faults[:5]}: {text[:500]}"
        if content_type == PROBLEM:
            self.check_problem(json.loads(text), response.status_code, what)

    def check_problem(self, problem, status, what):
        """RFC 9457: the status once more, and its title. The schema lists the types that there are."""
        assert problem["status"] == status, what
        assert problem["title"] == RENAMED.get(status, http.HTTPStatus(status).phrase), what

    def detail(self, body):
        """What a refusal says to people, in whichever form."""
        if "error" in body:
            return body["error"]["message"]
        return body["detail"] if "detail" in body else body["errorDetails"].rsplit(" (urn:laplaced:request:", 1)[0]

    def documented_statuses(self):
        return {(name, status) for name, (_, _, op) in self.operations.items() for status in op["responses"]}

    def documented_bodies(self):
        """(operation, media type) of all requests."""
        return {(name, kind) for name, (_, _, op) in self.operations.items() for kind in op.get("requestBody", {}).get("content", {})}

    def documented_headers(self):
        return {(name, header) for name, (_, _, op) in self.operations.items() for r in op["responses"].values()
                for header in self.resolve(r).get("headers", {})}


CONTRACT = Contract()
