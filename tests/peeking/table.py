#!/usr/bin/env python3
"""Judges the lines of `peeking` (peeking.c) and writes its tables into docs/PEEKING.md, between the marks.

    table.py LINES.jsonl... --page docs/PEEKING.md

A count of wrong runs may pass its level by the binomial margin: the least k that as many runs at that level pass with a
chance of at most TAIL. Each control has to pass it in every cell where it is asked. Half widths and stopping times lie
within a tenth of the design's, or, where there are few runs, within three standard errors of it. A cell of less than FEW runs can catch
no control, and is not asked to. Exit status 1 otherwise, or when cells are missing; the page says how many."""
import argparse
import json
import math
import pathlib
import sys

ALPHA, TRAFFIC_ALPHA, TAIL, WITHIN, FEW = 0.05, 0.01, 1e-6, 0.1, 100
N_CELLS = {"run": 74, "users": 6, "traffic": 6, "width": 9, "stop": 6}
BEGIN, END = "<!-- tables: peeking -->\n", "<!-- end -->\n"
faults = []


def allowed(n, level):
    """Least k with P(Bin(n, level) > k) <= TAIL."""
    more, k = 0.0, n
    while k > 0:
        chance = math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(level) + (n - k) * math.log1p(-level))
        if more + chance > TAIL:
            return k
        more, k = more + chance, k - 1
    return 0


def expect(is_so, what):
    if not is_so:
        faults.append(what)


def percent(k, n):
    share = 100 * k / n
    return "0" if k == 0 else f"{share:.0f} %" if share >= 9.95 else f"{share:.2g} %"


def count(n):
    return f"{n:,}" if n else ""


def kept(row, member, level=ALPHA):
    """A count that must keep its level, as a cell of a table."""
    if member not in row:
        return ""
    expect(row[member] <= allowed(row["runs"], level), f"{member} passes its level: {row}")
    return percent(row[member], row["runs"])


def caught(row, member, level=ALPHA):
    if member not in row:
        return ""
    expect(row["runs"] < FEW or row[member] > allowed(row["runs"], level), f"{member}, a control, is not caught: {row}")
    return percent(row[member], row["runs"])


def told(row, member):
    return percent(row[member], row["runs"]) if member in row else ""


def setting(row):
    rate = "u³" if row["graded"] else f"{row['rate']:g}"
    if row["doubling"]:
        rate = f"{row['rate'] / 2:g} → {rate}"
    if row["effect"]:
        rate += f", effect {row['effect']:+g}"
    return f"| {row['policy']} | {row['arms']} | {rate} | {'late' if row['late'] else ''} |"


def run_table(rows):
    """The controls must fail where the design says that they do: normal intervals everywhere, zeros on a split and under Thompson."""
    lines = ["| policy | arms | rate | rewards | runs | **pair** | **E above** | **shown** | normal, peeked | zeros folded |", "|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        must = "provisional" in row and row["rate"] >= 0.05 and row["policy"] == "split" and row["arms"] == 2
        zeros = caught(row, "provisional") if must else told(row, "provisional")
        lines.append(f"{setting(row)} {row['runs']:,} | {kept(row, 'pair')} | {kept(row, 'above')} | {kept(row, 'shown')} | {caught(row, 'normal')} | {zeros} |")
    worst = {m: max((r for r in rows if m in r and r["runs"] >= min(FEW, rows[0]["runs"])), key=lambda r: r[m] / r["runs"]) for m in ("pair", "above", "shown")}
    bounds = ", ".join(f"{allowed(n, ALPHA)} of {n:,} runs ({percent(allowed(n, ALPHA), n)})" for n in sorted({r["runs"] for r in rows}, reverse=True))
    head = [f"{len(rows)} of {N_CELLS['run']} cells, {sum(r['runs'] for r in rows):,} runs of {rows[0]['decisions']:,} decisions. Allowed of a cell: {bounds}. Worst: "
            + "; ".join(f"{m} {percent(r[m], r['runs'])}" for m, r in worst.items()) + ".", ""]
    return head + lines


def user_table(rows):
    lines = ["| decisions a user | runs | **conditional propensities** | 0.5 at each decision |", "|---|---|---|---|"]
    for k in sorted({r["per_user"] for r in rows}):
        good, bad = (next(r for r in rows if r["per_user"] == k and r["conditional"] == c) for c in (True, False))
        lines.append(f"| {k} | {good['runs']:,} | {kept(good, 'pair')} | {caught(bad, 'pair') if k == 100 else told(bad, 'pair')} |")
    return lines


def traffic_table(rows):
    lines = ["| told | shown | check | runs | alarms | allowed, or asked | median | 90 % by |", "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        n, is_honest = row["runs"], row["shift"] == 0
        bound = allowed(n, TRAFFIC_ALPHA) if is_honest else math.ceil(0.9 * n) if row["shift"] == 0.01 else None
        if row["naive"]:
            caught(row, "alarms", TRAFFIC_ALPHA)
        elif is_honest:
            kept(row, "alarms", TRAFFIC_ALPHA)
        elif bound is not None:
            expect(row["alarms"] >= bound, f"a shift is not found: {row}")
        p = "0.01 .. 0.99, changing" if row["changing"] else "50:50"
        shown = "as told" if is_honest else f"{100 * row['shift']:+g} points"
        limit = "" if bound is None else f"{'at most' if is_honest else 'at least'} {bound}"
        lines.append(f"| {p} | {shown} | {'z-test at 1.96 (control)' if row['naive'] else '**Bennett**'} | {n:,} | {row['alarms']} | {limit} "
                     f"| {count(row['median'])} | {count(row['ninety'])} |")
    return lines


def width_table(rows):
    lines = ["| rate | decisions | runs | half width | over the normal one | design | 6.7 √(p(1−p)/n) |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        ratio, p = row["half_width"] / row["naive"], row["rate"]
        plan = 6.7 * math.sqrt(p * (1 - p) / row["n"]) / row["half_width"]
        expect(abs(ratio / row["design"] - 1) <= WITHIN, f"a half width is not the design's: {row}")
        expect(row["n"] * p * (1 - p) < 250 or abs(plan - 1) <= WITHIN, f"the plan is off: {row}")
        lines.append(f"| {p:g} | {row['n']:,} | {row['runs']} | {row['half_width']:.4f} | {ratio:.2f} | {row['design']:.2f} | {plan:.2f} times |")
    return lines


def stop_table(rows):
    """Times of stops vary by some 0.7 of their mean between runs; the design's own runs count, too."""
    lines = ["| rate | lift | fixed size | cap | runs | better | median | design | mean | design |", "|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        slack = max(WITHIN, 3 * 0.7 * math.sqrt(1 / row["runs"] + 1 / row["design_runs"]))
        for member in ("median", "mean"):
            expect(abs(row[member] / row["design_" + member] - 1) <= slack, f"a stopping time is not the design's: {row}")
        lines.append(f"| {row['rate']:g} | {100 * row['lift']:g} % | {row['fixed']:,} | {row['cap']} × | {row['runs']:,} | {percent(row['reached'], row['runs'])} "
                     f"| {row['median']:.2f} | {row['design_median']:.2f} | {row['mean']:.2f} | {row['design_mean']:.2f} |")
    return lines


TABLES = (("run", "### Wrong at least once in a run", run_table), ("users", "### Users who keep their arm", user_table),
          ("traffic", "### Traffic", traffic_table), ("width", "### Half widths on an even split", width_table),
          ("stop", "### Decisions until \"better\" on an even split", stop_table))


def read(paths):
    rows = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    kinds = {kind: [r for r in rows if r["kind"] == kind] for kind in N_CELLS}
    if len({r["cell"] for r in rows}) != len(rows):
        sys.exit("cells are there twice")
    for kind, n in N_CELLS.items():
        expect(len(kinds[kind]) == n, f"{n - len(kinds[kind])} of {n} cells of {kind} are missing")
    return {kind: sorted(of, key=lambda r: r["cell"]) for kind, of in kinds.items()}


def page(path, lines):
    head, rest = path.read_text().split(BEGIN)
    path.write_text(head + BEGIN + "\n".join(lines) + "\n" + END + rest.split(END, 1)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", nargs="+", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path)
    args = parser.parse_args()
    rows = read(args.lines)
    lines = []
    for kind, title, table in TABLES:
        lines += [title, "", *table(rows[kind]), ""]
    print("\n".join(lines))
    for fault in faults:
        print(fault, file=sys.stderr)
    print("NOT ALL IS AS IT SHOULD BE" if faults else "every sentence keeps its level, every control is caught", file=sys.stderr)
    if args.page is not None:
        page(args.page, lines[:-1])
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
