"""The server fixture of the HTTP tests, and how many kills this run may spend (CRASH_KILLS, set by run.sh)."""
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "http")]

from harness import BIN, Server  # noqa: E402

KILLS_IN_CAMPAIGN = 10


def pytest_sessionstart(session):
    if not pathlib.Path(BIN).exists():
        pytest.exit(f"{BIN} is not there: run make first", returncode=1)


def pytest_generate_tests(metafunc):
    """A campaign for every ten kills; its seed says everything about it."""
    if "campaign_seed" in metafunc.fixturenames:
        kills, first = int(os.environ.get("CRASH_KILLS", "40")), int(os.environ.get("CRASH_SEED", "1"))
        metafunc.parametrize("campaign_seed", range(first, first + max(1, -(-kills // KILLS_IN_CAMPAIGN))))


@pytest.fixture
def boot(tmp_path):
    """boot(*args, ...) is a server, not started yet, on this test's folder; all are ended with the test."""
    made = []

    def make(*args, **options):
        made.append(Server(tmp_path, *args, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
