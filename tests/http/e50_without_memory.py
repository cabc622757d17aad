"""Without memory: a start that refuses, requests that are put off with 503, and never a thread that turns in circles.

Addresses are what is limited (ulimit -v): a mapping that fails looks the same whatever has made it fail."""
import os
import random
import re
import resource
import signal
import threading
import time

import pytest
import requests

from contract import NDJSON
from harness import IS_SANITIZED, Client, Server

pytestmark = pytest.mark.skipif(IS_SANITIZED, reason="a sanitizer maps terabytes")

MB = 1 << 20
LOAD_S = 3
EXACT = {"algorithm": "k-ucb", "context_dim": 4, "representation": {"type": "exact", "exact_limit": 8000}}
TENANTS = {"exact-0": EXACT, "exact-1": EXACT, "users": {"algorithm": "lk-gp-ucb", "context_dim": 2},
           "points": {"algorithm": "laplaced-kors", "context_dim": 3}, "drawn": {"algorithm": "bkb", "context_dim": 3}}


# OpenBLAS's kernels for AVX-512 multiply small matrices in memory that they ask malloc for and do not look at: without it
# they write to NULL. Nothing of ours stands between (decision 0050, "What is left"), so these tests run the others.
KERNELS = {"OPENBLAS_CORETYPE": "Haswell"} if "avx2" in open("/proc/cpuinfo").read().split() else {}


class Limited(Server):
    """A server that may map so many bytes."""

    def __init__(self, folder, limit, *args):
        super().__init__(folder, *args, env=KERNELS)
        self.limit = limit

    def command(self):
        limit = ["prlimit", f"--as={self.limit}:"] if self.limit else []
        return limit + super().command()


def cpu_s(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def leave(server, more):
    """From here on the process may map so many bytes more than it has; None: as many as it likes."""
    pages = int(open(f"/proc/{server.pid}/statm").read().split()[0])
    limit = resource.RLIM_INFINITY if more is None else pages * resource.getpagesize() + more
    resource.prlimit(server.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def comes_to_rest(server, seconds=20):
    """Whether the process does nothing for a while, once nobody asks it anything: what is begun may take some time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        before = cpu_s(server.pid)
        time.sleep(0.5)
        if cpu_s(server.pid) - before < 0.1:
            return True
    return False


def becomes_ready(server, seconds=60):
    """A tenant whose commit failed is tried again now and then."""
    deadline = time.monotonic() + seconds
    while Client(server).call("GET", "/readyz", expect=(200, 503)).status != 200:
        assert time.monotonic() < deadline, server.log()[-2000:]
        time.sleep(0.1)


class Load(threading.Thread):
    """One tenant's traffic: its observations and decisions, and which of them were acknowledged."""

    def __init__(self, server, tenant, until):
        super().__init__()
        self.client, self.name_, self.until = Client(server, tenant=tenant), tenant, until
        self.draw, self.acknowledged, self.statuses, self.failure = random.Random(tenant), set(), {}, None
        self.dim = TENANTS[tenant]["context_dim"]

    def context(self):
        return [round(self.draw.uniform(-1, 1), 6) for _ in range(self.dim)]

    def call(self, method, path, body, kind=None):
        """None when the connection was cut, which a client takes as unanswered."""
        try:
            answer = self.client.call(method, path, body, kind=kind, expect=(200, 201, 404, 503))
        except requests.exceptions.ConnectionError:
            self.client.session.close()
            self.statuses["cut"] = self.statuses.get("cut", 0) + 1
            return None
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
        if answer.status == 503:
            assert int(answer.headers["Retry-After"]) >= 1
            time.sleep(0.02)
        return answer

    def settle(self):
        """The tenant, and the graph of its users; tried until there is memory for it."""
        while time.monotonic() < self.until:
            answer = self.call("PUT", f"/tenants/{self.name_}", TENANTS[self.name_])
            if answer is not None and answer.status in (200, 201):
                break
        edges = [[f"u{i}", f"u{i * 7 % 300}"] for i in range(300) if i * 7 % 300 != i]
        self.call("PUT", f"/tenants/{self.name_}/graph", {"edges": edges})

    def round(self, n):
        ids = [f"{self.name_}-{n}-{i}" for i in range(100)]
        lines = [{"id": i, "user": f"u{self.draw.randrange(300)}", "arm": f"a{self.draw.randrange(3)}",
                  "context": self.context(), "reward": self.draw.random()} for i in ids]
        answer = self.call("POST", "/observe", lines, NDJSON)
        if answer is not None and answer.status == 200:
            self.acknowledged.update(ids)
        decision = f"{self.name_}-{n}"
        answer = self.call("POST", "/select", {"user": "u1", "candidates": ["a0", "a1", "a2"], "context": self.context(),
                                               "decision": decision})
        if answer is None or answer.status != 200:
            return
        self.acknowledged.add(decision)
        self.call("POST", "/reward", {"decision": decision, "reward": 1})

    def run(self):
        try:
            self.settle()
            n = 0
            while time.monotonic() < self.until:
                self.round(n)
                n += 1
        except Exception as why:  # shown by the test
            self.failure = why


def has(server, tenant, acknowledged):
    """Every acknowledged event stands in the log, once."""
    ids = [e.get("id") or e.get("decision") for e in Client(server).events(tenant)
           if e["type"] in ("observed", "decided")]
    assert len(ids) == len(set(ids))
    assert acknowledged <= set(ids), sorted(acknowledged - set(ids))[:3]


@pytest.mark.parametrize("more", [2 * MB, 40 * MB, None])
def test_requests_are_put_off_nothing_turns_in_circles_and_what_was_said_holds(tmp_path, more):
    server = Limited(tmp_path, 720 * MB).start()
    try:
        if more is not None:
            leave(server, more)
        until = time.monotonic() + LOAD_S
        loads = [Load(server, tenant, until) for tenant in TENANTS]
        for load in loads:
            load.start()
        for load in loads:
            load.join(60)
            assert not load.is_alive(), f"{load.name_} waits for an answer"
        assert [load.failure for load in loads if load.failure] == []
        assert comes_to_rest(server), server.log()[-2000:]
        if more == 40 * MB:
            leave(server, None)
            becomes_ready(server)
        assert server.terminate(timeout=60) == 0, server.log()[-2000:]
        print(more, {load.name_: load.statuses for load in loads})
        if more == 2 * MB:
            assert sum(load.statuses.get(503, 0) for load in loads) > 0
        else:
            assert sum(load.statuses.get(200, 0) for load in loads) > 0
        server.limit = None
        server.start()
        for load in loads:
            if load.acknowledged:
                has(server, load.name_, load.acknowledged)
                assert Client(server).verify(load.name_)["equal"]
    finally:
        server.close()


def test_a_start_without_room_to_compute_is_refused_with_the_figures(tmp_path):
    status, told = Limited(tmp_path, 300 * MB).run_to_end()
    assert status == 1
    assert re.search(r"not enough memory may be mapped: threads want \d+ MB of addresses, and a computation \d+ MB", told)
    assert not (tmp_path / "data").exists()
