"""Rewards by user: the open decision that a user was shown last, found whatever has happened to it; and the ids that make a
retry safe. Random streams stand beside a plain list of decisions in Python."""
import collections
import json
import random

import pytest

from harness import Client, tenant_path, wait_for
from prometheus_text import parse, value
from s00_idempotency import at_once

ARMS = ["a", "b", "c"]


@pytest.fixture
def tenant(api, name):
    api.put_tenant(name, algorithm="ucb", default_reward=None)
    return name


def show(client, tenant, user="u", **fields):
    return client.select(user, candidates=ARMS, tenant=tenant, **fields)["decision"]


def reward(client, tenant, user="u", value=1.0, expect=200, **fields):
    return client.call("POST", "/reward", {"user": user, "reward": value, **fields}, tenant=tenant, expect=expect).json


def lines(client, tenant, kind="rewarded"):
    return [{k: v for k, v in e.items() if k not in ("seq", "type", "at")} for e in client.events(tenant) if e["type"] == kind]


# ---- which decision ---------------------------------------------------------------------------------------------------

def test_the_decision_shown_last_gets_it_and_the_line_names_it(api, tenant):
    first, second = show(api, tenant), show(api, tenant)
    show(api, tenant, user="v")
    assert reward(api, tenant, value=0.5, event="checkout", at="2026-11-25T10:00:00Z", id="o1") == {"applied": True, "decisions": [second]}
    assert reward(api, tenant, value=0.25, at="2026-11-25T10:00:00.125Z") == {"applied": True, "decisions": [first]}
    assert lines(api, tenant) == [
        {"decision": second, "reward": 0.5, "id": "o1", "event": "checkout", "happened_at": "2026-11-25T10:00:00.000Z"},
        {"decision": first, "reward": 0.25, "happened_at": "2026-11-25T10:00:00.125Z"}]


def test_what_was_not_shown_gets_nothing_until_it_is(api, tenant):
    shown = show(api, tenant)
    hidden = show(api, tenant, defer=True)
    other = show(api, tenant, user="v", defer=True)
    assert reward(api, tenant, user="v", expect=404)["type"] == "/problems/no-decision"
    assert reward(api, tenant)["decisions"] == [shown]
    shown = show(api, tenant)
    api.call("POST", "/activate", {"decision": hidden}, tenant=tenant)
    assert reward(api, tenant)["decisions"] == [hidden]  # it was shown last
    assert reward(api, tenant)["decisions"] == [shown]
    api.call("POST", "/activate", {"decision": other}, tenant=tenant)
    assert reward(api, tenant, user="v")["decisions"] == [other]


def test_none_is_told_and_counted_and_breaks_no_batch(api, server, tenant):
    d = show(api, tenant)
    body = [{"user": "ghost", "reward": 1}, {"user": "u", "reward": 1}, {"user": "u", "reward": 1}, {"decision": "ghost", "reward": 1}]
    got = api.call("POST", "/reward", body, tenant=tenant).json
    assert [g["status"] for g in (got[0], got[2], got[3])] == [404] * 3 and got[1] == {"applied": True, "decisions": [d]}
    assert got[0]["type"] == "/problems/no-decision" and not got[0]["applied"]
    assert api.stats(tenant)["unknown"] == 3
    assert value(parse(api.call("GET", "/metrics").text), "laplaced_unknown_rewards_total", tenant=tenant) == 3


def test_the_count_of_what_found_none_outlives_a_stop_and_a_compaction(boot):
    """No line has it: it goes into the file with the books, when the tenant is closed or its log compacted."""
    server = boot()
    api = Client(server)
    api.put_tenant("t", algorithm="ucb", tune=False)

    def lose(n):
        for _ in range(n):
            api.call("POST", "/reward", {"user": "ghost", "reward": 1}, tenant="t", expect=404)

    lose(3)
    server.terminate()
    server.start()
    assert api.stats("t")["unknown"] == 3 and len(api.events("t")) == 1
    lose(2)
    assert api.stats("t")["unknown"] == 5
    server.terminate()
    server.start()
    assert api.stats("t")["unknown"] == 5
    lose(1)
    for _ in range(5):
        api.reward(show(api, "t"), 1, tenant="t")
    assert api.call("POST", "/tenants/t/compact", {"keep_events": 1}).json["compacted"]
    lose(1)
    server.restart()  # kill -9: as it was written down
    assert api.stats("t")["unknown"] == 6 and api.verify("t")["equal"]


def test_a_slot_of_a_slate_is_named_by_its_arm(api, tenant):
    answer = api.select("u", candidates=ARMS, top=3, tenant=tenant)
    d, arms = answer["decision"], [r["arm"] for r in answer["ranking"]]
    assert reward(api, tenant, value=0.5) == {"applied": True, "decisions": [d]}
    assert reward(api, tenant, value=0.5) == {"applied": False, "duplicate": True, "decisions": [d]}
    reward(api, tenant, value=0.75, expect=409)
    assert reward(api, tenant, value=0.25, arm=arms[1])["decisions"] == [d]
    assert reward(api, tenant, arm="never", expect=404)["type"] == "/problems/no-arm"
    assert reward(api, tenant, value=0, arm=arms[2])["decisions"] == [d]
    reward(api, tenant, value=0, arm=arms[2], expect=404)  # all slots have theirs: it is closed
    assert [(e.get("arm"), e["reward"]) for e in lines(api, tenant)] == [(None, 0.5), (arms[1], 0.25), (arms[2], 0)]


def test_all_of_them_get_it_the_one_shown_last_first(api, name):
    api.put_tenant(name, algorithm="ucb", aggregation="last", default_reward=None)
    ids = [show(api, name) for _ in range(5)]
    show(api, name, defer=True)
    show(api, name, user="v")
    assert reward(api, name, value=1, all=True) == {"applied": True, "decisions": ids[::-1]}
    assert reward(api, name, value=1, all=True) == {"applied": False, "duplicate": True, "decisions": ids[::-1]}
    api.reward(ids[2], 0.5, tenant=name)
    assert reward(api, name, value=1, all=True) == {"applied": True, "decisions": [ids[2]]}
    reward(api, name, user="w", all=True, expect=404)
    assert reward(api, name, value=2, all=False)["decisions"] == [ids[4]]


def test_more_than_a_thousand_at_once_are_refused_by_number(api, name):
    api.put_tenant(name, algorithm="ucb", default_reward=None)
    for _ in range(1000):
        show(api, name)
    one = show(api, name)
    assert "1000" in reward(api, name, all=True, expect=409)["detail"] and api.stats(name)["rewards"] == 0
    assert reward(api, name)["decisions"] == [one]
    assert len(reward(api, name, all=True, id="all")["decisions"]) == 1000
    assert len(reward(api, name, all=True, id="all")["decisions"]) == 1000 and api.stats(name)["rewards"] == 1001


def test_an_arm_that_sticks_is_a_decision_like_any_other(api, name):
    api.put_tenant(name, algorithm="ucb", default_reward=None, routing={"sticky": {"ttl_s": 3600}})
    ids = [show(api, name) for _ in range(3)]
    assert [reward(api, name)["decisions"] for _ in ids] == [[d] for d in ids[::-1]]


@pytest.mark.parametrize("body, pointers", [
    ({"reward": 1}, ["/decision"]),
    ({"reward": 1, "all": True}, ["/user"]),
    ({"user": "u", "decision": "d", "reward": 1}, ["/user"]),
    ({"user": "u"}, ["/reward"]),
    ({"user": "", "reward": 1}, ["/user"]),
    ({"user": 3.5, "reward": 1}, ["/user"]),
    ({"user": "u", "reward": None}, ["/reward"]),
    ({"user": "u", "reward": 1, "all": 1}, ["/all"]),
    ({"decision": "d", "reward": 1, "all": True}, ["/all"]),
    ({"user": "u", "reward": 1, "id": ""}, ["/id"]),
    ({"user": "u", "reward": 1, "id": "x" * 129}, ["/id"]),
    ({"user": "u", "reward": 1, "event": ""}, ["/event"]),
    ({"user": "u", "reward": 1, "at": "yesterday"}, ["/at"]),
    ({"user": "u", "reward": 1, "at": 1700000000}, ["/at"]),
    ({"user": "u", "reward": 1, "at": "2026-02-30T00:00:00Z"}, ["/at"]),
    ({"user": "u", "reward": 1, "metrik": "x"}, ["/metrik"]),
])
def test_bad_bodies_are_told_by_pointer_and_change_nothing(api, tenant, body, pointers):
    show(api, tenant)
    digest = api.digest(tenant)
    assert api.call("POST", "/reward", body, tenant=tenant, expect=400).pointers == pointers
    got = api.call("POST", "/reward", [{"user": "u", "reward": 1}, body], tenant=tenant, expect=400)
    assert got.pointers == [f"/1{p}" for p in pointers] and api.digest(tenant) == digest


def test_a_reward_out_of_range_is_refused_as_by_decision(api, tenant):
    show(api, tenant)
    assert api.call("POST", "/reward", {"user": "u", "reward": 1e13}, tenant=tenant, expect=400).pointers == ["/reward"]
    assert reward(api, tenant)["applied"]


# ---- ids --------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("aggregation", ["first", "sum", "last"])
def test_a_retry_is_answered_as_the_first_was(boot, aggregation):
    server = boot("--snapshot-events", "3")
    client, name = Client(server), "shop"
    client.put_tenant(name, algorithm="ucb", aggregation=aggregation, default_reward=None)
    first, second = show(client, name), show(client, name)
    answer = reward(client, name, value=0.5, id="o1")
    assert answer == {"applied": True, "decisions": [second]}
    client.call("POST", "/reward", {"decision": first, "reward": 0.25, "id": "o2"}, tenant=name)
    third = show(client, name)  # newer, and not the one
    digest = client.digest(name)
    for _ in range(3):
        assert reward(client, name, value=0.5, id="o1") == answer
        assert client.call("POST", "/reward", {"decision": first, "reward": 0.25, "id": "o2"}, tenant=name).json == {"applied": True}
        assert client.digest(name) == digest and client.stats(name)["unknown"] == 0
        server.restart()
    for other in ({"user": "u", "reward": 0.75}, {"user": "v", "reward": 0.5}, {"user": "u", "reward": 0.5, "arm": "a"},
                  {"decision": third, "reward": 0.5}):
        got = client.call("POST", "/reward", {**other, "id": "o1"}, tenant=name, expect=409).json
        assert got["detail"] == "another reward has this id"
    assert client.digest(name) == digest


def test_a_retry_finds_a_decision_that_has_closed_meanwhile(api, name):
    api.put_tenant(name, algorithm="ucb", reward_window_s=0.5, aggregation="sum", default_reward=None)
    d = show(api, name)
    assert reward(api, name, id="o1")["decisions"] == [d]
    assert wait_for(lambda: api.stats(name)["expired"] == 1)
    assert reward(api, name, id="o1") == {"applied": True, "decisions": [d]}
    reward(api, name, expect=404)
    assert len(lines(api, name)) == 1


def test_an_id_that_found_nothing_may_find_something_later(api, tenant):
    reward(api, tenant, id="o1", expect=404)
    d = show(api, tenant)
    assert reward(api, tenant, id="o1")["decisions"] == [d]
    assert reward(api, tenant, id="o1")["decisions"] == [d]


def test_one_id_twice_in_a_batch_and_at_the_same_moment(api, server, name):
    for durability in ("commit", "relaxed"):
        tenant = f"{name}.{durability}"
        api.put_tenant(tenant, algorithm="ucb", aggregation="sum", durability=durability, default_reward=None)
        d = show(api, tenant)
        got = api.call("POST", "/reward", [{"user": "u", "reward": 1, "id": "x"}] * 3, tenant=tenant).json
        assert got == [{"applied": True, "decisions": [d]}] * 3
        for i in range(8):
            answers = at_once(server, [lambda c, i=i: reward(c, tenant, value=2, id=f"o{i}")] * 8)
            assert answers == [{"applied": True, "decisions": [d]}] * 8
        assert len(lines(api, tenant)) == 9


def test_ids_go_where_the_log_goes(api, name):
    api.put_tenant(name, algorithm="ucb", aggregation="sum", default_reward=None)
    d = show(api, name)
    reward(api, name, id="o1", event="checkout")
    log = api.call("GET", tenant_path(name, "events")).text
    there = name + ".there"
    api.call("POST", tenant_path(there, "import"), raw=log, kind="application/x-ndjson", expect=(200, 201))
    assert reward(api, there, id="o1") == {"applied": True, "decisions": [d]}
    assert lines(api, there) == lines(api, name)
    show(api, name, user="v")
    reward(api, name, user="v", id="o2")
    assert api.call("DELETE", tenant_path(name, "users/v")).json["erased"]
    assert "o2" not in api.call("GET", tenant_path(name, "events")).text
    reward(api, name, user="v", id="o2", expect=404)  # nobody is left whom it could be told of


# ---- random streams beside a list ---------------------------------------------------------------------------------------

class Oracle:
    """Decisions as a plain list, in the order in which they were shown."""

    def __init__(self, aggregation):
        self.aggregation, self.shown, self.hidden = aggregation, [], {}

    def decide(self, decision, user, arms, is_deferred):
        one = {"id": decision, "user": user, "arms": arms, "told": {}}
        if is_deferred:
            self.hidden[decision] = one
        else:
            self.shown.append(one)

    def activate(self, decision):
        self.shown.append(self.hidden.pop(decision))

    def close(self, ids):
        self.shown = [d for d in self.shown if d["id"] not in ids]
        self.hidden = {k: v for k, v in self.hidden.items() if k not in ids}

    def one(self, decision, arm, value):
        """Of one decision: its status, 208 for a duplicate."""
        slot = arm or decision["arms"][0]
        if slot not in decision["arms"]:
            return 404
        told = decision["told"]
        if slot in told and self.aggregation != "sum" and told[slot] == value:
            return 208
        if slot in told and self.aggregation == "first":
            return 409
        told[slot] = value
        if self.aggregation == "first" and len(told) == len(decision["arms"]):
            self.shown.remove(decision)
        return 200

    def reward(self, user, value, arm=None, is_all=False):
        """(status, decisions) as the answer should have them."""
        of_user = [d for d in self.shown[::-1] if d["user"] == user]
        wanted = of_user if is_all else of_user[:1]
        if not wanted:
            return 404, None
        statuses = [self.one(d, arm, value) for d in wanted]
        if 200 in statuses:
            return 200, [d["id"] for d, s in zip(wanted, statuses) if s == 200]
        return statuses[0], None

    def pending(self):
        return len(self.shown) + len(self.hidden)


class Stream:
    def __init__(self, server, name, aggregation, rng):
        self.server, self.client, self.name, self.rng = server, Client(server), name, rng
        self.oracle, self.answered, self.n = Oracle(aggregation), {}, 0
        self.client.put_tenant(name, algorithm="ucb", aggregation=aggregation, default_reward=None, reward_window_s=10000)
        self.n_short = 0

    def window(self, seconds):
        self.client.call("PATCH", tenant_path(self.name), {"reward_window_s": seconds})

    def decide(self):
        user, is_deferred = f"u{self.rng.randrange(6)}", self.rng.random() < 0.3
        self.n += 1
        answer = self.client.select(user, candidates=ARMS, top=self.rng.choice([1, 1, 2, 3]), tenant=self.name, defer=is_deferred,
                                    **({"decision": f"mine{self.n}"} if self.rng.random() < 0.3 else {}))
        self.oracle.decide(answer["decision"], user, [r["arm"] for r in answer["ranking"]], is_deferred)
        return answer["decision"]

    def activate(self):
        if self.oracle.hidden:
            one = self.rng.choice(sorted(self.oracle.hidden))
            self.client.call("POST", "/activate", {"decision": one}, tenant=self.name)
            self.oracle.activate(one)

    def by_id(self):
        if self.oracle.shown:
            one, value = self.rng.choice(self.oracle.shown), self.rng.randrange(3)
            got = self.client.call("POST", "/reward", [{"decision": one["id"], "reward": value}], tenant=self.name).json[0]
            self.judge(got, (self.oracle.one(one, None, value), None))

    def body(self):
        """A reward by user, and what should come of it: of an id that has been used what came of it then."""
        if self.answered and self.rng.random() < 0.2:
            return self.answered[self.rng.choice(sorted(self.answered))]
        body = {"user": f"u{self.rng.randrange(7)}", "reward": self.rng.randrange(3)}
        if self.rng.random() < 0.2:
            body["arm"] = self.rng.choice(ARMS)
        if self.rng.random() < 0.2:
            body["all"] = True
        want = self.oracle.reward(body["user"], body["reward"], body.get("arm"), body.get("all", False))
        if self.rng.random() < 0.5:
            self.n += 1
            body["id"] = f"id{self.n}"
            if want[0] == 200:
                self.answered[body["id"]] = (body, want)
        return body, want

    @staticmethod
    def judge(got, want):
        status, decisions = want
        if status in (200, 208):
            assert (got["applied"], got.get("duplicate", False)) == (status == 200, status == 208), (got, want)
        else:
            assert got["status"] == status, (got, want)
        assert decisions is None or got["decisions"] == decisions, (got, want)

    def reward(self):
        wanted = [self.body() for _ in range(self.rng.choice([1, 1, 1, 2, 5]))]
        got = self.client.call("POST", "/reward", [body for body, _ in wanted], tenant=self.name).json
        for one, (_, want) in zip(got, wanted, strict=True):
            self.judge(one, want)

    def expire(self):
        """A few decisions of a short window, made between those of a long one, and gone."""
        before = self.client.stats(self.name)["expired"]
        self.window(0.2)
        ids = {self.decide() for _ in range(3)}
        self.window(10000)
        assert wait_for(lambda: self.client.stats(self.name)["expired"] == before + 3)
        self.oracle.close(ids)

    def crash(self):
        self.server.restart()

    def compact(self):
        keep = self.rng.randrange(40)
        before = self.client.call("GET", tenant_path(self.name)).json["log"]["first"]
        self.client.call("POST", tenant_path(self.name, "compact"), {"keep_events": keep}, tenant=self.name)
        if self.client.call("GET", tenant_path(self.name)).json["log"]["first"] != before:
            have = collections.Counter(e.get("id") for e in self.client.events(self.name) if e["type"] == "rewarded")
            self.answered = {k: (body, want) for k, (body, want) in self.answered.items() if have[k] == len(want[1])}


@pytest.mark.parametrize("aggregation", ["first", "sum", "last"])
@pytest.mark.parametrize("args", [[], ["--snapshot-events", "7"]], ids=" ".join)
def test_random_streams_equal_a_plain_list(boot, aggregation, args):
    rng = random.Random(f"{aggregation}{args}")
    stream = Stream(boot(*args), "shop", aggregation, rng)
    steps = [(stream.decide, 40), (stream.activate, 12), (stream.by_id, 8), (stream.reward, 36), (stream.expire, 1),
             (stream.crash, 2), (stream.compact, 1)]
    for _ in range(500):
        rng.choices([step for step, _ in steps], [weight for _, weight in steps])[0]()
    assert stream.client.stats("shop")["pending"] == stream.oracle.pending()
    assert stream.client.verify("shop")["equal"]


def test_rewards_by_user_in_a_batch_with_their_decisions(boot):
    """Many connections at once: a reward that follows its user's decision finds it, also where both wait for one commit."""
    server = boot()
    Client(server).put_tenant("shop", algorithm="ucb", default_reward=None)

    def one(user):
        def run(client):
            for i in range(40):
                d = show(client, "shop", user=user, defer=i % 3 == 0)
                if i % 3 == 0:
                    client.call("POST", "/activate", {"decision": d}, tenant="shop")
                assert reward(client, "shop", user=user)["decisions"] == [d]
            return True
        return run
    assert all(at_once(server, [one(f"u{i}") for i in range(12)]))
    log = [json.loads(line) for line in Client(server).call("GET", tenant_path("shop", "events")).text.splitlines()]
    assert sum(e["type"] == "rewarded" for e in log) == 480
