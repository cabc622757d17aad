"""deploy/patroni and deploy/haproxy-cluster.cfg as they stand, on loopback: etcd, two PostgreSQL under Patroni, three servers and HAProxy. Nobody promotes by hand."""
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
import requests

from servers import ROOT, Servers, wait_for
from siege import keep_tally
import pg

DEPLOY = ROOT / "deploy"
DEATHS = int(os.environ.get("CLUSTER_PATRONI_DEATHS", 1))
PROGRAMS = ("patroni", "etcd", "haproxy", "runuser")
pytestmark = [pytest.mark.skipif(any(shutil.which(p, path="/usr/sbin:/usr/bin:/sbin:/bin") is None for p in PROGRAMS), reason="no patroni, etcd or haproxy here (sh tools/setup.sh --patroni)"),
              pytest.mark.skipif(os.geteuid() != 0, reason="PostgreSQL runs as the user postgres, which root can become")]


class Node:
    """One PostgreSQL under Patroni, by start.sh; or etcd."""

    def __init__(self, folder, name, ports, etcd):
        self.folder, self.name, self.process = folder / name, name, None
        self.folder.mkdir()
        self.pg, self.api = ports
        self.env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "NODE": name, "ADDRESS": "127.0.0.1", "DATA": str(self.folder), "SECRETS": str(folder), "ETCD": etcd,
                    "PG_LISTEN": f"127.0.0.1:{self.pg}", "API_LISTEN": f"127.0.0.1:{self.api}", "CONFIG": str(self.folder / "patroni.yml"), "HOME": str(self.folder)}
        text = (DEPLOY / "patroni/patroni.yml").read_text()
        for old, new in (("/etc/laplaced-log/made.sh", str(folder / "made.sh")), ("/tmp/pgpass", f"{self.folder}/pgpass"), ("unix_socket_directories: /tmp", f"unix_socket_directories: {self.folder}")):
            assert old in text
            text = text.replace(old, new)
        (self.folder / "patroni.yml").write_text(text)

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(["runuser", "-u", "postgres", "--", "sh", str(self.folder.parent / "start.sh")], env=self.env, stdout=log, stderr=log, cwd="/", start_new_session=True)

    def role(self):
        try:
            return requests.get(f"http://127.0.0.1:{self.api}/patroni", timeout=2).json().get("role")
        except requests.RequestException:
            return None

    def is_sync(self):
        try:
            return requests.get(f"http://127.0.0.1:{self.api}/sync", timeout=2).status_code == 200
        except requests.RequestException:
            return False

    def kill(self):
        """The machine is gone: Patroni and PostgreSQL at once."""
        pidfile = self.folder / "pg" / "postmaster.pid"
        own = [int(p) for p in subprocess.run(["ps", "-o", "pid=", "--sid", str(os.getsid(self.process.pid))], capture_output=True, text=True).stdout.split()]
        if pidfile.exists():
            postmaster = int(pidfile.read_text().split()[0])
            own += [postmaster, *(int(p) for p in subprocess.run(["ps", "-o", "pid=", "--ppid", str(postmaster)], capture_output=True, text=True).stdout.split())]
        for pid in own:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait(10)
        self.process = None


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("patroni")
    user = pwd.getpwnam("postgres")
    for name in ("start.sh", "made.sh"):
        shutil.copy(DEPLOY / "patroni" / name, folder)
    for name in ("postgres", "replicator", "laplaced"):
        (folder / f"{name}-password").write_text(f"secret-of-{name}\n")
    ports = pg.free_ports(6)
    etcd = subprocess.Popen(["runuser", "-u", "postgres", "--", "etcd", "--name", "etcd", "--data-dir", folder / "etcd", "--listen-client-urls", f"http://127.0.0.1:{ports[0]}",
                             "--advertise-client-urls", f"http://127.0.0.1:{ports[0]}", "--listen-peer-urls", f"http://127.0.0.1:{ports[1]}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{ports[1]}",
                             "--initial-cluster", f"etcd=http://127.0.0.1:{ports[1]}"], stdout=open(folder / "etcd.log", "wb"), stderr=subprocess.STDOUT, cwd="/", start_new_session=True)
    nodes = [Node(folder, f"pg{i}", ports[2 * i:2 * i + 2], f"127.0.0.1:{ports[0]}") for i in (1, 2)]
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, user.pw_uid, user.pw_gid)
    for parent in folder.parents:
        if parent == pathlib.Path("/tmp"):
            break
        parent.chmod(0o755)
    try:
        for node in nodes:
            node.start()
        wait_for(lambda: any(n.role() in ("master", "primary") for n in nodes) and any(n.is_sync() for n in nodes), 120, "a leader and a synchronous standby")
        yield folder, nodes
    finally:
        for node in nodes:
            if node.process is not None:
                node.kill()
        os.killpg(etcd.pid, signal.SIGKILL)
        etcd.wait(10)


@pytest.fixture(scope="module")
def url(log):
    folder, nodes = log
    (folder / "pg_service.conf").write_text(f"[laplaced]\npassword=secret-of-laplaced\n")
    os.environ["PGSERVICEFILE"] = str(folder / "pg_service.conf")
    yield f"postgresql://laplaced@127.0.0.1:{nodes[0].pg},127.0.0.1:{nodes[1].pg}/laplaced?target_session_attrs=read-write&service=laplaced"
    del os.environ["PGSERVICEFILE"]


@pytest.fixture(scope="module")
def cluster(url, tmp_path_factory):
    ctl = os.environ["LAPLACECTL_BIN"]
    wait_for(lambda: subprocess.run([ctl, "cluster", "init", "--log", url], capture_output=True).returncode == 0, 60, "tables")
    folder = tmp_path_factory.mktemp("servers")
    servers = Servers(folder, url)
    port, = pg.free_ports(1)
    text = (DEPLOY / "haproxy-cluster.cfg").read_text().replace("bind :8080", f"bind 127.0.0.1:{port}")
    for name, server in zip("abc", servers.servers):
        text, n = re.subn(rf"^(    server {name}) {name}:8080$", rf"\1 {server.url.removeprefix('http://')}", text, flags=re.M)
        assert n == 1
    (folder / "haproxy.cfg").write_text(text)
    proxy = subprocess.Popen([shutil.which("haproxy", path="/usr/sbin:/usr/bin"), "-db", "-f", folder / "haproxy.cfg"], stdout=open(folder / "haproxy.log", "wb"), stderr=subprocess.STDOUT)
    door = f"http://127.0.0.1:{port}"
    def answers():
        try:
            return requests.get(f"{door}/readyz", timeout=5).status_code == 200
        except requests.RequestException:
            return False
    try:
        wait_for(answers, 30, "the proxy")
        yield door, servers
    finally:
        proxy.terminate()
        proxy.wait(10)
        servers.end()


def test_haproxy_sends_each_tenant_to_one_server(cluster):
    door, servers = cluster
    for i in range(12):
        requests.put(f"{door}/tenants/t{i}", json={"algorithm": "ts"}, timeout=30)
    def counts():
        out = []
        for server in servers.servers:
            text = requests.get(f"{server.url}/metrics", timeout=30).text
            out.append(sum(int(float(n)) for n in re.findall(r'^laplaced_http_requests_total\{[^}]*route="/select"[^}]*\} (\S+)', text, re.M)))
        return out
    used = []
    for i in range(12):
        before = counts()
        for k in range(3):
            assert requests.post(f"{door}/select", json={"user": f"u{k}", "candidates": ["a", "b"]}, headers={"Laplaced-Tenant": f"t{i}"}, timeout=30).status_code == 200
        moved = [n for n, (old, new) in enumerate(zip(before, counts())) if new > old]
        assert len(moved) == 1, (i, before, counts())
        used += moved
    assert len(set(used)) > 1


def test_patroni_promotes_and_each_acknowledged_change_is_at_each_server_once(cluster, log):
    door, servers = cluster
    _, nodes = log
    requests.put(f"{door}/tenants/town", json={"algorithm": "ts", "default_reward": None}, timeout=30)
    acknowledged, is_over = [], threading.Event()
    def write(k):
        i = 0
        while not is_over.is_set():
            line = {"user": f"u{k}", "arm": "a", "reward": 1, "id": f"{k}-{i}"}
            try:
                if requests.post(f"{door}/observe", json=line, headers={"Laplaced-Tenant": "town"}, timeout=30).status_code == 200:
                    acknowledged.append(line["id"])
                    i += 1
                    continue
            except requests.RequestException:
                pass
            time.sleep(0.05)
    threads = [threading.Thread(target=write, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: len(acknowledged) > 60, 60, "traffic")
        for _ in range(DEATHS):
            wait_for(lambda: any(n.is_sync() for n in nodes), 60, "a synchronous standby")
            leader, other = sorted(nodes, key=lambda n: n.role() not in ("master", "primary"))
            leader.kill()
            wait_for(lambda: other.role() in ("master", "primary"), 90, "another leader")
            n_then = len(acknowledged)
            time.sleep(3)
            assert len(acknowledged) <= n_then + 3  # strict: alone it acknowledges nothing
            leader.start()
            begun = time.monotonic()
            wait_for(lambda: len(acknowledged) > n_then + 60, 120, "traffic behind the promotion")
            print(f"\n{n_then} changes before, {time.monotonic() - begun:.1f} s from the return of a standby to 60 more")
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    for server in servers.servers:
        wait_for(lambda: requests.get(f"{server.url}/readyz", timeout=10).status_code == 200, 60, "readiness")
        text = requests.get(f"{server.url}/tenants/town/events", params={"limit": 100000}, timeout=60).text
        ids = re.findall(r'"type":"observed".*?"id":"([^"]+)"', text)
        assert len(ids) == len(set(ids)) and set(acknowledged) <= set(ids)
    keep_tally({"test": "patroni", "faults": DEATHS, "lines": len(ids), "acknowledged": len(acknowledged), "lost": 0, "doubled": 0, "passed": True})
