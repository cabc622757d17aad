"""Probes, metrics, the contract itself, and what is not there."""
import re

import pytest
import yaml

from contract import CONTRACT, NDJSON, ROOT


def test_alive_and_ready(api):
    assert api.call("GET", "/healthz").json == {"status": "ok"}
    assert api.call("GET", "/readyz").json == {"ready": True}


def test_the_served_contract_is_the_file(api):
    assert api.call("GET", "/openapi.yaml").text == (ROOT / "openapi.yaml").read_text()


def test_metrics_are_prometheus_text(api):
    api.select("u", candidates=["a", "b"])
    text = api.call("GET", "/metrics").text
    sample = re.compile(r'^[a-z_][a-z0-9_]*(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [-+]?([0-9.e+-]+|Inf|NaN)$')
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert [line for line in lines if not sample.match(line)] == []
    declared = set(re.findall(r"^# TYPE ([a-z0-9_]+) ", text, re.M))
    bases = {re.sub(r"_(bucket|sum|count)$", "", re.split(r"[{ ]", line)[0]) for line in lines}
    names = {re.split(r"[{ ]", line)[0] for line in lines}
    assert bases - declared - names == set() and {n for n in names if n.startswith("laplaced_")}
    assert all(n in declared or re.sub(r"_(bucket|sum|count)$", "", n) in declared for n in names)


def test_metrics_count_requests(api):
    def selects():
        text = api.call("GET", "/metrics").text
        return sum(float(v) for line in text.splitlines() if re.match(r"laplaced_[a-z_]*requests_total\{", line)
                   and 'select' in line for v in [line.rsplit(" ", 1)[1]])
    before = selects()
    for _ in range(3):
        api.select("u", candidates=["a", "b"])
    assert selects() == before + 3


@pytest.mark.parametrize("path", ["/nothing", "/problems/no/tenant", "/select/more", "/tenants/default/nothing", "/tenants/default/model/x"])
def test_unknown_paths_answer_404(api, path):
    assert api.call("GET", path, expect=404).json["status"] == 404


@pytest.mark.parametrize("method, path, allowed", [
    ("GET", "/select", {"POST"}), ("DELETE", "/reward", {"POST"}), ("POST", "/tenants", {"GET"}),
    ("POST", "/tenants/default", {"GET", "PUT", "PATCH", "DELETE"}), ("POST", "/tenants/default/graph", {"GET", "PUT", "PATCH"}),
    ("DELETE", "/tenants/default/arms", {"GET", "PUT", "PATCH"}), ("PUT", "/healthz", {"GET"}),
    ("POST", "/tenants/default/events", {"GET"})])
def test_wrong_methods_answer_405_and_say_which_are_right(api, method, path, allowed):
    answer = api.call(method, path, expect=405)
    assert {m.strip() for m in answer.headers["Allow"].split(",")} - {"HEAD", "OPTIONS"} == allowed


def test_every_reference_of_the_contract_resolves():
    missing = []

    def walk(node):
        if isinstance(node, dict):
            if "$ref" in node:
                try:
                    CONTRACT.resolve(node)
                except KeyError:
                    missing.append(node["$ref"])
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)
    walk(CONTRACT.doc)
    assert missing == []


def test_every_example_of_the_contract_fits_its_schema():
    faults, examples = [], 0

    def walk(node, path):
        nonlocal examples
        if isinstance(node, list):
            for i, value in enumerate(node):
                walk(value, f"{path}/{i}")
        if not isinstance(node, dict):
            return
        if "schema" in node and isinstance(node.get("examples"), dict):
            kind = path.rsplit(" ", 1)[-1]
            for key, example in node["examples"].items():
                examples += 1
                value = CONTRACT.resolve(example)["value"]
                text = value if kind == NDJSON or isinstance(value, str) else yaml.safe_dump(value)
                bad = (CONTRACT.media_errors(node, NDJSON, text) if kind == NDJSON
                       else CONTRACT.errors(node["schema"], value))
                faults.extend(f"{path} {key}: {b}" for b in bad)
        if isinstance(node.get("examples"), list):
            for value in node["examples"]:
                examples += 1
                faults.extend(f"{path}: {b}" for b in CONTRACT.errors(node, value))
        for key, value in node.items():
            walk(value, f"{path} {key}")
    walk({k: v for k, v in CONTRACT.doc.items() if k in ("paths", "components")}, "")
    assert faults == [] and examples > 25


def test_every_operation_has_an_example_or_no_body():
    without = []
    for operation, (_, _, op) in CONTRACT.operations.items():
        for media in op.get("requestBody", {}).get("content", {}).values():
            if media and not media.get("examples"):  # {}: a file of bytes, which shows nothing
                without.append(operation)
    assert without == []
