"""What the roles mean: what a key of each may bring about at its own tenant, and what stays the admins'. Which operation opens to
which key is q20_matrix.py."""
import pytest

from harness import Client
from keyring import ABSENT, FILE_KEY, OTHER, OWN, TENANT_ROLES, Keyring


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The server, and {name: (key, tenant or None, roles)}."""
    ring = Keyring(tmp_path_factory.mktemp("roles"))
    yield ring.server, ring.keys
    try:
        assert ring.server.terminate() == 0
    finally:
        ring.server.close()


def test_the_list_of_tenants_shows_a_key_its_own_alone(world):
    server, keys = world
    assert [t["name"] for t in Client(server, keys["read"][0]).call("GET", "/tenants").json["tenants"]] == [OWN]
    listed = Client(server, keys["read"][0]).call("GET", "/tenants", headers={"Laplaced-Tenant": OTHER}).json["tenants"]
    assert [t["name"] for t in listed] == [OWN]
    assert len(Client(server, keys["admin"][0]).call("GET", "/tenants").json["tenants"]) == 3


def test_a_tenants_key_stands_for_its_tenant(world):
    server, keys = world
    client, admin = Client(server, keys["decide"][0]), Client(server, FILE_KEY)
    before = admin.stats(OWN)["decisions"], admin.stats("default")["decisions"]
    client.select("u", candidates=["a"])
    client.select("u", candidates=["a"], tenant=OWN)
    client.select("u", candidates=["a"], tenant="default", expect=404)
    assert (admin.stats(OWN)["decisions"], admin.stats("default")["decisions"]) == (before[0] + 2, before[1])
    Client(server, keys["admin"][0]).select("u", candidates=["a"], tenant=OWN)
    assert admin.stats(OWN)["decisions"] == before[0] + 3


def test_a_managers_key_configures_its_tenant_but_makes_none(world):
    server, keys = world
    client = Client(server, keys["manage"][0])
    assert client.call("PUT", f"/tenants/{OWN}", {"algorithm": "ucb"}).json["name"] == OWN
    client.call("PUT", f"/tenants/{ABSENT}", {"algorithm": "ucb"}, expect=404)
    client.call("DELETE", f"/tenants/{OWN}", expect=403)
    Client(server, FILE_KEY).call("GET", f"/tenants/{ABSENT}", expect=404)


def test_an_admin_makes_and_deletes_tenants(world):
    server, keys = world
    client = Client(server, keys["admin"][0])
    client.put_tenant("passing", algorithm="ucb")
    client.call("DELETE", "/tenants/passing", expect=204)


def test_a_key_gives_no_role_that_it_has_not(world):
    server, keys = world
    client = Client(server, keys["manage"][0])
    for roles, lacking in (["decide"], "decide"), (["manage", "read"], "read"):
        answer = client.call("POST", f"/tenants/{OWN}/keys", {"roles": roles}, expect=403)
        assert answer.pointers == ["/roles"] and lacking in answer.text
    client.call("POST", f"/tenants/{OWN}/keys", {"roles": ["manage"]}, expect=201)
    Client(server, keys["decide,read,manage"][0]).call("POST", f"/tenants/{OWN}/keys", {"roles": list(TENANT_ROLES)}, expect=201)
    client.call("POST", f"/tenants/{OWN}/keys", {"roles": ["admin"]}, expect=400)


def test_unknown_paths_and_methods_are_told_to_whoever_has_a_key(world):
    server, keys = world
    client = Client(server, keys["decide"][0])
    client.call("GET", "/nowhere", expect=404)
    same = {"headers": {"traceparent": f"00-{'1' * 32}-{'1' * 16}-01"}, "expect": 405}
    assert client.call("POST", f"/tenants/{OTHER}", **same).text == client.call("POST", f"/tenants/{ABSENT}", **same).text
    Client(server).call("GET", "/healthz")
