"""What laplacectl is answered, and what it sends, is held to the contract like everything else: its requests go through a
server in front that judges both."""
import http.client
import http.server
import os
import subprocess
import threading
import urllib.parse

import pytest

from contract import CONTRACT, Answer
from harness import CTL

OF_A_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "proxy-connection", "expect"}


class Judge(http.server.BaseHTTPRequestHandler):
    """Passes requests on to `server.behind`, and keeps in `server` the operations seen and the faults found."""
    protocol_version = "HTTP/1.1"

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def do_any(self):
        body = self.body()
        there = http.client.HTTPConnection(self.server.behind, timeout=60)
        there.request(self.command, self.path, body or None, {k: v for k, v in self.headers.items() if k.lower() not in OF_A_HOP})
        reply = there.getresponse()
        answer = Answer(reply.status, reply.headers, reply.read())
        there.close()
        self.judge(self.path.split("?")[0], body, answer)
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            if name.lower() not in OF_A_HOP | {"date"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = do_any

    def judge(self, path, body, answer):
        name = CONTRACT.find(self.command, path)[0]
        self.server.seen.add(name)
        try:
            CONTRACT.check_response(self.command, path, answer)
            kind = self.headers.get("Content-Type")
            if body and answer.status_code < 300 and CONTRACT.documented_bodies() & {(name, kind)}:
                text = body.decode("utf-8", errors="replace")
                assert not (faults := CONTRACT.request_errors(self.command, path, kind, text)), faults[:3]
        except AssertionError as fault:
            self.server.faults.append(f"{self.command} {path}: {fault}")

    def log_message(self, *args):
        pass


@pytest.fixture
def judged(boot):
    """judged(args...) runs laplacectl through the judge; expect: its exit status."""
    behind = urllib.parse.urlsplit(boot().url).netloc
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    proxy.behind, proxy.seen, proxy.faults, proxy.daemon_threads = behind, set(), [], True
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    env = {**os.environ, "LAPLACED_URL": f"http://127.0.0.1:{proxy.server_port}"}

    def run(*args, expect=0, key=None):
        done = subprocess.run([CTL, *args], capture_output=True, timeout=120, env={**env, **({"LAPLACED_KEY": key} if key else {})})
        assert done.returncode == expect, (args, done.stdout[-1000:], done.stderr[-1000:])
        assert proxy.faults == [], (args, proxy.faults)
        return done.stdout.decode()
    run.proxy = proxy
    yield run
    proxy.shutdown()
    proxy.server_close()
    thread.join(10)


def test_every_command_sends_and_takes_what_the_contract_says(judged, tmp_path):
    def file(name, text):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)
    shop = ("--tenant", "shop")
    judged("health")
    judged("tenant", "put", "shop", "--set", "algorithm=gp-ucb", "--set", "arm_dim=2")
    judged(*shop, "graph", "put", file("edges.csv", "ann,bob,1.5\nbob,cat,2\n"))
    judged(*shop, "graph", "patch", file("patch.json", '{"add":[["ann","zoe",9]]}'))
    judged(*shop, "graph", "get")
    judged(*shop, "arms", "put", file("arms.csv", "id,f1,f2\na,1,2\nb,3,4\nc,0,1\n"))
    judged(*shop, "arms", "remove", "c")
    judged(*shop, "arms", "get")
    judged(*shop, "select", "ann", "a", "b", "--decision", "d1")
    judged(*shop, "reward", "d1", "0.5")
    judged(*shop, "reward", "d1", "0.75", expect=1)
    judged(*shop, "select", "ann", "--decision", "d2", "--defer")
    judged(*shop, "activate", "d2")
    judged(*shop, "observe", "cat", "a", "1")
    for command in ("events", "model", "stats"):
        judged(*shop, command)
    judged("verify")
    judged("snapshot", "shop", str(tmp_path / "shop.db"))
    judged("export", "shop", str(tmp_path / "shop.ndjson"))
    judged("restore", "copy", str(tmp_path / "shop.db"))
    judged("import", "again", str(tmp_path / "shop.ndjson"))
    judged("import", "again", str(tmp_path / "shop.ndjson"), expect=1)
    judged("tenant", "compact", "copy", "0")
    judged("tenant", "stop", "copy", expect=1)  # it has no baseline
    judged("tenant", "patch", "copy", '{"routing": {"holdout": {"baseline": {"arm": "a"}}}}', "--version", "1")
    judged("tenant", "patch", "copy", file("patch.json", '{"rule": {"epsilon": 0.25}}'))
    judged("tenant", "patch", "copy", "--set", "rule.epsilon=2", expect=1)
    judged("tenant", "stop", "copy")
    judged("tenant", "start", "copy")
    judged("tenant", "list")
    judged("tenant", "get", "shop")
    judged("tenant", "delete", "again")
    judged("tenant", "get", "again", expect=1)
    admin = judged("key", "create", "--label", "ann").split()[0]
    web = judged("key", "create", *shop, "--role", "decide", key=admin).split()[0]
    judged("key", "list", *shop, key=admin)
    judged(*shop, "select", "ann", key=web)
    judged(*shop, "stats", key=web, expect=1)
    judged("key", "revoke", *shop, web[4:20], key=admin)
    judged(*shop, "select", "ann", key=web, expect=1)
    never = {"eraseUser", "rebuild", "listKeys", "revokeKey", "healthz", "metrics", "openapi",  # not laplacectl's, or not here
             "problems", "problem", "front", "favicon", "consoleDoor", "console", "consoleFile"}
    assert judged.proxy.seen & never == set() and len(judged.proxy.seen) >= 25
