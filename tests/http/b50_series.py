"""GET /tenants/{t}/series against a fold of GET /events in Python that knows nothing of the server's."""
import collections
import datetime
import time

import numpy as np
import pytest

from harness import Client, Server

MS = {"minute": 60_000, "hour": 3_600_000}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def ms_of(text):
    return round((datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH).total_seconds() * 1000)


def fold(events, step, by):
    """Rows by (beginning of the bucket, arm, route or version): every decision once, with what became of it."""
    open_, done, version, aggregation = {}, [], None, "first"
    for e in events:
        kind = e["type"]
        if kind == "configured":
            version, aggregation = e["version"], e["configuration"]["aggregation"]
        elif kind == "decided":
            d = {"at": ms_of(e["at"]), "arm": e["arm"], "route": e.get("route", "policy"), "version": version, "p": e["propensity"],
                 "reward": None, "left": len(e.get("slate", [0])), "is_open": True}
            open_[e["decision"]] = d
            done.append(d)
        elif kind == "rewarded" and e["decision"] in open_:
            d = open_[e["decision"]]
            if e.get("arm", d["arm"]) == d["arm"]:
                d["reward"] = e["reward"] + (d["reward"] or 0 if aggregation == "sum" else 0)
            d["left"] -= aggregation == "first"
            d["is_open"] = d["left"] > 0
        elif kind == "expired":
            d = open_.pop(e["decision"])
            d["is_open"] = False
            if d["reward"] is None:
                d["reward"] = e.get("reward")
    rows = collections.defaultdict(lambda: np.zeros(7))
    for d in done:
        r = d["reward"]
        rows[d["at"] // MS[step] * MS[step], d[by] if by else None] += (
            [1, d["is_open"], r is not None, r or 0, (r or 0) ** 2, 1 / d["p"], (r or 0) / d["p"]])
    return dict(rows)


def fold_metrics(events, step):
    """Rows by (beginning of the bucket, metric), and {metric: values of all slots}: what was told of each in time, by its own aggregation."""
    how, kind, done, lasting = {}, "first", {}, collections.defaultdict(dict)
    for e in events:
        if e["type"] == "configured":
            how, kind = {m["name"]: m["aggregation"] for m in e["configuration"].get("metrics", [])}, e["configuration"]["aggregation"]
        elif e["type"] == "decided":
            done[e["decision"]] = {"at": ms_of(e["at"]), "arm": e["arm"], "p": e["propensity"], "is_open": True, "values": {}, "reward": None}
        elif e["type"] == "expired":
            done[e["decision"]]["is_open"] = False
        elif e["type"] in ("measured", "rewarded") and not e.get("late"):
            d, arm, metric = done[e["decision"]], e.get("arm") or done[e["decision"]]["arm"], e.get("metric")
            if e["type"] == "rewarded" and arm == d["arm"]:
                d["reward"] = e["reward"] + (d["reward"] or 0 if kind == "sum" else 0)
            if metric:
                told, old = e.get("value", e["reward"]), lasting[metric].get((e["decision"], arm))
                lasting[metric][e["decision"], arm] = told + old if how[metric] == "sum" and old is not None else told
                if arm == d["arm"]:
                    d["values"][metric] = lasting[metric][e["decision"], arm]
    rows = collections.defaultdict(lambda: np.zeros(7))
    for metric in (None, *lasting):
        for d in done.values():
            y = d["reward"] if metric is None else d["values"].get(metric)
            rows[d["at"] // MS[step] * MS[step], metric] += [1, d["is_open"], y is not None, y or 0, (y or 0) ** 2, 1 / d["p"], (y or 0) / d["p"]]
    return {k: v for k, v in rows.items() if k[1] is None or v[2] > 0}, {m: list(v.values()) for m, v in lasting.items()}


def ask(api, name, expect=200, **query):
    answer = api.call("GET", f"/tenants/{name}/series", query=query, expect=expect).json
    if expect != 200:
        return answer
    columns = ("decisions", "open", "rewards", "sum", "square_sum", "weight", "weighted_sum")
    return {(ms_of(r["at"]), r.get(answer["by"])): np.array([r[c] for c in columns], float) for r in answer["rows"]}


def compare(api, name, events):
    for step in MS:
        for by in (None, "arm", "route", "version"):
            got, want = ask(api, name, step=step, **({"by": by} if by else {})), fold(events, step, by)
            assert got.keys() == want.keys(), (step, by)
            for key in want:
                np.testing.assert_allclose(got[key], want[key], rtol=1e-9, atol=1e-9, err_msg=f"{step} {by} {key}")


def compare_now(api, name):
    """With a log that stands still meanwhile: windows close by the clock."""
    for _ in range(20):
        events = api.events(name)
        try:
            compare(api, name, events)
            return
        except AssertionError:
            if api.events(name) == events:
                raise


def traffic(api, name, n, rng, aggregation):
    for t in range(n):
        user = f"u{rng.integers(30)}"
        d = api.select(user, candidates=["a", "b", "c"], tenant=name, **({"top": 2} if t % 9 == 0 else {}))
        if rng.random() < 0.7:
            api.reward(d["decision"], round(float(rng.normal()), 3), tenant=name)
            if aggregation != "first" and rng.random() < 0.4:
                api.reward(d["decision"], round(float(rng.normal()), 3), tenant=name)
        if t % 9 == 0:
            api.reward(d["decision"], 0.5, arm=d["ranking"][1]["arm"], tenant=name)
    api.observe("u1", "a", 5, tenant=name)


def configuration(aggregation, **more):
    return dict(algorithm="ts", aggregation=aggregation, rule={"epsilon": 0.3}, **more)


@pytest.mark.parametrize("aggregation", ["first", "sum", "last"])
def test_the_series_is_a_fold_of_the_log(api, name, aggregation):
    rng = np.random.default_rng(1)
    holdout = {"holdout": {"share": 0.3, "baseline": {"arm": "a"}, "salt": "s"}}
    api.put_tenant(name, **configuration(aggregation, reward_window_s=2, default_reward=-1))
    traffic(api, name, 40, rng, aggregation)
    api.put_tenant(name, expect=200, **configuration(aggregation, reward_window_s=2, default_reward=None, routing=holdout))
    traffic(api, name, 40, rng, aggregation)
    compare_now(api, name)
    time.sleep(2.5)  # windows close: with a default reward and without one
    compare_now(api, name)
    assert all(row[1] == 0 for row in ask(api, name).values())
    seq = api.call("GET", f"/tenants/{name}/series").json["seq"]
    assert seq <= api.events(name)[-1]["seq"]


def test_it_outlives_kills_restarts_and_compactions(tmp_path):
    server = Server(tmp_path).start()
    try:
        api, rng, kept = Client(server), np.random.default_rng(2), {}
        api.put_tenant("t", **configuration("sum"))

        def check():
            kept.update((e["seq"], e) for e in api.events("t") if e["type"] != "summary")
            compare(api, "t", [kept[seq] for seq in sorted(kept)])

        for stop in (server.kill, lambda: server.terminate(30)):
            traffic(api, "t", 30, rng, "sum")
            check()
            stop()
            server.start()
            check()
        api.call("POST", "/tenants/t/compact", {"keep_events": 5})
        for stop in (server.kill, lambda: server.terminate(30), server.kill):
            check()
            stop()
            server.start()
            traffic(api, "t", 10, rng, "sum")
        check()
        # what the log has no line of any more is in the series
        assert sum(row[0] for row in ask(api, "t").values()) > sum(e["type"] == "decided" for e in api.events("t"))
    finally:
        server.close()


METRICS = [{"name": "revenue", "aggregation": "sum", "range": [0, 9]}, {"name": "seconds", "aggregation": "last"}, {"name": "seen", "role": "guardrail"}]
WEIGHTED = [{"name": "click", "role": "objective", "weight": 0.5}, {"name": "sale", "role": "objective", "weight": 2, "aggregation": "last"}, *METRICS[:2]]


def measure(api, name, n, metrics, rng):
    """Values of the newest decisions, some twice, some of the second slot; some come after the window."""
    told = []
    for t in range(n):
        d = api.select(f"u{rng.integers(9)}", candidates=["a", "b", "c"], tenant=name, **({"top": 2} if t % 5 == 0 else {}))
        told = [*told, (d["decision"], d["ranking"][1]["arm"] if t % 5 == 0 else None)][-8:]
        for metric in (*(m["name"] for m in metrics), *([None] if metrics is METRICS else [])):
            decision, second = told[rng.integers(len(told))]
            body = {"decision": decision, "reward": round(float(rng.normal()), 3), **({"metric": metric} if metric else {})}
            api.call("POST", "/reward", {**body, **({"arm": second} if second and rng.random() < 0.4 else {})}, tenant=name, expect=(200, 409, 410))


def compare_metrics(api, name, events):
    for step in MS:
        got, (want, told) = ask(api, name, step=step, by="metric"), fold_metrics(events, step)
        assert got.keys() == want.keys(), step
        for key in want:
            np.testing.assert_allclose(got[key], want[key], rtol=1e-9, atol=1e-9, err_msg=f"{step} {key}")
    for m in api.stats(name)["metrics"]:
        values = told.get(m["metric"], [])
        assert m["values"] == len(values) and (m["mean"] is None) == (not values)
        assert not values or abs(m["mean"] - np.mean(values)) < 1e-9


@pytest.mark.parametrize("metrics", [METRICS, WEIGHTED], ids=["measured", "weighted"])
def test_metrics_have_rows_and_means_that_are_a_fold_of_the_log_after_a_kill_and_a_compaction(boot, metrics):
    server = boot()
    api, rng, kept = Client(server), np.random.default_rng(4), {}
    api.put_tenant("t", **configuration("first" if metrics is METRICS else "sum", metrics=metrics, reward_window_s=2, default_reward=None))

    def check():
        for _ in range(20):
            kept.update((e["seq"], e) for e in api.events("t") if e["type"] != "summary")
            last = max(kept)
            try:
                return compare_metrics(api, "t", [kept[seq] for seq in sorted(kept)])
            except AssertionError:
                if api.events("t", after=last) == []:
                    raise

    measure(api, "t", 25, metrics, rng)
    check()
    server.restart()
    check()
    measure(api, "t", 25, metrics, rng)
    check()
    api.call("POST", "/tenants/t/compact", {"keep_events": 5})
    server.restart()
    measure(api, "t", 10, metrics, rng)
    check()
    time.sleep(2.5)  # windows close
    check()
    rows = ask(api, "t", by="metric")
    assert {metric for _, metric in rows} >= {None, "revenue", "seconds"} and all(row[1] == 0 for row in rows.values())


def test_a_tenant_without_metrics_has_the_row_of_the_reward_alone(api, name):
    api.put_tenant(name, **configuration("first", metrics=[{"name": "sale", "role": "objective"}]))
    api.call("POST", "/reward", {"decision": api.select("u", candidates=["a"], tenant=name)["decision"], "metric": "sale", "reward": 2}, tenant=name)
    assert [(metric, row[3]) for (_, metric), row in ask(api, name, by="metric").items()] == [(None, 2)]
    assert "metrics" not in api.stats(name)


def test_an_erased_user_stays_in_the_sums_alone(api, name):
    api.put_tenant(name, **configuration("first"))
    for user in ("gone", "here"):
        api.reward(api.select(user, candidates=["a"], tenant=name)["decision"], 1, tenant=name)
    before = ask(api, name, by="arm")
    api.call("DELETE", f"/tenants/{name}/users/gone")
    after = ask(api, name, by="arm")
    assert before.keys() == after.keys() and all((before[k] == after[k]).all() for k in before)


def test_a_range_has_the_buckets_that_begin_in_it(api, name):
    api.put_tenant(name, **configuration("first"))
    api.select("u", candidates=["a"], tenant=name)
    (at, _), = ask(api, name, step="minute")
    assert ask(api, name, step="minute", **{"from": at, "to": at + 1}).keys() == {(at, None)}
    assert not ask(api, name, step="minute", **{"from": at + 1}) and not ask(api, name, step="minute", to=at)


def test_more_arms_than_have_names_are_summed(api, name):
    api.put_tenant(name, **configuration("first"))
    for i in range(20):
        api.select("u", candidates=[f"arm{i}"], tenant=name)
    rows = {}
    for (_, arm), row in ask(api, name, by="arm").items():
        rows[arm] = rows.get(arm, 0) + row[0]
    assert rows == {**{f"arm{i}": 1 for i in range(16)}, None: 4}


@pytest.mark.parametrize("query, says", [
    ({"step": "day"}, "query parameter step: expected one of minute, hour"), ({"step": "minute,hour"}, "query parameter step: expected one of minute, hour"),
    ({"by": "user"}, "query parameter by: expected one of arm, route, version"), ({"by": ""}, "query parameter by: "),
    ({"from": "yesterday"}, "query parameter from: expected a whole number"), ({"to": -1}, "query parameter to: expected a whole number"),
    ({"window": 5}, 'query parameter "window": this operation takes from and to and step and by')])
def test_wrong_questions_are_refused(api, name, query, says):
    api.put_tenant(name)
    assert ask(api, name, expect=400, **query)["detail"].startswith(says)
