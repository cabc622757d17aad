"""Logs whose numbers somebody has changed: sent to be taken in, replayed, or put into the file of a stopped server. What the core can
compute with is taken; else the line is named, the tenant alone fails, and the server starts."""
import copy
import json
import random
import re
import sqlite3
import subprocess
import time
from contextlib import closing

import requests

from contract import NDJSON
from harness import tenant_path
from judge import numbers
from steps import Tenant
from values import STRANGE_TOKENS, Temper

N_MUTATIONS = 24
TOKENS = STRANGE_TOKENS + ("0", "-1", "1", "2", "0.5", "1e12", "1.1e12", "1e75", "-1e75", "1.0001e75", "1e150", "1e308", "-1e308", "1e-12", "17", "4294967295", "4294967296",
                           "9007199254740991", "NaN", "1e400")
MARK = "@number@"


def fed(judge, rng):
    """A tenant with every kind of line."""
    tenant = Tenant(judge, rng, Temper(rng, min(judge.largest, 1e6), False, "calm"))
    for step in ("put_graph", "put_arms", "observe", "decide", "reward", "correct", "observe_many", "decide", "reward", "patch_graph", "decide", "rebuild", "reward", "observe"):
        getattr(tenant, step)()
    if rng.random() < 0.6:
        tenant.compact()
        tenant.decide()
        tenant.observe()
    judge.settled(tenant.name)
    return tenant


def spoiled(rng, line):
    """The line with another number in one or two of its places; and the places."""
    told = json.loads(line)
    places = [p for p, _ in numbers(told)]
    chosen = rng.sample(places, min(len(places), rng.choice((1, 1, 2))))
    text = copy.deepcopy(told)
    for place in chosen:
        at, *steps = text, *place.split("/")[1:]
        for step in steps[:-1]:
            at = at[int(step)] if isinstance(at, list) else at[step.replace("~1", "/").replace("~0", "~")]
        key = int(steps[-1]) if isinstance(at, list) else steps[-1]
        at[key] = MARK
    out = json.dumps(text, separators=(",", ":"))
    for _ in chosen:
        out = out.replace(f'"{MARK}"', rng.choice(TOKENS), 1)
    return out, chosen


def pick(rng, lines):
    """A line, its number and type: lines of each type alike."""
    kinds = {}
    for i, line in enumerate(lines):
        told = json.loads(line)
        kinds.setdefault((told["type"], told.get("part")), []).append(i)
    return rng.choice(kinds[rng.choice(sorted(kinds, key=str))])


def probe(judge, tenant, name):
    """A tenant made of such a log is one like others."""
    judge.select(name, {"user": "ann", "candidates": [tenant.arm("a0"), tenant.arm("a1")], "explain": True, **tenant.context()})
    judge.write("POST", "/observe", tenant.observation(), name)
    judge.send("POST", tenant_path(name, "rebuild"), expect=200)
    judge.verified(name)


def test_a_spoiled_log_is_taken_or_its_line_is_named(judged, magnitude, seed):
    rng = random.Random(f"logs {seed} {magnitude}")
    judge = judged(magnitude)
    tenant = fed(judge, rng)
    lines = judge.send("GET", tenant.path("export"), expect=200).text.splitlines()
    for i in range(N_MUTATIONS):
        at = pick(rng, lines)
        line, places = spoiled(rng, lines[at])
        judge.said.append(f"# line {at + 1}, at {places}: {line[:1500]}")
        body = "".join(text + "\n" for text in [*lines[:at], line, *lines[at + 1:]]).encode()
        answer = judge.send("POST", tenant_path(f"m{i}", "import"), raw=body, kind=NDJSON)
        judge.said[-1] = judge.said[-1][-700:]
        judge.hold(answer.status in (201, 400), "of an import")
        if answer.status == 201:
            probe(judge, tenant, f"m{i}")
            judge.send("DELETE", tenant_path(f"m{i}"), expect=204)
        else:
            judge.hold("line " in answer.json["detail"], "a line is not named")
        if i % 3 == 0:
            first = json.dumps({"type": "replay", "configuration": json.loads(lines[0])["configuration"]}).encode()
            told = judge.send("POST", tenant.path("replay"), raw=first + b"\n" + body, kind=NDJSON)
            judge.said[-1] = judge.said[-1][-700:]
            if told.status == 200:
                last = json.loads(told.text.splitlines()[-1])
                judge.hold(last["type"] == "report" or last["problem"]["status"] < 500, "of a replay")
        judge.witness()


def rewrite(judge, name, seq, line):
    """As somebody with another program would: the text of one event; and no snapshot, which would know better."""
    with closing(sqlite3.connect(judge.server.data / "tenants" / f"{name}.db")) as db:
        n = sum(db.execute(f"UPDATE {table} SET text = ?, line = NULL WHERE seq = ?" if table == "events" else f"UPDATE {table} SET text = ? WHERE seq = ?",
                           (line, seq)).rowcount for table in ("events", "summary"))
        db.commit()
    assert n > 0
    (judge.server.data / "tenants" / f"{name}.snapshot").unlink(missing_ok=True)


def test_a_spoiled_file_fails_its_tenant_alone(judged, magnitude, seed):
    rng = random.Random(f"files {seed} {magnitude}")
    judge = judged(magnitude)
    tenant = fed(judge, rng)
    assert judge.server.terminate() == 0
    file = judge.server.data / "tenants" / f"{tenant.name}.db"
    whole = file.read_bytes()
    with closing(sqlite3.connect(file)) as db:
        lines = dict(db.execute("SELECT seq, text FROM log WHERE text <> '' ORDER BY seq").fetchall())
    seqs = list(lines)
    for _ in range(4):
        seq = seqs[pick(rng, list(lines.values()))]
        line, places = spoiled(rng, lines[seq])
        judge.said.append(f"# event {seq}, at {places}: {line[:1500]}")
        file.write_bytes(whole)
        rewrite(judge, tenant.name, seq, line)
        judge.server.args.append("--open-all")
        judge.server.process = None
        is_whole = opens(judge)
        judge.server.args.remove("--open-all")
        judge.server.start()
        judge.pid = judge.server.pid
        judge.witness()
        look(judge, tenant, is_whole, seq)
        judge.witness()
        judge.server.terminate()


def opens(judge):
    """Whether a start that opens every tenant comes up; else it must end by itself and say why."""
    process = subprocess.Popen(judge.server.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=judge.server.environment())
    try:
        greeting = process.stdout.readline()  # empty when it ends without one
        ended = wait_ready(judge, process, greeting)
        if ended is None:
            return True
        errors = process.stderr.read().decode(errors="replace")
        judge.hold(0 < ended < 126 and "cannot be opened" in errors, f"--open-all ended with {ended}: {errors[-1500:]}")
        return False
    finally:
        process.kill()
        process.wait()


def wait_ready(judge, process, greeting):
    """None once the server is ready, else the exit status."""
    address = greeting.decode().split()[3] if greeting else None
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return process.returncode
        try:
            if address and requests.get(address + "/readyz", timeout=5).status_code == 200:
                return None
        except requests.RequestException:
            pass
        time.sleep(0.02)
    raise AssertionError(judge.story("--open-all neither came up nor ended"))


def look(judge, tenant, is_whole, seq):
    """The tenant of a spoiled file: it serves, or each request is told which event was refused."""
    path = tenant_path(tenant.name)
    response = judge.client.session.get(judge.server.url + path, timeout=60)
    judge.said.append(f"GET {path} -> {response.status_code} {response.text[:600]}")
    judge.hold(response.status_code == (200 if is_whole else 500), "a tenant opens otherwise than at the start")
    if is_whole:
        probe(judge, tenant, tenant.name)
    else:
        detail = response.json()["detail"]
        judge.hold("cannot be opened" in detail and re.search(r"event \d+", detail) is not None, "the event is not named")
