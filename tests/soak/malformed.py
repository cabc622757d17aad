"""A server under malformed traffic from several connections, with good traffic between it.

  python3 tests/soak/malformed.py PROGRAM FILE [--seconds S] [--clients N] [--seed K]

PROGRAM is best a build with sanitizers, whose reports end the process. Each client is a process that draws, until the time
is up: requests with mutated bytes, bodies that hurt decoders, mutated bodies for every route that takes one, uploads that are
cut, connections left open; and now and then a good /select and /reward, which must be answered as ever. In the end the
server must be the same process, answer, hold no descriptor more than before, find each model equal to a fold of its log,
and end with status 0. One JSON line goes to FILE."""
import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import wire

TENANT = "soak"
CONFIG = {"arm_dim": 2, "context_dim": 1, "representation": {"type": "kors", "max_dictionary": 64}}
ROUTES = [("POST", "/select"), ("POST", "/reward"), ("POST", "/activate"), ("POST", "/observe"), ("PUT", "/tenants/{}"),
          ("PUT", "/tenants/{}/graph"), ("PATCH", "/tenants/{}/graph"), ("PUT", "/tenants/{}/arms"), ("PATCH", "/tenants/{}/arms"),
          ("POST", "/tenants/{}/compact"), ("POST", "/keys"), ("POST", "/tenants/{}/keys"), ("POST", "/tenants/{}/import"),
          ("PUT", "/tenants/{}/snapshot"), ("GET", "/tenants/{}/events?after=3"), ("GET", "/tenants/{}/model"), ("GET", "/metrics"),
          ("GET", "/tenants/{}/stats"), ("GET", "/tenants/{}/export"), ("DELETE", "/tenants/{}/users/u1"), ("GET", "/openapi.yaml")]
KINDS = {"/import": "application/x-ndjson", "/snapshot": "application/vnd.sqlite3"}
HELD_OPEN = 8  # unfinished connections that a client keeps at most
VERIFY_S = 300


class Client:
    """Draws and sends; what happened is counted by kind of input and by answer."""

    def __init__(self, port, seed, key):
        self.rng, self.port, self.key = random.Random(seed), port, key
        self.counts = collections.Counter()
        self.held, self.wire, self.n_good = [], None, 0
        self.name = f"c{seed}"

    def connection(self):
        if self.wire is None:
            self.wire = wire.Wire(self.port)
        return self.wire

    def drop(self):
        if self.wire is not None:
            self.wire.close()
        self.wire = None

    def headers(self):
        key = self.rng.choice([self.key] * 6 + ["nonsense", self.key[:-1], ""])
        return [*([f"Authorization: Bearer {key}"] if key else []), f"Laplaced-Tenant: {self.rng.choice([TENANT] * 4 + ['nobody', 'default'])}"]

    def route(self):
        method, path = self.rng.choice(ROUTES)
        kind = next((k for end, k in KINDS.items() if path.endswith(end)), None)
        is_tenant_new = kind is not None or (method, path) == ("PUT", "/tenants/{}")
        tenant = f"new-{self.rng.randrange(20)}" if is_tenant_new else self.rng.choice([TENANT] * 4 + ["nobody"])
        return method, path.format(tenant), kind or self.rng.choice(["application/json"] * 4 + ["application/x-ndjson", "text/plain"])

    def body(self):
        seed = self.rng.choice(wire.BODIES) if self.rng.random() < 0.8 else self.rng.choice(wire.LOGS)
        return wire.mutate(self.rng, seed) if self.rng.random() < 0.9 else wire.deep(self.rng)

    # Kinds of input. Each returns (bytes, whether an answer has to come).
    def broken_body(self):
        method, path, kind = self.route()
        if self.rng.random() < 0.2:
            return wire.chunked(self.rng, method, path, self.body(), self.headers()), True
        return wire.request(method, path, self.body(), self.headers(), kind), True

    def broken_head(self):
        method, path, kind = self.route()
        good = wire.request(method, path, self.rng.choice(wire.BODIES), self.headers(), kind)
        head, _, body = good.partition(b"\r\n\r\n")
        return wire.mutate(self.rng, head) + b"\r\n\r\n" + body, False

    def broken_anywhere(self):
        method, path, kind = self.route()
        one = wire.request(method, path, self.rng.choice(wire.BODIES), self.headers(), kind)
        return wire.mutate(self.rng, one * self.rng.randint(1, 3)), False

    def noise(self):
        return self.rng.randbytes(self.rng.randint(1, 2000)), False

    def huge_head(self):
        return wire.request("GET", "/healthz", headers=[f"X-{i}: {'v' * 200}" for i in range(self.rng.choice([50, 200, 2000]))]), False

    def send(self, kind):
        data, is_answered = getattr(self, kind)()
        w = self.connection()
        self.counts[kind] += 1
        is_sent = w.send(data)
        if not is_answered:
            # Half of a request may stand in the connection: what it answers, if anything, is taken without waiting long.
            w.socket.settimeout(0.02)
        try:
            got = w.answer() if is_sent or is_answered else None
        except (TimeoutError, ValueError):
            got = None
        self.counts[f"answer {got[0] if got else 'none'}"] += 1
        if got and got[0] >= 500 and got[0] not in (501, 503, 505):
            raise AssertionError(f"{got} to {data[:500]!r}")
        if not is_answered or got is None or self.rng.random() < 0.1:
            self.drop()

    def cut(self):
        """An upload that ends in the middle, its connection closed or kept."""
        method, path, kind = self.route()
        data = wire.request(method, path, self.rng.choice(wire.BODIES) * self.rng.choice([1, 1, 500]), self.headers(), kind)
        w = wire.Wire(self.port)
        w.send(data[:self.rng.randrange(len(data))])
        self.counts["cut"] += 1
        if self.rng.random() < 0.5:
            self.held.append(w)
        else:
            w.close()
        while len(self.held) > HELD_OPEN:
            self.held.pop(self.rng.randrange(len(self.held))).close()

    def good(self):
        """Works as if nothing were going on beside it."""
        self.n_good += 1
        name = f"{self.name}-{self.n_good}"
        headers = [f"Authorization: Bearer {self.key}", f"Laplaced-Tenant: {TENANT}"]
        select = json.dumps({"user": f"u{self.n_good % 7}", "context": [self.rng.random()], "decision": name, "candidates": [
            {"id": "a", "features": [1, 0]}, {"id": "b", "features": [0, 1]}]}).encode()
        reward = json.dumps({"decision": name, "reward": self.rng.random()}).encode()
        self.drop()
        w = self.connection()
        for path, body, member in (("/select", select, b'"arm"'), ("/reward", reward, b'"applied"')):
            w.send(wire.request("POST", path, body, headers))
            status, text = w.answer() or (0, b"")
            # Mutated bodies may well be good ones that change the tenant: then the refusal says so.
            assert status == 200 and member in text or status in (404, 409, 422, 503) or b"/context" in text or b"/features" in text, (status, text)
            self.counts[f"good {status}"] += 1

    def run(self, until):
        kinds = ["broken_body"] * 10 + ["broken_head"] * 3 + ["broken_anywhere"] * 3 + ["noise", "huge_head"]
        while time.monotonic() < until:
            draw = self.rng.random()
            try:
                if draw < 0.05:
                    self.good()
                elif draw < 0.12:
                    self.cut()
                else:
                    self.send(self.rng.choice(kinds))
            except ConnectionError:
                self.counts["connection refused or reset"] += 1
                self.drop()
        self.drop()
        for w in self.held:
            w.close()
        return self.counts


def work(port, seed, key, seconds, results):
    try:
        results.put((dict(Client(port, seed, key).run(time.monotonic() + seconds)), None))
    except BaseException as fault:  # told to the parent, which fails
        results.put(({}, repr(fault)))


class Server:
    def __init__(self, program, folder):
        (folder / "keys").write_text("soak-admin-key-0123456789abcdef\n")
        (folder / "keys").chmod(0o600)
        self.key = "soak-admin-key-0123456789abcdef"
        self.log = folder / "stderr"
        self.process = subprocess.Popen([program, "--data", str(folder / "data"), "--listen", "127.0.0.1:0", "--admin-key-file",
                                         str(folder / "keys"), "--log-level", "error"],
                                        stdout=subprocess.PIPE, stderr=open(self.log, "wb"))
        self.url = self.process.stdout.readline().decode().split()[3]
        self.port = int(self.url.rsplit(":", 1)[1].rstrip("/"))

    def call(self, method, path, body=None, timeout=60):
        data = None if body is None else json.dumps(body).encode()
        r = urllib.request.Request(self.url + path, data, {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
                                   method=method)
        return urllib.request.urlopen(r, timeout=timeout).read()

    def status(self, name):
        """0 when it has died: nobody has asked for its end yet, so there is still an entry of it, without memory."""
        found = re.search(rf"^{name}:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text(), re.M)
        return int(found.group(1)) if found else 0

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def reports(self):
        return len(re.findall(r"ERROR: \w+Sanitizer|runtime error:|WARNING: ThreadSanitizer", self.log.read_text(errors="replace")))


def settle(server, baseline, seconds=60):
    """Connections of clients that left are closed in the end; how many descriptors are left above the baseline."""
    end = time.monotonic() + seconds
    while server.descriptors() > baseline and time.monotonic() < end:
        time.sleep(0.5)
    return server.descriptors() - baseline


def soak(args, folder):
    server = Server(args.program, folder)
    try:
        server.call("PUT", f"/tenants/{TENANT}", CONFIG)
        for name in ("default", TENANT):
            server.call("GET", f"/tenants/{name}/model")
        results = multiprocessing.Queue()
        clients = [multiprocessing.Process(target=work, args=(server.port, args.seed + i, server.key, args.seconds, results))
                   for i in range(args.clients)]
        started = time.monotonic()
        for c in clients:
            c.start()
        counts, faults, peak = collections.Counter(), [], 0
        for _ in clients:
            got, fault = results.get()
            counts.update(got)
            faults += [fault] if fault else []
            peak = max(peak, server.status("VmRSS")) if server.process.poll() is None else peak
        for c in clients:
            c.join()
        seconds = time.monotonic() - started
        is_alive = server.process.poll() is None
        tenants = json.loads(server.call("GET", "/tenants"))["tenants"] if is_alive else []
        # Tenants come from mutated imports as well; each costs files while it is open.
        left = settle(server, 64 + 12 * len(tenants)) if is_alive else 0
        different = [t["name"] for t in tenants if not json.loads(
            server.call("POST", f"/tenants/{t['name']}/verify", timeout=VERIFY_S))["equal"]] if is_alive else []
        server.process.send_signal(signal.SIGTERM)
        status = server.process.wait(120)
        inputs = sum(n for kind, n in counts.items() if not kind.startswith(("answer", "good")))
        result = {"soak": "malformed", "program": os.path.basename(os.path.dirname(os.path.abspath(args.program))), "seconds": round(seconds),
                  "clients": args.clients, "seed": args.seed, "inputs": inputs, "good": sum(n for k, n in counts.items() if k.startswith("good")),
                  "counts": dict(sorted(counts.items())), "faults": faults, "is_alive": is_alive, "tenants_verified": len(tenants),
                  "tenants_different": different, "descriptors_left": max(0, left), "sanitizer_reports": server.reports(), "exit": status,
                  "rss_kb": peak}
        is_good = is_alive and not faults and not different and left <= 0 and result["sanitizer_reports"] == 0 and status == 0
        if not is_good:
            print(server.log.read_text(errors="replace")[-6000:], file=sys.stderr)
        return result, is_good
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program")
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--clients", type=int, default=6)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="laplaced-soak-") as folder:
        result, is_good = soak(args, pathlib.Path(folder))
    args.file.parent.mkdir(parents=True, exist_ok=True)
    with open(args.file, "a") as file:
        file.write(json.dumps(result) + "\n")
    print(json.dumps(result, indent=1))
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
