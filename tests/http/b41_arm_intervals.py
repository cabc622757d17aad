"""Intervals by arm in /stats: what the log's own rewards come to, one value a slot, through corrections, defaults, restarts and summaries."""
import collections
import json
import math
import random
import statistics
import time

import pytest

from contract import NDJSON
from harness import Client, tenant_path

Z = 1.959963984540054
CONFIGS = {"first": dict(algorithm="ts"), "last": dict(algorithm="ts", aggregation="last"),
           "sum": dict(algorithm="ucb", aggregation="sum"),
           "default": dict(algorithm="random", default_reward=-0.25, reward_window_s=1, aggregation="last")}


def values_by_arm(events, aggregation):
    """{arm: the reward of each slot that has one, and each observation's}."""
    slots, arm_of = {}, {}
    for e in events:
        if e["type"] == "decided":
            arm_of[e["decision"]] = [s["arm"] for s in e.get("slate", [{"arm": e["arm"]}])]
        elif e["type"] == "rewarded":
            key = e["decision"], e.get("arm", arm_of[e["decision"]][0])
            slots[key] = e["reward"] + (slots.get(key, 0) if aggregation == "sum" else 0)
        elif e["type"] == "expired" and "reward" in e:
            for arm in arm_of[e["decision"]]:
                slots.setdefault((e["decision"], arm), e["reward"])
        elif e["type"] == "observed":
            slots[e["seq"], e["arm"]] = e["reward"]
    told = collections.defaultdict(list)
    for (_, arm), reward in slots.items():
        told[arm].append(reward)
    return told


def hold(arms, told):
    got = {a["arm"]: a for a in arms}
    for arm, values in told.items():
        mean, n = statistics.fmean(values), len(values)
        assert got[arm]["rewards"] == n and math.isclose(got[arm]["mean_reward"], mean, abs_tol=1e-12)
        if n < 2:
            assert got[arm]["lower"] is None is got[arm]["upper"]
        else:
            half = Z * math.sqrt(statistics.variance(values) / n)
            assert math.isclose(got[arm]["lower"], mean - half, abs_tol=1e-9) and math.isclose(got[arm]["upper"], mean + half, abs_tol=1e-9), arm
    assert all(a["lower"] is None is a["upper"] for a in arms if a["arm"] not in told)


def traffic(client, name, aggregation, chance, n=60):
    for t in range(n):
        d = client.select(f"u{t % 5}", candidates=["a", "b", "c"], tenant=name, **({"top": 2} if t % 7 == 0 else {}))
        if t % 4:
            client.reward(d["decision"], chance.choice([0, 1, 2.5, -1.25]), tenant=name)
            if aggregation != "first" and t % 3 == 0:
                client.reward(d["decision"], chance.choice([0, 1, 2.5]), tenant=name)
        if t % 7 == 0:
            client.reward(d["decision"], 0.5, arm=d["ranking"][1]["arm"], tenant=name)
    client.observe("u1", "only", 3, tenant=name)


@pytest.mark.parametrize("kind", CONFIGS)
def test_they_are_those_of_the_log_and_stay_so(boot, kind):
    server, config, chance = boot(), CONFIGS[kind], random.Random(kind)
    client, how, kept = Client(server), config.get("aggregation", "first"), {}
    client.put_tenant("t", **config)

    def check(has_window):
        kept.update((e["seq"], e) for e in client.events("t") if e["type"] != "summary")
        told, stats = values_by_arm([kept[seq] for seq in sorted(kept)], how), client.stats("t")
        hold(stats["arms"], told)
        if has_window:
            hold(stats["window"]["arms"], told)

    traffic(client, "t", how, chance)
    if kind == "default":
        deadline = time.monotonic() + 20
        while client.stats("t")["pending"] and time.monotonic() < deadline:
            time.sleep(0.05)
    check(True)
    server.restart()
    check(True)
    assert server.terminate() == 0
    server.start()  # from its snapshot
    check(True)
    check(True)
    client.call("POST", "/tenants/t/compact", {"keep_events": 0})
    check(False)
    for again in (True, False):
        server.restart()
        traffic(client, "t", how, chance, 20 if again else 0)
        if kind != "default":
            check(False)


def test_a_summary_of_before_them_leaves_them_unknown(api, name):
    api.put_tenant(name, algorithm="ts")
    for i in range(12):
        api.observe("u", "ab"[i % 2], i / 4, tenant=name)
    api.call("POST", f"/tenants/{name}/compact", {"keep_events": 0})
    lines = [json.loads(line) for line in api.call("GET", tenant_path(name, "export")).text.splitlines()]
    squares = {arm["id"]: arm.pop("square_sum") for line in lines for arm in line.get("arms", []) if line["type"] == "summary"}
    assert squares == {"a": sum((i / 4) ** 2 for i in range(0, 12, 2)), "b": sum((i / 4) ** 2 for i in range(1, 12, 2))}
    then = f"{name}-then"
    api.call("POST", tenant_path(then, "import"), lines, kind=NDJSON, expect=201)
    for arm in ("a", "new", "new"):
        api.observe("u", arm, 2 if arm == "a" else 1, tenant=then)
    arms = {a["arm"]: a for a in api.stats(then)["arms"]}
    assert arms["a"]["rewards"] == 7 and arms["a"]["lower"] is None is arms["a"]["upper"] is arms["b"]["lower"]
    assert arms["new"]["lower"] == 1 == arms["new"]["upper"] and api.verify(then)["equal"]
    assert api.digest(then) is not None
    api.call("POST", f"/tenants/{then}/compact", {"keep_events": 0})
    again = [arm for e in api.events(then) for arm in e.get("arms", [])]
    assert [("square_sum" in arm) for arm in again] == [False, False, True]
    for line in lines:
        for arm in line.get("arms", []):
            arm["square_sum"] = -1
    api.call("POST", tenant_path(f"{name}-no", "import"), lines, kind=NDJSON, expect=400)


def test_an_erased_user_leaves_an_interval_that_is_as_wide_or_wider(api, name):
    chance, told = random.Random(3), collections.defaultdict(list)
    api.put_tenant(name, algorithm="ts")
    for i in range(60):
        user, arm, reward = f"u{i % 4}", "ab"[i % 3 == 0], chance.random()
        api.observe(user, arm, reward, tenant=name)
        if user != "u1":
            told[arm].append(reward)
    api.call("POST", f"/tenants/{name}/compact", {"keep_events": 0})
    api.call("DELETE", tenant_path(name, "users/u1"))
    for a in api.stats(name)["arms"]:
        values = told[a["arm"]]
        mean, half = statistics.fmean(values), Z * math.sqrt(statistics.variance(values) / len(values))
        assert a["rewards"] == len(values) and math.isclose(a["mean_reward"], mean, rel_tol=1e-9)
        assert a["upper"] - a["lower"] >= 2 * half * (1 - 1e-9) and a["lower"] < mean < a["upper"]
        assert a["upper"] - a["lower"] < 4 * half  # and is still of use
