"""What the server answers, as openapi.yaml has it. Answers are plain dictionaries; these types are for editors and type checkers. A member that a newer server
adds is there, too."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, TypedDict, Union

JSON = Any
Candidate = Union[str, Mapping[str, Any]]
Context = Union[Sequence[float], Mapping[str, Any]]  # a vector, or named features where the tenant has `features`
User = Union[str, int]  # a whole number means its digits
Slot = Union[str, Mapping[str, Any]]  # a name, or the slot with what else it has
Attributes = Mapping[str, str]
Edge = Sequence[Union[str, float]]
Configuration = Mapping[str, Any]


class _Ranked(TypedDict):
    arm: str
    propensity: float


class Ranked(_Ranked, total=False):
    mean: float
    sd: float
    lower: float
    upper: float
    score: float
    value: JSON


class _SlotChoice(TypedDict):
    id: str
    arm: str
    propensity: float  # given the arms of the slots before
    ranking: List[Ranked]


class SlotChoice(_SlotChoice, total=False):
    route: str
    value: JSON


class ModelSize(TypedDict):
    events: int
    dictionary: int


class _Decision(TypedDict):
    decision: str
    arm: str
    propensity: float
    ranking: List[Ranked]
    model: ModelSize


class Decision(_Decision, total=False):
    slots: List[SlotChoice]
    route: str
    value: JSON


class _RewardResult(TypedDict):
    applied: bool


class RewardResult(_RewardResult, total=False):
    duplicate: bool
    decisions: List[str]


class _Activation(TypedDict):
    activated: bool


class Activation(_Activation, total=False):
    duplicate: bool


class _Observed(TypedDict):
    observed: int


class Observed(_Observed, total=False):
    duplicates: int


class GraphSize(TypedDict):
    users: int
    edges: int


class CatalogueSize(TypedDict):
    arms: int
    active: int


Object = Dict[str, Any]
