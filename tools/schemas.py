#!/usr/bin/env python3
"""Writes schema/*.schema.json from openapi.yaml: JSON Schema 2020-12 documents for use without an OpenAPI tool.

    tools/schemas.py            writes the files
    tools/schemas.py --check    says which differ; exit status 1 when one does

The contract is stated once, in openapi.yaml; a file here is one of its schemas with what it refers to as $defs.
"""
import json
import pathlib
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
PREFIX = "#/components/schemas/"
WIDTH = 112


def ref(name):
    return {"$ref": PREFIX + name}


def one_or_list(name, item, **limits):
    return {"oneOf": [ref(name), {"type": "array", **limits, "items": ref(item)}]}


FILES = {
    "event": (ref("Event"), "A line of a tenant's log, of any type: GET /tenants/{t}/events, and `text` of table events."),
    "settings": (ref("Configuration"), "The body of PUT /tenants/{t}; every field may be left out."),
    "select": (ref("SelectRequest"), "The body of POST /select."),
    "reward": (one_or_list("Reward", "Reward", minItems=1, maxItems=1000), "The body of POST /reward."),
    "observe": (ref("Observation"), "The body of POST /observe, and a line of it as NDJSON."),
    "activate": (ref("Activate"), "The body of POST /activate."),
    "graph": (one_or_list("Graph", "Edge"), "The body of PUT /tenants/{t}/graph; as NDJSON, an Edge a line."),
    "graph_patch": (ref("GraphPatch"), "The body of PATCH /tenants/{t}/graph."),
    "arms": ({"oneOf": [{"type": "object", "additionalProperties": False, "required": ["arms"],
                         "properties": {"arms": ref("ArmList")}}, ref("ArmList")]},
             "The body of PUT /tenants/{t}/arms; as NDJSON, an Arm a line."),
}


def names_in(node, schemas, found):
    """Names of the schemas that node refers to, directly or through others."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        if key == "$ref":
            name = value.removeprefix(PREFIX)
            if name not in found:
                found.add(name)
                names_in(schemas[name], schemas, found)
        elif isinstance(value, (dict, list)):
            names_in(value, schemas, found)
    return found


def moved(node):
    """node with its references pointing into $defs."""
    if isinstance(node, dict):
        return {k: v.replace(PREFIX, "#/$defs/") if k == "$ref" else moved(v) for k, v in node.items()}
    return [moved(v) for v in node] if isinstance(node, list) else node


def pretty(node, indent=0):
    """JSON in which whatever fits stands on one line."""
    flat = json.dumps(node, ensure_ascii=False)
    if len(flat) + indent <= WIDTH or not isinstance(node, (dict, list)) or not node:
        return flat
    pad = " " * (indent + 2)
    if isinstance(node, dict):
        rows = [f"{pad}{json.dumps(k)}: {pretty(v, indent + 2)}" for k, v in node.items()]
        return "{\n" + ",\n".join(rows) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(pad + pretty(v, indent + 2) for v in node) + "\n" + " " * indent + "]"


def document(name, schemas):
    body, description = FILES[name]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, "description": description}
    defs = {n: moved(schemas[n]) for n in sorted(names_in(body, schemas, set()))}
    return pretty({**head, **moved(body), "$defs": defs}) + "\n"


def main():
    schemas = yaml.safe_load((ROOT / "openapi.yaml").read_text())["components"]["schemas"]
    differing = []
    for name in FILES:
        path = ROOT / "schema" / f"{name}.schema.json"
        text = document(name, schemas)
        if not path.exists() or path.read_text() != text:
            differing.append(path.name)
            if "--check" not in sys.argv[1:]:
                path.write_text(text)
    print(", ".join(differing) or "all as openapi.yaml has them")
    return 1 if differing and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
