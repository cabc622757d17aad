"""Azure Personalizer's Rank, Reward, Activate and service configuration, for code that called that service (docs/PERSONALIZER.md). tests/contract runs
both of its clients from npm, unmodified."""
import json
import math
import random
import threading
import time
import urllib.parse

import pytest

from harness import Client, Server, run_ctl

ACTIONS = [{"id": name} for name in "abcde"]


def path(rest, version="v1.0"):
    return f"/personalizer/{version}/{rest}"


def rank(api, tenant, expect=201, headers=None, version="v1.0", **body):
    return api.call("POST", path("rank", version), {"actions": ACTIONS, **body}, tenant=tenant, headers=headers, expect=expect)


def event(api, tenant, name, what, body=None, expect=204):
    return api.call("POST", path(f"events/{urllib.parse.quote(name, safe='')}/{what}"), body, tenant=tenant, expect=expect)


def service(api, tenant, body=None, expect=200):
    return api.call("PUT" if body is not None else "GET", path("configurations/service"), body, tenant=tenant, expect=expect)


def patch(api, name, **fields):
    api.call("PATCH", f"/tenants/{name}", fields)


def wait_expired(api, name, decision):
    end = time.monotonic() + 30
    while not any(e["type"] == "expired" and e["decision"] == decision for e in api.events(name)):
        assert time.monotonic() < end
        time.sleep(0.02)


def targets(answer):
    return [d["target"] for d in answer.json["error"]["details"]]


def word(answer):
    return answer.headers["Laplaced-Reward"]


# --- Rank ------------------------------------------------------------------------------------------------------------

def test_probabilities_are_those_of_the_log_and_of_the_draws(api, name):
    """Whose means differ: an epsilon-greedy rule over five actions, whose frequencies agree with what is told."""
    api.put_tenant(name, algorithm="ucb", tune=False, rule={"type": "ucb", "epsilon": 0.25})
    for arm in "abcde":
        for _ in range(4):
            api.observe("-", arm, 1 if arm == "c" else 0, tenant=name)
    n, shown = 400, dict.fromkeys("abcde", 0)
    for i in range(n):
        told = rank(api, name, eventId=f"e{i}").json
        probability = {a["id"]: a["probability"] for a in told["ranking"]}
        assert list(probability.values()) == sorted(probability.values(), reverse=True) and math.isclose(sum(probability.values()), 1)
        assert probability == pytest.approx({a: 0.25 / 5 + 0.75 * (a == "c") for a in "abcde"})
        shown[told["rewardActionId"]] += 1
    lines = {e["decision"]: e for e in api.events(name) if e["type"] == "decided"}
    assert all(lines[f"e{i}"]["user"] == "-" for i in range(n))
    assert abs(shown["c"] / n - 0.8) < 5 * math.sqrt(0.16 / n)


def test_what_is_excluded_keeps_its_place(api, name):
    api.put_tenant(name, algorithm="random")
    draw = random.Random(7)
    for _ in range(30):
        out = draw.sample("abcde", draw.randint(0, 4))
        told = rank(api, name, excludedActions=out).json
        for i, action in enumerate(told["ranking"]):
            assert (action["probability"] == 0) == ("abcde"[i] in out)
            assert action["probability"] == 0 or math.isclose(action["probability"], 1 / (5 - len(out)))
        assert [a["id"] for a in told["ranking"]] == list("abcde") and told["rewardActionId"] not in out


@pytest.mark.parametrize("version", ["v1.0", "v1.1-preview.1", "v1.1-preview.2", "v1.1-preview.3"])
def test_every_version_is_served(api, name, version):
    api.put_tenant(name, algorithm="random")
    assert rank(api, name, version=version, eventId="e").json["eventId"] == "e"


@pytest.mark.parametrize("version", ["v1.1-preview.4", "v2.0", "v1.00", "v1", "", "default"])
def test_no_other_version_is(api, name, version):
    api.put_tenant(name, algorithm="random")
    rank(api, name, version=version, expect=404)


def test_where_the_tenant_has_no_dimensions_features_are_said_to_be_ignored(api, name):
    api.put_tenant(name, algorithm="random")
    assert rank(api, name, contextFeatures=[{"a": 1}]).headers["Laplaced-Ignored"] == "contextFeatures, actions.features"


def test_a_tenant_that_wants_vectors_refuses_names_by_their_place(api, name):
    api.put_tenant(name, algorithm="ts", context_dim=3, arm_dim=2)
    told = rank(api, name, contextFeatures=[{"a": 1}], expect=400).json["error"]
    assert told["code"] == "InvalidRankRequest" and "/contextFeatures" in [d["target"] for d in told["details"]]
    assert "/actions/0/features" in [d["target"] for d in told["details"]]
    assert [e for e in api.events(name) if e["type"] == "decided"] == []


@pytest.mark.parametrize("body, target", [
    ({"actions": []}, "/actions"), ({"actions": None}, "/actions"), ({"actions": {"a": 1}}, "/actions"),
    ({"actions": [{"id": str(i)} for i in range(51)]}, "/actions"), ({"actions": [{}]}, "/actions/0/id"), ({"actions": ["a"]}, "/actions/0"),
    ({"actions": [{"id": ""}]}, "/actions/0/id"), ({"actions": [{"id": "x" * 257}]}, "/actions/0/id"), ({"actions": [{"id": "a"}, {"id": "a"}]}, "/actions/1"),
    ({"actions": [{"id": "a", "features": {}}]}, "/actions/0/features"), ({"actions": [{"id": "a", "features": [1]}]}, "/actions/0/features/0"),
    ({"contextFeatures": {"a": 1}}, "/contextFeatures"), ({"contextFeatures": ["a"]}, "/contextFeatures/0"),
    ({"contextFeatures": [{f"f{i}": 1 for i in range(1000)}]}, "/contextFeatures"), ({"contextFeatures": [{}] * 1001}, "/contextFeatures"),
    ({"excludedActions": "a"}, "/excludedActions"), ({"excludedActions": [1.5]}, "/excludedActions/0"), ({"excludedActions": list("abcde")}, "/excludedActions"),
    ({"eventId": "x" * 257}, "/eventId"), ({"eventId": 1.5}, "/eventId"), ({"eventId": {}}, "/eventId"), ({"deferActivation": 1}, "/deferActivation")])
def test_a_faulty_body_is_refused_by_field_and_changes_nothing(api, name, body, target):
    api.put_tenant(name, algorithm="random")
    before = api.events(name)
    answer = rank(api, name, expect=400, **body)
    assert target in targets(answer) and answer.headers["x-ms-error-code"] == answer.json["error"]["code"] == "InvalidRankRequest"
    assert api.events(name) == before


@pytest.mark.parametrize("raw, kind", [(b"{", "application/json"), (b"[]", "application/json"), (b"", "application/json"), (b"{}", "text/plain")])
def test_what_is_no_such_body_is_refused(api, name, raw, kind):
    api.put_tenant(name, algorithm="random")
    answer = api.call("POST", path("rank"), raw=raw, kind=kind, tenant=name, expect=400)
    assert answer.json["error"]["code"] == "InvalidRankRequest"


@pytest.mark.parametrize("again", [{"actions": [{"id": "x"}, {"id": "y"}]}, {"excludedActions": ["a"]}, {"actions": ACTIONS[:4]}, {"actions": [*ACTIONS, {"id": "f"}]}])
def test_an_event_that_is_ranked_again_among_others_is_refused(api, name, again):
    api.put_tenant(name, algorithm="random")
    first = rank(api, name, eventId="e").json
    answer = rank(api, name, eventId="e", expect=400, **again)
    assert targets(answer) == ["/eventId"] and answer.json["error"]["code"] == "InvalidRankRequest"
    assert rank(api, name, eventId="e", actions=ACTIONS[::-1]).json["rewardActionId"] == first["rewardActionId"]


def test_null_is_nothing(api, name):
    api.put_tenant(name, algorithm="random")
    told = rank(api, name, contextFeatures=None, excludedActions=None, eventId=None, deferActivation=None,
                actions=[{"id": "a", "features": None}]).json
    assert told["rewardActionId"] == "a" and len(told["eventId"]) == 26


NAMES = {"features": {"mapping": "names-1", "dim": 64}}


def test_features_are_those_of_select_bit_for_bit(api, name):
    """Rank's lists of objects, and the same written as one object each: equal means, deviations and propensities of every arm."""
    api.put_tenant(name, algorithm="ek-ucb", rule={"type": "ucb", "epsilon": 0.5}, **NAMES)
    for i, taste in enumerate(["salty", "sweet", "sour"] * 5):
        api.observe("-", {"id": f"o{i}", "features": {"taste": taste, "heat": i}}, float(taste == "sweet"), context={"user": {"age": "young"}, "hour": i}, tenant=name)
    told = rank(api, name, eventId="e", contextFeatures=[{"user": {"age": "young", "floor": 1}, "tag": "x"}, {"hour": 12, "n": 1}, {"user": {"floor": 3, "city": "Cluj"}, "n": 2, "tag": "y"}],
                actions=[{"id": "a", "features": [{"taste": "salty"}, {"heat": 3}]}, {"id": "b", "features": [{"taste": "sweet"}]},
                         {"id": "c", "features": [{"_hidden": 1, "taste": "sour", "parts": {"x": 1}}, {"parts": {"y": [1, 2]}}]}])
    line = [e for e in api.events(name) if e["type"] == "decided"][-1]
    same = api.select("-", decision="f", dry_run=True, explain=True, context={"user": {"age": "young", "floor": 3, "city": "Cluj"}, "hour": 12, "n": 2, "tag": ["x", "y"]}, tenant=name,
                      candidates=[{"id": "a", "features": {"taste": "salty", "heat": 3}}, {"id": "b", "features": {"taste": "sweet"}},
                                  {"id": "c", "features": {"taste": "sour", "parts": {"x": 1, "y": [1, 2]}}}])
    assert {r["arm"]: r["propensity"] for r in same["ranking"]} == {r["id"]: r["probability"] for r in told.json["ranking"]}
    mean = next(r["mean"] for r in same["ranking"] if r["arm"] == told.json["rewardActionId"])
    assert line["mean"] == mean and any(line["context"]) and "Laplaced-Ignored" not in told.headers


def test_a_log_of_that_service_and_live_ranks_meet_in_one_model(api, server, name, tmp_path):
    """The same event, as a line of the service's log and as a Rank: equal vectors of context and action."""
    api.put_tenant(name, algorithm="ek-ucb", **NAMES)
    context, features = [{"timeofday": "Evening", "user": {"age": 3}}, {"name": "Cathy", "user": {"city": "x"}}], [{"type": "hot"}, {"size": {"ml": 250}}]
    line = {"_label_cost": -1.0, "_label_probability": 0.5, "_label_Action": 1, "_labelIndex": 0, "Timestamp": "2026-01-02T03:04:05Z", "EventId": "x",
            "a": [1, 2], "p": [0.5, 0.5], "c": {"FromUrl": context, "_multi": [{"_tag": n, "i": {"constant": 1, "id": n}, "j": features} for n in ("one", "two")]}}
    (tmp_path / "log").write_text(json.dumps(line) + "\n")
    run_ctl(server, "--tenant", name, "import", "--format", "dsjson", str(tmp_path / "log"))
    rank(api, name, eventId="e", contextFeatures=context, actions=[{"id": "one", "features": features}])
    taught, live = (next(e for e in api.events(name) if e["type"] == kind) for kind in ("observed", "decided"))
    assert (taught["context"], taught["features"]) == (live["context"], live["features"]) and any(live["context"]) and any(live["features"])


def random_features(draw, depth=2):
    """Objects of strings, numbers, truths, nothing, lists and objects, by chance."""
    makers = [lambda: draw.choice(["x", "y z", "é", "", "7", "a^b=c"]), lambda: draw.uniform(-9, 9), lambda: draw.randrange(-3, 4), lambda: draw.random() < 0.5, lambda: None,
              lambda: [draw.uniform(-1, 1) for _ in range(draw.randrange(1, 20))], *([lambda: random_features(draw, depth - 1)] if depth > 0 else [])]
    return {draw.choice(["a", "b", "user", "_no", "x/y", "ab", "hour"]) + draw.choice(["", "1"]): draw.choice(makers)() for _ in range(draw.randrange(1, 5))}


@pytest.mark.parametrize("seed", range(4))
def test_a_log_of_chance_teaches_what_live_calls_with_the_same_objects_teach(api, server, name, tmp_path, seed):
    """A dsjson log imported; the same events taught by /observe; the same objects ranked live: equal vectors, equal models, equal probabilities."""
    draw, lines = random.Random(seed), []
    for t in (name, name + "-live"):
        api.put_tenant(t, algorithm="ek-ucb", rule={"epsilon": 0.3}, features={"mapping": "names-1", "dim": 32, "seed": seed})
    for i in range(40):
        n = draw.randrange(2, 6)
        context = [random_features(draw) for _ in range(draw.randrange(1, 3))]
        actions = [[random_features(draw)] for _ in range(n)]
        chosen, p, cost = draw.randrange(n), draw.uniform(0.1, 1), -draw.choice([0, 1, 0.5])
        lines.append((context, actions, {"_label_cost": cost, "_label_probability": p, "_label_Action": chosen + 1, "_labelIndex": chosen, "Timestamp": f"2026-01-02T03:04:{i:02}Z", "EventId": f"x{i}",
                                         "a": [chosen + 1, *[k + 1 for k in range(n) if k != chosen]], "p": [p, *[(1 - p) / max(n - 1, 1)] * (n - 1)],
                                         "c": {"FromUrl": context, "_multi": [{"_tag": f"t{k}", "i": {"id": f"t{k}"}, "j": f} for k, f in enumerate(actions)]}}))
    (tmp_path / "log").write_text("".join(json.dumps(line) + "\n" for *_, line in lines))
    run_ctl(server, "--tenant", name, "import", "--format", "dsjson", str(tmp_path / "log"))
    taught = [e for e in api.events(name) if e["type"] == "observed"]
    assert len(taught) == 40
    for i, (context, actions, line) in enumerate(lines):
        ranked = rank(api, name, eventId=f"r{i}", contextFeatures=context, actions=[{"id": f"t{line['_labelIndex']}", "features": actions[line["_labelIndex"]]}])
        live = api.events(name)[-1]
        assert ranked.status == 201 and (live["context"], live["features"]) == (taught[i]["context"], taught[i]["features"])
    for e in taught:
        api.call("POST", "/observe", {k: v for k, v in {"user": e["user"], "arm": {"id": e["arm"], "features": e["features"]}, "reward": e["reward"], "propensity": e["propensity"], "context": e["context"]}.items()}, tenant=name + "-live")
    context, actions, _ = lines[-1]
    body = dict(contextFeatures=context, actions=[{"id": f"t{k}", "features": f} for k, f in enumerate(actions)])
    told = [{a["id"]: a["probability"] for a in rank(api, t, eventId="last", **body).json["ranking"]} for t in (name, name + "-live")]
    assert told[0] == told[1]


def test_without_features_the_vectors_are_zero(api, name):
    api.put_tenant(name, algorithm="ek-ucb", **NAMES)
    rank(api, name, eventId="e", actions=[{"id": "a", "features": None}, {"id": "b"}])
    line = [e for e in api.events(name) if e["type"] == "decided"][-1]
    assert line["context"] == [0] * 64 and line["features"] == [0] * 64


@pytest.mark.parametrize("body, target", [
    ({"contextFeatures": [{"a": [[1]]}]}, "/contextFeatures/a/0"), ({"actions": [{"id": "a", "features": [{"x": {"y": [[1]]}}]}]}, "/actions/0/features/x/y/0"),
    ({"contextFeatures": [{"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": 1}}}}}}}}}]}, "/contextFeatures/a/b/c/d/e/f/g/h/i")])
def test_what_cannot_be_mapped_is_told_by_its_place_in_the_one_object(api, name, body, target):
    api.put_tenant(name, algorithm="ek-ucb", **NAMES)
    assert targets(rank(api, name, expect=400, **body)) == [target]
    if "actions" in body:  # its place is that of the body, also behind one that is excluded
        actions = [{"id": "first"}, *body["actions"]]
        assert targets(rank(api, name, expect=400, actions=actions, excludedActions=["first"])) == [target.replace("/0/", "/1/", 1)]


# --- Reward, Activate ------------------------------------------------------------------------------------------------

def test_what_came_of_a_reward_is_told(api, name):
    api.put_tenant(name, algorithm="random", reward_window_s=3600)
    rank(api, name, eventId="e")
    rank(api, name, eventId="later", deferActivation=True)
    assert word(event(api, name, "e", "reward", {"value": 0.5})) == "learned"
    assert word(event(api, name, "e", "reward", {"value": 0.5})) == "duplicate"
    assert word(event(api, name, "e", "reward", {"value": 0.25})) == "ignored"
    assert word(event(api, name, "nobody", "reward", {"value": 1})) == "unknown"
    assert word(event(api, name, "later", "reward", {"value": 1})) == "ignored"
    patch(api, name, reward_window_s=0.05)
    rank(api, name, eventId="gone")
    wait_expired(api, name, "gone")
    assert word(event(api, name, "gone", "reward", {"value": 1})) == "late"
    assert [(e["decision"], e["reward"]) for e in api.events(name) if e["type"] == "rewarded"] == [("e", 0.5)]


@pytest.mark.parametrize("body", [{}, {"value": 1.01}, {"value": -1.5}, {"value": "1"}, {"value": None}, [], {"value": True}])
def test_a_reward_is_a_number_from_minus_one_to_one(api, name, body):
    api.put_tenant(name, algorithm="random")
    rank(api, name, eventId="e")
    answer = event(api, name, "e", "reward", body, expect=400)
    assert answer.json["error"]["code"] == "InvalidRewardRequest"
    assert [e["type"] for e in api.events(name)] == ["configured", "decided"]


@pytest.mark.parametrize("id", ["a/b", "%", "a%2Fb", "é€𝄞", "x" * 129, "y" * 256, "reward", "a?b#c", " "])
def test_any_id_finds_its_event(api, name, id):
    api.put_tenant(name, algorithm="random")
    assert rank(api, name, eventId=id, deferActivation=True).json["eventId"] == id
    assert word(event(api, name, id, "reward", {"value": 1})) == "ignored"
    event(api, name, id, "activate")
    assert word(event(api, name, id, "reward", {"value": 1})) == "learned"
    assert rank(api, name, eventId=id).json["eventId"] == id  # its first answer
    assert [e["type"] for e in api.events(name)] == ["configured", "decided", "activated", "rewarded"]


def test_an_id_that_is_too_long_is_refused(api, name):
    api.put_tenant(name, algorithm="random")
    event(api, name, "x" * 257, "reward", {"value": 1}, expect=400)
    assert event(api, name, "x" * 257, "activate", expect=400).json["error"]["code"] == "InvalidEventIdToActivate"


def test_an_activation_in_time_counts_once_and_a_late_one_is_no_failure(api, name):
    api.put_tenant(name, algorithm="random", reward_window_s=0.05)
    rank(api, name, eventId="e", deferActivation=True)
    wait_expired(api, name, "e")
    event(api, name, "e", "activate")
    assert event(api, name, "nobody", "activate", expect=400).json["error"]["code"] == "InvalidEventIdToActivate"


# --- the service configuration ---------------------------------------------------------------------------------------

def test_a_tenants_configuration_is_told_in_that_services_words(api, name):
    api.put_tenant(name, algorithm="ts", reward_window_s=90.5, default_reward=-0.25, aggregation="last", retention={"age_s": 86400 * 2.5})
    assert service(api, name).json == {"rewardWaitTime": "PT90.5S", "defaultReward": -0.25, "rewardAggregation": "last", "explorationPercentage": 0,
                                       "modelExportFrequency": "PT1S", "logRetentionDays": 2.5, "logMirrorEnabled": False, "learningMode": "Online",
                                       "isAutoOptimizationEnabled": False, "lastConfigurationEditDate": api.events(name)[0]["at"]}


def test_what_nobody_reads_is_kept_and_told_again(api, name):
    api.put_tenant(name, algorithm="random")
    words = {"modelExportFrequency": "PT5M", "modelRetrainDays": 3, "autoOptimizationFrequency": "P7D", "autoOptimizationStartDate": "2022-05-05T07:00:00Z"}
    first = service(api, name, words).json
    assert {k: first[k] for k in words} == words and first["lastConfigurationEditDate"] == api.events(name)[-1]["at"]
    before = api.events(name)
    assert service(api, name, first).json == first and api.events(name) == before
    service(api, name, {"modelExportFrequency": "PT2M"})
    patch(api, name, default_reward=0.5)
    told = service(api, name).json
    assert {k: told[k] for k in words} == {**words, "modelExportFrequency": "PT2M"} and told["lastConfigurationEditDate"] == api.events(name)[-1]["at"]
    shown = api.call("GET", f"/tenants/{name}").json["configuration"]["personalizer"]
    assert shown == {"model_export_frequency": "PT2M", "model_retrain_days": 3, "auto_optimization_frequency": "P7D", "auto_optimization_start_date": "2022-05-05T07:00:00Z"}
    patch(api, name, personalizer=None)
    assert "personalizer" not in api.call("GET", f"/tenants/{name}").json["configuration"] and service(api, name).json["modelExportFrequency"] == "PT1S"


@pytest.mark.parametrize("member, value", [("modelExportFrequency", "5 minutes"), ("modelExportFrequency", "PT0S"), ("modelExportFrequency", 5), ("modelRetrainDays", -1), ("modelRetrainDays", 1.5),
                                           ("modelRetrainDays", 2147483648), ("autoOptimizationFrequency", "P"), ("autoOptimizationStartDate", "tomorrow"), ("autoOptimizationStartDate", "2022-05-05"),
                                           ("autoOptimizationStartDate", "2022-02-30T07:00:00Z"), ("autoOptimizationStartDate", "2022-05-05T07:00:00+25:00")])
def test_what_is_kept_is_looked_at(api, name, member, value):
    api.put_tenant(name, algorithm="random")
    answer = service(api, name, {member: value}, expect=400)
    assert answer.json["error"]["code"] == "InvalidServiceConfiguration" and targets(answer) == [f"/{member}"] and len(api.events(name)) == 1


@pytest.mark.parametrize("configuration", [{"default_reward": None}, {"default_reward": 5}, {"aggregation": "last"}, {"reward_window_s": 0.05},
                                           {"reward_window_s": 1e7}, {"retention": {"age_s": 5000}}, {}])
def test_who_writes_back_what_was_told_changes_nothing(api, name, configuration):
    api.put_tenant(name, algorithm="laplaced", **configuration)
    before, told = api.events(name), service(api, name).json
    assert service(api, name, told).json == told and api.events(name) == before
    service(api, name, {**told, "explorationPercentage": 0.25})
    now = api.call("GET", f"/tenants/{name}").json["configuration"]
    assert now["rule"]["epsilon"] == 0.25 and all(now[k] == v if k != "retention" else now[k]["age_s"] == v["age_s"] for k, v in configuration.items())


@pytest.mark.parametrize("text, seconds", [("PT5S", 5), ("P2D", 172800), ("P1DT1H1M1.5S", 90061.5), ("PT48H", 172800), ("PT10M", 600)])
def test_durations_are_read(api, name, text, seconds):
    api.put_tenant(name, algorithm="random")
    answer = service(api, name, {"rewardWaitTime": text})
    assert answer.headers["Laplaced-Ignored"] == "modelExportFrequency, modelRetrainDays, autoOptimizationFrequency, autoOptimizationStartDate"
    assert api.call("GET", f"/tenants/{name}").json["configuration"]["reward_window_s"] == seconds
    assert api.events(name)[-1]["type"] == "configured"


@pytest.mark.parametrize("text", ["", "P", "PT", "5", "PT5", "P1W", "P1M", "P1Y", "PT-5S", "pt5s", "P1DT", "PT1H1H1D", "P1H", "PTS", "PT1e9S", "PT0x10S", "PTinfS", " PT5S", "PT5S "])
def test_what_is_no_duration_is_refused(api, name, text):
    api.put_tenant(name, algorithm="random")
    assert targets(service(api, name, {"rewardWaitTime": text}, expect=400)) == ["/rewardWaitTime"]
    assert len(api.events(name)) == 1


def test_members_that_are_left_out_stay_as_they_are_and_what_is_the_same_is_not_logged(api, name):
    api.put_tenant(name, algorithm="random", default_reward=0.5)
    service(api, name, {"explorationPercentage": 0.3, "rewardWaitTime": None, "someday": {"more": 1}})
    configuration = api.call("GET", f"/tenants/{name}").json["configuration"]
    assert (configuration["default_reward"], configuration["rule"]["epsilon"], configuration["reward_window_s"]) == (0.5, 0.3, 3600)
    before = api.events(name)
    service(api, name, {"explorationPercentage": 0.3})
    service(api, name, {})
    assert api.events(name) == before


def test_what_the_tenant_refuses_is_told_by_that_services_names(api, name):
    api.put_tenant(name, algorithm="random", reward_window_s=3600, retention={"age_s": 86400})
    answer = service(api, name, {"rewardWaitTime": "P2D"}, expect=400)
    assert answer.json["error"]["code"] == "InvalidServiceConfiguration" and targets(answer) == ["/logRetentionDays"]


# --- the policy --------------------------------------------------------------------------------------------------------

def policy(api, tenant, body=None, method=None, expect=200):
    return api.call(method or ("PUT" if body is not None else "GET"), path("configurations/policy"), body, tenant=tenant, expect=expect)


def rule_of(api, name):
    configuration = api.call("GET", f"/tenants/{name}").json["configuration"]
    return configuration["rule"], configuration["confidence"], configuration["context_kernel"].get("degree")


GREEDY, SQUARE = "--cb_explore_adf --epsilon 0.2", "--cb_explore_adf --squarecb --gamma_scale 100 --gamma_exponent 0.25"


@pytest.mark.parametrize("arguments, rule, beta, ignored", [
    (GREEDY, {"type": "ucb", "epsilon": 0.2}, 0, None),
    (f"vw {GREEDY} --power_t 0 -l 0.001 --cb_type mtr -q GT --quadratic MR", {"type": "ucb", "epsilon": 0.2}, 0, "--power_t, -l, --cb_type, -q, --quadratic"),
    (SQUARE, {"type": "igw", "epsilon": 0, "gamma_scale": 100, "gamma_exponent": 0.25}, None, None),
    ("--cb_explore_adf --bag 5 --epsilon 0.1", {"type": "thompson", "epsilon": 0.1}, None, None),
    ("--cb_explore_adf --regcb", {"type": "ucb", "epsilon": 0}, None, None)])
def test_a_policy_is_the_rule_and_is_told_as_it_was_put(api, name, arguments, rule, beta, ignored):
    api.put_tenant(name, algorithm="ek-ucb", **NAMES)
    usual = rule_of(api, name)[1]["beta"]
    answer = policy(api, name, {"name": "Mine, of 2021", "arguments": arguments})
    assert answer.json == {"name": "Mine, of 2021", "arguments": arguments} and answer.headers.get("Laplaced-Ignored") == ignored
    now, confidence, _ = rule_of(api, name)
    assert {k: now[k] for k in rule} == rule and confidence["beta"] == (usual if beta is None else beta)
    assert api.events(name)[-1]["type"] == "configured" and len(api.events(name)) == 2
    assert policy(api, name).json == policy(api, name, answer.json).json == answer.json and len(api.events(name)) == 2
    assert policy(api, name, method="DELETE").json["name"] == "ek-ucb" and rule_of(api, name)[1]["beta"] == usual
    assert "personalizer" not in api.call("GET", f"/tenants/{name}").json["configuration"]


@pytest.mark.parametrize("configuration, arguments", [
    ({"algorithm": "ucb", "rule": {"epsilon": 0.5}}, "--cb_explore_adf --regcb --epsilon 0.5"),
    ({"algorithm": "ts"}, "--cb_explore_adf --bag 10 --epsilon 0"),
    ({"algorithm": "ek-ucb", "rule": {"type": "igw", "gamma_scale": 7}, **NAMES}, "--cb_explore_adf --squarecb --epsilon 0 --gamma_scale 7 --gamma_exponent 0.5"),
    ({"algorithm": "ek-ucb", "rule": {"epsilon": 0.25}, "confidence": {"type": "fixed", "beta": 0}, "context_kernel": {"type": "polynomial", "degree": 2, "offset": 1},
      "arm_kernel": {"type": "polynomial", "degree": 2, "offset": 1}, **NAMES}, "--cb_explore_adf --epsilon 0.25 -q ::")])
def test_a_rule_that_nobody_put_is_told_as_flags_and_stays_when_they_are_written_back(api, name, configuration, arguments):
    api.put_tenant(name, **configuration)
    told = policy(api, name).json
    assert told == {"name": configuration["algorithm"], "arguments": arguments}
    before = api.events(name)
    assert policy(api, name, told).json == told and api.events(name) == before


def test_all_pairs_are_polynomials_of_degree_2_where_there_are_some(api, name):
    api.put_tenant(name, algorithm="ek-ucb", context_kernel={"type": "polynomial", "degree": 1, "offset": 1}, arm_kernel={"type": "polynomial", "degree": 1, "offset": 1}, **NAMES)
    answer = policy(api, name, {"name": "p", "arguments": f"{GREEDY} -q ::"})
    assert answer.headers.get("Laplaced-Ignored") is None and rule_of(api, name)[2] == 2
    policy(api, name, {"name": "p", "arguments": GREEDY})
    assert rule_of(api, name)[2] == 1
    api.put_tenant(name + "-rbf", algorithm="ek-ucb", context_kernel={"type": "rbf"}, **NAMES)
    answer = policy(api, name + "-rbf", {"name": "p", "arguments": f"{GREEDY} -q ::"})
    assert answer.headers["Laplaced-Ignored"] == "-q" and answer.json["arguments"] == f"{GREEDY} -q ::"


def test_a_policy_whose_rule_has_been_changed_elsewhere_is_told_as_what_is_in_force(api, name):
    api.put_tenant(name, algorithm="ek-ucb", **NAMES)
    policy(api, name, {"name": "mine", "arguments": SQUARE})
    service(api, name, {"explorationPercentage": 0.125})
    assert policy(api, name).json == {"name": "ek-ucb", "arguments": "--cb_explore_adf --squarecb --epsilon 0.125 --gamma_scale 100 --gamma_exponent 0.25"}
    service(api, name, {"explorationPercentage": 0})
    assert policy(api, name).json == {"name": "mine", "arguments": SQUARE}


def test_a_policy_that_has_lost_its_name_or_its_arguments_is_put_anew(api, name):
    """A PATCH takes back the one without the other."""
    api.put_tenant(name, algorithm="ek-ucb", **NAMES)
    for member in ("policy_name", "policy_arguments"):
        policy(api, name, {"name": "p", "arguments": GREEDY})
        api.call("PATCH", f"/tenants/{name}", {"personalizer": {member: None}})
        assert policy(api, name).status == 200
        assert policy(api, name, {"name": "q", "arguments": SQUARE}).json == {"name": "q", "arguments": SQUARE}


@pytest.mark.parametrize("body, target, code", [
    ({}, "/name", "InvalidPolicyContract"), ({"name": "x"}, "/arguments", "InvalidPolicyContract"), ({"name": "x" * 257, "arguments": GREEDY}, "/name", "InvalidPolicyContract"),
    ({"name": "x", "arguments": "-" * 1025}, "/arguments", "InvalidPolicyContract"), ({"name": 1, "arguments": GREEDY}, "/name", "InvalidPolicyContract"),
    ({"name": "x", "arguments": "--epsilon 0.1"}, "/arguments", "InvalidPolicyConfiguration"), ({"name": "x", "arguments": "--cb_explore_adf --unheard"}, "/arguments", "InvalidPolicyConfiguration"),
    ({"name": "x", "arguments": "--ccb_explore_adf"}, "/arguments", "InvalidPolicyConfiguration"), ({"name": "x", "arguments": "--cb_explore_adf --epsilon 2"}, "/arguments", "InvalidPolicyConfiguration")])
def test_what_is_no_policy_is_refused_by_name(api, name, body, target, code):
    api.put_tenant(name, algorithm="ek-ucb", **NAMES)
    answer = policy(api, name, body, expect=400)
    assert answer.json["error"]["code"] == answer.headers["x-ms-error-code"] == code and target in targets(answer)
    assert len(api.events(name)) == 1


def test_a_policy_explores_as_it_says(api, name):
    """Probabilities of a policy that was put into a tenant that has learned, against the formula of epsilon-greedy."""
    api.put_tenant(name, algorithm="ek-ucb", **NAMES)
    for i in range(12):
        api.observe("-", {"id": "abc"[i % 3], "features": {"name": "abc"[i % 3]}}, float(i % 3 == 1), context={"hour": 1}, tenant=name)
    policy(api, name, {"name": "x", "arguments": "--cb_explore_adf --epsilon 0.3"})
    told = rank(api, name, contextFeatures=[{"hour": 1}], actions=[{"id": a, "features": [{"name": a}]} for a in "abc"]).json
    assert {a["id"]: a["probability"] for a in told["ranking"]} == pytest.approx({"a": 0.1, "b": 0.8, "c": 0.1})


# --- modes of learning -------------------------------------------------------------------------------------------------

def routing(api, name):
    configuration = api.call("GET", f"/tenants/{name}").json["configuration"]
    r = configuration["routing"]
    return configuration.get("learn", True), r["stopped"], r.get("apprentice", False), r["holdout"]["baseline"]


@pytest.mark.parametrize("baseline", [None, {"arm": "z"}, {"rule": "uniform"}])
def test_the_modes_of_learning(api, name, baseline):
    api.put_tenant(name, algorithm="ucb", tune=False, routing={"holdout": {"baseline": baseline}})
    assert service(api, name, {"learningMode": "Apprentice"}).json["learningMode"] == "Apprentice"
    assert routing(api, name) == (True, True, True, {"rule": "first"})
    for actions in ("abc", "cab"):
        told = rank(api, name, actions=[{"id": a} for a in actions], excludedActions=["c"], eventId=actions).json
        assert told["rewardActionId"] == "a" and told["ranking"][actions.index("c")] == {"id": "c", "probability": 0}
        event(api, name, actions, "reward", {"value": 1})
    assert api.stats(name)["match"]["decisions"] == 2 and api.model(name)["dictionary"] != []
    assert service(api, name, {"learningMode": "LoggingOnly"}).json["learningMode"] == "LoggingOnly"
    assert routing(api, name)[0] is False
    digest = api.model(name)["dictionary"]
    rank(api, name, eventId="logged")
    assert word(event(api, name, "logged", "reward", {"value": 1})) == "learned"
    assert api.model(name)["dictionary"] == digest and api.stats(name)["rewards"] == 3
    assert service(api, name, {"learningMode": "Online"}).json["learningMode"] == "Online"
    assert routing(api, name)[:3] == (True, False, False)


def test_a_mode_does_not_change_together_with_what_a_reward_is(api, name):
    api.put_tenant(name, algorithm="random")
    for more in ({"defaultReward": 0.5}, {"rewardWaitTime": "PT10M"}, {"rewardAggregation": "sum"}):
        answer = service(api, name, {"learningMode": "Apprentice", **more}, expect=400)
        assert answer.json["error"]["code"] == answer.headers["x-ms-error-code"] == "InvalidLearningModeServiceConfiguration"
        assert targets(answer) == ["/learningMode"]
    assert len(api.events(name)) == 1
    service(api, name, {**service(api, name).json, "learningMode": "Apprentice", "explorationPercentage": 0.1})
    answer = service(api, name, {"learningMode": "Sometimes"}, expect=400)
    assert answer.json["error"]["code"] == "InvalidServiceConfiguration" and targets(answer) == ["/learningMode"]
    answer = service(api, name, {"logMirrorEnabled": True}, expect=400)
    assert answer.json["error"]["code"] == "InvalidSasUri" and targets(answer) == ["/logMirrorEnabled"]


# --- the model and the log ----------------------------------------------------------------------------------------------

def test_the_model_begins_anew_and_tells_its_times(api, name):
    api.put_tenant(name, algorithm="ucb", tune=False)
    rank(api, name, eventId="e")
    event(api, name, "e", "reward", {"value": 1})
    lines = api.events(name)
    told = api.call("GET", path("model/properties"), tenant=name).json
    assert told == {"creationTime": lines[0]["at"], "lastModifiedTime": lines[-1]["at"]}
    assert api.call("DELETE", path("model"), tenant=name, expect=204).text == ""
    assert api.events(name)[-1]["type"] == "forgotten" and api.model(name)["dictionary"] == []


OCTETS = "application/octet-stream"


def model_of(api, tenant, expect=200):
    return api.call("GET", path("model"), tenant=tenant, expect=expect)


def put_model(api, tenant, body, expect=204, kind=OCTETS):
    return api.call("PUT", path("model"), raw=body, kind=kind, tenant=tenant, expect=expect)


def taught(api, name, n, algorithm="ucb"):
    api.put_tenant(name, algorithm=algorithm, tune=False)
    for i in range(n):
        rank(api, name, eventId=f"e{i}")
        event(api, name, f"e{i}", "reward", {"value": (i % 3) / 3})


def test_a_model_goes_out_and_comes_back(api, name):
    taught(api, name, 9)
    rank(api, name, eventId="open")
    lines, digest, taken = api.events(name), api.digest(name), model_of(api, name)
    assert taken.headers["Content-Type"] == OCTETS and taken.headers["Laplaced-Digest"] == digest
    api.call("DELETE", path("model"), tenant=name, expect=204)
    service(api, name, {"defaultReward": 0.5})
    assert api.digest(name) != digest
    assert put_model(api, name, taken.content).text == ""
    assert api.digest(name) == digest and api.events(name) == lines
    assert word(event(api, name, "open", "reward", {"value": 1})) == "learned"
    assert api.call("POST", f"/tenants/{name}/verify").json["equal"]
    put_model(api, name, taken.content, kind="application/vnd.sqlite3")
    assert api.events(name) == lines


def test_a_model_of_another_tenant_takes_the_place_of_this_ones(api, name):
    taught(api, name, 5)
    taught(api, f"{name}-b", 3, algorithm="ts")
    put_model(api, f"{name}-b", model_of(api, name).content)
    assert api.events(f"{name}-b") == api.events(name) and api.digest(f"{name}-b") == api.digest(name)
    assert model_of(api, "nobody", expect=404).json["error"]["code"] == put_model(api, "nobody", b"x" * 99, expect=404).json["error"]["code"] == "ResourceNotFound"


@pytest.mark.parametrize("spoil", [lambda b: b"no model of ours" * 99, lambda b: b"SQLite format 3\0" + bytes(4096), lambda b: b[: len(b) // 2], lambda b: b.replace(b'"propensity":', b'"propensitz":')])
def test_what_is_no_model_is_refused_by_name_and_changes_nothing(api, name, spoil):
    taught(api, name, 4)
    before, digest = api.events(name), api.digest(name)
    answer = put_model(api, name, spoil(model_of(api, name).content), expect=400)
    assert answer.json["error"]["code"] == answer.headers["x-ms-error-code"] == "InvalidModelImportFormat"
    assert api.events(name) == before and api.digest(name) == digest
    assert put_model(api, name, b"{}", kind="application/json", expect=400).json["error"]["code"] == "BadRequest"


def test_a_model_is_exchanged_under_traffic_and_survives_a_kill(tmp_path):
    """Decisions that come meanwhile wait: none is refused, and what stands behind is one of the two logs and what came after."""
    server = Server(tmp_path).start()
    try:
        api = Client(server)
        taught(api, "t", 6)
        taken, first, over = model_of(api, "t").content, api.events("t"), threading.Event()
        refused = []
        def ask():
            mine, i = Client(server), 0
            while not over.is_set():
                answer = mine.call("POST", path("rank"), {"actions": ACTIONS, "eventId": f"x{threading.get_ident()}-{i}"}, tenant="t", expect=(201, 400, 404, 500))
                refused.extend([answer.status] if answer.status != 201 else [])
                i += 1
        threads = [threading.Thread(target=ask) for _ in range(2)]
        [t.start() for t in threads]
        done = 0
        for _ in range(60):
            done += api.call("PUT", path("model"), raw=taken, kind=OCTETS, tenant="t", expect=(204, 500)).status == 204
            if done == 3:
                break
        over.set()
        [t.join() for t in threads]
        assert done == 3 and refused == []
        lines = api.events("t")
        assert lines[: len(first)] == first and all(e["type"] == "decided" for e in lines[len(first):])
        assert api.call("POST", "/tenants/t/verify").json["equal"]
        digest = api.digest("t")
        server.kill()
        server.start()
        assert api.events("t") == lines and api.digest("t") == digest
        assert server.terminate() == 0
    finally:
        server.close()


def test_a_model_that_is_larger_than_a_tenant_may_be_is_refused(api, name, boot):
    small = Client(boot("--tenant-quota", "1000000"))
    api.put_tenant(name, algorithm="ek-ucb", **NAMES)
    for i in range(300):
        api.observe("-", {"id": f"o{i}", "features": {"n": str(i)}}, 1, context={"m": str(i)}, tenant=name)
    small.put_tenant("t", algorithm="random")
    before = small.events("t")
    assert "may have" in put_model(small, "t", model_of(api, name).content, expect=500).json["error"]["message"]
    assert small.events("t") == before


def test_the_log_tells_its_times_and_goes_while_the_model_stays(api, name):
    api.put_tenant(name, algorithm="ucb", tune=False)
    answer = api.call("GET", path("logs/properties"), tenant=name, expect=404)
    assert answer.json["error"]["code"] == answer.headers["x-ms-error-code"] == "LogsPropertiesNotFound"
    rank(api, name, eventId="short")
    short = api.events(name)
    assert api.call("DELETE", path("logs"), tenant=name, expect=204).headers["Laplaced-Log"] == "kept" and api.events(name) == short
    for i in range(20):
        rank(api, name, eventId=f"e{i}")
        event(api, name, f"e{i}", "reward", {"value": i / 20})
    lines = [e for e in api.events(name) if e["type"] in ("decided", "rewarded")]
    assert api.call("GET", path("logs/properties"), tenant=name).json == {"dateRange": {"from": lines[0]["at"], "to": lines[-1]["at"]}}
    before = api.model(name)["dictionary"]
    assert api.call("DELETE", path("logs"), tenant=name, expect=204).headers["Laplaced-Log"] == "compacted"
    assert {e["type"] for e in api.events(name)} <= {"summary", "dictionary"} and api.model(name)["dictionary"] == before
    api.call("GET", path("logs/properties"), tenant=name, expect=404)


@pytest.mark.parametrize("method, what", [
    ("GET", "featureImportances"),
    ("PUT", "featureImportances/one"), ("GET", "featureImportances/one"), ("DELETE", "featureImportances/one")])
def test_what_is_not_offered_is_told_by_name(api, name, method, what):
    api.put_tenant(name, algorithm="random")
    answer = api.call(method, path(what, "v1.1-preview.3"), {} if method in ("POST", "PUT") else None, tenant=name, expect=501)
    assert answer.json["error"]["code"] == answer.headers["x-ms-error-code"] == "NotImplemented"
    assert answer.json["error"]["message"].startswith(f"{method} ") and "not offered" in answer.json["error"]["message"]


@pytest.mark.parametrize("what", ["interactions", "observations"])
def test_logs_of_clients_that_decide_by_themselves_are_refused(api, name, what):
    api.put_tenant(name, algorithm="random")
    answer = api.call("POST", path(f"logs/{what}"), raw=b"\0\1", kind="application/octet-stream", tenant=name, expect=400)
    assert answer.json["error"]["code"] == "InvalidApiAccess"


def test_rewards_are_counted_by_what_came_of_them(boot):
    api = Client(boot())
    api.put_tenant("t", algorithm="random", aggregation="first", reward_window_s=0.2)
    def counted():
        text = api.call("GET", "/metrics").text
        return {word: int(float(line.split()[1])) for line in text.splitlines() if line.startswith("laplaced_personalizer_rewards_total{")
                for word in [line.split('"')[1]]}
    assert counted() == dict.fromkeys(["learned", "duplicate", "ignored", "late", "unknown"], 0)
    rank(api, "t", eventId="e")
    rank(api, "t", eventId="f")
    event(api, "t", "e", "reward", {"value": 1})
    event(api, "t", "e", "reward", {"value": 0.5})
    event(api, "t", "nobody", "reward", {"value": 1})
    wait_expired(api, "t", "f")
    event(api, "t", "f", "reward", {"value": 1})
    told = counted()
    assert (told["learned"], told["unknown"], told["late"]) == (1, 1, 1) and told["ignored"] + told["duplicate"] == 1


# --- keys ------------------------------------------------------------------------------------------------------------

def test_the_key_comes_as_that_services_did_and_names_the_tenant(boot, tmp_path):
    (tmp_path / "keys").write_text("correct-horse-battery-staple\n")
    server = boot("--admin-key-file", str(tmp_path / "keys"))
    admin = Client(server, "correct-horse-battery-staple")
    admin.put_tenant("shop", algorithm="random")
    key = admin.call("POST", "/tenants/shop/keys", {"roles": ["decide"]}, expect=201).json["key"]
    stranger = Client(server)
    mine = {"Ocp-Apim-Subscription-Key": key}
    assert rank(stranger, None, headers=mine, eventId="e").json["eventId"] == "e"
    assert rank(stranger, None, expect=401).json["error"]["code"] == "InvalidApiAccess"
    assert rank(stranger, None, headers={"Ocp-Apim-Subscription-Key": key[:-1]}, expect=401)
    assert stranger.call("GET", path("configurations/service"), headers=mine, expect=403).json["error"]["code"] == "InvalidApiAccess"
    assert stranger.call("POST", "/select", {"user": "u", "candidates": ["a"]}, headers=mine, expect=401)  # nowhere else
    assert [e["decision"] for e in admin.events("shop") if e["type"] == "decided"] == ["e"]
    admin.call("PUT", path("configurations/service"), {"defaultReward": 0.5}, tenant="shop")
    assert rank(admin, "nobody", expect=404).json["error"]["code"] == "ResourceNotFound"


def test_events_and_what_was_put_survive_a_kill(tmp_path):
    server = Server(tmp_path).start()
    try:
        api = Client(server)
        api.put_tenant("t", algorithm="random")
        told = rank(api, "t", eventId="e").json
        service(api, "t", {"modelExportFrequency": "PT2M"})
        kept = policy(api, "t", {"name": "mine", "arguments": SQUARE}).json, service(api, "t").json
        server.kill()
        server.start()
        assert rank(api, "t", eventId="e").json == told
        assert (policy(api, "t").json, service(api, "t").json) == kept and kept[1]["modelExportFrequency"] == "PT2M"
        assert word(event(api, "t", "e", "reward", {"value": 1})) == "learned"
        assert server.terminate() == 0
    finally:
        server.close()
