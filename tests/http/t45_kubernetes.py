"""deploy/kubernetes: what is applied is whole, of one piece, and asks for what the server has."""
import re
import shutil
import subprocess

import pytest
import yaml

from contract import ROOT
from harness import Client, run_ctl
from manifests import render

FOLDERS = {name: ROOT / "deploy/kubernetes" / name for name in ("single", "monitored")}
SIZE = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 2**10, "M": 2**20, "G": 2**30}


def one(kind, folder="monitored"):
    found, = [d for d in render(FOLDERS[folder]) if d["kind"] == kind]
    return found


def in_bytes(text):
    number, unit = re.fullmatch(r"(\d+)(\w*)", text).groups()
    return int(number) * SIZE[unit]


@pytest.mark.parametrize("name", FOLDERS)
def test_kubectl_makes_the_same_of_it(name):
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl here")
    done = subprocess.run(["kubectl", "kustomize", FOLDERS[name]], capture_output=True, text=True)
    if "unknown field" in done.stderr or "v1.20" in subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True).stdout:
        pytest.skip("kubectl of 2020 knows an older kustomize")
    assert done.returncode == 0 and "deprecated" not in done.stderr, done.stderr
    key = lambda d: (d["kind"], d["metadata"]["name"])
    assert sorted(yaml.safe_load_all(done.stdout), key=key) == sorted(render(FOLDERS[name]), key=key)


def test_what_is_applied_is_known():
    kinds = ["ConfigMap", "Deployment", "PersistentVolumeClaim", "PodDisruptionBudget", "Service"]
    assert sorted(d["kind"] for d in render(FOLDERS["single"])) == kinds
    assert sorted(d["kind"] for d in render(FOLDERS["monitored"])) == sorted([*kinds, "ServiceMonitor"])
    assert {d["metadata"]["namespace"] for d in render(FOLDERS["monitored"])} == {"laplaced"}


def test_each_part_finds_the_others():
    labels = {"app.kubernetes.io/name": "laplaced"}
    service, monitor, pod = one("Service"), one("ServiceMonitor")["spec"], one("Deployment")["spec"]["template"]
    container, = pod["spec"]["containers"]
    assert all(d["metadata"]["labels"] == labels for d in render(FOLDERS["monitored"]))
    assert pod["metadata"]["labels"] == service["spec"]["selector"] == one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert monitor["selector"]["matchLabels"] == service["metadata"]["labels"]
    port, = service["spec"]["ports"]
    assert port["targetPort"] == container["ports"][0]["name"] and port["name"] == monitor["endpoints"][0]["port"]
    volumes = {v["name"]: v for v in pod["spec"]["volumes"]}
    assert volumes["config"]["configMap"]["name"] == one("ConfigMap")["metadata"]["name"]
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    env = {e["name"]: e["value"] for e in container["env"]}
    (conf, _), = one("ConfigMap")["data"].items()
    assert env["LAPLACED_CONFIG"] == f'{mounts["config"]}/{conf}' and f'LAPLACED_DATA={mounts["data"]} ' in (ROOT / "Dockerfile").read_text()
    secrets = re.findall(r"create secret generic (\S+) --from-literal=([a-z-]+)=", "".join((f / "kustomization.yaml").read_text() for f in FOLDERS.values()))
    credentials = monitor["endpoints"][0]["authorization"]["credentials"]
    assert secrets == [(volumes["keys"]["secret"]["secretName"], env["LAPLACED_ADMIN_KEY_FILE"].removeprefix(mounts["keys"] + "/")), (credentials["name"], credentials["key"])]


def test_the_job_is_the_one_that_alerts_ask_for():
    label = one("ServiceMonitor")["spec"]["jobLabel"]
    job = one("Service")["metadata"]["labels"][label]
    assert set(re.findall(r'job="(\w+)"', (ROOT / "deploy/alerts.yml").read_text())) == {job}


def test_a_node_may_be_drained_and_the_server_has_room():
    assert one("PodDisruptionBudget")["spec"]["maxUnavailable"] == one("Deployment")["spec"]["replicas"] == 1
    container, = one("Deployment")["spec"]["template"]["spec"]["containers"]
    resources, conf = container["resources"], one("ConfigMap")["data"]["laplaced.conf"]
    cap = in_bytes(re.search(r"^memory-cap = (\w+)$", conf, re.M)[1])
    assert cap < in_bytes(resources["limits"]["memory"]) and in_bytes(resources["requests"]["memory"]) <= in_bytes(resources["limits"]["memory"])
    assert {"cpu", "memory", "ephemeral-storage"} == set(resources["requests"]) and "cpu" not in resources["limits"]


def test_a_key_of_the_metrics_role_reads_what_the_monitor_asks_for(boot):
    server = boot()
    admin = run_ctl(server, "key", "create").split()[0]
    path = one("ServiceMonitor")["spec"]["endpoints"][0]["path"]
    made = run_ctl(server, "--key", admin, "key", "create", "--role", "metrics", "--label", "prometheus").split()[0]
    assert "laplaced_build_info" in Client(server, key=made).call("GET", path).text
    Client(server).call("GET", path, expect=401)
