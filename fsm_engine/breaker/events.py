"""What happens to a circuit, as records, and the isolation of whoever listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ..logs import log_fault
from ..states.circuit import CircuitState


class BreakerEventKind(StrEnum):
    """What an event tells of."""

    STATE_CHANGED = "state_changed"
    LATE_RESULT = "late_result"
    """A result came back after the state that permitted the call had ended; it is not counted."""
    PROBES_PASSED = "probes_passed"
    """Enough probes went well, and the policy wants a person to close the circuit."""


class ChangeReason(StrEnum):
    """Why it happened."""

    FAILURE_RATE = "failure_rate"
    SLOW_CALL_RATE = "slow_call_rate"
    WAIT_OVER = "wait_over"
    PROBES_PASSED = "probes_passed"
    PROBES_EXPIRED = "probes_expired"
    MANUAL = "manual"
    POLICY = "policy"
    """The policy wants the breaker to begin in this state."""
    SHARED = "shared"
    """Another breaker, perhaps in another process, changed the state that both keep in one storage."""
    LATE_SUCCESS = "late_success"
    LATE_FAILURE = "late_failure"


@dataclass(frozen=True, slots=True)
class BreakerEvent:
    """One thing that happened to a circuit.

    Args:
        kind: what happened.
        name: the breaker's name, if it has one.
        source: the state before; of a late result, the state that had given the permit.
        dest: the state after.
        reason: why.
        at: seconds on the breaker's monotonic clock.
        wall: seconds since the epoch, for people.
    """

    kind: BreakerEventKind
    name: str | None
    source: CircuitState
    dest: CircuitState
    reason: ChangeReason
    at: float
    wall: float


def isolated(what: str, breaker: str | None, callback: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Run what somebody else wrote: whatever it raises is logged (`tell_fault`), and nobody else sees it."""
    try:
        callback(*args, **kwargs)
    except BaseException as raised:  # noqa: BLE001 - a listener may raise anything, and must not decide about a call
        log_fault("circuit breaker callback failed", raised, breaker=breaker, callback=what)
