"""Users who are erased from a log that several servers write: nothing is left in any file of theirs, nor in the database, whoever dies meanwhile."""
import collections
import itertools
import pathlib
import random
import threading
import time

import pytest

from servers import QUICK, Servers, events_of, settle, wait_for
from test_nodes import database  # noqa: F401 (a fixture)
from writers import Writer, at_work, judged
import pg
from harness import Client
from ledger import Ledger

pytestmark = pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")
SECRET = "a very recognisable person"
POINTS = ("before_shared_erasure", "before_shared_rewrite", "after_shared_erasure", "mid_renewal", "before_renewal")


def path_of(name, user=SECRET):
    return f"/tenants/{name}/users/{user.replace(' ', '%20')}"


def act(api, name, i, user=SECRET):
    """A decision of theirs with its reward, and an observation."""
    api.call("POST", "/select", {"user": user, "candidates": ["x", "y"], "decision": f"secret-{i}"}, tenant=name)
    api.reward(f"secret-{i}", 1, tenant=name)
    api.call("POST", "/observe", {"user": user, "arm": "y", "reward": 0.5, "id": f"secret-o{i}"}, tenant=name)


def told_in(folder):
    return [p.name for p in pathlib.Path(folder).rglob("*") if p.is_file() and any(w in p.read_bytes() for w in (b"recognisable", b"secret-"))]


def told_in_dump(database):
    pg.make_way(database.folder)  # a test's own folder closes those above it
    primary = database.primary
    dump = pg.run("pg_dump", "-h", primary.home, "-p", primary.port, "-U", "postgres", pg.DATABASE)
    return [w for w in ("recognisable", "secret-") if w.encode().hex() in dump or w in dump]


def told_in_pages(database):
    """What the data folder has once dead rows are gone and a checkpoint has written the pages. WAL ages out by itself."""
    database.primary.sql("VACUUM FULL laplaced.batch")
    database.primary.sql("CHECKPOINT")
    return told_in(database.primary.data / "base")


def nobody_has_it(servers):
    """Files are scrubbed behind the answer where somebody reads them just then."""
    for server in servers.servers:
        wait_for(lambda: told_in(server.folder) == [] or None, what=f"{server.folder.name} without {told_in(server.folder)}")


def erase(api, name, user=SECRET):
    """Until nobody has them: the answer that said so."""
    while True:
        answer = api.call("DELETE", path_of(name, user), expect=(200, 202, 404, 503))
        if answer.status in (200, 404):
            return answer


def forget_nodes(database):
    """Those of other tests were heard of just now."""
    pg.make_way(database.folder)
    database.primary.sql("DELETE FROM laplaced.node")


@pytest.fixture
def three(database, tmp_path):  # noqa: F811
    forget_nodes(database)
    servers = Servers(tmp_path, database.url)
    servers.ready()
    yield servers
    servers.close()


def test_a_user_is_gone_everywhere_when_it_is_answered(three, database):  # noqa: F811
    name, apis = "erased", three.clients()
    apis[0].put_tenant(name, algorithm="laplaced")
    for i in range(30):
        act(apis[i % 3], name, i)
        apis[(i + 1) % 3].call("POST", "/observe", {"user": f"u{i % 7}", "arm": "xy"[i % 2], "reward": i / 30}, tenant=name)
    settle(apis, name)
    assert told_in_dump(database) and all(told_in(s.folder) for s in three.servers)
    answer = apis[1].call("DELETE", path_of(name))
    assert answer.json["erased"] and answer.json["events"] == 90 and "waiting_for" not in answer.json
    assert told_in_dump(database) == []
    for server in three.servers:
        assert told_in(server.folder) == []
    log, digest = settle(apis, name)
    for api in apis:
        assert api.call("POST", f"/tenants/{name}/verify").json["equal"]
        api.call("DELETE", path_of(name), expect=404)
        assert api.call("POST", "/reward", {"decision": "secret-3", "reward": 1}, tenant=name, expect=404)
    assert collections.Counter(e["type"] for e in events_of(log))["redacted"] >= 90
    fresh = Client(three.add())
    three.ready()
    assert settle([*apis, fresh], name) == (log, digest)
    assert told_in_pages(database) == []
    for i in range(5):  # and their id is a stranger's
        act(apis[i % 3], name, f"again-{i}")
    settle([*apis, fresh], name)
    assert apis[0].call("DELETE", path_of(name)).json["events"] == 15
    assert told_in_dump(database) == []
    assert "laplaced_generation_lag 0" in apis[2].call("GET", "/metrics").text


def test_the_model_is_that_of_tenants_that_never_had_them(three):
    apis = three.clients()
    for name in ("with", "without"):
        apis[0].put_tenant(name, algorithm="laplaced")
        apis[0].call("PUT", f"/tenants/{name}/graph", {"edges": [["u1", "u2", 1], ["u3", "zed", 1]]})
        for i in range(60):
            if name == "with" and i % 4 == 0:
                apis[i % 3].call("POST", "/observe", {"user": SECRET, "arm": "x", "reward": 1}, tenant=name)
            apis[i % 3].call("POST", "/observe", {"user": f"u{i % 7}", "arm": "xy"[i % 2], "reward": i / 60}, tenant=name)
    apis[1].call("DELETE", path_of("with"))
    apis[2].call("DELETE", path_of("without", "u5"))
    apis[2].call("DELETE", path_of("with", "u5"))
    assert {a.model(n)["content_digest"] for a in apis for n in ("with", "without")} == {apis[0].model("with")["content_digest"]}


def test_two_servers_erase_while_all_write(three, database):  # noqa: F811
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    name, apis = f"busy-{seed}", three.clients()
    apis[0].put_tenant(name, algorithm="laplaced")
    ledger = Ledger()
    writers = [Writer(i, seed, ledger, name) for i in range(3)]
    n_erased = itertools.count()

    def work(api, user, is_over):
        for i in itertools.count():
            if is_over.is_set():
                return
            act(api, name, f"{user[-1]}{i}", user)
            erase(api, name, user)
            next(n_erased)
    is_over = threading.Event()
    with at_work(writers, three):
        threads = [threading.Thread(target=work, args=(Client(three.servers[k]), f"{SECRET} {k}", is_over)) for k in range(2)]
        for t in threads:
            t.start()
        time.sleep(8)
        is_over.set()
        for t in threads:
            t.join(60)
    assert next(n_erased) > 4
    log, _ = settle(apis, name)
    _, faults = judged(ledger, log)
    assert faults == [], f"seed {seed}: {faults[:5]}"
    assert [s for w in writers for s in w.surprises] == []
    assert [e for e in events_of(log) if "recognisable" in str(e) or "secret-" in str(e)] == []
    assert told_in_dump(database) == []
    nobody_has_it(three)


def test_a_server_that_was_down_or_had_it_closed_is_named_or_renewed(three, database):  # noqa: F811
    name, (a, b, c) = "away", three.clients()
    a.put_tenant(name, algorithm="laplaced")
    for i in range(12):
        act((a, b, c)[i % 3], name, i)
    settle((a, b, c), name)
    three.servers[2].kill()
    b.server.restart()  # has the tenant, and has not opened it
    wait_for(lambda: b.call("GET", "/readyz", expect=(200, 503)).status == 200)
    first = a.call("DELETE", path_of(name), expect=202)  # c was heard of just now
    assert first.json["waiting_for"] == ["c"], first.json
    assert told_in_dump(database) == [] and told_in(three.servers[2].folder) != []
    assert told_in(three.servers[0].folder) == told_in(three.servers[1].folder) == []
    three.servers[2].start()
    wait_for(lambda: c.call("GET", "/readyz", expect=(200, 503)).status == 200)
    nobody_has_it(three)
    settle((a, b, c), name)
    assert a.call("DELETE", path_of(name), expect=404)


@pytest.mark.parametrize("point", POINTS)
def test_a_server_that_dies_in_an_erasure(database, tmp_path, point):  # noqa: F811
    """The one that erases, or another that reads it: the user is gone, or is as before and goes with the next call."""
    forget_nodes(database)
    servers, name = Servers(tmp_path, database.url, n=2), f"dies-{point}"
    alive, mortal_one = servers.servers
    try:
        servers.ready()
        a, b = servers.clients()
        a.put_tenant(name, algorithm="laplaced")
        mortal_one.env = {"LAPLACED_FAILPOINT": f"{point}:1"}
        mortal_one.restart()
        for i in range(10):
            act((a, b)[i % 2], name, i)
        settle((a, b), name)
        asked = a if "renewal" in point else b
        try:
            asked.call("DELETE", path_of(name), expect=(200, 202))
        except Exception as e:  # the connection went with it
            print(repr(e)[:100])
        wait_for(lambda: mortal_one.process.poll() is not None, 30, f"the death at {point}")
        a.call("POST", "/observe", {"user": "u", "arm": "x", "reward": 1}, tenant=name)  # the other one goes on
        mortal_one.env = {}
        mortal_one.restart()
        servers.ready()
        a, b = servers.clients()
        erase(a, name)
        assert told_in_dump(database) == []
        nobody_has_it(servers)
        settle((a, b), name)
        for api in (a, b):
            assert api.call("POST", f"/tenants/{name}/verify").json["equal"]
    finally:
        servers.close()


def test_the_primary_dies_while_users_are_erased(mortal, tmp_path):  # noqa: F811
    servers, name = Servers(tmp_path, mortal.url, n=2, args=QUICK), "failing-over"
    try:
        servers.ready()
        a, b = servers.clients()
        a.put_tenant(name, algorithm="laplaced")
        is_over = threading.Event()

        def work(k):
            for i in itertools.count():
                user = f"{SECRET} {k}-{i}"
                if is_over.is_set():
                    return
                (a, b)[k].call("POST", "/observe", {"user": user, "arm": "x", "reward": 1, "id": f"secret-{k}-{i}"}, tenant=name, expect=(200, 503))
                (a, b)[k].call("DELETE", path_of(name, user), expect=(200, 202, 404, 503))
        threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
        for t in threads:
            t.start()
        time.sleep(2)
        mortal.kill_primary()
        time.sleep(0.5)
        mortal.promote()
        mortal.rejoin()
        time.sleep(2)
        is_over.set()
        for t in threads:
            t.join(60)
        servers.ready()
        users = {e["user"] for e in events_of(settle((a, b), name)[0]) if SECRET in e.get("user", "")}
        for user in users:
            erase(a, name, user)
        assert told_in_dump(mortal) == []
        nobody_has_it(servers)
        settle((a, b), name)
        assert a.call("POST", f"/tenants/{name}/verify").json["equal"]
    finally:
        servers.close()
