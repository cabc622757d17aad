"""Evaluations as jobs: what POST /tenants/{t}/evaluations computes is what laplacectl computes of the exported log, and what dense sums
of it are (tests/tools/ope_oracle.py); results outlive restarts and kills, and whatever ends a job early leaves a state that says so."""
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from harness import CTL, NDJSON, Client, tenant_path

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import ope_oracle as oracle  # noqa: E402

ARMS = {"a": 0.2, "b": 0.5, "c": 0.7, "d": 0.3}
UCB = {"algorithm": "ucb", "tune": False, "confidence": {"beta": 1.7}}
SLOW = {"name": "slow", "configuration": {"algorithm": "k-ucb", "context_dim": 2}}  # exact: its cost grows with what it has learned


def path(name, part=""):
    return tenant_path(name, "evaluations" + ("/" + part if part else ""))


def begin(client, name, policies, expect=202, **more):
    return client.call("POST", path(name), {"policies": policies, **more}, expect=expect)


def look(client, name, which, expect=200):
    return client.call("GET", path(name, which), expect=expect).json


def ended(client, name, which, seconds=120):
    end = time.monotonic() + seconds
    while (seen := look(client, name, which))["state"] == "running":
        assert time.monotonic() < end, seen
        time.sleep(0.05)
    return seen


def evaluate(client, name, policies, **more):
    answer = begin(client, name, policies, **more)
    assert answer.headers["Location"] == path(name, answer.json["id"])
    seen = ended(client, name, answer.json["id"])
    assert seen["state"] == "done", seen["problem"]
    return seen["result"]


def traffic(client, name, n, seed=1, **configuration):
    """Decisions with two numbers of context, two thirds of them rewarded; arms come, go and are stopped."""
    rng = random.Random(seed)
    client.put_tenant(name, **{"algorithm": "ts", "rule": {"epsilon": 0.4}, "context_dim": 2, **configuration})
    client.put_arms(name, [{"id": arm} for arm in ARMS])
    for i in range(n):
        if i == n // 3:
            client.call("PATCH", tenant_path(name, "arms"), {"stop": ["d"]})
        if i == n // 2:
            client.call("PATCH", tenant_path(name, "arms"), {"start": ["d"], "remove": ["a"]})
        shown = client.select(f"u{i % 7}", tenant=name, context=[round(rng.random(), 3), round(rng.random(), 3)], decision=f"d{i}")
        if rng.random() < 0.67:
            client.reward(f"d{i}", float(rng.random() < ARMS[shown["arm"]]), tenant=name)
        if i % 50 == 49:
            client.observe("stranger", "b", 1.0, tenant=name, context=[0.5, 0.5], propensity=0.25)


def fill(client, name, n, seed=2):
    """A log of n observations, quickly."""
    rng = random.Random(seed)
    client.put_tenant(name, algorithm="ucb", context_dim=2)
    client.put_arms(name, [{"id": arm} for arm in ARMS])
    for start in range(0, n, 5000):
        lines = [{"user": f"u{rng.randrange(9)}", "context": [round(rng.random(), 4), round(rng.random(), 4)], "arm": rng.choice("abcd"),
                  "reward": rng.randrange(2), "propensity": 0.25} for _ in range(start, min(n, start + 5000))]
        client.call("POST", "/observe", lines, kind=NDJSON, tenant=name)


def client_evaluates(tmp_path, client, log, policies, *more):
    """What laplacectl prints of the log, a list of events, with the kernels of OpenBLAS that the server has: others round otherwise."""
    (tmp_path / "log.ndjson").write_text("".join(json.dumps(line) + "\n" for line in log))
    args = []
    for policy in policies:
        if isinstance(policy, str):
            args += ["--policy", policy]
        elif "arm" in policy:
            args += ["--policy", "arm:" + policy["arm"]]
        else:
            (tmp_path / policy["name"]).write_text(json.dumps(policy["configuration"]))
            args += ["--policy", str(tmp_path / policy["name"])]
    kernels = re.search(r"OpenBLAS kernels: (\w+)", client.server.log())
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")} | ({"OPENBLAS_CORETYPE": kernels[1]} if kernels else {})
    done = subprocess.run([CTL, "evaluate", "--format", "ndjson", "--json", *args, *more, str(tmp_path / "log.ndjson")], capture_output=True, timeout=120,
                          env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def told(document):
    """A document without the time that it took, and without the files that only the client has."""
    return [{k: v for k, v in one.items() if k not in ("cpu_seconds", "files", "policies")} for one in (document, *document.get("policies", []))]


def differing(one, other):
    """Where two objects are not the same, number for number."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {f"{k}/{at}": pair for k in {*one, *other} for at, pair in differing(one.get(k), other.get(k)).items()}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return {f"{i}/{at}": pair for i, (a, b) in enumerate(zip(one, other)) for at, pair in differing(a, b).items()}
    return {} if one == other else {"": (one, other)}


POLICIES = ["uniform", "logged", {"arm": "c"}, {"name": "ucb.json", "configuration": UCB},
            {"name": "lin.json", "configuration": {"algorithm": "lin-ucb", "context_dim": 2, "rule": {"epsilon": 0.1}}}]


@pytest.mark.parametrize("settings", [{}, {"log_candidates": True, "aggregation": "sum", "reward_window_s": 1},
                                      {"routing": {"sticky": {"ttl_s": 60}, "holdout": {"share": 0.3, "baseline": {"arm": "b"}}}}],
                         ids=["first", "sum", "routed"])
def test_the_document_is_that_of_the_client_on_the_exported_log(api, name, tmp_path, settings):
    traffic(api, name, 260, **settings)
    if "aggregation" in settings:
        time.sleep(1.5)  # windows close: their rewards are final
    result = evaluate(api, name, POLICIES)
    here, there = told(result), told(client_evaluates(tmp_path, api, api.events(name), POLICIES))
    assert [differing(a, b) for a, b in zip(here, there)] == [{}] * 6 and len(there) == 6
    assert result["files"] == [] and [p["name"] for p in result["policies"]] == ["uniform", "logged", "arm:c", "ucb.json", "lin.json"]


class Fixed:
    learns = False

    def __init__(self, arm):
        self.arm = arm

    def propensities(self, log, k):
        return np.array([float(a == self.arm) for a in log.candidates[k]])


def dense_log(events, seqs=range(1, 10**9)):
    """The log as the oracle has it: decisions that were rewarded, in the order of their rewards, and observations."""
    log, active, stopped, open_decisions = oracle.Log(), {}, set(), {}

    def add(arm, reward, p):
        candidates = [a for a in active if active[a] and a not in stopped]
        candidates += [arm] if arm not in candidates else []
        log.add(candidates, candidates.index(arm), reward, p)

    for e in events:
        if e["type"] == "arms":
            active = {} if e["replace"] else active
            stopped = (stopped | set(e.get("stop", []))) - set(e.get("start", []))
            active |= {a["id"]: a["active"] for a in e["put"]}
            for arm in e["remove"]:
                active[arm] = False
        elif e["type"] == "decided" and e["seq"] in seqs:
            open_decisions[e["decision"]] = e
        elif e["type"] == "rewarded" and e["decision"] in open_decisions:
            d = open_decisions.pop(e["decision"])
            add(d["arm"], e["reward"], d["propensity"])
        elif e["type"] == "observed" and e["seq"] in seqs:
            add(e["arm"], e["reward"], e["propensity"])
    return log


def assert_dense(got, want):
    assert got["n"] == want["n"] and got["accepted"] == want["accepted"]
    assert got["ess"] == pytest.approx(want["ess"], rel=1e-9)
    for estimator in ("replay", "ips", "snips", "clipped_ips", "dr"):
        for key in ("estimate", "lower", "upper", "standard_error"):
            assert got[estimator][key] == pytest.approx(want[estimator][key], rel=1e-9, abs=1e-9), (estimator, key)


def test_the_numbers_are_those_of_dense_sums(api, name):
    fill_plain(api, name, 240)
    events = api.events(name)
    fixed, even, learning = evaluate(api, name, [{"arm": "b"}, "uniform", {"name": "ucb", "configuration": UCB}])["policies"]
    log = dense_log(events)
    assert len(log) > 100
    target = oracle.Ucb()
    target.scale = 1.7
    assert_dense(fixed, oracle.evaluate(log, Fixed("b")))
    assert_dense(even, oracle.evaluate(log, oracle.Uniform()))
    assert_dense(learning, oracle.evaluate(log, target))


def fill_plain(client, name, n):
    """Decisions of a policy without contexts; b is there all the time."""
    rng = random.Random(4)
    client.put_tenant(name, algorithm="ts", rule={"epsilon": 0.5})
    client.put_arms(name, [{"id": arm} for arm in "abc"])
    for i in range(n):
        if i == n // 2:
            client.call("PATCH", tenant_path(name, "arms"), {"stop": ["a"]})
        shown = client.select(f"u{i % 5}", tenant=name, decision=f"d{i}")
        if rng.random() < 0.8:
            client.reward(f"d{i}", float(rng.random() < ARMS[shown["arm"]]), tenant=name)
        if i % 40 == 39:
            client.observe("stranger", "c", 0.5, tenant=name, propensity=0.2)


def test_a_stretch_is_the_decisions_made_in_it_whenever_they_were_rewarded(api, name):
    fill_plain(api, name, 120)
    events = api.events(name)
    decided = [e for e in events if e["type"] == "decided"]
    first, last = decided[30]["seq"], decided[90]["seq"]
    got = evaluate(api, name, ["uniform"], **{"from": first, "to": last})
    assert_dense(got, oracle.evaluate(dense_log(events, range(first, last)), oracle.Uniform()))
    at = decided[60]["at"]
    by_time = evaluate(api, name, ["uniform"], **{"from": at})
    seqs = {e["seq"] for e in events if e["at"] >= at}
    assert_dense(by_time, oracle.evaluate(dense_log(events, seqs), oracle.Uniform()))
    asked = look(api, name, api.call("GET", path(name)).json["evaluations"][0]["id"])["request"]
    assert asked["from"] == at and asked["to"] is None


def test_estimators_that_were_not_asked_for_are_refused(api, name):
    fill_plain(api, name, 60)
    got = evaluate(api, name, ["uniform"], estimators=["ips", "snips"])
    assert got["parameters"]["estimators"] == "ips,snips"
    assert [e for e in ("replay", "ips", "snips", "clipped_ips", "dr") if "refused" in got[e]] == ["replay", "clipped_ips", "dr"]


def test_the_graph_of_the_log_teaches_a_policy_on_users(api, name, tmp_path):
    fill_plain(api, name, 60)
    api.put_graph(name, [["u0", "u1", 1], ["u1", "u2", 1]])
    for i in range(60):
        shown = api.select(f"u{i % 3}", tenant=name, decision=f"late{i}")
        api.reward(f"late{i}", float(i % 3 == 0) * ARMS[shown["arm"]], tenant=name)
    policies = [{"name": "g.json", "configuration": {"algorithm": "gob-lin", "arm_dim": 2}}]
    result = evaluate(api, name, policies)
    assert told(result) == told(client_evaluates(tmp_path, api, api.events(name), policies))


# --- refusals --------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("body, status, pointers", [
    ({}, 400, ["/policies"]), ({"policies": []}, 400, ["/policies"]), ({"policies": ["ucb"]}, 400, ["/policies/0"]),
    ({"policies": [7]}, 400, ["/policies/0"]), ({"policies": ["logged", {}, {"name": "x"}]}, 400, ["/policies/1/arm", "/policies/2/configuration"]),
    ({"policies": [{"arm": "a", "configuration": {}}]}, 400, ["/policies/0/configuration"]),
    ({"policies": [{"configuration": {"algorithm": "best"}}]}, 400, ["/policies/0/configuration/algorithm"]),
    ({"policies": ["logged", {"configuration": {"algorithm": "ucb", "context_dim": 5}}]}, 422, ["/policies/1/configuration/context_dim"]),
    ({"policies": [{"configuration": {"algorithm": "sup-kernel-ucb"}}]}, 422, ["/policies/0/configuration/rule/type"]),
    ({"policies": [{"name": "a b", "configuration": {}}]}, 400, ["/policies/0/name"]),
    ({"policies": ["logged"], "from": -1, "to": "yesterday"}, 400, ["/from", "/to"]),
    ({"policies": ["logged"], "estimators": ["ips", "ips"]}, 400, ["/estimators/1"]),
    ({"policies": ["logged"], "id": "../x"}, 400, ["/id"]), ({"policies": ["logged"] * 9}, 400, ["/policies"])])
def test_what_is_wrong_is_named_and_nothing_is_begun(api, name, body, status, pointers):
    api.put_tenant(name, algorithm="ucb")
    assert api.call("POST", path(name), body, expect=status).pointers == pointers
    assert api.call("GET", path(name)).json == {"evaluations": []}


def test_a_log_that_says_nothing_fails_with_the_reason(api, name):
    api.put_tenant(name, algorithm="ucb")
    seen = ended(api, name, begin(api, name, ["uniform"]).json["id"])
    assert (seen["state"], seen["result"], seen["progress"]) == ("failed", None, None)
    assert seen["problem"]["status"] == 422 and "no decision with a reward" in seen["problem"]["detail"]
    assert seen["ended_at"] >= seen["begun_at"]


def test_one_at_a_time_and_ids_once(api, name):
    fill(api, name, 20000)
    begin(api, name, [SLOW], id="long")
    assert "long" in begin(api, name, ["logged"], expect=409).json["detail"]
    api.put_tenant(name + "x", algorithm="ucb")
    assert begin(api, name + "x", ["logged"], expect=503).headers["Retry-After"]
    api.call("DELETE", path(name, "long"), expect=204)
    assert ended(api, name, "long")["state"] == "cancelled"
    deadline = time.monotonic() + 20
    while begin(api, name + "x", ["logged"], expect=(202, 503), id="mine").status == 503:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    ended(api, name + "x", "mine")
    assert begin(api, name, ["logged"], expect=409, id="long").pointers == ["/id"]


def test_the_newest_twenty_are_kept(api, name):
    api.put_tenant(name, algorithm="ucb")
    for i in range(23):
        begin(api, name, ["logged"], id=f"e{i}")
        ended(api, name, f"e{i}")
    kept = [e["id"] for e in api.call("GET", path(name)).json["evaluations"]]
    assert kept == [f"e{i}" for i in range(22, 2, -1)]
    assert look(api, name, "e0", expect=404)["type"] == "/problems/no-evaluation"
    api.call("DELETE", path(name, "e22"), expect=204)
    api.call("DELETE", path(name, "e22"), expect=404)
    assert len(api.call("GET", path(name)).json["evaluations"]) == 19


# --- early ends --------------------------------------------------------------------------------------------------------------

def under_way(client, name, which):
    """Waits until it has come a little."""
    end = time.monotonic() + 60
    while not (seen := look(client, name, which))["progress"]:
        assert seen["state"] == "running" and time.monotonic() < end, seen
        time.sleep(0.02)
    return seen


def test_it_is_cancelled_in_the_middle(api, name):
    fill(api, name, 20000)
    begin(api, name, ["uniform", SLOW], id="e")
    assert 0 < under_way(api, name, "e")["progress"] < 1
    start = time.monotonic()
    api.call("DELETE", path(name, "e"), expect=204)
    assert look(api, name, "e")["state"] == "cancelled"
    while look(api, name, "e")["ended_at"] is None:
        assert time.monotonic() < start + 20
        time.sleep(0.05)
    seen = look(api, name, "e")
    assert (seen["result"], seen["problem"], seen["progress"]) == (None, None, None)
    assert evaluate(api, name, ["logged"])["n"] == 20000  # and the next one begins


def test_decisions_go_on_beside_it(api, name):
    fill(api, name, 20000)
    begin(api, name, [SLOW], id="e")
    under_way(api, name, "e")
    worst = 0.0
    for i in range(100):
        start = time.monotonic()
        api.select("u", tenant=name, context=[0, 0], decision=f"x{i}")
        worst = max(worst, time.monotonic() - start)
    assert look(api, name, "e")["state"] == "running" and worst < 2
    api.call("DELETE", path(name, "e"), expect=204)
    ended(api, name, "e")


def test_a_tenant_that_is_deleted_takes_it_along(api, name):
    fill(api, name, 20000)
    begin(api, name, [SLOW], id="e")
    under_way(api, name, "e")
    api.call("DELETE", tenant_path(name), expect=204)
    look(api, name, "e", expect=404)
    api.put_tenant(name, algorithm="ucb")
    assert api.call("GET", path(name)).json == {"evaluations": []}
    end = time.monotonic() + 30
    while begin(api, name, ["logged"], expect=(202, 503), id="next").status == 503:
        assert time.monotonic() < end
        time.sleep(0.1)
    ended(api, name, "next")


def test_a_stop_ends_it_soon_and_ended_ones_stay(boot):
    server = boot()
    client = Client(server)
    fill(client, "t", 20000)
    before = evaluate(client, "t", ["uniform"], id="before")
    begin(client, "t", [SLOW], id="cut")
    under_way(client, "t", "cut")
    start = time.monotonic()
    assert server.terminate() == 0 and time.monotonic() - start < 15
    server.start()
    client = Client(server)
    assert {e["id"]: e["state"] for e in client.call("GET", path("t")).json["evaluations"]} == {"cut": "interrupted", "before": "done"}
    assert look(client, "t", "before")["result"] == before
    cut = look(client, "t", "cut")
    assert (cut["ended_at"], cut["progress"], cut["result"], cut["problem"]) == (None, None, None, None)
    client.call("DELETE", path("t", "cut"), expect=204)
    assert evaluate(client, "t", ["uniform"])["ips"] == before["ips"]


def test_kills_keep_what_has_ended(boot):
    server = boot()
    client = Client(server)
    fill(client, "t", 20000)
    results = {}
    for i in range(3):
        results[f"e{i}"] = evaluate(client, "t", ["uniform", {"arm": "abc"[i]}], id=f"e{i}")
        begin(client, "t", [SLOW], id=f"cut{i}")
        under_way(client, "t", f"cut{i}")
        server.restart()
        client = Client(server)
        states = {e["id"]: e["state"] for e in client.call("GET", path("t")).json["evaluations"]}
        assert states == {**{k: "done" for k in results}, **{f"cut{j}": "interrupted" for j in range(i + 1)}}
        assert all(look(client, "t", k)["result"] == v for k, v in results.items())
    assert client.verify("t")["equal"]


def test_lines_that_are_rewritten_meanwhile_are_read_again(api, name):
    fill(api, name, 12000)
    kept = sum(e["type"] == "observed" and e["user"] != "u3" for e in api.events(name))
    begin(api, name, ["uniform", "logged", {"arm": "a"}], id="e")
    api.call("DELETE", tenant_path(name, "users/u3"))
    seen = ended(api, name, "e")
    assert seen["state"] == "done" and {p["n"] for p in seen["result"]["policies"]} in ({kept}, {12000})
    assert evaluate(api, name, ["uniform"])["n"] == kept


def test_a_copy_of_the_file_has_them(api, name):
    fill_plain(api, name, 40)
    result = evaluate(api, name, ["uniform"], id="e")
    copy = api.call("POST", tenant_path(name, "snapshot")).content
    api.call("PUT", tenant_path(name + "2", "snapshot"), raw=copy, kind="application/vnd.sqlite3", expect=201)
    assert look(api, name + "2", "e")["result"] == result


# --- memory ----------------------------------------------------------------------------------------------------------------

def test_no_room_is_told_at_once_or_as_the_reason(boot):
    """A quota that leaves nothing for its buffers: 507. One that its models outgrow: a problem with 507."""
    client = Client(boot("--tenant-quota", "4000000"))
    fill(client, "t", 6000)
    assert begin(client, "t", ["uniform"] * 8, expect=507).json["limit"] == "tenant_quota"
    assert client.call("GET", path("t")).json == {"evaluations": []}
    begin(client, "t", [SLOW], id="e")
    seen = ended(client, "t", "e")
    assert seen["state"] == "failed" and seen["problem"]["status"] == 507, seen
    assert evaluate(client, "t", ["uniform"])["n"] == 6000


def test_disks_that_refuse_begin_nothing(boot):
    server = boot()
    client = Client(server)
    fill(client, "t", 100)
    server.fill_disk()
    begin(client, "t", ["uniform"], expect=503, id="e")
    server.fill_disk(False)
    deadline = time.monotonic() + 30
    while client.call("GET", "/readyz", expect=(200, 503)).status != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert client.call("GET", path("t")).json == {"evaluations": []}
    assert evaluate(client, "t", ["uniform"], id="e")["n"] == 100
