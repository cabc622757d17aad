"""Feature flags by the OpenFeature Remote Evaluation Protocol (docs/OPENFEATURE.md). Every answer with a body is held to the protocol's own schema as
well."""
import collections
import socket
import time
import urllib.parse

import pytest
import requests

import ofrep
from harness import Client, Server

STICKY = {"sticky": {"ttl_s": 86400}}
PAGE = "https://shop.example"


def evaluate(client, flag=None, user="u", expect=200, headers=None, raw=None, body=None, query=None, **context):
    """One flag, or all of them."""
    body = body if body is not None else {"context": {"targetingKey": user, **context}}
    path = "/ofrep/v1/evaluate/flags" + (f"/{flag}" if flag is not None else "")
    answer = client.call("POST", path, None if raw else body, raw=raw, kind="application/json", headers=headers, query=query, expect=expect)
    if answer.content:
        assert ofrep.faults(answer.status, answer.json, flag is None) == [], answer.text
    return answer


def flags_of(answer):
    return {f["key"]: f for f in answer.json["flags"]}


def make(client, name, arms, **configuration):
    client.put_tenant(name, **{"algorithm": "random", **configuration})
    client.put_arms(name, arms)


# --- one flag ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("value", [True, False, "text \u00e9\n", "", 3, -0.5, {"a": [1, {"b": None}]}, {}], ids=repr)
def test_the_value_is_the_arms_own(api, name, value):
    make(api, name, [{"id": "one", "value": value}])
    got = evaluate(api, name).json
    assert (got["key"], got["reason"], got["variant"], got["value"]) == (name, "STATIC", "one", value) and type(got["value"]) is type(value)


def test_an_arm_without_a_value_is_its_id(api, name):
    make(api, name, ["plain"])
    assert evaluate(api, name).json["value"] == "plain"


def test_an_evaluation_is_a_decision_and_can_be_rewarded(api, name):
    make(api, name, ["a", {"id": "b", "value": 2}])
    got = evaluate(api, name, "u1", colour="red").json
    line = [e for e in api.events(name) if e["type"] == "decided"][-1]
    meta = got["metadata"]
    assert (line["decision"], line["user"], line["arm"], line["propensity"]) == (meta["decision"], "u1", got["variant"], meta["propensity"])
    assert meta["propensity"] == 0.5 and meta["route"] == "policy" and meta["version"] == 1 and got["reason"] == "SPLIT"
    assert api.reward(meta["decision"], 1, tenant=name) == {"applied": True}


def test_shares_are_those_of_the_propensities(api, name):
    make(api, name, ["a", "b", "c"], seed=3)
    shown = collections.Counter(evaluate(api, name, f"u{i}").json["variant"] for i in range(300))
    assert all(abs(shown[a] - 100) < 4 * (300 * 2 / 9) ** 0.5 for a in "abc"), shown  # four standard deviations


def test_a_user_keeps_the_variant_that_sticks(api, name):
    make(api, name, list("abcdef"), routing=STICKY)
    first = evaluate(api, name, "u1").json
    for _ in range(5):
        again = evaluate(api, name, "u1").json
        assert again["variant"] == first["variant"] and again["reason"] == "SPLIT" and again["metadata"]["route"] == "sticky"


@pytest.mark.parametrize("context, reason, variant", [
    ({}, "TARGETING_MATCH", "anyone"), ({"country": "de"}, "SPLIT", None), ({"country": "fr"}, "TARGETING_MATCH", "anyone"), ({"country": 7}, "TARGETING_MATCH", "anyone"),
    ({"country": "x" * 300}, "TARGETING_MATCH", "anyone"), ({"country": ["de"]}, "TARGETING_MATCH", "anyone"), ({"n" * 300: "de"}, "TARGETING_MATCH", "anyone")], ids=str)
def test_strings_of_the_context_are_attributes(api, name, context, reason, variant):
    make(api, name, ["anyone", {"id": "german", "eligibility": {"allow": {"country": ["de"]}}}])
    got = evaluate(api, name, **context).json
    assert got["reason"] == reason and (variant is None or got["variant"] == variant)


def test_what_nobody_may_see_has_no_value_and_is_no_decision(api, name):
    make(api, name, [])
    assert evaluate(api, name).json == {"key": name, "reason": "UNKNOWN"}
    api.put_arms(name, [{"id": "german", "eligibility": {"allow": {"country": ["de"]}}}])
    assert evaluate(api, name).json == {"key": name, "reason": "TARGETING_MATCH"}
    api.put_arms(name, [{"id": "a", "stopped": True}, {"id": "b", "stopped": True}])
    assert evaluate(api, name).json["reason"] in ("DISABLED", "UNKNOWN")
    assert [e for e in api.events(name) if e["type"] == "decided"] == []


def test_a_tenant_that_is_stopped_is_a_flag_that_is_disabled(api, name):
    make(api, name, [{"id": "old", "value": False}, {"id": "new", "value": True}], routing={"holdout": {"share": 0, "baseline": {"arm": "old"}}})
    api.call("POST", f"/tenants/{name}/stop")
    for i in range(5):
        got = evaluate(api, name, f"u{i}").json
        assert (got["reason"], got["value"], got["metadata"]["route"], got["metadata"]["propensity"]) == ("DISABLED", False, "stopped", 1)
    api.call("POST", f"/tenants/{name}/start")
    assert evaluate(api, name).json["reason"] == "SPLIT"


# --- refusals ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("raw, code, told", [
    ("{", "PARSE_ERROR", "not JSON"), ("[]", "PARSE_ERROR", "expected an object"), ("{}", "INVALID_CONTEXT", "/context: required"),
    ('{"context":3}', "INVALID_CONTEXT", "/context: expected an object"), ('{"context":{}}', "TARGETING_KEY_MISSING", "/context/targetingKey: required"),
    ('{"context":{"targetingKey":""}}', "TARGETING_KEY_MISSING", "required"), ('{"context":{"targetingKey":null}}', "TARGETING_KEY_MISSING", "required"),
    ('{"context":{"targetingKey":7}}', "INVALID_CONTEXT", "/context/targetingKey: ids are strings"),
    ('{"context":{"targetingKey":"%s"}}' % ("x" * 257), "INVALID_CONTEXT", "1 to 256 bytes"),
    ('{"context":{"targetingKey":"u",%s}}' % ",".join(f'"k{i}":"v"' for i in range(33)), "INVALID_CONTEXT", "at most 32 strings")])
def test_a_context_that_is_none_is_refused_in_the_protocols_form(api, name, raw, code, told):
    make(api, name, ["a", "b"], routing=STICKY)
    for flag in (name, None):
        answer = evaluate(api, flag, raw=raw, expect=400).json
        assert answer["errorCode"] == code and told in answer["errorDetails"] and answer.get("key") == flag
    assert [e for e in api.events(name) if e["type"] == "decided"] == []


def test_other_refusals_have_the_protocols_statuses(boot, name):
    client = Client(boot("--max-pending", "1"))
    make(client, "f", ["a", "b"])
    assert evaluate(client, "nope", expect=404).json["errorCode"] == "FLAG_NOT_FOUND"
    evaluate(client, "f")
    busy = evaluate(client, "f", expect=500)  # 503 elsewhere, which clients of the protocol do not know
    assert busy.json["errorCode"] == "GENERAL" and "too many decisions wait" in busy.json["errorDetails"] and int(busy.headers["Retry-After"]) > 0
    client.put_tenant("wide", algorithm="random", context_dim=2)
    client.put_arms("wide", ["a"])
    assert "a context of 2 numbers" in evaluate(client, "wide", expect=400).json["errorDetails"]
    client.call("PUT", "/tenants/f/limits", {"rate": 0.001, "burst": 1})
    limited = None
    for _ in range(3):
        limited = evaluate(client, "f", expect=(429, 500))
        if limited.status == 429:
            break
    assert limited.status == 429 and int(limited.headers["Retry-After"]) > 0 and limited.json["errorCode"] == "GENERAL"
    assert evaluate(client, expect=(200, 429)).status in (200, 429)


def test_a_large_body_and_a_wrong_type_are_the_callers_fault(api, name):
    make(api, name, ["a"])
    assert evaluate(api, name, raw='{"context":{"targetingKey":"u","x":"%s"}}' % ("x" * (1 << 20)), expect=400).json["errorCode"] == "GENERAL"
    answer = api.call("POST", f"/ofrep/v1/evaluate/flags/{name}", raw="<a/>", kind="text/xml", expect=400)
    assert "application/json" in answer.json["errorDetails"]


def test_keys_come_in_either_header_and_stand_for_their_tenant(boot):
    client = Client(boot())
    make(client, "f", ["a", "b"], routing=STICKY)
    make(client, "g", ["a", "b"], routing=STICKY)
    client.key = client.call("POST", "/keys", {}, expect=201).json["key"]
    own, reader = (client.call("POST", "/tenants/f/keys", {"roles": [r]}, expect=201).json["key"] for r in ("decide", "read"))
    for headers in ({"Authorization": f"Bearer {own}"}, {"X-API-Key": own}):
        stranger = Client(client.server)
        assert evaluate(stranger, "f", headers=headers).json["key"] == "f"
        assert evaluate(stranger, "g", headers=headers, expect=404).json["errorCode"] == "FLAG_NOT_FOUND"
        assert set(flags_of(evaluate(stranger, headers=headers))) == {"f"}
    for tenants, seen in ((["f"], {"f"}), (["f", "g*"], {"f", "g"}), (["*"], {"f", "g", "default"}), (["h*"], set())):
        several = client.call("POST", "/keys", {"roles": ["decide"], "tenants": tenants}, expect=201).json["key"]
        stranger = Client(client.server, several)
        assert set(flags_of(evaluate(stranger))) == seen
        for flag in "fg":
            assert evaluate(stranger, flag, expect=200 if flag in seen else 404).json["key"] == flag
    for headers, status in (({}, 401), ({"X-API-Key": "lpd_x"}, 401), ({"X-API-Key": reader}, 403)):
        for flag in ("f", None):
            assert evaluate(Client(client.server), flag, headers=headers, expect=status).json["errorCode"] == "GENERAL"
    assert requests.get(client.server.url + "/tenants/f", headers={"X-API-Key": client.key}).status_code == 401  # below /ofrep/ alone


# --- all flags ---------------------------------------------------------------------------------------------------

def test_all_flags_of_a_user_are_one_deferred_decision_each(boot):
    client = Client(boot())
    make(client, "f", [{"id": i, "value": {"v": i}} for i in "abc"], routing=STICKY)
    make(client, "g", ["x"], routing=STICKY)
    make(client, "loose", ["a", "b"])
    first = evaluate(client, user="u1")
    flags = flags_of(first)
    assert list(flags) == ["default", "f", "g", "loose"]
    assert flags["default"] == {"key": "default", "reason": "UNKNOWN"} and flags["g"]["reason"] == "STATIC"
    assert flags["loose"]["errorCode"] == "GENERAL" and "routing.sticky" in flags["loose"]["errorDetails"]
    assert flags["f"]["value"] == {"v": flags["f"]["variant"]} and "ETag" not in first.headers
    line = [e for e in client.events("f") if e["type"] == "decided"][-1]
    assert line["decision"] == flags["f"]["metadata"]["decision"] and line["deferred"]
    assert client.call("POST", "/activate", {"decision": line["decision"]}, tenant="f").json == {"activated": True}
    assert client.reward(line["decision"], 1, tenant="f") == {"applied": True}
    client.call("DELETE", "/tenants/loose", expect=204)
    assert flags_of(evaluate(client, user="u1"))["f"]["variant"] == flags["f"]["variant"]


def test_an_answer_that_would_be_the_same_is_304_and_records_nothing(boot):
    client = Client(boot())
    make(client, "f", [{"id": i, "value": i} for i in "abcdefgh"], routing=STICKY)
    make(client, "g", list("xyz"), routing=STICKY)
    tag = evaluate(client, user="u1").headers["ETag"]
    before = [client.events(t) for t in "fg"]
    for match in (tag, f'"0000000000000000", {tag}', f"W/{tag}"):
        same = evaluate(client, user="u1", headers={"If-None-Match": match}, expect=304)
        assert same.content == b"" and same.headers["ETag"] == tag
    assert [client.events(t) for t in "fg"] == before
    assert evaluate(client, user="u1", headers={"If-None-Match": '"0000000000000000"'}).headers["ETag"] == tag
    assert evaluate(client, user="u2", headers={"If-None-Match": tag}).status == 200  # another user is new: something is drawn
    assert evaluate(client, user="u1", query={"flagConfigEtag": "x", "flagConfigLastModified": "1771622898"}, headers={"If-None-Match": tag}, expect=304)
    client.call("PATCH", "/tenants/f/arms", {"arms": [{"id": i, "value": i + "!"} for i in "abcdefgh"]})
    changed = evaluate(client, user="u1", headers={"If-None-Match": tag})
    assert changed.headers["ETag"] != tag and flags_of(changed)["f"]["value"].endswith("!")
    tag = changed.headers["ETag"]
    client.call("PATCH", "/tenants/g", {"routing": {"holdout": {"share": 0, "baseline": {"arm": "x"}}, "stopped": True}})
    stopped = evaluate(client, user="u1", headers={"If-None-Match": tag})
    assert stopped.headers["ETag"] != tag and flags_of(stopped)["g"]["reason"] == "DISABLED"
    client.server.restart()
    evaluate(client, user="u1", headers={"If-None-Match": stopped.headers["ETag"]}, expect=304)


def test_users_share_no_tag_unless_they_see_the_same(boot):
    client = Client(boot())
    make(client, "f", list("abcd"), routing=STICKY)
    seen = {}
    for i in range(40):
        answer = evaluate(client, user=f"u{i}")
        assert seen.setdefault(flags_of(answer)["f"]["variant"], answer.headers["ETag"]) == answer.headers["ETag"]
    assert len(seen) == len(set(seen.values())) == 4


def test_more_flags_than_may_be_asked_for_are_refused(boot):
    client = Client(boot())
    for i in range(256):
        client.call("PUT", f"/tenants/f{i}", {"algorithm": "random"}, expect=201)
    assert "more than 256 flags" in evaluate(client, expect=400).json["errorDetails"]
    client.call("DELETE", "/tenants/f0", expect=204)
    assert len(flags_of(evaluate(client))) == 256


def test_a_server_without_memory_for_a_body_has_failed(boot):
    """503 elsewhere; clients of the protocol know 500 alone."""
    client = Client(boot("--max-body", "1M", "--max-bulk-body", "1M", "--max-observe-body", "1M", "--max-body-memory", "1M"))
    where = urllib.parse.urlsplit(client.server.url)
    with socket.create_connection((where.hostname, where.port)) as slow:
        slow.sendall(b"POST /select HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n" + b" " * 900000)
        end = time.monotonic() + 60
        body = '{"events":[{"name":"e","x":"%s","attributes":{"decision":"d"}}]}' % ("x" * 900000)
        while client.call("POST", "/ofrep/v1/track", raw=body, kind="application/json", expect=(200, 500)).status != 500:
            assert time.monotonic() < end
            slow.sendall(b" ")  # it is there, and goes on
        while (answer := evaluate(client, raw='{"context":{"targetingKey":"u","x":"%s"}}' % ("x" * 900000), expect=(200, 500))).status != 500:
            assert time.monotonic() < end
        assert answer.json["errorCode"] == "GENERAL" and int(answer.headers["Retry-After"]) > 0


# --- tracking -------------------------------------------------------------------------------------------------------

def by_user(client, *events, flag="f", expect=200):
    """Events as (name, user, value or None, id or None): results."""
    body = {"events": [{"name": name, "context": {"targetingKey": user, "country": "de"}, "attributes": {"flag": flag}, **({} if value is None else {"value": value}), **({} if i is None else {"id": i})}
                       for name, user, value, i in events]}
    return client.call("POST", "/ofrep/v1/track", body, expect=expect).json["results"]


def lines_of(client, *types, tenant="f"):
    return [e for e in client.events(tenant) if e["type"] in types]


def test_an_event_of_a_user_is_the_reward_of_what_they_were_shown_last(boot):
    client = Client(boot())
    make(client, "f", ["a", "b"])
    first, second = (evaluate(client, "f", "u1").json["metadata"]["decision"] for _ in range(2))
    other = evaluate(client, "f", "u2").json["metadata"]["decision"]
    assert by_user(client, ("bought", "u1", 2.5, None), ("bought", "u2", None, None), ("bought", "u1", 3, None)) == [{"applied": True, "decisions": [d]} for d in (second, other, first)]
    told = lines_of(client, "rewarded")
    assert [(e["decision"], e["reward"], e["event"]) for e in told] == [(second, 2.5, "bought"), (other, 1, "bought"), (first, 3, "bought")]
    before = client.stats("f")["unknown"]
    none = by_user(client, ("bought", "u1", 1, None), ("bought", "stranger", 1, "i1"), ("$exposure", "stranger", None, None))
    assert [r["errorCode"] for r in none] == ["GENERAL"] * 3 and all("no open decision" in r["errorDetails"] for r in none)
    assert client.stats("f")["unknown"] == before + 3 and len(lines_of(client, "rewarded")) == 3
    late = evaluate(client, "f", "stranger").json["metadata"]["decision"]
    assert by_user(client, ("bought", "stranger", 1, "i1")) == [{"applied": True, "decisions": [late]}]  # what found nothing has not taken the id


@pytest.mark.parametrize("aggregation", ["first", "sum", "last"])
def test_an_event_that_is_sent_again_under_its_id_is_learned_once(boot, aggregation):
    client = Client(boot())
    make(client, "f", ["a", "b"], aggregation=aggregation)
    old, new = (evaluate(client, "f", "u").json["metadata"]["decision"] for _ in range(2))
    once = by_user(client, ("bought", "u", 2, "o1"))
    assert once == [{"applied": True, "decisions": [new]}]
    for _ in range(2):  # the answer was lost; and again after a crash. Not of the older decision either, which is open still
        assert by_user(client, ("bought", "u", 2, "o1"), ("bought", "u", 2, "o1")) == once * 2
        client.server.restart()
    assert "another reward has this id" in by_user(client, ("bought", "u", 3, "o1"))[0]["errorDetails"]
    named = {"name": "bought", "value": 2, "id": "o2", "attributes": {"flag": "f", "decision": old}}
    for _ in range(2):
        assert client.call("POST", "/ofrep/v1/track", {"events": [named]}).json["results"] == [{"applied": True}]
    assert [(e["decision"], e["id"]) for e in lines_of(client, "rewarded")] == [(new, "o1"), (old, "o2")]
    assert client.stats("f")["rewards"] == 2


def test_who_acts_has_seen_what_a_page_was_told_last(boot):
    client = Client(boot())
    make(client, "f", ["a", "b"], routing=STICKY)
    first, second, third = (flags_of(evaluate(client, user="u"))["f"]["metadata"]["decision"] for _ in range(3))
    assert by_user(client, ("$exposure", "u", None, None), ("$exposure", "u", None, None)) == [{"activated": True}, {"activated": False, "duplicate": True}]
    assert lines_of(client, "activated")[-1]["decision"] == third  # the newest, and the second event no older one
    client.server.restart()  # the index is made again
    assert by_user(client, ("bought", "u", 1, "o1")) == [{"applied": True, "decisions": [third]}]
    assert by_user(client, ("bought", "u", 1, "o2")) == [{"applied": True, "decisions": [second]}]  # nothing that was shown is open: activated by it
    assert by_user(client, ("bought", "u", 1, "o1"), ("bought", "u", 1, "o2")) == [{"applied": True, "decisions": [d]} for d in (third, second)]  # activates nothing
    assert [(e["type"], e["decision"]) for e in lines_of(client, "activated", "rewarded")] == [("activated", third), ("rewarded", third), ("activated", second), ("rewarded", second)]
    assert client.call("POST", "/activate", {"decision": first}, tenant="f").json == {"activated": True}


def test_what_was_shown_goes_before_what_waits(boot):
    client = Client(boot())
    make(client, "f", ["a", "b"], routing=STICKY, aggregation="sum")
    shown = evaluate(client, "f", "u").json["metadata"]["decision"]
    waiting = flags_of(evaluate(client, user="u"))["f"]["metadata"]["decision"]
    assert by_user(client, ("bought", "u", 1, None), ("bought", "u", 2, None)) == [{"applied": True, "decisions": [shown]}] * 2
    assert by_user(client, ("$exposure", "u", None, None), ("bought", "u", 3, None)) == [{"activated": True}, {"applied": True, "decisions": [waiting]}]


def test_a_reward_by_user_activates_nothing(boot):
    """/reward keeps its word: what was not shown has no part in it."""
    client = Client(boot())
    make(client, "f", ["a", "b"], routing=STICKY)
    flags_of(evaluate(client, user="u"))
    client.call("POST", "/reward", {"user": "u", "reward": 1}, tenant="f", expect=404)
    assert lines_of(client, "activated") == []


def test_where_a_tenant_has_metrics_the_name_of_an_event_is_one(boot):
    client = Client(boot())
    make(client, "f", ["a", "b"], routing=STICKY, metrics=[{"name": "purchase", "role": "objective"}, {"name": "revenue", "aggregation": "sum"}])
    decision = flags_of(evaluate(client, user="u"))["f"]["metadata"]["decision"]
    before = client.stats("f")["unknown"]
    told = by_user(client, ("scrolled", "u", None, "s1"), ("revenue", "u", 19.5, "r1"), ("purchase", "u", 1, "p1"), ("revenue", "u", 2.5, "r2"), ("revenue", "u", 19.5, "r1"))
    assert told[0]["errorCode"] == "GENERAL" and "no metric of this name" in told[0]["errorDetails"] and client.stats("f")["unknown"] == before + 1
    assert told[1:] == [{"applied": True, "decisions": [decision]}] * 4
    assert [(e["metric"], e["reward"]) for e in lines_of(client, "measured")] == [("revenue", 19.5), ("revenue", 2.5)]
    assert [e["reward"] for e in lines_of(client, "rewarded")] == [1]
    assert {m["metric"]: m["mean"] for m in client.stats("f")["metrics"]} == {"revenue": 22}


def test_the_time_of_an_event_is_kept(api, name):
    make(api, name, ["a"])
    decision = evaluate(api, name, "u").json["metadata"]["decision"]
    event = {"name": "bought", "context": {"targetingKey": "u"}, "timestamp": "2026-11-20T10:00:00.5Z", "attributes": {"flag": name}}
    assert "/events/0/timestamp" in api.call("POST", "/ofrep/v1/track", {"events": [event]}, expect=400).json["errorDetails"]
    event["timestamp"] = "2026-11-20T10:00:00.500Z"
    assert api.call("POST", "/ofrep/v1/track", {"events": [event]}).json["results"] == [{"applied": True, "decisions": [decision]}]
    assert lines_of(api, "rewarded", tenant=name)[-1]["happened_at"] == "2026-11-20T10:00:00.500Z"


def test_a_flag_says_where_its_events_go(boot):
    client = Client(boot())
    make(client, "f", ["a", "b"], routing=STICKY)
    told = [evaluate(client, "f").json, flags_of(evaluate(client))["f"]]
    assert [f["metadata"]["trackUrl"] for f in told] == ["/ofrep/v1/track"] * 2
    assert client.call("POST", told[0]["metadata"]["trackUrl"], {"events": [{"name": "e", "context": {"targetingKey": "u"}, "attributes": {"flag": "f"}}]}).json["results"][0]["applied"]


def track(client, *events, expect=200, **more):
    """Events as (name, attributes, value or None)."""
    body = {"events": [{"name": name, "context": {"targetingKey": "u"}, "attributes": attributes, **({} if value is None else {"value": value})} for name, attributes, value in events]}
    return client.call("POST", "/ofrep/v1/track", body, expect=expect, **more).json


def test_an_event_is_the_reward_of_its_decision(api, name):
    make(api, name, ["a", "b"])
    seen = [evaluate(api, name, f"u{i}").json["metadata"]["decision"] for i in range(3)]
    told = track(api, *[("bought", {"flag": name, "decision": d, "currency": "EUR"}, v) for d, v in zip(seen, (2.5, None, -1))])
    assert told == {"results": [{"applied": True}] * 3}
    rewards = {e["decision"]: e["reward"] for e in api.events(name) if e["type"] == "rewarded"}
    assert rewards == dict(zip(seen, (2.5, 1, -1)))
    again = track(api, ("bought", {"flag": name, "decision": seen[0]}, 2.5), ("bought", {"flag": name, "decision": seen[1]}, 7))["results"]
    assert again[0] == {"applied": False, "duplicate": True} and again[1]["errorCode"] == "GENERAL"
    assert len([e for e in api.events(name) if e["type"] == "rewarded"]) == 3


def test_who_acts_has_seen_and_an_exposure_is_that_alone(boot):
    client = Client(boot())
    make(client, "f", ["a", "b"], routing=STICKY)
    first, second = (flags_of(evaluate(client, user=f"u{i}"))["f"]["metadata"]["decision"] for i in range(2))
    assert track(client, ("$exposure", {"flag": "f", "decision": first}, 5))["results"] == [{"activated": True}]
    assert track(client, ("$exposure", {"flag": "f", "decision": first}, None))["results"] == [{"activated": False, "duplicate": True}]
    assert track(client, ("bought", {"flag": "f", "decision": first}, 1), ("bought", {"flag": "f", "decision": second}, 1))["results"] == [{"applied": True}] * 2
    lines = [(e["type"], e["decision"]) for e in client.events("f") if e["type"] in ("activated", "rewarded")]
    assert lines == [("activated", first), ("rewarded", first), ("activated", second), ("rewarded", second)]


def test_events_fail_each_in_its_place(boot):
    client = Client(boot())
    make(client, "f", ["a"])
    make(client, "g", ["a"])
    of_f, of_g = (evaluate(client, t).json["metadata"]["decision"] for t in "fg")
    client.key = client.call("POST", "/keys", {}, expect=201).json["key"]
    own = Client(client.server, client.call("POST", "/tenants/f/keys", {"roles": ["decide"]}, expect=201).json["key"])
    results = track(own, ("e", {"decision": of_f}, 1), ("e", {"decision": of_g}, 1), ("e", {"flag": "g", "decision": of_g}, 1), ("e", {"flag": "no", "decision": "d"}, 1))["results"]
    assert results[0] == {"applied": True} and [r.get("errorCode") for r in results[1:]] == ["GENERAL", "FLAG_NOT_FOUND", "FLAG_NOT_FOUND"]
    assert "attributes.flag" in track(client, ("e", {"decision": of_g}, 1))["results"][0]["errorDetails"]
    assert track(Client(client.server), ("e", {"decision": "d"}, 1), expect=401)["errorCode"] == "GENERAL"
    reader = client.call("POST", "/tenants/f/keys", {"roles": ["read"]}, expect=201).json["key"]
    assert track(Client(client.server, reader), ("e", {"decision": "d"}, 1), expect=403)["errorCode"] == "GENERAL"
    assert [e for e in client.events("g") if e["type"] == "rewarded"] == []


@pytest.mark.parametrize("raw, told", [
    ("{", "not JSON"), ("{}", "/events: expected an array of 1 to 1000 events"), ('{"events":[]}', "1 to 1000 events"), ('{"events":[3]}', "/events/0: expected an object"),
    ('{"events":[{"attributes":{"decision":"d"}}]}', "/events/0/name: required"), ('{"events":[{"name":"e"}]}', "/events/0/context/targetingKey: required"),
    ('{"events":[{"name":"e","context":{}}]}', "/events/0/context/targetingKey: required"), ('{"events":[{"name":"e","context":3}]}', "/events/0/context: expected an object"),
    ('{"events":[{"name":"e","context":{"targetingKey":""}}]}', "/events/0/context/targetingKey"), ('{"events":[{"name":"e","context":{"targetingKey":7}}]}', "/events/0/context/targetingKey"),
    ('{"events":[{"name":"e","id":"","context":{"targetingKey":"u"}}]}', "/events/0/id"), ('{"events":[{"name":"e","id":"%s","context":{"targetingKey":"u"}}]}' % ("x" * 129), "/events/0/id"),
    ('{"events":[{"name":"e","timestamp":7,"context":{"targetingKey":"u"}}]}', "/events/0/timestamp"),
    ('{"events":[{"name":"e","attributes":3}]}', "/events/0/attributes: expected an object"), ('{"events":[{"name":"e","attributes":{"decision":""}}]}', "/events/0/attributes/decision"),
    ('{"events":[{"name":"e","value":"9","attributes":{"decision":"d"}}]}', "/events/0/value: expected a number"),
    ('{"events":[{"name":"e","value":1e30,"attributes":{"decision":"d"}}]}', "/events/0/value: expected a number"),
    ('{"events":[%s]}' % ",".join(['{"name":"e","attributes":{"decision":"d"}}'] * 1001), "1 to 1000 events")])
def test_what_is_no_list_of_events_is_refused(api, raw, told):
    answer = api.call("POST", "/ofrep/v1/track", raw=raw, kind="application/json", expect=400).json
    assert answer["errorCode"] in ("PARSE_ERROR", "GENERAL") and told in answer["errorDetails"]


def test_a_thousand_events_at_once(api, name):
    make(api, name, ["a", "b"])
    seen = [api.select("u", tenant=name, decision=f"d{i}")["decision"] for i in range(100)]
    told = track(api, *[("e", {"flag": name, "decision": d}, 1) for d in seen * 10])["results"]
    assert len(told) == 1000 and sum(r.get("applied", False) for r in told) == 100 and sum(r.get("duplicate", False) for r in told) == 900


# --- pages of other origins -----------------------------------------------------------------------------------------

def preflight(client, origin, method="POST", path="/ofrep/v1/evaluate/flags", expect=204):
    return client.call("OPTIONS", path, headers={"Origin": origin, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": "content-type"}, expect=expect)


@pytest.mark.parametrize("origins, origin, is_let_in", [
    ("", PAGE, False), (PAGE, PAGE, True), (f"http://localhost:3000,  {PAGE}", PAGE, True), (PAGE, PAGE + ".evil.example", False), (PAGE, "https://shop.exampl", False),
    (PAGE, "http://shop.example", False), (PAGE, "null", False), ("*", "https://any.example:8443", True)])
def test_pages_of_named_origins_are_let_in_below_ofrep_alone(boot, origins, origin, is_let_in):
    client = Client(boot("--cors-origin", origins) if origins else boot())
    make(client, "f", ["a"], routing=STICKY)
    client.key = client.call("POST", "/keys", {}, expect=201).json["key"]
    asked = preflight(Client(client.server), origin, expect=204 if is_let_in else 401)  # a browser sends no key with it
    assert (asked.headers.get("Access-Control-Allow-Origin") == origin) == is_let_in
    if is_let_in:
        assert asked.headers["Access-Control-Allow-Methods"] == "POST" and "if-none-match" in asked.headers["Access-Control-Allow-Headers"]
    for flag in ("f", None):
        told = evaluate(client, flag, headers={"Origin": origin})
        assert (told.headers.get("Access-Control-Allow-Origin") == origin) == is_let_in == ("etag" in told.headers.get("Access-Control-Expose-Headers", ""))
        refused = evaluate(Client(client.server), flag, headers={"Origin": origin}, expect=401)  # a page is to hear why
        assert (refused.headers.get("Access-Control-Allow-Origin") == origin) == is_let_in
    tracked = client.call("POST", "/ofrep/v1/track", {"events": [{"name": "e", "attributes": {"flag": "f", "decision": "none"}}]}, headers={"Origin": origin})
    assert ("Access-Control-Allow-Origin" in tracked.headers) == is_let_in
    other = client.call("GET", "/tenants/f", headers={"Origin": origin})
    assert not [h for h in other.headers if h.lower().startswith("access-control")]


@pytest.mark.parametrize("origins", ["shop.example", "https://shop.example/", "https://", "https://*.example", "ftp://x.example", "https://a.example b c"])
def test_what_is_no_origin_stops_the_start(tmp_path, origins):
    status, text = Server(tmp_path, "--cors-origin", origins).run_to_end()
    assert status != 0 and "--cors-origin" in text and "origin such as https://shop.example" in text
