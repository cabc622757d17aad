"""`laplacectl demo --svg FILE`: the curves of the race, against the figures that the same run prints as JSON; and the picture that
README shows, which `make run` has made."""
import json
import re
import xml.etree.ElementTree as xml

import pytest

from contract import ROOT
from harness import run_ctl

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ["laplaced", "gp-ucb", "lin-ucb", "random"]


class Picture:
    """What a reader sees: curves by name in pixels, and the scale of values by the ticks left of the axis."""

    def __init__(self, path):
        self.bytes = path.read_bytes()
        root = xml.fromstring(self.bytes)
        self.size = float(root.get("width")), float(root.get("height"))
        self.style = root.find(SVG + "style").text
        self.texts = [(t.text, float(t.get("x")), float(t.get("y"))) for t in root.iter(SVG + "text")]
        self.curves = {}
        for line in root.iter(SVG + "polyline"):
            points = [tuple(map(float, p.split(","))) for p in line.get("points").split()]
            self.curves[line.find(SVG + "title").text] = points
        ends = [(float(t.text), float(t.get("y")) - 4) for t in root.iter(SVG + "text") if t.get("class") == "end"]
        (v0, y0), (v1, y1) = ends[0], ends[-1]
        self.value = lambda y: v0 + (y - y0) * (v1 - v0) / (y1 - y0)
        self.pixel = abs((v1 - v0) / (y1 - y0))

    def last(self, name):
        return self.value(self.curves[name][-1][1])

    def label(self, name):
        return next((x, y, text) for text, x, y in self.texts if text.startswith(name + " ") or text == name)


def check_form(picture):
    assert len(picture.bytes) < 60_000 and b"<script" not in picture.bytes and picture.bytes.count(b"http") == 1  # the namespace
    assert "prefers-color-scheme:dark" in picture.style
    width, height = picture.size
    for x, y in [p for points in picture.curves.values() for p in points] + [(x, y) for _, x, y in picture.texts]:
        assert 0 <= x <= width and 0 <= y <= height
    rows = sorted(y for name in picture.curves for _, y, _ in [picture.label(name)])
    assert all(b - a >= 12 for a, b in zip(rows, rows[1:])), "labels lie upon each other"


@pytest.mark.parametrize("rounds", [1, 40, 700])
def test_curves_end_at_the_regret_of_each_policy(server, tmp_path, rounds):
    path = tmp_path / "demo.svg"
    out = run_ctl(server, "demo", "--json", "--users", "20", "--rounds", str(rounds), "--seed", "3", "--svg", str(path))
    report, picture = json.loads(out), Picture(path)
    check_form(picture)
    assert list(picture.curves)[::-1] == NAMES and all(len(points) == min(rounds, 200) for points in picture.curves.values())
    for policy in report["policies"]:
        name = next(v for v in policy.values() if v in NAMES)
        (regret,) = policy["regret"]  # of the one seed
        assert abs(picture.last(name) - regret) <= 0.1 * picture.pixel, (name, policy)
        assert picture.label(name)[2] == f"{name} {regret:.0f}"
        heights = [y for _, y in picture.curves[name]]
        assert all(b <= a for a, b in zip(heights, heights[1:]))  # a total of what is never below 0
    assert not list(tmp_path.glob("*.part"))


def test_a_picture_that_cannot_be_written_is_told_before_the_race(server, tmp_path):
    told = run_ctl(server, "demo", "--svg", str(tmp_path / "no" / "demo.svg"), expect=1)
    assert "--svg: " in told and "No such file or directory" in told and "A town of" not in told


def test_the_picture_of_the_documents_is_of_this_form():
    picture = Picture(ROOT / "docs" / "figures" / "demo.svg")
    check_form(picture)
    assert list(picture.curves)[::-1] == NAMES and "over 3000 decisions for 120 users" in picture.bytes.decode()
    assert picture.last("laplaced") < min(picture.last(name) for name in NAMES[1:]) < picture.last("random")
    assert all(int(re.search(r"\d+$", picture.label(name)[2]).group()) == pytest.approx(picture.last(name), abs=picture.pixel) for name in NAMES)
