"""Are the tools well? Each is asked by its own probe, or by a sample call that it declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..errors.exceptions import ConfigurationError
from ..invocation.invocation import ToolInvocation
from ..tools.spec import ToolSpec


class HealthStatus(StrEnum):
    """How a tool is."""

    HEALTHY = "healthy"
    FAILING = "failing"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class ToolHealth:
    """How one tool is.

    Attributes:
        tool, version: which.
        status: `SKIPPED`: it has no probe, or it writes and was not to be asked.
        latency_ms: how long the probe took.
        message: what is wrong, or why it was skipped.
        code: the error code, if it is failing.
        circuit: the state of its circuit; `None`: it has none.
        circuit_opens: what it takes to open that circuit, in words; empty: it has none.
    """

    tool: str
    version: str
    status: HealthStatus
    latency_ms: float | None = None
    message: str = ""
    code: str | None = None
    circuit: str | None = None
    circuit_opens: str = ""


@dataclass(frozen=True, slots=True)
class HealthReport:
    """How all tools are; the tools in the order of registration."""

    tools: tuple[ToolHealth, ...]

    @property
    def is_healthy(self) -> bool:
        """No tool that was asked is failing."""
        return all(tool.status is not HealthStatus.FAILING for tool in self.tools)


def probe_of(spec: ToolSpec) -> tuple[ToolSpec, Mapping[str, Any]] | None:
    """The probe of a tool as a tool of its own, and its arguments; `None`: it declares none.

    It runs like any call, so it has a thread, a limit and a log line, but it has neither circuit nor fallback, is not
    retried, and asks nobody for approval.
    """
    probe = spec.health_check
    if probe is None:
        return None
    plain: dict[str, Any] = {
        "timeout": None,
        "idle_timeout": None,
        "deadline": None,
        "max_retries": None,
        "retry": None,
        "breaker": None,
        "breaker_group": None,
        "rate_limit": None,
        "max_concurrency": 1,
        "single_flight": False,
        "fallback": None,
        "needs_approval": False,
        "canary": None,
        "health_check": None,
    }
    if isinstance(probe, Mapping):
        return spec.replaced(**plain), probe
    try:
        made = ToolSpec(
            name=spec.name,
            func=probe,
            description=f"Is {spec.name} well?",
            timeout=None,
            max_concurrency=1,
            version=spec.version,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"tool {spec.name!r}: health_check: {error}") from None
    return made, {}


def skipped(spec: ToolSpec, why: str, circuit: str | None) -> ToolHealth:
    """The entry of a tool that was not asked."""
    return ToolHealth(
        spec.name, spec.version, HealthStatus.SKIPPED, message=why, circuit=circuit, circuit_opens=_opens(spec)
    )


def read_probe(spec: ToolSpec, invocation: ToolInvocation, circuit: str | None) -> ToolHealth:
    """What a probe came to: an error or a plain `False` says that the tool is not well."""
    error, response = invocation.error, invocation.response
    seconds = (invocation.ended_at or invocation.started_at) - invocation.started_at
    latency = round(seconds * 1000, 3)
    if error is not None:
        return ToolHealth(
            spec.name, spec.version, HealthStatus.FAILING, latency, error.message, error.code, circuit, _opens(spec)
        )
    if response is not None and response.data is False:
        message = "its probe answered False"
        return ToolHealth(
            spec.name, spec.version, HealthStatus.FAILING, latency, message, "EXECUTION_ERROR", circuit, _opens(spec)
        )
    return ToolHealth(
        spec.name, spec.version, HealthStatus.HEALTHY, latency, circuit=circuit, circuit_opens=_opens(spec)
    )


def _opens(spec: ToolSpec) -> str:
    return "" if spec.breaker is None else spec.breaker.opens
