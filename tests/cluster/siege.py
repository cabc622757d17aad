"""Three servers of one log under four writers, and faults that are done to them again and again: what was acknowledged is counted afterwards.

Every ten faults the writers rest, and the log is judged: what any client was told is there once, nothing else is, no number is left out, and all servers and one
that comes new have the same copy and model. Each round has a tenant of its own. What was counted is printed, and stands as one line of JSON in the file
$CLUSTER_TALLY."""
import collections
import json
import os
import random
import time

from servers import Servers, settle, wait_for
from writers import POINTS, Writer, at_work, judged
from ledger import ACKED, Ledger

ROUND = 10
N_WRITERS = 4


def keep_tally(told):
    print(json.dumps(told))
    if os.environ.get("CLUSTER_TALLY"):
        with open(os.environ["CLUSTER_TALLY"], "a") as f:
            f.write(json.dumps(told) + "\n")



class Siege:
    def __init__(self, folder, database, kind, net=None):
        self.seed = int(os.environ.get("CLUSTER_SEED") or random.randrange(10**6))
        self.kind, self.rng, self.database, self.net = kind, random.Random(f"{self.seed}/{kind}"), database, net
        self.tally = collections.Counter({k: 0 for k in ("faults", "lines", "acknowledged", "unknown", "lost", "doubled", "gaps", "other")})
        self.slowest = 0.0
        print(f"{kind}: seed {self.seed}")
        self.servers = Servers(folder, database.url, net=net)

    def __enter__(self):
        try:
            self.servers.ready()
        except BaseException:
            self.servers.close()
            raise
        return self

    def __exit__(self, failure, *_):
        self.servers.close()
        told = {"test": self.kind, "seed": self.seed, **self.tally, "slowest_s": round(self.slowest, 2), "passed": failure is None}
        keep_tally(told)

    def run(self, count, fault):
        """fault(self) is done, and mended, `count` times."""
        for first in range(0, count, ROUND):
            self.round(fault, first, min(ROUND, count - first))

    def round(self, fault, number, n):
        name, ledger = f"{self.kind}-{number}", Ledger()
        self.servers.clients()[0].put_tenant(name, algorithm="laplaced")
        everybody = [Writer(i, f"{self.seed}/{number}", ledger, name, self.servers.key, 8) for i in range(N_WRITERS + 1)]
        *writers, self.prober = everybody
        try:
            with at_work(writers, self.servers, 120):
                for _ in range(n):
                    time.sleep(self.rng.uniform(0.2, 0.8))
                    fault(self)
                    self.tally["faults"] += 1
                    self.goes_on(self.servers.servers)
            self.servers.ready()
            self.judge(name, ledger)
        finally:
            told = sum((w.n for w in everybody), collections.Counter())
            self.tally["unknown"] += told[0] + told[503]
        assert [s for w in everybody for s in w.surprises] == []

    def goes_on(self, servers):
        """Each of them acknowledges a change."""
        for server in servers:
            begin, before = time.monotonic(), self.prober.n[200]
            while self.prober.n[200] == before:
                assert time.monotonic() < begin + 60, f"{server.folder.name} acknowledges nothing for a minute"
                self.prober.turn(lambda: [server.url])
            self.slowest = max(self.slowest, time.monotonic() - begin)

    def judge(self, name, ledger):
        log, digest = settle(self.servers.clients(), name)
        events, faults = judged(ledger, log)
        self.tally["lines"] += len(events)
        self.tally["acknowledged"] += ledger.count(ACKED)
        for fault in faults:
            kind = "lost" if "is lost" in fault else "doubled" if "stands" in fault and "times" in fault else "gaps" if fault.startswith("after seq") else "other"
            self.tally[kind] += 1
        assert faults == [], f"seed {self.seed}: {faults[:5]}"
        assert ledger.count(ACKED) > 50
        fresh = self.servers.add()
        client = self.servers.client(fresh)
        wait_for(lambda: client.call("GET", f"/tenants/{name}", expect=(200, 503)).status == 200)
        assert settle(self.servers.clients(), name) == (log, digest)
        self.servers.remove(fresh)


def kill_a_server(siege):
    """At random, or where a turn is at a named point of it."""
    server = siege.rng.choice(siege.servers.servers)
    if siege.rng.random() < 0.5:
        siege.servers.restart(server)
        return
    server.env = {"LAPLACED_FAILPOINT": f"{siege.rng.choice(POINTS)}:{siege.rng.randrange(2, 20)}"}
    siege.servers.restart(server)
    wait_for(lambda: server.process.poll() is not None, 60, "the death at a point")
    server.env = {}
    siege.servers.restart(server)


def kill_the_primary(siege):
    siege.database.kill_primary()
    siege.database.promote()
    siege.database.rejoin()


def cut_the_power_of_all(siege):
    siege.power.fail(siege, siege.servers.servers, siege.database.instances)


def cut_the_power_of_one(siege):
    one = siege.rng.choice([*siege.servers.servers, *siege.database.instances])
    siege.power.fail(siege, [s for s in siege.servers.servers if s is one], [i for i in siege.database.instances if i is one])
