"""Keys x routes x tenants: every operation of the contract, asked with every kind of key, at the key's own tenant, at another's
and at one that is not there, named in the path, in the header, in both or twice. The answer is what the table of roles in docs/OPERATIONS.md
says, and another tenant answers as one that does not exist, to the byte."""
import fnmatch
import json
import re
import socket
import urllib.parse

import pytest

import keyring as ring
from contract import CONTRACT, ROOT
from h00_auth import PUBLIC
from harness import Client
from keyring import ABSENT, OTHER, OWN, OPERATIONS, TENANT_ROLES, names_a_tenant, role_of

PASSED = (200, 201, 204, 308, 400, 404, 409, 415, 422)  # by the door, whatever came behind it


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = ring.Keyring(tmp_path_factory.mktemp("matrix"))
    before = made.state()
    yield made
    try:
        assert made.state() == before, "a harmless request has changed something"
        assert made.server.terminate() == 0
    finally:
        made.server.close()


def documented_roles():
    """{role: text} of the table in docs/OPERATIONS.md."""
    table = (ROOT / "docs/OPERATIONS.md").read_text().split("| role | may |\n")[1].split("\n\n")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.M))


def may(roles, name):
    return role_of(name) is None or role_of(name) in roles


def addressed(name, own, path, named):
    """The tenant that a request of a tenant's key is about; None for an operation about none. `own`: where none is named."""
    if "{tenant}" in ring.template_of(name):
        return path
    if name in ring.BY_HEADER:
        return named[0] if named else own
    return None


def expected(world, name, kind, path, named):
    """(status, detail or None): what the table says. Status None: the door lets it pass. Two headers are none, whoever asks."""
    if len(named) > 1:
        return 400, "a request has one Laplaced-Tenant"
    if role_of(name) is None:
        return None, None
    if kind in world.strangers:
        return 401, "this server asks for a key: Authorization: Bearer KEY"
    _, own, roles = world.keys[kind]
    spans = [own] if own else world.spans.get(kind, ["*"])
    about = addressed(name, own or "default", path, named)
    if about and not any(fnmatch.fnmatchcase(about, pattern) for pattern in spans):
        return 404, f'there is no tenant "{about}"'
    return (None, None) if may(roles, name) else (403, f"the key lacks the role `{role_of(name)}`")


def check(world, name, kind, path=None, named=()):
    status, detail = expected(world, name, kind, path, named)
    if name == "deleteTenant" and status is None and path != ABSENT:
        return None  # an admin would do it
    answer = world.request(name, kind, path, named)
    what = (name, kind, path, named, answer)
    if status is None:
        assert answer.status_code in PASSED, what
    else:
        assert answer.status_code == status and CONTRACT.detail(json.loads(answer.content)) == detail, what
    return answer


def ways(name):
    """How a tenant may be named: (path, headers)."""
    if "{tenant}" in ring.template_of(name):
        return [(t, ()) for t in (OWN, OTHER, ABSENT)]
    return [(None, ())] + [(None, (t,)) for t in (OWN, OTHER, ABSENT)]


def test_every_operation_but_the_public_ones_states_a_role_that_is_documented():
    roles = {name: role_of(name) for name in OPERATIONS}
    assert {name for name, role in roles.items() if role is None} == PUBLIC
    assert {r for r in roles.values() if r} == set(documented_roles()) == {*TENANT_ROLES, *ring.SERVER_ROLES}
    for name in ring.BY_HEADER:
        path = ring.template_of(name)
        assert (role_of(name) == "decide") == (f"`{path}`" in documented_roles()["decide"]), name
    for name, role in roles.items():
        documented = CONTRACT.operations[name][2]["responses"]
        assert (role is not None) == ("401" in documented) == ("403" in documented), name
        wanted = [{}, {"bearer": [role]}] if role else [{}]
        assert CONTRACT.operations[name][2].get("security") == wanted, name
        if names_a_tenant(name):
            assert "404" in documented, name


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_key_at_every_tenant(world, name):
    for kind in (*world.keys, *world.strangers):
        for path, named in ways(name):
            check(world, name, kind, path, named)


@pytest.mark.parametrize("name", OPERATIONS)
def test_who_has_no_key_hears_the_same_of_every_tenant(world, name):
    if role_of(name) is not None:
        for kind in world.strangers:
            told = {(a.content.replace((way[0] or "no path").encode(), b"?"), a.headers["WWW-Authenticate"], len(a.headers))
                    for way in ways(name) for a in [world.request(name, kind, *way)]}  # a flag's refusal repeats its key
            assert len(told) == 1 and next(iter(told))[1].startswith("Bearer")


def test_who_has_no_key_does_not_learn_which_paths_there_are(world):
    for kind in world.strangers:
        told = {(a.status_code, a.content) for a in (world.ask(verb, path, world.headers(kind)) for verb, path in (
            ("GET", "/tenants"), ("GET", "/nothing"), ("GET", "/tenants/x/nothing"), ("PATCH", "/tenants"), ("OPTIONS", "/tenants"),
            ("DELETE", f"/tenants/{OWN}/nothing"), ("GET", "/keys/nobody"), ("PUT", "/metrics")))}
        assert len(told) == 1 and next(iter(told))[0] == 401, kind


HEADERS = [(OWN,), (OTHER,), (ABSENT,), (OWN, OTHER), (OTHER, OWN), (OWN, ABSENT), ("",), ("../" + OTHER,)]


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_header_that_disagrees_or_comes_twice_opens_nothing(world, name):
    """Where the path names the tenant the header says nothing; where none is named either."""
    for kind in ("decide,read,manage", "another tenant's", "a beginning", "metrics", "admin"):
        for path in (OWN, OTHER) if "{tenant}" in ring.template_of(name) else (None,):
            for named in HEADERS:
                check(world, name, kind, path, named)


# --- another tenant is one that does not exist ----------------------------------------------------------


def bare(answer, tenant):
    """All that a client sees but for the time, with the tenant's name taken out."""
    headers = sorted((k, v) for k, v in answer.headers.items() if k != "Date")
    return answer.status_code, headers, answer.content.replace(tenant.encode(), b"?" * len(tenant))


def everything(world, kind, tenant):
    """What a key is told of a tenant: by each operation, by each method, by the other spellings of its name."""
    told = [bare(world.request(name, kind, tenant), tenant) for name in OPERATIONS if "{tenant}" in ring.template_of(name)]
    told += [bare(world.request(name, kind, None, (tenant,)), tenant) for name in ring.BY_HEADER]
    headers = world.headers(kind)
    for path in (f"/tenants/{tenant}", f"/tenants/{tenant}/graph", f"/tenants/{tenant}/export", f"/tenants/{tenant}/nothing"):
        for verb in ("HEAD", "OPTIONS", "PATCH", "PUT", "POST", "DELETE", "GET", "TRACE"):
            told.append(bare(world.ask(verb, path, headers, None if verb in ("HEAD", "OPTIONS", "GET", "TRACE") else b"{}"), tenant))
    coded = "".join(f"%{byte:02x}" for byte in tenant.encode())
    told += [bare(world.ask("GET", f"/tenants/{coded}/{part}", headers), tenant) for part in ("model", "keys", "stats?window_s=1", "events?after=x")]
    return told


KINDS_OF_OWN = ["decide", "read", "manage", "decide,read,manage"]


@pytest.mark.parametrize("kind", [*KINDS_OF_OWN, "a name", "a beginning", "metrics"])
def test_another_tenant_is_not_there(world, kind):
    assert everything(world, kind, OTHER) == everything(world, kind, ABSENT)


def test_whatever_becomes_of_another_tenant_is_not_seen(tmp_path):
    """Open, closed, damaged and gone: its name answers the same, and is opened for nobody."""
    world = ring.Keyring(tmp_path)
    server, admin = world.server, world.admin

    def told():
        return {kind: everything(world, kind, OTHER) for kind in KINDS_OF_OWN} | {"ready": bare(world.ask("GET", "/readyz", []), OTHER)}
    try:
        seen = [told()]
        server.kill()  # closed, until somebody asks for it
        server.start()
        world.connect()
        seen.append(told())
        assert {t["name"]: t["state"] for t in admin.call("GET", "/tenants").json["tenants"]}[OTHER] == "closed", "a foreign key has opened it"
        server.kill()
        file = server.data / "tenants" / f"{OTHER}.db"
        file.write_bytes(b"not a database" * 100)
        server.start()
        world.connect()
        admin.call("GET", f"/tenants/{OTHER}", expect=500)
        seen.append(told())
        admin.call("DELETE", f"/tenants/{OTHER}", expect=(204, 500))
        seen.append(told())
        assert all(s == seen[0] for s in seen)
    finally:
        server.close()


def head_of(server, head):
    """What the server says to headers alone, of a body that is announced and does not come."""
    with socket.create_connection(urllib.parse.urlsplit(server.url).netloc.split(":"), timeout=10) as raw:
        raw.sendall(head.encode())
        return re.sub(rb"Date: [^\r]*\r\n", b"", raw.recv(4096))


@pytest.mark.parametrize("length", [10, 10**12])
def test_a_body_for_another_tenant_is_not_waited_for(world, length):
    key = world.keys["decide,read,manage"][0]
    heads = [f"PUT /tenants/{tenant}/graph HTTP/1.1\r\nHost: x\r\n{ring.TRACE[0]}: {ring.TRACE[1]}\r\nAuthorization: Bearer {key}\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
             for tenant in (OTHER, ABSENT)]
    foreign, absent = (head_of(world.server, head) for head in heads)
    assert foreign.startswith(b"HTTP/1.1 404 ") and foreign.replace(OTHER.encode(), ABSENT.encode()) == absent


# --- what belongs to another tenant ---------------------------------------------------------------------


def traced(client):
    """All its requests go on with the one trace."""
    client.session.headers.update([ring.TRACE])
    return client


def test_decisions_of_another_tenant_are_unknown(world):
    client = traced(Client(world.server, world.keys["decide,read,manage"][0]))
    for path, body in (("/reward", {"decision": "D", "reward": 1}), ("/activate", {"decision": "D"}), ("/reward", [{"decision": "D", "reward": 1}])):
        told = [client.call("POST", path, json.loads(json.dumps(body).replace('"D"', f'"{d}"')), expect=(200, 404)).text
                for d in (f"of-{OTHER}", f"of-{ABSENT}")]
        assert told[0].replace(OTHER, ABSENT) == told[1] and "404" in told[0]
    ids = [client.select("u", candidates=["a"], decision=f"of-{t}", dry_run=True) for t in (OTHER, ABSENT)]
    assert {**ids[0], "decision": ""} == {**ids[1], "decision": ""}


def test_keys_of_another_tenant_and_of_the_server_are_unknown(world):
    client = traced(Client(world.server, world.keys["decide,read,manage"][0]))
    nobody = client.call("DELETE", f"/tenants/{OWN}/keys/{'0' * 16}", expect=404)
    for kind in ("another tenant's", "admin", "metrics"):
        key = world.keys[kind][0]
        answer = client.call("DELETE", f"/tenants/{OWN}/keys/{key[4:20]}", expect=404)
        assert answer.text.replace(key[4:20], "0" * 16) == nobody.text
        assert world.ask("GET", "/tenants", [("Authorization", f"Bearer {key}")]).status_code in (200, 403)
    foreign = world.keys["another tenant's"][0][4:20]
    world.admin.call("DELETE", f"/tenants/{OWN}/keys/{foreign}", expect=404)  # an admin, too, revokes it where it belongs
    world.admin.call("DELETE", f"/keys/{foreign}", expect=404)
    assert [k["id"] for k in world.admin.call("GET", f"/tenants/{OTHER}/keys").json["keys"]] == [foreign]


def test_the_list_the_metrics_and_the_probes_name_no_other_tenant(world):
    for kind, (key, own, _) in world.keys.items():
        if own != OWN and kind not in ("a name", "a beginning"):
            continue
        for path in ("/tenants", "/metrics", "/readyz", "/healthz", "/keys", "/nothing"):
            for headers in ([], [("Laplaced-Tenant", OTHER)]):
                answer = world.ask("GET", path, [*world.headers(kind), *headers])
                assert OTHER.encode() not in answer.content, (kind, path, answer)
