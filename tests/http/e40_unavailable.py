"""When a commit cannot be made, or too much waits: 503 with Retry-After, nothing changed, and it heals."""
import sqlite3
import time

from contract import NDJSON
from harness import Client

WRITES = [("POST", "/select", {"user": "u", "candidates": ["a", "b"]}), ("POST", "/reward", {"decision": "open", "reward": 1}),
          ("POST", "/activate", {"decision": "deferred"}), ("POST", "/observe", {"user": "u", "arm": "a", "reward": 1}),
          ("PUT", "/tenants/t", {"algorithm": "ucb", "confidence": {"beta": 9}}), ("PATCH", "/tenants/t", {"confidence": {"beta": 9}}),
          ("POST", "/tenants/t/stop", None), ("PUT", "/tenants/t/graph", {"edges": [["a", "b"]]}),
          ("PATCH", "/tenants/t/graph", {"add": [["x", "y"]]}), ("PUT", "/tenants/t/arms", {"arms": ["q"]}),
          ("PATCH", "/tenants/t/arms", {"arms": ["r"]}), ("POST", "/tenants/t/rebuild", None),
          ("POST", "/tenants/t/compact", {"keep_events": 0})]


def test_a_commit_that_fails_answers_503_changes_nothing_and_heals(boot):
    server = boot()
    client = Client(server, tenant="t")
    client.put_tenant("t", algorithm="ucb", tune=False, routing={"holdout": {"baseline": {"arm": "b"}}})
    client.put_graph("t", [["u", "v", 1]])
    client.call("POST", "/observe", {"user": "v", "arm": "b", "reward": 0})
    client.select("u", candidates=["a", "b"], decision="open")
    client.select("u", candidates=["a", "b"], decision="deferred", defer=True)
    before = (client.model("t"), client.events("t"))
    server.fill_disk()
    for method, path, body in WRITES:
        client.call(method, path, body, expect=503)
    client.call("PUT", "/tenants/another", {}, expect=503)
    assert client.call("GET", "/readyz", expect=503).json["status"] == 503
    assert client.call("GET", "/healthz").json == {"status": "ok"}
    assert (client.model("t"), client.events("t")) == before
    assert client.select("u", candidates=["a", "b"], dry_run=True)["arm"] == "a"
    client.call("GET", "/tenants/another", expect=404)
    server.fill_disk(False)
    assert client.select("u", candidates=["a", "b"])["arm"] == "a"
    client.call("GET", "/readyz")
    assert client.reward("open", 1.0) == {"applied": True}
    assert [e["seq"] for e in client.events("t")] == list(range(1, len(client.events("t")) + 1))
    digest = client.digest("t")
    server.restart()
    assert client.digest("t") == digest


def test_a_file_held_by_another_writer_is_waited_for_and_then_503(boot):
    """One tenant's trouble is not another's, and readiness comes back by itself."""
    server = boot("--open-all")
    client = Client(server)
    other = sqlite3.connect(server.data / "tenants" / "default.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    client.put_tenant("t", algorithm="ucb")
    client.select("u", candidates=["a"], expect=503)
    client.call("GET", "/readyz", expect=503)
    assert client.select("u", candidates=["a"], tenant="t")["arm"] == "a"
    other.execute("ROLLBACK")
    other.close()
    for _ in range(150):
        if client.call("GET", "/readyz", expect=(200, 503)).status == 200:
            return
        time.sleep(0.1)
    raise AssertionError("not ready 15 s after the disk was")


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
    client.put_tenant("t", algorithm="laplaced-kors", durability="relaxed")
    for t in range(50):
        client.select(f"u{t}", candidates=["a", "b"], decision=f"d{t}")
        client.reward(f"d{t}", 0.5)
    lines = [{"user": "u", "arm": "a", "reward": 1}] * 20
    client.call("POST", "/observe", lines, kind=NDJSON)
    end = time.monotonic() + 10
    while client.model("t")["events"] < 70 and time.monotonic() < end:
        time.sleep(0.02)
    assert client.model("t")["events"] == 70
    assert server.terminate() == 0
    server.start()
    assert client.model("t")["events"] == 70
