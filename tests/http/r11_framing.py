"""What may be read in two ways ends the connection or is refused, over plain sockets and over TLS: bodies in chunks whose
lines are not as RFC 9112 writes them, headers that stand twice, and names in paths that are hidden behind escapes."""
import ssl
import time

import pytest

from certs import Authority, Pair
from harness import Client
from raw import Raw, decision, request

SMUGGLED = request("GET", "/openapi.yaml")


class RawTls(Raw):
    """The same bytes within TLS."""

    def __init__(self, server, **options):
        super().__init__(server, **options)
        self.socket = ssl.create_default_context(cafile=server.cacert).wrap_socket(self.socket, server_hostname="localhost")

    def is_closed(self):
        try:
            return super().is_closed()
        except ssl.SSLError:
            return True


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(params=["plain", "tls"])
def dial(request, boot, tmp_path, authority):
    """dial(): a connection to a server of either sort."""
    if request.param == "plain":
        server = boot()
        return lambda: Raw(server)
    files = Pair(tmp_path, authority).write(authority.pair("server"))
    server = boot(*files.options, cacert=authority.root)
    return lambda: RawTls(server)


def chunked(*parts, target="/select"):
    head = request("POST", target, "Transfer-Encoding: chunked")
    return [head + parts[0], *parts[1:]]


BODY = decision("framed", dry_run=True)
SIZE = b"%x" % len(BODY)
END = b"0\r\n\r\n"

# Each part goes out by itself: what the library has consumed of a chunk's line before the next part is seen by nobody.
FRAMES = {
    "LF behind the size": [SIZE + b"\n" + BODY + b"\r\n" + END],
    "LF behind the data": [SIZE + b"\r\n" + BODY + b"\n" + END],
    "LF behind the last size": [SIZE + b"\r\n" + BODY + b"\r\n0\n\r\n"],
    "LF for the last line": [SIZE + b"\r\n" + BODY + b"\r\n0\r\n\n"],
    "LF everywhere": [SIZE + b"\n" + BODY + b"\n0\n\n"],
    "LF behind the size, alone": [SIZE + b"\n", BODY + b"\r\n" + END],
    "LF behind the data, alone": [SIZE + b"\r\n" + BODY, b"\n", END],
    "LF behind the last size, alone": [SIZE + b"\r\n" + BODY + b"\r\n", b"0\n", b"\r\n"],
    "a CR within an extension": [SIZE + b";a\rb\r\n" + BODY + b"\r\n" + END],
    "an LF that ends an extension": [SIZE + b";a\n" + BODY + b"\r\n" + END],
    "a NUL within an extension": [SIZE + b";\0\r\n" + BODY + b"\r\n" + END],
    "a blank before an extension": [SIZE + b" ;a\r\n" + BODY + b"\r\n" + END],
    "a blank behind the size": [SIZE + b" \r\n" + BODY + b"\r\n" + END],
    "a size with a sign": [b"+" + SIZE + b"\r\n" + BODY + b"\r\n" + END],
    "an empty size": [b"\r\n" + BODY + b"\r\n" + END],
    "a chunk shorter than its size": [b"ff\r\n" + BODY + b"\r\n" + END],
    "a chunk longer than its size": [b"1\r\n" + BODY + b"\r\n" + END],
    "a trailer that ends with LF": [SIZE + b"\r\n" + BODY + b"\r\n0\r\nA: b\n\r\n"],
    "a trailer that goes on in the next line": [SIZE + b"\r\n" + BODY + b"\r\n0\r\nA: b\r\n c\r\n\r\n"],
    "a trailer without a colon": [SIZE + b"\r\n" + BODY + b"\r\n0\r\nAb\r\n\r\n"],
    "a trailer with a blank before its colon": [SIZE + b"\r\n" + BODY + b"\r\n0\r\nA : b\r\n\r\n"],
    "a trailer with a length": [SIZE + b"\r\n" + BODY + b"\r\n0\r\nContent-Length: 7\r\n\r\n"],
    "a body that is no JSON, by LF": [b"2\n{]\n0\n\n"],
}


@pytest.mark.parametrize("case", FRAMES)
def test_nothing_behind_chunks_in_doubt_is_served(dial, case):
    with dial() as raw:
        for part in chunked(*FRAMES[case]):
            raw.send(part)
            time.sleep(0.02)
        raw.send(SMUGGLED)
        if "shorter" in case:
            raw.send(b"x" * 256)
        answer = raw.answer()
        assert answer is None or answer.headers["connection"].lower() == "close", answer.headers
        assert raw.is_closed()
        assert b"openapi" not in raw.rest


def test_whole_chunks_are_answered_and_the_connection_ends(dial):
    for parts in ([SIZE + b"\r\n" + BODY + b"\r\n" + END], [SIZE + b";x=\"y\"\r\n", BODY[:7], BODY[7:] + b"\r\n", b"0\r\nA: b\r\n\r\n"]):
        with dial() as raw:
            answer = raw.send(*chunked(*parts)).answer()
            assert (answer.status, answer.headers["connection"].lower()) == (200, "close")
            assert raw.is_closed() and raw.rest == b""


HEADS = {
    "a length and chunks": request("POST", "/select", "Content-Length: 2", "Transfer-Encoding: chunked", body=b"2\r\n{}\r\n" + END),
    "a line that goes on": request("GET", "/healthz", "A: b", " c"),
    "a blank before a colon": request("GET", "/healthz", "A : b"),
    "a blank line with a header behind it": request("GET", "/healthz", " A: b"),
    "LF behind a header": b"GET /healthz HTTP/1.1\r\nHost: x\nA: b\r\n\r\n",
}


@pytest.mark.parametrize("case", HEADS)
def test_nothing_behind_a_head_in_doubt_is_served(dial, case):
    with dial() as raw:
        answer = raw.send(HEADS[case], SMUGGLED).answer()
        assert answer.status == 400 and answer.headers["connection"].lower() == "close"
        assert raw.is_closed() and b"openapi" not in raw.rest


# --- headers that stand twice ----------------------------------------------------------------------------------------

ONCE = {
    "Laplaced-Tenant": ("a", "b"), "Authorization": ("Bearer a", "Bearer b"), "Content-Type": ("application/json", "text/plain"),
    "Content-Length": ("2", "2"), "Origin": ("http://a", "http://b"),
}


@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize("is_same", [True, False])
def test_headers_that_stand_once_are_refused_twice(server, name, is_same):
    first, second = ONCE[name]
    with Raw(server) as raw:
        head = request("POST", "/select", f"{name}: {first}", f"{name.lower()}: {first if is_same else second}", body=b"{}")
        answer = raw.send(head, SMUGGLED).answer()
        assert answer.status == 400 and answer.is_problem and name in answer.json["detail"], answer.body
        assert raw.is_closed()


def test_of_two_traces_none_is_taken(server):
    """As the recommendation has it: the request is served, under an id of its own."""
    parents = [f"00-{digit * 32}-{digit * 16}-01" for digit in "12"]
    with Raw(server) as raw:
        for told in (parents, parents[:1] * 2):
            answer = raw.send(request("GET", "/healthz", *(f"traceparent: {one}" for one in told))).answer()
            assert answer.status == 200
            assert answer.headers["laplaced-request"] not in {one.split("-")[1] for one in parents}
        answer = raw.send(request("GET", "/healthz", f"traceparent: {parents[0]}")).answer()
        assert answer.headers["laplaced-request"] == parents[0].split("-")[1]


def test_each_of_two_expectations_counts(server):
    for told in (("a-miracle", "100-continue"), ("100-continue", "a-miracle")):
        with Raw(server) as raw:
            head = request("POST", "/select", *(f"Expect: {one}" for one in told), "Content-Length: 2")
            assert raw.send(head).answer().status == 417


# --- escapes in paths ------------------------------------------------------------------------------------------------


def ask(server, method, target):
    with Raw(server) as raw:
        return raw.send(request(method, target)).answer()


REFUSED = {
    "a slash in a tenant's name": ("GET", "/tenants/a%2Fgraph"),
    "a slash in a tenant's name, small": ("GET", "/tenants/a%2fb/graph"),
    "a slash for a segment's end": ("GET", "/tenants%2Fdefault"),
    "a slash at the beginning": ("GET", "/%2Fhealthz"),
    "a slash at the end": ("GET", "/healthz%2F"),
    "a percent sign in a tenant's name": ("GET", "/tenants/a%252Fb/graph"),
    "a slash in a key's id": ("DELETE", "/keys/a%2Fb"),
    "a NUL": ("GET", "/healthz%00"),
    "a NUL in a user's id": ("DELETE", "/tenants/default/users/a%00b"),
    "an escape cut short": ("DELETE", "/tenants/default/users/a%4"),
    "an escape of letters": ("DELETE", "/tenants/default/users/%zz"),
    "a percent sign alone": ("DELETE", "/tenants/default/users/100%"),
    "an overlong slash": ("DELETE", "/tenants/default/users/a%C0%AFb"),
    "an overlong NUL": ("DELETE", "/tenants/default/users/%C0%80"),
    "half a character": ("DELETE", "/tenants/default/users/%E2%82"),
    "a surrogate": ("DELETE", "/tenants/default/users/%ED%A0%80"),
    "no UTF-8, unescaped": ("DELETE", "/tenants/default/users/\xff"),
    "a dot": ("GET", "/./healthz"),
    "two dots": ("GET", "/tenants/../healthz"),
    "two dots, escaped": ("GET", "/tenants/%2e%2E/healthz"),
    "one dot of two, escaped": ("GET", "/tenants/.%2e/healthz"),
    "two dots at the end": ("GET", "/tenants/default/.."),
    "two dots within a user's id": ("DELETE", "/tenants/a/users/x/../../../b/users/y"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_paths_that_may_be_read_in_two_ways_are_refused(server, case):
    method, target = REFUSED[case]
    with Raw(server) as raw:
        answer = raw.send(request(method, target), SMUGGLED).answer()
        assert (answer.status, answer.is_problem) == (400, True), answer.body
        assert raw.is_closed() and raw.rest == b""


def test_the_contract_knows_that_refusal(api):
    api.call("GET", "/tenants/a%2Fb/graph", expect=400)
    api.call("DELETE", "/keys/a%252Fb", expect=400)


def test_escapes_of_plain_letters_are_those_letters(server, api, name):
    api.put_tenant(name)
    assert ask(server, "GET", f"/t%65nants/%{ord(name[0]):x}{name[1:]}/gr%61ph").status == 200


# id, and ways in which it stands in a path
USERS = [("a/b", ["a%2Fb", "a%2fb", "a/b"]), ("a%2Fb", ["a%252Fb"]), ("50%", ["50%25"]), ("..", ["%2E%2E", "%2e%2e"]),
         (".", ["%2E"]), ("a/../b", ["a%2F..%2Fb"]), ("grün ü/€", ["gr%C3%BCn%20%C3%BC%2F%E2%82%AC"]), ("a%00b", ["a%2500b"]),
         ("a//b/", ["a%2F%2Fb%2F", "a//b/"]), ("a\\b", ["a%5Cb"]), ("users/x", ["users%2Fx"])]


@pytest.mark.parametrize("user, ways", USERS, ids=[u for u, _ in USERS])
def test_a_users_id_may_have_any_character(server, api, name, user, ways):
    for i, way in enumerate(ways):
        tenant = f"{name}{i}"
        api.put_tenant(tenant)
        api.select(user, candidates=["a"], tenant=tenant)
        api.select("another", candidates=["a"], tenant=tenant)
        answer = ask(server, "DELETE", f"/tenants/{tenant}/users/{way}")
        assert answer.status == 200 and answer.json["erased"] is True, answer.body
        assert {e["user"] for e in api.events(tenant) if e["type"] == "decided"} == {"another"}


def test_an_escaped_slash_is_no_way_past_a_proxys_rules(boot):
    """What a proxy takes for a name of one segment is none of another tenant's resources."""
    server = boot()
    api = Client(server)
    api.put_tenant("a")
    api.put_tenant("b")
    for target in ("/tenants/a%2F..%2Fb/graph", "/tenants/b%2Fgraph", "/tenants/%2Fb/graph"):
        assert ask(server, "GET", target).status == 400
