"""The rule `split`: weights over those of the candidates, exactly, and draws as often as told (docs/API.md)."""
import json
import time

import numpy as np
import pytest

from explained import of, ranking
from harness import run_ctl

WEIGHTS = {"a": 6, "b": 3, "c": 1, "zero": 0}


def split(api, name, weights=WEIGHTS, epsilon=0, expect=201, **config):
    return api.call("PUT", f"/tenants/{name}", {"algorithm": "laplaced", "rule": {"type": "split", "epsilon": epsilon, "weights": weights}, **config}, expect=expect)


def shares(weights, candidates, epsilon=0):
    w = np.array([weights.get(a, 0) for a in candidates], dtype=float)
    return (1 - epsilon) * (w / w.sum() if w.sum() > 0 else np.full(len(w), 1 / len(w))) + epsilon / len(w)


CANDIDATES = [["a", "b", "c"], ["c", "a"], ["b"], ["a", "zero", "new"], ["zero", "new"], ["new"], ["zero", "b", "x", "y", "z"]]


@pytest.mark.parametrize("candidates", CANDIDATES)
@pytest.mark.parametrize("epsilon", [0, 0.25])
def test_propensities_are_the_weights_over_those_of_the_candidates(api, name, candidates, epsilon):
    split(api, name, epsilon=epsilon)
    rows = ranking(api, name, candidates)
    assert of(rows, "propensity") == pytest.approx(shares(WEIGHTS, candidates, epsilon), abs=1e-15)


def test_no_reward_moves_a_split_and_none_is_waited_for(api, name):
    split(api, name)
    api.put_arms(name, ["a", "b", "c"])
    told = set()
    for i in range(40):  # laplaced draws alike until its scales are found, but not here
        d = api.select(f"u{i}", explain=True, tenant=name)
        told.add(tuple(sorted((r["arm"], r["propensity"]) for r in d["ranking"])))
        api.reward(d["decision"], float(d["arm"] == "c"), tenant=name)
    assert told == {(("a", 0.6), ("b", 0.3), ("c", 0.1))}


def test_arms_are_drawn_as_often_as_told_and_a_user_who_sticks_keeps_theirs(api, name):
    n = 10_000
    split(api, name, routing={"sticky": {"ttl_s": 3600}})
    api.put_arms(name, ["a", "b", "c"])
    drawn = [api.select(f"u{i}", dry_run=True, decision=f"k{i}", tenant=name)["arm"] for i in range(n)]
    for arm, p in zip("abc", shares(WEIGHTS, "abc")):
        assert abs(drawn.count(arm) - n * p) < 5 * np.sqrt(n * p * (1 - p))
    first = {f"u{i}": api.select(f"u{i}", decision=f"d{i}", tenant=name) for i in range(30)}
    assert {d["arm"] for d in first.values()} == set("abc")
    for user, d in first.items():
        again = api.select(user, tenant=name)
        assert (again["arm"], again["propensity"], again["route"]) == (d["arm"], d["propensity"], "sticky")


def test_weights_are_told_logged_patched_and_read_after_a_restart(api, name):
    split(api, name)
    told = lambda: api.call("GET", f"/tenants/{name}").json["configuration"]["rule"]
    assert told()["type"] == "split" and told()["weights"] == WEIGHTS
    n = len(api.events(name))
    split(api, name, weights=dict(reversed(WEIGHTS.items())), expect=200)
    assert len(api.events(name)) == n  # the same weights in another order are the same
    api.call("PATCH", f"/tenants/{name}", {"rule": {"weights": {"c": 2, "zero": None, "d \"1\"": 0.5}}})
    want = {"a": 6, "b": 3, "c": 2, 'd "1"': 0.5}
    assert told()["weights"] == want
    assert api.events(name)[-1]["configuration"]["rule"]["weights"] == want
    lines = api.call("GET", f"/tenants/{name}/export").text
    api.call("POST", f"/tenants/{name}-c/import", raw=lines.encode(), kind="application/x-ndjson", expect=201)
    assert api.call("GET", f"/tenants/{name}-c").json["configuration"]["rule"]["weights"] == want
    api.call("PATCH", f"/tenants/{name}", {"rule": {"type": "ucb"}})
    assert told()["weights"] == want  # kept, and not read
    api.call("PATCH", f"/tenants/{name}", {"rule": {"weights": None}})
    assert "weights" not in told()


REFUSED = [
    (400, {"weights": {"a": -1}}, ["/rule/weights/a"]),
    (400, {"weights": {"a": 1, "b": "2", "c/d": 1e7}}, ["/rule/weights/b", "/rule/weights/c~1d"]),
    (400, {"weights": {"": 1}}, ["/rule/weights/"]),
    (400, {"weights": {"x" * 257: 1}}, ["/rule/weights/" + "x" * 257]),
    (400, {"weights": [1, 2]}, ["/rule/weights"]),
    (400, {"weights": {f"a{i}": 1 for i in range(33)}}, ["/rule/weights"]),
    (400, {"weights": {f"{i}" * 256: 1 for i in range(3)}}, ["/rule/weights/" + "2" * 256]),
    (422, {}, ["/rule/weights"]),
    (422, {"weights": {}}, ["/rule/weights"]),
    (422, {"weights": {"a": 0, "b": 0}}, ["/rule/weights"]),
]


@pytest.mark.parametrize("status, rule, pointers", REFUSED, ids=range(len(REFUSED)))
def test_bad_weights_are_refused_by_pointer_and_change_nothing(api, name, status, rule, pointers):
    split(api, name)
    before = api.call("GET", f"/tenants/{name}").json["configuration"]
    answer = api.call("PUT", f"/tenants/{name}", {"algorithm": "laplaced", "rule": {"type": "split", **rule}}, expect=status)
    assert [p[:80] for p in answer.pointers] == [p[:80] for p in pointers]
    assert api.call("GET", f"/tenants/{name}").json["configuration"] == before


def test_a_split_is_a_challenger_and_a_shadow_as_any_rule_is(api, name):
    challenger = {"rule": {"type": "split", "epsilon": 0, "weights": {"a": 1, "b": 3}}}
    api.put_tenant(name, algorithm="random", default_reward=None, challengers={"uneven": challenger})
    api.put_arms(name, ["a", "b"])
    reward = {"a": 0.0, "b": 1.0}
    for i in range(200):
        d = api.select(f"u{i}", tenant=name)
        api.reward(d["decision"], reward[d["arm"]], tenant=name)
    c = followed(api, name)
    shown = [e["arm"] for e in api.events(name) if e["type"] == "decided"]
    w = np.array([2 * (0.25 if a == "a" else 0.75) for a in shown])
    r = np.array([reward[a] for a in shown])
    assert c["snips"]["estimate"] == pytest.approx((w * r).sum() / w.sum(), rel=1e-9)


def followed(api, name):
    deadline = time.monotonic() + 30
    while True:
        c = api.call("GET", f"/tenants/{name}/challengers").json["challengers"][0]
        if c["lag"] == 0:
            return c
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_laplacectl_sets_weights(api, name):
    run_ctl(api.server, "tenant", "put", name, "--set", "algorithm=ts", "--set", "rule.type=split", "--set", "rule.weights.a=1", "--set", "rule.weights.b=2.5")
    assert json.loads(api.call("GET", f"/tenants/{name}").text)["configuration"]["rule"]["weights"] == {"a": 1, "b": 2.5}
