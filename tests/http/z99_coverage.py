"""The last file: every operation and every documented status of openapi.yaml was seen."""
import os
import pathlib

import pytest

from contract import CONTRACT

# (operation, status) that a black-box test cannot bring about, each with its reason.
NOT_PROVOKED = {
    ("compact", "202"): "one of several servers that share a log has not read it: tests/server/task/test_compact_shared.c",
    ("deleteRankLogs", "202"): "the same: tests/cluster/test_compaction.py",
    ("putRankModelFile", "501"): "a file with `durability` relaxed, where several servers share a log: tests/cluster/test_exchange.py",
    ("eraseUser", "202"): "one of several servers that share a log has not read it: tests/cluster/test_erasure.py",
}


@pytest.fixture
def whole_suite(request):
    """Only a run of all files can cover all of the contract."""
    files, n_failed = CONTRACT.take_over(os.environ["LAPLACED_SEEN"]) if "LAPLACED_SEEN" in os.environ else (set(), 0)
    files |= {item.path.name for item in request.session.items}
    here = {p.name for p in pathlib.Path(__file__).parent.glob("[a-z][0-9][0-9]_*.py")}
    if not here <= files or n_failed or request.session.testsfailed:
        pytest.skip("covers the contract only after all files, run to their end")


def test_every_documented_status_was_seen(whole_suite):
    missing = CONTRACT.documented_statuses() - CONTRACT.seen - set(NOT_PROVOKED)
    assert sorted(missing) == []


def test_no_reason_has_become_untrue(whole_suite):
    assert sorted(set(NOT_PROVOKED) & CONTRACT.seen) == []
    assert set(NOT_PROVOKED) <= CONTRACT.documented_statuses()


def test_what_any_path_may_answer_was_seen(whole_suite):
    assert {("UnknownRoute", "404"), ("MethodNotAllowed", "405"), ("Methods", "204"), ("Unauthorized", "401"),
            ("Refused", "501")} <= CONTRACT.seen


def test_a_body_of_every_documented_type_was_taken(whole_suite):
    assert sorted(CONTRACT.documented_bodies() - CONTRACT.taken) == []


def test_every_documented_header_was_seen(whole_suite):
    assert sorted(CONTRACT.documented_headers() - CONTRACT.headers_seen) == []
