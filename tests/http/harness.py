"""A server of the test's own, and a client that holds every answer to the contract."""
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import threading
import time
import urllib.parse

import requests

from contract import CONTRACT, NDJSON, ROOT

BIN = os.environ.get("LAPLACED_BIN", str(ROOT / "build" / "laplaced"))
CTL = os.environ.get("LAPLACECTL_BIN", str(ROOT / "build" / "laplacectl"))
IS_SANITIZED = b"__asan_init" in pathlib.Path(BIN).read_bytes() if os.path.exists(BIN) else False
SERVERS = set()  # addresses of those that were started here
START_S = float(os.environ.get("LAPLACED_TEST_START_S", "60"))


def hold_to_contract(send):
    """Every answer to whatever python-requests sends to a server of ours, here or in a test, is judged."""
    def checked(session, request, **options):
        response = send(session, request, **options)
        url = urllib.parse.urlsplit(request.url)
        if f"{url.scheme}://{url.netloc}" in SERVERS:
            CONTRACT.check_response(request.method, url.path, response, is_streamed=options.get("stream"))
        return response
    return checked


requests.Session.send = hold_to_contract(requests.Session.send)


def preloaded(source, folder):
    """A C file beside this one as a library that LD_PRELOAD takes."""
    out = pathlib.Path(folder) / f"{source}.so"
    source = pathlib.Path(__file__).parent / f"{source}.c"
    subprocess.run([os.environ.get("CC", "cc").split()[-1], "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", str(out), str(source)], check=True)
    return str(out)


class Server:
    """One laplaced process on a folder; start it again after a kill to see what it remembers."""

    def __init__(self, folder, *args, env=None, listen="127.0.0.1:0", cacert=None):
        self.folder = pathlib.Path(folder)
        self.data = self.folder / "data"
        self.args, self.env, self.listen = list(args), env or {}, listen
        self.cacert = cacert and str(cacert)  # whom its clients trust, when it speaks TLS
        self.process, self.url = None, None
        self.inherited = ()  # descriptors that it gets beside the usual ones

    def command(self):
        return [BIN, "--data", str(self.data), "--listen", self.listen, *self.args]

    def environment(self):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("LAPLACED_", "OPENBLAS_"))}
        return {**clean, **self.env}

    def start(self):
        self.launch()
        return self.greeted()

    def launch(self):
        """The process alone: it may be recovering, or refuse to start."""
        assert self.process is None
        with open(self.folder / "stderr.log", "ab") as log:
            # Signals stay as Python has them: SIGXFSZ ignored, so that fill_disk means errors and not death.
            self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=log, env=self.environment(),
                                            restore_signals=False, pass_fds=self.inherited)
        self.pid = self.process.pid

    def greeted(self):
        line = self.first_line()
        assert line.startswith(f"laplaced listening on http{'s' if self.cacert else ''}://"), f"no greeting: {line!r}\n{self.log()[-2000:]}"
        self.url = line.split()[3]
        SERVERS.add(self.url)
        return self

    def first_line(self):
        timer = threading.Timer(START_S, self.process.kill)
        timer.start()
        try:
            return self.process.stdout.readline().decode()
        finally:
            timer.cancel()

    def log(self):
        return (self.folder / "stderr.log").read_text(errors="replace")

    def kill(self):
        """kill -9: nothing in memory survives."""
        self.process.send_signal(signal.SIGKILL)
        self._reap()

    def terminate(self, timeout=30):
        """SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self._reap(timeout)

    def fill_disk(self, is_full=True):
        """Lets every write of the process beyond a file's first byte fail, as a full disk does; or heals it."""
        limit = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (1 if is_full else limit[1], limit[1]))

    def restart(self):
        self.kill()
        return self.start()

    def _reap(self, timeout=30):
        try:
            return self.process.wait(timeout)
        finally:
            if self.process.poll() is not None:
                self.process.stdout.close()
                self.process = None

    def close(self):
        if self.process is not None:
            self.kill()

    def run_to_end(self, timeout=60):
        """For servers that should refuse to start: (exit status, stderr)."""
        done = subprocess.run(self.command(), capture_output=True, timeout=timeout, env=self.environment(), pass_fds=self.inherited)
        return done.returncode, done.stderr.decode(errors="replace")


class Answer:
    def __init__(self, response):
        self.status, self.headers = response.status_code, response.headers
        self.content = response.content
        self.text = response.content.decode("utf-8", errors="replace")
        kind = response.headers.get("Content-Type", "")
        self.json = json.loads(self.text) if self.text and kind.split(";")[0].endswith("json") and NDJSON not in kind else None

    @property
    def pointers(self):
        return [e["pointer"] for e in (self.json or {}).get("errors", [])]


def wait_for(check, seconds=20):
    """Whether it comes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check():
            return True
        time.sleep(0.02)
    return False


class Client:
    """Calls by operation. `expect` is the wanted status (default 200); every answer is checked against openapi.yaml
    (hold_to_contract), and so is every body that the server took."""

    def __init__(self, server, key=None, tenant=None):
        self.server, self.key, self.tenant = server, key, tenant
        self.session = requests.Session()

    def call(self, method, path, body=None, *, raw=None, kind=None, tenant=None, expect=200, query=None, headers=None):
        data, kind = encode(body, raw, kind)
        sent = dict(headers or {})
        if data is not None and kind:
            sent["Content-Type"] = kind
        if tenant or self.tenant:
            sent["Laplaced-Tenant"] = tenant or self.tenant
        if self.key:
            sent["Authorization"] = f"Bearer {self.key}"
        response = self.session.request(method, self.server.url + path, data=data, headers=sent, params=query, timeout=120,
                                        verify=self.server.cacert or True, allow_redirects=False)
        answer = Answer(response)
        wanted = expect if isinstance(expect, tuple) else (expect,)
        assert answer.status in wanted, f"{method} {path}: {answer.status}, not {expect}: {answer.text[:1000]}"
        if data is not None and answer.status < 300:
            faults = CONTRACT.request_errors(method, path, kind or "application/json", data.decode("utf-8", errors="replace"))
            assert not faults, f"the server took what the contract refuses: {faults[:3]}"
            CONTRACT.note_taken(method, path, kind or "application/json")
        return answer

    # decisions
    def select(self, user, *, tenant=None, expect=200, **fields):
        return self.call("POST", "/select", {"user": user, **fields}, tenant=tenant, expect=expect).json

    def reward(self, decision, reward, *, tenant=None, expect=200, **fields):
        return self.call("POST", "/reward", {"decision": decision, "reward": reward, **fields}, tenant=tenant, expect=expect).json

    def observe(self, user, arm, reward, *, tenant=None, expect=200, **fields):
        return self.call("POST", "/observe", {"user": user, "arm": arm, "reward": reward, **fields}, tenant=tenant, expect=expect).json

    # tenants
    def put_tenant(self, name, expect=201, **configuration):
        """Under a fixed model where the test names none: what the default row learns of itself is asked for by name."""
        configuration.setdefault("algorithm", "laplaced-kors")
        view = self.call("PUT", tenant_path(name), configuration, expect=expect).json
        if view.get("rebuilding"):
            view = self.wait_rebuilt(name)
        return view

    def wait_rebuilt(self, name, seconds=60):
        """The tenant's view once the model that its log asks for is in force."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            view = self.call("GET", tenant_path(name)).json
            if not view["rebuilding"]:
                return view
            time.sleep(0.02)
        raise AssertionError(f"{name} is still rebuilding after {seconds} s")

    def put_graph(self, name, edges, users=None, expect=200):
        body = {"edges": [list(e) for e in edges]}
        answer = self.call("PUT", tenant_path(name, "graph"), {**body, "users": users} if users else body, expect=expect).json
        if expect == 200:
            self.wait_rebuilt(name)
        return answer

    def put_arms(self, name, arms, expect=200):
        return self.call("PUT", tenant_path(name, "arms"), {"arms": arms}, expect=expect).json

    def model(self, name):
        return self.call("GET", tenant_path(name, "model")).json

    def digest(self, name):
        return self.model(name)["digest"]

    def verify(self, name, **options):
        return self.call("POST", tenant_path(name, "verify"), **options).json

    def stats(self, name, **query):
        return self.call("GET", tenant_path(name, "stats"), query=query).json

    def metric(self, name):
        """name: with its labels, where it has any."""
        return float(re.search(rf"^laplaced_{re.escape(name)} (\S+)$", self.call("GET", "/metrics").text, re.M).group(1))

    def events(self, name, after=0, limit=100000):
        text = self.call("GET", tenant_path(name, "events"), query={"after": after, "limit": limit}).text
        return [json.loads(line) for line in text.splitlines()]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def encode(body, raw, kind):
    if raw is not None:
        return (raw if isinstance(raw, bytes) else raw.encode()), ("application/json" if kind is None else kind)
    if body is None:
        return None, kind
    if kind == NDJSON:
        return "".join(json.dumps(line) + "\n" for line in body).encode(), kind
    return json.dumps(body).encode(), kind or "application/json"


def tenant_path(name, part=None):
    return "/tenants/" + urllib.parse.quote(name) + (f"/{part}" if part else "")


def by_arm(answer):
    """{arm: (mean, sd)} of an explained decision."""
    return {r["arm"]: (r["mean"], r["sd"]) for r in answer["ranking"]}


def may_lag(model):
    """Bounds that are only to read may be older than the model over many points, until a restart."""
    return model["parameters"]["confidence"]["score"] == "fixed" and len(model["dictionary"]) > 64


def steady(model):
    """What /model shows, less bounds that may lag."""
    return {k: v for k, v in model.items() if k != "confidence"} if may_lag(model) else model


def run_ctl(server, *args, timeout=120, expect=0, stdin=None):
    done = subprocess.run([CTL, "--server", server.url, *args], capture_output=True, timeout=timeout, input=stdin)
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == expect, f"laplacectl {args}: {done.returncode}\n{out[-2000:]}\n{err[-2000:]}"
    return out + err
