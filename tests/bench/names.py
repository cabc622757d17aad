"""What named features cost: the server's CPU of a decision among 20 actions of 8 named features each, beside the same decision among arms
of the catalogue that have the same hashed vectors, and beside the vectors inline. In turns within one run, and the least of each: what else the
machine does adds to all of them.

  python3 tests/bench/names.py OUT FILE [--dims D D] [--history N] [--turns N] [--seconds S] [--clients N] [--real]
      OUT: a build folder such as build/release; FILE: where JSON lines go

Each tenant (`ek-ucb`) has learned --history observations with named features. Requests have a context of 8 named features in all cases but
`vectors`, and are dry runs, so that what is counted is reading, mapping, deciding and answering, and no commit. Arm factors of the catalogue
are kept, as they are wherever decisions are real. With --real they are: what a decision costs that is in the log when it is answered.

  named      20 actions with an object of 8 features each
  catalogue  20 ids of the catalogue, whose arms were put with such objects
  vectors    20 actions with the vector of `dim` numbers that the object becomes, and the context's
"""
import argparse
import json
import pathlib
import random
import tempfile

from checks import Server
from lines import Lines
from loop import call, load

ARMS, ACTIONS, USERS = 200, 20, 100
KINDS = ("named", "catalogue", "vectors")


class World:
    def __init__(self, server, tenant, dim):
        self.server, self.tenant, self.random = server, tenant, random.Random(dim)
        self.arms = [self.features(i) for i in range(ARMS)]
        call(server, "PUT", f"/tenants/{tenant}", {"algorithm": "ek-ucb", "features": {"mapping": "names-1", "dim": dim}})
        call(server, "PUT", f"/tenants/{tenant}/arms", {"arms": [{"id": f"a{i}", "features": f} for i, f in enumerate(self.arms)]})
        self.vectors = {a["id"]: a["features"] for a in json.loads(call(server, "GET", f"/tenants/{tenant}/arms"))["arms"]}

    def features(self, i):
        rng = self.random
        return {"article": {"topic": rng.choice(("sport", "politics", "weather", "science")), "language": rng.choice(("en", "de", "fr")), "age_h": rng.randint(0, 72),
                            "words": rng.randint(50, 5000)},
                "source": {"name": f"paper{i % 17}", "rank": round(rng.random(), 3)}, "breaking": rng.random() < 0.1, "position": i % 10}

    def context(self):
        rng = self.random
        return {"device": rng.choice(("phone", "desk", "tablet")), "hour": rng.randint(0, 23), "weekday": rng.choice(("mon", "tue", "sat")), "premium": rng.random() < 0.3,
                "user": {"age": rng.randint(16, 90), "country": rng.choice(("at", "de", "fr", "it")), "visits": rng.randint(1, 400), "language": rng.choice(("en", "de"))}}

    def learn(self, n):
        lines = [{"user": f"u{i % USERS}", "context": self.context(), "arm": f"a{self.random.randrange(ARMS)}", "reward": round(self.random.random(), 3)} for i in range(n)]
        call(self.server, "POST", "/observe", "\n".join(map(json.dumps, lines)).encode(), self.tenant)

    def settle(self):
        """A decision that misses arm factors of the catalogue, and two more behind which the writer lays them out: dry runs alone would never have them."""
        for _ in range(3):
            call(self.server, "POST", "/select", {"user": "u0", "context": self.context()}, self.tenant)

    def bodies(self, n, is_real):
        """The same decisions in each of the kinds. A context's vector is read from what an observation of it has in the log."""
        probe, out, dry = f"{self.tenant}-probe", {kind: [] for kind in KINDS}, {} if is_real else {"dry_run": True}
        dim = len(self.vectors["a0"])
        call(self.server, "PUT", f"/tenants/{probe}", {"algorithm": "random", "features": {"mapping": "names-1", "dim": dim}})
        contexts = [self.context() for _ in range(n)]
        lines = [{"user": "u", "context": c, "arm": {"id": "a", "features": {}}, "reward": 0} for c in contexts]
        call(self.server, "POST", "/observe", "\n".join(map(json.dumps, lines)).encode(), probe)
        told = [json.loads(line) for line in call(self.server, "GET", f"/tenants/{probe}/events?limit=100000").splitlines()]
        for context, event in zip(contexts, [e for e in told if e["type"] == "observed"]):
            chosen, common = self.random.sample(range(ARMS), ACTIONS), {"user": f"u{self.random.randrange(USERS)}", **dry}
            out["named"].append({**common, "context": context, "candidates": [{"id": f"a{i}", "features": self.arms[i]} for i in chosen]})
            out["catalogue"].append({**common, "context": context, "candidates": [f"a{i}" for i in chosen]})
            out["vectors"].append({**common, "context": event["context"], "candidates": [{"id": f"a{i}", "features": self.vectors[f"a{i}"]} for i in chosen]})
        return out


def measure(args, server, folder, write, dim):
    world = World(server, f"names-{dim}", dim)
    world.learn(args.history)
    world.settle()
    files, model = {}, json.loads(call(server, "GET", f"/tenants/{world.tenant}/model"))
    for kind, bodies in world.bodies(64, args.real).items():
        files[kind] = folder / f"{kind}-{dim}"
        files[kind].write_text("".join(json.dumps(b, separators=(",", ":")) + "\n" for b in bodies))
    cpu = {kind: [] for kind in KINDS}
    for turn in range(args.turns):
        for kind in KINDS:
            one = load(args.out, server, "/select", files[kind], tenant=world.tenant, clients=args.clients, seconds=args.seconds)
            cpu[kind].append(one["http_threads_us"] + one["other_threads_us"])
            write({"bench": "names", "dim": dim, "kind": kind, "turn": turn, "cpu_us": round(cpu[kind][-1], 2), "body_bytes": files[kind].stat().st_size // 64, **{k: one[k] for k in ("answered", "refused")}})
    least = {kind: min(cpu[kind]) for kind in KINDS}
    write({"bench": "names", "dim": dim, "is_real": args.real, "actions": ACTIONS, "points": len(model["dictionary"]), **{f"{kind}_us": round(m, 1) for kind, m in least.items()},
           "named_over_catalogue": round(least["named"] / least["catalogue"], 3), "vectors_over_catalogue": round(least["vectors"] / least["catalogue"], 3)})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--dims", type=int, nargs="+", default=[256])
    parser.add_argument("--history", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--real", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Lines(args.file, is_shown=True) as write:
        folder = pathlib.Path(name)
        server = Server(args.out, folder / "data")
        try:
            for dim in args.dims:
                measure(args, server, folder, write, dim)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
