"""Dense oracles of what the server computes, written from MATH alone: numpy, no factor updates, no sketches of its own.

    k(s, s') = G[u, u'] kc(c, c') kx(x, x')          a point s = (user, context, arm, features)
    exact    mean = k^T (K + a I)^-1 y,  sd^2 = k(s,s) - k^T (K + a I)^-1 k                      [LK, eq. 3]
    sketch   features z = E^-1/2 Q^T k_Z of K_ZZ = Q E Q^T, V = sum z z^T + a I,
             mean = z V^-1 b,  sd^2 = k(s,s) - z.z + a z V^-1 z                                  [EK, Prop. 4.2]

The server reaches the sketch by growing Cholesky factors; here it is an eigendecomposition of the served dictionary,
so that agreement means something.
"""
import datetime
import math

import numpy as np


# --- kernels ---------------------------------------------------------------------------------------------------------

def user_gram(spec, graph, users, seen=None):
    """G over the given users (ids). graph: (nodes, {(u, v): weight}); users outside of it are unknown. seen: of mmd, see
    learned_gram."""
    n = len(users)
    if spec["type"] == "mmd":
        return learned_gram(spec, seen, users)
    if spec["type"] == "ones":
        return np.ones((n, n))
    if spec["type"] == "identity":
        return np.array([[float(a == b) for b in users] for a in users])
    if spec["type"] == "laplacian" and spec["power"] == 1:
        full, place = laplacian_block(spec, graph, users)
        g = np.array([[pair_value(spec, full, place, a, b) for b in users] for a in users])
    else:
        g = spectral_gram(spec, graph, users)
    if spec["normalize"]:
        d = np.sqrt(np.diag(g))
        g = g / np.outer(d, d)
    return g


def keyed_uniform(key, stream, index):
    """The server's keyed random numbers (core/base/rng.c): three rounds of SplitMix64's finaliser, upper 53 bits."""
    golden, mask, z = 0x9E3779B97F4A7C15, 2**64 - 1, key
    for part in (1, stream, index):
        z = (z + part * golden) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        z ^= z >> 31
    return (z >> 11) * 2.0**-53


def keyed_normal(key, stream, index):
    return math.sqrt(-2 * math.log(1 - keyed_uniform(key, stream, 2 * index))) * \
        math.cos(2 * math.pi * keyed_uniform(key, stream, 2 * index + 1))


def median_distance(x):
    """Of the positive distances among the rows (of which there are at most 512)."""
    d = np.sqrt(((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=2))[np.triu_indices(len(x), 1)]
    return np.median(d[d > 0])


def learned_gram(spec, seen, users):
    """mmd: RBF of mean embeddings. seen: None before the first refresh, else (seed, points taught up to the last one);
    the random features are core/graph/user_embedding.c's, number by number."""
    g = np.eye(len(users))
    if seen is None:
        return g
    seed, points = seen
    vectors = [tuple(p[1] or p[3]) for p in points]
    rows = {(p[0], tuple(p[1] or ()), p[2], tuple(p[3] or ())): v for p, v in zip(points, vectors)}  # distinct points
    scale = spec["lengthscale"] if spec["lengthscale"] != "median" else median_distance(np.array(list(rows.values())))
    dim, n = len(vectors[0]), spec["features"]
    w = np.array([[keyed_normal(seed, 6, j * (dim + 1) + d) / scale for d in range(dim)] for j in range(n)])
    b = 2 * math.pi * np.array([keyed_uniform(seed, 6, 2 * (j * (dim + 1) + dim)) for j in range(n)])
    by_user = {}
    for p, v in zip(points, vectors):
        by_user.setdefault(p[0], []).append(v)
    mean = {u: math.sqrt(2 / n) * np.cos(np.array(x) @ w.T + b).mean(axis=0) for u, x in by_user.items()
            if len(x) >= spec["min_observations"]}
    s = spec["bandwidth"] if spec["bandwidth"] != "median" else median_distance(np.array(list(mean.values())))
    for i, u in enumerate(users):
        for j, v in enumerate(users):
            if u in mean and v in mean:
                g[i, j] = math.exp(-0.5 * ((mean[u] - mean[v]) ** 2).sum() / s**2)
    return g


def laplacian(nodes, edges):
    """L = D - W."""
    at = {u: i for i, u in enumerate(nodes)}
    l = np.zeros((len(nodes), len(nodes)))
    for (u, v), w in edges.items():
        l[at[u], at[v]] -= w
        l[at[v], at[u]] -= w
    return l - np.diag(l.sum(axis=1))


def spectral_gram(spec, graph, users):
    """Powers of L + rho I, heat and spectral_rbf over the given users, by numpy's eigendecomposition. A user outside
    of the graph is one more node without edges."""
    nodes = list(graph[0]) + [u for u in dict.fromkeys(users) if u not in set(graph[0])]
    known = list(graph[0])
    e, q = np.linalg.eigh(laplacian(nodes, graph[1]))
    e = np.maximum(e, 0.0)
    if spec["type"] == "spectral_rbf":
        full = coordinates_rbf(spec, laplacian(nodes, graph[1]), len(known))
    else:
        f = np.exp(-spec["tau"] * e) if spec["type"] == "heat" else (e + spec["rho"]) ** -spec["power"]
        full = (q * f) @ q.T
    at = [nodes.index(u) for u in users]
    return full[np.ix_(at, at)]


def coordinates_rbf(spec, l, n_known):
    """RBF on the k lowest non-trivial eigenvectors of the graph's own Laplacian (its first n_known nodes), within
    components; those who are not in the graph are components of their own. Eigenvalues are taken to be simple."""
    e, q = np.linalg.eigh(l[:n_known, :n_known])
    first = int((e <= 1e-9 * e[-1]).sum())
    x = q[:, first:first + spec["k"]]
    x = np.where(np.abs(x) > 1e-12, x, 0.0)
    d = np.sqrt(((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=2))
    pairs = d[np.triu_indices(n_known, 1)]
    scale = np.median(pairs[pairs > 0]) if spec["lengthscale"] == "median" else spec["lengthscale"]
    reach = np.linalg.matrix_power((l[:n_known, :n_known] != 0).astype(float) + np.eye(n_known), n_known) > 0
    full = np.eye(len(l))
    full[:n_known, :n_known] = np.where(reach, np.exp(-0.5 * (d / scale) ** 2), 0.0)
    return full


def laplacian_block(spec, graph, users):
    """The rows and columns of (L + rho I)^-1 of those users that are in the graph, and with a population of the
    virtual node (last); with the place of each user in it. graph: (nodes, {(u, v): weight})."""
    nodes, edges = graph
    at = {u: i for i, u in enumerate(nodes)}
    n, w = len(nodes), spec["population"]
    l = np.zeros((n + (w > 0), n + (w > 0)))
    ends = np.array([(at[u], at[v]) for u, v in edges], dtype=int).reshape(-1, 2)
    weight = np.array(list(edges.values()))
    np.add.at(l, (ends[:, 0], ends[:, 1]), -weight)
    l = l + l.T
    if w > 0:
        l[n, :n] = l[:n, n] = -w
    l -= np.diag(l.sum(axis=1))
    place = {u: i for i, u in enumerate(u for u in dict.fromkeys(users) if u in at)}
    kept = [at[u] for u in place] + ([n] if w > 0 else [])
    columns = np.linalg.solve(l + spec["rho"] * np.eye(len(l)), np.eye(len(l))[:, kept])
    return columns[kept], place


def pair_value(spec, full, place, a, b):
    """One entry, users outside of the graph included: they hang on the virtual node alone, or stand alone."""
    rho, w = spec["rho"], spec["population"]
    in_a, in_b = a in place, b in place
    if in_a and in_b:
        return full[place[a], place[b]]
    if w == 0:
        return 1.0 / rho if a == b else 0.0
    c, pp = w / (w + rho), full[-1, -1]
    if in_a or in_b:
        return c * full[place[a if in_a else b], -1]
    return c * c * pp + (1.0 / (w + rho) if a == b else 0.0)


def vector_gram(spec, x, y):
    """Kernel of the rows of x against the rows of y."""
    kind = spec["type"]
    if kind == "ones":
        return np.ones((len(x), len(y)))
    if kind in ("linear", "polynomial"):
        dot = x @ y.T
        return dot if kind == "linear" else (dot + spec["offset"]) ** spec["degree"]
    r = np.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2))
    if kind == "delta":
        return (r == 0.0).astype(float)
    s = r / spec["lengthscale"]
    if kind == "rbf":
        return np.exp(-0.5 * s * s)
    if kind == "matern12":
        return np.exp(-s)
    if kind == "matern32":
        return (1 + math.sqrt(3) * s) * np.exp(-math.sqrt(3) * s)
    assert kind == "matern52"
    return (1 + math.sqrt(5) * s + 5 * s * s / 3) * np.exp(-math.sqrt(5) * s)


class Model:
    """A tenant's kernel: `parameters` as /model serves them, the graph as (nodes, edges), and what mmd learned from."""

    def __init__(self, parameters, graph=((), {}), seen=None):
        self.p = parameters
        self.seen = seen
        self.graph = (list(graph[0]), dict(graph[1]))
        self.ridge = parameters["representation"]["lambda"]
        self._users, self._gram = {}, np.zeros((0, 0))

    def _user_block(self, a, b):
        new = [u for u in dict.fromkeys(list(a) + list(b)) if u not in self._users]
        if new:
            users = list(self._users) + new
            self._users = {u: i for i, u in enumerate(users)}
            self._gram = user_gram(self.p["user_kernel"], self.graph, users, self.seen)
        return self._gram[np.ix_([self._users[u] for u in a], [self._users[u] for u in b])]

    def gram(self, s, t):
        """k over two lists of points (user, context, arm, features)."""
        g = self._user_block([p[0] for p in s], [p[0] for p in t])
        if self.p["representation"]["type"] == "by_arm":
            return self.components(g, s, t) * np.array([[float(a[2] == b[2]) for b in t] for a in s]).reshape(len(s), len(t))
        if self.p["representation"]["type"] == "by_component":
            same = np.array([[float(a[2] == b[2]) for b in t] for a in s]).reshape(len(s), len(t))
            shared = self.components(g, s, t) + self.p["prior"]["feature"] - self.p["prior"]["arm"]
            return self.p["prior"]["arm"] * same + shared * vector_gram(self.p["arm_kernel"], matrix(s, 3), matrix(t, 3))
        g = g * vector_gram(self.p["context_kernel"], matrix(s, 1), matrix(t, 1))
        if self.p["arm_kernel"]["type"] == "delta":
            same = np.array([[float(a[2] == b[2]) for b in t] for a in s]).reshape(len(s), len(t))
            return g * same
        return g * vector_gram(self.p["arm_kernel"], matrix(s, 3), matrix(t, 3))

    def components(self, users, s, t):
        """by_arm, of one arm: a sum of terms, of which those over a graph or contexts that are not there are left out."""
        v, kind = self.p["prior"], self.p["user_kernel"]["type"]
        k = np.full(users.shape, float(v["arm"]))
        if kind != "ones" and (kind not in ("laplacian", "heat", "spectral_rbf") or self.graph[0]):
            k += v["user"] * users
        x, y = matrix(s, 1), matrix(t, 1)
        if self.p["context_kernel"]["type"] != "ones":
            k += v["context"] * vector_gram(self.p["context_kernel"], x, y) + v["linear"] * (x @ y.T) / x.shape[1]
        return k

    @property
    def mean(self):
        return self.p["prior"]["mean"] if self.p["representation"]["type"] in ("by_arm", "by_component") else 0.0

    def diag(self, s):
        return np.array([self.gram([p], [p])[0, 0] for p in s])

    def exact(self, history, query, weight=None):
        """mean, sd of the query points given history [(point, reward)], each with noise ridge / weight."""
        prior = self.diag(query)
        if not history:
            return np.full(len(query), self.mean), np.sqrt(prior)
        past, y = [h[0] for h in history], np.array([h[1] for h in history]) - self.mean
        k = self.gram(past, past) + self.ridge * np.diag(1 / (np.ones(len(past)) if weight is None else np.asarray(weight)))
        cross = self.gram(past, query)
        solved = np.linalg.solve(k, np.column_stack([y, cross]))
        return self.mean + cross.T @ solved[:, 0], np.sqrt(np.maximum(0.0, prior - (cross * solved[:, 1:]).sum(axis=0)))

    def sketch(self, dictionary, history, query, weight=None):
        """mean, sd by EK Prop. 4.2 from the dictionary's points and the whole history, weighted."""
        prior = self.diag(query)
        if not dictionary:
            return np.zeros(len(query)), np.sqrt(prior)
        e, q = np.linalg.eigh(self.gram(dictionary, dictionary))
        root = q / np.sqrt(e)
        z = root.T @ self.gram(dictionary, [h[0] for h in history])
        y = np.array([h[1] for h in history])
        zq = root.T @ self.gram(dictionary, query)
        w = np.ones(len(history)) if weight is None else np.asarray(weight)
        v = (z * w) @ z.T + self.ridge * np.eye(len(dictionary))
        mean = zq.T @ np.linalg.solve(v, z @ (w * y))
        residual = np.maximum(0.0, prior - (zq * zq).sum(axis=0))
        return mean, np.sqrt(residual + self.ridge * (zq * np.linalg.solve(v, zq)).sum(axis=0))

    def taught(self, history, point, dictionary=None, weight=None):
        """{user: what his rewards add to the mean at the point}, of the exact posterior or over a dictionary's points."""
        past, y = [h[0] for h in history], np.array([h[1] for h in history]) - self.mean
        w = np.ones(len(past)) if weight is None else np.asarray(weight)
        if dictionary is None:
            solved = np.linalg.solve(self.gram(past, past) + self.ridge * np.diag(1 / w), self.gram(past, [point])[:, 0])
        else:
            e, q = np.linalg.eigh(self.gram(dictionary, dictionary))
            root = q / np.sqrt(e)
            z = root.T @ self.gram(dictionary, past)
            solved = w * (z.T @ np.linalg.solve((z * w) @ z.T + self.ridge * np.eye(len(dictionary)), root.T @ self.gram(dictionary, [point])[:, 0]))
        terms = {}
        for h, term in zip(history, solved * y):
            terms[h[0][0]] = terms.get(h[0][0], 0.0) + term
        return terms


def matrix(points, column):
    """The vectors of a column as rows (n x 0 when there are none)."""
    return np.array([p[column] or () for p in points], dtype=float).reshape(len(points), -1)


# --- the log ---------------------------------------------------------------------------------------------------------

def history(events):
    """[(point, reward)] learned from log lines, in order, for tenants that aggregate by `first`."""
    slots, catalogue, out = {}, {}, []
    for ev in events:
        if ev["type"] == "arms":
            follow_catalogue(catalogue, ev)
        elif ev["type"] == "decided":
            shown = ev.get("slate") or [{"arm": ev["arm"], "features": ev["features"]}]
            for slot in shown:
                slots[ev["decision"], slot["arm"]] = (ev["user"], ev["context"], slot["arm"], slot["features"])
            slots[ev["decision"], None] = slots[ev["decision"], ev["arm"]]
        elif ev["type"] == "rewarded":
            out.append((slots[ev["decision"], ev.get("arm")], ev["reward"]))
        elif ev["type"] == "observed":
            features = catalogue.get(ev["arm"]) if ev["features"] is None else ev["features"]
            out.append(((ev["user"], ev["context"], ev["arm"], features), ev["reward"]))
        elif ev["type"] == "expired" and "reward" in ev:
            out.append((slots[ev["decision"], None], ev["reward"]))
    return out


def at(event):
    """The time of a log line in milliseconds."""
    return round(datetime.datetime.fromisoformat(event["at"].replace("Z", "+00:00")).timestamp() * 1000)


def weights(events, forgetting):
    """What is left of each entry of history(events), as of the last learning event; and the halvings since the first one."""
    halvings, out, last = 0.0, [], None
    for ev in events:
        if not (ev["type"] in ("rewarded", "observed") or (ev["type"] == "expired" and "reward" in ev)):
            continue
        if last is not None and forgetting["type"] == "discount":
            halvings -= np.log2(forgetting["discount"])
        elif last is not None and forgetting["type"] == "half_life":
            halvings += max(0, at(ev) - last) / 1000 / forgetting["half_life_s"]
        last = at(ev) if last is None else max(last, at(ev))
        out.append(halvings)
    return [2.0 ** (h - halvings) for h in out], halvings


def follow_catalogue(catalogue, ev):
    """Features by arm after an event of the catalogue."""
    if ev["replace"]:
        catalogue.clear()
    for arm in ev["remove"]:
        catalogue.pop(arm, None)
    for arm in ev["put"]:
        catalogue[arm["id"]] = arm.get("features")


def dictionary(model):
    """The served dictionary as points."""
    return [(p["user"], p["context"], p["arm"], p["features"]) for p in model["dictionary"]]


def graph_from_log(events):
    """(nodes, edges) after every graph event of the log."""
    nodes, edges = {}, {}
    for ev in events:
        if ev["type"] != "graph":
            continue
        if ev["replace"]:
            nodes, edges = {}, {}
        for edge in ev["add"]:
            u, v, w = (list(edge) + [1.0])[:3]
            nodes.setdefault(u)
            nodes.setdefault(v)
            edges.pop((v, u), None)
            edges[u, v] = w
        for u in ev["users"]:
            nodes.setdefault(u)
        for u, v in ev["remove"]:
            edges.pop((u, v), None)
            edges.pop((v, u), None)
    return list(nodes), edges


# --- chance ----------------------------------------------------------------------------------------------------------

def argmax_probabilities(mean, sd, points=20001):
    """P(z_i is the largest) for independent normals with sd > 0, by the trapezoid rule (which converges
    exponentially on smooth integrands that vanish at both ends)."""
    mean, sd = np.asarray(mean), np.asarray(sd)
    x = np.linspace((mean - 9 * sd).min(), (mean + 9 * sd).max(), points)
    u = (x[None, :] - mean[:, None]) / sd[:, None]
    density = np.exp(-0.5 * u * u) / (math.sqrt(2 * math.pi) * sd[:, None])
    below = 0.5 * np.vectorize(math.erfc)(-u / math.sqrt(2))
    out = []
    for i in range(len(mean)):
        others = np.prod(np.delete(below, i, axis=0), axis=0)
        out.append(float(((density[i] * others)[:-1] + (density[i] * others)[1:]).sum() * (x[1] - x[0]) / 2))
    return np.array(out)


def shared_argmax_probabilities(mean, sd):
    """P(mean + u sd is the largest) for one u ~ |N(0,1)|, equal lines sharing alike. The line on top changes its slope upwards
    alone, so where the same one is on top at both ends it is in between: halved until that, or until nothing is left."""
    mean, sd = np.asarray(mean, float), np.asarray(sd, float)
    out = np.zeros(len(mean))

    def winner(u):
        value = mean + u * sd
        best = np.flatnonzero(value >= value.max() - 1e-12 * np.abs(value).max())
        steep = best[sd[best] == sd[best].max()]
        return steep[mean[steep] == mean[steep].max()]

    parts = [(0.0, 40.0)]
    while parts:
        a, b = parts.pop()
        first, last = winner(a), winner(b)
        if set(first) == set(last) or b - a < 1e-13:
            out[last] += (math.erfc(a / math.sqrt(2)) - math.erfc(b / math.sqrt(2))) / len(last)
        else:
            parts += [(a, (a + b) / 2), ((a + b) / 2, b)]
    return out


def close(got, want, tolerance):
    """Relative to the size of the wanted values, as one number over the arrays."""
    got, want = np.asarray(got, dtype=float), np.asarray(want, dtype=float)
    return float(np.max(np.abs(got - want) / np.maximum(np.abs(want), tolerance))) <= tolerance if got.size else True


# --- confidence ------------------------------------------------------------------------------------------------------

GRID = (1, 3, 10, 30, 100)


class Bounds:
    """Confidence rules on all t observations, one row of the t x t Gram matrix each: nothing is merged, so what the server
    does with repeated points is checked and not repeated. a0 = lambda, B the norm bound, sigma the noise."""

    def __init__(self, model, history, query, norm_bound):
        conf = model.p["confidence"]
        self.sigma, self.level, self.b, self.a0 = conf["noise"], 2 * math.log(1 / conf["delta"]), norm_bound, model.ridge
        past, self.y = [h[0] for h in history], np.array([h[1] for h in history])
        self.prior = model.diag(query)
        self.k = model.gram(past, past) if past else np.zeros((0, 0))
        self.cross = model.gram(past, query) if past else np.zeros((0, len(query)))
        self.beta, self.epsilon = conf["beta"], model.p["representation"]["epsilon"]
        self.eig = np.maximum(np.linalg.eigvalsh(self.k), 0) if len(past) else np.zeros(0)

    def at(self, a):
        """mean, sd and y^T (K + a I)^-1 y at ridge a."""
        if not len(self.y):
            return np.zeros(len(self.prior)), np.sqrt(self.prior), 0.0
        solved = np.linalg.solve(self.k + a * np.eye(len(self.y)), np.column_stack([self.y, self.cross]))
        variance = self.prior - (self.cross * solved[:, 1:]).sum(axis=0)
        return self.cross.T @ solved[:, 0], np.sqrt(np.maximum(variance, 0)), float(self.y @ solved[:, 0])

    def log_det(self):
        return float(np.log1p(self.eig / self.a0).sum())

    def radius_sq(self):
        """R^2 [TC, eq. 8]."""
        return self.a0 * self.at(self.a0)[2] + self.sigma ** 2 * (self.log_det() + self.level)

    def norm_least(self):
        """The largest of (a y^T (K + a I)^-1 y - R^2) / a over a fine grid, as a norm; 0 when it is negative."""
        r = self.radius_sq()
        return math.sqrt(max(0.0, max(self.at(a)[2] - r / a for a in self.a0 * np.logspace(-5, 8, 400))))

    def dual(self, a):
        """lower, upper at ridge a [TC, eq. 12]."""
        mean, sd, energy = self.at(a)
        half = math.sqrt(max(0.0, self.radius_sq() / a + self.b ** 2 - energy)) * sd
        return mean - half, mean + half

    def best(self, ridges):
        lower, upper = zip(*[self.dual(a) for a in ridges])
        return np.max(lower, axis=0), np.min(upper, axis=0)

    def closed(self, radius):
        mean, sd, _ = self.at(self.a0)
        return mean - radius * sd, mean + radius * sd

    def of(self, kind):
        """lower, upper of a rule by its formula."""
        c = self.sigma ** 2 / self.a0
        if kind == "fixed":
            return self.closed(self.beta)
        if kind in ("lk", "ay"):
            return self.closed(self.b + math.sqrt(c * (self.log_det() + self.level)))
        if kind == "igp":
            return self.closed(self.b + self.sigma / math.sqrt(min(1, self.a0)) * math.sqrt(self.log_det() + 2 + self.level))
        if kind == "ek":
            t, kappa = len(self.y), self.k.diagonal().max(initial=0)
            growth = math.log(math.e + math.e * t * kappa / self.a0) * (self.eig / (self.eig + self.a0)).sum()
            return self.closed(self.b + math.sqrt(c * (self.level + growth)))
        if kind == "ek_plus":
            return self.closed(self.b + math.sqrt(c * (self.log_det() + self.level)))
        if kind == "bkb":
            t, kappa = len(self.y), self.k.diagonal().max(initial=0)
            alpha, dimension = (1 + self.epsilon) / (1 - self.epsilon), (self.eig / (self.eig + self.a0)).sum()
            noise = math.sqrt(alpha * (1 + math.log1p(kappa * t / self.a0)) * dimension + self.level / 2)
            return self.closed((1 + 1 / math.sqrt(1 - self.epsilon)) * self.b + 2 * math.sqrt(c) * noise)
        if kind == "amm":
            return self.dual(self.a0)
        if kind == "dmm":
            return self.best([g * self.a0 for g in GRID])
        assert kind == "cmm"
        return self.fine(self.a0 * np.logspace(-6, 10, 40000))

    def fine(self, ridges):
        """The same as `best` for very many ridges, by the eigenvectors of the t x t Gram matrix."""
        if not len(self.y):
            return -self.b * np.sqrt(self.prior), self.b * np.sqrt(self.prior)
        e, q = np.linalg.eigh(self.k)
        share = 1 / (np.maximum(e, 0)[None, :] + ridges[:, None])
        w, target, r = q.T @ self.cross, q.T @ self.y, self.radius_sq()
        width = np.sqrt(np.maximum(0, r / ridges + self.b ** 2 - share @ target ** 2))[:, None]
        half = width * np.sqrt(np.maximum(1e-13 * self.prior, self.prior - share @ w ** 2))
        mean = share @ (w * target[:, None])
        return (mean - half).max(axis=0), (mean + half).min(axis=0)
