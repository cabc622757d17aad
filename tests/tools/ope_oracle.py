"""Off-policy estimates computed densely with numpy, from the formulas of docs/REPLAY.md and without the code that they check:
every log is in memory, every model is a kernel matrix or a table of counts, every event has all its terms at once.

    python3 tests/tools/ope_oracle.py obd uniform|ucb|ts|policy-log:FILE LOG      (or dsjson uniform LOG)
"""
import csv
import json
import math
import pathlib
import sys
from statistics import NormalDist

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from oracle import argmax_probabilities, keyed_uniform  # noqa: E402

ARM, SIMULATION, MAX_BLOCKS = 1, 3, 8192


class Log:
    """Columns of a log: candidates are lists of arm names, `chosen` the place of the arm shown among them."""

    def __init__(self):
        self.candidates, self.chosen, self.reward, self.p, self.position, self.logged, self.inputs = [], [], [], [], [], [], []

    def add(self, candidates, chosen, reward, p, position=0, logged=None, inputs=None):
        """inputs: context and features of each candidate, side by side."""
        for column, value in zip((self.candidates, self.chosen, self.reward, self.p, self.position, self.logged, self.inputs),
                                 (candidates, chosen, reward, p, position, logged, inputs)):
            column.append(value)

    def __len__(self):
        return len(self.reward)


def load_obd(path):
    log = Log()
    with open(path, newline="") as f:
        rows = csv.DictReader(f)
        arms = [c.removeprefix("user-item_affinity_") for c in rows.fieldnames if c.startswith("user-item_affinity_")]
        for row in rows:
            log.add(arms, arms.index(row["item_id"]), float(row["click"]), float(row["propensity_score"]), int(row["position"]))
    return log


def load_dsjson(path):
    log = Log()
    for line in open(path):
        d = json.loads(line)
        if "_outcomes" in d or d.get("_skipLearn") or "c" not in d:
            continue
        names = [a.get("_tag", a.get("id", a.get("i", {}).get("id", f"#{i + 1}"))) for i, a in enumerate(d["c"]["_multi"])]
        first = min(d["a"]) if d.get("a") else 1
        logged = [d["p"][d["a"].index(i + first)] for i in range(len(names))] if "p" in d else None
        log.add(names, d["_label_Action"] - 1, -d["_label_cost"], d["_label_probability"], logged=logged)
    return log


def load_ndjson(path):
    """Objects with vectors whose candidates have ids and features."""
    log = Log()
    for line in open(path):
        d = json.loads(line)
        names = [c["id"] for c in d["candidates"]]
        log.add(names, names.index(d["arm"]["id"]), d["reward"], d["propensity"],
                inputs=np.array([d["context"] + c["features"] for c in d["candidates"]]))
    return log


# --- policies ----------------------------------------------------------------------------------------------------------

class Means:
    """One mean per arm, lambda 1: the exact posterior of the presets ucb and ts, by counts."""

    def __init__(self):
        self.n, self.sum = {}, {}

    def learn(self, log, k):
        arm = log.candidates[k][log.chosen[k]]
        self.n[arm] = self.n.get(arm, 0) + 1
        self.sum[arm] = self.sum.get(arm, 0.0) + log.reward[k]

    def at(self, log, k):
        arms = log.candidates[k]
        n = np.array([self.n.get(a, 0) for a in arms], dtype=float)
        return np.array([self.sum.get(a, 0.0) for a in arms]) / (n + 1), np.sqrt(1 / (n + 1))


class Gaussian:
    """A Gaussian process with an RBF kernel of length scale 1 on context and features, solved anew for every event."""

    def __init__(self, lam):
        self.lam, self.x, self.y = lam, [], []

    def learn(self, log, k):
        self.x.append(log.inputs[k][log.chosen[k]])
        self.y.append(log.reward[k])

    def at(self, log, k):
        at = log.inputs[k]
        if not self.x:
            return np.zeros(len(at)), np.ones(len(at))
        x = np.array(self.x)
        cross = np.exp(-0.5 * ((at[:, None, :] - x[None, :, :]) ** 2).sum(axis=2))
        gram = np.exp(-0.5 * ((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=2)) + self.lam * np.eye(len(x))
        solved = np.linalg.solve(gram, cross.T)
        return solved.T @ np.array(self.y), np.sqrt(1 - (cross * solved.T).sum(axis=1))


class Uniform:
    learns = False

    def propensities(self, log, k):
        return np.full(len(log.candidates[k]), 1 / len(log.candidates[k]))


class Frequencies:
    learns = False

    def __init__(self, other):
        self.count = {}
        for arms, chosen, position in zip(other.candidates, other.chosen, other.position):
            row = self.count.setdefault(position, {})
            row[arms[chosen]] = row.get(arms[chosen], 0) + 1

    def propensities(self, log, k):
        row = self.count[log.position[k]]
        return np.array([row.get(a, 0) for a in log.candidates[k]]) / sum(row.values())


class Ucb:
    learns, scale = True, 2.0

    def __init__(self, model=None):
        self.model = model or Means()

    def propensities(self, log, k):
        mean, sd = self.model.at(log, k)
        score = mean + self.scale * sd
        ties = score >= score.max() - 1e-12 * max(1, abs(score.max()))
        return ties / ties.sum()


class Thompson(Ucb):
    scale, memo = 1.0, (None, None)

    def propensities(self, log, k):
        key = (tuple(log.candidates[k]), tuple(sorted(self.model.n.items())))
        if self.memo[0] != key:
            mean, sd = self.model.at(log, k)
            self.memo = (key, argmax_probabilities(mean, self.scale * sd, points=4001))
        return self.memo[1]


# --- estimates ---------------------------------------------------------------------------------------------------------

def blocks(x):
    """Sums over consecutive events, so many (a power of two) that at most MAX_BLOCKS come of it."""
    size = 1
    while -(-len(x) // size) > MAX_BLOCKS:
        size *= 2
    return np.add.reduceat(x, np.arange(0, len(x), size))


def bca(num, den, level, resamples, seed):
    """Bias-corrected and accelerated; None when nothing varies."""
    num, den = blocks(num), blocks(den)
    m, value = len(num), num.sum() / den.sum()
    u = num - value * den
    if m < 2 or (u * u).sum() <= 1e-24 * (num * num).sum():
        return None
    draws = np.array([keyed_uniform_many(seed, SIMULATION, b * m, m) for b in range(resamples)])
    index = (draws * m).astype(int)
    with np.errstate(invalid="ignore"):
        values = num[index].sum(axis=1) / den[index].sum(axis=1)
    values = np.sort(np.where(np.isnan(values), value, values))
    normal, slack = NormalDist(), 1e-12 * abs(value)
    below = (values < value - slack).sum() + 0.5 * (np.abs(values - value) <= slack).sum()
    z0, tail = normal.inv_cdf((below + 0.5) / (resamples + 1)), normal.inv_cdf((1 - level) / 2)
    a = (u ** 3).sum() / (6 * (u * u).sum() ** 1.5)
    ends = [normal.cdf(z0 + (z0 + t) / (1 - a * (z0 + t))) for t in (tail, -tail)]
    return [values[min(max(int(p * resamples), 0), resamples - 1)] for p in ends]


def bca_difference(a, b, level, resamples, seed):
    """Of the ratio of a = (num, den) less that of b, over the same events; None when nothing varies."""
    (n1, d1), (n2, d2) = ([blocks(x) for x in pair] for pair in (a, b))
    m, v, w = len(n1), n1.sum() / d1.sum(), n2.sum() / d2.sum()
    u = (n1 - v * d1) / d1.sum() - (n2 - w * d2) / d2.sum()
    if m < 2 or (u * u).sum() <= 1e-24 * ((n1 / d1.sum()) ** 2 + (n2 / d2.sum()) ** 2).sum():
        return None
    index = (np.array([keyed_uniform_many(seed, SIMULATION, r * m, m) for r in range(resamples)]) * m).astype(int)
    values = np.sort(n1[index].sum(axis=1) / d1[index].sum(axis=1) - n2[index].sum(axis=1) / d2[index].sum(axis=1))
    normal, slack = NormalDist(), 1e-12 * (abs(v) + abs(w))
    below = (values < v - w - slack).sum() + 0.5 * (np.abs(values - (v - w)) <= slack).sum()
    z0, tail = normal.inv_cdf((below + 0.5) / (resamples + 1)), normal.inv_cdf((1 - level) / 2)
    k = (u ** 3).sum() / (6 * (u * u).sum() ** 1.5)
    ends = [normal.cdf(z0 + (z0 + t) / (1 - k * (z0 + t))) for t in (tail, -tail)]
    return [values[min(max(int(p * resamples), 0), resamples - 1)] for p in ends]


def keyed_uniform_many(key, stream, start, n):
    """keyed_uniform for indices start, start + 1, ...; the same words, by arrays."""
    def mix(z):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        h = mix(np.array([key], dtype=np.uint64) + golden)
        h = mix(h + np.uint64(stream) * golden)
        return (mix(h + np.arange(start, start + n, dtype=np.uint64) * golden) >> np.uint64(11)).astype(float) * 2.0**-53


def bernstein(num, den, level, span, lo, hi):
    """Values v for which the mean of num - v den is within Maurer and Pontil's bound of 0, around the estimate."""
    n, value = len(num), num.sum() / den.sum()
    if n < 2:
        return [lo, hi]
    log_term = math.log(4 / (1 - level))

    def fits(v):
        x = num - v * den
        return abs(x.mean()) <= math.sqrt(2 * x.var(ddof=1) * log_term / n) + 7 * span * log_term / (3 * (n - 1))

    def edge(end):
        inside = value
        if fits(end):
            return end
        for _ in range(100):
            middle = (inside + end) / 2
            inside, end = (middle, end) if fits(middle) else (inside, middle)
        return inside

    return [edge(min(lo, value)), edge(max(hi, value))]


def evaluate(log, policy, level=0.95, resamples=1000, seed=1, clip=10.0, reward_range=None, model=None):
    """{"ess", "replay", "ips", "snips", "clipped_ips", "dr"} as laplacectl has them, but nothing is refused."""
    reward, p, n = np.array(log.reward), np.array(log.p), len(log)
    model = model or Means()
    w, direct, accepted = np.zeros(n), np.zeros(n), np.zeros(n)
    if policy.learns:
        c = p.min()
    else:
        pi = np.array([policy.propensities(log, k)[log.chosen[k]] for k in range(n)])
        c = (p[pi > 0] / pi[pi > 0]).min()
    for k in range(n):
        a = log.chosen[k]
        pi = policy.propensities(log, k)
        w[k] = pi[a] / p[k]
        mean = model.at(log, k)[0]
        direct[k] = pi @ mean + w[k] * (reward[k] - mean[a])
        model.learn(log, k)
        accepted[k] = keyed_uniform(seed, ARM, k) < c * w[k] * (1 + 1e-12)
        if accepted[k] and policy.learns:
            policy.model.learn(log, k)
    one = np.ones(n)
    lo, hi = reward_range or ((0.0, 1.0) if reward.min() >= 0 and reward.max() <= 1 else (min(reward.min(), 0), max(reward.max(), 0)))
    reach = max(hi, 0) - min(lo, 0)
    terms = {"replay": (accepted * reward, accepted, hi - lo), "ips": (w * reward, one, w.max() * reach),
             "snips": (w * reward, w, w.max() * (hi - lo)),
             "clipped_ips": (np.minimum(w, clip) * reward, one, min(clip, w.max()) * reach),
             "dr": (direct, one, (hi - lo) * (1 + 2 * w.max()))}
    out = {"n": n, "ess": w.sum() ** 2 / (w * w).sum(), "accepted": int(accepted.sum()), "mean_weight": w.mean()}
    for name, (num, den, span) in terms.items():
        if den.sum() == 0:
            continue
        value = num.sum() / den.sum()
        concentration = bernstein(num, den, level, span, lo, hi)
        lower, upper = bca(num, den, level, resamples, seed) or concentration
        out[name] = {"estimate": value, "lower": lower, "upper": upper, "bernstein": concentration,
                     "standard_error": math.sqrt(((num - value * den) ** 2).sum()) / abs(den.sum())}
    return out


def make_policy(name, load):
    if name.startswith("policy-log:"):
        return Frequencies(load(name.removeprefix("policy-log:")))
    return {"uniform": Uniform, "ucb": Ucb, "ts": Thompson}[name]()


if __name__ == "__main__":
    load = {"obd": load_obd, "dsjson": load_dsjson}[sys.argv[1]]
    print(json.dumps(evaluate(load(sys.argv[3]), make_policy(sys.argv[2], load)), indent=1))
