"""What one invocation costs, as a ratio to the least that anyone could do, measured in the same process.

    python benchmarks/overhead.py            this library
    python benchmarks/overhead.py --peers    other libraries beside it, each in an environment of its own (downloads)

The floor is `json.dumps(await tool(**json.loads(arguments)))`. Log lines are filtered out by their level, as in
production. What each row includes is said in the row. Rounds of the row and of the floor alternate, and the median of
the ratios is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import sys
import timeit
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import structlog
from pydantic import Field

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import _peers
from _harness import MIN_LENGTH, TIME_LIMIT, Variant, measure, search
from transitions import Machine
from transitions import State as StockState

from fsm_engine import INVOCATION, Event, LifecycleMachine, Stages, ToolEngine, ToolSpec, __version__, tool

BATCH = 100


@tool(timeout=TIME_LIMIT)
async def checked_search(query: Annotated[str, Field(min_length=MIN_LENGTH)], limit: int = 10) -> dict[str, Any]:
    """Search the web."""
    return await search(query, limit)


TOOL: ToolSpec = checked_search.replaced(name="search")


def variants() -> list[Variant]:
    """Ways to run one call, each from the model's JSON text to the text that the model reads."""
    plain = ToolEngine([TOOL])
    unread: deque[Event] = deque()
    watched = ToolEngine([TOOL], stages=Stages(publish=unread.append))

    async def invoke(arguments: str) -> str:
        invocation = await plain.execute_tool_call({"id": "call_1", "name": "search", "arguments": arguments})
        assert invocation.response is not None
        return invocation.response.for_model()

    async def invoke_and_read(arguments: str) -> str:
        invocation = await watched.execute_tool_call({"id": "call_1", "name": "search", "arguments": arguments})
        while unread:
            unread.popleft()
        assert invocation.response is not None
        return invocation.response.for_model()

    async def stream_one(arguments: str) -> str:
        async with plain.stream([{"id": "call_1", "name": "search", "arguments": arguments}]) as run:
            async for _ in run:
                pass
        response = run.invocations[0].response
        assert response is not None
        return response.for_model()

    includes = "validation, time limit, history"
    return [
        Variant(includes, invoke),
        Variant(f"{includes}, five events read", invoke_and_read),
        Variant(f"{includes}, a stream of its own", stream_one),
    ]


async def measure_batch() -> dict[str, Any]:
    """The cost of each of a hundred calls in one stream: a task each, events read while they run."""
    engine = ToolEngine([TOOL])

    async def batch(arguments: str) -> str:
        calls = [{"id": f"call_{number}", "name": "search", "arguments": arguments} for number in range(BATCH)]
        async with engine.stream(calls) as run:
            async for _ in run:
                pass
        return str([invocation.response.for_model() for invocation in run.invocations if invocation.response])

    figure: dict[str, Any] = await measure(
        Variant(f"each of {BATCH} calls in one stream, a task each, events read", batch)
    )
    return figure | {key: figure[key] / BATCH for key in ("ratio", "microseconds")}


def transition_seconds(fire: Callable[[Any, str], object], model: Any) -> float:
    """Seconds of one transition on the way PENDING > VALIDATING > ADMITTING > EXECUTING > COMPLETED."""

    def lap() -> None:
        model.state = "PENDING"
        for trigger in ("validate", "accept", "admit", "succeed"):
            fire(model, trigger)

    times = 2_000
    return min(timeit.repeat(lap, number=times, repeat=15)) / times / 4


def transitions() -> tuple[float, float]:
    """Seconds of a transition with every hook and guard of the invocation's lifecycle: ours, and the stock event's."""
    hooks: dict[str, Any] = {name: lambda event: None for name in INVOCATION.hook_names}
    model = SimpleNamespace(state="PENDING", is_refused=False, is_approval_missing=False)
    stock = Machine(
        model=None,
        states=[
            StockState(
                state.name,
                on_enter=[hooks[name] for name in (*state.gates, *state.on_enter)],
                on_exit=[hooks[name] for name in state.on_exit],
                final=state.final,
            )
            for state in INVOCATION.states
        ],
        initial=INVOCATION.initial,
        auto_transitions=False,
        send_event=True,
        after_state_change=[hooks[name] for name in INVOCATION.on_transition],
    )
    for row in INVOCATION.moves:
        stock.add_transition(
            row.trigger, row.source, row.dest, conditions=[INVOCATION.guards[row.guard]] if row.guard else []
        )
    ours = transition_seconds(LifecycleMachine(INVOCATION, hooks).fire, model)
    return ours, transition_seconds(lambda moved, trigger: stock.events[trigger].trigger(moved), model)


async def measure_ours() -> list[_peers.PeerFigure]:
    """The figures of this library."""
    measured: list[dict[str, Any]] = [await measure(variant) for variant in variants()] + [await measure_batch()]
    return [_peers.PeerFigure("fsm_engine", __version__, **figure) for figure in measured]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--peers", action="store_true", help="measure other libraries too (large downloads into .bench)"
    )
    wanted = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    pairs = [transitions() for _ in range(3)]
    ours, stock = (statistics.median(each) for each in zip(*pairs, strict=True))
    print(
        f"a transition: {ours * 1e6:.2f} µs, {stock / ours:.1f} times cheaper than the stock event ({stock * 1e6:.2f} µs)\n"
    )
    figures = asyncio.run(measure_ours())
    if wanted.peers:
        figures += _peers.measure()
    print(_peers.table(figures))


if __name__ == "__main__":
    main()
