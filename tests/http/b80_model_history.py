"""GET /tenants/{t}/model?history=1: what the model was at places of the log. Each point is held to what /model said behind that very event."""
import time

import pytest

from harness import Client

KEPT = ("effective_dimension", "information_gain")
MODELS = {"dictionary": dict(algorithm="laplaced-kors", context_dim=1), "exact": dict(algorithm="gp-ucb"),
          "forgets": dict(algorithm="gp-ucb", forgetting={"type": "discount", "discount": 0.99}), "counts": dict(algorithm="ts")}


def history(client, name="t"):
    return client.call("GET", f"/tenants/{name}/model", query={"history": 1}).json["history"]


def settled(client, learned, seconds=20):
    """Once the point is there that so many rewards ask for; it is made beside the traffic."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = history(client)
        if found and found[-1]["events"] >= learned:
            return found
        time.sleep(0.02)
    raise AssertionError(f"no point at {learned}: {found[-1:]}")


def step_for(learned):
    step = 16
    while learned // step > 128:
        step *= 2
    return step


def teach(client, config, seen, n, first):
    """One reward at a time; the model behind each that ends a step is kept by its event."""
    for i in range(first, first + n):
        x = {"context": [(i * 37 % 101) / 50 - 1]} if config.get("context_dim") else {}
        client.observe(f"u{i % 3}", "abc"[i % 3], (i % 7) / 7, tenant="t", **x)
        if (i + 1) % 16 == 0:
            model = client.model("t")
            seen[model["seq"]] = model
            assert "history" not in model
            settled(client, i + 1)


def hold(points, seen):
    assert points
    for p in points:
        model = seen[p["seq"]]
        assert (p["events"], p["points"], p["version"]) == (model["events"], len(model["dictionary"]), model["version"])
        assert all(p[k] == pytest.approx(model[k], rel=1e-12, abs=1e-12) for k in KEPT)


@pytest.mark.parametrize("kind", MODELS)
def test_points_are_what_the_model_was_and_outlive_everything(boot, kind):
    server, config, seen = boot("--finish-builds"), MODELS[kind], {}
    client = Client(server)
    client.put_tenant("t", **config)
    assert history(client) == []
    teach(client, config, seen, 100, 0)
    points = history(client)
    assert [p["events"] for p in points] == list(range(16, 97, 16))
    hold(points, seen)
    assert all((p["cap"] == 1024) == (kind == "dictionary") and (p["cap"] is None) == (kind != "dictionary") for p in points)
    weights = [p["first_weight"] for p in points]
    if kind == "forgets":
        assert weights == pytest.approx([0.99 ** (p["events"] - 1) for p in points], rel=1e-9)
    else:
        assert weights == [1] * len(points)
    for stop in (server.kill, server.terminate):
        stop()
        server.start()
        assert history(client) == points
    client.call("POST", "/tenants/t/compact", {"keep_events": 0})
    assert history(client) == points
    server.restart()
    assert history(client) == points
    teach(client, config, seen, 30, 100)
    more = history(client)
    assert more[:len(points)] == points and [p["events"] for p in more[len(points):]] == [112, 128]
    hold(more, seen)


def test_many_points_are_thinned_and_cover_all_of_the_time(boot):
    client = Client(boot())
    client.put_tenant("t", algorithm="ts")
    client.put_arms("t", ["a"])
    n = 0
    for k in range(150):
        lines = [{"user": "u", "arm": "a", "reward": 1}] * 16
        client.call("POST", "/observe", lines, kind="application/x-ndjson", tenant="t")
        n += 16
        settled(client, n // step_for(n) * step_for(n))
    points = history(client)
    step = step_for(n)
    assert step == 32 and [p["events"] for p in points] == list(range(step, n + 1, step))


def test_points_of_a_large_model_stand_half_of_them_apart(boot):
    """146 points take a million flops. Each point is still at a multiple of the step, and is what the model was."""
    client, n, seen = Client(boot()), 0, {}
    client.put_tenant("t", algorithm="gp-ucb", context_dim=1)
    expected = []
    while n < 512:
        few = 16 if n < 208 or n >= 240 else 1  # a multiple of the step is waited for by whoever is told each reward alone
        lines = [{"user": "u", "arm": "a", "context": [(n + i) / 8], "reward": (n + i) % 7 / 7} for i in range(few)]
        client.call("POST", "/observe", lines, kind="application/x-ndjson", tenant="t")
        n += few
        model = client.model("t")
        seen[model["seq"]] = model
        if n % 16 == 0 and (n <= 144 or n >= 1.5 * expected[-1]):
            expected.append(n)
        settled(client, expected[-1])
    points = history(client)
    assert [p["events"] for p in points] == expected and expected[8:] == [144, 224, 336, 512]
    hold(points, seen)


def test_the_spectrum_sums_to_the_effective_dimension(api, name):
    api.put_tenant(name, algorithm="cmm-ucb", context_dim=1, representation={"lambda": 0.5})
    for i in range(24):
        api.observe("u", "ab"[i % 2], i / 24, context=[i / 12 - 1], tenant=name)
    model = api.model(name)
    found = model["spectrum"]["eigenvalues"]
    assert found == sorted(found, reverse=True) and len(found) == len(model["dictionary"]) and model["spectrum"]["observations"] == 24
    assert sum(x / (x + 0.5) for x in found) == pytest.approx(model["effective_dimension"], rel=1e-9)
    assert sum(found) == pytest.approx(24, rel=1e-9)  # the trace: each k(s, s) is 1
    api.put_tenant(name + "x", algorithm="gp-ucb")
    assert api.model(name + "x")["spectrum"] is None
