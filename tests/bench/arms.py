"""What a model that holds arms apart costs beside one mean for each arm: the server's CPU of decisions and rewards by
`laplaced-by-arm` beside `ucb`, in turns within one run, so that each figure is a ratio.

  python3 tests/bench/arms.py OUT FILE [--presets A B] [--arms N N] [--history N] [--turns N] [--rewards N] [--catalogue N] [--seen N] [--features PRESET]
      OUT: a build folder such as build/release; FILE: where JSON lines go

A graph of 1,892 users, twelve friends each; 20 candidates by name; a third of the users like an arm five times as much as the rest do, and arms
differ by a factor of up to sixteen. Each tenant has decided and been rewarded --history times by its own rule, and is durable.

  select, reward   closed loops of 64 clients and of one, CPU by the scheduler's count; rewards are those of decisions made outside of the time
  catalogue        decisions over all of --catalogue arms, of which --seen were learned at
  features         decisions over as many arms with 16 features by --features, a dictionary of 256 points, beside one matrix product of that
                   size: the arms' features by those of the points
"""
import argparse
import ctypes
import http.client
import json
import os
import pathlib
import random
import shutil
import statistics
import tempfile
import threading
import time
import urllib.parse

from checks import Server
from lines import Lines
from loop import BODIES, PATIENCE_S, call, load

USERS = 1892
CANDIDATES = 20
CLIENTS = (64, 1)
FEATURES, POINTS = 16, 256
PLAYERS = 16  # connections that play the history


class World:
    def __init__(self, n_arms, folder):
        self.n_arms, self.folder, self.random = n_arms, folder, random.Random(n_arms)
        self.rate = [0.02 + 0.3 * self.random.random() ** 3 for _ in range(n_arms)]

    def select(self, **more):
        arms = self.random.sample(range(self.n_arms), CANDIDATES)
        return {"user": f"u{self.random.randrange(USERS)}", "candidates": [f"a{a}" for a in arms], **more}

    def reward(self, user, arm):
        u, a = int(user[1:]), int(arm[1:])
        return int(self.random.random() < self.rate[a] * (2.2 if (u // 100 + a) % 3 == 0 else 0.4))

    def write(self, name, bodies):
        path = self.folder / name
        path.write_text("".join(json.dumps(b, separators=(",", ":")) + "\n" for b in bodies))
        return path


def edges():
    rng = random.Random(2)
    pairs = {tuple(sorted((u, (u + k) % USERS if k <= 3 else rng.randrange(USERS)))) for u in range(USERS) for k in range(1, 7)}
    return "".join(json.dumps([f"u{u}", f"u{v}"]) + "\n" for u, v in sorted(pairs) if u != v).encode()


def play(server, tenant, world, n):
    """n rounds, by a few connections at a time."""
    host, left, lock = urllib.parse.urlparse(server.url).netloc, iter(range(n)), threading.Lock()
    head, failed = {"Content-Type": "application/json", "Laplaced-Tenant": tenant}, []

    def ask(connection, path, body):
        connection.request("POST", path, json.dumps(body), head)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status not in (200, 202):
            raise RuntimeError(f"{path}: {answer.status} {text.decode()[:300]}")
        return json.loads(text)

    def player():
        connection = http.client.HTTPConnection(host, timeout=PATIENCE_S)
        try:
            while True:
                with lock:
                    if next(left, None) is None:
                        return
                    body = world.select()
                said = ask(connection, "/select", body)
                with lock:
                    reward = world.reward(body["user"], said["arm"])
                ask(connection, "/reward", {"decision": said["decision"], "reward": reward})
        except Exception as e:
            failed.append(e)

    players = [threading.Thread(target=player) for _ in range(PLAYERS)]
    for p in players:
        p.start()
    for p in players:
        p.join()
    if failed:
        raise SystemExit(f"{tenant}: {failed[0]}")


def product_us(n):
    """CPU of one product of n x FEATURES by FEATURES x POINTS, on one core: the best of five."""
    blas, i, d = ctypes.CDLL("libopenblas.so.0"), ctypes.c_int, ctypes.c_double
    blas.openblas_set_num_threads(1)
    a, b, c = ((d * size)(*[0.5] * size) for size in (n * FEATURES, FEATURES * POINTS, n * POINTS))
    least = float("inf")
    for _ in range(5):
        began = time.process_time()
        blas.cblas_dgemm(i(102), i(111), i(111), i(n), i(POINTS), i(FEATURES), d(1), a, i(n), b, i(FEATURES), d(0), c, i(n))  # by columns
        least = min(least, time.process_time() - began)
    return least * 1e6


class Bench:
    def __init__(self, args, folder, emit):
        self.args, self.folder, self.emit, self.out = args, folder, emit, args.out.resolve()
        self.server = Server(self.out, folder / "data")
        self.graph = edges()

    def put(self, preset, tenant, users=True):
        call(self.server, "PUT", f"/tenants/{tenant}", {"algorithm": preset})
        if users:
            call(self.server, "PUT", f"/tenants/{tenant}/graph", self.graph)

    def cpu(self, path, file, **options):
        one = load(self.out, self.server, path, file, **options)
        return one["http_threads_us"] + one["other_threads_us"]

    def once(self, tenant, world, clients, turn):
        """{select, reward} in us of CPU."""
        n, some = self.args.rewards, {"tenant": tenant, "clients": clients, "seconds": PATIENCE_S}
        ids = [f"{clients}-{turn}-{i}" for i in range(n)]
        made = world.write("made", (world.select(decision=i) for i in ids))
        self.cpu("/select", made, **{**some, "clients": 16}, limit=n)
        plain = world.write("plain", (world.select() for _ in range(BODIES)))
        return {"select": self.cpu("/select", plain, **some, limit=4 * n),
                "reward": self.cpu("/reward", world.write("reward", ({"decision": i, "reward": int(world.random.random() < 0.15)} for i in ids)),
                                   **some, limit=n)}

    def listed(self, n_arms):
        """Ratios of decisions and rewards with n_arms arms, by number of clients."""
        worlds = {preset: World(n_arms, self.folder) for preset in self.args.presets}
        for preset, world in worlds.items():
            self.put(preset, f"{preset}-{n_arms}")
            play(self.server, f"{preset}-{n_arms}", world, self.args.history)
        for clients in CLIENTS:
            found = []
            for turn in range(self.args.turns):
                found.append({preset: self.once(f"{preset}-{n_arms}", world, clients, turn) for preset, world in worlds.items()})
                for preset in worlds:
                    self.emit({"bench": "arms", "arms": n_arms, "clients": clients, "turn": turn, "preset": preset, "cpu_us": found[-1][preset]})
            self.verdict(f"{n_arms} arms, {clients} client{'s' * (clients > 1)}", found)

    def catalogue(self):
        arms = "".join(json.dumps({"id": f"a{a}"}) + "\n" for a in range(self.args.catalogue)).encode()
        rng, found = random.Random(3), []
        seen = "".join(json.dumps({"user": f"u{rng.randrange(USERS)}", "arm": f"a{a}", "reward": int(rng.random() < 0.2)}) + "\n"
                       for a in rng.sample(range(self.args.catalogue), self.args.seen)).encode()
        world = World(1000, self.folder)
        plain = world.write("whole", ({"user": f"u{world.random.randrange(USERS)}"} for _ in range(BODIES)))
        for preset in self.args.presets:
            self.put(preset, f"{preset}-whole")
            call(self.server, "PUT", f"/tenants/{preset}-whole/arms", arms)
            call(self.server, "POST", "/observe", seen, f"{preset}-whole")
        for turn in range(self.args.turns):
            found.append({preset: {"select": self.cpu("/select", plain, tenant=f"{preset}-whole", clients=4, limit=60, seconds=PATIENCE_S)}
                          for preset in self.args.presets})
            for preset in self.args.presets:
                self.emit({"bench": "catalogue", "arms": self.args.catalogue, "seen": self.args.seen, "turn": turn, "preset": preset,
                           "cpu_us": found[-1][preset]})
        self.verdict(f"a catalogue of {self.args.catalogue:,} arms, {self.args.seen:,} seen", found)

    def features(self):
        preset, rng, n = self.args.features, random.Random(4), self.args.catalogue
        tenant, rows = f"{preset}-features", [[round(rng.gauss(0, 1), 3) for _ in range(FEATURES)] for _ in range(n)]
        call(self.server, "PUT", f"/tenants/{tenant}", {
            "algorithm": preset, "arm_dim": FEATURES, "arm_kernel": {"type": "rbf", "lengthscale": 2},
            "representation": {"type": "kors", "max_dictionary": POINTS, "gamma": 100}})
        call(self.server, "PUT", f"/tenants/{tenant}/arms",
             "".join(json.dumps({"id": f"a{a}", "features": x}) + "\n" for a, x in enumerate(rows)).encode())
        call(self.server, "POST", "/observe", "".join(json.dumps({"user": "u", "arm": f"a{a}", "reward": round(rows[a][0], 3)}) + "\n"
                                                      for a in rng.sample(range(n), min(n, 4 * POINTS))).encode(), tenant)
        plain, found = World(1000, self.folder).write("whole", [{"user": "u"}]), []
        for turn in range(self.args.turns):
            us = {preset: {"select": self.cpu("/select", plain, tenant=tenant, clients=1, limit=3, seconds=PATIENCE_S)},
                  "product": {"select": product_us(n)}}
            found.append(us)
            self.emit({"bench": "features", "arms": n, "turn": turn, "cpu_us": us})
        points = json.loads(call(self.server, "POST", "/select", {"user": "u", "dry_run": True}, tenant))["model"]["dictionary"]
        self.verdict(f"a catalogue of {n:,} arms with {FEATURES} features, {points} points", found, ("product", preset))

    def verdict(self, what, turns, presets=None):
        base, other = presets or self.args.presets
        for kind in turns[0][base]:
            us = {preset: statistics.median(t[preset][kind] for t in turns) for preset in (base, other)}
            ratios = [t[other][kind] / t[base][kind] for t in turns]
            self.emit({"bench": "ratio", "what": what, "kind": kind, "presets": [base, other], "cpu_us": us, "ratio": statistics.median(ratios),
                       "ratios": ratios})
            print(f"| {kind}, {what} | {us[base]:.1f} | {us[other]:.1f} | {statistics.median(ratios):.2f} |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--presets", nargs=2, default=["ucb", "laplaced-by-arm"])
    p.add_argument("--arms", type=int, nargs="*", default=[200, 1000])
    p.add_argument("--history", type=int, default=8000, help="rounds behind each tenant")
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--rewards", type=int, default=300, help="of a turn; four times as many decisions")
    p.add_argument("--catalogue", type=int, default=100_000, help="arms of the whole catalogue; 0: none")
    p.add_argument("--seen", type=int, default=5000)
    p.add_argument("--features", default="laplaced", help="preset of the catalogue with features; empty: none")
    args = p.parse_args()
    with Lines(args.file) as emit:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-arms-", dir=args.file.parent))
        bench = Bench(args, folder, emit)
        try:
            print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n"
                  f"| CPU a request, us | {args.presets[0]} | {args.presets[1]} | ratio |\n|---|---|---|---|", flush=True)
            for n_arms in args.arms:
                bench.listed(n_arms)
            if args.catalogue > 0:
                bench.catalogue()
            if args.catalogue > 0 and args.features:
                bench.features()
        finally:
            bench.server.stop()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
