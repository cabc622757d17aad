#!/usr/bin/env python3
"""How many servers, PostgreSQL clusters and gigabytes a load needs, what breaks first, and what it costs (docs/SCALE.md).

    tools/scale.py fit build/bench/scale.jsonl tools/scale.json     what one server takes, from what `make bench-scale` has measured
    tools/scale.py servers [--clients 64] [--share 0.1]             what one, two and three servers of one tenant are to do: the prediction
    tools/scale.py plan --users 1e9 --rate 1e6 [--tenants N] [--components K] [--rewards .1] [--days 90] ...
    tools/scale.py table                                            the loads of docs/SCALE.md
    tools/scale.py check FILE                                       the prediction beside what tests/bench/cluster.py many has measured

Everything is a straight line in what was counted: processor time a decision, a reward, a turn, a line of others that is folded, and the same
at PostgreSQL. Latencies enter only where a tenant's turns are one after the other."""
import argparse
import json
import math
import pathlib
import statistics

HERE = pathlib.Path(__file__).resolve().parent
COSTS = HERE / "scale.json"


# ---- what was measured

def solve(rows, values):
    """Least squares by the normal equations: few unknowns, all of one size."""
    n = len(rows[0])
    a = [[sum(r[i] * r[j] for r in rows) for j in range(n)] + [sum(r[i] * v for r, v in zip(rows, values))] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(a[k][i]))
        a[i], a[pivot] = a[pivot], a[i]
        for k in range(n):
            if k != i:
                factor = a[k][i] / a[i][i]
                a[k] = [x - factor * y for x, y in zip(a[k], a[i])]
    return [a[i][n] / a[i][i] for i in range(n)]


def fit(path):
    lines = [json.loads(l) for l in pathlib.Path(path).read_text().splitlines()]

    def middle(kind, key, what="one"):
        return statistics.median(l[key] for l in lines if l["what"] == what and l.get("kind") == kind)

    # A decision is `decide` and a part of its turn: what eight clients take more than 64 is the turn's, since they wake as often for each.
    some, many = middle("some", "lines_a_turn"), middle("many", "lines_a_turn")
    turn = (middle("some", "cpu_us") - middle("many", "cpu_us")) / (1 / some - 1 / many)
    decide = middle("many", "cpu_us") - turn / many
    learn = middle("learn", "cpu_us") - turn / middle("learn", "lines_a_turn")
    pg = solve([(1 / middle(k, "lines_a_turn"), 1) for k in ("few", "some", "many", "learn")], [middle(k, "pg_cpu_us") for k in ("few", "some", "many", "learn")])
    folds = [l for l in lines if l["what"] == "fold"]
    opened, fold_decision, fold_reward, fold_batch = solve([(1, l["lines"] - l["learned"], l["learned"], l["batches"]) for l in folds], [1e6 * l["cpu_s"] for l in folds])
    if min(opened, fold_decision, fold_reward, fold_batch) < 0:
        raise SystemExit("the fold comes out as less than nothing: the runs were too short for this machine (--seconds, --rounds)")
    size = next(l for l in lines if l["what"] == "bytes")
    return {"decide_us": decide, "learn_us": learn, "turn_us": turn, "fold_decision_us": fold_decision, "fold_reward_us": fold_reward, "fold_batch_us": fold_batch,
            "open_us": opened, "pg_turn_us": pg[0], "pg_line_us": pg[1], "turn_ms": (middle("few", "take_us") + middle("few", "append_us")) / 1e3,
            "lines_a_turn": many, "dry_us": middle("dry", "cpu_us"), "alone_us": middle("many", "cpu_us", "alone"),
            "pg_bytes_a_line": size["pg_bytes_a_line"], "copy_bytes_a_line": size["copy_bytes_a_line"], "receive_us": statistics.median(l["cpu_us_a_line"] for l in lines if l["what"] == "receive")}


# ---- servers of one tenant

def decision_us(c, n, lines, rewards, forwarded=False):
    """Processor time of one server for each decision that it makes, where n share the tenant alike. With the rewards that come with it."""
    own = c["decide_us"] + rewards * c["learn_us"] + (1 + rewards) * c["turn_us"] / lines
    fold = c["fold_decision_us"] + rewards * c["fold_reward_us"] + (1 + rewards) * c["fold_batch_us"] / lines
    return own + (n - 1) * fold


def one_tenant(c, n, share, clients, rewards, lines=None):
    """(decisions a second of all n, what bounds them)."""
    by_cpu = n * share * 1e6 / decision_us(c, n, min(lines or c["lines_a_turn"], clients), rewards)
    by_turns = turns_bound(c, clients, rewards)
    return (by_cpu, "processors") if by_cpu <= by_turns else (by_turns, "turns")


def turns_bound(c, clients, rewards):
    """Decisions a second of a tenant whose turns come one after the other without a pause: each has what the clients of one server ask, at
    most. The writer's thread stages and applies a line in about the time that a fold of it takes."""
    return clients / (c["turn_ms"] / 1e3 + clients * (c["fold_decision_us"] + rewards * c["fold_reward_us"]) / 1e6)


def predict(c, args):
    least = one_tenant(c, 1, args.share, args.clients, args.rewards)[0]
    rows = []
    for n in (1, 2, 3):
        rate, bound = one_tenant(c, n, args.share, args.clients, args.rewards)
        rows.append({"servers": n, "rate": round(rate), "ratio": round(rate / least, 3), "cpu_us": round(decision_us(c, n, c["lines_a_turn"], args.rewards), 1), "bound": bound})
    return rows


# ---- a whole load

def plan(c, args):
    """Tenants of one size. One that a server cannot hold is shared by several; one that its turns cannot hold has to be split, by regions or by
    components of its graph."""
    c = {**c, "turn_ms": args.turn_ms}
    usable = args.cores * args.busy
    parts = args.tenants * args.components
    rate, users = args.rate / parts, args.users / parts
    alone = usable * 1e6 / decision_us(c, 1, args.lines, args.rewards)  # decisions a second of one server
    n = 1
    while n < 16 and one_tenant(c, n, usable, args.clients, args.rewards, args.lines)[0] < rate:
        n += 1
    spread = n if rate > alone else 1
    memory = users * args.user_bytes + rate * args.window_s * args.open_bytes + args.model_bytes  # of a tenant, at each server that has it
    servers = max(2, math.ceil(max(parts * spread if spread > 1 else args.rate / alone, parts * spread * memory / (args.memory_gb * 1e9 * args.busy))))
    lines = args.rate * (1 + args.rewards)
    turns = lines / min(args.lines, max(1, rate * args.turn_ms / 1e3))  # who writes alone has what came during the turn before
    pg_cores = (turns * c["pg_turn_us"] + lines * c["pg_line_us"]) / 1e6
    wal = lines * args.wal_bytes / 1e6
    disk = lines * 86400 * args.days * c["pg_bytes_a_line"] / 1e9
    copies = lines * 86400 * args.days * c["copy_bytes_a_line"] / 1e9 * spread
    used = {"turns of one tenant": rate / turns_bound(c, args.clients, args.rewards), "memory of one server": memory / (args.memory_gb * 1e9 * args.busy),
            "processors of one PostgreSQL": pg_cores / (args.pg_cores * args.busy), "write-ahead log of one PostgreSQL": wal / args.pg_wal_mb,
            "disk of one PostgreSQL": disk / args.pg_disk_gb}
    clusters = max(1, math.ceil(max(v for k, v in used.items() if k.endswith("PostgreSQL"))))
    fault = next((k for k in list(used)[:2] if used[k] > 1), None)
    if fault is None and parts < clusters:
        fault = "a tenant is in one PostgreSQL"
    first = max(used, key=used.get)
    money = (servers * args.cores + 3 * clusters * args.pg_cores) * args.core_month + (3 * disk + copies) * args.gb_month
    return {"users": args.users, "rate": args.rate, "tenants": args.tenants, "components": args.components, "servers": servers, "servers_of_a_tenant": spread,
            "memory_gb_of_a_tenant": round(memory / 1e9, 2), "pg_clusters": clusters, "pg_cores": round(pg_cores, 1), "pg_disk_gb": round(disk), "copies_gb": round(copies),
            "first": first, "first_at": round(1 / used[first], 2), "cannot": fault, "a_month": round(money)}


LOADS = ((1e5, 100, 1, 1), (1e6, 1e3, 1, 1), (1e6, 1e4, 1, 1), (1e7, 1e4, 100, 1), (1e8, 1e5, 1, 1), (1e8, 1e5, 1, 64), (1e9, 1e6, 1, 1), (1e9, 1e6, 1, 1000), (1e9, 1e6, 10000, 1))


def table(c, args):
    print("| users | decisions/s | tenants x components | servers (of one tenant) | memory of a tenant, GB | PostgreSQL clusters (processors at work) | their disks, copies, TB | what ends first, at how many times this load in one | a month |")
    print("|---|---|---|---|---|---|---|---|---|")
    for users, rate, tenants, components in LOADS:
        p = plan(c, argparse.Namespace(**{**vars(args), "users": users, "rate": rate, "tenants": tenants, "components": components}))
        servers = f"{p['servers']:,} ({p['servers_of_a_tenant']})" if p["cannot"] is None else f"**cannot be**: {p['cannot']}"
        money = f"{p['a_month']:,}" if p["cannot"] is None else ""
        print(f"| {users:.0e} | {rate:,.0f} | {tenants:,} x {components:,} | {servers} | {p['memory_gb_of_a_tenant']:,} | {p['pg_clusters']:,} ({p['pg_cores']:,}) | "
              f"{p['pg_disk_gb'] / 1e3:,.1f}, {p['copies_gb'] / 1e3:,.1f} | {p['first']}, {p['first_at']} | {money} |")


def check(c, args):
    lines = [json.loads(l) for l in pathlib.Path(args.file).read_text().splitlines()]
    found = {l["servers"]: l for l in lines if l["what"] == "verdict"}
    worst = 0.0
    for row in predict(c, args):
        got = found[row["servers"]]
        off = row["ratio"] / got["ratio"] - 1
        worst = max(worst, abs(off))
        print(f"{row['servers']} servers: predicted {row['ratio']:.2f} of one, {row['cpu_us']:.0f} us a decision; measured {got['ratio']:.2f}, {got['cpu_us']:.0f} us "
              f"({got['ratio_by_cpu']:.2f} by processor time); off by {100 * off:+.0f} %")
    print(f"the worst is off by {100 * worst:.0f} %; 15 were asked")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("fit", "servers", "plan", "table", "check"))
    p.add_argument("file", nargs="?")
    p.add_argument("to", nargs="?")
    for name, value, said in (
            ("users", 1e6, ""), ("rate", 1e3, "decisions a second"), ("rewards", 0.1, "for each decision"), ("days", 30.0, "that lines are kept"),
            ("share", 0.1, "of a processor that each server has (servers, check)"), ("clients", 64, "that wait at each server: what a turn has at most"),
            ("lines", 64.0, "in a turn of a busy tenant"), ("turn-ms", 3.0, "a turn's two round trips and its commit"), ("cores", 16, "of a server"),
            ("busy", 0.6, "share of a machine that may be used"), ("memory-gb", 128.0, "of a server"), ("user-bytes", 600.0, "memory of a user"),
            ("open-bytes", 700.0, "memory of an open decision"), ("window-s", 3600.0, "how long a decision is open"), ("model-bytes", 5e6, "memory of a tenant's model"),
            ("pg-cores", 16, "of a PostgreSQL"), ("pg-wal-mb", 200.0, "write-ahead log a second that it can write and send"), ("pg-disk-gb", 8000.0, ""),
            ("wal-bytes", 330.0, "write-ahead log of a line"), ("core-month", 20.0, "price of a core"), ("gb-month", 0.1, "price of a gigabyte on disk")):
        p.add_argument("--" + name, type=type(value), default=value, help=said)
    p.add_argument("--tenants", type=int, default=1)
    p.add_argument("--components", type=int, default=1, help="parts of each tenant's graph that no edge joins, each a tenant of its own")
    args = p.parse_args()
    if args.what == "fit":
        found = {k: round(v, 3) for k, v in fit(args.file).items()}
        pathlib.Path(args.to or COSTS).write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps(found, indent=1))
        return
    c = json.loads(COSTS.read_text())
    if args.what in ("plan", "table") and args.clients == 64:
        args.clients = 512  # more come while they wait
    if args.what == "servers":
        for row in predict(c, args):
            print(json.dumps(row))
    elif args.what == "plan":
        print(json.dumps(plan(c, args), indent=1))
    elif args.what == "table":
        table(c, args)
    else:
        check(c, args)


if __name__ == "__main__":
    main()
