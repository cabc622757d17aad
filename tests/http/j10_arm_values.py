"""Values of arms: JSON that stands in the catalogue for whoever shows the arm, and that no model reads."""
import json

import pytest

from harness import Client

VALUES = {
    "flag": True, "text": "two\nlines, \"quoted\", \u00e9 \U0001f600 / \\ \u007f", "empty": "", "zero": 0, "price": 9.99, "small": 5e-324,
    "large": -1.7976931348623157e308, "integer": 9007199254740991, "none": {},
    "page": {"a/b~\"\n": [1, None, {"deep": [[], {}, False]}], "": {"\u00e9": "x"}},
}


def listed(client, name):
    return {a["id"]: a for a in client.call("GET", f"/tenants/{name}/arms").json["arms"]}


def values_of(client, name):
    return {i: a["value"] for i, a in listed(client, name).items() if "value" in a}


def nested(depth, inner=1):
    """Objects and arrays in turns, so many deep."""
    for i in range(depth):
        inner = [inner] if i % 2 else {"x": inner}
    return inner


def traffic(client, name, n=20):
    for i in range(n):
        client.select(f"u{i}", tenant=name, decision=f"d{i}")
        client.reward(f"d{i}", i % 2, tenant=name)


@pytest.mark.parametrize("form", ["object", "array", "lines"])
def test_values_come_back_as_they_were_put(api, name, form):
    api.put_tenant(name, algorithm="ucb")
    arms = [{"id": i, "value": v} for i, v in VALUES.items()] + ["plain"]
    if form == "lines":
        api.call("PUT", f"/tenants/{name}/arms", arms, kind="application/x-ndjson")
    else:
        api.call("PUT", f"/tenants/{name}/arms", arms if form == "array" else {"arms": arms})
    assert values_of(api, name) == VALUES
    assert json.dumps(values_of(api, name)["flag"]) == "true"  # 1 equals True to Python
    assert listed(api, name)["plain"] == {"id": "plain", "active": True}
    line = [e for e in api.events(name) if e["type"] == "arms"][-1]
    assert {a["id"]: a["value"] for a in line["put"] if "value" in a} == VALUES
    digest = api.digest(name)
    api.put_arms(name, list(listed(api, name).values()))  # what is shown can be put
    assert values_of(api, name) == VALUES and digest != api.digest(name)


def test_a_patch_puts_an_arm_whole_and_a_switch_leaves_its_value(api, name):
    api.put_tenant(name, algorithm="ucb")
    api.put_arms(name, [{"id": "a", "value": {"n": 1}}, {"id": "b", "value": 2}, {"id": "c", "value": "3"}])
    api.call("PATCH", f"/tenants/{name}/arms", {"arms": [{"id": "a", "value": False}, {"id": "b"}], "stop": ["c"]})
    assert values_of(api, name) == {"a": False, "c": "3"}
    api.call("PATCH", f"/tenants/{name}/arms", {"start": ["c"], "remove": ["a"]})
    assert values_of(api, name) == {"c": "3"}
    api.call("PATCH", f"/tenants/{name}/arms", {"arms": ["a"]})
    assert values_of(api, name) == {"c": "3"}  # what an arm had before it was removed is gone


@pytest.mark.parametrize("value, message", [
    (None, "expected a boolean, a string, a number or an object"), ([], "expected a boolean, a string, a number or an object"),
    (nested(9), "expected arrays and objects at most 8 deep"), ("x" * 4095, "expected at most 4096 bytes, written without blanks; this has 4097"),
    ({"k": "\u00e9" * 2046}, "expected at most 4096 bytes, written without blanks; this has 4100")])
def test_what_no_value_can_be_is_refused_and_changes_nothing(api, name, value, message):
    api.put_tenant(name, algorithm="ucb")
    api.put_arms(name, [{"id": "a", "value": 1}])
    digest = api.digest(name)
    for method in ("PUT", "PATCH"):
        answer = api.call(method, f"/tenants/{name}/arms", {"arms": ["b", {"id": "a", "value": value}]}, expect=400)
        assert [(e["pointer"], e["detail"]) for e in answer.json["errors"]] == [("/arms/1/value", message)]
    assert values_of(api, name) == {"a": 1} and api.digest(name) == digest


def test_the_largest_value_is_taken_and_its_line_can_be_read(boot):
    """The lists around a value are deeper in a line of the log than in a body."""
    client = Client(boot())
    client.put_tenant("t", algorithm="ucb")
    largest = {"x": "x" * 4094, "deep": nested(7, "y")}
    del largest["x"]
    text = json.dumps(largest, separators=(",", ":"))
    largest["x"] = "x" * (4096 - len(text) - len(',"x":""'))
    client.call("PUT", "/tenants/t/arms", raw=json.dumps([{"id": "a", "value": largest}, {"id": "b", "value": "x" * 4094}], indent=2), kind="application/json")
    client.server.restart()
    assert values_of(client, "t") == {"a": largest, "b": "x" * 4094}
    client.call("POST", "/tenants/t/compact", {"keep_events": 0})
    client.server.restart()
    assert values_of(client, "t") == {"a": largest, "b": "x" * 4094} and client.verify("t")["equal"]


@pytest.mark.parametrize("args", [[], ["--snapshot-events", "3"]], ids=" ".join)
def test_values_outlive_kills_snapshots_compaction_and_copies(boot, args):
    client = Client(boot(*args))
    client.put_tenant("t", algorithm="ucb")
    client.put_arms("t", [{"id": i, "value": v} for i, v in VALUES.items()] + ["plain"])
    traffic(client, "t")
    digest = client.digest("t")
    client.server.restart()
    assert values_of(client, "t") == VALUES and client.digest("t") == digest and client.verify("t")["equal"]
    exported = client.call("GET", "/tenants/t/export")
    client.call("POST", "/tenants/copy/import", raw=exported.text, kind="application/x-ndjson", expect=(200, 201))
    assert values_of(client, "copy") == VALUES and client.digest("copy") == digest
    client.call("POST", "/tenants/t/compact", {"keep_events": 5})
    assert values_of(client, "t") == VALUES and client.verify("t")["equal"]
    assert any("value" in a for e in client.events("t") if e.get("part") == "arms" for a in e["arms"])
    client.server.restart()
    assert values_of(client, "t") == VALUES and client.verify("t")["equal"]
    client.call("DELETE", "/tenants/t/users/u1")
    assert values_of(client, "t") == VALUES and client.verify("t")["equal"]


def test_values_do_not_change_decisions(api, name):
    """The same requests under the same seed, with values and without."""
    drawn = []
    for tenant, arms in ((f"{name}-plain", ["a", "b", "c"]), (f"{name}-valued", [{"id": i, "value": {"i": i}} for i in "abc"])):
        api.put_tenant(tenant, algorithm="random", seed=7)
        api.put_arms(tenant, arms)
        drawn.append([api.select(f"u{i}", tenant=tenant, decision=f"d{i}")["arm"] for i in range(40)])
    assert drawn[0] == drawn[1] and len(set(drawn[0])) == 3


def test_a_large_catalogue_with_values_is_replaced_whole(api, name):
    api.put_tenant(name, algorithm="ucb")
    for turn in range(2):
        arms = [{"id": f"a{i}", "value": {"turn": turn, "i": i}} for i in range(1500)]
        api.put_arms(name, arms)
        assert values_of(api, name) == {a["id"]: a["value"] for a in arms}
    assert api.verify(name)["equal"]
