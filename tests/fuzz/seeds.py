"""Writes corpus/log: small logs of real servers, one for each kind of model; and corpus/file: small databases of tenants, some
of them a stranger's. Run it by hand when the log has learned a new kind of line, or the database a new version; a name takes
one of the two:  /usr/bin/python3 tests/fuzz/seeds.py [log|file]"""
import pathlib
import random
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "http"))
import hostile  # noqa: E402
from harness import Client, Server  # noqa: E402

DIMS = {"context_dim": 1, "arm_dim": 2}
MODELS = {
    "laplaced": {**DIMS}, "exact": {"algorithm": "lk-gp-ucb", **DIMS}, "thompson": {"algorithm": "lk-gp-ts", **DIMS},
    "kors": {"algorithm": "ek-ucb", **DIMS}, "bkb": {"algorithm": "bkb", **DIMS}, "bbkb": {"algorithm": "bbkb", **DIMS},
    "by_arm": {"algorithm": "laplaced-by-arm", "context_dim": 1},
    "by_component": {"algorithm": "laplaced-by-component", **DIMS},
    "levels": {"algorithm": "sup-kernel-ucb", **DIMS}, "plain": {"algorithm": "ucb"},
    "learned": {"algorithm": "coop-kernel-ucb", **DIMS, "user_kernel": {"type": "mmd", "features": 4, "refresh": 10}},
    "spectral": {"algorithm": "coop-kernel-ucb", **DIMS, "user_kernel": {"type": "spectral_rbf", "k": 2}},
    "last": {"algorithm": "gp-ucb", **DIMS, "aggregation": "last", "default_reward": 0.25, "reward_window_s": 1},
    "fading": {"algorithm": "lk-gp-ucb", **DIMS, "forgetting": {"type": "discount", "discount": 0.9}},
    "halving": {"algorithm": "ek-ucb", **DIMS, "forgetting": {"type": "half_life", "half_life_s": 0.01}},
    "median": {"algorithm": "gp-ucb", "arm_dim": 2, "arm_kernel": {"type": "rbf", "lengthscale": "median"}},
}
SUMMARIZED = {"laplaced", "exact", "kors", "levels", "plain", "learned", "last", "fading", "halving"}


def traffic(client, name, rng, config):
    view = client.put_tenant(name, **config)
    dims = view["configuration"]
    vector = lambda n: [round(rng.random(), 2) for _ in range(n)]
    arm = lambda i: {"id": f"a{i}", **({"features": vector(dims["arm_dim"])} if dims["arm_dim"] else {})}
    client.put_arms(name, [arm(i) for i in range(3)])
    client.put_graph(name, [["u0", "u1", 1], ["u1", "u2", 0.5]])
    for t in range(12):
        user = f"u{t % 4}"
        client.select(user, context=vector(dims["context_dim"]), tenant=name, decision=f"d{t}")
        if t % 3:
            client.call("POST", "/reward", {"decision": f"d{t}", "reward": round(rng.random(), 2)}, tenant=name)
        if t % 5 == 0:
            client.observe(user, arm(t % 4), 0.5, tenant=name, context=vector(dims["context_dim"]), **({"id": f"o{t}"} if t else {}))
    client.call("PATCH", f"/tenants/{name}/graph", {"add": [["u2", "u3", 2]]})
    client.call("POST", f"/tenants/{name}/rebuild")
    client.wait_rebuilt(name)
    client.call("DELETE", f"/tenants/{name}/users/u3")


STRANGE = ("hidden-trigger", "endless-view", "without-rowid", "circle", "freelist", "stale-index", "two-log-starts")


def databases():
    """Of pages as small as there are: a fault in one of them is soon met."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        server = Server(folder).start()
        client = Client(server)
        for name in ("whole", "compacted"):
            client.put_tenant(name, algorithm="ucb")
            for i in range(4):
                client.select("u", candidates=["a", "b"], tenant=name, decision=f"d{i}")
                client.call("POST", "/reward", {"decision": f"d{i}", "reward": i / 2}, tenant=name)
        client.call("POST", "/tenants/compacted/compact", {"keep_events": 2})
        for name in ("whole", "compacted"):
            good = folder / name
            good.write_bytes(client.call("POST", f"/tenants/{name}/snapshot").content)
            hostile.vacuumed(good, "page_size = 512")
            (HERE / "corpus" / "file" / name).write_bytes(good.read_bytes())
        server.close()
        for kind in STRANGE:
            hostile.make(folder / "whole", HERE / "corpus" / "file" / kind, hostile.FILES[kind][0])


def logs():
    for inline in ("20000000", "0"):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(folder, "--inline-work", inline).start()
            client = Client(server)
            for name, config in MODELS.items():
                traffic(client, name, random.Random(name), config)
                text = client.call("GET", f"/tenants/{name}/events", query={"limit": 10000}).text
                (HERE / "corpus" / "log" / f"{name}{'-beside' if inline == '0' else ''}").write_text(text)
                if inline != "0" and name in SUMMARIZED:
                    client.call("POST", f"/tenants/{name}/compact", {"keep_events": 4})
                    text = client.call("GET", f"/tenants/{name}/events", query={"limit": 10000}).text
                    (HERE / "corpus" / "log" / f"{name}-summary").write_text(text)
            server.close()


wanted = sys.argv[1:] or ["log", "file"]
if "log" in wanted:
    logs()
if "file" in wanted:
    databases()
