"""A real server on the loopback interface, and readers for it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

USER = [{"role": "user", "content": "Go on."}]

Model = Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], AsyncIterator[dict[str, Any]]]


def says(*messages: str | list[tuple[str, dict[str, Any]]]) -> Model:
    """A model that says these one after the other: a text, or calls, each a name and arguments."""

    async def model(
        conversation: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncIterator[dict[str, Any]]:
        asked = max(place for place, each in enumerate(conversation) if each["role"] == "user")
        turn = sum(each["role"] == "assistant" for each in conversation[asked:])
        said = messages[turn]
        if isinstance(said, str):
            yield chunk({"content": said}, "stop")
            return
        for index, (name, arguments) in enumerate(said):
            function = {"name": name, "arguments": json.dumps(arguments)}
            yield chunk({"tool_calls": [{"index": index, "id": f"c{index + 1}", "function": function}]})
        yield chunk({}, "tool_calls")

    return model


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[tuple[str, uvicorn.Server]]:
    """The application behind a real server of this loop; gives its address, and the server itself."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, ws="websockets-sansio", timeout_graceful_shutdown=3)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:
        assert not task.done(), task.exception()
        await asyncio.sleep(0)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", server
    finally:
        server.should_exit = True
        await task
        listening.close()


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[str]:
    """The same for those who need the address alone."""
    async with serving(app) as (url, _):
        yield url


@asynccontextmanager
async def client_of(app: FastAPI, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application behind a real server."""
    async with served(app) as url, httpx.AsyncClient(base_url=url, trust_env=False, timeout=20, **settings) as client:
        yield client


@dataclass(frozen=True)
class Message:
    """One server-sent event as it came."""

    event: str
    id: str | None
    data: dict[str, Any]


async def messages(response: httpx.Response) -> AsyncIterator[Message]:
    """What a stream says; each message must have one line of data and nothing unknown. The time to wait comes first."""
    async with asyncio.timeout(20):
        fields: dict[str, str] = {}
        async for line in response.aiter_lines():
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                assert name in {"event", "id", "data", "retry"}, line
                assert name not in fields, line
                fields[name] = value
            elif fields.pop("retry", None) is None and fields:
                yield Message(fields["event"], fields.get("id"), json.loads(fields["data"]))
                fields = {}


async def read_all(client: httpx.AsyncClient, **body: Any) -> tuple[str, list[Message]]:
    """Start a run and read it to its end: its id and what was said."""
    async with client.stream("POST", "/chat/stream", json={"messages": USER} | body) as response:
        assert response.status_code == 200, await response.aread()
        return response.headers["x-run-id"], [message async for message in messages(response)]


async def read_until(found: AsyncIterator[Message], wanted: Callable[[Message], object]) -> Message:
    """Read on up to a message."""
    async for message in found:
        if wanted(message):
            return message
    raise AssertionError("the stream ended before")


def status(name: str) -> Callable[[Message], bool]:
    return lambda message: message.data.get("status") == name


def types(found: Iterable[Message]) -> list[str]:
    """The names of events, without pieces."""
    return [each.event for each in found if not each.data.get("piece") and each.event != "tool_arguments"]
