"""Keys from their making to their end: shown once, in force at once, gone at once, and after any crash as they were."""
import json
import re
import signal
import socket
import sqlite3
import time

import pytest

from contract import CONTRACT
from harness import Client, Server, run_ctl

FORM = re.compile(r"^lpd_[0-9a-f]{16}_[0-9a-f]{64}$")


def make(client, tenant=None, expect=201, **body):
    path = f"/tenants/{tenant}/keys" if tenant else "/keys"
    return client.call("POST", path, body, expect=expect).json


@pytest.fixture
def first(boot):
    """A server whose first key was just made, and that key."""
    server = boot()
    return server, make(Client(server), label="ann")


def test_the_first_key_shuts_the_door(first):
    server, key = first
    assert FORM.match(key["key"]) and key["id"] == key["key"][4:20] and key["roles"] == ["admin"]
    assert (key["tenant"], key["label"], key["expires_at"], key["last_used_at"]) == (None, "ann", None, None)
    Client(server).call("GET", "/tenants", expect=401)
    Client(server, key["key"]).call("GET", "/tenants")
    listed = Client(server, key["key"]).call("GET", "/keys")
    assert key["key"] not in listed.text and key["key"][21:] not in listed.text
    assert [k["id"] for k in listed.json["keys"]] == [key["id"]]


def test_the_first_key_must_be_an_admins(boot):
    server = boot()
    client = Client(server)
    make(client, "default", roles=["manage"], expect=409)
    make(client, roles=["metrics"], expect=409)
    make(client, expires_in_s=60, expect=409)
    client.call("GET", "/tenants")  # and none was made
    assert client.call("GET", "/keys").json == {"keys": []}


def test_a_key_is_rotated_without_a_gap(first):
    server, old = first
    new = make(Client(server, old["key"]), label="ann, again")
    Client(server, new["key"]).call("DELETE", f"/keys/{old['id']}", expect=204)
    Client(server, old["key"]).call("GET", "/tenants", expect=401)
    Client(server, new["key"]).call("DELETE", f"/keys/{old['id']}", expect=404)
    assert [k["id"] for k in Client(server, new["key"]).call("GET", "/keys").json["keys"]] == [new["id"]]


def test_the_last_admins_key_stays(first):
    server, key = first
    client = Client(server, key["key"])
    make(client, expires_in_s=1000)
    make(client, roles=["metrics"])
    make(client, "default", roles=["manage"])
    client.call("DELETE", f"/keys/{key['id']}", expect=409)
    client.call("GET", "/tenants")


def test_a_revoked_key_is_no_use_to_a_body_under_way(first):
    """The headers were let in; the key went before the body came."""
    server, admin = first
    client = Client(server, admin["key"])
    key = make(client, "default", roles=["decide"])
    body = b'{"user":"u","candidates":["a"]}'
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(f"POST /select HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key['key']}\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:5])
        for _ in range(200):
            if client.call("GET", "/tenants/default/keys").json["keys"][0]["last_used_at"]:
                break
            time.sleep(0.02)
        client.call("DELETE", f"/tenants/default/keys/{key['id']}", expect=204)
        raw.sendall(body[5:])
        assert CONTRACT.check_raw("POST", "/select", raw.recv(4096)).status_code == 401
    assert client.stats("default")["decisions"] == 0


def test_keys_survive_kill_9(first):
    server, admin = first
    client = Client(server, admin["key"])
    kept, gone = (make(client, "default", roles=["read"]) for _ in range(2))
    client.call("DELETE", f"/tenants/default/keys/{gone['id']}", expect=204)
    server.restart()
    Client(server).call("GET", "/tenants", expect=401)
    Client(server, gone["key"]).call("GET", "/tenants/default", expect=401)
    Client(server, kept["key"]).call("GET", "/tenants/default")
    assert [k["id"] for k in Client(server, admin["key"]).call("GET", "/tenants/default/keys").json["keys"]] == [kept["id"]]


def test_the_last_use_is_told_and_outlives_a_stop(first):
    server, admin = first
    client = Client(server, admin["key"])
    key = make(client, "default", roles=["read"], label="report")
    def last():
        return client.call("GET", "/tenants/default/keys").json["keys"][0]["last_used_at"]
    assert last() is None
    Client(server, key["key"]).call("GET", "/tenants/default")
    used = last()
    assert used >= key["created_at"]
    assert server.terminate() == 0
    server.start()
    assert last() == used


def test_an_expired_key_opens_nothing(first):
    server, admin = first
    key = make(Client(server, admin["key"]), "default", roles=["read"], expires_in_s=1)
    assert key["expires_at"] > key["created_at"]
    client = Client(server, key["key"])
    for _ in range(100):
        if client.call("GET", "/tenants/default", expect=(200, 401)).status == 401:
            return
        time.sleep(0.05)
    raise AssertionError("it has not expired")


def test_a_tenant_takes_its_keys_along(first):
    server, admin = first
    client = Client(server, admin["key"])
    client.put_tenant("shop", algorithm="ucb")
    key = make(client, "shop", roles=["read", "manage"])
    make(client, "nobody", roles=["read"], expect=404)
    client.call("GET", "/tenants/nobody/keys", expect=404)
    client.call("DELETE", "/tenants/nobody/keys/0123456789abcdef", expect=404)
    client.call("DELETE", "/tenants/shop", expect=204)
    Client(server, key["key"]).call("GET", "/tenants/shop", expect=401)
    client.put_tenant("shop", algorithm="ucb")  # the name is another's now
    for _ in range(2):
        Client(server, key["key"]).call("GET", "/tenants/shop", expect=401)
        assert client.call("GET", "/tenants/shop/keys").json == {"keys": []}
        server.restart()


# --- keys that span tenants -------------------------------------------------------------------------------


def test_a_key_decides_for_the_tenants_that_it_names_and_for_those_that_come(first):
    server, admin = first
    client = Client(server, admin["key"])
    for name in ("home", "home-a", "home-b", "homes", "Home-a"):
        client.put_tenant(name, algorithm="ucb")
    key = make(client, roles=["decide"], tenants=["home-*", "homes"], label="pages")
    assert (key["tenant"], key["tenants"], key["roles"]) == (None, ["home-*", "homes"], ["decide"])
    own = Client(server, key["key"])

    def may():
        return [t for t in ("home", "home-a", "home-b", "home-c", "homes", "Home-a", "default") if "propensity" in own.select("u", tenant=t, candidates=["a"], expect=(200, 404))]
    assert may() == ["home-a", "home-b", "homes"]
    assert own.select("u", candidates=["a"], expect=404)["detail"] == 'there is no tenant "default"'  # as it names none
    client.put_tenant("home-c", algorithm="ucb")
    client.call("DELETE", "/tenants/home-b", expect=204)
    client.call("DELETE", "/tenants/homes", expect=204)
    client.put_tenant("homes", algorithm="ucb")  # a name, whoever has it: unlike a tenant's own key it stays
    assert may() == ["home-a", "home-c", "homes"]
    decision = own.select("u", tenant="home-a", candidates=["a"])["decision"]
    assert own.reward(decision, 1, tenant="home-a") == {"applied": True}
    for method, path in (("GET", "/tenants"), ("GET", "/tenants?stats=1"), ("GET", "/tenants/home-a"), ("GET", "/keys"), ("GET", "/metrics")):
        own.call(method, path, expect=403)
    server.restart()
    assert may() == ["home-a", "home-c", "homes"]
    assert [k.get("tenants") for k in client.call("GET", "/keys").json["keys"]] == [None, ["home-*", "homes"]]
    client.call("DELETE", f"/tenants/home-a/keys/{key['id']}", expect=404)  # it is the server's own
    client.call("DELETE", f"/keys/{key['id']}", expect=204)
    own.select("u", tenant="home-a", candidates=["a"], expect=401)


def test_without_a_default_a_key_that_spans_tenants_is_asked_which(boot):
    server = boot("--default-tenant", "none")
    client = Client(server, make(Client(server))["key"])
    client.put_tenant("a", algorithm="ucb")
    own = Client(server, make(client, roles=["decide"], tenants=["a"])["key"])
    assert "Laplaced-Tenant" in own.select("u", candidates=["a"], expect=400)["detail"]
    own.select("u", tenant="a", candidates=["a"])


@pytest.mark.parametrize("body, pointer", [
    ({"roles": ["decide"]}, "/tenants"), ({"tenants": ["a"]}, "/tenants"), ({"roles": ["metrics"], "tenants": ["a"]}, "/tenants"), ({"roles": ["decide", "admin"], "tenants": ["a"]}, "/roles"),
    ({"roles": ["decide"], "tenants": []}, "/tenants"), ({"roles": ["decide"], "tenants": "a"}, "/tenants"), ({"roles": ["decide"], "tenants": ["a", "b", "a"]}, "/tenants/2"),
    ({"roles": ["decide"], "tenants": [f"t{i}" for i in range(9)]}, "/tenants"),
    *(({"roles": ["decide"], "tenants": ["a", bad]}, "/tenants/1") for bad in ("", "*a", "a*b", "a**", "-a*", "a,b", "a/b", "x" * 65, "x" * 65 + "*", 7, None, "a\u0000", "a\u0000*"))])
def test_a_span_that_is_none_is_refused(first, body, pointer):
    server, admin = first
    client = Client(server, admin["key"])
    assert pointer in client.call("POST", "/keys", body, expect=400).pointers
    assert client.call("POST", "/tenants/default/keys", {**body, "roles": ["decide"], "tenants": ["a"]}, expect=400).pointers == ["/tenants"]  # of a tenant's key never
    assert len(client.call("GET", "/keys").json["keys"]) == 1


def test_the_longest_span_is_kept_whole(first):
    server, admin = first
    client = Client(server, admin["key"])
    longest = [f"{i}" * 64 + "*" for i in range(8)]
    key = make(client, roles=["decide"], tenants=longest)
    server.restart()
    assert client.call("GET", "/keys").json["keys"][1]["tenants"] == key["tenants"] == longest
    client.put_tenant("7" * 64, algorithm="ucb")
    Client(server, key["key"]).select("u", tenant="7" * 64, candidates=["a"])
    Client(server, key["key"]).select("u", tenant="7" * 63, candidates=["a"], expect=404)


# --- how many ---------------------------------------------------------------------------------------------


def test_a_tenant_has_at_most_a_hundred_keys(first):
    server, admin = first
    client = Client(server, admin["key"])
    for _ in range(100):
        make(client, "default", roles=["read"])
    make(client, "default", roles=["read"], expect=409)
    keys = client.call("GET", "/tenants/default/keys").json["keys"]
    client.call("DELETE", f"/tenants/default/keys/{keys[0]['id']}", expect=204)
    make(client, "default", roles=["read"])


def test_a_full_disk_makes_and_revokes_nothing(first):
    server, admin = first
    client = Client(server, admin["key"])
    key = make(client, "default", roles=["read"])
    spare = make(client)
    client.call("GET", "/tenants/default")  # opened now: a full disk would be in the way of that
    server.fill_disk()
    make(client, "default", roles=["read"], expect=503)
    make(client, expect=503)
    client.call("DELETE", f"/tenants/default/keys/{key['id']}", expect=503)
    client.call("DELETE", f"/keys/{spare['id']}", expect=503)
    Client(server, key["key"]).call("GET", "/tenants/default")
    Client(server, spare["key"]).call("GET", "/keys")
    server.fill_disk(False)
    assert len(client.call("GET", "/tenants/default/keys").json["keys"]) == 1
    client.call("DELETE", f"/tenants/default/keys/{key['id']}", expect=204)
    assert len(client.call("GET", "/keys").json["keys"]) == 2


@pytest.mark.parametrize("path", ["/keys", "/tenants/default/keys"])
@pytest.mark.parametrize("body, pointer", [({"roles": []}, "/roles"), ({"roles": ["root"]}, "/roles/0"), ({"role": ["read"]}, "/role"),
                                           ({"label": 7}, "/label"), ({"expires_in_s": -1}, "/expires_in_s")])
def test_faults_of_a_body_are_named_and_make_no_key(first, path, body, pointer):
    server, admin = first
    client = Client(server, admin["key"])
    assert pointer in client.call("POST", path, body, expect=400).pointers
    client.call("POST", path, raw="{", expect=400)
    client.call("POST", path, raw="x" * (1 << 20 | 1), expect=413)
    client.call("POST", path, raw="{}", kind="text/plain", expect=415)
    assert len(client.call("GET", path).json["keys"]) == (1 if path == "/keys" else 0)


def test_the_registry_has_no_key_and_the_log_neither(first):
    server, admin = first
    key = make(Client(server, admin["key"]), "default", roles=["read"])
    Client(server, key["key"]).call("GET", "/tenants/default")
    server.terminate()
    with sqlite3.connect(server.data / "registry.db") as db:
        rows = db.execute("SELECT * FROM keys").fetchall()
    secrets = [k["key"][21:] for k in (admin, key)]
    assert len(rows) == 2
    for secret in secrets:
        assert secret not in str(rows) and bytes.fromhex(secret) not in (server.data / "registry.db").read_bytes()
        assert secret not in server.log()
    assert key["id"] in server.log()


# --- no key, no network ---------------------------------------------------------------------------------


def test_with_a_key_that_was_made_any_address_may_be_listened_on(first, tmp_path):
    server, admin = first
    server.terminate()
    server.listen = "0.0.0.0:0"
    server.start()
    server.url = server.url.replace("0.0.0.0", "127.0.0.1")
    Client(server).call("GET", "/tenants", expect=401)
    Client(server, admin["key"]).call("GET", "/tenants")


def test_a_folder_without_keys_stays_on_loopback_and_says_why(boot, tmp_path):
    server = boot()
    assert "no keys, hence on loopback only" in server.log()
    server.terminate()
    server.listen = "0.0.0.0:0"
    status, stderr = server.run_to_end()
    assert status == 1 and "without keys" in stderr and "--admin-key-file" in stderr


def test_a_server_that_had_keys_lets_nobody_in_without(tmp_path):
    """The key file's admin revokes the last key that was made: the file's own still count, and its absence opens nothing."""
    (tmp_path / "keys").write_text("file-key-0123456789\n")
    server = Server(tmp_path, "--admin-key-file", str(tmp_path / "keys")).start()
    try:
        client = Client(server, "file-key-0123456789")
        key = make(client)
        client.call("DELETE", f"/keys/{key['id']}", expect=204)
        assert client.call("GET", "/keys").json == {"keys": []}
        Client(server).call("GET", "/tenants", expect=401)
        (tmp_path / "keys").unlink()
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        Client(server).call("GET", "/tenants", expect=401)
        client.call("GET", "/tenants")
        server.terminate()
        server.args, server.listen = [], "0.0.0.0:0"
        status, stderr = server.run_to_end()
        assert status == 1 and "without keys" in stderr
    finally:
        server.close()


def test_readiness_names_no_tenant_to_strangers(first):
    server, admin = first
    client = Client(server, admin["key"])
    client.put_tenant("secret-shop", algorithm="ucb")
    server.fill_disk()
    client.select("u", candidates=["a"], tenant="secret-shop", expect=503)
    answer = Client(server).call("GET", "/readyz", expect=503)
    server.fill_disk(False)
    assert "secret-shop" not in answer.text


# --- laplacectl -----------------------------------------------------------------------------------------


def test_laplacectl_makes_lists_and_revokes(boot):
    server = boot()
    admin = run_ctl(server, "key", "create", "--label", "ann").split()[0]
    assert FORM.match(admin)
    run_ctl(server, "key", "list", expect=1)
    key = json.loads(run_ctl(server, "--json", "--key", admin, "key", "create", "--tenant", "default", "--role", "decide,read",
                             "--expires-in", "600"))
    assert key["roles"] == ["decide", "read"] and key["tenant"] == "default"
    run_ctl(server, "--key", key["key"], "tenant", "get", "default")
    table = run_ctl(server, "--key", admin, "--tenant", "default", "key", "list")
    assert key["id"] in table and "decide,read" in table and key["key"] not in table
    assert "ann" in run_ctl(server, "--key", admin, "key", "list")
    run_ctl(server, "--key", admin, "--tenant", "default", "key", "revoke", key["id"])
    run_ctl(server, "--key", key["key"], "tenant", "get", "default", expect=1)
    spanning = json.loads(run_ctl(server, "--json", "--key", admin, "key", "create", "--role", "decide", "--tenants", "home-*,default"))
    assert spanning["tenants"] == ["home-*", "default"]
    assert "decide: home-*,default" in run_ctl(server, "--key", admin, "key", "list")
    assert "last admin" in run_ctl(server, "--key", admin, "key", "revoke", admin[4:20], expect=1)
    run_ctl(server, "key", "revoke", expect=2)
