"""Debian's chromium without a window, driven by the DevTools protocol over a pipe: a page, what it shows, and what went wrong in it."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# Continuous integration has one: without it tests fail there, and are skipped elsewhere.
IS_CI, MISSING = bool(os.environ.get("CI")), "chromium is not installed: sh tools/setup.sh --browser"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars"]
# Before any script of a page: what its policy stopped.
WATCH = "window.violations = []; document.addEventListener('securitypolicyviolation', e => window.violations.push(e.violatedDirective + ' ' + e.blockedURI));"
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


class Browser:
    """One process; every page has storage of its own."""

    def __init__(self, folder):
        there, here = os.pipe(), os.pipe()  # commands, answers

        def place():
            ends = [os.dup(there[0]), os.dup(here[1])]
            for fd, end in zip((3, 4), [os.dup(e) for e in ends]):
                os.dup2(end, fd)
        high = [os.dup(fd) for fd in (there[0], here[1])]
        with open(pathlib.Path(folder) / "chromium.log", "ab") as log:
            self.process = subprocess.Popen([CHROMIUM, *FLAGS, f"--user-data-dir={folder}/profile", "--remote-debugging-pipe", "about:blank"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=place, pass_fds=(3, 4))
        for fd in (there[0], here[1], *high):
            os.close(fd)
        self.out, self.inn, self.buffer, self.last = there[1], here[0], b"", 0
        self.answers, self.pages = {}, {}

    def send(self, method, params=None, session=None, timeout=60):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params or {}, **({"sessionId": session} if session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        deadline, mine = time.monotonic() + timeout, self.last
        while mine not in self.answers:
            assert self.read(deadline - time.monotonic()), f"no answer to {method}"
        answer = self.answers.pop(mine)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def read(self, seconds):
        """Takes what has come, for so long at most. False: nothing did."""
        if not select.select([self.inn], [], [], max(0, seconds))[0]:
            return False
        piece = os.read(self.inn, 1 << 20)
        assert piece, "the browser is gone"
        self.buffer += piece
        *whole, self.buffer = self.buffer.split(b"\0")
        for text in whole:
            message = json.loads(text)
            if "id" in message:
                self.answers[message["id"]] = message
            elif message.get("sessionId") in self.pages:
                self.pages[message["sessionId"]].heard(message["method"], message["params"])
        return True

    def page(self, width=1200, height=900):
        return Page(self, width, height)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.inn)


class Page:
    def __init__(self, browser, width, height):
        self.browser, self.faults, self.failed = browser, [], []
        self.context = browser.send("Target.createBrowserContext")["browserContextId"]
        target = browser.send("Target.createTarget", {"url": "about:blank", "browserContextId": self.context})["targetId"]
        self.session = browser.send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        browser.pages[self.session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        self.size(width, height)

    def send(self, method, params=None, timeout=60):
        return self.browser.send(method, params, self.session, timeout)

    def heard(self, method, params):
        """Answers that are refusals are told apart from faults of the page."""
        if method == "Runtime.exceptionThrown":
            told = params["exceptionDetails"]
            self.faults.append(told.get("exception", {}).get("description") or told["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.faults.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            entry = params["entry"]
            (self.failed if entry["source"] == "network" else self.faults).append(f"{entry['text']} {entry.get('url', '')}")

    def size(self, width, height=900):
        self.send("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def media(self, **features):
        self.send("Emulation.setEmulatedMedia", {"features": [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]})

    def goto(self, url):
        self.send("Page.navigate", {"url": url})

    def run(self, script, timeout=60):
        """The value of an expression, or of its promise."""
        told = self.send("Runtime.evaluate", {"expression": script, "awaitPromise": True, "returnByValue": True, "userGesture": True}, timeout)
        assert "exceptionDetails" not in told, told["exceptionDetails"].get("exception", told["exceptionDetails"])
        return told["result"].get("value")

    def wait(self, script, seconds=20):
        """Until the expression is something; what it is."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            value = self.run(f"(() => {{ try {{ const v = {script}; return v instanceof Node ? true : v }} catch (e) {{ return null }} }})()")
            if value:
                return value
            self.browser.read(0.05)
        raise AssertionError(f"never: {script}\n{self.faults}\n{self.run('document.body.innerText')[:3000]}")

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText")

    def cells(self, table):
        """The cells of a table's body by the names of its columns, as they are seen; of columns without a name, nothing."""
        told = self.run(f"""(() => {{ const t = document.getElementById({json.dumps(table)}); if (!t) return null;
            return [[...t.tHead.rows[0].cells].map(c => c.firstChild?.nodeType === 3 ? c.firstChild.data : ''),
                    ...[...t.tBodies[0].rows].map(r => [...r.cells].map(c => c.textContent))]; }})()""")
        assert told is not None, f"no table {table}"
        return [dict(zip(told[0], row)) for row in told[1:]]

    def press(self, key, times=1):
        for _ in range(times):
            of = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
            self.send("Input.dispatchKeyEvent", {"type": "keyDown", **of, **({"text": "\r"} if key == "Enter" else {"text": " "} if key == " " else {})})
            self.send("Input.dispatchKeyEvent", {"type": "keyUp", **of})

    def type(self, text):
        self.send("Input.insertText", {"text": text})

    def picture(self, path, is_whole=True):
        data = self._whole() if is_whole else self.send("Page.captureScreenshot", {"format": "png"})["data"]
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def _whole(self):
        box = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": box["width"], "height": min(box["height"], 6000), "scale": 1}
        return self.send("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": clip})["data"]

    def violations(self):
        return self.run("window.violations")

    def close(self):
        self.browser.send("Target.disposeBrowserContext", {"browserContextId": self.context})
        del self.browser.pages[self.session]
