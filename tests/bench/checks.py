"""What the front door costs: the server beside itself without its checks (linked with tests/bench/unchecked.c), both over
loopback, with the same load, in turns.

  python3 tests/bench/checks.py CHECKED UNCHECKED FILE [--rounds N] [--lines N] [--clients N]
      the two: folders with laplaced and laplacectl; FILE: where JSON lines go

The checked server has a hundred keys, of which the load uses a tenant's, and a rate for its tenants that is never used up.
A run is a closed loop of /select and /reward on kept connections (laplacectl replay) into a new tenant; what counts is the
server's CPU time per request. A round is checked, unchecked, unchecked, checked, so that a machine that slows down during
it slows both; its ratio is of the sums, the verdict their median. Durable tenants, and relaxed ones, which answer before
the commit."""
import argparse
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

from lines import Lines

N_KEYS = 100
START_S = 20
BAR = 1.05
ORDER = ("checked", "unchecked", "unchecked", "checked")


class Server:
    def __init__(self, out, folder, *args):
        self.ctl = str(out / "laplacectl")
        self.log = open(folder.with_suffix(".log"), "wb")
        self.process = subprocess.Popen([str(out / "laplaced"), "--data", str(folder), "--listen", "127.0.0.1:0", *args],
                                        stdout=subprocess.PIPE, stderr=self.log)
        words = self.process.stdout.readline().decode().split()
        if len(words) < 4:
            raise SystemExit(f"no server: see {folder.with_suffix('.log')}")
        self.url, self.admin = words[3], None

    def run(self, *args, key=None, stdin=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith("LAPLACED_")}
        if key or self.admin:
            env["LAPLACED_KEY"] = key or self.admin
        done = subprocess.run([self.ctl, "--server", self.url, *args], capture_output=True, input=stdin, env=env)
        if done.returncode != 0:
            raise SystemExit(f"laplacectl {' '.join(args)}: {done.stderr.decode()}")
        return done.stdout.decode()

    def make_keys(self):
        self.admin = self.run("key", "create", "--label", "bench").split()[0]
        for i in range(N_KEYS - 1):
            self.run("key", "create", "--role", "metrics", "--label", f"k{i}")

    def cpu_s(self):
        """Of all its threads, to the nanosecond: CPUCLOCK_SCHED of the process (clock_getcpuclockid)."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def stop(self):
        self.process.terminate()
        self.process.wait(START_S)
        self.log.close()


def traffic(path, n):
    """Full information: 200 users, four arms, the reward follows user and arm."""
    with open(path, "w") as file:
        for i in range(n):
            x = (i * 7919) % 200
            rewards = {"a": x / 200, "b": 1 - x / 200, "c": 0.5, "d": 0.1}
            file.write(json.dumps({"user": f"u{x}", "rewards": rewards}) + "\n")


def drive(server, tenant, durability, clients, file):
    """One closed loop into a new tenant."""
    server.run("tenant", "put", tenant, "-", stdin=json.dumps({"algorithm": "laplaced-kors", "durability": durability}).encode())
    key = server.run("key", "create", "--tenant", tenant, "--role", "decide").split()[0] if server.admin else None
    cpu = server.cpu_s()
    result = json.loads(server.run("--tenant", tenant, "replay", str(file), "--concurrency", str(clients), "--quiet", "--json",
                                   key=key))
    cpu = server.cpu_s() - cpu
    if result["errors"]:
        raise SystemExit(f"{result['errors']} requests failed: no measurement")
    return {"cpu_us": 1e6 * cpu / result["requests"], "requests": result["requests"], "rate": result["requests_per_second"]}


def measure(args, folder, emit):
    """[ratio of each round] by durability."""
    servers = {"checked": Server(args.checked.resolve(), folder / "checked", "--tenant-rate", "1000000000"),
               "unchecked": Server(args.unchecked.resolve(), folder / "unchecked")}
    file = folder / "traffic"
    traffic(file, args.lines)
    ratios = {"commit": [], "relaxed": []}
    try:
        servers["checked"].make_keys()
        for kind, server in servers.items():
            drive(server, "warm", "commit", args.clients, file)
        for round_ in range(args.rounds):
            for durability in ratios:
                sums = dict.fromkeys(servers, 0)
                for i, kind in enumerate(ORDER):
                    one = drive(servers[kind], f"{durability}-{round_}-{i}", durability, args.clients, file)
                    sums[kind] += one["cpu_us"]
                    emit({"bench": "checks", "durability": durability, "round": round_, "kind": kind, "clients": args.clients, **one})
                ratios[durability].append(sums["checked"] / sums["unchecked"])
    finally:
        for server in servers.values():
            server.stop()
    return ratios


def interval(values):
    """Of the median, at 95 %: order statistics, whose ranks are binomial whatever the values are like. Of less than six
    values it is all that there is."""
    x, n, k, tail = sorted(values), len(values), 0, 0.0
    while (tail := tail + math.comb(n, k) / 2 ** n) <= 0.025:
        k += 1
    return x[max(k - 1, 0)], x[min(n - k, n - 1)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("checked", type=pathlib.Path)
    p.add_argument("unchecked", type=pathlib.Path)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--lines", type=int, default=3000, help="of traffic in a run: twice as many requests")
    p.add_argument("--clients", type=int, default=8)
    args = p.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-checks-", dir=args.file.parent))
    try:
        with Lines(args.file) as emit:
            for durability, ratios in measure(args, folder, emit).items():
                middle, (low, high) = statistics.median(ratios), interval(ratios)
                emit({"bench": "checks", "durability": durability, "verdict": middle, "low": low, "high": high, "least": min(ratios),
                      "most": max(ratios), "rounds": len(ratios), "bar": BAR, "is_reached": middle < BAR})
                print(f"{durability}: checked costs {100 * (middle - 1):+.1f} % CPU a request (95 % of such medians: {100 * (low - 1):+.1f} to "
                      f"{100 * (high - 1):+.1f} %); the bar is +5 %: {'reached' if middle < BAR else 'NOT reached'}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
