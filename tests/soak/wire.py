"""What a client may do wrong on a connection, as bytes: mutations of good requests, and ways not to finish one.

Everything is drawn from the generator that is handed in, so a seed gives the same inputs again."""
import json
import pathlib
import socket

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "corpus"
BODIES = [path.read_bytes()[1:] for path in sorted((CORPUS / "bodies").iterdir())]  # the first byte picks a decoder
LOGS = [path.read_bytes() for path in sorted((CORPUS / "log").iterdir())]
GRAMMAR = [b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"HEAD", b"OPTIONS", b"TRACE", b"CONNECT", b" ", b"\t", b"\r\n", b"\n", b"\r",
           b"\0", b":", b"/", b"%00", b"%2f", b"%", b"?", b"=", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"Content-Length: ",
           b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n",
           b"ffffffffffffffff\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"Host: \r\n", b"\xff\xfe", b"{", b"}", b"[", b"]",
           b'"', b"\\u0000", b"1e999", b"NaN", b"null", b"-0", b'{"user":', b"A" * 300]


def mutate(rng, data):
    """One to four changes: a bit, a piece out, doubled or moved, a word of the grammar put in."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:at + rng.randint(1, 40)]
        elif kind == 2:
            piece = data[at:at + rng.randint(1, 200)]
            data[at:at] = piece
        elif kind == 3:
            data[at:at] = rng.choice(GRAMMAR)
        elif data:
            start = rng.randrange(len(data))
            piece = data[start:start + rng.randint(1, 60)]
            del data[start:start + len(piece)]
            at = min(at, len(data))
            data[at:at] = piece
    return bytes(data)


def request(method, path, body=b"", headers=(), kind="application/json"):
    """One well-formed request."""
    head = [f"{method} {path} HTTP/1.1", "Host: soak", *headers]
    if body:
        head += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    return ("\r\n".join(head) + "\r\n\r\n").encode("latin-1") + body


def chunked(rng, method, path, body, headers=()):
    """The same, its body in chunks of any size."""
    out = request(method, path, b"", (*headers, "Content-Type: application/json", "Transfer-Encoding: chunked"))
    while body:
        n = rng.randint(1, max(1, len(body)))
        out += b"%x\r\n" % n + body[:n] + b"\r\n"
        body = body[n:]
    return out + b"0\r\n\r\n"


def deep(rng):
    """Texts that hurt decoders: nesting, long strings, many members, many faults."""
    return rng.choice([
        b"[" * 100000, b'{"a":' * 20000, b'{"user":"' + b"x" * 300000 + b'"}', b'{"user":"u","context":[' + b"1e999," * 2000 + b"1]}",
        json.dumps({f"k{i}": i for i in range(5000)}).encode(), json.dumps([{"decision": 1}] * 1000).encode(),
        b'{"user":"u","candidates":' + json.dumps(["a"] * 1024).encode() + b"}", b'"' + b"\\ud800" * 1000 + b'"', b"\xef\xbb\xbf{}",
    ])


class Wire:
    """A connection that reads answers as they come; None for an answer means that the server closed."""

    def __init__(self, port, timeout=30):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.left = b""

    def send(self, data):
        """False when the server has closed meanwhile."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def more(self):
        try:
            piece = self.socket.recv(65536)
        except (ConnectionError, BrokenPipeError):
            return False
        self.left += piece
        return bool(piece)

    def answer(self, is_head=False):
        """(status, body) of the next one."""
        while b"\r\n\r\n" not in self.left:
            if not self.more():
                return None
        head, _, rest = self.left.partition(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
        n = 0 if is_head or status in (100, 204, 304) else int(fields.get(b"content-length", b"0"))
        while len(rest) < n:
            if not self.more():
                return None
            rest = self.left.partition(b"\r\n\r\n")[2]
        self.left = rest[n:]
        return self.answer(is_head) if status == 100 else (status, rest[:n])

    def close(self):
        self.socket.close()
