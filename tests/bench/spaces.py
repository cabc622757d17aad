"""What weights of namespaces are worth (docs/FEATURES.md): one namespace of six values tells the reward, four of 24 values each tell nothing.
Three arms; `laplaced-by-arm` under names-1 and under names-2, which weighs the namespaces.

  python3 tests/bench/spaces.py OUT FILE [--seeds N] [--rewards N N] [--decisions N]      OUT: a build folder such as build/release; FILE: where JSON lines go

error   both are taught the same observations; the root mean squared error of the mean that they foretell for contexts that were not seen
regret  of --decisions decisions, each with its reward at once
Worlds, contexts and rewards are drawn from the seed before anybody plays."""
import argparse
import json
import math
import pathlib
import random
import statistics
import tempfile

from checks import Server
from lines import Lines
from loop import call

ARMS, VALUES, NOISE = "xyz", "pqrstu", ("n1", "n2", "n3", "n4")
MAPPINGS = {"names-1": {"mapping": "names-1"}, "names-2": {"mapping": "names-2", "namespaces": {name: 48 for name in ("tells", *NOISE)}}}
ASKED = 40


class World:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.truth = {arm: {v: self.random.random() for v in VALUES} for arm in ARMS}

    def context(self):
        return {"tells": {"k": self.random.choice(VALUES)}, **{n: {"k": f"v{self.random.randrange(12)}", "m": f"w{self.random.randrange(12)}"} for n in NOISE}}

    def mean(self, arm, context):
        return self.truth[arm][context["tells"]["k"]]


def make(server, tenant, mapping, seed):
    call(server, "PUT", f"/tenants/{tenant}", {"algorithm": "laplaced-by-arm", "seed": seed, "features": {**mapping, "dim": 256}})
    call(server, "PUT", f"/tenants/{tenant}/arms", {"arms": [{"id": arm, "features": {}} for arm in ARMS]})


def error(server, tenant, seed, n):
    world = World(seed)
    told = [(world.context(), world.random.choice(ARMS), world.random.random()) for _ in range(n)]
    lines = [json.dumps({"user": "u", "context": c, "arm": arm, "reward": float(u < world.mean(arm, c))}) for c, arm, u in told]
    for i in range(0, n, 20):  # as refits fall due
        call(server, "POST", "/observe", "\n".join(lines[i:i + 20]).encode(), tenant)
    off = []
    for _ in range(ASKED):
        context = world.context()
        means = json.loads(call(server, "POST", f"/tenants/{tenant}/posterior", {"users": ["u"], "arms": list(ARMS), "context": context}))["mean"][0]
        off += [(mean - world.mean(arm, context)) ** 2 for arm, mean in zip(ARMS, means)]
    return math.sqrt(statistics.mean(off))


def regret(server, tenant, seed, n):
    world, lost = World(seed), 0.0
    for i in range(n):
        context, u = world.context(), world.random.random()
        arm = json.loads(call(server, "POST", "/select", {"user": "u", "context": context, "decision": f"d{i}"}, tenant))["arm"]
        call(server, "POST", "/reward", {"decision": f"d{i}", "reward": float(u < world.mean(arm, context))}, tenant)
        lost += max(world.mean(a, context) for a in ARMS) - world.mean(arm, context)
    return lost


def measure(args, server, write, what, run, n):
    found = {}
    for kind, mapping in MAPPINGS.items():
        for seed in range(args.seeds):
            tenant = f"{what}-{n}-{kind}-{seed}"
            make(server, tenant, mapping, seed)
            found.setdefault(kind, []).append(run(server, tenant, seed, n))
            weights = json.loads(call(server, "GET", f"/tenants/{tenant}/model"))["scales"].get("namespaces")
            write({"bench": "spaces", "what": what, "n": n, "kind": kind, "seed": seed, "value": round(found[kind][-1], 4), "weights": weights})
    pairs = list(zip(*found.values()))
    write({"bench": "spaces", "what": what, "n": n, **{kind: round(statistics.mean(v), 4) for kind, v in found.items()}, "better": sum(a > b for a, b in pairs), "of": args.seeds})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--rewards", type=int, nargs="*", default=[100, 300])
    parser.add_argument("--decisions", type=int, default=400)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Lines(args.file, is_shown=True) as write:
        server = Server(args.out, pathlib.Path(name) / "data", "--finish-builds")
        try:
            for n in args.rewards:
                measure(args, server, write, "error", error, n)
            if args.decisions > 0:
                measure(args, server, write, "regret", regret, args.decisions)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
