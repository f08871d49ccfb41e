"""A run over a WebSocket: events go out, decisions come in.

The client sends JSON objects:

| type | fields | |
|---|---|---|
| start | messages | as for `POST /chat/stream`; answered by `run_started` with `run_id`, then by the events |
| resume | run_id, after | go on reading a run |
| approve | uid, arguments | agree to a call of the run that is read; other arguments if wanted |
| deny, cancel | uid, reason | refuse or cancel a call; `cancel` without `uid`: the run |

Events are sent as on the SSE stream. What was asked is answered by `done` or by `refused` with a message, either with
the request's `type` as `to` and its `uid`. `seq` numbers the events of a run: who resumes gives the last one as `after`,
and drops by it what comes twice. A server that shuts down closes its sockets with the code 1012. A socket reads one run at a time, and the run goes on without it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from fastapi import HTTPException, WebSocket, WebSocketDisconnect, status
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..agent.store import StoredRun
from ..events.log import ReaderDroppedError
from ..jsonable.foreign import JsonTextError, read_strictly
from ..jsonable.jsonable import wire_text
from .bodies import Approval, ChatRequest, Reason
from .reading import ArgumentsRefusedError, what_is_wrong
from .runs import MAX_UID_CHARS, Runs, batches, decide

_DECISIONS: dict[str, type[Approval | Reason]] = {"approve": Approval, "deny": Reason, "cancel": Reason}
_KINDS = ("start", "resume", *_DECISIONS)


async def converse(runs: Runs, socket: WebSocket) -> None:
    """Serve one socket until its end.

    Raises:
        HTTPException: whoever asks may not; it comes from another site's page, say.
    """
    owner = await runs.owner(socket)
    await socket.accept()
    conversation = _Conversation(runs, socket, owner)
    try:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                break
            await conversation.take(message.get("text") or "")
    finally:
        await conversation.close()


class _Resume(BaseModel):
    model_config = ConfigDict(extra="forbid")

    run_id: str = Field(max_length=100)
    after: int = Field(default=0, ge=0)


class _Conversation:
    def __init__(self, runs: Runs, socket: WebSocket, owner: str | None) -> None:
        self._runs = runs
        self._socket = socket
        self._owner = owner
        self._stored: StoredRun | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_cancelled_with_socket = False

    async def take(self, text: str) -> None:
        """Do what a message asks for, and answer it."""
        about: dict[str, Any] = {}
        try:
            await self._do(text, about)
        except HTTPException as error:
            issues = {"issues": error.issues} if isinstance(error, ArgumentsRefusedError) else {}
            await self._send({"type": "refused", **about, "message": error.detail, **issues})
        except ValidationError as error:
            await self._send({"type": "refused", **about, "message": what_is_wrong(error.errors(include_url=False))})

    async def _do(self, text: str, about: dict[str, Any]) -> None:
        """The same; notes in `about` what an answer is an answer to."""
        asked = self._read(text)
        kind = asked.pop("type", None)
        if kind not in _KINDS:
            raise HTTPException(400, f"type must be one of: {', '.join(_KINDS)}")
        about["to"] = kind
        if kind in _DECISIONS:
            about["uid"] = _read_uid(asked.pop("uid", None))
            self._decide(kind, about["uid"], asked)
            await self._send({"type": "done", **about})
        elif kind == "start":
            await self._start(ChatRequest.model_validate(asked))
        else:
            wanted = _Resume.model_validate(asked)
            self._read_run(self._runs.find(wanted.run_id, self._owner), wanted.after)

    async def close(self) -> None:
        """Read no more. The run goes on, unless it was started to be cancelled with its reader."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        if self._stored is not None and self._is_cancelled_with_socket:
            self._stored.cancel(message="its reader went away")

    def _read(self, text: str) -> dict[str, Any]:
        if len(text) > self._runs.limits.body_bytes:
            raise HTTPException(413, f"a message may have at most {self._runs.limits.body_bytes} bytes")
        try:
            asked = read_strictly(text)
        except JsonTextError as error:
            raise HTTPException(400, f"a message is a JSON object, sent as text: {error}") from None
        if not isinstance(asked, dict):
            raise HTTPException(400, "a message is a JSON object, sent as text")
        return asked

    async def _start(self, wanted: ChatRequest) -> None:
        self._check_free()
        stored = self._runs.start(wanted.plain_messages(), self._owner)
        self._is_cancelled_with_socket = wanted.cancel_on_disconnect
        await self._send({"type": "run_started", "run_id": stored.id})
        self._read_run(stored, 0)

    def _read_run(self, stored: StoredRun, after: int) -> None:
        self._check_free()
        self._runs.check_room(stored.log)
        self._stored = stored
        self._reading = asyncio.get_running_loop().create_task(self._send_events(stored, after))

    def _check_free(self) -> None:
        if self._reading is not None and not self._reading.done():
            raise HTTPException(409, "this socket reads a run; open another one, or wait for its end")

    async def _send_events(self, stored: StoredRun, after: int) -> None:
        # A connection that accepts nothing for so long is left to the server's own pings, which find out if it is dead.
        with self._runs.counted(), suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
            try:
                async for batch in batches(stored.log, after):
                    for _, _, text in batch:
                        async with asyncio.timeout(self._runs.limits.send_seconds):
                            await self._socket.send_text(text)
            except ReaderDroppedError:
                await self._socket.close(status.WS_1013_TRY_AGAIN_LATER, "too slow; resume after the last event")

    def _decide(self, kind: str, uid: str | None, asked: dict[str, Any]) -> None:
        wanted = _DECISIONS[kind].model_validate(asked)
        if self._stored is None:
            raise HTTPException(409, "start a run first, or resume one")
        if uid is None and kind == "cancel":
            if not self._stored.cancel(message=getattr(wanted, "reason", "") or None):
                raise HTTPException(409, "the run has ended, or is being stopped already")
            return
        invocation = self._runs.find_call(self._stored.id, uid or "", self._owner)
        decide(invocation, kind, by=self._owner, **wanted.model_dump())

    async def _send(self, message: dict[str, Any]) -> None:
        with suppress(WebSocketDisconnect, RuntimeError):  # it has gone, or was closed: nobody is there to be told
            await self._socket.send_text(wire_text(message))


def _read_uid(given: object) -> str | None:
    if given is None or (isinstance(given, str) and len(given) <= MAX_UID_CHARS):
        return given
    raise HTTPException(400, f"uid must be the `uid` of a call's events, a text of at most {MAX_UID_CHARS} characters")
