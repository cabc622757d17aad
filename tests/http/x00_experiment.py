"""Experiments: the setting, and the odds that decisions keep for it (docs/API.md)."""
import pytest


def decided(api, name):
    return [e for e in api.events(name) if e["type"] == "decided"]


def experiment(api, name, arms=("a", "b"), expect=201, **config):
    api.call("PUT", f"/tenants/{name}", {"algorithm": "random", "experiment": {"difference": 0.1}, **config}, expect=expect)
    api.put_arms(name, [{"id": a} for a in arms])


def test_decisions_keep_the_odds_of_every_arm_that_could_be_drawn(api, name):
    experiment(api, name, "abc", algorithm="ucb", rule={"epsilon": 0.3})
    for i in range(20):
        answer = api.select(f"u{i}", explain=True, tenant=name)
        line = decided(api, name)[-1]
        told = {r["arm"]: r["propensity"] for r in answer["ranking"]}
        assert dict(map(tuple, line["odds"])) == told and set(told) == set("abc")
        assert dict(map(tuple, line["odds"]))[line["arm"]] == line["propensity"]
        api.reward(answer["decision"], float(i % 2), tenant=name)


def test_arms_that_cannot_be_drawn_are_left_out(api, name):
    experiment(api, name, "abc", algorithm="ucb")
    api.select("u", candidates=["b"], tenant=name)
    assert decided(api, name)[-1]["odds"] == [["b", 1]]


def test_a_holdout_tells_the_odds_of_its_baseline(api, name):
    experiment(api, name, routing={"holdout": {"share": 1, "baseline": {"arm": "a"}}})
    api.select("u", tenant=name)
    assert decided(api, name)[-1]["odds"] == [["a", 1]]


def test_nothing_is_drawn_for_an_arm_that_sticks_or_from_a_tenant_that_is_stopped(api, name):
    experiment(api, name, routing={"sticky": {"ttl_s": 600}, "holdout": {"baseline": {"arm": "a"}}})
    for _ in range(2):
        api.select("u", tenant=name)
    api.call("POST", f"/tenants/{name}/stop")
    api.select("v", tenant=name)
    lines = decided(api, name)
    assert ["odds" in e for e in lines] == [True, False, False]
    assert [e.get("route") for e in lines] == [None, "sticky", "stopped"]


def test_odds_are_kept_of_64_candidates_at_most_and_only_while_there_is_an_experiment(api, name):
    experiment(api, name, [f"a{i}" for i in range(64)])
    api.select("u", tenant=name)
    assert len(decided(api, name)[-1]["odds"]) == 64
    api.select("u", candidates=[f"x{i}" for i in range(65)], tenant=name)
    assert "odds" not in decided(api, name)[-1]
    api.call("PATCH", f"/tenants/{name}", {"experiment": None})
    api.select("u", tenant=name)
    assert "odds" not in decided(api, name)[-1]
    assert "experiment" not in api.call("GET", f"/tenants/{name}").json["configuration"]


def test_lines_with_odds_restore_a_tenant(api, name):
    experiment(api, name)
    for i in range(3):
        api.select(f"u{i}", tenant=name)
    lines = [e for e in api.events(name)]
    export = api.call("GET", f"/tenants/{name}/export").text
    api.call("POST", f"/tenants/{name}-c/import", raw=export.encode(), kind="application/x-ndjson", expect=201)
    assert api.events(f"{name}-c") == lines


REFUSED = [
    ({}, ["/experiment/difference"]),
    ({"difference": 0}, ["/experiment/difference"]),
    ({"difference": -1, "level": 0, "traffic_level": 0.6}, ["/experiment/difference", "/experiment/level", "/experiment/traffic_level"]),
    ({"difference": 0.1, "range": [0]}, ["/experiment/range"]),
    ({"difference": 0.1, "range": [0, "1"]}, ["/experiment/range/1"]),
    ({"difference": 0.1, "baseline": ""}, ["/experiment/baseline"]),
    ({"difference": 0.1, "colour": 1}, ["/experiment/colour"]),
    (True, ["/experiment"]),
]
COMBINATIONS = [({"difference": 0.1, "range": [1, 0]}, ["/experiment/range"]), ({"difference": 1.5}, ["/experiment/difference"])]
CASES = [(400, *case) for case in REFUSED] + [(422, *case) for case in COMBINATIONS]


@pytest.mark.parametrize("status, value, pointers", CASES)
def test_a_wrong_experiment_is_refused_by_pointer_and_changes_nothing(api, name, status, value, pointers):
    experiment(api, name)
    before, lines = api.call("GET", f"/tenants/{name}").json["configuration"], len(api.events(name))
    answer = api.call("PUT", f"/tenants/{name}", {"algorithm": "random", "experiment": value}, expect=status)
    assert answer.pointers == pointers
    assert api.call("GET", f"/tenants/{name}").json["configuration"] == before and len(api.events(name)) == lines


def test_the_same_experiment_again_is_no_event_and_a_patch_changes_one_member(api, name):
    experiment(api, name)
    n = len(api.events(name))
    api.call("PUT", f"/tenants/{name}", {"algorithm": "random", "experiment": {"difference": 0.1, "level": 0.05}})
    assert len(api.events(name)) == n
    api.call("PATCH", f"/tenants/{name}", {"experiment": {"level": 0.1}})
    want = {"baseline": None, "difference": 0.1, "level": 0.1, "traffic_level": 0.01, "range": [0, 1]}
    assert api.call("GET", f"/tenants/{name}").json["configuration"]["experiment"] == want
    assert len(api.events(name)) == n + 1
