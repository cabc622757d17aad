"""`inferenceExplanation` of Rank, where the service configuration has `isInferenceExplainabilityEnabled`: a score is the mean less that of the same question
without the feature, whose vector an independent mapping makes."""
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import Client, Server
from j30_personalizer import path, rank, service, targets
from names import mapped, names, without

MAPPING = {"mapping": "names-1", "dim": 64, "seed": 5, "weights": {"user": 2.0}}
CONTEXT = [{"user": {"age": "young", "floor": 3}, "tag": "x"}, {"hour": 13, "user": {"city": "Cluj"}, "tag": "y", "none": None}]
MERGED = {"user": {"age": "young", "floor": 3, "city": "Cluj"}, "tag": ["x", "y"], "hour": 13}
ACTIONS = [{"id": "a", "features": [{"taste": "salty"}]}, {"id": "b", "features": [{"taste": "sweet"}, {"heat": 3}]}, {"id": "c", "features": [{"taste": "sour"}]}]
OF = {"a": {"taste": "salty"}, "b": {"taste": "sweet", "heat": 3}, "c": {"taste": "sour"}}
BODY = {"contextFeatures": CONTEXT, "actions": ACTIONS}
ON = {"isInferenceExplainabilityEnabled": True}


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("laplaced"), "--finish-builds").start()
    yield Client(running)
    running.close()


def of(value):
    return mapped(value, MAPPING["dim"], MAPPING["seed"], MAPPING["weights"])


def mean(api, name, arm, context, features, user="-"):
    body = {"users": [user], "arms": [{"id": arm, "features": of(features)}], "context": of(context)}
    return api.call("POST", f"/tenants/{name}/posterior", body).json["mean"][0][0]


def learned(api, name, algorithm="lin-ucb", **fields):
    api.put_tenant(name, algorithm=algorithm, features=MAPPING, **fields)
    for i in range(40):
        arm = "abc"[i % 3]
        context = {"user": {"age": ["young", "old"][i % 2], "floor": i % 5}, "hour": i % 24, "tag": "xyz"[i % 3]}
        api.observe("-", {"id": arm, "features": OF[arm]}, float(arm == "b" and i % 2 == 0), context=context, tenant=name)


@pytest.mark.parametrize("algorithm", ["lin-ucb", "ek-ucb", "laplaced"])
def test_a_score_is_what_the_mean_loses_without_the_feature(api, name, algorithm):
    learned(api, name, algorithm, rule={"epsilon": 0.5})
    service(api, name, ON)
    told = rank(api, name, **BODY)
    (explained,) = told.json["inferenceExplanation"]
    best = told.json["ranking"][0]["id"]
    assert explained["id"] == best and "Laplaced-Ignored" not in told.headers
    here = mean(api, name, best, MERGED, OF[best])
    wanted = [(n, here - mean(api, name, best, without(MERGED, n), OF[best])) for n in names(MERGED)]
    wanted += [(n, here - mean(api, name, best, MERGED, without(OF[best], n))) for n in names(OF[best])]
    assert len(wanted) == 6 + len(names(OF[best])) and any(score != 0 for _, score in wanted)
    assert sorted((f["name"], f["score"]) for f in explained["features"]) == sorted(w for w in wanted if w[1] != 0)
    sizes = [abs(f["score"]) for f in explained["features"]]
    assert sizes == sorted(sizes, reverse=True)


def test_the_action_of_the_greatest_probability_is_explained_whichever_is_shown(api, name):
    learned(api, name, rule={"epsilon": 0.9})
    service(api, name, ON)
    shown = set()
    for i in range(40):
        told = rank(api, name, eventId=f"e{i}", excludedActions=["b"] if i % 2 else [], **BODY).json
        most = max((a["probability"], -i) for i, a in enumerate(told["ranking"]))
        assert told["inferenceExplanation"][0]["id"] == told["ranking"][-most[1]]["id"]
        assert (told["inferenceExplanation"][0]["id"] != "b") or not i % 2
        shown.add(told["rewardActionId"] == told["inferenceExplanation"][0]["id"])
    assert shown == {True, False}


def test_it_is_asked_for_and_taken_back(api, name):
    learned(api, name)
    assert "inferenceExplanation" not in rank(api, name, **BODY).json and "isInferenceExplainabilityEnabled" not in service(api, name).json
    told = service(api, name, ON).json
    assert told["isInferenceExplainabilityEnabled"] is True and api.events(name)[-1]["type"] == "configured"
    assert api.call("GET", f"/tenants/{name}").json["configuration"]["personalizer"] == {"explain_inference": True}
    before = api.events(name)
    assert service(api, name, told).json == told and api.events(name) == before  # who writes back what was told
    assert service(api, name, {"isInferenceExplainabilityEnabled": None}).json == told
    assert service(api, name, {"explorationPercentage": 0.25}).json["isInferenceExplainabilityEnabled"] is True
    assert rank(api, name, **BODY).json["inferenceExplanation"]
    assert "isInferenceExplainabilityEnabled" not in service(api, name, {"isInferenceExplainabilityEnabled": False}).json
    assert "inferenceExplanation" not in rank(api, name, **BODY).json
    answer = service(api, name, {"isInferenceExplainabilityEnabled": "yes"}, expect=400)
    assert targets(answer) == ["/isInferenceExplainabilityEnabled"]


@pytest.mark.parametrize("version", ["v1.0", "v1.1-preview.3"])
def test_every_version_tells_it(api, name, version):
    learned(api, name)
    service(api, name, ON)
    assert rank(api, name, version=version, **BODY).json["inferenceExplanation"][0]["features"]


def test_that_of_2022_tells_it_and_several_slots_do_not(api, name):
    """Its answer of several slots has no place for it: slots, and the event's id."""
    learned(api, name)
    service(api, name, ON)
    told = api.call("POST", "/personalizer/rank", BODY, query={"api-version": "2022-09-01-preview"}, tenant=name, expect=201).json
    assert told["inferenceExplanation"][0]["id"] == told["ranking"][0]["id"]
    slots = [{"id": "s", "baselineAction": "a"}]
    told = api.call("POST", path("multislot/rank", "v1.1-preview.3"), {**BODY, "slots": slots}, tenant=name, expect=201)
    assert set(told.json) == {"slots", "eventId"}


def test_it_changes_neither_decision_nor_log(api, name):
    """Two tenants of the same past, one of them explained: equal answers but for the explanation, equal lines."""
    for t in (name, name + "-plain"):
        learned(api, t, rule={"epsilon": 0.5}, seed=4)
    service(api, name, ON)
    for i in range(10):
        told, plain = rank(api, name, eventId=f"e{i}", **BODY).json, rank(api, name + "-plain", eventId=f"e{i}", **BODY).json
        assert {k: v for k, v in told.items() if k != "inferenceExplanation"} == plain
    def decided(t):
        return [{k: v for k, v in e.items() if k not in ("seq", "at", "expires_at", "version")} for e in api.events(t) if e["type"] == "decided"]

    assert decided(name) == decided(name + "-plain")


def test_an_event_that_is_ranked_again_is_explained_while_its_first_action_is_the_models(api, name):
    learned(api, name)
    service(api, name, ON)
    first = rank(api, name, eventId="e", **BODY).json
    assert rank(api, name, eventId="e", **BODY).json == first
    best = first["ranking"][0]["id"]
    other = next(a for a in "abc" if a != best)
    for _ in range(60):
        api.observe("-", {"id": other, "features": OF[other]}, 9.0, context=MERGED, tenant=name)
    again = rank(api, name, eventId="e", **BODY)
    assert again.json == {k: v for k, v in first.items() if k != "inferenceExplanation"}
    assert again.headers["Laplaced-Ignored"] == "isInferenceExplainabilityEnabled"
    assert rank(api, name, eventId="f", **BODY).json["inferenceExplanation"][0]["id"] == other


def test_of_too_many_features_there_is_a_decision_and_no_explanation(api, name):
    learned(api, name)
    service(api, name, ON)
    fits, over = ([{f"n{i}": 1 for i in range(n)}] for n in (199, 200))
    told = rank(api, name, contextFeatures=fits, actions=[{"id": "a", "features": [{"taste": "salty"}]}])
    assert len(told.json["inferenceExplanation"][0]["features"]) <= 50 and "Laplaced-Ignored" not in told.headers
    told = rank(api, name, contextFeatures=over, actions=[{"id": "a", "features": [{"taste": "salty"}]}])
    assert "inferenceExplanation" not in told.json and told.headers["Laplaced-Ignored"] == "isInferenceExplainabilityEnabled"
    assert api.events(name)[-1]["decision"] == told.json["eventId"]


def test_without_features_there_is_nothing_to_explain(api, name):
    api.put_tenant(name, algorithm="random")
    service(api, name, ON)
    told = rank(api, name, **BODY)
    assert "inferenceExplanation" not in told.json and told.headers["Laplaced-Ignored"] == "contextFeatures, actions.features"


def test_a_refused_rank_is_refused_as_before(api, name):
    learned(api, name)
    service(api, name, ON)
    before = api.events(name)
    assert "/contextFeatures/a/0" in targets(rank(api, name, contextFeatures=[{"a": [[1]]}], actions=ACTIONS, expect=400))
    assert api.events(name) == before


def test_explaining_is_paid_for(api, name):
    """A rank that is explained costs two requests and more. What the rate has for the decision alone is decided and told without: else a tenant that asks
    again as soon as Retry-After says so would pay for decisions and never get one. A rank that is over the rate leaves no line."""
    learned(api, name)
    service(api, name, ON)
    api.call("PUT", f"/tenants/{name}/limits", {"rate": 0.001, "burst": 3.5})
    answers = [api.call("POST", path("rank"), {**BODY, "eventId": f"e{i}"}, tenant=name, expect=(201, 429)) for i in range(4)]
    assert [a.status for a in answers] == [201, 201, 429, 429]
    assert ["inferenceExplanation" in a.json for a in answers[:2]] == [True, False]
    assert "Laplaced-Ignored" not in answers[0].headers and answers[1].headers["Laplaced-Ignored"] == "isInferenceExplainabilityEnabled"
    assert answers[-1].json["error"]["code"] == "TooManyRequests"
    api.call("PUT", f"/tenants/{name}/limits", {"rate": 0})
    lines = [e["decision"] for e in api.events(name) if e["type"] == "decided"]
    assert lines == [f"e{i}" for i, a in enumerate(answers) if a.status == 201]


def test_it_is_explained_beside_the_serving_threads(boot, name):
    """However small the model: a body of embeddings is mapped once for each feature. A line of one place says who waits in it: ranks that are explained, and no others."""
    server = boot("--finish-builds", "--max-work", "1")
    api = Client(server)
    api.put_tenant(name, algorithm="lin-ucb", features={"mapping": "names-1", "dim": 2048})
    body = {"contextFeatures": [{**{f"n{i}": i for i in range(150)}, **{f"e{k}": [0.5] * 200 for k in range(3)}}], "actions": ACTIONS}

    def ranked(_):
        return Client(server).call("POST", path("rank"), body, tenant=name, expect=(201, 500))

    def all_at_once():
        with ThreadPoolExecutor(24) as clients:
            return list(clients.map(ranked, range(24)))

    assert {a.status for a in all_at_once()} == {201}
    service(api, name, ON)
    answers = all_at_once()
    assert {a.status for a in answers} == {201, 500}
    assert all("inferenceExplanation" in a.json for a in answers if a.status == 201)
    assert all("too many requests wait" in a.text for a in answers if a.status == 500)


def test_it_outlasts_a_restart(boot, name):
    server = boot("--finish-builds")
    api = Client(server)
    learned(api, name)
    service(api, name, ON)
    first = rank(api, name, eventId="e", **BODY).json
    server.restart()
    assert service(api, name).json["isInferenceExplainabilityEnabled"] is True and rank(api, name, eventId="e", **BODY).json == first
