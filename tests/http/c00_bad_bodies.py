"""A table of broken bodies: each is refused with the right status and pointers, and changes nothing."""
import json

import pytest

from contract import CONTRACT, NDJSON
from harness import Client

LONG = "x" * 257
PUT_GRAPH, PUT_ARMS = ("PUT", "/tenants/bad/graph"), ("PUT", "/tenants/bad/arms")
PATCH_GRAPH, PATCH_ARMS = ("PATCH", "/tenants/bad/graph"), ("PATCH", "/tenants/bad/arms")
SELECT, REWARD, OBSERVE = ("POST", "/select"), ("POST", "/reward"), ("POST", "/observe")
ACTIVATE, TENANT = ("POST", "/activate"), ("PUT", "/tenants/bad")

# Texts that are not JSON at all, or not acceptable JSON: for every route with a body.
NOT_JSON = ["", " ", "{", "}", "nul", "{'user':'u'}", '{"user":"u",}', '{"user":NaN}', '{"user":Infinity}', '{"a":1}{"b":2}',
            '{"user":"u"} trailing', '{"user":"\\ud800"}', '{"user":"u","user":"v"}', "[" * 40 + "]" * 40,
            '{"user":01}', '{"reward":+1}', b'{"user":"\xff\xfe"}', b'{"user":"\xc0\x80"}', b"\x00", b'\xef\xbb\xbf{}',
            '{"user":"a\\u0000b"}']

# (route, body, pointers): the faults that a schema can see.
BY_SCHEMA = [
    (SELECT, [], [""]), (SELECT, "u", [""]), (SELECT, 3, [""]), (SELECT, None, [""]),
    (SELECT, {}, ["/user", "/context"]), (SELECT, {"user": 3}, ["/user", "/context"]),
    (SELECT, {"user": "", "context": [0, 0]}, ["/user"]), (SELECT, {"user": LONG, "context": [0, 0]}, ["/user"]),
    (SELECT, {"user": None, "context": [0, 0]}, ["/user"]), (SELECT, {"user": ["u"], "context": [0, 0]}, ["/user"]),
    (SELECT, {"user": "u", "context": [0, 0], "usr": "v"}, ["/usr"]), (SELECT, {"user": "u", "context": [0, 0], "a/b~c": 1}, ["/a~1b~0c"]),
    (SELECT, {"user": "u", "context": 1}, ["/context"]), (SELECT, {"user": "u", "context": ["x", 0]}, ["/context/0"]),
    (SELECT, {"user": "u", "context": [None, 1]}, ["/context/0"]), (SELECT, {"user": "u", "context": [1, True]}, ["/context/1"]),
    (SELECT, {"user": "u", "context": [0, 0], "candidates": "a"}, ["/candidates"]),
    (SELECT, {"user": "u", "context": [0, 0], "candidates": {}}, ["/candidates"]),
    (SELECT, {"user": "u", "context": [0, 0], "candidates": []}, ["/candidates"]),
    (SELECT, {"user": "u", "context": [0, 0], "candidates": ["a1", 5]}, ["/candidates/1"]),
    (SELECT, {"user": "u", "context": [0, 0], "candidates": ["a1", ""]}, ["/candidates/1"]),
    (SELECT, {"user": "u", "context": [0, 0], "candidates": [{}]}, ["/candidates/0/id"]),
    (SELECT, {"user": "u", "context": [0, 0], "candidates": [{"id": "x", "features": "f"}]}, ["/candidates/0/features"]),
    (SELECT, {"user": "u", "context": [0, 0], "candidates": [{"id": "x", "features": [1, "f", 2]}]}, ["/candidates/0/features/1"]),
    (SELECT, {"user": "u", "context": [0, 0], "candidates": [{"id": "a1", "name": "n"}]}, ["/candidates/0/name"]),
    (SELECT, {"user": "u", "context": [0, 0], "candidates": [f"c{i}" for i in range(1025)]}, ["/candidates"]),
    (SELECT, {"user": "u", "context": [0, 0], "exclude": "a1"}, ["/exclude"]),
    (SELECT, {"user": "u", "context": [0, 0], "exclude": [1]}, ["/exclude/0"]),
    (SELECT, {"user": "u", "context": [0, 0], "top": 0}, ["/top"]), (SELECT, {"user": "u", "context": [0, 0], "top": 17}, ["/top"]),
    (SELECT, {"user": "u", "context": [0, 0], "top": 1.5}, ["/top"]), (SELECT, {"user": "u", "context": [0, 0], "top": "1"}, ["/top"]),
    (SELECT, {"user": "u", "context": [0, 0], "explain": 1}, ["/explain"]),
    (SELECT, {"user": "u", "context": [0, 0], "dry_run": "yes"}, ["/dry_run"]),
    (SELECT, {"user": "u", "context": [0, 0], "defer": None}, ["/defer"]),
    (SELECT, {"user": "u", "context": [0, 0], "decision": ""}, ["/decision"]),
    (SELECT, {"user": "u", "context": [0, 0], "decision": 7}, ["/decision"]),
    (SELECT, {"user": "u", "context": [0, 0], "decision": "d" * 129}, ["/decision"]),
    (SELECT, {"user": 1, "context": ["x", 0], "top": 0, "more": 1}, ["/user", "/context/0", "/top", "/more"]),
    (REWARD, {}, ["/decision", "/reward"]), (REWARD, {"decision": "open"}, ["/reward"]), (REWARD, {"reward": 1}, ["/decision"]),
    (REWARD, {"decision": "open", "reward": "1"}, ["/reward"]), (REWARD, {"decision": "open", "reward": None}, ["/reward"]),
    (REWARD, {"decision": "open", "reward": True}, ["/reward"]), (REWARD, {"decision": "open", "reward": [1]}, ["/reward"]),
    (REWARD, {"decision": 1, "reward": 1}, ["/decision"]), (REWARD, {"decision": "", "reward": 1}, ["/decision"]),
    (REWARD, {"decision": "open", "reward": 1, "arm": 1}, ["/arm"]), (REWARD, {"decision": "open", "reward": 1, "x": 1}, ["/x"]),
    (REWARD, [], [""]), (REWARD, "open", [""]), (REWARD, [{"decision": "open", "reward": 1}, 3], ["/1"]),
    (REWARD, [{"decision": "open", "reward": 1}, {"decision": "open"}], ["/1/reward"]),
    (REWARD, [{"decision": "open", "reward": 1, "y": 0}], ["/0/y"]),
    (ACTIVATE, {}, ["/decision"]), (ACTIVATE, {"decision": 1}, ["/decision"]), (ACTIVATE, {"decision": "open", "x": 1}, ["/x"]),
    (ACTIVATE, ["open"], [""]),
    (OBSERVE, {}, ["/user", "/arm", "/reward", "/context"]), (OBSERVE, {"user": "u", "arm": "a1", "context": [0, 0]}, ["/reward"]),
    (OBSERVE, {"user": "u", "arm": 1, "reward": 1, "context": [0, 0]}, ["/arm"]),
    (OBSERVE, {"user": "u", "arm": {"features": [1, 1, 1]}, "reward": 1, "context": [0, 0]}, ["/arm/id"]),
    (OBSERVE, {"user": "u", "arm": "a1", "reward": 1, "context": [0, 0], "propensity": 0}, ["/propensity"]),
    (OBSERVE, {"user": "u", "arm": "a1", "reward": 1, "context": [0, 0], "propensity": 1.5}, ["/propensity"]),
    (OBSERVE, {"user": "u", "arm": "a1", "reward": 1, "context": [0, 0], "decision": "d"}, ["/decision"]),
    (PUT_GRAPH, {}, ["/edges"]), (PUT_GRAPH, {"edges": {}}, ["/edges"]), (PUT_GRAPH, {"edges": [1]}, ["/edges/0"]),
    (PUT_GRAPH, {"edges": [["a"]]}, ["/edges/0"]), (PUT_GRAPH, {"edges": [["a", "b", 1, 2]]}, ["/edges/0"]),
    (PUT_GRAPH, {"edges": [["a", "b"], ["a", 2]]}, ["/edges/1/1"]), (PUT_GRAPH, {"edges": [["a", "b", "1"]]}, ["/edges/0/2"]),
    (PUT_GRAPH, {"edges": [["a", "b", 0]]}, ["/edges/0/2"]), (PUT_GRAPH, {"edges": [["a", "b", -1]]}, ["/edges/0/2"]),
    (PUT_GRAPH, {"edges": [["a", "", 1]]}, ["/edges/0/1"]), (PUT_GRAPH, {"edges": [], "users": "u"}, ["/users"]),
    (PUT_GRAPH, {"edges": [], "users": ["u", 1]}, ["/users/1"]), (PUT_GRAPH, {"edges": [], "nodes": []}, ["/nodes"]),
    (PATCH_GRAPH, {"add": [["a", "b", -1]]}, ["/add/0/2"]), (PATCH_GRAPH, {"remove": [["a", "b", 1]]}, ["/remove/0"]),
    (PATCH_GRAPH, {"edges": []}, ["/edges"]), (PATCH_GRAPH, [], [""]),
    (PUT_ARMS, {}, ["/arms"]), (PUT_ARMS, {"arms": "a"}, ["/arms"]), (PUT_ARMS, {"arms": [3]}, ["/arms/0"]),
    (PUT_ARMS, {"arms": [{"features": [1, 2, 3]}]}, ["/arms/0/id"]),
    (PUT_ARMS, {"arms": [{"id": "a", "features": [1, 2, "x"]}]}, ["/arms/0/features/2"]),
    (PUT_ARMS, {"arms": [{"id": "a", "features": [1, 2, 3], "active": 1}]}, ["/arms/0/active"]),
    (PUT_ARMS, {"arms": [{"id": "a", "features": [1, 2, 3], "colour": "red"}]}, ["/arms/0/colour"]),
    (PUT_ARMS, [{"id": LONG, "features": [1, 2, 3]}], ["/0/id"]),
    (PATCH_ARMS, {"remove": "a1"}, ["/remove"]), (PATCH_ARMS, {"remove": [2]}, ["/remove/0"]), (PATCH_ARMS, {"put": []}, ["/put"]),
    (TENANT, [], [""]), (TENANT, {"algorithm": 1}, ["/algorithm"]), (TENANT, {"algorithm": "magic"}, ["/algorithm"]),
    (TENANT, {"context_dim": -1}, ["/context_dim"]), (TENANT, {"arm_dim": 4097}, ["/arm_dim"]), (TENANT, {"arm_dim": 1.5}, ["/arm_dim"]),
    (TENANT, {"user_kernel": "laplacian"}, ["/user_kernel"]), (TENANT, {"user_kernel": {"type": "cosine"}}, ["/user_kernel/type"]),
    (TENANT, {"user_kernel": {"rho": 0}}, ["/user_kernel/rho"]), (TENANT, {"user_kernel": {"rho": -1}}, ["/user_kernel/rho"]),
    (TENANT, {"user_kernel": {"population": -0.5}}, ["/user_kernel/population"]),
    (TENANT, {"user_kernel": {"normalize": "no"}}, ["/user_kernel/normalize"]),
    (TENANT, {"user_kernel": {"taste": 1}}, ["/user_kernel/taste"]),
    (TENANT, {"representation": {"lambda": 0}}, ["/representation/lambda"]),
    (TENANT, {"representation": {"mu": -1}}, ["/representation/mu"]), (TENANT, {"representation": {"gamma": 0}}, ["/representation/gamma"]),
    (TENANT, {"representation": {"epsilon": 1}}, ["/representation/epsilon"]),
    (TENANT, {"representation": {"threshold": 0}}, ["/representation/threshold"]),
    (TENANT, {"representation": {"max_dictionary": 0}}, ["/representation/max_dictionary"]),
    (TENANT, {"representation": {"max_dictionary": 5000}}, ["/representation/max_dictionary"]),
    (TENANT, {"representation": {"exact_limit": 20000}}, ["/representation/exact_limit"]),
    (TENANT, {"representation": {"type": "magic"}}, ["/representation/type"]),
    (TENANT, {"confidence": {"beta": -1}}, ["/confidence/beta"]), (TENANT, {"confidence": {"delta": 1}}, ["/confidence/delta"]),
    (TENANT, {"confidence": {"noise": 0}}, ["/confidence/noise"]), (TENANT, {"confidence": {"norm_bound": "big"}}, ["/confidence/norm_bound"]),
    (TENANT, {"rule": {"type": "greedy"}}, ["/rule/type"]), (TENANT, {"rule": {"epsilon": 1.01}}, ["/rule/epsilon"]),
    (TENANT, {"reward_window_s": 0}, ["/reward_window_s"]), (TENANT, {"reward_window_s": "1h"}, ["/reward_window_s"]),
    (TENANT, {"default_reward": "zero"}, ["/default_reward"]), (TENANT, {"aggregation": "mean"}, ["/aggregation"]),
    (TENANT, {"forgetting": {"type": "window", "discount": 1, "half_life_s": 0}}, ["/forgetting/type", "/forgetting/discount", "/forgetting/half_life_s"]),
    (TENANT, {"forgetting": {"discount": 0, "half_life_s": "1 day", "rate": 1}}, ["/forgetting/discount", "/forgetting/half_life_s", "/forgetting/rate"]),
    (TENANT, {"forgetting": "none"}, ["/forgetting"]),
    (TENANT, {"durability": "never"}, ["/durability"]), (TENANT, {"seed": -1}, ["/seed"]), (TENANT, {"seed": 2**53}, ["/seed"]),
    (TENANT, {"seed": 0.5}, ["/seed"]), (TENANT, {"pending": "wait"}, ["/pending"]), (TENANT, {"colour": "red"}, ["/colour"]),
    (TENANT, {"arm_dim": 1, "arm_kernel": {"type": "rbf", "lengthscale": 0}}, ["/arm_kernel/lengthscale"]),
    (TENANT, {"arm_dim": 1, "arm_kernel": {"lengthscale": "mean"}}, ["/arm_kernel/lengthscale"]),
    (TENANT, {"arm_dim": 1, "arm_kernel": {"type": "polynomial", "degree": 9}}, ["/arm_kernel/degree"]),
    (TENANT, {"arm_dim": 1, "arm_kernel": {"type": "polynomial", "offset": -1}}, ["/arm_kernel/offset"]),
    (TENANT, {"seed": -1, "rule": {"epsilon": 2}, "user_kernel": {"rho": 0, "x": 1}},
     ["/seed", "/rule/epsilon", "/user_kernel/rho", "/user_kernel/x"]),
]

# Faults that need the tenant's configuration or catalogue to be seen.
BY_MEANING = [
    (SELECT, {"user": "u"}, ["/context"]), (SELECT, {"user": "u", "context": [1]}, ["/context"]),
    (SELECT, {"user": "u", "context": [1, 2, 3]}, ["/context"]),
    (SELECT, {"user": "u", "context": [0, 0], "candidates": [{"id": "x", "features": [1]}]}, ["/candidates/0/features"]),
    (SELECT, {"user": "u", "context": [0, 0], "candidates": ["a1", "a2", "a1"]}, ["/candidates/2"]),
    (SELECT, {"user": "é" * 129, "context": [0, 0]}, ["/user"]),
    (OBSERVE, {"user": "u", "arm": "a1", "reward": 1}, ["/context"]),
    (OBSERVE, {"user": "u", "arm": {"id": "x", "features": [1, 2]}, "reward": 1, "context": [0, 0]}, ["/arm/features"]),
    (PUT_GRAPH, {"edges": [["a", "b", 1], ["a", "a", 1]]}, ["/edges/1"]),
    (PUT_GRAPH, {"edges": [["a", "b", 1], ["b", "c", 1], ["b", "a", 2]]}, ["/edges/2"]),
    (PATCH_GRAPH, {"add": [["a", "a", 1]]}, ["/add/0"]),
    (PUT_ARMS, {"arms": [{"id": "a", "features": [1, 2]}]}, ["/arms/0/features"]),
    (PUT_ARMS, {"arms": [{"id": "a", "features": [1, 2, 3]}, {"id": "a", "features": [1, 2, 3]}]}, ["/arms/1"]),
]

# JSON numbers that overflow, which json.dumps cannot write.
OVERFLOW = [(SELECT, '{"user":"u","context":[1e999,0]}'), (REWARD, '{"decision":"open","reward":1e999}'),
            (OBSERVE, '{"user":"u","context":[0,0],"arm":"a1","reward":-1e999}'), (PUT_GRAPH, '{"edges":[["a","b",1e400]]}')]


@pytest.fixture(scope="module")
def bad(server):
    """A tenant with something in every part, and an open decision."""
    client = Client(server, tenant="bad")
    client.put_tenant("bad", algorithm="laplaced", context_dim=2, arm_dim=3)
    client.put_arms("bad", [{"id": f"a{i}", "features": [i, 1, 0]} for i in range(3)])
    client.put_graph("bad", [["u", "v", 1]])
    client.select("u", context=[0, 1], decision="open")
    client.observe("u", "a1", 0.5, context=[0, 0])
    return client


def state(client):
    model = client.model("bad")
    return model["digest"], model["seq"], model["version"]


def same_pointer(got, wanted):
    """A fault may be named at the value or, for fields of a wrong length, below it."""
    return got == wanted or got.startswith(wanted + "/") and wanted != ""


def check(client, route, pointers, status, **body):
    before = state(client)
    answer = client.call(*route, expect=status, **body)
    assert state(client) == before
    for wanted in pointers:
        assert any(same_pointer(got, wanted) for got in answer.pointers), (wanted, answer.json)
    assert all(any(same_pointer(got, wanted) for wanted in pointers) for got in answer.pointers), (pointers, answer.json)


@pytest.mark.parametrize("route", [SELECT, REWARD, ACTIVATE, OBSERVE, PUT_GRAPH, PATCH_GRAPH, PUT_ARMS, PATCH_ARMS, TENANT],
                         ids=lambda r: " ".join(r))
def test_what_is_not_json_is_refused_everywhere(bad, route):
    for text in NOT_JSON:
        before = state(bad)
        bad.call(*route, raw=text, expect=400)
        assert state(bad) == before, text


@pytest.mark.parametrize("route, body, pointers", BY_SCHEMA, ids=lambda v: json.dumps(v)[:60])
def test_faults_of_form_are_named_and_change_nothing(bad, route, body, pointers):
    text = json.dumps(body)
    assert CONTRACT.request_errors(*route, "application/json", text), "the contract's schema would take this body"
    check(bad, route, pointers, 400, raw=text)


@pytest.mark.parametrize("route, body, pointers", BY_MEANING, ids=lambda v: json.dumps(v)[:60])
def test_faults_of_meaning_are_named_and_change_nothing(bad, route, body, pointers):
    check(bad, route, pointers, 400, body=body)


@pytest.mark.parametrize("route, text", OVERFLOW)
def test_numbers_must_be_finite(bad, route, text):
    before = state(bad)
    bad.call(*route, raw=text, expect=400)
    assert state(bad) == before


@pytest.mark.parametrize("lines, pointers", [
    ('["a","b",1]\n["b","c","x"]\n', ["/1/2"]), ('["a","b"]\n["b"]\n', ["/1"]), ('["a","b"]\n["b","c",-1]\n["c",3]\n', ["/1/2", "/2/1"]),
    ('["a","b"]\n["c","c"]\n', ["/1"])])
def test_ndjson_faults_name_the_line(bad, lines, pointers):
    check(bad, PUT_GRAPH, pointers, 400, raw=lines, kind=NDJSON)


def test_ndjson_with_a_broken_line_is_refused(bad):
    for route, lines in ((PUT_GRAPH, '["a","b"]\n["a",\n'), (PUT_ARMS, '"x"\n{"id":\n'), (OBSERVE, '{"user":"u"\n')):
        before = state(bad)
        bad.call(*route, raw=lines, kind=NDJSON, expect=400)
        assert state(bad) == before


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "application/jsonx"])
@pytest.mark.parametrize("route", [SELECT, REWARD, ACTIVATE, OBSERVE, PUT_GRAPH, PATCH_GRAPH, PUT_ARMS, PATCH_ARMS, TENANT],
                         ids=lambda r: " ".join(r))
def test_other_content_types_answer_415(bad, route, kind):
    check(bad, route, [], 415, raw="{}", kind=kind)


@pytest.mark.parametrize("route", [SELECT, REWARD, ACTIVATE, PATCH_GRAPH, PATCH_ARMS, TENANT], ids=lambda r: " ".join(r))
def test_ndjson_where_it_is_not_offered_answers_415(bad, route):
    check(bad, route, [], 415, raw="{}\n", kind=NDJSON)


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", ""])
def test_json_may_be_declared_in_more_than_one_way(bad, kind):
    bad.session.headers.pop("Content-Type", None)
    before = state(bad)
    response = bad.session.post(bad.server.url + "/select", data=json.dumps({"user": "u", "context": [0, 0], "dry_run": True}),
                                headers={"Laplaced-Tenant": "bad", **({"Content-Type": kind} if kind else {})})
    CONTRACT.check_response("POST", "/select", response)
    assert response.status_code == 200 and state(bad) == before


def test_what_curl_sends_by_default_is_taken_but_not_from_a_web_page(bad):
    form, body = "application/x-www-form-urlencoded", json.dumps({"user": "u", "context": [0, 0], "dry_run": True})
    for origin, status in ((None, 200), ("http://evil.example", 415)):
        response = bad.session.post(bad.server.url + "/select", data=body,
                                    headers={"Laplaced-Tenant": "bad", "Content-Type": form, **({"Origin": origin} if origin else {})})
        CONTRACT.check_response("POST", "/select", response)
        assert response.status_code == status


def test_bodies_beyond_the_limit_answer_413(boot):
    client = Client(boot("--max-body", "65536", "--max-bulk-body", "131072", "--max-observe-body", "131072"), tenant="default")
    small, large = json.dumps({"user": "u" * 70000}), json.dumps({"edges": [["a" * 200, "b" * 200]] * 400})
    for route in (SELECT, REWARD, ACTIVATE):
        client.call(*route, raw=small, expect=413)
    client.call("PUT", "/tenants/default", raw=small, expect=413)
    client.call("POST", "/tenants/default/compact", raw=small, expect=413)
    for part in ("graph", "arms"):
        for method in ("PUT", "PATCH"):
            client.call(method, f"/tenants/default/{part}", raw=large, expect=413)
    client.call(*OBSERVE, raw=large, kind=NDJSON, expect=413)
    assert client.select("u", candidates=["a"])["arm"] == "a"
