"""What a tenant learns, and whether it does: the first candidate as the baseline, an apprentice, and logging only."""
import pytest

from harness import Client, Server, run_ctl

PLAIN = {"algorithm": "ucb", "tune": False, "confidence": {"beta": 1.0}, "rule": {"epsilon": 0.2}}
ARMS = ["a", "b", "c"]


def patch(api, name, expect=200, **body):
    return api.call("PATCH", f"/tenants/{name}", body, expect=expect)


def decide(api, name, decision, arm, **fields):
    return api.select("u", candidates=[arm], decision=decision, tenant=name, **fields)


def means(api, name, arms=ARMS, users=("u",)):
    told = {}
    for user in users:
        for r in api.select(user, candidates=list(arms), explain=True, dry_run=True, tenant=name)["ranking"]:
            told[user, r["arm"]] = (r["mean"], r["sd"])
    return told


def same_model(api, one, other):
    left, right = means(api, one), means(api, other)
    assert left.keys() == right.keys()
    for key in left:
        assert left[key] == pytest.approx(right[key], abs=1e-12), key


# --- the first candidate ------------------------------------------------------------------------------------------

def test_the_first_candidate_that_may_be_shown_is_the_baseline(api, name):
    api.put_tenant(name, **PLAIN, routing={"stopped": True, "holdout": {"baseline": {"rule": "first"}}})
    assert api.call("GET", f"/tenants/{name}").json["configuration"]["routing"]["holdout"]["baseline"] == {"rule": "first"}
    for order in (["c", "a", "b"], ["b", "c"]):
        told = api.select("u", candidates=order, tenant=name)
        assert (told["arm"], told["propensity"], told["route"]) == (order[0], 1, "stopped")
    assert api.select("u", candidates=["c", "a"], exclude=["c"], tenant=name)["arm"] == "a"
    api.put_arms(name, [{"id": "x", "eligibility": {"allow": {"plan": ["gold"]}}}, "y", {"id": "z", "stopped": True}])
    assert api.select("u", tenant=name)["arm"] == "y"
    assert api.select("u", attributes={"plan": "gold"}, tenant=name)["arm"] == "x"
    assert api.select("u", candidates=["z", "b"], tenant=name)["arm"] == "b"


def test_a_holdout_may_have_the_first_candidate_and_nothing_of_it_sticks(api, name):
    api.put_tenant(name, **PLAIN, routing={"holdout": {"share": 0.5, "baseline": {"rule": "first"}}, "sticky": {"ttl_s": 60}})
    for i in range(40):
        told = [api.select(f"u{i}", candidates=order, tenant=name) for order in (["a", "b", "c"], ["c", "b", "a"])]
        if told[0].get("route") == "holdout":
            assert [t["arm"] for t in told] == ["a", "c"] and told[1]["route"] == "holdout"
        else:
            assert told[1]["route"] == "sticky" and told[1]["arm"] == told[0]["arm"]
    lines = [e for e in api.events(name) if e["type"] == "decided" and e.get("route") == "holdout"]
    assert 10 < len(lines) < 60 and not any("assigned_until" in e for e in lines)


# --- the apprentice ------------------------------------------------------------------------------------------------

def apprentice(**more):
    return {**PLAIN, "routing": {"stopped": True, "apprentice": True, "holdout": {"baseline": {"rule": "first"}}}, **more}


def test_an_apprentice_shows_the_baseline_and_tells_what_the_policy_would_have_done(api, name):
    api.put_tenant(name, **apprentice())
    policy = f"{name}p"
    api.put_tenant(policy, **PLAIN)
    expected = []
    for i, (arm, reward) in enumerate([("a", 0.1), ("b", 0.9), ("c", 0.2), ("b", 1), ("a", 0)]):
        order = [arm] + [x for x in ARMS if x != arm]
        told = api.select("u", candidates=order, decision=f"d{i}", tenant=name, explain=True)
        odds = {r["arm"]: r["propensity"] for r in api.select("u", candidates=order, explain=True, dry_run=True, tenant=policy)["ranking"]}
        assert (told["arm"], told["propensity"], told["route"]) == (arm, 1, "stopped")
        assert {r["arm"]: r["propensity"] for r in told["ranking"]} == {x: float(x == arm) for x in order}
        expected.append(odds[arm])
        api.reward(f"d{i}", reward, tenant=name)
        api.observe("u", arm, reward, tenant=policy)
    lines = [e for e in api.events(name) if e["type"] == "decided"]
    assert [e["match"] for e in lines] == pytest.approx(expected, abs=1e-12) and len(set(expected)) > 1
    assert api.stats(name)["match"] == {"decisions": 5, "share": pytest.approx(sum(expected) / 5)}
    patch(api, name, routing={"stopped": False})
    same_model(api, name, policy)
    assert "match" not in api.select("u", candidates=ARMS, decision="free", tenant=name)
    assert "match" not in api.events(name)[-1] and api.stats(name)["match"]["decisions"] == 5
    assert "match" not in api.stats(policy)


def test_what_an_apprentice_agreed_on_outlives_kills_copies_and_compaction(tmp_path):
    server = Server(tmp_path).start()
    try:
        api = Client(server)
        api.put_tenant("t", **apprentice(rule={"type": "thompson"}))
        for i in range(30):
            api.select(f"u{i % 3}", candidates=ARMS, decision=f"d{i}", tenant="t")
            api.reward(f"d{i}", i % 2, tenant="t")
        told, digest = api.stats("t")["match"], api.digest("t")
        server.kill()
        server.start()
        assert api.stats("t")["match"] == told and api.digest("t") == digest
        api.verify("t")
        api.call("POST", "/tenants/t/compact", {"keep_events": 5})
        assert api.stats("t")["match"] == told
        server.restart()
        assert api.stats("t")["match"] == told
        api.verify("t")
    finally:
        server.close()


def test_a_challenger_tells_how_often_it_would_have_shown_the_same(api, name):
    api.put_tenant(name, **PLAIN, log_candidates=True, routing={"stopped": True, "holdout": {"baseline": {"rule": "first"}}},
                   challengers={"alike": {"algorithm": "random"}})
    for i in range(20):
        api.select("u", candidates=ARMS[:2 + i % 2], decision=f"d{i}", tenant=name)
    for _ in range(200):
        told = api.call("GET", f"/tenants/{name}/challengers").json["challengers"][0]
        if told["lag"] == 0:
            break
    assert told["match"] == {"decisions": 20, "share": pytest.approx((10 / 2 + 10 / 3) / 20)}
    assert told["decisions"] == 0 and told["open"] == 0  # no draw of the policy's


# --- logging only -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("aggregation", ["first", "sum", "last"])
def test_without_learning_all_is_counted_and_the_model_stays(api, name, aggregation):
    api.put_tenant(name, **PLAIN, aggregation=aggregation, reward_window_s=3600)
    decide(api, name, "d0", "a")
    api.reward("d0", 1, tenant=name)
    before = means(api, name)
    assert "learn" not in api.call("GET", f"/tenants/{name}").json["configuration"]
    assert patch(api, name, learn=False).json["configuration"]["learn"] is False
    for i, arm in enumerate(ARMS):
        decide(api, name, f"off{i}", arm)
        api.reward(f"off{i}", 0.5, tenant=name)
        api.observe("u", arm, 0.25, tenant=name)
    told = api.stats(name)
    assert (told["decisions"], told["rewards"], told["observations"]) == (4, 7, 3)
    assert told["mean_reward"] == pytest.approx((1 + 3 * 0.75) / 7)
    assert {a["arm"]: (a["rewards"], a["mean_reward"]) for a in told["arms"]}["b"] == (2, pytest.approx(0.375))
    assert means(api, name) == before
    api.verify(name)
    patch(api, name, learn=True)
    api.observe("u", "b", 1, tenant=name)
    twin = f"{name}t"
    api.put_tenant(twin, **PLAIN)
    api.observe("u", "a", 1, tenant=twin)
    api.observe("u", "b", 1, tenant=twin)
    same_model(api, name, twin)


@pytest.mark.parametrize("aggregation", ["sum", "last"])
def test_corrections_across_the_switch_leave_the_reward_in_force(api, name, aggregation):
    api.put_tenant(name, **PLAIN, aggregation=aggregation)
    for d in ("kept", "moved", "late", "never"):
        decide(api, name, d, {"kept": "a", "moved": "b", "late": "c", "never": "c"}[d])
    api.reward("kept", 1, tenant=name)
    api.reward("moved", 1, tenant=name)
    patch(api, name, learn=False)
    api.reward("moved", 0.5, tenant=name)  # not learned: the model goes on with 1
    api.reward("late", 0.25, tenant=name)
    api.reward("never", 1, tenant=name)
    twin = f"{name}t"
    api.put_tenant(twin, **PLAIN)
    for arm in ("a", "b"):
        api.observe("u", arm, 1, tenant=twin)
    same_model(api, name, twin)
    api.verify(name)
    patch(api, name, learn=True)
    api.reward("moved", 0.125, tenant=name)
    api.reward("late", 0.5, tenant=name)
    other = f"{name}o"
    api.put_tenant(other, **PLAIN)
    api.observe("u", "a", 1, tenant=other)
    api.observe("u", "b", 1.625 if aggregation == "sum" else 0.125, tenant=other)
    api.observe("u", "c", 0.75 if aggregation == "sum" else 0.5, tenant=other)
    same_model(api, name, other)
    assert api.stats(name)["rewards"] == 4
    api.verify(name)


def test_a_window_that_closes_without_learning_counts_the_default_reward(api, name):
    api.put_tenant(name, **PLAIN, learn=False, reward_window_s=0.05, default_reward=0.5)
    decide(api, name, "d", "a")
    for _ in range(300):
        if api.stats(name)["expired"] == 1:
            break
    told = api.stats(name)
    assert (told["rewards"], told["mean_reward"]) == (1, 0.5)
    assert [e["reward"] for e in api.events(name) if e["type"] == "expired"] == [0.5]
    assert means(api, name)["u", "a"][0] == 0


@pytest.mark.parametrize("aggregation", ["sum", "last"])
def test_what_the_model_lacks_stands_in_summaries_and_snapshots(tmp_path, aggregation):
    server = Server(tmp_path).start()
    try:
        api = Client(server)
        api.put_tenant("t", **PLAIN, aggregation=aggregation)
        for i in range(12):
            decide(api, "t", f"d{i}", ARMS[i % 3])
            api.reward(f"d{i}", 1, tenant="t")
        decide(api, "t", "new", "a")
        patch(api, "t", learn=False)
        api.reward("d0", 0.5, tenant="t")
        api.reward("new", 0.5, tenant="t")
        before, digest = means(api, "t"), api.digest("t")
        server.restart()  # by the snapshot
        assert means(api, "t") == before and api.digest("t") == digest
        api.verify("t")
        api.call("POST", "/tenants/t/compact", {"keep_events": 0})
        (slots,) = [e["slots"] for e in api.events("t") if e.get("part") == "decision" and e["decision"] == "d0"]
        assert slots[0]["model"] == 1 and slots[0]["reward"] == (1.5 if aggregation == "sum" else 0.5)
        (slots,) = [e["slots"] for e in api.events("t") if e.get("part") == "decision" and e["decision"] == "new"]
        assert slots[0]["unlearned"] is True
        server.restart()
        patch(api, "t", learn=True)
        for d in ("d0", "new"):
            api.reward(d, 0.25, tenant="t")
        api.put_tenant("twin", **PLAIN)
        for i in range(1, 12):
            api.observe("u", ARMS[i % 3], 1, tenant="twin")
        api.observe("u", "a", 1.75 if aggregation == "sum" else 0.25, tenant="twin")
        api.observe("u", "a", 0.75 if aggregation == "sum" else 0.25, tenant="twin")
        same_model(api, "t", "twin")
        api.verify("t")
        assert api.stats("t")["rewards"] == 13
    finally:
        server.close()


def test_challengers_learn_nothing_either(api, name):
    api.put_tenant(name, **PLAIN, challengers={"other": {"algorithm": "ts"}})
    api.observe("u", "a", 1, tenant=name)
    patch(api, name, learn=False)
    api.observe("u", "a", 1, tenant=name)
    tip = api.events(name)[-1]["seq"]
    for _ in range(200):
        told = api.call("GET", f"/tenants/{name}/challengers").json["challengers"][0]
        if told["seq"] >= tip:
            break
    assert told["learned"] == 1 and told["stopped"] is None


def test_the_tools_set_modes(server, api, name):
    api.put_tenant(name, **PLAIN)
    run_ctl(server, "tenant", "patch", name, '{"learn": false}')
    assert api.call("GET", f"/tenants/{name}").json["configuration"]["learn"] is False


# --- learning anew -----------------------------------------------------------------------------------------------------

def forget(api, name, expect=200):
    return api.call("DELETE", f"/tenants/{name}/model", expect=expect).json


def test_a_model_that_forgot_is_that_of_a_new_tenant_and_nothing_else_changes(api, name):
    api.put_tenant(name, **PLAIN, aggregation="last")
    api.put_arms(name, ARMS)
    decide(api, name, "told", "a")
    decide(api, name, "open", "b")
    api.reward("told", 1, tenant=name)
    api.observe("u", "c", 0.5, tenant=name)
    before, lines = api.stats(name), api.events(name)
    told = forget(api, name)
    assert told == {"forgotten": True, "seq": lines[-1]["seq"] + 1}
    assert api.events(name)[:-1] == lines
    line = api.events(name)[-1]
    assert {k: line[k] for k in line if k != "at"} == {"seq": told["seq"], "type": "forgotten"}
    after = api.stats(name)
    assert {k: after[k] for k in after if k != "window"} == {k: before[k] for k in before if k != "window"}
    fresh = f"{name}f"
    api.put_tenant(fresh, **PLAIN)
    same_model(api, name, fresh)
    assert api.model(name)["dictionary"] == []
    api.reward("told", 0.25, tenant=name)  # counts, and is not learned
    same_model(api, name, fresh)
    assert api.stats(name)["mean_reward"] == pytest.approx((0.25 + 0.5) / 2)
    api.reward("open", 0.5, tenant=name)  # of a decision of before, and news to the model
    api.observe("u", "b", 0.5, tenant=fresh)
    same_model(api, name, fresh)
    assert api.stats(name)["rewards"] == 3
    api.verify(name)


def test_a_model_that_found_its_scales_finds_them_again(api, name):
    api.put_tenant(name, algorithm="ts")
    for i in range(20):
        api.observe("u", ARMS[i % 3], 100 + i % 4, tenant=name)
    found = [e for e in api.events(name) if e["type"] == "tuned"]
    assert found and api.model(name).get("tunings", True)
    forget(api, name)
    odds = {r["propensity"] for r in api.select("u", candidates=ARMS, explain=True, dry_run=True, tenant=name)["ranking"]}
    assert list(odds) == [pytest.approx(1 / 3)]  # alike, until it has found them
    for i in range(10):
        api.observe("u", ARMS[i % 3], 100 + i % 4, tenant=name)
    assert len([e for e in api.events(name, after=found[-1]["seq"]) if e["type"] == "tuned"]) == 1
    api.verify(name)


def test_forgetting_outlives_kills_compaction_erasure_and_copies(tmp_path, boot):
    server = boot()
    api = Client(server)
    api.put_tenant("t", **PLAIN, aggregation="sum")
    for i in range(30):
        decide(api, "t", f"d{i}", ARMS[i % 3])
        if i % 2:
            api.reward(f"d{i}", i / 30, tenant="t")
    api.observe("gone", "a", 1, tenant="t")
    seq = forget(api, "t")["seq"]
    api.observe("u", "b", 0.75, tenant="t")
    digest = api.digest("t")
    server.kill()
    server.start()
    assert api.digest("t") == digest and api.verify("t")
    copied = api.call("GET", "/tenants/t/export").text
    assert '"type":"forgotten"' in copied
    api.call("POST", "/tenants/copy/import", raw=copied.encode(), kind="application/x-ndjson", expect=201)
    same_model(api, "t", "copy")
    api.call("DELETE", "/tenants/t/users/gone")
    assert api.events("t")[seq - 1]["type"] == "forgotten"
    same_model(api, "t", "copy")
    api.verify("t")
    api.call("POST", "/tenants/t/compact", {"keep_events": 0})
    same_model(api, "t", "copy")
    (slots,) = [e["slots"] for e in api.events("t") if e.get("part") == "decision" and e["decision"] == "d1"]
    assert slots[0]["forgotten"] is True
    server.restart()
    for tenant in ("t", "copy"):
        api.reward("d1", 1, tenant=tenant)
        api.reward("d2", 1, tenant=tenant)
    same_model(api, "t", "copy")
    api.verify("t")


def test_challengers_start_anew_too(api, name):
    api.put_tenant(name, **PLAIN, challengers={"other": {"algorithm": "ts"}})
    for i in range(10):
        api.select("u", candidates=ARMS, decision=f"d{i}", tenant=name)
        api.reward(f"d{i}", 1, tenant=name)
    forget(api, name)
    api.observe("u", "a", 1, tenant=name)
    tip = api.events(name)[-1]["seq"]
    for _ in range(300):
        told = api.call("GET", f"/tenants/{name}/challengers").json["challengers"][0]
        if told["seq"] >= tip:
            break
    assert (told["stopped"], told["learned"], told["decisions"]) == (None, 1, 0)


def test_who_let_a_model_forget_stands_in_its_line(boot, tmp_path):
    (tmp_path / "keys").write_text("correct-horse-battery-staple\n")
    server = boot("--admin-key-file", str(tmp_path / "keys"))
    admin = Client(server, "correct-horse-battery-staple")
    admin.put_tenant("shop", **PLAIN)
    keys = {role: admin.call("POST", "/tenants/shop/keys", {"roles": [role]}, expect=201).json for role in ("decide", "read", "manage")}
    for role in ("decide", "read"):
        forget(Client(server, keys[role]["key"]), "shop", expect=403)
    forget(Client(server, keys["manage"]["key"]), "shop")
    assert admin.events("shop")[-1]["by"] == keys["manage"]["id"]
    forget(admin, "nobody", expect=404)
