"""The model against its log: over HTTP beside traffic, and in the files of a stopped server."""
import json
import re
import sqlite3
import subprocess
import threading
import time

import pytest

from contract import NDJSON
from folds import Verifying, go_on, hold_a_fold, look, until
from harness import CTL, Client, run_ctl

LEARNING = {"algorithm": "laplaced-kors", "context_dim": 1, "arm_dim": 1, "arm_kernel": {"type": "rbf"}}


def traffic(client, tenant, n=60, start=0):
    for i in range(start, start + n):
        arms = [{"id": a, "features": [x]} for a, x in (("a", 0.1), ("b", 0.7))]
        d = client.select(f"u{i % 7}", candidates=arms, context=[i / 50], tenant=tenant)["decision"]
        if i % 5:
            client.reward(d, (i * 7 % 11) / 11, tenant=tenant)


def on_file(server, tenant, sql):
    db = sqlite3.connect(server.data / "tenants" / f"{tenant}.db", isolation_level=None)
    changed = db.execute(sql).rowcount
    db.close()
    assert changed > 0


def offline(server, *args, expect=0):
    done = subprocess.run([CTL, "verify", "--data", str(server.data), *args], capture_output=True, timeout=120, env=server.environment())
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return done.stdout.decode(), done.stderr.decode()


def files(server):
    """Everything but what SQLite puts beside a log to read it."""
    return {p.name: p.read_bytes() for p in sorted((server.data / "tenants").iterdir()) if not p.name.endswith("-shm")}


def test_the_model_equals_its_log_and_the_digest_is_that_of_model(api, name):
    api.put_tenant(name, **LEARNING)
    assert api.verify(name)["equal"]
    traffic(api, name)
    before = api.metric("verifications_total")
    view = api.model(name)
    assert api.verify(name) == {"equal": True, "seq": view["seq"], "events": view["seq"], "digest": view["digest"],
                                "logical_digest": view["logical_digest"]}
    assert api.metric("verifications_total") == before + 1 and api.metric("verifications_different_total") == 0
    api.verify("nobody", expect=404)


def test_beside_traffic_and_changes_of_the_model(boot):
    """Every change is a build beside the writer here; whatever is open when the digests are taken counts."""
    server = boot("--inline-work", "0")
    client = Client(server)
    client.put_tenant("t", **LEARNING)
    stop, faults = threading.Event(), []

    def work(k):
        mine, i = Client(server), 0
        try:
            while not stop.is_set() and i < 3000:
                traffic(mine, "t", 5, start=5 * i)
                i += 1
        except Exception as e:  # noqa: BLE001
            faults.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    seqs = []
    for i in range(8):
        client.call("POST", "/tenants/t/rebuild")
        if i == 3:
            client.call("PUT", "/tenants/t/graph", {"edges": [["u0", "u1", 1], ["u1", "u2", 2]]})
        found = client.verify("t")
        assert found["equal"], found
        seqs.append(found["seq"])
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    assert not faults, faults[0]
    assert seqs == sorted(set(seqs))


def test_a_line_that_was_changed_is_found_logged_and_counted(boot):
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="ucb", tune=False)
    client.put_tenant("whole", algorithm="ucb", tune=False)
    for tenant in ("t", "whole"):
        for i in range(30):
            client.observe(f"u{i}", "a", i / 30, tenant=tenant)
    digest = client.digest("t")
    on_file(server, "t", "UPDATE events SET text = replace(text, '\"reward\":0.5', '\"reward\":0.25'), reward = 0.25 WHERE text LIKE '%\"reward\":0.5}%'")
    found = client.verify("t")
    assert (found["equal"], found["digest"]) == (False, digest) and found["folded_digest"] != digest
    assert client.metric("verifications_different_total") == 1
    assert 'level=error msg="tenant t: the model at event 31 differs' in server.log()
    out = run_ctl(server, "verify", expect=1)
    assert re.search(r"^t +DIFFERENT +event 31,", out, re.M) and re.search(r"^whole +equal +event 31, 31 lines, digest [0-9a-f]{16}, of the log alone: [0-9a-f]{16}$", out, re.M)
    assert json.loads(run_ctl(server, "verify", "whole", "--json"))["equal"] is True
    on_file(server, "t", "UPDATE events SET text = replace(text, '{', '[') WHERE seq = 5")
    found = client.verify("t")
    assert not found["equal"] and found["fault"].startswith("event 5 cannot be read")
    assert "event 5 cannot be read" in run_ctl(server, "verify", "t", expect=1)
    assert "there is no tenant" in run_ctl(server, "verify", "nobody", expect=1)


def test_one_at_a_time(boot):
    server = boot()
    client = Client(server)
    client.put_tenant("t", **LEARNING, durability="relaxed")
    lines = [{"user": f"u{i % 9}", "context": [i / 1e4], "arm": {"id": "a", "features": [0.5]}, "reward": i % 2} for i in range(20000)]
    for part in (lines[:10000], lines[10000:]):
        client.call("POST", "/observe", part, kind=NDJSON, tenant="t")
    for _ in range(10):
        first = threading.Thread(target=lambda: Client(server).verify("t"))
        first.start()
        time.sleep(0.03)
        second = client.call("POST", "/tenants/t/verify", expect=(200, 503))
        first.join()
        if second.status == 503:
            assert second.headers["Retry-After"] == "1" and "verified already" in second.json["detail"]
            return
    raise AssertionError("twenty thousand lines were folded ten times in no time")


@pytest.fixture
def held(boot, tmp_path):
    """A server, its gate, and a tenant whose folds wait there."""
    gate = tmp_path / "gate"
    server = boot(env={"LAPLACED_FAILPOINT": f"mid_refold@{gate}"})
    client = Client(server)
    client.put_tenant("t", algorithm="ucb", tune=False)
    lines = [{"user": f"u{i % 9}", "arm": "ab"[i % 2], "reward": i % 2} for i in range(20000)]
    for part in (lines[:10000], lines[10000:]):
        client.call("POST", "/observe", part, kind=NDJSON, tenant="t")
    yield server, client, gate
    gate.unlink(missing_ok=True)


def test_how_far_it_is_grows_with_the_lines_that_it_has_folded(held):
    server, client, gate = held
    assert look(client, "t") == {"running": False, "events": 0, "progress": 0}
    asked = []
    seen = [hold_a_fold(client, "t", gate, lambda: asked.append(Verifying(server, "t")))]
    for _ in range(5):
        client.observe("new", "a", 1, tenant="t")  # the log grows meanwhile, and what is told does not fall
        seen.append(go_on(client, "t", gate))
    for a, b in zip(seen, seen[1:]):
        assert a["events"] < b["events"] and a["progress"] < b["progress"]
    for x in seen:  # the log had 20,001 lines when the fold began, and a share is never whole
        assert abs(x["progress"] - x["events"] / 20002) < 1e-9
    gate.unlink()
    found = asked[0].ended().json
    assert found["equal"] and found["events"] == found["seq"] == 20006
    assert look(client, "t") == {"running": False, "events": 0, "progress": 0}


def test_it_is_cancelled_in_the_middle_and_nothing_has_changed(held):
    server, client, gate = held
    path = "/tenants/t/verify"
    assert client.call("DELETE", path, expect=404).json["type"] == "/problems/no-verification"
    before = client.model("t"), client.metric("verifications_total"), client.call("GET", "/tenants/t/events?after=19990").text
    asked = []
    hold_a_fold(client, "t", gate, lambda: asked.append(Verifying(server, "t")))
    assert client.call("DELETE", path, expect=204).text == ""
    assert not look(client, "t")["running"]
    client.call("DELETE", path, expect=404)  # who is told 204 has ended it, once
    assert "verified already" in client.call("POST", path, expect=503).json["detail"]  # it has not come to its end yet
    gate.unlink()
    told = asked[0].ended()
    assert told.status == 409 and told.json["type"] == "/problems/conflict" and "cancelled" in told.json["detail"]
    assert (client.model("t"), client.metric("verifications_total"), client.call("GET", "/tenants/t/events?after=19990").text) == before
    assert client.metric("verifications_different_total") == 0 and "level=error" not in server.log()
    client.call("DELETE", path, expect=404)
    decision = client.select("ann", candidates=["a", "b"], tenant="t")["decision"]
    client.reward(decision, 1, tenant="t")
    assert client.verify("t")["equal"] and client.verify("t")["seq"] == client.model("t")["seq"]


def test_wherever_it_is_whoever_cancels_and_whoever_waits_hear_the_same(boot):
    """Without a gate, among its lines, in the build that they begin, and at its end: 204 and 409, or 404 and an answer."""
    server = boot("--inline-work", "0")
    client = Client(server)
    client.put_tenant("t", algorithm="k-ucb", context_dim=1, tune=False)  # exact: its cost grows with what it has learned
    lines = [{"user": f"u{i % 9}", "context": [i / 1500], "arm": "ab"[i % 2], "reward": i % 2} for i in range(1500)]
    client.call("POST", "/observe", lines, kind=NDJSON, tenant="t")
    client.call("POST", "/tenants/t/rebuild")
    until(lambda: not client.call("GET", "/tenants/t").json["rebuilding"])
    start = time.monotonic()
    assert client.verify("t")["equal"]
    took = time.monotonic() - start
    told = set()
    for i in range(20):
        asked = Verifying(server, "t")
        time.sleep(took * i / 18)
        ended = client.call("DELETE", "/tenants/t/verify", expect=(204, 404)).status
        answer = asked.ended()
        assert answer.status == {204: 409, 404: 200}[ended] and (answer.status == 409 or answer.json["equal"])
        told.add(answer.status)
    assert 409 in told and client.verify("t")["equal"]


def test_a_server_ends_while_a_fold_is_cancelled(held):
    server, client, gate = held
    asked = []
    hold_a_fold(client, "t", gate, lambda: asked.append(Verifying(server, "t")))
    client.call("DELETE", "/tenants/t/verify", expect=204)
    gate.unlink()
    assert server.terminate() == 0
    assert asked[0].ended().status in (409, 503)


def test_files_of_a_stopped_server_are_verified_and_left_alone(boot):
    server = boot("--snapshot-events", "20")
    client = Client(server)
    for tenant in ("one", "two"):
        client.put_tenant(tenant, **LEARNING)
        traffic(client, tenant)
    digests = {t: client.digest(t) for t in ("default", "one", "two")}
    assert "a server uses this data folder" in offline(server, expect=1)[1]
    server.kill()  # write-ahead logs stay, and snapshots are older than the logs
    before = files(server)
    out, _ = offline(server)
    for tenant, digest in digests.items():
        assert re.search(rf"^{tenant} +equal +event \d+, digest {digest}, (snapshot at event|no snapshot)", out, re.M), out
    assert files(server) == before
    rows = [json.loads(line) for line in offline(server, "--json")[0].splitlines()]
    assert {r["tenant"]: (r["equal"], r["digest"]) for r in rows} == {t: (True, d) for t, d in digests.items()}
    assert all(0 < r["snapshot_seq"] < r["seq"] for r in rows if r["tenant"] != "default")
    assert len(offline(server, "two")[0].splitlines()) == 1
    server.start()
    assert {t: Client(server).digest(t) for t in digests} == digests  # each is open now, so that the stop closes its file
    assert server.terminate() == 0
    before = files(server)
    offline(server)
    assert files(server) == before and not list((server.data / "tenants").glob("*-shm"))


def test_damage_is_told_by_the_files_and_a_start_folds_instead(boot):
    server = boot("--snapshot-events", "10")
    client = Client(server)
    for tenant in ("log", "cache", "broken"):
        client.put_tenant(tenant, **LEARNING)
        traffic(client, tenant)
    digest = client.digest("cache")
    assert server.terminate() == 0
    # Older than the lines that the snapshot is marked with, so that it is believed.
    on_file(server, "log", "UPDATE events SET text = replace(text, '\"context\":[0.02]', '\"context\":[0.03]') WHERE seq < 10 AND type = 4")
    on_file(server, "broken", "UPDATE events SET text = 'x' WHERE seq = 7")
    snapshot = server.data / "tenants" / "cache.snapshot"
    body = bytearray(snapshot.read_bytes())
    body[len(body) // 2] ^= 0x40
    snapshot.write_bytes(body)
    out, err = offline(server, expect=1)
    assert re.search(r"^log +DIFFERENT ", out, re.M) and re.search(r"^cache +REFUSED .*damaged", out, re.M)
    assert re.search(r"^default +equal ", out, re.M) and "broken.db: event 7 cannot be read" in err
    assert "no such" in offline(server, "nobody", expect=1)[1].lower()
    (server.data / "tenants" / "broken.snapshot").unlink()
    on_file(server, "broken", "DELETE FROM events WHERE seq >= 7")
    server.start()
    assert client.digest("cache") == digest
    assert client.metric("snapshots_refused_total") == 1
    assert "cache.snapshot: not used, the log is folded from its start" in server.log()
    assert client.verify("cache")["equal"] and not client.verify("log")["equal"]
    assert server.terminate() == 0
    server.args.append("--verify")
    server.start()
    assert client.verify("log")["equal"] and client.metric("snapshots_refused_total") == 1
    assert "log.db: the snapshot's digest differs" in server.log()


@pytest.mark.parametrize("version", ["elsewhere", "text"])
def test_a_folder_or_file_that_is_not_ours_is_refused(tmp_path, version):
    tenants = tmp_path / "tenants"
    if version == "text":
        tenants.mkdir()
        (tenants / "t.db").write_text("no database at all, but long enough to have a header of a hundred bytes " * 3)
    done = subprocess.run([CTL, "verify", "--data", str(tmp_path)], capture_output=True, timeout=60)
    assert done.returncode == 1 and (b"cannot be read" in done.stderr or b"t.db" in done.stderr)


@pytest.mark.parametrize("other", [{"context": [0.9]}, {"arm": "b"}, {"user": "v"}], ids=["context", "arm", "user"])
def test_the_digest_of_the_log_sees_what_a_row_is_of_where_rewards_are_forgotten(api, name, other):
    """And so for decisions that are open."""
    digests = set()
    for which, more in (("one", {}), ("two", other), ("three", {})):
        tenant = f"{name}-{which}"
        api.put_tenant(tenant, algorithm="lk-gp-ucb", context_dim=1, forgetting={"discount": 0.97}, default_reward=None)
        api.put_arms(tenant, ["a", "b"])
        for user in ("u", "v"):
            api.observe(user, "a", 1, context=[0.1], tenant=tenant)
        api.observe(**{"user": "u", "arm": "a", "reward": 0, "context": [0.1], "tenant": tenant, **more})
        digests.add(api.model(tenant)["logical_digest"])
    assert len(digests) == 2
