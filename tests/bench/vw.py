"""Vowpal Wabbit beside us: the processor's time that its daemon takes for a decision, and that laplaced takes for one that is durable.

  python3 tests/bench/vw.py OUT FILE [--vw PATH] [--rounds N] [--seconds S] [--clients N] [-C N] [-d D] [-t T]
      OUT: a build folder such as build/release; FILE: where JSON lines go; PATH: an installed vw of version 9 (nothing is installed
      here; without one the bench says so and ends)

Two tasks, each to both: `catalogue`, 100 arms that are told apart by name, and `linear`, C arms with D features each (loop.py).
vw runs as a daemon with one child: `--cb_explore_adf --dsjson`, epsilon-greedy over linear regression, after T labelled lines. It gets
a decision as a line of dsjson with all its actions, for it has no catalogue, and answers with their probabilities and an empty line; over
one connection that stays, one line after the other, and `--clients` lines at a time, which spares it system calls and wake-ups. It
writes nothing to disk. laplaced gets HTTP from `--clients` connections, draws an arm, and answers when the decision is on disk.

CPU is the scheduler's count over all threads of the server, and of vw's child and parent. All go in turns; the verdicts are medians
over the rounds of ours by vw's with many lines at a time: of each task, and of the catalogue by vw's linear task, whose line is the
shorter work for vw."""
import argparse
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

from checks import Server
from lines import Lines
from loop import ARMS, USERS, Traffic, add_sizes, blas_core, furnish, load

KINDS = ("catalogue", "linear")
EPSILON = 0.1
BAR = 0.8
VERDICTS = (("catalogue", ("catalogue", "vw")), ("catalogue", ("linear", "vw")), ("linear", ("linear", "vw")))
START_S = 20
LINES = 512


def children(pid):
    return [int(c) for c in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cpu_us(pid):
    """Of the process's threads and of its children's, so far."""
    own = sum(int((t / "schedstat").read_text().split()[0]) for t in pathlib.Path(f"/proc/{pid}/task").iterdir()) / 1e3
    return own + sum(cpu_us(child) for child in children(pid))


class Wabbit:
    """A daemon of vw's, and one connection to it."""
    def __init__(self, program, folder, options=("--epsilon", str(EPSILON))):
        said = folder / "port"
        self.log = open(folder / "vw.log", "wb")
        self.process = subprocess.Popen(
            [str(program), "--daemon", "--foreground", "--num_children", "1", "--port", "0", "--port_file", str(said), "--quiet", "--dsjson",
             "--cb_explore_adf", *options], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        until = time.monotonic() + START_S
        while not (said.exists() and said.read_text().strip()):
            if self.process.poll() is not None or time.monotonic() > until:
                self.process.kill()
                raise SystemExit(f"no daemon of {program}: {(folder / 'vw.log').read_text()[:500]}")
            time.sleep(0.02)
        self.socket = socket.create_connection(("127.0.0.1", int(said.read_text())), timeout=START_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, text, n):
        """Sends n lines at once; their answers. Each is one line, `action:probability` by commas, and an empty one."""
        self.socket.sendall(text)
        got = b""
        while got.count(b"\n\n") < n:
            piece = self.socket.recv(1 << 20)
            if not piece:
                raise SystemExit(f"vw has ended the connection after {got[-200:]!r}")
            got += piece
        answers = got.split(b"\n\n")
        if len(answers) != n + 1 or answers[n] or not all(b":" in a and b"\n" not in a for a in answers[:n]):
            raise SystemExit(f"{n} decisions were asked of vw, which said {got[-200:]!r}")
        return answers[:n]

    def run(self, lines, at_once, seconds):
        """A closed loop over the lines; its figures."""
        batches = [(b"".join(lines[i:i + at_once]), len(lines[i:i + at_once])) for i in range(0, len(lines), at_once)]
        cpu, began, answered = cpu_us(self.process.pid), time.monotonic(), 0
        while time.monotonic() < began + seconds:
            text, n = batches[(answered // at_once) % len(batches)]
            answered += len(self.ask(text, n))
        took = time.monotonic() - began
        return {"answered": answered, "rate": answered / took, "cpu_us": (cpu_us(self.process.pid) - cpu) / answered,
                "line_bytes": sum(map(len, lines)) / len(lines)}

    def stop(self):
        """Its child ends with the connection's end at the latest, or by the parent's hand."""
        mine = children(self.process.pid)
        self.socket.close()
        self.process.terminate()
        try:
            self.process.wait(START_S / 4)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in mine:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        self.log.close()


def dsjson(traffic, kind, is_labelled=False):
    """A decision as vw has it: the user as a shared feature, and each action with its features, or its name for one."""
    rng, n = traffic.random, ARMS if kind == "catalogue" else traffic.args.C
    actions = [{"a": {"id": f"a{i}"}} if kind == "catalogue" else {"a": {f"x{k}": x for k, x in enumerate(traffic.features())}} for i in range(n)]
    line = {"Version": "1", "EventId": f"e{rng.randrange(1 << 30)}", "a": list(range(1, n + 1)),
            "c": {"u": {"user": f"u{rng.randrange(USERS)}"}, "_multi": actions}, "p": [1 / n] * n}
    if is_labelled:
        chosen = rng.randrange(n)
        line = {"_label_cost": -round(rng.random(), 3), "_label_probability": 1 / n, "_label_Action": chosen + 1, "_labelIndex": chosen, **line}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def one_round(args, folder, wabbits, lines, server, traffic):
    """(kind, who, figures) of all that is compared, in turn."""
    for kind in KINDS:
        for at_once in (1, args.clients):
            yield kind, "vw" if at_once > 1 else "vw, one by one", {"at_once": at_once, **wabbits[kind].run(lines[kind], at_once, args.seconds)}
        ours = load(args.out.resolve(), server, "/select", traffic.selects(kind, "select"), tenant=f"{kind}-commit", clients=args.clients,
                    seconds=args.seconds)
        yield kind, "laplaced", {**ours, "cpu_us": ours["http_threads_us"] + ours["other_threads_us"]}


def train(args, folder, traffic):
    """A daemon for each task, which has learned as much as our tenants."""
    wabbits = {}
    for kind in KINDS:
        (folder / kind).mkdir()
        wabbits[kind] = Wabbit(args.vw, folder / kind)
        for _ in range(args.t):
            wabbits[kind].ask(dsjson(traffic, kind, is_labelled=True), 1)
    return wabbits


def measure(args, folder, emit):
    """{(kind, who): [CPU a decision of each round]}."""
    traffic, wabbits, found = Traffic(args, folder), {}, {}
    server = Server(args.out.resolve(), folder / "data")
    try:
        furnish(server, traffic, KINDS, "commit")
        common = {"bench": "vw", "C": args.C, "d": args.d, "blas_core": blas_core(folder / "data.log")}
        wabbits = train(args, folder, traffic)
        lines = {kind: [dsjson(traffic, kind) for _ in range(LINES)] for kind in KINDS}
        for round_ in range(args.rounds):
            for kind, who, one in one_round(args, folder, wabbits, lines, server, traffic):
                emit({**common, "kind": kind, "who": who, "round": round_, **one})
                found.setdefault((kind, who), []).append(one["cpu_us"])
    finally:
        server.stop()
        for w in wabbits.values():
            w.stop()
    for ours, theirs in VERDICTS:
        ratios = [a / b for a, b in zip(found[(ours, "laplaced")], found[theirs])]
        emit({**common, "laplaced": ours, "beside": theirs, "verdict": statistics.median(ratios), "rounds": ratios, "bar": BAR,
              "is_reached": statistics.median(ratios) <= BAR})
    return found


def print_tables(args, found):
    what = {"catalogue": f"{ARMS} arms by name", "linear": f"{args.C} arms x {args.d} features"}
    print("\n| CPU us a decision | " + " | ".join(what[k] for k in KINDS) + " |\n|---|" + "---|" * len(KINDS))
    for who in ("vw, one by one", "vw", "laplaced"):
        print(f"| {who}{', durable' if who == 'laplaced' else ''} | " + " | ".join(f"{statistics.median(found[(k, who)]):.1f}" for k in KINDS) + " |")
    for ours, theirs in VERDICTS:
        ratios = [a / b for a, b in zip(found[(ours, "laplaced")], found[theirs])]
        middle = statistics.median(ratios)
        print(f"{what[ours]} durable by {theirs[1]} with {what[theirs[0]]}: {middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f}); at most {BAR}: "
              f"{'reached' if middle <= BAR else 'NOT reached'}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--vw", default="vw", help="the program, or its name on the path")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=1.0, help="of one loop")
    p.add_argument("--clients", type=int, default=64, help="connections to laplaced, and lines that vw has at a time")
    add_sizes(p)
    args = p.parse_args()
    found = shutil.which(args.vw)
    if found is None:
        print(f"skipped: there is no program {args.vw}; Debian has no package of Vowpal Wabbit, see https://vowpalwabbit.org, then make bench-vw VW=/path/to/vw")
        return
    args.vw = found
    with Lines(args.file) as emit:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-vw-", dir=args.file.parent))
        try:
            print_tables(args, measure(args, folder, emit))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
