#!/usr/bin/env python3
"""Judges the lines of `coverage` (coverage.c) and writes its table into docs/COVERAGE.md, between the marks.

    table.py LINES.jsonl... --page docs/COVERAGE.md

A rule is held to its level in every cell, in every slice (one value of kernel, noise, f, lambda or norm) and over all
cells of a representation. Each count may pass delta of its runs by the binomial margin: the least k that as many runs
at level delta pass with a chance of at most TAIL. A control has to pass the margin somewhere. Exit status 1 otherwise,
or when cells are missing."""
import argparse
import collections
import json
import math
import pathlib
import sys

DELTA, TAIL = 0.1, 1e-6
SIDES = ("kernel", "noise", "f", "lambda", "norm")
ORDER = ("exact", "kors", "threshold", "bkb")
BEGIN, END = "<!-- table: coverage -->\n", "<!-- end -->\n"


def allowed(n):
    """Least k with P(Bin(n, DELTA) > k) <= TAIL."""
    more, k = 0.0, n
    while k > 0:
        chance = math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(DELTA) + (n - k) * math.log1p(-DELTA))
        if more + chance > TAIL:
            return k
        more, k = more + chance, k - 1
    return 0


def slices(rows):
    """Name: (runs, violated) of every slice, the whole among them, and of every cell."""
    out = collections.defaultdict(lambda: [0, 0])
    for row in rows:
        cell = ", ".join(f"{side} {row[side]}" for side in SIDES)
        for name in ["all", cell] + [f"{side} {row[side]}" for side in SIDES]:
            out[name][0] += row["runs"]
            out[name][1] += row["violated"]
    return out


def worst(counts, n_sides):
    """Of the slices of so many sides, the one with the largest share of violated runs; cells of one rule have equal runs."""
    few = {name: c for name, c in counts.items() if name != "all" and name.count(",") == n_sides - 1}
    name = max(few, key=lambda n: few[n][1] / few[n][0])
    return name, few[name]


def share(count):
    return f"{count[1]} of {count[0]} ({allowed(count[0])})"


def read(paths):
    rows = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["control"], row["rule"], row["representation"]].append(row)
    cells = {len({tuple(r[s] for s in SIDES) for r in group}) for group in groups.values()}
    if len(cells) != 1 or len(rows) != sum(len(g) for g in groups.values()) or any(len(g) not in cells for g in groups.values()):
        sys.exit("cells are missing, or are there twice")
    return groups, cells.pop()


def table(groups, is_control):
    """Markdown, and whether all are as they should be."""
    lines, is_well = ["| rule | representation | violated, all cells | worst slice | worst cell |", "|---|---|---|---|---|"], True
    caught = collections.defaultdict(bool)
    keys = [k for k in groups if k[0] == is_control]
    for key in sorted(keys, key=lambda k: ([r for _, r, _ in keys].index(k[1]), ORDER.index(k[2]))):
        counts = slices(groups[key])
        is_over = any(v > allowed(n) for n, v in counts.values())
        caught[key[1]] |= is_over
        is_well &= is_control or not is_over
        side, cell = worst(counts, 1), worst(counts, len(SIDES))
        told = [f"{share(c)}: {name}" if c[1] else "none" for name, c in (side, cell)]
        lines.append(f"| {key[1]} | {key[2]} | {share(counts['all'])} | {told[0]} | {told[1]} |")
    return lines, is_well and (not is_control or all(caught.values()))


def page(path, lines):
    text = path.read_text()
    head, rest = text.split(BEGIN)
    path.write_text(head + BEGIN + "\n".join(lines) + "\n" + END + rest.split(END, 1)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", nargs="+", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path)
    args = parser.parse_args()
    groups, n_cells = read(args.lines)
    rules, are_kept = table(groups, False)
    controls, are_caught = table(groups, True)
    n_runs = sum(row["runs"] for group in groups.values() for row in group)
    head = f"{n_cells} cells for each representation, {n_runs:,} runs. In brackets: the count that is allowed."
    lines = [head, "", *rules, "", "Controls:", "", *controls]
    print("\n".join(lines))
    print("every rule keeps its level" if are_kept else "A RULE PASSES ITS LEVEL", file=sys.stderr)
    print("every control is caught" if are_caught else "A CONTROL IS NOT CAUGHT", file=sys.stderr)
    if args.page is not None:
        page(args.page, lines)
    sys.exit(0 if are_kept and are_caught else 1)


if __name__ == "__main__":
    main()
