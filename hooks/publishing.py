"""Every transition becomes an event for whoever watches."""

from __future__ import annotations

from ..events.types import ToolCallEvent, ToolErrorEvent, ToolExecutionEvent, ToolFallbackEvent, ToolResultEvent
from ..invocation.invocation import EventSink, ToolInvocation
from ..jsonable.visible import visible_json
from ..machine.lifecycle import Row
from ..states.invocation import ToolState


def publish_transition(invocation: ToolInvocation, sink: EventSink, row: Row, is_first: bool) -> None:
    """`tool_call` on leaving the initial state, then one event for the state that is entered.

    The last one is a `tool_result` or a `tool_error`; nothing of the call comes after it.
    """
    call_id, uid, now = invocation.call.id or invocation.id, invocation.uid, invocation.clock.wall()
    if is_first:
        arguments, spec = invocation.arguments or {}, invocation.spec
        shown = spec.shown(arguments) if spec is not None and spec.hides else arguments
        sink(ToolCallEvent(0, now, call_id, uid, invocation.tool_name, shown))
    approval = invocation.questions[-1].told() if row.source == _AWAITING and invocation.questions else None
    if invocation.ended_at is None:
        state = row.dest
        if state in _TELLING_STATES:
            _publish_more(invocation, sink, state, now)
        else:
            # The hook runs before the attempt is made that the state is for.
            number = len(invocation.attempts) + (state == _EXECUTING)
            sink(ToolExecutionEvent(0, now, call_id, uid, state, number, approval=approval))
        return
    response = invocation.response
    assert response is not None, "the response is completed before anybody is told of it"
    if response.error_info is None:
        sink(ToolResultEvent(0, now, call_id, uid, response))
    else:
        sink(ToolErrorEvent(0, now, call_id, uid, invocation.tool_name, response, approval))


# Looking a member up in its enum takes as long as making an event.
_EXECUTING = ToolState.EXECUTING.value
_AWAITING = ToolState.AWAITING_APPROVAL.value
# States that a reader is told more of than that they were entered.
_TELLING_STATES = frozenset({ToolState.AWAITING_APPROVAL, ToolState.RETRYING, ToolState.FALLING_BACK})


def _publish_more(invocation: ToolInvocation, sink: EventSink, state: str, now: float) -> None:
    call_id, uid, spec, approval = invocation.id, invocation.uid, invocation.spec, invocation.approval
    event = ToolExecutionEvent(0, now, call_id, uid, state, len(invocation.attempts))
    if state == ToolState.FALLING_BACK:
        sink(ToolFallbackEvent(0, now, call_id, uid, invocation.fallback_reason, invocation.tool_name))
    elif state == ToolState.RETRYING:
        event.delay = invocation.next_delay
    elif spec is not None and invocation.arguments is not None:
        event.arguments = spec.shown(invocation.arguments if approval is None else approval.arguments)
        event.arguments_json = visible_json(event.arguments)
    sink(event)
