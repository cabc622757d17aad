"""Bounds over HTTP in runs that they steer themselves, in settings that are drawn from a seed and stand in no table: a rule of level
1 - delta may be wrong in a share delta of the runs, plus the binomial margin. Controls, told a norm or a noise that is too small, are found out.
COVERAGE_SEEDS="7 8 9" takes other settings."""
import math
import os

import numpy as np
import pytest

from oracle import Model

DELTA, RUNS, ROUNDS, ARMS = 0.1, 6, 14, 12
RULES = ("lk", "ay", "igp", "ek", "ek_plus", "bkb", "amm", "dmm", "cmm")
ON_A_DICTIONARY = ("ek", "ek_plus", "bkb", "amm", "dmm", "cmm")
COUNTS = []  # of the runs of a cell, how many were wrong
SEEDS = [int(s) for s in os.environ.get("COVERAGE_SEEDS", "170").split()]


def allowed(n, chance=1e-6):
    """The least k that n runs of level DELTA exceed with at most this chance."""
    tail = 1.0
    for k in range(n + 1):
        tail -= math.comb(n, k) * DELTA**k * (1 - DELTA) ** (n - k)
        if tail <= chance:
            return k
    return n


def setting(rng, on_a_dictionary):
    """A tenant's configuration, with kernel, ridge, norm, noise and representation by chance."""
    kernels = ({"type": "rbf", "lengthscale": float(rng.uniform(0.2, 1.5))}, {"type": "matern52", "lengthscale": float(rng.uniform(0.2, 1.5))},
               {"type": "matern12", "lengthscale": float(rng.uniform(0.3, 2))}, {"type": "polynomial", "degree": 2, "offset": float(rng.uniform(0.1, 1))})
    ridge = float(10 ** rng.uniform(-3.5, 0.3))
    sketches = ({"type": "kors", "mu": ridge * float(rng.uniform(1, 20)), "gamma": ridge * float(rng.uniform(0.3, 1)), "epsilon": 0.5},
                {"type": "threshold", "threshold": float(rng.uniform(0.02, 0.4))})
    return {"algorithm": "gp-ucb", "arm_dim": 2, "arm_kernel": kernels[rng.integers(len(kernels))],
            "representation": {"lambda": ridge, **(sketches[rng.integers(len(sketches))] if on_a_dictionary else {"type": "exact"})},
            "confidence": {"norm_bound": float(10 ** rng.uniform(-2, 1)), "noise": float(10 ** rng.uniform(-1.5, 0)), "delta": DELTA}}


def a_function(model, rng, x, norm):
    """Values at the arms of a function of this norm: bumps at some of them, one of which may be nearly all of it."""
    k = model.gram([("u", [], str(i), list(v)) for i, v in enumerate(x)], [("u", [], str(i), list(v)) for i, v in enumerate(x)])
    weight = rng.normal(size=len(x)) * (rng.uniform(size=len(x)) < rng.choice([0.15, 1.0]))
    weight[rng.integers(len(x))] += 1
    return norm * k @ weight / math.sqrt(weight @ k @ weight)


def noise_of(rng, kind, sigma):
    return sigma * (rng.normal() if kind == "gaussian" else rng.choice([-1.0, 1.0]))


def run(api, tenant, told, norm, sigma, rng):
    """One run: whether the function left the bounds of an arm, in any round. The rule under test chooses."""
    view = api.put_tenant(tenant, **told)
    x = rng.uniform(size=(ARMS, 2))
    api.put_arms(tenant, [{"id": f"a{i}", "features": [float(v) for v in row]} for i, row in enumerate(x)])
    f = a_function(Model(view["parameters"]), rng, x, norm)
    kind, slack = rng.choice(["gaussian", "rademacher"]), 1e-9 * max(1.0, norm)
    for _ in range(ROUNDS):
        answer = api.select("u", explain=True, tenant=tenant)
        for row in answer["ranking"]:
            value = f[int(row["arm"][1:])]
            if not row["lower"] - slack <= value <= row["upper"] + slack:
                return True
        api.reward(answer["decision"], float(f[int(answer["arm"][1:])] + noise_of(rng, kind, sigma)), tenant=tenant)
    return False


def violated(api, name, rule, on_a_dictionary, seed):
    rng = np.random.default_rng(seed)
    told = setting(rng, on_a_dictionary)
    told["confidence"]["type"] = rule
    norm, sigma = told["confidence"]["norm_bound"], told["confidence"]["noise"]
    COUNTS.append(sum(run(api, f"{name}.{i}", told, norm, sigma, rng) for i in range(RUNS)))
    return COUNTS[-1]


@pytest.mark.parametrize("rule", RULES)
def test_a_bound_over_all_points_is_wrong_no_more_often_than_it_says(api, name, rule):
    wrong = [violated(api, f"{name}.{s}", rule, False, s) for s in SEEDS]
    assert max(wrong) <= allowed(RUNS) and sum(wrong) <= allowed(RUNS * len(SEEDS)), wrong


@pytest.mark.parametrize("rule", ON_A_DICTIONARY)
def test_a_bound_over_a_dictionary_is_wrong_no_more_often_than_it_says(api, name, rule):
    wrong = [violated(api, f"{name}.{s}", rule, True, s) for s in SEEDS]
    assert max(wrong) <= allowed(RUNS) and sum(wrong) <= allowed(RUNS * len(SEEDS)), wrong


def test_all_runs_together_are_wrong_no_more_often_than_they_say():
    assert sum(COUNTS) <= allowed(RUNS * len(COUNTS)), COUNTS


@pytest.mark.parametrize("member, told", [("norm_bound", 0.05), ("noise", 0.005)])
def test_a_bound_that_is_told_too_little_is_found_out(api, name, member, told):
    """If these passed, the runs above could not see a bound that is too narrow."""
    sigma = 0.01 if member == "norm_bound" else 0.5
    confidence = {"type": "amm", "norm_bound": 1.0, "noise": sigma, "delta": DELTA, member: told}
    settings = {"algorithm": "gp-ucb", "arm_dim": 2, "arm_kernel": {"type": "rbf", "lengthscale": 0.5},
                "representation": {"lambda": 0.05, "type": "exact"}, "confidence": confidence}
    rng = np.random.default_rng(172)
    wrong = sum(run(api, f"{name}.{i}", settings, 1.0, sigma, rng) for i in range(RUNS))
    assert wrong > allowed(RUNS), wrong
