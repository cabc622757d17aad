"""/select: who is a candidate, what is answered, what is recorded."""
import threading

import pytest

from contract import NDJSON
from harness import Client


@pytest.fixture
def tenant(api, name):
    """Four arms with one feature, exact, no graph."""
    api.put_tenant(name, algorithm="gp-ucb", arm_dim=1, context_dim=1)
    api.put_arms(name, [{"id": f"a{i}", "features": [0.4 * i]} for i in range(4)])
    return name


def test_a_newcomers_first_call_works(api):
    answer = api.select("u42", candidates=["a", "b"])
    assert answer["arm"] in ("a", "b") and answer["propensity"] == 0.5 and len(answer["ranking"]) == 1
    assert len(answer["decision"]) == 26


def test_with_explain_all_candidates_are_ranked_by_score(api, tenant):
    for t in range(6):
        api.observe("u", f"a{t % 3}", 0.3 * t, context=[0], tenant=tenant)
    answer = api.select("u", context=[0.5], explain=True, tenant=tenant)
    ranking = answer["ranking"]
    assert ranking[0]["arm"] == answer["arm"] and answer["model"]["events"] == 6
    assert [r["score"] for r in ranking] == sorted((r["score"] for r in ranking), reverse=True)
    for r in ranking:
        assert r["upper"] == pytest.approx(r["mean"] + 2 * r["sd"], rel=1e-12)
        assert r["lower"] == pytest.approx(r["mean"] - 2 * r["sd"], rel=1e-12) and r["score"] == r["upper"]


def test_candidates_may_bring_their_own_features(api, tenant):
    answer = api.select("u", context=[0], candidates=["a1", {"id": "new", "features": [0.4]}, {"id": "a2", "features": [9]}],
                        explain=True, tenant=tenant)
    assert {r["arm"] for r in answer["ranking"]} == {"a1", "new", "a2"}
    api.observe("u", "a1", 1.0, context=[0], tenant=tenant)
    mean = {r["arm"]: r["mean"] for r in api.select("u", context=[0], dry_run=True, explain=True, tenant=tenant, candidates=[
        "a1", {"id": "new", "features": [0.4]}, {"id": "a2", "features": [9]}])["ranking"]}
    assert mean["new"] == pytest.approx(mean["a1"]) and mean["a2"] == pytest.approx(0, abs=1e-9)


def test_excluded_arms_are_not_considered(api, tenant):
    answer = api.select("u", context=[0], exclude=["a0", "a2", "unheard-of"], explain=True, tenant=tenant)
    assert {r["arm"] for r in answer["ranking"]} == {"a1", "a3"}


def test_no_candidate_left_is_refused(api, tenant):
    api.select("u", context=[0], candidates=["a1"], exclude=["a1"], tenant=tenant, expect=400)
    api.select("u", candidates=["x"], exclude=["x"], expect=400)


def test_an_empty_catalogue_needs_candidates(api, name):
    api.put_tenant(name, algorithm="ucb")
    api.select("u", tenant=name, expect=400)


def test_an_arm_that_is_not_in_the_catalogue_needs_features(api, tenant):
    answer = api.call("POST", "/select", {"user": "u", "context": [0], "candidates": ["a1", "ghost"]}, tenant=tenant,
                      expect=(400, 404))
    assert answer.pointers == ["/candidates/1"]


def test_a_dry_run_leaves_no_trace(api, tenant):
    digest, seq = api.digest(tenant), api.model(tenant)["seq"]
    answer = api.select("u", context=[0], dry_run=True, decision="mine", tenant=tenant)
    assert answer["decision"] == "mine"
    assert api.digest(tenant) == digest and api.model(tenant)["seq"] == seq
    api.reward("mine", 1, tenant=tenant, expect=404)


def test_a_dry_run_answers_what_would_be_answered(api, name):
    api.put_tenant(name, algorithm="ts")
    for t in range(20):
        asked = {"candidates": ["a", "b", "c"], "decision": f"d{t}", "explain": True}
        dry = api.select("u", dry_run=True, tenant=name, **asked)
        assert api.select("u", tenant=name, **asked) == dry
        api.reward(f"d{t}", 0.1 * (t % 3), tenant=name)


def test_a_retry_returns_the_first_answer(api, tenant):
    first = api.select("u", context=[0.25], decision="order-1", explain=True, tenant=tenant)
    api.observe("u", "a1", 3.0, context=[0.25], tenant=tenant)
    assert api.select("u", context=[0.25], decision="order-1", explain=True, tenant=tenant) == first
    assert api.select("u", context=[9], candidates=["a1"], decision="order-1", tenant=tenant) == first
    api.reward("order-1", 1.0, tenant=tenant)
    assert api.select("u", context=[0.25], decision="order-1", tenant=tenant) == first
    assert api.stats(tenant)["decisions"] == 1


def test_a_retry_at_the_same_moment_returns_one_answer(api, server, name):
    api.put_tenant(name, algorithm="random")
    answers, barrier = [], threading.Barrier(8)

    def ask():
        client = Client(server)
        barrier.wait()
        answers.append(client.select("u", candidates=list("abcdefgh"), decision="same", tenant=name))
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and all(a == answers[0] for a in answers)
    assert api.stats(name)["decisions"] == 1


def test_top_gives_a_slate_whose_arms_are_slots(api, tenant):
    answer = api.select("u", context=[0], top=3, tenant=tenant)
    assert [r["arm"] for r in answer["ranking"]][0] == answer["arm"] and len(answer["ranking"]) == 3
    event = api.events(tenant)[-1]
    assert [s["arm"] for s in event["slate"]] == [r["arm"] for r in answer["ranking"]]
    assert len(api.select("u", context=[0], top=16, tenant=tenant)["ranking"]) == 4


def test_epsilon_mixes_in_every_arm(api, name):
    api.put_tenant(name, algorithm="ucb", tune=False, rule={"epsilon": 0.2})
    for arm in "bcde":
        api.observe("u", arm, -1, tenant=name)
    answer = api.select("u", candidates=list("abcde"), explain=True, dry_run=True, tenant=name)
    got = {r["arm"]: r["propensity"] for r in answer["ranking"]}
    assert got == pytest.approx({"a": 0.84, "b": 0.04, "c": 0.04, "d": 0.04, "e": 0.04}, rel=1e-12)
    drawn = [api.select("u", candidates=list("abcde"), dry_run=True, decision=f"k{i}", tenant=name)["arm"] for i in range(400)]
    assert 300 <= drawn.count("a") <= 370 and set(drawn) == set("abcde")


def test_the_uniform_rule_draws_evenly(api, name):
    api.put_tenant(name, algorithm="random")
    drawn = [api.select("u", candidates=["a", "b"], dry_run=True, decision=f"k{i}", tenant=name) for i in range(400)]
    assert all(d["propensity"] == 0.5 for d in drawn)
    assert 150 <= sum(d["arm"] == "a" for d in drawn) <= 250


def test_the_same_seed_and_id_draw_the_same_arm(api, name):
    for suffix, seed in ((".a", 1), (".b", 1), (".c", 2)):
        api.put_tenant(name + suffix, algorithm="random", seed=seed)
    drawn = [[api.select("u", candidates=list("abcdefgh"), decision=f"k{i}", tenant=name + s)["arm"] for i in range(40)]
             for s in (".a", ".b", ".c")]
    assert drawn[0] == drawn[1] != drawn[2]


def test_any_utf8_may_be_an_id(api, name):
    api.put_tenant(name, algorithm="ucb")
    user, arm, decision = "Zoë/日本 \U0001f600 \"\\%s", "é" * 128, "d/ü?&#"
    answer = api.select(user, candidates=[arm], decision=decision, tenant=name)
    assert (answer["arm"], answer["decision"]) == (arm, decision)
    api.reward(decision, 1, arm=arm, tenant=name)
    event = api.events(name)[1]
    assert (event["user"], event["arm"], event["decision"]) == (user, arm, decision)


def test_a_thousand_candidates_are_taken(api, name):
    api.put_tenant(name, algorithm="gp-ucb", arm_dim=2)
    candidates = [{"id": f"c{i}", "features": [i / 1024, (i * 7 % 1024) / 1024]} for i in range(1024)]
    for t in range(5):
        answer = api.select("u", candidates=candidates, explain=True, tenant=name)
        api.reward(answer["decision"], 1.0, tenant=name)
        assert len(answer["ranking"]) == 1024


def test_concurrent_decisions_are_all_in_the_log_once(api, server, name):
    api.put_tenant(name, algorithm="ts")
    ids, lock = [], threading.Lock()

    def work(k):
        client = Client(server)
        for i in range(25):
            answer = client.select(f"u{k}", candidates=["a", "b", "c"], tenant=name)
            client.reward(answer["decision"], 0.1 * i, tenant=name)
            with lock:
                ids.append(answer["decision"])
    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = api.events(name)
    assert sorted(e["decision"] for e in events if e["type"] == "decided") == sorted(ids) and len(set(ids)) == 200
    assert sorted(e["decision"] for e in events if e["type"] == "rewarded") == sorted(ids)
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))


# ---- users that are numbers ---------------------------------------------------------------------------------------------

def test_a_whole_number_is_the_user_of_its_digits(api, name):
    """In every body that names a user: decisions, rewards, observations, questions. 42 and "42" are one user, whose rewards find each other."""
    api.put_tenant(name, default_reward=None, algorithm="lin-ucb-per-user", arm_dim=1)
    arms = [{"id": "a", "features": [1]}, {"id": "b", "features": [-1]}]
    most = 2**53 - 1
    for number in (42, 0, most):
        first = api.call("POST", "/select", {"user": number, "candidates": arms, "decision": f"d{number}"}, tenant=name)
        assert api.call("POST", "/select", {"user": str(number), "candidates": arms, "decision": f"d{number}"}, tenant=name).text == first.text  # a retry
    assert api.call("POST", "/reward", {"user": "42", "reward": 1, "id": "r1"}, tenant=name).json["decisions"] == ["d42"]
    assert api.call("POST", "/reward", [{"user": 0, "reward": 1}], tenant=name).json[0]["decisions"] == ["d0"]
    api.call("POST", "/observe", {"user": 42, "arm": arms[0], "reward": 3}, tenant=name)
    api.call("POST", "/observe", [{"user": 42.0, "arm": arms[0], "reward": 3}, {"user": "42", "arm": arms[1], "reward": -3}], kind=NDJSON, tenant=name)
    assert [e["user"] for e in api.events(name) if "user" in e] == ["42", "0", str(most), "42", "42", "42"]
    told = api.call("POST", f"/tenants/{name}/posterior", {"users": [42, "42", 43], "arms": arms[:1]}).json
    assert told == api.call("POST", f"/tenants/{name}/posterior", {"users": ["42", 42, "43"], "arms": arms[:1]}).json
    (known,), (again,), (other,) = told["mean"]
    assert told["users"] == ["42", "42", "43"] and known == again > 1.5 and abs(other) < 1e-12  # one user, who has four rewards


def test_what_a_number_cannot_say_is_refused(api, name):
    """Beyond 2^53 a number is no longer the one that was sent."""
    api.put_tenant(name)
    for number, told in (("-1", 'ids are strings: "-1"'), ("4.5", 'ids are strings: "4.5"'), (str(2**53 + 2), "ids are strings, in quotes"), ("1e300", "ids are strings, in quotes")):
        for path, body, place in (("/select", '{"user":%s,"candidates":["a"]}', "/user"), ("/reward", '{"user":%s,"reward":1}', "/user"),
                                  ("/observe", '{"user":%s,"arm":"a","reward":1}', "/user"), (f"/tenants/{name}/posterior", '{"users":[%s],"arms":["a"]}', "/users/0")):
            refused = api.call("POST", path, raw=body % number, tenant=name, expect=400)
            assert [(e["pointer"], e["detail"]) for e in refused.json["errors"]] == [(place, told)], (path, number)
