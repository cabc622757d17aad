"""Instructions of the core's hot calls (bench_counts.c: KORS, m = 256, 16 features, 20 candidates in the body, 20 and 100 of the catalogue; and a catalogue of 100 arms
under `ucb`) and of what is read and written for the hot requests (bench_bodies.c), counted by callgrind: the same in every run of a build, however busy the machine is.

  python3 tests/bench/counts.py BUILD check|record [--file recorded.json]      BUILD: such as build/release

check compares with what was recorded for these BLAS kernels: instructions of our own code, and all with the libraries'.
Where nothing was recorded for the kernels in use, our own alone, with those of other kernels. More than 3 percent above
is a failure, and so is a learning step of more than two bare rank-one updates (bench_counts.c: update); every function that has changed is named. callgrind knows no AVX-512, so the kernels are Haswell's where
the processor has AVX2. Compilers make other code: one that is not the recorded one is told."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from callgrind import Profile

TOLERANCE = 0.03
NAMED = 0.002  # of all instructions: a change that is worth a line
PROGRAMS = {"decide": "bench_counts", "listed": "bench_counts", "listed_100": "bench_counts", "learn": "bench_counts", "catalogue": "bench_counts", "update": "bench_counts",
            **{kind: "bench_bodies" for kind in ("candidates", "named", "user", "reward", "line", "answer", "event")}}
KINDS = tuple(PROGRAMS)
LEARN_MOST = 2  # a learning step, in bare rank-one updates


def environment():
    """Symbols are bound at the start: else a first call of a library's function counts the search for it."""
    env = {**{k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"}, "LD_BIND_NOW": "1"}
    if " avx2 " in pathlib.Path("/proc/cpuinfo").read_text():
        env["OPENBLAS_CORETYPE"] = "Haswell"
    return env


def count(build, kind, folder):
    """({own, all, functions} a call, BLAS core or None). Functions of libraries are summed up by library."""
    out, name = folder / kind, PROGRAMS[kind]
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no",
                           f"--toggle-collect=measured_{kind}", str(build / "tests/bench" / name), kind], env=environment(), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{name} {kind}: {done.stderr}")
    said = json.loads(done.stdout)
    profile, functions = Profile(out), {}
    for (ob, fn), n in profile.own.items():
        place = fn if ob == name else re.sub(r"[-.\d]*\.so.*", "", ob)
        functions[place] = functions.get(place, 0) + n
    own = sum(n for (ob, _), n in profile.own.items() if ob == name)
    if own == 0:
        raise SystemExit("callgrind counted nothing of ours")
    per_call = {place: round(n / said["calls"]) for place, n in sorted(functions.items(), key=lambda f: -f[1])}
    total = profile.total()
    return {"own": round(own / said["calls"]), "all": round(total / said["calls"]),
            "functions": {place: n for place, n in per_call.items() if n * said["calls"] >= NAMED * total}}, said.get("blas_core")


def measure(build):
    with tempfile.TemporaryDirectory() as folder:
        counted = {kind: count(build, kind, pathlib.Path(folder)) for kind in KINDS}
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True).stdout.partition("\n")[0]
    return counted["decide"][1], {"compiler": compiler, **{kind: counted[kind][0] for kind in KINDS}}


def changed(was, now):
    """Lines, the largest change first."""
    names = {n: now["functions"].get(n, 0) - was["functions"].get(n, 0) for n in {**was["functions"], **now["functions"]}}
    return [f"    {d:+,} {n} ({was['functions'].get(n, 0):,} -> {now['functions'].get(n, 0):,})"
            for n, d in sorted(names.items(), key=lambda i: -abs(i[1])) if abs(d) >= NAMED * was["all"]]


def compare(recorded, core, now):
    """(lines to print, whether all is well)."""
    known, is_well = core in recorded, True
    was = recorded[core] if known else next(iter(recorded.values()))
    lines = [] if known else [f"nothing recorded for {core} kernels: our own code beside that under {next(iter(recorded))} ones"]
    if was["compiler"] != now["compiler"]:
        lines.append(f"another compiler: recorded with {was['compiler']}, now {now['compiler']}")
    for kind in KINDS:
        for what in ("own", "all") if known else ("own",):
            ratio = now[kind][what] / was[kind][what]
            verdict = "MORE" if ratio > 1 + TOLERANCE else "less: make bench-record keeps it" if ratio < 1 - TOLERANCE else "as recorded"
            lines.append(f"{kind}, {what}: {now[kind][what]:,} instructions, recorded {was[kind][what]:,} ({100 * (ratio - 1):+.2f} %): {verdict}")
            is_well = is_well and ratio <= 1 + TOLERANCE
        lines += changed(was[kind], now[kind]) if known else []
    ratio = now["learn"]["all"] / now["update"]["all"]
    lines.append(f"learn takes {ratio:.2f} bare rank-one updates of a factor, at most {LEARN_MOST}: {'MORE' if ratio > LEARN_MOST else 'well'}")
    return lines, is_well and ratio <= LEARN_MOST


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", type=pathlib.Path)
    p.add_argument("what", choices=("check", "record"))
    p.add_argument("--file", type=pathlib.Path, default=pathlib.Path(__file__).with_name("recorded.json"))
    args = p.parse_args()
    recorded = json.loads(args.file.read_text()) if args.file.exists() else {}
    core, now = measure(args.build)
    if args.what == "record":
        args.file.write_text(json.dumps({**recorded, core: now}, indent=1) + "\n")
        print(f"recorded for {core} kernels: " + ", ".join(f"{k} {now[k]['all']:,} instructions, {now[k]['own']:,} ours" for k in KINDS))
    elif not recorded:
        raise SystemExit("nothing is recorded: make bench-record")
    else:
        lines, is_well = compare(recorded, core, now)
        print("\n".join(lines))
        sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
