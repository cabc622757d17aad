"""/stats and /events: the counters are what the log says."""
import collections
import json

import pytest


@pytest.fixture
def busy(api, name):
    """Decisions, rewards, observations, pending ones."""
    api.put_tenant(name, algorithm="ts")
    for t in range(30):
        answer = api.select(f"u{t % 4}", candidates=["a", "b", "c"], tenant=name)
        if t % 3:
            api.reward(answer["decision"], 0.1 * (t % 7), tenant=name)
    for t in range(5):
        api.observe("u1", "c", 0.5, tenant=name)
    return name


def test_counters_equal_a_count_of_the_log(api, busy):
    events, stats = api.events(busy), api.stats(busy)
    kinds = collections.Counter(e["type"] for e in events)
    assert (stats["decisions"], stats["observations"]) == (kinds["decided"], kinds["observed"])
    assert stats["rewards"] == kinds["rewarded"] + kinds["observed"]
    assert stats["pending"] == kinds["decided"] - kinds["rewarded"] == 10 and stats["expired"] == stats["late"] == 0


def test_means_by_arm_equal_those_of_the_log(api, busy):
    arm_of, told, shown = {}, collections.defaultdict(list), collections.Counter()
    for e in api.events(busy):
        if e["type"] == "decided":
            arm_of[e["decision"]] = e["arm"]
            shown[e["arm"]] += 1
        elif e["type"] == "rewarded":
            told[arm_of[e["decision"]]].append(e["reward"])
        elif e["type"] == "observed":
            told[e["arm"]].append(e["reward"])
    for part in (api.stats(busy)["window"], api.stats(busy, window_s=60)["window"]):
        got = {a["arm"]: a for a in part["arms"]}
        for arm in shown:
            assert got[arm]["decisions"] == shown[arm] and got[arm]["rewards"] == len(told[arm])
            assert got[arm]["mean_reward"] == (pytest.approx(sum(told[arm]) / len(told[arm])) if told[arm] else None)
        assert part["decisions"] == 30 and part["rewards"] == 25
    assert api.stats(busy, window_s=60)["window"]["seconds"] == 60


def test_a_fresh_tenant_has_no_mean(api, name):
    api.put_tenant(name)
    stats = api.stats(name)
    assert stats["mean_reward"] is None and stats["window"]["mean_reward"] is None and stats["arms"] == []


def test_pages_of_the_log_are_the_log(api, busy):
    whole, pages, after = api.events(busy), [], 0
    while True:
        page = api.events(busy, after=after, limit=7)
        if not page:
            break
        assert len(page) <= 7
        pages += page
        after = page[-1]["seq"]
    assert pages == whole and [e["seq"] for e in whole] == list(range(1, len(whole) + 1))
    assert api.events(busy, after=len(whole)) == [] == api.events(busy, after=10**12)


def test_times_never_go_back(api, busy):
    times = [e["at"] for e in api.events(busy)]
    assert times == sorted(times)


def page(api, name, **query):
    text = api.call("GET", f"/tenants/{name}/events", query=query).text
    return [json.loads(line) for line in text.splitlines()]


def test_newest_first_is_the_log_backwards_in_pages(api, busy):
    whole, pages, before = api.events(busy), [], 10**12
    while before > 1:
        pages += page(api, busy, before=before, limit=7)
        before = pages[-1]["seq"]
    assert pages == whole[::-1] and page(api, busy, before=1) == []


@pytest.mark.parametrize("types", ["decided", "observed", "configured", "rewarded,observed", "configured,decided,observed", "tuned"])
def test_a_page_of_some_types_is_a_filter_of_the_log(api, busy, types):
    wanted = [e for e in api.events(busy) if e["type"] in types.split(",")]
    assert page(api, busy, type=types) == wanted[::-1]
    assert page(api, busy, type=types, after=0) == wanted and page(api, busy, type=types, after=20) == [e for e in wanted if e["seq"] > 20]
    assert page(api, busy, type=types, before=40, limit=3) == [e for e in wanted if e["seq"] < 40][::-1][:3]


def test_types_after_a_compaction_are_those_of_the_log(api, busy):
    api.call("POST", f"/tenants/{busy}/compact", {"keep_events": 20})
    whole = api.events(busy)
    for types in ("summary", "decided,summary,observed", "redacted", "configured"):
        assert page(api, busy, type=types) == [e for e in whole if e["type"] in types.split(",")][::-1]
    assert whole[0]["type"] == "summary" and page(api, busy, before=10**9) == whole[::-1]


def test_pages_have_one_direction_and_known_types(api, busy):
    for query, says in (({"after": 1, "before": 5}, "query parameters after and before: expected one of them"),
                        ({"type": "decide"}, "query parameter type: expected some of configured, graph, arms, decided, "),
                        ({"type": "decided,"}, "query parameter type: "), ({"type": ""}, "query parameter type: "),
                        ({"before": 0}, "query parameter before: expected a whole number from 1 to 9223372036854775807"),
                        ({"before": "x"}, "query parameter before: ")):
        answer = api.call("GET", f"/tenants/{busy}/events", query=query, expect=400)
        assert answer.json["detail"].startswith(says)


@pytest.mark.parametrize("part, query", [
    ("events", {"after": "x"}), ("events", {"after": "-1"}), ("events", {"limit": "0"}), ("events", {"limit": "100001"}),
    ("events", {"limit": "ten"}), ("events", {"after": "99999999999999999999999"}), ("events", {"limit": "1.5"}),
    ("stats", {"window_s": "0"}), ("stats", {"window_s": "-5"}), ("stats", {"window_s": "soon"}),
    ("stats", {"window_s": "31536001"})])
def test_parameters_out_of_range_are_refused(api, part, query):
    api.call("GET", f"/tenants/default/{part}", query=query, expect=400)


def test_the_log_names_everything_that_changed_the_model(api, name):
    api.put_tenant(name, algorithm="laplaced-kors", arm_dim=1)
    api.put_arms(name, [{"id": "a", "features": [1]}])
    api.put_graph(name, [["u", "v", 2.5]])
    d = api.select("u", tenant=name)["decision"]
    api.reward(d, 0.5, tenant=name)
    events = api.events(name)
    assert [e["type"] for e in events][:5] == ["configured", "arms", "graph", "decided", "rewarded"]
    assert events[1]["put"] == [{"id": "a", "features": [1], "active": True}] and events[2]["add"] == [["u", "v", 2.5]]
    assert events[5]["type"] == "dictionary" and events[5]["points"] == [{"event": 5, "probability": events[5]["points"][0]["probability"]}]
