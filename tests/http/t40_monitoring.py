"""Monitoring that works: Debian's Prometheus scrapes live servers by deploy/'s rules. The dashboard's queries are answered, and alerts fire when their fault is there
and not before. All times of the rules are a sixtieth here, so that five minutes are five seconds; tests/deploy/alerts.test.yml has each rule in its own time."""
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

import pytest
import requests

from certs import Authority, new_key, openssl
from contract import NDJSON, ROOT
from harness import CTL, Client, Server, free_port, wait_for
from prometheus import NEEDED, OF_A_SHARED_LOG, OF_LOAD, OF_MODELS, RULES, Meanwhile, asked_for, several, small_disk, watched  # noqa: F401 (fixtures)

sys.path.insert(0, str(ROOT / "tests/cluster"))
import pg  # noqa: E402

pytestmark = NEEDED
DASHBOARD = json.loads((ROOT / "deploy/grafana.json").read_text())
MAY_BE_AWAY = {"laplaced_tls_certificate_expiry_timestamp_seconds"}
PANELS_OF_A_SHARED_LOG = {title for title, place in ((p["title"], p["gridPos"]["y"]) for p in DASHBOARD["panels"])
                          if place > next(p["gridPos"]["y"] for p in DASHBOARD["panels"] if p["title"] == "The shared log")}


def traffic(server):
    """Something of each kind that the dashboard shows."""
    api = Client(server)
    api.put_tenant("shop", algorithm="ts", routing={"holdout": {"share": 0.3, "baseline": {"arm": "a"}}, "sticky": {"ttl_s": 3600}},
                   challengers={"linear": {"algorithm": "ucb"}}, experiment={"difference": 0.1})
    api.put_arms("shop", [{"id": "a"}, {"id": "b"}])
    for i in range(20):
        api.select(f"u{i % 15}", decision=f"d{i}", tenant="shop")
        api.reward(f"d{i}", i % 2, tenant="shop")
    return api


def panels():
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def in_words_of_prometheus(expression):
    for name, value in (("$instance", ".*"), ("$tenant", ".*"), ("$__rate_interval", "10s")):
        expression = expression.replace(name, value)
    return expression


@pytest.fixture
def shared_log(tmp_path):
    """The address of a log that several servers may share; None: PostgreSQL is not installed."""
    if pg.programs() is None:
        yield None
        return
    with pg.Cluster(tmp_path / "pg") as database:
        subprocess.run([CTL, "cluster", "init", "--log", database.url], check=True, stdout=subprocess.DEVNULL, timeout=60)
        yield database.url


def test_every_query_of_the_dashboard_is_answered_and_a_server_that_is_well_raises_no_alert(several, watched, shared_log):
    server = several("well", "--memory-cap", "1073741824")
    api = traffic(server)
    targets = {"well": server}
    if shared_log:
        targets["one"] = several("one", "--log", shared_log, "--node", "one")
        one = Client(targets["one"])
        assert wait_for(lambda: one.call("GET", "/readyz", expect=(200, 503)).status == 200)
        one.put_tenant("shared", algorithm="ucb")
    prometheus = watched(targets)
    prometheus.until(lambda: prometheus.ask("up == 1") and prometheus.ask("count_over_time(laplaced_commits_total[10s]) > 3"), "some scrapes")
    for i in range(20, 40):
        api.select(f"u{i % 15}", decision=f"d{i}", tenant="shop")
        api.reward(f"d{i}", i % 2, tenant="shop")
    time.sleep(2)
    names = set(prometheus.get("label/__name__/values"))
    empty = []
    for title, expression in panels():
        if not prometheus.ask(in_words_of_prometheus(expression)):
            empty.append(title)
        for metric in re.findall(r"\b(?:laplaced|process)_[a-z_]+", expression):
            assert metric in names or metric in MAY_BE_AWAY or (shared_log is None and title in PANELS_OF_A_SHARED_LOG), (title, metric)
    # These show what is not well, or what this server has not: a certificate, work under way.
    assert set(empty) - (set() if shared_log else PANELS_OF_A_SHARED_LOG) <= {"Certificate ends", "Experiments that are void; rewards that are all equal",
                                                                        "Work beside the traffic, done"}, empty
    assert {v["query"].split("(")[0] for v in DASHBOARD["templating"]["list"] if v["type"] == "query"} == {"label_values"}
    raised = {a["labels"]["alertname"] for a in prometheus.get("alerts")["alerts"]}
    assert raised <= {"LaplacedDiskFilling"}, raised  # the disk is this machine's, and others fill it meanwhile
    groups = prometheus.get("rules")["groups"]
    assert [r["name"] for r in groups[0]["rules"]] == [r["alert"] for r in RULES]
    prometheus.until(lambda: all(r["health"] == "ok" for r in prometheus.get("rules")["groups"][0]["rules"]), "every rule was evaluated")


def short_certificate(folder):
    """A server's certificate that ends within a day, by an authority of the test's."""
    authority = Authority(folder)
    openssl("req", "-new", *new_key("ec", folder / "short.key"), "-out", folder / "short.csr", "-subj", "/CN=short")
    (folder / "short.ext").write_text("subjectAltName=IP:127.0.0.1")
    openssl("x509", "-req", "-in", folder / "short.csr", "-out", folder / "short.crt", "-CA", authority.root, "-CAkey", folder / "root.key", "-days", 1,
            "-set_serial", 7, "-extfile", folder / "short.ext")
    return authority.root, folder / "short.crt", folder / "short.key"


def unbalanced(api):
    """A log whose traffic is not what its propensities say: every other decision for b stands as one for a."""
    api.put_tenant("fair", algorithm="random", experiment={"difference": 0.1}, default_reward=None)
    api.put_arms("fair", [{"id": "a"}, {"id": "b"}])
    for i in range(300):
        api.select(f"u{i}", decision=f"d{i}", tenant="fair")
        api.reward(f"d{i}", i % 2, tenant="fair")
    lines = []
    for line in api.call("GET", "/tenants/fair/export").text.splitlines():
        event = json.loads(line)
        if event["type"] == "decided":
            event["arm"] = "a"
            event.pop("answer", None)
        lines.append(event)
    api.call("POST", "/tenants/skewed/import", lines, kind=NDJSON, expect=201)
    api.stats("skewed")


def one_sided_late_and_lost(api):
    api.put_tenant("poor", algorithm="random", default_reward=None, reward_window_s=0.2)
    for i in range(120):
        api.select(f"u{i}", candidates=["a", "b"], decision=f"d{i}", tenant="poor")
    api.put_tenant("onesided", algorithm="random", default_reward=None)
    for i in range(120):
        api.select(f"u{i}", candidates=["a", "b"], decision=f"d{i}", tenant="onesided")
    for i in range(10):
        api.reward(f"d{i}", 1, tenant="onesided")


def break_file(server, name):
    """The tenant's file is no database any more at the next start."""
    server.terminate()
    for file in (server.data / "tenants").glob(f"{name}.*"):
        file.unlink()
    (server.data / "tenants" / f"{name}.db").write_bytes(b"no database at all" * 100)
    server.start()


@asked_for
def test_alerts_fire_when_their_fault_is_there_and_not_before(several, watched, tmp_path):
    root, certificate, key = short_certificate(tmp_path)
    sick, busy = several("sick"), several("busy")
    tls = several("tls", "--tls-cert", str(certificate), "--tls-key", str(key), cacert=root)
    gone, restless = several("gone"), several("restless")
    api, hurt = Client(busy), Client(sick)
    hurt.select("u", candidates=["a"])
    prometheus = watched({"sick": sick, "busy": busy, "tls": tls, "gone": gone, "restless": restless})
    assert {name for name, instance in prometheus.alerts()} == {"LaplacedCertificateExpiring", "LaplacedCertificateExpired"}  # within a day

    gone.terminate()                                        # LaplacedDown
    sick.fill_disk()                                        # LaplacedCommitsFailing, LaplacedNotReady, LaplacedErrors
    unbalanced(api)                                         # LaplacedExperimentVoid
    one_sided_late_and_lost(api)                            # LaplacedRewardsOneSided, LaplacedRewardsLate, LaplacedRewardsLost
    api.put_tenant("broken")
    break_file(busy, "broken")                              # LaplacedTenantsNotOpening
    certificate.write_text("no certificate")                # LaplacedReloadFailed; the one in force stays, and ends soon: LaplacedCertificateExpiring, ...Expired
    wanted, fired = {r["alert"] for r in RULES} - OF_LOAD - OF_MODELS - OF_A_SHARED_LOG, set()
    end, n = time.monotonic() + 150, 0
    while not wanted <= fired:
        assert time.monotonic() < end, (wanted - fired, prometheus.ask("ALERTS"))
        n += 1
        hurt.call("POST", "/select", {"user": "u", "candidates": ["a"]}, expect=503)
        api.call("GET", "/tenants/broken/stats", expect=(500, 503))
        api.stats("onesided")
        api.stats("skewed")
        api.reward(f"d{n % 120}", n, tenant="poor", expect=(200, 409, 410))
        api.reward("nobody's", 1, tenant="poor", expect=404)
        if n % 10 == 0:
            tls.process.send_signal(signal.SIGHUP)
        if n % 4 == 0 and "LaplacedRestarting" not in fired:
            restless.restart()                              # LaplacedRestarting
        fired |= {name for name, _ in prometheus.alerts()}
        time.sleep(0.3)
    # All is mended: whatever was injected falls silent. Those that look back an hour do so a minute later here.
    sick.fill_disk(False)
    gone.start()
    for name in ("skewed", "onesided", "broken", "poor"):
        api.call("DELETE", f"/tenants/{name}", expect=204)
    prometheus.until(lambda: {name for name, _ in prometheus.alerts()} <= {"LaplacedCertificateExpiring", "LaplacedCertificateExpired"} | OF_LOAD, "what was mended is quiet", 150)


# --- faults of load, of the disk and of the process --------------------------------------------------------------------


def beats(gate):
    """A disk that stands still for 0.6 s at a time."""
    gate.touch()
    time.sleep(0.6)
    gate.unlink(missing_ok=True)
    time.sleep(0.02)


def options_of(server, line):
    (server.folder / "laplaced.conf").write_text(line + "\n")
    server.process.send_signal(signal.SIGHUP)


@asked_for
def test_alerts_of_load_fire_while_their_fault_is_there_and_end_with_it(several, watched, tmp_path, small_disk):
    gates = {name: tmp_path / f"gate-{name}" for name in ("stuck", "slow", "heavy")}
    stuck = several("stuck", "--max-queue", "8", env={"LAPLACED_FAILPOINT": f"before_append@{gates['stuck']}"})
    slow = several("slow", env={"LAPLACED_FAILPOINT": f"before_append@{gates['slow']}"})
    unsaved, files, heavy = several("unsaved", "--snapshot-events", "5"), several("files"), several("heavy", env={"LAPLACED_FAILPOINT": f"before_append@{gates['heavy']}"})
    disk = Server(small_disk.parent, listen=f"127.0.0.1:{free_port()}")
    (tmp_path / "mute").mkdir()
    os.mkfifo(tmp_path / "mute" / "stderr.log")
    reader = os.open(tmp_path / "mute" / "stderr.log", os.O_RDONLY | os.O_NONBLOCK)
    mute = Server(tmp_path / "mute", "--log-requests", "all", listen=f"127.0.0.1:{free_port()}")
    others = [disk, mute]
    heavy.close()
    (heavy.folder / "laplaced.conf").write_text("memory-cap = 0\n")
    heavy.args = ["--config", str(heavy.folder / "laplaced.conf")]
    meanwhile = []
    try:
        for one in (heavy, disk, mute):
            one.start()
        servers = {"stuck": stuck, "slow": slow, "unsaved": unsaved, "files": files, "heavy": heavy, "disk": disk, "mute": mute}
        api = {name: Client(server) for name, server in servers.items()}
        for one in api.values():
            one.select("u", candidates=["a"])
        prometheus = watched(servers)
        assert {name for name, _ in prometheus.alerts()} <= {"LaplacedDiskFilling"}  # others fill this machine's disk

        gates["stuck"].touch()                                # LaplacedQueueFilling, LaplacedRefusing
        def push():
            requests.post(f"{stuck.url}/observe", json={"user": "u", "arm": "a", "reward": 1}, timeout=120)
            time.sleep(0.05)
        meanwhile.append(Meanwhile(push, 12))
        meanwhile.append(Meanwhile(lambda: beats(gates["slow"])))  # LaplacedSlow
        meanwhile.append(Meanwhile(lambda: api["slow"].select("u", candidates=["a", "b"]), 3))
        snapshot = unsaved.data / "tenants" / "default.snapshot"
        snapshot.unlink(missing_ok=True)
        (snapshot / "in-the-way").mkdir(parents=True)         # LaplacedSnapshotsFailing
        meanwhile.append(Meanwhile(lambda: (api["unsaved"].observe("u", "a", 1), time.sleep(0.1))))
        n_open = len(os.listdir(f"/proc/{files.pid}/fd"))
        limit = resource.prlimit(files.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(files.pid, resource.RLIMIT_NOFILE, (int((n_open - 1) / 0.9), limit[1]))  # LaplacedFilesRunningOut
        gates["heavy"].touch()                                # LaplacedMemoryOverCap: a tenant in use is not closed
        meanwhile.append(Meanwhile(lambda: (api["heavy"].observe("u", "a", 1), time.sleep(0.05))))
        options_of(heavy, "memory-cap = 1")
        meanwhile.append(Meanwhile(lambda: api["mute"].call("GET", "/healthz"), 2))  # LaplacedLogIncomplete
        filler = small_disk / "filler"
        filler.write_bytes(bytes(60 << 20))                   # LaplacedDiskFilling
        fired = set()
        def all_fire():
            fired.update(name for name, _ in prometheus.alerts())
            return OF_LOAD <= fired and ("LaplacedDiskFilling", "disk") in prometheus.alerts()
        try:
            prometheus.until(all_fire, "each alert fires", 150)
        except AssertionError as late:
            raise AssertionError((OF_LOAD - fired, prometheus.ask("ALERTS"))) from late

        filler.unlink()
        gates["stuck"].unlink()
        gates["heavy"].unlink()
        for one in meanwhile:
            one.end()
        (snapshot / "in-the-way").rmdir()
        snapshot.rmdir()
        resource.prlimit(files.pid, resource.RLIMIT_NOFILE, limit)
        options_of(heavy, "memory-cap = 0")
        while len(os.read(reader, 1 << 16)) == 1 << 16:
            pass
        prometheus.falls_silent({("LaplacedDiskFilling", name) for name in servers if name != "disk"})
    finally:
        for gate in gates.values():
            gate.unlink(missing_ok=True)
        for one in meanwhile:
            one.end()
        for one in others:
            one.close()
        os.close(reader)


def test_no_alert_is_left_to_two_tests():
    """What none of the other three injects, the first test of faults has to."""
    assert len(OF_LOAD | OF_MODELS | OF_A_SHARED_LOG) == len(OF_LOAD) + len(OF_MODELS) + len(OF_A_SHARED_LOG)
    assert OF_LOAD | OF_MODELS | OF_A_SHARED_LOG < {r["alert"] for r in RULES}
