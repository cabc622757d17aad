"""Algorithms beside each other: every row plays every task, some seeds each, one decision after the other.

  python3 tools/league/league.py OUT FILE [--league "ab town"] [--seeds N] [--rows "laplaced,Beta-TS"] [--most ROUNDS] [--data DIR]
                                 [--vw PATH] [--jobs N]
      OUT: a build folder such as build/release; FILE: JSON lines, one for each task, row and seed
      --league: names of tasks or of their groups. With this or --rows the lines in FILE of all that is not played stay
      --most: rounds of a task at most, for a quick look; --jobs: processes, each with a server of its own

Ours are tenants of a server on loopback that is started here with --finish-builds, whose decisions are a function of requests and
seed (docs/decisions/0073): a run can be repeated bit by bit. report.py makes the page of the lines."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import rows as league_rows
import tasks as league_tasks

from checks import Server  # of tests/bench, whose folder rows.py has put into the path
from lines import Lines
from loop import blas_core

N_POINTS = 50  # of a curve


def play(task, row, seed, server, world):
    """One run: {score, ...}. The score is a total of regret, or a mean reward."""
    line = {"task": task.name, "row": row.name, "seed": seed, "rounds": world.rounds}
    lacks = row.lacks(task, world)
    if lacks:
        return {**line, "skipped": lacks}
    scores, pulls, waiting = [], [0] * world.arms, []
    began = time.monotonic()
    try:
        row.open(task, world, seed, server)
        for t in range(world.rounds):
            user, context = int(world.user[t]), None if world.context is None else world.context[t]
            arm = row.choose(t, user, context, world.candidates(t))
            scores.append(float(world.score(t, arm)))
            pulls[arm] += t >= world.rounds // 2
            waiting.append((t, user, context, arm, float(world.reward(t, arm))))
            while waiting and waiting[0][0] <= t - task.delay:
                row.learn(*waiting.pop(0))
    except (league_rows.Refused, OSError) as why:
        return {**line, "failed": str(why)}
    finally:
        row.close()
    half = world.rounds // 2
    score = {league_tasks.REGRET: sum(scores), league_tasks.REWARD: sum(scores) / len(scores),
             league_tasks.ALIVE: min(pulls) * world.arms / max(1, sum(pulls))}[task.measure]
    step = max(1, world.rounds // N_POINTS)
    totals = [sum(scores[i:i + step]) for i in range(0, world.rounds, step)]
    curve = [round(sum(totals[:k + 1]), 4) for k in range(len(totals))]
    return {**line, "score": score, "halves": [sum(scores[:half]), sum(scores[half:])], "curve": curve, "step": step,
            "seconds": round(time.monotonic() - began, 2)}


def memory():
    """A folder in memory where there is such a place: no disk is measured here."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def start(out):
    """A server on a folder of its own."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="league", dir=memory()))
    return Server(out, folder / "data", "--finish-builds", "--default-tenant", "none", "--log-requests", "none"), folder


def stop(server, folder):
    server.process.stdout.close()
    server.stop()
    shutil.rmtree(folder)


def run_share(args, todo):
    """The runs of one process: yields their lines."""
    tasks = {t.name: t for t in league_tasks.all_tasks(args.data, args.most)}
    rows = {r.name: r for r in league_rows.all_rows(args.vw)}
    server, folder = start(args.out.resolve())
    try:
        core, of, world = blas_core(folder / "data.log"), None, None
        for task, row, seed in todo:
            if of != (task, seed):
                of, world = (task, seed), tasks[task].make(seed)
            yield {**play(tasks[task], rows[row], seed, server, world), "blas_core": core}
    finally:
        stop(server, folder)


def share(args, todo):
    return list(run_share(args, todo))


def default_of(args):
    """What a tenant is when nothing is set, as the server tells it."""
    server, folder = start(args.out.resolve())
    try:
        connection = league_rows.Connection(server.url)
        told = {}
        for name, dims in (("plain", {}), ("contexts", {"context_dim": 2}), ("features", {"arm_dim": 2})):
            c = connection.call("PUT", f"/tenants/{name}", name, dims)["configuration"]
            told[name] = {k: c.get(k) for k in ("algorithm", "user_kernel", "context_kernel", "arm_kernel", "representation", "rule", "tune")}
        connection.close()
        return {"default": told}
    finally:
        stop(server, folder)


def chosen(tasks, words):
    wanted = words.split()
    known = {t.name for t in tasks} | {t.group for t in tasks}
    unknown = [w for w in wanted if w not in known]
    if unknown:
        raise SystemExit(f"no task or group {', '.join(unknown)}; there are: {' '.join(sorted(known))}")
    return [t for t in tasks if not wanted or t.name in wanted or t.group in wanted]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    for option, kind, default in (("league", str, ""), ("seeds", int, 3), ("rows", str, ""), ("most", int, None), ("data", str, None), ("vw", str, None),
                                  ("jobs", int, 1)):
        parser.add_argument("--" + option, type=kind, default=default)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the server ends as well
    if args.vw and not shutil.which(args.vw):
        raise SystemExit(f"no program {args.vw}")
    tasks = chosen(league_tasks.all_tasks(args.data, args.most), args.league)
    rows = [r.name for r in league_rows.all_rows(args.vw) if not args.rows or r.name in args.rows.split(",")]
    todo = [(t.name, row, seed) for t in tasks if not t.needs for seed in range(args.seeds) for row in rows]
    names = {t.name for t in tasks}
    kept = []
    if (args.league or args.rows) and args.file.exists():
        kept = [line for line in map(json.loads, args.file.read_text().splitlines())
                if "task" in line and (line["task"] not in names or line.get("row", rows[0]) not in rows)]
    with Lines(args.file) as emit:
        for line in [default_of(args), *kept, *({"task": t.name, "skipped": t.needs} for t in tasks if t.needs)]:
            emit(line)
        began, n = time.monotonic(), 0

        def note(line):
            nonlocal n
            n += 1
            emit(line)
            said = line.get("failed") or line.get("skipped") or f"{line['score']:.4g} in {line['seconds']} s"
            print(f"{n}/{len(todo)} {time.monotonic() - began:.0f} s  {line['task']} {line['row']} {line['seed']}: {said[:150]}", flush=True)
        if args.jobs == 1:
            for line in run_share(args, todo):
                note(line)
        else:
            parts = [todo[i:i + len(rows)] for i in range(0, len(todo), len(rows))]
            with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
                for done in concurrent.futures.as_completed([pool.submit(share, args, part) for part in parts]):
                    for line in done.result():
                        note(line)


if __name__ == "__main__":
    sys.exit(main())
