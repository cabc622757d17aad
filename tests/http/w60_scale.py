"""tools/scale.py: costs that are known come out of measurements that follow from them; and the document says what the program computes."""
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/bench")]

import cluster  # noqa: E402
import scale  # noqa: E402

COSTS = {"decide_us": 100.0, "learn_us": 40.0, "turn_us": 300.0, "fold_decision_us": 12.0, "fold_reward_us": 30.0, "fold_batch_us": 20.0, "open_us": 5000.0,
         "pg_turn_us": 800.0, "pg_line_us": 9.0, "turn_ms": 4.0, "lines_a_turn": 40.0, "pg_bytes_a_line": 200.0, "copy_bytes_a_line": 400.0, "receive_us": 25.0}


def run(*args):
    return subprocess.run([sys.executable, str(ROOT / "tools/scale.py"), *args], capture_output=True, text=True, check=True).stdout


def measured(c):
    """What a server with these costs would show."""
    def one(kind, lines, own, what="one"):
        return {"what": what, "kind": kind, "lines_a_turn": lines, "cpu_us": own + c["turn_us"] / lines, "pg_cpu_us": c["pg_line_us"] + c["pg_turn_us"] / lines,
                "take_us": 1000 * c["turn_ms"] / 4, "append_us": 1000 * c["turn_ms"] * 3 / 4}

    def fold(lines, learned, batches):
        return {"what": "fold", "lines": lines, "learned": learned, "batches": batches, "cpu_s": 1e-6 * (
            c["open_us"] + (lines - learned) * c["fold_decision_us"] + learned * c["fold_reward_us"] + batches * c["fold_batch_us"])}
    return [one("few", 1, c["decide_us"]), one("some", 6, c["decide_us"]), one("many", c["lines_a_turn"], c["decide_us"]), one("learn", 50, c["learn_us"]),
            {**one("dry", 1, 0), "cpu_us": 90.0}, one("many", 40, 80.0, "alone"), fold(1000, 1000, 100), fold(1500, 1000, 600), fold(9000, 1000, 800), fold(20000, 12000, 1000),
            {"what": "receive", "cpu_us_a_line": c["receive_us"]}, {"what": "bytes", "pg_bytes_a_line": c["pg_bytes_a_line"], "copy_bytes_a_line": c["copy_bytes_a_line"]}]


def test_known_costs_come_out_of_what_they_make(tmp_path):
    (tmp_path / "lines").write_text("".join(json.dumps(l) + "\n" for l in measured(COSTS)))
    run("fit", str(tmp_path / "lines"), str(tmp_path / "costs"))
    found = json.loads((tmp_path / "costs").read_text())
    for name, value in COSTS.items():
        assert found[name] == pytest.approx(value, rel=1e-3), name


def test_runs_that_were_too_short_to_tell_are_refused(tmp_path):
    lines = measured({**COSTS, "fold_batch_us": -5.0})
    (tmp_path / "lines").write_text("".join(json.dumps(l) + "\n" for l in lines))
    done = subprocess.run([sys.executable, str(ROOT / "tools/scale.py"), "fit", str(tmp_path / "lines"), str(tmp_path / "costs")], capture_output=True, text=True)
    assert done.returncode == 1 and "too short" in done.stderr and not (tmp_path / "costs").exists()


def rate(c, n, **more):
    return scale.one_tenant(c, n, more.get("share", 1.0), more.get("clients", 64), more.get("rewards", 0.0))


def test_servers_share_what_is_not_folded():
    free = {**COSTS, "fold_decision_us": 0, "fold_batch_us": 0, "turn_ms": 1e-6}
    assert rate(free, 3)[0] == pytest.approx(3 * rate(free, 1)[0])
    dear = {**COSTS, "fold_decision_us": 100 + 300 / 40, "fold_batch_us": 0, "turn_ms": 1e-6}  # as dear as deciding: nothing is won
    share = 0.5  # of a processor: the turns are not what bounds it
    assert rate(dear, 3, share=share)[0] == pytest.approx(rate(dear, 1, share=share)[0])


def test_turns_bound_a_tenant_however_many_servers_there_are():
    slow = {**COSTS, "turn_ms": 100.0}
    assert rate(slow, 2) == rate(slow, 3) and rate(slow, 3)[1] == "turns"
    assert rate(slow, 3)[0] == pytest.approx(64 / (0.1 + 64 * 12e-6))
    assert rate(slow, 3, clients=128)[0] > 1.9 * rate(slow, 3)[0]


def planned(**more):
    words = [w for k, v in more.items() for w in (f"--{k.replace('_', '-')}", str(v))]
    return json.loads(run("plan", *words))


def test_a_load_that_one_tenant_cannot_have_is_had_by_components_of_its_graph():
    whole, split = planned(users=1e9, rate=1e6), planned(users=1e9, rate=1e6, components=1000)
    assert whole["cannot"] == "turns of one tenant" and split["cannot"] is None
    assert planned(users=1e9, rate=1e6, tenants=1000)["servers"] == split["servers"]
    for more, times in ((split, 1), (planned(users=1e9, rate=1e6, components=1000, days=60), 2)):
        assert more["pg_disk_gb"] == pytest.approx(times * split["pg_disk_gb"], rel=0.01)


def test_the_document_says_what_the_program_computes():
    text = (ROOT / "docs/SCALE.md").read_text()
    for line in run("table").splitlines():
        assert line in text
    for row in map(json.loads, run("servers", "--share", "0.25").splitlines()):
        assert f"| {row['servers']} | {row['rate']:,} |" in text, row


def test_a_prediction_is_held_against_what_was_measured(tmp_path):
    rows = [json.loads(line) for line in run("servers").splitlines()]
    off = {1: 1.0, 2: 1.0, 3: 1.25}
    lines = [{"what": "verdict", "servers": r["servers"], "ratio": r["ratio"] * off[r["servers"]], "ratio_by_cpu": 1.0, "cpu_us": r["cpu_us"]} for r in rows]
    (tmp_path / "lines").write_text("".join(json.dumps(l) + "\n" for l in lines))
    assert "the worst is off by 20 %; 15 were asked" in run("check", str(tmp_path / "lines"))


def test_a_verdict_is_of_medians_and_beside_one_server():
    def runs(rates, cpu):
        return [{"rate": r, "cpu_us": cpu, "pg_cpu_us": 1, "turns_per_s": 1, "lines_a_turn": 1, "p50_us": 1, "p99_us": 1} for r in rates]
    one, two, three = cluster.verdicts({3: runs([1, 240, 250], 125), 1: runs([90, 100, 5000], 100), 2: runs([180], 100)})
    assert [v["servers"] for v in (one, two, three)] == [1, 2, 3]
    assert [v["ratio"] for v in (one, two, three)] == [1.0, 1.8, 2.4]
    assert [v["ratio_by_cpu"] for v in (one, two, three)] == [1.0, 2.0, pytest.approx(2.4)]
