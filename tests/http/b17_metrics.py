"""Metrics: what is measured of decisions by name, beside the reward that the model learns. Random streams stand beside plain
dictionaries in Python; the model is compared with that of a tenant which never heard of metrics."""
import random

import pytest

from harness import NDJSON, Client, wait_for

ARMS = ["a", "b", "c"]
METRICS = [{"name": "revenue", "role": "guardrail", "aggregation": "sum", "range": [0, 100], "harm": 1},
           {"name": "time", "aggregation": "last", "range": [0, 600], "default": 30},
           {"name": "clicked"}]
WEIGHTED = [{"name": "click", "role": "objective", "weight": 0.5},
            {"name": "sale", "role": "objective", "weight": 2, "aggregation": "last"},
            {"name": "items", "role": "objective", "weight": -0.125, "aggregation": "sum"},
            {"name": "time", "aggregation": "last"}]


def configuration(metrics=METRICS, **fields):
    return {"algorithm": "ucb", "tune": False, "default_reward": None, "metrics": metrics, **fields}


@pytest.fixture
def tenant(api, name):
    api.put_tenant(name, **configuration())
    return name


def show(client, tenant, decision, user="u", **fields):
    return client.select(user, candidates=ARMS, decision=decision, tenant=tenant, **fields)


def tell(client, tenant, decision, metric, value, expect=200, **fields):
    body = {"decision": decision, "reward": value, **({"metric": metric} if metric else {}), **fields}
    return client.call("POST", "/reward", body, tenant=tenant, expect=expect).json


def lines(client, tenant, *kinds):
    return [{k: v for k, v in e.items() if k not in ("seq", "at")} for e in client.events(tenant) if e["type"] in kinds]


def believed(client, tenant):
    """Means and deviations of every arm, and what the statistics have of the rewards."""
    stats = client.stats(tenant)
    ranking = client.select("u0", candidates=ARMS, dry_run=True, explain=True, tenant=tenant)["ranking"]
    return sorted((r["arm"], r["mean"], r["sd"]) for r in ranking), stats["arms"], stats["routes"]


# ---- what the log has, and what the model ---------------------------------------------------------------------------------

def test_each_metric_has_values_of_its_own_and_the_lines_say_what_they_have_come_to(api, tenant):
    show(api, tenant, "d1")
    assert tell(api, tenant, "d1", None, 1) == {"applied": True}
    for metric, value in (("revenue", 12.5), ("revenue", 2.5), ("time", 40), ("time", 30), ("clicked", 1)):
        assert tell(api, tenant, "d1", metric, value) == {"applied": True}
    assert lines(api, tenant, "rewarded", "measured") == [
        {"type": "rewarded", "decision": "d1", "reward": 1},
        {"type": "measured", "decision": "d1", "metric": "revenue", "reward": 12.5},
        {"type": "measured", "decision": "d1", "metric": "revenue", "reward": 2.5, "before": 12.5, "total": 15},
        {"type": "measured", "decision": "d1", "metric": "time", "reward": 40},
        {"type": "measured", "decision": "d1", "metric": "time", "reward": 30, "before": 40},
        {"type": "measured", "decision": "d1", "metric": "clicked", "reward": 1}]


def test_a_value_that_comes_again_is_judged_by_its_metric_alone(api, tenant):
    show(api, tenant, "d1")
    duplicate = {"applied": False, "duplicate": True}
    for metric, again, other in (("clicked", duplicate, 409), ("time", duplicate, 200), ("revenue", {"applied": True}, 200), (None, duplicate, 409)):
        assert tell(api, tenant, "d1", metric, 0.5) == {"applied": True}
        assert tell(api, tenant, "d1", metric, 0.5) == again
        refused = tell(api, tenant, "d1", metric, 0.75, expect=other)
        assert other == 200 or "the decision has another" in refused["detail"]


def test_values_of_other_metrics_leave_the_model_untouched(api, name):
    """The same decisions and rewards, with and without values between them: the same answers to the last bit."""
    answers = []
    for i, with_values in enumerate((False, True)):
        tenant = f"{name}-{i}"
        api.put_tenant(tenant, **configuration(seed=7))
        rng = random.Random(3)
        for k in range(40):
            show(api, tenant, f"d{k}", user=f"u{k % 5}")
            if with_values:
                tell(api, tenant, f"d{k}", "revenue", rng.uniform(0, 9))
            if k % 3:
                tell(api, tenant, f"d{k}", None, (k % 4) / 4)
            if with_values:
                api.call("POST", "/reward", [{"decision": f"d{k}", "metric": "time", "reward": k}, {"decision": f"d{k}", "metric": "revenue", "reward": 1}], tenant=tenant)
        answers.append(believed(api, tenant))
    assert answers[0] == answers[1]


def test_a_decision_stays_open_for_its_metrics_after_its_reward(api, tenant):
    """Under `first` too: what comes later by the user still finds it."""
    show(api, tenant, "d1", user="ann")
    tell(api, tenant, "d1", None, 1)
    got = api.call("POST", "/reward", {"user": "ann", "metric": "revenue", "reward": 9}, tenant=tenant).json
    assert got == {"applied": True, "decisions": ["d1"]}
    assert api.call("GET", f"/tenants/{tenant}/decisions/d1").json["state"] == "open"


def test_all_decisions_of_a_user_and_slots_of_a_slate_have_values_of_their_own(api, tenant):
    for i in range(3):
        show(api, tenant, f"d{i}", user="bob")
    tell(api, tenant, "d1", "clicked", 1)
    body = {"user": "bob", "metric": "clicked", "reward": 1, "all": True}
    assert api.call("POST", "/reward", body, tenant=tenant).json["decisions"] == ["d2", "d0"]
    slate = show(api, tenant, "s", top=2)["ranking"]
    for place, value in ((0, 5), (1, 7)):
        assert tell(api, tenant, "s", "time", value, arm=slate[place]["arm"]) == {"applied": True}
        assert tell(api, tenant, "s", "time", value, arm=slate[place]["arm"])["duplicate"]
    assert tell(api, tenant, "s", "time", 5)["duplicate"]  # without an arm it is the first slot
    assert tell(api, tenant, "s", "time", 5, arm="zzz", expect=404)["type"] == "/problems/no-arm"


def test_an_id_makes_a_retry_of_a_value_safe_and_belongs_to_one_metric(api, tenant):
    show(api, tenant, "d1", user="ann")
    body = {"decision": "d1", "metric": "revenue", "reward": 5, "id": "order-1"}
    for _ in range(3):
        assert api.call("POST", "/reward", body, tenant=tenant).json == {"applied": True}
    api.call("POST", "/reward", {**body, "metric": "time"}, tenant=tenant, expect=409)
    api.call("POST", "/reward", {k: v for k, v in body.items() if k != "metric"}, tenant=tenant, expect=409)
    assert api.call("POST", "/reward", [body, {**body, "reward": 6, "id": "order-2"}], tenant=tenant).json == [{"applied": True}] * 2
    by_user = {"user": "ann", "metric": "revenue", "reward": 1, "id": "order-3"}
    for _ in range(2):
        assert api.call("POST", "/reward", by_user, tenant=tenant).json == {"applied": True, "decisions": ["d1"]}
    assert [e["reward"] for e in lines(api, tenant, "measured")] == [5, 6, 1]


# ---- refusals ----------------------------------------------------------------------------------------------------------------

def test_a_name_that_the_tenant_has_not_is_named(api, tenant, name):
    show(api, tenant, "d1")
    p = api.call("POST", "/reward", {"decision": "d1", "metric": "sales", "reward": 1}, tenant=tenant, expect=422)
    assert p.pointers == ["/metric"] and p.json["type"] == "/problems/no-metric"
    p = api.call("POST", "/reward", {"user": "nobody", "metric": "sales", "reward": 1}, tenant=tenant, expect=422)
    assert p.pointers == ["/metric"] and p.json["type"] == "/problems/no-metric"
    many = api.call("POST", "/reward", [{"decision": "d1", "metric": "sales", "reward": 1}, {"decision": "d1", "metric": "clicked", "reward": 1}], tenant=tenant).json
    assert many[0]["status"] == 422 and many[1] == {"applied": True}
    api.call("POST", "/reward", {"decision": "d1", "metric": "", "reward": 1}, tenant=tenant, expect=400)
    api.put_tenant(f"{name}-plain", algorithm="ucb")
    show(api, f"{name}-plain", "d1")
    api.call("POST", "/reward", {"decision": "d1", "metric": "clicked", "reward": 1}, tenant=f"{name}-plain", expect=422)


@pytest.mark.parametrize("metrics, pointer", [
    ([{"name": "a"}, {"name": "a"}], "/metrics/1/name"),
    ([{"name": "a", "range": [1, 1]}], "/metrics/0/range"),
    ([{"name": "a", "role": "guardrail", "harm": 1}], "/metrics/0/harm"),
    ([{"name": "a", "weight": 2}], "/metrics/0/weight"),
    ([{"name": "a", "role": "objective"}, {"name": "b", "role": "objective"}], "/aggregation"),
    ([{"name": "a", "role": "objective", "weight": 0.5}], "/aggregation"),
    ([{"name": "b"}, {"name": "a", "role": "objective", "aggregation": "sum"}], "/metrics/1/aggregation"),
    ([{"name": "a", "role": "objective", "aggregation": "last"}], "/metrics/0/aggregation")])
def test_metrics_that_do_not_go_together_are_refused_by_pointer(api, name, metrics, pointer):
    assert api.call("PUT", f"/tenants/{name}", {"metrics": metrics}, expect=422).pointers == [pointer]


def test_a_configuration_tells_its_metrics_in_full_and_loses_them_by_null(api, tenant):
    got = api.call("GET", f"/tenants/{tenant}").json["configuration"]["metrics"]
    usual = {"role": "observed", "weight": 1, "range": [0, 1], "aggregation": "first", "default": 0, "harm": 0, "level": 0.05}
    assert got == [{**usual, **m} for m in METRICS]
    version = api.call("PUT", f"/tenants/{tenant}", configuration()).json["version"]
    assert version == 1  # the same configuration is no new version
    api.call("PATCH", f"/tenants/{tenant}", {"metrics": None})
    assert "metrics" not in api.call("GET", f"/tenants/{tenant}").json["configuration"]


def test_a_single_objective_is_aggregated_as_the_tenant_says(api, name):
    """Left out or told alike; a patch of the tenant's own takes it along, and what disagrees is refused and changes nothing."""
    def objective(*then):
        got = api.call("GET", f"/tenants/{name}").json["configuration"]
        return got["aggregation"], got["metrics"][0]["aggregation"]
    sale = {"name": "sale", "role": "objective"}
    api.put_tenant(name, algorithm="ucb", aggregation="sum", metrics=[{**sale, "aggregation": "sum"}, {"name": "seen", "aggregation": "last"}])
    assert objective() == ("sum", "sum")
    api.call("PATCH", f"/tenants/{name}", {"aggregation": "last"})
    assert objective() == ("last", "last")
    for refused in ({"metrics": [{**sale, "aggregation": "sum"}]}, {"aggregation": "first", "metrics": [{**sale, "aggregation": "last"}]}):
        p = api.call("PATCH", f"/tenants/{name}", refused, expect=422)
        assert p.pointers == ["/metrics/0/aggregation"] and "tenant's" in p.json["errors"][0]["detail"]
    assert objective() == ("last", "last")
    api.call("PATCH", f"/tenants/{name}", {"aggregation": "sum", "metrics": [{**sale, "weight": 2, "aggregation": "first"}]})
    assert objective() == ("sum", "first")  # of a weighted sum each has its own
    api.call("PATCH", f"/tenants/{name}", {"metrics": [sale]})
    assert objective() == ("sum", "sum")
    api.call("PATCH", f"/tenants/{name}", {"aggregation": None})
    assert objective() == ("first", "first")


def test_a_single_objective_has_a_name_and_all_else_is_as_without(api, name):
    tenant = name
    api.put_tenant(tenant, algorithm="ucb", aggregation="last", metrics=[{"name": "sale", "role": "objective"}])
    assert api.call("GET", f"/tenants/{tenant}").json["configuration"]["metrics"][0]["aggregation"] == "last"
    show(api, tenant, "d1")
    tell(api, tenant, "d1", "sale", 1, id="o1")
    assert tell(api, tenant, "d1", "sale", 1, id="o1") == {"applied": True}
    assert tell(api, tenant, "d1", None, 1)["duplicate"]
    assert lines(api, tenant, "rewarded", "measured") == [{"type": "rewarded", "decision": "d1", "reward": 1, "id": "o1"}]


# ---- a weighted sum ----------------------------------------------------------------------------------------------------------

def test_a_weighted_sum_is_learned_as_its_values_change(api, name):
    """The model is that of a tenant which is told the changes of the sum itself."""
    plain = f"{name}-plain"
    api.put_tenant(name, **configuration(WEIGHTED, aggregation="sum", seed=5))
    api.put_tenant(plain, **configuration([METRICS[2]], aggregation="sum", seed=5))
    values, rng = {}, random.Random(11)
    weight = {m["name"]: m.get("weight", 0) for m in WEIGHTED}
    for k in range(60):
        if k < 20:
            for tenant in (name, plain):
                show(api, tenant, f"d{k}", user=f"u{k % 3}")
        d, metric, value = f"d{rng.randrange(min(k + 1, 20))}", rng.choice(["click", "sale", "items", "time"]), rng.randrange(8) / 8
        old = values.get((d, metric))
        first_again = metric == "click" and old is not None
        tell(api, name, d, metric, value, expect=(200, 409) if first_again else 200)
        if first_again or (metric == "sale" and old == value):
            continue
        values[d, metric] = value + (old or 0) if metric == "items" else value
        if metric != "time":
            tell(api, plain, d, None, weight[metric] * (values[d, metric] - (old or 0)))
    assert believed(api, name) == believed(api, plain)
    learned = [e for e in api.events(name) if e["type"] == "rewarded"]
    assert learned and all(e["metric"] in weight and "value" in e for e in learned)
    for (d, metric), value in values.items():
        last = [e for e in api.events(name) if e.get("decision") == d and e.get("metric") == metric][-1]
        assert last.get("total", last.get("value", last["reward"])) == value
    assert api.verify(name)["equal"]


# ---- windows --------------------------------------------------------------------------------------------------------------------

def test_after_the_window_values_are_kept_and_do_not_count(api, name):
    api.put_tenant(name, **configuration(reward_window_s=0.3))
    show(api, name, "d1")
    tell(api, name, "d1", "time", 5)
    assert wait_for(lambda: lines(api, name, "expired"))
    assert tell(api, name, "d1", "time", 5)["duplicate"]
    for _ in range(2):  # the second one is known
        assert tell(api, name, "d1", "time", 6, expect=410)["status"] == 410
        assert tell(api, name, "d1", "clicked", 1, expect=410)["status"] == 410
    assert lines(api, name, "measured")[1:] == [
        {"type": "measured", "decision": "d1", "metric": "time", "reward": 6, "late": True},
        {"type": "measured", "decision": "d1", "metric": "clicked", "reward": 1, "late": True}]
    assert tell(api, name, "nothing", "time", 1, expect=404)["type"] == "/problems/no-decision"


def test_a_value_told_before_a_compaction_is_known_after_the_window(api, name):
    """What an open decision had stands in the summary's line alone: of slot 0, of another slot, of a weighted sum."""
    api.put_tenant(name, **configuration(WEIGHTED, aggregation="sum", reward_window_s=2))
    show(api, name, "d1")
    arms = [r["arm"] for r in show(api, name, "slate", top=2)["ranking"]]
    told = [("d1", "time", 5, {}), ("d1", "click", 0.25, {}), ("d1", "sale", 3, {}), ("slate", "time", 7, {"arm": arms[0]}), ("slate", "time", 8, {"arm": arms[1]})]
    for d, metric, value, fields in told:
        assert tell(api, name, d, metric, value, **fields) == {"applied": True}
    for i in range(3):
        show(api, name, f"later{i}", user="v")
    api.call("POST", f"/tenants/{name}/compact", {"keep_events": 1})
    assert not lines(api, name, "measured", "rewarded")
    assert wait_for(lambda: {e["decision"] for e in lines(api, name, "expired")} >= {"d1", "slate"})
    for d, metric, value, fields in told:
        assert tell(api, name, d, metric, value, **fields, expect=(200, 410)) == {"applied": False, "duplicate": True}, (d, metric)
        assert tell(api, name, d, metric, value + 1, **fields, expect=410)["status"] == 410
    tell(api, name, "slate", "time", 8, expect=410)  # slot 0 has 7
    tell(api, name, "d1", "items", 1, expect=410)


def test_a_deferred_decision_has_values_once_it_is_shown(api, tenant):
    show(api, tenant, "d1", defer=True)
    tell(api, tenant, "d1", "time", 1, expect=409)
    api.call("POST", "/activate", {"decision": "d1"}, tenant=tenant)
    assert tell(api, tenant, "d1", "time", 1) == {"applied": True}


# ---- restart, compaction, export, erasure, replay -----------------------------------------------------------------------------------

def play(api, tenant, rng, values, first, n):
    """Values as a plain dictionary has them; what the server answers is compared."""
    how = {m["name"]: m.get("aggregation", "first") for m in METRICS}
    for k in range(first, first + n):
        show(api, tenant, f"d{k}", user=f"u{k % 4}")
        for _ in range(2):
            d, metric, value = f"d{rng.randrange(k + 1)}", rng.choice(list(how)), rng.randrange(4)
            check(api, tenant, values, how[metric], d, metric, value)


def check(api, tenant, values, how, d, metric, value):
    old = values.get((d, metric))
    answer = tell(api, tenant, d, metric, value, expect=(200, 409))
    if old is None or how == "sum" or (how == "last" and old != value):
        assert answer == {"applied": True}, (d, metric, value, old)
        values[d, metric] = value + (old or 0) if how == "sum" else value
    elif old == value:
        assert answer == {"applied": False, "duplicate": True}
    else:
        assert answer["status"] == 409


def test_values_are_known_after_a_kill_a_restart_a_compaction_and_elsewhere(boot):
    server = boot()
    api, rng, values = Client(server), random.Random(5), {}
    api.put_tenant("t", **configuration())
    play(api, "t", rng, values, 0, 40)
    digest = api.digest("t")
    server.restart()  # kill -9
    assert api.digest("t") == digest and api.verify("t")["equal"]
    play(api, "t", rng, values, 40, 20)
    api.call("POST", "/tenants/t/compact", {"keep_events": 10})
    assert any(e.get("part") == "decision" and e.get("values") for e in api.events("t"))
    play(api, "t", rng, values, 60, 20)
    server.terminate()
    server.start()
    play(api, "t", rng, values, 80, 20)
    text = api.call("GET", "/tenants/t/events", query={"limit": 100000}).text
    api.call("POST", "/tenants/copy/import", raw=text, kind=NDJSON, expect=(200, 201))
    assert api.digest("copy") == api.digest("t")
    play(api, "copy", rng, dict(values), 100, 10)
    play(api, "t", rng, values, 100, 10)
    assert api.verify("t")["equal"]


def test_an_erased_user_takes_the_values_along(api, tenant):
    show(api, tenant, "d1", user="eve")
    show(api, tenant, "d2", user="bob")
    for d in ("d1", "d2"):
        tell(api, tenant, d, "revenue", 5, id=f"order-{d}")
    api.call("DELETE", f"/tenants/{tenant}/users/eve")
    assert [e["decision"] for e in lines(api, tenant, "measured")] == ["d2"]
    assert "order-d1" not in api.call("GET", f"/tenants/{tenant}/events").text
    assert tell(api, tenant, "d1", "revenue", 5, expect=404)
    assert api.verify(tenant)["equal"]


def test_a_decision_shows_its_values_among_its_rewards(api, tenant):
    show(api, tenant, "d1")
    tell(api, tenant, "d1", "revenue", 5)
    got = api.call("GET", f"/tenants/{tenant}/decisions/d1").json
    assert got["state"] == "open" and [r["metric"] for r in got["rewards"]] == ["revenue"]


def test_a_challenger_learns_the_objective_alone(api, name):
    api.put_tenant(name, **configuration(challengers={"next": {"algorithm": "ts"}}))
    for k in range(20):
        show(api, name, f"d{k}", user=f"u{k % 3}")
        tell(api, name, f"d{k}", "revenue", k)
        if k % 2:
            tell(api, name, f"d{k}", None, (k % 4) / 4)
    last = api.events(name)[-1]["seq"]

    def one():
        return api.call("GET", f"/tenants/{name}/challengers").json["challengers"][0]
    assert wait_for(lambda: one()["lag"] == 0 and one()["seq"] == last), one()
    assert one()["learned"] == 10 and not one()["stopped"]
