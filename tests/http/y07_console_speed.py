"""How fast the console is: by ratios within one browser, and by the script that a frame takes."""
import http.server
import random
import re
import statistics
import threading

import pytest

from console_page import FOLDER, browser, needs_chromium, page, seed_page, seed_town, seeded, show  # noqa: F401
from harness import Client

pytestmark = needs_chromium
ROUNDS = 9
# When the numbers are there: from the beginning of the navigation to the frame behind the table's rows.
USABLE = """new MutationObserver((_, self) => { if (document.querySelector('#tenants tbody tr')) { self.disconnect(); requestAnimationFrame(() => { window.usable = performance.now(); }); } })
    .observe(document, { childList: true, subtree: true });"""
EMPTY = "addEventListener('load', () => requestAnimationFrame(() => { window.usable = performance.now(); }));"


def loaded():
    """What the overview loads: the page, its style and its modules."""
    page = (FOLDER / "index.html").read_text()
    return ["index.html", "console.css", *re.findall(r'href="([a-z]+\.js)"', page), "main.js"]


@pytest.fixture
def empty():
    """A page of nothing of the same size: the same files, in which comments stand in the place of what they hold. Also in one file, at /one."""
    size = {name: len((FOLDER / name).read_bytes()) for name in loaded()}
    head = "<!doctype html><title>empty</title>"
    links = '<link rel="stylesheet" href="console.css">' + "".join(f'<script type="module" src="{name}"></script>' for name in size if name.endswith(".js"))
    files = {"/": ("text/html", f"{head}{links}<!--{'x' * size['index.html']}-->"), "/one": ("text/html", f"{head}<!--{'x' * sum(size.values())}-->"),
             **{f"/{name}": ("text/css" if name.endswith(".css") else "text/javascript", f"/*{'x' * n}*/") for name, n in size.items()}}

    class Answer(http.server.BaseHTTPRequestHandler):
        protocol_version, disable_nagle_algorithm, wbufsize = "HTTP/1.1", True, -1

        def do_GET(self):
            kind, text = files.get(self.path, ("text/plain", ""))
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args):
            pass
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()


def series(pages, browser):
    """The median time until each of the pages is usable, in turns; the first of each warms the browser."""
    took = {name: [] for name in pages}
    for k in range(ROUNDS + 1):
        for name, (url, watch) in pages.items():
            one = browser.page()
            one.send("Page.addScriptToEvaluateOnNewDocument", {"source": watch})
            one.goto(url)
            time = one.wait("window.usable")
            if k:
                took[name].append(time)
            one.close()
    return {name: statistics.median(of) for name, of in took.items()}


def test_it_is_usable_within_twice_the_time_of_an_empty_page_of_its_size(seeded, browser, empty):
    """The best of five series: other work on the machine only ever adds to one of them."""
    told = []
    for _ in range(5):
        took = series({"empty": (f"{empty}/", EMPTY), "console": (f"{seeded.server.url}/console/", USABLE), "one": (f"{empty}/one", EMPTY)}, browser)
        told.append(took["console"] / took["empty"])
        print(f"usable after {took['console']:.0f} ms; an empty page of its size after {took['empty']:.0f} ms ({told[-1]:.2f}), in one file {took['one']:.0f} ms ({took['console'] / took['one']:.2f})")
        if told[-1] <= 2:
            return
    raise AssertionError(told)


def test_300_users_are_chosen_coloured_and_pointed_at_within_33_ms_of_script(server, page):
    client, rng = Client(server), random.Random(5)
    client.put_tenant("crowd", algorithm="laplaced")
    client.put_graph("crowd", [("hub", f"n{i}", 1) for i in range(299)] + [(f"n{i}", f"n{rng.randrange(i)}", 1) for i in range(1, 299)])
    client.put_arms("crowd", [{"id": a} for a in ("tea", "rum", "milk", "beer")])
    for k in range(60):
        client.observe(f"n{k}", ("tea", "rum", "milk")[k % 3], k % 2, tenant="crowd")
    show(page, server, "t", "crowd", "neighbours", "hub")
    page.wait("document.querySelector('canvas.graph').dataset.rest && document.getElementById('ramp')", 60)
    page.send("Performance.enable")

    def script():
        return 1000 * next(m["value"] for m in page.send("Performance.getMetrics")["metrics"] if m["name"] == "ScriptDuration")

    def spent(act, times):
        """Milliseconds of script that each takes, from beginning to end, whatever the number of its frames."""
        took = []
        for k in range(times):
            before = script()
            page.run(f"(async () => {{ {act.replace('%', str(k))}; await new Promise(done => requestAnimationFrame(() => setTimeout(done, 60))); }})()")
            took.append(script() - before)
        return took
    acts = {
        "choose": "document.querySelector('canvas.graph').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }))",
        "arm": "{ const s = document.getElementById('arms'); s.value = (%+1) & 3; s.dispatchEvent(new Event('input')); }",
        "point": "{ const c = document.querySelector('canvas.graph'), b = c.getBoundingClientRect(); c.dispatchEvent(new PointerEvent('pointermove', { clientX: b.left + 20 + 17 * %, clientY: b.top + b.height / 2 })); }",
    }
    for name, act in acts.items():
        took = sorted(spent(act, 15))
        print(f"{name}: {statistics.median(took):.1f} ms of script at the median, {took[-2]:.1f} ms at the worst but one")
        assert statistics.median(took) < 33 and took[-2] < 2 * 33, (name, took)
