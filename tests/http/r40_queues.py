"""Every line has an end, and says so: 503 with Retry-After and the name of the limit. What waits is served when its turn
comes, what was refused has left no trace, and who comes again when told is served."""
import json
import re
import socket
import sqlite3
import threading
import time

from contract import NDJSON
from harness import IS_SANITIZED, Client

BUSY = ("PUT", "/tenants/{}", {"algorithm": "ucb"})


def lock(path, alone=False):
    """Another writer of the file: whoever wants to write (or, alone, to open it) waits, as for a disk that hangs, five
    seconds at most."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    if alone:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN IMMEDIATE")
    return other


class Crowd:
    """Requests sent at once, each by a thread of its own; `answers` in the order of their coming."""

    def __init__(self, server, requests, **more):
        self.answers = []
        self.threads = [threading.Thread(target=self.send, args=(server, *r), kwargs=more) for r in requests]
        for thread in self.threads:
            thread.start()

    def send(self, server, method, path, body, **more):
        self.answers.append(Client(server).call(method, path, body, expect=(200, 201, 503), **more))

    def wait_for(self, n, status, seconds=20):
        end = time.monotonic() + seconds
        while sum(a.status == status for a in list(self.answers)) < n:
            assert time.monotonic() < end, [a.status for a in self.answers]
            time.sleep(0.01)

    def join(self):
        for thread in self.threads:
            thread.join()
        return self.answers


def check_refusal(answer, limit, most):
    assert answer.status == 503 and answer.json["limit"] == limit and answer.json["max"] == most, answer.text
    assert 1 <= int(answer.headers["Retry-After"]) <= 60


def test_a_slow_disk_fills_the_queue_and_the_rest_is_told_to_wait(boot):
    server = boot("--max-queue", "8", "--max-connections", "200")
    client = Client(server, tenant="t")
    client.put_tenant("t", algorithm="ucb")
    client.observe("u", "a", 1.0)
    other = lock(server.data / "tenants" / "t.db")
    observe = [("POST", "/observe", {"user": "u", "arm": "a", "reward": i}) for i in range(60)]
    crowd = Crowd(server, observe, tenant="t")
    crowd.wait_for(60 - 2 * 8 - 1, 503)  # up to eight are with the writer, which takes what comes while it prepares
    assert client.select("u", candidates=["a"], dry_run=True)["arm"] == "a"
    client.call("GET", "/healthz")
    other.execute("ROLLBACK")
    other.close()
    answers = crowd.join()
    for answer in answers:
        if answer.status == 503:
            check_refusal(answer, "queue", 8)
    served = sum(a.status == 200 for a in answers)
    assert 8 <= served <= 17
    assert client.metric('requests_limited_total{reason="queue"}') == 60 - served
    model = client.model("t")
    assert model["events"] == 1 + served
    time.sleep(max(int(a.headers["Retry-After"]) for a in answers if a.status == 503))
    assert client.observe("u", "a", 0.5) == {"observed": 1}
    digest = client.digest("t")
    server.restart()
    assert client.digest("t") == digest


def test_large_bodies_do_not_pile_up_in_a_queue(boot):
    server = boot("--max-queue-bytes", "100k")
    client = Client(server, tenant="t")
    client.put_tenant("t", algorithm="ucb")
    client.observe("u", "a", 1.0)
    other = lock(server.data / "tenants" / "t.db")
    lines = [{"user": "u", "arm": "a", "reward": 1}] * 1000  # 40 kB
    crowd = Crowd(server, [("POST", "/observe", lines)] * 20, tenant="t", kind=NDJSON)
    crowd.wait_for(10, 503)
    other.execute("ROLLBACK")
    other.close()
    answers = crowd.join()
    for answer in answers:
        if answer.status == 503:
            check_refusal(answer, "queue_bytes", 100 << 10)
    served = sum(a.status == 200 for a in answers)
    assert served >= 2
    assert client.metric('observations_total{tenant="t"}') == 1 + 1000 * served


def test_vectors_of_names_count_in_a_queue_as_bodies_do(boot):
    """Seventy bytes of a body become two vectors of 32 kB."""
    server = boot("--max-queue-bytes", "150k")
    client = Client(server, tenant="t")
    client.put_tenant("t", algorithm="random", features={"mapping": "names-1", "dim": 4096})
    line = {"user": "u", "context": {}, "arm": {"id": "a", "features": {}}, "reward": 1}
    client.call("POST", "/observe", line)
    other = lock(server.data / "tenants" / "t.db")
    crowd = Crowd(server, [("POST", "/observe", line)] * 20, tenant="t")
    crowd.wait_for(10, 503)
    other.execute("ROLLBACK")
    other.close()
    answers = crowd.join()
    for answer in answers:
        if answer.status == 503:
            check_refusal(answer, "queue_bytes", 150 << 10)
    served = sum(a.status == 200 for a in answers)
    assert served >= 2
    assert client.metric('observations_total{tenant="t"}') == 1 + served
    assert client.metric('queue_bytes{tenant="t"}') == 0


def test_requests_that_hang_keep_no_writer_from_its_thread(boot):
    """The registry's file hangs: creations fill their half of the pool and their line. Tenants that are open decide and
    learn, one that is closed is opened, and when the file is back the line is worked off."""
    server = boot("--max-work", "4")
    client = Client(server)
    for name in ("open", "closed"):
        client.put_tenant(name, algorithm="ucb")
    server.terminate()
    server.start()
    client.observe("u", "a", 1.0, tenant="open")
    other = lock(server.data / "registry.db")
    crowd = Crowd(server, [("PUT", f"/tenants/new-{i}", {"algorithm": "ucb"}) for i in range(20)])
    crowd.wait_for(10, 503)
    for answer in list(crowd.answers):
        check_refusal(answer, "work", 4)
    assert not any(a.status == 201 for a in crowd.answers)
    for name in ("open", "closed"):
        d = client.select("u", candidates=["a", "b"], tenant=name)["decision"]
        assert client.reward(d, 1.0, tenant=name) == {"applied": True}
    assert not any(a.status == 201 for a in crowd.answers), "the file was free already: nothing was shown"
    other.execute("ROLLBACK")
    other.close()
    made = sum(a.status == 201 for a in crowd.join())
    names = {t["name"] for t in client.call("GET", "/tenants").json["tenants"]}
    assert made > 0 and len(names) == 3 + made
    client.put_tenant("after", algorithm="ucb")


def test_imports_wait_in_a_line_that_has_an_end(boot):
    server = boot("--max-transfers", "1")
    client = Client(server, tenant="t")
    client.put_tenant("t", algorithm="ucb")
    lines = [{"user": f"u{i % 50}", "arm": f"a{i % 7}", "reward": i % 2} for i in range(300)]
    client.call("POST", "/observe", lines, kind=NDJSON)
    log = client.call("GET", "/tenants/t/export").content
    digest, answers = client.digest("t"), {}

    def take_in(name):
        one = Client(server)
        while True:
            answer = one.call("POST", f"/tenants/{name}/import", raw=log, kind=NDJSON, expect=(201, 503))
            answers.setdefault(name, []).append(answer)
            if answer.status == 201:
                return
            time.sleep(int(answer.headers["Retry-After"]) / 10)
    threads = [threading.Thread(target=take_in, args=(f"copy{i}",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [a for of in answers.values() for a in of if a.status == 503]
    assert refused and len(answers) == 6
    for answer in refused:
        check_refusal(answer, "transfers", 1)
    assert all(client.digest(name) == digest for name in answers)
    assert client.metric('requests_limited_total{reason="transfers"}') == len(refused)


# --- bodies ----------------------------------------------------------------------------------------------------------

def dial(server):
    host, port = re.match(r"http://([^:]+):(\d+)", server.url).groups()
    return socket.create_connection((host, int(port)), timeout=30)


def resident(server):
    with open(f"/proc/{server.process.pid}/statm") as f:
        return int(f.read().split()[1]) * 4096


def head(path, n):
    return f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {n}\r\n\r\n".encode()


def status_line(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            break
        data += piece
    return data.decode(errors="replace")


def test_bodies_of_many_connections_do_not_exhaust_the_memory(boot):
    """A hundred clients send most of a large graph each and stop: those that the budget has room for are waited for, the
    others are told 503 before they have sent it, and small requests do not notice."""
    most = 8 << 20
    server = boot("--max-body-memory", str(most), "--max-bulk-body", "4M", "--max-observe-body", "4M")
    client = Client(server, tenant="t")
    client.put_tenant("t", algorithm="ucb")
    before = resident(server)
    body = b'{"edges":[' + b" " * (3 << 20)
    n, socks, refused = len(body) + 1000, [], 0
    for i in range(100):
        sock = dial(server)
        sock.sendall(head("/tenants/t/graph", n))
        try:
            sock.sendall(body)
        except OSError:
            pass
        socks.append(sock)
    for sock in socks:
        sock.settimeout(0.2)
        try:
            sock.sendall(b" " * 1000)  # of those that were refused the rest is read and thrown away
        except OSError:
            pass
    for sock in socks:
        try:
            text = status_line(sock)
            refused += " 503 " in text and '"limit":"body_memory"' in text and f'"max":{most}' in text and "Retry-After: 5" in text
        except TimeoutError:
            pass
    assert refused >= 90
    if not IS_SANITIZED:
        assert resident(server) - before < 3 * most + 100 * (64 << 10) + (32 << 20)
    d = client.select("u", candidates=["a"])["decision"]
    assert client.reward(d, 1.0) == {"applied": True}
    for sock in socks:
        sock.close()
    assert client.metric('requests_limited_total{reason="body_memory"}') == refused
    edges = [[f"user{i}", f"user{i + 1}"] for i in range(50000)]
    end = time.monotonic() + 30
    while client.call("PUT", "/tenants/t/graph", {"edges": edges}, expect=(200, 503)).status != 200:
        assert time.monotonic() < end, "the memory of those who left is not given back"
        time.sleep(0.1)


def test_decisions_over_much_keep_no_other_tenant_waiting(boot):
    """Each takes seconds. In the threads that serve HTTP as many of them as there are threads had all others, probes too, wait."""
    server = boot("--threads", "2")
    client = Client(server)
    client.put_tenant("small", algorithm="ucb")
    client.put_tenant("large", algorithm="gp-ucb", arm_dim=2)
    n_arms = 3000 if IS_SANITIZED else 20000
    client.put_arms("large", [{"id": f"a{i}", "features": [i / n_arms, i % 97 / 97]} for i in range(n_arms)])
    client.call("POST", "/observe", raw="\n".join(json.dumps({"user": "u", "arm": f"a{i}", "reward": i % 2}) for i in range(1000)), kind=NDJSON, tenant="large")
    started = time.monotonic()
    client.call("POST", "/select", {"user": "u", "decision": "alone"}, tenant="large")
    alone = time.monotonic() - started
    crowd = Crowd(server, [("POST", "/select", {"user": "u", "decision": f"d{i}"}) for i in range(4)], tenant="large")
    slowest, n = 0, 0
    while any(thread.is_alive() for thread in crowd.threads):
        for method, path, body in (("POST", "/observe", {"user": "u", "arm": "a", "reward": 1}), ("POST", "/select", {"user": "u", "candidates": ["a"]}), ("GET", "/healthz", None)):
            began = time.monotonic()
            client.call(method, path, body, tenant="small" if body else None)
            slowest, n = max(slowest, time.monotonic() - began), n + 1
    assert [a.status for a in crowd.join()] == [200] * 4
    assert n > 10 and slowest < alone / 2, (alone, slowest, n)
    assert client.call("POST", "/select", {"user": "u", "decision": "d0"}, tenant="large").json == next(a.json for a in crowd.answers if a.json["decision"] == "d0")
