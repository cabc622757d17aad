"""The mixture's radius: four sums, each by its definition, and nothing that the log goes through loses any of them."""
import math

import numpy as np
import pytest

from d35_sketched_bounds import DELTA, DICTIONARIES, SETTINGS, SIGMA, conf, teach
from harness import Client
from oracle import Model, history
from k00_moves import copy, export, restore, take_in

SHARES = (1, 0.1, 10, 100)  # of lambda, in the order of the log's line
MIXED = conf("cmm", form="split", mixture=True)


def foretold(model, events, share):
    """sum (y - m)^2 / (1 + s2), sum ln(1 + s2): each reward by what stood in the log before it, at ridge share * lambda."""
    taught, points, past, energy, log_det, own = {}, [], [], 0.0, 0.0, model.ridge
    model.ridge = own * share
    for ev in events:
        if ev["type"] == "observed":
            point = (ev["user"], ev["context"], ev["arm"], ev["features"])
            mean, sd = model.sketch(points, past, [point])
            s2 = float(sd[0]) ** 2 / model.ridge
            energy, log_det = energy + (ev["reward"] - float(mean[0])) ** 2 / (1 + s2), log_det + math.log1p(s2)
            taught[ev["seq"]] = point
            past.append((point, ev["reward"]))
        elif ev["type"] == "dictionary":
            points = ([] if ev["reset"] else points) + [taught[p["event"]] for p in ev["points"]]
    model.ridge = own
    return energy, log_det


def radius_of(sums):
    """R of TC Thm 4.1 under the average of the four products."""
    s = np.array([energy + SIGMA ** 2 * log_det for energy, log_det in sums])
    mixed = -2 * SIGMA ** 2 * np.log(np.exp(-(s - s.min()) / (2 * SIGMA ** 2)).mean()) + s.min()
    return math.sqrt(mixed + 2 * SIGMA ** 2 * math.log(1 / DELTA))


def served_radius(client, name):
    return client.model(name)["confidence"]["radius"]


def rebuild(client, name):
    client.call("POST", f"/tenants/{name}/rebuild")
    client.wait_rebuilt(name)


def last_reset(client, name):
    return [e for e in client.events(name) if e["type"] == "dictionary" and e["reset"]][-1]


@pytest.mark.parametrize("representation", DICTIONARIES)
def test_the_radius_is_the_mixture_of_four_sums_before_and_after_a_rebuild(api, name, representation):
    api.put_tenant(name, **SETTINGS, representation={**DICTIONARIES[representation], "lambda": 0.04}, confidence=MIXED)
    teach(api, name, np.random.default_rng(60), 45)
    model, events = Model(api.model(name)["parameters"]), api.events(name)
    sums = [foretold(model, events, share) for share in SHARES]
    want = radius_of(sums)
    assert served_radius(api, name) == pytest.approx(want, rel=1e-8)
    assert abs(radius_of(sums[:1] * 4) - want) > 1e-3 * want  # the first alone is another number
    rebuild(api, name)
    assert served_radius(api, name) == pytest.approx(want, rel=1e-8)
    line = last_reset(api, name)["evidence"]
    told = [(line["energy"], line["log_det"])] + [(m["energy"], m["log_det"]) for m in line["mixture"]]
    assert np.allclose(told, sums, rtol=1e-8)
    teach(api, name, np.random.default_rng(61), 12)  # and the sums go on under the new dictionary
    sums = [foretold(model, api.events(name), share) for share in SHARES]
    assert served_radius(api, name) == pytest.approx(radius_of(sums), rel=1e-8)


def test_before_the_first_reward_the_bounds_are_the_norm_times_sd(api, name):
    api.put_tenant(name, **SETTINGS, representation=DICTIONARIES["kors"], confidence=MIXED)
    row = api.select("u", candidates=[{"id": "c", "features": [0.5, 0.5]}], explain=True, dry_run=True, tenant=name)["ranking"][0]
    assert (row["lower"], row["upper"]) == (pytest.approx(-4, rel=1e-6), pytest.approx(4, rel=1e-6))
    assert api.model(name)["confidence"]["empty_sets"] == 0


@pytest.mark.parametrize("fields", [[], ["--snapshot-events", "1000000"]], ids=["snapshot", "log"])
def test_no_way_that_a_log_takes_moves_the_radius(boot, fields):
    server = boot(*fields)
    client = Client(server)
    client.put_tenant("t", **SETTINGS, representation={**DICTIONARIES["kors"], "lambda": 0.04}, confidence=MIXED)
    teach(client, "t", np.random.default_rng(62), 100)
    want = served_radius(client, "t")
    rebuild(client, "t")
    assert served_radius(client, "t") == want
    teach(client, "t", np.random.default_rng(63), 20)
    want = served_radius(client, "t")
    server.restart()  # by SIGKILL
    client = Client(server)
    assert served_radius(client, "t") == want
    assert server.terminate() == 0
    client = Client(server.start())
    assert served_radius(client, "t") == want
    client.call("POST", "/tenants/t/compact", {"keep_events": 0})
    assert served_radius(client, "t") == want
    take_in(client, "imported", export(client, "t").content)
    assert served_radius(client, "imported") == want
    restore(client, "copied", copy(client, "t").content)
    assert served_radius(client, "copied") == want
    rebuild(client, "imported")
    server.restart()
    assert [served_radius(Client(server), n) for n in ("t", "imported", "copied")] == [want] * 3


def test_an_exact_model_hands_over_the_sums_of_every_ridge(api, name):
    lam = 0.04
    api.put_tenant(name, algorithm="cmm-ucb", arm_dim=2, arm_kernel=SETTINGS["arm_kernel"],
                   representation={"exact_limit": 20, "lambda": lam}, confidence=MIXED)
    teach(api, name, np.random.default_rng(64), 60)
    reset = next(e for e in api.events(name) if e["type"] == "dictionary" and e["reset"])
    past = history([e for e in api.events(name) if e["seq"] < reset["seq"]])
    kernel, y = Model(api.model(name)["parameters"]), np.array([h[1] for h in past])
    k, one = kernel.gram([h[0] for h in past], [h[0] for h in past]), np.eye(len(y))
    want = [(a * float(y @ np.linalg.solve(k + a * one, y)), float(np.linalg.slogdet(one + k / a)[1])) for a in lam * np.array(SHARES)]
    line = reset["evidence"]
    told = [(line["energy"], line["log_det"])] + [(m["energy"], m["log_det"]) for m in line["mixture"]]
    assert np.allclose(told, want, rtol=1e-8)


def test_without_a_mixture_the_line_says_no_more_than_it_did(api, name):
    api.put_tenant(name, **SETTINGS, representation=DICTIONARIES["kors"], confidence=conf("cmm"))
    teach(api, name, np.random.default_rng(65), 30)
    want = served_radius(api, name)
    rebuild(api, name)
    assert set(last_reset(api, name)["evidence"]) == {"square", "energy", "log_det"} and served_radius(api, name) == want


def test_rewards_that_taught_no_level_count_as_foretold_to_be_zero(api, name):
    """Exploration under elimination teaches no level. Over a dictionary its rewards are in the sums all the same, as of a
    prediction 0 that was certain: the ball is around all rewards."""
    api.put_tenant(name, algorithm="sup-kernel-ucb", arm_dim=1, rule={"epsilon": 1}, confidence={"noise": SIGMA, "delta": DELTA})
    rng = np.random.default_rng(62)
    for k in range(40):
        shown = [{"id": f"x{i}", "features": [float(i)]} for i in range(4)]
        api.reward(api.select("u", candidates=shown, decision=f"d{k}", tenant=name)["decision"], float(2 + SIGMA * rng.normal()), tenant=name)
    events = api.events(name)
    level = {e["decision"]: e.get("level", 0) for e in events if e["type"] == "decided"}
    squares = {e["decision"]: e["reward"] ** 2 for e in events if e["type"] == "rewarded"}
    unlevelled = sum(square for decision, square in squares.items() if level[decision] == 0)
    assert unlevelled > 50 and len(squares) == 40
    api.call("PATCH", f"/tenants/{name}", {"rule": {"type": "ucb", "epsilon": 0}, "representation": {"type": "kors"},
                                           "confidence": conf("dmm", form="split")})
    api.wait_rebuilt(name)
    line = last_reset(api, name)["evidence"]
    assert line["square"] == pytest.approx(sum(squares.values()))
    assert line["energy"] >= unlevelled * (1 - 1e-12)
    assert served_radius(api, name) ** 2 >= unlevelled
    assert api.verify(name)["equal"]
