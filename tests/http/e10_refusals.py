"""What the server must not touch: files of others, of a later version, damaged ones; a folder or a port in use. A tenant's
file refuses the start of a server that is to open all; else the tenant fails alone (m00_lazy.py)."""
import hashlib
import shutil
import socket
import sqlite3
from contextlib import closing

import pytest

from harness import Client, Server


def contents(folder):
    """Every file's bytes, but those that SQLite keeps only while a file is open, and the lock."""
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*"))
            if p.is_file() and not p.name.endswith("-shm") and p.name != "lock"}


@pytest.fixture
def used(boot):
    """A stopped server's folder with a tenant `t` in it."""
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="ucb")
    for i in range(40):
        client.observe("u", f"a{i % 7}", 0.5, tenant="t")
    assert server.terminate() == 0
    return server


def newer(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute(f"PRAGMA user_version = {version + 1}")


def foreign_sqlite(path):
    path.unlink()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE recipes (name TEXT)")
        db.execute("INSERT INTO recipes VALUES ('soup')")


def another_application(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA application_id = 252006674")


def text(path):
    path.write_text("Dear diary, today I was mistaken for a database.\n" * 50)


def truncated(path):
    path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])


def garbled(path):
    body = bytearray(path.read_bytes())
    body[4096:] = bytes((b * 7 + i) % 256 for i, b in enumerate(body[4096:]))
    path.write_bytes(body)


@pytest.mark.parametrize("file", ["tenants/t.db", "registry.db"])
@pytest.mark.parametrize("spoil", [newer, foreign_sqlite, another_application, text, truncated, garbled], ids=lambda f: f.__name__)
def test_a_file_that_is_not_ours_to_read_is_refused_and_kept(used, spoil, file):
    path = used.data / file
    for rest in path.parent.glob(path.name + "-*"):
        rest.unlink()
    spoil(path)
    for rest in path.parent.glob(path.name + "-*"):
        rest.unlink()
    before = contents(used.data)
    used.args = ["--open-all"]
    status, stderr = used.run_to_end()
    assert status not in (0, -6, -11) and path.name in stderr, stderr
    assert contents(used.data) == before


def test_a_mended_folder_starts_again(used):
    path = used.data / "tenants" / "t.db"
    keep = path.with_name("keep")
    shutil.copy(path, keep)
    truncated(path)
    used.args = ["--open-all"]
    assert used.run_to_end()[0] != 0
    shutil.move(keep, path)
    used.start()
    assert Client(used).model("t")["events"] == 40


def test_a_second_server_on_one_folder_is_refused(boot, tmp_path):
    first = boot()
    status, stderr = Server(tmp_path).run_to_end()
    assert status not in (0, -6, -11) and "data" in stderr
    assert Client(first).call("GET", "/healthz").json == {"status": "ok"}


def test_a_port_in_use_is_refused(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, stderr = Server(tmp_path, listen=f"127.0.0.1:{port}").run_to_end()
    assert status == 1 and str(port) in stderr


@pytest.mark.parametrize("args", [["--no-such-option"], ["--threads", "many"], ["--max-body", "1"], ["--listen", "nowhere"],
                                  ["--log-level", "loud"], ["stray"], ["--config", "/nonexistent/laplaced.conf"]], ids=" ".join)
def test_options_that_make_no_sense_are_refused(tmp_path, args):
    server = Server(tmp_path, *args)
    status, stderr = server.run_to_end()
    assert status not in (0, -6, -11) and args[-1].lstrip("-") in stderr and not server.data.exists()


def test_without_keys_only_loopback_is_served(tmp_path):
    status, stderr = Server(tmp_path, listen="0.0.0.0:0").run_to_end()
    assert status == 2 and "--admin-key-file" in stderr
