"""The judge of keys: it finds each kind of broken promise in forged lists, and nothing in honest ones."""
import pytest

from key_ledger import KeyLedger, judge
from ledger import ACKED, DOUBT

PATH = "/keys"


def row(label, key_id=None):
    return PATH, {"label": label, "id": key_id or f"id-{label}"}


def told():
    """kept: made; gone: made and revoked; leaving: its revocation in doubt; lost: its answer was; no: refused."""
    ledger = KeyLedger()
    for label in ("kept", "gone", "leaving", "lost", "no"):
        ledger.asked(label, PATH, 0)
    for label in ("kept", "gone", "leaving"):
        ledger.answered(label, {"id": f"id-{label}", "key": f"text-{label}"})
    ledger.answered("no", None)
    ledger.revoking("gone", DOUBT)
    ledger.revoking("gone", ACKED)
    ledger.revoking("leaving", DOUBT)
    return ledger


def faults(labels, opening=None, ledger=None):
    texts = {f"text-{label}" for label in (labels if opening is None else opening)}
    return judge(ledger or told(), [row(label) for label in labels], texts.__contains__)


@pytest.mark.parametrize("labels", [["kept"], ["kept", "leaving"], ["kept", "lost"], ["kept", "leaving", "lost"]])
def test_honest_lists_have_no_faults(labels):
    assert faults(labels) == []


@pytest.mark.parametrize("labels, word", [([], "kept: was made and is lost"), (["kept", "gone"], "gone: was revoked and is there"),
                                          (["kept", "kept"], "stands 2 times"), (["kept", "lost", "lost"], "stands 2 times"),
                                          (["kept", "no"], "no: was refused"), (["kept", "else"], "nobody asked for the key else")])
def test_broken_promises_are_found(labels, word):
    assert any(word in fault for fault in faults(labels))


def test_a_key_that_does_not_do_as_it_is_listed_is_found():
    assert any("kept: is listed and does not open" in f for f in faults(["kept"], opening=[]))
    assert any("gone: is not listed and opens" in f for f in faults(["kept"], opening=["kept", "gone"]))
    assert any("leaving: is not listed and opens" in f for f in faults(["kept"], opening=["kept", "leaving"]))


def test_a_key_under_another_id_is_found():
    assert judge(told(), [row("kept", "another")], lambda text: text == "text-kept") != []


def test_what_a_recovered_server_has_decided_stays_decided():
    ledger = told()
    assert faults(["kept", "leaving"], ledger=ledger) == []
    assert ledger.own(0) == ["kept", "leaving"]
    assert any("leaving: was made and is lost" in f for f in faults(["kept"], ledger=ledger))
    ledger = told()
    assert faults(["kept"], ledger=ledger) == []
    assert any("leaving: was revoked" in f for f in faults(["kept", "leaving"], ledger=ledger))
    assert any("lost: was refused, or absent before" in f for f in faults(["kept", "lost"], ledger=ledger))
