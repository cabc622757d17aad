"""Deaths, stops, partitions and cuts of the power under writers: nothing that was acknowledged is lost or doubled, and all copies are one.

`make acceptance-cluster` runs it with the counts that a release is judged by, `make check-cluster` with few; CLUSTER_DEATHS and the like say how many."""
import os
import signal
import time

import pytest

from servers import init
from siege import Siege, cut_the_power_of_all, cut_the_power_of_one, kill_a_server, kill_the_primary
import net
import pg
import power

pytestmark = pytest.mark.skipif(pg.programs() is None, reason="PostgreSQL is not installed")


def count(name, few):
    return int(os.environ.get("CLUSTER_" + name, few))


def need(why_not):
    """Said aloud: what is skipped was not checked."""
    if why_not:
        print(f"\n*** NOT CHECKED: {why_not} ***")
        pytest.skip(why_not)


# ---- deaths

def test_servers_die(mortal, tmp_path):
    with Siege(tmp_path, mortal, "server-deaths") as siege:
        siege.run(count("DEATHS", 10), kill_a_server)


def test_the_primary_dies(mortal, tmp_path):
    with Siege(tmp_path, mortal, "primary-deaths") as siege:
        siege.run(count("PRIMARY_DEATHS", 2), kill_the_primary)


# ---- stops

def stop(siege):
    """A server, which may have a tenant's turn, the primary or a standby stands still for three seconds, and goes on as if nothing had been."""
    rng, servers = siege.rng, siege.servers.servers
    what = rng.choice(("server", "server", "primary", "standby"))
    if what == "server":
        victim = rng.choice(servers)
        victim.process.send_signal(signal.SIGSTOP)
        siege.goes_on([s for s in servers if s is not victim])
        time.sleep(3)
        victim.process.send_signal(signal.SIGCONT)
        return
    victim = siege.database.primary if what == "primary" else rng.choice(siege.database.standbys)
    victim.signal_all(signal.SIGSTOP)
    if what == "standby":
        siege.goes_on(servers)
    time.sleep(3)
    victim.signal_all(signal.SIGCONT)


def test_who_stands_still_goes_on(mortal, tmp_path):
    with Siege(tmp_path, mortal, "stops") as siege:
        siege.run(count("STOPS", 4), stop)


# ---- partitions

@pytest.fixture
def wires():
    need(net.why_not())
    machines = {name: f"10.91.0.{11 + i}" for i, name in enumerate("abc")}
    machines.update({"s" + name: f"10.91.0.{21 + i}" for i, name in enumerate("abcd")})
    with net.Net(machines) as made:
        yield made


@pytest.fixture
def wired(wires, tmp_path_factory):
    with pg.Cluster(tmp_path_factory.mktemp("wired"), 2, wires) as cluster:
        init(cluster.url)
        yield cluster


def cut(siege):
    """A server from all databases, the primary from its standbys, or the primary and a server from all others while a standby is promoted."""
    rng, servers, database = siege.rng, siege.servers.servers, siege.database
    what = rng.choices(("server", "standbys", "deposed"), (6, 3, 1))[0]
    way, seconds = rng.choice(net.WAYS), rng.uniform(0.5, 5)
    one = rng.choice(servers)
    primary, standbys = database.primary.name, [i.name for i in database.standbys]
    print(f"  {what} {way} {seconds:.1f} s ({one.folder.name})", flush=True)
    if what == "server":
        siege.net.cut(["s" + one.folder.name], [primary, *standbys], way)
        siege.goes_on([s for s in servers if s is not one])
    elif what == "standbys":
        siege.net.cut([primary], standbys, way if way != "down" else "both")
    else:
        siege.net.cut([primary, "s" + one.folder.name], [*standbys, *["s" + s.folder.name for s in servers if s is not one]], "both")
        old = database.primary
        database.promote()
        siege.goes_on([s for s in servers if s is not one])
    time.sleep(seconds)
    siege.net.heal()
    if what == "deposed":
        siege.goes_on(servers)  # while the old primary takes itself for one
        database.kill_primary(old)
        database.rejoin()


def test_networks_part(wired, tmp_path):
    with Siege(tmp_path, wired, "partitions", wired.net) as siege:
        siege.run(count("PARTITIONS", 2), cut)


# ---- power

@pytest.fixture
def powered(tmp_path_factory):
    need(power.why_not())
    folder, user = tmp_path_factory.mktemp("powered"), pg.owner()
    pg.make_way(folder)
    made = power.Power()
    try:
        for name in "ab":
            made.add(name, folder / f"{name}.image", folder / "pg" / name / "data", (user.pw_uid, user.pw_gid))
        for name in "abc":
            made.add("s" + name, folder / f"s{name}.image", folder / "servers" / name)
        with pg.Cluster(folder / "pg", 1) as cluster:
            os.sync()
            init(cluster.url)
            cluster.power, cluster.home = made, folder / "servers"
            yield cluster
    finally:
        made.close()


@pytest.mark.parametrize("kind,fault", [("power-of-one", cut_the_power_of_one), ("power-of-all", cut_the_power_of_all)])
def test_the_power_fails(powered, kind, fault):
    with Siege(powered.home, powered, kind) as siege:
        siege.power = powered.power
        siege.run(count("POWER", 2), fault)
