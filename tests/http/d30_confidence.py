"""Confidence rules over HTTP against dense algebra on all observations: lower, upper, score, the norm, empty sets."""
import json
import pathlib

import numpy as np
import pytest

from harness import Client
from oracle import Bounds, Model, close, history

RULES = ("fixed", "lk", "ek", "ay", "igp", "amm", "dmm", "cmm", "bkb", "ek_plus")
GRID_ERROR = {"cmm": 3e-6}  # the oracle's grid of ridges is coarser than the server's search
CONES = json.loads((pathlib.Path(__file__).resolve().parents[1] / "golden" / "cmm_cone.json").read_text())


def arms_of(rng, n, dim=2):
    return [{"id": f"a{i}", "features": [float(x) for x in rng.uniform(size=dim)]} for i in range(n)]


def teach(api, name, rng, arms, n, noise=0.3):
    for _ in range(n):
        arm = arms[rng.integers(len(arms))]
        x = np.array(arm["features"])
        api.observe("u", arm["id"], float(np.sin(4 * x[0]) + x[1] + noise * rng.normal()), tenant=name)


def served(api, name):
    """(lower, upper), and the arms in the order of the ranking; score and winner are held to `upper` on the way."""
    answer = api.select("u", explain=True, dry_run=True, tenant=name)
    rows = answer["ranking"]
    assert all(r["score"] == r["upper"] for r in rows) and answer["arm"] == max(rows, key=lambda r: r["upper"])["arm"]
    return ([r["lower"] for r in rows], [r["upper"] for r in rows]), [r["arm"] for r in rows]


def oracle_of(api, name, arms, order):
    model = api.model(name)
    features = {a["id"]: a["features"] for a in arms}
    query = [("u", [], a, features[a]) for a in order]
    return Bounds(Model(model["parameters"]), history(api.events(name)), query, model["confidence"]["norm_bound"]), model


def expect_agreement(api, name, arms, kind):
    (lower, upper), order = served(api, name)
    oracle, model = oracle_of(api, name, arms, order)
    want = oracle.of(kind)
    tolerance = GRID_ERROR.get(kind, 1e-8)
    size = np.abs(want).max()  # bounds that pass through zero are compared on the scale of the others
    assert np.abs(np.subtract((lower, upper), want)).max() <= tolerance * size, (kind, lower, want[0], upper, want[1])
    return oracle, model


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("n_arms", [7, 60], ids=["repeated", "distinct"])
def test_every_rule_agrees_on_repeated_and_on_distinct_points(api, name, kind, n_arms):
    rng = np.random.default_rng(30)
    arms = arms_of(rng, n_arms)
    api.put_tenant(name, algorithm="gp-ucb", arm_dim=2, representation={"lambda": 0.09}, arm_kernel={"type": "rbf", "lengthscale": 0.4},
                   confidence={"type": kind, "norm_bound": 4.0, "noise": 0.3, "delta": 0.05, "beta": 1.5})
    api.put_arms(name, arms)
    expect_agreement(api, name, arms, kind)  # of nothing
    for _ in range(3):
        teach(api, name, rng, arms, 20)
        _, model = expect_agreement(api, name, arms, kind)
    assert model["confidence"]["empty_sets"] == 0 and model["confidence"]["norm_bound"] == 4.0


@pytest.mark.parametrize("ridge", [1e-4, 0.01, 1, 1.002, 4])
def test_igp_is_a_bound_at_every_ridge(api, name, ridge):
    """Below 1 the printed radius is none: at 0.01 one reward of 1 under noise 1 would prove, at 99 %, that f is not 0."""
    rng = np.random.default_rng(37)
    arms = arms_of(rng, 12)
    settings = dict(arm_dim=2, representation={"lambda": ridge}, arm_kernel={"type": "rbf", "lengthscale": 0.4})
    for tenant, kind in ((name, "igp"), (name + ".lk", "lk")):
        api.put_tenant(tenant, algorithm="gp-ucb", **settings, confidence={"type": kind, "norm_bound": 0.01, "noise": 1, "delta": 0.01})
        api.put_arms(tenant, arms)
        api.observe("u", "a0", 1.0, tenant=tenant)
    row = {r["arm"]: r for r in api.select("u", explain=True, dry_run=True, tenant=name)["ranking"]}["a0"]
    assert row["lower"] < 0 < row["upper"]
    for tenant in (name, name + ".lk"):
        teach(api, tenant, np.random.default_rng(38), arms, 40, noise=1)
    expect_agreement(api, name, arms, "igp")
    (lower, upper), order = served(api, name)
    (least, most), of_lk = served(api, name + ".lk")
    at = {a: i for i, a in enumerate(of_lk)}
    assert all(u >= most[at[a]] and low <= least[at[a]] for low, u, a in zip(lower, upper, order))


def test_corrected_rewards_leave_the_bounds_of_the_last_values(api, name):
    rng = np.random.default_rng(31)
    arms = arms_of(rng, 5)
    settings = dict(algorithm="dmm-ucb", arm_dim=2, confidence={"norm_bound": 3, "noise": 0.3}, representation={"lambda": 0.09})
    for tenant, aggregation in ((name, "last"), (name + ".ref", "first")):
        api.put_tenant(tenant, aggregation=aggregation, **settings)
        api.put_arms(tenant, arms)
    for t in range(30):
        arm, values = f"a{t % 5}", [float(v) for v in rng.normal(size=3)]
        for tenant, kept in ((name, values), (name + ".ref", values[-1:])):
            decision = api.select("u", candidates=[arm, f"a{(t + 1) % 5}"], exclude=[f"a{(t + 1) % 5}"], tenant=tenant)["decision"]
            for value in kept:
                api.reward(decision, value, tenant=tenant)
    got, want = served(api, name), served(api, name + ".ref")
    assert got[1] == want[1] and close(got[0], want[0], 1e-9)


@pytest.mark.parametrize("preset, kind", [("cmm-ucb", "cmm"), ("dmm-ucb", "dmm"), ("amm-ucb", "amm"), ("ay-gp-ucb", "ay"), ("igp-ucb", "igp")])
def test_the_presets_of_tc_are_their_rules(api, name, preset, kind):
    rng = np.random.default_rng(32)
    arms = arms_of(rng, 20)
    view = api.put_tenant(name, algorithm=preset, arm_dim=2)
    assert (view["parameters"]["confidence"]["type"], view["parameters"]["representation"]["type"]) == (kind, "exact")
    api.put_arms(name, arms)
    teach(api, name, rng, arms, 30, noise=0.1)
    expect_agreement(api, name, arms, kind)


def test_bounds_survive_a_kill(boot):
    rng = np.random.default_rng(33)
    server = boot()
    client, arms = Client(server), arms_of(rng, 20)
    client.put_tenant("t", algorithm="cmm-ucb", arm_dim=2)
    client.put_arms("t", arms)
    teach(client, "t", rng, arms, 30)
    before = served(client, "t")
    server.restart()
    assert served(Client(server), "t") == before


def test_auto_norm_is_the_margin_above_what_the_data_prove_and_a_smaller_one_empties_the_set(api, name):
    rng = np.random.default_rng(34)
    arms = arms_of(rng, 40)
    settings = dict(algorithm="cmm-ucb", arm_dim=2, arm_kernel={"type": "rbf", "lengthscale": 0.3})
    api.put_tenant(name, **settings, confidence={"noise": 0.1})
    api.put_arms(name, arms)
    for arm in arms:
        api.observe("u", arm["id"], float(10 * np.sin(9 * arm["features"][0])), tenant=name)
    oracle, model = expect_agreement(api, name, arms, "cmm")
    least = oracle.norm_least()
    assert least > 5 and model["confidence"]["norm_least"] == pytest.approx(least, rel=1e-3)
    assert model["confidence"]["norm_bound"] == pytest.approx(1.2 * model["confidence"]["norm_least"], rel=1e-12)
    api.put_tenant(name, expect=200, **settings, confidence={"noise": 0.1, "norm_bound": 0.9 * least, "beta": 1.5})
    (lower, upper), order = served(api, name)
    want = oracle_of(api, name, arms, order)[0].of("fixed")
    assert close(lower, want[0], 1e-7) and close(upper, want[1], 1e-7)
    assert api.model(name)["confidence"]["empty_sets"] >= 1


def test_a_change_of_the_rule_alone_is_answered_with_the_new_bounds(api, name):
    rng = np.random.default_rng(35)
    arms = arms_of(rng, 15)
    settings = dict(algorithm="gp-ucb", arm_dim=2, representation={"lambda": 0.09})
    api.put_tenant(name, **settings)
    api.put_arms(name, arms)
    teach(api, name, rng, arms, 25)
    for kind in ("cmm", "lk", "dmm", "fixed", "ek"):
        api.put_tenant(name, expect=200, **settings, confidence={"type": kind, "norm_bound": 5, "noise": 0.3})
        expect_agreement(api, name, arms, kind)


def test_beyond_the_exact_limit_the_bounds_are_fixed_and_say_so(api, name):
    rng = np.random.default_rng(36)
    api.put_tenant(name, algorithm="ay-gp-ucb", arm_dim=1, representation={"exact_limit": 20}, arm_kernel={"type": "rbf", "lengthscale": 0.3})
    for t in range(40):
        x = float(rng.uniform())
        api.observe("u", {"id": f"x{t}", "features": [x]}, float(np.sin(6 * x)), tenant=name)
    model = api.model(name)
    assert model["configuration"]["confidence"]["type"] == "ay" and model["parameters"]["confidence"]["type"] == "fixed"
    assert model["parameters"]["representation"]["type"] == "kors"
    row = api.select("u", candidates=[{"id": "n", "features": [0.5]}], explain=True, dry_run=True, tenant=name)["ranking"][0]
    assert row["upper"] == pytest.approx(row["mean"] + 2 * row["sd"], rel=1e-12)
    assert api.put_tenant(name, expect=200, **{k: model["configuration"][k] for k in model["configuration"] if k != "seed"}, seed=2)


@pytest.mark.parametrize("case", CONES, ids=lambda c: f"t{len(c['y'])}")
def test_cmm_equals_the_recorded_optimum_of_the_cone_program(api, name, case):
    """tests/golden/cmm_cone.py solved TC eq. 10 itself, without its dual."""
    api.put_tenant(name, algorithm="cmm-ucb", arm_dim=2, arm_kernel={"type": "rbf", "lengthscale": case["lengthscale"]},
                   representation={"lambda": case["noise"] ** 2}, confidence={k: case[k] for k in ("norm_bound", "noise", "delta")})
    for x, y in zip(case["x"], case["y"]):
        api.observe("u", {"id": str(x), "features": x}, y, tenant=name)
    candidates = [{"id": str(x), "features": x} for x in case["query"]]
    rows = {r["arm"]: r for r in api.select("u", candidates=candidates, explain=True, dry_run=True, tenant=name)["ranking"]}
    for x, lower, upper in zip(case["query"], case["lower"], case["upper"]):
        row = rows[str(x)]
        assert (row["lower"], row["upper"]) == (pytest.approx(lower, abs=1e-6), pytest.approx(upper, abs=1e-6))
