"""Fixtures: a server for each module, further ones on demand, names for tenants."""
import os
import pathlib
import re
import sys
import zlib

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

# OpenBLAS falls back to kernels of 2004 on processors that it does not know; before numpy is loaded it can be helped.
if "avx2" in pathlib.Path("/proc/cpuinfo").read_text().split():
    os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")

from contract import CONTRACT  # noqa: E402
from harness import BIN, Client, Server  # noqa: E402


def pytest_sessionstart(session):
    if not pathlib.Path(BIN).exists():
        pytest.exit(f"{BIN} is not there: run make first", returncode=1)


# Files that take minutes. Where files run side by side, one of them at the end would keep the others waiting.
LONG = ("y00", "c05", "x15", "x10", "a15", "r02")


def pytest_collection_modifyitems(items):
    """Long files go first; the order is else that of names."""
    items.sort(key=lambda item: not item.path.name.startswith(LONG))


def pytest_sessionfinish(session):
    """Where files run in several processes, each notes what it has covered for z99_coverage.py."""
    if "LAPLACED_SEEN" in os.environ:
        files = {item.path.name for item in getattr(session, "items", [])}  # none in the process that only hands out
        CONTRACT.note(os.environ["LAPLACED_SEEN"], files, session.testsfailed)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for the module's tests; each takes a tenant of its own. It must end well (leaks count under ASan)."""
    running = Server(tmp_path_factory.mktemp("laplaced")).start()
    yield running
    try:
        assert running.terminate() == 0, running.log()[-3000:]
    finally:
        running.close()


@pytest.fixture
def api(server):
    return Client(server)


@pytest.fixture
def name(request):
    """A tenant name made of the test's own, unique by a checksum."""
    own = request.node.name.encode()
    return f"{re.sub(rb'[^A-Za-z0-9]+', b'-', own)[5:40].decode()}{zlib.crc32(own):08x}"


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
