"""`features.user`: a JSON pointer into the context says who the user is, of a Rank and of the lines of a dsjson log, and what stands there is no feature."""
import http.server
import json
import random
import subprocess
import threading

import pytest

from harness import CTL, run_ctl
from j30_personalizer import path, rank, service, targets
from names import mapped

DIM, SEED = 64, 3
ACTIONS = [{"id": "a", "features": [{"taste": "salty", "user": {"id": "kept"}}]}, {"id": "b", "features": [{"taste": "sweet"}]}]


def mapping(user="/user/id", **more):
    return {"mapping": "names-1", "dim": DIM, "seed": SEED, "user": user, **more}


def of(value):
    return mapped(value, DIM, SEED, None)


def last(api, name):
    return [e for e in api.events(name) if e["type"] == "decided"][-1]


@pytest.mark.parametrize("context, user, features", [
    ([{"user": {"id": "ann", "age": 3}, "hour": 5}], "ann", {"user": {"age": 3}, "hour": 5}),
    ([{"user": {"id": 42, "age": 3}}], "42", {"user": {"age": 3}}),
    ([{"user": {"id": 0}}], "0", {}),
    ([{"user": {"id": 9007199254740991}}], "9007199254740991", {}),
    ([{"user": {"age": 3}}, {"user": {"id": "é b"}}], "é b", {"user": {"age": 3}}),
    ([{"user": {"id": "a"}}, {"user": {"id": "b"}}], "b", {}),
    ([{"user": {"id": "a"}}, {"user": 3}], "-", {"user": 3}),
    ([{"user": [{"id": "a"}, {"age": 1}]}], "a", {"user": {"age": 1}}),
    ([{"user": {"id": ["a", "b"]}}], "b", {}),
    ([{"user": {"id": "x" * 256}}], "x" * 256, {}),
    ([{"user": {"id": None, "age": 3}}], "-", {"user": {"age": 3}}),
    ([{"user": {"id": "", "age": 3}}], "-", {"user": {"age": 3}}),
    ([{"user": {"id": False, "age": 3}}], "-", {"user": {"age": 3}}),
    ([{"user": "ann"}], "-", {"user": "ann"}),
    ([{"id": "ann", "deep": {"user": {"id": "y"}}}], "-", {"id": "ann", "deep": {"user": {"id": "y"}}}),
    ([], "-", {}), (None, "-", {})])
def test_the_context_names_the_user_and_has_no_feature_of_it(api, name, context, user, features):
    api.put_tenant(name, algorithm="ek-ucb", features=mapping())
    rank(api, name, contextFeatures=context, actions=ACTIONS[:1])
    line = last(api, name)
    assert line["user"] == user and line["context"] == of(features)
    assert line["features"] == of({"taste": "salty", "user": {"id": "kept"}})  # an action's own is a feature


@pytest.mark.parametrize("pointer, context, features", [
    ("/id", {"id": "u", "hour": 3}, {"hour": 3}), ("/a~1b/c~0d", {"a/b": {"c~d": "u", "e": 1}}, {"a/b": {"e": 1}}),
    ("/x^y/p=q", {"x^y": {"p=q": "u", "p": 1}}, {"x^y": {"p": 1}}), ("/_who", {"_who": "u", "hour": 3}, {"hour": 3}), ("/a/b/c/d/e/f/g/h", {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": "u"}}}}}}}}, {}),
    ("//x", {"": {"x": "u", "y": 2}}, {"": {"y": 2}})])
def test_the_pointer_is_a_json_pointer(api, name, pointer, context, features):
    api.put_tenant(name, algorithm="ek-ucb", features=mapping(pointer))
    assert api.call("GET", f"/tenants/{name}").json["configuration"]["features"]["user"] == pointer
    rank(api, name, contextFeatures=[context], actions=ACTIONS)
    assert last(api, name)["user"] == "u" and last(api, name)["context"] == of(features)


@pytest.mark.parametrize("pointer", ["", "/", "user", "user/id", "#/user", "/user~2", "/user~", "/" + "x" * 512, "/a" * 9, "/" + "^" * 300, 5, None, ["/user"], True])
def test_a_bad_pointer_is_refused_by_its_field(api, name, pointer):
    problem = api.call("PUT", f"/tenants/{name}", {"algorithm": "ek-ucb", "features": mapping(pointer)}, expect=400).json
    assert [e["pointer"] for e in problem["errors"]] == ["/features/user"]
    api.call("GET", f"/tenants/{name}", expect=404)


@pytest.mark.parametrize("value", [True, {}, {"id": "x"}, 1.5, -1, 2 ** 53, "x" * 257, "a\u0001b", "\x7f", "a\u0085", ["a", {"b": 1}]])
def test_what_is_no_id_is_refused_by_its_place(api, name, value):
    api.put_tenant(name, algorithm="ek-ucb", features=mapping())
    before = api.events(name)
    answer = rank(api, name, contextFeatures=[{"user": {"id": value}}], actions=ACTIONS, expect=400)
    assert targets(answer) == ["/contextFeatures/user/id"] and answer.json["error"]["code"] == "InvalidRankRequest"
    assert api.events(name) == before


def test_without_the_pointer_all_is_as_it_was(api, name):
    api.put_tenant(name, algorithm="ek-ucb", features={"mapping": "names-1", "dim": DIM, "seed": SEED})
    rank(api, name, contextFeatures=[{"user": {"id": "ann"}}], actions=ACTIONS)
    assert last(api, name)["user"] == "-" and last(api, name)["context"] == of({"user": {"id": "ann"}})
    assert "user" not in api.call("GET", f"/tenants/{name}").json["configuration"]["features"]


def test_several_slots_and_the_interface_of_2022_name_him_as_well(api, name):
    api.put_tenant(name, algorithm="ek-ucb", features=mapping())
    context = [{"user": {"id": "ann"}}, {"hour": 4}]
    slots = [{"id": "s", "baselineAction": "a", "features": [{"size": 2}]}]
    api.call("POST", path("multislot/rank", "v1.1-preview.3"), {"contextFeatures": context, "actions": ACTIONS, "slots": slots}, tenant=name, expect=201)
    assert last(api, name)["user"] == "ann" and last(api, name)["context"] == of({"hour": 4, "slot": {"size": 2}})
    api.call("POST", "/personalizer/rank", {"contextFeatures": context, "actions": ACTIONS}, query={"api-version": "2022-09-01-preview"}, tenant=name, expect=201)
    assert last(api, name)["user"] == "ann" and last(api, name)["context"] == of({"hour": 4})


def test_bodies_that_name_a_user_keep_him_and_have_the_same_vectors(api, name):
    """/select, /observe and /posterior: the same object has no feature there, or what is taught and what is asked would differ."""
    api.put_tenant(name, algorithm="ek-ucb", features=mapping())
    context = {"user": {"id": "ann", "age": 3}, "hour": 5}
    api.select("bob", candidates=[{"id": "a", "features": {"taste": "salty"}}], context=context, tenant=name)
    assert (last(api, name)["user"], last(api, name)["context"]) == ("bob", of({"user": {"age": 3}, "hour": 5}))
    api.observe("cat", {"id": "a", "features": {"taste": "salty"}}, 1.0, context=context, tenant=name)
    taught = next(e for e in api.events(name) if e["type"] == "observed")
    assert (taught["user"], taught["context"]) == ("cat", of({"user": {"age": 3}, "hour": 5}))
    body = {"users": ["cat"], "arms": [{"id": "a", "features": {"taste": "salty"}}], "context": context, "features": 9}
    told = api.call("POST", f"/tenants/{name}/posterior", body).json["features"]["changes"]
    assert {c["feature"] for c in told} == {"user^age", "hour", "taste=salty"}


def dsjson(i, context, chosen, cost):
    multi = [{"_tag": a["id"], "i": {"constant": 1, "id": a["id"]}, "j": a["features"]} for a in ACTIONS]
    return {"_label_cost": cost, "_label_probability": 0.5, "_label_Action": chosen + 1, "_labelIndex": chosen, "Timestamp": f"2026-01-02T03:04:{i:02}Z", "EventId": f"x{i}",
            "a": [chosen + 1, 2 - chosen], "p": [0.5, 0.5], "c": {"FromUrl": context, "_multi": multi}}


def written(tmp_path, lines):
    (tmp_path / "log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(tmp_path / "log")


def logged(seed, n=40):
    draw, lines = random.Random(seed), []
    for i in range(n):
        whom = draw.choice([{"id": "ann"}, {"id": "bob"}, {"id": 7}, {"id": None}, {}, {"id": ["x", "y"]}])
        context = [{"user": {**whom, "age": draw.randrange(5)}}, *([{"user": {"city": "x"}}] if draw.random() < 0.3 else []), *([{"user": 3}] if draw.random() < 0.2 else []), {"hour": i}]
        lines.append((context, draw.randrange(2), -float(draw.random() < 0.5)))
    return lines


def test_a_log_and_live_ranks_name_the_same_users(api, server, name, tmp_path):
    """Imported lines, and the same contexts ranked live: equal users and vectors, all of them."""
    api.put_tenant(name, algorithm="ek-ucb", features=mapping())
    lines = logged(1)
    run_ctl(server, "--tenant", name, "import", "--format", "dsjson", written(tmp_path, [dsjson(i, *line) for i, line in enumerate(lines)]))
    taught = [e for e in api.events(name) if e["type"] == "observed"]
    for (context, chosen, _), line in zip(lines, taught, strict=True):
        rank(api, name, contextFeatures=context, actions=[ACTIONS[chosen]])
        live = last(api, name)
        assert (live["user"], live["context"], live["features"]) == (line["user"], line["context"], line["features"]), context
    assert {e["user"] for e in taught} == {"ann", "bob", "7", "-", "y"}


def test_a_replayed_log_names_its_users(api, server, name, tmp_path):
    api.put_tenant(name, algorithm="ek-ucb", features=mapping())
    lines = logged(2, 12)
    file = written(tmp_path, [dsjson(i, *line) for i, line in enumerate(lines)])
    api.put_tenant(name + "-live", algorithm="ek-ucb", features=mapping())
    wanted = []
    for context, _, _ in lines:
        rank(api, name + "-live", contextFeatures=context, actions=ACTIONS)
        wanted.append((last(api, name + "-live")["user"], last(api, name + "-live")["context"]))
    run_ctl(server, "--tenant", name, "replay", "--format", "dsjson", file)
    assert [(e["user"], e["context"]) for e in api.events(name) if e["type"] == "observed"] == wanted


def test_an_evaluation_of_a_log_knows_its_users(tmp_path):
    """A policy that holds users apart, on one log in three forms: dsjson, NDJSON whose contexts name the user, and NDJSON that names him itself. Equal numbers; without the pointer others."""
    draw, events = random.Random(5), []
    for _ in range(150):
        user, chosen = draw.choice(["ann", "bob"]), draw.randrange(2)
        events.append((user, chosen, float((user == "ann") == (chosen == 0))))
    objects = [{"taste": "salty", "user": {"id": "kept"}}, {"taste": "sweet"}]
    candidates = [{"id": a["id"], "features": o} for a, o in zip(ACTIONS, objects)]
    forms = {
        "dsjson": [{**dsjson(i % 60, [{"user": {"id": u}, "hour": 1}], c, -r), "EventId": f"x{i}"} for i, (u, c, r) in enumerate(events)],
        "context": [{"context": {"user": {"id": u}, "hour": 1}, "arm": candidates[c], "reward": r, "propensity": 0.5, "candidates": candidates} for u, c, r in events],
        "user": [{"user": u, "context": {"hour": 1}, "arm": candidates[c], "reward": r, "propensity": 0.5, "candidates": candidates} for u, c, r in events]}

    def told(form, features):
        (tmp_path / "policy.json").write_text(json.dumps({"algorithm": "laplaced-kors", "user_kernel": {"type": "identity"}, "rule": {"type": "ucb", "epsilon": 0.1}, "features": features}))
        done = subprocess.run([CTL, "evaluate", "--format", "dsjson" if form == "dsjson" else "ndjson", "--policy", str(tmp_path / "policy.json"), "--json", written(tmp_path, forms[form])], capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()
        got = json.loads(done.stdout)
        return [got["n"], got["accepted"], got["ips"], got["snips"], got["dr"]]

    wanted = told("user", mapping())
    assert wanted[0] == 150 and told("dsjson", mapping()) == told("context", mapping()) == wanted
    assert told("dsjson", {k: v for k, v in mapping().items() if k != "user"}) != wanted


def test_a_line_whose_user_is_no_id_is_named(api, server, name, tmp_path):
    api.put_tenant(name, algorithm="ek-ucb", features=mapping())
    file = written(tmp_path, [dsjson(0, [{"user": {"id": {"a": 1}}}], 0, -1.0)])
    done = run_ctl(server, "--tenant", name, "import", "--format", "dsjson", file, expect=1)
    assert "/user/id: expected the id of a user" in done
    assert [e for e in api.events(name) if e["type"] == "observed"] == []


def test_a_line_whose_user_has_control_characters_is_a_faulty_line(api, server, name, tmp_path):
    """And not a batch that the server refuses: --skip-bad passes it, and imports the others."""
    api.put_tenant(name, algorithm="ek-ucb", features=mapping())
    file = written(tmp_path, [dsjson(i, [{"user": {"id": user}}], 0, -1.0) for i, user in enumerate(["a\u0001b", "ann", "a\u0085", "bob"])])
    done = run_ctl(server, "--tenant", name, "import", "--format", "dsjson", file, expect=1)
    assert "/user/id: expected the id of a user, without control characters" in done
    assert [e for e in api.events(name) if e["type"] == "observed"] == []
    run_ctl(server, "--tenant", name, "import", "--format", "dsjson", "--skip-bad", "2", file)
    assert [e["user"] for e in api.events(name) if e["type"] == "observed"] == ["ann", "bob"]


@pytest.mark.parametrize("pointer", ["/user~", "/user~2", "user", "/a" * 9, "/"])
def test_a_pointer_that_no_server_of_ours_tells_is_refused_by_the_importer(name, tmp_path, pointer):
    """As of a server of another version, or of what is no laplaced at all."""
    features = {"dim": DIM, "seed": SEED, "mapping": "names-1", "user": pointer}
    told = json.dumps({"configuration": {"algorithm": "ek-ucb", "context_dim": DIM, "arm_dim": DIM, "features": features}}).encode()

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        done = subprocess.run([CTL, "--server", f"http://127.0.0.1:{other.server_address[1]}", "--tenant", name, "import", "--format", "dsjson",
                               written(tmp_path, [dsjson(0, [{"user": 3}], 0, -1.0)])], capture_output=True, text=True, timeout=60)
        other.shutdown()
    assert done.returncode == 1 and "user that this program does not know" in done.stderr


def test_the_pointer_is_of_the_mapping_and_stays_once_there_are_vectors(api, name):
    api.put_tenant(name, algorithm="ek-ucb", features=mapping())
    api.call("PATCH", f"/tenants/{name}", {"features": {"user": "/who"}})  # nothing rests on it yet
    rank(api, name, contextFeatures=[{"who": "ann"}], actions=ACTIONS)
    for other in ("/user/id", None):
        problem = api.call("PATCH", f"/tenants/{name}", {"features": {"user": other}}, expect=409).json
        assert problem["errors"][0]["pointer"] == "/features"


def test_users_of_ranks_share_by_the_graph(api, name):
    """What is learned of one user's ranks counts for the neighbour and not for a stranger: the users reach the model. Explanations are of the user, too."""
    api.put_tenant(name, algorithm="laplaced-kors", features=mapping(), rule={"type": "ucb", "epsilon": 0}, confidence={"beta": 0})
    api.call("PUT", f"/tenants/{name}/graph", {"edges": [["ann", "bob", 1], ["cat", "dan", 1]]})
    service(api, name, {"isInferenceExplainabilityEnabled": True})
    for i in range(30):
        shown = rank(api, name, eventId=f"e{i}", contextFeatures=[{"user": {"id": "ann"}, "hour": 1}], actions=ACTIONS[i % 2:][:1]).json["rewardActionId"]
        api.call("POST", path(f"events/e{i}/reward"), {"value": float(shown == "b")}, tenant=name, expect=204)

    def told(user):
        answer = rank(api, name, contextFeatures=[{"user": {"id": user}, "hour": 1}], actions=ACTIONS).json
        means = api.call("POST", f"/tenants/{name}/posterior", {"users": [user], "arms": [{"id": a["id"], "features": a["features"][0]} for a in ACTIONS], "context": {"hour": 1}}).json["mean"][0]
        return answer["inferenceExplanation"][0]["features"], means

    (_, ann), (near, bob), (far, cat) = told("ann"), told("bob"), told("cat")
    assert ann[1] - ann[0] > bob[1] - bob[0] > cat[1] - cat[0]
    assert max(abs(f["score"]) for f in near) > max([abs(f["score"]) for f in far], default=0)
