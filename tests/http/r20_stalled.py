"""Clients that stall: a thousand of each kind keep nobody from being served, and in the end they are gone."""
import resource
import statistics
import time

import pytest

import prometheus_text
from harness import Client, Server
from raw import Raw, decision, request

MANY = 1000
ANSWERS = 5  # of 130 kB each
HALF_A_HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: "
HALF_A_BODY = request("POST", "/select", "Content-Length: 100", body=b'{"user":')


@pytest.fixture(autouse=True, scope="module")
def room_for_sockets():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3 * MANY:
        pytest.skip(f"the hard limit on open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3 * MANY), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def metric(api, name, **labels):
    return prometheus_text.value(prometheus_text.parse(api.call("GET", "/metrics").text), f"laplaced_{name}", **labels)


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def is_served(server):
    with Raw(server) as raw:
        return raw.send(request()).answer().status == 200


# --- the kinds of them --------------------------------------------------------------------------------------------


def silent(server):
    return Raw(server)


def in_the_headers(server):
    return Raw(server).send(HALF_A_HEAD)


def in_the_body(server):
    return Raw(server).send(HALF_A_BODY)


def in_the_answer(server):
    """Asks for so much that it cannot all wait in the kernel, and reads none of it."""
    return Raw(server, receive_buffer=4096).send(*[request("GET", "/openapi.yaml")] * ANSWERS)


def idle(server):
    raw = Raw(server).send(request())
    assert raw.answer().status == 200
    return raw


STALLED = [silent, in_the_headers, in_the_body, in_the_answer, idle]


def seconds_of_requests(server, n=60):
    """Median of requests of both sorts, each on a connection of its own; every one is answered."""
    took = []
    for i in range(n):
        started = time.monotonic()
        with Raw(server) as raw:
            assert raw.send(request("POST", "/select", body=decision(dry_run=True)) if i % 2 else request()).answer().status == 200
        took.append(time.monotonic() - started)
    return statistics.median(took)


def cpu_seconds(server):
    fields = open(f"/proc/{server.process.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.parametrize("kind", STALLED, ids=lambda k: k.__name__)
def test_a_thousand_that_stall_do_not_hold_up_others(server, api, kind):
    """With default options, from the same address."""
    before = seconds_of_requests(server)
    stalled = [kind(server) for _ in range(MANY)]
    try:
        during = seconds_of_requests(server)
        wait_until(lambda: metric(api, "connections") > MANY * 0.99)  # they are there
        cpu, started = cpu_seconds(server), time.monotonic()
        time.sleep(0.5)
        assert cpu_seconds(server) - cpu < 0.5 * (time.monotonic() - started)  # and nobody spins for them
    finally:
        for raw in stalled:
            raw.socket.close()
    assert during < 20 * before + 0.005, (before, during)
    assert metric(api, "connections_refused_total") == 0


# --- their end -----------------------------------------------------------------------------------------------------

SHORT = ("--header-timeout", "1", "--body-timeout", "1", "--timeout", "1")
SOME = 40


def test_those_that_stall_are_gone_in_the_end(boot):
    server = boot(*SHORT)
    api = Client(server)
    stalled = {kind: [kind(server) for _ in range(SOME)] for kind in STALLED}
    wait_until(lambda: metric(api, "connections") == 1)
    timed_out = {p: metric(api, "connections_timed_out_total", phase=p) for p in ("headers", "body", "answer", "idle")}
    assert timed_out == {"headers": 2 * SOME, "body": SOME, "answer": SOME, "idle": SOME}
    for kind, ones in stalled.items():
        for raw in ones:
            with raw:
                if kind is in_the_body:
                    assert raw.answer().status == 408
                if kind is in_the_answer:
                    while raw.rest != b"" or raw._more():
                        raw.rest = b""
                assert raw.is_closed()
    assert metric(api, "http_requests_in_flight") == 1


def dripping_head(raw):
    raw.send(b"a")


def dripping_body(raw):
    raw.send(b" ")


def dripping_answer(raw):
    raw.socket.recv(1)


@pytest.mark.parametrize("begin, drip, phase", [
    (silent, dripping_head, "headers"), (in_the_headers, dripping_head, "headers"), (in_the_body, dripping_body, "body"),
    (in_the_answer, dripping_answer, "answer")])
def test_a_byte_now_and_then_does_not_help(boot, begin, drip, phase):
    server = boot(*SHORT)
    api = Client(server)
    with begin(server) as raw:
        end = time.monotonic() + 60
        while metric(api, "connections_timed_out_total", phase=phase) == 0:
            assert time.monotonic() < end
            try:
                drip(raw)
            except OSError:
                pass
            time.sleep(0.05)
    wait_until(lambda: metric(api, "connections") == 1)


def test_a_drip_between_requests_does_not_help(boot):
    """Empty lines are passed over, and a request line that never ends is none."""
    server = boot(*SHORT)
    api = Client(server)
    for drip in (b"\r\n", b"G"):
        with idle(server) as raw:
            end = time.monotonic() + 60
            while raw.send(drip) and metric(api, "connections") > 1:
                assert time.monotonic() < end
                time.sleep(0.05)
            assert raw.is_closed()
    assert metric(api, "connections_timed_out_total", phase="idle") == 2


def test_a_body_that_comes_slowly_is_taken(boot):
    """In several times the time that each part of it has."""
    server = boot("--header-timeout", "1", "--body-timeout", "1", "--timeout", "1", "--min-rate", "100")
    body = decision().ljust(3500)
    with Raw(server) as raw:
        raw.send(request("POST", "/select", f"Content-Length: {len(body)}"))
        for at in range(0, len(body), 100):
            time.sleep(0.1)
            raw.send(body[at:at + 100])
        assert raw.answer().status == 200


def test_an_answer_that_is_read_slowly_arrives_whole(boot):
    server = boot("--body-timeout", "1", "--timeout", "10", "--min-rate", "1000")
    text = Client(server).call("GET", "/openapi.yaml").content
    with in_the_answer(server) as raw:
        got, started = b"", time.monotonic()
        while got.count(text[-200:]) < ANSWERS:
            piece = raw.socket.recv(65536)
            assert piece, (len(got), time.monotonic() - started)
            got += piece
            if time.monotonic() - started < 3:
                time.sleep(0.1)
    assert got.count(text) == ANSWERS


# --- when all connections are taken --------------------------------------------------------------------------------


def test_the_oldest_without_a_request_gives_way(boot):
    server = boot("--max-connections", "8")
    api = Client(server)
    assert metric(api, "connections") == 1  # the client's own, from here on in use
    old = []
    for kind in (silent, idle, in_the_headers, idle, idle, idle):
        old.append(kind(server))
        time.sleep(0.6)  # the timer has seen it
    busy = in_the_body(server)
    wait_until(lambda: metric(api, "connections") == 8)
    new = []
    for i in range(3):
        new.append(idle(server))
        assert old[i].is_closed()
        time.sleep(0.6)
    for raw in old[3:]:
        assert raw.send(request()).answer().status == 200
    assert busy.send(b" " * 200).answer().status == 400
    assert metric(api, "connections_gave_way_total") == 3 and metric(api, "connections_refused_total") == 0


def test_a_new_connection_is_refused_when_all_have_requests(boot):
    server = boot("--max-connections", "8")
    api = Client(server)
    assert metric(api, "connections") == 1
    time.sleep(0.6)  # the timer has seen that it rests
    busy = [in_the_body(server) for _ in range(8)]  # one of them takes its place
    time.sleep(0.6)
    with Raw(server) as raw:
        assert raw.answer().status == 503 and raw.is_closed()
    for one in busy[:4]:
        one.socket.close()
    wait_until(lambda: is_served(server))  # as soon as their ends are seen
    assert metric(api, "connections_refused_total") >= 1


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD, request()], ids=["silent", "in_the_headers", "idle"])
def test_more_that_stall_than_there_may_be_shut_nobody_out(boot, sent):
    server = boot("--max-connections", "50")
    stalled = []
    for _ in range(5):
        stalled += [Raw(server).send(sent) for _ in range(40)]
        time.sleep(0.6)
        wait_until(lambda: is_served(server))  # as soon as the timer has seen them
        seconds_of_requests(server, 10)
    api = Client(server)
    wait_until(lambda: metric(api, "connections") <= 50)  # those that gave way are counted until they are closed
    assert metric(api, "connections_gave_way_total") >= 100


def test_too_low_a_limit_on_files_is_told_and_leaves_room_for_tenants(tmp_path):
    server = Server(tmp_path)
    command = server.command()
    server.command = lambda: ["prlimit", "--nofile=1200:1200", *command]
    server.start()
    try:
        assert "may have 1200 open files, 4096 connections want 4736: there will be 600 connections at most" in server.log()
        stalled = [silent(server) for _ in range(700)]
        time.sleep(0.6)  # until all are taken and the timer has seen them: those that it has not seen give way to nobody
        api = Client(server)
        wait_until(lambda: is_served(server))
        api.put_tenant("t")
        api.select("u", candidates=["a"], tenant="t")
        assert metric(api, "connections") <= 600 and len(stalled) == 700
    finally:
        server.close()
