"""When a request is sent again. Waits double, are drawn at random below their bound so that clients do not come back together, and are never shorter than
Retry-After asks."""
from __future__ import annotations

import email.utils
import random
import time
from dataclasses import dataclass
from typing import Optional

NOTHING_DONE = (429, 503)  # whatever was asked may be asked again
PERHAPS_DONE = (502, 504)  # of a proxy: again only what may be sent twice


@dataclass(frozen=True)
class Retry:
    """`attempts` in all, or None: until the deadline. Waits double from `first_s` up to `longest_s`. Retry(attempts=1) never tries again."""
    attempts: Optional[int] = None
    first_s: float = 0.1
    longest_s: float = 5.0

    def wait(self, n_failed: int, retry_after: Optional[float] = None) -> float:
        """Seconds to wait after so many failures."""
        bound: float = min(self.longest_s, self.first_s * 2.0 ** min(n_failed - 1, 30))
        return (retry_after or 0.0) + random.uniform(0.0, bound)


def parse_retry_after(text: Optional[str]) -> Optional[float]:
    """Seconds, or a date as proxies may send it."""
    if text is None:
        return None
    try:
        return max(0.0, float(int(text)))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
