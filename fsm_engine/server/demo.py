"""The order desk on the live page: its recorded conversation, replayed by a scripted model, against real tools.

Needs the extra `cli` too, as the acts of the conversation are those of `fsm-engine demo`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi import FastAPI

from ..agent.agent import Agent
from ..clock import Clock, SystemClock
from ..demo.acts import ACTS, Act, recorded_messages
from ..demo.database import create_database
from ..demo.desk import OrderDesk
from ..demo.service import ShopService
from ..engine.engine import ToolEngine
from .app import Suggestion, create_app

PACE = 0.03
"""Seconds between two pieces of what the scripted model writes."""

SQUARES = "Work out the squares of 1 to 200, all at once."

INTRO = (
    "This is a small shop's order desk: real tools on a real database, and an inventory service that fails, hangs and "
    "recovers. The model is scripted; its messages were recorded. Twice it will ask you for approval."
)


class ScriptedModel:
    """Writes recorded messages as a model would, piece by piece, and makes the troubles that they were recorded in.

    Args:
        service: what gets into trouble.
        clock: for the pauses.
        pace: seconds between two pieces; 0: none.
    """

    def __init__(self, service: ShopService, clock: Clock, pace: float = PACE) -> None:
        self._service = service
        self._clock = clock
        self._pace = pace
        self._recorded = [each for each in recorded_messages() if each["role"] == "assistant"]

    async def __call__(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncIterator[dict[str, Any]]:
        """The next message of the script; what the person wants is not understood, only looked up."""
        asked = max(place for place, each in enumerate(messages) if each["role"] == "user")
        said = sum(each["role"] == "assistant" for each in messages[asked:])
        if messages[asked]["content"] == SQUARES:
            script, pace = _squares(), 0.0
        else:
            script, pace = self._recorded, self._pace
            if said < len(ACTS):
                async for chunk in self._set_up(ACTS[said]):
                    yield chunk
        async for chunk in self._write(script[min(said, len(script) - 1)], pace):
            yield chunk

    async def _set_up(self, act: Act) -> AsyncIterator[dict[str, Any]]:
        self._service.recover()
        if act.trouble is not None:
            act.trouble(self._service)
        if act.told:
            yield _chunk({"reasoning_content": f"({act.told})\n"})
        await self._clock.sleep(act.wait)

    async def _write(self, message: dict[str, Any], pace: float) -> AsyncIterator[dict[str, Any]]:
        for word in message["content"].split(" "):
            yield _chunk({"content": f"{word} "})
            await self._pause(pace)
        calls = message.get("tool_calls", [])
        for index, call in enumerate(calls):
            function = call["function"]
            head = {"index": index, "id": call["id"], "type": "function"}
            yield _chunk({"tool_calls": [{**head, "function": {"name": function["name"], "arguments": ""}}]})
            for piece in _pieces(function["arguments"]):
                yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
                await self._pause(pace)
        yield _chunk({}, "tool_calls" if calls else "stop")

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            await self._clock.sleep(seconds)


@asynccontextmanager
async def demo_app(
    clock: Clock | None = None,
    pace: float = PACE,
    *,
    allowed_hosts: Sequence[str] = ("127.0.0.1", "localhost"),
    token: str | None = None,
) -> AsyncIterator[FastAPI]:
    """The application with the order desk behind it, for as long as the block lasts.

    Args:
        clock: what engine, tools and pauses are timed by.
        pace: seconds between two pieces of what the model writes.
        allowed_hosts, token: as for `create_app`.
    """
    clock = clock or SystemClock()
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        database = Path(folder, "shop.db")
        create_database(database)
        with ShopService(database) as service:
            desk = OrderDesk(database, service.url, clock)
            async with ToolEngine(desk.tools(), clock=clock) as engine:
                model = ScriptedModel(service, clock, pace)
                # A person who looks at the page may take an hour over an approval.
                agent = Agent(engine, model, max_turns=20, max_calls=300, max_seconds=None)
                yield create_app(
                    engine,
                    agent,
                    allowed_hosts=allowed_hosts,
                    token=token,
                    intro=INTRO,
                    suggestions=(
                        Suggestion("Chen Mei's broken headphones", _question()),
                        Suggestion("200 calls at once", SQUARES),
                    ),
                )


def _question() -> str:
    """What the recorded conversation begins with."""
    question: str = next(each["content"] for each in recorded_messages() if each["role"] == "user")
    return question


def _squares() -> list[dict[str, Any]]:
    calls = [
        {
            "id": f"square_{number}",
            "function": {"name": "calculator", "arguments": f'{{"expression": "{number} ** 2"}}'},
        }
        for number in range(1, 201)
    ]
    return [
        {"role": "assistant", "content": "Two hundred squares, in one message.", "tool_calls": calls},
        {"role": "assistant", "content": "All of them are there; the last one is 40,000."},
    ]


def _pieces(text: str, length: int = 12) -> list[str]:
    return [text[start : start + length] for start in range(0, len(text), length)]


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}
