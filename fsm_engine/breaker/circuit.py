"""The circuit itself: the state it is in, every way in which that changes, and who is told.

Every change is a trigger fired at the machine of `states.circuit.CIRCUIT`, under one lock; what somebody else wrote
(listeners, callbacks, storages' writing) runs after the lock is released, one event after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from threading import RLock, get_ident
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pybreaker

from ..clock import Clock, SystemClock, TimerHandle
from ..errors.exceptions import ConfigurationError
from ..forking import renew_in_children
from ..logs import log_fault, log_warning
from ..machine.machine import LifecycleMachine
from ..states.circuit import CIRCUIT, CircuitState
from .events import BreakerEvent, BreakerEventKind, ChangeReason, isolated
from .policy import BreakerPolicy
from .states import NAMES, STATES, BreakerState

_MACHINE: Final = LifecycleMachine(CIRCUIT)

_MANUAL: Final[Mapping[CircuitState, str]] = MappingProxyType(
    {
        CircuitState.CLOSED: "close",
        CircuitState.OPEN: "open",
        CircuitState.HALF_OPEN: "half_open",
        CircuitState.FORCED_OPEN: "force_open",
        CircuitState.DISABLED: "disable",
        CircuitState.METRICS_ONLY: "observe",
    }
)
_BY_NAME: Final[Mapping[str, CircuitState]] = MappingProxyType({name: state for state, name in NAMES.items()})


class _Position:
    """What the machine moves."""

    __slots__ = ("recovers_unaided", "state")

    def __init__(self, recovers_unaided: bool) -> None:
        self.state = CIRCUIT.initial
        self.recovers_unaided = recovers_unaided


class _Message(NamedTuple):
    """An event on its way out; of a change of state, with the two states, and whether the storage must hear of it."""

    event: BreakerEvent
    change: tuple[BreakerState, BreakerState] | None = None
    publish: bool = False


class Circuit(pybreaker.CircuitBreaker):
    """A circuit without calls; `CircuitBreaker` adds them, and its docstring has the arguments."""

    def __init__(
        self,
        policy: BreakerPolicy | None = None,
        *,
        name: str | None = None,
        clock: Clock | None = None,
        exclude: Iterable[type[BaseException] | Callable[[Any], bool]] = (),
        listeners: Sequence[pybreaker.CircuitBreakerListener] = (),
        state_storage: pybreaker.CircuitBreakerStorage | None = None,
        history: int = 256,
    ) -> None:
        self.policy = policy or BreakerPolicy()
        self.clock: Clock = clock or SystemClock()
        self._position = _Position(self.policy.recovery == "automatic")
        self._stay = STATES[CIRCUIT.initial](self, self.policy, self.clock, self.clock.monotonic(), None)
        self._timer: tuple[TimerHandle, int] | None = None  # and the thread that set it
        self._is_storage_lost = False
        self._agreed = NAMES[CircuitState.CLOSED]  # what the storage said when last read or written
        self._recent: deque[BreakerEvent] = deque(maxlen=history)
        self._outbox: deque[_Message] = deque()
        self._is_delivering = False
        self._callbacks: tuple[Callable[[BreakerEvent], object], ...] = ()
        super().__init__(
            exclude=exclude,
            listeners=listeners,
            state_storage=state_storage,
            name=name,
            throw_new_error_on_trip=False,
        )
        renew_in_children(self._begin_in_child)
        self._catch_up(asked=False)
        if self.policy.initial != "closed":
            self._change(CircuitState[self.policy.initial.upper()], ChangeReason.POLICY)

    @property
    def state(self) -> Any:  # a `BreakerState`; pybreaker's type names its own three classes, not their base
        """The state as an object, up to date."""
        return self._catch_up(asked=False)

    @state.setter
    def state(self, state_str: str) -> None:
        """Change the state by pybreaker's name for it.

        Raises:
            ConfigurationError: there is no state of that name.
        """
        if state_str not in _BY_NAME:
            raise ConfigurationError(f"a circuit cannot be {state_str!r}; it can be {', '.join(_BY_NAME)}")
        self._change(_BY_NAME[state_str], ChangeReason.MANUAL)

    @property
    def circuit_state(self) -> CircuitState:
        """The state, up to date. A circuit whose policy waits for a caller stays open until one asks."""
        return self._catch_up(asked=False).circuit

    @property
    def retry_after(self) -> float | None:
        """Seconds until a call may be let through: 0.0 if now, `None` if nobody can know.

        Nobody knows when a person lifts a forced opening, or how long the probes of a half-open circuit take.
        """
        state = self._catch_up(asked=False)
        if state.circuit is CircuitState.OPEN and state.deadline is not None:
            return max(0.0, state.deadline - self.clock.monotonic())
        return 0.0 if state.admits_freely or state.free else None

    @property
    def recent_events(self) -> tuple[BreakerEvent, ...]:
        """The last events, oldest first."""
        return tuple(self._recent)

    def on_event(self, callback: Callable[[BreakerEvent], object]) -> Callable[[], None]:
        """Have every event told to a callback, in order, after the lock is released; an exception of it is logged.

        Returns:
            A function that ends it.

        Example:
            >>> breaker = Circuit(name="search")
            >>> stop = breaker.on_event(lambda event: print(event.source, "->", event.dest, event.reason))
            >>> breaker.force_open(); stop(); breaker.reset()
            CLOSED -> FORCED_OPEN manual
        """
        with self._lock:
            self._callbacks = (*self._callbacks, callback)

        def stop() -> None:
            with self._lock:
                # By equality, not identity: a bound method is a new object at each mention.
                self._callbacks = tuple(kept for kept in self._callbacks if kept != callback)

        return stop

    def open(self) -> bool:
        """Open the circuit for the usual wait. Answers `False`: a caller gets the call's own exception (pybreaker)."""
        self._change(CircuitState.OPEN, ChangeReason.MANUAL)
        return self._throw_new_error_on_trip

    def half_open(self) -> None:
        """Have the circuit probed now."""
        self._change(CircuitState.HALF_OPEN, ChangeReason.MANUAL)

    def close(self) -> None:
        """Close the circuit; what was counted before is forgotten, and so are results still on their way."""
        self._change(CircuitState.CLOSED, ChangeReason.MANUAL)

    def reset(self) -> None:
        """Close the circuit from whatever state it is in: the person's way back."""
        self.close()

    def force_open(self) -> None:
        """Refuse every call until a person says otherwise."""
        self._change(CircuitState.FORCED_OPEN, ChangeReason.MANUAL)

    def disable(self) -> None:
        """Let every call through and count nothing, until a person says otherwise."""
        self._change(CircuitState.DISABLED, ChangeReason.MANUAL)

    def observe(self) -> None:
        """Let every call through and count without effect, until a person says otherwise."""
        self._change(CircuitState.METRICS_ONLY, ChangeReason.MANUAL)

    def stop_timer(self) -> None:
        """Set no alarm for the end of the present state: whoever looks next makes the move."""
        with self._lock:
            self._cancel_timer()

    def _create_new_state(
        self, new_state: str, prev_state: pybreaker.CircuitBreakerState | None = None, notify: bool = False
    ) -> Any:
        # Only pybreaker's constructor comes here; what the storage says is caught up with right after it.
        del new_state, prev_state, notify
        return self._stay

    def _change(self, state: CircuitState, reason: ChangeReason) -> None:
        with self._lock:
            self._move(_MANUAL[state], reason)
        self._deliver()

    def _catch_up(self, *, asked: bool) -> BreakerState:
        """Make the moves that another process or the passing of time has decided; `asked`: for a caller."""
        said = self._said()
        if said != self._agreed:
            self._adopt(said)
        if self._stay.is_over(self.clock.monotonic(), asked=asked):
            with self._lock:
                # Twice at most: a half-open state that ended long ago, and the open state after it.
                while self._stay.is_over(self.clock.monotonic(), asked=asked):
                    self._lapse()
            self._deliver()
        return self._stay

    def _said(self) -> str:
        """What the storage says; while it cannot be read, what it said last."""
        try:
            said: str = self._state_storage.state
        except BaseException as raised:  # noqa: BLE001 - a storage is a watcher, too: it must not decide about a call
            self._lost_storage(raised)
            return self._agreed
        self._is_storage_lost = False
        return said

    def _seconds_open(self) -> float:
        """How long the storage says that the circuit has been open."""
        try:
            opened_at = self._state_storage.opened_at
            return 0.0 if opened_at is None else max(0.0, self.clock.wall() - opened_at.timestamp())
        except BaseException as raised:  # noqa: BLE001 - as above
            self._lost_storage(raised)
            return 0.0

    def _lost_storage(self, raised: BaseException) -> None:
        """The storage cannot be read: said once, until it can be again."""
        if not self._is_storage_lost or isinstance(raised, KeyboardInterrupt):
            log_fault("circuit breaker callback failed", raised, breaker=self.name, callback="state_storage")
        self._is_storage_lost = True

    def _adopt(self, said: str) -> None:
        """Follow what somebody else has written into the storage."""
        since = self.clock.monotonic()
        if said == pybreaker.STATE_OPEN:
            since -= self._seconds_open()
        with self._lock:
            if self._outbox or self._is_delivering or said == self._agreed:
                return  # this circuit's own change is on its way there, or another thread was first
            self._agreed = said
            state = _BY_NAME.get(said)
            if state is not None and state is not self._stay.circuit:
                self._move(_MANUAL[state], ChangeReason.SHARED, since=since)
        if state is None:
            log_warning("circuit breaker storage holds no known state", breaker=self.name, allowed=list(_BY_NAME))
        self._deliver()

    def _lapse(self) -> None:
        """End a stay that is over; the lock is held."""
        state = self._stay
        if state.circuit is CircuitState.OPEN:
            self._move("probe", ChangeReason.WAIT_OVER)
        else:
            # The new wait counts from when the probes' time was up, not from when somebody looked.
            self._move("expire", ChangeReason.PROBES_EXPIRED, since=state.deadline)

    def _ring(self, state: BreakerState) -> None:
        with self._lock:
            if state is self._stay:
                self._lapse()
        self._deliver()

    def _judge(self, reason: ChangeReason) -> None:
        """Act on what the outcomes have decided; the lock is held."""
        if reason is not ChangeReason.PROBES_PASSED:
            self._move("trip", reason)
        elif self._position.recovers_unaided:
            self._move("recover", reason)
        else:
            self._note(BreakerEventKind.PROBES_PASSED, self._stay, reason)

    def _move(self, trigger: str, reason: ChangeReason, *, since: float | None = None) -> None:
        """Fire a trigger and begin the state that the table names; the lock is held.

        Raises:
            TransitionRefusedError: the table has no such row; nothing has changed.
        """
        earlier = self._stay
        _MACHINE.fire(self._position, trigger)
        self._cancel_timer()
        if since is None:
            since = self.clock.monotonic()
        state = STATES[self._position.state](self, self.policy, self.clock, since, earlier)
        self._stay = state
        if state.deadline is not None and state.rings:
            # Without a loop in this thread, whoever looks next makes the move.
            with suppress(RuntimeError):
                self._timer = self.clock.call_at(state.deadline, self._ring, state), get_ident()
        self._note(BreakerEventKind.STATE_CHANGED, earlier, reason)

    def _begin_in_child(self) -> None:
        """In a child process: another thread of the parent may have held the lock, and the timer is the parent's."""
        self._lock = RLock()
        self._timer = None  # whoever looks next makes the move
        self._outbox.clear()
        self._is_delivering = False

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        # A loop's timer may be cancelled in the loop's own thread only; elsewhere it is left to ring in vain.
        if timer is not None and timer[1] == get_ident():
            timer[0].cancel()

    def _note(self, kind: BreakerEventKind, source: BreakerState, reason: ChangeReason) -> None:
        """Keep an event and put it in the outbox; the lock is held."""
        state, clock = self._stay, self.clock
        event = BreakerEvent(kind, self.name, source.circuit, state.circuit, reason, clock.monotonic(), clock.wall())
        self._recent.append(event)
        is_change = kind is BreakerEventKind.STATE_CHANGED
        change = (source, state) if is_change else None
        self._outbox.append(_Message(event, change, is_change and reason is not ChangeReason.SHARED))

    def _deliver(self) -> None:
        """Tell what is in the outbox, in order; one thread at a time, and not within itself."""
        with self._lock:
            if self._is_delivering:
                return  # whoever is at it goes on until nothing is left
            self._is_delivering = True
        try:
            while message := self._next_message():
                self._tell(message)
        except BaseException:
            self._is_delivering = False
            raise

    def _next_message(self) -> _Message | None:
        with self._lock:
            self._is_delivering = bool(self._outbox)
            return self._outbox.popleft() if self._outbox else None

    def _tell(self, message: _Message) -> None:
        if message.publish and message.change is not None:
            isolated("state_storage", self.name, self._publish, message.change[1], message.event)
        if message.change is not None:
            for listener in self.listeners:
                isolated("state_change", self.name, listener.state_change, self, *message.change)
        for callback in self._callbacks:
            isolated("on_event", self.name, callback, message.event)

    def _publish(self, state: BreakerState, event: BreakerEvent) -> None:
        storage = self._state_storage
        if state.circuit is CircuitState.OPEN:
            storage.opened_at = datetime.fromtimestamp(event.wall - (event.at - state.since), UTC)
        storage.state = state.name
        self._agreed = state.name
