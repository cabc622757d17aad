"""Metrics: the text as Prometheus reads it, names as its conventions and docs/METRICS.md have them, and numbers that
move exactly as known traffic says."""
import os
import re
import shutil
import subprocess
import time

import pytest

import prometheus_text
from contract import ROOT
from harness import Client
from prometheus_text import value

DOCUMENTED = re.compile(r"^\| `([a-z_]+)` \| (\w+) \| (.*) \|$", re.M)


def scrape(api):
    return prometheus_text.parse(api.call("GET", "/metrics").text)


@pytest.fixture(scope="module")
def busy(server):
    """The text after one request of each kind that has series of its own."""
    api = Client(server)
    api.select("ann", candidates=["a", "b"], decision="d1")
    api.reward("d1", 1)
    api.call("GET", "/nowhere", expect=404)
    return api.call("GET", "/metrics").text


def test_text_keeps_to_format_and_conventions(busy):
    assert list(prometheus_text.lint(prometheus_text.parse(busy))) == []


def test_promtool_agrees(busy):
    if shutil.which("promtool") is None:
        pytest.skip("no promtool here (package prometheus)")
    done = subprocess.run(["promtool", "check", "metrics"], input=busy, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_lint_finds_what_it_is_for():
    bad = ("# HELP laplaced_x_count Words.\n# TYPE laplaced_x_count gauge\nlaplaced_x_count 1\n"
           "# HELP laplaced_sent A sentence.\n# TYPE laplaced_sent counter\nlaplaced_sent 1\n"
           "# HELP laplaced_wait_ms No\n# TYPE laplaced_wait_ms gauge\nlaplaced_wait_ms 1\n"
           "# HELP laplaced_h_seconds A sentence.\n# TYPE laplaced_h_seconds histogram\n"
           'laplaced_h_seconds_bucket{le="1"} 2\nlaplaced_h_seconds_bucket{le="+Inf"} 1\n'
           "laplaced_h_seconds_sum 1\nlaplaced_h_seconds_count 1\n")
    faults = list(prometheus_text.lint(prometheus_text.parse(bad)))
    assert len(faults) == 5, faults


def test_every_metric_is_documented_with_its_type(busy):
    documented = {name: (kind, text) for name, kind, text in DOCUMENTED.findall((ROOT / "docs/METRICS.md").read_text())}
    shown = {f.name: f.type for f in prometheus_text.parse(busy).values()}
    assert {n: k for n, (k, _) in documented.items() if not is_conditional(documented[n][1])} == {
        n: k for n, k in shown.items() if not (n in documented and is_conditional(documented[n][1]))}
    assert shown.items() <= {n: k for n, (k, _) in documented.items()}.items()


def is_conditional(text):
    """A metric that only some servers have: its line says so at its end."""
    return text.endswith("(not everywhere)")


def test_known_traffic_moves_known_numbers(boot):
    api = Client(boot())
    api.put_tenant("shop")
    before = scrape(api)
    for i in range(5):
        api.select("ann", candidates=["a", "b"], decision=f"d{i}", tenant="shop")
    api.select("ann", candidates=["a", "b"], decision="d0", tenant="shop")  # a retry: answered, not recorded
    for i in range(3):
        api.reward(f"d{i}", 1, tenant="shop")
    api.reward("none", 1, tenant="shop", expect=404)
    api.observe("bob", "a", 0.5, tenant="shop")
    api.call("POST", "/select", raw="{", tenant="shop", expect=400)
    api.call("GET", "/nowhere", expect=404)
    api.call("GET", "/select", expect=405)
    after = scrape(api)

    def moved(name, **labels):
        return value(after, name, **labels) - value(before, name, **labels)

    def answers(code, route="/select", method="POST"):
        return moved("laplaced_http_requests_total", method=method, route=route, code=code)

    assert (answers("200"), answers("400")) == (6, 1)
    assert (answers("200", "/reward"), answers("404", "/reward")) == (3, 1)
    assert (answers("404", "none", "none"), answers("405", "none", "none")) == (1, 1)
    assert answers("200", "/observe") == 1
    assert answers("200", "/metrics", "GET") == 1  # the scrape before; this one is in flight
    assert value(after, "laplaced_http_requests_in_flight") == 1
    for route, n in (("/select", 7), ("/reward", 4), ("/observe", 1)):
        labels = {"method": "POST", "route": route}
        assert moved("laplaced_http_request_duration_seconds_count", **labels) == n
        assert moved("laplaced_http_request_duration_seconds_sum", **labels) > 0
    assert moved("laplaced_committed_events_total") == 5 + 3 + 1 + moved_dictionary(api)
    assert moved("laplaced_dictionary_admissions_total") == moved_dictionary(api)
    assert moved("laplaced_commit_events_sum") == moved("laplaced_committed_events_total")
    assert moved("laplaced_commits_total") == moved("laplaced_commit_events_count")
    assert moved("laplaced_commits_total") == moved("laplaced_commit_duration_seconds_count") == 9
    for name, n in (("decisions_total", 5), ("rewards_total", 3), ("observations_total", 1), ("learned_rewards", 4),
                    ("pending_decisions", 2)):
        assert moved(f"laplaced_{name}", tenant="shop") == n, name
    assert moved("laplaced_commit_failures_total") == 0


def moved_dictionary(api):
    """Lines of the log that stand behind events, for points that entered the dictionary."""
    return sum(e["type"] == "dictionary" for e in api.events("shop"))


def test_a_rebuild_is_one_reset(api, name):
    api.put_tenant(name)
    api.observe("u", "a", 1, tenant=name)
    before = value(scrape(api), "laplaced_dictionary_resets_total")
    api.call("POST", f"/tenants/{name}/rebuild")
    api.wait_rebuilt(name)
    assert value(scrape(api), "laplaced_dictionary_resets_total") == before + 1


def test_process_metrics_are_those_of_the_process(boot):
    server = boot()
    api = Client(server)
    seen = scrape(api)
    pid = server.process.pid
    status = open(f"/proc/{pid}/status").read()
    resident = 1024 * int(re.search(r"VmRSS:\s+(\d+)", status)[1])
    assert resident / 2 < value(seen, "process_resident_memory_bytes") < resident * 2
    for _ in range(1000):  # the system counts in hundredths of a second
        if value(seen, "process_cpu_seconds_total") > 0:
            break
        seen = scrape(api)
    assert value(seen, "process_cpu_seconds_total") > 0
    assert abs(value(seen, "process_start_time_seconds") - time.time()) < 600
    assert 3 < value(seen, "process_open_fds") <= value(seen, "process_max_fds")
    again = scrape(api)
    assert value(again, "process_start_time_seconds") == value(seen, "process_start_time_seconds")
    assert value(again, "process_cpu_seconds_total") >= value(seen, "process_cpu_seconds_total")


def test_limits_and_disk_are_told(boot):
    server = boot("--memory-cap", "300M", "--max-queue", "77")
    seen = scrape(Client(server))
    disk = os.statvfs(server.data)
    assert value(seen, "laplaced_memory_cap_bytes") == 300 << 20 and value(seen, "laplaced_queue_depth_limit") == 77
    assert value(seen, "laplaced_data_size_bytes") == disk.f_blocks * disk.f_frsize
    assert abs(value(seen, "laplaced_data_free_bytes") - disk.f_bavail * disk.f_frsize) < 1 << 30
    assert "laplaced_memory_cap_bytes" not in scrape(Client(boot_elsewhere(boot, server)))


def boot_elsewhere(boot, server):
    """The same folder without options."""
    server.terminate()
    return boot()


def test_tenants_beyond_the_bound_are_counted_and_not_listed(boot):
    api = Client(boot("--metrics-tenants", "2"))
    for name in ("alpha", "beta", "gamma"):
        api.put_tenant(name)
    seen = scrape(api)
    listed = {dict(labels)["tenant"] for _, labels in seen["laplaced_decisions_total"].samples}
    n_open = value(seen, "laplaced_tenants", state="open")
    assert listed == {"alpha", "beta"}
    assert value(seen, "laplaced_tenants_unlisted") == n_open - 2 >= 1


def test_a_failing_tenant_shows_even_when_it_is_not_listed(boot):
    server = boot("--metrics-tenants", "0")
    api = Client(server)
    api.put_tenant("shop")
    assert value(scrape(api), "laplaced_tenants_failing") == 0
    server.fill_disk()
    api.observe("ann", "a", 1, tenant="shop", expect=503)
    seen = scrape(api)
    server.fill_disk(False)
    assert value(seen, "laplaced_tenants_failing") == 1
    assert value(seen, "laplaced_commit_failures_total") >= 1
    assert "laplaced_decisions_total" in seen and not seen["laplaced_decisions_total"].samples
