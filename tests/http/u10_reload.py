"""SIGHUP reads the configuration again. Every option of the table is either in force afterwards, seen by what it does, or
named as one that needs a restart; a bad file changes nothing."""
import concurrent.futures
import json
import re
import signal
import socket
import subprocess
import time

import pytest

from contract import NDJSON, ROOT
from harness import BIN, Client, Server
from r40_queues import Crowd, lock
from raw import Raw, request

FIRST_KEY, SECOND_KEY = "the-first-key-0123456789", "the-second-key-9876543210"


def options():
    """{name: whether it is live} of --help."""
    text = subprocess.run([BIN, "--help"], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^  --([a-z-]+)[^\n]*\n +\(LAPLACED_[A-Z_]+; default [^;)]*(; live)?\)", text, re.M)
    return {name: live != "" for name, live in rows}


class Configured:
    """A server whose options stand in a file."""

    def __init__(self, boot, folder, **options):
        self.path, self.options, self.folder = folder / "laplaced.conf", {}, folder
        self.write(**options)
        self.server = boot("--config", str(self.path))
        self.client = Client(self.server)

    def write(self, **options):
        self.options.update(options)
        self.path.write_text("".join(f"{k.replace('_', '-')} = {v}\n" for k, v in self.options.items()))

    def hang_up(self):
        """SIGHUP; the lines of the log that come of it."""
        before = len(self.server.log())
        self.server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 20
        while "read again" not in self.server.log()[before:]:
            assert time.monotonic() < end and self.server.process.poll() is None, self.server.log()[before:]
            time.sleep(0.01)
        return self.server.log()[before:].splitlines()

    def change(self, **options):
        self.write(**options)
        lines = self.hang_up()
        for name, value in options.items():
            name = name.replace("_", "-")
            assert any(f"option={name} from=" in line and f"to={value}" in line for line in lines), lines
        return lines


@pytest.fixture
def configured(boot, tmp_path):
    return lambda **options: Configured(boot, tmp_path, **options)


@pytest.fixture
def gated(boot, tmp_path):
    """A server whose writers wait before each commit as long as gate exists."""
    gate = tmp_path / "gate"

    def start(**options):
        def boot_gated(*args):
            return boot(*args, env={"LAPLACED_FAILPOINT": f"before_append@{gate}"})
        return Configured(boot_gated, tmp_path, **options), gate
    return start


# --- each live option, by what it does -------------------------------------------------------------------------------


def observe_body(configured, kind, option, path, method="POST", text=None):
    c = configured(**{option: "1M"})
    body = text if text is not None else json.dumps({"user": "u" * 3000})
    small = Client(c.server).call(method, path, raw=body, kind=kind, expect=(200, 201, 400, 409, 422))
    c.change(**{option: 1024})
    assert small.status != 413
    c.client.call(method, path, raw=body, kind=kind, expect=413)


def check_max_body(configured, gated):
    observe_body(configured, "application/json", "max_body", "/select")


def check_max_observe_body(configured, gated):
    line = json.dumps({"user": "u", "arm": "a", "reward": 1}) + "\n"
    observe_body(configured, NDJSON, "max_observe_body", "/observe", text=line * 60)


def check_max_bulk_body(configured, gated):
    observe_body(configured, "application/json", "max_bulk_body", "/tenants/default/graph", "PUT",
                 json.dumps({"edges": [[f"u{i}", f"v{i}", 1] for i in range(200)]}))


def check_max_import_body(configured, gated):
    observe_body(configured, NDJSON, "max_import_body", "/tenants/other/import", text="{}\n" * 1000)


def is_ended(server, sent, seconds, is_answered=False):
    """Whether the server ends a connection on which no more than that is said."""
    with Raw(server, timeout=seconds) as raw:
        raw.send(sent)
        if is_answered:
            assert raw.answer().status == 200
        try:
            while raw._more():
                pass
        except socket.timeout:
            return False
        return True


def check_timeout(configured, gated):
    c = configured(timeout=3600)
    with Raw(c.server, timeout=30) as old:
        assert old.send(request()).answer().status == 200
        assert not is_ended(c.server, request(), 2, is_answered=True)
        c.change(timeout=1)
        assert is_ended(c.server, request(), 30, is_answered=True)
        assert old.is_closed()  # idle from before the change


def check_header_timeout(configured, gated):
    c = configured(header_timeout=3600)
    assert not is_ended(c.server, b"GET /healthz HTTP/1.1\r\nHost: x\r\n", 2)
    c.change(header_timeout=1)
    assert is_ended(c.server, b"GET /healthz HTTP/1.1\r\nHost: x\r\n", 30) and is_ended(c.server, b"", 30)


HALF_A_BODY = request("POST", "/select", "Content-Length: 100", body=b"{")


def check_body_timeout(configured, gated):
    c = configured(body_timeout=3600)
    assert not is_ended(c.server, HALF_A_BODY, 2)
    c.change(body_timeout=1)
    assert is_ended(c.server, HALF_A_BODY, 30)


def check_min_rate(configured, gated):
    c = configured(body_timeout=1, min_rate=0)
    with Raw(c.server) as raw:
        raw.send(request("POST", "/select", "Content-Length: 1000"))
        for _ in range(30):  # a byte now and then is enough
            raw.send(b" ")
            time.sleep(0.1)
        c.change(min_rate=1024)
        end = time.monotonic() + 30
        while c.client.metric('connections_timed_out_total{phase="body"}') < 1:
            assert time.monotonic() < end
            raw.send(b" ")
            time.sleep(0.1)
        assert raw.answer().status == 408


def check_max_queue(configured, gated):
    c, gate = gated(max_queue=4096)
    c.client.call("GET", "/tenants/default")
    gate.touch()

    def select(i):
        return Client(c.server).call("POST", "/select", {"user": f"u{i}", "candidates": ["a"]}, expect=(200, 503)).status
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        first = [pool.submit(select, i) for i in range(4)]
        time.sleep(0.5)
        c.change(max_queue=1)
        late = [pool.submit(select, i) for i in range(4, 10)]
        end = time.monotonic() + 20
        while sum(f.done() for f in late) < 4 and time.monotonic() < end:
            time.sleep(0.02)
        gate.unlink()
        assert [f.result() for f in first] == [200] * 4
        # The first ones are more than fit by now: those who come later are refused, all but one at most.
        assert [f.result() for f in late].count(503) >= 5


def check_max_candidates(configured, gated):
    c = configured()
    c.client.select("u", candidates=["a", "b"])
    c.change(max_candidates=1)
    assert c.client.call("POST", "/select", {"user": "u", "candidates": ["a", "b"]}, expect=400).json["max"] == 1


def check_max_arms(configured, gated):
    c = configured()
    c.client.put_arms("default", ["a", "b"])
    c.client.select("u")
    c.change(max_arms=1)
    assert c.client.call("POST", "/select", {"user": "u"}, expect=400).json["limit"] == "arms"


def check_max_dim(configured, gated):
    c = configured()
    c.client.put_tenant("t", context_dim=3)
    c.change(max_dim=2)
    assert c.client.call("PUT", "/tenants/u", {"context_dim": 3}, expect=400).json["max"] == 2


def check_max_magnitude(configured, gated):
    c = configured()
    c.client.observe("u", "a", 11)
    c.change(max_magnitude=10)
    assert c.client.call("POST", "/observe", {"user": "u", "arm": "a", "reward": 11}, expect=400).pointers == ["/reward"]


def check_max_queue_bytes(configured, gated):
    c, gate = gated()
    c.client.call("GET", "/tenants/default")
    gate.touch()
    lines = [{"user": "u", "arm": "a", "reward": 1}] * 1000
    crowd = Crowd(c.server, [("POST", "/observe", lines)], kind=NDJSON)  # for the writer, who waits with it at the gate
    time.sleep(0.5)
    more = Crowd(c.server, [("POST", "/observe", lines)] * 3, kind=NDJSON)
    time.sleep(0.5)
    c.change(max_queue_bytes=1024)
    assert c.client.call("POST", "/observe", lines[0], expect=503).json["limit"] == "queue_bytes"
    gate.unlink()
    assert [a.status for a in crowd.join() + more.join()] == [200] * 4


def check_max_opening(configured, gated):
    """The tenant's file is another's alone, for as long as an opening waits for it."""
    c = configured(memory_cap=1)
    c.client.put_tenant("t", algorithm="ucb")
    end = time.monotonic() + 20
    while not any(t["name"] == "t" and t["state"] == "closed" for t in c.client.call("GET", "/tenants").json["tenants"]):
        assert time.monotonic() < end
        time.sleep(0.05)
    c.change(max_opening=1)
    other = lock(c.server.data / "tenants" / "t.db", alone=True)
    crowd = Crowd(c.server, [("POST", "/select", {"user": "u", "candidates": ["a"]})] * 6, tenant="t")
    crowd.wait_for(5, 503)
    other.close()
    answers = crowd.join()
    assert [a.json["limit"] for a in answers if a.status == 503] == ["opening"] * 5


def check_max_work(configured, gated):
    c = configured()
    c.change(max_work=1)
    other = lock(c.server.data / "registry.db")
    crowd = Crowd(c.server, [("PUT", f"/tenants/new-{i}", {"algorithm": "ucb"}) for i in range(80)])
    crowd.wait_for(80 - 1 - 32, 503)  # half of the pool's threads are at work, on a machine of 64 cores
    assert {a.json["limit"] for a in list(crowd.answers)} == {"work"}
    other.close()
    assert any(a.status == 201 for a in crowd.join())


def check_max_transfers(configured, gated):
    c = configured()
    c.client.observe("u", "a", 1)
    log = c.client.call("GET", "/tenants/default/export").content

    def take_in(name):
        return Client(c.server).call("POST", f"/tenants/{name}/import", raw=log, kind=NDJSON, expect=(201, 503))
    c.change(max_transfers=1)
    refused = []
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        for round_ in range(20):
            refused += [a for a in pool.map(take_in, [f"t{round_}-{i}" for i in range(12)]) if a.status == 503]
            if refused:
                break
    assert refused and {a.json["limit"] for a in refused} == {"transfers"}


def check_max_body_memory(configured, gated):
    c = configured(max_bulk_body=1 << 20, max_observe_body=1 << 20)
    text = json.dumps({"edges": [], "users": ["x" * 200] * 4000})
    held = socket.create_connection(c.server.url[len("http://"):].split(":"))
    held.sendall(f"PUT /tenants/default/graph HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n{text[:-10]}".encode())
    time.sleep(0.5)
    one = Client(c.server).call("PUT", "/tenants/default/graph", raw=text, expect=(200, 400, 409))
    c.change(max_body_memory=1 << 20)
    two = Client(c.server).call("PUT", "/tenants/default/graph", raw=text, expect=503)
    assert one.status != 503 and two.json["limit"] == "body_memory" and two.json["max"] == 1 << 20
    held.close()


def check_max_pending(configured, gated):
    c = configured()
    for _ in range(2):
        c.client.select("u", candidates=["a"])
    c.change(max_pending=2)
    c.client.select("u", candidates=["a"], expect=503)
    c.change(max_pending=3)
    c.client.select("u", candidates=["a"])


def check_snapshot_events(configured, gated):
    c = configured()
    for _ in range(12):
        c.client.select("u", candidates=["a"])
    assert c.client.metric("snapshots_total") == 0
    c.change(snapshot_events=5)
    c.client.select("u", candidates=["a"])
    end = time.monotonic() + 20
    while c.client.metric("snapshots_total") == 0:
        assert time.monotonic() < end
        time.sleep(0.02)


def check_inline_work(configured, gated):
    c = configured()
    c.client.put_tenant("t", algorithm="laplaced-kors")
    for i in range(20):
        c.client.observe(f"u{i}", f"a{i % 3}", 0.5, tenant="t")

    def rebuild():
        c.client.call("POST", "/tenants/t/rebuild", expect=(200, 202))
        c.client.wait_rebuilt("t")
        return c.client.metric("build_seconds_count")
    assert rebuild() == 0
    c.change(inline_work=0)
    assert rebuild() > 0


def check_memory_cap(configured, gated):
    c = configured()
    c.client.select("u", candidates=["a"])
    time.sleep(0.6)
    assert c.client.metric("tenant_evictions_total") == 0
    c.change(memory_cap=1)
    end = time.monotonic() + 20
    while c.client.metric("tenant_evictions_total") == 0:
        assert time.monotonic() < end
        time.sleep(0.05)


def check_tenant_quota(configured, gated):
    c = configured()
    c.client.observe("u", "a", 1)
    c.change(tenant_quota=1)
    c.client.call("POST", "/observe", {"user": "v", "arm": "b", "reward": 1}, expect=507)
    c.change(tenant_quota=0)
    c.client.observe("v", "b", 1)


def check_tenant_rate(configured, gated):
    c = configured()
    for i in range(30):
        c.client.observe("u", "a", 1)
    c.change(tenant_rate=1)
    answers = []
    end = time.monotonic() + 20
    while 429 not in answers and time.monotonic() < end:
        answers.append(c.client.call("POST", "/observe", {"user": "u", "arm": "a", "reward": 1}, expect=(200, 429)).status)
    assert 429 in answers


def check_tenant_burst(configured, gated):
    c = configured(tenant_rate=1, tenant_burst=1000000)
    for i in range(30):
        c.client.observe("u", "a", 1)
    c.change(tenant_burst=2)
    end = time.monotonic() + 20
    while c.client.call("POST", "/observe", {"user": "u", "arm": "a", "reward": 1}, expect=(200, 429)).status != 429:
        assert time.monotonic() < end


def check_metrics_tenants(configured, gated):
    c = configured()
    c.client.select("u", candidates=["a"])
    assert c.client.metric("tenants_unlisted") == 0
    c.change(metrics_tenants=0)
    assert c.client.metric("tenants_unlisted") == 1


def check_stuck_after(configured, gated):
    c, gate = gated(stuck_after=3600)
    c.client.select("u", candidates=["a"])
    gate.touch()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waits = pool.submit(Client(c.server).select, "u", candidates=["a"])
        time.sleep(2)
        c.client.call("GET", "/readyz")
        c.change(stuck_after=1)
        end = time.monotonic() + 20
        while c.client.call("GET", "/readyz", expect=(200, 503)).status == 200 and time.monotonic() < end:
            time.sleep(0.05)
        answer = c.client.call("GET", "/readyz", expect=503)
        gate.unlink()
        waits.result()
    assert "waiting for its commit" in answer.json["detail"]


def request_lines(c):
    """Of requests that nothing else asks for."""
    return [line for line in c.server.log().splitlines() if 'msg="request"' in line and "/observe" in line]


def check_log_requests(configured, gated):
    c = configured(log_requests="none", slow_request=1)
    for i in range(10):
        c.client.observe("u", "a", 1)
    assert request_lines(c) == []
    c.change(log_requests="all")
    c.client.observe("u", "a", 1)
    c.client.call("GET", "/healthz")
    wait_until(lambda: len(request_lines(c)) == 1)


def check_slow_request(configured, gated):
    c = configured(slow_request=86400000)
    for i in range(10):
        c.client.observe("u", "a", 1)
    assert request_lines(c) == []
    c.change(slow_request=1)

    def is_seen():
        c.client.call("POST", "/observe", [{"user": f"u{i}", "arm": "a", "reward": 1} for i in range(500)],
                      kind="application/x-ndjson")
        return request_lines(c)
    wait_until(is_seen)


def wait_until(is_so):
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def check_log_level(configured, gated):
    c = configured()
    c.write(log_level="error")
    c.server.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 20
    while c.client.metric('config_reloads_total{result="ok"}') < 1 and time.monotonic() < end:
        time.sleep(0.02)
    assert "option=log-level from=info to=error" in c.server.log()  # at the old level
    c.write(timeout=77)
    before = c.server.log()
    c.server.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 20
    while c.client.metric('config_reloads_total{result="ok"}') < 2 and time.monotonic() < end:
        time.sleep(0.02)
    assert c.server.log() == before
    c.write(log_level="info")
    c.server.process.send_signal(signal.SIGHUP)
    while "read again" not in c.server.log()[len(before):]:
        assert time.monotonic() < end
        time.sleep(0.02)


def check_drain_timeout(configured, gated):
    c = configured(drain_timeout=3600)
    host, port = c.server.url[len("http://"):].split(":")
    with socket.create_connection((host, int(port))) as never_ends:
        never_ends.sendall(b"POST /select HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        time.sleep(0.3)
        c.change(drain_timeout=0)
        assert c.server.terminate(timeout=60) == 0
    assert "stopping with 1 requests in flight" in c.server.log()


def check_admin_key_file(configured, gated):
    c = configured()
    first, second = c.folder / "first", c.folder / "second"
    for path, key in ((first, FIRST_KEY), (second, SECOND_KEY)):
        path.write_text(key + "\n")
        path.chmod(0o600)
    c.client.call("GET", "/tenants")
    c.change(admin_key_file=first)
    c.client.call("GET", "/tenants", expect=401)
    Client(c.server, FIRST_KEY).call("GET", "/tenants")
    c.change(admin_key_file=second)
    Client(c.server, FIRST_KEY).call("GET", "/tenants", expect=401)
    Client(c.server, SECOND_KEY).call("GET", "/tenants")
    del c.options["admin_key_file"]  # taken away: opens the server to nobody
    c.write()
    c.hang_up()
    for key in (None, FIRST_KEY, SECOND_KEY):
        Client(c.server, key).call("GET", "/tenants", expect=401)
    c.change(admin_key_file=first)
    Client(c.server, FIRST_KEY).call("GET", "/tenants")
    assert FIRST_KEY not in c.server.log() and SECOND_KEY not in c.server.log()


CHECKS = {name[len("check_"):].replace("_", "-"): check for name, check in list(globals().items()) if name.startswith("check_")}


def test_every_live_option_has_a_check():
    assert sorted(CHECKS) == sorted(name for name, is_live in options().items() if is_live)


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_a_live_option_is_in_force_after_sighup(configured, gated, name):
    CHECKS[name](configured, gated)


# --- the others ------------------------------------------------------------------------------------------------------

OTHER_VALUES = {"true": "false", "false": "true", "text": "json", "auto": "off", "required": "trusted"}


def another_value(name, value):
    if name == "listen":
        return "127.0.0.1:1"
    if name == "cors-origin":
        return "https://example.org"
    if name == "log":
        return "postgresql://laplaced@127.0.0.1:1/log"
    return OTHER_VALUES.get(value) or (str(int(value) + 5) if value.isdigit() else value + "x")


def test_options_that_need_a_restart_are_named_and_stay(configured, tmp_path):
    c = configured()
    at_start = [name for name, is_live in options().items() if not is_live and name != "config"]
    printed = subprocess.run([BIN, "--check-config"], capture_output=True, text=True, env=c.server.environment()).stdout
    values = dict(re.findall(r"^([a-z-]+) = (.*)$", printed, re.M))
    assert set(values) == set(options()) - {"config"}
    for name in at_start:
        if name not in ("data", "listen"):  # those are flags here, which go before the file
            c.write(**{name: another_value(name, values[name])})
    lines = c.hang_up()
    named = {re.search(r"option=(\S+)", line).group(1) for line in lines if "needs a restart" in line}
    assert named == set(at_start) - {"data", "listen"} and all("level=warn" in line for line in lines if "restart" in line)
    assert {n for n, live in options().items() if live} & named == set()
    c.client.select("u", candidates=["a"])
    # They are named again as long as they differ, and by --check-config at once.
    assert sum("needs a restart" in line for line in c.hang_up()) == len(named)
    done = subprocess.run([BIN, "--config", str(c.path), "--check-config"], capture_output=True, text=True, env=c.server.environment())
    for name in named:
        assert f"{name} = {c.options[name]}\n" in done.stdout


def test_folder_and_address_stay_as_well(tmp_path):
    path = tmp_path / "conf"
    path.write_text(f"data = {tmp_path}/data\nlisten = 127.0.0.1:0\n")
    server = Server(tmp_path)
    server.command = lambda: [BIN, "--config", str(path)]
    server.start()
    try:
        path.write_text(f"data = {tmp_path}/elsewhere\nlisten = 127.0.0.1:1\n")
        server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 20
        while "read again" not in server.log():
            assert time.monotonic() < end
            time.sleep(0.02)
        assert re.findall(r"option=(\S+) .*needs a restart", server.log()) == ["data", "listen"]
        Client(server).select("u", candidates=["a"])
        assert not (tmp_path / "elsewhere").exists()
    finally:
        server.close()


def test_help_check_config_and_the_documents_agree_on_what_is_live():
    live = {name for name, is_live in options().items() if is_live}
    printed = subprocess.run([BIN, "--check-config"], capture_output=True, text=True, check=True, env={}).stdout
    assert set(re.findall(r"^# default, live\n([a-z-]+) = ", printed, re.M)) == live
    page = (ROOT / "docs/OPERATIONS.md").read_text()
    table = page[page.index("| option | default |"):]
    rows = [row for row in table[:table.index("\n\n")].splitlines()[2:]]
    marked = {name for row in rows if row.split("|")[3].strip() == "live" for name in re.findall(r"--([a-z-]+)", row.split("|")[1])}
    named = {name for row in rows for name in re.findall(r"--([a-z-]+)", row.split("|")[1])}
    assert marked == live and named == set(options()) - {"config"}


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, said", [
    ("max-pending = 1\ntimeout = never\n", ":2: timeout: expected a whole number from 1 to 3600"),
    ("max-pending = 1\n\nnonsense = 1\n", ':3: unknown option \\"nonsense\\"'),
    ("max-pending = 1\nlog-level\n", ":2: expected NAME = VALUE"),
    ("max-pending = 1\nadmin-key-file = /nonexistent/keys\n", "admin-key-file: /nonexistent/keys: No such file"),
    ("max-pending = 1\nadmin-key-file = {keys}\n", "admin-key-file: {keys}:2: a key holds visible ASCII characters only"),
    ("max-pending = 1\nlisten = 0.0.0.0:80\ndata = /nonexistent\n", "refusing to listen on 0.0.0.0:80 without keys"),
    (None, "No such file")])
def test_a_bad_file_leaves_everything_as_it_was(configured, tmp_path, text, said):
    keys = tmp_path / "keys"
    keys.write_text("a-good-key-0123456789\na bad one\n")
    c = configured()
    if text is not None and "listen" in text:  # flags would go before the file
        c.server.kill()
        c.server.command = lambda: [BIN, "--config", str(c.path)]
        c.write(data=c.server.data, listen="127.0.0.1:0")
        c.server.start()
    loaded = c.client.metric("config_last_reload_success_timestamp_seconds")
    if text is None:
        c.path.unlink()
    else:
        c.path.write_text(text.replace("{keys}", str(keys)))
    lines = c.hang_up()
    assert len(lines) == 1 and "level=error" in lines[0] and said.replace("{keys}", str(keys)) in lines[0], lines
    for _ in range(3):
        c.client.select("u", candidates=["a"])  # max-pending 1 is not in force, and no key is asked for
    assert c.client.metric('config_reloads_total{result="failed"}') == 1
    assert c.client.metric('config_reloads_total{result="ok"}') == 0
    assert c.client.metric("config_last_reload_success_timestamp_seconds") == loaded
    c.path.write_text("max-pending = 3\n" if text is None or "listen" not in text
                      else f"max-pending = 3\ndata = {c.server.data}\nlisten = 127.0.0.1:0\n")
    c.hang_up()
    c.client.select("u", candidates=["a"], expect=503)
    assert c.client.metric('config_reloads_total{result="ok"}') == 1
    assert c.client.metric("config_last_reload_success_timestamp_seconds") > loaded


def test_environment_and_flags_keep_their_precedence(boot, tmp_path):
    path = tmp_path / "conf"
    path.write_text("max-pending = 5\n")
    server = boot("--config", str(path), "--tenant-quota", "0", env={"LAPLACED_MAX_PENDING": "2"})
    path.write_text("max-pending = 1\ntenant-quota = 1\ntimeout = 9\n")
    server.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 20
    while "read again" not in server.log():
        assert time.monotonic() < end
        time.sleep(0.02)
    assert re.findall(r"option=(\S+)", server.log()) == ["timeout"]
    client = Client(server)
    for _ in range(2):
        client.select("u", candidates=["a"])
    client.select("u", candidates=["a"], expect=503)


def test_reloads_under_traffic_disturb_nobody(configured):
    c = configured(max_body="1M")
    stop = time.monotonic() + 2

    def work(k):
        mine, n = Client(c.server), 0
        while time.monotonic() < stop:
            mine.select(f"u{k}", candidates=["a", "b"])
            n += 1
        return n
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(work, k) for k in range(4)]
        n = 0
        while time.monotonic() < stop:
            n += 1
            c.change(max_body=1 << (16 + n % 2), timeout=20 + n % 2, snapshot_events=10 + n % 2)
            time.sleep(0.1)  # the log takes 50 lines of a kind in a second
        assert n > 3 and all(w.result() > 0 for w in workers)
    assert c.client.metric('config_reloads_total{result="ok"}') == n
