"""What GET /tenants/{t}/experiment must say, from the lines of a log alone: docs/EXPERIMENTS.md in Python, in other words.

Bounds are found by bisection, the probability to be best by a sum over a grid; nothing is shared with core/inference."""
import json
import math

import numpy as np

HOUR = 3600.0
SIZES = [0.95 * 1.5 ** -j for j in range(24)]


def seconds(text):
    from datetime import datetime
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


# ---- mathematics -----------------------------------------------------------------------------------------------------------

def logsumexp(terms):
    most = max(terms)
    return most + math.log(math.fsum(math.exp(t - most) for t in terms))


def betaln(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def times_log(n, x):
    return 0.0 if n == 0 else n * math.log(x) if x > 0 else -math.inf


CDF = np.vectorize(lambda z: 0.5 * math.erfc(-z / math.sqrt(2)))


def weights(alpha=0.05):
    first = math.sqrt(2 * math.log(2 / alpha) / 200)
    w = np.array([size * first / (size ** 2 + first ** 2) for size in SIZES])
    return np.log(w / w.sum())


LOG_WEIGHTS = weights()


def log_bet(x, square, cube, fourth):
    terms = [LOG_WEIGHTS[j] + s * x - s ** 2 * square / 2 + s ** 3 * cube / 3 + (math.log1p(-s) + s + s ** 2 / 2 + s ** 3 / 3) * fourth
             for j, s in enumerate(SIZES)]
    return logsumexp(terms)


def root(square, cube, fourth, log_inverse):
    low, high = -1.0, 1.0
    while log_bet(high, square, cube, fourth) < log_inverse:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if log_bet(middle, square, cube, fourth) < log_inverse else (low, middle)
    return high


class Pair:
    def __init__(self, reach):
        self.reach, self.g, self.v, self.r = reach, [], [], []

    def takes(self, p_base, p_arm):
        return p_base == 0 or p_arm == 0 or max(p_base, p_arm) / (p_base + p_arm) <= self.reach * (1 + 1e-12)

    def add(self, p_base, p_arm, is_arm, reward):
        if p_base == 0 or p_arm == 0 or not self.takes(p_base, p_arm):
            return
        share = p_arm / (p_base + p_arm)
        guess = (sum(self.r) + 0.5) / (len(self.r) + 1) if len(self.r) < 50 else (self.total + 0.5) / (len(self.r) + 1)
        self.g.append((is_arm - share) * (reward - guess))
        self.v.append(share * (1 - share))
        self.r.append(reward)
        self.total = math.fsum(self.r) if len(self.r) < 50 else self.total + reward

    def sums(self):
        g = np.array(self.g) if self.g else np.zeros(0)
        return len(g), math.fsum(self.v), *(math.fsum(g ** k) for k in (1, 2, 3, 4))

    def interval(self, log_inverse):
        n, weight, score, square, cube, fourth = self.sums()
        if not weight > 0:
            return -1.0, 1.0
        c = self.reach
        below = c * root(square / c ** 2, cube / c ** 3, fourth / c ** 4, log_inverse)
        above = c * root(square / c ** 2, -cube / c ** 3, fourth / c ** 4, log_inverse)
        return max(-1.0, (score - below) / weight), min(1.0, (score + above) / weight)

    def log10_e(self):
        n, weight, score, square, cube, fourth = self.sums()
        c = self.reach
        both = [log_bet(sign * score / c, square / c ** 2, sign * cube / c ** 3, fourth / c ** 4) for sign in (1, -1)]
        return (logsumexp(both) - math.log(2)) / math.log(10)


def shown_interval(n, s, alpha):
    """The means that the beta-binomial sequence does not refute."""
    if n == 0:
        return 0.0, 1.0
    constant = betaln(0.5 + s, 0.5 + n - s) - betaln(0.5, 0.5)
    ends, best = [], s / n
    for edge in (0.0, 1.0):
        inside, outside = best, edge
        for _ in range(200):
            m = (inside + outside) / 2
            inside, outside = (m, outside) if constant - times_log(s, m) - times_log(n - s, 1 - m) < math.log(1 / alpha) else (inside, m)
        ends.append(inside)
    return ends


def changes(log10_e, alpha):
    """Which of the named e-values are told as changes: the k largest, for the largest k with the k-th >= n / (alpha k)."""
    order = sorted(log10_e, key=log10_e.get, reverse=True)
    most = max((k for k in range(1, len(order) + 1) if log10_e[order[k - 1]] >= math.log10(len(order) / (alpha * k))), default=0)
    return set(order[:most])


def traffic_log_e(sums):
    """sums: (deviation, variance) of each arm."""
    terms = [sign * t * x - (math.exp(t) - 1 - t) * w for x, w in sums for sign in (1, -1) for t in (0.01 * 2 ** (0.75 * k) for k in range(12))]
    return logsumexp(terms) - math.log(len(terms))


def best(mean, sd):
    """(probability to be best, expected loss) of each arm."""
    mean, sd, k = np.array(mean), np.array(sd), len(mean)
    if k > 2:
        tau2 = max(0.0, float(np.var(mean, ddof=1) - np.mean(sd ** 2)))
        centre = float(np.sum(mean / (sd ** 2 + tau2)) / np.sum(1 / (sd ** 2 + tau2)))
        if tau2 == 0:
            return np.full(k, 1 / k), np.zeros(k)
        share = tau2 / (tau2 + sd ** 2)
        mean, sd = centre + share * (mean - centre), np.sqrt(share) * sd
    x = np.linspace((mean - 12 * sd).min(), (mean + 12 * sd).max(), 20001)
    below = np.array([CDF((x - m) / s) for m, s in zip(mean, sd)])
    density = np.array([np.exp(-0.5 * ((x - m) / s) ** 2) / (s * math.sqrt(2 * math.pi)) for m, s in zip(mean, sd)])
    step = x[1] - x[0]
    p = np.array([(density[a] * np.prod(np.delete(below, a, axis=0), axis=0)).sum() * step for a in range(k)])
    top = x[-1] - np.trapz(np.prod(below, axis=0), x)
    return p, top - mean


# ---- the fold ----------------------------------------------------------------------------------------------------------------

class Metric:
    """Another value of the same decisions."""

    def __init__(self, settings, experiment):
        self.settings, self.base, self.order, self.level = settings, experiment.base, experiment.order, experiment.begun["level"]
        self.low, self.high = settings["range"]
        self.width, self.clipped, self.stops = self.high - self.low, 0, {}
        self.pairs = {a: Pair(experiment.begun["reach"][a]) for a in self.order if a != self.base}
        self.share = experiment.begun["share"]
        if self.share > 0:  # the policy against the holdout, by users
            self.pairs[None] = Pair(max(self.share, 1 - self.share))
        self.shown = {(a, side): [] for a in self.order for side in ("policy", "holdout")}

    @property
    def log_inverse(self):
        """A guardrail has a level for each end of its intervals, all others one for both; all comparisons share it."""
        n = len(self.pairs)
        return math.log(n / self.settings["level"] if self.settings["role"] == "guardrail" else 2 * n / self.level)

    def count(self, arm, p, value, side, is_first):
        told = self.settings["default"] if value is None else value
        self.clipped += not self.low <= told <= self.high
        r = (min(max(told, self.low), self.high) - self.low) / self.width
        if is_first:
            self.pairs[None].add(self.share, 1 - self.share, side == "policy", r)
        if p is None:
            return
        for a, pair in self.pairs.items():
            if a is not None and arm in (a, self.base):
                pair.add(p[self.base], p[a], arm == a, r)
        if arm in self.order:
            self.shown[arm, side].append(r)

    def verdict(self, low, high):
        harm = self.settings["harm"] / self.width
        return "go_on" if self.settings["role"] != "guardrail" else "harmed" if high < -harm else "holds" if low > -harm else "go_on"

    def look(self, line):
        for a, pair in self.pairs.items():
            if a in self.stops or not pair.g:
                continue
            low, high = pair.interval(self.log_inverse)
            if self.verdict(low, high) != "go_on":
                n, weight, score = pair.sums()[:3]
                self.stops[a] = {"seq": line["seq"], "at": line["at"], "verdict": self.verdict(low, high), "decisions": n,
                                 "estimate": self.width * score / weight, "low": self.width * low, "high": self.width * high}

    def told(self, found, is_void):
        def side(a, name):
            r = self.shown[a, name]
            low, high = shown_interval(len(r), math.fsum(r), self.level / len(self.order))
            return {"decisions": len(r), "mean": self.low + self.width * math.fsum(r) / len(r) if r else None,
                    "low": self.low + self.width * low, "high": self.low + self.width * high}
        def mean(values):
            return self.low + self.width * math.fsum(values) / len(values) if values else None
        differences = []
        for a, pair in self.pairs.items():
            base = mean(self.shown[self.base, "policy"] if a is not None else [r for arm in self.order for r in self.shown[arm, "holdout"]])
            low, high = pair.interval(self.log_inverse)
            n, weight, score = pair.sums()[:3]
            estimate = self.width * score / weight if weight > 0 else None
            stop = self.stops.get(a)
            verdict = "void" if is_void else "changed" if (self.settings["name"], a) in found else stop["verdict"] if stop else self.verdict(low, high)
            differences.append({"arm": a, "decisions": n, "estimate": estimate, "low": self.width * low, "high": self.width * high,
                                "lift": estimate / base if estimate is not None and base and base > 0 else None, "log10_e": pair.log10_e(),
                                "verdict": verdict, "stop": stop})
        return {"metric": self.settings["name"], "role": self.settings["role"], "range": [self.low, self.high], "clipped": self.clipped,
                "harm": self.settings["harm"] if self.settings["role"] == "guardrail" else None,
                "arms": [{"arm": a, "policy": side(a, "policy"), "holdout": side(a, "holdout")} for a in self.order],
                "differences": [d for d in differences if d["arm"] is not None],
                "policy": next(({k: v for k, v in d.items() if k != "arm"} for d in differences if d["arm"] is None), None)}


class Experiment:
    """The book by its rules, kept as lists."""

    def __init__(self):
        self.config, self.arms, self.running = None, [], False

    def wanted(self):
        e = (self.config or {}).get("experiment")
        if not e or not 2 <= len(self.arms) <= 32 or (e["baseline"] is not None and e["baseline"] not in self.arms):
            return None
        rule, share = self.config["rule"], self.config["routing"]["holdout"]["share"]
        return {**e, "baseline": e["baseline"] or self.arms[0], "arms": frozenset(self.arms), "share": share if share < 1 else 0, "reach": self.reach(rule), "metrics": self.measured()}

    def measured(self):
        """The metrics of the configuration that have values of their own: all but a single objective of weight 1."""
        metrics = self.config.get("metrics", [])
        objectives = [m for m in metrics if m["role"] == "objective"]
        is_weighted = len(objectives) > 1 or any(m["weight"] != 1 for m in objectives)
        return {m["name"]: m for m in metrics if m["role"] != "objective" or is_weighted}

    def reach(self, rule):
        if rule["type"] == "uniform":
            return {a: 0.5 for a in self.arms}
        k, eps = len(self.arms), rule["epsilon"]
        floor = (1 - eps + eps / k) / (1 - eps + 2 * eps / k) if eps > 0 else 1.0
        w = rule["weights"] if rule["type"] == "split" else {}
        base = w.get(self.config["experiment"]["baseline"] or self.arms[0], 0)
        return {a: max(base, w[a]) / (base + w[a]) if base > 0 and w.get(a, 0) > 0 else floor for a in self.arms}

    def refresh(self, line):
        want = self.wanted()
        same = want and self.running and all(want[k] == self.begun[k] for k in want if k != "reach") and all(want["reach"][a] <= self.begun["reach"][a] for a in want["reach"])
        if same:
            return
        self.running = want is not None
        if not want:
            return
        self.begun, self.since, self.order = want, (line["seq"], line["at"]), list(self.arms)
        self.base, self.queue, self.users = want["baseline"], [], set()
        self.pairs = {a: Pair(want["reach"][a]) for a in self.order if a != self.base}
        self.policy = Pair(max(want["share"], 1 - want["share"]))
        self.shown = {(a, side): [] for a in self.order for side in ("policy", "holdout")}
        self.metrics = {name: Metric(m, self) for name, m in want["metrics"].items()}
        self.traffic = {a: [] for a in self.order + [None] * (want["share"] > 0)}  # (shown, propensity); None: the holdout
        self.counted = self.left_out = self.clipped = self.beyond = 0
        self.next_look, self.worst, self.alarm, self.stops = 1, 0.0, None, {}  # before the first decision nothing is known: a bet of 1

    @property
    def n_sentences(self):
        return len(self.order) - 1 + (self.begun["share"] > 0)

    @property
    def log_inverse(self):
        return math.log(2 * self.n_sentences / self.begun["level"])

    @property
    def width(self):
        return self.begun["range"][1] - self.begun["range"][0]

    def take(self, line):
        kind = line["type"]
        if kind == "configured":
            self.config = line["configuration"]
            self.refresh(line)
        elif kind == "arms":
            names = [a["id"] if isinstance(a, dict) else a for a in line["put"]]
            kept = [] if line["replace"] else self.arms
            self.arms = [a for a in dict.fromkeys([*kept, *names]) if a not in line["remove"]]
            self.refresh(line)
        if not self.running:
            return
        if kind == "decided":
            self.decided(line)
        found = next((w for w in self.queue if w["id"] == line.get("decision")), None) if kind in ("rewarded", "measured", "expired", "activated") else None
        if found is not None and not found["final"]:
            if kind == "activated":
                found["shown"] = True
            elif kind == "rewarded" and line.get("arm") in (None, found["arm"]):
                how = self.config["aggregation"]
                found["reward"] = (found["reward"] or 0) + line["reward"] if how == "sum" else line["reward"]
                found["final"] = how == "first" and not self.metrics
            if kind in ("rewarded", "measured") and "metric" in line and not line.get("late") and line.get("arm") in (None, found["arm"]):
                self.measure(found["values"], line)
            elif kind == "expired":
                if found["reward"] is None:
                    found["reward"] = line.get("reward")
                found["final"] = True
        while self.queue and (self.queue[0]["final"] or seconds(line["at"]) - HOUR > seconds(self.queue[0]["expires_at"])):
            self.count(self.queue.pop(0), line)

    def measure(self, values, line):
        """What is told is one value; what it comes to is for the aggregation to say, and the line must say the same."""
        name, told = line["metric"], line.get("value", line["reward"])
        old = values.get(name)
        assert line.get("before") == old
        values[name] = told + old if old is not None and self.measured()[name]["aggregation"] == "sum" else told
        assert line.get("total", told) == values[name]

    def decided(self, line):
        route = line.get("route", "policy")
        if route == "stopped":
            return
        is_first = self.begun["share"] > 0 and line["user"] not in self.users
        self.users.add(line["user"])
        odds = dict(map(tuple, line["odds"])) if route != "sticky" and "odds" in line else None
        self.left_out += odds is None and route != "sticky"
        if odds is None and not is_first:
            return
        assert route != "sticky" or self.begun["share"] == 0, "the oracle knows no sides of arms that stick"
        self.queue.append({"id": line["decision"], "arm": line["arm"], "odds": odds, "first": is_first, "holdout": route == "holdout", "reward": None, "values": {},
                           "at": line["at"], "expires_at": line["expires_at"], "shown": "deferred" not in line, "final": False})

    def count(self, w, line):
        if not w["shown"]:
            return
        low, high = self.begun["range"]
        told = w["reward"] if w["reward"] is not None else (self.config["default_reward"] or 0)
        self.clipped += not low <= told <= high
        r = (min(max(told, low), high) - low) / (high - low)
        if w["odds"] is not None:
            p = {a: w["odds"].get(a, 0) for a in self.order}
            beyond = False
            for a in self.order:
                self.traffic[a].append((w["arm"] == a, p[a]))
                if a != self.base and w["arm"] in (a, self.base):
                    beyond |= not self.pairs[a].takes(p[self.base], p[a])
                    self.pairs[a].add(p[self.base], p[a], w["arm"] == a, r)
            self.beyond += beyond
            if w["arm"] in self.order:
                self.shown[w["arm"], "holdout" if w["holdout"] else "policy"].append(r)
        for name, m in self.metrics.items():
            m.count(w["arm"], p if w["odds"] is not None else None, w["values"].get(name), "holdout" if w["holdout"] else "policy", w["first"])
        if w["first"]:
            self.policy.add(self.begun["share"], 1 - self.begun["share"], not w["holdout"], r)
            self.traffic[None].append((w["holdout"], self.begun["share"]))
        self.counted += 1
        if self.counted >= self.next_look:
            self.next_look = self.counted + 1 + (self.counted // 100 if self.counted >= 100 else 0)
            self.look(line)

    def traffic_now(self):
        return traffic_log_e([(math.fsum(x - p for x, p in seen), math.fsum(p * (1 - p) for _, p in seen)) for seen in self.traffic.values()])

    def verdict(self, low, high):
        d = self.begun["difference"] / self.width
        return "better" if low > 0 else "worse" if high < 0 else "no_difference" if -d < low and high < d else "go_on"

    def look(self, line):
        self.worst = max(self.worst, self.traffic_now())
        if self.alarm is None and self.worst >= -math.log(self.begun["traffic_level"]):
            self.alarm = (line["seq"], line["at"])
        if self.alarm:
            return
        for name, pair in [*self.pairs.items(), ("the policy", self.policy)]:
            if name in self.stops or not pair.g:
                continue
            low, high = pair.interval(self.log_inverse)
            if self.verdict(low, high) != "go_on":
                n, weight, score = pair.sums()[:3]
                self.stops[name] = {"seq": line["seq"], "at": line["at"], "verdict": self.verdict(low, high), "decisions": n,
                                    "estimate": self.width * score / weight, "low": self.width * low, "high": self.width * high}

        for m in self.metrics.values():
            m.look(line)

    # ---- what is told ---------------------------------------------------------------------------------------------------

    def lift_interval(self, pair, base, lift):
        """Half of the level for all effects, half for the means that they are told over: the ratios of what neither refutes."""
        wide, zero = self.width, self.begun["range"][0]
        effects = [wide * x for x in pair.interval(self.log_inverse + math.log(2))]
        means = [zero + wide * x for x in shown_interval(len(base), math.fsum(base), self.begun["level"] / (4 if self.begun["share"] > 0 else 2))]
        if lift is None or not means[0] > 0:
            return None, None
        ratios = [x / m for x in effects for m in means]
        return min(ratios), max(ratios)

    def difference(self, name, pair, base, is_void):
        base_mean = self.begun["range"][0] + self.width * math.fsum(base) / len(base) if len(base) else None
        low, high = pair.interval(self.log_inverse)
        n, weight, score = pair.sums()[:3]
        estimate = self.width * score / weight if weight > 0 else None
        rate, d = (math.fsum(pair.r) + 0.5) / (n + 1), self.begun["difference"] / self.width
        needed = None if not weight > 0 else max(0, math.ceil(math.ceil(6.7 ** 2 * rate * (1 - rate) / d ** 2) * n / (4 * weight) * self.log_inverse / math.log(40) - n))
        stop = self.stops.get(name)
        verdict = "void" if is_void else stop["verdict"] if stop else self.verdict(low, high)
        lift = estimate / base_mean if estimate is not None and base_mean and base_mean > 0 else None
        lift_lower, lift_upper = self.lift_interval(pair, base, lift)
        return {"decisions": n, "estimate": estimate, "low": self.width * low, "high": self.width * high, "lift": lift, "lift_lower": lift_lower, "lift_upper": lift_upper,
                "log10_e": pair.log10_e(), "needed": needed, "reach": pair.reach, "verdict": verdict, "stop": stop}

    def told(self):
        if not self.running:
            return None
        zero, wide = self.begun["range"][0], self.width
        def side(a, name):
            r = self.shown[a, name]
            low, high = shown_interval(len(r), math.fsum(r), self.begun["level"] / len(self.order))
            return {"decisions": len(r), "mean": zero + wide * math.fsum(r) / len(r) if r else None, "low": zero + wide * low, "high": zero + wide * high}
        arms = [{"arm": a, "policy": side(a, "policy"), "holdout": side(a, "holdout")} for a in self.order]
        mean, sd = [], []
        for a in self.order:
            r = np.array([*self.shown[a, "policy"]])
            m = (r.sum() + 0.5) / (len(r) + 1)
            mean.append(m)
            sd.append(math.sqrt(max(0, (np.sum(r ** 2) + 0.5) / (len(r) + 1) - m * m) / (len(r) + 1)))
        p, loss = best(mean, sd)
        for a, one_p, one_loss in zip(arms, p, loss):
            a |= {"p_best": float(one_p), "expected_loss": wide * float(one_loss)}
        log_e = max(self.worst, self.traffic_now())
        is_void = log_e >= -math.log(self.begun["traffic_level"])
        base = list(self.shown[self.base, "policy"])
        held = [r for a in self.order for r in self.shown[a, "holdout"]]
        return {"since": {"seq": self.since[0], "at": self.since[1]},
                "decisions": {"counted": self.counted, "waiting": len(self.queue), "waiting_since": self.queue[0]["at"] if self.queue else None,
                              "left_out": self.left_out, "clipped": self.clipped, "beyond_reach": self.beyond},
                "arms": arms,
                "differences": [{"arm": a, **self.difference(a, self.pairs[a], base, is_void)} for a in self.order if a != self.base],
                "policy": {"holdout": self.begun["share"], **self.difference("the policy", self.policy, held, is_void)} if self.begun["share"] > 0 else None,
                "traffic": {"log10_e": log_e / math.log(10), "p_value": min(1, math.exp(-log_e)), "void": is_void,
                            "alarm": {"seq": self.alarm[0], "at": self.alarm[1]} if self.alarm else None},
                **self.told_metrics(is_void)}

    def told_metrics(self, is_void):
        if not self.metrics:
            return {}
        tests = {(name, a): pair.log10_e() for name, m in self.metrics.items() if m.settings["role"] != "guardrail" for a, pair in m.pairs.items()}
        found = changes(tests, self.begun["level"]) if not is_void else set()
        return {"metrics": [m.told(found, is_void) for m in self.metrics.values()], "changes": {"tests": len(tests), "found": len(found)}}


def fold(lines):
    e = Experiment()
    for line in lines:
        e.take(json.loads(line) if isinstance(line, str) else line)
    return e.told()


def compare(told, want, tolerance=1e-7, place=""):
    """Whatever the oracle knows must be told so; sentences, and settings, are the tests' own."""
    if isinstance(want, dict):
        for key, value in want.items():
            assert key in told, f"{place}/{key} is missing"
            compare(told[key], value, 1e-5 if key in ("p_best", "expected_loss") else tolerance, f"{place}/{key}")
    elif isinstance(want, list):
        assert len(told) == len(want), place
        for i, (a, b) in enumerate(zip(told, want)):
            compare(a, b, tolerance, f"{place}/{i}")
    elif isinstance(want, float) and told is not None:
        assert abs(told - want) <= tolerance * (1 + abs(want)), f"{place}: {told}, not {want}"
    elif place.endswith("needed") and want is not None:
        assert abs(told - want) <= 1 + 1e-6 * want, f"{place}: {told}, not {want}"
    else:
        assert told == want, f"{place}: {told}, not {want}"
