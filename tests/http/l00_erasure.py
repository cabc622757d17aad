"""DELETE /tenants/{t}/users/{u}: nothing of a user is left, and the model is that of a log that never had them."""
import random
import threading
import urllib.parse

import pytest

from harness import Client

GRAPH = [["ann", "bob", 1], ["bob", "cid", 2], ["ann", "cid", 1], ["dee", "ann", 1], ["bob", "eve", 1]]
USERS = ["ann", "bob", "cid", "dee", "zoe"]  # eve is known by the graph alone, zoe not by it
ALGORITHMS = ["laplaced-kors", "lk-gp-ucb", "ek-ucb", "bbkb", "ts", "cmm-ucb", "ucb"]


def traffic(client, name, algorithm, without=None, seed=5, n=120, tune=False):
    """The same traffic with everything, or without what a user did; decisions are given, so that both see the same."""
    rng = random.Random(seed)
    plain = algorithm in ("ts", "ucb", "laplaced-by-arm")
    dims = {"tune": tune} if algorithm in ("ts", "ucb") else {} if plain else {"context_dim": 1, "arm_dim": 1}
    client.put_tenant(name, algorithm=algorithm, **dims)
    edges = [e for e in GRAPH if without not in e]
    client.put_graph(name, edges, users=None if without == "dee" else ["dee"])
    for i in range(n):
        user, reward, x = rng.choice(USERS), rng.random(), round(rng.uniform(-1, 1), 3)
        arm = rng.choice("ab")
        arm = arm if plain else {"id": arm, "features": [0.5 if arm == "a" else -0.5]}
        if user == without:
            continue
        body = {"user": user, "arm": arm, "reward": reward} | ({} if plain else {"context": [x]})
        client.call("POST", "/observe", body, tenant=name)
    if without != "ann":
        client.select("ann", candidates=[arm], decision="of-ann", tenant=name, **({} if plain else {"context": [0.3]}))
        client.reward("of-ann", 0.75, tenant=name)


def content(client, name):
    model = client.model(name)
    return model["content_digest"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_model_is_that_of_a_log_without_the_user(api, name, algorithm):
    traffic(api, name, algorithm)
    api.call("POST", f"/tenants/{name}/rebuild")
    before = content(api, name)
    answer = api.call("DELETE", f"/tenants/{name}/users/ann").json
    assert answer["erased"] and answer["events"] > 10 and answer["seq"] == api.events(name)[-1]["seq"]
    never = name + "-never"
    traffic(api, never, algorithm, without="ann")
    api.call("POST", f"/tenants/{never}/rebuild")
    api.wait_rebuilt(never)
    assert content(api, name) == content(api, never) != before
    assert "ann" not in api.call("GET", f"/tenants/{name}/events").text
    assert "of-ann" not in api.call("GET", f"/tenants/{name}/events").text
    api.call("DELETE", f"/tenants/{name}/users/ann", expect=404)
    api.call("POST", "/reward", {"decision": "of-ann", "reward": 0.75}, tenant=name, expect=404)


@pytest.mark.parametrize("algorithm", ["laplaced", "laplaced-by-arm", "ucb", "ts"])
def test_scales_and_lengthscales_are_found_without_the_user(api, name, algorithm):
    """The other tenant never had them, and erases somebody who has done nothing: both find their scales at that line."""
    never = name + "-never"
    traffic(api, name, algorithm, tune=True)
    before = api.model(name)["scales"]["in_force"]
    traffic(api, never, algorithm, without="ann", tune=True)
    api.call("PATCH", f"/tenants/{never}/graph", {"add": [["zed", "dee"]]})
    api.call("DELETE", f"/tenants/{name}/users/ann")
    api.call("DELETE", f"/tenants/{never}/users/zed")
    erased, never_there = api.model(name), api.model(never)
    assert erased["scales"]["in_force"] == never_there["scales"]["in_force"] != before
    assert erased["parameters"] == never_there["parameters"]
    assert erased["content_digest"] == never_there["content_digest"]
    last = api.events(name)[-1]
    assert last["type"] == "tuned" and api.call("POST", f"/tenants/{name}/verify").json["equal"]


@pytest.mark.parametrize("user", ["eve", "zoe", "dee"])
def test_users_of_the_graph_alone_and_strangers_go_as_well(api, name, user):
    traffic(api, name, "laplaced-kors")
    api.call("DELETE", f"/tenants/{name}/users/{user}")
    never = name + "-never"
    traffic(api, never, "laplaced-kors", without=user)
    api.call("POST", f"/tenants/{never}/rebuild")
    assert content(api, name) == content(api, never)
    assert f'"{user}"' not in api.call("GET", f"/tenants/{name}/events").text


def files(folder, prefix):
    """What is in each. A snapshot that has just been written changes its name: then all is looked at again."""
    for _ in range(100):
        try:
            return {path.name: path.read_bytes() for path in folder.glob(prefix + "*")}
        except FileNotFoundError:
            continue
    raise AssertionError("the files never rest")


def test_nothing_of_the_user_is_in_the_files_and_the_restart_is_exact(boot):
    server = boot("--snapshot-events", "5")
    client = Client(server)
    secret = "a user with a very recognisable name / and a slash"
    traffic(client, "t", "laplaced-kors")
    for i in range(20):
        client.call("POST", "/observe", {"user": secret, "arm": {"id": "a", "features": [0.1]}, "context": [i / 20], "reward": 1}, tenant="t")
    client.select(secret, candidates=[{"id": "a", "features": [0.1]}], context=[0.2], decision="secret-decision", tenant="t")
    told = lambda text: b"recognisable" in text or b"secret-decision" in text
    assert any(told(text) for text in files(server.data / "tenants", "t.").values())
    client.call("DELETE", "/tenants/t/users/" + urllib.parse.quote(secret, safe=""))
    left = [n for n, text in files(server.data / "tenants", "t.").items() if told(text)]
    assert left == [], left
    digest, events = client.digest("t"), client.events("t")
    server.kill()
    server.start()
    assert (client.digest("t"), client.events("t")) == (digest, events)
    client.select(secret, candidates=[{"id": "a", "features": [0.1]}], context=[0.2], tenant="t")


def test_others_are_served_and_learned_from_meanwhile(boot):
    """Traffic of everybody goes on while a user is erased; what they did until the answer is gone, all else is there."""
    server = boot("--inline-work", "0")
    client = Client(server)
    traffic(client, "t", "laplaced-kors", n=400)
    stop, told = threading.Event(), []

    def work(k):
        mine, i = Client(server), 0
        while not stop.is_set() and i < 2000:
            user = ["ann", "bob"][i % 2]
            d = mine.select(user, candidates=[{"id": "a", "features": [0.5]}], context=[0.1], decision=f"w{k}-{i}", tenant="t")["decision"]
            mine.reward(d, i / 2000, tenant="t", expect=(200, 404) if user == "ann" else 200)  # 404: erased since
            told.append((user, d))
            i += 1

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    client.call("DELETE", "/tenants/t/users/ann")
    stop.set()
    for thread in threads:
        thread.join()
    client.wait_rebuilt("t")
    events = client.events("t")
    redacted = max(e["seq"] for e in events if e["type"] == "redacted")
    assert all(e["seq"] > redacted for e in events if e.get("user") == "ann")
    rewarded = [e["decision"] for e in events if e["type"] == "rewarded"]
    for user, d in told:
        assert rewarded.count(d) == 1 if user == "bob" else rewarded.count(d) <= 1
    digest = client.digest("t")
    server.restart()
    assert client.digest("t") == digest


def test_a_disk_that_refuses_leaves_the_user_and_a_kill_in_the_middle_as_well(boot):
    server = boot()
    client = Client(server)
    traffic(client, "t", "laplaced-kors")
    before = client.events("t")
    server.fill_disk()
    client.call("DELETE", "/tenants/t/users/ann", expect=503)
    assert client.events("t") == before
    server.fill_disk(False)
    assert client.call("DELETE", "/tenants/t/users/ann").json["events"] > 10
    client.call("DELETE", "/tenants/nobody/users/ann", expect=404)
    client.call("DELETE", "/tenants/t/users/" + "x" * 300, expect=404)
