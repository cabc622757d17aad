"""What clients were told, set against what the log says.

Every change that a client asks for carries a mark that no other change carries: a decision its id, a reward or an
observation its value, a graph the weight of an edge, a catalogue the id of an arm, a configuration its seed. So each
line of the log can be traced to the one request that asked for it.

    state      the client has                        the log must hold the mark
    acked      an answer of success                  once
    doubt      asked; the connection died            at most once
    refused    an answer that nothing was recorded   never
    erased     that its user is erased               never
    settled    doubt that a later look has decided   as it was found then

A compaction lets lines give way to a summary. Those that were read before are known by their numbers; what came and went between
two looks is known by count, since the summary has how many decisions, rewards, observations and configurations it stands for.
Whoever is erased would be missing there, so nobody is erased where logs are compacted.

    summarized  of what gave way to a summary        never again; as an open decision in the summary, while it is one

An erasure changes lines that stood: those of the user become `redacted`, and points go from dictionaries. Where it is in
doubt, because the connection died, all of the user's lines are gone or none.
"""
import collections
import dataclasses
import json

ACKED, DOUBT, REFUSED, ERASED, SUMMARIZED = "acked", "doubt", "refused", "erased", "summarized"
UNNAMED = ("decided", None)  # a decision whose id the server would have told


@dataclasses.dataclass
class Entry:
    """One mark. `order` rises with a writer's answers: what it was told earlier stands earlier in the log."""
    state: str
    writer: int = 0
    order: int = 0  # None: not known
    facts: dict = dataclasses.field(default_factory=dict)  # what the line must say besides the mark
    is_checked: bool = False
    owner: str = None  # whose data it is
    seq: int = None    # of its line, once it was read
    may_be_gone: bool = False  # where it was in doubt, into a summary


class Ledger:
    """One tenant's. Writers write to marks of their own, so no lock is needed; judging is for when they rest."""

    def __init__(self, is_relaxed=False, is_compacted=False):
        self.is_compacted, self.stands_for, self.totals = is_compacted, 0, collections.Counter()  # of the summary that was read
        self.entries, self.unnamed_doubts, self.orders = {}, collections.Counter(), collections.Counter()
        self.is_relaxed, self.text, self.last_seq = is_relaxed, b"", 0
        self.seen, self.lines = collections.Counter(), {}
        self.erasures, self.n_erased = {}, 0  # user: what its client was told of the erasure, until it is judged

    def note(self, mark, state, writer, **facts):
        """An answer, or the lack of one. A mark that was acknowledged stays so."""
        if mark == UNNAMED:
            self.unnamed_doubts[writer] += state == DOUBT
            return
        old = self.entries.get(mark)
        if old is not None and old.state == ACKED:
            return
        if state == ACKED:
            self.orders[writer] += 1
        owner = facts.pop("owner", facts.get("user"))
        self.entries[mark] = Entry(state, writer, self.orders[writer], facts, owner=owner, seq=old and old.seq,
                                   may_be_gone=bool(old and old.may_be_gone))

    def confirm(self, mark, facts):
        """What an answer says of a mark that is noted already."""
        self.entries[mark].facts, self.entries[mark].is_checked = facts, False

    def note_erasure(self, user, state):
        """ACKED, DOUBT, or REFUSED: nothing was changed. Nobody asks for anything of the user's afterwards."""
        if state == REFUSED:
            self.erasures.pop(user, None)
        elif self.erasures.get(user) != ACKED:
            self.erasures[user] = state

    def begin(self):
        """Before new lines are read: where a user may have been erased, or lines have gone, all of them are read anew."""
        if self.erasures or self.is_compacted:
            self.last_seq = 0
        return self.last_seq

    def count(self, state):
        return sum(e.state == state for e in self.entries.values())


def mark_of(event):
    """The mark of a line of the log; None for lines that the server adds by itself."""
    kind = event["type"]
    if kind in ("decided", "activated", "expired"):
        return kind, event["decision"]
    if kind in ("rewarded", "late", "observed", "measured"):
        return kind if kind in ("observed", "measured") else "reward", event["reward"]
    if kind == "forgotten":  # known by the number that the answer tells, if there was one
        return kind, event["seq"]
    if kind == "graph":
        return kind, event["add"][0][2] if event["add"] else None
    if kind == "arms":
        return kind, next((arm["id"] for arm in event["put"] if arm["id"].startswith("mark")), None)
    return (kind, event["configuration"]["seed"]) if kind == "configured" else None


def said(line, fact):
    """What a line says of a fact; `shown` is what its slots have, by their names."""
    if fact != "shown":
        return line.get(fact)
    return {slot["id"]: [place["arm"], slot["propensity"]] for slot, place in zip(line.get("slots", []), line.get("slate", [line]))}


def judge(ledger, text, events):
    """Faults of the log as sentences; none: the promise was kept. `events` are the lines behind the part that was
    judged before, `text` is all of it. Afterwards what was in doubt is settled by what was found."""
    faults, read_to = changes(ledger, text, events), last_seq(ledger.text)
    if ledger.erasures or ledger.is_compacted:
        ledger.seen.clear()
        ledger.lines.clear()
    if ledger.is_compacted and events:
        ledger.last_seq = events[0]["seq"] - 1
    found = {}
    for event in events:
        if event["seq"] != ledger.last_seq + 1:
            faults.append(f"after seq {ledger.last_seq} comes {event['seq']}")
        ledger.last_seq = event["seq"]
        mark = mark_of(event)
        if mark is not None:
            ledger.seen[mark] += 1
            found[mark] = ledger.lines[mark] = event
    is_open = {("decided", e["decision"]) for e in events if e["type"] == "summary" and e["part"] == "decision"}
    ledger.seen.update(is_open)
    faults += erased(ledger, text)
    faults += summarized(ledger, [e for e in events if e["type"] == "summary"], is_open, read_to)
    faults += strangers(ledger, {**dict.fromkeys(is_open), **found}) + misses(ledger) + slips(ledger, found)
    for mark in ledger.entries.keys() & (found.keys() | is_open):
        ledger.entries[mark].seq = found[mark]["seq"] if mark in found else ledger.stands_for
    settle(ledger)
    ledger.text = text
    return faults


def last_seq(text):
    """Of a log as it was told; 0 when it is empty."""
    return json.loads(text[text.rstrip(b"\n").rfind(b"\n") + 1:])["seq"] if text else 0


def by_seq(text, after):
    """{seq: line} of the lines behind that number."""
    lines = {json.loads(line)["seq"]: line for line in text.splitlines()}
    return {seq: line for seq, line in lines.items() if seq > after}


def changes(ledger, text, events):
    """Lines that stood stay as they were, but for what an erasure or a compaction does to them."""
    if ledger.is_compacted:
        begin = max([e["seq"] for e in events if e["type"] == "summary"], default=0)
        old, new = by_seq(ledger.text, begin), by_seq(text, begin)
        return [f"{line[:200]} has become {new.get(seq, b'nothing')[:200]}" for seq, line in old.items() if new.get(seq) != line]
    if text.startswith(ledger.text):
        return []
    old, new = ledger.text.splitlines(), text.splitlines()
    if not ledger.erasures or len(new) < len(old):
        return ["lines that stood in the log have changed"]
    return [f"{a[:200]} has become {b[:200]}" for a, b in zip(old, new) if a != b and not is_redaction(json.loads(a), json.loads(b))]


def is_redaction(old, new):
    if (old["seq"], old["at"]) != (new["seq"], new["at"]):
        return False
    return new["type"] == "redacted" or (
        old["type"] == new["type"] and new["type"] in ("dictionary", "tuned") and new.get("points") == [] and old.get("scales") == new.get("scales"))


def erased(ledger, text):
    """What was erased is gone for good; an erasure in doubt took everything or nothing."""
    faults = []
    for user, state in ledger.erasures.items():
        own = {m: e for m, e in ledger.entries.items() if e.owner == user}
        there = [m for m, e in own.items() if ledger.seen[m]]
        missing = [m for m, e in own.items() if e.state == ACKED and not ledger.seen[m]]
        if state == DOUBT and there and missing:
            faults.append(f"{user} is erased in part: {missing[:3]} are gone, {there[:3]} are not")
        if state == DOUBT and there:
            continue  # it did not happen
        ledger.n_erased += 1
        if json.dumps(user).encode() in text:
            faults.append(f"{user} was erased and is in the log")
        for entry in own.values():
            entry.state = ERASED
    ledger.erasures.clear()
    return faults


def counted(kind):
    """The name under which a summary counts events of that type, or marks of that kind; late rewards are rewards."""
    return {"rewarded": "reward", "late": "reward"}.get(kind, kind)


def summarized(ledger, parts, is_open, read_to):
    """What has given way to the summary. is_open: decisions that it holds; read_to: the last line that was read before."""
    if not parts:
        return ["the summary is lost"] if ledger.stands_for else []
    stands_for, end = parts[-1]["seq"], parts[-1]
    if [p["part"] for p in (parts[0], end)] != ["begin", "end"] or stands_for < ledger.stands_for:
        return [f"no summary: {parts[0]} ... {end}, after one of {ledger.stands_for}"]
    told = {"decided": end["decided"], "reward": end["rewarded"] + end["late"], "observed": end["observed"], "configured": parts[0]["version"]}
    least = ledger.totals + collections.Counter(
        counted(e["type"]) for e in map(json.loads, ledger.text.splitlines()) if ledger.stands_for < e["seq"] <= stands_for)
    faults, perhaps = gone(ledger, stands_for, is_open, least, stands_for > read_to)
    faults += [f"the summary has {n} of {kind}, not {least[kind]} to {least[kind] + perhaps[kind]}" for kind, n in told.items()
               if not least[kind] <= n <= least[kind] + perhaps[kind]]
    ledger.stands_for, ledger.totals = stands_for, collections.Counter(told)
    return faults


def gone(ledger, stands_for, is_open, least, is_ahead):
    """Marks that are in the log no more: those of lines up to that number, and where it is ahead of what was read, those that
    never were. Adds to `least` what must have been among the latter; (faults, what may have been)."""
    faults, perhaps = [], collections.Counter()
    rewarded = {e.facts.get("decision") for (kind, _), e in ledger.entries.items() if kind == "reward"}
    for mark, entry in ledger.entries.items():
        kind = counted(mark[0])
        was_read = entry.seq is not None
        if mark in is_open and not was_read:
            least[kind] += 1
        if ledger.seen[mark] or (entry.seq > stands_for if was_read else not is_ahead):
            continue
        if entry.state == ACKED:
            entry.state = SUMMARIZED
            if not was_read:
                (perhaps if entry.may_be_gone else least)[kind] += 1
            if kind == "decided" and mark[1] not in rewarded:
                faults.append(f"{mark} was open and is not in the summary")
        elif entry.state == DOUBT:
            perhaps[kind] += 1
            entry.may_be_gone = True
    perhaps["decided"] += sum(ledger.unnamed_doubts.values()) if is_ahead else 0
    return faults, perhaps


def strangers(ledger, found):
    """Lines that nobody asked for. The ids of unnamed decisions that were never answered are not known."""
    unknown = [m for m in found if m not in ledger.entries and m[0] not in ("expired", "forgotten")]
    unnamed = [m for m in unknown if m[0] == "decided"]
    allowed = sum(ledger.unnamed_doubts.values())
    faults = [f"nobody asked for {m}" for m in unknown if m[0] != "decided"]
    if len(unnamed) > allowed:
        faults.append(f"{len(unnamed)} decisions that nobody knows, where {allowed} were in flight: {unnamed[:3]}")
    for mark in unnamed:
        ledger.entries[mark] = Entry(DOUBT)
    ledger.unnamed_doubts.clear()
    return faults + [f"{m} stands {n} times: {ledger.lines.get(m)}" for m, n in ledger.seen.items() if n > 1]


def misses(ledger):
    """Marks whose number in the log is not that of their state."""
    faults = []
    for mark, entry in ledger.entries.items():
        n = ledger.seen[mark]
        if entry.state == ACKED and n == 0 and not entry.may_be_gone:
            faults.append(f"{mark} was acknowledged and is lost")
        elif entry.state == SUMMARIZED and n > 0:
            faults.append(f"{mark} gave way to a summary and is in the log")
        elif entry.state == REFUSED and n > 0:
            faults.append(f"{mark} was refused, or absent before, and is in the log")
        elif entry.state == ERASED and n > 0:
            faults.append(f"{mark} was erased and is in the log")
    return faults


def slips(ledger, found):
    """Lines that say something else than the answer did, or stand before what the same client was told earlier."""
    faults, latest = [], collections.Counter()
    for mark, entry in ledger.entries.items():
        if entry.state == ACKED and not entry.is_checked and mark in ledger.lines:
            line, entry.is_checked = ledger.lines[mark], True
            if any(said(line, k) != v for k, v in entry.facts.items()):
                faults.append(f"{mark}: the log says {line}, the answer {entry.facts}")
    for mark in found:
        entry = ledger.entries.get(mark)
        if entry is not None and entry.state == ACKED and entry.order is not None:
            if entry.order < latest[entry.writer]:
                faults.append(f"{mark} stands behind what its writer was told later")
            latest[entry.writer] = max(latest[entry.writer], entry.order)
    return faults


def settle(ledger):
    """A recovered log has decided: what is in it stays, what is not never comes."""
    for mark, entry in ledger.entries.items():
        if entry.state == DOUBT:
            entry.state = ACKED if ledger.seen[mark] else REFUSED
            entry.order = None  # no answer says what came before it
