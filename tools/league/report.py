#!/usr/bin/env python3
"""Makes docs/QUALITY.md and its picture of the lines that league.py has written: nothing on the page is written by hand but words.

  python3 tools/league/report.py FILE PAGE [--picture SVG]
  python3 tools/league/report.py FILE PAGE --table       the table alone, into a page that has a place for it: docs/BESIDE_VW.md"""
import argparse
import html
import json
import math
import os
import pathlib

import rows as league_rows
import tasks as league_tasks

OURS_FIRST, REFERENCE = "laplaced", "Beta-TS"
PANELS = ("ctr5", "town-true", "drift", "digits", "wide10", "deezer")
CURVES = (("laplaced", "#d62728"), ("laplaced-by-arm", "#ff7f0e"), ("ts", "#9467bd"), ("ucb", "#8c564b"), ("Beta-TS", "#1f77b4"), ("LinUCB", "#2ca02c"))


def estimate(values):
    """Mean and its standard error: the sample's deviation by the root of its size; NaN for one value."""
    n, mean = len(values), sum(values) / len(values)
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n) if n > 1 else math.nan


def geometric(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


class Lines:
    """What was played, by task and row, each in the order of its table."""

    def __init__(self, text):
        lines = [json.loads(line) for line in text.splitlines()]
        self.default = next((line["default"] for line in lines if "default" in line), {})
        self.runs, self.rows, self.idle, self.cores, self.missing = {}, [], {}, set(), {}
        for line in lines:
            if "task" not in line:
                continue
            if "row" not in line:
                self.missing[line["task"]] = line["skipped"]
                continue
            if line["row"] not in self.rows:
                self.rows.append(line["row"])
            self.cores.add(line.get("blas_core", "unknown"))
            if "score" in line:
                self.runs.setdefault((line["task"], line["row"]), []).append(line)
            else:
                self.idle.setdefault((line["row"], line.get("failed") or line["skipped"], "failed" in line), []).append(line["task"])
        known = [row.name for row in league_rows.all_rows("vw")]
        self.rows.sort(key=lambda row: known.index(row) if row in known else len(known))
        self.tasks = [t for t in league_tasks.all_tasks() if any((t.name, row) in self.runs for row in self.rows)]
        self.seeds = sorted({len(runs) for runs in self.runs.values()})

    def scores(self, task, row, part="score"):
        runs = self.runs.get((task, row), [])
        return [run["score"] if part == "score" else run["halves"][part] for run in runs]

    def rounds(self, task):
        return " or ".join(sorted({f"{run['rounds']:,}" for (name, _), runs in self.runs.items() if name == task for run in runs}))

    def mean(self, task, row, part="score"):
        scores = self.scores(task, row, part)
        return sum(scores) / len(scores) if scores else None

    def best(self, task):
        """The row that the others are held against; told rows, chance, and the default under another name do not compete."""
        rows = [r for r in self.rows if self.scores(task.name, r) and r not in ("uniform", "laplaced, eps 0") and "told" not in r]
        key = (lambda r: self.mean(task.name, r)) if task.measure == league_tasks.REGRET else (lambda r: -self.mean(task.name, r))
        return min(rows, key=key) if rows else None


def number(x, like=None):
    """With as many digits as a mean of that size deserves; like: as that one."""
    size = abs(x if like is None else like)
    return f"{x:.3f}" if size < 1 else f"{x:.1f}" if size < 100 else f"{x:,.0f}"


def cell(scores, is_best):
    if not scores:
        return "-"
    mean, se = estimate(scores)
    text = number(mean) + ("" if math.isnan(se) else f" ± {number(se, mean)}")
    return f"**{text}**" if is_best else text


def table(head, body):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in body)])


def main_table(lines):
    measure = {league_tasks.REGRET: "regret", league_tasks.REWARD: "reward", league_tasks.ALIVE: "alive"}
    body = [[f"{t.name}{' †' if t.chosen_on else ''} ({measure[t.measure]}, {lines.rounds(t.name)} rounds)", *(cell(lines.scores(t.name, r), r == lines.best(t)) for r in lines.rows)]
            for t in lines.tasks]
    return table(["task", *lines.rows], body)


def ratios_of(lines, row):
    """{what: number} of what a row is asked for."""
    def ratio(a, b):
        return a / b if a is not None and b else None
    ab = [ratio(lines.mean(t.name, row), lines.mean(t.name, REFERENCE)) for t in lines.tasks if t.group == "ab"]
    ab = [max(r, 1e-9) for r in ab if r is not None]
    return {"A/B": geometric(ab) if ab else None, "A/B, worst": max(ab, default=None),
            "permuted / no graph": ratio(lines.mean("town-permuted", row), lines.mean("town-no", row)),
            "true / no graph": ratio(lines.mean("town-true", row), lines.mean("town-no", row)),
            "drift": ratio(lines.mean("drift", row, 1), lines.mean("drift", row, 0)),
            "late / prompt": ratio(lines.mean("late", row), lines.mean("prompt", row)), "zeros": lines.mean("zeros", row)}


def ratio_table(lines):
    found = {row: ratios_of(lines, row) for row in lines.rows}
    head = list(next(iter(found.values())))
    return table(["row", *head], [[row, *("-" if v is None else f"{v:.2f}" for v in found[row].values())] for row in lines.rows])


def beaten(lines):
    """(tasks where the default is best, [(task, who, how much worse)] of the others)."""
    best, lost = [], []
    for task in lines.tasks:
        mine, who = lines.mean(task.name, OURS_FIRST), lines.best(task)
        if mine is None:
            continue
        if who == OURS_FIRST:
            best.append(task.name)
        else:
            lost.append(f"{task.name} ({who} {number(lines.mean(task.name, who))}, the default {number(mine)})")
    return best, lost


def default_words(lines):
    said = []
    for name, words in (("plain", "without contexts and features"), ("contexts", "with contexts"), ("features", "with features of arms")):
        c = lines.default.get(name)
        if c:
            kernels = f"users `{c['user_kernel']['type']}`, contexts `{c['context_kernel']['type']}`, arms `{c['arm_kernel']['type']}`"
            said.append(f"- {words}: {kernels}; representation `{c['representation']['type']}`, rule `{c['rule']['type']}`, "
                        f"`epsilon` {c['rule']['epsilon']:g}" + (f", `tune` {json.dumps(c['tune'])}" if c.get("tune") is not None else ""))
    return "\n".join(said)


def page(lines, picture):
    best, lost = beaten(lines)
    idle = [f"- {row}: {why} ({'failed' if is_failure else 'not played'}: {', '.join(dict.fromkeys(tasks))})"
            for (row, why, is_failure), tasks in lines.idle.items()]
    idle += [f"- {task}: {why}" for task, why in lines.missing.items()]
    if not any(row.startswith("VW") for row in lines.rows):
        idle.append("- Vowpal Wabbit: `VW=PATH` named no program")
    return f"""# Quality of decisions

What the default row and others earn on tasks whose truth is known, losses included. `make league` plays all tasks and writes this page; `make league
LEAGUE="ab town" SEEDS=20` plays parts of it anew, `DATA=FOLDER` adds people and clicks that are not in the repository, `VW=PATH` adds Vowpal Wabbit (on some tasks: [BESIDE_VW.md](BESIDE_VW.md)). Figures here are
of {' or '.join(map(str, lines.seeds))} seeds, ± one standard error; OpenBLAS kernels {', '.join(sorted(lines.cores))}. Ours are driven over HTTP, one decision after the other, at a server
with `--finish-builds`: a run can be repeated bit by bit ([0073](decisions/0073-decisions-are-a-function.md)).

## What the default does

A tenant that nobody has configured decides by the row `laplaced`. Its figures here are those of a tenant as it is made, but for `arm_dim`, `context_dim` and the
graph, which say what there is. Such a tenant has

{default_words(lines)}

It is the best of the rows (told ones, its own with `epsilon` 0, and chance left out) on {len(best)} of {len(best) + len(lost)} tasks: {', '.join(best) or 'none'}. It is not on

{chr(10).join('- ' + text for text in lost) or '- none'}

A difference of less than two standard errors says little about which of two rows is better. One run of forty or so loses the best arm for long, and decides the figure of a few seeds.
[REGRET.md](REGRET.md) has the A/B tasks, drift and delay over twenty seeds, by the engine itself.

## The table

Regret: the sum over all rounds, less is better. Reward: of a round, more is better. Alive: 1 when all arms are shown alike, 0 when one is not shown any more.
The best of a line is bold, told rows, `eps 0` and chance left out. **†**: constants of a model were chosen while looking at this task, at one seed or more, so it is no evidence for them; the rest were played
only to be shown. What was looked at besides, and is not played here: a network of 1,892 listeners with 200 artists, ecoli, glass, ionosphere and wheat seeds.
A task has as many rounds as its line says; where that is fewer than below, the run was cut short (`ARGS="--most N"`).

{main_table(lines)}

## What is asked of a row

A/B: the geometric mean, over the A/B tasks, of the row's mean regret by Beta-TS's, and the worst of them. Permuted, true: regret in the town with friendships that are
nobody's, and with the true ones, by that with none. Drift: regret of the second half, in which rates have changed places, by that of the first. Late: regret where rewards
come 500 decisions late, by that where they come at once. Zeros: as in the table. A/B, drift and late of the default over twenty seeds: [REGRET.md](REGRET.md).

{ratio_table(lines)}

![Regret, or reward, over the rounds of six tasks]({picture})

## The tasks

{table(['task', 'what', 'measure'], [[t.name, t.about, t.measure] for t in league_tasks.all_tasks()])}

Rewards of A/B tasks are 0 or 1 and drawn in advance, so that two rows that show an arm in the same round meet the same. The town is that of `laplacectl demo`, drawn anew.
Classification pays 1 for the right class; classes are named anew and rows shuffled for each seed, columns have mean 0 and deviation 1 over the set.

## The rows

{table(['row', 'what'], [[r.name, r.about] for r in league_rows.all_rows("vw")])}

Algorithms that are not ours know no graph, and `Beta-TS` no contexts. `told` rows know what nobody knows: they show what is lost by not knowing it.

## What was not played

{chr(10).join(idle)}
"""


class Panel:
    """The curves of one task: means over the seeds."""
    WIDTH, HEIGHT, LEFT, TOP = 250, 150, 42, 26

    def __init__(self, lines, task, x, y):
        self.x, self.y, self.task, self.curves = x, y, task, []
        for row, colour in CURVES:
            runs = lines.runs.get((task.name, row))
            if runs:
                curve = [sum(values) / len(values) for values in zip(*(run["curve"] for run in runs))]
                self.curves.append((row, colour, [(i + 1) * runs[0]["step"] for i in range(len(curve))], curve))

    def draw(self):
        most, rounds = max(max(c[3]) for c in self.curves) or 1, max(c[2][-1] for c in self.curves)
        left, bottom = self.x + self.LEFT, self.y + self.TOP + self.HEIGHT
        out = [f'<text x="{left}" y="{self.y + 16}" class="title">{html.escape(self.task.name)}: total {self.task.measure}</text>',
               f'<path d="M{left} {self.y + self.TOP}V{bottom}H{left + self.WIDTH}" class="axis"/>',
               f'<text x="{left - 4}" y="{self.y + self.TOP + 8}" class="left">{number(most)}</text><text x="{left - 4}" y="{bottom}" class="left">0</text>',
               f'<text x="{left + self.WIDTH}" y="{bottom + 13}" class="left">{rounds:,} rounds</text>']
        for row, colour, xs, ys in self.curves:
            points = " ".join(f"{left + self.WIDTH * x / rounds:.1f},{bottom - self.HEIGHT * y / most:.1f}" for x, y in zip(xs, ys))
            out.append(f'<polyline points="{points}" stroke="{colour}"><title>{html.escape(row)}</title></polyline>')
        return "\n".join(out)


def draw(lines):
    tasks = [t for name in PANELS for t in lines.tasks if t.name == name]
    panels = [Panel(lines, t, 310 * (i % 3), 205 * (i // 3)) for i, t in enumerate(tasks)]
    width, height = 310 * 3, 205 * ((len(tasks) + 2) // 3) + 30
    legend = "".join(f'<text x="{42 + 150 * i}" y="{height - 10}" fill="{colour}">{html.escape(row)}</text>' for i, (row, colour) in enumerate(CURVES))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
            "<style>text{font:12px sans-serif}.title,.left{fill:#333}.title{font-weight:bold}.left{text-anchor:end;font-size:11px}"
            ".axis{stroke:#888;fill:none}polyline{fill:none;stroke-width:1.6}"
            "@media(prefers-color-scheme:dark){.title,.left{fill:#ddd}}</style>\n"
            + "\n".join(p.draw() for p in panels if p.curves) + "\n" + legend + "\n</svg>\n")


def put_table(page, name, text):
    """Between the marks that the page has for it."""
    begin, end = f"<!-- table: {name} -->\n", "<!-- end -->"
    head, rest = page.read_text().split(begin)
    page.write_text(head + begin + text + "\n" + end + rest.split(end, 1)[1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--picture", type=pathlib.Path)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    lines = Lines(args.file.read_text())
    if args.table:
        put_table(args.page, "league", main_table(lines))
        return
    picture = args.picture or args.page.parent / "figures" / "league.svg"
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(draw(lines))
    args.page.write_text(page(lines, os.path.relpath(picture, args.page.parent)))


if __name__ == "__main__":
    main()
