"""What a balancer and an orchestrator are told: /healthz and /readyz while the server recovers, hangs, fills its disk or stops."""
import concurrent.futures
import os
import re
import sqlite3
import subprocess
import threading
import time

import pytest
import yaml

from contract import CONTRACT, ROOT
from h00_auth import PUBLIC, requests_of_every_operation
from harness import BIN, CTL, SERVERS, Client, Server, free_port, run_ctl
from manifests import render

KEY = "correct-horse-battery-staple"


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.02)


def why(client):
    """The reason of /readyz, "" when it is ready."""
    answer = client.call("GET", "/readyz", expect=(200, 503))
    return "" if answer.status == 200 else answer.json["detail"]


@pytest.fixture
def gate(tmp_path):
    """A file at which a failpoint waits as long as it is there."""
    path = tmp_path / "gate"
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def recovering(tmp_path, gate):
    """recovering(*args): a server that hangs in the recovery of its second tenant, until the gate is removed."""
    servers = []

    def start(*args):
        server = Server(tmp_path)
        servers.append(server)
        server.start()
        client = Client(server)
        for name in ("default", "shop"):
            if name != "default":
                client.put_tenant(name, algorithm="ucb")
            for i in range(20):
                client.observe(f"u{i}", "a", 1, tenant=name)
        server.digest = client.digest("shop")
        server.kill()
        for path in (server.data / "tenants").glob("*.snapshot"):
            path.unlink()
        gate.touch()
        port = free_port()
        server.args, server.listen = ["--open-all", *args], f"127.0.0.1:{port}"
        server.env = {"LAPLACED_FAILPOINT": f"mid_recovery@{gate}"}
        server.launch()
        server.url = f"http://127.0.0.1:{port}"
        SERVERS.add(server.url)  # it has not greeted yet
        wait_for(lambda: "recovering all tenants" in server.log())
        return server
    yield start
    for server in servers:
        server.close()


def test_while_it_recovers_probes_answer_and_everything_else_is_503(recovering, gate, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(KEY + "\n")
    server = recovering("--admin-key-file", str(keys))
    client = Client(server)
    assert client.call("GET", "/healthz").json == {"status": "ok"}
    assert "recovering" in client.call("GET", "/readyz", expect=503).json["detail"]
    for caller in (client, Client(server, KEY)):
        for name, method, path, body in requests_of_every_operation():
            if name not in PUBLIC:
                answer = caller.call(method, path, body, expect=500 if name in CONTRACT.flags else 503)
                assert "recovering" in CONTRACT.detail(answer.json)
                assert name in CONTRACT.flags or answer.headers["Retry-After"] == "1"
    gate.unlink()
    server.greeted()
    assert why(client) == ""
    client.call("GET", "/tenants", expect=401)
    assert Client(server, KEY).digest("shop") == server.digest
    assert server.terminate() == 0


def test_bodies_are_not_taken_while_it_recovers(recovering, gate):
    server = recovering()
    Client(server).call("POST", "/tenants/new/import", raw=b"{}\n" * 100000, kind="application/x-ndjson", expect=503)
    Client(server).call("PUT", "/tenants/default/graph", {"edges": [["a", "b", 1]] * 20000}, expect=503)
    gate.unlink()
    server.greeted()
    assert [e["type"] for e in Client(server).events("default")].count("graph") == 0


def test_a_tenant_that_cannot_be_opened_still_refuses_the_start(recovering, gate):
    server = recovering()
    server.kill()
    gate.unlink()
    path = server.data / "tenants" / "shop.db"
    path.write_bytes(b"no database" * 100)
    status, stderr = server.run_to_end()
    assert status == 1 and "shop.db" in stderr and "listening" not in stderr.split("recovering all tenants")[1]


def test_ready_waits_for_the_recovery(recovering, gate):
    server = recovering()
    assert "recovering" in run_ctl(server, "ready", expect=1)
    started = time.monotonic()
    assert "recovering" in run_ctl(server, "ready", "--wait", "1", expect=1)
    assert time.monotonic() - started >= 1
    waiting = subprocess.Popen([CTL, "--server", server.url, "ready", "--wait", "60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.5)
    assert waiting.poll() is None
    gate.unlink()
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, (out, err)
    server.greeted()
    assert run_ctl(server, "ready") and run_ctl(server, "--json", "ready").strip() == '{"ready":true}'


def test_ready_of_a_server_that_is_not_there(tmp_path):
    url = f"http://127.0.0.1:{free_port()}"
    for arguments, least in (((), 0), (("--wait", "1"), 1)):
        started = time.monotonic()
        done = subprocess.run([CTL, "--server", url, "ready", *arguments], capture_output=True, timeout=60)
        assert done.returncode == 1 and b"/readyz" in done.stderr and time.monotonic() - started >= least
    # One that comes up while it waits.
    server = Server(tmp_path, listen=url[len("http://"):])
    waiting = subprocess.Popen([CTL, "--server", url, "ready", "--wait", "60"], stdout=subprocess.DEVNULL)
    try:
        server.start()
        assert waiting.wait(60) == 0
    finally:
        server.close()


# --- what hangs ------------------------------------------------------------------------------------------------------


def test_a_writer_that_hangs_is_not_ready_and_not_dead(boot, gate):
    server = boot("--stuck-after", "1", env={"LAPLACED_FAILPOINT": f"before_append@{gate}"})
    client = Client(server)
    client.select("u", candidates=["a"])
    gate.touch()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waits = pool.submit(Client(server).select, "u", candidates=["a"], decision="late")
        wait_for(lambda: "waiting for its commit" in why(client))
        assert client.call("GET", "/healthz").json == {"status": "ok"}
        gate.unlink()
        assert waits.result()["decision"] == "late"
    wait_for(lambda: why(client) == "")


def test_a_writer_that_is_slow_but_moves_is_ready(boot, gate):
    """Changes wait for longer than the limit all the time, though each is answered."""
    server = boot("--stuck-after", "1", env={"LAPLACED_FAILPOINT": f"before_append@{gate}"})
    client = Client(server)
    stop = threading.Event()

    def ask(k):
        mine, n = Client(server), 0
        while not stop.is_set():
            mine.select(f"u{k}", candidates=["a"])
            n += 1
        return n
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(ask, k) for k in range(8)]
        seen = []
        for _ in range(8):
            gate.touch()
            time.sleep(0.3)
            gate.unlink()
            time.sleep(0.2)
            seen.append(why(client))
        stop.set()
        assert all(a.result() > 0 for a in asking)
    assert seen == [""] * 8


def test_a_loop_that_hangs_is_dead(boot, gate):
    server = boot("--stuck-after", "1", env={"LAPLACED_FAILPOINT": f"in_tick@{gate}"})
    client = Client(server)
    assert why(client) == ""
    gate.touch()
    wait_for(lambda: client.call("GET", "/healthz", expect=(200, 503)).status == 503)
    assert "loop" in why(client)
    assert client.call("GET", "/healthz", expect=503).headers["Retry-After"] == "1"
    gate.unlink()
    wait_for(lambda: client.call("GET", "/healthz", expect=(200, 503)).status == 200)
    wait_for(lambda: why(client) == "")


def test_a_registry_that_takes_no_changes_is_not_ready_until_it_does(boot):
    server = boot()
    client = Client(server)
    other = sqlite3.connect(server.data / "registry.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    client.call("PUT", "/tenants/new", {}, expect=503)
    wait_for(lambda: "registry" in why(client))
    assert client.select("u", candidates=["a"])["arm"] == "a"  # others are served
    assert client.call("GET", "/healthz").status == 200
    other.execute("ROLLBACK")
    other.close()
    wait_for(lambda: why(client) == "")
    client.put_tenant("new", algorithm="ucb")
    assert "the registry takes no changes" in server.log() and "the registry takes changes again" in server.log()


def test_a_full_disk_is_seen_before_anybody_asks_for_a_change(boot, tmp_path):
    place = tmp_path / "data"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs here: {mounted.stderr.decode()}")
    try:
        server = boot()
        client = Client(server)
        assert why(client) == ""
        ballast = place / "ballast"
        room = os.statvfs(place)
        ballast.write_bytes(bytes(room.f_bavail * room.f_frsize))
        wait_for(lambda: why(client) == "the disk is full")
        assert client.call("GET", "/healthz").status == 200
        ballast.unlink()
        wait_for(lambda: why(client) == "")
        assert client.select("u", candidates=["a"])["arm"] == "a"
        assert server.terminate() == 0
    finally:
        subprocess.run(["umount", str(place)], capture_output=True)


def test_with_keys_readiness_names_no_tenant(boot, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(KEY + "\n")
    server = boot("--admin-key-file", str(keys))
    admin = Client(server, KEY)
    admin.put_tenant("secret-tenant", algorithm="ucb")
    server.fill_disk()
    admin.call("POST", "/select", {"user": "u", "candidates": ["a"]}, tenant="secret-tenant", expect=503)
    assert why(Client(server)) == "the last commit of a tenant failed"
    server.fill_disk(False)
    wait_for(lambda: why(Client(server)) == "")


def test_the_image_asks_by_its_own_client():
    assert re.search(r'HEALTHCHECK.*CMD \["laplacectl", "--timeout", "2", "ready"\]', (ROOT / "Dockerfile").read_text())


def manifests():
    return {doc["kind"]: doc for doc in render(ROOT / "deploy/kubernetes/single")}


def test_the_pod_is_restricted_and_alone():
    """The `restricted` profile of Kubernetes' pod security standards, and what a folder with one owner wants."""
    spec = manifests()["Deployment"]["spec"]
    pod = spec["template"]["spec"]
    container, = pod["containers"]
    assert spec["replicas"] == 1 and spec["strategy"] == {"type": "Recreate"}
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == manifests()["Service"]["spec"]["selector"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod) and pod["automountServiceAccountToken"] is False
    assert f'useradd --uid {pod["securityContext"]["runAsUser"]} ' in (ROOT / "Dockerfile").read_text()
    volumes = {v["name"]: v for v in pod["volumes"]}
    assert {m["name"] for m in container["volumeMounts"]} == set(volumes) and "hostPath" not in str(volumes)
    assert volumes["data"]["persistentVolumeClaim"]["claimName"] == manifests()["PersistentVolumeClaim"]["metadata"]["name"]


def test_the_manifests_probe_routes_that_mean_it(api):
    container, = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    paths = {kind: container[kind]["httpGet"]["path"] for kind in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert paths == {"startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}
    for path in set(paths.values()):
        api.call("GET", path)
    port, = container["ports"]
    assert f'LAPLACED_LISTEN=0.0.0.0:{port["containerPort"]}' in (ROOT / "Dockerfile").read_text()
    assert all(container[kind]["httpGet"]["port"] == port["name"] for kind in paths)


def test_options_of_the_manifests_are_taken(tmp_path):
    """Names and values (but of files) in the ConfigMap, the container's environment and the unit's example."""
    conf = tmp_path / "laplaced.conf"
    conf.write_text(manifests()["ConfigMap"]["data"]["laplaced.conf"])
    container, = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    env = {e["name"]: e["value"] for e in container["env"]}
    assert env["LAPLACED_CONFIG"].startswith(next(m["mountPath"] for m in container["volumeMounts"] if m["name"] == "config"))
    env.update(LAPLACED_CONFIG=str(conf), LAPLACED_ADMIN_KEY_FILE="")
    example = (ROOT / "deploy" / "env.example").read_text()
    env.update(re.findall(r"^#(LAPLACED_(?!ADMIN|TLS)\w+)=(.*)$", example, re.M))
    done = subprocess.run([BIN, "--check-config"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    known = set(re.findall(r"^([a-z-]+) = ", done.stdout, re.M)) | {"config"}
    assert {name.removeprefix("LAPLACED_").lower().replace("_", "-") for name in env} <= known
    drain = int(re.search(r"^drain-timeout = (\d+)", done.stdout, re.M).group(1))
    assert manifests()["Deployment"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > drain
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]["laplaced"]
    assert int(compose["stop_grace_period"].rstrip("s")) > drain
