"""laplacectl against a live server: what its commands say is what the API says."""
import json
import subprocess

import pytest

from harness import CTL, Client, run_ctl


@pytest.fixture
def ctl(server, name):
    """ctl(args...) for the test's own tenant."""
    return lambda *args, **options: run_ctl(server, "--tenant", name, *args, **options)


def test_a_tenant_is_put_listed_read_and_deleted(api, server, ctl, name, tmp_path):
    ctl("tenant", "put", name, "--set", "algorithm=lk-gp-ucb", "--set", "arm_dim=2", "--set", "confidence.beta=1.5")
    view = api.call("GET", f"/tenants/{name}").json
    assert (view["configuration"]["algorithm"], view["configuration"]["confidence"]["beta"]) == ("lk-gp-ucb", 1.5)
    ctl("tenant", "put", name, "--keep", "--set", "user_kernel.rho=0.5")
    kept = api.call("GET", f"/tenants/{name}").json["configuration"]
    assert (kept["user_kernel"]["rho"], kept["confidence"]["beta"], kept["arm_dim"]) == (0.5, 1.5, 2)
    (tmp_path / "t.json").write_text('{"algorithm":"ucb"}')
    ctl("tenant", "put", name, str(tmp_path / "t.json"))
    assert name in ctl("tenant", "list") and json.loads(ctl("tenant", "get", name, "--json"))["version"] == 3
    assert json.loads(ctl("tenant", "compact", name, "0", "--json")) == {"compacted": True, "events": 3, "lines": 2, "seq": 3}
    ctl("tenant", "put", name, "--keep", "--set", "seed=5")  # the log goes on behind its summary
    assert [e["seq"] for e in api.events(name)] == [2, 3, 4]
    assert "/keep_events" in ctl("tenant", "compact", name, "-1", expect=1)
    ctl("tenant", "compact", name, expect=2)
    ctl("tenant", "delete", name)
    api.call("GET", f"/tenants/{name}", expect=404)


def test_a_tenant_is_patched_stopped_and_started(api, server, ctl, name, tmp_path):
    def configuration():
        return api.call("GET", f"/tenants/{name}").json["configuration"]
    api.put_tenant(name, algorithm="ts", routing={"holdout": {"baseline": {"arm": "b"}}, "sticky": {"ttl_s": 60}})
    before = configuration()
    assert json.loads(ctl("tenant", "stop", name, "--json"))["configuration"] == {**before, "routing": {**before["routing"], "stopped": True}}
    assert json.loads(ctl("tenant", "stop", name, "--json"))["version"] == 2
    assert json.loads(ctl("tenant", "start", name, "--json"))["configuration"] == before == configuration()
    ctl("tenant", "patch", name, ' {"reward_window_s": 600}')
    (tmp_path / "patch.json").write_text('{"seed": 7, "routing": {"sticky": null}}')
    ctl("tenant", "patch", name, str(tmp_path / "patch.json"))
    ctl("tenant", "patch", name, "-", stdin=b'{"rule": {"epsilon": 0.5}}')
    ctl("tenant", "patch", name, '{"seed": 8}', "--set", "confidence.beta=3", "--set", "log_candidates=true", "--version", "6")
    want = {**before, "reward_window_s": 600, "seed": 8, "log_candidates": True, "rule": {**before["rule"], "epsilon": 0.5},
            "confidence": {**before["confidence"], "beta": 3}, "routing": {**before["routing"], "sticky": None}}
    assert configuration() == want
    assert "is 7 by now" in ctl("tenant", "patch", name, '{"seed": 9}', "--version", "6", expect=1)
    assert "/version" in ctl("tenant", "patch", name, '{"seed": 9}', "--version", "soon", expect=1)
    assert "/colour" in ctl("tenant", "patch", name, '{"colour": 1}', expect=1)
    assert "the patch is not JSON" in ctl("tenant", "patch", name, '{"seed": 9', expect=1)
    assert "missing.json" in ctl("tenant", "patch", name, str(tmp_path / "missing.json"), expect=1)
    assert "no-such" in ctl("tenant", "stop", "no-such", expect=1)
    for words in (("patch", name), ("patch",), ("stop",), ("start",), ("stop", name, "x"), ("patch", name, "{}", "x")):
        assert "usage" in ctl("tenant", *words, expect=2)
    assert configuration() == want


@pytest.mark.parametrize("text", ["ann,bob,1.5\nbob,cat,2\ncat,dan,1\n", "user;friend;weight\nann;bob;1.5\nbob;cat;2\ncat;dan;1\n",
                                  "# friends\nann\tbob\t1.5\nbob\tcat\t2\ncat\tdan\t1\n"], ids=["plain", "header", "tabs"])
def test_a_graph_is_loaded_from_csv(api, ctl, name, tmp_path, text):
    api.put_tenant(name)
    (tmp_path / "edges.csv").write_text(text)
    ctl("graph", "put", str(tmp_path / "edges.csv"))
    got = api.call("GET", f"/tenants/{name}/graph").json
    assert (got["users"], got["edges"], got["degree"]["max"]) == (4, 3, 3.5)
    (tmp_path / "patch.json").write_text('{"add":[["ann","zoe",9]],"remove":[["bob","cat"]]}')
    ctl("graph", "patch", str(tmp_path / "patch.json"))
    assert json.loads(ctl("graph", "get", "--json"))["users"] == 5


def test_a_bad_row_is_named_and_nothing_is_sent(api, ctl, name, tmp_path):
    api.put_tenant(name)
    (tmp_path / "edges.csv").write_text("ann,bob,1\nbob,cat,-2\n")
    out = ctl("graph", "put", str(tmp_path / "edges.csv"), expect=1)
    assert "edges.csv:2" in out and api.call("GET", f"/tenants/{name}/graph").json["users"] == 0


def test_a_catalogue_is_loaded_from_csv_and_ndjson(api, ctl, name, tmp_path):
    api.put_tenant(name, algorithm="gp-ucb", arm_dim=2)
    (tmp_path / "arms.csv").write_text('id,f1,f2,active\na,1,2,true\n"b, the second",3,4.5,false\n')
    ctl("arms", "put", str(tmp_path / "arms.csv"))
    arms = {a["id"]: a for a in api.call("GET", f"/tenants/{name}/arms").json["arms"]}
    assert arms["a"] == {"id": "a", "features": [1, 2], "active": True} and not arms["b, the second"]["active"]
    (tmp_path / "arms.ndjson").write_text('{"id":"x","features":[0,1]}\n{"id":"y","features":[1,0]}\n')
    ctl("arms", "put", str(tmp_path / "arms.ndjson"))
    ctl("arms", "remove", "x")
    assert [a["id"] for a in api.call("GET", f"/tenants/{name}/arms").json["arms"]] == ["y"]


def test_decisions_and_rewards_by_hand(api, ctl, name):
    api.put_tenant(name, algorithm="ucb")
    answer = json.loads(ctl("select", "ann", "red", "green", "--decision", "d1", "--json"))
    assert answer["decision"] == "d1" and answer["arm"] in ("red", "green")
    assert "red" in ctl("select", "ann", "red", "--dry-run")
    ctl("reward", "d1", "1.0")
    assert "duplicate" in ctl("reward", "d1", "1.0")
    ctl("reward", "d1", "0.5", expect=1)
    ctl("observe", "bob", "green", "0.25", "--id", "e1")
    assert "duplicates" in ctl("observe", "bob", "green", "0.25", "--id", "e1")
    ctl("select", "ann", "red", "--defer", "--decision", "d2")
    ctl("activate", "d2")
    stats = api.stats(name)
    assert (stats["rewards"], stats["observations"], stats["decisions"]) == (2, 1, 2)
    assert json.loads(ctl("stats", "--json")) == api.stats(name)
    assert json.loads(ctl("model", "--json"))["digest"] == api.digest(name)


def test_slots_by_hand(api, ctl, name):
    api.put_tenant(name, algorithm="ucb", default_reward=None)
    page = json.loads(ctl("select", "ann", "red", "green", "blue", "pink", "--slot", "top", "--slot", '{"id":"left","exclude":["red","green"]}', "--slot", 'a "b"',
                          "--decision", "page-1", "--json"))
    assert [s["id"] for s in page["slots"]] == ["top", "left", 'a "b"'] and len({s["arm"] for s in page["slots"]}) == 3
    arms = {s["id"]: s["arm"] for s in page["slots"]}
    assert arms["left"] in ("blue", "pink")
    told = ctl("select", "ann", "red", "green", "--slot", "top", "--slot", "left", "--dry-run")
    assert all(word in told for word in ("top", "left", "red", "green"))
    ctl("reward", "page-1", "0.5", "--slot", "left")
    ctl("reward", "--user", "ann", "1", "--slot", 'a "b"')
    assert [(e["arm"], e["reward"]) for e in api.events(name) if e["type"] == "rewarded"] == [(arms["left"], 0.5), (arms['a "b"'], 1)]
    assert "no such slot" in ctl("reward", "page-1", "1", "--slot", "foot", expect=1)
    assert "/slots/1" in ctl("select", "ann", "red", "--slot", "top", "--slot", "left", expect=1)
    assert "/top" in ctl("select", "ann", "red", "green", "--slot", "top", "--top", "2", expect=1)
    assert "/slot" in ctl("reward", "page-1", "1", "--slot", "top", "--arm", "red", expect=1)


def test_the_log_is_printed_whole_and_by_type(api, ctl, name):
    api.put_tenant(name, algorithm="ucb")
    for i in range(12):
        api.select("u", candidates=["a"], decision=f"d{i}", tenant=name)
    api.reward("d3", 1, tenant=name)
    assert [json.loads(line) for line in ctl("events").splitlines()] == api.events(name)
    assert [json.loads(line)["decision"] for line in ctl("events", "--type", "rewarded").splitlines()] == ["d3"]
    assert len(ctl("events", "--after", "5", "--limit", "3").splitlines()) == 3


def test_replay_earns_what_the_chosen_arms_pay(api, ctl, name, tmp_path):
    api.put_tenant(name, algorithm="ucb")
    lines = [{"user": f"u{i % 5}", "rewards": {"good": 1.0, "bad": 0.25}} for i in range(80)]
    (tmp_path / "log.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = json.loads(ctl("replay", str(tmp_path / "log.ndjson"), "--json"))
    earned = [e["reward"] for e in api.events(name) if e["type"] == "rewarded"]
    assert (report["lines"], report["errors"], report["requests"]) == (80, 0, 160) and len(earned) == 80
    assert report["rewards"]["total"] == pytest.approx(sum(earned)) and report["rewards"]["mean"] > 0.8
    assert 0 < report["select"]["p50_ms"] <= report["select"]["p99_ms"] <= report["select"]["max_ms"]
    assert report["select"]["requests"] == report["reward"]["requests"] == 80


def test_replay_of_a_log_teaches_another_tenant_the_same(api, ctl, name, tmp_path):
    """Rewarded decisions become observations; the exact posterior does not care which they were."""
    api.put_tenant(name, algorithm="ts")
    api.put_tenant(name + ".copy", algorithm="ts")
    for i in range(40):
        d = api.select(f"u{i % 3}", candidates=["a", "b", "c"], tenant=name)["decision"]
        if i % 4:
            api.reward(d, 0.1 * (i % 9), tenant=name)
    api.observe("u9", "c", 0.7, tenant=name)
    (tmp_path / "log.ndjson").write_text("".join(json.dumps(e) + "\n" for e in api.events(name)))
    report = json.loads(ctl("--tenant", name + ".copy", "replay", str(tmp_path / "log.ndjson"), "--json"))
    assert report["errors"] == 0 and api.model(name + ".copy")["events"] == 31
    got, want = (api.select("u1", candidates=["a", "b", "c"], explain=True, dry_run=True, decision="x", tenant=t)["ranking"]
                 for t in (name + ".copy", name))
    assert {r["arm"]: (r["mean"], r["sd"]) for r in got} == {
        r["arm"]: (pytest.approx(r["mean"], rel=1e-9), pytest.approx(r["sd"], rel=1e-9)) for r in want}


def test_a_replay_run_twice_by_ids_decides_nothing_twice(api, ctl, name, tmp_path):
    api.put_tenant(name, algorithm="random")
    lines = [{"user": "u", "rewards": {"a": 1, "b": 0}} for _ in range(20)]
    (tmp_path / "log.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for _ in range(2):
        ctl("replay", str(tmp_path / "log.ndjson"), "--ids", "run1", "--json")
    stats = api.stats(name)
    assert (stats["decisions"], stats["rewards"]) == (20, 20)


def test_a_small_demo_runs_is_repeatable_and_beats_chance(boot):
    """Also where points enter beside the traffic, as they do in a demo of the usual length."""
    server = boot("--finish-builds", "--inline-work", "0")
    first, again = (json.loads(run_ctl(server, "demo", "--rounds", "400", "--users", "30", "--seed", "7", "--json")) for _ in range(2))
    regret = {p["policy"]: p["regret"] for p in first["policies"]}
    assert regret == {p["policy"]: p["regret"] for p in again["policies"]}
    assert {"laplaced", "gp-ucb", "lin-ucb", "random"} == set(regret)
    assert all(regret[p][0] < 0.9 * regret["random"][0] for p in ("laplaced", "gp-ucb", "lin-ucb"))
    client = Client(server)
    assert client.model("demo-laplaced")["events"] == 400
    assert any(e.get("begun") for e in client.events("demo-laplaced"))
    other = json.loads(run_ctl(server, "demo", "--rounds", "50", "--users", "30", "--seed", "8", "--json"))
    assert {p["policy"]: p["regret"] for p in other["policies"]} != regret


def test_a_demo_on_people_reads_their_files(server, tmp_path):
    edges = [(f"p{i}", f"p{(i + 1) % 40}") for i in range(40)] + [(f"p{i}", f"p{(i * 7 + 3) % 40}") for i in range(20)]
    (tmp_path / "my_edges.csv").write_text("u,v\n" + "".join(f"{u},{v}\n" for u, v in edges if u != v))
    likes = {f"p{i}": [f"g{(i // 8 + k) % 12}" for k in range(5)] for i in range(40)}
    (tmp_path / "my_genres.json").write_text(json.dumps(likes))
    report = json.loads(run_ctl(server, "demo", "--data", str(tmp_path), "--rounds", "200", "--users", "40", "--json"))
    assert report["rounds"] == 200 and {"laplaced", "random"} <= {p["policy"] for p in report["policies"]}


def test_errors_have_a_status_and_a_reason(server, ctl, tmp_path):
    assert "no-such" in ctl("select", "u", "a", "--tenant", "no-such", expect=1)
    assert "usage" in ctl("select", expect=2)
    assert "command" in ctl("frobnicate", expect=2)
    assert "missing.csv" in ctl("graph", "put", str(tmp_path / "missing.csv"), expect=1)
    ctl("health")
    done = subprocess.run([CTL, "--server", "http://127.0.0.1:1", "health"], capture_output=True, timeout=30)
    assert done.returncode == 1 and b"127.0.0.1" in done.stderr + done.stdout


@pytest.mark.parametrize("command", ["tenant", "graph", "arms", "select", "reward", "observe", "activate", "events", "model", "stats",
                                     "health", "replay", "demo"])
def test_every_command_explains_itself(server, command):
    text = run_ctl(server, command, "--help")
    assert f"usage: laplacectl {command}" in text and "--server" in text


def test_a_key_is_sent_when_told(boot, tmp_path):
    (tmp_path / "keys").write_text("open-sesame-0123456789\n")
    server = boot("--admin-key-file", str(tmp_path / "keys"))
    run_ctl(server, "tenant", "list", expect=1)
    assert "default" in run_ctl(server, "--key", "open-sesame-0123456789", "tenant", "list")


def test_a_tenant_is_copied_and_made_again(api, server, ctl, name, tmp_path):
    api.put_tenant(name, algorithm="ucb")
    for i in range(30):
        api.select("u", candidates=["a", "b"], decision=f"d{i}", tenant=name)
        api.reward(f"d{i}", i % 2, tenant=name)
    digest = api.digest(name)
    for out, back in (("snapshot", "restore"), ("export", "import")):
        file, other = tmp_path / out, f"{name}-{back}"
        assert digest in ctl(out, name, str(file)) and not (tmp_path / (out + ".part")).exists()
        assert json.loads(ctl(back, other, str(file), "--json"))["digest"] == digest == api.digest(other)
        assert f'tenant "{other}"' in ctl(back, other, str(file), expect=1)
        piped = subprocess.run([CTL, "--server", server.url, out, name], capture_output=True, check=True).stdout
        assert piped == file.read_bytes()
        ctl(back, other + "-2", "-", stdin=piped)
        assert api.digest(other + "-2") == digest


def test_a_copy_that_fails_leaves_the_older_one(ctl, name, tmp_path):
    file = tmp_path / "copy"
    file.write_text("an older copy")
    assert "no tenant" in ctl("snapshot", name, str(file), expect=1)
    assert file.read_text() == "an older copy" and [p.name for p in tmp_path.iterdir()] == ["copy"]
    assert "No such file" in ctl("restore", name, str(tmp_path / "nowhere"), expect=1)
    assert "application" not in ctl("import", name, str(file), expect=1)
