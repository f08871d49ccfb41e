"""What breaker, limits and fallback add to a whole invocation, as a ratio to the least that anyone could do.

    python benchmarks/resilience.py

The floor is `json.dumps(await tool(**json.loads(arguments)))`, measured in turns with each row, and the median of the
ratios is printed. An invocation begins with the model's JSON text and ends with the text that the model reads. Log lines
are filtered out by their level, as in production. Exits with 1 if a row costs more than `LIMIT` times the floor.

A call that the open circuit refuses never reaches the tool; it is measured against the same floor.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import structlog
from pydantic import Field

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from _harness import MIN_LENGTH, TIME_LIMIT, Variant, measure, search

from fsm_engine import BreakerPolicy, FallbackPolicy, RateLimit, ToolEngine, tool
from fsm_engine.tools.tool_settings import ToolSettings

LIMIT = 5.0


@tool(name="search", timeout=TIME_LIMIT, read_only=True)
async def checked_search(query: Annotated[str, Field(min_length=MIN_LENGTH)], limit: int = 10) -> dict[str, Any]:
    """Search the web."""
    return await search(query, limit)


BREAKER: ToolSettings = {"breaker": BreakerPolicy()}
SLOTS: ToolSettings = {"max_concurrency": 100}
VALUE: ToolSettings = {"fallback": FallbackPolicy(value={"hits": 0}, on_failure=True)}
LAST_GOOD: ToolSettings = {"fallback": "last_good"}
# Far more than there are calls: what is measured is the counting, not the waiting.
RATE: ToolSettings = {"rate_limit": RateLimit(1_000_000, per=1.0)}

SETTINGS: dict[str, ToolSettings] = {
    "nothing of it": {},
    "breaker": BREAKER,
    "breaker, slots, a value to fall back on": BREAKER | SLOTS | VALUE,
    "breaker, slots, the last good result kept": BREAKER | SLOTS | LAST_GOOD,
    "breaker, slots, rate, a value to fall back on": BREAKER | SLOTS | RATE | VALUE,
    "breaker, slots, rate, the last good result kept": BREAKER | SLOTS | RATE | LAST_GOOD,
}


def called(engine: ToolEngine) -> Callable[[str], Awaitable[str]]:
    async def call(arguments: str) -> str:
        invocation = await engine.execute_tool_call({"id": "call_1", "name": "search", "arguments": arguments})
        assert invocation.response is not None
        return invocation.response.for_model()

    return call


def variants() -> list[Variant]:
    rows = [
        Variant(name, called(ToolEngine([checked_search.replaced(**settings)]))) for name, settings in SETTINGS.items()
    ]
    opened = ToolEngine([checked_search.replaced(**(BREAKER | SLOTS | VALUE))])
    opened.circuits["search@1"].force_open()
    return [*rows, Variant("circuit open, answered by a value", called(opened))]


async def main() -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    worst = 0.0
    for variant in variants():
        figure = await measure(variant)
        ratio, microseconds = float(str(figure["ratio"])), float(str(figure["microseconds"]))
        worst = max(worst, ratio)
        print(f"{variant.name:50} x {ratio:5.2f}   {microseconds:6.1f} µs")
    print(f"worst ratio to the floor: {worst:.2f} (limit {LIMIT})")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
