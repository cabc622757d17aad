"""How the CPU of a decision grows with what it is asked and what it has learned: one size at a time around a base.

  python3 tests/bench/sweep.py OUT FILE [--rounds N] [--seconds S] [--clients N] [-m M] [-C N] [-d D] [-t T]
      OUT: a build folder such as build/release; FILE: where JSON lines go, a plot and its data beside it

`kors` tenants (loop.py) with C candidates of d features, a dictionary of m points and t observations. At each size closed loops in
turns: an empty handler that reads the same bodies, dry runs, and durable decisions. The base is measured again behind each row, so
that a machine that changes meanwhile shows."""
import argparse
import copy
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from checks import Server
from lines import Lines
from loop import Traffic, add_sizes, blas_core, call, furnish, load
from room import EMPTY_BYTES, Ceiling

ROWS = {"C": (1, 5, 10, 50, 100), "d": (2, 8, 32, 64), "m": (32, 64, 128, 512), "t": (10_000, 100_000)}
ASKED = ("empty", "dry", "durable")


class Sweep:
    def __init__(self, args, folder, emit):
        self.args, self.folder, self.out, self._emit = args, folder, args.out.resolve(), emit
        self.server, self.empty = Server(self.out, folder / "data"), Ceiling(self.out, folder, "bench_empty", os.cpu_count(), EMPTY_BYTES)
        self.core = blas_core(folder / "data.log")

    def close(self):
        for server in (self.server, self.empty):
            server.stop()

    def at(self, **sizes):
        """CPU a request of each kind, of a tenant that is made for it and goes again."""
        args = copy.copy(self.args)
        for name, value in sizes.items():
            setattr(args, name, value)
        traffic = Traffic(args, self.folder)
        m = furnish(self.server, traffic, ("kors",), "commit")["kors"]
        plain, dry = traffic.selects("kors", "select"), traffic.selects("kors", "dry", dry_run=True)
        where = {"empty": (self.empty, plain), "dry": (self.server, dry), "durable": (self.server, plain)}
        us, rate = {a: [] for a in ASKED}, {a: [] for a in ASKED}
        for round_ in range(args.rounds):
            for asked in ASKED:
                one = load(self.out, where[asked][0], "/select", where[asked][1], tenant="kors-commit", clients=args.clients, seconds=args.seconds)
                us[asked].append(one["http_threads_us"] + one["other_threads_us"])
                rate[asked].append(one["rate"])
                self._emit({"bench": "sweep", "asked": asked, "round": round_, "C": args.C, "d": args.d, "m": m, "t": args.t, **one, "blas_core": self.core})
        call(self.server, "DELETE", "/tenants/kors-commit")
        found = {a: statistics.median(us[a]) for a in ASKED}
        return {"m": m, **found, "of_empty": statistics.median(rate["durable"]) / statistics.median(rate["empty"])}

    def row(self, name):
        """[(size, figures)] in order of size, with the base at its place; and the base once more."""
        base = getattr(self.args, name)
        values = sorted({*ROWS[name], base})
        return [(value, self.at(**{name: value})) for value in values], self.at()


def slope(points):
    """Exponent of the dry run's CPU over its last two sizes."""
    (a, x), (b, y) = points[-2:]
    return math.log(y["dry"] / x["dry"]) / math.log(b / a)


def print_tables(rows, args):
    for name, (points, again) in rows.items():
        base = dict(points)[getattr(args, name)]
        print(f"\n| {name} | points | empty, us | dry, us | durable, us | durable rate of empty's |\n|---|---|---|---|---|---|")
        for value, p in points:
            print(f"| {value:,} | {p['m']} | {p['empty']:.1f} | {p['dry']:.1f} | {p['durable']:.1f} | {p['of_empty']:.3f} |")
        print(f"exponent of the dry run at the end {slope(points):.2f}; the base again {again['dry'] / base['dry']:.2f} of what it was")


def plot(folder, rows):
    """sweep.dat and sweep.gp stay beside sweep.svg; without gnuplot they are all there is."""
    (folder / "sweep.dat").write_text("\n\n\n".join(
        "\n".join(f"{value} {p['empty']} {p['dry']} {p['durable']}" for value, p in points) for points, _ in rows.values()) + "\n")
    panes = "\n".join(f"set xlabel '{name}'\nplot " + ", ".join(
        f"'sweep.dat' index {i} using 1:{column} with linespoints title '{asked}'" for column, asked in enumerate(ASKED, 2))
        for i, name in enumerate(rows))
    (folder / "sweep.gp").write_text(f"""set terminal svg size 900,700
set output 'sweep.svg'
set multiplot layout 2,2
set logscale xy
set ylabel 'CPU a request, us'
set key top left
{panes}
""")
    if shutil.which("gnuplot"):
        subprocess.run(["gnuplot", "sweep.gp"], cwd=folder, check=False)
    else:
        print("no gnuplot: sh tools/setup.sh --paper, then gnuplot sweep.gp")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=0.4, help="of one loop")
    p.add_argument("--clients", type=int, default=64)
    p.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), help="rows to measure")
    add_sizes(p)
    args = p.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; base C {args.C}, d {args.d}, m {args.m}, t {args.t}")
    with Lines(args.file) as emit:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-sweep-", dir=args.file.parent))
        sweep = Sweep(args, folder, emit)
        try:
            rows = {name: sweep.row(name) for name in args.only}
        finally:
            sweep.close()
            shutil.rmtree(folder, ignore_errors=True)
    print_tables(rows, args)
    plot(args.file.parent, rows)


if __name__ == "__main__":
    main()
