"""SIGTERM: what was accepted is answered, then the process ends with 0."""
import signal
import socket
import threading
import time

import requests

from contract import CONTRACT
from harness import Client


def test_requests_in_flight_are_answered_and_kept(boot):
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="laplaced")
    answers, broken, lock, enough = [], [], threading.Lock(), threading.Event()

    def work(k):
        mine = Client(server, tenant="t")
        try:
            for i in range(100000):
                d = mine.call("POST", "/select", {"user": f"u{k}", "candidates": ["a", "b"]}, expect=(200, 503))
                if d.status == 503:
                    return
                with lock:
                    answers.append(d.json["decision"])
                    if len(answers) > 40:
                        enough.set()
        except requests.exceptions.ConnectionError as fault:
            broken.append(str(fault))
    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    assert enough.wait(20)
    assert server.terminate() == 0
    for thread in threads:
        thread.join()
    # A connection may be refused or closed while idle, but a request that was read is answered in full.
    assert all("Incomplete" not in b and "reset" not in b.lower() for b in broken), broken
    server.start()
    logged = [e["decision"] for e in Client(server).events("t") if e["type"] == "decided"]
    assert sorted(logged) == sorted(answers)


def test_a_body_still_arriving_is_waited_for(boot):
    server = boot()
    host, port = server.url[len("http://"):].split(":")
    body = b'{"user":"u","candidates":["a","b"],"decision":"slow"}'
    with socket.create_connection((host, int(port))) as conn:
        conn.sendall(b"POST /select HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
        conn.sendall(body[:10])
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        conn.sendall(body[10:])
        conn.settimeout(10)
        answer = b""
        while chunk := conn.recv(65536):
            answer += chunk
    # Accepted before the signal: answered, whether with the decision or with 503, never dropped.
    status = CONTRACT.check_raw("POST", "/select", answer).status_code
    assert status in (200, 503), answer
    assert server._reap() == 0
    server.start()
    logged = [e["decision"] for e in Client(server).events("default") if e["type"] == "decided"]
    assert logged == (["slow"] if status == 200 else [])


def test_sigint_ends_it_the_same_way(boot):
    server = boot()
    Client(server).select("u", candidates=["a"], decision="kept")
    server.process.send_signal(signal.SIGINT)
    assert server._reap() == 0
    server.start()
    assert Client(server).reward("kept", 1.0) == {"applied": True}


def test_readiness_ends_before_the_listener(boot):
    """While draining, /readyz on an open connection is 503."""
    server = boot("--drain-timeout", "5")
    host, port = server.url[len("http://"):].split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(b"POST /select HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        client = Client(server)
        client.call("GET", "/readyz")
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.6)
        try:
            client.call("GET", "/readyz", expect=503)
        except requests.exceptions.ConnectionError:
            pass  # an idle connection may be closed and no new one taken: not ready either
        slow.close()
    assert server._reap() == 0


def test_clients_that_vanish_within_a_body_do_not_hold_up_a_stop(boot):
    """Their last bytes and the end of the stream arrive together."""
    server = boot()
    host, port = server.url[len("http://"):].split(":")
    for _ in range(10):
        with socket.create_connection((host, int(port))) as conn:
            conn.sendall(b"PUT /tenants/default/graph HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    started = time.monotonic()
    assert server.terminate() == 0 and time.monotonic() - started < 5
