#!/usr/bin/env python3
"""Puts the tables of paperbench into docs/REPRODUCTION.md.

  python3 tools/reproduction.py [DIR]      DIR: where paperbench wrote its tables (default build/paper)

Between `<!-- table: NAME -->` and `<!-- end -->` stands the table of DIR/NAME.md; a table that is not there is left as it
is. Optional filters behind the name keep rows whose setting begins with a word: `<!-- table: lk-table1 lk-medium-er-n -->`."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = re.compile(r"(<!-- table: (\S+)((?: \S+)*) -->\n).*?(<!-- end -->)", re.S)


def rows_of(path, wanted):
    """The table's lines, its header always, other rows by their setting."""
    lines = [line for line in path.read_text().splitlines() if line.startswith("|")]
    head, body = lines[:2], lines[2:]
    return head + [line for line in body if not wanted or any(line[2:].startswith(word) for word in wanted)]


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "paper")
    page = ROOT / "docs" / "REPRODUCTION.md"

    def fill(match):
        path = folder / f"{match[2]}.md"
        if not path.exists():
            print(f"{match[2]}: no table in {folder}, left as it is", file=sys.stderr)
            return match[0]
        return match[1] + "\n".join(rows_of(path, match[3].split())) + "\n" + match[4]

    page.write_text(TABLE.sub(fill, page.read_text()))


main()
