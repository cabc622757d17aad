"""GET /tenants/{t}/events as a stream of server-sent events: every line once and in order, whoever stalls, and an end that is told."""
import json
import socket
import threading
import time
import urllib.parse

import pytest
import requests

from certs import Authority, Pair
from contract import NDJSON
from harness import IS_SANITIZED, Client, Server, preloaded

TYPE = "text/event-stream"


class Stream:
    """A client of its own thread: `got` has (id, event, data) as they come, `answer` what was said first."""

    def __init__(self, server, name, key=None, last=None, **query):
        headers = {"Accept": TYPE, **({"Authorization": f"Bearer {key}"} if key else {}), **({"Last-Event-ID": str(last)} if last is not None else {})}
        self.session = requests.Session()
        self.answer = self.session.get(f"{server.url}/tenants/{name}/events", params=query, headers=headers, stream=True, timeout=60, verify=server.cacert or True)
        self.got, self.comments, self.is_closed = [], 0, threading.Event()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        fields = {}
        try:
            for line in self.answer.iter_lines(decode_unicode=True):
                if line == "":
                    if "data" in fields:
                        self.got.append((fields.get("id"), fields.get("event"), fields["data"]))
                    fields = {}
                elif line.startswith(":"):
                    self.comments += 1
                else:
                    key, _, value = line.partition(": ")
                    fields[key] = value
        except (requests.RequestException, AttributeError, ValueError):
            pass
        self.is_closed.set()

    def wait(self, n, seconds=30):
        end = time.monotonic() + seconds
        while len(self.got) < n:
            assert time.monotonic() < end, f"{len(self.got)} of {n}: {self.got[-1:]}"
            time.sleep(0.02)
        return self.got[:n]

    def lines(self, n):
        return [json.loads(data) for _, _, data in self.wait(n)]

    def close(self):
        self.answer.raw._fp.fp.raw._sock.shutdown(socket.SHUT_RDWR) if not self.is_closed.is_set() else None
        self.session.close()


@pytest.fixture
def watch(request):
    def start(server, name, **options):
        stream = Stream(server, name, **options)
        request.addfinalizer(stream.close)
        return stream
    return start


def test_a_stream_has_every_line_of_the_log_once_and_goes_on(api, server, name, watch):
    api.put_tenant(name, algorithm="gp-ucb")
    for i in range(20):
        api.observe("u", "a", i, tenant=name)
    all_, now = watch(server, name, after=0), watch(server, name)
    assert all_.answer.status_code == 200 and all_.answer.headers["Content-Type"] == TYPE
    assert all_.lines(21) == api.events(name)
    for i in range(30):
        d = api.select(f"u{i}", candidates=["a", "b"], tenant=name)
        api.reward(d["decision"], 1, tenant=name)
    events = api.events(name)
    assert all_.lines(len(events)) == events and now.lines(60) == events[21:]
    for id_, event, data in all_.got:
        assert event is None and int(id_) == json.loads(data)["seq"]
    text = api.call("GET", f"/tenants/{name}/events").text.splitlines()
    assert [data for _, _, data in all_.got] == text  # to the byte


def test_it_goes_on_where_its_client_was_and_tells_of_some_types(api, server, name, watch):
    api.put_tenant(name, algorithm="gp-ucb")
    for i in range(10):
        api.observe("u", "a", i, tenant=name)
    events = api.events(name)
    assert watch(server, name, last=4).lines(7) == events[4:]
    assert watch(server, name, last=9, after=2).lines(2) == events[9:]
    some = watch(server, name, after=0, type="configured,arms")
    assert [e["type"] for e in some.lines(1)] == ["configured"]
    api.put_arms(name, ["x"])
    assert [e["type"] for e in some.lines(2)] == ["configured", "arms"] and len(some.got) == 2


@pytest.mark.parametrize("query, last, wanted", [
    ({"before": 3}, None, "before and limit"), ({"limit": 3}, None, "before and limit"), ({"type": "nonsense"}, None, "query parameter type"),
    ({"after": "x"}, None, "query parameter after"), ({}, "x", "Last-Event-ID"), ({}, "-1", "Last-Event-ID"), ({}, "1" * 19, "Last-Event-ID")])
def test_what_makes_no_stream_is_refused(api, name, query, last, wanted):
    api.put_tenant(name, algorithm="gp-ucb")
    headers = {"Accept": TYPE, **({"Last-Event-ID": last} if last else {})}
    assert wanted in api.call("GET", f"/tenants/{name}/events", query=query, headers=headers, expect=400).json["detail"]
    assert api.call("GET", f"/tenants/{name}/events", query={"limit": 1}, headers={"Accept": "application/json, */*"}).text.count("\n") == 1


def test_a_carriage_return_of_an_imported_line_is_a_space(api, server, name, watch):
    api.put_tenant(name, algorithm="gp-ucb")
    for i in range(3):
        api.observe("u", "a", i, tenant=name)
    lines = api.call("GET", f"/tenants/{name}/export").content.splitlines()
    blank = [line.replace(b',"', b',\r"', 1)[:-1] + b"\r\r}" if b'"observed"' in line else line for line in lines]
    other = name + "-imported"
    api.call("POST", f"/tenants/{other}/import", raw=b"".join(line + b"\n" for line in blank), kind=NDJSON, expect=201)
    logged = api.call("GET", f"/tenants/{other}/events").content
    assert logged.count(b"\r") == 9  # the log keeps them
    got = watch(server, other, after=0).wait(4)
    assert [data.encode() for _, _, data in got] == logged.replace(b"\r", b" ").split(b"\n")[:-1]


def test_a_line_that_is_too_long_is_named(api, server, name, watch):
    api.put_tenant(name, algorithm="gp-ucb")
    lines = [[f"user-{'x' * 200}-{i}", f"friend-{'y' * 200}-{i}"] for i in range(4000)]
    api.call("PUT", f"/tenants/{name}/graph", lines, kind=NDJSON)
    api.observe("u", "a", 1, tenant=name)
    events = [(e["seq"], e["type"]) for e in api.events(name)]
    stream = watch(server, name, after=0)
    told = stream.wait(len(events))
    assert [(int(i), json.loads(d)["type"]) for i, _, d in told] == events
    (long,) = [json.loads(d) for _, e, d in told if e == "omitted"]
    assert long["type"] == "graph" and long["bytes"] > 1 << 20 and set(long) == {"seq", "type", "bytes"}


def test_a_deleted_tenant_ends_its_streams_and_no_others(api, server, name, watch):
    for t in (name, name + "-other"):
        api.put_tenant(t, algorithm="gp-ucb")
    mine, other = watch(server, name), watch(server, name + "-other")
    begin = time.monotonic()
    api.call("DELETE", f"/tenants/{name}", expect=204)
    assert time.monotonic() - begin < 5  # a stream does not hold its tenant
    assert mine.wait(1) == [(None, "end", '{"detail":"the tenant was deleted"}')] and mine.is_closed.wait(10)
    api.put_tenant(name, algorithm="gp-ucb")
    api.observe("u", "a", 1, tenant=name + "-other")
    assert other.lines(1)[0]["type"] == "observed" and not other.is_closed.is_set() and len(mine.got) == 1


@pytest.mark.skipif(IS_SANITIZED, reason="a sanitizer's library is to be the first")
def test_a_stream_that_begins_while_its_tenant_is_deleted_is_told_so(tmp_path, watch):
    server = Server(tmp_path, env={"LD_PRELOAD": preloaded("slow_stream", tmp_path), "LD_STREAM_DELAY_MS": "1500", "MALLOC_PERTURB_": "165"}).start()
    try:
        client, began = Client(server), []
        for t in ("t", "other"):
            client.put_tenant(t, algorithm="gp-ucb")
        threads = [threading.Thread(target=lambda t=t: began.append((t, watch(server, t)))) for t in ("t", "t", "other")]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        client.call("DELETE", "/tenants/t", expect=204)
        for thread in threads:
            thread.join(30)
        assert sorted(t for t, _ in began) == ["other", "t", "t"], server.log()[-2000:]
        for t, stream in began:
            if t == "t":
                assert stream.wait(1) == [(None, "end", '{"detail":"the tenant was deleted"}')] and stream.is_closed.wait(10)
        client.observe("u", "a", 1, tenant="other")
        assert next(s for t, s in began if t == "other").lines(1)[0]["type"] == "observed"
        assert server.terminate() == 0
    finally:
        server.close()


def test_a_stream_pays_for_lines_and_not_for_requests(boot, watch):
    """Thirty tokens: sixteen observations, of which each is sent by itself, take 18; had each stream paid a request for each of
    them, too, it were 50."""
    server = boot("--tenant-rate", "1", "--tenant-burst", "30")
    client = Client(server)
    client.put_tenant("t", algorithm="gp-ucb")
    all_, some = watch(server, "t"), watch(server, "t", type="configured", after=0)
    for i in range(16):
        client.observe("u", "a", i, tenant="t")
        all_.wait(i + 1, 5)
    assert [e["reward"] for e in all_.lines(16)] == list(range(16)) and [e["type"] for e in some.lines(1)] == ["configured"]


def test_a_stream_waits_until_its_lines_can_be_paid(api, server, name, watch):
    api.put_tenant(name, algorithm="gp-ucb")
    api.call("POST", "/observe", [{"user": "u", "arm": "a", "reward": 1}] * 2999, kind=NDJSON, tenant=name)
    api.call("PUT", f"/tenants/{name}/limits", {"rate": 0.1, "burst": 15})
    stream = watch(server, name, after=0)
    stream.wait(1000)  # ten tokens of the fourteen that its request has left
    time.sleep(1.5)
    assert len(stream.got) == 1000
    api.call("PUT", f"/tenants/{name}/limits", {})
    assert [e["seq"] for e in stream.lines(3000)] == list(range(1, 3001))


def test_sigterm_ends_streams_at_once(boot, watch):
    server = boot("--drain-timeout", "60")
    client = Client(server)
    client.put_tenant("t", algorithm="gp-ucb")
    stream = watch(server, "t", after=0)
    stream.lines(1)
    begin = time.monotonic()
    assert server.terminate() == 0 and time.monotonic() - begin < 15
    assert stream.is_closed.wait(10) and stream.got[-1] == (None, "end", '{"detail":"the server is stopping"}')


def test_a_key_that_is_revoked_ends_what_it_began(boot, watch):
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="gp-ucb")
    client.key = client.call("POST", "/keys", {"roles": ["admin"]}, expect=201).json["key"]
    made = [client.call("POST", "/tenants/t/keys", {"roles": ["read"]}, expect=201).json for _ in range(2)]
    short = client.call("POST", "/tenants/t/keys", {"roles": ["read"], "expires_in_s": 3}, expect=201).json
    first, second, third = (watch(server, "t", key=k["key"]) for k in (*made, short))
    assert requests.get(f"{server.url}/tenants/t/events", headers={"Accept": TYPE}, timeout=20).status_code == 401
    client.call("DELETE", f"/tenants/t/keys/{made[0]['id']}", expect=204)
    end = (None, "end", '{"detail":"the key does not count any more"}')
    assert first.wait(1, 20) == [end] and third.wait(1, 20) == [end] and not second.is_closed.is_set()
    client.observe("u", "a", 1, tenant="t")
    assert second.lines(1)[0]["type"] == "observed"


def test_so_many_streams_and_no_more_and_those_who_leave_make_room(boot, watch):
    server = boot()
    client = Client(server)
    for t in range(5):
        client.put_tenant(f"t{t}", algorithm="gp-ucb")
    streams = [watch(server, f"t{t}") for t in range(4) for _ in range(16)]
    for t, most in (("t0", 64), ("t4", 64)):
        problem = client.call("GET", f"/tenants/{t}/events", headers={"Accept": TYPE}, expect=503)
        assert (problem.json["limit"], problem.json["max"]) == ("streams", most) and int(problem.headers["Retry-After"]) > 0
    for s in streams[:20]:
        s.close()
    end = time.monotonic() + 40  # who has left is seen when something is written
    while True:
        client.observe("u", "a", 1, tenant="t0")
        client.observe("u", "a", 1, tenant="t1")
        answer = requests.get(f"{server.url}/tenants/t4/events", headers={"Accept": TYPE}, stream=True, timeout=20)
        if answer.status_code == 200:
            break
        assert time.monotonic() < end
        time.sleep(0.2)
    answer.close()
    problem = client.call("GET", "/tenants/t2/events", headers={"Accept": TYPE}, expect=503).json
    assert (problem["limit"], problem["max"]) in (("streams", 16), ("streams", 64))
    assert streams[-1].got == [] and not streams[-1].is_closed.is_set()


def test_who_has_left_makes_room_as_soon_as_it_is_wanted(boot, watch):
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="gp-ucb")
    streams = [watch(server, "t") for _ in range(16)]
    client.call("GET", "/tenants/t/events", headers={"Accept": TYPE}, expect=503)
    time.sleep(3)
    for s in streams[1:]:
        s.close()
    end = time.monotonic() + 6  # no line comes, and a comment that is due in 15 s alone would be too late
    while requests.get(f"{server.url}/tenants/t/events", headers={"Accept": TYPE}, stream=True, timeout=20).status_code == 503:
        assert time.monotonic() < end
        time.sleep(0.5)
    n = streams[0].comments
    assert n > 0 and not streams[0].is_closed.is_set()
    time.sleep(4)
    assert streams[0].comments <= n + 5  # and is left alone again
    client.observe("u", "a", 1, tenant="t")
    assert streams[0].lines(1)[0]["type"] == "observed"


def test_who_does_not_read_holds_up_nobody_and_is_cut(boot, watch):
    server = boot("--body-timeout", "2")
    client = Client(server)
    client.put_tenant("t", algorithm="gp-ucb")
    where = urllib.parse.urlsplit(server.url)
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stalled.connect((where.hostname, where.port))
    stalled.sendall(f"GET /tenants/t/events?after=0 HTTP/1.1\r\nHost: x\r\nAccept: {TYPE}\r\n\r\n".encode())
    reader = watch(server, "t", after=0)
    lines = [{"user": "u" * 200, "arm": "a" * 200, "reward": 1}] * 5000
    for _ in range(4):  # some megabytes: more than buffers of sockets hold
        client.call("POST", "/observe", lines, kind=NDJSON, tenant="t")
    reader.wait(20001, 60)
    assert client.select("u", candidates=["a"], tenant="t")["arm"] == "a"
    end = time.monotonic() + 60
    while client.call("GET", "/metrics").text.count("\nlaplaced_http_requests_in_flight 2\n") == 0:  # the reader's, and this one
        assert time.monotonic() < end
        time.sleep(0.3)
    stalled.close()
    client.observe("v", "b", 1, tenant="t")
    assert reader.lines(20003)[-1]["user"] == "v"


def test_silence_is_broken_by_comments(api, server, name, watch):
    api.put_tenant(name, algorithm="gp-ucb")
    stream = watch(server, name)
    end = time.monotonic() + 40
    while stream.comments == 0:
        assert time.monotonic() < end
        time.sleep(0.2)
    api.observe("u", "a", 1, tenant=name)
    assert stream.lines(1)[0]["type"] == "observed"


def test_a_tenant_that_is_closed_for_memory_goes_on_when_it_is_opened(boot, watch):
    server = boot("--memory-cap", "1")
    client = Client(server)
    for t in ("t", "other"):
        client.put_tenant(t, algorithm="gp-ucb")
    stream = watch(server, "t", after=0)
    stream.lines(1)
    end = time.monotonic() + 30
    while {t["name"]: t["state"] for t in client.call("GET", "/tenants").json["tenants"]}["t"] != "closed":
        assert time.monotonic() < end
        client.stats("other")
        time.sleep(0.1)
    client.observe("u", "a", 1, tenant="t")
    assert [e["type"] for e in stream.lines(2)] == ["configured", "observed"]


def test_over_tls_it_is_the_same(boot, tmp_path_factory, tmp_path, watch):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    files = Pair(tmp_path, authority).write(authority.pair("first"))
    server = boot(*files.options, cacert=authority.root)
    client = Client(server)
    client.put_tenant("t", algorithm="gp-ucb")
    stream = watch(server, "t", after=0)
    stream.lines(1)
    for i in range(50):
        client.observe("u", "a", i, tenant="t")
    assert stream.lines(51) == client.events("t")
    assert server.terminate() == 0 and stream.is_closed.wait(10)
    assert stream.got[-1][1] == "end"
