"""/reward: once, again, other, late, slots, arrays, aggregation."""
import json

import pytest


@pytest.fixture
def tenant(api, name):
    api.put_tenant(name, algorithm="ucb")
    return name


def decide(api, tenant, **fields):
    return api.select("u", candidates=["a", "b", "c"], tenant=tenant, **fields)["decision"]


def test_a_reward_is_applied_once(api, tenant):
    d = decide(api, tenant)
    assert api.reward(d, 1.0, tenant=tenant) == {"applied": True}
    digest = api.digest(tenant)
    assert api.reward(d, 1.0, tenant=tenant) == {"applied": False, "duplicate": True}
    api.reward(d, 0.5, tenant=tenant, expect=409)
    assert api.digest(tenant) == digest
    stats = api.stats(tenant)
    assert (stats["rewards"], stats["pending"], stats["mean_reward"]) == (1, 0, 1.0)


def test_an_unknown_decision_answers_404(api, tenant):
    api.reward("never", 1.0, tenant=tenant, expect=404)
    d = decide(api, tenant)
    api.reward(d, 1.0, tenant="default", expect=404)
    api.reward(d, 1.0, arm="not-shown", tenant=tenant, expect=404)


def test_each_slot_of_a_slate_earns_its_own(api, tenant):
    answer = api.select("u", candidates=["a", "b", "c"], top=3, tenant=tenant)
    d = answer["decision"]
    assert api.reward(d, 0.1, tenant=tenant) == {"applied": True}
    for r, value in zip(answer["ranking"][1:], (0.2, 0.3)):
        assert api.reward(d, value, arm=r["arm"], tenant=tenant) == {"applied": True}
        assert api.reward(d, value, arm=r["arm"], tenant=tenant)["duplicate"]
    assert api.reward(d, 0.1, arm=answer["arm"], tenant=tenant)["duplicate"]
    api.reward(d, 0.9, arm=answer["ranking"][1]["arm"], tenant=tenant, expect=409)
    assert api.model(tenant)["events"] == 3


def test_an_array_is_answered_in_place(api, tenant):
    d = [decide(api, tenant) for _ in range(4)]
    api.reward(d[1], 0.5, tenant=tenant)
    body = [{"decision": d[0], "reward": 1}, {"decision": d[1], "reward": 0.5}, {"decision": "ghost", "reward": 1},
            {"decision": d[2], "reward": 0}, {"decision": d[1], "reward": 9}, {"decision": d[3], "reward": 2},
            {"decision": d[3], "reward": 2}]
    got = api.call("POST", "/reward", body, tenant=tenant).json
    assert got[0] == got[3] == got[5] == {"applied": True}
    assert got[1] == got[6] == {"applied": False, "duplicate": True}
    assert (got[2]["status"], got[4]["status"]) == (404, 409)
    assert api.model(tenant)["events"] == 4


def test_a_thousand_rewards_in_one_call(api, tenant):
    ids = [decide(api, tenant) for _ in range(250)]
    body = [{"decision": i, "reward": 0.5} for i in ids] * 4
    got = api.call("POST", "/reward", body, tenant=tenant).json
    assert got == [{"applied": True}] * 250 + [{"applied": False, "duplicate": True}] * 750
    api.call("POST", "/reward", body + body[:1], tenant=tenant, expect=400)


def test_a_malformed_array_applies_nothing(api, tenant):
    d = decide(api, tenant)
    digest = api.digest(tenant)
    answer = api.call("POST", "/reward", [{"decision": d, "reward": 1}, {"decision": d, "reward": "x"}], tenant=tenant, expect=400)
    assert answer.pointers == ["/1/reward"] and api.digest(tenant) == digest


def means(api, tenant):
    ranking = api.select("u", candidates=["a", "b", "c"], explain=True, dry_run=True, tenant=tenant)["ranking"]
    return {r["arm"]: pytest.approx((r["mean"], r["sd"]), rel=1e-9, abs=1e-12) for r in ranking}


def values(api, tenant):
    ranking = api.select("u", candidates=["a", "b", "c"], explain=True, dry_run=True, tenant=tenant)["ranking"]
    return {r["arm"]: (r["mean"], r["sd"]) for r in ranking}


@pytest.mark.parametrize("preset", ["ucb", "laplaced", "laplaced-kors"])
@pytest.mark.parametrize("aggregation, told, learned", [
    ("sum", [0.5, 0.25, 1.0], 1.75), ("last", [0.5, 0.25, 1.0], 1.0), ("last", [3.0, -2.0], -2.0), ("sum", [1.0, 1.0], 2.0)])
def test_aggregates_end_where_one_final_value_would(api, name, preset, aggregation, told, learned):
    api.put_tenant(name + ".agg", algorithm=preset, aggregation=aggregation)
    api.put_tenant(name + ".one", algorithm=preset)
    for tenant, rewards in ((name + ".agg", told), (name + ".one", [learned])):
        for k in range(6):
            api.select("u", candidates=["a", "b", "c"], decision=f"d{k}", tenant=tenant)
        api.observe("u", "b", 0.4, tenant=tenant)
        for value in rewards:
            assert api.reward("d2", value, tenant=tenant)["applied"] or aggregation == "last"
    got, want = values(api, name + ".agg"), means(api, name + ".one")
    assert got == want and api.model(name + ".agg")["events"] == 2


def test_last_takes_the_same_value_as_a_duplicate(api, name):
    api.put_tenant(name, algorithm="ucb", aggregation="last")
    d = decide(api, name)
    assert api.reward(d, 1, tenant=name)["applied"]
    assert api.reward(d, 1, tenant=name) == {"applied": False, "duplicate": True}
    assert api.reward(d, 2, tenant=name)["applied"] and api.reward(d, 1, tenant=name)["applied"]


def test_rewards_read_back_bit_for_bit(api, tenant):
    numbers = [0.1 + 0.2, 5e-324, 1.7976931348623157e308 / 1e300, -0.0, 1 / 3, 123456789.123456789]
    for value in numbers:
        api.observe("u", "a", value, tenant=tenant)
    lines = api.call("GET", f"/tenants/{tenant}/events").text.splitlines()
    told = [json.loads(line, parse_int=float) for line in lines]  # -0 is a double, too
    assert [e["reward"].hex() for e in told if e["type"] == "observed"] == [v.hex() for v in numbers]
