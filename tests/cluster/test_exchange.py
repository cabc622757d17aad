"""A tenant whose place another takes (`PUT /personalizer/{version}/model`), where several servers share a log: for all of them, in one commit."""
import concurrent.futures
import json
import random

import pytest
import requests

import pg
from harness import Client, Server
from servers import Servers, at_once, ctl, events_of, log_of, settle, wait_for

pytestmark = pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")
OCTETS = "application/octet-stream"
MODEL = "/personalizer/v1.1-preview.3/model"


@pytest.fixture
def three_own(own, tmp_path):
    servers = Servers(tmp_path, own.url)
    servers.ready()
    yield servers
    servers.close()


def learn(api, name, seed, n=60):
    api.put_tenant(name, algorithm="laplaced", seed=seed)
    api.call("POST", "/observe", [{"user": f"u{i % 7}", "arm": "vwxyz"[i % (3 + seed % 3)], "reward": (i * seed) % 11 / 10} for i in range(n)], kind="application/x-ndjson", tenant=name)


def file_of(api, name):
    """A model's file, the lines of its log and its digest."""
    return api.call("GET", MODEL, tenant=name).content, api.call("GET", f"/tenants/{name}/export").content, api.digest(name)


def put(api, name, body, expect=204):
    return api.call("PUT", MODEL, raw=body, kind=OCTETS, tenant=name, expect=expect)


def rows(database, name="shop"):
    """How many there are of it that were not deleted, or of nobody's name."""
    return database.primary.sql(f"SELECT count(*) FILTER (WHERE name = '{name}'), count(*) FILTER (WHERE name LIKE '.%') FROM laplaced.tenant WHERE deleted_at IS NULL")


class Asking:
    """Somebody with a key of the tenant's at each server, all the time: what was answered."""

    def __init__(self, urls, key, name="shop"):
        self.urls, self.key, self.name, self.is_over, self.told = urls, key, name, False, []
        self.pool = concurrent.futures.ThreadPoolExecutor(len(urls))

    def ask(self, url):
        with requests.Session() as session:
            while not self.is_over:
                i = random.randrange(10**9)
                told = session.post(f"{url}/observe", json={"user": f"u{i % 7}", "arm": "v", "reward": 0.5, "id": f"o{i}"}, headers={"Authorization": f"Bearer {self.key}", "Laplaced-Tenant": self.name}, timeout=60)
                self.told.append((told.status_code, told.text[:300]))

    def __enter__(self):
        self.jobs = [self.pool.submit(self.ask, url) for url in self.urls]
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.pool.shutdown()
        for job in self.jobs:
            job.result()


def test_a_model_takes_anothers_place_at_all_servers_with_its_keys_and_its_limits(three_own):
    a, b, c = three_own.clients()
    learn(a, "shop", 3)
    learn(b, "from", 8)
    settle((a, b, c), "from")
    body, lines, digest = file_of(c, "from")
    root = a.call("POST", "/keys", {"roles": ["admin"]}, expect=201).json["key"]
    apis = [Client(s, root) for s in three_own.servers]
    for api in apis:
        wait_for(lambda: api.call("GET", "/keys", expect=(200, 401)).status == 200)
    key = apis[0].call("POST", "/tenants/shop/keys", {"roles": ["decide"]}, expect=201).json["key"]
    apis[1].call("PUT", "/tenants/shop/limits", {"rate": 100000, "burst": 70000})
    limits = apis[1].call("GET", "/tenants/shop/limits").json
    for url in [s.url for s in three_own.servers]:
        wait_for(lambda: requests.post(f"{url}/observe", json={"user": "u", "arm": "v", "reward": 1}, headers={"Authorization": f"Bearer {key}"}, timeout=60).status_code == 200)
    with Asking([s.url for s in three_own.servers], key) as asking:
        for i in range(6):
            wait_for(lambda: len(asking.told) > 40 * (i + 1), what="traffic")
            put(apis[i % 3], "shop", body)
            assert log_of(apis[i % 3], "shop").startswith(lines)  # who was asked has it at once
        n = len(asking.told)
        wait_for(lambda: len(asking.told) > n + 40, what="traffic behind it")
    assert {status for status, _ in asking.told} <= {200, 503}, [t for t in asking.told if t[0] not in (200, 503)][:3]
    assert all("ask again" in text or "nothing was recorded" in text for status, text in asking.told if status == 503), [t for t in asking.told if t[0] == 503][:3]
    log, _ = settle(apis, "shop")
    assert log.startswith(lines) and len(log) > len(lines)
    for api in apis:
        assert {k: v for k, v in api.call("GET", "/tenants/shop/limits").json.items() if k in ("rate", "burst")} == {k: v for k, v in limits.items() if k in ("rate", "burst")}
        assert api.verify("shop")["equal"]
    put(apis[0], "shop", body)
    assert settle(apis, "shop") == (lines, digest)
    assert not [p.name for s in three_own.servers for p in (s.data / "tenants").glob("shop.db.*") if "copy" not in p.name and p.suffix == ".deleted"]


def test_a_server_that_was_away_has_the_new_one_when_it_comes(three_own, own):
    a, b, c = three_own.clients()
    for name, seed in (("shop", 3), ("from", 8)):
        learn(a, name, seed)
        settle((a, b, c), name)
    body, lines, digest = file_of(a, "from")
    c.server.kill()
    put(b, "shop", body)
    assert settle((a, b), "shop") == (lines, digest) and rows(own) == "1|0"
    c.server.start()
    three_own.ready()
    wait_for(lambda: c.call("GET", "/tenants/shop", expect=(200, 404, 503)).status == 200)
    assert settle((a, b, c), "shop") == (lines, digest)
    assert "BROKEN" not in ctl("verify", "--log", own.url)
    put(a, "nobodys", body, expect=404)


def test_a_server_that_dies_leaves_the_one_or_the_other(three_own, own):
    a, b, c = three_own.clients()
    for name, seed in (("shop", 3), ("from", 8)):
        learn(a, name, seed)
        settle((a, b, c), name)
    was = settle((a, b, c), "shop")
    body, lines, digest = file_of(a, "from")
    for point, want in (("mid_shared_send", was), ("before_exchange", was), ("after_exchange", (lines, digest))):
        a.server.env = {"LAPLACED_FAILPOINT": f"{point}:1"}
        a.server.restart()
        three_own.ready()
        with pytest.raises(requests.RequestException):
            put(a, "shop", body)
        assert wait_for(lambda: a.server.process.poll(), what=f"the death at {point}") == -9
        wait_for(lambda: rows(own) == "1|0", what="the end of its session")
        assert settle((b, c), "shop") == want, point
        a.server.env = {}
        a.server.restart()
        three_own.ready()
        wait_for(lambda: a.call("GET", "/tenants/shop", expect=(200, 404, 503)).status == 200)
        assert settle((a, b, c), "shop") == want, point
    for i, api in enumerate((a, b, c)):
        api.call("POST", "/observe", {"user": "u1", "arm": "v", "reward": i / 3}, tenant="shop")
    settle((a, b, c), "shop")


def test_two_at_once_are_one_behind_the_other_or_one_alone(three_own, own):
    a, b, c = three_own.clients()
    learn(a, "shop", 3)
    files = []
    for i, name in enumerate(("from", "and")):
        learn(a, name, 7 + i)
        settle((a, b, c), name)
        files.append(file_of(a, name))
    assert files[0][2] != files[1][2]
    for _ in range(4):
        told = at_once(*[lambda api=api, f=f: put(api, "shop", f[0], expect=(204, 500)).status for api, f in zip((b, c), files)])
        assert 204 in told, told
        wait_for(lambda: all(api.call("GET", "/tenants/shop", expect=(200, 404, 503)).status == 200 for api in (a, b, c)))
        end = settle((a, b, c), "shop")
        assert end in [(lines, digest) for (_, lines, digest), status in zip(files, told) if status == 204]
        assert rows(own) == "1|0"


def test_a_file_that_begins_with_a_summary_brings_its_statistics(three_own, tmp_path):
    a, b, c = apis = three_own.clients()
    learn(a, "shop", 3)
    alone = Server(tmp_path / "alone")
    (tmp_path / "alone").mkdir()
    try:
        alone.start()
        one = Client(alone)
        learn(one, "short", 8)
        assert one.call("POST", "/tenants/short/compact", {"keep_events": 20}).json["compacted"]
        body, lines, digest = file_of(one, "short")
        stats = one.call("GET", "/tenants/short/stats").json
        put(b, "shop", body)
        wait_for(lambda: all(api.call("GET", "/tenants/shop", expect=(200, 404, 503)).status == 200 for api in apis))
        assert settle(apis, "shop") == (lines, digest)
        for api in apis:
            is_same = lambda: (s := api.call("GET", "/tenants/shop/stats", expect=(200, 503))).status == 200 and s.json["arms"] == stats["arms"]
            wait_for(is_same, what="the statistics")
        one.put_tenant("hasty", algorithm="ucb", durability="relaxed")
        one.observe("u", "a", 1, tenant="hasty")
        told = put(b, "shop", file_of(one, "hasty")[0], expect=501).json
        assert told["error"]["code"] == "NotImplemented" and "`durability` relaxed" in json.dumps(told)
        assert put(c, "shop", b"no file", expect=400).json["error"]["code"] == "InvalidModelImportFormat"
        assert settle(apis, "shop") == (lines, digest) and events_of(log_of(a, "shop"))[0]["type"] == "summary"
    finally:
        alone.close()
