"""The JSON Schemas in schema/ are valid, say what openapi.yaml says, and fit what the server writes and takes."""
import json
import subprocess
import sys

import pytest
from jsonschema import Draft202012Validator

from contract import ROOT

NAMES = sorted(p.name.removesuffix(".schema.json") for p in (ROOT / "schema").glob("*.schema.json"))


def judge(name):
    return Draft202012Validator(json.loads((ROOT / "schema" / f"{name}.schema.json").read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_valid(name):
    Draft202012Validator.check_schema(judge(name).schema)


def test_schemas_say_what_the_contract_says():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "schemas.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + "differ: run tools/schemas.py"


GOOD = [("select", {"user": "u", "context": [1, 2.5], "candidates": ["a", {"id": "b", "features": [1]}], "top": 2}),
        ("reward", {"decision": "d", "reward": -1}), ("reward", [{"decision": "d", "reward": 1, "arm": "a"}]),
        ("activate", {"decision": "d"}), ("observe", {"user": "u", "arm": {"id": "a"}, "reward": 0}),
        ("settings", {}), ("settings", {"algorithm": "ucb", "confidence": {"norm_bound": "auto"}}),
        ("graph", {"edges": [["a", "b"], ["a", "c", 0.5]]}), ("graph", [["a", "b", 2]]),
        ("graph_patch", {"remove": [["a", "b"]]}), ("arms", {"arms": ["a"]}), ("arms", [{"id": "a", "active": False}])]
BAD = [("select", {}), ("select", {"user": ""}), ("select", {"user": "u", "top": 17}), ("reward", []),
       ("reward", {"decision": "d", "reward": "1"}), ("activate", {"decision": "x" * 129}),
       ("observe", {"user": "u", "arm": "a", "reward": 1, "propensity": 0}), ("settings", {"representation": {"lambda": 0}}),
       ("settings", {"colour": 1}), ("graph", [["a"]]), ("graph_patch", {"edges": []}), ("arms", [7]),
       ("event", {"seq": 1, "type": "decided", "at": "2026-11-21T10:00:00.123Z"}), ("event", {"seq": 1, "type": "gone"})]


@pytest.mark.parametrize("name,body", GOOD)
def test_good_bodies_fit(name, body):
    judge(name).validate(body)


@pytest.mark.parametrize("name,body", BAD)
def test_bad_bodies_do_not(name, body):
    assert not judge(name).is_valid(body)
