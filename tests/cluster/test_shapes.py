"""What a tenant can be, written at three servers at once: each server's copy, model, statistics and experiment are the same in the end, and
those of a server that folds the log anew."""
import collections
import json
import os
import random
import signal
import threading
import time

import pytest
import requests

import pg
from servers import Servers, at_once, events_of, init, settle, wait_for
from harness import NDJSON, Client, Server

pytestmark = pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")

# Each is a way in which what is folded could differ from what was served: a factor that grows, chance in the log, sums and corrections,
# lengthscales that move and a hand-over, windows that close, arms that stick, many metrics, objects that become vectors.
SHAPES = {
    "exact": dict(algorithm="lk-gp-ucb", arm_dim=1, context_dim=1),
    "kors": dict(algorithm="laplaced-kors", arm_dim=1, context_dim=1, aggregation="sum", metrics=[{"name": "spent", "aggregation": "sum"}],
                 representation={"type": "kors", "lambda": 0.2, "max_dictionary": 12}),
    "thompson": dict(algorithm="ts", aggregation="last", routing={"holdout": {"share": 0.4, "baseline": {"rule": "uniform"}}, "sticky": {"ttl_s": 0.5}}),
    "median": dict(algorithm="gp-ucb", arm_dim=1, arm_kernel={"type": "rbf", "lengthscale": "median"}, representation={"type": "exact", "exact_limit": 20}),
    "window": dict(algorithm="laplaced", reward_window_s=0.4, default_reward=0.0),
    "experiment": dict(algorithm="random", experiment={"difference": 0.1}),
    "default": dict(algorithm="laplaced"),
    "named": dict(algorithm="laplaced-kors", features={"mapping": "names-1", "dim": 16, "seed": 5, "weights": {"hour": 2.5}}),
    "split": dict(algorithm="laplaced", default_reward=None, rule={"type": "split", "epsilon": 0.1, "weights": {f"arm{i}": 1 + i for i in range(6)}}),
}


def act(api, name, config, rng, n):
    """A client's changes, of all kinds; refusals are part of it."""
    opened = []
    for i in range(n):
        what, user = rng.random(), f"u{rng.randrange(8)}"
        body = {"user": user, **context(config, rng)}
        if what < 0.45:
            if rng.random() < 0.3:
                body["slots"] = slots(config, rng)
            told = api.call("POST", "/select", body, tenant=name, expect=(200, 409)).json
            if "decision" in told:
                opened += [{"decision": told["decision"], "slot": s["id"]} for s in told.get("slots", [])] or [{"decision": told["decision"]}]
        elif what < 0.8 and opened:
            reward = rng.randrange(9) / 8
            body = {**rng.choice(opened[-5:]), "reward": reward}
            if "metrics" in config and rng.random() < 0.5:
                body["metric"] = config["metrics"][0]["name"]
            api.call("POST", "/reward", body, tenant=name, expect=(200, 404, 409, 410))
        elif what < 0.9:
            rows = [{"id": f"o{rng.random()}", **{k: v for k, v in body.items()}, "arm": f"arm{rng.randrange(6)}", "reward": rng.random()} for _ in range(rng.randrange(1, 20))]
            api.call("POST", "/observe", rows, kind=NDJSON, tenant=name)
        elif what < 0.95:
            a, b = rng.sample(range(8), 2)
            api.call("PATCH", f"/tenants/{name}/graph", {"add": [[f"u{a}", f"u{b}", rng.randrange(1, 5)]]}, expect=(200, 409))
        elif what < 0.97:
            api.call("PATCH", f"/tenants/{name}/arms", {"arms": [arm(config, rng.randrange(6), rng)]}, expect=(200, 409))
        else:
            api.call("PATCH", f"/tenants/{name}", {"seed": rng.randrange(10**6)}, expect=(200, 409))


def slots(config, rng):
    """Three places, of which one has a context of its own."""
    own = {"features": {"size": rng.randrange(4)}} if "features" in config else context(config, rng)
    return [{"id": "top", "baseline": "arm3"}, {"id": "left", "exclude": ["arm0", "arm1"]}, {"id": "foot", **own}]


def context(config, rng):
    if "features" in config:
        return {"context": {"hour": rng.randrange(24), "device": rng.choice(["phone", "tablet"]), "article": {"topic": rng.choice("abc")}}}
    return {"context": [rng.randrange(9) / 8]} if config.get("context_dim") else {}


def arm(config, i, rng):
    if "features" in config:
        return {"id": f"arm{i}", "features": {"topic": rng.choice("abc"), "length": i}}
    return {"id": f"arm{i}", **({"features": [rng.randrange(9) / 8]} if config.get("arm_dim") else {})}


def facts(client, name):
    """What is counted beside the model."""
    stats = client.call("GET", f"/tenants/{name}/stats").json
    series = client.call("GET", f"/tenants/{name}/series").json
    return json.dumps([{k: v for k, v in stats.items() if k not in ("window", "warnings", "unknown")}, series], sort_keys=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_whoever_writes_all_have_the_same(trio, three, shape):
    config, name, rng = SHAPES[shape], f"shape-{shape}", random.Random(shape)
    three[0].put_tenant(name, **config)
    three[0].call("PUT", f"/tenants/{name}/arms", {"arms": [arm(config, i, rng) for i in range(6)]})
    three[0].call("PUT", f"/tenants/{name}/graph", {"edges": [[f"u{i}", f"u{(i + 1) % 8}", 1] for i in range(8)]})
    at_once(*[lambda k=k: act(three[k], name, config,
                              random.Random(f"{shape}/{k}"), 150) for k in range(3)])
    if "reward_window_s" in config:
        wait_for(lambda: three[0].stats(name)["pending"] == 0)
    log, digest = settle(three, name)
    events = events_of(log)
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    at = [e["at"] for e in events]
    assert at == sorted(at)
    kinds = collections.Counter(e["type"] for e in events)
    filled = [e for e in events if e["type"] == "decided" and "slots" in e]
    assert len(filled) > 20 and all(len({arm["arm"] for arm in e["slate"]}) == len(e["slots"]) == 3 for e in filled)
    places = {(e["decision"], arm["arm"]) for e in filled for arm in e["slate"]}
    assert len({(e["decision"], e.get("arm")) for e in events if e["type"] in ("rewarded", "measured", "late")} & places) > 10
    assert kinds["decided"] > 100 and kinds["rewarded"] + kinds["measured"] + kinds["late"] > 50, kinds
    decisions = [e["decision"] for e in events if e["type"] in ("expired",)]
    assert len(decisions) == len(set(decisions))
    for api in three:
        assert api.verify(name)["equal"], name
    assert len({facts(api, name) for api in three}) == 1, [facts(api, name) for api in three]


def test_a_server_that_comes_later_folds_to_the_same(trio, three):
    late = Client(trio.add())
    trio.servers.pop()
    for shape in SHAPES:
        name = f"shape-{shape}"
        wait_for(lambda: late.call("GET", f"/tenants/{name}", expect=(200, 503)).status == 200)
        settle([*three, late], name)
        assert facts(late, name) == facts(three[0], name)
    late.server.close()


def test_ten_thousand_observations_at_three_servers_stand_once(trio, three):
    name = "bulk"
    three[0].put_tenant(name, algorithm="laplaced")
    rows = [{"id": f"o{i}", "user": f"u{i % 9}", "arm": f"a{i % 4}", "reward": i % 7} for i in range(4000)]

    def send(k):
        mine = rows[:]
        random.Random(k).shuffle(mine)
        return sum(three[k].call("POST", "/observe", mine[i:i + 1000], kind=NDJSON, tenant=name).json["observed"] for i in range(0, 4000, 1000))
    told = at_once(*[lambda k=k: send(k) for k in range(3)])
    log, _ = settle(three, name)
    ids = collections.Counter(e["id"] for e in events_of(log) if e["type"] == "observed")
    assert ids == {row["id"]: 1 for row in rows} and sum(told) == 4000, told


def test_arrays_of_rewards_and_activations_at_three_servers_count_once(trio, three):
    """Sums are exact: no reward of an array is learned by two servers, or by none."""
    name = "arrays"
    three[0].put_tenant(name, algorithm="laplaced")
    rng = random.Random(1)
    decided = [rng.choice(three).select("u", tenant=name, candidates=["x", "y"], defer=i % 4 == 0)["decision"] for i in range(160)]
    at_once(*[lambda api=api: [api.call("POST", "/activate", {"decision": d}, tenant=name) for d in decided[::4]] for api in three])
    rewards = [{"decision": d, "reward": i % 7} for i, d in enumerate(decided)]

    def send(api, k):
        mine = rewards[:]
        random.Random(k).shuffle(mine)
        return [r["applied"] for r in api.call("POST", "/reward", mine, tenant=name).json]
    told = at_once(*[lambda api=api, k=k: send(api, k) for k, api in enumerate(three)])
    assert sum(map(sum, told)) == len(rewards)
    log, _ = settle(three, name)
    events = events_of(log)
    assert collections.Counter(e["decision"] for e in events if e["type"] == "activated") == {d: 1 for d in decided[::4]}
    assert {e["decision"]: e["reward"] for e in events if e["type"] == "rewarded"} == {r["decision"]: r["reward"] for r in rewards}
    assert collections.Counter(e["type"] for e in events)["rewarded"] == len(rewards)


def test_doors_of_other_protocols_at_three_servers_are_one_service(trio, three):
    """Feature flags by OpenFeature's protocol, /route for proxies, Personalizer's Rank: what is decided at one sticks, and is rewarded, at another."""
    name = "doors"
    three[0].put_tenant(name, algorithm="ts", default_reward=None, routing={"sticky": {"ttl_s": 3600}})
    three[0].put_arms(name, [{"id": i, "value": {"color": i}} for i in ("red", "green", "blue")])
    settle(three, name)
    rng, variants = random.Random(8), {}
    for i in range(60):
        user, (one, other) = f"u{i % 9}", rng.sample(three, 2)
        flag = one.call("POST", f"/ofrep/v1/evaluate/flags/{name}", {"context": {"targetingKey": user}}).json
        assert flag["value"] == {"color": flag["variant"]} and variants.setdefault(user, flag["variant"]) == flag["variant"]
        told = other.call("GET", f"/route/{name}", query={"user": user, "decision": f"route{i}"}, expect=204).headers
        assert (told["Laplaced-Arm"], told["Laplaced-Decision"]) == (variants[user], f"route{i}") and "Laplaced-Fallback" not in told
        assert one.reward(f"route{i}", i % 2, tenant=name)["applied"]
        assert other.reward(flag["metadata"]["decision"], i % 2, tenant=name)["applied"]
    all_flags = three[1].call("POST", "/ofrep/v1/evaluate/flags", {"context": {"targetingKey": "u1"}}).json["flags"]
    assert [f["variant"] for f in all_flags if f["key"] == name] == [variants["u1"]]
    log, _ = settle(three, name)
    kinds = collections.Counter(e["type"] for e in events_of(log))
    assert kinds["rewarded"] == 120 and kinds["decided"] in (120, 121), kinds

    three[0].put_tenant("ranked", algorithm="ucb", default_reward=None)
    for i in range(40):
        body = {"eventId": f"e{i}", "actions": [{"id": a} for a in "abc"], "deferActivation": i % 2 == 0}
        told = at_once(*[lambda api=api: api.call("POST", "/personalizer/v1.0/rank", body, tenant="ranked", expect=201).json["rewardActionId"] for api in three])
        assert len(set(told)) == 1, told
        if i % 2 == 0:
            at_once(*[lambda api=api: api.call("POST", f"/personalizer/v1.0/events/e{i}/activate", tenant="ranked", expect=204) for api in three])
        at_once(*[lambda api=api: api.call("POST", f"/personalizer/v1.0/events/e{i}/reward", {"value": 0.5}, tenant="ranked", expect=204) for api in three])
    log, _ = settle(three, "ranked")
    kinds = collections.Counter(e["type"] for e in events_of(log))
    assert (kinds["decided"], kinds["activated"], kinds["rewarded"]) == (40, 20, 40), kinds


def test_settings_and_resets_of_personalizers_clients_count_at_every_server(three):
    at = lambda api, method, rest, body=None, **more: api.call(method, f"/personalizer/v1.1-preview.3/{rest}", body, tenant="loop", **more)
    three[0].put_tenant("loop", algorithm="ucb", tune=False, default_reward=None)
    for i in range(12):
        at(three[i % 3], "POST", "rank", {"eventId": f"e{i}", "actions": [{"id": a} for a in "abc"]}, expect=201)
        at(three[(i + 1) % 3], "POST", f"events/e{i}/reward", {"value": i / 12}, expect=204)
    policy = {"name": "mine", "arguments": "--cb_explore_adf --epsilon 0.25"}
    assert at(three[1], "PUT", "configurations/policy", policy).json == policy
    at(three[2], "PUT", "configurations/service", {"modelExportFrequency": "PT5M"})
    at(three[0], "DELETE", "model", expect=204)
    log, _ = settle(three, "loop")
    assert [e["type"] for e in events_of(log)][-3:] == ["configured", "configured", "forgotten"]
    for api in three:
        assert at(api, "GET", "configurations/policy").json == policy
        assert at(api, "GET", "configurations/service").json["modelExportFrequency"] == "PT5M" and api.model("loop")["dictionary"] == []
        assert at(api, "PUT", "model", raw=b"x", kind="application/octet-stream", expect=400).json["error"]["code"] == "InvalidModelImportFormat"
    at(three[1], "DELETE", "logs", expect=204)
    text, _ = settle(three, "loop")
    assert [e["type"] for e in events_of(text)][-1] in ("summary", "forgotten")  # one that is shorter than its summary stays


def test_ranks_name_their_users_and_are_explained_at_every_server(three):
    at = lambda api, method, rest, body=None, **more: api.call(method, f"/personalizer/v1.0/{rest}", body, tenant="named", **more)
    three[0].put_tenant("named", algorithm="lin-ucb", features={"mapping": "names-1", "dim": 16, "user": "/user/id"}, default_reward=None)
    at(three[1], "PUT", "configurations/service", {"isInferenceExplainabilityEnabled": True})
    settle(three, "named")
    for i in range(12):
        body = {"eventId": f"e{i}", "contextFeatures": [{"user": {"id": f"u{i % 4}"}}, {"hour": i}], "actions": [{"id": a, "features": [{"taste": a}]} for a in "abc"]}
        told = at(three[i % 3], "POST", "rank", body, expect=201).json
        assert told["inferenceExplanation"][0]["id"] == told["ranking"][0]["id"]
        at(three[(i + 1) % 3], "POST", f"events/e{i}/reward", {"value": float(told["rewardActionId"] == "a")}, expect=204)
    log, _ = settle(three, "named")
    assert [e["user"] for e in events_of(log) if e["type"] == "decided"] == [f"u{i % 4}" for i in range(12)]


def test_an_export_or_a_copy_brings_a_tenant_to_a_server_that_is_alone(trio, three, tmp_path):
    alone = Server(tmp_path)
    try:
        alone.start()
        for shape in SHAPES:
            name = f"shape-{shape}"
            lines = random.choice(three).call("GET", f"/tenants/{name}/export").content
            Client(alone).call("POST", f"/tenants/{name}/import", raw=lines, kind=NDJSON, expect=201)
            assert Client(alone).digest(name) == three[0].digest(name), name
            random.choice(three).call("POST", f"/tenants/{name}-back/import", raw=lines, kind=NDJSON, expect=201)
            for api in three:
                wait_for(lambda: api.call("GET", f"/tenants/{name}-back", expect=(200, 503)).status == 200)
            assert settle(three, f"{name}-back")[1] == three[0].digest(name), name
            copy = random.choice(three).call("POST", f"/tenants/{name}/snapshot").content
            Client(alone).call("PUT", f"/tenants/{name}-copy/snapshot", raw=copy, kind="application/vnd.sqlite3", expect=201)
            assert Client(alone).digest(f"{name}-copy") == three[0].digest(name), name
            Client(alone).select("u", tenant=f"{name}-copy", candidates=["arm1", "arm2"], **context(SHAPES[shape], random.Random(1)))
    finally:
        alone.close()


def test_a_server_stops_well_while_requests_wait_for_lines_and_the_log_is_away(tmp_path):
    with pg.Cluster(tmp_path / "pg", 1) as database:
        init(database.url)
        (tmp_path / "s").mkdir()
        servers = Servers(tmp_path / "s", database.url, n=1, args=("--log-wait", "5000", "--drain-timeout", "1"))
        servers.ready()
        api = Client(servers.servers[0])
        api.put_tenant("shop", algorithm="ucb")
        statuses = []

        def wait(tenant, **headers):
            own = Client(servers.servers[0])
            try:
                statuses.append(own.call("GET", f"/tenants/{tenant}", headers=headers, expect=503).status)
            except requests.ConnectionError:
                statuses.append(503)
        threads = [threading.Thread(target=wait, args=("shop",), kwargs={"Laplaced-After": "99"}) for _ in range(5)]
        database.kill_primary()
        threads += [threading.Thread(target=wait, args=(f"unknown{i}",)) for i in range(5)]
        for t in threads:
            t.start()
        time.sleep(0.5)
        begin = time.monotonic()
        servers.end()
        for t in threads:
            t.join(30)
        assert statuses == [503] * 10 and time.monotonic() - begin < 15


def test_a_server_that_is_stopped_while_it_writes_holds_nobody_up_for_long_and_writes_nothing_twice(trio, three):
    """SIGSTOP for three seconds, again and again; perhaps in its turn, which PostgreSQL ends after two. The others wait for no longer."""
    name = "frozen"
    three[0].put_tenant(name, algorithm="laplaced")
    is_over, told, slowest = threading.Event(), [], [0.0]

    def write(k, prefix):
        i, api = 0, Client(trio.servers[k])
        while not is_over.is_set():
            begin = time.monotonic()
            answer = api.call("POST", "/select", {"user": "u", "candidates": ["x", "y"], "decision": f"{prefix}{i}"}, tenant=name, expect=(200, 503))
            if answer.status == 503:
                assert "nothing was recorded" in answer.json["detail"], answer.json  # it has lost its turn, or waited for --log-wait, which is 2 s here
                continue
            if k != 0:
                slowest[0] = max(slowest[0], time.monotonic() - begin)
            told.append(f"{prefix}{i}")
            i += 1
    threads = [threading.Thread(target=write, args=(k, f"{k}-{n}-")) for k in range(3) for n in range(2)]
    for t in threads:
        t.start()
    for _ in range(4):
        time.sleep(random.uniform(0.2, 0.6))
        os.kill(trio.servers[0].pid, signal.SIGSTOP)
        time.sleep(3)
        os.kill(trio.servers[0].pid, signal.SIGCONT)
    is_over.set()
    for t in threads:
        t.join(60)
    log, _ = settle(three, name)
    decided = collections.Counter(e["decision"] for e in events_of(log) if e["type"] == "decided")
    assert decided == {d: 1 for d in told}
    print(f"{len(told)} decisions, the slowest of the others {slowest[0]:.2f} s")
    assert slowest[0] < 2.9  # the row is free after two seconds


def test_outcomes_that_nobody_knows_are_resolved(database, trio, three):
    """The standby stands still: commits wait, and are asked for later."""
    name = "unsure"
    three[0].put_tenant(name, algorithm="laplaced")
    for standby in database.standbys:
        standby.signal_all(signal.SIGSTOP)
    try:
        refused = at_once(*[lambda api=api, k=k: api.call("POST", "/select", {"user": "u", "candidates": ["x", "y"], "decision": f"d{k}"},
                                                          tenant=name, expect=(200, 503)) for k, api in enumerate(three)])
        assert {r.status for r in refused} == {503}, [r.json for r in refused]
    finally:
        for standby in database.standbys:
            standby.signal_all(signal.SIGCONT)
    trio.ready()
    for k, api in enumerate(three):
        wait_for(lambda: api.call("POST", "/select", {"user": "u", "candidates": ["x", "y"], "decision": f"d{k}"}, tenant=name, expect=(200, 503)).status == 200)
    log, _ = settle(three, name)
    assert collections.Counter(e["decision"] for e in events_of(log) if e["type"] == "decided") == {f"d{k}": 1 for k in range(3)}
