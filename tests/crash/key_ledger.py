"""Keys that clients were given or had revoked, set against what a server that was killed lists and lets in.

Every key carries a label that no other carries, so each row of a list can be traced to the one request that asked for it.

    making      revoking     the list must have the label    the key
    acked       not asked    once, under its id              opens
    acked       doubt        once or not at all              opens if it is there, else not
    any         acked        not at all                      opens nothing
    doubt       not asked    at most once                    nobody has it
    refused                  never

A doubt is settled by the first look at a recovered server, for good.
"""
import dataclasses

from ledger import ACKED, DOUBT, REFUSED


@dataclasses.dataclass
class Entry:
    path: str            # of the keys it is among
    writer: int
    made: str = DOUBT
    revoked: str = None  # not asked; DOUBT or ACKED
    id: str = None
    text: str = None     # None: the answer that showed it was lost


class KeyLedger:
    """Writers write to labels of their own, so no lock is needed; judging is for when they rest."""

    def __init__(self):
        self.entries = {}

    def asked(self, label, path, writer):
        self.entries[label] = Entry(path, writer)

    def answered(self, label, key):
        """The key as it was shown, or None: nothing was made."""
        entry = self.entries[label]
        entry.made = ACKED if key else REFUSED
        if key:
            entry.id, entry.text = key["id"], key["key"]

    def revoking(self, label, state):
        """DOUBT, ACKED, or None: nothing was changed."""
        if self.entries[label].revoked != ACKED:
            self.entries[label].revoked = state

    def own(self, writer, path=None):
        """Labels of the keys that the writer may revoke."""
        return [label for label, e in self.entries.items()
                if e.writer == writer and e.made == ACKED and e.revoked is None and e.id and path in (None, e.path)]

    def count(self):
        """(made, revoked), both for sure."""
        return (sum(e.made == ACKED for e in self.entries.values()), sum(e.revoked == ACKED for e in self.entries.values()))


def judge(ledger, rows, opens):
    """Faults as sentences. rows: [(path, row)] of all lists; opens(text): whether the server lets that key in. Afterwards
    what was in doubt is settled by what was found."""
    listed = {}
    for path, row in rows:
        listed.setdefault(row["label"], []).append((path, row))
    faults = [f"nobody asked for the key {label}" for label in listed if label not in ledger.entries]
    for label, entry in ledger.entries.items():
        found = listed.get(label, [])
        faults += [f"{label}: {fault}" for fault in faults_of(entry, found)]
        if entry.text and opens(entry.text) != bool(found):
            faults.append(f"{label}: is {'' if found else 'not '}listed and {'does not open' if found else 'opens'}")
        settle(entry, found)
    return faults


def faults_of(entry, found):
    if len(found) > 1:
        yield f"stands {len(found)} times"
    if found and entry.made == REFUSED:
        yield "was refused, or absent before, and is there"
    if found and entry.revoked == ACKED:
        yield "was revoked and is there"
    if not found and entry.made == ACKED and entry.revoked is None:
        yield "was made and is lost"
    if found and (found[0][0] != entry.path or entry.id not in (None, found[0][1]["id"])):
        yield f"is {found[0]}, and was {entry}"


def settle(entry, found):
    if entry.made == DOUBT:
        entry.made = ACKED if found else REFUSED
    if found:
        entry.id = found[0][1]["id"]
    if entry.revoked == DOUBT:
        entry.revoked = None if found else ACKED
