"""What a newcomer gets wrong first is answered by what to do: vectors where the tenant has no dimensions or others, ids that are
numbers, and a decision on an empty catalogue."""
import pytest

from contract import NDJSON
from harness import Client


def faults(answer):
    return {e["pointer"]: e["detail"] for e in answer.json["errors"]}


def refused(api, method, path, body, **options):
    return faults(api.call(method, path, body, expect=400, **options))


# --- dimensions ----------------------------------------------------------------------------------------------------------

NO_CONTEXT = "the tenant's context_dim is 0: leave this out, or configure context_dim"
NO_FEATURES = "the tenant's arm_dim is 0: leave this out, or configure arm_dim"


def test_vectors_where_there_are_no_dimensions(api, name):
    api.put_tenant(name)
    own = {"tenant": name}
    arm = {"id": "a", "features": [1, 2]}
    assert refused(api, "POST", "/select", {"user": "u", "context": [1], "candidates": [arm]}, **own) == {
        "/context": NO_CONTEXT, "/candidates/0/features": NO_FEATURES}
    assert refused(api, "POST", "/observe", {"user": "u", "context": [1], "arm": arm, "reward": 1}, **own) == {
        "/context": NO_CONTEXT, "/arm/features": NO_FEATURES}
    assert refused(api, "POST", "/observe", [{"user": "u", "context": [1], "arm": "a", "reward": 1}], kind=NDJSON, **own) == {"/0/context": NO_CONTEXT}
    for verb in ("PUT", "PATCH"):
        assert refused(api, verb, f"/tenants/{name}/arms", {"arms": [arm]}) == {"/arms/0/features": NO_FEATURES}
    assert refused(api, "PUT", f"/tenants/{name}/arms", [arm], kind=NDJSON) == {"/0/features": NO_FEATURES}
    api.select("u", context=[], candidates=[{"id": "a", "features": []}], tenant=name)


def test_vectors_of_another_length(api, name):
    api.put_tenant(name, context_dim=2, arm_dim=3)
    got = refused(api, "POST", "/select", {"user": "u", "context": [1], "candidates": [{"id": "a", "features": [1, 2, 3, 4]}]}, tenant=name)
    assert got == {"/context": "expected an array of 2 numbers, got 1: the tenant's context_dim is 2",
                   "/candidates/0/features": "expected an array of 3 numbers, got 4: the tenant's arm_dim is 3"}
    got = refused(api, "POST", "/select", {"user": "u", "context": "x", "candidates": [{"id": "a", "features": 1}]}, tenant=name)
    assert got == {"/context": "expected an array of 2 numbers: the tenant's context_dim is 2",
                   "/candidates/0/features": "expected an array of 3 numbers: the tenant's arm_dim is 3"}


def test_vectors_that_are_missing(api, name):
    api.put_tenant(name, context_dim=2, arm_dim=3)
    required = "required: an array of 2 numbers, since the tenant's context_dim is 2"
    assert refused(api, "POST", "/select", {"user": "u", "candidates": ["a"]}, tenant=name) == {"/context": required}
    assert refused(api, "POST", "/observe", {"user": "u", "arm": "a", "reward": 1}, tenant=name) == {"/context": required}
    for got in (refused(api, "POST", "/select", {"user": "u", "context": [1, 2], "candidates": ["a"]}, tenant=name),
                refused(api, "POST", "/observe", {"user": "u", "context": [1, 2], "arm": "a", "reward": 1}, tenant=name),
                refused(api, "PUT", f"/tenants/{name}/arms", {"arms": ["a"]})):
        assert got and all("arm_dim" in detail for detail in got.values()), got


# --- ids -------------------------------------------------------------------------------------------------------------------

IDS = [
    ("POST", "/select", {"user": "u", "candidates": [7, {"id": 8}, "b"], "exclude": [9], "decision": 10},
     {"/candidates/0": 7, "/candidates/1/id": 8, "/exclude/0": 9, "/decision": 10}),
    ("POST", "/reward", {"decision": 42, "arm": 7, "reward": 1}, {"/decision": 42, "/arm": 7}),
    ("POST", "/reward", [{"decision": 42, "reward": 1}], {"/0/decision": 42}),
    ("POST", "/activate", {"decision": 42}, {"/decision": 42}),
    ("POST", "/observe", {"user": 1, "arm": 2, "reward": 1, "id": 3}, {"/arm": 2, "/id": 3}),
    ("POST", "/observe", {"user": "u", "arm": {"id": 2}, "reward": 1}, {"/arm/id": 2}),
    ("PUT", "/tenants/{}/arms", {"arms": [1, {"id": 2}]}, {"/arms/0": 1, "/arms/1/id": 2}),
    ("PATCH", "/tenants/{}/arms", {"arms": [1], "remove": [2], "stop": [3], "start": [4]}, {"/arms/0": 1, "/remove/0": 2, "/stop/0": 3, "/start/0": 4}),
    ("PUT", "/tenants/{}/graph", {"users": [1], "edges": [[2, 3]]}, {"/users/0": 1, "/edges/0/0": 2, "/edges/0/1": 3}),
    ("PATCH", "/tenants/{}/graph", {"users": [1], "add": [[2, "v", 1]], "remove": [["u", 3]]}, {"/users/0": 1, "/add/0/0": 2, "/remove/0/1": 3}),
]


@pytest.mark.parametrize("method, path, body, told", IDS)
def test_an_id_that_is_a_number_is_shown_as_it_should_be(api, name, method, path, body, told):
    api.put_tenant(name)
    assert refused(api, method, path.format(name), body, tenant=name) == {pointer: f'ids are strings: "{n}"' for pointer, n in told.items()}


def test_each_line_of_ndjson_is_told(api, name):
    api.put_tenant(name)
    lines = [{"user": "u", "arm": "a", "reward": 1}, {"user": "v", "arm": 5, "reward": 1}]
    assert refused(api, "POST", "/observe", lines, kind=NDJSON, tenant=name) == {"/1/arm": 'ids are strings: "5"'}
    assert refused(api, "PUT", f"/tenants/{name}/graph", [[1, "v"]], kind=NDJSON) == {"/0/0": 'ids are strings: "1"'}


def test_digits_that_a_number_would_lose_are_not_shown(api):
    for text, told in (("12345678901234567890", "ids are strings, in quotes"), ("4.5", 'ids are strings: "4.5"'), ("-1", 'ids are strings: "-1"')):
        answer = api.call("POST", "/select", raw='{"user": %s, "candidates": ["a"]}' % text, expect=400)
        assert faults(answer) == {"/user": told}


def test_what_is_no_number_is_told_what_is_expected(api):
    for value in (True, None, [], {}, ""):
        assert refused(api, "POST", "/select", {"user": value, "candidates": ["a"]}) == {"/user": "expected a string of 1 to 256 bytes"}


def test_texts_that_are_no_ids_are_not_called_so(api, name):
    assert refused(api, "PUT", f"/tenants/{name}", {"routing": {"holdout": {"share": 0.1, "salt": 5}}}) == {"/routing/holdout/salt": 'expected a string: "5"'}
    assert refused(api, "POST", "/keys", {"roles": ["admin"], "label": 5}) == {"/label": 'expected a string: "5"'}


# --- the catalogue -----------------------------------------------------------------------------------------------------------


def test_a_decision_on_an_empty_catalogue_is_told_how_to_fill_it(api, name):
    api.put_tenant(name)
    told = f"the catalogue has no active arm: name candidates, or fill it by PUT /tenants/{name}/arms"
    assert refused(api, "POST", "/select", {"user": "u"}, tenant=name) == {"/candidates": told}
    assert refused(api, "POST", "/select", {"user": "u", "decision": "d"}, tenant=name) == {"/candidates": told}
    assert refused(api, "POST", "/select", {"user": "u", "dry_run": True}, tenant=name) == {"/candidates": told}
    api.put_arms(name, [{"id": "a", "active": False}])
    assert refused(api, "POST", "/select", {"user": "u"}, tenant=name) == {"/candidates": told}
    api.put_arms(name, ["a"])
    assert api.select("u", tenant=name)["arm"] == "a"
    assert refused(api, "POST", "/select", {"user": "u", "exclude": ["a"]}, tenant=name)["/candidates"]


def test_a_retry_of_a_decision_whose_catalogue_is_empty_now_is_answered_as_before(api, name):
    api.put_tenant(name)
    api.put_arms(name, ["a", "b"])
    first = api.select("u", decision="d", tenant=name)
    api.put_arms(name, [])
    assert api.select("u", decision="d", tenant=name) == first


def test_a_catalogue_that_was_opened_anew_is_not_empty(boot):
    server = boot()
    Client(server).put_arms("default", ["a", "b"])
    for again in (server.kill, server.terminate):  # from the log, and from a snapshot
        again()
        server.start()
        assert Client(server).select("u")["arm"] in ("a", "b")
