"""What every way in shares: who may, how much, and the runs themselves."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from fastapi import HTTPException, status
from starlette.requests import HTTPConnection

from ..agent.run import LiveRun
from ..agent.store import KEEP_SECONDS, MAX_RUNS, RunStore, StoredRun, TooManyRunsError
from ..engine.engine import ToolEngine
from ..errors.codes import ToolErrorCode
from ..errors.exceptions import EngineClosedError, ToolError
from ..errors.issue import Issue
from ..events.log import RunLog
from ..events.types import Event, GapEvent
from ..invocation.invocation import ToolInvocation
from ..jsonable.redaction import masked_names, restore_masked
from ..settings.table import check_count, check_seconds
from ..states.invocation import ToolState
from .access import FOREIGN_PAGE, is_of_this_site
from .reading import ArgumentsRefusedError

Authorize = Callable[[HTTPConnection], Awaitable[str | None] | str | None]
"""Says who asks, or raises `fastapi.HTTPException` (401, 403) to send them away.

Is given the request, or the WebSocket before it is accepted, and answers the name of whoever it is. A run belongs to
the one who began it; nobody else can read it, decide in it, or learn that it exists. `None` is everybody who has no
name: among them the run's id alone, which cannot be guessed, opens it.
"""

MAX_UID_CHARS = 200

BUSY_SECONDS = 2
"""What a reader that is sent away for lack of room is told to wait."""


@runtime_checkable
class RunsMessages(Protocol):
    """What answers messages by a run: `fsm_engine.agent.agent.Agent`, or something of your own."""

    def run(self, messages: Sequence[dict[str, Any]], /) -> LiveRun:
        """A run that has not begun."""
        ...


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """How much the server takes on; what is more is refused by 413 or 429.

    Args:
        body_bytes: of a request, and of a message on a WebSocket.
        runs: kept at a time, ended ones included; a new run takes the place of the one that ended first.
        keep_seconds: how long a run that has ended can still be read.
        readers: of all runs together.
        readers_of_run: of a single run.
        ping_seconds: between two signs of life on a stream on which nothing happens.
        send_seconds: how long a reader may take to accept what it is sent before its connection is closed; it may come
            back with the number of its last event.
        closing_seconds: how long readers may take to hear how their runs have ended when the server shuts down.
        health_seconds: how long an answer of the tools' probes stands before they are asked again.
    """

    body_bytes: int = 1_000_000
    runs: int = MAX_RUNS
    keep_seconds: float = KEEP_SECONDS
    readers: int = 1_000
    readers_of_run: int = 20
    ping_seconds: float = 15.0
    send_seconds: float = 30.0
    closing_seconds: float = 5.0
    health_seconds: float = 5.0

    def __post_init__(self) -> None:
        for name in ("body_bytes", "runs", "readers", "readers_of_run"):
            check_count(f"ServerLimits.{name}", getattr(self, name), none=None)
        for name in ("ping_seconds", "send_seconds"):
            check_seconds(f"ServerLimits.{name}", getattr(self, name), none=None)
        for name in ("keep_seconds", "closing_seconds", "health_seconds"):
            check_seconds(f"ServerLimits.{name}", getattr(self, name), zero_allowed=True, none=None)


class Runs:
    """The runs of a server, behind its authorisation and its limits. Refusals are `HTTPException`s.

    Args:
        engine: runs the calls.
        agent: answers messages.
        authorize: says who asks; `None`: nobody is asked for a name.
        limits: how much is taken on.
        allowed_origins: of pages elsewhere that may ask.
    """

    def __init__(
        self,
        engine: ToolEngine,
        agent: RunsMessages,
        authorize: Authorize | None,
        limits: ServerLimits,
        allowed_origins: Sequence[str] = (),
    ) -> None:
        self.engine = engine
        self.limits = limits
        self.store = RunStore(engine, max_runs=limits.runs, keep_seconds=limits.keep_seconds)
        self.reader_count = 0
        self._agent = agent
        self._closing: asyncio.Task[None] | None = None
        self._authorize = authorize
        self._allowed_origins = frozenset(origin.lower().rstrip("/") for origin in allowed_origins)

    async def owner(self, connection: HTTPConnection) -> str | None:
        """Who asks. Browsers send along what they know a person by, so pages of other sites are sent away first."""
        if not is_of_this_site(connection, self._allowed_origins):
            raise HTTPException(status.HTTP_403_FORBIDDEN, FOREIGN_PAGE)
        if self._authorize is None:
            return None
        answer = self._authorize(connection)
        return await answer if inspect.isawaitable(answer) else answer

    def start(self, messages: Sequence[dict[str, Any]], owner: str | None) -> StoredRun:
        """Begin a run that answers these messages."""
        try:
            return self.store.start(self._agent.run(messages), owner)
        except TooManyRunsError as error:
            raise _busy(str(error)) from None
        except EngineClosedError:
            raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, "the server is closing") from None

    def find(self, run_id: str, owner: str | None) -> StoredRun:
        """A run of this owner's; one that is somebody else's is answered like one that does not exist."""
        stored = self.store.find(run_id, owner)
        if stored is None:
            raise HTTPException(
                status.HTTP_404_NOT_FOUND, "there is no such run; it may have ended so long ago that it is forgotten"
            )
        return stored

    def find_call(self, run_id: str, uid: str, owner: str | None) -> ToolInvocation:
        """A call of such a run."""
        try:
            return self.find(run_id, owner).invocation(uid)
        except KeyError:
            raise HTTPException(status.HTTP_404_NOT_FOUND, "this run has no such call") from None

    def close_soon(self) -> None:
        """The server is shutting down: end the runs now, while their readers are still there to be told."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self.store.aclose())

    def check_room(self, log: RunLog) -> None:
        """Refuse one more reader if there are too many."""
        if self.reader_count >= self.limits.readers or log.reader_count >= self.limits.readers_of_run:
            raise _busy("there are too many readers; try again later")

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Somebody reads while this lasts."""
        self.reader_count += 1
        try:
            yield
        finally:
            self.reader_count -= 1


def check(invocation: ToolInvocation, arguments: dict[str, Any]) -> Mapping[str, Any]:
    """What a call that waits would run with if it were approved with these arguments, as it may be shown.

    Raises:
        HTTPException: 409, the call does not wait for approval; 422, the arguments are not valid.
    """
    spec = invocation.spec
    if spec is None or invocation.state != ToolState.AWAITING_APPROVAL:
        raise _too_late(invocation, "edited")
    try:
        return spec.shown(invocation.check_edit(_unmasked(invocation, arguments)))
    except ToolError as error:
        raise ArgumentsRefusedError(error) from None


def decide(
    invocation: ToolInvocation,
    verdict: str,
    *,
    reason: str = "",
    arguments: dict[str, Any] | None = None,
    by: str | None = None,
) -> None:
    """Approve, deny or cancel a call for a person.

    Args:
        by: who that is.

    Raises:
        HTTPException: 409, the call does not wait for that (any more); 422, the edited arguments are not valid.
    """
    try:
        edited = None if arguments is None else _unmasked(invocation, arguments)
        is_done = {
            "approve": lambda: invocation.approve(edited, by=by),
            "deny": lambda: invocation.deny(reason, by=by),
            "cancel": lambda: invocation.cancel(reason),
        }[verdict]()
    except ToolError as error:
        raise ArgumentsRefusedError(error) from None
    if not is_done:
        done = {"approve": "approved", "deny": "denied", "cancel": "cancelled"}[verdict]
        raise _too_late(invocation, done)


def _too_late(invocation: ToolInvocation, done: str) -> HTTPException:
    state = invocation.state.lower().replace("_", " ")
    return HTTPException(status.HTTP_409_CONFLICT, f"the call cannot be {done}: it is {state}")


def _unmasked(invocation: ToolInvocation, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the hidden values that were shown as a mask and left as they are."""
    spec, approval = invocation.spec, invocation.approval
    if spec is None or approval is None or not spec.hides:
        return arguments
    restored: dict[str, Any] = restore_masked(arguments, approval.arguments, spec.shown(approval.arguments))
    if lost := next(masked_names(restored, spec.hides), None):
        what = f"{lost} is hidden, and which value is meant cannot be told; give it, or leave its place as it was"
        raise ToolError(ToolErrorCode.INVALID_PARAM, what, issues=(Issue("masked", lost, message=what),))
    return restored


async def batches(log: RunLog, after: int) -> AsyncIterator[list[tuple[str, int | None, str]]]:
    """What a reader is sent: name, id and JSON text of each event, a few dozen at a time. Ends with `run_ended`.

    The id is the number of the last event that whoever has read this one knows of, be it that it is missing: where a
    reader goes on by it, nothing comes twice.

    Raises:
        ReaderDroppedError: the reader was so slow that the log has dropped it; it may come back.
    """
    reader = log.reader(after)
    try:
        while events := await reader.take():
            yield [(event.type, _id_of(event), log.text(event)) for event in events]
    finally:
        reader.close()


def _id_of(event: Event) -> int | None:
    if not isinstance(event, GapEvent):
        return event.seq
    return event.seq + event.missed - 1 if event.missed else None


def _busy(why: str) -> HTTPException:
    return HTTPException(status.HTTP_429_TOO_MANY_REQUESTS, why, {"Retry-After": str(BUSY_SECONDS)})
