"""The circuit breaker: permits, time, people, listeners, and pybreaker's ways of calling."""

from __future__ import annotations

import asyncio
import functools
import pickle
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pybreaker
import pytest
from structlog.testing import capture_logs

from fsm_engine.breaker import (
    BreakerEvent,
    BreakerEventKind,
    BreakerMetrics,
    BreakerPolicy,
    ChangeReason,
    CircuitBreaker,
    CircuitOpenError,
    CircuitState,
    Permit,
)
from fsm_engine.breaker.states import HalfOpenState
from fsm_engine.clock import VirtualClock
from fsm_engine.errors import ConfigurationError, ToolError, ToolErrorCode, classify

THREE = BreakerPolicy.consecutive(3, wait=30.0)


def taken(breaker: CircuitBreaker) -> Permit:
    permit = breaker.try_acquire()
    assert permit is not None
    return permit


def fail(breaker: CircuitBreaker, times: int = 1) -> None:
    for _ in range(times):
        taken(breaker).failure(ConnectionError(), 0.1)


def made(policy: BreakerPolicy = THREE, **others: Any) -> tuple[CircuitBreaker, VirtualClock]:
    clock = VirtualClock()
    return CircuitBreaker(policy, clock=clock, name="search", **others), clock


class Recorder(pybreaker.CircuitBreakerListener):
    """Notes what it is told, and what state the breaker was in by then."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def before_call(self, cb: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.told.append(("before_call", args, kwargs))

    def success(self, cb: Any) -> None:
        self.told.append(("success", cb.state.name))

    def failure(self, cb: Any, exc: BaseException) -> None:
        self.told.append(("failure", cb.state.name, exc))

    def state_change(self, cb: Any, old_state: Any, new_state: Any) -> None:
        self.told.append(("state_change", old_state.name, new_state.name, cb.current_state))


# Permits


def test_failures_in_a_row_open_the_circuit_and_one_good_probe_closes_it() -> None:
    breaker, clock = made()
    fail(breaker, 2)
    taken(breaker).success(0.1)
    fail(breaker, 2)
    assert not breaker.is_open
    fail(breaker)
    assert breaker.is_open
    assert breaker.try_acquire() is None
    clock.advance(30.0)
    probe = taken(breaker)
    assert breaker.try_acquire() is None
    probe.success(0.1)
    assert breaker.circuit_state is CircuitState.CLOSED
    assert [(event.source, event.dest, event.reason, event.at) for event in breaker.recent_events] == [
        ("CLOSED", "OPEN", ChangeReason.FAILURE_RATE, 0.0),
        ("OPEN", "HALF_OPEN", ChangeReason.WAIT_OVER, 30.0),
        ("HALF_OPEN", "CLOSED", ChangeReason.PROBES_PASSED, 30.0),
    ]


def test_slow_calls_open_the_circuit_though_none_failed() -> None:
    breaker, _ = made(BreakerPolicy(minimum_number_of_calls=2, slow_call_duration_threshold=2.0))
    taken(breaker).success(2.0)
    taken(breaker).success(2.1)
    assert not breaker.is_open
    breaker.reset()
    for _ in range(2):
        taken(breaker).success(2.1)
    assert breaker.recent_events[-1].reason is ChangeReason.SLOW_CALL_RATE
    assert breaker.metrics() == BreakerMetrics(CircuitState.OPEN, 0.0, 100.0, 2, 0, 2, 0)


@pytest.mark.parametrize("first", ["success", "failure", "release"])
@pytest.mark.parametrize("then", ["success", "failure", "release"])
def test_the_first_word_on_a_permit_wins(first: str, then: str) -> None:
    """In half-open state too, where a second release would make a permit out of nothing."""
    breaker, _ = made(BreakerPolicy(permitted_calls_in_half_open=3, minimum_number_of_calls=3))
    breaker.half_open()
    ways: dict[str, Callable[[Permit], None]] = {
        "success": lambda permit: permit.success(0.1),
        "failure": lambda permit: permit.failure("TIMEOUT", 0.1),
        "release": lambda permit: permit.release(),
    }
    permit = taken(breaker)
    assert not permit.is_settled
    ways[first](permit)
    assert permit.is_settled
    after_first = breaker.metrics()
    ways[then](permit)
    assert breaker.metrics() == after_first
    left = 0
    while breaker.try_acquire():
        left += 1
    assert left == (3 if first == "release" else 2)


@pytest.mark.parametrize(
    ("settle", "reason"),
    [
        (lambda permit: permit.success(0.1), ChangeReason.LATE_SUCCESS),
        (lambda permit: permit.failure("TIMEOUT", 0.1), ChangeReason.LATE_FAILURE),
    ],
)
def test_a_result_of_an_earlier_state_is_dropped_and_told(
    settle: Callable[[Permit], None], reason: ChangeReason
) -> None:
    """Even if the circuit is in a state of the same name again."""
    recorder = Recorder()
    breaker, _ = made(listeners=[recorder])
    permit = taken(breaker)
    breaker.open()
    breaker.close()
    recorder.told.clear()
    settle(permit)
    assert breaker.metrics().buffered == 0
    event = breaker.recent_events[-1]
    assert (event.kind, event.source, event.dest, event.reason) == ("late_result", "CLOSED", "CLOSED", reason)
    assert recorder.told == []


def test_a_late_release_says_nothing() -> None:
    breaker, _ = made()
    breaker.half_open()
    permit = taken(breaker)
    breaker.half_open()
    permit.release()
    assert breaker.recent_events[-1].kind is BreakerEventKind.STATE_CHANGED
    assert taken(breaker)
    assert breaker.try_acquire() is None


async def test_of_fifty_tasks_at_once_half_open_admits_exactly_the_permitted() -> None:
    breaker, _ = made(BreakerPolicy(permitted_calls_in_half_open=10))
    breaker.half_open()
    go = asyncio.Event()
    calls = 0

    async def probe() -> str:
        nonlocal calls
        calls += 1
        await go.wait()
        return "fine"

    tasks = [asyncio.create_task(breaker.acall(probe)) for _ in range(50)]
    await asyncio.sleep(0)
    go.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert calls == results.count("fine") == 10
    assert sum(isinstance(result, CircuitOpenError) for result in results) == 40
    assert breaker.metrics().refused == 40
    assert breaker.circuit_state is CircuitState.CLOSED


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads take turns as often as they can, so that races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_of_fifty_threads_at_once_half_open_admits_exactly_the_permitted() -> None:
    """They come just when the wait is over, so that they race for the move to half-open as well."""
    policy = BreakerPolicy(permitted_calls_in_half_open=10, automatic_transition_from_open_to_half_open=False)
    for _ in range(10):
        breaker, clock = made(policy)
        breaker.open()
        clock.advance(60.1)
        barrier = threading.Barrier(50)

        def probe(breaker: CircuitBreaker = breaker, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            return breaker.try_acquire() is not None

        with ThreadPoolExecutor(50) as pool:
            admitted = sum(future.result() for future in [pool.submit(probe) for _ in range(50)])
        assert admitted == 10
        assert [event.dest for event in breaker.recent_events] == ["OPEN", "HALF_OPEN"]


@pytest.mark.usefixtures("hasty_threads")
def test_threads_lose_no_outcome() -> None:
    breaker, _ = made(BreakerPolicy(sliding_window_size=5_000, minimum_number_of_calls=5_000))

    def work() -> None:
        for number in range(500):
            permit = taken(breaker)
            permit.success(0.1) if number % 10 else permit.failure("TIMEOUT", 0.1)

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work) for _ in range(8)]:
            future.result()
    assert (breaker.metrics().buffered, breaker.metrics().failed) == (4_000, 400)


def test_permits_are_taken_settled_and_given_back_under_the_lock() -> None:
    """A race for them is too rare to be caught at it, so every change of what they share is asked for the lock."""
    changed: list[str] = []

    class Watched(HalfOpenState):
        def __setattr__(self, name: str, value: object) -> None:
            assert breaker._lock._is_owned()  # type: ignore[attr-defined]  # the C lock has it, its stub does not
            changed.append(name)
            super().__setattr__(name, value)

        def record(self, outcome: int) -> ChangeReason | None:
            assert breaker._lock._is_owned()  # type: ignore[attr-defined]  # as above
            changed.append("record")
            return super().record(outcome)

    breaker, _ = made(BreakerPolicy())
    breaker.half_open()
    breaker._stay.__class__ = Watched
    taken(breaker).success(0.1)
    taken(breaker).failure("TIMEOUT", 0.1)
    taken(breaker).release()
    assert changed == ["free", "record", "free", "record", "free", "free"]


# Time


def test_without_a_loop_the_state_moves_when_somebody_looks() -> None:
    """The system's clock sets no timer without a loop; the policy's wait is over at once here."""
    breaker = CircuitBreaker(BreakerPolicy(wait_duration_in_open_state=1e-6, max_wait_duration_in_half_open=0))
    breaker.open()
    while breaker.circuit_state is CircuitState.OPEN:
        pass
    assert breaker.circuit_state is CircuitState.HALF_OPEN


async def test_in_a_loop_a_timer_moves_the_state_though_nobody_looks() -> None:
    moved = asyncio.Event()
    breaker = CircuitBreaker(BreakerPolicy(wait_duration_in_open_state=0.001))
    breaker.on_event(lambda event: event.dest == "HALF_OPEN" and moved.set())
    breaker.open()
    await asyncio.wait_for(moved.wait(), 10)
    breaker.close()


@pytest.mark.parametrize("change", ["open", "close", "reset", "force_open", "disable", "observe", "half_open"])
def test_a_change_by_hand_cancels_the_timer(change: str) -> None:
    breaker, clock = made()
    breaker.open()
    clock.advance(10.0)
    getattr(breaker, change)()
    after = breaker.circuit_state
    assert clock.next_timer == {"OPEN": 40.0, "HALF_OPEN": 310.0}.get(after)
    clock.advance(20.0)
    assert breaker.circuit_state is after


def test_a_change_from_another_thread_leaves_the_timer_to_ring_in_vain() -> None:
    """A loop's timers belong to the loop's thread."""
    breaker, clock = made()
    breaker.open()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(breaker.close).result()
    assert clock.next_timer == 30.0
    clock.advance(30.0)
    assert breaker.circuit_state is CircuitState.CLOSED
    assert len(breaker.recent_events) == 2


def test_a_lost_probe_blocks_half_open_until_its_time_is_up() -> None:
    breaker, clock = made(BreakerPolicy.consecutive(1, wait=30.0, max_wait_duration_in_half_open=5.0))
    breaker.half_open()
    lost = taken(breaker)
    clock.advance(4.9)
    assert breaker.try_acquire() is None
    assert breaker.retry_after is None
    clock.advance(0.1)
    assert breaker.circuit_state is CircuitState.OPEN
    clock.advance(30.0)
    probe = taken(breaker)
    lost.failure(TimeoutError(), 40.0)
    probe.success(0.1)
    assert breaker.circuit_state is CircuitState.CLOSED


def test_after_a_long_silence_without_timers_a_caller_finds_the_circuit_half_open_with_all_permits() -> None:
    """The probes' time ran out and the next wait too, all unseen; neither counts from when somebody looks."""

    class Timerless(VirtualClock):
        def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Any:
            raise RuntimeError("no running event loop")

    clock = Timerless()
    breaker = CircuitBreaker(BreakerPolicy.consecutive(1, wait=30.0), clock=clock)
    breaker.half_open()
    lost = taken(breaker)
    clock.advance(3_600.0)
    assert breaker.try_acquire() is not None
    assert [event.dest for event in breaker.recent_events] == ["HALF_OPEN", "OPEN", "HALF_OPEN"]
    assert not lost.is_settled
    assert breaker._stay.deadline == 3_900.0


def test_without_automatic_move_only_a_caller_ends_the_wait() -> None:
    """Looking does not; the peek of a caller does; exactly at the wait it is not over yet."""
    breaker, clock = made(BreakerPolicy.consecutive(1, 30.0, automatic_transition_from_open_to_half_open=False))
    breaker.open()
    clock.advance(30.0)
    assert breaker.is_open
    clock.advance(0.001)
    assert breaker.circuit_state is CircuitState.OPEN
    assert breaker.metrics().state is CircuitState.OPEN
    assert breaker.retry_after == 0.0
    assert not breaker.is_open
    assert breaker.circuit_state is CircuitState.HALF_OPEN


@pytest.mark.parametrize(
    ("since", "wait", "until", "automatic"),
    [(0.1, 0.2, 0.3, True), (0.7, 0.1, 0.8, False)],
)
def test_the_rounding_of_a_sum_does_not_decide_whether_the_wait_is_over(
    since: float, wait: float, until: float, automatic: bool
) -> None:
    """0.1 + 0.2 is more than 0.3, and 0.7 + 0.1 less than 0.8; exactly at the wait a timer rings, and a caller waits."""
    assert (since + wait > until) == automatic
    clock = VirtualClock(start=since)
    policy = BreakerPolicy(wait_duration_in_open_state=wait, automatic_transition_from_open_to_half_open=automatic)
    breaker = CircuitBreaker(policy, clock=clock)
    breaker.open()
    clock.advance(until - since)
    assert clock.monotonic() == until
    assert breaker.is_open is not automatic


@pytest.mark.parametrize(
    ("change", "expected"),
    [("close", 0.0), ("open", 30.0), ("half_open", 0.0), ("force_open", None), ("disable", 0.0), ("observe", 0.0)],
)
def test_retry_after_is_the_time_until_a_call_may_be_let_through(change: str, expected: float | None) -> None:
    breaker, clock = made()
    getattr(breaker, change)()
    assert breaker.retry_after == expected
    if change == "open":
        clock.advance(12.5)
        assert breaker.retry_after == 17.5


# People


def test_with_manual_recovery_only_a_person_closes_the_circuit() -> None:
    """Good probes are told once and leave it half-open; when their time is up it waits, and probes again."""
    policy = BreakerPolicy(
        minimum_number_of_calls=2, permitted_calls_in_half_open=3, wait_duration_in_open_state=30.0, recovery="manual"
    )
    breaker, clock = made(policy)
    breaker.open()
    for _ in range(2):
        clock.advance(30.0)
        for _ in range(3):
            taken(breaker).success(0.1)
        assert breaker.recent_events[-1].kind is BreakerEventKind.PROBES_PASSED
        assert breaker.circuit_state is CircuitState.HALF_OPEN
        assert breaker.try_acquire() is None
        clock.advance(300.0)
        assert breaker.circuit_state is CircuitState.OPEN
    assert [event.kind for event in breaker.recent_events].count(BreakerEventKind.PROBES_PASSED) == 2
    breaker.reset()
    assert breaker.circuit_state is CircuitState.CLOSED


def test_with_manual_recovery_bad_probes_open_the_circuit_again() -> None:
    breaker, clock = made(BreakerPolicy.consecutive(1, recovery="manual"))
    breaker.open()
    clock.advance(60.0)
    fail(breaker)
    assert breaker.circuit_state is CircuitState.OPEN


@pytest.mark.parametrize(
    ("initial", "state", "admits", "buffered"),
    [
        ("closed", CircuitState.CLOSED, True, 1),
        ("metrics_only", CircuitState.METRICS_ONLY, True, 1),
        ("forced_open", CircuitState.FORCED_OPEN, False, 0),
        ("disabled", CircuitState.DISABLED, True, 0),
    ],
)
def test_a_breaker_begins_in_the_mode_of_its_policy(
    initial: Any, state: CircuitState, admits: bool, buffered: int
) -> None:
    breaker, _ = made(BreakerPolicy(initial=initial))
    assert breaker.circuit_state is state
    permit = breaker.try_acquire()
    assert (permit is not None) == admits
    if permit is not None:
        permit.success(0.1)
    assert breaker.metrics().buffered == buffered


def test_metrics_only_counts_and_never_refuses() -> None:
    breaker, _ = made(BreakerPolicy(minimum_number_of_calls=2, initial="metrics_only"))
    fail(breaker, 30)
    assert not breaker.is_open
    assert breaker.metrics().failure_rate == 100.0


def test_what_pybreaker_lets_one_set_is_set_by_the_policy() -> None:
    breaker, _ = made()
    assert (breaker.fail_max, breaker.reset_timeout, breaker.success_threshold) == (3, 30.0, 1)
    for name in ("fail_max", "reset_timeout", "success_threshold"):
        with pytest.raises(ConfigurationError, match=rf"{name} cannot be changed; make a breaker with BreakerPolicy"):
            setattr(breaker, name, 7)
    fail(breaker)
    taken(breaker).success(0.1)
    assert (breaker.fail_counter, breaker.success_counter) == (1, 1)


# Listeners and events


def test_listeners_are_told_in_order_outside_the_lock_and_see_the_new_state() -> None:
    error = ConnectionError()
    breaker, clock = made(BreakerPolicy.consecutive(1), listeners=[recorder := Recorder()])
    free: list[bool] = []

    def note(event: BreakerEvent) -> None:
        with ThreadPoolExecutor(1) as pool:  # another thread gets the lock at once
            free.append(
                pool.submit(lambda: breaker._lock.acquire(timeout=5) and breaker._lock.release() is None).result()
            )

    breaker.on_event(note)
    with pytest.raises(ConnectionError):
        breaker.call(raising(error), 1, key="value")
    clock.advance(60.0)
    breaker.call(int)
    for change in (breaker.open, breaker.half_open, breaker.close):
        change()
    assert recorder.told == [
        ("before_call", (1,), {"key": "value"}),
        ("failure", "open", error),
        ("state_change", "closed", "open", "open"),
        ("state_change", "open", "half-open", "half-open"),
        ("before_call", (), {}),
        ("success", "closed"),
        ("state_change", "half-open", "closed", "closed"),
        ("state_change", "closed", "open", "open"),
        ("state_change", "open", "half-open", "half-open"),
        ("state_change", "half-open", "closed", "closed"),
    ]
    assert free == [True] * 6


def raising(error: BaseException) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise error

    return function


def test_an_error_code_reaches_listeners_as_an_exception() -> None:
    breaker, _ = made(listeners=[recorder := Recorder()])
    taken(breaker).failure("TIMEOUT", 0.1)
    [(_, _, error)] = recorder.told
    assert isinstance(error, ToolError)
    assert error.code == "TIMEOUT"


def test_what_a_listener_raises_is_logged_and_reaches_nobody() -> None:
    class Broken(pybreaker.CircuitBreakerListener):
        def before_call(self, *args: Any, **kwargs: Any) -> None:
            raise ZeroDivisionError

        success = failure = state_change = before_call

    breaker, _ = made(BreakerPolicy.consecutive(1), listeners=[Broken(), recorder := Recorder()])
    breaker.on_event(raising(ZeroDivisionError()))
    seen: list[BreakerEvent] = []
    breaker.on_event(seen.append)
    with capture_logs() as logs:
        assert breaker.call(int) == 0
        with pytest.raises(ConnectionError):
            breaker.call(raising(ConnectionError()))
    assert breaker.is_open
    assert [log["callback"] for log in logs] == [
        *("before_call", "success", "before_call", "failure", "state_change", "on_event")
    ]
    assert all(log["breaker"] == "search" for log in logs)
    assert [told[0] for told in recorder.told] == ["before_call", "success", "before_call", "failure", "state_change"]
    assert len(seen) == 1


def test_events_of_a_callback_that_changes_the_circuit_come_after_its_own() -> None:
    breaker, _ = made()
    seen: list[str] = []
    breaker.on_event(lambda event: event.dest == "OPEN" and breaker.force_open())
    breaker.on_event(lambda event: seen.append(event.dest))
    breaker.open()
    assert seen == ["OPEN", "FORCED_OPEN"]


def test_an_interrupted_delivery_does_not_silence_later_ones() -> None:
    breaker, _ = made()
    stop = breaker.on_event(raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        breaker.open()
    stop()
    seen: list[str] = []
    breaker.on_event(lambda event: seen.append(event.dest))
    breaker.close()
    assert seen == ["CLOSED"]


def test_a_subscription_ends_when_asked_and_leaves_the_others() -> None:
    breaker, _ = made()
    one: list[BreakerEvent] = []
    other: list[BreakerEvent] = []
    stop = breaker.on_event(one.append)
    breaker.on_event(other.append)
    breaker.open()
    stop()
    stop()
    breaker.close()
    assert (len(one), len(other)) == (1, 2)


def test_recent_events_are_the_last_ones_with_both_times() -> None:
    breaker, clock = made(history=2)
    for _ in range(3):
        breaker.open()
        clock.advance(1.0)
        breaker.close()
    opened, closed = breaker.recent_events
    assert (opened.name, opened.at, opened.wall) == ("search", 2.0, 1_700_000_002.0)
    assert (closed.source, closed.dest, closed.at) == ("OPEN", "CLOSED", 3.0)


# Calls


def test_call_answers_what_the_function_answers_and_raises_what_it_raises() -> None:
    """Also the call that opens the circuit: nothing takes the place of its own error."""
    breaker, _ = made(BreakerPolicy.consecutive(1))
    assert breaker.call(max, 1, 2) == 2
    error = ConnectionError()
    with pytest.raises(ConnectionError) as raised:
        breaker.call(raising(error))
    assert raised.value is error
    assert breaker.is_open


def test_a_refused_call_makes_none_and_says_until_when() -> None:
    breaker, clock = made()
    breaker.open()
    clock.advance(10.0)
    with pytest.raises(CircuitOpenError) as refused:
        breaker.call(raising(AssertionError()))
    assert isinstance(refused.value, pybreaker.CircuitBreakerError)
    assert refused.value.retry_after == 20.0
    assert refused.value.message == "The circuit search is OPEN; no call was made, try again in 20.0 s."
    found = classify(refused.value)
    assert (found.code, found.counts, found.retry_after) == (ToolErrorCode.CIRCUIT_OPEN, False, 20.0)
    copy = pickle.loads(pickle.dumps(refused.value))
    assert (copy.message, copy.retry_after) == (refused.value.message, 20.0)
    breaker.force_open()
    assert "FORCED_OPEN; no call was made, it is not known until when" in breaker.refusal().message


class BusinessError(Exception):
    """Not the tool's fault."""


class Special(type):
    """A metaclass: an exclusion of such a class must not be taken for a predicate."""


class SpecialError(Exception, metaclass=Special):
    """Excluded by its class."""


def picky(error: Exception) -> bool:
    if isinstance(error, OSError):
        raise ZeroDivisionError
    return "mine" in str(error)


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (BusinessError(), 0),
        (SpecialError(), 0),
        (RuntimeError("mine"), 0),
        (RuntimeError("yours"), 1),
        (OSError("the predicate breaks on it"), 1),
        (ToolError("NOT_FOUND", "no such page"), 0),
        (ToolError("CONFLICT", "taken"), 1),
        (ToolError("TIMEOUT", "too slow"), 0),
        (ToolError("WAREHOUSE_CLOSED", "come tomorrow"), 1),
        (asyncio.CancelledError(), 0),
        (KeyboardInterrupt(), 0),
        (SystemExit(), 0),
        (GeneratorExit(), 0),
    ],
)
async def test_only_errors_that_count_are_counted(error: BaseException, failed: int) -> None:
    """What does not count gives its permit back, in every way of calling: half-open would be stuck otherwise."""
    policy = BreakerPolicy(
        permitted_calls_in_half_open=2,
        ignored_codes=frozenset({"TIMEOUT"}),
        counted_codes=frozenset({"CONFLICT"}),
    )
    exclude: list[Any] = [BusinessError, SpecialError, picky]

    async def araising() -> None:
        raise error

    async def by_call(breaker: CircuitBreaker) -> None:
        breaker.call(raising(error))

    async def by_acall(breaker: CircuitBreaker) -> None:
        await breaker.acall(araising)

    async def by_block(breaker: CircuitBreaker) -> None:
        with breaker.calling():
            raise error

    for way in (by_call, by_acall, by_block):
        breaker, _ = made(policy, exclude=exclude)
        breaker.half_open()
        with capture_logs(), pytest.raises(type(error)):
            await way(breaker)
        metrics = breaker.metrics()
        assert (metrics.buffered, metrics.failed) == (failed, failed)
        assert breaker._stay.free == 2 - failed


def test_a_failure_reported_for_an_excluded_exception_gives_the_permit_back() -> None:
    breaker, _ = made(exclude=[BusinessError])
    breaker.half_open()
    taken(breaker).failure(BusinessError(), 0.1)
    assert breaker.metrics().buffered == 0
    taken(breaker).failure("TIMEOUT", 0.1)
    assert breaker.circuit_state is CircuitState.OPEN


@pytest.mark.parametrize("seconds", [1.0, 3.0])
async def test_every_way_of_calling_measures_how_long_it_took(seconds: float) -> None:
    policy = BreakerPolicy(slow_call_duration_threshold=2.0)
    breaker, clock = made(policy)

    async def work() -> None:
        clock.advance(seconds)

    breaker.call(clock.advance, seconds)
    await breaker.acall(work)
    with breaker.calling():
        clock.advance(seconds)
    metrics = breaker.metrics()
    assert (metrics.buffered, metrics.slow) == (3, 3 if seconds > 2.0 else 0)


async def coroutine_function() -> int:
    return 7


def disguised() -> Any:
    return coroutine_function()


async def generate_asynchronously() -> AsyncIterator[int]:
    yield 7


@pytest.mark.parametrize(
    "function",
    [coroutine_function, functools.partial(coroutine_function), disguised, generate_asynchronously],
)
def test_call_refuses_what_is_asynchronous(function: Callable[[], Any]) -> None:
    """It would count a success before anything has happened."""
    breaker, _ = made()
    breaker.half_open()
    with pytest.raises(TypeError, match=r"is asynchronous, so its outcome is not known yet; use acall\(\)"):
        breaker.call(function)
    assert breaker.metrics().buffered == 0
    assert taken(breaker)


async def test_acall_refuses_what_cannot_be_waited_for() -> None:
    breaker, _ = made()
    with pytest.raises(TypeError, match=r"int returned nothing to wait for; use call\(\)"):
        await breaker.acall(int)  # type: ignore[arg-type]  # what is refused
    assert breaker.metrics().buffered == 0


async def test_decorator_keeps_name_and_kind_of_the_function() -> None:
    breaker, _ = made()

    @breaker
    def plain(value: int) -> int:
        return value

    @breaker()
    async def waiting(value: int) -> int:
        return value

    assert (plain.__name__, plain(1), await waiting(2)) == ("plain", 1, 2)
    assert await breaker.call_async(coroutine_function) == 7
    for wrong in (lambda: breaker(int, int), lambda: breaker(int, __pybreaker_call_async=True)):
        with pytest.raises(TypeError, match=r"decorate with @breaker or @breaker\(\)"):
            wrong()
    assert breaker.metrics().buffered == 3


def test_a_generator_counts_when_it_ends() -> None:
    breaker, _ = made()

    def lines(bad: bool) -> Iterator[int]:
        yield 1
        if bad:
            raise ConnectionError
        yield 2

    good = breaker.call(lines, False)
    assert next(good) == 1
    assert breaker.metrics().buffered == 0
    assert list(good) == [2]
    assert (breaker.metrics().buffered, breaker.metrics().failed) == (1, 0)
    with pytest.raises(ConnectionError):
        list(breaker.call(lines, True))
    assert (breaker.metrics().buffered, breaker.metrics().failed) == (2, 1)


# What stays pybreaker's


def test_the_states_are_pybreakers_where_it_has_them() -> None:
    breaker, clock = made()
    assert isinstance(breaker.state, pybreaker.CircuitClosedState)
    breaker.open()
    assert isinstance(breaker.state, pybreaker.CircuitOpenState)
    clock.advance(30.0)
    assert isinstance(breaker.state, pybreaker.CircuitHalfOpenState)
    assert breaker.state.call(int) == 0
    assert breaker.state.name == pybreaker.STATE_CLOSED
    breaker.state = pybreaker.STATE_OPEN
    assert breaker.current_state == pybreaker.STATE_OPEN
    with pytest.raises(ConfigurationError, match="a circuit cannot be 'ajar'; it can be closed, open, half-open"):
        breaker.state = "ajar"


def test_what_is_used_of_pybreakers_privates_is_there() -> None:
    """They are why its version is pinned."""
    stock = pybreaker.CircuitBreaker(name="stock", exclude=[BusinessError], listeners=[Recorder()])
    for name in ("_lock", "_state_storage", "_listeners", "_excluded_exceptions", "_throw_new_error_on_trip"):
        assert hasattr(stock, name), name
    state = pybreaker.CircuitBreakerState(stock, "any")
    assert (state._breaker, state.name) == (stock, "any")
    assert callable(stock._create_new_state)


def test_breakers_that_share_a_storage_share_state_and_opening_time() -> None:
    """Windows are their own: only the breaker that saw the failures knows them."""
    storage = pybreaker.CircuitMemoryStorage(pybreaker.STATE_CLOSED)
    clock = VirtualClock()
    one, other = (CircuitBreaker(THREE, name=name, clock=clock, state_storage=storage) for name in ("one", "other"))
    fail(one, 3)
    clock.advance(10.0)
    assert other.try_acquire() is None
    assert other.retry_after == 20.0
    assert other.metrics().buffered == 0
    assert other.recent_events[-1].reason is ChangeReason.SHARED
    clock.advance(20.0)
    taken(other).success(0.1)
    assert storage.state == pybreaker.STATE_CLOSED
    assert one.circuit_state is CircuitState.CLOSED


def test_a_new_breaker_begins_in_the_state_of_its_storage() -> None:
    storage = pybreaker.CircuitMemoryStorage(pybreaker.STATE_OPEN)
    clock = VirtualClock()
    storage.opened_at = datetime.fromtimestamp(clock.wall() - 25.0, UTC)
    breaker = CircuitBreaker(THREE, clock=clock, state_storage=storage)
    assert breaker.circuit_state is CircuitState.OPEN
    assert breaker.retry_after == 5.0


def test_an_opening_time_in_the_future_counts_as_now() -> None:
    """Clocks of two machines differ."""
    storage = pybreaker.CircuitMemoryStorage(pybreaker.STATE_OPEN)
    clock = VirtualClock()
    storage.opened_at = future = datetime.fromtimestamp(clock.wall() + 25.0, UTC)
    assert CircuitBreaker(THREE, clock=clock, state_storage=storage).retry_after == 30.0
    assert storage.opened_at == future  # it belongs to whoever wrote it


def test_a_storage_without_opening_time_opens_the_circuit_from_now_on() -> None:
    storage = pybreaker.CircuitMemoryStorage(pybreaker.STATE_OPEN)
    assert CircuitBreaker(THREE, clock=VirtualClock(), state_storage=storage).retry_after == 30.0


def test_an_unknown_state_in_the_storage_is_logged_once_and_changes_nothing() -> None:
    """Nor does the return to the known one."""
    storage = pybreaker.CircuitMemoryStorage(pybreaker.STATE_CLOSED)
    breaker, _ = made(state_storage=storage)
    storage.state = "ajar"
    with capture_logs() as logs:
        taken(breaker).success(0.1)
        taken(breaker).success(0.1)
    assert [log["breaker"] for log in logs] == ["search"]
    storage.state = pybreaker.STATE_CLOSED
    taken(breaker).success(0.1)
    assert breaker.metrics().buffered == 3


def test_a_storage_that_cannot_be_written_leaves_the_circuit_to_itself() -> None:
    class ReadOnly(pybreaker.CircuitMemoryStorage):
        @property
        def state(self) -> str:
            return pybreaker.STATE_CLOSED

        @state.setter
        def state(self, state: str) -> None:
            raise OSError

    breaker, _ = made(state_storage=ReadOnly(pybreaker.STATE_CLOSED))
    with capture_logs() as logs:
        fail(breaker, 3)
    assert [log["callback"] for log in logs] == ["state_storage"]
    assert breaker.is_open


def test_a_change_on_its_way_to_the_storage_is_not_undone_by_what_the_storage_still_says() -> None:
    """A listener of another breaker's change may look at this one before the storage has heard of it."""
    storage = pybreaker.CircuitMemoryStorage(pybreaker.STATE_CLOSED)
    breaker, _ = made(state_storage=storage)
    seen: list[CircuitState] = []

    def meddle(event: BreakerEvent) -> None:
        storage.state = pybreaker.STATE_HALF_OPEN
        seen.append(breaker.circuit_state)

    stop = breaker.on_event(meddle)
    breaker.open()
    stop()
    assert seen == [CircuitState.OPEN]
    assert breaker.circuit_state is CircuitState.HALF_OPEN
