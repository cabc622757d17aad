"""`retention`: logs lose their old events by themselves, and the model is kept."""
import time

import pytest

from harness import NDJSON, Client


def observe(client, name, n, first=0):
    lines = [{"user": f"u{i % 5}", "arm": f"a{i % 3}", "reward": (i % 9) / 8} for i in range(first, first + n)]
    for i in range(0, n, 2000):
        client.call("POST", "/observe", lines[i:i + 2000], kind=NDJSON, tenant=name)


def view(client, name):
    return client.call("GET", f"/tenants/{name}").json


def wait_summarized(client, name, least, seconds=30):
    """The tenant's view once its summary stands for that many events."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        got = view(client, name)
        if got["log"]["summarized"] >= least and not got["log"]["compacting"]:
            return got
        time.sleep(0.1)
    raise AssertionError(view(client, name)["log"])


def metric(client, name, tenant):
    text = client.call("GET", "/metrics").text
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f'laplaced_{name}{{tenant="{tenant}"}}')))


def test_the_last_events_are_kept(boot):
    server = boot("--snapshot-events", "1000000")
    client, name = Client(server), "t"
    client.put_tenant(name, algorithm="ts", reward_window_s=0.05, retention={"events": 500})
    assert view(client, name)["configuration"]["retention"] == {"events": 500, "age_s": None}
    observe(client, name, 1200)
    time.sleep(0.3)
    assert client.events(name)[0]["seq"] == 1
    observe(client, name, 2000, 1200)
    got = wait_summarized(client, name, 2000)
    kept = got["seq"] - got["log"]["summarized"]
    assert 500 <= kept <= 1700 and got["log"]["first"] > 1 and got["log"]["bytes"] > 0
    lines = client.events(name)
    assert lines[0]["seq"] == got["log"]["first"] and lines[0]["part"] == "begin"
    assert metric(client, "log_events", name) == client.events(name)[-1]["seq"] - got["log"]["summarized"]
    assert metric(client, "file_bytes", name) > 0
    before = client.digest(name)
    assert client.model(name)["events"] == 3200
    server.restart()
    assert client.digest(name) == before
    observe(client, name, 3000, 3200)
    assert wait_summarized(client, name, got["log"]["summarized"] + 1000)["events"] == 6200


def test_old_events_go_from_an_idle_tenant(boot):
    server = boot()
    client, name = Client(server), "t"
    client.put_tenant(name, algorithm="ts", reward_window_s=0.05, retention={"age_s": 2})
    observe(client, name, 200)
    assert view(client, name)["log"]["summarized"] == 0
    tip = view(client, name)["seq"]
    before = client.digest(name)
    got = wait_summarized(client, name, tip - 10)
    assert got["events"] == 200 and before != client.digest(name)  # the model was built anew


def test_the_reward_window_is_kept_in_any_case(api, name):
    api.put_tenant(name, algorithm="ts", retention={"events": 1})
    observe(api, name, 3000)
    time.sleep(5)
    assert view(api, name)["log"]["summarized"] == 0


def test_retention_can_be_changed_and_taken_back(api, name):
    view_of = lambda: view(api, name)["configuration"]["retention"]  # noqa: E731
    api.put_tenant(name, algorithm="ts", retention={"events": 10, "age_s": 4000.5})
    assert view_of() == {"events": 10, "age_s": 4000.5}
    assert api.put_tenant(name, algorithm="ts", retention={"events": 10, "age_s": 4000.5}, expect=200)["version"] == 1
    assert api.put_tenant(name, algorithm="ts", retention={"events": None}, expect=200)["version"] == 2
    assert view_of() == {"events": None, "age_s": None}
    assert "retention" not in api.model(name)["parameters"]


@pytest.mark.parametrize("retention,pointer,status", [
    ({"events": 0}, "/retention/events", 400), ({"events": 1.5}, "/retention/events", 400),
    ({"events": "all"}, "/retention/events", 400), ({"age_s": 0}, "/retention/age_s", 400),
    ({"age_s": -1}, "/retention/age_s", 400), ({"days": 1}, "/retention/days", 400), (7, "/retention", 400),
    ({"age_s": 3599}, "/retention/age_s", 422)])
def test_bad_retentions_are_refused_by_pointer(api, name, retention, pointer, status):
    answer = api.call("PUT", f"/tenants/{name}", {"algorithm": "ts", "retention": retention}, expect=status)
    assert answer.pointers == [pointer]
    api.call("GET", f"/tenants/{name}", expect=404)
