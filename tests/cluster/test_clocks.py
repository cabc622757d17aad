"""Servers of one log whose clocks differ by minutes: no safety rests on a clock, and none of them dates a line before the one that it follows."""
import datetime
import pathlib
import threading
import time

import pytest

from servers import Servers, at_once, events_of, settle, wait_for
import pg

SHIM = next(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
pytestmark = [pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed"),
              pytest.mark.skipif(SHIM is None, reason="no libfaketime here (Debian's package faketime)")]
AHEAD_S = 300


@pytest.fixture(scope="module")
def skewed(database, tmp_path_factory):
    """a is right, b five minutes ahead, c five minutes behind."""
    servers = Servers(tmp_path_factory.mktemp("skewed"), database.url)
    for server, shift in zip(servers.servers[1:], (AHEAD_S, -AHEAD_S)):
        server.env = {"LD_PRELOAD": str(SHIM), "FAKETIME": f"{shift:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        servers.restart(server)
    servers.ready()
    yield servers
    servers.end()


def seconds(stamp):
    return datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def observed_at(client, name, key):
    """When the log says that this server has taken an observation."""
    client.observe("teacher", "a", 1, id=key, tenant=name)
    return next(seconds(e["at"]) for e in client.events(name) if e.get("id") == key)


def test_clocks_differ_as_the_test_means_them_to(skewed):
    a, b, c = skewed.clients()
    for name, client, shift in (("of-c", c, -AHEAD_S), ("of-a", a, 0), ("of-b", b, AHEAD_S)):
        client.put_tenant(name, algorithm="ts", default_reward=None)
        assert observed_at(client, name, "first") - time.time() == pytest.approx(shift, abs=30)


def test_times_never_go_back_and_each_change_is_there_once(skewed):
    clients = skewed.clients()
    clients[0].put_tenant("mixed", algorithm="laplaced", reward_window_s=3600)
    made, lock = {}, threading.Lock()

    def decide(k):
        for i in range(40):
            decision = clients[k].select(f"u{i % 7}", candidates=["a", "b", "c"], tenant="mixed")["decision"]
            clients[(k + 1 + i % 2) % 3].reward(decision, i % 2, tenant="mixed")  # told at another server
            with lock:
                made[decision] = i % 2
    at_once(*(lambda k=k: decide(k) for k in range(3)))
    events = events_of(settle(clients, "mixed")[0])
    times = [e["at"] for e in events]
    assert times == sorted(times) and seconds(times[-1]) - time.time() > AHEAD_S - 30  # by the clock that is ahead
    assert {e["decision"]: e["reward"] for e in events if e["type"] == "rewarded"} == made
    assert sum(e["type"] == "rewarded" for e in events) == len(made) == 120
    assert not [e for e in events if e["type"] in ("late", "expired")]


def test_windows_have_their_length_whoever_decides(skewed):
    """A window is counted from its decision, by the time of the log."""
    clients = skewed.clients()
    clients[0].put_tenant("windows", algorithm="ts", reward_window_s=8, default_reward=0)
    observed_at(clients[1], "windows", "ahead")
    begun = time.monotonic()
    decisions = [c.select("u", candidates=["a", "b"], tenant="windows")["decision"] for c in clients for _ in range(2)]
    for k in range(3):
        clients[(k + 1) % 3].reward(decisions[2 * k], 1, tenant="windows")
    if time.monotonic() - begun > 6:
        pytest.skip("the machine is too slow to tell a reward within its window")
    wait_for(lambda: sum(e["type"] == "expired" for e in clients[0].events("windows")) == 3, 60, "what nobody told of is closed")
    events = events_of(settle(clients, "windows")[0])
    at = {(e["type"], e["decision"]): seconds(e["at"]) for e in events if "decision" in e}
    assert {d for kind, d in at if kind == "rewarded"} == set(decisions[0::2])
    until = {e["decision"]: seconds(e["expires_at"]) for e in events if e["type"] == "decided"}
    for decision in decisions:  # it was decided some moments before its line was written; lines of a turn bear the time of its beginning
        assert 5 <= until[decision] - at["decided", decision] <= 8.5, decision
    for decision in decisions[1::2]:
        assert at["expired", decision] >= until[decision], decision
