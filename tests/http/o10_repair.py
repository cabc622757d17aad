"""Logs that no fold takes to their end: that tenant alone fails, the line is named, and an operator brings it back."""
import json
import sqlite3
import urllib.request

import pytest

from harness import NDJSON, Client, Server, run_ctl, tenant_path

HUGE = 1.7976931348623157e308


def spoil(server, name, seq, change):
    """Rewrites a line in the file of a stopped server, as an earlier version may have written it."""
    db = sqlite3.connect(server.data / "tenants" / f"{name}.db")
    text = json.loads(db.execute("SELECT text FROM events WHERE seq = ?", (seq,)).fetchone()[0])
    text.update(change)
    db.execute("UPDATE events SET text = ?, reward = ? WHERE seq = ?", (json.dumps(text), text.get("reward"), seq))
    db.commit()
    db.close()
    (server.data / "tenants" / f"{name}.snapshot").unlink(missing_ok=True)


@pytest.fixture
def broken(tmp_path):
    """Tenants bad, whose event 3 nobody can learn, and good; stopped."""
    server = Server(tmp_path)
    server.start()
    client = Client(server)
    for name in ("bad", "good"):
        client.put_tenant(name, algorithm="ucb", forgetting={"type": "discount"})
        for reward in (1, 2, 3):
            client.observe("u", "a", reward, tenant=name)
    server.terminate()
    spoil(server, "bad", 3, {"reward": HUGE})
    yield server
    server.close()


def fault_of(answer):
    assert "event 3 was refused: expected at most 1e+30 in size" in answer.json["detail"], answer.json
    return answer


def repair(client, expect=200, **wanted):
    return client.call("POST", "/tenants/bad/repair", wanted, expect=expect).json


def test_the_tenant_fails_alone_and_the_line_is_named(broken):
    broken.start()
    client = Client(broken)
    for method, path, body in (("POST", "/select", {"user": "u", "candidates": ["a"]}), ("GET", "/tenants/bad", None), ("POST", "/tenants/bad/verify", None)):
        fault_of(client.call(method, path, body, tenant="bad", expect=500))
    client.observe("u", "a", 1, tenant="good")
    assert client.call("GET", "/readyz").status == 200 and client.verify("good")["equal"]
    assert [t["state"] for t in client.call("GET", "/tenants").json["tenants"] if t["name"] == "bad"] == ["failed"]
    broken.terminate()
    told = run_ctl(broken, "verify", "--data", str(broken.data), expect=1)
    assert "event 3 was refused" in told and "good " in told and " equal " in told
    status, told = Server(broken.folder, "--open-all").run_to_end()
    assert status == 1 and "event 3 was refused" in told and "Assertion" not in told


def test_read_only_serves_what_was_before_the_line(broken):
    broken.start()
    client = Client(broken)
    done = repair(client, action="read_only", seq=3)
    assert done["opens"] and done["seq"] == 3 and "event 3 was refused" in done["fault"]
    for _ in range(2):
        view = client.call("GET", "/tenants/bad").json
        assert view["seq"] == 2 and view["events"] == 1 and view["read_only"]["seq"] == 3 and "event 3" in view["read_only"]["fault"]
        answer = client.select("u", candidates=["a", "b"], tenant="bad", dry_run=True)
        assert answer["model"]["events"] == 1
        refused = [("POST", "/select", {"user": "u", "candidates": ["a"]}), ("POST", "/observe", {"user": "u", "arm": "a", "reward": 1}),
                   ("PUT", "/tenants/bad", {"algorithm": "ts"}), ("PATCH", "/tenants/bad", {"seed": 3}), ("POST", "/tenants/bad/start", None), ("DELETE", "/tenants/bad/users/u", None), ("POST", "/tenants/bad/rebuild", None),
                   ("PUT", "/tenants/bad/arms", {"arms": [{"id": "a"}]}), ("PUT", "/tenants/bad/graph", {"edges": [["u", "v"]]}),
                   ("POST", "/tenants/bad/compact", {"keep_events": 1})]
        for method, path, body in refused:
            told = client.call(method, path, body, tenant="bad", expect=503)
            assert "read-only" in told.json["detail"] and int(told.headers["Retry-After"]) > 1
        verified = client.verify("bad")
        assert not verified["equal"] and "event 3 was refused" in verified["fault"]
        with urllib.request.urlopen(broken.url + "/tenants/bad/events") as told:  # a line of it is none that the contract knows
            assert len(told.read().splitlines()) == 4
        client.observe("u", "a", 1, tenant="good")
        assert client.call("GET", "/readyz").status == 200
        broken.restart()
    assert repair(client, action="lift")["opens"] is False
    fault_of(client.call("GET", "/tenants/bad", expect=500))


@pytest.mark.parametrize("is_read_only_first", [False, True])
def test_a_dropped_line_says_what_stood_there(broken, is_read_only_first):
    broken.start()
    client = Client(broken)
    if is_read_only_first:
        repair(client, action="read_only", seq=3)
        client.select("u", candidates=["a"], tenant="bad", dry_run=True)
    done = repair(client, action="drop", seq=3)
    assert done["opens"] and "detail" not in done
    lines = [json.loads(line) for line in client.call("GET", "/tenants/bad/events").text.splitlines()]
    assert [line["type"] for line in lines] == ["configured", "observed", "redacted", "observed"]
    assert lines[2]["dropped"].startswith("observed: event 3 was refused")
    client.observe("u", "a", 5, tenant="bad")
    broken.restart()
    assert client.verify("bad")["equal"] and client.model("bad")["seq"] == 5
    view = client.call("GET", "/tenants/bad").json
    assert view["events"] == 3 and "read_only" not in view
    log = client.call("GET", "/tenants/bad/export").content
    client.call("POST", "/tenants/copy/import", raw=log, kind=NDJSON, expect=201)
    assert client.digest("copy") == client.digest("bad")
    assert b"e+308" not in (broken.data / "tenants" / "bad.db").read_bytes()


def test_a_dropped_line_names_the_key_that_asked(broken):
    """One without an id, of the key file, is not named; nor is anybody by whom the rest of the log was written."""
    broken.start()
    admin = Client(broken).call("POST", "/keys", {"roles": ["admin"]}, expect=201).json
    client = Client(broken, admin["key"])
    assert repair(client, action="drop", seq=3)["opens"]
    assert [e.get("by") for e in client.events("bad")] == [None, None, admin["id"], None]
    broken.restart()
    assert client.verify("bad")["equal"]
    log = client.call("GET", "/tenants/bad/export").content
    client.call("POST", "/tenants/copy/import", raw=log, kind=NDJSON, expect=201)
    assert [e.get("by") for e in client.events("copy")] == [None, None, admin["id"], None]


def test_what_followed_from_the_line_is_named_next(tmp_path):
    server = Server(tmp_path)
    server.start()
    client = Client(server)
    client.put_tenant("bad", algorithm="ucb", context_dim=1)
    client.call("POST", "/select", {"user": "u", "candidates": ["a"], "decision": "d", "context": [1]}, tenant="bad")
    client.reward("d", 1, tenant="bad")
    server.terminate()
    spoil(server, "bad", 2, {"context": [HUGE]})
    server.start()
    done = repair(client, action="drop", seq=2)
    assert not done["opens"] and "event 3 was refused" in done["detail"] and "'d'" in done["detail"]
    assert repair(client, action="drop", seq=3)["opens"]
    assert client.verify("bad")["equal"]
    server.close()


def test_a_reset_can_be_dropped(tmp_path):
    """What lies before the last reset is folded quietly: a line that is a reset no longer must not count as one."""
    server = Server(tmp_path)
    server.start()
    client = Client(server)
    client.put_tenant("bad", algorithm="laplaced-kors", representation={"type": "kors"}, context_dim=1)
    for i in range(6):
        client.observe("u", "a", i, context=[i / 6], tenant="bad")
    client.call("POST", "/tenants/bad/rebuild")
    reset = [e["seq"] for e in client.events("bad") if e["type"] == "dictionary" and e.get("reset")][-1]
    client.observe("u", "a", 1, context=[1], tenant="bad")
    server.terminate()
    spoil(server, "bad", reset, {"points": [HUGE]})
    server.start()
    done = repair(client, action="drop", seq=reset)
    assert done["opens"], done
    assert client.verify("bad")["equal"] and client.model("bad")["events"] == 7
    server.close()


def test_a_drop_that_was_cut_off_is_repeated(broken):
    """Killed between the transaction and the mark's removal: the mark is still there, the line is not."""
    broken.start()
    client = Client(broken)
    repair(client, action="read_only", seq=3)
    mark = broken.data / "tenants" / "bad.readonly"
    kept = mark.read_bytes()
    assert repair(client, action="drop", seq=3)["opens"]
    broken.terminate()
    mark.write_bytes(kept)
    broken.start()
    client = Client(broken)
    assert client.call("GET", "/tenants/bad").json["read_only"]["seq"] == 3
    repair(client, expect=409, action="drop", seq=2)
    assert repair(client, action="drop", seq=3)["opens"] and not mark.exists()
    assert "read_only" not in client.call("GET", "/tenants/bad").json and client.verify("bad")["equal"]


def test_only_the_line_that_is_refused_is_repaired(broken):
    broken.start()
    client = Client(broken)
    for action in ("push", "rewind"):
        assert "no shared log" in repair(client, expect=409, action=action)["detail"]
    for action in ("drop", "read_only"):
        assert "event 3" in repair(client, expect=409, action=action, seq=2)["detail"]
        assert "event 3" in repair(client, expect=409, action=action)["detail"]  # nobody repairs what they have not been told of
        client.call("POST", "/tenants/good/repair", {"action": action, "seq": 3}, expect=409)
        client.call("POST", "/tenants/nobody/repair", {"action": action, "seq": 3}, expect=404)
    repair(client, expect=400, action="mend", seq=3)
    repair(client, expect=400, action="drop", seq=0)
    assert client.verify("good")["equal"] and len(client.call("GET", "/tenants/good/events").text.splitlines()) == 4
    broken.terminate()
    spoil(broken, "bad", 1, {"version": 0})
    broken.start()
    assert "first line" in repair(client, expect=409, action="drop", seq=1)["detail"]


def test_the_command_repairs_beside_a_server_and_in_a_folder(broken):
    broken.start()
    files = ("--data", str(broken.data))
    assert '"opens":true' in run_ctl(broken, "repair", "bad", "--read-only", "3")
    assert '"opens":false' in run_ctl(broken, "repair", "bad", "--lift")
    run_ctl(broken, "repair", "bad", expect=2)
    run_ctl(broken, "repair", "bad", "--drop", "3", "--lift", expect=2)
    assert "another one" in run_ctl(broken, "repair", "bad", "--drop", "2", expect=1)
    run_ctl(broken, "repair", "bad", "--drop", "3", *files, expect=1)  # a server has the folder
    broken.terminate()
    assert "no such tenant" in run_ctl(broken, "repair", "nobody", "--drop", "3", *files, expect=1)
    assert "event 3 was refused" in run_ctl(broken, "repair", "bad", "--drop", "3", *files)
    opened = Server(broken.folder, "--open-all").start()
    assert Client(opened).verify("bad")["equal"]
    opened.close()


def test_a_deleted_tenant_takes_its_mark_along(broken):
    broken.start()
    client = Client(broken)
    repair(client, action="read_only", seq=3)
    client.call("DELETE", tenant_path("bad"), expect=204)
    assert [p.name for p in (broken.data / "tenants").iterdir() if p.name.startswith("bad")] == []
    client.put_tenant("bad", algorithm="ucb")
    client.observe("u", "a", 1, tenant="bad")
