"""The configurations of deploy/ for proxies, as they are but for ports and paths, before a server; each where its program is
installed."""
import contextlib
import json
import shutil
import socket
import subprocess
import threading
import time

import pytest
import requests

import prometheus_text
from certs import Authority
from contract import NDJSON, ROOT
from harness import Client, free_port, run_ctl

DEPLOY = ROOT / "deploy"
PATH = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"


def put_in(text, **places):
    """Each place is there exactly once."""
    for old, new in places.values():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def nginx(folder, port, server, pair):
    (folder / "chain.pem").write_text(pair[0])
    (folder / "key.pem").write_text(pair[1])
    (folder / "laplaced.conf").write_text(put_in(
        (DEPLOY / "nginx.conf").read_text(), listen=("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        server=("    server 127.0.0.1:8080;", f"    server {server};"),
        chain=("/etc/laplaced/tls/chain.pem", f"{folder}/chain.pem"), key=("/etc/laplaced/tls/key.pem", f"{folder}/key.pem")))
    temporary = "".join(f"{of}_temp_path {folder}/{of};" for of in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {temporary} include {folder}/laplaced.conf; }}\n")
    return ["nginx", "-c", str(folder / "nginx.conf"), "-e", "stderr"]


def haproxy(folder, port, server, pair):
    (folder / "both.pem").write_text(pair[0] + pair[1])
    (folder / "haproxy.cfg").write_text(put_in(
        (DEPLOY / "haproxy.cfg").read_text(), listen=("bind :443 ", f"bind 127.0.0.1:{port} "),
        server=("laplaced 127.0.0.1:8080 ", f"laplaced {server} "), pair=("crt /etc/laplaced/tls/both.pem", f"crt {folder}/both.pem")))
    return ["haproxy", "-db", "-f", str(folder / "haproxy.cfg")]


class Front:
    """What a client sees: the proxy, with the server behind it at hand."""

    def __init__(self, url, cacert, server, name):
        self.url, self.cacert, self.server, self.name = url, str(cacert), server, name


def wait_until_open(port, process, log):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.02)
    raise AssertionError(log.read_text())


@pytest.fixture(params=[nginx, haproxy], ids=["nginx", "haproxy"])
def make_front(request, tmp_path):
    """make_front(server): the proxy before it, for a while."""
    name = request.param.__name__
    if shutil.which(name, path=PATH) is None:
        pytest.skip(f"no {name} here (package {name})")

    @contextlib.contextmanager
    def started(server):
        port, authority, log = free_port(), Authority(tmp_path), tmp_path / "proxy.log"
        command = request.param(tmp_path, port, server.url.removeprefix("http://"), authority.pair("proxy"))
        with open(log, "wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={"PATH": PATH})
        try:
            wait_until_open(port, process, log)
            yield Front(f"https://127.0.0.1:{port}", authority.root, server, name)
        finally:
            process.kill()
            process.wait()
    return started


@pytest.fixture
def front(make_front, boot):
    with make_front(boot()) as one:
        yield one


def test_decisions_rewards_and_copies_pass(front, tmp_path):
    far, near = Client(front), Client(front.server)
    far.put_tenant("shop")
    for i in range(30):
        far.reward(far.select(f"u{i % 5}", candidates=["a", "b"], tenant="shop")["decision"], i % 2, tenant="shop")
    assert near.stats("shop")["rewards"] == 30
    trust = ("--cacert", front.cacert)
    for out, back, file in (("snapshot", "restore", "shop.db"), ("export", "import", "shop.ndjson")):
        run_ctl(front, *trust, out, "shop", str(tmp_path / file))
        run_ctl(front, *trust, back, f"by-{back}", str(tmp_path / file))
        assert near.digest(f"by-{back}") == near.digest("shop")


def test_bodies_of_many_megabytes_pass_both_ways(front, tmp_path):
    """Larger than what either proxy holds in memory."""
    near = Client(front.server)
    near.put_tenant("t")
    line = '{"user":"%s%d","arm":"a%d","reward":%d}\n'
    for part in range(2):
        lines = "".join(line % ("u" * 100, i % 50, i % 5, i % 2) for i in range(10000))
        curl(front, "/observe", "-H", "Laplaced-Tenant: t", "-H", f"Content-Type: {NDJSON}", stdin=lines)
    run_ctl(front, "--cacert", front.cacert, "export", "t", str(tmp_path / "t.ndjson"))
    assert (tmp_path / "t.ndjson").stat().st_size > 2 << 20
    run_ctl(front, "--cacert", front.cacert, "import", "u", str(tmp_path / "t.ndjson"))
    assert near.digest("u") == near.digest("t")


def curl(front, path, *more, stdin=None):
    done = subprocess.run(["curl", "-sSf", "--cacert", front.cacert, front.url + path, *(["--data-binary", "@-"] if stdin else []), *more],
                          input=stdin, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_refusals_of_the_server_arrive_as_it_made_them(front):
    far, near = Client(front), Client(front.server)
    large = '{"user":"ann","candidates":["a"],"x":"%s"}' % ("x" * (2 << 20))
    one = {"traceparent": f"00-{'1' * 32}-{'1' * 16}-01"}  # which proxies hand on: one id for both
    for body, status in ((large, 413), ('{"user":7}', 400)):
        far_told, near_told = (c.call("POST", "/select", raw=body, expect=status, headers=one).json for c in (far, near))
        assert far_told == near_told


def open_connections(server):
    text = Client(server).call("GET", "/metrics").text
    return prometheus_text.value(prometheus_text.parse(text), "laplaced_connections")


def test_connections_to_the_server_are_kept(front):
    """Clients that come and go share what the proxy keeps."""
    for _ in range(40):
        curl(front, "/healthz")
    assert 2 <= open_connections(front.server) <= 8  # the scrape's own is one of them


def test_a_server_that_is_gone_is_told_as_such(front):
    front.server.kill()
    answer = Client(front).session.post(front.url + "/select", json={"user": "ann", "candidates": ["a"]}, verify=front.cacert, timeout=60)
    assert answer.status_code in (502, 503)


class Careless:
    """A server that answers every other request and closes the connection after reading those between."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.n_read = 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while (line := stream.readline()):
                length = 0
                while (header := stream.readline().strip()):
                    if header.lower().startswith(b"content-length:"):
                        length = int(header.partition(b":")[2])
                stream.read(length)
                if b"/readyz" not in line:
                    self.n_read += 1
                    if self.n_read % 2 == 0:
                        return
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    def close(self):
        self.listener.close()


def status_of(session, front):
    """0: the proxy closed the connection, as it may when it cannot know whether the request was carried out."""
    try:
        return session.post(front.url + "/reward", json={}, verify=front.cacert, timeout=60).status_code
    except requests.exceptions.ConnectionError:
        return 0


def test_a_request_that_may_have_been_read_is_not_sent_again(make_front):
    """Neither on a new connection nor on one that was kept."""
    server = Careless()
    with contextlib.closing(server), make_front(server) as front:
        session = Client(front).session
        statuses = [status_of(session, front) for _ in range(10)]
        assert statuses[0::2] == [200] * 5 and set(statuses[1::2]) <= {502, 0}
        assert server.n_read == 10


def test_http_2_comes_as_http_1(front):
    if front.name != "haproxy" or "HTTP2" not in subprocess.run(["curl", "-V"], capture_output=True, text=True).stdout:
        pytest.skip("no HTTP/2 here")
    assert curl(front, "/healthz", "--http2", "-o", "/dev/null", "-w", "%{http_version} %{http_code}") == "2 200"
    answer = json.loads(curl(front, "/select", "--http2", stdin='{"user":"ann","candidates":["a","b"]}'))
    assert answer["arm"] in ("a", "b")
