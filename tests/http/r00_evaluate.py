"""laplacectl evaluate against dense estimates of the same logs (tests/tools/ope_oracle.py). No server takes part.

Logs of others are not in the repository: their folders are named by LAPLACED_DATA_OBD (bts_men.csv, random_men.csv,
item_context_men.csv; women likewise where they are) and LAPLACED_DATA_VW (dsjson files of Vowpal Wabbit's tests)."""
import gzip
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from harness import CTL

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import ope_oracle as oracle  # noqa: E402

ESTIMATORS = ("replay", "ips", "snips", "clipped_ips", "dr")
OBD, VW = os.environ.get("LAPLACED_DATA_OBD"), os.environ.get("LAPLACED_DATA_VW")
needs_obd = pytest.mark.skipif(OBD is None, reason="LAPLACED_DATA_OBD does not name the folder of the Open Bandit Dataset")
needs_vw = pytest.mark.skipif(VW is None, reason="LAPLACED_DATA_VW does not name the folder of Vowpal Wabbit's test sets")


def run(*args, expect=0, stdin=None):
    done = subprocess.run([CTL, "evaluate", *map(str, args)], capture_output=True, timeout=300, input=stdin)
    assert done.returncode == expect, (args, done.stdout.decode()[-1000:], done.stderr.decode()[-1000:])
    return done


def evaluate(form, policy, log, *args, stdin=None):
    kind = ("--policy-log", policy.removeprefix("policy-log:")) if policy.startswith("policy-log:") else ("--policy", policy)
    return json.loads(run("--format", form, *kind, "--json", *args, log, stdin=stdin).stdout)


def refused(*args, stdin=None, status=1):
    done = run(*args, expect=status, stdin=stdin)
    assert done.stdout == b""
    return done.stderr.decode()


def config(folder, **settings):
    path = folder / (settings["algorithm"] + ".json")
    if settings["algorithm"] in ("ucb", "ts"):
        settings.setdefault("tune", False)  # of the papers, as the oracle has them
    path.write_text(json.dumps(settings))
    return str(path)


def assert_same(got, want, tolerance=1e-9):
    """Every estimate and both its intervals; relative to the size of the wanted number, or to 1 below it."""
    assert got["n"] == want["n"] and got["accepted"] == want["accepted"]
    assert got["ess"] == pytest.approx(want["ess"], rel=tolerance)
    assert got["weights"]["mean"] == pytest.approx(want["mean_weight"], rel=tolerance)
    for name in ESTIMATORS:
        for key in ("estimate", "lower", "upper", "standard_error"):
            assert got[name][key] == pytest.approx(want[name][key], rel=tolerance, abs=tolerance), (name, key)
        assert [got[name]["bernstein"][k] for k in ("lower", "upper")] == pytest.approx(want[name]["bernstein"], abs=tolerance), name


# --- logs of our own -----------------------------------------------------------------------------------------------------

ARMS = 5
HEADER = ["", "timestamp", "item_id", "position", "click", "propensity_score", "user_feature_0", "user_feature_1"] + \
    [f"user-item_affinity_{i}" for i in range(ARMS)]


def obd_text(n, seed, uniform=False):
    """As the Open Bandit Dataset has it: three positions, seven arms, clicks that depend on arm and position."""
    rng, lines = np.random.default_rng(seed), [",".join(HEADER)]
    click = np.linspace(0.05, 0.4, ARMS)
    for k in range(n):
        position = int(rng.integers(1, 4))
        p = np.full(ARMS, 1 / ARMS) if uniform else (np.arange(ARMS) + position) / (np.arange(ARMS) + position).sum()
        arm = int(rng.choice(ARMS, p=p))
        reward = int(rng.random() < click[arm] / position)
        when = f"2019-11-{24 + k * 6 // n} {k % 24:02d}:03:13.442536+00:00"
        lines.append(f"{k},{when},{arm},{position},{reward},{float(p[arm])!r},cef3390ed299c098,{k % 3:02d}," + ",".join(["0.0"] * ARMS))
    return "\n".join(lines) + "\n"


def dsjson_line(chosen, p, cost, ids=("Latte", "Mocha", "Cold brew"), **more):
    order = [chosen] + [i for i in range(len(ids)) if i != chosen]
    return {"_label_cost": cost, "_label_probability": p[chosen], "_label_Action": chosen + 1, "_labelIndex": chosen,
            "Timestamp": "2021-02-04T16:31:29.2460000Z", "Version": "1", "EventId": f"e{chosen}{cost}",
            "a": [i + 1 for i in order], "p": [p[i] for i in order],
            "c": {"FromUrl": [{"timeofday": "Evening", "name": "Cathy"}],
                  "_multi": [{"_tag": i, "i": {"constant": 1, "id": i}, "j": [{"type": "hot"}]} for i in ids]}, **more}


def dsjson_text(lines):
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize("policy", ["uniform", "ucb", "ts"])
@pytest.mark.parametrize("is_uniform", [True, False], ids=["uniform log", "skewed log"])
def test_estimates_equal_dense_ones(tmp_path, policy, is_uniform):
    path = tmp_path / "log.csv"
    path.write_text(obd_text(600, 3, is_uniform))
    target = oracle.make_policy(policy, oracle.load_obd)
    if policy == "ucb":
        target.scale = 1.7  # with 2, arms of 3 pulls without and of 8 with three clicks score the same but for rounding
    name = policy if policy == "uniform" else config(tmp_path, algorithm=policy, confidence={"beta": target.scale})
    assert_same(evaluate("obd", name, path), oracle.evaluate(oracle.load_obd(path), target))


@pytest.mark.parametrize("learns", [False, True], ids=["uniform", "k-ucb"])
def test_models_of_context_equal_dense_ones(tmp_path, learns):
    """Policy and reward model are the same Gaussian process, prequential in dr; candidates come and go."""
    rng, path, lines = np.random.default_rng(12), tmp_path / "log", []
    for k in range(260):
        arms = rng.permutation(6)[:rng.integers(2, 6)]
        p = rng.dirichlet(np.full(len(arms), 8.0))
        chosen, context = int(rng.choice(len(arms), p=p)), rng.normal(size=2).round(2)
        features = [{"id": f"arm{a}", "features": [a / 3, float(a % 2)]} for a in arms]
        lines.append({"user": f"u{k % 5}", "context": context.tolist(), "arm": features[chosen], "candidates": features,
                      "reward": float(np.sin(context[0] + arms[chosen]) + 0.1 * rng.normal()), "propensity": p[chosen]})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    smart = config(tmp_path, algorithm="k-ucb", context_dim=2, arm_dim=2, representation={"lambda": 0.3}, confidence={"beta": 0.9})
    target = oracle.Ucb(oracle.Gaussian(0.3)) if learns else oracle.Uniform()
    target.scale = 0.9
    want = oracle.evaluate(oracle.load_ndjson(path), target, model=oracle.Gaussian(0.3))
    assert_same(evaluate("ndjson", smart if learns else "uniform", path, "--model", smart, "--min-ess", "0.1"), want)


def test_events_beyond_8192_are_drawn_in_blocks(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(obd_text(9001, 4))
    want = oracle.evaluate(oracle.load_obd(path), oracle.Uniform(), resamples=60, seed=7, level=0.9)
    assert_same(evaluate("obd", "uniform", path, "--resamples", "60", "--seed", "7", "--level", "90"), want)


def test_another_log_gives_the_frequencies_of_its_arms_by_position(tmp_path):
    log, other = tmp_path / "log.csv", tmp_path / "other.csv"
    log.write_text(obd_text(800, 5, True))
    other.write_text(obd_text(900, 6))
    want = oracle.evaluate(oracle.load_obd(log), oracle.Frequencies(oracle.load_obd(other)))
    assert_same(evaluate("obd", f"policy-log:{other}", log), want)
    table = oracle.Frequencies(oracle.load_obd(other)).count
    (tmp_path / "d.csv").write_text("position,item_id,probability\n" + "".join(
        f"{position},{arm},{count / sum(row.values())!r}\n" for position, row in table.items() for arm, count in row.items()))
    assert_same(evaluate("obd", f"distribution:{tmp_path / 'd.csv'}", log), want, 1e-8)


def test_the_logging_policy_has_weight_one(tmp_path):
    (tmp_path / "log.csv").write_text(obd_text(300, 8))
    got = evaluate("obd", "logged", tmp_path / "log.csv")
    mean = np.mean(oracle.load_obd(tmp_path / "log.csv").reward)
    assert got["ess"] == got["n"] == got["accepted"] == 300 and got["arms"] == ARMS
    for name in ESTIMATORS:
        assert got[name]["estimate"] == pytest.approx(mean, rel=1e-12)
        assert got[name]["lower"] < mean < got[name]["upper"]


def test_packed_logs_and_standard_input_are_the_same_log(tmp_path):
    text = obd_text(400, 9)
    (tmp_path / "log.csv").write_text(text)
    packed = gzip.compress(text[:5000].encode()) + gzip.compress(text[5000:].encode())
    (tmp_path / "log.csv.gz").write_bytes(packed)
    (tmp_path / "cut.gz").write_bytes(packed[:-20])
    plain = evaluate("obd", "uniform", tmp_path / "log.csv")
    drop = {"cpu_seconds", "files"}
    for got in (evaluate("obd", "uniform", tmp_path / "log.csv.gz"), evaluate("obd", "uniform", "-", stdin=packed)):
        assert {k: v for k, v in got.items() if k not in drop} == {k: v for k, v in plain.items() if k not in drop}
    assert "damaged or cut" in refused("--format", "obd", "--policy", "uniform", tmp_path / "cut.gz")


# --- Vowpal Wabbit -------------------------------------------------------------------------------------------------------

def by_hand(lines):
    """IPS of the uniform policy over dsjson objects, spelled out."""
    total = 0.0
    for line in lines:
        total += (1.0 / len(line["c"]["_multi"])) / line["_label_probability"] * -line["_label_cost"]
    return total / len(lines)


def test_dsjson_is_counted_as_by_hand(tmp_path):
    rng = np.random.default_rng(2)
    p = [0.7, 0.2, 0.1]
    lines = [dsjson_line(int(rng.choice(3, p=p)), p, -float(rng.integers(0, 2))) for _ in range(120)]
    path = tmp_path / "log.dsjson"
    path.write_text(dsjson_text(lines))
    got = evaluate("dsjson", "uniform", path)
    assert got["ips"]["estimate"] == pytest.approx(by_hand(lines), rel=1e-12) and got["arms"] == 3
    assert_same(got, oracle.evaluate(oracle.load_dsjson(path), oracle.Uniform()))
    assert_same(evaluate("dsjson", config(tmp_path, algorithm="ucb"), path), oracle.evaluate(oracle.load_dsjson(path), oracle.Ucb()))


def test_dsjson_lines_that_are_no_decision_are_passed_over_and_counted(tmp_path):
    good = [dsjson_line(i % 3, [0.5, 0.3, 0.2], -1.0 * (i % 2)) for i in range(12)]
    others = [{**good[0], "_skipLearn": True}, {"RewardValue": 1.0, "EventId": "lost"}, {**good[0], "DeferredAction": True},
              {"c": {"_multi": [{"_slot_id": 0}, {"_slot_id": 1}], "_slots": [{}, {}]}, "_label_cost": 1, "_outcomes": [{"_a": [0], "_p": [1]}] * 2}]
    (tmp_path / "l").write_text(dsjson_text(others[:2] + good + others[2:]))
    got = evaluate("dsjson", "uniform", tmp_path / "l")
    assert got["n"] == 12 and sorted(got["skipped"].values()) == [0, 1, 1, 1, 1]
    assert got["ips"]["estimate"] == pytest.approx(by_hand(good), rel=1e-12)
    (tmp_path / "ccb").write_text(dsjson_text([{"c": {"_multi": [{}, {}]}, "_outcomes": [{"_label_cost": -1, "_a": [1], "_p": [1]}]}]))
    assert "ccb:1: c._slots: expected an array" in refused("--format", "dsjson", "--policy", "uniform", tmp_path / "ccb")


@pytest.mark.parametrize("change, said", [
    ({"_label_Action": 4}, "_label_Action: expected a whole number from 1 to 3"),
    ({"_labelIndex": 2}, "_labelIndex: 2 is not _label_Action 1 less one"), ({"_label_cost": "1"}, "_label_cost: expected a number"),
    ({"_label_probability": 1.5}, "propensity: 1.5 is not in (0, 1]"), ({"p": [0.5, 0.5]}, "p: expected as many"),
    ({"p": [0.5, 0.2, 0.2]}, "add up to 0.9"), ({"a": [1, 1, 2]}, "a: an action stands twice"), ({"pdrop": 0.5}, "pdrop"),
    ({"c": {"_multi": []}}, "c._multi"), ({"c": 1}, "c: expected the context"), ({"Timestamp": "soon"}, "Timestamp"),
    ({"c": {"_multi": [{"_tag": "a"}, {"_tag": "b"}, {"_tag": "a"}]}}, "actions 1 and 3 have one id")])
def test_a_faulty_dsjson_line_is_named(tmp_path, change, said):
    good = dsjson_line(0, [0.5, 0.3, 0.2], -1.0)
    path = tmp_path / "log"
    path.write_text(dsjson_text([good, dsjson_line(1, [0.5, 0.3, 0.2], 0.0), {**good, **change}, good]))
    told = refused("--format", "dsjson", "--policy", "uniform", path)
    assert "log:3: " in told and said in told
    got = evaluate("dsjson", "uniform", path, "--skip-bad", "1")
    assert got["n"] == 3 and got["skipped"]["faulty"] == 1 and any(said in w for w in got["warnings"])


# --- what a log cannot answer --------------------------------------------------------------------------------------------

def generic(*rows, header="user,arm,reward,propensity"):
    return (header + "\n" + "\n".join(rows) + "\n").encode()


@pytest.mark.parametrize("rows, why", [
    (["u,a,1,1", "u,b,0,1"] * 20, "deterministic"), (["u,a,1,0.5", "u,b,0,"] * 20, "20 of 40 events have no propensity"),
    (["u,a,1,0.5"] * 400 + ["u,b,0,0.0001"], "effective sample size")], ids=["deterministic", "missing", "ess"])
def test_what_the_log_cannot_support_is_refused(tmp_path, rows, why):
    got = evaluate("csv", "uniform", "-", stdin=generic(*rows))
    few = why == "effective sample size"  # the replay tells its own count, and clipped weights are even enough
    assert not few or ("accepted" in got["replay"]["refused"] and got["clipped_ips"]["estimate"] == pytest.approx(400 / 401))
    for name in ("ips", "snips", "dr") if few else ESTIMATORS:
        assert why in got[name]["refused"] and "estimate" not in got[name]
    assert "estimate" in evaluate("csv", "logged", "-", stdin=generic(*rows))["ips"]


def test_mass_without_support_is_refused(tmp_path):
    (tmp_path / "d.csv").write_text("item_id,probability\na,0.5\nb,0.3\nnever,0.2\n")
    log = generic(*["u,a,1,0.5", "u,b,0,0.5"] * 30)
    got = evaluate("csv", f"distribution:{tmp_path / 'd.csv'}", "-", stdin=log)
    assert got["unsupported"] == pytest.approx(0.2) and "0.2 of the target's mass" in got["ips"]["refused"]
    allowed = evaluate("csv", f"distribution:{tmp_path / 'd.csv'}", "-", "--max-unsupported", "0.3", stdin=log)
    assert allowed["ips"]["estimate"] == pytest.approx(0.5) and any("without" in w or "never shows" in w for w in allowed["warnings"])


@pytest.mark.parametrize("text, said", [
    (b"", "header"), (b"user,reward\nu,1\n", "arm: the header has no such column"), (b"arm,reward\na,x\n", ":2: reward: \"x\""),
    (b"arm,reward,propensity\na,1,0\n", ":2: propensity: 0 is not in (0, 1]"), (b"arm,reward\na,1,2\n", ":2: 3 fields"),
    (b"arm,reward\n", "no decision"), (b"arm,reward,time\na,1,never\n", "time: \"never\" is no time"),
    (b"arm,reward,position\na,1,-1\n", "position: -1"), (b"arm,reward\n,1\n", ":2: arm: expected an id")])
def test_a_faulty_csv_is_named(text, said):
    assert said in refused("--format", "csv", "--policy", "uniform", "-", stdin=text)


@pytest.mark.parametrize("change, said", [
    (("item_id", "item_number"), ":1: item_id: the header has no such column"), (("affinity_4", "affinity_"), ":1: arm: expected an id of 1"),
    ((",3,0,", ",many,0,"), "position: \"many\" is not a finite number"), (("2019-11", "in 2019"), ":2: timestamp:"),
    ((",1,0,", ",1,0"), " fields, where the header has 13")])
def test_a_faulty_open_bandit_log_is_named(change, said):
    assert said in refused("--format", "obd", "--policy", "uniform", "-", stdin=obd_text(40, 2).replace(*change).encode())


@pytest.mark.parametrize("items, said", [("", "header row"), ("id,item_feature_0\n0,1\n", "item_id"), ("item_id,x\n,1\n", ":2: item_id"),
                                         ("item_id,x\n1\n", ":2: 1 fields")])
def test_a_faulty_file_of_items_is_named(tmp_path, items, said):
    (tmp_path / "items.csv").write_text(items)
    told = refused("--format", "obd", "--policy", "uniform", "--items", tmp_path / "items.csv", "-", stdin=obd_text(40, 2).encode())
    assert "items.csv" in told and said in told


@pytest.mark.parametrize("table, said", [("", "header row"), ("item_id,probability\n0,0.5\n", "add up to 0.5"), ("item_id\n0\n", "columns"),
                                         ("item_id,probability\n0,2\n", "probability: 2 is not in 0..1"),
                                         ("position,item_id,probability\n1,0,1\n", "no position")])
def test_a_faulty_distribution_is_named(tmp_path, table, said):
    (tmp_path / "d.csv").write_text(table)
    assert said in refused("--format", "obd", "--policy", f"distribution:{tmp_path / 'd.csv'}", "-", stdin=obd_text(40, 2).encode())


@pytest.mark.parametrize("args, said", [
    (["--policy", "uniform"], "--format"), (["--format", "xml", "--policy", "uniform"], "--format"), (["--format", "csv"], "--policy"),
    (["--format", "csv", "--policy", "uniform", "--level", "100"], "--level"),
    (["--format", "csv", "--policy", "uniform", "--estimators", "ips,best"], "--estimators"),
    (["--format", "csv", "--policy", "uniform", "--reward-range", "1:0"], "--reward-range"),
    (["--format", "csv", "--policy", "uniform", "--resamples", "1"], "--resamples"),
    (["--format", "csv", "--policy", "uniform", "--clip", "0"], "--clip")])
def test_usage_is_checked(args, said):
    assert said in refused(*args, "-", status=2)


@pytest.mark.parametrize("settings, said", [({"algorithm": "sup-kernel-ucb"}, "/rule/type"), ({"algorithm": "none"}, "/algorithm"),
                                            ({"algorithm": "ucb", "seed": -1}, "/seed")])
def test_a_configuration_that_cannot_be_evaluated_is_refused(tmp_path, settings, said):
    assert said in refused("--format", "csv", "--policy", config(tmp_path, **settings), "-", stdin=generic("u,a,1,0.5"))


def test_columns_are_mapped_and_a_model_of_context_is_replayed(tmp_path):
    rng, rows = np.random.default_rng(1), ["who,item,click,prob,age,country"]
    for _ in range(1500):  # what pays depends on the country alone
        country, arm = rng.choice(["at", "it"]), rng.choice(["ski", "sea"])
        rows.append(f"u{rng.integers(9)},{arm},{int((country == 'at') == (arm == 'ski'))},0.5,{rng.integers(20, 60)},{country}")
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    mapped = ["--map", "user=who,arm=item,reward=click,propensity=prob,categories=country"]
    smart = config(tmp_path, algorithm="k-ucb", context_dim=8, arm_dim=8, representation={"lambda": 0.1})
    got = evaluate("csv", smart, tmp_path / "log.csv", *mapped)
    assert min(got[name]["estimate"] for name in ESTIMATORS) > 0.9  # and plain arms cannot do better than half
    blind = evaluate("csv", config(tmp_path, algorithm="ucb"), tmp_path / "log.csv", *mapped)
    assert max(blind[name]["estimate"] for name in ESTIMATORS) < 0.65
    assert "--map" in refused("--format", "csv", "--policy", "uniform", "--map", "colour=red", tmp_path / "log.csv")


def test_a_graph_of_users_lets_friends_teach_each_other(tmp_path):
    """Ann's friends like tea and Bob's rum; with the graph the first answers of a group speak for the rest of it."""
    rng, groups = np.random.default_rng(3), {"tea": [f"a{i}" for i in range(30)], "rum": [f"b{i}" for i in range(30)]}
    likes = {user: drink for drink, users in groups.items() for user in users}
    rows = [f"{user},{arm},{int(likes[user] == arm)},0.5" for user, arm in
            zip(rng.choice(list(likes), 300), rng.choice(["tea", "rum"], 300))]
    (tmp_path / "edges.csv").write_text("".join(f"{u},{v}\n" for users in groups.values() for u, v in zip(users, users[1:] + users[:1])))
    (tmp_path / "log.csv").write_bytes(generic(*rows))
    friends = config(tmp_path, algorithm="lk-gp-ucb", user_kernel={"rho": 0.01, "normalize": True}, confidence={"beta": 0.5})
    alone, together = (evaluate("csv", friends, tmp_path / "log.csv", *graph) for graph in ([], ["--graph", tmp_path / "edges.csv"]))
    assert together["snips"]["estimate"] > alone["snips"]["estimate"] + 0.1, (together["snips"], alone["snips"])
    assert together["dr"]["standard_error"] < alone["dr"]["standard_error"], (together["dr"], alone["dr"])
    (tmp_path / "bad.csv").write_text("ann,bob,x\n")
    assert "bad.csv" in refused("--format", "csv", "--policy", friends, "--graph", tmp_path / "bad.csv", tmp_path / "log.csv")


def test_a_user_that_is_a_number_is_the_user_of_its_digits(tmp_path):
    """Users teach themselves alone, so other names would be other estimates."""
    alone = config(tmp_path, algorithm="lin-ucb-per-user", arm_dim=0)
    draw = np.random.default_rng(4)
    rows = [(int(draw.integers(3)), "ab"[draw.integers(2)]) for _ in range(300)]
    def log(name):
        return "".join(json.dumps({"user": name(u), "arm": a, "reward": float(a == "ab"[u % 2]), "propensity": 0.5, "candidates": ["a", "b"]}) + "\n" for u, a in rows).encode()
    numbers, texts, others = (evaluate("ndjson", alone, "-", "--seed", "3", stdin=log(name))["snips"] for name in (lambda u: u, str, lambda u: "u"))
    assert numbers == texts != others
    assert "user" in refused("--format", "ndjson", "--policy", "uniform", "-", stdin=log(lambda u: u + 0.5))


def test_bytes_that_are_no_text_do_not_spoil_the_report():
    got = evaluate("csv", "uniform", "-", "--skip-bad", "1", stdin=generic("u,a,1,0.5", "u,b,\xff,0.5").replace(b"\xc3\xbf", b"\xff"))
    assert got["n"] == 1 and any("\ufffd" in warning for warning in got["warnings"])


# --- our own log ---------------------------------------------------------------------------------------------------------

def own_log(aggregation="first"):
    at = "2026-11-21T10:00:00.123Z"

    def decided(i, arm, p, **more):
        return {"type": "decided", "at": at, "decision": f"d{i}", "user": "u", "context": [], "arm": arm, "features": None,
                "propensity": p, "mean": 0, "expires_at": at, **more}

    def rewarded(i, reward, kind="rewarded", **more):
        return {"type": kind, "at": at, "decision": f"d{i}", "reward": reward, **more}

    events = [{"type": "configured", "at": at, "version": 1, "configuration": {"aggregation": aggregation}},
              {"type": "arms", "at": at, "replace": True, "remove": [], "put": [
                  {"id": a, "active": a != "off"} for a in ("a", "b", "c", "off")]},
              decided(1, "a", 0.5), decided(2, "b", 0.25), rewarded(1, 1), rewarded(2, 2), rewarded(1, 3),
              decided(3, "a", 0.5, slate=[{"arm": "a", "features": None}, {"arm": "b", "features": None}]),
              rewarded(3, 5, arm="b"), rewarded(3, 1, arm="a"), decided(4, "c", 0.25), {"type": "expired", "at": at, "decision": "d4"},
              decided(5, "c", 0.25), rewarded(5, 4, "expired"), decided(6, "a", 0.5, deferred=True), decided(7, "b", 0.25),
              {"type": "observed", "at": at, "user": "u", "context": [], "arm": "b", "features": None, "reward": 1, "propensity": 0.25}]
    return "".join(json.dumps({"seq": i + 1, **e}) + "\n" for i, e in enumerate(events)).encode()


@pytest.mark.parametrize("aggregation, terms", [
    ("first", [(0.5, 1), (0.25, 2), (0.5, 1), (0.25, 4), (0.25, 1)]), ("sum", [(0.5, 4), (0.25, 2), (0.5, 1), (0.25, 4), (0.25, 1)]),
    ("last", [(0.5, 3), (0.25, 2), (0.5, 1), (0.25, 4), (0.25, 1)])])
def test_our_own_log_pairs_decisions_with_their_rewards(aggregation, terms):
    """Candidates are the three arms that are active; open decisions count only with a default reward."""
    got = evaluate("ndjson", "uniform", "-", stdin=own_log(aggregation))
    assert got["n"] == 5
    assert got["ips"]["estimate"] == pytest.approx(sum(r / 3 / p for p, r in terms) / 5, rel=1e-12)
    filled = evaluate("ndjson", "uniform", "-", "--default-reward", "0", stdin=own_log(aggregation))
    assert filled["n"] == 7  # d4 and d7; d6 was shown to nobody
    assert filled["ips"]["estimate"] == pytest.approx(sum(r / 3 / p for p, r in terms) / 7, rel=1e-12)


def test_candidates_of_a_line_are_its_own():
    lines = [{"user": "u", "arm": "a", "reward": 1, "propensity": 0.5, "candidates": ["a", "b"]},
             {"user": "u", "arm": {"id": "b"}, "reward": 1, "propensity": 0.2, "candidates": ["a", "b", "c", {"id": "d"}]},
             {"arm": 7, "reward": 0, "propensity": 0.5}] * 3
    got = evaluate("ndjson", "uniform", "-", "--max-unsupported", "1", stdin="".join(json.dumps(x) + "\n" for x in lines).encode())
    assert got["unsupported"] == pytest.approx((0 + 2 / 4 + 0) / 3)
    assert got["ips"]["estimate"] == pytest.approx((0.5 / 0.5 + 0.25 / 0.2) / 3, rel=1e-12)  # the third's reward is 0
    assert "candidates" in refused("--format", "ndjson", "--policy", "uniform", "-",
                                   stdin=b'{"arm":"z","reward":1,"propensity":0.5,"candidates":["a"]}\n')


# --- logs of others ------------------------------------------------------------------------------------------------------

def campaigns():
    return [c for c in ("men", "women", "all") if OBD and (pathlib.Path(OBD) / f"bts_{c}.csv").exists()] or ["men"]


@needs_obd
@pytest.mark.parametrize("policy", ["uniform", "ucb", "ts", "policy-log"])
@pytest.mark.parametrize("log", ["random", "bts"])
def test_the_open_bandit_dataset_equals_dense_estimates(tmp_path, log, policy):
    path, other = (pathlib.Path(OBD) / f"{name}_men.csv" for name in ((log, "bts") if log == "random" else (log, "random")))
    if policy == "policy-log":
        name, target = f"policy-log:{other}", oracle.Frequencies(oracle.load_obd(other))
    else:
        name, target = (policy if policy == "uniform" else config(tmp_path, algorithm=policy)), oracle.make_policy(policy, oracle.load_obd)
    args = ("--items", pathlib.Path(OBD) / "item_context_men.csv", "--min-ess", "1")
    assert_same(evaluate("obd", name, path, *args, "--resamples", "200"), oracle.evaluate(oracle.load_obd(path), target, resamples=200))


@needs_obd
@pytest.mark.parametrize("campaign", campaigns())
@pytest.mark.parametrize("log, other", [("random", "bts"), ("bts", "random")])
def test_intervals_cover_what_the_other_policy_earned(campaign, log, other):
    path, target = (pathlib.Path(OBD) / f"{name}_{campaign}.csv" for name in (log, other))
    truth = evaluate("obd", "logged", target)["ips"]["estimate"]
    got = evaluate("obd", "uniform" if other == "random" else f"policy-log:{target}", path)
    if got["ess"] < 10:  # women, bts: propensities of 1e-6 leave two events that count; clipped they say something
        assert all("effective sample size" in got[name]["refused"] for name in ("ips", "snips", "dr"))
        assert got["clipped_ips"]["lower"] <= truth <= got["clipped_ips"]["upper"]
        return
    for name in ("ips", "snips", "dr"):
        assert got[name]["lower"] <= truth <= got[name]["upper"], (name, got[name], truth)


@needs_vw
def test_files_of_vowpal_wabbit_equal_counts_by_hand():
    for name in ("dsjson_cb.json", "dsjson_cb_part1.json", "dsjson_cb_default_ns.json", "cb_features_w_zero_vals.dsjson"):
        path = pathlib.Path(VW) / name
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        got = evaluate("dsjson", "uniform", path)
        assert got["n"] == len(lines) and got["ips"]["estimate"] == pytest.approx(by_hand(lines), rel=1e-12)
        assert_same(got, oracle.evaluate(oracle.load_dsjson(path), oracle.Uniform()))
    ccb = pathlib.Path(VW) / "ccb_automl.dsjson"
    lines = [json.loads(line) for line in ccb.read_text().splitlines()]  # of a decision with slots the first slot counts
    got = evaluate("dsjson", "uniform", ccb, "--max-unsupported", "1")
    by_first = [-o["_label_cost"] / len(line["c"]["_multi"]) / o["_p"][0] for line in lines for o in line["_outcomes"][:1]]
    assert got["n"] == len(lines) and got["ips"]["estimate"] == pytest.approx(sum(by_first) / len(lines), rel=1e-12)
