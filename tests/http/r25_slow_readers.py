"""Clients that ask for much and read little: what each may cost of the server's memory, for every answer that can be long,
and that nobody waits for them."""
import json
import pathlib
import socket
import threading
import time

import pytest

from contract import NDJSON
from harness import IS_SANITIZED, Client
from raw import Raw, request

KIB, MIB = 1 << 10, 1 << 20
MANY = 32
EACH = 192 * KIB  # of a reader: the piece that is being sent, its connection, and what the allocator makes of it
BESIDE = 16 * MIB  # for all: work that is over, whose memory the allocator keeps
LINE = {"user": '"' * 240, "arm": '"' * 240, "reward": 1.0}  # twice as long in the log


@pytest.fixture(autouse=True)
def plain_memory():
    if IS_SANITIZED:
        pytest.skip("resident memory is the sanitizer's")


def resident(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return next(int(line.split()[1]) * KIB for line in status.splitlines() if line.startswith("VmRSS:"))


def fill(server, tenant, size=80 * MIB):
    """A log of more than `size` bytes, some 1,100 of them a line."""
    api = Client(server)
    api.put_tenant(tenant, algorithm="ucb")
    body = "\n".join(json.dumps({**LINE, "user": f"{LINE['user']}{i % 50}"}) for i in range(1000))
    for _ in range(size // (1000 * 1100) + 1):
        api.call("POST", "/observe", raw=body, kind=NDJSON, tenant=tenant)


def get(server, target, receive_buffer=4096):
    """A connection that has asked, and whose answer has begun: it reads no more than that by itself."""
    raw = Raw(server, receive_buffer=receive_buffer, timeout=60)
    raw.send(request("GET", target))
    assert raw.socket.recv(64, socket.MSG_PEEK).startswith(b"HTTP/1.1 200 ")
    return raw


def read_all(raw):
    head, _, rest = b"", b"", b""
    while b"\r\n\r\n" not in head:
        head += raw.socket.recv(65536)
    head, _, rest = head.partition(b"\r\n\r\n")
    length = int(next(line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")))
    pieces, n = [rest], len(rest)
    while n < length:
        piece = raw.socket.recv(1 << 20)
        assert piece, (n, length)
        pieces.append(piece)
        n += len(piece)
    return b"".join(pieces)


@pytest.fixture(scope="module")
def long_log(tmp_path_factory):
    """A server whose tenant `long` has a log of more than 64 MiB and a catalogue of some; it ends with the module."""
    from harness import Server
    server = Server(tmp_path_factory.mktemp("long"), "--body-timeout", "600").start()
    fill(server, "long")
    yield server
    server.close()


def fetch(server, target):
    with get(server, target, receive_buffer=None) as raw:
        return read_all(raw)


def stall(server, target, n=MANY):
    """What n readers that have stopped reading add to the resident memory; and the readers."""
    fetch(server, target)  # what the work itself needs is there from now on
    before = resident(server)
    readers = [get(server, target) for _ in range(n)]
    time.sleep(0.3)
    return resident(server) - before, readers


def close(readers):
    for raw in readers:
        raw.socket.close()


def test_stalled_readers_of_a_long_log_cost_a_told_bound_each(long_log):
    api = Client(long_log)
    whole = fetch(long_log, "/tenants/long/events?limit=100000")
    assert 63 * MIB < len(whole) <= 64 * MIB  # the most that one answer may have
    more, readers = stall(long_log, "/tenants/long/events?limit=100000", 16)
    try:
        assert more < 16 * EACH + BESIDE, more
        started = time.monotonic()
        for _ in range(20):  # others are served, and the log goes on
            api.select("u", candidates=["a", "b"], tenant="default")
            api.call("POST", "/observe", {**LINE, "user": "another"}, tenant="long")
        assert time.monotonic() - started < 10
        assert read_all(readers[0]) == whole and read_all(readers[-1]) == whole
    finally:
        close(readers)


def test_stalled_readers_of_other_answers_cost_a_told_bound_each(boot):
    server = boot()
    api = Client(server)
    api.put_tenant("wide", arm_dim=4)
    arms = [{"id": f"arm-{i:06d}-{'x' * 200}", "features": [i / 20000, 1 / 3, 2 / 3, 0.1]} for i in range(20000)]
    api.call("PUT", "/tenants/wide/arms", {"arms": arms})
    lines = [{"user": "u", "arm": {"id": a["id"], "features": a["features"]}, "reward": 1.0} for a in arms[:1500]]
    api.call("POST", "/observe", raw="\n".join(map(json.dumps, lines)), kind=NDJSON, tenant="wide")
    long = {}
    for target in ("/tenants/wide/arms", "/tenants/wide/stats", "/tenants/wide/model", "/tenants/wide/events", "/tenants/wide/graph",
                   "/openapi.yaml", "/metrics", "/tenants"):
        text = api.call("GET", target).content
        more, readers = stall(server, target)
        try:
            assert more < MANY * EACH + BESIDE, (target, more, len(text))
            if target not in ("/metrics", "/tenants"):
                assert read_all(readers[5]) == text
        finally:
            close(readers)
        long[target] = len(text)
    assert max(long.values()) > 4 * MIB and sum(n > 128 * KIB for n in long.values()) >= 4, long  # else nothing was tested


def test_more_long_answers_than_files_end_early_and_lose_nothing(long_log):
    """Each is a page of whole lines from its beginning on; whoever asks on has the log."""
    api = Client(long_log)
    whole = fetch(long_log, "/tenants/long/events?limit=300")
    before = resident(long_log)
    readers = [get(long_log, "/tenants/long/events?limit=300") for _ in range(140)]
    try:
        assert resident(long_log) - before < 140 * EACH + BESIDE
        page = api.call("GET", "/tenants/long/events", query={"limit": 300}).content
        assert 0 < len(page) <= 64 * KIB and whole.startswith(page) and page.endswith(b"\n")
        last = json.loads(page.splitlines()[-1])["seq"]
        after = api.call("GET", "/tenants/long/events", query={"limit": 300, "after": last}).content
        assert json.loads(after.splitlines()[0])["seq"] == last + 1
        assert read_all(readers[0]) == whole
    finally:
        close(readers)
    deadline = time.monotonic() + 20
    while fetch(long_log, "/tenants/long/events?limit=300") != whole:
        assert time.monotonic() < deadline  # their files are gone with them
        time.sleep(0.2)


def test_pages_are_the_log_byte_for_byte(long_log):
    """Whatever the limit, so small that an answer stays in memory or not."""
    path = "/tenants/long/events"
    whole = fetch(long_log, f"{path}?limit=300").splitlines(keepends=True)
    assert len(whole) == 300
    for limit in (29, 59, 60, 61, 200):
        got, after = [], 0
        while len(got) < 200:
            lines = fetch(long_log, f"{path}?limit={limit}&after={after}").splitlines(keepends=True)
            assert len(lines) == limit
            got += lines
            after = json.loads(lines[-1])["seq"]
        assert got[:200] == whole[:200]
    assert fetch(long_log, f"{path}?after={1 << 40}") == b""


def test_a_slow_reader_holds_up_neither_erasure_nor_compaction_nor_deletion(boot):
    """It has the log of the moment at which it asked, whole."""
    server = boot()
    api = Client(server)
    fill(server, "t", 12 * MIB)
    api.select("gone", candidates=["a"], decision="of-gone", tenant="t")
    whole = fetch(server, "/tenants/t/events?limit=100000")
    readers = [get(server, "/tenants/t/events?limit=100000") for _ in range(4)]
    try:
        wal = pathlib.Path(server.data, "tenants", "t.db-wal")
        assert api.call("DELETE", "/tenants/t/users/gone").json["erased"]
        assert b"of-gone" not in fetch(server, "/tenants/t/events?limit=100000")
        assert read_all(readers[0]) == whole
        assert api.call("POST", "/tenants/t/compact", {"keep_events": 100}).json
        assert read_all(readers[1]) == whole
        for _ in range(40):
            api.call("POST", "/observe", {**LINE, "user": "u"}, tenant="t")
        assert wal.stat().st_size < 64 * MIB
        started = time.monotonic()
        api.call("DELETE", "/tenants/t", expect=204)
        assert time.monotonic() - started < 10
        api.call("GET", "/tenants/t/events", expect=404)
        assert read_all(readers[2]) == whole
    finally:
        close(readers)


def test_readers_beside_erasures_and_compactions_get_whole_answers(boot):
    """Each answer is of one moment: numbers ascend, lines are whole, and what was erased before is in none."""
    server = boot()
    api = Client(server)
    fill(server, "t", 4 * MIB)
    faults, n_read, is_over = [], [0], threading.Event()

    def follow():
        while not is_over.is_set():
            text = fetch(server, "/tenants/t/events?limit=100000").decode()
            seqs = [json.loads(line)["seq"] for line in text.splitlines()]
            if seqs != sorted(set(seqs)) or not text.endswith("\n"):
                faults.append(seqs[:3])
            n_read[0] += 1

    threads = [threading.Thread(target=follow) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for i in range(4):
            api.select(f"gone{i}", candidates=["a"], tenant="t")
            api.call("DELETE", f"/tenants/t/users/gone{i}")
            assert f"gone{i}".encode() not in fetch(server, "/tenants/t/events?limit=100000")
            api.call("POST", "/tenants/t/compact", {"keep_events": 50}, expect=(200, 503, 409))
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert faults == [] and n_read[0] > 2


def test_a_server_with_stalled_readers_stops_and_leaves_nothing(boot):
    server = boot("--drain-timeout", "1")
    fill(server, "t", 8 * MIB)
    readers = [get(server, "/tenants/t/events?limit=100000") for _ in range(8)]
    try:
        assert len(list(pathlib.Path(server.data, "spool").iterdir())) == 0  # files without names
        assert server.terminate() == 0
    finally:
        close(readers)


def test_a_stop_does_not_read_on_for_those_who_were_told_503(boot):
    server = boot("--drain-timeout", "0")
    fill(server, "t")
    readers = [Raw(server, receive_buffer=4096, timeout=60) for _ in range(120)]
    try:
        for reader in readers:
            reader.send(request("GET", "/tenants/t/events?limit=100000"))
        time.sleep(1)
        started = time.monotonic()
        assert server.terminate(timeout=120) == 0
        assert time.monotonic() - started < 10
    finally:
        close(readers)
