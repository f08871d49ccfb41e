"""Times one tool call of a peer against the least that anyone could do; used by the scripts beside it.

Each script runs in an environment that holds the peer alone, so this module uses the standard library only. The scripts
declare the same tool with real annotations, not `from __future__ import annotations`: some peers read annotations anew
at each call, and text would cost them more.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.metadata
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

ARGUMENTS = '{"query": "AI chips", "limit": 5}'
TOO_SHORT = '{"query": "A", "limit": 5}'
MIN_LENGTH = 3
TIME_LIMIT = 30.0
ROUNDS = 15
ROUND_SECONDS = 0.05


@dataclass(frozen=True)
class Variant:
    """One way to call the tool from a model's JSON text."""

    name: str
    call: Callable[[str], Awaitable[object]]
    validates: bool = True


async def search(query: str, limit: int = 10) -> dict[str, Any]:
    """Search the web."""
    return {"query": query, "limit": limit, "hits": 3}


async def floor(arguments: str) -> str:
    """Do what no library can leave out: read the arguments, run the function, write the result."""
    return json.dumps(await search(**json.loads(arguments)))


async def check(variant: Variant) -> None:
    """See that the peer does what its variant says, so that nobody is timed while failing."""
    answer = await variant.call(ARGUMENTS)
    if "hits" not in str(answer):
        raise SystemExit(f"{variant.name}: the tool did not run: {answer!r}")
    try:
        refused = "hits" not in str(await variant.call(TOO_SHORT))
    except Exception:  # noqa: BLE001 - each peer refuses in its own way
        refused = True
    if refused is not variant.validates:
        raise SystemExit(f"{variant.name}: arguments are {'' if refused else 'not '}validated")


async def seconds_a_call(call: Callable[[str], Awaitable[object]], times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        await call(ARGUMENTS)
    return (time.perf_counter() - started) / times


async def measure(variant: Variant) -> dict[str, object]:
    """Alternate rounds of peer and floor, so that a busy moment of the machine meets both."""
    await check(variant)
    times = max(20, int(ROUND_SECONDS / await seconds_a_call(variant.call, 20)))
    floor_times = max(20, int(ROUND_SECONDS / await seconds_a_call(floor, 20)))
    ratios, durations = [], []
    for _ in range(ROUNDS):
        gc.collect()
        duration = await seconds_a_call(variant.call, times)
        ratios.append(duration / await seconds_a_call(floor, floor_times))
        durations.append(duration)
    return {
        "variant": variant.name,
        "ratio": statistics.median(ratios),
        "microseconds": statistics.median(durations) * 1e6,
    }


async def report(distribution: str, variants: Sequence[Variant]) -> None:
    """Print one line of JSON: the peer, its version and a figure for each variant."""
    figures = [await measure(variant) for variant in variants]
    version = importlib.metadata.version(distribution)
    print(json.dumps({"name": distribution, "version": version, "figures": figures}))


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())
