"""The key file: with it every route but the probes, the contract and pages asks for a key, and each of its keys is an admin's."""
import os
import signal
import time

import pytest

from contract import CONTRACT
from harness import Client, Server

KEY, OTHER = "correct-horse-battery-staple", "second-key-0123456789"
PUBLIC = {"healthz", "readyz", "openapi", "openapi30", "problems", "problem", "front", "favicon", "consoleDoor", "console", "consoleFile"}


@pytest.fixture
def keyed(boot, tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# operators\n{KEY}\n\n{OTHER}\n")
    path.chmod(0o600)
    server = boot("--admin-key-file", str(path))
    server.keys = path
    return server


def requests_of_every_operation():
    bodies = {"select": {"user": "u", "candidates": ["a"]}, "reward": {"decision": "d", "reward": 1}, "activate": {"decision": "d"},
              "observe": {"user": "u", "arm": "a", "reward": 1}, "putTenant": {}, "putGraph": {"edges": []}, "patchGraph": {"add": []},
              "putArms": {"arms": []}, "patchArms": {"arms": []}, "compact": {"keep_events": 100}, "makeKey": {}, "makeTenantKey": {"roles": ["read"]}}
    for name, (method, pattern, _) in CONTRACT.operations.items():
        path = pattern.pattern.strip("^$").replace("[^/]+", "default").replace("(?:v1[.](?:0|1-preview[.][123])/)?", "v1.0/").replace("\\", "")
        yield name, method.upper(), path, bodies.get(name)


def test_without_a_key_only_public_routes_answer(keyed):
    client = Client(keyed)
    digest = Client(keyed, KEY).digest("default")
    for name, method, path, body in requests_of_every_operation():
        client.call(method, path, body, expect=(200, 204, 308, 404) if name in PUBLIC else 401)
    assert Client(keyed, KEY).digest("default") == digest


@pytest.mark.parametrize("header", ["Bearer wrong", "Bearer", "Bearer ", f"Basic {KEY}", KEY, f"Bearer {KEY}x", f"Bearer {KEY[:-1]}",
                                    "Bearer # operators", f"Bearer {KEY} {KEY}"])
def test_a_wrong_key_is_refused(keyed, header):
    Client(keyed).call("GET", "/tenants", headers={"Authorization": header}, expect=401)


@pytest.mark.parametrize("key", [KEY, OTHER])
def test_every_key_of_the_file_opens_every_route(keyed, key):
    client = Client(keyed, key)
    for name, method, path, body in requests_of_every_operation():
        if name != "deleteTenant":
            client.call(method, path, body, expect=(200, 201, 204, 308, 400, 404, 409))  # 400: a log and a file are not sent here; 409: a stop without a baseline
    client.put_tenant("mine", algorithm="ucb")
    client.call("DELETE", "/tenants/mine", expect=204)


def test_the_scheme_is_not_case_sensitive_but_the_key_is(keyed):
    Client(keyed).call("GET", "/tenants", headers={"Authorization": f"bearer {KEY}"})
    Client(keyed).call("GET", "/tenants", headers={"Authorization": f"Bearer {KEY.upper()}"}, expect=401)


def test_keys_are_read_again_on_sighup(keyed):
    keyed.keys.write_text("fresh-key-0123456789\n")
    keyed.process.send_signal(signal.SIGHUP)
    for _ in range(100):
        if Client(keyed, "fresh-key-0123456789").call("GET", "/tenants", expect=(200, 401)).status == 200:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the new key is not taken")
    Client(keyed, KEY).call("GET", "/tenants", expect=401)


@pytest.mark.parametrize("content", [None, "", "# only a comment\n\n"])
def test_a_key_file_without_a_key_is_refused(tmp_path, content):
    path = tmp_path / "keys"
    if content is not None:
        path.write_text(content)
    status, stderr = Server(tmp_path, "--admin-key-file", str(path)).run_to_end()
    assert status not in (0, -6, -11) and "keys" in stderr


def test_with_keys_any_address_may_be_listened_on(tmp_path):
    path = tmp_path / "keys"
    path.write_text(KEY + "\n")
    server = Server(tmp_path, "--admin-key-file", str(path), listen="0.0.0.0:0").start()
    try:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert Client(server, KEY).call("GET", "/tenants").json["tenants"]
    finally:
        server.close()


def test_no_key_stands_in_the_log(keyed):
    Client(keyed, KEY).call("GET", "/tenants")
    Client(keyed).call("GET", "/tenants", headers={"Authorization": "Bearer sesame-wrong"}, expect=401)
    assert KEY not in keyed.log() and "sesame-wrong" not in keyed.log() and os.path.getsize(keyed.folder / "stderr.log") > 0
