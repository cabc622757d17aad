"""The guardrail of challengers: its sums from the lines of a log, in other words (docs/CHALLENGERS.md)."""
import math
import random
import time

import pytest

from experiment_oracle import log_bet, root
from harness import Client

SPLIT = {"a": 1, "b": 3}
PAYS = {"a": 0.3, "b": 0.7}


def begin(api, name, weights=SPLIT, **guardrail):
    api.call("PUT", f"/tenants/{name}", {"algorithm": "laplaced", "default_reward": None, "rule": {"type": "split", "epsilon": 0.1, "weights": {"a": 3, "b": 2}},
             "challengers": {"safe": {"rule": {"type": "split", "epsilon": 0, "weights": weights}}},
             "guardrail": {"baseline": "safe", "min_decisions": 100, **guardrail}}, expect=201)
    api.put_arms(name, ["a", "b"])


def play(api, name, n, rng, pays=PAYS, first=0, late=4, unit=1.0):
    open_ = []
    for i in range(first, first + n):
        d = api.select(f"u{i % 30}", decision=f"d{i}", tenant=name)
        open_.append({"decision": d["decision"], "reward": unit * float(rng.random() < pays[d["arm"]])})
        if len(open_) == late:
            rng.shuffle(open_)
            api.call("POST", "/reward", [open_.pop() for _ in range(late - 1)], tenant=name)
    api.call("POST", "/reward", open_, tenant=name)


def followed(api, name, seconds=60):
    deadline = time.monotonic() + seconds
    while True:
        c = next(c for c in api.call("GET", f"/tenants/{name}/challengers").json["challengers"] if c["name"] == "safe")
        if c["lag"] == 0:
            return c
        assert time.monotonic() < deadline
        time.sleep(0.05)


def expected(lines, weights, level=0.95, low=0.0, high=1.0):
    """Over the decisions in their order that are rewarded, up to the first one that waits."""
    rewards = {e["decision"]: e["reward"] for e in lines if e["type"] == "rewarded"}
    total, g, shares, sum_r = sum(weights.values()), [], [], 0.0
    for e in lines:
        if e["type"] != "decided":
            continue
        if e["decision"] not in rewards:
            break
        p = dict(map(tuple, e["odds"]))
        q = {a: w / total for a, w in weights.items()}
        share = min(p[a] / q[a] for a in q)
        r = (min(max(rewards[e["decision"]], low), high) - low) / (high - low)
        g.append((share * q[e["arm"]] / e["propensity"] - share) * (r - (sum_r + 0.5) / (len(g) + 1)))
        shares.append(share)
        sum_r += r
    s, s2, s3, s4 = (math.fsum(x ** k for x in g) for k in (1, 2, 3, 4))
    n, bound = math.fsum(shares), math.log(2 / (1 - level))
    return {"decisions": len(g), "share": n / len(g), "log10_better": log_bet(s, s2, s3, s4) / math.log(10), "log10_worse": log_bet(-s, s2, -s3, s4) / math.log(10),
            "difference": {"estimate": (high - low) * s / n, "lower": (high - low) * max(-1, (s - root(s2, s3, s4, bound)) / n),
                           "upper": (high - low) * min(1, (s + root(s2, -s3, s4, bound)) / n)}}


def close(told, want):
    if isinstance(want, dict):
        return all(close(told[k], v) for k, v in want.items())
    return math.isclose(told, want, rel_tol=1e-7, abs_tol=1e-7)


def test_its_sums_are_those_of_the_log_after_a_kill_too(boot):
    server = boot()
    api, rng = Client(server), random.Random(1)
    begin(api, "t", min_decisions=100000)
    play(api, "t", 60, rng)
    api.select("waits", decision="waits", tenant="t")
    play(api, "t", 20, rng, first=1000)
    told = followed(api, "t")["guardrail"]
    assert told["decisions"] == 60 and told["verdict"] == "go_on" and not told["proved"]
    assert close(told, expected(api.events("t"), SPLIT)), (told, expected(api.events("t"), SPLIT))
    server.restart()
    assert followed(api, "t")["guardrail"] == told
    api.reward("waits", 1.0, tenant="t")
    told = followed(api, "t")["guardrail"]
    assert told["decisions"] == 81 and close(told, expected(api.events("t"), SPLIT))
    assert (told["clipped"], told["untold"]) == (0, 0)


def test_a_policy_that_is_worse_than_the_baseline_is_replaced(boot):
    api, rng = Client(boot()), random.Random(2)
    begin(api, "t", weights={"a": 0, "b": 1})
    play(api, "t", 400, rng, {"a": 0.05, "b": 0.95})
    deadline = time.monotonic() + 20
    while api.call("GET", "/tenants/t").json["configuration"]["promotion"]["reason"] != "guardrail":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    conf = api.call("GET", "/tenants/t").json["configuration"]
    assert conf["promotion"] == {"challenger": "safe", "reason": "guardrail"} and conf["guardrail"]["baseline"] is None
    assert conf["rule"]["weights"] == {"a": 0, "b": 1} and list(conf["challengers"]) == ["previous"]


def test_a_baseline_that_is_worse_is_told_as_that_and_not_promoted(boot):
    api, rng = Client(boot()), random.Random(3)
    begin(api, "t", weights={"a": 1, "b": 0})
    play(api, "t", 300, rng, {"a": 0.05, "b": 0.95})
    told = followed(api, "t")["guardrail"]
    assert told["verdict"] == "worse" and not told["proved"] and told["difference"]["upper"] < 0 and told["log10_worse"] > math.log10(20)
    assert api.call("GET", "/tenants/t").json["version"] == 1


def test_rewards_beyond_the_range_end_the_proof_unless_the_range_was_told(boot):
    api, rng = Client(boot()), random.Random(4)
    for name, more in (("t", {}), ("u", {"range": [0, 20]})):
        begin(api, name, min_decisions=100000, **more)
        play(api, name, 40, rng, unit=10.0)
    assert followed(api, "t")["guardrail"]["clipped"] > 0
    told = followed(api, "u")["guardrail"]
    assert told["clipped"] == 0 and close(told, expected(api.events("u"), SPLIT, high=20.0))


def test_the_log_tells_no_odds_of_more_than_64_candidates(boot):
    api = Client(boot())
    begin(api, "t")
    d = api.select("u", candidates=[f"a{i}" for i in range(65)], tenant="t")
    api.reward(d["decision"], 1.0, tenant="t")
    told = followed(api, "t")["guardrail"]
    assert (told["decisions"], told["untold"], told["share"]) == (0, 1, 0)
    assert told["difference"] == {"estimate": None, "lower": -1, "upper": 1}


@pytest.mark.parametrize("status, value, pointer", [(400, [1], "/guardrail/range"), (400, [0, "x"], "/guardrail/range/1"), (400, 3, "/guardrail/range"), (422, [1, 1], "/guardrail/range"), (422, [2, 1], "/guardrail/range")])
def test_a_bad_range_is_refused_by_pointer(api, name, status, value, pointer):
    api.call("PUT", f"/tenants/{name}", {"algorithm": "ts"}, expect=201)
    answer = api.call("PATCH", f"/tenants/{name}", {"guardrail": {"range": value}}, expect=status)
    assert answer.pointers == [pointer] and api.call("GET", f"/tenants/{name}").json["version"] == 1


def test_a_range_is_told_logged_and_taken_back(api, name):
    api.call("PUT", f"/tenants/{name}", {"algorithm": "ts", "guardrail": {"range": [-1, 2.5]}}, expect=201)
    assert api.call("GET", f"/tenants/{name}").json["configuration"]["guardrail"]["range"] == [-1, 2.5]
    assert api.events(name)[-1]["configuration"]["guardrail"]["range"] == [-1, 2.5]
    api.call("PATCH", f"/tenants/{name}", {"guardrail": {"range": None}})
    assert "range" not in api.call("GET", f"/tenants/{name}").json["configuration"]["guardrail"]
