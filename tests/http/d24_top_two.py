"""Propensities of `top_two`: against the formula over an integral of their own in numpy, and against draws and further draws."""
import numpy as np
import pytest

from explained import of, ranking, teach
from oracle import argmax_probabilities


def top_two(best):
    """Who leads and who challenges: the matrix of P(j leads) P(i is the best when j is not)."""
    n = len(best)
    if n == 1:
        return np.ones(1)
    second = np.array([[0 if i == j else best[j] * best[i] / np.delete(best, j).sum() for i in range(n)] for j in range(n)])
    return best / 2 + second.sum(axis=0) / 2


@pytest.mark.parametrize("n, rounds, beta, epsilon", [(1, 2, 1.0, 0.1), (2, 9, 1.0, 0), (3, 10, 1.0, 0.02), (5, 0, 1.0, 0), (8, 40, 0.5, 0), (12, 200, 2.0, 0.3)])
def test_propensities_equal_the_formula_over_the_integral(api, name, n, rounds, beta, epsilon):
    rng = np.random.default_rng(n)
    candidates = [f"a{i}" for i in range(n)]
    api.put_tenant(name, algorithm="ts", tune=False, rule={"type": "top_two", "epsilon": epsilon}, confidence={"beta": beta}, representation={"lambda": 0.3})
    teach(api, name, rng, candidates[:-1] or candidates, rounds)
    rows = ranking(api, name, candidates)
    want = (1 - epsilon) * top_two(argmax_probabilities(list(of(rows, "mean")), list(beta * of(rows, "sd")))) + epsilon / n
    assert np.abs(of(rows, "propensity") - want).max() < 1e-8
    assert abs(of(rows, "propensity").sum() - 1) < 1e-9


def test_propensities_equal_a_million_draws(api, name):
    rng = np.random.default_rng(3)
    candidates = [{"id": a, "features": [0.4 * i]} for i, a in enumerate("abcdef")]
    api.put_tenant(name, algorithm="lk-gp-ts", arm_dim=1, rule={"type": "top_two"})
    for t in range(25):
        api.observe("u", candidates[rng.integers(5)], float(rng.normal()), tenant=name)
    rows = api.select("u", candidates=candidates, explain=True, dry_run=True, tenant=name)["ranking"]
    n = 1_000_000
    draw = lambda k: (rng.normal(size=(k, 6)) * of(rows, "sd") + of(rows, "mean")).argmax(axis=1)
    leader = draw(n)
    arm, open_ = leader.copy(), np.flatnonzero(rng.random(n) < 0.5)
    while len(open_):
        arm[open_] = draw(len(open_))
        open_ = open_[arm[open_] == leader[open_]]
    share, p = np.bincount(arm, minlength=6) / n, of(rows, "propensity")
    assert np.abs(p - share).max() < 5 * np.sqrt((p * (1 - p)).max() / n)


def test_arms_are_drawn_as_often_as_their_propensities_say_and_logged_so(api, name):
    candidates = list("abcd")
    api.put_tenant(name, algorithm="ts", tune=False, rule={"type": "top_two"}, representation={"lambda": 1.0})
    teach(api, name, np.random.default_rng(5), candidates[:3], 12)
    p = of(ranking(api, name, candidates), "propensity")
    n = 1500
    drawn = [api.select("u", candidates=candidates, dry_run=True, decision=f"k{i}", tenant=name)["arm"] for i in range(n)]
    count = np.array([drawn.count(a) for a in candidates])
    assert ((count - n * p) ** 2 / (n * p)).sum() < 21.1, (count / n, p)  # 3 degrees of freedom: 1 in 10,000
    answer = api.select("u", candidates=candidates, tenant=name)
    logged = [e for e in api.events(name) if e["type"] == "decided"][-1]
    assert (logged["arm"], logged["propensity"]) == (answer["arm"], answer["propensity"])
    assert answer["propensity"] == pytest.approx(p[candidates.index(answer["arm"])], abs=1e-12)
    configuration = [e for e in api.events(name) if e["type"] == "configured"][-1]["configuration"]
    assert configuration["rule"]["type"] == "top_two"
