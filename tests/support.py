"""What several test files share: virtual time that moves by itself, threads that hang on request, recorded logs."""

from __future__ import annotations

import asyncio
import io
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import structlog

from fsm_engine import Event, ToolEngine, ToolInvocation, VirtualClock

T = TypeVar("T")


async def idle() -> None:
    """Return when nothing else is ready to run in this loop."""
    loop: Any = asyncio.get_running_loop()
    ready = loop._ready  # the only way to know; no public name
    await asyncio.sleep(0)
    while ready:  # noqa: ASYNC110 # it is this very turning of the loop that is waited for
        await asyncio.sleep(0)


class Stuck:
    """A tool's thread that hangs until it is let go. Time goes on meanwhile, as it would for a thread that hangs."""

    def __init__(self) -> None:
        self._gate = threading.Event()
        self._lock = threading.Lock()
        self.count = 0

    def __call__(self) -> None:
        with self._lock:
            self.count += 1
        try:
            assert self._gate.wait(30), "nobody let the thread go"
        finally:
            with self._lock:
                self.count -= 1

    def let_go(self) -> None:
        self._gate.set()


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn, and threads work, until a condition holds; pytest's time limit ends what never comes."""
    while not condition():  # noqa: ASYNC110 # what it waits for may be anything
        await asyncio.sleep(0)


async def play(engine: ToolEngine, awaitable: Awaitable[T], stuck: Stuck | None = None) -> T:
    """Await something, moving the engine's virtual clock to its next timer whenever nothing else can happen.

    Time stands still while a thread works, unless it is stuck.
    """
    clock = engine.clock
    assert isinstance(clock, VirtualClock)
    task = asyncio.ensure_future(awaitable)
    try:
        while True:
            await idle()
            if task.done():
                return task.result()
            at_work = sum(each.attempt is not None and each.attempt.thread_running for each in engine.running)
            if at_work > (0 if stuck is None else stuck.count):
                continue
            due = clock.next_timer
            assert due is not None, "nothing is ready, no timer is set: this would wait for ever"
            clock.advance(max(0.0, due - clock.monotonic()))
    finally:
        task.cancel()


def virtual(*tools: Any, **settings: Any) -> ToolEngine:
    """An engine whose time stands still until `play` moves it."""
    return ToolEngine(tools, clock=VirtualClock(), **settings)


def now(engine: ToolEngine) -> float:
    """The engine's time, rounded: sums of floats are not exact."""
    return round(engine.clock.monotonic(), 6)


@contextmanager
def logged() -> Iterator[list[dict[str, Any]]]:
    """Everything that engines made inside the block log, as dictionaries."""
    lines: list[dict[str, Any]] = []

    def keep(_: object, level: str, line: Any) -> Any:
        lines.append({**line, "log_level": level})
        raise structlog.DropEvent

    structlog.configure(processors=[keep])
    try:
        yield lines
    finally:
        structlog.reset_defaults()


class Watch:
    """A `publish` stage that keeps the events of each invocation."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of(self, invocation: ToolInvocation) -> list[Event]:
        return [event for event in self.events if getattr(event, "uid", None) == invocation.uid]


def assert_ended(invocation: ToolInvocation) -> None:
    """It has one final state, at the end of its path and nowhere else, and a response that goes with it."""
    final = {"COMPLETED", "FAILED", "CANCELLED"}
    assert invocation.is_final
    assert invocation.response is not None
    assert [state for state in invocation.path if state in final] == [invocation.state] == [invocation.path[-1]]
    assert (invocation.state == "COMPLETED") == (invocation.error is None)
    assert not invocation.slots


def assert_told_in_full(events: list[Event]) -> None:
    """One `tool_call` first, one final event last."""
    types = [event.type for event in events]
    assert types[:1] == ["tool_call"]
    assert [kind for kind in types if kind in ("tool_result", "tool_error")] == types[-1:]


_SNIPPET = re.compile(r"```python\n(?P<code>.*?)```(?:\n\n```text\n(?P<printed>.*?)```)?", re.DOTALL)


def assert_snippets_print_what_stands_below_them(page: Path, more_than: int) -> None:
    """Run the Python snippets of a page, one after the other in one program."""
    namespace: dict[str, Any] = {"__name__": "guide"}
    snippets = list(_SNIPPET.finditer(page.read_text(encoding="utf-8")))
    assert len(snippets) > more_than
    for snippet in snippets:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(snippet["code"], page.name, "exec"), namespace)
        assert printed.getvalue() == (snippet["printed"] or ""), snippet["code"]
