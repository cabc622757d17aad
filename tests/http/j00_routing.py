"""What routing decides before the policy does: kill switches, eligibility of arms, holdouts, arms that stick (docs/ROUTING.md)."""
import collections
import json
import time
from datetime import datetime, timedelta, timezone

import pytest

from harness import Client, run_ctl

DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
MASK = (1 << 64) - 1


def listed(api, name):
    return {a["id"]: a for a in api.call("GET", f"/tenants/{name}/arms").json["arms"]}


def patch(api, name, expect=200, **body):
    return api.call("PATCH", f"/tenants/{name}/arms", body, expect=expect)


def shown(api, name, user="u", **fields):
    """The candidates that a decision had."""
    return {r["arm"] for r in api.select(user, explain=True, dry_run=True, tenant=name, **fields)["ranking"]}


def refused(api, name, **fields):
    problem = api.call("POST", "/select", {"user": "u", **fields}, tenant=name, expect=400).json
    assert [e["pointer"] for e in problem["errors"]] == ["/candidates"]
    return problem["errors"][0]["detail"]


def configure(api, name, expect=(200, 201), **routing):
    config = {"algorithm": "ucb", "tune": False, "confidence": {"beta": 1.0}, "rule": {"epsilon": 0.2}}
    return api.call("PUT", f"/tenants/{name}", {**config, "routing": routing}, expect=expect)


# --- the switch of an arm ---------------------------------------------------------------------------------------

def test_a_stopped_arm_is_shown_to_nobody_from_the_next_decision_on(api, name):
    api.put_tenant(name, algorithm="gp-ucb", arm_dim=1)
    api.put_arms(name, [{"id": i, "features": [k / 4]} for k, i in enumerate("abc")])
    first = api.select("u", candidates=["a"], decision="before", tenant=name)
    before = listed(api, name)
    assert patch(api, name, stop=["a"]).json == {"arms": 3, "active": 3, "stopped": 1}
    assert shown(api, name) == {"b", "c"} == shown(api, name, candidates=["a", "b", {"id": "c", "features": [9]}])
    assert refused(api, name, candidates=[{"id": "a", "features": [1]}]).startswith("no candidate is left: 0 excluded, 1 stopped, 0 not")
    assert listed(api, name)["a"] == {**before["a"], "stopped": True}
    assert api.select("u", candidates=["a"], decision="before", tenant=name) == first  # what was answered stays answered
    api.reward("before", 1.0, tenant=name)
    assert patch(api, name, start=["a"]).json == {"arms": 3, "active": 3}
    assert shown(api, name) == {"a", "b", "c"} and listed(api, name) == before
    assert {r["arm"]: r["mean"] for r in api.select("u", explain=True, dry_run=True, tenant=name)["ranking"]}["a"] > 0.3
    lines = [e for e in api.events(name) if e["type"] == "arms"]
    assert [(e.get("stop"), e.get("start")) for e in lines[1:]] == [(["a"], None), (None, ["a"])]


def test_an_arm_may_be_put_stopped_and_is_free_again_when_it_leaves_the_catalogue(api, name):
    api.put_tenant(name, algorithm="ucb")
    assert api.put_arms(name, ["a", {"id": "b", "stopped": True}, {"id": "c", "active": False, "stopped": True}]) == {"arms": 3, "active": 2, "stopped": 2}
    assert shown(api, name) == {"a"} and listed(api, name)["c"] == {"id": "c", "active": False, "stopped": True}
    assert refused(api, name, candidates=["b", "c"]).startswith("no candidate is left: 0 excluded, 2 stopped")
    patch(api, name, remove=["b"], arms=["c"])
    assert shown(api, name, candidates=["a", "b", "c"]) == {"a", "b", "c"}


@pytest.mark.parametrize("body, status, pointer", [
    ({"stop": ["nope"]}, 409, "/stop/0"), ({"start": ["a", "nope"]}, 409, "/start/1"),
    ({"stop": ["a"], "start": ["a"]}, 400, "/start/0"), ({"stop": ["a", "a"]}, 400, "/stop/1"),
    ({"stop": ["a"], "remove": ["a"]}, 400, "/stop/0"), ({"stop": ["a"], "arms": ["a"]}, 400, "/stop/0"),
    ({"stop": "a"}, 400, "/stop"), ({"stop": [""]}, 400, "/stop/0")], ids=str)
def test_switches_that_make_no_sense_change_nothing(api, name, body, status, pointer):
    api.put_tenant(name, algorithm="ucb")
    api.put_arms(name, ["a", "b"])
    digest = api.digest(name)
    assert patch(api, name, expect=status, **body).pointers == [pointer]
    assert api.digest(name) == digest


def test_a_switch_of_a_large_catalogue(api, name):
    """Beyond 256 changes the catalogue is changed in a copy."""
    api.put_tenant(name, algorithm="ucb")
    ids = [f"a{i}" for i in range(600)]
    api.put_arms(name, [{"id": i, "eligibility": {"allow": {"n": [str(k % 2)]}}} for k, i in enumerate(ids)])
    assert patch(api, name, stop=ids[:500]).json == {"arms": 600, "active": 600, "stopped": 500}
    assert shown(api, name, attributes={"n": "1"}) == set(ids[501::2])
    assert patch(api, name, start=ids[:400]).json == {"arms": 600, "active": 600, "stopped": 100}
    assert shown(api, name, attributes={"n": "0"}) == set(ids[0:400:2] + ids[500::2])


# --- eligibility -------------------------------------------------------------------------------------------------

RULES = {
    "anyone": {},
    "german": {"allow": {"country": ["de", "at"]}},
    "paying": {"deny": {"plan": ["free", "trial"]}},
    "both": {"allow": {"country": ["de"], "plan": ["gold"]}, "deny": {"beta": ["yes"]}},
}


@pytest.mark.parametrize("attributes, who", [
    ({}, {"anyone", "paying"}),
    ({"country": "de"}, {"anyone", "german", "paying"}),
    ({"country": "fr", "plan": "free"}, {"anyone"}),
    ({"country": "DE"}, {"anyone", "paying"}),
    ({"country": "de", "plan": "gold"}, {"anyone", "german", "paying", "both"}),
    ({"country": "de", "plan": "gold", "beta": "yes"}, {"anyone", "german", "paying"}),
    ({"country": "at", "plan": "trial", "else": "de"}, {"anyone", "german"})], ids=str)
def test_rules_on_attributes(api, name, attributes, who):
    api.put_tenant(name, algorithm="ucb")
    api.put_arms(name, [{"id": i, "eligibility": r} for i, r in RULES.items()])
    assert shown(api, name, attributes=attributes) == who
    assert shown(api, name, attributes=attributes, candidates=[*RULES, "unheard of"]) == who | {"unheard of"}


def test_rules_are_shown_sorted_and_left_out_where_there_are_none(api, name):
    api.put_tenant(name, algorithm="ucb")
    api.put_arms(name, [{"id": i, "eligibility": r} for i, r in RULES.items()])
    arms = listed(api, name)
    assert arms["anyone"] == {"id": "anyone", "active": True}
    assert arms["german"]["eligibility"] == {"allow": {"country": ["at", "de"]}}
    digest = api.digest(name)
    assert api.put_arms(name, list(arms.values())) == {"arms": 4, "active": 4}  # what is shown can be put
    assert listed(api, name) == arms and digest != api.digest(name)  # the number of events is in it
    full = {"deny": {'a"b/c~d': ["\u00e9", " "]}, "from": "2026-01-01T00:00:00.000Z", "until": "2099-01-01T00:00:00.500Z", "hours": [0, 7, 23], "days": ["mon", "sun"]}
    api.put_arms(name, [{"id": "full", "eligibility": {**full, "hours": [23, 0, 7, 7], "days": ["sun", "mon"], "from": "2026-01-01T00:00:00Z"}}])
    assert listed(api, name)["full"]["eligibility"] == {**full, "deny": {'a"b/c~d': [" ", "\u00e9"]}}


def test_a_schedule_in_utc(api, name):
    now = datetime.now(timezone.utc)
    later = now + timedelta(hours=1)  # in case the hour turns under way
    mine = {"hours": sorted({now.hour, later.hour}), "days": sorted({DAYS[now.weekday()], DAYS[later.weekday()]})}
    far = {"past": "2026-01-01T00:00:00Z", "future": "2099-01-01T00:00:00.000Z"}
    rules = {"now": {"from": far["past"], "until": far["future"]}, "not yet": {"from": far["future"]}, "over": {"until": far["past"]},
             "this hour": {"hours": mine["hours"]}, "other hours": {"hours": [h for h in range(24) if h not in mine["hours"]]},
             "today": {"days": mine["days"]}, "other days": {"days": [d for d in DAYS if d not in mine["days"]]},
             "other hours today": {"days": mine["days"], "hours": [h for h in range(24) if h not in mine["hours"]]}}
    api.put_tenant(name, algorithm="ucb")
    api.put_arms(name, [{"id": i, "eligibility": r} for i, r in rules.items()])
    assert shown(api, name) == {"now", "this hour", "today"}
    assert refused(api, name, candidates=["now", "over", "not yet"], exclude=["now"]) == \
        "no candidate is left: 1 excluded, 0 stopped, 2 not eligible for these attributes at this time"


@pytest.mark.parametrize("rules, pointer", [
    ({"from": "2026-02-30T00:00:00Z"}, "/from"), ({"from": "2026-01-02T00:00:00Z", "until": "2026-01-02T00:00:00.000Z"}, "/until"),
    ({"allow": {"": ["x"]}}, "/allow/"), ({"allow": {"a": []}}, "/allow/a"), ({"deny": {"a": ["x", 1]}}, "/deny/a/1"),
    ({"deny": {f"k{i}": ["x"] for i in range(17)}}, "/deny"), ({"allow": {"a": ["x"] * 257}}, "/allow/a"), ({"hours": [24]}, "/hours/0"),
    ({"days": ["mon", "noday"]}, "/days/1"), ({"unless": 1}, "/unless")], ids=lambda v: str(v)[:40])
def test_faulty_rules_are_named(api, name, rules, pointer):
    api.put_tenant(name, algorithm="ucb")
    answer = api.call("PUT", f"/tenants/{name}/arms", [{"id": "a", "eligibility": rules}], expect=400)
    assert answer.pointers == ["/0/eligibility" + pointer]


def test_faulty_attributes_are_named(api):
    for attributes, pointer in (({"a": 1}, "/attributes/a"), ({"a": ""}, "/attributes/a"), ({"": "x"}, "/attributes/"), ([], "/attributes"),
                                ({f"k{i}": "x" for i in range(33)}, "/attributes"), ({"k" * 65: "x"}, "/attributes/" + "k" * 65)):
        answer = api.call("POST", "/select", {"user": "u", "candidates": ["a"], "attributes": attributes}, expect=400)
        assert answer.pointers == [pointer]


# --- holdout -------------------------------------------------------------------------------------------------------

def fnv(h, data):
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & MASK
    return h


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def place(salt, user):
    """docs/ROUTING.md, once more: FNV-1a of both strings behind their lengths, then three rounds of SplitMix64's finaliser."""
    h = 0xCBF29CE484222325
    for text in (salt.encode(), user.encode()):
        h = fnv(fnv(h, len(text).to_bytes(8, "little")), text)
    golden = 0x9E3779B97F4A7C15
    return (mix(mix(mix(h + golden & MASK) + 7 * golden & MASK)) >> 11) / 2**53


def test_the_documented_hash_says_who_is_held_out(api, name):
    users = [f"user-{i}" for i in range(120)] + ["\u00e9", "x" * 256]
    configure(api, name)
    api.put_arms(name, ["a", "b", "c"])
    for share, salt in ((0.1, ""), (0.4, ""), (0.4, "autumn \u00e9"), (1.0, ""), (0.0, "")):
        configure(api, name, holdout={"share": share, "baseline": {"arm": "b"}, "salt": salt})
        for user in users:
            answer = api.select(user, dry_run=True, tenant=name)
            is_out = place(salt, user) < share
            assert answer.get("route") == ("holdout" if is_out else None), (user, share, salt)
            if is_out:
                assert answer["arm"] == "b" and answer["propensity"] == 1
    held = [{u for u in users if place("", u) < share} for share in (0.1, 0.4)]
    assert held[0] < held[1] and {u for u in users if place("autumn \u00e9", u) < 0.4} not in held


def test_a_baseline_that_is_no_candidate_gives_way_to_chance(api, name):
    configure(api, name, holdout={"share": 1, "baseline": {"arm": "control"}})
    api.put_arms(name, ["a", "b", "control"])
    for more in ({"exclude": ["control"]}, {"candidates": ["a", "b"]}):
        answers = [api.select("u", decision=f"{name}{i}", dry_run=True, explain=True, tenant=name, **more) for i in range(40)]
        assert {(a["route"], a["propensity"]) for a in answers} == {("holdout", 0.5)} and {a["arm"] for a in answers} == {"a", "b"}
        assert all(r["propensity"] == 0.5 for a in answers for r in a["ranking"])
    assert api.select("u", candidates=["a", "control"], tenant=name)["arm"] == "control"
    api.put_arms(name, [])  # a baseline that nobody has put into the catalogue, named with the others
    assert api.select("u", candidates=["x", "control"], tenant=name)["propensity"] == 1


def test_rewards_of_every_route_teach(api, name):
    configure(api, name, holdout={"share": 1, "baseline": {"arm": "b"}})
    api.put_arms(name, ["a", "b"])
    d = api.select("u", tenant=name)
    assert api.reward(d["decision"], 1.0, tenant=name) == {"applied": True}
    after = api.select("u", explain=True, dry_run=True, tenant=name)
    assert {r["arm"]: r["mean"] for r in after["ranking"]}["b"] > 0.4 and after["model"]["events"] == 1
    line = [e for e in api.events(name) if e["type"] == "decided"][0]
    assert line["route"] == "holdout" and line["propensity"] == 1 and "assigned_until" not in line


@pytest.mark.parametrize("routing, status, pointer", [
    ({"holdout": {"share": 0.1}}, 422, "/routing/holdout/baseline"), ({"stopped": True}, 422, "/routing/stopped"),
    ({"holdout": {"share": 1.5, "baseline": {"rule": "uniform"}}}, 400, "/routing/holdout/share"),
    ({"holdout": {"baseline": {}}}, 400, "/routing/holdout/baseline"), ({"holdout": {"baseline": {"arm": "a", "rule": "uniform"}}}, 400, "/routing/holdout/baseline"),
    ({"holdout": {"baseline": {"rule": "best"}}}, 400, "/routing/holdout/baseline/rule"), ({"holdout": {"salt": "x" * 65}}, 400, "/routing/holdout/salt"),
    ({"sticky": {}}, 400, "/routing/sticky/ttl_s"), ({"sticky": {"ttl_s": 0}}, 400, "/routing/sticky/ttl_s"), ({"stopped": 1}, 400, "/routing/stopped")],
    ids=str)
def test_faulty_settings_are_named(api, name, routing, status, pointer):
    assert configure(api, name, expect=status, **routing).pointers == [pointer]


def test_settings_are_shown_in_full_and_build_no_model(api, name):
    api.put_tenant(name, algorithm="laplaced-kors")
    api.put_arms(name, ["a", "b"])
    for i in range(6):
        api.observe("u", "ab"[i % 2], i, tenant=name)
    n = len(api.events(name))
    view = api.call("PUT", f"/tenants/{name}", {"algorithm": "laplaced-kors", "routing": {"holdout": {"share": 0.25, "baseline": {"rule": "uniform"}}, "sticky": {"ttl_s": 0.25}}}).json
    assert view["configuration"]["routing"] == {"holdout": {"share": 0.25, "baseline": {"rule": "uniform"}, "salt": ""}, "sticky": {"ttl_s": 0.25}, "stopped": False}
    assert [e["type"] for e in api.events(name, after=n)] == ["configured"] and not view["rebuilding"]


# --- the switch of a tenant -----------------------------------------------------------------------------------------

def test_a_stopped_tenant_shows_the_baseline_and_asks_no_model(api, name):
    baseline = {"share": 0.5, "baseline": {"arm": "b"}}
    configure(api, name, holdout=baseline)
    api.put_arms(name, ["a", "b", "c"])
    api.observe("u", "a", 1.0, tenant=name)
    configure(api, name, holdout=baseline, stopped=True)
    d = api.select("u", explain=True, top=2, tenant=name)
    assert (d["arm"], d["route"], d["propensity"]) == ("b", "stopped", 1)
    assert d["ranking"] == [{"arm": "b", "propensity": 1}, {"arm": "a", "propensity": 0}, {"arm": "c", "propensity": 0}]
    line = api.events(name)[-1]
    assert line["route"] == "stopped" and "mean" not in line and [s["arm"] for s in line["slate"]] == ["b", "a"]
    assert api.reward(d["decision"], 0.5, tenant=name) == {"applied": True}
    configure(api, name, holdout={"share": 0, "baseline": {"rule": "uniform"}}, stopped=True)
    counts = collections.Counter((a["arm"], round(a["propensity"], 12), a["route"]) for a in
                                 (api.select("u", decision=f"x{i}", dry_run=True, tenant=name) for i in range(60)))
    assert set(counts) == {(arm, round(1 / 3, 12), "stopped") for arm in "abc"}
    configure(api, name, holdout=baseline)
    assert "mean" in api.select("u", tenant=name)["ranking"][0]


# --- arms that stick -------------------------------------------------------------------------------------------------

STICKY = {"sticky": {"ttl_s": 86400}}


def several(client, name, users, n=3, **fields):
    """{user: answers}, one after the other."""
    return {u: [client.select(u, tenant=name, **fields) for _ in range(n)] for u in users}


def test_an_arm_stays_its_users_and_keeps_the_propensity_of_its_draw(api, name):
    configure(api, name, holdout={"share": 0.5, "baseline": {"rule": "uniform"}}, **STICKY)
    api.put_arms(name, list("abcd"))
    answers = several(api, name, [f"u{i}" for i in range(20)])
    firsts = collections.Counter(a[0].get("route") for a in answers.values())
    assert set(firsts) == {None, "holdout"}
    for first, *others in answers.values():
        assert {(a["arm"], a["propensity"], a["route"]) for a in others} == {(first["arm"], first["propensity"], "sticky")}
        assert first["propensity"] == 0.25 or first.get("route") is None
    lines = {e["decision"]: e for e in api.events(name) if e["type"] == "decided"}
    for first, *others in answers.values():
        assert "assigned_until" in lines[first["decision"]] and not any("assigned_until" in lines[a["decision"]] for a in others)
    d = api.select("u0", explain=True, top=3, tenant=name)
    assert d["route"] == "sticky" and d["arm"] == answers["u0"][0]["arm"] == d["ranking"][0]["arm"]
    assert [r["propensity"] for r in d["ranking"]] == [d["propensity"], 0, 0, 0]


def test_an_arm_that_may_not_be_shown_gives_way_to_a_draw_that_sticks(api, name):
    configure(api, name, **STICKY)
    api.put_arms(name, list("abc"))
    arm = api.select("u", tenant=name)["arm"]
    assert api.select("u", exclude=[arm], dry_run=True, tenant=name)["arm"] != arm
    assert api.select("u", tenant=name)["arm"] == arm  # a dry run assigns nothing
    patch(api, name, stop=[arm])
    other = api.select("u", tenant=name)
    assert other["arm"] != arm and "route" not in other
    patch(api, name, start=[arm])
    assert (api.select("u", tenant=name)["arm"], api.select("u", tenant=name)["route"]) == (other["arm"], "sticky")


def test_what_is_over_is_drawn_anew(api, name):
    configure(api, name, sticky={"ttl_s": 0.001})
    api.put_arms(name, list("abc"))
    for _ in range(4):
        assert "route" not in api.select("u", tenant=name)
        time.sleep(0.01)
    configure(api, name)  # settings that say nothing of it
    api.select("u", tenant=name)
    assert [("assigned_until" in e) for e in api.events(name) if e["type"] == "decided"] == [True] * 4 + [False]


def test_a_stop_of_the_tenant_leaves_users_the_arms_they_had(api, name):
    baseline = {"holdout": {"share": 0, "baseline": {"arm": "a"}}}
    configure(api, name, **baseline, **STICKY)
    api.put_arms(name, list("abc"))
    had = {u: a[0]["arm"] for u, a in several(api, name, [f"u{i}" for i in range(8)], 1).items()}
    configure(api, name, **baseline, **STICKY, stopped=True)
    assert {a[0]["arm"] for a in several(api, name, had, 1).values()} == {"a"}
    configure(api, name, **baseline, **STICKY)
    assert {u: (a[0]["arm"], a[0]["route"]) for u, a in several(api, name, had, 1).items()} == {u: (arm, "sticky") for u, arm in had.items()}


def test_a_deferred_decision_assigns_its_arm_when_it_is_made(api, name):
    configure(api, name, **STICKY)
    api.put_arms(name, list("abc"))
    d = api.select("u", defer=True, tenant=name)
    assert api.select("u", tenant=name) | {"decision": 0, "ranking": 0, "model": 0} == {"arm": d["arm"], "propensity": d["propensity"], "route": "sticky", "decision": 0, "ranking": 0, "model": 0}


ROUTED = {"holdout": {"share": 0.4, "baseline": {"rule": "uniform"}, "salt": "s"}, **STICKY}
USERS = [f"u{i}" for i in range(12)]


def routed_traffic(client, name, first=0, n=30):
    configure(client, name, **ROUTED) if first == 0 else None
    if first == 0:
        client.put_arms(name, [{"id": i, **({"eligibility": {"allow": {"c": ["de", "at"]}}} if i == "b" else {}), **({"stopped": True} if i == "d" else {})} for i in "abcd"])
    for i in range(first, first + n):
        client.select(USERS[i % 12], attributes={"c": "de"}, decision=f"d{i}", tenant=name)
        if i % 3:
            client.reward(f"d{i}", i % 2, tenant=name)


def stuck(client, name):
    return {u: client.select(u, attributes={"c": "de"}, dry_run=True, tenant=name)["arm"] for u in USERS}


@pytest.mark.parametrize("args", [[], ["--snapshot-events", "7"]], ids=" ".join)
def test_arms_stick_over_kills_snapshots_and_compaction(boot, args):
    server = boot(*args)
    client = Client(server)
    routed_traffic(client, "t")
    had, digest, arms = stuck(client, "t"), client.digest("t"), listed(client, "t")
    for _ in range(2):
        server.kill()
        server.start()
        assert stuck(client, "t") == had and client.digest("t") == digest and listed(client, "t") == arms
        assert client.verify("t")["equal"]
    client.call("POST", "/tenants/t/compact", {"keep_events": 5})
    assert stuck(client, "t") == had
    assert any(e.get("part") == "assigned" for e in client.events("t"))
    assert client.verify("t")["equal"]
    server.restart()
    assert stuck(client, "t") == had
    routed_traffic(client, "t", 30)
    assert client.verify("t")["equal"]


def test_arms_stick_in_a_copy_and_are_forgotten_with_their_user(api, name):
    routed_traffic(api, name)
    had, digest = stuck(api, name), api.digest(name)
    exported = api.call("GET", f"/tenants/{name}/export")
    api.call("POST", f"/tenants/{name}-copy/import", raw=exported.text, kind="application/x-ndjson", expect=(200, 201))
    assert stuck(api, f"{name}-copy") == had and api.digest(f"{name}-copy") == digest
    for is_compacted in (False, True):
        if is_compacted:
            api.call("POST", f"/tenants/{name}/compact", {"keep_events": 5})
        user = USERS[is_compacted]
        api.call("DELETE", f"/tenants/{name}/users/{user}")
        answer = api.select(user, attributes={"c": "de"}, dry_run=True, tenant=name)
        assert answer.get("route") in (None, "holdout")
        assert {u: a for u, a in stuck(api, name).items() if u not in USERS[:2]} == {u: a for u, a in had.items() if u not in USERS[:2]}
        assert api.verify(name)["equal"]


# --- what is counted ---------------------------------------------------------------------------------------------------

def test_rewards_are_counted_by_the_route_that_had_drawn_the_arm(boot):
    server = boot()
    client = Client(server)
    configure(client, "t", holdout={"share": 0.5, "baseline": {"rule": "uniform"}}, **STICKY)
    client.put_arms("t", list("abc"))
    told = {"policy": [], "holdout": [], "stopped": []}
    repeats = collections.Counter()
    for i in range(60):
        user = f"u{i % 20}"
        side = "holdout" if place("", user) < 0.5 else "policy"
        d = client.select(user, tenant="t", **({"top": 2} if i % 4 == 0 else {}))
        repeats[side] += d.get("route") == "sticky"
        if i % 3:
            told[side].append((i % 7) / 3 - 1)
            client.reward(d["decision"], told[side][-1], tenant="t")
        if i % 4 == 0:  # the second slot counts for no route
            client.reward(d["decision"], 100, arm=d["ranking"][1]["arm"], tenant="t")
    configure(client, "t", holdout={"share": 0, "baseline": {"arm": "a"}}, stopped=True)
    client.reward(client.select("u1", tenant="t")["decision"], 5, tenant="t")
    told["stopped"].append(5)
    for restarted in range(2):
        if restarted:
            server.kill()
            server.start()
        routes = client.stats("t")["routes"]
        for side, rewards in told.items():
            got, n = routes[side], len(rewards)
            assert (got["rewards"], got["repeated"]) == (n, repeats[side])
            mean = sum(rewards) / n
            assert abs(got["mean_reward"] - mean) < 1e-12
            if n < 2:
                assert got["lower"] is None is got["upper"]
                continue
            half = 1.959963984540054 * (sum((y - mean) ** 2 for y in rewards) / (n - 1) / n) ** 0.5
            assert abs(got["lower"] - (mean - half)) < 1e-9 and abs(got["upper"] - (mean + half)) < 1e-9
        assert sum(r["decisions"] for r in routes.values()) == 61 == client.stats("t")["decisions"]
    text = client.call("GET", "/metrics").text
    for side in told:
        assert f'laplaced_route_rewards_total{{tenant="t",route="{side}"}} {len(told[side])}\n' in text
        assert f'laplaced_route_repeats_total{{tenant="t",route="{side}"}} {repeats[side]}\n' in text


def test_corrections_and_default_rewards_count_by_route(api, name):
    api.call("PUT", f"/tenants/{name}", {"algorithm": "ucb", "aggregation": "last", "default_reward": 0.25, "reward_window_s": 0.2,
                                         "routing": {"holdout": {"share": 1, "baseline": {"rule": "uniform"}}}}, expect=201)
    api.put_arms(name, ["a", "b"])
    first, _ = api.select("u", decision=f"{name}1", tenant=name), api.select("v", decision=f"{name}2", tenant=name)
    for reward in (3.0, -1.0):
        api.reward(first["decision"], reward, tenant=name)
    deadline = time.monotonic() + 30
    while api.stats(name)["expired"] < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    got = api.stats(name)["routes"]["holdout"]
    assert got["rewards"] == 2 and abs(got["mean_reward"] + 0.375) < 1e-12
    half = 1.959963984540054 * (2 * 0.625**2 / 2) ** 0.5
    assert abs(got["upper"] - got["mean_reward"] - half) < 1e-9


# --- laplacectl ------------------------------------------------------------------------------------------------------------

def test_laplacectl_stops_and_starts_arms(boot):
    server = boot()
    client = Client(server)
    client.put_arms("default", ["a", "b"])
    run_ctl(server, "arms", "stop", "a", "--tenant", "default")
    assert shown(client, "default") == {"b"}
    run_ctl(server, "arms", "start", "a", "--tenant", "default")
    assert shown(client, "default") == {"a", "b"}
    assert "not in the catalogue" in run_ctl(server, "arms", "stop", "nope", "--tenant", "default", expect=1)


def test_evaluations_weigh_draws_and_count_what_they_pass_over(api, name, tmp_path):
    """Uniform draws, a fixed baseline for a share, and repeats: only what was drawn stands for itself."""
    api.call("PUT", f"/tenants/{name}", {"algorithm": "random", "routing": {"holdout": {"share": 0.3, "baseline": {"arm": "a"}}, **STICKY}}, expect=201)
    api.put_arms(name, ["a", "b", {"id": "c", "stopped": True}])
    routes = collections.Counter()
    for i in range(120):
        d = api.select(f"u{i % 60}", tenant=name)
        routes[d.get("route")] += 1
        api.reward(d["decision"], 1.0 if d["arm"] == "b" else 0.0, tenant=name)
    log = tmp_path / "log.ndjson"
    log.write_text(api.call("GET", f"/tenants/{name}/events").text)
    reports = {}
    for more in ((), ("--all-routes",)):
        reports[more] = json.loads(run_ctl(api.server, "evaluate", "--format", "ndjson", "--policy", "uniform", "--json", *more, str(log)))
    drawn, everything = reports[()], reports["--all-routes",]
    assert drawn["skipped"] == {"faulty": 0, "repeats of an arm that stuck to its user": routes["sticky"], "decisions of a baseline that is one arm": routes["holdout"]}
    assert drawn["n"] == routes[None] and everything["n"] == 120 and drawn["arms"] >= 2
    firsts = [e for e in api.events(name) if e["type"] == "decided" and "route" not in e]
    share = sum(e["arm"] == "b" for e in firsts) / len(firsts)
    assert abs(drawn["ips"]["estimate"] - share) < 1e-9  # uniform over two candidates is what was logged


def test_evaluations_know_which_arms_were_eligible(api, name, tmp_path):
    """Where the lines keep the candidates: uniform over those that were, and not over the catalogue."""
    api.call("PUT", f"/tenants/{name}", {"algorithm": "random", "log_candidates": True}, expect=201)
    api.put_arms(name, ["a", {"id": "b", "eligibility": {"allow": {"plan": ["gold"]}}}, {"id": "c", "eligibility": {"allow": {"plan": ["gold"]}}}, "d"])
    patch(api, name, stop=["d"])
    told = []
    for i in range(60):
        d = api.select(f"u{i}", attributes={"plan": "gold" if i % 3 else "free"}, tenant=name)
        told.append(1.0 if d["arm"] == "a" else 0.5)
        api.reward(d["decision"], told[-1], tenant=name)
    log = tmp_path / "log.ndjson"
    log.write_text(api.call("GET", f"/tenants/{name}/events").text)
    report = json.loads(run_ctl(api.server, "evaluate", "--format", "ndjson", "--policy", "uniform", "--json", str(log)))
    assert report["n"] == 60 and abs(report["ips"]["estimate"] - sum(told) / 60) < 1e-9  # every weight is 1
    assert report["weights"]["max"] == pytest.approx(1, abs=1e-12)


def test_a_promotion_keeps_the_routing(api, name):
    config = {"algorithm": "ucb", "challengers": {"other": {"algorithm": "ts"}}, "routing": {"holdout": {"share": 1, "baseline": {"arm": "a"}}}}
    routing = api.call("PUT", f"/tenants/{name}", config, expect=201).json["configuration"]["routing"]
    api.put_arms(name, ["a", "b"])
    after = api.call("POST", f"/tenants/{name}/promote", {"challenger": "other"}).json["configuration"]
    assert after["rule"]["type"] == "thompson" and after["routing"] == routing
    assert api.select("u", tenant=name)["route"] == "holdout"
