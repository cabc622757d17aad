"""The client that waits. Each method is one request, sent again as often as it takes until its deadline; with ids of its own where the caller gives none, so
that sending it again is safe. Methods may be called from several threads."""
from __future__ import annotations

import json
import math
import ssl
import time
import uuid
from types import TracebackType
from typing import Any, Callable, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Type, Union, cast
from urllib.parse import quote, urlencode

from .errors import ConnectionFailed, LaplacedError, Problem, problem_of, problem_of_answer
from .retry import NOTHING_DONE, PERHAPS_DONE, Retry, parse_retry_after
from .rewards import Rewards
from .transport import FAILURES, NotSent, Transport
from .types import Activation, Attributes, Candidate, CatalogueSize, Configuration, Context, Decision, Edge, GraphSize, Object, Observed, RewardResult, Slot, User

NDJSON = "application/x-ndjson"
MERGE_PATCH = "application/merge-patch+json"
REWARDS_AT_MOST = 1000


def new_id() -> str:
    return uuid.uuid4().hex


def given(**members: Any) -> Object:
    """The members that somebody gave."""
    return {name: value for name, value in members.items() if value is not None}


def slots_of(slots: Optional[Sequence[Slot]]) -> Optional[List[Any]]:
    """A name stands for the slot that has nothing else."""
    return None if slots is None else [{"id": slot} if isinstance(slot, str) else slot for slot in slots]


def path_of(tenant: str, *parts: str) -> str:
    return "/".join(["/tenants", quote(tenant, safe=""), *(quote(part, safe="") for part in parts)])


def lines(text: bytes) -> List[Object]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def document(text: bytes) -> Any:
    return json.loads(text) if text else None


def untouched(text: bytes) -> bytes:
    return text


class Asked(NamedTuple):
    """One request, as it is sent however often."""
    method: str
    target: str
    headers: Mapping[str, str]
    data: Optional[bytes]
    read: Callable[[bytes], Any]  # makes the result of the answer's body; a ValueError says that the body is none
    may_repeat: bool
    try_s: float


class Result(NamedTuple):
    value: Any


def failed(asked: Asked, cause: Exception) -> ConnectionFailed:
    fault = ConnectionFailed(f"{asked.method} {asked.target}: {cause or type(cause).__name__}")
    fault.__cause__ = cause
    return fault


class Client:
    """`key`: of `Authorization: Bearer`. `tenant`: the one that is meant where a method names none. `timeout_s`: a request's deadline with all of its tries;
    `try_s`: how long one try may take."""

    def __init__(self, url: str, *, key: Optional[str] = None, tenant: Optional[str] = None, timeout_s: float = 30.0, try_s: float = 10.0, retry: Retry = Retry(),
                 ssl_context: Optional[ssl.SSLContext] = None, kept_s: float = 20.0) -> None:
        self._transport = Transport(url, ssl_context, kept_s)
        self._key, self._tenant = key, tenant
        self._timeout_s, self._try_s, self._retry = timeout_s, try_s, retry

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], fault: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    # ---- decisions

    def select(self, user: User, *, candidates: Optional[Sequence[Candidate]] = None, context: Optional[Context] = None, attributes: Optional[Attributes] = None,
               exclude: Optional[Sequence[str]] = None, top: Optional[int] = None, slots: Optional[Sequence[Slot]] = None, explain: Optional[bool] = None, neighbours: Optional[int] = None, dry_run: Optional[bool] = None,
               defer: Optional[bool] = None, decision: Optional[str] = None, tenant: Optional[str] = None, timeout_s: Optional[float] = None) -> Decision:
        """Which arm this user gets now, or which arms where there are `slots`. `decision` is the decision's id, made here when it is left out."""
        body = given(user=user, candidates=candidates, context=context, attributes=attributes, exclude=exclude, top=top, slots=slots_of(slots), explain=explain,
                     neighbours=neighbours, dry_run=dry_run, defer=defer, decision=decision or new_id())
        return cast(Decision, self.call("POST", "/select", body, may_repeat=True, tenant=tenant, timeout_s=timeout_s))

    def reward(self, decision: str, reward: float, *, arm: Optional[str] = None, slot: Optional[str] = None, metric: Optional[str] = None,
               event: Optional[str] = None, at: Optional[str] = None, id: Optional[str] = None,
               tenant: Optional[str] = None, timeout_s: Optional[float] = None) -> RewardResult:
        """What the decision has earned, or its `slot`. `id` is the reward's, made here when it is left out: one call is learned once."""
        body = given(decision=decision, reward=reward, arm=arm, slot=slot, metric=metric, event=event, at=at, id=id or new_id())
        return cast(RewardResult, self.call("POST", "/reward", body, may_repeat=True, tenant=tenant, timeout_s=timeout_s))

    def reward_user(self, user: User, reward: float, *, all: Optional[bool] = None, arm: Optional[str] = None, slot: Optional[str] = None, metric: Optional[str] = None,
                    event: Optional[str] = None, at: Optional[str] = None,
                    id: Optional[str] = None, tenant: Optional[str] = None, timeout_s: Optional[float] = None) -> RewardResult:
        """What the user did, for the open decision that was shown last, or with `all` for every open one."""
        body = given(user=user, reward=reward, all=all, arm=arm, slot=slot, metric=metric, event=event, at=at, id=id or new_id())
        return cast(RewardResult, self.call("POST", "/reward", body, may_repeat=True, tenant=tenant, timeout_s=timeout_s))

    def reward_many(self, rewards: Sequence[Mapping[str, Any]], *, tenant: Optional[str] = None,
                    timeout_s: Optional[float] = None) -> List[Union[RewardResult, Problem]]:
        """Rewards in the form of the request's body, at most 1,000, each answered in its place. What lacks an `id` gets one."""
        if not 0 < len(rewards) <= REWARDS_AT_MOST:
            raise ValueError(f"1 to {REWARDS_AT_MOST} rewards at a time, not {len(rewards)}")
        body = [{**reward, "id": reward.get("id") or new_id()} for reward in rewards]
        results = self.call("POST", "/reward", body, may_repeat=True, tenant=tenant, timeout_s=timeout_s)
        if not isinstance(results, list) or len(results) != len(body) or not all(isinstance(result, dict) for result in results):
            raise ConnectionFailed(f"POST /reward: the answer is not one of {len(body)} results")
        return [problem_of(result["status"], result) if "status" in result else cast(RewardResult, result) for result in results]

    def rewards(self, *, tenant: Optional[str] = None, most: int = 500, wait_s: float = 0.1, waiting_most: int = 10000, timeout_s: float = 60.0) -> Rewards:
        """Rewards in batches, by a thread of their own."""
        return Rewards(self.reward_many, tenant=tenant, most=min(most, REWARDS_AT_MOST), wait_s=wait_s, waiting_most=waiting_most, timeout_s=timeout_s, retry=self._retry)

    def activate(self, decision: str, *, tenant: Optional[str] = None, timeout_s: Optional[float] = None) -> Activation:
        """A deferred decision was shown."""
        return cast(Activation, self.call("POST", "/activate", {"decision": decision}, may_repeat=True, tenant=tenant, timeout_s=timeout_s))

    def observe(self, user: User, arm: Candidate, reward: float, *, context: Optional[Context] = None, propensity: Optional[float] = None, id: Optional[str] = None,
                tenant: Optional[str] = None, timeout_s: Optional[float] = None) -> Observed:
        """A reward without a decision of this server."""
        body = given(user=user, arm=arm, reward=reward, context=context, propensity=propensity, id=id or new_id())
        return cast(Observed, self.call("POST", "/observe", body, may_repeat=True, tenant=tenant, timeout_s=timeout_s))

    def observe_many(self, observations: Iterable[Mapping[str, Any]], *, tenant: Optional[str] = None, timeout_s: Optional[float] = None) -> Observed:
        """At most 10,000 observations, as NDJSON. What lacks an `id` gets one."""
        text = "".join(json.dumps({**one, "id": one.get("id") or new_id()}, allow_nan=False) + "\n" for one in observations)
        return cast(Observed, self.call("POST", "/observe", raw=text.encode(), kind=NDJSON, may_repeat=True, tenant=tenant, timeout_s=timeout_s))

    # ---- tenants

    def put_tenant(self, tenant: str, configuration: Configuration, *, timeout_s: Optional[float] = None) -> Object:
        return cast(Object, self.call("PUT", path_of(tenant), configuration, timeout_s=timeout_s))

    def patch_tenant(self, tenant: str, patch: Configuration, *, timeout_s: Optional[float] = None) -> Object:
        """A merge patch says how fields shall be, so it may be sent twice. One with a `version` is not: the second time it would be a conflict."""
        return cast(Object, self.call("PATCH", path_of(tenant), patch, kind=MERGE_PATCH, may_repeat="version" not in patch, timeout_s=timeout_s))

    def get_tenant(self, tenant: str, *, timeout_s: Optional[float] = None) -> Object:
        return cast(Object, self.call("GET", path_of(tenant), timeout_s=timeout_s))

    def delete_tenant(self, tenant: str, *, timeout_s: Optional[float] = None) -> None:
        self.call("DELETE", path_of(tenant), may_repeat=False, timeout_s=timeout_s)

    def put_graph(self, tenant: str, edges: Sequence[Edge], *, users: Optional[Sequence[str]] = None, timeout_s: Optional[float] = None) -> GraphSize:
        return cast(GraphSize, self.call("PUT", path_of(tenant, "graph"), given(edges=edges, users=users), timeout_s=timeout_s))

    def put_arms(self, tenant: str, arms: Sequence[Candidate], *, timeout_s: Optional[float] = None) -> CatalogueSize:
        body = {"arms": [{"id": arm} if isinstance(arm, str) else arm for arm in arms]}
        return cast(CatalogueSize, self.call("PUT", path_of(tenant, "arms"), body, timeout_s=timeout_s))

    def stop(self, tenant: str, *, timeout_s: Optional[float] = None) -> Object:
        """Everybody gets the baseline."""
        return cast(Object, self.call("POST", path_of(tenant, "stop"), may_repeat=True, timeout_s=timeout_s))

    def start(self, tenant: str, *, timeout_s: Optional[float] = None) -> Object:
        return cast(Object, self.call("POST", path_of(tenant, "start"), may_repeat=True, timeout_s=timeout_s))

    def erase_user(self, tenant: str, user: str, *, timeout_s: Optional[float] = None) -> Any:
        """All of the user leaves the log, which takes as long as a fold of it: give it a `timeout_s` for that. It is asked for once. After ConnectionFailed call
        it again; NotFound with the kind no-user then says that nothing is left."""
        return self.call("DELETE", path_of(tenant, "users", user), may_repeat=False, timeout_s=timeout_s, try_s=math.inf)

    # ---- what happened

    def stats(self, tenant: str, *, timeout_s: Optional[float] = None) -> Object:
        return cast(Object, self.call("GET", path_of(tenant, "stats"), timeout_s=timeout_s))

    def model(self, tenant: str, *, timeout_s: Optional[float] = None) -> Object:
        return cast(Object, self.call("GET", path_of(tenant, "model"), timeout_s=timeout_s))

    def experiment(self, tenant: str, *, timeout_s: Optional[float] = None) -> Object:
        return cast(Object, self.call("GET", path_of(tenant, "experiment"), timeout_s=timeout_s))

    def decision(self, tenant: str, decision: str, *, timeout_s: Optional[float] = None) -> Object:
        """One decision as the log has it."""
        return cast(Object, self.call("GET", path_of(tenant, "decisions", decision), timeout_s=timeout_s))

    def events(self, tenant: str, *, after: int = 0, page: int = 10000, timeout_s: Optional[float] = None) -> Iterator[Object]:
        """The log's events behind `after`, in their order, to the end that it has by then."""
        while True:
            found = self._page(tenant, after, page, timeout_s)
            if not found:
                return
            yield from found
            after = int(found[-1]["seq"])

    def _page(self, tenant: str, after: int, page: int, timeout_s: Optional[float]) -> List[Object]:
        query = {"after": after, "limit": page}
        return cast(List[Object], self._ask("GET", path_of(tenant, "events"), lines, query=query, timeout_s=timeout_s))

    def replay(self, tenant: str, configuration: Configuration, events: Optional[Iterable[Mapping[str, Any]]] = None, *, timeout_s: float = 600.0) -> Object:
        """What another configuration would have learned and earned on a log: the tenant's own, or `events`."""
        first = {"type": "replay", "configuration": configuration, "log": "own" if events is None else "body"}
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in [first, *(events or [])])
        answer = self._ask("POST", path_of(tenant, "replay"), lines, raw=text.encode(), kind=NDJSON, timeout_s=timeout_s, try_s=timeout_s)
        last: Object = answer[-1] if answer else {}
        if last.get("type") == "failed":
            raise problem_of(last["problem"]["status"], last["problem"])
        if last.get("type") != "report":
            raise ConnectionFailed("the replay ended before its report")
        return last

    # ---- any request

    def call(self, method: str, path: str, body: Any = None, *, raw: Optional[bytes] = None, kind: Optional[str] = None, query: Optional[Mapping[str, Any]] = None,
             tenant: Optional[str] = None, may_repeat: Optional[bool] = None, parse: bool = True, timeout_s: Optional[float] = None, try_s: Optional[float] = None) -> Any:
        """The answer's body. `may_repeat`: whether the request may be sent again when it is not known what became of it; left out, a POST may not, anything else
        may. A refusal by 429 or 503 has changed nothing, so after those any request is sent again."""
        data = raw if raw is not None or body is None else json.dumps(body, allow_nan=False).encode()
        return self._ask(method, path, document if parse else untouched, raw=data, kind=kind, query=query, tenant=tenant,
                         may_repeat=method != "POST" if may_repeat is None else may_repeat, timeout_s=timeout_s, try_s=try_s)

    def _ask(self, method: str, path: str, read: Callable[[bytes], Any], *, raw: Optional[bytes] = None, kind: Optional[str] = None,
             query: Optional[Mapping[str, Any]] = None, tenant: Optional[str] = None, may_repeat: bool = True, timeout_s: Optional[float] = None,
             try_s: Optional[float] = None) -> Any:
        target = path + ("?" + urlencode(query) if query else "")
        asked = Asked(method, target, self._headers(raw, kind, tenant or self._tenant), raw, read, may_repeat, try_s or self._try_s)
        end = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        n_failed = 0
        while True:
            fault, again, retry_after = self._attempt(asked, end)
            if isinstance(fault, Result):
                return fault.value
            n_failed += 1
            wait = self._retry.wait(n_failed, retry_after)
            if not again or n_failed == self._retry.attempts or time.monotonic() + wait >= end:
                raise fault
            time.sleep(wait)

    def _attempt(self, asked: Asked, end: float) -> tuple[Union[Result, LaplacedError], bool, Optional[float]]:
        """(the result or what went wrong, whether to try again, when at the earliest)"""
        try:
            answer = self._transport.send(asked.method, asked.target, asked.headers, asked.data, min(end, time.monotonic() + asked.try_s), asked.may_repeat)
        except (NotSent, *FAILURES) as fault:
            return failed(asked, fault), asked.may_repeat or isinstance(fault, NotSent), None
        if answer.status < 400:
            try:
                return Result(asked.read(answer.body)), False, None
            except ValueError as fault:  # cut off where nothing tells the length, or a proxy's page
                return failed(asked, fault), asked.may_repeat, None
        retry_after = parse_retry_after(answer.headers.get("retry-after"))
        problem = problem_of_answer(answer.status, answer.body, retry_after, answer.headers.get("laplaced-request", ""))
        return problem, answer.status in NOTHING_DONE or asked.may_repeat and answer.status in PERHAPS_DONE, retry_after

    def _headers(self, data: Optional[bytes], kind: Optional[str], tenant: Optional[str]) -> Mapping[str, str]:
        headers = {"User-Agent": "laplaced-python", "Accept": "*/*"}
        if data is not None:
            headers["Content-Type"] = kind or "application/json"
        if tenant is not None:
            headers["Laplaced-Tenant"] = tenant
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers
