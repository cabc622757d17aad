"""Many small tenants beside a large one: what those who ask once a second wait for while another one takes all it can get.

  python3 tests/bench/tenants.py OUT FILE [--tenants N] [--seconds S] [--rounds N] [--clients N]
      OUT: a build folder such as build/release; FILE: where JSON lines go

Each tenant has its own file, and a decision of each is a commit of its own: no group is formed across tenants. A round has three
runs, in this order and then back, so that a machine that changes during it changes for all:

  idle    the small tenants in turn, 20 decisions a second in all: nothing else happens
  crowd   each small tenant one decision a second (Poisson), in an open loop
  beside  the same, while a large tenant (a KORS dictionary, candidates with features in each body) is asked by a closed loop of
          --clients, without a pause

Latencies count from the schedule (bench_load.c). The verdict is the ratio of the 99th percentiles, beside to idle, by the median of the rounds."""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from checks import Server
from commit import raw_rate
from room import PATIENCE_S, Traffic, call

IDLE_RATE = 20
BAR = 3.0


def furnish(server, args, traffic):
    for i in range(args.tenants):
        call(server, "PUT", f"/tenants/small-{i}", {"algorithm": "ucb"})
    call(server, "PUT", "/tenants/large", {"algorithm": "ek-ucb", "arm_dim": args.d, "arm_kernel": {"type": "rbf", "lengthscale": 2},
                                           "representation": {"type": "kors", "max_dictionary": args.m, "gamma": 100}})
    lines = "".join(json.dumps(traffic.observation("kors")) + "\n" for _ in range(args.t))
    call(server, "POST", "/observe", lines.encode(), "large")


class Load:
    """bench_load beside us."""
    def __init__(self, args, server, bodies, *more):
        self.process = subprocess.Popen([str(args.out / "tests/bench/bench_load"), server.url.rpartition(":")[2], "POST", "/select", str(bodies),
                                         *map(str, more)], stdout=subprocess.PIPE, text=True)

    def result(self, patience_s):
        told = self.process.communicate(timeout=patience_s)[0]
        if self.process.returncode != 0:
            raise SystemExit(f"bench_load: {told}")
        return json.loads(told)


def run(args, server, files, kind):
    cpu = server.cpu_s()
    large = Load(args, server, files["large"], "--tenant", "large", "--clients", args.clients, "--seconds", args.seconds + 1) if kind == "beside" else None
    small = Load(args, server, files["small"], "--tenant", "small", "--tenants", args.tenants, "--clients", 64, "--seconds", args.seconds,
                 "--rate", IDLE_RATE if kind == "idle" else args.tenants)
    told = small.result(args.seconds + PATIENCE_S)
    found = {"run": kind, "cpu_us": (server.cpu_s() - cpu) * 1e6 / told["answered"],
             **{k: told[k] for k in ("answered", "rate", "latency_p50_us", "latency_p99_us", "latency_p999_us", "latency_max_us", "late_p99_us")}}
    if large is not None:
        found["large_rate"] = large.result(args.seconds + PATIENCE_S)["rate"]
    return found


def measure(args, folder, emit):
    server, traffic = Server(args.out, folder / "data"), Traffic(args, folder)
    core = (folder / "data.log").read_text().partition("OpenBLAS kernels: ")[2].split('"')[0]
    rounds = []
    try:
        furnish(server, args, traffic)
        files = {"small": traffic.write("small", ({"user": f"u{i % 50}", "candidates": ["a", "b", "c"]} for i in range(args.tenants))),
                 "large": traffic.selects("kors", "large")}
        emit({"bench": "fdatasync", "kind": "append", "rate": raw_rate(folder, True, 1)})
        run(args, server, files, "crowd")  # opens them all
        for _ in range(args.rounds):
            rows = [run(args, server, files, kind) for kind in ("idle", "crowd", "beside", "crowd", "idle")]
            for row in rows:
                emit({"bench": "tenants", "tenants": args.tenants, "blas_core": core, **row})
            p99 = {kind: statistics.mean(r["latency_p99_us"] for r in rows if r["run"] == kind) for kind in ("idle", "crowd", "beside")}
            rounds.append({"crowd": p99["crowd"] / p99["idle"], "beside": p99["beside"] / p99["idle"]})
    finally:
        server.stop()
    verdict = {kind: statistics.median(r[kind] for r in rounds) for kind in ("crowd", "beside")}
    emit({"bench": "tenants", "verdict": {k: round(v, 2) for k, v in verdict.items()}, "rounds": rounds, "bar": BAR, "blas_core": core})


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--tenants", type=int, default=1000)
    p.add_argument("--seconds", type=float, default=5.0, help="of one run")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--clients", type=int, default=16, help="of the large tenant")
    p.add_argument("-m", type=int, default=256)
    p.add_argument("-C", type=int, default=20)
    p.add_argument("-d", type=int, default=16)
    p.add_argument("-t", type=int, default=1000)
    args = p.parse_args()
    args.out = args.out.resolve()
    args.file.parent.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-tenants-", dir=args.file.parent))
    try:
        with open(args.file, "w") as file:
            def emit(line):
                file.write(json.dumps(line) + "\n")
                file.flush()
                print(json.dumps(line))
            measure(args, folder, emit)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
