"""A shared log that has lost lines, as after a backup was restored: servers say so by name, and an operator puts the lines back or lets them go."""
import hashlib
import json

import pytest

from servers import QUICK, Servers, ctl, events_of, log_of, settle, wait_for
import pg
from harness import Client

pytestmark = pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")


def repair(server, *args, expect=0):
    return ctl("cluster", "repair", *args, expect=expect, LAPLACED_URL=server.url if server else "")


def lines(text):
    return text.splitlines()


def lose(database, name, n):
    """The last n batches of a tenant's log, as if they had never come."""
    primary = database.primary
    id = primary.sql(f"SELECT id FROM laplaced.tenant WHERE name = '{name}' AND deleted_at IS NULL")
    last = primary.sql(f"SELECT seq FROM laplaced.batch WHERE tenant = {id} ORDER BY seq DESC OFFSET {n} LIMIT 1")
    primary.sql(f"DELETE FROM laplaced.batch WHERE tenant = {id} AND seq > {last}")
    primary.sql(f"UPDATE laplaced.tenant SET last = {last}, hash = (SELECT hash FROM laplaced.batch WHERE tenant = {id} AND seq = {last}) WHERE id = {id}")
    return int(last)


def observe(api, name, i, expect=200):
    return api.call("POST", "/observe", {"user": f"u{i % 7}", "arm": "xy"[i % 2], "reward": i % 10 / 10}, tenant=name, expect=expect)


def made(apis, name, n=30):
    apis[0].put_tenant(name, algorithm="laplaced")
    for i in range(n):
        observe(apis[i % len(apis)], name, i)
    return settle(apis, name)


def refused(api, name):
    detail = wait_for(lambda: (a := observe(api, name, 1, expect=(200, 503))).status == 503 and a, what="a refusal").json["detail"]
    assert f"tenant '{name}'" in detail and "laplacectl cluster repair" in detail and "nothing was recorded" in detail, detail
    return detail


@pytest.fixture
def two(database, tmp_path):
    servers = Servers(tmp_path, database.url, n=2)
    servers.ready()
    yield servers
    servers.close()


def test_lines_that_were_lost_are_told_and_put_back_by_whoever_is_asked(two, database):
    (a, b), name = two.clients(), "lost"
    was, digest = made((a, b), name)
    last = lose(database, name, 6)
    for api in (a, b):
        assert f"at line {len(lines(was))} the shared log has ended already" in refused(api, name)
        assert api.call("GET", f"/tenants/{name}/stats").status == 200  # reading goes on
    said = json.loads(repair(b.server, name, "--push"))
    assert said == {"action": "push", "lines": len(lines(was)) - last, "opens": True}
    assert settle((a, b), name) == (was, digest)
    for api in (a, b):
        assert api.call("POST", f"/tenants/{name}/verify").json["equal"]
        assert "nothing to put back" in repair(api.server, name, "--push", expect=1)
        assert "nothing to rewind" in repair(api.server, name, "--rewind", expect=1)
    for i in range(10):
        observe((a, b)[i % 2], name, i)
    fresh = Client(two.add())
    two.ready()
    assert log_of(a, name).startswith(was)
    settle((a, b, fresh), name)


def test_lines_that_are_let_go_are_kept_in_a_file(two, database):
    (a, b), name = two.clients(), "let-go"
    was, _ = made((a, b), name)
    last = lose(database, name, 5)
    refused(a, name)
    for api in (a, b):
        said = json.loads(repair(api.server, name, "--rewind"))
        assert said == {"action": "rewind", "lines": len(lines(was)) - last, "file": f"{name}.lost-{last + 1}-{len(lines(was))}", "opens": True}
        kept = api.server.data / "tenants" / said["file"]
        assert lines(kept.read_bytes()) == lines(was)[last:] and kept.stat().st_mode & 0o077 == 0
    log, _ = settle((a, b), name)
    assert lines(log) == lines(was)[:last]
    observe(a, name, 3)
    settle((a, b), name)


def test_a_log_that_went_on_otherwise_takes_no_lines_back(two, database):
    """b was away and writes where lines were lost: what a has is a branch of its own."""
    (a, b), name = two.clients(), "branch"
    before, _ = made((a, b), name)
    b.server.kill()
    for i in range(5):
        observe(a, name, i)
    primary = database.primary
    n = int(primary.sql(f"SELECT count(*) FROM laplaced.batch WHERE seq > {len(lines(before))} AND tenant = (SELECT id FROM laplaced.tenant WHERE name = '{name}')"))
    assert lose(database, name, n) == len(lines(before))
    b.server.start()
    two.ready()
    for i in range(9):
        observe(b, name, 7 + i)
    refused(a, name)
    assert f"another line {len(lines(before)) + 1}" in repair(a.server, name, "--push", expect=1)
    assert json.loads(repair(a.server, name, "--rewind"))["opens"]
    log, _ = settle((a, b), name)
    assert log.startswith(before) and len(lines(log)) > len(lines(before)) + 8


def test_a_tenant_that_the_log_has_lost_altogether_is_put_back_whole(two, database):
    (a, b), name = two.clients(), "vanished"
    was, digest = made((a, b), name)
    primary = database.primary
    id = primary.sql(f"SELECT id FROM laplaced.tenant WHERE name = '{name}'")
    primary.sql(f"DELETE FROM laplaced.batch WHERE tenant = {id}")
    primary.sql(f"DELETE FROM laplaced.tenant WHERE id = {id}")
    wait_for(lambda: "has lost it" in a.server.log(), what="a word of it")
    refused(a, name)
    assert json.loads(repair(a.server, name, "--push"))["lines"] == len(lines(was))
    wait_for(lambda: a.call("GET", f"/tenants/{name}/stats", expect=(200, 404, 500, 503)).status == 200)
    b.server.restart()  # its copy is of a number that is no more
    two.ready()
    assert settle((a, b), name) == (was, digest)
    assert [p.name for p in (b.server.data / "tenants").glob(f"{name}.db.copy-*")] == [f"{name}.db.copy-{id}"]
    observe(b, name, 1)
    settle((a, b), name)


def test_it_is_done_in_the_folder_of_a_stopped_server_as_well(two, database):
    (a, b), name = two.clients(), "stopped"
    was, digest = made((a, b), name)
    lose(database, name, 4)
    files = ("--log", database.url, "--data", str(a.server.data))
    assert repair(None, name, "--push", *files, expect=1).strip() != ""  # a server has the folder
    assert a.server.terminate() == 0
    assert "no such tenant" in repair(None, "nobodys", "--push", *files, expect=1)
    assert "are back in the shared log" in repair(None, name, "--push", *files)
    assert "nothing to rewind" in repair(None, name, "--rewind", *files, expect=1)
    a.server.start()
    two.ready()
    assert settle((a, b), name) == (was, digest)


def test_a_server_that_dies_before_the_lines_are_there_has_changed_nothing(two, database):
    (a, b), name = two.clients(), "dies"
    was, digest = made((a, b), name)
    last = lose(database, name, 6)
    for point, action in (("before_shared_push", "--push"), ("before_rewind", "--rewind")):
        a.server.env = {"LAPLACED_FAILPOINT": f"{point}:1"}
        a.server.restart()
        two.ready()
        repair(a.server, name, action, expect=1)
        assert wait_for(lambda: a.server.process.poll(), what=f"the death at {point}") == -9
        assert database.primary.sql(f"SELECT last FROM laplaced.tenant WHERE name = '{name}'") == str(last)
    a.server.env = {}
    a.server.restart()
    two.ready()
    assert json.loads(repair(a.server, name, "--push"))["lines"] == len(lines(was)) - last
    assert settle((a, b), name) == (was, digest)


# ---- a line that no fold takes

def spoil(database, name, log):
    """Two observations at the log's end, as a program of another version may have written them: the first has a reward that nobody can learn. Its number."""
    primary = database.primary
    id, last, hash = primary.sql(f"SELECT id, last, encode(hash, 'hex') FROM laplaced.tenant WHERE name = '{name}' AND deleted_at IS NULL").split("|")
    first, hash = int(last) + 1, bytes.fromhex(hash)
    for i, reward in enumerate((1.5e308, 0.25)):
        line = {**next(e for e in reversed(events_of(log)) if e["type"] == "observed"), "seq": first + i, "reward": reward}
        body = (json.dumps(line, separators=(",", ":")) + "\n").encode()
        hash = hashlib.blake2b(hash + body, digest_size=16).digest()
        primary.sql(f"INSERT INTO laplaced.batch (tenant, seq, n, at, node, nonce, hash, body) SELECT {id}, {first + i}, 1, at, 'older', {first + i}, '\\x{hash.hex()}', "
                    f"'\\x{body.hex()}' FROM laplaced.batch WHERE tenant = {id} ORDER BY seq DESC LIMIT 1")
        primary.sql(f"UPDATE laplaced.tenant SET last = {first + i}, hash = '\\x{hash.hex()}' WHERE id = {id}")
    return first


def rewrite_elsewhere(primary, name):
    """What a server leaves that has rewritten lines of the tenant, as an erasure does."""
    primary.sql("UPDATE laplaced.generation SET number = number + 1")
    primary.sql(f"UPDATE laplaced.tenant SET (generation, rewritten) = (SELECT number, number FROM laplaced.generation) WHERE name = '{name}'")


def rewrite_unreadably(database, name, line):
    """The line gets a type that no server here knows, as a server of another version may rewrite it. The number of the rewriting."""
    primary = database.primary
    id = primary.sql(f"SELECT id FROM laplaced.tenant WHERE name = '{name}' AND deleted_at IS NULL")
    hash = bytes.fromhex(primary.sql(f"SELECT encode(hash, 'hex') FROM laplaced.batch WHERE tenant = {id} AND seq < {line} ORDER BY seq DESC LIMIT 1"))
    rows = primary.sql(f"SELECT seq, encode(body, 'hex') FROM laplaced.batch WHERE tenant = {id} AND seq >= {line} ORDER BY seq").split()
    script = ["UPDATE laplaced.generation SET number = number + 1"]
    for seq, body in (row.split("|") for row in rows):
        body = bytes.fromhex(body)
        if int(seq) == line:
            assert b'"observed"' in body
            body = body.replace(b'"observed"', b'"obserfed"')
        hash = hashlib.blake2b(hash + body, digest_size=16).digest()
        script.append(f"UPDATE laplaced.batch SET body = '\\x{body.hex()}', hash = '\\x{hash.hex()}' WHERE tenant = {id} AND seq = {seq}")
    script.append(f"UPDATE laplaced.tenant SET hash = '\\x{hash.hex()}', (generation, rewritten) = (SELECT number, number FROM laplaced.generation) WHERE id = {id}")
    primary.sql("BEGIN; " + "; ".join(script) + "; COMMIT")
    return int(primary.sql("SELECT number FROM laplaced.generation"))


def is_ready(api):
    return api.call("GET", "/readyz", expect=(200, 503)).status == 200


def stuck(api, name, line):
    detail = wait_for(lambda: (a := observe(api, name, 1, expect=(200, 503))).status == 503 and a, what="a refusal").json["detail"]
    assert f"laplacectl repair {name} --drop {line}" in detail and f"line {line} of the shared log is refused: expected at most 1e+30" in detail, detail


def is_dropped(log, was, line):
    """The log is what it was, but for that line."""
    events = {e["seq"]: e for e in events_of(log)}
    assert events[line]["type"] == "redacted" and events[line]["dropped"].startswith(f"observed: event {line} was refused"), events[line]
    assert log.startswith(was) and events[line + 1]["reward"] == 0.25


def drop(server, name, line, expect=0):
    return ctl("repair", name, "--drop", str(line), expect=expect, LAPLACED_URL=server.url)


@pytest.fixture
def hasty(database, tmp_path):
    """Three servers that are not ready soon behind the log."""
    servers = Servers(tmp_path, database.url, args=(*QUICK, "--max-lag", "300"))
    servers.ready()
    yield servers
    servers.close()


def test_a_line_that_no_fold_takes_is_dropped_at_any_server(hasty, database):
    """One server is away meanwhile, and one dies in the transaction and behind it. The tenant that is held up keeps no server from being ready."""
    (a, b, c), name = hasty.clients(), "faulty"
    was, _ = made((a, b, c), name)
    c.server.kill()
    line = spoil(database, name, was)
    for api in (a, b):
        stuck(api, name, line)
        wait_for(lambda: api.call("GET", f"/tenants/{name}").json["log"]["lag_seconds"] > 0.5, what="a lag")
        assert is_ready(api) and api.call("POST", "/select", {"user": "u1", "candidates": ["x", "y"], "dry_run": True}, tenant=name).status == 200
    a.put_tenant("other-than-faulty", algorithm="ucb")
    observe(b, "other-than-faulty", 1)
    assert "another one" in drop(a.server, name, line + 1, expect=1)
    for point, is_there in (("before_shared_rewrite", False), ("after_shared_drop", True)):
        a.server.env = {"LAPLACED_FAILPOINT": f"{point}:1"}
        a.server.restart()
        hasty.servers.remove(c.server)
        hasty.ready()
        hasty.servers.append(c.server)
        drop(a.server, name, line, expect=1)
        assert wait_for(lambda: a.server.process.poll(), what=f"the death at {point}") == -9
        body = database.primary.sql(f"SELECT convert_from(body, 'UTF8') FROM laplaced.batch WHERE seq = {line} AND tenant = (SELECT id FROM laplaced.tenant WHERE name = '{name}')")
        assert ("redacted" in body) == is_there, body
        if not is_there:
            stuck(b, name, line)
    a.server.env = {}
    a.server.restart()
    c.server.start()
    hasty.ready()
    log, _ = settle((a, b, c), name)
    is_dropped(log, was, line)
    assert json.loads(drop(b.server, name, line)) == {"action": "drop", "seq": line, "fault": events_of(log)[line - 1]["dropped"], "opens": True}  # as after an answer that was lost
    assert "nothing to repair" in drop(b.server, name, line - 1, expect=1)
    for i in range(10):
        observe((a, b, c)[i % 3], name, i)
    settle((a, b, c), name)
    assert all(api.call("POST", f"/tenants/{name}/verify").json["equal"] for api in (a, b, c))
    assert "BROKEN" not in ctl("verify", name, "--log", database.url)


def test_a_server_that_cannot_open_the_tenant_serves_what_was_before_the_line(hasty, database):
    """Its copy has the line, which is so where lines were rewritten since, or another version has followed it. Read-only is its own matter, and ends by itself when any server drops the line."""
    (a, b, c), name = hasty.clients(), "unreadable"
    was, _ = made((a, b, c), name)
    line = spoil(database, name, was)
    stuck(b, name, line)
    a.server.kill()
    primary = database.primary
    rewrite_elsewhere(primary, name)
    a.server.start()
    wait_for(lambda: is_ready(a))
    assert f"event {line} was refused" in wait_for(lambda: (r := a.call("GET", f"/tenants/{name}", expect=(500, 503))).status == 500 and r).json["detail"]
    said = json.loads(ctl("repair", name, "--read-only", str(line), LAPLACED_URL=a.server.url))
    assert said["opens"] and said["seq"] == line and f"event {line} was refused" in said["fault"]
    assert a.call("GET", f"/tenants/{name}").json["read_only"]["seq"] == line
    assert "read-only" in observe(a, name, 1, expect=503).json["detail"]
    assert a.call("POST", "/select", {"user": "u1", "candidates": ["x", "y"], "dry_run": True}, tenant=name).status == 200
    a.server.restart()
    wait_for(lambda: is_ready(a))
    assert a.call("GET", f"/tenants/{name}").json["read_only"]["seq"] == line
    for action in ("--lift", "--drop"):  # in a folder it is a copy's matter alone
        assert a.server.terminate() == 0
        said = ctl("repair", name, *((action,) if action == "--lift" else (action, str(line))), "--data", str(a.server.data), expect=int(action == "--drop"))
        assert action == "--lift" or "copy of a shared log" in said
        a.server.start()
        wait_for(lambda: is_ready(a))
    assert a.call("GET", f"/tenants/{name}", expect=500)
    ctl("repair", name, "--read-only", str(line), LAPLACED_URL=a.server.url)
    drop(b.server, name, line)
    wait_for(lambda: "read_only" not in a.call("GET", f"/tenants/{name}").json, what="the end of read-only")
    log, _ = settle((a, b, c), name)
    is_dropped(log, was, line)
    for i in range(9):
        observe((a, b, c)[i % 3], name, i)
    settle((a, b, c), name)
    hasty.ready()


def test_a_user_is_erased_at_a_server_that_is_read_only_too(hasty, database):
    """An erasure elsewhere does not wait for an operator. The read-only server has no fold of the line, and goes on without the user."""
    (a, b, c), name = hasty.clients(), "erased-meanwhile"
    was, _ = made((a, b, c), name)
    line = spoil(database, name, was)
    stuck(b, name, line)
    a.server.kill()
    primary = database.primary
    rewrite_elsewhere(primary, name)
    a.server.start()
    wait_for(lambda: is_ready(a))
    wait_for(lambda: a.call("GET", f"/tenants/{name}", expect=(500, 503)).status == 500)
    ctl("repair", name, "--read-only", str(line), LAPLACED_URL=a.server.url)
    assert a.call("GET", f"/tenants/{name}").json["read_only"]["seq"] == line
    rewrite_elsewhere(primary, name)  # by a server that takes the line
    number = int(primary.sql("SELECT number FROM laplaced.generation"))
    wait_for(lambda: int(primary.sql("SELECT generation FROM laplaced.node WHERE name = 'a'")) == number, what="the word that nothing old is left")
    assert a.call("GET", f"/tenants/{name}").json["read_only"]["seq"] == line
    drop(c.server, name, line)
    settle((a, b, c), name)


def test_a_line_that_cannot_be_read_leaves_a_server_read_only_with_its_copy(hasty, database):
    """The log is rewritten with a line that no copy takes: what a read-only server has stays, and so does its mark. Its word that nothing old is left comes with the drop."""
    (a, b, c), name = hasty.clients(), "unread"
    was, _ = made((a, b, c), name)
    line = spoil(database, name, was)
    stuck(b, name, line)
    a.server.kill()
    primary = database.primary
    rewrite_elsewhere(primary, name)
    a.server.start()
    wait_for(lambda: is_ready(a))
    wait_for(lambda: a.call("GET", f"/tenants/{name}", expect=(500, 503)).status == 500)
    ctl("repair", name, "--read-only", str(line), LAPLACED_URL=a.server.url)
    number = rewrite_unreadably(database, name, line)
    wait_for(lambda: "the copy is still the old one" in a.server.log(), what="a try to renew the copy")
    for _ in range(2):
        assert wait_for(lambda: (r := a.call("GET", f"/tenants/{name}", expect=(200, 503))).status == 200 and r).json["read_only"]["seq"] == line
        assert a.call("POST", "/select", {"user": "u1", "candidates": ["x", "y"], "dry_run": True}, tenant=name).status == 200
        assert (a.server.data / "tenants" / f"{name}.readonly").exists()
        assert int(primary.sql("SELECT generation FROM laplaced.node WHERE name = 'a'")) < number
        a.server.restart()
        wait_for(lambda: is_ready(a))
    detail = wait_for(lambda: (r := observe(b, name, 1, expect=(200, 503))).status == 503 and "cannot be read" in r.json["detail"] and r).json["detail"]
    assert f"laplacectl repair {name} --drop {line}" in detail, detail
    drop(c.server, name, line)
    wait_for(lambda: "read_only" not in a.call("GET", f"/tenants/{name}", expect=(200, 503)).json, what="the end of read-only")
    settle((a, b, c), name)
    wait_for(lambda: int(primary.sql("SELECT min(generation) FROM laplaced.node WHERE name IN ('a', 'b', 'c')")) > number, what="the word that nothing old is left")


def test_what_is_not_the_shared_logs_is_refused(two):
    a, _ = two.clients()
    made((a,), "other", 3)
    assert "nothing to repair" in a.call("POST", "/tenants/other/repair", {"action": "drop", "seq": 3}, expect=409).json["detail"]
    assert a.call("POST", "/tenants/other/repair", {"action": "lift"}).json == {"action": "lift", "opens": True}
    a.call("POST", "/tenants/nobodys/repair", {"action": "push"}, expect=404)
    repair(a.server, "other", expect=2)
    repair(a.server, "other", "--push", "--rewind", expect=2)
    repair(a.server, "--push", expect=2)
    assert events_of(log_of(a, "other"))
