"""/activate: decisions that may never be shown."""
import pytest


@pytest.fixture
def tenant(api, name):
    api.put_tenant(name, algorithm="ucb")
    return name


def defer(api, tenant):
    return api.select("u", candidates=["a", "b"], defer=True, tenant=tenant)["decision"]


def test_a_deferred_decision_learns_only_when_shown(api, tenant):
    d = defer(api, tenant)
    api.reward(d, 1.0, tenant=tenant, expect=409)
    assert api.model(tenant)["events"] == 0
    assert api.call("POST", "/activate", {"decision": d}, tenant=tenant).json == {"activated": True}
    assert api.reward(d, 1.0, tenant=tenant) == {"applied": True}
    assert api.model(tenant)["events"] == 1


def test_activating_twice_is_a_duplicate(api, tenant):
    d = defer(api, tenant)
    for expected in ({"activated": True}, *[{"activated": False, "duplicate": True}] * 2):
        assert api.call("POST", "/activate", {"decision": d}, tenant=tenant).json == expected
    api.reward(d, 0.5, tenant=tenant)
    assert api.call("POST", "/activate", {"decision": d}, tenant=tenant).json["duplicate"]
    assert [e["type"] for e in api.events(tenant)].count("activated") == 1


def test_a_decision_that_was_not_deferred_is_active(api, tenant):
    d = api.select("u", candidates=["a"], tenant=tenant)["decision"]
    assert api.call("POST", "/activate", {"decision": d}, tenant=tenant).json == {"activated": False, "duplicate": True}


def test_an_unknown_decision_answers_404(api, tenant):
    api.call("POST", "/activate", {"decision": "never"}, tenant=tenant, expect=404)


def test_a_deferred_decision_says_so_in_the_log(api, tenant):
    defer(api, tenant)
    api.select("u", candidates=["a"], tenant=tenant)
    assert [e.get("deferred") for e in api.events(tenant) if e["type"] == "decided"] == [True, None]
