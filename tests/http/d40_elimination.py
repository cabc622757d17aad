"""Elimination by levels over HTTP: the server's arms, levels and bounds are those of one numpy model per level."""
import math

import numpy as np
import pytest

from harness import Client

ARMS = [{"id": f"a{i}", "features": [0.9 * i]} for i in range(4)]
BETA, LAMBDA = 0.8, 0.05


def make(api, name, **fields):
    api.put_tenant(name, algorithm="sup-kernel-ucb", arm_dim=1, context_dim=1, confidence={"beta": BETA},
                   representation={"lambda": LAMBDA}, **fields)
    api.put_arms(name, ARMS)


def rbf(a, b):
    return np.exp(-0.5 * ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2))


def gp(plays, level, x):
    """Mean and sd at the rows of x by the plays (point, level, reward) of one level."""
    rows = [p for p in plays if p[1] == level]
    if not rows:
        return np.zeros(len(x)), np.ones(len(x))
    at = np.array([p[0] for p in rows])
    k = rbf(at, x)
    solved = np.linalg.solve(rbf(at, at) + LAMBDA * np.eye(len(at)), np.c_[[p[2] for p in rows], k])
    return k.T @ solved[:, 0], np.sqrt(np.maximum(1 - (k * solved[:, 1:]).sum(axis=0), 0))


def eliminate(plays, x):
    """The arms that may be played (one, but for ties), the level, and mean and sd as each arm was last seen."""
    inside, mean, sd = list(range(len(x))), np.zeros(len(x)), np.zeros(len(x))
    for level in range(1, 17):
        mean[inside], sd[inside] = gp(plays, level, x[inside])
        upper, width = mean[inside] + BETA * sd[inside], BETA * sd[inside]
        if width.max() <= 1 / math.sqrt(len(plays) + 1):
            return [i for i, u in zip(inside, upper) if u > upper.max() - 1e-9], 0, mean, sd
        if width.max() > 2.0 ** -level:
            return [i for i, w in zip(inside, width) if w > width.max() - 1e-9], level, mean, sd
        inside = [i for i, u in zip(inside, upper) if u >= upper.max() - 2 * 2.0 ** -level]
    raise AssertionError("no level ends it")


def test_arms_levels_and_bounds_are_those_of_a_model_per_level_and_survive_a_restart(boot):
    server = boot("--snapshot-events", "40")
    api, rng, plays, seen = Client(server), np.random.default_rng(40), [], set()
    make(api, "levels")
    for t in range(150):
        if t == 75:
            before = api.model("levels")["digest"]
            server.kill()
            server = boot("--snapshot-events", "40")
            api = Client(server)
            assert api.model("levels")["digest"] == before
        context = 1.3 * int(rng.integers(2))
        x = np.array([[context, a["features"][0]] for a in ARMS])
        arms, level, mean, sd = eliminate(plays, x)
        answer = api.select("u", context=[context], explain=True, tenant="levels")
        chosen = int(answer["arm"][1])
        assert chosen in arms
        for row in answer["ranking"]:
            i = int(row["arm"][1])
            got = [row["mean"], row["sd"], row["lower"], row["upper"], row["propensity"]]
            want = [mean[i], sd[i], mean[i] - BETA * sd[i], mean[i] + BETA * sd[i], (i in arms) / len(arms)]
            assert got == pytest.approx(want, abs=1e-6)
        reward = 0.5 + 0.4 * math.sin(context + 2 * x[chosen][1]) + 0.05 * float(rng.normal())
        api.reward(answer["decision"], reward, tenant="levels")
        decided = [e for e in api.events("levels") if e["type"] == "decided"][-1]
        assert decided.get("level", 0) == level
        plays.append((x[chosen], level, reward))
        seen.add(level)
    assert {0, 1, 2, 3} <= seen


def test_observations_teach_the_first_level(api, name):
    make(api, name)
    api.observe("u", ARMS[0], 1.0, tenant=name, context=[0.0])
    rows = {r["arm"]: r for r in api.select("u", context=[0.0], explain=True, dry_run=True, tenant=name)["ranking"]}
    assert rows["a0"]["mean"] == pytest.approx(1 / (1 + LAMBDA)) and rows["a0"]["sd"] < 0.3


def test_other_rules_log_no_level(api, name):
    api.put_tenant(name, algorithm="k-ucb", arm_dim=1)
    api.put_arms(name, ARMS)
    api.select("u", tenant=name)
    assert "level" not in api.events(name)[-1]
