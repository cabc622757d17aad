"""GET /route/{tenant}: a decision in headers, and the fallback in place of every refusal."""
import json
import time
import urllib.parse

import pytest

from harness import Client

ARMS = ["a", "b"]


@pytest.fixture
def tenant(api, name):
    api.put_tenant(name, algorithm="random", default_reward=None)
    api.put_arms(name, [{"id": a} for a in ARMS])
    return name


def route(client, tenant, expect=204, headers=None, method="GET", **query):
    return client.call(method, "/route/" + urllib.parse.quote(tenant), query=query, headers=headers, expect=expect)


def told(answer):
    h = answer.headers
    assert h["Cache-Control"] == "no-store" and answer.content == b""
    return (urllib.parse.unquote(h["Laplaced-Arm"]), urllib.parse.unquote(h["Laplaced-Decision"]) if "Laplaced-Decision" in h else None,
            float(h["Laplaced-Propensity"]) if "Laplaced-Propensity" in h else None, h.get("Laplaced-Fallback"), h.get("Laplaced-Problem"))


def test_a_decision_stands_in_headers_and_in_the_log(api, tenant):
    for how in ({"user": "u1"}, {"headers": {"Laplaced-User": "u1"}}, {"user": "u1", "headers": {"Laplaced-User": "other"}}):
        arm, decision, propensity, *none = told(route(api, tenant, **how))
        line = api.events(tenant)[-1]
        assert none == [None, None]
        assert (line["type"], line["user"], line["arm"], line["decision"], line["propensity"]) == ("decided", "u1", arm, decision, propensity)
        assert propensity == 0.5 and arm in ARMS
    assert api.call("POST", "/reward", {"user": "u1", "reward": 1}, tenant=tenant).json == {"applied": True, "decisions": [decision]}


def test_parameters_mean_what_they_mean_in_a_body(api, name):
    api.put_tenant(name, algorithm="ucb", context_dim=2, default_reward=None)
    api.put_arms(name, [{"id": "de only", "eligibility": {"allow": {"country": ["de"]}}}, {"id": "x"}])
    for query, body in (({"candidates": "x"}, {"candidates": ["x"]}),
                        ({"candidates": "é%/ü,x", "decision": "né/1"}, {"candidates": ["é%/ü", "x"], "decision": "other"}),
                        ({"attributes": "country:de,plan:a:b"}, {"attributes": {"country": "de", "plan": "a:b"}}), ({}, {})):
        got = told(route(api, name, user="ü %&/", context="0.25,-1e-3", **query))
        line = api.events(name)[-1]
        assert (line["user"], line["context"], line["arm"], line["decision"]) == ("ü %&/", [0.25, -0.001], got[0], got[1])
        want = api.select("ü %&/", context=[0.25, -0.001], dry_run=True, explain=True, tenant=name, **body)
        assert {r["arm"] for r in want["ranking"]} >= {got[0]} and len(want["ranking"]) == (1 if query.get("candidates") == "x" or not query else 2)
    assert told(route(api, name, user="ü %&/", context="0.25,-1e-3", decision="né/1", candidates="é%/ü,x"))[1] == "né/1"


def test_an_id_sent_again_is_answered_as_before(api, tenant):
    answers = {told(route(api, tenant, user="u", decision="d1")) for _ in range(10)}
    assert len(answers) == 1 and api.stats(tenant)["decisions"] == 1
    route(api, tenant, user="v", decision="d1", expect=409)
    assert told(route(api, tenant, user="v", decision="d1", fallback="b")) == ("b", None, None, "true", "/problems/conflict")


@pytest.mark.parametrize("query, words", [
    ({}, "user"), ({"user": ""}, "/user"), ({"user": "u", "context": "1"}, "/context"), ({"user": "u", "context": "1,,2"}, "context"),
    ({"user": "u", "context": "nan"}, "context"), ({"user": "u", "context": "0x10"}, "context"), ({"user": "u", "context": "1e999"}, "context"),
    ({"user": "u", "candidates": "a,,b"}, "/candidates/1"), ({"user": "u", "candidates": "x" * 257}, "candidates"),
    ({"user": "u", "attributes": "country"}, "attributes"), ({"user": "u", "decision": "x" * 129}, "/decision"),
    ({"user": "u", "fallback": ""}, "fallback"), ({"user": "u", "fallback": "x" * 257}, "fallback"), ({"user": "u", "top": "2"}, "top"),
    ({"user": "x" * 257}, "/user"),
])
def test_a_bad_query_is_told_by_name_and_records_nothing(api, tenant, query, words):
    assert words in route(api, tenant, expect=400, **query).text
    if "fallback" not in query:
        assert told(route(api, tenant, fallback="b", **query))[0] == "b"
    assert api.stats(tenant)["decisions"] == 0


def test_whatever_is_refused_the_fallback_is_told(api, server, tenant):
    b = ("b", None, None, "true")
    assert told(route(api, "no-such-tenant", user="u", fallback="b")) == (*b, "/problems/no-tenant")
    route(api, "no-such-tenant", user="u", expect=404)
    before = api.stats(tenant)["decisions"]
    api.call("PUT", f"/tenants/{tenant}/limits", {"rate": 1, "burst": 1})
    try:
        answers = [told(route(api, tenant, user="u", fallback="b")) for _ in range(20)]
        assert (*b, "/problems/rate-limited") in answers or any(a[3] for a in answers)
        route(api, tenant, user="u", expect=429)
    finally:
        api.call("PUT", f"/tenants/{tenant}/limits", {"rate": 0})
    assert api.stats(tenant)["decisions"] - before == sum(a[3] is None for a in answers)
    assert "laplaced_route_fallbacks_total" in api.call("GET", "/metrics").text


def test_a_disk_that_refuses_is_no_reason_to_fail_a_visitor(boot):
    server = boot()
    client = Client(server)
    client.put_tenant("page", algorithm="random", default_reward=None)
    client.put_arms("page", [{"id": a} for a in ARMS])
    server.fill_disk()
    assert told(route(client, "page", user="u", fallback="a")) == ("a", None, None, "true", "/problems/unavailable")
    route(client, "page", user="u", expect=503)
    server.fill_disk(False)
    deadline = time.monotonic() + 30
    while told(route(client, "page", user="u", fallback="a"))[3] and time.monotonic() < deadline:
        time.sleep(0.1)
    decision = told(route(client, "page", user="u", fallback="a"))[1]
    server.restart()
    assert decision in {e.get("decision") for e in client.events("page")}


def test_a_tenant_that_cannot_be_opened_or_is_full_is_none_either(boot):
    server = boot("--tenant-quota", "1000000")
    client = Client(server)
    for name in ("full", "broken"):
        client.put_tenant(name, algorithm="ucb", default_reward=None)
    for i in range(5000):
        if route(client, "full", user=f"u{i}", candidates="a", decision="x" * 120 + f"{i:05}", expect=(204, 507)).status == 507:
            break
    answers = (told(route(client, "full", user=f"v{i}", candidates="a", decision="y" * 120 + f"{i:05}", fallback="a"))[3:] for i in range(5000))
    assert ("true", "/problems/insufficient-storage") in answers
    assert server.terminate() == 0
    (server.data / "tenants" / "broken.db").write_text("no database")
    server.start()
    route(client, "broken", user="u", candidates="a", expect=500)
    assert told(route(client, "broken", user="u", candidates="a", fallback="b"))[3:] == ("true", "/problems/tenant-not-opened")


def test_a_stopped_tenant_tells_its_baseline_as_a_decision(api, tenant):
    api.call("PATCH", f"/tenants/{tenant}", {"routing": {"stopped": True, "holdout": {"share": 0, "baseline": {"arm": "a"}}}})
    arm, decision, propensity, *none = told(route(api, tenant, user="u", fallback="b"))
    assert (arm, propensity, none) == ("a", 1, [None, None]) and api.events(tenant)[-1]["route"] == "stopped"


def test_keys_are_asked_for_as_elsewhere(boot, tmp_path):
    file, admin = tmp_path / "keys", "correct-horse-battery-staple"
    file.write_text(admin + "\n")
    file.chmod(0o600)
    server = boot("--admin-key-file", str(file))
    client = Client(server, key=admin)
    for name in ("page", "other"):
        client.put_tenant(name, algorithm="random")
        client.put_arms(name, [{"id": a} for a in ARMS])
    keys = {role: client.call("POST", "/tenants/page/keys", {"roles": [role]}, expect=201).json["key"] for role in ("decide", "read")}
    assert told(route(Client(server, key=keys["decide"]), "page", user="u"))[0] in ARMS
    for key, tenant, status in ((None, "page", 401), ("wrong", "page", 401), (keys["read"], "page", 403), (keys["decide"], "other", 404)):
        route(Client(server, key=key), tenant, user="u", expect=status)
        assert told(route(Client(server, key=key), tenant, user="u", fallback="b"))[:4] == ("b", None, None, "true")
    assert client.stats("page")["decisions"] == 1 and client.stats("other")["decisions"] == 0


def test_head_is_answered_as_get_and_other_methods_are_not(api, tenant):
    assert told(route(api, tenant, user="u", method="HEAD"))[1]
    assert json.loads(api.call("POST", f"/route/{tenant}", {"user": "u"}, expect=405).text)["status"] == 405
