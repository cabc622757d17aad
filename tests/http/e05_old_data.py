"""Data of the past: a folder that an older commit has written opens, answers as it did then, and goes on.

Each folder below tests/fixtures is named after the commit whose binary made it (make_data.py, beside them). Bits are compared
where the processor's BLAS kernels are those of then, else numbers to a tolerance."""
import gzip
import json
import math
import subprocess
import sys
import tarfile
import time

import pytest

from contract import NDJSON, ROOT
from harness import CTL, IS_SANITIZED, Client, Server

FIXTURES = ROOT / "tests" / "fixtures"
sys.path.append(str(FIXTURES))

import make_data  # noqa: E402

COMMITS = sorted(p.name for p in FIXTURES.iterdir() if (p / "data.tar.xz").exists())
TENANTS = sorted(make_data.TENANTS)


@pytest.fixture(params=COMMITS)
def past(tmp_path, request):
    """What was recorded, and the folder unpacked below the test's own."""
    with tarfile.open(FIXTURES / request.param / "data.tar.xz") as archive:
        archive.extractall(tmp_path)
    (tmp_path / "keys").write_text(make_data.ADMIN_KEY + "\n")
    recorded = json.loads(gzip.decompress((FIXTURES / request.param / "recorded.json.gz").read_bytes()))
    assert sorted(recorded["tenants"]) == TENANTS
    return recorded


def serve(folder, *args):
    return Server(folder, "--admin-key-file", str(folder.parent / "keys" if folder.name == "new" else folder / "keys"), "--max-magnitude", "1e30", *args).start()


def admin(server):
    return Client(server, make_data.ADMIN_KEY)


def close(a, b):
    """Equal up to rounding; digests are of bits."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(k in ("digest", "content_digest") or close(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
    return a == b


def is_alike(client, recorded):
    """Whether the machine and the build compute as those of then, bit for bit: a sanitizer's build has no clones of the hot functions."""
    return not IS_SANITIZED and make_data.blas_core(client) == recorded["blas_core"]


def stats_in_words_of_today(then):
    """`rewards` has one meaning since decision 0054, of observations and of defaults as well: in all the sum over the arms."""
    n = sum(a["rewards"] for a in then["arms"])
    total = sum(a["rewards"] * a["mean_reward"] for a in then["arms"] if a["rewards"] > 0)
    return {**then, "rewards": n, "mean_reward": total / n if n > 0 else None, "warnings": [], "unknown": 0}


def without_intervals(stats):
    """Arms have theirs since decision 0125."""
    return {**stats, "arms": [{k: v for k, v in a.items() if k not in ("lower", "upper")} for a in stats["arms"]]}


def compare(client, recorded, is_folded):
    """Every tenant's digests, numbers and answers. A snapshot of other kernels is of other bits than a fold by these."""
    same = (lambda a, b: a == b) if is_alike(client, recorded) else close
    for name, then in recorded["tenants"].items():
        then = dict(then)
        now = make_data.state_of(client, name)
        assert close(stats_in_words_of_today(then.pop("stats")), without_intervals(now.pop("stats"))), name
        # Bounds are computed anew for each answer, and may be by a better way than then; what was folded has the same bits.
        wrong = [(k, then[k], now[k]) for k in then if not (close if k == "answers" else same)({k: then[k]}, {k: now[k]})]
        assert not wrong, (name, wrong)
        assert client.verify(name)["equal"] or not is_folded and same is close, name


def remove_snapshots(folder):
    for file in (folder / "data" / "tenants").glob("*.snapshot"):
        file.unlink()


def lines_of(folder, name):
    return (folder / "lines" / f"{name}.ndjson").read_bytes()


def goes_on(client, name):
    """A decision, its reward and an observation, with small numbers everywhere: large ones were taken then."""
    config = make_data.TENANTS[name]
    arm = {"id": "a1", **({"features": [0.5] * config["arm_dim"]} if config.get("arm_dim") else {})}
    x = make_data.context(name, 3)
    client.select("u1", candidates=[arm], decision="of today", tenant=name, **x)
    client.reward("of today", 0.3125, tenant=name)
    client.observe("u2", arm if config.get("arm_dim") else "a1", 0.71875, tenant=name, **x)


def marks(client, name, after):
    found = client.events(name, after=after)
    return [("decided", e["decision"]) for e in found if e["type"] == "decided"] + [("reward", e["reward"]) for e in found if e["type"] == "rewarded"] \
        + [("observed", e["reward"]) for e in found if e["type"] == "observed"]


TODAY = [("decided", "of today"), ("reward", 0.3125), ("observed", 0.71875)]


def hold_today(server, recorded, is_folded):
    """What is acknowledged today outlasts a kill, with the model of its log."""
    client = admin(server)
    for name in TENANTS:
        goes_on(client, name)
    end = time.monotonic() + 20
    while marks(client, "relaxed", recorded["tenants"]["relaxed"]["seq"]) != TODAY:  # answered before its commit
        assert time.monotonic() < end
        time.sleep(0.05)
    digests = {name: client.digest(name) for name in TENANTS}
    server.restart()
    client = admin(server)
    for name in TENANTS:
        assert marks(client, name, recorded["tenants"][name]["seq"]) == TODAY, name
        assert client.digest(name) == digests[name], name
        assert client.verify(name)["equal"] or not is_folded and not is_alike(client, recorded), name


@pytest.mark.parametrize("has_snapshots", [True, False], ids=["snapshots", "folded"])
def test_a_folder_of_then_opens_answers_as_then_and_goes_on(past, tmp_path, has_snapshots):
    if not has_snapshots:
        remove_snapshots(tmp_path)
    server = serve(tmp_path, "--open-all")
    try:
        client = admin(server)
        client.call("GET", "/readyz")
        compare(client, past, not has_snapshots)
        for name in TENANTS:
            assert client.call("GET", f"/tenants/{name}/export").content == lines_of(tmp_path, name), name
        assert make_data.statuses(sys.modules["harness"], server, past["keys"]) == past["statuses"]
        hold_today(server, past, not has_snapshots)
        assert server.terminate(60) == 0
    finally:
        server.close()


def test_the_files_of_then_are_equal_to_their_logs_offline(past, server, tmp_path):
    if not is_alike(Client(server), past):
        remove_snapshots(tmp_path)
    command = [CTL, "verify", "--data", str(tmp_path / "data")]
    told = subprocess.run(command, capture_output=True, timeout=120, env=server.environment())
    assert told.returncode != 0 and b"a start of the server brings it to" in told.stderr
    migrating = serve(tmp_path, "--open-all")
    try:
        admin(migrating).call("GET", "/readyz")
        assert migrating.terminate(60) == 0
    finally:
        migrating.close()
    done = subprocess.run(command, capture_output=True, timeout=120, env=server.environment())
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    assert all(name.encode() in done.stdout for name in TENANTS)


def test_the_lines_of_then_make_the_same_tenants(past, tmp_path):
    (tmp_path / "new").mkdir()
    server = serve(tmp_path / "new")
    try:
        client = admin(server)
        for name, then in past["tenants"].items():
            made = client.call("POST", f"/tenants/{name}/import", raw=lines_of(tmp_path, name), kind=NDJSON, expect=201).json
            assert made["seq"] == then["seq"], name
        compare(client, past, is_folded=True)
        hold_today(server, past, is_folded=True)
        assert server.terminate(60) == 0
    finally:
        server.close()


def test_what_is_recorded_hangs_on_no_tie(past):
    """Among arms of one score any may be shown."""
    for name, then in past["tenants"].items():
        for answer in then["answers"]:
            scores = [r["score"] for r in answer["ranking"] if "score" in r]
            assert len(set(scores)) == len(scores) and (scores or name == "stopped"), name


def test_what_is_recorded_has_every_type_of_event(past, tmp_path):
    lines = [json.loads(line) for name in TENANTS for line in lines_of(tmp_path, name).splitlines()]
    types = {e["type"] for e in lines}
    assert types == {"configured", "graph", "arms", "decided", "rewarded", "observed", "expired", "activated", "late", "dictionary", "redacted", "summary"}
    assert {e.get("route") for e in lines if e["type"] == "decided"} == {None, "holdout", "sticky", "stopped"}
    assert {e["configuration"]["representation"]["type"] for e in lines if e["type"] == "configured"} == {"exact", "kors", "threshold", "bkb", "bbkb"}
    assert {e["configuration"].get("promotion", {}).get("reason", "none") for e in lines if e["type"] == "configured"} == {"none", "request", "rollback"}
    for member in ("answer", "among", "deferred", "begun", "from", "reset", "eligibility", "stop", "start", "slots"):
        assert any(member in e or any(member in arm for arm in e.get("put", [])) for e in lines), member
    assert {p.name for p in (tmp_path / "data" / "tenants").glob("*.snapshot")} >= {f"{name}.snapshot" for name in TENANTS}
    assert all((tmp_path / "data" / "tenants" / f"{name}.db-wal").stat().st_size for name in TENANTS)
