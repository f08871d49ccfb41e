"""Every move of a circuit breaker, in one table.

| from | trigger | guard | to |
|---|---|---|---|
| CLOSED | trip | | OPEN |
| OPEN | probe | | HALF_OPEN |
| HALF_OPEN | trip | | OPEN |
| HALF_OPEN | recover | recovers_unaided | CLOSED |
| HALF_OPEN | expire | | OPEN |
| * | close | | CLOSED |
| * | open | | OPEN |
| * | half_open | | HALF_OPEN |
| * | force_open | | FORCED_OPEN |
| * | disable | | DISABLED |
| * | observe | | METRICS_ONLY |

`*` is every state. The first five rows are the breaker's own decisions; the others are a person's, or those of another
process that shares the circuit. A move into the state that the circuit is in begins that state anew: its window is
empty, its permits are new, and results still on their way are dropped. A test compares this table with `CIRCUIT`, which
is what `fsm_engine.breaker` asks for every move.

States and their meaning follow Resilience4j (`CircuitBreaker.State`); only a manual move from `CLOSED` to `HALF_OPEN`
is refused there and allowed here, as it is in pybreaker.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from ..machine.checks import ANY_UNFINISHED
from ..machine.lifecycle import Lifecycle, Row, State


class CircuitState(StrEnum):
    """The states of a circuit."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"
    FORCED_OPEN = "FORCED_OPEN"
    DISABLED = "DISABLED"
    METRICS_ONLY = "METRICS_ONLY"


class CircuitFacts(Protocol):
    """What the guard reads of a circuit."""

    @property
    def recovers_unaided(self) -> bool:
        """Good probes close the circuit; otherwise only a person does."""
        ...


class _Event(Protocol):
    """The part of `machine.Firing` that the guard uses."""

    @property
    def model(self) -> CircuitFacts: ...


def recovers_unaided(event: _Event) -> bool:
    """The policy lets good probes close the circuit; with manual recovery only a person does."""
    return event.model.recovers_unaided


CIRCUIT = Lifecycle(
    name="circuit",
    doc="Whether calls of a tool, or of a group of tools, are let through.",
    initial=CircuitState.CLOSED,
    perpetual=True,
    states=(
        State("CLOSED", doc="Every call is let through; failures and slow calls are counted."),
        State("OPEN", activity="wait before probing", doc="Every call is refused for a while."),
        State("HALF_OPEN", activity="wait for the probes", doc="A few calls are let through as probes."),
        State("FORCED_OPEN", doc="Every call is refused until a person says otherwise."),
        State("DISABLED", doc="Every call is let through and nothing is counted."),
        State("METRICS_ONLY", doc="Every call is let through; what is counted has no effect."),
    ),
    rows=(
        Row("CLOSED", "trip", "OPEN", doc="Enough calls are in, and too many of them failed or were slow."),
        Row("OPEN", "probe", "HALF_OPEN", doc="The wait is over."),
        Row("HALF_OPEN", "trip", "OPEN", doc="Enough probes are in, and too many of them failed or were slow."),
        Row("HALF_OPEN", "recover", "CLOSED", guard="recovers_unaided", doc="Enough probes are in and went well."),
        Row("HALF_OPEN", "expire", "OPEN", doc="The probes took too long, or there were too few."),
        Row(ANY_UNFINISHED, "close", "CLOSED", doc="A person closes or resets it."),
        Row(ANY_UNFINISHED, "open", "OPEN", doc="A person opens it for the usual wait."),
        Row(ANY_UNFINISHED, "half_open", "HALF_OPEN", doc="A person has it probed now."),
        Row(ANY_UNFINISHED, "force_open", "FORCED_OPEN", doc="A person opens it for good."),
        Row(ANY_UNFINISHED, "disable", "DISABLED", doc="A person takes it out of service."),
        Row(ANY_UNFINISHED, "observe", "METRICS_ONLY", doc="A person lets it count without effect."),
    ),
    guards={"recovers_unaided": recovers_unaided},
)
