"""`by`: lines of the log that change a tenant for an operator name the key that asked."""
import pytest

from harness import NDJSON, Client

FILE_KEY = "correct-horse-battery-staple"


@pytest.fixture
def keyed(boot, tmp_path):
    (tmp_path / "keys").write_text(FILE_KEY + "\n")
    server = boot("--admin-key-file", str(tmp_path / "keys"))
    return server, Client(server, FILE_KEY)


def made(admin, tenant, *roles):
    return admin.call("POST", f"/tenants/{tenant}/keys", {"roles": list(roles)}, expect=201).json


def by(client, name, *types):
    return [(e["type"], e.get("by")) for e in client.events(name) if e["type"] in types]


def test_each_change_names_the_key_that_asked(keyed):
    server, admin = keyed
    admin.put_tenant("t", algorithm="ucb")  # by a key of the file, which has no id
    ann, bob = made(admin, "t", "manage", "read", "decide"), made(admin, "t", "manage", "read")
    a, b = Client(server, ann["key"]), Client(server, bob["key"])
    a.put_arms("t", ["a", "b"])
    b.call("PATCH", "/tenants/t/arms", {"remove": ["b"]})
    a.put_graph("t", [["u", "v", 1], ["p", "q", 1]])
    b.call("PATCH", "/tenants/t/graph", {"add": [["v", "w", 2], ["p", "r", 1]]})
    b.call("PATCH", "/tenants/t", {"routing": {"holdout": {"baseline": {"arm": "a"}}}})
    a.call("POST", "/tenants/t/stop")
    b.call("POST", "/tenants/t/start")
    want = [("configured", None), ("arms", ann["id"]), ("arms", bob["id"]), ("graph", ann["id"]), ("graph", bob["id"]),
            ("configured", bob["id"]), ("configured", ann["id"]), ("configured", bob["id"])]
    assert by(a, "t", "configured", "arms", "graph") == want
    d = a.select("u", candidates=["a"], decision="d", tenant="t")["decision"]
    a.reward(d, 1, tenant="t")
    a.observe("u", "a", 1, tenant="t")
    assert not any("by" in e for e in a.events("t") if e["type"] in ("decided", "rewarded", "observed"))
    server.kill()
    server.start()
    again = Client(server, FILE_KEY)
    assert by(again, "t", "configured", "arms", "graph") == want
    # an import keeps what the lines say: ids of keys of the server that they were written on
    log = again.call("GET", "/tenants/t/export").text
    again.call("POST", "/tenants/copy/import", raw=log, kind=NDJSON, expect=201)
    assert by(again, "copy", "configured", "arms", "graph") == want and again.digest("copy") == again.digest("t")
    assert again.verify("t")["equal"]
    # an erasure writes lines of the graph anew; who asked for them stays
    again.call("DELETE", "/tenants/t/users/v")
    assert by(again, "t", "configured", "arms", "graph") == want


def test_an_erasure_and_a_compaction_name_it(keyed):
    server, admin = keyed
    admin.put_tenant("t", algorithm="ucb")
    ann, bob = made(admin, "t", "manage", "read", "decide"), made(admin, "t", "manage", "read")
    a, b = Client(server, ann["key"]), Client(server, bob["key"])
    for i in range(6):
        a.observe(f"u{i % 3}", "ab"[i % 2], float(i % 2), tenant="t")
    a.call("DELETE", "/tenants/t/users/u1")
    gone = [e for e in a.events("t") if e["type"] == "redacted"]
    assert len(gone) == 2 and {e["by"] for e in gone} == {ann["id"]}
    resets = [e for e in a.events("t") if e["type"] in ("dictionary", "tuned") and "begun" not in e]
    assert resets[-1]["by"] == ann["id"] and all("by" not in e for e in resets[:-1])
    b.call("DELETE", "/tenants/t/users/u2")
    assert [who for _, who in by(a, "t", "redacted")] == [ann["id"], bob["id"]] * 2  # u1, u2, u1, u2
    b.call("POST", "/tenants/t/compact", {"keep_events": 0})
    first = a.events("t")[0]
    assert (first["type"], first["part"], first["by"]) == ("summary", "begin", bob["id"])
    server.kill()
    server.start()
    again = Client(server, FILE_KEY)
    assert again.events("t")[0]["by"] == bob["id"] and again.verify("t")["equal"]
    again.call("DELETE", "/tenants/t/users/u0")  # by a key of the file, which has no id
    assert "by" not in [e for e in again.events("t") if e["type"] in ("dictionary", "tuned")][-1]


@pytest.mark.parametrize("n_edges", [3, 60000], ids=["in-a-turn", "beside-the-writer"])
def test_graphs_of_all_sizes_name_it(keyed, n_edges):
    server, admin = keyed
    admin.put_tenant("t", algorithm="laplaced-kors")
    ann = made(admin, "t", "manage", "read")
    Client(server, ann["key"]).put_graph("t", [[f"u{i}", f"u{i + 1}", 1] for i in range(n_edges)])
    line, = [e for e in admin.events("t") if e["type"] == "graph"]
    assert line["by"] == ann["id"] and len(line["add"]) == n_edges


def test_without_keys_nobody_is_named(api, name):
    api.put_tenant(name, algorithm="ucb")
    api.put_arms(name, ["a"])
    assert by(api, name, "configured", "arms") == [("configured", None), ("arms", None)]
