"""Alerts of a log that servers share: each fires when its fault is there, and is silent before and when it is mended (tests/http/prometheus.py). Debian's PostgreSQL with a standby,
and two servers, are under Debian's Prometheus; `make test-monitoring` asks for it."""
import pytest

from servers import QUICK, wait_for
import pg
from harness import Client
from prometheus import NEEDED, OF_A_SHARED_LOG, asked_for, several, watched  # noqa: F401 (fixtures)

pytestmark = [*NEEDED, asked_for, pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")]
# What a refused change raises beside the alert that names its reason.
OF_REFUSALS = ("LaplacedErrors", "LaplacedCommitsFailing", "LaplacedNotReady")
LAST = "tenant = (SELECT id FROM laplaced.tenant WHERE name = 'shop') AND seq = (SELECT last FROM laplaced.tenant WHERE name = 'shop')"


class Watch:
    """Two servers of one log, of which b may be held where it reads on."""

    def __init__(self, database, several, watched, gate):  # noqa: F811
        self.database, self.gate = database, gate
        self.servers = {"a": several("a", "--log", database.url, "--node", "a", *QUICK),
                        "b": several("b", "--log", database.url, "--node", "b", *QUICK, env={"LAPLACED_FAILPOINT": f"mid_follow@{gate}"})}
        self.a, self.b = (Client(s) for s in self.servers.values())
        wait_for(lambda: all(c.call("GET", "/readyz", expect=(200, 503)).status == 200 for c in (self.a, self.b)), 60, "readiness")
        self.a.put_tenant("shop", algorithm="ucb", tune=False)
        for api in (self.a, self.b):
            wait_for(lambda: self.select(api, (200, 404, 503)) == 200)
        self.prometheus = watched(self.servers)
        self.fired = set()

    def select(self, api, expect=200):
        return api.call("POST", "/select", {"user": "u", "candidates": ["x", "y"]}, tenant="shop", expect=expect).status

    def is_well(self):
        """Each takes changes, and nothing fires."""
        for api in (self.a, self.b):
            wait_for(lambda: self.select(api, (200, 503)) == 200)
        self.prometheus.falls_silent(self.machines)

    @property
    def machines(self):
        return {("LaplacedDiskFilling", name) for name in self.servers}  # others fill this machine's disk

    def fires(self, names, instances, beside=(), **options):
        wanted = {(name, instance) for name in names for instance in instances}
        self.prometheus.fires(wanted, self.machines | {(name, instance) for name in beside for instance in self.servers}, **options)
        self.fired |= set(names)


@pytest.fixture
def watch(database, several, watched, tmp_path):  # noqa: F811
    gate = tmp_path / "gate"
    yield Watch(database, several, watched, gate)
    gate.unlink(missing_ok=True)


def lag(watch):
    """A server that cannot read on while another writes."""
    watch.gate.touch()
    watch.select(watch.a)
    watch.fires({"LaplacedLagging"}, "b")
    watch.gate.unlink()


def commits_nobody_knows_of(watch):
    """The one standby hangs for three seconds at a time, and changes wait for it."""
    def hang():
        watch.database.standbys[0].signal_all(pg.signal.SIGSTOP)
        answer = watch.a.call("POST", "/select", {"user": "u", "candidates": ["x", "y"]}, tenant="shop", expect=503)
        assert "nothing was recorded" not in answer.json["detail"], answer.json
        watch.database.standbys[0].signal_all(pg.signal.SIGCONT)
        watch.database.wait_synchronous()
        wait_for(lambda: watch.select(watch.a, (200, 503)) == 200)
    watch.fires({"LaplacedOutcomesUnknown"}, "a", OF_REFUSALS, meanwhile=hang)


def no_standby(watch):
    watch.database.standbys[0].stop()
    watch.fires({"LaplacedLogDown", "LaplacedLogWithoutStandby"}, "ab")
    watch.database.standbys[0].start()
    watch.database.wait_synchronous()


def a_primary_that_may_not_acknowledge(watch):
    """Its commits do not reach its own disk: the standby is there, and is not to blame."""
    watch.database.set("fsync", "off")
    watch.fires({"LaplacedLogDown"}, "ab")
    watch.database.set("fsync", "on")


def a_dead_primary(watch):
    primary = watch.database.kill_primary()
    watch.fires({"LaplacedLogDown"}, "ab")  # of standbys nothing is known then
    (primary.home / "dead").unlink()
    primary.start()
    watch.database.wait_synchronous()


def a_log_that_was_set_back(watch):
    """It has lost its last batch, and goes on from the one before; then it is as the copies know it."""
    sql = watch.database.primary.sql
    tenant = "SELECT last, hash FROM laplaced.tenant WHERE name = 'shop'"
    sql(f"BEGIN; CREATE TABLE lost AS SELECT * FROM laplaced.batch WHERE {LAST}; CREATE TABLE tip AS {tenant}; DELETE FROM laplaced.batch WHERE {LAST}; "
        "UPDATE laplaced.tenant t SET (last, hash) = (SELECT seq, hash FROM laplaced.batch WHERE tenant = t.id ORDER BY seq DESC LIMIT 1) WHERE name = 'shop'; COMMIT")
    assert watch.select(watch.a, 503) == 503
    watch.fires({"LaplacedChainBroken"}, "a", OF_REFUSALS)
    sql("BEGIN; INSERT INTO laplaced.batch SELECT * FROM lost; UPDATE laplaced.tenant SET (last, hash) = (SELECT last, hash FROM tip) WHERE name = 'shop'; DROP TABLE lost, tip; COMMIT")


def test_alerts_of_a_shared_log_fire_while_their_fault_is_there_and_end_with_it(watch):
    watch.is_well()
    for fault in (lag, commits_nobody_knows_of, no_standby, a_primary_that_may_not_acknowledge, a_dead_primary, a_log_that_was_set_back):
        fault(watch)
        watch.is_well()
    assert watch.fired == OF_A_SHARED_LOG
