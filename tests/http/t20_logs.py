"""The server's log over HTTP: which requests have a line, what stands in it, and above all what does not."""
import json
import os
import re
import shlex
import subprocess
import time

import pytest

from harness import Client, Server
from prometheus_text import parse, value

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SENT = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
FULL = ("--tenant-quota", "100k")  # a reward would take more: 507

KEY = "Secret-Admin-Key-0123456789abcdef"


def full(server):
    """A client of a tenant under a dictionary, whose first point wants room for many."""
    client = Client(server, tenant="full")
    client.put_tenant("full")
    return client


def lines(server, msg="request"):
    """Members of the lines with that message, from either form."""
    out = []
    for line in server.log().splitlines():
        if line.startswith("{"):
            out.append(json.loads(line))
        elif line.startswith("ts="):
            out.append(dict(word.split("=", 1) for word in shlex.split(line)))
    return [members for members in out if members["msg"] == msg]


def wait_for(server, n, msg="request"):
    """The lines, once there are n: an answer may be read before its line is written."""
    deadline = time.monotonic() + 30
    while len(lines(server, msg)) < n and time.monotonic() < deadline:
        time.sleep(0.01)
    found = lines(server, msg)
    assert len(found) == n, server.log()
    return found


@pytest.mark.parametrize("form", ["text", "json"])
def test_all_requests_have_a_line_each_that_says_what_happened(boot, form):
    server = boot("--log-requests", "all", "--log-format", form)
    api = Client(server)
    body = {"user": "ann", "candidates": ["a", "b"], "decision": "d1"}
    answer = api.call("POST", "/select", body, headers=SENT)
    api.call("GET", "/nowhere", expect=404)
    api.call("GET", "/tenants/default/model")
    one, two, three = wait_for(server, 3)
    assert one["method"] == "POST" and one["route"] == "/select" and int(one["status"]) == 200
    assert int(one["bytes_in"]) == len(json.dumps(body)) and int(one["bytes_out"]) == len(answer.content)
    assert one["tenant"] == "default" and one["trace"] == TRACE and one["level"] == "info"
    assert re.fullmatch(r"127\.0\.0\.1:\d+", one["peer"]) and 0 < float(one["duration_s"]) < 60
    assert "key" not in one
    assert two["route"] == "none" and "tenant" not in two and int(two["status"]) == 404
    assert three["route"] == "/tenants/{t}/model" and three["tenant"] == "default"
    assert isinstance(one["status"], int) == (form == "json")


def test_every_line_of_a_json_log_is_json(boot):
    server = boot("--log-requests", "all", "--log-format", "json", "--log-level", "debug")
    api = Client(server)
    api.put_tenant("shop")
    api.call("POST", "/tenants/shop/import", raw="{", kind="application/x-ndjson", expect=(400, 409))
    assert server.terminate() == 0
    for line in server.log().splitlines():
        assert {"ts", "level", "msg"} <= json.loads(line).keys()


def test_by_default_failures_and_slow_requests_have_a_line(boot):
    server = boot(*FULL)
    api = Client(server)
    api.put_tenant("shop")
    api.call("GET", "/nowhere", expect=404)
    api.observe("ann", "a", 1, tenant="shop", expect=507)
    (line,) = wait_for(server, 1)
    assert (line["level"], line["status"], line["route"], line["tenant"]) == ("warn", "507", "/observe", "shop")


def test_slow_requests_are_those_from_a_bound_on(boot):
    server = boot("--slow-request", "1", "--log-requests", "slow")
    api = Client(server)
    for i in range(20):  # fsyncs: some take a millisecond
        api.observe("ann", "a", i % 2)
    api.call("GET", "/healthz")
    assert server.terminate() == 0
    found = lines(server)
    assert all(float(one["duration_s"]) >= 0.001 for one in found)
    assert Client(server.start()).call("GET", "/readyz").status == 200


def test_none_means_none(boot):
    server = boot("--log-requests", "none", *FULL)
    full(server).observe("ann", "a", 1, expect=507)
    assert server.terminate() == 0
    assert lines(server) == []


def test_nothing_private_is_logged(boot, tmp_path):
    """Keys, bodies, ids of users, arms and decisions: whatever is asked for, and however it fails."""
    secrets = ["uSeR-9x7", "aRm-9x7", "dEcIsIoN-9x7", KEY, "wRoNg-KeY-9x7-0123456789", "vAlUe-9x7"]
    user, arm, decision, _, wrong, word = secrets
    (tmp_path / "keys").write_text(KEY + "\n")
    server = boot("--log-requests", "all", "--log-level", "debug", "--admin-key-file", str(tmp_path / "keys"))
    api = Client(server, key=KEY)
    api.put_tenant("shop")
    api.select(user, candidates=[arm, "b"], decision=decision, tenant="shop")
    api.reward(decision, 1, tenant="shop")
    api.reward(decision, 0, tenant="shop", expect=409)
    api.call("POST", "/reward", {"decision": decision, "reward": word}, tenant="shop", expect=400)
    api.call("POST", "/select", raw='{"user":"%s' % user, tenant="shop", expect=400)
    api.call("GET", f"/{user}?{word}={word}", expect=404)
    Client(server, key=wrong).call("GET", "/tenants", expect=401)
    log = api.call("GET", "/tenants/shop/export").text
    twice = log + "\n".join(line for line in log.splitlines() if '"decided"' in line) + "\n"
    api.call("POST", "/tenants/copy/import", raw=twice, kind="application/x-ndjson", expect=400)
    api.call("POST", "/tenants/shop/verify")
    api.call("DELETE", f"/tenants/shop/users/{user}")
    made = api.call("POST", "/tenants/shop/keys", {"roles": ["decide"]}, expect=201).json
    Client(server, key=made["key"]).select(user, candidates=["b"], tenant="shop")
    found = wait_for(server, 14)
    assert found[-1]["key"] == made["id"] and "key" not in found[0]
    for secret in (*secrets, made["key"]):
        assert secret not in server.log(), secret


def test_what_a_handler_logs_has_the_trace_of_its_request(boot):
    server = boot()
    api = Client(server)
    made = api.call("POST", "/keys", {"roles": ["admin"]}, expect=201, headers=SENT).json
    (line,) = lines(server, f"key {made['id']} of (server) made")
    assert line["trace"] == TRACE
    assert all("trace" not in one for one in lines(server, "OpenBLAS kernels: SkylakeX"))


def test_a_flood_is_limited_and_counted(boot):
    server = boot("--log-requests", "errors", *FULL)
    api = full(server)
    for _ in range(200):
        api.observe("ann", "a", 1, expect=507)
    seen = parse(api.call("GET", "/metrics").text)
    n_limited = value(seen, "laplaced_log_lines_dropped_total", reason="limited")
    assert len(lines(server)) + n_limited == 200
    assert value(seen, "laplaced_log_lines_dropped_total", reason="stalled") == 0


class Unread(Server):
    """A server whose stderr is a pipe that nobody reads."""

    def start(self):
        self.reader, writer = os.pipe()
        self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=writer, env=self.environment(),
                                        restore_signals=False)
        os.close(writer)
        self.url = self.first_line().split()[3]
        return self

    def close(self):
        super().close()
        os.close(self.reader)


def test_a_log_that_nobody_reads_stalls_no_request(tmp_path):
    server = Unread(tmp_path, "--log-requests", "all").start()
    try:
        api = Client(server)
        for _ in range(600):  # 64 KiB of pipe hold some 400 lines
            api.call("GET", "/healthz")
        seen = parse(api.call("GET", "/metrics").text)
        n_lost = value(seen, "laplaced_log_lines_dropped_total", reason="stalled")
        assert 0 < n_lost < 600
        text = os.read(server.reader, 1 << 20).decode()
        assert all(line.startswith("ts=") for line in text.splitlines())
        api.call("GET", "/healthz")
        deadline = time.monotonic() + 30
        while "lines of this log are lost" not in text and time.monotonic() < deadline:
            text += os.read(server.reader, 1 << 20).decode()
        assert int(re.search(r"are lost.* lines=(\d+)", text)[1]) >= n_lost
    finally:
        server.close()
