"""What servers of one log have in common beside it: keys and limits of tenants. Made at one, in force at all within a question or two."""
import concurrent.futures
import contextlib
import sqlite3

import pytest

import pg
from servers import Servers, at_once, init, wait_for
from harness import Client, Server

pytestmark = pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")


@pytest.fixture
def trio(database, tmp_path):
    """Servers of a log without keys, rates and tenants: what a test has made is taken away behind it."""
    servers = Servers(tmp_path, database.url)
    servers.ready()
    yield servers
    servers.close()
    database.primary.sql("DELETE FROM laplaced.key; DELETE FROM laplaced.rate; UPDATE laplaced.tenant SET deleted_at = 1 WHERE deleted_at IS NULL;"
                         "UPDATE laplaced.common SET revision = revision + 1")


def make_key(api, roles, tenant=None, expect=201, **fields):
    path = f"/tenants/{tenant}/keys" if tenant else "/keys"
    return api.call("POST", path, {"roles": roles, **fields}, expect=expect).json


def status(api, path="/tenants"):
    return api.call("GET", path, expect=(200, 401, 403, 404, 503)).status


def keys_of(server):
    """How many keys the server has written down."""
    with contextlib.closing(sqlite3.connect(f"file:{server.data}/registry.db?mode=ro", uri=True)) as db:
        return db.execute("SELECT count(*) FROM keys").fetchone()[0]


def rounds(servers, n=3):
    """Waits until every server has asked the log so many times more."""
    def polls(api):
        text = api.call("GET", "/metrics").content.decode()
        return int(next(line.split()[1] for line in text.splitlines() if line.startswith("laplaced_log_polls_total ")))
    for api in servers:
        before = polls(api)
        wait_for(lambda: polls(api) >= before + n, what="a question")


# ---- keys

def test_a_key_opens_every_server_and_once_revoked_none(trio):
    a, b, c = trio.clients()
    root = make_key(a, ["admin"])
    with_root = [Client(s, key=root["key"]) for s in trio.servers]
    assert status(a) == 401 and status(with_root[0]) == 200
    for api in (b, c):  # the door is shut everywhere from the first key on
        wait_for(lambda: status(api) == 401, 5, "a shut door")
    rounds(with_root)
    for i in range(12):
        maker, other = with_root[i % 3], with_root[(i + 1) % 3]
        made = make_key(maker, ["metrics"], label=f"round {i}")
        assert status(Client(maker.server, key=made["key"]), "/metrics") == 200
        rounds(with_root)
        for server in trio.servers:
            assert status(Client(server, key=made["key"]), "/metrics") == 200
        assert made["id"] in {k["id"] for k in other.call("GET", "/keys").json["keys"]}
        other.call("DELETE", f"/keys/{made['id']}", expect=204)
        assert status(Client(other.server, key=made["key"]), "/metrics") == 401
        rounds(with_root)
        for server in trio.servers:
            assert status(Client(server, key=made["key"]), "/metrics") == 401
        other.call("DELETE", f"/keys/{made['id']}", expect=404)
    # Each server knows of itself when a key was used; the others' lists do not say it.
    assert [k["id"] for k in with_root[1].call("GET", "/keys").json["keys"]] == [root["id"]]


def test_of_first_keys_that_are_asked_for_at_once_none_shuts_everybody_out(trio, database):
    """A metrics key may only follow an admin's: by the order of the log, the first one is an admin's."""
    n_refused = 0
    for _ in range(8):
        clients = trio.clients()
        asked = [(api, roles) for api in clients for roles in (["metrics"], ["admin"])]
        answers = at_once(*[lambda api=api, roles=roles: api.call("POST", "/keys", {"roles": roles}, expect=(201, 401, 409)) for api, roles in asked])
        told = [(roles[0], answer) for answer, (_, roles) in zip(answers, asked)]
        assert [a for roles, a in told if roles == "admin" and a.status == 201]
        assert not [a for roles, a in told if roles == "admin" and a.status == 409]
        n_refused += len([a for _, a in told if a.status == 409])
        first = database.primary.sql("SELECT roles FROM laplaced.key ORDER BY xmin::text::bigint LIMIT 1")
        assert int(first) & 16, first
        database.primary.sql("DELETE FROM laplaced.key; UPDATE laplaced.common SET revision = revision + 1")
        for server in trio.servers:
            wait_for(lambda: keys_of(server) == 0, what="an empty file of keys")
            server.restart()
        trio.ready()
        assert {status(api) for api in trio.clients()} == {200}
    assert n_refused > 0
    make_key(trio.clients()[0], ["metrics"], expect=409)


def test_the_last_admin_stays_whichever_servers_are_asked_to_revoke(trio):
    a = trio.clients()[0]
    keys = [make_key(a, ["admin"])]
    for i in range(8):
        root = Client(trio.servers[0], key=keys[0]["key"])
        keys.append(make_key(root, ["admin"]))
        rounds([Client(s, key=keys[0]["key"]) for s in trio.servers])
        one, other = (Client(s, key=keys[0]["key"]) for s in (trio.servers[i % 3], trio.servers[(i + 1) % 3]))
        gone = at_once(lambda: one.call("DELETE", f"/keys/{keys[0]['id']}", expect=(204, 401, 409)).status,
                       lambda: other.call("DELETE", f"/keys/{keys[1]['id']}", expect=(204, 401, 409)).status)
        assert 204 in gone, gone
        left = [k for k, status_ in zip(keys, gone) if status_ != 204]
        assert left, "both went: nobody gets in any more"
        keys = left[:1]
        for server in trio.servers:
            wait_for(lambda: status(Client(server, key=keys[0]["key"])) == 200)
        alone = Client(trio.servers[0], key=keys[0]["key"])
        for extra in left[1:]:
            alone.call("DELETE", f"/keys/{extra['id']}", expect=204)
        alone.call("DELETE", f"/keys/{keys[0]['id']}", expect=409)


def test_a_tenants_keys_go_with_it_at_every_server(trio):
    root = make_key(trio.clients()[0], ["admin"])["key"]
    a, b, c = (Client(s, key=root) for s in trio.servers)
    rounds([a, b, c])
    for i in range(4):
        a.put_tenant("shop", algorithm="ucb", seed=i)
        key = make_key(b, ["read", "decide"], tenant="shop")["key"]  # b may not have seen the tenant yet
        assert status(Client(b.server, key=key), "/tenants/shop") in (200, 401)
        for server in trio.servers:
            wait_for(lambda: status(Client(server, key=key), "/tenants/shop") == 200, 5)
            assert status(Client(server, key=key), "/tenants/default") == 404
        c.call("DELETE", "/tenants/shop", expect=204)
        for api in (a, b):
            wait_for(lambda: status(api, "/tenants/shop") == 404)
        wait_for(lambda: a.call("PUT", "/tenants/shop", {"algorithm": "ucb"}, expect=(201, 503)).status == 201)
        rounds([a, b, c])
        for server in trio.servers:
            assert status(Client(server, key=key), "/tenants/shop") == 401
        wait_for(lambda: b.call("DELETE", "/tenants/shop", expect=(204, 404)).status == 204)
        for api in (a, c):
            wait_for(lambda: status(api, "/tenants/shop") == 404)
    make_key(a, ["read"], tenant="nobodys", expect=404)


def test_a_hundred_keys_of_a_tenant_are_all_whoever_makes_them(trio):
    root = make_key(trio.clients()[0], ["admin"])["key"]
    clients = [Client(s, key=root) for s in trio.servers]
    rounds(clients)
    clients[0].put_tenant("shop", algorithm="ucb")
    rounds(clients)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        told = list(pool.map(lambda i: clients[i % 3].call("POST", "/tenants/shop/keys", {"roles": ["read"]}, expect=(201, 409, 503)).status, range(110)))
    assert told.count(201) == 100 and told.count(409) == 10, told
    rounds(clients)
    for api in clients:
        assert len(api.call("GET", "/tenants/shop/keys").json["keys"]) == 100


def test_who_has_a_key_gets_in_while_the_log_is_away(tmp_path_factory):
    folder = tmp_path_factory.mktemp("away")
    with pg.Cluster(folder / "pg") as database:
        init(database.url)
        (folder / "s").mkdir()
        servers = Servers(folder / "s", database.url, n=2, args=("--log-wait", "500", "--log-poll", "10", "--max-lag", "300"))
        try:
            servers.ready()
            root = make_key(servers.clients()[0], ["admin"])["key"]
            a, b = (Client(s, key=root) for s in servers.servers)
            rounds([a, b])
            gone = make_key(a, ["metrics"])
            rounds([a, b])
            b.call("DELETE", f"/keys/{gone['id']}", expect=204)
            rounds([a, b])
            for standby in database.standbys:
                standby.stop()
            database.kill_primary()
            wait_for(lambda: all(c.call("GET", "/readyz", expect=(200, 503)).status == 503 for c in (a, b)))
            b.server.restart()  # what it has written down is what it knows
            for api in (a, b):
                assert status(api) == 200 and status(Client(api.server)) == 401
                assert status(Client(api.server, key=gone["key"]), "/metrics") == 401
                refused = api.call("POST", "/keys", {"roles": ["metrics"]}, expect=503)
                assert "Retry-After" in refused.headers, refused.json
                api.call("DELETE", f"/keys/{gone['id']}", expect=503)
            fresh = Server(folder / "s" / "fresh", "--log", database.url, "--node", "fresh", "--log-wait", "500")
            (folder / "s" / "fresh").mkdir()
            servers.servers.append(fresh)
            fresh.start()  # it has never read a key, and there may be some
            assert status(Client(fresh)) == 503 and status(Client(fresh, key=root)) == 503
            for instance in sorted(database.instances, key=lambda i: i.is_standby):
                (instance.home / "dead").unlink(missing_ok=True)
                instance.start()
            database.wait_synchronous()
            servers.ready()
            for server in servers.servers:
                wait_for(lambda: status(Client(server, key=root)) == 200)
            made = make_key(Client(fresh, key=root), ["metrics"])
            for server in servers.servers:
                wait_for(lambda: status(Client(server, key=made["key"]), "/metrics") == 200)
        finally:
            servers.close()


# ---- limits

def test_a_tenants_limits_are_those_of_every_server(trio):
    a, b, c = clients = trio.clients()
    a.put_tenant("shop", algorithm="ucb")
    own = b.call("PUT", "/tenants/shop/limits", {"rate": 2.5, "burst": 40.5}).json  # b may not have seen it yet
    assert own["rate"] == 2.5 and own["burst"] == 40.5
    for api in clients:
        wait_for(lambda: api.call("GET", "/tenants/shop/limits", expect=(200, 404)).json == own, 5)
    for api in clients:  # each lets through its own
        told = [api.call("POST", "/select", {"user": "u", "candidates": ["x"]}, tenant="shop", expect=(200, 429)).status for _ in range(60)]
        assert told[:20] == [200] * 20 and 429 in told, told
    for server in trio.servers:
        server.restart()
    trio.ready()
    for api in clients:
        assert api.call("GET", "/tenants/shop/limits").json == own
    c.call("PUT", "/tenants/shop/limits", {})
    for api in clients:
        wait_for(lambda: api.call("GET", "/tenants/shop/limits").json != own, 5)
    b.call("PUT", "/tenants/shop/limits", {"rate": 1})
    c.call("DELETE", "/tenants/shop", expect=204)
    for api in (a, b):
        wait_for(lambda: status(api, "/tenants/shop") == 404)
    wait_for(lambda: a.call("PUT", "/tenants/shop", {"algorithm": "ucb"}, expect=(201, 503)).status == 201)
    rounds(clients)
    for api in clients:  # another tenant of the name has none of its limits
        assert api.call("GET", "/tenants/shop/limits").json["rate"] != 1
    a.call("PUT", "/tenants/nobodys/limits", {"rate": 1}, expect=404)


def test_the_rows_of_a_deleted_tenant_are_removed(trio, database):
    a = trio.clients()[0]
    a.put_tenant("shop", algorithm="ucb")
    a.call("PUT", "/tenants/shop/limits", {"rate": 1})
    make_key(Client(a.server, key=make_key(a, ["admin"])["key"]), ["read"], tenant="shop")
    assert database.primary.sql("SELECT count(*) FROM laplaced.rate") == "1"
    database.primary.sql("UPDATE laplaced.tenant SET deleted_at = 1 WHERE name = 'shop'")
    wait_for(lambda: database.primary.sql("SELECT (SELECT count(*) FROM laplaced.rate) + (SELECT count(*) FROM laplaced.key WHERE tenant IS NOT NULL)") == "0", 20)
