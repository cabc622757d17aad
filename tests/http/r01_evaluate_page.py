"""laplacectl evaluate --html and several policies: what is plotted against dense computations, the page against the JSON."""
import fcntl
import hashlib
import json
import os
import pathlib
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import evaluate_page
import r00_evaluate as base
from harness import CTL

oracle = base.oracle
SVG = "{http://www.w3.org/2000/svg}"
XHTML = "{http://www.w3.org/1999/xhtml}"


def page(tmp_path, *args, stdin=None):
    """(what the page's script has drawn, what was printed as JSON, which is the page's as well)."""
    path = tmp_path / "page.html"
    told = json.loads(base.run("--html", path, "--json", *args, stdin=stdin).stdout)
    assert not list(tmp_path.glob("*.part")) and evaluate_page.embedded(path) == told
    return ElementTree.fromstring(evaluate_page.drawn(path)), told


def table(root, name):
    found = root.find(f".//{XHTML}table[@id='{name}']")
    return [["".join(cell.itertext()) for cell in row] for row in found.iter(f"{XHTML}tr")][1:]


def drawing(root, name):
    return root.find(f".//{SVG}svg[@id='{name}']")


def short(v):
    return "–" if v is None else f"{v:.6g}"


def assert_on_a_line(pixels, values):
    """Pixels are an affine function of the values, as far as two decimals allow."""
    slope, offset = np.polyfit(values, pixels, 1)
    assert abs(slope) > 0 and np.abs(slope * np.array(values) + offset - pixels).max() < 0.02


def csv_log(n, seed, ids="abcde"):
    rng, p = np.random.default_rng(seed), np.array([0.1, 0.15, 0.2, 0.25, 0.3])
    arms = rng.choice(len(ids), size=n, p=p)
    rewards = rng.random(n) < 0.1 + 0.15 * arms
    return "user,arm,reward,propensity\n" + "".join(f"u,{ids[a]},{int(r)},{p[a]!r}\n" for a, r in zip(arms, rewards))


def columns(text):
    rows = [line.split(",") for line in text.splitlines()[1:]]
    return [r[1] for r in rows], np.array([float(r[2]) for r in rows]), np.array([float(r[3]) for r in rows])


TABLE = {"a": 0.3, "b": 0.25, "c": 0.2, "d": 0.15, "e": 0.1}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "d.csv").write_text("item_id,probability\n" + "".join(f"{a},{p}\n" for a, p in TABLE.items()))
    return tmp_path


@pytest.mark.parametrize("n", [7, 1003, 9001])
def test_what_is_plotted_equals_dense_sums(files, n):
    """At 9001 events a block is two of them, so a stretch of the log has an even number."""
    text = csv_log(n, n)
    got = base.evaluate("csv", f"distribution:{files / 'd.csv'}", "-", "--min-ess", "0.1", "--resamples", "60", stdin=text.encode())
    arms, reward, p = columns(text)
    w = np.array([TABLE[a] for a in arms]) / p
    size = 2 if n > 8192 else 1
    m = -(-n // size)
    parts = min(m, 20)
    start = [i * m // parts * size for i in range(parts)] + [n]
    assert got["series"]["from"] == start[:-1] and got["series"]["events"] == np.diff(start).tolist()
    for name, num, den in (("logged", reward, np.ones(n)), ("ips", w * reward, np.ones(n)), ("snips", w * reward, w)):
        for i in range(parts):
            k = slice(start[i], start[i + 1])
            point = [got["series"][name][key][i] for key in ("estimate", "lower", "upper")]
            assert point[0] == pytest.approx(num[k].sum() / den[k].sum(), rel=1e-9)
            with pytest.MonkeyPatch.context() as patch:  # within the blocks of the whole log
                patch.setattr(oracle, "blocks", lambda x: np.add.reduceat(x, np.arange(0, len(x), size)))
                want = oracle.bca(num[k], den[k], 0.95, 60, 1) or [None, None]
            assert point[1:] == [None if v is None else pytest.approx(v, rel=1e-9, abs=1e-12) for v in want], (name, i)
    histogram = got["weights"]["histogram"]
    want = np.bincount((np.floor(4 * np.log10(w)) + 20).astype(int), minlength=40)
    mass = np.bincount((np.floor(4 * np.log10(w)) + 20).astype(int), weights=w, minlength=40)
    used = np.flatnonzero(want)
    assert histogram["zero"] == 0 and histogram["counts"] == want[used[0]:used[-1] + 1].tolist()
    assert histogram["mass"] == pytest.approx(mass[used[0]:used[-1] + 1], rel=1e-9)
    assert histogram["edges"] == pytest.approx(10.0 ** (np.arange(used[0], used[-1] + 2) / 4 - 5), rel=1e-12)
    shown = {a["arm"]: a["logged"] for a in got["shares"]["arms"]}
    assert shown == {a: pytest.approx(arms.count(a) / n) for a in set(arms)}
    assert {a["arm"]: a["target"] for a in got["shares"]["arms"]} == {a: pytest.approx(TABLE[a]) for a in set(arms)}


def test_of_many_arms_the_others_are_told_together():
    rows = [f"u,a{i:03d},{i % 2},0.01" for i in range(80) for _ in range(1 + (i < 10))]
    got = base.evaluate("csv", "uniform", "-", "--min-ess", "0.1", stdin=base.generic(*rows))["shares"]
    assert [a["arm"] for a in got["arms"]] == [f"a{i:03d}" for i in range(50)] and got["others"]["arms"] == 30
    assert got["others"]["logged"] == pytest.approx(30 / 90) and sum(a["logged"] for a in got["arms"]) == pytest.approx(60 / 90)
    assert got["others"]["target"] + sum(a["target"] for a in got["arms"]) == pytest.approx(1)


def test_differences_are_those_of_a_paired_bootstrap(files):
    text = csv_log(2500, 5)
    told = json.loads(base.run("--format", "csv", "--policy", "uniform", "--policy", f"distribution:{files / 'd.csv'}", "--json",
                               "--resamples", "200", "-", stdin=text.encode()).stdout)
    arms, reward, p = columns(text)
    one = np.ones(len(p))
    w, v = 0.2 / p, np.array([TABLE[a] for a in arms]) / p
    assert [e["name"] for e in told["policies"]] == ["uniform", "distribution:d.csv"]
    [difference] = told["differences"]
    assert (difference["policy"], difference["against"]) == ("distribution:d.csv", "uniform")
    terms = {"ips": ((v * reward, one), (w * reward, one)), "snips": ((v * reward, v), (w * reward, w))}
    for name, (a, b) in terms.items():
        got = difference[name]
        assert got["estimate"] == pytest.approx(a[0].sum() / a[1].sum() - b[0].sum() / b[1].sum(), rel=1e-9)
        assert [got["lower"], got["upper"]] == pytest.approx(oracle.bca_difference(a, b, 0.95, 200, 1), rel=1e-9)
        gain = told["policies"][1]["gain"][name]
        assert [gain["lower"], gain["upper"]] == pytest.approx(oracle.bca_difference(a, (reward, one), 0.95, 200, 1), rel=1e-9)
    assert set(difference) == {"policy", "against", *base.ESTIMATORS, "ips_by_slot", "pseudo_inverse"}


def test_each_of_several_policies_has_the_report_it_has_alone(files):
    """Also from standard input, which is there once; and policies whose vectors differ."""
    log = csv_log(400, 6).encode()
    kinds = ["uniform", f"distribution:{files / 'd.csv'}", base.config(files, algorithm="ucb"),
             base.config(files, algorithm="k-ucb", context_dim=2, arm_dim=3), "logged"]
    both = json.loads(base.run("--format", "csv", *(x for k in kinds for x in ("--policy", k)), "--json", "-", stdin=log).stdout)
    for kind, got in zip(kinds, both["policies"]):
        alone = base.evaluate("csv", kind, "-", stdin=log)
        for value in (got, alone):
            del value["cpu_seconds"]
        assert got == {k: v for k, v in alone.items() if k not in ("parameters", "files")}
    assert both["files"][0] == {"role": "log", "name": "standard input", "bytes": len(log), "sha256": hashlib.sha256(log).hexdigest()}
    assert [f["role"] for f in both["files"]] == ["log"] + 3 * ["policy"] and both["policies"][4]["gain"] == {}


def test_a_policy_does_not_differ_from_itself(files):
    told = json.loads(base.run("--format", "csv", "--policy", "uniform", "--policy", "uniform", "--json", "-",
                               stdin=csv_log(300, 7).encode()).stdout)
    for name in ("ips", "snips", "dr"):
        assert told["differences"][0][name] == {"estimate": 0, "lower": None, "upper": None}


def test_pairing_lets_what_is_common_cancel(files):
    """Two policies that are nearly the same: their difference is known far better than either of them."""
    near = {"a": 0.22, "b": 0.2, "c": 0.2, "d": 0.2, "e": 0.18}
    (files / "n.csv").write_text("item_id,probability\n" + "".join(f"{a},{p}\n" for a, p in near.items()))
    told = json.loads(base.run("--format", "csv", "--policy", "uniform", "--policy", f"distribution:{files / 'n.csv'}", "--json", "-",
                               stdin=csv_log(3000, 8).encode()).stdout)
    for name in ("ips", "snips", "dr"):
        width = told["policies"][0][name]["upper"] - told["policies"][0][name]["lower"]
        assert told["differences"][0][name]["upper"] - told["differences"][0][name]["lower"] < 0.4 * width


# --- the page ------------------------------------------------------------------------------------------------------------

def test_the_page_tells_what_the_json_tells(files):
    (files / "log.csv").write_text(csv_log(1500, 9))
    root, told = page(files, "--format", "csv", "--policy", "uniform", "--policy", f"distribution:{files / 'd.csv'}", files / "log.csv")
    assert json.loads("".join(root.find(f".//{XHTML}pre[@id='json']").itertext())) == told
    policies = told["policies"]
    rows = table(root, "estimates")
    wanted = [policies[0]["logged"]] + [p[name] for p in policies for name in base.ESTIMATORS]
    assert [r[2:5] for r in rows] == [[short(e[k]) for k in ("estimate", "lower", "upper")] for e in wanted]
    dots = [float(c.get("cx")) for c in drawing(root, "forest").iter(f"{SVG}circle")]
    assert_on_a_line(dots, [e["estimate"] for e in wanted])
    changes = [p["gain"][name] for p in policies for name in base.ESTIMATORS if name in p["gain"]] + [told["differences"][0][name] for name in base.ESTIMATORS]
    assert [r[2:5] for r in table(root, "differences")] == [[short(d[k]) for k in ("estimate", "lower", "upper")] for d in changes]
    assert_on_a_line([float(c.get("cx")) for c in drawing(root, "differences-plot").iter(f"{SVG}circle")], [d["estimate"] for d in changes])
    assert [r[0] for r in table(root, "files")] == ["log", "policy"]
    assert table(root, "files")[0][1:] == ["log.csv", str(told["files"][0]["bytes"]),
                                           hashlib.sha256((files / "log.csv").read_bytes()).hexdigest()]
    assert {r[0]: r[1] for r in table(root, "parameters")}["seed"] == "1"
    assert drawing(root, "whole-forest") is None  # without slots both estimators are ips


def slot_log(n):
    """Decisions of one and two slots in dsjson, drawn alike and independently of each other."""
    rng, lines = np.random.default_rng(5), []
    for k in range(n):
        first, second = (int(v) for v in rng.integers(0, 3, 2))
        slots = [(first, 1 / 3), (second if second != first else (first + 1) % 3, 0.5)][: 1 + k % 2]
        outcomes = [{"_a": [a], "_p": [p], "_label_cost": -float(rng.random() < 0.3 + 0.2 * a)} for a, p in slots]
        lines.append(json.dumps({"EventId": f"e{k}", "c": {"_multi": [{"_tag": a} for a in "abc"], "_slots": [{}] * len(slots)}, "_outcomes": outcomes}) + "\n")
    return "".join(lines)


def test_whole_decisions_with_slots_have_a_drawing_and_a_table_of_their_own(files):
    (files / "log").write_text(slot_log(300))
    (files / "p.csv").write_text("item_id,probability\na,0.1\nb,0.2\nc,0.7\n")
    root, told = page(files, "--format", "dsjson", "--policy", "uniform", "--policy", f"distribution:{files / 'p.csv'}", "--policy", "arm:c", "--max-unsupported", "0.5", files / "log")
    policies, whole = told["policies"], ("ips_by_slot", "pseudo_inverse")
    rows = table(root, "whole")
    wanted = [("logging policy", "logged_total", policies[0]["logged_total"])] + [(p["name"], key, p[key]) for p in policies for key in whole]
    assert [tuple(r[:2]) for r in rows] == [w[:2] for w in wanted]
    told_ones = [e for _, _, e in wanted if "refused" not in e]
    assert [r[2:5] for r, (_, _, e) in zip(rows, wanted) if "refused" not in e] == [[short(e[k]) for k in ("estimate", "lower", "upper")] for e in told_ones]
    assert [r[3] for r, (_, _, e) in zip(rows, wanted) if "refused" in e] == [e["refused"] for _, _, e in wanted if "refused" in e]
    assert_on_a_line([float(c.get("cx")) for c in drawing(root, "whole-forest").iter(f"{SVG}circle")], [e["estimate"] for e in told_ones])
    assert len(told_ones) >= 3 and policies[0]["ips_by_slot"]["estimate"] != policies[0]["ips"]["estimate"]
    shown = [r for r in table(root, "differences") if r[1] in whole]
    assert [r[2] for r in shown] == [short(d[key]["estimate"]) for d in [p["gain"] for p in policies] + told["differences"] for key in whole if key in d] and shown
    assert table(root, "estimates")[0][2] == short(policies[0]["logged"]["estimate"])


def test_drawings_of_a_policy_show_its_series_weights_and_shares(files):
    (files / "log.csv").write_text(csv_log(1500, 10))
    root, told = page(files, "--format", "csv", "--policy", f"distribution:{files / 'd.csv'}", files / "log.csv")
    series, histogram, shares = told["series"], told["weights"]["histogram"], told["shares"]["arms"]
    for row, i in zip(table(root, "course-0"), range(20), strict=True):
        assert row[1:] == [short(series[name][key][i]) for name in ("logged", "ips", "snips", "dr") for key in ("estimate", "lower", "upper")]
    level = [[float(line.get("y1")) for line in drawing(root, "courses-0").iter(f"{SVG}line")
              if line.get("class") == f"line {colour}" and line.get("y1") == line.get("y2") and line.get("x1") != line.get("x2")]
             for colour in ("c2", "c3", "c5")]
    for name, heights in zip(("ips", "snips", "dr"), level):
        assert_on_a_line(heights, series[name]["estimate"])
    counted = [int(r[2]) for r in table(root, "weights-0")]
    assert counted == [histogram["zero"]] + [c for c in histogram["counts"] if c]
    bars = [float(r.get("height")) for r in drawing(root, "weights-plot-0").iter(f"{SVG}rect") if r.get("class") == "fill c2"][1:]
    assert_on_a_line(bars, [histogram["zero"], *histogram["counts"]])
    assert table(root, "shares-0") == [[a["arm"], short(a["logged"]), short(a["target"])] for a in shares]
    bars = [float(r.get("width")) for r in drawing(root, "shares-plot-0").iter(f"{SVG}rect") if r.get("class") == "fill c2"][1:]
    assert_on_a_line(bars, [a["target"] for a in shares])
    for svg in root.iter(f"{SVG}svg"):  # named for those who cannot see it, by elements that are there
        ids = svg.get("aria-labelledby").split()
        assert [svg.find(f"{SVG}{tag}").get("id") for tag in ("title", "desc")] == ids and svg.get("role") == "img"
    names = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(names) == len(set(names))


HOSTILE = ["</title><script>alert(1)</script>", "\" onload=\"x", "<svg/onload=alert(1)>", "]]>&lt;&#0;", "'><!--", "\u202ecba\u2066", "x" * 200]


def test_names_out_of_a_log_are_text_and_nothing_else(tmp_path):
    lines = [{"user": "u", "arm": HOSTILE[k % len(HOSTILE)], "reward": k % 2, "propensity": 0.2, "candidates": HOSTILE} for k in range(70)]
    (tmp_path / "<b>&log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    root, told = page(tmp_path, "--format", "ndjson", "--policy", "uniform", tmp_path / "<b>&log")
    assert [row[0] for row in table(root, "shares-0")] == [a["arm"] for a in told["shares"]["arms"]] == HOSTILE
    assert table(root, "files")[0][1] == "<b>&log" and not list(root.iter(f"{XHTML}b"))
    labels = [t.text for t in drawing(root, "shares-plot-0").iter(f"{SVG}text")]
    assert HOSTILE[1] in labels and "x" * 40 + "…" in labels


def test_bytes_that_are_no_characters_are_replaced(tmp_path):
    rows = b"user,arm,reward,propensity\n" + b"".join(b"u,%s,%d,0.5\n" % (arm, k % 2) for k in range(20) for arm in
                                                      (b"a\x01b", b"c\xffd", b"e\xef\xbf\xbef", b"g\xc2\x85h"))
    root, told = page(tmp_path, "--format", "csv", "--policy", "uniform", "-", stdin=rows)
    assert [row[0] for row in table(root, "shares-0")] == ["a\ufffdb", "c\ufffdd", "e\ufffdf", "g\ufffdh"]
    assert told["shares"]["arms"][1]["arm"] == "c\ufffdd"


@pytest.mark.parametrize("rows, why, is_drawn", [
    (["u,a,1,1", "u,b,0,1"] * 20, "deterministic", False), (["u,a,1,0.5", "u,b,0,"] * 20, "20 of 40 events have no propensity", False),
    (["u,a,1,0.5"] * 400 + ["u,b,0,0.0001"], "effective sample size", True), (["u,a,0,0.5", "u,b,0,0.5"] * 20, None, True)],
    ids=["deterministic", "missing", "ess", "no reward"])
def test_refusals_are_said_in_words(tmp_path, rows, why, is_drawn):
    root, told = page(tmp_path, "--format", "csv", "--policy", "uniform", "-", stdin=base.generic(*rows))
    said = ["".join(p.itertext()) for p in root.iter(f"{XHTML}p") if p.get("class") == "warning"]
    assert (drawing(root, "weights-plot-0") is not None) == is_drawn == ("shares" in told)
    assert why is None or any(s.startswith("ips is refused: ") and why in s for s in said)
    if why is not None:  # no number that was withheld comes in by another way
        assert told["series"]["ips"] is None and "ips" not in told["gain"]
    assert told["series"]["logged"]["estimate"]


@pytest.mark.parametrize("rows", [["u,a,1,0.5"], ["u,a,1,0.5", "u,b,0,0.5"] * 9, ["u,a,1e30,0.5", "u,b,-1e30,0.5", "u,b,1,0.5"] * 3,
                                  ["u,a,-2,0.5", "u,b,-3,1e-6"] * 4], ids=["one", "two", "huge", "negative"])
def test_extremes_are_drawn_within_the_page(tmp_path, rows):
    """Policies of no mass where the log has any, a single event, rewards at the end of what models take: coordinates stay numbers."""
    (tmp_path / "z.csv").write_text("item_id,probability\nnever,1\n")
    root, told = page(tmp_path, "--format", "csv", "--policy", "uniform", "--policy", f"distribution:{tmp_path / 'z.csv'}", "-",
                      stdin=base.generic(*rows))
    assert told["policies"][1]["weights"]["histogram"] == {"zero": len(rows), "edges": [], "counts": [], "mass": []}
    placed = [float(v) for svg in root.iter(f"{SVG}svg") for e in svg.iter() for k, v in e.items()
              if k in ("x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "width", "height")]
    assert len(placed) > 100 and np.isfinite(placed).all() and min(placed) >= 0 and max(placed) < 2000


def test_numbers_of_the_page_are_rounded_as_the_client_rounds_them(tmp_path):
    """1 / 512 lies between two numbers of six digits, and 1 / 3 of 12 billion has more digits than are shown."""
    rows = ["u,a,1,0.5"] + ["u,b,0,0.5"] * 511
    root, _ = page(tmp_path, "--format", "csv", "--policy", "uniform", "-", stdin=base.generic(*rows))
    assert table(root, "estimates")[0][2] == short(1 / 512) == "0.00195312"
    root, _ = page(tmp_path, "--format", "csv", "--policy", "uniform", "-", stdin=base.generic(*["u,a,4e9,0.5", "u,b,-1e-7,0.5"] * 9))
    assert table(root, "estimates")[0][2] == short((4e9 - 1e-7) / 2) == "2e+09"
    tenth = [f"u,{'ab'[k % 2]},1e-7,0.5" for k in range(20)]
    root, _ = page(tmp_path, "--format", "csv", "--policy", "uniform", "-", stdin=base.generic(*tenth))
    assert table(root, "estimates")[0][2] == "1e-07"


def test_a_browser_draws_the_page(tmp_path):
    """From a file, under the page's own policy: element by element what the script makes elsewhere. Names stay text."""
    lines = [{"user": "u", "arm": HOSTILE[k % len(HOSTILE)], "reward": k % 2, "propensity": 0.2, "candidates": HOSTILE} for k in range(70)]
    (tmp_path / "<b>&log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    base.run("--html", tmp_path / "page.html", "--format", "ndjson", "--policy", "uniform", "--policy", "logged", tmp_path / "<b>&log")
    assert len(evaluate_page.embedded(tmp_path / "page.html")["policies"]) == 2
    title, elements = evaluate_page.browsed(tmp_path / "page.html", tmp_path / "profile")
    assert title == "Offline evaluation on <b>&log"
    assert elements == evaluate_page.Seen(evaluate_page.drawn(tmp_path / "page.html")).elements
    assert {"table", "svg", "circle", "rect", "pre"} <= {name for name, _, _ in elements}


def status(pid, key):
    return int(re.search(rf"^{key}:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def peak(tmp_path, n):
    """Kilobytes at most in memory while a page was made of n events: read when it begins to write the page, into a pipe."""
    (tmp_path / "log.csv").write_text(csv_log(n, 11))
    pipe = tmp_path / "page.html.part"
    env = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=0:thread_local_quarantine_size_kb=0"}
    os.mkfifo(pipe)
    run = subprocess.Popen([CTL, "evaluate", "--format", "csv", "--policy", "uniform", "--policy", f"distribution:{tmp_path / 'd.csv'}",
                            "--html", tmp_path / "page.html", "--resamples", "50", tmp_path / "log.csv"], stdout=subprocess.DEVNULL, env=env)
    with open(pipe, "rb", buffering=0) as f:
        fcntl.fcntl(f, fcntl.F_SETPIPE_SZ, 4096)
        assert f.read(1) == b"<"
        most = status(run.pid, "VmHWM")
        while f.read(1 << 16):
            pass
    assert run.wait(60) == 0
    (tmp_path / "page.html").unlink()
    return most


def test_memory_does_not_grow_with_the_log(files):
    few, many = peak(files, 9000), peak(files, 90000)
    assert many < 1.15 * few, (few, many)  # the longer log is 1.6 MB


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    told = base.refused("--format", "csv", "--policy", "uniform", "--html", tmp_path / "no" / "page.html", "-", stdin=base.generic("u,a,1,0.5"))
    assert "--html: " in told and "No such file" in told
    (tmp_path / "page.html").write_text("the old one")
    base.refused("--format", "csv", "--policy", "uniform", "--html", tmp_path / "page.html", "-", stdin=base.generic("u,a,x,0.5"))
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"] and (tmp_path / "page.html").read_text() == "the old one"


def test_more_policies_than_can_be_compared_are_refused():
    assert "at most 8" in base.refused("--format", "csv", *["--policy", "uniform"] * 9, "-", status=2)


def test_several_policies_are_told_to_people_with_their_differences(files):
    told = base.run("--format", "csv", "--policy", "uniform", "--policy", f"distribution:{files / 'd.csv'}", "-",
                    stdin=csv_log(500, 12).encode()).stdout.decode()
    assert "uniform\n" in told and "distribution:d.csv less uniform, paired:" in told
