"""Every problem has a type, every type a page, and the three lists of them agree: docs/ERRORS.md, the tables of problem.c, and
the enumeration of openapi.yaml. What the HTTP library refuses by itself has no document: the contract lists those cases."""
import re

import pytest

import r10_connections as connections
from contract import CONTRACT, ROOT
from harness import Client
from raw import Raw, request

PAGE = (ROOT / "docs" / "ERRORS.md").read_text()
SECTIONS = {m[1]: m[2] for m in re.finditer(r"^## ([a-z-]+)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)}
ENUM = CONTRACT.doc["components"]["schemas"]["ProblemType"]["enum"]
SOURCE = (ROOT / "server" / "base" / "problem.c").read_text()


def tables():
    """{slug: status} of the rows of problem.c."""
    rows = re.findall(r'\{(\d{3}), (?:"[^"]*", )?"/problems/([a-z-]+)"\}', SOURCE)
    return {slug: int(status) for status, slug in rows}


# --- the lists -----------------------------------------------------------------------------------------------------------


def test_page_tables_and_contract_have_the_same_problems():
    assert sorted(SECTIONS) == sorted(tables()) == sorted(t.removeprefix("/problems/") for t in ENUM)
    assert len(ENUM) == len(set(ENUM)) > 20


@pytest.mark.parametrize("slug", SECTIONS)
def test_each_section_has_status_cause_and_mend(slug):
    status, rest = SECTIONS[slug].strip().split(".", 1)
    cause, mend = rest.split("**What to do.**")
    assert int(status) == tables()[slug] and len(cause.split()) > 5 and len(mend.split()) > 2


def test_no_status_of_a_problem_is_left_without_a_type():
    """What is answered at all, but for those that are none of a problem's or the library's alone."""
    documented = {int(status) for _, status in CONTRACT.documented_statuses()} | {int(s) for s in CONTRACT.doc["x-any-path"] if s.isdigit()}
    assert {s for s in documented if s >= 400} <= set(tables().values())


# --- the pages -------------------------------------------------------------------------------------------------------------


def test_the_page_is_served(api):
    answer = api.call("GET", "/problems")
    assert answer.text == PAGE and answer.headers["Content-Type"] == "text/markdown; charset=utf-8"


@pytest.mark.parametrize("path", ENUM)
def test_every_types_path_is_its_section(api, path):
    slug = path.removeprefix("/problems/")
    assert api.call("GET", path).text.rstrip("\n") == f"## {slug}\n{SECTIONS[slug]}".rstrip("\n")


@pytest.mark.parametrize("path", ["nothing", "no", "no-tenantx", "No-Tenant", "no-tenant%0A", "What%20has%20no%20document", "%2E%2E", "no-tenant%00"])
def test_other_names_are_no_problems(api, path):
    answer = api.call("GET", f"/problems/{path}", expect=(400, 404))
    assert answer.status == 400 or answer.json["type"] == "/problems/no-route"


def test_pages_are_for_everybody_and_for_reading_alone(boot, tmp_path):
    (tmp_path / "keys").write_text("a-key-of-some-length-1234\n")
    api = Client(boot("--admin-key-file", str(tmp_path / "keys")))
    for path in ("/problems", "/problems/no-tenant", "/", "/favicon.ico"):
        api.call("GET", path, expect=(200, 204))
    api.call("POST", "/problems", {}, expect=401)
    api.call("GET", "/problems/a/b", expect=401)


# --- types of what is not there -------------------------------------------------------------------------------------------


def type_of(api, method, path, body=None, expect=404, **options):
    return api.call(method, path, body, expect=expect, **options).json["type"].removeprefix("/problems/")


def test_each_404_says_what_is_not_there(api, name):
    api.put_tenant(name)
    api.select("u", candidates=["a", "b"], decision="d", tenant=name)
    assert type_of(api, "POST", "/reward", {"decision": "x", "reward": 1}, tenant=name) == "no-decision"
    assert type_of(api, "POST", "/activate", {"decision": "x"}, tenant=name) == "no-decision"
    assert type_of(api, "POST", "/reward", {"decision": "d", "arm": "c", "reward": 1}, tenant=name) == "no-arm"
    assert type_of(api, "DELETE", f"/tenants/{name}/users/nobody") == "no-user"
    assert type_of(api, "DELETE", f"/tenants/{name}/users/" + "x" * 257) == "no-user"
    assert type_of(api, "DELETE", f"/tenants/{name}/keys/0123456789abcdef") == "no-key"
    assert type_of(api, "DELETE", "/keys/0123456789abcdef") == "no-key"
    assert type_of(api, "GET", f"/tenants/{name}/nothing") == "no-route"


def test_a_closed_decision_knows_its_arms(api, name):
    api.put_tenant(name)
    api.select("u", candidates=["a", "b"], decision="d", tenant=name)
    api.reward("d", 1, tenant=name)
    assert type_of(api, "POST", "/reward", {"decision": "d", "arm": "c", "reward": 1}, tenant=name) == "no-arm"


HARMLESS = [n for n, (_, _, op) in sorted(CONTRACT.operations.items()) if "404" in op["responses"] and n not in ("problem",)]


@pytest.mark.parametrize("operation", HARMLESS)
def test_every_operation_on_a_tenant_that_is_not_there_says_so(api, operation):
    import keyring
    from a06_contract import concrete
    if not keyring.names_a_tenant(operation):
        return
    verb, _, op = CONTRACT.operations[operation]
    bodies = {"select": {"user": "u", "candidates": ["a"]}, "reward": {"decision": "d", "reward": 1}, "activate": {"decision": "d"},
              "observe": {"user": "u", "arm": "a", "reward": 1}}
    path = concrete(keyring.template_of(operation).replace("{tenant}", "nobody"))
    answer = api.call(verb.upper(), path, bodies.get(operation, {"no such field": 1}) if "requestBody" in op else None,
                      tenant="nobody" if operation in keyring.BY_HEADER else None, expect=(400, 404, 415))
    if answer.status == 404 and "error" in answer.json:
        assert answer.json["error"]["code"] == "ResourceNotFound"
    elif answer.status == 404 and operation in CONTRACT.flags:
        assert answer.json["errorCode"] == "FLAG_NOT_FOUND"
    elif answer.status == 404:
        assert answer.json["type"] == ("/problems/no-key" if operation == "revokeTenantKey" else "/problems/no-tenant")
    else:
        assert op["requestBody"], answer.text


def test_rewards_of_an_array_are_told_their_types(api, name):
    api.put_tenant(name)
    api.select("u", candidates=["a", "b"], decision="d", tenant=name)
    api.reward("d", 1, tenant=name)
    api.select("u", candidates=["a", "b"], decision="e", tenant=name)
    told = api.call("POST", "/reward", [{"decision": "x", "reward": 1}, {"decision": "d", "reward": 0}, {"decision": "e", "arm": "c", "reward": 1}],
                    tenant=name).json
    assert [(t["type"], t["status"]) for t in told] == [("/problems/no-decision", 404), ("/problems/conflict", 409), ("/problems/no-arm", 404)]


# --- what the library says by itself ---------------------------------------------------------------------------------------

PROSE = " ".join(CONTRACT.doc["info"]["description"].split("**Without a document.**")[1].split("\n\n")[0].split())

# The words of the contract under which each of the cases falls.
FALLS_UNDER = {
    "a length beyond all numbers": "beyond 64 bits (413); a chunk",
    "a chunk size beyond all numbers": "or whose size is beyond 64 bits (413)",
    "a chunk longer than its size": "is not the size of its data (400)",
    "a line without a colon": "a header line, or a line of a trailer, without a colon (400)",
    "a trailer without a colon": "a header line, or a line of a trailer, without a colon (400)",
    "no version": "a request line without a version",
    "a version in small letters": "one that is not spelled `HTTP/`, digit, dot, digit (400)",
    "HTTP/0.9": "another version than `HTTP/1.x` (505)",
    "HTTP/2": "another version than `HTTP/1.x` (505)",
    "a head beyond all measure": "headers or a trailer (431) that do not fit",
    "a trailer beyond all measure": "headers or a trailer (431) that do not fit",
    "a target beyond all measure": "a request line (414)",
    "many small headers": "each header takes 64 bytes of it beside its text",
    "a long cookie": "a `Cookie` its length",
    "many cookies": "and 64 bytes for each pair once more",
}


def chunked(trailer):
    return connections.post("Transfer-Encoding: chunked", body=b"2\r\n{}\r\n0\r\n" + trailer + b"\r\n\r\n")


CASES = {
    **connections.LIBRARY,
    "a trailer without a colon": (chunked(b"Ab"), 400),
    "a trailer beyond all measure": (chunked(b"A: " + b"b" * 100000), 431),
    "many small headers": (request("GET", "/healthz", *["A: b"] * 400), 431),
    "a long cookie": (request("GET", "/healthz", "Cookie: a=" + "b" * 14000), 431),
    "many cookies": (request("GET", "/healthz", "Cookie: " + "a=b; " * 1000), 431),
}


def words_of(case):
    if case in FALLS_UNDER:
        return FALLS_UNDER[case]
    return "a `Content-Length` that is no number (400)" if "length" in case else "a chunk whose size is no number"


@pytest.mark.parametrize("case", CASES)
def test_what_has_no_document_is_listed(server, case):
    data, status = CASES[case]
    with Raw(server) as raw:
        answer = raw.send(data).answer()
        assert answer.status == status and b"<html>" in answer.body and not {"content-type", "laplaced-request"} & set(answer.headers)
        assert answer.headers["connection"] == "close" and raw.is_closed()
    assert words_of(case) in PROSE
    listed = dict(re.findall(r"^\| (\d{3}) \| (.*) \|$", PAGE.split("## What has no document")[1], re.M))
    assert str(status) in listed


@pytest.mark.parametrize("line", [b"GET", b"\x16\x03\x01", b"healthz"])
def test_a_line_without_a_blank_has_no_answer_at_all(server, line):
    with Raw(server) as raw:
        assert raw.send(line + b"\r\n\r\n").answer() is None and raw.is_closed()
    assert "A request line without a blank ends the connection without an answer" in PROSE


@pytest.mark.parametrize("headers", [["A: b"] * 101, ["A: b"] * 200, ["Cookie: a=" + "b" * 8000], ["Cookie: " + "a=b; " * 200]])
def test_what_fits_has_a_document_or_is_served(server, headers):
    with Raw(server) as raw:
        answer = raw.send(request("GET", "/healthz", *headers)).answer()
        assert answer.status == (431 if len(headers) > 100 else 200) and "laplaced-request" in answer.headers


def test_all_other_heads_that_are_refused_have_a_document(server):
    for case, (data, status) in connections.HEADS.items():
        with Raw(server) as raw:
            answer = raw.send(data).answer()
            assert answer.status == status and answer.is_problem and "laplaced-request" in answer.headers, case


@pytest.mark.parametrize("option, room", [(1 << 14, 24 << 10), (1 << 10, 16 << 10), (1 << 16, 72 << 10)])
def test_a_head_that_fits_the_memory_has_a_document(boot, option, room):
    """The two sides of the figure that the contract gives: what is stored beside a head takes some of that memory."""
    server = boot("--max-header", str(option))
    for n, is_ours in ((room - 2048, True), (room + 512, False)):
        with Raw(server) as raw:
            answer = raw.send(request("GET", "/healthz", "A: " + "b" * (n - 38))).answer()
            assert answer.status == 431 and answer.is_problem == is_ours, (n, answer.body)
