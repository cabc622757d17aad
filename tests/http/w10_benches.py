"""What the benches count with (tests/bench): a daemon that speaks vw's protocol, the CPU of a process with children, lines
with the machine's load, and the arithmetic of their verdicts."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import types

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(BENCH))

import lines  # noqa: E402
import loop  # noqa: E402
import tenants  # noqa: E402
import threads  # noqa: E402
import vw  # noqa: E402

WORK_US = 2000
# As vw: the port into a file, a child that serves one connection, for each line one of predictions and an empty one.
DAEMON = f"""#!{sys.executable}
import os, socket, sys, time
port_file, says = sys.argv[sys.argv.index("--port_file") + 1], os.environ.get("SAYS", "well")
listening = socket.create_server(("127.0.0.1", 0))
if says == "nothing":
    sys.exit("no such reduction")
open(port_file, "w").write(f"{{listening.getsockname()[1]}}\\n")
if os.fork():
    os.wait()
    sys.exit(0)
connection = listening.accept()[0]
for line in connection.makefile("rb"):
    until = time.thread_time() + {WORK_US} * 1e-6
    while time.thread_time() < until:
        pass
    n = line.count(b'"a":{{')
    told = ",".join(f"{{i}}:{{1 / n:.3f}}" for i in range(n)).encode()
    connection.sendall({{"well": told + b"\\n\\n", "twice": told + b"\\n\\n" + told + b"\\n\\n", "hello": b"hello\\n\\n", "less": b""}}[says])
    if says == "less":
        break
"""


@pytest.fixture
def daemon(tmp_path, monkeypatch):
    program = tmp_path / "vw"
    program.write_text(DAEMON)
    program.chmod(0o755)

    def start(says):
        monkeypatch.setenv("SAYS", says)
        return vw.Wabbit(program, tmp_path)
    return start


@pytest.fixture
def traffic(tmp_path):
    return loop.Traffic(types.SimpleNamespace(C=20, d=16, m=256, t=10), tmp_path)


def test_every_line_is_answered_and_the_childs_time_is_counted(daemon, traffic):
    wabbit = daemon("well")
    try:
        asked = [vw.dsjson(traffic, "linear") for _ in range(8)]
        one = wabbit.run(asked, 4, 0.3)
        assert one["answered"] % 4 == 0 and one["answered"] > 0
        assert one["cpu_us"] > 0.95 * WORK_US  # all of it is the child's
        assert one["line_bytes"] == sum(map(len, asked)) / 8
        assert wabbit.ask(vw.dsjson(traffic, "catalogue"), 1)[0].count(b":") == loop.ARMS
        assert one["rate"] * one["cpu_us"] < 2e6  # of one child
    finally:
        wabbit.stop()
    assert wabbit.process.returncode is not None


@pytest.mark.parametrize("says, why", [("less", "ended the connection"), ("hello", "1 decisions were asked"), ("twice", "were asked of vw")])
def test_answers_that_are_none_end_the_bench(daemon, traffic, says, why):
    wabbit = daemon(says)
    try:
        with pytest.raises(SystemExit, match=why):
            for _ in range(50):  # the second answer may come with the next
                wabbit.ask(vw.dsjson(traffic, "linear"), 1)
    finally:
        wabbit.stop()


def test_a_daemon_that_does_not_start_is_told_with_its_words(daemon):
    with pytest.raises(SystemExit, match="no such reduction"):
        daemon("nothing")


def test_without_vw_the_bench_says_so_and_writes_nothing(tmp_path):
    done = subprocess.run([sys.executable, str(BENCH / "vw.py"), "build/none", str(tmp_path / "vw.jsonl"), "--vw", str(tmp_path / "none")],
                          capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("skipped: there is no program")
    assert not (tmp_path / "vw.jsonl").exists()


def test_dsjson_has_every_action_and_labels_the_one_that_was_shown(traffic):
    plain, labelled = (json.loads(vw.dsjson(traffic, "linear", is_labelled=x)) for x in (False, True))
    assert len(plain["c"]["_multi"]) == len(plain["a"]) == len(plain["p"]) == 20 and "_label_cost" not in plain
    assert all(len(a["a"]) == 16 for a in plain["c"]["_multi"])
    assert labelled["_label_Action"] == labelled["_labelIndex"] + 1 and -1 <= labelled["_label_cost"] <= 0
    assert {a["a"]["id"] for a in json.loads(vw.dsjson(traffic, "catalogue"))["c"]["_multi"]} == {f"a{i}" for i in range(loop.ARMS)}


def test_a_line_has_the_load_of_when_its_measurement_began(tmp_path, monkeypatch):
    loads = iter([1.0, 2.5, 7.0])
    monkeypatch.setattr(os, "getloadavg", lambda: (next(loads), 0, 0))
    with lines.Lines(tmp_path / "new" / "x.jsonl") as emit:
        emit({"a": 1})
        emit({"a": 2})
    assert [json.loads(text) for text in open(tmp_path / "new" / "x.jsonl")] == [{"a": 1, "load": 1.0}, {"a": 2, "load": 2.5}]


def test_all_processor_time_is_seen():
    before, began = lines.busy_s(), time.thread_time()
    while time.thread_time() < began + 0.1:
        pass
    assert 0.05 < lines.busy_s() - before < 60 * os.cpu_count()


def run_of(n, rate, elsewhere):
    return {"threads": n, "loop": "closed", "rate": rate, "http_threads_us": 80.0, "other_threads_us": 15.0, "client_cpu_us": 5.0,
            "elsewhere_cores": elsewhere}


def test_a_ceiling_is_what_the_cores_that_are_left_can_do(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert threads.ceiling(run_of(2, 1, 0.0)) == pytest.approx(20000)
    assert threads.ceiling(run_of(2, 1, 0.5)) == pytest.approx(15000)
    told = threads.ratios([run_of(1, 9000, 0.0), run_of(2, 16000, 0.0), run_of(2, 14000, 0.0), run_of(1, 11000, 0.0)])
    assert told["ratio"] == pytest.approx(1.5) and told["of_ceiling"] == pytest.approx(0.75) and told["ceiling_ratio"] == pytest.approx(2.0)


def test_small_tenants_are_judged_within_each_round():
    rounds = [{(name, kind): {"latency_p99_us": us * k} for name, us in zip(tenants.RUNS, (2.0, 3.0, 5.0, 4.0)) for kind in tenants.KINDS}
              for k in (1, 10)]
    assert tenants.verdicts(rounds) == {"crowd": [1.5, 1.5], "beside": [2.5, 2.5], "spin": [2.0, 2.0]}
    assert statistics.median(tenants.verdicts(rounds)["beside"]) < tenants.BAR
