"""The exact representation against dense algebra, over HTTP, with kill -9 in the middle."""
import json

import numpy as np
import pytest

from harness import Client, by_arm
from oracle import Model, close, history

TOLERANCE = 1e-6


def weighted_graph(rng, n, p=0.25):
    """Nodes and random edges; the last two nodes stay alone."""
    edges = {(f"u{i}", f"u{j}"): float(rng.uniform(0.1, 3)) for i in range(n - 2) for j in range(i) if rng.random() < p}
    return [f"u{i}" for i in range(n)], edges


class Session:
    """A tenant driven by random traffic, with the oracle beside it."""

    def __init__(self, client, tenant, rng, configuration, graph=((), {}), arms=()):
        self.client, self.tenant, self.rng, self.graph = client, tenant, rng, graph
        self.view = client.put_tenant(tenant, **configuration)
        if graph[0]:
            client.put_graph(tenant, [[u, v, w] for (u, v), w in graph[1].items()], users=list(graph[0]))
        self.arms = {a["id"]: a.get("features") for a in arms}
        if arms:
            client.put_arms(tenant, list(arms))
        self.learned, self.oracle = [], Model(self.view["parameters"], graph)
        self.beta = self.view["configuration"]["confidence"]["beta"]

    def step(self, user, context, candidates):
        answer = self.client.select(user, context=context, candidates=candidates, explain=True, tenant=self.tenant)
        got = by_arm(answer)
        points = [(user, context, a, self.arms[a]) for a in candidates]
        mean, sd = self.oracle.exact(self.learned, points)
        assert close([got[a][0] for a in candidates], mean, TOLERANCE), (mean, got)
        assert close([got[a][1] for a in candidates], sd, TOLERANCE), (sd, got)
        score = mean + self.beta * sd
        chosen = candidates.index(answer["arm"])
        assert score[chosen] >= score.max() - TOLERANCE * max(1.0, abs(score.max())), (answer["arm"], score)
        return answer["decision"], points[chosen]

    def reward(self, decision, point, value):
        assert self.client.reward(decision, value, tenant=self.tenant) == {"applied": True}
        self.learned.append((point, value))


def test_240_decisions_on_a_random_weighted_graph_agree_and_survive_a_kill(boot):
    rng = np.random.default_rng(20261121)
    server = boot()
    arms = [{"id": f"a{i}", "features": [float(x) for x in rng.normal(size=3)]} for i in range(12)]
    session = Session(Client(server), "oracle", rng, dict(algorithm="lk-gp-ucb", context_dim=2, arm_dim=3, representation={"lambda": 0.25},
                      context_kernel={"type": "rbf", "lengthscale": 1.3}), weighted_graph(rng, 25), arms)
    pending = []
    for t in range(240):
        if t == 120:
            server.restart()
        user = f"u{rng.integers(25)}" if rng.random() < 0.9 else f"stranger{rng.integers(3)}"
        candidates = [f"a{i}" for i in rng.choice(12, size=rng.integers(2, 12), replace=False)]
        decision, point = session.step(user, [float(x) for x in rng.normal(size=2)], candidates)
        pending.append((decision, point))
        while len(pending) > 3:  # rewards come late and out of order
            d, p = pending.pop(rng.integers(len(pending)))
            session.reward(d, p, float(np.sin(3 * p[3][0]) + p[1][0] + 0.3 * rng.normal()))
    model = session.client.model("oracle")
    assert model["events"] == len(session.learned) == 237 and model["clamped"] == 0
    assert [r for _, r in history(session.client.events("oracle"))] == [r for _, r in session.learned]
    gain = session.oracle.gram([p for p, _ in session.learned], [p for p, _ in session.learned])
    assert model["information_gain"] == pytest.approx(0.5 * np.linalg.slogdet(np.eye(237) + gain / 0.25)[1], rel=1e-6)
    e = np.linalg.eigvalsh(gain)
    assert model["effective_dimension"] == pytest.approx((e / (e + 0.25)).sum(), rel=1e-6)


KERNELS = [{"type": "rbf", "lengthscale": 0.7}, {"type": "matern12", "lengthscale": 2.0}, {"type": "matern32", "lengthscale": 0.5},
           {"type": "matern52", "lengthscale": 1.1}, {"type": "linear"}, {"type": "polynomial", "degree": 3, "offset": 0.5},
           {"type": "delta"}, {"type": "ones"}]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k["type"])
@pytest.mark.parametrize("where", ["context_kernel", "arm_kernel"])
def test_every_vector_kernel_agrees(api, name, where, kernel):
    rng = np.random.default_rng(5)
    arms = [{"id": f"a{i}", "features": [float(x) for x in rng.normal(size=2)]} for i in range(6)]
    session = Session(api, name, rng, {"algorithm": "gp-ucb", "context_dim": 2, "arm_dim": 2, where: kernel}, arms=arms)
    contexts = [[float(x) for x in rng.normal(size=2)] for _ in range(5)]  # they come back: delta has something to find
    for t in range(30):
        decision, point = session.step("u", contexts[t % 5], [f"a{i}" for i in rng.permutation(6)])
        session.reward(decision, point, float(rng.normal()))


@pytest.mark.parametrize("kernel", [{"type": "laplacian", "rho": 0.5}, {"type": "laplacian", "rho": 0.05, "normalize": True},
                                    {"type": "laplacian", "rho": 0.1, "population": 0.7},
                                    {"type": "laplacian", "rho": 0.1, "population": 2.0, "normalize": True},
                                    {"type": "identity"}, {"type": "ones"},
                                    {"type": "laplacian", "rho": 0.1, "power": 0.5}, {"type": "laplacian", "rho": 0.5, "power": 2},
                                    {"type": "laplacian", "rho": 0.3, "power": 3.5, "normalize": True},
                                    {"type": "heat"}, {"type": "heat", "tau": 0.2, "normalize": True},
                                    {"type": "spectral_rbf"}, {"type": "spectral_rbf", "k": 3, "lengthscale": 0.3},
                                    {"type": "spectral_rbf", "k": 100, "normalize": True}],
                         ids=lambda k: "-".join(f"{v}" for v in k.values()))
def test_every_user_kernel_agrees(api, name, kernel):
    rng = np.random.default_rng(6)
    graph = weighted_graph(rng, 12)
    session = Session(api, name, rng, {"algorithm": "lk-gp-ucb", "user_kernel": kernel}, graph, [{"id": x} for x in "abc"])
    for t in range(60):
        user = f"u{rng.integers(12)}" if t % 4 else f"new{rng.integers(4)}"
        decision, point = session.step(user, [], list("abc"))
        session.reward(decision, point, float(rng.normal() + (point[2] == "b")))


PRIORS = {"arm": {"arm": 0.4, "user": 0, "context": 0, "linear": 0}, "users": {"arm": 0.1, "user": 0.9, "context": 0, "linear": 0},
          "contexts": {"arm": 0, "user": 0, "context": 1.2, "linear": 0.3}, "all": {"mean": 0.7, "arm": 0.2, "user": 0.5, "context": 0.8, "linear": 0.4}}


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize("has_graph", [True, False])
def test_arms_that_are_held_apart_agree(boot, prior, has_graph):
    rng = np.random.default_rng(13)
    server = boot()
    graph = weighted_graph(rng, 12) if has_graph else ((), {})
    session = Session(Client(server), "apart", rng, {"algorithm": "laplaced-by-arm", "tune": False, "context_dim": 2, "prior": prior, "representation": {"lambda": 0.3}, "rule": {"type": "ucb", "epsilon": 0}},
                      graph,
                      [{"id": x} for x in "abcd"])
    contexts = [[float(x) for x in rng.normal(size=2)] for _ in range(9)]
    for t in range(80):
        if t == 40:
            server.restart()
        user = f"u{rng.integers(12)}" if t % 4 else f"new{rng.integers(4)}"
        decision, point = session.step(user, contexts[t % 9], list("abcd"))
        session.reward(decision, point, float(rng.normal() + (point[2] == "b")))
    points = [p for p, _ in session.learned]
    gain = 0.5 * np.linalg.slogdet(np.eye(80) + session.oracle.gram(points, points) / 0.3)[1]
    assert session.client.model("apart")["information_gain"] == pytest.approx(gain, rel=1e-6)


@pytest.mark.parametrize("preset", ["gob-lin", "graph-ucb", "coop-kernel-ucb"])
def test_the_baselines_over_a_graph_agree(api, name, preset):
    rng = np.random.default_rng(12)
    graph = weighted_graph(rng, 10)
    arms = [{"id": f"a{i}", "features": [float(x) for x in rng.normal(size=3)]} for i in range(5)]
    session = Session(api, name, rng, {"algorithm": preset, "arm_dim": 3}, graph, arms)
    kernel = session.view["configuration"]["user_kernel"]
    assert (kernel["type"], kernel["rho"], kernel["power"]) == ("laplacian", {"gob-lin": 1}.get(preset, 0.1), 1)
    for t in range(40):
        decision, point = session.step(f"u{rng.integers(10)}" if t % 5 else "new", [], [f"a{i}" for i in rng.permutation(5)])
        session.reward(decision, point, float(rng.normal()))


def test_a_change_of_the_user_kernel_rebuilds_and_survives_a_kill(boot):
    """One history under every kernel over users in turn; the digest after a restart is the live one."""
    rng = np.random.default_rng(13)
    server = boot()
    client = Client(server, tenant="kernels")
    nodes, edges = weighted_graph(rng, 14)
    client.put_tenant("kernels", algorithm="coop-kernel-ucb")
    client.put_graph("kernels", [[u, v, w] for (u, v), w in edges.items()], users=nodes)
    learned = []
    for t in range(40):
        user, value = f"u{rng.integers(14)}", float(rng.normal())
        client.observe(user, "ab"[t % 2], value)
        learned.append(((user, [], "ab"[t % 2], None), value))
    for kernel in ({"type": "heat", "tau": 0.5}, {"type": "heat", "tau": 0.6}, {"type": "spectral_rbf"},
                   {"type": "spectral_rbf", "k": 2}, {"type": "spectral_rbf", "k": 2, "lengthscale": 0.5},
                   {"type": "laplacian", "power": 0.5}, {"type": "laplacian", "power": 0.75}, {"type": "ones"}):
        before = client.digest("kernels")
        view = client.put_tenant("kernels", expect=200, algorithm="coop-kernel-ucb", user_kernel=kernel)
        assert client.digest("kernels") != before
        oracle = Model(view["parameters"], (nodes, edges))
        for user in ("u0", "u7", "u13", "stranger"):
            got = by_arm(client.select(user, candidates=["a", "b"], explain=True, dry_run=True))
            mean, sd = oracle.exact(learned, [(user, [], "a", None), (user, [], "b", None)])
            assert close([got["a"][0], got["b"][0]], mean, TOLERANCE) and close([got["a"][1], got["b"][1]], sd, TOLERANCE)
        digest = client.digest("kernels")
        server.restart()
        assert client.digest("kernels") == digest


def draw_observations(rng, n, context_dim):
    """n observations of users whose contexts lie around places of their own; u8 is seen four times, u9 once."""
    users = ["u8"] * 4 + ["u9"] + [f"u{i}" for i in rng.integers(8, size=n - 5)]
    lines = []
    for user in rng.permutation(users):
        place = int(user[1:]) / 4
        x, f = (place + rng.normal(size=2) / 2).tolist(), (place * (context_dim == 0) + rng.normal(size=2)).tolist()
        lines.append({"user": str(user), **({"context": x} if context_dim else {}), "arm": {"id": f"a{len(lines) % 30}", "features": f},
                      "reward": float(np.sin(place + x[0]) + 0.1 * rng.normal())})
    return lines


@pytest.mark.parametrize("context_dim, extra", [(2, {}), (0, {"lengthscale": 0.8, "bandwidth": 0.5, "features": 64})],
                         ids=["contexts", "features"])
def test_a_learned_user_kernel_refreshes_by_the_log_agrees_and_survives_a_kill(boot, context_dim, extra):
    """250 observations in one body: nobody shares until the 200th, the refresh stands right behind it, and from there on
    the kernel is that of those 200, whatever comes later."""
    rng = np.random.default_rng(14)
    server = boot("--snapshot-events", "60")
    client = Client(server, tenant="learned")
    view = client.put_tenant("learned", algorithm="coop-kernel-ucb", context_dim=context_dim, arm_dim=2, seed=5,
                             user_kernel={"type": "mmd", **extra}, representation={"lambda": 0.1})
    lines = draw_observations(rng, 450, context_dim)
    probes = [[user, [0.3, 0.6] if context_dim else []] for user in ("u0", "u3", "u7", "u8", "u9", "stranger")]
    candidates = [{"id": "a1", "features": [0.2, 0.1]}, {"id": "fresh", "features": [1.0, -0.5]}]

    def send(some):
        answer = client.call("POST", "/observe", raw="\n".join(json.dumps(line) for line in some), kind="application/x-ndjson")
        assert answer.json == {"observed": len(some)}

    def check(seen):
        learned = history(client.events("learned"))
        oracle = Model(view["parameters"], seen=(5, [p for p, _ in learned[:seen]]) if seen else None)
        for user, x in probes:
            got = by_arm(client.select(user, context=x, candidates=candidates, explain=True, dry_run=True))
            mean, sd = oracle.exact(learned, [(user, x, c["id"], c["features"]) for c in candidates])
            assert close([got[c["id"]][0] for c in candidates], mean, TOLERANCE), (user, mean, got)
            assert close([got[c["id"]][1] for c in candidates], sd, TOLERANCE), (user, sd, got)

    send(lines[:150])
    check(0)
    send(lines[150:400])  # 400 learned: one refresh behind the 200th, the next one is due but waits for an event
    events = client.events("learned")
    resets = [i for i, e in enumerate(events) if e["type"] == "dictionary" and e["reset"]]
    assert len(resets) == 1 and sum(e["type"] == "observed" for e in events[:resets[0]]) == 200
    check(200)
    send(lines[400:])
    client.wait_rebuilt("learned")
    check(400)
    events = client.events("learned")
    resets = [e for e in events if e["type"] == "dictionary" and e["reset"] and not e.get("begun")]
    begun = [i + 1 for i in (e.get("from", e["seq"]) - 1 for e in resets)]  # where what they build from ends
    assert len(resets) == 2 and sum(e["type"] == "observed" for e in events[:begun[1]]) == 400
    before = (client.model("learned"), [client.select(u, context=x, candidates=candidates, explain=True, dry_run=True, decision="d") for u, x in probes])
    for args in ([], ["--verify"]):
        server.args = args
        server.restart()
        assert before == (client.model("learned"), [client.select(u, context=x, candidates=candidates, explain=True, dry_run=True, decision="d")
                                                    for u, x in probes])


def test_a_median_lengthscale_is_the_median_distance_and_agrees(api, name):
    rng = np.random.default_rng(7)
    arms = [{"id": f"a{i}", "features": [float(x) for x in 3 * rng.normal(size=2)]} for i in range(10)]
    api.put_tenant(name, algorithm="gp-ucb", arm_dim=2, arm_kernel={"type": "rbf", "lengthscale": "median"})
    api.put_arms(name, arms)
    features = {a["id"]: a["features"] for a in arms}
    for t in range(80):
        api.observe("u", f"a{t % 10}", float(rng.normal()), tenant=name)
    model = api.model(name)
    assert model["configuration"]["arm_kernel"]["lengthscale"] == "median"
    scale = model["parameters"]["arm_kernel"]["lengthscale"]
    x = np.array(list(features.values()))
    d = np.sqrt(((x[:, None] - x[None, :]) ** 2).sum(axis=2))[np.triu_indices(10, 1)]
    assert scale == pytest.approx(np.median(d), rel=0.25) and scale != 1.0
    oracle, learned = Model(model["parameters"]), history(api.events(name))
    answer = api.select("u", explain=True, dry_run=True, tenant=name)
    got = by_arm(answer)
    mean, sd = oracle.exact(learned, [("u", [], a, features[a]) for a in got])
    assert close([v[0] for v in got.values()], mean, TOLERANCE) and close([v[1] for v in got.values()], sd, TOLERANCE)


def test_repeated_points_count_and_the_support_stays_small(api, name):
    rng = np.random.default_rng(8)
    session = Session(api, name, rng, {"algorithm": "lk-gp-ucb", "arm_dim": 1, "representation": {"lambda": 0.5}},
                      weighted_graph(rng, 4, p=1.0), [{"id": f"a{i}", "features": [0.3 * i]} for i in range(3)])
    for t in range(120):
        decision, point = session.step(f"u{t % 4}", [], ["a0", "a1", "a2"])
        session.reward(decision, point, float(rng.normal()))
    assert len(api.model(name)["dictionary"]) <= 12


def test_beyond_its_limit_exact_hands_over_to_kors_by_a_logged_reset(api, name):
    api.put_tenant(name, algorithm="gp-ucb", arm_dim=1, representation={"exact_limit": 40}, arm_kernel={"type": "rbf", "lengthscale": 0.3})
    rng = np.random.default_rng(9)
    for t in range(120):
        x = float(rng.uniform())
        api.observe("u", {"id": f"x{t}", "features": [x]}, float(np.sin(6 * x)), tenant=name)
    resets = [e for e in api.events(name) if e["type"] == "dictionary" and e["reset"]]
    assert [e["representation"] for e in resets] == ["kors"]
    model = api.model(name)
    assert model["configuration"]["representation"]["type"] == "exact" and model["parameters"]["representation"]["type"] == "kors"
    assert model["events"] == 120 and len(model["dictionary"]) < 60
