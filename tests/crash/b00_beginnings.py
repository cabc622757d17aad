"""Deaths around the birth of a folder and of a tenant: either it is what was asked for, or it is not there."""
import subprocess
import time

import pytest
import requests

from harness import Client, Server

STEPS = 24


def start_and_kill(server, delay):
    """A start that gets `delay` seconds, whatever it has done by then."""
    process = subprocess.Popen(server.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=server.environment())
    time.sleep(delay)
    process.kill()
    process.wait()


def tenants(client):
    return [t["name"] for t in client.call("GET", "/tenants").json["tenants"]]


def test_a_folder_whose_first_start_was_killed_gets_its_default_tenant(tmp_path):
    """Sweeps over the time that a start takes here, twice as long, so that every step of it is hit on some machine."""
    probe = Server(make_dir(tmp_path / "probe"))
    began = time.monotonic()
    probe.start()
    whole = time.monotonic() - began
    probe.kill()
    for k in range(STEPS):
        server = Server(make_dir(tmp_path / str(k)))
        start_and_kill(server, 2 * whole * k / STEPS)
        start_and_kill(server, 2 * whole * (STEPS - k) / STEPS)
        server.start()
        try:
            client = Client(server)
            assert tenants(client) == ["default"], f"killed after {2000 * whole * k / STEPS:.1f} ms"
            assert client.select("u", candidates=["a", "b"])["arm"] in ("a", "b")
        finally:
            server.close()


def dies_at_statement(server, n):
    """A first start with the n-th statement of its schemas as its last. False: it came to its end."""
    server.env = {"LAPLACED_FAILPOINT": f"mid_migration:{n}"}
    process = subprocess.Popen(server.command(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=server.environment())
    has_started = process.stdout.readline() != b""
    process.kill()
    assert process.wait() == -9
    process.stdout.close()
    server.env = {}
    return not has_started


def test_a_first_start_that_dies_between_the_statements_of_a_schema_begins_again(tmp_path):
    """Those of the tenant's file come first, then those of the registry."""
    for n in range(1, 40):
        server = Server(make_dir(tmp_path / str(n)))
        has_died = dies_at_statement(server, n)
        server.start()
        try:
            assert tenants(Client(server)) == ["default"], n
        finally:
            server.close()
        if not has_died:
            break
    assert 6 < n < 39


def make_dir(path):
    path.mkdir()
    return path


def test_a_registry_without_rows_keeps_the_default_tenant_deleted(boot):
    server = boot().start()
    Client(server).call("DELETE", "/tenants/default", expect=204)
    for _ in range(2):
        server.restart()
        assert tenants(Client(server)) == []


LOST = ("before_append", "after_append", *(f"mid_migration:{n}" for n in range(1, 6)))


@pytest.mark.parametrize("point", [*LOST, "after_commit", "after_apply"])
def test_a_creation_that_was_cut_off_leaves_what_was_asked_for_or_nothing(boot, point):
    server = boot().start()
    server.kill()
    server.env = {"LAPLACED_FAILPOINT": point if ":" in point else f"{point}:1"}
    server.start()
    with pytest.raises(requests.exceptions.RequestException):
        Client(server).put_tenant("x", algorithm="ts", arm_dim=2, seed=7)
    assert server._reap() == -9
    server.env = {}
    server.start()
    client = Client(server)
    answer = client.call("GET", "/tenants/x", expect=(200, 404))
    assert answer.status == (404 if point in LOST else 200)
    if answer.status == 200:
        assert (answer.json["configuration"]["seed"], answer.json["configuration"]["algorithm"]) == (7, "ts")
    again = client.call("PUT", "/tenants/x", {"algorithm": "ts", "arm_dim": 2, "seed": 7}, expect=(200, 201))
    assert (again.status, again.json["version"], again.json["seq"]) == (200 if answer.status == 200 else 201, 1, 1)
    server.restart()
    assert tenants(client) == ["default", "x"]
