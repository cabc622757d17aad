"""Power cuts: one traced run under load, then as many disks as are asked for, each as a cut at some record of the trace may
leave it (power_disk.py), each opened by a server and held to what clients knew at that instant.

    python3 power.py CUTS              RUNS of so many cuts each; prints a line for each cut, at last "N passed, N failed"
    python3 power.py --again RUN CUT   one cut of a run that was kept, as its line names it

A run of which a cut has failed is kept below POWER_KEEP: the trace is what happened, so a cut of it is the same each time.
POWER_SEED is the first run's seed; it fixes what is asked, not the moments.

A control shows that the campaign can find a loss: disks that say they have synced and have not, for some time before the
cut, must be found to have lost what was acknowledged meanwhile. A control that finds nothing has failed."""
import bisect
import json
import os
import pathlib
import pickle
import random
import re
import shutil
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "http")]

from campaign import fetch, suspects  # noqa: E402
from harness import Client, Server  # noqa: E402
from key_ledger import judge as judge_keys  # noqa: E402
from ledger import ACKED, judge  # noqa: E402
from load import ADMIN_KEY, TENANTS, key_paths  # noqa: E402
from power_disk import Disk, read_trace, write_image  # noqa: E402
from power_load import GONE, MADE  # noqa: E402
from power_run import Run  # noqa: E402

CUTS_OF_A_RUN = 50
WHERE = {"record": 3, "sync": 5, "name": 4, "answer": 6}  # of which kind an instant is, how often
GONE_S = 10.0  # by when an erased user must be out of the files of a server that has started


# ---- which instants

def choose_cuts(run, records, n, rng):
    """[(records played, seed of the image, what is told of it)]"""
    times, acks = [r.t for r in records], run.journal.acks()
    syncs = [i for i, r in enumerate(records) if r.op == "s"]
    names = [i for i, r in enumerate(records) if r.op in "RUM" or r.op == "O" and r.at & 1]
    cuts = []
    for _ in range(n):
        way = rng.choices(list(WHERE), list(WHERE.values()))[0]
        if way == "answer":
            kind = rng.choice(sorted(acks))
            at, way = bisect.bisect_right(times, rng.choice(acks[kind])), f"{kind} acknowledged"
        elif way == "record":
            at = rng.randrange(1, len(records))
        else:
            at = rng.choice(syncs if way == "sync" else names) + rng.choice((0, 1))
        cuts.append((max(1, at), rng.randrange(2**32), way))
    return sorted(cuts)


def instant(records, at):
    """The last one at which no more than these records were made."""
    return records[at].t - 1 if at < len(records) else 2**63


def describe(records, at):
    r = records[at - 1]
    return f"behind {r.op}{' ' + pathlib.Path(r.other or r.path).name if r.path else ''}"


# ---- one cut

class Cut:
    def __init__(self, run, folder, known):
        self.run, self.folder, self.known, self.faults = run, folder, known, []

    def judge(self, image):
        """Faults as sentences."""
        write_image(image, self.folder)
        server = Server(self.folder, "--verify", *self.run.args, "--admin-key-file", str(self.run.folder / "keys"))
        try:
            server.start()
            self.client = Client(server, ADMIN_KEY)
            self.judge_all(server)
            assert server.terminate(60) == 0, "does not stop"
            self.faults += suspects(server.log())[:3]
        except Exception as fault:  # a server that does not start, answer or stop is a finding like any other
            self.faults.append(f"{fault!r:.1500}")
        finally:
            server.close()
        return self.faults

    def judge_all(self, server):
        there = {t["name"] for t in self.client.call("GET", "/tenants").json["tenants"]}
        self.judge_tenants(there)
        erased = {name: [u for u, state in ledger.erasures.items() if state == ACKED] for name, ledger in self.known.ledgers.items()}
        for name, ledger in self.known.ledgers.items():
            if name in there:
                self.judge_log(server, name, ledger)
        self.judge_keys(server)
        for name in sorted(there):
            verdict = self.client.verify(name)
            self.faults += [] if verdict["equal"] else [f"{name}: {verdict}"]
        self.judge_erased(server, erased)
        for name in there & self.known.ledgers.keys():
            self.use(name)

    def judge_tenants(self, there):
        for k, (name, ledger) in enumerate(self.known.ledgers.items()):
            made = ledger.entries.get(("configured", k))
            if made and made.state == ACKED and name not in there:
                self.faults.append(f"tenant {name} was made and is lost")
        for name, state in self.known.tenants.states.items():
            if state == MADE and name not in there:
                self.faults.append(f"tenant {name} was made and is lost")
            elif state == MADE and self.known.tenants.facts[name]:
                self.judge_moved(name, self.known.tenants.facts[name])
            elif state == GONE and name in there:
                self.faults.append(f"tenant {name} was removed and is there")
        self.faults += [f"nobody asked for tenant {name}" for name in there - self.known.ledgers.keys() - self.known.tenants.states.keys()
                        if name != "default"]

    def judge_moved(self, name, facts):
        """The same model, unless windows have closed since."""
        digest, more = self.client.digest(name), self.client.events(name, after=facts["seq"])
        if any(e["type"] not in ("expired", "dictionary", "tuned", "changed") for e in more) or not more and digest != facts["digest"]:
            self.faults.append(f"tenant {name} was {facts} and is {digest} with {more[:3]}")

    def judge_log(self, server, name, ledger):
        text = fetch(server, name, "events?limit=100000")
        self.faults += [f"{name}: {fault}" for fault in judge(ledger, text, [json.loads(line) for line in text.splitlines()])]

    def judge_keys(self, server):
        rows = [(path, row) for path in key_paths() for row in (self.client.call("GET", path, expect=(200, 404)).json.get("keys") or [])]
        self.faults += judge_keys(self.known.keys, rows, lambda text: Client(server, text).call("GET", "/tenants", expect=(200, 401, 403)).status != 401)

    def judge_erased(self, server, erased):
        """A log that was cut at its end may have come back; the server cuts it again soon after its start."""
        end = time.monotonic() + GONE_S
        while (left := remains(server.data, erased)) and time.monotonic() < end:
            time.sleep(0.1)
        self.faults += left[:3]

    def use(self, name):
        """It goes on: a decision and its reward."""
        context = {"context": [0.5]} if TENANTS[name].get("context_dim") else {}
        decision = self.client.select("u1", tenant=name, **context, **candidates(name))
        self.client.reward(decision["decision"], 0.0, tenant=name)


def candidates(name):
    """Named, as the cut may have come before the catalogue."""
    return {"candidates": [{"id": "a0", "features": [0.0]} if TENANTS[name].get("arm_dim") else "a0"]}


def remains(data, erased):
    found = []
    for name, users in erased.items():
        texts = {p.name: p.read_bytes() for p in (data / "tenants").glob(name + ".*") if not p.name.endswith("-shm")}
        pattern = re.compile(b"(" + b"|".join(u.encode() for u in users) + b")(?![0-9])") if users else None
        for file, text in texts.items() if pattern else ():
            match = pattern.search(text)
            found += [f"{match.group().decode()} was erased and is in {file}"] if match else []
    return found


# ---- all of it

class Campaign:
    def __init__(self, folder):
        self.folder, self.good, self.bad = folder, 0, 0

    def tell(self, is_good, text, faults=()):
        self.good, self.bad = self.good + is_good, self.bad + (not is_good)
        print(f"{'ok' if is_good else 'FAIL:'} {text}", *faults[:8], sep="\n    ", flush=True)

    def run(self, seed, n_cuts):
        began, bad = time.monotonic(), self.bad
        folder = self.folder / f"run{seed}"
        folder.mkdir()
        run = Run(folder, seed).live()
        records, rng = run.records(), random.Random(seed)
        self.tell(not run.faults, f"{run.summary(records)}; {time.monotonic() - began:.1f} s", run.faults)
        self.cut_all(run, records, choose_cuts(run, records, n_cuts, rng))
        for _ in range(-(-n_cuts // 10)):
            self.control(run, records, rng)
        self.keep(run) if self.bad > bad else shutil.rmtree(folder)

    def cut_all(self, run, records, cuts):
        disk, played = Disk(str(run.folder / "disk")), 0
        for at, seed, way in cuts:
            for record in records[played:at]:
                disk.play(record)
            played = at
            image, words = disk.image(seed)
            began = time.monotonic()
            faults = self.judge(run, records, at, image)
            self.tell(not faults, f"cut {at}:{seed} of run {run.seed} ({way}, {describe(records, at)}; kept: {words}; "
                                  f"{time.monotonic() - began:.1f} s)", faults)

    def judge(self, run, records, at, image):
        folder = run.folder / "cut"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            return Cut(run, folder, run.journal.known_at(instant(records, at))).judge(image)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def control(self, run, records, rng):
        """No sync counts from some instant on, and nothing that none covers is kept: what was acknowledged since is lost."""
        times = [r.t for r in records]
        acks = [t for t in run.journal.acks()["change"] if t > run.begun_ns]
        first = rng.randrange(len(acks) - 20)
        last = rng.randrange(first + 10, len(acks) - 1)
        since, at = bisect.bisect_right(times, acks[first] - 1), bisect.bisect_right(times, acks[last])
        disk = Disk(str(run.folder / "disk"), honors=lambda number: number <= since)
        for record in records[:at]:
            disk.play(record)
        lost = [f for f in self.judge(run, records, at, disk.leave()) if "is lost" in f]
        self.tell(bool(lost), f"control: {len(lost)} losses found, with {last - first} changes acknowledged while syncs did nothing "
                              f"(records {since} to {at} of run {run.seed})")

    def keep(self, run):
        run.writers = None
        (run.folder / "run.pickle").write_bytes(pickle.dumps(run))
        kept = pathlib.Path(os.environ.get("POWER_KEEP", HERE.parents[1] / "build" / "power")) / run.folder.name
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(run.folder, kept)
        print(f"kept: sh tests/crash/power.sh --again {kept} RECORD:SEED plays a cut of it again", flush=True)


def again(kept, which):
    run = pickle.loads((pathlib.Path(kept) / "run.pickle").read_bytes())
    records, root = read_trace(pathlib.Path(kept) / "trace"), str(run.folder / "disk")  # as it was called then
    run.folder = pathlib.Path(kept).resolve()
    at, seed = map(int, which.split(":"))
    disk = Disk(root)
    for record in records[:at]:
        disk.play(record)
    image, words = disk.image(seed)
    campaign = Campaign(run.folder)
    faults = campaign.judge(run, records, at, image)
    campaign.tell(not faults, f"cut {which} ({describe(records, at)}; kept: {words})", faults)
    return campaign


def main(args):
    if args[:1] == ["--again"]:
        return again(*args[1:3])
    n_cuts, seed = int(args[0]) if args else 10, int(os.environ.get("POWER_SEED", "1"))
    with tempfile.TemporaryDirectory(prefix="power-") as folder:
        campaign = Campaign(pathlib.Path(folder))
        while n_cuts > 0:
            campaign.run(seed, min(n_cuts, CUTS_OF_A_RUN))
            n_cuts, seed = n_cuts - CUTS_OF_A_RUN, seed + 1
    return campaign


if __name__ == "__main__":
    done = main(sys.argv[1:])
    print(f"{done.good} passed, {done.bad} failed")
    sys.exit(1 if done.bad or not done.good else 0)
