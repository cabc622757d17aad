"""GET /tenants/{t}/experiment: every number is that of tests/experiment_oracle.py, which reads the log (docs/EXPERIMENTS.md)."""
import json
import random
import time

import pytest

from experiment_oracle import compare, fold
from harness import Client, run_ctl


def told(api, name):
    return api.call("GET", f"/tenants/{name}/experiment").json


def begin(api, name, arms, **config):
    config.setdefault("experiment", {"difference": 0.1})
    api.call("PUT", f"/tenants/{name}", {"algorithm": "random", **config}, expect=201)
    api.put_arms(name, [{"id": a} for a in arms])


def play(api, name, n, rate, rng, late=5, rewarded=1.0, reward=lambda hit, rng: float(hit), **fields):
    """n decisions; rewards come `late` decisions behind, in arrays that are out of order."""
    open_, ids = [], []
    for i in range(n):
        d = api.select(f"u{rng.randrange(40)}", tenant=name, **fields)
        ids.append(d["decision"])
        if rng.random() < rewarded:
            open_.append({"decision": d["decision"], "reward": reward(rng.random() < rate[d["arm"]], rng)})
        if len(open_) >= late:
            rng.shuffle(open_)
            api.call("POST", "/reward", open_[:3], tenant=name)
            del open_[:3]
    if open_:
        api.call("POST", "/reward", open_, tenant=name)
    return ids


def check(api, name, lines):
    answer = told(api, name)
    assert answer["state"] == "running" and answer["seq"] == lines[-1]["seq"]
    compare(answer["experiment"], fold(lines))
    return answer["experiment"]


SETTINGS = {
    "two arms": ("ab", {}, {"a": 0.3, "b": 0.6}, {}),
    "three arms, an epsilon, a range": ("abc", {"algorithm": "ts", "rule": {"epsilon": 0.4}, "experiment": {"difference": 0.5, "range": [-1, 3], "baseline": "b", "level": 0.1}},
                                        {"a": 0.2, "b": 0.5, "c": 0.8}, {"reward": lambda hit, rng: rng.uniform(-1.5, 1) + 2.5 * hit}),
    "a holdout": ("ab", {"routing": {"holdout": {"share": 0.3, "baseline": {"arm": "a"}}}}, {"a": 0.2, "b": 0.7}, {}),
    "a uniform holdout of thompson": ("ab", {"algorithm": "ts", "routing": {"holdout": {"share": 0.5, "baseline": {"rule": "uniform"}}}}, {"a": 0.4, "b": 0.6}, {}),
    "a split of four, of which one has no weight": ("abcd", {"algorithm": "laplaced", "rule": {"type": "split", "epsilon": 0, "weights": {"a": 6, "b": 3, "c": 1}}, "experiment": {"difference": 0.1, "baseline": "b"}},
                                                    {"a": 0.3, "b": 0.6, "c": 0.5, "d": 0}, {}),
    "a split with an epsilon and a holdout": ("abc", {"algorithm": "ucb", "rule": {"type": "split", "epsilon": 0.2, "weights": {"a": 0.2, "b": 0.7, "c": 0}}, "routing": {"holdout": {"share": 0.3, "baseline": {"rule": "uniform"}}}},
                                              {"a": 0.2, "b": 0.5, "c": 0.4}, {}),
    "arms that stick": ("ab", {"routing": {"sticky": {"ttl_s": 600}}}, {"a": 0.4, "b": 0.6}, {}),
}


@pytest.mark.parametrize("setting", SETTINGS, ids=list(SETTINGS))
def test_every_number_is_that_of_the_log_after_a_kill_a_restart_and_a_compaction(boot, setting):
    arms, config, rate, how = SETTINGS[setting]
    server = boot()
    api, rng, name = Client(server), random.Random(setting), "t"
    begin(api, name, arms, **config)
    play(api, name, 60, rate, rng, **how)
    play(api, name, 60, rate, rng, rewarded=0.9, **how)
    lines = api.events(name)
    first = check(api, name, lines)
    assert 0 < first["decisions"]["counted"] and 0 < first["decisions"]["waiting"]
    server.restart()
    assert told(api, name)["experiment"] == first
    assert server.terminate() == 0
    server.start()
    assert told(api, name)["experiment"] == first
    api.call("POST", f"/tenants/{name}/compact", {"keep_events": 0})
    lines += api.events(name, after=lines[-1]["seq"])
    check(api, name, lines)
    play(api, name, 40, rate, rng, **how)
    lines += api.events(name, after=lines[-1]["seq"])
    check(api, name, lines)
    server.restart()
    check(api, name, lines)


@pytest.mark.parametrize("aggregation", ["first", "sum", "last"])
def test_late_and_corrected_rewards_count_as_they_stand_when_the_window_closes(boot, aggregation):
    api, rng, name = Client(boot()), random.Random(aggregation), "t"
    begin(api, name, "ab", aggregation=aggregation, reward_window_s=1.5)
    ids = play(api, name, 60, {"a": 0.3, "b": 0.6}, rng, rewarded=0.7)
    if aggregation != "first":
        api.call("POST", "/reward", [{"decision": d, "reward": 0.5} for d in rng.sample(ids, 20)], tenant=name)
    check(api, name, api.events(name))
    deadline = time.monotonic() + 30
    while told(api, name)["experiment"]["decisions"]["waiting"] > 0:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    api.call("POST", "/reward", {"decision": ids[0], "reward": 0.75}, tenant=name, expect=(200, 409, 410))  # behind its window
    e = check(api, name, api.events(name))
    assert e["decisions"]["counted"] == 60


def test_a_verdict_stays_and_the_rate_may_drift(api, name):
    begin(api, name, "ab")
    rng = random.Random(1)
    play(api, name, 150, {"a": 0.1, "b": 0.95}, rng)
    e = check(api, name, api.events(name))
    d = e["differences"][0]
    assert d["verdict"] == "better" and d["stop"]["low"] > 0 and d["stop"]["decisions"] < d["decisions"]
    number = float(d["sentence"].removeprefix("stop: b is better by at least "))
    assert 0.99 * d["stop"]["low"] <= number <= d["stop"]["low"]
    play(api, name, 150, {"a": 0.9, "b": 0.1}, rng)
    again = check(api, name, api.events(name))["differences"][0]
    assert again["stop"] == d["stop"] and again["sentence"] == d["sentence"] and again["low"] < 0
    out = run_ctl(api.server, "experiment", name)
    assert d["sentence"] in out and "Traffic matches the told propensities" in out and "at most 5 %" in out
    assert json.loads(run_ctl(api.server, "experiment", name, "--json"))["experiment"]["differences"][0] == again


def test_no_difference_larger_than_what_matters(api, name):
    begin(api, name, "ab", experiment={"difference": 0.9})
    play(api, name, 200, {"a": 0, "b": 0}, random.Random(2))
    d = check(api, name, api.events(name))["differences"][0]
    assert d["verdict"] == "no_difference" and d["sentence"] == "stop: no difference larger than 0.9"


def test_traffic_that_does_not_match_is_void(boot):
    """A page shows b always and a rarely: what is not activated was not shown."""
    api, rng, name = Client(boot()), random.Random(3), "t"
    begin(api, name, "ab", reward_window_s=5)
    shown = 0
    for i in range(160):
        d = api.select(f"u{i}", defer=True, tenant=name)
        if d["arm"] == "b" or rng.random() < 0.2:
            api.call("POST", "/activate", {"decision": d["decision"]}, tenant=name)
            api.reward(d["decision"], 1.0, tenant=name)
            shown += 1
    deadline = time.monotonic() + 60
    while told(api, name)["experiment"]["decisions"]["waiting"] > 0:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    e = check(api, name, api.events(name))
    assert e["decisions"]["counted"] == shown and e["traffic"]["void"] and e["traffic"]["alarm"]
    assert e["differences"][0]["sentence"] == "void: traffic does not match the told propensities"
    assert "Traffic DOES NOT MATCH" in run_ctl(api.server, "experiment", name)
    assert "no verdict of the experiment stands" in api.stats(name)["warnings"][0]
    assert 'laplaced_experiment_void{tenant="t"} 1' in api.call("GET", "/metrics").text
    ready = {"ready": True, "warnings": ['experiments whose traffic does not match what was told: 1 ("t")']}
    assert api.call("GET", "/readyz").json == ready
    api.server.restart()
    assert told(api, name)["experiment"]["traffic"]["void"] and api.call("GET", "/readyz").json == ready
    api.call("PATCH", f"/tenants/{name}", {"experiment": None})
    assert api.call("GET", "/readyz").json == {"ready": True}


def test_it_says_why_nothing_is_counted(api, name):
    api.call("PUT", f"/tenants/{name}", {"algorithm": "random"}, expect=201)
    assert told(api, name) == {"seq": 1, "state": "off", "why": "the configuration has no experiment", "experiment": None}
    assert "nothing is counted" in run_ctl(api.server, "experiment", name)
    api.call("PATCH", f"/tenants/{name}", {"experiment": {"difference": 0.1, "baseline": "z"}})
    assert told(api, name)["why"] == "the catalogue has fewer than two arms"
    api.put_arms(name, [{"id": f"a{i}"} for i in range(33)])
    assert told(api, name)["why"] == "the catalogue has more than 32 arms" and told(api, name)["state"] == "waiting"
    api.put_arms(name, ["a", "b"])
    assert told(api, name)["why"] == "the baseline is not in the catalogue"
    api.call("PATCH", f"/tenants/{name}/arms", {"arms": [{"id": "z"}]})
    assert told(api, name)["experiment"]["settings"]["baseline"] == "z"
    assert api.call("GET", "/tenants/nobody/experiment", expect=404)


def test_a_split_knows_its_reach_and_a_more_even_one_goes_on(api, name):
    split = lambda **w: {"rule": {"type": "split", "weights": w}}
    begin(api, name, "abc", algorithm="ts", **split(a=6, b=3, c=1))
    play(api, name, 30, {"a": 0.5, "b": 0.5, "c": 0.5}, random.Random(6))
    e = check(api, name, api.events(name))
    assert [d["reach"] for d in e["differences"]] == pytest.approx([6 / 9, 6 / 7]) and "for a verdict use a split" in e["advice"]
    api.call("PATCH", f"/tenants/{name}", split(a=6, b=4, c=2))
    e = check(api, name, api.events(name))
    assert e["decisions"]["counted"] > 20 and e["advice"] is None
    assert [d["reach"] for d in e["differences"]] == pytest.approx([6 / 9, 6 / 7])  # as begun
    api.call("PATCH", f"/tenants/{name}", split(a=8, b=4, c=1))
    e = check(api, name, api.events(name))
    assert e["decisions"]["counted"] == 0 and [d["reach"] for d in e["differences"]] == pytest.approx([8 / 12, 8 / 9])


def test_a_split_that_is_not_kept_is_void(boot):
    """The page shows b only to every third user whom the split has given it."""
    api, rng, name = Client(boot()), random.Random(7), "t"
    begin(api, name, "ab", algorithm="laplaced", rule={"type": "split", "weights": {"a": 1, "b": 4}}, reward_window_s=3)
    for i in range(400):
        d = api.select(f"u{i}", defer=True, tenant=name)
        if d["arm"] == "a" or rng.random() < 1 / 3:
            api.call("POST", "/activate", {"decision": d["decision"]}, tenant=name)
            api.reward(d["decision"], 1.0, tenant=name)
    deadline = time.monotonic() + 60
    while told(api, name)["experiment"]["decisions"]["waiting"] > 0:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    e = check(api, name, api.events(name))
    assert e["traffic"]["void"] and e["differences"][0]["sentence"] == "void: traffic does not match the told propensities"


def test_another_set_of_arms_starts_the_sums_anew_and_a_stopped_arm_does_not(api, name):
    begin(api, name, "ab")
    play(api, name, 20, {"a": 0.5, "b": 0.5}, random.Random(4))
    since = told(api, name)["experiment"]["since"]
    api.call("PATCH", f"/tenants/{name}/arms", {"stop": ["b"]})
    api.call("PATCH", f"/tenants/{name}", {"reward_window_s": 60})
    assert told(api, name)["experiment"]["since"] == since
    play(api, name, 3, {"a": 0.5, "b": 0.5}, random.Random(5))
    check(api, name, api.events(name))
    api.call("PATCH", f"/tenants/{name}/arms", {"arms": [{"id": "c"}]})
    e = check(api, name, api.events(name))
    assert e["since"]["seq"] == api.events(name)[-1]["seq"] and e["decisions"]["counted"] == 0
