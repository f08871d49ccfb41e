"""Every transition is kept, and the last one adds what the engine knows of the call to its response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ToolErrorCode
from ..invocation import ToolInvocation
from ..machine import Firing
from ..response import ToolResponse, completed


def record_transitions(final_states: frozenset[str]) -> Callable[[Firing], None]:
    """The hook `record`: first of all, so that every other hook sees an up-to-date history and a complete response."""

    def record(event: Firing) -> None:
        invocation: ToolInvocation = event.model
        now = invocation.clock.monotonic()
        row = event.transition.row
        invocation.moves.append((row, now))
        if row.dest in final_states:
            invocation.ended_at = now
            _complete(invocation, now)

    return record


def _complete(invocation: ToolInvocation, now: float) -> None:
    response = invocation.response
    if response is None:  # a lifecycle of the user's that ends without anybody having answered
        response = ToolResponse.error(
            ToolErrorCode.INTERNAL_ERROR,
            f"{invocation.tool_name} ended as {invocation.state} without a response.",
            reason="no_response",
        )
    stats: dict[str, Any] = {
        "time_ms": round((now - invocation.started_at) * 1000, 3),
        "attempts": len(invocation.attempts),
    }
    if invocation.queue_seconds:
        stats["queue_ms"] = round(invocation.queue_seconds * 1000, 3)
    arguments = invocation.arguments
    spec = invocation.spec
    context: dict[str, Any] = {
        "tool": invocation.tool_name,
        "arguments": arguments if arguments is None or spec is None else spec.shown(arguments),
        "call_id": invocation.id,
    }
    if invocation.notes:
        context["notes"] = list(invocation.notes)
    invocation.response = completed(response, stats, context)
