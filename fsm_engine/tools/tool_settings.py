"""The settings of a tool as a type, so that checkers and editors know them wherever they are given by keyword."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from ..breaker.policy import BreakerPolicy
    from ..invocation.substitute import FallbackPolicy
    from ..schema.answers import Validator
    from .rate import RateLimit
    from .retry import RetryPolicy

HealthProbe: TypeAlias = Callable[[], Any] | Mapping[str, Any]
NeedsApproval: TypeAlias = bool | Callable[[Mapping[str, Any]], bool]


class ToolSettings(TypedDict, total=False):
    """What `@tool` and `register` take; see `ToolSpec` for what each is for."""

    name: str
    description: str
    parameters_schema: Mapping[str, Any] | None
    validator: Validator | list[Validator] | tuple[Validator, ...] | None
    timeout: float | None
    idle_timeout: float | None
    deadline: float | None
    max_retries: int | None
    retry: RetryPolicy | None
    max_concurrency: int | None
    max_queue: int | None
    rate_limit: RateLimit | None
    single_flight: bool
    key: Callable[[Mapping[str, Any]], Hashable] | None
    breaker: BreakerPolicy | None
    breaker_group: str | None
    executor: Literal["thread", "process"] | Executor
    idempotent: bool
    read_only: bool
    destructive: bool
    needs_approval: NeedsApproval
    approval_timeout: float | None
    fallback: Literal["last_good"] | Callable[..., Any] | FallbackPolicy | None
    output_schema: Mapping[str, Any] | None
    max_result_chars: int | None
    sensitive: frozenset[str] | set[str] | tuple[str, ...] | list[str]
    health_check: HealthProbe | None
    version: str
    canary: float | None
    tags: tuple[str, ...]
    lint: bool


class ToolChanges(ToolSettings, total=False):
    """What `ToolSpec.replaced` takes: another function besides."""

    func: Callable[..., Any]
