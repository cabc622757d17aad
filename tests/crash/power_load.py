"""The load of the kills (load.py), whose ledgers keep a journal: what clients knew at any instant can be told afterwards.

Copies and imports come besides, and which tenants there are."""
import json
import re
import time

from key_ledger import KeyLedger
from ledger import ACKED, DOUBT, Ledger
from load import COMPACTED, TENANTS, UNNAMED, WRITERS, Writer

MADE, GONE = "made", "gone"  # tenants; DOUBT: asked for one or the other
PASSING = re.compile(r"/tenants/((?:passing|moved)\d+)(?:/import|/snapshot)?")


class Journal:
    """Calls of ledgers, each with the time when it was made: before a request is sent, after an answer is read."""

    def __init__(self):
        self.calls = []  # (ns, ledger, method, arguments, named arguments)

    def note(self, ledger, method, args, named=None):
        self.calls.append((time.monotonic_ns(), ledger, method, args, named or {}))

    def acks(self):
        """{kind: times} of what clients were told that has to outlast any cut."""
        found = {}
        for t, ledger, method, args, _ in self.calls:
            kind = kind_of(ledger, method, args)
            if kind:
                found.setdefault(kind, []).append(t)
        return found

    def known_at(self, t_ns):
        """What clients knew then."""
        known = Known()
        for t, ledger, method, args, named in sorted(self.calls, key=lambda call: call[0]):
            if t > t_ns:
                break
            getattr(known.of(ledger), method)(*args, **named)
        for (name, writer), n in known.flying.counts.items():
            for _ in range(n):
                known.ledgers[name].note(UNNAMED, DOUBT, writer)
        return known


def kind_of(ledger, method, args):
    if method == "note" and ledger in TENANTS and args[1] == ACKED:
        return "change"
    if method == "note_erasure" and args[1] == ACKED:
        return "erasure"
    if method == "answered" and args[1]:
        return "key"
    if method == "revoking" and args[1] == ACKED:
        return "revocation"
    return f"tenant {args[1]}" if ledger == "tenants" and args[1] != DOUBT else None


class Known:
    def __init__(self):
        self.ledgers, self.keys = new_ledgers(Ledger), KeyLedger()
        self.tenants, self.flying = Tenants(), Flying()

    def of(self, ledger):
        return self.ledgers[ledger] if ledger in TENANTS else getattr(self, ledger)


class Tenants:
    """Those that come and go."""

    def __init__(self):
        self.states, self.facts = {}, {}

    def note(self, name, state, facts=None):
        self.states[name], self.facts[name] = state, facts or {}


class Flying:
    """Decisions whose ids clients do not know yet."""

    def __init__(self):
        self.counts = {}

    def note(self, name, writer, n):
        self.counts[name, writer] = self.counts.get((name, writer), 0) + n


def new_ledgers(kind, *args):
    return {name: kind(*args, config.get("durability") == "relaxed", name == COMPACTED) for name, config in TENANTS.items()}


class RecordedLedger(Ledger):
    def __init__(self, journal, *args):
        super().__init__(*args)
        self.journal, self.name = journal, None

    def note(self, mark, state, writer, **facts):
        self.journal.note(self.name, "note", (mark, state, writer), facts)
        super().note(mark, state, writer, **facts)

    def confirm(self, mark, facts):
        self.journal.note(self.name, "confirm", (mark, facts))
        super().confirm(mark, facts)

    def note_erasure(self, user, state):
        self.journal.note(self.name, "note_erasure", (user, state))
        super().note_erasure(user, state)


def recorded_ledgers(journal):
    ledgers = new_ledgers(RecordedLedger, journal)
    for name, ledger in ledgers.items():
        ledger.name = name
    return ledgers


class RecordedKeys(KeyLedger):
    def __init__(self, journal):
        super().__init__()
        self.journal = journal

    def asked(self, label, path, writer):
        self.journal.note("keys", "asked", (label, path, writer))
        super().asked(label, path, writer)

    def answered(self, label, key):
        self.journal.note("keys", "answered", (label, key))
        super().answered(label, key)

    def revoking(self, label, state):
        self.journal.note("keys", "revoking", (label, state))
        super().revoking(label, state)


class PowerWriter(Writer):
    def __init__(self, number, seed, journal, ledgers, keys):
        super().__init__(number, seed, ledgers, keys)
        self.journal = journal

    def ask(self, tenant, method, path, body, marks, **how):
        """Tenants that come and go are noted by their paths."""
        passing = PASSING.fullmatch(path)
        if passing is None or method not in ("PUT", "DELETE", "POST"):
            return super().ask(tenant, method, path, body, marks, **how)
        name = passing.group(1)
        self.journal.note("tenants", "note", (name, DOUBT))
        got = super().ask(tenant, method, path, body, marks, **how)
        if got and got[0] != 409:
            facts = json.loads(got[1]) if method != "DELETE" and got[0] == 201 and path != f"/tenants/{name}" else {}
            self.journal.note("tenants", "note", (name, GONE if method == "DELETE" else MADE, facts))
        return got

    def send_select(self, tenant, body):
        if body.get("decision"):
            return super().send_select(tenant, body)
        self.journal.note("flying", "note", (tenant, self.number, 1))
        try:
            super().send_select(tenant, body)
        finally:  # by then its id is noted, or that it is in doubt
            self.journal.note("flying", "note", (tenant, self.number, -1))

    def move(self, tenant):
        """A tenant of the writer's own, made from another's lines or file; the next time it goes."""
        name = f"moved{self.number}"
        if self.ask(tenant, "DELETE", f"/tenants/{name}", None, [], expect=(204, 404)) is None or self.rng.random() < 0.3:
            return
        if self.rng.random() < 0.5:
            copy, way = ("GET", f"/tenants/{tenant}/export"), ("POST", f"/tenants/{name}/import")
        else:
            copy, way = ("POST", f"/tenants/{tenant}/snapshot"), ("PUT", f"/tenants/{name}/snapshot")
        got = self.ask(tenant, *copy, None, [], expect=(200, 409))  # 409: another copy is being made
        if got and got[0] == 200:
            self.ask(tenant, *way, got[1], [], expect=(201, 409))

    SHARES = {**Writer.SHARES, move: 1.5, Writer.erase: 2, Writer.ward: 8, Writer.compact: 1, Writer.come_and_go: 1.5}


def writers(seed, journal, ledgers, keys):
    return [PowerWriter(k, seed, journal, ledgers, keys) for k in range(WRITERS)]
