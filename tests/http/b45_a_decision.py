"""GET /tenants/{t}/decisions/{id}: one decision, as the lines of the log have it."""
import time
import urllib.parse

import pytest


def story(api, name, decision, expect=200):
    return api.call("GET", f"/tenants/{name}/decisions/{urllib.parse.quote(decision, safe='')}", expect=expect).json


def lines(api, name, decision):
    return [e for e in api.events(name) if e.get("decision") == decision and e["type"] != "observed"]


def of_type(found, *types):
    return [e for e in found if e["type"] in types]


def first(found, *types):
    return (of_type(found, *types) or [None])[0]


def check(api, name, decision, state, version):
    got, log = story(api, name, decision), lines(api, name, decision)
    made = first(log, "decided", "summary")
    assert (got["decision"], got["state"], got["version"]) == (decision, state, version)
    assert (got["user"], got["arm"]) == ((made["user"], made["arm"]) if made else (None, None))
    assert (got["decided"], got["summary"]) == (first(log, "decided"), first(log, "summary"))
    assert (got["activated"], got["expired"]) == (first(log, "activated"), first(log, "expired"))
    assert got["rewards"] == of_type(log, "rewarded", "late")
    return got


def wait_until_expired(api, name, n):
    end = time.monotonic() + 10
    while api.stats(name)["expired"] < n and time.monotonic() < end:
        time.sleep(0.05)


def test_from_deferred_to_rewarded(api, name):
    api.put_tenant(name, algorithm="lin-ucb", context_dim=2, log_candidates=True)
    answer = api.select("u", candidates=["a", "b"], context=[1, 0.5], decision="d1", defer=True, tenant=name)
    assert check(api, name, "d1", "deferred", 1)["answer"] == answer
    api.call("POST", "/activate", {"decision": "d1"}, tenant=name)
    assert check(api, name, "d1", "open", 1)["decided"]["context"] == [1, 0.5]
    api.reward("d1", 0.25, tenant=name)
    got = check(api, name, "d1", "rewarded", 1)
    assert [r["reward"] for r in got["rewards"]] == [0.25] and got["decided"]["among"] == ["a", "b"]


def test_corrections_stand_behind_what_they_correct_and_late_ones_are_told(api, name):
    api.put_tenant(name, algorithm="ucb", aggregation="last", reward_window_s=0.6, default_reward=None)
    d = api.select("u", candidates=["a", "b"], top=2, tenant=name)["decision"]
    for r in (1, 2):
        api.reward(d, r, tenant=name)
    assert check(api, name, d, "open", 1)["answer"] is None
    wait_until_expired(api, name, 1)
    api.reward(d, 3, tenant=name, expect=410)
    assert [(r["type"], r["reward"]) for r in check(api, name, d, "expired", 1)["rewards"]] == [("rewarded", 1), ("rewarded", 2), ("late", 3)]


def test_the_version_is_that_of_the_configuration_at_the_time(api, name):
    api.put_tenant(name, algorithm="ucb")
    made = []
    for version in (1, 2, 3):
        made.append(api.select("u", candidates=["a"], tenant=name)["decision"])
        api.call("PATCH", f"/tenants/{name}", {"reward_window_s": 1000 + version})
    for version, d in enumerate(made, 1):
        check(api, name, d, "open", version)


def test_what_a_compaction_leaves(api, name):
    api.put_tenant(name, algorithm="ucb", reward_window_s=1.5, default_reward=None)
    for d in ("closed", "open", "late"):
        api.select("u", candidates=["a"], decision=d, tenant=name)
    api.reward("closed", 1, tenant=name)
    wait_until_expired(api, name, 2)
    api.put_tenant(name, algorithm="ucb", reward_window_s=3600, default_reward=None, expect=200)
    api.reward("late", 1, tenant=name, expect=410)
    answer = api.select("v", candidates=["a"], decision="young", tenant=name)
    api.call("POST", f"/tenants/{name}/compact", {"keep_events": 0})
    api.select("w", candidates=["a"], decision="after", tenant=name)
    for gone in ("closed", "open", "late"):
        assert story(api, name, gone, expect=404)["type"] == "/problems/no-decision"
    got = check(api, name, "young", "open", None)
    assert got["decided"] is None and got["summary"]["user"] == "v" and got["answer"] == answer
    check(api, name, "after", "open", 2)


def test_a_late_reward_may_outlive_its_decision(api, name):
    api.put_tenant(name, algorithm="ucb", reward_window_s=0.5, default_reward=None)
    api.select("u", candidates=["a"], decision="d", tenant=name)
    wait_until_expired(api, name, 1)
    for _ in range(30):
        api.observe("u", "a", 1, tenant=name)
    api.reward("d", 1, tenant=name, expect=410)
    api.call("POST", f"/tenants/{name}/compact", {"keep_events": 1})
    got = check(api, name, "d", "expired", None)
    assert got["user"] is None and [r["type"] for r in got["rewards"]] == ["late"]


def test_nothing_is_left_of_an_erased_user(api, name):
    api.put_tenant(name, algorithm="ucb")
    for user in ("gone", "here"):
        api.select(user, candidates=["a"], decision=f"d-{user}", tenant=name)
        api.reward(f"d-{user}", 1, tenant=name)
    api.call("DELETE", f"/tenants/{name}/users/gone")
    assert story(api, name, "d-gone", expect=404)["type"] == "/problems/no-decision"
    check(api, name, "d-here", "rewarded", 1)


@pytest.mark.parametrize("decision", ["a/b", "50%", "ä ö", "d?x=1", "%2F"])
def test_any_id_can_be_asked_for(api, name, decision):
    api.put_tenant(name, algorithm="ucb")
    api.select("u", candidates=["a"], decision=decision, tenant=name)
    check(api, name, decision, "open", 1)


def test_an_observations_id_is_no_decisions(api, name):
    api.put_tenant(name, algorithm="ucb")
    api.observe("u", "a", 1, id="o1", tenant=name)
    assert story(api, name, "o1", expect=404)["type"] == "/problems/no-decision"
    assert story(api, name, "x" * 300, expect=404)["type"] == "/problems/no-decision"
