"""Servers that share a log, each with the same small share of a processor: what one of them takes, and what several do together.

  python3 tests/bench/cluster.py OUT FILE one          the costs of one server: what tools/scale.py computes with
  python3 tests/bench/cluster.py OUT FILE many         one, two and three servers under the same load each
      [--share 0.1] [--clients 64] [--seconds 5] [--rounds 3] [-m M] [-C N] [-d D] [-t T]
      OUT: a build folder such as build/release; FILE: where JSON lines go

A server runs in a group of its own (cgroup v1, cpu.cfs_quota_us), so that one machine of two processors shows what several machines
would do; PostgreSQL, with a standby that commits wait for, and the load programs have what is left. Where no group can be made the
servers run as they are, and only their processor time a decision says anything.

`many` asks 3, 2, 1, 1, 2, 3 servers in each round, so that a machine that changes during it changes for all. Figures beside the rates are
the processor time a decision of all servers together and of PostgreSQL, and lines in a turn. The tenant is KORS (loop.py), with an
observation for each tenth decision of the least rate."""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import pg
from checks import Server
from lines import Lines, busy_s
from loop import Traffic, add_sizes, call, config, furnish

GROUPS = pathlib.Path("/sys/fs/cgroup/cpu")
PERIOD_US = 10_000  # a short one: who has used his share up waits for less than that
TENANT = "kors-commit"
WARM_S = 1.0


class Group:
    """Processes that together have a share of a processor."""
    def __init__(self, name, share):
        self.folder = GROUPS / f"laplaced-bench-{os.getpid()}-{name}"
        self.is_there = share > 0 and (GROUPS / "cpu.cfs_quota_us").exists()
        if self.is_there:
            try:
                self.folder.mkdir()
                (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (self.folder / "cpu.cfs_quota_us").write_text(str(int(PERIOD_US * share)))
            except OSError:
                self.is_there = False

    def add(self, pid):
        if self.is_there:
            (self.folder / "cgroup.procs").write_text(str(pid))

    def end(self):
        if self.is_there:
            self.folder.rmdir()


class Shared:
    """N servers on one log, or (log None) one on its own file."""
    def __init__(self, out, folder, n, log, args):
        self.groups, self.servers = [], []
        folder.mkdir()
        if log:
            self.ctl(out, log)
        for i in range(n):
            name = chr(ord("a") + i)
            group = Group(f"{folder.name}-{name}", args.share)
            words = ["--log", log, "--node", name, *args.server] if log else []
            server = Server(out, folder / name, *words)
            ready(server)
            group.add(server.process.pid)
            self.groups.append(group)
            self.servers.append(server)
        self.is_grouped = all(g.is_there for g in self.groups)

    @staticmethod
    def ctl(out, log):
        done = subprocess.run([str(out / "laplacectl"), "cluster", "init", "--log", log], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr)

    def wait(self, tenant):
        """Until all have read what the first has."""
        end = time.monotonic() + 120
        tips = {}
        while len(set(tips.values())) != 1:
            if time.monotonic() > end:
                raise SystemExit(f"the servers do not agree: {tips}")
            time.sleep(0.1)
            tips = {s.url: self.model(s, tenant) for s in self.servers}

    @staticmethod
    def model(server, tenant):
        try:
            return call(server, "GET", f"/tenants/{tenant}/model")
        except SystemExit:
            return server.url

    def end(self):
        for server in self.servers:
            server.stop()
        for group in self.groups:
            group.end()


def ready(server):
    """It has heard from the log."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(server.url + "/readyz", timeout=10):
                return
        except urllib.error.HTTPError:
            time.sleep(0.05)
    raise SystemExit(f"{server.url} is not ready")


def metrics(server):
    """{name with labels: value} of /metrics."""
    found = {}
    for line in call(server, "GET", "/metrics").decode().splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


TOLD = {"turns": 'laplaced_log_outcomes_total{outcome="ok"}', "takes": "laplaced_log_take_seconds_count", "take_s": "laplaced_log_take_seconds_sum",
        "appends": "laplaced_log_append_seconds_count", "append_s": "laplaced_log_append_seconds_sum", "followed": "laplaced_followed_total",
        "anew": "laplaced_decided_anew_total"}


def told(servers):
    """What they have counted, in all."""
    found = [metrics(s) for s in servers]
    return {k: sum(m.get(name, 0) for m in found) for k, name in TOLD.items()}


def cpu_of(pid):
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12]) + int(words[13]) + int(words[14])) / os.sysconf("SC_CLK_TCK")


def pg_cpu_s(database):
    """Of all instances, and of the children that they have had."""
    return sum(cpu_of(pid) for instance in database.instances for pid in instance.processes()) if database else 0.0


class Load(threading.Thread):
    """One run of bench_load."""
    def __init__(self, out, server, path, file, **options):
        super().__init__()
        words = [w for k, v in options.items() for w in (f"--{k}", str(v))]
        self.words = [str(out / "tests/bench/bench_load"), server.url.rsplit(":", 1)[1], "POST", path, str(file), "--tenant", TENANT, *words]
        self.said = None

    def run(self):
        done = subprocess.run(self.words, capture_output=True, text=True)
        try:
            self.said = json.loads(done.stdout)
        except ValueError:
            self.said = {"error": done.stdout + done.stderr}


def drive(out, servers, traffic, args, clients, seconds, rate=0.0, observed=0.0, is_dry=False, is_learning=False):
    """The same load on each server at once; what came of it in all."""
    selects = traffic.selects("kors", "dry" if is_dry else "select", **({"dry_run": True} if is_dry else {}))
    observations = traffic.write("kors-observe", (traffic.observation("kors") for _ in range(500)))
    counted = told(servers)
    cpu, elsewhere, began = [s.cpu_s() for s in servers], busy_s(), time.monotonic()
    database = pg_cpu_s(args.database)
    more = {"rate": rate} if rate else {}
    path, file = ("/observe", observations) if is_learning else ("/select", selects)
    loads = [Load(out, s, path, file, clients=clients, seconds=seconds, **more) for s in servers]
    if observed:
        loads += [Load(out, s, "/observe", observations, clients=8, seconds=seconds, rate=observed) for s in servers]
    for l in loads:
        l.start()
    for l in loads:
        l.join()
        if "error" in l.said:
            raise SystemExit(l.said["error"])
    elapsed = time.monotonic() - began
    cpu = [s.cpu_s() - c for s, c in zip(servers, cpu)]
    database = pg_cpu_s(args.database) - database
    counted = {k: v - counted[k] for k, v in told(servers).items()}
    n_turns = counted["turns"]
    decided = [l.said for l in loads[:len(servers)]]
    n = sum(d["answered"] for d in decided)
    n_lines = sum(l.said["answered"] for l in loads)
    busiest = max(range(len(decided)), key=lambda i: decided[i]["latency_p99_us"])
    return {"servers": len(servers), "clients": clients, "seconds": seconds, "decisions": n, "observations": n_lines - n, "rate": sum(d["rate"] for d in decided),
            "rates": [round(d["rate"]) for d in decided], "refused": sum(l.said["refused"] for l in loads),
            "cpu_us": 1e6 * sum(cpu) / n, "cpu_s": [round(c, 3) for c in cpu], "turns_per_s": n_turns / elapsed, "lines_a_turn": n_lines / n_turns if n_turns else 0,
            "followed": counted["followed"], "decided_anew": counted["anew"], "take_us": 1e6 * counted["take_s"] / max(1, counted["takes"]),
            "append_us": 1e6 * counted["append_s"] / max(1, counted["appends"]), "pg_cpu_us": 1e6 * database / n, "pg_cpu_us_a_turn": 1e6 * database / n_turns if n_turns else 0,
            "p50_us": decided[busiest]["latency_p50_us"], "p99_us": decided[busiest]["latency_p99_us"],
            "elsewhere_cores": round(max(0.0, busy_s() - elsewhere - sum(cpu) - database) / elapsed, 2)}


def fresh(folder, name):
    path = folder / name
    shutil.rmtree(path, ignore_errors=True)
    return path


def clear(database):
    database.primary.sql("DROP SCHEMA IF EXISTS laplaced CASCADE", user="laplaced")


ONE = (("few", {"clients": 1}), ("dry", {"is_dry": True, "clients": 16}), ("some", {"clients": 8}), ("many", {}), ("learn", {"is_learning": True}), ("low", {"clients": 8, "rate": 40.0}))


def one(args, folder, traffic, emit):
    """Decisions with few lines in a turn and with many, dry ones, observations; and after each kind the fold of the whole log by a server
    that has nothing of it. At last the same decisions at a server whose file is its log."""
    database = args.database.primary
    shared = Shared(args.out, fresh(folder, "log"), 1, args.database.url, args)
    try:
        furnish(shared.servers[0], traffic, ("kors",), "commit")
        emit({"bench": "servers", "what": "fold", **fold(args, folder, database)})
        for kind, options in ONE if not args.only else [k for k in ONE if k[0] == args.only]:
            for _ in range(args.rounds):
                emit({"bench": "servers", "what": "one", "kind": kind, "share": args.share if shared.is_grouped else 0,
                      **drive(args.out, shared.servers, traffic, args, **{"clients": args.clients, "seconds": args.seconds, **options})})
            if kind in ("few", "many", "learn"):
                emit({"bench": "servers", "what": "fold", **fold(args, folder, database)})
        for _ in range(args.rounds):
            emit({"bench": "servers", "what": "receive", **receive(shared.servers[0], traffic, args)})
        lines, size = database.sql("SELECT sum(n), pg_total_relation_size('laplaced.batch') FROM laplaced.batch").split("|")
        emit({"bench": "servers", "what": "bytes", "pg_bytes_a_line": int(size) / int(lines), "copy_bytes_a_line": copy_bytes(folder / "log" / "a") / int(lines)})
    finally:
        shared.end()
    clear(args.database)
    alone = Shared(args.out, fresh(folder, "file"), 1, None, args)
    try:
        furnish(alone.servers[0], traffic, ("kors",), "commit")
        for _ in range(args.rounds):
            emit({"bench": "servers", "what": "alone", "kind": "many", **drive(args.out, alone.servers, traffic, args, clients=args.clients, seconds=args.seconds)})
    finally:
        alone.end()


def receive(server, traffic, args):
    """What it takes to be handed lines that others have made: bodies of 64 observations that are recorded and not learned, two at a time. Each is read, judged, staged,
    appended, put into the copy and applied as one decision of another server would be."""
    tenant = "handed"
    call(server, "PUT", f"/tenants/{tenant}", {**config(args, "kors"), "learn": False})
    bodies = ["".join(json.dumps(traffic.observation("kors")) + "\n" for _ in range(64)).encode() for _ in range(16)]
    n, end = [0, 0], time.monotonic() + args.seconds
    cpu, counted = server.cpu_s(), told([server])

    def hand(i):
        while time.monotonic() < end:
            call(server, "POST", "/observe", bodies[(n[i] + i) % 16], tenant)
            n[i] += 1

    threads = [threading.Thread(target=hand, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    lines = 64 * sum(n)
    return {"lines": lines, "cpu_us_a_line": 1e6 * (server.cpu_s() - cpu) / lines, "lines_a_turn": lines / max(1, told([server])["turns"] - counted["turns"])}


def copy_bytes(folder):
    return sum(p.stat().st_size for p in folder.glob("tenants/*.db"))


def fold(args, folder, database):
    """A server on an empty folder reads the log that another has written: its processor time, less that of a start."""
    lines, batches, learned = (int(x) for x in database.sql(
        "SELECT sum(n), count(*), sum((length(body) - length(replace(encode(body, 'escape'), '\"type\":\"observed\"', '')::bytea)) / 17) FROM laplaced.batch").split("|"))
    server = Server(args.out, fresh(folder, "reader"), "--log", args.database.url, "--node", "reader", *args.server)
    try:
        ready(server)
        start = server.cpu_s()
        call(server, "GET", f"/tenants/{TENANT}/model")
        return {"lines": lines, "batches": batches, "learned": learned, "cpu_s": server.cpu_s() - start}
    finally:
        server.stop()


def many(args, folder, traffic, emit):
    found = {n: [] for n in args.servers}
    order = sorted(args.servers, reverse=True)
    for round_ in range(args.rounds):
        for n in order + order[::-1]:
            shared = Shared(args.out, fresh(folder, "many"), n, args.database.url, args)
            try:
                furnish(shared.servers[0], traffic, ("kors",), "commit")
                shared.wait(TENANT)
                observed = args.observed / n if args.observed else 0.0
                drive(args.out, shared.servers, traffic, args, clients=args.clients, seconds=WARM_S)
                for kind, options in (("full", {"clients": args.clients, "observed": observed}), ("low", {"clients": 8, "rate": 40.0 / n})):
                    run = drive(args.out, shared.servers, traffic, args, seconds=args.seconds, **options)
                    emit({"bench": "servers", "what": "many", "kind": kind, "label": args.label, "round": round_, "share": args.share if shared.is_grouped else 0, **run})
                    if kind == "full":
                        found[n].append(run)
            finally:
                shared.end()
                clear(args.database)
    for verdict in verdicts(found):
        emit({"bench": "servers", "what": "verdict", "label": args.label, **verdict})


def verdicts(found):
    """Medians of the runs with each number of servers ({n: runs}), beside those of the least."""
    kept = ("rate", "cpu_us", "pg_cpu_us", "turns_per_s", "lines_a_turn", "p50_us", "p99_us")
    middle = {n: {k: statistics.median(r[k] for r in runs) for k in kept} for n, runs in sorted(found.items())}
    least = middle[min(middle)]
    return [{"servers": n, **m, "ratio": m["rate"] / least["rate"], "ratio_by_cpu": n * least["cpu_us"] / m["cpu_us"]} for n, m in middle.items()]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("part", choices=("one", "many"))
    p.add_argument("--share", type=float, default=0.1, help="of a processor, for each server; 0: as much as there is")
    p.add_argument("--clients", type=int, default=64, help="of each server")
    p.add_argument("--seconds", type=float, default=5.0)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--servers", type=int, nargs="+", default=[1, 2, 3])
    p.add_argument("--only", help="of `one`: the kind of that name, and what follows all kinds")
    p.add_argument("--observed", type=float, default=45.0, help="observations a second, in all")
    p.add_argument("--label", default="")
    p.add_argument("--server", action="append", default=[], help="an option of the servers, such as --server=--log-poll=20")
    add_sizes(p)
    args = p.parse_args()
    args.out = args.out.resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-servers-"))
    folder.chmod(0o755)
    try:
        with Lines(args.file, is_shown=True) as emit, pg.Cluster(folder / "pg", 1) as args.database:
            (one if args.part == "one" else many)(args, folder, Traffic(args, folder), emit)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
