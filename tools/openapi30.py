#!/usr/bin/env python3
"""openapi-3.0.yaml is the contract for generators of clients that do not read OpenAPI 3.1, as those for Go, Java and C#.
This writes it from openapi.yaml; tools/schemas.py does so, too.

    tools/openapi30.py            writes it
    tools/openapi30.py --check    exit status 1 when it is not what openapi.yaml says

Paths, names, descriptions, statuses and headers are those of openapi.yaml. What 3.0 has another word for is said in that word: null,
constants, exclusive bounds, references with a description. What 3.0 has no word for is left out, so each schema allows what that of
openapi.yaml allows, and sometimes more: DROPPED lists the words. Examples and members x-* are left out. Whole numbers get the format int64
where they may pass 2^31, and others double: without a format some generators take 32 bits.
"""
import pathlib
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE, TARGET = ROOT / "openapi.yaml", ROOT / "openapi-3.0.yaml"
DROPPED = {"if", "then", "else", "propertyNames", "dependentRequired", "examples", "example"}
KEPT = {"description", "title", "required", "enum", "default", "format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
        "uniqueItems", "minProperties", "maxProperties", "multipleOf", "deprecated", "readOnly", "writeOnly"}
CONVERTED = {"$ref", "type", "const", "exclusiveMinimum", "exclusiveMaximum", "oneOf", "anyOf", "allOf", "prefixItems", "items", "properties",
             "additionalProperties", "not"}
NULL = {"type": "null"}
INT32 = 2**31
HEAD = "# Written by tools/openapi30.py from openapi.yaml, for tools that read OpenAPI 3.0 alone. Where they differ, openapi.yaml is the contract.\n"


def type_of(value):
    for kind, name in ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number")):
        if isinstance(value, kind):
            return name
    raise ValueError(f"no type of 3.0 for the constant {value!r}")


# ---- schemas ----------------------------------------------------------------------------------------------------------

def typed(node, out):
    """`type`, `const` and bounds in the words of 3.0."""
    types = node.get("type", [])
    types = [types] if isinstance(types, str) else list(types)
    if "const" in node:
        if not isinstance(node["const"], bool):  # generators make of an enumeration of booleans what their languages do not compile
            out["enum"] = [node["const"]]
        types = types or [type_of(node["const"])]
    if not types and all(isinstance(v, str) for v in node.get("enum", [0])):
        types = ["string"]
    if "null" in types:
        types.remove("null")
        out["nullable"] = True
    if len(types) == 1:
        out["type"] = types[0]
    elif types:
        out["oneOf"] = [{"type": t, **({"format": "double"} if t == "number" else {})} for t in types]
    for word, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if word in node:
            out[bound], out[word] = node[word], True
    if types == ["number"]:
        out.setdefault("format", "double")
    if types == ["integer"] and not (-INT32 <= node.get("minimum", -INT32 - 1) and node.get("maximum", INT32) < INT32):
        out.setdefault("format", "int64")


class Converter:
    """Knows all schemas of openapi.yaml by their names."""

    def __init__(self, schemas):
        self.all = schemas

    def target(self, ref):
        return self.all[ref.removeprefix("#/components/schemas/")]

    def merged(self, node):
        """An object that says more of another one, `allOf` of one reference beside its own words, with the members of both: generators do not
        look into such an `allOf` for members that are required beside it."""
        if not ("allOf" in node and ("required" in node or "properties" in node)):
            return node
        (other,) = node["allOf"]
        base = self.merged(self.target(other["$ref"]))
        own = {k: v for k, v in node.items() if k != "allOf"}
        required = base.get("required", []) + [k for k in own.get("required", []) if k not in base.get("required", [])]
        return {**base, **own, "properties": {**base.get("properties", {}), **own.get("properties", {})}, **({"required": required} if required else {})}

    def or_null(self, schemas, out):
        """One of these, or null. 3.0 has null beside a `type` alone: what is no object is written out, and of several the first may be null."""
        target = self.target(schemas[0]["$ref"]) if "$ref" in schemas[0] else schemas[0]
        if len(schemas) == 1 and "$ref" in schemas[0] and (target.get("type") == "object" or "enum" in target):
            out.update({"type": target.get("type", "string"), "nullable": True, "allOf": schemas})
        elif len(schemas) == 1 and "oneOf" in target:
            out.update({k: v for k, v in self.schema({k: v for k, v in target.items() if k != "oneOf"}).items() if k not in out})
            self.or_null(target["oneOf"], out)
        elif len(schemas) == 1:
            out.update({k: v for k, v in self.schema(target).items() if k not in out}, nullable=True)
        elif all(self.is_object(s) for s in schemas):
            out.update({"type": "object", "nullable": True, "oneOf": [self.schema(s) for s in schemas]})
        else:
            out["oneOf"] = [{**self.schema(target), "nullable": True}, *map(self.schema, schemas[1:])]

    @staticmethod
    def is_text(node):
        return node.get("type") == "string" and "enum" not in node

    def is_object(self, node):
        return (self.target(node["$ref"]) if "$ref" in node else node).get("type") == "object"

    def text_of(self, node):
        """The text, of a text or a whole number that means its digits: generators would make a class of the two, and whoever has one knows texts."""
        first, *others = node.get("oneOf", [{}])
        is_digits = [other.get("type") for other in others] == ["integer"] and "$ref" in first and self.is_text(self.target(first["$ref"]))
        return {**self.target(first["$ref"]), **{k: v for k, v in node.items() if k != "oneOf"}} if is_digits else node

    def alternatives(self, node, out):
        for word in ("oneOf", "anyOf", "allOf"):
            schemas = node.get(word, [])
            others = [s for s in schemas if s != NULL]
            if len(others) < len(schemas):
                self.or_null(others, out)
            elif schemas:
                out[word] = [self.schema(s) for s in schemas]

    def item(self, node):
        """The items of an array; of a tuple, one schema for all of its places."""
        if "prefixItems" not in node:
            return self.schema(node.get("items", {}))
        places = []
        for place in map(self.schema, node["prefixItems"]):
            if place not in places:
                places.append(place)
        return places[0] if len(places) == 1 else {"oneOf": places}

    def schema(self, node):
        """The schema in the words of 3.0."""
        if node is True:
            return {}
        if "$ref" in node and len(node) == 1:
            return dict(node)
        node = self.merged(self.text_of(node))
        unknown = {k for k in node if not k.startswith("x-")} - KEPT - DROPPED - CONVERTED
        assert not unknown, f"tools/openapi30.py does not know {unknown}"
        out = {k: v for k, v in node.items() if k in KEPT and (k, v) != ("default", None)}  # a parser of generators takes null for no array
        typed(node, out)
        if "$ref" in node and self.is_text(self.target(node["$ref"])):  # generators would make a class of it that extends a text
            out = {**self.schema(self.target(node["$ref"])), **out}
        elif "$ref" in node:
            out["allOf"] = [{"$ref": node["$ref"]}]
        self.alternatives(node, out)
        if "items" in node or "prefixItems" in node or node.get("type") == "array":
            out["items"] = self.item(node)
        if "not" in node:
            out["not"] = self.schema(node["not"])
        if "properties" in node:
            out["properties"] = {name: self.schema(part) for name, part in node["properties"].items()}
        if "additionalProperties" in node:
            more = node["additionalProperties"]
            out["additionalProperties"] = more if isinstance(more, bool) else self.schema(more)
        return out

    # ---- the document

    def media(self, content):
        """Every body gets a schema: bytes are one, too."""
        return {kind: {"schema": self.schema((what or {}).get("schema", {"type": "string", "format": "binary"}))} for kind, what in content.items()}

    def part(self, node, key=None):
        """Anything but a schema: what hangs below it is converted by the name that it has there."""
        if key == "schema":
            return self.schema(node)
        if key == "content":
            return self.media(node)
        if key == "security":  # roles are scopes in 3.1 alone
            return [{name: [] for name in requirement} for requirement in node]
        if isinstance(node, dict):
            named = key == "headers"  # the names of headers may begin like that
            return {k: self.part(v, k) for k, v in node.items() if named or (not str(k).startswith("x-") and k not in ("example", "examples"))}
        return [self.part(v) for v in node] if isinstance(node, list) else node


def convert(document):
    converter = Converter(document["components"]["schemas"])
    rest = {**document, "components": {k: v for k, v in document["components"].items() if k != "schemas"}}
    out = converter.part(rest)
    out["openapi"] = "3.0.3"
    del out["info"]["summary"]
    out["info"]["license"] = {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"}
    out["components"]["schemas"] = {name: converter.schema(node) for name, node in converter.all.items()}
    return out


class Dumper(yaml.SafeDumper):
    """Long texts as blocks, and no anchors: every tool reads that."""

    def ignore_aliases(self, data):
        return True


def text_node(dumper, data):
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


Dumper.add_representer(str, text_node)


def written(text):
    """openapi-3.0.yaml for a text of openapi.yaml."""
    return HEAD + yaml.dump(convert(yaml.safe_load(text)), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=140)


def main():
    text = written(SOURCE.read_text())
    is_current = TARGET.exists() and TARGET.read_text() == text
    if not is_current and "--check" in sys.argv[1:]:
        print(f"{TARGET.name} is not what openapi.yaml says: run tools/openapi30.py")
        return 1
    if not is_current:
        TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
