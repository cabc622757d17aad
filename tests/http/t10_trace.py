"""Ids of requests: in every answer, in problem documents, and from the caller's `traceparent` where that is valid.
(The harness looks at both in every test; here are the cases.)"""
import re

import pytest

from harness import Client

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
VALID = f"00-{TRACE}-00f067aa0ba902b7-01"


def request_id(answer):
    return answer.headers["Laplaced-Request"]


def test_a_valid_trace_goes_on(api):
    for header in (VALID, VALID[:-2] + "00", "cc" + VALID[2:] + "-what-may-come"):
        assert request_id(api.call("GET", "/healthz", headers={"traceparent": header})) == TRACE


@pytest.mark.parametrize("header", [VALID.upper(), "ff" + VALID[2:], VALID + "-x", VALID[:-1], f"00-{'0' * 32}-{'1' * 16}-01",
                                    f"00-{TRACE}-{'0' * 16}-01", "x", ""])
def test_an_invalid_trace_is_ignored(api, header):
    assert request_id(api.call("GET", "/healthz", headers={"traceparent": header})) != TRACE


def test_ids_are_new_for_each_request(api):
    ids = {request_id(api.call("GET", "/healthz")) for _ in range(200)}
    assert len(ids) == 200


def test_problems_carry_the_id(api, name):
    cases = [("GET", "/nowhere", 404, None), ("GET", "/select", 405, None), ("POST", "/select", 400, "{"),
             ("GET", f"/tenants/{name}/model", 404, None)]
    for method, path, status, raw in cases:
        answer = api.call(method, path, raw=raw, expect=status, headers={"traceparent": VALID})
        assert answer.json["instance"] == f"urn:laplaced:request:{TRACE}", (method, path)


def test_answers_of_the_writer_of_files_and_without_body_carry_it(api, name):
    sent = {"traceparent": VALID}
    api.put_tenant(name)
    assert request_id(api.call("POST", "/observe", {"user": "u", "arm": "a", "reward": 1}, tenant=name, headers=sent)) == TRACE
    assert request_id(api.call("GET", f"/tenants/{name}/export", headers=sent)) == TRACE
    assert request_id(api.call("GET", f"/tenants/{name}/events", headers=sent)) == TRACE
    assert request_id(api.call("DELETE", f"/tenants/{name}", expect=204, headers=sent)) == TRACE


def test_who_has_no_key_gets_an_id_to_quote(boot, tmp_path):
    (tmp_path / "keys").write_text("a-key-of-more-than-16-characters\n")
    server = boot("--admin-key-file", str(tmp_path / "keys"))
    answer = Client(server).call("GET", "/tenants", expect=401)
    assert re.fullmatch(f"urn:laplaced:request:{request_id(answer)}", answer.json["instance"])
