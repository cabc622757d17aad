"""Rewards by user beside rewards by decision, over many open decisions: processor time of the server for each, in turns, of one
tenant whose log is made here and imported.

  python3 tests/bench/by_user.py OUT [--open N] [--rewards N]     OUT: build/release

Ten decisions a user are open. Rewards go in arrays of 1,000; those by decision and those by user are drawn alike, so both miss
the caches. The last line is their quotient, which the index by user keeps below 1.5."""
import argparse
import json
import os
import pathlib
import random
import subprocess
import tempfile
import time
import urllib.request

PER_USER, IN_ARRAY = 10, 1000


def call(url, method, path, body=None, tenant=None, kind="application/json"):
    data = body if body is None or isinstance(body, (bytes, pathlib.Path)) else json.dumps(body).encode()
    headers = {"Content-Type": kind, **({"Laplaced-Tenant": tenant} if tenant else {})}
    if isinstance(data, pathlib.Path):
        headers["Content-Length"], data = str(data.stat().st_size), data.open("rb")
    with urllib.request.urlopen(urllib.request.Request(url + path, data, headers, method=method), timeout=600) as answer:
        return answer.read()


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write_log(url, path, n):
    """A log of n open decisions, from the lines that the server itself writes."""
    call(url, "PUT", "/tenants/first", {"algorithm": "ucb", "reward_window_s": 2592000, "default_reward": None})
    call(url, "POST", "/select", {"user": "u", "candidates": ["a", "b"], "decision": "d"}, tenant="first")
    configured, decided = call(url, "GET", "/tenants/first/events").decode().splitlines()
    line = json.loads(decided)
    with path.open("w") as log:
        log.write(configured + "\n")
        for i in range(n):
            log.write(json.dumps({**line, "seq": i + 2, "decision": f"d{i}", "user": f"u{i % (n // PER_USER)}"}) + "\n")


def measure(url, pid, n_open, n_rewards, rng):
    """us of processor time for one reward, by decision and by user."""
    spent = {"decision": 0.0, "user": 0.0}
    ids = {"decision": iter(rng.sample(range(n_open), n_open)), "user": iter(rng.sample(range(n_open // PER_USER), n_open // PER_USER))}
    turns = ["decision", "user"]  # the first of each is not counted: what it finds has just been imported
    for _ in range(n_rewards // IN_ARRAY):
        turns += rng.sample(["decision", "user"], 2)
    for turn, key in enumerate(turns):
        body = json.dumps([{key: f"{key[0]}{next(ids[key])}", "reward": 1} for _ in range(IN_ARRAY)]).encode()
        time.sleep(0.02)  # what the turn before has left to do
        before = cpu_s(pid)
        call(url, "POST", "/reward", body, tenant="shop")
        time.sleep(0.02)
        spent[key] += cpu_s(pid) - before if turn > 1 else 0
    return {key: 1e6 * s / n_rewards for key, s in spent.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--open", type=int, default=1000000)
    parser.add_argument("--rewards", type=int, default=40000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        command = [f"{options.out}/laplaced", "--data", str(folder / "data"), "--listen", "127.0.0.1:0", "--snapshot-events", "100000000",
                   "--max-pending", str(2 * options.open)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            url = process.stdout.readline().decode().split()[3]
            write_log(url, folder / "log", options.open)
            call(url, "POST", "/tenants/shop/import", folder / "log", kind="application/x-ndjson")
            assert json.loads(call(url, "GET", "/tenants/shop/stats"))["pending"] == options.open
            us = measure(url, process.pid, options.open, min(options.rewards, options.open // PER_USER - IN_ARRAY), random.Random(1))
        finally:
            process.kill()
            process.wait()
    print(f"{options.open} open decisions, us of processor time a reward: by decision {us['decision']:.1f}, by user {us['user']:.1f}")
    print(f"by user / by decision: {us['user'] / us['decision']:.2f}")


if __name__ == "__main__":
    main()
