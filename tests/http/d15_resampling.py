"""bkb and bbkb: dictionaries drawn anew from posterior variances stand in the log, and the answers are those over them."""
import numpy as np
import pytest

ARMS = [{"id": f"a{i}", "features": [0.31 * i]} for i in range(12)]
SETTINGS = dict(arm_dim=1, arm_kernel={"lengthscale": 0.4})


def learn(api, name, rng, n):
    """Rewards of known features, one at a time; (arm, reward) of each."""
    seen = []
    for _ in range(n):
        seen.append((int(rng.integers(len(ARMS))), float(rng.normal())))
        api.observe("u", ARMS[seen[-1][0]]["id"], seen[-1][1], tenant=name)
    return seen


def resets(api, name):
    return [e for e in api.events(name) if e["type"] == "dictionary" and e["reset"]]


def dense(seen, points, ridge):
    """Mean and variance of every arm over a dictionary of arms (DTC), from definitions."""
    x = np.array([a["features"][0] for a in ARMS])
    k = np.exp(-((x[:, None] - x[None, :]) ** 2) / (2 * 0.4**2))
    rows, y = [a for a, _ in seen], np.array([r for _, r in seen])
    k_z, k_zt, k_zz = k[points], k[np.ix_(points, rows)], k[np.ix_(points, points)]
    phi = k_zt @ k_zt.T + ridge * k_zz
    solved = np.linalg.solve(phi, k_z)
    return (k_zt @ y) @ solved, 1 - np.sum(k_z * np.linalg.solve(k_zz, k_z), 0) + ridge * np.sum(k_z * solved, 0)


@pytest.mark.parametrize("preset", ["bkb", "bbkb"])
def test_answers_are_those_over_the_dictionary_of_the_last_reset(api, name, preset):
    rng = np.random.default_rng(5)
    api.put_tenant(name, algorithm=preset, representation={"lambda": 0.2, "q": 0.6, "batch_ratio": 2}, **SETTINGS)
    api.put_arms(name, ARMS)
    seen = learn(api, name, rng, 60)
    taught = {e["seq"]: e["arm"] for e in api.events(name) if e["type"] == "observed"}
    last = resets(api, name)[-1]
    assert last["representation"] == preset and all(0 < p["probability"] <= 1 for p in last["points"])
    points = [int((arm["id"] if isinstance(arm, dict) else arm)[1:]) for arm in (taught[p["event"]] for p in last["points"])]
    assert 1 <= len(points) < len(ARMS) and len(set(points)) == len(points)
    mean, variance = dense(seen, points, 0.2)
    for row in api.select("u", explain=True, dry_run=True, tenant=name)["ranking"]:
        i = int(row["arm"][1:])
        assert row["mean"] == pytest.approx(mean[i], abs=1e-9) and row["sd"] ** 2 == pytest.approx(variance[i], abs=1e-9)
    assert len(api.model(name)["dictionary"]) == len(points)


def test_bkb_draws_between_any_two_rewards_that_wait_for_their_answers(api, name):
    api.put_tenant(name, algorithm="bkb", **SETTINGS)
    api.put_arms(name, ARMS)
    learn(api, name, np.random.default_rng(6), 20)
    kinds = ["R" if e["type"] == "dictionary" else "o" for e in api.events(name) if e["type"] in ("dictionary", "observed")]
    assert "".join(kinds) == "o" + "Ro" * 19


def test_bbkb_draws_when_its_sum_passes_the_ratio(api, name):
    """The oracle adds up the variances of what was learned, each before its step, and says where the resets stand: the first
    behind the first reward, so that there is a dictionary at all."""
    ridge, ratio = 0.5, 4
    api.put_tenant(name, algorithm="bbkb", representation={"lambda": ridge, "batch_ratio": ratio}, **SETTINGS)
    api.put_arms(name, ARMS)
    learn(api, name, np.random.default_rng(7), 50)
    total, points, seen, taught, n_resets = 0.0, [], [], {}, 0
    for e in api.events(name):
        if e["type"] == "dictionary":
            assert 1 + total > ratio or (n_resets == 0 and len(seen) == 1)
            points, total, n_resets = [taught[p["event"]] for p in e["points"]], 0.0, n_resets + 1
        elif e["type"] == "observed":
            assert 1 + total <= ratio and (n_resets > 0 or not seen)
            arm = e["arm"]["id"] if isinstance(e["arm"], dict) else e["arm"]
            taught[e["seq"]] = int(arm[1:])
            total += (dense(seen, points, ridge)[1][taught[e["seq"]]] if points else 1.0) / ridge
            seen.append((taught[e["seq"]], e["reward"]))
    assert 3 <= n_resets <= 25


def test_a_tenant_may_move_between_representations(api, name):
    """Each move is a reset; under a kernel that was not in force the first draw comes from a pilot."""
    api.put_tenant(name, algorithm="gp-ucb", **SETTINGS)
    api.put_arms(name, ARMS)
    learn(api, name, np.random.default_rng(8), 30)
    for move in ("bkb", "bbkb", "kors", "bkb", "exact"):
        view = api.put_tenant(name, expect=200, algorithm="gp-ucb", representation={"type": move, "lambda": 0.1}, **SETTINGS)
        assert view["configuration"]["representation"]["type"] == move
        assert resets(api, name)[-1]["representation"] == move
        assert len(api.model(name)["dictionary"]) >= 4


@pytest.mark.parametrize("field, value", [("q", 0), ("q", -1), ("q", "5"), ("q", None), ("batch_ratio", 0.99), ("batch_ratio", "x")])
def test_bad_parameters_are_refused_by_pointer(api, name, field, value):
    answer = api.call("PUT", f"/tenants/{name}", {"algorithm": "bbkb", "representation": {field: value}}, expect=400)
    assert answer.pointers == [f"/representation/{field}"]
