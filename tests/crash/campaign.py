"""One folder, many deaths: load, kill, restart, and now and then the judge.

A life ends by kill -9 at a random moment of the load, at a named failpoint, or in the middle of the start. A look at the
folder compares three servers: the one that goes on from its snapshots, one on a copy without them (a fold of the whole
log), and one on a copy under --verify."""
import json
import random
import shutil
import subprocess
import time

from harness import Client, Server, may_lag, steady
from key_ledger import KeyLedger
from key_ledger import judge as judge_keys
from ledger import ACKED, DOUBT, Ledger, judge, last_seq
from load import ADMIN_KEY, ARMS, COMPACTED, TENANTS, USERS, WRITERS, Dead, Load, Wire, Writer, key_paths

FAILPOINTS = {"before_append": 150, "after_append": 150, "after_commit": 150, "after_apply": 150, "mid_snapshot": 6,
              "mid_migration": 12, "mid_build": 6, "mid_erasure": 2, "mid_key": 6,
              "mid_compaction": 4}  # passages at most
LIFE_S = 0.5
# A snapshot is known by the lines of the log before it: where these have given way to a summary, the short log is folded.
EXPECTED = f"{COMPACTED}.snapshot: not used, the log is folded from its start: it belongs to another log"
SUSPECT = ("Sanitizer", "runtime error:", "Assertion", "differs from that of a fresh fold", "not used, the log is folded")
PARTS = ("model", "arms", "graph", "events?limit=100000")


def same(part, a, b):
    """To the byte; of a model whose bounds may lag behind, all but those."""
    return a == b or part == "model" and may_lag(json.loads(a)) and steady(json.loads(a)) == steady(json.loads(b))


def difference(a, b):
    """Where two answers part."""
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return at, a[max(0, at - 300):at + 300], b[max(0, at - 300):at + 300]


class Campaign:
    def __init__(self, folder, seed):
        self.folder, self.rng = folder, random.Random(seed)
        self.seed, self.kills, self.looks, self.n_equal, self.log_read = seed, {}, 0, 0, 0
        every = self.rng.choice((1, 7, 20, 50, 200))
        verify = ["--verify"] if self.rng.random() < 0.3 else []
        # Every change of a model is built beside the writer then, however small.
        inline = ["--inline-work", "0"] if self.rng.random() < 0.5 else []
        (folder / "keys").write_text(ADMIN_KEY + "\n")
        self.by_key = ["--admin-key-file", str(folder / "keys")]
        self.server = Server(folder, "--snapshot-events", str(every), *verify, *inline, *self.by_key)
        self.ledgers = {name: Ledger(config.get("durability") == "relaxed", name == COMPACTED) for name, config in TENANTS.items()}
        self.keys = KeyLedger()
        self.writers = [Writer(k, seed, self.ledgers, self.keys) for k in range(WRITERS)]

    def client(self):
        return Client(self.server, ADMIN_KEY)

    def run(self, n_kills):
        try:
            self.server.start()
            found_tenants(self.client(), self.ledgers)
            look_at = 0
            while sum(self.kills.values()) < n_kills:
                self.live_and_die()
                if sum(self.kills.values()) >= look_at:
                    self.look()
                    look_at = sum(self.kills.values()) + self.rng.randrange(3, 7)
            self.close_windows()
            self.look(is_quiet=True)
            assert self.server.terminate(60) == 0, self.server.log()[-2000:]
            self.check_log()
        finally:
            self.server.close()
        return self.summary()

    def summary(self):
        asked, told = sum(w.n_requests for w in self.writers), sum(w.n_answers for w in self.writers)
        lines = sum(ledger.last_seq for ledger in self.ledgers.values())
        kills = " ".join(f"{k}={n}" for k, n in sorted(self.kills.items()))
        gone, checked = sum(ledger.n_erased for ledger in self.ledgers.values()), sum(w.n_verified for w in self.writers)
        (made, revoked), cut = self.keys.count(), sum(w.n_compacted for w in self.writers)
        return (f"campaign {self.seed} ({' '.join(self.server.args)}): {kills}; {asked} requests, {told} answered, {self.acked()} "
                f"acknowledged changes, {gone} users erased, {made} keys made, {revoked} revoked, {cut} compactions, {checked} verifications, "
                f"{lines} events, {self.looks} looks, {self.n_equal} folds compared")

    def acked(self):
        return sum(ledger.count(ACKED) for ledger in self.ledgers.values())

    # ---- deaths

    def live_and_die(self):
        """One life of load; or, now and then, first a start that does not get to its end."""
        if self.rng.random() < 0.15:
            self.server.close()
            self.die_in_start()
        point = self.rng.choice([None, None, None, *FAILPOINTS])
        if point or self.server.process is None:
            self.server.close()
            count = self.rng.randrange(1, FAILPOINTS[point] + 1) if point else 0
            self.server.env = {"LAPLACED_FAILPOINT": f"{point}:{count}"} if point else {}
            if not self.starts(point):
                return
        load = Load(self.writers, self.server.url)
        is_by_itself = self.wait_for_death(2.0 if point else self.rng.uniform(0.02, LIFE_S))
        if is_by_itself:
            assert point and self.server._reap() == -9, f"the server died by itself\n{self.server.log()[-3000:]}"
        else:
            self.server.kill()
        self.count(point if is_by_itself else "random")
        load.join()
        self.server.env = {}
        surprises = [s for w in self.writers for s in w.surprises]
        assert not surprises, surprises[:5]
        self.server.start()

    def starts(self, point):
        """A model that the last death has left unbuilt is built at once: its failpoint may come before the greeting."""
        try:
            self.server.start()
            return True
        except AssertionError:
            if point is None or self.server._reap() != -9:
                raise
        self.count(point)
        self.server.env = {}
        self.server.start()
        return False

    def wait_for_death(self, seconds):
        try:
            self.server.process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False

    def die_in_start(self):
        """Recovery that is cut off must be able to begin again."""
        server = self.server
        with open(server.folder / "stderr.log", "ab") as log:
            process = subprocess.Popen(server.command(), stdout=subprocess.DEVNULL, stderr=log, env=server.environment())
        time.sleep(self.rng.uniform(0, 0.03))
        assert process.poll() is None, f"the server died in its start\n{server.log()[-3000:]}"
        process.kill()
        process.wait()
        self.count("start")

    def count(self, kind):
        self.kills[kind] = self.kills.get(kind, 0) + 1

    # ---- looks

    def look(self, is_quiet=False):
        """The writers rest. The folder is copied as a kill leaves it: nothing has been written since the last death but
        what the start, the timer and models that were being built did; of these none may be left, since each of the
        servers would finish it in its own time."""
        self.wait_built()
        self.server.kill()
        others = [self.copy("fresh"), self.copy("verify", "--verify")]
        for cache in (others[0].data / "tenants").glob("*.snapshot*"):
            cache.unlink()
        for server in (self.server, *others):
            server.start()
        try:
            self.judge_logs()
            self.judge_keys()
            for name in TENANTS:
                self.compare(name, others, is_quiet)
            assert not any(suspects(o.log()) for o in others), [o.log()[-2000:] for o in others]
        finally:
            for other in others:
                other.close()
                shutil.rmtree(other.folder)
        self.check_log()
        self.probe()
        self.looks += 1

    def wait_built(self):
        client, end = self.client(), time.monotonic() + 30
        for name in TENANTS:
            while is_building(client.events(name)):
                assert time.monotonic() < end, (f"seed {self.seed}", f"{name} is not built to its end")
                time.sleep(0.05)

    def copy(self, name, *args):
        folder = self.folder / name
        shutil.copytree(self.server.data, folder / "data")
        return Server(folder, *args, *self.by_key)

    def judge_logs(self):
        client = self.client()
        for name, ledger in self.ledgers.items():
            text = fetch(self.server, name, "events?limit=100000")
            new = client.events(name, after=ledger.begin())  # checked line by line against the contract
            new = [e for e in new if e["seq"] <= last_seq(text)]
            faults = judge(ledger, text, new)
            assert not faults, (f"seed {self.seed}, tenant {name}", faults[:10])
            assert ledger.last_seq == last_seq(text), name

    def judge_keys(self):
        client = self.client()
        rows = [(path, row) for path in key_paths() for row in (client.call("GET", path, expect=(200, 404)).json.get("keys") or [])]
        faults = judge_keys(self.keys, rows, lambda text: Client(self.server, text).call("GET", "/tenants", expect=(200, 401, 403)).status != 401)
        assert not faults, (f"seed {self.seed}, keys", faults[:10])

    def compare(self, name, others, is_quiet):
        """Model (with its digest), catalogue, graph and log of all three. Only a timer that closes windows may make them
        differ in length while they run; at the end of a campaign none is open."""
        mine = [fetch(self.server, name, part) for part in PARTS]
        for other in others:
            theirs = [fetch(other, name, part) for part in PARTS]
            if name == "window" and not is_quiet and theirs[-1] != mine[-1]:
                continue
            for part, a, b in zip(PARTS, mine, theirs):
                assert same(part, a, b), (f"seed {self.seed}, {name}, {part}, {other.folder.name}", difference(a, b))
            self.n_equal += 1

    def probe(self):
        """Through the checked client: open decisions take rewards, named decisions are answered as before. What was in
        doubt and is in the log is answered as the log has it."""
        client = self.client()
        for writer in self.writers:
            for name in ("exact", "kors", "thompson", "median"):
                # A correction before a reward in doubt is sent again would make of that another correction.
                if writer.opened[name] and not (name == "thompson" and writer.doubts):
                    decision, places = writer.opened[name].pop(0)
                    item = {"decision": decision, "reward": writer.mark(), **places[0]}
                    assert client.call("POST", "/reward", item, tenant=name).json == {"applied": True}, (self.seed, name, item)
                    self.ledgers[name].note(("reward", item["reward"]), ACKED, writer.number, decision=decision)
            for name, body, text in list(writer.answers)[-8:]:
                again = client.call("POST", "/select", body, tenant=name).text
                assert again.encode() == text, (f"seed {self.seed}, {name}", text, again)

    def close_windows(self):
        """Waits until the timer has closed what is open under `window`."""
        client, end = self.client(), time.monotonic() + 20
        while client.stats("window")["pending"] > 0:
            assert time.monotonic() < end, "windows do not close"
            time.sleep(0.1)

    def check_log(self):
        """What the process says about itself: no sanitizer, no assertion, no snapshot that had to be thrown away."""
        text = self.server.log()[self.log_read:]
        self.log_read += len(text)
        assert not suspects(text), (f"seed {self.seed}", suspects(text)[:5])


def found_tenants(client, ledgers):
    """Each with a graph and a catalogue, in three changes."""
    for k, (name, config) in enumerate(TENANTS.items()):
        edges = [[f"u{i}", f"u{i + 1}", 2.0 + k + i] for i in range(USERS - 1)]
        dims = bool(config.get("arm_dim"))
        arms = [{"id": f"a{i}", **({"features": [i / 8]} if dims else {})} for i in range(ARMS)]
        for mark, change in ((("configured", k), lambda: client.put_tenant(name, **config, seed=k)),
                             (("graph", 2.0 + k), lambda: client.put_graph(name, edges)),
                             (("arms", "mark"), lambda: client.put_arms(name, [*arms, {**arms[0], "id": "mark"}]))):
            ledgers[name].note(mark, DOUBT, 0)
            change()
            ledgers[name].note(mark, ACKED, 0)


def suspects(text):
    """Lines of a server's log that must not be there."""
    return [line for line in text.splitlines() if any(s in line for s in SUSPECT) and EXPECTED not in line]


def is_building(events):
    """Whether what was begun last has not been finished."""
    begun = [e["seq"] for e in events if e["type"] == "dictionary" and e.get("begun")]
    return bool(begun) and not any(e.get("from") == begun[-1] for e in events)


def fetch(server, name, part):
    wire = Wire(server.url)
    try:
        status, body = wire.call("GET", f"/tenants/{name}/{part}")
    except Dead as fault:
        raise AssertionError(f"no answer to {part} of {name}:\n{server.log()[-3000:]}") from fault
    finally:
        wire.close()
    assert status == 200, body
    return body
