"""`ToolEngine`: takes calls, drives each through its lifecycle, and answers."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from ..breaker.circuit_breaker import CircuitBreaker
from ..clock import Clock, SystemClock
from ..concurrency.eager import EagerRun, Spawner
from ..concurrency.loop_thread import CLOSED, SyncDoor, SyncRun, refuse_in_loop, run_in
from ..concurrency.processes import refuse_while_a_worker_imports
from ..concurrency.threads import run_in_thread
from ..errors.codes import ToolErrorCode
from ..errors.exceptions import ConfigurationError, EngineClosedError, ToolError
from ..events.types import Event
from ..forking import renew_in_children
from ..hooks.logging import log_late_result, say_what_was_hardly_meant
from ..invocation.approval import OnApproval
from ..invocation.attempt import Attempt
from ..invocation.invocation import EventSink, ToolInvocation
from ..invocation.outcomes import error_response
from ..invocation.stages import Stages, publish_nothing
from ..logs import engine_logger, tell_fault
from ..machine.lifecycle import Lifecycle
from ..response.tool_response import ToolResponse
from ..settings.table import ENGINE, check_seconds, check_settings
from ..states.invocation import INVOCATION
from ..tools.call import ToolCall, duplicate_id_error, misread_error
from ..tools.call_forms import read_call
from ..tools.message_forms import read_calls
from ..tools.registry import ToolRegistry, several_tools
from ..tools.spec import ToolSpec, tool_of
from ..tools.tool_settings import ToolSettings
from .activities import Activities, Workshop
from .admission import Admission
from .alerts import Alert, AlertKind, Alerts
from .assembly import build_machine, merge_activities, states_stopped_by_gates
from .driver import Driver
from .health import HealthReport, HealthStatus, ToolHealth, read_probe, skipped
from .oversight import Activity, Oversight
from .runtimes import Runtimes, ThreadUse
from .stream import CallStream

T = TypeVar("T")

DEFAULT_THREADS = 32
DEFAULT_SLOW_STEP = 0.25
"""Seconds: long enough not to be a busy machine's fault, short enough to be felt."""


class ToolEngine:
    """Executes the tool calls of a model, each as one run through a declared lifecycle.

    Nothing that a tool does comes out as an exception, save `KeyboardInterrupt` and the cancellation of the caller's
    own task: every call has a response, and every response says what happened.

    Args:
        tools: `ToolSpec`s or plain functions; `register` adds more later.
        lifecycle: what each call runs through; see `Lifecycle.extended`.
        activities: what is done in states of your own, by the state's name, or instead of the built-in ones.
        stages: the pipeline; see `stages.Stages`.
        hooks: functions that watch every transition, objects with `on_enter`, `on_exit`, `on_transition`, or what
            `gate()`, `on_enter()`, `on_exit()`, `on_transition()` and `named()` make; run in the order written.
        clock: what time is told by.
        max_concurrency: attempts that may run at once, all tools together; `None`: any number.
        max_threads: threads for tools that are plain functions.
        cancel_grace: seconds that a cancelled coroutine may take to clean up before it is left to itself; a call's
            deadline ends them earlier.
        slow_step: seconds that a coroutine tool may go without awaiting, while nothing else in the loop runs, before a
            warning in the log names it. `None`: no warning.
        on_approval: is asked about each call that needs approval, with the invocation; a plain function (in a thread) or
            a coroutine function that answers `True`, `False`, `Approve(...)`, `Deny(...)`, or `None` to leave it open.

    Raises:
        ConfigurationError: something cannot work; the message says what to change.

    Example:
        >>> import asyncio
        >>> def add(a: int, b: int) -> int:
        ...     return a + b
        >>> async def main():
        ...     async with ToolEngine([add]) as engine:
        ...         response = await engine.invoke("add", {"a": 2, "b": 3})
        ...         return response.status.value, response.data
        >>> asyncio.run(main())
        ('success', 5)
    """

    def __init__(
        self,
        tools: Iterable[Any] = (),
        *,
        lifecycle: Lifecycle = INVOCATION,
        activities: Mapping[str, Activity] | None = None,
        stages: Stages | None = None,
        hooks: Iterable[Any] = (),
        clock: Clock | None = None,
        max_concurrency: int | None = None,
        max_threads: int = DEFAULT_THREADS,
        cancel_grace: float = 1.0,
        slow_step: float | None = DEFAULT_SLOW_STEP,
        on_approval: OnApproval | None = None,
    ) -> None:
        given = {
            "lifecycle": lifecycle,
            "activities": activities,
            "stages": stages,
            "clock": clock,
            "max_concurrency": max_concurrency,
            "max_threads": max_threads,
            "cancel_grace": cancel_grace,
            "slow_step": slow_step,
            "on_approval": on_approval,
        }
        check_settings("ToolEngine.", ENGINE, given)
        self.clock: Clock = clock or SystemClock()
        self.registry = ToolRegistry()
        self._stages = stages or Stages()
        self._logger = engine_logger()
        self._alerts = Alerts(self.clock, self._logger)
        self._runtimes = Runtimes(self.clock, self._alerts, max_concurrency=max_concurrency, max_threads=max_threads)
        self.registry.is_well = self._is_well
        for tool in several_tools(tools):
            self.register(tool)
        self._uid_prefix = _new_prefix()
        self._numbers = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._door = SyncDoor(self, lambda: self._loop, cancel_grace)
        self._cancel_grace = cancel_grace
        self._on_closing: dict[Callable[[], object], None] = {}
        self._spawner = Spawner()
        self._failing: set[ToolSpec] = set()
        oversight = Oversight(self.clock, self._spawner, cancel_grace, self._report_left)
        workshop = Workshop(
            registry=self.registry,
            stages=self._stages,
            clock=self.clock,
            runtime_of=self._runtimes.of,
            logger=self._logger,
            on_late=self._report_late,
            on_abandoned=self._report_abandoned,
            oversight=oversight,
            slow_step=slow_step,
            on_approval=on_approval,
        )
        machine, record = build_machine(lifecycle, hooks, self._stages, self._logger)
        self.lifecycle = machine.lifecycle
        built_in = Activities(workshop, Admission(self.clock, self._alerts.threads_short))
        by_state = merge_activities(self.lifecycle, built_in.by_state, activities or {}, oversight)
        stopped_by_gates = states_stopped_by_gates(self.lifecycle)
        self._driver = Driver(machine, built_in, by_state, record, stopped_by_gates, self._logger)
        self._sink = None if self._stages.publish is publish_nothing else self._isolated(self._stages.publish)
        renew_in_children(self._begin_in_child)

    def __reduce__(self) -> Any:
        raise TypeError(
            "an engine cannot be copied or pickled, since it has a loop, threads and circuits of its own; make one on the "
            "other side, and send calls, responses and events, which can be"
        )

    # -- calls ---------------------------------------------------------------------------------------------------

    async def invoke(
        self,
        name: str,
        arguments: Any = None,
        *,
        call_id: str | None = None,
        version: str | None = None,
        deadline: float | None = None,
    ) -> ToolResponse:
        """Call one tool and answer with its response.

        Args:
            arguments: a dictionary, JSON text, or nothing.
            call_id: the model's id of the call; made if missing.
            version: of the tool; `None`: the stable one, or a canary by its share.
            deadline: seconds for all of it, approval apart.

        Raises:
            EngineClosedError: the engine has been closed.
        """
        invocation = self._make(read_call(ToolCall(name, arguments, call_id, version)), self._sink, deadline)
        await self._driver.drive(invocation)
        assert invocation.response is not None, "every invocation ends with a response"
        return invocation.response

    async def execute_tool_call(self, call: Any, *, deadline: float | None = None) -> ToolInvocation:
        """Run one call to its end and answer with the invocation.

        Args:
            call: a `ToolCall`, `{id, name, arguments}`, or a call in a provider's own form, as dictionary or SDK object.
            deadline: seconds for all of it, approval apart.
        """
        invocation = self._make(read_call(call), self._sink, deadline)
        await self._driver.drive(invocation)
        return invocation

    async def execute_tool_calls(self, calls: Iterable[Any], *, deadline: float | None = None) -> list[ToolInvocation]:
        """Run all calls of a message side by side and answer with the invocations, in call order.

        Calls that share an id are refused before anything runs; the others go on.

        Args:
            calls: each as for `execute_tool_call`; or a message that holds them.
            deadline: seconds for each of them, approval apart.
        """
        invocations = self._make_batch(calls, self._sink, deadline)
        if len(invocations) == 1:
            await self._driver.drive(invocations[0])
        else:
            tasks = [self._driver.spawn(invocation) for invocation in invocations]
            await self._driver.settle(tasks, invocations)
        return invocations

    def start(
        self,
        call: Any,
        *,
        deadline: float | None = None,
        on_event: EventSink | None = None,
        refuse: ToolError | None = None,
        uid: str | None = None,
    ) -> ToolInvocation:
        """Start one call and answer at once; await the invocation, or cancel, approve or deny it.

        Args:
            on_event: is given each of its events, and numbers them.
            refuse: answer the call with this error and run nothing. With the code `CANCELLED` it ends as cancelled, and
                the error's message is the reason.
            uid: one that `new_uid` has given, for a call of which somebody has been told before it starts.

        Raises:
            RuntimeError: no event loop is running.
        """
        sink = self._sink if on_event is None else self.sink_of(on_event)
        return self.start_into(sink, call, deadline=deadline, refuse=refuse, uid=uid)

    def start_into(
        self, sink: EventSink | None, call: Any, *, deadline: float | None, refuse: ToolError | None, uid: str | None
    ) -> ToolInvocation:
        """`start` with a sink that `sink_of` has made, for whoever starts many."""
        invocation = self._make(read_call(call), sink, deadline, uid)
        if refuse is not None and refuse.code == ToolErrorCode.CANCELLED:
            invocation.cancel(refuse.message)
        elif refuse is not None:
            invocation.refuse(error_response(refuse))
        self._driver.spawn(invocation)
        return invocation

    def stream(self, calls: Iterable[Any], *, deadline: float | None = None) -> CallStream:
        """Run calls side by side and watch them: `async with engine.stream(calls) as run: async for event in run`.

        Args:
            calls: each as for `execute_tool_call`; or a message that holds them.
            deadline: seconds for each of them, approval apart.
        """
        return CallStream(self, calls, deadline)

    # -- calls from code without a loop ----------------------------------------------------------------------------

    def invoke_sync(
        self,
        name: str,
        arguments: Any = None,
        *,
        call_id: str | None = None,
        version: str | None = None,
        deadline: float | None = None,
    ) -> ToolResponse:
        """`invoke` for code without a running loop, with the same arguments.

        This form and its siblings work in the loop that the engine works in, if one is running, from any other thread
        (a tool that is a plain function may call its own engine); else in a background loop of the engine's own. A call
        that is made in a tool's thread is cancelled with that tool's.

        Raises:
            ConfigurationError: a loop is running here, and would be blocked; await `invoke` instead.
            EngineClosedError: the engine has been closed.

        Example:
            >>> def add(a: int, b: int) -> int:
            ...     return a + b
            >>> engine = ToolEngine([add])
            >>> engine.invoke_sync("add", {"a": 2, "b": 3}).data, engine.close()
            (5, [])
        """
        loop = self._door.enter(self, "invoke()")
        return run_in(loop, self.invoke(name, arguments, call_id=call_id, version=version, deadline=deadline))

    def execute_tool_call_sync(self, call: Any, *, deadline: float | None = None) -> ToolInvocation:
        """`execute_tool_call` for code without a running loop; see `invoke_sync`."""
        return run_in(self._door.enter(self, "execute_tool_call()"), self.execute_tool_call(call, deadline=deadline))

    def execute_tool_calls_sync(self, calls: Iterable[Any], *, deadline: float | None = None) -> list[ToolInvocation]:
        """`execute_tool_calls` for code without a running loop; see `invoke_sync`."""
        return run_in(self._door.enter(self, "execute_tool_calls()"), self.execute_tool_calls(calls, deadline=deadline))

    def stream_sync(self, calls: Iterable[Any], *, deadline: float | None = None) -> SyncRun:
        """`stream` for code without a running loop: `for event in engine.stream_sync(calls)`; see `invoke_sync`."""
        return SyncRun(self.stream(calls, deadline=deadline), self._door.enter(self, "stream()"))

    def health_check_sync(self, timeout: float = 5.0, *, include_writing: bool = False) -> HealthReport:
        """`health_check` for code without a running loop; see `invoke_sync`."""
        loop = self._door.enter(self, "health_check()")
        return run_in(loop, self.health_check(timeout, include_writing=include_writing))

    def run_sync(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of your own where this engine's calls run, for code without a running loop; see `invoke_sync`.

        Example:
            >>> engine = ToolEngine([])
            >>> async def both():
            ...     return await engine.execute_tool_calls([])
            >>> engine.run_sync(both()), engine.close()
            ([], [])
        """
        try:
            loop = self._door.enter(self, "the coroutine")
        except BaseException:
            coroutine.close()
            raise
        return run_in(loop, coroutine)

    # -- tools, circuits, health -----------------------------------------------------------------------------------

    def register(self, tool: Any, *, replace: bool = False, **settings: Unpack[ToolSettings]) -> ToolSpec:
        """Add a tool, a `ToolSpec` or a plain function. What most likely was not meant so is said in the log.

        Args:
            replace: it may take the place of the same version of the same name, or, if it is no canary, of the stable
                version.
            settings: any of `ToolSpec`, to say otherwise or more.

        Raises:
            ConfigurationError: the name is taken, or the tool cannot work.
        """
        spec = tool_of(tool, **settings)
        self._runtimes.check(spec, self.registry.beside(spec))
        self.registry.register(spec, replace=replace)
        if replace:
            self._runtimes.keep_only(self.registry)
            self._failing.intersection_update(self.registry)
        self._runtimes.of(spec)
        say_what_was_hardly_meant(self._logger, spec)
        return spec

    @property
    def circuits(self) -> Mapping[str, CircuitBreaker]:
        """The circuit breakers by scope: `name@version`, or the group's name. `reset()` closes one by hand."""
        return self._runtimes.circuits.all()

    @property
    def threads(self) -> ThreadUse:
        """How many threads there may be, how many are busy, and how many of those nobody waits for any more."""
        return self._runtimes.threads

    def on_alert(self, receiver: Callable[[Alert], object]) -> Callable[[], None]:
        """Hand every alert to this function from now on; answers a function that ends it.

        Example:
            >>> engine = ToolEngine([])
            >>> stop = engine.on_alert(lambda alert: print(alert.kind, alert.tool, alert.reason))
            >>> stop()
        """
        return self._alerts.subscribe(receiver)

    async def health_check(self, timeout: float = 5.0, *, include_writing: bool = False) -> HealthReport:
        """Ask every tool how it is, all at once; no circuit hears of it.

        Args:
            timeout: seconds for each tool.
            include_writing: also ask tools that are not marked read-only and probe by a sample call.
        """
        check_seconds("timeout", timeout)
        asked: dict[ToolSpec, ToolInvocation] = {}
        answers: dict[ToolSpec, ToolHealth] = {}
        specs = tuple(self.registry)  # tools may come and go while the probes run
        for spec in specs:
            probe = self._runtimes.probe_of(spec)
            if probe is None:
                answers[spec] = skipped(spec, "it declares no health_check", self._circuit_state(spec))
            elif isinstance(spec.health_check, Mapping) and not (spec.read_only or include_writing):
                answers[spec] = skipped(spec, "its sample call may change something", self._circuit_state(spec))
            else:
                invocation = self._make(ToolCall(spec.name, dict(probe[1])), None, timeout)
                invocation.spec = probe[0]
                asked[spec] = invocation
        tasks = [self._driver.spawn(invocation) for invocation in asked.values()]
        await self._driver.settle(tasks, asked.values())
        for spec, invocation in asked.items():
            answers[spec] = read_probe(spec, invocation, self._circuit_state(spec))
        for spec in specs:
            self._report_health(spec, answers[spec])
        return HealthReport(tuple(answers[spec] for spec in specs))

    def _circuit_state(self, spec: ToolSpec) -> str | None:
        breaker = self._runtimes.of(spec).breaker
        return None if breaker is None else str(breaker.circuit_state)

    def _report_health(self, spec: ToolSpec, health: ToolHealth) -> None:
        """One alert when a tool begins to fail, and one when it is well again."""
        is_failing = health.status is HealthStatus.FAILING
        if is_failing == (spec in self._failing) or health.status is HealthStatus.SKIPPED:
            return
        kind = AlertKind.HEALTH_FAILING if is_failing else AlertKind.HEALTH_RECOVERED
        (self._failing.add if is_failing else self._failing.discard)(spec)
        self._alerts.send(kind, spec, reason=health.code or "probe_passed")

    def _is_well(self, spec: ToolSpec) -> bool:
        breaker = self._runtimes.of(spec).breaker
        return breaker is None or breaker.admits

    # -- life ----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._bind(asyncio.get_running_loop())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self, grace: float = 5.0) -> list[ToolInvocation]:
        """Take no more calls; cancel what is running, wait for it, and answer with what had to be cancelled.

        Args:
            grace: seconds to wait. What has not ended by then is left to itself and reported in the log.
        """
        loop, background = self._loop, self._door.close()
        if loop is None or loop is asyncio.get_running_loop() or not loop.is_running():
            unfinished = await self._cancel_running(grace)
        else:  # the calls run in another loop, and so must what waits for them
            there = asyncio.run_coroutine_threadsafe(self._cancel_running(grace), loop)
            unfinished = await asyncio.wrap_future(there)
        if background is not None and background.loop is not asyncio.get_running_loop():
            await run_in_thread(background.stop)
        return unfinished

    def close(self, grace: float = 5.0) -> list[ToolInvocation]:
        """`aclose` for code without a running loop.

        Raises:
            ConfigurationError: a loop is running here, and would be blocked.
        """
        refuse_in_loop("aclose()")
        background = self._door.close()
        loop, unfinished = self._loop, list[ToolInvocation]()
        if loop is not None and loop.is_running():
            unfinished = asyncio.run_coroutine_threadsafe(self._cancel_running(grace), loop).result()
        if background is not None:
            background.stop()
        return unfinished

    @property
    def is_closed(self) -> bool:
        """It takes no more calls."""
        return self._door.is_closed

    @property
    def cancel_grace(self) -> float:
        """Seconds that whatever is cancelled may take to clean up before it is left to itself."""
        return self._cancel_grace

    def when_closing(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call this when the engine is closed, in its loop; answers a function that ends that."""
        self._on_closing[callback] = None
        return lambda: self._on_closing.pop(callback, None)

    @property
    def running(self) -> tuple[ToolInvocation, ...]:
        """The invocations that have not ended, the oldest first."""
        return tuple(self._driver.running.values())

    async def _cancel_running(self, grace: float) -> list[ToolInvocation]:
        unfinished = list(self.running)
        for callback in tuple(self._on_closing):
            callback()
        for invocation in unfinished:
            invocation.cancel("the engine is closing")
        over = asyncio.get_running_loop().create_future()
        timer = self.clock.call_at(self.clock.monotonic() + grace, _set, over)
        try:
            pending: set[asyncio.Future[Any]] = {invocation.ended for invocation in unfinished}
            while pending and not over.done():
                _, left = await asyncio.wait({*pending, over}, return_when=asyncio.FIRST_COMPLETED)
                pending = left - {over}
        finally:
            timer.cancel()
        for invocation in unfinished:
            if not invocation.is_final:
                self._report_unended(invocation)
        self._runtimes.circuits.stop_timers()
        return unfinished

    # -- making --------------------------------------------------------------------------------------------------

    def new_uid(self) -> str:
        """The name of a call that is still to be started; see `start`."""
        return f"{self._uid_prefix}{next(self._numbers)}"

    def _make(
        self, call: ToolCall, sink: EventSink | None, deadline: float | None, uid: str | None = None
    ) -> ToolInvocation:
        if self._door.is_closed:
            raise EngineClosedError(CLOSED)
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._bind(loop)
        if uid is None:
            uid = f"{self._uid_prefix}{next(self._numbers)}"
        now = self.clock.monotonic()
        lifecycle = self.lifecycle
        invocation = ToolInvocation(
            call, uid, lifecycle.initial, now, self.clock, loop, self._stages.check_edit, lifecycle.final_states
        )
        invocation.endings_before = self._driver.endings
        if sink is not None:
            invocation.sink = sink
        if deadline is not None:
            check_seconds("deadline", deadline)
            invocation.deadline = now + deadline
        self._driver.running[invocation.uid] = invocation
        if call.problem is not None:
            invocation.refuse(error_response(misread_error(call.problem)))
        return invocation

    def _make_batch(self, calls: Iterable[Any], sink: EventSink | None, deadline: float | None) -> list[ToolInvocation]:
        read = read_calls(calls)
        ids = Counter(call.id for call in read if call.id)
        invocations = [self._make(call, sink, deadline) for call in read]
        for invocation in invocations:
            if ids[invocation.call.id or ""] > 1:
                invocation.refuse(error_response(duplicate_id_error()))
        return invocations

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Work on this running loop from now on; slots and tasks of another one mean nothing here."""
        if loop is self._loop:
            return
        refuse_while_a_worker_imports()
        if self.running and self._loop is not None and not self._loop.is_closed():
            raise ConfigurationError(
                "this engine is running calls in another event loop; use it from that loop, or make one engine a loop"
            )
        for left in self.running:  # by a loop that was closed without cancelling its tasks
            self._report_unended(left)
        self._driver.running.clear()
        self._loop = loop
        self._spawner.bind(loop)
        self._runtimes.renew_slots()

    def _begin_in_child(self) -> None:
        """In a child process: the calls, the loop and the threads are the parent's, and so are the names given so far."""
        self._uid_prefix = _new_prefix()
        self._driver.forget_all()
        self._loop = None
        self._runtimes.begin_in_child()

    def sink_of(self, on_event: EventSink) -> EventSink:
        """A sink that hands events to a function, whatever that raises, and then to the `publish` stage."""
        first = self._isolated(on_event)
        return first if self._sink is None else _both(first, self._sink)

    def _isolated(self, publish: Callable[[Event], object]) -> EventSink:
        """Somebody else's function as a sink: what it raises is logged and changes nothing."""
        logger = self._logger

        def sink(event: Event) -> None:
            try:
                publish(event)
            except BaseException as error:  # noqa: BLE001 # whatever it is, it is the stage's own affair
                tell_fault(logger, "publish failed", error, event_type=event.type)

        return sink

    def _report_unended(self, invocation: ToolInvocation) -> None:
        self._logger.warning("invocation did not end", tool=invocation.tool_name, uid=invocation.uid)

    def _report_late(self, attempt: Attempt, error: BaseException | None) -> None:
        self._runtimes.abandoned.discard(attempt)
        log_late_result(self._logger, attempt, error)
        reason = "success" if error is None else type(error).__name__
        self._alerts.send(AlertKind.LATE_RESULT, attempt.invocation.spec, reason=reason)

    def _report_abandoned(self, attempt: Attempt) -> None:
        self._runtimes.abandoned.add(attempt)
        tool = attempt.invocation.tool_name
        self._logger.warning("tool was left to itself", tool=tool, uid=attempt.invocation.uid, attempt=attempt.number)
        self._alerts.send(AlertKind.TOOL_ABANDONED, attempt.invocation.spec, reason="ignores_cancellation")

    def _report_left(self, invocation: ToolInvocation, run: EagerRun, part: str) -> None:
        """A fallback or an activity goes on although it was cancelled; what it comes to in the end is logged as well."""
        logger, tool, uid = self._logger, invocation.tool_name, invocation.uid
        logger.warning("part of a call was left to itself", tool=tool, uid=uid, part=part)
        self._alerts.send(AlertKind.TOOL_ABANDONED, invocation.spec, reason="ignores_cancellation")

        def ended() -> None:
            _, error = run.take()
            kind = None if error is None else type(error).__name__
            logger.warning("late_result_discarded", tool=tool, uid=uid, part=part, exception_type=kind)

        run.when_ended(ended)


def _new_prefix() -> str:
    return f"inv_{secrets.token_hex(6)}_"


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _both(first: EventSink, second: EventSink) -> EventSink:
    def sink(event: Event) -> None:
        first(event)
        second(event)

    return sink
