"""--log: what a server says that shares its log with others, as far as that shows without the log. It starts where nobody answers,
says so, and refuses by name what servers that share a log cannot do. tests/cluster/ has the rest, with PostgreSQL."""
import re
import socket
import subprocess
import time

import pytest

import prometheus_text
from contract import CONTRACT, NDJSON, ROOT
from harness import BIN, Client

NOBODY = "postgresql://laplaced@127.0.0.1:1/log"
ALONE = {name for name, (_, _, op) in CONTRACT.operations.items() if "501" in op["responses"]}
KEY = "an-operator-who-has-a-key-1"


def is_built_without():
    return "without" in subprocess.run([BIN, "--log", NOBODY, "--data", "/nonexistent/x"], capture_output=True, text=True).stderr


pytestmark = pytest.mark.skipif(is_built_without(), reason="built without PostgreSQL's client")


@pytest.fixture
def lonely(boot, tmp_path):
    """A server whose log nobody answers for. Nobody has told it whether there are keys, so it lets nobody in but by the file's."""
    (tmp_path / "keys").write_text(KEY + "\n")
    return boot("--log", NOBODY, "--node", "a", "--log-wait", "300", "--max-lag", "100", "--admin-key-file", str(tmp_path / "keys"))


def test_who_has_no_key_is_not_let_in_before_the_log_has_told_whether_there_are_any(boot):
    api = Client(boot("--log", NOBODY, "--node", "a", "--log-wait", "300"))
    assert "whether there are keys" in api.call("GET", "/tenants", expect=503).json["detail"]
    assert "Retry-After" in api.call("POST", "/keys", {"roles": ["admin"]}, expect=503).headers
    assert api.call("GET", "/healthz").status == 200


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.02)


def test_a_server_that_does_not_reach_its_log_lives_and_is_not_ready(lonely):
    api = Client(lonely, key=KEY)
    wait_for(lambda: api.call("GET", "/readyz", expect=(200, 503)).status == 503)
    detail = api.call("GET", "/readyz", expect=503).json["detail"]
    assert detail.startswith("the shared log "), detail
    assert api.call("GET", "/healthz").status == 200
    wait_for(lambda: "the shared log: " in lonely.log())


def test_a_tenant_that_nobody_here_knows_may_be_another_servers(lonely):
    """So as long as the log cannot be asked there is no saying that it is not there."""
    api = Client(lonely, key=KEY)
    answer = api.call("GET", "/tenants/shop", expect=503)
    assert "the shared log cannot be asked" in answer.json["detail"] and "Retry-After" in answer.headers
    assert "Laplaced-Seq" not in answer.headers
    assert api.call("PUT", "/tenants/shop", {"algorithm": "ucb"}, expect=503).json["detail"].count("shared log") == 1
    assert api.call("DELETE", "/tenants/shop", expect=503).json["detail"].startswith("the tenant cannot be deleted in the shared log")


def test_a_log_that_the_others_could_not_have_is_refused_by_name(lonely, api, name):
    """One whose configuration asks for what a server has alone: what several cannot do at all. tests/cluster/test_beside.py has those that were compacted: they may come in."""
    assert ALONE == {"importLog", "restoreTenant", "putRankModelFile"}
    api.put_tenant(name, algorithm="ucb", durability="relaxed")
    files = {"importLog": ("POST", "import", NDJSON, api.call("GET", f"/tenants/{name}/export").content),
             "restoreTenant": ("PUT", "snapshot", "application/vnd.sqlite3", api.call("POST", f"/tenants/{name}/snapshot").content)}
    for method, path, kind, body in files.values():
        said = Client(lonely, key=KEY).call(method, f"/tenants/shop/{path}", raw=body, kind=kind, expect=501).json["detail"]
        assert said == "a tenant with `durability` relaxed: this cannot be done where several servers share a log (--log)"


def test_a_repair_is_the_logs_matter(lonely):
    """Of a tenant that nobody here knows nothing is said but that the log cannot be asked, or that there is no such tenant here."""
    api = Client(lonely, key=KEY)
    for body in ({"action": "lift"}, {"action": "drop", "seq": 3}, {"action": "read_only", "seq": 3}, {"action": "push"}):
        api.call("POST", "/tenants/shop/repair", body, expect=(404, 503))


def test_whoever_may_not_repair_hears_no_more_of_it_here(boot, tmp_path):
    (tmp_path / "keys").write_text(KEY + "\n")
    server = boot("--log", NOBODY, "--admin-key-file", str(tmp_path / "keys"))
    Client(server).call("POST", "/tenants/shop/repair", {"action": "lift"}, expect=401)


def test_a_server_alone_knows_neither_header(api):
    answer = api.call("GET", "/tenants/default", headers={"Laplaced-After": "12"})
    assert "Laplaced-Seq" not in answer.headers
    assert api.call("POST", "/select", {"user": "u", "candidates": ["a", "b"]}, headers={"Laplaced-After": "1"}, expect=400).json["type"] == \
        "/problems/tenant-not-named"


def test_the_metrics_of_the_log_are_those_of_the_document(lonely):
    wait_for(lambda: "laplaced_log_polls_total" in Client(lonely, key=KEY).call("GET", "/metrics").text)
    families = prometheus_text.parse(Client(lonely, key=KEY).call("GET", "/metrics").text)
    told = re.findall(r"^\| `(laplaced_[a-z_]+)` \| (\w+) \| (.*)", (ROOT / "docs/CLUSTER.md").read_text(), re.M)
    documented = {name: kind for name, kind, _ in told}
    assert len(documented) >= 12
    for name, kind, text in told:
        if "by `tenant`" not in text:  # no tenant can be had without the log
            assert families[name].type == kind, name
    alone = set(re.findall(r"^\| `([a-z_]+)` \| \w+ \|", (ROOT / "docs/METRICS.md").read_text(), re.M))
    undocumented = {name for name in families if name.startswith("laplaced_log_")} - set(documented) - {"laplaced_log_lines_dropped_total"}
    assert undocumented - alone == set()


def test_without_a_log_there_are_no_metrics_of_it(api):
    assert "laplaced_log_up" not in api.call("GET", "/metrics").text


def run(*args, **env):
    return subprocess.run([BIN, *args], capture_output=True, text=True, env=env, timeout=60)


def bytes_of(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file() and p.name not in ("lock", "laplaced.lock")}


@pytest.mark.parametrize("what", ["tenants", "keys", "limits"])
def test_a_folder_of_a_server_that_was_alone_is_refused_and_keeps_its_bytes(boot, what):
    """Its log would be taken for the shared one's of that name, and go when that is deleted; its keys could not be taken back."""
    server = boot()
    api = Client(server)
    if what == "keys":
        api.call("POST", "/keys", {"roles": ["admin"]}, expect=201)
    elif what == "limits":
        api.call("PUT", "/tenants/default/limits", {"rate": 5})
    assert server.terminate() == 0
    if what != "tenants":  # as a copy's folder would be, but for these
        for path in (server.data / "tenants").iterdir():
            path.unlink()
    before = bytes_of(server.data)
    done = run("--log", NOBODY, "--node", "a", "--data", str(server.data), "--listen", "127.0.0.1:0")
    said = {"tenants": "tenants/default.db is a log of its own", "keys": "registry.db has keys", "limits": "registry.db has limits"}
    assert done.returncode == 1 and said[what] in done.stderr, done.stderr
    assert bytes_of(server.data) == before


def test_a_server_is_not_ready_before_its_log_was_there_once(boot):
    """--max-lag is for a log that goes away: of one that never was there nothing is known."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://laplaced@127.0.0.1:{silent.getsockname()[1]}/log"
        server = boot("--log", url, "--node", "a", "--log-wait", "2000", "--max-lag", "60000")
        assert Client(server).call("GET", "/readyz", expect=503).json["detail"].startswith("the shared log ")


def test_who_has_no_key_is_not_told_what_the_database_says(boot, tmp_path):
    (tmp_path / "keys").write_text(KEY + "\n")
    server = boot("--log", NOBODY, "--node", "a", "--log-wait", "300", "--max-lag", "100", "--admin-key-file", str(tmp_path / "keys"))
    api = Client(server)
    wait_for(lambda: "may not acknowledge" in api.call("GET", "/readyz", expect=503).json["detail"])
    assert "127.0.0.1" not in api.call("GET", "/readyz", expect=503).text


def test_a_database_that_is_away_does_not_look_like_a_server_that_stands_still(tmp_path):
    done = run("--log", NOBODY, "--node", "a", "--log-wait", "3000", "--stuck-after", "6", "--data", str(tmp_path / "d"))
    assert done.returncode == 2 and "--log-wait: expected less than half of --stuck-after" in done.stderr


@pytest.mark.parametrize("url", ["not an address", "mysql://db/log"])
def test_an_address_that_cannot_be_read_is_refused_at_once(url, tmp_path):
    done = run("--log", url, "--data", str(tmp_path / "d"))
    assert done.returncode == 2 and "--log: the address of the shared log cannot be read" in done.stderr


@pytest.mark.parametrize("url", ["postgresql://me:secret@db/log", "postgresql://db/log?password=secret", "host=db password=secret",
                                 "postgresql://me:p?secret@db/log", "postgresql://db/log?pass%77ord=secret", "postgresql://db/log?sslpassword=secret"])
def test_a_password_is_not_taken_from_an_option(url, tmp_path):
    done = run("--log", url, "--data", str(tmp_path / "d"))
    assert done.returncode == 2 and "PGPASSFILE" in done.stderr and "secret" not in done.stderr
    assert not (tmp_path / "d").exists()


def test_a_node_has_a_name_that_can_stand_anywhere(tmp_path):
    done = run("--log", NOBODY, "--node", "a b", "--data", str(tmp_path / "d"))
    assert done.returncode == 2 and "--node: expected 1 to 64 letters" in done.stderr


def test_the_node_is_the_host_where_nothing_else_is_said():
    done = run("--check-config", "--log", NOBODY)
    assert f"node = {socket.gethostname()[:64]}\n" in done.stdout
    assert "\nnode = \n" in run("--check-config").stdout


def test_the_whole_contract_of_what_is_refused_stands_in_the_document():
    """docs/CLUSTER.md names each operation that answers 501."""
    text = (ROOT / "docs/CLUSTER.md").read_text()
    for template, item in CONTRACT.doc["paths"].items():
        for method in ("get", "put", "post", "patch", "delete"):
            if method in item and item[method]["operationId"] in ALONE:
                assert f"`{method.upper()} {template}`" in text, (method, template)
