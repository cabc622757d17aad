"""Work beside the log of a tenant that several servers share: replays, evaluations, challengers and what comes of them."""
import concurrent.futures
import json
import random
import signal
import time

import pytest
import requests

import pg
from servers import Servers, at_once, ctl, events_of, log_of, settle, wait_for
from harness import NDJSON, Client, Server

pytestmark = pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")


@pytest.fixture
def name(request):
    return "t-" + request.node.name[5:60].replace("_", "-").split("[")[0]


def play(apis, name, n, rng, pays=lambda arm: float(arm > "w"), first=0):
    """Decisions with their rewards, each at any server."""
    for i in range(first, first + n):
        told = rng.choice(apis).select(f"u{i % 7}", decision=f"d{i}", tenant=name, candidates=["v", "w", "x", "y"])
        rng.choice(apis).reward(told["decision"], pays(told["arm"]), tenant=name)


# ---- replays

def replay(api, name, head, log=b"", expect=200):
    answer = api.call("POST", f"/tenants/{name}/replay", raw=json.dumps({"type": "replay", **head}).encode() + b"\n" + log, kind=NDJSON, expect=expect)
    return json.loads(answer.text.splitlines()[-1])


def test_a_replay_at_any_server_is_the_tenant_and_makes_no_other(three, name):
    three[0].put_tenant(name, algorithm="laplaced-kors")
    play(three, name, 60, random.Random(1))
    log, digest = settle(three, name)
    configuration = three[0].call("GET", f"/tenants/{name}").json["configuration"]
    reports = [replay(api, name, {"configuration": configuration, "log": "own"}) for api in three]
    reports += [replay(three[0], name, {"configuration": configuration}, three[1].call("GET", f"/tenants/{name}/export").content)]
    assert {r["type"] for r in reports} == {"report"} and {r["model"]["digest"] for r in reports} == {digest}
    other = [replay(api, name, {"configuration": {"algorithm": "ts"}, "log": "own"}) for api in three]
    assert other[0] == other[1] == other[2] and other[0]["model"]["digest"] != digest
    made = replay(three[0], name, {"configuration": {"algorithm": "ts"}, "log": "own", "commit": f"{name}-made"})
    assert made["type"] == "report" and made["tenant"] == f"{name}-made"
    wait_for(lambda: all(api.call("GET", f"/tenants/{name}-made", expect=(200, 503)).status == 200 for api in three))
    assert settle(three, f"{name}-made")[1] == other[0]["model"]["digest"]
    assert settle(three, name) == (log, digest)


# ---- tenants that come whole

def test_a_tenant_of_a_server_that_was_alone_comes_whole_and_goes_on(three, name, tmp_path):
    """As lines or as a file: at every server the same model, which then learns."""
    shapes = {"plain": dict(algorithm="ucb"), "kors": dict(algorithm="laplaced-kors", representation={"type": "kors", "lambda": 0.2, "max_dictionary": 12}),
              "sum": dict(algorithm="ts", aggregation="sum", default_reward=None)}
    alone = Server(tmp_path)
    try:
        alone.start()
        one = Client(alone)
        for shape, config in shapes.items():
            one.put_tenant(shape, **config)
            one.put_graph(shape, [(f"u{i}", f"u{(i + 1) % 7}", 1) for i in range(7)])
            play([one], shape, 700, random.Random(shape))
            one.call("PATCH", f"/tenants/{shape}", {"seed": 9})
            one.wait_rebuilt(shape)
            play([one], shape, 40, random.Random(1), first=1000)
            lines, copy = one.call("GET", f"/tenants/{shape}/export").content, one.call("POST", f"/tenants/{shape}/snapshot").content
            for way, api in (("lines", three[0]), ("file", three[1])):
                target = f"whole-{shape}-{way}"
                told = (api.call("POST", f"/tenants/{target}/import", raw=lines, kind=NDJSON, expect=201) if way == "lines" else
                        api.call("PUT", f"/tenants/{target}/snapshot", raw=copy, kind="application/vnd.sqlite3", expect=201)).json
                assert told["digest"] == one.digest(shape)
                for other in three:
                    wait_for(lambda: other.call("GET", f"/tenants/{target}", expect=(200, 503)).status == 200)
                log, digest = settle(three, target)
                assert digest == one.digest(shape) and three[2].call("GET", f"/tenants/{target}/export").content == lines
                assert three[2].reward("d1000", 0.0, tenant=target, expect=(200, 409)) is not None
                play(three, target, 30, random.Random(2), first=2000)
                settle(three, target)
                for other in three:
                    assert other.verify(target)["equal"]
            api.call("POST", f"/tenants/{target}/import", raw=lines, kind=NDJSON, expect=409)
    finally:
        alone.close()


@pytest.mark.parametrize("way", ["lines", "file"])
def test_a_tenant_whose_log_was_compacted_comes_with_its_summary(three, trio, way, tmp_path):
    """Of a file, what was counted over the lines that are gone comes as well."""
    alone, source, target = Server(tmp_path), "short", f"short-{way}"
    try:
        alone.start()
        one = Client(alone)
        one.put_tenant(source, algorithm="laplaced-kors", representation={"type": "kors", "lambda": 0.2, "max_dictionary": 12}, experiment={"difference": 0.1})
        play([one], source, 700, random.Random(way))
        assert one.call("POST", f"/tenants/{source}/compact", {"keep_events": 40}).json["compacted"]
        play([one], source, 40, random.Random(1), first=1000)
        api, late = three[0], three[1]
        if way == "lines":
            body = one.call("GET", f"/tenants/{source}/export").content
            told = api.call("POST", f"/tenants/{target}/import", raw=body, kind=NDJSON, expect=201).json
        else:
            body = one.call("POST", f"/tenants/{source}/snapshot").content
            told = api.call("PUT", f"/tenants/{target}/snapshot", raw=body, kind="application/vnd.sqlite3", expect=201).json
        assert told["digest"] == one.digest(source)
        for other in three:
            wait_for(lambda: other.call("GET", f"/tenants/{target}", expect=(200, 503)).status == 200)
        log, digest = settle(three, target)
        assert digest == one.digest(source) and late.call("GET", f"/tenants/{target}/export").content == one.call("GET", f"/tenants/{source}/export").content
        starts = [c.call("GET", f"/tenants/{name}").json["log"]["first"] for c, name in ((one, source), *((c, target) for c in three))]
        assert len(set(starts)) == 1 and starts[0] > 1, starts
        if way == "file":
            for what in ("series", "stats"):
                assert len({json.dumps({k: v for k, v in c.call("GET", f"/tenants/{name}/{what}").json.items() if k not in ("tenant", "window", "warnings", "unknown")}, sort_keys=True)
                            for c, name in ((one, source), (api, target), (late, target))}) == 1, what
        play(three, target, 60, random.Random(2), first=2000)
        assert three[1].call("POST", f"/tenants/{target}/compact", {"keep_events": 5}, expect=(200, 202)).json["compacted"]  # a server of another case may be missed
        three[2].call("DELETE", f"/tenants/{target}/users/u1", expect=(200, 202, 404))
        fresh = Client(trio.add())
        wait_for(lambda: fresh.call("GET", f"/tenants/{target}", expect=(200, 404, 503)).status == 200)
        settle([*three, fresh], target)
        for other in (*three, fresh):
            assert other.verify(target)["equal"]
        trio.remove(fresh.server)
        ctl("verify", target, "--log", trio.log)
        api.call("POST" if way == "lines" else "PUT", f"/tenants/{target}/{'import' if way == 'lines' else 'snapshot'}", raw=body,
                 kind=NDJSON if way == "lines" else "application/vnd.sqlite3", expect=409)
    finally:
        alone.close()


def test_what_comes_in_at_two_servers_under_one_name_is_one_of_them(three, name):
    logs = []
    for k in range(2):
        three[0].put_tenant(f"from{k}", algorithm="ucb", seed=k)
        play(three, f"from{k}", 200, random.Random(k))
        logs.append(settle(three, f"from{k}"))
    exports = [three[0].call("GET", f"/tenants/from{k}/export").content for k in range(2)]
    for i in range(6):
        told = at_once(*[lambda k=k: three[k].call("POST", f"/tenants/both{i}/import", raw=exports[k], kind=NDJSON, expect=(201, 409)).status for k in range(2)],
                       lambda: three[2].call("PUT", f"/tenants/both{i}", {"algorithm": "ts"}, expect=(200, 201, 503)).status)
        for api in three:
            wait_for(lambda: api.call("GET", f"/tenants/both{i}", expect=(200, 404, 503)).status == 200)
        lines = events_of(settle(three, f"both{i}")[0])
        assert sum(t == 201 for t in told) == 1 or told[2] == 503, told
        # One log, whole, and what was changed behind it.
        assert any(log_of(three[0], f"both{i}").startswith(log) for log, _ in logs) or lines[0]["configuration"]["algorithm"] == "ts"


def test_nothing_is_left_of_a_tenant_that_comes_while_its_server_dies(own, tmp_path):
    servers = Servers(tmp_path, own.url, n=2)
    try:
        servers.ready()
        a, b = servers.clients()
        a.put_tenant("from", algorithm="ucb")
        a.call("POST", "/observe", [{"user": f"u{i % 9}", "arm": f"a{i % 4}", "reward": i % 2} for i in range(3000)], kind=NDJSON, tenant="from")
        log, digest = settle([a, b], "from")
        lines = a.call("GET", "/tenants/from/export").content
        for i in range(5):
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                asked = pool.submit(lambda: requests.post(f"{a.server.url}/tenants/into{i}/import", data=lines, headers={"Content-Type": NDJSON}, timeout=60).status_code)
                time.sleep(random.uniform(0, 1))
                a.server.kill()
                try:
                    told = asked.result()
                except requests.RequestException:
                    told = 0
            rows = own.primary.sql(f"SELECT count(*), count(DISTINCT t.id) FILTER (WHERE t.last = {len(events_of(log))}) FROM laplaced.batch AS b JOIN laplaced.tenant AS t ON t.id = b.tenant WHERE t.name = 'into{i}'")
            assert rows == "0|0" or rows.endswith("|1"), rows
            a.server.start()
            servers.ready()
            if told == 201 or rows != "0|0":
                wait_for(lambda: b.call("GET", f"/tenants/into{i}", expect=(200, 503)).status == 200)
                assert settle([a, b], f"into{i}")[1] == digest
            else:
                b.call("GET", f"/tenants/into{i}", expect=404)
                b.call("PUT", f"/tenants/into{i}", {"algorithm": "ts"}, expect=201)
    finally:
        servers.close()


def file_with_summary(folder):
    """Of a tenant whose log was compacted at a server that was alone."""
    alone = Server(folder)
    try:
        alone.start()
        one = Client(alone)
        one.put_tenant("short", algorithm="ucb", default_reward=None)
        play([one], "short", 60, random.Random(1))
        assert one.call("POST", "/tenants/short/compact", {"keep_events": 20}).json["compacted"]
        return one.call("POST", "/tenants/short/snapshot").content
    finally:
        alone.close()


class Held:
    """A server at which a file that comes stands still at a point, its transaction open in PostgreSQL."""

    def __init__(self, cluster, folder, point):
        self.cluster, self.gate, self.copy = cluster, folder / "gate", file_with_summary(folder)
        self.servers, self.pool = Servers(folder, cluster.url, n=0), concurrent.futures.ThreadPoolExecutor(1)
        self.servers.add(env={"LAPLACED_FAILPOINT": f"{point}@{self.gate}"})
        self.servers.ready()
        self.api = self.servers.clients()[0]
        self.gate.touch()
        self.answer = self.pool.submit(self.send, (201, 409, 503))
        self.pid = wait_for(lambda: cluster.primary.sql("SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' AND backend_xid IS NOT NULL"))

    def send(self, expect):
        return self.api.call("PUT", "/tenants/lost/snapshot", raw=self.copy, kind="application/vnd.sqlite3", expect=expect)

    def go_on(self):
        """What the caller is told."""
        self.gate.unlink()
        return self.answer.result(60)

    def close(self):
        self.gate.unlink(missing_ok=True)
        self.pool.shutdown()
        self.servers.close()


@pytest.mark.parametrize("point", ["mid_shared_send", "before_shared_compaction"])
def test_a_turn_that_is_lost_under_a_tenant_that_comes_is_no_tenant(own, tmp_path, point):
    held = Held(own, tmp_path, point)
    try:
        own.primary.sql(f"SELECT pg_terminate_backend({held.pid})")
        told = held.go_on()
        assert told.status == 503 and "nothing was made" in told.json["detail"], told.text
        held.api.call("GET", "/tenants/lost", expect=404)
        held.send(201)
        held.send(409)
    finally:
        held.close()


def test_a_stop_ends_an_import_into_the_log(own, tmp_path):
    held = Held(own, tmp_path, "mid_shared_send")
    try:
        held.api.server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "stopping: 1 requests" in held.api.server.log())
        told = held.go_on()
        assert told.status == 503 and "stopping" in told.json["detail"], told.text
        assert held.api.server.terminate() == 0, held.api.server.log()[-2000:]
        assert own.primary.sql("SELECT count(*) FROM laplaced.tenant WHERE name = 'lost'") == "0"
        held.api.server.start()
        held.servers.ready()
        held.send(201)
    finally:
        held.close()


# ---- evaluations

def without_times(result):
    return [{k: v for k, v in policy.items() if "seconds" not in k and "_us" not in k} for policy in result["policies"]]


def test_an_evaluation_is_its_servers_and_the_others_say_whose(three, name):
    three[0].put_tenant(name, algorithm="random", default_reward=None)
    play(three, name, 80, random.Random(7))
    settle(three, name)
    body = {"policies": [{"configuration": {"algorithm": "ts"}}, "logged"]}
    results = []
    for api in three:  # one after the other: each server has one at a time, of its own
        begun = api.call("POST", f"/tenants/{name}/evaluations", body, expect=202).json
        assert begun["id"].startswith(f"{api.server.folder.name}-")
        done = wait_for(lambda: (e := api.call("GET", f"/tenants/{name}/evaluations/{begun['id']}").json)["state"] == "done" and e, 60, "the result")
        results.append(done["result"])
        for other in three:
            if other is not api:
                said = other.call("GET", f"/tenants/{name}/evaluations/{begun['id']}", expect=404).json
                assert said["type"] == "/problems/no-evaluation" and "each has those that it was asked for" in said["detail"]
                other.call("DELETE", f"/tenants/{name}/evaluations/{begun['id']}", expect=404)
                assert begun["id"] not in [e["id"] for e in other.call("GET", f"/tenants/{name}/evaluations").json["evaluations"]]
    assert len({json.dumps(without_times(r), sort_keys=True) for r in results}) == 1, [without_times(r) for r in results]
    log, _ = settle(three, name)
    assert {e["type"] for e in events_of(log)} == {"configured", "decided", "rewarded"}
    api.server.restart()
    Client(api.server).call("GET", f"/tenants/{name}/evaluations/{begun['id']}")
    Client(api.server).call("DELETE", f"/tenants/{name}/evaluations/{begun['id']}", expect=204)


# ---- challengers

def challengers(api, name):
    return api.call("GET", f"/tenants/{name}/challengers").json


def test_one_server_follows_and_all_tell_what_it_has_found(three, name):
    """As a server alone would, from the same log: a replay of it under the challenger's configuration."""
    three[0].put_tenant(name, algorithm="random", default_reward=None, challengers={"careful": {"algorithm": "ts"}, "plain": {"algorithm": "ucb"}})
    play(three, name, 120, random.Random(2))
    log, _ = settle(three, name)
    tip = events_of(log)[-1]["seq"]

    def views():
        told = [challengers(api, name) for api in three]
        return told if all(c["seq"] == tip for v in told for c in v["challengers"]) else None
    told = wait_for(views, 40, "what was found")
    assert len({v["node"] for v in told}) == 1, told
    for view in told:  # digests are told by who follows alone
        for challenger in view["challengers"]:
            challenger.pop("digest"), challenger.pop("bytes")
    assert told[0] == told[1] == told[2]
    assert [(c["name"], c["decisions"], c["stopped"]) for c in told[0]["challengers"]] == [("careful", 120, None), ("plain", 120, None)]
    own = replay(three[0], name, {"configuration": {"algorithm": "ts"}, "log": "own"})
    assert told[0]["challengers"][0]["learned"] == own["learned"]
    bytes_ = [float(line.split()[-1]) for api in three for line in api.call("GET", "/metrics").text.splitlines()
              if line.startswith("laplaced_challenger_bytes{") and f'"{name}"' in line]
    assert sum(b > 0 for b in bytes_) == 1, bytes_


def test_promotions_at_three_servers_are_one_behind_the_other(three, name):
    three[0].put_tenant(name, algorithm="random", default_reward=None, challengers={"careful": {"algorithm": "ts"}})
    play(three, name, 20, random.Random(3))
    told = at_once(*[lambda api=api: api.call("POST", f"/tenants/{name}/promote", {"challenger": "careful", "version": 1}, expect=(200, 409)) for api in three])
    assert {a.json.get("version", 2) for a in told} == {2}  # who comes late is a retry
    for api in three:
        view = wait_for(lambda: (v := api.call("GET", f"/tenants/{name}").json)["version"] == 2 and v)
        assert view["configuration"]["algorithm"] == "ts" and list(view["configuration"]["challengers"]) == ["previous"]
    play(three, name, 20, random.Random(4), first=100)
    back = three[2].call("POST", f"/tenants/{name}/rollback", {"version": 2}).json
    assert back["version"] == 3 and back["configuration"]["algorithm"] == "random"
    play(three, name, 20, random.Random(5), first=200)
    log, _ = settle(three, name)
    configured = [e for e in events_of(log) if e["type"] == "configured"]
    assert [e["configuration"]["promotion"]["reason"] for e in configured] == ["none", "request", "rollback"]
    for api in three:
        assert api.verify(name)["equal"]


def test_when_who_follows_dies_another_does_and_the_guardrail_promotes_once(own, tmp_path):
    """The guardrail's own promotion, at a tenant whose policy shows a bad arm, written at servers that did not follow at first."""
    servers = Servers(tmp_path, own.url)
    try:
        servers.ready()
        clients, name = servers.clients(), "guarded"
        clients[0].call("PUT", f"/tenants/{name}", {"algorithm": "laplaced", "default_reward": None, "rule": {"type": "split", "epsilon": 0.1, "weights": {"a": 3, "b": 2}},
                        "challengers": {"safe": {"rule": {"type": "split", "epsilon": 0, "weights": {"a": 0, "b": 1}}}},
                        "guardrail": {"baseline": "safe", "min_decisions": 100}}, expect=201)
        clients[0].put_arms(name, [{"id": "a"}, {"id": "b"}])
        for api in clients:
            api.call("GET", f"/tenants/{name}")
        node = wait_for(lambda: own.primary.sql("SELECT node FROM laplaced.holder"), 20)
        dead = next(s for s in servers.servers if s.folder.name == node)
        rest = [Client(s) for s in servers.servers if s is not dead]
        dead.kill()
        rng = random.Random(6)
        for i in range(600):
            told = rng.choice(rest).select(f"u{i % 30}", decision=f"d{i}", tenant=name)
            rng.choice(rest).reward(told["decision"], float(rng.random() < {"a": 0.05, "b": 0.95}[told["arm"]]), tenant=name)
        wait_for(lambda: rest[0].call("GET", f"/tenants/{name}").json["configuration"]["promotion"]["reason"] == "guardrail", 60, "the promotion")
        assert own.primary.sql("SELECT node FROM laplaced.holder") in {c.server.folder.name for c in rest}
        dead.start()
        servers.ready()
        log, _ = settle(servers.clients(), name)
        assert [e["configuration"]["promotion"]["reason"] for e in events_of(log) if e["type"] == "configured"] == ["none", "guardrail"]
        time.sleep(3)  # nobody asks for it again
        assert log_of(rest[0], name) == log
    finally:
        servers.close()
