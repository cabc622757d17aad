"""A graph beyond the dense limit: columns by conjugate gradients against a dense solve in numpy."""
import numpy as np
import pytest

from contract import NDJSON
from harness import Client, by_arm
from oracle import Model, close

N = 5000


@pytest.fixture(scope="module")
def big():
    """A ring with chords and a few stragglers: diameter, hubs, and several components."""
    rng = np.random.default_rng(41)
    edges = {}
    for i in range(N - 10):
        edges[f"u{i}", f"u{(i + 1) % (N - 10)}"] = float(rng.uniform(0.2, 2))
    for _ in range(8000):
        i, j = (int(x) for x in rng.integers(N - 10, size=2))
        if i != j and (f"u{i}", f"u{j}") not in edges and (f"u{j}", f"u{i}") not in edges:
            edges[f"u{i}", f"u{j}"] = float(rng.uniform(0.1, 3))
    for k in range(40):
        edges[f"u{7 * k + 3}", f"u{N - 1 - k % 5}"] = 1.0  # five hubs; five users stay alone
    return [f"u{i}" for i in range(N)], edges


def near(got, want, bound):
    return np.all(np.abs(np.subtract(got, want)) <= bound)


# Tenants side by side with one history: exact kernels, and the default tolerance, of which the kernel's error is what is
# bounded; for rewards of unit variance and 60 observations that makes thousandths.
EXACT, DEFAULT = ("exact", {"tolerance": 0}, close, 1e-6), ("near", {}, near, 5e-3)


@pytest.mark.parametrize("population, normalize, tenants", [(0.0, False, [EXACT]), (1.0, True, [EXACT, DEFAULT])], ids=["plain", "crowd"])
def test_means_and_deviations_agree_with_the_dense_solve(boot, big, population, normalize, tenants):
    rng = np.random.default_rng(42)
    server = boot()
    client = Client(server)
    nodes, edges = big
    lines = [[u, v, w] for (u, v), w in edges.items()]
    for name, tolerance, _, _ in tenants:
        view = client.put_tenant(name, algorithm="lk-gp-ucb",
                                 user_kernel={"rho": 0.1, "population": population, "normalize": normalize, **tolerance})
        summary = client.call("PUT", f"/tenants/{name}/graph", lines, kind=NDJSON).json
        assert summary["edges"] == len(edges) and summary["users"] == len({u for e in edges for u in e})
    tied = {u for e in edges for u in e}
    oracle, learned = Model(view["parameters"], ([u for u in nodes if u in tied], edges)), []
    speakers = [f"u{i}" for i in rng.choice(N, 25, replace=False)] + [f"u{N - 1}", "u3", "stranger"]
    listeners = speakers[:10] + [f"u{i}" for i in (4, 2000, N - 2)] + ["stranger", "another"]
    everybody = [(u, [], "a", None) for u in speakers + listeners + ["u77"]]
    oracle.gram(everybody, everybody)  # one dense solve for all of them

    def learn(user, arm, value):
        for name, *_ in tenants:
            client.observe(user, arm, value, tenant=name)
        learned.append(((user, [], arm, None), value))

    def agree():
        for user in listeners:
            mean, sd = oracle.exact(learned, [(user, [], "a", None), (user, [], "b", None)])
            for name, _, within, bound in tenants:
                got = by_arm(client.select(user, candidates=["a", "b"], explain=True, dry_run=True, tenant=name))
                assert within([got["a"][0], got["b"][0]], mean, bound), (name, user)
                assert within([got["a"][1], got["b"][1]], sd, bound), (name, user)
    for t in range(60):
        learn(speakers[rng.integers(len(speakers))], "ab"[t % 2], float(rng.normal()))
    agree()
    digests = [client.digest(name) for name, *_ in tenants]
    server.restart()
    assert [client.digest(name) for name, *_ in tenants] == digests
    agree()
    learn("u77", "a", 1.5)
    agree()


SPECTRAL = [{"type": "heat"}, {"type": "spectral_rbf"}, {"type": "laplacian", "power": 0.5}]


@pytest.mark.parametrize("kernel", SPECTRAL, ids=lambda k: k["type"])
def test_kernels_of_the_whole_spectrum_refuse_large_graphs_and_change_nothing(api, name, kernel):
    """2,048 users are the dense form's limit: beyond, 422 at the graph, at its patch and at the configuration."""
    ring = [[f"u{i}", f"u{(i + 1) % 2049}"] for i in range(2049)]
    small = [["u0", "u1"], ["u1", "u2"]]
    api.put_tenant(name, algorithm="coop-kernel-ucb", user_kernel=kernel)
    api.put_graph(name, small)
    api.observe("u0", "a", 1.0, tenant=name)
    before = (api.digest(name), api.call("GET", f"/tenants/{name}/graph").json)
    refused = api.call("PUT", f"/tenants/{name}/graph", {"edges": ring}, expect=422).json
    assert "2048" in refused["detail"] and "2049" in refused["detail"] and kernel["type"] in refused["detail"]
    api.call("PATCH", f"/tenants/{name}/graph", {"add": ring[2:]}, expect=422)
    assert (api.digest(name), api.call("GET", f"/tenants/{name}/graph").json) == before
    api.observe("u1", "a", 0.5, tenant=name)  # and it goes on
    other = name + ".large"
    view = api.put_tenant(other, algorithm="lk-gp-ucb")
    api.put_graph(other, ring)
    for history in (0, 1):
        before = (api.digest(other), api.call("GET", f"/tenants/{other}").json)
        answer = api.call("PUT", f"/tenants/{other}", {"algorithm": "lk-gp-ucb", "user_kernel": kernel}, expect=422)
        assert answer.pointers == ["/user_kernel/type"] and "2049" in answer.json["errors"][0]["detail"]
        assert (api.digest(other), api.call("GET", f"/tenants/{other}").json) == before
        api.observe("u0", "a", 1.0, tenant=other)
    assert view["configuration"]["user_kernel"]["power"] == 1


def test_who_is_told_of_a_refusal_finds_no_rebuild_going_on(api, name):
    api.put_tenant(name, algorithm="lk-gp-ucb")
    api.put_graph(name, [[f"u{i}", f"u{(i + 1) % 2049}"] for i in range(2049)])
    for _ in range(40):
        api.call("PUT", f"/tenants/{name}", {"algorithm": "lk-gp-ucb", "user_kernel": {"type": "heat"}}, expect=422)
        assert api.call("GET", f"/tenants/{name}").json["rebuilding"] is False
