"""A server that is far behind joins while others serve: it is not ready before it has come near the end of the log, and costs them little.

CLUSTER_BEHIND says by how many events; a release is judged by a million."""
import os
import statistics
import threading
import time

import pytest

from servers import QUICK, Servers, settle, wait_for
from contract import NDJSON
from harness import Server
from siege import keep_tally
import pg

pytestmark = pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")
N = int(os.environ.get("CLUSTER_BEHIND", 20000))
MAX_LAG_MS = 2000
NAME = "long"


class Visitors:
    """One at each server, who decides and rewards without a pause; `took` are the seconds of the decisions since the last look."""

    def __init__(self, clients):
        self.clients, self.is_over, self.took, self.lock = clients, threading.Event(), [], threading.Lock()
        self.threads = [threading.Thread(target=self.visit, args=(c, i)) for i, c in enumerate(clients)]

    def visit(self, client, number):
        n = 0
        while not self.is_over.is_set():
            n += 1
            begun = time.monotonic()
            decision = client.select(f"v{number}-{n % 50}", candidates=["a", "b", "c"], tenant=NAME)["decision"]
            with self.lock:
                self.took.append(time.monotonic() - begun)
            client.reward(decision, n % 2, tenant=NAME)

    def look(self):
        """(how many, the 99th percentile in ms)"""
        with self.lock:
            took, self.took = self.took, []
        return len(took), 1000 * statistics.quantiles(took, n=100)[98] if len(took) > 1 else 0.0

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join()


def test_a_server_that_is_far_behind_joins_under_load(database, tmp_path):
    servers = Servers(tmp_path, database.url, n=2, args=(*QUICK, "--max-lag", str(MAX_LAG_MS)))
    try:
        servers.ready()
        clients = servers.clients()
        clients[0].put_tenant(NAME, algorithm="ts", default_reward=None)
        for begin in range(0, N, 10000):
            lines = [{"user": f"u{i % 997}", "arm": "abc"[i % 3], "reward": i % 2} for i in range(begin, min(N, begin + 10000))]
            clients[0].call("POST", "/observe", lines, kind=NDJSON, tenant=NAME)
        settle(clients, NAME)
        with Visitors(clients) as visitors:
            time.sleep(1)
            visitors.look()
            time.sleep(max(5, N / 100000))
            before = visitors.look()
            late = Server(tmp_path / "late", "--log", database.url, "--node", "late", *servers.args, "--open-all")
            late.folder.mkdir()
            begun, seen = time.monotonic(), []
            late.start()
            servers.servers.append(late)
            client = servers.client(late)

            def is_ready():
                answer = client.call("GET", "/readyz", expect=(200, 503))
                seen.append(answer.status)
                return answer.status == 200
            wait_for(is_ready, 60 + N / 2000, "the new server")
            took, log = time.monotonic() - begun, client.call("GET", f"/tenants/{NAME}").json["log"]
            during = visitors.look()
            assert log["lag_seconds"] * 1000 <= MAX_LAG_MS, log
            assert sorted(seen, reverse=True) == seen and (N < 100000 or seen[0] == 503), "it is not ready, and then it is"
        settle(servers.clients(), NAME)
        keep_tally({"test": "behind", "events": N, "ready_s": round(took, 1), "p99_ms": [round(before[1], 1), round(during[1], 1)], "passed": True})
        print(f"{N} events behind, ready after {took:.1f} s; decisions of the others: {before[0]} with a 99th percentile of {before[1]:.1f} ms, then {during[0]} of {during[1]:.1f} ms ({during[1] / before[1]:.2f})")
    finally:
        servers.close()
