"""A server that dies at each named point of a turn (base/failpoint.h): nothing acknowledged is lost, nothing is doubled, and the other server goes on."""
import collections
import random

import pytest

from servers import Servers, settle, wait_for
from test_nodes import database  # noqa: F401 (a fixture)
from writers import POINTS, Writer, at_work, judged
import pg
from ledger import Ledger

pytestmark = pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")


@pytest.mark.parametrize("point", POINTS)
def test_a_server_that_dies_in_a_turn_loses_and_doubles_nothing(database, tmp_path, point):  # noqa: F811
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    servers, name = Servers(tmp_path, database.url, n=2), f"point-{point}-{seed}"
    alive, mortal = servers.servers
    try:
        servers.ready()
        servers.clients()[0].put_tenant(name, algorithm="laplaced")
        mortal.env = {"LAPLACED_FAILPOINT": f"{point}:25"}
        mortal.restart()
        ledger = Ledger()
        writers = [Writer(i, seed, ledger, name) for i in range(3)]

        with at_work(writers, servers):
            wait_for(lambda: mortal.process.poll() is not None, 30, f"the death at {point}")
            before = sum((w.n for w in writers), collections.Counter())[200]
            wait_for(lambda: sum((w.n for w in writers), collections.Counter())[200] > before + 20, 30, "what goes on at the other server")
            mortal.env = {}
            mortal.restart()
            wait_for(lambda: sum((w.n for w in writers), collections.Counter())[200] > before + 60, 30, "both servers' traffic")
        servers.ready()
        log, _ = settle(servers.clients(), name)
        _, faults = judged(ledger, log)
        assert faults == [], f"seed {seed}: {faults[:5]}"
        assert [s for w in writers for s in w.surprises] == []
    finally:
        servers.close()
