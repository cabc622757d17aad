"""GET /tenants/{t}/graph/near against a search of its own and dense kernels in numpy; bounded work over a large graph."""
import time

import numpy as np
import pytest

from contract import NDJSON
from harness import Client
from oracle import user_gram


def near(api, name, user, expect=200, **query):
    return api.call("GET", f"/tenants/{name}/graph/near", query={"user": user, **query}, expect=expect).json


def town(rng, n, n_edges):
    """(names, {(u, v): weight}); the last two users have no friend."""
    names, edges = [f"u{i}" for i in range(n)], {}
    while len(edges) < n_edges:
        i, j = (int(x) for x in rng.integers(n - 2, size=2))
        if i < j:
            edges[names[i], names[j]] = round(float(rng.uniform(0.1, 3)), 3)
    return names, edges


def walk(edges, user, hops):
    """{user: hops} of those within so many edges."""
    friends = {}
    for u, v in edges:
        friends.setdefault(u, set()).add(v)
        friends.setdefault(v, set()).add(u)
    found, edge = {user: 0}, {user}
    for k in range(1, hops + 1):
        edge = {v for u in edge for v in friends.get(u, ())} - set(found)
        found |= dict.fromkeys(edge, k)
    return found


def degrees(edges):
    sums = {}
    for (u, v), w in edges.items():
        sums[u], sums[v] = sums.get(u, 0) + w, sums.get(v, 0) + w
    return sums


def check_picture(got, edges, user, hops, limit):
    within, degree = walk(edges, user, hops), degrees(edges)
    ids = [u["id"] for u in got["users"]]
    assert (got["user"], got["hops"], ids[0], len(set(ids))) == (user, hops, user, len(ids))
    assert got["truncated"] == (len(within) > limit) and len(ids) == min(len(within), limit)
    told = [u["hops"] for u in got["users"]]
    assert told == sorted(told) == [within[u] for u in ids]
    for u in got["users"]:
        assert u["degree"] == pytest.approx(degree.get(u["id"], 0), rel=1e-12)
    place = {u: i for i, u in enumerate(ids)}
    inside = {tuple(sorted((place[u], place[v]))): w for (u, v), w in edges.items() if u in place and v in place}
    assert {(e["from"], e["to"]): e["weight"] for e in got["edges"]} == inside and len(got["edges"]) == len(inside)


@pytest.mark.parametrize("kernel", [
    {"type": "laplacian", "rho": 0.1}, {"type": "laplacian", "rho": 0.3, "normalize": True}, {"type": "laplacian", "population": 1.0, "normalize": True},
    {"type": "laplacian", "power": 2}, {"type": "heat", "tau": 0.7}, {"type": "ones"}, {"type": "identity"}], ids=str)
def test_a_neighbourhood_is_that_of_the_graph_with_the_kernel_in_force(api, name, kernel):
    names, edges = town(np.random.default_rng(3), 60, 90)
    names = [u for u in names[:-2] if u in degrees(edges)] + names[-2:]
    view = api.put_tenant(name, algorithm="coop-kernel-ucb", user_kernel=kernel)
    api.put_graph(name, [(u, v, w) for (u, v), w in edges.items()], users=names[-2:])
    for user, hops, limit in [(names[0], 2, 300), (names[1], 1, 300), (names[2], 8, 300), (names[3], 3, 9), (names[4], 0, 300),
                              (names[-1], 2, 300), (names[5], 2, 1)]:
        got = near(api, name, user, hops=hops, limit=limit)
        check_picture(got, edges, user, hops, limit)
        ids = [u["id"] for u in got["users"]]
        gram = user_gram(view["parameters"]["user_kernel"], (names, edges), ids)
        np.testing.assert_allclose([u["kernel"] for u in got["users"]], gram[0], rtol=1e-8, atol=1e-9)


def test_left_out_parameters_are_two_hops_and_three_hundred_users(api, name):
    api.put_tenant(name, algorithm="lk-gp-ucb")
    api.put_graph(name, [("hub", f"u{i}") for i in range(400)])
    got = near(api, name, "hub")
    assert (got["hops"], len(got["users"]), len(got["edges"]), got["truncated"]) == (2, 300, 299, True)
    assert near(api, name, "u7", hops=1)["users"][1]["degree"] == 400


def test_whom_the_graph_does_not_know_is_alone_as_for_decisions(api, name):
    api.put_tenant(name, algorithm="lk-gp-ucb", user_kernel={"rho": 0.1})
    alone = {"users": [{"id": "nobody", "hops": 0, "degree": 0, "kernel": pytest.approx(10)}], "edges": [], "truncated": False, "hops": 2, "user": "nobody"}
    assert near(api, name, "nobody") == alone
    api.put_graph(name, [("ann", "bob")])
    assert near(api, name, "nobody") == alone
    api.observe("nobody", "a", 1, tenant=name)
    assert near(api, name, "nobody") == alone
    assert api.select("nobody", candidates=["b"], explain=True, dry_run=True, tenant=name)["ranking"][0]["sd"] == pytest.approx(10 ** 0.5)


def test_it_changes_nothing_and_follows_the_graph(api, name):
    api.put_tenant(name, algorithm="lk-gp-ucb")
    api.put_graph(name, [("ann", "bob", 2)])
    before = api.digest(name), api.events(name)
    assert [u["id"] for u in near(api, name, "ann")["users"]] == ["ann", "bob"]
    assert (api.digest(name), api.events(name)) == before
    api.call("PATCH", f"/tenants/{name}/graph", {"add": [["bob", "cat", 1]], "remove": []})
    api.wait_rebuilt(name)
    assert [(u["id"], u["hops"]) for u in near(api, name, "ann")["users"]] == [("ann", 0), ("bob", 1), ("cat", 2)]


@pytest.mark.parametrize("query, parameter", [
    ({}, "user"), ({"user": ""}, "user"), ({"user": "x" * 257}, "user"), ({"user": "a\nb"}, "user"), ({"user": "a\u0085b"}, "user"),
    ({"user": "u", "hops": 9}, "hops"), ({"user": "u", "hops": "two"}, "hops"), ({"user": "u", "limit": 0}, "limit"), ({"user": "u", "limit": 1001}, "limit")])
def test_a_bad_parameter_is_named(api, name, query, parameter):
    api.put_tenant(name, algorithm="lk-gp-ucb")
    answer = api.call("GET", f"/tenants/{name}/graph/near", query=query, expect=400).json
    assert f"query parameter {parameter}:" in answer["detail"]


def test_names_of_users_are_told_as_they_are(api, name):
    odd = ["<script>alert(1)</script>", "\u202eabc", "🦜" * 64, 'a"b\\c']
    api.put_tenant(name, algorithm="lk-gp-ucb")
    api.put_graph(name, [(odd[0], u) for u in odd[1:]])
    for user in odd:
        got = near(api, name, user)
        assert {u["id"] for u in got["users"]} == set(odd) and got["user"] == user


# Whole columns; and columns and diagonals to within the default tolerance.
@pytest.mark.parametrize("kernel, slack", [({"tolerance": 0}, 1e-9), ({}, 1e-3), ({"normalize": True}, 2e-3), ({"normalize": True, "tolerance": 0}, 1e-9)], ids=str)
def test_a_graph_too_large_to_invert_is_solved_for_what_is_shown(api, name, kernel, slack):
    rng = np.random.default_rng(5)
    names, edges = town(rng, 2500, 4500)
    view = api.put_tenant(name, algorithm="lk-gp-ucb", user_kernel={"rho": 0.3, **kernel})
    api.call("PUT", f"/tenants/{name}/graph", [[u, v, w] for (u, v), w in edges.items()], kind=NDJSON)
    api.wait_rebuilt(name)
    tied = [u for u in names if u in degrees(edges)]
    for user in (tied[0], tied[7]):
        got = near(api, name, user, hops=3, limit=100)
        check_picture(got, edges, user, 3, 100)
        ids = [u["id"] for u in got["users"]]
        gram = user_gram(view["parameters"]["user_kernel"], (tied, edges), ids)
        np.testing.assert_allclose([u["kernel"] for u in got["users"]], gram[0], rtol=0, atol=slack)
    api.observe(tied[7], "a", 1, tenant=name)  # an anchor of the model by now
    again = near(api, name, tied[7], hops=3, limit=100)
    assert again == got


def test_a_hundred_thousand_users_take_no_longer_than_promised(boot):
    """Columns of a mesh with a small rho decay slowly: diagonal entries are solved one by one, and those that are not had in two
    seconds are null. Whoever asks again gets no less, and decisions are made meanwhile."""
    client = Client(boot())
    client.put_tenant("t", algorithm="laplaced-kors", user_kernel={"rho": 0.01, "population": 0, "tolerance": 0, "normalize": True})
    side = 316
    lines = [[f"u{i}-{j}", f"u{i + 1}-{j}"] for i in range(side - 1) for j in range(side)] + [[f"u{i}-{j}", f"u{i}-{j + 1}"] for i in range(side) for j in range(side - 1)]
    client.call("PUT", "/tenants/t/graph", lines, kind=NDJSON)
    client.wait_rebuilt("t")
    known = []
    for _ in range(2):
        begin = time.monotonic()
        got = near(client, "t", "u150-150", hops=8, limit=1000)
        assert time.monotonic() - begin < 30
        values = [u["kernel"] for u in got["users"]]
        known.append([v for v in values if v is not None])
        assert len(values) == 145 and values[:len(known[-1])] == known[-1] and known[-1][0] == 1
        assert all(0 < v <= 1 for v in known[-1])
    assert known[1][:len(known[0])] == known[0] and len(known[0]) < 145
    assert client.select("u1-1", candidates=["a"], tenant="t")["arm"] == "a"
