"""A tenant's memory has a bound: what would take more is refused with 507 and changes nothing; the rest goes on."""
import re

import pytest

from contract import NDJSON
from harness import Client

QUOTA = 1_050_000


@pytest.fixture
def full(boot):
    """A tenant `t` that has learned until it was refused: first of new users, then of known ones too. `open` is a decision
    that it has, `known` a user; `new-point` is a decision whose reward would be one more point to learn."""
    server = boot("--tenant-quota", str(QUOTA))
    client = Client(server, tenant="t")
    client.put_tenant("t", algorithm="lk-gp-ucb")
    client.observe("known", "a", 1.0)
    client.select("known", candidates=["a"], decision="open")
    client.select("stranger", candidates=["b"], decision="new-point")
    n_users = learned(client, 4000, "a")
    learned(client, n_users, "b")
    return server, client


def learned(client, n, arm):
    """Of how many users the arm's reward was learned before it was refused."""
    for i in range(n):
        if client.call("POST", "/observe", {"user": f"u{i}", "arm": arm, "reward": 0.5}, expect=(200, 507)).status == 507:
            return i
    raise AssertionError("never full")


def test_what_would_take_more_is_refused_by_name_and_changes_nothing(full):
    server, client = full
    before = (client.model("t"), client.events("t"))
    many = [f"someone-with-a-long-name-{i:05}" for i in range(3000)]
    refused = [("POST", "/observe", {"user": "u-next", "arm": "a", "reward": 1}),
               ("PUT", "/tenants/t/graph", {"edges": [[u, "hub"] for u in many]}),
               ("PATCH", "/tenants/t/graph", {"add": [[u, "hub"] for u in many]}),
               ("PUT", "/tenants/t/arms", {"arms": many}), ("PATCH", "/tenants/t/arms", {"arms": many})]
    for method, path, body in refused:
        problem = client.call(method, path, body, expect=507).json
        assert str(QUOTA) in problem["detail"] and problem["title"] == "Insufficient Storage"
    lines = [{"user": u, "arm": "a", "reward": 0} for u in many]
    client.call("POST", "/observe", lines, kind=NDJSON, expect=507)
    assert (client.model("t"), client.events("t")) == before
    # Configurations build a second model beside the first.
    client.call("PUT", "/tenants/t", {"algorithm": "laplaced-kors"}, expect=507)
    assert (client.model("t"), client.events("t")) == before
    server.restart()
    assert client.digest("t") == before[0]["digest"]


def test_what_takes_nothing_goes_on(full):
    server, client = full
    assert client.select("known", candidates=["a"], dry_run=True)["arm"] == "a"
    assert client.observe("known", "a", 0.0) == {"observed": 1}
    assert client.reward("open", 1.0) == {"applied": True}
    assert client.call("GET", "/readyz").json == {"ready": True}
    other = Client(server, tenant="other")
    other.put_tenant("other", algorithm="ucb")
    assert other.observe("u", "a", 1.0) == {"observed": 1}


def test_rewards_and_decisions_that_take_memory_are_refused(full):
    _, client = full
    for i in range(3000):
        answer = client.call("POST", "/select", {"user": f"u{i % 50}", "candidates": ["a"], "decision": "x" * 120 + f"{i:05}"}, expect=(200, 507))
        if answer.status == 507:
            break
    assert answer.status == 507 and str(QUOTA) in answer.json["detail"]
    assert client.call("POST", "/reward", {"decision": "new-point", "reward": 1}, expect=507).json["status"] == 507
    got = client.call("POST", "/reward", [{"decision": "new-point", "reward": 1}, {"decision": "open", "reward": 1}]).json
    assert (got[0]["applied"], got[0]["status"], got[1]) == (False, 507, {"applied": True})


def test_a_larger_quota_lets_it_grow_again(full):
    server, client = full
    digest = client.digest("t")
    assert server.terminate() == 0
    server.args = ["--tenant-quota", str(10 * QUOTA)]
    server.start()
    assert client.digest("t") == digest
    assert client.observe("u-next", "a", 1.0) == {"observed": 1}


def test_a_batch_for_one_arm_is_weighed_as_one_arm(boot):
    """Arms that are held apart: 700 points of one arm want one larger block (8 MB), and not 700 of them."""
    quota = 48_000_000
    client = Client(boot("--tenant-quota", str(quota)), tenant="t")
    client.put_tenant("t", algorithm="laplaced-by-arm", context_dim=2)
    for arm in range(20):
        lines = [{"user": f"u{i % 50}", "arm": f"a{arm}", "context": [i / 700, arm], "reward": i % 2} for i in range(700)]
        answer = client.call("POST", "/observe", lines, kind=NDJSON, expect=(200, 507))
        if answer.status == 507:
            break
    assert answer.status == 507 and 3 <= arm <= 6
    assert int(re.search(r"and takes (\d+);", answer.json["detail"])[1]) <= quota
    assert client.verify("t")["equal"]
