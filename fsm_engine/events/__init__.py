"""What a watcher of tool calls is told, as typed events.

Every event has a number that grows by one within its run (`seq`), a wall time for display (`at`, seconds since the
epoch) and, if it speaks of a call, the model's `id` and the engine's `uid`. `to_dict` gives the form on the wire.
A call has exactly one of `ToolResultEvent` and `ToolErrorEvent`, and nothing after it.

The model *writing* the arguments is `tool_arguments`; the call that it has asked for is `tool_call`; the tool *running*
is `tool_execution`. `event_schema.json` beside this module describes every event on the wire.
"""

from .types import (
    Event,
    FinalAnswerEvent,
    GapEvent,
    RunEndedEvent,
    ThinkingEvent,
    ToolArgumentsEvent,
    ToolCallEvent,
    ToolErrorEvent,
    ToolEvent,
    ToolExecutionEvent,
    ToolFallbackEvent,
    ToolResultEvent,
)

__all__ = [
    "Event",
    "FinalAnswerEvent",
    "GapEvent",
    "RunEndedEvent",
    "ThinkingEvent",
    "ToolArgumentsEvent",
    "ToolCallEvent",
    "ToolErrorEvent",
    "ToolEvent",
    "ToolExecutionEvent",
    "ToolFallbackEvent",
    "ToolResultEvent",
]
