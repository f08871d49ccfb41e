"""What invocations in flight cost: time for each, and memory for each beyond the task that runs its tool.

    python benchmarks/concurrency.py

A hundred, a thousand and ten thousand calls of a tool that waits 50 ms run at once. The cost of a call is the processor
time of the whole batch, divided; the same number of bare tasks that wait 50 ms is measured beside it. Memory is what
`tracemalloc` counts while all are waiting, less what the bare tasks take.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import statistics
import time
import tracemalloc
from collections.abc import Awaitable, Callable

import structlog

from fsm_engine import ToolEngine, tool

WAIT = 0.05
SIZES = (100, 1_000, 10_000)
ROUNDS = 5


@tool(timeout=30.0)
async def wait_a_moment(number: int) -> int:
    """Answer after 50 ms."""
    await asyncio.sleep(WAIT)
    return number


async def bare(number: int) -> int:
    await asyncio.sleep(WAIT)
    return number


async def run_bare(size: int) -> None:
    await asyncio.gather(*(bare(number) for number in range(size)))


def run_engine(engine: ToolEngine) -> Callable[[int], Awaitable[object]]:
    async def run(size: int) -> None:
        calls = [{"id": f"c{n}", "name": "wait_a_moment", "arguments": {"number": n}} for n in range(size)]
        done = await engine.execute_tool_calls(calls)
        assert all(invocation.state == "COMPLETED" for invocation in done)

    return run


async def microseconds_a_call(run: Callable[[int], Awaitable[object]], size: int) -> float:
    """Processor time of a batch, for each of its calls; the median of several rounds."""
    figures = []
    for _ in range(max(ROUNDS, 3_000 // size)):
        gc.collect()
        started = time.process_time()
        await run(size)
        figures.append((time.process_time() - started) / size * 1e6)
    return statistics.median(figures)


async def bytes_in_flight(run: Callable[[int], Awaitable[object]], size: int) -> float:
    """Memory of each call while all of them wait."""
    gc.collect()
    tracemalloc.start()
    batch = asyncio.ensure_future(run(size))
    # Until every call waits for its 50 ms; the loop turns many times, and none of the calls can have ended before.
    for _ in range(6):
        await asyncio.sleep(0)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await batch
    return used / size


async def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    engine = ToolEngine([wait_a_moment])
    run = run_engine(engine)
    await run(1_000)
    print("| in flight | µs a call | bare task | beyond the task | KB beyond the task |")
    print("|---:|---:|---:|---:|---:|")
    costs = []
    for size in SIZES:
        ours, floor = await microseconds_a_call(run, size), await microseconds_a_call(run_bare, size)
        memory = await bytes_in_flight(run, size) - await bytes_in_flight(run_bare, size)
        costs.append(ours)
        print(f"| {size:,} | {ours:.0f} | {floor:.0f} | {ours - floor:.0f} | {memory / 1024:.1f} |")
    print(f"\nthe dearest call costs {max(costs) / min(costs):.2f} times the cheapest")


if __name__ == "__main__":
    asyncio.run(main())
