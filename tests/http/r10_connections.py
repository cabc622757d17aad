"""What a connection may carry: heads that are refused because two readers could differ about them, and the parts of
HTTP/1.1 that clients rely on. Byte by byte over sockets (RFC 9110, RFC 9112)."""
import threading
import time

import pytest

from harness import Client
from raw import Raw, decision, request

SMUGGLED = request("GET", "/openapi.yaml")  # what stands behind a request that is refused must not be served


def ask(server, *parts, **options):
    with Raw(server, **options) as raw:
        return raw.send(*parts).answer()


def assert_refused(server, data, status, is_ours=True):
    """One answer of that status, then the end: nothing behind it is read as a request."""
    with Raw(server) as raw:
        answer = raw.send(data, SMUGGLED).answer()
        assert answer is not None and answer.status == status, (answer and answer.status, data[:200])
        assert answer.is_problem == is_ours, answer.body
        assert answer.headers["connection"] == "close"
        assert raw.is_closed()
        assert raw.rest == b"" or (not is_ours and b"openapi" not in raw.rest)  # it sends some heads twice


def post(*headers, body=b"{}"):
    return request("POST", "/select", *headers, body=body)


# --- where a body ends ----------------------------------------------------------------------------------------

CHUNKED = b"2\r\n{}\r\n0\r\n\r\n"

FRAMING = {
    "two lengths that differ": (post("Content-Length: 2", "Content-Length: 3"), 400),
    "two lengths that agree": (post("Content-Length: 2", "Content-Length: 2"), 400),
    "length and chunks": (post("Content-Length: 2", "Transfer-Encoding: chunked", body=CHUNKED), 400),
    "chunks and length": (post("transfer-encoding: chunked", "content-length: 2", body=CHUNKED), 400),
    "chunks twice": (post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body=CHUNKED), 400),
    "an unknown coding": (post("Transfer-Encoding: gzip", body=CHUNKED), 501),
    "a coding before chunks": (post("Transfer-Encoding: gzip, chunked", body=CHUNKED), 501),
    "chunks twice in one": (post("Transfer-Encoding: chunked, chunked", body=CHUNKED), 501),
    "identity": (post("Transfer-Encoding: identity", body=CHUNKED), 501),
    "chunks, almost": (post("Transfer-Encoding: chunked;q=1", body=CHUNKED), 501),
    "chunks with a control character": (post("Transfer-Encoding: \x0bchunked", body=CHUNKED), 400),
    "chunks in HTTP/1.0": (request("POST", "/select", "Transfer-Encoding: chunked", body=CHUNKED, version="HTTP/1.0"), 400),
    "a blank before the colon": (post("Transfer-Encoding : chunked", body=CHUNKED), 400),
    "a length with a blank before the colon": (post("Content-Length : 2", "X: y"), 400),
    "a name that goes on in the next line": (post("Transfer-Enc: chunked", " oding: y", body=CHUNKED), 400),
    "a length cut short by a NUL": (post("Content-Length: 2\x000"), 400),
}


@pytest.mark.parametrize("case", FRAMING)
def test_bodies_whose_end_is_in_doubt_are_refused(server, case):
    assert_refused(server, *FRAMING[case])


# The library finds these by itself, and says so in HTML.
LIBRARY = {
    "a length of letters": (post("Content-Length: abc"), 400),
    "a negative length": (post("Content-Length: -2"), 400),
    "a length with a sign": (post("Content-Length: +2"), 400),
    "a list of lengths": (post("Content-Length: 2, 2"), 400),
    "an empty length": (post("Content-Length:"), 400),
    "a hexadecimal length": (post("Content-Length: 0x2"), 400),
    "a length beyond all numbers": (post("Content-Length: 99999999999999999999"), 413),
    "a chunk size of letters": (post("Transfer-Encoding: chunked", body=b"xyz\r\n"), 400),
    "a negative chunk size": (post("Transfer-Encoding: chunked", body=b"-2\r\n{}\r\n0\r\n\r\n"), 400),
    "a chunk size with a prefix": (post("Transfer-Encoding: chunked", body=b"0x2\r\n{}\r\n0\r\n\r\n"), 400),
    "a chunk size with a blank": (post("Transfer-Encoding: chunked", body=b"2 \r\n{}\r\n0\r\n\r\n"), 400),
    "a chunk size beyond all numbers": (post("Transfer-Encoding: chunked", body=b"f" * 17 + b"\r\n"), 413),
    "a chunk longer than its size": (post("Transfer-Encoding: chunked", body=b"2\r\n{}{}\r\n0\r\n\r\n"), 400),
    "a line without a colon": (request("GET", "/healthz", "nonsense"), 400),
    "no version": (b"GET /healthz\r\n\r\n", 400),
    "a version in small letters": (request(version="http/1.1"), 400),
    "HTTP/0.9": (request(version="HTTP/0.9"), 505),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "a head beyond all measure": (request("GET", "/healthz", "A: " + "b" * 100000), 431),
    "a target beyond all measure": (request("GET", "/" + "b" * 100000), 414),
}


@pytest.mark.parametrize("case", LIBRARY)
def test_what_the_library_refuses_is_refused(server, case):
    assert_refused(server, *LIBRARY[case], is_ours=False)


# --- lines, names, values, targets ------------------------------------------------------------------------------

HEADS = {
    "a value that goes on in the next line": (request("GET", "/healthz", "A: b", " c"), 400),
    "a first header that goes on from nowhere": (b"GET /healthz HTTP/1.1\r\n Host: x\r\n\r\n", 400),
    "lines that end with LF": (b"GET /healthz HTTP/1.1\nHost: x\n\n", 400),
    "one line that ends with LF": (b"GET /healthz HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", 400),
    "a CR within a value": (request("GET", "/healthz", "A: b\rc"), 400),
    "a NUL in a value": (request("GET", "/healthz", "A: b\0c"), 400),
    "a NUL before a name": (request("GET", "/healthz", "\0A: b"), 400),
    "a control character in a value": (request("GET", "/healthz", "A: b\x01c"), 400),
    "a DEL in a value": (request("GET", "/healthz", "A: \x7f"), 400),
    "a name that is no token": (request("GET", "/healthz", "A(b): c"), 400),
    "no name": (request("GET", "/healthz", ": c"), 400),
    "no host": (request(host=None), 400),
    "two hosts": (request("GET", "/healthz", "Host: x"), 400),
    "two hosts in HTTP/1.0": (request("GET", "/healthz", "Host: x", version="HTTP/1.0"), 400),
    "a blank in the target": (request("GET", "/heal thz"), 400),
    "a NUL in the target": (request("GET", "/healthz\0"), 400),
    "a control character in the target": (request("GET", "/healthz\x1f"), 400),
    "two blanks before the target": (request("GET", " /healthz"), 400),
    "a NUL in the method": (request("GET\0", "/healthz"), 400),
    "a method that is no token": (request("G(T", "/healthz"), 400),
    "a target without a path": (request("GET", "healthz"), 400),
    "another scheme": (request("GET", "ftp://x/healthz"), 400),
    "an authority with an escape": (request("GET", "http://x%2fhealthz/healthz"), 400),
    "no authority": (request("GET", "http:///healthz"), 400),
    "a star for GET": (request("GET", "*"), 400),
    "an unknown method": (request("BREW", "/healthz"), 501),
    "a method in small letters": (request("get", "/healthz"), 501),
    "TRACE": (request("TRACE", "/healthz"), 501),
    "CONNECT": (request("CONNECT", "x:80", host="x:80"), 501),
    "an unknown expectation": (post("Expect: a-miracle"), 417),
    "a target of 8001 bytes": (request("GET", "/healthz?" + "b" * 7992), 414),
    "101 parameters": (request("GET", "/healthz?" + "&".join("a" * 101)), 414),
    "4000 parameters": (request("GET", "/healthz?" + "&".join("a" * 3990)), 414),
    "a head of 16 KiB and a byte": (request("GET", "/healthz", "A: " + "b" * (16384 - 38)), 431),
    "101 headers": (request("GET", "/healthz", *["A: b"] * 100), 431),
}


@pytest.mark.parametrize("case", HEADS)
def test_malformed_heads_are_refused(server, case):
    assert_refused(server, *HEADS[case])


TAKEN = {
    "empty lines before it": b"\r\n\r\n" + request(),
    "HTTP/1.0 without a host": request(version="HTTP/1.0", host=None),
    "HTTP/1.9": request(version="HTTP/1.9"),
    "an absolute target": request("GET", "http://example.org/healthz"),
    "an absolute target with a port, a user and a query": request("GET", "HTTPS://me@example.org:443/healthz?&"),
    "an empty value": request("GET", "/healthz", "A:"),
    "tabs and bytes beyond ASCII in a value": request("GET", "/healthz", "A:\t b\tc \xe9 "),
    "every character of a token": request("GET", "/healthz", "!#$%&'*+-.^_`|~09AZaz: b"),
    "an empty host": request(host=""),
    "escapes in the path": request("GET", "/%68ealthz"),
    "a head of 16 KiB": request("GET", "/healthz", "A: " + "b" * (16384 - 39)),
    "100 headers": request("GET", "/healthz", *["A: b"] * 99),
}


@pytest.mark.parametrize("case", TAKEN)
def test_unusual_heads_are_taken(server, case):
    answer = ask(server, TAKEN[case])
    assert (answer.status, answer.json) == (200, {"status": "ok"})


# Heads that are taken, of a query that no operation has: the operation refuses it, and the connection goes on.
LARGEST = {
    "a target of 8000 bytes": request("GET", "/healthz?" + "b" * 7991),
    "100 parameters": request("GET", "/healthz?" + "&".join("a" * 100)),
}


@pytest.mark.parametrize("case", LARGEST)
def test_the_largest_targets_are_taken(server, case):
    with Raw(server) as raw:
        answer = raw.send(LARGEST[case]).answer()
        assert answer.status == 400 and answer.json["detail"].startswith("query parameter ")
        assert raw.send(request()).answer().status == 200


def test_the_sizes_of_these_cases_are_what_they_say():
    assert len(TAKEN["a head of 16 KiB"]) == 16384 and len(HEADS["a head of 16 KiB and a byte"][0]) == 16385
    assert len(LARGEST["a target of 8000 bytes"].split()[1]) == 8000


@pytest.mark.parametrize("size", [1, 7, 64])
def test_heads_that_come_in_pieces_are_taken(server, size):
    """Wherever the pieces are cut: a byte at a time, and with headers up to their limit."""
    data = request("GET", "/healthz", *[f"Name-{i}: {'v' * i}" for i in range(90)])
    data = data if size > 1 else request("GET", "/healthz", "A: b", "C:")
    with Raw(server) as raw:
        raw.socket.setsockopt(6, 1, 1)  # no delay: each piece is a packet
        for at in range(0, len(data), size):
            raw.send(data[at:at + size])
        assert raw.answer().status == 200


def test_the_limit_on_heads_is_an_option(boot):
    server = boot("--max-header", "64k")
    assert ask(server, request("GET", "/healthz", "A: " + "b" * 60000)).status == 200
    assert_refused(server, request("GET", "/healthz", "A: " + "b" * 66000), 431)
    assert ask(server, request("GET", "/healthz", *["A: " + "b" * 1000] * 60)).status == 200


# --- methods -------------------------------------------------------------------------------------------------------


def test_options_name_the_methods(server):
    with Raw(server) as raw:
        answer = raw.send(request("OPTIONS", "/tenants/default")).answer()
        assert (answer.status, answer.body) == (204, b"")
        assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"}
        answer = raw.send(request("OPTIONS", "*")).answer()
        assert (answer.status, answer.body) == (204, b"")
        assert sorted(answer.headers["allow"].split(", ")) == ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]
        assert raw.send(request("OPTIONS", "/nowhere")).answer().status == 404
        assert raw.send(request()).answer().status == 200


@pytest.mark.parametrize("target", ["/healthz", "/tenants/default", "/openapi.yaml", "/nowhere"])
def test_head_has_the_headers_of_get_and_no_body(server, target):
    with Raw(server) as raw:
        got = raw.send(request("GET", target)).answer()
        head = raw.send(request("HEAD", target)).answer(is_head=True)
        assert raw.send(request()).answer().json == {"status": "ok"}  # nothing of a body in between
    same = {"content-type", "content-length"}
    assert head.status == got.status
    assert {k: head.headers[k] for k in same} == {k: got.headers[k] for k in same}


# --- expectations --------------------------------------------------------------------------------------------------


def test_a_body_is_asked_for_when_the_client_waits(server):
    body = decision()
    with Raw(server) as raw:
        raw.send(request("POST", "/select", "Expect: 100-Continue", f"Content-Length: {len(body)}"))
        assert raw.answer().status == 100
        assert raw.send(body).answer().status == 200
        assert raw.send(request()).answer().status == 200


def test_a_body_that_is_refused_is_not_asked_for(server):
    for head, status in ((request("POST", "/nowhere", "Expect: 100-continue", "Content-Length: 5"), 404),
                         (request("POST", "/select", "Expect: 100-continue", f"Content-Length: {2 << 20}"), 413),
                         (request("POST", "/select", "Content-Type: text/plain", "Expect: 100-continue", "Content-Length: 5"), 415)):
        with Raw(server) as raw:
            assert raw.send(head).answer().status == status
            assert raw.is_closed()


def test_expectations_of_http_1_0_are_not_met(server):
    body = decision()
    answer = ask(server, request("POST", "/select", "Expect: 100-continue", body=body, version="HTTP/1.0"))
    assert answer.status == 200


# --- chunks --------------------------------------------------------------------------------------------------------


def chunks(body, *sizes):
    out, at = b"", 0
    for n in sizes + (len(body) - sum(sizes),):
        out += b"%x;ext=1;other=\"a b\"\r\n" % n + body[at:at + n] + b"\r\n"
        at += n
    return out + b"0;last\r\nTrailer: x\r\nContent-Length: 7\r\n\r\n"


def test_chunks_with_extensions_and_trailers_are_a_body(server):
    """Each on a connection of its own, which ends with it (r11_framing.py)."""
    whole = decision("chunked", decision="of chunks", dry_run=True)
    plain = ask(server, request("POST", "/select", body=whole)).json
    for sizes in ((), (1,), (3, 5, 7), tuple([1] * (len(whole) - 1))):
        head = request("POST", "/select", "Transfer-Encoding: Chunked", body=chunks(whole, *sizes))
        assert ask(server, head).json == plain


# --- several requests on a connection ------------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order(server, api, name):
    """Also when the first of them waits for a commit and the others need none; one in chunks is the last."""
    api.put_tenant(name)
    tenant = f"Laplaced-Tenant: {name}"
    parts, wanted = [], []
    for i in range(10):
        parts.append(request("POST", "/select", tenant, body=decision(decision=f"d{i}")))
        wanted.append(("decision", f"d{i}"))
        parts.append(request())
        wanted.append(("status", "ok"))
        parts.append(request("POST", "/select", tenant, body=decision(decision=f"c{i}")))
        wanted.append(("decision", f"c{i}"))
    parts.append(request("POST", "/select", tenant, "Transfer-Encoding: chunked", body=chunks(decision(decision="last"), 4)))
    wanted.append(("decision", "last"))
    with Raw(server) as raw:
        raw.send(*parts)
        answers = [raw.answer() for _ in parts]
    assert [(key, a.json[key]) for a, (key, _) in zip(answers, wanted)] == wanted
    assert [e["decision"] for e in api.events(name) if e["type"] == "decided"] == [
        v for k, v in wanted if k == "decision"]


def test_a_refused_head_ends_a_pipeline(server):
    with Raw(server) as raw:
        raw.send(request(), request(host=None), SMUGGLED)
        assert [raw.answer().status, raw.answer().status] == [200, 400]
        assert raw.is_closed() and raw.rest == b""


def test_connections_are_kept_as_their_version_says(server):
    for version, header, is_kept in (("HTTP/1.1", (), True), ("HTTP/1.1", ("Connection: close",), False),
                                     ("HTTP/1.0", (), False), ("HTTP/1.0", ("Connection: keep-alive",), True),
                                     ("HTTP/1.1", ("Connection: x, Close",), False)):
        with Raw(server) as raw:
            answer = raw.send(request("GET", "/healthz", *header, version=version)).answer()
            assert answer.status == 200, (version, header)
            if is_kept:
                assert raw.send(request()).answer().status == 200
            else:
                assert answer.headers["connection"].lower() == "close" and raw.is_closed()


# --- clients that have said all ------------------------------------------------------------------------------------


def test_a_client_that_shuts_its_side_down_gets_its_answer(server, api, name):
    """With the request or some time after it, for answers that are there at once and such that wait for a commit."""
    api.put_tenant(name)
    tenant = f"Laplaced-Tenant: {name}"
    for k, wait in enumerate((0, 0.05)):
        for i, data in enumerate((request(), request("POST", "/select", tenant, body=decision(decision=f"d{k}")),
                                  request("GET", "/openapi.yaml"), request("GET", f"/tenants/{name}/model"))):
            with Raw(server) as raw:
                raw.send(data)
                time.sleep(wait)
                assert raw.end().answer().status == 200, (i, wait)
                assert raw.is_closed()
    assert len([e for e in api.events(name) if e["type"] == "decided"]) == 2


def test_a_client_that_shuts_its_side_down_gets_all_answers_of_a_pipeline(server):
    with Raw(server) as raw:
        raw.send(request("POST", "/select", body=decision()), request(), request("GET", "/nowhere")).end()
        assert [raw.answer().status for _ in range(3)] == [200, 200, 404]
        assert raw.is_closed()


def test_many_threads_of_pipelines_get_what_they_asked_for(server, api, name):
    """Answers, also those of commits that are shared, go to the connection that asked."""
    api.put_tenant(name)
    faults = []

    def work(k):
        with Raw(server) as raw:
            for i in range(10):
                ids = [f"d{k}-{i}-{j}" for j in range(5)]
                raw.send(*(request("POST", "/select", f"Laplaced-Tenant: {name}", body=decision(decision=d)) for d in ids))
                got = [raw.answer().json["decision"] for _ in ids]
                if got != ids:
                    faults.append((ids, got))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert Client(server).stats(name)["pending"] == 300
