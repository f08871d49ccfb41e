"""The picture of one way through a lifecycle: what was passed in colour, with numbers and times; the rest in grey."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from ..machine.lifecycle import Lifecycle, Row
from ..states.invocation import ToolState
from .markdown import code, grid, text
from .picture import Arrow, Box, Picture, Tone, anywhere_box, box_of, bundled, row_labels
from .trace import Step, Trace, Try

_Move = tuple[str, str, str | None, str]


def path_picture(trace: Trace, lifecycle: Lifecycle) -> Picture:
    """The lifecycle with the steps of a trace on its arrows: `step 3 at 512 ms`."""
    stays = _stays(trace, lifecycle)
    return Picture(
        name=heading(trace, lifecycle),
        initial=lifecycle.initial,
        boxes=(
            *(_box(box_of(state), stays.get(state.name), trace) for state in lifecycle.states),
            *anywhere_box(lifecycle, Tone.LEFT_OUT),
        ),
        arrows=tuple(_arrows(trace, lifecycle)),
        caption=(summary(trace, lifecycle),),
    )


def path_table(trace: Trace, lifecycle: Lifecycle) -> str:
    """The steps and the attempts of a trace as Markdown."""
    begin_of_next = [step.at for step in trace.steps[1:]]
    steps = [
        (
            str(number),
            duration(step.at),
            code(step.source),
            code(step.trigger),
            code(step.guard) if step.guard else "",
            code(step.dest),
            duration(begin_of_next[number - 1] - step.at) if number <= len(begin_of_next) else "",
        )
        for number, step in enumerate(trace.steps, start=1)
    ]
    parts = [
        f"# {text(heading(trace, lifecycle))}",
        text(summary(trace, lifecycle)),
        grid(("step", "at", "from", "trigger", "guard", "to", "stayed"), steps),
        *(f"- {text(attempt_note(attempt))}" for attempt in trace.attempts),
    ]
    return "\n\n".join(parts) + "\n"


def heading(trace: Trace, lifecycle: Lifecycle) -> str:
    """What the picture is called."""
    return " ".join(word for word in (trace.tool or lifecycle.name, trace.id) if word)


def summary(trace: Trace, lifecycle: Lifecycle) -> str:
    """Where it is, and how long it took to get there."""
    if not trace.steps:
        return f"in {lifecycle.initial}, no step yet"
    last = trace.steps[-1]
    words = "ended as" if last.dest in lifecycle.final_states else "is in"
    count = f"{len(trace.steps)} step{'s' if len(trace.steps) > 1 else ''}"
    return f"{words} {last.dest} after {count} and {duration(last.at)}"


def attempt_note(attempt: Try) -> str:
    """One attempt in a line."""
    if attempt.ended_at is None:
        return f"attempt {attempt.number}: running"
    took = duration(attempt.ended_at - attempt.started_at)
    waited = "" if attempt.delay is None else f", then a wait of {duration(attempt.delay)}"
    return f"attempt {attempt.number}: {attempt.code or 'a result'} after {took}{waited}"


def duration(seconds: float) -> str:
    """Seconds as a person reads them.

    >>> [duration(seconds) for seconds in (0.0, 0.00025, 0.5, 1.25, 3725)]
    ['0 s', '250 µs', '500 ms', '1.25 s', '1:02:05']
    """
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (100.0, 1.0, "s")):
        if seconds < limit:
            return f"{seconds * factor:.3g} {unit}" if seconds else "0 s"
    return str(timedelta(seconds=round(seconds)))


def _stays(trace: Trace, lifecycle: Lifecycle) -> dict[str, list[float | None]]:
    """How long each state was stayed in, a number for each visit; `None`: it has not been left."""
    stays: defaultdict[str, list[float | None]] = defaultdict(list)
    state, since = lifecycle.initial, 0.0
    for step in trace.steps:
        stays[state].append(step.at - since)
        state, since = step.dest, step.at
    stays[state].append(None)
    return stays


def _box(box: Box, stays: list[float | None] | None, trace: Trace) -> Box:
    if stays is None:
        return replace(box, notes=(), doc="", tone=Tone.LEFT_OUT)
    return replace(box, notes=tuple(_notes(box.name, stays, trace)), doc="", tone=Tone.TAKEN)


def _notes(state: str, stays: list[float | None], trace: Trace) -> Iterable[str]:
    times = [duration(seconds) for seconds in stays if seconds is not None]
    if times:
        yield f"stayed {' + '.join(times)}"
    if state == ToolState.EXECUTING:
        yield from map(attempt_note, trace.attempts)


def _arrows(trace: Trace, lifecycle: Lifecycle) -> Iterable[Arrow]:
    """The rows not taken (those of `*` from its own box), and over them the steps, from the states they left."""
    labels = row_labels(lifecycle)
    taken: defaultdict[_Move, list[str]] = defaultdict(list)
    for number, step in enumerate(trace.steps, start=1):
        taken[_move(step)].append(f"step {number} at {duration(step.at)}")
    left_out = (row for row in lifecycle.rows if _move(row) not in taken)
    yield from bundled(Arrow(row.source, row.dest, (labels[row],), Tone.LEFT_OUT) for row in left_out)
    yield from bundled(
        Arrow(row.source, row.dest, (labels[row], *taken[_move(row)]), Tone.TAKEN)
        for row in lifecycle.moves
        if _move(row) in taken
    )


def _move(step: Step | Row) -> _Move:
    return step.source, step.trigger, step.guard, step.dest
