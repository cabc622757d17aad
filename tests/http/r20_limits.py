"""What is too much is refused with the name of the limit and its value; docs/OPERATIONS.md has all names. The operator's own limits
lie below those of the contract."""
import json
import re

import pytest

from contract import NDJSON, ROOT
from harness import Client

SELECT, REWARD, OBSERVE, ARMS = "/select", "/reward", "/observe", "/tenants/t/arms"
LONG = "x" * 257
DEEP = {"a": 1}
for _ in range(8):
    DEEP = {"a": DEEP}

# (method, path, body, kind, status, limit, max)
TOO_MUCH = [
    ("POST", SELECT, {"user": "u", "candidates": [f"a{i}" for i in range(1025)]}, None, 400, "candidates", 1024),
    ("POST", SELECT, {"user": "u", "exclude": [f"a{i}" for i in range(1025)]}, None, 400, "exclude", 1024),
    ("POST", SELECT, {"user": "u", "candidates": ["a"], "top": 17}, None, 400, "top", 16),
    ("POST", SELECT, {"user": LONG, "candidates": ["a"]}, None, 400, "string_bytes", 256),
    ("POST", SELECT, {"user": "u", "candidates": ["a"], "decision": LONG}, None, 400, "string_bytes", 128),
    ("POST", SELECT, "[" * 17 + "]" * 17, "raw", 400, "depth", 16),
    ("POST", SELECT, {"user": "u", "context": [0] * (1 << 19)}, None, 413, "body", 1 << 20),
    ("POST", REWARD, [{"decision": "d", "reward": 1}] * 1001, None, 400, "rewards", 1000),
    ("POST", REWARD, {"decision": LONG, "reward": 1}, None, 400, "string_bytes", 128),
    ("POST", OBSERVE, [{"user": "u", "arm": "a", "reward": 1}] * 10001, NDJSON, 400, "lines", 10000),
    ("PUT", "/tenants/t", {"context_dim": 4097}, None, 400, "context_dim", 4096),
    ("PUT", "/tenants/t", {"arm_dim": 4097}, None, 400, "arm_dim", 4096),
    ("PUT", "/tenants/t", {"representation": {"type": "kors", "max_dictionary": 5000}}, None, 400, "max_dictionary", 4096),
    ("PUT", "/tenants/t", {"reward_window_s": 4e9}, None, 400, "reward_window_s", 316224000),
    ("PUT", "/tenants/t", {"challengers": {f"c{i}": {} for i in range(5)}}, None, 400, "challengers", 4),
    ("PUT", "/tenants/t", {"rule": {"type": "split", "weights": {f"a{i}": 1 for i in range(33)}}}, None, 400, "weights", 32),
    ("PUT", "/tenants/t", {"rule": {"type": "split", "weights": {"x" * (200 + i): 1 for i in range(4)}}}, None, 400, "weight_bytes", 768),
    ("PUT", "/tenants/t", {"metrics": [{"name": f"m{i}"} for i in range(17)]}, None, 400, "metrics", 16),
    ("PUT", ARMS, [LONG], None, 400, "string_bytes", 256),
    ("PUT", ARMS, [{"id": "a", "value": DEEP}], None, 400, "value_depth", 8),
    ("PUT", ARMS, [{"id": "a", "value": "x" * 4095}], None, 400, "value_bytes", 4096),
    ("GET", f"/tenants/t/graph/near?user={LONG}", None, None, 400, "string_bytes", 256),
    ("GET", f"/route/t?user=u?candidates=a,{LONG}", None, None, 400, "string_bytes", 256),
    ("GET", f"/route/t?user=u?fallback={LONG}", None, None, 400, "string_bytes", 256),
    ("POST", "/tenants/t/posterior", {"users": ["u"] * 501, "arms": ["a", "b"]}, None, 400, "cells", 1000),
    ("POST", "/tenants/t/posterior", {"users": ["u"] * 1001, "arms": ["a"]}, None, 400, "users", 1000),
    ("POST", "/tenants/t/posterior", {"users": ["u"], "arms": ["a"], "neighbours": 21}, None, 400, "neighbours", 20),
    ("GET", "/tenants/t/graph/near?user=u?hops=9", None, None, 400, "hops", 8),
    ("GET", "/tenants/t/graph/near?user=u?limit=1001", None, None, 400, "limit", 1000),
    ("GET", "/tenants/t/events?limit=100001", None, None, 400, "limit", 100000),
    ("GET", "/tenants/t/stats?window_s=31536001", None, None, 400, "window_s", 31536000),
]
# Those that other files bring about: rates, queues, reload, keys.
ELSEWHERE = {"rate", "queue", "queue_bytes", "pending", "opening", "work", "transfers", "body_memory", "keys", "arms", "streams", "neighbours_work", "feature_bytes"}


@pytest.fixture
def tenant(api):
    api.call("PUT", "/tenants/t", {"algorithm": "ucb"}, expect=(200, 201))
    return api


@pytest.mark.parametrize("method,path,body,kind,status,limit,most", TOO_MUCH, ids=[f"{c[5]}-{i}" for i, c in enumerate(TOO_MUCH)])
def test_too_much_is_named(tenant, method, path, body, kind, status, limit, most):
    before = tenant.model("t")
    sent = {"raw": body} if kind == "raw" else {"body": body, "kind": kind}
    problem = tenant.call(method, path.split("?")[0], **sent, query=dict(p.split("=") for p in path.split("?")[1:]),
                          tenant="t", expect=status).json
    assert (problem["limit"], problem["max"]) == (limit, most)
    assert tenant.model("t") == before


def test_a_line_that_is_too_long_is_named(boot):
    """Twice what a bulk body may have, of a log that is imported or replayed, in its first line and behind it."""
    client = Client(boot("--max-bulk-body", "1024"))
    client.put_tenant("t", algorithm="ucb")
    line, first = '"' + "x" * 200000 + '"\n', json.dumps({"type": "replay", "configuration": {"algorithm": "ucb"}}) + "\n"
    for path, text in (("/tenants/new/import", line), ("/tenants/t/replay", line), ("/tenants/t/replay", first + line)):
        problem = client.call("POST", path, raw=text, kind=NDJSON, expect=400).json
        assert (problem.get("limit"), problem.get("max")) == ("line_bytes", 2048), problem
        assert "longer than this server takes" in json.dumps(problem)


def test_vectors_of_objects_that_are_too_many_are_named(boot):
    client = Client(boot("--max-bulk-body", "1200"))
    client.put_tenant("t", algorithm="random", features={"mapping": "names-1", "dim": 51})
    problem = client.call("PUT", ARMS, [{"id": "a", "features": {}}], expect=400).json
    assert (problem["limit"], problem["max"], problem["errors"][0]["pointer"]) == ("feature_bytes", 400, "/0/features")
    client.put_tenant("u", algorithm="random", features={"mapping": "names-1", "dim": 50})
    client.put_arms("u", [{"id": "a", "features": {}}])


def test_what_is_wrong_otherwise_names_no_limit(tenant):
    for body in ({"user": ""}, {"user": "u", "candidates": []}, {"user": "u", "top": 0}, {"user": "u", "top": 1.5}, {}):
        problem = tenant.call("POST", SELECT, body, tenant="t", expect=400).json
        assert "limit" not in problem and "max" not in problem


def test_the_operator_may_set_lower_ones(boot):
    client = Client(boot("--max-candidates", "3", "--max-arms", "4", "--max-dim", "2"), tenant="t")
    for name in ("context_dim", "arm_dim"):
        problem = client.call("PUT", "/tenants/t", {name: 3}, expect=400).json
        assert (problem["limit"], problem["max"]) == (name, 2) and problem["errors"][0]["pointer"] == f"/{name}"
    client.call("GET", "/tenants/t", expect=404)
    client.put_tenant("t", algorithm="ucb", context_dim=0, arm_dim=0)
    problem = client.call("POST", SELECT, {"user": "u", "candidates": ["a", "b", "c", "d"]}, expect=400).json
    assert (problem["limit"], problem["max"], problem["errors"][0]["pointer"]) == ("candidates", 3, "/candidates")
    client.select("u", candidates=["a", "b", "c"])
    client.put_arms("t", [f"a{i}" for i in range(5)])
    problem = client.call("POST", SELECT, {"user": "u"}, expect=400).json
    assert (problem["limit"], problem["max"]) == ("arms", 4)
    client.select("u", candidates=["a1", "a2"])
    client.call("PATCH", ARMS, {"arms": [{"id": "a4", "active": False}]})
    assert client.select("u")["arm"].startswith("a")
    assert sum(e["type"] == "decided" for e in client.events("t")) == 3


def test_the_number_of_keys_has_a_limit(boot):
    client = Client(boot())
    client.put_tenant("t", algorithm="ucb")
    client.key = client.call("POST", "/keys", {"roles": ["admin"]}, expect=201).json["key"]
    for _ in range(100):
        client.call("POST", "/tenants/t/keys", {"roles": ["read"]}, expect=201)
    problem = client.call("POST", "/tenants/t/keys", {"roles": ["read"]}, expect=409).json
    assert (problem["limit"], problem["max"]) == ("keys", 100)


def test_the_documents_have_every_limit_by_its_name():
    text = (ROOT / "docs/OPERATIONS.md").read_text().split("\n## Limits on work\n")[1].split("\n## ")[0]
    named = set(re.findall(r"`([a-z_]+)`", text.split("|---|---|---|---|")[1]))
    used = {case[5] for case in TOO_MUCH if case[5] not in ("max_dictionary", "reward_window_s")} | ELSEWHERE
    assert used <= named
