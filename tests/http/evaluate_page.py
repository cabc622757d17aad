"""The page of `laplacectl evaluate`: its JSON, its script, and what the script makes of the JSON."""
import base64
import hashlib
import html.parser
import json
import pathlib
import re
import shutil
import subprocess

import pytest

from browser import CHROMIUM, IS_CI, MISSING

VOID = {"meta", "br", "hr", "img", "link", "input"}
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'"


class Balanced(html.parser.HTMLParser):
    """Fails on an element that is not closed where it should be; keeps elements, attributes and what scripts hold."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.seen, self.scripts, self.policy = [], set(), [], None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.update([tag, *(name for name, _ in attrs)])
        if tag == "meta" and dict(attrs).get("http-equiv") == "Content-Security-Policy":
            assert "script" not in self.seen
            self.policy = dict(attrs)["content"]
        if tag == "script":
            self.scripts.append([dict(attrs), ""])
        if tag not in VOID:
            self.open.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1][1] += data

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def embedded(path):
    """The JSON in a page, which is whole, loads nothing and runs one script, that of the program."""
    text = pathlib.Path(path).read_text()
    read = Balanced(text)
    (attributes, document), (bare, script) = read.scripts
    assert attributes == {"type": "application/json", "id": "report"} and bare == {}
    assert read.policy == POLICY.format(base64.b64encode(hashlib.sha256(script.encode()).digest()).decode())
    assert not read.seen & {"link", "img", "iframe", "object", "src", "href", "onload", "onclick"}
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/)", text.replace(document, ""))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\b(eval|Function|fetch|XMLHttpRequest|import)\b", script)
    assert "<" not in document
    return json.loads(document)


def drawn(path):
    """What the page's script makes of its JSON, as a text of XML: under node, on a document that knows elements and text."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed: the page is not drawn")
    run = subprocess.run(["node", pathlib.Path(__file__).with_name("draw_page.js"), path], capture_output=True, timeout=60)
    assert run.returncode == 0, run.stderr.decode()
    text = run.stdout.decode()
    assert not Balanced(text).seen & {"script", "link", "img", "iframe", "object", "src", "href", "onload", "onclick"}
    return text


class Seen(html.parser.HTMLParser):
    """Elements of the page's main part in their order: name, attributes, and the text before the next one."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.feed(text[text.index("<main"):text.index("</main>")])

    def handle_starttag(self, tag, attrs):
        self.elements.append([tag, {k: v for k, v in attrs if k != "xmlns"}, ""])

    def handle_data(self, data):
        self.elements[-1][2] += data


def browsed(path, folder):
    """The title of the page in a browser, and its elements."""
    if CHROMIUM is None and not IS_CI:
        pytest.skip("chromium is not installed: no browser draws the page")
    assert CHROMIUM, MISSING
    run = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", "--dump-dom",
                          pathlib.Path(path).as_uri()], capture_output=True, timeout=120)
    assert run.returncode == 0, run.stderr.decode()
    text = run.stdout.decode()
    return html.unescape(re.search("<title>(.*?)</title>", text, re.S)[1]), Seen(text).elements
