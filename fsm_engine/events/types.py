"""The typed events, one class each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from msgspec import Struct
from msgspec.structs import asdict

from ..jsonable.jsonable import to_jsonable
from ..response.error_info import ErrorInfo
from ..response.tool_response import ToolResponse


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

    @property
    def is_lasting(self) -> bool:
        """It is worth an id on the wire and a place in a log; the others are progress and pieces of a whole."""
        return True

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

    def to_dict(self) -> dict[str, Any]:
        """The event as a strict-JSON object; what a caller has handed over in a dictionary need not be JSON."""
        wire = Event.to_dict(self)
        wire["arguments"] = to_jsonable(wire["arguments"]).value
        return wire


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
        arguments_json: the same as exact JSON text, with escapes for all characters that cannot be seen or that change
            how others are seen: what is to be shown to that person. A parser may round large numbers.
        approval: on leaving that state: `verdict`, `by` whom, `reason`, `at`, and after an edit the `arguments` and what
            was `changed` in them.
    """

    type: ClassVar[str] = "tool_execution"

    status: str
    attempt: int = 0
    progress: float | None = None
    message: str | None = None
    delay: float | None = None
    chunk: Any = None
    arguments: Mapping[str, Any] | None = None
    arguments_json: str | None = None
    approval: Mapping[str, Any] | None = None

    @property
    def is_state_change(self) -> bool:
        """The call has entered a state; neither progress nor a chunk."""
        return self.progress is None and self.message is None and self.chunk is None

    @property
    def is_lasting(self) -> bool:
        """Only a change of state is."""
        return self.is_state_change


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
    """The call has failed, was denied or was cancelled.

    Attributes:
        approval: what was decided, if the call ends by that: `verdict`, `by` whom, `reason`, `at`.
    """

    type: ClassVar[str] = "tool_error"

    tool_name: str
    result: ToolResponse
    approval: Mapping[str, Any] | None = None

    @property
    def error(self) -> ErrorInfo:
        """What went wrong, as the wire has it under this name; `result` is the whole response."""
        info = self.result.error_info
        assert info is not None, "the response of a failure says what has failed"
        return info

    def to_dict(self) -> dict[str, Any]:
        """The event as a strict-JSON object; `error` is the `error_info` of the response."""
        wire = Event.to_dict(self)
        wire.pop("result")
        wire["error"] = self.result.to_dict()["error_info"]
        return wire


class ToolArgumentsEvent(ToolEvent):
    """The model is writing the arguments of a call; nothing runs yet. The `uid` is the one that the call will have.

    Sent only for a known tool that hides none of its arguments: half a secret could not be recognised.

    Attributes:
        name: of the tool.
        delta: the next piece of the arguments' JSON text.
    """

    type: ClassVar[str] = "tool_arguments"

    name: str
    delta: str

    @property
    def is_lasting(self) -> bool:
        """The `tool_call` has all of it."""
        return False


class ThinkingEvent(Event):
    """What the model says on its way: its reasoning, and the text beside its calls.

    Attributes:
        content: a piece of it, or all that the model said in one message.
        piece: it is a piece, sent as the model writes; whether it belongs to the answer is not known yet. The whole
            follows before anything else begins: as one of these if it was reasoning, if a call follows or if the message
            breaks off, as `final_answer` else.
    """

    type: ClassVar[str] = "thinking"

    content: str
    piece: bool = False

    @property
    def is_lasting(self) -> bool:
        """Only the whole is."""
        return not self.piece


class FinalAnswerEvent(Event):
    """The model's last message, whole."""

    type: ClassVar[str] = "final_answer"

    content: str


class RunEndedEvent(Event):
    """The run is over. Always the last event, and there always is one.

    Attributes:
        reason: a `RunEnd`, or what whoever stopped the run gave as the reason.
        message: words for a person, where there is more to say.
    """

    type: ClassVar[str] = "run_ended"

    reason: str
    message: str | None = None


class GapEvent(Event):
    """This many events are missing here: none that matters if they were `coalesced`, any if they are `lost`.

    Attributes:
        seq: the number of the first that is missing; 0 where numbers begin anew.
        missed: how many; 0: not known.
        reason: `coalesced`: the reader was slow, and progress and pieces were left out. `lost`: the log no longer has
            them. `unknown_id`: no event has the number that the reader has last seen, so it gets all that there is.
    """

    type: ClassVar[str] = "gap"

    missed: int
    reason: Literal["coalesced", "lost", "unknown_id"] = "coalesced"

    @property
    def is_lasting(self) -> bool:
        """It is made for one reader, and stands in no log."""
        return False
