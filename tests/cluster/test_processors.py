"""Servers of one log on processors of different kinds: OpenBLAS computes by other kernels on each, so models may differ in their last bits. Logs, and what they say (`logical_digest`), are the same."""
import pathlib
import random

import pytest

import pg
from servers import Servers, at_once, log_of, settle
from harness import Client
from test_shapes import SHAPES, act, arm, context

pytestmark = pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")
FLAGS = pathlib.Path("/proc/cpuinfo").read_text().split()
KINDS = [kind for kind, flag in (("Haswell", "avx2"), ("SkylakeX", "avx512f"), ("Prescott", "pni")) if flag in FLAGS]
WIDE = {"arm_dim": 1, "context_dim": 1}
# More than SHAPES have: what is forgotten, users who are compared by what they have shown, scales that are found, a dictionary that is drawn anew.
MORE = {
    "forgets": dict(algorithm="lk-gp-ucb", **WIDE, forgetting={"type": "discount", "discount": 0.97}),
    "changes": dict(algorithm="laplaced", forgetting={"type": "discount", "discount": 0.99, "detect_changes": True}),
    "alike": dict(algorithm="gp-ucb", **WIDE, user_kernel={"type": "mmd", "population": 0, "normalize": False}, representation={"lambda": 0.1}),
    "sums": dict(algorithm="laplaced-kors", **WIDE, aggregation="last", representation={"type": "kors", "lambda": 0.05, "max_dictionary": 30}),
}
ALL = {**SHAPES, **MORE}


@pytest.fixture(scope="module")
def kinds(database, tmp_path_factory):
    """A server of each kind of processor that this machine can play."""
    if len(KINDS) < 2:
        pytest.skip(f"this processor runs no two kinds of kernels: {KINDS}")
    servers = Servers(tmp_path_factory.mktemp("kinds"), database.url, n=0)
    for kind in KINDS:
        servers.add(env={"OPENBLAS_CORETYPE": kind})
    servers.ready()
    yield servers
    servers.end()


@pytest.fixture(scope="module")
def digests():
    """{shape: full digests}, of all shapes that were tried."""
    return {}


@pytest.mark.parametrize("shape", ALL)
def test_whoever_wrote_it_all_kinds_say_the_same_of_the_log(kinds, digests, shape):
    config, name, rng, apis = ALL[shape], f"kind-{shape}", random.Random(shape), kinds.clients()
    apis[0].put_tenant(name, **config)
    apis[0].call("PUT", f"/tenants/{name}/arms", {"arms": [arm(config, i, rng) for i in range(6)]})
    apis[0].call("PUT", f"/tenants/{name}/graph", {"edges": [[f"u{i}", f"u{(i + 1) % 8}", 1] for i in range(8)]})
    at_once(*[lambda k=k, api=api: act(api, name, config, random.Random(f"{shape}/{k}"), 100) for k, api in enumerate(apis)])
    _, logical = settle(apis, name, "logical_digest")
    digests[shape] = {api.digest(name) for api in apis}
    for api in apis:
        told = api.verify(name)
        assert told["equal"] and told["logical_digest"] == logical, told
    before = log_of(apis[0], name)
    apis[1].call("POST", "/observe", {"user": "u1", "arm": "arm1", "reward": 0.5, "id": "one-more", **context(config, rng)}, tenant=name)
    log, later = settle(apis, name, "logical_digest")
    assert log.startswith(before) and log != before and later != logical


def test_their_models_do_differ_and_a_server_that_folds_anew_on_another_kind_says_the_same(kinds, digests, tmp_path):
    assert any(len(of) > 1 for of in digests.values()), "no model differs: nothing was shown"
    for server in kinds.servers[:2]:
        server.kill()
    kinds.servers[0].env, kinds.servers[1].env = kinds.servers[1].env, kinds.servers[0].env  # their snapshots are of the other kind
    for server in kinds.servers[:2]:
        kinds.start(server)
    kinds.ready()
    late = Client(kinds.add(env={"OPENBLAS_CORETYPE": KINDS[-1]}))
    kinds.ready()
    for shape in digests:
        settle([*kinds.clients()[:-1], late], f"kind-{shape}", "logical_digest")
