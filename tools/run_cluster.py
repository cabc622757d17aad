"""Three servers, one log: a town learns while a server and PostgreSQL's primary are killed, and what was acknowledged is counted.

    python3 tools/run_cluster.py OUT [VISITS]        OUT: the build folder, such as build/release; make run-cluster

Everything runs on loopback in a temporary folder and is ended by its pid: a primary with two standbys (tests/cluster/pg.py), three
servers, and HAProxy before them where it is installed. The town: 48 users in four quarters, who know each other within a quarter;
each quarter likes one stall of eight. 4 visitors at a time; every decision has an id, so who is not answered asks again."""
import collections
import http.client
import json
import pathlib
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
import pg  # noqa: E402

TOWN, QUARTERS, USERS, STALLS, LIKED, OTHERS = "town", 4, 48, 8, 0.7, 0.15
PROXY = """
global
    maxconn 256
defaults
    mode http
    timeout connect 1s
    timeout client 30s
    timeout server 30s
    retries 3
    option redispatch 1
    retry-on conn-failure empty-response response-timeout
frontend in
    bind 127.0.0.1:{port}
    default_backend laplaced
backend laplaced
    balance hdr(Laplaced-Tenant)
    hash-type consistent
    option httpchk GET /readyz
    default-server check inter 200ms fall 2 rise 1
{servers}
"""


def say(text):
    print(text, flush=True)


class Gone(Exception):
    """Nobody answered; whether the request was heard is not known."""


def call(url, method, path, body=None, tenant=None):
    """(status, text)."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=30)
    headers = {"Content-Type": "application/json", **({"Laplaced-Tenant": tenant} if tenant else {})}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as fault:
        raise Gone from fault
    finally:
        connection.close()


def must(answer, *statuses):
    status, text = answer
    if status not in statuses:
        raise SystemExit(f"{status}: {text}")
    return json.loads(text) if text else None


class Server:
    def __init__(self, program, folder, name, log, port):
        self.command = [program, "--data", folder / name, "--listen", f"127.0.0.1:{port}", "--log", log, "--node", name]
        self.name, self.port, self.url, self.log, self.process = name, port, f"http://127.0.0.1:{port}", folder / f"{name}.log", None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=log)
        pg.wait_for(self.is_ready, 60)

    def is_ready(self):
        try:
            return call(self.url, "GET", "/readyz")[0] == 200
        except Gone:
            return False

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class Proxy:
    """HAProxy by tenant, or, without it, a list of servers that visitors go through themselves."""

    def __init__(self, folder, servers):
        self.servers, self.process, self.url, self.first = servers, None, None, 0
        program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
        if program is None:
            return
        port, = pg.free_ports(1)
        lines = "".join(f"    server {s.name} 127.0.0.1:{s.port}\n" for s in servers)
        (folder / "haproxy.cfg").write_text(PROXY.format(port=port, servers=lines))
        with open(folder / "haproxy.log", "ab") as log:
            self.process = subprocess.Popen([program, "-db", "-f", folder / "haproxy.cfg"], stdout=log, stderr=log)
        self.url = f"http://127.0.0.1:{port}"
        pg.wait_for(lambda: self.answers())

    def answers(self):
        try:
            return self.call("GET", "/readyz")[0] == 200
        except Gone:
            return False

    def call(self, method, path, body=None, tenant=None):
        if self.url:
            return call(self.url, method, path, body, tenant)
        self.first += 1
        for i in range(len(self.servers)):
            try:
                return call(self.servers[(self.first + i) % len(self.servers)].url, method, path, body, tenant)
            except Gone:
                if i == len(self.servers) - 1:
                    raise

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Town:
    """Visits, and a book of what was acknowledged that knows nothing of the servers."""

    def __init__(self, proxy, n_visits, seed=1):
        self.proxy, self.n_visits, self.lock = proxy, n_visits, threading.Lock()
        self.rng = random.Random(seed)
        self.visits, self.n_done, self.failures = queue.Queue(), 0, []
        self.clicks = collections.Counter()  # by tenth of the visits
        self.decided, self.rewarded, self.repeats, self.waited = {}, {}, 0, 0.0
        for i in range(n_visits):
            self.visits.put((i, self.rng.randrange(USERS), self.rng.random()))

    def make(self):
        edges = [[f"u{a}", f"u{b}", 1] for a in range(USERS) for b in range(a) if a % QUARTERS == b % QUARTERS]
        must(self.proxy.call("PUT", f"/tenants/{TOWN}", {"algorithm": "laplaced"}), 201)
        must(self.proxy.call("PUT", f"/tenants/{TOWN}/graph", {"edges": edges}), 200)

    def ask(self, path, body):
        """Until somebody says what became of it."""
        begin, status, text = time.monotonic(), 0, ""
        while True:
            try:
                status, text = self.proxy.call("POST", path, body, TOWN)
            except Gone:
                status = 0
            if status == 200:
                break
            if status not in (0, 502, 503, 504):
                raise SystemExit(f"{path} {body}: {status} {text}")
            with self.lock:
                self.repeats += 1
            time.sleep(0.05)
        with self.lock:
            self.waited = max(self.waited, time.monotonic() - begin)
        return json.loads(text)

    def visit(self, number, user, luck):
        name = f"visit-{number}"
        shown = self.ask("/select", {"user": f"u{user}", "candidates": [f"stall{i}" for i in range(STALLS)], "decision": name})
        clicks = luck < (LIKED if shown["arm"] == f"stall{user % QUARTERS}" else OTHERS)
        with self.lock:
            self.decided[name] = shown["arm"]
        self.ask("/reward", {"decision": name, "reward": int(clicks)})
        with self.lock:
            self.rewarded[name] = int(clicks)
            self.clicks[10 * number // self.n_visits] += clicks
            self.n_done += 1

    def work(self):
        try:
            while True:
                self.visit(*self.visits.get_nowait())
        except queue.Empty:
            pass
        except (SystemExit, Exception) as fault:  # told by the main thread
            self.failures.append(fault)

    def begin(self, n=4):
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(n)]
        for t in self.threads:
            t.start()

    def wait_until(self, share):
        while self.n_done < share * self.n_visits and any(t.is_alive() for t in self.threads):
            time.sleep(0.02)
        if self.failures:
            raise SystemExit(f"a visitor was told: {self.failures[0]}")


def busiest(servers):
    """The one that the proxy sends the town to."""
    def n(server):
        lines = [line for line in call(server.url, "GET", "/metrics")[1].splitlines() if line.startswith("laplaced_http_requests_total") and "/select" in line]
        return sum(float(line.split()[-1]) for line in lines)
    return max(servers, key=n)


def count(town, servers, database):
    """What was acknowledged, against what each server and PostgreSQL have. True: all of it, once."""
    def at_end():
        tips = {must(call(s.url, "GET", f"/tenants/{TOWN}"), 200)["seq"] for s in servers}
        return len(tips) == 1
    pg.wait_for(at_end, 30)
    logs = [call(s.url, "GET", f"/tenants/{TOWN}/events?limit=100000")[1] for s in servers]
    events = [json.loads(line) for line in logs[0].splitlines()]
    decided = [(e["decision"], e["arm"]) for e in events if e["type"] == "decided"]
    rewarded = [(e["decision"], e["reward"]) for e in events if e["type"] == "rewarded"]
    in_log = int(database.primary.sql(f"SELECT sum(b.n) FROM laplaced.batch b JOIN laplaced.tenant t ON t.id = b.tenant WHERE t.name = '{TOWN}'"))
    digests = {must(call(s.url, "GET", f"/tenants/{TOWN}/model"), 200)["digest"] for s in servers}
    checks = {
        "each acknowledged decision stands once, with the arm that was told": sorted(decided) == sorted(town.decided.items()),
        "each acknowledged reward stands once": sorted(rewarded) == sorted(town.rewarded.items()),
        "the lines are numbered without a gap": [e["seq"] for e in events] == list(range(1, len(events) + 1)),
        "PostgreSQL has as many lines": in_log == len(events),
        "the three copies are equal byte by byte": len(set(logs)) == 1,
        "the three models are equal": len(digests) == 1,
    }
    say(f"\nThe log has {len(events)} lines. Of {len(town.decided)} decisions and {len(town.rewarded)} rewards that were acknowledged:")
    for text, is_so in checks.items():
        say(f"  {'yes' if is_so else 'NO '}  {text}")
    return all(checks.values())


def show(town):
    n = town.n_visits / 10
    chance = (LIKED + (STALLS - 1) * OTHERS) / STALLS
    say(f"\nClicks a visit, by tenth of the visits (chance: {chance:.2f}, at best: {LIKED:.2f}):")
    say("  " + "  ".join(f"{town.clicks[i] / n:.2f}" for i in range(10)))
    say(f"Visitors asked again {town.repeats} times; the longest that one waited was {town.waited:.1f} s.")


def play(out, folder, n_visits, database, running):
    done = subprocess.run([out / "laplacectl", "cluster", "init", "--log", database.url], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    servers = [Server(out / "laplaced", folder, name, database.url, port) for name, port in zip("abc", pg.free_ports(3))]
    running += [s.kill for s in servers]
    for server in servers:
        server.start()
    proxy = Proxy(folder, servers)
    running.append(proxy.end)
    say(f"Three servers ({', '.join(s.url for s in servers)}), a primary and two standbys"
        + (f", HAProxy by tenant at {proxy.url}." if proxy.url else "; HAProxy is not installed, visitors find the servers themselves."))
    town = Town(proxy, n_visits)
    town.make()
    town.begin()
    town.wait_until(0.25)
    dead = busiest(servers)
    dead.kill()
    say(f"{town.n_done:5} visits: server {dead.name}, which served the town, is killed.")
    town.wait_until(0.45)
    dead.start()
    say(f"{town.n_done:5} visits: it is back on its folder.")
    town.wait_until(0.6)
    old = database.kill_primary()
    say(f"{town.n_done:5} visits: PostgreSQL's primary {old.name} is killed.")
    time.sleep(1)
    new = database.promote()
    say(f"{town.n_done:5} visits: standby {new.name} is promoted.")
    town.wait_until(1)
    show(town)
    return count(town, servers, database)


def main(out, n_visits="2000"):
    if pg.programs() is None:
        say("PostgreSQL is not installed: sh tools/setup.sh --cluster")
        return 1
    folder, running = pathlib.Path(tempfile.mkdtemp(prefix="laplaced-cluster-")), []
    is_right = False
    try:
        with pg.Cluster(folder / "pg", 2) as database:
            try:
                is_right = play(pathlib.Path(out).resolve(), folder, int(n_visits), database, running)
            finally:
                for end in reversed(running):
                    end()
    finally:
        if is_right:
            shutil.rmtree(folder)
        else:
            say(f"Files and logs are left in {folder}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
