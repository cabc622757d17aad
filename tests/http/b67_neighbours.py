"""`neighbours` of POST /tenants/{t}/posterior and of dry runs of /select: which users taught the model what it expects of an arm.
The terms sum to the mean, are those of dense algebra, and are what the mean loses without a user's rewards."""
import json
import urllib.request

import numpy as np
import pytest

import oracle
from contract import NDJSON
from harness import Client, Server
from oracle import Model

USERS = [f"u{i}" for i in range(8)]
FRIENDS = [(USERS[i], USERS[j], 1 + (i + j) % 3) for i in range(6) for j in range(i + 1, 6, 2)]  # u6 and u7 have none
NODES = [u for u in USERS if any(u in f for f in FRIENDS)]
EDGES = {(u, v): w for u, v, w in FRIENDS}
FIXED = {"mean": 0.4, "arm": 0.3, "user": 0.5, "context": 0.7, "feature": 0.6, "linear": 0.2}


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """Of a server that ends builds before it answers: a model that finds its scales does not change between two questions."""
    running = Server(tmp_path_factory.mktemp("laplaced"), "--finish-builds").start()
    yield Client(running)
    running.close()


def neighbours(api, name, user, arm, n=20, expect=200, **body):
    answer = api.call("POST", f"/tenants/{name}/posterior", {"users": [user], "arms": [arm], "neighbours": n, **body}, expect=expect).json
    return (answer["neighbours"], answer) if expect == 200 else answer


def arms_of(configuration):
    return [{"id": f"a{i}", "features": [float(i), 1 - i / 2]} for i in range(4)] if configuration.get("arm_dim") else [f"a{i}" for i in range(4)]


def observations(configuration, n, seed):
    rng, arms, dim = np.random.default_rng(seed), arms_of(configuration), configuration.get("context_dim", 0)
    contexts = [[round(float(x), 2) for x in rng.normal(size=dim)] for _ in range(12)]
    return [{"user": USERS[rng.integers(len(USERS))], "arm": arms[rng.integers(len(arms))], "reward": round(float(rng.normal(0.5)), 3),
             **({"context": contexts[rng.integers(12)]} if dim else {})} for _ in range(n)]


def learn(api, name, configuration, observed, by_decisions=False):
    api.put_tenant(name, **configuration)
    api.put_graph(name, FRIENDS)
    for i, o in enumerate(observed):
        if by_decisions:
            context = {"context": o["context"]} if "context" in o else {}
            api.select(o["user"], candidates=arms_of(configuration), decision=f"d{i}", tenant=name, **context)
            api.reward(f"d{i}", o["reward"], tenant=name)
        else:
            api.call("POST", "/observe", o, tenant=name)


def assert_sums(told):
    size = abs(told["prior"]) + sum(abs(t["term"]) for t in told["terms"]) + abs(told["others"]["term"])
    total = told["prior"] + sum(t["term"] for t in told["terms"]) + told["others"]["term"]
    assert abs(total - told["mean"]) <= 1e-10 * (size + 1e-3), told
    sizes = [abs(t["term"]) for t in told["terms"]]
    assert sizes == sorted(sizes, reverse=True) and len({t["user"] for t in told["terms"]}) == len(sizes)


CASES = [
    dict(algorithm="laplaced"), dict(algorithm="laplaced", tune=False, prior=FIXED), dict(algorithm="laplaced", context_dim=2),
    dict(algorithm="laplaced", context_dim=2, arm_dim=2), dict(algorithm="laplaced", context_dim=2, arm_dim=2, tune=False, prior=FIXED),
    dict(algorithm="laplaced-kors"), dict(algorithm="laplaced-kors", context_dim=2, arm_dim=2), dict(algorithm="lk-gp-ucb"), dict(algorithm="lk-gp-ucb", context_dim=1),
    dict(algorithm="ts"), dict(algorithm="ucb", tune=False), dict(algorithm="ek-ucb", context_dim=1, arm_dim=2), dict(algorithm="cmm-ucb", arm_dim=2),
    dict(algorithm="bkb", arm_dim=2), dict(algorithm="bbkb", arm_dim=2), dict(algorithm="lin-ucb-per-user", context_dim=2), dict(algorithm="random"),
    dict(algorithm="lk-gp-ucb", forgetting={"type": "discount", "discount": 0.9}), dict(algorithm="laplaced-kors", forgetting={"type": "discount", "discount": 0.9}),
    dict(algorithm="lk-gp-ucb", user_kernel={"population": 0.5, "normalize": True})]


@pytest.mark.parametrize("configuration", CASES, ids=str)
def test_the_terms_and_the_rest_sum_to_the_mean(api, name, configuration):
    learn(api, name, configuration, observations(configuration, 60, 3))
    context = {"context": [0.3, -1.2][:configuration["context_dim"]]} if configuration.get("context_dim") else {}
    before = api.digest(name), api.events(name)
    for user in ("u0", "u3", "u7", "stranger"):
        for arm in arms_of(configuration)[:2]:
            told, answer = neighbours(api, name, user, arm, **context)
            few, _ = neighbours(api, name, user, arm, 2, **context)
            assert told["mean"] == answer["mean"][0][0] and told["arm"] == answer["arms"][0]
            assert_sums(told)
            assert_sums(few)
            assert few["terms"] == told["terms"][:2] and len(told["terms"]) <= len(USERS) and told["others"] == {"users": 0, "term": 0}
            assert few["others"]["users"] == len(told["terms"]) - len(few["terms"])
            said = api.select(user, candidates=[arm], dry_run=True, neighbours=20, tenant=name, **context)
            assert said["neighbours"] == told and said["ranking"][0]["mean"] == told["mean"]
    assert any(len(neighbours(api, name, u, arms_of(configuration)[0], **context)[0]["terms"]) > 0 for u in USERS)
    assert (api.digest(name), api.events(name)) == before


def test_levels_are_told_of_the_level_that_the_mean_is_of(api, name):
    configuration = dict(algorithm="sup-kernel-ucb", arm_dim=2, rule={"scale": 3.0})
    learn(api, name, configuration, observations(configuration, 80, 4), by_decisions=True)
    arms, has_terms = arms_of(configuration), 0
    for arm in arms:
        told, _ = neighbours(api, name, "u1", arm)
        assert_sums(told)
        has_terms += len(told["terms"]) > 0
        assert not told["tells_users_apart"]
    assert has_terms > 0
    said = api.select("u1", candidates=arms, explain=True, dry_run=True, neighbours=5, tenant=name)
    assert_sums(said["neighbours"])
    assert said["neighbours"]["arm"] == said["arm"] and said["neighbours"]["mean"] == said["ranking"][0]["mean"]


DENSE = [dict(algorithm="lk-gp-ucb"), dict(algorithm="lk-gp-ucb", context_dim=2, arm_dim=2), dict(algorithm="laplaced-kors", context_dim=2, arm_dim=2),
         dict(algorithm="laplaced", tune=False, prior=FIXED, context_dim=2), dict(algorithm="ucb", tune=False), dict(algorithm="ek-ucb", context_dim=2, arm_dim=2),
         dict(algorithm="lk-gp-ucb", forgetting={"type": "discount", "discount": 0.9})]


@pytest.mark.parametrize("configuration", DENSE, ids=str)
def test_the_terms_are_those_of_dense_algebra(api, name, configuration):
    learn(api, name, configuration, observations(configuration, 70, 5))
    model, events, dim = api.model(name), api.events(name), configuration.get("context_dim", 0)
    dense = Model(model["parameters"], (NODES, EDGES))
    is_exact = model["parameters"]["representation"]["type"] in ("exact", "by_arm")
    left, _ = oracle.weights(events, model["parameters"]["forgetting"])
    learned = oracle.history(events)
    for user in ("u0", "u2", "u7", "stranger"):
        for arm in arms_of(configuration):
            context = [0.3, -0.8][:dim]
            told, _ = neighbours(api, name, user, arm, **({"context": context} if dim else {}))
            point = (user, context, arm["id"], arm["features"]) if isinstance(arm, dict) else (user, context, arm, None)
            want = dense.taught(learned, point, None if is_exact else oracle.dictionary(model), left)
            got = {t["user"]: t["term"] for t in told["terms"]}
            assert told["prior"] == dense.mean
            for one in USERS:
                assert got.get(one, 0.0) == pytest.approx(want.get(one, 0.0), rel=1e-7, abs=1e-9), (user, arm, one)
            rewards = [(w, o[1], o[0][0]) for w, o in zip(left, learned)]
            for term in told["terms"] if configuration.get("arm_dim") else []:
                own = [(w, y) for w, y, u in rewards if u == term["user"]]
                assert term["rewards"] == pytest.approx(sum(w for w, _ in own)) and term["mean_reward"] == pytest.approx(sum(w * y for w, y in own) / sum(w for w, _ in own))


LINEAR = [dict(algorithm="laplaced", tune=False, prior=FIXED), dict(algorithm="laplaced", context_dim=2, arm_dim=2, tune=False, prior=FIXED),
          dict(algorithm="laplaced-kors", context_dim=2, arm_dim=2), dict(algorithm="lk-gp-ucb"), dict(algorithm="ucb", tune=False), dict(algorithm="bkb", arm_dim=2)]


@pytest.mark.parametrize("configuration", LINEAR, ids=str)
def test_a_term_is_what_the_mean_loses_without_the_users_rewards(api, name, configuration):
    """A twin has learned the same, but that u1 has earned what was expected before anything was learned."""
    observed = observations(configuration, 60, 6)
    learn(api, name, configuration, observed)
    context = {"context": [0.3, -1.2]} if configuration.get("context_dim") else {}
    arm = arms_of(configuration)[1]
    prior = neighbours(api, name, "u0", arm, **context)[0]["prior"]
    learn(api, name + "-twin", configuration, [{**o, "reward": prior if o["user"] == "u1" else o["reward"]} for o in observed])
    for user in USERS:
        told, twin = neighbours(api, name, user, arm, **context)[0], neighbours(api, name + "-twin", user, arm, **context)[0]
        terms = {t["user"]: t["term"] for t in told["terms"]}
        assert told["mean"] - twin["mean"] == pytest.approx(terms.get("u1", 0.0), rel=1e-8, abs=1e-10)
        for one in twin["terms"]:
            assert one["term"] == pytest.approx(0 if one["user"] == "u1" else terms[one["user"]], rel=1e-8, abs=1e-10)


def test_friends_teach_and_strangers_do_not(api, name):
    api.put_tenant(name, algorithm="lk-gp-ucb")
    api.put_graph(name, [["ann", "bob", 1], ["dan", "eve", 1]])
    for user, reward in (("ann", 1), ("ann", 1), ("dan", 1), ("bob", -0.5)):
        api.observe(user, "tea", reward, tenant=name)
    api.observe("ann", "rum", 1, tenant=name)
    told, _ = neighbours(api, name, "bob", "tea")
    assert [t["user"] for t in told["terms"]] == ["ann", "bob"] and told["tells_users_apart"] and told["prior"] == 0
    assert told["terms"][0]["term"] > 0 > told["terms"][1]["term"]
    assert (told["terms"][0]["rewards"], told["terms"][0]["mean_reward"], told["terms"][1]["rewards"], told["terms"][1]["mean_reward"]) == (2, 1, 1, -0.5)


@pytest.mark.parametrize("configuration,graph,tells", [
    (dict(algorithm="ts", tune=False), True, False), (dict(algorithm="ek-ucb"), True, False), (dict(algorithm="laplaced", tune=False), False, False),
    (dict(algorithm="laplaced", tune=False, prior={"arm": 1, "user": 0}), True, False), (dict(algorithm="laplaced", tune=False), True, True),
    (dict(algorithm="laplaced", tune=False, arm_dim=1, prior={"user": 0}), True, False), (dict(algorithm="laplaced", tune=False, arm_dim=1), True, True),
    (dict(algorithm="lin-ucb-per-user"), True, True), (dict(algorithm="laplaced-kors"), False, True)], ids=str)
def test_it_says_whether_users_are_told_apart(api, name, configuration, graph, tells):
    api.put_tenant(name, **configuration)
    if graph:
        api.put_graph(name, [["ann", "bob", 1], ["bob", "cat", 1]])
    tea = {"id": "tea", "features": [1.0]} if configuration.get("arm_dim") else "tea"
    for user, reward in (("ann", 1), ("cat", 0.25), ("dan", 1)):
        api.observe(user, tea, reward, tenant=name)
    of = {user: neighbours(api, name, user, tea)[0] for user in ("ann", "dan")}
    assert {told["tells_users_apart"] for told in of.values()} == {tells}
    terms = [{t["user"]: t["term"] for t in told["terms"]} for told in of.values()]
    if tells:
        assert terms[0] != terms[1]
    else:  # each reward counts alike: equal ones add as much
        assert terms[0] == terms[1] and terms[0]["ann"] == pytest.approx(terms[0]["dan"], rel=1e-12) and terms[0]["ann"] == pytest.approx(4 * terms[0]["cat"] if of["ann"]["prior"] == 0 else terms[0]["ann"], rel=1e-12)


def test_nothing_is_told_before_anything_is_learned_or_where_the_model_is_not_asked(api, name):
    api.put_tenant(name, algorithm="laplaced", tune=False, prior={"mean": 0.25})
    told, answer = neighbours(api, name, "ann", "tea")
    assert told == {"arm": "tea", "mean": 0.25, "prior": 0.25, "terms": [], "others": {"users": 0, "term": 0}, "tells_users_apart": False}
    api.put_tenant(name + "-kors", algorithm="laplaced-kors")
    assert neighbours(api, name + "-kors", "ann", "tea")[0]["terms"] == []
    api.put_arms(name, ["tea"])
    api.call("PATCH", f"/tenants/{name}", {"routing": {"holdout": {"share": 0, "baseline": {"arm": "tea"}}}}, kind="application/merge-patch+json")
    api.call("POST", f"/tenants/{name}/stop")
    assert "neighbours" not in api.select("ann", dry_run=True, neighbours=3, tenant=name)
    assert neighbours(api, name, "ann", "tea")[0]["mean"] == 0.25


def test_it_stays_the_same_over_a_restart_a_compaction_and_without_an_erased_user(boot):
    server = boot("--finish-builds")
    client = Client(server)
    configuration = dict(algorithm="laplaced-kors", context_dim=2, arm_dim=2)
    learn(client, "t", configuration, observations(configuration, 60, 8))
    body = {"context": [0.3, -1.2]}
    arm = arms_of(configuration)[1]
    client.call("POST", "/tenants/t/compact", {"keep_events": 5})  # draws the dictionary anew; rows stay
    client.wait_rebuilt("t")
    told = neighbours(client, "t", "u0", arm, **body)[0]
    assert_sums(told)
    server.restart()
    again = neighbours(client, "t", "u0", arm, **body)[0]
    assert again["mean"] == told["mean"] and [t["user"] for t in again["terms"]] == [t["user"] for t in told["terms"]]
    assert [t["term"] for t in again["terms"]] == pytest.approx([t["term"] for t in told["terms"]], rel=1e-9)
    first = told["terms"][0]["user"]
    client.call("DELETE", f"/tenants/t/users/{first}", expect=(200, 202, 204))
    client.wait_rebuilt("t")
    after = neighbours(client, "t", "u0", arm, **body)[0]
    assert first not in json.dumps(after)
    assert_sums(after)


def test_it_is_asked_for_with_one_user_and_one_arm_and_of_dry_runs_alone(api, name):
    api.put_tenant(name, algorithm="lk-gp-ucb")
    api.put_arms(name, ["tea", "rum"])
    for body in ({"users": ["a", "b"], "arms": ["tea"]}, {"users": ["a"], "arms": ["tea", "rum"]}, {"users": ["a"]}):
        problem = api.call("POST", f"/tenants/{name}/posterior", {**body, "neighbours": 3}, expect=400).json
        assert [e["pointer"] for e in problem["errors"]] == ["/neighbours"]
    for n in (0, 21, 1.5, "3", None, True, -1):
        assert [e["pointer"] for e in neighbours(api, name, "a", "tea", n, expect=400)["errors"]] == ["/neighbours"]
        assert api.call("POST", "/select", {"user": "a", "dry_run": True, "neighbours": n}, tenant=name, expect=400).pointers == ["/neighbours"]
    before = api.events(name)
    problem = api.call("POST", "/select", {"user": "a", "neighbours": 3, "decision": "d"}, tenant=name, expect=400).json
    assert [e["pointer"] for e in problem["errors"]] == ["/neighbours"] and "dry_run" in problem["errors"][0]["detail"]
    assert api.events(name) == before
    assert "neighbours" not in api.select("a", dry_run=True, tenant=name)
    assert "neighbours" not in api.call("POST", f"/tenants/{name}/posterior", {"users": ["a"], "arms": ["tea"]}).json


def test_names_of_others_are_for_keys_that_may_read(boot, tmp_path):
    (tmp_path / "keys").write_text("admin-key-0123456789abcdef\n")
    server = boot("--admin-key-file", str(tmp_path / "keys"))
    admin = Client(server, key="admin-key-0123456789abcdef")
    admin.put_tenant("t", algorithm="lk-gp-ucb")
    admin.observe("ann", "tea", 1, tenant="t")

    def key(*roles):
        return Client(server, key=admin.call("POST", "/tenants/t/keys", {"roles": list(roles)}, expect=201).json["key"])

    decides, reads, both = key("decide"), key("read"), key("decide", "read")
    body = {"user": "ann", "candidates": ["tea"], "dry_run": True}
    problem = decides.call("POST", "/select", {**body, "neighbours": 3}, expect=403).json
    assert "`read`" in problem["detail"]
    assert "neighbours" not in decides.call("POST", "/select", body).json
    assert both.call("POST", "/select", {**body, "neighbours": 3}).json["neighbours"]["terms"][0]["user"] == "ann"
    reads.call("POST", "/select", {**body, "neighbours": 3}, expect=403)
    assert reads.call("POST", "/tenants/t/posterior", {"users": ["bob"], "arms": ["tea"], "neighbours": 1}).json["neighbours"]["arm"] == "tea"
    decides.call("POST", "/tenants/t/posterior", {"users": ["bob"], "arms": ["tea"], "neighbours": 1}, expect=403)


def test_what_would_hold_up_everybody_is_refused_with_the_name_of_the_limit(api, name):
    """700 rows against a dictionary of as many points in 4,096 dimensions. They are sent without this file's own check of bodies, which takes longer than
    the server."""
    rng = np.random.default_rng(9)
    api.put_tenant(name, algorithm="ek-ucb", arm_dim=4096, representation={"type": "threshold", "threshold": 1e-3})
    features = [[int(x) for x in row] for row in rng.integers(0, 2, size=(700, 4096))]
    lines = [json.dumps({"user": f"u{i % 50}", "arm": {"id": f"a{i}", "features": f}, "reward": 1}, separators=(",", ":")) + "\n" for i, f in enumerate(features)]
    sent = urllib.request.Request(f"{api.server.url}/observe", "".join(lines).encode(), {"Content-Type": NDJSON, "Laplaced-Tenant": name})
    with urllib.request.urlopen(sent, timeout=120) as answer:
        assert answer.status == 200
    arm = {"id": "a0", "features": features[0]}
    problem = neighbours(api, name, "u1", arm, 3, expect=400)
    assert [e["pointer"] for e in problem["errors"]] == ["/neighbours"] and (problem["limit"], problem["max"]) == ("neighbours_work", 2e9)
    api.call("POST", "/select", {"user": "u1", "candidates": [arm], "dry_run": True, "neighbours": 3}, tenant=name, expect=400)
    api.call("POST", f"/tenants/{name}/posterior", {"users": ["u1"], "arms": [arm]})
