"""The packaged server under other people's tools: testssl, slowhttptest and wrk of Debian, bounded in time and connections, on loopback."""
import json
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest
import requests

from package import ROOT, package, unpacked

sys.path.insert(0, str(ROOT / "tests/http"))
from certs import Authority, Pair  # noqa: E402

# What testssl calls graver than LOW and is accepted: certificates are the tests' own, and the one other finding is a choice (server/http/tls.c).
ACCEPTED = {"secure_client_renego": "its client leaves before it has heard the answer on a busy machine, and takes that for a yes: asked here",
            "cipher_order": "each suite that is left is sound, so the client's order decides: one without instructions for AES puts ChaCha20 first",
            "cert_chain_of_trust": "the authority is the tests' own", "cert_revocation": "it publishes no list of what it has taken back", "cert_expirationStatus": "it lasts for 20 days", "cert_notAfter": "likewise"}
CONNECTIONS, SECONDS = 200, 12


def needs(program):
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"no {program} here (sh tools/setup.sh --hammer)")


class Packaged:
    """The program that is in the package."""

    def __init__(self, tree, folder, *args, scheme="http"):
        folder.mkdir()
        self.log = open(folder / "log", "wb")
        self.process = subprocess.Popen([tree / "usr/bin/laplaced", "--data", folder / "data", "--listen", "127.0.0.1:0", *args], stdout=subprocess.PIPE, stderr=self.log)
        line = self.process.stdout.readline().decode()
        assert f" {scheme}://" in line, (folder / "log").read_text()
        self.url, self.folder = line.split()[3], folder
        self.port = self.url.rsplit(":", 1)[1]

    def end(self):
        """In order, whatever has happened to it."""
        self.process.terminate()
        status = self.process.wait(60)
        self.process.stdout.close()
        self.log.close()
        return status


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return unpacked(package(), tmp_path_factory.mktemp("package") / "tree")


@pytest.fixture
def server(tree, tmp_path):
    # Times of connections are shorter than by default, so that a test of seconds sees them end.
    one = Packaged(tree, tmp_path / "server", "--header-timeout", "5", "--body-timeout", "5", "--timeout", "5", "--max-connections", "1000")
    yield one
    assert one.end() == 0


class Caller:
    """Somebody who decides all the while, a connection for each decision."""

    def __init__(self, url):
        self.url, self.waits, self.faults, self.is_over = url, [], [], threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while not self.is_over.is_set():
            begun = time.monotonic()
            try:
                answer = requests.post(f"{self.url}/select", json={"user": "u", "candidates": ["a", "b"]}, headers={"Connection": "close"}, timeout=20)
                if answer.status_code != 200:
                    self.faults.append(answer.text)
            except requests.RequestException as fault:
                self.faults.append(repr(fault))
            self.waits.append(time.monotonic() - begun)
            time.sleep(0.02)

    def end(self):
        self.is_over.set()
        self.thread.join()


@needs("slowhttptest")
@pytest.mark.parametrize("kind, options", [("heads that do not end", ["-H", "-i", "2"]), ("bodies that trickle", ["-B", "-i", "2", "-s", "8192"]),
                                           ("ranges that overlap", ["-R", "-a", "1", "-b", "3000"]), ("answers that are not read", ["-X", "-w", "10", "-y", "20", "-n", "2", "-z", "16", "-k", "3"])])
def test_decisions_are_answered_beside_slow_clients(server, kind, options):
    """The tool opens the connections in two seconds and holds them; who decides meanwhile waits for none of them."""
    path = {"-B": "/select", "-X": "/openapi.yaml"}.get(options[0], "/healthz")
    caller = Caller(server.url)
    try:
        done = subprocess.run(["slowhttptest", *options, "-c", str(CONNECTIONS), "-r", str(CONNECTIONS // 2), "-l", str(SECONDS), "-p", "5", "-t", "POST" if options[0] == "-B" else "GET",
                               "-u", f"{server.url}{path}"], capture_output=True, text=True, timeout=SECONDS + 60, cwd=server.folder)
    finally:
        caller.end()
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    assert re.search(r"service available:\s+YES", said) and not re.search(r"service available:\s+NO", said), said[-2000:]
    assert caller.faults == [] and len(caller.waits) > 20, (kind, caller.faults[:3])
    shown = requests.get(f"{server.url}/metrics", timeout=10).text
    assert int(re.search(r"^process_open_fds (\d+)", shown, re.M)[1]) < CONNECTIONS + 300
    print(f"\n{kind}: {len(caller.waits)} decisions, the longest {max(caller.waits):.2f} s")


SEND = """
local n, me = 0, 0
function setup(thread) me = me + 1; thread:set("me", me) end
function request()
   n = n + 1
   if n % 2 == 0 then return wrk.format("POST", "/select", nil, string.format('{"user":"u%d","candidates":["a","b","c"],"decision":"d%d-%d"}', n % 50, me, n)) end
   if n == 1 then return wrk.format("GET", "/healthz") end
   return wrk.format("POST", "/observe", nil, string.format('{"user":"u%d","arm":"a","reward":1,"id":"o%d-%d"}', n % 50, me, n))
end
function done(summary, latency)
   io.write(string.format("RESULT %d %d %d %d %d %d\\n", summary.requests, summary.errors.status, summary.errors.connect, summary.errors.read, summary.errors.write, summary.errors.timeout))
end
"""


@needs("wrk")
def test_wrk_sees_no_answer_but_2xx_and_the_model_is_that_of_its_log(tree, server, tmp_path):
    script = tmp_path / "send.lua"
    script.write_text(SEND)
    done = subprocess.run(["wrk", "-t", "2", "-c", "64", "-d", "8s", "--timeout", "30s", "-s", script, server.url], capture_output=True, text=True, timeout=120)
    n, *errors = map(int, re.search(r"^RESULT (.*)$", done.stdout, re.M)[1].split())
    assert errors == [0] * 5 and "Non-2xx" not in done.stdout and n > 200, done.stdout
    same = subprocess.run([tree / "usr/bin/laplacectl", "--server", server.url, "verify", "default"], capture_output=True, text=True, timeout=120)
    assert same.returncode == 0, same.stdout + same.stderr
    print(f"\n{n} requests of 64 connections, all 2xx")


def ends_a_renegotiation(port):
    """Asked for by a client that waits for what comes of it: the server closes the connection."""
    client = subprocess.Popen(["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{port}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    shown = []
    for line in client.stdout:
        shown.append(line)
        if "Extended master secret" in line:
            client.stdin.write("R\n")
            client.stdin.flush()
    client.stdin.close()
    client.wait(30)
    client.stdout.close()
    return "RENEGOTIATING\n" in shown and shown[-1].strip() == "closed"


@needs("testssl")
def test_testssl_finds_nothing_of_ours_above_low(tree, tmp_path):
    authority = Authority(tmp_path)
    one = Packaged(tree, tmp_path / "server", *Pair(tmp_path, authority).write(authority.pair("own")).options, scheme="https")
    try:
        # Without the simulation of clients, and with each cipher asked for once.
        subprocess.run(["testssl", "--quiet", "--color", "0", "--warnings", "off", "--ip", "one", "--add-ca", authority.root, "-p", "-s", "-f", "-S", "-P", "-h", "-U", "--jsonfile", tmp_path / "found.json",
                        f"127.0.0.1:{one.port}"], capture_output=True, timeout=600, check=False)
        assert ends_a_renegotiation(one.port)
    finally:
        assert one.end() == 0
    found = {f["id"].split(" ")[0]: (f["severity"], f["finding"]) for f in json.loads((tmp_path / "found.json").read_text())}
    assert len(found) > 60 and found["TLS1_2"][0] == found["TLS1_3"][0] == "OK", found
    grave = {k: v for k, v in found.items() if v[0] in ("MEDIUM", "HIGH", "CRITICAL", "FATAL") and k not in ACCEPTED}
    assert grave == {}, grave
