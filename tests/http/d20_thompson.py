"""Thompson's propensities against quadrature and simulation in numpy."""
import numpy as np
import pytest

from explained import ranking, teach
from oracle import argmax_probabilities


@pytest.mark.parametrize("n, rounds, beta", [(2, 3, 1.0), (3, 10, 1.0), (5, 0, 1.0), (8, 40, 0.5), (12, 200, 2.0)])
def test_propensities_equal_the_integral(api, name, n, rounds, beta):
    rng = np.random.default_rng(n)
    candidates = [f"a{i}" for i in range(n)]
    api.put_tenant(name, algorithm="ts", tune=False, confidence={"beta": beta}, representation={"lambda": 0.3})
    teach(api, name, rng, candidates, rounds)
    rows = ranking(api, name, candidates)
    mean, sd = [r["mean"] for r in rows], [beta * r["sd"] for r in rows]
    want = argmax_probabilities(mean, sd)
    assert np.abs(np.array([r["propensity"] for r in rows]) - want).max() < 1e-8
    assert abs(sum(r["propensity"] for r in rows) - 1) < 1e-9


def test_propensities_equal_a_million_draws(api, name):
    rng = np.random.default_rng(3)
    candidates = list("abcdef")
    api.put_tenant(name, algorithm="lk-gp-ts", arm_dim=1)
    candidates_with = [{"id": a, "features": [0.4 * i]} for i, a in enumerate(candidates)]
    for t in range(25):
        api.observe("u", candidates_with[rng.integers(6)], float(rng.normal()), tenant=name)
    answer = api.select("u", candidates=candidates_with, explain=True, dry_run=True, tenant=name)
    rows = answer["ranking"]
    draws = rng.normal(size=(1_000_000, 6)) * [r["sd"] for r in rows] + [r["mean"] for r in rows]
    share = np.bincount(draws.argmax(axis=1), minlength=6) / 1e6
    p = np.array([r["propensity"] for r in rows])
    assert np.abs(p - share).max() < 5 * np.sqrt((p * (1 - p)).max() / 1e6)


def test_arms_are_drawn_as_often_as_their_propensities_say(api, name):
    rng = np.random.default_rng(4)
    candidates = list("abcd")
    api.put_tenant(name, algorithm="ts", representation={"lambda": 1.0})
    teach(api, name, rng, candidates, 12)
    p = np.array([r["propensity"] for r in ranking(api, name, candidates)])
    n = 1500
    drawn = [api.select("u", candidates=candidates, dry_run=True, decision=f"k{i}", tenant=name)["arm"] for i in range(n)]
    count = np.array([drawn.count(a) for a in candidates])
    chi2 = ((count - n * p) ** 2 / (n * p)).sum()
    assert chi2 < 21.1, (count / n, p)  # 3 degrees of freedom: 1 in 10,000


def test_epsilon_mixes_into_thompson_too(api, name):
    rng = np.random.default_rng(5)
    candidates = list("abc")
    for suffix, epsilon in ((".0", 0.0), (".3", 0.3)):
        api.put_tenant(name + suffix, algorithm="ts", rule={"epsilon": epsilon})
        teach(api, name + suffix, np.random.default_rng(5), candidates, 9)
    pure, mixed = ([r["propensity"] for r in ranking(api, name + s, candidates)] for s in (".0", ".3"))
    assert mixed == pytest.approx([0.7 * p + 0.1 for p in pure], rel=1e-9)


def test_the_logged_propensity_is_that_of_the_arm_drawn(api, name):
    api.put_tenant(name, algorithm="ts")
    for t in range(30):
        answer = api.select("u", candidates=list("abc"), explain=True, tenant=name)
        assert answer["propensity"] == {r["arm"]: r["propensity"] for r in answer["ranking"]}[answer["arm"]] > 0
        api.reward(answer["decision"], 0.1 * t, tenant=name)
        logged = [e for e in api.events(name) if e["type"] == "decided"][-1]
        assert (logged["arm"], logged["propensity"]) == (answer["arm"], answer["propensity"])
