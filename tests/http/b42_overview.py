"""GET /tenants?stats=1: one call for all tenants, whose numbers are those that each tells of itself."""
import random
import time

from harness import Client


def overview(api, name=None):
    rows = {t["name"]: t for t in api.call("GET", "/tenants", query={"stats": 1}).json["tenants"]}
    return rows if name is None else rows[name]["stats"]


def agree(api, name):
    """With what /stats, /challengers and the log say."""
    told, stats = overview(api, name), api.stats(name)
    for key in ("decisions", "rewards", "observations", "pending", "expired", "late", "unknown", "mean_reward", "routes"):
        assert told[key] == stats[key], key
    assert told["last_event_at"] == api.events(name)[-1]["at"]
    return told


def test_numbers_are_those_of_the_tenant(api, name):
    api.put_tenant(name, algorithm="ts", reward_window_s=1, default_reward=0, routing={"holdout": {"share": 0.4, "baseline": {"arm": "a"}}})
    assert agree(api, name)["experiment"] is None
    for i in range(60):
        d = api.select(f"u{i}", candidates=["a", "b"], tenant=name)
        if i % 3:
            api.reward(d["decision"], i % 5, tenant=name)
    api.observe("u", "a", 2, tenant=name)
    api.reward("nothing", 1, tenant=name, expect=404)
    told = agree(api, name)
    assert told["pending"] == 20 and told["unknown"] == 1 and told["routes"]["holdout"]["decisions"] + told["routes"]["policy"]["decisions"] == 60
    assert told["routes"]["policy"]["lower"] < told["routes"]["policy"]["mean_reward"] < told["routes"]["policy"]["upper"]
    end = time.monotonic() + 20
    while overview(api, name)["expired"] < 20:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert agree(api, name)["pending"] == 0


def test_without_stats_the_list_is_what_it_was(api, name):
    api.put_tenant(name)
    for query in ({}, {"stats": 0}):
        assert all("stats" not in t for t in api.call("GET", "/tenants", query=query).json["tenants"])
    assert "stats: expected a whole number from 0 to 1" in api.call("GET", "/tenants", query={"stats": 2}, expect=400).json["detail"]


def test_an_experiment_says_the_sentence_that_says_most(api, name):
    api.put_tenant(name, algorithm="random", default_reward=None, experiment={"difference": 0.2})
    assert overview(api, name)["experiment"] is None  # it waits for arms
    api.put_arms(name, ["a", "b", "c"])
    assert (overview(api, name)["experiment"], overview(api, name)["traffic_alarm"]) == ("go on", False)
    for i in range(1500):
        d = api.select(f"u{i}", tenant=name)
        api.reward(d["decision"], float(d["arm"] == "b"), tenant=name)
    told = api.call("GET", f"/tenants/{name}/experiment").json["experiment"]
    sentences = {d["arm"]: (d["verdict"], d["sentence"]) for d in told["differences"]}
    assert sentences["b"][0] == "better" and overview(api, name)["experiment"] == sentences["b"][1]


def test_a_traffic_alarm_is_raised(api, name):
    """A page shows b always and a rarely: what is not activated was not shown."""
    rng = random.Random(3)
    api.put_tenant(name, algorithm="random", reward_window_s=5, experiment={"difference": 0.2})
    api.put_arms(name, ["a", "b"])
    assert not overview(api, name)["traffic_alarm"]
    for i in range(160):
        d = api.select(f"u{i}", defer=True, tenant=name)
        if d["arm"] == "b" or rng.random() < 0.2:
            api.call("POST", "/activate", {"decision": d["decision"]}, tenant=name)
            api.reward(d["decision"], 1.0, tenant=name)
    end = time.monotonic() + 30
    while not overview(api, name)["traffic_alarm"]:
        assert time.monotonic() < end
        time.sleep(0.2)
    assert overview(api, name)["experiment"] == "void: traffic does not match the told propensities"


def test_challengers_are_glanced_at(api, name):
    api.put_tenant(name, algorithm="random", default_reward=None, challengers={"careful": {"algorithm": "ucb"}})
    for i in range(80):
        d = api.select(f"u{i}", candidates=["a", "b"], tenant=name)
        api.reward(d["decision"], float(d["arm"] == "b"), tenant=name)
    end = time.monotonic() + 30
    while True:
        c, = overview(api, name)["challengers"] or [{"lag": 1}]
        if c["lag"] == 0:
            break
        assert time.monotonic() < end
        time.sleep(0.1)
    full, = api.call("GET", f"/tenants/{name}/challengers").json["challengers"]
    assert c == {"name": "careful", "lag": 0, "stopped": False, "proved": False, "difference": full["difference"]}


def test_tenants_that_are_not_in_memory_stay_closed_and_a_key_sees_its_own(boot):
    server = boot()
    client = Client(server)
    for t in ("one", "two"):
        client.put_tenant(t, algorithm="ucb")
        client.observe("u", "a", 1, tenant=t)
    assert server.terminate() == 0
    server.start()
    client.stats("two")
    rows = overview(client)
    assert rows["one"] == {"name": "one", "state": "closed"} and rows["two"]["stats"]["observations"] == 1
    assert overview(client)["one"]["state"] == "closed"
    admin = client.call("POST", "/keys", {"roles": ["admin"]}, expect=201).json["key"]
    client.key = admin
    own = client.call("POST", "/tenants/two/keys", {"roles": ["read"]}, expect=201).json["key"]
    client.key = own
    assert set(overview(client)) == {"two"}
