"""`make tour`, where it must fail: what is no better than chance ends it with status 1, and nothing is left behind. The whole
tour is a part of .ci/run."""
import os
import pathlib
import re
import socket
import subprocess

from contract import ROOT
from harness import CTL


def tour(folder, **more):
    env = {**os.environ, "TMPDIR": str(folder), **more}
    return subprocess.run(["sh", "tools/tour.sh", str(pathlib.Path(CTL).parent)], cwd=ROOT, env=env, capture_output=True, text=True,
                          timeout=300)


def is_listening(url):
    host, port = re.fullmatch(r"http://([\d.]+):(\d+)", url).groups()
    with socket.socket() as s:
        return s.connect_ex((host, int(port))) == 0


def test_a_policy_that_has_nothing_to_learn_fails_the_tour(tmp_path):
    """Three buttons that are clicked alike: the policy cannot beat the holdout. LAPLACED_* of the caller lead nobody astray."""
    done = tour(tmp_path, TOUR_RATES="0.1 0.1 0.1", LAPLACED_URL="http://127.0.0.1:9", LAPLACED_TENANT="none", LAPLACED_LISTEN="no:1")
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert "tour: the policy is not better than the holdout" in done.stderr and "2. Twenty items" not in done.stdout
    assert not is_listening(re.search(r"listens at (\S+)\. ", done.stdout).group(1))
    assert list(tmp_path.iterdir()) == []


def test_the_data_are_kept_where_that_was_asked_for(tmp_path):
    kept = tmp_path / "kept"
    done = tour(tmp_path, TOUR_RATES="0.1 0.1 0.1", TOUR_DATA=str(kept))
    assert done.returncode == 1 and (kept / "data" / "tenants" / "shop.db").exists() and f"--data {kept}/data" in done.stdout
    again = tour(tmp_path, TOUR_DATA=str(kept))
    assert again.returncode == 2 and "is not empty" in again.stderr and (kept / "data" / "tenants" / "shop.db").exists()


def test_a_server_that_does_not_come_up_is_told(tmp_path):
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "laplaced").write_text("#!/bin/sh\necho it is broken >&2\nexit 1\n")
    (broken / "laplaced").chmod(0o755)
    done = subprocess.run(["sh", "tools/tour.sh", str(broken)], cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "it is broken" in done.stderr and "tour: the server did not come up" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["bin"]
