"""A client that writes bytes and reads answers one by one, for what a proper client would never send."""
import json
import socket
import urllib.parse

from contract import CONTRACT

CRLF = b"\r\n"


class Raw:
    """A connection to the server's port. Reading gives up after `timeout` seconds."""

    def __init__(self, server, timeout=20, receive_buffer=None):
        where = urllib.parse.urlsplit(server.url)
        self.socket = socket.socket(socket.AF_INET6 if ":" in where.hostname else socket.AF_INET)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect((where.hostname, where.port))
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.socket.close()

    def send(self, *parts):
        """Whatever the server still takes; one that has closed shows in what is read."""
        try:
            self.socket.sendall(b"".join(parts))
        except OSError:
            pass
        return self

    def end(self):
        """Shuts the writing side down."""
        self.socket.shutdown(socket.SHUT_WR)
        return self

    def _more(self):
        try:
            piece = self.socket.recv(65536)
        except ConnectionResetError:
            piece = b""
        self.rest += piece
        return bool(piece)

    def answer(self, is_head=False):
        """The next answer, or None when the connection ended before one."""
        while CRLF + CRLF not in self.rest:
            if not self._more():
                assert self.rest == b"", self.rest
                return None
        head, self.rest = self.rest.split(CRLF + CRLF, 1)
        status, *lines = head.decode().split("\r\n")
        headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines)}
        length = 0 if is_head else int(headers.get("content-length", 0))
        while len(self.rest) < length:
            assert self._more(), "the answer is not whole"
        body, self.rest = self.rest[:length], self.rest[length:]
        return RawAnswer(int(status.split()[1]), headers, body)

    def is_closed(self):
        """Whether the server has ended the connection, after what was read so far; waits for that."""
        try:
            return not self._more()
        except socket.timeout:
            return False


class RawAnswer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        self.is_problem = headers.get("content-type") == "application/problem+json"
        self.json = json.loads(body) if body and headers.get("content-type", "").endswith("json") else None
        if self.is_problem and body:
            assert not CONTRACT.errors(CONTRACT.doc["components"]["schemas"]["Problem"], self.json)
            CONTRACT.check_problem(self.json, status, self.json)


def request(method="GET", target="/healthz", *headers, body=b"", version="HTTP/1.1", host="x"):
    """The bytes of a request; a body gets its length unless a header speaks of one."""
    lines = [f"{method} {target} {version}"] + ([f"Host: {host}"] if host is not None else []) + list(headers)
    if body and not any(h.lower().startswith(("content-length", "transfer-encoding")) for h in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + CRLF + CRLF + body


def decision(user="u", **fields):
    return json.dumps({"user": user, "candidates": ["a", "b"], **fields}).encode()
