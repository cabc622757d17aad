"""Tenants: created from presets, replaced whole, versioned, deleted."""
import json
import random
import threading

import pytest

from contract import CONTRACT
from harness import Client

PRESETS = CONTRACT.doc["components"]["schemas"]["Algorithm"]["enum"]


def test_a_new_server_has_the_tenant_default(api):
    assert "default" in [t["name"] for t in api.call("GET", "/tenants").json["tenants"]]
    view = api.call("GET", "/tenants/default").json
    names = {t["name"]: t for t in api.call("GET", "/tenants").json["tenants"]}
    assert names["default"] == {"name": "default", "state": "open", "algorithm": "laplaced", "version": 1, "events": 0, "decisions": 0}
    assert (view["configuration"]["arm_dim"], view["configuration"]["context_dim"]) == (0, 0)
    assert view["configuration"]["arm_kernel"]["type"] == "delta"


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_decides_and_learns(api, name, preset):
    view = api.put_tenant(name, algorithm=preset, context_dim=2, arm_dim=3)
    assert view["configuration"]["algorithm"] == preset and view["events"] == 0
    api.put_graph(name, [["ann", "bob", 1.0], ["bob", "cat", 2.0]])
    api.put_arms(name, [{"id": f"a{i}", "features": [i % 2, i % 3, 0.5]} for i in range(4)])
    for t, user in enumerate(["ann", "bob", "cat", "stranger"] * 3):
        answer = api.select(user, context=[0.1 * t, 1.0], explain=True, tenant=name)
        assert abs(sum(r["propensity"] for r in answer["ranking"]) - 1) < 1e-9 and len(answer["ranking"]) == 4
        assert api.reward(answer["decision"], 0.25 * (t % 5), tenant=name) == {"applied": True}
    model = api.model(name)
    assert model["events"] == 12 and model["algorithm"] == preset and len(model["dictionary"]) >= 1
    assert model["effective_dimension"] > 0 and model["information_gain"] > 0


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_works_without_features_and_contexts(api, name, preset):
    api.put_tenant(name, algorithm=preset)
    for t in range(6):
        answer = api.select(f"u{t % 2}", candidates=["a", "b"], tenant=name)
        api.reward(answer["decision"], float(answer["arm"] == "a"), tenant=name)
    assert api.stats(name)["rewards"] == 6


def test_what_is_not_said_comes_from_the_preset(api, name):
    view = api.put_tenant(name, algorithm="lk-gp-ucb", arm_dim=2, confidence={"beta": 3})
    conf = view["configuration"]
    assert conf["confidence"] == {"type": "fixed", "beta": 3, "norm_bound": "auto", "noise": 0.1, "delta": 0.01,
                                  "form": "cross", "mixture": False, "score": "upper"}
    assert conf["representation"]["exact_limit"] == 1500 and conf["representation"]["type"] == "exact"
    assert conf["user_kernel"]["type"] == "laplacian" and conf["user_kernel"]["rho"] == 0.1
    assert conf["reward_window_s"] == 3600 and conf["default_reward"] == 0 and conf["aggregation"] == "first"
    assert conf["durability"] == "commit" and conf["seed"] == 1 and conf["pending"] == "ignore"
    assert conf["context_kernel"]["type"] == "ones" and conf["arm_kernel"]["lengthscale"] == 1


def test_the_default_row_leaves_its_scales_to_the_rewards(api, name):
    conf = api.call("PUT", f"/tenants/{name}", {"context_dim": 2}, expect=201).json["configuration"]
    assert (conf["algorithm"], conf["representation"]["type"], conf["tune"]) == ("laplaced", "by_arm", True)
    assert conf["rule"]["type"] == "rand_ucb" and conf["rule"]["epsilon"] == 0.02
    assert conf["representation"]["lambda"] == conf["user_kernel"]["rho"] == conf["context_kernel"]["lengthscale"] == "learned"
    assert set(conf["prior"].values()) == {"learned"}
    other = api.call("PUT", f"/tenants/{name}-arms", {"arm_dim": 2}, expect=201).json["configuration"]
    assert (other["representation"]["type"], other["tune"]) == ("by_component", True)
    assert {**other, "algorithm": "laplaced-by-component"} == api.put_tenant(f"{name}-same", algorithm="laplaced-by-component", arm_dim=2)["configuration"]


def test_laplaced_kors_is_made_for_rewards_between_0_and_1(api, name):
    conf = api.put_tenant(name, algorithm="laplaced-kors")["configuration"]
    assert (conf["algorithm"], conf["representation"]["type"]) == ("laplaced-kors", "kors")
    assert conf["representation"]["lambda"] == conf["representation"]["mu"] == 0.25
    assert conf["user_kernel"] == {"type": "laplacian", "rho": 0.01, "population": 1, "normalize": True, "power": 1, "tau": 1,
                                   "k": 8, "lengthscale": "median", "bandwidth": "median", "features": 256, "refresh": 200,
                                   "min_observations": 5, "tolerance": 0.0001}


def test_mu_follows_lambda_unless_it_is_told(api, name):
    told = ({"lambda": 0.5}, {"lambda": 0.5, "mu": 2}, {"mu": 3})
    got = [api.call("PUT", f"/tenants/{name}", {"algorithm": "ek-ucb", "representation": r}, expect=(200, 201)).json for r in told]
    assert [(g["configuration"]["representation"]["lambda"], g["configuration"]["representation"]["mu"]) for g in got] == [
        (0.5, 0.5), (0.5, 2), (1, 3)]


def test_the_version_rises_with_every_change_and_only_then(api, name):
    first = api.put_tenant(name, algorithm="ucb")
    assert api.put_tenant(name, expect=200, algorithm="ucb") == first
    second = api.put_tenant(name, expect=200, algorithm="ucb", confidence={"beta": 1})
    assert (first["version"], second["version"]) == (1, 2) and second["seq"] == first["seq"] + 1
    third = api.put_tenant(name, expect=200, algorithm="ucb")
    assert third["version"] == 3 and third["configuration"] == first["configuration"]
    assert api.call("GET", f"/tenants/{name}").json == third


def test_changing_a_kernel_refits_what_was_learned(api, name):
    """The model after a change equals that of a tenant that had the new configuration from the start."""
    configs = [{"algorithm": "gp-ucb", "arm_dim": 1, "arm_kernel": {"type": "rbf", "lengthscale": s}} for s in (1.0, 0.3)]
    arms = [{"id": f"a{i}", "features": [0.2 * i]} for i in range(6)]
    for tenant, config in ((name, configs[0]), (name + "-ref", configs[1])):
        api.put_tenant(tenant, **config)
        api.put_arms(tenant, arms)
        for t in range(30):
            api.observe(f"u{t % 3}", f"a{t * 5 % 6}", 0.1 * (t * 7 % 11), tenant=tenant)
    api.put_tenant(name, expect=200, **configs[1])
    got, want = (api.select("u1", explain=True, dry_run=True, tenant=t)["ranking"] for t in (name, name + "-ref"))
    for g, w in zip(got, want):
        assert g["arm"] == w["arm"] and g["mean"] == pytest.approx(w["mean"], rel=1e-9)
        assert g["sd"] == pytest.approx(w["sd"], rel=1e-9)


def test_dimensions_are_free_until_something_is_learned_and_then_fixed(api, name):
    api.put_tenant(name, algorithm="gp-ucb", arm_dim=2)
    api.put_tenant(name, expect=200, algorithm="gp-ucb", arm_dim=3)
    api.put_arms(name, [{"id": "a", "features": [1, 2, 3]}])
    api.select("u", tenant=name)
    digest = api.digest(name)
    answer = api.call("PUT", f"/tenants/{name}", {"algorithm": "gp-ucb", "arm_dim": 2}, expect=409)
    assert answer.pointers in ([], ["/arm_dim"]) and api.digest(name) == digest


def test_tenants_are_listed_in_order_of_name(api, name):
    for suffix in ("c", "a", "b"):
        api.put_tenant(f"{name}.{suffix}")
    listed = [t["name"] for t in api.call("GET", "/tenants").json["tenants"]]
    assert listed == sorted(listed) and {f"{name}.a", f"{name}.b", f"{name}.c"} <= set(listed)


def test_a_deleted_tenant_is_gone_with_its_file_and_may_come_back_empty(api, server, name):
    api.put_tenant(name, algorithm="ucb")
    decision = api.select("u", candidates=["a", "b"], tenant=name)["decision"]
    file = server.data / "tenants" / f"{name}.db"
    assert file.exists()
    assert api.call("DELETE", f"/tenants/{name}", expect=204).text == ""
    assert not file.exists()
    api.call("GET", f"/tenants/{name}", expect=404)
    api.call("DELETE", f"/tenants/{name}", expect=404)
    api.select("u", candidates=["a"], tenant=name, expect=404)
    assert api.put_tenant(name, algorithm="ucb")["seq"] == 1
    api.reward(decision, 1, tenant=name, expect=404)


@pytest.mark.parametrize("part", ["", "/graph", "/arms", "/model", "/stats", "/events"])
def test_reading_an_unknown_tenant_answers_404(api, part):
    api.call("GET", f"/tenants/nobody{part}", expect=404)


def test_writing_to_an_unknown_tenant_answers_404(api):
    for method, part, body in (("PUT", "graph", {"edges": []}), ("PATCH", "graph", {"add": []}),
                               ("PUT", "arms", {"arms": []}), ("PATCH", "arms", {"arms": []})):
        api.call(method, f"/tenants/nobody/{part}", body, expect=404)
    for path, body in (("/reward", {"decision": "d", "reward": 1}), ("/activate", {"decision": "d"}),
                       ("/observe", {"user": "u", "arm": "a", "reward": 1})):
        api.call("POST", path, body, tenant="nobody", expect=404)


@pytest.mark.parametrize("bad", ["-x", ".hidden", "a b", "ä", "x" * 65])
def test_names_outside_of_the_rule_are_refused(api, bad):
    api.call("PUT", "/tenants/" + bad, {}, expect=400)


def test_the_last_allowed_names_work(api):
    for good in ("x" * 64, "9", "A.b_c-d"):
        assert api.put_tenant(good)["name"] == good


def test_the_old_model_serves_and_learns_while_a_new_one_is_built(api, name):
    """A rebuild over 3,000 distinct points takes a while; GET says how far it is, decisions and rewards go on, and what
    they teach is in the new model."""
    api.put_tenant(name, algorithm="k-ucb", arm_dim=4)
    rng = random.Random(1)
    lines = [json.dumps({"user": "u", "arm": {"id": f"a{i}", "features": [rng.gauss(0, 2) for _ in range(4)]}, "reward": rng.random()})
             for i in range(3000)]
    api.call("POST", "/observe", raw="\n".join(lines), kind="application/x-ndjson", tenant=name)
    change = {"algorithm": "k-ucb", "arm_dim": 4, "representation": {"type": "exact", "lambda": 0.5}}
    view = api.call("PUT", f"/tenants/{name}", change).json
    assert view["rebuilding"] and view["parameters"]["representation"]["lambda"] != 0.5
    asked, learned = [{"id": "x", "features": [0, 0, 0, 1]}], 0
    while view["rebuilding"]:
        assert view["rebuild"]["points"] == 3000 and 0 <= view["rebuild"]["progress"] <= 1
        decision = api.select("u", candidates=asked, tenant=name)["decision"]
        assert api.call("POST", "/reward", {"decision": decision, "reward": 1}, tenant=name).json["applied"]
        learned += 1
        view = api.call("GET", f"/tenants/{name}").json
    assert learned > 0 and view["parameters"]["representation"]["lambda"] == 0.5 and view["events"] == 3000 + learned
    changes = [e for e in api.events(name) if e["type"] == "dictionary"]
    assert [e.get("begun", False) for e in changes] == [True, False] and changes[1]["from"] == changes[0]["seq"]
    assert api.select("u", candidates=asked, tenant=name, dry_run=True, explain=True)["ranking"][0]["mean"] > 0.5


def test_a_rebuild_on_request_is_logged_once_and_waits_for_something_learned(api, name):
    api.put_tenant(name, algorithm="laplaced", arm_dim=1)
    view = api.call("POST", f"/tenants/{name}/rebuild").json
    assert view["seq"] == 1 and not view["rebuilding"]
    for i in range(30):
        api.call("POST", "/observe", {"user": f"u{i % 3}", "arm": {"id": "a", "features": [i / 30]}, "reward": i % 2}, tenant=name)
    before = api.call("GET", f"/tenants/{name}").json["seq"]
    view = api.call("POST", f"/tenants/{name}/rebuild").json
    assert view["seq"] == before + 1
    assert api.events(name)[-1]["type"] == "dictionary" and api.events(name)[-1]["reset"]
    api.call("POST", "/tenants/nobody/rebuild", expect=404)
