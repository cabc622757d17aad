"""The commands of README, docs/OPERATIONS.md and docs/API.md do what is said there: they are cut out and run as they stand, what curl is
answered is held to the contract, and each recipe ends in figures that are compared with figures of our own."""
import datetime
import json
import math
import os
import pathlib
import re
import subprocess
import time
import urllib.parse

import pytest

from certs import Authority
from contract import CONTRACT, ROOT, Answer
from harness import BIN, CTL, Client
from j00_routing import place

# Keeps what curl was answered beside passing it on.
CURL = """#!/bin/sh
n=$(ls "$SEEN" | wc -l)
/usr/bin/curl --silent --show-error --dump-header "$SEEN/$n.head" --write-out '%{stderr}%{method} %{url_effective}' "$@" \\
    2>"$SEEN/$n.told" | tee "$SEEN/$n.body"
"""
README, OPERATIONS, API = "README.md", "docs/OPERATIONS.md", "docs/API.md"
TEN_LINES, A_B = (README, "Ten lines of curl", 0), (README, "Recipe: A/B routing of three variants with a holdout", 0)
FRIENDS = (README, "Recipe: recommending 20 items along a friendship graph", 0)
YESTERDAY = (README, "Recipe: replaying yesterday's log, and asking what another policy would have earned", 0)
KEYS, TLS, RATES = (OPERATIONS, "Keys", 0), (OPERATIONS, "TLS", 0), (OPERATIONS, "Rates", 0)
COPIES, RESTORES = (OPERATIONS, "Copies, restores, moves", 0), (OPERATIONS, "Copies, restores, moves", 1)
EVALUATION = (API, "From the command line", 0)
PLAYED = {TEN_LINES, A_B, FRIENDS, YESTERDAY, KEYS, TLS, RATES, COPIES, RESTORES, EVALUATION}
BY_CI = (README, "Two commands", 0)  # .ci/run, on a machine that has nothing yet


def blocks(document):
    """{(document, heading, which of the heading's): lines} of all blocks of commands."""
    found = {}
    for section in re.split(r"^## ", (ROOT / document).read_text(), flags=re.M)[1:]:
        texts = re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S)
        found.update({(document, section.split("\n")[0], i): text.splitlines() for i, text in enumerate(texts)})
    return found


def commands(block):
    assert block in PLAYED
    return blocks(block[0])[block]


def objects(text):
    """The JSON values that stand in a text one behind the other, with lines that are none between them."""
    found, at = [], text.find("{")
    while at >= 0:
        value, end = json.JSONDecoder().raw_decode(text, at)
        found.append(value)
        at = text.find("{", end)
    return found


class Reader:
    """Somebody who types what the documents say, with a server of their own at its address."""

    def __init__(self, server, folder):
        self.server, self.folder, self.seen = server, folder, folder / "seen"
        self.seen.mkdir()
        (folder / "bin").mkdir()
        (folder / "bin" / "curl").write_text(CURL)
        (folder / "bin" / "curl").chmod(0o755)
        (folder / "build").mkdir()
        (folder / "build" / "laplacectl").symlink_to(pathlib.Path(CTL).resolve())
        (folder / "build" / "laplaced").symlink_to(pathlib.Path(BIN).resolve())

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


def wait_for_windows(client, tenant):
    until = time.time() + 20
    while client.stats(tenant)["pending"] > 0:
        assert time.time() < until
        time.sleep(0.05)


def test_every_block_of_commands_is_played_and_there_are_no_others():
    found = {block for document in (README, OPERATIONS, API) for block in blocks(document)}
    assert found == PLAYED | {BY_CI}
    assert blocks(README)[BY_CI][-1] in (ROOT / ".ci/run").read_text()
    for document in (README, OPERATIONS, API):
        assert re.findall(r"^    .*|^```(?!sh$|ts$|$).*", re.sub(r"^```(?:sh|ts)$.*?^```$", "", (ROOT / document).read_text(), flags=re.M | re.S), re.M) == []


@pytest.mark.parametrize("recipe", [A_B, FRIENDS, YESTERDAY], ids=lambda block: block[1])
def test_recipes_are_short(recipe):
    assert len(commands(recipe)) <= 15


def test_ten_lines_of_curl(reader):
    lines = commands(TEN_LINES)
    assert len(lines) == 10
    reader.type(lines)
    answers = [answer for _, _, answer in reader.answers()]
    assert len(answers) == sum(line.startswith("curl ") for line in lines) == 9
    bob = json.loads(answers[6].content)
    means = {r["arm"]: r["mean"] for r in bob["ranking"]}
    assert bob["arm"] == "rum" and means["rum"] > means["tea"]  # bob is ann's friend
    kinds = [json.loads(line)["type"] for line in answers[8].content.splitlines()]
    assert [k for k in kinds if k != "dictionary"] == ["configured", "graph", "arms", "observed", "decided"]


def test_a_b_routing_with_a_holdout_and_yesterdays_log(reader):
    reader.type(commands(A_B))
    answers = [(path, json.loads(answer.content)) for _, path, answer in reader.answers()]
    shown = {a["decision"]: a for path, a in answers if path == "/select"}
    held = {f"v{v}" for v in range(1, 151) if place("", f"u{v}") < 0.1}
    assert len(shown) == 150 and 5 < len(held) < 30
    assert all((a["arm"], a.get("route"), a["propensity"]) == ("red", "holdout", 1) for d, a in shown.items() if d in held)
    assert all("route" not in a and a["propensity"] > 0.2 / 3 - 1e-12 for d, a in shown.items() if d not in held)
    sold = {d for d, a in shown.items() if int(d[1:]) % (2 if a["arm"] == "green" else 10) == 0}
    stats = answers[-1][1]
    assert (stats["decisions"], stats["rewards"], stats["pending"]) == (150, 150, 0)
    for route, users in (("holdout", held), ("policy", set(shown) - held)):
        assert stats["routes"][route]["decisions"] == stats["routes"][route]["rewards"] == len(users)
        assert stats["routes"][route]["mean_reward"] == pytest.approx(len(sold & users) / len(users))
    by_policy = [shown[d]["arm"] for d in shown if d not in held]
    assert by_policy.count("green") > len(by_policy) / 3  # better than chance

    printed = reader.type(commands(YESTERDAY))
    check_estimates(printed, [(shown[d]["arm"], shown[d]["propensity"], d in sold) for d in shown if d not in held])
    client = Client(reader.server)
    assert (client.stats("rehearsal")["rewards"], client.stats("rehearsal")["mean_reward"]) == (150, pytest.approx(len(sold) / 150))
    report = objects(printed)[-1]
    assert (report["learned"], report["reward_sum"]) == (150, len(sold))
    # With a default reward a decision counts when its window is over, which the log tells by an event after it, or by its expiry.
    log = [json.loads(line) for line in (reader.folder / "yesterday.ndjson").read_text().splitlines()]
    at = {e["decision"]: datetime.datetime.fromisoformat(e["at"].replace("Z", "+00:00")) for e in log if e["type"] == "decided"}
    end = datetime.datetime.fromisoformat(log[-1]["at"].replace("Z", "+00:00")) - datetime.timedelta(seconds=2)
    over = {d for d in at if at[d] <= end} | {e["decision"] for e in log if e["type"] == "expired"}
    assert (len(at), report["policy"]["decisions"]) == (150, len(over - held))
    # Rewards are 0 and 1, and the interval is that of a normal distribution: it may begin below 0.
    assert report["policy"]["snips"]["lower"] <= report["policy"]["snips"]["estimate"] <= report["policy"]["snips"]["upper"]


def check_estimates(printed, events):
    """What `evaluate` prints beside sums of our own: events are (arm, propensity, sold) of the policy's own draws."""
    def table(policy):
        part = printed.split(f"{policy}\n{len(events)} events, 3 arms")[1].split("events accepted")[0]
        rows = re.findall(r"^  (\w+) +(\S+) +\[(\S+), (\S+)\]$", part, re.M)
        return {name: tuple(map(float, numbers)) for name, *numbers in rows}
    earned = sum(is_sold for _, _, is_sold in events) / len(events)
    weights = [(1 / 3 / p, is_sold) for _, p, is_sold in events]
    for policy in ("logged", "uniform", "other.json"):
        estimates = table(policy)
        assert {"ips", "snips", "clipped_ips", "dr"} <= set(estimates)  # few are accepted by the replay of a policy that learns
        assert all(map(math.isfinite, [number for row in estimates.values() for number in row]))
    assert all(row[0] == pytest.approx(earned, rel=1e-5) for row in table("logged").values())
    assert table("uniform")["ips"][0] == pytest.approx(sum(w * r for w, r in weights) / len(weights), rel=1e-5)
    assert table("uniform")["snips"][0] == pytest.approx(sum(w * r for w, r in weights) / sum(w for w, _ in weights), rel=1e-5)
    assert printed.count(" less logged, paired:") == 2


def test_recommendations_along_a_graph(reader):
    printed = objects(reader.type(commands(FRIENDS)))
    bob, eve = (next(p for p in printed if p.get("decision") == d) for d in ("bob1", "eve1"))
    assert {r["arm"] for r in bob["ranking"]} == {"film03", "film07", "film11"}  # ann's
    assert {r["arm"] for r in eve["ranking"]} == {"film05", "film12", "film19"}  # dan's
    client = Client(reader.server)
    wait_for_windows(client, "films")
    arms = {a["arm"]: (a["rewards"], a["mean_reward"]) for a in client.stats("films")["arms"]}
    assert arms[bob["arm"]] == (2, 1) and arms[eve["arm"]] == (2, 0.5)  # liked and taken; liked, and passed over


def test_copies_restores_and_moves(reader):
    client = Client(reader.server)
    client.put_tenant("shop", algorithm="ucb")
    client.observe("ann", "rum", 1, tenant="shop")
    digest = client.digest("shop")
    reader.type(commands(COPIES))
    for line in commands(RESTORES):
        client.call("DELETE", "/tenants/shop", expect=204)
        reader.type([line])
        assert client.digest("shop") == digest
    assert [a.status_code for _, _, a in reader.answers()] == [200, 200, 201, 201]


def test_keys(reader):
    """The key that the second line prints is the one that is used and revoked."""
    Client(reader.server).put_tenant("shop", algorithm="ucb")
    lines = commands(KEYS)
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
    assert roles == [["admin"], ["metrics"], ["decide"]]
    Client(reader.server).call("GET", "/tenants", expect=401)


def test_tls(reader):
    """The first line starts a server (on a free port of loopback here), the second asks it."""
    authority = Authority(reader.folder)
    chain, key = authority.pair("own")
    for name, text in (("chain.pem", chain), ("key.pem", key), ("authority.pem", authority.root.read_text()), ("keys", "a-good-key-0123456789\n")):
        (reader.folder / name).write_text(text)
    serve, ask = commands(TLS)
    with subprocess.Popen(["sh", "-c", "exec " + serve.replace("0.0.0.0:8443", "127.0.0.1:0") + " --data own"], cwd=reader.folder,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            url = process.stdout.readline().split()[3]
            assert url.startswith("https://127.0.0.1:")
            assert "ready" in reader.type([ask.replace("https://decide.example:8443", url)])
        finally:
            process.terminate()
    assert process.returncode == 0


def test_rates(reader):
    Client(reader.server).put_tenant("shop", algorithm="ucb")
    reader.type(commands(RATES))
    limits = [json.loads(answer.content) for _, _, answer in reader.answers()]
    assert len(limits) == 2 and all((told["rate"], told["burst"]) == (200, 1000) for told in limits)


def test_a_log_evaluated_exported_and_learned_by_another_tenant(reader):
    client = Client(reader.server)
    client.put_tenant("shop")
    for t in range(120):
        answer = client.select(f"u{t % 30}", candidates=["tea", "rum"], tenant="shop")
        client.reward(answer["decision"], float(answer["arm"] == "rum" and t % 2), tenant="shop")
    printed = reader.type(commands(EVALUATION))
    assert len(re.findall(r"^  snips +[0-9.]+ +\[[0-9.]+, [0-9.]+\]$", printed, re.M)) >= 3
    assert (reader.folder / "shop.html").read_text().lstrip().startswith("<")
    told = [client.stats(tenant) for tenant in ("shop", "warm")]
    assert [s["rewards"] for s in told] == [120, 120] and told[0]["mean_reward"] == pytest.approx(told[1]["mean_reward"])
