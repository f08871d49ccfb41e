"""A thousand calls at once, and readers of all kinds: nobody who stays within the log misses, doubles or reorders anything."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict

import pytest

from fsm_engine import Event, GapEvent, LiveRun, ReaderDroppedError, RunLog, ToolContext, ToolEngine, ToolEvent, tool

from .support import assert_told_in_full

CALLS = 1_000


@tool
async def work(turns: int, ctx: ToolContext) -> int:
    for turn in range(turns):
        ctx.report(turn / turns)
        ctx.emit(str(turn))
        await asyncio.sleep(0)
    return turns


@tool
async def fails(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
    raise ValueError


def load(rng: random.Random, log: RunLog) -> LiveRun:
    calls = [
        {
            "id": str(number),
            "name": rng.choice(["work", "work", "work", "fails"]),
            "arguments": {"turns": rng.randrange(5)},
        }
        for number in range(CALLS)
    ]
    return LiveRun.of_calls(ToolEngine([work, fails]), calls, log=log)


async def read(log: RunLog, rng: random.Random, pause: int, leaves: float) -> list[Event]:
    """What a reader is told in the end that rests after each event, and now and then loses the connection."""
    seen: list[Event] = []
    reader = log.reader()
    while True:
        try:
            event = await anext(reader)
        except StopAsyncIteration:
            return seen
        except ReaderDroppedError:
            reader = log.reader(after=seen[-1].seq if seen else 0)
            continue
        seen.append(event)
        if rng.random() < leaves and not isinstance(event, GapEvent):
            reader.close()
            await asyncio.sleep(0)
            reader = log.reader(after=event.seq)
        for _ in range(rng.randrange(pause + 1)):
            await asyncio.sleep(0)


def assert_in_order(events: list[Event], last_seq: int) -> None:
    """Numbers go up by one, and where they do not a gap says by how many."""
    expected = 1
    for event in events:
        assert event.seq == expected
        expected += event.missed if isinstance(event, GapEvent) else 1
    assert expected == last_seq + 1


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_reader_within_the_log_is_told_everything_once_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    run = load(rng, RunLog(max_events=50_000))
    kinds = [(0, 0.0), (0, 0.02), (3, 0.0), (2, 0.05), (0, 0.5)]
    run.begin()
    tasks = [asyncio.create_task(read(run.log, rng, *kind)) for kind in kinds]
    await run.wait()
    tasks.append(asyncio.create_task(read(run.log, rng, 0, 0.01)))
    first, *others = await asyncio.gather(*tasks)
    assert_in_order(first, run.log.last_seq)
    assert not any(isinstance(event, GapEvent) for event in first)
    assert all(other == first for other in others)
    by_call = defaultdict(list)
    for event in first:
        if isinstance(event, ToolEvent):
            by_call[event.uid].append(event)
    assert len(by_call) == CALLS
    for events in by_call.values():
        assert_told_in_full(events)


async def test_readers_that_fall_out_of_a_small_log_are_told_how_much_they_miss_and_the_tools_do_not_wait() -> None:
    rng = random.Random(3)
    run = load(rng, RunLog(max_events=500))
    stuck = run.log.reader()
    run.begin()
    tasks = [asyncio.create_task(read(run.log, rng, *kind)) for kind in [(0, 0.0), (0, 0.02), (50, 0.01)]]
    await run.wait()
    assert all(invocation.is_final for invocation in run.invocations)
    assert stuck.is_dropped
    assert len(run.log) <= 500
    for events in await asyncio.gather(*tasks):
        assert_in_order(events, run.log.last_seq)
        assert events[-1].type == "run_ended"
    assert any(isinstance(event, GapEvent) for event in tasks[-1].result())
