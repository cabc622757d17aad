"""What the files of this folder stand on, where they do not make their own: a log with one standby, and three servers on it."""
import pytest

import pg
from servers import Servers, init


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    with pg.Cluster(tmp_path_factory.mktemp("pg"), 1) as cluster:
        init(cluster.url)
        yield cluster


@pytest.fixture
def own(tmp_path_factory):
    """A log of a test's own: for servers that die, since a server's name is no other's of the same log, and for keys, which all its servers have."""
    with pg.Cluster(tmp_path_factory.mktemp("own"), 1) as cluster:
        init(cluster.url)
        yield cluster


@pytest.fixture
def mortal(tmp_path_factory):
    """A log of a test's own, whose primary may die: the others' is not to."""
    with pg.Cluster(tmp_path_factory.mktemp("mortal"), 2) as cluster:
        init(cluster.url)
        yield cluster


@pytest.fixture(scope="module")
def trio(database, tmp_path_factory):
    servers = Servers(tmp_path_factory.mktemp("servers"), database.url)
    servers.ready()
    yield servers
    servers.end()


@pytest.fixture
def three(trio):
    return trio.clients()
