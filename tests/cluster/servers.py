"""Servers that share a log, for tests: each on a folder of its own, held to openapi.yaml like every server of tests/http."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / part) for part in ("cluster", "http", "crash")] + [str(ROOT / "tests")]

import pg  # noqa: E402
from harness import CTL, Client, Server  # noqa: E402

KEY = "a-key-of-the-tests-alone-0123456789"
QUICK = ("--log-wait", "2000", "--log-poll", "10")


def wait_for(condition, seconds=30, what="it"):
    """What the condition returns, once that is true."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"{what} does not come"
        time.sleep(0.02)


class Servers:
    """Servers a, b, c, ... of one log; with a Net (net.py) on its machines sa, sb, sc, ..., where they need a key."""

    def __init__(self, folder, log, n=3, args=QUICK, net=None):
        self.folder, self.log, self.args, self.n_made, self.servers, self.net = pathlib.Path(folder), log, args, 0, [], net
        self.key = KEY if net else None
        for _ in range(n):
            self.add()

    def add(self, *args, env=None):
        """One more, on an empty folder."""
        folder = self.folder / chr(ord("a") + self.n_made)
        folder.mkdir(exist_ok=True)
        self.n_made += 1
        server = Server(folder, "--log", self.log, "--node", folder.name, *self.args, *args, env=env)
        if self.net:
            (folder / "keys").write_text(KEY + "\n")
            server.listen = f"{self.net.machines['s' + folder.name]}:0"
            server.args += ["--admin-key-file", str(folder / "keys")]
        self.servers.append(server)
        return self.start(server)

    def start(self, server):
        """Where its machine is."""
        with self.net.inside("s" + server.folder.name) if self.net else contextlib.nullcontext():
            return server.start()

    def restart(self, server):
        server.kill()
        self.start(server)

    def remove(self, server):
        """The last that was added, and its folder."""
        server.close()
        self.servers.remove(server)
        shutil.rmtree(server.folder)
        self.n_made -= 1

    def client(self, server):
        return Client(server, self.key)

    def clients(self):
        return [self.client(s) for s in self.servers]

    def ready(self):
        """All of them."""
        for server in self.servers:
            client = self.client(server)
            wait_for(lambda: client.call("GET", "/readyz", expect=(200, 503)).status == 200, 60, f"{server.folder.name} ready")

    def end(self):
        """As a service manager does it. They must end well (leaks count under ASan)."""
        try:
            for server in self.servers:
                assert server.terminate() == 0, server.log()[-3000:]
        finally:
            self.close()

    def close(self):
        for server in self.servers:
            server.close()


def ctl(*args, expect=0, **env):
    """What laplacectl says."""
    done = subprocess.run([CTL, *args], capture_output=True, text=True, timeout=60, env={**os.environ, **env})
    assert done.returncode == expect, (args, done.stdout, done.stderr)
    return done.stdout + done.stderr


def init(log):
    ctl("cluster", "init", "--log", log)


def at_once(*calls):
    """What they return, begun at the same time."""
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return [f.result() for f in [pool.submit(call) for call in calls]]


def log_of(client, name):
    """All lines of a tenant's log, as the server's copy has them."""
    return client.call("GET", f"/tenants/{name}/events", query={"limit": 100000}).content


def settle(clients, name, digest="digest"):
    """Waits until all have read what any has; (the log, the model's digest), which are the same everywhere; of servers on other processors, its `logical_digest`."""
    def tips():
        return {c.call("GET", f"/tenants/{name}/model").headers.get("Laplaced-Seq") for c in clients}
    wait_for(lambda: len(tips()) == 1, 60, f"one end of {name}")
    logs = {log_of(c, name) for c in clients}
    assert len(logs) == 1, f"{name}: the copies have {sorted(map(len, logs))} bytes"
    digests = {c.model(name)[digest] for c in clients}
    assert len(digests) == 1, f"{name}: {digests}"
    return logs.pop(), digests.pop()


def events_of(log):
    return [json.loads(line) for line in log.splitlines()]
