"""Changes of what arms earn: an alarm is a line of the log, the model tells it, and every fold and a compaction know it."""
import random

import pytest

from harness import Client

ARMS = ["a", "b"]
BEFORE, AFTER = {"a": 0.7, "b": 0.4}, {"a": 0.1, "b": 0.4}


def play(api, name, n, rates, seed):
    draw = random.Random(seed)
    for i in range(n):
        arm = ARMS[i % 2]
        api.observe(f"u{i % 3}", arm, float(draw.random() < rates[arm]), propensity=0.5, tenant=name)


def changes(api, name):
    return [e for e in api.events(name) if e["type"] == "changed"]


def make(api, name, forgetting):
    api.put_tenant(name, algorithm="laplaced", forgetting=forgetting)
    api.put_arms(name, ARMS)
    play(api, name, 200, BEFORE, 1)
    assert changes(api, name) == [] and "changes" not in api.model(name)
    play(api, name, 200, AFTER, 2)


def test_an_alarm_is_a_line_that_every_fold_knows(boot):
    server = boot("--finish-builds")
    api = Client(server)
    make(api, "t", {"type": "discount"})
    lines = changes(api, "t")
    assert lines and lines[0]["arm"] == "a" and lines[0]["left"] == 0.001
    told = api.model("t")["changes"]
    assert (told["count"], told["last"]) == (len(lines), lines[-1]["seq"]) and str(told["last"]) in told["words"]
    assert api.verify("t")["equal"]
    digest = api.digest("t")
    server.restart()
    api = Client(server)
    assert api.digest("t") == digest
    play(api, "t", 60, AFTER, 3)
    api.call("POST", "/tenants/t/compact", {"keep_events": 20})
    assert changes(api, "t") == [] and api.model("t")["changes"]["count"] == len(lines)
    digest = api.digest("t")
    assert api.verify("t")["equal"]
    server.restart()
    assert Client(server).digest("t") == digest


def test_who_does_not_ask_for_it_has_no_alarm(boot):
    api = Client(boot("--finish-builds"))
    for name, forgetting in (("deaf", {"type": "discount", "detect_changes": False}), ("plain", {})):
        make(api, name, forgetting)
        assert changes(api, name) == [] and "changes" not in api.model(name)
    told = api.call("GET", "/tenants/deaf").json["configuration"]["forgetting"]
    assert told["detect_changes"] is False


def test_who_alone_had_the_arm_of_the_alarm_can_be_erased(boot):
    server = boot("--finish-builds")
    api = Client(server)
    api.put_tenant("t", algorithm="laplaced", forgetting={"type": "discount"})
    api.put_arms("t", ARMS)
    play(api, "t", 100, BEFORE, 1)
    for i in range(400):  # of an arm that is in no catalogue
        api.observe("alone", "elsewhere", float(i < 200), propensity=0.5, tenant="t")
    lines = changes(api, "t")
    assert [e["arm"] for e in lines] == ["elsewhere"]
    assert api.call("DELETE", "/tenants/t/users/alone").json["erased"]
    assert [e["seq"] for e in changes(api, "t")] == [e["seq"] for e in lines]
    assert api.verify("t")["equal"]
    digest = api.digest("t")
    server.restart()
    assert Client(server).digest("t") == digest


@pytest.mark.parametrize("default_reward", [None, 0])
def test_rewards_of_decisions_are_compared_where_no_window_brings_them(boot, default_reward):
    api = Client(boot("--finish-builds"))
    api.put_tenant("t", algorithm="laplaced", forgetting={"type": "discount"}, default_reward=default_reward)
    api.put_arms("t", ARMS)
    draw = random.Random(5)
    for i in range(400):
        arm = ARMS[i % 2]
        decision = api.select(f"u{i % 3}", candidates=[arm], tenant="t")["decision"]
        api.reward(decision, float(draw.random() < (BEFORE if i < 200 else AFTER)[arm]), tenant="t")
        assert i >= 200 or i % 100 or changes(api, "t") == []
    assert (changes(api, "t") != []) == (default_reward is None)
