"""Decisions among candidates that the log does not tell (`log_candidates` is off): an evaluation does not take the catalogue for them.
The oracle is made here, of what was sent."""
import json
import random

import pytest

from contract import NDJSON
from harness import wait_for as until
from r00_evaluate import evaluate as client
from r03_evaluations import differing, evaluate, told

UNKNOWN = "decisions that named their candidates, which the log does not tell"
LARGE = [f"arm{i}" for i in range(8)]


def decide(api, name, n, requests, seed=3):
    """Each request in turn; (members of the request, answer, reward) of every decision."""
    rng, seen = random.Random(seed), []
    for i in range(n):
        more = requests[i % len(requests)]
        got = api.call("POST", "/select", {"user": f"u{i % 5}", "decision": f"d{i}", **more}, tenant=name).json
        reward = rng.randrange(2)
        api.reward(f"d{i}", reward, tenant=name)
        seen.append((more, got, reward))
    return seen


def lines(api, name):
    return [e for e in api.events(name) if e["type"] == "decided"]


def both(api, name, tmp_path, policy="uniform", change=lambda e: e):
    """What the job says; the client says the same of the export."""
    job = evaluate(api, name, [policy if policy == "uniform" else {"arm": policy}])
    (tmp_path / "log").write_text("".join(json.dumps(change(e)) + "\n" for e in api.events(name)))
    mine = client("ndjson", policy if policy == "uniform" else f"arm:{policy}", tmp_path / "log")
    assert differing(told(job)[0], told(mine)[0]) == {}
    return job


def mean(seen, n):
    return sum(reward / n / got["propensity"] for _, got, reward in seen) / len(seen)


def test_those_that_named_theirs_are_left_out_and_counted(api, name, tmp_path):
    """A catalogue of eight; decisions name two of it, exclude one, name as many others, or take it whole."""
    api.put_tenant(name, algorithm="ts", tune=False, rule={"epsilon": 0.5})
    api.put_arms(name, [{"id": a} for a in LARGE])
    seen = decide(api, name, 120, [{}, {"candidates": LARGE[:2]}, {"exclude": [LARGE[0]]}, {"candidates": LARGE}])
    assert [e.get("candidates") for e in lines(api, name)] == [None, 2, 7, 8] * 30
    whole = [s for s in seen if "exclude" not in s[0] and len(s[0].get("candidates", LARGE)) == 8]
    got = both(api, name, tmp_path)
    assert got["n"] == len(whole) == 60 and got["skipped"][UNKNOWN] == 60
    assert got["ips"]["estimate"] == pytest.approx(mean(whole, 8), rel=1e-12)
    assert got["weights"]["mean"] == pytest.approx(sum(1 / 8 / g["propensity"] for _, g, _ in whole) / 60, rel=1e-12)


def test_lines_of_before_that_show_an_arm_of_no_catalogue_are_left_out(api, name, tmp_path):
    api.put_tenant(name, algorithm="ts", tune=False, rule={"epsilon": 0.5})
    api.put_arms(name, [{"id": a} for a in LARGE])
    seen = decide(api, name, 60, [{}, {"candidates": ["x", "y"]}])
    both(api, name, tmp_path)
    (tmp_path / "old").write_text("".join(json.dumps({k: v for k, v in e.items() if k != "candidates"}) + "\n" for e in api.events(name)))
    got = client("ndjson", "uniform", tmp_path / "old")
    assert got["n"] == 30 and got["skipped"][UNKNOWN] == 30 and got["ips"]["estimate"] == pytest.approx(mean(seen[::2], 8), rel=1e-12)


@pytest.mark.parametrize("others", [[], [{"candidates": ["a", "b"]}]], ids=["always the same", "some of them"])
def test_without_a_catalogue_they_are_the_arms_of_the_log_where_there_are_as_many(api, name, tmp_path, others):
    api.put_tenant(name, algorithm="ts", tune=False, rule={"epsilon": 0.6})
    seen = decide(api, name, 90, [{"candidates": ["a", "b", "c"]}, *others])
    whole = [s for s in seen if len(s[0]["candidates"]) == 3]
    got = both(api, name, tmp_path)
    assert got["n"] == len(whole) == (45 if others else 90) and got["skipped"].get(UNKNOWN, 0) == 90 - len(whole)
    assert got["ips"]["estimate"] == pytest.approx(mean(whole, 3), rel=1e-12) and got["unsupported"] == 0


def test_without_a_catalogue_the_whole_log_is_counted_however_long_its_beginning_is(api, name, tmp_path):
    """Observations and lines of before, which tell no number, come first."""
    api.put_tenant(name, algorithm="ts", tune=False, rule={"epsilon": 0.6})
    for begin in (0, 600):
        api.call("POST", "/observe", [{"user": "u", "arm": "a", "reward": i % 2} for i in range(begin, begin + 600)], kind=NDJSON, tenant=name)
    seen = decide(api, name, 60, [{"candidates": ["a", "b", "c"]}])
    got = both(api, name, tmp_path, policy="b")
    assert got["n"] == 60 + 1200 - got["skipped"].get("decisions without a propensity", 0) and UNKNOWN not in got["skipped"]
    assert len(seen) == 60


def test_a_log_whose_summary_has_no_catalogue_is_judged_as_one_without(api, name, tmp_path):
    api.put_tenant(name, algorithm="ts", tune=False, rule={"epsilon": 0.6})
    decide(api, name, 60, [{"candidates": ["a", "b", "c"]}])
    api.call("POST", f"/tenants/{name}/compact", {"keep_events": 40})
    for i in range(60, 120):
        api.call("POST", "/select", {"user": "u", "decision": f"d{i}", "candidates": ["a", "b", "c"]}, tenant=name)
        api.reward(f"d{i}", i % 2, tenant=name)
    got = both(api, name, tmp_path)
    decided = len(lines(api, name))
    assert decided >= 60 and got["n"] == decided and UNKNOWN not in got["skipped"] and got["unsupported"] == 0


def test_before_its_catalogue_a_log_had_the_arms_that_it_had_shown(api, name, tmp_path):
    """And none of those that come with it, however often the log is read."""
    api.put_tenant(name, algorithm="ts", tune=False, rule={"epsilon": 0.6})
    seen = decide(api, name, 90, [{"candidates": ["a", "b", "c"]}])
    api.put_arms(name, [{"id": a} for a in ("a", "b", "c", "d")])
    for i in range(90, 150):
        more = {"user": "u", "decision": f"d{i}"}
        seen.append(({}, api.call("POST", "/select", more, tenant=name).json, i % 2))
        api.reward(f"d{i}", i % 2, tenant=name)
    got = both(api, name, tmp_path)
    want = sum(reward / (3 if i < 90 else 4) / g["propensity"] for i, (_, g, reward) in enumerate(seen)) / 150
    assert got["n"] == 150 and UNKNOWN not in got["skipped"] and got["ips"]["estimate"] == pytest.approx(want, rel=1e-12)


def test_a_log_of_which_nothing_is_left_says_why(api, name):
    api.put_tenant(name, algorithm="ts", tune=False, rule={"epsilon": 0.6})
    api.put_arms(name, [{"id": a} for a in LARGE])
    decide(api, name, 20, [{"candidates": LARGE[:2]}])
    made = api.call("POST", f"/tenants/{name}/evaluations", {"policies": ["uniform"]}, expect=202).json
    assert until(lambda: api.call("GET", f"/tenants/{name}/evaluations/{made['id']}").json.get("state") == "failed")
    assert f"20 passed over: {UNKNOWN}" in json.dumps(api.call("GET", f"/tenants/{name}/evaluations/{made['id']}").json)


def test_of_slots_the_first_is_looked_at_likewise(api, name, tmp_path):
    api.put_tenant(name, algorithm="ts", tune=False, rule={"epsilon": 0.5})
    api.put_arms(name, [{"id": a} for a in LARGE])
    slots = [{"id": "top"}, {"id": "left"}]
    for i in range(40):
        more = {"candidates": LARGE[:3]} if i % 2 else {}
        api.call("POST", "/select", {"user": "u", "decision": f"d{i}", "slots": slots, **more}, tenant=name)
        api.call("POST", "/reward", [{"decision": f"d{i}", "slot": s["id"], "reward": i % 3} for s in slots], tenant=name)
    assert all("candidates" not in e for e in lines(api, name))  # slots tell theirs
    got = both(api, name, tmp_path)
    assert got["n"] == 20 and got["skipped"][UNKNOWN] == 20 and "estimate" in got["ips_by_slot"]


def test_candidates_that_are_told_need_no_number(api, name, tmp_path):
    api.put_tenant(name, algorithm="ts", tune=False, rule={"epsilon": 0.5}, log_candidates=True)
    api.put_arms(name, [{"id": a} for a in LARGE])
    seen = decide(api, name, 60, [{}, {"candidates": LARGE[:2]}, {"candidates": LARGE}])
    assert [("candidates" in e, len(e.get("among", []))) for e in lines(api, name)] == [(False, 0), (False, 2), (False, 8)] * 20
    got = both(api, name, tmp_path)
    want = sum(reward / len(more.get("candidates", LARGE)) / g["propensity"] for more, g, reward in seen) / 60
    assert got["n"] == 60 and UNKNOWN not in got["skipped"] and got["ips"]["estimate"] == pytest.approx(want, rel=1e-12)


def test_the_number_outlives_an_erasure_and_is_no_models(api, name):
    api.put_tenant(name, algorithm="ts", tune=False, rule={"epsilon": 0.5})
    api.put_arms(name, [{"id": a} for a in LARGE])
    decide(api, name, 20, [{"candidates": LARGE[:2]}, {"candidates": LARGE[:3]}])
    api.call("DELETE", f"/tenants/{name}/users/u1", expect=(200, 202, 204))
    kept = [e for e in lines(api, name) if e["user"] != "u1"]
    assert {e.get("candidates") for e in kept} == {2, 3} and len(kept) == 16
    assert api.call("POST", f"/tenants/{name}/verify").json["equal"]
