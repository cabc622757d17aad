"""How many stories this run may tell (EXTREMES_COUNT and SEED, set by run.sh), under which bounds, and their servers."""
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "http")]

from harness import BIN  # noqa: E402
from judge import Judge  # noqa: E402

MAGNITUDES = os.environ.get("EXTREMES_MAGNITUDES", "1e12 1e30").split()


def pytest_sessionstart(session):
    if not pathlib.Path(BIN).exists():
        pytest.exit(f"{BIN} is not there: run make first", returncode=1)


def pytest_generate_tests(metafunc):
    if "magnitude" in metafunc.fixturenames:
        metafunc.parametrize("magnitude", MAGNITUDES)
    if "seed" in metafunc.fixturenames:
        first = int(os.environ.get("SEED", "1"))
        metafunc.parametrize("seed", range(first, first + int(os.environ.get("EXTREMES_COUNT", "20"))))


@pytest.fixture
def judged(tmp_path):
    """judged(magnitude, *options) is a server whose every answer is looked at, with a witness beside; all are ended with the test."""
    made = []

    def start(magnitude, *options):
        made.append(Judge(tmp_path, magnitude, *options))
        return made[-1]

    yield start
    for one in made:
        one.server.close()
