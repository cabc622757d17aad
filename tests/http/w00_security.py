"""docs/SECURITY.md names tests as evidence: each of them is there."""
import re

from contract import ROOT

TEXT = (ROOT / "docs/SECURITY.md").read_text()
FILES = {p.name: p.read_text() for kind in ("*.py", "*.c") for p in (ROOT / "tests").rglob(kind)}
EVIDENCE = re.findall(r"`([a-z0-9_]+\.(?:py|c))(?:: ?\n?([a-z0-9_]+))?`|`(test_[a-z0-9_]+)`", TEXT)


def is_test(text, name):
    return re.search(rf"def {name}\(|START_TEST\({name}\)", text) is not None


def test_every_test_that_is_named_is_there():
    missing = [(file, name or lone) for file, name, lone in EVIDENCE
               if (lone and not any(is_test(text, lone) for text in FILES.values()))
               or (file and (file not in FILES or (name and not is_test(FILES[file], name))))]
    assert missing == [] and len(EVIDENCE) > 30


def test_every_attack_has_evidence_that_is_there():
    """A row of a table of attacks ends with a test, a file of tests, or a campaign of the Makefile or of the fuzzer; of one there is nothing to test."""
    rows = [line.strip("| ").split(" | ") for line in TEXT.splitlines() if line.startswith("| ") and line.count(" | ") == 2]
    attacks = [row for row in rows if not row[0].startswith("attack")]
    assert len(attacks) > 30
    for attack, defence, shown in attacks:
        named = re.findall(r"`([a-z0-9_]+\.(?:py|c))", shown) + re.findall(r"`(test_[a-z0-9_]+)`", shown)
        folders = [(ROOT / folder).is_dir() for folder in re.findall(r"`(tests/[a-z]+/)`", shown)]
        assert defence and (named or folders and all(folders) or re.search("the fuzzer of|the same( matrix)?", shown) or shown == "there is no code that could"), attack


def test_the_policy_says_where_a_hole_goes():
    policy = (ROOT / "SECURITY.md").read_text()
    assert "docs/SECURITY.md" in policy and "private" in policy and "../SECURITY.md" in TEXT
