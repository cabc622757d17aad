"""Servers of two versions on one log: the newer one writes what the older one knows, until an operator says that all are new. The older one is this program, told by
LAPLACED_LOG_VERSION to know less."""
import json

import pytest

from servers import Servers, ctl, events_of, settle, wait_for
import pg

pytestmark = pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")
SLOTS = {"user": "u", "candidates": ["x", "y", "z"], "slots": [{"id": "top"}, {"id": "side"}]}


def cluster(database, *args, expect=0):
    return ctl("cluster", *args, "--log", database.url, expect=expect)


@pytest.fixture
def two(database, tmp_path):
    """A new one and an old one, on a log that was made for old ones."""
    database.primary.sql("UPDATE laplaced.common SET log_version = 1")
    database.primary.sql("DELETE FROM laplaced.node")
    servers = Servers(tmp_path, database.url, n=2)
    try:
        servers.servers[1].env = {"LAPLACED_LOG_VERSION": "1"}
        servers.restart(servers.servers[1])
        servers.ready()
        yield servers
    finally:
        servers.close()
        database.primary.sql("DELETE FROM laplaced.version WHERE number > 5")


def ready(client):
    return client.call("GET", "/readyz", expect=(200, 503))


def numbers(log):
    """Of candidates, as the lines of decisions have them."""
    return [e.get("candidates") for e in events_of(log) if e["type"] == "decided"]


def test_a_log_that_is_made_now_allows_the_newest_lines(database):
    assert json.loads(cluster(database, "status", "--json"))["log_version"] == 2


def test_an_older_server_works_beside_a_newer_one_until_the_log_is_raised(database, two):
    new, old = two.clients()
    new.put_tenant("shop", algorithm="laplaced")
    new.put_tenant("alone", algorithm="laplaced", on_log_failure="decide")
    old.select("u", tenant="alone", candidates=["x"])
    for i in range(20):
        decision = two.clients()[i % 2].select(f"u{i % 3}", tenant="shop", candidates=["x", "y"])["decision"]
        two.clients()[(i + 1) % 2].reward(decision, i % 2, tenant="shop")
    log, _ = settle(two.clients(), "shop")
    assert numbers(log) == [None] * 20  # an older server would not read them
    assert "cluster upgrade" in new.call("POST", "/select", SLOTS, tenant="shop", expect=503).json["detail"]
    assert "cluster upgrade" in old.call("POST", "/select", SLOTS, tenant="shop", expect=503).json["detail"]
    export = new.call("GET", "/tenants/shop/export").content
    refused = new.call("POST", "/tenants/copy/import", raw=export, kind="application/x-ndjson", expect=503)
    assert "cluster upgrade" in refused.json["detail"]

    said = json.loads(cluster(database, "status", "--json"))
    assert said["log_version"] == 1 and {s["name"]: s["log_version"] for s in said["servers"]} == {"a": 2, "b": 1}
    assert "do not know version 2 of the lines are there: b" in cluster(database, "upgrade", expect=1)
    assert ready(old).status == 200
    # Somebody raises it all the same.
    database.primary.sql("UPDATE laplaced.common SET log_version = 2")
    slots = new.call("POST", "/select", SLOTS, tenant="shop").json
    assert [s["id"] for s in slots["slots"]] == ["top", "side"]
    before = old.stats("shop")["decisions"]
    told = old.call("POST", "/select", {"user": "u", "candidates": ["x"]}, tenant="shop", expect=503).json["detail"]
    assert "upgraded" in told and "nothing was recorded" in told
    wait_for(lambda: ready(old).status == 503, what="an older server that is not ready")
    assert "lines of the shared log may have version 2, this program knows 1: upgrade it" in ready(old).json["detail"]
    assert old.stats("shop")["decisions"] == before and ready(new).status == 200
    # It is there: who decides while it is away does not decide beside it, in a turn or before one.
    for _ in range(2):
        assert "upgraded" in old.call("POST", "/select", {"user": "u", "candidates": ["x"]}, tenant="alone", expect=503).json["detail"]
    assert "repair" not in two.servers[1].log() and "laplaced_chain_breaks_total 0" in old.call("GET", "/metrics").text

    two.servers[1].env = {}
    two.restart(two.servers[1])
    two.ready()
    assert two.clients()[1].call("POST", "/select", SLOTS, tenant="shop").json["slots"]
    two.clients()[1].select("u", tenant="shop", candidates=["x", "y"])
    assert numbers(settle(two.clients(), "shop")[0])[-1] == 2


def test_upgrade_raises_it_when_all_servers_are_new(database, two):
    two.servers[1].env = {}
    two.restart(two.servers[1])
    two.ready()
    assert "version 2" in cluster(database, "upgrade") and json.loads(cluster(database, "upgrade", "--json")) == {"log_version": 2}
    two.clients()[0].put_tenant("raised", algorithm="laplaced")
    assert two.clients()[1].call("POST", "/select", SLOTS, tenant="raised").json["slots"]
    settle(two.clients(), "raised")


def test_newer_tables_that_serve_this_program_are_used_and_others_refused(database, two):
    new, _ = two.clients()
    new.put_tenant("tables", algorithm="laplaced")
    database.primary.sql("INSERT INTO laplaced.version (number, serves) VALUES (6, 5)")
    two.restart(two.servers[0])
    two.ready()
    two.clients()[0].select("u", tenant="tables", candidates=["x", "y"])
    database.primary.sql("INSERT INTO laplaced.version (number, serves) VALUES (7, 7)")
    wait_for(lambda: ready(two.clients()[0]).status == 503, what="a server that is not ready")
    assert "tables have version 7, this program knows 5" in ready(two.clients()[0]).json["detail"]
