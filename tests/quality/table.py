#!/usr/bin/env python3
"""Makes the tables of docs/REGRET.md, between the marks, of the lines of `regret` (regret.c).

    table.py LINES.jsonl... --page docs/REGRET.md"""
import argparse
import json
import math
import pathlib
import statistics

BEGIN, END = "<!-- tables: regret -->\n", "<!-- end -->\n"
REFERENCE, OURS, GREEDY = "Beta-TS", "laplaced", "laplaced, eps 0"
ROWS = (REFERENCE, OURS, GREEDY)
MOST_MEAN, MOST_RATIO = {OURS: 1.2, GREEDY: 1.0}, 1.5
MOST_DRIFT, MOST_LATE = 1.5, 1.3


class Runs:
    """Halves of all runs, by task and row; tasks in the order of the program."""

    def __init__(self, paths):
        self.halves, self.tasks = {}, {}
        for line in (json.loads(line) for path in paths for line in path.read_text().splitlines()):
            self.tasks.setdefault(line["task"], line["group"])
            runs = self.halves.setdefault((line["task"], line["row"]), {})
            assert line["seed"] not in runs, line
            runs[line["seed"]] = line["halves"]

    def of(self, group):
        return [t for t, g in self.tasks.items() if g == group]

    def totals(self, task, row):
        return [sum(halves) for halves in self.halves[task, row].values()]

    def mean(self, task, row, half=None):
        return statistics.mean(sum(h) if half is None else h[half] for h in self.halves[task, row].values())

    def ratio(self, task, row):
        return self.mean(task, row) / self.mean(task, REFERENCE)

    def cell(self, task, row):
        totals = self.totals(task, row)
        error = statistics.stdev(totals) / math.sqrt(len(totals)) if len(totals) > 1 else math.nan
        return f"{statistics.mean(totals):.1f} ± {error:.1f} ({max(totals):.0f})"


def said(is_met):
    return "met" if is_met else "**missed**"


def ab_table(runs, group="ab"):
    lines = ["| task | " + " | ".join(ROWS) + " | ratio | ratio, eps 0 |", "|---" * (len(ROWS) + 3) + "|"]
    for task in runs.of(group):
        lines.append(f"| {task} | " + " | ".join(runs.cell(task, row) for row in ROWS) + f" | {runs.ratio(task, OURS):.2f} | {runs.ratio(task, GREEDY):.2f} |")
    lines.append("")
    for row in (OURS, GREEDY):
        ratios = [runs.ratio(task, row) for task in runs.of(group)]
        mean = math.exp(statistics.mean(map(math.log, ratios)))
        lines.append(f"- {row}: geometric mean {mean:.2f}, asked at most {MOST_MEAN[row]:g}: {said(mean <= MOST_MEAN[row])}. "
                     f"Largest {max(ratios):.2f}, asked at most {MOST_RATIO:g}: {said(max(ratios) <= MOST_RATIO)}.")
    return lines


def far_table(runs):
    return ab_table(runs, "far")[:3]


def drift_table(runs):
    lines = [f"| task | row | whole | first half | second half | second / first | asked at most {MOST_DRIFT:g} |", "|---" * 7 + "|"]
    for task in runs.of("drift"):
        for row in (row for of, row in runs.halves if of == task):
            first, second = runs.mean(task, row, 0), runs.mean(task, row, 1)
            asked = said(second <= MOST_DRIFT * first) if row != REFERENCE and task.startswith("drift") else ""
            lines.append(f"| {task} | {row} | {runs.cell(task, row)} | {first:.1f} | {second:.1f} | {second / first:.2f} | {asked} |")
    return lines


def late_table(runs):
    lines = [f"| tasks | row | late | prompt | late / prompt | asked at most {MOST_LATE:g} |", "|---" * 6 + "|"]
    for task in (t for t in runs.of("late") + runs.of("map") if t.startswith("late")):
        prompt = task.replace("late", "prompt")
        for row in (row for of, row in runs.halves if of == task):
            ratio = runs.mean(task, row) / runs.mean(prompt, row)
            asked = said(ratio <= MOST_LATE) if row != REFERENCE else ""
            lines.append(f"| {task}; {prompt} | {row} | {runs.cell(task, row)} | {runs.cell(prompt, row)} | {ratio:.2f} | {asked} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", nargs="+", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path)
    args = parser.parse_args()
    runs = Runs(args.lines)
    seeds = sorted({len(of) for of in runs.halves.values()})
    lines = [f"Of {' or '.join(map(str, seeds))} seeds: mean ± one standard error (largest run).", ""]
    for title, table in (("### A/B tests", ab_table), ("### Rates that change places", drift_table), ("### Rewards that come late", late_table), ("### Rates far apart", far_table)):
        lines += [title, "", *table(runs), ""]
    print("\n".join(lines))
    if args.page is not None:
        head, rest = args.page.read_text().split(BEGIN)
        args.page.write_text(head + BEGIN + "\n".join(lines[:-1]) + "\n" + END + rest.split(END, 1)[1])


if __name__ == "__main__":
    main()
