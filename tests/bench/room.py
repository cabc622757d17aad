"""HTTP in one room with its limits: the server beside an empty handler on the same library, beside one that commits a row for each
request, and beside bare fsyncs on the same disk, within one run, so that each figure is a ratio. What the figures mean: docs/PERFORMANCE.md.

  python3 tests/bench/room.py OUT FILE [--rounds N] [--seconds S] [--clients N] [--instructions N] [-m M] [-C N] [-d D] [-t T]
      OUT: a build folder such as build/release; FILE: where JSON lines go, data of plots and plots beside it

Tenants: `catalogue` and `kors` (loop.py), each with durability commit and relaxed. The load is bench_load.c.

  split    the server's CPU a request by variants of one kind of request, in turns: each does all that those above it do
  closed   clients that ask again when they are answered: decisions, rewards, observations
  open     decisions that arrive by a schedule at parts of the rate that the closed loop reached
  instructions   of the server under callgrind, by part (user space only; skipped without valgrind)
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import callgrind
from checks import Server
from commit import raw_rate
from counts import environment
from lines import Lines
from loop import BODIES, PATIENCE_S, Traffic, add_sizes, blas_core, furnish, load

KINDS = ("catalogue", "kors")
SHARES = (0.25, 0.5, 0.75, 0.9)
EMPTY_BYTES = 200


class Ceiling(Server):
    """bench_empty or bench_rows, which say as much on their first line as laplaced does."""
    def __init__(self, out, folder, name, *args):
        self.log = open(folder / f"{name}.log", "wb")
        self.process = subprocess.Popen([str(out / "tests/bench" / name), *map(str, args)], stdout=subprocess.PIPE, stderr=self.log)
        self.url = self.process.stdout.readline().decode().split()[3]


class Room:
    def __init__(self, args, folder, emit):
        self.args, self.folder, self.out, self.traffic, self._emit = args, folder, args.out.resolve(), Traffic(args, folder), emit
        self.server = Server(self.out, folder / "data")
        self.empty = Ceiling(self.out, folder, "bench_empty", os.cpu_count(), EMPTY_BYTES)
        self.rows = Ceiling(self.out, folder, "bench_rows", folder / "rows.db", os.cpu_count(), EMPTY_BYTES)
        self.core = blas_core(folder / "data.log")
        self.m = {}

    def close(self):
        for server in (self.server, self.empty, self.rows):
            server.stop()

    def emit(self, line):
        self._emit({**line, "C": self.args.C, "d": self.args.d, "m": self.m, "t": self.args.t, "blas_core": self.core})

    def furnish(self):
        for durability in ("commit", "relaxed"):
            points = furnish(self.server, self.traffic, KINDS, durability)
            self.m = {kind: max(self.m.get(kind, 0), n) for kind, n in points.items()}

    def load(self, server, path, file, **options):
        return load(self.out, server, path, file, **options)

    # --- split

    def variants(self, kind):
        """name: what is asked. Each does what those before it do, and more."""
        plain = self.traffic.selects(kind, "select")
        return {"empty": (self.empty, "/select", plain, {}),
                "healthz": (self.server, "/healthz", "-", {"method": "GET"}),
                "refused": (self.server, "/select", self.traffic.selects(kind, "refused", dry_run=3), {"status": 400}),
                "dry": (self.server, "/select", self.traffic.selects(kind, "dry", dry_run=True), {}),
                "relaxed": (self.server, "/select", plain, {"tenant": f"{kind}-relaxed"}),
                "durable": (self.server, "/select", plain, {})}

    def split(self, kind):
        variants, cpu = self.variants(kind), {}
        for round_ in range(self.args.rounds):
            for name, (server, path, file, more) in variants.items():
                options = {"tenant": f"{kind}-commit", "clients": self.args.clients, "seconds": self.args.seconds / 2, **more}
                one = self.load(server, path, file, **options)
                cpu.setdefault(name, []).append(one["http_threads_us"] + one["other_threads_us"])
                self.emit({"bench": "split", "kind": kind, "variant": name, "round": round_, **one})
        us = {name: statistics.median(values) for name, values in cpu.items()}
        bytes_in = variants["durable"][2].stat().st_size / BODIES
        parts = {"HTTP library and kernel": us["empty"], "front door, JSON in": us["refused"] - us["empty"],
                 "numerics, JSON out": us["dry"] - us["refused"], "commit": us["durable"] - us["dry"]}
        self.emit({"bench": "parts", "kind": kind, "body_bytes": bytes_in, "variants_us": us, "parts_us": parts})
        return us, parts

    # --- loops

    def ask(self, what, kind, durability, clients, round_):
        """(path, file, options) of a closed loop. Rewards have their decisions made before, outside of the time."""
        tenant = {"tenant": f"{kind}-{durability}", "clients": clients}
        if what == "select":
            return "/select", self.traffic.selects(kind, "select"), {**tenant, "seconds": self.args.seconds}
        if what == "observe":
            return "/observe", self.traffic.write("observe", (self.traffic.observation(kind) for _ in range(BODIES))), \
                {**tenant, "seconds": self.args.seconds}
        n = self.args.rewards
        ids = [f"{durability}-{clients}-{round_}-{i}" for i in range(n)]
        made = self.traffic.write("named", (self.traffic.select(kind, decision=i) for i in ids))
        self.load(self.server, "/select", made, **tenant, limit=n, seconds=PATIENCE_S)
        return "/reward", self.traffic.write("reward", ({"decision": i, "reward": 0.5} for i in ids)), \
            {**tenant, "limit": n, "seconds": PATIENCE_S}

    def closed(self):
        """{(what, kind, durability, clients): figures}, and the ceilings' by ("empty", None, None, clients) and "rows"."""
        rows, plain = {}, self.traffic.selects("catalogue", "select")
        for clients in self.args.closed:
            disk = {"fdatasync_rate": raw_rate(self.folder, True, self.args.seconds / 2)}  # a shared disk changes within minutes
            for name, ceiling in (("empty", self.empty), ("rows", self.rows)):
                one = {**disk, **self.load(ceiling, "/select", plain, clients=clients, seconds=self.args.seconds)}
                rows[(name, None, None, clients)] = one
                self.emit({"bench": "closed", "what": name, **one})
            for what, kind in (("select", "catalogue"), ("select", "kors"), ("reward", "catalogue"), ("reward", "kors"),
                               ("observe", "catalogue"), ("observe", "kors")):
                for durability in ("commit", "relaxed"):
                    path, file, options = self.ask(what, kind, durability, clients, f"{what}-{kind}")
                    one = {**disk, **self.load(self.server, path, file, **options)}
                    rows[(what, kind, durability, clients)] = one
                    self.emit({"bench": "closed", "what": what, "kind": kind, "durability": durability, **one})
        return rows

    def open(self, rows):
        most, found = max(self.args.closed), []
        for kind in KINDS:
            file = self.traffic.selects(kind, "select")
            for share in SHARES:
                one = self.load(self.server, "/select", file, tenant=f"{kind}-commit", clients=256, seconds=self.args.seconds,
                                rate=share * rows[("select", kind, "commit", most)]["rate"])
                found.append({"bench": "open", "kind": kind, "durability": "commit", "share": share, **one})
                self.emit(found[-1])
        return found


# --- instructions

PARTS = {"JSON in": ("ld_doc_parse", "ld_decode_select"), "numerics": ("kb_engine_decide",), "JSON out": ("ld_encode_select",),
         "commit": ("ld_tenant_run_writer",)}


def count_instructions(room, kind):
    """Durable decisions against a server under callgrind, counted from when it stands furnished."""
    folder = room.folder / f"counted-{kind}"
    folder.mkdir()
    callgrind.wrap(f"{room.out}/laplaced", folder)
    os.environ.update(environment())
    server = Server(folder, folder / "data")
    try:
        furnish(server, room.traffic, KINDS, "commit")
        file, pid = room.traffic.selects(kind, "select"), server.process.pid
        callgrind.count(pid)
        room.load(server, "/select", file, tenant=f"{kind}-commit", clients=4, limit=room.args.instructions, seconds=PATIENCE_S)
        profile = callgrind.tell(pid, folder)
    finally:
        server.stop()
    n = profile.n_calls("kb_engine_decide")
    if n < room.args.instructions / 2:
        raise SystemExit(f"callgrind saw {n} decisions of {room.args.instructions}")
    parts = {part: sum(profile.with_callees(f) for f in functions) / n for part, functions in PARTS.items()}
    total = profile.total() / n
    first = {f"{ob}:{fn}": round(c / n) for (ob, fn), c in profile.own.most_common(12)}
    return {"total": total, "parts": {"HTTP, dispatch": total - sum(parts.values()), **parts}, "first": first}


# --- what people read

def print_tables(room, raw, splits, counted, rows, found):
    print(f"\nBLAS {room.core}; m {room.m}, C {room.args.C}, d {room.args.d}, t {room.args.t}; fdatasync/s of a page: "
          f"append {raw['append']:,.0f}, overwrite {raw['overwrite']:,.0f}; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if os.getloadavg()[0] > os.cpu_count():
        print("busy: rates and latencies show that the programs work, and no more; CPU a request and instructions hold")
    print("\n| CPU a request, us | " + " | ".join(KINDS) + " |\n|---|" + "---|" * len(KINDS))
    for name in splits[KINDS[0]][0]:
        print(f"| {name} | " + " | ".join(f"{splits[k][0][name]:.1f}" for k in KINDS) + " |")
    for name in splits[KINDS[0]][1]:
        print(f"| = {name} | " + " | ".join(f"{splits[k][1][name]:.1f}" for k in KINDS) + " |")
    if counted:
        print("\n| instructions a durable decision, thousands | " + " | ".join(KINDS) + " |\n|---|" + "---|" * len(KINDS))
        for part in counted[KINDS[0]]["parts"]:
            print(f"| {part} | " + " | ".join(f"{counted[k]['parts'][part] / 1e3:,.1f} ({100 * counted[k]['parts'][part] / counted[k]['total']:.0f} %)"
                                              for k in KINDS) + " |")
    print("\n| closed loop | durability | clients | requests/s | of empty | of fdatasync | p50, p99, ms | CPU us: HTTP threads, others | client CPU us |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (what, kind, durability, clients), r in rows.items():
        print(f"| {what} {kind or ''} | {durability or ''} | {clients} | {r['rate']:,.0f} | {r['rate'] / rows[('empty', None, None, clients)]['rate']:.3f} | "
              f"{r['rate'] / r['fdatasync_rate']:.2f} | {r['latency_p50_us'] / 1e3:.2f}, {r['latency_p99_us'] / 1e3:.2f} | "
              f"{r['http_threads_us']:.1f}, {r['other_threads_us']:.1f} | {r['client_cpu_us']:.1f} |")
    print("\n| open loop, durable | part of the closed rate | arrivals/s | p50, p99, p99.9, ms | unanswered | late p99, ms |\n|---|---|---|---|---|---|")
    for r in found:
        print(f"| {r['kind']} | {r['share']} | {r['asked_rate']:,.0f} | {r['latency_p50_us'] / 1e3:.2f}, {r['latency_p99_us'] / 1e3:.2f}, "
              f"{r['latency_p999_us'] / 1e3:.2f} | {r['unanswered']} | {r['late_p99_us'] / 1e3:.2f} |")


def plot(folder, splits, found):
    """parts.dat, open.dat and room.gp stay beside room.svg; without gnuplot they are all there is."""
    names = list(splits[KINDS[0]][1])
    (folder / "parts.dat").write_text("kind " + " ".join(f'"{n}"' for n in names) + "\n" + "".join(
        f"{k} " + " ".join(f"{max(splits[k][1][n], 0):.2f}" for n in names) + "\n" for k in KINDS))
    (folder / "open.dat").write_text("\n\n\n".join("\n".join(
        f"{r['asked_rate']} {r['latency_p50_us']} {r['latency_p99_us']} {r['latency_p999_us']}" for r in found if r["kind"] == k) for k in KINDS) + "\n")
    lines = ", ".join(f"'open.dat' index {i} using 1:{c} with linespoints title '{k}, {q}'"
                      for i, k in enumerate(KINDS) for c, q in ((2, "p50"), (3, "p99"), (4, "p99.9")))
    (folder / "room.gp").write_text(f"""set terminal svg size 900,400
set output 'room.svg'
set multiplot layout 1,2
set style data histograms
set style histogram rowstacked
set style fill solid 0.7
set boxwidth 0.6
set ylabel 'CPU a request, us'
set yrange [0:*]
set key outside below
plot for [i=2:{len(names) + 1}] 'parts.dat' using i:xtic(1) title columnheader(i)
set ylabel 'latency from the schedule, us'
set xlabel 'arrivals a second'
set logscale y
set yrange [*:*]
plot {lines}
""")
    if shutil.which("gnuplot"):
        subprocess.run(["gnuplot", "room.gp"], cwd=folder, check=False)
    else:
        print("no gnuplot: sh tools/setup.sh --paper, then gnuplot room.gp", file=sys.stderr)


def measure(args, folder, emit):
    room = Room(args, folder, emit)
    try:
        raw = {name: raw_rate(folder, name == "append", args.seconds / 2) for name in ("append", "overwrite")}
        room.furnish()
        for name, rate in raw.items():
            room.emit({"bench": "fdatasync", "kind": name, "rate": rate})
        splits = {kind: room.split(kind) for kind in KINDS}
        rows = room.closed()
        found = room.open(rows)
    finally:
        room.close()
    counted = {}
    if args.instructions > 0 and shutil.which("valgrind"):
        counted = {kind: count_instructions(room, kind) for kind in KINDS}
        for kind in KINDS:
            room.emit({"bench": "instructions", "kind": kind, **counted[kind], "kernels": environment().get("OPENBLAS_CORETYPE")})
    print_tables(room, raw, splits, counted, rows, found)
    plot(args.file.parent, splits, found)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--rounds", type=int, default=5, help="of the split")
    p.add_argument("--seconds", type=float, default=1.0, help="of one loop; half of it in the split")
    p.add_argument("--clients", type=int, default=16, help="of the split")
    p.add_argument("--closed", type=int, nargs="+", default=[1, 16, 64], help="clients of the closed loops")
    p.add_argument("--rewards", type=int, default=2000, help="of a closed loop")
    p.add_argument("--instructions", type=int, default=300, help="decisions under callgrind; 0: none")
    add_sizes(p)
    args = p.parse_args()
    with Lines(args.file) as emit:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-room-", dir=args.file.parent))
        try:
            measure(args, folder, emit)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
