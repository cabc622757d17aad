"""The same client for asyncio. Each request runs in a thread of a pool of its own, so at most `threads` are under way; the loop never waits. A task that is cancelled
stops waiting, and its request ends by itself, at its deadline at the latest."""
from __future__ import annotations

import asyncio
import functools
import ssl
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, AsyncIterator, Callable, Iterable, List, Mapping, Optional, Sequence, Type, TypeVar, Union

from .client import REWARDS_AT_MOST, Client
from .errors import Problem
from .retry import Retry
from .rewards import Rewards
from .types import Activation, Attributes, Candidate, CatalogueSize, Configuration, Context, Decision, Edge, GraphSize, Object, Observed, RewardResult, Slot, User

T = TypeVar("T")


class AsyncClient:
    """Its methods are those of `Client`."""

    def __init__(self, url: str, *, key: Optional[str] = None, tenant: Optional[str] = None, timeout_s: float = 30.0, try_s: float = 10.0, retry: Retry = Retry(),
                 ssl_context: Optional[ssl.SSLContext] = None, kept_s: float = 20.0, threads: int = 32) -> None:
        self._client = Client(url, key=key, tenant=tenant, timeout_s=timeout_s, try_s=try_s, retry=retry, ssl_context=ssl_context, kept_s=kept_s)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="laplaced")

    async def close(self) -> None:
        """Waits for the requests that are under way."""
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)
        self._client.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], fault: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()

    async def _run(self, call: Callable[..., T], *args: Any, **options: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, functools.partial(call, *args, **options))

    async def select(self, user: User, *, candidates: Optional[Sequence[Candidate]] = None, context: Optional[Context] = None,
                     attributes: Optional[Attributes] = None, exclude: Optional[Sequence[str]] = None, top: Optional[int] = None, slots: Optional[Sequence[Slot]] = None,
                     explain: Optional[bool] = None, neighbours: Optional[int] = None, dry_run: Optional[bool] = None, defer: Optional[bool] = None, decision: Optional[str] = None,
                     tenant: Optional[str] = None, timeout_s: Optional[float] = None) -> Decision:
        return await self._run(self._client.select, user, candidates=candidates, context=context, attributes=attributes, exclude=exclude, top=top, slots=slots,
                               explain=explain, neighbours=neighbours, dry_run=dry_run, defer=defer, decision=decision, tenant=tenant, timeout_s=timeout_s)

    async def reward(self, decision: str, reward: float, *, arm: Optional[str] = None, slot: Optional[str] = None, metric: Optional[str] = None,
                     event: Optional[str] = None, at: Optional[str] = None,
                     id: Optional[str] = None, tenant: Optional[str] = None, timeout_s: Optional[float] = None) -> RewardResult:
        return await self._run(self._client.reward, decision, reward, arm=arm, slot=slot, metric=metric, event=event, at=at, id=id, tenant=tenant, timeout_s=timeout_s)

    async def reward_user(self, user: User, reward: float, *, all: Optional[bool] = None, arm: Optional[str] = None, slot: Optional[str] = None, metric: Optional[str] = None,
                          event: Optional[str] = None,
                          at: Optional[str] = None, id: Optional[str] = None, tenant: Optional[str] = None,
                          timeout_s: Optional[float] = None) -> RewardResult:
        return await self._run(self._client.reward_user, user, reward, all=all, arm=arm, slot=slot, metric=metric, event=event, at=at, id=id, tenant=tenant, timeout_s=timeout_s)

    async def reward_many(self, rewards: Sequence[Mapping[str, Any]], *, tenant: Optional[str] = None,
                          timeout_s: Optional[float] = None) -> List[Union[RewardResult, Problem]]:
        return await self._run(self._client.reward_many, rewards, tenant=tenant, timeout_s=timeout_s)

    async def activate(self, decision: str, *, tenant: Optional[str] = None, timeout_s: Optional[float] = None) -> Activation:
        return await self._run(self._client.activate, decision, tenant=tenant, timeout_s=timeout_s)

    async def observe(self, user: User, arm: Candidate, reward: float, *, context: Optional[Context] = None, propensity: Optional[float] = None,
                      id: Optional[str] = None, tenant: Optional[str] = None, timeout_s: Optional[float] = None) -> Observed:
        return await self._run(self._client.observe, user, arm, reward, context=context, propensity=propensity, id=id, tenant=tenant, timeout_s=timeout_s)

    async def observe_many(self, observations: Iterable[Mapping[str, Any]], *, tenant: Optional[str] = None, timeout_s: Optional[float] = None) -> Observed:
        return await self._run(self._client.observe_many, observations, tenant=tenant, timeout_s=timeout_s)

    async def put_tenant(self, tenant: str, configuration: Configuration, *, timeout_s: Optional[float] = None) -> Object:
        return await self._run(self._client.put_tenant, tenant, configuration, timeout_s=timeout_s)

    async def patch_tenant(self, tenant: str, patch: Configuration, *, timeout_s: Optional[float] = None) -> Object:
        return await self._run(self._client.patch_tenant, tenant, patch, timeout_s=timeout_s)

    async def get_tenant(self, tenant: str, *, timeout_s: Optional[float] = None) -> Object:
        return await self._run(self._client.get_tenant, tenant, timeout_s=timeout_s)

    async def delete_tenant(self, tenant: str, *, timeout_s: Optional[float] = None) -> None:
        await self._run(self._client.delete_tenant, tenant, timeout_s=timeout_s)

    async def put_graph(self, tenant: str, edges: Sequence[Edge], *, users: Optional[Sequence[str]] = None, timeout_s: Optional[float] = None) -> GraphSize:
        return await self._run(self._client.put_graph, tenant, edges, users=users, timeout_s=timeout_s)

    async def put_arms(self, tenant: str, arms: Sequence[Candidate], *, timeout_s: Optional[float] = None) -> CatalogueSize:
        return await self._run(self._client.put_arms, tenant, arms, timeout_s=timeout_s)

    async def stop(self, tenant: str, *, timeout_s: Optional[float] = None) -> Object:
        return await self._run(self._client.stop, tenant, timeout_s=timeout_s)

    async def start(self, tenant: str, *, timeout_s: Optional[float] = None) -> Object:
        return await self._run(self._client.start, tenant, timeout_s=timeout_s)

    async def erase_user(self, tenant: str, user: str, *, timeout_s: Optional[float] = None) -> Any:
        return await self._run(self._client.erase_user, tenant, user, timeout_s=timeout_s)

    async def stats(self, tenant: str, *, timeout_s: Optional[float] = None) -> Object:
        return await self._run(self._client.stats, tenant, timeout_s=timeout_s)

    async def model(self, tenant: str, *, timeout_s: Optional[float] = None) -> Object:
        return await self._run(self._client.model, tenant, timeout_s=timeout_s)

    async def experiment(self, tenant: str, *, timeout_s: Optional[float] = None) -> Object:
        return await self._run(self._client.experiment, tenant, timeout_s=timeout_s)

    async def decision(self, tenant: str, decision: str, *, timeout_s: Optional[float] = None) -> Object:
        return await self._run(self._client.decision, tenant, decision, timeout_s=timeout_s)

    async def replay(self, tenant: str, configuration: Configuration, events: Optional[Iterable[Mapping[str, Any]]] = None, *,
                     timeout_s: float = 600.0) -> Object:
        return await self._run(self._client.replay, tenant, configuration, events, timeout_s=timeout_s)

    async def call(self, method: str, path: str, body: Any = None, *, raw: Optional[bytes] = None, kind: Optional[str] = None, query: Optional[Mapping[str,
                   Any]] = None, tenant: Optional[str] = None, may_repeat: Optional[bool] = None, parse: bool = True, timeout_s: Optional[float] = None,
                   try_s: Optional[float] = None) -> Any:
        return await self._run(self._client.call, method, path, body, raw=raw, kind=kind, query=query, tenant=tenant, may_repeat=may_repeat, parse=parse,
                               timeout_s=timeout_s, try_s=try_s)

    async def events(self, tenant: str, *, after: int = 0, page: int = 10000, timeout_s: Optional[float] = None) -> AsyncIterator[Object]:
        while True:
            found = await self._run(self._client._page, tenant, after, page, timeout_s)
            if not found:
                return
            for event in found:
                yield event
            after = int(found[-1]["seq"])

    def rewards(self, *, tenant: Optional[str] = None, most: int = 500, wait_s: float = 0.1, waiting_most: int = 10000, timeout_s: float = 60.0) -> AsyncRewards:
        return AsyncRewards(self._client.rewards(tenant=tenant, most=min(most, REWARDS_AT_MOST), wait_s=wait_s, waiting_most=waiting_most, timeout_s=timeout_s))


class AsyncRewards:
    """Rewards in batches: `await rewards.add(...)` waits for room alone, and gives a future to await for the result."""

    def __init__(self, rewards: Rewards) -> None:
        self._rewards = rewards

    async def __aenter__(self) -> AsyncRewards:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], fault: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()

    async def add(self, decision: str, reward: float, *, arm: Optional[str] = None, slot: Optional[str] = None, metric: Optional[str] = None,
                  event: Optional[str] = None, at: Optional[str] = None,
                  id: Optional[str] = None) -> "asyncio.Future[RewardResult]":
        return await self._put(functools.partial(self._rewards.add, decision, reward, arm=arm, slot=slot, metric=metric, event=event, at=at, id=id))

    async def add_user(self, user: User, reward: float, *, all: Optional[bool] = None, arm: Optional[str] = None, slot: Optional[str] = None, metric: Optional[str] = None,
                       event: Optional[str] = None,
                       at: Optional[str] = None, id: Optional[str] = None) -> "asyncio.Future[RewardResult]":
        return await self._put(functools.partial(self._rewards.add_user, user, reward, all=all, arm=arm, slot=slot, metric=metric, event=event, at=at, id=id))

    async def flush(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._rewards.flush)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._rewards.close)

    async def _put(self, put: Callable[[], Any]) -> "asyncio.Future[RewardResult]":
        return asyncio.wrap_future(await asyncio.get_running_loop().run_in_executor(None, put))
