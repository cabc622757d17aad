"""Whatever is sent again, with an id of the sender's own, happens once: at the same moment, after crashes, compaction, moves,
evictions. And what does not is known."""
import concurrent.futures
import json
import threading
import time

import pytest
import requests

from contract import NDJSON
from harness import Client, tenant_path

ARMS = [{"id": f"a{i}", "features": [0.2 * i]} for i in range(5)]
N_CLIENTS = 8


def ask(client, name, expect=200, **fields):
    """The bytes of a decision."""
    return client.call("POST", "/select", {"user": "u", "context": [0.5], "explain": True, **fields}, tenant=name, expect=expect).content


def learn(client, name, n=20, first=0):
    for i in range(first, first + n):
        client.observe(f"u{i % 3}", f"a{i % 5}", 0.1 * (i % 7), context=[0.1 * (i % 4)], tenant=name)


def make(client, name, **config):
    client.put_tenant(name, **{"algorithm": "gp-ucb", "arm_dim": 1, "context_dim": 1, **config})
    client.put_arms(name, ARMS)
    return name


def at_once(server, calls):
    """What the calls return, each made by a client of its own at the same moment."""
    start = threading.Barrier(len(calls))

    def one(call):
        client = Client(server)
        start.wait(30)
        return call(client)
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls))


def compact(client, name, keep):
    return client.call("POST", tenant_path(name, "compact"), {"keep_events": keep}).json


# ---- decisions --------------------------------------------------------------------------------------------------------

def test_retries_at_the_same_moment_get_the_bytes_of_one_answer(api, server, name):
    """Also where each attempt would have drawn another arm."""
    for durability in ("commit", "relaxed"):
        tenant = make(api, f"{name}.{durability}", rule={"type": "thompson"}, durability=durability)
        for t in range(6):
            answers = at_once(server, [lambda c, t=t, x=i: ask(c, tenant, decision=f"d{t}", context=[0.1 * x]) for i in range(N_CLIENTS)])
            assert len(set(answers)) == 1
        assert api.stats(tenant)["decisions"] == 6


def test_a_retry_after_kill_and_restart_gets_the_first_answer(boot):
    server = boot()
    client = Client(server)
    tenant = make(client, "shop", rule={"type": "thompson"})
    learn(client, tenant)
    first = {d: ask(client, tenant, decision=d, context=[0.1 * i]) for i, d in enumerate(("x", "y", "z"))}
    server.restart()
    client = Client(server)
    learn(client, tenant)
    assert {d: ask(client, tenant, decision=d, context=[0.9]) for d in first} == first
    assert client.stats(tenant)["decisions"] == 3


def test_a_retry_after_its_reward_its_expiry_and_other_configurations_gets_the_first_answer(api, name):
    make(api, name, reward_window_s=0.2)
    first = {d: ask(api, name, decision=d) for d in ("rewarded", "expired")}
    api.reward("rewarded", 1.0, tenant=name)
    deadline = time.monotonic() + 30
    while api.stats(name)["expired"] == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert api.stats(name)["expired"] == 1
    api.put_tenant(name, expect=200, algorithm="ts", arm_dim=1, context_dim=1)
    assert {d: ask(api, name, decision=d) for d in first} == first


def test_a_retry_gets_the_first_answer_when_its_arms_are_gone(api, name):
    """The model of today would refuse the body."""
    make(api, name)
    first = ask(api, name, decision="d", candidates=["a1", "a2"])
    api.call("PATCH", tenant_path(name, "arms"), {"remove": ["a1", "a2"]})
    assert ask(api, name, decision="d", candidates=["a1", "a2"]) == first
    api.put_arms(name, [{"id": "a7", "features": [0], "active": False}])
    assert ask(api, name, decision="d") == first
    for body in ({"candidates": ["a1"]}, {}, {"candidates": ["a7", "a7"]}):
        refused = [api.call("POST", "/select", {"user": "u", "context": [0], **body, **named}, tenant=name, expect=(400, 404, 409)).json
                   for named in ({}, {"decision": "new"})]
        one, other = ({k: v for k, v in told.items() if k != "instance"} for told in refused)
        assert one == other
    assert api.stats(name)["decisions"] == 1


def test_a_retry_gets_the_first_answer_when_limits_are_lower_by_now(boot, tmp_path):
    config = tmp_path / "config"
    config.write_text("")
    server = boot("--config", str(config))
    client = Client(server)
    client.put_tenant("t", algorithm="ucb")
    named = {"user": "u", "candidates": ["a", "b", "c"]}
    client.put_arms("t", ["x", "y", "z"])
    first = {d: client.call("POST", "/select", {**body, "decision": d}, tenant="t").content for d, body in (("d", named), ("e", {"user": "u"}))}
    server.terminate()
    config.write_text("max-candidates = 2\nmax-arms = 2\n")
    client = Client(server.start())
    for d, body, limit in (("d", named, "candidates"), ("e", {"user": "u"}, "arms")):
        assert client.call("POST", "/select", {**body, "decision": d}, tenant="t").content == first[d]
        for other in ({}, {"decision": "new"}):
            assert client.call("POST", "/select", {**body, **other}, tenant="t", expect=400).json["limit"] == limit
    assert client.stats("t")["decisions"] == 2


def test_retries_at_the_same_moment_when_the_arms_go(api, server, name):
    """One of them may be first, or the arms gone before all; never two answers."""
    make(api, name)
    for t in range(5):
        api.put_arms(name, ARMS)
        calls = [lambda c, t=t: c.call("POST", "/select", {"user": "u", "context": [0], "candidates": ["a1", "a2"], "decision": f"d{t}"},
                                       tenant=name, expect=(200, 400)) for _ in range(N_CLIENTS)]
        calls.insert(N_CLIENTS // 2, lambda c: c.call("PATCH", tenant_path(name, "arms"), {"remove": ["a1", "a2"]}))
        answers = [a for a in at_once(server, calls) if "/arms" not in a.text and "propensity" in a.text]
        assert len({a.content for a in answers}) <= 1
        assert sum(e["type"] == "decided" and e["decision"] == f"d{t}" for e in api.events(name)) == bool(answers)


def test_an_id_is_not_for_another_user(api, name):
    make(api, name)
    first = ask(api, name, decision="d")
    refused = api.call("POST", "/select", {"user": "v", "context": [0.5], "decision": "d"}, tenant=name, expect=409)
    assert refused.pointers == ["/decision"] and "another user" in refused.json["errors"][0]["detail"]
    api.reward("d", 1.0, tenant=name)
    api.call("POST", "/select", {"user": "v", "context": [0.5], "decision": "d"}, tenant=name, expect=409)
    assert ask(api, name, decision="d", context=[0.1], candidates=["a3"], top=2) == first
    assert api.stats(name)["decisions"] == 1


def test_a_retry_after_compaction_gets_the_first_answer_while_the_log_has_it(api, name):
    """Those that are open, and those whose lines stay; of others nothing is known any more."""
    make(api, name)
    first = {d: ask(api, name, decision=d) for d in ("open", "closed")}
    api.reward("closed", 1.0, tenant=name)
    learn(api, name, 60)
    first["late"] = ask(api, name, decision="late")
    api.reward("late", 1.0, tenant=name)
    assert compact(api, name, 2)["compacted"]
    assert {d: ask(api, name, decision=d) for d in ("open", "late")} == {d: first[d] for d in ("open", "late")}
    api.call("POST", "/select", {"user": "v", "context": [0.5], "decision": "open"}, tenant=name, expect=409)
    before = api.stats(name)["decisions"]
    ask(api, name, decision="closed")
    assert api.stats(name)["decisions"] == before + 1


def test_a_retry_after_a_move_gets_the_first_answer(api, name):
    make(api, name)
    first = {d: ask(api, name, decision=d) for d in ("open", "closed")}
    api.reward("closed", 1.0, tenant=name)
    lines = api.call("GET", tenant_path(name, "export")).content
    file = api.call("POST", tenant_path(name, "snapshot")).content
    api.call("POST", tenant_path(name + ".i", "import"), raw=lines, kind=NDJSON, expect=201)
    api.call("PUT", tenant_path(name + ".r", "snapshot"), raw=file, kind="application/vnd.sqlite3", expect=201)
    for other in (name + ".i", name + ".r"):
        assert {d: ask(api, other, decision=d) for d in first} == first
        assert api.reward("closed", 1.0, tenant=other) == {"applied": False, "duplicate": True}


def test_a_retry_after_eviction_gets_the_first_answer(boot):
    client = Client(boot("--memory-cap", "1"))
    for name in ("one", "two"):
        make(client, name)
    first = {name: ask(client, name, decision="d") for name in ("one", "two")}
    for name in ("one", "two"):
        client.call("POST", "/observe", {"user": "u", "context": [0], "arm": "a1", "reward": 1, "id": "o"}, tenant=name)
    for _ in range(3):
        for name in ("one", "two"):
            assert ask(client, name, decision="d") == first[name]
            assert client.observe("u", "a1", 1, context=[0], id="o", tenant=name) == {"observed": 0, "duplicates": 1}


def test_an_erased_users_id_is_free_again(api, name):
    make(api, name)
    ask(api, name, decision="d")
    api.observe("u", "a1", 1, context=[0], id="o", tenant=name)
    api.call("DELETE", tenant_path(name, "users/u"))
    assert api.observe("v", "a1", 1, context=[0], id="o", tenant=name) == {"observed": 1}
    assert json.loads(ask(api, name, decision="d", user="v"))["decision"] == "d"


# ---- rewards ----------------------------------------------------------------------------------------------------------

DUPLICATE = {"applied": False, "duplicate": True}


def test_a_reward_at_the_same_moment_counts_once(api, server, name):
    for aggregation in ("first", "last"):
        tenant = make(api, f"{name}.{aggregation}", aggregation=aggregation)
        for t in range(6):
            ask(api, tenant, decision=f"d{t}")
            answers = at_once(server, [lambda c, t=t: c.reward(f"d{t}", 0.5, tenant=tenant) for _ in range(N_CLIENTS)])
            assert sorted(answers, key=len) == [{"applied": True}] + [DUPLICATE] * (N_CLIENTS - 1)
        assert api.stats(tenant)["rewards"] == 6


def test_a_reward_is_known_again_after_a_restart_and_a_compaction(boot):
    server = boot()
    client = Client(server)
    for aggregation in ("first", "last"):
        make(client, aggregation, aggregation=aggregation)
        ask(client, aggregation, decision="d")
        client.reward("d", 0.5, tenant=aggregation)
    server.restart()
    client = Client(server)
    for aggregation in ("first", "last"):
        before = client.digest(aggregation)
        assert client.reward("d", 0.5, tenant=aggregation) == DUPLICATE
        learn(client, aggregation, 60)
        compact(client, aggregation, 10)
        if aggregation == "last":  # open until its window closes, hence kept
            assert client.reward("d", 0.5, tenant=aggregation) == DUPLICATE
        assert client.digest(aggregation) != before


def test_an_array_means_what_its_rewards_mean_one_by_one(api, name):
    make(api, name)
    for d in ("d", "e"):
        ask(api, name, decision=d)
    body = [{"decision": "d", "reward": 1}, {"decision": "e", "reward": 0}, {"decision": "d", "reward": 1}, {"decision": "d", "reward": 2}]
    first = api.call("POST", "/reward", body, tenant=name).json
    assert first[:3] == [{"applied": True}, {"applied": True}, DUPLICATE] and first[3]["status"] == 409
    again = api.call("POST", "/reward", body, tenant=name).json
    assert again[:3] == [DUPLICATE] * 3 and again[3]["status"] == 409
    assert api.stats(name)["rewards"] == 2


def test_under_sum_a_reward_sent_again_is_another_one(api, name):
    """As documented: a caller who sums sends each amount once, or asks for the events first."""
    make(api, name, aggregation="sum")
    ask(api, name, decision="d")
    assert [api.reward("d", 0.5, tenant=name) for _ in range(2)] == [{"applied": True}] * 2
    assert api.stats(name)["mean_reward"] == pytest.approx(1.0)


# ---- observations -----------------------------------------------------------------------------------------------------

def lines(n, first=0, **more):
    return [{"user": f"u{i % 3}", "context": [0.1 * (i % 4)], "arm": f"a{i % 5}", "reward": 0.1 * (i % 7), "id": f"o{i}", **more}
            for i in range(first, first + n)]


def tell(client, name, body, expect=200):
    return client.call("POST", "/observe", body, kind=NDJSON, tenant=name, expect=expect).json


def test_an_observation_with_an_id_is_learned_once(api, name):
    make(api, name)
    assert api.observe("u", "a1", 0.5, context=[0], id="o", tenant=name) == {"observed": 1}
    before = api.digest(name)
    assert api.observe("u", "a1", 0.5, context=[0], id="o", tenant=name) == {"observed": 0, "duplicates": 1}
    assert api.digest(name) == before and [e["id"] for e in api.events(name) if e["type"] == "observed"] == ["o"]
    api.select("u", context=[0], decision="o", tenant=name)  # ids of decisions are others
    assert api.observe("u", "a1", 0.5, context=[0], tenant=name) == {"observed": 1}


def test_bulk_is_told_again_in_any_cut(api, name):
    for algorithm in ("gp-ucb", "laplaced-kors"):
        tenant = make(api, f"{name}.{algorithm}", algorithm=algorithm)
        assert tell(api, tenant, lines(300)) == {"observed": 300}
        digest = api.digest(tenant)
        assert tell(api, tenant, lines(300)) == {"observed": 0, "duplicates": 300}
        assert api.digest(tenant) == digest
        assert tell(api, tenant, lines(200, 200)) == {"observed": 100, "duplicates": 100}
        assert tell(api, tenant, lines(3, 1000) * 2) == {"observed": 3, "duplicates": 3}
        twin = make(api, f"{tenant}.twin", algorithm=algorithm)
        tell(api, twin, [{k: v for k, v in line.items() if k != "id"} for line in lines(400) + lines(3, 1000)])
        assert api.model(twin)["events"] == api.model(tenant)["events"] == 403
        assert api.model(twin)["dictionary"] == api.model(tenant)["dictionary"]


def test_an_id_is_not_for_another_observation_and_then_nothing_is_learned(api, name):
    make(api, name)
    tell(api, name, lines(5))
    before = api.digest(name)
    for change in ({"user": "w"}, {"arm": "a4"}, {"reward": 9}):
        body = lines(3, 10) + lines(1, 2, **change) + lines(3, 20)
        answer = api.call("POST", "/observe", body, kind=NDJSON, tenant=name, expect=409)
        assert answer.pointers == ["/3/id"]
        assert api.call("POST", "/observe", {**lines(1, 2)[0], **change}, tenant=name, expect=409).pointers == ["/id"]
        assert api.call("POST", "/observe", lines(1, 30) + lines(1, 30, **change), kind=NDJSON, tenant=name, expect=409).pointers == ["/1/id"]
    assert api.digest(name) == before
    assert tell(api, name, lines(1, 2, context=[0.9])) == {"observed": 0, "duplicates": 1}  # what may have moved on


def test_observations_at_the_same_moment_are_learned_once(api, server, name):
    for durability in ("commit", "relaxed"):
        tenant = make(api, f"{name}.{durability}", durability=durability)
        for t in range(5):
            one = {"user": "u", "context": [0], "arm": "a1", "reward": t, "id": f"s{t}"}
            calls = [lambda c: c.call("POST", "/observe", one, tenant=tenant).json for _ in range(N_CLIENTS // 2)]
            calls += [lambda c: tell(c, tenant, [one, *lines(4, 100 * t)]) for _ in range(N_CLIENTS // 2)]
            assert sum(a["observed"] for a in at_once(server, calls)) == 5
        assert api.stats(tenant)["observations"] == 25


@pytest.mark.parametrize("commits", [1, 2, 9])
def test_a_bulk_that_was_cut_by_a_crash_is_completed_by_its_retry(boot, commits):
    """Each point that enters a dictionary ends a commit, so that a body is many of them."""
    server = boot()
    client, body = Client(server), lines(900)
    make(client, "t", algorithm="laplaced-kors")
    server.kill()
    server.env = {"LAPLACED_FAILPOINT": f"after_commit:{commits}"}
    server.start()
    with pytest.raises(requests.ConnectionError):
        tell(Client(server), "t", body)
    server.close()
    server.env = {}
    server.start()
    client = Client(server)
    n_durable = client.stats("t")["observations"]
    assert 0 < n_durable < len(body)
    assert tell(client, "t", body) == {"observed": len(body) - n_durable, "duplicates": n_durable}
    assert [e["id"] for e in client.events("t") if e["type"] == "observed"] == [line["id"] for line in body]
    assert client.verify("t")["equal"]


def test_ids_of_observations_are_known_while_the_log_has_them(api, name):
    make(api, name)
    tell(api, name, lines(80))
    exported = api.call("GET", tenant_path(name, "export")).content
    api.call("POST", tenant_path(name + ".i", "import"), raw=exported, kind=NDJSON, expect=201)
    assert tell(api, name + ".i", lines(80)) == {"observed": 0, "duplicates": 80}
    assert compact(api, name, 10)["compacted"]
    assert tell(api, name, lines(10, 70)) == {"observed": 0, "duplicates": 10}
    assert tell(api, name, lines(1)) == {"observed": 1}
