"""Many small tenants beside a large one: what those who ask once a second wait for while another one takes all it can get.

  python3 tests/bench/tenants.py OUT FILE [--tenants N] [--seconds S] [--rounds N] [--clients N] [-m M] [-C N] [-d D] [-t T]
      OUT: a build folder such as build/release; FILE: where JSON lines go

Each tenant has its own file, and a decision of each is a commit of its own: no group is formed across tenants. A round has these runs, every
other one in the opposite order, so that a machine that changes during it changes for all:

  idle    the small tenants in turn, 100 decisions a second in all: nothing else happens
  crowd   each small tenant one decision a second (Poisson), in an open loop
  beside  the same, while a large tenant (`kors`, loop.py) is asked by a closed loop of --clients, without a pause
  spin    crowd, while a program that has nothing to do with us spins on each core: what a busy processor alone makes of it

and each run thrice, which takes the wait apart: `dry` decisions are answered by the thread of HTTP that computes them, `relaxed` ones once
the tenant's writer has had its turn, `durable` ones once they are on disk.

Latencies count from the schedule (bench_load.c). The load of the small tenants runs at real-time priority where it may (else niced, or as it
is: `prompt` says which), so that what is measured is the server's; `late` is what it still was. `waited` is how long a thread that could run
waited for a processor on average, by the scheduler. The verdict is the ratio of the 99th percentiles of durable decisions, beside to idle, by
the median of the rounds."""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from checks import Server
from commit import raw_rate
from lines import Lines, busy_s
from loop import PATIENCE_S, Traffic, add_sizes, blas_core, call, furnish

IDLE_RATE = 100
BAR = 3.0
RUNS = ("idle", "crowd", "beside", "spin")
KINDS = ("dry", "relaxed", "durable")
KEPT = ("prompt", "answered", "rate", "latency_p50_us", "latency_p99_us", "latency_p999_us", "latency_max_us", "late_p99_us")


def make_small(server, args):
    for i in range(args.tenants):
        for name, durability in (("durable", "commit"), ("relaxed", "relaxed")):
            call(server, "PUT", f"/tenants/{name}-{i}", {"algorithm": "ucb", "durability": durability})


def hurry():
    """In a process that is about to be a load program: ahead of all others, or as far ahead as we may put it."""
    for go in (lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)), lambda: os.setpriority(os.PRIO_PROCESS, 0, -15)):
        try:
            return go()
        except PermissionError:
            continue


def how_prompt(pid):
    """What became of it."""
    if os.sched_getscheduler(pid) == os.SCHED_FIFO:
        return "real time"
    return "niced" if os.getpriority(os.PRIO_PROCESS, pid) < 0 else "no"


class Load:
    """bench_load beside us."""
    def __init__(self, args, server, bodies, *more, prepare=None):
        self.process = subprocess.Popen([str(args.out / "tests/bench/bench_load"), server.url.rpartition(":")[2], "POST", "/select", str(bodies),
                                         *map(str, more)], stdout=subprocess.PIPE, text=True, preexec_fn=prepare)

    def result(self, patience_s):
        told = self.process.communicate(timeout=patience_s)[0]
        if self.process.returncode != 0:
            raise SystemExit(f"bench_load: {told}")
        return json.loads(told)


class Spinners:
    """One on each core."""
    def __enter__(self):
        self.all = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]

    def __exit__(self, *_):
        for p in self.all:
            p.kill()
            p.wait()


def waits(server):
    """{of HTTP?: (ns that threads waited for a processor, how often they got one)}."""
    all_ = {True: [0, 0], False: [0, 0]}
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        of = all_[(task / "comm").read_text().startswith(("http", "MHD"))]
        _, ns, n = map(int, (task / "schedstat").read_text().split())
        of[0] += ns
        of[1] += n
    return all_


def run_small(args, server, file, kind, rate):
    """The open loop of the small tenants."""
    small = Load(args, server, file, "--tenant", "relaxed" if kind == "relaxed" else "durable", "--tenants", args.tenants, "--clients", 64,
                 "--seconds", args.seconds, "--rate", rate, prepare=hurry)
    prompt = how_prompt(small.process.pid)
    return {"prompt": prompt, **small.result(args.seconds + PATIENCE_S)}


def run(args, server, files, name, kind):
    before, cpu, busy = waits(server), server.cpu_s(), busy_s()
    rate = IDLE_RATE if name == "idle" else args.tenants
    large = None
    if name == "spin":
        with Spinners():
            told = run_small(args, server, files[kind], kind, rate)
    else:
        if name == "beside":
            large = Load(args, server, files["large"], "--tenant", "kors-commit", "--clients", args.clients, "--seconds", args.seconds + 1)
        told = run_small(args, server, files[kind], kind, rate)
    ours, after = server.cpu_s() - cpu + told["client_cpu_us"] * told["answered"] / 1e6, waits(server)
    found = {"run": name, "kind": kind, **{k: told[k] for k in KEPT}}
    for of_http, word in ((True, "http"), (False, "others")):
        ns, n = (after[of_http][i] - before[of_http][i] for i in (0, 1))
        found[f"waited_us_{word}"] = round(ns / max(n, 1) / 1e3, 1)
    busy = busy_s() - busy
    if large is not None:
        said = large.result(args.seconds + PATIENCE_S)
        found["large_rate"] = said["rate"]
        ours += told["seconds"] * said["rate"] * said["client_cpu_us"] / 1e6
    found["elsewhere_cores"] = max(0.0, round((busy - ours) / told["seconds"], 2))
    return found


def measure(args, folder, emit):
    """[{(run, kind): figures} of each round]."""
    server, traffic = Server(args.out, folder / "data"), Traffic(args, folder)
    rounds = []
    try:
        make_small(server, args)
        furnish(server, traffic, ("kors",), "commit")
        common = {"bench": "tenants", "tenants": args.tenants, "blas_core": blas_core(folder / "data.log")}
        emit({**common, "kind": "fdatasync", "rate": raw_rate(folder, True, 1)})
        body = {"candidates": ["a", "b", "c"]}
        files = {kind: traffic.write(kind, ({"user": f"u{i % 50}", **body, **({"dry_run": True} if kind == "dry" else {})} for i in range(args.tenants)))
                 for kind in KINDS}
        files["large"] = traffic.selects("kors", "large")
        for kind in ("relaxed", "durable"):
            run(args, server, files, "crowd", kind)  # opens them all
        order = [(name, kind) for name in RUNS for kind in KINDS]
        for round_ in range(args.rounds):
            rounds.append({})
            for name, kind in order if round_ % 2 == 0 else reversed(order):
                rounds[-1][(name, kind)] = one = run(args, server, files, name, kind)
                emit({**common, "round": round_, **one})
    finally:
        server.process.kill()  # a last snapshot of each tenant is not what is measured
        server.process.wait()
    ratios = verdicts(rounds)
    emit({**common, "verdict": {name: round(statistics.median(r), 2) for name, r in ratios.items()}, "rounds": ratios, "bar": BAR,
          "is_reached": statistics.median(ratios["beside"]) <= BAR})
    return rounds


def verdicts(rounds):
    """{run: [its p99 of durable decisions by that of idle, a round]}."""
    p99 = "latency_p99_us"
    return {name: [r[(name, "durable")][p99] / r[("idle", "durable")][p99] for r in rounds] for name in RUNS[1:]}


def print_table(rounds):
    def middle(name, kind, what):
        return statistics.median(r[(name, kind)][what] for r in rounds)
    print("\n| small tenants' decisions | " + " | ".join(f"{k}: p50, p99, ms" for k in KINDS) + " | load late, p99, ms | waited for a processor, us: HTTP, others | elsewhere, cores |")
    print("|---|" + "---|" * (len(KINDS) + 3))
    for name in RUNS:
        cells = " | ".join(f"{middle(name, k, 'latency_p50_us') / 1e3:.2f}, {middle(name, k, 'latency_p99_us') / 1e3:.2f}" for k in KINDS)
        print(f"| {name} | {cells} | {middle(name, 'durable', 'late_p99_us') / 1e3:.2f} | {middle(name, 'durable', 'waited_us_http'):.0f}, "
              f"{middle(name, 'durable', 'waited_us_others'):.0f} | {middle(name, 'durable', 'elsewhere_cores'):.2f} |")
    for name, ratios in verdicts(rounds).items():
        print(f"{name}: p99 {statistics.median(ratios):.1f} times idle ({min(ratios):.1f} to {max(ratios):.1f})" + (f", at most {BAR}" if name == "beside" else ""))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--tenants", type=int, default=1000)
    p.add_argument("--seconds", type=float, default=4.0, help="of one run")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--clients", type=int, default=16, help="of the large tenant")
    add_sizes(p)
    args = p.parse_args()
    args.out = args.out.resolve()
    with Lines(args.file) as emit:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-tenants-", dir=args.file.parent))
        try:
            print_table(measure(args, folder, emit))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
