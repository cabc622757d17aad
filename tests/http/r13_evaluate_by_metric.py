"""laplacectl evaluate --metric: of an exported log it says what the job of the server says of its own, and what sums say that are made here
of the log's lines; a metric that a log knows nothing of is refused by name."""
import json

import pytest

from harness import tenant_path
from r00_evaluate import refused
from r03_evaluations import ARMS, POLICIES, Fixed, assert_dense, client_evaluates, differing, evaluate, oracle, told
from r04_evaluations_by_metric import METRICS, WEIGHTED, closed, decide, dense_log, fill, wanted

WITHOUT_CONTEXT = POLICIES[:4]


def written(tmp_path, events):
    path = tmp_path / "given.ndjson"
    path.write_text("".join(json.dumps(e) + "\n" for e in events))
    return path


def refuse(log, metric, *more):
    return refused("--format", "ndjson", "--policy", "uniform", "--metric", metric, *more, log)


@pytest.mark.parametrize("metrics", [METRICS, WEIGHTED, [{"name": "click", "role": "objective", "range": [0, 7]}, {"name": "other"}]],
                         ids=["beside the reward", "of a weighted sum", "the reward itself"])
def test_the_document_is_that_of_the_job(api, name, tmp_path, metrics):
    fill(api, name, 100, metrics, **({"aggregation": "sum"} if metrics is WEIGHTED else {}))
    events = closed(api, name)
    for metric in metrics:
        job = evaluate(api, name, WITHOUT_CONTEXT, metric=metric["name"])
        here, there = told(job), told(client_evaluates(tmp_path, api, events, WITHOUT_CONTEXT, "--metric", metric["name"]))
        assert [differing(a, b) for a, b in zip(here, there, strict=True)] == [{}] * 5
        assert there[0]["parameters"]["metric"] == metric["name"] and there[1]["n"] > 30


def test_a_metric_that_changed_and_lines_that_have_none(api, name, tmp_path):
    """As the job: 40 before the range is what it is, 20 whose window is open, and observations, ours and of others."""
    rng = fill(api, name, 40, [{"name": "revenue", "range": [0, 4]}])
    closed(api, name)
    api.call("PATCH", tenant_path(name), {"metrics": METRICS})
    decide(api, name, 40, rng, ["revenue"], at="then")
    closed(api, name)
    api.call("PATCH", tenant_path(name), {"reward_window_s": 3600})
    decide(api, name, 20, rng, ["revenue"], at="open")
    api.observe("stranger", "b", 1.0, tenant=name, propensity=0.5)
    job = evaluate(api, name, ["uniform"], metric="revenue")
    mine = client_evaluates(tmp_path, api, api.events(name), ["uniform"], "--metric", "revenue")
    assert differing(told(job)[0], told(mine)[0]) == {}
    assert mine["skipped"]["observations, which have no metrics"] == 1 and mine["skipped"]["decisions from before the metric was what it is"] == 40


def test_settings_judge_all_lines_of_one_aggregation_by_another_range_and_default(api, name, tmp_path):
    """A range and a default that no configuration had; also of a log that has lost its beginning, and of configurations with other ranges."""
    rng = fill(api, name, 40, [{"name": "revenue", "range": [0, 4], "aggregation": "sum"}])
    closed(api, name)
    api.call("PATCH", tenant_path(name), {"metrics": METRICS})
    decide(api, name, 40, rng, ["revenue"], at="then")
    events = closed(api, name)
    settings = {"name": "revenue", "range": [-0.5, 2], "default": -0.25, "aggregation": "sum", "role": "objective", "weight": 3}
    as_told = [{"type": "configured", "configuration": {"metrics": [settings]}}]
    log = dense_log(as_told + [e for e in events if e["type"] != "configured"], settings)
    assert len(log) > 60
    for lines in (events, [e for e in events if e["type"] != "configured"]):
        got = client_evaluates(tmp_path, api, lines, ["uniform", {"arm": "b"}], "--metric", json.dumps(settings))
        assert_dense(got["policies"][0], oracle.evaluate(log, oracle.Uniform()))
        assert_dense(got["policies"][1], oracle.evaluate(log, Fixed("b")))
        assert [got["policies"][0][f"reward_{end}"] for end in ("lower", "upper")] == settings["range"]
    said = refuse(written(tmp_path, events), json.dumps(settings | {"aggregation": "last"}))
    assert "skipped: 80 decisions from before the metric was what it is" in said


def slot_terms(events, metric):
    """By decision that was shown and whose window has closed: w and value of each slot, for a draw of all alike."""
    values, decided, terms = {}, {}, []
    for e in events:
        if e["type"] == "decided":
            decided[e["decision"]] = e
        elif e.get("metric") == metric["name"] and not e.get("late"):
            told_value = e["reward"] if e["type"] == "measured" else e["value"]
            values[e["decision"], e.get("arm", decided[e["decision"]]["arm"])] = e.get("total", told_value)
        elif e["type"] == "expired":
            d = decided[e["decision"]]
            arms = [s["arm"] for s in d["slate"]] if len(d["slots"]) > 1 else [d["arm"]]
            low, high = metric["range"]
            w = [1 / (len(ARMS) - k) / s["propensity"] for k, s in enumerate(d["slots"])]
            r = [min(max(values[e["decision"], a], low), high) if (e["decision"], a) in values else metric["default"] for a in arms]
            terms.append((sum(x * y for x, y in zip(w, r)), (1 + sum(w) - len(w)) * sum(r), sum(r)))
    return terms


def test_a_metric_of_decisions_with_slots(api, name, tmp_path):
    """Values by slot: clipped, summed, missing; job, client and the sums that are made here say one thing."""
    rng = fill(api, name, 0, METRICS)
    for i in range(90):
        slots = [{"id": f"s{k}"} for k in range(1 + i % 3)]
        api.call("POST", "/select", {"user": f"u{i % 5}", "decision": f"p{i}", "slots": slots}, tenant=name)
        rewards = [{"decision": f"p{i}", "slot": rng.choice(slots)["id"], "metric": rng.choice(["revenue", "seconds"]), "reward": round(rng.uniform(-1, 8), 2)} for _ in range(i % 4)]
        if rewards:
            api.call("POST", "/reward", rewards, tenant=name)
    events = closed(api, name)
    for metric in (wanted("revenue"), wanted("seconds")):
        terms = slot_terms(events, metric)
        job = evaluate(api, name, ["uniform"], metric=metric["name"])
        mine = client_evaluates(tmp_path, api, events, ["uniform"], "--metric", metric["name"])
        assert differing(told(job)[0], told(mine)[0]) == {} and len(terms) == mine["n"] == 90 and mine["most_slots"] == 3
        for i, key in enumerate(("ips_by_slot", "pseudo_inverse", "logged_total")):
            assert mine[key]["estimate"] == pytest.approx(sum(t[i] for t in terms) / 90, rel=1e-12), key


def test_what_a_log_knows_nothing_of_is_refused_by_name(api, name, tmp_path):
    fill(api, name, 20, [{"name": "sale", "role": "objective"}, {"name": "revenue"}])
    events = closed(api, name)
    log = written(tmp_path, events)
    assert refuse(log, "sales") == 'laplacectl: --metric: the log\'s last configuration has no metric "sales"\n'
    assert refuse(log, '{"name":"sales"}') == 'laplacectl: --metric: the log has no value of "sales"\n'
    assert refuse(log, '{"name":"sale"}') == 'laplacectl: --metric: "sale" is the log\'s single objective: give its name alone\n'
    headless = written(tmp_path, [e for e in events if e["type"] != "configured"])
    said = 'laplacectl: --metric: the log has no configuration that says what is "%s"%s\n'
    assert refuse(headless, "revenue") == said % ("revenue", ", but there are values of it: give its settings in JSON")
    assert refuse(headless, "sales") == said % ("sales", "")
    broken = written(tmp_path, [e if e["type"] != "configured" else e | {"configuration": e["configuration"] | {"rule": 5}} for e in events])
    assert 'configuration: /configuration/rule' in refuse(broken, '{"name":"revenue"}')


@pytest.mark.parametrize("metric, more, said", [
    ("", (), "--metric: expected a name of 1 to 64 bytes, or its settings in JSON"),
    ("x" * 65, (), "--metric: expected a name of 1 to 64 bytes, or its settings in JSON"),
    ('{"name":"x","range":[2,1]}', (), "--metric: /range "),
    ('{"name":"x","range":[0,1],"width":1}', (), "--metric: /width "),
    ('{"range":[0,1]}', (), "--metric: /name "),
    ('{"name":', (), "--metric: "),
    ("x", ("--default-reward", "0"), "--metric, --default-reward: a metric has a default of its own")])
def test_a_request_that_says_nothing_is_a_usage_error(tmp_path, metric, more, said):
    (tmp_path / "log").write_text("")
    assert refused("--format", "ndjson", "--policy", "uniform", "--metric", metric, *more, tmp_path / "log", status=2).startswith("laplacectl: " + said)


def test_logs_of_others_have_columns_and_no_metrics(tmp_path):
    (tmp_path / "log").write_text("")
    for form in ("csv", "dsjson", "obd"):
        said = refused("--format", form, "--policy", "uniform", "--metric", "x", tmp_path / "log", status=2)
        assert said.startswith("laplacectl: --metric: expected --format ndjson, our own log")
