"""Bounds over dictionaries against numpy: the ball from a replay of the log, the projection error between the largest
eigenvalue and the trace of what the dictionary misses, and the rules by their formulas, maximised over |q| by steps."""
import math

import numpy as np
import pytest

from harness import Client
from oracle import Model, close, dictionary, history

SIGMA, DELTA, B = 0.3, 0.05, 4.0
RIDGES = np.array([1, 10 ** 0.5, 10, 10 ** 1.5, 100, 10 ** 2.5, 1e3, 10 ** 3.5, 1e4, 1e5])
SETTINGS = dict(algorithm="ek-ucb", arm_dim=2, arm_kernel={"type": "rbf", "lengthscale": 0.4})
DICTIONARIES = {"kors": {"type": "kors", "lambda": 0.09, "mu": 0.5, "gamma": 0.4}, "threshold": {"type": "threshold", "lambda": 0.09, "threshold": 0.2},
                "bbkb": {"type": "bbkb", "lambda": 0.09, "q": 1, "batch_ratio": 4}}


def conf(kind, **more):
    return {"type": kind, "norm_bound": B, "noise": SIGMA, "delta": DELTA, "beta": 1.5, **more}


def teach(api, name, rng, n):
    for _ in range(n):
        x = [float(v) for v in rng.integers(0, 7, size=2) / 6]
        api.observe("u", {"id": f"{x}", "features": x}, float(np.sin(4 * x[0]) + x[1] + SIGMA * rng.normal()), tenant=name)


def candidates(rng, n=6):
    return [{"id": f"c{i}", "features": [float(v) for v in rng.uniform(size=2)]} for i in range(n)]


def served(api, name, query):
    rows = {r["arm"]: r for r in api.select("u", candidates=query, explain=True, dry_run=True, tenant=name)["ranking"]}
    return [rows[c["id"]] for c in query]


def prequential_radius_sq(model, events, delta):
    """Every reward foretold from what the log had before it, by the dictionary of that time."""
    taught, points, past, total = {}, [], [], 2 * SIGMA ** 2 * math.log(1 / delta)
    for ev in events:
        if ev["type"] == "observed":
            point = (ev["user"], ev["context"], ev["arm"], ev["features"])
            mean, sd = model.sketch(points, past, [point])
            share = float(sd[0]) ** 2 / model.ridge
            total += (ev["reward"] - float(mean[0])) ** 2 / (1 + share) + SIGMA ** 2 * math.log(1 + share)
            taught[ev["seq"]] = point
            past.append((point, ev["reward"]))
        elif ev["type"] == "dictionary":
            points = ([] if ev["reset"] else points) + [taught[p["event"]] for p in ev["points"]]
    return total


class Sketch:
    """F F^T and the rest of the Gram matrix, with what the formulas ask of them."""

    def __init__(self, model, points, past, query):
        e, q = np.linalg.eigh(model.gram(points, points))
        root, seen = q / np.sqrt(e), [h[0] for h in past]
        self.y, self.prior = np.array([h[1] for h in past]), model.diag(query)
        self.f, self.w = model.gram(points, seen).T @ root, (root.T @ model.gram(points, query)).T
        self.rest = model.gram(seen, seen) - self.f @ self.f.T
        self.kappa = float(model.diag(seen).max())
        self.part = np.maximum(np.linalg.eigvalsh(self.f.T @ self.f), 0)
        self.residual = np.maximum(0, self.prior - (self.w ** 2).sum(axis=1))

    def at(self, a):
        """mean, w2, SSE at ridge a."""
        v = self.f.T @ self.f + a * np.eye(self.f.shape[1])
        b = self.f.T @ self.y
        return self.w @ np.linalg.solve(v, b), (self.w * np.linalg.solve(v, self.w.T).T).sum(axis=1), float(self.y @ self.y - b @ np.linalg.solve(v, b))

    def gain(self, a):
        return float(np.log1p(self.part / a).sum() + np.trace(self.rest) / a)

    def bounds(self, form, ridges, r_sq, e, a0):
        h = math.sqrt(r_sq * e)
        if form == "cross":
            h = min(SIGMA * math.sqrt((2 * math.log(16 / DELTA) + self.gain(a)) * (e + a)) for a in a0 * np.logspace(-2, 5, 8))
        lower, upper = [], []
        for a in ridges:
            mean, w2, sse = self.at(a)
            if form == "simple":
                half = np.sqrt(((math.sqrt(r_sq) + B * math.sqrt(e)) ** 2 + a * B * B - sse) * (w2 + self.residual / a))
            else:
                beta = np.linspace(0, B, 20001)[:, None]
                inner = r_sq + 2 * h * beta - (a - e) * beta ** 2 + a * B * B - sse
                half = np.where(inner >= 0, np.sqrt(self.residual) * beta + np.sqrt(w2 * np.maximum(inner, 0)), -np.inf).max(axis=0)
            lower.append(mean - half)
            upper.append(mean + half)
        return np.max(lower, axis=0), np.min(upper, axis=0)


    def dimension(self, a):
        """At least tr K (K + a)^-1 of the whole Gram matrix."""
        return float((self.part / (self.part + a)).sum() + np.trace(self.rest) / a)

    def closed(self, kind, a, e, epsilon):
        """Rules of one radius, in reward units: mean -+ radius sd / sqrt(a)."""
        t, level, kappa = len(self.y), 2 * math.log(1 / DELTA), self.kappa
        growth = (1 + math.log1p(kappa * t / a)) * self.dimension(a)
        radius = {
            "ek": (math.sqrt(a) + math.sqrt(e)) * B + SIGMA * math.sqrt(2 * level + 2 * growth),
            "ek_plus": (math.sqrt(e) + math.sqrt(e + 4 * a)) / 2 * B + SIGMA * math.sqrt(level + self.gain(a)),
            "bkb": (math.sqrt(a) + max(math.sqrt(a / (1 - epsilon)), math.sqrt(e))) * B +
            2 * SIGMA * math.sqrt((1 + epsilon) / (1 - epsilon) * growth + level / 2),
        }[kind]
        mean, w2, _ = self.at(a)
        half = radius / math.sqrt(a) * np.sqrt(self.residual + a * w2)
        return mean - half, mean + half, radius


def oracle(api, name, query):
    served_model, events = api.model(name), api.events(name)
    model, points = Model(served_model["parameters"]), [("u", [], c["id"], c["features"]) for c in query]
    return served_model, model, events, Sketch(model, dictionary(served_model), history(events), points)


@pytest.mark.parametrize("form", ["cross", "split", "simple"])
@pytest.mark.parametrize("kind", ["amm", "dmm"])
@pytest.mark.parametrize("representation", DICTIONARIES)
def test_bounds_over_a_dictionary_are_their_definition(api, name, representation, kind, form):
    rng = np.random.default_rng(40)
    api.put_tenant(name, **SETTINGS, representation=DICTIONARIES[representation], confidence=conf(kind, form=form))
    teach(api, name, rng, 90)
    query = candidates(rng)
    rows = served(api, name, query)
    shown, model, events, sketch = oracle(api, name, query)
    e = shown["confidence"]["projection_error"]
    assert np.linalg.eigvalsh(sketch.rest).max() * (1 - 1e-9) <= e <= np.trace(sketch.rest) * (1 + 1e-9) + 1e-12
    r_sq = prequential_radius_sq(model, events, DELTA / 2 if form == "cross" else DELTA)
    assert shown["confidence"]["radius"] == pytest.approx(math.sqrt(r_sq), rel=1e-8)
    ridges = model.ridge * (RIDGES if kind == "dmm" else RIDGES[:1])
    lower, upper = sketch.bounds(form, ridges, r_sq, e, model.ridge)
    assert close([r["upper"] for r in rows], upper, 1e-5) and close([r["lower"] for r in rows], lower, 1e-5)
    assert all(r["score"] == r["upper"] for r in rows) and shown["confidence"]["empty_sets"] == 0


@pytest.mark.parametrize("kind", ["ek", "ek_plus", "bkb"])
@pytest.mark.parametrize("representation, missed", [("kors", None), ("threshold", None), ("bbkb", None), ("coarse", 2.0), ("fine", 0.5)])
def test_radii_over_a_dictionary_are_valid_for_the_dictionary_that_is_served(api, name, representation, missed, kind):
    """`coarse` misses more, and `fine` less, than the 1/(1 - epsilon) that BKB's Theorem 2 takes for granted."""
    own = {"coarse": {"type": "threshold", "lambda": 0.01, "threshold": 0.5}, "fine": {"type": "threshold", "lambda": 0.25, "threshold": 0.01}}
    rng = np.random.default_rng(46)
    api.put_tenant(name, **SETTINGS, representation={**DICTIONARIES, **own}[representation], confidence=conf(kind))
    teach(api, name, rng, 90)
    query = candidates(rng)
    rows = served(api, name, query)
    shown, model, _, sketch = oracle(api, name, query)
    e, a, epsilon = shown["confidence"]["projection_error"], model.ridge, shown["parameters"]["representation"]["epsilon"]
    assert np.linalg.eigvalsh(sketch.rest).max() * (1 - 1e-9) <= e <= np.trace(sketch.rest) * (1 + 1e-9) + 1e-12
    lower, upper, radius = sketch.closed(kind, a, e, epsilon)
    assert close([r["upper"] for r in rows], upper, 1e-7) and close([r["lower"] for r in rows], lower, 1e-7)
    if missed is not None:
        assert (e / a > missed) == (missed > 1)
    if kind == "bkb":  # what any dictionary asks for: the bias by what it misses, the noise by its share of K
        assert radius >= (math.sqrt(a) + math.sqrt(e)) * B + SIGMA * math.sqrt(2 * math.log(1 / DELTA) + sketch.gain(a))


def test_cmm_over_a_dictionary_is_no_wider_than_dmm_and_no_narrower_than_on_all_points(api, name):
    rng = np.random.default_rng(41)
    for tenant, representation, kind in (("d", "kors", "dmm"), ("c", "kors", "cmm"), ("x", None, "cmm")):
        api.put_tenant(f"{name}.{tenant}", **SETTINGS, representation=DICTIONARIES.get(representation, {"type": "exact", "lambda": 0.09}), confidence=conf(kind))
        teach(api, f"{name}.{tenant}", np.random.default_rng(42), 60)
    query = candidates(rng)
    dmm, cmm, exact = (served(api, f"{name}.{t}", query) for t in "dcx")
    for d, c, x in zip(dmm, cmm, exact):
        assert c["upper"] <= d["upper"] + 1e-9 and c["lower"] >= d["lower"] - 1e-9
        assert c["upper"] - c["lower"] > x["upper"] - x["lower"]


def test_score_fixed_ranks_by_mean_and_sd_and_shows_the_bounds_of_the_rule(api, name):
    rng = np.random.default_rng(43)
    api.put_tenant(name, **SETTINGS, representation=DICTIONARIES["kors"], confidence=conf("cmm", score="fixed"))
    teach(api, name, rng, 40)
    query = candidates(rng)
    ranking = api.select("u", candidates=query, explain=True, dry_run=True, tenant=name)["ranking"]
    for row in ranking:
        assert row["score"] == pytest.approx(row["mean"] + 1.5 * row["sd"], rel=1e-12) and row["lower"] < row["mean"] < row["upper"]
    assert [r["score"] for r in ranking] == sorted((r["score"] for r in ranking), reverse=True)
    best = api.select("u", candidates=query, dry_run=True, tenant=name)["ranking"]
    assert [best[0][k] for k in ("arm", "mean", "sd", "score")] == [ranking[0][k] for k in ("arm", "mean", "sd", "score")]
    assert len(best) == 1 and close([best[0]["lower"], best[0]["upper"]], [ranking[0]["lower"], ranking[0]["upper"]], 1e-9)


@pytest.mark.parametrize("score", ["upper", "fixed"])
def test_sketched_bounds_survive_a_kill(boot, score):
    rng = np.random.default_rng(44)
    server = boot()
    client = Client(server)
    client.put_tenant("t", **SETTINGS, representation=DICTIONARIES["threshold"], confidence=conf("cmm", score=score, mixture=True))
    teach(client, "t", rng, 100)
    query = candidates(rng)
    before, shown = served(client, "t", query), client.model("t")
    server.restart()
    after = served(Client(server), "t", query)
    if score == "upper":
        assert after == before and Client(server).model("t") == shown
    for a, b in zip(after, before):  # bounds that are only read may lag behind before, never after
        assert (a["mean"], a["sd"], a["score"]) == (b["mean"], b["sd"], b["score"])
        assert a["upper"] - a["lower"] <= (b["upper"] - b["lower"]) * (1 + 1e-9)


def test_an_exact_model_that_outgrows_its_limit_takes_its_ball_along(api, name):
    rng = np.random.default_rng(45)
    api.put_tenant(name, algorithm="cmm-ucb", arm_dim=2, arm_kernel=SETTINGS["arm_kernel"], representation={"exact_limit": 20, "lambda": 0.09}, confidence=conf("cmm"))
    teach(api, name, rng, 60)
    model, events = api.model(name), api.events(name)
    assert model["parameters"]["representation"]["type"] == "kors" and model["parameters"]["confidence"]["type"] == "cmm"
    reset = next(e for e in events if e["type"] == "dictionary" and e["reset"])
    past = history([e for e in events if e["seq"] < reset["seq"]])
    kernel, y = Model(model["parameters"]), np.array([h[1] for h in past])
    k = kernel.gram([h[0] for h in past], [h[0] for h in past])
    want = {"square": float(y @ y), "energy": 0.09 * float(y @ np.linalg.solve(k + 0.09 * np.eye(len(y)), y)),
            "log_det": float(np.linalg.slogdet(np.eye(len(y)) + k / 0.09)[1])}
    assert reset["evidence"] == pytest.approx(want, rel=1e-8)
    assert model["confidence"]["radius"] > 0 and served(api, name, candidates(rng))[0]["upper"] < 40
