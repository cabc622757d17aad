"""The package that `make deb` has left, for its tests."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = pathlib.Path(os.environ.get("LAPLACED_PACKAGES", ROOT / "build" / "deb"))


def run(*command, expect=0, **options):
    """A program's standard output."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert expect is None or done.returncode == expect, f"{command}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def package(folder=FOLDER):
    one, = pathlib.Path(folder).glob("laplaced_*.deb")
    return one


def unpacked(deb, folder):
    """The package's files below `folder`, its control files in DEBIAN/."""
    run("dpkg-deb", "-R", deb, folder)
    return pathlib.Path(folder)
