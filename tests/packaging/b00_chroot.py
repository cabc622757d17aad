"""The package in a bare Debian 12: installed, reloaded, upgraded under load, removed, installed again, purged. In this order."""
import itertools
import json
import os
import pathlib
import re
import shutil
import socket
import threading
import time

import pytest
import requests

from chroot import Chroot, Manager
from package import ROOT, package, run, unpacked

BASE = pathlib.Path(os.environ.get("LAPLACED_BASE", ROOT / "build/base/bookworm.tar"))
UNIT = "laplaced.service"
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
        self.first, self.second = package(), self.next_version()

    def next_version(self):
        """The same files under a higher version."""
        tree = unpacked(package(), self.folder / "next")
        control = tree / "DEBIAN/control"
        control.write_text(re.sub("^Version: (.*)$", r"Version: \1+1", control.read_text(), flags=re.M))
        run("dpkg-deb", "--root-owner-group", "-b", tree, self.folder / "next.deb")
        return self.folder / "next.deb"

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
    """Clients that send until they are acknowledged, each line under an id of its own, as docs/API.md tells them to."""

    def __init__(self, url, n=4):
        self.url, self.acknowledged, self.refused, self.gaps = url, [], 0, []
        self.is_over, self.lock = threading.Event(), threading.Lock()
        self.threads = [threading.Thread(target=self.work, args=(k,)) for k in range(n)]
        for thread in self.threads:
            thread.start()

    def work(self, k):
        session, last = requests.Session(), time.monotonic()
        for i in itertools.count():
            if self.is_over.is_set():
                return
            line = {"user": f"u{k}", "arm": f"a{i % 3}", "reward": 1, "id": f"line-{k}-{i}"}
            while True:
                try:
                    answer = session.post(f"{self.url}/observe", json=line, timeout=60)
                    assert answer.status_code in (200, 503), answer.text
                    if answer.status_code == 200:
                        break
                except requests.ConnectionError:
                    session = requests.Session()
                with self.lock:
                    self.refused += 1
                time.sleep(0.02)
            with self.lock:
                self.acknowledged.append(line["id"])
                self.gaps.append(time.monotonic() - last)
            last = time.monotonic()

    def wait(self, n):
        end = time.monotonic() + 60
        while len(self.acknowledged) < n:
            assert time.monotonic() < end and all(t.is_alive() for t in self.threads)
            time.sleep(0.02)

    def finish(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join()


def test_an_upgrade_under_load_drains_and_loses_nothing(machine):
    before, n_asked = machine.manager.process.pid, len(machine.manager.asked)
    load = Load(machine.url)
    load.wait(200)
    machine.apt("install", machine.give(machine.second))
    n_then = len(load.acknowledged)
    load.wait(n_then + 200)
    load.finish()
    assert ["restart", UNIT] in machine.manager.asked[n_asked:] and machine.manager.ends == [0]
    assert machine.manager.process.pid != before and [m for m in machine.manager.told if "STOPPING" in m]
    assert "+1" in machine.chroot.run("dpkg-query", "-W", "laplaced")
    ids = [e["id"] for e in machine.events() if e["type"] == "observed"]
    assert len(ids) == len(set(ids)) and set(ids) == set(load.acknowledged), (len(ids), len(load.acknowledged))
    # What the administrator has written stands.
    assert "\nlog-level = debug\n" in (machine.chroot.root / "etc/laplaced/laplaced.conf").read_text()
    print(f"\n{len(ids)} lines acknowledged, {load.refused} attempts refused meanwhile, longest wait of a client {max(load.gaps):.2f} s")


def test_removed_it_stops_in_order_and_its_data_stay(machine):
    machine.n_events = len(machine.events())
    machine.apt("remove", "laplaced")
    assert ["stop", UNIT] in machine.manager.asked and machine.manager.ends == [0, 0] and machine.manager.process is None
    assert not machine.paths("usr/bin/laplace*") and not machine.paths("lib/systemd/system/laplaced*")
    assert machine.paths("etc/laplaced/*") == ["etc/laplaced/env", "etc/laplaced/laplaced.conf"]
    assert "var/lib/laplaced/registry.db" in machine.paths("var/lib/laplaced/*")


def test_installed_again_it_goes_on_where_it_was(machine):
    machine.apt("install", machine.give(machine.second))
    assert machine.manager.process is not None and len(machine.events()) == machine.n_events
    assert machine.chroot.run("laplacectl", "--server", machine.url, "verify", "default")


def test_purged_nothing_of_it_is_left_but_its_user_and_what_the_administrator_made(machine):
    machine.apt("purge", "laplaced")
    assert machine.manager.ends == [0, 0, 0]
    left = [p for p in run("find", machine.chroot.root, "-xdev", "-iname", "*laplace*", "-printf", "%P\n").split()
            if not p.startswith(("proc/", "tmp/", "run/", "var/cache/apt/", "var/lib/apt/"))]
    assert left == ["etc/laplaced"] and machine.paths("etc/laplaced/*") == ["etc/laplaced/env"]
    assert machine.chroot.user("laplaced")
