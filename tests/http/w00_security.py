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
