"""What one invocation did, as plain data: the transitions and attempts with their times, strict JSON on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from ..errors.exceptions import ConfigurationError
from ..invocation.invocation import HistoryEntry, ToolInvocation
from ..jsonable.jsonable import to_jsonable
from ..machine.lifecycle import Lifecycle, Row

_Seconds = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Step:
    """One transition; `at`: seconds after the beginning."""

    source: str
    trigger: str
    guard: str | None
    dest: str
    at: _Seconds


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt; times in seconds after the beginning, the delay after it in seconds."""

    number: int
    started_at: _Seconds
    ended_at: _Seconds | None = None
    code: str | None = None
    delay: _Seconds | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """The way of one invocation. `lifecycle` is the name of the one it ran through; `""`: not told."""

    steps: tuple[Step, ...]
    attempts: tuple[Try, ...] = ()
    lifecycle: str = ""
    tool: str = ""
    id: str = ""
    uid: str = ""


def read_trace(history: ToolInvocation | Mapping[str, Any] | str | bytes | Iterable[HistoryEntry]) -> Trace:
    """A trace from an invocation, from what `trace_of` made (as a dictionary or as JSON text), or from a history.

    Raises:
        ConfigurationError: it is none of these; the message says which field is wrong.
    """
    if isinstance(history, ToolInvocation):
        return _trace(history)
    if not isinstance(history, Mapping | str | bytes):
        entries = tuple(history)
        if not all(isinstance(entry, HistoryEntry) for entry in entries):
            raise ConfigurationError("a history is made of HistoryEntry; give an invocation, its history or a trace")
        begin = entries[0].at if entries else 0.0
        return Trace(tuple(_step(entry, begin) for entry in entries))
    adapter = _adapter()
    try:
        return adapter.validate_python(history) if isinstance(history, Mapping) else adapter.validate_json(history)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'the trace'}: {fault['msg']}" for fault in error.errors()
        )
        raise ConfigurationError(f"this is no trace of an invocation ({faults}); make one with trace_of()") from None


def trace_of(invocation: ToolInvocation, *, lifecycle: str = "invocation") -> dict[str, Any]:
    """What an invocation did, as strict JSON; `invocation_diagram` draws it, on another machine too.

    Neither arguments nor results are in it.

    Args:
        invocation: ended or still under way.
        lifecycle: the name of the lifecycle that it runs through.

    Returns:
        `steps`: source, trigger, guard, dest, at (seconds after the beginning); `attempts`: number, started_at,
        ended_at, code, delay (seconds); `lifecycle`, `tool`, `id`, `uid`.
    """
    trace: Any = to_jsonable(asdict(_trace(invocation, lifecycle))).value
    return dict(trace)


def check_trace(trace: Trace, lifecycle: Lifecycle) -> None:
    """Raise a `ConfigurationError` if a lifecycle cannot have made these steps."""
    moves = {(row.source, row.trigger, row.guard, row.dest) for row in lifecycle.moves}
    state = lifecycle.initial
    for number, step in enumerate(trace.steps, start=1):
        row = Row(step.source, step.trigger, step.dest, step.guard)
        if (step.source, step.trigger, step.guard, step.dest) not in moves:
            raise ConfigurationError(
                f"step {number} of the trace, {row}, is no move of the lifecycle {lifecycle.name!r}; "
                + (
                    f"name the lifecycle {trace.lifecycle!r}"
                    if trace.lifecycle
                    else "name the lifecycle it ran through"
                )
            )
        if step.source != state:
            raise ConfigurationError(f"step {number} of the trace, {row}, begins elsewhere than in {state}")
        state = step.dest


def _trace(invocation: ToolInvocation, lifecycle: str = "") -> Trace:
    begin = invocation.started_at
    return Trace(
        steps=tuple(_step(entry, begin) for entry in invocation.history),
        attempts=tuple(
            Try(
                number=attempt.number,
                started_at=_after(begin, attempt.started_at),
                ended_at=None if attempt.ended_at is None else _after(begin, attempt.ended_at),
                code=attempt.code,
                delay=attempt.delay,
            )
            for attempt in invocation.attempts
        ),
        lifecycle=lifecycle,
        tool=invocation.tool_name,
        id=invocation.id,
        uid=invocation.uid,
    )


def _step(entry: HistoryEntry, begin: float) -> Step:
    return Step(entry.source, entry.trigger, entry.guard, entry.dest, _after(begin, entry.at))


def _after(begin: float, at: float) -> float:
    return round(at - begin, 6)  # microseconds; the rest is noise of the subtraction


@cache
def _adapter() -> TypeAdapter[Trace]:
    return TypeAdapter(Trace)
