"""One log, taught to Vowpal Wabbit and to laplaced: what would each show to the next visitors, and what does that earn?

  python3 tools/league/vw_log.py OUT FILE --vw PATH [--lines "500 2000 5000"] [--seeds N] [--page docs/BESIDE_VW.md]
      OUT: a build folder such as build/release; FILE: where JSON lines go; PATH: an installed vw of version 9

A shop whose rates are known shows one of 10 articles: a visitor has a device, a town and an hour, an article a topic, a price and an age.
Its log is dsjson, with true probabilities: half of the decisions go to an article that is popular, the rest to any. Vowpal Wabbit reads the
file once. laplaced's tenants are what `laplacectl tenant from-vw` makes of the same flags, and what is made when nothing is set but the
mapping of names; they learn the file by `laplacectl import --format dsjson`. Then both are asked for 1,000 visitors whom the log does
not have, by the same JSON: what counts is the click rate of the article that each holds for the best, computed and not drawn, and how
often both hold the same."""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests/bench"))
from checks import Server  # noqa: E402
from league import memory  # noqa: E402
from lines import Lines  # noqa: E402
from report import put_table  # noqa: E402
from rows import Connection  # noqa: E402

ARTICLES, VISITORS, POPULAR = 10, 1000, 0.5
FLAGS = "--cb_explore_adf --epsilon 0.1 -q UA"
ROWS = {"VW, mtr": "--cb_type mtr", "VW, dr": "--cb_type dr", "VW, ips": "--cb_type ips", "laplaced, from-vw": None, "laplaced, nothing set": None}
DEFAULT = {"features": {"mapping": "names-1"}}


class Shop:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.articles = [{"topic": f"t{i % 5}", "price": self.random.choice(["low", "mid", "high"]), "age": round(10 * self.random.random(), 1)}
                         for i in range(ARTICLES)]
        self.taste = {(town, f"t{k}"): self.random.gauss(0, 0.08) for town in range(6) for k in range(5)}
        self.device = {(d, p): self.random.gauss(0, 0.04) for d in ("phone", "desk", "tablet") for p in ("low", "mid", "high")}
        self.popular = self.random.randrange(ARTICLES)

    def visitor(self):
        return {"device": self.random.choice(["phone", "desk", "tablet"]), "town": f"w{self.random.randrange(6)}", "hour": f"h{self.random.randrange(24)}"}

    def rates(self, visitor):
        town = int(visitor["town"][1:])
        return [min(0.95, max(0.01, 0.2 + self.taste[town, a["topic"]] + self.device[visitor["device"], a["price"]] - 0.008 * a["age"]))
                for a in self.articles]

    def asked(self, visitor):
        """The part of a line that both read."""
        return {"U": visitor, "_multi": [{"_tag": f"a{i}", "A": a} for i, a in enumerate(self.articles)]}

    def line(self, number):
        visitor = self.visitor()
        p = [(1 - POPULAR) / ARTICLES + POPULAR * (i == self.popular) for i in range(ARTICLES)]
        shown = self.random.choices(range(ARTICLES), p)[0]
        clicked = self.random.random() < self.rates(visitor)[shown]
        return {"_label_cost": -float(clicked), "_label_probability": p[shown], "_label_Action": shown + 1, "_labelIndex": shown,
                "o": [{"v": float(clicked), "EventId": f"e{number}"}], "Timestamp": "2026-11-01T00:00:00Z", "Version": "1", "EventId": f"e{number}",
                "a": [shown + 1, *(i + 1 for i in range(ARTICLES) if i != shown)], "c": self.asked(visitor),
                "p": [p[shown], *(q for i, q in enumerate(p) if i != shown)]}


def written(path, lines):
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return path


def asked_of_wabbit(program, options, log, shop, visitors, folder):
    """The article that it holds for the best, of each visitor."""
    def run(*more):
        subprocess.run([program, "--dsjson", "--quiet", *more], check=True, cwd=folder)
    run(*FLAGS.split(), *options.split(), "-d", str(log), "-f", "model")
    written(folder / "probes", [{"Version": "1", "EventId": f"v{i}", "a": list(range(1, ARTICLES + 1)), "c": shop.asked(v)} for i, v in enumerate(visitors)])
    run("-t", "-i", "model", "-d", "probes", "-p", "told")
    answers = [line for line in (folder / "told").read_text().splitlines() if line]
    assert len(answers) == len(visitors)
    return [int(max((part.split(":") for part in line.split(",")), key=lambda x: float(x[1]))[0]) for line in answers]


def asked_of_us(server, name, configuration, log, shop, visitors):
    server.run("tenant", "put", name, "-", stdin=json.dumps(configuration).encode())
    server.run("--tenant", name, "--timeout", "900", "import", "--format", "dsjson", str(log))
    best, connection = [], Connection(server.url)
    for v in visitors:
        answer = connection.call("POST", "/select", name, {
            "user": "-", "context": {"U": v}, "dry_run": True, "explain": True,
            "candidates": [{"id": f"a{i}", "features": {"A": a}} for i, a in enumerate(shop.articles)]})
        best.append(int(max(answer["ranking"], key=lambda r: r["mean"])["arm"][1:]))
    connection.close()
    return best


def measure(args, emit):
    with tempfile.TemporaryDirectory(dir=memory()) as name:
        folder = pathlib.Path(name)
        server = Server(args.out.resolve(), folder / "data", "--finish-builds", "--default-tenant", "none", "--log-requests", "none")
        ctl = [str(args.out.resolve() / "laplacectl"), "tenant", "from-vw", f"vw {FLAGS}"]
        translated = json.loads(subprocess.run(ctl, check=True, capture_output=True).stdout)
        try:
            for seed in range(args.seeds):
                shop = Shop(seed)
                lines, visitors = [shop.line(i) for i in range(max(args.lines))], [shop.visitor() for _ in range(VISITORS)]
                rates = [shop.rates(v) for v in visitors]
                for n in args.lines:
                    log, chosen = written(folder / "log", lines[:n]), {}
                    for row, options in ROWS.items():
                        configuration = translated if row.endswith("from-vw") else DEFAULT
                        chosen[row] = (asked_of_wabbit(args.vw, options, log, shop, visitors, folder) if options else
                                       asked_of_us(server, f"t{seed}-{n}-{len(chosen)}", configuration, log, shop, visitors))
                    for row, best in chosen.items():
                        emit({"bench": "vw-log", "row": row, "lines": n, "seed": seed, "reward": statistics.mean(r[b] for r, b in zip(rates, best)),
                              "same_as_vw": statistics.mean(a == b for a, b in zip(best, chosen["VW, mtr"]))})
                    emit({"bench": "vw-log", "row": "best", "lines": n, "seed": seed, "reward": statistics.mean(map(max, rates)), "same_as_vw": None})
                    emit({"bench": "vw-log", "row": "any", "lines": n, "seed": seed, "reward": statistics.mean(map(statistics.mean, rates)), "same_as_vw": None})
        finally:
            server.stop()


def table(lines):
    sizes = sorted({line["lines"] for line in lines})

    def of(row, n, key):
        values = [line[key] for line in lines if line["row"] == row and line["lines"] == n]
        return values if None not in values else []

    def said(row, n):
        x, same = of(row, n, "reward"), of(row, n, "same_as_vw")
        error = statistics.stdev(x) / len(x) ** 0.5 if len(x) > 1 else 0
        return f"{statistics.mean(x):.4f} ± {error:.4f}" + (f" ({100 * statistics.mean(same):.0f} %)" if same and row != "VW, mtr" else "")
    rows = [*ROWS, "any", "best"]
    head = ["| |", *(f" {n:,} decisions |" for n in sizes)]
    return "\n".join(["".join(head), "|---" * (len(sizes) + 1) + "|", *("| " + row + " | " + " | ".join(said(row, n) for n in sizes) + " |" for row in rows)])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--vw", required=True)
    p.add_argument("--lines", type=lambda text: [int(n) for n in text.split()], default=[500, 2000, 5000])
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--page", type=pathlib.Path, help="where the table goes")
    args = p.parse_args()
    args.vw = os.path.realpath(args.vw)
    told = []
    with Lines(args.file) as emit:
        measure(args, lambda line: (emit(line), told.append(line)))
    print(table(told))
    if args.page:
        put_table(args.page, "log", table(told))


if __name__ == "__main__":
    main()
