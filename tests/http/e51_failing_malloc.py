"""Allocations that fail here and there, in the server and in every library that it links: whoever asked is told so, or
loses the connection; nothing dies, models equal their logs, and all is well once there is memory again."""
import os
import random
import signal
import threading
import time

import pytest
import requests

from e50_without_memory import KERNELS, TENANTS, Load, becomes_ready, comes_to_rest
from harness import IS_SANITIZED, Client, Server, preloaded, tenant_path

pytestmark = pytest.mark.skipif(IS_SANITIZED, reason="a sanitizer has an allocator of its own")

SECONDS = 4
RECORDED = "out of memory for the answer; what it tells of has been recorded"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return preloaded("failing_malloc", tmp_path_factory.mktemp("preloaded"))


def other_requests(draw, tenant):
    """What asks for memory in other ways than decisions and observations do."""
    own, user = tenant_path(tenant), f"u{draw.randrange(300)}"
    return draw.choice([
        ("POST", f"{own}/verify", None), ("GET", f"{own}/verify", None), ("DELETE", f"{own}/verify", None), ("POST", f"{own}/compact", {"keep_events": 50}), ("POST", f"{own}/rebuild", None),
        ("DELETE", f"{own}/users/{user}", None), ("PATCH", f"{own}/graph", {"add": [[user, "w"]]}), ("GET", f"{own}/model", None),
        ("GET", f"{own}/export", None), ("POST", f"{own}/snapshot", None), ("GET", f"{own}/stats", None), ("GET", "/metrics", None),
        ("GET", f"{own}/events", None), ("GET", "/tenants", None), ("PUT", f"{own}/challengers/c", {"algorithm": "ts"}),
        ("DELETE", f"{own}/challengers/c", None), ("PUT", f"{own}/arms", {"arms": ["a0", "a1", "a2"]}), ("GET", "/readyz", None),
        ("PATCH", own, {"confidence": {"beta": draw.choice([1, 2])}}), ("POST", f"{own}/start", None),
        ("PUT", own, {**TENANTS[tenant], "confidence": {"beta": draw.choice([1, 2])}})])


class Others(threading.Thread):
    def __init__(self, server, seed, until):
        super().__init__()
        self.client, self.draw, self.until, self.failure, self.n = Client(server), random.Random(seed), until, None, 0

    def ask(self):
        method, path, body = other_requests(self.draw, self.draw.choice(list(TENANTS)))
        try:
            answer = self.client.call(method, path, body, expect=(200, 201, 202, 204, 404, 409, 422, 500, 503))
        except requests.exceptions.RequestException:
            self.client.session.close()
            return
        self.n += 1
        if answer.status == 500:
            assert answer.json["detail"] == RECORDED

    def run(self):
        try:
            while time.monotonic() < self.until:
                self.ask()
        except Exception as why:  # shown by the test
            self.failure = why


class Failing(Load):
    def call(self, method, path, body, kind=None):
        """An answer may be lost when what it tells of is recorded already."""
        try:
            return super().call(method, path, body, kind)
        except AssertionError as why:
            assert RECORDED in str(why)
            return None


@pytest.mark.parametrize("one_in", [3000, 200])
def test_allocations_that_fail_cost_answers_and_nothing_else(tmp_path, library, one_in):
    server = Server(tmp_path, env={**KERNELS, "LD_PRELOAD": library, "LD_FAIL_ONE_IN": str(one_in)}).start()
    try:
        for tenant in TENANTS:
            Load(server, tenant, time.monotonic() + 5).settle()
        os.kill(server.pid, signal.SIGUSR2)
        until = time.monotonic() + SECONDS
        threads = [Failing(server, tenant, until) for tenant in TENANTS] + [Others(server, i, until) for i in range(3)]
        for load in threads[:len(TENANTS)]:
            load.settle = lambda: None
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        os.kill(server.pid, signal.SIGUSR2)
        assert server.process.poll() is None, (server.process.returncode, server.log()[-2000:])
        assert [str(thread.failure)[:500] for thread in threads if thread.failure] == []
        assert sum(load.statuses.get(200, 0) for load in threads[:len(TENANTS)]) > 0
        becomes_ready(server)
        assert comes_to_rest(server)
        for load in threads[:len(TENANTS)]:
            assert Client(server).verify(load.name_)["equal"]
        assert server.terminate() == 0
        server.start()
        for load in threads[:len(TENANTS)]:
            assert Client(server).verify(load.name_)["equal"]
    finally:
        server.close()
