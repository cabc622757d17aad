"""PATCH of a configuration and the switch of a tenant: what is named changes, all else stays, whatever happens at the same time.
The merge is held to RFC 7396 as it stands there (below, in Python), its result to a PUT of the same."""
import collections
import itertools
import json
import random
import threading
import time

import pytest
import requests

from bodies import all_cases, cut
from contract import CONTRACT, NDJSON
from harness import Client

MERGE_PATCH = "application/merge-patch+json"
PRESETS = CONTRACT.doc["components"]["schemas"]["Algorithm"]["enum"]
OF_PRESET = ("user_kernel", "context_kernel", "arm_kernel", "representation", "confidence", "rule")  # docs/decisions/0055
ALL_OF_PRESET = (*OF_PRESET, "prior", "tune")
BASELINE = {"holdout": {"share": 0.25, "baseline": {"arm": "b"}, "salt": "s"}}
ROUTED = {"routing": {**BASELINE, "sticky": {"ttl_s": 3600}}}
N_RANDOM = 400


def merge(target, patch):
    """RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def without_preset(target, patch):
    """Where a patch names the algorithm, what a preset fills is no part of what it is merged into; in challengers likewise."""
    if not isinstance(patch, dict) or not isinstance(target, dict):
        return target
    kept = {k: v for k, v in target.items() if "algorithm" not in patch or k not in ALL_OF_PRESET}
    if isinstance(patch.get("challengers"), dict) and "challengers" in kept:
        kept["challengers"] = {k: without_preset(v, patch["challengers"].get(k)) for k, v in kept["challengers"].items()}
    return kept


def wanted(configuration, patch):
    """The body of the PUT that comes to the same."""
    return merge(without_preset(configuration, patch), {k: v for k, v in patch.items() if k != "version"})


def view(client, name):
    return client.call("GET", f"/tenants/{name}").json


def patched(client, name, patch, expect=200, kind=MERGE_PATCH, **more):
    return client.call("PATCH", f"/tenants/{name}", patch, kind=kind, expect=expect, **more)


def steady(answer):
    """Of a tenant's view what a second answer has, too."""
    return {k: v for k, v in answer.items() if k not in ("log", "rebuilding", "build")}


# --- the merge ---------------------------------------------------------------------------------------------------------

def leaves(value, path=()):
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


def at(path, value):
    """{a: {b: value}}"""
    for key in reversed(path):
        value = {key: value}
    return value


def both(a, b):
    """Two patches as one; nulls are values here."""
    return {k: both(a[k], b[k]) if isinstance(a.get(k), dict) and isinstance(b.get(k), dict) else b.get(k, a.get(k)) for k in [*a, *(k for k in b if k not in a)]}


WHOLES = [{"challengers": {"one": {"algorithm": "ts"}, "two": {"rule": {"epsilon": 0.5}}}}, {"challengers": {"one": None}}, {"challengers": {"two": {"algorithm": "random", "seed": 7}}},
          {"challengers": {"one": {"algorithm": None}}}, {"challengers": {"three": {"representation": {"lambda": 2}}}}, {"guardrail": {"baseline": "one"}}, {"guardrail": {"baseline": None}},
          {"challengers": None}, {"routing": {"sticky": {"ttl_s": 60}}}, {"routing": {"sticky": None}}, {"routing": {"holdout": {"baseline": {"rule": "uniform", "arm": None}}}},
          {"routing": {"holdout": {"baseline": {"arm": "a", "rule": None}}}}, {"routing": {"stopped": True}}, {"routing": {"stopped": None}}, {"routing": None}, {"routing": {"holdout": {"share": 0.5}}},
          {"routing": {"holdout": {"baseline": {"rule": "uniform"}}}}, {"context_dim": 2}, {"arm_dim": 3}, {"arm_dim": None}, {"default_reward": None}, {"default_reward": 0.5},
          {"retention": {"events": 1000}}, {"aggregation": "sum"}, {"durability": "relaxed"}, {"seed": 5}, {"log_candidates": True}, {"reward_window_s": 0.5},
          {"promotion": {"challenger": "one", "reason": "request"}}, {"forgetting": {"type": "discount"}}, {"confidence": {"type": None}}, {"representation": {"mu": None}},
          {"representation": {"type": "threshold"}}, {"arm_kernel": {"lengthscale": "median"}}, {"user_kernel": {"type": "ones"}}, {"confidence": 3}, {"routing": []}, {"rule": "ucb"}]


def some_patch(draw, configuration):
    """Of what the configuration has a few members, with nulls, other values and other types; or of what it may have."""
    patch = {}
    for _ in range(draw.choice([1, 1, 2, 3])):
        if draw.random() < 0.5:
            patch = both(patch, draw.choice(WHOLES))
            continue
        path, value = draw.choice(list(leaves(configuration)))
        path = path[:draw.randint(1, len(path))]
        new = draw.choice([None, None, value, 0.5, 1, True, "median", {}, "none"])
        if isinstance(value, (int, float)) and not isinstance(value, bool) and draw.random() < 0.5:
            new = draw.choice([value * 2, value / 2, value + 1])
        patch = both(patch, at(path, new))
    if draw.random() < 0.15:
        patch["algorithm"] = draw.choice([*PRESETS, None])
    return patch


def same_refusal(told, put):
    return (told.status, sorted(told.pointers)) == (put.status, sorted(put.pointers))


@pytest.mark.parametrize("seed", range(4))
def test_random_patches_come_to_what_a_put_of_the_merge_does(api, name, seed):
    draw = random.Random(seed)
    before = api.put_tenant(name, algorithm=draw.choice(PRESETS), arm_dim=seed % 3)
    seen = collections.Counter()
    for i in range(N_RANDOM // 4):
        patch = some_patch(draw, before["configuration"])
        twin = api.call("PUT", f"/tenants/{name}.twin", wanted(before["configuration"], patch), expect=(200, 201, 400, 422))
        told = patched(api, name, patch, expect=(200, 400, 422), kind=draw.choice([MERGE_PATCH, "application/json"]))
        after = view(api, name)
        shown = json.dumps(patch)
        seen[told.status] += 1
        if told.status == 200:
            assert twin.status in (200, 201) and after["configuration"] == told.json["configuration"] == twin.json["configuration"], shown
            is_same = after["configuration"] == before["configuration"]
            assert (after["version"], after["seq"]) == (before["version"] + (not is_same), before["seq"] + (not is_same)), shown
            seen["same"] += is_same
            before = after
        else:
            assert same_refusal(told, twin), (shown, told.text, twin.text)
            assert steady(after) == steady(before), shown
    assert seen[200] > 20 and seen["same"] > 2 and seen[400] > 2 and seen[422] > 0, seen
    assert api.call("POST", f"/tenants/{name}/verify").json["equal"]


@pytest.mark.parametrize("preset", PRESETS)
def test_null_gives_every_field_the_default_of_its_preset(api, name, preset):
    """One field after the other is moved away, and is back where a tenant of that preset begins."""
    begin = api.put_tenant(name, algorithm=preset, arm_dim=2, context_dim=1)["configuration"]
    moved = 0
    for path, value in leaves({k: begin[k] for k in (*OF_PRESET, "forgetting", "reward_window_s", "seed", "default_reward", "retention", "routing")}):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        told = patched(api, name, at(path, value + 1 if isinstance(value, int) else value / 2), expect=(200, 400, 422))
        moved += told.status == 200
        if told.status == 200:
            assert told.json["configuration"] != begin, path
        assert patched(api, name, at(path, None)).json["configuration"] == begin, path
    assert moved > 10
    patched(api, name, {group: at(("type",), None) for group in OF_PRESET})
    assert patched(api, name, {k: None for k in begin if k not in ("algorithm", "context_dim", "arm_dim")}).json["configuration"] == begin


def test_what_is_null_in_a_configuration_stays_null_until_it_is_named(api, name):
    api.put_tenant(name, algorithm="ucb", default_reward=None)
    assert patched(api, name, {"seed": 2}).json["configuration"]["default_reward"] is None
    assert patched(api, name, {"default_reward": None}).json["configuration"]["default_reward"] == 0  # its default: docs/ROUTING says nothing of it, openapi.yaml does


@pytest.mark.parametrize("first, then", list(itertools.pairwise([*PRESETS, PRESETS[0]])))
def test_a_patch_of_the_algorithm_takes_its_preset_and_leaves_the_rest(api, name, first, then):
    own = {"reward_window_s": 77, "seed": 9, "default_reward": 0.5, "retention": {"events": 5000, "age_s": None}, "log_candidates": True, "durability": "relaxed",
           "routing": {**BASELINE, "sticky": {"ttl_s": 60}, "stopped": False}}
    fresh = api.put_tenant(f"{name}.fresh", algorithm=then, context_dim=2, arm_dim=3)["configuration"]
    begin = api.put_tenant(name, algorithm=first, context_dim=2, arm_dim=3, rule={"epsilon": 0.3}, representation={"lambda": 3}, **own)["configuration"]
    own["forgetting"] = begin["forgetting"]  # with whether changes are looked for, which the first preset has said
    got = patched(api, name, {"algorithm": then, "representation": {"exact_limit": 99}}).json["configuration"]
    assert got == {**fresh, **own, "representation": {**fresh["representation"], "exact_limit": 99}}
    assert {k: got[k] for k in own} == own


def test_forgetting_is_no_presets_and_stays(api, name):
    api.put_tenant(name, algorithm="laplaced-kors", forgetting={"type": "half_life", "half_life_s": 60})
    got = patched(api, name, {"algorithm": "ts"}).json["configuration"]
    assert got["algorithm"] == "ts" and got["forgetting"]["half_life_s"] == 60 and got["forgetting"]["type"] == "half_life"


def test_a_challengers_algorithm_takes_its_preset_too(api, name):
    api.put_tenant(name, algorithm="ucb", challengers={"b": {"algorithm": "ucb", "rule": {"epsilon": 0.5}, "seed": 4}, "a": {"algorithm": "random"}})
    got = patched(api, name, {"challengers": {"b": {"algorithm": "ts"}}}).json["configuration"]["challengers"]
    assert list(got) == ["b", "a"] and (got["b"]["rule"]["type"], got["b"]["rule"]["epsilon"], got["b"]["seed"]) == ("thompson", 0, 4)
    again = patched(api, name, {"challengers": {"a": {}, "b": {}}}).json
    assert again["version"] == 2 and list(again["configuration"]["challengers"]) == ["b", "a"]


def at_pointer(value, pointer):
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        value = value[int(step)] if isinstance(value, list) else value.get(step) if isinstance(value, dict) else None
    return value


# --- faults ---------------------------------------------------------------------------------------------------------------

BAD = [({"colour": 1}, ["/colour"]), ({"colour": None}, ["/colour"]), ({"rule": {"colour": None}}, ["/rule/colour"]), ({"routing": {"holdout": {"x": None}}}, ["/routing/holdout/x"]),
       ({"routing": {"sticky": {"x": None, "ttl_s": 1}}}, ["/routing/sticky/x"]), ({"challengers": {"c": {"x": None}}}, ["/challengers/c/x"]),
       ({"challengers": {"c": {"routing": None}}}, ["/challengers/c/routing"]), ({"seed": "x"}, ["/seed"]), ({"seed": {"a": None}}, ["/seed"]), ({"rule": []}, ["/rule"]),
       ({"algorithm": "nothing"}, ["/algorithm"]), ({"algorithm": 7}, ["/algorithm"]), ({"rule": {"epsilon": 2}}, ["/rule/epsilon"]), ({"version": 0}, ["/version"]),
       ({"version": None}, ["/version"]), ({"version": 1.5}, ["/version"]), ({"version": "1"}, ["/version"]), ({"rule": {"version": 1}}, ["/rule/version"]),
       ({"configuration": {"seed": 1}}, ["/configuration"]), ({"challengers": {"no name!": {}}}, ["/challengers/no name!"]), ({"": 1}, ["/"]), ({"": None}, ["/"]),
       ({"routing": {"holdout": {"baseline": {"arm": "a", "rule": "uniform"}}}}, ["/routing/holdout/baseline"]), ([], [""]), (7, [""]), (None, [""]), ("x", [""]),
       ({"seed": -1, "x": 1, "rule": {"epsilon": -1, "y": 0}, "arm_dim": 5000}, ["/seed", "/x", "/rule/epsilon", "/rule/y", "/arm_dim"])]


@pytest.mark.parametrize("patch, pointers", BAD, ids=[json.dumps(p)[:50] for p, _ in BAD])
def test_faults_are_named_in_the_order_of_the_patch_and_change_nothing(api, name, patch, pointers):
    before = api.put_tenant(name, algorithm="ts", **ROUTED)
    told = patched(api, name, None, raw=json.dumps(patch), expect=400)
    assert told.pointers == pointers and all(e["detail"] for e in told.json["errors"])
    assert steady(view(api, name)) == steady(before) and len(api.events(name)) == 1


def test_every_fault_of_a_configuration_is_one_of_its_patch(boot, name):
    """Those of c05_body_rules.py for the body of a PUT, as a patch: null is none there, and an object lacks nothing that is in force. There all are
    tried, here two at each place."""
    api = Client(boot("--max-magnitude", "1e30"))
    api.put_tenant(name, algorithm="laplaced-kors", routing={"sticky": {"ttl_s": 5}})
    before, n, seen = steady(view(api, name)), 0, collections.Counter()
    for body, pointer in all_cases("settings"):
        if pointer in (None, "") or at_pointer(body, pointer) in (None, {}) or seen[pointer] == 2:
            continue
        seen[pointer] += 1
        told = patched(api, name, None, raw=json.dumps(body), expect=400)
        assert told.pointers == [cut(pointer)], (pointer, told.text, json.dumps(body)[:300])
        n += 1
    assert n > 300 and steady(view(api, name)) == before


def test_combinations_are_refused_as_by_put(api, name):
    before = api.put_tenant(name, algorithm="ts", context_dim=1)
    assert patched(api, name, {"routing": {"stopped": True}}, expect=422).pointers == ["/routing/stopped"]
    assert patched(api, name, {"pending": "hallucinate", "forgetting": {"type": "discount"}}, expect=422).pointers == ["/pending"]
    assert patched(api, name, {"guardrail": {"baseline": "nobody"}}, expect=422).pointers == ["/guardrail/baseline"]
    api.observe("u", "a", 1, context=[1], tenant=name)
    assert patched(api, name, {"context_dim": 2}, expect=409).pointers == ["/context_dim"]
    assert steady(view(api, name)) | {"seq": 1, "events": 0} == steady(before)


def test_bodies_are_taken_as_elsewhere(boot):
    api = Client(boot("--max-body", "2048", "--max-dim", "64"))
    api.put_tenant("t", algorithm="ts")
    spelled = ["application/json; charset=utf-8", "Application/Merge-Patch+JSON ;q=1", "application/x-www-form-urlencoded", None]
    for n, kind in enumerate(spelled):  # the last two as curl -d has them
        answer = requests.patch(api.server.url + "/tenants/t", data=json.dumps({"seed": n + 2}).encode(), headers={"Content-Type": kind} if kind else {}, timeout=30)
        assert (answer.status_code, answer.json()["version"], answer.json()["configuration"]["seed"]) == (200, n + 2, n + 2)
    page = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://elsewhere"}
    assert requests.patch(api.server.url + "/tenants/t", data=b'{"seed": 9}', headers=page, timeout=30).status_code == 415
    for kind in (NDJSON, "application/json-patch+json", "text/plain", "application/merge-patch+jsonx"):
        assert "merge-patch+json" in patched(api, "t", {"seed": 5}, kind=kind, expect=415).json["detail"]
    for method, path in (("PUT", "/tenants/t"), ("PATCH", "/tenants/t/arms"), ("POST", "/select")):
        api.call(method, path, {}, kind=MERGE_PATCH, expect=415)
    patched(api, "t", None, raw="", expect=400)
    assert patched(api, "t", None, raw='{"seed": 5, "seed": 6}', expect=400).pointers == ["/seed"]
    patched(api, "t", None, raw="{", expect=400)
    patched(api, "t", {"routing": {"holdout": {"salt": "x" * 4096}}}, expect=413)
    told = patched(api, "t", {"arm_dim": 65}, expect=400)
    assert told.pointers == ["/arm_dim"] and told.json["limit"] == "arm_dim"
    assert view(api, "t")["version"] == 1 + len(spelled)
    patched(api, "nobody", {"seed": 1}, expect=404)
    for verb in ("stop", "start"):
        api.call("POST", f"/tenants/nobody/{verb}", expect=404)
    api.call("GET", "/tenants/nobody", expect=404)


# --- versions, and others at the same time ------------------------------------------------------------------------------------

def test_a_version_that_moved_is_a_conflict_that_names_the_one_in_force(api, name):
    api.put_tenant(name, algorithm="ts")
    assert patched(api, name, {"seed": 2, "version": 1}).json["version"] == 2
    told = patched(api, name, {"seed": 3, "version": 1}, expect=409)
    assert (told.pointers, told.json["errors"][0]["detail"]) == (["/version"], "is 2 by now")
    patched(api, name, {"seed": 3, "version": 3}, expect=409)
    patched(api, name, {"version": 1}, expect=409)
    assert (view(api, name)["version"], view(api, name)["configuration"]["seed"]) == (2, 2)
    assert patched(api, name, {"version": 2}).json["version"] == patched(api, name, {}).json["version"] == patched(api, name, {"seed": 2, "version": 2}).json["version"] == 2
    assert len(api.events(name)) == 2


def at_once(server, jobs):
    """Runs them side by side, each with a client of its own; their results in order."""
    results, start = [None] * len(jobs), threading.Barrier(len(jobs))

    def run(i):
        client = Client(server)
        start.wait()
        results[i] = jobs[i](client)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(jobs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert all(r is not None for r in results)
    return results


FIELDS = {("seed",): [3, 4, 5], ("reward_window_s",): [11, 12, 13], ("retention", "events"): [7000, 8000, 9000], ("retention", "age_s"): [70000, 80000, 90000], ("log_candidates",): [True, False, True],
          ("default_reward",): [0.5, 0.25, 0.125], ("routing", "sticky"): [{"ttl_s": 1}, {"ttl_s": 2}, {"ttl_s": 3}], ("routing", "holdout", "share"): [0.1, 0.2, 0.3],
          ("routing", "holdout", "salt"): ["x", "y", "z"], ("rule", "epsilon"): [0.1, 0.2, 0.3]}


def test_patches_of_different_fields_at_the_same_time_all_count(boot):
    """Each thread looks after a field of its own: whatever the others do, what it wrote last is there."""
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="ts", routing=BASELINE)

    def writer(path, values):
        def run(mine):
            versions = []
            for value in values:
                told = patched(mine, "t", at(path, value)).json
                assert dict(leaves(told["configuration"])).items() >= dict(leaves(at(path, value))).items()
                versions.append(told["version"])
            return versions
        return run

    def switcher(mine):
        return [mine.call("POST", f"/tenants/t/{verb}").json["version"] for verb in ("stop", "start", "stop")]
    jobs = [writer(path, values) for path, values in FIELDS.items()] + [switcher]
    versions = at_once(server, jobs)
    got = view(client, "t")
    for path, values in FIELDS.items():
        assert dict(leaves(got["configuration"])).items() >= dict(leaves(at(path, values[-1]))).items(), path
    assert got["configuration"]["routing"]["stopped"] is True and got["version"] == 1 + 3 * len(jobs)
    assert sorted(v for row in versions for v in row) == list(range(2, got["version"] + 1))
    server.restart()
    assert steady(view(client, "t")) == steady(got)


def test_of_patches_for_one_version_one_wins(boot):
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="ts")
    for version in range(1, 8):
        told = at_once(server, [lambda mine, i=i: patched(mine, "t", {"seed": 100 * version + i, "version": version}, expect=(200, 409)) for i in range(8)])
        won = [a for a in told if a.status == 200]
        assert len(won) == 1 and won[0].json["version"] == version + 1
        assert {a.json["errors"][0]["detail"] for a in told if a.status == 409} == {f"is {version + 1} by now"}
        assert view(client, "t")["configuration"] == won[0].json["configuration"]


def test_a_patch_follows_a_put_and_a_promotion_that_came_before_it(api, name):
    """What is patched is what is in force: after a promotion the challenger's, and a rollback finds the way back."""
    api.put_tenant(name, algorithm="random", challengers={"careful": {"algorithm": "ts"}})
    api.call("POST", f"/tenants/{name}/promote", {"challenger": "careful"})
    before = view(api, name)["configuration"]
    after = patched(api, name, {"reward_window_s": 60, "confidence": {"beta": 3}}).json["configuration"]
    assert after == merge(before, {"reward_window_s": 60, "confidence": {"beta": 3}})
    assert after["algorithm"] == "ts" and after["challengers"]["previous"]["algorithm"] == "random" and after["promotion"]["reason"] == "request"
    api.call("POST", f"/tenants/{name}/rollback", {"version": 2}, expect=409)
    back = api.call("POST", f"/tenants/{name}/rollback", {"version": 3}).json["configuration"]
    assert (back["algorithm"], back["challengers"]["careful"]["confidence"]["beta"], back["reward_window_s"]) == ("random", 3, 60)


def test_a_killed_server_has_what_was_answered(boot):
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="ts", **ROUTED)
    client.put_arms("t", ["a", "b"])
    for i in range(20):
        client.observe(f"u{i}", "ab"[i % 2], i, tenant="t")
    answers = [lambda: patched(client, "t", {"reward_window_s": 9}), lambda: patched(client, "t", {"algorithm": "ucb"}), lambda: client.call("POST", "/tenants/t/stop"),
               lambda: patched(client, "t", {"representation": {"lambda": 4}, "version": 4}), lambda: client.call("POST", "/tenants/t/start")]
    for n, answer in enumerate(answers):
        told = answer().json
        server.kill()
        server.start()
        assert steady(view(client, "t")) | {"parameters": 0, "seq": 0} == steady(told) | {"parameters": 0, "seq": 0} and told["version"] == n + 2
        assert [e["configuration"] for e in client.events("t") if e["type"] == "configured"][-1] == told["configuration"]
        client.wait_rebuilt("t")
        assert client.verify("t")["equal"]


# --- a PUT that forgets the algorithm -------------------------------------------------------------------------------------------

TAUGHT = {"observe": lambda api, name: api.observe("u", "a", 1, tenant=name), "decide": lambda api, name: api.select("u", candidates=["a"], tenant=name),
          "graph": lambda api, name: api.put_graph(name, [["a", "b"]]), "arms": lambda api, name: api.put_arms(name, ["a"])}


@pytest.mark.parametrize("what", TAUGHT)
def test_a_put_that_would_change_the_algorithm_unnamed_is_refused_with_the_way_out(api, name, what):
    api.put_tenant(name, algorithm="ts")
    TAUGHT[what](api, name)
    before = (view(api, name), api.events(name))
    told = api.call("PUT", f"/tenants/{name}", {"reward_window_s": 60}, expect=409)
    assert told.pointers == ["/algorithm"] and '"ts"' in told.json["errors"][0]["detail"]
    assert all(word in told.json["detail"] for word in ("ts", "laplaced", "`algorithm`", "PATCH"))
    assert (view(api, name), api.events(name)) == before
    assert patched(api, name, {"reward_window_s": 60}).json["configuration"]["algorithm"] == "ts"
    assert api.call("PUT", f"/tenants/{name}", {"algorithm": "ts", "seed": 5}).json["configuration"]["seed"] == 5
    api.call("PUT", f"/tenants/{name}", {"algorithm": "laplaced"})
    assert api.wait_rebuilt(name)["configuration"]["algorithm"] == "laplaced"
    assert api.call("PUT", f"/tenants/{name}", {"seed": 6}).json["configuration"]["seed"] == 6  # the default's own tenant


def test_a_tenant_that_has_only_been_configured_is_put_as_ever(api, name):
    for body in ({"algorithm": "ts"}, {"seed": 2}, {"algorithm": "bkb"}, {"algorithm": "sup-kernel-ucb"}, {}):
        api.call("PUT", f"/tenants/{name}", body, expect=(200, 201))
    assert view(api, name)["configuration"]["algorithm"] == "laplaced" and len(api.events(name)) == 5


def test_the_refusal_outlives_promotion_compaction_copies_and_restarts(boot):
    server = boot()
    client = Client(server, tenant="t")
    client.put_tenant("t", algorithm="laplaced", challengers={"c": {"algorithm": "ts"}})
    client.observe("u", "a", 1)
    client.call("PUT", "/tenants/t", {"challengers": {"c": {"algorithm": "ts"}}})
    client.call("POST", "/tenants/t/promote", {"challenger": "c"})

    def refused(tenant):
        assert client.call("PUT", f"/tenants/{tenant}", {}, expect=409).pointers == ["/algorithm"]
    refused("t")
    client.wait_rebuilt("t")
    client.call("POST", "/tenants/t/compact", {"keep_events": 0})
    refused("t")
    server.restart()
    refused("t")
    text = client.call("GET", "/tenants/t/export").content
    client.call("POST", "/tenants/copy/import", raw=text, kind=NDJSON, expect=201)
    refused("copy")
    assert view(client, "copy")["configuration"]["algorithm"] == "ts"


# --- the switch -------------------------------------------------------------------------------------------------------------------

def switched(client, name, verb, **more):
    return client.call("POST", f"/tenants/{name}/{verb}", **more).json


def test_a_stop_changes_the_switch_and_nothing_else(api, name):
    api.put_tenant(name, algorithm="lk-gp-ucb", arm_dim=1, challengers={"c": {"algorithm": "ts"}}, representation={"lambda": 0.5}, forgetting={"type": "discount"}, **ROUTED)
    api.put_arms(name, [{"id": a, "features": [i]} for i, a in enumerate("abc")])
    for i in range(12):
        api.observe(f"u{i}", "abc"[i % 3], i, tenant=name)
    n, before, digest = len(api.events(name)), view(api, name), api.digest(name)
    stopped = switched(api, name, "stop")
    assert stopped["configuration"] == merge(before["configuration"], {"routing": {"stopped": True}}) and stopped["parameters"] == before["parameters"]
    assert steady(switched(api, name, "stop")) == steady(stopped) and stopped["version"] == 2
    lines = api.events(name, after=n)
    assert [e["type"] for e in lines] == ["configured"] and not view(api, name)["rebuilding"]  # no model is made anew
    started = switched(api, name, "start")
    assert started["configuration"] == before["configuration"] and started["version"] == 3
    assert steady(switched(api, name, "start")) == steady(started) and len(api.events(name)) == n + 2
    assert digest != api.digest(name) and api.verify(name)["equal"]  # the version is part of the digest
    means = [r["mean"] for r in api.select("u1", explain=True, dry_run=True, tenant=name)["ranking"]]
    assert any(m != 0 for m in means)


def test_challengers_go_on_being_compared_after_a_stop(api, name):
    """What is shown meanwhile is no doing of the policy's and is not scored."""
    def scores(seq):
        end = time.monotonic() + 30
        while True:
            told = api.call("GET", f"/tenants/{name}/challengers").json["challengers"][0]
            if told["seq"] >= seq:
                return {k: v for k, v in told.items() if k not in ("seq", "bytes", "digest", "learned", "match")}  # it goes on to learn, and to be asked what it would show
            assert time.monotonic() < end, told
            time.sleep(0.1)

    def decide(n):
        for _ in range(n):
            api.reward(api.select("u", candidates=["a", "b"], tenant=name)["decision"], 1, tenant=name)
        return scores(view(api, name)["seq"])
    api.put_tenant(name, algorithm="random", default_reward=None, challengers={"c": {"algorithm": "ts"}}, routing={"holdout": {"baseline": {"arm": "a"}}})
    before = decide(20)
    assert before["decisions"] == 20
    switched(api, name, "stop")
    assert decide(5) == before
    switched(api, name, "start")
    assert decide(5)["decisions"] == 25
    patched(api, name, {"rule": {"epsilon": 0.5}})
    assert decide(5)["decisions"] == 5  # another policy


def test_users_keep_their_arms_over_a_stop(api, name):
    api.put_tenant(name, algorithm="random", routing={"holdout": {"baseline": {"arm": "a"}}, "sticky": {"ttl_s": 3600}})
    api.put_arms(name, list("abcd"))
    users = [f"u{i}" for i in range(12)]
    had = {u: api.select(u, tenant=name)["arm"] for u in users}
    switched(api, name, "stop")
    during = [api.select(u, tenant=name) for u in users]
    assert {(d["arm"], d["route"], d["propensity"]) for d in during} == {("a", "stopped", 1)}
    switched(api, name, "start")
    assert {u: (api.select(u, tenant=name)["arm"], api.select(u, tenant=name)["route"]) for u in users} == {u: (arm, "sticky") for u, arm in had.items()}


def test_propensities_are_true_while_a_tenant_is_stopped(api, name):
    """Under the rule uniform each of n arms comes with 1/n, as told and as counted; and rewards go on to teach."""
    api.put_tenant(name, algorithm="ts", routing={"holdout": {"baseline": {"rule": "uniform"}}})
    api.put_arms(name, list("abcd"))
    for i in range(50):
        api.observe(f"u{i}", "a", 1, tenant=name)
    switched(api, name, "stop")
    answers = [api.select(f"v{i}", tenant=name) for i in range(800)]
    counts = collections.Counter(d["arm"] for d in answers)
    assert {(d["propensity"], d["route"]) for d in answers} == {(0.25, "stopped")}
    assert set(counts) == set("abcd") and sum((n - 200) ** 2 / 200 for n in counts.values()) < 16.27  # chi squared of 3, 0.1 %
    learned = api.model(name)["events"]
    assert api.reward(answers[0]["decision"], 1, tenant=name) == {"applied": True} and api.model(name)["events"] == learned + 1
    lines = [e for e in api.events(name) if e["type"] == "decided"]
    assert len(lines) == 800 and all(e["route"] == "stopped" and e["propensity"] == 0.25 and "mean" not in e for e in lines)


def test_no_decision_behind_the_answer_asks_the_model(boot):
    server = boot()
    client = Client(server, tenant="t")
    client.put_tenant("t", algorithm="ucb", routing={"holdout": {"baseline": {"arm": "safe"}}})
    client.put_arms("t", ["safe", "wild"])
    for i in range(20):
        client.observe("u", "wild", 1)
    is_stopped, is_over = threading.Event(), threading.Event()

    def decide(mine):
        late = []
        while not is_over.is_set():
            was_stopped = is_stopped.is_set()
            told = mine.select("u", tenant="t", dry_run=True)
            if was_stopped:
                late.append(told.get("route"))
        return late

    def stop(mine):
        switched(mine, "t", "stop")
        is_stopped.set()
        for _ in range(30):
            mine.select("u", tenant="t")
        is_over.set()
        return True
    routes = at_once(server, [decide, decide, decide, stop])[:3]
    assert {r for row in routes for r in row} == {"stopped"}


def test_without_a_baseline_a_stop_is_refused_and_says_how(api, name):
    before = api.put_tenant(name, algorithm="ts")
    api.put_arms(name, ["a", "b"])
    told = api.call("POST", f"/tenants/{name}/stop", expect=409).json
    assert "baseline" in told["detail"] and "PATCH" in told["detail"] and view(api, name)["configuration"] == before["configuration"]
    assert switched(api, name, "start")["version"] == 1
    way_out = told["detail"].split("PATCH it with ")[1].split(", or with")[0].replace("ID", '"b"')
    got = patched(api, name, json.loads(way_out)).json["configuration"]
    assert got["routing"]["stopped"] and got["algorithm"] == "ts" and api.select("u", tenant=name)["arm"] == "b"
    assert patched(api, name, {"routing": {"holdout": {"baseline": None}}}, expect=422).pointers == ["/routing/stopped"]
    assert switched(api, name, "start")["configuration"]["routing"]["holdout"]["baseline"] == {"arm": "b"}


def test_a_tenant_at_its_quota_can_be_stopped_and_is_not_given_a_second_model(boot):
    server = boot("--tenant-quota", "1050000")
    client = Client(server, tenant="t")
    client.put_tenant("t", algorithm="lk-gp-ucb", **ROUTED)
    n = 0
    while client.call("POST", "/observe", {"user": f"u{n}", "arm": "a", "reward": 0.5}, expect=(200, 507)).status == 200:
        n += 1
    assert n > 50
    before = view(client, "t")
    patched(client, "t", {"representation": {"lambda": 0.5}}, expect=507)
    assert steady(view(client, "t")) == steady(before)
    assert patched(client, "t", {"reward_window_s": 60}).json["version"] == 2
    assert switched(client, "t", "stop")["version"] == 3 and switched(client, "t", "start")["version"] == 4
    server.restart()
    assert client.verify("t")["equal"]


def test_a_patch_pays_for_a_fold_only_when_one_can_follow(boot):
    """A bucket of 200: a thousand rewards cost 101, a fold of them 11, a small request 1."""
    client = Client(boot())
    lines = [{"user": "u", "arm": "a", "reward": 1}] * 1000

    def passed(tenant, patches):
        client.put_tenant(tenant, algorithm="ucb", **ROUTED)
        client.call("PUT", f"/tenants/{tenant}/limits", {"rate": 0.01, "burst": 200})
        client.call("POST", "/observe", lines, kind=NDJSON, tenant=tenant)
        for n, patch in enumerate(patches):
            told = client.call("POST", f"/tenants/{tenant}/{patch}", expect=(200, 429)) if isinstance(patch, str) else patched(client, tenant, patch, expect=(200, 400, 429))
            if told.status == 429:
                return n
        return None
    changing = [{"representation": {"lambda": 1 + i}} for i in range(1, 200)]
    cheap = [{"reward_window_s": 10 + i} for i in range(200)]
    following = [{"challengers": {"c": {"algorithm": "ts", "seed": i}}} for i in range(200)]
    faulty = [{"representation": {"lambda": -1}} for _ in range(20)]
    assert passed("folds", changing) in (8, 9) and passed("challengers", following) in (8, 9)
    assert 95 <= passed("books", cheap) <= 100 and 95 <= passed("same", [{}] * 200) <= 100
    assert 95 <= passed("switch", ["stop", "start"] * 100) <= 100
    assert 95 <= passed("faults", faulty + cheap) - len(faulty) <= 100  # what is refused has cost nothing
