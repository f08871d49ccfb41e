"""Runs over a WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException
from starlette.requests import HTTPConnection
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from fsm_engine import ToolEngine, tool
from fsm_engine.server import ServerLimits, create_app

from ..support import until
from .support import USER, says, served


@tool(needs_approval=True)
async def pay(amount: float) -> str:
    return f"{amount:g} paid"


async def hang() -> None:
    await asyncio.Event().wait()


def pay_app(**settings: Any) -> FastAPI:
    return create_app(ToolEngine([pay, hang]), says([("pay", {"amount": 150})], "Done."), **settings)


def hanging_app(**settings: Any) -> FastAPI:
    return create_app(ToolEngine([hang]), says([("hang", {})], "Done."), **settings)


@asynccontextmanager
async def connected(url: str, **settings: Any) -> AsyncIterator[ClientConnection]:
    async with asyncio.timeout(20), connect(url.replace("http", "ws") + "/ws", proxy=None, **settings) as socket:
        yield socket


async def ask(socket: ClientConnection, **message: Any) -> None:
    await socket.send(json.dumps(message))


async def hear(socket: ClientConnection, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    async for text in socket:
        message: dict[str, Any] = json.loads(text)
        if wanted(message):
            return message
    raise AssertionError("the socket was closed before")


def of(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda message: message["type"] == name or message.get("status") == name


async def test_run_is_started_decided_on_and_followed_to_its_end() -> None:
    async with served(pay_app()) as url, connected(url) as socket:
        await ask(socket, type="start", messages=USER)
        started = await hear(socket, lambda _: True)
        assert (started["type"], len(started["run_id"]) >= 32) == ("run_started", True)
        uid = (await hear(socket, of("AWAITING_APPROVAL")))["uid"]
        await ask(socket, type="approve", uid=uid, arguments={"amount": 120})
        assert await hear(socket, of("done")) == {"type": "done", "to": "approve", "uid": uid}
        assert (await hear(socket, of("tool_result")))["result"]["text"] == "120 paid"
        assert (await hear(socket, of("run_ended")))["reason"] == "final_answer"
        await ask(socket, type="start", messages=USER)
        assert (await hear(socket, of("run_started")))["run_id"] != started["run_id"]


async def test_another_socket_goes_on_where_the_first_was_cut() -> None:
    async with served(pay_app()) as url:
        async with connected(url) as socket:
            await ask(socket, type="start", messages=USER)
            run_id = (await hear(socket, of("run_started")))["run_id"]
            asked = await hear(socket, of("AWAITING_APPROVAL"))
        async with connected(url) as socket:
            await ask(socket, type="resume", run_id=run_id, after=asked["seq"])
            await ask(socket, type="deny", uid=asked["uid"], reason="no")
            rest = [await hear(socket, lambda _: True) for _ in range(2)]
            assert sorted(each["type"] for each in rest) == ["done", "tool_error"]
            assert (await hear(socket, of("run_ended")))["seq"] > asked["seq"]


async def test_run_is_cancelled_on_request_and_only_with_its_socket_if_that_was_asked_for() -> None:
    engine = ToolEngine([hang])
    app = create_app(engine, says([("hang", {})], "Done."))
    async with served(app) as url:
        async with connected(url) as socket:
            await ask(socket, type="start", messages=USER)
            await hear(socket, of("EXECUTING"))
            await ask(socket, type="cancel", reason="enough")
            assert (await hear(socket, of("run_ended")))["message"] == "enough"
            await ask(socket, type="cancel")
            assert "has ended" in (await hear(socket, of("refused")))["message"]
        for is_asked in (True, False):
            async with connected(url) as socket:
                await ask(socket, type="start", messages=USER, cancel_on_disconnect=is_asked)
                await hear(socket, of("EXECUTING"))
            if is_asked:
                await until(lambda: not engine.running)
        assert len(engine.running) == 1


REFUSED = [
    ("no JSON", "a message is a JSON object"),
    ("[]", "a message is a JSON object"),
    ("[" * 100_000, "at most 2000 bytes"),
    ("{}", "type must be one of: start, resume, approve, deny, cancel"),
    ('{"type": "dance"}', "type must be one of"),
    ('{"type": {}}', "type must be one of"),
    ('{"type": "start"}', "messages: Field required"),
    ('{"type": "start", "messages": [{"role": "system", "content": ""}]}', "messages.0"),
    ('{"type": "resume", "run_id": "none"}', "there is no such run"),
    ('{"type": "resume", "run_id": "none", "after": -1}', "after: "),
    ('{"type": "approve", "uid": "none"}', "start a run first"),
]


async def test_what_makes_no_sense_is_answered_by_what_is_wrong_and_the_socket_stays() -> None:
    async with served(pay_app(limits=ServerLimits(body_bytes=2_000))) as url, connected(url) as socket:
        for text, message in REFUSED:
            await socket.send(text)
            refused = await hear(socket, lambda _: True)
            assert refused["type"] == "refused", text
            assert message in refused["message"], text
        await socket.send(b"bytes")
        assert "sent as text" in (await hear(socket, of("refused")))["message"]
        await ask(socket, type="start", messages=USER)
        uid = (await hear(socket, of("AWAITING_APPROVAL")))["uid"]
        await ask(socket, type="start", messages=USER)
        assert "this socket reads a run" in (await hear(socket, of("refused")))["message"]
        await ask(socket, type="approve", uid="none")
        assert "no such call" in (await hear(socket, of("refused")))["message"]
        await ask(socket, type="deny", uid=uid, why="typo")
        assert (await hear(socket, of("refused")))["message"].startswith("why: ")


async def test_pages_of_other_sites_may_not_connect() -> None:
    """Browsers send cookies along with such a connection and ask nobody."""
    async with served(pay_app()) as url:
        with pytest.raises(InvalidStatus):
            async with connected(url, origin="https://elsewhere.example"):
                pass
        async with connected(url, origin=url):
            pass


async def test_only_those_who_are_known_may_connect_and_each_sees_their_own_runs() -> None:
    def authorize(connection: HTTPConnection) -> str:
        name = connection.headers.get("authorization")
        if name is None:
            raise HTTPException(401, "say who you are")
        return name

    async with served(pay_app(authorize=authorize)) as url:
        with pytest.raises(InvalidStatus):
            async with connected(url):
                pass
        async with connected(url, additional_headers={"Authorization": "ann"}) as socket:
            await ask(socket, type="start", messages=USER)
            run_id = (await hear(socket, of("run_started")))["run_id"]
        async with connected(url, additional_headers={"Authorization": "bob"}) as socket:
            await ask(socket, type="resume", run_id=run_id)
            assert "there is no such run" in (await hear(socket, of("refused")))["message"]


async def test_readers_are_limited() -> None:
    app = hanging_app(limits=ServerLimits(readers=1))
    async with served(app) as url, connected(url) as first, connected(url) as second:
        await ask(first, type="start", messages=USER)
        run_id = (await hear(first, of("run_started")))["run_id"]
        await hear(first, of("EXECUTING"))
        await ask(second, type="resume", run_id=run_id)
        assert "too many readers" in (await hear(second, of("refused")))["message"]
