"""Files from strangers (hostile.py), through the import and laid into the data folder: each is refused with what was found,
runs nothing, takes bounded time, and leaves nothing; others are served meanwhile, and the server can be ended at any time."""
import hashlib
import os
import shutil
import stat
import subprocess
import threading
import time
from contextlib import closing, contextmanager

import pytest
import requests

import hostile
from harness import CTL, IS_SANITIZED, Client, Server, tenant_path
from k00_moves import SQLITE, copy, export, fill, impatient, restore, spooled, take_in

PATIENCE_S = 120 if IS_SANITIZED else 40  # of whoever waits; a refusal takes milliseconds, the longest ones a second or two
EVIL = {**hostile.FILES, **hostile.LINES}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A whole file, its export's digest, and where it lies."""
    running = Server(tmp_path_factory.mktemp("good")).start()
    with closing(running):
        client = Client(running)
        fill(client, "good", n=60)
        for i in range(200):
            client.observe(f"u{i % 9}", {"id": "a1", "features": [0.3]}, i % 2, context=[0.01 * i], tenant="good")
        path = running.folder / "good.db"
        path.write_bytes(copy(client, "good").content)
        return path, client.digest("good")


def fingerprint(path):
    """What stands in the folder under that name, but for the index of a write-ahead log, which holds nothing of its own."""
    out = {}
    for p in sorted(path.parent.glob(path.name + "*")):
        if not p.name.endswith("-shm") or p.is_symlink():
            kind = stat.S_IFMT(p.lstat().st_mode)
            is_read = kind == stat.S_IFREG and p.stat().st_size < 1 << 30
            out[p.name] = (kind, hashlib.sha256(p.read_bytes()).hexdigest() if is_read else None)
    return out


@contextmanager
def others_served(server, tenant="other"):
    """Another tenant decides and acknowledges all the while, and no answer is late."""
    client, over, faults, slowest = Client(server, tenant=tenant), threading.Event(), [], [0.0]

    def work():
        try:
            for i in range(100000):
                if over.is_set():
                    return
                started = time.monotonic()
                decision = client.select("u", candidates=["a", "b"])["decision"]
                assert client.reward(decision, 1) == {"applied": True}
                slowest[0] = max(slowest[0], time.monotonic() - started)
        except Exception as fault:  # noqa: BLE001
            faults.append(fault)
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not faults and slowest[0] < PATIENCE_S / 4, (faults, slowest)


@pytest.fixture(scope="module")
def host(server):
    Client(server).put_tenant("other", algorithm="ucb")
    return server


# --- by the import ----------------------------------------------------------------------------------------


def put(server, name, body):
    answer = requests.put(server.url + tenant_path(name, "snapshot"), data=body, headers={"Content-Type": SQLITE}, timeout=PATIENCE_S)
    return answer.status_code, answer.json()


@pytest.mark.parametrize("kind", EVIL)
def test_what_is_brought_in_is_refused_and_leaves_nothing(host, api, good, tmp_path, kind):
    spoil, says = EVIL[kind]
    path = tmp_path / "evil.db"
    hostile.make(good[0], path, spoil)
    with others_served(host):
        status, problem = put(host, kind, path.read_bytes())
    assert status == 400 and says in problem["detail"], problem
    api.call("GET", tenant_path(kind), expect=404)
    assert spooled(host) == [] and not list((host.data / "tenants").glob(kind + "*"))


@pytest.mark.parametrize("kind", hostile.HARMLESS)
def test_what_is_only_written_otherwise_is_taken(host, api, good, tmp_path, kind):
    path = tmp_path / "other.db"
    hostile.make(good[0], path, hostile.HARMLESS[kind])
    status, restored = put(host, kind, path.read_bytes())
    assert status == 201 and restored["digest"] == good[1]
    for i in range(30):
        api.observe("u1", {"id": "a2", "features": [0.6]}, 1, context=[0.1 * i], tenant=kind)
    assert restore(api, kind + "-again", copy(api, kind).content).json["digest"] == api.digest(kind)


def test_files_that_never_end_take_nobody_the_threads_of_copies(host, api, good, tmp_path):
    """As many at once as there are threads for them, and more."""
    path = tmp_path / "evil.db"
    hostile.make(good[0], path, hostile.endless_schema)
    body, answers = path.read_bytes(), []
    threads = [threading.Thread(target=lambda i=i: answers.append(put(host, f"endless{i}", body)[0])) for i in range(4)]
    with others_served(host):
        for thread in threads:
            thread.start()
        started = time.monotonic()
        export(api, "other")
        assert time.monotonic() - started < PATIENCE_S
        for thread in threads:
            thread.join()
    assert answers == [400] * 4 and spooled(host) == []


def test_a_stop_ends_the_look_at_a_file(boot, good, tmp_path):
    path = tmp_path / "evil.db"
    hostile.make(good[0], path, hostile.endless_schema)
    body = path.read_bytes() + bytes(64 << 20)  # behind the pages that count: only the size asks for patience
    server, answers = boot(), []

    def bring(i):
        try:
            answers.append(put(server, f"t{i}", body)[0])
        except requests.ConnectionError:
            answers.append(503)  # the stop was quicker than the body
    threads = [threading.Thread(target=bring, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + PATIENCE_S
    while len(spooled(server)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.5)
    started = time.monotonic()
    assert server.terminate(PATIENCE_S) == 0
    assert time.monotonic() - started < PATIENCE_S / 4
    for thread in threads:
        thread.join()
    assert set(answers) <= {400, 503}, answers


# --- laid into the folder -----------------------------------------------------------------------------------


def lay(good, folder, kinds):
    for kind, spoil in kinds.items():
        hostile.make(good, folder / f"{kind}.db", spoil)


LAID_EVIL = {kind: spoil for kind, (spoil, _) in {**hostile.FILES, **hostile.LAID}.items()}
UNREAD = ("freelist", "stale-index")  # found where a file comes in, not at each opening
LAID_GOOD = {**hostile.HARMLESS, **hostile.LAID_HARMLESS}
SAYS = {kind: says for kind, (_, says) in {**hostile.FILES, **hostile.LAID, **hostile.LINES}.items()}


def stopped(boot, *args):
    """A folder with a tenant `other`, whose server has been ended."""
    server = boot(*args)
    Client(server).put_tenant("other", algorithm="ucb")
    assert server.terminate() == 0
    return server, server.data / "tenants"


def names(client):
    return {t["name"]: t for t in client.call("GET", "/tenants").json["tenants"]}


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("args", [(), ("--open-all",)], ids=["lazily", "open-all"])
def test_what_was_laid_into_the_folder_is_not_taken_in(boot, good, args, part):
    """In two parts: of one kind of line the server logs fifty a second and counts the others."""
    server, folder = stopped(boot, *args)
    evil = dict(list(LAID_EVIL.items())[part::2])
    lay(good[0], folder, {**evil, **LAID_GOOD})
    before = {kind: fingerprint(folder / f"{kind}.db") for kind in evil}
    started = time.monotonic()
    server.start()
    assert time.monotonic() - started < PATIENCE_S
    client = Client(server)
    with others_served(server):
        assert set(names(client)) == {"default", "other", *LAID_GOOD}
        for kind in LAID_GOOD:
            assert client.digest(kind) == good[1], kind
        for kind in evil:
            client.call("GET", tenant_path(kind), expect=404)
    log = server.log().splitlines()
    for kind in evil:
        told = [line for line in log if f"tenant {kind} is not registered and cannot be taken in" in line]
        assert len(told) == 1 and SAYS[kind] in told[0].replace('\\"', '"'), (kind, told)
    assert server.terminate() == 0
    assert {kind: fingerprint(folder / f"{kind}.db") for kind in evil} == before
    assert os.stat("/etc/hostname").st_size > 0


def test_a_snapshot_that_was_laid_beside_a_file_vouches_for_nothing(boot, good):
    """Of a tenant whose columns told of another configuration a start with its snapshot served one of zeros."""
    server, folder = registered(boot, good, ["honest"])
    server.start()
    Client(server).observe("u1", {"id": "a1", "features": [0.3]}, 1, context=[0.5], tenant="honest")
    whole = Client(server).digest("honest")
    assert server.terminate() == 0 and (folder / "honest.snapshot").exists()
    kinds = [kind for kind in hostile.LINES if kind.startswith("columns")]
    for kind in kinds:
        shutil.copy(folder / "honest.db", folder / f"{kind}.db")
        shutil.copy(folder / "honest.snapshot", folder / f"{kind}.snapshot")
        hostile.LINES[kind][0](folder / f"{kind}.db")
    server.start()
    client = Client(server)
    with others_served(server):
        assert client.digest("honest") == whole
        for kind in kinds:
            detail = client.call("GET", tenant_path(kind), expect=500).json["detail"]
            assert "columns" in detail and "event" in detail, (kind, detail)
    assert server.terminate() == 0


def test_a_stop_ends_a_start_that_looks_at_files(boot, good):
    server, folder = stopped(boot)
    for i in range(2):
        path = folder / f"endless{i}.db"
        hostile.make(good[0], path, hostile.endless_schema)
        with open(path, "ab") as file:
            file.write(bytes(64 << 20))
    server.launch()
    time.sleep(1.5)
    started = time.monotonic()
    assert server.terminate(PATIENCE_S) == 0
    assert time.monotonic() - started < PATIENCE_S / 4
    assert "cannot be taken in" not in server.log()


def registered(boot, good, kinds):
    """Tenants of these names, all of them the good file; stopped."""
    server, folder = stopped(boot)
    lay(good[0], folder, dict.fromkeys(kinds, lambda path: None))
    server.start()
    assert set(kinds) <= set(names(Client(server)))
    assert server.terminate() == 0
    return server, folder


def test_a_tenant_whose_file_was_exchanged_fails_alone_at_its_first_request(boot, good):
    kinds = {**LAID_EVIL, **{kind: spoil for kind, (spoil, _) in hostile.LINES.items()}}
    kinds = {kind: spoil for kind, spoil in kinds.items() if kind not in UNREAD}
    server, folder = registered(boot, good, kinds)
    for kind in kinds:
        for rest in folder.glob(f"{kind}.*"):
            rest.unlink()
    lay(good[0], folder, kinds)
    before = {kind: fingerprint(folder / f"{kind}.db") for kind in LAID_EVIL if kind in kinds}
    server.start()
    client = Client(server)
    with others_served(server):
        for kind in kinds:
            # Where a link leads nowhere there is no file at all; the others say what they are.
            problem = client.call("GET", tenant_path(kind), expect=(500, 503)).json
            assert problem["status"] == (503 if kind == "dangling-link" else 500), problem
            assert kind == "dangling-link" or kind in hostile.LINES or SAYS[kind] in problem["detail"], problem
        assert {t["name"] for t in names(client).values() if t["state"] == "failed"} == set(kinds)
    assert server.terminate() == 0
    assert {kind: fingerprint(folder / f"{kind}.db") for kind in before} == before


@pytest.mark.parametrize("kind", ["hidden-trigger", "endless-view", "endless-schema", "pipe", "hot-journal"])
def test_a_start_that_opens_all_says_which_file_it_is(boot, good, kind):
    server, folder = registered(boot, good, [kind])
    (folder / f"{kind}.db").unlink()
    lay(good[0], folder, {kind: LAID_EVIL[kind]})
    server.args = ["--open-all"]
    status, stderr = server.run_to_end(PATIENCE_S)
    assert status == 1 and f"{kind}.db" in stderr and SAYS[kind] in stderr.replace('\\"', '"'), (status, stderr)


def test_the_offline_check_says_which_files_are_not_ours(boot, good):
    server, folder = stopped(boot)
    kinds = {kind: spoil for kind, spoil in LAID_EVIL.items() if kind not in UNREAD}
    lay(good[0], folder, kinds)
    before = {kind: fingerprint(folder / f"{kind}.db") for kind in kinds}
    done = subprocess.run([CTL, "verify", "--data", str(server.data)], capture_output=True, timeout=PATIENCE_S)
    told = done.stderr.decode().splitlines()
    assert done.returncode == 1
    for kind in kinds:
        assert any(f"/{kind}.db" in line and SAYS[kind] in line for line in told), (kind, told)
    assert {kind: fingerprint(folder / f"{kind}.db") for kind in kinds} == before


def test_a_registry_of_somebody_else_refuses_the_start(boot):
    server, _ = stopped(boot)
    path = server.data / "registry.db"
    kept = path.with_name("kept")
    shutil.copy(path, kept)
    for spoil, says in ((lambda p: hostile.hidden_trigger(p, "DELETE FROM keys", "AFTER INSERT ON tenants"), 'trigger "sqlite_t" on "tenants"'),
                        (lambda p: hostile.change(p, "DROP TRIGGER a_tenant_takes_its_keys_along"), "missing is trigger"),
                        (lambda p: hostile.change(p, f"CREATE VIEW more AS {hostile.ENDLESS} SELECT n FROM c"), 'view "more"'),
                        (lambda p: hostile.in_place(p, os.mkfifo), "a pipe, not a file")):
        spoil(path)
        status, stderr = server.run_to_end(PATIENCE_S)
        assert status == 1 and "registry.db" in stderr and says in stderr.replace('\\"', '"'), (status, stderr)
        path.unlink()
        shutil.copy(kept, path)
    server.start()
    assert "other" in names(Client(server))


# --- who may read ----------------------------------------------------------------------------------------------


def modes(server):
    """What others may do with anything in the folder: nothing."""
    found = {}
    for path in [server.data, *server.data.rglob("*")]:
        try:
            found[str(path.relative_to(server.data))] = path.lstat().st_mode
        except FileNotFoundError:
            pass  # it was a moment's
    return {name: oct(mode) for name, mode in found.items() if mode & 0o077}, set(found)


def traffic(server):
    """Whatever makes files: every kind of them must have been seen."""
    client = impatient(server)
    fill(client, "t", n=30)
    client.call("POST", "/tenants/t/compact", {"keep_events": 5})
    restore(client, "r", copy(client, "t").content)
    take_in(client, "i", export(client, "r").content)
    client.put_tenant("gone", algorithm="ucb")
    client.call("DELETE", "/tenants/gone", expect=204)


def test_every_file_is_its_owners_alone(boot, tmp_path):
    """Whatever the umask says, at every moment; and files of before become so."""
    before = os.umask(0)
    try:
        server = boot("--snapshot-events", "5")
    finally:
        os.umask(before)
    over, seen, open_to_others = threading.Event(), set(), {}

    def look():
        while not over.is_set():
            faults, found = modes(server)
            open_to_others.update(faults)
            seen.update(found)
    thread = threading.Thread(target=look)
    thread.start()
    try:
        traffic(server)
    finally:
        over.set()
        thread.join()
    assert open_to_others == {}
    assert {"lock", "registry.db", "registry.db-wal", "registry.db-shm", "tenants/t.db", "tenants/t.db-wal", "tenants/t.db-shm",
            "tenants/t.snapshot", "spool"} <= seen and any(name.startswith("spool/") for name in seen), seen
    digest = Client(server).digest("t")
    server.kill()
    for path in server.data.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    os.umask(0)
    try:
        server.start()
    finally:
        os.umask(before)
    client = Client(server)
    for tenant in ("t", "r", "i", "default"):
        client.digest(tenant)
    assert client.digest("t") == digest
    assert modes(server)[0] == {}
    assert server.terminate() == 0
