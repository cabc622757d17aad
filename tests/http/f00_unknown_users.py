"""Users whom the graph does not know: alone without a population, part of the crowd with one."""
import numpy as np
import pytest

from harness import by_arm
from oracle import Model, close

EDGES = [["ann", "bob", 1.0], ["bob", "cat", 2.0], ["cat", "ann", 0.5], ["dan", "eve", 1.0]]
GRAPH = (["ann", "bob", "cat", "dan", "eve"], {(u, v): w for u, v, w in EDGES})


def prepared(api, name, user_kernel, **more):
    view = api.put_tenant(name, algorithm="lk-gp-ucb", user_kernel=user_kernel, **more)
    api.put_graph(name, EDGES)
    return Model(view["parameters"], GRAPH)


def look(api, name, user):
    return by_arm(api.select(user, candidates=["a", "b"], explain=True, dry_run=True, tenant=name))


def test_without_a_population_a_stranger_starts_from_nothing(api, name):
    prepared(api, name, {"rho": 0.1, "population": 0})
    for _ in range(10):
        api.observe("ann", "a", 1.0, tenant=name)
    assert look(api, name, "stranger")["a"] == pytest.approx((0.0, np.sqrt(10)), abs=1e-12)
    assert look(api, name, "bob")["a"][0] > 0.3 and look(api, name, "dan")["a"][0] == pytest.approx(0, abs=1e-12)


def test_with_a_population_a_stranger_starts_from_the_crowd(api, name):
    prepared(api, name, {"rho": 0.1, "population": 1.0})
    for user in ("ann", "bob", "dan"):
        for _ in range(10):
            api.observe(user, "a", 1.0, tenant=name)
    stranger = look(api, name, "stranger")
    assert stranger["a"][0] > 0.3 and stranger["a"][1] < stranger["b"][1]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("population", [0.0, 0.3, 1.0, 5.0])
def test_everybody_agrees_with_dense_algebra(api, name, population, normalize):
    rng = np.random.default_rng(31)
    oracle = prepared(api, name, {"rho": 0.1, "population": population, "normalize": normalize})
    users = GRAPH[0] + ["new1", "new2", "new3"]
    learned = []
    for t in range(40):
        user, arm, value = users[rng.integers(7)], "ab"[rng.integers(2)], float(rng.normal())
        api.observe(user, arm, value, tenant=name)
        learned.append(((user, [], arm, None), value))
    for user in users:
        got = look(api, name, user)
        mean, sd = oracle.exact(learned, [(user, [], "a", None), (user, [], "b", None)])
        assert close([got["a"][0], got["b"][0]], mean, 1e-6) and close([got["a"][1], got["b"][1]], sd, 1e-6), user


def test_strangers_do_not_move_the_kernel_of_others(api, name):
    """Their arrival alone, before any reward, changes nobody's answer."""
    prepared(api, name, {"rho": 0.1, "population": 1.0})
    api.observe("ann", "a", 1.0, tenant=name)
    before = {u: look(api, name, u) for u in GRAPH[0] + ["x"]}
    for t in range(20):
        api.select(f"stranger{t}", candidates=["a", "b"], tenant=name)
    assert {u: look(api, name, u) for u in GRAPH[0] + ["x"]} == before


def test_without_a_graph_everybody_is_a_stranger_in_one_crowd(api, name):
    view = api.put_tenant(name, algorithm="lk-gp-ucb", user_kernel={"rho": 0.2, "population": 1.0})
    oracle, learned = Model(view["parameters"]), []
    for t in range(20):
        api.observe(f"u{t % 5}", "a", 0.1 * t, tenant=name)
        learned.append(((f"u{t % 5}", [], "a", None), 0.1 * t))
    for user in ("u0", "u3", "never-seen"):
        got = look(api, name, user)
        mean, sd = oracle.exact(learned, [(user, [], "a", None), (user, [], "b", None)])
        assert close([got["a"][0], got["b"][0]], mean, 1e-6) and close([got["a"][1], got["b"][1]], sd, 1e-6)


def test_normalized_users_all_start_with_variance_one(api, name):
    prepared(api, name, {"rho": 0.1, "population": 1.0, "normalize": True})
    assert {round(look(api, name, u)["a"][1], 9) for u in GRAPH[0] + ["stranger"]} == {1.0}


def test_a_stranger_who_joins_the_graph_keeps_what_he_taught(api, name):
    prepared(api, name, {"rho": 0.1, "population": 0})
    for _ in range(10):
        api.observe("zoe", "a", 1.0, tenant=name)
    assert look(api, name, "ann")["a"][0] == 0
    api.call("PATCH", f"/tenants/{name}/graph", {"add": [["zoe", "ann", 3.0]]})
    assert look(api, name, "ann")["a"][0] > 0.3 and look(api, name, "zoe")["a"][0] > 0.5
