"""Metrics of an experiment: every number, guardrails and the list of changes are those of tests/experiment_oracle.py, which
reads the log (docs/EXPERIMENTS.md)."""
import json
import random
import time

import pytest

from experiment_oracle import changes, compare, fold
from harness import Client, run_ctl
from x10_experiment_numbers import begin, told

METRICS = [{"name": "revenue", "role": "guardrail", "aggregation": "sum", "range": [0, 10], "harm": 1, "level": 0.1},
           {"name": "time", "aggregation": "last", "range": [-5, 5], "default": 2},
           {"name": "clicked"}]


def play(api, name, n, value, rng, told_share=0.8):
    """n decisions; the reward and the values of metrics come out of order, some twice, some not at all."""
    waiting = []
    for i in range(n):
        d = api.select(f"u{rng.randrange(40)}", tenant=name)
        for metric, of in value.items():
            if rng.random() < told_share:
                body = {"decision": d["decision"], "reward": of(d["arm"], rng), **({"metric": metric} if metric else {})}
                waiting += [body] * (2 if metric in ("revenue", "time") and rng.random() < 0.3 else 1)
        rng.shuffle(waiting)
        while len(waiting) > 8:
            api.call("POST", "/reward", waiting.pop(), tenant=name, expect=(200, 410))
    if waiting:
        api.call("POST", "/reward", waiting, tenant=name)


def check(api, name, earlier=()):
    """The answer is that of the log, whose lines go on while windows close: of one and the same event."""
    for _ in range(50):
        answer, lines = told(api, name), [*earlier]
        lines += [line for line in api.events(name) if line["seq"] > (lines[-1]["seq"] if lines else 0)]
        if answer["seq"] == lines[-1]["seq"]:
            compare(answer["experiment"], fold(lines))
            return answer["experiment"]
    raise AssertionError("the log does not come to rest")


def drain(api, name):
    deadline = time.monotonic() + 60
    while told(api, name)["experiment"]["decisions"]["waiting"] > 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)


VALUES = {None: lambda a, rng: float(rng.random() < 0.4), "revenue": lambda a, rng: rng.uniform(0, 6 if a == "a" else 8),
          "time": lambda a, rng: rng.uniform(-6, 5), "clicked": lambda a, rng: float(rng.random() < (0.9 if a == "b" else 0.2))}
SETTINGS = {
    "two arms": ("ab", {}),
    "three arms, a holdout, an epsilon": ("abc", {"algorithm": "ts", "rule": {"epsilon": 0.5}, "routing": {"holdout": {"share": 0.3, "baseline": {"arm": "a"}}}}),
    "sums": ("ab", {"aggregation": "sum"}),
}


@pytest.mark.parametrize("setting", SETTINGS, ids=list(SETTINGS))
def test_every_number_of_every_metric_is_that_of_the_log_after_a_kill_a_restart_and_a_compaction(boot, setting):
    arms, config = SETTINGS[setting]
    server = boot()
    api, rng, name = Client(server), random.Random(setting), "t"
    begin(api, name, arms, metrics=METRICS, reward_window_s=2, **config)
    play(api, name, 35, VALUES, rng)
    check(api, name)
    server.restart()
    check(api, name)
    play(api, name, 35, VALUES, rng)
    drain(api, name)
    lines = api.events(name)
    e = check(api, name, lines)
    assert e["decisions"]["counted"] == 70 and [m["metric"] for m in e["metrics"]] == ["revenue", "time", "clicked"]
    assert e["metrics"][1]["clipped"] > 0
    for m in e["metrics"]:  # by users, of whom some come twice
        assert (m["policy"] is not None) == ("holdout" in setting)
        assert m["policy"] is None or 0 < m["policy"]["decisions"] == e["policy"]["decisions"] < 70
    api.call("POST", f"/tenants/{name}/compact", {"keep_events": 5})
    # what the lines no longer say, the book has
    assert told(api, name)["experiment"]["metrics"] == e["metrics"]
    server.restart()
    assert told(api, name)["experiment"]["metrics"] == e["metrics"]
    play(api, name, 12, VALUES, rng)
    drain(api, name)
    check(api, name, lines)


def test_a_weighted_sum_is_measured_whole_and_by_its_parts(boot):
    api, rng, name = Client(boot()), random.Random(9), "t"
    begin(api, name, "ab", aggregation="sum", reward_window_s=2, experiment={"difference": 0.2, "range": [0, 2]},
          metrics=[{"name": "click", "role": "objective", "weight": 0.5}, {"name": "sale", "role": "objective", "weight": 1.5, "aggregation": "last"}])
    value = {"click": lambda a, rng: float(rng.random() < 0.5), "sale": lambda a, rng: float(rng.random() < 0.2)}
    play(api, name, 60, value, rng)
    drain(api, name)
    e = check(api, name)
    mean = {m["metric"]: m["arms"][0]["policy"]["mean"] for m in e["metrics"]}
    assert abs(e["arms"][0]["policy"]["mean"] - 0.5 * mean["click"] - 1.5 * mean["sale"]) < 1e-9
    assert [m["role"] for m in e["metrics"]] == ["objective"] * 2


def test_a_guardrail_that_is_harmed_stops_and_one_that_holds_says_so(boot):
    api, rng, name = Client(boot()), random.Random(4), "t"
    begin(api, name, "ab", reward_window_s=1.5, metrics=[{"name": "loyal", "role": "guardrail", "harm": 0.25}, {"name": "speed", "role": "guardrail", "harm": 0.5},
                                                         {"name": "clicked"}, {"name": "noise"}])
    value = {"loyal": lambda a, rng: float(a == "a"), "speed": lambda a, rng: 0.5, "clicked": lambda a, rng: float(a == "b"), "noise": lambda a, rng: 0.5}
    play(api, name, 150, value, rng, told_share=1)
    drain(api, name)
    e = check(api, name)
    loyal, speed, clicked, noise = (m["differences"][0] for m in e["metrics"])
    assert loyal["verdict"] == "harmed" and loyal["sentence"] == "stop: b harms loyal by more than 0.25"
    assert loyal["stop"]["decisions"] < 150 and loyal["stop"]["high"] < -0.25 and loyal["stop"]["sentence"] == loyal["sentence"]
    assert speed["verdict"] == "holds" and speed["sentence"] == "b does not harm speed by more than 0.5"
    assert clicked["verdict"] == "changed" and clicked["sentence"] == "b changes clicked: it is higher" and clicked["stop"] is None
    assert noise["verdict"] == "go_on" and noise["sentence"] == "go on"
    assert e["changes"] == {"tests": 2, "found": 1} and e["differences"][0]["sentence"] != loyal["sentence"]
    assert "at most 5 %" in e["metrics"][0]["statement"] and "at most 5 %" in e["metrics"][2]["statement"]
    play(api, name, 30, {"loyal": lambda a, rng: float(a == "b")}, rng, told_share=1)
    drain(api, name)
    again = check(api, name)["metrics"][0]["differences"][0]
    assert again["stop"] == loyal["stop"] and again["sentence"] == loyal["sentence"]  # what was said stays
    out = run_ctl(api.server, "experiment", name)
    assert loyal["sentence"] in out and clicked["sentence"] in out and "Metric clicked (observed)" in out
    assert json.loads(run_ctl(api.server, "experiment", name, "--json"))["experiment"]["metrics"][0]["differences"][0] == again


def test_another_set_of_metrics_starts_the_sums_anew_and_another_order_does_not(api, name):
    begin(api, name, "ab", metrics=METRICS)
    since = told(api, name)["experiment"]["since"]
    api.call("PATCH", f"/tenants/{name}", {"metrics": METRICS[::-1]})
    assert told(api, name)["experiment"]["since"] == since
    api.call("PATCH", f"/tenants/{name}", {"metrics": [{**METRICS[0], "harm": 2}, *METRICS[1:]]})
    e = check(api, name)
    assert e["since"]["seq"] > since["seq"]
    api.call("PATCH", f"/tenants/{name}", {"metrics": None})
    assert "metrics" not in check(api, name)


def test_the_list_of_changes_is_as_long_as_it_can_be():
    """By hand: of four, three are at least 4 / (0.1 k) for k = 3, though the second is not for k = 2."""
    from math import log10
    assert changes({"a": log10(50), "b": log10(14), "c": log10(13.5), "d": 0}, 0.1) == {"a", "b", "c"}
    assert changes({"a": log10(39), "b": log10(19)}, 0.05) == set()
