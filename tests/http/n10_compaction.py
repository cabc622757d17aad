"""POST /tenants/{t}/compact: the log starts with a summary of what it has lost, and the model stays as it is."""
import sqlite3
import threading
import time

import pytest

from harness import NDJSON, Client

GRAPH = [["ann", "bob", 1], ["bob", "cid", 2], ["ann", "cid", 0.3]]
USERS = ["ann", "bob", "cid", "zoe"]
CONFIGS = {
    "exact": dict(algorithm="lk-gp-ucb", arm_dim=1, context_dim=1),
    "usual": dict(algorithm="laplaced-kors", arm_dim=1, context_dim=1),
    "bounds": dict(algorithm="cmm-ucb", arm_dim=1, context_dim=1, representation={"exact_limit": 20}),
    "by_arm": dict(algorithm="laplaced-by-arm", context_dim=1),
    "by_component": dict(algorithm="laplaced-by-component", arm_dim=1, context_dim=1),
    "bkb": dict(algorithm="bkb", arm_dim=1, context_dim=1, representation={"lambda": 0.1}),
    "bbkb": dict(algorithm="bbkb", arm_dim=1, context_dim=1, representation={"lambda": 0.1, "batch_ratio": 3}),
    "thompson": dict(algorithm="ts", aggregation="sum"),
    "learned": dict(algorithm="coop-kernel-ucb", arm_dim=1, context_dim=1,
                    user_kernel={"type": "mmd", "refresh": 13, "min_observations": 2}),
    "levels": dict(algorithm="sup-kernel-ucb", arm_dim=1, context_dim=1, confidence={"beta": 0.5}),
    "median": dict(algorithm="gp-ucb", arm_dim=1, arm_kernel={"type": "rbf", "lengthscale": "median"}),
}


def compact(client, name, keep, **fields):
    return client.call("POST", f"/tenants/{name}/compact", {"keep_events": keep, **fields}).json


def make(client, name, config):
    client.put_tenant(name, **config)
    client.put_graph(name, GRAPH)
    dim = config.get("arm_dim")
    client.put_arms(name, [{"id": f"a{i}", **({"features": [0.2 * i]} if dim else {})} for i in range(5)])


def traffic(client, name, config, first, n):
    """Decisions under given ids d0, d1, ...; every fourth stays open."""
    for i in range(first, first + n):
        x = {"context": [0.1 * (i % 9)]} if config.get("context_dim") else {}
        client.select(USERS[i % 4], decision=f"d{i}", tenant=name, **x)
        if i % 4:
            client.reward(f"d{i}", (i % 5) / 4 - 0.5, tenant=name)


def model(client, name):
    """All that /model shows but the numbers that tell when it was made."""
    return client.model(name)["digest"]


def wait_trimmed(server, name, first, seconds=20):
    """Until the file holds no row that is no part of the log."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        db = sqlite3.connect(f"file:{server.data}/tenants/{name}.db?mode=ro", uri=True)
        left = db.execute("SELECT (SELECT count(*) FROM events WHERE seq < (SELECT kept FROM log_start)),"
                          " (SELECT count(*) FROM summary WHERE generation <> (SELECT generation FROM log_start))").fetchone()
        db.close()
        if left == (0, 0):
            return
        time.sleep(0.05)
    raise AssertionError(f"rows are left: {left}")


@pytest.mark.parametrize("name", CONFIGS)
def test_the_model_is_that_of_the_whole_log(boot, name):
    config, server = CONFIGS[name], boot("--snapshot-events", "1000000")
    client = Client(server)
    make(client, name, config)
    traffic(client, name, config, 0, 60)
    tip = client.events(name)[-1]["seq"]
    done = compact(client, name, 20)
    assert done["compacted"] and tip - 30 <= done["seq"] <= tip - 20 and 6 < done["lines"] < done["events"]
    before = model(client, name)
    log = client.events(name)
    kinds = [e["type"] for e in log]
    assert kinds[:done["lines"]] == ["summary"] * done["lines"] and "summary" not in kinds[done["lines"]:]
    assert [e["seq"] for e in log] == list(range(done["seq"] - done["lines"] + 1, log[-1]["seq"] + 1))
    assert [e.get("part") for e in log[:2]] == ["begin", "users"] and log[done["lines"] - 1]["part"] == "end"
    assert client.events(name, after=done["seq"])[0]["seq"] == done["seq"] + 1
    server.restart()
    assert model(client, name) == before
    traffic(client, name, config, 60, 20)
    before = model(client, name)
    server.restart()
    assert model(client, name) == before
    again = compact(client, name, 0)
    assert again["compacted"] and again["seq"] > done["seq"]
    before = model(client, name)
    server.restart()
    assert model(client, name) == before and server.terminate() == 0
    for path in (server.data / "tenants").glob("*.snapshot"):
        path.unlink()
    server.start()
    assert model(client, name) == before


def test_what_is_open_stays_open_and_what_was_closed_is_forgotten(api, name):
    config = CONFIGS["usual"]
    make(api, name, config)
    traffic(api, name, config, 0, 40)
    answer = api.select("ann", decision="d0", context=[0.0], tenant=name)
    api.reward("d1", 0.5, tenant=name, expect=409)
    stats = api.stats(name)
    done = compact(api, name, 0)
    assert done["compacted"]
    now = api.stats(name)
    assert {k: v for k, v in now.items() if k not in ("window", "arms")} == {k: v for k, v in stats.items() if k not in ("window", "arms")}
    assert api.select("ann", decision="d0", context=[0.0], tenant=name) == answer
    assert api.reward("d0", 0.25, tenant=name) == {"applied": True}
    assert api.reward("d0", 0.25, tenant=name)["duplicate"]
    api.reward("d0", 0.5, tenant=name, expect=409)
    api.reward("d1", 0.5, tenant=name, expect=404)
    assert api.select("bob", decision="d1", context=[0.1], tenant=name)["decision"] == "d1"
    assert api.stats(name)["window"]["rewards"] == 1


def test_a_reward_told_before_is_known_after_the_window(boot):
    server = boot("--snapshot-events", "1000000")
    client = Client(server)
    client.put_tenant("t", algorithm="ts", aggregation="last", reward_window_s=1.5)
    client.put_arms("t", ["a", "b"])
    for i in range(30):
        client.observe("ann", "a", i / 30, tenant="t")
    client.select("ann", decision="told", tenant="t")
    client.reward("told", 0.5, tenant="t")
    client.select("ann", decision="silent", tenant="t")
    assert compact(client, "t", 0)["compacted"]
    deadline = time.monotonic() + 10
    while client.stats("t")["pending"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert client.reward("told", 0.5, tenant="t")["duplicate"]
    client.reward("told", 0.75, tenant="t", expect=410)
    client.reward("silent", 0.75, tenant="t", expect=410)


def test_nothing_is_done_where_nothing_is_gained(api, name):
    api.put_tenant(name, algorithm="ucb")
    nothing = {"compacted": False, "events": 0, "lines": 0, "seq": 0}
    assert compact(api, name, 0) == nothing
    for i in range(30):
        api.observe(f"u{i % 3}", "a", 0.5, tenant=name)
    assert compact(api, name, 100) == nothing
    done = compact(api, name, 0)
    assert done["compacted"]
    assert compact(api, name, 1000000) == nothing
    assert compact(api, name, api.events(name)[-1]["seq"] - done["seq"]) == nothing


def test_a_tenant_that_has_learned_nothing_needs_no_reset(boot):
    server = boot("--snapshot-events", "1000000")
    client = Client(server)
    client.put_tenant("t", algorithm="lk-gp-ucb", arm_dim=1)
    for i in range(20):
        client.put_arms("t", [{"id": f"a{k}", "features": [i + k / 7]} for k in range(4)])
    client.put_graph("t", GRAPH)
    done = compact(client, "t", 2)
    assert done["compacted"] and client.events("t")[-1]["type"] != "dictionary"
    before = model(client, "t")
    server.restart()
    assert model(client, "t") == before
    traffic(client, "t", {}, 0, 12)
    before = model(client, "t")
    server.restart()
    assert model(client, "t") == before


@pytest.mark.parametrize("body,pointer", [
    ({}, "/keep_events"), ({"keep_events": -1}, "/keep_events"), ({"keep_events": 1.5}, "/keep_events"),
    ({"keep_events": "1"}, "/keep_events"), ({"keep_events": 1, "age": 2}, "/age"), ([1], "")])
def test_bad_bodies_are_refused_by_pointer(api, name, body, pointer):
    api.put_tenant(name, algorithm="ucb")
    before = api.events(name)
    assert api.call("POST", f"/tenants/{name}/compact", body, expect=400).pointers == [pointer]
    assert api.events(name) == before
    api.call("POST", f"/tenants/{name}/compact", raw="keep_events=1", kind="text/plain", expect=415)
    api.call("POST", "/tenants/no-such-tenant/compact", {"keep_events": 1}, expect=404)


def test_the_file_shrinks(server, api, name):
    api.put_tenant(name, algorithm="ts")
    line = {"user": "ann", "arm": "a", "reward": 0.25}
    for _ in range(8):
        api.call("POST", "/observe", [line] * 2500, kind=NDJSON, tenant=name)
    path = server.data / "tenants" / f"{name}.db"
    done = compact(api, name, 100)
    assert done["events"] > 19000 and done["lines"] < 10
    before = model(api, name)
    wait_trimmed(server, name, done["seq"])
    deadline = time.monotonic() + 20
    while path.stat().st_size > 300_000 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert path.stat().st_size <= 300_000  # 20,000 lines take 3 MB
    assert model(api, name) == before


@pytest.mark.parametrize("user", ["ann", "zoe", "cid"])
def test_an_erased_user_leaves_the_summary_as_well(server, api, name, user):
    """The model, the users and the points are those of a log that never had the user; counts of events that have gone stay."""
    def lines(who, n=200):
        return [{"user": u, "arm": {"id": f"a{i % 3}", "features": [i % 3 / 4]}, "context": [i % 7 / 8], "reward": (i % 9) / 8}
                for i in range(n) for u in (USERS[i % 4],) if u != who]

    for tenant, without in ((name, None), (name + "-never", user)):
        api.put_tenant(tenant, algorithm="laplaced-kors", context_dim=1, arm_dim=1)
        api.put_graph(tenant, [e for e in GRAPH if without not in e], users=[u for u in ("bob", "ann", "cid") if u != without])
        api.put_arms(tenant, [{"id": f"a{i}", "features": [i / 4]} for i in range(3)])
        api.call("POST", "/observe", lines(without), kind=NDJSON, tenant=tenant)
        if without is None:
            api.select(user, decision=f"of-{user}", context=[0.5], tenant=tenant)
            assert compact(api, tenant, 0)["compacted"]
            api.select(user, decision="later", context=[0.5], tenant=tenant)
        api.call("POST", "/observe", lines(without, 40), kind=NDJSON, tenant=tenant)
    assert f'"{user}"' in api.call("GET", f"/tenants/{name}/events").text
    done = api.call("DELETE", f"/tenants/{name}/users/{user}").json
    assert done["events"] > 20
    api.call("POST", f"/tenants/{name}-never/rebuild")
    api.wait_rebuilt(f"{name}-never")
    text = api.call("GET", f"/tenants/{name}/events").text
    assert f'"{user}"' not in text and f"of-{user}" not in text
    got, want = api.model(name), api.model(name + "-never")
    for key in ("learned", "history_rows", "support", "dictionary", "parameters", "user_kernel", "graph"):
        if key in want:
            strip = (lambda d: [{k: v for k, v in p.items() if k != "event"} for p in d]) if key == "dictionary" else (lambda v: v)
            assert strip(got[key]) == strip(want[key]), key
    for u in [u for u in USERS if u != user] + ["stranger"]:
        probes = [api.select(u, decision="probe", context=[0.25], explain=True, dry_run=True, tenant=t)["ranking"]
                  for t in (name, name + "-never")]
        assert [(r["arm"], r["mean"], r["sd"]) for r in probes[0]] == [(r["arm"], r["mean"], r["sd"]) for r in probes[1]]
    mine, never = api.stats(name), api.stats(name + "-never")
    assert mine["mean_reward"] == never["mean_reward"] and mine["pending"] == 0
    assert {a["arm"]: (a["rewards"], a["mean_reward"]) for a in mine["arms"]} == \
        {a["arm"]: (a["rewards"], a["mean_reward"]) for a in never["arms"]}
    wait_trimmed(server, name, 0)
    needle = user.encode()
    for path in (server.data / "tenants").glob(f"{name}.*"):
        if name + "-never" not in path.name:
            assert b'"' + needle + b'"' not in path.read_bytes(), path
    before = model(api, name)
    api.reward(f"of-{user}", 1.0, tenant=name, expect=404)
    assert model(api, name) == before


def test_compacting_beside_traffic_loses_nothing(boot):
    server = boot("--snapshot-events", "1000000")
    client, name = Client(server), "busy"
    config = CONFIGS["usual"]
    make(client, name, config)
    traffic(client, name, config, 0, 100)
    stop, done = threading.Event(), []

    def write():
        mine, i = Client(server), 1000
        while not stop.is_set():
            traffic(mine, name, config, i, 1)
            i += 1
        done.append(i - 1000)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert compact(client, name, 10)["compacted"]
        for _ in range(4):
            compact(client, name, 10)  # nothing may be gained where little has come since
    finally:
        stop.set()
        thread.join()
    counts = client.stats(name)
    assert counts["decisions"] == 100 + done[0]
    before = model(client, name)
    server.restart()
    assert model(client, name) == before


@pytest.mark.parametrize("passage", range(1, 12))
def test_a_death_in_any_step_leaves_the_same_model(boot, passage):
    """Dies at the n-th passage of a point that stands behind each change of the file."""
    import requests
    server = boot("--snapshot-events", "1000000")
    client, name = Client(server), "t"
    config = CONFIGS["exact"]
    make(client, name, config)
    traffic(client, name, config, 0, 30)
    client.call("POST", "/observe", [{"user": "bob", "arm": "a1", "context": [0.5], "reward": 0.5}] * 9000, kind=NDJSON, tenant=name)
    client.call("POST", f"/tenants/{name}/rebuild")
    client.observe("ann", "a2", 0.5, context=[0.25], tenant=name)
    before = model(client, name)
    assert server.terminate() == 0
    for path in (server.data / "tenants").glob("*.snapshot"):
        path.unlink()
    server.env["LAPLACED_FAILPOINT"] = f"mid_compaction:{passage}"
    server.start()
    try:
        client.call("POST", f"/tenants/{name}/compact", {"keep_events": 2}, expect=(200, 503))
        time.sleep(1.0)
        client.call("GET", "/healthz")
    except requests.RequestException:
        server.process.wait(10)
    assert server.process.poll() is not None or passage > 6
    server.close()
    del server.env["LAPLACED_FAILPOINT"]
    server.start()
    assert model(client, name) == before
    wait_trimmed(server, name, 0)
    assert model(client, name) == before
    assert client.reward("d0", 0.25, tenant=name)["applied"]


@pytest.mark.parametrize("name", ["usual", "bkb", "learned"])
def test_a_compacted_log_is_verified_exported_and_imported(boot, name):
    config, client = CONFIGS[name], Client(boot())
    make(client, name, config)
    traffic(client, name, config, 0, 60)
    assert compact(client, name, 10)["compacted"]
    traffic(client, name, config, 60, 20)
    assert client.call("POST", f"/tenants/{name}/verify").json["equal"]
    log = client.call("GET", f"/tenants/{name}/export").text
    client.call("POST", "/tenants/again/import", raw=log, kind=NDJSON, expect=201)
    assert model(client, "again") == model(client, name)
    assert client.call("POST", "/tenants/again/verify").json["equal"]
    assert client.call("GET", "/tenants/again/export").text == log
    assert client.reward("d0", 0.25, tenant="again") == {"applied": True}
    x = {"context": [0.4]} if config.get("context_dim") else {}
    assert client.select("ann", decision="d4", tenant="again", **x) == client.select("ann", decision="d4", tenant=name, **x)
    assert compact(client, "again", 0)["compacted"]
    before = model(client, "again")
    assert client.call("POST", "/tenants/again/verify").json["equal"] and model(client, "again") == before
    begin = "".join(line + "\n" for line in log.splitlines()[:3])
    client.call("POST", "/tenants/cut/import", raw=begin, kind=NDJSON, expect=400)
    client.call("GET", "/tenants/cut", expect=404)


TUNED = {"arms": dict(algorithm="laplaced"), "contexts": dict(algorithm="laplaced", context_dim=1), "by_component": dict(algorithm="laplaced", arm_dim=1),
         "by_component, contexts": dict(algorithm="laplaced", arm_dim=1, context_dim=1), "means": dict(algorithm="ts")}


def observe(client, name, config, first, n):
    """Rewards that no decision of the tenant's own hangs on; each a batch of its own."""
    for i in range(first, first + n):
        x = {"context": [0.1 * (i % 9)]} if config.get("context_dim") else {}
        client.observe(USERS[i % 4], f"a{i % 5}", (i % 5) / 4 + 0.3 * ((7 * i) % 4), tenant=name, **x)


def tuned(client, name):
    return {e["scales"]["rewards"]: e["scales"] for e in client.events(name) if e["type"] == "tuned"}


@pytest.mark.parametrize("name", TUNED)
def test_refits_go_on_behind_a_compaction(boot, name):
    """Default tuning: a line of the log that goes, `tuned` lines among what goes and among what stays, and the refits that fall due later. A twin is not compacted."""
    config, server = TUNED[name], boot("--snapshot-events", "1000000", "--finish-builds")
    client, name = Client(server), "t"
    for t in ("t", "twin"):
        make(client, t, {**config, "seed": 5})
        observe(client, t, config, 0, 45)
    assert list(tuned(client, "t")) == [8, 12, 18, 27, 41] and tuned(client, "t") == tuned(client, "twin")
    done = compact(client, "t", 12)
    assert done["compacted"]
    wait_trimmed(server, "t", 0)
    assert list(tuned(client, "t")) == [41], "the line of the refit stays, those before it have gone into the summary"
    for t in ("t", "twin"):
        observe(client, t, config, 45, 60)
    got, want = tuned(client, "t"), tuned(client, "twin")
    assert list(got) == [41, 62, 93]
    for rewards in (62, 93):
        scales = {k: v for k, v in got[rewards].items() if k not in ("event", "evidence_before", "evidence_after")}
        near = 1e-9 if "arm_dim" not in config else 0.05  # a dictionary has been drawn anew before the summary
        assert scales == pytest.approx({k: want[rewards][k] for k in scales}, rel=near), rewards
    told = client.model("t")
    assert told["digest"] == client.call("GET", "/tenants/t/model").json["digest"]
    compact(client, "t", 0)
    before = model(client, "t")
    assert server.terminate() == 0
    for path in (server.data / "tenants").glob("*.snapshot"):
        path.unlink()
    server.start()
    assert model(client, "t") == before and client.verify("t")["equal"]
    observe(client, "t", config, 105, 40)
    assert list(tuned(client, "t")) == [140]
