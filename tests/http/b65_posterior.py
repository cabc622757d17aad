"""POST /tenants/{t}/posterior: the numbers of /select, to the last digit, and those of dense algebra; nothing is recorded."""
import numpy as np
import pytest

from contract import NDJSON
from harness import Client
from oracle import Model

USERS = [f"u{i}" for i in range(8)]
FRIENDS = [(USERS[i], USERS[j], 1 + (i + j) % 3) for i in range(7) for j in range(i + 1, 7, 2)]


def posterior(api, name, users, expect=200, **body):
    return api.call("POST", f"/tenants/{name}/posterior", {"users": users, **body}, expect=expect).json


def teach(api, name, n, rng, context_dim, arms):
    learned = []
    for _ in range(n):
        arm, user, reward = arms[rng.integers(len(arms))], USERS[rng.integers(7)], round(float(rng.normal()), 3)
        context = [round(float(x), 3) for x in rng.normal(size=context_dim)]
        api.observe(user, arm, reward, tenant=name, **({"context": context} if context_dim else {}))
        learned.append(((user, context, arm["id"], arm["features"]) if isinstance(arm, dict) else (user, context, arm, None), reward))
    return learned


def compare_with_select(api, name, users, arms, body):
    got = posterior(api, name, users, **({"arms": arms} if arms else {}), **body)
    columns = {arm: j for j, arm in enumerate(got["arms"])}
    for i, user in enumerate(users):
        told = api.select(user, explain=True, dry_run=True, tenant=name, **({"candidates": arms} if arms else {}), **body)
        assert len(told["ranking"]) == len(columns) and got["model"] == told["model"]
        for arm in told["ranking"]:
            for key in ("mean", "sd", "lower", "upper"):
                assert got[key][i][columns[arm["arm"]]] == arm[key], (user, arm, key)
    return got


CASES = [
    dict(algorithm="laplaced"), dict(algorithm="laplaced", tune=False), dict(algorithm="laplaced-kors"), dict(algorithm="lk-gp-ucb"), dict(algorithm="ts"),
    dict(algorithm="laplaced", context_dim=2), dict(algorithm="laplaced", context_dim=2, arm_dim=2), dict(algorithm="ek-ucb", context_dim=1, arm_dim=2),
    dict(algorithm="cmm-ucb", arm_dim=2), dict(algorithm="sup-kernel-ucb", arm_dim=2), dict(algorithm="bkb", arm_dim=2), dict(algorithm="random")]


@pytest.mark.parametrize("configuration", CASES, ids=str)
def test_it_says_what_select_explains_to_the_last_digit(api, name, configuration):
    rng = np.random.default_rng(7)
    api.put_tenant(name, **configuration)
    api.put_graph(name, FRIENDS)
    dim = configuration.get("context_dim", 0)
    arms = [{"id": f"a{i}", "features": [i, 1 - i / 2]} for i in range(5)] if configuration.get("arm_dim") else [f"a{i}" for i in range(5)]
    teach(api, name, 40, rng, dim, arms)
    body = {"context": [0.3, -1.2][:dim]} if dim else {}
    compare_with_select(api, name, [*USERS, "stranger"], arms, body)
    api.put_arms(name, [a if isinstance(a, dict) else {"id": a} for a in arms])
    got = compare_with_select(api, name, USERS[:3], None, body)
    assert got["arms"] == ["a0", "a1", "a2", "a3", "a4"] or sorted(got["arms"]) == ["a0", "a1", "a2", "a3", "a4"]
    before = api.digest(name), api.events(name)
    posterior(api, name, ["never", "u1", "u1"], arms=arms, **body)
    assert (api.digest(name), api.events(name)) == before


@pytest.mark.parametrize("dims", [(0, 0), (2, 2)], ids=str)
def test_it_is_the_posterior_of_dense_algebra(api, name, dims):
    rng = np.random.default_rng(8)
    view = api.put_tenant(name, algorithm="lk-gp-ucb", context_dim=dims[0], arm_dim=dims[1])
    api.put_graph(name, FRIENDS)
    arms = [{"id": f"a{i}", "features": [float(i), 0.5]} for i in range(4)] if dims[1] else [f"a{i}" for i in range(4)]
    learned = teach(api, name, 50, rng, dims[0], arms)
    context = [0.5, -0.25][:dims[0]]
    got = posterior(api, name, [*USERS, "stranger"], arms=arms, **({"context": context} if dims[0] else {}))
    oracle = Model(view["parameters"], ([u for u in USERS if any(u in f for f in FRIENDS)], {(u, v): w for u, v, w in FRIENDS}))
    for i, user in enumerate(got["users"]):
        mean, sd = oracle.exact(learned, [(user, context, f"a{j}", [float(j), 0.5] if dims[1] else None) for j in range(4)])
        np.testing.assert_allclose(got["mean"][i], mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(got["sd"][i], sd, rtol=1e-8, atol=1e-10)


def test_arms_that_nobody_may_be_shown_are_there_and_a_stopped_tenant_has_a_model(api, name):
    api.put_tenant(name, algorithm="ts", routing={"holdout": {"share": 1, "baseline": {"arm": "a"}}})
    api.put_arms(name, [{"id": "a"}, {"id": "b", "stopped": True}, {"id": "c", "active": False}, {"id": "d", "eligibility": {"allow": {"plan": ["pro"]}}}])
    api.call("POST", f"/tenants/{name}/stop")
    got = posterior(api, name, ["u"])
    assert got["arms"] == ["a", "b", "d"] and all(len(got[k][0]) == 3 for k in ("mean", "sd", "lower", "upper"))
    assert posterior(api, name, ["u"], arms=["c", "new"])["arms"] == ["c", "new"]


def test_a_thousand_cells_are_answered_and_one_more_is_not(api, name):
    api.put_tenant(name, algorithm="lk-gp-ucb")
    problem = posterior(api, name, ["u"], expect=400)
    assert [e["pointer"] for e in problem["errors"]] == ["/arms"] and "no active arm" in problem["errors"][0]["detail"]
    api.put_arms(name, [f"a{i}" for i in range(10)])
    got = posterior(api, name, [f"u{i}" for i in range(100)])
    assert [len(row) for row in got["mean"]] == [10] * 100
    for users, arms, pointer in ((101, None, "/arms"), (500, 3, "/users"), (2, 501, "/users")):
        body = {"arms": [f"x{i}" for i in range(arms)]} if arms else {}
        problem = posterior(api, name, [f"u{i}" for i in range(users)], expect=400, **body)
        assert [e["pointer"] for e in problem["errors"]] == [pointer] and (problem["limit"], problem["max"]) == ("cells", 1000)
    assert len(posterior(api, name, [f"u{i}" for i in range(1000)], arms=["a1"])["sd"]) == 1000


def test_new_users_of_a_graph_too_large_to_invert_are_solved_for(boot):
    client = Client(boot())
    client.put_tenant("t", algorithm="laplaced-kors", user_kernel={"tolerance": 0})
    client.call("PUT", "/tenants/t/graph", [[f"u{i}", f"u{(i + k) % 2500}"] for i in range(2500) for k in (1, 7)], kind=NDJSON)
    client.wait_rebuilt("t")
    client.observe("u3", "a", 1, tenant="t")
    users = [f"u{i}" for i in range(0, 60)]
    got = posterior(client, "t", users, arms=["a", "b"])
    compare_with_select(client, "t", users[:5], ["a", "b"], {})
    means = [row[0] for row in got["mean"]]
    assert max(means) == means[3] and means[3] > means[4] > means[30] > 0
