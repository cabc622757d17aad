"""A tenant's rate: work is counted before it is done; over it 429 says which limit and when to come again, and nothing has
changed. Another tenant does not notice."""
import re
import time

import pytest

from contract import CONTRACT, NDJSON
from harness import Client
from keyring import template_of

ALL = sorted(name for name, (_, _, op) in CONTRACT.operations.items() if "429" in op["responses"])
BODIES = {"select": {"user": "u", "candidates": ["a"]}, "reward": {"decision": "none", "reward": 1},
          "activate": {"decision": "none"}, "observe": {"user": "u", "arm": "a", "reward": 1},
          "putTenant": {"algorithm": "ucb"}, "patchTenant": {}, "putGraph": {"edges": [["u", "v"]]}, "patchGraph": {"add": [["u", "w"]]},
          "putArms": {"arms": ["a"]}, "patchArms": {"arms": ["b"]}, "compact": {"keep_events": 1000000},
          "evaluateFlag": {"context": {"targetingKey": "u"}}, "evaluateFlags": {"context": {"targetingKey": "u"}},
          "trackEvents": {"events": [{"name": "e", "attributes": {"flag": "t-trackEvents", "decision": "none"}}]},
          "rankActions": {"actions": [{"id": "a"}]}, "rewardEvent": {"value": 1}, "rankSlots": {"actions": [{"id": "a"}], "slots": [{"id": "s", "baselineAction": "a"}]},
          "rewardSlots": {"reward": [{"slotId": "s", "value": 1}]}, "putService": {},
          "askPosterior": {"users": ["u"], "arms": ["a"]},
          "promote": {"challenger": "none"}, "beginEvaluation": {"policies": ["logged"]}, "rollback": {},
          "putPolicy": {"name": "p", "arguments": "--cb_explore_adf"},
          "applyFromEvaluation": {"evaluationId": "none", "policyName": "p"}, **{f"{verb}RankEvaluation": {"name": "e", "startTime": "2020-01-01T00:00:00Z", "endTime": "2030-01-01T00:00:00Z", "policies": []}
                                                                                for verb in ("begin", "put")},
          "replay": [{"type": "replay", "configuration": {"algorithm": "ts"}, "log": "own"}]}


QUERIES = {"route": "?user=u&candidates=a", "getNear": "?user=u"}


def send(client, name, tenant, **more):
    path = re.sub(r"\{(user|evaluation|event)\}", "nobody", template_of(name).replace("{tenant}", tenant).replace("{version}", "v1.0"))
    path += QUERIES.get(name, "")
    if name == "putRankModelFile":
        return client.call("PUT", path, raw=b"no file", kind="application/octet-stream", tenant=tenant, **more)
    return client.call(CONTRACT.operations[name][0].upper(), path, BODIES.get(name), kind=NDJSON if name == "replay" else None, tenant=tenant, **more)


def over(client, name, tenant, most=200):
    """Asks until it is told to wait; how often it was not."""
    for i in range(most):
        answer = send(client, name, tenant, expect=(200, 201, 202, 204, 400, 404, 409, 410, 429))
        if answer.status == 429:
            return answer, i
    raise AssertionError(f"{name} is never limited")


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A token a second, and three in hand."""
    from harness import Server
    server = Server(tmp_path_factory.mktemp("rates"), "--tenant-rate", "1", "--tenant-burst", "3").start()
    yield server
    try:
        assert server.terminate() == 0
    finally:
        server.close()


def test_the_work_of_a_tenant_is_all_that_is_limited():
    charged = {n for n, (_, _, op) in CONTRACT.operations.items() if op.get("x-role") in ("decide", "read", "manage")}
    free = {"listTenants", "makeTenantKey", "listTenantKeys", "revokeTenantKey", "getLimits"}
    assert set(ALL) == charged - free


@pytest.mark.parametrize("name", ALL)
def test_every_operation_of_a_tenant_has_a_limit(slow, name):
    client = Client(slow)
    tenant = "t-" + name
    client.put_tenant(tenant, algorithm="ucb")
    answer, n = over(client, name, tenant)
    assert n <= 5 + 60  # three in hand, and what came meanwhile
    assert "rate of 1 tokens" in CONTRACT.detail(answer.json)
    assert name in CONTRACT.flags or (answer.json["limit"], answer.json["max"]) == ("rate", 1)
    assert 1 <= int(answer.headers["Retry-After"]) <= 3


def test_who_comes_again_when_told_is_served(slow):
    client = Client(slow, tenant="patient")
    client.put_tenant("patient", algorithm="ucb")
    for _ in range(3):
        answer, _ = over(client, "observe", "patient")
        time.sleep(int(answer.headers["Retry-After"]))
        assert client.observe("u", "a", 1.0) == {"observed": 1}


def test_what_costs_more_than_can_be_saved_up_passes_when_the_bucket_is_full(slow):
    client = Client(slow, tenant="large")
    client.put_tenant("large", algorithm="ucb")
    lines = [{"user": "u", "arm": "a", "reward": 1}] * 1000  # 101 tokens
    for _ in range(100):
        answer = client.call("POST", "/observe", lines, kind=NDJSON, expect=(200, 429))
        if answer.status == 200:
            break
        time.sleep(int(answer.headers["Retry-After"]))
    assert answer.json == {"observed": 1000}
    assert client.call("POST", "/observe", lines, kind=NDJSON, expect=429).json["limit"] == "rate"


def test_one_tenant_over_its_rate_costs_another_nothing(boot):
    """Counted: of the one nearly all requests are refused and leave no trace, of the other, which keeps within its rate,
    none is."""
    server = boot("--tenant-rate", "20", "--tenant-burst", "1000")
    greedy, modest = Client(server, tenant="greedy"), Client(server, tenant="modest")
    for client in (greedy, modest):
        client.put_tenant(client.tenant, algorithm="laplaced-kors")
    refused = served = 0
    for i in range(400):
        if i % 4 == 0:
            d = modest.select(f"u{i}", candidates=["a", "b"])["decision"]
            assert modest.reward(d, 1.0) == {"applied": True}
        many = [{"user": f"u{i}", "arm": "a", "reward": 0.5}] * 100
        if greedy.call("POST", "/observe", many, kind=NDJSON, expect=(200, 429)).status == 200:
            served += 1
        else:
            refused += 1
    assert refused > 100 and served >= 40
    assert modest.metric('requests_limited_total{reason="rate"}') == refused
    assert modest.metric('rewards_total{tenant="modest"}') == 100
    assert modest.metric('observations_total{tenant="greedy"}') == 100 * served


def test_refused_requests_leave_the_model_and_the_log_as_they_were(boot):
    """Half of the bucket is left, so that reading is served, and what needs a full one is not."""
    server = boot("--tenant-rate", "1", "--tenant-burst", "100")
    client = Client(server, tenant="t")
    client.put_tenant("t", algorithm="ucb")
    client.put_arms("t", ["a", "b"])
    decisions = [client.select("u", candidates=["a"])["decision"] for _ in range(3)]
    lines = [{"user": "u", "arm": "a", "reward": 1}] * 400
    client.call("POST", "/observe", lines, kind=NDJSON)
    before = (client.model("t"), client.events("t", limit=500))
    refused = [("POST", "/observe", 3 * lines, NDJSON), ("PUT", "/tenants/t/arms", [f"x{i}" for i in range(20000)], None),
               ("PATCH", "/tenants/t/arms", {"remove": ["a"] * 20000}, None),
               ("PUT", "/tenants/t/graph", {"edges": [[f"u{i}", "v"] for i in range(20000)]}, None),
               ("PATCH", "/tenants/t/graph", {"add": [[f"u{i}", "v"] for i in range(20000)]}, None),
               ("POST", "/reward", [{"decision": d, "reward": 1} for d in decisions] * 333, None)]
    for method, path, body, kind in refused:
        answer = client.call(method, path, body, kind=kind, expect=429)
        assert answer.json["limit"] == "rate" and answer.json["max"] == 1
    assert (client.model("t"), client.events("t", limit=500)) == before
    server.restart()
    assert client.model("t") == before[0]


def test_a_rate_is_not_got_around_by_being_closed(boot):
    """What a tenant has used up is remembered while it is not in memory."""
    client = Client(boot("--memory-cap", "1", "--tenant-rate", "1", "--tenant-burst", "100"))
    client.put_tenant("t", algorithm="ucb")
    lines = [{"user": "u", "arm": "a", "reward": 1}] * 1000
    client.call("POST", "/observe", lines, kind=NDJSON, tenant="t")
    end = time.monotonic() + 20
    while not any(t["name"] == "t" and t["state"] == "closed" for t in client.call("GET", "/tenants").json["tenants"]):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert client.call("POST", "/observe", lines, kind=NDJSON, tenant="t", expect=429).json["limit"] == "rate"


# --- of one tenant, by an operator -----------------------------------------------------------------------------------

def put_limits(client, tenant, body, expect=200):
    return without_fill(client.call("PUT", f"/tenants/{tenant}/limits", body, expect=expect).json)


def limits(client, tenant):
    return without_fill(client.call("GET", f"/tenants/{tenant}/limits").json)


def without_fill(told):
    return {k: v for k, v in told.items() if k != "available"}


def available(client, tenant):
    return client.call("GET", f"/tenants/{tenant}/limits").json["available"]


def test_an_operator_sets_the_rate_of_one_tenant(boot):
    server = boot("--tenant-rate", "1000000")
    client = Client(server)
    for name in ("small", "large"):
        client.put_tenant(name, algorithm="ucb")
    assert limits(client, "small") == {"rate": 1000000, "burst": 10000000, "own": False}
    assert put_limits(client, "small", {"rate": 0.5, "burst": 4}) == {"rate": 0.5, "burst": 4, "own": True}
    answer, n = over(client, "observe", "small", most=20)
    assert n <= 10 and answer.json["max"] == 0.5
    time.sleep(0.6)  # the timer, which lets tenants follow the options, leaves it alone
    assert limits(client, "small") == {"rate": 0.5, "burst": 4, "own": True}
    for _ in range(30):
        client.observe("u", "a", 1.0, tenant="large")
    # What was used up stays used up under the new limit, after which there is none at all.
    put_limits(client, "small", {"rate": 0.5})
    assert limits(client, "small")["burst"] == 5
    put_limits(client, "small", {"rate": 0})
    for _ in range(30):
        client.observe("u", "a", 1.0, tenant="small")
    assert put_limits(client, "small", {}) == limits(client, "large")


def test_a_rate_of_its_own_outlives_restarts_and_closings_and_ends_with_the_tenant(boot):
    server = boot("--memory-cap", "1")
    client = Client(server)
    client.put_tenant("t", algorithm="ucb")
    put_limits(client, "t", {"rate": 0.01, "burst": 3})
    over(client, "observe", "t", most=20)
    while not any(t["name"] == "t" and t["state"] == "closed" for t in client.call("GET", "/tenants").json["tenants"]):
        time.sleep(0.05)
    client.call("POST", "/observe", BODIES["observe"], tenant="t", expect=429)
    server.restart()
    assert limits(client, "t") == {"rate": 0.01, "burst": 3, "own": True}
    assert over(client, "observe", "t", most=20)[1] <= 4
    client.call("DELETE", "/tenants/t", expect=204)
    client.call("GET", "/tenants/t/limits", expect=404)
    client.put_tenant("t", algorithm="ucb")
    assert limits(client, "t") == {"rate": 0, "burst": 0, "own": False}


def test_limits_that_cannot_be_set_change_nothing(boot):
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="ucb")
    put_limits(client, "t", {"rate": 7, "burst": 70})
    for body, pointer in (({"rate": -1}, "/rate"), ({"rate": "1"}, "/rate"), ({"rate": 1e10}, "/rate"), ({"burst": 5}, "/rate"),
                          ({"rate": 1, "burst": -1}, "/burst"), ({"rate": 1, "speed": 1}, "/speed"), ([], "")):
        assert pointer in [e["pointer"] for e in put_limits(client, "t", body, expect=400)["errors"]]
    put_limits(client, "none", {"rate": 1}, expect=404)
    client.call("PUT", "/tenants/t/limits", raw=b" " * (2 << 20), expect=413)
    client.call("PUT", "/tenants/t/limits", raw="{}", kind="text/plain", expect=415)
    server.fill_disk()
    put_limits(client, "t", {"rate": 8}, expect=503)
    assert limits(client, "t") == {"rate": 7, "burst": 70, "own": True}
    server.fill_disk(False)
    put_limits(client, "t", {"rate": 8})
    server.restart()
    assert limits(client, "t") == {"rate": 8, "burst": 80, "own": True}


def test_what_is_left_of_the_bucket_is_told(boot):
    server = boot("--memory-cap", "1")
    client = Client(server)
    client.put_tenant("t", algorithm="ucb")
    assert available(client, "t") is None
    assert client.call("PUT", "/tenants/t/limits", {"rate": 0.001, "burst": 5}).json["available"] == 5 == available(client, "t")
    answer, n = over(client, "observe", "t", most=20)
    left = available(client, "t")
    taken = 5 - left
    assert 0 <= left < taken / n + 0.01  # less than one more costs, which is why that was refused; it looks and takes nothing
    time.sleep(1)
    assert left < available(client, "t") < left + 1
    while not any(t["name"] == "t" and t["state"] == "closed" for t in client.call("GET", "/tenants").json["tenants"]):
        time.sleep(0.05)
    assert left < available(client, "t") < left + 1  # of one that is not in memory as well
