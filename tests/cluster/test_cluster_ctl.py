"""`laplacectl cluster` against a primary with a synchronous standby: what it says is what psql finds."""
import json
import pathlib

import pytest

from servers import ctl
import pg as kit

SCHEMAS = sorted((pathlib.Path(__file__).parents[2] / "schema").glob("shared_*.sql"))
VERSION = len(SCHEMAS)


@pytest.fixture(scope="module")
def pg(tmp_path_factory):
    with kit.Cluster(tmp_path_factory.mktemp("pg") / "pg") as cluster:
        yield cluster


def cluster(*args, expect=0, **env):
    return ctl("cluster", *args, expect=expect, **env)


def status(pg, *args, expect=0):
    return json.loads(cluster("status", "--log", pg.url, "--json", *args, expect=expect))


def test_a_database_without_tables_is_named_and_init_makes_them_once(pg):
    assert "laplacectl cluster init" in cluster("status", "--log", pg.url, expect=1)
    assert "are made" in cluster("init", "--log", pg.url)
    assert "were there already" in cluster("init", LAPLACED_LOG=pg.url)
    assert json.loads(cluster("init", "--json", "--log", pg.url)) == {"is_new": False}
    tables = pg.primary.sql("SELECT string_agg(tablename, ' ' ORDER BY tablename) FROM pg_tables WHERE schemaname = 'laplaced'")
    assert tables == "batch book common generation holder key node rate tenant version"
    assert pg.primary.sql("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'laplaced'") == kit.ROLE


def test_tables_of_an_older_version_are_brought_to_the_newest_with_what_is_in_them(pg):
    primary, newest = pg.primary, VERSION
    primary.sql("CREATE DATABASE older OWNER laplaced", "postgres")
    url = pg.url.replace(f"/{kit.DATABASE}", "/older")
    primary.sql(SCHEMAS[0].read_text(), "older", kit.ROLE)
    primary.sql("INSERT INTO laplaced.tenant (name, last, created_at) VALUES ('shop', 7, 1)", "older", kit.ROLE)
    said = cluster("status", "--log", url, expect=1)
    assert f"have version 1, this program knows {newest}" in said and "laplacectl cluster init" in said
    for _ in range(2):
        assert "were there already" in cluster("init", "--log", url)
        assert primary.sql("SELECT string_agg(number::text, ' ' ORDER BY number) FROM laplaced.version", "older") == " ".join(map(str, range(1, newest + 1)))
    assert json.loads(cluster("status", "--log", url, "--json"))["tenants"][0]["name"] == "shop"
    columns = "SELECT string_agg(table_name || '.' || column_name || ' ' || data_type, ',' ORDER BY table_name, column_name) FROM information_schema.columns WHERE table_schema = 'laplaced'"
    assert primary.sql(columns, "older") == primary.sql(columns)


def test_status_shows_standbys_servers_and_tenants(pg):
    pg.primary.sql("INSERT INTO laplaced.node VALUES ('web-1', '9.9', (extract(epoch FROM now()) * 1000)::bigint - 61000)")
    pg.primary.sql("INSERT INTO laplaced.tenant (name, last, created_at) VALUES ('shop', 4711, 0), ('Zoo', 0, 0)")
    pg.primary.sql("INSERT INTO laplaced.tenant (name, last, created_at, deleted_at) VALUES ('gone', 3, 0, 1)")
    said = status(pg)
    assert said["is_acknowledging"] is True and "why" not in said
    assert (said["host"], int(said["port"])) == ("127.0.0.1", pg.primary.port)
    assert str(said["postgresql"]) == pg.primary.sql("SHOW server_version_num")
    assert [(s["name"], s["state"], s["sync"]) for s in said["standbys"]] == [("b", "streaming", "quorum")]
    assert [(s["name"], s["version"]) for s in said["servers"]] == [("web-1", "9.9")]
    assert 61000 <= said["servers"][0]["silent_ms"] < 90000
    assert [(t["name"], t["seq"]) for t in said["tenants"]] == [("Zoo", 0), ("shop", 4711)]
    assert str(said["tenants"][1]["id"]) == pg.primary.sql("SELECT id FROM laplaced.tenant WHERE name = 'shop'")
    text = cluster("status", "--log", pg.url)
    assert "synchronous standbys: 1" in text and "web-1" in text and "line 4711" in text and "gone" not in text


def test_status_writes_nothing(pg):
    before = pg.primary.sql("SELECT count(*), max(xmin::text::bigint) FROM laplaced.node")
    status(pg)
    assert pg.primary.sql("SELECT count(*), max(xmin::text::bigint) FROM laplaced.node") == before


def test_without_a_standby_commits_are_refused_unless_the_database_is_trusted(pg):
    for standby in pg.standbys:
        standby.stop()
    kit.wait_for(lambda: pg.primary.sql("SELECT count(*) FROM pg_stat_replication") == "0")
    said = status(pg, expect=1)
    assert said["is_acknowledging"] is False and "no synchronous standby" in said["why"] and said["standbys"] == []
    assert "REFUSED" in cluster("status", "--log", pg.url, expect=1)
    assert status(pg, "--log-sync", "trusted")["is_acknowledging"] is True
    for standby in pg.standbys:
        standby.start()
    pg.wait_synchronous()
    assert status(pg)["is_acknowledging"] is True


def test_a_role_that_may_not_see_standbys_is_told_so(pg):
    pg.primary.sql(f"REVOKE pg_read_all_stats FROM {kit.ROLE}")
    try:
        assert "hidden" in cluster("status", "--log", pg.url)
        assert status(pg)["standbys"][0]["sync"] == ""
    finally:
        pg.primary.sql(f"GRANT pg_read_all_stats TO {kit.ROLE}")


def test_tables_of_a_newer_version_are_refused(pg):
    pg.primary.sql(f"INSERT INTO laplaced.version VALUES ({VERSION + 1})")
    try:
        assert f"version {VERSION + 1}" in cluster("init", "--log", pg.url, expect=1)
        assert f"version {VERSION + 1}" in status(pg, expect=1)["why"]
    finally:
        pg.primary.sql(f"DELETE FROM laplaced.version WHERE number = {VERSION + 1}")


def test_init_that_fails_half_way_leaves_nothing(pg):
    pg.primary.sql("CREATE DATABASE taken", "postgres")
    pg.primary.sql("CREATE SCHEMA laplaced", "taken")
    url = pg.url.rsplit("/", 1)[0] + "/taken"
    assert "laplaced" in cluster("init", "--log", url, expect=1)
    assert pg.primary.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'laplaced'", "taken") == "0"


def test_the_files_text_is_what_init_runs(pg):
    """A database that an operator made by psql, from all of them in order, is as good."""
    pg.primary.sql(f"CREATE DATABASE by_hand OWNER {kit.ROLE}", "postgres")
    for number, path in enumerate(SCHEMAS, 1):
        pg.primary.sql(path.read_text(), "by_hand", user=kit.ROLE)
        pg.primary.sql(f"INSERT INTO laplaced.version (number) VALUES ({number}) ON CONFLICT DO NOTHING", "by_hand", user=kit.ROLE)
    assert "were there already" in cluster("init", "--log", pg.url.rsplit("/", 1)[0] + "/by_hand")


@pytest.mark.parametrize("args, expect, said", [
    (["status"], 2, "cluster wants --log URL"),
    (["status", "--log", "postgresql://127.0.0.1:9/log"], 1, "refused"),
    (["status", "--log", "postgresql://["], 2, "laplacectl: --log: the address of the shared log cannot be read"),
    (["init", "--log", "postgresql://me:secret@127.0.0.1:9/log"], 2, "--log: a password is not to stand in an option"),
    (["status", "--log", "x=y", "--log-sync", "maybe"], 2, "--log-sync: expected required or trusted, not maybe"),
    (["frobnicate", "--log", "postgresql:///"], 2, "usage: laplacectl cluster")])
def test_what_cannot_be_done_is_said(args, expect, said):
    assert said in cluster(*args, expect=expect, LAPLACED_LOG="")
