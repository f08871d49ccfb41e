"""What a watcher of tool calls is told, as typed events.

Every event has a number that grows by one within its run (`seq`), a wall time for display (`at`, seconds since the
epoch) and, if it speaks of a call, the model's `id` and the engine's `uid`. `to_dict` gives the form on the wire.
A call has exactly one of `ToolResultEvent` and `ToolErrorEvent`, and nothing after it.

The model *writing* a call is a `tool_call`; the tool *running* is a `tool_execution`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import asdict

from .response import ToolResponse


# Five are made for each call that is watched; a Struct is made in a quarter of the time that a dataclass takes.
class Event(Struct):
    """What all events share. An event is a value: only the run that numbers it sets anything.

    Attributes:
        seq: the number within the run, from 1.
        at: seconds since the epoch, for display only.
    """

    type: ClassVar[str] = "event"

    seq: int
    at: float

    def to_dict(self) -> dict[str, Any]:
        """The event as a strict-JSON object; what is `None` is left out."""
        return {"type": self.type} | {name: value for name, value in asdict(self).items() if value is not None}


class ToolEvent(Event):
    """What all events of a tool call share.

    Attributes:
        id: the model's id of the call, or one that was made where it gave none.
        uid: the engine's own, unique for ever.
    """

    id: str
    uid: str


class ToolCallEvent(ToolEvent):
    """The model asks for a tool. Arguments that the tool marks as sensitive are masked."""

    type: ClassVar[str] = "tool_call"

    name: str
    arguments: Mapping[str, Any]


class ToolExecutionEvent(ToolEvent):
    """Something happens to the call while it is under way.

    Attributes:
        status: the state that the call is in.
        attempt: which attempt, from 1; 0 before the first. A higher one voids the chunks of the lower.
        progress: between 0 and 1, or in the tool's own units.
        message: the tool's own words for its progress.
        delay: seconds until the next attempt, while retrying.
        chunk: a piece of the tool's output, a strict-JSON value.
        arguments: what a person is asked to agree to, while awaiting approval.
    """

    type: ClassVar[str] = "tool_execution"

    status: str
    attempt: int = 0
    progress: float | None = None
    message: str | None = None
    delay: float | None = None
    chunk: Any = None
    arguments: Mapping[str, Any] | None = None

    @property
    def is_state_change(self) -> bool:
        """The call has entered a state; neither progress nor a chunk."""
        return self.progress is None and self.message is None and self.chunk is None


class ToolFallbackEvent(ToolEvent):
    """Something else answers in the tool's place, for this reason (`circuit_breaker_open`, say)."""

    type: ClassVar[str] = "tool_fallback"

    reason: str
    tool_name: str


class ToolResultEvent(ToolEvent):
    """The call has a result, whole (`success`) or with a discount (`partial`)."""

    type: ClassVar[str] = "tool_result"

    result: ToolResponse

    @property
    def status(self) -> str:
        """`success` or `partial`."""
        return self.result.status

    def to_dict(self) -> dict[str, Any]:
        """The event as a strict-JSON object."""
        wire = Event.to_dict(self)
        wire["result"] = self.result.to_dict()
        wire["status"] = str(self.result.status)
        return wire


class ToolErrorEvent(ToolEvent):
    """The call has failed, was denied or was cancelled."""

    type: ClassVar[str] = "tool_error"

    tool_name: str
    result: ToolResponse

    def to_dict(self) -> dict[str, Any]:
        """The event as a strict-JSON object; `error` is the `error_info` of the response."""
        wire = Event.to_dict(self)
        wire.pop("result")
        wire["error"] = self.result.to_dict()["error_info"]
        return wire


class GapEvent(Event):
    """The reader was too slow, and this many events (progress or chunks, nothing else) were left out."""

    type: ClassVar[str] = "gap"

    missed: int
