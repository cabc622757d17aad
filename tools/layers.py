#!/usr/bin/env python3
"""Proves by includes which room knows which, from the table tools/rooms.txt.

    tools/layers.py [ROOT]            prints each offending line; exit status 1 when there is one
    tools/layers.py [ROOT] --circles  prints the circles of files as well: files that need each other to be compiled

What is proved:

    rooms      a quoted include names a room, and a file includes headers of rooms alone that its own room may know
    core       C11's headers and core's own; cblas.h and lapacke.h in their owners only; stdio.h in err.c only; outside
               of core its public headers alone
    tools      paper knows the core only; nobody includes tools/ or tests/, and no .c file is included
    owners     a third-party header is included by the files that own it
    breaches   what breaks the table and is known: it may become less. One that is gone is to be struck out, too
    circles    their number may become less, too
"""
import collections
import fnmatch
import pathlib
import re
import sys

ROOTS = ("core", "server", "tools")
C11 = set("""assert complex ctype errno fenv float inttypes iso646 limits math stdalign stdarg stdatomic stdbool stddef stdint
             stdlib stdnoreturn string tgmath""".split())
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)', re.M)
OPENS = re.compile(r"sqlite3_open(16|_v2)?\(")
MUTABLE = re.compile(r"^(static )?(_Atomic )?(struct [a-z_]+|double|float|int|long|size_t|u?int[0-9]+_t|char|bool|unsigned|void)"
                     r" \*?[a-z_]+(\[[^]]*\])*( =.*)?;")


class Table:
    """tools/rooms.txt: sections in brackets, `key: words` or `file -> header` in each."""

    def __init__(self, path):
        self.knows, self.owners, self.public, self.breaches, self.circles = {r: {} for r in ROOTS}, {}, set(), set(), 0
        section = None
        for line in path.read_text().splitlines():
            line = line.split("#")[0].strip()
            if line.startswith("["):
                section = line.strip("[]")
            elif line:
                self.take(section, line)
        self.check_order()

    def take(self, section, line):
        if section == "breaches":
            file, header = line.split(" -> ")
            self.breaches.add((file, header))
        elif section == "public":
            self.public |= set(line.split())
        else:
            key, words = line.split(":")
            if section in ROOTS:
                self.knows[section][key] = words.split()
            elif section == "owners":
                self.owners[key] = words.split()
            else:
                self.circles = int(words)

    def check_order(self):
        for root, rooms in self.knows.items():
            seen = set()
            for room, known in rooms.items():
                for other in known:
                    if other not in seen:
                        sys.exit(f"tools/rooms.txt: {root}/{room} may know `{other}`, which does not stand above it")
                seen.add(room)


class Tree:
    def __init__(self, root):
        self.root = root
        self.files = sorted(p.relative_to(root).as_posix() for r in ROOTS for s in ("*.c", "*.h", "*.cc")
                            for p in (root / r).rglob(s))
        self.text = {f: (root / f).read_text() for f in self.files}
        self.faults = []

    def fault(self, file, at, header, why):
        line = self.text[file].count("\n", 0, at) + 1
        self.faults.append(f"{file}:{line}: {header}: {why}")

    def find(self, file, header):
        """The file that a quoted include means: of the own root, else of core, for tools of the server as well."""
        root = file.split("/")[0]
        for place in dict.fromkeys((root, "core", "server") if root == "tools" else (root, "core")):
            if f"{place}/{header}" in self.text:
                return f"{place}/{header}"
        return None


def parts(file):
    """(root, room, name); room None for a file that stands in no room."""
    words = file.split("/")
    return (words[0], words[1], words[2]) if len(words) == 3 else (words[0], None, words[-1])


def check_quoted(tree, table, file, at, header, used):
    root, room, _ = parts(file)
    if header.endswith((".c", ".cc")) or header.count("/") != 1:
        return tree.fault(file, at, header, "an include names a room and a header: \"room/header.h\"")
    target = tree.find(file, header)
    if target is None:
        return tree.fault(file, at, header, "no such header in this root" + ("" if root == "core" else ", in core or in the server"))
    other_root, other, _ = parts(target)
    if other_root == "core" and root != "core" and header not in table.public:
        return tree.fault(file, at, header, "this header is core's own business (tools/rooms.txt, [public])")
    if other_root == "server" and room == "paper":
        return tree.fault(file, at, header, "paper knows the core only")
    if other_root == root and other != room and other not in table.knows[root].get(room, ()):
        if (file, header) not in table.breaches:
            return tree.fault(file, at, header, f"{root}/{room} may not know {root}/{other} (tools/rooms.txt)")
        used.add((file, header))
    return None


def check_system(tree, table, file, at, header):
    owners = table.owners.get(header)
    if owners is not None and not any(fnmatch.fnmatchcase(file, o) for o in owners):
        tree.fault(file, at, header, "its owners are " + " ".join(owners))
    if file.startswith("core/"):
        if header == "stdio.h":
            if parts(file)[2] != "err.c":
                tree.fault(file, at, header, "input and output have no place in core")
        elif header.removesuffix(".h") not in C11 and header not in ("cblas.h", "lapacke.h", "lbfgs.h"):
            tree.fault(file, at, header, "core includes nothing but C11, core, BLAS and L-BFGS")


def check_rooms(tree, table):
    for file in tree.files:
        root, room, _ = parts(file)
        if room is None or room not in table.knows[root]:
            tree.faults.append(f"{file}:1: stands in no room of {root}/ (tools/rooms.txt)")
    places = collections.Counter(f.split("/", 1)[1] for f in tree.files if f.endswith(".h"))
    for header, n in places.items():
        if n > 1:
            tree.faults.append(f"{header}: {n} headers are called so: an include could mean either")


def check_lines(tree):
    """A connection that is opened elsewhere would run what a stranger's file has in it; data at file scope makes core
    unfit for threads (alloc.c's hook of the tests aside)."""
    for file, text in tree.text.items():
        for n, line in enumerate(text.splitlines(), 1):
            name = parts(file)[2]
            if OPENS.search(line) and name != "sqlite_util.c":
                tree.faults.append(f"{file}:{n}: connections are made by ld_sql_connect alone")
            if file.startswith("core/") and file.endswith(".c") and name != "alloc.c" and "const" not in line and MUTABLE.match(line):
                tree.faults.append(f"{file}:{n}: mutable data at file scope")


def module(file):
    """X of X.c, X.h, and the headers for the files that X is made of: X_impl.h, and X_state.h, its structure."""
    return file.rsplit(".", 1)[0].removesuffix("_impl").removesuffix("_state")


def circles(tree):
    """Circles of modules: [[module]]. Tarjan, without recursion's limits."""
    edges = collections.defaultdict(set)
    for file, text in tree.text.items():
        for m in INCLUDE.finditer(text):
            target = tree.find(file, m[2]) if m[1] == '"' else None
            if target and module(target) != module(file):
                edges[module(file)].add(module(target))
    index, low, stack, found = {}, {}, [], []
    sys.setrecursionlimit(10000)

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in sorted(edges[v]):
            if w not in index:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            at = stack.index(v)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for v in sorted(edges):
        if v not in index:
            visit(v)
    return found


def main():
    words = [a for a in sys.argv[1:] if not a.startswith("-")]
    root = pathlib.Path(words[0]) if words else pathlib.Path(__file__).resolve().parent.parent
    table, tree, used = Table(root / "tools" / "rooms.txt"), Tree(root), set()
    check_rooms(tree, table)
    for file in tree.files:
        for m in INCLUDE.finditer(tree.text[file]):
            if m[1] == '"':
                check_quoted(tree, table, file, m.start(1), m[2], used)
            else:
                check_system(tree, table, file, m.start(1), m[2])
    for file, header in sorted(table.breaches - used):
        tree.faults.append(f"{file}: {header}: is no breach any more: strike it out of tools/rooms.txt")
    check_lines(tree)
    rings = circles(tree)
    if len(rings) != table.circles:
        tree.faults.append(f"{len(rings)} circles of files where tools/rooms.txt has {table.circles}: "
                           + ("break the new one" if len(rings) > table.circles else "lower its number"))
    if "--circles" in sys.argv:
        for ring in rings:
            print("circle: " + " ".join(ring))
    print("\n".join(tree.faults) if tree.faults else f"layers: every include is where it may be; {len(used)} known breaches, "
          f"{len(rings)} circles of files, {max(map(len, rings), default=0)} in the largest")
    sys.exit(1 if tree.faults else 0)


if __name__ == "__main__":
    main()
