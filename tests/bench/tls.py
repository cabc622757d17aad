"""What TLS costs the server: CPU of a small request on connections that stay, plain and TLS, alone and beside a thousand
idle connections; and of a full handshake, by kind of key. Prints one JSON object; the CPU is that of the server's threads
as the scheduler counts it, so that the client's speed does not matter.

    python3 tests/bench/tls.py OUT RESULT.json        OUT: a build folder such as build/release
"""
import contextlib
import json
import os
import pathlib
import resource
import socket
import ssl
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT, RESULT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
os.environ["LAPLACED_BIN"] = str(OUT / "laplaced")
sys.path[:0] = [str(ROOT / "tests/http"), str(ROOT / "tests")]

from certs import Authority, Pair  # noqa: E402
from harness import Server  # noqa: E402

ASKED = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
REQUESTS, HANDSHAKES, IDLE, REPEATS = 8000, 300, 1000, 5


def cpu_us(server):
    """Of all its threads so far, in microseconds."""
    tasks = pathlib.Path(f"/proc/{server.process.pid}/task")
    return sum(int((t / "schedstat").read_text().split()[0]) for t in tasks.iterdir()) / 1e3


def connect(server, context):
    plain = socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(plain, server_hostname="localhost") if context else plain


def ask(connection):
    connection.sendall(ASKED)
    got = b""
    while not got.endswith(b"}"):  # head and body are a record each
        got += connection.recv(4096)
        assert got.startswith(b"HTTP/1.1 200"), got


def measure(server, n, work):
    """Median and spread over the repeats of the CPU of one."""
    each = []
    for _ in range(REPEATS):
        before = cpu_us(server)
        for _ in range(n):
            work()
        each.append((cpu_us(server) - before) / n)
    return {"us": round(statistics.median(each), 2), "from": round(min(each), 2), "to": round(max(each), 2)}


def request_costs(server, context):
    with connect(server, context) as c:
        alone = measure(server, REQUESTS, lambda: ask(c))
        idle = [connect(server, context) for _ in range(IDLE)]
        for i in idle:
            ask(i)
        beside = measure(server, REQUESTS // 4, lambda: ask(c))
        for i in idle:
            i.close()
    return {"request": alone, f"request_beside_{IDLE}_idle": beside}


def handshake(server, context):
    with connect(server, context) as c:
        ask(c)


def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        authority, result, before = Authority(folder), {}, round(os.getloadavg()[0], 2)
        context = ssl.create_default_context(cafile=authority.root)
        for kind in ("plain", "ec", "rsa"):
            (folder / kind).mkdir()
            pair = Pair(folder / kind, authority).write(authority.pair(kind, kind)) if kind != "plain" else None
            server = Server(folder / kind, "--timeout", "600", "--header-timeout", "600", "--max-connections", "2048", "--threads", "2", *(pair.options if pair else []),
                            cacert=authority.root if pair else None).start()
            with contextlib.closing(server):
                result[kind] = request_costs(server, context if pair else None)
                result[kind]["connection"] = measure(server, HANDSHAKES, lambda: handshake(server, context if pair else None))
    result["load"] = before
    result["handshakes_per_core_second"] = {
        kind: round(1e6 / (result[kind]["connection"]["us"] - result["plain"]["connection"]["us"])) for kind in ("ec", "rsa")}
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(RESULT.read_text())


main()
