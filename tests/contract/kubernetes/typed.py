"""Writes what deploy/kubernetes comes to as typed constants, so that tsc refuses a name or a type that Kubernetes does not know.

    typed.py FOLDER... > manifests.ts
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/http"))
from manifests import render  # noqa: E402

for i, document in enumerate(d for folder in sys.argv[1:] for d in render(pathlib.Path(folder).resolve())):
    version, kind = document["apiVersion"], document["kind"]
    package = "@kubernetes-models/prometheus-operator" if version.startswith("monitoring.coreos.com/") else "kubernetes-models"
    print(f'import type {{ I{kind} as Kind{i} }} from "{package}/{version}/{kind}";')
    print(f"export const document{i}: Kind{i} = {json.dumps(document)};")
