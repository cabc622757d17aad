"""Challengers: configurations that follow a tenant's log, and what they would have earned. The oracle is a tenant that has
the challenger's configuration as its own and is asked, decision by decision, with what chance it would have shown the arm."""
import json
import math
import random
import threading
import time

import pytest

from harness import NDJSON, Client, run_ctl

CAREFUL = {"algorithm": "ts", "tune": False, "rule": {"epsilon": 0.1}}
ARMS = ["a", "b", "c", "d"]
PAYS = {"a": 0.2, "b": 0.5, "c": 0.9, "d": 0.1}
Z = 1.959963984540054


def challengers(client, name):
    return {c["name"]: c for c in client.call("GET", f"/tenants/{name}/challengers").json["challengers"]}


def followed(client, name, seconds=60):
    """Once all have read the whole log."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = challengers(client, name)
        if all(c["lag"] == 0 and c["digest"] for c in found.values()):
            return found
        time.sleep(0.05)
    raise AssertionError(f"still behind: {[(c['name'], c['lag'], c['stopped']) for c in found.values()]}")


def score_of(c):
    return {k: c[k] for k in ("digest", "since", "decisions", "open", "unrewarded", "unknown", "snips", "ess", "weights", "in_force", "difference")}


def interval(estimate, influences):
    half = Z * math.sqrt(sum(x * x for x in influences) / (len(influences) * (len(influences) - 1)))
    return {"estimate": estimate, "lower": estimate - half, "upper": estimate + half}


def expected(pairs):
    """The estimators written out over all (weight, reward)."""
    n, total = len(pairs), sum(w for w, _ in pairs)
    value, mean = sum(w * r for w, r in pairs) / total, sum(r for _, r in pairs) / n
    gains = [n / total * w * (r - value) for w, r in pairs]
    return {"snips": interval(value, gains), "in_force": interval(mean, [r - mean for _, r in pairs]),
            "difference": interval(value - mean, [g - (r - mean) for g, (_, r) in zip(gains, pairs)]),
            "weights": {**interval(total / n, [w - total / n for w, _ in pairs]), "max": max(w for w, _ in pairs)},
            "ess": total * total / sum(w * w for w, _ in pairs)}


def close(told, wanted):
    if isinstance(wanted, dict):
        return told.keys() == wanted.keys() and all(close(told[k], wanted[k]) for k in wanted)
    return math.isclose(told, wanted, rel_tol=1e-9, abs_tol=1e-9)


def features(arm):
    return [ARMS.index(arm) / 4, 1.0]


def ask(client, name, decision, chance):
    """A decision among the catalogue, without some arm, or among named ones, inline or not; what it was made among."""
    kind = chance.randrange(4)
    named = chance.sample(ARMS, 3)
    body = {0: {}, 1: {"exclude": [named[0]]}, 2: {"candidates": [{"id": a} for a in named]},
            3: {"candidates": [{"id": a, "features": features(a)} for a in named]}}[kind]
    user = f"u{chance.randrange(5)}"
    return user, body, client.select(user, tenant=name, decision=decision, **body)


@pytest.mark.parametrize("careful", [CAREFUL, {"algorithm": "lk-gp-ts"}, {}], ids=["ts", "kernels", "same"])
def test_scores_are_those_of_a_tenant_of_that_configuration(boot, careful):
    server = boot("--snapshot-events", "1000000")
    client, chance = Client(server), random.Random(7)
    base = {"algorithm": "random", "arm_dim": 2, "default_reward": None}
    client.put_tenant("live", **base, challengers={"careful": careful})
    client.put_tenant("oracle", **{**base, **careful}, seed=1)
    for name in ("live", "oracle"):
        client.put_arms(name, [{"id": a, "features": features(a)} for a in ARMS])
    pairs, late = [], []
    for i in range(45):
        user, body, answer = ask(client, "live", f"d{i}", chance)
        shown = answer["arm"]
        told = client.select(user, tenant="oracle", dry_run=True, explain=True, **body)
        p = {a["arm"]: a["propensity"] for a in told["ranking"]}[shown]
        reward = float(chance.random() < PAYS[shown])
        late.append((f"d{i}", user, shown, reward, p / answer["propensity"]))
        if i % 3 == 2:  # rewards come behind other decisions
            for decision, user, arm, reward, w in late[::-1]:
                client.reward(decision, reward, tenant="live")
                client.observe(user, arm, reward, tenant="oracle")
                pairs.append((w, reward))
            late = []
    client.select("u0", tenant="live")
    found = followed(client, "live")["careful"]
    assert (found["decisions"], found["open"], found["unknown"], found["unrewarded"], found["lost"]) == (45, 1, 0, 0, 0)
    wanted = expected(pairs)
    assert close({k: found[k] for k in wanted}, wanted), (found, wanted)
    assert abs(found["weights"]["estimate"] - 1) < 0.5 and found["learned"] == 45
    server.restart()
    assert score_of(followed(client, "live")["careful"]) == score_of(found)


def test_the_log_tells_what_was_decided_among(api, name):
    api.put_tenant(name, algorithm="random", arm_dim=1)
    api.put_arms(name, [{"id": a, "features": [0.5]} for a in ("a", "b")])
    api.select("u", tenant=name, candidates=[{"id": "b"}])
    api.put_tenant(name, expect=200, algorithm="random", arm_dim=1, log_candidates=True)
    api.select("u", tenant=name)
    api.select("u", tenant=name, exclude=["a"])
    api.select("u", tenant=name, candidates=[{"id": "b"}, {"id": "x", "features": [2.5]}], exclude=["c"])
    assert [e.get("among") for e in api.events(name) if e["type"] == "decided"] == [
        None, None, ["b"], ["b", {"arm": "x", "features": [2.5]}]]
    assert api.verify(name)["equal"]


REFUSED = {
    "sup": ({"challengers": {"x": {"algorithm": "sup-kernel-ucb"}}}, 422, "/challengers/x/rule/type"),
    "traffic": ({"challengers": {"x": {"default_reward": 0}}}, 400, "/challengers/x/default_reward"),
    "dims": ({"challengers": {"x": {"arm_dim": 3}}}, 400, "/challengers/x/arm_dim"),
    "range": ({"challengers": {"x": {"rule": {"epsilon": 2}}}}, 400, "/challengers/x/rule/epsilon"),
    "combination": ({"challengers": {"x": {"forgetting": {"type": "discount"}, "confidence": {"type": "lk"}}}}, 422, "/challengers/x/forgetting/type"),
    "name": ({"challengers": {"no/name": {}}}, 400, "/challengers/no~1name"),
    "many": ({"challengers": {f"x{i}": {} for i in range(5)}}, 400, "/challengers"),
    "list": ({"challengers": [{}]}, 400, "/challengers"),
    "member": ({"challengers": {"x": 1}}, 400, "/challengers/x"),
    "baseline": ({"guardrail": {"baseline": "nobody"}}, 422, "/guardrail/baseline"),
    "level": ({"guardrail": {"level": 1}}, 400, "/guardrail/level"),
    "looks": ({"guardrail": {"min_decisions": 10}}, 400, "/guardrail/min_decisions"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_faults_are_told_by_pointer_and_change_nothing(api, name, case):
    fields, status, pointer = REFUSED[case]
    view = api.put_tenant(name, algorithm="ts")
    assert pointer in api.call("PUT", f"/tenants/{name}", {"algorithm": "ts", **fields}, expect=status).pointers
    assert api.call("GET", f"/tenants/{name}").json == view


def test_a_configuration_with_challengers_reads_back_and_changes_no_model(api, name):
    api.put_tenant(name, algorithm="laplaced-kors", arm_dim=1)
    api.put_arms(name, [{"id": "a", "features": [1]}, {"id": "b", "features": [0]}])
    api.observe("u", "a", 1, tenant=name)
    before = api.call("GET", f"/tenants/{name}/model").json
    view = api.put_tenant(name, expect=200, algorithm="laplaced-kors", arm_dim=1, representation={"lambda": 0.5},
                          challengers={"z": {"representation": {"mu": 0.1}}, "a": {"algorithm": "lin-ucb", "seed": 9}})
    told = view["configuration"]["challengers"]
    assert list(told) == ["z", "a"] and told["z"]["representation"]["lambda"] == 0.5 and told["a"]["algorithm"] == "lin-ucb"
    assert "context_dim" not in told["a"] and told["a"]["seed"] == 9 and told["z"]["seed"] == 1
    again = api.put_tenant(name, expect=200, **view["configuration"])
    assert again["version"] == view["version"] and again["configuration"] == view["configuration"]
    seq = api.put_tenant(name, expect=200, algorithm="laplaced-kors", arm_dim=1, representation={"lambda": 0.5})["seq"]
    assert [e["type"] for e in api.events(name, after=seq - 1)] == ["configured"], "no rebuild"
    assert before["dictionary"] is not None


def test_a_promotion_is_one_configuration_and_can_be_taken_back(boot):
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="random", default_reward=None, challengers={"careful": CAREFUL, "other": {}}, guardrail={"baseline": "careful"})
    client.put_arms("t", [{"id": a} for a in ARMS])
    for i in range(20):
        answer = client.select("u", tenant="t", decision=f"d{i}")
        client.reward(f"d{i}", PAYS[answer["arm"]], tenant="t")
    assert followed(client, "t")["careful"]["decisions"] == 20
    seq = client.events("t")[-1]["seq"]
    client.call("POST", "/tenants/t/promote", {"challenger": "careful", "version": 7}, expect=409)
    assert client.call("POST", "/tenants/t/promote", {"challenger": "nobody"}, expect=409).pointers == ["/challenger"]
    client.call("POST", "/tenants/t/rollback", {}, expect=409)
    view = client.call("POST", "/tenants/t/promote", {"challenger": "careful", "version": 1}).json
    conf = view["configuration"]
    assert (view["version"], conf["algorithm"], conf["rule"]["type"]) == (2, "ts", "thompson")
    assert conf["promotion"] == {"challenger": "careful", "reason": "request"} and conf["guardrail"]["baseline"] is None
    assert list(conf["challengers"]) == ["previous", "other"] and conf["challengers"]["previous"]["algorithm"] == "random"
    events = client.events("t", after=seq)
    assert [e["type"] for e in events][:1] == ["configured"] and events[0]["configuration"] == conf
    assert client.call("POST", "/tenants/t/promote", {"challenger": "careful", "version": 1}).json["version"] == 2, "a retry"
    client.wait_rebuilt("t")
    found = followed(client, "t")
    assert (found["previous"]["since"], found["previous"]["decisions"], found["previous"]["learned"]) == (2, 0, 20)
    client.put_tenant("fresh", algorithm="ts", tune=False, rule={"epsilon": 0.1})
    client.put_arms("fresh", [{"id": a} for a in ARMS])
    shown = [client.select("u", tenant=t, dry_run=True, explain=True) for t in ("t", "fresh")]
    assert max(a["propensity"] for a in shown[0]["ranking"]) > 0.4 > max(a["propensity"] for a in shown[1]["ranking"])
    server.restart()
    assert client.call("GET", "/tenants/t").json["configuration"] == conf
    back = client.call("POST", "/tenants/t/rollback", {"version": 2}).json
    assert back["version"] == 3 and back["configuration"]["algorithm"] == "random"
    assert list(back["configuration"]["challengers"]) == ["careful", "other"]
    assert back["configuration"]["promotion"] == {"challenger": "careful", "reason": "rollback"}
    client.call("POST", "/tenants/t/rollback", {}, expect=409)
    client.call("POST", "/tenants/t/rollback", {"version": 2}, expect=409)
    assert client.verify("t")["equal"]


def test_two_promotions_at_a_time_are_one_behind_the_other(api, name):
    api.put_tenant(name, algorithm="random", default_reward=None, challengers={"a": CAREFUL, "b": {"algorithm": "ucb"}})
    told = []

    def promote(who):
        told.append(Client(api.server).call("POST", f"/tenants/{name}/promote", {"challenger": who, "version": 1}, expect=(200, 409)).status)

    threads = [threading.Thread(target=promote, args=(who,)) for who in ("a", "b", "a", "b")]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(told) == [200, 200, 409, 409], "the winner's second is a retry"
    view = api.call("GET", f"/tenants/{name}").json
    assert view["version"] == 2 and set(view["configuration"]["challengers"]) == {"previous", {"ts": "b", "ucb": "a"}[view["configuration"]["algorithm"]]}


def test_without_chance_in_force_the_weights_tell_that_nothing_is_known(api, name):
    api.put_tenant(name, algorithm="ucb", default_reward=None, challengers={"any": {"algorithm": "random"}})
    api.put_arms(name, [{"id": a} for a in ARMS])
    for i in range(40):
        answer = api.select("u", tenant=name, decision=f"{name}{i}")
        api.reward(f"{name}{i}", PAYS[answer["arm"]], tenant=name)
    found = followed(api, name)["any"]
    assert found["decisions"] == 40 and found["weights"]["upper"] < 1


def test_windows_without_a_reward_count_as_the_default_or_not_at_all(api, name):
    for tenant, extra in ((name, {"default_reward": None}), (name + "-0", {"default_reward": 0.25})):
        api.put_tenant(tenant, algorithm="random", reward_window_s=0.5, challengers={"same": {}}, **extra)
        api.put_arms(tenant, [{"id": a} for a in ARMS])
        for i in range(4):
            api.select("u", tenant=tenant, decision=f"d{i}")
        api.reward("d1", 1, tenant=tenant)
    assert challengers(api, name + "-0")["same"]["decisions"] == 0, "its window is not over"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        closed = [sum(e["type"] == "expired" for e in api.events(t)) for t in (name, name + "-0")]
        if closed == [3, 3]:
            break
        time.sleep(0.05)
    found = [followed(api, t)["same"] for t in (name, name + "-0")]
    assert [(c["decisions"], c["open"], c["unrewarded"]) for c in found] == [(1, 0, 3), (4, 0, 0)]
    assert [c["in_force"]["estimate"] for c in found] == [1, 1.75 / 4]


def test_an_erased_user_is_forgotten_by_challengers_too(boot):
    server = boot("--snapshot-events", "1000000")
    client, chance = Client(server), random.Random(3)
    client.put_tenant("t", algorithm="random", default_reward=None, challengers={"careful": CAREFUL, "graph": {"algorithm": "lk-gp-ucb"}})
    client.put_arms("t", [{"id": a} for a in ARMS])
    client.put_graph("t", [["u0", "u1", 1], ["u1", "u2", 1]])
    for i in range(30):
        ask_only = client.select(f"u{i % 3}", tenant="t", decision=f"d{i}")
        client.reward(f"d{i}", PAYS[ask_only["arm"]] + chance.random() / 9, tenant="t")
    before = followed(client, "t")
    client.call("DELETE", "/tenants/t/users/u1")
    after = followed(client, "t")
    assert {c["learned"] for c in after.values()} == {20} and all(after[k]["digest"] != before[k]["digest"] for k in after)
    assert {c["decisions"] for c in after.values()} == {20}
    server.restart()
    assert {k: score_of(c) for k, c in followed(client, "t").items()} == {k: score_of(c) for k, c in after.items()}


def test_what_is_compacted_before_it_was_read_is_learned_from_the_summary(boot):
    server = boot("--snapshot-events", "1000000")
    client = Client(server)
    client.put_tenant("t", algorithm="random", default_reward=None, log_candidates=True)
    client.put_arms("t", [{"id": a} for a in ARMS])
    for i in range(60):
        answer = client.select("u", tenant="t", decision=f"d{i}")
        client.reward(f"d{i}", PAYS[answer["arm"]], tenant="t")
    assert client.call("POST", "/tenants/t/compact", {"keep_events": 20}).json["compacted"]
    client.put_tenant("t", expect=200, algorithm="random", default_reward=None, challengers={"careful": CAREFUL})
    found = followed(client, "t")["careful"]
    assert found["learned"] == 60 and 5 <= found["decisions"] <= 11, "what stands in the log, behind the summary"
    assert client.call("POST", "/tenants/t/compact", {"keep_events": 0}).json["compacted"]
    assert score_of(followed(client, "t")["careful"]) == score_of(found), "what was read stays"


def test_a_challenger_has_no_room_beyond_the_tenants_quota(boot):
    client = Client(boot("--tenant-quota", "1000000"))
    client.put_tenant("t", algorithm="random", context_dim=64, challengers={"wide": {"algorithm": "gp-ucb"}})
    client.put_arms("t", [{"id": a} for a in ARMS])
    chance = random.Random(5)
    for _ in range(5):
        lines = [{"user": f"u{chance.random()}", "context": [chance.random() for _ in range(64)], "arm": "a", "reward": 1} for _ in range(100)]
        client.call("POST", "/observe", lines, kind=NDJSON, tenant="t", expect=(200, 507))
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not challengers(client, "t")["wide"]["stopped"]:
        time.sleep(0.05)
    found = challengers(client, "t")["wide"]
    assert "quota" in found["stopped"] and found["bytes"] < 100000


def test_laplacectl_shows_promotes_and_takes_back(boot):
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="random", default_reward=None, challengers={"careful": CAREFUL})
    shown = json.loads(run_ctl(server, "tenant", "challengers", "t", "--json"))
    assert [c["name"] for c in shown["challengers"]] == ["careful"]
    assert "/version" in run_ctl(server, "tenant", "promote", "t", "careful", "--version", "2", expect=1)
    view = json.loads(run_ctl(server, "tenant", "promote", "t", "careful", "--version", "1", "--json"))
    assert view["version"] == 2 and view["configuration"]["algorithm"] == "ts"
    assert json.loads(run_ctl(server, "tenant", "rollback", "t", "--json"))["configuration"]["algorithm"] == "random"
    run_ctl(server, "tenant", "rollback", "t", expect=1)
    run_ctl(server, "tenant", "promote", "t", expect=2)


def test_metrics_tell_how_far_challengers_are_and_what_was_promoted(boot):
    client = Client(boot())

    def metric(name):
        lines = [line for line in client.call("GET", "/metrics").text.splitlines() if line.startswith(f"laplaced_{name} ")]
        return float(lines[0].split()[-1])

    client.put_tenant("t", algorithm="random", default_reward=None, challengers={"careful": CAREFUL})
    client.select("u", tenant="t", candidates=["a", "b"])
    followed(client, "t")
    assert metric('challenger_lag_events{tenant="t"}') == 0 and metric('challenger_bytes{tenant="t"}') > 1000
    assert (metric("promotions_total"), metric("guardrail_promotions_total")) == (0, 0)
    client.call("POST", "/tenants/t/promote", {"challenger": "careful"})
    assert (metric("promotions_total"), metric("guardrail_promotions_total")) == (1, 0)


def test_evaluate_knows_what_was_decided_among(boot, tmp_path):
    """Under a policy in force that is uniform, uniform is the same policy: each weight is 1 where the candidates are known."""
    server = boot()
    client, chance = Client(server), random.Random(11)
    client.put_tenant("t", algorithm="random", arm_dim=2, log_candidates=True)
    client.put_arms("t", [{"id": a, "features": features(a)} for a in ARMS])
    for i in range(40):
        _, _, answer = ask(client, "t", f"d{i}", chance)
        client.reward(f"d{i}", PAYS[answer["arm"]], tenant="t")
    log = tmp_path / "log.ndjson"
    log.write_bytes(client.call("GET", "/tenants/t/export").content)
    found = json.loads(run_ctl(server, "evaluate", "--format", "ndjson", "--policy", "uniform", "--json", str(log)))
    assert found["n"] == 40 and math.isclose(found["ess"], 40, rel_tol=1e-9), found


def test_what_routing_took_past_the_policy_is_not_scored(api, name):
    """The challenger is the policy itself: each weight is 1, among whatever arms were left, and holdouts do not count."""
    api.put_tenant(name, algorithm="random", default_reward=None, challengers={"same": {}},
                   routing={"holdout": {"share": 0.5, "baseline": {"arm": "a"}}, "sticky": {"ttl_s": 3600}})
    api.put_arms(name, [{"id": "a"}, {"id": "b"}, {"id": "c", "stopped": True}, {"id": "d", "eligibility": {"allow": {"plan": ["paid"]}}}])
    for i in range(60):
        answer = api.select(f"u{i // 2}", tenant=name, decision=f"d{i}", attributes={"plan": "paid" if i % 4 < 2 else "free"})
        api.reward(f"d{i}", PAYS[answer["arm"]], tenant=name)
    routes = [e.get("route", "policy") for e in api.events(name) if e["type"] == "decided"]
    found = followed(api, name)["same"]
    assert set(routes) == {"policy", "holdout", "sticky"} and found["learned"] == 60
    assert (found["decisions"], found["unknown"]) == (routes.count("policy"), 0)
    assert found["weights"]["max"] == 1 and math.isclose(found["ess"], found["decisions"])
