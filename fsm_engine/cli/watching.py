"""Runs calls before somebody's eyes, and gets decisions for those that need approval."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TextIO

from anyio import to_thread
from rich.text import Text

from ..engine.stream import CallStream
from ..events.types import Event, ToolErrorEvent, ToolExecutionEvent, ToolResultEvent
from ..invocation.invocation import ToolInvocation
from ..jsonable.visible import visible_json
from ..states.invocation import ToolState
from .board import one_line
from .display import Screen

_SHORT = 80
"""Characters of arguments that are asked about in a line; more are laid out below it."""

Decide = Callable[[ToolInvocation, str], Coroutine[Any, Any, None]]
"""Is given a call that waits for approval, and its arguments as they may be shown; approves or denies it."""


async def watch(
    run: CallStream, screen: Screen, decide: Decide, on_end: Callable[[CallStream], object] = lambda _run: None
) -> list[ToolInvocation]:
    """Run calls and show their events until the last of them has ended, also if that is by an interruption.

    Args:
        run: one that nobody has entered yet.
        screen: where its events are shown.
        decide: is asked about each call that needs approval.
        on_end: called with the run whenever one of its calls has ended.
    """
    try:
        async with run, asyncio.TaskGroup() as group:
            deciding = []
            async for event in run:
                _show(event, run, screen, on_end)
                if isinstance(event, ToolExecutionEvent) and event.status == ToolState.AWAITING_APPROVAL:
                    deciding.append(group.create_task(decide(run[event.uid], _asked(event.arguments or {}))))
            for task in deciding:  # of a call that nobody decided in time
                task.cancel()
    finally:
        async for event in run:  # how the calls ended that were cancelled on leaving; all of that is there already
            _show(event, run, screen, on_end)
    return list(run.invocations)


def _asked(arguments: Mapping[str, Any]) -> str:
    """All of what a person is to agree to: nothing is cut off, and nothing in it is invisible."""
    text = visible_json(arguments)
    return text if len(text) <= _SHORT else f"\n{visible_json(arguments, indent=2)}\n"


def _show(event: Event, run: CallStream, screen: Screen, on_end: Callable[[CallStream], object]) -> None:
    screen.show(event)
    if isinstance(event, ToolResultEvent | ToolErrorEvent):
        on_end(run)


def approve_all() -> Decide:
    """Every call is approved."""

    async def decide(invocation: ToolInvocation, _arguments: str) -> None:
        invocation.approve()

    return decide


def deny_all(reason: str) -> Decide:
    """Every call is denied, for this reason."""

    async def decide(invocation: ToolInvocation, _arguments: str) -> None:
        invocation.deny(reason)

    return decide


def ask(screen: Screen, prompt: Callable[[Text], object], stream: TextIO) -> Decide:
    """A person is asked at the terminal, about one call at a time.

    Args:
        screen: leaves the terminal to the question meanwhile.
        prompt: prints a question without ending the line.
        stream: where the answers come from.
    """
    one_at_a_time = asyncio.Lock()

    async def decide(invocation: ToolInvocation, arguments: str) -> None:
        async with one_at_a_time:
            if invocation.state != ToolState.AWAITING_APPROVAL:
                return  # it was cancelled or given up while another question was open
            question = Text.assemble(
                ("Approve ", "bold yellow"), (one_line(invocation.tool_name), "bold"), f" with {arguments}? [y/N] "
            )
            with screen.paused():
                prompt(question)
                answer = await read_line(stream)
        if answer.strip().casefold() in {"y", "yes"}:
            invocation.approve()
        else:
            invocation.deny("the person at the terminal said no")

    return decide


async def read_line(stream: TextIO) -> str:
    """A line that somebody types, while everything else goes on. Given up without a trace when cancelled."""
    loop = asyncio.get_running_loop()
    typed = asyncio.Event()
    try:
        loop.add_reader(stream, typed.set)
    except NotImplementedError:  # the loop of Windows watches sockets only
        return await to_thread.run_sync(stream.readline, abandon_on_cancel=True)
    try:
        await typed.wait()
    finally:
        loop.remove_reader(stream)
    return stream.readline()
