"""Fixtures: a server for each module, further ones on demand, names for tenants."""
import pathlib
import re
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from harness import Client, Server  # noqa: E402


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for the module's tests; each takes a tenant of its own."""
    running = Server(tmp_path_factory.mktemp("laplaced")).start()
    yield running
    running.close()


@pytest.fixture
def api(server):
    return Client(server)


@pytest.fixture
def name(request):
    """A tenant name made of the test's own."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name)[:60].strip("-") or "t"


@pytest.fixture
def boot(tmp_path):
    """boot(*args, ...) starts a further server on this test's folder; all are ended with the test."""
    started = []

    def start(*args, **options):
        one = Server(tmp_path, *args, **options)
        started.append(one)
        return one.start()

    yield start
    for one in started:
        one.close()
