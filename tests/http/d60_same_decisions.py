"""--finish-builds: decisions are a function of requests and seed. Two servers that are asked the same answer alike bit for bit and
write the same lines, however long their builds take; and a build has ended before anything else happens."""
import concurrent.futures
import http.client
import json
import random
import re
import time

import pytest

from harness import NDJSON, Client, Server

ARMS, USERS = 12, 40
# Configuration, rounds, the work that a change may take at once (below what a point costs that enters after some rewards), and
# how many builds there are at least.
ROWS = {"default": ({}, 3000, 100_000, 20), "laplaced-by-arm": ({"algorithm": "laplaced-by-arm"}, 3000, 100_000, 10),
        "medians": ({"context_kernel": {"type": "rbf", "lengthscale": "median"}}, 600, 0, 5)}


@pytest.fixture
def pair(tmp_path):
    """pair(*args): two servers on folders of their own."""
    started = []

    def start(*args):
        for folder in (tmp_path / "one", tmp_path / "other"):
            folder.mkdir()
            started.append(Server(folder, *args))
            started[-1].start()
        return started

    yield start
    for one in started:
        one.close()


def post(connection, tenant, path, body):
    connection.request("POST", path, json.dumps(body), {"Laplaced-Tenant": tenant, "Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text
    return text


def play(server, configuration, rounds, pause):
    """All answers, one request after the other. `pause`: the share of rounds behind which the client rests, so that what is at
    work beside the requests comes at other times in each run."""
    client, connection = Client(server), http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
    client.put_tenant("t", context_dim=2, seed=7, **configuration)
    client.put_graph("t", [[f"u{i}", f"u{(i + step) % USERS}"] for i in range(USERS) for step in (1, 9)])
    told, rests, answers = random.Random(5), random.Random(), []
    for t in range(rounds):
        user, context = told.randrange(USERS), [round(told.uniform(-1, 1), 3) for _ in range(2)]
        answers.append(post(connection, "t", "/select", {"user": f"u{user}", "context": context, "decision": f"d{t}",
                                                         "candidates": [f"a{k}" for k in range(ARMS)]}))
        arm = int(json.loads(answers[-1])["arm"][1:])
        mean = 0.5 + 0.3 * ((user + arm) % 3 == 0) + 0.2 * context[arm % 2]
        answers.append(post(connection, "t", "/reward", {"decision": f"d{t}", "reward": round(told.gauss(mean, 0.2), 4)}))
        if rests.random() < pause:
            time.sleep(0.003)
    return answers


def lines_of(server):
    """The log, less the clock."""
    text = Client(server).call("GET", "/tenants/t/export").text
    return [re.sub(r'"(at|expires_at)":"[^"]*",?', "", line) for line in text.splitlines()]


@pytest.mark.parametrize("row", ROWS)
def test_two_servers_that_are_asked_the_same_say_and_write_the_same(pair, row):
    configuration, rounds, inline_work, n_builds = ROWS[row]
    servers = pair("--inline-work", str(inline_work), "--finish-builds")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda k: play(servers[k], configuration, rounds, 0.1 * k), range(2))
    differ = [i for i in range(2 * rounds) if one[i] != other[i]]
    assert not differ, f"first of {len(differ)}: {one[differ[0]]!r}, and {other[differ[0]]!r}"
    lines, others = map(lines_of, servers)
    assert lines == others and len(lines) > 2 * rounds
    events = [json.loads(line) for line in lines]
    behind = [after for event, after in zip(events, events[1:]) if event["type"] == "dictionary" and event.get("begun")]
    ends = [event for event in events if event["type"] == "tuned" or event["type"] == "dictionary" and "from" in event]
    assert len(behind) >= n_builds and behind == ends, "a build has its end right behind its beginning"
    assert all(event.get("from", event["seq"] - 1) == event["seq"] - 1 for event in ends)


def test_a_body_of_many_rewards_is_answered_behind_the_builds_that_it_began(pair):
    """Each of its rewards may begin one. All of them have entered the model by the time that the body is answered."""
    server, _ = pair("--inline-work", "0", "--finish-builds")
    client = Client(server)
    client.put_tenant("t", context_dim=1)
    body = [{"user": f"u{i % 5}", "arm": f"a{i % 7}", "context": [i / 200], "reward": i % 3} for i in range(200)]
    assert client.call("POST", "/observe", body, kind=NDJSON, tenant="t").json["observed"] == 200
    model, lines = client.model("t"), lines_of(server)
    n_begun, n_entered = (sum(mark in line for line in lines) for mark in ('"begun"', '"from"'))
    assert n_begun == n_entered == len(model["dictionary"]) - 1 > 3  # the first point is there from the start
