"""Decisions that wait for their reward and are known to deviations (`pending` hallucinate), against tenants that are told the same as observations."""
import numpy as np
import pytest

from e30_expiry import wait_for
from explained import of, ranking
from k00_moves import export, take_in
from harness import Client, tenant_path

ARMS = [f"a{i}" for i in range(4)]
FIXED = {"tune": False, "representation": {"lambda": 0.3}}
ROWS = {
    "one mean an arm": {"algorithm": "ucb", **FIXED},
    "a graph of users": {"algorithm": "lk-gp-ucb", **FIXED},
    "arms apart": {"algorithm": "laplaced-by-arm", **FIXED, "context_dim": 1},
    "all points": {"algorithm": "k-ucb", **FIXED, "context_dim": 1},
    "a dictionary": {"algorithm": "laplaced-kors", "context_dim": 1, "representation": {"type": "threshold", "threshold": 1e-6, "lambda": 0.3}},
}


def context(configuration, t):
    return {"context": [0.25 * (t % 5)]} if configuration.get("context_dim") else {}


def asked(api, name, configuration):
    return [ranking(api, name, ARMS, **context(configuration, t)) for t in range(3)]


@pytest.mark.parametrize("row", ROWS)
def test_means_know_rewards_and_deviations_open_decisions_too(api, name, row):
    configuration = ROWS[row]
    rng = np.random.default_rng(5)
    tenants = (name, name + ".mean", name + ".sd")
    for tenant, pending in zip(tenants, ("hallucinate", "ignore", "ignore")):
        api.put_tenant(tenant, **configuration, pending=pending)
        api.put_graph(tenant, [["u", "v", 1], ["v", "w", 0.5]])
    waiting = []
    for t in range(40):
        user, where = "uvw"[t % 3], context(configuration, t)
        told = api.select(user, candidates=ARMS, decision=f"d{t}", tenant=name, **where)
        waiting.append((told["decision"], user, told["arm"], where))
        if rng.random() < 0.6:
            decision, user, arm, where = waiting.pop(rng.integers(len(waiting)))
            y = float(rng.normal())
            api.reward(decision, y, tenant=name)
            for tenant in tenants[1:]:
                api.observe(user, arm, y, tenant=tenant, **where)
    assert len(waiting) > 5
    for _, user, arm, where in waiting:
        api.observe(user, arm, 0.5, tenant=tenants[2], **where)
    # the twin of the deviations has points for the open ones in its dictionary, too: tests/property/posterior/test_open.c has dense algebra
    error = 3e-3 if row == "a dictionary" else 1e-7
    got, means, sds = (asked(api, tenant, configuration) for tenant in tenants)
    for g, m, s in zip(got, means, sds):
        assert of(g, "mean") == pytest.approx(of(m, "mean"), abs=1e-7)
        assert of(g, "sd") == pytest.approx(of(s, "sd"), abs=error)
        assert (of(g, "sd") <= of(m, "sd") + 1e-12).all() and (of(g, "sd") < of(m, "sd") - 1e-4).any()


def test_a_window_that_closes_takes_back_what_was_open(api, name):
    for tenant, default in ((name, None), (name + ".zero", 0)):
        api.put_tenant(tenant, algorithm="ucb", tune=False, pending="hallucinate", reward_window_s=0.7, default_reward=default)
        before = of(ranking(api, tenant, ARMS), "sd")
        for t in range(6):
            api.select("u", candidates=ARMS, decision=f"d{t}", tenant=tenant)
        open_sd = of(ranking(api, tenant, ARMS), "sd")
        assert (open_sd <= before).all() and open_sd.sum() < before.sum() - 0.1
        assert wait_for(lambda: api.stats(tenant)["expired"] == 6)
        after = ranking(api, tenant, ARMS)
        assert of(after, "mean") == pytest.approx(np.zeros(4), abs=1e-12)
        assert of(after, "sd") == pytest.approx(before if default is None else open_sd, rel=1e-9)


@pytest.mark.parametrize("args", [[], ["--snapshot-events", "7"]], ids=" ".join)
def test_open_decisions_survive_kills_and_moves(boot, args):
    server = boot(*args)
    api = Client(server)
    rng = np.random.default_rng(6)
    rows = {**ROWS, "the default": {"context_dim": 1}, "by component": {"arm_dim": 0, "algorithm": "laplaced-by-component"}, "batches": {"algorithm": "bbkb", "context_dim": 1}}
    names = {f"t{i}": row for i, row in enumerate(rows.values())}
    for tenant, configuration in names.items():
        api.put_tenant(tenant, **configuration, pending="hallucinate")
        api.put_graph(tenant, [["u", "v", 1], ["v", "w", 0.5]])
    for _ in range(3):
        for tenant, configuration in names.items():
            for t in range(12):
                told = api.select("uvw"[t % 3], candidates=ARMS, tenant=tenant, **context(configuration, t))
                if rng.random() < 0.6:
                    api.reward(told["decision"], float(rng.normal()), tenant=tenant)
        before = {tenant: (api.digest(tenant), asked(api, tenant, names[tenant])) for tenant in names}
        server.restart()
        for tenant in names:
            assert (api.digest(tenant), asked(api, tenant, names[tenant])) == before[tenant], tenant
            assert api.verify(tenant)["equal"], tenant
    for tenant in names:
        take_in(api, tenant + ".moved", export(api, tenant).content)
        assert api.digest(tenant + ".moved") == api.digest(tenant)
        assert asked(api, tenant + ".moved", names[tenant]) == before[tenant][1]


def test_a_tenant_turns_to_it_and_back(api, name):
    api.put_tenant(name, algorithm="ts", tune=False)
    for t in range(4):
        api.select("u", candidates=ARMS, decision=f"d{t}", tenant=name)
    api.reward("d0", 1, tenant=name)
    plain = of(ranking(api, name, ARMS), "sd")
    path = tenant_path(name)
    for _ in range(2):
        told = api.call("PATCH", path, {"pending": "hallucinate"}, kind="application/merge-patch+json").json
        assert told["configuration"]["pending"] == "hallucinate"
        known = of(ranking(api, name, ARMS), "sd")
        assert known.sum() < plain.sum() - 0.1
        api.call("PATCH", path, {"pending": None}, kind="application/merge-patch+json")
        assert api.call("GET", path).json["configuration"]["pending"] == "ignore"
        assert of(ranking(api, name, ARMS), "sd") == pytest.approx(plain, rel=1e-12)
    assert api.verify(name)["equal"]


def test_a_presets_bounds_give_way_and_named_ones_are_refused(api, name):
    told = api.put_tenant(name, algorithm="laplaced-kors", pending="hallucinate")
    assert told["configuration"]["confidence"]["type"] == "fixed"
    refused = api.call("PUT", tenant_path(name + ".no"), {"algorithm": "laplaced-kors", "pending": "hallucinate", "confidence": {"type": "cmm"}}, expect=422)
    assert refused.pointers == ["/pending"] and "cmm" in refused.json["errors"][0]["detail"]
