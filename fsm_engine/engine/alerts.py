"""What somebody should be told of at once: circuits that change, health that fails, threads that run out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..breaker.circuit_breaker import CircuitBreaker
from ..breaker.events import BreakerEvent
from ..clock import Clock
from ..errors.exceptions import ConfigurationError
from ..logs import tell_fault
from ..states.circuit import CircuitState
from ..tools.spec import ToolSpec


class AlertKind(StrEnum):
    """What an alert is about."""

    CIRCUIT_OPENED = "circuit_opened"
    CIRCUIT_HALF_OPEN = "circuit_half_open"
    CIRCUIT_CLOSED = "circuit_closed"
    CIRCUIT_MODE = "circuit_mode"
    HEALTH_FAILING = "health_failing"
    HEALTH_RECOVERED = "health_recovered"
    THREADS_EXHAUSTED = "threads_exhausted"
    THREADS_FREE = "threads_free"
    LATE_RESULT = "late_result"
    TOOL_ABANDONED = "tool_abandoned"


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that somebody should know.

    Attributes:
        kind: what it is about.
        tool, version: which tool; `None`: no single one.
        group: the circuit's group, if it has one.
        reason: why, machine-readable: `failure_rate`, `manual`, ...
        at: monotonic seconds.
        wall: seconds since the epoch, for display.
    """

    kind: AlertKind
    tool: str | None
    version: str | None
    group: str | None
    reason: str
    at: float
    wall: float


_BY_STATE = {
    CircuitState.OPEN: AlertKind.CIRCUIT_OPENED,
    CircuitState.FORCED_OPEN: AlertKind.CIRCUIT_OPENED,
    CircuitState.HALF_OPEN: AlertKind.CIRCUIT_HALF_OPEN,
    CircuitState.CLOSED: AlertKind.CIRCUIT_CLOSED,
}


class Alerts:
    """Hands alerts to those who asked for them, each once for a change, and cannot be broken by what they do."""

    def __init__(self, clock: Clock, logger: Any) -> None:
        self._clock = clock
        self._logger = logger
        self._receivers: list[Callable[[Alert], object]] = []
        self._are_threads_short = False

    def subscribe(self, receiver: Callable[[Alert], object]) -> Callable[[], None]:
        """Hand every alert to this function from now on; answers a function that ends it.

        Raises:
            ConfigurationError: the receiver is no function, or one that would have to be awaited.
        """
        if not callable(receiver):
            raise ConfigurationError(f"an alert goes to a function, not to {type(receiver).__name__}")
        if inspect.iscoroutinefunction(receiver) or inspect.iscoroutinefunction(type(receiver).__call__):
            raise ConfigurationError(
                "an alert waits for nobody, but the receiver is a coroutine function; start a task in a plain function"
            )
        self._receivers.append(receiver)

        def stop() -> None:
            if receiver in self._receivers:
                self._receivers.remove(receiver)

        return stop

    def send(self, kind: AlertKind, spec: ToolSpec | None = None, *, reason: str, is_of_group: bool = False) -> None:
        """Tell everybody; a receiver that raises is logged.

        Args:
            spec: the tool.
            is_of_group: it stands for all tools of its circuit's group.
        """
        group = None if spec is None else spec.breaker_group
        is_of_tool = spec is not None and not (is_of_group and group is not None)
        tool, version = (spec.name, spec.version) if spec is not None and is_of_tool else (None, None)
        alert = Alert(kind, tool, version, group, reason, self._clock.monotonic(), self._clock.wall())
        for receiver in tuple(self._receivers):
            try:
                receiver(alert)
            except BaseException as error:  # noqa: BLE001 # whatever it is, it is the receiver's own affair
                tell_fault(self._logger, "alert receiver failed", error, kind=str(kind))

    def circuit_changed(self, breaker: CircuitBreaker, event: BreakerEvent, spec: ToolSpec | None) -> None:
        """A circuit has moved into another state.

        Args:
            spec: a tool that has this circuit.
        """
        if event.source == event.dest:
            return
        kind = _BY_STATE.get(event.dest, AlertKind.CIRCUIT_MODE)
        self._logger.warning("circuit changed", circuit=breaker.name, dest=str(event.dest), reason=str(event.reason))
        self.send(kind, spec, reason=str(event.reason), is_of_group=True)

    def threads_short(self, spec: ToolSpec) -> None:
        """Somebody must wait for a thread; said once until there are free ones again."""
        if not self._are_threads_short:
            self._are_threads_short = True
            self._logger.warning("all threads are busy", tool=spec.name)
            self.send(AlertKind.THREADS_EXHAUSTED, spec, reason="all_threads_busy")

    def begin_in_child(self) -> None:
        """In a child process no thread is busy, and nobody needs to hear of it."""
        self._are_threads_short = False

    def threads_free(self) -> None:
        """Nobody waits for a thread any more."""
        if self._are_threads_short:
            self._are_threads_short = False
            self.send(AlertKind.THREADS_FREE, reason="thread_freed")
