"""Graphs that are made beside the writer: what is committed meanwhile, what is killed, and what the log makes of it."""
import json
import os
import pty
import select
import sqlite3
import subprocess
import threading
import time
from contextlib import closing

import pytest

from contract import NDJSON
from harness import CTL, Client
from oracle import graph_from_log

N = 5000  # edges: more than are made in the turn


def ring(n=N, step=1, weight=1.0):
    return [[f"u{i}", f"u{(i + step) % n}", weight] for i in range(n)]


class Aside(threading.Thread):
    """A call in a thread of its own; `answer()` waits for it."""
    def __init__(self, server, *args, **named):
        super().__init__(daemon=True)
        self.server, self.args, self.named, self.result = server, args, named, None
        self.start()

    def run(self):
        try:
            self.result = Client(self.server).call(*self.args, **self.named)
        except Exception as error:  # the server was killed, or said otherwise
            self.result = error

    def answer(self):
        self.join(60)
        assert not self.is_alive()
        if isinstance(self.result, Exception):
            raise self.result
        return self.result.json


@pytest.fixture
def gated(boot, tmp_path):
    """A server whose graphs wait, made, as long as there is a file."""
    gate = tmp_path / "gate"
    server = boot(env={"LAPLACED_FAILPOINT": f"mid_graph@{gate}"})
    return server, Client(server), gate


def rounds(client, name, users):
    """Durable decisions with rewards, for users of the graph and for strangers to it."""
    for i, user in enumerate(users):
        d = client.select(user, candidates=["a", "b"], tenant=name)
        client.reward(d["decision"], i % 3 / 2, tenant=name)


def folded(server, client, name):
    """The digest, which a fold of the log alone must come to as well."""
    client.wait_rebuilt(name)
    digest = client.digest(name)
    assert server.terminate() == 0
    (server.data / "tenants" / f"{name}.snapshot").unlink(missing_ok=True)
    server.start()
    assert client.digest(name) == digest
    return digest


def test_others_are_served_while_a_graph_is_made_and_changes_keep_their_order(gated):
    server, client, gate = gated
    client.put_tenant("t")
    rounds(client, "t", ["u1", "nobody"])
    gate.touch()
    put = Aside(server, "PUT", "/tenants/t/graph", ring(), kind=NDJSON)
    time.sleep(0.3)
    patches = []
    for i in range(3):
        patches.append(Aside(server, "PATCH", "/tenants/t/graph", {"add": [[f"u{i}", "late", i + 1.0]], "remove": [[f"u{i + 9}", f"u{i + 10}"]]}))
        time.sleep(0.1)
    # some of those who come meanwhile are in the graph
    rounds(client, "t", ["u0", "late", "stranger", f"u{N - 1}", "u1"])
    at_work = client.call("GET", "/tenants/t").json["graph"]
    assert at_work["changes"] == 4 and at_work["stage"] == "making" and 0.9 < at_work["progress"] < 1
    assert put.is_alive() and client.call("GET", "/tenants/t/graph").json["users"] == 0
    gate.unlink()
    assert put.answer()["edges"] == N
    assert [p.answer()["edges"] for p in patches] == [N, N, N]
    log = client.events("t")
    assert [e["add"][0][:2] for e in log if e["type"] == "graph"] == [["u0", "u1"]] + [[f"u{i}", "late"] for i in range(3)]
    nodes, edges = graph_from_log(log)
    got = client.call("GET", "/tenants/t/graph").json
    assert (got["users"], got["edges"]) == (len(nodes), len(edges)) == (N + 1, N)
    assert "graph" not in client.call("GET", "/tenants/t").json
    rounds(client, "t", ["late", "u17"])
    folded(server, client, "t")
    assert client.call("GET", "/tenants/t/graph").json == got


def test_a_patched_graph_is_the_one_that_is_put_at_once(api, name):
    edges = ring() + ring(step=7, weight=0.5)
    extra = [[f"u{3 * i}", f"new{i}", 2.5] for i in range(300)]
    for tenant in (name + ".once", name + ".patched"):
        api.put_tenant(tenant, algorithm="lk-gp-ucb")
    api.put_graph(name + ".patched", edges + [["u5", "u77", 9]])
    for i in range(0, 300, 60):
        api.call("PATCH", f"/tenants/{name}.patched/graph", {"add": extra[i:i + 60]})
    api.call("PATCH", f"/tenants/{name}.patched/graph", {"add": [["u7", "u8", 3]], "remove": [["u77", "u5"], ["u2", "u1"]]})
    once = [e for e in edges if e[:2] not in (["u1", "u2"], ["u7", "u8"])] + [["u7", "u8", 3]] + extra
    # nodes have the numbers of the patched one, so that sums over them have the same order, and bits
    users = list(dict.fromkeys([u for e in edges + [["u5", "u77"]] for u in e[:2]] + [e[1] for e in extra]))
    api.put_graph(name + ".once", once, users=users)
    answers = []
    for tenant in (name + ".once", name + ".patched"):
        for i in range(12):
            api.observe(f"u{7 * i}", "ab"[i % 2], i / 12, tenant=tenant)
        answers.append([api.select(u, candidates=["a", "b"], explain=True, dry_run=True, decision=u, tenant=tenant)["ranking"]
                        for u in ("u0", "u1", "u2", "u8", "new3", "stranger")])
    assert answers[0] == answers[1]
    assert len({api.call("GET", f"/tenants/{t}/graph").content for t in (name + ".once", name + ".patched")}) == 1


def make_terminal():
    """A bare container has no devices for one."""
    try:
        return pty.openpty()
    except OSError as e:
        pytest.skip(f"no terminal can be had here: {e}")


def test_laplacectl_tells_how_far_a_load_is(gated, tmp_path):
    server, client, gate = gated
    client.put_tenant("t")
    (tmp_path / "ring.csv").write_text("".join(f"{u},{v},{w}\n" for u, v, w in ring()))
    gate.touch()
    screen, terminal = make_terminal()
    ctl = subprocess.Popen([CTL, "--server", server.url, "--tenant", "t", "graph", "put", str(tmp_path / "ring.csv")],
                           stdout=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    seen = b""
    while b"making" not in seen:
        assert select.select([screen], [], [], 20)[0]
        seen += os.read(screen, 1000)
    assert b"MB sent" in seen
    gate.unlink()
    assert json.loads(ctl.communicate(timeout=60)[0])["edges"] == N
    os.close(screen)


def test_faults_of_large_changes_are_told_by_pointer_and_change_nothing(api, name):
    api.put_tenant(name)
    before = api.put_graph(name, ring())
    digest = api.digest(name)
    path = f"/tenants/{name}/graph"
    refused = api.call("PATCH", path, {"remove": [["u1", "u2"], ["u1", "u3"]]}, expect=409)
    assert refused.pointers == ["/remove/1"]
    refused = api.call("PATCH", path, {"add": [["x", "u2", 1], ["u2", "x", 2]]}, expect=400)
    assert refused.pointers == ["/add/1"]
    refused = api.call("PUT", path, ring() + [["u1", "u0", 2]], kind=NDJSON, expect=400)
    assert refused.pointers == [f"/edges/{N}"]
    assert api.call("GET", path).json == before and api.digest(name) == digest
    assert api.call("PATCH", path, {"add": [["x", "u2", 1]]}).json["users"] == N + 1


def test_a_user_who_is_erased_while_a_graph_is_made_comes_back_with_it(gated):
    """The later event names them; the draft that was made among the users of before is made anew."""
    server, client, gate = gated
    client.put_tenant("t")
    client.put_graph("t", ring())
    rounds(client, "t", ["u3", "u4"])
    gate.touch()
    patch = Aside(server, "PATCH", "/tenants/t/graph", {"add": [["u4", "u9", 2], ["new", "u4", 3]]})
    time.sleep(0.3)
    client.call("DELETE", "/tenants/t/users/u4", expect=(200, 204))
    gate.unlink()
    assert patch.answer()["edges"] == N - 2 + 2
    nodes, edges = graph_from_log(client.events("t"))
    assert (len(nodes), len(edges)) == (N + 1, N)
    folded(server, client, "t")


def test_a_graph_that_was_killed_while_it_was_made_was_never_there(gated):
    server, client, gate = gated
    client.put_tenant("t")
    rounds(client, "t", ["u1", "u2"])
    before = client.digest("t")
    gate.touch()
    put = Aside(server, "PUT", "/tenants/t/graph", ring(), kind=NDJSON)
    time.sleep(0.3)
    server.kill()
    put.join(60)
    gate.unlink()
    server.start()
    assert client.call("GET", "/tenants/t/graph").json["users"] == 0
    assert client.digest("t") == before
    assert client.put_graph("t", ring())["users"] == N
    folded(server, client, "t")


def test_a_server_that_stops_has_answered_its_changes(gated):
    server, client, gate = gated
    client.put_tenant("t")
    gate.touch()
    put = Aside(server, "PUT", "/tenants/t/graph", ring(), kind=NDJSON)
    time.sleep(0.3)
    stop = threading.Thread(target=server.terminate)
    stop.start()
    time.sleep(0.2)
    gate.unlink()
    stop.join(60)
    assert put.answer()["users"] == N
    server.start()
    assert client.call("GET", "/tenants/t/graph").json["users"] == N


def long_ring(n=12000):
    """With names that make its row several pieces, of letters of two bytes each, so that pieces end between bytes of one."""
    names = [f"{i}" + "\u00fc" * (50 + i % 2) for i in range(n)]
    return [[names[i], names[(i + 1) % n], 1.0] for i in range(n)]


def pieces(server, name="t"):
    with closing(sqlite3.connect(f"file:{server.data}/tenants/{name}.db?mode=ro", uri=True)) as db:
        return db.execute("SELECT count(*) FROM pieces").fetchone()[0]


def wait_for(holds, seconds=20):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("passage", [1, 2])
def test_a_row_that_was_killed_between_its_pieces_is_trimmed(boot, passage):
    server = boot(env={"LAPLACED_FAILPOINT": f"mid_pieces:{passage}"})
    client = Client(server)
    client.put_tenant("t")
    rounds(client, "t", ["u1", "u2"])
    before = client.digest("t")
    put = Aside(server, "PUT", "/tenants/t/graph", long_ring(), kind=NDJSON)
    put.join(60)
    assert server.process.wait(60) == -9
    assert pieces(server) == passage
    server.close()
    del server.env["LAPLACED_FAILPOINT"]
    server.start()
    assert client.digest("t") == before
    assert client.call("GET", "/tenants/t/graph").json["users"] == 0
    rounds(client, "t", ["u3"])
    wait_for(lambda: pieces(server) == 0)
    assert client.call("PUT", "/tenants/t/graph", long_ring(), kind=NDJSON).json["users"] == 12000
    folded(server, client, "t")


def test_a_row_in_pieces_is_a_line_like_any_other(boot):
    server = boot()
    client = Client(server)
    client.put_tenant("t")
    edges = long_ring()
    client.call("PUT", "/tenants/t/graph", edges, kind=NDJSON)
    assert pieces(server) > 2
    rounds(client, "t", [edges[0][0], "u3"])
    client.wait_rebuilt("t")
    log = client.events("t")
    is_same = [e["add"] for e in log if e["type"] == "graph"] == [edges]  # megabytes, for pytest not to compare
    assert is_same
    exported = client.call("GET", "/tenants/t/export")
    assert exported.text.count("\n") == len(log)
    client.call("POST", "/tenants/moved/import", raw=exported.content, kind=NDJSON, expect=201)
    assert client.digest("moved") == client.digest("t")
    copied = client.call("POST", "/tenants/t/snapshot").content
    client.call("PUT", "/tenants/copied/snapshot", raw=copied, kind="application/vnd.sqlite3", expect=201)
    assert client.digest("copied") == client.digest("t")
    assert client.verify("t")["equal"]
    gone = edges[7][0]
    client.call("DELETE", f"/tenants/t/users/{gone}", expect=(200, 204))
    wait_for(lambda: pieces(server) == 0)
    assert client.call("GET", "/tenants/t/graph").json["edges"] == 12000 - 2
    assert client.call("GET", "/tenants/t/export").text.count(f'"{gone}"') == 0
    folded(server, client, "t")
    client.call("POST", "/observe", [{"user": edges[i][0], "arm": "a", "reward": 0.5} for i in range(50)], kind=NDJSON, tenant="copied")
    summary = client.call("GET", "/tenants/copied/graph").json
    assert client.call("POST", "/tenants/copied/compact", {"keep_events": 1}).json["compacted"]
    wait_for(lambda: pieces(server, "copied") == 0)
    folded(server, client, "copied")
    assert client.call("GET", "/tenants/copied/graph").json == summary
