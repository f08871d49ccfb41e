"""Resilience4j's own answers, step by step: 400 recorded sequences (2.4 line).

A line of the file is one sequence: a `config` (names of `BreakerPolicy`, milliseconds where a name ends in `_ms`) and
`steps`. `do` is `call` (take a permit and report `outcome` at once), `acquire`, `finish` (report for the oldest permit
kept), `release` (give the oldest permit kept back), `advance` (by `ms`), or a manual change. `outcome` is `S`uccess or
`F`ailure, with an `L` if slower than the threshold, `S=` for a success in exactly that time, `I` for ignored. Every
step says what state, rate (two decimals, half up) and sums it left.
"""

from __future__ import annotations

import json
import lzma
import math
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from fsm_engine.breaker import BreakerPolicy, CircuitBreaker, Permit
from fsm_engine.clock import VirtualClock

GOLDEN = Path(__file__).parent / "data" / "resilience4j-golden.jsonl.xz"
START = 1_700_000_000.0  # a whole second: buckets of the time window begin there


def sequences() -> list[dict[str, Any]]:
    with lzma.open(GOLDEN, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def policy_of(config: dict[str, Any]) -> BreakerPolicy:
    return BreakerPolicy.resilience4j(
        **{name.removesuffix("_ms"): value / 1000 if name.endswith("_ms") else value for name, value in config.items()}
    )


def settle(permit: Permit, outcome: str, threshold: float) -> None:
    match outcome:
        case "S":
            permit.success(0.0)
        case "S=":
            permit.success(threshold)
        case "SL":
            permit.success(threshold + 0.001)
        case "F":
            permit.failure(ConnectionError(), 0.0)
        case "FL":
            permit.failure(ConnectionError(), threshold + 0.001)
        case "I":
            permit.release()
        case _:
            raise AssertionError(f"unknown outcome {outcome}")


class Replay:
    """One breaker that is told what the recorded one was told."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.clock = VirtualClock(start=START)
        self.policy = policy_of(config)
        self.breaker = CircuitBreaker(self.policy, clock=self.clock)
        self.elapsed_ms = 0
        self.kept: deque[Permit] = deque()
        self.breaker.on_event(lambda event: self.kept.clear())  # permits end with the state that gave them

    def take(self, step: dict[str, Any]) -> dict[str, Any]:
        """Do a step; answer what there is to compare."""
        seen: dict[str, Any] = {}
        match step["do"]:
            case "call" | "acquire" as do:
                permit = self.breaker.try_acquire()
                seen["admitted"] = permit is not None
                if permit is not None and do == "call":
                    settle(permit, step["outcome"], self.policy.slow_call_duration_threshold)
                elif permit is not None:
                    self.kept.append(permit)
            case "finish":
                settle(self.kept.popleft(), step["outcome"], self.policy.slow_call_duration_threshold)
            case "release":
                self.kept.popleft().release()
            case "advance":
                self.elapsed_ms += step["ms"]
                # The difference of two numbers this close is exact, so time never drifts off the millisecond.
                self.clock.advance(START + self.elapsed_ms / 1000 - self.clock.monotonic())
            case manual:
                getattr(self.breaker, manual)()
        metrics = self.breaker.metrics()
        rate = metrics.failure_rate
        return seen | {
            "state": str(metrics.state),
            "failure_rate": rate if rate < 0 else math.floor(rate * 100 + 0.5) / 100,
            "buffered": metrics.buffered,
            "failed": metrics.failed,
            "slow": metrics.slow,
        }


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_every_step_ends_where_resilience4j_ended(first: int) -> None:
    for number, sequence in enumerate(sequences()[first : first + 50], first):
        replay = Replay(sequence["config"])
        for at, step in enumerate(sequence["steps"]):
            seen = replay.take(step)
            assert seen == {name: step[name] for name in seen}, (number, at, step, sequence["config"])


def test_the_recording_is_whole() -> None:
    """400 sequences in which every state, every manual change and every kind of outcome occurs."""
    steps = [step for sequence in sequences() for step in sequence["steps"]]
    assert len(sequences()) == 400
    assert {step["state"] for step in steps} == {"CLOSED", "OPEN", "HALF_OPEN", "FORCED_OPEN", "DISABLED"}
    assert {step["outcome"] for step in steps if "outcome" in step} == {"S", "F", "SL", "FL", "S=", "I"}
    assert {step["do"] for step in steps} == {
        *("call", "acquire", "finish", "release", "advance"),
        *("open", "close", "force_open", "disable"),
    }
