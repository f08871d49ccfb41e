"""Every transition is kept, the last one completes the response, and then those who watch are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ..invocation.invocation import ToolInvocation
from ..invocation.outcomes import response_of_end
from ..jsonable.jsonable import to_jsonable
from ..machine.lifecycle import Outcome
from ..machine.machine import Firing
from ..response.tool_response import complete_later, completed
from .logging import Levels, log_end, log_transition
from .publishing import publish_transition


def record_transitions(outcomes: Mapping[str, Outcome | None], initial: str, logger: Any) -> Callable[[Firing], None]:
    """The hook `record`: history first, so that all who are told see it; then the event stream; then the log.

    One hook for the three, since each of them is asked at every transition and most transitions are watched by nobody.

    Args:
        outcomes: the kind of response that each final state takes.
    """
    levels = Levels(logger)
    is_debug = levels.is_debug

    def record(event: Firing) -> None:
        invocation: ToolInvocation = event.model
        row = event.transition.row
        now = invocation.clock.monotonic()
        invocation.moves.append((row, now))
        is_final = row.dest in outcomes
        if is_final:
            invocation.ended_at = now
            _complete(invocation, outcomes[row.dest], now)
        sink = invocation.sink
        if sink is not None:
            publish_transition(invocation, sink, row, row.source == initial)
        if is_debug is not None and is_debug():
            log_transition(logger, invocation, row)
        if is_final:
            log_end(logger, levels, invocation)

    return record


def _complete(invocation: ToolInvocation, outcome: Outcome | None, now: float) -> None:
    response = response_of_end(invocation, outcome)
    call, spec = invocation.call, invocation.spec
    arguments: Mapping[str, Any] | None = invocation.arguments
    if spec is not None and spec.hides and arguments is not None:
        arguments = spec.shown(arguments)
    about = (
        now - invocation.started_at,
        len(invocation.attempts),
        invocation.queue_seconds,
        invocation.tool_name,
        call.id or invocation.id,
        arguments,
        invocation.notes,
        None if spec is None else spec.version,
    )
    approval = invocation.approval
    if approval is None or approval.decision is None:
        # Most responses are read for their text alone, so the rest is put together by whoever asks for it.
        invocation.response = complete_later(response, _facts, about)
    else:  # what a person has decided is part of what the model reads
        stats, context = _facts(*about)
        invocation.response = completed(response, stats, context | {"approval": approval.told()})


def _facts(
    seconds: float,
    attempts: int,
    queue_seconds: float,
    tool: str,
    call_id: str,
    arguments: Any,
    notes: tuple[str, ...],
    version: str | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The stats and the context of a response."""
    stats: dict[str, Any] = {"time_ms": round(seconds * 1000, 3), "attempts": attempts}
    if queue_seconds:
        stats["queue_ms"] = round(queue_seconds * 1000, 3)
    context: dict[str, Any] = {"tool": tool, "arguments": arguments, "call_id": call_id}
    if version is not None:
        context["version"] = version
    if notes:
        context["notes"] = list(notes)
    return stats, cast("dict[str, Any]", to_jsonable(context).value)
