"""What people meet who evaluate for the first time: rounded propensities, logs without any, a format that was not said, and
README's own example, from a tenant on defaults to finite estimates."""
import gzip
import json
import math
import random

import pytest

import evaluate_page
from harness import Client, Server, run_ctl
from r00_evaluate import ESTIMATORS, config, dsjson_line, dsjson_text, evaluate, refused, run

RATES = {"a": 0.2, "b": 0.5, "c": 0.35}


def rounded(digits, how):
    return f"%.{digits}{how}"


def split_rows(n, shares, seed=1):
    """Users over arms by the shares, with clicks: (user, arm, reward, true propensity)."""
    draw = random.Random(seed)
    arms = list(shares)
    for t in range(n):
        arm = draw.choices(arms, [shares[a] for a in arms])[0]
        yield f"u{t}", arm, int(draw.random() < RATES[arm]), shares[arm]


def csv_of(rows, text="%.17g"):
    return ("user,arm,reward,propensity\n" + "".join(f"{u},{a},{r},{text % p}\n" for u, a, r, p in rows)).encode()


def of_weights(warnings):
    return [w for w in warnings if "mean weight" in w]


# --- propensities as they were written ----------------------------------------------------------------------------------

@pytest.mark.parametrize("how", "fg")
@pytest.mark.parametrize("digits", range(2, 18))
def test_rounded_propensities_are_not_warned_of(digits, how):
    """Equal thirds, where each weight is wrong by the same, and shares of which none is round."""
    third, seventh = dict.fromkeys("abc", 1 / 3), {"a": 1 / 7, "b": 2 / 7, "c": 4 / 7}
    for shares in (third, seventh):
        got = evaluate("csv", "uniform", "-", stdin=csv_of(split_rows(3000, shares), rounded(digits, how)))
        assert of_weights(got["warnings"]) == [], got["warnings"]
        wrong = [abs(p / float(rounded(digits, how) % p) - 1) for p in shares.values()]
        most = max(10 ** -digits / min(shares.values()), 3e-7)  # h / (p - h), h half a unit
        assert min(wrong) * 0.99 <= got["weights"]["mean_rounding"] <= most, (wrong, got["weights"])


def test_one_number_for_all_in_six_places_is_not_warned_of():
    assert "mean weight" not in run("--format", "csv", "--policy", "uniform", "-",
                                    stdin=csv_of(split_rows(900, dict.fromkeys("abc", 1 / 3)), "%.6f")).stdout.decode()


@pytest.mark.parametrize("form", ["csv", "ndjson", "dsjson"])
def test_six_places_are_seen_in_every_format(tmp_path, form):
    rows = list(split_rows(600, dict.fromkeys("abc", 1 / 3)))
    text = {"csv": csv_of(rows, "%.6f").decode(),
            "ndjson": "".join(json.dumps({"user": u, "arm": a, "reward": r, "propensity": 0.333333}) + "\n" for u, a, r, _ in rows),
            "dsjson": dsjson_text(dsjson_line("abc".index(a), [0.333333] * 3, -r, ids=tuple("abc")) for _, a, r, _ in rows)}[form]
    (tmp_path / "log").write_text(text)
    got = evaluate(form, "uniform", tmp_path / "log")
    assert of_weights(got["warnings"]) == [] and got["weights"]["mean"] == pytest.approx(1 / 0.999999, rel=1e-9)


@pytest.mark.parametrize("how", "fg")
@pytest.mark.parametrize("digits", range(2, 18))
def test_false_propensities_are_warned_of(digits, how):
    """A half too much of each, in as many digits; and the shares of the wrong arms, where chance alone has to be told apart."""
    third = [(u, a, r, p * 1.5) for u, a, r, p in split_rows(3000, dict.fromkeys("abc", 1 / 3))]
    swapped = [(u, a, r, 6 / 7 - p if a != "b" else p) for u, a, r, p in split_rows(3000, {"a": 2 / 7, "b": 1 / 7, "c": 4 / 7})]
    for rows in (third, swapped):
        got = evaluate("csv", "uniform", "-", stdin=csv_of(rows, rounded(digits, how)))
        assert len(of_weights(got["warnings"])) == 1, got["weights"]


def test_digits_of_small_propensities_excuse_nothing_in_large_ones():
    """One in 500 arms of a thousandth, told in three places: half a unit is half of it. The rest is wrong by 2 %."""
    rows = [(f"u{t}", "rare" if t % 500 == 0 else "ab"[t % 2], 1, 0.001 if t % 500 == 0 else 0.34) for t in range(5000)]
    assert len(of_weights(evaluate("csv", "logged", "-", stdin=csv_of(rows, "%.3f"))["warnings"])) == 0  # weights are 1
    third = evaluate("csv", "uniform", "-", "--min-ess", "1", stdin=csv_of([row for row in rows if row[1] != "rare"], "%.3f"))
    assert len(of_weights(third["warnings"])) == 1 and third["weights"]["mean"] == pytest.approx(0.5 / 0.34)


# --- a log without propensities ------------------------------------------------------------------------------------------

def bare(rows, header="user,arm,reward"):
    return (header + "\n" + "".join(f"{u},{a},{r}\n" for u, a, r, _ in rows)).encode()


@pytest.mark.parametrize("policy", ["uniform", "ucb"])
def test_a_plain_split_is_evaluated_as_if_it_had_told_its_shares(tmp_path, policy):
    """uniform and 1/3 give what the same log with its propensities gives, bit for bit, the acceptance of the replay included."""
    rows = list(split_rows(900, dict.fromkeys("abc", 1 / 3)))
    target = "uniform" if policy == "uniform" else config(tmp_path, algorithm=policy)
    want = evaluate("csv", target, "-", stdin=csv_of(rows))
    for said in ("uniform", repr(1 / 3)):
        got = evaluate("csv", target, "-", "--propensity", said, stdin=bare(rows))
        assert all(got[name] == want[name] for name in ESTIMATORS) and got["accepted"] == want["accepted"]
        assert got["weights"] == want["weights"] and got["min_propensity"] == got["max_propensity"] == 1 / 3
        assert got["parameters"]["propensity"] == said


def test_uniform_is_over_the_candidates_where_the_row_has_them(tmp_path):
    """Two of three arms, or all: the propensity is 1/2 or 1/3, and the estimate of an arm is what it earns."""
    draw, lines = random.Random(5), []
    for t in range(4000):
        among = draw.sample("abc", 2) if t % 2 else list("abc")
        arm = draw.choice(among)
        lines.append({"user": f"u{t}", "arm": arm, "candidates": among, "reward": int(draw.random() < RATES[arm])})
    path = tmp_path / "log.ndjson"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    got = evaluate("ndjson", "uniform", path, "--propensity", "uniform")
    assert got["min_propensity"] == 1 / 3 and got["max_propensity"] == 1 / 2 and got["weights"]["mean"] == pytest.approx(1, abs=1e-12)
    told = tmp_path / "told.ndjson"
    told.write_text("".join(json.dumps({**line, "propensity": 1 / len(line["candidates"])}) + "\n" for line in lines))
    want = evaluate("ndjson", "uniform", told)
    assert all(got[name] == want[name] for name in ESTIMATORS)


def test_a_log_with_propensities_keeps_them():
    for said in ("uniform", "0.5"):
        told = refused("--format", "csv", "--policy", "uniform", "--propensity", said, "-",
                       stdin=b"arm,reward,propensity\na,1,\nb,1,0.5\n")
        assert "standard input:3: this decision has a propensity of its own, 0.5: leave --propensity out" in told
    # not a fault of a line that may be passed over
    assert "of its own" in refused("--format", "csv", "--policy", "uniform", "--propensity", "0.5", "--skip-bad", "9", "-",
                                   stdin=b"arm,reward,propensity\nb,1,0.5\na,1,\n")


@pytest.mark.parametrize("said", ["0", "1.01", "-0.5", "nan", "half", "", "inf"])
def test_a_propensity_is_a_number_above_0_and_at_most_1(said):
    assert "--propensity: expected uniform, or a number" in refused("--format", "csv", "--policy", "uniform", "--propensity", said, "-", status=2)


def test_a_log_without_propensities_says_what_may_be_given():
    got = evaluate("csv", "uniform", "-", stdin=bare(split_rows(100, dict.fromkeys("abc", 1 / 3))))
    assert "100 of 100 events have no propensity" in got["ips"]["refused"] and "--propensity" in got["ips"]["refused"]


# --- formats that were not said ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("text, said", [
    ("user,arm,reward\nu,a,1\n", "give --format csv"), ("who,what,paid\nu,a,1\n", "--map arm=COLUMN,reward=COLUMN,user=COLUMN; its columns are who,what,paid"),
    ("item_id,click,propensity_score\n1,0,0.5\n", "give --format obd"), ('{"_label_cost":-1,"_label_Action":1}\n', "give --format dsjson")],
    ids=["csv", "other csv", "obd", "dsjson"])
def test_replay_and_evaluate_recognize_what_they_were_given(server, tmp_path, text, said):
    path = tmp_path / "clicks.csv"
    path.write_text(text)
    told = run_ctl(server, "replay", str(path), expect=1)
    assert "clicks.csv:1: this looks like" in told and said in told and "0 lines replayed" not in told
    assert said in refused("--policy", "uniform", path, status=2)
    packed = tmp_path / "clicks.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert "is packed: give --format" in run_ctl(server, "replay", str(packed), expect=1)
    assert said in refused("--policy", "uniform", packed, status=2)


def test_evaluate_recognizes_our_own_log(tmp_path):
    (tmp_path / "log").write_text('{"seq":1,"type":"configured"}\n')
    assert "--format is missing: this looks like NDJSON: give --format ndjson" in refused("--policy", "uniform", tmp_path / "log", status=2)


# --- README's own example ------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A new tenant on defaults that 2,000 visitors have met, and its log in the folder."""
    folder = tmp_path_factory.mktemp("shop")
    server = Server(folder).start()
    try:
        Client(server).put_tenant("shop")
        draw = random.Random(11)
        (folder / "visits.ndjson").write_text("".join(
            json.dumps({"user": f"u{t}", "rewards": {a: int(draw.random() < r) for a, r in RATES.items()}}) + "\n" for t in range(2000)))
        run_ctl(server, "--tenant", "shop", "replay", str(folder / "visits.ndjson"), "--ids", "v", "--quiet")
        run_ctl(server, "export", "shop", str(folder / "shop.ndjson"))
        run_ctl(server, "export", "--format", "ndjson", "--tenant", "shop", str(folder / "pairs.ndjson"))
    finally:
        server.close()
    (folder / "shop.ndjson.gz").write_bytes(gzip.compress((folder / "shop.ndjson").read_bytes()))
    (folder / "ts.json").write_text('{"algorithm":"ts"}')
    return folder


@pytest.mark.parametrize("log", ["shop.ndjson.gz", "pairs.ndjson"])
def test_the_example_gives_estimates_and_no_refusals(shop, log):
    """What uniform shows earns the mean of the three rates: within four standard errors; and nothing but chance is between the
    mean weight and 1. A policy that learns has one estimate of each kind as well."""
    out = json.loads(run("--format", "ndjson", "--policy", "uniform", "--policy", shop / "ts.json", "--html", shop / "shop.html",
                         "--json", shop / log).stdout)
    uniform, ts = out["policies"]
    assert uniform["n"] == 2000 and uniform["min_propensity"] >= 0.05 / 3 - 1e-12
    for policy in (uniform, ts):
        assert of_weights(policy["warnings"]) == []
        for name in ESTIMATORS:
            e = policy[name]
            assert "refused" not in e and all(math.isfinite(e[k]) for k in ("estimate", "lower", "upper", "standard_error")), (name, e)
    for name in ("ips", "snips", "dr"):
        assert abs(uniform[name]["estimate"] - sum(RATES.values()) / 3) <= 4 * uniform[name]["standard_error"], (name, uniform[name])
    assert "refused" not in json.dumps(evaluate_page.embedded(shop / "shop.html"))
