"""The judge itself: it finds each kind of broken promise in forged logs, and nothing in honest ones."""
import json

import pytest

from ledger import ACKED, DOUBT, REFUSED, UNNAMED, Ledger, judge


def line(seq, kind, **fields):
    return {"seq": seq, "type": kind, **fields}


HONEST = [line(1, "decided", decision="d1", arm="a"), line(2, "rewarded", decision="d1", reward=0.25),
          line(3, "dictionary", reset=False, points=[]), line(4, "decided", decision="d2", arm="b"),
          line(5, "observed", user="u", reward=0.5), line(6, "expired", decision="d2")]


def told():
    """What the clients of HONEST know: d2 died on the way, and so did a reward that never arrived."""
    ledger = Ledger()
    ledger.note(("decided", "d1"), ACKED, 0, arm="a")
    ledger.note(("reward", 0.25), ACKED, 0, decision="d1")
    ledger.note(("decided", "d2"), DOUBT, 1)
    ledger.note(("observed", 0.5), ACKED, 1)
    ledger.note(("reward", 0.75), DOUBT, 1)
    ledger.note(("reward", 0.875), REFUSED, 1)
    return ledger


def text_of(events):
    return "".join(json.dumps(e) + "\n" for e in events).encode()


def faults(events, ledger=None):
    return judge(ledger or told(), text_of(events), events)


def renumbered(events):
    return [{**e, "seq": i + 1} for i, e in enumerate(events)]


def test_an_honest_log_has_no_faults():
    assert faults(HONEST) == []


@pytest.mark.parametrize("gone", [0, 1, 4])
def test_an_acknowledged_event_that_is_lost_is_found(gone):
    assert any("is lost" in f for f in faults(renumbered(HONEST[:gone] + HONEST[gone + 1:])))


def test_an_unacknowledged_event_may_be_lost():
    assert faults(renumbered(HONEST[:3] + HONEST[4:5])) == []


@pytest.mark.parametrize("twice", [0, 1, 3, 4, 5])
def test_an_event_that_stands_twice_is_found(twice):
    assert any("stands 2 times" in f for f in faults(renumbered(HONEST + [HONEST[twice]])))


def test_a_gap_in_the_numbers_is_found():
    assert any("comes" in f for f in faults(HONEST[:3] + [{**e, "seq": e["seq"] + 1} for e in HONEST[3:]]))


def test_a_refused_event_in_the_log_is_found():
    assert any("refused" in f for f in faults(HONEST + [line(7, "rewarded", decision="d2", reward=0.875)]))


def test_an_event_that_nobody_asked_for_is_found():
    assert any("nobody" in f for f in faults(HONEST + [line(7, "rewarded", decision="d2", reward=0.3)]))
    assert any("nobody" in f for f in faults(HONEST + [line(7, "decided", decision="d9", arm="a")]))


def test_an_unnamed_decision_in_flight_may_be_in_the_log():
    ledger = told()
    ledger.note(UNNAMED, DOUBT, 2)
    assert faults(HONEST + [line(7, "decided", decision="d9", arm="a")], ledger) == []


def test_another_arm_than_the_one_answered_is_found():
    assert any("the log says" in f for f in faults([{**HONEST[0], "arm": "b"}] + HONEST[1:]))


SLOTS = line(7, "decided", decision="d7", arm="a", propensity=0.5, slate=[{"arm": "a"}, {"arm": "b"}], slots=[{"id": "top", "propensity": 0.5}, {"id": "left", "propensity": 1}])


@pytest.mark.parametrize("change, is_found", [({}, False), ({"slate": [{"arm": "a"}, {"arm": "c"}]}, True), ({"slots": SLOTS["slots"][:1]}, True), ({"slots": []}, True),
                                              ({"slots": [SLOTS["slots"][0], {"id": "left", "propensity": 0.5}]}, True), ({"slots": SLOTS["slots"][::-1]}, True)])
def test_slots_that_show_something_else_are_found(change, is_found):
    ledger = told()
    ledger.note(("decided", "d7"), ACKED, 3, arm="a", shown={"top": ["a", 0.5], "left": ["b", 1]})
    assert any("the log says" in f for f in faults(HONEST + [{**SLOTS, **change}], ledger)) == is_found


def test_a_line_before_what_its_client_knew_earlier_is_found():
    swapped = renumbered([HONEST[1], HONEST[0]] + HONEST[2:])
    assert any("told later" in f for f in faults(swapped))


def test_what_a_recovered_log_has_decided_stays_decided():
    ledger = told()
    assert faults(HONEST, ledger) == []
    late = [line(7, "rewarded", decision="d2", reward=0.75)]
    assert any("absent before" in f for f in judge(ledger, text_of(HONEST + late), late))
    other = told()
    assert faults(HONEST, other) == []
    assert any("have changed" in f for f in judge(other, text_of(HONEST[:5]), []))


# ---- users who were erased

TWO = [line(1, "decided", decision="d1", user="ann", arm="a", at=1), line(2, "observed", user="bob", reward=0.5, at=2),
       line(3, "rewarded", decision="d1", reward=0.25, at=3), line(4, "dictionary", reset=False, points=[1], at=4)]
GONE = [line(1, "redacted", at=1), TWO[1], line(3, "redacted", at=3), line(4, "redacted", at=4), line(5, "dictionary", reset=True, points=[2], at=5)]


def two_users():
    ledger = Ledger()
    ledger.note(("decided", "d1"), ACKED, 0, user="ann")
    ledger.note(("observed", 0.5), ACKED, 1, user="bob")
    ledger.note(("reward", 0.25), ACKED, 0, decision="d1", owner="ann")
    assert judge(ledger, text_of(TWO), TWO) == []
    return ledger


def after_erasure(events, state=ACKED):
    ledger = two_users()
    ledger.note_erasure("ann", state)
    new = [e for e in events if e["seq"] > ledger.begin()]
    return ledger, judge(ledger, text_of(events), new)


@pytest.mark.parametrize("state", [ACKED, DOUBT])
def test_an_erasure_takes_its_users_lines(state):
    ledger, found = after_erasure(GONE, state)
    assert found == [] and ledger.n_erased == 1
    back = GONE + [line(6, "rewarded", decision="d1", reward=0.25, at=6)]
    assert any("was erased" in f for f in judge(ledger, text_of(back), back[5:]))


def test_an_erasure_in_doubt_may_not_have_happened():
    ledger, found = after_erasure(TWO, DOUBT)
    assert found == [] and ledger.n_erased == 0
    assert any("have changed" in f for f in judge(ledger, text_of(GONE), GONE[4:]))  # nobody has asked again


def test_an_erasure_that_did_less_than_it_said_is_found():
    assert any("was erased" in f for f in after_erasure(TWO)[1])
    left = [GONE[0], *GONE[1:2], TWO[2], *GONE[3:]]
    assert any("was erased" in f for f in after_erasure(left)[1])
    named = GONE[:4] + [line(5, "graph", add=[["ann", "bob", 1.0]], at=5)]
    assert any("ann was erased and is in the log" in f for f in after_erasure(named)[1])


def test_an_erasure_in_part_is_found():
    left = [GONE[0], *GONE[1:2], TWO[2], *GONE[3:]]
    assert any("in part" in f for f in after_erasure(left, DOUBT)[1])


def test_an_erasure_that_was_refused_takes_nothing():
    assert any("have changed" in f for f in after_erasure(GONE, REFUSED)[1])


def test_an_erasure_that_takes_the_lines_of_others_is_found():
    more = [GONE[0], line(2, "redacted", at=2), *GONE[2:]]
    assert any("is lost" in f for f in after_erasure(more)[1])
    other = [GONE[0], {**TWO[1], "user": "eve"}, *GONE[2:]]
    assert any("has become" in f for f in after_erasure(other)[1])
    assert any("have changed" in f for f in after_erasure(GONE[:3])[1])


# ---- logs that were compacted

def total(seq, decided, rewarded, observed, *open_decisions):
    """A summary that stands for the lines up to seq."""
    parts = [{"part": "begin", "version": 1}, *({"part": "decision", "decision": d} for d in open_decisions),
             {"part": "end", "decided": decided, "rewarded": rewarded, "observed": observed, "late": 0}]
    return [line(seq - len(parts) + 1 + i, "summary", **part) for i, part in enumerate(parts)]


def config():
    return line(1, "configured", configuration={"seed": 7})


WHOLE = [config(), line(2, "decided", decision="d1"), line(3, "rewarded", decision="d1", reward=0.25), line(4, "decided", decision="d2"),
         line(5, "observed", reward=0.5), line(6, "observed", reward=0.75)]


def compacted(is_read):
    """The ledger of WHOLE; is_read: it was looked at before it was compacted."""
    ledger = Ledger(is_compacted=True)
    for mark in (("configured", 7), ("decided", "d1"), ("reward", 0.25), ("decided", "d2"), ("observed", 0.5), ("observed", 0.75)):
        ledger.note(mark, ACKED, 0, **({"decision": "d1"} if mark[0] == "reward" else {}))
    if is_read:
        assert judge(ledger, text_of(WHOLE), WHOLE) == []
    return ledger


@pytest.mark.parametrize("is_read", [True, False])
def test_an_honest_summary_has_no_faults(is_read):
    for log in (total(5, 2, 1, 1, "d2") + WHOLE[5:], total(6, 2, 1, 2, "d2")):
        ledger = compacted(is_read)
        assert faults(log, ledger) == []
        assert faults(log + [line(7, "rewarded", decision="d2", reward=0.125)], ledger) != []  # nobody asked for it
    ledger = compacted(is_read)
    assert faults(total(5, 2, 1, 1, "d2") + WHOLE[5:], ledger) == []
    ledger.note(("reward", 0.125), ACKED, 0, decision="d2")
    assert faults(total(7, 3 - 1, 2, 2), ledger) == []


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("log, word", [
    (total(5, 2, 0, 1, "d2") + WHOLE[5:], "0 of reward"), (total(5, 1, 1, 1, "d2") + WHOLE[5:], "1 of decided"),
    (total(5, 2, 1, 2, "d2") + WHOLE[5:], "2 of observed"), (total(5, 2, 1, 1) + WHOLE[5:], "was open"),
    (total(5, 2, 1, 1, "d2") + [WHOLE[4]], "comes"), (WHOLE[2:], "lost"),
    (total(5, 2, 1, 1, "d2", "d9") + WHOLE[5:], "nobody knows")])
def test_a_summary_that_says_less_or_more_is_found(is_read, log, word):
    assert any(word in f for f in faults(log, compacted(is_read)))


def test_what_was_lost_behind_a_summary_is_found():
    assert any("has become" in f for f in faults(total(4, 2, 1, 0, "d2") + [{**WHOLE[5], "seq": 5}], compacted(True)))
    assert any("is lost" in f for f in faults(total(4, 2, 1, 0, "d2") + [{**WHOLE[5], "seq": 5}], compacted(True)))


def test_a_doubt_may_have_gone_into_a_summary_or_not():
    for n in (2, 3):
        ledger = compacted(True)
        ledger.note(("observed", 0.875), DOUBT, 1)
        assert faults(total(7, 2, 1, n, "d2"), ledger) == []
    ledger = compacted(True)
    ledger.note(("observed", 0.875), DOUBT, 1)
    assert any("4 of observed" in f for f in faults(total(8, 2, 1, 4, "d2"), ledger))


def test_a_summary_does_not_shrink_or_forget():
    ledger = compacted(True)
    assert faults(total(6, 2, 1, 2, "d2"), ledger) == []
    assert faults(total(6, 2, 1, 2, "d2"), ledger) == []
    assert faults(total(6, 2, 1, 1, "d2"), ledger) != []
    ledger = compacted(True)
    assert faults(total(6, 2, 1, 2, "d2"), ledger) == []
    assert any("gave way" in f for f in faults(total(6, 2, 1, 2, "d2") + [{**WHOLE[4], "seq": 7}], ledger))
