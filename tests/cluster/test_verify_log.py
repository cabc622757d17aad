"""`laplacectl verify --log`: a log that somebody has changed in PostgreSQL is told from one that is whole, by its first line that does not fit."""
import subprocess

import pytest

from servers import CTL, Servers, settle
import pg

pytestmark = pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")


def verify(database, *args, expect=0):
    done = subprocess.run([CTL, "verify", "--log", database.url, *args], capture_output=True, text=True, timeout=60)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def shop(database, tmp_path_factory):
    """A tenant of forty lines or more, and the folder of a server that is stopped."""
    servers = Servers(tmp_path_factory.mktemp("verify"), database.url, n=2)
    try:
        servers.ready()
        for name in ("bank", "shop"):
            servers.clients()[0].put_tenant(name, algorithm="laplaced")
        for i in range(20):
            decision = servers.clients()[i % 2].select(f"u{i % 3}", tenant="shop", candidates=["x", "y"])["decision"]
            servers.clients()[(i + 1) % 2].reward(decision, i % 2, tenant="shop")
        settle(servers.clients(), "shop")
        for server in servers.servers:
            assert server.terminate() == 0
        yield servers.servers[0].data
    finally:
        servers.close()


def tenant(database):
    return "tenant = (SELECT id FROM laplaced.tenant WHERE name = 'shop')"


def test_a_log_that_is_whole(database, shop):
    last = database.primary.sql("SELECT last FROM laplaced.tenant WHERE name = 'shop'")
    said = verify(database)
    assert f"whole      to line {last}\n" in said and said.startswith("bank ")
    assert f"the copy has the same to line {last}" in verify(database, "shop", "--data", str(shop))
    assert "no such tenant" in verify(database, "nobodys", expect=1)


@pytest.mark.parametrize("change,said", [
    ("UPDATE laplaced.batch SET body = overlay(body placing '\\x7a' from 40) WHERE {t} AND seq = {s}", "line {first} does not fit"),
    ("UPDATE laplaced.batch SET hash = '\\x00000000000000000000000000000000' WHERE {t} AND seq = {s}", "line {first} does not fit"),
    ("DELETE FROM laplaced.batch WHERE {t} AND seq = {s}", "line {first} does not fit"),
    ("DELETE FROM laplaced.batch WHERE {t} AND seq > {s}", "line {next} is not there"),
    ("UPDATE laplaced.tenant SET hash = '\\x00000000000000000000000000000000' WHERE name = 'shop'", "the tenant's row has another hash"),
])
def test_the_first_line_that_does_not_fit_is_named(database, shop, change, said):
    primary, t = database.primary, tenant(database)
    seq, n = map(int, primary.sql(f"SELECT seq, n FROM laplaced.batch WHERE {t} ORDER BY seq OFFSET 10 LIMIT 1").split("|"))
    primary.sql("CREATE TABLE kept AS SELECT * FROM laplaced.batch; CREATE TABLE kept_tenant AS SELECT id, hash FROM laplaced.tenant")
    try:
        primary.sql(change.format(t=t, s=seq))
        told = verify(database, expect=1)
        assert "BROKEN" in told and said.format(first=seq - n + 1, next=seq + 1) in told and "bank                     whole" in told, told
    finally:
        primary.sql("DELETE FROM laplaced.batch; INSERT INTO laplaced.batch SELECT * FROM kept;"
                    " UPDATE laplaced.tenant AS t SET hash = k.hash FROM kept_tenant AS k WHERE k.id = t.id; DROP TABLE kept, kept_tenant")
    verify(database)


def test_a_copy_that_differs_is_named_by_its_line(database, shop):
    """The log is whole, and another one: one line reads otherwise, and the chain is written anew behind it."""
    import hashlib
    primary, t = database.primary, tenant(database)
    rows = [r.split("|") for r in primary.sql(f"SELECT seq, n, encode(body, 'hex') FROM laplaced.batch WHERE {t} ORDER BY seq").splitlines()]
    at, before, changes = 7, bytes(16), []
    first = int(rows[at][0]) - int(rows[at][1]) + 1
    for i, (seq, _, body) in enumerate(rows):
        body = bytes.fromhex(body)
        if i == at:
            body = body.replace(b'"at":"2', b'"at":"1', 1)
        before = hashlib.blake2b(before + body, digest_size=16).digest()
        changes.append(f"UPDATE laplaced.batch SET body = '\\x{body.hex()}', hash = '\\x{before.hex()}' WHERE {t} AND seq = {seq}")
    primary.sql(";".join([*changes, f"UPDATE laplaced.tenant SET hash = '\\x{before.hex()}' WHERE name = 'shop'"]))
    assert "BROKEN" not in verify(database)
    assert f"the copy has another line {first}" in verify(database, "shop", "--data", str(shop), expect=1)
