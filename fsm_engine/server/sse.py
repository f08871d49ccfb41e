r"""A run as server-sent events.

Each message has the event's name, one line of ASCII JSON and, if the event lasts, its number as the id. Neither names
nor ids come from a tool or a model, and in JSON a line's end inside a text is `\\n`: nothing that anybody says can end
a field and begin another.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from fastapi import HTTPException, status
from sse_starlette import EventSourceResponse

from ..run_log import ReaderDroppedError
from ..run_store import StoredRun
from .runs import Runs, batches

RUN_ID_HEADER = "X-Run-ID"

STREAM_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The run as server-sent events: the event's name, its JSON as data, and as the id its number if "
        "it lasts. The last one is `run_ended`, whatever happens.",
        "headers": {RUN_ID_HEADER: {"description": "the run's id", "schema": {"type": "string"}}},
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}
"""The streams in OpenAPI."""


def encode(name: str, number: int | None, text: str) -> str:
    r"""One message.

    >>> encode("final_answer", 7, '{"content":"42"}')
    'event: final_answer\\nid: 7\\ndata: {"content":"42"}\\n\\n'
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
    limits = runs.limits

    async def messages() -> AsyncIterator[bytes]:
        is_told = False
        try:
            with runs.counted(), suppress(ReaderDroppedError):  # it comes back with its last number
                async for batch in batches(stored.log, after):
                    yield "".join(encode(*each) for each in batch).encode("ascii")
            is_told = stored.is_over
        finally:
            if when_left is not None and not is_told:
                when_left()

    return EventSourceResponse(
        messages(),
        sep="\n",
        ping=limits.ping_seconds,
        send_timeout=limits.send_seconds,
        headers={RUN_ID_HEADER: stored.id},
    )


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
