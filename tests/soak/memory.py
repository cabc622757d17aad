"""Memory over a million requests: whether what the server holds depends on what it has served.

  python3 tests/soak/memory.py OUT FILE [--requests N] [--slices N]     OUT: a build folder such as build/release

Decisions and their rewards (laplacectl replay, users, arms and contexts that come again), with malformed traffic beside them,
in slices; after each the resident memory is read. The first fifth warms up: dictionaries, pools and caches of SQLite fill. From
then on the line through the readings must be flat: less than SLACK of what is held then, over all the rest. One JSON line goes to FILE."""
import argparse
import json
import multiprocessing
import pathlib
import random
import subprocess
import sys
import tempfile

from malformed import Server, settle, work

SLACK = 0.05
USERS, ARMS, CONTEXTS = 200, 4, 5
CLIENTS = 16


def traffic(path, n):
    """Full information; each of the users, contexts and arms comes again and again."""
    rng = random.Random(1)
    with open(path, "w") as file:
        for _ in range(n):
            user, context = rng.randrange(USERS), rng.randrange(CONTEXTS)
            rewards = {f"a{i}": round(((user * 7 + i * 13 + context) % 20) / 20, 2) for i in range(ARMS)}
            file.write(json.dumps({"user": f"u{user}", "context": [context / CONTEXTS], "rewards": rewards}) + "\n")


def slope(points):
    """Least squares: kB a request."""
    n, mx, my = len(points), sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)
    return sum((x - mx) * (y - my) for x, y in points) / max(1e-9, sum((x - mx) ** 2 for x, _ in points)) if n > 1 else 0.0


def measure(args, folder):
    server = Server(str(args.out / "laplaced"), folder)
    try:
        server.call("PUT", "/tenants/memory", {"context_dim": 1, "retention": {"events": 20000}})
        file = folder / "traffic"
        lines = args.requests // args.slices // 2
        traffic(file, lines)
        points, n_bad = [(0, server.status("VmRSS"))], 0
        descriptors = server.descriptors()
        for i in range(args.slices):
            results = multiprocessing.Queue()
            beside = multiprocessing.Process(target=work, args=(server.port, 1000 + i, server.key, args.beside, results))
            beside.start()
            done = subprocess.run([str(args.out / "laplacectl"), "--server", server.url, "--key", server.key, "--tenant", "memory", "replay",
                                   str(file), "--concurrency", str(CLIENTS), "--quiet", "--json"], check=True, stdout=subprocess.PIPE)
            counts, fault = results.get()
            beside.join()
            assert fault is None, fault
            n_bad += sum(n for kind, n in counts.items() if not kind.startswith("answer"))
            sent = json.loads(done.stdout)
            assert sent["errors"] == 0, sent
            points.append((points[-1][0] + sent["requests"], server.status("VmRSS")))
            print(f"{points[-1][0]:>9,} requests, {points[-1][1]:>7,} kB, {server.descriptors()} descriptors", file=sys.stderr)
        left = settle(server, descriptors + 40)
        warm = points[len(points) // 5:]
        growth = slope(warm) * (warm[-1][0] - warm[0][0])
        result = {"soak": "memory", "requests": points[-1][0], "malformed": n_bad, "rss_kb": points, "held_kb": warm[0][1],
                  "growth_kb": round(growth), "bytes_per_request": round(slope(warm) * 1024, 3), "descriptors_left": max(0, left),
                  "peak_kb": server.status("VmHWM")}
        return result, growth <= SLACK * warm[0][1] and left <= 0
    finally:
        server.process.terminate()
        server.process.wait(120)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--requests", type=int, default=1000000)
    p.add_argument("--slices", type=int, default=20)
    p.add_argument("--beside", type=float, default=2, help="seconds of malformed traffic in each slice")
    args = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="laplaced-memory-") as folder:
        result, is_flat = measure(args, pathlib.Path(folder))
    args.file.parent.mkdir(parents=True, exist_ok=True)
    with open(args.file, "a") as file:
        file.write(json.dumps(result) + "\n")
    print(json.dumps(result))
    sys.exit(0 if is_flat else 1)


if __name__ == "__main__":
    main()
