"""Propensities of `rand_ucb` and `igw`: against an integral of their own in numpy, simulation, and how often arms are drawn."""
import numpy as np
import pytest

from explained import of, ranking, teach
from oracle import shared_argmax_probabilities


@pytest.mark.parametrize("n, rounds, beta, epsilon", [(1, 2, 1.0, 0.1), (2, 3, 1.0, 0), (3, 10, 1.0, 0.02), (5, 0, 1.0, 0), (8, 40, 0.5, 0), (12, 200, 2.0, 0.3), (12, 30, 0, 0)])
def test_propensities_equal_the_integral(api, name, n, rounds, beta, epsilon):
    rng = np.random.default_rng(n)
    candidates = [f"a{i}" for i in range(n)]
    api.put_tenant(name, algorithm="ucb", tune=False, rule={"type": "rand_ucb", "epsilon": epsilon}, confidence={"beta": beta}, representation={"lambda": 0.3})
    teach(api, name, rng, candidates[:-1] or candidates, rounds)
    rows = ranking(api, name, candidates)
    want = (1 - epsilon) * shared_argmax_probabilities(of(rows, "mean"), beta * of(rows, "sd")) + epsilon / n
    assert np.abs(of(rows, "propensity") - want).max() < 1e-10
    assert abs(of(rows, "propensity").sum() - 1) < 1e-9
    assert of(rows, "score") == pytest.approx(of(rows, "mean") + beta * of(rows, "sd"), rel=1e-12)


@pytest.mark.parametrize("rule", ["rand_ucb", "igw"])
def test_equal_arms_are_shown_alike(api, name, rule):
    """Unseen arms, and arms of equal features that have been seen."""
    api.put_tenant(name, algorithm="gp-ucb", arm_dim=2, rule={"type": rule})
    twins = [{"id": f"{x}{k}", "features": [x / 3, 1 - x / 7]} for k in range(3) for x in range(4)]
    for t in range(8):
        api.observe("u", twins[t], float(t % 3), tenant=name)
    answer = api.select("u", candidates=twins, explain=True, dry_run=True, tenant=name)
    p = {r["arm"]: r["propensity"] for r in answer["ranking"]}
    for x in range(4):
        assert p[f"{x}0"] == pytest.approx(p[f"{x}1"], abs=1e-9) and p[f"{x}0"] == pytest.approx(p[f"{x}2"], abs=1e-9)
    assert len({round(v, 9) for v in p.values()}) > 1
    api.put_tenant(name + ".new", algorithm="ucb", tune=False, rule={"type": rule})
    rows = ranking(api, name + ".new", list("abcde"))
    assert of(rows, "propensity") == pytest.approx([0.2] * 5, abs=1e-12)


def test_propensities_equal_a_million_draws(api, name):
    rng = np.random.default_rng(3)
    candidates = [{"id": a, "features": [0.4 * i]} for i, a in enumerate("abcdef")]
    api.put_tenant(name, algorithm="lk-gp-ucb", arm_dim=1, rule={"type": "rand_ucb"})
    for t in range(25):
        api.observe("u", candidates[rng.integers(5)], float(rng.normal()), tenant=name)
    rows = api.select("u", candidates=candidates, explain=True, dry_run=True, tenant=name)["ranking"]
    beta = api.model(name)["parameters"]["confidence"]["beta"]
    value = of(rows, "mean") + np.abs(rng.normal(size=(1_000_000, 1))) * beta * of(rows, "sd")
    share = np.bincount(value.argmax(axis=1), minlength=6) / 1e6
    p = of(rows, "propensity")
    assert np.abs(p - share).max() < 5 * np.sqrt((p * (1 - p)).max() / 1e6) and (p > 0.01).sum() >= 2


@pytest.mark.parametrize("gamma_scale, gamma_exponent, scale, epsilon", [(10, 0.5, 1, 0), (3, 0.25, 2, 0.1), (0, 0.5, 1, 0), (50, 0, 0.5, 0)])
def test_igw_is_what_squarecb_prints(api, name, gamma_scale, gamma_exponent, scale, epsilon):
    rng = np.random.default_rng(7)
    candidates = list("abcdefg")
    api.put_tenant(name, algorithm="ucb", tune=False, rule={"type": "igw", "gamma_scale": gamma_scale, "gamma_exponent": gamma_exponent, "scale": scale, "epsilon": epsilon})
    teach(api, name, rng, candidates, 40)
    rows = ranking(api, name, candidates)
    mean = of(rows, "mean")
    gamma = gamma_scale * 40 ** gamma_exponent / scale
    want = 1 / (7 + gamma * (mean.max() - mean))
    want[mean.argmax()] += 1 - want.sum()
    assert of(rows, "propensity") == pytest.approx((1 - epsilon) * want + epsilon / 7, abs=1e-12)


@pytest.mark.parametrize("rule", [{"type": "rand_ucb"}, {"type": "igw", "gamma_scale": 1}])
def test_arms_are_drawn_as_often_as_their_propensities_say(api, name, rule):
    rng = np.random.default_rng(5)
    candidates = list("abcd")
    api.put_tenant(name, algorithm="ucb", tune=False, rule=rule, representation={"lambda": 1.0})
    teach(api, name, rng, candidates[:3], 12)
    p = of(ranking(api, name, candidates), "propensity")
    n = 1500
    drawn = [api.select("u", candidates=candidates, dry_run=True, decision=f"k{i}", tenant=name)["arm"] for i in range(n)]
    count, seen = np.array([drawn.count(a) for a in candidates]), p > 0
    assert count[~seen].sum() == 0 and seen.sum() >= 2
    chi2 = ((count - n * p)[seen] ** 2 / (n * p[seen])).sum()
    assert chi2 < 21.1, (count / n, p)  # at most 3 degrees of freedom: 1 in 10,000


@pytest.mark.parametrize("rule", ["rand_ucb", "igw"])
def test_slates_and_logs_have_what_the_rule_drew(api, name, rule):
    """The first place is drawn, the others stand by score; the log has the propensity and the parameters."""
    api.put_tenant(name, algorithm="ucb", tune=False, rule={"type": rule, "gamma_scale": 2, "gamma_exponent": 0.75, "scale": 3})
    for t in range(30):
        rows = {r["arm"]: r for r in ranking(api, name, list("abcdef"))}
        answer = api.select("u", candidates=list("abcdef"), top=3, tenant=name)
        arms = [r["arm"] for r in answer["ranking"]]
        assert arms[0] == answer["arm"] and answer["propensity"] == rows[arms[0]]["propensity"] > 0
        others = sorted((r["score"] for a, r in rows.items() if a != arms[0]), reverse=True)
        assert [rows[a]["score"] for a in arms[1:]] == others[:2]
        api.reward(answer["decision"], 0.1 * t, tenant=name)
    logged = [e for e in api.events(name) if e["type"] == "decided"][-1]
    assert (logged["arm"], logged["propensity"]) == (answer["arm"], answer["propensity"])
    configuration = [e for e in api.events(name) if e["type"] == "configured"][-1]["configuration"]
    assert configuration["rule"] == {"type": rule, "epsilon": 0, "scale": 3, "gamma_scale": 2, "gamma_exponent": 0.75}
