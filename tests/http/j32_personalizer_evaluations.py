"""Azure Personalizer's evaluations over the tenant's own log, and its interface of 2022 (docs/PERSONALIZER.md)."""
import random
import time

import pytest

SINCE, UNTIL = "2020-01-01T00:00:00Z", "2090-01-01T00:00:00.0000000+01:00"
ACTIONS = "abcd"


def path(rest, version="v1.1-preview.3"):
    return f"/personalizer/{version}/{rest}" if version else f"/personalizer/{rest}"


def of_2022(api, method, rest, body=None, query=(), **more):
    return api.call(method, f"/personalizer/{rest}", body, query={"api-version": "2022-09-01-preview", **dict(query)}, **more)


def request(*policies, **more):
    return {"name": "June, all", "startTime": SINCE, "endTime": UNTIL, "policies": list(policies), **more}


def policy(name, arguments):
    return {"name": name, "arguments": arguments}


def begin(api, tenant, body, expect=201):
    return api.call("POST", path("evaluations"), body, tenant=tenant, expect=expect)


def finished(api, tenant, id):
    end = time.monotonic() + 120
    while (told := api.call("GET", path(f"evaluations/{id}"), tenant=tenant).json)["status"] == "pending":
        assert time.monotonic() < end
        time.sleep(0.05)
    return told


def fill(api, name, n=240):
    """Ranks of different actions in different orders, some of them excluded; b is good."""
    api.put_tenant(name, algorithm="ucb", tune=False, rule={"epsilon": 0.6}, log_candidates=True)
    draw = random.Random(3)
    for i in range(n):
        actions = draw.sample(ACTIONS, draw.randint(2, 4))
        out = actions[:1] if len(actions) > 2 and i % 3 == 0 else []
        told = api.call("POST", path("rank"), {"actions": [{"id": a} for a in actions], "excludedActions": out, "eventId": f"e{i}"}, tenant=name, expect=201).json
        if draw.random() < 0.8:
            api.call("POST", path(f"events/e{i}/reward"), {"value": float(draw.random() < (0.8 if told["rewardActionId"] == "b" else 0.3))}, tenant=name, expect=204)


def logged(api, name):
    """(candidates in their order, what was shown, its propensity, the reward) of each decision with a reward, in the order of rewards."""
    lines = api.events(name)
    decided = {e["decision"]: e for e in lines if e["type"] == "decided"}
    for e in lines:
        if e["type"] == "rewarded":
            d = decided[e["decision"]]
            yield list(d["among"]), d["arm"], d["propensity"], e["reward"]


def test_the_own_policies_are_those_of_dense_sums(api, name):
    fill(api, name)
    answer = begin(api, name, request())
    assert answer.json["status"] == "pending" and answer.json["evaluationType"] == "Manual" and answer.json["name"] == "June, all"
    id = answer.json["id"]
    assert answer.headers["Location"] == path(f"evaluations/{id}") and answer.json["jobId"] == id
    told = finished(api, name, id)
    assert told["status"] == "completed" and (told["startTime"], told["endTime"]) == (SINCE, UNTIL)
    rows = list(logged(api, name))
    weights = {"Online": [1] * len(rows), "Baseline": [(arm == among[0]) / p for among, arm, p, _ in rows], "Random": [1 / len(among) / p for among, arm, p, _ in rows]}
    assert [p["name"] for p in told["policyResults"]] == [p["policySource"] for p in told["policyResults"]] == list(weights)
    for result in told["policyResults"]:
        total, w = result["totalSummary"], weights[result["name"]]
        terms = [x * row[3] for x, row in zip(w, rows)]
        assert total["ipsEstimatorDenominator"] == len(rows) and total["nonZeroProbability"] == sum(x > 0 for x in w)
        assert total["ipsEstimatorNumerator"] == pytest.approx(sum(terms)) and total["averageReward"] == pytest.approx(sum(terms) / len(rows))
        assert total["snipsEstimatorDenominator"] == pytest.approx(sum(w)) and total["sumOfSquares"] == pytest.approx(sum(t * t for t in terms))
        assert total["confidenceInterval"] > 0
    assert told["policyResults"][0]["arguments"].startswith("--cb_explore_adf") and told["optimalPolicy"] == "Online"


def test_policies_are_those_that_the_tenants_own_evaluation_judges(api, name):
    """A policy in flags, and the configuration that it means asked for in the tenant's own words: equal numbers."""
    fill(api, name, 120)
    told = finished(api, name, begin(api, name, request(policy("greedy", "--cb_explore_adf --epsilon 0.1"), policy("square", "--cb_explore_adf --squarecb"))).json["id"])
    own = {k: v for k, v in api.call("GET", f"/tenants/{name}").json["configuration"].items() if k in ("algorithm", "context_dim", "arm_dim", "user_kernel", "context_kernel", "arm_kernel",
                                                                                                   "representation", "prior", "tune", "forgetting", "default_reward", "seed")}
    wanted = [{**own, "rule": {"type": "ucb", "epsilon": 0.1}, "confidence": {"type": "fixed", "beta": 0}}, {**own, "rule": {"type": "igw", "epsilon": 0, "gamma_scale": 10, "gamma_exponent": 0.5}}]
    api.call("POST", f"/tenants/{name}/evaluations", {"id": "mine", "policies": ["first", *[{"configuration": c} for c in wanted]], "from": 1}, expect=202)
    assert finished(api, name, "mine")["name"] == "mine"  # an evaluation of others is told as well as may be
    result = api.call("GET", f"/tenants/{name}/evaluations/mine").json["result"]["policies"]
    assert result[0]["name"] == result[0]["policy"] == "first"
    for there, here in zip(told["policyResults"][3:], result[1:]):
        assert there["policySource"] == "Custom" and there["totalSummary"]["averageReward"] == here["ips"]["estimate"]
        assert there["totalSummary"]["confidenceInterval"] == pytest.approx((here["ips"]["upper"] - here["ips"]["lower"]) / 2)
    assert told["policyResults"][1]["totalSummary"]["averageReward"] == result[0]["ips"]["estimate"]


def test_with_experimentation_other_rules_are_tried_and_one_can_be_put_in_force(api, name):
    fill(api, name, 120)
    told = finished(api, name, begin(api, name, request(policy("mine", "--cb_explore_adf --epsilon 0.05"), enableOfflineExperimentation=True)).json["id"])
    assert [(p["name"], p["policySource"]) for p in told["policyResults"][3:]] == [("mine", "Custom"), ("SquareCB", "OfflineExperimentation"), ("Bag", "OfflineExperimentation")]
    best = max((p for p in told["policyResults"] if p["arguments"]), key=lambda p: p["totalSummary"]["averageReward"])
    assert told["optimalPolicy"] == best["name"]
    apply = lambda body, expect: api.call("POST", path("configurations/applyFromEvaluation"), body, tenant=name, expect=expect)
    before = api.events(name)
    for body, code in (({"evaluationId": "nobody", "policyName": "mine"}, "EvaluationNotFound"), ({"evaluationId": told["id"], "policyName": "nobody"}, "LearningSettingsNotFound"),
                       ({"evaluationId": told["id"], "policyName": "Random"}, "LearningSettingsNotFound")):
        assert apply(body, 404).json["error"]["code"] == code
    assert apply({"policyName": "mine"}, 400).json["error"]["details"][0]["target"] == "/evaluationId" and api.events(name) == before
    assert apply({"evaluationId": told["id"], "policyName": "SquareCB"}, 204).text == ""
    assert api.call("GET", path("configurations/policy"), tenant=name).json == policy("SquareCB", "--cb_explore_adf --squarecb")
    assert api.call("GET", f"/tenants/{name}").json["configuration"]["rule"]["type"] == "igw"


def test_evaluations_are_listed_and_go(api, name):
    fill(api, name, 40)
    ids = []
    for _ in range(2):
        ids.append(begin(api, name, request()).json["id"])
        finished(api, name, ids[-1])
    assert [e["id"] for e in api.call("GET", path("evaluations"), tenant=name).json] == ids[::-1]
    api.call("DELETE", path(f"evaluations/{ids[0]}"), tenant=name, expect=204)
    assert [e["id"] for e in api.call("GET", path("evaluations"), tenant=name).json] == ids[1:]
    for method in ("GET", "DELETE"):
        answer = api.call(method, path(f"evaluations/{ids[0]}"), tenant=name, expect=404)
        assert answer.json["error"]["code"] == answer.headers["x-ms-error-code"] == "EvaluationNotFound"


@pytest.mark.parametrize("body, target, code", [
    ({}, "/name", "InvalidEvaluationContract"), (request(startTime="June"), "/startTime", "InvalidEvaluationContract"), (request(endTime=SINCE), "/endTime", "InvalidEvaluationContract"),
    (request(policies=None), "/policies", "InvalidEvaluationContract"), (request(*[policy(str(i), "--cb_explore_adf") for i in range(6)]), "/policies", "InvalidEvaluationContract"),
    (request("x"), "/policies/0", "InvalidEvaluationContract"), (request({"name": "x"}), "/policies/0/arguments", "InvalidEvaluationContract"),
    (request(policy("x", "--nope")), "/policies/0/arguments", "InvalidPolicyConfiguration"),
    (request(policy("x", "--cb_explore_adf"), policy("x", "--cb_explore_adf --regcb")), "/policies/1/name", "DuplicateCustomPolicyNames")])
def test_what_is_no_evaluation_is_refused_by_name_and_none_is_begun(api, name, body, target, code):
    api.put_tenant(name, algorithm="ucb", log_candidates=True)
    answer = begin(api, name, body, expect=400)
    assert answer.json["error"]["code"] == code and target in [d["target"] for d in answer.json["error"]["details"]]
    assert api.call("GET", path("evaluations"), tenant=name).json == []


def test_a_log_without_candidates_is_not_evaluated_as_if_it_had_some(api, name):
    api.put_tenant(name, algorithm="ucb")
    answer = begin(api, name, request(), expect=400)
    assert answer.json["error"]["code"] == "InvalidEvaluationContract" and "log_candidates" in answer.json["error"]["message"]


def test_a_log_that_says_nothing_fails_with_the_reason(api, name):
    api.put_tenant(name, algorithm="ucb", log_candidates=True)
    told = finished(api, name, begin(api, name, request()).json["id"])
    assert told["status"] == "failed" and told["description"]


@pytest.mark.parametrize("note", ['{"name":"x","policies":[1]}', '{"name":"x","policies":[{"name":"x"}]}', '{"name":"x","policies":[{"arguments":"-"}]}', '{"name":"x"}', "x"])
def test_a_note_of_somebody_else_is_no_evaluation_of_the_services(api, name, note):
    fill(api, name, n=20)
    api.call("POST", f"/tenants/{name}/evaluations", {"id": "e1", "policies": ["uniform"], "note": note}, expect=202)
    finished(api, name, "e1")
    api.call("POST", path("configurations/applyFromEvaluation"), {"evaluationId": "e1", "policyName": "x"}, tenant=name, expect=(400, 404, 409))
    assert api.call("GET", "/healthz").status == 200


# --- the interface of 2022 ---------------------------------------------------------------------------------------------

def test_the_interface_of_2022_has_its_version_in_the_query(api, name):
    api.put_tenant(name, algorithm="random")
    body = {"actions": [{"id": a, "features": []} for a in ACTIONS], "eventId": "e"}
    told = of_2022(api, "POST", "rank", body, tenant=name, expect=201).json
    assert told["eventId"] == "e" and told["rewardActionId"] in ACTIONS and sorted(told) == ["eventId", "ranking", "rewardActionId"]
    of_2022(api, "POST", "events/e/activate", tenant=name, expect=204)
    assert of_2022(api, "POST", "events/e/reward", {"value": 1}, tenant=name, expect=204).headers["Laplaced-Reward"] == "learned"
    for query in ({}, {"api-version": "2021-01-01"}, {"api-version": "v1.0"}):
        answer = api.call("POST", "/personalizer/rank", body, tenant=name, query=query, expect=400)
        assert "api-version" in answer.json["error"]["message"] and answer.json["error"]["code"] == answer.headers["x-ms-error-code"] == "InvalidRankRequest"
    api.call("POST", "/personalizer/v1.0/rank", body, tenant=name, query={"api-version": "2022-09-01-preview"}, expect=400)
    twice = api.call("POST", "/personalizer/rank", body, tenant=name, query=[("api-version", "2022-09-01-preview")] * 2, expect=400)
    assert "api-version" in twice.json["error"]["message"]
    api.call("POST", "/personalizer/v3.0/rank", body, tenant=name, query={"api-version": "2022-09-01-preview"}, expect=404)
    assert of_2022(api, "GET", "featureImportances", tenant=name, expect=501).json["error"]["code"] == "NotImplemented"


def test_the_settings_of_2022(api, name):
    """modelRetrainDays is required there, hence told always."""
    api.put_tenant(name, algorithm="random")
    service = of_2022(api, "GET", "configurations/service", tenant=name).json
    assert service["modelRetrainDays"] == 0 and "lastConfigurationEditDate" in service
    required = {"rewardWaitTime": "PT10M", "defaultReward": 0, "rewardAggregation": "earliest", "explorationPercentage": 0.1, "modelExportFrequency": "PT5M", "logRetentionDays": 7, "modelRetrainDays": 1}
    assert {k: v for k, v in of_2022(api, "PUT", "configurations/service", required, tenant=name).json.items() if k in required} == {**required, "rewardWaitTime": "PT600S"}
    mine = policy("mine", "--cb_explore_adf --epsilon 0.1")
    for method, body in (("PUT", mine), ("GET", None)):
        assert of_2022(api, method, "configurations/policy", body, tenant=name).json == mine
    assert of_2022(api, "GET", "model/properties", tenant=name).json.keys() == {"creationTime", "lastModifiedTime"}
    taken = of_2022(api, "GET", "model", tenant=name).content
    of_2022(api, "PUT", "model", raw=taken, kind="application/octet-stream", tenant=name, expect=204)
    of_2022(api, "DELETE", "model", tenant=name, expect=204)


def test_evaluations_of_2022_are_named_by_the_caller(api, name):
    fill(api, name, 60)
    put = lambda id, expect=200: of_2022(api, "PUT", f"evaluations/{id}", request(policy("x", "--cb_explore_adf"), enablePolicyOptimization=False), tenant=name, expect=expect)
    put("june")
    finished(api, name, "june")
    assert put("june", 400).json["error"]["code"] == "EvaluationAlreadyExists" and put("not%20one", 400)
    window = {"startTime": SINCE, "endTime": UNTIL, "intervalInMinutes": 5, "window": "Expanding"}
    told = of_2022(api, "GET", "evaluations/june", query=window, tenant=name).json
    assert told["status"] == "Succeeded" and [p["policySource"] for p in told["content"]["value"]] == ["Online", "Baseline", "Random", "Custom"]
    old = finished(api, name, "june")
    for now, before in zip(told["content"]["value"], old["policyResults"]):
        lower, upper = now["summary"]["confidenceInterval"]
        assert now["summary"]["expectedReward"] == before["totalSummary"]["averageReward"] and (upper - lower) / 2 == pytest.approx(before["totalSummary"]["confidenceInterval"])
        assert now["slotId"] == ""
    listed = of_2022(api, "GET", "evaluations", query={"top": 10, "skip": 0}, tenant=name).json
    assert [e["id"] for e in listed["value"]] == ["june"] and listed["value"][0]["status"] == "Succeeded"
    of_2022(api, "POST", "configurations/applyFromEvaluation", {"evaluationId": "june", "policyName": "x"}, tenant=name, expect=204)
    of_2022(api, "DELETE", "evaluations/june", tenant=name, expect=204)
