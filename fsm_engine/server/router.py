"""The routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, HTTPException, Path, Query, Request, Response, WebSocket, status
from sse_starlette import EventSourceResponse

from ..agent.agent import Agent
from ..agent.model_chunks import Model
from ..diagram.diagrams import lifecycle_diagram
from ..engine.engine import ToolEngine
from ..engine.health import HealthReport
from ..errors.exceptions import ConfigurationError
from ..invocation.invocation import ToolInvocation
from ..jsonable.visible import visible_json
from ..states.circuit import CIRCUIT
from .bodies import (
    Approval,
    CallState,
    ChatRequest,
    Checked,
    CircuitInfo,
    Circuits,
    Edit,
    Health,
    LifecycleInfo,
    Lifecycles,
    Reason,
    Refusal,
    RunState,
    ToolInfo,
    Tools,
)
from .reading import StrictRoute
from .runs import MAX_UID_CHARS, Authorize, Runs, RunsMessages, ServerLimits, check, decide
from .sse import NOTHING_LEFT, STREAM_ANSWER, nothing_left, read_last_event_id, stream
from .websocket import converse

_RunId = Annotated[str, Path(max_length=100, description="from the header X-Run-ID")]
_Uid = Annotated[str, Path(max_length=MAX_UID_CHARS, description="the `uid` of the call's events")]
_After = Annotated[int, Query(ge=0, le=10**15, description="the number of the last event that is known")]


def create_router(
    engine: ToolEngine,
    model: Model | RunsMessages,
    *,
    authorize: Authorize | None = None,
    limits: ServerLimits | None = None,
    allowed_origins: Sequence[str] = (),
) -> APIRouter:
    """Routes for an application of yours: `app.include_router(create_router(engine, model), prefix="/tools")`.

    Runs go on when their reader goes away; those under way when the application shuts down are cancelled. The engine
    is yours to close.

    Args:
        engine: runs the calls.
        model: what `Agent` takes, or an `Agent` with settings of yours.
        authorize: says who asks, for every route; without it whoever reaches the server may use it, and a run is
            open to those who know its id.
        limits: how much is taken on.
        allowed_origins: of pages elsewhere that may ask, such as `https://shop.example.org`, or `*`. A page of this
            very site always may: its origin's host is the one in the request's `Host`.
    """
    agent = model if isinstance(model, RunsMessages) else Agent(engine, model)
    return _Routes(Runs(engine, agent, authorize, limits or ServerLimits(), allowed_origins)).router()


class _Routes:
    """The routes as methods, so that FastAPI can read their annotations."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._engine = runs.engine
        self._health: tuple[float, HealthReport] | None = None
        self._lifecycles = {each.name: each for each in (runs.engine.lifecycle, CIRCUIT)}
        # Drawing takes milliseconds and gives the same every time.
        self._draw = cache(lambda name, form: lifecycle_diagram(self._lifecycles[name]).render(form))

    def router(self) -> APIRouter:
        refusals = _refusals(401, 403, 422)
        router = APIRouter(
            route_class=StrictRoute, lifespan=self._life, max_body_size=self._runs.limits.body_bytes, responses=refusals
        )
        add = router.add_api_route
        streams: dict[str, Any] = {"response_class": EventSourceResponse, "tags": ["runs"]}
        add("/chat/stream", self.chat, methods=["POST"], responses=STREAM_ANSWER | _refusals(413, 429, 503), **streams)
        found = STREAM_ANSWER | NOTHING_LEFT | _refusals(400, 404, 429)
        add("/runs/{run_id}/events", self.events, responses=found, response_model=None, **streams)
        add("/runs/{run_id}/cancel", self.cancel_run, methods=["POST"], responses=_refusals(404, 409), tags=["runs"])
        for verb, method in (("approve", self.approve), ("deny", self.deny), ("cancel", self.cancel)):
            path = f"/runs/{{run_id}}/calls/{{uid}}/{verb}"
            add(path, method, methods=["POST"], responses=_refusals(404, 409), tags=["runs"])
        path = "/runs/{run_id}/calls/{uid}/check"
        add(path, self.check, methods=["POST"], responses=_refusals(404, 409), tags=["runs"])
        add("/tools", self.tools, tags=["engine"])
        add("/health", self.health, tags=["engine"])
        add("/circuits", self.circuits, tags=["engine"])
        add("/lifecycles", self.lifecycles, tags=["engine"])
        pictures = _PICTURES | _refusals(404, 501)
        add("/lifecycles/{name}.{form}", self.picture, responses=pictures, response_class=Response, tags=["engine"])
        router.add_api_websocket_route("/ws", self.websocket)
        return router

    @asynccontextmanager
    async def _life(self, _: Any) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self._runs.store.aclose()

    # -- runs ------------------------------------------------------------------------------------------------------

    async def chat(self, request: Request, body: ChatRequest) -> EventSourceResponse:
        """Answer a conversation, and stream what happens on the way."""
        owner = await self._runs.owner(request)
        stored = self._runs.start(body.plain_messages(), owner)
        when_left = (lambda: stored.cancel(message="its reader went away")) if body.cancel_on_disconnect else None
        return stream(self._runs, stored, 0, when_left)

    async def events(
        self,
        request: Request,
        run_id: _RunId,
        after: _After = 0,
        last_event_id: Annotated[str | None, Header(description="where to go on; an EventSource sends it")] = None,
    ) -> Response:
        """Read a run, from its beginning or after an event. What is no longer kept is told of by a `gap`."""
        stored = self._runs.find(run_id, await self._runs.owner(request))
        known = read_last_event_id(last_event_id, after)
        return nothing_left(stored, known) or stream(self._runs, stored, known)

    async def cancel_run(self, request: Request, run_id: _RunId, body: Reason | None = None) -> RunState:
        """Stop a run and cancel its calls."""
        stored = self._runs.find(run_id, await self._runs.owner(request))
        if not stored.cancel(message=(body and body.reason) or None):
            raise HTTPException(status.HTTP_409_CONFLICT, "the run has ended, or is being stopped already")
        return RunState(run_id=stored.id, is_over=stored.is_over)

    async def approve(self, request: Request, run_id: _RunId, uid: _Uid, body: Approval | None = None) -> CallState:
        """Agree to a call that waits for it."""
        owner = await self._runs.owner(request)
        invocation = self._runs.find_call(run_id, uid, owner)
        decide(invocation, "approve", arguments=None if body is None else body.arguments, by=owner)
        return await _state_after(invocation)

    async def check(self, request: Request, run_id: _RunId, uid: _Uid, body: Edit) -> Checked:
        """Say what a call would run with if it were approved with these arguments; nothing is decided."""
        invocation = self._runs.find_call(run_id, uid, await self._runs.owner(request))
        return Checked(arguments_json=visible_json(check(invocation, body.arguments)))

    async def deny(self, request: Request, run_id: _RunId, uid: _Uid, body: Reason | None = None) -> CallState:
        """Refuse a call that waits for agreement."""
        owner = await self._runs.owner(request)
        invocation = self._runs.find_call(run_id, uid, owner)
        decide(invocation, "deny", reason="" if body is None else body.reason, by=owner)
        return await _state_after(invocation)

    async def cancel(self, request: Request, run_id: _RunId, uid: _Uid, body: Reason | None = None) -> CallState:
        """Cancel a call, whatever it is doing."""
        invocation = self._runs.find_call(run_id, uid, await self._runs.owner(request))
        decide(invocation, "cancel", reason="" if body is None else body.reason)
        return await _state_after(invocation)

    async def websocket(self, socket: WebSocket) -> None:
        """The same over a WebSocket; see `websocket.converse`."""
        await converse(self._runs, socket)

    # -- the engine ------------------------------------------------------------------------------------------------

    async def tools(self, request: Request) -> Tools:
        """What the model may call."""
        await self._runs.owner(request)
        return Tools(tools=[ToolInfo.of(spec) for spec in self._engine.registry])

    async def health(self, request: Request) -> Health:
        """How the tools are, by their own probes; an answer stands for a few seconds."""
        await self._runs.owner(request)
        now = self._engine.clock.monotonic()
        if self._health is None or now - self._health[0] >= self._runs.limits.health_seconds:
            self._health = (now, await self._engine.health_check())
        return Health.of(self._health[1], len(self._runs.store), self._runs.reader_count)

    async def circuits(self, request: Request) -> Circuits:
        """The circuit breakers and what they have counted."""
        await self._runs.owner(request)
        return Circuits(circuits=[CircuitInfo.of(*each) for each in self._engine.circuits.items()])

    async def lifecycles(self, request: Request) -> Lifecycles:
        """The lifecycles as data."""
        await self._runs.owner(request)
        return Lifecycles(lifecycles=[LifecycleInfo.of(each) for each in self._lifecycles.values()])

    async def picture(self, request: Request, name: str, form: Literal["svg", "mmd"]) -> Response:
        """A lifecycle as a picture: SVG, which needs the extra `diagrams`, or Mermaid."""
        await self._runs.owner(request)
        if name not in self._lifecycles:
            known = ", ".join(self._lifecycles)
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"there is no such lifecycle; there are: {known}")
        try:
            drawn = self._draw(name, {"svg": "svg", "mmd": "mermaid"}[form])
        except ConfigurationError as error:
            raise HTTPException(status.HTTP_501_NOT_IMPLEMENTED, str(error)) from None
        return Response(drawn, media_type={"svg": "image/svg+xml", "mmd": "text/vnd.mermaid"}[form])


_TAKEN_SECONDS = 1.0

_PICTURES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The picture.",
        "content": {kind: {"schema": {"type": "string"}} for kind in ("image/svg+xml", "text/vnd.mermaid")},
    }
}

_REASONS: Mapping[int, str] = {
    400: "The request makes no sense.",
    401: "Nobody is known by what was sent.",
    403: "Not allowed.",
    404: "There is none, or it is somebody else's.",
    409: "It is too late for that.",
    413: "The body is too large.",
    422: "What was sent is not valid; the answer says where.",
    429: "Too many at a time; `Retry-After` says when to come back.",
    501: "Needs a package that is not installed.",
    503: "The server is closing.",
}


def _refusals(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": Refusal, "description": _REASONS[code]} for code in codes}


async def _state_after(invocation: ToolInvocation) -> CallState:
    """Where a call is once the engine has taken what was decided, which takes it a turn of the loop."""
    approval = invocation.approval
    if approval is not None and approval.decision is not None:
        with suppress(TimeoutError):  # a lifecycle may wait in ways of its own
            async with asyncio.timeout(_TAKEN_SECONDS):
                await approval.taken.wait()
    return CallState(uid=invocation.uid, id=invocation.id, tool=invocation.tool_name, state=str(invocation.state))
