"""/observe: learning without a decision, one or in bulk."""
import json

import pytest

from contract import NDJSON


@pytest.fixture
def tenant(api, name):
    api.put_tenant(name, algorithm="gp-ucb", arm_dim=1, context_dim=1)
    api.put_arms(name, [{"id": f"a{i}", "features": [0.3 * i]} for i in range(4)])
    return name


def ranking(api, tenant):
    return api.select("u", context=[0.1], explain=True, dry_run=True, tenant=tenant)["ranking"]


def test_an_observation_teaches_what_a_rewarded_decision_does(api, name):
    for suffix in (".seen", ".told"):
        api.put_tenant(name + suffix, algorithm="gp-ucb", arm_dim=1, context_dim=1)
        api.put_arms(name + suffix, [{"id": f"a{i}", "features": [0.3 * i]} for i in range(4)])
    for t in range(12):
        answer = api.select(f"u{t % 2}", context=[0.1 * t], tenant=name + ".seen")
        api.reward(answer["decision"], 0.2 * t, tenant=name + ".seen")
        told = api.observe(f"u{t % 2}", answer["arm"], 0.2 * t, context=[0.1 * t], propensity=0.5, tenant=name + ".told")
        assert told == {"observed": 1}
    assert ranking(api, name + ".seen") == ranking(api, name + ".told")


def test_bulk_teaches_what_one_by_one_does(api, name):
    lines = [{"user": f"u{t % 5}", "context": [0.05 * t], "arm": {"id": f"x{t % 9}", "features": [0.1 * (t % 9)]},
              "reward": 0.1 * (t % 7)} for t in range(300)]
    for suffix in (".bulk", ".single"):
        api.put_tenant(name + suffix, algorithm="gp-ucb", arm_dim=1, context_dim=1)
        api.put_arms(name + suffix, [{"id": "q", "features": [0.5]}, {"id": "r", "features": [0.1]}])
    assert api.call("POST", "/observe", lines, kind=NDJSON, tenant=name + ".bulk").json == {"observed": 300}
    for line in lines:
        api.call("POST", "/observe", line, tenant=name + ".single")
    assert ranking(api, name + ".bulk") == ranking(api, name + ".single")
    assert api.model(name + ".bulk")["events"] == 300


def test_bulk_over_a_dictionary_teaches_what_one_by_one_does(api, name):
    lines = [{"user": f"u{t % 5}", "arm": f"x{t % 9}", "reward": 0.1 * (t % 7)} for t in range(200)]
    for suffix in (".bulk", ".single"):
        api.put_tenant(name + suffix, algorithm="laplaced-kors")
    api.call("POST", "/observe", lines, kind=NDJSON, tenant=name + ".bulk")
    for line in lines:
        api.call("POST", "/observe", line, tenant=name + ".single")
    models = [api.model(name + s) for s in (".bulk", ".single")]
    assert models[0]["dictionary"] == models[1]["dictionary"] and models[0]["events"] == 200
    assert models[0]["digest"] == models[1]["digest"]


def test_ten_thousand_lines_are_taken_and_no_more(api, name):
    api.put_tenant(name, algorithm="ucb")
    line = json.dumps({"user": "u", "arm": "a", "reward": 1}) + "\n"
    assert api.call("POST", "/observe", raw=line * 10000, kind=NDJSON, tenant=name).json == {"observed": 10000}
    api.call("POST", "/observe", raw=line * 10001, kind=NDJSON, tenant=name, expect=(400, 413))
    assert api.model(name)["events"] == 10000


@pytest.mark.parametrize("bad, pointer", [
    ({"user": "u", "context": [0], "arm": "a1", "reward": "x"}, "/2/reward"),
    ({"user": "u", "context": [0], "arm": "ghost", "reward": 1}, "/2/arm"),
    ({"user": "u", "context": [0, 1], "arm": "a1", "reward": 1}, "/2/context"),
    ({"user": "u", "context": [0], "arm": {"id": "n", "features": [1, 2]}, "reward": 1}, "/2/arm/features"),
    ({"user": "", "context": [0], "arm": "a1", "reward": 1}, "/2/user")])
def test_one_bad_line_and_nothing_is_learned(api, tenant, bad, pointer):
    good = {"user": "u", "context": [0], "arm": "a1", "reward": 1}
    digest, seq = api.digest(tenant), api.model(tenant)["seq"]
    answer = api.call("POST", "/observe", [good, good, bad, good], kind=NDJSON, tenant=tenant, expect=(400, 404))
    assert answer.pointers == [pointer]
    assert api.digest(tenant) == digest and api.model(tenant)["seq"] == seq


def test_blank_lines_are_skipped_and_an_unended_last_line_counts(api, name):
    api.put_tenant(name, algorithm="ucb")
    line = json.dumps({"user": "u", "arm": "a", "reward": 1})
    assert api.call("POST", "/observe", raw=f"{line}\n\n{line}\r\n{line}", kind=NDJSON, tenant=name).json == {"observed": 3}


def test_observations_are_counted_and_logged(api, tenant):
    api.observe("u9", {"id": "own", "features": [0.7]}, 2.5, context=[0.3], propensity=0.125, tenant=tenant)
    event = [e for e in api.events(tenant) if e["type"] == "observed"][0]
    assert (event["user"], event["arm"], event["features"], event["context"]) == ("u9", "own", [0.7], [0.3])
    assert (event["reward"], event["propensity"]) == (2.5, 0.125)
    stats = api.stats(tenant)
    assert (stats["observations"], stats["decisions"], stats["pending"]) == (1, 0, 0)


def test_a_catalogue_arm_is_logged_with_the_features_it_had(api, tenant):
    """So that a line of the log stands for itself after the catalogue has moved on."""
    api.observe("u", "a2", 1.0, context=[0.3], tenant=tenant)
    assert [e["features"] for e in api.events(tenant) if e["type"] == "observed"] == [[0.6]]
