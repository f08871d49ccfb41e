r"""A run as server-sent events.

Each message has the event's name, its number as the id, and one line of ASCII JSON. Neither names nor ids come from a
tool or a model, and in JSON a line's end inside a text is `\\n`: nothing that anybody says can end a field and begin
another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import anyio
from fastapi import HTTPException, Response, status
from sse_starlette import EventSourceResponse
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from ..agent.store import StoredRun
from ..events.log import ReaderDroppedError
from .runs import Runs, batches

RUN_ID_HEADER = "X-Run-ID"

RETRY_MS = 1_000
"""How long a reader whose connection has broken is told to wait before it comes back."""

_HOW = (
    "Every event has a number, `seq`, which grows by one within its run. It is the message's id too, so a reader that "
    "goes on after the last id that it has (`Last-Event-ID`, which an EventSource sends by itself, or `after`) gets each "
    "event once. Who reads one run in several ways at a time drops what comes twice by `seq`. A `gap` stands where "
    "events are missing; its id is the number of the last that is. The last event is `run_ended`, whatever happens."
)

STREAM_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": f"The run as server-sent events: the event's name, its number as the id, its JSON as data. {_HOW}",
        "headers": {RUN_ID_HEADER: {"description": "the run's id", "schema": {"type": "string"}}},
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}
"""The streams in OpenAPI."""

NOTHING_LEFT: dict[int | str, dict[str, Any]] = {
    204: {
        "description": "The run has ended, and all of it has been read: `run_ended` has the number that was given. An "
        "EventSource, which else would come back for ever, stops at this answer."
    }
}
"""What a reader that has read everything gets, in OpenAPI."""


def encode(name: str, number: int | None, text: str) -> str:
    r"""One message.

    >>> encode("final_answer", 7, '{"content":"42"}')
    'event: final_answer\nid: 7\ndata: {"content":"42"}\n\n'
    """
    identity = "" if number is None else f"id: {number}\n"
    return f"event: {name}\n{identity}data: {text}\n\n"


def stream(
    runs: Runs, stored: StoredRun, after: int, when_left: Callable[[], object] | None = None
) -> EventSourceResponse:
    """The run's events after a number, as an answer.

    Args:
        when_left: is called if the reader goes away before the end.

    Raises:
        HTTPException: there are too many readers.
    """
    runs.check_room(stored.log)
    limits, closing = runs.limits, anyio.Event()

    def shutting_down(heard: asyncio.Future[None]) -> None:
        if not heard.cancelled():
            runs.close_soon()

    async def messages() -> AsyncIterator[bytes]:
        is_told = False
        heard = asyncio.ensure_future(closing.wait())
        heard.add_done_callback(shutting_down)
        try:
            yield f"retry: {RETRY_MS}\n\n".encode()
            with runs.counted(), suppress(ReaderDroppedError):  # it comes back with its last number
                async for batch in batches(stored.log, after):
                    yield "".join(encode(*each) for each in batch).encode("ascii")
            is_told = stored.is_over
        finally:
            heard.cancel()
            if when_left is not None and not is_told:
                when_left()

    return _RunResponse(
        messages(),
        sep="\n",
        ping=limits.ping_seconds,
        send_timeout=limits.send_seconds,
        shutdown_event=closing,
        shutdown_grace_period=limits.closing_seconds,
        headers={RUN_ID_HEADER: stored.id},
    )


def nothing_left(stored: StoredRun, after: int) -> Response | None:
    """The answer to a reader that has read a whole run; `None`: there is more to read, or will be."""
    if not stored.is_over or after != stored.log.last_seq:
        return None
    return Response(status_code=status.HTTP_204_NO_CONTENT, headers={RUN_ID_HEADER: stored.id})


class _RunResponse(EventSourceResponse):
    """A reader that accepts nothing more is an end like others, not a fault of the program."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            _logger.info(
                "a reader of a run accepted nothing for %g seconds; its connection is closed", self.send_timeout
            )


_logger = logging.getLogger("fsm_engine.server")


def read_last_event_id(header: str | None, after: int) -> int:
    """Where a reader goes on; the header, which an EventSource sends by itself, is newer than the address.

    Raises:
        HTTPException: 400, it is no number of an event.
    """
    if header is None or header == "":
        return after
    if not (header.isascii() and header.isdigit() and len(header) < 16):
        raise HTTPException(
            status.HTTP_400_BAD_REQUEST, "Last-Event-ID must be the id of an event of this run, which is a whole number"
        )
    return int(header)
