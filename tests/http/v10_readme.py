"""README's commands do what it says: they are cut out of it and run, and what curl is answered is held to the contract."""
import json
import os
import re
import subprocess
import urllib.parse

import pytest

from contract import CONTRACT, ROOT, Answer
from harness import CTL, Client

README = (ROOT / "README.md").read_text()
# Keeps what curl was answered beside passing it on.
CURL = """#!/bin/sh
n=$(ls "$SEEN" | wc -l)
/usr/bin/curl --silent --show-error --dump-header "$SEEN/$n.head" --write-out '%{stderr}%{method} %{url_effective}' "$@" \\
    2>"$SEEN/$n.told" | tee "$SEEN/$n.body"
"""


def commands(heading, first):
    """The lines of the block of commands below a heading that begins with `first`."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$|((?:^    [^\n]+\n)+)", section, re.M | re.S)
    lines = next(text for pair in blocks for text in pair if text.strip().startswith(first))
    return [line.strip() for line in lines.splitlines()]


class Reader:
    """Somebody who types what README says, with a server of their own at its address."""

    def __init__(self, server, folder):
        self.server, self.folder, self.seen = server, folder, folder / "seen"
        self.seen.mkdir()
        (folder / "bin").mkdir()
        (folder / "bin" / "curl").write_text(CURL)
        (folder / "bin" / "curl").chmod(0o755)
        (folder / "build").mkdir()
        (folder / "build" / "laplacectl").symlink_to(CTL)

    def type(self, lines, **variables):
        """Runs the lines; every command has to succeed. What they printed."""
        netloc = urllib.parse.urlsplit(self.server.url).netloc
        text = "\n".join(lines).replace("127.0.0.1:8080", netloc)
        text = re.sub(r"(?<= ):8080/", f"{netloc}/", text)
        env = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "SEEN": str(self.seen), "LAPLACED_URL": self.server.url,
               "H": self.server.url, **variables}
        done = subprocess.run(["sh", "-eu", "-c", text], cwd=self.folder, env=env, capture_output=True, timeout=120)
        assert done.returncode == 0, (text, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout.decode(errors="replace")

    def answers(self):
        """[(method, path, answer)] of all calls of curl, held to the contract."""
        found = []
        for told in sorted(self.seen.glob("*.told"), key=lambda p: int(p.stem)):
            method, url = told.read_text().split()[-2:]
            head = told.with_suffix(".head").read_bytes().decode().split("\r\n\r\n")[-2].split("\r\n")  # behind a 100 Continue
            headers = dict(line.split(": ", 1) for line in head[1:])
            answer = Answer(int(head[0].split()[1]), headers, told.with_suffix(".body").read_bytes())
            path = urllib.parse.urlsplit(url).path
            CONTRACT.check_response(method, path, answer)
            assert answer.status_code < 300, (method, path, answer)
            found.append((method, path, answer))
        return found


@pytest.fixture
def reader(boot, tmp_path):
    return Reader(boot(), tmp_path)


def test_ten_lines_of_curl(reader):
    lines = commands("Ten lines of curl", "H=")
    assert len(lines) == 10
    reader.type(lines)
    answers = reader.answers()
    assert len(answers) == sum(line.startswith("curl ") for line in lines) == 9
    assert b'"arm":"rum"' in answers[7][2].content  # bob is ann's friend
    kinds = [json.loads(line)["type"] for line in answers[8][2].content.splitlines()]
    assert [k for k in kinds if k != "dictionary"] == ["configured", "graph", "arms", "observed", "decided"]


def test_copies_restores_and_moves(reader):
    client = Client(reader.server)
    client.put_tenant("shop", algorithm="ucb")
    client.observe("ann", "rum", 1, tenant="shop")
    digest = client.digest("shop")
    out = commands("Copies, restores, moves", "curl -X POST")
    reader.type(out)
    for line in commands("Copies, restores, moves", "curl -X PUT"):
        client.call("DELETE", "/tenants/shop", expect=204)
        reader.type([line])
        assert client.digest("shop") == digest
    assert [a.status_code for _, _, a in reader.answers()] == [200, 200, 201, 201]


def test_keys(reader):
    """The key that the second line prints is the one that is used and revoked."""
    Client(reader.server).put_tenant("shop", algorithm="ucb")
    lines = commands("Keys", "export LAPLACED_KEY")
    made, revoked = (next(i for i, line in enumerate(lines) if word in line) for word in ("--label web", "key revoke"))
    lines[made] = 'KEY=$(' + lines[made].split("#")[0].strip() + ')\nID=$(echo "$KEY" | cut -c5-20)'
    lines[revoked] = lines[revoked].replace(" ID ", ' "$ID" ')
    printed = reader.type([*lines, 'echo; echo "$LAPLACED_KEY $KEY"'])
    admin, web = printed.splitlines()[-1].split()
    (_, path, answer), = reader.answers()
    assert path == "/select" and answer.status_code == 200
    assert "decide" in printed and "web" in printed  # the list
    Client(reader.server, web).call("POST", "/select", {"user": "ann"}, expect=401)
    roles = [k["roles"] for k in Client(reader.server, admin).call("GET", "/keys").json["keys"]]
    assert roles == [["admin"], ["metrics"]]
    Client(reader.server).call("GET", "/tenants", expect=401)
