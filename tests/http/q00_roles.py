"""Who may call what: every operation of the contract, with every kind of key, at the key's own tenant, at another's, and at
one that is not there."""
import re

import pytest

from contract import CONTRACT
from harness import Client, Server

TENANT_ROLES, SERVER_ROLES = ("decide", "read", "manage"), ("metrics", "admin")
FILE_KEY = "correct-horse-battery-staple"
UNKNOWN = f"lpd_{'0' * 16}_{'0' * 64}"
OWN, OTHER, ABSENT = "own-shop", "foe-shop", "not-shop"  # of one length: answers are compared byte by byte
NONE = "no tenant"
OPERATIONS = sorted(CONTRACT.operations)
BY_HEADER = ("select", "reward", "activate", "observe")
ALLOWED = (200, 201, 204, 400, 404, 409, 415, 422)  # got past the door: the door answers 401 and 403


def role_of(name):
    return CONTRACT.operations[name][2].get("x-role")


def template_of(name):
    return next(path for path, item in CONTRACT.doc["paths"].items() for verb in item.values()
                if isinstance(verb, dict) and verb.get("operationId") == name)


def names_a_tenant(name):
    return name in BY_HEADER or "{tenant}" in template_of(name)


def send(client, name, tenant, **more):
    """One request of the operation, as harmless as it can be made."""
    path = re.sub(r"\{(user|key)\}", "nobody", template_of(name).replace("{tenant}", tenant))
    headers = {"Laplaced-Tenant": tenant} if name in BY_HEADER and tenant != NONE else {}
    operation = CONTRACT.operations[name][2]
    body = "{\"no such field\": 1}" if "requestBody" in operation else None
    return client.call(CONTRACT.operations[name][0].upper(), path, raw=body, headers=headers,
                       expect=(*ALLOWED, 401, 403), **more)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A server with keys of every kind: {name: (key, tenant or None, roles)}."""
    folder = tmp_path_factory.mktemp("roles")
    (folder / "keys").write_text(FILE_KEY + "\n")
    server = Server(folder, "--admin-key-file", str(folder / "keys")).start()
    admin = Client(server, FILE_KEY)
    keys = {"of the file": (FILE_KEY, None, {*TENANT_ROLES, *SERVER_ROLES})}
    for tenant in (OWN, OTHER):
        admin.put_tenant(tenant, algorithm="ucb")
        admin.select("u", candidates=["a"], tenant=tenant, decision="d")
    for role in TENANT_ROLES:
        keys[role] = (make(admin, OWN, [role]), OWN, {role})
    keys["decide,read,manage"] = (make(admin, OWN, list(TENANT_ROLES)), OWN, set(TENANT_ROLES))
    keys["another tenant's"] = (make(admin, OTHER, list(TENANT_ROLES)), OTHER, set(TENANT_ROLES))
    keys["metrics"] = (make(admin, None, ["metrics"]), None, {"metrics"})
    keys["admin"] = (make(admin, None, None), None, {*TENANT_ROLES, *SERVER_ROLES})
    yield server, keys
    try:
        assert server.terminate() == 0
    finally:
        server.close()


def make(client, tenant, roles):
    path = f"/tenants/{tenant}/keys" if tenant else "/keys"
    return client.call("POST", path, {"roles": roles} if roles else {}, expect=201).json["key"]


KINDS = ["of the file", "admin", "metrics", *TENANT_ROLES, "decide,read,manage", "another tenant's"]


def test_every_operation_but_the_probes_states_a_role():
    roles = {name: role_of(name) for name in OPERATIONS}
    assert {name for name, role in roles.items() if role is None} == {"healthz", "readyz", "openapi"}
    assert set(roles.values()) <= {None, *TENANT_ROLES, *SERVER_ROLES}
    for name, role in roles.items():
        documented = CONTRACT.operations[name][2]["responses"]
        assert (role is not None) == ("401" in documented) == ("403" in documented), name
        if names_a_tenant(name):
            assert "404" in documented, name


@pytest.mark.parametrize("name", OPERATIONS)
def test_without_a_known_key_nothing_opens_but_what_is_public(world, name):
    server, keys = world
    for headers in ({}, {"Authorization": f"Bearer {UNKNOWN}"}, {"Authorization": f"Bearer {keys['admin'][0][:-1]}x"},
                    {"Authorization": f"Basic {keys['admin'][0]}"}):
        client = Client(server)
        client.session.headers.update(headers)
        answers = [send(client, name, tenant) for tenant in (OWN, ABSENT)]
        if role_of(name) is None:
            assert {a.status for a in answers} == {200}
        else:
            assert {a.status for a in answers} == {401} and answers[0].text == answers[1].text
            assert answers[0].headers["WWW-Authenticate"].startswith("Bearer")


# But for a tenant's deletion by an admin, who would do it: test_an_admin_makes_and_deletes_tenants.
MATRIX = [(n, k) for n in OPERATIONS if role_of(n) for k in KINDS if (n, k) not in (("deleteTenant", "of the file"), ("deleteTenant", "admin"))]


@pytest.mark.parametrize("name, kind", MATRIX)
def test_a_key_opens_what_it_has_the_role_for_at_its_own_tenant(world, name, kind):
    server, keys = world
    key, own, roles = keys[kind]
    answer = send(Client(server, key), name, (own or OWN) if names_a_tenant(name) else NONE)
    if role_of(name) in roles:
        assert answer.status in ALLOWED
    else:
        assert answer.status == 403 and f"`{role_of(name)}`" in answer.json["detail"]


@pytest.mark.parametrize("kind", [*TENANT_ROLES, "decide,read,manage", "another tenant's"])
@pytest.mark.parametrize("name", [n for n in OPERATIONS if names_a_tenant(n)])
def test_another_tenant_is_not_there(world, name, kind):
    """An existing one answers as one that is not, to the byte, whatever the key may do at its own."""
    server, keys = world
    key, own, _ = keys[kind]
    client = Client(server, key)
    foreign = send(client, name, OWN if own == OTHER else OTHER)
    absent = send(client, name, ABSENT)
    assert (foreign.status, absent.status) == (404, 404)
    assert foreign.text.replace(OWN if own == OTHER else OTHER, ABSENT) == absent.text
    drop = ("Date",)
    assert {k: v for k, v in foreign.headers.items() if k not in drop} == {k: v for k, v in absent.headers.items() if k not in drop}


@pytest.mark.parametrize("kind", ["metrics"])
@pytest.mark.parametrize("name", [n for n in OPERATIONS if names_a_tenant(n)])
def test_a_key_for_metrics_learns_of_no_tenant_elsewhere(world, name, kind):
    server, keys = world
    client = Client(server, keys[kind][0])
    assert send(client, name, OWN).text == send(client, name, ABSENT).text


def test_no_request_of_this_file_changed_a_tenant(world):
    server, keys = world
    admin = Client(server, FILE_KEY)
    assert {t["name"] for t in admin.call("GET", "/tenants").json["tenants"]} == {"default", OWN, OTHER}
    assert len(admin.events(OTHER)) == 2


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
    assert client.call("PATCH", f"/tenants/{OTHER}", expect=405).text == client.call("PATCH", f"/tenants/{ABSENT}", expect=405).text
    Client(server).call("GET", "/healthz")
