"""Client of laplaced. `Client` waits for its answers, `AsyncClient` is awaited, `Rewards` sends rewards in batches.

    from laplaced import Client
    with Client("http://127.0.0.1:8080", tenant="page") as laplaced:
        decision = laplaced.select("u42", candidates=["red", "green"])
        laplaced.reward(decision["decision"], 1)
"""
from .aio import AsyncClient, AsyncRewards
from .client import Client
from .errors import (BadRequest, Conflict, ConnectionFailed, Fault, Forbidden, Gone, LaplacedError, NotFound, NotReady, OverQuota, Problem, ServerFault, TooLarge,
                     TooManyRequests, Unauthorized, Unprocessable)
from .retry import Retry
from .rewards import Rewards

__version__ = "1.0.0"
__all__ = ["AsyncClient", "AsyncRewards", "BadRequest", "Client", "Conflict", "ConnectionFailed", "Fault", "Forbidden", "Gone", "LaplacedError", "NotFound", "NotReady",
           "OverQuota", "Problem", "Retry", "Rewards", "ServerFault", "TooLarge", "TooManyRequests", "Unauthorized", "Unprocessable"]
