"""User graphs from ten thousand to a million people: loading, decisions, patches and a restart, beside tenants without a graph.

  python3 tests/bench/graph.py OUT FILE [--size N] [--shapes grid,attachment,blocks] [--observations T] [--set JSON]
      OUT: a build folder such as build/release; FILE: where JSON lines go; JSON: members of user_kernel

Five edges a user: a `grid` (two dimensions, the next and next but one), preferential `attachment`, `blocks` of a hundred who have four
friends of five among themselves. The tenants are `laplaced` with two arms and without vectors, so that a dictionary has
at most two points a user: `tied` has the graph; `plain` has none, so that all its users are alike and few points say it all; `apart` has the
kernel identity, and with it a dictionary as large as that of `tied`, which is what a decision's numerics depend on. `seen` are users who have learned, or were asked for before; `new` are users of the graph whom nobody has asked for, `again` the same ones a second time. All decisions
are dry runs of one connection; `beside` is one connection that decides for seen users of the same tenant all the while."""
import argparse
import http.client
import json
import pathlib
import random
import statistics
import tempfile
import threading
import time
import urllib.parse
import urllib.request

from checks import Server

DEGREE = 5
BLOCK = 100
SEEN = 200
NEW = 200
PATIENCE_S = 1800


def grid(n, _):
    side = round(n ** 0.5)
    for i in range(n):
        row, column = divmod(i, side)
        for down, right in ((0, 1), (1, 0), (1, 1), (0, 2), (2, 0)):
            if column + right < side and (row + down) * side + column + right < n:
                yield i, (row + down) * side + column + right


def attachment(n, rng):
    ends = list(range(DEGREE + 1))
    for i in range(DEGREE + 1, n):
        friends = {ends[int(rng.random() * len(ends))] for _ in range(DEGREE)}
        for j in friends:
            yield i, j
        ends.extend(friends)
        ends.extend([i] * len(friends))


def blocks(n, rng):
    for i in range(n):
        first = i - i % BLOCK
        friends = {first + int(rng.random() * min(BLOCK, n - first)) for _ in range(DEGREE - 1)}
        friends.add(int(rng.random() * n))
        for j in friends - {i}:
            if j < i or int(rng.random() * 2):  # a pair that is drawn from both ends would stand twice, which is fine
                yield i, j


SHAPES = {"grid": grid, "attachment": attachment, "blocks": blocks}


def write_edges(path, shape, n):
    """NDJSON with weights; the number of lines."""
    rng, lines = random.Random(1), 0
    with open(path, "w", buffering=1 << 20) as file:
        for u, v in SHAPES[shape](n, rng):
            file.write(f'["u{u}","u{v}",{1 + (min(u, v) * 31 + max(u, v)) % 7 * 0.25}]\n')
            lines += 1
    return lines


class Serving:
    """A server for as long as the block lasts, however that ends."""
    def __init__(self, out, folder, is_killed=False):
        self.server = Server(out, folder, "--max-bulk-body", "2G", "--max-body-memory", "2G")
        self.is_killed = is_killed

    def __enter__(self):
        return self.server

    def __exit__(self, kind, *_):
        if kind is None and not self.is_killed:
            self.server.stop()
        else:
            self.server.process.kill()
            self.server.process.wait()


def longest_hold_ms(server):
    """Of a write lock, since the server began: by the clock, and by the processor's."""
    with urllib.request.urlopen(f"{server.url}/metrics") as answer:
        words = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
    return [round(1e3 * float(words[f"laplaced_write_lock_{kind}max_seconds"]), 3) for kind in ("", "cpu_")]


class Connection:
    """Kept open; calls are timed around the wire."""
    def __init__(self, server, tenant):
        url = urllib.parse.urlsplit(server.url)
        self.tenant, self.wire = tenant, http.client.HTTPConnection(url.hostname, url.port, timeout=PATIENCE_S)

    def call(self, method, path, body=None, kind="application/json"):
        raw = body if body is None or hasattr(body, "read") or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": kind, "Laplaced-Tenant": self.tenant}
        if hasattr(body, "read"):
            headers["Content-Length"] = str(pathlib.Path(body.name).stat().st_size)
        began = time.monotonic()
        self.wire.request(method, path, body=raw, headers=headers)
        answer = self.wire.getresponse()
        text = answer.read()
        took = time.monotonic() - began
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {text.decode()[:500]}")
        return json.loads(text) if text else None, took

    def decide(self, user, is_dry=True):
        return self.call("POST", "/select", {"user": user, "candidates": ["a", "b"], "dry_run": is_dry})[1]


class Beside(threading.Thread):
    """Decisions in a loop until it is left: the latencies, in seconds, in order of time."""
    def __init__(self, server, tenant, users, is_dry=True):
        super().__init__(daemon=True)
        self.connection, self.users, self.is_dry = Connection(server, tenant), users, is_dry
        self.latencies, self.is_over = [], threading.Event()

    def run(self):
        i = 0
        while not self.is_over.wait(0.002):
            self.latencies.append(self.connection.decide(self.users[i % len(self.users)], self.is_dry))
            i += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.join()


def spread(seconds):
    """Milliseconds: median, the 99th in a hundred, the worst."""
    ordered = sorted(seconds)
    return {"n": len(ordered), "p50_ms": round(1e3 * statistics.median(ordered), 3),
            "p99_ms": round(1e3 * ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], 3), "max_ms": round(1e3 * ordered[-1], 3)}


def memory_mb(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return {name: int(status.split(name + ":")[1].split()[0]) // 1024 for name in ("VmRSS", "VmHWM")}


def observe(connection, users, n):
    lines = "".join(json.dumps({"user": users[i % len(users)], "arm": "ab"[i // len(users) % 2], "reward": i % 7 / 7}) + "\n" for i in range(n))
    return connection.call("POST", "/observe", lines.encode(), "application/x-ndjson")[1]


def settle(connection):
    """Until no model is being built, which begins soon after what it is for was answered; seconds."""
    began = time.monotonic()
    time.sleep(0.1)
    while connection.call("GET", f"/tenants/{connection.tenant}")[0]["rebuilding"]:
        time.sleep(0.05)
    return time.monotonic() - began


def while_others_decide(server, tenant, users, work):
    """What work returns, and the latencies of dry and of durable decisions meanwhile."""
    with Beside(server, tenant, users) as dry, Beside(server, tenant, users, is_dry=False) as durable:
        time.sleep(0.3)
        result = work()
        time.sleep(0.3)
    return result, spread(dry.latencies), spread(durable.latencies)


def measure(args, shape, folder, say):
    edges = folder / f"{shape}.ndjson"
    n_lines = write_edges(edges, shape, args.size)
    with Serving(args.out, folder / shape) as server:
        measure_serving(args, shape, server, edges, n_lines, say)
    for what in "restart", "fold":
        if what == "fold":
            (folder / shape / "tenants" / "tied.snapshot").unlink(missing_ok=True)
        began = time.monotonic()
        with Serving(args.out, folder / shape, is_killed=what == "restart") as server:
            Connection(server, "tied").decide("u0")
            say(shape, what, seconds=round(time.monotonic() - began, 2), memory_mb=memory_mb(server))


def measure_serving(args, shape, server, edges, n_lines, say):
    rng = random.Random(2)
    users = [f"u{i}" for i in rng.sample(range(args.size), SEEN + 2 * NEW)]
    seen, new = users[:SEEN], users[SEEN:]
    tenants = plain, apart, tied = [Connection(server, name) for name in ("plain", "apart", "tied")]
    for c in tenants:
        kernel = {"type": "identity", "population": 0, "normalize": False} if c is apart else args.set
        c.call("PUT", f"/tenants/{c.tenant}", {"algorithm": "laplaced-kors", **({"user_kernel": kernel} if kernel else {})})
        c.call("PUT", f"/tenants/{c.tenant}/arms", ["a", "b"])
    before = memory_mb(server)
    with open(edges, "rb") as body:
        (_, took), dry, durable = while_others_decide(
            server, "tied", seen[:8], lambda: tied.call("PUT", "/tenants/tied/graph", body, "application/x-ndjson"))
    say(shape, "load", lines=n_lines, bytes=edges.stat().st_size, seconds=round(took, 2), before_mb=before["VmRSS"], after=memory_mb(server),
        beside=dry, durable_beside=durable, longest_hold_ms=longest_hold_ms(server))
    for c in tenants:
        observe_s = observe(c, seen, args.observations)
        say(shape, "observe", tenant=c.tenant, n=args.observations, seconds=round(observe_s, 2), settled_s=round(settle(c), 2))
    sizes = {}
    for c in tenants:
        sizes[c.tenant] = len(c.call("GET", f"/tenants/{c.tenant}/model")[0]["dictionary"])
        for user in seen:
            c.decide(user)
    took = {c.tenant: [] for c in tenants}
    for i in range(2000):  # in turns, so that a busy machine is busy for all
        for c in tenants:
            took[c.tenant].append(c.decide(seen[i % SEEN]))
    decisions = {name: spread(seconds) for name, seconds in took.items()}
    fresh, again = (spread([tied.decide(u) for u in new[:NEW]]) for _ in range(2))
    ratios = {f"ratio_{name}": round(decisions["tied"]["p50_ms"] / decisions[name]["p50_ms"], 2) for name in ("plain", "apart")}
    say(shape, "select", dictionaries=sizes, plain=decisions["plain"], apart=decisions["apart"], seen=decisions["tied"], new=fresh, again=again, **ratios,
        memory_mb=memory_mb(server))
    change = {"add": [[seen[0], seen[1], 2.5]]}
    ((_, took), rebuilt), dry, durable = while_others_decide(
        server, "tied", seen, lambda: (tied.call("PATCH", "/tenants/tied/graph", change), settle(tied)))
    say(shape, "patch", seconds=round(took, 3), rebuilt_s=round(rebuilt, 2), beside=dry, durable_beside=durable, longest_hold_ms=longest_hold_ms(server),
        memory_mb=memory_mb(server))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--size", type=int, default=10000)
    parser.add_argument("--shapes", default="grid,attachment,blocks")
    parser.add_argument("--observations", type=int, default=1000)
    parser.add_argument("--set", type=json.loads)
    args = parser.parse_args()
    args.file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, open(args.file, "a") as file:
        def say(shape, what, **figures):
            line = json.dumps({"bench": "graph", "shape": shape, "size": args.size, "what": what, **figures})
            print(line, flush=True)
            file.write(line + "\n")
        for shape in args.shapes.split(","):
            measure(args, shape, pathlib.Path(folder), say)


if __name__ == "__main__":
    main()
