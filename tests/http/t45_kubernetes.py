"""deploy/kubernetes: what is applied is whole, of one piece, and asks for what the server has."""
import re
import shutil
import subprocess

import pytest
import yaml

from contract import ROOT
from harness import BIN, Client, run_ctl
from manifests import render

FOLDERS = {name: ROOT / "deploy/kubernetes" / name for name in ("single", "cluster", "monitored")}
WORKLOADS = {"single": "Deployment", "cluster": "StatefulSet"}
SIZE = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 2**10, "M": 2**20, "G": 2**30}
LABELS = {"app.kubernetes.io/name": "laplaced"}


def all_of(kind, folder):
    return [d for d in render(FOLDERS[folder]) if d["kind"] == kind]


def one(kind, folder):
    found, = all_of(kind, folder)
    return found


def monitor():
    return one("ServiceMonitor", "monitored")["spec"]


def pod_of(folder):
    """The pod's description with its one container."""
    spec = one(WORKLOADS[folder], folder)["spec"]["template"]["spec"]
    container, = spec["containers"]
    return spec, container


def in_bytes(text):
    number, unit = re.fullmatch(r"(\d+)(\w*)", text).groups()
    return int(number) * SIZE[unit]


@pytest.mark.parametrize("name", FOLDERS)
def test_kubectl_makes_the_same_of_it(name):
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl here")
    done = subprocess.run(["kubectl", "kustomize", FOLDERS[name]], capture_output=True, text=True)
    assert done.returncode == 0 and "deprecated" not in done.stderr, done.stderr
    key = lambda d: (d["kind"], d["metadata"]["name"])
    assert sorted(yaml.safe_load_all(done.stdout), key=key) == sorted(render(FOLDERS[name]), key=key)


def test_what_is_applied_is_known():
    assert sorted(d["kind"] for d in render(FOLDERS["single"])) == ["ConfigMap", "Deployment", "PersistentVolumeClaim", "PodDisruptionBudget", "Service"]
    assert sorted(d["kind"] for d in render(FOLDERS["cluster"])) == ["ConfigMap", "PodDisruptionBudget", "Service", "Service", "StatefulSet"]
    assert [d["kind"] for d in render(FOLDERS["monitored"])] == ["ServiceMonitor"]
    everything = [d for folder in FOLDERS.values() for d in render(folder)]
    assert {d["metadata"]["namespace"] for d in everything} == {"laplaced"} and all(d["metadata"]["labels"] == LABELS for d in everything)


@pytest.mark.parametrize("folder", WORKLOADS)
def test_each_part_finds_the_others(folder):
    spec, container = pod_of(folder)
    workload = one(WORKLOADS[folder], folder)["spec"]
    service = next(d for d in all_of("Service", folder) if "ports" in d["spec"])
    assert workload["template"]["metadata"]["labels"] == workload["selector"]["matchLabels"] == LABELS
    assert all(d["spec"]["selector"] == LABELS for d in all_of("Service", folder))
    assert one("PodDisruptionBudget", folder)["spec"]["selector"]["matchLabels"] == LABELS == monitor()["selector"]["matchLabels"]
    port, = service["spec"]["ports"]
    assert port["targetPort"] == container["ports"][0]["name"] and port["name"] == monitor()["endpoints"][0]["port"]
    volumes = {v["name"]: v for v in [*spec["volumes"], *({"name": c["metadata"]["name"]} for c in workload.get("volumeClaimTemplates", []))]}
    assert volumes["config"]["configMap"]["name"] == one("ConfigMap", folder)["metadata"]["name"]
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    assert set(mounts) == set(volumes)
    env = {e["name"]: e.get("value") for e in container["env"]}
    (conf, _), = one("ConfigMap", folder)["data"].items()
    assert env["LAPLACED_CONFIG"] == f'{mounts["config"]}/{conf}' and f'LAPLACED_DATA={mounts["data"]} ' in (ROOT / "Dockerfile").read_text()
    told = (FOLDERS[folder] / "kustomization.yaml").read_text() + (FOLDERS["monitored"] / "kustomization.yaml").read_text()
    secrets = dict(re.findall(r"create secret generic (\S+) --from-(?:literal|file)=([a-z_.-]+)", told))
    credentials = monitor()["endpoints"][0]["authorization"]["credentials"]
    wanted = {volumes["keys"]["secret"]["secretName"]: env["LAPLACED_ADMIN_KEY_FILE"].removeprefix(mounts["keys"] + "/"), credentials["name"]: credentials["key"]}
    if "log" in volumes:
        wanted[volumes["log"]["secret"]["secretName"]] = env["PGSERVICEFILE"].removeprefix(mounts["log"] + "/")
    assert secrets == wanted


@pytest.mark.parametrize("folder", WORKLOADS)
def test_each_option_and_path_is_the_servers(folder, server, api):
    _, container = pod_of(folder)
    options = set(re.findall(r'^    \{"([a-z-]+)", ', (ROOT / "server/app/option_table.c").read_text(), re.M))
    asked = {e["name"].removeprefix("LAPLACED_").lower().replace("_", "-") for e in container["env"] if e["name"].startswith("LAPLACED_")}
    lines = re.findall(r"^([a-z-]+) = (.*)$", one("ConfigMap", folder)["data"]["laplaced.conf"], re.M)
    assert asked and lines and asked | {name for name, _ in lines} <= options
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        api.call("GET", container[probe]["httpGet"]["path"])


@pytest.mark.parametrize("folder", WORKLOADS)
def test_the_configuration_is_taken_as_it_stands(folder, tmp_path):
    """As in the pod: the file and the variables, by the server's own check."""
    _, container = pod_of(folder)
    (tmp_path / "laplaced.conf").write_text(one("ConfigMap", folder)["data"]["laplaced.conf"])
    (tmp_path / "admin-keys").write_text("correct-horse-battery-staple-0001\n")
    env = {e["name"]: e.get("value", "laplaced-0") for e in container["env"]}
    env |= {"LAPLACED_CONFIG": str(tmp_path / "laplaced.conf"), "LAPLACED_ADMIN_KEY_FILE": str(tmp_path / "admin-keys"), "LAPLACED_LISTEN": "0.0.0.0:8080"}
    done = subprocess.run([BIN, "--check-config"], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert ("node = laplaced-0" in done.stdout) == (folder == "cluster")


def test_the_job_is_the_one_that_alerts_ask_for():
    for folder in WORKLOADS:
        jobs = {d["metadata"]["labels"][monitor()["jobLabel"]] for d in all_of("Service", folder) if "ports" in d["spec"]}
        assert set(re.findall(r'job="(\w+)"', (ROOT / "deploy/alerts.yml").read_text())) == jobs


@pytest.mark.parametrize("folder", WORKLOADS)
def test_a_node_may_be_drained_and_the_server_has_room(folder):
    budget, replicas = one("PodDisruptionBudget", folder)["spec"], one(WORKLOADS[folder], folder)["spec"]["replicas"]
    assert budget.get("maxUnavailable", replicas - budget.get("minAvailable", replicas)) == 1
    _, container = pod_of(folder)
    resources, conf = container["resources"], one("ConfigMap", folder)["data"]["laplaced.conf"]
    cap = in_bytes(re.search(r"^memory-cap = (\w+)$", conf, re.M)[1])
    assert cap < in_bytes(resources["limits"]["memory"]) and in_bytes(resources["requests"]["memory"]) <= in_bytes(resources["limits"]["memory"])
    assert {"cpu", "memory", "ephemeral-storage"} == set(resources["requests"]) and "cpu" not in resources["limits"]


def test_three_servers_have_names_volumes_and_machines_of_their_own():
    workload = one("StatefulSet", "cluster")["spec"]
    spec, container = pod_of("cluster")
    assert workload["replicas"] == 3 and one("PodDisruptionBudget", "cluster")["spec"]["minAvailable"] == 2
    headless = next(d for d in all_of("Service", "cluster") if d["metadata"]["name"] == workload["serviceName"])
    assert headless["spec"]["clusterIP"] == "None" and "ports" not in headless["spec"]
    node, = [e["valueFrom"]["fieldRef"]["fieldPath"] for e in container["env"] if e["name"] == "LAPLACED_NODE"]
    claim, = workload["volumeClaimTemplates"]
    apart, = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert node == "metadata.name" and claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert apart == {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": LABELS}}


def test_a_key_of_the_metrics_role_reads_what_the_monitor_asks_for(boot):
    server = boot()
    admin = run_ctl(server, "key", "create").split()[0]
    path = monitor()["endpoints"][0]["path"]
    made = run_ctl(server, "--key", admin, "key", "create", "--role", "metrics", "--label", "prometheus").split()[0]
    assert "laplaced_build_info" in Client(server, key=made).call("GET", path).text
    Client(server).call("GET", path, expect=401)
