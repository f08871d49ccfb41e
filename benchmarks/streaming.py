"""How long it takes from the emission of an event until its readers have it: in this process, and over sockets.

    python benchmarks/streaming.py [--readers 100] [--calls 20] [--times 40] [--every 0.1]

Every reader of the first part is a task of its own. Those of the second are connections of another process, which reads
server-sent events by HTTP from a server in this one, as browsers would; both tell time by this machine's clock. The
delay holds everything between: queueing, writing, the socket, and the other process's reading. Wanted: p99 under 50 ms
with 100 readers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from fsm_engine import LiveRun, ToolContext, ToolEngine, tool
from fsm_engine.server import ServerLimits, create_app

WANTED_MS = 50.0
EMITTED = re.compile(rb'^data: {.*"at":([0-9.]+)')


@tool(timeout=None)
async def reports(number: int, times: int, every: float, ctx: ToolContext) -> int:
    """Report progress at a steady pace, as tools that work for a while do; no two of them at the same moment."""
    await asyncio.sleep(1.0 + every * (number % 17) / 17)
    for step in range(times):
        await asyncio.sleep(every)
        ctx.report(step / times)
    return times


class Load:
    """What the server takes for an agent: every conversation is a run of so many calls."""

    def __init__(self, calls: int, times: int, every: float) -> None:
        self.engine = ToolEngine([reports])
        self._asked = [
            {"name": "reports", "arguments": {"number": number, "times": times, "every": every}}
            for number in range(calls)
        ]

    def run(self, messages: Sequence[Any]) -> LiveRun:
        """The calls, whatever is said."""
        return LiveRun.of_calls(self.engine, self._asked)


# -- in this process -------------------------------------------------------------------------------------------------


async def read(run: LiveRun, delays: list[float]) -> None:
    """Take every event as it comes, and the text that a connection would be given."""
    async for event in run.log.reader():
        run.log.text(event)
        delays.append(time.time() - event.at)


async def in_process(load: Load, readers: int) -> None:
    run, delays = load.run([]), []
    run.begin()
    await asyncio.gather(*(read(run, delays) for _ in range(readers)))
    report("in process", delays, readers, run.log.last_seq)


# -- over sockets ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def serving(load: Load, readers: int) -> AsyncIterator[int]:
    limits = ServerLimits(readers=2 * readers, readers_of_run=2 * readers)
    config = uvicorn.Config(create_app(load.engine, load, limits=limits), port=0, log_level="error")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 # uvicorn offers nothing to wait for
        await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


async def over_sockets(load: Load, readers: int) -> None:
    async with serving(load, readers) as port:
        client = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--connect", str(port), "--readers", str(readers), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await client.communicate()
    got = json.loads(out)
    report("over HTTP", got["delays"], readers, got["events"])


async def read_by_http(
    port: int, request: bytes, delays: list[float], run_id: asyncio.Future[str] | None = None
) -> int:
    """Read one stream to its end; answers how many events it had. What came before it was there has no delay."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    events, came = 0, 0.0
    while line := await reader.readline():
        if found := EMITTED.match(line):
            now, emitted = time.time(), float(found[1])
            came = came or now
            if emitted > came:
                delays.append(now - emitted)
            events += 1
            if b'"type":"run_ended"' in line:
                break
        elif run_id is not None and line.lower().startswith(b"x-run-id:"):
            run_id.set_result(line.split(b":", 1)[1].strip().decode())
    writer.close()
    return events


async def connect(port: int, readers: int) -> None:
    """The other process: begins a run, reads it by many connections, and prints what it saw."""
    body = b'{"messages": [{"role": "user", "content": "go"}]}'
    head = f"POST /chat/stream HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    run_id: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    delays: list[float] = []
    first = asyncio.create_task(read_by_http(port, head.encode() + body, delays, run_id))
    get = f"GET /runs/{await run_id}/events HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    counts = await asyncio.gather(first, *(read_by_http(port, get, delays) for _ in range(readers - 1)))
    assert len(set(counts)) == 1, "somebody missed something"
    sys.stdout.write(json.dumps({"delays": delays, "events": counts[0]}))


# -- figures ---------------------------------------------------------------------------------------------------------


def report(what: str, delays: list[float], readers: int, events: int) -> None:
    ordered = sorted(delays)
    p50, p99, worst = (ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 for share in (0.5, 0.99, 1))
    verdict = "ok" if p99 < WANTED_MS else f"MORE THAN {WANTED_MS:g} ms"
    print(
        f"{what:<11} {readers} readers, {events} events each: p50 {p50:.1f} ms, p99 {p99:.1f} ms, worst {worst:.1f} ms  {verdict}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, default=100)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--times", type=int, default=40, help="reports of each call")
    parser.add_argument("--every", type=float, default=0.1, help="seconds between two reports of a call")
    parser.add_argument("--connect", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.connect is not None:
        asyncio.run(connect(given.connect, given.readers))
        return
    load = Load(given.calls, given.times, given.every)
    asyncio.run(in_process(load, given.readers))
    asyncio.run(over_sockets(load, given.readers))


if __name__ == "__main__":
    main()
