"""Every transition becomes an event for whoever watches."""

from __future__ import annotations

from ..events import ToolCallEvent, ToolErrorEvent, ToolExecutionEvent, ToolFallbackEvent, ToolResultEvent
from ..invocation import ToolInvocation
from ..lifecycle import Row
from ..states.invocation import ToolState


def publish_transition(invocation: ToolInvocation, row: Row, is_first: bool) -> None:
    """`tool_call` on leaving the initial state, then one event for the state that is entered.

    The last one is a `tool_result` or a `tool_error`; nothing of the call comes after it.
    """
    sink, spec = invocation.sink, invocation.spec
    assert sink is not None, "the caller has looked"
    call_id, uid, now = invocation.id, invocation.uid, invocation.clock.wall()
    if is_first:
        arguments = invocation.arguments or {}
        shown = arguments if spec is None else spec.shown(arguments)
        sink(ToolCallEvent(0, now, call_id, uid, invocation.tool_name, shown))
    if invocation.ended_at is None:
        _publish_state(invocation, row.dest, now)
        return
    response = invocation.response
    assert response is not None, "the response is completed before anybody is told of it"
    if response.error_info is None:
        sink(ToolResultEvent(0, now, call_id, uid, response))
    else:
        sink(ToolErrorEvent(0, now, call_id, uid, invocation.tool_name, response))


def _publish_state(invocation: ToolInvocation, state: str, now: float) -> None:
    sink, spec = invocation.sink, invocation.spec
    assert sink is not None, "the caller has looked"
    call_id, uid = invocation.id, invocation.uid
    if state == ToolState.FALLING_BACK:
        sink(ToolFallbackEvent(0, now, call_id, uid, invocation.fallback_reason, invocation.tool_name))
    delay = invocation.next_delay if state == ToolState.RETRYING else None
    arguments = None
    if state == ToolState.AWAITING_APPROVAL and spec is not None and invocation.arguments is not None:
        arguments = spec.shown(invocation.arguments)
    attempts = len(invocation.attempts)
    # The hook runs before the attempt is made that the state is for.
    number = attempts + 1 if state == ToolState.EXECUTING else attempts
    sink(ToolExecutionEvent(0, now, call_id, uid, state, number, None, None, delay, None, arguments))
