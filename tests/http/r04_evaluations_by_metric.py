"""Evaluations by a metric: its values in place of the rewards, as the experiments count them. The oracle reads the exported log line by
line and adds up dense sums (tests/tools/ope_oracle.py)."""
import random

import pytest

from harness import Client, tenant_path, wait_for
from r03_evaluations import ARMS, UCB, Fixed, assert_dense, begin, evaluate, look, oracle, path

METRICS = [{"name": "revenue", "aggregation": "sum", "range": [0, 10], "default": 0.5, "role": "guardrail", "harm": 1},
           {"name": "seconds", "aggregation": "last", "range": [-2, 2]},
           {"name": "rare"}]
WEIGHTED = [{"name": "click", "role": "objective", "weight": 0.5}, {"name": "sale", "role": "objective", "weight": 2, "aggregation": "sum", "range": [0, 3]}]


def fill(client, name, n, metrics=METRICS, seed=1, **configuration):
    """Decisions whose windows close, with values of metrics: none, one, several, beyond the range, for ones not activated."""
    rng = random.Random(seed)
    client.put_tenant(name, **{"algorithm": "ts", "rule": {"epsilon": 0.5}, "default_reward": None, "reward_window_s": 2, "metrics": metrics, **configuration})
    client.put_arms(name, [{"id": arm} for arm in ARMS])
    decide(client, name, n, rng, [m["name"] for m in metrics])
    return rng


def decide(client, name, n, rng, metrics, at="d"):
    for start in range(0, n, 20):
        decisions = [f"{at}{start + i}" for i in range(20)]
        deferred = [d for i, d in enumerate(decisions) if i % 7 == 6]
        for d in decisions:
            client.select(f"u{rng.randrange(5)}", tenant=name, decision=d, **({"defer": True} if d in deferred else {}))
        for d in deferred[::2]:
            client.call("POST", "/activate", {"decision": d}, tenant=name, expect=(200, 410))  # a slow machine: the window has passed
        rewards = [{"decision": d, "metric": rng.choice(metrics), "reward": round(rng.uniform(-1, 7), 2)} for d in rng.choices(decisions, k=25)]
        client.call("POST", "/reward", rewards, tenant=name)


def closed(client, name):
    """The log when all windows have closed."""
    def is_over():
        kinds = [e["type"] for e in client.events(name)]
        return kinds.count("decided") == kinds.count("expired")
    assert wait_for(is_over)
    return client.events(name)


def dense_log(events, wanted):
    """As the experiment counts: when the window closes, what the metric has come to, in its range; else its default."""
    log, active, open_decisions, metric = oracle.Log(), [], {}, None
    for e in events:
        if e["type"] == "arms":
            active = [a["id"] for a in e["put"]] if e["replace"] else active
        elif e["type"] == "configured":
            metric = {m["name"]: m for m in e["configuration"].get("metrics", [])}.get(wanted["name"])
        elif e["type"] == "decided":
            if metric is not None and metric["range"] == wanted["range"] and metric["default"] == wanted["default"]:
                open_decisions[e["decision"]] = {"arm": e["arm"], "p": e["propensity"], "seen": not e.get("deferred"), "value": None}
        elif e["type"] == "activated" and e["decision"] in open_decisions:
            open_decisions[e["decision"]]["seen"] = True
        elif e["type"] in ("measured", "rewarded") and e.get("metric") == wanted["name"] and not e.get("late"):
            told = e["reward"] if e["type"] == "measured" else e["value"]
            if e["decision"] in open_decisions:
                open_decisions[e["decision"]]["value"] = e.get("total", told)
        elif e["type"] == "expired" and e["decision"] in open_decisions:
            d = open_decisions.pop(e["decision"])
            if d["seen"]:
                value = wanted["default"] if d["value"] is None else min(max(d["value"], wanted["range"][0]), wanted["range"][1])
                log.add(active, active.index(d["arm"]), value, d["p"])
    return log


def wanted(name, metrics=METRICS):
    found = next(m for m in metrics if m["name"] == name)
    return {"name": name, "range": found.get("range", [0, 1]), "default": found.get("default", 0)}


@pytest.mark.parametrize("metrics", [METRICS, WEIGHTED], ids=["beside the reward", "of a weighted sum"])
def test_the_numbers_are_those_of_dense_sums_of_the_metrics_values(api, name, metrics):
    fill(api, name, 160, metrics, **({"aggregation": "sum"} if metrics is WEIGHTED else {}))
    events = closed(api, name)
    seen = set()
    for metric in metrics:
        log = dense_log(events, wanted(metric["name"], metrics))
        assert 100 < len(log) < 160  # those that nobody was shown are missing
        fixed, even, learning = evaluate(api, name, [{"arm": "b"}, "uniform", {"name": "ucb", "configuration": UCB}], metric=metric["name"])["policies"]
        target = oracle.Ucb()
        target.scale = 1.7
        assert_dense(fixed, oracle.evaluate(log, Fixed("b")))
        assert_dense(even, oracle.evaluate(log, oracle.Uniform()))
        assert_dense(learning, oracle.evaluate(log, target))
        assert [fixed["reward_lower"], fixed["reward_upper"]] == wanted(metric["name"], metrics)["range"]
        seen.add(round(even["ips"]["estimate"], 9))
    assert len(seen) == len(metrics)


def test_decisions_count_from_when_the_metric_was_what_it_is_and_until_their_window_closes(api, name):
    rng = fill(api, name, 40, [{"name": "other"}])
    for metrics in ([{"name": "revenue", "range": [0, 4]}], METRICS):
        closed(api, name)
        api.call("PATCH", f"/tenants/{name}", {"metrics": metrics})
        decide(api, name, 40, rng, ["revenue"], at=metrics[0]["range"][1])
    events = closed(api, name)
    api.call("PATCH", f"/tenants/{name}", {"reward_window_s": 3600, "routing": {"stopped": False}})
    decide(api, name, 20, rng, ["revenue"], at="open")
    api.observe("stranger", "b", 1.0, tenant=name, propensity=0.5)
    log = dense_log(events, wanted("revenue"))
    assert 20 < len(log) < 40
    got = evaluate(api, name, ["uniform"], metric="revenue")
    assert_dense(got, oracle.evaluate(log, oracle.Uniform()))
    assert {k: v for k, v in got["skipped"].items() if "reward" not in k} == \
        {"faulty": 0, "decisions from before the metric was what it is": 80, "decisions whose window is open": 20, "observations, which have no metrics": 1}
    assert got["parameters"]["metric"] == "revenue"
    assert look(api, name, api.call("GET", path(name)).json["evaluations"][0]["id"])["request"]["metric"] == "revenue"


def test_a_single_objective_is_the_reward(api, name):
    fill(api, name, 60, [{"name": "sale", "role": "objective", "range": [0, 7]}, {"name": "other"}])
    closed(api, name)
    one, other = evaluate(api, name, ["uniform"], metric="sale"), evaluate(api, name, ["uniform"])
    assert one["parameters"]["metric"] == "sale" and other["parameters"]["metric"] is None
    for document in (one, other):
        document.pop("cpu_seconds"), document.pop("parameters")
    assert one == other and one["ips"]["estimate"] is not None


def test_a_metric_that_the_tenant_has_not_is_named(api, name):
    fill(api, name, 20)
    refused = begin(api, name, ["uniform"], expect=422, metric="sales")
    assert refused.json["type"] == "/problems/no-metric" and refused.pointers == ["/metric"]
    for metric in ("", 5, "x" * 65):
        assert begin(api, name, ["uniform"], expect=400, metric=metric).pointers == ["/metric"]
    assert api.call("GET", tenant_path(name, "evaluations")).json["evaluations"] == []
    begin(api, name, ["uniform"], metric="rare")  # what was refused holds no place


@pytest.mark.parametrize("end", ["kill", "compact"])
def test_values_come_from_the_file(boot, name, end):
    """After a kill the same; after a compaction what is behind the summary."""
    server = boot()
    client = Client(server)
    rng = fill(client, name, 60)
    log = dense_log(closed(client, name), wanted("revenue"))
    if end == "kill":
        server.restart()
    else:
        client.call("POST", tenant_path(name, "compact"), {"keep_events": 0})
        decide(client, name, 60, rng, ["revenue"], at="later")
        said = [{"type": "configured", "configuration": {"metrics": [wanted(m["name"]) for m in METRICS]}},
                {"type": "arms", "replace": True, "put": [{"id": arm} for arm in ARMS]}]
        log = dense_log(said + closed(client, name), wanted("revenue"))
    assert len(log) > 40
    assert_dense(evaluate(client, name, ["uniform"], metric="revenue"), oracle.evaluate(log, oracle.Uniform()))
