"""Named features: objects where vectors may stand. Each way in gives the vector that names.py makes of the object, bit by bit; the log
has that vector; and who sends it in place of the object gets the same numbers."""
import copy
import json
import math
import random
import re
import string
import time

import numpy as np
import pytest

from contract import NDJSON, ROOT
from harness import Client, run_ctl
from names import Fault, asinh, leaves, mapped, murmur3, without

MAPPING = {"mapping": "names-1", "dim": 32, "seed": 5, "weights": {"article": 2.5, "": 0.5}}
PHONE = {"device": "phone", "hour": 13, "article": {"topic": "sport", "age_h": 2}}
SPORT, NEWS = {"topic": "sport", "length": 3}, {"topic": "news", "tags": ["a", "b"]}
EMBEDDED = {"text": {"vector": [0.25 * i - 2 for i in range(20)]}}


def of(value, mapping=MAPPING):
    return mapped(value, mapping["dim"], mapping.get("seed", 0), mapping.get("weights"), mapping.get("namespaces"))


def put_named(api, name, mapping=MAPPING, **fields):
    return api.put_tenant(name, features=mapping, **fields)


def some_name(rng):
    letters = rng.choice((string.ascii_lowercase, "ab^=\\", "äß€😀", "_x~/ "))
    return "".join(rng.choice(letters) for _ in range(rng.choice((1, 2, 3, 8, 40))))


def some_number(rng):
    return rng.choice((0, 1, -1, rng.gauss(0, 1), rng.gauss(0, 1) * 10.0 ** rng.randint(-300, 300), rng.randint(-2 ** 60, 2 ** 60), 1e308, 5e-324))


def some_value(rng, depth=0):
    kind = rng.choice("sssnnntfzoooaeE" if depth < 5 else "ssnntf")
    if kind == "o":
        return {some_name(rng): some_value(rng, depth + 1) for _ in range(rng.choice((0, 1, 2, 5)))}
    if kind == "a":
        return [v for v in (some_value(rng, depth + 1) for _ in range(rng.choice((0, 1, 3)))) if not isinstance(v, list)]
    if kind in "eE":
        return [some_number(rng) for _ in range(rng.choice((15, 16, 17) if kind == "e" else (1, 2)))]
    return {"s": rng.choice(("", "x", some_name(rng), some_name(rng) * 30)), "n": some_number(rng), "t": True, "f": False, "z": None}[kind]


def shuffled(rng, value):
    if isinstance(value, dict):
        return {k: shuffled(rng, value[k]) for k in rng.sample(list(value), len(value))}
    return [shuffled(rng, v) for v in value] if isinstance(value, list) else value


def test_asinh_is_asinh():
    rng = random.Random(1)
    for _ in range(100000):
        v = rng.gauss(0, 1) * 10.0 ** rng.randint(-320, 307)
        assert abs(asinh(v) - math.asinh(v)) <= 2 * math.ulp(math.asinh(v)), v


def test_random_objects_are_the_oracles_vectors_bit_by_bit(api, name):
    rng = random.Random(11)
    put_named(api, name, algorithm="random")
    objects = [{some_name(rng): some_value(rng, 1) for _ in range(rng.choice((0, 1, 3, 8)))} for _ in range(300)]
    lines = [{"user": "u", "context": o, "arm": {"id": "a", "features": shuffled(rng, o)}, "reward": 1} for o in objects]
    api.call("POST", "/observe", raw="\n".join(json.dumps(l, ensure_ascii=rng.random() < 0.5) for l in lines), kind=NDJSON, tenant=name)
    told = [e for e in api.events(name) if e["type"] == "observed"]
    assert len(told) == len(objects)
    for o, event in zip(objects, told):
        want = of(o)
        assert event["context"] == want, o
        assert event["features"] == want, o


@pytest.mark.parametrize("mapping", [{"mapping": "names-1"}, {"mapping": "names-1", "dim": 1}, {"mapping": "names-1", "dim": 4096, "seed": 4294967295},
                                     {"mapping": "names-1", "dim": 3, "weights": {"a": 0, "b": 1e6, "": 0.1}},
                                     {"mapping": "names-2", "dim": 40, "seed": 3, "namespaces": {"b": 7, "a": 1, "never": 5}, "weights": {"b": 2}},
                                     {"mapping": "names-2", "dim": 3, "namespaces": {"": 2}}], ids=str)
def test_each_configuration_maps_by_its_own_numbers(api, name, mapping):
    rng = random.Random(3)
    put_named(api, name, mapping, algorithm="random")
    whole = {"dim": 256, "seed": 0, "weights": {}, **mapping}
    shown = api.call("GET", f"/tenants/{name}").json["configuration"]
    assert shown["features"] == whole and shown["context_dim"] == shown["arm_dim"] == whole["dim"]
    objects = [{"a": some_value(rng, 1), "b": some_value(rng, 1), "c": some_value(rng, 1), "d": 0.5} for _ in range(4 if whole["dim"] > 999 else 20)]
    lines = [{"user": "u", "context": o, "arm": "x", "reward": 0} for o in objects]
    api.call("PUT", f"/tenants/{name}/arms", [{"id": "x", "features": {"a": {"b": 1}}}])
    api.call("POST", "/observe", raw="\n".join(map(json.dumps, lines)), kind=NDJSON, tenant=name)
    for o, event in zip(objects, [e for e in api.events(name) if e["type"] == "observed"]):
        assert event["context"] == of(o, whole), o
        assert event["features"] == of({"a": {"b": 1}}, whole)


def test_the_page_tells_the_keys_and_values_of_its_example():
    page = (ROOT / "docs/FEATURES.md").read_text().split("## To the last bit")[1]
    example = json.loads(re.search(r"`(\{.*\})` has these features", page).group(1))
    told = re.findall(r"^\| `(.*?)` \| `(.*?)` \| ([0-9.]+) \|$", page, re.M)
    assert told == [(space or '""', path if text is None else f"{path}={text}", f"{x:.5g}") for space, path, text, x, _ in leaves(example)]


# ---- every door ---------------------------------------------------------------------------------------------------------------------

def twins(api, name, **fields):
    """Two tenants of one configuration: one hears objects, the other their vectors."""
    put_named(api, f"{name}-n", **fields)
    put_named(api, f"{name}-v", **fields)
    return f"{name}-n", f"{name}-v"


def vectors(body):
    """The body with vectors in the place of objects."""
    body = copy.deepcopy(body)
    if isinstance(body.get("context"), dict):
        body["context"] = of(body["context"])
    for arm in [*body.get("candidates", []), *body.get("arms", []), body.get("arm")]:
        if isinstance(arm, dict) and isinstance(arm.get("features"), dict):
            arm["features"] = of(arm["features"])
    return body


def same(api, pair, method, path, body, kind=None):
    got = []
    for one, sent in zip(pair, (body, vectors(body))):
        answer = api.call(method, path.format(one), sent, tenant=one, kind=kind).json
        got.append({k: v for k, v in answer.items() if k not in ("decision", "name")})
    assert got[0] == got[1]
    return got[0]


@pytest.mark.parametrize("algorithm", ["laplaced", "ek-ucb", "lin-ucb", "laplaced-kors"])
def test_objects_and_their_vectors_are_one_model(api, name, algorithm):
    pair = twins(api, name, algorithm=algorithm, seed=3)
    same(api, pair, "PUT", "/tenants/{}/arms", {"arms": [{"id": "s", "features": SPORT}, {"id": "n", "features": NEWS}, {"id": "e", "features": EMBEDDED}]})
    same(api, pair, "PATCH", "/tenants/{}/arms", {"arms": [{"id": "p", "features": {"topic": "politics"}}], "remove": ["e"]})
    contexts = [PHONE, {"device": "desk"}, {}, {"hour": 2, "article": [{"topic": "news"}, {"age_h": 9}]}]
    for i in range(24):
        arm = ["s", "n", {"id": "x", "features": {"topic": "sport", "n": i}}][i % 3]
        same(api, pair, "POST", "/observe", {"user": f"u{i % 4}", "context": contexts[i % 4], "arm": arm, "reward": i % 3 / 2})
    inline = [{"id": f"i{k}", "features": {"topic": "sport", "n": k}} for k in range(5)]
    for context in contexts:
        asked = {"user": "u1", "context": context, "explain": True, "dry_run": True, "decision": "d0"}
        assert len(same(api, pair, "POST", "/select", asked)["ranking"]) == 3
        assert len(same(api, pair, "POST", "/select", {**asked, "candidates": [*inline, "s"]})["ranking"]) == 6
        same(api, pair, "POST", "/tenants/{}/posterior", {"users": ["u0", "u9"], "context": context, "arms": [*inline, "n"]})
        same(api, pair, "POST", "/tenants/{}/posterior", {"users": ["u0"], "context": context})
    same(api, pair, "POST", "/select", {"user": "u2", "context": PHONE, "candidates": inline, "decision": "d1"})
    for one in pair:
        api.reward("d1", 1, tenant=one)
    for one in pair:
        assert api.verify(one)["equal"]
    assert api.digest(pair[0]) == api.digest(pair[1])
    strip = [[{k: v for k, v in e.items() if k not in ("at", "by", "expires_at")} for e in api.events(one)] for one in pair]
    assert strip[0] == strip[1]
    decided = [e for e in strip[0] if e["type"] == "decided"]
    assert decided[0]["context"] == of(PHONE)


def test_a_vector_may_stand_where_an_object_may(api, name):
    put_named(api, name, algorithm="ek-ucb")
    plain = api.select("u", tenant=name, dry_run=True, explain=True, decision="d", context=of(PHONE), candidates=[{"id": "s", "features": of(SPORT)}, {"id": "n", "features": NEWS}])
    named = api.select("u", tenant=name, dry_run=True, explain=True, decision="d", context=PHONE, candidates=[{"id": "s", "features": SPORT}, {"id": "n", "features": of(NEWS)}])
    assert plain["ranking"] == named["ranking"]
    answer = api.select("u", tenant=name, context=of(PHONE)[:-1], candidates=["s"], expect=400)
    assert answer["errors"][0]["pointer"] == "/context"


def test_a_route_takes_an_object_as_json(api, name):
    put_named(api, name, algorithm="ek-ucb")
    api.put_arms(name, [{"id": "s", "features": SPORT}, {"id": "n", "features": NEWS}])
    api.call("GET", f"/route/{name}", query={"user": "u", "context": json.dumps(PHONE), "decision": "r1"}, expect=204)
    assert [e["context"] for e in api.events(name) if e["type"] == "decided"] == [of(PHONE)]
    for bad in ('{"a":1', '{},"user":"x"', '{"a":[[1]]}', '{"a":1}}'):
        api.call("GET", f"/route/{name}", query={"user": "u", "context": bad}, expect=400)
    api.call("GET", f"/route/{name}", query={"user": "u", "context": ",".join(map(str, of(PHONE)))}, expect=204)


def test_a_flags_context_is_features(boot):
    api = Client(boot())
    context = {"targetingKey": "ann", "country": "at", "age": 33, "cart": {"items": 3, "kinds": ["a", "b"]}, "beta": True}
    for flag in ("one", "two"):
        put_named(api, flag, {**MAPPING, "seed": len(flag) + ord(flag[0])}, algorithm="ek-ucb", routing={"sticky": {"ttl_s": 60}})
        api.put_arms(flag, [{"id": "on", "features": SPORT}, {"id": "off", "features": NEWS}])
    api.put_tenant("vectors", algorithm="ek-ucb", context_dim=2, routing={"sticky": {"ttl_s": 60}})
    api.put_arms("vectors", ["on"])
    want = of({k: v for k, v in context.items() if k != "targetingKey"}, {**MAPPING, "seed": 3 + ord("o")})
    api.call("POST", "/ofrep/v1/evaluate/flags/one", {"context": context})
    assert [e["context"] for e in api.events("one") if e["type"] == "decided"] == [want]
    refused = api.call("POST", "/ofrep/v1/evaluate/flags/one", {"context": {**context, "x": {"y": [[1]]}}}, expect=400).json
    assert refused["errorCode"] == "INVALID_CONTEXT" and "/context/x/y/0" in refused["errorDetails"], refused
    told = {f["key"]: f for f in api.call("POST", "/ofrep/v1/evaluate/flags", {"context": context}).json["flags"]}
    assert told["two"]["reason"] == "SPLIT" and "which no flag has" in told["vectors"]["errorDetails"]
    assert [e["context"] for e in api.events("two") if e["type"] == "decided"] == [of({k: v for k, v in context.items() if k != "targetingKey"}, {**MAPPING, "seed": 3 + ord("t")})]
    assert len([e for e in api.events("one") if e["type"] == "decided"]) == 2
    told = {f["key"]: f for f in api.call("POST", "/ofrep/v1/evaluate/flags", {"context": {**context, "x": [[1]]}}).json["flags"]}
    assert "an array in an array" in told["two"]["errorDetails"]


# ---- refusals -----------------------------------------------------------------------------------------------------------------------

def nested(n):
    value = 1
    for _ in range(n):
        value = {"k": value}
    return value


FAULTS = [({"a": [[1]]}, "/a/0", "an array in an array"), ({"t": ["x"] * 1001}, "/t/1000", "more than 1000 features"), (nested(9), "/k" * 9, "more than 8 deep"),
          ({"a": {"n" * 510: 1}}, "/a/" + "n" * 510, "more than 511 bytes"), ({"a~/": {"b": [{}, [2]]}}, "/a~0~1/b/1", "an array in an array")]


@pytest.mark.parametrize("value, pointer, text", FAULTS, ids=[f[2] + f[1][:8] for f in FAULTS])
def test_what_has_no_vector_is_named_by_its_place_and_changes_nothing(api, name, value, pointer, text):
    with pytest.raises(Fault) as fault:
        of(value)
    assert fault.value.pointer == pointer
    put_named(api, name, algorithm="ek-ucb")
    before = api.digest(name), api.events(name)
    fine = {"id": "b", "features": SPORT}
    places = [("POST", "/select", {"user": "u", "context": value, "candidates": [fine]}, "/context"),
              ("POST", "/select", {"user": "u", "context": {}, "candidates": [fine, {"id": "a", "features": value}]}, "/candidates/1/features"),
              ("POST", "/observe", {"user": "u", "context": {}, "arm": {"id": "a", "features": value}, "reward": 1}, "/arm/features"),
              ("POST", f"/tenants/{name}/posterior", {"users": ["u"], "context": value, "arms": [fine]}, "/context"),
              ("PUT", f"/tenants/{name}/arms", {"arms": [{"id": "a", "features": value}]}, "/arms/0/features"),
              ("PATCH", f"/tenants/{name}/arms", {"arms": [{"id": "a", "features": value}]}, "/arms/0/features")]
    for method, path, body, place in places:
        answer = api.call(method, path, body, tenant=name, expect=400).json
        assert len(answer["errors"]) == 1 and text in answer["errors"][0]["detail"], answer
        limit = {"more than 1000 features": ("features", 1000), "more than 8 deep": ("feature_depth", 8), "more than 511 bytes": ("feature_path_bytes", 511)}
        assert (answer.get("limit"), answer.get("max")) == limit.get(text, (None, None))
        assert answer["errors"][0]["pointer"] == (place + pointer)[:159][:len(answer["errors"][0]["pointer"])]
        assert len(answer["errors"][0]["pointer"]) >= min(len(place + pointer), 120)
    answer = api.call("POST", "/observe", raw=json.dumps({"user": "u", "context": {}, "arm": fine, "reward": 1}) + "\n" +
                      json.dumps({"user": "u", "context": value, "arm": fine, "reward": 1}), kind=NDJSON, tenant=name, expect=400).json
    assert answer["errors"][0]["pointer"].startswith("/1/context/")
    assert (api.digest(name), api.events(name)) == before


def test_without_the_mapping_an_object_is_refused_by_the_name_of_its_field(api, name):
    api.put_tenant(name, algorithm="ek-ucb", context_dim=2, arm_dim=2)
    answer = api.select("u", tenant=name, context=PHONE, candidates=[{"id": "a", "features": SPORT}], expect=400)
    assert [(e["pointer"], "configure `features`" in e["detail"]) for e in answer["errors"]] == [("/context", True), ("/candidates/0/features", True)]
    api.put_tenant(f"{name}-0", algorithm="ucb")
    answer = api.observe("u", {"id": "a", "features": SPORT}, 1, tenant=f"{name}-0", context=PHONE, expect=400)
    assert [(e["pointer"], "send none, or configure `features`" in e["detail"]) for e in answer["errors"]] == [("/arm/features", True), ("/context", True)]


def test_contexts_are_required_and_the_error_says_what_may_stand_there(api, name):
    put_named(api, name, algorithm="ek-ucb")
    answer = api.select("u", tenant=name, candidates=["a"], expect=400)
    assert answer["errors"][0]["pointer"] == "/context" and "an object of named features" in answer["errors"][0]["detail"]


def test_what_a_bodys_objects_become_is_bounded_beside_its_bytes(boot):
    """A vector of 256 numbers takes 2048 bytes, whatever its object takes: four of them fit into a third of 30000."""
    api = Client(boot("--max-bulk-body", "30000"), tenant="t")
    put_named(api, "t", {"mapping": "names-1"}, algorithm="ek-ucb")
    arms = [{"id": f"a{i}", "features": {}} for i in range(5)]
    line = {"user": "u", "context": {}, "arm": arms[0], "reward": 1}
    before = api.digest("t"), api.events("t")
    for method, path, body, pointer in [("PUT", "/tenants/t/arms", {"arms": arms}, "/arms/4/features"), ("PATCH", "/tenants/t/arms", {"arms": arms}, "/arms/4/features"),
                                        ("POST", "/select", {"user": "u", "context": {}, "candidates": arms}, "/candidates/3/features"),
                                        ("POST", "/tenants/t/posterior", {"users": ["u"], "context": {}, "arms": arms}, "/arms/3/features"),
                                        ("POST", "/observe", [line] * 3, "/2/")]:
        answer = api.call(method, path, body, kind=NDJSON if isinstance(body, list) else None, expect=400).json
        assert (answer["limit"], answer["max"]) == ("feature_bytes", 10000), answer
        assert answer["errors"][0]["pointer"].startswith(pointer) and "send it in parts" in answer["errors"][0]["detail"], answer
    assert (api.digest("t"), api.events("t")) == before
    api.put_arms("t", arms[:4])
    api.call("PATCH", "/tenants/t/arms", {"arms": arms[4:]})
    api.call("POST", "/observe", [line] * 2, kind=NDJSON)
    api.call("POST", "/tenants/t/posterior", {"users": ["u"], "context": {}, "arms": arms[:3]})
    assert len(api.select("u", context={}, candidates=arms[:3], explain=True)["ranking"]) == 3
    api.call("POST", "/tenants/new/import", raw=api.call("GET", "/tenants/t/export").content, kind=NDJSON, expect=(200, 201))
    assert api.digest("new") == api.digest("t")


def test_the_longest_line_that_named_arms_make_is_taken_in_again(boot):
    """As many vectors as a body may have, of numbers with as many digits as there are, and a body as long as one may be."""
    most, rng = 1 << 20, random.Random(2)
    api = Client(boot("--max-bulk-body", str(most)), tenant="t")
    put_named(api, "t", {"mapping": "names-1", "dim": 256, "weights": {"v": 1e-9}}, algorithm="random")
    arms = [{"id": f"a{i}", "features": {"v": [rng.choice((-9, -7, -8, 3)) for _ in range(999)]}} for i in range(most // 3 // 2048)]
    left = most - len(json.dumps({"arms": arms})) - 20 * len(arms)
    for arm in arms:
        arm["value"] = "x" * min(4000, left // len(arms))
    assert most * 0.98 < len(json.dumps({"arms": arms})) <= most
    api.put_arms("t", arms)
    lines = api.call("GET", "/tenants/t/export").content
    assert most * 1.2 < max(map(len, lines.splitlines())) < 2 * most
    api.call("POST", "/tenants/new/import", raw=lines, kind=NDJSON, expect=(200, 201))
    assert api.digest("new") == api.digest("t")


# ---- the configuration --------------------------------------------------------------------------------------------------------------

OWN = {"mapping": "names-2", "dim": 32, "namespaces": {"article": 8, "device": 4}}
BAD = [({}, "/features/mapping"), ({"mapping": "names-3"}, "/features/mapping"), ({**OWN, "namespaces": {"a": 0}}, "/features/namespaces/a"),
       ({**OWN, "namespaces": {"a": 1.5}}, "/features/namespaces/a"), ({**OWN, "namespaces": {f"k{i}": 1 for i in range(33)}, "dim": 64}, "/features/namespaces"),
       ({**OWN, "dim": 64, "namespaces": {f"{i:03}" * 90: 1 for i in range(3)}}, "/features/namespaces/" + "002" * 46), ({**OWN, "namespaces": {"x" * 512: 1}}, "/features/namespaces/xxx"),
       ({"mapping": "names-1", "dim": 0}, "/features/dim"),
       ({"mapping": "names-1", "dim": 4097}, "/features/dim"), ({"mapping": "names-1", "dim": 2.5}, "/features/dim"),
       ({"mapping": "names-1", "seed": -1}, "/features/seed"), ({"mapping": "names-1", "seed": 2 ** 32}, "/features/seed"),
       ({"mapping": "names-1", "weights": {"a": -1}}, "/features/weights/a"), ({"mapping": "names-1", "weights": {"a": 1000001}}, "/features/weights/a"),
       ({"mapping": "names-1", "weights": [1]}, "/features/weights"), ({"mapping": "names-1", "weights": {f"k{i}": 1 for i in range(33)}}, "/features/weights"),
       ({"mapping": "names-1", "weights": {f"{i:03}" * 90: 1 for i in range(3)}}, "/features/weights/" + "002" * 46), ({"mapping": "names-1", "dims": 3}, "/features/dims"),
       ("names-1", "/features"), ([], "/features")]


@pytest.mark.parametrize("bad, pointer", BAD, ids=lambda v: str(v)[:40])
def test_a_bad_mapping_is_named_by_its_place(api, name, bad, pointer):
    answer = api.put_tenant(name, features=bad, expect=400)
    if isinstance(bad, dict) and len(bad.get("weights", ())) == 33:
        assert (answer["limit"], answer["max"]) == ("weights", 32)
    assert answer["errors"][0]["pointer"].startswith(pointer), answer
    api.call("GET", f"/tenants/{name}", expect=404)


@pytest.mark.parametrize("bad", [{"mapping": "names-2"}, {"mapping": "names-1", "namespaces": {"a": 3}}, {**OWN, "namespaces": {}}, {**OWN, "namespaces": {"a": 30, "b": 2}}], ids=str)
def test_namespaces_and_their_mapping_belong_together(api, name, bad):
    assert api.put_tenant(name, features=bad, expect=422)["errors"][0]["pointer"] == "/features/namespaces"
    api.call("GET", f"/tenants/{name}", expect=404)


def test_dimensions_that_contradict_the_mapping_are_refused(api, name):
    for field in ("context_dim", "arm_dim"):
        answer = api.put_tenant(name, features=MAPPING, **{field: 31}, expect=422)
        assert answer["errors"] == [{"pointer": f"/{field}", "detail": "expected 32, the dim of features: leave this out"}]
    put_named(api, name, context_dim=32, arm_dim=32)


def test_the_operators_limit_of_dimensions_is_told_by_the_name_of_the_field(boot):
    api = Client(boot("--max-dim", "100"))
    answer = put_named(api, "t", {"mapping": "names-1"}, expect=400)
    assert answer["errors"][0]["pointer"] == "/features/dim" and (answer["limit"], answer["max"]) == ("dim", 100)
    put_named(api, "t", {"mapping": "names-1", "dim": 100})


def test_absent_nothing_is_said_of_it(api, name):
    api.put_tenant(name, context_dim=2)
    assert "features" not in api.call("GET", f"/tenants/{name}").json["configuration"]
    assert all("features" not in e["configuration"] for e in api.events(name) if e["type"] == "configured")
    api.put_tenant(name, context_dim=2, features=None, expect=200)
    assert len(api.events(name)) == 1


def test_a_patch_brings_it_changes_it_and_takes_it_away(api, name):
    api.put_tenant(name, algorithm="ek-ucb", seed=9)

    def patch(expect=200, **fields):
        return api.call("PATCH", f"/tenants/{name}", fields, kind="application/merge-patch+json", expect=expect).json

    shown = patch(features={"mapping": "names-1", "dim": 8})["configuration"]
    assert (shown["context_dim"], shown["arm_dim"], shown["features"]) == (8, 8, {"mapping": "names-1", "dim": 8, "seed": 0, "weights": {}})
    shown = patch(features={"dim": 16, "weights": {"a": 2, "b": 3}})["configuration"]
    assert shown["context_dim"] == 16 and shown["features"]["weights"] == {"a": 2, "b": 3}
    shown = patch(features={"weights": {"a": None}}, seed=10)["configuration"]
    assert shown["features"] == {"mapping": "names-1", "dim": 16, "seed": 0, "weights": {"b": 3}}
    assert patch(422, context_dim=4)["errors"][0]["pointer"] == "/context_dim"
    shown = patch(features=None)["configuration"]
    assert "features" not in shown and shown["context_dim"] == 16
    assert patch(422, features=None, context_dim=0, arm_dim=0)["errors"][0]["pointer"] == "/arm_kernel/type"
    assert patch(features=None, context_dim=0, arm_dim=0, algorithm="ek-ucb")["configuration"]["context_dim"] == 0


ALGORITHMS = ["laplaced", "laplaced-by-arm", "laplaced-by-component", "laplaced-kors", "ek-ucb", "lk-gp-ucb", "lin-ucb", "cmm-ucb", "bkb", "ucb", "ts", "random"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_features_that_a_patch_brings_are_read_by_the_model(api, name, algorithm):
    """As if the tenant had had them from the beginning, challengers too."""
    fields = {"algorithm": algorithm, "seed": 4, "challengers": {"own": {"confidence": {"beta": 3}}, "c1": {"algorithm": "lin-ucb"}, "c2": {"algorithm": "laplaced"}}}
    for one in (name, f"{name}-2"):
        api.call("PUT", f"/tenants/{one}", {**fields, **({"features": MAPPING} if one == name else {})}, expect=201)
    api.call("PATCH", f"/tenants/{name}-2", {"features": MAPPING}, kind="application/merge-patch+json")
    shown = [api.call("GET", f"/tenants/{one}").json["configuration"] for one in (name, f"{name}-2")]
    assert shown[0] == shown[1]
    for one in (name, f"{name}-2"):
        for i in range(12):
            api.observe("u", {"id": "ab"[i % 2], "features": (SPORT, NEWS)[i % 2]}, i // 2 % 2, tenant=one, context=({"device": "desk"}, PHONE)[i // 2 % 2])
    ask = {"users": ["u"], "arms": [{"id": "a", "features": SPORT}]}
    means = [[api.call("POST", f"/tenants/{one}/posterior", {**ask, "context": c}).json["mean"][0][0] for c in (PHONE, {"device": "desk"})] for one in (name, f"{name}-2")]
    assert means[0] == pytest.approx(means[1], rel=1e-9, abs=1e-12)
    assert (means[0][0] == means[0][1]) == (algorithm in ("ucb", "ts", "random"))


def test_what_the_patch_or_the_tenant_has_named_stays_beside_features(api, name):
    api.put_tenant(name, algorithm="laplaced", rule={"type": "rand_ucb", "epsilon": 0.3})

    def patch(one, **fields):
        return api.call("PATCH", f"/tenants/{one}", fields, kind="application/merge-patch+json").json["configuration"]

    shown = patch(name, features=MAPPING, context_kernel={"type": "matern32"})
    assert (shown["context_kernel"]["type"], shown["arm_kernel"]["type"], shown["rule"]["epsilon"]) == ("matern32", "rbf", 0.3)
    shown = patch(name, features={"seed": 6}, rule={"epsilon": 0.2})
    assert (shown["context_kernel"]["type"], shown["rule"]["epsilon"]) == ("matern32", 0.2)
    api.put_tenant(f"{name}-2", algorithm="ek-ucb", context_dim=32, context_kernel={"type": "linear"}, representation={"lambda": 0.7})
    shown = patch(f"{name}-2", features=MAPPING)
    assert (shown["context_kernel"]["type"], shown["arm_kernel"]["type"], shown["representation"]["lambda"]) == ("linear", "rbf", 0.7)


@pytest.mark.parametrize("change", [{"seed": 6}, {"weights": {}}, {"weights": {"article": 2.5, "": 0.6}}, {"mapping": "names-2", "namespaces": {"article": 8}}], ids=str)
def test_another_mapping_is_refused_once_there_are_vectors_of_this_one(api, name, change):
    put_named(api, name, algorithm="ek-ucb")
    put_named(api, name, {**MAPPING, **change}, algorithm="ek-ucb", expect=200)
    put_named(api, name, algorithm="ek-ucb", expect=200)
    api.put_arms(name, [{"id": "s", "features": SPORT}])
    before = api.digest(name), api.events(name)
    assert put_named(api, name, {**MAPPING, **change}, algorithm="ek-ucb", expect=409)["errors"][0]["pointer"] == "/features"
    assert put_named(api, name, {**MAPPING, "dim": 33}, algorithm="ek-ucb", expect=409)
    assert (api.digest(name), api.events(name)) == before
    put_named(api, name, algorithm="ek-ucb", expect=200)


def test_the_mapping_outlives_restart_snapshot_compaction_copy_and_export(boot, tmp_path):
    server = boot()
    api = Client(server)
    put_named(api, "t", algorithm="ek-ucb", reward_window_s=1)
    for i in range(20):
        api.observe(f"u{i}", {"id": "a", "features": {"n": i}}, i % 2, tenant="t", context=PHONE)
    ask = {"users": ["u1"], "context": PHONE, "arms": [{"id": "a", "features": SPORT}]}
    want = api.call("POST", "/tenants/t/posterior", ask).json
    shown = api.call("GET", "/tenants/t").json["configuration"]
    copied, lines = tmp_path / "t.db", tmp_path / "t.ndjson"
    run_ctl(server, "snapshot", "t", str(copied))
    server.kill()
    server.start()
    assert api.call("GET", "/tenants/t").json["configuration"] == shown
    assert api.call("POST", "/tenants/t/posterior", ask).json == want
    run_ctl(server, "restore", "copied", str(copied))
    run_ctl(server, "export", "t", str(lines))
    run_ctl(server, "import", "imported", str(lines))
    for name in ("copied", "imported"):
        assert api.call("GET", f"/tenants/{name}").json["configuration"] == shown
        assert api.call("POST", f"/tenants/{name}/posterior", ask).json["mean"][0] == pytest.approx(want["mean"][0], rel=1e-12)
    api.call("POST", "/tenants/t/compact", {"keep_events": 0}, expect=(200, 202))
    assert api.verify("t")["equal"]
    server.kill()
    server.start()
    assert api.call("GET", "/tenants/t").json["configuration"] == shown
    assert api.call("POST", "/tenants/t/posterior", ask).json["mean"][0] == pytest.approx(want["mean"][0], rel=1e-12)


# ---- weights of namespaces --------------------------------------------------------------------------------------------------------

SPACES = {"mapping": "names-2", "dim": 48, "namespaces": {"tells": 12, "noise": 12, "more": 12}}


def told_context(rng):
    return {"tells": {"k": rng.choice("ab")}, "noise": {"k": f"n{rng.randrange(9)}"}, "more": {"k": f"m{rng.randrange(9)}", "l": rng.random()}}


def teach(api, tenant, rng, n):
    """The reward follows the namespace `tells`, and the arm."""
    lines = []
    for _ in range(n):
        context, arm = told_context(rng), rng.choice("xy")
        reward = float(rng.random() < (0.9 if (context["tells"]["k"] == "a") == (arm == "x") else 0.1))
        lines.append({"user": "u", "context": context, "arm": {"id": arm, "features": {}}, "reward": reward})
    api.call("POST", "/observe", raw="\n".join(map(json.dumps, lines)), kind=NDJSON, tenant=tenant)


def settle(api, tenant, rng):
    """Some 250 rewards, and no refit that is due."""
    teach(api, tenant, rng, 200)
    for _ in range(100):
        teach(api, tenant, rng, 1)
        model = api.call("GET", f"/tenants/{tenant}/model").json
        if model["scales"]["next"] > 300 and model["scales"]["history"][-1]["rewards"] > 150:
            return
        time.sleep(0.1)
    raise AssertionError(model["scales"])


def weights_of(api, tenant):
    return api.call("GET", f"/tenants/{tenant}/model").json["scales"]["namespaces"]


def test_rewards_weigh_namespaces_and_a_fold_reads_the_weights(boot):
    """Four seeds: what tells the reward outweighs what tells nothing. A refit's event has the numbers, and a start, a copy and a fold have the same."""
    server = boot()
    api = Client(server)
    for seed in range(4):
        put_named(api, f"t{seed}", SPACES, algorithm="laplaced-by-arm")
        settle(api, f"t{seed}", random.Random(seed))
        weights = weights_of(api, f"t{seed}")
        assert list(weights) == ["more", "noise", "tells"]
        assert weights["tells"] > 2 * max(weights["noise"], weights["more"]), weights
        tuned = [e for e in api.events(f"t{seed}") if e["type"] == "tuned"][-1]
        assert [1 / (s * s) for s in tuned["scale"]] == pytest.approx(list(weights.values()), rel=1e-14)
        assert tuned["scales"]["evidence_after"] >= tuned["scales"]["evidence_before"]
        assert api.verify(f"t{seed}")["equal"]
    want = {f"t{seed}": (weights_of(api, f"t{seed}"), api.digest(f"t{seed}")) for seed in range(4)}
    server.kill()
    server.start()
    assert {t: (weights_of(api, t), api.digest(t)) for t in want} == want
    lines = api.call("GET", "/tenants/t0/export").content
    api.call("POST", "/tenants/new/import", raw=lines, kind=NDJSON, expect=(200, 201))
    assert (weights_of(api, "new"), api.digest("new")) == want["t0"]
    api.call("POST", "/tenants/t1/compact", {"keep_events": 0}, expect=(200, 202))
    assert weights_of(api, "t1") == want["t1"][0] and api.verify("t1")["equal"]


def test_weights_of_namespaces_are_those_of_coordinates_in_the_model(api, name):
    """A prediction is that of the dense formula, in which each namespace's coordinates are divided by its scale."""
    put_named(api, name, SPACES, algorithm="laplaced-by-arm")
    rng = random.Random(9)
    teach(api, name, rng, 60)
    events = api.events(name)
    tuned = [e for e in events if e["type"] == "tuned"][-1]
    scales, by_space = tuned["scales"], dict(zip(sorted(SPACES["namespaces"]), tuned["scale"]))
    divide = np.array([by_space[s] for s in sorted(SPACES["namespaces"]) for _ in range(12)] + [1.0] * 12)
    told = [e for e in events if e["type"] == "observed"]

    def kernel(a, b):
        a, b = np.array(a) / divide, np.array(b) / divide
        return scales["arm"] + scales["user"] * 0 + scales["context"] * np.exp(-((a - b) ** 2).sum() / 2 / scales["lengthscale"] ** 2) + scales["linear"] * (a @ b) / 48

    for arm in "xy":
        rows = [e for e in told if e["arm"] == arm]
        gram = np.array([[kernel(e["context"], f["context"]) for f in rows] for e in rows]) + scales["noise"] * np.eye(len(rows))
        weights = np.linalg.solve(gram, np.array([e["reward"] for e in rows]) - scales["mean"])
        for _ in range(3):
            context = told_context(rng)
            seen = of(context, SPACES)
            want = scales["mean"] + sum(w * kernel(e["context"], seen) for w, e in zip(weights, rows))
            ask = {"users": ["u"], "arms": [{"id": arm, "features": {}}], "context": context, "features": 4}
            answer = api.call("POST", f"/tenants/{name}/posterior", ask).json
            assert answer["mean"][0][0] == pytest.approx(want, rel=1e-9, abs=1e-9)
            for moved in answer["features"]["changes"]:
                left = without(context, moved["feature"])
                less = scales["mean"] + sum(w * kernel(e["context"], of(left, SPACES)) for w, e in zip(weights, rows))
                assert moved["change"] == pytest.approx(want - less, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("fields", [{"tune": False}, {"context_kernel": {"lengthscale": 1}}, {"context_kernel": {"lengthscale": "median"}}, {"features": {**SPACES, "dim": 1025}}], ids=str)
def test_where_scales_are_told_namespaces_have_none(api, name, fields):
    put_named(api, name, **{"mapping": SPACES, "algorithm": "laplaced-by-arm", **{k: v for k, v in fields.items() if k != "features"}, **({"mapping": fields["features"]} if "features" in fields else {})})
    teach(api, name, random.Random(1), 20)
    scales = api.call("GET", f"/tenants/{name}/model").json["scales"]
    assert "namespaces" not in scales and "scale" not in scales


# ---- logs of others -----------------------------------------------------------------------------------------------------------------

def dsjson_line(rng, i, context, actions):
    chosen = rng.randrange(len(actions))
    return {"_label_cost": -(i % 3) / 2, "_label_probability": 1 / len(actions), "_label_Action": chosen + 1, "_labelIndex": chosen, "EventId": f"e{i}",
            "Timestamp": "2021-02-04T16:31:29.2460000Z", "a": [chosen + 1, *(k + 1 for k in range(len(actions)) if k != chosen)], "p": [1 / len(actions)] * len(actions),
            "c": {**context, "_multi": [{"_tag": f"arm{k}", **a} for k, a in enumerate(actions)]}}, chosen


APART = {"mapping": "names-2", "dim": 64, "seed": 3, "namespaces": {"User": 12, "i": 10, "slot": 8}, "weights": {"User": 2.5}}


def posted(api, path, body, tenant, expect=200):
    return api.call("POST", path, body, tenant=tenant, expect=expect).json


@pytest.mark.parametrize("mapping, algorithm", [(MAPPING, "ek-ucb"), (APART, "ek-ucb"), (APART, "laplaced-by-arm")], ids=["names-1", "names-2", "weighed"])
def test_a_log_and_live_requests_of_the_same_json_are_the_same_vectors(server, api, name, tmp_path, mapping, algorithm):
    """And the same scores, of a model that weighs namespaces by what the log has taught it, too: of decisions, of ranks through another door, and of slots."""
    rng, lines, lived = random.Random(5), [], []
    pair = twins(api, name, mapping=mapping, algorithm=algorithm, default_reward=None)
    for i in range(60):
        context = {"User": {"age": rng.randint(1, 90), "town": some_name(rng).lstrip("_")}, "_private": 1, "n": some_value(rng, 2), "deep": {"v": some_value(rng, 2)}}
        actions = [{"i": {"topic": rng.choice("abc"), "x": some_value(rng, 3)}, "k": [{"len": rng.random()}, {"tags": ["p", some_name(rng)]}]} for _ in range(3)]
        line, chosen = dsjson_line(rng, i, context, actions)
        lines.append(json.dumps(line, ensure_ascii=i % 2 == 0))
        lived.append({"user": "-", "context": line["c"], "arm": {"id": f"arm{chosen}", "features": line["c"]["_multi"][chosen]}, "reward": (i % 3) / 2,
                      "propensity": 1 / 3})
    log = tmp_path / "log.dsjson"
    log.write_text("\n".join(lines) + "\n")
    run_ctl(server, "import", "--format", "dsjson", "--tenant", pair[0], str(log))
    api.call("POST", "/observe", raw="\n".join(map(json.dumps, lived)), kind=NDJSON, tenant=pair[1])
    told = [[e for e in api.events(one) if e["type"] == "observed"] for one in pair]
    assert len(told[0]) == 60
    for imported, live, body in zip(*told, lived):
        assert (imported["context"], imported["features"]) == (live["context"], live["features"]) == (of(body["context"], mapping), of(body["arm"]["features"], mapping))
    ask = {"users": ["-"], "context": lived[0]["context"], "arms": [lived[1]["arm"]]}
    assert len({json.dumps(api.call("POST", f"/tenants/{one}/posterior", ask).json["mean"]) for one in pair}) == 1
    if algorithm == "laplaced-by-arm":
        assert weights_of(api, pair[0]) == weights_of(api, pair[1]) != {space: 1 for space in mapping["namespaces"]}
    for body in lived[:8]:
        context = {k: v for k, v in body["context"].items() if k != "_multi"}
        actions = [{"id": a["_tag"], "features": a} for a in body["context"]["_multi"]]
        ask = {"user": "-", "context": context, "candidates": actions, "explain": True, "dry_run": True, "decision": "same"}
        scores = [posted(api, "/select", ask, one)["ranking"] for one in pair]
        assert scores[0] == scores[1] and len(scores[0]) == 3
        ranked = posted(api, "/personalizer/v1.0/rank", {"contextFeatures": [context], "actions": [{**a, "features": [a["features"]]} for a in actions]}, pair[0], expect=201)
        slots = posted(api, "/personalizer/v1.1-preview.3/multislot/rank",
                       {"contextFeatures": [context], "actions": [{**a, "features": [a["features"]]} for a in actions],
                        "slots": [{"id": "s", "features": [{"wide": 3}], "baselineAction": actions[0]["id"]}]}, pair[0], expect=201)
        decided = {e["decision"]: e for e in api.events(pair[0]) if e["type"] == "decided"}
        for told, seen in ((ranked, context), (slots, {**context, "slot": {"wide": 3}})):
            line = decided[told["eventId"]]
            shown = next(a for a in actions if a["id"] == line["arm"])
            assert (line["context"], line["features"]) == (of(seen, mapping), of(shown["features"], mapping))
        assert {r["id"]: r["probability"] for r in ranked["ranking"]} == {r["arm"]: r["propensity"] for r in scores[0]}


def test_a_log_with_what_has_no_vector_is_named_by_line_and_place(server, api, name, tmp_path):
    put_named(api, name, algorithm="ek-ucb")
    log = tmp_path / "log.dsjson"
    log.write_text(json.dumps(dsjson_line(random.Random(1), 0, {"a": {"b": [[1]]}}, [{}, {}])[0]) + "\n")
    ran = run_ctl(server, "import", "--format", "dsjson", "--tenant", name, str(log), expect=1)
    assert "log.dsjson:1: c: /a/b/0: an array in an array" in ran
    assert not [e for e in api.events(name) if e["type"] == "observed"]


def test_a_tenant_without_the_mapping_learns_a_log_as_before(server, api, name, tmp_path):
    """Names hashed as they were, without norms: h and sign are the same function."""
    api.put_tenant(name, algorithm="ek-ucb", context_dim=16, arm_dim=16)
    log = tmp_path / "log.dsjson"
    log.write_text(json.dumps(dsjson_line(random.Random(1), 0, {"u": {"age": 3}}, [{"k": "v"}])[0]) + "\n")
    run_ctl(server, "import", "--format", "dsjson", "--tenant", name, str(log))
    event = [e for e in api.events(name) if e["type"] == "observed"][0]
    h = murmur3(b"u^age", 0)
    assert event["context"] == [(-3.0 if h & 1 else 3.0) if i == h * 16 >> 32 else 0 for i in range(16)]


def test_evaluate_reads_objects_as_the_policys_configuration_maps_them(server, tmp_path):
    """The estimates are those of the same log with the vectors that the oracle makes."""
    rng, named, mapped_lines = random.Random(9), [], []
    for i in range(120):
        context, arm = {"u": {"town": rng.choice("xyz"), "age": rng.randint(1, 60)}}, rng.choice("abc")
        line = {"user": f"u{i % 5}", "arm": {"id": arm, "features": {"topic": arm, "n": ord(arm)}}, "context": context, "reward": rng.random(), "propensity": 1 / 3}
        named.append(line)
        mapped_lines.append({**line, "context": of(context), "arm": {"id": arm, "features": of(line["arm"]["features"])}})
    told = []
    for lines, fields in ((named, {"features": MAPPING}), (mapped_lines, {"context_dim": 32, "arm_dim": 32})):
        log, config = tmp_path / "log.ndjson", tmp_path / "policy.json"
        log.write_text("\n".join(map(json.dumps, lines)) + "\n")
        config.write_text(json.dumps({"algorithm": "ek-ucb", **fields}))
        ran = run_ctl(server, "--json", "evaluate", "--format", "ndjson", "--policy", str(config), "--policy", "uniform", "--resamples", "60", str(log))
        told.append([{k: v for k, v in p.items() if k != "cpu_seconds"} for p in json.loads(ran)["policies"]])
    assert told[0] == told[1] and told[0]


def test_an_arms_id_is_a_feature_with_a_weight(api, name):
    """In a namespace of its own it adds its weight to an arm's product with itself, and nothing to those with others: what a weight of ids would."""
    mapping = {"mapping": "names-2", "dim": 128, "weights": {"self": 3}, "namespaces": {"self": 64}}
    put_named(api, name, mapping, algorithm="ek-ucb")
    arms = [{"id": a, "features": {"topic": topic, "self": {"id": a}}} for a, topic in (("tea", "hot"), ("cocoa", "hot"), ("cola", "cold"))]
    api.put_arms(name, arms)
    put = api.events(name)[-1]["put"]
    assert [a["features"] for a in put] == [of(a["features"], mapping) for a in arms]
    with_ids, without_ids = (np.array([of(f, mapping) for f in given]) for given in ([a["features"] for a in arms], [{"topic": a["features"]["topic"]} for a in arms]))
    assert with_ids @ with_ids.T == pytest.approx(without_ids @ without_ids.T + 3 * np.eye(3), abs=1e-12)
