"""`ToolInvocation`: one tool call under way. The model that the machine moves, and the handle that callers hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from ..errors.codes import Effect
from ..errors.exceptions import ConfigurationError
from ..events.types import Event, ToolExecutionEvent
from ..machine.lifecycle import Lifecycle, Row
from ..response.error_info import ErrorInfo
from ..response.tool_response import ToolResponse, ToolStatus
from ..states.invocation import INVOCATION, ToolState
from ..tools.call import ToolCall, fingerprint, made_id, printable_name
from .approval import Approval, Decision
from .attempt import Attempt
from .outcomes import without_hidden

if TYPE_CHECKING:
    from ..breaker.permits import Permit
    from ..clock import Clock
    from ..concurrency.slots import Slots
    from ..diagram.diagrams import Diagram
    from ..engine.runtimes import ToolRuntime
    from ..tools.spec import ToolSpec

EventSink = Callable[[Event], None]
"""Is given every event of an invocation, in order; numbers it and passes it on."""


_NOTHING: Mapping[str, Any] = MappingProxyType({})

_STAYS_HERE = (
    "an invocation cannot be copied or pickled, since it lives in one engine and one event loop; send its call, its "
    "response (response.to_dict()), its history or its events"
)


class HistoryEntry(NamedTuple):
    """One transition that an invocation has made.

    Attributes:
        source, trigger, dest: of the row that was taken.
        guard: the guard that passed; `None`: the row has none.
        at: monotonic seconds.
        decision: what was decided on the call, on leaving `AWAITING_APPROVAL`.
    """

    source: str
    trigger: str
    guard: str | None
    dest: str
    at: float
    decision: Decision | None = None


# A Struct: forty fields, most of which most invocations never touch, cost little to make and less to read.
class ToolInvocation(Struct, eq=False, weakref=True):
    """One tool call on its way from the model's text to a response.

    Await it to wait for its end: `response = (await invocation).response`. When the last one who awaits it is cancelled,
    so is it. It lives in one engine and one event loop: what can be sent elsewhere is its `call`, its `response`, its
    `history` and its events.
    Its methods are called in the engine's loop; `cancel`, `approve` and `deny` from any thread.

    Attributes:
        call: what the model asked for, as it arrived.
        uid: the engine's own name of it, unique for ever.
        state: where it is: a `ToolState`, or a state of the user's own lifecycle.
        arguments: the parsed arguments, defaults filled in once they are validated; `None` until they are parsed.
        response: the answer; `None` until there is one.
        attempts: the runs of the tool's function so far.
        deadline: monotonic seconds by which all must be over; `None`: no limit.
        notes: what the engine did to the call on its way (`empty_arguments`, say), for the response's context.
        questions: the times that a person was asked to approve it; the newest is `approval`.
        shared: the identical call whose result this one has, as its tool is `single_flight`; `None`: it has run itself.
    """

    call: ToolCall
    uid: str
    state: str
    started_at: float
    clock: Clock
    loop: asyncio.AbstractEventLoop
    _check_edit: Callable[[ToolCall, ToolSpec], dict[str, Any]]
    _final_states: frozenset[str] = INVOCATION.final_states

    # Kept by the driver.
    attempts: list[Attempt] = []
    moves: list[tuple[Row, float]] = []
    arguments: dict[str, Any] | None = None
    bound: Mapping[str, Any] = _NOTHING
    spec: ToolSpec | None = None
    response: ToolResponse | None = None
    deadline: float | None = None
    ended_at: float | None = None
    queue_seconds: float = 0.0
    notes: tuple[str, ...] = ()
    sink: EventSink | None = None
    next_delay: float = 0.0
    fallback_reason: str = ""

    is_refused: bool = False
    is_approval_missing: bool = False
    is_approval_wanted: bool = False
    is_approved: bool = False
    has_fallback_for_refusal: bool = False
    has_fallback_for_failure: bool = False
    is_retry_allowed: bool = False

    # Two things: it shall end as cancelled; and it shall not be tried again, whatever comes of the attempt that is over.
    is_cancel_requested: bool = False
    is_last_attempt: bool = False
    cancel_reason: str = ""
    interruption: asyncio.CancelledError | None = None
    questions: tuple[Approval, ...] = ()
    slots: tuple[Slots, ...] = ()
    permit: Permit | None = None
    shared: ToolInvocation | None = None
    sharers: dict[ToolInvocation, None] | None = None
    heir: ToolInvocation | None = None
    endings_before: int = 0
    runtime: ToolRuntime | None = None

    _id: str | None = None
    _ending: int = 0
    _waiters: tuple[asyncio.Future[None], ...] = ()
    _ended: asyncio.Future[None] | None = None
    _awaiting: int = 0
    heading_for: str | None = None
    own_task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<ToolInvocation {self.tool_name} {self.uid} {self.state}>"

    # -- what callers read ---------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The model's id of the call, or one that is made of time and arguments. Not unique over turns: see `uid`."""
        if self._id is None:
            self._id = self.call.id or made_id(self.call, self.clock.wall(), self.uid)
        return self._id

    @property
    def tool_name(self) -> str:
        """The tool that the model asked for; a name that no tool has is made fit to be shown (`call.name` is as written)."""
        return printable_name(self.call.name) if self.spec is None else self.spec.name

    @property
    def result(self) -> Any:
        """The structured result, or the text where there is no structure; `None` on error and before the end."""
        response = self.response
        if response is None or response.error_info is not None:
            return None
        return response.text if response.data is None else response.data

    @property
    def outcome(self) -> ToolResponse:
        """The response of an invocation that has ended: never `None`, unlike `response`.

        Raises:
            RuntimeError: it has not ended; await it first.
        """
        if self.response is None or not self.is_final:
            raise RuntimeError(f"{self.tool_name} has not ended, so it has no outcome; await the invocation first")
        return self.response

    @property
    def error(self) -> ErrorInfo | None:
        """What went wrong; `None` before the end and on success."""
        return None if self.response is None else self.response.error_info

    @property
    def history(self) -> tuple[HistoryEntry, ...]:
        """The transitions so far."""
        decisions = (each.decision for each in self.questions)
        return tuple(
            HistoryEntry(
                row.source,
                row.trigger,
                row.guard,
                row.dest,
                at,
                next(decisions, None) if row.source == ToolState.AWAITING_APPROVAL else None,
            )
            for row, at in self.moves
        )

    @property
    def approval(self) -> Approval | None:
        """The newest question to a person: what was shown, and what was decided; `None`: nobody was asked."""
        return self.questions[-1] if self.questions else None

    @property
    def path(self) -> tuple[str, ...]:
        """The states so far, the first and the present one included."""
        return (self.moves[0][0].source if self.moves else self.state, *(row.dest for row, _ in self.moves))

    @property
    def retry_count(self) -> int:
        """How many attempts followed the first."""
        return max(0, len(self.attempts) - 1)

    @property
    def effect_so_far(self) -> Effect:
        """What is known of its effect if it is given up now."""
        if not self.attempts or (self.spec is not None and self.spec.read_only):
            return Effect.NONE
        has_succeeded = self.response is not None and self.response.status is ToolStatus.SUCCESS
        return Effect.DONE if has_succeeded else Effect.UNKNOWN

    @property
    def is_given_up(self) -> bool:
        """Nothing more is to be tried for it."""
        return self.is_cancel_requested or self.is_last_attempt

    @property
    def is_final(self) -> bool:
        """It has ended; nothing changes any more."""
        return self.ended_at is not None

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    def diagram(self, lifecycle: Lifecycle | None = None) -> Diagram:
        """The way that it has gone so far, drawn: numbers, times and attempts; what it did not pass is grey.

        Args:
            lifecycle: the engine's, if that is not the built-in one.

        Raises:
            ConfigurationError: its way is not one through this lifecycle.
        """
        from ..diagram.diagrams import invocation_diagram

        return invocation_diagram(self) if lifecycle is None else invocation_diagram(self, lifecycle)

    def _repr_svg_(self) -> str | None:
        """What a notebook shows: the way that it has gone, if that leads through the built-in lifecycle."""
        with suppress(ConfigurationError):
            return self.diagram()._repr_svg_()
        return None

    def _repr_markdown_(self) -> str | None:
        """What a notebook shows where Graphviz is missing."""
        with suppress(ConfigurationError):
            return self.diagram()._repr_markdown_()
        return None

    # -- what callers ask ----------------------------------------------------------------------------------------

    def cancel(self, reason: str = "") -> bool:
        """Ask the invocation to end as `CANCELLED`; `False`: it has ended, its result is in, or it was asked before.

        `True` says that it was asked. A result that comes in the very same turn of the event loop still wins.
        """
        if self.is_final or self.is_cancel_requested or self.state in self._final_states:
            return False
        if self._is_result_in:
            self.is_last_attempt = True
            return False
        if self.questions and not self.questions[-1].cancel(reason):
            return False
        self.is_cancel_requested, self.cancel_reason = True, reason
        self.wake_from_anywhere()
        return True

    @property
    def _is_result_in(self) -> bool:
        """It is about to end, or its attempt has an outcome, be it that its time is up, and nothing follows it.

        If something would follow an outcome that is not judged yet, whoever asked keeps it from doing so.
        """
        if self.heading_for is not None:  # a hook asks, on the way out of a state
            return self.heading_for in self._final_states
        attempt = self.attempt
        if self.state != ToolState.EXECUTING or attempt is None:
            return False
        if not attempt.is_over:
            return attempt.is_unwanted or (attempt.run is not None and attempt.run.finished)
        return self.error is None or not (self.is_retry_allowed or self.has_fallback_for_failure)

    def approve(self, arguments: Mapping[str, Any] | None = None, *, by: str | None = None) -> bool:
        """Agree to the call; `False`: it does not wait for a decision (any more).

        Args:
            arguments: run it with these instead. They are checked like the model's; the call waits on if they fail.
            by: who agrees; it is told to whoever watches, and kept.

        Raises:
            ToolError: the edited arguments are not valid; `issues` says what is wrong.
        """
        approval = self._open_question
        return approval is not None and approval.approve(arguments, by=by) and self._told()

    def deny(self, message: str = "", *, by: str | None = None) -> bool:
        """Refuse the call; the model is told why. `False`: it does not wait for a decision (any more).

        Args:
            message: why.
            by: who refuses.
        """
        approval = self._open_question
        return approval is not None and approval.deny(message, by=by) and self._told()

    def check_edit(self, arguments: Any) -> dict[str, Any]:
        """What the tool would get if the call were approved with these arguments; nothing is decided.

        Raises:
            ToolError: they are not valid; `issues` says what is wrong.
        """
        assert self.spec is not None, "only a call whose tool is known can be edited"
        return self._check_edit(self.call._replace(arguments=arguments), self.spec)

    @property
    def _open_question(self) -> Approval | None:
        return self.approval if self.state == ToolState.AWAITING_APPROVAL and not self.is_cancel_requested else None

    def _told(self) -> bool:
        self.wake_from_anywhere()
        return True

    def ask(self) -> None:
        """A person must agree to the arguments as they are now."""
        assert self.spec is not None, "an approval is bound to a tool"
        call, spec, check = self.call, self.spec, self._check_edit  # not self, which holds the question
        self.questions = (
            *self.questions,
            Approval(
                spec,
                self.arguments or {},
                lambda arguments: check(call._replace(arguments=arguments), spec),
                self.clock.wall,
            ),
        )

    def take_decision(self) -> Decision | None:
        """What was decided, and from now on it counts; `None`: nothing yet."""
        approval = self.approval
        decision = None if approval is None else approval.decision
        if approval is not None and decision is not None:
            if decision.arguments is not None:
                self.arguments = deepcopy(decision.arguments)  # the record stays what it is, whoever changes these
            self.is_approved = decision.approved
            approval.taken.set()
        return decision

    def approval_key(self) -> str:
        """What tells the call from others: the tool, its version, and these very arguments."""
        assert self.spec is not None, "a key is of a tool"
        return fingerprint(self.spec.name, self.spec.version, self.arguments)

    @property
    def is_approval_given(self) -> bool:
        """A person has agreed, and to these very arguments."""
        return bool(self.questions) and self.questions[-1].agrees_to(self.arguments)

    def __await__(self) -> Generator[Any, None, ToolInvocation]:
        if not self.is_final:
            ended = self.ended
            self._awaiting += 1
            try:
                yield from ended.__await__()
            except asyncio.CancelledError:
                if self._awaiting == 1:  # the others still want it
                    self.cancel("whoever awaited it was cancelled")
                raise
            finally:
                self._awaiting -= 1
        return self

    def __reduce__(self) -> Any:
        raise TypeError(_STAYS_HERE)

    def __copy__(self) -> Any:
        raise TypeError(_STAYS_HERE)

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError(_STAYS_HERE)

    # -- what the engine does ------------------------------------------------------------------------------------

    @property
    def ended(self) -> asyncio.Future[None]:
        """Is done when the invocation is; each waiter has a future of its own behind `asyncio.shield`.

        Raises:
            ConfigurationError: the invocation runs in another event loop.
        """
        if self.loop is not asyncio.get_running_loop():
            raise ConfigurationError(
                f"{self!r} runs in another event loop; await it there, or hand a coroutine that does to "
                "asyncio.run_coroutine_threadsafe(..., invocation.loop)"
            )
        if self._ended is None:
            self._ended = self.loop.create_future()
        return asyncio.shield(self._ended)

    @property
    def is_awaited(self) -> bool:
        """Somebody waits for its end."""
        return self._ended is not None

    def refuse(self, response: ToolResponse) -> None:
        """A gate or the admission says no; the response is what the model will read."""
        spec = self.spec
        if spec is not None and spec.hides:  # a rule of the user's may repeat what it was given
            response = without_hidden(response, self.arguments or {}, spec.hides)
        self.is_refused, self.response = True, response.with_effect(self.effect_so_far)

    def refuse_admission(self, response: ToolResponse, fallback_reason: str | None) -> None:
        """No attempt can be made now. The error of an earlier attempt says more than that, so it stands.

        Args:
            fallback_reason: why a fallback may stand in; `None`: none may.
        """
        self.is_refused = True
        if self.response is None:
            self.response = response
        if fallback_reason is not None and self.spec is not None and self.spec.fallback_policy is not None:
            self.has_fallback_for_refusal, self.fallback_reason = True, fallback_reason

    def tell(self, *, progress: float | None = None, message: str | None = None, chunk: Any = None) -> None:
        """Pass on what the running tool says."""
        if self.sink is not None and not self.is_final:
            self.sink(
                ToolExecutionEvent(
                    0,
                    self.clock.wall(),
                    self.id,
                    self.uid,
                    self.state,
                    len(self.attempts),
                    progress,
                    message,
                    None,
                    chunk,
                )
            )

    def wake(self) -> None:
        """End every `pause` that there is now."""
        for waiter in self._waiters:
            if not waiter.done() and not self.loop.is_closed():
                waiter.set_result(None)

    async def pause(self, until: float | None) -> None:
        """Wait until woken, or until a monotonic time.

        A cancellation of the task that drives the invocation becomes a request to cancel the invocation; the driver
        raises it again when the invocation has ended. An activity of the user's, in its own task, is cancelled as ever.
        """
        waiter = self.loop.create_future()
        self._waiters = (*self._waiters, waiter)
        timer = None if until is None else self.clock.call_at(until, _end_pause, waiter)
        try:
            await waiter
        except asyncio.CancelledError as error:
            self._interrupt(error)
        finally:
            self._waiters = tuple(each for each in self._waiters if each is not waiter)
            if timer is not None:
                timer.cancel()

    async def give_way(self) -> None:
        """`pause` for one turn of the event loop."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError as error:
            self._interrupt(error)

    def _interrupt(self, error: asyncio.CancelledError) -> None:
        if self.own_task is not None and self.own_task is asyncio.current_task():
            raise error
        self.interruption = error
        self.is_cancel_requested = True

    def release(self) -> None:
        """Give back the permit and the slots that are held. Twice is nothing.

        A function that goes on keeps what is its tool's, and its thread, until it ends, and nothing that other tools need.
        """
        permit, slots = self.permit, self.slots
        if permit is not None:
            self.permit = None
            permit.release()
        if slots:
            self.slots = ()
            attempt, runtime = self.attempt, self.runtime
            if attempt is None or runtime is None or not attempt.goes_on:
                for each in slots:
                    each.release()
            else:
                kept = tuple(each for each in slots if each in runtime.own or each is runtime.threads)
                _release_all(each for each in slots if each not in kept)
                attempt.when_function_ends(lambda: _release_all(kept))

    def when_ended(self, callback: Callable[[asyncio.Future[None]], object]) -> None:
        """Call this, in the invocation's loop, when it has ended; asked there before it has."""
        if self._ended is None:
            self._ended = self.loop.create_future()
        self._ended.add_done_callback(callback)

    def ended_before(self, other: ToolInvocation) -> bool:
        """It had ended when the other one was made. Clocks are too coarse to tell."""
        return self.is_final and self._ending <= other.endings_before

    def close(self, ending: int) -> None:
        """It has ended: whoever waits is told.

        Args:
            ending: the number of this end among those of the engine.
        """
        self._ending = ending
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def wake_from_anywhere(self) -> None:
        """`wake`, also from a signal's handler: it may have come upon a loop that sleeps, and that nothing else wakes."""
        if self.loop is asyncio._get_running_loop():
            self.wake()
        with suppress(RuntimeError):  # its loop was closed under it; nobody is left to be woken
            self.loop.call_soon_threadsafe(self.wake)

    def wake_from_any_thread(self) -> None:
        """`wake`, from the loop's thread or another."""
        if self.loop is asyncio._get_running_loop():
            self.wake()
        else:
            with suppress(RuntimeError):  # its loop was closed under it; nobody is left to be woken
                self.loop.call_soon_threadsafe(self.wake)


def _end_pause(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _release_all(slots: Iterable[Slots]) -> None:
    for each in slots:
        each.release()
