"""The user graph: put, patched, summed up."""
import numpy as np
import pytest

from contract import NDJSON
from oracle import graph_from_log


def summary(nodes, edges):
    """The summary by hand: union-find and weighted degrees."""
    root = {u: u for u in nodes}

    def find(u):
        while root[u] != u:
            u = root[u]
        return u
    degree = dict.fromkeys(nodes, 0.0)
    for (u, v), w in edges.items():
        root[find(u)] = find(v)
        degree[u] += w
        degree[v] += w
    values = list(degree.values())
    return {"users": len(nodes), "edges": len(edges), "components": len({find(u) for u in nodes}),
            "degree": {"min": min(values), "mean": sum(values) / len(values), "max": max(values)}}


def assert_same(got, want):
    assert {k: got[k] for k in ("users", "edges", "components")} == {k: want[k] for k in ("users", "edges", "components")}
    for key in ("min", "mean", "max"):
        assert got["degree"][key] == pytest.approx(want["degree"][key], rel=1e-12)


def random_edges(rng, n, m):
    edges = {}
    while len(edges) < m:
        u, v = (f"u{i}" for i in sorted(rng.choice(n, 2, replace=False)))
        edges[u, v] = float(np.round(rng.uniform(0.1, 3), 3))
    return edges


def test_no_graph_is_an_empty_one(api, name):
    api.put_tenant(name)
    assert api.call("GET", f"/tenants/{name}/graph").json == {
        "users": 0, "edges": 0, "components": 0, "degree": {"min": 0, "mean": 0, "max": 0}}


def test_the_summary_counts_users_edges_components_and_degrees(api, name):
    api.put_tenant(name)
    edges = random_edges(np.random.default_rng(1), 40, 35)
    nodes = list(dict.fromkeys([u for e in edges for u in e] + ["hermit1", "hermit2"]))
    got = api.put_graph(name, [[u, v, w] for (u, v), w in edges.items()], users=["hermit1", "hermit2"])
    assert_same(got, summary(nodes, edges))
    assert api.call("GET", f"/tenants/{name}/graph").json == got


def test_ndjson_and_json_give_the_same_model(api, name):
    edges = random_edges(np.random.default_rng(2), 20, 30)
    lines = [[u, v, w] for (u, v), w in edges.items()]
    answers = []
    for tenant in (name + ".json", name + ".nd"):
        api.put_tenant(tenant, algorithm="lk-gp-ucb")
        if tenant.endswith("nd"):
            api.call("PUT", f"/tenants/{tenant}/graph", lines, kind=NDJSON)
        else:
            api.put_graph(tenant, lines)
        for t in range(10):
            api.observe(f"u{t}", "ab"[t % 2], 0.1 * t, tenant=tenant)
        answers.append(api.select("u3", candidates=["a", "b"], explain=True, dry_run=True, tenant=tenant)["ranking"])
    assert answers[0] == answers[1]


def test_the_order_and_direction_of_edges_do_not_matter(api, name):
    edges = random_edges(np.random.default_rng(3), 15, 25)
    rows = []
    for i, lines in enumerate(([[u, v, w] for (u, v), w in edges.items()], [[v, u, w] for (u, v), w in reversed(edges.items())])):
        tenant = f"{name}.{i}"
        api.put_tenant(tenant, algorithm="lk-gp-ucb")
        api.put_graph(tenant, lines)
        api.observe("u1", "a", 1.0, tenant=tenant)
        answer = [api.select(f"u{u}", candidates=["a"], explain=True, dry_run=True, tenant=tenant)["ranking"][0] for u in range(15)]
        rows.append([(r["mean"], r["sd"]) for r in answer])
    assert np.allclose(rows[0], rows[1], rtol=1e-9, atol=0)


def test_weights_default_to_one_and_repeats_that_agree_are_one_edge(api, name):
    api.put_tenant(name)
    got = api.put_graph(name, [["a", "b"], ["b", "a", 1.0], ["a", "b", 1]])
    assert_same(got, summary(["a", "b"], {("a", "b"): 1.0}))


def test_a_patch_adds_changes_and_removes(api, name):
    api.put_tenant(name)
    api.put_graph(name, [["a", "b", 1], ["b", "c", 2], ["c", "d", 3]])
    got = api.call("PATCH", f"/tenants/{name}/graph",
                   {"add": [["b", "a", 5], ["d", "e", 0.5]], "remove": [["c", "b"]], "users": ["f"]}).json
    want = {("a", "b"): 5.0, ("c", "d"): 3.0, ("d", "e"): 0.5}
    assert_same(got, summary(["a", "b", "c", "d", "e", "f"], want))
    nodes, edges = graph_from_log(api.events(name))
    assert {frozenset(k): v for k, v in edges.items()} == {frozenset(k): v for k, v in want.items()}
    assert set(nodes) == set("abcdef")


def test_removing_an_edge_that_is_not_there_changes_nothing(api, name):
    api.put_tenant(name)
    before = api.put_graph(name, [["a", "b", 1], ["b", "c", 2]])
    digest = api.digest(name)
    api.call("PATCH", f"/tenants/{name}/graph", {"add": [["x", "y", 1]], "remove": [["a", "c"]]}, expect=409)
    assert api.call("GET", f"/tenants/{name}/graph").json == before and api.digest(name) == digest


def test_a_new_graph_moves_what_was_learned_along_it(api, name):
    api.put_tenant(name, algorithm="lk-gp-ucb")
    for _ in range(5):
        api.observe("ann", "a", 1.0, tenant=name)

    def mean(user):
        return api.select(user, candidates=["a"], dry_run=True, tenant=name)["ranking"][0]["mean"]
    assert mean("ann") > 0 and mean("bob") == 0
    api.put_graph(name, [["ann", "bob", 1.0]])
    assert 0 < mean("bob") < mean("ann")
    api.call("PATCH", f"/tenants/{name}/graph", {"add": [["ann", "cat", 1.0]], "remove": [["ann", "bob"]]})
    assert mean("cat") > 0 and mean("bob") == 0


def test_putting_again_replaces(api, name):
    api.put_tenant(name)
    api.put_graph(name, [["a", "b", 1]])
    assert api.put_graph(name, [["x", "y", 1], ["y", "z", 1]])["users"] == 3
    assert api.put_graph(name, [])["users"] == 0
