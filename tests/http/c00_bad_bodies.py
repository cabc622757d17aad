"""Broken bodies for every route that takes one: each is refused with the right status and pointers, and changes nothing."""
import json

import pytest

from bodies import ARM_DIM, CONTEXT_DIM, KINDS, all_cases, cut
from contract import CONTRACT, NDJSON
from harness import Client, Server

SELECT, REWARD, ACTIVATE, OBSERVE = (("POST", f"/{part}") for part in ("select", "reward", "activate", "observe"))
TENANT, PUT_GRAPH, PATCH_GRAPH = ("PUT", "/tenants/bad"), ("PUT", "/tenants/bad/graph"), ("PATCH", "/tenants/bad/graph")
PUT_ARMS, PATCH_ARMS, COMPACT = ("PUT", "/tenants/bad/arms"), ("PATCH", "/tenants/bad/arms"), ("POST", "/tenants/bad/compact")
EVALUATE, POSTERIOR = ("POST", "/tenants/bad/evaluations"), ("POST", "/tenants/bad/posterior")
ROUTES = {"select": SELECT, "reward": REWARD, "activate": ACTIVATE, "observe": OBSERVE, "settings": TENANT, "graph": PUT_GRAPH,
          "graph_patch": PATCH_GRAPH, "arms": PUT_ARMS, "arms_patch": PATCH_ARMS, "compact": COMPACT, "evaluation": EVALUATE, "key": ("POST", "/keys"),
          "tenant_key": ("POST", "/tenants/bad/keys"), "limits": ("PUT", "/tenants/bad/limits"),
          "repair": ("POST", "/tenants/bad/repair"), "posterior": POSTERIOR,
          "promote": ("POST", "/tenants/bad/promote"), "rollback": ("POST", "/tenants/bad/rollback")}
MERGED = [("PATCH", "/tenants/bad")]  # has no schema of its own: its bodies are those of a configuration (a15_patch.py)
FIRST_LINES = {"replay": ("POST", "/tenants/bad/replay")}  # of a body in lines
BY_LINES = {PUT_GRAPH: '["a","b"]', PUT_ARMS: '"x"', OBSERVE: '{"user":"u","context":[0,0],"arm":"a1","reward":1}'}

# Texts that no JSON reader takes, and where they are found out: (line, column, byte) of the last character that was read.
NOT_JSON = [(" \n ", 2, 1, 3), ("{", 1, 1, 1), ("}", 1, 1, 1), ("nul", 1, 3, 3), ("{'user':'u'}", 1, 2, 2), ('{"user":"u",}', 1, 13, 13),
            ('{"user":NaN}', 1, 11, 11), ('{"user":Infinity}', 1, 16, 16), ('{"user":-Infinity}', 1, 9, 9), ('{"a":1}{"b":2}', 1, 8, 8),
            ('{"user":"u"}\n trailing', 2, 9, 22), ('{"user":"\\ud800"}', 1, 16, 16), ('{"user":"\\udc00x"}', 1, 17, 17),
            ('{"user":"u",\n "user":"v"}', 2, 7, 20), ('{"":1,"":2}', 1, 8, 8), ('{"user":01}', 1, 9, 9), ('{"reward":+1}', 1, 11, 11),
            ('{"reward":.5}', 1, 11, 11), ('{"reward":1.}', 1, 12, 12), ('{"reward":1e999}', 1, 15, 15), ('{"reward":-1e999}', 1, 16, 16),
            ('{"reward":%s}' % ("9" * 400), 1, 410, 410), ('{"reward":0x10}', 1, 12, 12), ('{"reward":1e}', 1, 12, 12), ('{"user":"a\tb"}', 1, 10, 10),
            (b'{"user":"\xff\xfe"}', 1, 9, 9), (b'{"user":"\xc0\x80"}', 1, 9, 9), (b'{"user":"\xed\xa0\x80"}', 1, 9, 9),
            (b'{"user":"\xf4\x90\x80\x80"}', 1, 9, 9), (b'{"user":"\xc3"}', 1, 9, 9), (b"\x00", 1, 1, 1), (b'{"user":"a\x00b"}', 1, 10, 10),
            (b'{"user":"u"}\x00', 1, 13, 13), (b"\xef\xbb\xbf{}", 1, 1, 3), ('{"user":"a\\u0000b"}', 1, 18, 18), ("// no\n{}", 1, 1, 1),
            ("{}".encode("utf-16"), 1, 0, 0)]
TOO_DEEP = [("[" * 17 + "]" * 17, 17), ('{"a":' * 17 + "1" + "}" * 17, 81), ("[" * 100000, 17), ('{"a":' * 100000, 81), ("[" * 100000 + "]" * 100000, 17)]

# Faults that need the tenant's configuration or catalogue to be seen.
BY_MEANING = [
    (SELECT, {"user": "u"}, ["/context"]), (SELECT, {"user": "u", "context": [1]}, ["/context"]),
    (SELECT, {"user": "u", "context": [1, 2, 3]}, ["/context"]),
    (SELECT, {"user": "u", "context": [0, 0], "candidates": [{"id": "x", "features": [1]}]}, ["/candidates/0/features"]),
    (SELECT, {"user": "u", "context": [0, 0], "candidates": ["a1", "a2", "a1"]}, ["/candidates/2"]),
    (SELECT, {"user": "é" * 129, "context": [0, 0]}, ["/user"]),
    (POSTERIOR, {"users": ["u"]}, ["/context"]), (POSTERIOR, {"users": ["u"], "context": [1]}, ["/context"]),
    (POSTERIOR, {"users": ["u"], "context": [0, 0], "arms": [{"id": "x", "features": [1]}]}, ["/arms/0/features"]),
    (POSTERIOR, {"users": ["u"], "context": [0, 0], "arms": ["a1", "x"]}, ["/arms/1"]),
    (POSTERIOR, {"users": ["u"], "context": [0, 0], "arms": ["a1", "a2", "a1"]}, ["/arms/2"]),
    (POSTERIOR, {"users": ["u", "é" * 129], "context": [0, 0]}, ["/users/1"]),
    (POSTERIOR, {"users": ["u"] * 334, "context": [0, 0]}, ["/arms"]),
    (POSTERIOR, {"users": ["u"] * 334, "context": [0, 0], "arms": ["a0", "a1", "a2"]}, ["/users"]),
    (OBSERVE, {"user": "u", "arm": "a1", "reward": 1}, ["/context"]),
    (OBSERVE, {"user": "u", "arm": {"id": "x", "features": [1, 2]}, "reward": 1, "context": [0, 0]}, ["/arm/features"]),
    (PUT_GRAPH, {"edges": [["a", "b", 1], ["a", "a", 1]]}, ["/edges/1"]),
    (PUT_GRAPH, {"edges": [["a", "b", 1], ["b", "c", 1], ["b", "a", 2]]}, ["/edges/2"]),
    (PATCH_GRAPH, {"add": [["a", "a", 1]]}, ["/add/0"]),
    (PUT_ARMS, {"arms": [{"id": "a", "features": [1, 2]}]}, ["/arms/0/features"]),
    (PUT_ARMS, {"arms": [{"id": "a", "features": [1, 2, 3]}, {"id": "a", "features": [1, 2, 3]}]}, ["/arms/1"]),
]

@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    """A tenant with something in every part, and an open decision. The server takes numbers as large as the schemas say."""
    server = Server(tmp_path_factory.mktemp("bad"), "--max-magnitude", "1e30").start()
    yield filled(server)
    server.close()


def filled(server):
    client = Client(server, tenant="bad")
    client.put_tenant("bad", algorithm="laplaced-kors", context_dim=CONTEXT_DIM, arm_dim=ARM_DIM)
    client.put_arms("bad", [{"id": f"a{i}", "features": [i, 1, 0]} for i in range(3)])
    client.put_graph("bad", [["u", "v", 1]])
    client.select("u", context=[0, 1], decision="open")
    client.observe("u", "a1", 0.5, context=[0, 0])
    return client


def state(client):
    """All that a body might have changed."""
    tenant = "/tenants/bad"
    stats = client.stats("bad")
    return (client.model("bad"), client.events("bad")[-3:], client.call("GET", "/tenants").json, client.call("GET", "/keys").json,
            {k: v for k, v in stats.items() if k != "window"},
            *(client.call("GET", f"{tenant}{part}").json for part in ("", "/graph", "/arms", "/keys", "/limits")))


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


def test_every_route_that_takes_a_body_is_tried():
    takes = {(method, pattern.pattern) for method, pattern, op in CONTRACT.operations.values()
             if "application/json" in op.get("requestBody", {}).get("content", {}) and op["operationId"] not in CONTRACT.flags}
    tried = {CONTRACT.operations[CONTRACT.find(*route)[0]][:2] for route in [*ROUTES.values(), *MERGED]}
    assert takes == {(method, pattern.pattern) for method, pattern in tried} and {*ROUTES, *FIRST_LINES} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_any_place_is_named_and_changes_nothing(bad, kind):
    """Those of c05_body_rules.py, which are some hundred for each kind of body, through the front door."""
    before, n = state(bad), 0
    for body, pointer in all_cases(kind):
        if pointer is None:
            continue
        if kind in ROUTES:
            answer = bad.call(*ROUTES[kind], raw=json.dumps(body), expect=400)
        else:
            answer = bad.call(*FIRST_LINES[kind], raw=json.dumps(body), kind=NDJSON, expect=400)
            pointer = f"/0{pointer}"
        assert answer.pointers == [cut(pointer)], (pointer, answer.json, json.dumps(body)[:300])
        n += 1
    assert n > 15 and state(bad) == before


@pytest.mark.parametrize("route", [*ROUTES.values(), *MERGED], ids=" ".join)
def test_what_is_not_json_is_refused_everywhere(bad, route):
    before = state(bad)
    assert bad.call(*route, raw="", expect=400).json["detail"] == "the body is empty; JSON is expected"
    for text, line, column, byte in NOT_JSON:
        answer = bad.call(*route, raw=text, expect=400)
        assert answer.json["detail"] == "the body is not JSON" and len(answer.json["errors"]) == 1
        assert answer.json["errors"][0]["detail"].startswith(f"line {line}, column {column}, byte {byte}: "), (text, answer.json)
    for text, byte in TOO_DEEP:
        answer = bad.call(*route, raw=text, expect=400)
        assert answer.json["errors"][0]["detail"] == f"byte {byte}: nested deeper than 16 levels"
    assert state(bad) == before


def test_faults_of_the_text_are_named_by_pointer(bad):
    for text, pointer in (('{"user":"u","user":"v"}', "/user"), ('{"a":{"b":[1,{"c":1,"c":2}]}}', "/a/b/1/c"), ('{"":1,"":2}', "/"),
                          ('{"context":[1,1e999]}', "/context/1"), ('{"user":"a\\u0000b"}', "/user"), (b'{"user":"\xff"}', "/user")):
        assert bad.call(*SELECT, raw=text, expect=400).pointers == [pointer], text
    for text, word in ((b"\xef\xbb\xbf{}", "byte order mark"), (b"{\x00}", "NUL")):
        assert word in bad.call(*SELECT, raw=text, expect=400).json["errors"][0]["detail"]


@pytest.mark.parametrize("number", ["-0", "-0.0", "1E0", "10e-1", "0.1e1", "1.0", "5e-324", "123456789012345678901234567890", "1" + "0" * 30])
def test_all_spellings_of_finite_numbers_are_numbers(bad, number):
    text = '{"user":"u","context":[%s,0],"dry_run":true}' % number
    bad.call(*SELECT, raw=text)


def test_numbers_are_whole_by_value(bad):
    for number, status in (("1.0", 200), ("1e0", 200), ("100e-2", 200), ("1.5", 400), ("1e1", 200), ("17", 400), ("-0", 400)):
        bad.call(*SELECT, raw='{"user":"u","context":[0,0],"dry_run":true,"top":%s}' % number, expect=status)


@pytest.mark.parametrize("route, body, pointers", BY_MEANING, ids=lambda v: json.dumps(v)[:60])
def test_faults_of_meaning_are_named_and_change_nothing(bad, route, body, pointers):
    check(bad, route, pointers, 400, body=body)


@pytest.mark.parametrize("lines, pointers", [
    ('["a","b",1]\n["b","c","x"]\n', ["/1/2"]), ('["a","b"]\n["b"]\n', ["/1"]), ('["a","b"]\n["b","c",-1]\n["c",3]\n', ["/1/2", "/2/1"]),
    ('["a","b"]\n["c","c"]\n', ["/1"])])
def test_ndjson_faults_name_the_line(bad, lines, pointers):
    check(bad, PUT_GRAPH, pointers, 400, raw=lines, kind=NDJSON)


@pytest.mark.parametrize("route", BY_LINES, ids=" ".join)
def test_broken_lines_are_all_named(bad, route):
    """By the line, counted from 0 in pointers; line, column and byte of the whole body, counted from 1, in words."""
    good, before = BY_LINES[route], state(bad)
    for last in ("", "\n"):
        text = f"{good}\r\n\r\n  \n{good} x\n{good}\n[01]{last}"
        answer = bad.call(*route, raw=text, kind=NDJSON, expect=400)
        at = [len(f"{good}\r\n\r\n  \n{good} x"), len(f"{good}\r\n\r\n  \n{good} x\n{good}\n") + 2]
        assert [p.split("/")[1] for p in answer.pointers] == ["3", "5"] and answer.json["detail"] == "a line is not JSON"
        assert answer.json["errors"][0]["detail"].startswith(f"line 4, column {len(good) + 2}, byte {at[0]}: ")
        assert answer.json["errors"][1]["detail"].startswith(f"line 6, column 2, byte {at[1]}: ")
    for line in ("[" * 17 + "]" * 17, "\x00", '"\\ud800"', f"{good}{good}", "\ufeff" + good):
        assert bad.call(*route, raw=f"{good}\n{line}\n", kind=NDJSON, expect=400).pointers[0].startswith("/1")
    assert state(bad) == before


def test_lines_may_end_as_other_systems_end_them(bad, server, name):
    client = Client(server, tenant=name)
    client.put_tenant(name)
    line = '{"user":"u","arm":"a","reward":1}'
    for text, n in ((line, 1), (f"{line}\r\n{line}\r\n", 2), (f"\n\r\n {line} \n\n{line}", 2)):
        assert client.call(*OBSERVE, raw=text, kind=NDJSON).json == {"observed": n}
    too_many = f"{line}\n" * 10001
    assert client.call(*OBSERVE, raw=too_many, kind=NDJSON, expect=400).pointers == [""]
    assert client.stats(name)["observations"] == 5


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "application/jsonx"])
@pytest.mark.parametrize("route", ROUTES.values(), ids=" ".join)
def test_other_content_types_answer_415(bad, route, kind):
    check(bad, route, [], 415, raw="{}", kind=kind)


@pytest.mark.parametrize("route", [r for r in ROUTES.values() if r not in BY_LINES], ids=" ".join)
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
    for part in ("compact", "promote", "rollback", "repair", "posterior", "evaluations"):
        client.call("POST", f"/tenants/default/{part}", raw=small, expect=413)
    for part in ("graph", "arms"):
        for method in ("PUT", "PATCH"):
            client.call(method, f"/tenants/default/{part}", raw=large, expect=413)
    client.call(*OBSERVE, raw=large, kind=NDJSON, expect=413)
    assert client.select("u", candidates=["a"])["arm"] == "a"
