"""Random interleavings of callers, time and people against a plain model of permits."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from fsm_engine.breaker import BreakerPolicy, BreakerState, ChangeReason, CircuitBreaker, CircuitState, Permit
from fsm_engine.clock import VirtualClock
from fsm_engine.states.circuit import CIRCUIT

ADMITS_ALL = {CircuitState.CLOSED, CircuitState.DISABLED, CircuitState.METRICS_ONLY}
MOVES = {(row.source, row.dest) for row in CIRCUIT.moves}


class Callers(RuleBasedStateMachine):
    """The model knows, of every permit, the state object that gave it; and of every stay, what it gave and got back.

    It does not know when a circuit opens (the golden sequences do), only what must hold whenever it does.
    """

    permits = Bundle("permits")

    @initialize(
        permitted=st.integers(1, 4),
        minimum=st.integers(1, 5),
        automatic=st.booleans(),
        max_wait=st.sampled_from([0.0, 5.0]),
        window=st.sampled_from(["count", "time"]),
        recovery=st.sampled_from(["automatic", "manual"]),
    )
    def begin(
        self, *, permitted: int, minimum: int, automatic: bool, max_wait: float, window: str, recovery: str
    ) -> None:
        self.clock = VirtualClock()
        self.policy = BreakerPolicy(
            sliding_window_size=5,
            sliding_window_type=window,  # type: ignore[arg-type]  # sampled from the literals
            minimum_number_of_calls=minimum,
            permitted_calls_in_half_open=permitted,
            automatic_transition_from_open_to_half_open=automatic,
            wait_duration_in_open_state=10.0,
            max_wait_duration_in_half_open=max_wait,
            recovery=recovery,  # type: ignore[arg-type]  # sampled from the literals
        )
        self.breaker = CircuitBreaker(self.policy, clock=self.clock)
        self.stay: BreakerState = self.breaker._stay
        self.under_way = 0  # permits of this stay that nobody has settled
        self.recorded = 0  # outcomes of this stay
        self.late = 0

    def follow(self) -> None:
        """A new stay begins with nothing."""
        if self.breaker._stay is not self.stay:
            self.stay, self.under_way, self.recorded = self.breaker._stay, 0, 0

    @rule(target=permits)
    def acquire(self) -> object:
        permit = self.breaker.try_acquire()
        self.follow()
        state = self.stay.circuit
        if state in ADMITS_ALL:
            assert permit is not None
        elif state is CircuitState.HALF_OPEN:
            room = self.policy.permitted_calls_in_half_open - self.recorded - self.under_way
            assert (permit is not None) == (room > 0)
        else:
            assert permit is None
        if permit is None:
            return multiple()
        self.under_way += 1
        return (permit, self.stay)

    @rule(taken=consumes(permits), how=st.sampled_from(["success", "failure", "release"]), slow=st.booleans())
    def settle(self, taken: tuple[Permit, BreakerState], how: str, slow: bool) -> None:
        permit, stay = taken
        self.follow()
        is_current = stay is self.stay
        before = self.breaker.metrics()
        duration = 61.0 if slow else 1.0
        if is_current:
            self.under_way -= 1
            self.recorded += how != "release"
        elif how != "release":
            self.late += 1
        for _ in range(2):  # the second time is nothing
            match how:
                case "success":
                    permit.success(duration)
                case "failure":
                    permit.failure(ConnectionError(), duration)
                case _:
                    permit.release()
            permit.release()
        assert permit.is_settled
        if not is_current:
            assert self.breaker._stay is self.stay
            assert self.breaker.metrics() == before
        self.follow()

    @rule(seconds=st.sampled_from([0.5, 1.0, 4.5, 5.0, 10.0, 10.5, 30.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.follow()

    @rule(how=st.sampled_from(["open", "half_open", "close", "reset", "force_open", "disable", "observe"]))
    def decide(self, how: str) -> None:
        getattr(self.breaker, how)()
        assert self.breaker._stay is not self.stay
        self.follow()

    @rule()
    def peek(self) -> None:
        """Looking takes no permit."""
        refuses = self.breaker.is_open
        self.follow()
        assert refuses == (self.stay.circuit in {CircuitState.OPEN, CircuitState.FORCED_OPEN})

    @invariant()
    def no_permit_is_lost_or_made(self) -> None:
        if self.stay.circuit is CircuitState.HALF_OPEN:
            assert self.under_way + self.recorded + self.stay.free == self.policy.permitted_calls_in_half_open
            assert self.stay.free >= 0

    @invariant()
    def every_move_is_declared_and_told_in_order(self) -> None:
        changes = [event for event in self.breaker.recent_events if event.kind == "state_changed"]
        assert all((event.source, event.dest) in MOVES for event in changes)
        assert all(a.dest == b.source and a.at <= b.at for a, b in pairwise(changes))
        if self.policy.recovery == "manual":
            assert all(event.reason is ChangeReason.MANUAL for event in changes if event.dest == "CLOSED")

    @invariant()
    def every_late_result_is_told(self) -> None:
        assert self.late == sum(event.kind == "late_result" for event in self.breaker.recent_events)

    def teardown(self) -> None:
        """However it went, time and one good caller after another close an open circuit again."""
        if not hasattr(self, "breaker") or self.policy.recovery == "manual":
            return
        if self.under_way and not self.policy.max_wait_duration_in_half_open:
            return  # whoever sets no limit waits for lost probes for ever
        for _ in range(30):
            if self.breaker.circuit_state not in {CircuitState.OPEN, CircuitState.HALF_OPEN}:
                return
            if (permit := self.breaker.try_acquire()) is not None:
                permit.success(0.0)
            else:
                self.clock.advance(10.5)
        raise AssertionError("the circuit never recovers")


TestCallers = Callers.TestCase
TestCallers.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
