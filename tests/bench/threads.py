"""What a second serving thread brings one hot tenant: closed loops on a server with `--threads 1` and on one with 2, in turns.

  python3 tests/bench/threads.py OUT FILE [--rounds N] [--seconds S] [--clients N] [-m M] [-C N] [-d D] [-t T]
      OUT: a build folder such as build/release; FILE: where JSON lines go

Decisions of one tenant (loop.py): dry runs, which HTTP's threads answer alone, and durable ones, whose commits take part of the
second core whatever the threads. A round asks 1, 2, 2, 1 threads, so that a machine that changes during it changes for both.

The load runs on the same machine: with n cores no server can answer more than n / (CPU of server and client a request), which
stands beside each figure as its ceiling, with what programs elsewhere left of the cores taken off. The verdict is the median
over the rounds of the ratio of the rates."""
import argparse
import os
import pathlib
import shutil
import statistics
import tempfile

from checks import Server
from lines import Lines
from loop import Traffic, add_sizes, blas_core, furnish, load

ORDER = (1, 2, 2, 1)
ASKED = [(kind, is_dry) for kind in ("kors", "catalogue") for is_dry in (True, False)]
BAR = 1.7


def ceiling(run):
    """Requests a second that this machine, as busy as it was, can serve and ask at what one has cost."""
    us = run["http_threads_us"] + run["other_threads_us"] + run["client_cpu_us"]
    return 1e6 * (os.cpu_count() - run["elsewhere_cores"]) / us


def ratios(runs):
    """{rates, ceiling, CPU} of one round: two runs with each number of threads."""
    mean = {n: {k: statistics.mean(r[k] for r in runs if r["threads"] == n) for k in runs[0] if k != "loop"} for n in (1, 2)}
    return {"ratio": mean[2]["rate"] / mean[1]["rate"], "of_ceiling": mean[2]["rate"] / ceiling(mean[2]),
            "ceiling_ratio": ceiling(mean[2]) / mean[1]["rate"],
            **{f"{k}_{n}": mean[n][k] for n in (1, 2) for k in ("rate", "http_threads_us", "other_threads_us", "client_cpu_us", "elsewhere_cores")}}


def measure(args, folder, emit):
    traffic, out = Traffic(args, folder), args.out.resolve()
    servers = {n: Server(out, folder / f"threads-{n}", "--threads", str(n)) for n in (1, 2)}
    found = {asked: [] for asked in ASKED}
    try:
        for server in servers.values():
            m = furnish(server, traffic, ("kors", "catalogue"), "commit")
        common = {"bench": "threads", "clients": args.clients, "C": args.C, "d": args.d, "m": m, "blas_core": blas_core(folder / "threads-1.log")}
        for round_ in range(args.rounds):
            for kind, is_dry in ASKED:
                file = traffic.selects(kind, "select", **({"dry_run": True} if is_dry else {}))
                runs = [{"threads": n, **load(out, servers[n], "/select", file, tenant=f"{kind}-commit", clients=args.clients,
                                              seconds=args.seconds)} for n in ORDER]
                for run in runs:
                    emit({**common, "kind": kind, "is_dry": is_dry, "round": round_, **run})
                found[(kind, is_dry)].append(ratios(runs))
    finally:
        for server in servers.values():
            server.stop()
    for (kind, is_dry), rounds in found.items():
        middle = {k: statistics.median(r[k] for r in rounds) for k in rounds[0]}
        emit({**common, "kind": kind, "is_dry": is_dry, "verdict": middle, "rounds": [r["ratio"] for r in rounds], "bar": BAR,
              "is_reached": middle["ratio"] >= BAR})
        found[(kind, is_dry)] = middle
    return found


def print_table(found, load_average):
    print(f"\nload average before it {load_average:.1f} on {os.cpu_count()} cores")
    print("| decisions | 1 thread, /s | 2 threads, /s | ratio | the ceiling's | of the ceiling | CPU us, 2 threads: HTTP, others, client | elsewhere, cores |")
    print("|---|---|---|---|---|---|---|---|")
    for (kind, is_dry), m in found.items():
        print(f"| {kind}, {'dry' if is_dry else 'durable'} | {m['rate_1']:,.0f} | {m['rate_2']:,.0f} | {m['ratio']:.2f} | {m['ceiling_ratio']:.2f} | "
              f"{m['of_ceiling']:.2f} | {m['http_threads_us_2']:.1f}, {m['other_threads_us_2']:.1f}, {m['client_cpu_us_2']:.1f} | {m['elsewhere_cores_2']:.2f} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=1.0, help="of one loop")
    p.add_argument("--clients", type=int, default=64)
    add_sizes(p)
    args = p.parse_args()
    with Lines(args.file) as emit:
        folder, before = pathlib.Path(tempfile.mkdtemp(prefix="bench-threads-", dir=args.file.parent)), os.getloadavg()[0]
        try:
            print_table(measure(args, folder, emit), before)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
