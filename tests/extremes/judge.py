"""A server under extreme requests, and what must hold of each answer: it is 2xx or 4xx, its numbers are finite, faults name their
place, nothing that was refused is in the log, the process is the same, /readyz says yes, and a witness, another tenant, decides and
learns all along."""
import json
import math
import random
import time

from contract import CONTRACT, NDJSON
from harness import Answer, Client, IS_SANITIZED, Server, tenant_path

SLOWEST_S = 60 if IS_SANITIZED else 20
# What waits for others, as openapi.yaml has it: the same request may be sent again.
WAITS = ("is under way", "under way", "one copy", "waits", "is being", "line is full", "busy")
MAGNITUDES = {"reward", "default_reward"}  # members whose numbers are bound by --max-magnitude; and all of these lists:
LISTS = {"context", "features"}


def numbers(value, path=""):
    """(pointer, number) of a JSON value."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return
    if isinstance(value, (int, float)):
        yield path, value
        return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from numbers(inner, f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}")


def is_measured(pointer):
    """Whether --max-magnitude bounds what stands at a place of a body."""
    steps = pointer.split("/")[1:]
    return steps[-1] in MAGNITUDES or len(steps) > 1 and steps[-2] in LISTS or len(steps) > 2 and steps[-3] in ("edges", "add") and steps[-1] == "2"


def beyond(body, bound):
    """Pointers of what is larger than the server was told to take."""
    return [p for p, x in numbers(body) if is_measured(p) and not abs(x) <= bound]


class Judge:
    def __init__(self, folder, magnitude, *options):
        is_bounded = not magnitude.startswith("none")
        self.bound = float(magnitude) if is_bounded else None  # what the server is to refuse beyond
        self.largest = float(magnitude.removeprefix("none").removeprefix(":") or "inf")  # what it is sent, if it is not told
        bounded = ["--max-magnitude", magnitude] if is_bounded else []
        self.server = Server(folder, *bounded, *options).start()
        self.client, self.n_witnessed, self.said = Client(self.server), 0, []
        self.pid = self.server.pid
        self.rng = random.Random(7)
        self.client.put_tenant("witness", algorithm="laplaced-kors", arm_dim=1, durability="relaxed")

    # ---- requests ------------------------------------------------------------------------------------------------------

    def send(self, method, path, body=None, *, lines=None, raw=None, kind=None, tenant=None, query=None, expect=None):
        """The answer, judged. body: JSON; lines: values that go as NDJSON; raw: bytes as they are."""
        if lines is not None:
            raw, kind = "".join(json.dumps(line) + "\n" for line in lines).encode(), NDJSON
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        shown = "" if data is None else data[:4000].decode("utf-8", errors="replace")
        self.said.append(f"{method} {path}{f' ({tenant})' if tenant else ''} {shown}")
        sent = {"Content-Type": kind or "application/json"} if data is not None else {}
        if tenant:
            sent["Laplaced-Tenant"] = tenant
        began = time.monotonic()
        try:
            answer = Answer(self.client.session.request(method, self.server.url + path, data=data, headers=sent, params=query, timeout=SLOWEST_S + 60))
        except OSError as fault:
            time.sleep(0.3)
            raise AssertionError(self.story(f"no answer: {fault}; the process {'ended with %s' % self.server.process.poll()}")) from None
        except AssertionError as fault:
            raise AssertionError(self.story(f"not by the contract: {str(fault)[:600]}")) from None
        self.said[-1] += f"\n    -> {answer.status} {answer.text[:600]}"
        self.hold(answer.status < 500 or self.may_wait(answer), "5xx")
        self.hold(time.monotonic() - began < SLOWEST_S, "too slow")
        self.hold(expect is None or answer.status in (expect if isinstance(expect, tuple) else (expect,)), f"not {expect}")
        self.hold("out of memory" not in answer.text and "unknown error" not in answer.text, "a fault of ours is told")
        if answer.status == 400:
            self.hold(answer.pointers and all(e["detail"] for e in answer.json["errors"]), "a fault without its place")
        if answer.json is not None:
            self.hold(all(math.isfinite(x) for _, x in numbers(answer.json)), "a number is not finite")
        if answer.status < 300 and data is not None and kind is None:
            self.hold(not CONTRACT.request_errors(method, path, "application/json", data.decode()), "the contract refuses what the server took")
        return answer

    def write(self, method, path, body, tenant, **more):
        """A request that changes a tenant, if it is taken; what is too large must be refused by its place, and leave no trace."""
        seen = self.seq(tenant)
        addressed = {"tenant": tenant} if not path.startswith("/tenants") else {}
        lines = more.get("lines")
        answer = self.send(method, path, None if lines is not None else body, **addressed, **more)
        wrong = [] if self.bound is None else beyond(body if lines is None else lines, self.bound)
        if wrong and answer.status != 404:
            self.hold(answer.status == 400, f"taken, with what is too large at {wrong[:5]}")
            n_told = len(answer.pointers)
            self.hold(sorted(answer.pointers) == sorted(wrong) or (n_told >= 16 and set(answer.pointers) <= set(wrong)), f"too large were {wrong[:5]}")
            self.hold(all("expected" in e["detail"] for e in answer.json["errors"]), "what was expected is not told")
        if answer.status in (400, 404, 409, 422) and seen is not None:
            traces = self.told_since(tenant, seen)
            self.hold(not traces, f"refused, and in the log all the same: {traces[:3]}")
        return answer

    def seq(self, tenant):
        """The log's last line; None where lines come into the file later than their answers."""
        view = self.send("GET", tenant_path(tenant), expect=200).json
        self.said.pop()
        return view["seq"] if view["configuration"]["durability"] == "commit" else None

    def told_since(self, tenant, seq):
        """Lines of the log that a refused request could have left: what the server does by itself is none of them."""
        text = self.send("GET", tenant_path(tenant, "events"), query={"after": seq, "limit": 1000}, expect=200).text
        self.said.pop()
        return [e for e in map(json.loads, text.splitlines()) if e["type"] not in ("expired", "dictionary", "tuned")]

    def may_wait(self, answer):
        return answer.status == 503 and any(w in answer.json["detail"] for w in WAITS)

    # ---- what holds all along ------------------------------------------------------------------------------------------

    def witness(self):
        """Another tenant is served as if nothing were."""
        self.hold(self.server.process.poll() is None and self.server.pid == self.pid, "the process has ended")
        candidates = [{"id": "a", "features": [0.2]}, {"id": "b", "features": [0.7]}]
        d = self.send("POST", "/select", {"user": "w", "candidates": candidates}, tenant="witness", expect=200).json
        self.send("POST", "/reward", {"decision": d["decision"], "reward": 0.5}, tenant="witness", expect=200)
        self.n_witnessed += 1
        self.send("GET", "/readyz", expect=200)
        del self.said[-3:]

    def settled(self, tenant, seconds=SLOWEST_S):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            view = self.send("GET", tenant_path(tenant), expect=200).json
            self.said.pop()
            if not view["rebuilding"]:
                return view
            time.sleep(0.02)
        raise AssertionError(self.story(f"{tenant} is still rebuilding after {seconds} s"))

    def select(self, tenant, body):
        answer = self.write("POST", "/select", body, tenant)
        if answer.status == 200:
            given = [r["propensity"] for r in answer.json["ranking"]]
            # What sticks has the propensity of its draw (docs/ROUTING.md), and the others have none.
            is_whole = body.get("explain") and answer.json.get("route") != "sticky"
            self.hold(all(0 <= p <= 1 for p in given) and (not is_whole or abs(sum(given) - 1) < 1e-9), "propensities")
            self.hold(all(r["lower"] <= r["upper"] and r["sd"] >= 0 for r in answer.json["ranking"] if "sd" in r), "bounds")
        return answer

    def verified(self, tenant):
        """The model is that of its log, whose lines are as the contract has them."""
        self.settled(tenant)
        self.hold(self.send("POST", tenant_path(tenant, "verify"), expect=200).json["equal"], "the model is not that of its log")
        self.send("GET", tenant_path(tenant, "model"), expect=200)
        self.send("GET", tenant_path(tenant, "stats"), expect=200)
        self.send("GET", tenant_path(tenant, "events"), query={"limit": 100000}, expect=200)  # each line by its schema
        del self.said[-4:]

    def restart(self, *options):
        """kill -9, and from the log again; with --open-all it must come up, or say why it does not."""
        self.said.append(f"kill -9, start with {options}")
        kept, self.server.args = self.server.args, self.server.args + list(options)
        self.server.kill()
        try:
            self.server.start()
        except AssertionError as fault:
            raise AssertionError(self.story(f"no start: {fault}")) from None
        finally:
            self.server.args = kept
        self.pid = self.server.pid
        deadline = time.monotonic() + SLOWEST_S
        while self.client.session.get(self.server.url + "/readyz", timeout=SLOWEST_S).status_code != 200:
            assert time.monotonic() < deadline and self.server.process.poll() is None, self.story("not ready after a restart")
            time.sleep(0.02)
        self.witness()

    def hold(self, is_so, what):
        if not is_so:
            raise AssertionError(self.story(what))

    def story(self, what):
        """What was asked, the last of it, and what the server said of it."""
        (self.server.folder / "story.txt").write_text("\n".join(self.said))
        log = [line for line in self.server.log().splitlines() if "level=info" not in line and "level=debug" not in line]
        return f"{what}\n" + "\n".join(self.said[-12:]) + f"\n(all of it: {self.server.folder}/story.txt)\n" + "\n".join(log)[-2500:]
