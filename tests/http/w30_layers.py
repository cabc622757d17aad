"""tools/layers.py finds what it is there to find: each kind of fault planted once into a copy of the sources."""
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = "tools/rooms.txt"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    root = tmp_path_factory.mktemp("layers")
    for name in ("core", "server", "tools"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def layers(root):
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "layers.py"), str(root)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_tree_as_it_is_has_no_fault():
    code, said = layers(ROOT)
    assert code == 0, said


# What is put at the end of which file, and what must be said of it.
PLANTED = {
    "a room that stands above": ("core/graph/graph.c", '#include "model/engine_read.h"', "core/graph may not know core/model"),
    "another one of the server": ("server/store/folder.c", '#include "tenant/tenant.h"', "server/store may not know server/tenant"),
    "a header that is core's own": ("server/tenant/queue.c", '#include "posterior/exact.h"', "core's own business"),
    "the server from core": ("core/base/buf.c", '#include "base/clock.h"', "no such header"),
    "a header without its room": ("server/http/http_body.c", '#include "http.h"', "names a room"),
    "a .c file": ("server/http/http_body.c", '#include "http/http.c"', "names a room"),
    "input and output in core": ("core/base/buf.c", "#include <stdio.h>", "no place in core"),
    "threads in core": ("core/base/buf.c", "#include <pthread.h>", "nothing but C11"),
    "SQLite outside of its owners": ("server/tenant/queue.c", "#include <sqlite3.h>", "its owners are"),
    "BLAS outside of its owners": ("core/graph/graph.c", "#include <cblas.h>", "its owners are"),
    "the server from paper": ("tools/paper/run.c", '#include "store/store.h"', "paper knows the core only"),
    "a connection that is opened by hand": ("server/store/migrate.c", "int rc = sqlite3_open(path, &db);", "ld_sql_connect alone"),
    "mutable data": ("core/base/buf.c", "static int calls;", "mutable data"),
    "a breach that is gone": (TABLE, "[breaches]\nserver/base/text.c -> app/app.h", "no breach any more"),
    "a circle": ("core/base/buf.h", '#include "base/arena.h"\n#include "base/ids.h"', None),
}


@pytest.mark.parametrize("case", PLANTED)
def test_each_kind_of_fault_is_found(copy, case):
    name, text, said_of_it = PLANTED[case]
    file = copy / name
    before = file.read_text()
    file.write_text(f"{before}\n{text}\n")
    try:
        if said_of_it is None:  # ids.h knows err.h, which is made to know buf.h
            other = copy / "core/base/err.h"
            kept = other.read_text()
            other.write_text(kept + '\n#include "base/buf.h"\n')
            code, said = layers(copy)
            other.write_text(kept)
            said_of_it = "break the new one"
        else:
            code, said = layers(copy)
    finally:
        file.write_text(before)
    assert code == 1 and said_of_it in said, said
    if name != TABLE:
        assert (name in said) or "circles" in said, said


def test_a_file_without_a_room_and_two_headers_of_one_name_are_found(copy):
    stray, twin = copy / "server/stray.c", copy / "server/base/alloc.h"
    stray.write_text("\n")
    twin.write_text("\n")
    code, said = layers(copy)
    stray.unlink()
    twin.unlink()
    assert code == 1 and "server/stray.c:1: stands in no room" in said and "base/alloc.h: 2 headers" in said, said


def test_a_table_that_is_not_in_order_is_refused(copy):
    table = copy / TABLE
    before = table.read_text()
    table.write_text(before.replace("[core]\nbase:", "[core]\nbase: model", 1))
    code, said = layers(copy)
    table.write_text(before)
    assert code == 1 and "does not stand above it" in said, said


def test_the_walks_of_the_document_are_those_that_were_counted():
    """What `make walks` has recorded stands in bold in ARCHITECTURE.md."""
    walks = {route: {pathlib.Path(f).name for f in walk["files"]} for route, walk in json.loads((ROOT / "tests/walk/walks.json").read_text()).items()}
    text = (ROOT / "docs/ARCHITECTURE.md").read_text()
    select, reward = text.split("## One `/select`")[1].split("## One `/reward`")
    assert set(re.findall(r"\*\*`(\w+\.c)", select)) == walks["/select"]
    assert f"enters the {len(walks['/select'])} files" in select and f"enters {len(walks['/reward'])} files" in reward
    less = re.findall(r"`(\w+\.c)`", reward.split("but for ")[1].split(". ")[0])
    assert walks["/reward"] == walks["/select"] - set(less)
