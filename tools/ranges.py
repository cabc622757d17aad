#!/usr/bin/env python3
"""Writes docs/RANGES.md: every number that comes from outside, from where to where it may be, who looks, and what tries it.

    tools/ranges.py            writes it
    tools/ranges.py --check    says whether it is as the schemas, the options' table and openapi.yaml have it; exit status 1 if not

The ranges themselves stand in schema/*.schema.json, server/app/option_table.c and openapi.yaml, and nowhere else.
"""
import collections
import pathlib
import re
import sys

import yaml

import schemas

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "RANGES.md"
PREFIX = "#/$defs/"
ENDS = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
CONFIGURED = {"replay": "/configuration", "evaluation": "/policies/*/configuration"}  # where they have a whole configuration
ROUTES = {
    "arms": ("PUT", "/tenants/{tenant}/arms"), "arms_patch": ("PATCH", "/tenants/{tenant}/arms"),
    "compact": ("POST", "/tenants/{tenant}/compact"), "evaluation": ("POST", "/tenants/{tenant}/evaluations"), "graph": ("PUT", "/tenants/{tenant}/graph"), "graph_patch": ("PATCH", "/tenants/{tenant}/graph"),
    "key": ("POST", "/keys"), "limits": ("PUT", "/tenants/{tenant}/limits"), "observe": ("POST", "/observe"), "posterior": ("POST", "/tenants/{tenant}/posterior"), "promote": ("POST", "/tenants/{tenant}/promote"),
    "repair": ("POST", "/tenants/{tenant}/repair"), "replay": ("POST", "/tenants/{tenant}/replay"), "reward": ("POST", "/reward"), "rollback": ("POST", "/tenants/{tenant}/rollback"), "select": ("POST", "/select"),
    "settings": ("PUT", "/tenants/{tenant}"), "tenant_key": ("POST", "/tenants/{tenant}/keys"),
}
Range = collections.namedtuple("Range", "place kind lo hi is_lo_open is_hi_open is_magnitude")


# ---- schemas ----------------------------------------------------------------------------------------------------------

def range_of(place, plain, kind):
    (lo, open_lo), (hi, open_hi) = ENDS
    return Range(place, kind, plain.get(open_lo, plain.get(lo)), plain.get(open_hi, plain.get(hi)), open_lo in plain, open_hi in plain, plain.get("x-magnitude", False))


def walk(node, defs, place="", seen=()):
    """A Range for each number of a schema; items of lists stand as *, values of maps as <name>."""
    while "$ref" in node:
        if node["$ref"] in seen:
            return
        seen, node = (*seen, node["$ref"]), {**defs[node["$ref"].removeprefix(PREFIX)], **{k: v for k, v in node.items() if k != "$ref"}}
    kinds = node["type"] if isinstance(node.get("type"), list) else [node.get("type")]
    if {"number", "object"} <= set(kinds):  # any value: what is kept as it is has no range
        return
    for kind in {"number", "integer"} & set(kinds):
        yield range_of(place, node, kind)
    for part in node.get("oneOf", []) + node.get("allOf", []):
        yield from walk(part, defs, place, seen)
    for key, part in node.get("properties", {}).items():
        yield from walk(part, defs, f"{place}/{key}", seen)
    if isinstance(node.get("additionalProperties"), dict):
        yield from walk(node["additionalProperties"], defs, f"{place}/<name>", seen)
    prefix = node.get("prefixItems", [])
    for i, part in enumerate(prefix):
        yield from walk(part, defs, f"{place}/{i}", seen)
    if "items" in node:
        yield from walk(node["items"], defs, f"{place}/*", seen)


def distinct(ranges):
    """In their order, each place once: alternatives of a body may share one."""
    return list({r.place: r for r in ranges}.values())


def bodies():
    """{body: its Ranges}; those of a configuration inside of another body are left out there."""
    defs, found = schemas.schemas(PREFIX), {}
    for name, document in schemas.files().items():
        if name in (schemas.COMMON, schemas.LOG):
            continue
        ranges = distinct(walk({"$ref": PREFIX + document["title"]}, defs))
        found[name] = [r for r in ranges if not (name in CONFIGURED and r.place.startswith(CONFIGURED[name] + "/"))]
    return found


def lines():
    """{type of line: its Ranges}, but for what a configuration holds."""
    defs, found = schemas.schemas(PREFIX), {}
    for part in defs["Event"]["oneOf"]:
        name = part["$ref"].removeprefix(PREFIX)
        found[name] = [r for r in distinct(walk(part, defs)) if not r.place.startswith("/configuration/")]
    return found


# ---- options and parameters -------------------------------------------------------------------------------------------

ROW = re.compile(r'\{"([a-z-]+)",\s*(?:"[^"]*"|NULL),\s*LD_OPTION_([A-Z]+),\s*FIELD\(\w+\),\s*([^,]+),\s*([^,]+),\s*"([^"]*)"')


def constant(text):
    """Of a constant expression in C: digits, suffixes and shifts."""
    left, _, shift = re.sub(r"(?<=\d)(u|ul|ull)\b", "", text).partition("<<")
    return int(left) << int(shift or 0)


def options():
    """{option: its Range}, of those that are numbers. Of reals the table holds powers of ten."""
    found = {}
    for name, kind, lo, hi, _ in ROW.findall((ROOT / "server" / "app" / "option_table.c").read_text()):
        if kind in ("COUNT", "SIZE"):
            found[name] = Range(name, "bytes" if kind == "SIZE" else "integer", constant(lo), constant(hi), False, False, False)
        if kind == "REAL":
            found[name] = Range(name, "number", float(f"1e{lo.strip()}"), float(f"1e{hi.strip()}"), False, False, False)
    return found


def parameters(node=None, where=""):
    """(method and path, Range) of the query's numbers."""
    document = yaml.safe_load((ROOT / "openapi.yaml").read_text())
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for p in operation.get("parameters", []) if isinstance(operation, dict) else []:
                if p.get("in") in ("query", "header") and p["schema"].get("type") in ("integer", "number"):
                    yield f"{method.upper()} {path}", range_of(p["name"], p["schema"], p["schema"]["type"])


# ---- the page ---------------------------------------------------------------------------------------------------------

def end(value, is_open, is_low):
    if value is None:
        return "none"
    text = f"{value:.17g}" if isinstance(value, int) or float(value).is_integer() and abs(value) < 1e15 else f"{value:g}"
    return {(True, True): "above ", (True, False): "below "}.get((is_open, is_low), "") + text


def row(first, r, *more):
    limit = "; `--max-magnitude`" if r.is_magnitude else ""
    return f"| {first} | {r.kind} | {end(r.lo, r.is_lo_open, True)} | {end(r.hi, r.is_hi_open, False)}{limit} |" + "".join(f" {m} |" for m in more)


HEAD = """# Ranges

Every number that comes from outside, and where it ends. Written by `python3 tools/ranges.py` from `schema/*.schema.json`,
`server/app/option_table.c` and `openapi.yaml`; `tests/http/a07_ranges.py` fails when this page is not what it writes, when a number of a body
has no end, and when the server takes what lies outside of one. `*` stands for any item of a list, `<name>` for a name of the caller's.

What is read is a number of JSON: no `NaN`, `Infinity`, hexadecimal digits or leading zeros, and nothing beyond the largest double. What is
smaller than the smallest double is 0. An integer may be spelled `1e3` or `5.0`.

## Bodies

Looked at by `server/json/json_*.c` with the tables of `server/json/rules.c`, and where a row says so once more with the option that is in force; faults
are answered 400 and named by pointer. Tried at both sides of each end by `tests/http/c05_body_rules.py` (the decoders) and
`tests/http/a07_ranges.py` (the server). What a model cannot compute with although it lies inside is refused by the core: `tests/extremes/`.
"""
PATCH = """
**PATCH /tenants/{tenant}**: as PUT /tenants/{tenant}, where `null` may stand for each, and

| number | type | from | to |
|---|---|---|---|
"""
LINES = """
## Lines of the log

In imports, replays, and files at their opening. `server/json/json_event*.c` read them, `core/` takes a line or refuses it (`core/model/engine_log.c`, `core/model/summary.c`);
options do not bind them, since logs outlive options. `none`: any number that a double holds, as far as a model can compute with it
(`core/base/magnitude.h`), or, of a whole number, 2^53 - 1; numbers of events, versions and counts that a log begins with are at most 2^52. `configuration` is as in PUT /tenants/{tenant}. Tried by `tests/extremes/c00_logs.py` (each line's numbers, one at a time) and
`tests/fuzz/` (`log`).

| line | number | type | from | to |
|---|---|---|---|---|
"""
PARAMETERS = """
## Parameters of the query

Whole numbers in decimal digits, looked at by `server/api/api_*.c`; 400 names the parameter. Tried by `tests/http/a07_ranges.py`.

| operation | parameter | type | from | to |
|---|---|---|---|---|
"""
OPTIONS = """
## Options

By flag, environment (`LAPLACED_NAME`) or configuration file, looked at by `server/app/options.c: parse_value`; the start ends with status 2 and
names the option, the variable or the line. Sizes may end in k, M or G. Tried by `tests/http/a07_ranges.py`.

| option | type | from | to |
|---|---|---|---|
"""
REST = """
## Elsewhere

| number | range | looked at by | tried by |
|---|---|---|---|
| `Content-Length`, chunk sizes | whole numbers up to the body's limit | libmicrohttpd, `server/http/http_head.c`, `server/http/http_body.c` | `tests/http/r10_connections.py`, `tests/http/c00_bad_bodies.py` |
| snapshot files | checksums first; then every count, sum and id by the part that it belongs to | `server/store/snapshot.c`, `core/model/*_codec.c`, `core/*/*_io.c`, `core/*_load` | `tests/fuzz/` (`snapshot`), `tests/unit/` |
| columns of a tenant's file | those of its lines; both must agree | `server/tenant/fold.c` | `tests/http/k10_hostile_files.py`, `tests/extremes/c00_logs.py` |
"""


def page():
    text = HEAD
    for name, ranges in bodies().items():
        if ranges:
            method, path = ROUTES[name]
            text += f"\n**{method} {path}** (`schema/{name}.schema.json`)\n\n| number | type | from | to |\n|---|---|---|---|\n"
            text += "".join(row(f"`{r.place}`", r) + "\n" for r in ranges)
            text += f"| `{CONFIGURED[name]}/...` | as in PUT /tenants/{{tenant}} | | |\n" if name in CONFIGURED else ""
        elif name == "replay":
            text += "\n**POST /tenants/{tenant}/replay**: `/0/configuration/...` as in PUT /tenants/{tenant}.\n"
    version = schemas.schemas(PREFIX)["ConfigurationPatch"]["properties"]["version"]
    text += PATCH + row("`/version`", range_of("/version", version, version["type"])) + "\n"
    text += LINES + "".join(f"| {name.removeprefix('Event')} {row(f'`{r.place}`', r)}\n" for name, ranges in lines().items() for r in ranges)
    text += PARAMETERS + "".join(f"| {where} {row(f'`{r.place}`', r)}\n" for where, r in parameters())
    text += OPTIONS + "".join(row(f"`--{name}`", r) + "\n" for name, r in options().items())
    return text + REST


def main():
    text, is_check = page(), "--check" in sys.argv[1:]
    is_same = PAGE.exists() and PAGE.read_text() == text
    if not is_same and not is_check:
        PAGE.write_text(text)
    print("docs/RANGES.md is current" if is_same else "docs/RANGES.md is not what tools/ranges.py writes" if is_check else "docs/RANGES.md written")
    return 1 if is_check and not is_same else 0


if __name__ == "__main__":
    sys.exit(main())
