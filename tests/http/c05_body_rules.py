"""The decoders say of bodies what the schemas say: at every limit of every place, for random ones, and for all faults of one."""
import collections
import copy
import json
import math
import random
import re

import pytest

from bodies import CONTEXT_DIM, KINDS, PREFIX, all_cases, alternatives, cases, cut, escape, examples, has_cases_of_its_own, is_fine, is_map, judge, pointers, resolve

N_RANDOM, N_SEVERAL = 6000, 1500


def text(body):
    return json.dumps(body, ensure_ascii=False).encode()


def is_taken(problem):
    """422 is a configuration that the schema takes and this version does not serve."""
    return problem is None or problem["status"] == 422


@pytest.mark.parametrize("kind", KINDS)
def test_every_limit_holds_at_its_place(kind):
    tried = list(all_cases(kind))
    assert len(tried) > 20
    for (body, pointer), problem in zip(tried, judge([(kind, text(b)) for b, _ in tried])):
        shown = json.dumps(body)[:300]
        assert is_fine(kind, body) == (pointer is None), (pointer, shown)
        if pointer is None:
            assert is_taken(problem), (problem, shown)
        else:
            assert problem and problem["status"] == 400 and pointers(problem) == [cut(pointer)], (pointer, problem, shown)
            assert problem["errors"][0]["detail"] and "more_errors" not in problem
            told = {(problem["limit"], problem["max"])} if "limit" in problem else set()
            assert told == too_much(kind, body, pointer), (pointer, problem, shown)


def places_of(schema, value, pointer):
    """(schema, value) for every way in which the alternatives of a schema come to a place."""
    if not pointer:
        return [(one, value) for one in alternatives(schema)]
    step, _, rest = pointer[1:].partition("/")
    step, rest = step.replace("~1", "/").replace("~0", "~"), rest and "/" + rest
    found = []
    for one in alternatives(schema):
        if is_map(one) and step in value and not rest:
            found.append((resolve(one["propertyNames"]), step))
        if isinstance(value, dict) and step in value and (step in one.get("properties", {}) or isinstance(one.get("additionalProperties"), dict)):
            found += places_of(one.get("properties", {}).get(step) or one["additionalProperties"], value[step], rest)
        elif isinstance(value, list) and ("items" in one or "prefixItems" in one):
            prefix = one.get("prefixItems", [])
            found += places_of(prefix[int(step)] if int(step) < len(prefix) else one["items"], value[int(step)], rest)
    return found


def too_much(kind, body, pointer):
    """{(limit, max)} of what is too large, too many or too long at a place. What stands in a list or a map has no name to tell, but
    for the values of an attribute."""
    name, found = pointer.rsplit("/", 1)[-1] if pointer else "rewards", set()
    is_named = re.fullmatch("[a-z_]+", name) and not re.search("/(weights|namespaces)/", pointer)  # those have names of the caller's own
    for one, value in places_of({"$ref": PREFIX + KINDS[kind]}, body, pointer):
        if is_named and isinstance(value, (int, float)) and not isinstance(value, bool) and value > one.get("maximum", math.inf):
            found.add((name, one["maximum"]))
        for of, word in ((list, "maxItems"), (dict, "maxProperties")):
            if not name.isdigit() and isinstance(value, of) and len(value) > one.get(word, math.inf) and (of is list or is_map(one)):
                found.add((name if is_named else "values", one[word]))
        if isinstance(value, str) and len(value.encode()) > one.get("x-maxBytes", math.inf):
            found.add(("string_bytes", one["x-maxBytes"]))
    return found


def names(schema, found):
    """Of all members that a schema has."""
    for part in alternatives(schema):
        for key, value in part.get("properties", {}).items():
            found.add(key)
            if not has_cases_of_its_own(value):
                names(value, found)
        for value in part.get("prefixItems", [part["items"]] if "items" in part else []):
            names(value, found)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_member_was_tried(kind):
    tried = {step for _, pointer in all_cases(kind) if pointer for step in pointer.split("/")}
    assert names({"$ref": PREFIX + KINDS[kind]}, set()) <= tried


# ---- random bodies ----------------------------------------------------------------------------------------------------

def places(value, path=()):
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def mutate(draw, body):
    """One random change of a copy."""
    body = copy.deepcopy(body)
    all_places = list(places(body))
    path = draw.choice(all_places)
    new = draw.choice([None, True, False, 0, -1, 1, 2, 0.5, 1.0, 1e300, 2**53, 17, "", "a", "é", "x" * 257, [], {}, [1, 2], ["a", "b"],
                       [0, 0, 0], {"id": "a"}, "median", "auto", "none", copy.deepcopy(at(body, draw.choice(all_places)))])
    if not path:
        return new if draw.random() < 0.3 else body
    inside, key = at(body, path[:-1]), path[-1]
    what = draw.random()
    if what < 0.25:
        del inside[key]
    elif what < 0.4 and isinstance(inside, list):
        inside.insert(key, copy.deepcopy(draw.choice([inside[key], new])))
    elif what < 0.5 and isinstance(inside, dict):
        inside[draw.choice(["user", "arm", "id", "type", "edges", "x", "", "reward", "features"])] = new
    elif what < 0.6:
        inside[key] = [inside[key]]
    elif isinstance(inside[key], (int, float)) and what < 0.8:
        inside[key] = inside[key] * draw.choice([-1, 2, 0.5, 1e6, 1e-13])
    else:
        inside[key] = new
    return body


def test_random_bodies_are_judged_as_by_another_reader_of_the_schemas():
    draw = random.Random(20261122)
    good = {kind: examples({"$ref": PREFIX + title}) for kind, title in KINDS.items()}
    tried = []
    for _ in range(N_RANDOM):
        kind = draw.choice(list(KINDS))
        body = draw.choice(good[kind])
        for _ in range(draw.choice([0, 1, 1, 1, 2, 3])):
            body = mutate(draw, body)
        tried.append((kind, body))
    n_taken = 0
    for (kind, body), problem in zip(tried, judge([(kind, text(body)) for kind, body in tried])):
        assert is_taken(problem) == is_fine(kind, body), (kind, json.dumps(body)[:400], problem)
        n_taken += is_taken(problem)
    assert N_RANDOM * 0.1 < n_taken < N_RANDOM * 0.9


# ---- several faults ---------------------------------------------------------------------------------------------------

def pointer_of(path):
    return "".join(f"/{escape(str(key))}" for key in path)


def faults(kind, good):
    """{place: bodies with a fault there}"""
    found = collections.defaultdict(list)
    for body, pointer in cases({"$ref": PREFIX + KINDS[kind]}, good):
        if pointer:
            found[pointer].append(body)
    return found


def several(draw, by_place, good):
    """A body with a few faults, and their pointers in its order."""
    body, wanted = copy.deepcopy(good), []
    if isinstance(body, dict) and draw.random() < 0.5:
        body = dict(draw.sample(list(body.items()), len(body)))  # the text's order, not the schema's
    paths = {pointer_of(p): p for p in places(good) if p}
    both = sorted(set(by_place) & set(paths))
    for pointer in draw.sample(both, min(draw.randint(2, 8), len(both))):
        path = paths[pointer]
        if any(pointer.startswith(w + "/") or w.startswith(pointer + "/") for w in wanted):
            continue
        try:
            broken = at(draw.choice(by_place[pointer]), path)
        except (KeyError, IndexError):
            continue  # the fault is that it is missing
        at(body, path[:-1])[path[-1]] = broken
        wanted.append(pointer)
    order = [pointer_of(p) for p in places(body)]
    return body, sorted(wanted, key=order.index)


def test_all_faults_of_a_body_are_told_in_its_order():
    draw, tried = random.Random(7), []
    good = [(kind, faults(kind, g), g) for kind, title in KINDS.items() for g in examples({"$ref": PREFIX + title})]
    for _ in range(N_SEVERAL):
        kind, by_place, body = draw.choice(good)
        tried.append((kind, *several(draw, by_place, body)))
    tried = [t for t in tried if t[2]]
    assert sum(len(t[2]) > 2 for t in tried) > N_SEVERAL / 4
    for (kind, body, wanted), problem in zip(tried, judge([(kind, text(body)) for kind, body, _ in tried])):
        assert problem["status"] == 400 and pointers(problem) == [cut(p) for p in wanted], (kind, json.dumps(body)[:400], wanted, problem)


def test_what_is_missing_is_told_behind_what_is_there():
    body = b'{"zz":1,"top":0,"decision":"","user":3.5}'
    assert pointers(judge([("select", body)])[0]) == ["/zz", "/top", "/decision", "/user", "/context"]
    assert pointers(judge([("observe", b'{"reward":"1"}')])[0]) == ["/reward", "/user", "/arm", "/context"]


def test_repeated_candidates_are_told_with_the_other_faults():
    body = {"top": 0, "user": "u", "candidates": ["a", "b", "a", {"id": "b"}, 7], "context": [0, 0], "explain": 1}
    assert pointers(judge([("select", text(body))])[0]) == ["/top", "/candidates/2", "/candidates/3", "/candidates/4", "/explain"]


def test_more_faults_than_are_listed_are_counted():
    body = [{"decision": "d", "reward": None}] * 45
    problem = judge([("reward", text(body))])[0]
    assert pointers(problem) == [f"/{i}/reward" for i in range(32)] and problem["more_errors"] == 13


def test_a_pointer_that_is_too_long_is_cut_between_characters():
    problem = judge([("select", text({"user": "u", "context": [0] * CONTEXT_DIM, "é" * 300: 1}))])[0]
    pointer = pointers(problem)[0]
    assert pointer == "/" + "é" * (len(pointer) - 1) and len(pointer) > 70
