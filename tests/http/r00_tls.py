"""TLS: who is let in and how, certificates renewed under traffic, and all that a plain server does with connections: waiting
for commits, pipelines, long bodies both ways, clients that stall or vanish, the drain."""
import calendar
import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

import prometheus_text
from certs import Authority, Pair, openssl
from contract import NDJSON
from harness import BIN, CTL, Client, run_ctl


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pairs(authority):
    """Two to go from one to the other, of either kind of key."""
    return authority.pair("first"), authority.pair("second", "rsa")


@pytest.fixture
def files(tmp_path, authority, pairs):
    return Pair(tmp_path, authority).write(pairs[0])


@pytest.fixture
def tls(boot, files, authority):
    def start(*args, **options):
        return boot(*files.options, *args, cacert=authority.root, **options)
    return start


def connect(server, change=None, **options):
    """A raw TLS connection that verifies the server; `change` may turn the context into a lesser one."""
    context = ssl.create_default_context(cafile=server.cacert)
    if change is not None:
        change(context)
    plain = dial(server, **options)
    try:
        return context.wrap_socket(plain, server_hostname="localhost")
    except BaseException:
        plain.close()
        raise


def dial(server, receive_buffer=None):
    s = socket.socket()
    s.settimeout(60)
    if receive_buffer is not None:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    s.connect(("127.0.0.1", int(server.url.rsplit(":", 1)[1])))
    return s


def request(method, path, body=b"", tenant="default", kind="application/json"):
    return (f"{method} {path} HTTP/1.1\r\nHost: x\r\nLaplaced-Tenant: {tenant}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def read_answer(stream):
    """(status, body) of one answer from the connection's file."""
    status = int(stream.readline().split()[1])
    length = 0
    while (line := stream.readline().strip()):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    body = stream.read(length)
    assert len(body) == length
    return status, body


def is_alive(connection):
    connection.sendall(request("GET", "/healthz"))
    with connection.makefile("rb") as stream:
        return read_answer(stream)[0] == 200


def serial(connection):
    return connection.getpeercert()["serialNumber"]


def in_force(server):
    with connect(server) as c:
        return serial(c)


def expiry(api):
    return prometheus_text.value(prometheus_text.parse(api.call("GET", "/metrics").text),
                                 "laplaced_tls_certificate_expiry_timestamp_seconds")


def date_of(path):
    text = openssl("x509", "-in", path, "-noout", "-enddate").strip().partition("=")[2]
    return calendar.timegm(time.strptime(text, "%b %d %H:%M:%S %Y GMT"))


def wait_for(what, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if what():
            return
        time.sleep(0.02)
    raise AssertionError("waited in vain")


# --- who is let in ------------------------------------------------------------------------------------------


def test_everything_goes_over_tls_with_the_chain(tls, files, authority):
    server = tls()
    api = Client(server)
    assert server.url.startswith("https://")
    api.put_tenant("shop")
    chosen = api.select("ann", candidates=["a", "b"], decision="d1", tenant="shop")
    api.reward(chosen["decision"], 1, tenant="shop")
    assert api.stats("shop")["decisions"] == 1
    assert expiry(api) == date_of(files.cert)
    assert server.terminate() == 0


def test_without_tls_there_is_no_such_metric(api):
    assert "tls_certificate" not in api.call("GET", "/metrics").text


def test_who_does_not_trust_the_authority_is_not_talked_to(tls, authority, tmp_path_factory):
    server = tls()
    server.cacert = str(Authority(tmp_path_factory.mktemp("other")).root)
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(server)


def offering(low, high, ciphers="ALL:@SECLEVEL=0"):
    def change(context):
        context.set_ciphers(ciphers)
        context.minimum_version, context.maximum_version = low, high
    return change


V = ssl.TLSVersion


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_versions_from_1_2_on_are_spoken(tls):
    server = tls()
    for old in (V.TLSv1, V.TLSv1_1):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            connect(server, offering(old, old))
    for new, name in ((V.TLSv1_2, "TLSv1.2"), (V.TLSv1_3, "TLSv1.3")):
        with connect(server, offering(new, new)) as c:
            assert c.version() == name
            assert is_alive(c)
    with connect(server, offering(V.TLSv1, V.TLSv1_3)) as c:
        assert c.version() == "TLSv1.3"


@pytest.mark.parametrize("weak", ["ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES128-SHA256", "AES128-GCM-SHA256", "DHE-RSA-AES128-GCM-SHA256"])
def test_weak_suites_are_refused(tls, files, pairs, weak):
    files.write(pairs[0 if "ECDSA" in weak else 1])
    server = tls()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(server, offering(V.TLSv1_2, V.TLSv1_2, weak + ":@SECLEVEL=0"))
    sound = "ECDHE-ECDSA-AES128-GCM-SHA256" if "ECDSA" in weak else "ECDHE-RSA-AES128-GCM-SHA256"
    with connect(server, offering(V.TLSv1_2, V.TLSv1_2, sound)) as c:
        assert is_alive(c)


def test_plain_http_on_the_tls_port_gets_no_answer(tls):
    server = tls()
    with dial(server) as s:
        s.sendall(request("GET", "/healthz"))
        try:
            assert b"HTTP/" not in s.recv(65536)
        except ConnectionError:
            pass
    with connect(server) as c:
        assert is_alive(c)


def test_one_connection_too_many_is_refused_before_its_handshake(tls):
    """All have a request under way, so that none gives way."""
    server = tls("--max-connections", "4")
    taken = [connect(server) for _ in range(4)]
    for c in taken:
        c.sendall(request("POST", "/select", b"x" * 20)[:-5])
    time.sleep(1)  # until each is known to be reading a body
    with pytest.raises((ssl.SSLError, OSError)):
        connect(server)
    taken.pop().close()
    wait_for(lambda: can_connect(server))
    for c in taken:
        c.close()
    assert server.terminate() == 0


def can_connect(server):
    try:
        with connect(server) as c:
            return is_alive(c)
    except OSError:
        return False


def cpu_s(server):
    fields = open(f"/proc/{server.process.pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def half_greeting(context):
    """What a client sends first, as bytes."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def test_handshakes_that_stall_cost_nothing_and_end(tls):
    """Some say nothing, some half a greeting, some all of it and then no more."""
    server = tls("--header-timeout", "3")
    greeting = half_greeting(ssl.create_default_context(cafile=server.cacert))
    stalled = [dial(server) for _ in range(24)]
    for i, s in enumerate(stalled):
        s.sendall((b"", greeting[:5], greeting[:60], greeting)[i % 4])
    with connect(server) as c:
        assert is_alive(c)
        before, began = cpu_s(server), time.monotonic()
        time.sleep(1)
        assert cpu_s(server) - before < 0.5 * (time.monotonic() - began)
        assert is_alive(c)
    for s in stalled:
        with s:
            try:
                while s.recv(65536):
                    pass
            except ConnectionError:
                pass


# --- renewal ------------------------------------------------------------------------------------------------


def hang_up(server):
    server.process.send_signal(signal.SIGHUP)


def test_a_reload_shows_new_connections_the_new_certificate(tls, files, pairs):
    server = tls()
    api = Client(server)
    with connect(server) as old:
        first, expired = serial(old), expiry(api)
        files.write(pairs[1])
        hang_up(server)
        wait_for(lambda: in_force(server) != first)
        assert is_alive(old) and serial(old) == first
        assert expiry(api) == date_of(files.cert)
        assert expired <= expiry(api)
        hang_up(server)  # the same again
        assert is_alive(old)


def test_a_bad_pair_leaves_the_old_one_in_force(tls, files, pairs):
    server = tls()
    first = in_force(server)
    for cert, key, fault in ((pairs[1][0], pairs[0][1], f"{files.key}: the key does not belong"),
                             ("nothing", pairs[0][1], f"{files.cert}: expected up to 16 certificates in PEM"),
                             (pairs[0][0], "", f"{files.key}: the file is empty")):
        files.write((cert, key))
        hang_up(server)
        wait_for(lambda: f"all stays as it was: {fault}" in server.log())
        assert in_force(server) == first
    assert server.log().count("level=error") == 3
    files.write(pairs[1])
    hang_up(server)
    wait_for(lambda: in_force(server) != first)


def test_reloads_under_traffic_break_nothing(tls, files, pairs):
    """Connections that stay and connections of one request, while the certificate changes all the time."""
    server = tls()
    Client(server).put_tenant("t")
    faults, seen, enough, done = [], set(), threading.Event(), threading.Event()

    def stay(k):
        api = Client(server, tenant="t")
        while not done.is_set():
            api.select(f"u{k}", candidates=["a", "b"])

    def come_and_go(_):
        while not done.is_set():
            with connect(server) as c:
                seen.add(serial(c))
                assert is_alive(c)
            if len(seen) == 2:
                enough.set()

    def guarded(work, k):
        try:
            work(k)
        except BaseException as fault:  # noqa: BLE001: told below
            faults.append(repr(fault))
            enough.set()
    threads = [threading.Thread(target=guarded, args=(w, k)) for k in range(3) for w in (stay, come_and_go)]
    for t in threads:
        t.start()
    for i in range(30):
        files.write(pairs[i % 2])
        hang_up(server)
        time.sleep(0.05)
    assert enough.wait(60)
    done.set()
    for t in threads:
        t.join()
    assert faults == []
    assert server.terminate() == 0


# --- what connections do ------------------------------------------------------------------------------------


def pipeliner(server, k, rounds, depth, faults):
    """Writes `depth` requests at once, decisions that wait for their commit and bodies of several records, and reads the
    answers in their order."""
    try:
        with connect(server) as c, c.makefile("rb") as stream:
            for i in range(rounds):
                names, sent = [f"{k}-{i}-{j}" for j in range(depth)], b""
                for j, name in enumerate(names):
                    body = json.dumps({"user": f"u{k}", "candidates": ["a", "b"], "decision": name})
                    blanks = 50000 if (i + j) % 7 == 0 else 0  # they are JSON, too
                    sent += request("POST", "/select", body.encode() + b" " * blanks, "t")
                c.sendall(sent)
                for name in names:
                    status, body = read_answer(stream)
                    assert status == 200, body
                    assert json.loads(body)["decision"] == name
    except BaseException as fault:  # noqa: BLE001: told below
        faults.append(repr(fault))


def test_pipelines_of_requests_that_wait_are_answered_in_order(tls):
    server = tls("--threads", "2")
    api = Client(server)
    api.put_tenant("t")
    faults, clients, rounds, depth = [], 24, 6, 8
    threads = [threading.Thread(target=pipeliner, args=(server, k, rounds, depth, faults)) for k in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert faults == []
    assert api.stats("t")["decisions"] == clients * rounds * depth
    assert server.terminate() == 0


def test_long_bodies_arrive_whole_both_ways(tls):
    """Megabytes up and down, to a client that reads in small pieces, too. Not held to the contract, which others are: it
    would take a minute."""
    server = tls()
    api = Client(server)
    api.put_tenant("t")

    def move(method, path, body=None, kind=NDJSON, **headers):
        c = http.client.HTTPSConnection("127.0.0.1", int(server.url.rsplit(":", 1)[1]), timeout=120,
                                        context=ssl.create_default_context(cafile=server.cacert))
        c.request(method, path, body, {"Content-Type": kind, **headers})
        answer = c.getresponse()
        content = answer.read()
        c.close()
        assert answer.status < 300, content[:500]
        return content, answer.headers
    for first in (0, 10000):
        lines = "".join(f'{{"user":"{"u" * 100}{i % 50}","arm":"a{i % 5}","reward":{i % 2}}}\n' for i in range(first, first + 10000))
        move("POST", "/observe", lines, **{"Laplaced-Tenant": "t"})
    export, _ = move("GET", "/tenants/t/export")
    assert len(export) > 2 << 20
    with connect(server, receive_buffer=4096) as c, c.makefile("rb") as stream:
        c.sendall(request("GET", "/tenants/t/export"))
        time.sleep(0.5)  # until the server can write no more
        assert read_answer(stream) == (200, export)
        assert is_alive(c)
    made, _ = move("POST", "/tenants/u/import", export)
    assert json.loads(made)["digest"] == api.digest("t")
    file, headers = move("POST", "/tenants/t/snapshot")
    restored, _ = move("PUT", "/tenants/v/snapshot", file, "application/vnd.sqlite3")
    assert json.loads(restored)["digest"] == headers["Laplaced-Digest"]
    assert server.terminate() == 0


@pytest.mark.parametrize("is_polite", [True, False], ids=["with-a-goodbye", "without"])
def test_a_client_that_vanishes_in_its_body_is_forgotten(tls, is_polite):
    server = tls()
    api = Client(server)
    c = connect(server)
    c.sendall(request("POST", "/select", b"x" * 40000)[:20000])
    wait_for(lambda: in_flight(api) == 2)
    if is_polite:
        with contextlib.suppress(OSError):
            c.unwrap()
    c.close()
    wait_for(lambda: in_flight(api) == 1)


def in_flight(api):
    """The scrape itself is one of them."""
    return prometheus_text.value(prometheus_text.parse(api.call("GET", "/metrics").text), "laplaced_http_requests_in_flight")


def test_a_drain_answers_what_was_begun(tls):
    server = tls()
    api = Client(server)
    api.put_tenant("t")
    body = json.dumps({"user": "ann", "candidates": ["a", "b"], "decision": "late"}).encode()
    sent = request("POST", "/select", body, "t")
    with connect(server) as c, c.makefile("rb") as stream, connect(server) as idle:
        assert is_alive(idle)
        c.sendall(sent[:-5])
        wait_for(lambda: in_flight(api) == 2)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "requests in flight" in server.log())
        c.sendall(sent[-5:])
        status, answer = read_answer(stream)
        assert (status, json.loads(answer)["decision"]) == (200, "late")
    assert server.terminate() == 0


# --- starts that are refused ----------------------------------------------------------------------------------


def refusal(tmp_path, *args):
    done = subprocess.run([BIN, "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *args], capture_output=True,
                          text=True, timeout=60)
    return done.returncode, done.stderr.splitlines()[-1]


def test_faults_of_the_files_are_told_at_the_start(tmp_path, files, pairs):
    cert, key = str(files.cert), str(files.key)
    assert refusal(tmp_path, "--tls-cert", cert) == (
        2, "laplaced: --tls-cert and --tls-key go together: --tls-key is missing")
    assert refusal(tmp_path, "--tls-key", key) == (
        2, "laplaced: --tls-cert and --tls-key go together: --tls-cert is missing")
    assert refusal(tmp_path, "--tls-cert", cert, "--tls-key", key + "x") == (1, f"laplaced: {key}x: No such file or directory")
    files.write((pairs[0][0], pairs[1][1]))
    for more in ([], ["--check-config"]):
        assert refusal(tmp_path, *files.options, *more) == (
            1, f"laplaced: {key}: the key does not belong to the first certificate of {cert}")


def test_check_config_takes_a_good_pair(tmp_path, files):
    done = subprocess.run([BIN, *files.options, "--check-config"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and f"tls-cert = {files.cert}" in done.stdout


# --- laplacectl ---------------------------------------------------------------------------------------------


def test_laplacectl_trusts_whom_it_is_told_to(tls, authority):
    server = tls()
    run_ctl(server, "--cacert", str(authority.root), "tenant", "put", "t", "--set", "algorithm=ucb")
    env = {k: v for k, v in os.environ.items() if not k.startswith("LAPLACED_")}
    by_variable = subprocess.run([CTL, "--server", server.url, "health"], capture_output=True, timeout=60,
                                 env={**env, "LAPLACED_CACERT": str(authority.root)})
    assert by_variable.returncode == 0
    refused = run_ctl(server, "health", expect=1)
    assert "certificate is not trusted" in refused and "--cacert FILE" in refused
    assert "nowhere.pem: no certificates in PEM" in run_ctl(server, "--cacert", "nowhere.pem", "health", expect=1)


def test_replay_and_copies_go_over_tls(tls, authority, tmp_path):
    server = tls()
    trust = ("--cacert", str(authority.root))
    log = tmp_path / "log.ndjson"
    log.write_text("".join(json.dumps({"user": f"u{i % 7}", "candidates": ["a", "b", "c"], "rewards": {"a": 0.1, "c": 0.9}}) + "\n"
                           for i in range(200)))
    run_ctl(server, *trust, "tenant", "put", "t")
    told = json.loads(run_ctl(server, *trust, "--json", "replay", str(log), "--tenant", "t", "--concurrency", "4").splitlines()[-1])
    assert told["errors"] == 0, told
    assert Client(server).stats("t")["decisions"] == 200
    run_ctl(server, *trust, "snapshot", "t", str(tmp_path / "t.db"))
    run_ctl(server, *trust, "restore", "u", str(tmp_path / "t.db"))
    assert Client(server).digest("u") == Client(server).digest("t")
