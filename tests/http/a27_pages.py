"""What a browser finds at the server's address: a page of a few lines that loads nothing, and no icon."""
import html.parser
import re
import subprocess

from contract import ROOT
from harness import BIN, Client


class Page(html.parser.HTMLParser):
    """The elements of a page, its links and its text; every element that is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.links, self.text = [], [], [], ""
        self.feed(text)
        assert self.open == [], self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)
        if tag == "a":
            self.links.append(dict(attrs)["href"])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_front_page_says_what_this_is_and_links_to_what_there_is(api):
    answer = api.call("GET", "/")
    page = Page(answer.text)
    version = subprocess.run([BIN, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8" and answer.text.startswith("<!doctype html>")
    assert version in page.text and "docs/" in page.text and len(answer.text.splitlines()) < 30
    assert {"/console/", "/openapi.yaml", "/openapi-3.0.yaml", "/metrics", "/healthz", "/readyz", "/problems"} == set(page.links)
    for link in page.links:
        api.call("GET", link)


def test_the_front_page_loads_nothing_and_may_load_nothing(api):
    answer = api.call("GET", "/")
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
    assert policy == {d: "'none'" for d in ("default-src", "base-uri", "form-action", "frame-ancestors")}
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    tags = Page(answer.text).tags
    assert not {t for t, _ in tags} & {"script", "style", "link", "img", "iframe", "object", "form", "base"}
    assert all(set(attrs) <= {"href", "lang", "charset"} and not attrs.get("href", "/").startswith("//") for _, attrs in tags)


def test_browsers_get_no_icon_and_no_fault(api):
    for verb in ("GET", "HEAD"):
        answer = api.call(verb, "/favicon.ico", expect=204)
        assert answer.content == b"" and "Content-Type" not in answer.headers
    assert api.call("HEAD", "/").headers["Content-Length"] == api.call("GET", "/").headers["Content-Length"]


def test_pages_are_there_while_the_server_recovers_or_asks_for_keys(boot, tmp_path):
    (tmp_path / "keys").write_text("a-key-of-some-length-1234\n")
    api = Client(boot("--admin-key-file", str(tmp_path / "keys")))
    api.call("GET", "/")
    api.call("GET", "/favicon.ico", expect=204)
    api.call("GET", "/metrics", expect=401)


def test_requests_of_pages_are_counted_by_route(api):
    api.call("GET", "/")
    api.call("GET", "/problems/no-tenant")
    text = api.call("GET", "/metrics").text
    for route in ("/", "/problems/{p}"):
        assert f'method="GET",route="{route}"' in text


def test_the_image_is_built_from_all_that_is_embedded():
    """What the Makefile embeds lies in what the Dockerfile's first stage copies, and .dockerignore lets it through."""
    embedded = re.search(r"^EMBED := (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    copied = [one for line in re.findall(r"^COPY ([^-].*)$", (ROOT / "Dockerfile").read_text(), re.M) for one in line.split()[:-1]]
    let_through = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.M)
    assert "docs/ERRORS.md" in embedded
    for file in embedded:
        for allowed in (copied, let_through):
            assert any(file == one or file.startswith(one + "/") for one in allowed), (file, allowed)
