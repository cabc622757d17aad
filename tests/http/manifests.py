"""What deploy/kubernetes/ comes to: the documents that a folder's kustomization makes, as `kubectl kustomize` does, for what we use of it."""
import yaml

KNOWN = {"apiVersion", "kind", "namespace", "resources", "images", "generatorOptions", "configMapGenerator"}


def config_map(row, options, folder):
    assert options.get("disableNameSuffixHash") and set(row) <= {"name", "files"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": row["name"], "labels": options.get("labels", {})},
            "data": {name: (folder / name).read_text() for name in row["files"]}}


def render(folder):
    rule = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert rule["kind"] == "Kustomization" and set(rule) <= KNOWN, set(rule) - KNOWN
    out = []
    for name in rule.get("resources", []):
        out += list(yaml.safe_load_all((folder / name).read_text()))
    out += [config_map(row, rule["generatorOptions"], folder) for row in rule.get("configMapGenerator", [])]
    for document in out:
        document["metadata"]["namespace"] = rule["namespace"]
        for container in document.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
            for image in (i for i in rule.get("images", []) if i["name"] == container["image"]):
                container["image"] = f'{image["newName"]}:{image["newTag"]}'
    return out
