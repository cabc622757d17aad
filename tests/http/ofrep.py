"""OFREP's own schema (tests/contract/vendor/ofrep), as a judge of answers that is none of ours."""
import copy

import yaml
from jsonschema import Draft202012Validator

from contract import ROOT

DOC = yaml.safe_load((ROOT / "tests/contract/vendor/ofrep/openapi.yaml").read_text())


def readable(node):
    """The schema without its one slip: of the forms of a value several may fit (a boolean fits `codeDefaultFlag` too, an integer `floatFlag`), and
    `oneOf` would then let no value pass at all."""
    if isinstance(node, list):
        return [readable(v) for v in node]
    if not isinstance(node, dict):
        return node
    forms = node.get("oneOf", [])
    if any(f.get("$ref", "").endswith("/codeDefaultFlag") for f in forms):
        node = {**{k: v for k, v in node.items() if k != "oneOf"}, "anyOf": forms}
    return {k: readable(v) for k, v in node.items()}


COMPONENTS = readable(copy.deepcopy(DOC["components"]))
# An entry of a list is a success or a failure; one of both kinds (key and errorCode, key and reason) would be neither.
PATHS = {False: "/ofrep/v1/evaluate/flags/{key}", True: "/ofrep/v1/evaluate/flags"}


def faults(status, body, is_bulk):
    """Of an answer with a body, under the schema of its status."""
    response = DOC["paths"][PATHS[is_bulk]]["post"]["responses"].get(str(status))
    if response is None:
        return [f"the protocol has no status {status}"]
    if "content" not in response:
        return []
    schema = {**response["content"]["application/json"]["schema"], "components": COMPONENTS}
    return [f"{list(e.absolute_path)}: {e.message[:200]}" for e in Draft202012Validator(schema).iter_errors(body)]
