"""Three servers, one log in PostgreSQL with a synchronous standby: what a client sees is one service, whoever dies."""
import collections
import json
import os
import random
import re
import subprocess
import threading
import time

import pytest

from servers import Servers, at_once, events_of, init, log_of, settle, wait_for
import pg
from harness import BIN, Client, Server
import prometheus_text
from prometheus_text import value

pytestmark = pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")
TIMES = int(os.environ.get("CLUSTER_TIMES", 1))  # as often, where servers are asked at once


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pg")
    with pg.Cluster(folder, 2) as cluster:
        init(cluster.url)
        yield cluster


@pytest.fixture(scope="module")
def trio(database, tmp_path_factory):
    """Three servers for all tests that let them live."""
    servers = Servers(tmp_path_factory.mktemp("servers"), database.url)
    servers.ready()
    yield servers
    servers.end()
    for server in servers.servers:  # nothing was wrong, and nobody was told that something was
        assert [line for line in server.log().splitlines() if "level=error" in line] == []


@pytest.fixture
def three(trio):
    return trio.clients()


@pytest.fixture
def name(request):
    return "t-" + request.node.name[5:60].replace("_", "-").split("[")[0]


# ---- tenants

def test_a_tenant_is_everywhere_once_it_is_made(three, name):
    a, b, c = three
    for i in range(10):
        a.put_tenant(f"{name}{i}", algorithm="ucb")
        assert b.call("GET", f"/tenants/{name}{i}").json["configuration"]["algorithm"] == "ucb"
        assert c.select("u", tenant=f"{name}{i}", candidates=["x", "y"])["arm"] in "xy"


def test_who_makes_the_same_tenant_at_once_shares_it(three, name):
    for i in range(10):
        made = at_once(*[lambda k=k, api=api: api.call("PUT", f"/tenants/{name}{i}", {"algorithm": "ucb", "seed": k}, expect=(200, 201)).status
                         for k, api in enumerate(three)])
        assert sorted(made) == [200, 200, 201], made
        log, _ = settle(three, f"{name}{i}")
        configured = [e for e in events_of(log) if e["type"] == "configured"]
        assert sorted(e["configuration"]["seed"] for e in configured) == [0, 1, 2]
        assert [e["version"] for e in configured] == [1, 2, 3]


def test_a_tenant_that_is_deleted_is_gone_everywhere_and_its_name_is_free(three, name):
    a, b, c = three
    for round_ in range(3):
        a.put_tenant(name, algorithm="ucb", seed=round_)
        for api in three:
            api.select("u", tenant=name, candidates=["x", "y"])
        c.call("DELETE", f"/tenants/{name}", expect=204)
        c.call("GET", f"/tenants/{name}", expect=404)
        for api in (a, b):
            wait_for(lambda: api.call("GET", f"/tenants/{name}", expect=(200, 404, 503)).status == 404, what="404")
        # Files of what was are taken away while nobody looks; until then the name says "later".
        wait_for(lambda: b.call("PUT", f"/tenants/{name}", {"algorithm": "laplaced"}, expect=(201, 503)).status == 201)
        wait_for(lambda: a.call("GET", f"/tenants/{name}", expect=(200, 404, 503)).status == 200)
        assert a.call("GET", f"/tenants/{name}").json["configuration"]["algorithm"] == "laplaced"
        assert len(events_of(settle(three, name)[0])) == 1
        b.call("DELETE", f"/tenants/{name}", expect=204)
        wait_for(lambda: a.call("GET", f"/tenants/{name}", expect=(200, 404, 503)).status == 404)
        wait_for(lambda: a.call("PUT", f"/tenants/{name}", {"algorithm": "ucb"}, expect=(201, 503)).status == 201)
        a.call("DELETE", f"/tenants/{name}", expect=204)


def test_a_name_that_no_server_knows_is_404(three):
    for api in three:
        assert api.call("GET", "/tenants/nobodys", expect=404).json["type"] == "/problems/no-tenant"
        assert api.call("POST", "/select", {"user": "u", "candidates": ["a"]}, tenant="nobodys", expect=404)


def test_a_configuration_that_needs_one_server_alone_is_refused(three, name):
    a, b, _ = three
    for field, value in (("durability", "relaxed"),):
        answer = a.call("PUT", f"/tenants/{name}", {"algorithm": "ucb", field: value}, expect=422)
        assert answer.pointers == [f"/{field}"], answer.json
        b.call("GET", f"/tenants/{name}", expect=404)
    a.put_tenant(name, algorithm="ucb")
    b.call("PATCH", f"/tenants/{name}", {"durability": "relaxed"}, expect=422)
    assert len(events_of(settle(three, name)[0])) == 1


# ---- decisions and rewards

def test_a_reward_at_another_server_right_behind_its_decision_is_never_404(three, name):
    three[0].put_tenant(name, algorithm="laplaced")
    for i in range(300):
        one, other = random.Random(i).sample(three, 2)
        decision = one.select(f"u{i % 20}", tenant=name, candidates=["x", "y"])
        assert other.reward(decision["decision"], i % 2, tenant=name)["applied"]
    log, _ = settle(three, name)
    assert collections.Counter(e["type"] for e in events_of(log))["rewarded"] == 300


def test_one_decision_id_at_three_servers_is_one_decision(three, name):
    three[0].put_tenant(name, algorithm="ts")
    for i in range(100 * TIMES):
        answers = at_once(*[lambda api=api: api.select("u", tenant=name, candidates=["x", "y", "z"], decision=f"d{i}") for api in three])
        assert len({json.dumps(a, sort_keys=True) for a in answers}) == 1, answers
    log, _ = settle(three, name)
    assert collections.Counter(e["decision"] for e in events_of(log) if e["type"] == "decided") == {f"d{i}": 1 for i in range(100 * TIMES)}


def test_a_reward_that_two_servers_get_is_learned_once(three, name):
    three[0].put_tenant(name, algorithm="laplaced")
    for i in range(50):
        decision = three[i % 3].select("u", tenant=name, candidates=["x", "y"])["decision"]
        told = at_once(*[lambda api=api: api.reward(decision, 1, tenant=name)["applied"] for api in three])
        assert sorted(told) == [False, False, True], told
    log, _ = settle(three, name)
    assert collections.Counter(e["type"] for e in events_of(log))["rewarded"] == 50


def test_laplaced_after_reads_what_was_written_elsewhere(three, name):
    three[0].put_tenant(name, algorithm="laplaced")
    for i in range(60):
        one, other = random.Random(i).sample(three, 2)
        seq = one.call("POST", "/select", {"user": "u", "candidates": ["x", "y"]}, tenant=name).headers["Laplaced-Seq"]
        answer = other.call("GET", f"/tenants/{name}/stats", headers={"Laplaced-After": seq})
        assert answer.json["decisions"] >= i + 1 and int(answer.headers["Laplaced-Seq"]) >= int(seq)
    a = three[0]
    start = time.monotonic()
    late = a.call("GET", f"/tenants/{name}/stats", headers={"Laplaced-After": "999999"}, expect=503)
    assert time.monotonic() - start >= 1.9 and "line 999999" in late.json["detail"] and "Retry-After" in late.headers
    for bad in ("-1", "x", "", "1" * 19, "1.0"):
        a.call("GET", f"/tenants/{name}/stats", headers={"Laplaced-After": bad}, expect=400)


def test_a_stop_that_was_acknowledged_holds_at_every_server(three, name):
    """No decision that was asked for behind its answer is the policy's, at whichever server."""
    three[0].put_tenant(name, algorithm="ts", routing={"holdout": {"share": 0, "baseline": {"arm": "safe"}}})
    three[0].call("PUT", f"/tenants/{name}/arms", {"arms": [{"id": i} for i in ("safe", "bold", "new")]})
    shown, stopped_at, is_over = [], [], threading.Event()

    def ask(api):
        while not is_over.is_set():
            asked = time.monotonic()
            arm = api.select("u", tenant=name)["arm"]
            shown.append((asked, time.monotonic(), arm))
    threads = [threading.Thread(target=ask, args=(Client(s.server),)) for s in three[1:] for _ in range(2)]
    for t in threads:
        t.start()
    for _ in range(5):
        time.sleep(0.3)
        three[0].call("POST", f"/tenants/{name}/stop")
        begin = time.monotonic()
        time.sleep(0.3)
        stopped_at.append((begin, time.monotonic()))
        three[0].call("POST", f"/tenants/{name}/start")
    is_over.set()
    for t in threads:
        t.join()
    within = [arm for asked, told, arm in shown if any(begin <= asked and told <= end for begin, end in stopped_at)]
    assert len(within) > 50 and set(within) == {"safe"}, collections.Counter(within)
    assert {"bold", "new"} & {arm for _, _, arm in shown}
    settle(three, name)


def test_an_arm_that_was_retired_is_shown_nowhere_afterwards(three, name):
    three[0].put_tenant(name, algorithm="ts")
    three[0].call("PUT", f"/tenants/{name}/arms", {"arms": [{"id": f"arm{i}"} for i in range(12)]})
    for api in three:
        api.select("u", tenant=name)
    for i in range(10):
        three[i % 3].call("PATCH", f"/tenants/{name}/arms", {"remove": [f"arm{i}"]})
        for k in range(1, 3):
            for _ in range(5 * TIMES ** 2):
                arm = three[(i + k) % 3].select("u", tenant=name)["arm"]
                assert int(arm[3:]) > i, (arm, i)
    settle(three, name)


def test_a_user_sticks_to_one_arm_whichever_servers_decide_first(three, name):
    three[0].put_tenant(name, algorithm="ts", routing={"sticky": {"ttl_s": 3600}})
    three[0].call("PUT", f"/tenants/{name}/arms", {"arms": [{"id": f"arm{i}"} for i in range(8)]})
    for i in range(100 * TIMES):
        arms = at_once(*[lambda api=api: api.select(f"u{i}", tenant=name)["arm"] for api in three])
        assert len(set(arms)) == 1, arms
    settle(three, name)


# ---- without the log

def test_without_the_log_a_server_reads_and_is_not_ready_and_comes_back(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    with pg.Cluster(folder / "pg") as database:
        init(database.url)
        (folder / "s").mkdir()
        servers = Servers(folder / "s", database.url, n=2, args=("--log-wait", "500", "--log-poll", "10", "--max-lag", "300"))
        try:
            servers.ready()
            a, b = servers.clients()
            a.put_tenant("shop", algorithm="laplaced")
            decision = a.select("u", tenant="shop", candidates=["x", "y"])["decision"]
            settle([a, b], "shop")
            for standby in database.standbys:
                standby.stop()
            database.kill_primary()
            wait_for(lambda: all(c.call("GET", "/readyz", expect=(200, 503)).status == 503 for c in (a, b)))
            assert a.call("GET", "/readyz", expect=503).json["detail"].startswith("the shared log: ")
            assert b.call("GET", "/tenants/shop/stats").json["decisions"] == 1
            refused = a.call("POST", "/reward", {"decision": decision, "reward": 1}, tenant="shop", expect=503)
            assert "Retry-After" in refused.headers
            # A server that starts now serves its copy.
            b.server.restart()
            again = Client(b.server)
            assert again.call("GET", "/tenants/shop/stats").json["decisions"] == 1
            for instance in sorted(database.instances, key=lambda i: i.is_standby):
                (instance.home / "dead").unlink(missing_ok=True)
                instance.start()
            database.wait_synchronous()
            servers.ready()
            assert a.reward(decision, 1, tenant="shop")["applied"] or "nothing was recorded" not in refused.json["detail"]
            settle(servers.clients(), "shop")
        finally:
            servers.close()


def test_a_tenant_that_chose_so_decides_while_the_log_is_away_and_nothing_of_it_is_recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decides")
    with pg.Cluster(folder / "pg") as database:
        init(database.url)
        (folder / "s").mkdir()
        servers = Servers(folder / "s", database.url, n=2, args=("--log-wait", "500", "--log-poll", "10"))
        try:
            servers.ready()
            a, b = servers.clients()
            a.put_tenant("shop", algorithm="laplaced", on_log_failure="decide")
            a.put_tenant("bank", algorithm="laplaced")
            assert b.call("GET", "/tenants/shop").json["configuration"]["on_log_failure"] == "decide"
            assert "on_log_failure" not in b.call("GET", "/tenants/bank").json["configuration"]
            known = a.select("u", tenant="shop", candidates=["x", "y"], decision="known")
            settle([a, b], "shop")
            settle([a, b], "bank")
            for standby in database.standbys:
                standby.stop()
            database.kill_primary()
            seen = set()
            for i in range(50):
                for client in (a, b):
                    answer = client.select(f"u{i}", tenant="shop", candidates=["x", "y"])
                    assert answer["recorded"] is False and answer["decision"] == "" and 0 < answer["propensity"] <= 1
                    assert answer["ranking"][0]["arm"] == answer["arm"]
                    seen.add(answer["arm"])
            assert seen == {"x", "y"}
            for client in (a, b):  # a log that is known to be away is not asked for each of them
                said = client.call("GET", "/metrics").text
                assert int(float(re.search(r'laplaced_log_outcomes_total\{outcome="down"\} (\S+)', said)[1])) < 10
            assert a.select("u", tenant="shop", candidates=["x", "y"], decision="known") == known
            refused = a.select("u", tenant="shop", candidates=["x", "y"], decision="later")
            assert refused["recorded"] is False
            a.select("u", tenant="bank", candidates=["x", "y"], expect=503)
            a.reward("known", 1, tenant="shop", expect=503)
            assert "laplaced_unrecorded_total 51" in a.call("GET", "/metrics").text
            for instance in sorted(database.instances, key=lambda i: i.is_standby):
                (instance.home / "dead").unlink(missing_ok=True)
                instance.start()
            database.wait_synchronous()
            servers.ready()
            wait_for(lambda: b.select("v", tenant="shop", candidates=["x", "y"])["decision"] != "", what="a decision that is recorded")
            a.reward("later", 1, tenant="shop", expect=404)
            assert b.select("u", tenant="shop", candidates=["x", "y"], decision="later")["decision"] == "later"
            assert b.reward("known", 1, tenant="shop")["applied"]
            log, _ = settle(servers.clients(), "shop")
            lines = [e["decision"] for e in events_of(log) if e["type"] == "decided"]
            assert len(lines) == len(set(lines)) <= 4 and {"known", "later"} <= set(lines)
        finally:
            servers.close()


# ---- lag

def test_a_server_that_is_held_tells_how_far_it_is_behind_and_when_it_is_not(database, tmp_path):
    """It reads no line while the gate is there."""
    gate, servers = tmp_path / "gate", Servers(tmp_path, database.url, n=1)
    try:
        held = servers.add("--max-lag", "300")
        held.kill()
        held.env["LAPLACED_FAILPOINT"] = f"mid_follow@{gate}"
        held.start()
        servers.ready()
        a, b = servers.clients()

        def told(api):
            log, text = api.call("GET", "/tenants/behind").json["log"], prometheus_text.parse(api.call("GET", "/metrics").text)
            return log["lag_events"], log["lag_seconds"] > 0, value(text, "laplaced_lag_events", tenant="behind")
        a.put_tenant("behind", algorithm="ucb")
        wait_for(lambda: b.call("GET", "/tenants/behind", expect=(200, 404)).status == 200)
        assert told(a) == told(b) == (0, False, 0)
        gate.touch()
        for n in (1, 2, 3):
            a.select("u", tenant="behind", candidates=["x", "y"])
            wait_for(lambda: told(b) == (n, True, n), what=f"that b tells {n}")
        early = b.call("GET", "/tenants/behind").json["log"]["lag_seconds"]
        refusal = wait_for(lambda: b.call("GET", "/readyz", expect=(200, 503)).json.get("detail"))
        assert re.search(r"[0-9]{3,} ms behind the shared log, 3 events", refusal), refusal
        assert b.call("GET", "/tenants/behind").json["log"]["lag_seconds"] > early
        assert told(a) == (0, False, 0) and a.call("GET", "/readyz").status == 200
        gate.unlink()
        servers.ready()
        assert told(b) == (0, False, 0)
        settle([a, b], "behind")
    finally:
        gate.unlink(missing_ok=True)
        servers.close()


# ---- folders

def test_a_copy_is_served_by_nobody_without_its_log_and_a_tenant_of_one_server_is_no_copy(database, tmp_path):
    (tmp_path / "cluster").mkdir()
    servers = Servers(tmp_path / "cluster", database.url, n=1)
    try:
        servers.ready()
        Client(servers.servers[0]).put_tenant("copied", algorithm="ucb")
    finally:
        servers.close()
    alone = Server(tmp_path / "cluster" / "a")
    try:
        alone.start()
        answer = Client(alone).call("GET", "/tenants/copied", expect=(500, 503))
        assert "copy" in answer.json["detail"], answer.json
    finally:
        alone.close()
    (tmp_path / "own").mkdir()
    own = Server(tmp_path / "own")
    try:
        own.start()
        Client(own).put_tenant("mine", algorithm="ucb")
        before = log_of(Client(own), "mine")
        own.close()
        refused = subprocess.run([BIN, "--data", str(own.data), "--listen", "127.0.0.1:0", "--log", database.url, "--node", "own"], capture_output=True, text=True, timeout=60)
        assert refused.returncode == 1 and "is a log of its own" in refused.stderr, refused.stderr
        own.start()
        assert log_of(Client(own), "mine") == before
    finally:
        own.close()
