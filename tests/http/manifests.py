"""What deploy/kubernetes/ comes to: the documents that a folder's kustomization makes, as `kubectl kustomize` does, for what we use of it."""
import yaml

KNOWN = {"apiVersion", "kind", "namespace", "resources", "images", "configMapGenerator"}


def config_map(row, folder):
    options = row.get("options", {})
    assert options.get("disableNameSuffixHash") and set(row) <= {"name", "files", "options"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": row["name"], "labels": options.get("labels", {})},
            "data": {name: (folder / name).read_text() for name in row["files"]}}


def render(folder):
    rule = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert rule["kind"] == "Kustomization" and set(rule) <= KNOWN, set(rule) - KNOWN
    out = []
    for name in rule.get("resources", []):
        path = folder / name
        out += render(path.resolve()) if path.is_dir() else list(yaml.safe_load_all(path.read_text()))
    out += [config_map(row, folder) for row in rule.get("configMapGenerator", [])]
    for document in out:
        document["metadata"]["namespace"] = rule["namespace"]
        for container in document.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
            for image in (i for i in rule.get("images", []) if i["name"] == container["image"]):
                container["image"] = f'{image["newName"]}:{image["newTag"]}'
    return out
