"""What systemd hears: a socket of the test's own stands in for the manager's."""
import concurrent.futures
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from contract import ROOT
from e20_sigterm import Endless
from harness import IS_SANITIZED, Client, Server

UNIT = ROOT / "deploy" / "laplaced.service"


class Manager:
    """Collects messages as (pid of the sender, {NAME: value})."""

    def __init__(self, address):
        self.messages, self.lock, self.address = [], threading.Lock(), address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind("\0" + address[1:] if address[0] == "@" else address)
        self.thread = threading.Thread(target=self.receive, daemon=True)
        self.thread.start()

    def receive(self):
        while True:
            data, control, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(12))
            if data == b"end":
                return
            pid = struct.unpack("3i", control[0][2])[0]
            with self.lock:
                self.messages.append((pid, dict(line.split("=", 1) for line in data.decode().splitlines())))

    def close(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(b"end", self.socket.getsockname())
        self.thread.join()
        self.socket.close()

    def all(self, name):
        with self.lock:
            return [m[name] for _, m in self.messages if name in m]

    def names(self):
        """The stages in their order."""
        stages = ("RELOADING", "READY", "STOPPING")
        with self.lock:
            return [name for _, m in self.messages for name in stages if name in m]

    def wait(self, name, n=1, seconds=30):
        end = time.monotonic() + seconds
        while len(self.all(name)) < n:
            assert time.monotonic() < end, (name, n, self.messages[-5:])
            time.sleep(0.01)


@pytest.fixture
def manager(tmp_path):
    one = Manager(f"@laplaced-test-{os.getpid()}-{tmp_path.name}")
    yield one
    one.close()


def under(server, manager, watchdog_us=None, pid="$$"):
    """As systemd starts it: WATCHDOG_PID is the process's own."""
    command = server.command()
    server.env["NOTIFY_SOCKET"] = manager.address
    if watchdog_us is not None:
        server.env["WATCHDOG_USEC"] = str(watchdog_us)
        server.command = lambda: ["/bin/sh", "-c", f'WATCHDOG_PID={pid} exec "$@"', "sh", *command]
    return server


@pytest.fixture
def supervised(tmp_path, manager):
    servers = []

    def start(*args, env=None, **options):
        server = under(Server(tmp_path, *args, env=env), manager, **options)
        servers.append(server)
        return server
    yield start
    for server in servers:
        server.close()


@pytest.mark.parametrize("is_abstract", [False, True])
def test_stages_are_told_in_order_by_the_process_itself(tmp_path, is_abstract):
    manager = Manager(f"@laplaced-order-{os.getpid()}" if is_abstract else str(tmp_path / "notify"))
    server = under(Server(tmp_path), manager, watchdog_us=60_000_000)
    try:
        server.start()
        manager.wait("READY")
        Client(server).select("u", candidates=["a"])
        server.process.send_signal(signal.SIGHUP)
        manager.wait("READY", 2)
        assert server.terminate() == 0
        assert manager.names() == ["READY", "RELOADING", "READY", "STOPPING"]
        # The program may have run itself again for better kernels: it is the same process, and the watchdog's.
        assert {pid for pid, _ in manager.messages} == {server.pid}
        assert manager.all("STATUS")[0].startswith("serving on 127.0.0.1:")
        assert int(manager.all("MONOTONIC_USEC")[0]) <= time.monotonic() * 1e6
        assert "draining: 0 requests in flight" in manager.all("STATUS") and manager.all("WATCHDOG")
        assert manager.all("STATUS")[-1] == "writing snapshots"
    finally:
        server.close()
        manager.close()


def test_ready_comes_after_recovery_and_a_fold_that_stands_still_gets_no_more_time(supervised, manager, tmp_path):
    gate = tmp_path / "gate"
    server = supervised()
    server.start()
    for i in range(20):
        Client(server).observe(f"u{i}", "a", 1)
    server.kill()
    manager.messages.clear()
    gate.touch()
    server.args, server.env = [], {**server.env, "LAPLACED_FAILPOINT": f"mid_recovery@{gate}", "LAPLACED_OPEN_ALL": "true"}
    server.launch()
    manager.wait("STATUS")
    time.sleep(2.5)
    server.process.send_signal(signal.SIGHUP)  # no READY comes of it
    time.sleep(0.5)
    assert manager.names() == [] and manager.all("STATUS") == ["recovering"]
    assert [int(us) > 0 for us in manager.all("EXTEND_TIMEOUT_USEC")] == [True]
    gate.unlink()
    server.greeted()
    manager.wait("READY")
    assert manager.names() == ["READY"] and "read again" in server.log()


def test_a_long_recovery_asks_for_time_while_it_moves(supervised, manager, tmp_path):
    gate = tmp_path / "gate"
    server = supervised()
    server.start()
    client = Client(server)
    for k in range(6):
        client.put_tenant(f"t{k}", algorithm="ucb")
    server.kill()
    manager.messages.clear()
    server.env = {**server.env, "LAPLACED_FAILPOINT": f"mid_recovery@{gate}", "LAPLACED_OPEN_ALL": "true"}
    gate.touch()
    server.launch()
    manager.wait("STATUS")
    for _ in range(200):  # a line or so at a time
        gate.unlink()
        time.sleep(0.0005)
        gate.touch()
        time.sleep(0.3)
        if len(manager.all("EXTEND_TIMEOUT_USEC")) >= 2 or manager.all("READY"):
            break
    gate.unlink()
    server.greeted()
    manager.wait("READY")
    told = [s for s in manager.all("STATUS") if re.fullmatch(r"recovering: \d of 7 tenants, \d+ events", s)]
    if not told:
        pytest.skip("the recovery was over within a second")
    assert len(manager.all("EXTEND_TIMEOUT_USEC")) == 1 + len(told)


def test_a_drain_tells_what_it_waits_for_and_asks_for_its_time(supervised, manager):
    server = supervised("--drain-timeout", "4")
    server.start()
    with Endless(server):
        assert server.terminate(timeout=60) == 0
    told = [s for s in manager.all("STATUS") if s.startswith("draining")]
    assert told[0] == "draining: 1 requests in flight" and len(told) >= 3
    asked = [int(us) for us in manager.all("EXTEND_TIMEOUT_USEC")]
    draining = asked[:len(told)]
    # The first is what the drain takes at most, and the others what is left of it: the end does not move.
    assert draining[0] >= 4_000_000 and all(a > b for a, b in zip(draining, draining[1:]))


def pings(manager, seconds):
    before = len(manager.all("WATCHDOG"))
    time.sleep(seconds)
    return len(manager.all("WATCHDOG")) - before


def test_the_watchdog_is_fed_while_the_server_moves(supervised, manager, tmp_path):
    gate = tmp_path / "gate"
    server = supervised("--stuck-after", "1", env={"LAPLACED_FAILPOINT": f"before_append@{gate}"}, watchdog_us=1_200_000)
    server.start()
    client = Client(server)
    client.select("u", candidates=["a"])
    assert pings(manager, 3) >= 3  # at least one for each interval
    gate.touch()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waits = pool.submit(Client(server).select, "u", candidates=["a"], decision="late")
        time.sleep(2.5)
        assert pings(manager, 3) == 0  # systemd would end it now
        gate.unlink()
        assert waits.result()["decision"] == "late"
    time.sleep(1)
    assert pings(manager, 3) >= 3


def test_the_watchdog_starves_when_the_loop_hangs(supervised, manager, tmp_path):
    gate = tmp_path / "gate"
    server = supervised("--stuck-after", "1", env={"LAPLACED_FAILPOINT": f"in_tick@{gate}"}, watchdog_us=1_200_000)
    server.start()
    assert pings(manager, 2) >= 2
    gate.touch()
    time.sleep(1)
    assert pings(manager, 2) == 0
    gate.unlink()
    assert pings(manager, 3) >= 2


def test_a_failing_disk_does_not_starve_the_watchdog(supervised, manager):
    server = supervised("--stuck-after", "1", watchdog_us=1_200_000)
    server.start()
    client = Client(server)
    client.select("u", candidates=["a"])
    server.fill_disk()
    client.select("u", candidates=["a"], expect=503)
    time.sleep(1.5)
    client.call("GET", "/readyz", expect=503)
    assert pings(manager, 3) >= 3
    server.fill_disk(False)


def test_a_watchdog_of_another_process_is_not_ours_to_feed(supervised, manager):
    supervised(watchdog_us=400_000, pid="1").start()
    manager.wait("READY")
    assert pings(manager, 1.5) == 0


@pytest.mark.parametrize("address", ["", "relative", "/nonexistent/socket", "@", "/" + "x" * 200, "@nobody-listens-here"])
def test_without_a_manager_it_serves_all_the_same(boot, address):
    server = boot(env={"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "nonsense"})
    Client(server).select("u", candidates=["a"])
    assert server.terminate() == 0


# --- the unit --------------------------------------------------------------------------------------------------------


def analyze(*arguments):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here (sh tools/setup.sh --lint)")
    done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_the_unit_is_valid(tmp_path):
    """The binary is looked for, so the copy names one that is there."""
    copy = tmp_path / "laplaced.service"
    copy.write_text(UNIT.read_text().replace("ExecStart=/usr/local/bin/laplaced", "ExecStart=/bin/true"))
    status, said = analyze("verify", "--man=no", "--recursive-errors=no", str(copy))
    assert status == 0 and str(copy) not in said and "laplaced.service" not in said, said


def test_the_unit_is_as_closed_as_its_document_says():
    status, said = analyze("security", "--offline=true", str(UNIT))
    score = re.search(r"exposure level for laplaced.service: ([0-9.]+)", said).group(1)
    quoted = re.search(r"`systemd-analyze security` gives the unit ([0-9]+[.][0-9])", (ROOT / "docs/OPERATIONS.md").read_text()).group(1)
    assert status == 0 and score == quoted, said
    assert analyze("security", "--offline=true", f"--threshold={int(float(quoted) * 10)}", str(UNIT))[0] == 0


def test_the_unit_and_the_server_agree():
    unit = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if re.match(r"[A-Z]\w+=", line))
    assert unit["Type"] == "notify" and unit["ExecReload"] == '/bin/sh -c "kill -HUP ${MAINPID}"' and int(unit["WatchdogSec"]) > 60
    # Its patience is longer than the drain's, and a recovery asks for more as it goes.
    assert int(unit["TimeoutStopSec"]) > 30 and "TimeoutStartSec" in unit


def live(server, pid):
    """A busy life, to its end; the exit status."""
    client = Client(server)
    client.put_tenant("t", algorithm="laplaced-kors")
    client.put_graph("t", [["u", "v", 1]])
    for i in range(20):
        client.observe(f"u{i}", f"a{i % 3}", 0.5, tenant="t")
    client.call("POST", "/tenants/t/rebuild", expect=(200, 202))
    client.wait_rebuilt("t")
    log = client.call("GET", "/tenants/t/export").content
    client.call("POST", "/tenants/s/import", raw=log, kind="application/x-ndjson", expect=201)
    client.call("POST", "/tenants/t/snapshot")
    client.verify("t")
    client.call("GET", "/metrics")
    client.call("DELETE", "/tenants/s", expect=204)
    os.kill(pid, signal.SIGHUP)
    while "read again" not in server.log():
        time.sleep(0.02)
    os.kill(pid, signal.SIGTERM)
    return server._reap(60)


@pytest.mark.skipif(IS_SANITIZED, reason="ptrace and a sanitizer do not go together")
def test_the_server_needs_no_system_call_that_the_unit_forbids(tmp_path):
    """Everything it calls in a busy life is in the sets that the unit allows, and nothing is made executable."""
    if shutil.which("strace") is None:
        pytest.skip("no strace here (sh tools/setup.sh --lint)")
    trace = tmp_path / "trace"
    server = Server(tmp_path)
    command = server.command()
    server.command = lambda: ["strace", "-f", "-qq", "-e", "signal=none", "-o", str(trace), *command]
    probe = subprocess.run(["strace", "-o", str(tmp_path / "probe"), "/bin/true"], capture_output=True)
    if probe.returncode != 0:
        pytest.skip(f"strace cannot trace here: {probe.stderr.decode()}")
    server.start()
    pid = int(re.search(r"^(\d+)", trace.read_text()).group(1))
    assert live(server, pid) == 0
    text = trace.read_text()
    called = set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)", text, re.M))
    if os.geteuid() == 0:
        called -= {"fchown"}  # SQLite gives a new file to the owner of the database, when it is root
    assert {"execve", "openat", "fdatasync", "epoll_wait"} <= called or len(called) > 30
    assert called <= allowed_calls(), sorted(called - allowed_calls())
    # MemoryDenyWriteExecute: no mapping is writable and executable, none becomes executable.
    assert re.findall(r"mmap\([^)]*PROT_WRITE\|PROT_EXEC[^)]*\)", text) == []
    assert re.findall(r"mprotect\([^)]*PROT_EXEC[^)]*\)", text) == []


def calls_of(name):
    done = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True).stdout
    out = set()
    for line in done.splitlines()[1:]:
        word = line.strip()
        if word.startswith("@"):
            out |= calls_of(word)
        elif word and not word.startswith("#"):
            out.add(word)
    return out


def allowed_calls():
    """By the SystemCallFilter= lines of the unit, in their order."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here (sh tools/setup.sh --lint)")
    allowed = set()
    for line in UNIT.read_text().splitlines():
        if line.startswith("SystemCallFilter="):
            words = line.split("=", 1)[1]
            sets = set().union(*(calls_of(w) if w[0] == "@" else {w} for w in words.lstrip("~").split()))
            allowed = allowed - sets if words[0] == "~" else allowed | sets
    return allowed | {"arch_prctl", "rseq", "set_robust_list", "exit_group", "exit"}


# Without the privilege to write and execute, to gain privileges, to leave a core; in a /proc of processes alone.
CONFINED = """
import ctypes, os, resource, sys
libc = ctypes.CDLL(None, use_errno=True)
def prctl(*args):
    if libc.prctl(*args, 0, 0) != 0:
        sys.exit("prctl: " + os.strerror(ctypes.get_errno()))
prctl(65, 1, 0)  # PR_SET_MDWE: nothing that was writable is ever executed
prctl(38, 1, 0)  # PR_SET_NO_NEW_PRIVS
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.skipif(IS_SANITIZED, reason="a sanitizer wants more of /proc")
def test_the_server_lives_under_what_this_machine_can_enforce_of_the_unit(tmp_path):
    server = Server(tmp_path)
    command = server.command()
    proc = "mount -t proc -o hidepid=invisible,subset=pid proc /proc && umask 077 && exec"
    probe = subprocess.run(["unshare", "-m", "sh", "-c", f'{proc} "$@"', "sh", "/usr/bin/python3", "-c", CONFINED, "/bin/true"],
                           capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(f"not here: {probe.stderr}")
    server.command = lambda: ["unshare", "-m", "sh", "-c", f'{proc} "$@"', "sh", "/usr/bin/python3", "-c", CONFINED, *command]
    server.start()
    assert not os.path.exists(f"/proc/{server.pid}/root/proc/meminfo")
    assert live(server, server.pid) == 0
    # Told as on any machine: the program finds itself to be run again, and what /metrics wants.
    assert "cannot be run again" not in server.log()
