"""Every example of openapi.yaml is true: sent to a fresh server behind what its `x-setup` asks for, a request's example is
answered by the answer's example of the same name. Operations without a body have `x-setup` at the answer's example, and what is
refused has `x-request` there: what it is that is refused."""
import json
import math

import pytest

from contract import CONTRACT, NDJSON, PROBLEM
from harness import Client

# Told anew by every run, hence compared by type alone: times, and what is drawn or depends on the machine.
VARYING = {"at", "begun_at", "kept_from", "expires_at", "created_at", "last_used_at", "id", "key", "digest", "creationTime", "lastModifiedTime", "lastConfigurationEditDate", "folded_digest", "content_digest", "logical_digest", "bytes"}
ANY_DECISION = "01KAKW1T5M8Q2V7C9XJ3ZB4E6H"  # stands for an id that the server gives
TENANT = CONTRACT.doc["components"]["parameters"]["TenantPath"]["example"]


def request_examples(operation):
    """[(name, media type, example)]."""
    content = operation.get("requestBody", {}).get("content", {})
    return [(name, kind, example) for kind, media in content.items() for name, example in media.get("examples", {}).items()]


def answer_examples(operation):
    """{name: (status, media type, example)} of what succeeds."""
    found = {}
    for status, response in operation["responses"].items():
        for kind, media in CONTRACT.resolve(response).get("content", {}).items():
            if status.startswith("2"):
                found |= {name: (status, kind, CONTRACT.resolve(example)) for name, example in media.get("examples", {}).items()}
    return found


def cases():
    for name, (_, _, operation) in CONTRACT.operations.items():
        sent = request_examples(operation)
        for example, kind, body in sent:
            yield pytest.param(name, example, kind, body, id=f"{name}-{example}-{kind.rsplit('/')[-1]}")
        if not operation.get("requestBody"):
            for example, (_, _, body) in answer_examples(operation).items():
                yield pytest.param(name, example, None, body, id=f"{name}-{example}")


class Play:
    """One server for one example; requests by operation, with the examples of the parameters in their paths."""

    def __init__(self, server):
        self.client, self.has_tenant, self.tenant_key = Client(server), False, None

    def set_up(self, example):
        for step in example.get("x-setup", []):
            (name, value), = step.items()
            self.send(name, None, value)

    def send(self, name, kind, body):
        verb, _, operation = CONTRACT.operations[name]
        path, item = next((p, item) for p, item in CONTRACT.doc["paths"].items() if item.get(verb) is operation)
        parameters = [CONTRACT.resolve(p) for p in item.get("parameters", []) + operation.get("parameters", [])]
        headers = {}
        for parameter in parameters:
            if parameter["in"] == "path":
                path = path.replace("{%s}" % parameter["name"], parameter["example"])
            elif parameter["in"] == "header" and parameter["name"] == "Laplaced-Tenant" and self.has_tenant:
                headers["Laplaced-Tenant"] = TENANT
        raw = body if isinstance(body, str) else None
        answer = self.client.call(verb.upper(), path, None if raw else body, raw=raw, kind=kind, headers=headers, query=CONTRACT.required(name),
                                  expect=(200, 201, 202, 204))
        self.has_tenant |= name == "putTenant"
        if name == "makeKey" and answer.json["roles"] == ["admin"]:
            self.client.key = answer.json["key"]
        if name == "makeTenantKey":
            self.tenant_key = answer.json["key"]
        return answer

    def refused(self, request):
        """The answer to a request as it stands in `x-request`; `key` is the one that it comes with, if not the admin's."""
        body = request.get("body")
        client = Client(self.client.server, {"none": None, "tenant": self.tenant_key}.get(request.get("key"), self.client.key))
        raw = body if isinstance(body, str) else None
        return client.call(request["method"], request["path"], None if raw else body, raw=raw, kind=request.get("type"),
                           expect=tuple(range(400, 600)))


def differences(told, wanted, place=""):
    """Where an answer is not as the example has it."""
    name = place.rsplit("/", 1)[-1]
    if isinstance(wanted, dict) and isinstance(told, dict):
        if set(told) != set(wanted):
            return [f"{place}: members {sorted(set(told) ^ set(wanted))}"]
        return [d for k in wanted if k != "dateRange" for d in differences(told[k], wanted[k], f"{place}/{k}")]
    if isinstance(wanted, list) and isinstance(told, list):
        if len(told) != len(wanted):
            return [f"{place}: {len(told)} items, not {len(wanted)}"]
        return [d for i, (a, b) in enumerate(zip(told, wanted)) for d in differences(a, b, f"{place}/{i}")]
    is_number = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (told, wanted))
    if is_number:
        return [] if name in VARYING or math.isclose(told, wanted, rel_tol=1e-6, abs_tol=1e-9) else [f"{place}: {told}, not {wanted}"]
    if type(told) is not type(wanted):
        return [f"{place}: {told!r}, not {wanted!r}"]
    return [] if name in VARYING or wanted == ANY_DECISION or told == wanted else [f"{place}: {told!r}, not {wanted!r}"]


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name, example, kind, body", cases())
def test_an_example_is_answered_as_documented(boot, name, example, kind, body):
    play = Play(boot())
    play.set_up(body)
    answer = play.send(name, kind, body["value"] if kind else None)
    wanted = answer_examples(CONTRACT.operations[name][2]).get(example)
    if answer.status == 204:
        assert wanted is None and answer.text == ""
        return
    assert wanted is not None, f"no example {example} of its answer, which was {answer.status} {answer.text}"
    status, told_kind, expected = wanted
    assert str(answer.status) == status
    if told_kind == NDJSON:
        assert differences(lines_of(answer.text), lines_of(expected["value"])) == []
    elif told_kind == "text/plain":
        assert {line.split()[0] for line in expected["value"].splitlines()} <= {w for line in answer.text.splitlines() for w in line.split()[:1]}
    else:
        assert differences(answer.json, expected["value"]) == [], answer.text


PROBLEMS = {name: response["content"][PROBLEM].get("examples", {}) for name, response in CONTRACT.doc["components"]["responses"].items()
            if PROBLEM in response.get("content", {})}
REFUSALS = [pytest.param(name, example, id=f"{name}-{key}") for name, examples in PROBLEMS.items() for key, example in examples.items()
            if "x-request" in example]


@pytest.mark.parametrize("name, example", REFUSALS)
def test_a_refusal_is_told_as_documented(boot, name, example):
    play = Play(boot())
    play.set_up(example)
    answer = play.refused(example["x-request"])
    told = {key: value for key, value in answer.json.items() if key != "instance"}  # the id of this one request
    assert differences(told, example["value"]) == [], answer.text


def test_every_refusal_has_an_example_that_is_one():
    assert [name for name, examples in PROBLEMS.items() if not examples] == [] and len(REFUSALS) > 10
    for name, examples in PROBLEMS.items():
        for example in examples.values():
            CONTRACT.check_problem(example["value"], example["value"]["status"], name)


def test_every_example_of_an_answer_is_played():
    played = {(c.values[0], c.values[1]) for c in cases()}
    # A body of bytes has no example.
    shown = {(name, e) for name, (_, _, op) in CONTRACT.operations.items() for e in answer_examples(op)
             if request_examples(op) or not op.get("requestBody")}
    assert shown - played == set() and len(played) > 40


FILES = ("application/yaml", "text/markdown", "text/html", "text/css", "text/javascript", "image/svg+xml")
# How far it is when it is asked, of which r03_evaluations.py has every state; and servers that share a log, which one that plays alone has none of.
BY_THE_CLOCK = {"getEvaluation", "getRankEvaluation", "deleteRankLogs"}


def test_every_operation_that_answers_json_or_lines_shows_an_answer():
    def shows(operation):
        media = [m for status, r in operation["responses"].items() if status.startswith("2")
                 for kind, m in CONTRACT.resolve(r).get("content", {}).items() if m and kind not in FILES]
        return not media or answer_examples(operation)
    assert {name for name, (_, _, op) in CONTRACT.operations.items() if not shows(op)} == BY_THE_CLOCK


@pytest.mark.parametrize("told, wanted, n", [({"a": 1}, {"a": 1.0000000001}, 0), ({"a": 1}, {"a": 2}, 1), ({"a": 1}, {"b": 1}, 1),
                                             ([1], [1, 2], 1), ({"a": True}, {"a": 1}, 1), ({"at": "x"}, {"at": "y"}, 0), ("x", None, 1)])
def test_differences_are_found(told, wanted, n):
    assert len(differences(told, wanted)) == n
