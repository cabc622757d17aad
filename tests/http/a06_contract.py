"""The judge itself: what openapi.yaml leaves open would pass unseen, and each kind of broken answer is found."""
import copy
import json
import urllib.parse

import pytest

from contract import CONTRACT, NDJSON, Answer, Contract

GETS = sorted(name for name, (verb, _, _) in CONTRACT.operations.items() if verb == "get")
PATHS = sorted(CONTRACT.doc["paths"])
HOLES = {"{tenant}": "default", "{user}": "nobody", "{key}": "0123456789abcdef", "{problem}": "no-tenant", "{decision}": "d1", "{file}": "main.js",
         "{evaluation}": "june", "{version}": "v1.0", "{event}": "e1"}


def path_of(name):
    path = concrete(next(t for t, item in CONTRACT.doc["paths"].items() if item.get("get", {}).get("operationId") == name))
    asked = {"user": "u", "fallback": "a"} if name == "route" else CONTRACT.required(name)
    return path + "?" * bool(asked) + urllib.parse.urlencode(asked)


def concrete(template):
    for hole, value in HOLES.items():
        template = template.replace(hole, value)
    return template


@pytest.mark.parametrize("name", GETS)
def test_head_is_get_without_its_body(api, name):
    api.select("u", candidates=["a"], decision="d1")
    if name in ("getEvaluation", "getRankEvaluation"):
        own = path_of("getEvaluation")
        api.call("DELETE", own, expect=(204, 404))
        api.call("POST", own.removesuffix("/june"), {"policies": ["logged"], "id": "june"}, expect=202)
        while api.call("GET", own).json["state"] == "running":
            pass
    got, head = (api.call(verb, path_of(name), expect=(200, 204, 308)) for verb in ("GET", "HEAD"))
    # Metrics change with every request, and so does the length of their text.
    varying = {"Date", "Laplaced-Request"} | ({"Content-Length"} if name == "metrics" else set())
    assert {k: v for k, v in head.headers.items() if k not in varying} == {k: v for k, v in got.headers.items() if k not in varying}
    assert head.content == b"" and (got.content == b"") == (got.status == 204)


@pytest.mark.parametrize("template", PATHS)
def test_options_lists_the_methods_of_every_path(api, template):
    api.call("OPTIONS", concrete(template), expect=204)  # check_response compares Allow with the contract
    for verb in ("PUT", "PATCH", "POST", "DELETE", "GET", "HEAD"):
        if verb not in CONTRACT.methods(concrete(template)):
            answer = api.call(verb, concrete(template), expect=405)
            assert verb != "HEAD" or answer.content == b""
    for verb in ("TRACE", "PROPFIND"):
        api.call(verb, concrete(template), expect=501)


def test_unknown_paths_are_unknown_to_every_method(api):
    for verb in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE"):
        api.call(verb, "/tenants/default/nothing", expect=404)


def objects(node, path=""):
    """(path, schema) of every object schema, but for those that only add conditions to another one."""
    if isinstance(node, list):
        for i, value in enumerate(node):
            yield from objects(value, f"{path}/{i}")
    elif isinstance(node, dict):
        if (node.get("type") == "object" or "properties" in node) and "allOf" not in node:
            yield path, node
        for key, value in node.items():
            if key not in ("if", "then", "else", "not", "examples", "example", "value"):
                yield from objects(value, f"{path}/{key}")


def test_no_object_is_open():
    """An open one would let members pass that nobody has described. Where names are the caller's own, they have a rule."""
    found = list(objects(CONTRACT.doc["components"])) + list(objects(CONTRACT.doc["paths"]))
    assert [path for path, schema in found if schema.get("additionalProperties") is not False
            and "propertyNames" not in schema and not path.endswith("/properties")] == [] and len(found) > 60


def test_what_is_refined_is_closed_and_has_no_new_members():
    for name, schema in CONTRACT.doc["components"]["schemas"].items():
        if "allOf" in schema:
            base = CONTRACT.resolve(schema["allOf"][0])
            while "allOf" in base:
                base = CONTRACT.resolve(base["allOf"][0])
            assert base["additionalProperties"] is False, name
            assert {*schema.get("properties", {}), *schema.get("required", [])} <= set(base["properties"]), name


# --- forged answers -------------------------------------------------------------------------------------

OK = {"decision": "d", "arm": "a", "propensity": 1.0, "model": {"events": 0, "dictionary": 0},
      "ranking": [{"arm": "a", "mean": 0, "sd": 1, "lower": -2, "upper": 2, "score": 2, "propensity": 1.0}]}
ID = {"Laplaced-Request": "4bf92f3577b34da6a3ce929d0e0e4736"}
INSTANCE = "urn:laplaced:request:" + ID["Laplaced-Request"]
JSON, PROBLEM = {"Content-Type": "application/json", **ID}, {"Content-Type": "application/problem+json", **ID}
BUSY = {"type": "/problems/unavailable", "title": "Service Unavailable", "status": 503, "detail": "later", "instance": INSTANCE}
EVENT = '{"seq":1,"type":"activated","at":"2026-01-01T00:00:00.000Z","decision":"d"}'
LINES = {"Content-Type": NDJSON, **ID}


@pytest.fixture
def judge():
    """One of its own: what is forged was not seen."""
    return Contract()


def test_honest_answers_pass(judge):
    judge.check_response("POST", "/select", Answer(200, JSON, json.dumps(OK).encode()))
    judge.check_response("POST", "/select", Answer(503, {**PROBLEM, "Retry-After": "1", "Date": "now"}, json.dumps(BUSY).encode()))
    judge.check_response("GET", "/tenants/t/events", Answer(200, LINES, (EVENT + "\n").encode()))
    raw = (b"HTTP/1.1 405 Method Not Allowed\r\nAllow: POST, OPTIONS\r\nContent-Type: application/problem+json\r\n"
           b"Laplaced-Request: %s\r\nContent-Length: %%d\r\n\r\n%%s" % ID["Laplaced-Request"].encode())
    body = json.dumps({"type": "/problems/method-not-allowed", "title": "Method Not Allowed", "status": 405, "detail": "no", "instance": INSTANCE}).encode()
    assert judge.check_raw("GET", "/select", raw % (len(body), body)).status_code == 405
    assert judge.seen == {("select", "200"), ("select", "503"), ("getEvents", "200"), ("MethodNotAllowed", "405")}


def with_(value, **changes):
    return {**copy.deepcopy(value), **changes}


FORGED = {
    "a status that is not documented": ("POST", "/select", 418, JSON, OK),
    "a refusal that goes on": ("POST", "/select", 501, PROBLEM, {**BUSY, "type": "/problems/not-implemented", "status": 501, "title": "Not Implemented"}),
    "a header that is not documented": ("POST", "/select", 200, {**JSON, "Server": "x"}, OK),
    "a required header that is missing": ("POST", "/select", 503, PROBLEM, BUSY),
    "an answer without an id": ("POST", "/select", 200, {"Content-Type": "application/json"}, OK),
    "a problem of another request": ("POST", "/select", 503, {**PROBLEM, "Retry-After": "1"}, with_(BUSY, instance=INSTANCE[:-1] + "0")),
    "a header of another form": ("POST", "/select", 503, {**PROBLEM, "Retry-After": "0"}, BUSY),
    "Allow with a method too many": ("OPTIONS", "/select", 204, {"Allow": "GET, POST, OPTIONS", **ID}, None),
    "another media type": ("POST", "/select", 200, {"Content-Type": "text/html", **ID}, OK),
    "a member that is not documented": ("POST", "/select", 200, JSON, with_(OK, extra=1)),
    "a member that is missing": ("POST", "/select", 200, JSON, {k: v for k, v in OK.items() if k != "arm"}),
    "a member twice": ("POST", "/select", 200, JSON, json.dumps(OK)[:-1] + ',"arm":"a"}'),
    "not a number": ("POST", "/select", 200, JSON, json.dumps(with_(OK, propensity=float("nan")))),
    "a problem of another status": ("POST", "/select", 503, {**PROBLEM, "Retry-After": "1"}, with_(BUSY, status=500)),
    "a title that varies": ("POST", "/select", 503, {**PROBLEM, "Retry-After": "1"}, with_(BUSY, title="Busy")),
    "a type that nobody has described": ("POST", "/select", 503, {**PROBLEM, "Retry-After": "1"}, with_(BUSY, type="about:blank")),
    "a type that is no reference": ("POST", "/select", 503, {**PROBLEM, "Retry-After": "1"}, with_(BUSY, type="not a uri")),
    "a body where there is none": ("DELETE", "/tenants/t", 204, ID, "gone"),
    "a body for HEAD": ("HEAD", "/healthz", 200, JSON, {"status": "ok"}),
    "a line of another type": ("GET", "/tenants/t/events", 200, LINES, EVENT + "\n" + EVENT.replace("activated", "gone") + "\n"),
    "an empty line": ("GET", "/tenants/t/events", 200, LINES, EVENT + "\n\n"),
    "a last line that is cut": ("GET", "/tenants/t/events", 200, LINES, EVENT),
    "a path that is not there": ("GET", "/nothing", 200, JSON, {}),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_answer_is_found(judge, what):
    method, path, status, headers, body = FORGED[what]
    text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
    with pytest.raises(AssertionError):
        judge.check_response(method, path, Answer(status, headers, text.encode()))


# --- what a client needs to read ------------------------------------------------------------------------


def all_operations():
    for path, item in CONTRACT.doc["paths"].items():
        for verb, operation in item.items():
            if verb != "parameters":
                yield path, item, operation


def test_every_parameter_and_header_is_described_and_has_an_example():
    found = [CONTRACT.resolve(p) for _, item, op in all_operations() for p in item.get("parameters", []) + op.get("parameters", [])]
    for response in [*CONTRACT.doc["components"]["responses"].values(), *(r for _, _, op in all_operations() for r in op["responses"].values())]:
        found += [CONTRACT.resolve(h) for h in CONTRACT.resolve(response).get("headers", {}).values()]
    for one in found:
        assert one.get("description") and "example" in one, one
        assert CONTRACT.errors(one["schema"], one["example"]) == [], one


def test_every_refusal_is_a_component():
    for path, _, operation in all_operations():
        inline = [status for status, r in operation["responses"].items() if status[0] in "45" and "$ref" not in r]
        assert inline == [], (path, operation["operationId"])


def test_every_operation_has_a_tag_that_is_described():
    tags = {tag["name"]: tag["description"] for tag in CONTRACT.doc["tags"]}
    used = {tag for _, _, operation in all_operations() for tag in operation["tags"]}
    assert used == set(tags) and all(tags.values())
