"""Clients that write to any server of a log and remember what they were told, and what the log says of it afterwards (tests/crash/ledger.py)."""
import collections
import contextlib
import itertools
import random
import threading
import time

import requests

from servers import events_of
from ledger import ACKED, DOUBT, REFUSED, judge

POINTS = ("before_take", "after_take", "mid_follow", "before_shared_append", "after_shared_commit", "after_apply")  # of a turn, where a server may die


class Writer:
    """A client that goes to any server, remembers what it was told, and asks again with the same id where it was told nothing."""

    def __init__(self, number, seed, ledger, tenant, key=None, patience=30):
        self.headers, self.patience = {"Laplaced-Tenant": tenant, **({"Authorization": f"Bearer {key}"} if key else {})}, patience
        self.number, self.rng, self.ledger = number, random.Random(f"{seed}/{number}"), ledger
        self.marks = (number + 8 * i for i in itertools.count(1))
        self.open, self.surprises, self.n = [], [], collections.Counter()
        self.gives_up = False

    def call(self, urls, path, body):
        """(status, JSON); (0, None) where the connection ended. urls(): of the servers, where they are now."""
        try:
            answer = requests.post(self.rng.choice(urls()) + path, json=body, headers=self.headers, timeout=self.patience)
        except requests.RequestException:
            return 0, None
        if answer.status_code >= 400 and answer.status_code not in (503,):
            self.surprises.append(f"{path} {body}: {answer.status_code} {answer.text[:300]}")
        return answer.status_code, answer.json()

    def ask(self, urls, path, body, mark, **facts):
        """Until it is known what became of it, or it was not recorded. The answer, or None."""
        is_doubted = False
        while not self.gives_up:
            self.ledger.note(mark, DOUBT, self.number, **facts)
            status, answer = self.call(urls, path, body)
            self.n[status] += 1
            if status == 200:
                self.ledger.note(mark, ACKED, self.number, **facts)
                if is_doubted:
                    self.ledger.entries[mark].order = None
                return answer
            if status != 0 and not is_doubted and "nothing was recorded" in answer["detail"]:
                self.ledger.note(mark, REFUSED, self.number)
                return None
            is_doubted = True
            time.sleep(0.05)

    def turn(self, urls):
        what = self.rng.random()
        if what < 0.5 or not self.open:
            name = f"w{self.number}-{next(self.marks)}"
            answer = self.ask(urls, "/select", {"user": f"u{self.rng.randrange(9)}", "candidates": ["x", "y", "z"], "decision": name}, ("decided", name))
            if answer:
                self.ledger.confirm(("decided", name), {"arm": answer["arm"]})
                self.open.append(name)
        elif what < 0.85:
            value = next(self.marks) / 2**24
            name = self.open.pop(self.rng.randrange(len(self.open)))
            answer = self.ask(urls, "/reward", {"decision": name, "reward": value}, ("reward", value), decision=name)
            if answer is None:
                self.open.append(name)
        else:
            value = next(self.marks) / 2**24
            self.ask(urls, "/observe", {"id": f"o{value}", "user": "u", "arm": "x", "reward": value}, ("observed", value))


@contextlib.contextmanager
def at_work(writers, servers, seconds=60):
    """The writers write until the end of the block, each at any of the servers; then each has so many seconds to end what it began."""
    is_over = threading.Event()

    def work(writer):
        while not is_over.is_set():
            writer.turn(lambda: [s.url for s in servers.servers])
    threads = [threading.Thread(target=work, args=(w,)) for w in writers]
    for t in threads:
        t.start()
    try:
        yield
    except BaseException:  # there may be nobody who answers
        for writer in writers:
            writer.gives_up = True
        raise
    finally:
        is_over.set()
        for t in threads:
            t.join(seconds)
    assert not any(t.is_alive() for t in threads)


def judged(ledger, log):
    """The log's events, and what of the ledger they contradict."""
    events = events_of(log)
    for e in events:
        if e["type"] == "configured":
            ledger.note(("configured", e["configuration"]["seed"]), ACKED, 9)
    return events, judge(ledger, log, events)
