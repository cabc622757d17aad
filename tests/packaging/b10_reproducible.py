"""Two builds of one source are the same bytes, in whatever folder, at whatever time, by whomever."""
import email.utils
import gzip
import hashlib
import os
import subprocess

from package import FOLDER, ROOT, package, unpacked


def hashes(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.glob("*.deb")}


def time_of(deb, folder):
    """What the package was given as its time: a commit since then is not what is tried here."""
    line = gzip.open(unpacked(deb, folder) / "usr/share/doc/laplaced/changelog.gz", "rt").read().rstrip().split("\n")[-1]
    return str(int(email.utils.parsedate_to_datetime(line.split(">  ")[1]).timestamp()))


def test_another_build_elsewhere_has_the_same_hashes(tmp_path):
    elsewhere = tmp_path / "another-folder"
    env = {**os.environ, "TZ": "Pacific/Auckland", "LC_ALL": "C", "CCACHE_DISABLE": "1", "JOBS": "2",
           "SOURCE_DATE_EPOCH": time_of(package(), tmp_path / "tree")}
    done = subprocess.run(["sh", "-c", "umask 077; exec sh tools/deb.sh \"$0\"", elsewhere], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(hashes(FOLDER)) == 2 and hashes(elsewhere) == hashes(FOLDER)
