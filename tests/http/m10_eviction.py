"""Idle tenants are closed when memory is over the cap, and nobody who asks for them can tell."""
import threading
import time

import numpy as np
import pytest
import requests

from e00_restart import CONFIGS, make, snapshot, traffic
from harness import Client
from m00_lazy import states


def wait_closed(client, names, seconds=20):
    end = time.monotonic() + seconds
    while any(states(client)[n] != "closed" for n in names):
        assert time.monotonic() < end, states(client)
        time.sleep(0.05)


def test_closed_tenants_come_back_with_all_that_they_knew(boot):
    """Every kind of tenant, with open decisions, closed by a cap of one byte as soon as nobody asks."""
    rng = np.random.default_rng(31)
    server = boot("--memory-cap", "1")
    client = Client(server)
    opened = {}
    for name, config in CONFIGS.items():
        make(client, name, config)
        opened[name] = traffic(client, name, config, rng, 25)
    before = {name: snapshot(client, name) for name in CONFIGS}
    for _ in range(2):
        wait_closed(client, CONFIGS)
        assert client.metric("tenants_bytes") == 0
        after = {name: snapshot(client, name) for name in CONFIGS}
        assert after == before
    for name in CONFIGS:
        for d in opened[name]:
            assert client.reward(d, 1.0, tenant=name)["applied"]
    before = {name: snapshot(client, name) for name in CONFIGS}
    assert client.metric("tenant_evictions_total") >= 2 * len(CONFIGS)
    server.restart()
    assert {name: snapshot(client, name) for name in CONFIGS} == before


def test_the_least_used_go_first(boot):
    server = boot()
    client = Client(server)
    for i in range(6):
        client.put_tenant(f"t{i}", algorithm="ucb")
        client.observe("u", "a", 1.0, tenant=f"t{i}")
    each = client.metric("tenants_bytes") / 6
    assert server.terminate() == 0
    server.args = ["--memory-cap", str(int(3.5 * each))]
    server.start()
    for i in (0, 1, 2, 3, 4, 0, 5, 0):
        client.call("GET", f"/tenants/t{i}")
        time.sleep(0.3)  # a tick: the order of use is kept to a quarter of a second
    still_open = {n for n, s in states(client).items() if s == "open"}
    assert 2 <= len(still_open) <= 4 and still_open == set(["t0", "t5", "t4", "t3"][:len(still_open)])
    assert client.metric("tenants_bytes") <= 3.5 * each


@pytest.mark.parametrize("delay", [0.3, 0.8, 1.5])
def test_a_kill_while_tenants_come_and_go_loses_nothing_that_was_answered(boot, delay):
    server = boot("--memory-cap", "1", "--snapshot-events", "20")
    names = list(CONFIGS)[:4]
    for name in names:
        make(Client(server), name, CONFIGS[name])
    seen, lock = [], threading.Lock()

    def work(k):
        client = Client(server)
        try:
            for t in range(10000):
                name = names[(k + t) % 4]
                fields = {"context": [0.01 * t]} if CONFIGS[name].get("context_dim") else {}
                d = client.select(f"u{k}", tenant=name, **fields)["decision"]
                with lock:
                    seen.append((name, d))
                time.sleep(0.01)
        except requests.exceptions.RequestException:
            pass
    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(delay)
    server.kill()
    for thread in threads:
        thread.join()
    server.start()
    client = Client(server)
    logged = [(n, e["decision"]) for n in names for e in client.events(n) if e["type"] == "decided"]
    assert len(logged) == len(set(logged)) and set(seen) <= set(logged)
    digests = {n: client.digest(n) for n in names}
    server.kill()
    for path in (server.data / "tenants").glob("*.snapshot"):
        path.unlink()
    server.args = []
    server.start()
    assert {n: client.digest(n) for n in names} == digests


def test_death_in_the_middle_of_a_closing_is_only_a_longer_fold(boot):
    server = boot()
    client = Client(server)
    make(client, "kors", CONFIGS["kors"])
    traffic(client, "kors", CONFIGS["kors"], np.random.default_rng(32), 30)
    digest = client.digest("kors")
    server.kill()
    server.args, server.env = ["--memory-cap", "1"], {"LAPLACED_FAILPOINT": "mid_snapshot"}
    server.start()
    assert client.digest("kors") == digest
    assert server.process.wait(20) == -9  # closing it, by itself
    server._reap()
    server.args, server.env = [], {}
    server.start()
    assert client.digest("kors") == digest


def test_a_tenant_with_work_under_way_stays(boot):
    """A build, an erasure and a failing disk are not idle."""
    server = boot("--memory-cap", "1", "--inline-work", "0")
    client = Client(server)
    client.put_tenant("t", algorithm="lk-gp-ucb")
    lines = [{"user": f"u{i % 60}", "arm": f"a{i % 20}", "reward": i % 3} for i in range(3000)]
    client.call("POST", "/observe", lines, kind="application/x-ndjson", tenant="t")
    client.call("PUT", "/tenants/t", {"algorithm": "lk-gp-ucb", "representation": {"lambda": 0.5}})
    while client.call("GET", "/tenants/t").json["rebuilding"]:
        time.sleep(0.05)
    client.call("DELETE", "/tenants/t/users/u7", expect=(200, 204))
    assert client.model("t")["parameters"]["representation"]["lambda"] == 0.5
    assert not [e for e in client.events("t") if e.get("user") == "u7"]
    wait_closed(client, ["t"])
    for _ in range(10):
        digest = client.digest("t")
        server.fill_disk()
        client.observe("u", "a", 1.0, tenant="t", expect=503)
        if states(client)["t"] == "open":
            break
        server.fill_disk(False)  # it was closed right before, and could not be opened on a full disk
        while client.call("GET", "/tenants/t/model", expect=(200, 503)).status == 503:
            time.sleep(0.1)
    time.sleep(1)
    assert states(client)["t"] == "open"
    client.call("GET", "/readyz", expect=503)
    server.fill_disk(False)
    wait_closed(client, ["t"])
    client.call("GET", "/readyz")
    assert client.digest("t") == digest
