"""A server with two tenants and a key of every kind, and requests as bare as they can be made: for who may do what."""
import http.client
import itertools
import re
import time
import urllib.parse

from contract import CONTRACT, Answer
from harness import Client, Server

TENANT_ROLES, SERVER_ROLES = ("decide", "read", "manage"), ("metrics", "admin")
FILE_KEY = "correct-horse-battery-staple"
OWN, OTHER, ABSENT = "own-shop", "foe-shop", "not-shop"  # of one length: answers are compared byte by byte
OPERATIONS = sorted(CONTRACT.operations)
BY_HEADER = {name for name, (_, _, op) in CONTRACT.operations.items()
             if any(CONTRACT.resolve(p)["name"] == "Laplaced-Tenant" for p in op.get("parameters", []))}


def role_of(name):
    return CONTRACT.operations[name][2].get("x-role")


def template_of(name):
    return next(path for path, item in CONTRACT.doc["paths"].items() for verb in item.values()
                if isinstance(verb, dict) and verb.get("operationId") == name)


def names_a_tenant(name):
    return name in BY_HEADER or "{tenant}" in template_of(name)


# All requests go on with one trace, so that answers can be compared to the byte, their ids included.
TRACE = ("traceparent", f"00-{'1' * 32}-{'1' * 16}-01")


class Keyring:
    """The server; `keys`: {kind: (key, its tenant or None, roles)}; `spans`: {kind: what it names of tenants} of keys that span some; `strangers`: {kind: headers} of
    those who have no key."""

    def __init__(self, folder):
        (folder / "keys").write_text(FILE_KEY + "\n")
        self.server = Server(folder, "--admin-key-file", str(folder / "keys")).start()
        self.admin = Client(self.server, FILE_KEY)
        self.keys, self.strangers = {"of the file": (FILE_KEY, None, {*TENANT_ROLES, *SERVER_ROLES})}, {}
        for tenant in (OWN, OTHER):
            self.admin.put_tenant(tenant, algorithm="ucb")
            self.admin.select("u", candidates=["a"], tenant=tenant, decision=f"of-{tenant}")
        for n in (1, 2, 3):
            for roles in itertools.combinations(TENANT_ROLES, n):
                self.add(",".join(roles), OWN, roles)
        self.add("another tenant's", OTHER, TENANT_ROLES)
        self.spans = {}
        for kind, patterns in (("a name", [OWN]), ("a beginning", ["own-*", "own-shop-*"]), ("all", ["*"])):
            self.add(kind, None, ["decide"], tenants=patterns)
            self.spans[kind] = patterns
        self.add("metrics", None, ["metrics"])
        self.add("admin", None, ["admin"])
        self.add("admin,metrics", None, SERVER_ROLES)
        self.connect()
        self.add_strangers()

    def connect(self):
        """Anew after each start of the server."""
        self.wire = http.client.HTTPConnection(urllib.parse.urlsplit(self.server.url).netloc, timeout=60)

    def make(self, tenant, roles, **more):
        path = f"/tenants/{tenant}/keys" if tenant else "/keys"
        return self.admin.call("POST", path, {"roles": list(roles), **more}, expect=201).json

    def add(self, kind, tenant, roles, **more):
        may = {*TENANT_ROLES, *SERVER_ROLES} if "admin" in roles else set(roles)
        self.keys[kind] = (self.make(tenant, roles, **more)["key"], tenant, may)

    def add_strangers(self):
        revoked, expiring = self.make(OWN, TENANT_ROLES), self.make(OWN, TENANT_ROLES, expires_in_s=1)
        self.admin.call("DELETE", f"/tenants/{OWN}/keys/{revoked['id']}", expect=204)
        good, foreign = self.keys["decide,read,manage"][0], self.keys["another tenant's"][0]
        texts = {"unknown": f"Bearer lpd_{'0' * 16}_{'0' * 64}", "revoked": f"Bearer {revoked['key']}", "expired": f"Bearer {expiring['key']}",
                 "another scheme": f"Basic {good}", "no scheme": good, "empty": "Bearer ", "cut": f"Bearer {good[:-1]}", "longer": f"Bearer {good}0",
                 "another's secret": f"Bearer {good[:20]}{foreign[20:]}", "upper case": f"Bearer {good.upper()}", "an id alone": f"Bearer {good[4:20]}"}
        self.strangers = {"none": [], **{kind: [("Authorization", text)] for kind, text in texts.items()}}
        end = time.monotonic() + 30
        while self.ask("GET", "/tenants", self.strangers["expired"]).status_code != 401:
            assert time.monotonic() < end
            time.sleep(0.05)

    def headers(self, kind):
        return self.strangers[kind] if kind in self.strangers else [("Authorization", f"Bearer {self.keys[kind][0]}")]

    def ask(self, method, path, headers, body=None):
        """Headers as they are, twice if they are there twice; the answer, held to the contract."""
        self.wire.putrequest(method, path)
        for name, value in [TRACE, *headers]:
            self.wire.putheader(name, value)
        if body is not None:
            self.wire.putheader("Content-Length", str(len(body)))
        self.wire.endheaders(body)
        reply = self.wire.getresponse()
        answer = Answer(reply.status, reply.headers, reply.read())
        CONTRACT.check_response(method, path.split("?")[0], answer)
        return answer

    def request(self, name, kind, tenant=None, named=()):
        """The operation, as harmless as it can be made, at the path of `tenant`, with the tenants `named` in headers."""
        verb, _, operation = CONTRACT.operations[name]
        path = re.sub(r"\{(user|key|problem|decision|evaluation|event)\}", "nobody", template_of(name).replace("{tenant}", tenant or "").replace("{version}", "v1.0"))
        body = b'{"no such field": 1}' if "requestBody" in operation else None
        return self.ask(verb.upper(), path, self.headers(kind) + [("Laplaced-Tenant", t) for t in named], body)

    def state(self):
        """What no harmless request changes."""
        keys = [self.admin.call("GET", p).json["keys"] for p in ("/keys", f"/tenants/{OWN}/keys", f"/tenants/{OTHER}/keys")]
        return ([t["name"] for t in self.admin.call("GET", "/tenants").json["tenants"]],
                [[k["id"] for k in some] for some in keys], [self.admin.events(t) for t in (OWN, OTHER)])
