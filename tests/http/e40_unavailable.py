"""When a commit cannot be made, or too much waits: 503 with Retry-After, nothing changed, and it heals."""
import sqlite3
import threading

from contract import NDJSON
from harness import Client

WRITES = [("POST", "/select", {"user": "u", "candidates": ["a", "b"]}), ("POST", "/reward", {"decision": "open", "reward": 1}),
          ("POST", "/activate", {"decision": "deferred"}), ("POST", "/observe", {"user": "u", "arm": "a", "reward": 1}),
          ("PUT", "/tenants/t", {"algorithm": "ucb", "confidence": {"beta": 9}}), ("PUT", "/tenants/t/graph", {"edges": [["a", "b"]]}),
          ("PATCH", "/tenants/t/graph", {"add": [["x", "y"]]}), ("PUT", "/tenants/t/arms", {"arms": ["q"]}),
          ("PATCH", "/tenants/t/arms", {"arms": ["r"]})]


def at_once(server, calls, expect):
    """All calls at the same time, each from a client of its own; a failed commit then costs its wait once or twice."""
    faults = []

    def one(method, path, body):
        try:
            Client(server, tenant="t").call(method, path, body, expect=expect)
        except Exception as fault:  # an assertion in a thread must reach the test
            faults.append(f"{method} {path}: {fault!r}")
    threads = [threading.Thread(target=one, args=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_a_commit_that_fails_answers_503_changes_nothing_and_heals(boot):
    server = boot()
    client = Client(server, tenant="t")
    client.put_tenant("t", algorithm="ucb")
    client.put_graph("t", [["u", "v", 1]])
    client.select("u", candidates=["a", "b"], decision="open")
    client.select("u", candidates=["a", "b"], decision="deferred", defer=True)
    before = (client.model("t"), client.events("t"))
    other = sqlite3.connect(server.data / "tenants" / "t.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # another writer holds the file: no commit can be made
    try:
        at_once(server, WRITES, 503)
        assert client.call("GET", "/readyz", expect=503).json["status"] == 503
        assert client.call("GET", "/healthz").json == {"status": "ok"}
        assert (client.model("t"), client.events("t")) == before
        assert client.select("u", candidates=["a"], tenant="default")["arm"] == "a"
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert client.select("u", candidates=["a", "b"])["arm"] == "a"
    client.call("GET", "/readyz")
    assert client.reward("open", 1.0) == {"applied": True}
    assert [e["seq"] for e in client.events("t")] == list(range(1, len(client.events("t")) + 1))
    digest = client.digest("t")
    server.restart()
    assert client.digest("t") == digest


def test_readiness_comes_back_by_itself(boot):
    server = boot()
    client = Client(server)
    other = sqlite3.connect(server.data / "tenants" / "default.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    client.select("u", candidates=["a"], expect=503)
    client.call("GET", "/readyz", expect=503)
    other.execute("ROLLBACK")
    other.close()
    for _ in range(150):
        if client.call("GET", "/readyz", expect=(200, 503)).status == 200:
            return
        threading.Event().wait(0.1)
    raise AssertionError("not ready 15 s after the disk was")


def test_a_tenant_that_cannot_be_made_answers_503(boot):
    server = boot()
    client = Client(server)
    other = sqlite3.connect(server.data / "registry.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        client.call("PUT", "/tenants/new", {}, expect=503)
        client.call("GET", "/tenants/new", expect=404)
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert client.put_tenant("new")["version"] == 1


def test_too_many_open_decisions_answer_503_until_some_close(boot):
    client = Client(boot("--max-pending", "3"))
    ids = [client.select("u", candidates=["a"])["decision"] for _ in range(3)]
    client.select("u", candidates=["a"], expect=503)
    client.select("u", candidates=["a"], dry_run=True)
    client.reward(ids[0], 1.0)
    assert client.select("u", candidates=["a"])["arm"] == "a"
    assert client.stats("default")["pending"] == 3


def test_relaxed_durability_answers_before_the_commit_and_still_gets_there(boot):
    server = boot()
    client = Client(server, tenant="t")
    client.put_tenant("t", algorithm="laplaced", durability="relaxed")
    for t in range(50):
        client.select(f"u{t}", candidates=["a", "b"], decision=f"d{t}")
        client.reward(f"d{t}", 0.5)
    lines = [{"user": "u", "arm": "a", "reward": 1}] * 20
    client.call("POST", "/observe", lines, kind=NDJSON)
    assert client.model("t")["events"] == 70
    assert server.terminate() == 0
    server.start()
    assert client.model("t")["events"] == 70
