"""What is played: worlds of users, contexts and arms whose rewards are drawn before anybody plays, so that all rows meet the same.

A task makes a world from a seed. Round t of a world has a user, a context (or none) and candidates; what arm a pays in it is
`reward(t, a)`, and what it counts is `score(t, a)`: regret (lower is better), or the reward itself."""
import csv
import json
import pathlib

import numpy as np

REGRET, REWARD, ALIVE = "regret", "reward", "alive"


class World:
    """Everybody is one user, all arms are candidates, and there are no contexts, unless a world says otherwise."""
    graph = context = features = None
    users = 1

    def __init__(self, rounds, arms):
        self.rounds, self.arms = rounds, arms
        self.user = np.zeros(rounds, int)
        self.everybody = np.arange(arms)

    def candidates(self, t):
        return self.everybody

    def truth(self):
        """What a tenant may be told of it, as groups of a configuration; None: nothing."""


class Clicks(World):
    """Arms that are clicked at with given rates, in an order of the seed's own. From `change` on the best arm has the rate of the worst,
    the second that of the second worst, and so on. `features`: of the arms, by ascending rate."""

    def __init__(self, rates, rounds, seed, change=None, features=None):
        super().__init__(rounds, len(rates))
        rng = np.random.default_rng([1, seed, rounds, int(1e6 * sum(rates))])
        ascending, order = np.sort(np.asarray(rates, float)), rng.permutation(self.arms)
        self.rates = np.tile(ascending[order], (rounds, 1))
        self.features = None if features is None else features[order]
        if change is not None:
            self.rates[change:] = ascending[::-1][order]
        self.drawn = rng.random((rounds, self.arms)) < self.rates
        self.best = self.rates.max(axis=1)

    def reward(self, t, arm):
        return float(self.drawn[t, arm])

    def score(self, t, arm):
        return self.best[t] - self.rates[t, arm]

    def truth(self):
        """What `laplaced-by-arm` would be told: mean and variance of the arms, and the noise around them."""
        first = self.rates[0]
        if not first.any():
            return None
        return {"prior": {"mean": first.mean(), "arm": max(first.var(), 1e-8)}, "representation": {"lambda": (first * (1 - first)).mean()}}


class Classes(World):
    """Classification as a bandit: an arm for each class, 1 for the right one. Classes are named anew and rows come in another
    order for each seed; each column has mean 0 and deviation 1 over the set."""

    def __init__(self, x, y, seed, rounds):
        rng = np.random.default_rng([2, seed])
        names, y = np.unique(y, return_inverse=True)
        order = rng.permutation(len(y))[:rounds]
        super().__init__(len(order), len(names))
        sd = x.std(axis=0)
        self.context = ((x - x.mean(axis=0)) / np.where(sd > 0, sd, 1))[order]
        self.right = rng.permutation(len(names))[y[order]]

    def reward(self, t, arm):
        return float(arm == self.right[t])

    score = reward


class Town(World):
    """The town of `laplacectl demo` (tools/demo/town.c has its formulas), drawn by numpy: users in neighbourhoods, tastes smooth along
    friendships and along the arms' features. `graph`: what is told of the friendships. From `change` on all have other tastes."""
    N, ARMS, DIM, SHOWN, RHO, NOISE = 120, 20, 5, 10, 0.1, 0.2

    def __init__(self, rounds, seed, graph, change=None):
        super().__init__(rounds, self.ARMS)
        rng = np.random.default_rng([3, seed])
        n = self.users = self.N
        block = np.arange(n) // 20
        chance = np.where(block[:, None] == block, 6 / 19, 1 / (n - 20))
        linked = np.triu(rng.random((n, n)) < chance, 1)
        for i in range(1, n):  # connected: each neighbour of lower number, or a random one
            if not linked[:i, i].any():
                linked[rng.integers(i), i] = True
        laplacian = np.diag((linked | linked.T).sum(axis=0)) - (linked | linked.T)
        x = rng.normal(size=(self.arms, self.DIM))
        self.features = x / np.linalg.norm(x, axis=1, keepdims=True)
        gram = np.exp(-((self.features[:, None] - self.features) ** 2).sum(axis=2) / 2) + 1e-9 * np.eye(self.arms)
        users = np.linalg.cholesky(laplacian + self.RHO * np.eye(n))
        def tastes(rng):
            truth = np.linalg.solve(users.T, rng.normal(size=(n, self.arms))) @ np.linalg.cholesky(gram).T
            return truth / np.sqrt((truth ** 2).mean())
        self.values = tastes(rng)
        self.user = rng.integers(n, size=rounds)
        self.shown = np.array([rng.choice(self.arms, self.SHOWN, replace=False) for _ in range(rounds)])
        self.noise = rng.normal(scale=self.NOISE, size=(rounds, self.arms))
        names = {"true": np.arange(n), "permuted": rng.permutation(n)}.get(graph)
        if names is not None:
            self.graph = [(int(names[i]), int(names[j])) for i, j in zip(*np.nonzero(linked))]
        self.change = rounds if change is None else change
        self.then = tastes(np.random.default_rng([5, seed]))

    def of_user(self, t):
        """What everything is worth to the user of round t."""
        return (self.values if t < self.change else self.then)[self.user[t]]

    def candidates(self, t):
        return self.shown[t]

    def reward(self, t, arm):
        return self.of_user(t)[arm] + self.noise[t, arm]

    def score(self, t, arm):
        worth = self.of_user(t)
        return worth[self.shown[t]].max() - worth[arm]

    def truth(self):
        return {"representation": {"lambda": self.NOISE ** 2}, "user_kernel": {"rho": self.RHO}}


class Network(World):
    """Listeners and what they like, of a file; `rarest`: genres that a smaller share of the listeners likes."""

    def __init__(self, folder, rounds, seed, rarest=1.0, graph=True, n=1500, shown=20):
        likes = json.loads((folder / "RO_genres.json").read_text())
        fans = {}
        for user, genres in likes.items():
            for genre in genres:
                fans.setdefault(genre, set()).add(user)
        genres = sorted(g for g in fans if len(fans[g]) < rarest * len(likes) and len(fans[g]) >= 20)
        super().__init__(rounds, len(genres))
        rng = np.random.default_rng([4, seed])
        with open(folder / "RO_edges.csv") as file:
            edges = [tuple(row) for row in csv.reader(file)][1:]
        member = self.sample(edges, rng, n)
        self.users = len(member)
        self.likes = np.array([[u in fans[g] for g in genres] for u in member], float)
        if graph:
            self.graph = [(member[a], member[b]) for a, b in edges if a in member and b in member]
        self.user = rng.integers(self.users, size=rounds)
        self.shown = np.array([rng.choice(self.arms, min(shown, self.arms), replace=False) for _ in range(rounds)])

    @staticmethod
    def sample(edges, rng, n):
        """{name: number} of n people who know each other: from one of them outwards."""
        friends = {}
        for a, b in edges:
            friends.setdefault(a, []).append(b)
            friends.setdefault(b, []).append(a)
        names = sorted(friends)
        line, known = [], set()
        for i in range(len(names)):
            if i == len(line):  # at the beginning, and behind a circle of people that is complete
                line.append(next(name for name in rng.permutation(names) if name not in known))
                known.add(line[i])
            for name in rng.permutation(friends[line[i]]):
                if name not in known:
                    line.append(name)
                    known.add(name)
            if len(line) >= n:
                break
        return {str(name): number for number, name in enumerate(line[:n])}

    def candidates(self, t):
        return self.shown[t]

    def reward(self, t, arm):
        return self.likes[self.user[t], arm]

    score = reward


class Shop(World):
    """A catalogue with features: 200 things, 20 of them shown, whose rates of sale go with two directions of 8 features, and a
    little with what is the thing's own."""
    ARMS, DIM, SHOWN = 200, 8, 20

    def __init__(self, rounds, seed):
        super().__init__(rounds, self.ARMS)
        rng = np.random.default_rng([6, seed])
        self.features = rng.normal(size=(self.arms, self.DIM))
        along, across = np.linalg.qr(rng.normal(size=(self.DIM, 2)))[0].T
        self.rates = 1 / (1 + np.exp(3 - self.features @ along - (self.features @ across) ** 2 / 2 - 0.3 * rng.normal(size=self.arms)))
        self.drawn = rng.random((rounds, self.arms)) < self.rates
        self.shown = np.array([rng.choice(self.arms, self.SHOWN, replace=False) for _ in range(rounds)])

    def candidates(self, t):
        return self.shown[t]

    def reward(self, t, arm):
        return float(self.drawn[t, arm])

    def score(self, t, arm):
        return self.rates[self.shown[t]].max() - self.rates[arm]


def obd_features(folder):
    """Of each item: the one that is a number, and an indicator of each value of the other three."""
    with open(folder / "item_context_men.csv") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["item_id"]))
    out = [np.array([float(row["item_feature_0"]) for row in rows])]
    for k in (1, 2, 3):
        values = [row[f"item_feature_{k}"] for row in rows]
        out += [np.array([v == value for v in values], float) for value in sorted(set(values))]
    return np.column_stack(out)


def obd_rates(folder):
    """Share of clicks of each item under the uniform policy, drawn towards the mean of all as by 200 more views."""
    with open(folder / "random_men.csv") as file:
        rows = [(int(row["item_id"]), int(row["click"])) for row in csv.DictReader(file)]
    items, clicks = np.array(rows).T
    views, clicked = np.bincount(items), np.bincount(items, weights=clicks)
    return (clicked + 200 * clicks.mean()) / (views + 200)


class Task:
    """`make(seed)` is its world. `chosen_on`: constants of a model were chosen while looking at it. `delay`: a reward comes so many
    decisions later. `needs`: what is not there, in words, so that the task is skipped and named."""

    def __init__(self, name, group, measure, about, make, chosen_on=False, delay=0, forgets=False, needs=None):
        self.name, self.group, self.measure, self.about, self.make = name, group, measure, about, make
        self.chosen_on, self.delay, self.forgets, self.needs = chosen_on, delay, forgets, needs


AB = [  # name, rates, rounds, whether constants were chosen on it
    ("ctr5", (.01, .015, .02, .025, .03), 20000, True),
    ("half", (.3, .5), 4000, True),
    ("mid", np.linspace(.03, .08, 10), 8000, True),
    ("ctr20", np.linspace(.005, .03, 20), 20000, False),
    ("fresh2", (.05, .06), 8000, False),
    ("fresh3", (.1, .12, .15), 8000, False),
    ("fresh8", np.linspace(.008, .052, 8), 8000, False),
    ("low2", (.005, .01), 20000, False),
    ("high4", (.35, .4, .45, .5), 4000, False),
    ("wide10", np.geomspace(.005, .5, 10), 4000, False),
    ("needle20", [.02] * 19 + [.06], 20000, False)]

SETS = {"digits": True, "wine": True, "breast_cancer": False, "iris": False}


def classes(name, seed, rounds):
    from sklearn import datasets
    if name == "diabetes":
        data = datasets.load_diabetes()
        return Classes(data.data, np.searchsorted(np.quantile(data.target, (1 / 3, 2 / 3)), data.target), seed, rounds)
    data = getattr(datasets, "load_" + name)()
    return Classes(data.data, data.target, seed, rounds)


def lacks_sklearn():
    try:
        import sklearn  # noqa: F401
    except ImportError:
        return "Debian's python3-sklearn is not installed"
    return None


def all_tasks(data=None, most=None):
    """Every task; at most `most` rounds each. data: the folder with deezer-ro and obd, or None."""
    def bounded(n):
        return n if most is None else min(n, most)

    def clicks(rates, n, **more):
        return lambda seed: Clicks(rates, bounded(n), seed, **more)
    tasks = [Task(name, "ab", REGRET, f"{len(rates)} arms, rates {min(rates):g} to {max(rates):g}, {n:,} rounds", clicks(rates, n), is_chosen)
             for name, rates, n, is_chosen in AB]
    for graph, chosen in (("true", True), ("permuted", False), ("no", False)):
        tasks.append(Task(f"town-{graph}", "town", REGRET, f"120 users, 20 arms with features, 10 shown, {graph} graph, 3,000 rounds",
                          lambda seed, g=graph: Town(bounded(3000), seed, g), chosen))
    five = np.linspace(.1, .3, 5)
    half = bounded(3000) // 2
    tasks.append(Task("town-drift", "features", REGRET, "the town with its true graph, whose people change all their tastes after half of 3,000 rounds; "
                      "`forgetting` is on", lambda seed: Town(bounded(3000), seed, "true", half), forgets=True))
    tasks.append(Task("town-steady", "features", REGRET, "the same without the change", lambda seed: Town(bounded(3000), seed, "true"), forgets=True))
    tasks.append(Task("town-late", "features", REGRET, "the town with its true graph; rewards come 500 decisions late",
                      lambda seed: Town(bounded(3000), seed, "true"), delay=500))
    tasks.append(Task("shop", "features", REGRET, "200 arms with 8 features, 20 shown, sold in a tenth of the cases, 5,000 rounds", lambda seed: Shop(bounded(5000), seed)))
    tasks.append(Task("drift", "drift", REGRET, "5 arms, rates .1 to .3, which change places after half of 8,000 rounds; `forgetting` is on",
                      lambda seed: Clicks(five, bounded(8000), seed, change=bounded(8000) // 2), forgets=True))
    tasks.append(Task("steady", "drift", REGRET, "the same without the change", clicks(five, 8000), forgets=True))
    tasks.append(Task("late", "late", REGRET, "5 arms, rates .1 to .3, 8,000 rounds; rewards come 500 decisions late", clicks(five, 8000), delay=500))
    tasks.append(Task("prompt", "late", REGRET, "the same, each reward at once", clicks(five, 8000)))
    tasks.append(Task("zeros", "zeros", ALIVE, "5 arms that never pay, 2,000 rounds: the share of the arm that is shown least in the second "
                      "half, times 5", clicks((0,) * 5, 2000)))
    for name in ("digits", "wine", "breast_cancer", "iris", "diabetes"):
        tasks.append(Task(name, "classes", REWARD, f"{name} of python3-sklearn" + (", thirds of its target" if name == "diabetes" else ""),
                          lambda seed, s=name: classes(s, seed, bounded(1797)), SETS.get(name, False), needs=lacks_sklearn()))
    folder = pathlib.Path(data) if data else None
    for name, about, rarest, graph in (("deezer", "84 genres", 1.0, True), ("deezer-rare", "genres that fewer than 5 % like", 0.05, True),
                                       ("deezer-no-graph", "84 genres, the friendships not told", 1.0, False)):
        needs = None if folder and (folder / "deezer-ro" / "RO_edges.csv").exists() else "DATA=FOLDER has no deezer-ro"
        tasks.append(Task(name, "network", REWARD, f"1,500 listeners of Deezer in Romania, {about}, 20 shown, 5,000 rounds",
                          lambda seed, r=rarest, g=graph: Network(folder / "deezer-ro", bounded(5000), seed, r, g), needs=needs))
    needs = None if folder and (folder / "obd" / "random_men.csv").exists() else "DATA=FOLDER has no obd"
    tasks.append(Task("obd", "obd", REGRET, "34 arms with the click rates that a uniform policy found in the Open Bandit Dataset (men), 20,000 rounds",
                      lambda seed: Clicks(obd_rates(folder / "obd"), bounded(20000), seed), needs=needs))

    def items(seed):
        rates, features = obd_rates(folder / "obd"), obd_features(folder / "obd")
        return Clicks(rates, bounded(20000), seed, features=features[np.argsort(rates, kind="stable")])
    tasks.append(Task("obd-features", "obd", REGRET, "the same, the items' features told, 20,000 rounds", items, needs=needs))
    return tasks
