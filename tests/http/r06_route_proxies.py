"""deploy/proxies/: visitors through each proxy, as it is but for ports and paths, to two pages that laplaced chooses between; each
where its program is installed. The server dies in the middle and comes back, the pages' servers one after the other, and no visitor notices."""
import asyncio
import collections
import itertools
import math
import os
import shutil
import subprocess
import sys
import time

import pytest

from contract import ROOT
from harness import Client, Server, free_port
from r05_proxies import PATH, put_in, wait_until_open

PROXIES = ROOT / "deploy" / "proxies"
N, AT_ONCE, USERS = int(os.environ.get("LAPLACED_TEST_VISITS", 10000)), 16, 500
KEY = "a-key-for-the-proxy"

# Two pages, which say who they are and what they were told of the visitor.
PAGES = """
import asyncio, sys

async def serve(name, port):
    async def talk(reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode("latin-1")
                told = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head.split("\\r\\n")[1:])}
                body = f"{name} {told.get('laplaced-arm') or '-'} {told.get('laplaced-decision') or '-'}".encode()
                writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
    return await asyncio.start_server(talk, "127.0.0.1", port)

async def main():
    servers = [await serve(name, int(port)) for name, port in zip("ab", sys.argv[1:])]
    await asyncio.gather(*(s.serve_forever() for s in servers))
asyncio.run(main())
"""


class Pages:
    """Both pages, each on two ports: one process has the first of each, another the second."""

    def __init__(self):
        self.ports = [(free_port(), free_port()) for _ in range(2)]
        self.processes = [self.begin(i) for i in range(2)]

    def begin(self, i):
        return subprocess.Popen([sys.executable, "-c", PAGES, *map(str, self.ports[i])])

    def end(self, i):
        self.processes[i].kill()
        self.processes[i].wait()

    def wait(self, i, log):
        for port in self.ports[i]:
            wait_until_open(port, self.processes[i], log)

    def restart(self, log):
        """As whoever has no better way: one dies with the requests that it has, and comes back; then the other."""
        for i in range(2):
            self.end(i)
            time.sleep(0.2)
            self.processes[i] = self.begin(i)
            self.wait(i, log)

    def addresses(self):
        return {f"{page}_{i + 1}": (f"127.0.0.1:90{i}{number}", f"127.0.0.1:{self.ports[i][number - 1]}") for i in range(2) for number, page in ((1, "a"), (2, "b"))}


def nginx(folder, port, server, pages):
    (folder / "pages.conf").write_text(put_in(
        (PROXIES / "nginx.conf").read_text(), listen=("listen 80;", f"listen 127.0.0.1:{port};"), server=("127.0.0.1:8080", server),
        **pages.addresses(), key=("Bearer KEY", f"Bearer {KEY}")))
    temporary = "".join(f"{of}_temp_path {folder}/{of};" for of in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; keepalive_requests 100000; {temporary} include {folder}/pages.conf; }}\n")
    return ["nginx", "-c", str(folder / "nginx.conf"), "-e", "stderr"]


def haproxy(folder, port, server, pages):
    (folder / "laplaced.lua").write_text(put_in((PROXIES / "laplaced.lua").read_text(), server=("127.0.0.1:8080", server),
                                                key=("Bearer KEY", f"Bearer {KEY}")))
    (folder / "haproxy.cfg").write_text(put_in(
        (PROXIES / "haproxy.cfg").read_text(), listen=("bind :80", f"bind 127.0.0.1:{port}"), **pages.addresses(),
        lua=("/etc/haproxy/laplaced.lua", f"{folder}/laplaced.lua")))
    return ["haproxy", "-db", "-f", str(folder / "haproxy.cfg")]


def caddy(folder, port, server, pages):
    text = (PROXIES / "Caddyfile").read_text()
    for ours, theirs in pages.addresses().values():
        text = text.replace(ours, theirs)
    (folder / "Caddyfile").write_text("{\n\tadmin off\n}\n" + put_in(
        text, listen=("\n:80 {", f"\n:{port} {{\n\tbind 127.0.0.1"), server=("127.0.0.1:8080", server),
        key=("Bearer KEY", f"Bearer {KEY}")))
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


@pytest.fixture(params=[nginx, haproxy, caddy], ids=["nginx", "haproxy", "caddy"])
def street(request, tmp_path):
    """(server, port of the proxy, what restarts the pages)"""
    name = request.param.__name__
    if shutil.which(name, path=PATH) is None:
        pytest.skip(f"no {name} here (Debian's package {'nginx-light' if name == 'nginx' else name})")
    port, own = free_port(), free_port()
    (tmp_path / "keys").write_text(KEY + "\n")
    (tmp_path / "keys").chmod(0o600)
    server, log = Server(tmp_path, "--admin-key-file", str(tmp_path / "keys"), listen=f"127.0.0.1:{own}").start(), tmp_path / "proxy.log"
    pages = Pages()
    command = request.param(tmp_path, port, f"127.0.0.1:{own}", pages)
    with open(log, "wb") as out:
        proxy = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={"PATH": PATH, "HOME": str(tmp_path)})
    try:
        wait_until_open(port, proxy, log)
        for i in range(2):
            pages.wait(i, log)
        yield server, port, lambda: pages.restart(log)
    finally:
        for i in range(2):
            pages.end(i)
        proxy.kill()
        proxy.wait()
        server.close()


async def visitor(port, numbers, seen, cookie):
    """Asks again and again on one connection, as long as there are numbers."""
    reader = writer = None
    for i in numbers:
        if writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /p{i} HTTP/1.1\r\nHost: page\r\nLaplaced-Arm: b\r\nLaplaced-Decision: forged\r\nCookie: {cookie(i)}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        told = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head.split("\r\n")[1:])}
        body = await reader.readexactly(int(told["content-length"]))
        seen.append((int(head.split()[1]), *body.decode().split()))
        if told.get("connection") == "close":
            writer.close()
            writer = None
    if writer is not None:
        writer.close()


def visit(port, n, cookie=lambda i: f"uid=u{i % USERS}", meanwhile=None):
    """[(status, page, arm told, decision told)] of n visits, or of more, until n // 10 have come behind what happens meanwhile."""
    seen, last = [], n if meanwhile is None else math.inf
    numbers = itertools.takewhile(lambda i: i < last, itertools.count())

    def happen():
        nonlocal last
        try:
            meanwhile(seen)
        finally:
            last = max(n, len(seen) + n // 10)

    async def all_of_them():
        visitors = [visitor(port, numbers, seen, cookie) for _ in range(AT_ONCE)]
        await asyncio.gather(*visitors, *([asyncio.to_thread(happen)] if meanwhile else []))
    asyncio.run(all_of_them())
    return seen


def test_visitors_get_the_pages_in_the_shares_told_and_never_an_error(street):
    server, port, restart_pages = street
    client = Client(server, key=KEY)
    client.put_tenant("page", algorithm="ucb", rule={"type": "ucb", "epsilon": 0.6}, default_reward=None)
    client.put_arms("page", [{"id": "a"}, {"id": "b"}])
    for arm, value in (("a", 0), ("b", 1)) * 20:
        client.observe("teacher", arm, value, tenant="page")

    def crash(seen):
        deadline = time.monotonic() + 300
        while len(seen) < N // 6 and time.monotonic() < deadline:
            time.sleep(0.01)
        server.kill()
        at = len(seen)
        while len(seen) < at + max(N // 100, 50) + AT_ONCE and time.monotonic() < deadline:
            time.sleep(0.01)
        server.start()
        restart_pages()
    seen = visit(port, N, meanwhile=crash)
    assert collections.Counter(status for status, *_ in seen) == {200: len(seen)}
    decided = {e["decision"]: e for e in client.events("page") if e["type"] == "decided"}
    made = [(page, arm, decision) for _, page, arm, decision in seen if decision != "-"]
    assert len({decision for *_, decision in made}) == len(made) >= N // 2
    assert all(decided[decision]["arm"] == arm == page for page, arm, decision in made)
    without = [(page, arm) for _, page, arm, decision in seen if decision == "-"]
    assert N // 100 <= len(without) and {page for page, _ in without} == {"a"} and {arm for _, arm in without} <= {"-", "a"}
    shares = {e["arm"]: e["propensity"] for e in decided.values()}
    assert shares == {"a": pytest.approx(0.3), "b": pytest.approx(0.7)}
    n_b, p = sum(page == "b" for page, *_ in made), shares["b"]
    assert abs(n_b - p * len(made)) < 5 * math.sqrt(len(made) * p * (1 - p))


def test_what_a_visitor_writes_changes_nothing_but_who_they_are(street):
    server, port, _ = street
    client = Client(server, key=KEY)
    client.put_tenant("page", algorithm="random", default_reward=None)
    client.put_arms("page", [{"id": "a"}, {"id": "b"}])
    cookies = ["uid=u&decision=mine&candidates=z", "uid=x%0d%0aLaplaced-Tenant:y", "other=1", ""]
    seen = visit(port, 40, cookie=lambda i: cookies[i % 4])
    assert {status for status, *_ in seen} == {200} and all(decision != "forged" for *_, decision in seen)
    users = collections.Counter(e["user"] for e in client.events("page") if e["type"] == "decided")
    assert "u&decision=mine&candidates=z" in users and all(e.get("arm") in "ab" for e in client.events("page") if e["type"] == "decided")
    assert all(page == "a" for _, page, _, decision in seen if decision == "-")  # without a cookie nobody is decided for


def test_a_tenant_that_is_not_there_is_the_fallback(street):
    _, port, _ = street
    assert {(status, page) for status, page, *_ in visit(port, 50)} == {(200, "a")}
