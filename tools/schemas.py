#!/usr/bin/env python3
"""schema/*.schema.json say what a body and a line of the log may be. This writes what repeats them:

    openapi.yaml              its schemas from MARK on, which are those of schema/ by their names
    openapi-3.0.yaml          openapi.yaml for tools that read OpenAPI 3.0 (openapi30.py)
    server/json/rules.[ch]    names, limits and words of the bodies, for the decoders
    tools/clients/            the version, which stands in server/base/version.h; so do openapi.yaml and openapi-3.0.yaml

    tools/schemas.py            writes them
    tools/schemas.py --check    says which are not as schema/ has them; exit status 1 then

`ConfigurationPatch`, the body of PATCH /tenants/{t}, and the schemas of its parts have no file: they are made of those of a configuration.

A schema's name is the title of its file, or its name in `$defs`. `x-maxBytes`, `x-maxLines` and `x-maxDepth` are limits
that JSON Schema has no word for; what has `x-magnitude` may be bounded closer by the server. Building the server needs neither Python nor this: what it writes is committed.
"""
import json
import pathlib
import re
import sys
import textwrap

import yaml

import openapi30

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "schema"
COMMON, LOG = "common", "event"
PREFIX = "#/components/schemas/"
MARK = "    # From here on written by tools/schemas.py, from schema/*.schema.json.\n"
WIDTH = 118


# ---- schema/ ----------------------------------------------------------------------------------------------------------

def files():
    """Name of the file without its ending -> its document; what others refer to comes first."""
    names = sorted((p.name.removesuffix(".schema.json") for p in FOLDER.glob("*.schema.json")),
                   key=lambda n: (n != COMMON, n == LOG, n))
    return {n: json.loads((FOLDER / f"{n}.schema.json").read_text()) for n in names}


def walk(node, change):
    """A copy of node with each of its references changed."""
    if isinstance(node, dict):
        return {k: change(v) if k == "$ref" else walk(v, change) for k, v in node.items()}
    return [walk(v, change) for v in node] if isinstance(node, list) else node


def schemas(prefix=PREFIX):
    """Every schema by its name, file after file, with references that begin with prefix."""
    documents, found = files(), {}
    for file, document in documents.items():
        def change(ref, file=file):
            other, _, inside = ref.partition("#")
            target = documents[other.removesuffix(".schema.json") if other else file]
            return prefix + (inside.removeprefix("/$defs/") or target["title"])
        parts = dict(document.get("$defs", {}))
        if file != COMMON:
            own = {k: v for k, v in document.items() if k not in ("$schema", "title", "$defs")}
            parts = {document["title"]: own, **parts}
        for name, part in parts.items():
            assert name not in found, f"two schemas are called {name}"
            found[name] = walk(part, change)
    return {**found, **patches(found, prefix)}


# ---- the merge patch of a configuration (RFC 7396) ----------------------------------------------------------------------

def patches(found, prefix):
    """The schemas of what PATCH /tenants/{t} takes: those of a configuration, with every member optional and null for each. The
    decoder has no tables of them: it reads what the merge comes to."""
    made = {}

    def inside(schema):
        """The schema of what may stand at a place, but for null."""
        name = schema.get("$ref", "").removeprefix(prefix)
        if name and "object" == found[name].get("type"):
            if f"{name}Patch" not in made:
                made[f"{name}Patch"] = None  # of a schema that refers to itself, once
                made[f"{name}Patch"] = patch(found[name])
            return {"$ref": f"{prefix}{name}Patch"}
        if "oneOf" in schema:
            return {"oneOf": [inside(s) for s in schema["oneOf"] if s.get("type") != "null"]}
        return patch(schema) if schema.get("type") == "object" else {k: v for k, v in schema.items() if k not in ("description", "default")}

    def nullable(schema):
        kept = inside(schema)
        if "null" in kept.get("type", []):
            return kept
        return {"oneOf": [*(kept["oneOf"] if set(kept) == {"oneOf"} else [kept]), {"type": "null"}]}

    def patch(schema):
        kept = {k: v for k, v in schema.items() if k not in ("description", "required", "minProperties", "maxProperties", "properties")}
        if "properties" in schema:
            kept["properties"] = {k: nullable(v) for k, v in schema["properties"].items()}
        if isinstance(schema.get("additionalProperties"), dict):
            kept["additionalProperties"] = nullable(schema["additionalProperties"])
        return kept

    inside({"$ref": prefix + "Configuration"})
    whole = made["ConfigurationPatch"]
    version = {**found["RollbackRequest"]["properties"]["version"], "description": "Of the configuration that this was made for: refused (409) when there is another by now."}
    made["ConfigurationPatch"] = {"description": "The body of PATCH /tenants/{t}, a merge patch: null gives a field its default.", **whole,
                                  "properties": {**whole["properties"], "version": version}}
    return dict(sorted(made.items()))


def bundle(name):
    """The schema of a file, or a part of one, as a document that refers to nothing outside."""
    documents = files()
    title = documents[name]["title"] if name in documents else name
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": f"#/$defs/{title}", "$defs": schemas("#/$defs/")}


# ---- openapi.yaml -----------------------------------------------------------------------------------------------------

def scalar(value):
    """A scalar as YAML writes it in a flow: plain where it reads back as itself."""
    if not isinstance(value, str):
        return re.sub(r"^(-?\d+)e", r"\1.0e", json.dumps(value))  # YAML 1.1 takes 1e-12 for a string
    is_plain = re.fullmatch(r"[\w$(][^\n,:#'\"\[\]{}]*", value) and yaml.safe_load(value) == value
    return value if is_plain else "'" + value.replace("'", "''") + "'"


def flow(node):
    if isinstance(node, dict):
        return "{" + ", ".join(f"{scalar(k)}: {flow(v)}" for k, v in node.items()) + "}"
    return "[" + ", ".join(map(flow, node)) + "]" if isinstance(node, list) else scalar(node)


def entry(head, node, indent):
    """`head` (a key with its colon, or a dash) and node behind it, on a line where it fits."""
    pad, line = " " * indent, f"{' ' * indent}{head} {flow(node)}"
    if len(line) <= WIDTH or not node or isinstance(node, (bool, int, float)):
        return [line]
    if isinstance(node, str):
        return [f"{pad}{head} >-", *textwrap.wrap(node, WIDTH, initial_indent=pad + "  ", subsequent_indent=pad + "  ",
                                                  break_long_words=False, break_on_hyphens=False)]
    if isinstance(node, list) and not any(isinstance(v, (dict, list)) for v in node):
        return textwrap.wrap(f"{pad}{head} {flow(node)}", WIDTH, subsequent_indent=pad + "  ", break_on_hyphens=False)
    items = [(f"{scalar(k)}:", v) for k, v in node.items()] if isinstance(node, dict) else [("-", v) for v in node]
    lines = [line for key, value in items for line in entry(key, value, indent + 2)]
    return [f"{pad}- {lines[0].lstrip()}", *lines[1:]] if head == "-" else [f"{pad}{head}", *lines]


def contract():
    """openapi.yaml with the schemas of schema/."""
    text = (ROOT / "openapi.yaml").read_text()
    head, mark, _ = text.partition(MARK)
    assert mark, "openapi.yaml has no mark"
    lines = [line for name, schema in schemas().items() for line in entry(f"{name}:", schema, 4)]
    return head + MARK + "\n".join(lines) + "\n"


# ---- server/json/rules.h and rules.c ---------------------------------------------------------------------------------------

RULES_H = """\
/* Names, limits and words of request bodies: the JSON Schemas of schema/ as tables. Written by tools/schemas.py: change
 * the schemas, and run it. The decoders (json_*.c) read by these and have no limits of their own. */
/* clang-format off */
#ifndef LD_RULES_H
#define LD_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A member of an object, or a value by itself (key NULL). The limits are those of a number, of the bytes of a string or
 * of the items of an array; an end that is open does not belong to them. */
struct ld_rule {
    const char *key;
    const char *const *choices; /* of an enumeration, NULL behind the last */
    double lo, hi;              /* INFINITY: none */
    bool is_lo_open, is_hi_open;
    bool is_magnitude; /* a server may bound it closer (ld_doc_bound) */
    bool takes_digits; /* of a text, or of the texts of a list: a whole number means its digits */
};

/* The members of an object, in the order of its schema. */
struct ld_rules {
    const struct ld_rule *rule;
    size_t n;
    uint64_t required; /* bits of those that an object must have */
};
"""
RULES_C = """\
/* See rules.h. Written by tools/schemas.py from the JSON Schemas of schema/. */
/* clang-format off */
#include "json/rules.h"

#include <math.h>
"""


def snake(name):
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("Request")).lower()


VALUES = ("Id", "UserId", "DecisionId", "Edge", "Pair", "Weight", "Rewards", "AttributeName", "AttributeValue", "AttributeValues", "Hour", "RangeEnd", "SplitWeight", "FeatureWeight", "FeatureSpace", "MetricName")  # what is read where it is no member


class Rules:
    """The tables of all schemas that a body may be made of."""

    def __init__(self):
        self.all = schemas()
        self.h, self.c = [], []

    def resolve(self, node):
        while "$ref" in node:
            node = self.all[node["$ref"].removeprefix(PREFIX)]
        return node

    def reach(self, name, found):
        if name not in found:
            found[name] = True
            walk(self.all[name], lambda ref: self.reach(ref.removeprefix(PREFIX), found))
        return found

    def alternative(self, schema, kind):
        """The schema itself, or the one of its alternatives, that is of this kind."""
        fits = [s for s in map(self.resolve, schema.get("oneOf", [schema])) if s.get("type") == kind]
        return fits[0] if fits else None

    def limits(self, schema):
        """(lo, hi, lo is open, hi is open) of a value."""
        kind = [s for s in map(self.resolve, schema.get("oneOf", [schema])) if "const" not in s][0]
        if "x-maxBytes" in kind:
            return kind["minLength"], kind["x-maxBytes"], False, False
        if "maxProperties" in kind and "properties" not in kind:  # names are the caller's
            return 0, kind["maxProperties"], False, False
        if "array" in (kind.get("type") or []):
            return kind.get("minItems", 0), kind.get("maxItems", "INFINITY"), False, False
        if not {"number", "integer"} & set(kind["type"] if isinstance(kind.get("type"), list) else [kind.get("type")]):
            return 0, 0, False, False  # its type says all
        return (kind.get("exclusiveMinimum", kind.get("minimum", "-INFINITY")),
                kind.get("exclusiveMaximum", kind.get("maximum", "INFINITY")), "exclusiveMinimum" in kind, "exclusiveMaximum" in kind)

    def rule(self, key, schema):
        schema = self.resolve(schema)
        lo, hi, is_lo_open, is_hi_open = self.limits(schema)
        words = schema.get("items", schema).get("enum") or [s["const"] for s in schema.get("oneOf", []) if "const" in s]
        fields = [f'.key = "{key}"'] if key else []
        item = [self.resolve(s).get("type") for s in self.resolve(schema.get("items", schema)).get("oneOf", [])]
        if words:
            fields.append(".choices = (const char *const[]){" + ", ".join(f'"{w}"' for w in words) + ", NULL}")
        fields += [f".lo = {lo}, .hi = {hi}"] if (lo, hi) != (0, 0) else []
        flags = (("is_lo_open", is_lo_open), ("is_hi_open", is_hi_open),
                 ("is_magnitude", schema.get("x-magnitude", False)), ("takes_digits", item == ["string", "integer"]))
        return ", ".join(fields + [f".{name} = true" for name, is_set in flags if is_set])

    def table(self, name, thing):
        members, upper = thing["properties"], snake(name).upper()
        self.h += ["", *textwrap.wrap(f"enum {{ {', '.join(f'LD_{upper}_{key.upper()}' for key in members)} }};", WIDTH,
                                      subsequent_indent="       "), f"extern const struct ld_rules ld_{snake(name)}_rules;"]
        rows = [f"    {{{self.rule(key, value)}}}," for key, value in members.items()]
        required = sum(1 << i for i, key in enumerate(members) if key in thing.get("required", []))
        self.c += ["", f"const struct ld_rules ld_{snake(name)}_rules = {{(const struct ld_rule[]){{", *rows, f"}}, {len(members)}, {required:#x}}};"]

    def value(self, name, schema):
        self.h.append(f"extern const struct ld_rule ld_{snake(name)}_rule;")
        self.c.append(f"const struct ld_rule ld_{snake(name)}_rule = {{{self.rule(None, schema)}}};")

    def write(self):
        documents, reached = files(), {}
        for file, document in documents.items():
            if file not in (COMMON, LOG):
                self.reach(document["title"], reached)
        self.h.append(f"#define LD_MAX_DEPTH {documents[COMMON]['x-maxDepth']}u")
        for name in (n for n in self.all if n in reached):
            schema = self.all[name]
            if "x-maxLines" in schema:
                self.h.append(f"#define LD_{snake(name).upper()}_MAX_LINES {schema['x-maxLines']}u")
            thing = self.alternative(schema, "object")
            if name in VALUES:
                self.value(name, schema)
            elif thing is not None and "properties" in thing and all(self.resolve(s) is not self.all[n] for n in reached if n != name for s in schema.get("oneOf", [])
                     if self.resolve(s).get("type") == "object"):
                self.table(name, thing)  # else its object has a name, and a table, of its own
        return RULES_H + "\n" + "\n".join(self.h) + "\n\n#endif\n", RULES_C + "\n" + "\n".join(self.c) + "\n"


# ---- the version ----------------------------------------------------------------------------------------------------

# Where it stands beside server/base/version.h.
VERSIONS = {"tools/clients/python/pyproject.toml": r'^version = "(.*)"$', "tools/clients/python/src/laplaced/__init__.py": r'^__version__ = "(.*)"$',
            "tools/clients/typescript/package.json": r'^  "version": "(.*)",$'}


def version():
    return re.search(r'^#define LD_VERSION "(.*)"$', (ROOT / "server/base/version.h").read_text(), re.M)[1]


def with_version(text, pattern):
    """The text with the version in the one place of the pattern's group."""
    found = list(re.finditer(pattern, text, re.M))
    assert len(found) == 1, f"{pattern} stands {len(found)} times"
    return text[:found[0].start(1)] + version() + text[found[0].end(1):]


# ---- all --------------------------------------------------------------------------------------------------------------

def main():
    is_check = "--check" in sys.argv[1:]
    header, source = Rules().write()
    differing = []
    document = with_version(contract(), r"\A(?:.*\n){1,3}  version: (.*)$")
    for path, text in (("openapi.yaml", document), ("openapi-3.0.yaml", openapi30.written(document)), ("server/json/rules.h", header), ("server/json/rules.c", source),
                       *((path, with_version((ROOT / path).read_text(), pattern)) for path, pattern in VERSIONS.items())):
        file = ROOT / path
        if not file.exists() or file.read_text() != text:
            differing.append(path)
            if not is_check:
                file.write_text(text)
    print(", ".join(differing) or "all as schema/ has it")
    return 1 if differing and is_check else 0


if __name__ == "__main__":
    sys.exit(main())
