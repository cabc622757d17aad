"""`laplacectl verify --log`: a log that somebody has changed in PostgreSQL is told from one that is whole, by its first line that does not fit."""
import hashlib
import json
import subprocess

import pytest

from servers import CTL, Servers, at_once, ctl, settle, wait_for
import pg

pytestmark = pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")


def verify(database, *args, expect=0):
    return ctl("verify", "--log", database.url, *args, expect=expect)


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


def test_a_folder_that_is_not_there_is_a_fault_and_is_not_made(database, shop, tmp_path):
    missing = tmp_path / "typo"
    assert str(missing) in verify(database, "shop", "--data", str(missing), expect=1)
    assert not missing.exists()


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


def test_a_copy_from_before_a_rewriting_is_not_held_against_the_log(database, tmp_path):
    servers = Servers(tmp_path, database.url, n=2)
    try:
        servers.ready()
        (stopped, _), (_, other) = servers.servers, servers.clients()
        names = ("clinic", "gym", "again")
        for name in names:
            other.put_tenant(name, algorithm="laplaced")
            for i in range(12):
                other.reward(other.select(f"u{i % 3}", tenant=name, candidates=["x", "y"])["decision"], i % 2, tenant=name)
            settle(servers.clients(), name)
        assert stopped.terminate() == 0
        other.call("DELETE", "/tenants/clinic/users/u1", expect=(200, 202))
        other.call("POST", "/tenants/gym/compact", {"keep_events": 5}, expect=(200, 202))
        other.call("DELETE", "/tenants/again", expect=204)
        other.put_tenant("again", algorithm="laplaced")
        said = {name: verify(database, name, "--data", str(stopped.data)) for name in names}
    finally:
        servers.close()
    for name in ("clinic", "gym"):
        assert "whole" in said[name] and "the copy is from before lines were rewritten" in said[name], said
    assert "whole" in said["again"] and "the copy is another tenant's" in said["again"], said
    verify(database, "gym", "--data", str(servers.servers[1].data))
    assert "the copy has the same" in verify(database, "clinic", "--data", str(servers.servers[1].data))


def test_it_is_no_server_for_others(database, shop):
    database.primary.sql("DELETE FROM laplaced.node")
    verify(database)
    done = subprocess.run([CTL, "cluster", "status", "--json", "--log", database.url], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["servers"] == []


def test_a_log_that_cannot_be_read_is_not_called_broken(database, shop):
    database.primary.sql("UPDATE laplaced.common SET log_version = 77")
    try:
        told = verify(database, "shop", expect=1)
        assert "cannot be read" in told and "version 77" in told and "BROKEN" not in told
    finally:
        database.primary.sql("UPDATE laplaced.common SET log_version = 2")
    told = verify(database, "nobodys", expect=1)
    assert "cannot be read" in told and "BROKEN" not in told


PAGE, PAGES = 256, 80


@pytest.fixture(scope="module")
def long(database):
    """A tenant whose log is eighty pages of batches, and the statements that append one more."""
    primary = database.primary
    primary.sql("INSERT INTO laplaced.tenant (name, created_at) VALUES ('long', 0)")
    hash_, rows = bytes(16), []
    for seq in range(1, PAGE * PAGES + 2):
        body = b'{"line":%d}\n' % seq
        hash_ = hashlib.blake2b(hash_ + body, digest_size=16).digest()
        rows.append((f"({{t}}, {seq}, 1, 0, 'a', {seq}, '\\x{hash_.hex()}', '\\x{body.hex()}')", hash_.hex()))
    id_ = primary.sql("SELECT id FROM laplaced.tenant WHERE name = 'long'")

    def add(some):
        return ("INSERT INTO laplaced.batch (tenant, seq, n, at, node, nonce, hash, body) VALUES " + ",".join(r for r, _ in some).format(t=id_)
                + f"; UPDATE laplaced.tenant SET last = last + {len(some)}, hash = '\\x{some[-1][1]}' WHERE id = {id_};")
    for i in range(0, PAGE * PAGES, 2 * PAGE):
        primary.sql(add(rows[i:i + 2 * PAGE]))
    yield add(rows[-1:])
    primary.sql(f"DELETE FROM laplaced.batch WHERE tenant = {id_}; DELETE FROM laplaced.tenant WHERE id = {id_}")


SEEN = """DO $$ DECLARE n int := 0; BEGIN
    FOR i IN 1..20000 LOOP
        PERFORM pg_stat_clear_snapshot();
        IF EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = 'laplaced laplacectl' AND query LIKE '%%octet_length(body)%%') THEN n := n + 1; END IF;
        EXIT WHEN n > 2;
        PERFORM pg_sleep(0.001);
    END LOOP;
    IF n <= 2 THEN RAISE 'no reading was seen'; END IF;
    %s
END $$"""


@pytest.mark.parametrize("is_written", [True, False])
def test_what_is_rewritten_or_written_while_it_reads(database, long, is_written):
    """A rewriting between two pages has it begin anew; what others write behind the end that it has found is left to the next one."""
    primary = database.primary
    change = long if is_written else "UPDATE laplaced.tenant SET generation = generation + 1 WHERE name = 'long';"
    last = int(primary.sql("SELECT last FROM laplaced.tenant WHERE name = 'long'"))

    def read():
        wait_for(lambda: primary.sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DO %' AND state = 'active'") == "1", what="the other")
        return verify(database, "long")
    _, said = at_once(lambda: primary.sql(SEEN % change), read)
    assert "BROKEN" not in said and f"whole      to line {last}\n" in said, said


def test_a_copy_that_differs_is_named_by_its_line(database, shop):
    """The log is whole, and another one: one line reads otherwise, and the chain is written anew behind it."""
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
