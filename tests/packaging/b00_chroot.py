"""The package in a bare Debian 12: installed, reloaded, upgraded under load, called by our clients, upgraded behind a socket, removed, installed again, purged. In
this order. What is installed first is the package of an older commit where `make deb-before` has left one."""
import itertools
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest
import requests

from chroot import Chroot, Manager
from package import ROOT, package, run, unpacked

BASE = pathlib.Path(os.environ.get("LAPLACED_BASE", ROOT / "build/base/bookworm.tar"))
BEFORE = pathlib.Path(os.environ.get("LAPLACED_PACKAGES_BEFORE", ROOT / "build/deb-before"))
UNIT, SOCKET = "laplaced.service", "laplaced.socket"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a chroot wants root")


def a_free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Machine:
    def __init__(self, folder):
        self.folder = folder
        self.chroot = Chroot(BASE, folder / "root")
        self.manager = Manager(self.chroot, UNIT)
        self.port = a_free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        # The chroot shares our network, in which 8080 may be taken.
        etc = self.chroot.root / "etc/laplaced"
        etc.mkdir()
        (etc / "env").write_text(f"LAPLACED_LISTEN=127.0.0.1:{self.port}\n")
        self.is_old = any(BEFORE.glob("laplaced_*.deb"))
        self.first, self.second = package(BEFORE) if self.is_old else package(), package() if self.is_old else self.version(1)

    def version(self, n):
        """The same files under a higher version."""
        tree, deb = unpacked(package(), self.folder / f"tree-{n}"), self.folder / f"{n}.deb"
        control = tree / "DEBIAN/control"
        control.write_text(re.sub("^Version: (.*)$", rf"Version: \1+{n}", control.read_text(), flags=re.M))
        run("dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, deb)
        return deb

    def apt(self, *words):
        """Archives are kept for the next time."""
        kept, archives = BASE.parent / "archives", self.chroot.root / "var/cache/apt/archives"
        kept.mkdir(exist_ok=True)
        for deb in kept.glob("*.deb"):
            shutil.copy(deb, archives)
        out = self.chroot.run("apt-get", "-y", "-q", "--no-install-recommends", *words)
        for deb in archives.glob("*.deb"):
            shutil.copy(deb, kept)
        return out

    def give(self, deb):
        shutil.copy(deb, self.chroot.root / "tmp/laplaced.deb")
        return "/tmp/laplaced.deb"

    def paths(self, pattern):
        return sorted(str(p.relative_to(self.chroot.root)) for p in self.chroot.root.glob(pattern))

    def events(self):
        text = requests.get(f"{self.url}/tenants/default/events", params={"limit": 100000}, timeout=60).text
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    assert BASE.exists(), f"no {BASE}: make test-deb makes it"
    one = Machine(tmp_path_factory.mktemp("machine"))
    yield one
    one.manager.close()


def test_apt_installs_it_with_what_it_needs_and_the_service_is_started(machine):
    machine.apt("update")
    machine.apt("install", "systemd")
    machine.manager.stand_in()
    machine.apt("install", machine.give(machine.first))
    assert ["start", UNIT] in machine.manager.asked and ["daemon-reload"] in machine.manager.asked, machine.manager.asked
    machine.manager.check()
    assert machine.manager.told[0]["STATUS"].startswith(f"serving on 127.0.0.1:{machine.port}")
    user = machine.chroot.user("laplaced")
    status = pathlib.Path(f"/proc/{machine.manager.process.pid}/status").read_text()
    assert user and re.search(r"^Uid:\t(\d+)", status, re.M)[1] == str(user[0]) and "\nCapEff:\t0000000000000000\n" in status
    data = machine.chroot.root / "var/lib/laplaced"
    assert (data.stat().st_uid, data.stat().st_mode & 0o777) == (user[0], 0o700) and (data / "registry.db").stat().st_uid == user[0]
    assert machine.paths("etc/systemd/system/*.wants/*laplaced*") == ["etc/systemd/system/multi-user.target.wants/laplaced.service"]
    assert machine.manager.listener is None and ["start", SOCKET] not in machine.manager.asked  # the administrator's choice
    assert requests.get(f"{machine.url}/readyz", timeout=10).status_code == 200
    machine.chroot.run("laplacectl", "--server", machine.url, "ready")
    # Of a server without keys its log warns, and of nothing else.
    amiss = re.findall("level=(?:warn|error) msg=\"([^\"]*)", machine.manager.log())
    assert [m.split(",")[0] for m in amiss] == ["no keys"], amiss


def test_systemd_takes_the_installed_unit(machine):
    said = machine.chroot.run("systemd-analyze", "verify", "--man=no", f"/lib/systemd/system/{UNIT}")
    assert "laplaced" not in said, said
    assert machine.chroot.run("systemd-sysusers", "--dry-run") is not None


def test_what_the_file_says_is_in_force_after_a_reload(machine):
    conf = machine.chroot.root / "etc/laplaced/laplaced.conf"
    conf.write_text(conf.read_text().replace("#log-level = info", "log-level = debug"))
    out = machine.chroot.run("laplaced", "--check-config", env={"LAPLACED_CONFIG": "/etc/laplaced/laplaced.conf"})
    assert "# file\ndata = /var/lib/laplaced\n" in out and "log-level = debug" in out
    n_told = len(machine.manager.told)
    machine.chroot.run("systemctl", "reload", UNIT)
    end = time.monotonic() + 20
    while "log-level" not in machine.manager.log() and time.monotonic() < end:
        time.sleep(0.05)
    assert re.search("log-level.*debug", machine.manager.log())
    assert [m for m in machine.manager.told[n_told:] if "RELOADING" in m]


class Load:
    """Clients that decide and reward, and send each request until it is acknowledged, under an id of its own, as docs/API.md tells them to."""

    def __init__(self, url, name, n=4):
        self.url, self.name, self.acknowledged, self.refused, self.unconnected, self.gaps = url, name, [], 0, 0, []
        self.is_over, self.lock = threading.Event(), threading.Lock()
        self.threads = [threading.Thread(target=self.work, args=(k,)) for k in range(n)]
        for thread in self.threads:
            thread.start()

    def work(self, k):
        last = time.monotonic()
        for i in itertools.count():
            decision = f"{self.name}-{k}-{i}"
            for path, body in (("select", {"user": f"u{k}", "candidates": ["a", "b", "c"], "decision": decision}), ("reward", {"decision": decision, "reward": 1})):
                if self.is_over.is_set():
                    return
                self.send(path, body)
                with self.lock:
                    self.acknowledged.append((path, decision))
                    self.gaps.append(time.monotonic() - last)
                last = time.monotonic()

    def send(self, path, body):
        while True:
            try:
                answer = requests.post(f"{self.url}/{path}", json=body, headers={"Connection": "close"}, timeout=60)
                assert answer.status_code in (200, 503), answer.text
                if answer.status_code == 200:
                    return
            except requests.ConnectionError as fault:
                with self.lock:
                    self.unconnected += "refused" in str(fault)
            with self.lock:
                self.refused += 1
            time.sleep(0.02)

    def wait(self, more):
        want, end = len(self.acknowledged) + more, time.monotonic() + 60
        while len(self.acknowledged) < want:
            assert time.monotonic() < end and all(t.is_alive() for t in self.threads)
            time.sleep(0.02)

    def finish(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    def check(self, events):
        """Each that was acknowledged stands in the log once, and nothing else of ours does."""
        found = [({"decided": "select", "rewarded": "reward"}[e["type"]], e["decision"]) for e in events
                 if e["type"] in ("decided", "rewarded") and e["decision"].startswith(self.name + "-")]
        assert len(found) == len(set(found)) and set(found) == set(self.acknowledged), (len(found), len(self.acknowledged))
        print(f"\n{len(found)} changes acknowledged, {self.refused} attempts refused meanwhile, longest wait of a client {max(self.gaps):.2f} s")


def upgrade(machine, deb, name):
    """Under load, which is held to the log at the end."""
    before, n_asked, n_ends = machine.manager.process.pid, len(machine.manager.asked), len(machine.manager.ends)
    load = Load(machine.url, name)
    try:
        load.wait(200)
        machine.apt("install", machine.give(deb))
        load.wait(200)
    finally:
        load.finish()
    assert ["restart", UNIT] in machine.manager.asked[n_asked:] and machine.manager.ends[n_ends:] == [0]
    assert machine.manager.process.pid != before and [m for m in machine.manager.told if "STOPPING" in m]
    load.check(machine.events())
    # What the administrator has written stands.
    assert "\nlog-level = debug\n" in (machine.chroot.root / "etc/laplaced/laplaced.conf").read_text()
    return load


def test_an_upgrade_under_load_drains_and_loses_nothing(machine):
    old = machine.chroot.run("laplaced", "--version")
    upgrade(machine, machine.second, "first")
    new = machine.chroot.run("laplaced", "--version")
    assert (old != new) == machine.is_old and new.split()[1] in package().name
    assert machine.chroot.run("laplacectl", "--server", machine.url, "verify", "default")


@pytest.fixture
def programs(machine, tmp_path):
    """The installed programs, as programs that run in their chroot from outside of it."""
    out = {}
    for name in ("laplaced", "laplacectl"):
        path = tmp_path / name
        root, shared = machine.chroot.root, tmp_path.parent
        path.write_text(f"""#!/bin/sh
exec unshare -m sh -c 'mkdir -p {root}{shared} && mount --bind {shared} {root}{shared} && mount -t proc proc {root}/proc && exec chroot {root} "$@"' sh /usr/bin/{name} "$@"
""")
        path.chmod(0o755)
        out[name] = str(path)
    return {**os.environ, "LAPLACED_BIN": out["laplaced"], "LAPLACECTL_BIN": out["laplacectl"], "PYTHONDONTWRITEBYTECODE": "1"}


def test_the_recipes_of_the_client_for_python_run_on_what_is_installed(programs, tmp_path):
    done = subprocess.run(["/usr/bin/python3", "-m", "pytest", ROOT / "tests/http/y00_python_client.py", "-k", "recipe or readme", f"--basetemp={tmp_path.parent}/python"],
                          env=programs, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and re.search(r"^[.]{3,}", done.stdout, re.M), done.stdout[-3000:] + done.stderr[-1000:]


def test_the_recipes_of_the_client_for_typescript_run_on_what_is_installed(machine, programs, tmp_path):
    compiled = ROOT / "build/contract/typescript/out/test/client.test.js"
    if shutil.which("node") is None or not compiled.exists():
        pytest.skip("no compiled client: make contract makes it")
    # Its tests make tenants, and its servers' folders, where the chroot sees them.
    done = subprocess.run(["node", "--test", "--test-reporter=tap", compiled], env={**programs, "LAPLACED_URL": machine.url, "TMPDIR": str(tmp_path.parent)},
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and len(re.findall(r"^ok \d+ - recipe: ", done.stdout, re.M)) == 3, done.stdout[-3000:]


def test_behind_a_socket_an_upgrade_refuses_nobody(machine):
    """As docs/OPERATIONS.md has it: stop the service, enable the socket, start the service."""
    folder = machine.chroot.root / f"etc/systemd/system/{SOCKET}.d"
    folder.mkdir(parents=True)
    (folder / "address.conf").write_text(f"[Socket]\nListenStream=\nListenStream=127.0.0.1:{machine.port}\n")
    said = machine.chroot.run("systemd-analyze", "verify", "--man=no", f"/lib/systemd/system/{SOCKET}")
    assert "laplaced" not in said, said
    machine.chroot.run("systemctl", "stop", UNIT)
    machine.chroot.run("systemctl", "enable", SOCKET)
    machine.chroot.run("systemctl", "start", SOCKET)
    machine.chroot.run("systemctl", "start", UNIT)
    machine.manager.check()
    listener = machine.manager.listener
    load = upgrade(machine, machine.version(2), "second")
    assert load.unconnected == 0 and machine.manager.listener is listener
    assert "+2" in machine.chroot.run("dpkg-query", "-W", "laplaced")
    assert "etc/systemd/system/sockets.target.wants/laplaced.socket" in machine.paths("etc/systemd/system/*.wants/*laplaced*")


def test_removed_it_stops_in_order_and_its_data_stay(machine):
    machine.n_events, n_asked = len(machine.events()), len(machine.manager.asked)
    machine.apt("remove", "laplaced")
    stops = [words[1] for words in machine.manager.asked[n_asked:] if words[0] == "stop"]
    assert stops == [SOCKET, UNIT] and set(machine.manager.ends) == {0} and machine.manager.process is None and machine.manager.listener is None
    assert not machine.paths("usr/bin/laplace*") and not machine.paths("lib/systemd/system/laplaced*")
    assert machine.paths("etc/laplaced/*") == ["etc/laplaced/env", "etc/laplaced/laplaced.conf"]
    assert "var/lib/laplaced/registry.db" in machine.paths("var/lib/laplaced/*")


def test_installed_again_it_goes_on_where_it_was(machine):
    machine.apt("install", machine.give(package()))
    assert machine.manager.process is not None and len(machine.events()) == machine.n_events
    assert machine.chroot.run("laplacectl", "--server", machine.url, "verify", "default")


def test_purged_nothing_of_it_is_left_but_its_user_and_what_the_administrator_made(machine):
    machine.apt("purge", "laplaced")
    assert set(machine.manager.ends) == {0}
    left = [p for p in run("find", machine.chroot.root, "-xdev", "-iname", "*laplace*", "-printf", "%P\n").split()
            if not p.startswith(("proc/", "tmp/", "run/", "var/cache/apt/", "var/lib/apt/"))]
    assert sorted(left) == ["etc/laplaced", "etc/systemd/system/laplaced.socket.d"] and machine.paths("etc/laplaced/*") == ["etc/laplaced/env"]
    assert machine.chroot.user("laplaced")
