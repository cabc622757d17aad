"""Bodies made from schema/*.schema.json: good ones, and ones with a fault at a known place.

A case is (body, pointer): pointer None means that the schema takes the body, else it is the place of its one fault. Whatever
a schema says of a place is tried at its limit and a step beyond. Context and features have the dimensions below, which is
what a schema cannot say, and ids in a list differ."""
import copy
import functools
import json
import math
import pathlib
import re
import subprocess
import sys

from jsonschema import Draft202012Validator, RefResolver

from contract import ROOT
from harness import BIN

sys.path.insert(0, str(ROOT / "tools"))
import schemas  # noqa: E402

CONTEXT_DIM, ARM_DIM = 2, 3
PREFIX = "#/$defs/"
DEFS = schemas.schemas(PREFIX)
KINDS = {name: doc["title"] for name, doc in schemas.files().items() if name not in (schemas.COMMON, schemas.LOG)}
OTHERS = (None, True, 7.5, "x~y", ["x"], {"x": 1})  # a value of each type
SIZES = {"Context": CONTEXT_DIM, "Features": ARM_DIM}
for name in SIZES:  # tenants here have no `features`, so an object is a fault where a vector may stand; b70_names.py has those that do
    DEFS[name] = DEFS[name]["oneOf"][0]
del DEFS["Slot"]["properties"]["features"]  # likewise: b85_slots.py


def resolve(schema):
    while "$ref" in schema:
        schema = DEFS[schema["$ref"].removeprefix(PREFIX)]
    return schema


# All validators share it, since it searches every schema once for what a reference may mean.
RESOLVER = RefResolver.from_schema({"$defs": DEFS})


@functools.lru_cache(maxsize=None)
def validator(name):
    """Of a file, or of a schema by its name."""
    return Draft202012Validator({"$ref": PREFIX + KINDS.get(name, name)}, resolver=RESOLVER)


JUDGES = {}  # by the place of a schema in memory: the schema, which so keeps its place, and its validator


def fits(schema, value):
    if JUDGES.get(id(schema), [None])[0] is not schema:
        JUDGES[id(schema)] = schema, Draft202012Validator(schema, resolver=RESOLVER)
    return JUDGES[id(schema)][1].is_valid(value)


def member(plain, key):
    """The schema of a member, of a map's too, whose names are the caller's."""
    known = plain.get("properties", {})
    return known[key] if key in known else plain["additionalProperties"]


# ---- good bodies ------------------------------------------------------------------------------------------------------

def name_of(schema):
    return schema.get("$ref", "").removeprefix(PREFIX)


def alternatives(schema):
    return [resolve(s) for s in resolve(schema).get("oneOf", [schema])]


def examples(schema, key="x"):
    """Values that fit, with every member somewhere and every alternative once; the first is the fullest."""
    plain = resolve(schema)
    if "oneOf" in plain:
        return [v for s in plain["oneOf"] for v in examples(s, key)]
    if "const" in plain or "enum" in plain:
        return [plain.get("const", plain.get("enum", [None])[0])]
    kinds = plain["type"] if isinstance(plain["type"], list) else [plain["type"]]
    if is_map(plain):
        return [{f"{key}~{i}": examples(plain["additionalProperties"], key)[0] for i in range(2)}, {}]
    if plain.get("maxProperties") == 1:
        return [{k: v} for k, s in plain["properties"].items() for v in examples(s, key)]
    if kinds[0] == "object":
        members = {k: examples(s, key + k if "@" in key else k) for k, s in plain.get("properties", {"x": plain["additionalProperties"]}).items()}
        full = {k: v[0] for k, v in members.items()}
        return [full] + [{**full, k: other} for k, v in members.items() for other in v[1:]]
    if kinds[0] == "array":
        return [array_example(schema, key)]
    if name_of(schema) == "Moment":  # a time; what a key is called says which comes first
        return [f"20{40 + len(key)}-11-22T09:00:00{end}" for end in ("Z", ".500Z")]
    named = f"/{key}" if is_pointer(plain) else key
    return [{"string": named, "boolean": True, "null": None}.get(kinds[0], number_inside(plain))] + [None] * ("null" in kinds)


def is_pointer(plain):
    """A text that is a JSON pointer."""
    return plain.get("pattern", "").startswith("^(/")


def is_map(plain):
    """An object whose names are the caller's, by a rule that has a name."""
    return "$ref" in plain.get("propertyNames", {})


def array_example(schema, key):
    plain = resolve(schema)
    if "prefixItems" in plain:
        return [examples(s, f"{key}{i}")[0] for i, s in enumerate(plain["prefixItems"])]
    if "enum" in plain["items"]:
        return plain["items"]["enum"][:1]
    n = SIZES.get(name_of(schema), max(plain.get("minItems", 0), len(alternatives(plain["items"])), 2))
    return items(plain, key, n)


def items(plain, key, n):
    """n items of which no two are the same."""
    of_each = [v for v in examples(plain["items"], "@") if v is not None]
    return [json.loads(json.dumps(of_each[i % len(of_each)]).replace("@", f"{key}{i}")) for i in range(n)]


def number_inside(plain):
    lo, hi = (plain.get(end, plain.get(f"exclusive{end.title()}", otherwise)) for end, otherwise in (("minimum", 0), ("maximum", 2)))
    return max(lo, min(hi, 1)) if "integer" in plain["type"] else (lo + min(hi, 2)) / 2


# ---- cases ------------------------------------------------------------------------------------------------------------

def numbers(plain):
    """(value, whether it fits) at each end of a range."""
    step = (lambda x, way: x + way) if "integer" in plain["type"] else lambda x, way: math.nextafter(x, way * math.inf)
    for end, way in (("minimum", -1), ("maximum", 1)):
        if end in plain:
            yield plain[end], True
            yield step(plain[end], way), False
    for end, way in (("exclusiveMinimum", -1), ("exclusiveMaximum", 1)):
        if end in plain:
            yield plain[end], False
            yield step(plain[end], -way), True
    if "integer" in plain["type"]:
        yield number_inside(plain) + 0.5, False
    elif "minimum" not in plain and "exclusiveMinimum" not in plain:
        yield from ((1.7976931348623157e308, True), (-5e-324, True))


def strings(plain):
    most, pattern = plain["x-maxBytes"], re.compile(plain.get("pattern", ""))
    yield "", plain["minLength"] == 0
    longest = "/" + "x" * (most - 1) if is_pointer(plain) else "x" * most
    yield from ((longest, True), (longest + "x", False))
    yield from ((text, bool(pattern.search(text))) for text in ("é" * (most // 2), ".x", "x.Y_9-"))
    yield "é" * (most // 2) + "x" * (most % 2 + 1), False
    yield from ((f"a{c}b", False) for c in "\x01\t\n\x1f\x7f\x80\x9b\x9f")
    yield from ((text, bool(pattern.search(text))) for text in ("~/\"\\ ", "\u00a0", "\u202eabc", "\u2028", "\ufffe", "\U0001f600", "e\u0301"))


def lists(plain, key):
    if "prefixItems" in plain or "enum" in plain.get("items", {}):
        return
    least, most = plain.get("minItems", 0), plain.get("maxItems")
    yield items(plain, key, least), True
    if least > 0:
        yield items(plain, key, least - 1), False
    if most is not None and "null" not in plain["type"]:
        yield items(plain, key, most), True
        yield items(plain, key, most + 1), False


def at_value(schema, value, key):
    """(value in the place of `value`, where below it the fault is, or None) by what the schema says of the value itself."""
    plain, size = resolve(schema), SIZES.get(name_of(schema))
    has = {kind for one in alternatives(schema) for kind in ("array", "object") if kind in one.get("type", [])}
    yield from ((other, "") for other in OTHERS if not fits(plain, other) and not {list: "array", dict: "object"}.get(type(other)) in has)
    for one in alternatives(schema):
        kinds = one.get("type", "enum")
        for word in one.get("enum", []):
            yield word, None
            yield from ((word + "x", ""), (word.upper(), ""))
        if "number" in kinds or "integer" in kinds:
            yield from ((x, None if is_good else "") for x, is_good in numbers(one))
        elif kinds == "string" and "x-maxBytes" in one:
            yield from ((s, None if is_good else "") for s, is_good in strings(one))
        elif name_of(schema) == "Moment":
            yield from ((other, "") for other in ("", value[:-1], value.replace("T", " "), value.replace("-11-", "-13-"), value + "Z"))
        elif is_map(one) and isinstance(value, dict):
            yield {f"k{i}": examples(one["additionalProperties"], "x")[0] for i in range(one["maxProperties"])}, None
            yield {f"k{i}": examples(one["additionalProperties"], "x")[0] for i in range(one["maxProperties"] + 1)}, ""
            for name, is_good in strings(resolve(one["propertyNames"])):
                yield {name: examples(one["additionalProperties"], "x")[0]}, None if is_good else "/" + escape(name)
        elif size is not None and isinstance(value, list):
            yield from ((value + [0], ""), (value[1:], ""), (None, "" if name_of(schema) == "Context" else None))
        elif "array" in kinds and isinstance(value, list):
            yield from ((v, None if is_good else "") for v, is_good in lists(one, key))
            if one.get("uniqueItems"):
                yield value + value[:1], f"/{len(value)}"
    if isinstance(value, list) and "prefixItems" in plain:
        yield from ((value[:1], ""), (value + [1], ""), (value[:2], None))


def escape(key):
    return key.replace("~", "~0").replace("/", "~1")


def kinds(schema):
    """Types of a schema, or of what it is one of."""
    told = [one.get("type") for one in schema.get("oneOf", [schema])]
    return {kind for one in told for kind in (one if isinstance(one, list) else [one])}


def is_of_dimensions(one, key):
    """Whether a member is the context of a request, which a tenant of `context_dim` above 0 wants; a prior has a variance of that name, and a
    slot needs none of its own."""
    return key == "context" and key in one.get("properties", {}) and "baseline" not in one["properties"] and "number" not in kinds(resolve(one["properties"][key]))


def members(schema, value):
    """The same by what it says of members: one that is missing, one that it does not know. Of alternatives by the one that the value is of."""
    for one in alternatives(fitting(schema, value)):
        if one.get("type") == "object" and isinstance(value, dict) and not is_map(one):
            for key in value:
                if key not in one.get("properties", {}):
                    continue
                less = {k: v for k, v in value.items() if k != key}
                wanted_by = [k for k, wanted in one.get("dependentRequired", {}).items() if key in wanted and k in less]
                if "minProperties" in one:
                    yield less, ""
                    continue
                is_missed = key in one.get("required", []) or is_of_dimensions(one, key) or wanted_by
                yield less, f"/{key}" if is_missed else None
            for key in ("", "a/b~c", "__proto__", "Üñ"):
                more = one.get("additionalProperties")  # of free names, where it is a schema
                is_known = isinstance(more, dict) and fits(one.get("propertyNames", {}), key) and fits(more, 1)
                yield {**value, key: 1}, None if is_known else "/" + escape(key)
            if "minProperties" in one:
                yield {k: examples(s)[0] for k, s in one["properties"].items()}, ""


def fitting(schema, value):
    """The alternative of a schema that a value is of."""
    choices = resolve(schema).get("oneOf")
    return schema if choices is None else next((s for s in choices if fits(s, value)), schema)


def has_cases_of_its_own(schema):
    """A body of another kind: what stands deeper in it is tried there."""
    return name_of(schema) in KINDS.values()


def cases(schema, value, key="x"):
    """(body, pointer or None) for every place of a good value; see above. Of a map whose values are by one rule, the first."""
    yield from at_value(schema, value, key)
    yield from members(schema, value)
    inner = resolve(fitting(schema, value))
    if isinstance(value, dict):
        below = [(k, member(inner, k), k) for k in (list(value)[:1] if is_map(inner) else value)]
    elif isinstance(value, list):
        prefix = inner.get("prefixItems", [])
        below = [(i, prefix[i] if i < len(prefix) else inner["items"], f"{key}{i}") for i in range(len(value))]
    else:
        return
    for at, part, name in below:
        shallow = has_cases_of_its_own(part)
        inside = (*at_value(part, value[at], name), *members(part, value[at])) if shallow else cases(part, value[at], name)
        for other, pointer in inside:
            whole = copy.copy(value)
            whole[at] = other
            yield whole, None if pointer is None else f"/{escape(str(at))}{pointer}"


def cut(pointer):
    """As a problem tells it: 159 bytes at most, and no part of a character."""
    return pointer.encode()[:159].decode(errors="ignore")


def all_cases(kind):
    """Every case of a kind of body, each once: all of the fullest body, and of others what is not in that one."""
    schema, seen = {"$ref": PREFIX + KINDS[kind]}, set()
    fullest, *others = examples(schema)
    tried = [(fullest, None), *cases(schema, fullest)]
    for other in others:
        same = {k for k in other if other[k] == fullest.get(k)} if isinstance(other, dict) and isinstance(fullest, dict) else set()
        tried += [(other, None)] + [c for c in cases(schema, other) if not isinstance(c[0], dict) or all(c[0].get(k) == other[k] for k in same)]
    for body, pointer in tried:
        text = json.dumps(body)
        if text not in seen:
            seen.add(text)
            yield body, pointer


# ---- what schemas cannot say ------------------------------------------------------------------------------------------

def id_of(value):
    return value.get("id") if isinstance(value, dict) else value


def moment(text, otherwise):
    """A time, or its being left out, by the order of strings."""
    return otherwise if text is None else text.replace("Z", ".000Z") if "." not in text else text


def beyond(schema, value, name=""):
    """Names of the rules beyond the schema that a body breaks which fits it."""
    part, found = fitting(schema, value), set()
    one, name = resolve(part), name_of(part) or name_of(schema) or name
    if isinstance(value, str) and len(value.encode()) > one.get("x-maxBytes", math.inf):
        found.add("bytes")
    if name in SIZES and len(value or []) != SIZES[name] and not (value is None and name == "Features"):
        found.add("dimensions")
    if name in ("Edge", "Pair") and value[0] == value[1]:
        found.add("ties")
    if name in ("candidates", "arms", "ArmList", "slots") and len({id_of(v) for v in value}) < len(value):
        found.add("distinct")
    if "from" in one.get("properties", {}) and "allow" in one["properties"] and not moment(value.get("from"), "0") < moment(value.get("until"), "9"):
        found.add("order")
    if is_map(one):
        found.update("bytes" for k in value if len(k.encode()) > resolve(one["propertyNames"])["x-maxBytes"])
    if isinstance(value, dict):
        if is_of_dimensions(one, "context") and "context" not in value:
            found.add("dimensions")
        found.update(*(beyond(member(one, k), v, k) for k, v in value.items()))
    if isinstance(value, list):
        prefix = one.get("prefixItems", [])
        found.update(*(beyond(prefix[i] if i < len(prefix) else one["items"], v) for i, v in enumerate(value)))
    return found


def is_fine(kind, body):
    """Whether the schema takes a body, and what it cannot say is kept as well."""
    return validator(kind).is_valid(body) and not beyond({"$ref": PREFIX + KINDS[kind]}, body)


# ---- the server's verdict ---------------------------------------------------------------------------------------------

def judge(bodies):
    """Problem documents (None: taken) for (kind, body as bytes), by the decoders that the server has."""
    program = pathlib.Path(BIN).resolve().parent / "tests" / "server" / "json" / "judge"
    assert program.exists(), f"{program} is not there: run make server-tests"
    sent = b"".join(b"%s %d\n%s\n" % (kind.encode(), len(body), body) for kind, body in bodies)
    done = subprocess.run([program, str(CONTEXT_DIM), str(ARM_DIM)], input=sent, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert len(answers) == len(bodies)
    return answers


def pointers(problem):
    return [e["pointer"] for e in (problem or {}).get("errors", [])]
