"""The run whose disk is cut afterwards: some lives of one server under load, with every change of its files traced."""
import os
import pathlib
import random
import signal
import time

from campaign import found_tenants, suspects
from harness import Client, Server
from ledger import DOUBT
from load import ADMIN_KEY, Load
from power_disk import Disk, folder_now, read_trace
from power_load import MADE, Journal, RecordedKeys, recorded_ledgers, writers

LIVES = 3
LIFE_S = float(os.environ.get("POWER_LIFE_S", "0.8"))
TRACER = os.environ.get("POWER_TRACER", str(pathlib.Path(__file__).parents[2] / "build/release/tests/crash/power_trace.so"))


def tracing(folder):
    """The environment of a server whose files below folder/disk are traced into folder/trace."""
    return {"LD_PRELOAD": TRACER, "POWER_TRACE": str(folder / "trace"), "POWER_ROOT": str(folder / "disk")}


class Run:
    """Some lives of one server, traced: ended by kills, which no cut is, and by SIGTERM."""

    def __init__(self, folder, seed):
        self.folder, self.seed, self.faults = folder, seed, []
        self.journal, rng = Journal(), random.Random(seed)
        self.args = ["--snapshot-events", str(rng.choice((5, 20, 60))), *(["--inline-work", "0"] if rng.random() < 0.5 else [])]
        (folder / "disk").mkdir()
        (folder / "keys").write_text(ADMIN_KEY + "\n")

    def live(self):
        ledgers, keys = recorded_ledgers(self.journal), RecordedKeys(self.journal)
        self.writers = writers(self.seed, self.journal, ledgers, keys)
        server = Server(self.folder / "disk", *self.args, "--admin-key-file", str(self.folder / "keys"), env=tracing(self.folder))
        self.journal.note("tenants", "note", ("default", DOUBT))
        try:
            for life in range(LIVES):
                server.start()
                if life == 0:
                    self.journal.note("tenants", "note", ("default", MADE))
                    found_tenants(Client(server, ADMIN_KEY), ledgers)
                    self.begun_ns = time.monotonic_ns()
                self.load(server, is_killed=life % 2 == 0)
                self.check_replay()
        finally:
            server.close()
        self.faults += suspects(server.log())[:5] + [s for w in self.writers for s in w.surprises][:5]
        return self

    def load(self, server, is_killed):
        load = Load(self.writers, server.url)
        time.sleep(LIFE_S)
        if is_killed:
            server.process.send_signal(signal.SIGUSR2)  # the tracer's: a kill between two records
            assert server._reap(30) == -9
        load.join()
        if not is_killed:
            assert server.terminate(60) == 0, server.log()[-2000:]

    def check_replay(self):
        """What the tracer has missed would show here."""
        disk = Disk(str(self.folder / "disk"))
        for record in read_trace(self.folder / "trace"):
            disk.play(record)
        mine, real = ({p: c for p, c in all.items() if p.startswith("/data")} for all in (disk.now(), folder_now(self.folder / "disk")))
        self.faults += [f"{p} is not what the trace says" for p in mine.keys() | real.keys() if mine.get(p, b"-") != real.get(p, b"-")][:5]

    def records(self):
        return read_trace(self.folder / "trace")

    def summary(self, records):
        kinds = {kind: len(times) for kind, times in sorted(self.journal.acks().items())}
        syncs = sum(r.op == "s" for r in records)
        return (f"run {self.seed} ({' '.join(self.args)}): {len(records)} records, {syncs} syncs; acknowledged: "
                + ", ".join(f"{n} x {kind}" for kind, n in kinds.items()))
