"""The documents hold together: README stays short, links lead somewhere, the map has every page, and goals of make that are named are there."""
import re
import subprocess

import pytest

from contract import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/decisions").glob("*.md")),
         *sorted((ROOT / "docs/report").glob("*.md"))]
README = (ROOT / "README.md").read_text()


def anchors(text):
    """Of headings, as web pages make them: lower case, spaces as hyphens, no other signs."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            there = page if path == "" else page.parent / path
            assert there.exists(), target
            assert anchor == "" or anchor in anchors(there.read_text()), target


def test_readme_is_short():
    assert len(README.splitlines()) <= 150 and len(README.split()) <= 1800


def test_the_map_has_every_page():
    targets = set(re.findall(r"\]\(([^)]+)\)", (ROOT / "docs/README.md").read_text()))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"} <= targets


@pytest.mark.parametrize("word", ["arm", "context", "propensity", "regret", "tenant", "challenger", "dictionary", "holdout"])
def test_the_glossary_has_one_sentence(word):
    meaning, = re.findall(rf"^\|[^|]*\*\*{word}\*\*[^|]* \| (.*) \|$", (ROOT / "docs/GLOSSARY.md").read_text(), re.M)
    assert len(meaning.split()) > 5 and ". " not in meaning


def test_readme_and_the_page_of_the_api_name_presets_that_are_there():
    contract = (ROOT / "openapi.yaml").read_text()
    presets = set(re.findall(r"[a-z-]+", re.search(r"^    Algorithm:.*?enum: \[(.*?)\]", contract, re.M | re.S).group(1)))
    some = README.split("\n## Which preset when\n")[1].split("\n## ")[0].split("|---|---|\n")[1].split("\n\n")[0]
    named = [re.findall(r"`([a-z-]+)`", row.split("|")[2])[0] for row in some.splitlines()]
    assert len(named) == 5 and set(named) <= presets
    table = (ROOT / "docs/API.md").read_text().split("\n## The presets\n")[1].split("\n## ")[0].split("|---|---|---|---|\n")[1].split("\n\n")[0]
    listed = [name for row in table.splitlines() for name in re.findall(r"`([a-z-]+)`", row.split("|")[1])]
    assert sorted(listed) == sorted(presets) and f"all {len(presets)} presets" in README


def test_goals_of_make_that_are_named_are_there():
    """In text and in blocks alike. `make tour ARGS=...` names tour."""
    known = {goal for line in re.findall(r"^([a-z -]+):(?!=)", (ROOT / "Makefile").read_text(), re.M) for goal in line.split()}
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    known |= set(re.findall(r"^([a-z][a-z-]*) ", listed, re.M))
    for page in PAGES[:2] + [ROOT / f"docs/{name}.md" for name in ("API", "ARCHITECTURE", "OPERATIONS", "PERFORMANCE", "SPEED", "REPRODUCTION")]:
        named = set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", page.read_text(), re.M))
        assert named <= known, (page.name, named - known)
