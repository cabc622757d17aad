"""laplacectl replay by the log's own times, in bulk, and of other formats; latencies of an open loop hold the wait for a server that
stands still. Moments are those that the server itself wrote into its log; nothing is asked to be faster than it may be."""
import datetime
import json
import os
import signal
import threading
import time

import pytest

from harness import Client, run_ctl

OBD = os.environ.get("LAPLACED_DATA_OBD")

START = datetime.datetime(2026, 11, 22, 10, 0, 0, tzinfo=datetime.timezone.utc)


def at(seconds):
    return (START + datetime.timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def observed(seconds, i=0, **more):
    return {"user": f"u{i % 5}", "arm": f"a{i % 3}", "reward": i % 2, "at": at(seconds), **more}


def replay(server, tenant, file, *args, expect=0):
    out = run_ctl(server, "--tenant", tenant, "replay", file, "--json", "--quiet", *args, expect=expect)
    return json.loads(out.splitlines()[0]) if out.startswith("{") else out


def moments(api, tenant):
    """Seconds of the observations, as the server has them."""
    return [datetime.datetime.fromisoformat(e["at"].replace("Z", "+00:00")).timestamp() for e in api.events(tenant) if e["type"] == "observed"]


def plain(api, name):
    api.put_tenant(name, algorithm="ucb")
    return name


# --- pace -----------------------------------------------------------------------------------------------


def test_lines_are_sent_at_the_pace_of_the_log(server, api, name, tmp_path):
    """Four seconds of log at four times its pace, with gaps of one, one and two seconds; a time that goes back waits for nothing."""
    file = write(tmp_path / "log", [observed(s, i) for i, s in enumerate((0, 1, 2, 1.5, 4))])
    told = replay(server, plain(api, name), file, "--pace", "4", "--concurrency", "2")
    assert told["loop"] == "open" and told["pace"]["factor"] == 4 and told["pace"]["log_s"] == 4 and told["pace"]["intended_s"] == 1
    assert told["pace"]["sent_s"] >= 1 and told["lines"] == 5 and told["errors"] == 0
    seen = moments(api, name)
    since = [s - seen[0] for s in seen]
    late = told["late_ms"] / 1000 + told["observe"]["max_ms"] / 1000 + 0.05
    for due, got in zip((0, 0.25, 0.5, 0.5, 1), since):
        assert due - late <= got <= due + late, (since, late)
    assert since[4] - since[2] > since[2] - since[1]


def test_our_own_log_goes_by_the_times_of_its_rewards(server, api, name, tmp_path):
    plain(api, name)
    decisions = [api.select("u", tenant=name, candidates=["a", "b"])["decision"] for _ in range(2)]
    api.reward(decisions[0], 1, tenant=name)
    time.sleep(0.4)
    api.reward(decisions[1], 0, tenant=name)
    log = api.events(name)
    rewarded = [datetime.datetime.fromisoformat(e["at"].replace("Z", "+00:00")).timestamp() for e in log if e["type"] == "rewarded"]
    told = replay(server, plain(api, name + "-2"), write(tmp_path / "log", log), "--pace", "2")
    assert told["lines"] == 2 and told["pace"]["log_s"] == round(rewarded[1] - rewarded[0], 3)
    first, second = moments(api, name + "-2")
    assert second - first >= 0.2 - told["late_ms"] / 1000 - told["observe"]["max_ms"] / 1000


def test_a_line_without_a_time_has_no_pace(server, api, name, tmp_path):
    file = write(tmp_path / "log", [observed(0), {"user": "u", "arm": "a", "reward": 1}])
    plain(api, name)
    out = run_ctl(server, "--tenant", name, "replay", file, "--pace", "100", expect=1)
    assert "log:2: at: --pace wants a time" in out and len(moments(api, name)) == 1
    assert "not both" in run_ctl(server, "replay", file, "--pace", "1", "--rate", "5", expect=2)


def test_a_log_of_another_format_has_a_pace_too(server, api, name, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user,arm,reward,propensity,time\n" + "".join(f"u{i},a{i % 2},{i % 2},0.5,{at(i)}\n" for i in range(4)))
    told = replay(server, plain(api, name), str(path), "--format", "csv", "--pace", "10")
    assert told["lines"] == 4 and told["pace"]["log_s"] == 3 and told["pace"]["sent_s"] >= 0.3 and told["rewards"]["total"] == 2
    assert [e["propensity"] for e in api.events(name) if e["type"] == "observed"] == [0.5] * 4
    assert "--format: expected obd, dsjson, ndjson or csv" in run_ctl(server, "replay", str(path), "--format", "xml", expect=2)


# --- bulk -------------------------------------------------------------------------------------------------


def test_bulk_sends_bodies_of_many_lines(server, api, name, tmp_path):
    lines = [observed(i / 30, i) for i in range(285)]
    file = write(tmp_path / "log", lines)
    told = replay(server, plain(api, name), file, "--bulk", "30")
    assert (told["lines"], told["requests"], told["observe"]["requests"], told["bulk"]) == (285, 10, 10, 30)
    assert told["rewards"]["count"] == 285 and told["rewards"]["total"] == sum(line["reward"] for line in lines)
    one_by_one = plain(api, name + "-1")
    assert replay(server, one_by_one, file)["requests"] == 285
    assert [{k: v for k, v in e.items() if k != "at"} for e in api.events(name)] == [{k: v for k, v in e.items() if k != "at"} for e in api.events(one_by_one)]
    paced = replay(server, plain(api, name + "-2"), file, "--bulk", "100", "--pace", "20")
    assert paced["requests"] == 3 and paced["pace"]["sent_s"] >= 9.46 / 20  # the last body waits for its last line


def test_what_bulk_cannot_send_is_said(server, api, name, tmp_path):
    plain(api, name)
    file = write(tmp_path / "log", [observed(0), {"user": "u", "rewards": {"a": 1}}])
    assert "log:2: --bulk sends observations" in run_ctl(server, "--tenant", name, "replay", file, "--bulk", "5", expect=1)
    bad = write(tmp_path / "bad", [observed(0, i) for i in range(20)] + [observed(0, context=[1, 2])] + [observed(0, i) for i in range(9)])
    told = replay(server, name, bad, "--bulk", "10", expect=1)
    assert told["errors"] == 1 and told["first_error"].startswith("line 21: observe") and told["rewards"]["count"] == 20


@pytest.mark.skipif(not OBD, reason="LAPLACED_DATA_OBD does not name the folder of the Open Bandit Dataset")
def test_a_week_of_the_open_bandit_dataset(server, api, name):
    file = os.path.join(OBD, "random_men.csv")
    api.put_tenant(name, algorithm="ts")
    told = replay(server, name, file, "--format", "obd", "--pace", "300000", "--bulk", "100", "--concurrency", "4")
    week = 7 * 24 * 3600
    assert (told["lines"], told["requests"], told["errors"]) == (10000, 100, 0) and told["rewards"]["total"] == 46
    assert 0.99 * week < told["pace"]["log_s"] < week and told["pace"]["sent_s"] >= told["pace"]["log_s"] / 300000


# --- a server that stands still -----------------------------------------------------------------------------


def stopped_for(server, seconds, after):
    """Stops the process for a while, in a thread."""
    def run():
        time.sleep(after)
        os.kill(server.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(server.pid, signal.SIGCONT)
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_latencies_of_open_loops_hold_the_wait(boot, tmp_path):
    """Of 300 lines in 1.5 s the server stands still for half of the time. In a closed loop one line has waited, in open ones all
    that were due meanwhile, each for what was left of it."""
    server = boot()
    file = write(tmp_path / "log", [observed(i / 20, i) for i in range(300)])
    plain(Client(server), "t")
    told = {}
    for loop in (("--rate", "200"), ("--pace", "10")):
        thread = stopped_for(server, 0.75, 0.5)
        try:
            told[loop[0]] = replay(server, "t", file, *loop, "--concurrency", "4")
        finally:
            thread.join()
    thread = stopped_for(server, 0.75, 0.05)
    try:
        closed = replay(server, "t", file)
    finally:
        thread.join()
    for loop, r in told.items():
        assert r["observe"]["max_ms"] > 500, loop
        assert r["observe"]["p90_ms"] > 350, loop  # a quarter of the lines or more has waited half of the time
        assert r["busy"] > 60 and r["late_ms"] > 350, loop
    assert closed["observe"]["p90_ms"] < min(r["observe"]["p90_ms"] for r in told.values())
