"""deploy/compose-cluster.yml with what it names: of one piece, with options that the server has, and secrets that its first lines make."""
import re
import shutil
import subprocess
import urllib.parse

import pytest
import yaml

from contract import ROOT
from harness import BIN

DEPLOY = ROOT / "deploy"
TEXT = (DEPLOY / "compose-cluster.yml").read_text()
FILE = yaml.safe_load(TEXT)
SERVICES = FILE["services"]
SERVERS = {name: s for name, s in SERVICES.items() if "LAPLACED_NODE" in s.get("environment", {})}
LOG = [name for name, s in SERVICES.items() if "postgres-password" in s.get("secrets", [])]


def test_what_services_name_is_there():
    for name, service in SERVICES.items():
        assert set(service.get("secrets", [])) <= set(FILE["secrets"]), name
        assert set(service.get("depends_on", [])) <= set(SERVICES), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in FILE["volumes"], (name, volume)
        if "build" in service:
            assert (DEPLOY / service["build"]["context"] / "Dockerfile").exists(), name
    used = {v.split(":")[0] for s in SERVICES.values() for v in s.get("volumes", []) if not v.startswith(".")}
    assert used == set(FILE["volumes"]) and {s for one in SERVICES.values() for s in one.get("secrets", [])} == set(FILE["secrets"])


def test_its_first_lines_make_each_secret():
    head = TEXT.split("x-laplaced:")[0]
    made = set(re.search(r"for f in ([a-z -]+);", head)[1].split()) | set(re.findall(r"> deploy/([a-z_.]+)", head))
    assert made == {s["file"].removeprefix("./") for s in FILE["secrets"].values()}
    assert "deploy/admin-keys" in (ROOT / ".gitignore").read_text() and all(f"deploy/{name}" in (ROOT / ".gitignore").read_text() for name in made)


def test_three_servers_have_names_and_folders_of_their_own_and_one_log(tmp_path):
    assert len(SERVERS) == 3 and len({s["environment"]["LAPLACED_NODE"] for s in SERVERS.values()}) == 3 and len({str(s["volumes"]) for s in SERVERS.values()}) == 3
    url, = {s["environment"]["LAPLACED_LOG"] for s in SERVERS.values()}
    assert urllib.parse.urlsplit(url).netloc == f"laplaced@{','.join(LOG)}" and len(LOG) == 2
    assert all(SERVICES[name]["hostname"] == name for name in LOG)
    (tmp_path / "keys").write_text("correct-horse-battery-staple-0001\n")
    for server in SERVERS.values():
        env = {**server["environment"], "LAPLACED_ADMIN_KEY_FILE": str(tmp_path / "keys"), "LAPLACED_LISTEN": "0.0.0.0:8080"}
        done = subprocess.run([BIN, "--check-config"], capture_output=True, text=True, env=env)
        assert done.returncode == 0 and f"log = {url}\n" in done.stdout, done.stderr
        drain = int(re.search(r"^drain-timeout = (\d+)", done.stdout, re.M)[1])
        assert int(server["stop_grace_period"].rstrip("s")) > drain
        assert server["read_only"] and server["cap_drop"] == ["ALL"]


def test_the_proxy_knows_the_servers_and_no_other():
    text = (DEPLOY / "haproxy-cluster.cfg").read_text()
    assert dict(re.findall(r"^    server (\w+) (\S+)$", text, re.M)) == {name: f"{name}:8080" for name in SERVERS}
    program = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if program is None:
        pytest.skip("no haproxy here (sh tools/setup.sh --proxies)")
    done = subprocess.run([program, "-c", "-f", DEPLOY / "haproxy-cluster.cfg"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "Configuration file is valid" in done.stdout + done.stderr, done.stderr


def test_postgresql_acknowledges_with_a_standby_or_not_at_all():
    dcs = yaml.safe_load((DEPLOY / "patroni/patroni.yml").read_text())["bootstrap"]["dcs"]
    assert dcs["synchronous_mode"] and dcs["synchronous_mode_strict"] and dcs["maximum_lag_on_failover"] == 0
    assert dcs["postgresql"]["parameters"]["synchronous_commit"] == "on" and dcs["postgresql"]["parameters"]["log_parameter_max_length"] == 0
    start = (DEPLOY / "patroni/start.sh").read_text()
    assert {f"{name}" for name in re.findall(r"password ([a-z-]+)\)", start)} == set(SERVICES[LOG[0]]["secrets"])
