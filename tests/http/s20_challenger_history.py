"""GET /tenants/{t}/challengers?history=1: how scores went over time. The oracle folds the log: a challenger that shows each of three
arms alike has weight 1 / (3 p) at a decision of propensity p, so all of its scores follow from the lines."""
import json
import random

from harness import Client, run_ctl
from s10_challengers import close, expected, followed

ALIKE = {"algorithm": "random"}
LIVE = {"algorithm": "ts", "tune": False, "default_reward": None, "rule": {"epsilon": 0.3}}
ARMS = ["a", "b", "c"]
MOST = 128


def history(client, name, challenger="alike"):
    """Once all is read."""
    followed(client, name)
    found = client.call("GET", f"/tenants/{name}/challengers", query={"history": 1}).json["challengers"]
    return {c["name"]: c for c in found}[challenger]["history"]


def traffic(client, name, n, chance, others=0.0):
    for _ in range(n):
        d = client.select(f"u{chance.randrange(4)}", candidates=ARMS, tenant=name)
        if chance.random() < 0.9:
            client.reward(d["decision"], round(chance.random() + (d["arm"] == "b"), 3), tenant=name)
        if chance.random() < others:
            client.observe("u1", "a", 0.5, tenant=name)


def scored(events):
    """[(seq, at, weight, reward)] in the order in which rewards came; of the first one of each decision."""
    shown, told = {}, []
    for e in events:
        if e["type"] == "decided":
            shown[e["decision"]] = 1 / (len(ARMS) * e["propensity"])
        elif e["type"] == "rewarded" and e["decision"] in shown:
            told.append((e["seq"], e["at"], shown.pop(e["decision"]), e["reward"]))
    return told


def step_for(n):
    step = 1
    while n // step > MOST:
        step *= 2
    return step


def hold(points, told):
    """Points are at multiples of the step, and each has the scores of all decisions until then."""
    step = step_for(len(told))
    assert [p["decisions"] for p in points] == list(range(step, len(told) + 1, step))
    for p in points:
        seq, at, _, _ = told[p["decisions"] - 1]
        assert (p["seq"], p["at"]) == (seq, at)
        if p["decisions"] == 1:
            assert p["difference"]["lower"] is None
            continue
        wanted = expected([(w, r) for _, _, w, r in told[:p["decisions"]]])
        assert close({k: p[k] for k in wanted}, wanted), (p, wanted)


def test_points_are_a_fold_of_the_log(boot):
    server, chance = boot("--snapshot-events", "1000000"), random.Random(1)
    client = Client(server)
    client.put_tenant("t", **LIVE, challengers={"alike": ALIKE})
    assert history(client, "t") == []
    for n in (20, 130, 300):  # one step, a thinned one, and another
        traffic(client, "t", n, chance, 0.1)
        points, told = history(client, "t"), scored(client.events("t"))
        hold(points, told)
        server.restart()
        assert history(client, "t") == points
        assert server.terminate() == 0
        server.start()
        assert history(client, "t") == points
    assert step_for(len(told)) == 4 and len(points) <= MOST
    shown = json.loads(run_ctl(server, "tenant", "challengers", "t", "--history"))
    assert shown["challengers"][0]["history"] == points
    plain = client.call("GET", "/tenants/t/challengers").json["challengers"][0]
    assert "history" not in plain
    # who is declared today reads the log from its beginning, and comes to the same
    client.put_tenant("t", expect=200, **LIVE, challengers={"alike": ALIKE, "again": {**ALIKE, "seed": 7}})
    assert history(client, "t", "again") == points == history(client, "t")


def test_points_outlive_the_lines_that_they_were_made_of(boot):
    server, chance = boot("--snapshot-events", "1000000"), random.Random(2)
    client = Client(server)
    client.put_tenant("t", **LIVE, challengers={"alike": ALIKE})
    traffic(client, "t", 60, chance)
    points, told = history(client, "t"), scored(client.events("t"))
    hold(points, told)
    client.call("POST", "/tenants/t/compact", {"keep_events": 0})
    assert len(scored(client.events("t"))) == 0 and history(client, "t") == points
    traffic(client, "t", 10, chance)  # it still has in memory what it has read
    told += scored(client.events("t"))
    points = history(client, "t")
    hold(points, told)
    for stop in (server.kill, server.terminate, server.kill):
        stop()
        server.start()
        assert history(client, "t") == points
    anew = scored(client.events("t"))
    assert 0 < len(anew) < len(told)
    traffic(client, "t", 12, chance)
    more = history(client, "t")
    assert more[:len(points)] == points and len(more) > len(points)
    anew = scored(client.events("t"))  # behind the summary
    for p in more[len(points):]:
        n = [seq for seq, *_ in anew].index(p["seq"]) + 1
        wanted = expected([(w, r) for _, _, w, r in anew[:n]])
        assert p["decisions"] == n and close({k: p[k] for k in wanted}, wanted)
    server.restart()
    assert history(client, "t") == more


def test_another_comparison_begins_anew(boot):
    server, chance = boot(), random.Random(3)
    client = Client(server)
    client.put_tenant("t", **LIVE, challengers={"alike": ALIKE})
    traffic(client, "t", 20, chance)
    before = history(client, "t")
    client.call("PATCH", "/tenants/t", {"guardrail": {"min_decisions": 777}})  # no part of the policy
    assert history(client, "t") == before != []
    client.call("PATCH", "/tenants/t", {"rule": {"epsilon": 0.5}})
    client.wait_rebuilt("t")
    assert history(client, "t") == []
    last = client.events("t")[-1]["seq"]
    traffic(client, "t", 15, chance)
    points = history(client, "t")
    hold(points, scored(client.events("t", after=last)))
    server.restart()
    assert history(client, "t") == points
    answer = client.call("POST", "/tenants/t/promote", {"challenger": "alike"}).json
    assert answer["configuration"]["algorithm"] == "random"
    client.wait_rebuilt("t")
    assert history(client, "t", "previous") == []


def test_a_user_that_is_erased_stays_in_sums_alone(boot):
    server, chance = boot(), random.Random(4)
    client = Client(server)
    client.put_tenant("t", **LIVE, challengers={"alike": ALIKE})
    traffic(client, "t", 30, chance)
    points = history(client, "t")
    client.call("DELETE", "/tenants/t/users/u1")
    assert history(client, "t") == points
    traffic(client, "t", 20, chance)
    more = history(client, "t")
    assert more[:len(points)] == points and more[-1]["seq"] > points[-1]["seq"]
    told = scored(client.events("t"))
    assert more[-1]["decisions"] == len(told)
    server.restart()
    assert history(client, "t") == more
