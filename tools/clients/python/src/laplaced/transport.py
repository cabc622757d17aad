"""HTTP/1.1 over connections that are kept: one for each request under way. A connection that was kept may have been closed by the other side meanwhile,
so only a request that may be sent twice goes over one."""
from __future__ import annotations

import http.client
import ssl
import threading
import time
from typing import Mapping, NamedTuple, Optional, Union
from urllib.parse import urlsplit

FAILURES = (OSError, http.client.HTTPException)


class NotSent(Exception):
    """There was no connection: the server cannot have done anything."""


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


Connection = Union[http.client.HTTPConnection, http.client.HTTPSConnection]


class Transport:
    def __init__(self, url: str, context: Optional[ssl.SSLContext], kept_s: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"not the address of a server: {url!r}")
        self._host, self._port, self._is_tls = parts.hostname, parts.port, parts.scheme == "https"
        self._prefix = parts.path.rstrip("/")
        self._context = context if context is not None or not self._is_tls else ssl.create_default_context()
        self._kept_s = kept_s
        self._lock = threading.Lock()
        self._kept: list[tuple[float, Connection]] = []
        self._is_closed = False

    def send(self, method: str, target: str, headers: Mapping[str, str], body: Optional[bytes], end: float, may_repeat: bool) -> Answer:
        """The answer, or an error of FAILURES, or NotSent. `end` is a moment of time.monotonic()."""
        connection = self._take() if may_repeat else None
        if connection is None:
            connection = self._connect(end)
        try:
            answer, is_reusable = self._exchange(connection, method, self._prefix + target, headers, body, end)
        except BaseException:
            connection.close()
            raise
        if is_reusable:
            self._give(connection)
        else:
            connection.close()
        return answer

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            kept, self._kept = self._kept, []
        for _, connection in kept:
            connection.close()

    def _take(self) -> Optional[Connection]:
        with self._lock:
            while self._kept:
                since, connection = self._kept.pop()
                if time.monotonic() - since < self._kept_s:
                    return connection
                connection.close()
        return None

    def _give(self, connection: Connection) -> None:
        with self._lock:
            if not self._is_closed:
                self._kept.append((time.monotonic(), connection))
                return
        connection.close()

    def _connect(self, end: float) -> Connection:
        timeout = left(end)
        connection: Connection
        if self._is_tls:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            connection.connect()
        except OSError as fault:
            connection.close()
            raise NotSent(str(fault)) from fault
        return connection

    @staticmethod
    def _exchange(connection: Connection, method: str, target: str, headers: Mapping[str, str], body: Optional[bytes], end: float) -> tuple[Answer, bool]:
        socket = connection.sock
        socket.settimeout(left(end))
        connection.request(method, target, body=body, headers=dict(headers))
        socket.settimeout(left(end))
        response = connection.getresponse()
        parts = []
        while not response.isclosed():  # it closes itself behind the last byte
            socket.settimeout(left(end))
            parts.append(response.read(65536))
        if response.length:  # what Content-Length told and nobody sent
            raise http.client.IncompleteRead(b"".join(parts), response.length)
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, b"".join(parts)), not response.will_close


def left(end: float) -> float:
    """Seconds until then; an error when there are none."""
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("the deadline is over")
    return seconds
