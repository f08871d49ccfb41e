"""Readers that do not keep up, and a server that takes no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from fastapi import HTTPException
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from fsm_engine import ToolEngine
from fsm_engine.agent.run import LiveRun
from fsm_engine.events import FinalAnswerEvent
from fsm_engine.events.log import RunLog
from fsm_engine.server import ServerLimits, create_app
from fsm_engine.server.demo import SQUARES, demo_app
from fsm_engine.server.runs import Runs
from fsm_engine.server.sse import stream

from .support import USER, client_of, messages, read_all, served


class Torrent:
    """Answers by more than any connection holds, and keeps eight events of it."""

    def __init__(self) -> None:
        self.engine = ToolEngine([])
        self.ended = asyncio.Event()

    def run(self, messages: Sequence[dict[str, Any]]) -> LiveRun:
        async def work(run: LiveRun) -> None:
            for _ in range(60):
                run.publish(FinalAnswerEvent(0, 0.0, "x" * 400_000))
                await asyncio.sleep(0)
            self.ended.set()

        return LiveRun(self.engine, work, log=RunLog(max_events=8))


async def read_for_ever(socket: ClientConnection) -> None:
    while True:
        await socket.recv()


async def test_stream_ends_early_for_a_reader_who_had_not_read_what_the_log_gave_up() -> None:
    torrent = Torrent()
    runs = Runs(torrent.engine, torrent, None, ServerLimits())
    stored = runs.start(USER, None)
    body = aiter(stream(runs, stored, 0).body_iterator)
    assert await anext(body) == b"retry: 1000\n\n"
    first = await anext(body)
    assert isinstance(first, bytes)
    assert b"id: 1\n" in first
    await stored.run.wait()
    assert [each async for each in body] == []
    assert (stored.log.reader_count, runs.reader_count) == (0, 0)


async def test_socket_that_is_not_read_is_closed_with_the_advice_to_come_back_and_loses_are_told() -> None:
    torrent = Torrent()
    async with served(create_app(torrent.engine, torrent)) as url, asyncio.timeout(20):
        address = url.replace("http", "ws") + "/ws"
        async with connect(address, proxy=None, max_size=None, max_queue=1, compression=None) as socket:
            await socket.send(json.dumps({"type": "start", "messages": USER}))
            run_id = json.loads(await socket.recv())["run_id"]
            await torrent.ended.wait()
            with pytest.raises(ConnectionClosed) as closed:
                await read_for_ever(socket)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1013
        async with connect(address, proxy=None, max_size=None) as socket:
            await socket.send(json.dumps({"type": "resume", "run_id": run_id, "after": 1}))
            gap = json.loads(await socket.recv())
            assert (gap["type"], gap["seq"], gap["reason"]) == ("gap", 2, "lost")


async def test_late_reader_is_told_of_what_is_no_longer_kept() -> None:
    torrent = Torrent()
    async with client_of(create_app(torrent.engine, torrent)) as client:
        run_id, _ = await read_all(client)
        async with client.stream("GET", f"/runs/{run_id}/events") as response:
            gap, *rest = [each async for each in messages(response)]
    assert (gap.event, gap.data["reason"], gap.data["seq"]) == ("gap", "lost", 1)
    assert gap.data["missed"] + 1 == rest[0].data["seq"]
    assert rest[-1].event == "run_ended"


async def test_no_run_begins_while_the_server_closes() -> None:
    torrent = Torrent()
    runs = Runs(torrent.engine, torrent, None, ServerLimits())
    await runs.store.aclose()
    with pytest.raises(HTTPException, match="the server is closing"):
        runs.start(USER, None)


async def test_two_hundred_calls_of_one_message_have_two_hundred_results() -> None:
    """What the demonstration offers as its second question."""
    async with demo_app(pace=0) as app, client_of(app) as client:
        _, told = await read_all(client, messages=[{"role": "user", "content": SQUARES}])
    results = [each.data["result"]["data"] for each in told if each.event == "tool_result"]
    assert results == [number**2 for number in range(1, 201)]
