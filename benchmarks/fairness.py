"""Whether a tool that hangs delays the others: latency beside it, as a ratio to that of an idle engine.

    python benchmarks/fairness.py

Two engines with the same tools. In one of them a plain function hangs in all of its threads and a coroutine in all of its
slots, with a hundred calls of each waiting behind them. Quick calls, of a coroutine and of a plain function, are made in
turns in both; the medians of the latencies are compared, round by round. Exits with 1 above `LIMIT`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable

import structlog

from fsm_engine import ToolCall, ToolEngine, ToolInvocation, ToolSpec

LIMIT = 1.2
ROUNDS = 41
CALLS = 300
WAITING = 100
HANGING_SLOTS = 8

_let_go = threading.Event()


async def quick(number: int) -> int:
    """Answer at once."""
    return number


async def turn(number: int) -> int:
    """Answer after a turn of the loop."""
    await asyncio.sleep(0)
    return number


def plain(number: int) -> int:
    """Answer from a thread."""
    return number


def hang_in_thread() -> None:
    """Hang."""
    _let_go.wait()


async def hang() -> None:
    """Hang."""
    await asyncio.get_running_loop().create_future()


def engine() -> ToolEngine:
    hanging = [
        ToolSpec(name="hang_in_thread", func=hang_in_thread, timeout=None, max_concurrency=HANGING_SLOTS),
        ToolSpec(name="hang", func=hang, timeout=None, max_concurrency=HANGING_SLOTS),
    ]
    return ToolEngine([quick, turn, plain, *hanging], max_concurrency=64)


async def beset(engine: ToolEngine) -> list[ToolInvocation]:
    """Let the hanging tools hang at their limits, and others of their calls wait."""
    calls = [
        engine.start(ToolCall(name)) for name in ("hang_in_thread", "hang") for _ in range(HANGING_SLOTS + WAITING)
    ]
    for _ in range(20):
        await asyncio.sleep(0.01)
    states = [call.state for call in calls]
    assert states.count("EXECUTING") == 2 * HANGING_SLOTS
    assert states.count("ADMITTING") == 2 * WAITING
    return calls


async def latency(call: Callable[[int], Awaitable[object]]) -> float:
    """Seconds that a call takes: the median of many."""
    taken = []
    for number in range(CALLS):
        started = time.perf_counter()
        await call(number)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def caller(engine: ToolEngine, name: str) -> Callable[[int], Awaitable[object]]:
    return lambda number: engine.invoke(name, {"number": number})


async def main() -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    idle, busy = engine(), engine()
    waiting = await beset(busy)
    worst = 0.0
    for name in ("quick", "turn", "plain"):
        alone, beside = caller(idle, name), caller(busy, name)
        ratios, latencies = [], []
        for _ in range(ROUNDS):
            gc.collect()
            latencies.append(await latency(beside))
            ratios.append(latencies[-1] / await latency(alone))
        ratio = statistics.median(ratios)
        worst = max(worst, ratio)
        print(
            f"{name:8} {statistics.median(latencies) * 1e6:7.1f} µs beside hanging tools, x {ratio:.2f} of an idle engine"
        )
    _let_go.set()
    for invocation in waiting:
        invocation.cancel()
    await asyncio.gather(*(invocation.ended for invocation in waiting))
    print(f"worst ratio: {worst:.2f} (limit {LIMIT})")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
