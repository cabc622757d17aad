#!/usr/bin/env python3
"""Puts the tables of paperbench into docs/REPRODUCTION.md.

  python3 tools/reproduction.py [--keep] [DIR...]   DIR: where paperbench wrote its tables (default build/paper); runs of other
                                                    lengths need a DIR of their own
  python3 tools/reproduction.py --claims            what the page's sentences count over its tables: nothing is written

Between `<!-- table: NAME -->` and `<!-- end -->` stand the rows of DIR/NAME.md, in the order of the page. A row is known by
its setting, algorithm and round. A table that no DIR has is left as it is. Of the others, rows that no DIR has, or only of
fewer runs, are kept and get a dagger: they are as old as the page says. With --keep, for a few rows that were made
alone, they are kept as they are. Tables of another kind (no column `runs`) are
replaced as a whole. Optional filters behind the name keep rows whose setting begins with a word:
`<!-- table: lk-table1 lk-medium-er-n -->`."""
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = re.compile(r"(<!-- table: (\S+)((?: \S+)*) -->\n)(.*?)(<!-- end -->)", re.S)
COLUMNS = ["setting", "algorithm", "runs", "round", "regret", "± se", "sd", "printed", "ratio", "apart", "ms/round", "points"]
DAGGER = " †"


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def rows_of(text):
    """[{column: cell}] of a table's lines, and its columns."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    if len(lines) < 2:
        return [], []
    columns = cells_of(lines[0])
    return [dict(zip(columns, cells_of(line))) for line in lines[2:]], columns


def key_of(row):
    return row["setting"], row["algorithm"].removesuffix(DAGGER), row["round"]


def apart(row):
    """What report.c writes into this column, for rows that are older than it."""
    printed = row["printed"]
    if (match := re.fullmatch(r"([\d.]+)\+-([\d.]+)", printed)) is not None:
        return f"{(float(row['regret']) - float(match[1])) / math.hypot(float(row['± se']), float(match[2])):+.1f} se"
    if (match := re.fullmatch(r"([\d.]+) \(sd ([\d.]+)\)", printed)) is not None:
        return f"{(float(row['regret']) - float(match[1])) / float(match[2]):+.1f} sd"
    return "-"


def kept(row, has_aged):
    """The row, with a dagger when it has aged."""
    if has_aged:
        row = {**row, "algorithm": row["algorithm"].removesuffix(DAGGER) + DAGGER}
    return row if "apart" in row else {**row, "apart": apart(row)}


def place_of(row, rows):
    setting, algorithm, at = key_of(row)
    cell = [i for i, other in enumerate(rows) if key_of(other)[:2] == (setting, algorithm)]
    if cell:
        return next((i for i in cell if int(rows[i]["round"]) > int(at)), cell[-1] + 1)
    same = [i for i, other in enumerate(rows) if other["setting"] == setting]
    return same[-1] + 1 if same else len(rows)


def merged(old, new, has_aged):
    """The page's rows with new ones in their places; of a cell by round, new cells behind the last of their setting."""
    found = {key_of(row): row for row in new}
    rows = []
    for row in old:
        fresh = found.pop(key_of(row), None)
        is_whole = fresh is not None and int(fresh["runs"]) >= int(row["runs"])
        rows.append(fresh if is_whole else kept(row, has_aged))
    for row in found.values():
        rows.insert(place_of(row, rows), row)
    return rows


def text_of(rows):
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    return "\n".join(lines + ["| " + " | ".join(row[column] for column in COLUMNS) + " |" for row in rows])


def table(texts, page, wanted, has_aged):
    """The lines that belong between the marks, of the same table from each folder."""
    if "runs" not in rows_of(texts[-1])[1]:
        return "\n".join(line for line in texts[-1].splitlines() if line.startswith("|"))
    fresh = [row for text in texts for row in rows_of(text)[0] if not wanted or any(row["setting"].startswith(word) for word in wanted)]
    return text_of(merged(rows_of(page)[0], fresh, has_aged))


# ---- what the page says of its tables ------------------------------------------------------------------------


def tables_of(text):
    """{name: {setting: {(algorithm, round): row}}}, daggers taken off."""
    out = {}
    for match in TABLE.finditer(text):
        for row in rows_of(match[4])[0]:
            if "runs" in row:
                setting, algorithm, at = key_of(row)
                out.setdefault(match[2], {}).setdefault(setting, {})[algorithm, int(at)] = row
    return out


def rows_in(settings):
    return [(setting, algorithm, row) for setting, of in settings.items() for (algorithm, _), row in of.items()]


def pair_of(of, one, two):
    """Both rows at the last round that both have, of equally many runs where there is such a one; None where there is none."""
    rounds = {at for a, at in of if a == one} & {at for a, at in of if a == two}
    pairs = {at: (of[one, at], of[two, at]) for at in rounds}
    return pairs[max(rounds, key=lambda at: (pairs[at][0]["runs"] == pairs[at][1]["runs"], at))] if rounds else None


def mean(row):
    return float(row["regret"])


def put_spread(name, rows, unit, limit):
    """Rows whose column `apart` is in that unit: within the limit, in all, the worst; and ratios. Nothing of none."""
    rows = [(f"{s}/{a}", row) for s, a, row in rows if row["apart"].endswith(unit)]
    if not rows:
        return
    by = [float(row["apart"].split()[0]) for _, row in rows]
    ratio = [float(row["ratio"]) for _, row in rows]
    worst = max(range(len(rows)), key=lambda i: abs(by[i]))
    print(f"{name}: {sum(abs(v) <= limit for v in by)} of {len(by)} cells within {limit:g} {unit} of print, {sum(v < 0 for v in by)} "
          f"below it; the worst is {rows[worst][0]}, {by[worst]:+.1f} {unit}; ratios from {min(ratio):.2f} to {max(ratio):.2f}")


def put_swaps(name, settings):
    """Pairs of algorithms whose order is not the printed one, though print has them 3 % apart or more."""
    for setting, of in settings.items():
        known = [(a, float(row["printed"].split("+-")[0]), mean(row)) for (a, _), row in of.items() if "+-" in row["printed"]]
        swaps = [f"{a} before {b}" for a, p, ours in known for b, q, other in known if p < q / 1.03 and ours > other]
        if known:
            print(f"{name}: {setting}: printed but not ours: {', '.join(swaps) or 'none'}")


def put_contest(tables, names, one, two):
    """In how many settings the one has more regret than the two."""
    pairs = {s: pair for name in names for s, of in tables.get(name, {}).items() if (pair := pair_of(of, one, two))}
    lost = [f"{s} ({a['regret']}, {b['regret']}; {a['runs']} runs)" for s, (a, b) in pairs.items() if mean(a) > mean(b)]
    print(f"{', '.join(names)}: {one} has more regret than {two} in {len(lost)} of {len(pairs)} settings: {', '.join(lost) or '-'}")


def put_same(name, settings, one, two):
    for setting, of in settings.items():
        if (pair := pair_of(of, one, two)) is not None:
            same = "the same regret as" if pair[0]["regret"] == pair[1]["regret"] else "not the regret of"
            print(f"{name}: {setting}, round {pair[0]['round']}: {two} has {same} {one} ({pair[1]['regret']}, {pair[0]['regret']})")


def put_ratios(name, settings):
    known = [(a, row) for _, a, row in rows_in(settings) if row["ratio"] != "-"]
    print(f"{name}: ours to the authors' program: " + ", ".join(f"{a} at {row['round']} {row['ratio']}" for a, row in known))


def claims(text):
    tables = tables_of(text)
    put_spread("lk-table1", rows_in(tables["lk-table1"]), "se", 2)
    put_swaps("lk-table1", tables["lk-table1"])
    put_contest(tables, ["lk-table1", "lk-fig2", "lk-fig3", "lk-fig4", "lk-fig6"], "lk-gp-ucb", "coop-kernel-ucb")
    put_same("lk-laplaced", tables["lk-laplaced"], "lk-gp-ucb", "laplaced-kors")
    own_grid = [row for row in rows_in(tables["tc-table1"]) if row[1] == "dmm-ucb-own-grid"]
    put_spread("tc-table1", [row for row in rows_in(tables["tc-table1"]) if row[1] != "random" and row not in own_grid], "sd", 1.1)
    put_spread("tc-table1, DMM by TC's own grid", own_grid, "sd", 1.1)
    for name in ("tc-table1", "tc-dims", "tc-loose"):
        put_contest(tables, [name], "dmm-ucb", "amm-ucb")
        put_contest(tables, [name], "amm-ucb", "ay-gp-ucb")
        put_contest(tables, [name], "cmm-ucb", "dmm-ucb")
    for name in ("ek-chessboard", "ek-step", "ek-bump"):
        for size in ("1", "10", "100"):
            put_same(name, tables[name], f"k-ucb-l{size}", f"ek-ucb-l{size}")
        put_ratios(name, tables[name])


def put_tables(folders, has_aged):
    page = ROOT / "docs" / "REPRODUCTION.md"

    def fill(match):
        texts = [path.read_text() for folder in folders if (path := folder / f"{match[2]}.md").exists()]
        if not texts:
            print(f"{match[2]}: no table in {', '.join(map(str, folders))}: left as it is", file=sys.stderr)
            return match[0]
        return match[1] + table(texts, match[4], match[3].split(), has_aged) + "\n" + match[5]

    page.write_text(TABLE.sub(fill, page.read_text()))


def main():
    if sys.argv[1:] == ["--claims"]:
        claims((ROOT / "docs" / "REPRODUCTION.md").read_text())
    else:
        names = [name for name in sys.argv[1:] if name != "--keep"]
        put_tables([pathlib.Path(name) for name in names] or [ROOT / "build" / "paper"], has_aged="--keep" not in sys.argv)


main()
