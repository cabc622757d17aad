"""Keys come and go under load: a request with a key that is in force is never refused, one with a key that was revoked always."""
import collections
import threading

import pytest

from harness import Client, Server

WORKERS, ROTATIONS = 4, 60


class Shift:
    """The key in use. A worker holds it while it asks; who rotates revokes a key once nobody holds it."""

    def __init__(self, key):
        self.key, self.holds, self.change = key, collections.Counter(), threading.Condition()

    def take(self):
        with self.change:
            self.holds[self.key["id"]] += 1
            return self.key

    def give_back(self, key):
        with self.change:
            self.holds[key["id"]] -= 1
            self.change.notify_all()

    def rotate(self, new):
        """The old key, which nobody uses any more."""
        with self.change:
            old, self.key = self.key, new
            assert self.change.wait_for(lambda: self.holds[old["id"]] == 0, 60)
            return old


@pytest.fixture
def keyed(tmp_path):
    (tmp_path / "keys").write_text("correct-horse-battery-staple\n")
    server = Server(tmp_path, "--admin-key-file", str(tmp_path / "keys")).start()
    yield server
    try:
        assert server.terminate() == 0
    finally:
        server.close()


@pytest.mark.parametrize("tenant, roles", [("default", ["decide", "read"]), (None, ["admin"])])
def test_no_request_fails_while_keys_are_rotated(keyed, tenant, roles):
    path = f"/tenants/{tenant}/keys" if tenant else "/keys"
    admin = Client(keyed, "correct-horse-battery-staple")

    def make():
        return admin.call("POST", path, {"roles": roles}, expect=201).json
    shift, stop, faults, n_asked = Shift(make()), threading.Event(), [], collections.Counter()

    def work(k):
        client = Client(keyed)
        while not stop.is_set():
            key = shift.take()
            try:
                client.key = key["key"]
                client.call("GET", "/tenants") if n_asked[k] % 2 else client.select(f"u{k}", candidates=["a", "b"])
                n_asked[k] += 1
            except Exception as fault:  # told in the main thread
                faults.append(repr(fault))
                stop.set()
            finally:
                shift.give_back(key)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(WORKERS)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(ROTATIONS):
            # Some that nobody uses, so that the table grows and shrinks around those in use.
            idle = [make() for _ in range(3)]
            old = shift.rotate(make())
            for key in (*idle, old):
                admin.call("DELETE", f"{path}/{key['id']}", expect=204)
            Client(keyed, old["key"]).call("GET", "/tenants", expect=401)
            if faults:
                break
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert faults == [] and min(n_asked[k] for k in range(WORKERS)) > 0
    left = [k["id"] for k in admin.call("GET", path).json["keys"]]
    assert left == [shift.key["id"]]
