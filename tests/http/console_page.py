"""What the tests of the console share: numbers as the page writes them, tenants that have learned something, a browser and its pages."""
import decimal
import json
import pathlib
import random
import shutil
import subprocess
import urllib.parse

import pytest

from browser import CHROMIUM, IS_CI, MISSING, Browser
from contract import ROOT
from harness import Client, tenant_path

FOLDER = ROOT / "server/console"
FILES = sorted(p.name for p in FOLDER.iterdir())
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
PICTURES = ROOT / "build/console"
KEY = "a-key-for-the-console-0123456789"

needs_chromium = pytest.mark.skipif(CHROMIUM is None and not IS_CI, reason="chromium is not installed: no browser shows the console")
HOSTILE = ["<script>alert(1)</script>", "\u202e\u2067rtl \u2066mixed", "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 10 + "\U0001f600" * 19, "=1+1", "a/b?c#d%e", "</bdi><img src=x onerror=alert(1)>"]


def num(x):
    """As format.js: four digits that count."""
    if x is None:
        return "–"
    value = decimal.Decimal(x)
    if value == 0:
        return "0"
    value = round_to(value, 4)
    if abs(value) < decimal.Decimal("1e-6") or abs(value) >= decimal.Decimal("1e21"):
        digits, exponent = f"{value.normalize():e}".split("e")
        return f"{digits}e{int(exponent):+d}"
    return f"{value.normalize():f}"


def round_to(value, digits):
    place = decimal.Decimal(1).scaleb(value.adjusted() - digits + 1)
    return value.quantize(place, rounding=decimal.ROUND_HALF_UP if value > 0 else decimal.ROUND_HALF_DOWN)


def percent(x):
    if x is None:
        return "–"
    return "< 0.01 %" if x != 0 and abs(x) < 1e-4 else f"{round_to(decimal.Decimal(100 * x), 3).normalize():f} %" if x else "0 %"


def count(n):
    return "–" if n is None else f"{n:,}"


def size(n):
    """Bytes, as format.js writes them: three digits that count."""
    unit = next(u for u in range(4) if n < 1000 ** (u + 1) or u == 3)
    return f"{round_to(decimal.Decimal(n) / 1000 ** unit, 3).normalize():f} {('B', 'kB', 'MB', 'GB')[unit]}"


def span(low, high, shown=num):
    return "–" if low is None or high is None else f"[{shown(low)}, {shown(high)}]"


def seed_town(client, tenant, rounds=160, arms=("tea", "rum", "milk"), n=24):
    """Two circles of friends; each likes another arm."""
    rng = random.Random(7)
    client.put_tenant(tenant, algorithm="laplaced")
    client.put_graph(tenant, [(f"p{i}", f"p{j}", 1) for i in range(n) for j in range(i) if i % 2 == j % 2 and rng.random() < 0.3] + [("p0", "p1", 1)])
    client.put_arms(tenant, [{"id": a} for a in arms])
    for k in range(rounds):
        who = rng.randrange(n)
        answer = client.select(f"p{who}", decision=f"{tenant}-{k}", tenant=tenant)
        likes = 0.8 if arms.index(answer["arm"]) == who % 2 else 0.15
        if k % 8 != 7:
            client.reward(f"{tenant}-{k}", int(rng.random() < likes), tenant=tenant)


def seed_page(client, tenant):
    """A holdout, an experiment, challengers, and a configuration that changes."""
    rng, earns = random.Random(3), {"red": 0.1, "green": 0.6, "blue": 0.2}
    client.put_tenant(tenant, algorithm="ts", rule={"epsilon": 0.3}, experiment={"difference": 0.05, "baseline": "red"}, log_candidates=True,
                      routing={"holdout": {"share": 0.15, "baseline": {"arm": "red"}}}, challengers={"greedy": {"rule": {"epsilon": 0.05}}, "even": {"algorithm": "random"}}, guardrail={"baseline": "even"})
    client.put_arms(tenant, [{"id": a} for a in earns])
    for k in range(300):
        answer = client.select(f"u{k}", decision=f"{tenant}-{k}", tenant=tenant)
        client.reward(f"{tenant}-{k}", int(rng.random() < earns[answer["arm"]]), tenant=tenant)
        if k == 100:
            client.call("PATCH", tenant_path(tenant), {"rule": {"epsilon": 0.25}})


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    assert CHROMIUM, MISSING
    running = Browser(tmp_path_factory.mktemp("chromium"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def seeded(server):
    client = Client(server)
    seed_town(client, "town")
    seed_page(client, "page")
    return client


@pytest.fixture
def page(browser):
    """A page whose faults fail the test: what its console told, what its policy stopped, what scripts threw."""
    one = browser.page()
    yield one
    browser.read(0.05)
    assert one.faults == [] and one.violations() == []
    one.close()


def show(page, server, *parts):
    """Opens a screen of the console, and waits until it is there."""
    page.goto("about:blank")
    page.goto(f"{server.url}/console/#/" + "/".join(urllib.parse.quote(p, safe="") for p in parts))
    page.wait("document.querySelector('main h1') && !document.querySelector('main .loading')")


SCREENS = {"overview": (), "rewards": ("t", "page", "traffic"), "decision": ("t", "town", "decision", "now", "p3"), "neighbours": ("t", "town", "neighbours", "p3"),
           "challengers": ("t", "page", "challengers"), "model": ("t", "town", "model"), "evaluation": ("t", "page", "evaluation"), "audit": ("t", "page", "audit")}


def wilson(mean, n):
    """The interval of a share, from its own equation: |mean - p| = z sqrt(p (1 - p) / n)."""
    z = 1.959963984540054
    a, b, c = 1 + z * z / n, -(2 * mean + z * z / n), mean * mean
    root = (b * b - 4 * a * c) ** 0.5
    return 0 if mean == 0 else (-b - root) / (2 * a), 1 if mean == 1 else (-b + root) / (2 * a)


def assert_shows(page, table, row_of, columns):
    """Each row of the API's stands in the table once, with each number as format.js writes it."""
    rows = {row[next(iter(columns))]: row for row in page.cells(table)}
    for key, one in row_of.items():
        assert key in rows, (key, list(rows))
        assert {c: rows[key][c] for c in columns} == {c: f(one) for c, f in columns.items()}, key
    return rows


@pytest.fixture
def locked(boot, tmp_path):
    (tmp_path / "keys").write_text(KEY + "\n")
    server = boot("--admin-key-file", str(tmp_path / "keys"))
    seed_town(Client(server, KEY), "town", rounds=40)
    return server


def enter(page, key):
    page.wait("document.activeElement?.name === 'key'")
    page.type(key)
    page.press("Enter")


# --- for screen readers ------------------------------------------------------------------------------------------

AXE = ROOT / "build/axe"


@pytest.fixture(scope="module")
def axe():
    """The script of axe-core, from npm as the lock has it, with its hash; taken once."""
    script, source = AXE / "node_modules/axe-core/axe.min.js", ROOT / "tests/http/axe"
    AXE.mkdir(parents=True, exist_ok=True)
    lock = (source / "package-lock.json").read_text()
    if not script.exists() or (AXE / "package-lock.json").read_text() != lock:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, AXE)
        if shutil.which("npm") is None:
            pytest.skip("npm is not installed: axe-core does not judge the labels")
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=AXE, capture_output=True, timeout=120)
        if done.returncode != 0:
            pytest.skip("npm's registry is out of reach: axe-core does not judge the labels")
    return script.read_text()
