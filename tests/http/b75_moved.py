"""`features` of POST /tenants/{t}/posterior: which named features moved the mean. A change is the mean less that of the same question
with the object that lacks the feature, as an independent mapping makes its vector."""
import json
import random

import pytest

from harness import Client, Server
from names import mapped, names, without

MAPPING = {"mapping": "names-1", "dim": 64, "seed": 2, "weights": {"article": 2.5}}
CONTEXT = {"device": "phone", "hour": 13, "new": True, "none": None, "_id": 7, "at=home": {"x^y": "a=b"}, "tags": ["eu", "tax", 3, 4, {"deep": 2}],
           "article": {"topic": "sport", "age_h": 2, "vector": [0.25 * i - 2 for i in range(20)]}}
ARM = {"topic": "sport", "length": 3, "vector": [1.0] * 16}
LOOK = {"users": ["u1"], "arms": [{"id": "a", "features": ARM}], "context": CONTEXT}


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """Of a server that ends builds before it answers: a model that finds its scales does not change between two questions."""
    running = Server(tmp_path_factory.mktemp("laplaced"), "--finish-builds").start()
    yield Client(running)
    running.close()


def of(value):
    return mapped(value, MAPPING["dim"], MAPPING["seed"], MAPPING["weights"])


def learned(api, name, algorithm="lin-ucb", **fields):
    api.put_tenant(name, algorithm=algorithm, features=MAPPING, **fields)
    for i in range(40):
        context = {"device": ["phone", "desk"][i % 2], "hour": i % 24, "article": {"topic": ["sport", "news", "eu"][i % 3], "age_h": i % 5}}
        arm = {"id": f"a{i % 4}", "features": {"topic": ["sport", "news"][i % 2], "length": i % 7}}
        api.call("POST", "/observe", {"user": f"u{i % 5}", "context": context, "arm": arm, "reward": (i % 2) * 0.5 + (i % 3 == 0)}, tenant=name)


def ask(api, name, expect=200, **fields):
    return api.call("POST", f"/tenants/{name}/posterior", {**LOOK, **fields}, expect=expect).json


@pytest.mark.parametrize("algorithm", ["lin-ucb", "laplaced", "ek-ucb", "laplaced-kors"])
def test_a_change_is_what_the_mean_loses_without_the_feature(api, name, algorithm):
    learned(api, name, algorithm)
    before = api.digest(name), api.events(name)
    answer = ask(api, name, features=50)
    told = answer["features"]
    assert told["arm"] == "a" and told["mean"] == answer["mean"][0][0] and told["others"] == 0
    assert {(c["of"], c["feature"]) for c in told["changes"]} == {("context", n) for n in names(CONTEXT)} | {("arm", n) for n in names(ARM)}
    assert len(told["changes"]) == len(names(CONTEXT)) + len(names(ARM)) == 15
    for change in told["changes"]:
        context, arm = CONTEXT, ARM
        if change["of"] == "arm":
            arm = without(ARM, change["feature"])
        else:
            context = without(CONTEXT, change["feature"])
        assert context != CONTEXT or arm != ARM
        mean = ask(api, name, context=of(context), arms=[{"id": "a", "features": of(arm)}])["mean"][0][0]
        assert change["change"] == told["mean"] - mean, change
    sizes = [abs(c["change"]) for c in told["changes"]]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > 0
    assert (api.digest(name), api.events(name)) == before


def test_the_first_of_them_are_the_largest(api, name):
    learned(api, name)
    everything, answer = ask(api, name, features=50), ask(api, name, features=3)
    assert answer["features"]["changes"] == everything["features"]["changes"][:3] and answer["features"]["others"] == 12
    assert {k: v for k, v in answer.items() if k != "features"} == {k: v for k, v in ask(api, name).items()}


def test_what_a_model_has_learned_of_a_feature_is_found(api, name):
    """Reward comes with one word of ten, which nothing else tells."""
    api.put_tenant(name, algorithm="lin-ucb", features={"mapping": "names-1"})
    words, rng = [f"w{i}" for i in range(10)], random.Random(1)
    for _ in range(200):
        shown = [w for w in words if rng.random() < 0.6]
        api.call("POST", "/observe", {"user": "u", "context": {"words": shown}, "arm": {"id": "a", "features": {"one": True}}, "reward": 1 if "w6" in shown else 0}, tenant=name)
    body = {"users": ["u"], "arms": [{"id": "a", "features": {"one": True}}], "context": {"words": words}, "features": 20}
    first, second, *_ = [c for c in api.call("POST", f"/tenants/{name}/posterior", body).json["features"]["changes"] if c["of"] == "context"]
    assert (first["of"], first["feature"]) == ("context", "words=w6") and first["change"] > 3 * abs(second["change"])


def test_an_object_of_one_side_is_enough(api, name):
    learned(api, name)
    api.call("PUT", f"/tenants/{name}/arms", {"arms": [{"id": "c", "features": ARM}]})
    only_context = ask(api, name, arms=["c"], features=50)["features"]["changes"]
    assert {c["of"] for c in only_context} == {"context"} and len(only_context) == 12
    only_arm = ask(api, name, context=of(CONTEXT), features=50)["features"]["changes"]
    assert {c["of"] for c in only_arm} == {"arm"} and len(only_arm) == 3
    both = {(c["of"], c["feature"]): c["change"] for c in ask(api, name, features=50)["features"]["changes"]}
    assert all(both[c["of"], c["feature"]] == c["change"] for c in only_arm)
    assert ask(api, name, arms=["c"], context={}, features=5)["features"] == {
        "arm": "c", "mean": ask(api, name, arms=["c"], context={})["mean"][0][0], "changes": [], "others": 0}


@pytest.mark.parametrize("body, pointer, text", [
    ({"users": ["u1", "u2"]}, "/features", "one user and one arm"),
    ({"arms": [{"id": "a", "features": ARM}, {"id": "b", "features": ARM}]}, "/features", "one user and one arm"),
    ({"arms": None}, "/features", "one user and one arm"),
    ({"context": [0] * 64, "arms": [{"id": "a", "features": [0] * 64}]}, "/features", "named features"),
    ({"context": [0] * 64, "arms": ["a0"]}, "/features", "named features"),
    ({"features": 0}, "/features", "from 1 to 50"), ({"features": 51}, "/features", "from 1 to 50"), ({"features": "all"}, "/features", "number"),
    ({"context": {f"n{i}": 1 for i in range(198)}}, "/features", "more than 200"),
    ({"context": {"a": [[1]]}}, "/context/a/0", "array"),
], ids=lambda v: json.dumps(v)[:40] if isinstance(v, dict) else None)
def test_what_cannot_be_explained_is_named_and_changes_nothing(api, name, body, pointer, text):
    learned(api, name)
    before = api.digest(name)
    asked = {k: v for k, v in {**LOOK, "features": 5, **body}.items() if v is not None}
    problem = api.call("POST", f"/tenants/{name}/posterior", asked, expect=400).json
    assert text in {e["pointer"]: e["detail"] for e in problem["errors"]}.get(pointer, ""), problem
    if "more than" in text:
        assert (problem["limit"], problem["max"]) == ("explained_features", 200)
    assert api.digest(name) == before


def test_two_hundred_features_are_taken(api, name):
    learned(api, name)
    answer = ask(api, name, context={f"n{i}": 1 for i in range(197)}, features=50)
    assert len(answer["features"]["changes"]) == 50 and answer["features"]["others"] == 150


def test_a_tenant_without_the_mapping_has_nothing_to_name(api, name):
    api.put_tenant(name, algorithm="lin-ucb", context_dim=2, arm_dim=1)
    problem = api.call("POST", f"/tenants/{name}/posterior",
                       {"users": ["u"], "arms": [{"id": "a", "features": [1]}], "context": [1, 2], "features": 3}, expect=400).json
    assert problem["errors"][0]["pointer"] == "/features"
