"""What a tenant does that nobody has told anything: equal arms are shown alike, clicks alone teach, the log can be evaluated."""
import collections
import re
import time

import pytest

from harness import Client, run_ctl

RULES = [{"algorithm": "laplaced"}, {"algorithm": "laplaced-kors"}, {"algorithm": "ucb"}, {"algorithm": "ts"}, {"algorithm": "sup-kernel-ucb"}, {"algorithm": "cmm-ucb"},
         {"algorithm": "lk-gp-ucb"}, {"algorithm": "ts", "confidence": {"beta": 0}}]


def wait_for_default_rewards(api, name):
    until = time.time() + 20
    while api.stats(name)["pending"] > 0:
        assert time.time() < until
        time.sleep(0.05)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_equal_arms_are_shown_alike(api, name, rule):
    """Before the first reward; each propensity is 1/3, and 300 draws agree with it (four standard deviations are 33)."""
    api.put_tenant(name, **rule)
    answers = [api.select(f"u{i}", candidates=["red", "green", "blue"], tenant=name) for i in range(300)]
    assert all(a["propensity"] == pytest.approx(1 / 3, rel=1e-9) for a in answers)
    shown = collections.Counter(a["arm"] for a in answers)
    assert all(67 <= shown[arm] <= 133 for arm in ("red", "green", "blue")), shown
    again = api.select("u7", candidates=["red", "green", "blue"], decision="d", tenant=name)
    assert api.select("u7", candidates=["red", "green", "blue"], decision="d", tenant=name) == again


def test_all_arms_of_equal_features_are_shown(api, name):
    """In the first place and in the others of a slate, when much is known of them as well. The ids of the decisions make the
    draws the same in every run; 60 is beyond all but 4 in a million of chi-squared's values of 19 degrees of freedom."""
    api.put_tenant(name, arm_dim=2, rule={"epsilon": 0})
    api.put_arms(name, [{"id": f"i{k}", "features": [1, 0.5]} for k in range(20)] + [{"id": "bad", "features": [-1, -1]}])
    for _ in range(20):
        api.observe("u", "i3", 1, tenant=name)
        api.observe("u", "bad", -1, tenant=name)
    slates = [[r["arm"] for r in api.select(f"v{k}", decision=f"d{k}", top=4, tenant=name)["ranking"]] for k in range(200)]
    for place in (slice(0, 1), slice(1, 4)):
        shown = collections.Counter(arm for slate in slates for arm in slate[place])
        assert len(shown) == 20 and "bad" not in shown
        each = sum(shown.values()) / 20
        assert sum((n - each) ** 2 / each for n in shown.values()) < 60, shown


def test_clicks_alone_teach_who_is_clicked(api, name):
    """One of six visits ends with a click, and only clicks are told."""
    api.put_tenant(name, reward_window_s=1)
    assert api.call("GET", f"/tenants/{name}").json["configuration"]["default_reward"] == 0
    for t in range(60):
        answer = api.select(f"u{t}", candidates=["a"], tenant=name)
        if t % 6 == 0:
            api.reward(answer["decision"], 1, tenant=name)
    wait_for_default_rewards(api, name)
    stats = api.stats(name)
    for part in (stats, stats["arms"][0], stats["routes"]["policy"], stats["window"], stats["window"]["arms"][0]):
        assert part["rewards"] == 60 and part["mean_reward"] == pytest.approx(1 / 6)
    assert stats["warnings"] == []
    assert abs(api.select("new", candidates=["a"], explain=True, tenant=name)["ranking"][0]["mean"] - 1 / 6) < 0.01


def gauge(api, tenant):
    text = api.call("GET", "/metrics").text
    return float(re.search(rf'^laplaced_one_sided_rewards\{{tenant="{tenant}"\}} (\S+)$', text, re.M).group(1))


def play(api, tenant, decisions, rewards):
    for t in range(decisions):
        answer = api.select(f"u{t}", candidates=["a", "b"], tenant=tenant)
        if t < len(rewards):
            api.reward(answer["decision"], rewards[t], tenant=tenant)


@pytest.mark.parametrize("default,decisions,rewards,is_warned", [
    (None, 110, [1] * 20, True), (None, 110, [0.1] * 20, True), (None, 110, [1] * 19 + [0], False), (None, 90, [1] * 20, False),
    (None, 110, [1] * 60, False), (None, 110, [], False), (0, 110, [1] * 20, False)])
def test_clicks_alone_without_a_default_reward_are_warned_of(api, name, default, decisions, rewards, is_warned):
    api.put_tenant(name, default_reward=default)
    play(api, name, decisions, rewards)
    warnings = api.stats(name)["warnings"]
    assert len(warnings) == is_warned and gauge(api, name) == is_warned
    assert not is_warned or "default_reward" in warnings[0]


def test_rewards_means_the_same_in_every_part(api, name):
    api.put_tenant(name)
    api.observe("u", "a", 0.5, tenant=name)
    stats = api.stats(name)
    assert stats["rewards"] == stats["observations"] == stats["arms"][0]["rewards"] == 1
    assert stats["window"]["rewards"] == stats["window"]["arms"][0]["rewards"] == 1
    assert stats["mean_reward"] == stats["window"]["mean_reward"] == 0.5


def test_the_default_log_can_be_evaluated(boot, tmp_path):
    """Every arm had a chance that is told, and `evaluate` says what another policy would have earned."""
    server = boot()
    api = Client(server)
    api.put_tenant("shop")
    for t in range(400):
        answer = api.select(f"u{t}", candidates=["a", "b", "c"], explain=True, tenant="shop")
        assert min(r["propensity"] for r in answer["ranking"]) >= 0.05 / 3 - 1e-15
        api.reward(answer["decision"], 1 if answer["arm"] == "b" and t % 2 else 0, tenant="shop")
    log = tmp_path / "shop.ndjson"
    run_ctl(server, "export", "--format", "ndjson", "--tenant", "shop", str(log))
    told = run_ctl(server, "evaluate", "--format", "ndjson", "--policy", "uniform", str(log))
    assert re.search(r"^ +snips +0\.\d+ ", told, re.M | re.I), told
