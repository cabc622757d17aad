"""tools/clients/python at a live server: the three recipes of the README, refusals as typed errors, and retries that lose and double nothing, across kill -9 as well."""
import ast
import asyncio
import collections
import json
import math
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import zipfile
from typing import NamedTuple

import pytest

from contract import ROOT
from harness import Client as Judge
from harness import Server, free_port

HOME = ROOT / "tools" / "clients" / "python"
sys.path.insert(0, str(HOME / "src"))
import laplaced  # noqa: E402

PAGE = {"algorithm": "ts", "rule": {"epsilon": 0.2}, "reward_window_s": 2, "log_candidates": True, "routing": {"holdout": {"share": 0.1, "baseline": {"arm": "red"}}, "sticky": {"ttl_s": 86400}}}


@pytest.fixture
def client(server):
    with laplaced.Client(server.url) as one:
        yield one


# ---- the three recipes of the README

def visit(client, tenant, n):
    """The decision of each visitor; green sells to every second one, red and blue to every tenth."""
    made = {}
    for v in range(1, n + 1):
        made[v] = client.select(f"u{v}", candidates=["red", "green", "blue"], decision=f"v{v}", tenant=tenant)
        if v % (2 if made[v]["arm"] == "green" else 10) == 0:
            client.reward(f"v{v}", 1, tenant=tenant)
    return made


def test_recipe_routing_with_a_holdout(client, api, name):
    assert client.put_tenant(name, PAGE)["configuration"]["routing"]["holdout"]["share"] == 0.1
    made = visit(client, name, 150)
    held = {v for v, d in made.items() if d.get("route") == "holdout"}
    assert 0 < len(held) < 50 and {made[v]["arm"] for v in held} == {"red"}
    assert {d["arm"] for d in made.values()} == {"red", "green", "blue"}
    again = client.select("u1", candidates=["red", "green", "blue"], tenant=name)
    assert again["arm"] == made[1]["arm"]  # the user keeps it
    end = time.monotonic() + 20
    while client.stats(name)["pending"]:
        assert time.monotonic() < end
        time.sleep(0.1)
    stats = client.stats(name)
    sold = collections.Counter(made[v]["arm"] for v in made if v % (2 if made[v]["arm"] == "green" else 10) == 0)
    for arm in stats["arms"]:  # a decision without a sale has taught 0
        shown = sum(d["arm"] == arm["arm"] for d in made.values()) + (again["arm"] == arm["arm"])
        assert arm["mean_reward"] == pytest.approx(sold[arm["arm"]] / shown), arm
    assert stats["routes"]["holdout"]["decisions"] >= len(held)
    client.stop(name)
    assert {client.select(f"n{i}", candidates=["red", "green", "blue"], tenant=name)["arm"] for i in range(10)} == {"red"}
    client.start(name)


def test_recipe_recommendations_along_a_graph(server, name):
    async def recipe():
        async with laplaced.AsyncClient(server.url) as client:
            await client.put_tenant(name, {"algorithm": "laplaced-kors", "reward_window_s": 2, "confidence": {"beta": 0.5}})
            graph = await client.put_graph(name, [["ann", "bob"], ["bob", "cat"], ["dan", "eve"], ["eve", "fay"]])
            assert (graph["users"], graph["edges"]) == (6, 4)
            assert await client.put_arms(name, [f"film{i:02}" for i in range(1, 21)]) == {"arms": 20, "active": 20}
            liked = [("ann", f) for f in ("03", "07", "11")] + [("dan", f) for f in ("05", "12", "19")]
            await asyncio.gather(*(client.observe(who, f"film{film}", 1, tenant=name) for who, film in liked))
            bob, eve = await asyncio.gather(client.select("bob", top=3, decision="bob1", tenant=name, explain=True), client.select("eve", top=3, decision="eve1", tenant=name))
            mean = {r["arm"]: r["mean"] for r in bob["ranking"]}
            assert await client.reward("bob1", 1, tenant=name) == {"applied": True}
            return mean, [r["arm"] for r in eve["ranking"]], [e async for e in client.events(name)]
    mean, eve, events = asyncio.run(recipe())
    best = sorted(mean, key=mean.get, reverse=True)[:3]
    assert set(best) == {"film03", "film07", "film11"}  # ann's: bob is her friend
    assert len(eve) == 3 and len(set(eve)) == 3
    assert [e["type"] for e in events].count("observed") == 6


def test_recipe_replay_and_evaluation_of_the_log(client, name):
    client.put_tenant(name, {"algorithm": "ts", "rule": {"epsilon": 0.2}, "default_reward": None, "log_candidates": True})
    for v in range(60):
        decision = client.select(f"u{v % 7}", candidates=["red", "green"], tenant=name)
        client.reward(decision["decision"], 1 if decision["arm"] == "green" and v % 2 else 0, tenant=name)
    events = list(client.events(name, page=7))
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    reward = {e["decision"]: e["reward"] for e in events if e["type"] == "rewarded"}
    decided = [e for e in events if e["type"] == "decided"]
    assert len(decided) == len(reward) == 60
    report = client.replay(name, {"algorithm": "random"})
    assert client.replay(name, {"algorithm": "random"}, events)["model"]["digest"] == report["model"]["digest"]
    ips = sum(reward[e["decision"]] * 0.5 / e["propensity"] for e in decided) / 60  # a uniform choice of two
    assert report["policy"]["decisions"] == 60 and report["policy"]["ips"]["estimate"] == pytest.approx(ips)
    assert report["policy"]["in_force"]["estimate"] == pytest.approx(sum(reward.values()) / 60)
    with pytest.raises(laplaced.Problem) as refused:
        client.replay(name, {"algorithm": "oracle"})
    assert refused.value.pointers == ["/0/configuration/algorithm"]


# ---- slots

def test_slots_are_filled_by_one_decision_and_each_has_its_own_reward(client, name):
    client.put_tenant(name, {"algorithm": "random", "default_reward": None})
    page = client.select("u", candidates=["a", "b", "c", "d"], slots=["top", {"id": "left", "exclude": ["a"]}, "right"], tenant=name)
    assert [slot["id"] for slot in page["slots"]] == ["top", "left", "right"]
    arms = [slot["arm"] for slot in page["slots"]]
    assert len(set(arms)) == 3 and arms[1] != "a"
    assert client.reward(page["decision"], 0.5, slot="left", tenant=name) == {"applied": True}
    assert client.reward_user("u", 1, slot="top", tenant=name)["decisions"] == [page["decision"]]
    with client.rewards(tenant=name) as rewards:
        right, foot = rewards.add(page["decision"], 2, slot="right"), rewards.add(page["decision"], 2, slot="foot")
    assert right.result() == {"applied": True} and foot.exception().kind == "no-arm"
    assert [(e["arm"], e["reward"]) for e in client.events(name) if e["type"] == "rewarded"] == [(arms[1], 0.5), (arms[0], 1), (arms[2], 2)]
    with pytest.raises(laplaced.BadRequest) as refused:
        client.select("u", candidates=["a"], slots=["1", "2"], tenant=name)
    assert refused.value.pointers == ["/slots/1"]


def test_slots_of_the_asynchronous_client(server, name):
    async def page():
        async with laplaced.AsyncClient(server.url, tenant=name) as client:
            await client.put_tenant(name, {"algorithm": "random", "default_reward": None})
            page = await client.select("u", candidates=["a", "b"], slots=["top", "left"])
            async with client.rewards() as rewards:
                both = [await rewards.add(page["decision"], 1, slot="left"), await rewards.add_user("u", 0, slot="top")]
                assert [await one for one in both] == [{"applied": True}, {"applied": True, "decisions": [page["decision"]]}]
            return [slot["arm"] for slot in page["slots"]], [(e["arm"], e["reward"]) async for e in client.events(name) if e["type"] == "rewarded"]
    (top, left), told = asyncio.run(page())
    assert told == [(left, 1), (top, 0)]


# ---- refusals

def test_a_refusal_is_an_error_of_its_kind_that_names_each_fault(client, name):
    client.put_tenant(name, {"reward_window_s": 0.2, "algorithm": "random"})
    with pytest.raises(laplaced.BadRequest) as bad:
        client.select("u", candidates=["a", ""], top=0, tenant=name)
    assert set(bad.value.pointers) == {"/candidates/1", "/top"} and bad.value.status == 400
    assert all(fault.pointer in str(bad.value) and fault.detail for fault in bad.value.faults)
    assert re.fullmatch("[0-9a-f]{32}", bad.value.request) and bad.value.request in str(bad.value)
    with pytest.raises(laplaced.NotFound) as unknown:
        client.reward("nobody's", 1, tenant=name)
    assert unknown.value.kind == "no-decision"
    with pytest.raises(laplaced.NotFound) as nowhere:
        client.stats("no-such-tenant")
    assert nowhere.value.kind == "no-tenant"
    client.select("u", candidates=["a"], decision="d1", tenant=name)
    with pytest.raises(laplaced.Conflict):
        client.select("other", candidates=["a"], decision="d1", tenant=name)
    time.sleep(0.5)
    with pytest.raises(laplaced.Gone):
        client.reward("d1", 1, tenant=name)
    with pytest.raises(ValueError):
        client.reward("d1", math.nan, tenant=name)
    assert isinstance(unknown.value, laplaced.Problem) and isinstance(unknown.value, laplaced.LaplacedError)


def test_keys_that_lack_or_have_the_role(boot, tmp_path):
    (tmp_path / "admin").write_text("a-key-of-the-administrator-1\n")
    server = boot("--admin-key-file", str(tmp_path / "admin"))
    with laplaced.Client(server.url) as stranger, laplaced.Client(server.url, key="a-key-of-the-administrator-1") as admin:
        with pytest.raises(laplaced.Unauthorized):
            stranger.select("u", candidates=["a"])
        admin.put_tenant("shop", {"algorithm": "random"})
        key = admin.call("POST", "/tenants/shop/keys", {"roles": ["decide"]}, may_repeat=False)["key"]
        with laplaced.Client(server.url, key=key) as web:
            assert web.select("u", candidates=["a"])["arm"] == "a"  # the key stands for its tenant
            with pytest.raises(laplaced.Forbidden):
                web.stats("shop")


# ---- retries, at a server that answers what a test wants

class Late(NamedTuple):
    """An answer after so many seconds."""
    seconds: float
    text: bytes


class Scripted:
    """Answers one request after another as the script says: bytes to send; bytes in a tuple to send, and to close the connection; None to close it without an answer; a number of seconds to be silent."""

    def __init__(self, *script):
        self.script, self.requests, self.times = list(script), [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while self.script:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            while self.script:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    line = stream.readline()
                    if not line:
                        return
                    head += line
                length = re.search(rb"Content-Length: (\d+)", head, re.I)
                self.requests.append((head.split(b"\r\n")[0].decode(), stream.read(int(length[1])) if length else b""))
                self.times.append(time.monotonic())
                step = self.script.pop(0)
                if isinstance(step, (int, float)):
                    time.sleep(step)
                    return
                if step is None:
                    return
                if isinstance(step, Late):
                    time.sleep(step.seconds)
                    step = step.text
                is_cut = isinstance(step, tuple)
                connection.sendall(step[0] if is_cut else step)
                if is_cut:
                    return

    def close(self):
        self.listener.close()


def answer(status, body=b"{}", *headers):
    lines = [f"HTTP/1.1 {status} Words", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def cut(whole, n):
    """An answer whose last `n` bytes never come."""
    return (whole[:-n],)


DECIDED = answer(200, json.dumps({"decision": "d", "arm": "a", "propensity": 1, "ranking": [], "model": {}}).encode())
BUSY = json.dumps({"type": "/problems/busy", "title": "Service Unavailable", "status": 503, "detail": "busy"}).encode()
QUICK = laplaced.Retry(first_s=0.01, longest_s=0.05)


@pytest.fixture
def scripted():
    made = []

    def make(*script):
        made.append(Scripted(*script))
        return made[-1]
    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("step", [None, answer(503, BUSY), answer(429, BUSY), answer(502, b"<html>"), answer(504, b"")],
                         ids=["no answer", "busy", "limited", "bad gateway", "late gateway"])
def test_a_decision_is_asked_for_again_under_the_same_id(scripted, step):
    server = scripted(step, step, DECIDED)
    with laplaced.Client(server.url, retry=QUICK) as client:
        assert client.select("u")["arm"] == "a"
    assert len(server.requests) == 3 and len(set(server.requests)) == 1
    assert re.fullmatch("[0-9a-f]{32}", json.loads(server.requests[0][1])["decision"])


@pytest.mark.parametrize("step", [cut(DECIDED, 1), cut(DECIDED, 30), (b"HTTP/1.1 200 OK\r\n\r\n{\"decision\": ",), answer(200, b"<html>"), answer(200, b"\xff{}")],
                         ids=["one byte lacks", "many lack", "cut without a length", "a proxy's page", "no UTF-8"])
def test_an_answer_that_is_cut_or_no_json_is_asked_for_again(scripted, step):
    server = scripted(step, step, DECIDED)
    with laplaced.Client(server.url, retry=QUICK) as client:
        assert client.select("u")["arm"] == "a"
    assert len(server.requests) == 3 and len(set(server.requests)) == 1


@pytest.mark.parametrize("step", [cut(answer(200, b'{"edges": 12}'), 1), answer(200, b"<html>")], ids=["cut", "a proxy's page"])
def test_an_answer_that_is_cut_or_no_json_is_a_failure_where_nothing_may_be_repeated(scripted, step):
    server = scripted(step, answer(200))
    with laplaced.Client(server.url, retry=QUICK) as client, pytest.raises(laplaced.ConnectionFailed):
        client.call("POST", "/tenants/t/edges", {}, may_repeat=False)
    assert len(server.requests) == 1


def test_a_connection_whose_answer_was_cut_is_not_used_again(scripted):
    text = answer(200, b"12345")
    server = scripted(cut(text, 1), text)
    with laplaced.Client(server.url, retry=laplaced.Retry(attempts=1)) as client:
        with pytest.raises(laplaced.ConnectionFailed):
            client.call("GET", "/a", parse=False)
        assert client.call("GET", "/b", parse=False) == b"12345"


def test_pages_of_the_log_that_are_cut_are_asked_for_again(scripted):
    whole = b'{"seq": 1}\n{"seq": 2}\n'
    server = scripted((b"HTTP/1.1 200 OK\r\n\r\n" + whole[:-4],), answer(200, whole), answer(200, b""))
    with laplaced.Client(server.url, retry=QUICK) as client:
        assert [event["seq"] for event in client.events("t")] == [1, 2]

    async def page():
        async with laplaced.AsyncClient(again.url, retry=QUICK) as client:
            return [event["seq"] async for event in client.events("t")]
    again = scripted((b"HTTP/1.1 200 OK\r\n\r\n" + whole[:-4],), answer(200, whole), answer(200, b""))
    assert asyncio.run(page()) == [1, 2]


@pytest.mark.parametrize("document", [{"errors": None, "more_errors": None}, {"errors": 7, "more_errors": "many"}, {"errors": ["x"]}])
def test_a_problem_of_a_proxy_may_have_any_members(scripted, document):
    server = scripted(answer(400, json.dumps(document).encode()))
    with laplaced.Client(server.url) as client, pytest.raises(laplaced.BadRequest) as refused:
        client.select("u")
    assert refused.value.faults == [] and refused.value.more_faults == 0


def test_two_calls_have_two_ids(scripted):
    server = scripted(DECIDED, DECIDED, answer(200), answer(200), answer(200), answer(200))
    with laplaced.Client(server.url) as client:
        for _ in range(2):
            client.select("u")
        for _ in range(2):
            client.reward("d", 1)
            client.observe("u", "a", 1)
    bodies = [json.loads(body) for _, body in server.requests]
    assert bodies[0]["decision"] != bodies[1]["decision"] and len({b["id"] for b in bodies[2:]}) == 4


def test_retry_after_is_obeyed(scripted):
    server = scripted(answer(503, BUSY, "Retry-After: 1"), DECIDED)
    with laplaced.Client(server.url, retry=QUICK) as client:
        client.select("u")
    assert 1 <= server.times[1] - server.times[0] < 2


def test_a_wait_beyond_the_deadline_is_not_begun(scripted):
    server = scripted(answer(429, BUSY, "Retry-After: 30"), DECIDED)
    began = time.monotonic()
    with laplaced.Client(server.url) as client, pytest.raises(laplaced.TooManyRequests) as refused:
        client.select("u", timeout_s=5)
    assert time.monotonic() - began < 2 and refused.value.retry_after == 30 and len(server.requests) == 1


def test_a_server_that_is_silent_is_given_up_at_the_deadline(scripted):
    server = scripted(20, 20, 20, 20, 20, 20)
    began = time.monotonic()
    with laplaced.Client(server.url, try_s=0.3, retry=QUICK) as client, pytest.raises(laplaced.ConnectionFailed):
        client.select("u", timeout_s=1)
    assert 0.9 < time.monotonic() - began < 2 and len(server.requests) >= 2  # one try may not take all of the time


def test_what_may_be_done_once_is_not_sent_twice(scripted):
    server = scripted(None, answer(503, BUSY), answer(204, b""))
    with laplaced.Client(server.url, retry=QUICK) as client:
        with pytest.raises(laplaced.ConnectionFailed):
            client.delete_tenant("t")
        assert len(server.requests) == 1
        client.delete_tenant("t")  # 503 says that nothing was done
    assert len(server.requests) == 3


def test_a_post_of_ones_own_is_sent_twice_only_when_the_caller_says_so(scripted):
    server = scripted(None, None, answer(200), None, answer(200), answer(502), answer(200))
    with laplaced.Client(server.url, retry=QUICK) as client:
        with pytest.raises(laplaced.ConnectionFailed):
            client.call("POST", "/tenants/t/keys", {"roles": ["decide"]})
        assert len(server.requests) == 1
        client.call("POST", "/tenants/t/keys", {"roles": ["decide"]}, may_repeat=True)
        assert len(server.requests) == 3
        client.call("PUT", "/tenants/t", {})
        assert len(server.requests) == 5
        with pytest.raises(laplaced.ServerFault):
            client.call("POST", "/tenants/t/keys", {"roles": ["decide"]})
    assert len(server.requests) == 6


def test_each_method_with_an_id_or_without_an_effect_of_its_own_is_sent_again(scripted):
    report, many = answer(200, b'{"type": "report"}'), answer(200, b'[{"applied": true}]')
    calls = [(lambda c: c.select("u"), DECIDED), (lambda c: c.reward("d", 1), answer(200)), (lambda c: c.reward_user("u", 1), answer(200)),
             (lambda c: c.reward_many([{"decision": "d", "reward": 1}]), many), (lambda c: c.activate("d"), answer(200)), (lambda c: c.observe("u", "a", 1), answer(200)),
             (lambda c: c.observe_many([{"user": "u", "arm": "a", "reward": 1}]), answer(200)), (lambda c: c.stop("t"), answer(200)), (lambda c: c.start("t"), answer(200)),
             (lambda c: c.replay("t", {}), report)]
    for call, good in calls:
        server = scripted(None, good)
        with laplaced.Client(server.url, retry=QUICK) as client:
            call(client)
        assert len(server.requests) == 2 and len(set(server.requests)) == 1


def test_a_user_is_erased_by_one_request_that_has_all_of_the_time(scripted):
    """A second one would find nobody: 404, though all went well."""
    server = scripted(0.6, answer(404, b'{"type": "/problems/no-user"}'))
    with laplaced.Client(server.url, try_s=0.2, retry=QUICK) as client, pytest.raises(laplaced.ConnectionFailed):
        client.erase_user("t", "u", timeout_s=5)
    assert len(server.requests) == 1
    slow = scripted(Late(0.6, answer(200, b'{"erased": true}')))
    with laplaced.Client(slow.url, try_s=0.2, retry=QUICK) as client:
        assert client.erase_user("t", "u", timeout_s=10) == {"erased": True}
    assert len(slow.requests) == 1


def test_a_refusal_is_not_repeated(scripted):
    server = scripted(answer(400, b"<html>no"), answer(200))
    with laplaced.Client(server.url) as client, pytest.raises(laplaced.BadRequest) as refused:
        client.select("u")
    assert len(server.requests) == 1 and refused.value.detail == "<html>no"


def test_a_connection_that_the_server_has_closed_meanwhile_is_no_error(scripted):
    server = scripted(DECIDED, None, DECIDED)
    with laplaced.Client(server.url, retry=laplaced.Retry(attempts=2, first_s=0.01)) as client:
        client.select("u")
        client.select("u")
    assert len(server.requests) == 3


def test_so_many_attempts_and_no_more(scripted):
    server = scripted(*[answer(503, BUSY)] * 5)
    with laplaced.Client(server.url, retry=laplaced.Retry(attempts=3, first_s=0.01)) as client, pytest.raises(laplaced.NotReady):
        client.select("u")
    assert len(server.requests) == 3


def test_waits_double_and_differ():
    retry = laplaced.Retry(first_s=0.1, longest_s=1)
    waits = [[retry.wait(n) for _ in range(300)] for n in (1, 2, 3, 10)]
    for bound, some in zip((0.1, 0.2, 0.4, 1), waits):
        assert max(some) <= bound and max(some) > 0.9 * bound and min(some) < 0.1 * bound
    assert all(7 <= retry.wait(2, 7) <= 7.2 for _ in range(50))


def test_dates_of_proxies_are_understood():
    from laplaced.retry import parse_retry_after
    assert parse_retry_after("3") == 3 and parse_retry_after(None) is None and parse_retry_after("soon") is None
    assert parse_retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0
    assert 3590 < parse_retry_after(time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 3600))) <= 3600


# ---- batches

def test_rewards_go_in_batches_and_each_has_its_own_answer(client, server, name):
    client.put_tenant(name, {"algorithm": "random", "aggregation": "sum"})
    for i in range(300):
        client.select("u", candidates=["a"], decision=f"d{i}", tenant=name)
    before = requests_of(server, "/reward")
    with client.rewards(tenant=name, most=100) as rewards:
        found = [rewards.add(f"d{i}", 1) for i in range(300)]
        lost = rewards.add("nobody's", 1)
        wrong = rewards.add("d1", 1, id="x" * 200)
        user = rewards.add_user("u", 2, id="checkout")
    assert [f.result() for f in found] == [{"applied": True}] * 300
    assert isinstance(lost.exception(), laplaced.NotFound) and lost.exception().kind == "no-decision"
    assert isinstance(wrong.exception(), laplaced.BadRequest)
    assert user.result()["decisions"] == ["d299"]
    assert requests_of(server, "/reward") - before < 20
    assert client.decision(name, "d299")["decided"]["decision"] == "d299"
    assert sum(e["reward"] for e in client.events(name) if e["type"] == "rewarded") == 302


def requests_of(server, route):
    text = Judge(server).call("GET", "/metrics").text
    return sum(float(v) for v in re.findall(rf'^laplaced_http_requests_total{{[^}}]*route="{route}"[^}}]*}} (\S+)$', text, re.M))


def test_many_at_once_are_answered_in_place(client, name):
    client.put_tenant(name, {"algorithm": "random"})
    client.select("u", candidates=["a"], decision="d1", tenant=name)
    first, second = client.reward_many([{"decision": "d1", "reward": 1}, {"decision": "d2", "reward": 1}], tenant=name)
    assert first == {"applied": True} and isinstance(second, laplaced.NotFound)
    for n in (0, 1001):
        with pytest.raises(ValueError):
            client.reward_many([{"decision": "d1", "reward": 1}] * n, tenant=name)


def test_a_reward_may_be_of_another_metric(client, name):
    client.put_tenant(name, {"algorithm": "random", "metrics": [{"name": "revenue", "role": "guardrail", "range": [0, 200], "aggregation": "sum"}]})
    decision = client.select("u", candidates=["a"], tenant=name)["decision"]
    assert client.reward(decision, 49.9, metric="revenue", tenant=name) == {"applied": True}
    with client.rewards(tenant=name) as rewards:
        assert rewards.add(decision, 1).result() == {"applied": True}
    with pytest.raises(laplaced.Unprocessable) as unknown:
        client.reward(decision, 1, metric="smiles", tenant=name)
    assert unknown.value.pointers == ["/metric"]
    assert [e["type"] for e in client.events(name) if e.get("decision") == decision] == ["decided", "measured", "rewarded"]


def test_a_full_line_of_rewards_holds_up_who_adds(scripted):
    server = scripted(0.4, *[answer(200, json.dumps([{"applied": True}] * n).encode()) for n in (2, 2, 1, 1)])  # who asks beyond a script waits for a minute
    with laplaced.Client(server.url, retry=QUICK) as client, client.rewards(most=2, waiting_most=2, wait_s=0) as rewards:
        began = time.monotonic()
        for i in range(5):
            rewards.add(f"d{i}", 1)
        assert time.monotonic() - began > 0.3


def test_rewards_that_are_no_json_are_told_to_who_adds_them(client):
    with client.rewards() as rewards, pytest.raises(ValueError):
        rewards.add("d", math.inf)


@pytest.mark.parametrize("body", [b"{}", b"[]", b"7", b'["x", "y"]', b'[{"status": []}, {"applied": true}]', b"[" * 100000, b"<html>"])
def test_no_answer_ends_the_thread_of_rewards(scripted, body):
    server = scripted(answer(200, body), answer(200, b'[{"applied": true}]'))
    with laplaced.Client(server.url, retry=laplaced.Retry(attempts=1)) as client:
        rewards = client.rewards(most=2)
        bad = [rewards.add(f"d{i}", 1) for i in range(2)]
        faults = [future.exception(timeout=5) for future in bad]
        assert all(isinstance(fault, laplaced.LaplacedError) for fault in faults), faults
        assert rewards.add("d", 1).result(timeout=5) == {"applied": True}
        ending = threading.Thread(target=rewards.close, daemon=True)
        ending.start()
        ending.join(5)
        assert not ending.is_alive()


def test_rewards_are_given_up_at_their_deadline(scripted):
    server = scripted(*[answer(503, BUSY)] * 100)
    with laplaced.Client(server.url, retry=QUICK) as client, client.rewards(timeout_s=0.3) as rewards:
        fault = rewards.add("d", 1).exception(timeout=5)  # the deadline may fall between an answer and the next try, or into one
        assert isinstance(fault, (laplaced.NotReady, laplaced.ConnectionFailed)), fault


def test_rewards_do_not_wait_for_a_retry_after_beyond_their_deadline(scripted):
    server = scripted(answer(503, BUSY, "Retry-After: 25"), answer(200, b'[{"applied": true}]'))
    began = time.monotonic()
    with laplaced.Client(server.url, retry=QUICK) as client, client.rewards(timeout_s=3, wait_s=0.01) as rewards:
        assert isinstance(rewards.add("d", 1).exception(timeout=2), laplaced.NotReady)
        rewards.flush()
        assert isinstance(rewards.add("e", 1).exception(timeout=1), laplaced.NotReady)  # of one that is added meanwhile, too
    assert time.monotonic() - began < 2 and len(server.requests) == 1  # close has not waited, and nobody has asked again


def test_only_those_rewards_are_given_up_whose_deadline_comes_before_the_end_of_a_retry_after(scripted):
    """The first one has waited for half of its time when the server asks for more than is left of it."""
    server = scripted(answer(503, BUSY, "Retry-After: 2"), answer(503, BUSY, "Retry-After: 2"), answer(200, b'[{"applied": true}]'))
    began = time.monotonic()
    with laplaced.Client(server.url, retry=laplaced.Retry(attempts=1, first_s=0.01)) as client, client.rewards(timeout_s=3.8, wait_s=0.01) as rewards:
        first = rewards.add("d", 1)
        while not server.times:
            time.sleep(0.01)
        time.sleep(1)
        second = rewards.add("e", 1)
        assert isinstance(first.exception(timeout=5), laplaced.NotReady) and time.monotonic() - began < 3
        assert second.result(timeout=5) == {"applied": True}
    assert [len(json.loads(body)) for _, body in server.requests] == [1, 2, 1]
    assert all(b - a >= 2 for a, b in zip(server.times, server.times[1:]))


# ---- kill -9 in the middle

def test_kills_in_the_middle_of_a_run_lose_and_double_nothing(tmp_path):
    """Rewards add up, so that one that was learned twice would show. The ids are the client's own."""
    server = Server(tmp_path, listen=f"127.0.0.1:{free_port()}").start()
    try:
        with laplaced.Client(server.url, tenant="shop", timeout_s=60, retry=laplaced.Retry(longest_s=0.5)) as client:
            client.put_tenant("shop", {"algorithm": "random", "aggregation": "sum", "default_reward": None})
            made, seen, is_over = [], [], threading.Event()

            def run(k, rewards):
                while not is_over.is_set():
                    decision = client.select(f"u{k}", candidates=["a", "b"])
                    one = client.reward(decision["decision"], 1)
                    made.append((decision["decision"], decision["arm"], one, rewards.add(decision["decision"], 0.5)))

            with client.rewards(wait_s=0.02) as rewards:
                threads = [threading.Thread(target=run, args=(k, rewards)) for k in range(4)]
                for thread in threads:
                    thread.start()
                for _ in range(4):  # a kill after some more; the last time, the end
                    wanted, end = len(made) + 40, time.monotonic() + 60
                    while len(made) < wanted and time.monotonic() < end:
                        time.sleep(0.01)
                    seen.append(len(made))
                    if len(seen) < 4:
                        server.kill()
                        server.start()
                is_over.set()
                for thread in threads:
                    thread.join(60)
                    assert not thread.is_alive()
            events = list(client.events("shop"))
            assert 0 < seen[0] < seen[1] < seen[2] < seen[3]  # it went on after each kill
            assert all(one["applied"] or one.get("duplicate") for _, _, one, _ in made) and all(f.result() for _, _, _, f in made)
            decided = {e["decision"]: e["arm"] for e in events if e["type"] == "decided"}
            assert decided == {d: arm for d, arm, _, _ in made} and sum(e["type"] == "decided" for e in events) == len(made)
            earned = collections.Counter()
            for e in events:
                if e["type"] == "rewarded":
                    earned[e["decision"], e["reward"]] += 1
            assert earned == {key: 1 for d in decided for key in ((d, 1), (d, 0.5))}
            assert Judge(server).verify("shop")["equal"]
    finally:
        server.close()


# ---- the package

def test_a_client_serves_threads_and_tasks_alike(server, name):
    with laplaced.Client(server.url, tenant=name) as client:
        client.put_tenant(name, {"algorithm": "random"})
        threads = [threading.Thread(target=lambda k=k: [client.select(f"u{k}", candidates=["a"]) for _ in range(20)]) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.stats(name)["decisions"] == 160

    async def tasks():
        async with laplaced.AsyncClient(server.url, tenant=name, threads=4) as client:
            made = await asyncio.gather(*(client.select("u", candidates=["a"]) for _ in range(40)))
            async with client.rewards() as rewards:
                futures = [await rewards.add(d["decision"], 1) for d in made]
                assert await asyncio.gather(*futures) == [{"applied": True}] * 40
            with pytest.raises(laplaced.NotFound):
                await client.reward("nobody's", 1)
    asyncio.run(tasks())


def test_the_asynchronous_client_has_the_methods_of_the_other():
    import inspect
    for name, method in inspect.getmembers(laplaced.Client, inspect.isfunction):
        if not name.startswith("_"):
            other = getattr(laplaced.AsyncClient, name)
            assert list(inspect.signature(method).parameters) == list(inspect.signature(other).parameters), name


def test_python_3_9_can_read_it():
    for file in (HOME / "src" / "laplaced").glob("*.py"):
        ast.parse(file.read_text(), feature_version=(3, 9))


def test_mypy_agrees(tmp_path):
    if shutil.which("mypy") is None:
        pytest.skip("no mypy here (package mypy)")
    (tmp_path / "use.py").write_text("import laplaced\nc = laplaced.Client('http://h')\narm: str = c.select('u')['arm']\n"
                                     "c.select(7.5)\nc.select(7)['colour']; c.select('u')['colour']\nc.reward('d')\n")
    mypy = ["mypy", "--config-file", str(HOME / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache")]
    own = subprocess.run([*mypy, str(HOME / "src")], capture_output=True, text=True)
    assert own.returncode == 0, own.stdout
    use = subprocess.run([*mypy, str(tmp_path / "use.py")], capture_output=True, text=True, env={"MYPYPATH": str(HOME / "src"), "PATH": "/usr/bin:/bin"})
    assert [line.split(":")[1] for line in use.stdout.splitlines() if ": error:" in line] == ["4", "5", "6"], use.stdout


def test_what_is_published_is_there():
    text = (HOME / "pyproject.toml").read_text()
    assert f'version = "{laplaced.__version__}"' in text and "dependencies = []" in text
    assert (HOME / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert (HOME / "src" / "laplaced" / "py.typed").exists() and (HOME / "README.md").exists()
    used = {name.split(".")[0] for file in (HOME / "src" / "laplaced").glob("*.py") for node in ast.walk(ast.parse(file.read_text()))
            for name in ([a.name for a in node.names] if isinstance(node, ast.Import) else [node.module] if isinstance(node, ast.ImportFrom) and not node.level else [])}
    assert used <= sys.stdlib_module_names


def test_it_can_be_installed(tmp_path):
    if subprocess.run([sys.executable, "-c", "import setuptools, wheel, pip"], capture_output=True).returncode != 0:
        pytest.skip("no pip, setuptools and wheel here (packages python3-pip, python3-wheel)")
    shutil.copytree(HOME, tmp_path / "source", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    made = subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", str(tmp_path / "out"), str(tmp_path / "source")],
                          capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    (wheel,) = (tmp_path / "out").glob("laplaced-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"laplaced/__init__.py", "laplaced/py.typed", "laplaced/client.py"} <= names and any(n.endswith("LICENSE") for n in names)
    done = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(wheel)!r}); import laplaced; print(laplaced.__version__)"], capture_output=True, text=True)
    assert done.stdout.strip() == laplaced.__version__, done.stderr


def test_the_readme_runs(server, capsys):
    """Each block of Python in it, one after another, at this server."""
    blocks = re.findall(r"^```python\n(.*?)^```", (HOME / "README.md").read_text(), re.M | re.S)
    assert len(blocks) >= 3
    scope = {}
    for block in blocks:
        exec(compile(block.replace("http://127.0.0.1:8080", server.url), "README.md", "exec"), scope)
