"""What `make league` counts with (tools/league): regret, standard errors, late rewards, rows beside their theory, and a run over HTTP
that can be repeated bit by bit."""
import json
import math
import pathlib
import statistics
import subprocess
import sys

import numpy as np
import pytest

from contract import ROOT
from harness import BIN

LEAGUE = ROOT / "tools" / "league"
sys.path[:0] = [str(LEAGUE), str(ROOT / "tests" / "bench")]

import league  # noqa: E402
import report  # noqa: E402
import rows  # noqa: E402
import tasks  # noqa: E402
from w10_benches import DAEMON  # noqa: E402


class Fixed:
    """Always one arm; notes what it is told, and when."""
    name = "fixed"

    def __init__(self, arm):
        self.arm, self.told = arm, []

    def lacks(self, task, world):
        return None

    def open(self, task, world, seed, server):
        self.now = -1

    def choose(self, t, user, context, candidates):
        self.now = t
        return self.arm

    def learn(self, t, user, context, arm, reward):
        self.told.append((self.now, t, arm, reward))

    def close(self):
        pass


def clicks(rates, rounds, **more):
    make = lambda seed: tasks.Clicks(rates, rounds, seed, **more)  # noqa: E731
    return tasks.Task("t", "t", tasks.REGRET, "", make), make


def test_the_regret_of_a_fixed_arm_is_what_it_lacks_of_the_best():
    task, make = clicks((.1, .2, .35), 400)
    for seed in range(3):
        world = make(seed)
        assert sorted(world.rates[0]) == [.1, .2, .35]
        for arm in range(3):
            line = league.play(task, Fixed(arm), seed, None, world)
            assert line["score"] == pytest.approx(400 * (.35 - world.rates[0, arm]))
            assert sum(line["halves"]) == pytest.approx(line["score"]) == pytest.approx(line["curve"][-1], abs=1e-3)


def test_arms_change_places_and_rewards_have_their_rates():
    task, make = clicks((.1, .2, .6), 40000, change=20000)
    world = make(1)
    assert all(world.rates[-1, k] == {.1: .6, .2: .2, .6: .1}[world.rates[0, k]] for k in range(3))
    for k in range(3):
        for half in (slice(0, 20000), slice(20000, None)):
            p = world.rates[half, k][0]
            assert abs(world.drawn[half, k].mean() - p) < 5 * math.sqrt(p * (1 - p) / 20000)
    worst = int(np.argmin(world.rates[0]))
    halves = league.play(task, Fixed(worst), 1, None, world)["halves"]
    assert halves == pytest.approx([10000, 0])


@pytest.mark.parametrize("delay", [0, 1, 7])
def test_a_late_reward_comes_behind_so_many_further_decisions(delay):
    task, make = clicks((.5, .5), 30)
    task.delay = delay
    row, world = Fixed(0), make(3)
    league.play(task, row, 3, None, world)
    assert [(now, t) for now, t, _, _ in row.told] == [(t + delay, t) for t in range(30 - delay)]
    assert [reward for _, _, _, reward in row.told] == [float(world.drawn[t, 0]) for t in range(30 - delay)]


def test_thompson_sampling_has_the_regret_of_its_definition():
    """Three rounds over two arms, computed here over all ways; P(X < Y) of Beta variables with whole parameters is a finite sum."""
    def beats(a, b, c, d):
        """P(Beta(c, d) > Beta(a, b))."""
        beta = lambda x, y: math.gamma(x) * math.gamma(y) / math.gamma(x + y)  # noqa: E731
        return sum(beta(a + i, b + d) / ((d + i) * beta(1 + i, d) * beta(a, b)) for i in range(c))

    def expected(state, left, rates):
        if left == 0:
            return 0
        second = beats(*state[0], *state[1])
        out = 0
        for arm, p in ((0, 1 - second), (1, second)):
            for reward, q in ((1, rates[arm]), (0, 1 - rates[arm])):
                after = [list(s) for s in state]
                after[arm][1 - reward] += 1
                out += p * q * (max(rates) - rates[arm] + expected(after, left - 1, rates))
        return out
    # beats() says how often the second arm's draw is the larger one: here against a count of draws
    rng = np.random.default_rng(5)
    drawn = (rng.beta(3, 2, 200000) > rng.beta(2, 4, 200000)).mean()
    assert abs(1 - beats(3, 2, 2, 4) - drawn) < 5 * math.sqrt(.25 / 200000) or abs(beats(2, 4, 3, 2) - drawn) < 5 * math.sqrt(.25 / 200000)
    task, make = clicks((.2, .9), 3)
    row = rows.BetaThompson("Beta-TS", "")
    scores = [league.play(task, row, seed, None, make(seed))["score"] for seed in range(6000)]
    mean, se = report.estimate(scores)
    assert abs(mean - expected([[1, 1], [1, 1]], 3, (.2, .9))) < 4.5 * se


def test_linear_rows_hold_a_ridge_regression_and_break_ties_by_chance():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 3))
    world = tasks.Classes(x, np.arange(40) % 2, 0, 40)
    row = rows.Linear("LinUCB", "", 0.3)
    row.open(clicks((.5,), 1)[0], world, 0, None)
    first = [row.choose(0, 0, world.context[0], world.candidates(0)) for _ in range(200)]
    assert 60 < sum(first) < 140
    arms, y = rng.integers(2, size=40), rng.normal(size=40)
    for t in range(40):
        row.learn(t, 0, world.context[t], arms[t], y[t])
    for arm in range(2):
        z = np.column_stack([world.context, np.ones(40)])[arms == arm]
        assert row.weights[arm] == pytest.approx(np.linalg.solve(np.eye(4) + z.T @ z, z.T @ y[arms == arm]))
        assert row.inverse[arm] == pytest.approx(np.linalg.inv(np.eye(4) + z.T @ z))


def test_the_town_is_connected_and_its_regret_is_that_of_the_candidates():
    for seed in range(3):
        told = {graph: tasks.Town(50, seed, graph) for graph in ("true", "permuted", "no")}
        world, n = told["true"], 120
        linked = np.eye(n)
        for a, b in world.graph:
            linked[a, b] = linked[b, a] = 1
        assert (np.linalg.matrix_power(linked, n) > 0).all()
        assert told["no"].graph is None and len(told["permuted"].graph) == len(world.graph) and told["permuted"].graph != world.graph
        for other in told.values():
            assert (other.values == world.values).all() and (other.user == world.user).all()
        for t in range(50):
            shown = world.candidates(t)
            assert len(set(shown)) == 10
            values = [world.values[world.user[t], a] for a in shown]
            assert [world.score(t, a) for a in shown] == pytest.approx([max(values) - v for v in values])
        friends = np.mean([(world.values[a] * world.values[b]).mean() for a, b in world.graph])
        assert friends > 0.1, "friends do not like alike"


def test_standard_errors_and_ratios():
    for values in ([3.0, 5.0], [1.5, 1.5, 9.0, -2.0, 0.25]):
        mean, se = report.estimate(values)
        assert mean == pytest.approx(statistics.mean(values))
        assert se == pytest.approx(statistics.stdev(values) / math.sqrt(len(values)))
    assert report.estimate([2.0])[0] == 2 and math.isnan(report.estimate([2.0])[1])
    assert report.geometric([0.5, 2, 4]) == pytest.approx(4 ** (1 / 3))


def test_vowpal_wabbit_is_told_what_was_shown_and_how_likely_it_was(tmp_path):
    """At a program that speaks as vw does and gives all actions the same probability."""
    program = tmp_path / "vw"
    program.write_text(DAEMON)
    program.chmod(0o755)
    row, world = rows.Wabbit("VW", "", program, ()), tasks.Town(40, 0, "no")
    line = league.play(clicks((.5,), 1)[0], row, 0, None, world)
    assert len(line["curve"]) == 40 and line["score"] > 0, line
    told = json.loads(row.line(7, 3, None, np.array([4, 1, 9]), (1, -0.25, [0.2, 0.3, 0.5])))
    assert (told["_label_cost"], told["_label_probability"], told["_labelIndex"], told["_label_Action"]) == (-0.25, 0.3, 1, 2)
    assert [a["a"]["id"] for a in told["c"]["_multi"]] == ["a4", "a1", "a9"] and told["c"]["u"] == {"user": "u3"}
    assert told["c"]["_multi"][1]["f"] == {f"f{i}": v for i, v in enumerate(world.features[1].tolist())}


def run(tmp_path, *options):
    out = pathlib.Path(BIN).parent
    done = subprocess.run([sys.executable, str(LEAGUE / "league.py"), str(out), str(tmp_path / "lines.jsonl"), *options], capture_output=True, text=True,
                          timeout=100)
    return done, [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()] if done.returncode == 0 else []


def test_a_league_over_http_is_repeated_bit_by_bit_and_the_page_says_all_of_it(tmp_path):
    options = ("--most", "60", "--seeds", "2", "--rows", "laplaced,laplaced-by-arm,ts,Beta-TS", "--league", "half prompt town-true")
    first, lines = run(tmp_path, *options)
    assert first.returncode == 0, first.stderr
    played = [line for line in lines if "score" in line]
    assert {(line["task"], line["row"]) for line in played} == {(t, r) for t in ("half", "prompt", "town-true")
                                                               for r in ("laplaced", "laplaced-by-arm", "ts", "Beta-TS")} - {("town-true", "Beta-TS")}
    again = run(tmp_path, "--most", "60", "--seeds", "2", "--rows", "laplaced,laplaced-by-arm,ts,Beta-TS", "--league", "half")[1]
    key = lambda line: (line["task"], line["row"], line["seed"])  # noqa: E731
    scores = {key(line): (line["score"], line["curve"]) for line in again if "score" in line}
    assert scores == {key(line): (line["score"], line["curve"]) for line in played}, "parts that are not played again stay"
    page = tmp_path / "docs" / "QUALITY.md"
    page.parent.mkdir()
    subprocess.run([sys.executable, str(LEAGUE / "report.py"), str(tmp_path / "lines.jsonl"), str(page)], check=True, timeout=60)
    text = page.read_text()
    row = next(line for line in text.splitlines() if line.startswith("| half † (regret, 60 rounds)"))
    by_name = dict(zip(next(line for line in text.splitlines() if line.startswith("| task | ")).split(" | "), row.split(" | ")))
    mean, se = report.estimate([line["score"] for line in played if (line["task"], line["row"]) == ("half", "ts")])
    assert by_name["ts"].strip("*| ") == f"{report.number(mean)} ± {report.number(se, mean)}"
    assert "Beta-TS: rewards are not 0 or 1 (not played: town-true)" in text and "half †" in text and "prompt †" not in text
    assert (page.parent / "figures" / "league.svg").read_text().count("<polyline") == 3  # ours and ts, in the town


def test_a_preset_that_is_not_there_and_unknown_tasks_are_named(tmp_path, server):
    task, make = clicks((.5, .6), 5)
    line = league.play(task, rows.Ours("x", "no-such-row", ""), 0, server, make(0))
    assert "score" not in line and "no-such-row" in line["failed"] or "/algorithm" in line["failed"]
    done, _ = run(tmp_path, "--league", "half nothing")
    assert done.returncode != 0 and "no task or group nothing" in done.stderr
