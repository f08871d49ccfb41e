"""A tool that reports progress and hands its text out in pieces, seen while it runs."""

import asyncio
from collections.abc import AsyncIterator

from fsm_engine import ToolContext, ToolEngine, ToolExecutionEvent, ToolResultEvent, tool


@tool(read_only=True)
async def count_down(start: int, context: ToolContext) -> AsyncIterator[str]:
    """Count down to zero."""
    for number in range(start, 0, -1):
        context.report((start - number) / start, f"{number} to go")
        yield f"{number}... "
        await asyncio.sleep(0)
    yield "lift-off"


async def main() -> None:
    calls = [{"id": "c1", "name": "count_down", "arguments": {"start": 3}}]
    async with ToolEngine([count_down]) as engine, engine.stream(calls) as run:
        async for event in run:
            if isinstance(event, ToolExecutionEvent) and event.progress is not None:
                print(f"{event.seq:2} {event.progress:4.0%} {event.message}")
            elif isinstance(event, ToolExecutionEvent) and event.chunk is not None:
                print(f"{event.seq:2} piece: {event.chunk!r}")
            elif isinstance(event, ToolExecutionEvent):
                print(f"{event.seq:2} state: {event.status}")
            elif isinstance(event, ToolResultEvent):
                print(f"{event.seq:2} whole: {event.result.text!r}")


asyncio.run(main())
