"""The sketch against EK Prop. 4.2 evaluated densely from the served dictionary and the whole log."""
import numpy as np
import pytest

from harness import Client, by_arm, steady
from oracle import Model, close, dictionary, graph_from_log, history

TOLERANCE = 1e-6
ARMS = [{"id": f"a{i}", "features": [round(0.1 * (i % 10), 3), round(0.25 * (i // 10), 3)]} for i in range(30)]
SMOOTH = {"arm_dim": 2, "context_dim": 1, "arm_kernel": {"type": "rbf", "lengthscale": 1.0}, "context_kernel": {"type": "rbf", "lengthscale": 1.0}}


def f(context, x):
    return float(np.sin(2 * x[0] + context[0]) + 0.5 * x[1])


def drive(client, tenant, rng, steps, users):
    """Traffic by rng, ids of decisions and with them the arms that are drawn: decisions with rewards, and some observations."""
    features = {a["id"]: a["features"] for a in ARMS}
    for _ in range(steps):
        context, user = [float(rng.uniform(-1, 1))], users[rng.integers(len(users))]
        if rng.random() < 0.2:
            arm = ARMS[rng.integers(30)]["id"]
            client.observe(user, arm, f(context, features[arm]) + 0.1 * rng.normal(), context=context, tenant=tenant)
        else:
            picked = [ARMS[i]["id"] for i in rng.choice(30, 8, replace=False)]
            answer = client.select(user, context=context, candidates=picked, tenant=tenant, decision=f"d{rng.integers(1 << 53)}")
            client.reward(answer["decision"], f(context, features[answer["arm"]]) + 0.1 * rng.normal(), tenant=tenant)


def assert_agrees(client, tenant, rng, users):
    """Every arm for a few users and contexts; returns the model."""
    model, events = client.model(tenant), client.events(tenant)
    oracle = Model(model["parameters"], graph_from_log(events))
    learned, points = history(events), dictionary(model)
    assert len(learned) == model["events"]
    for user in users:
        context = [float(rng.uniform(-1, 1))]
        got = by_arm(client.select(user, context=context, explain=True, dry_run=True, tenant=tenant))
        query = [(user, context, a["id"], a["features"]) for a in ARMS]
        mean, sd = oracle.sketch(points, learned, query)
        assert close([got[a["id"]][0] for a in ARMS], mean, TOLERANCE), user
        assert close([got[a["id"]][1] for a in ARMS], sd, TOLERANCE), user
    return model


@pytest.mark.parametrize("preset, representation", [
    ("ek-ucb", {"lambda": 0.1, "mu": 0.1}), ("laplaced-kors", {"lambda": 0.1}), ("laplaced-kors", {"type": "threshold", "threshold": 0.01, "lambda": 0.1})],
    ids=["ek-ucb", "laplaced", "threshold"])
def test_the_sketch_agrees_before_and_after_a_kill(boot, preset, representation):
    rng = np.random.default_rng(11)
    server = boot()
    client, tenant = Client(server), "sketch"
    client.put_tenant(tenant, algorithm=preset, representation=representation, **SMOOTH)
    client.put_arms(tenant, ARMS)
    users = [f"u{i}" for i in range(6)]
    client.put_graph(tenant, [[f"u{i}", f"u{(i + 1) % 5}", 1.0 + i] for i in range(5)])
    drive(client, tenant, rng, 150, users)
    before = assert_agrees(client, tenant, rng, users + ["stranger"])
    server.restart()
    assert steady(client.model(tenant)) == steady(before)
    drive(client, tenant, rng, 150, users)
    assert_agrees(client, tenant, rng, users + ["stranger"])


def test_on_a_smooth_problem_the_dictionary_is_far_below_the_history(api, name):
    rng = np.random.default_rng(12)
    api.put_tenant(name, algorithm="ek-ucb", representation={"lambda": 0.1, "mu": 0.1, "gamma": 0.1}, **SMOOTH)
    api.put_arms(name, ARMS)
    drive(api, name, rng, 400, ["u0", "u1"])
    model = assert_agrees(api, name, rng, ["u0"])
    assert 5 <= len(model["dictionary"]) < 100 == model["events"] / 4


def test_the_sketch_still_predicts_what_exact_would(api, name):
    """Not only consistent with its own dictionary: close to the full posterior."""
    rng = np.random.default_rng(13)
    api.put_tenant(name, algorithm="ek-ucb", representation={"lambda": 0.1, "mu": 0.05, "gamma": 1.0}, **SMOOTH)
    api.put_arms(name, ARMS)
    drive(api, name, rng, 300, ["u0"])
    learned = history(api.events(name))
    oracle = Model(api.model(name)["parameters"])
    got = by_arm(api.select("u0", context=[0.2], explain=True, dry_run=True, tenant=name))
    mean, sd = oracle.exact(learned, [("u0", [0.2], a["id"], a["features"]) for a in ARMS])
    assert np.abs(np.array([got[a["id"]][0] for a in ARMS]) - mean).max() < 0.1
    ratio = np.array([got[a["id"]][1] for a in ARMS]) / sd
    assert ratio.min() > 3 ** -0.5 and ratio.max() < 3 ** 0.5, ratio  # BKB's (1 + eps) / (1 - eps) at eps = 1/2


def test_the_dictionary_never_passes_its_cap(api, name):
    rng = np.random.default_rng(14)
    api.put_tenant(name, algorithm="laplaced-kors", **{**SMOOTH, "arm_kernel": {"type": "rbf", "lengthscale": 0.1}},
                   representation={"max_dictionary": 20, "mu": 0.01})
    api.put_arms(name, ARMS)
    drive(api, name, rng, 200, [f"u{i}" for i in range(9)])
    assert len(assert_agrees(api, name, rng, ["u3"])["dictionary"]) == 20


def test_admissions_stand_in_the_log_with_their_probability(api, name):
    rng = np.random.default_rng(15)
    api.put_tenant(name, algorithm="ek-ucb", representation={"lambda": 0.1, "mu": 1.0, "gamma": 0.5}, **SMOOTH)
    api.put_arms(name, ARMS)
    drive(api, name, rng, 200, ["u0", "u1"])
    events = {e["seq"]: e for e in api.events(name)}
    admitted = [p for e in events.values() if e["type"] == "dictionary" for p in e["points"]]
    assert len(admitted) == len(api.model(name)["dictionary"])
    assert any(p["probability"] < 1 for p in admitted)
    for seq, event in events.items():
        if event["type"] == "dictionary" and not event["reset"]:
            assert [p["event"] for p in event["points"]] == [seq - 1] and events[seq - 1]["type"] in ("rewarded", "observed")


@pytest.mark.parametrize("has_graph", [True, False])
def test_components_over_all_points_are_the_process_itself(boot, has_graph):
    rng = np.random.default_rng(17)
    server = boot()
    client, tenant = Client(server), "sum"
    prior = {"mean": 0.4, "arm": 0.2, "feature": 0.7, "user": 0.5, "context": 0.8, "linear": 0.3}
    setting = {"algorithm": "laplaced-by-component", "prior": prior, **SMOOTH, "arm_kernel": {"type": "rbf", "lengthscale": 0.1}, "context_kernel": {"type": "rbf", "lengthscale": 0.1}}
    client.put_tenant(tenant, representation={"lambda": 0.1, "threshold": 1e-7}, **setting)
    client.put_arms(tenant, ARMS)
    users = [f"u{i}" for i in range(6)]
    if has_graph:
        client.put_graph(tenant, [[f"u{i}", f"u{(i + 1) % 5}", 1.0 + i] for i in range(5)])
    drive(client, tenant, rng, 60, users)
    client.put_tenant(tenant, representation={"lambda": 0.2, "threshold": 1e-7}, expect=200, **setting)  # builds anew: each row may stand for every component

    def assert_exact():
        """Points lie apart enough for each to be taken: of what no dictionary takes, less than 1e-6 is missed."""
        model, events = client.model(tenant), client.events(tenant)
        oracle, learned = Model(model["parameters"], graph_from_log(events)), history(events)
        for user in users + ["stranger"]:
            context = [float(rng.uniform(-1, 1))]
            got = by_arm(client.select(user, context=context, explain=True, dry_run=True, tenant=tenant))
            mean, sd = oracle.exact(learned, [(user, context, a["id"], a["features"]) for a in ARMS])
            assert close([got[a["id"]][0] for a in ARMS], mean, TOLERANCE), user
            assert close([got[a["id"]][1] for a in ARMS], sd, TOLERANCE), user
        return model

    before = assert_exact()
    server.restart()
    assert steady(client.model(tenant)) == steady(before)
    assert_exact()
