"""Replay inside the server: a log through a shadow model, told line by line, without touching the tenant; and tenants made of it."""
import json
import math
import re
import signal
import time

import numpy as np
import pytest

from contract import NDJSON
from harness import Client, Server, run_ctl, tenant_path
from k00_moves import export, fill, names, spooled
from keyring import Keyring


def head(configuration, **more):
    return {"type": "replay", "configuration": configuration, **more}


def body_of(first, log=b""):
    return json.dumps(first).encode() + b"\n" + log


def replay(client, name, first, log=b"", expect=200):
    """The lines of the answer; or the problem."""
    answer = client.call("POST", tenant_path(name, "replay"), raw=body_of(first, log), kind=NDJSON, expect=expect)
    return [json.loads(line) for line in answer.text.splitlines()] if answer.status == 200 else answer.json


def report(client, name, first, log=b""):
    lines = replay(client, name, first, log)
    assert [line["type"] for line in lines[:-1]] == ["progress"] * (len(lines) - 1) and lines[-1]["type"] == "report", lines[-1]
    return lines[-1]


def pointers(problem):
    return [e["pointer"] for e in problem["errors"]]


def configuration_of(client, name):
    return client.call("GET", tenant_path(name)).json["configuration"]


# --- what comes of it -----------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["laplaced", "laplaced-kors", "lk-gp-ucb", "ek-ucb", "ts"])
def test_a_replay_of_the_own_log_under_the_own_configuration_is_the_tenant(server, api, name, preset):
    fill(api, name, preset)
    before = api.model(name)
    own = report(api, name, head(configuration_of(api, name), log="own"))
    assert own["model"]["digest"] == before["digest"] and own["tenant"] is None
    sent = report(api, name, head(configuration_of(api, name)), export(api, name).content)
    assert sent == own
    stats = api.stats(name)
    assert (own["events"], own["learned"]) == (api.events(name)[-1]["seq"], before["events"])
    assert own["model"]["pending"] == stats["pending"] and own["model"]["dictionary"] == len(before["dictionary"])
    assert api.model(name) == before and api.verify(name)["equal"] and spooled(server) == []


def test_another_configuration_is_another_model_of_the_same_rewards(api, name):
    fill(api, name, n=60)
    before = api.model(name)
    other = {"algorithm": "ek-ucb", "arm_dim": 1, "context_dim": 1, "seed": 7}
    one, two = report(api, name, head(other, log="own")), report(api, name, head(other), export(api, name).content)
    assert one == two and one["model"]["digest"] != before["digest"]
    plain = report(api, name, head({"algorithm": "ucb"}, log="own"))  # vectors are left out
    assert plain["reward_sum"] == one["reward_sum"] and plain["learned"] == one["learned"] == before["events"]
    assert plain["model"]["points"] < one["model"]["points"]
    assert api.model(name) == before


def test_a_part_of_a_log_and_a_compacted_one_will_do(api, name):
    fill(api, name, n=60)
    lines = export(api, name).content.splitlines(keepends=True)
    configuration = configuration_of(api, name)
    part = report(api, name, head(configuration), b"".join(lines[70:]))
    assert part["events"] == len(lines) - 70 and part["passed_over"] > 0 and 0 < part["learned"] < api.model(name)["events"]
    whole = report(api, name, head(configuration, log="own"))
    assert api.call("POST", tenant_path(name, "compact"), {"keep_events": 10}).json["compacted"]
    short = report(api, name, head(configuration, log="own"))
    assert short["events"] < whole["events"] and short["reward_sum"] == pytest.approx(whole["reward_sum"])
    assert [short[k] for k in ("learned",)] + [short["model"][k] for k in ("users", "arms", "points")] == \
        [whole[k] for k in ("learned",)] + [whole["model"][k] for k in ("users", "arms", "points")]


def sum_up(pairs):
    """SNIPS, IPS and the logged mean with their standard errors by the delta method, written out; and the mean weight."""
    w, r = (np.array(x, float) for x in zip(*pairs))
    n, snips, ips, mean = len(w), (w * r).sum() / w.sum(), (w * r).mean(), r.mean()
    se = lambda psi: math.sqrt((psi ** 2).sum() / (n * (n - 1)))  # noqa: E731
    return {"snips": (snips, se(n / w.sum() * w * (r - snips))), "ips": (ips, se(w * r - ips)), "in_force": (mean, se(r - mean)),
            "difference": (snips - mean, se(n / w.sum() * w * (r - snips) - (r - mean))), "weights": (w.mean(), se(w - w.mean()))}


def test_the_shadow_is_scored_on_the_decisions_of_the_log(api, name):
    """Uniform over a catalogue of three, from a log of Thompson sampling: weights are (1/3) / propensity."""
    api.put_tenant(name, algorithm="ts", default_reward=None)
    api.put_arms(name, ["a", "b", "c"])
    for i in range(120):
        d = api.select(f"u{i % 4}", tenant=name)
        if i % 8 != 7:
            api.reward(d["decision"], (i % 5) / 4 + (d["arm"] == "b"), tenant=name)
    for _ in range(3):  # not in the catalogue: what else could have been shown is not known
        api.reward(api.select("u", tenant=name, candidates=["x", "y"])["decision"], 1, tenant=name)
    log = api.events(name)
    shown = {e["decision"]: e for e in log if e["type"] == "decided"}
    pairs = [(1 / 3 / shown[e["decision"]]["propensity"], e["reward"]) for e in log if e["type"] == "rewarded" and shown[e["decision"]]["arm"] in "abc"]
    told = report(api, name, head({"algorithm": "random", "default_reward": None}, log="own"))["policy"]
    assert (told["decisions"], told["unknown"], told["open"]) == (105, 3, 15) and told["weights"]["max"] == pytest.approx(max(w for w, _ in pairs))
    for key, (estimate, se) in sum_up(pairs).items():
        assert told[key]["estimate"] == pytest.approx(estimate, rel=1e-6, abs=1e-9), key
        assert told[key]["upper"] - told[key]["lower"] == pytest.approx(2 * 1.959964 * se, rel=1e-5), key
    own = report(api, name, head(configuration_of(api, name), log="own"))["policy"]
    assert own["weights"] == {"estimate": 1, "lower": 1, "upper": 1, "max": 1} and own["ess"] == pytest.approx(105)
    assert own["snips"]["estimate"] == pytest.approx(own["in_force"]["estimate"]) and own["difference"]["estimate"] == pytest.approx(0, abs=1e-12)


def test_what_the_policy_has_not_drawn_is_not_scored(api, name):
    """Held out users and arms that stick to users: neither is the doing of what is in force."""
    api.put_tenant(name, algorithm="ts", default_reward=None, routing={"holdout": {"share": 0.5, "baseline": {"arm": "b"}}, "sticky": {"ttl_s": 3600}})
    api.put_arms(name, ["a", "b", "c"])
    for i in range(80):
        api.reward(api.select(f"u{i % 40}", tenant=name)["decision"], i % 2, tenant=name)
    routes = [e.get("route", "policy") for e in api.events(name) if e["type"] == "decided"]
    told = report(api, name, head({"algorithm": "random"}, log="own"))
    assert told["learned"] == 80 and told["policy"]["decisions"] == routes.count("policy") < 40 < len(routes)


# --- a tenant of it -------------------------------------------------------------------------------------


def test_commit_makes_a_tenant_that_has_learned_the_log(boot):
    server = boot()
    client = Client(server)
    fill(client, "old", n=60, aggregation="sum")
    before = client.model("old")
    wanted = {"algorithm": "ek-ucb", "arm_dim": 1, "context_dim": 1, "aggregation": "last", "reward_window_s": 1e6, "retention": {"events": 5000}}
    made = report(client, "old", head(wanted, log="own", commit="new"))
    assert made["tenant"] == "new" and client.model("old") == before
    model, configuration = client.model("new"), configuration_of(client, "new")
    assert model["digest"] == made["model"]["digest"] and client.verify("new")["equal"]
    assert model["events"] == before["events"] and model["algorithm"] == "ek-ucb"
    assert configuration["aggregation"] == "last" and configuration["reward_window_s"] == 1e6 and configuration["retention"]["events"] == 5000
    assert client.stats("new")["pending"] == client.stats("old")["pending"]
    assert {line["type"] for line in client.events("new")} >= {"configured", "graph", "arms", "decided", "rewarded", "observed", "dictionary"}
    server.restart()
    assert client.model("new") == model and spooled(server) == []
    decision = client.select("u1", tenant="new", context=[0.5])
    client.reward(decision["decision"], 1, tenant="new")
    client.reward(decision["decision"], 2, tenant="new")
    assert client.verify("new")["equal"]


def test_what_cannot_be_made_a_tenant_is_none(server, api, name):
    fill(api, name, "ucb")
    lines = export(api, name).content
    wanted = {"algorithm": "ts"}
    before = names(api)
    assert "there is a tenant" in replay(api, name, head(wanted, log="own", commit=name), expect=409)["detail"]
    assert "name" in replay(api, name, head(wanted, log="own", commit="../x"), expect=400)["detail"]
    assert pointers(replay(api, name, head(wanted, commit=name + "-made"), lines + b'{"seq":1}\n', expect=400))
    assert names(api) == before and spooled(server) == []


def test_only_an_admin_commits(tmp_path):
    ring = Keyring(tmp_path)
    try:
        manager = Client(ring.server, ring.keys["manage"][0])
        own = ring.keys["manage"][1]
        assert report(manager, own, head({"algorithm": "ts"}, log="own"))["tenant"] is None
        assert "admin" in replay(manager, own, head({"algorithm": "ts"}, log="own", commit="more"), expect=403)["detail"]
        assert report(ring.admin, own, head({"algorithm": "ts"}, log="own", commit="more"))["tenant"] == "more"
    finally:
        ring.server.close()


def test_the_client_replays_and_commits(server, api, name, tmp_path):
    fill(api, name, n=40)
    config, log = tmp_path / "config.json", tmp_path / "log"
    config.write_text(json.dumps({"algorithm": "ek-ucb", "context_dim": 1, "arm_dim": 1}))
    log.write_bytes(export(api, name).content)
    ctl = ("--tenant", name, "replay", "--shadow", str(config))
    own = run_ctl(server, *ctl, "--own")
    wanted = report(api, name, head(json.loads(config.read_text()), log="own"))
    assert f"digest {wanted['model']['digest']}" in own and f"{wanted['learned']} learned" in own
    assert run_ctl(server, *ctl, str(log)) == own and run_ctl(server, *ctl, "-", stdin=log.read_bytes()) == own
    made = run_ctl(server, *ctl, "--own", "--commit", name + "-new", "--json")
    assert json.loads(made) == {**wanted, "tenant": name + "-new"} and api.digest(name + "-new") == wanted["model"]["digest"]
    assert "there is a tenant" in run_ctl(server, *ctl, "--own", "--commit", name + "-new", expect=1)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:80] + lines[81:]))
    assert "HTTP 400: line 82 of the log is refused; /81/seq: expected 81" in run_ctl(server, *ctl, str(log), expect=1)
    for wrong in (("--tenant", name, "replay", "--own"), (*ctl, str(log), "--own"), ctl, ("replay", str(log), "--commit", "x")):
        assert "expected one FILE, or --shadow with --own" in run_ctl(server, *wrong, expect=2)


# --- faults -----------------------------------------------------------------------------------------------


def test_faults_of_the_beginning_are_answered_by_status(api, name):
    fill(api, name, "ucb")
    log = export(api, name).content
    ts = {"algorithm": "ts"}
    for first, lines, status, pointer in (
            ({"type": "replay"}, log, 400, "/0/configuration"),
            (head({"algorithm": "none"}), log, 400, "/0/configuration/algorithm"),
            (head(ts, logs="own"), log, 400, "/0/logs"),
            (head({"algorithm": "sup-kernel-ucb"}), log, 422, "/0/configuration/rule/type"),
            (head({"algorithm": "ts", "pending": "hallucinate", "forgetting": {"type": "half_life"}}), log, 422, "/0/configuration/pending"),
            (head(ts), b"", 400, "/1"), (head(ts, log="own"), log, 400, "/1"),
            (head({"algorithm": "lk-gp-ucb", "context_dim": 2}), log, 400, "/1/configuration/context_dim"),
            (head(ts), log.replace(b'"seq":3', b'"seq":4', 1), 400, "/3/seq"),
            (head(ts), log.replace(b'"type":"arms"', b'"type":"legs"', 1), 400, "/3/type")):
        assert pointer in pointers(replay(api, name, first, lines, expect=status)), (first, pointer)
    api.call("POST", tenant_path(name, "replay"), raw=b"\n", kind=NDJSON, expect=400)
    api.call("POST", tenant_path(name, "replay"), {}, expect=415)


def test_a_fault_further_on_is_the_last_line(server, api, name):
    fill(api, name, "ucb", n=60)
    lines = export(api, name).content.splitlines(keepends=True)
    lines[100] = lines[100].replace(b'"seq":101', b'"seq":102')
    told = replay(api, name, head({"algorithm": "ts"}, commit=name + "-made"), b"".join(lines))
    assert told[-1]["type"] == "failed" and told[-1]["problem"]["status"] == 400
    assert "/101/seq" in pointers(told[-1]["problem"]) and "line 102" in told[-1]["problem"]["detail"]
    assert name + "-made" not in names(api) and spooled(server) == []


def test_a_body_too_long_and_a_full_disk_are_told_before_it_begins(boot):
    server = boot("--max-import-body", "4000")
    client = Client(server)
    fill(client, "t")
    log = export(client, "t").content
    assert len(log) > 4000
    assert replay(client, "t", head({"algorithm": "ucb"}), log, expect=413)["status"] == 413
    server.fill_disk()
    assert replay(client, "t", head({"algorithm": "ucb"}), log[:2000], expect=507)["status"] == 507
    server.fill_disk(False)
    assert spooled(server) == []


def test_the_quota_holds_for_the_shadow_too(boot):
    client = Client(boot("--tenant-quota", "3000000"))
    client.put_tenant("t", algorithm="laplaced-kors", context_dim=1, representation={"max_dictionary": 16})
    many = [{"user": f"u{i % 7}", "context": [i / 7], "arm": f"a{i % 3}", "reward": i % 2} for i in range(700)]
    client.call("POST", "/observe", many, kind=NDJSON, tenant="t")
    last = replay(client, "t", head({"algorithm": "k-ucb", "context_dim": 1}, log="own"))[-1]
    assert last["type"] == "failed" and last["problem"]["status"] == 507 and last["problem"]["limit"] == "tenant_quota"
    assert report(client, "t", head({"algorithm": "ts"}, log="own"))["learned"] == 700


# --- while it goes on ----------------------------------------------------------------------------------------


TAKES_S = 1.7  # longer than a client that has left goes unnoticed


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """(server, the body of a replay that takes seconds): distinct points cost the square of their number each."""
    server = Server(tmp_path_factory.mktemp("slow")).start()
    client = Client(server)
    client.put_tenant("t", algorithm="ucb", context_dim=1)
    many = "".join(json.dumps({"user": "u", "context": [i / 7], "arm": "a", "reward": i % 2}) + "\n" for i in range(5000))
    client.session.post(server.url + "/observe", data=many, headers={"Content-Type": NDJSON, "Laplaced-Tenant": "t"}).raise_for_status()
    lines = export(client, "t").content.splitlines(keepends=True)
    first = head({"algorithm": "k-ucb", "context_dim": 1, "context_kernel": {"type": "rbf"}, "representation": {"exact_limit": 16384}})

    def seconds(body):
        began = time.monotonic()
        with begin(client, body) as answer:
            assert b'"report"' in list(answer.iter_lines())[-1]
        return time.monotonic() - began

    n, took = 1600, 0
    while took < TAKES_S and n < len(lines):
        n = min(len(lines), int(n * max(1.1, (1.3 * TAKES_S / took) ** (1 / 3))) if took else n)
        body = body_of(first, b"".join(lines[:n]))
        took = min(seconds(body) for _ in range(2))  # one that had to wait for a processor is quicker the next time
    yield server, body
    server.close()


def begin(client, body):
    """A replay under way: the answer whose lines can be read as they come."""
    return client.session.post(client.server.url + "/tenants/t/replay", data=body, headers={"Content-Type": NDJSON}, stream=True, timeout=120)


def counted(client):
    """The metrics of replays, by what follows their common name."""
    text = client.call("GET", "/metrics").text
    return {k: float(v) for k, v in re.findall(r"^laplaced_replays?_(running|total|failures_total) (\S+)$", text, re.M)}


def test_progress_is_told_while_it_goes_on(slow):
    server, body = slow
    client = Client(server)
    before, done = client.digest("t"), counted(client)["total"]
    with begin(client, body) as answer:
        lines = (json.loads(line) for line in answer.iter_lines())
        opening = next(lines)
        assert counted(client)["running"] == 1
        assert opening["type"] == "progress" and opening["progress"] < 0.5
        client.select("u", context=[0.5], candidates=["a"], tenant="t", dry_run=True)  # the tenant serves meanwhile
        assert "at work" in replay(client, "t", head({"algorithm": "ts"}, log="own"), expect=409)["detail"]
        told = [opening, *lines]
    progress = [line["progress"] for line in told[:-1]]
    assert told[-1]["type"] == "report" and progress == sorted(progress) and len(progress) >= 2 and progress[-1] < 1
    assert client.digest("t") == before and counted(client) == {"running": 0, "total": done + 1, "failures_total": 0}


def test_a_client_that_leaves_ends_it(slow):
    """What it would still have done is left: counted as one that failed, before it could end."""
    server, body = slow
    client = Client(server)
    before = counted(client)
    with begin(client, body) as answer:
        next(answer.iter_lines(chunk_size=1))
    deadline = time.monotonic() + 60
    while counted(client)["running"] > 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert counted(client) == {**before, "failures_total": before["failures_total"] + 1}
    assert report(client, "t", head({"algorithm": "ts"}, log="own"))["tenant"] is None


def test_a_stop_ends_it_with_a_last_line(slow):
    server, body = slow
    client = Client(server)
    with begin(client, body) as answer:
        lines = answer.iter_lines()
        assert json.loads(next(lines))["type"] == "progress"
        server.process.send_signal(signal.SIGTERM)
        last = [json.loads(line) for line in lines][-1]
    assert last["type"] == "failed" and last["problem"]["status"] == 503 and "stopping" in last["problem"]["detail"]
    assert server._reap() == 0
    server.start()
    assert Client(server).verify("t")["equal"] and spooled(server) == []
