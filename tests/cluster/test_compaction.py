"""A log that several servers write is compacted at any of them: all go on with the model that they had, and so does a server that comes later."""
import collections
import json
import random
import threading
import time

import pytest

from servers import Servers, at_once, events_of, log_of, settle, wait_for
from test_erasure import forget_nodes, nobody_has_it, path_of, told_in_dump
import pg
from contract import NDJSON
from harness import Client

pytestmark = pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")


def visit(apis, name, i, api=None):
    api = api or random.choice(apis)
    answer = api.call("POST", "/select", {"user": f"u{i % 9}", "candidates": ["x", "y"], "decision": f"d{i}"}, tenant=name, expect=(200, 503))
    if answer.status == 200 and i % 4:
        api.call("POST", "/reward", {"decision": f"d{i}", "reward": i % 10 / 10}, tenant=name, expect=(200, 503))


def made(apis, name, n=80, **configuration):
    apis[0].put_tenant(name, algorithm="laplaced", **configuration)
    for i in range(n):
        visit(apis, name, i)
    return settle(apis, name)


def begins_with_summary(api, name):
    return api.call("GET", f"/tenants/{name}").json["log"]["summarized"] > 0


@pytest.fixture
def three(database, tmp_path):
    forget_nodes(database)
    servers = Servers(tmp_path, database.url)
    servers.ready()
    yield servers
    servers.close()


def test_a_compaction_at_one_server_is_everybodys(three, database):
    apis, name = three.clients(), "compacted"
    was, _ = made(apis, name, routing={"holdout": {"share": 0.3, "baseline": {"arm": "x"}}})
    answer = apis[1].call("POST", f"/tenants/{name}/compact", {"keep_events": 20})
    assert answer.json["compacted"] and answer.json["lines"] > 0 and "waiting_for" not in answer.json, answer.json
    assert all(begins_with_summary(a, name) for a in apis)
    log, digest = settle(apis, name)
    assert len(log) < len(was) and events_of(log)[0]["type"] == "summary"
    first = events_of(log)[0]["seq"]
    assert database.primary.sql(f"SELECT first || ' ' || kept FROM laplaced.tenant WHERE name = '{name}'") == f"{first} {answer.json['seq'] + 1}"
    fresh = Client(three.add())
    three.ready()
    assert settle([*apis, fresh], name) == (log, digest)
    everybody = [*apis, fresh]
    for i in range(100, 140):
        visit(everybody, name, i)
    settle(everybody, name)
    experiments = wait_for(lambda: [a for a in [[c.call("GET", f"/tenants/{name}/experiment", expect=(200, 503)) for c in everybody]] if all(r.status == 200 for r in a)])
    assert len({r.text for r in experiments[0]}) == 1  # of a server that has never seen what is gone, too
    for api in everybody:
        assert api.call("POST", f"/tenants/{name}/verify").json["equal"]
    assert apis[2].call("POST", f"/tenants/{name}/compact", {"keep_events": 0}).json["compacted"]
    settle(everybody, name)
    apis[0].call("POST", "/reward", {"decision": "d1", "reward": 1}, tenant=name, expect=404)  # gone with its line


def test_a_server_that_was_down_takes_the_summary(three, database):
    apis, name = three.clients(), "away"
    made(apis, name)
    three.servers[2].kill()
    for i in range(100, 130):
        visit(apis[:2], name, i)
    answer = apis[0].call("POST", f"/tenants/{name}/compact", {"keep_events": 5}, expect=(200, 202))
    assert answer.json.get("waiting_for", ["c"]) == ["c"]
    three.servers[2].start()
    three.ready()
    settle(apis, name)
    visit(apis, name, 200, apis[2])
    settle(apis, name)


def test_logs_that_a_server_has_still_are_not_told_to_be_deleted(three, database):
    apis, name = three.clients(), "away-rank"
    made(apis, name)
    three.servers[2].kill()
    for i in range(100, 130):
        visit(apis[:2], name, i)
    answer = apis[0].call("DELETE", "/personalizer/v1.0/logs", tenant=name, expect=202)
    assert answer.json["compacted"] and answer.json["waiting_for"] == ["c"]
    three.servers[2].start()
    three.ready()
    settle(apis, name)


def test_a_user_is_erased_from_a_log_that_was_compacted(three, database):
    apis, name = three.clients(), "erased-behind"
    made(apis, name, 40)
    for i in range(6):
        apis[i % 3].call("POST", "/observe", {"user": "a very recognisable person", "arm": "x", "reward": 1}, tenant=name)
    for i in range(100, 140):
        visit(apis, name, i)
    assert apis[0].call("POST", f"/tenants/{name}/compact", {"keep_events": 3}).json["compacted"]
    assert told_in_dump(database)
    assert apis[1].call("DELETE", path_of(name)).json["erased"]
    assert told_in_dump(database) == []
    nobody_has_it(three)
    settle(apis, name)
    for api in apis:
        assert api.call("POST", f"/tenants/{name}/verify").json["equal"]


def test_compactions_erasures_and_writers_at_once(three, database):
    apis, name, is_over, n = three.clients(), "busy", threading.Event(), collections.Counter()
    made(apis, name, 30)

    def write(k):
        i = 1000 * (k + 1)
        api = Client(three.servers[k])
        while not is_over.is_set():
            visit(apis, name, i, api)
            i += 1

    def compact(k):
        api = Client(three.servers[k])
        while not is_over.is_set():
            answer = api.call("POST", f"/tenants/{name}/compact", {"keep_events": 10}, expect=(200, 202, 503))
            n["compacted"] += answer.status != 503 and answer.json["compacted"]
            time.sleep(0.2)

    def erase():
        api = Client(three.servers[2])
        while not is_over.is_set():
            api.call("POST", "/observe", {"user": "a very recognisable person", "arm": "x", "reward": 1}, tenant=name, expect=(200, 503))
            n["erased"] += api.call("DELETE", path_of(name), expect=(200, 202, 404, 503)).status in (200, 202)
            time.sleep(0.3)
    threads = [threading.Thread(target=f, args=a) for f, a in ((write, (0,)), (write, (1,)), (compact, (0,)), (compact, (1,)), (erase, ()))]
    for t in threads:
        t.start()
    time.sleep(8)
    is_over.set()
    for t in threads:
        t.join(60)
    assert n["compacted"] > 2 and n["erased"] > 1, n
    settle(apis, name)
    for api in apis:
        assert api.call("POST", f"/tenants/{name}/verify").json["equal"]


@pytest.mark.parametrize("point", ["before_shared_summary", "before_shared_compaction", "after_shared_summary", "before_renewal"])
def test_a_server_that_dies_in_a_compaction(three, point):
    apis, name = three.clients(), f"dies-{point}"
    made(apis, name)
    three.servers[0].env = {"LAPLACED_FAILPOINT": f"{point}:1"}
    three.servers[0].restart()
    three.ready()
    try:
        apis[0].call("GET", f"/tenants/{name}")
        apis[0].call("POST", f"/tenants/{name}/compact", {"keep_events": 5}, expect=(200, 202))
    except Exception as e:  # the connection went with it
        print(repr(e)[:100])
    assert wait_for(lambda: three.servers[0].process.poll(), 30, f"the death at {point}") == -9
    visit(apis, name, 500, apis[1])
    three.servers[0].env = {}
    three.servers[0].restart()
    three.ready()
    settle(apis, name)
    assert apis[0].call("POST", f"/tenants/{name}/compact", {"keep_events": 2}, expect=(200, 202)).json["compacted"]
    settle(apis, name)


def test_retention_compacts_at_one_server(three, database):
    apis, name = three.clients(), "kept-short"
    apis[0].put_tenant(name, algorithm="ucb", retention={"events": 200}, reward_window_s=1)
    lines = "".join(json.dumps({"user": f"u{i % 9}", "arm": "xy"[i % 2], "reward": i % 10 / 10}) + "\n" for i in range(500))
    for k in range(4):
        apis[k % 3].call("POST", "/observe", raw=lines, kind=NDJSON, tenant=name)
    time.sleep(1.5)
    apis[0].call("POST", "/observe", raw=lines, kind=NDJSON, tenant=name)
    wait_for(lambda: begins_with_summary(apis[0], name), 60, "a compaction")
    settle(apis, name)
    assert at_once(*[lambda a=a: a.call("POST", f"/tenants/{name}/verify").json["equal"] for a in apis]) == [True] * 3
    assert log_of(apis[1], name) == log_of(apis[2], name)
