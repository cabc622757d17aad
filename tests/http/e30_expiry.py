"""Reward windows close by the clock."""
import time

import pytest

from harness import wait_for


def test_a_late_reward_is_logged_and_not_learned(api, name):
    api.put_tenant(name, algorithm="ucb", reward_window_s=0.5, default_reward=None)
    d = api.select("u", candidates=["a"], tenant=name)["decision"]
    assert wait_for(lambda: api.stats(name)["expired"] == 1)
    api.reward(d, 1.0, tenant=name, expect=410)
    assert api.call("POST", "/activate", {"decision": d}, tenant=name, expect=410).json["status"] == 410
    stats = api.stats(name)
    assert (stats["late"], stats["rewards"], stats["pending"]) == (1, 0, 0) and api.model(name)["events"] == 0
    late = [e for e in api.events(name) if e["type"] == "late"]
    assert [(e["decision"], e["reward"]) for e in late] == [(d, 1.0)]
    got = api.call("POST", "/reward", [{"decision": d, "reward": 2.0}], tenant=name).json
    assert got[0]["applied"] is False and got[0]["status"] == 410


def test_a_default_reward_is_learned_when_the_window_closes(api, name):
    api.put_tenant(name, algorithm="ucb", reward_window_s=0.5, default_reward=-1.0, confidence={"beta": 0})
    api.put_tenant(name + ".ref", algorithm="ucb", confidence={"beta": 0})
    for t in range(3):
        api.select("u", candidates=["a"], decision=f"d{t}", tenant=name)
    api.reward("d1", 0.5, tenant=name)
    assert wait_for(lambda: api.stats(name)["expired"] == 2)
    for arm, value in (("a", -1.0), ("a", 0.5), ("a", -1.0)):
        api.observe("u", arm, value, tenant=name + ".ref")
    got, want = (api.select("u", candidates=["a", "b"], explain=True, dry_run=True, tenant=t)["ranking"] for t in (name, name + ".ref"))
    for g, w in zip(*(sorted(ranking, key=lambda r: r["arm"]) for ranking in (got, want))):
        assert g["arm"] == w["arm"] and g["mean"] == pytest.approx(w["mean"], rel=1e-9)
    assert api.model(name)["events"] == 3
    assert [e["reward"] for e in api.events(name) if e["type"] == "expired"] == [-1.0, -1.0]


def test_a_default_reward_needs_activation_first_when_deferred(api, name):
    api.put_tenant(name, algorithm="ucb", reward_window_s=0.5, default_reward=-1.0)
    for d in ("shown", "never"):
        api.select("u", candidates=["a"], decision=d, defer=True, tenant=name)
    api.call("POST", "/activate", {"decision": "shown"}, tenant=name)
    assert wait_for(lambda: api.stats(name)["expired"] == 2)
    assert api.model(name)["events"] == 1
    assert [(e["decision"], e.get("reward")) for e in api.events(name) if e["type"] == "expired"
            and "reward" in e] == [("shown", -1.0)]


def test_a_slate_earns_the_default_in_its_unrewarded_slots(api, name):
    api.put_tenant(name, algorithm="ucb", reward_window_s=0.6, default_reward=0.0)
    answer = api.select("u", candidates=["a", "b", "c"], top=3, tenant=name)
    api.reward(answer["decision"], 1.0, arm=answer["ranking"][1]["arm"], tenant=name)
    assert wait_for(lambda: api.stats(name)["expired"] == 1)
    assert api.model(name)["events"] == 3


def test_windows_that_closed_while_the_server_was_down_close_at_its_start(boot):
    from harness import Client
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="ucb", reward_window_s=0.8, default_reward=0.25)
    d = client.select("u", candidates=["a"], tenant="t")["decision"]
    server.kill()
    time.sleep(1.0)
    server.start()
    assert wait_for(lambda: client.stats("t")["expired"] == 1)
    client.reward(d, 1.0, tenant="t", expect=410)
    assert client.model("t")["events"] == 1


def test_within_the_window_nothing_expires(api, name):
    api.put_tenant(name, algorithm="ucb", reward_window_s=30)
    d = api.select("u", candidates=["a"], tenant=name)["decision"]
    time.sleep(0.8)
    assert api.stats(name)["expired"] == 0 and api.reward(d, 1.0, tenant=name)["applied"]
