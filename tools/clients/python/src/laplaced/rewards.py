"""Rewards in batches: they are collected for a moment and sent as one request, each under an id of its own. Who adds one gets a future of its result."""
from __future__ import annotations

import json
import threading
import time
import uuid
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Type, Union

from .errors import ConnectionFailed, LaplacedError, Problem
from .retry import NOTHING_DONE, Retry
from .types import RewardResult, User

Result = Union[RewardResult, Problem]
Send = Callable[..., List[Result]]


@dataclass
class Item:
    body: Mapping[str, Any]
    future: "Future[RewardResult]"
    end: float
    since: float
    last: Optional[LaplacedError] = None  # why it was not taken yet


class Rewards:
    """Use it as a context manager: its end sends what waits. A reward is given up `timeout_s` after it was added, or as soon as the server wants to be left alone
    until then; its future then has the reason. With
    `waiting_most` rewards waiting, `add` waits for room."""

    def __init__(self, send: Send, *, tenant: Optional[str], most: int, wait_s: float, waiting_most: int, timeout_s: float, retry: Retry) -> None:
        self._send, self._tenant, self._most, self._wait_s = send, tenant, most, wait_s
        self._waiting_most, self._timeout_s, self._retry = waiting_most, timeout_s, retry
        self._changed = threading.Condition()
        self._waiting: Deque[Item] = deque()
        self._n_under_way = 0
        self._is_hurried = self._is_closed = False
        self._rest_end, self._why = 0.0, LaplacedError()  # when the server may be asked again, and why not before
        self._thread = threading.Thread(target=self._run, name="laplaced-rewards", daemon=True)
        self._thread.start()

    def add(self, decision: str, reward: float, *, arm: Optional[str] = None, slot: Optional[str] = None, metric: Optional[str] = None, event: Optional[str] = None, at: Optional[str] = None,
            id: Optional[str] = None) -> "Future[RewardResult]":
        return self.put({"decision": decision, "reward": reward, **some(arm=arm, slot=slot, metric=metric, event=event, at=at, id=id)})

    def add_user(self, user: User, reward: float, *, all: Optional[bool] = None, arm: Optional[str] = None, slot: Optional[str] = None, metric: Optional[str] = None,
                 event: Optional[str] = None, at: Optional[str] = None,
                 id: Optional[str] = None) -> "Future[RewardResult]":
        return self.put({"user": user, "reward": reward, **some(all=all, arm=arm, slot=slot, metric=metric, event=event, at=at, id=id)})

    def put(self, body: Mapping[str, Any]) -> "Future[RewardResult]":
        """A reward in the form of the request's body."""
        future: "Future[RewardResult]" = Future()
        now = time.monotonic()
        item = Item({**body, "id": body.get("id") or uuid.uuid4().hex}, future, now + self._timeout_s, now)
        json.dumps(item.body, allow_nan=False)  # what is no JSON is the caller's fault, and not the batch's
        future.set_running_or_notify_cancel()  # it will be sent, whoever still waits
        with self._changed:
            while len(self._waiting) >= self._waiting_most and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                raise RuntimeError("these rewards are closed")
            is_late = item.end <= self._rest_end
            if not is_late:
                self._waiting.append(item)
                self._changed.notify_all()
        if is_late:
            future.set_exception(self._why)
        return future

    def flush(self) -> None:
        """Returns when each reward that was added has its result, or was given up."""
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()
            while self._waiting or self._n_under_way:
                self._changed.wait()
            self._is_hurried = False

    def close(self) -> None:
        self.flush()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self) -> Rewards:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], fault: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    # ---- the thread

    def _run(self) -> None:
        n_refused = 0
        while True:
            batch = self._take()
            if not batch:
                return
            again, pause = self._deliver(batch)
            n_refused = n_refused + 1 if again else 0
            if again:
                self._rest(again, self._retry.wait(n_refused, pause))
            else:
                self._end_batch()

    def _rest(self, again: List[Item], seconds: float) -> None:
        """Asks the server for nothing so long. Whose deadline comes before is given up at once."""
        with self._changed:
            self._rest_end, self._why = time.monotonic() + seconds, again[-1].last or ConnectionFailed("the server is not to be asked yet")
            everything = [*again, *self._waiting]
            self._waiting = deque(item for item in everything if item.end > self._rest_end)
            late = [item for item in everything if item.end <= self._rest_end]
            self._n_under_way = len(late)
        for item in late:
            item.future.set_exception(item.last or self._why)
        self._end_batch()
        with self._changed:
            while (left := self._rest_end - time.monotonic()) > 0 and not (self._is_closed and not self._waiting):
                self._changed.wait(left)

    def _end_batch(self) -> None:
        with self._changed:
            self._n_under_way = 0
            self._changed.notify_all()

    def _take(self) -> List[Item]:
        """The next batch: as many as fit, or those that have waited long enough. None at the end."""
        with self._changed:
            while True:
                if self._waiting:
                    left = self._waiting[0].since + self._wait_s - time.monotonic()
                    if left <= 0 or self._is_hurried or self._is_closed or len(self._waiting) >= self._most:
                        break
                    self._changed.wait(left)
                elif self._is_closed:
                    return []
                else:
                    self._changed.wait()
            batch = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
            self._n_under_way = len(batch)
            self._changed.notify_all()
            return batch

    def _deliver(self, batch: List[Item]) -> tuple[List[Item], Optional[float]]:
        """Gives the futures their results. What the server was too busy for, and has time left, comes back, with the longest wait that was asked for."""
        now = time.monotonic()
        for item in batch:
            if item.end <= now:
                item.future.set_exception(item.last or ConnectionFailed("the reward was given up at its deadline"))
        batch = [item for item in batch if item.end > now]
        if not batch:
            return [], None
        try:
            results: Sequence[Union[Result, LaplacedError]] = self._send([item.body for item in batch], tenant=self._tenant, timeout_s=max(item.end for item in batch) - now)
        except Problem as problem:
            return self._refused(batch, problem)
        except LaplacedError as fault:
            results = [fault] * len(batch)
        except Exception as fault:  # whatever it is, nobody is to wait for ever
            lost = LaplacedError(f"{type(fault).__name__}: {fault}")
            lost.__cause__ = fault
            results = [lost] * len(batch)
        again = [item for item, result in zip(batch, results) if not settle(item, result)]
        return again, None

    def _refused(self, batch: List[Item], problem: Problem) -> tuple[List[Item], Optional[float]]:
        """A batch that was refused whole. Rewards that the problem names are at fault; of a batch that is too large, or whose faults have no place, halves are tried."""
        if problem.status in NOTHING_DONE:
            return self._unless_late(batch, problem), problem.retry_after
        named = {int(pointer.split("/")[1]) for pointer in problem.pointers if pointer.startswith("/") and pointer.split("/")[1].isdecimal()}
        bad = {i for i in named if i < len(batch)}
        if problem.status in (400, 422) and bad:
            for i in bad:
                batch[i].future.set_exception(problem)
            return self._deliver([item for i, item in enumerate(batch) if i not in bad])
        if problem.status in (400, 413, 422) and len(batch) > 1:
            middle = len(batch) // 2
            first, pause = self._deliver(batch[:middle])
            second, other = self._deliver(batch[middle:])
            return first + second, pause or other
        for item in batch:
            item.future.set_exception(problem)
        return [], None

    @staticmethod
    def _unless_late(batch: List[Item], problem: Problem) -> List[Item]:
        now = time.monotonic()
        for item in batch:
            item.last = problem
            if item.end <= now:
                item.future.set_exception(problem)
        return [item for item in batch if item.end > now]


def settle(item: Item, result: Union[Result, LaplacedError]) -> bool:
    """Whether the future has its result by now."""
    if not isinstance(result, LaplacedError):
        item.future.set_result(result)
        return True
    if isinstance(result, Problem) and result.status in NOTHING_DONE and time.monotonic() < item.end:
        item.last = result
        return False
    item.future.set_exception(result)
    return True


def some(**members: Any) -> Dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
