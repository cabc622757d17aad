"""Four clients that ask for changes until the server dies under them, and remember what they were told.

They speak through http.client and not through the checked client of tests/http: more requests are then in flight when
the server dies. A writer alone touches the decisions that it opened, so it knows what each answer has to be."""
import collections
import http.client
import json
import random
import threading
import urllib.parse

from ledger import ACKED, DOUBT, REFUSED, UNNAMED

USERS, ARMS, WRITERS = 8, 6, 4
ADMIN_KEY = "an-admin-of-the-key-file"  # by which everything is asked for but what keys are tried with
MOST_KEYS = 5  # of one writer at one place
KEPT_ANSWERS = 200

# Arms that stick to users, drawn by the policy and by a baseline: more state that is a fold of the log.
ROUTED = {"holdout": {"share": 0.4, "baseline": {"rule": "uniform"}}, "sticky": {"ttl_s": 0.5}}
# Each row is a way in which the fold of the log could differ from what was served: a factor that grows, chance in the
# log, sums and corrections, lengthscales that move and a hand-over (events of the server's own), windows that close,
# answers before the commit.
TENANTS = {
    "exact": dict(algorithm="lk-gp-ucb", arm_dim=1, context_dim=1),
    "kors": dict(algorithm="laplaced-kors", arm_dim=1, context_dim=1, aggregation="sum", metrics=[{"name": "spent", "aggregation": "sum"}],
                 representation={"type": "kors", "lambda": 0.2, "max_dictionary": 12}),
    "thompson": dict(algorithm="ts", aggregation="last", routing=ROUTED),
    "median": dict(algorithm="gp-ucb", arm_dim=1, arm_kernel={"type": "rbf", "lengthscale": "median"},
                   representation={"type": "exact", "exact_limit": 20}),
    "window": dict(algorithm="laplaced", reward_window_s=0.5, default_reward=0.0),
    "relaxed": dict(algorithm="laplaced", durability="relaxed"),
    "compacted": dict(algorithm="laplaced", arm_dim=1, routing=ROUTED),
}
COMPACTED = "compacted"  # its log alone is cut, and nobody is erased from it: the ledger says why
# Where an open decision may be gone: its window has closed, or it was answered before the commit and is lost.
PATIENCE = {"window": (200, 410), "relaxed": (200, 404)}


class Dead(Exception):
    """The connection ended: whether the request was heard, only the log knows."""


class Wire:
    """One connection, kept alive as long as the server is."""

    def __init__(self, url):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=60)

    def call(self, method, path, body=None, tenant=None, is_ndjson=False, key=ADMIN_KEY):
        """(status, bytes of the answer)."""
        kind, data = encode(body, is_ndjson)
        headers = {"Content-Type": kind, "Authorization": f"Bearer {key}"}
        if tenant:
            headers["Laplaced-Tenant"] = tenant
        try:
            self.connection.request(method, path, data, headers)
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as fault:
            raise Dead from fault

    def close(self):
        self.connection.close()


def encode(body, is_ndjson):
    """(media type, text). Bytes are a tenant's lines, or its file."""
    if isinstance(body, bytes):
        return ("application/vnd.sqlite3" if body.startswith(b"SQLite format") else "application/x-ndjson"), body
    if is_ndjson:
        return "application/x-ndjson", "".join(json.dumps(line) + "\n" for line in body)
    return "application/json", None if body is None else json.dumps(body)


class Writer:
    """A client with its own open decisions and a user of its own in each tenant, its ward, for whom nobody else acts and
    who is erased now and then; it outlives the servers that it talks to."""

    def __init__(self, number, seed, ledgers, keys):
        self.keys = keys
        self.number, self.ledgers, self.rng = number, ledgers, random.Random(f"{seed}/{number}")
        self.wire, self.n_marks, self.n_requests, self.n_answers = None, 0, 0, 0
        self.opened = {name: [] for name in TENANTS}  # (decision, how what has no reward yet is named)
        self.shown = {}  # (decision, slot): the arm
        self.deferred = {name: [] for name in TENANTS}
        self.answers = collections.deque(maxlen=KEPT_ANSWERS)  # (tenant, body, answer) of named decisions
        self.rewards = collections.deque(maxlen=KEPT_ANSWERS)  # (tenant, body) of rewards that were taken
        self.observed = collections.deque(maxlen=KEPT_ANSWERS)  # (tenant, lines) that were learned, with ids
        self.doubts, self.surprises = [], []
        self.wards = {name: None for name in TENANTS}
        self.n_erased = self.n_verified = self.n_compacted = 0

    def mark(self):
        """A number that no other change of this campaign carries, exact in binary and small."""
        self.n_marks += 1
        return (self.n_marks * WRITERS + self.number) / 2**20

    def name(self, prefix):
        return f"{prefix}{self.mark() * 2**20:.0f}"

    def ask(self, tenant, method, path, body, marks, retry=None, is_ndjson=False, expect=(200,)):
        """Sends; notes the marks as the answer says. The answer of success, else None. retry() is called once a new
        server is there when the connection dies, for what a client may send again."""
        ledger = self.ledgers[tenant]
        # An answer to a second attempt says nothing about what the first one, which was not answered, has left.
        is_first = {mark: mark not in ledger.entries for mark, _ in marks}
        for mark, facts in marks:
            if mark != UNNAMED:
                ledger.note(mark, DOUBT, self.number, **facts)
        self.n_requests += 1
        try:
            status, answer = self.wire.call(method, path, body, tenant, is_ndjson)
        except Dead:
            for mark, _ in marks:
                if mark == UNNAMED:
                    ledger.note(mark, DOUBT, self.number)
            if retry:
                self.doubts.append(retry)
            raise
        self.n_answers += 1
        if status not in expect:
            if status != 503:
                self.surprises.append(f"{tenant}: {method} {path} {body!r:.300}: {status} {answer[:300]}")
            for mark, _ in marks:
                if is_first[mark]:
                    ledger.note(mark, REFUSED, self.number)
            return None
        is_early = ledger.is_relaxed and path in ("/select", "/reward", "/observe")
        for mark, facts in marks:
            if mark != UNNAMED and not is_early and status != 404:
                ledger.note(mark, ACKED, self.number, **facts)
        return status, answer

    # ---- what a client asks for

    def select(self, tenant):
        config, rng = TENANTS[tenant], self.rng
        body = {"user": f"u{rng.randrange(USERS)}"}
        if config.get("context_dim"):
            body["context"] = [rng.randrange(9) / 8]
        what = rng.random()
        if what < 0.2:
            body["top"] = 2
        elif what < 0.35:
            body["slots"] = [{"id": "top"}, {"id": "left", "exclude": ["a0"]}, {"id": "foot"}][:rng.randrange(1, 4)]
        if rng.random() < 0.1:
            body["defer"] = True
        if rng.random() < 0.6:
            body["decision"] = self.name("d")
        self.send_select(tenant, body)

    def send_select(self, tenant, body):
        named = body.get("decision")
        marks = [(("decided", named), {"user": body["user"]})] if named else [(UNNAMED, {})]
        got = self.ask(tenant, "POST", "/select", body, marks, retry=named and (lambda: self.send_select(tenant, body)))
        if got:
            self.keep_decision(tenant, body, got[1])

    def keep_decision(self, tenant, body, text):
        answer = json.loads(text)
        is_early = self.ledgers[tenant].is_relaxed
        slots = answer.get("slots", [])
        facts = dict(user=body["user"], arm=answer["arm"], propensity=answer["propensity"])
        if slots:
            facts["shown"] = {s["id"]: [s["arm"], s["propensity"]] for s in slots}
        self.shown |= {(answer["decision"], s["id"]): s["arm"] for s in slots}
        mark = ("decided", answer["decision"])
        if is_early:
            self.ledgers[tenant].note(mark, DOUBT, self.number)
        else:
            if mark in self.ledgers[tenant].entries:
                self.ledgers[tenant].confirm(mark, facts)
            else:
                self.ledgers[tenant].note(mark, ACKED, self.number, **facts)
            if "decision" in body and tenant != COMPACTED:
                self.answers.append((tenant, body, text))
        places = [{"slot": s["id"]} for s in slots] or ([{"arm": r["arm"]} for r in answer["ranking"]] if body.get("top") else [{}])
        (self.deferred if body.get("defer") else self.opened)[tenant].append((answer["decision"], places))

    def reward(self, tenant):
        """One reward, or some at once; in a slate it names the arm, or the slot."""
        items = [self.next_reward(tenant) for _ in range(self.rng.choice((1, 1, 1, 3)))]
        items = [item for item in items if item]
        if len(items) == 1:
            self.send_reward(tenant, items[0])
        elif items:
            self.send_rewards(tenant, items)

    def next_reward(self, tenant):
        opened = self.opened[tenant]
        if not opened:
            return None
        i = self.rng.randrange(len(opened))
        decision, places = opened[i]
        place = places.pop(0)
        # Sums and corrections may come more than once for a slot.
        if not places or self.rng.random() < 0.3:
            del opened[i]
        if TENANTS[tenant].get("aggregation") and self.rng.random() < 0.3:
            opened.append((decision, [place]))
        return {"decision": decision, "reward": self.mark(), **place}

    def reward_mark(self, item):
        arm = self.shown.get((item["decision"], item.get("slot")), item.get("arm"))
        return ("reward", item["reward"]), {"decision": item["decision"], **({"arm": arm} if arm else {})}

    def send_reward(self, tenant, item, is_again=False):
        """A sum must not be sent twice: a client cannot know whether the first one counted. A decision that the first one has
        closed may have gone into a summary."""
        is_sum = TENANTS[tenant].get("aggregation") == "sum"
        retry = None if is_sum else (lambda: self.send_reward(tenant, item, is_again=True))
        expect = (200, 404) if is_again and tenant == COMPACTED else PATIENCE.get(tenant, (200,))
        got = self.ask(tenant, "POST", "/reward", item, [self.reward_mark(item)], retry=retry, expect=expect)
        if got and got[0] == 200 and not is_sum and tenant not in ("window", "relaxed", "thompson", COMPACTED):
            self.rewards.append((tenant, item))

    def send_rewards(self, tenant, items):
        """An array is answered in place: each item is its own promise."""
        ledger = self.ledgers[tenant]
        for item in items:
            mark, facts = self.reward_mark(item)
            ledger.note(mark, DOUBT, self.number, **facts)
        got = self.ask(tenant, "POST", "/reward", items, [])
        for item, result in zip(items, json.loads(got[1]) if got else []):
            if not result["applied"] and result.get("status") not in (503, *PATIENCE.get(tenant, (200,))):
                self.surprises.append(f"{tenant}: {item}: {result}")
            if not ledger.is_relaxed:
                is_kept = result["applied"] or result.get("status") == 410
                mark, facts = self.reward_mark(item)
                ledger.note(mark, ACKED if is_kept else REFUSED, self.number, **facts)

    def observe(self, tenant):
        """Half of them with ids, so that they may be sent again, whole, whatever became of the first attempt; but not where the
        log is cut, which then knows no id of what is gone."""
        lines = [self.observation(tenant) for _ in range(self.rng.choice((1, 1, 4)))]
        if self.rng.random() < 0.5 and tenant != COMPACTED:
            lines = [{**line, "id": self.name("o")} for line in lines]
        self.send_observe(tenant, lines)

    def send_observe(self, tenant, lines):
        marks = [(("observed", x["reward"]), {"user": x["user"]}) for x in lines]
        has_ids = "id" in lines[0]
        got = self.ask(tenant, "POST", "/observe", lines if len(lines) > 1 else lines[0], marks, is_ndjson=len(lines) > 1,
                       retry=has_ids and (lambda: self.send_observe(tenant, lines)))
        if got and has_ids and not self.ledgers[tenant].is_relaxed:
            self.observed.append((tenant, lines))

    def observation(self, tenant):
        config, rng = TENANTS[tenant], self.rng
        arm = {"id": f"o{rng.randrange(5)}", "features": [rng.randrange(32) / 32]} if config.get("arm_dim") else f"a{rng.randrange(5)}"
        context = {"context": [rng.randrange(9) / 8]} if config.get("context_dim") else {}
        return {"user": f"u{rng.randrange(USERS)}", "arm": arm, "reward": self.mark(), **context}

    def measure(self, tenant):
        """A value of a metric, of a decision that takes sums and stays open; not sent twice, as a sum is not."""
        if self.opened["kors"]:
            decision, _ = self.rng.choice(self.opened["kors"])
            value = self.mark()
            self.ask("kors", "POST", "/reward", {"decision": decision, "metric": "spent", "reward": value}, [(("measured", value), {})])

    def activate(self, tenant):
        if self.deferred[tenant]:
            decision, places = self.deferred[tenant].pop()
            self.send_activate(tenant, decision, places)

    def send_activate(self, tenant, decision, places):
        expect = PATIENCE.get(tenant, (200,))
        mark, ledger = ("activated", decision), self.ledgers[tenant]
        # Where the answer may be that the decision is gone, a success is noted when it is seen.
        if len(expect) > 1:
            ledger.note(mark, DOUBT, self.number)
        got = self.ask(tenant, "POST", "/activate", {"decision": decision}, [] if len(expect) > 1 else [(mark, {})],
                       retry=lambda: self.send_activate(tenant, decision, places), expect=expect)
        if got and got[0] == 200:
            ledger.note(mark, ACKED, self.number)
            self.opened[tenant].append((decision, places))

    def patch_graph(self, tenant):
        a, b = self.rng.sample(range(USERS), 2)
        weight = 0.5 + self.mark()
        edge = [f"u{min(a, b)}", f"u{max(a, b)}", weight]
        self.ask(tenant, "PATCH", f"/tenants/{tenant}/graph", {"add": [edge]}, [(("graph", weight), {})])

    def put_graph(self, tenant):
        edges = [[f"u{i}", f"u{i + 1}", 0.5 + self.mark()] for i in range(self.rng.randrange(1, USERS))]
        self.ask(tenant, "PUT", f"/tenants/{tenant}/graph", {"edges": edges}, [(("graph", edges[0][2]), {})])

    def change_arms(self, tenant):
        verb, arm = self.rng.choice((("PATCH", 1), ("PATCH", 1), ("PUT", ARMS))), self.name("mark")
        ids = [arm] + [f"a{i}" for i in range(verb[1] - 1)]
        arms = [{"id": x, **({"features": [self.rng.randrange(32) / 32]} if TENANTS[tenant].get("arm_dim") else {})} for x in ids]
        self.ask(tenant, verb[0], f"/tenants/{tenant}/arms", {"arms": arms}, [(("arms", arm), {})])

    def configure(self, tenant):
        seed = round(self.mark() * 2**20)
        body = {**TENANTS[tenant], "seed": seed, "confidence": {"beta": self.rng.choice((0.5, 1, 2))}}
        self.ask(tenant, "PUT", f"/tenants/{tenant}", body, [(("configured", seed), {})])

    def forget(self, tenant):
        got = self.ask(tenant, "DELETE", f"/tenants/{tenant}/model", None, [])
        if got and not self.ledgers[tenant].is_relaxed:
            self.ledgers[tenant].note(("forgotten", json.loads(got[1])["seq"]), ACKED, self.number)

    def ask_again(self, tenant):
        """What was answered is answered again, word for word, and taken no second time."""
        if self.answers and self.rng.random() < 0.6:
            name, body, text = self.rng.choice(self.answers)
            got = self.ask(name, "POST", "/select", body, [])
            if got and got[1] != text:
                self.surprises.append(f"{name}: {body['decision']} was {text[:400]} and is {got[1][:400]}")
        elif self.observed and self.rng.random() < 0.5:
            name, lines = self.rng.choice(self.observed)
            got = self.ask(name, "POST", "/observe", lines, [], is_ndjson=True)
            if got and json.loads(got[1]) != {"observed": 0, "duplicates": len(lines)}:
                self.surprises.append(f"{name}: {lines} sent again: {got[1]}")
        elif self.rewards:
            name, item = self.rng.choice(self.rewards)
            got = self.ask(name, "POST", "/reward", item, [])
            if got and json.loads(got[1]) != {"applied": False, "duplicate": True}:
                self.surprises.append(f"{name}: {item} sent again: {got[1]}")

    # ---- users who go

    def ward(self, tenant):
        """A decision with its reward, and an observation, of the writer's own user."""
        if tenant == COMPACTED:
            return
        if self.wards[tenant] is None:
            self.wards[tenant] = self.name("ward")
        user, config = self.wards[tenant], TENANTS[tenant]
        seen = {**self.observation(tenant), "user": user}
        self.ask(tenant, "POST", "/observe", seen, [(("observed", seen["reward"]), {"user": user})])
        decision = self.name("d")
        body = {"user": user, "decision": decision, **({"context": [0.5]} if config.get("context_dim") else {})}
        got = self.ask(tenant, "POST", "/select", body, [(("decided", decision), {"user": user})])
        if got and self.rng.random() < 0.4:
            self.reward_ward(tenant, decision, {"user": user, "reward": self.mark(), "id": self.name("r")})
        elif got and self.rng.random() < 0.5:
            item = {"decision": decision, "reward": self.mark()}
            mark, facts = self.reward_mark(item)
            self.ledgers[tenant].note(mark, DOUBT, self.number, owner=user)
            if tenant in PATIENCE:  # a success is not told from what is gone by the status alone
                self.ask(tenant, "POST", "/reward", item, [], expect=PATIENCE[tenant])
            else:
                self.ask(tenant, "POST", "/reward", item, [(mark, {**facts, "owner": user})])

    def reward_ward(self, tenant, decision, item):
        """By user, and by an id under which it may be sent again, to a tenant that sums as well: the decision is the last one that
        the ward was shown."""
        ledger, is_patient = self.ledgers[tenant], tenant in PATIENCE
        mark, facts = self.reward_mark({"decision": decision, **item})
        ledger.note(mark, DOUBT, self.number, owner=item["user"])
        got = self.ask(tenant, "POST", "/reward", item, [] if is_patient else [(mark, {**facts, "owner": item["user"]})],
                       retry=lambda: self.reward_ward(tenant, decision, item), expect=(200, 404) if is_patient else (200,))
        if got and not is_patient and json.loads(got[1]) != {"applied": True, "decisions": [decision]}:
            self.surprises.append(f"{tenant}: {item}: {got[1]}, not {decision}")

    def erase(self, tenant):
        user = self.wards[tenant]
        if user is not None:
            self.send_erase(tenant, user)

    def send_erase(self, tenant, user):
        """Once asked, the user is left alone: what became of them is known when it is answered, or by the log."""
        ledger, self.wards[tenant] = self.ledgers[tenant], None
        was_asked = user in ledger.erasures
        ledger.note_erasure(user, DOUBT)
        got = self.ask(tenant, "DELETE", f"/tenants/{tenant}/users/{user}", None, [], retry=lambda: self.send_erase(tenant, user),
                       expect=(200, 404))
        if got:
            ledger.note_erasure(user, ACKED)
            self.n_erased += got[0] == 200
        elif not was_asked:
            ledger.note_erasure(user, REFUSED)
            self.wards[tenant] = user

    # ---- what changes nothing that a client was told

    def compact(self, _):
        keep = {"keep_events": self.rng.choice((0, 3, 10, 40))}
        got = self.ask(COMPACTED, "POST", f"/tenants/{COMPACTED}/compact", keep, [])
        if got:
            self.n_compacted += json.loads(got[1])["compacted"]

    def rebuild(self, tenant):
        self.ask(tenant, "POST", f"/tenants/{tenant}/rebuild", None, [])

    def verify(self, tenant):
        got = self.ask(tenant, "POST", f"/tenants/{tenant}/verify", None, [])
        if got:
            self.n_verified += 1
            if not json.loads(got[1])["equal"]:
                self.surprises.append(f"{tenant}: {got[1]}")

    def come_and_go(self, tenant):
        """A tenant of the writer's own, made and removed, with a key of it."""
        path = f"/tenants/{passing(self.number)}"
        if self.ask(tenant, "PUT", path, {"algorithm": "ts", "seed": round(self.mark() * 2**20)}, [], expect=(200, 201, 409)):
            self.send_key(tenant, f"{path}/keys")
        own = self.keys.own(self.number, f"{path}/keys")
        for label in own:
            self.keys.revoking(label, DOUBT)
        got = self.ask(tenant, "DELETE", path, None, [], expect=(204, 404))
        if got:  # after a 503 a later start may still finish it
            for label in own:
                self.keys.revoking(label, ACKED)

    # ---- keys

    def make_key(self, tenant):
        path = self.rng.choice(("/keys", f"/tenants/{tenant}/keys"))
        if len(self.keys.own(self.number, path)) < MOST_KEYS:
            self.send_key(tenant, path)

    def send_key(self, tenant, path):
        """Not sent again when the answer is lost: that would be another key."""
        label = self.name("key")
        self.keys.asked(label, path, self.number)
        got = self.ask(tenant, "POST", path, {"label": label, "roles": ["metrics"] if path == "/keys" else ["read"]}, [], expect=(201,))
        self.keys.answered(label, json.loads(got[1]) if got else None)

    def revoke_key(self, tenant):
        own = self.keys.own(self.number)
        if own:
            self.send_revoke(tenant, self.rng.choice(own))

    def send_revoke(self, tenant, label):
        entry = self.keys.entries[label]
        was_asked = entry.revoked is not None
        self.keys.revoking(label, DOUBT)
        got = self.ask(tenant, "DELETE", f"{entry.path}/{entry.id}", None, [], retry=lambda: self.send_revoke(tenant, label),
                       expect=(204, 404) if was_asked else (204,))
        if got or not was_asked:
            self.keys.revoking(label, ACKED if got else None)

    def use_key(self, tenant):
        """What is known of a key is so in this life as in the next."""
        known = [e for e in list(self.keys.entries.values())[-40:] if e.writer == self.number and e.text and e.revoked != DOUBT]
        if known:
            entry = self.rng.choice(known)
            status = self.wire.call("GET", "/tenants", key=entry.text)[0]
            if (status == 401) != (entry.revoked == ACKED):
                self.surprises.append(f"{entry} is answered {status}")

    # What is asked for, and how often: another operation is a function and a number here.
    SHARES = {select: 40, reward: 34, observe: 10, measure: 4, activate: 5, ask_again: 6, patch_graph: 1.5, put_graph: 0.5,
              change_arms: 1.5, configure: 1.0, ward: 4, erase: 0.7, rebuild: 0.5, verify: 0.5, compact: 0.7, forget: 0.4, come_and_go: 0.5,
              make_key: 2, revoke_key: 2, use_key: 2}

    # ---- its life

    def retry(self):
        """Sends again what was in flight, or half of the time leaves it in doubt."""
        while self.doubts:
            again = self.doubts.pop()
            if self.rng.random() < 0.6:
                again()

    def run(self, url, stop):
        """Until the server dies, or stop is set."""
        self.wire = Wire(url)
        kinds, shares, names = list(self.SHARES), list(self.SHARES.values()), list(TENANTS)
        try:
            self.retry()
            while not stop.is_set():
                self.rng.choices(kinds, shares)[0](self, self.rng.choice(names))
        except Dead:
            pass
        except Exception as fault:  # a thread that dies silently would be a test that asks for nothing
            self.surprises.append(f"writer {self.number}: {fault!r}")
        finally:
            self.wire.close()


def passing(number):
    """The name of the writer's own tenant."""
    return f"passing{number}"


def key_paths():
    """Where there may be keys."""
    return ["/keys", *(f"/tenants/{name}/keys" for name in [*TENANTS, *map(passing, range(WRITERS))])]


class Load:
    """All writers on one server."""

    def __init__(self, writers, url):
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=w.run, args=(url, self.stop), daemon=True) for w in writers]
        for thread in self.threads:
            thread.start()

    def join(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(90)
            assert not thread.is_alive(), "a request hangs"
