"""Tenants that move: copies of the file, exports of the log, and tenants made from them elsewhere."""
import json
import signal
import socket
import sqlite3
import threading
import time
from contextlib import closing

import pytest
import requests

from contract import CONTRACT, NDJSON
from e10_refusals import another_application, foreign_sqlite, garbled, newer, text, truncated
from harness import IS_SANITIZED, Client, tenant_path

PRESETS = CONTRACT.doc["components"]["schemas"]["Algorithm"]["enum"]
SQLITE = "application/vnd.sqlite3"
GRAPH = [["u0", "u1", 1], ["u1", "u2", 0.5]]


def fill(client, name, preset="laplaced-kors", n=24, **more):
    """Every kind of event that traffic makes, a slate and an open decision among them; decisions named by us and by the server."""
    plain = preset in ("ts", "ucb", "random")
    client.put_tenant(name, algorithm=preset, **({} if plain else {"arm_dim": 1, "context_dim": 1}), **more)
    client.put_graph(name, GRAPH)
    client.put_arms(name, [{"id": f"a{i}", **({} if plain else {"features": [0.3 * i]})} for i in range(4)])
    for i in range(n):
        x = {} if plain else {"context": [0.1 * (i % 7)]}
        d = client.select(f"u{i % 4}", tenant=name, **x, **({"decision": f"named {i},\"answer\":"} if i % 2 else {}), **({"top": 2} if i % 5 == 0 else {}))
        if i % 6 != 5:
            client.reward(d["decision"], (i % 3) / 2, tenant=name)
    arm = "a1" if plain else {"id": "a1", "features": [0.3]}
    client.observe("u9", arm, 1, tenant=name, **({} if plain else {"context": [0.2]}))


def export(client, name, expect=200):
    return client.call("GET", tenant_path(name, "export"), expect=expect)


def copy(client, name, expect=200):
    return client.call("POST", tenant_path(name, "snapshot"), expect=expect)


def take_in(client, name, body, expect=201, kind=NDJSON):
    return client.call("POST", tenant_path(name, "import"), raw=body, kind=kind, expect=expect)


def restore(client, name, body, expect=201, kind=SQLITE):
    return client.call("PUT", tenant_path(name, "snapshot"), raw=body, kind=kind, expect=expect)


def spooled(server):
    return sorted(p.name for p in (server.data / "spool").iterdir())


def names(client):
    return {t["name"] for t in client.call("GET", "/tenants").json["tenants"]}


# --- round trips ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
def test_a_tenant_moves_as_a_file_and_as_lines(server, api, name, preset):
    fill(api, name, preset)
    model, lines, file = api.model(name), export(api, name), copy(api, name)
    seq = api.events(name)[-1]["seq"]
    for answer in (lines, file):
        assert (answer.headers["Laplaced-Digest"], answer.headers["Laplaced-Seq"]) == (model["digest"], str(seq))
    for way, body in ((take_in, lines.content), (restore, file.content)):
        other = f"{name}-{way.__name__}"
        assert way(api, other, body).json == {"tenant": other, "events": seq, "seq": seq, "digest": model["digest"]}
        assert api.digest(other) == model["digest"]
        assert export(api, other).content == lines.content and api.events(other) == api.events(name)
        api.call("DELETE", tenant_path(other), expect=204)
    assert spooled(server) == []


def test_what_moved_goes_on_like_the_original(api, name):
    """The same decisions and rewards afterwards, also to those that were open; retries get the first answer."""
    fill(api, name)
    take_in(api, name + "-i", export(api, name).content)
    restore(api, name + "-r", copy(api, name).content)
    named, first = "named 5,\"answer\":", None
    for tenant in (name, name + "-i", name + "-r"):
        answers = [api.select("u1", context=[0.5], decision=named, tenant=tenant),
                   api.select("u1", context=[0.4], dry_run=True, decision="probe", explain=True, tenant=tenant),
                   api.reward(named, 1, tenant=tenant), api.select("u3", context=[0.4], decision="next", tenant=tenant)]
        first = first or answers
        assert answers == first
        own = next(e["decision"] for e in api.events(tenant) if e["type"] == "decided" and len(e["decision"]) == 26)
        api.select("u0", context=[0.5], decision=own, tenant=tenant, expect=409)
    assert api.model(name)["content_digest"] == api.model(name + "-i")["content_digest"] == api.model(name + "-r")["content_digest"]


def test_pages_of_the_log_make_the_same_model_without_the_answers(api, name):
    fill(api, name)
    pages = b"".join(api.call("GET", tenant_path(name, "events"), query={"after": after, "limit": 20}).content for after in range(0, 120, 20))
    assert take_in(api, name + "-i", pages).json["digest"] == api.digest(name)
    assert export(api, name + "-i").content == pages != export(api, name).content
    api.select("u0", context=[0.5], decision="named 5,\"answer\":", tenant=name + "-i", expect=409)


def test_a_log_with_builds_erasures_and_other_configurations(boot):
    server = boot("--inline-work", "0", "--snapshot-events", "7")
    client = Client(server)
    fill(client, "t", n=40)
    client.put_tenant("t", expect=200, algorithm="lk-gp-ucb", arm_dim=1, context_dim=1)
    client.call("POST", "/tenants/t/rebuild")
    client.wait_rebuilt("t")
    client.call("DELETE", "/tenants/t/users/u2")
    client.put_graph("t", [["u0", "u3", 2]])
    fill_more = [client.observe(f"u{i % 4}", {"id": "a2", "features": [0.6]}, 0.5, context=[0.1 * i], tenant="t") for i in range(9)]
    assert len(fill_more) == 9
    client.wait_rebuilt("t")
    digest = client.digest("t")
    assert {"redacted", "configured", "dictionary"} <= {e["type"] for e in client.events("t")}
    assert take_in(client, "i", export(client, "t").content).json["digest"] == digest
    assert restore(client, "r", copy(client, "t").content).json["digest"] == digest
    server.restart()
    assert client.digest("t") == client.digest("i") == client.digest("r") == digest


def test_a_copy_laid_into_the_folder_of_a_stopped_server_is_taken_in(boot):
    server = boot()
    client = Client(server)
    fill(client, "t")
    file, digest = copy(client, "t").content, client.digest("t")
    server.terminate()
    (server.data / "tenants" / "laid.db").write_bytes(file)
    server.start()
    assert client.digest("laid") == digest and "laid" in names(client)


def test_a_lone_tenant_of_one_event_moves(api, name):
    api.put_tenant(name)
    assert take_in(api, name + "-i", export(api, name).content).json["events"] == 1
    assert restore(api, name + "-r", copy(api, name).content).json["digest"] == api.digest(name)


# --- beside traffic -----------------------------------------------------------------------------------------


def test_copies_beside_traffic_are_of_one_moment(boot):
    """Each restored copy is a prefix of the log, with the digest that the header told."""
    server = boot()
    client = Client(server)
    fill(client, "t")
    stop, faults = threading.Event(), []

    def work(k):
        mine = Client(server, tenant="t")
        try:
            for i in range(3000):
                if stop.is_set():
                    return
                mine.observe(f"u{k}", {"id": "a1", "features": [0.1 * k]}, i % 2, context=[0.01 * (i % 50)])
        except Exception as fault:  # noqa: BLE001
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    copies = [(way, body) for _ in range(4) for way, body in ((restore, copy(client, "t")), (take_in, export(client, "t")))]
    stop.set()
    for thread in threads:
        thread.join()
    assert not faults
    whole = export(client, "t").content.splitlines()
    for i, (way, body) in enumerate(copies):
        got, seq = way(client, f"c{i}", body.content).json, int(body.headers["Laplaced-Seq"])
        assert got["seq"] == seq and export(client, f"c{i}").content.splitlines() == whole[:seq]
        if "Laplaced-Digest" in body.headers:
            assert got["digest"] == body.headers["Laplaced-Digest"]
    assert any("Laplaced-Digest" in body.headers for _, body in copies)


def raw(server, head, body=b""):
    host, port = server.url[len("http://"):].split(":")
    conn = socket.create_connection((host, int(port)))
    conn.sendall(head.encode() + b"\r\nHost: x\r\n" + (b"Content-Length: %d\r\n" % len(body) if body else b"") + b"\r\n" + body)
    return conn


def impatient(server):
    """A client that keeps no connection, since the server ends those that are idle for a second."""
    client = Client(server)
    client.session.headers["Connection"] = "close"
    return client


def pad(client, name, lines=12000):
    """A log of some megabytes, more than sockets take in."""
    client.put_tenant(name, algorithm="ucb", tune=False)  # no line but those
    line = {"user": "u" * 200, "arm": "a" * 200, "reward": 1}
    body = (json.dumps(line) + "\n") * 4000
    for _ in range(lines // 4000):
        done = requests.post(client.server.url + "/observe", data=body, headers={"Content-Type": NDJSON, "Laplaced-Tenant": name})
        assert done.status_code == 200


def quickly(client, name, part):
    """A copy that is not held to the contract line by line."""
    return requests.request("GET" if part == "export" else "POST", client.server.url + tenant_path(name, part)).content


@pytest.mark.parametrize("head", ["POST /tenants/t/snapshot HTTP/1.1", "GET /tenants/t/export HTTP/1.1"])
def test_a_client_that_does_not_read_is_left_after_the_timeout(boot, head):
    server = boot("--body-timeout", "1")
    client = impatient(server)
    pad(client, "t")
    with closing(raw(server, head)) as conn:
        assert conn.recv(9) == b"HTTP/1.1 "  # it is being sent
        assert spooled(server) == []  # the copy has no name while it is sent
        copy(client, "t", expect=409)
        export(client, "t", expect=409)
        client.select("u", candidates=["a"], tenant="t")
        for _ in range(100):
            if client.call("POST", "/tenants/t/snapshot", expect=(200, 409)).status == 200:
                break
            time.sleep(0.1)
        else:
            raise AssertionError("the name is still taken after 10 s")


def test_a_tenant_may_be_deleted_while_its_copy_is_sent(boot):
    server = boot("--body-timeout", "5")
    client = Client(server)
    pad(client, "t")
    with closing(raw(server, "POST /tenants/t/snapshot HTTP/1.1")) as conn:
        got = conn.recv(9)
        client.call("DELETE", "/tenants/t", expect=204)
        client.put_tenant("t", algorithm="ucb")
        conn.settimeout(10)
        while b"\r\n\r\n" not in got or len(got) < int(got.split(b"Content-Length: ")[1].split(b"\r\n")[0]):
            got += conn.recv(1 << 20)
    assert restore(client, "old", got.split(b"\r\n\r\n", 1)[1]).json["events"] == 12001


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def source(server):
    client = Client(server)
    fill(client, "source")
    return export(client, "source").content, copy(client, "source").content


def drop_a_row(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DELETE FROM events WHERE seq = 5")


def another_arm(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE events SET arm = 'a0' || arm WHERE seq = (SELECT min(seq) FROM events WHERE type = 4)")


def a_bad_line(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE events SET text = replace(text, '\"propensity\":', '\"propensity\":2') WHERE type = 4")


def a_trigger(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events; END")


def no_index(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DROP INDEX events_decision")


def no_rows(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DELETE FROM events")


SPOILERS = [newer, foreign_sqlite, another_application, text, truncated, garbled, drop_a_row, another_arm, a_bad_line, a_trigger, no_index, no_rows]


@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda f: f.__name__)
def test_a_file_that_is_not_a_whole_one_of_ours_leaves_nothing(server, api, source, name, tmp_path, spoil):
    path = tmp_path / "t.db"
    path.write_bytes(source[1])
    spoil(path)
    with closing(sqlite3.connect(path)) as db:
        if spoil not in (text, garbled, truncated):
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    restore(api, name, path.read_bytes(), expect=400)
    api.call("GET", tenant_path(name), expect=404)
    assert spooled(server) == [] and not list((server.data / "tenants").glob(name + "*"))
    assert restore(api, name, source[1], kind="application/octet-stream").json["seq"] > 0


def edit(k, **members):
    return lambda lines: [json.dumps({**json.loads(line), **members}, separators=(",", ":")) if i == k else line for i, line in enumerate(lines)]


def decided(lines):
    return next(i for i, line in enumerate(lines) if '"answer":' in line)


BAD_LINES = {
    "a gap": (lambda ls: ls[:4] + ls[5:], "/4/seq"),
    "twice": (lambda ls: ls[:4] + ls[3:], "/4/seq"),
    "not from the beginning": (lambda ls: ls[1:], "/0"),
    "not JSON": (lambda ls: ls[:3] + ["{"] + ls[3:], "/3"),
    "no object": (lambda ls: ls[:3] + ["7"] + ls[3:], "/3"),
    "an unknown type": (edit(6, type="guessed"), "/6/type"),
    "an unknown member": (edit(0, colour=1), "/0/colour"),
    "a bad time": (edit(2, at="yesterday"), "/2/at"),
    "a user that is none": (lambda ls: edit(decided(ls), user="")(ls), "user"),
    "a vector of another length": (lambda ls: edit(decided(ls), context=[1, 2])(ls), "context"),
    "a blank line counts": (lambda ls: ["", ""] + edit(3, seq=9)(ls), "/5/seq"),
    "another's answer": (lambda ls: [line.replace('"answer":{"decision":"', '"answer":{"decision":"x') for line in ls], "answer"),
    "an answer that is none": (lambda ls: [line.replace('"answer":{', '"answer":[{').replace('}}', '}]}') if '"answer"' in line else line for line in ls], "answer"),
    "an answer elsewhere": (edit(0, answer={}), "/0/answer"),
    "a reward without a decision": (lambda ls: ls[:3] + [json.dumps({"seq": 4, "type": "rewarded", "at": "2026-11-21T10:00:00.123Z", "decision": "none", "reward": 1})], "/3"),
}


@pytest.mark.parametrize("kind", BAD_LINES)
def test_the_first_bad_line_is_named_and_leaves_nothing(server, api, source, name, kind):
    spoil, pointer = BAD_LINES[kind]
    lines = spoil(source[0].decode().splitlines())
    answer = take_in(api, name, "\n".join(lines) + "\n", expect=400)
    assert answer.pointers and pointer in answer.pointers[0], answer.text
    assert f"line {int(answer.pointers[0].split('/')[1]) + 1} " in answer.json["detail"]
    api.call("GET", tenant_path(name), expect=404)
    assert spooled(server) == [] and not list((server.data / "tenants").glob(name + "*"))


@pytest.mark.parametrize("end", ["", "\r\n", "\n\n \n"], ids=["none", "crlf", "blank"])
def test_lines_may_end_otherwise(api, source, name, end):
    body = source[0] if end == "" else source[0].replace(b"\n", end.encode())
    take_in(api, name, body.rstrip(b"\n") if end == "" else body)
    assert export(api, name).content == source[0]


def test_bodies_names_and_types_are_checked_first(boot, source):
    server = boot("--max-import-body", "8000")
    client = Client(server)
    lines, file = source
    for way, body, kind in ((take_in, lines, NDJSON), (restore, file, SQLITE)):
        way(client, "t", body, expect=413, kind=kind)
        way(client, "t", b"", expect=400, kind=kind)
        way(client, "t", body[:100], expect=415, kind="application/json")
        way(client, "t", body[:100], expect=415, kind=SQLITE if kind == NDJSON else NDJSON)
        way(client, "-no-name", body[:100], expect=400, kind=kind)
        way(client, "default", body[:100], expect=409, kind=kind)
        chunks = (body[i:i + 3000] for i in range(0, len(body), 3000))
        path = tenant_path("t", "import" if way is take_in else "snapshot")
        answer = requests.request("POST" if way is take_in else "PUT", server.url + path, data=chunks, headers={"Content-Type": kind})
        assert answer.status_code == 413
    copy(client, "nobody", expect=404)
    export(client, "nobody", expect=404)
    assert spooled(server) == [] and names(client) == {"default"}


def test_without_a_label_a_body_is_taken_for_what_it_is_to_be(server, api, source, name):
    for part, method, body in (("import", "POST", source[0]), ("snapshot", "PUT", source[1])):
        path = tenant_path(name + part, part)
        assert requests.request(method, server.url + path, data=body).status_code == 201


# --- disks, kills, stops --------------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_nothing_stays(boot):
    server = boot()
    client = Client(server)
    fill(client, "t")
    lines, file, before = export(client, "t").content, copy(client, "t").content, client.events("t")
    server.fill_disk()
    copy(client, "t", expect=507)
    export(client, "t", expect=507)
    take_in(client, "i", lines, expect=507)
    restore(client, "r", file, expect=507)
    server.fill_disk(False)
    assert spooled(server) == [] and names(client) == {"default", "t"} and client.events("t") == before
    take_in(client, "i", lines)
    restore(client, "r", copy(client, "t").content)
    assert client.digest("i") == client.digest("r") == client.digest("t")


def test_a_disk_that_fills_up_in_the_middle_of_an_import(boot):
    """Room for the body and not for the file that is made of it."""
    import resource
    server = boot()
    client = Client(server)
    pad(client, "t", lines=8000)
    lines = quickly(client, "t", "export")
    limit = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (len(lines) + 1000, limit[1]))
    answer = requests.post(server.url + "/tenants/i/import", data=lines, headers={"Content-Type": NDJSON})
    assert answer.status_code == 507, answer.text
    assert spooled(server) == [] and names(client) == {"default", "t"}
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limit)
    assert requests.post(server.url + "/tenants/i/import", data=lines, headers={"Content-Type": NDJSON}).status_code == 201


@pytest.mark.parametrize("part", ["import", "snapshot"])
def test_a_kill_in_the_middle_leaves_nothing_or_the_tenant(boot, part):
    server = boot()
    client = Client(server)
    pad(client, "t", lines=8000)
    body, digest = quickly(client, "t", "export" if part == "import" else part), client.digest("t")
    seen = set()
    for ms in (0, 20, 60, 120, 200, 300, 500, 800):
        method = "POST" if part == "import" else "PUT"
        conn = raw(server, f"{method} /tenants/moved/{part} HTTP/1.1", body)
        time.sleep(ms / 1000)
        server.kill()
        conn.close()
        server.start()
        assert spooled(server) == []
        is_there = "moved" in names(client)
        seen.add(is_there)
        if is_there:
            assert client.digest("moved") == digest
            client.call("DELETE", "/tenants/moved", expect=204)
        else:
            assert not list((server.data / "tenants").glob("moved*"))
    assert False in seen


def test_a_body_that_stalls_or_is_broken_off_leaves_nothing(boot):
    server = boot("--body-timeout", "1")
    client = impatient(server)
    fill(client, "t")
    lines = export(client, "t").content
    host, port = server.url[len("http://"):].split(":")
    head = b"POST /tenants/i/import HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(lines)
    stalled, broken = (socket.create_connection((host, int(port))) for _ in range(2))
    stalled.sendall(head + lines[:1000])
    broken.sendall(head + lines[:-1])
    time.sleep(0.2)
    assert len(spooled(server)) == 2
    broken.close()
    stalled.settimeout(10)
    assert b" 201 " not in stalled.recv(1000)
    for _ in range(100):
        if spooled(server) == []:
            break
        time.sleep(0.05)
    assert spooled(server) == [] and names(client) == {"default", "t"}


def test_a_stop_does_not_wait_for_copies_and_imports(boot):
    """Whoever still asks on an open connection is told 503; the process ends soon, and nothing is half done."""
    server = boot("--drain-timeout", "4")
    client = Client(server)
    fill(client, "t")
    lines, file = export(client, "t").content, copy(client, "t").content
    ways = [(copy, "t", ()), (export, "t", ()), (take_in, "i", (lines,)), (restore, "r", (file,))]
    clients = [Client(server) for _ in ways]
    for one in clients:
        one.call("GET", "/healthz")
    host, port = server.url[len("http://"):].split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(b"POST /select HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        time.sleep(0.2)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        for one, (way, tenant, args) in zip(clients, ways):
            way(one, tenant, *args, expect=503)
    assert server._reap() == 0
    server.start()
    assert names(client) == {"default", "t"} and spooled(server) == []


def test_a_stop_in_the_middle_of_an_import_ends_soon(boot):
    server = boot("--drain-timeout", "20")
    client = Client(server)
    pad(client, "t", lines=40000)
    body = quickly(client, "t", "export")
    with closing(raw(server, "POST /tenants/i/import HTTP/1.1", body)) as conn:
        for _ in range(200):
            if len(spooled(server)) > 1:
                break
            time.sleep(0.01)
        started = time.monotonic()
        assert server.terminate() == 0 and time.monotonic() - started < 10
        conn.settimeout(5)
        assert conn.recv(100).split()[1] in (b"503", b"201")
    server.start()
    assert spooled(server) == []


def peak_kib(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1])


def test_a_hundred_thousand_lines_pass_in_flat_memory(boot, tmp_path):
    """Export, copy, import and restore of a log of 60 MB; what grows is the model of the tenants that are made."""
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="ucb")
    first = client.call("GET", "/tenants/t/events").text
    user, arm = "u" * 250, "a" * 250
    path = tmp_path / "log.ndjson"
    with open(path, "w") as out:
        out.write(first)
        for seq in range(2, 100002):
            out.write(f'{{"seq":{seq},"type":"observed","at":"2026-11-21T10:00:00.123Z","user":"{user}","context":[],"arm":"{arm}","features":null,"reward":{seq % 2}}}\n')
    size = path.stat().st_size // 1024
    with open(path, "rb") as body:
        done = requests.post(server.url + "/tenants/i/import", data=body, headers={"Content-Type": NDJSON})
    assert done.status_code == 201, done.text
    assert done.json()["events"] == 100001
    before = peak_kib(server)
    with requests.get(server.url + "/tenants/i/export", stream=True) as got, open(path, "rb") as want:
        for piece in got.iter_content(1 << 20):
            assert piece == want.read(len(piece))
        assert want.read(1) == b""
    file = tmp_path / "copy.db"
    with requests.post(server.url + "/tenants/i/snapshot", stream=True) as got, open(file, "wb") as out:
        assert got.status_code == 200, got.text  # also right behind the export
        for piece in got.iter_content(1 << 20):
            out.write(piece)
    if not IS_SANITIZED:  # AddressSanitizer keeps what was freed
        assert peak_kib(server) - before < size / 3, "copies are held in memory"
    with open(file, "rb") as body:
        done = requests.put(server.url + "/tenants/r/snapshot", data=body, headers={"Content-Type": SQLITE})
    assert done.status_code == 201 and done.json()["digest"] == client.digest("i")
    if not IS_SANITIZED:
        assert peak_kib(server) < 4 * size, "bodies are held in memory"


@pytest.mark.skipif("compact" not in CONTRACT.operations, reason="this version compacts no logs")
def test_a_compacted_log_moves(api, name):
    """A log that begins with a summary, whose open decisions have their answers."""
    fill(api, name, n=40)
    api.call("POST", tenant_path(name, "compact"), {"keep_events": 8})
    api.wait_rebuilt(name)
    digest, lines, file = api.digest(name), export(api, name).content, copy(api, name).content
    assert lines.startswith(b'{"seq":') and b'"summary"' in lines.splitlines()[0] and b'"answer":' in lines
    for way, body in ((take_in, lines), (restore, file)):
        other = f"{name}-{way.__name__}"
        assert way(api, other, body).json["digest"] == digest == api.digest(other)
        assert export(api, other).content == lines
        for i in (5, 11, 17):  # not rewarded, hence open
            named = f"named {i},\"answer\":"
            user = f"u{i % 4}"
            assert api.select(user, context=[0], decision=named, tenant=other) == api.select(user, context=[0], decision=named, tenant=name)
            api.reward(named, 1, tenant=other)
