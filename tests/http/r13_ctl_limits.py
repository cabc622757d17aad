"""What laplacectl keeps in memory is bounded, whatever files and servers hold: lines without an end out of a few packed
bytes, rows without one, answers without one."""
import gzip
import http.server
import subprocess
import sys
import threading

import pytest

from harness import CTL, IS_SANITIZED

MIB = 1 << 20


@pytest.fixture(autouse=True)
def plain_memory():
    if IS_SANITIZED:
        pytest.skip("resident memory is the sanitizer's")


def endless(path, unit, size=400 * MIB):
    """A few hundred kilobytes that unpack to `size` bytes of one line."""
    with gzip.open(path, "wb", compresslevel=1) as out:
        block = unit * (MIB // len(unit))
        for _ in range(size // MIB):
            out.write(block)
    return str(path)


# A process begins with the memory of the one that it was forked from, and that of a test is large: this one is small.
MEASURED = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=sys.stderr, stderr=sys.stderr)
_, status, usage = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)
"""


def run(*args):
    """(exit status, what it said, the most memory that it had)."""
    done = subprocess.run([sys.executable, "-S", "-c", MEASURED, CTL, *args], capture_output=True, check=True)
    status, peak = map(int, done.stdout.split())
    return status, done.stderr.decode(), peak << 10


FORMATS = {"ndjson": (b" ", "64 MiB"), "dsjson": (b"x", "64 MiB"), "csv": (b"a,", "a row of more than"), "obd": (b"a,", "a row of more than")}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_line_without_an_end_is_refused(tmp_path, kind):
    unit, told = FORMATS[kind]
    path = endless(tmp_path / "log.gz", unit)
    code, said, peak = run("evaluate", "--format", kind, "--policy", "uniform", path)
    assert code != 0 and told in said and "log.gz:1:" in said, said
    assert peak < 256 * MIB, peak


def test_a_line_without_an_end_is_refused_by_replay(tmp_path):
    path = tmp_path / "log.ndjson"
    with open(path, "wb") as out:
        out.write(b"\n\n")
        out.truncate(400 * MIB)  # a hole: NULs
    code, said, peak = run("--server", "http://127.0.0.1:1", "--tenant", "t", "replay", str(path))
    assert code != 0 and "64 MiB" in said and "log.ndjson:3:" in said, said
    assert peak < 256 * MIB, peak


def test_a_row_without_an_end_is_refused_in_tables(server, tmp_path):
    path = tmp_path / "edges.csv"
    with open(path, "wb") as out:
        for _ in range(100):
            out.write(b"a," * (MIB // 2))
    code, said, peak = run("--server", server.url, "graph", "put", str(path))
    assert code != 0 and "a row of more than" in said and "edges.csv:1:" in said, said
    assert peak < 256 * MIB, peak


class Endless(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        try:
            for _ in range(600):
                self.wfile.write(b" " * MIB)
        except OSError:
            pass

    def log_message(self, *args):
        pass


def test_an_answer_without_an_end_is_refused():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            code, said, peak = run("--server", f"http://127.0.0.1:{server.server_port}", "--tenant", "t", "stats")
        finally:
            server.shutdown()
            thread.join()
    assert code != 0 and "more than 256 MiB" in said, said[-300:]
    assert peak < 700 * MIB, peak
