"""What laplacectl says of values that an option does not take, and that its helps fit a terminal and need no jargon of ours."""
import re
import subprocess

import pytest

from harness import CTL


def said(*args, expect):
    done = subprocess.run([CTL, *args], capture_output=True, text=True, timeout=30)
    assert done.returncode == expect, (args, done.stdout, done.stderr)
    return done.stdout + done.stderr


COMMANDS = re.findall(r"^  ([a-z]+) ", said("--help", expect=0).split("options of every command")[0], re.M)


@pytest.mark.parametrize("args, expected", [
    (["replay", "f", "--limit", "many"], "--limit: expected a whole number, 0 or more, not many"),
    (["select", "u", "--top", "-1"], "--top: expected a whole number, 0 or more, not -1"),
    (["replay", "f", "--rate", "fast"], "--rate: expected a number, 0 or more, not fast"),
    (["--timeout", "soon", "stats"], "--timeout: expected a number, 0 or more, not soon"),
    (["cluster", "status", "--log", "x=y", "--log-sync", "maybe"], "--log-sync: expected required or trusted, not maybe"),
    (["cluster", "status"], "cluster wants --log URL"),
    (["evaluate", "f", "--clip=inf"], "--clip: expected a number, 0 or more, not inf"),
    (["select", "u", *["--exclude", "a"] * 64, "--exclude", "b"], "--exclude: expected at most 64 of them, not b")])
def test_a_value_is_refused_by_the_name_of_its_option(args, expected):
    assert "laplacectl: " + expected in said(*args, expect=2)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_help_is_read_by_people(command):
    assert len(COMMANDS) > 15
    text = said(command, "--help", expect=0)
    usage = next(line for line in text.splitlines() if line.startswith("usage: "))
    assert [line for line in text.splitlines() if len(line) > 130 and line != usage] == []
    assert not re.search(r"\bopen loop\b|\bno fold\b|\bwho is shown what\b|which it takes the place of", text)


def test_help_says_which_tenant_is_meant_when_none_is_named():
    for args in (["--help"], ["stats", "--help"]):
        text = said(*args, expect=0)
        assert "the server's own --default-tenant" in text and "Commands that show or change one tenant take `default`" in text
