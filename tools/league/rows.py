"""Who plays: tenants of a laplaced that the harness has started, driven over HTTP; and other algorithms, in numpy or by their program.

A row is opened for a world and a seed, then asked `choose(t, user, context, candidates)` and told `learn(t, user, context, arm, reward)`.
`lacks(task, world)` says in words why a row cannot play, or None."""
import json
import pathlib
import socket
import sys
import tempfile

import numpy as np

import tasks as league_tasks

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "bench"))
PATIENCE_S = 120


class Refused(Exception):
    """A row that cannot go on, with the reason."""


def reason(said):
    """Of a problem document, without what differs from one request to the next."""
    try:
        problem = json.loads(said)
        return "; ".join([problem["detail"], *(f"{e['pointer']}: {e['detail']}" for e in problem.get("errors", []))])[:300]
    except (ValueError, KeyError, TypeError):
        return said.decode(errors="replace")[:300]


class Connection:
    """One HTTP connection that stays; bodies go and come as JSON."""

    def __init__(self, url):
        self.host = url.removeprefix("http://")
        address, port = self.host.rsplit(":", 1)
        self.socket = socket.create_connection((address, int(port)), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.got = b""

    def call(self, method, path, tenant, body=None):
        text = b"" if body is None else json.dumps(body).encode()
        self.socket.sendall(f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\nLaplaced-Tenant: {tenant}\r\nContent-Type: application/json\r\n"
                            f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
        while b"\r\n\r\n" not in self.got:
            self.receive()
        head, _, self.got = self.got.partition(b"\r\n\r\n")
        words = head.split(b"\r\n")
        length = next((int(w[15:]) for w in words if w[:15].lower() == b"content-length:"), 0)
        while len(self.got) < length:
            self.receive()
        said, self.got = self.got[:length], self.got[length:]
        status = int(words[0].split()[1])
        if status >= 300:
            raise Refused(f"{status} {reason(said)}")
        return json.loads(said) if said else None

    def receive(self):
        piece = self.socket.recv(1 << 16)
        if not piece:
            raise Refused("the server has ended the connection")
        self.got += piece

    def close(self):
        self.socket.close()


class Ours:
    """A tenant. `preset`: its algorithm; `more`: what else its configuration has; `is_told`: the world's truth as well."""

    def __init__(self, name, preset, about, more=None, is_told=False, has_features=True):
        self.name, self.preset, self.about = name, preset, about
        self.more, self.is_told, self.has_features = more or {}, is_told, has_features

    def lacks(self, task, world):
        return "there is no truth to be told" if self.is_told and world.truth() is None else None

    def configuration(self, task, world, seed):
        """Without a preset's name the server takes its default row."""
        out = {**({"algorithm": self.preset} if self.preset else {}), **self.more, "seed": seed, "reward_window_s": 316224000}
        if world.context is not None:
            out["context_dim"] = world.context.shape[1]
        if world.features is not None and self.has_features:
            out["arm_dim"] = world.features.shape[1]
        if task.forgets:
            out["forgetting"] = {"type": "discount"}
        if self.is_told:
            for group, values in world.truth().items():
                if group != "prior" or self.preset == "laplaced-by-arm":
                    out[group] = {**out.get(group, {}), **values}
        return out

    def open(self, task, world, seed, server):
        self.connection, self.tenant = Connection(server.url), f"{task.name}-{self.name}-{seed}".replace(" ", "-").replace(",", "").replace("_", "-")
        self.call("PUT", f"/tenants/{self.tenant}", self.configuration(task, world, seed))
        if world.graph is not None:
            self.call("PUT", f"/tenants/{self.tenant}/graph", {"edges": [[f"u{a}", f"u{b}"] for a, b in world.graph]})
        arms = [{"id": f"a{k}"} for k in range(world.arms)]
        if world.features is not None and self.has_features:
            arms = [{**arm, "features": row.tolist()} for arm, row in zip(arms, world.features)]
        self.call("PUT", f"/tenants/{self.tenant}/arms", {"arms": arms})

    def call(self, method, path, body):
        return self.connection.call(method, path, self.tenant, body)

    def choose(self, t, user, context, candidates):
        body = {"user": f"u{user}", "decision": f"d{t}", "candidates": [f"a{k}" for k in candidates]}
        if context is not None:
            body["context"] = context.tolist()
        return int(self.call("POST", "/select", body)["arm"][1:])

    def learn(self, t, user, context, arm, reward):
        self.call("POST", "/reward", {"decision": f"d{t}", "reward": reward})

    def close(self):
        """The tenant goes, where there is one: a server that holds all of them would be another by the end of the league."""
        try:
            self.connection.call("DELETE", f"/tenants/{self.tenant}", self.tenant)
        except (Refused, OSError):
            pass
        self.connection.close()


class Numpy:
    """An algorithm written here; its draws hang on its name, the task's and the seed."""

    def __init__(self, name, about):
        self.name, self.about = name, about

    def lacks(self, task, world):
        return None

    def open(self, task, world, seed, server):
        self.rng = np.random.default_rng([*self.name.encode(), *task.name.encode(), seed])
        self.begin(task, world)

    def close(self):
        pass


class Uniform(Numpy):
    def begin(self, task, world):
        pass

    def choose(self, t, user, context, candidates):
        return int(self.rng.choice(candidates))

    def learn(self, t, user, context, arm, reward):
        pass


class BetaThompson(Numpy):
    """Thompson sampling with a Beta(1, 1) for each arm; knows neither users nor contexts. Under `forgetting` both counts fade by the
    server's usual discount."""
    DISCOUNT = 0.999

    def lacks(self, task, world):
        return "rewards are not 0 or 1" if isinstance(world, league_tasks.Town) else None

    def begin(self, task, world):
        self.won, self.lost = np.zeros(world.arms), np.zeros(world.arms)
        self.keeps = self.DISCOUNT if task.forgets else 1

    def choose(self, t, user, context, candidates):
        return int(candidates[np.argmax(self.rng.beta(1 + self.won[candidates], 1 + self.lost[candidates]))])

    def learn(self, t, user, context, arm, reward):
        if self.keeps < 1:
            self.won *= self.keeps
            self.lost *= self.keeps
        self.won[arm] += reward
        self.lost[arm] += 1 - reward


class Linear(Numpy):
    """A ridge regression for each arm over its context and a constant (over the constant alone where there are no contexts). LinUCB takes
    the largest mean + alpha * deviation, ties by chance; with alpha 0 and an epsilon it is epsilon-greedy."""

    def __init__(self, name, about, alpha, epsilon=0.0):
        super().__init__(name, about)
        self.alpha, self.epsilon = alpha, epsilon

    def begin(self, task, world):
        d = 1 + (0 if world.context is None else world.context.shape[1])
        self.inverse = np.tile(np.eye(d), (world.arms, 1, 1))
        self.sum, self.weights = np.zeros((world.arms, d)), np.zeros((world.arms, d))

    @staticmethod
    def point(context):
        return np.ones(1) if context is None else np.append(context, 1)

    def choose(self, t, user, context, candidates):
        if self.epsilon > 0 and self.rng.random() < self.epsilon:
            return int(self.rng.choice(candidates))
        x = self.point(context)
        score = self.weights[candidates] @ x
        if self.alpha > 0:
            score = score + self.alpha * np.sqrt(np.maximum((self.inverse[candidates] @ x) @ x, 0))
        return int(self.rng.choice(candidates[score >= score.max() - 1e-12]))

    def learn(self, t, user, context, arm, reward):
        x = self.point(context)
        step = self.inverse[arm] @ x
        self.inverse[arm] -= np.outer(step, step) / (1 + x @ step)
        self.sum[arm] += reward * x
        self.weights[arm] = self.inverse[arm] @ self.sum[arm]


PAIRS = ("-q", "ua", "-q", "xa", "-q", "uf", "-q", "xf")


class Wabbit(Numpy):
    """Vowpal Wabbit's daemon, as the bench beside it drives one (tests/bench/vw.py): a line of dsjson for each decision, and one
    with its label; the arm is drawn by the probabilities that it answers."""

    def __init__(self, name, about, program, options):
        super().__init__(name, about)
        self.program, self.options = program, options

    def begin(self, task, world):
        import vw
        self.folder = tempfile.TemporaryDirectory()
        self.daemon = vw.Wabbit(self.program, pathlib.Path(self.folder.name), self.options)
        self.features, self.shown = world.features, {}

    def line(self, t, user, context, candidates, label=None):
        shared = {"u": {"user": f"u{user}"}, **({} if context is None else {"x": {f"x{k}": v for k, v in enumerate(context.tolist())}})}
        actions = [{"a": {"id": f"a{k}"}, **({} if self.features is None else {"f": {f"f{i}": v for i, v in enumerate(self.features[k].tolist())}})}
                   for k in candidates]
        line = {"Version": "1", "EventId": f"d{t}", "a": list(range(1, len(candidates) + 1)), "c": {**shared, "_multi": actions}}
        if label is not None:
            index, cost, p = label
            line = {"_label_cost": cost, "_label_probability": p[index], "_label_Action": index + 1, "_labelIndex": index, **line, "p": p}
        return json.dumps(line, separators=(",", ":")).encode() + b"\n"

    def choose(self, t, user, context, candidates):
        said = self.daemon.ask(self.line(t, user, context, candidates), 1)[0].decode()
        p = np.zeros(len(candidates))
        for part in said.split(","):
            index, _, probability = part.partition(":")
            p[int(index)] = float(probability)
        p /= p.sum()
        index = int(self.rng.choice(len(candidates), p=p))
        self.shown[t] = (user, context, candidates, index, p.tolist())
        return int(candidates[index])

    def learn(self, t, user, context, arm, reward):
        user, context, candidates, index, p = self.shown.pop(t)
        self.daemon.ask(self.line(t, user, context, candidates, (index, -reward, p)), 1)

    def close(self):
        self.daemon.stop()
        self.folder.cleanup()


def all_rows(vw_program=None):
    """Ours first. What stands for Vowpal Wabbit without its program is left out, and the report says so."""
    greedy = {"rule": {"epsilon": 0}}
    rows = [Ours("laplaced", None, "a tenant as it is made, nothing set"),
            Ours("laplaced, eps 0", None, "the same with `rule.epsilon` 0", greedy),
            Ours("laplaced, told", "laplaced", "the same, told noise (`lambda`) and, in the town, `rho`", is_told=True),
            Ours("laplaced-kors", "laplaced-kors", "a dictionary that all arms share"),
            Ours("laplaced-by-arm", "laplaced-by-arm", "an exact model for each arm by itself", has_features=False),
            Ours("laplaced-by-arm, told", "laplaced-by-arm", "the same with the true prior and noise, `rule.epsilon` 0", greedy, True, False),
            Ours("ts", "ts", "Thompson sampling over a mean for each arm", has_features=False),
            Ours("ucb", "ucb", "the upper bound of a mean for each arm", has_features=False),
            BetaThompson("Beta-TS", "Thompson sampling, Beta(1, 1) for each arm"),
            Linear("LinUCB", "a ridge regression for each arm, mean + 0.3 deviations, ties by chance", 0.3),
            Linear("eps-greedy", "the same regression, 5 % of the rounds by chance", 0, 0.05),
            Uniform("uniform", "by chance")]
    if vw_program:
        rows[-1:-1] = [Wabbit("VW squarecb", "vw --cb_explore_adf --squarecb -q ua -q xa -q uf -q xf: users and contexts (u, x) with names and features of arms (a, f)", vw_program, ("--squarecb", *PAIRS)),
                       Wabbit("VW eps", "vw --cb_explore_adf --epsilon 0.05, with the same pairs", vw_program, ("--epsilon", "0.05", *PAIRS))]
    return rows
