"""Tenants are opened by their first request, and one that cannot be opened fails alone."""
import shutil
import threading
import time

import pytest

from contract import CONTRACT
from e10_refusals import another_application, contents, foreign_sqlite, garbled, newer, text, truncated
from harness import Client

N_MANY = 1000


def states(client):
    return {t["name"]: t["state"] for t in client.call("GET", "/tenants").json["tenants"]}


def stop(server):
    assert server.terminate() == 0


def test_a_thousand_tenants_are_there_at_once_and_opened_by_their_first_request(boot):
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="ucb")
    for i in range(30):
        client.observe("u", f"a{i % 3}", i / 10, tenant="t")
    digest, events = client.digest("t"), client.events("t")
    stop(server)
    folder = server.data / "tenants"
    for i in range(N_MANY):
        shutil.copy(folder / "t.db", folder / f"copy{i}.db")
    server.start()  # takes the copies in
    stop(server)
    server.start()
    assert client.metric("tenant_opens_total") == 0
    found = states(client)
    assert len(found) == N_MANY + 2 and set(found.values()) == {"closed"}
    assert client.metric('tenants{state="closed"}') == N_MANY + 2
    answers, names = {}, [f"copy{i}" for i in range(0, N_MANY, 25)]

    def ask(name):
        one = Client(server)
        answers[name] = (one.select("u", candidates=["a0", "a1", "a2"], tenant=name, dry_run=True)["arm"], one.digest(name),
                         one.events(name))
    threads = [threading.Thread(target=ask, args=(n,)) for n in names for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {n: ("a2", digest, events) for n in names}
    assert client.metric("tenant_opens_total") == len(names)
    assert client.metric("tenant_open_seconds_count") == len(names)
    assert {n for n, s in states(client).items() if s == "open"} == set(names)
    server.restart()
    assert client.digest("copy25") == digest and client.metric("tenant_opens_total") == 1


@pytest.mark.parametrize("spoil", [newer, foreign_sqlite, another_application, text, truncated, garbled], ids=lambda f: f.__name__)
def test_a_bad_file_fails_its_own_tenant_and_keeps_its_bytes(boot, spoil):
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="ucb")
    for i in range(40):
        client.observe("u", f"a{i % 7}", 0.5, tenant="t")
    digest = client.digest("t")
    stop(server)
    path = server.data / "tenants" / "t.db"
    whole = path.read_bytes()
    spoil(path)
    before = contents(server.data / "tenants")
    server.start()
    problem = client.call("GET", "/tenants/t", expect=500).json
    assert '"t"' in problem["detail"] and "t.db" in problem["detail"]
    assert client.select("u", candidates=["a"])["arm"] == "a"  # of `default`
    client.call("GET", "/readyz")
    listed = {t["name"]: t for t in client.call("GET", "/tenants").json["tenants"]}
    assert listed["t"]["state"] == "failed" and "t.db" in listed["t"]["detail"]
    assert client.metric('tenants{state="failed"}') == 1 and client.metric("tenant_open_failures_total") >= 1
    assert "t.db" in server.log()
    now = contents(server.data / "tenants")
    assert {k: v for k, v in now.items() if not k.startswith("default")} == {k: v for k, v in before.items() if not k.startswith("default")}
    path.write_bytes(whole)  # mended: found without a restart
    end = time.monotonic() + 20
    while client.call("GET", "/tenants/t", expect=(200, 500)).status != 200:
        assert time.monotonic() < end
        time.sleep(0.2)
    assert client.digest("t") == digest


def every_request_of_a_tenant():
    """(method, path, type of the body or None) of each operation that opens one, from the contract."""
    for name, (method, _, operation) in CONTRACT.operations.items():
        if "500" not in operation["responses"] or name in ("evaluateFlags", "trackEvents"):  # those open many
            continue
        template = next(p for p, item in CONTRACT.doc["paths"].items() if item.get(method, {}).get("operationId") == name)
        path = template.replace("{tenant}", "t").replace("{user}", "u").replace("{version}", "v1.0").replace("{event}", "e").replace("{evaluation}", "e")
        kind = next(iter(operation["requestBody"]["content"])) if "requestBody" in operation else None
        yield method.upper(), path, kind


def test_every_request_of_a_tenant_that_cannot_be_opened_says_so(boot):
    """500 where asking again does not help; 503 where it may, as for a file that is missing now."""
    server = boot()
    client = Client(server, tenant="t")
    client.put_tenant("t", algorithm="ucb")
    digest = client.digest("t")
    stop(server)
    path = server.data / "tenants" / "t.db"
    kept = path.with_name("kept")
    for damage, status in ((lambda: truncated(path), 500), (path.unlink, 503)):
        shutil.copy(path, kept)
        damage()
        server.start()
        asked = list(every_request_of_a_tenant())
        assert len(asked) >= 17
        for method, where, kind in asked:
            body = b'{"action":"drop","seq":2}' if where.endswith("/repair") else b"{}"
            answer = client.call(method, where, raw=body if kind else None, kind=kind, expect=500 if where.startswith(("/ofrep/", "/personalizer/")) else status)
            assert "t.db" in CONTRACT.detail(answer.json), (method, where)
        assert ("Retry-After" in answer.headers) == (status == 503)
        stop(server)
        shutil.move(kept, path)
    server.start()
    assert client.digest("t") == digest


def test_a_tenant_that_cannot_be_opened_can_be_deleted_and_made_anew(boot):
    server = boot()
    client = Client(server)
    for name in ("bad", "good"):
        client.put_tenant(name, algorithm="ucb")
    stop(server)
    text(server.data / "tenants" / "bad.db")
    server.start()
    for name in ("bad", "good"):
        client.call("DELETE", f"/tenants/{name}", expect=204)
        client.call("GET", f"/tenants/{name}", expect=404)
        client.put_tenant(name, algorithm="ts")
        assert client.call("GET", f"/tenants/{name}").json["configuration"]["algorithm"] == "ts"
    assert client.metric("tenant_opens_total") == 0  # made, not opened


def test_a_configuration_for_a_tenant_not_in_memory_is_a_change(boot):
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="ucb", confidence={"beta": 1})
    client.observe("u", "a", 1.0, tenant="t")
    server.restart()
    view = client.put_tenant("t", expect=200, algorithm="ucb", confidence={"beta": 2})
    assert view["version"] == 2 and view["events"] == 1
    server.restart()
    client.call("PUT", "/tenants/t/graph", {"edges": [["u", "v"]]})
    assert client.model("t")["events"] == 1


def test_a_window_that_closed_while_nobody_asked_is_closed_at_the_first_request(boot):
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="ucb", reward_window_s=0.3, default_reward=-1.0)
    d = client.select("u", candidates=["a"], tenant="t")["decision"]
    server.kill()
    time.sleep(0.5)
    server.start()
    client.reward(d, 1.0, tenant="t", expect=410)
    assert [e["type"] for e in client.events("t")][2:] == ["expired", "late"] and client.model("t")["events"] == 1


def test_a_stop_in_the_middle_of_openings_answers_and_loses_nothing(boot):
    """SIGTERM while many wait for tenants: each is answered, or told 503, and the next start has everything."""
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="lk-gp-ucb")
    lines = [{"user": f"u{i % 40}", "arm": f"a{i % 30}", "reward": i % 3} for i in range(2000)]
    client.call("POST", "/observe", lines, kind="application/x-ndjson", tenant="t")
    digest = client.digest("t")
    stop(server)
    folder = server.data / "tenants"
    for i in range(20):
        shutil.copy(folder / "t.db", folder / f"copy{i}.db")  # without a snapshot: each opening is a fold
    server.start()
    stop(server)
    server.start()
    seen = []

    def ask(i):
        seen.append(Client(server).call("GET", f"/tenants/copy{i}", expect=(200, 503)).status)
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    stop(server)
    for thread in threads:
        thread.join()
    assert len(seen) <= 20 and 200 in seen
    server.start()
    assert all(client.digest(f"copy{i}") == digest for i in range(20))
