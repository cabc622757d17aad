"""Debian's Prometheus on live servers of a test, by the rules of deploy/alerts.yml in a sixtieth of their times: five minutes are five seconds. Times that stand in seconds stay."""
import os
import re
import shutil
import subprocess
import threading
import time

import pytest
import requests
import yaml

from contract import ROOT
from harness import SERVERS, Server, free_port

RULES = yaml.safe_load((ROOT / "deploy/alerts.yml").read_text())["groups"][0]["rules"]
# Where an alert's fault is injected, if not in t40_monitoring.py's first test of faults. Of load, of the disk and of the process: its second one.
OF_LOAD = {"LaplacedQueueFilling", "LaplacedRefusing", "LaplacedSlow", "LaplacedSnapshotsFailing", "LaplacedFilesRunningOut", "LaplacedMemoryOverCap", "LaplacedLogIncomplete",
           "LaplacedDiskFilling"}
OF_MODELS = {"LaplacedVerificationDiffers", "LaplacedModelLosingDigits", "LaplacedChallengersBehind"}  # t41_alerts_of_models.py, which has the trend of a disk, too
OF_A_SHARED_LOG = {"LaplacedLogDown", "LaplacedLogWithoutStandby", "LaplacedLagging", "LaplacedChainBroken", "LaplacedOutcomesUnknown"}  # tests/cluster/test_alerts.py
NEEDED = [pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus here (package prometheus)"), pytest.mark.xdist_group("monitoring")]
asked_for = pytest.mark.skipif(os.environ.get("LAPLACED_TEST_MONITORING") != "all", reason="minutes: make test-monitoring")
SECONDS = {"m": 60, "h": 3600}


def quick(text):
    """A rule's time, a sixtieth of it."""
    return re.sub(r"\b(\d+)([mh])\b", lambda m: f"{max(1, int(m[1]) * SECONDS[m[2]] // 60)}s", text)


def quick_expression(text):
    """What it looks back at, a sixtieth, but five scrapes; and how far it looks ahead."""
    text = re.sub(r"\[(\d+[mh])\]", lambda m: f"[{max(5, int(quick(m[1])[:-1]))}s]", text)
    return re.sub(r"(predict_linear\(.*, )(\d+)\)", lambda m: f"{m[1]}{int(m[2]) // 60})", text)


def quick_rules():
    rules = [{**r, "expr": quick_expression(r["expr"]), **({"for": quick(r["for"])} if "for" in r else {})} for r in RULES]
    return {"groups": [{"name": "laplaced", "rules": rules}]}


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

    def fires(self, wanted, beside=(), seconds=90, meanwhile=lambda: None):
        """Waits for all that is wanted, a set of (alert, instance), at least once each. Nothing else may fire but what is named by `beside`."""
        seen, end = set(), time.monotonic() + seconds
        while not wanted <= seen:
            assert time.monotonic() < end, (wanted - seen, self.ask("ALERTS"))
            meanwhile()
            seen |= self.alerts()
            assert seen <= wanted | set(beside), seen
            time.sleep(0.3)

    def falls_silent(self, beside=(), seconds=150):
        self.until(lambda: self.alerts() <= set(beside), "what is mended is quiet", seconds)

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


@pytest.fixture
def watched(tmp_path):
    """watched({name: server}) gives a Prometheus that has scraped each of them some times."""
    made = []

    def watch(servers):
        made.append(Prometheus(tmp_path, {name: (re.sub("^https?://", "", s.url), s.cacert) for name, s in servers.items()}))
        made[-1].until(lambda: len(made[-1].ask("up == 1 and count_over_time(up[30s]) > 4")) == len(servers), "all are scraped")
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


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of 64 MB."""
    folder = tmp_path / "disk" / "data"
    folder.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True).returncode != 0:
        pytest.skip("no file system may be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


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
