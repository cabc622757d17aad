"""What may happen to a tenant in a story; each step is judged as it goes (judge.py)."""
import json
import time

from contract import NDJSON
from harness import tenant_path
from tenants import configuration, model

USERS = ["ann", "bob", "cid", "dee", "zoe"]
SQLITE = "application/vnd.sqlite3"


class Tenant:
    """One tenant of a story."""

    def __init__(self, judge, rng, temper, name="t"):
        self.judge, self.rng, self.temper, self.name = judge, rng, temper, name
        self.dims = {"context_dim": rng.choice((0, 1, 2)), "arm_dim": rng.choice((0, 1, 3))}
        self.traffic = {"aggregation": rng.choice(("first", "sum", "last")), "durability": rng.choice(("commit", "commit", "relaxed"))}
        if rng.random() < 0.2:
            self.traffic["reward_window_s"] = 0.5
        self.open, self.rewarded, self.n = [], [], 0
        self.is_made = False
        self.configure()

    def path(self, part=None):
        return tenant_path(self.name, part)

    def write(self, method, path, body, **more):
        return self.judge.write(method, path, body, self.name, **more)

    # ---- what it is made of --------------------------------------------------------------------------------------------

    def configure(self):
        """Until a configuration is taken; those that do not fit together are refused."""
        for _ in range(40):
            body = configuration(self.rng, self.dims, self.temper, self.traffic)
            send = self.write if self.is_made else lambda *a: self.judge.send(*a)
            answer = send("PUT", self.path(), body)
            self.judge.hold(answer.status in (200, 201, 400, 409, 422), "of a configuration")
            if answer.status < 300:
                self.is_made = True
                self.judge.settled(self.name)
                return
        self.judge.hold(self.is_made, "no configuration was taken")

    def vector(self, dim):
        return [self.temper.number() for _ in range(self.dims[dim])]

    def context(self):
        return {"context": self.vector("context_dim")} if self.dims["context_dim"] else {}

    def arm(self, name):
        return {"id": name, **({"features": self.vector("arm_dim")} if self.dims["arm_dim"] else {})}

    def put_arms(self):
        self.write("PUT", self.path("arms"), {"arms": [self.arm(f"a{i}") for i in range(self.rng.choice((1, 3, 4)))]})

    def patch_arms(self):
        self.write("PATCH", self.path("arms"), {"arms": [self.arm(self.rng.choice(("a0", "a1", "new")))]})

    def edges(self, n):
        pairs = self.rng.sample([(u, v) for i, u in enumerate(USERS) for v in USERS[i + 1:]], n)
        return [[u, v, self.temper.weight()] for u, v in pairs]

    def put_graph(self):
        self.write("PUT", self.path("graph"), {"edges": self.edges(self.rng.choice((0, 2, 5)))})
        self.judge.settled(self.name)

    def patch_graph(self):
        self.write("PATCH", self.path("graph"), {"add": self.edges(self.rng.choice((1, 2)))})
        self.judge.settled(self.name)

    # ---- traffic -------------------------------------------------------------------------------------------------------

    def user(self):
        return self.rng.choice(USERS)

    def observation(self):
        return {"user": self.user(), "arm": self.arm(f"a{self.rng.randrange(4)}"), "reward": self.temper.number(), **self.context()}

    def observe(self):
        for _ in range(self.rng.choice((1, 2, 5))):
            self.write("POST", "/observe", self.observation())

    def observe_many(self):
        self.write("POST", "/observe", None, lines=[self.observation() for _ in range(self.rng.choice((2, 7)))])

    def decide(self):
        for _ in range(self.rng.choice((1, 3))):
            body = {"user": self.user(), "explain": self.rng.random() < 0.7, **self.context()}
            if self.rng.random() < 0.5:
                body["candidates"] = [self.arm(f"a{i}") for i in range(self.rng.choice((1, 2, 4)))]
            if self.rng.random() < 0.3:
                self.n += 1
                body["decision"] = f"d{self.n}"
            if self.rng.random() < 0.2:
                body["top"] = 2
            if self.rng.random() < 0.2:
                body["dry_run"] = True
            answer = self.judge.select(self.name, body)
            self.judge.hold(answer.status in (200, 400, 409), "of a decision")
            if answer.status == 200 and not body.get("dry_run"):
                self.open.append(answer.json["decision"])

    def pay(self, known):
        return {"decision": self.rng.choice(known) if known else "nobody's", "reward": self.temper.number()}

    def reward(self):
        one = self.pay(self.open)
        if self.write("POST", "/reward", one).status == 200:
            self.rewarded.append(one["decision"])

    def correct(self):
        for _ in range(self.rng.choice((1, 4))):
            self.write("POST", "/reward", self.pay(self.rewarded))

    def reward_many(self):
        self.write("POST", "/reward", [self.pay(self.open) for _ in range(3)])

    # ---- what is done to it --------------------------------------------------------------------------------------------

    def erase(self):
        answer = self.judge.send("DELETE", self.path(f"users/{self.user()}"))
        self.judge.hold(answer.status in (200, 404, 503), "of an erasure")

    def rebuild(self):
        self.judge.send("POST", self.path("rebuild"), expect=200)
        self.judge.settled(self.name)

    def compact(self):
        self.judge.send("POST", self.path("compact"), {"keep_events": self.rng.choice((0, 3))}, expect=200)

    def verify(self):
        self.judge.verified(self.name)

    def read(self):
        for part in (None, "graph", "arms", "model", "stats", "challengers", "limits"):
            self.judge.send("GET", self.path(part), expect=200)
        self.judge.send("GET", "/metrics", expect=200)
        self.judge.send("GET", "/tenants", expect=200)

    @staticmethod
    def is_too_large(answer):
        """Kernels that cannot compute with what the tenant has learned in the meantime (decision 0047)."""
        return answer.status == 422 and "too large for these kernels" in answer.json["detail"]

    def promote(self):
        view = self.judge.send("GET", self.path()).json
        for name in list(view["configuration"]["challengers"])[:1]:
            answer = self.judge.send("POST", self.path("promote"), {"challenger": name})
            self.judge.hold(answer.status in (200, 409) or self.is_too_large(answer), "of a promotion")
            self.judge.settled(self.name)

    def roll_back(self):
        answer = self.judge.send("POST", self.path("rollback"), {})
        self.judge.hold(answer.status in (200, 409) or self.is_too_large(answer), "of a rollback")
        self.judge.settled(self.name)

    def let_follow(self):
        """A moment for challengers, and for windows to close."""
        time.sleep(0.6)
        self.judge.send("GET", self.path("challengers"), expect=200)

    def replay(self):
        """The own log under another configuration: in place, or sent."""
        first = {"type": "replay", "configuration": {**model(self.rng, self.dims), **self.dims}}
        if self.rng.random() < 0.5:
            answer = self.judge.send("POST", self.path("replay"), lines=[{**first, "log": "own"}])
        else:
            log = self.judge.send("GET", self.path("export"), expect=200).content
            answer = self.judge.send("POST", self.path("replay"), raw=json.dumps(first).encode() + b"\n" + log, kind=NDJSON)
        self.judge.hold(answer.status in (200, 400, 422), "of a replay")
        if answer.status == 200:
            last = json.loads(answer.text.splitlines()[-1])
            self.judge.hold(last["type"] == "report" or last["problem"]["status"] < 500, "of a replay")

    # ---- what it is beyond this process --------------------------------------------------------------------------------

    def digest(self):
        self.judge.settled(self.name)
        return self.judge.send("GET", self.path("model"), expect=200).json["digest"]

    def move(self):
        """As lines and as a file: what the server wrote it takes in again."""
        self.judge.settled(self.name)
        for part, send, kind in (("export", ("POST", "import"), NDJSON), ("snapshot", ("PUT", "snapshot"), SQLITE)):
            out = self.judge.send("GET" if part == "export" else "POST", self.path(part), expect=200)
            self.judge.said[-1] = self.judge.said[-1][:200]
            other = f"{self.name}-{part}"
            taken = self.judge.send(send[0], tenant_path(other, send[1]), raw=out.content, kind=kind, expect=201)
            self.judge.hold(taken.json["digest"] == out.headers["Laplaced-Digest"], "the copy is another model")
            self.judge.select(other, {"user": "ann", "candidates": [self.arm("a0"), self.arm("a1")], "explain": True, **self.context()})
            self.judge.verified(other)
            self.judge.send("DELETE", tenant_path(other), expect=204)

    def die(self):
        before = self.digest()
        self.judge.restart(*self.rng.choice(((), ("--open-all",))))
        lost = self.traffic["durability"] == "relaxed" or "reward_window_s" in self.traffic
        self.judge.hold(lost or self.digest() == before, "another model after kill -9")

    def step(self):
        name = self.rng.choices(list(SHARES), list(SHARES.values()))[0]
        self.judge.said.append(f"# {name}")
        getattr(self, name)()
        self.judge.witness()


SHARES = {"put_arms": 3, "patch_arms": 2, "put_graph": 3, "patch_graph": 3, "observe": 14, "observe_many": 6, "decide": 14, "reward": 8, "correct": 4,
          "reward_many": 3, "erase": 3, "rebuild": 3, "compact": 2, "verify": 4, "read": 2, "promote": 1, "roll_back": 1, "let_follow": 1, "replay": 2,
          "move": 3, "die": 2, "configure": 5}
