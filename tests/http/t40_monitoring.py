"""Monitoring that works: Debian's Prometheus scrapes live servers by deploy/'s rules. The dashboard's queries are answered, and alerts fire when their fault is there
and not before. All times of the rules are a sixtieth here, so that five minutes are five seconds; tests/deploy/alerts.test.yml has each rule in its own time."""
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import requests
import yaml

from certs import Authority, new_key, openssl
from contract import NDJSON, ROOT
from harness import CTL, Client, Server, SERVERS

sys.path.insert(0, str(ROOT / "tests/cluster"))
import pg  # noqa: E402

pytestmark = [pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus here (package prometheus)"),
              pytest.mark.xdist_group("monitoring")]
RULES = yaml.safe_load((ROOT / "deploy/alerts.yml").read_text())
DASHBOARD = json.loads((ROOT / "deploy/grafana.json").read_text())
# What a test cannot do to a live server within a minute: a model that differs, an hour of rounding, a hundred thousand events that a challenger has not
# learned. promtool has those.
BY_PROMTOOL_ALONE = {"LaplacedLogDown", "LaplacedLogWithoutStandby", "LaplacedLagging", "LaplacedChainBroken", "LaplacedOutcomesUnknown",
                     "LaplacedVerificationDiffers", "LaplacedModelLosingDigits", "LaplacedChallengersBehind"}
# Faults of load, of the disk and of the process: the second test of injected faults.
OF_LOAD = {"LaplacedQueueFilling", "LaplacedRefusing", "LaplacedSlow", "LaplacedSnapshotsFailing", "LaplacedFilesRunningOut", "LaplacedMemoryOverCap", "LaplacedLogIncomplete",
           "LaplacedDiskFilling"}
MAY_BE_AWAY = {"laplaced_tls_certificate_expiry_timestamp_seconds"}
OF_A_SHARED_LOG = {title for title, place in ((p["title"], p["gridPos"]["y"]) for p in DASHBOARD["panels"])
                   if place > next(p["gridPos"]["y"] for p in DASHBOARD["panels"] if p["title"] == "The shared log")}
SECONDS = {"s": 1, "m": 60, "h": 3600}


def quick(text):
    """A rule's time, a sixtieth of it."""
    return re.sub(r"\b(\d+)([mh])\b", lambda m: f"{max(1, int(m[1]) * SECONDS[m[2]] // 60)}s", text)


def quick_rules():
    rules = [{**r, "expr": re.sub(r"\[(\d+[mh])\]", lambda m: f"[{max(5, int(quick(m[1])[:-1]))}s]", r["expr"]), **({"for": quick(r["for"])} if "for" in r else {})}
             for r in RULES["groups"][0]["rules"]]
    return {"groups": [{"name": "laplaced", "rules": rules}]}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


class Prometheus:
    def __init__(self, folder, targets):
        """targets: {instance: (address, authority or None)}; the job is called as in deploy/prometheus.yml."""
        self.folder, self.url = folder, f"http://127.0.0.1:{free_port()}"
        SERVERS.discard(self.url)  # of a server that is gone: its answers are no longer held to our contract
        (folder / "rules.yml").write_text(yaml.safe_dump(quick_rules()))
        def scrape(name, address, ca):
            tls = {"scheme": "https", "tls_config": {"ca_file": str(ca)}} if ca else {}
            return {"job_name": name, **tls, "static_configs": [{"targets": [address], "labels": {"job": "laplaced", "instance": name}}]}
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}, "rule_files": ["rules.yml"],
                  "scrape_configs": [scrape(name, address, ca) for name, (address, ca) in targets.items()]}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.log = open(folder / "prometheus.log", "wb")
        self.process = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
                                         f"--web.listen-address={self.url.removeprefix('http://')}"], stdout=self.log, stderr=self.log)
        self.until(lambda: self.is_ready(), "prometheus is ready")

    def is_ready(self):
        try:
            return requests.get(self.url + "/-/ready", timeout=5).status_code == 200
        except requests.ConnectionError:
            return False

    def until(self, is_so, what, seconds=90):
        end = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < end, (what, (self.folder / "prometheus.log").read_text()[-1500:])
            time.sleep(0.3)

    def get(self, path, **query):
        answer = requests.get(f"{self.url}/api/v1/{path}", params=query, timeout=30).json()
        assert answer["status"] == "success", (query, answer)
        return answer["data"]

    def ask(self, expression):
        return self.get("query", query=expression)["result"]

    def alerts(self):
        """{(alert, instance)} that fire."""
        return {(a["labels"]["alertname"], a["labels"].get("instance")) for a in self.get("alerts")["alerts"] if a["state"] == "firing"}

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


@pytest.fixture
def watched(tmp_path):
    """watched({name: server}) gives a Prometheus that scrapes them."""
    made = []

    def watch(servers):
        made.append(Prometheus(tmp_path, {name: (re.sub("^https?://", "", s.url), s.cacert) for name, s in servers.items()}))
        return made[-1]
    yield watch
    for one in made:
        one.close()


@pytest.fixture
def several(tmp_path):
    """several(name, *options) starts a server on a folder of its own, at a port that it keeps."""
    made = []

    def start(name, *args, **options):
        (tmp_path / name).mkdir()
        made.append(Server(tmp_path / name, *args, listen=f"127.0.0.1:{free_port()}", **options))
        return made[-1].start()
    yield start
    for one in made:
        one.close()


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
            assert metric in names or metric in MAY_BE_AWAY or (shared_log is None and title in OF_A_SHARED_LOG), (title, metric)
    # These show what is not well, or what this server has not: a certificate, work under way.
    assert set(empty) - (set() if shared_log else OF_A_SHARED_LOG) <= {"Certificate ends", "Experiments that are void; rewards that are all equal",
                                                                        "Work beside the traffic, done"}, empty
    assert {v["query"].split("(")[0] for v in DASHBOARD["templating"]["list"] if v["type"] == "query"} == {"label_values"}
    raised = {a["labels"]["alertname"] for a in prometheus.get("alerts")["alerts"]}
    assert raised <= {"LaplacedDiskFilling"}, raised  # the disk is this machine's, and others fill it meanwhile
    groups = prometheus.get("rules")["groups"]
    assert [r["name"] for r in groups[0]["rules"]] == [r["alert"] for r in RULES["groups"][0]["rules"]]
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


@pytest.mark.skipif(os.environ.get("LAPLACED_TEST_MONITORING") != "all", reason="a minute: make test-monitoring")
def test_alerts_fire_when_their_fault_is_there_and_not_before(several, watched, tmp_path):
    root, certificate, key = short_certificate(tmp_path)
    sick, busy = several("sick"), several("busy")
    tls = several("tls", "--tls-cert", str(certificate), "--tls-key", str(key), cacert=root)
    gone, restless = several("gone"), several("restless")
    api, hurt = Client(busy), Client(sick)
    hurt.select("u", candidates=["a"])
    prometheus = watched({"sick": sick, "busy": busy, "tls": tls, "gone": gone, "restless": restless})
    prometheus.until(lambda: len(prometheus.ask("up == 1")) == 5 and len(prometheus.ask("count_over_time(up[30s]) > 4")) == 5, "all are scraped")
    assert {name for name, instance in prometheus.alerts()} == {"LaplacedCertificateExpiring", "LaplacedCertificateExpired"}  # within a day

    gone.terminate()                                        # LaplacedDown
    sick.fill_disk()                                        # LaplacedCommitsFailing, LaplacedNotReady, LaplacedErrors
    unbalanced(api)                                         # LaplacedExperimentVoid
    one_sided_late_and_lost(api)                            # LaplacedRewardsOneSided, LaplacedRewardsLate, LaplacedRewardsLost
    api.put_tenant("broken")
    break_file(busy, "broken")                              # LaplacedTenantsNotOpening
    certificate.write_text("no certificate")                # LaplacedReloadFailed; the one in force stays, and ends soon: LaplacedCertificateExpiring, ...Expired
    wanted, fired = {r["alert"] for r in RULES["groups"][0]["rules"]} - BY_PROMTOOL_ALONE - OF_LOAD, set()
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


class Meanwhile:
    """Runs a function again and again in threads, until it is ended."""

    def __init__(self, work, n=1):
        self.is_over = threading.Event()
        def again():
            while not self.is_over.is_set():
                work()
        self.threads = [threading.Thread(target=again, daemon=True) for _ in range(n)]
        for thread in self.threads:
            thread.start()

    def end(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join(60)


def beats(gate):
    """A disk that stands still for 0.6 s at a time."""
    gate.touch()
    time.sleep(0.6)
    gate.unlink(missing_ok=True)
    time.sleep(0.02)


def options_of(server, line):
    (server.folder / "laplaced.conf").write_text(line + "\n")
    server.process.send_signal(signal.SIGHUP)


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of 64 MB."""
    folder = tmp_path / "disk" / "data"
    folder.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True).returncode != 0:
        pytest.skip("no file system may be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.skipif(os.environ.get("LAPLACED_TEST_MONITORING") != "all", reason="two minutes: make test-monitoring")
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
        prometheus.until(lambda: len(prometheus.ask("count_over_time(up[30s]) > 4")) == len(servers), "all are scraped")
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
        # Of the disk the trend of six hours goes on, six minutes here.
        prometheus.until(lambda: {name for name, _ in prometheus.alerts()} <= {"LaplacedDiskFilling"}, "what is mended is quiet", 120)
    finally:
        for gate in gates.values():
            gate.unlink(missing_ok=True)
        for one in meanwhile:
            one.end()
        for one in others:
            one.close()
        os.close(reader)


def test_every_alert_is_injected_or_said_to_be_promtools():
    assert not BY_PROMTOOL_ALONE & OF_LOAD
    assert BY_PROMTOOL_ALONE | OF_LOAD < {r["alert"] for r in RULES["groups"][0]["rules"]}
