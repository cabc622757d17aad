"""After kill -9 at any time: what was answered is in the log once, and the model is where it was."""
import threading

import numpy as np
import pytest
import requests

from harness import Client

CONFIGS = {
    "exact": dict(algorithm="lk-gp-ucb", arm_dim=1, context_dim=1),
    "kors": dict(algorithm="laplaced-kors", arm_dim=1, context_dim=1, representation={"lambda": 0.2}),
    "by_arm": dict(algorithm="laplaced-by-arm", context_dim=1, prior={"mean": 0.3}),
    "by_component": dict(algorithm="laplaced-by-component", arm_dim=1, context_dim=1, prior={"mean": 0.3}),
    "bkb": dict(algorithm="bkb", arm_dim=1, context_dim=1, representation={"lambda": 0.1}),
    "bbkb": dict(algorithm="bbkb", arm_dim=1, context_dim=1, representation={"lambda": 0.1, "batch_ratio": 3}),
    "thompson": dict(algorithm="ts", aggregation="sum"),
    "learned": dict(algorithm="coop-kernel-ucb", arm_dim=1, context_dim=1, user_kernel={"type": "mmd", "refresh": 13, "min_observations": 2}),
    "levels": dict(algorithm="sup-kernel-ucb", arm_dim=1, context_dim=1, confidence={"beta": 0.5}),
    "median": dict(algorithm="gp-ucb", arm_dim=1, arm_kernel={"type": "rbf", "lengthscale": "median"}),
}


def make(client, name, config):
    client.put_tenant(name, **config)
    client.put_graph(name, [["u0", "u1", 1], ["u1", "u2", 0.5]])
    arms = [{"id": f"a{i}", **({"features": [0.2 * i]} if config.get("arm_dim") else {})} for i in range(6)]
    client.put_arms(name, arms)


def context(config, t):
    return {"context": [0.1 * (t % 9)]} if config.get("context_dim") else {}


def traffic(client, name, config, rng, steps):
    """Decisions, most of them rewarded; the ids of those left open."""
    opened = []
    for t in range(steps):
        d = client.select(f"u{rng.integers(4)}", tenant=name, **context(config, t))["decision"]
        if rng.random() < 0.8:
            client.reward(d, float(rng.normal()), tenant=name)
        else:
            opened.append(d)
    return opened


def snapshot(client, name):
    config = CONFIGS[name]
    answers = [client.select(f"u{u}", explain=True, dry_run=True, decision=f"probe{u}", tenant=name, **context(config, u)) for u in range(4)]
    return client.model(name), answers, client.events(name), client.call("GET", f"/tenants/{name}/graph").json, \
        client.call("GET", f"/tenants/{name}/arms").json, {**client.stats(name), "window": None}


@pytest.mark.parametrize("args", [[], ["--snapshot-events", "25"], ["--snapshot-events", "1"], ["--verify"]], ids=" ".join)
def test_digests_answers_and_open_decisions_survive_several_kills(boot, args):
    rng = np.random.default_rng(21)
    server = boot(*args)
    client = Client(server)
    opened = {}
    for name, config in CONFIGS.items():
        make(client, name, config)
        opened[name] = []
    for _ in range(4):
        for name, config in CONFIGS.items():
            opened[name] += traffic(client, name, config, rng, 15)
        before = {name: snapshot(client, name) for name in CONFIGS}
        server.restart()
        for name in CONFIGS:
            after = snapshot(client, name)
            for got, want in zip(after, before[name]):
                assert got == want, name
            assert client.reward(opened[name].pop(), 0.5, tenant=name) == {"applied": True}
    for name in CONFIGS:
        for d in opened[name]:
            assert client.reward(d, 1.0, tenant=name)["applied"]
        # A decision whose rewards are summed stays open until its window closes.
        assert client.stats(name)["pending"] == (60 if CONFIGS[name].get("aggregation") == "sum" else 0)


def test_a_clean_stop_and_start_changes_nothing_either(boot):
    rng = np.random.default_rng(22)
    server = boot()
    client = Client(server)
    for name, config in CONFIGS.items():
        make(client, name, config)
        traffic(client, name, config, rng, 20)
    before = {name: snapshot(client, name) for name in CONFIGS}
    assert server.terminate() == 0
    server.start()
    assert {name: snapshot(client, name) for name in CONFIGS} == before


def test_a_fold_of_the_whole_log_gives_the_digest_of_the_snapshot(boot):
    rng = np.random.default_rng(23)
    server = boot("--snapshot-events", "10")
    client = Client(server)
    for name, config in CONFIGS.items():
        make(client, name, config)
        traffic(client, name, config, rng, 40)
    digests = {name: client.digest(name) for name in CONFIGS}
    assert server.terminate() == 0
    caches = [p for p in (server.data / "tenants").iterdir() if not p.name.split(".db")[-1] in ("", "-wal", "-shm")]
    assert caches, "no snapshot was written"
    for path in caches:
        path.unlink()
    server.start()
    assert {name: client.digest(name) for name in CONFIGS} == digests


def test_a_damaged_snapshot_is_only_a_cache(boot):
    rng = np.random.default_rng(24)
    server = boot("--snapshot-events", "10")
    client = Client(server)
    make(client, "kors", CONFIGS["kors"])
    traffic(client, "kors", CONFIGS["kors"], rng, 40)
    digest = client.digest("kors")
    server.kill()
    caches = [p for p in (server.data / "tenants").iterdir() if p.name.startswith("kors") and p.suffix == ".snapshot"]  # the kill may leave half of another
    assert caches
    for path in caches:
        body = bytearray(path.read_bytes())
        body[len(body) // 2] ^= 0x40
        path.write_bytes(body)
    server.start()
    assert client.digest("kors") == digest


@pytest.mark.parametrize("delay", [0.15, 0.4, 0.8])
def test_a_kill_under_load_loses_nothing_that_was_answered(boot, delay):
    server = boot("--snapshot-events", "50")
    make(Client(server), "kors", CONFIGS["kors"])
    make(Client(server), "exact", CONFIGS["exact"])
    decided, rewarded, lock = [], [], threading.Lock()

    def work(k):
        client, name = Client(server), ("kors", "exact")[k % 2]
        try:
            for t in range(10000):
                d = client.select(f"u{k}", tenant=name, context=[0.01 * t])["decision"]
                with lock:
                    decided.append((name, d))
                client.reward(d, 0.5, tenant=name)
                with lock:
                    rewarded.append((name, d))
        except requests.exceptions.RequestException:
            pass
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    threading.Event().wait(delay)
    server.kill()
    for thread in threads:
        thread.join()
    server.start()
    client = Client(server)
    assert decided and rewarded
    for kind, seen in (("decided", decided), ("rewarded", rewarded)):
        logged = [(name, e["decision"]) for name in ("kors", "exact") for e in client.events(name) if e["type"] == kind]
        assert len(logged) == len(set(logged)) and set(seen) <= set(logged)
        assert len(logged) <= len(seen) + 4  # at most the one in flight of each client is more
    first = {name: client.model(name) for name in ("kors", "exact")}
    server.restart()
    assert {name: client.model(name) for name in ("kors", "exact")} == first


@pytest.mark.parametrize("point", ["before_append", "after_commit", "after_apply", "mid_snapshot"])
@pytest.mark.parametrize("count", [1, 7])
def test_death_at_a_named_point_loses_and_repeats_nothing(boot, point, count):
    server = boot("--snapshot-events", "5")
    make(Client(server), "kors", CONFIGS["kors"])
    assert server.terminate() == 0
    server.env = {"LAPLACED_FAILPOINT": f"{point}:{count}"}
    server.start()
    client, answered, asked = Client(server), [], 0
    with pytest.raises(requests.exceptions.RequestException):
        for t in range(500):
            asked = t + 1
            client.call("POST", "/select", {"user": "u1", "context": [0.1], "decision": f"d{t}"}, tenant="kors")
            answered.append(f"d{t}")
    server._reap()
    server.env = {}
    server.start()
    client = Client(server)
    logged = [e["decision"] for e in client.events("kors") if e["type"] == "decided"]
    assert logged[:len(answered)] == answered and len(logged) - len(answered) in (0, 1)
    retry = client.select("u1", context=[0.1], decision=f"d{asked - 1}", tenant="kors")
    assert retry["decision"] == f"d{asked - 1}"
    logged = [e["decision"] for e in client.events("kors") if e["type"] == "decided"]
    assert sorted(logged) == sorted(f"d{t}" for t in range(asked))
