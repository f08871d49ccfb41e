"""Permits: the right to make one call, and the duty to say how it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ..errors.exceptions import ToolError
from .events import BreakerEventKind, ChangeReason, isolated
from .window import FAILED, SLOW, SUCCEEDED

if TYPE_CHECKING:
    from .circuit import Circuit
    from .circuit_breaker import CircuitBreaker
    from .states import BreakerState


class Permit:
    """Leave to make one call. Settle it exactly once; the first way wins, later ones do nothing.

    It belongs to the stay in a state that gave it: a result that comes in after the state has changed is dropped, and an
    event says so (`BreakerEventKind.LATE_RESULT`).
    """

    __slots__ = ("_circuit", "_state")

    def __init__(self, circuit: Circuit, state: BreakerState) -> None:
        self._circuit = circuit
        self._state: BreakerState | None = state  # None once settled

    @property
    def is_settled(self) -> bool:
        """Whether it has been said how the call went."""
        return self._state is None

    def success(self, duration: float) -> None:
        """The call went well.

        Args:
            duration: how long it took, seconds.
        """
        circuit = self._circuit
        if self._settle(SUCCEEDED, duration) and circuit._listeners:
            for listener in circuit.listeners:
                isolated("success", circuit.name, listener.success, circuit)
        if circuit._outbox:
            circuit._deliver()

    def failure(self, error: BaseException | str, duration: float) -> None:
        """The call failed in a way that counts; of an exception that the breaker excludes, the permit is given back.

        Args:
            error: the exception, or the code of an error response.
            duration: how long it took, seconds.
        """
        circuit = self._circuit
        if circuit._excluded_exceptions and not (isinstance(error, str) or circuit.is_system_error(error)):
            self.release()
            return
        if self._settle(FAILED, duration) and circuit._listeners:
            raised = ToolError(error, "the tool answered with an error") if isinstance(error, str) else error
            for listener in circuit.listeners:
                isolated("failure", circuit.name, listener.failure, circuit, raised)
        if circuit._outbox:
            circuit._deliver()

    def release(self) -> None:
        """The call was not made, or says nothing about the circuit: give the permit back unused."""
        with self._circuit._lock:
            state = self._state
            self._state = None
            if state is not None and not state.admits_freely:
                state.free += 1  # of a stay that is over, nobody reads it any more

    def _settle(self, outcome: int, duration: float) -> bool:
        """Whether the outcome was taken in: this was the first word on it, and the stay that permitted it goes on."""
        circuit = self._circuit
        with circuit._lock:
            state = self._state
            if state is None:
                return False
            self._state = None
            if state is not circuit._stay:
                reason = ChangeReason.LATE_FAILURE if outcome == FAILED else ChangeReason.LATE_SUCCESS
                circuit._note(BreakerEventKind.LATE_RESULT, state, reason)
                return False
            decided = state.record(outcome + SLOW if duration > state.slow_after else outcome)
            if decided is not None:
                circuit._judge(decided)
            return True


class Settlement:
    """Settles a permit by how a block of code ends."""

    __slots__ = ("_breaker", "_permit", "_started")

    def __init__(self, breaker: CircuitBreaker, permit: Permit) -> None:
        self._breaker = breaker
        self._permit: Permit | None = permit
        self._started = breaker.clock.monotonic()

    def __enter__(self) -> Self:
        return self

    def postpone(self) -> None:
        """Leave it to somebody else."""
        self._permit = None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        permit, breaker = self._permit, self._breaker
        if permit is None:
            return
        duration = breaker.clock.monotonic() - self._started
        if error is None:
            permit.success(duration)
        elif breaker.counts(error):
            permit.failure(error, duration)
        else:
            permit.release()
