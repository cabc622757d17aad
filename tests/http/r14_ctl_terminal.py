"""What laplacectl shows at a terminal holds no control characters of others: a server's texts and those of files are shown with
escapes, unless the output is JSON, which has escapes of its own."""
import http.server
import json
import re
import subprocess
import threading

import pytest

from harness import CTL

EVIL = "\x1b]0;owned\x07\x1b[2J\r\x7f\x9b2J\u0085\ntenant forged"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
KEY = {"key": "k", "id": EVIL, "roles": [EVIL], "label": EVIL, "created_at": EVIL, "expires_at": None}
ANSWERS = {
    "/tenants": {"tenants": [{"name": EVIL, "algorithm": EVIL}, {"name": "b", "state": EVIL, "detail": EVIL}]},
    "/tenants/shop": {"name": "shop", "configuration": {"x": EVIL}},
    "/tenants/shop/keys": {**KEY, "keys": [KEY]},
    "/tenants/shop/verify": {"equal": False, "seq": 1, "events": 1, "digest": EVIL, "fault": EVIL},
    "/tenants/shop/replay": {"type": "report", "model": {"digest": EVIL}, "tenant": EVIL},
}
PROBLEM = {"title": EVIL, "detail": EVIL, "status": 400, "errors": [{"pointer": EVIL, "detail": EVIL}]}


class Evil(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while (size := int(self.rfile.readline(), 16)) > 0:
                self.rfile.read(size + 2)
            self.rfile.readline()
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.split("?")[0]
        body = EVIL.encode() if path == "/readyz" else json.dumps(ANSWERS.get(path, PROBLEM), ensure_ascii=False).encode() + b"\n"
        self.send_response(200 if path in ANSWERS or path == "/readyz" else 400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def url():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def run(url, *args):
    done = subprocess.run([CTL, "--server", url, "--tenant", "shop", *map(str, args)], capture_output=True, timeout=60)
    return done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("args", [
    "tenant list", "tenant get shop", "tenant get other", "key list", "key create", "verify shop", "verify", "health", "ready", "select u a",
    "repair shop --lift", "graph get", "demo"], ids=str)
def test_a_servers_texts_are_shown_with_escapes(url, args):
    out, err = run(url, *args.split())
    assert "owned" in out + err and not CONTROL.search(out + err), (out, err)
    assert not re.search("^tenant forged", out + err, re.M) or args in ("health", "ready")
    assert "\\u001b" in (out + err).lower() and "\\u009b" in out + err


def test_a_replays_report_and_its_errors_are_shown_with_escapes(url, tmp_path):
    (tmp_path / "log").write_text('{"user":"u","arm":"a","reward":1}\n')
    (tmp_path / "config.json").write_text("{}")
    for args in (["replay", "--quiet", tmp_path / "log"], ["replay", "--quiet", "--shadow", tmp_path / "config.json", "--own"],
                 ["import", "--format", "ndjson", tmp_path / "log"], ["observe", "--file", tmp_path / "log"]):
        out, err = run(url, *args)
        assert "owned" in out + err or args[0] == "import", (out, err)
        assert not CONTROL.search(out + err), (out, err)


def test_bytes_of_files_are_shown_with_escapes(url, tmp_path):
    (tmp_path / "edges.csv").write_bytes(b"a,b,1\na,b,\x1b[2J\x9b\n")
    (tmp_path / "log.csv").write_bytes(b"arm,reward,propensity\na,\x1b[2J,1\n")
    for args in (["graph", "put", tmp_path / "edges.csv"], ["evaluate", "--format", "csv", "--policy", "uniform", tmp_path / "log.csv"]):
        out, err = run(url, *args)
        assert "\\u001b[2J" in err and not CONTROL.search(out + err), (out, err)


def test_json_is_printed_as_it_came(url):
    out, _ = run(url, "tenant", "list", "--json")
    assert json.loads(out) == ANSWERS["/tenants"]
    out, _ = run(url, "tenant", "get", "shop")
    assert json.loads(out) == ANSWERS["/tenants/shop"]
