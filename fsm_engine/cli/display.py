"""How a run looks: a live table in a terminal, elsewhere a line for each change of state."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import Protocol, Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ..events.types import Event, ToolExecutionEvent
from ..invocation.invocation import ToolInvocation
from ..response.tool_response import ToolResponse, ToolStatus
from ..states.invocation import ToolState
from .board import Board, Card, duration, one_line

REFRESH_SECONDS = 0.08
REPORT_SECONDS = 1.0
"""Outside a terminal a call's progress gets a line at most this often."""

_DIM = "bright_black"
_ARROW = " \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "
_HARD_SPACE = "\N{NO-BREAK SPACE}"  # a path is broken between its states only
_STYLES: dict[str, str] = {
    ToolState.PENDING: _DIM,
    ToolState.VALIDATING: "cyan",
    ToolState.AWAITING_APPROVAL: "bold yellow",
    ToolState.ADMITTING: "cyan",
    ToolState.EXECUTING: "blue",
    ToolState.RETRYING: "yellow",
    ToolState.FALLING_BACK: "magenta",
    ToolState.COMPLETED: "bold green",
    ToolState.FAILED: "bold red",
    ToolState.CANCELLED: "bold red",
}
_STATE_WIDTH = max(map(len, ToolState))
_CARD_HEIGHT = 4


class Screen(Protocol):
    """Where a run is shown. Whatever else is printed to the same console meanwhile goes between its lines or above it."""

    def show(self, event: Event) -> None:
        """Show what an event changes."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Leave the terminal to somebody else within the block."""
        ...


@asynccontextmanager
async def screen_for(console: Console, wall: Callable[[], float]) -> AsyncIterator[Screen]:
    """A screen that suits the console.

    Args:
        console: a terminal or a file.
        wall: now, in seconds since the epoch, as the events have it.
    """
    if not console.is_terminal:
        yield LogScreen(console)
        return
    screen = LiveScreen(console, wall)
    ticking = asyncio.create_task(screen.tick())
    try:
        with screen:
            yield screen
    finally:
        ticking.cancel()


class LogScreen:
    """A line for each change of state."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._board = Board()
        self._began: float | None = None
        self._reported: dict[str, float] = {}

    def show(self, event: Event) -> None:
        """Print what an event changes."""
        if self._began is None:
            self._began = event.at
        card = self._board.take(event)
        if card is None or (isinstance(event, ToolExecutionEvent) and not self._is_due(event)):
            return
        line = Text(f"{event.at - self._began:7.3f} s  {card.id[:24]:<8}  {card.tool[:24]:<15}  ", style=_DIM)
        line.append(f"{card.state:<{_STATE_WIDTH}}", style_of(card.state, card.response))
        line.append("  ")
        line.append(_detail(card), "default")
        line.rstrip()
        self._console.print(line, soft_wrap=True)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing moves here."""
        yield

    def _is_due(self, event: ToolExecutionEvent) -> bool:
        if event.is_state_change:
            return True
        is_due = event.at - self._reported.get(event.uid, float("-inf")) >= REPORT_SECONDS
        if is_due:
            self._reported[event.uid] = event.at
        return is_due


class LiveScreen:
    """A table that moves while the calls run, and stays as it was at their end."""

    def __init__(self, console: Console, wall: Callable[[], float]) -> None:
        self._console = console
        self._wall = wall
        self._board = Board()
        self._spinner = Spinner("dots", style="blue")
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._console.print(self._table(self._board.cards))

    async def tick(self) -> None:
        """Draw anew, again and again, until cancelled."""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            if self._live is not None:
                self._live.refresh()

    def show(self, event: Event) -> None:
        """Note an event; the next tick draws it."""
        self._board.take(event)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Take the table away within the block."""
        self._stop()
        try:
            yield
        finally:
            self._start()

    def _start(self) -> None:
        # A new one each time: one that is started again would draw over what was printed meanwhile.
        self._live = Live(console=self._console, auto_refresh=False, transient=True, get_renderable=self._moving)
        self._live.start()

    def _stop(self) -> None:
        assert self._live is not None, "it is stopped as often as it is started"
        self._live.stop()
        self._live = None

    def _moving(self) -> RenderableType:
        cards = self._board.cards
        room = max(1, (self._console.height - 3) // _CARD_HEIGHT)
        if len(cards) <= room:
            return self._table(cards)
        running = [card for card in cards if card.ended is None]
        hidden = len(running) - room
        waiting = f", {hidden} more running" if hidden > 0 else ""
        return Group(self._table(running[:room]), Text(f"  {len(cards) - len(running)} ended{waiting}", style=_DIM))

    def _table(self, cards: Iterable[Card]) -> Table:
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(width=1)
        table.add_column(ratio=1)
        table.add_column(justify="right", no_wrap=True)
        now = self._wall()
        for card in cards:
            seconds = (now if card.ended is None else card.ended) - card.began
            table.add_row(self._symbol(card), _body(card), Text(duration(seconds), style=_DIM))
        return table

    def _symbol(self, card: Card) -> RenderableType:
        return self._spinner if card.response is None else Text(*mark(card.response))


def _body(card: Card) -> RenderableType:
    head = Text(card.tool, style="bold", no_wrap=True, overflow="ellipsis")
    head.append(f"  {card.arguments}", style="not bold " + _DIM)
    path = Text()
    for number, (state, remark) in enumerate(card.steps):
        path.append(_ARROW if number else "", _DIM)
        path.append(state.replace("_", _HARD_SPACE), style_of(state, card.response))
        path.append(f"{_HARD_SPACE}{remark.replace(' ', _HARD_SPACE)}" if remark else "", _DIM)
    parts: list[RenderableType] = [head, path]
    if card.response is not None:
        parts.append(Text(card.outcome, style="default"))
    elif card.progress is not None or card.message:
        parts.append(_progress(card))
    return Group(*parts)


def _progress(card: Card) -> RenderableType:
    if card.progress is None or not 0 <= card.progress <= 1:
        return Text(card.message, style=_DIM)
    row = Table.grid(padding=(0, 1))
    row.add_row(
        ProgressBar(total=1.0, completed=card.progress, width=24, complete_style="blue", finished_style="blue"),
        Text(f"{card.progress:4.0%}", style="blue"),
        Text(card.message, style=_DIM),
    )
    return row


def _detail(card: Card) -> str:
    if card.response is not None:
        return card.outcome
    if card.state == ToolState.PENDING:
        return card.arguments
    progress = f"{card.progress:.0%} " if card.progress is not None and 0 <= card.progress <= 1 else ""
    return f"{progress}{card.message}" or card.remark


def style_of(state: str, response: ToolResponse | None = None) -> str:
    """The colour of a state; of `COMPLETED` yellow where the result is partial."""
    if state == ToolState.COMPLETED and response is not None and response.status is ToolStatus.PARTIAL:
        return "bold yellow"
    return _STYLES.get(state, "default")


def mark(response: ToolResponse) -> tuple[str, str]:
    """The sign of an outcome, and its style."""
    if response.error_info is not None:
        return "✘", "bold red"
    return ("◐", "bold yellow") if response.status is ToolStatus.PARTIAL else ("✔", "bold green")


def summary_line(invocations: Sequence[ToolInvocation]) -> Text:
    """How many calls there were, and how they ended."""
    count = Counter(invocation.state for invocation in invocations)
    line = Text(f"{len(invocations)} call{'s' if len(invocations) != 1 else ''}")
    for number, state in enumerate(sorted(count)):
        line.append(": " if number == 0 else ", ")
        line.append(f"{count[state]} {state.lower().replace('_', ' ')}", style_of(state))
    return line


def summary_table(invocations: Sequence[ToolInvocation]) -> Table:
    """A row for each call."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in ("", "tool", "state", "why", "attempts", "time"):
        table.add_column(name, justify="right" if name in {"attempts", "time"} else "left", no_wrap=name != "why")
    for invocation in invocations:
        response = invocation.response
        assert response is not None, "a summary is made of calls that have ended"
        table.add_row(
            Text(*mark(response)),
            one_line(invocation.tool_name),
            Text(invocation.state, style=style_of(invocation.state, response)),
            one_line(_why(response)),
            str(len(invocation.attempts)) if invocation.attempts else "-",
            duration((invocation.ended_at or 0.0) - invocation.started_at),
        )
    return table


def _why(response: ToolResponse) -> str:
    info = response.error_info
    if info is None:
        return response.reason or ""
    return info.code if info.reason in {None, info.code.lower()} else f"{info.code} {info.reason}"
