"""Databases that a stranger may have made: each from a good copy of a tenant, spoiled in one way. For k10_hostile_files.py,
and, run by itself, for the seeds of the fuzzer:  /usr/bin/python3 tests/http/hostile.py GOOD FOLDER"""
import os
import pathlib
import re
import shutil
import sqlite3
import struct
import sys
from contextlib import closing

ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)"


def change(path, *statements):
    """As SQLite does it, with every guard off; the write-ahead log is moved into the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for pragma in ("writable_schema = ON", "ignore_check_constraints = ON", "trusted_schema = ON"):
            db.execute(f"PRAGMA {pragma}")
        for statement in statements:
            db.execute(statement)
        db.execute("PRAGMA writable_schema = OFF")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def renew(path):
    """The next reader sees the schema anew."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        n = db.execute("PRAGMA schema_version").fetchone()[0]
    return change(path, f"PRAGMA schema_version = {n + 1}")


def rewrite(path, name, old, new):
    """The text of a table's row in the schema, without the table."""
    with closing(sqlite3.connect(path)) as db:
        sql = db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).fetchone()[0]
    assert re.search(old, sql, re.S), sql
    text = re.sub(old, lambda _: new, sql, count=1, flags=re.S).replace("'", "''")
    change(path, f"UPDATE sqlite_schema SET sql = '{text}' WHERE name = '{name}'")
    return renew(path)


def hidden_trigger(path, body, when="AFTER INSERT ON events"):
    """Under a name of SQLite's own, which only the schema's table itself can be told."""
    change(path, f"CREATE TRIGGER t {when} BEGIN {body}; END")
    change(path, "UPDATE sqlite_schema SET name = 'sqlite_t', sql = replace(sql, 'TRIGGER t', 'TRIGGER sqlite_t') WHERE name = 't'")
    return renew(path)


def loosely(path, table, statement):
    """A statement on a table that for that moment is not STRICT and lets everything be NULL."""
    with closing(sqlite3.connect(path)) as db:
        sql = db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[0]
    text = sql.replace("'", "''")
    loose = text.replace(" STRICT", "").replace(" NOT NULL", "").replace(" INTEGER,", " ANY,").replace(" TEXT,", " ANY,")
    change(path, f"UPDATE sqlite_schema SET sql = '{loose}' WHERE name = '{table}'")
    renew(path)
    change(path, statement)
    change(path, f"UPDATE sqlite_schema SET sql = '{text}' WHERE name = '{table}'")
    return renew(path)


def poke(path, at, what):
    body = bytearray(path.read_bytes())
    body[at:at + len(what)] = what
    path.write_bytes(body)


def page_bytes(body):
    n = struct.unpack(">H", body[16:18])[0]
    return 65536 if n == 1 else n


def utf16(path):
    good = path.with_name("good")
    path.rename(good)
    with closing(sqlite3.connect(path, isolation_level=None)) as db, closing(sqlite3.connect(good)) as source:
        db.execute("PRAGMA encoding = 'UTF-16le'")
        for (sql,) in source.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type <> 'table'").fetchall():
            db.execute(sql)
        db.execute("BEGIN")
        for table in ("events", "summary", "pieces", "log_start"):
            db.execute(f"DELETE FROM {table}")
            for row in source.execute(f"SELECT * FROM {table}"):
                db.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
        db.execute("COMMIT")
        for pragma in ("application_id", "user_version"):
            db.execute(f"PRAGMA {pragma} = {source.execute(f'PRAGMA {pragma}').fetchone()[0]}")
    good.unlink()


def vacuumed(path, *pragmas):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for pragma in ("journal_mode = DELETE", *pragmas):
            db.execute(f"PRAGMA {pragma}")
        db.execute("VACUUM")


def interior(children, right, page, at=0):
    """A page of a table's tree that leads to others."""
    out, pointers, end = bytearray(page), [], page
    for child in children:
        cell = struct.pack(">IB", child, 1)
        end -= len(cell)
        out[end:end + len(cell)] = cell
        pointers.append(end)
    out[at:at + 12] = struct.pack(">BHHHBI", 5, 0, len(children), end % 65536, 0, right)
    out[at + 12:at + 12 + 2 * len(pointers)] = struct.pack(f">{len(pointers)}H", *pointers)
    return out


def leaf(records, page):
    out, pointers, end = bytearray(page), [], page
    for rowid, payload in records:
        cell = varint(len(payload)) + varint(rowid) + payload
        end -= len(cell)
        out[end:end + len(cell)] = cell
        pointers.append(end)
    out[:8] = struct.pack(">BHHHB", 13, 0, len(records), end % 65536, 0)
    out[8:8 + 2 * len(pointers)] = struct.pack(f">{len(pointers)}H", *pointers)
    return out


def varint(n):
    assert n < 1 << 14
    return bytes([n]) if n < 128 else bytes([n >> 7 | 128, n & 127])


def record(*values):
    types, body = b"", b""
    for value in values:
        if value is None:
            types += b"\0"
        elif isinstance(value, int):
            types, body = types + b"\4", body + struct.pack(">i", value)
        else:
            types, body = types + varint(13 + 2 * len(value)), body + value.encode()
    return varint(len(types) + 1) + types + body


def endless_schema(path):
    """The tree of the schema is small and has more ways through it than anybody can walk: after our own rows, which make the
    tables known, the row of an index that is there, again and again."""
    vacuumed(path, "page_size = 16384")
    body = bytearray(path.read_bytes())
    page = page_bytes(body)
    n = len(body) // page
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema ORDER BY rowid").fetchall()
    again = next(row for row in rows if row[1].startswith("sqlite_autoindex"))
    pages = [leaf([(i + 1, record(*row)) for i, row in enumerate(rows)], page), leaf([(100, record(*again))] * 100, page)]
    for level in range(12):
        pages.append(interior([n + 2 + level] * 400, n + 2 + level, page))
    body[100:page] = interior([n + 1] + [n + 14] * 400, n + 14, page, 100)[100:]
    for extra in pages:
        body += extra
    body[28:32] = struct.pack(">I", len(body) // page)
    path.write_bytes(body)


def circle(path):
    """A page of the log that leads to itself."""
    vacuumed(path, "page_size = 512")
    body = path.read_bytes()
    for at in range(512, len(body), 512):
        if body[at] == 5:
            poke(path, at + 8, struct.pack(">I", at // 512 + 1))
            return
    raise AssertionError("no page to spoil")


def stale_index(path):
    """An index that knows nothing of the rows."""
    change(path, "UPDATE sqlite_schema SET sql = sql || ' AND seq < 0' WHERE name = 'events_decision'")
    renew(path)
    change(path, "REINDEX events_decision")
    change(path, "UPDATE sqlite_schema SET sql = replace(sql, ' AND seq < 0', '') WHERE name = 'events_decision'")
    renew(path)


def freelist(path):
    """The log's first page is called a free one."""
    with closing(sqlite3.connect(path)) as db:
        root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'events'").fetchone()[0]
    poke(path, 32, struct.pack(">II", root, 5))


def without_rowid(path):
    change(path, "DROP VIEW log", "DROP TABLE log_start",
           "CREATE TABLE log_start (id INTEGER PRIMARY KEY CHECK (id = 1), kept INTEGER NOT NULL, generation INTEGER NOT NULL)"
           " STRICT, WITHOUT ROWID", "INSERT INTO log_start VALUES (1, 1, 0)")


def other_case(path):
    """Two things of one name, as SQLite reads names."""
    change(path, "CREATE TABLE other (kept, generation)", "INSERT INTO other VALUES (1, 0)")
    change(path, "UPDATE sqlite_schema SET name = 'LOG_START', tbl_name = 'LOG_START', sql = 'CREATE TABLE LOG_START (kept, generation)'"
           " WHERE name = 'other'")


def cut(path, n):
    path.write_bytes(path.read_bytes()[:n])


LAST = "(SELECT max(seq) FROM events)"
# How it is spoiled, and what the refusal says of it, of what was found or of what was expected.
FILES = {
    # code, and whatever else is not ours, in the schema
    "trigger": (lambda p: change(p, "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events; END"), 'trigger "t" on "events"'),
    "hidden-trigger": (lambda p: hidden_trigger(p, "DELETE FROM events WHERE type = 6"), 'trigger "sqlite_t" on "events"'),
    "hidden-trigger-that-rewrites": (lambda p: hidden_trigger(p, "UPDATE events SET reward = 9, text = replace(text, '1', '9')"), "sqlite_t"),
    "hidden-trigger-without-end": (lambda p: hidden_trigger(p, f"INSERT INTO pieces {ENDLESS} SELECT n, n, '' FROM c"), "sqlite_t"),
    "endless-view": (lambda p: change(p, "DROP VIEW log", "DROP TABLE log_start", "CREATE VIEW log_start (id, kept, generation) AS "
                                      f"{ENDLESS} SELECT 1, count(*), 0 FROM c"), '"log_start"'),
    "endless-view-of-events": (lambda p: change(p, "ALTER TABLE events RENAME TO e", f"CREATE VIEW events AS {ENDLESS} SELECT e.* FROM c, e"), '"e"'),
    "other-view": (lambda p: change(p, "DROP VIEW log", "CREATE VIEW log AS SELECT 1 AS seq"), 'view "log"'),
    "expression-index": (lambda p: change(p, "CREATE INDEX x ON events (abs(seq))"), 'index "x" on "events"'),
    "partial-index": (lambda p: rewrite(p, "events_decision", "decision IS NOT NULL", "decision IS NOT NULL AND seq > 5"), "AND seq > 5"),
    "unique-index": (lambda p: rewrite(p, "events_type", "CREATE INDEX", "CREATE UNIQUE INDEX"), "UNIQUE INDEX"),
    "generated-column": (lambda p: rewrite(p, "events", "answer TEXT", "answer TEXT, x INTEGER AS (abs(seq))"), "AS (abs(seq))"),
    "check": (lambda p: rewrite(p, "events", r"CHECK \(seq > 0\)", "CHECK (seq > 0 AND seq < 100)"), "AND seq < 100"),
    "collation": (lambda p: rewrite(p, "events", "decision TEXT", "decision TEXT COLLATE NOCASE"), "COLLATE NOCASE"),
    "another-default": (lambda p: rewrite(p, "events", "reset INTEGER NOT NULL DEFAULT 0", "reset INTEGER NOT NULL DEFAULT 1"), '(1, '),
    "not-strict": (lambda p: rewrite(p, "events", r"\) STRICT", ")"), 'table "events"'),
    "virtual-table": (lambda p: change(p, "CREATE VIRTUAL TABLE v USING fts5 (x)"), '"v"'),
    "virtual-table-in-place": (lambda p: change(p, "DROP TABLE pieces", "CREATE VIRTUAL TABLE pieces USING fts5 (line, n, text)"), '"pieces'),
    "without-rowid": (without_rowid, "log_start"),
    "stat1": (lambda p: change(p, "ANALYZE"), '"sqlite_stat1"'),
    "sequence": (lambda p: change(p, "CREATE TABLE s (a INTEGER PRIMARY KEY AUTOINCREMENT)", "DROP TABLE s"), '"sqlite_sequence"'),
    "other-case": (other_case, "LOG_START"),
    "one-table-more": (lambda p: change(p, "CREATE TABLE more (x)"), 'table "more"'),
    "one-index-less": (lambda p: change(p, "DROP INDEX events_type"), 'missing is index "events_type"'),
    "behind-a-nul": (lambda p: renew(change(p, "UPDATE sqlite_schema SET sql = CAST(sql || char(0) || 'CHECK (x)' AS TEXT) WHERE name = 'pieces'")),
                     'table "pieces"'),
    "endless-schema": (endless_schema, "damaged"),
    "an-older-version": (lambda p: change(p, "PRAGMA user_version = 5"), "version 5"),
    # pages and the header
    "truncated": (lambda p: cut(p, p.stat().st_size // 2), "truncated"),
    "a-byte-short": (lambda p: cut(p, p.stat().st_size - 1), "truncated"),
    "a-header-alone": (lambda p: cut(p, 100), "truncated"),
    "another-application": (lambda p: change(p, "PRAGMA application_id = 252006674"), "application id 0f055112"),
    "version-0": (lambda p: change(p, "PRAGMA user_version = 0"), "no schema version"),
    "version-99": (lambda p: change(p, "PRAGMA user_version = 99"), "schema version 99"),
    "utf-16": (utf16, "encoding 2, not"),
    "a-format-to-come": (lambda p: poke(p, 18, b"\3\3"), "format is 3/3"),
    "freelist": (freelist, "damaged"),
    "stale-index": (stale_index, "damaged"),
    "circle": (circle, "damaged"),
    # rows
    "negative-seq": (lambda p: change(p, "UPDATE events SET seq = -1 WHERE seq = 2"), "damaged"),
    "a-gap": (lambda p: change(p, "DELETE FROM events WHERE seq = 5"), "gaps"),
    "the-last-rowid": (lambda p: change(p, f"UPDATE events SET seq = 9223372036854775807 WHERE seq = {LAST}"), "gaps"),
    "text-where-integer": (lambda p: loosely(p, "events", "UPDATE events SET at = 'now' WHERE seq = 3"), "damaged"),
    "integer-where-text": (lambda p: loosely(p, "events", "UPDATE events SET user = 7 WHERE seq = 3"), "damaged"),
    "blob-where-text": (lambda p: loosely(p, "events", "UPDATE events SET text = zeroblob(1 << 24) WHERE seq = 3"), "damaged"),
    "null-text": (lambda p: loosely(p, "events", "UPDATE events SET text = NULL WHERE seq = 3"), "damaged"),
    "no-log-start": (lambda p: change(p, "DELETE FROM log_start"), "gaps"),
    "two-log-starts": (lambda p: change(p, "INSERT INTO log_start VALUES (2, 1, 0)"), "damaged"),
    "a-start-beyond": (lambda p: change(p, "UPDATE log_start SET kept = 9223372036854775807"), "gaps"),
    "a-start-before": (lambda p: change(p, "UPDATE log_start SET kept = -9223372036854775807, generation = 9223372036854775807"), "gaps"),
}
# Files that say nothing false, written in a way that ours are not: they are taken, and come to the same model.
HARMLESS = {
    "page-512": lambda p: vacuumed(p, "page_size = 512"),
    "page-65536": lambda p: vacuumed(p, "page_size = 65536"),
    "auto-vacuum": lambda p: vacuumed(p, "auto_vacuum = FULL"),
    "no-auto-vacuum": lambda p: vacuumed(p, "auto_vacuum = NONE"),
    "rollback": lambda p: vacuumed(p),
}
# Only folds can tell: refused when they come in, and by the tenant that they were laid in the place of.
LINES = {
    "huge-line": (lambda p: change(p, f"UPDATE events SET text = printf('%.*c', 33554432, '[') WHERE seq = {LAST}"), "event"),
    "huge-string": (lambda p: change(p, f"UPDATE events SET text = '\"' || printf('%.*c', 33554432, 'x') || '\"' WHERE seq = {LAST}"), "event"),
    "another-type": (lambda p: change(p, f"UPDATE events SET type = 99, text = '{{}}' WHERE seq = {LAST}"), "event"),
    # Columns that say other things than their line: queries would believe them.
    "columns-of-a-configuration": (lambda p: change(p, f"UPDATE events SET type = 1 WHERE seq = {LAST}"), "event"),
    "columns-of-no-configuration": (lambda p: change(p, "UPDATE events SET type = 99 WHERE type = 1"), "event"),
    "columns-of-a-reset": (lambda p: change(p, "UPDATE events SET reset = 1 WHERE seq = 20"), "event"),
    "columns-of-another-decision": (lambda p: change(p, "UPDATE events SET decision = 'd0' WHERE seq = (SELECT max(seq) FROM events WHERE decision IS NOT NULL)"), "event"),
    "columns-without-a-user": (lambda p: change(p, "UPDATE events SET user = NULL WHERE seq = (SELECT max(seq) FROM events WHERE user IS NOT NULL)"), "event"),
    "columns-of-another-reward": (lambda p: change(p, "UPDATE events SET reward = 1e300 WHERE seq = (SELECT max(seq) FROM events WHERE reward IS NOT NULL)"), "event"),
    "columns-of-another-time": (lambda p: change(p, f"UPDATE events SET at = at + 1 WHERE seq = {LAST}"), "event"),
}


def evil_pages(good, evil):
    """(number, contents) of the pages that make the one file the other."""
    a, b = good.read_bytes(), evil.read_bytes()
    page = page_bytes(a)
    return page, len(b) // page, [(i // page + 1, b[i:i + page]) for i in range(0, len(b), page) if a[i:i + page] != b[i:i + page]]


def hot_journal(path):
    """A rollback journal that turns the good file into one with a hidden trigger (fileformat2.html, section 3)."""
    vacuumed(path)
    evil = path.with_name("evil")
    shutil.copy(path, evil)
    hidden_trigger(evil, "DELETE FROM events WHERE type = 6")
    page, n, pages = evil_pages(path, evil)
    evil.unlink()
    body = struct.pack(">8sIIIII", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", len(pages), 1, n, 512, page).ljust(512, b"\0")
    for number, contents in pages:
        body += struct.pack(">I", number) + contents + struct.pack(">I", 1 + sum(contents[i] for i in range(page - 200, 0, -200)))
    pathlib.Path(f"{path}-journal").write_bytes(body)


def hot_wal(path):
    """A write-ahead log that does the same."""
    evil = path.with_name("evil")
    shutil.copy(path, evil)
    with closing(sqlite3.connect(evil, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events WHERE type = 6; END")
        shutil.copy(f"{evil}-wal", f"{path}-wal")
        shutil.copy(evil, path)
    evil.unlink()


def beside(path, suffix, make):
    make(pathlib.Path(f"{path}{suffix}"))


def in_place(path, make):
    path.unlink()
    make(path)


def sparse(path):
    """So long that whoever reads it to its end does not end; the header does not say how many pages count."""
    poke(path, 92, bytes(b ^ 255 for b in path.read_bytes()[92:96]))
    os.truncate(path, 2 << 40)


# What only a folder can hold.
LAID = {
    "hot-journal": (hot_journal, "rollback journal"),
    "hot-wal": (hot_wal, 'trigger "t" on "events"'),
    "pipe": (lambda p: in_place(p, os.mkfifo), "a pipe, not a file"),
    "folder": (lambda p: in_place(p, os.mkdir), "a directory, not a file"),
    "link": (lambda p: in_place(p, lambda q: q.symlink_to("/etc/hostname")), "a symbolic link, not a file"),
    "dangling-link": (lambda p: in_place(p, lambda q: q.symlink_to("/nonexistent")), "a symbolic link, not a file"),
    "wal-pipe": (lambda p: beside(p, "-wal", os.mkfifo), "-wal is a pipe"),
    "journal-pipe": (lambda p: beside(p, "-journal", os.mkfifo), "-journal is a pipe"),
    "shm-link": (lambda p: beside(p, "-shm", lambda q: q.symlink_to("/etc/hostname")), "-shm is a symbolic link"),
    "sparse": (sparse, "damaged"),
    "empty": (lambda p: p.write_bytes(b""), "truncated"),
}
# What the folder may hold beside a good file: it says nothing, and the tenant is what it was.
LAID_HARMLESS = {
    "wal-of-noise": lambda p: beside(p, "-wal", lambda q: q.write_bytes(bytes(range(256)) * 100)),
    "shm-of-noise": lambda p: beside(p, "-shm", lambda q: q.write_bytes(bytes(range(256)) * 128)),
    "empty-journal": lambda p: beside(p, "-journal", lambda q: q.write_bytes(b"")),
    "snapshot-pipe": lambda p: os.mkfifo(f"{p.with_suffix('')}.snapshot"),
    "snapshot-tmp-link": lambda p: os.symlink("/etc/hostname", f"{p.with_suffix('')}.snapshot.tmp"),
}


def make(good, path, spoil):
    shutil.copyfile(good, path)
    spoil(path)


if __name__ == "__main__":
    for kind in FILES:
        make(sys.argv[1], pathlib.Path(sys.argv[2]) / kind, FILES[kind][0])
