"""What group commit makes of a disk: durable throughput over growing numbers of clients, beside the raw fdatasync rate of
the same disk, and beside the same server whose fsyncs do nothing, or take 2 ms each (nosync.c: a disk that is the same at
every hour), all in one run and taken in turns.

  python3 tests/bench/commit.py OUT FILE [--rounds N] [--seconds S]     OUT: build/release; FILE: where JSON lines go

Closed loop: each client sends /select, then its /reward, on one kept connection (laplacectl replay). Its CPU is measured
beside the server's: where both together reach the cores of the machine, these are the limit and not the commits. Ends
with the table of docs/SPEED.md, and with what 64 clients get, as parts of twenty single ones and of the server without
fsync."""
import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
import urllib.request

from lines import Lines

CLIENTS = [1, 2, 4, 8, 16, 32, 64, 128, 256]
STEADY_US = 2000
KINDS = ("durable", "steady", "no fsync")
PAGE = 4096
START_S = 20


def raw_rate(folder, is_append, seconds):
    """fdatasyncs a second of one page each: as a write-ahead log that grows, or one that is written over again."""
    path, page, n = folder / "raw", bytes(PAGE), 0
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC)
    try:
        if not is_append:
            os.write(fd, page * 256)
            os.fsync(fd)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            os.pwrite(fd, page, (n if is_append else n % 256) * PAGE)
            os.fdatasync(fd)
            n += 1
        return n / (seconds + time.monotonic() - end)
    finally:
        os.close(fd)
        path.unlink()


class Server:
    def __init__(self, out, folder, env):
        env = {**os.environ, **env}
        self.log = open(folder.with_suffix(".log"), "wb")
        self.process = subprocess.Popen([str(out / "laplaced"), "--data", str(folder), "--listen", "127.0.0.1:0"],
                                        stdout=subprocess.PIPE, stderr=self.log, env=env)
        words = self.process.stdout.readline().decode().split()
        if len(words) < 4:
            raise SystemExit(f"no server: see {folder.with_suffix('.log')}")
        self.url = words[3]

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def metric(self, name):
        text = urllib.request.urlopen(self.url + "/metrics", timeout=10).read().decode()
        return sum(float(v) for v in re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.M))

    def stop(self):
        self.process.terminate()
        self.process.wait(START_S)
        self.log.close()


def traffic(path, n):
    """Full information: 200 users, four arms, the reward follows user and arm."""
    with open(path, "w") as file:
        for i in range(n):
            x = (i * 7919) % 200
            rewards = {"a": x / 200, "b": 1 - x / 200, "c": 0.5, "d": 0.1}
            file.write(json.dumps({"user": f"u{x}", "rewards": rewards}) + "\n")


def drive(out, server, tenant, clients, lines, file):
    """One closed loop; its figures."""
    ctl = [str(out / "laplacectl"), "--server", server.url]
    subprocess.run([*ctl, "tenant", "put", tenant, "-"], input=b'{"algorithm":"laplaced-kors"}', check=True,
                   stdout=subprocess.DEVNULL)
    commits, server_cpu = server.metric("laplaced_commits_total"), server.cpu_s()
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*ctl, "--tenant", tenant, "replay", str(file), "--concurrency", str(clients), "--limit",
                           str(lines), "--quiet", "--json"], check=True, stdout=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = json.loads(done.stdout)
    commits = server.metric("laplaced_commits_total") - commits
    seconds = result["seconds"]
    return {"rate": result["requests_per_second"], "seconds": seconds, "requests": result["requests"],
            "errors": result["errors"], "requests_per_commit": result["requests"] / max(commits, 1),
            "commits_per_second": commits / seconds, "server_cores": (server.cpu_s() - server_cpu) / seconds,
            "client_cores": (after.ru_utime + after.ru_stime - own.ru_utime - own.ru_stime) / seconds,
            "select_p50_ms": result["select"]["p50_ms"], "select_p99_ms": result["select"]["p99_ms"],
            "reward_p50_ms": result["reward"]["p50_ms"], "reward_p99_ms": result["reward"]["p99_ms"]}


def measure(args, folder, emit):
    """rows[clients][kind]: one measurement a round."""
    out = args.out.resolve()
    file = folder / "traffic"
    traffic(file, 200000)
    preload = {"LD_PRELOAD": str(out / "tests/bench/nosync.so")}
    servers = {kind: Server(out, folder / kind.replace(" ", "-"), env) for kind, env in
               zip(KINDS, ({}, {**preload, "FSYNC_US": str(STEADY_US)}, preload))}
    core = re.search(r"OpenBLAS kernels: (\w+)", (folder / "durable.log").read_text()).group(1)
    rows = {c: {kind: [] for kind in (*KINDS, "raw append", "raw overwrite")} for c in CLIENTS}
    guess = {"durable": 1000.0, "steady": 300.0, "no fsync": 2000.0}
    try:
        for round_ in range(args.rounds):
            for clients in CLIENTS:
                for kind, is_append in (("raw append", True), ("raw overwrite", False)):
                    rate = raw_rate(folder, is_append, args.seconds / 4)
                    rows[clients][kind].append({"rate": rate})
                    emit({"bench": "commit", "kind": kind, "round": round_, "rate": rate, "blas_core": core})
                for kind, server in servers.items():
                    lines = max(200, int(guess[kind] * args.seconds / 2))
                    one = drive(out, server, f"bench-{clients}-{round_}", clients, lines, file)
                    guess[kind] = one["rate"]
                    rows[clients][kind].append(one)
                    emit({"bench": "commit", "kind": kind, "round": round_, "clients": clients, "blas_core": core, **one})
                guess = {k: v * 1.3 for k, v in guess.items()}
            guess = {k: rows[1][k][0]["rate"] for k in guess}
    finally:
        for server in servers.values():
            server.stop()
    return rows, core


def middle(rows, clients, kind, name="rate"):
    return statistics.median(r[name] for r in rows[clients][kind])


def table(rows):
    print("\n| clients | durable, requests/s | fsync of 2 ms | without fsync | a commit holds (durable, 2 ms) | commits/s "
          "| /reward p50, p99, ms | cores: server, clients | raw fdatasync/s: append, overwrite |")
    print("|---|---|---|---|---|---|---|---|---|")
    for c in CLIENTS:
        d, s, n = (middle(rows, c, kind) for kind in KINDS)

        def m(name, kind="durable"):
            return middle(rows, c, kind, name)
        print(f"| {c} | {d:,.0f} ({100 * d / n:.0f} %) | {s:,.0f} ({100 * s / n:.0f} %) | {n:,.0f} | "
              f"{m('requests_per_commit'):.1f}, {m('requests_per_commit', 'steady'):.1f} | {m('commits_per_second'):,.0f} | "
              f"{m('reward_p50_ms'):.2f}, {m('reward_p99_ms'):.2f} | {m('server_cores'):.2f}, {m('client_cores'):.2f} | "
              f"{middle(rows, c, 'raw append'):,.0f}, {middle(rows, c, 'raw overwrite'):,.0f} |")


def verdict(rows, kind):
    one, many, bare = middle(rows, 1, kind), middle(rows, 64, kind), middle(rows, 64, "no fsync")
    bar = min(20 * one, bare / 2)
    print(f"{kind}: 64 clients {many:,.0f}/s = {many / one:.1f} x a single one's {one:,.0f}/s, {100 * many / bare:.0f} % of "
          f"{bare:,.0f}/s without fsync; the bar is {bar:,.0f}/s: {'reached' if many >= bar else 'NOT reached'}")
    return {"bench": "commit", "kind": f"verdict, {kind}", "single": one, "clients_64": many, "no_fsync_64": bare,
            "of_20_singles": many / (20 * one), "of_no_fsync": many / bare, "bar": bar, "is_reached": many >= bar}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=2.0, help="of one closed loop")
    args = p.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-commit-", dir=args.file.parent))
    try:
        with Lines(args.file) as emit:
            rows, core = measure(args, folder, emit)
            table(rows)
            print(f"\nBLAS {core}")
            for kind in KINDS[:2]:
                emit({**verdict(rows, kind), "blas_core": core})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
