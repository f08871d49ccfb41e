"""A lifecycle as Markdown: what can happen in each state, in words, and the same as a table."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

from ..machine.checks import ANY_UNFINISHED
from ..machine.lifecycle import Lifecycle, Row, State
from .picture import anywhere_title, printable


def table(lifecycle: Lifecycle) -> str:
    """States, moves and guards of a lifecycle, first in sentences, then as tables."""
    hooks = ", ".join(code(name) for name in lifecycle.on_transition)
    parts = [
        f"# {text(lifecycle.name)}",
        text(lifecycle.doc),
        f"It begins in {code(lifecycle.initial)}." + (f" After every move these hooks run: {hooks}." if hooks else ""),
        "## What can happen",
        *_stories(lifecycle),
        "## Moves",
        grid(("from", "trigger", "tried", "guard", "to", "when"), _rows(lifecycle)),
        *_guards(lifecycle),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table of cells that are Markdown already."""
    lines = (head, ("---",) * len(head), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def code(name: str) -> str:
    """A name in code style; in a table a bar would end the cell."""
    name = printable(name)
    return f"`{name}`".replace("|", "\\|") if "`" not in name else text(name)


def text(words: str) -> str:
    """Words that Markdown takes as they are, save code in backquotes, which docstrings have too."""
    return re.sub(r"([\\*<>|\[\]#])", r"\\\1", printable(words))


def _stories(lifecycle: Lifecycle) -> Iterable[str]:
    for state in lifecycle.states:
        yield f"### {text(state.name)}"
        yield " ".join(_situation(state))
        if moves := [row for row in lifecycle.rows if row.source == state.name]:
            yield _list_of_moves(lifecycle, moves)
    if moves := [row for row in lifecycle.rows if row.source == ANY_UNFINISHED]:
        yield f"### In {anywhere_title(lifecycle)}"
        yield _list_of_moves(lifecycle, moves)


def _situation(state: State) -> Iterable[str]:
    if state.doc:
        yield text(state.doc)
    if state.final:
        yield "**This is an end.**"
    for words, names in (
        ("On entering, these gates may refuse:", state.gates),
        ("On entering, these hooks watch:", state.on_enter),
        ("On leaving, these hooks run:", state.on_exit),
    ):
        if names:
            yield f"{words} {', '.join(code(name) for name in names)}."
    if state.activity:
        yield f"Meanwhile: {text(state.activity)}."


def _list_of_moves(lifecycle: Lifecycle, rows: Sequence[Row]) -> str:
    lines = []
    for trigger in dict.fromkeys(row.trigger for row in rows):
        rivals = [row for row in rows if row.trigger == trigger]
        if len(rivals) == 1:
            row = rivals[0]
            lines.append(
                f"- On {code(trigger)}{_condition(lifecycle, row, ', if ')}: go to {code(row.dest)}.{_when(row)}"
            )
            continue
        lines.append(f"- On {code(trigger)} the first of these that holds:")
        lines += [
            f"  {place}. {_condition(lifecycle, row, 'if ') or 'otherwise'}: go to {code(row.dest)}.{_when(row)}"
            for place, row in enumerate(rivals, start=1)
        ]
    return "\n".join(lines)


def _condition(lifecycle: Lifecycle, row: Row, words: str) -> str:
    if row.guard is None:
        return ""
    meaning = _meaning(lifecycle, row.guard).rstrip(".")
    return f"{words}{code(row.guard)}" + (f" ({text(meaning)})" if meaning else "")


def _when(row: Row) -> str:
    return f" {text(row.doc)}" if row.doc else ""


def _rows(lifecycle: Lifecycle) -> Iterable[Sequence[str]]:
    for row in lifecycle.rows:
        rivals = [other for other in lifecycle.rows if (other.source, other.trigger) == (row.source, row.trigger)]
        yield (
            text(anywhere_title(lifecycle)) if row.source == ANY_UNFINISHED else code(row.source),
            code(row.trigger),
            f"{rivals.index(row) + 1} of {len(rivals)}" if len(rivals) > 1 else "",
            code(row.guard) if row.guard else "otherwise" if len(rivals) > 1 else "",
            code(row.dest),
            text(row.doc),
        )


def _guards(lifecycle: Lifecycle) -> Iterable[str]:
    if lifecycle.guards:
        yield "## Guards"
        yield grid(
            ("guard", "holds when"), ((code(name), text(_meaning(lifecycle, name))) for name in lifecycle.guards)
        )


def _meaning(lifecycle: Lifecycle, guard: str) -> str:
    """The first line of the guard's docstring; a `partial` or an object without one of its own has none."""
    function = lifecycle.guards[guard]
    return (inspect.getdoc(function) or "").partition("\n")[0] if inspect.isroutine(function) else ""
