"""Disks that fill up, turn read-only or go away under a running server: 503 to exactly the requests whose commit failed,
nothing changed, and the way back by itself. They are mounted for the test; where that is not allowed it is skipped."""
import errno
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from harness import Client

TENANT = {"algorithm": "laplaced-kors", "context_dim": 1, "representation": {"type": "kors", "lambda": 0.2}}


def run(*command):
    done = subprocess.run(command, capture_output=True, timeout=60)
    return done.returncode, done.stderr.decode(errors="replace").strip()


@pytest.fixture
def mounted(tmp_path):
    """mounted(arguments of mount but the place): the test's data folder on a disk of its own."""
    place = tmp_path / "data"

    def mount(*arguments):
        place.mkdir(exist_ok=True)
        status, said = run("mount", *arguments, str(place))
        if status != 0:
            pytest.skip(f"mount {' '.join(map(str, arguments))} is not possible here: {said}")
        return place

    yield mount
    while os.path.ismount(place) and run("umount", str(place))[0] == 0:
        pass
    if os.path.ismount(place):
        run("umount", "-l", str(place))


def fill(folder):
    """Takes every byte that is left; the file that holds them."""
    path = folder / "ballast"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        for size in (1 << 16, 1 << 12, 1 << 9, 1):
            while True:
                try:
                    os.write(fd, bytes(size))
                except OSError as fault:
                    assert fault.errno == errno.ENOSPC
                    break
    finally:
        os.close(fd)
    return path


def wait_ready(client, status=200, seconds=15):
    end = time.monotonic() + seconds
    while client.call("GET", "/readyz", expect=(200, 503)).status != status:
        assert time.monotonic() < end, f"/readyz is not {status} after {seconds} s"
        time.sleep(0.1)


def start(boot, *args):
    client = Client(boot(*args), tenant="t")
    client.put_tenant("t", **TENANT)
    for i in range(12):
        client.select(f"u{i % 3}", candidates=["a", "b"], context=[i / 12], decision=f"d{i}")
        if i % 3:
            client.reward(f"d{i}", i / 12)
    return client


def facts(client):
    return client.model("t"), client.events("t")


def refuse_everything(client):
    """Each change is refused; nothing of it is seen. What changes nothing goes on."""
    before = facts(client)
    refused = [("POST", "/select", {"user": "u1", "candidates": ["a", "b"], "context": [0.3], "decision": "again"}),
               ("POST", "/reward", {"decision": "d0", "reward": 1}), ("POST", "/observe", {"user": "v", "arm": "a", "context": [0], "reward": 1}),
               ("PUT", "/tenants/t/graph", {"edges": [["u0", "u1"]]}), ("PUT", "/tenants/t/arms", {"arms": ["q"]}),
               ("PUT", "/tenants/t", {**TENANT, "seed": 9}), ("POST", "/tenants/t/rebuild", None), ("DELETE", "/tenants/t/users/u1", None),
               ("PUT", "/tenants/fresh", {"algorithm": "ucb"})]
    for method, path, body in refused:
        answer = client.call(method, path, body, expect=503)
        assert answer.headers["Retry-After"] == "1", (path, answer.text)
        assert facts(client) == before, path
    client.call("GET", "/readyz", expect=503)
    client.call("GET", "/healthz")
    client.call("GET", "/tenants/fresh", expect=404)
    assert client.reward("d1", 1 / 12) == {"applied": False, "duplicate": True}
    assert client.select("u1", candidates=["a", "b"], context=[0.3], dry_run=True)["arm"] in "ab"
    client.select("u0", candidates=["a", "b"], context=[0.0], decision="d0")
    assert facts(client) == before


def takes_everything(client):
    client.select("u1", candidates=["a", "b"], context=[0.3], decision="again")
    assert client.reward("d0", 1.0) == {"applied": True}
    client.put_tenant("fresh", algorithm="ucb")
    client.call("DELETE", "/tenants/t/users/u1")
    assert client.verify("t")["equal"]


def test_a_full_disk_refuses_each_change_and_is_left_behind(boot, mounted):
    place = mounted("-t", "tmpfs", "-o", "size=6m", "tmpfs")
    client = start(boot, "--snapshot-events", "5")
    server = client.server
    ballast = fill(place)
    # Blocks that the write-ahead log has already take a few commits more.
    n_taken, answer = 0, None
    while n_taken < 20000:
        answer = client.call("POST", "/observe", {"user": f"u{n_taken}", "arm": "a", "context": [0], "reward": n_taken}, expect=(200, 503))
        if answer.status == 503:
            break
        n_taken += 1
    assert answer.status == 503, "the disk is not full"
    observed = [e["reward"] for e in client.events("t") if e["type"] == "observed"]
    assert observed == list(range(n_taken))
    refuse_everything(client)
    digest, events = client.digest("t"), client.events("t")
    server.kill()
    ballast.unlink()
    server.start()
    assert (client.digest("t"), client.events("t")) == (digest, events)
    ballast = fill(place)
    client.call("GET", "/readyz")  # nobody has asked for a commit yet
    for i in range(20000):
        if client.call("POST", "/observe", {"user": "w", "arm": "b", "context": [1], "reward": i}, expect=(200, 503)).status == 503:
            break
    client.call("GET", "/readyz", expect=503)
    time.sleep(1)
    client.call("GET", "/readyz", expect=503)  # the probe is not taken in by blocks that are there
    ballast.unlink()
    wait_ready(client)  # nobody asks for anything
    takes_everything(client)
    digest = client.digest("t")
    assert server.terminate() == 0
    server.start()
    assert client.digest("t") == digest


def test_a_file_system_that_turns_read_only_is_read_on(boot, mounted, tmp_path):
    """As ext4 does when it finds itself at fault."""
    image = tmp_path / "image"
    with open(image, "wb") as file:
        file.truncate(24 << 20)
    if shutil.which("mkfs.ext4") is None or run("mkfs.ext4", "-q", str(image))[0] != 0:
        pytest.skip("no mkfs.ext4")
    place = mounted("-o", "loop,errors=remount-ro", str(image))
    device = pathlib.Path(subprocess.run(["findmnt", "-no", "SOURCE", str(place)], capture_output=True, check=True).stdout.decode().strip())
    trigger = pathlib.Path("/sys/fs/ext4") / device.name / "trigger_fs_error"
    if not os.access(trigger, os.W_OK):
        pytest.skip(f"{trigger} cannot be written")
    client = start(boot)
    trigger.write_text("1")
    refuse_everything(client)
    digest, events = client.digest("t"), client.events("t")
    time.sleep(1)
    client.call("GET", "/readyz", expect=503)
    client.server.kill()
    assert client.server.run_to_end()[0] != 0  # it does not serve what it could not write
    assert run("umount", str(place))[0] == 0
    run("e2fsck", "-p", str(image))
    mounted("-o", "loop", str(image))
    client.server.start()
    assert (client.digest("t"), client.events("t")) == (digest, events)
    takes_everything(client)


def test_a_folder_that_was_taken_away_is_noticed_and_may_come_back(boot, tmp_path):
    """SQLite would go on writing into files that have no name any more, and nobody would ever read them again."""
    client = start(boot)
    data = client.server.data
    data.rename(tmp_path / "elsewhere")
    refuse_everything(client)
    data.mkdir()
    (data / "tenants").mkdir()
    refuse_everything(client)  # another folder in its place is not it
    shutil.rmtree(data)
    (tmp_path / "elsewhere").rename(data)
    wait_ready(client)
    takes_everything(client)
    digest = client.digest("t")
    client.server.restart()
    assert client.digest("t") == digest


@pytest.mark.parametrize("victim", ["t.db", "t.db-wal"])
def test_a_file_that_was_removed_or_replaced_is_noticed(boot, victim):
    client = start(boot)
    path = client.server.data / "tenants" / victim
    body = path.read_bytes()
    before = facts(client)
    kept = path.with_name("kept")
    path.rename(kept)
    client.reward("d0", 1, expect=503)
    path.write_bytes(body)  # a copy, as a restored backup would be
    client.reward("d0", 1, expect=503)
    client.call("GET", "/readyz", expect=503)
    path.unlink()
    kept.rename(path)
    wait_ready(client)
    assert facts(client) == before
    assert client.reward("d0", 1) == {"applied": True}


def test_a_snapshot_that_cannot_be_written_keeps_nobody_from_serving(boot):
    server = boot("--snapshot-events", "5")
    client = Client(server, tenant="t")
    blocked = server.data / "tenants" / "t.snapshot.tmp"
    client.put_tenant("t", **TENANT)
    blocked.mkdir()
    for i in range(40):
        client.observe("u", "a", i / 40, context=[i / 40])
    metrics = client.call("GET", "/metrics").text
    failures = [line for line in metrics.splitlines() if line.startswith("laplaced_snapshot_failures_total")]
    assert float(failures[0].split()[1]) > 0, failures
    assert "tenant t: no snapshot" in server.log()
    client.call("GET", "/readyz")
    digest = client.digest("t")
    server.restart()
    assert client.digest("t") == digest
    blocked.rmdir()
    for i in range(10):
        client.observe("u", "a", i / 40, context=[i / 40])
    deadline = time.monotonic() + 60  # it is written beside the traffic
    while not (server.data / "tenants" / "t.snapshot").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (server.data / "tenants" / "t.snapshot").exists()
