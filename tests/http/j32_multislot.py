"""Azure Personalizer's multi-slot Rank, Reward and Activate, as its preview clients send them (docs/PERSONALIZER.md)."""
import pytest

from j30_personalizer import path, targets
from names import mapped

VERSION = "v1.1-preview.3"
ACTIONS = [{"id": a, "features": [{"topic": a}]} for a in "abcde"]
SLOTS = [{"id": "main", "features": [{"size": "large"}, {"rows": 2}], "excludedActions": ["e"], "baselineAction": "a"},
         {"id": "side", "features": [{"size": "small"}], "excludedActions": [], "baselineAction": "b"}]


def rank(api, tenant, expect=201, **body):
    return api.call("POST", path("multislot/rank", VERSION), {"contextFeatures": [{"hour": 13}], "actions": ACTIONS, "slots": SLOTS, **body}, tenant=tenant, expect=expect)


def reward(api, tenant, event, values, expect=204):
    body = {"reward": [{"slotId": s, "value": v} for s, v in values]}
    return api.call("POST", path(f"multislot/events/{event}/reward", VERSION), body, tenant=tenant, expect=expect)


def activate(api, tenant, event, expect=204):
    return api.call("POST", path(f"multislot/events/{event}/activate", VERSION), tenant=tenant, expect=expect)


def lines(api, tenant, kind):
    return [e for e in api.events(tenant) if e["type"] == kind]


def test_slots_are_filled_as_by_select(api, name):
    api.put_tenant(name, features={"mapping": "names-1", "dim": 32, "seed": 3}, algorithm="gp-ucb")
    answer = rank(api, name, eventId="e1")
    assert answer.headers.get("Laplaced-Ignored") is None
    shown = {s["id"]: s["rewardActionId"] for s in answer.json["slots"]}
    assert answer.json["eventId"] == "e1" and list(shown) == ["main", "side"] and len(set(shown.values())) == 2 and shown["main"] != "e"
    line = lines(api, name, "decided")[-1]
    assert line["decision"] == "e1" and [s["arm"] for s in line["slate"]] == list(shown.values()) and [s["id"] for s in line["slots"]] == list(shown)
    assert line["context"] == mapped({"hour": 13, "slot": {"size": "large", "rows": 2}}, 32, 3, None)
    assert line["slots"][1]["context"] == mapped({"hour": 13, "slot": {"size": "small"}}, 32, 3, None)
    assert rank(api, name, eventId="e1").json == answer.json
    assert targets(rank(api, name, eventId="e1", slots=SLOTS[:1], expect=400)) == ["/eventId"]


def test_rewards_by_slot(api, name):
    api.put_tenant(name, algorithm="random", default_reward=None)
    answer = rank(api, name)
    assert answer.headers["Laplaced-Ignored"] == "contextFeatures, actions.features, slots.features"
    event, shown = answer.json["eventId"], {s["id"]: s["rewardActionId"] for s in answer.json["slots"]}
    assert reward(api, name, event, [("side", 0.5)]).headers["Laplaced-Reward"] == "learned"
    assert reward(api, name, event, [("side", 0.5), ("foot", 1), ("main", -1)]).headers["Laplaced-Reward"] == "duplicate, unknown, learned"
    assert [(e["arm"], e["reward"]) for e in lines(api, name, "rewarded")] == [(shown["side"], 0.5), (shown["main"], -1)]
    assert reward(api, name, event, [("main", 1)]).headers["Laplaced-Reward"] == "ignored"
    assert reward(api, name, "nobody", [("main", 1)]).headers["Laplaced-Reward"] == "unknown"


def test_deferred_events_count_once_they_are_activated(api, name):
    api.put_tenant(name, algorithm="random")
    event = rank(api, name, deferActivation=True).json["eventId"]
    assert reward(api, name, event, [("main", 1)]).headers["Laplaced-Reward"] == "ignored"
    activate(api, name, event)
    assert reward(api, name, event, [("main", 1)]).headers["Laplaced-Reward"] == "learned"
    assert activate(api, name, "nobody", expect=400).json["error"]["code"] == "InvalidEventIdToActivate"


def test_an_apprentice_shows_the_baselines(api, name):
    api.put_tenant(name, algorithm="random", routing={"stopped": True, "holdout": {"baseline": {"rule": "first"}}})
    assert rank(api, name, eventId="e").json["slots"] == [{"id": "main", "rewardActionId": "a"}, {"id": "side", "rewardActionId": "b"}]


FAULTS = [
    ({"slots": None}, "/slots"), ({"slots": []}, "/slots"), ({"slots": SLOTS * 26}, "/slots"), ({"slots": [1]}, "/slots/0"), ({"slots": [{"baselineAction": "a"}]}, "/slots/0/id"),
    ({"slots": [{"id": "s"}]}, "/slots/0/baselineAction"), ({"slots": [{"id": "s", "baselineAction": "z"}]}, "/slots/0/baselineAction"),
    ({"slots": [{"id": "s", "baselineAction": "a"}, {"id": "t", "baselineAction": "a"}]}, "/slots/1/baselineAction"),
    ({"slots": [{"id": "s", "baselineAction": "a"}, {"id": "s", "baselineAction": "b"}]}, "/slots/1"),
    ({"slots": [{"id": "s", "baselineAction": "a", "excludedActions": "a"}]}, "/slots/0/excludedActions"),
    ({"slots": [{"id": "s", "baselineAction": "a", "features": {"a": 1}}]}, "/slots/0/features"), ({"actions": ACTIONS[:1]}, "/slots"),
    ({"slots": [{"id": "s", "baselineAction": "a", "excludedActions": list("abcde")}]}, "/slots/0"), ({"actions": []}, "/actions")]


@pytest.mark.parametrize("body,target", FAULTS, ids=lambda v: str(v)[:50])
def test_bad_bodies_of_rank(api, name, body, target):
    api.put_tenant(name, algorithm="random")
    answer = rank(api, name, expect=400, **body)
    assert answer.json["error"]["code"] == answer.headers["x-ms-error-code"] == "InvalidRankRequest"
    assert target in [t[:len(target)] for t in targets(answer)]


@pytest.mark.parametrize("body,target", [({}, "/reward"), ({"reward": []}, "/reward"), ({"reward": 1}, "/reward"), ({"reward": [1]}, "/reward/0"), ({"reward": [{"value": 1}]}, "/reward/0/slotId"),
                                         ({"reward": [{"slotId": "main"}]}, "/reward/0/value"), ({"reward": [{"slotId": "main", "value": 2}]}, "/reward/0/value")], ids=str)
def test_bad_bodies_of_reward(api, name, body, target):
    api.put_tenant(name, algorithm="random")
    answer = api.call("POST", path("multislot/events/e/reward", VERSION), body, tenant=name, expect=400)
    assert answer.json["error"]["code"] == "InvalidRewardRequest" and targets(answer) == [target]
