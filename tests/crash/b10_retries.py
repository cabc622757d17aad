"""What a client sends again because the answer to the first attempt died with the server."""
import time

import pytest
import requests

from harness import Client

POINTS = {"before_append": 0, "after_commit": 1, "after_apply": 1}


@pytest.fixture(params=POINTS)
def cut(boot, request):
    """cut(prepare, send): runs prepare(client) on a server, then send(client) on one that dies at the failpoint, and
    returns a client of a third, with how often what was sent is in the log already."""
    def play(prepare, send):
        server = boot().start()
        prepare(Client(server, tenant="default"))
        server.kill()
        server.env = {"LAPLACED_FAILPOINT": f"{request.param}:1"}
        server.start()
        with pytest.raises(requests.exceptions.RequestException):
            send(Client(server, tenant="default"))
        assert server._reap() == -9
        server.env = {}
        return Client(server.start(), tenant="default"), POINTS[request.param]
    return play


def events(client, kind):
    return [e for e in client.events("default") if e["type"] == kind]


def decide(client):
    return client.select("u", candidates=["a", "b"], decision="d")


def test_a_named_decision_is_made_once(cut):
    client, n = cut(lambda _: None, decide)
    before = events(client, "decided")
    answer = decide(client)
    assert len(before) == n and len(events(client, "decided")) == 1
    assert (answer["decision"], answer["arm"]) == ("d", events(client, "decided")[0]["arm"])
    assert decide(client) == answer


def test_a_reward_counts_once(cut):
    client, n = cut(decide, lambda c: c.reward("d", 0.5))
    assert len(events(client, "rewarded")) == n
    assert client.reward("d", 0.5) == ({"applied": False, "duplicate": True} if n else {"applied": True})
    assert len(events(client, "rewarded")) == 1 == client.model("default")["events"]


def test_a_late_reward_is_kept_once(cut):
    """Two of another value are two things that happened; the same value again is a retry."""
    def prepare(client):
        client.put_tenant("default", expect=200, algorithm="ucb", reward_window_s=0.1)
        decide(client)
        end = time.monotonic() + 20
        while client.stats("default")["expired"] == 0:
            assert time.monotonic() < end
            time.sleep(0.05)

    def send(client, value=0.5):
        client.call("POST", "/reward", {"decision": "d", "reward": value}, expect=410)
    client, n = cut(prepare, send)
    assert len(events(client, "late")) == n
    send(client)
    send(client)
    assert [e["reward"] for e in events(client, "late")] == [0.5]
    send(client, 0.25)
    assert [e["reward"] for e in events(client, "late")] == [0.5, 0.25]


def test_an_activation_counts_once(cut):
    client, n = cut(lambda c: c.select("u", candidates=["a"], decision="d", defer=True),
                    lambda c: c.call("POST", "/activate", {"decision": "d"}))
    answer = client.call("POST", "/activate", {"decision": "d"}).json
    assert answer == ({"activated": False, "duplicate": True} if n else {"activated": True})
    assert len(events(client, "activated")) == 1


def test_a_configuration_put_again_makes_no_second_version(cut):
    def send(client):
        return client.put_tenant("default", expect=200, algorithm="ts", seed=9)
    client, n = cut(lambda _: None, send)
    assert len(events(client, "configured")) == 1 + n
    assert send(client)["version"] == 2 and len(events(client, "configured")) == 2
