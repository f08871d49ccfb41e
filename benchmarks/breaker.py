"""What a permit and its outcome cost, beside pybreaker's own `call` of a function that does nothing.

Run: `python benchmarks/breaker.py`. The two are measured in turns in one run, so that whatever slows the machine slows
both; of each the best turn counts. Exits with 1 if ours costs more than `LIMIT` times as much.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pybreaker

from fsm_engine.breaker import BreakerPolicy, CircuitBreaker

TURNS = 60
CALLS = 5_000
LIMIT = 3.0

COUNT = BreakerPolicy.resilience4j()
TIME = BreakerPolicy(sliding_window_type="time", sliding_window_size=10)


def nothing() -> None:
    """Do nothing."""


def stock() -> Callable[[], object]:
    breaker = pybreaker.CircuitBreaker(fail_max=20)
    return lambda: breaker.call(nothing)


def permit(policy: BreakerPolicy, *, some_fail: bool = False) -> Callable[[], object]:
    breaker = CircuitBreaker(policy)
    if some_fail:  # a window with failures in it is judged after every outcome
        for number in range(100):
            taken = breaker.try_acquire()
            assert taken is not None
            taken.success(0.0) if number % 4 else taken.failure("TIMEOUT", 0.0)

    def one() -> None:
        taken = breaker.try_acquire()
        if taken is not None:
            taken.success(0.001)

    return one


def call() -> Callable[[], object]:
    breaker = CircuitBreaker(COUNT)
    return lambda: breaker.call(nothing)


def refused() -> Callable[[], object]:
    breaker = CircuitBreaker(COUNT)
    breaker.open()
    return breaker.try_acquire


def turn(function: Callable[[], object]) -> float:
    """Nanoseconds a call."""
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        function()
    return (time.perf_counter_ns() - start) / CALLS


def main() -> int:
    contenders = {
        "pybreaker call": stock(),
        "permit and outcome, count window": permit(COUNT),
        "permit and outcome, time window": permit(TIME),
        "permit and outcome, every fourth failed": permit(COUNT, some_fail=True),
        "call": call(),
        "refused": refused(),
    }
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(TURNS):
        for name, function in contenders.items():
            best[name] = min(best[name], turn(function))
    base = best["pybreaker call"]
    for name, cost in best.items():
        print(f"{name:42} {cost:8.0f} ns   x {cost / base:.2f}")
    worst = max(cost for name, cost in best.items() if name.startswith("permit")) / base
    print(f"ratio: {worst:.2f} (limit {LIMIT})")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
