"""Every preset under every way to forget: all sizes of numbers as rewards, contexts and features, one after the other, small and great
in turn; then what reads the model, what makes it anew, and what takes something back."""
import itertools
import math
import random

import pytest

from harness import tenant_path
from tenants import PRESETS
from values import ALL, PLAIN

PLAIN_PRESETS = ("ucb", "ts", "random")
FORGETTING = {"none": {"type": "none"}, "discount": {"type": "discount", "discount": 0.5}, "half_life": {"type": "half_life", "half_life_s": 0.001}}
OTHERS = [{"arm_kernel": {"type": "linear"}}, {"arm_kernel": {"type": "polynomial", "degree": 8, "offset": 1e12}}, {"arm_kernel": {"type": "rbf", "lengthscale": 1e-12}},
          {"arm_kernel": {"type": "rbf", "lengthscale": 1e12}}, {"arm_kernel": {"type": "matern12", "lengthscale": "median"}}]


def values(judge):
    """Each as large as may be sent, then just beyond what the server takes."""
    inside = [v for v in ALL if abs(v) <= judge.largest]
    return inside + ([] if judge.bound is None else [v for v in ALL if abs(v) > judge.bound])


@pytest.mark.parametrize("forgetting", FORGETTING)
@pytest.mark.parametrize("preset", PRESETS)
def test_numbers_of_every_size_are_learned_or_refused(judged, magnitude, preset, forgetting):
    judge, rng = judged(magnitude), random.Random(f"{preset} {forgetting} {magnitude}")
    is_plain, t = preset in PLAIN_PRESETS, tenant_path("t")
    dims = {} if is_plain else {"context_dim": 1, "arm_dim": 1}
    base = {"algorithm": preset, **dims, "aggregation": "last" if preset != "sup-kernel-ucb" else "first", "confidence": {"type": "fixed"}}
    made = judge.send("PUT", t, {**base, "forgetting": FORGETTING[forgetting]})
    if made.status == 422:  # bounds that need every reward, and elimination, forget nothing
        assert "sup" in preset and forgetting != "none"
        return
    judge.hold(made.status == 201, "the tenant")
    judge.write("PUT", t + "/graph", {"edges": [["u0", "u1", 1], ["u1", "u2", 0.5], ["u2", "u3", 2]]}, "t")
    for i, v in enumerate(values(judge)):
        for reward, x, features in ((v, 0.5, 0.5), (1, v, 0.5), (1, 0.5, v), (v, v, v)):
            if is_plain and reward == 1:
                continue
            where = {} if is_plain else {"context": [x]}
            arm = {"id": f"a{i % 3}", **({} if is_plain else {"features": [features]})}
            judge.write("POST", "/observe", {"user": f"u{i % 4}", "arm": arm, "reward": reward, **where}, "t")
            if i % 5 == 0:
                d = judge.select("t", {"user": "u0", "candidates": [arm, {**arm, "id": "b"}], "explain": True, **where})
                for again in (v, 1.0):
                    if d.status == 200:
                        judge.write("POST", "/reward", {"decision": d.json["decision"], "reward": again}, "t")
        if i % 6 == 0:
            judge.witness()
    judge.verified("t")
    judge.hold(judge.send("DELETE", t + "/users/u1").status == 200, "the erasure")
    for other in itertools.chain([{"representation": {"type": "kors"}}, {"representation": {"lambda": 1e-12}}], [] if is_plain else OTHERS):
        answer = judge.write("PUT", t, {**base, **other, "forgetting": FORGETTING[forgetting]}, "t")
        judge.hold(answer.status in (200, 400, 422), "another configuration")
        judge.settled("t")
        where = {} if is_plain else {"context": [rng.choice(PLAIN)]}
        judge.select("t", {"user": "u0", "candidates": [{"id": "a0", **({} if is_plain else {"features": [0.25]})}], "explain": True, **where})
        judge.verified("t")
        judge.witness()
    judge.send("POST", t + "/compact", {"keep_events": 0}, expect=200)
    judge.verified("t")
    log = judge.send("GET", t + "/export", expect=200)
    copy = judge.send("POST", tenant_path("copy") + "/import", raw=log.content, kind="application/x-ndjson", expect=201)
    judge.hold(copy.json["digest"] == log.headers["Laplaced-Digest"], "the copy is another model")
    judge.restart("--open-all")
    judge.verified("t")
    assert judge.server.terminate() == 0 and math.isfinite(judge.n_witnessed)
