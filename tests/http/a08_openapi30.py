"""openapi-3.0.yaml is openapi.yaml in the words of OpenAPI 3.0: it has the same operations, its schemas take every example, and none of its words are of 3.1."""
import json
import subprocess
import sys

import pytest
import yaml
from jsonschema import Draft202012Validator

from contract import CONTRACT, METHODS, NDJSON, ROOT

sys.path.insert(0, str(ROOT / "tools"))
import openapi30  # noqa: E402

DOC = yaml.load((ROOT / "openapi-3.0.yaml").read_text(), Loader=yaml.CSafeLoader)
WORDS_OF_30 = {"$ref", "title", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems",
               "uniqueItems", "maxProperties", "minProperties", "required", "enum", "type", "not", "allOf", "oneOf", "anyOf", "items", "properties",
               "additionalProperties", "description", "format", "default", "nullable", "deprecated", "readOnly", "writeOnly"}
TYPES = {"array", "boolean", "integer", "number", "object", "string"}


def parts_of(schema):
    """A schema and all that stand in it, each with its place."""
    todo = [("", schema)]
    while todo:
        where, node = todo.pop()
        yield where, node
        for word in ("items", "additionalProperties", "not"):
            if isinstance(node.get(word), dict):
                todo.append((f"{where}/{word}", node[word]))
        for word in ("allOf", "oneOf", "anyOf"):
            todo += [(f"{where}/{word}/{i}", s) for i, s in enumerate(node.get(word, []))]
        todo += [(f"{where}/properties/{k}", s) for k, s in node.get("properties", {}).items()]


def schemas_of(node, where=""):
    """Every schema of the document, those of components included."""
    if where == "/components/schemas":
        for name, schema in node.items():
            yield from ((f"{where}/{name}{at}", s) for at, s in parts_of(schema))
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "schema":
                yield from ((f"{where}/schema{at}", s) for at, s in parts_of(value))
            else:
                yield from schemas_of(value, f"{where}/{key}")
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from schemas_of(value, f"{where}/{i}")


def as_json_schema(node):
    """What a schema of 3.0 says, for a judge of JSON Schema."""
    out = {k: v for k, v in node.items() if k not in ("nullable", "exclusiveMinimum", "exclusiveMaximum", "format", "description", "default")}
    for word in ("items", "additionalProperties", "not"):
        if isinstance(out.get(word), dict):
            out[word] = as_json_schema(out[word])
    for word in ("allOf", "oneOf", "anyOf"):
        if word in out:
            out[word] = [as_json_schema(s) for s in out[word]]
    if "properties" in out:
        out["properties"] = {k: as_json_schema(s) for k, s in out["properties"].items()}
    for word, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if node.get(word):
            out[word] = out.pop(bound)
    return {"anyOf": [out, {"type": "null"}]} if node.get("nullable") else out


JUDGED = {"components": {"schemas": {name: as_json_schema(s) for name, s in DOC["components"]["schemas"].items()}}}


def faults(schema, value):
    return [f"{list(e.absolute_path)}: {e.message[:200]}" for e in Draft202012Validator({**JUDGED, **as_json_schema(schema)}).iter_errors(value)]


def resolve(document, node):
    while "$ref" in node:
        target = document
        for key in node["$ref"].removeprefix("#/").split("/"):
            target = target[key.replace("~1", "/").replace("~0", "~")]
        node = target
    return node


def operations(document):
    return {op["operationId"]: (method, path, op) for path, item in document["paths"].items() for method, op in item.items() if method in METHODS}


def examples():
    """(name, place in the document, value) of each example of a body in JSON."""
    for name, (_, _, op) in operations(CONTRACT.doc).items():
        bodies = [("requestBody", op.get("requestBody", {}))] + [(status, resolve(CONTRACT.doc, r)) for status, r in op["responses"].items()]
        for where, body in bodies:
            for kind, media in body.get("content", {}).items():
                if kind.split(";")[0].endswith("json") and kind != NDJSON:
                    for key, example in media.get("examples", {}).items():
                        yield name, where, kind, key, resolve(CONTRACT.doc, example)["value"]


def test_what_is_written_is_what_openapi_yaml_says():
    assert openapi30.written((ROOT / "openapi.yaml").read_text()) == (ROOT / "openapi-3.0.yaml").read_text(), "run tools/openapi30.py"


def test_a_file_that_is_behind_is_told(tmp_path):
    """The check that a commit is held to: it fails for another contract, and writes nothing."""
    for name in ("openapi.yaml", "openapi-3.0.yaml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "openapi30.py").write_text((ROOT / "tools" / "openapi30.py").read_text())
    command = [sys.executable, str(tmp_path / "tools" / "openapi30.py")]
    assert subprocess.run([*command, "--check"]).returncode == 0
    (tmp_path / "openapi.yaml").write_text((ROOT / "openapi.yaml").read_text().replace("title: laplaced", "title: another", 1))
    assert subprocess.run([*command, "--check"], capture_output=True).returncode == 1
    assert "title: another" not in (tmp_path / "openapi-3.0.yaml").read_text()
    assert subprocess.run(command).returncode == 0 and "title: another" in (tmp_path / "openapi-3.0.yaml").read_text()


def test_it_is_served_to_everybody(api):
    answer = api.call("GET", "/openapi-3.0.yaml")
    assert answer.headers["Content-Type"] == "application/yaml" and answer.text == (ROOT / "openapi-3.0.yaml").read_text()


def test_its_schemas_have_the_words_of_3_0_alone():
    seen = 0
    for where, schema in schemas_of(DOC):
        seen += 1
        assert set(schema) <= WORDS_OF_30, (where, set(schema) - WORDS_OF_30)
        assert "$ref" not in schema or len(schema) == 1, where  # what stands beside a reference is not read
        assert schema.get("type", "object") in TYPES, where
        assert schema.get("type") != "array" or "items" in schema, where
        assert isinstance(schema.get("exclusiveMinimum", True), bool) and isinstance(schema.get("exclusiveMaximum", True), bool), where
        assert not schema.get("nullable") or "type" in schema, where
    assert seen > 1000 and DOC["openapi"] == "3.0.3"


def test_numbers_do_not_lose_bits_in_generated_clients():
    """A generator takes 32 bits for numbers without a format; sequence numbers and times are larger."""
    for where, schema in schemas_of(DOC):
        if schema.get("type") == "number":
            assert schema["format"] == "double", where
        if schema.get("type") == "integer" and schema.get("maximum", 2**53) >= 2**31:
            assert schema["format"] == "int64", where


def test_every_operation_has_the_same_parameters_statuses_headers_and_bodies():
    ours, theirs = operations(CONTRACT.doc), operations(DOC)
    assert list(ours) == list(theirs) and len(ours) > 50
    for name, (method, path, op) in ours.items():
        other_method, other_path, other = theirs[name]
        assert (method, path) == (other_method, other_path)
        assert other.get("parameters") == op.get("parameters") or len(other["parameters"]) == len(op["parameters"]), name
        assert list(op["responses"]) == list(other["responses"]), name
        for status, response in op["responses"].items():
            a, b = resolve(CONTRACT.doc, response), resolve(DOC, other["responses"][status])
            assert list(a.get("headers", {})) == list(b.get("headers", {})), (name, status)
            assert list(a.get("content", {})) == list(b.get("content", {})), (name, status)
            assert all("schema" in media for media in b.get("content", {}).values()), (name, status)
        body = other.get("requestBody", {}).get("content", {})
        assert list(op.get("requestBody", {}).get("content", {})) == list(body) and all("schema" in media for media in body.values()), name


def test_every_schema_has_the_same_members():
    for name, schema in CONTRACT.doc["components"]["schemas"].items():
        other = DOC["components"]["schemas"][name]
        if "oneOf" not in schema and "allOf" not in schema:  # of those the members stand in another place
            assert list(schema.get("properties", {})) == list(other.get("properties", {})), name
            assert schema.get("required", []) == other.get("required", []), name


def test_references_lead_somewhere():
    def references(node):
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            for value in node.values():
                yield from references(value)
        elif isinstance(node, list):
            for value in node:
                yield from references(value)
    found = set(references(DOC))
    assert len(found) > 200
    for ref in found:
        assert resolve(DOC, {"$ref": ref}) is not None


def test_each_example_of_the_contract_fits():
    """The examples are true by v00_examples.py, so what this server takes and answers fits the schemas of 3.0, too."""
    theirs, n = operations(DOC), 0
    for name, where, kind, key, value in examples():
        op = theirs[name][2]
        body = op["requestBody"] if where == "requestBody" else resolve(DOC, op["responses"][where])
        assert not faults(body["content"][kind]["schema"], value), (name, where, key, faults(body["content"][kind]["schema"], value)[:3])
        n += 1
    assert n > 100


@pytest.mark.parametrize("schema, body", [
    ("SelectRequest", {"user": 7.5}), ("SelectRequest", {"user": "u", "colour": "red"}), ("SelectRequest", {}), ("SelectRequest", {"user": ""}),
    ("SelectRequest", {"user": "u", "top": 0}), ("SelectRequest", {"user": "u", "candidates": ["a", 1]}), ("Configuration", {"algorithm": "oracle"}),
    ("Configuration", {"representation": {"epsilon": 1}}), ("Configuration", {"representation": {"lambda": 0}}), ("Configuration", {"context_dim": 1.5}),
    ("Edge", ["a"]), ("Edge", ["a", "b", 1, 2]), ("Edge", ["a", True])])
def test_bodies_that_3_0_can_refuse_are_refused(schema, body):
    """The same body is refused by openapi.yaml. What 3.0 cannot say is in openapi30.DROPPED."""
    assert CONTRACT.errors({"$ref": f"#/components/schemas/{schema}"}, body)
    assert faults({"$ref": f"#/components/schemas/{schema}"}, body)


THING, NAME, EITHER, THINGS = ({"$ref": f"#/components/schemas/{name}"} for name in ("Thing", "Name", "Either", "Things"))
KNOWN = {"Thing": {"type": "object", "description": "t", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
         "Name": {"type": "string", "maxLength": 3, "description": "n"}, "Either": {"oneOf": [{"type": "boolean"}, {"type": "string"}]},
         "Things": {"oneOf": [{"$ref": "#/components/schemas/Thing"}, {"$ref": "#/components/schemas/Thing"}]}}


@pytest.mark.parametrize("given, wanted", [
    ({"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": None}, {"type": "array", "items": {"type": "string"}, "nullable": True}),
    ({"type": ["string", "null"], "enum": ["a", None]}, {"enum": ["a", None], "nullable": True, "type": "string"}),
    ({"oneOf": [{"type": "integer", "maximum": 9}, {"type": "null"}]}, {"maximum": 9, "nullable": True, "type": "integer", "format": "int64"}),
    ({"oneOf": [THING, {"type": "null"}], "description": "d"}, {"type": "object", "nullable": True, "allOf": [THING], "description": "d"}),
    ({"oneOf": [NAME, {"type": "null"}], "description": "d"}, {"type": "string", "maxLength": 3, "nullable": True, "description": "d"}),
    ({"oneOf": [EITHER, {"type": "null"}]}, {"oneOf": [{"type": "boolean", "nullable": True}, {"type": "string"}]}),
    ({"oneOf": [{"type": "boolean"}, {"type": "string"}, {"type": "null"}]}, {"oneOf": [{"type": "boolean", "nullable": True}, {"type": "string"}]}),
    ({"oneOf": [THINGS, {"type": "null"}]}, {"type": "object", "nullable": True, "oneOf": [THING, THING]}),
    ({"type": "object", "allOf": [THING], "properties": {"b": {"type": "string"}}, "required": ["b"]},
     {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "string"}}, "required": ["a", "b"], "description": "t"}),
    ({**THING, "description": "d"}, {"description": "d", "allOf": [THING]}),
    ({**NAME, "description": "d"}, {"description": "d", "maxLength": 3, "type": "string"}),
    ({"$ref": "#/x"}, {"$ref": "#/x"}),
    ({"const": "report"}, {"enum": ["report"], "type": "string"}),
    ({"const": True}, {"type": "boolean"}),
    ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, {"maximum": 1, "type": "number", "minimum": 0, "exclusiveMinimum": True, "format": "double"}),
    ({"type": "integer", "minimum": 1, "maximum": 100}, {"minimum": 1, "maximum": 100, "type": "integer"}),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "string"}]}, {"type": "array", "items": {"type": "string"}}),
    ({"type": "object", "propertyNames": {"maxLength": 3}, "additionalProperties": {"const": 1}},
     {"type": "object", "additionalProperties": {"enum": [1], "type": "integer", "format": "int64"}})])
def test_each_word_of_3_1_has_its_word_of_3_0(given, wanted):
    assert json.dumps(openapi30.Converter(KNOWN).schema(given), sort_keys=True) == json.dumps(wanted, sort_keys=True)


def test_a_word_that_nobody_thought_of_is_an_error():
    with pytest.raises(AssertionError, match="unevaluatedItems"):
        openapi30.Converter({}).schema({"type": "array", "unevaluatedItems": False})
