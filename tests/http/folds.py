"""A fold of the log beside the traffic, held in its middle."""
import threading
import time

from harness import Client, tenant_path

PATIENCE_S = 60


def until(what):
    """What it says once that is true."""
    end = time.monotonic() + PATIENCE_S
    while not (said := what()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return said


def look(client, name):
    return client.call("GET", tenant_path(name, "verify")).json


def go_on(client, name, gate):
    """Lets the fold that is held at the gate take some lines; what is told of it then."""
    before = look(client, name)
    assert before["running"]
    while (now := look(client, name)) == before:
        gate.unlink()
        time.sleep(0.004)  # it looks every 2 ms
        gate.touch()
    assert now["running"]
    return now


def hold_a_fold(client, name, gate, begin):
    """Of a server whose failpoint mid_refold waits for `gate`: the verification that begin() asks for, where it has folded something."""
    gate.touch()
    begin()
    until(lambda: look(client, name)["running"])
    return go_on(client, name, gate)


class Verifying(threading.Thread):
    """Asks for a verification; `answer` is there once it has ended."""

    def __init__(self, server, name):
        super().__init__()
        self.ask = lambda: Client(server).call("POST", tenant_path(name, "verify"), expect=(200, 409, 503))
        self.start()

    def run(self):
        self.answer = self.ask()

    def ended(self):
        self.join(PATIENCE_S)
        assert not self.is_alive()
        return self.answer
