"""Configurations that are well formed and still refused: 422 with the field, and nothing changed."""
import json

import pytest

from contract import CONTRACT
from harness import Client

REFUSED = [
    ({"user_kernel": {"type": "mmd"}}, "/user_kernel/type"),  # no contexts, no features: nothing to learn from
    ({"arm_dim": 1, "user_kernel": {"type": "mmd"}}, "/user_kernel/population"),  # the default row has one
    ({"arm_dim": 1, "user_kernel": {"type": "mmd", "population": 0}}, "/user_kernel/normalize"),  # and normalises
    *[({"user_kernel": {**kind, "population": 0.5}}, "/user_kernel/population")  # the virtual user is (L + rho I)^-1's
      for kind in ({"type": "heat"}, {"type": "spectral_rbf"}, {"power": 0.5}, {"power": 2})],
    ({"user_kernel": {"type": "heat"}}, "/user_kernel/population"),  # the default row has one
    ({"user_kernel": {"power": 4, "rho": 1e-6, "population": 0}}, "/user_kernel/power"),
    *[({"pending": "hallucinate", **beside}, "/pending") for beside in (
        {"confidence": {"type": "cmm"}}, {"confidence": {"type": "lk"}, "representation": {"type": "exact"}},
        {"algorithm": "igp-ucb"}, {"algorithm": "sup-kernel-ucb", "arm_dim": 1}, {"forgetting": {"type": "discount"}},
        {"algorithm": "ts", "forgetting": {"type": "half_life"}},
        {"arm_dim": 1, "user_kernel": {"type": "mmd", "population": 0, "normalize": False}})],
    *[({"confidence": {"type": kind}, "representation": {"type": representation}, "forgetting": {"type": forgetting}}, "/forgetting/type")
      for kind, representation in (("cmm", "kors"), ("ek_plus", "threshold"), ("bkb", "bbkb"), ("lk", "exact"), ("amm", "exact"))
      for forgetting in ("discount", "half_life")],
    ({"algorithm": "sup-kernel-ucb", "arm_dim": 1, "forgetting": {"type": "discount"}}, "/forgetting/type"),
    ({"algorithm": "cmm-ucb", "forgetting": {"type": "half_life"}}, "/forgetting/type"),  # its bounds decide: they are not dropped
    *[({"confidence": {"type": kind}, "representation": {"type": representation}}, "/confidence/type")
      for kind in ("lk", "ay", "igp") for representation in ("kors", "threshold", "bkb", "bbkb")],
    *[({"confidence": {"type": kind}, "representation": {"type": representation}, "aggregation": aggregation}, "/aggregation")
      for kind in ("amm", "dmm", "cmm") for representation in ("kors", "threshold", "bkb", "bbkb") for aggregation in ("sum", "last")],
    *[({"confidence": {"type": kind, "mixture": True}}, "/confidence/mixture") for kind in ("fixed", "ek", "ek_plus", "bkb")],
    ({"confidence": {"type": "amm", "mixture": True}, "representation": {"type": "exact"}}, "/confidence/mixture"),
    *[({"rule": {"type": "sup_kernel"}, "representation": {"type": representation}}, "/representation/type")
      for representation in ("kors", "threshold", "bkb", "bbkb")],
    ({"rule": {"type": "sup_kernel"}}, "/representation/type"),  # the default row has a dictionary
    *[({"algorithm": "sup-kernel-ucb", "confidence": {"type": kind}}, "/confidence/type")
      for kind in ("lk", "ek", "ay", "igp", "amm", "dmm", "cmm")],
    ({"arm_dim": 0, "arm_kernel": {"type": "rbf"}}, "/arm_kernel/type"),
    ({"arm_dim": 0, "arm_kernel": {"type": "linear"}}, "/arm_kernel/type"),
    ({"context_dim": 0, "context_kernel": {"type": "rbf"}}, "/context_kernel/type"),
    ({"context_dim": 0, "context_kernel": {"type": "matern52"}}, "/context_kernel/type"),
]


@pytest.fixture(scope="module")
def fixed(server):
    client = Client(server)
    client.put_tenant("fixed", algorithm="gp-ucb", arm_dim=1)
    client.observe("u", {"id": "a", "features": [1]}, 1, tenant="fixed")
    return client


@pytest.mark.parametrize("configuration, pointer", REFUSED, ids=lambda v: str(v)[:60])
def test_what_is_not_supported_is_refused_by_field(fixed, configuration, pointer):
    configuration = {"algorithm": "laplaced-kors", **configuration}
    assert not CONTRACT.request_errors("PUT", "/tenants/fixed", "application/json", json.dumps(configuration))
    before = (fixed.model("fixed"), fixed.call("GET", "/tenants").json)
    answer = fixed.call("PUT", "/tenants/fixed", configuration, expect=422)
    assert answer.pointers == [pointer] and answer.json["errors"][0]["detail"]
    assert fixed.call("PUT", "/tenants/never-made", configuration, expect=422).pointers == [pointer]
    assert (fixed.model("fixed"), fixed.call("GET", "/tenants").json) == before


def test_an_algorithm_that_there_is_not_is_told_all_that_there_are(fixed):
    answer = fixed.call("PUT", "/tenants/never-made", {"algorithm": "nope"}, expect=400)
    (error,) = answer.json["errors"]
    assert error["pointer"] == "/algorithm" and error["detail"] == "expected one of " + ", ".join(CONTRACT.doc["components"]["schemas"]["Algorithm"]["enum"])


def test_the_defaults_spelled_out_are_accepted(fixed):
    for configuration in ({"user_kernel": {"power": 1, "tau": 1, "k": 8, "lengthscale": "median", "bandwidth": "median", "features": 256, "refresh": 200,
                                           "min_observations": 5, "tolerance": 0.0001}}, {"confidence": {"type": "fixed", "norm_bound": "auto"}}, {"pending": "ignore"},
                          {"forgetting": {"type": "none", "discount": 0.999, "half_life_s": 86400}},
                          {"arm_kernel": {"type": "delta"}}, {"context_kernel": {"type": "ones"}}, {"default_reward": None}):
        fixed.call("PUT", "/tenants/spelled", configuration, expect=(200, 201))


def test_a_resolved_configuration_can_be_put_back(fixed):
    """What GET serves is itself a valid body, and means the same."""
    for preset in CONTRACT.doc["components"]["schemas"]["Algorithm"]["enum"]:
        first = fixed.put_tenant(f"back.{preset}", algorithm=preset, arm_dim=2, context_dim=1, seed=7, default_reward=-0.5,
                                 arm_kernel={"lengthscale": 0.1 + 0.2})
        again = fixed.call("PUT", f"/tenants/back.{preset}", first["configuration"], expect=200).json
        assert again == first
