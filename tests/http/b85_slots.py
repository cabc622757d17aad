"""Slots: several places filled by one decision, each with its own arm, propensity, reward, correction and default. What each is
taught stands beside observations of the same points in another tenant; named features beside names.py; the log beside the answers."""
import collections
import json

import pytest

from contract import NDJSON
from harness import Client, tenant_path, wait_for
from names import mapped

ARMS = ["a", "b", "c", "d", "e"]
SLOTS = [{"id": "top"}, {"id": "left", "exclude": ["a", "b"]}, {"id": "right", "baseline": "c"}]


def fill(client, tenant, slots=SLOTS, expect=200, user="u", candidates=ARMS, **fields):
    return client.select(user, candidates=candidates, slots=slots, tenant=tenant, expect=expect, **fields)


def by_slot(answer):
    return {s["id"]: s for s in answer["slots"]}


def decided(client, tenant):
    return [e for e in client.events(tenant) if e["type"] == "decided"]


# ---- the answer, and the line ------------------------------------------------------------------------------------------

def test_each_slot_shows_another_arm_and_the_line_says_how(api, name):
    api.put_tenant(name, algorithm="ts")
    for i in range(40):
        answer = fill(api, name, user=f"u{i}")
        arms = [s["arm"] for s in answer["slots"]]
        assert [s["id"] for s in answer["slots"]] == ["top", "left", "right"] and len(set(arms)) == 3
        assert arms[1] not in ("a", "b")
        for s in answer["slots"]:
            assert [r["arm"] for r in s["ranking"]] == [s["arm"]] and s["ranking"][0]["propensity"] == s["propensity"]
        assert {k: answer[k] for k in ("arm", "propensity", "ranking")} == {k: answer["slots"][0][k] for k in ("arm", "propensity", "ranking")}
        line = decided(api, name)[-1]
        assert [s["arm"] for s in line["slate"]] == arms and line["arm"] == arms[0]
        assert [(s["id"], s["propensity"], s["mean"]) for s in line["slots"]] == [(s["id"], s["propensity"], s["ranking"][0]["mean"]) for s in answer["slots"]]
        assert line["propensity"] == answer["propensity"] and all("context" not in s for s in line["slots"])


def test_a_line_without_slots_is_as_it_was(api, name):
    api.put_tenant(name, algorithm="ucb")
    api.select("u", candidates=ARMS, tenant=name)
    api.select("u", candidates=ARMS, top=3, tenant=name)
    assert [set(e) for e in decided(api, name)] == [
        {"seq", "type", "at", "decision", "user", "context", "arm", "features", "propensity", "mean", "expires_at", "candidates"} | more for more in (set(), {"slate"})]


def test_propensities_are_those_of_what_is_left(api, name):
    api.put_tenant(name, algorithm="random")
    seen = collections.Counter()
    for i in range(400):
        answer = fill(api, name, slots=[{"id": "1"}, {"id": "2"}, {"id": "3"}], candidates=["a", "b", "c"], decision=f"d{i}", dry_run=True)
        assert [s["propensity"] for s in answer["slots"]] == pytest.approx([1 / 3, 1 / 2, 1])
        seen[tuple(s["arm"] for s in answer["slots"])] += 1
    assert len(seen) == 6 and sum((n - 400 / 6) ** 2 / (400 / 6) for n in seen.values()) < 30, seen  # chi-squared of 5 degrees: one in 70,000


def test_one_slot_is_a_decision(api, name):
    api.put_tenant(name)
    for i in range(30):
        whole = api.select("u", candidates=ARMS, tenant=name, decision=f"d{i}", dry_run=True)
        one = fill(api, name, slots=[{"id": "only"}], decision=f"d{i}", dry_run=True)
        assert one["slots"] == [{"id": "only", **{k: whole[k] for k in ("arm", "propensity", "ranking")}}]
    line = fill(api, name, slots=[{"id": "only"}])
    assert "slate" not in decided(api, name)[-1]
    assert api.reward(line["decision"], 1, slot="only", tenant=name) == {"applied": True}


def test_explain_ranks_what_each_slot_could_show(api, name):
    api.put_tenant(name)
    answer = fill(api, name, explain=True)
    left = set(ARMS)
    for s, without in zip(answer["slots"], (set(), {"a", "b"}, set())):
        assert {r["arm"] for r in s["ranking"]} == left - without
        assert sum(r["propensity"] for r in s["ranking"]) == pytest.approx(1)
        left.remove(s["arm"])


def test_a_retry_gets_the_first_answer_word_for_word(api, name):
    api.put_tenant(name)
    first = api.call("POST", "/select", {"user": "u", "candidates": ARMS, "slots": SLOTS, "decision": "d"}, tenant=name).text
    assert api.call("POST", "/select", {"user": "u", "candidates": ARMS, "slots": SLOTS, "decision": "d"}, tenant=name).text == first
    assert len(decided(api, name)) == 1


def test_later_slots_know_the_deviations_that_earlier_ones_leave(api, name):
    """As if what was shown had been observed to be what it was expected: in a twin it is."""
    config = dict(algorithm="gp-ucb", context_dim=1, arm_dim=1, context_kernel={"type": "rbf", "lengthscale": 1}, arm_kernel={"type": "rbf", "lengthscale": 1})
    api.put_tenant(name, **config)
    twin = name[:-2] + "-t"
    api.put_tenant(twin, **config)
    arms = [{"id": a, "features": [0.3 * i]} for i, a in enumerate(ARMS)]
    for tenant in (name, twin):
        for i in range(6):
            api.observe("u", arms[i % 5], i / 5, context=[0.1 * i], tenant=tenant)
    answer = fill(api, name, candidates=arms, context=[0.2], slots=[{"id": "1"}, {"id": "2", "context": [0.9]}, {"id": "3"}], explain=True)
    shown = []
    for s, x in zip(answer["slots"], (0.2, 0.9, 0.2)):
        want = {r["arm"]: r for r in api.select("u", candidates=arms, context=[x], explain=True, dry_run=True, tenant=twin)["ranking"]}
        for r in s["ranking"]:
            assert r["mean"] == pytest.approx(want[r["arm"]]["mean"], abs=1e-9) and r["sd"] == pytest.approx(want[r["arm"]]["sd"], abs=1e-9)
        shown.append(s["arm"])
        api.observe("u", next(a for a in arms if a["id"] == s["arm"]), s["ranking"][0]["mean"], context=[x], tenant=twin)
    line = decided(api, name)[-1]
    assert line["context"] == [0.2] and [s.get("context") for s in line["slots"]] == [None, [0.9], None]


def test_a_slot_weighs_by_what_it_was_drawn_from(api, name):
    """The mean that a model begins with is what a draw of all candidates alike earns: each reward counts 1 / (C p), C being what its slot could show. Few can stand in
    the last slot, and they earn the most."""
    api.put_tenant(name, algorithm="laplaced-by-arm", default_reward=None)
    candidates, worth = [f"a{i}" for i in range(12)], {"top": 1, "left": -3, "right": 7}
    slots = [{"id": "top", "exclude": candidates[:2]}, {"id": "left"}, {"id": "right", "exclude": candidates[3:]}]
    weight = earned = n = 0
    for i in range(7):
        answer = fill(api, name, slots=slots, candidates=candidates, explain=True)
        shown = set()
        for slot, s, line in zip(slots, answer["slots"], decided(api, name)[-1]["slots"]):
            left = set(candidates) - set(slot.get("exclude", [])) - shown
            assert line["candidates"] == len(left) == len(s["ranking"])
            shown.add(s["arm"])
            api.reward(answer["decision"], worth[s["id"]], slot=s["id"], tenant=name)
            if n < 18:
                weight, earned, n = weight + 1 / (len(left) * s["propensity"]), earned + worth[s["id"]] / (len(left) * s["propensity"]), n + 1
    newest = [e for e in api.events(name) if e["type"] == "tuned"][-1]
    assert newest["scales"]["rewards"] == 18 and newest["scales"]["mean"] == pytest.approx(earned / weight, rel=1e-9)


# ---- rewards ------------------------------------------------------------------------------------------------------------

def test_each_slot_has_its_reward_correction_and_default(api, name):
    """In a twin the same points are observed."""
    twin = name[:-2] + "-t"
    config = dict(algorithm="gp-ucb", context_dim=1, arm_dim=1, aggregation="last", context_kernel={"type": "rbf", "lengthscale": 1}, arm_kernel={"type": "rbf", "lengthscale": 1})
    arms = {a: {"id": a, "features": [0.3 * i]} for i, a in enumerate(ARMS)}
    api.put_tenant(name, reward_window_s=1.5, default_reward=-0.5, **config)
    api.put_tenant(twin, **config)
    answer = fill(api, name, candidates=list(arms.values()), context=[0.2], slots=[{"id": "1"}, {"id": "2", "context": [0.9]}, {"id": "3", "context": [0.4]}])
    d, shown = answer["decision"], by_slot(answer)
    api.reward(d, 0.25, slot="2", tenant=name)
    api.reward(d, 0.75, slot="2", tenant=name)
    assert api.reward(d, 0.75, slot="2", tenant=name) == {"applied": False, "duplicate": True}
    api.reward(d, 1, arm=shown["3"]["arm"], tenant=name)
    assert [(e["arm"], e["reward"]) for e in api.events(name) if e["type"] == "rewarded"] == [
        (shown["2"]["arm"], 0.25), (shown["2"]["arm"], 0.75), (shown["3"]["arm"], 1)]
    assert wait_for(lambda: api.stats(name)["expired"] == 1)
    for slot, x, y in (("1", 0.2, -0.5), ("2", 0.9, 0.75), ("3", 0.4, 1)):
        api.observe("u", arms[shown[slot]["arm"]], y, context=[x], tenant=twin)
    for x in (0.2, 0.5):
        got, want = (api.select("u", candidates=list(arms.values()), context=[x], explain=True, dry_run=True, tenant=t)["ranking"] for t in (name, twin))
        assert sorted((r["arm"], round(r["mean"], 9), round(r["sd"], 9)) for r in got) == sorted((r["arm"], round(r["mean"], 9), round(r["sd"], 9)) for r in want)
    assert api.reward(d, 1, slot="1", tenant=name, expect=410)["status"] == 410
    late = [e for e in api.events(name) if e["type"] == "late"]
    assert [(e["arm"], e["reward"]) for e in late] == [(shown["1"]["arm"], 1)]
    assert api.reward(d, 1, slot="4", tenant=name, expect=404)["type"] == "/problems/no-arm"
    stats = api.stats(name)
    assert stats["rewards"] == 3 and stats["window"]["rewards"] == 3 and {a["arm"] for a in stats["window"]["arms"]} == {s["arm"] for s in shown.values()}


@pytest.mark.parametrize("aggregation", ["first", "sum", "last"])
def test_rewards_under_each_aggregation(api, name, aggregation):
    api.put_tenant(name, algorithm="ucb", aggregation=aggregation, default_reward=None)
    answer = fill(api, name)
    d = answer["decision"]
    assert api.reward(d, 1, slot="left", tenant=name) == {"applied": True}
    if aggregation == "first":
        assert api.reward(d, 1, slot="left", tenant=name)["duplicate"]
        api.reward(d, 2, slot="left", tenant=name, expect=409)
        api.reward(d, 1, slot="top", tenant=name)
        assert api.stats(name)["pending"] == 1
        api.reward(d, 0, slot="right", tenant=name)
        assert api.stats(name)["pending"] == 0
        assert api.reward(d, 0, slot="right", tenant=name)["duplicate"]  # closed: the log knows
        api.reward(d, 1, slot="right", tenant=name, expect=409)
        api.reward(d, 1, slot="nowhere", tenant=name, expect=404)
    else:
        api.reward(d, 2, slot="left", tenant=name)
        shown = by_slot(answer)["left"]["arm"]
        assert {a["arm"]: a["mean_reward"] for a in api.stats(name)["arms"] if a["rewards"]} == {shown: 3 if aggregation == "sum" else 2}


def test_rewards_by_user_in_arrays_and_under_an_id(api, name):
    api.put_tenant(name, algorithm="ucb", default_reward=None)
    answer = fill(api, name)
    d, left = answer["decision"], by_slot(answer)["left"]["arm"]
    body = {"user": "u", "slot": "left", "reward": 1, "id": "o1"}
    assert api.call("POST", "/reward", body, tenant=name).json == {"applied": True, "decisions": [d]}
    assert api.call("POST", "/reward", body, tenant=name).json["applied"]  # sent again: as it was
    assert api.call("POST", "/reward", {**body, "slot": "top"}, tenant=name, expect=409).json["detail"] == "another reward has this id"
    got = api.call("POST", "/reward", [{"decision": d, "slot": "top", "reward": 1}, {"decision": d, "slot": "foot", "reward": 1}, {"decision": "no", "slot": "top", "reward": 1}], tenant=name).json
    assert [g.get("type") for g in got] == [None, "/problems/no-arm", "/problems/no-decision"]
    assert [e["arm"] for e in api.events(name) if e["type"] == "rewarded"] == [left, answer["arm"]]


def test_a_plain_decision_has_no_slot(api, name):
    api.put_tenant(name, algorithm="ucb")
    d = api.select("u", candidates=ARMS, top=2, tenant=name)["decision"]
    assert api.reward(d, 1, slot="top", tenant=name, expect=404)["type"] == "/problems/no-arm"


def test_deferred_slots_wait(api, name):
    api.put_tenant(name, algorithm="ucb")
    d = fill(api, name, defer=True)["decision"]
    api.reward(d, 1, slot="top", tenant=name, expect=409)
    api.call("POST", "/activate", {"decision": d}, tenant=name)
    api.reward(d, 1, slot="top", tenant=name)


# ---- routes -------------------------------------------------------------------------------------------------------------

def test_a_stopped_tenant_shows_the_baselines(api, name):
    api.put_tenant(name, routing={"stopped": True, "holdout": {"baseline": {"rule": "first"}}})
    answer = fill(api, name, slots=[{"id": "1", "baseline": "d"}, {"id": "2", "baseline": "d"}, {"id": "3", "baseline": "c", "exclude": ["c"]}])
    assert [(s["arm"], s["propensity"], s["route"]) for s in answer["slots"]] == [("d", 1, "stopped"), ("a", 1, "stopped"), ("b", 1, "stopped")]


def test_the_first_slot_alone_sticks(api, name):
    api.put_tenant(name, algorithm="random", routing={"sticky": {"ttl_s": 600}})
    first = fill(api, name)
    for _ in range(10):
        again = fill(api, name)
        assert (again["arm"], again["route"]) == (first["arm"], "sticky")
        assert all("route" not in s for s in again["slots"][1:])


# ---- named features -----------------------------------------------------------------------------------------------------

def test_features_of_a_slot_join_the_context(api, name):
    api.put_tenant(name, algorithm="gp-ucb", features={"mapping": "names-1", "dim": 32, "seed": 5})
    context, slot, own = {"device": "phone", "hour": 13}, {"size": 3, "place": "top"}, {"device": "tv"}
    arms = [{"id": a, "features": {"topic": a}} for a in ARMS]
    fill(api, name, candidates=arms, context=context, slots=[{"id": "1", "features": slot}, {"id": "2"}, {"id": "3", "context": own, "features": slot}])
    line = decided(api, name)[-1]
    assert line["context"] == mapped({**context, "slot": slot}, 32, 5, None)
    assert [s.get("context") for s in line["slots"]] == [None, mapped(context, 32, 5, None), mapped({**own, "slot": slot}, 32, 5, None)]


def test_faults_of_features_are_told_where_they_stand(api, name):
    api.put_tenant(name, algorithm="gp-ucb", features={"mapping": "names-1", "dim": 32})
    got = api.call("POST", "/select", {"user": "u", "candidates": [{"id": "a", "features": {"t": 1}}], "context": {"x": 1}, "slots": [{"id": "1", "features": {"a": [[1]]}}]}, tenant=name, expect=400)
    assert got.pointers == ["/slots/0/features/a/0"]
    got = api.call("POST", "/select", {"user": "u", "candidates": [{"id": "a", "features": {"t": 1}}], "context": {"slot": 1}, "slots": [{"id": "1", "features": {"a": 1}}]}, tenant=name, expect=400)
    assert got.pointers == ["/slots/0/features"] and "member" in got.json["detail"] + got.json["errors"][0]["detail"]


# ---- refusals -----------------------------------------------------------------------------------------------------------

FAULTS = [
    ([], "/slots"), ("top", "/slots"), ([{"id": str(i)} for i in range(51)], "/slots"), (["top"], "/slots/0"), ([{}], "/slots/0/id"), ([{"id": ""}], "/slots/0/id"),
    ([{"id": "a" * 257}], "/slots/0/id"), ([{"id": True}], "/slots/0/id"), ([{"id": "1"}, {"id": "1"}], "/slots/1"), ([{"id": "1", "exclude": "a"}], "/slots/0/exclude"),
    ([{"id": "1", "exclude": [{}]}], "/slots/0/exclude/0"), ([{"id": "1", "baseline": 1.5}], "/slots/0/baseline"), ([{"id": "1", "context": [1]}], "/slots/0/context"),
    ([{"id": "1", "context": "x"}], "/slots/0/context"), ([{"id": "1", "features": [1]}], "/slots/0/features"), ([{"id": "1", "features": {"a": 1}}], "/slots/0/features"),
    ([{"id": "1", "action": "a"}], "/slots/0/action"), ([{"id": str(i)} for i in range(6)], "/slots/5"), ([{"id": "1", "exclude": ARMS}], "/slots/0")]


@pytest.mark.parametrize("slots,pointer", FAULTS, ids=lambda v: json.dumps(v)[:60])
def test_bad_slots_are_refused_by_place(api, name, slots, pointer):
    api.put_tenant(name, algorithm="ucb")
    got = api.call("POST", "/select", {"user": "u", "candidates": ARMS, "slots": slots}, tenant=name, expect=400)
    assert pointer in [p[:len(pointer)] for p in got.pointers], got.text
    assert decided(api, name) == []


@pytest.mark.parametrize("more", [{"top": 3}, {"neighbours": 1, "dry_run": True}], ids=str)
def test_what_cannot_stand_beside_slots(api, name, more):
    api.put_tenant(name)
    got = api.call("POST", "/select", {"user": "u", "candidates": ARMS, "slots": SLOTS, **more}, tenant=name, expect=400)
    assert got.pointers == ["/" + next(iter(more))]


def test_contexts_have_the_tenants_dimensions(api, name):
    api.put_tenant(name, algorithm="gp-ucb", context_dim=2)
    body = {"user": "u", "candidates": ARMS, "slots": [{"id": "1", "context": [1, 2]}, {"id": "2", "context": [1, 2, 3]}]}
    assert api.call("POST", "/select", {**body, "context": [0, 0]}, tenant=name, expect=400).pointers == ["/slots/1/context"]
    body["slots"][1]["context"] = [3, 4]
    assert api.call("POST", "/select", body, tenant=name, expect=400).pointers == ["/context"]
    api.call("POST", "/select", {**body, "context": [0, 0]}, tenant=name)
    assert decided(api, name)[-1]["context"] == [1, 2]


def test_a_reward_names_an_arm_or_a_slot(api, name):
    api.put_tenant(name, algorithm="ucb")
    d = fill(api, name)["decision"]
    for body in ({"decision": d}, {"user": "u"}):
        got = api.call("POST", "/reward", {**body, "arm": "a", "slot": "top", "reward": 1}, tenant=name, expect=400)
        assert got.pointers == ["/slot"]
    for slot in ("", "x" * 257, True, None, []):
        assert api.call("POST", "/reward", {"decision": d, "slot": slot, "reward": 1}, tenant=name, expect=400).pointers == ["/slot"]


def test_fifty_slots(api, name):
    api.put_tenant(name)
    candidates = [f"a{i}" for i in range(60)]
    answer = fill(api, name, candidates=candidates, slots=[{"id": f"s{i}"} for i in range(50)])
    assert len({s["arm"] for s in answer["slots"]}) == 50 and len(decided(api, name)[-1]["slots"]) == 50
    api.reward(answer["decision"], 1, slot="s49", tenant=name)


def test_every_slot_has_every_metric(api, name):
    metrics = [{"name": f"m{i}", "aggregation": "last"} for i in range(15)]
    api.put_tenant(name, metrics=metrics)
    answer = fill(api, name, candidates=[f"a{i}" for i in range(50)], slots=[{"id": f"s{i}"} for i in range(50)])
    for i in range(50):
        api.call("POST", "/reward", [{"decision": answer["decision"], "slot": f"s{i}", "metric": m["name"], "reward": i} for m in metrics], tenant=name)
    assert len([e for e in api.events(name) if e["type"] == "measured"]) == 750


# ---- what lasts ----------------------------------------------------------------------------------------------------------

CONFIGS = {"kors": {"algorithm": "laplaced-kors"}, "sum": {"algorithm": "ts", "aggregation": "sum"}, "levels": {"algorithm": "sup-kernel-ucb"}, "plain": {}}


def traffic(client, tenant, n=12):
    opened = []
    for i in range(n):
        answer = fill(client, tenant, user=f"u{i % 3}")
        opened.append(answer["decision"])
        client.reward(answer["decision"], i % 3, slot=["top", "left", "right"][i % 3], tenant=tenant)
    return opened


@pytest.mark.parametrize("args", [[], ["--snapshot-events", "5"]], ids=" ".join)
def test_a_kill_changes_nothing(boot, args):
    server = boot(*args)
    client = Client(server)
    opened = {}
    for tenant, config in CONFIGS.items():
        client.put_tenant(tenant, default_reward=None, **config)
        opened[tenant] = traffic(client, tenant)
    before = {t: (client.digest(t), client.events(t), client.stats(t)["pending"]) for t in CONFIGS}
    server.restart()
    for tenant in CONFIGS:
        assert (client.digest(tenant), client.events(tenant), client.stats(tenant)["pending"]) == before[tenant]
        assert client.verify(tenant)["equal"]
        assert client.reward(opened[tenant][0], 1, slot="right", tenant=tenant) == {"applied": True}
        client.reward(opened[tenant][0], 1, slot="nowhere", tenant=tenant, expect=404)


def test_compaction_export_and_copies_keep_slots(boot):
    server = boot()
    client = Client(server)
    client.put_tenant("shop", default_reward=None)
    opened = traffic(client, "shop")
    closed = fill(client, "shop")
    for s in closed["slots"]:
        client.reward(closed["decision"], 1, slot=s["id"], tenant="shop")
    text = client.call("GET", tenant_path("shop", "export")).text
    client.call("POST", tenant_path("moved", "import"), raw=text, kind=NDJSON, expect=201)
    assert client.digest("moved") == client.digest("shop")
    assert client.reward(closed["decision"], 1, slot="left", tenant="moved")["duplicate"]
    assert client.reward(opened[1], 1, slot="top", tenant="moved") == {"applied": True}
    client.call("POST", tenant_path("shop", "compact"), {"keep_events": 0}, expect=200)
    digest = client.digest("shop")
    story = client.call("GET", tenant_path("shop", f"decisions/{opened[0]}")).json
    assert [s["id"] for s in story["summary"]["slots"]] == ["top", "left", "right"]
    server.restart()
    assert client.digest("shop") == digest
    assert client.reward(opened[0], 1, slot="right", tenant="shop") == {"applied": True}
    assert client.reward(opened[0], 1, slot="nowhere", tenant="shop", expect=404)["type"] == "/problems/no-arm"
    client.call("DELETE", tenant_path("moved", "users/u0"), expect=200)
    assert all("slots" not in e for e in client.events("moved") if e["type"] == "redacted")
    client.reward(opened[0], 1, slot="top", tenant="moved", expect=404)


def test_a_decision_is_told_with_its_slots(api, name):
    api.put_tenant(name)
    answer = fill(api, name, decision="d")
    story = api.call("GET", tenant_path(name, "decisions/d")).json
    assert story["answer"] == answer and [s["id"] for s in story["decided"]["slots"]] == ["top", "left", "right"]
