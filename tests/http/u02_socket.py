"""A socket that systemd keeps: the server takes it over as descriptor 3, and leaves it to the next one."""
import os
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest
import requests

from contract import ROOT
from harness import Client, Server

# As systemd does: the socket becomes descriptor 3, the process's own number stands beside, then the program is executed.
LAUNCH = """
import os, sys
given = int(sys.argv[1])
if given >= 0 and given != 3:
    os.dup2(given, 3)
    os.close(given)
os.environ["LISTEN_PID"] = str(os.getpid() + int(sys.argv[2]))
os.execv(sys.argv[3], sys.argv[3:])
"""


def listener(family=socket.AF_INET, host="127.0.0.1"):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.bind((host, 0))
    s.listen(4096)
    return s


def handed(folder, given, *args, n="1", is_for_another=False, **options):
    server = Server(folder, *args, env={"LISTEN_FDS": n, "LISTEN_FDNAMES": "laplaced.socket"}, **options)
    command = server.command()
    fd = given if isinstance(given, int) else given.fileno()
    server.inherited = (fd,) if fd >= 0 else ()
    server.command = lambda: ["/usr/bin/python3", "-c", LAUNCH, str(fd), str(int(is_for_another)), *command]
    return server


@pytest.fixture
def starts(tmp_path):
    servers = []

    def start(given, *args, **options):
        servers.append(handed(tmp_path, given, *args, **options))
        return servers[-1].start()
    yield start
    for server in servers:
        server.close()


@pytest.mark.parametrize("family, host, url", [(socket.AF_INET, "127.0.0.1", "http://127.0.0.1:{}"), (socket.AF_INET6, "::1", "http://[::1]:{}")])
def test_the_socket_that_is_handed_over_is_served_and_not_what_listen_says(starts, family, host, url):
    with listener(family, host) as s, listener() as other:
        server = starts(s, listen=f"127.0.0.1:{other.getsockname()[1]}")  # which is in use: to listen there would fail
        assert server.url == url.format(s.getsockname()[1])
        assert Client(server).select("u", candidates=["a"])["arm"] == "a"
        assert f"on {server.url.removeprefix('http://')} with" in server.log()
        assert server.terminate() == 0


def test_a_socket_for_another_process_is_not_ours(starts):
    with listener() as s:
        server = starts(s, is_for_another=True)
        assert server.url != f"http://127.0.0.1:{s.getsockname()[1]}"
        Client(server).select("u", candidates=["a"])


def test_without_a_socket_listen_counts(starts):
    Client(starts(-1, n="0")).select("u", candidates=["a"])


def unbound():
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM)


def datagrams():
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def by_path(folder):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.bind(str(folder / "socket"))
    s.listen(1)
    return s


@pytest.mark.parametrize("what, said", [("unbound", "it does not listen (Accept=no)"), ("datagrams", "it is not one of TCP (ListenStream=HOST:PORT)"),
                                        ("by_path", "it is not one of TCP (ListenStream=HOST:PORT)"), ("file", "Socket operation on non-socket"), ("nothing", "Bad file descriptor")])
def test_what_cannot_be_served_is_said(tmp_path, what, said):
    if what == "nothing":
        status, text = handed(tmp_path, -1).run_to_end()
    else:
        made = {"unbound": unbound, "datagrams": datagrams, "by_path": lambda: by_path(tmp_path), "file": lambda: open(tmp_path / "file", "w")}[what]()
        with made:
            status, text = handed(tmp_path, made).run_to_end()
    assert (status, text) == (2, f"laplaced: the socket that was handed over cannot be served: {said}\n")


@pytest.mark.parametrize("n, said", [("2", "2 sockets were handed over: one is served (a single ListenStream= in laplaced.socket)"), ("many", 'LISTEN_FDS: "many" is no number of sockets'),
                                     ("-1", 'LISTEN_FDS: "-1" is no number of sockets')])
def test_more_than_one_or_no_number_is_said(tmp_path, n, said):
    with listener() as s:
        assert handed(tmp_path, s, n=n).run_to_end() == (2, f"laplaced: {said}\n")


def test_the_rule_of_keys_is_about_the_sockets_address(tmp_path, starts):
    with listener(host="0.0.0.0") as s:
        status, text = handed(tmp_path, s).run_to_end()
        assert status == 2 and f"refusing to listen on 0.0.0.0:{s.getsockname()[1]} without keys" in text
    with listener() as s:
        Client(starts(s, listen="0.0.0.0:1")).select("u", candidates=["a"])


def test_a_reload_moves_no_socket(tmp_path, starts):
    conf = tmp_path / "laplaced.conf"
    conf.write_text("log-level = info\n")
    with listener() as s:
        server = handed(tmp_path, s, "--config", str(conf))
        command = server.command
        server.command = lambda: [c for c in command() if c not in ("--listen", "127.0.0.1:0")]
        try:
            server.start()
            conf.write_text("log-level = debug\nlisten = 0.0.0.0:1\n")
            os.kill(server.pid, 1)
            end = time.monotonic() + 20
            while "read again" not in server.log():
                assert time.monotonic() < end, server.log()
                time.sleep(0.02)
            assert "option=listen" not in server.log() and "option=log-level" in server.log()
            Client(server).select("u", candidates=["a"])
        finally:
            server.close()


class Callers:
    """Each request on a connection of its own, under an id of its own, again until it is acknowledged."""

    def __init__(self, url, n=4):
        self.url, self.acknowledged, self.refused, self.is_over = url, [], 0, threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(k,)) for k in range(n)]
        for thread in self.threads:
            thread.start()

    def work(self, k):
        i = 0
        while not self.is_over.is_set():
            line = {"user": f"u{k}", "arm": "a", "reward": 1, "id": f"line-{k}-{i}"}
            try:
                if requests.post(f"{self.url}/observe", json=line, headers={"Connection": "close"}, timeout=60).status_code == 200:
                    self.acknowledged.append(line["id"])
                    i += 1
            except requests.ConnectionError as fault:
                self.refused += "refused" in str(fault)

    def wait(self, more):
        want, end = len(self.acknowledged) + more, time.monotonic() + 60
        while len(self.acknowledged) < want:
            assert time.monotonic() < end and all(t.is_alive() for t in self.threads)
            time.sleep(0.01)

    def finish(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join()


@pytest.mark.parametrize("is_killed", [False, True], ids=["a drain", "kill -9"])
def test_a_restart_refuses_nobody_and_loses_nothing(starts, is_killed):
    with listener() as s:
        server = starts(s)
        callers = Callers(server.url)
        try:
            for _ in range(3):
                callers.wait(50)
                if is_killed:
                    server.kill()
                else:
                    assert server.terminate() == 0
                time.sleep(0.3)  # they wait in the socket meanwhile
                server.start()
            callers.wait(50)
        finally:
            callers.finish()
        assert callers.refused == 0
        ids = [e["id"] for e in Client(server).events("default") if e["type"] == "observed"]
        assert len(ids) == len(set(ids)) and set(callers.acknowledged) <= set(ids)


def test_the_unit_is_valid_and_as_the_server_is_by_itself(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here (sh tools/setup.sh --lint)")
    text = (ROOT / "deploy/laplaced.socket").read_text()
    (tmp_path / "laplaced.socket").write_text(text)
    (tmp_path / "laplaced.service").write_text((ROOT / "deploy/laplaced.service").read_text().replace("ExecStart=/usr/local/bin/laplaced", "ExecStart=/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", tmp_path / "laplaced.socket"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "laplaced" not in done.stdout + done.stderr, done.stdout + done.stderr
    preset = re.search(r'\{"listen", "HOST:PORT", LD_OPTION_ADDRESS, [^"]*"([^"]*)"', (ROOT / "server/app/option_table.c").read_text())[1]
    assert re.findall("^ListenStream=(.*)$", text, re.M) == [preset] and "Accept=" not in text
