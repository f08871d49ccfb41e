"""Runs as server-sent events."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI

from fsm_engine import ToolContext, ToolEngine, tool
from fsm_engine.events import FinalAnswerEvent
from fsm_engine.events.log import RunLog
from fsm_engine.server import ServerLimits, create_app, create_router
from fsm_engine.server.runs import batches
from fsm_engine.server.sse import RETRY_MS

from ..support import until
from .support import USER, client_of, messages, read_all, read_until, says, served, serving, status, types


@tool(read_only=True)
async def double(number: int) -> int:
    return 2 * number


class Gate:
    """A tool that waits until it is let go, and counts how often it came to its end."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.ended = 0

    async def wait(self, context: ToolContext) -> str:
        context.report(0.5, "half")
        await self.open.wait()
        self.ended += 1
        return "through"


def app_with(*tools: Any, model: Any = None, **settings: Any) -> FastAPI:
    model = model or says([("double", {"number": 21})], "It is 42.")
    return create_app(ToolEngine(tools or [double]), model, **settings)


async def test_run_is_streamed_from_the_call_to_its_terminal_event() -> None:
    async with client_of(app_with()) as client:
        run_id, told = await read_all(client)
    assert types(told) == [
        "tool_call",
        *["tool_execution"] * 3,
        "tool_result",
        "final_answer",
        "run_ended",
    ]
    assert [each.data["seq"] for each in told] == list(range(1, len(told) + 1))
    assert {each.event == each.data["type"] for each in told} == {True}
    result = next(each for each in told if each.event == "tool_result")
    assert (result.data["result"]["data"], result.data["status"]) == (42, "success")
    assert told[-1].data["reason"] == "final_answer"
    assert len(run_id) >= 32  # nobody guesses it


async def test_every_event_has_its_number_as_its_id() -> None:
    gate = Gate()
    gate.open.set()
    async with client_of(app_with(gate.wait, model=says([("wait", {})], "Done."))) as client:
        _, told = await read_all(client)
    assert {each.event for each in told} >= {"thinking", "tool_arguments", "tool_execution", "tool_result"}
    assert [each.id for each in told] == [str(each.data["seq"]) for each in told]


async def test_reader_that_knows_nothing_but_ids_gets_each_event_once_and_then_the_end() -> None:
    """An EventSource behind a proxy that cuts every connection after a few events; it does not know `run_ended`."""

    async def write(context: ToolContext) -> str:
        for number in range(200):
            context.emit(f"{number} " * 50)
        return "written"

    app = app_with(write, model=says([("write", {})], "Done."))
    heard: list[int] = []
    async with client_of(app) as client:
        run_id, told = await read_all(client)
        headers: dict[str, str] = {}
        for _ in range(len(told)):
            async with client.stream("GET", f"/runs/{run_id}/events", headers=headers) as response:
                if response.status_code == 204:
                    break
                lines = response.aiter_lines()
                assert await anext(lines) == f"retry: {RETRY_MS}"
                taken = 0
                async for line in lines:
                    if line.startswith("id: "):
                        headers["Last-Event-ID"] = line.removeprefix("id: ")
                    elif line.startswith("data: "):
                        heard.append(json.loads(line.removeprefix("data: "))["seq"])
                        taken += 1
                    elif taken == 9:
                        break
        else:
            raise AssertionError("it comes back for ever")
        assert (await client.get(f"/runs/{run_id}/events?after={told[-1].id}")).status_code == 204
    assert heard == [each.data["seq"] for each in told]


async def test_gap_leads_on_to_what_follows_it() -> None:
    log = RunLog(max_events=8)
    for number in range(20):
        log.append(FinalAnswerEvent(0, 0.0, str(number)))
    log.close()
    (gap, first, *_), *_ = [each async for each in batches(log, 2)]
    assert (gap[0], gap[1], first[1]) == ("gap", log.lost_to, log.lost_to + 1)
    (unknown, *_), *_ = [each async for each in batches(log, 999)]
    assert unknown[:2] == ("gap", None)


HOSTILE = ["a\r\ndata: {}\r\n\r\nevent: run_ended", "\rid: 99", "x\n\n\n", "\x00\x85\u2028\u2029", "\ud835 \U0001f600"]


@pytest.mark.parametrize("text", HOSTILE)
async def test_nothing_that_anybody_says_can_end_a_field_and_begin_another(text: str) -> None:
    """First seen in fanout/django-eventstream#185: data was split on LF only, so a CR injected fields."""

    async def echo(text: str) -> str:
        return text

    shown = text.encode(errors="replace").decode()
    model = says([("echo", {"text": text}), (f"no{text}", {})], f"Said {shown}")
    async with (
        client_of(app_with(echo, model=model)) as client,
        client.stream("POST", "/chat/stream", json={"messages": USER}) as response,
    ):
        raw = b"".join([each async for each in response.aiter_raw()])
    assert raw.isascii()
    assert b"\r" not in raw
    assert b"\x00" not in raw
    for frame in raw.decode().removesuffix("\n\n").split("\n\n"):
        names = [line.partition(": ")[0] for line in frame.split("\n")]
        assert names in (["retry"], ["event", "id", "data"])
        if names == ["retry"]:
            continue
        json.loads(frame.rpartition("\n")[2].removeprefix("data: "))
    assert raw.count(b"\nevent: run_ended") == 1


@pytest.mark.parametrize(
    ("headers", "address"),
    [
        ({"Last-Event-ID": "3"}, ""),
        ({}, "?after=3"),
        ({"Last-Event-ID": "3"}, "?after=1"),
        ({"Last-Event-ID": ""}, "?after=3"),
    ],
    ids=["header", "address", "the header is newer", "an empty header says nothing"],
)
async def test_reader_that_comes_back_gets_what_it_has_missed(headers: dict[str, str], address: str) -> None:
    async with client_of(app_with()) as client:
        run_id, told = await read_all(client)
        async with client.stream("GET", f"/runs/{run_id}/events{address}", headers=headers) as response:
            assert response.headers["x-run-id"] == run_id
            again = [each async for each in messages(response)]
    assert again == told[3:]


async def test_late_joiner_gets_everything_and_an_unknown_number_is_told_of_by_a_gap() -> None:
    async with client_of(app_with()) as client:
        run_id, told = await read_all(client)
        async with client.stream("GET", f"/runs/{run_id}/events") as response:
            assert [each async for each in messages(response)] == told
        async with client.stream("GET", f"/runs/{run_id}/events?after=999") as response:
            gap, *rest = [each async for each in messages(response)]
    assert (gap.event, gap.id, gap.data["reason"]) == ("gap", None, "unknown_id")
    assert rest == told


@pytest.mark.parametrize("header", [b"x", b"-1", b"1.5", "\u0661".encode(), b"9" * 400])
async def test_last_event_id_that_is_no_number_is_refused(header: bytes) -> None:
    async with client_of(app_with()) as client:
        run_id, _ = await read_all(client)
        response = await client.get(f"/runs/{run_id}/events", headers=[(b"Last-Event-ID", header)])
    assert response.status_code == 400
    assert "Last-Event-ID must be" in response.json()["detail"]


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_run_goes_on_without_its_reader_unless_asked_to_stop(is_cancelled: bool) -> None:
    gate = Gate()
    body = {"messages": USER, "cancel_on_disconnect": is_cancelled}
    async with client_of(app_with(gate.wait, model=says([("wait", {})], "Done."))) as client:
        async with client.stream("POST", "/chat/stream", json=body) as response:
            run_id = response.headers["x-run-id"]
            await read_until(messages(response), status("EXECUTING"))
        if not is_cancelled:
            gate.open.set()
        async with client.stream("GET", f"/runs/{run_id}/events") as response:
            told = [each async for each in messages(response)]
    assert told[-1].data["reason"] == ("cancelled" if is_cancelled else "final_answer")
    assert gate.ended == (0 if is_cancelled else 1)


async def test_reader_who_has_all_of_it_does_not_cancel_by_leaving() -> None:
    async with client_of(app_with()) as client:
        _, told = await read_all(client, cancel_on_disconnect=True)
    assert told[-1].data["reason"] == "final_answer"


async def test_many_readers_of_one_run_get_the_same_and_none_waits_for_another() -> None:
    gate = Gate()
    async with client_of(app_with(gate.wait, model=says([("wait", {})], "Done."))) as client:
        async with client.stream("POST", "/chat/stream", json={"messages": USER}) as first:
            run_id = first.headers["x-run-id"]
            found = messages(first)
            seen = [await read_until(found, status("EXECUTING"))]

            async def follow() -> list[Any]:
                async with client.stream("GET", f"/runs/{run_id}/events") as response:
                    return [each async for each in messages(response)]

            followers = [asyncio.create_task(follow()) for _ in range(5)]
            gate.open.set()
            seen += [each async for each in found]
        told = await asyncio.gather(*followers)
    assert all(each == told[0] for each in told)
    assert told[0][-len(seen) :] == seen


async def test_reader_that_accepts_nothing_is_closed_and_slows_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Its connection fills up; after `send_seconds` it is closed, while the tool has long been through: a line in the log."""
    caplog.set_level("INFO", "fsm_engine.server")
    ended = asyncio.Event()

    async def flood(context: ToolContext) -> str:
        for _ in range(400):
            context.report(message="x" * 50_000)
            await asyncio.sleep(0)
        ended.set()
        return "through"

    app = app_with(flood, model=says([("flood", {})], "Done."), limits=ServerLimits(send_seconds=0.2))
    async with served(app) as url:
        address = urlsplit(url)
        stuck = socket.create_connection((address.hostname, address.port))
        body = json.dumps({"messages": USER}).encode()
        stuck.sendall(
            b"POST /chat/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        async with asyncio.timeout(20):
            await ended.wait()
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:

            async def readers() -> int:
                return int((await client.get("/health")).json()["readers"])

            async with asyncio.timeout(20):
                while await readers():  # each look takes the server's time, so this does not spin
                    pass
        stuck.close()
    assert [each.getMessage() for each in caplog.records if each.name == "fsm_engine.server"] == [
        "a reader of a run accepted nothing for 0.2 seconds; its connection is closed"
    ]
    assert not [each for each in caplog.records if each.exc_info]


async def test_runs_are_cancelled_and_told_of_it_when_the_server_closes() -> None:
    gate = Gate()
    engine = ToolEngine([gate.wait])
    app = create_app(engine, says([("wait", {})], "Done."))
    async with client_of(app) as client, client.stream("POST", "/chat/stream", json={"messages": USER}) as response:
        await read_until(messages(response), status("EXECUTING"))
    await until(lambda: not engine.running)
    assert gate.ended == 0


async def test_readers_are_told_the_end_of_their_run_when_the_server_shuts_down() -> None:
    gate = Gate()
    app = app_with(gate.wait, model=says([("wait", {})], "Done."))
    async with (
        serving(app) as (url, server),
        httpx.AsyncClient(base_url=url, trust_env=False) as client,
        client.stream("POST", "/chat/stream", json={"messages": USER}) as response,
    ):
        found = messages(response)
        await read_until(found, status("EXECUTING"))
        server.should_exit = True
        told = [each async for each in found]
    assert (told[-1].event, told[-1].data["reason"]) == ("run_ended", "cancelled")
    assert told[-1].data["message"] == "the server is closing"


async def test_router_works_below_a_prefix_of_another_application() -> None:
    app = FastAPI()
    app.include_router(create_router(ToolEngine([double]), says("Hello.")), prefix="/engine")
    async with client_of(app) as client:
        async with client.stream("POST", "/engine/chat/stream", json={"messages": USER}) as response:
            assert types([each async for each in messages(response)])[-2:] == ["final_answer", "run_ended"]
        assert (await client.get("/engine/tools")).json()["tools"][0]["name"] == "double"
