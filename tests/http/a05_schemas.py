"""The JSON Schemas in schema/ are valid, and what repeats them - openapi.yaml, the server's tables - is as they say."""
import subprocess
import sys

import pytest
from jsonschema import Draft202012Validator

from contract import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import schemas  # noqa: E402

NAMES = [name for name in schemas.files() if name != schemas.COMMON]


def judge(name):
    return Draft202012Validator(schemas.bundle(name))


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_valid(name):
    Draft202012Validator.check_schema(judge(name).schema)


def test_what_is_written_from_the_schemas_is_current():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "schemas.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + "not as schema/ has it: run tools/schemas.py"


GOOD = [("select", {"user": "u", "context": [1, 2.5], "candidates": ["a", {"id": "b", "features": [1]}], "top": 2}),
        ("reward", {"decision": "d", "reward": -1}), ("reward", [{"decision": "d", "reward": 1, "arm": "a"}]),
        ("activate", {"decision": "d"}), ("observe", {"user": "u", "arm": {"id": "a"}, "reward": 0}),
        ("settings", {}), ("settings", {"algorithm": "ucb", "confidence": {"norm_bound": "auto"}}),
        ("graph", {"edges": [["a", "b"], ["a", "c", 0.5]]}), ("graph", [["a", "b", 2]]),
        ("graph_patch", {"remove": [["a", "b"]]}), ("arms", {"arms": ["a"]}), ("arms", [{"id": "a", "active": False}]),
        ("arms_patch", {"remove": ["a"]}), ("compact", {"keep_events": 0}), ("promote", {"challenger": "a", "version": 1}), ("rollback", {}), ("evaluation", {"policies": ["logged", {"arm": "a"}, {"configuration": {}}], "from": 7, "to": "2026-11-26T10:00:00Z"}),
        ("settings", {"challengers": {"a": {"algorithm": "ts"}}, "guardrail": {"baseline": "a"}}), ("limits", {}), ("limits", {"rate": 0.5, "burst": 3}), ("key", {}), ("key", {"roles": ["decide"], "tenants": ["home-*", "a.b", "*"]}), ("tenant_key", {"roles": ["read", "manage"]})]
BAD = [("select", {}), ("select", {"user": ""}), ("select", {"user": "u", "top": 17}), ("reward", []),
       ("reward", {"decision": "d", "reward": "1"}), ("activate", {"decision": "x" * 129}),
       ("observe", {"user": "u", "arm": "a", "reward": 1, "propensity": 0}), ("settings", {"representation": {"lambda": 0}}),
       ("settings", {"colour": 1}), ("graph", [["a"]]), ("graph_patch", {"edges": []}), ("arms", [7]),
       ("arms_patch", {"put": []}), ("compact", {}), ("promote", {}), ("rollback", {"version": 0}), ("evaluation", {"policies": []}), ("evaluation", {"policies": [{"arm": "a", "configuration": {}}]}), ("evaluation", {"policies": ["uniform"], "id": "-"}), ("settings", {"challengers": {"a": {"arm_dim": 1}}}), ("limits", {"rate": -1}), ("key", {"roles": ["decide"]}), ("key", {"tenants": ["a"]}), ("key", {"roles": ["decide", "metrics"], "tenants": ["a"]}), ("key", {"roles": ["decide"], "tenants": ["*a"]}), ("tenant_key", {"roles": ["read", "read"]}),
       ("select", {"user": "a\u0085b"}), ("settings", {"representation": {"q": 1e13}}),
       ("event", {"seq": 1, "type": "decided", "at": "2026-11-21T10:00:00.123Z"}), ("event", {"seq": 1, "type": "gone"})]


@pytest.mark.parametrize("name,body", GOOD)
def test_good_bodies_fit(name, body):
    judge(name).validate(body)


@pytest.mark.parametrize("name,body", BAD)
def test_bad_bodies_do_not(name, body):
    assert not judge(name).is_valid(body)
