"""What benches over HTTP share: tenants of some kinds, bodies for them, and runs of bench_load with the CPU of both sides.

`catalogue` is `ucb`: one mean for each of 100 arms of a catalogue, and bodies that name a user and nothing else. The others have bodies of
C candidates with D features each: `kors` is `ek-ucb` with a dictionary of M points, `linear` is `lin-ucb` with one that spans the D
dimensions, which says what all observations say. All have T observations."""
import json
import pathlib
import random
import subprocess
import time
import urllib.error
import urllib.request

from lines import busy_s

ARMS = 100
USERS = 200
BODIES = 500
LINES = 10_000  # of a body
PATIENCE_S = 60  # for what is bounded by a number and not by seconds


def add_sizes(parser):
    """The options that say how large the tenants are."""
    parser.add_argument("-m", type=int, default=256)
    parser.add_argument("-C", type=int, default=20)
    parser.add_argument("-d", type=int, default=16)
    parser.add_argument("-t", type=int, default=1000)


def blas_core(log):
    return log.read_text().partition("OpenBLAS kernels: ")[2].split('"')[0]


def threads_cpu_us(server):
    """(those that serve HTTP, all others), by the scheduler's count."""
    cpu = {True: 0, False: 0}
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        cpu[(task / "comm").read_text().startswith(("http", "MHD"))] += int((task / "schedstat").read_text().split()[0])
    return cpu[True] / 1e3, cpu[False] / 1e3


def call(server, method, path, body=None, tenant=None):
    text = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    head = {"Content-Type": "application/x-ndjson" if isinstance(body, bytes) else "application/json"}
    if tenant:
        head["Laplaced-Tenant"] = tenant
    request = urllib.request.Request(server.url + path, method=method, data=text, headers=head)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.read()
    except urllib.error.HTTPError as e:
        raise SystemExit(f"{method} {path}: {e.code} {e.read().decode()[:500]}") from None


class Traffic:
    """Files with a body a line, for bench_load."""
    def __init__(self, args, folder):
        self.args, self.folder, self.random = args, folder, random.Random(1)

    def features(self):
        return [round(self.random.gauss(0, 1), 4) for _ in range(self.args.d)]

    def select(self, kind, **more):
        body = {"user": f"u{self.random.randrange(USERS)}", **more}
        if kind != "catalogue":
            body["candidates"] = [{"id": f"c{i}", "features": self.features()} for i in range(self.args.C)]
        return body

    def observation(self, kind):
        arm = {"arm": f"a{self.random.randrange(ARMS)}"} if kind == "catalogue" else {"arm": {"id": "c0", "features": self.features()}}
        return {"user": f"u{self.random.randrange(USERS)}", **arm, "reward": round(self.random.random(), 3)}

    def write(self, name, bodies):
        path = self.folder / name
        path.write_text("".join(json.dumps(b, separators=(",", ":")) + "\n" for b in bodies))
        return path

    def selects(self, kind, name, **more):
        return self.write(f"{kind}-{name}", (self.select(kind, **more) for _ in range(BODIES)))


def config(args, kind):
    if kind == "catalogue":
        return {"algorithm": "ucb"}
    if kind == "linear":
        return {"algorithm": "lin-ucb", "arm_dim": args.d, "representation": {"type": "kors", "max_dictionary": 4 * args.d, "gamma": 100}}
    return {"algorithm": "ek-ucb", "arm_dim": args.d, "arm_kernel": {"type": "rbf", "lengthscale": 2},
            "representation": {"type": "kors", "max_dictionary": args.m, "gamma": 100}}


def furnish(server, traffic, kinds, durability):
    """Tenants KIND-DURABILITY that have learned T observations; {kind: points of its dictionary}."""
    points = {}
    for kind in kinds:
        tenant = f"{kind}-{durability}"
        call(server, "PUT", f"/tenants/{tenant}", {**config(traffic.args, kind), "durability": durability})
        if kind == "catalogue":
            call(server, "PUT", f"/tenants/{tenant}/arms", {"arms": [{"id": f"a{i}"} for i in range(ARMS)]})
        for first in range(0, traffic.args.t, LINES):
            lines = "".join(json.dumps(traffic.observation(kind)) + "\n" for _ in range(min(LINES, traffic.args.t - first)))
            call(server, "POST", "/observe", lines.encode(), tenant)
        said = json.loads(call(server, "POST", "/select", traffic.select(kind, dry_run=True), tenant))
        points[kind] = said["model"]["dictionary"]  # a relaxed tenant may be at it still
    return points


def load(out, server, path, file, **options):
    """One run of bench_load, with the server's CPU a request, and the cores that neither of the two has had."""
    method = options.pop("method", "POST")
    words = [w for k, v in options.items() for w in (f"--{k}", str(v))]
    http, other = threads_cpu_us(server)
    busy, began = busy_s(), time.monotonic()
    done = subprocess.run([str(out / "tests/bench/bench_load"), server.url.rsplit(":", 1)[1], method, path, str(file), *words],
                          capture_output=True, text=True)
    if done.returncode != 0 and "rate" not in options:
        raise SystemExit(f"bench_load {path} {file}: {done.stdout}{done.stderr}")
    one = json.loads(done.stdout)
    after = threads_cpu_us(server)
    busy, seconds = busy_s() - busy, time.monotonic() - began
    n = one["answered"] + one["refused"]
    ours = (after[0] - http + after[1] - other + one["client_cpu_us"] * n) / 1e6
    return {**one, "http_threads_us": (after[0] - http) / n, "other_threads_us": (after[1] - other) / n,
            "elsewhere_cores": max(0.0, round((busy - ours) / seconds, 2))}
