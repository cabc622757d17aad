"""Forgetting against weighted dense algebra from the log alone, over HTTP; and what follows from it."""
import math
import time

import numpy as np
import pytest

from harness import Client, by_arm
from oracle import Model, close, dictionary, history, weights

TOLERANCE = 1e-6
GRID = math.log2(1 / 0.9)
ARMS = [{"id": f"a{i}", "features": [round(0.3 * i, 3), round(0.7 * math.sin(i), 3)]} for i in range(8)]
DISCOUNT = {"type": "discount", "discount": 0.95}
HALF_LIFE = {"type": "half_life", "half_life_s": 0.2}
EXACT = {"algorithm": "lk-gp-ucb", "representation": {"lambda": 0.2}}
THRESHOLD = {"algorithm": "laplaced-kors", "representation": {"type": "threshold", "threshold": 0.05, "lambda": 0.2}}
DIMENSIONS = {"context_dim": 1, "arm_dim": 2}


def drive(client, tenant, rng, steps):
    """Decisions with rewards, and observations; contexts come back, so points repeat."""
    for _ in range(steps):
        user, context = f"u{rng.integers(4)}", [float(rng.integers(3)) / 3]
        if rng.random() < 0.3:
            client.observe(user, ARMS[rng.integers(8)]["id"], float(rng.normal()), context=context, tenant=tenant)
        else:
            decision = client.select(user, context=context, candidates=[a["id"] for a in ARMS], tenant=tenant)["decision"]
            client.reward(decision, float(rng.normal()), tenant=tenant)


def assert_agrees(client, tenant, forgetting):
    model, events = client.model(tenant), client.events(tenant)
    past, (left, halvings) = history(events), weights(events, forgetting)
    assert len(left) == len(past) == model["events"] and model["clamped"] == 0
    ridge = 0.9 ** (halvings / GRID - math.floor(halvings / GRID))  # a little small between two steps of the grid
    oracle, scaled = Model(model["parameters"]), np.maximum(np.array(left) / ridge, 1e-12)
    for user in ("u0", "u3", "stranger"):
        query = [(user, [0.25], a["id"], a["features"]) for a in ARMS]
        got = by_arm(client.select(user, context=[0.25], explain=True, dry_run=True, tenant=tenant))
        if model["parameters"]["representation"]["type"] == "exact":
            mean, sd = oracle.exact(past, query, scaled)
        else:
            mean, sd = oracle.sketch(dictionary(model), past, query, scaled)
        assert close([got[a["id"]][0] for a in ARMS], mean, TOLERANCE)
        assert close([got[a["id"]][1] for a in ARMS], sd, TOLERANCE)
    return left


@pytest.mark.parametrize("configuration", [EXACT, THRESHOLD], ids=["exact", "threshold"])
@pytest.mark.parametrize("forgetting", [DISCOUNT, HALF_LIFE], ids=["discount", "half_life"])
def test_answers_are_those_of_weighted_observations_and_survive_a_kill(boot, configuration, forgetting):
    server = boot("--snapshot-events", "40")
    client, rng = Client(server), np.random.default_rng(3)
    view = client.put_tenant("t", **configuration, **DIMENSIONS, forgetting=forgetting)
    assert view["configuration"]["forgetting"] == view["parameters"]["forgetting"] == {"discount": 0.999, "half_life_s": 86400, "detect_changes": False} | forgetting
    assert view["configuration"]["confidence"]["type"] == "fixed"
    client.put_arms("t", ARMS)
    drive(client, "t", rng, 60)
    assert min(assert_agrees(client, "t", forgetting)) < 0.9
    digest = client.digest("t")
    server.kill()
    server.start()
    assert client.digest("t") == digest
    drive(client, "t", rng, 30)
    assert_agrees(client, "t", forgetting)
    before = by_arm(client.select("u1", context=[0.5], explain=True, dry_run=True, tenant="t"))
    client.call("POST", "/tenants/t/rebuild", expect=(200, 202))
    client.wait_rebuilt("t")
    after = by_arm(client.select("u1", context=[0.5], explain=True, dry_run=True, tenant="t"))
    for arm, values in before.items():
        assert after[arm][:2] == pytest.approx(values[:2], rel=1e-8, abs=1e-8)
    assert_agrees(client, "t", forgetting)
    server.restart()
    assert_agrees(client, "t", forgetting)


def test_a_model_at_rest_forgets_nothing(api, name):
    api.put_tenant(name, algorithm="ucb", forgetting={"type": "half_life", "half_life_s": 0.05})
    api.observe("u", "a", 1.0, tenant=name)
    before = api.select("u", candidates=["a"], explain=True, dry_run=True, tenant=name)
    time.sleep(0.3)
    assert api.select("u", candidates=["a"], explain=True, dry_run=True, tenant=name)["ranking"] == before["ranking"]
    api.observe("u", "b", 1.0, tenant=name)
    after = api.select("u", candidates=["a"], explain=True, dry_run=True, tenant=name)
    assert after["ranking"][0]["sd"] > before["ranking"][0]["sd"]


@pytest.mark.parametrize("forgetting", [{"type": "none"}, DISCOUNT, {"type": "half_life", "half_life_s": 1}], ids=lambda f: f["type"])
def test_a_default_reward_is_an_observation_of_its_time(api, name, forgetting):
    """Of the expiry's time, not of the decision's: what came in between is older."""
    api.put_tenant(name, algorithm="ucb", tune=False, reward_window_s=1, default_reward=-1.0, forgetting=forgetting)
    api.select("u", candidates=["a"], decision="d", tenant=name)
    for _ in range(5):
        api.observe("u", "a", 1.0, tenant=name)
    end = time.monotonic() + 10
    while api.stats(name)["expired"] == 0 and time.monotonic() < end:
        time.sleep(0.05)
    events = api.events(name)
    past, (left, halvings) = history(events), weights(events, forgetting)
    assert sorted(y for _, y in past) == [-1.0] + [1.0] * 5 and left[-1] == 1
    ridge = 0.9 ** (halvings / GRID - math.floor(halvings / GRID))
    mean, sd = Model(api.model(name)["parameters"]).exact(past, [("u", [], "a", None)], np.array(left) / ridge)
    got = by_arm(api.select("u", candidates=["a"], explain=True, dry_run=True, tenant=name))["a"]
    assert got[:2] == pytest.approx((mean[0], sd[0]), rel=1e-9)


@pytest.mark.parametrize("configuration", [EXACT, THRESHOLD], ids=["exact", "threshold"])
@pytest.mark.parametrize("forgetting", [{"type": "none"}, DISCOUNT], ids=lambda f: f["type"])
@pytest.mark.parametrize("aggregation", ["first", "sum", "last"])
def test_aggregations_equal_a_log_of_what_they_come_to(api, name, configuration, forgetting, aggregation):
    told = {"first": [(0.25, 0.25), (1.0, 1.0)], "sum": [(0.25, 0.5), (-1.0, 0.25)], "last": [(0.25, 7.0), (3.0, 0.75)]}[aggregation]
    come_to = [{"first": a, "sum": a + b, "last": b}[aggregation] for a, b in told]
    for tenant, is_corrected in ((name, True), (name + ".once", False)):
        api.put_tenant(tenant, **configuration, **DIMENSIONS, forgetting=forgetting, aggregation=aggregation)
        api.put_arms(tenant, ARMS)
        for k in range(2):
            decision = api.select("u0", context=[0.0], candidates=["a2" if k else "a5"], decision=f"d{k}", tenant=tenant)["decision"]
            api.reward(decision, told[k][0] if is_corrected else come_to[k], tenant=tenant)
            for i in range(4):
                api.observe(f"u{i}", f"a{i}", 0.5 * i, context=[1.0], tenant=tenant)
        for k in range(2):
            if is_corrected:
                api.reward(f"d{k}", told[k][1], tenant=tenant)
        api.observe("u1", "a7", 1.0, context=[0.5], tenant=tenant)
    assert api.model(name)["events"] == api.model(name + ".once")["events"] == 11
    for user in ("u0", "u2"):
        got, want = (by_arm(api.select(user, context=[0.0], explain=True, dry_run=True, tenant=t)) for t in (name, name + ".once"))
        for arm, values in want.items():
            assert got[arm][:2] == pytest.approx(values[:2], rel=1e-10, abs=1e-12)


def test_an_abrupt_change_is_followed(api, name):
    """Two arms change places: what forgets prefers the new one soon, what does not takes as long as the past was."""
    for tenant, forgetting in ((name, {"type": "discount", "discount": 0.9}), (name + ".never", {"type": "none"})):
        api.put_tenant(tenant, algorithm="ucb", forgetting=forgetting)
        for best in "a" * 100 + "b" * 15:
            for arm in "ab":
                api.observe("u", arm, float(arm == best), tenant=tenant)
    got, never = ({r["arm"]: r["mean"] for r in api.select("u", candidates=["a", "b"], explain=True, dry_run=True, tenant=t)["ranking"]}
                  for t in (name, name + ".never"))
    assert got["b"] > 0.7 > 0.3 > got["a"] and never["a"] > 0.8 > 0.2 > never["b"]


def test_a_change_of_the_setting_counts_from_there_and_bounds_stay_refused(api, name):
    api.put_tenant(name, algorithm="gp-ucb", forgetting={"type": "discount", "discount": 0.5})
    for y in (1.0, 1.0, 0.0):
        api.observe("u", "a", y, tenant=name)
    api.call("PUT", f"/tenants/{name}", {"algorithm": "gp-ucb"})
    for y in (0.0, 1.0):
        api.observe("u", "a", y, tenant=name)
    model = api.model(name)
    assert model["parameters"]["forgetting"]["type"] == "none"
    left, halvings = [0.25, 0.5, 1, 1, 1], 2  # two halvings, and none since
    ridge = 0.9 ** (halvings / GRID - math.floor(halvings / GRID))
    past = history(api.events(name))
    mean, sd = Model(model["parameters"]).exact(past, [("u", [], "a", None)], np.array(left) / ridge)
    got = by_arm(api.select("u", candidates=["a"], explain=True, dry_run=True, tenant=name))["a"]
    assert got[:2] == pytest.approx((mean[0], sd[0]), rel=1e-9)
    answer = api.call("PUT", f"/tenants/{name}", {"algorithm": "cmm-ucb"}, expect=409)
    assert answer.pointers == ["/confidence/type"]
    assert api.model(name) == model


@pytest.mark.parametrize("algorithm", ["laplaced-kors", "lk-gp-ucb", "bbkb", "ucb"])
def test_erased_events_do_not_count(api, name, algorithm):
    """A discount counts learning events; those of somebody who is erased were never there."""
    import l00_erasure
    confidence = {"type": "fixed"}
    for tenant, without in ((name, None), (name + "-never", "ann")):
        api.put_tenant(tenant, algorithm=algorithm, forgetting=DISCOUNT, confidence=confidence, **({"tune": False} if algorithm == "ucb" else {"context_dim": 1, "arm_dim": 1}))
        put, api.put_tenant = api.put_tenant, lambda *a, **k: None  # the tenant is there
        try:
            l00_erasure.traffic(api, tenant, algorithm, without=without)
        finally:
            api.put_tenant = put
    assert api.call("DELETE", f"/tenants/{name}/users/ann").json["erased"]
    api.call("POST", f"/tenants/{name}-never/rebuild", expect=(200, 202))
    api.wait_rebuilt(name + "-never")
    assert api.model(name)["content_digest"] == api.model(name + "-never")["content_digest"]
