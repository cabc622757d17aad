"""laplacectl import --format and export --format: logs of others into a tenant that serves, and a tenant's log for others."""
import json

import numpy as np
import pytest

from harness import run_ctl
from r00_evaluate import ARMS, ESTIMATORS, dsjson_line, dsjson_text, evaluate, obd_text


@pytest.fixture
def ctl(server, name):
    return lambda *args, **options: run_ctl(server, "--tenant", name, *args, **options)


def observed(api, name):
    return [e for e in api.events(name) if e["type"] == "observed"]


def murmur3(text, seed):
    """MurmurHash3_x86_32, written from its description."""
    data, h = text.encode(), seed
    mask = 0xFFFFFFFF

    def scramble(k):
        k = k * 0xCC9E2D51 & mask
        return ((k << 15 | k >> 17) & mask) * 0x1B873593 & mask

    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        h ^= scramble(int.from_bytes(data[i:i + 4], "little"))
        h = ((h << 13 | h >> 19) & mask) * 5 + 0xE6546B64 & mask
    h ^= scramble(int.from_bytes(data[whole:], "little")) ^ len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * factor & mask
    return h ^ h >> 16


def hashed(features, dim, seed=0):
    x = np.zeros(dim)
    for name, value in features:
        h = murmur3(name, seed)
        x[h * dim >> 32] += -value if h & 1 else value
    return x.tolist()


def test_an_open_bandit_log_is_learned_with_its_propensities(api, ctl, name, tmp_path):
    api.put_tenant(name, algorithm="ek-ucb", context_dim=6, arm_dim=3)
    (tmp_path / "log.csv").write_text(obd_text(1200, 1))  # more than a batch
    assert json.loads(ctl("import", "--format", "obd", "--json", "--hash-seed", "3", str(tmp_path / "log.csv"))) == \
        {"observed": 1200, "arms": ARMS, "skipped": {"faulty": 0}}
    learned = observed(api, name)
    rows = [line.split(",") for line in obd_text(1200, 1).splitlines()[1:]]
    assert [(e["arm"], e["reward"], e["propensity"]) for e in learned] == [(r[2], float(r[4]), float(r[5])) for r in rows]
    for e, r in list(zip(learned, rows))[::97]:
        assert e["user"] == f"{r[6]}.{r[7]}" and e["features"] == hashed([(f"arm={r[2]}", 1)], 3, 3)
        assert e["context"] == hashed([(f"position={r[3]}", 1), (f"user_feature_0={r[6]}", 1), (f"user_feature_1={r[7]}", 1)], 6, 3)


def test_a_dsjson_log_is_learned_and_its_faults_are_named(api, ctl, name, tmp_path):
    api.put_tenant(name, algorithm="ek-ucb", context_dim=8, arm_dim=5)
    good = [dsjson_line(i % 3, [0.5, 0.3, 0.2], -1.0 * (i % 2)) for i in range(6)]
    (tmp_path / "good").write_text(dsjson_text(good))
    ctl("import", "--format", "dsjson", str(tmp_path / "good"))
    learned = observed(api, name)
    assert [(e["arm"], e["reward"], e["propensity"]) for e in learned] == \
        [(("Latte", "Mocha", "Cold brew")[i % 3], float(i % 2), (0.5, 0.3, 0.2)[i % 3]) for i in range(6)]
    assert learned[1]["context"] == hashed([("FromUrl^timeofday=Evening", 1), ("FromUrl^name=Cathy", 1)], 8)
    assert learned[1]["features"] == hashed([("i^constant", 1), ("i^id=Mocha", 1), ("j^type=hot", 1)], 5)
    (tmp_path / "bad").write_text(dsjson_text([*good, {**good[0], "_label_cost": None}]))
    assert "_label_cost: expected a number" in ctl("import", "--format", "dsjson", str(tmp_path / "bad"), expect=1)
    assert len(observed(api, name)) == 12  # what stood before the fault was learned, and is said to be
    assert "7 decisions" in ctl("import", "--format", "dsjson", "--skip-bad", "1", "-", stdin=dsjson_text(
        [good[0], {**good[0], "_label_cost": None}, *good]).encode()).replace(",", "")


def test_import_asks_for_a_format_and_a_tenant_that_are_there(api, ctl, server, name):
    assert "--format" in ctl("import", "--format", "xml", "-", expect=2)
    assert name in ctl("import", "--format", "csv", "-", stdin=b"arm,reward\na,1\n", expect=1)  # no such tenant
    assert "--format" in ctl("export", "--format", "obd", expect=2) and name in ctl("export", "--format", "dsjson", expect=1)
    for words in (["import", "alone"], ["import", "--format", "csv", "two", "words"], ["export"], ["export", "--format", "ndjson", "a", "b"]):
        assert "usage" in ctl(*words, expect=2)


@pytest.fixture
def log_of_decisions(api, name):
    """A tenant that decided and was rewarded, with contexts, features, a slate and a decision without a reward."""
    rng = np.random.default_rng(5)
    api.put_tenant(name, algorithm="ek-ucb", context_dim=2, arm_dim=2, rule={"epsilon": 0.6})
    api.put_arms(name, [{"id": a, "features": [i / 4, 1 - i / 4]} for i, a in enumerate("wxyz")])
    for k in range(120):
        context = [float(v) for v in rng.normal(size=2).round(3)]
        chosen = api.call("POST", "/select", {"user": f"u{k % 7}", "context": context, "decision": f"d{k}"}, tenant=name).json
        if k % 10 < 9:
            api.call("POST", "/reward", {"decision": f"d{k}", "reward": float("wxyz".index(chosen["arm"]) - 1) / 3}, tenant=name)
    api.call("POST", "/observe", {"user": "ann", "context": [0.5, 0.25], "arm": "w", "reward": 1}, tenant=name)
    return api.events(name)


@pytest.mark.parametrize("form", ["dsjson", "ndjson"])
def test_a_tenants_log_goes_out_and_says_the_same(api, ctl, name, log_of_decisions, tmp_path, form):
    plain, out = tmp_path / "plain.ndjson", tmp_path / "out"
    plain.write_text("".join(json.dumps(e) + "\n" for e in log_of_decisions if e["type"] != "observed"))
    ctl("export", "--format", form, str(out))
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    decided = {e["decision"]: e for e in log_of_decisions if e["type"] == "decided"}
    rewarded = [e for e in log_of_decisions if e["type"] == "rewarded"]
    assert len(lines) == len(rewarded) + 1 and len(rewarded) == 108
    for got, reward in zip(lines, rewarded):
        want = decided[reward["decision"]]
        if form == "ndjson":
            assert (got["decision"], got["user"], got["context"], got["reward"], got["propensity"], got["time"]) == \
                (want["decision"], want["user"], want["context"], reward["reward"], want["propensity"], want["at"])
            assert got["arm"]["id"] == want["arm"] and {c["id"] for c in got["candidates"]} == set("wxyz")
        else:
            assert (got["EventId"], got["c"]["user"]["id"], got["c"]["x"], -got["_label_cost"], got["_label_probability"]) == \
                (want["decision"], want["user"], want["context"], reward["reward"], want["propensity"])
            assert got["c"]["_multi"][got["_label_Action"] - 1]["_tag"] == want["arm"] and len(got["c"]["_multi"]) == 4
    # without the observation, which has no propensity, every format gives the same estimates, of a model with vectors too
    out.write_text("".join(json.dumps(line) + "\n" for line in lines[:-1]))
    (tmp_path / "c.json").write_text(json.dumps({"algorithm": "ek-ucb", "context_dim": 2, "arm_dim": 2}))
    for policy in ("uniform", str(tmp_path / "c.json")):
        want, got = evaluate("ndjson", policy, plain, "--min-ess", "0.1"), evaluate(form, policy, out, "--min-ess", "0.1")
        assert want["n"] == got["n"] == 108
        for estimator in ESTIMATORS:
            assert got[estimator] == want[estimator], (policy, estimator)


@pytest.mark.parametrize("form", ["dsjson", "ndjson"])
def test_what_went_out_comes_back_in(api, ctl, server, name, log_of_decisions, tmp_path, form):
    ctl("export", "--format", form, str(tmp_path / "out"))
    other = name + "-2"
    api.put_tenant(other, algorithm="ek-ucb", context_dim=2, arm_dim=2)
    run_ctl(server, "--tenant", other, "import", "--format", form, str(tmp_path / "out"))
    decided = {e["decision"]: e for e in log_of_decisions if e["type"] == "decided"}
    want = [({**decided[e["decision"]], "reward": e["reward"]}) for e in log_of_decisions if e["type"] == "rewarded"]
    want += [e for e in log_of_decisions if e["type"] == "observed"]
    features = {a: [i / 4, 1 - i / 4] for i, a in enumerate("wxyz")}
    assert [(e["user"], e["context"], e["arm"], e["features"], e["reward"], e.get("propensity")) for e in observed(api, other)] == \
        [(e["user"], e["context"], e["arm"], features[e["arm"]], e["reward"], e.get("propensity")) for e in want]


def test_a_log_brings_its_graph_of_users(api, ctl, name, tmp_path):
    """The same estimates, whether edges stand in the log or in a file; and others without them."""
    edges = [(f"u{i}", f"u{(i + 1) % 6}", 1) for i in range(6)]
    api.put_tenant(name, algorithm="random")
    api.put_graph(name, edges[:3])
    api.put_arms(name, [{"id": a} for a in "ab"])
    api.call("PATCH", f"/tenants/{name}/graph", {"add": edges[3:]})
    for k in range(150):
        arm = api.select(f"u{k % 6}", decision=f"d{k}", tenant=name)["arm"]
        api.reward(f"d{k}", float((arm == "a") == (k % 6 < 3)), tenant=name)
    (tmp_path / "log").write_text("".join(json.dumps(e) + "\n" for e in api.events(name)))
    (tmp_path / "blind").write_text("".join(json.dumps(e) + "\n" for e in api.events(name) if e["type"] != "graph"))
    (tmp_path / "edges.csv").write_text("".join(f"{u},{v},{w}\n" for u, v, w in edges))
    (tmp_path / "c.json").write_text(json.dumps({"algorithm": "lk-gp-ucb"}))
    told, given = (evaluate("ndjson", str(tmp_path / "c.json"), tmp_path / log, *more) for log, more in
                   (("log", []), ("blind", ["--graph", tmp_path / "edges.csv"])))
    alone = evaluate("ndjson", str(tmp_path / "c.json"), tmp_path / "blind")
    for estimator in ESTIMATORS:
        assert told[estimator]["estimate"] == pytest.approx(given[estimator]["estimate"], rel=1e-9)
    assert told["dr"]["estimate"] != pytest.approx(alone["dr"]["estimate"], rel=1e-6)


def test_the_log_itself_still_goes_out_and_in_as_before(ctl, server, name, log_of_decisions, tmp_path):
    ctl("export", name, str(tmp_path / "log"))
    assert json.loads(run_ctl(server, "--json", "import", name + "-3", str(tmp_path / "log")).splitlines()[0])["seq"] == len(log_of_decisions)
