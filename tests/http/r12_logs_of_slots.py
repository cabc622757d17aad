"""Decisions with slots in dsjson, both ways: what goes out says what was decided, and what comes in is learned slot by slot with the
propensity given the slots before. Oracles: the tenant's own log read here, and a twin that is told each slot by /observe."""
import json

import numpy as np
import pytest

from harness import NDJSON, run_ctl, tenant_path
from r00_evaluate import ESTIMATORS, dsjson_line, dsjson_text, evaluate, refused
from r03_evaluations import evaluate as evaluation
from r10_logs import hashed, observed

MODEL = {"algorithm": "ek-ucb", "context_dim": 2, "arm_dim": 2, "tune": False}
FEATURES = {a: [i / 4, 1 - i / 4] for i, a in enumerate("vwxyz")}


@pytest.fixture
def ctl(server, name):
    return lambda *args, **options: run_ctl(server, "--tenant", name, *args, **options)


def decide_some(api, name, later):
    """Decisions of one to three slots, with contexts and exclusions of their own; some slots are never rewarded."""
    rng = np.random.default_rng(7)
    api.put_tenant(name, **MODEL, rule={"epsilon": 0.6}, default_reward=None, reward_window_s=3600, log_candidates=True)
    api.put_arms(name, [{"id": a, "features": x} for a, x in FEATURES.items()])
    for k in range(60):
        slots = [{"id": "top", "exclude": ["v"]}, {"id": "left", "context": rng.normal(size=2).round(3).tolist(), **later}, {"id": "5", **later}][:1 + k % 3]
        got = api.call("POST", "/select", {"user": f"u{k % 7}", "context": rng.normal(size=2).round(3).tolist(), "decision": f"d{k}", "slots": slots}, tenant=name).json
        for i, slot in enumerate(got["slots"]):
            if (k + i) % 5:
                api.call("POST", "/reward", {"decision": f"d{k}", "slot": slot["id"], "reward": float("vwxyz".index(slot["arm"])) / 3}, tenant=name)
    api.call("POST", "/select", {"user": "plain", "context": [1, 0], "decision": "plain"}, tenant=name)
    api.call("POST", "/reward", {"decision": "plain", "reward": 0.25}, tenant=name)
    return api.events(name)


@pytest.fixture
def events(api, name):
    return decide_some(api, name, {"exclude": ["v"]})


def slots_of(e):
    """A line's slots as (id, arm, propensity, context); of a decision without slots the id is None."""
    if "slots" not in e:
        return [(None, e["arm"], e["propensity"], e["context"])]
    arms = [s["arm"] for s in e.get("slate", [{"arm": e["arm"]}])]
    return [(s["id"], arm, s["propensity"], s.get("context", e["context"])) for s, arm in zip(e["slots"], arms, strict=True)]


def joined(events):
    """Decisions in the order in which they ended: those with all rewards, then the others."""
    rewards, decided, ended = {}, {}, []
    for e in events:
        if e["type"] == "decided":
            decided[e["decision"]] = e
            rewards[e["decision"]] = {}
        elif e["type"] == "rewarded":
            d = decided[e["decision"]]
            rewards[e["decision"]][e.get("arm", d["arm"])] = e["reward"]
            if len(rewards[e["decision"]]) == len(slots_of(d)):
                ended.append(e["decision"])
    ended += [d for d in decided if d not in ended and rewards[d]]
    return [(decided[d], rewards[d]) for d in ended]


def test_a_line_says_what_was_decided(ctl, events, tmp_path):
    ctl("export", "--format", "dsjson", str(tmp_path / "out"))
    lines = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    want = joined(events)
    assert len(lines) == len(want) > 50 and {len(slots_of(d)) for d, _ in want} == {1, 2, 3}
    for line, (d, rewards) in zip(lines, want):
        assert line["EventId"] == d["decision"] and line["c"]["user"]["id"] == d["user"] and line["c"]["x"] == d["context"]
        actions = [a["_tag"] for a in line["c"]["_multi"]]
        assert all(a["x"] == FEATURES[a["_tag"]] for a in line["c"]["_multi"])
        if "slots" not in d:
            assert "_outcomes" not in line and actions[line["_label_Action"] - 1] == d["arm"]
            continue
        shown = set()
        for (slot, arm, p, context), told, outcome in zip(slots_of(d), line["c"]["_slots"], line["_outcomes"], strict=True):
            assert told["_id"] == outcome["_id"] == slot and told.get("x", line["c"]["x"]) == context
            assert [actions[a] for a in outcome["_a"]] == [arm] and outcome["_p"] == [p]
            assert outcome.get("_label_cost") == (-rewards[arm] if arm in rewards else None)
            known = {a if isinstance(a, str) else a["arm"] for a in d.get("among", FEATURES)}  # the candidates of the first slot
            given = {actions[i] for i in told["_inc"]} if "_inc" in told else set(actions) - shown
            assert given == (known | {arm}) - shown
            shown.add(arm)


@pytest.mark.parametrize("form", ["dsjson", "ndjson"])
def test_what_went_out_is_learned_slot_by_slot(api, ctl, server, name, events, tmp_path, form):
    ctl("export", "--format", form, str(tmp_path / "out"))
    want = [{"user": d["user"], "context": context, "arm": {"id": arm, "features": FEATURES[arm]}, "reward": rewards[arm], "propensity": p}
            for d, rewards in joined(events) for _, arm, p, context in slots_of(d) if arm in rewards]
    for twin in ("moved", "told"):
        api.put_tenant(f"{name}-{twin}", **MODEL)
    assert f"{len(want)} decisions learned" in run_ctl(server, "--tenant", f"{name}-moved", "import", "--format", form, str(tmp_path / "out"))
    api.call("POST", "/observe", want, kind=NDJSON, tenant=f"{name}-told")
    moved, told = (observed(api, f"{name}-{twin}") for twin in ("moved", "told"))
    assert [{k: v for k, v in e.items() if k not in ("seq", "at")} for e in moved] == [{k: v for k, v in e.items() if k not in ("seq", "at")} for e in told]
    assert len({api.call("POST", tenant_path(f"{name}-{twin}", "verify")).json["digest"] for twin in ("moved", "told")}) == 1
    asks = [api.select("u3", tenant=f"{name}-{twin}", context=[0.3, -0.2], candidates=[{"id": a, "features": x} for a, x in FEATURES.items()], explain=True, dry_run=True)["ranking"]
            for twin in ("moved", "told")]
    assert asks[0] == asks[1]


def test_estimates_are_those_of_the_tenants_own_log(ctl, events, tmp_path):
    plain, out = tmp_path / "plain.ndjson", tmp_path / "out"
    plain.write_text("".join(json.dumps(e) + "\n" for e in events))
    ctl("export", "--format", "dsjson", str(out))
    (tmp_path / "c.json").write_text(json.dumps(MODEL))
    for policy in ("uniform", "arm:z", str(tmp_path / "c.json")):
        want, got = (evaluate(form, policy, path, "--min-ess", "0.1", "--max-unsupported", "1") for form, path in (("ndjson", plain), ("dsjson", out)))
        assert want["n"] == got["n"] > 35
        for estimator in ESTIMATORS:
            assert got[estimator] == want[estimator], (policy, estimator)


def weigh(lines):
    """Terms of both estimators of slots, and totals, of the uniform policy, by the lines of the export."""
    terms = []
    for line in lines:
        shown, w, r = 0, [], []
        outcomes = line.get("_outcomes") or [{"_p": [line["_label_probability"]], "_label_cost": line["_label_cost"]}]
        for slot, outcome in zip(line["c"].get("_slots", [{}]), outcomes, strict=True):
            n = len(slot.get("_inc", range(len(line["c"]["_multi"]) - shown)))
            w.append(1 / n / outcome["_p"][0])
            r.append(-outcome.get("_label_cost", 0))
            shown += 1
        if "_label_cost" in outcomes[0]:
            terms.append((float(np.dot(w, r)), (1 + sum(w) - len(w)) * sum(r), sum(r)))
    return np.array(terms)


def test_estimators_of_slots_are_dense_sums_here_and_in_the_server(api, ctl, name, events, tmp_path):
    ctl("export", "--format", "dsjson", str(tmp_path / "out"))
    want = weigh(map(json.loads, (tmp_path / "out").read_text().splitlines()))
    options = ("--min-ess", "0.1", "--max-unsupported", "1")
    job = evaluation(api, name, ["uniform"])
    plain = tmp_path / "plain.ndjson"
    plain.write_text("".join(json.dumps(e) + "\n" for e in events))
    for got in (evaluate("dsjson", "uniform", tmp_path / "out", *options), evaluate("ndjson", "uniform", plain, *options), job):
        assert got["n"] == len(want) and got["most_slots"] == 3
        for i, key in enumerate(("ips_by_slot", "pseudo_inverse", "logged_total")):
            assert got[key]["estimate"] == pytest.approx(want[:, i].mean(), rel=1e-12)
            assert got[key]["standard_error"] == pytest.approx(want[:, i].std() / len(want) ** 0.5, rel=1e-9)
            assert got[key]["lower"] < got[key]["estimate"] < got[key]["upper"]
        for i, key in enumerate(("ips_by_slot", "pseudo_inverse")):
            assert got["gain"][key]["estimate"] == pytest.approx((want[:, i] - want[:, 2]).mean(), rel=1e-9)
    logged = evaluate("dsjson", "logged", tmp_path / "out", *options)
    assert logged["ips_by_slot"]["estimate"] == logged["pseudo_inverse"]["estimate"] == pytest.approx(want[:, 2].mean(), rel=1e-12)


def left(d, k):
    """How many candidates the line has for slot k: those of the first that no slot before shows, and the arm that it shows."""
    arms = [arm for _, arm, _, _ in slots_of(d)]
    return len({a if isinstance(a, str) else a["arm"] for a in d["among"]} - set(arms[:k]) | {arms[k]})


def test_slots_drawn_from_others_than_the_first_refuse_estimators_of_slots_alone(api, ctl, name, tmp_path):
    """Only the first slot excludes: those behind it were drawn from one arm more than the line tells."""
    events = decide_some(api, name, {})
    judged = [d for d, rewards in joined(events) if d["arm"] in rewards]
    unknown = sum(any(s["candidates"] != left(d, k) for k, s in enumerate(d["slots"]) if k) for d in judged if "slots" in d)
    assert 10 < unknown < len(judged)
    ips = [rewards[d["arm"]] / len(d.get("among", FEATURES)) / d["propensity"] for d, rewards in joined(events) if d["arm"] in rewards]
    plain, out = tmp_path / "plain.ndjson", tmp_path / "out"
    plain.write_text("".join(json.dumps(e) + "\n" for e in events))
    ctl("export", "--format", "dsjson", str(out))
    options = ("--min-ess", "0.1", "--max-unsupported", "1")
    for got in (evaluate("dsjson", "uniform", out, *options), evaluate("ndjson", "uniform", plain, *options), evaluation(api, name, ["uniform"])):
        for key in ("ips_by_slot", "pseudo_inverse"):
            assert got[key] == {"refused": f"{unknown} of {len(judged)} events have a slot without a propensity"}
        assert got["n"] == len(judged) and got["ips"]["estimate"] == pytest.approx(np.mean(ips))


def test_without_slots_both_are_ips(tmp_path):
    (tmp_path / "log").write_text(dsjson_text([dsjson_line(i % 3, [0.5, 0.3, 0.2], -1.0 * (i % 2)) for i in range(60)]))
    got = evaluate("dsjson", "uniform", tmp_path / "log")
    assert got["ips_by_slot"] == got["pseudo_inverse"] == got["ips"] and got["logged_total"] == got["logged"] and got["most_slots"] == 1
    assert got["gain"]["ips_by_slot"] == got["gain"]["pseudo_inverse"] == got["gain"]["ips"]


def test_a_slot_without_a_propensity_refuses_estimators_of_slots_alone(tmp_path):
    lines = [json.loads(json.dumps(line(GOOD))) for _ in range(9)]
    lines[4]["_outcomes"][1].pop("_p")
    (tmp_path / "log").write_text(dsjson_text(lines))
    got = evaluate("dsjson", "uniform", tmp_path / "log", "--max-unsupported", "1")
    for key in ("ips_by_slot", "pseudo_inverse"):
        assert got[key] == {"refused": "1 of 9 events have a slot without a propensity"}
    assert got["ips"]["estimate"] == pytest.approx(2 / 3)


def test_a_later_slot_that_always_shows_one_arm_says_nothing_of_others(tmp_path):
    five, lines = [{"_tag": a} for a in "abcde"], []
    for k in range(60):
        lines.append({"EventId": f"e{k}", "c": {"_multi": five, "_slots": [{}, {}]}, "_outcomes": [{"_a": [k % 4], "_p": [0.25], "_label_cost": -(k % 2)}, {"_a": [4], "_p": [1], "_label_cost": -1}]})
    (tmp_path / "log").write_text(dsjson_text(lines))
    got = evaluate("dsjson", "uniform", tmp_path / "log", "--max-unsupported", "0.3")
    for key in ("ips_by_slot", "pseudo_inverse"):
        assert got[key] == {"refused": "0.75 of the target's mass in later slots is on arms that the log never shows there (at most 0.3)"}
    assert "estimate" in evaluate("dsjson", "uniform", tmp_path / "log", "--max-unsupported", "0.76")["ips_by_slot"]


def test_what_is_said_of_propensities_overrules_no_later_slot(tmp_path):
    lines = [json.loads(json.dumps(line(GOOD))) for _ in range(2)]
    for v in lines:
        v["_outcomes"][0].pop("_p")
    (tmp_path / "log").write_text(dsjson_text(lines))
    assert "this decision has a propensity of its own, 0.75: leave --propensity out" in refused("--format", "dsjson", "--policy", "uniform", "--propensity", "uniform", tmp_path / "log")


# ---- lines of others ----------------------------------------------------------------------------------------------------------

ACTIONS = [{"_tag": "a", "f": {"topic": "sport"}}, {"_tag": "b", "f": {"topic": "news"}}, {"_tag": "c", "f": {"n": 2}}]


def line(outcomes, slots=({"_id": "one", "size": "big"}, {"_id": 7}), **more):
    return {"Timestamp": "2026-01-02T03:04:05Z", "EventId": "e", "c": {"shared": {"name": "Anna"}, "_multi": ACTIONS, "_slots": list(slots)}, "_outcomes": outcomes, **more}


GOOD = [{"_label_cost": -1, "_a": [1, 0, 2], "_p": [0.5, 0.25, 0.25]}, {"_label_cost": 0.5, "_a": [0], "_p": [0.75]}]


def test_a_line_of_vw_is_learned_slot_by_slot(api, ctl, name, tmp_path):
    api.put_tenant(name, algorithm="ek-ucb", context_dim=8, arm_dim=5)
    without = [{"_a": [2], "_p": [0.5]}, {"_label_cost": -2, "_a": [1, 0], "_p": [0.9, 0.1]}]
    (tmp_path / "log").write_text(dsjson_text([line(GOOD), line(without), line([{"_a": [0]}, {"_a": [1]}])]))
    got = json.loads(ctl("import", "--format", "dsjson", "--json", str(tmp_path / "log")))
    assert got == {"observed": 3, "arms": 3, "skipped": {"faulty": 0, "decisions without a reward": 1}}
    learned = observed(api, name)
    assert [(e["arm"], e["reward"], e["propensity"]) for e in learned] == [("b", 1, 0.5), ("a", -0.5, 0.75), ("b", 2, 0.9)]
    assert learned[0]["context"] == hashed([("shared^name=Anna", 1), ("slot^size=big", 1)], 8)
    assert learned[1]["context"] == hashed([("shared^name=Anna", 1)], 8)
    assert learned[0]["features"] == hashed([("f^topic=news", 1)], 5)
    # a default counts for slots without a cost
    api.put_tenant(name + "-2", algorithm="ucb")
    assert ctl("import", "--format", "dsjson", "--tenant", name + "-2", "--default-reward", "0.5", str(tmp_path / "log")).startswith("6 decisions")
    assert [e["reward"] for e in observed(api, name + "-2")] == [1, -0.5, 0.5, 2, 0.5, 0.5]


def test_names_are_mapped_as_live_requests_map_them(api, ctl, name, tmp_path):
    """The vectors of an import are those that /select gives the same JSON."""
    api.put_tenant(name, algorithm="ek-ucb", features={"mapping": "names-1", "dim": 16}, default_reward=None)
    (tmp_path / "log").write_text(dsjson_text([line(GOOD)]))
    ctl("import", "--format", "dsjson", str(tmp_path / "log"))
    api.call("POST", "/select", {"user": "u", "context": {"shared": {"name": "Anna"}}, "candidates": [{"id": a["_tag"], "features": {"f": a["f"]}} for a in ACTIONS],
                                 "slots": [{"id": "one", "features": {"size": "big"}}, {"id": "7"}], "decision": "d"}, tenant=name)
    live = next(e for e in api.events(name) if e["type"] == "decided")
    assert [e["context"] for e in observed(api, name)] == [context for _, _, _, context in slots_of(live)]


@pytest.mark.parametrize("options", [(), ("--bulk", "2")])
def test_replay_sends_slots_with_a_reward_alone(api, ctl, name, tmp_path, options):
    """Of the second and fourth line the first slot has none, and of the third no slot."""
    api.put_tenant(name, algorithm="ucb")
    later = [{"_a": [2], "_p": [0.5]}, {"_label_cost": -2, "_a": [1, 0], "_p": [0.9, 0.1]}]
    (tmp_path / "log").write_text(dsjson_text([line(GOOD), line(later), line([{"_a": [0]}, {"_a": [1]}]), line(later)]))
    ctl("replay", "--format", "dsjson", *options, str(tmp_path / "log"))
    assert [(e["arm"], e["reward"], e["propensity"]) for e in observed(api, name)] == [("b", 1, 0.5), ("a", -0.5, 0.75), ("b", 2, 0.9), ("b", 2, 0.9)]


@pytest.mark.parametrize("change, message", [
    (lambda v: v.pop("_outcomes") and v.update(_label_cost=1), "_outcomes: expected an outcome for each of the 2 slots"),
    (lambda v: v["_outcomes"].pop(), "_outcomes: expected an outcome for each of the 2 slots"),
    (lambda v: v["c"].pop("_slots"), "c._slots: expected an array of 1 to 50 slots"),
    (lambda v: v["c"].update(_slots=[]), "c._slots: expected an array of 1 to 50 slots"),
    (lambda v: v["c"].update(_slots=[5, {}]), "c._slots: expected an object at place 0"),
    (lambda v: v["_outcomes"].__setitem__(1, "x"), "_outcomes: expected an object at place 1"),
    (lambda v: v["c"].update(_slots=[{}] * 51), "c._slots: expected an array of 1 to 50 slots"),
    (lambda v: v["c"]["_slots"][1].update(_inc=[1, 3]), "c._slots[1]._inc: expected numbers of actions from 0 to 2"),
    (lambda v: v["c"]["_slots"][1].update(_inc=1), "c._slots[1]._inc: expected an array"),
    (lambda v: v["c"]["_slots"][1].update(_inc=[1, 2]), "_outcomes[1]._a: action 0 stands in a slot before, or is not in _inc"),
    (lambda v: v["_outcomes"][1].update(_a=[1], _p=[1]), "_outcomes[1]._a: action 1 stands in a slot before"),
    (lambda v: v["_outcomes"][1].pop("_a"), "_outcomes[1]._a: expected an array whose first item is the action shown"),
    (lambda v: v["_outcomes"][0].update(_a=[0.5]), "_outcomes[0]._a: expected numbers of actions from 0 to 2"),
    (lambda v: v["_outcomes"][0].update(_p=[0.5]), "_outcomes[0]._p: expected as many as _a has (3)"),
    (lambda v: v["_outcomes"][0].update(_p=[0.5, 0.5, 0.5]), "_outcomes[0]._p: the probabilities add up to 1.5, not to 1"),
    (lambda v: v["_outcomes"][0].update(_p=[0.5, -0.5, 1]), "_outcomes[0]._p: expected probabilities"),
    (lambda v: v["_outcomes"][1].update(_p=[0]), "propensity: 0 is not in (0, 1]"),
    (lambda v: v["_outcomes"][1].update(_label_cost="x"), "_outcomes[1]._label_cost: expected a number"),
    (lambda v: v["c"].update(slot={"x": 1}), "c.slot: the context of slots has no member of this name"),
    (lambda v: v.update(pdrop=0.5), "pdrop: the log was thinned out"),
])
def test_faults_name_the_line_and_the_member(tmp_path, change, message):
    bad = json.loads(json.dumps(line(GOOD)))
    change(bad)
    path = tmp_path / "bad"
    path.write_text(dsjson_text([line(GOOD), bad]))
    (tmp_path / "c.json").write_text(json.dumps({"algorithm": "ek-ucb", "context_dim": 4, "arm_dim": 3}))
    assert f"bad:2: {message}" in refused("--format", "dsjson", "--policy", str(tmp_path / "c.json"), path)
    assert evaluate("dsjson", str(tmp_path / "c.json"), path, "--skip-bad", "1", "--estimators", "ips")["n"] == 1


def test_slates_with_one_cost_are_left_out(tmp_path):
    slate = {**line(GOOD), "_label_cost": -1}
    slate["c"] = {**slate["c"], "_multi": [{"_slot_id": 0}, {"_slot_id": 1}]}
    (tmp_path / "log").write_text(dsjson_text([line(GOOD), slate]))
    got = evaluate("dsjson", "uniform", tmp_path / "log")
    assert got["n"] == 1 and got["skipped"]["slates (_slot_id): one cost of several actions"] == 1
