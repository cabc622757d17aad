"""Cuts of the power right behind an answer, with every combination of names that no sync covers: what the answer said stands."""
import itertools
import time

import pytest

from harness import Client, Server
from power_disk import Disk, read_trace
from power_run import tracing

MOST_NAMES = 10  # changes of names of which every combination is looked at


@pytest.fixture
def traced(tmp_path):
    """(server, images): images() are the disks that a cut at this moment may leave."""
    (tmp_path / "disk").mkdir()
    server = Server(tmp_path / "disk", "--snapshot-events", "3", env=tracing(tmp_path))

    def images():
        now = time.monotonic_ns()
        disk = Disk(str(tmp_path / "disk"))
        for record in read_trace(tmp_path / "trace"):
            if record.t <= now:
                disk.play(record)
        latest = disk.changes[-MOST_NAMES:]
        for kept in itertools.product((False, True), repeat=len(latest)):
            yield disk.leave([change for change, is_kept in zip(latest, kept) if is_kept])

    yield server.start(), images
    server.close()


def test_a_first_start_that_has_answered_leaves_its_folder(traced):
    _, images = traced
    for image in images():
        assert image.get("/data/tenants/default.db") and image.get("/data/registry.db")


def test_a_removed_tenant_comes_back_with_the_marker_of_its_removal_alone(traced):
    server, images = traced
    client = Client(server)
    client.put_tenant("t")
    client.call("DELETE", "/tenants/t", expect=204)
    for image in images():
        assert "/data/tenants/t.db" not in image or "/data/tenants/t.db.deleted" in image


def test_no_file_that_comes_back_has_an_erased_user(traced):
    server, images = traced
    client = Client(server)
    client.put_tenant("t")
    for i in range(12):
        client.observe("a user with a name", "a", i / 8, tenant="t")
    end = time.monotonic() + 20
    while b"a user with a name" not in b"".join(p.read_bytes() for p in server.data.glob("tenants/t.snapshot")):
        assert time.monotonic() < end, "no snapshot"
        time.sleep(0.05)
    client.call("DELETE", "/tenants/t/users/" + "a user with a name".replace(" ", "%20"))
    for image in images():
        assert [path for path, content in image.items() if content and b"a user with a name" in content] == []


def test_what_was_answered_stands_whatever_becomes_of_the_rest(traced):
    server, images = traced
    client = Client(server)
    client.put_tenant("t")
    client.observe("u", "a", 0.123456789, tenant="t")
    lines = client.call("GET", "/tenants/t/export").content
    client.call("POST", "/tenants/copy/import", raw=lines, kind="application/x-ndjson", expect=201)
    key = client.call("POST", "/keys", {"label": "made just now", "roles": ["admin"]}, expect=201).json
    for image in images():
        for name in ("t", "copy"):
            held = image[f"/data/tenants/{name}.db"] + image.get(f"/data/tenants/{name}.db-wal", b"")
            assert b"0.123456789" in held, name
        assert b"made just now" in image["/data/registry.db"] + image["/data/registry.db-wal"], key
