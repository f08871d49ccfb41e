"""The sliding windows against plain models that keep every outcome."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine.breaker.window import FAILED, SLOW, SUCCEEDED, Counts, CountWindow, TimeWindow, Window

OUTCOMES = st.sampled_from([SUCCEEDED, FAILED, SLOW, FAILED + SLOW])


def summed(outcomes: list[int]) -> Counts:
    return Counts(len(outcomes), sum(o & FAILED for o in outcomes), sum(o >> 1 for o in outcomes))


def sums(window: Window) -> Counts:
    return Counts(window.total, window.failed, window.slow)


@given(size=st.integers(1, 8), outcomes=st.lists(OUTCOMES, max_size=40))
def test_count_window_holds_the_last_outcomes(size: int, outcomes: list[int]) -> None:
    window = CountWindow(size)
    for number, outcome in enumerate(outcomes, 1):
        window.record(outcome)
        assert sums(window) == window.counts() == summed(outcomes[:number][-size:])


@given(size=st.integers(1, 6), steps=st.lists(st.tuples(st.integers(0, 9_000), st.none() | OUTCOMES), max_size=40))
def test_time_window_holds_the_outcomes_of_the_last_whole_seconds(
    size: int, steps: list[tuple[int, int | None]]
) -> None:
    """The current second counts as one of them; a step waits so many milliseconds, then records or only reads."""
    now_ms = 3_500
    window = TimeWindow(size, lambda: now_ms / 1000)
    kept: list[tuple[int, int]] = []
    for wait_ms, outcome in steps:
        now_ms += wait_ms
        if outcome is not None:
            window.record(outcome)
            kept.append((now_ms // 1000, outcome))
        expected = summed([o for second, o in kept if second > now_ms // 1000 - size])
        if outcome is not None:
            assert sums(window) == expected
        assert window.counts() == expected


@pytest.mark.parametrize("passed", [-1.0, -100.0])
def test_time_window_survives_a_clock_that_goes_back(passed: float) -> None:
    """What is in the window stays, and counts for the latest second seen."""
    now = 100.0
    window = TimeWindow(3, lambda: now)
    window.record(FAILED)
    now += passed
    window.record(SLOW)
    assert window.counts() == Counts(2, 1, 1)
