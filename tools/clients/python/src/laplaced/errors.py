"""What can go wrong: a refusal by the server is a `Problem`, of a class for each status; no answer in time is `ConnectionFailed`."""
from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple, Optional


class LaplacedError(Exception):
    """Everything that this package raises by itself."""


class ConnectionFailed(LaplacedError):
    """No whole answer came before the deadline. Whether the server did what was asked is not known; the same request may be sent again with the same ids."""


class Fault(NamedTuple):
    """One fault of a body: where, as a JSON pointer, and what."""
    pointer: str
    detail: str


class Problem(LaplacedError):
    """A problem document (RFC 9457). The request changed nothing."""

    def __init__(self, status: int, document: Mapping[str, Any], retry_after: Optional[float] = None, request: str = "") -> None:
        self.status = status
        self.document = dict(document)
        self.type: str = str(document.get("type", "about:blank"))
        self.title: str = str(document.get("title", ""))
        self.detail: str = str(document.get("detail", ""))
        errors, more = document.get("errors"), document.get("more_errors")  # a proxy may say anything here
        self.faults = [Fault(str(e.get("pointer", "")), str(e.get("detail", ""))) for e in (errors if isinstance(errors, list) else []) if isinstance(e, dict)]
        self.more_faults = more if isinstance(more, int) else 0
        self.limit: Optional[str] = document.get("limit")
        self.maximum: Optional[float] = document.get("max")
        self.retry_after = retry_after
        self.request = request
        super().__init__(self._words())

    @property
    def kind(self) -> str:
        """The last part of the type: `no-decision` of /problems/no-decision."""
        return self.type.rsplit("/", 1)[-1]

    @property
    def pointers(self) -> list[str]:
        return [fault.pointer for fault in self.faults]

    def _words(self) -> str:
        faults = "; ".join(f"{pointer or '(the body)'}: {detail}" for pointer, detail in self.faults)
        more = f"; and {self.more_faults} more" if self.more_faults else ""
        quoted = f" (request {self.request})" if self.request else ""
        return f"{self.status} {self.kind}: {self.detail}{' [' + faults + more + ']' if faults else ''}{quoted}"


class BadRequest(Problem):
    """400: the body or the query has faults; `faults` names them."""


class Unauthorized(Problem):
    """401: there is no key, or it opens nothing (any more)."""


class Forbidden(Problem):
    """403: the key lacks the role."""


class NotFound(Problem):
    """404: `kind` says what is not there: no-tenant, no-decision, no-arm, no-route."""


class Conflict(Problem):
    """409: it contradicts what the log has, as another reward under the same id."""


class Gone(Problem):
    """410: the decision's window is closed."""


class TooLarge(Problem):
    """413: the body is too large."""


class Unprocessable(Problem):
    """422: understood, and not possible."""


class TooManyRequests(Problem):
    """429: over the rate; `retry_after` is when there are tokens again."""


class ServerFault(Problem):
    """500, 502, 504: the server, or a proxy before it, cannot answer this."""


class NotReady(Problem):
    """503: busy, starting, stopping, or a disk that takes no writes; nothing was done."""


class OverQuota(Problem):
    """507: the tenant has used what it may."""


CLASSES = {400: BadRequest, 401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 410: Gone, 413: TooLarge, 422: Unprocessable, 429: TooManyRequests,
           500: ServerFault, 502: ServerFault, 503: NotReady, 504: ServerFault, 507: OverQuota}


def problem_of(status: int, document: Mapping[str, Any], retry_after: Optional[float] = None, request: str = "") -> Problem:
    return CLASSES.get(status, Problem)(status, document, retry_after, request)


def problem_of_answer(status: int, body: bytes, retry_after: Optional[float], request: str) -> Problem:
    """Of an answer whose body should be a problem document. What a proxy says in words of its own becomes the detail."""
    document: Any = None
    try:
        document = json.loads(body)
    except ValueError:
        pass
    if not isinstance(document, dict):
        document = {"detail": body[:500].decode("utf-8", "replace")}
    return problem_of(status, document, retry_after, request)
