"""A message of OpenAI's chat completions, put together from the pieces in which it is streamed.

However the same message is cut, the same calls come of it. Providers differ in how they cut; these are the rules:

- A call is told by its `index` (`1`, `"1"` and `1.0` are one); where there is none, by its id; where there is neither,
  it is the only one that is open. In a stream without any index, calls are written one after the other.
- Where two calls are open and a piece names neither, nobody can tell whose it is: both are refused, none is run.
- An id may come in pieces before anything else does. After that, another id opens another call, whatever the index.
- A name is appended to, unless it is only said again: the same once more, and both together begin no tool's name.
- A call whose arguments have closed opens no more. A name, or a further `{`, then belongs to another call; anything
  else is late, counted and dropped.
- A call is complete as soon as the braces of its arguments close and its name is no mere beginning of a tool's name.
  One without arguments, or with something else than an object, is complete when the message is.
- A message that breaks off, or is cut off at a limit, completes nothing more.
- What nobody here knows is gathered and goes back with the message or call it came with; so does what the model has
  said to itself. A character that was cut in two is joined.

The form is that of OpenAI's API reference, "Chat: streaming": https://platform.openai.com/docs/api-reference/chat-streaming.

>>> pieces = [{"index": 0, "id": "c1", "function": {"name": "add"}}, {"index": 0, "function": {"arguments": '{"a": 1}'}}]
>>> assembler = MessageAssembler(["add"])
>>> for piece in pieces:
...     happened = assembler.feed({"choices": [{"delta": {"tool_calls": [piece]}}]})
>>> happened[-1].call.to_call()
ToolCall(name='add', arguments='{"a": 1}', id='c1', version=None, problem=None)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from ..jsonable.characters import CharacterJoiner
from ..jsonable.jsonable import to_jsonable
from ..jsonable.strict import json_text
from .extras import gather
from .streamed_call import StreamedCall

__all__ = ["ArgumentsPiece", "CompleteCall", "Happening", "MessageAssembler", "StreamedCall", "TextPiece"]

CUT_OFF_REASONS = frozenset({"length", "content_filter"})
"""Values of `finish_reason` that say that the message is not whole."""


class TextPiece(NamedTuple):
    """The model has said more; `is_reasoning`: not to the reader, but on its way."""

    text: str
    is_reasoning: bool


class ArgumentsPiece(NamedTuple):
    """The model has written more of a call's arguments."""

    call: StreamedCall


class CompleteCall(NamedTuple):
    """A call is whole and may be run."""

    call: StreamedCall


Happening = TextPiece | ArgumentsPiece | CompleteCall


class MessageAssembler:
    """Takes the chunks of one message in their order.

    Args:
        names: of the tools that there are; they tell whether a name is whole.

    Attributes:
        content: the text so far.
        reasoning: what the model has said to itself, where the provider shows it.
        finish_reason: why the model stopped; `None`: it has not, or the stream broke off.
        late: how many pieces came for a call that was complete, and were dropped.
        extra: what else the provider says with the message, and wants back with it.
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = frozenset(names)
        self._beginnings = {name[:end] for name in self._names for end in range(1, len(name))}
        self._calls: list[StreamedCall] = []
        self._last: StreamedCall | None = None
        self._is_in_order = True
        self._joiners = {name: CharacterJoiner() for name, _ in _TEXT_FIELDS}
        self.content = self.reasoning = ""
        self.extra: dict[str, Any] = {}
        self.finish_reason: str | None = None
        self.late = 0

    @property
    def calls(self) -> list[StreamedCall]:
        """All calls in the order of the message."""
        if any(call.index is None for call in self._calls):
            return list(self._calls)
        return sorted(self._calls, key=lambda call: call.index or 0)

    @property
    def is_cut_off(self) -> bool:
        """The message is not whole: it has no end, or one at a limit."""
        return self.finish_reason is None or self.finish_reason in CUT_OFF_REASONS

    def feed(self, chunk: Any) -> list[Happening]:
        """What the next chunk brings.

        Args:
            chunk: a dictionary or the SDK's object; one that holds nothing is no matter.
        """
        plain = chunk if isinstance(chunk, Mapping) else chunk.model_dump(warnings=False)
        happened: list[Happening] = []
        for choice in _list(plain, "choices"):
            if _field(choice, "index") not in (None, 0):
                continue  # another wording of the same answer
            happened.extend(self._delta(_field(choice, "delta") or _whole(_field(choice, "message"))))
            if finish_reason := _text(choice, "finish_reason"):
                self.finish_reason = finish_reason
        return happened

    def finish(self) -> list[CompleteCall]:
        """The stream has ended: the calls that are complete by that."""
        if self.is_cut_off:
            return []
        ended = [
            call for call in self.calls if not call.is_complete and (call.name or call.id or call.arguments.strip())
        ]
        if len(ended) > 1 and any(not call.name and call.arguments.strip() for call in ended):
            self._mark_unclear()  # arguments of which nobody knows whose they are
        for call in ended:
            call.complete()
        return [CompleteCall(call) for call in ended]

    @property
    def unfinished(self) -> list[StreamedCall]:
        """The calls that are not complete, and must not be run."""
        return [call for call in self.calls if not call.is_complete and call.name]

    def written(self, ids: Mapping[StreamedCall, str]) -> dict[str, Any]:
        """The whole message, with those of its calls that are answered.

        Args:
            ids: by which each of these calls is answered.
        """
        calls = [call.written(ids[call]) for call in self.calls if call in ids]
        # An empty list says nothing, and some servers refuse those that they do not know.
        extra = {name: value for name, value in self.extra.items() if value not in ([], {})}
        return {"content": self.content or None, **extra, "tool_calls": calls}

    # -- one delta -----------------------------------------------------------------------------------------------

    def _delta(self, delta: Any) -> Iterator[Happening]:
        if isinstance(delta, Mapping):
            gather(self.extra, delta, _READ_FIELDS)
        for name, is_reasoning in _TEXT_FIELDS:
            if text := self._joiners[name].add(_text(delta, name)):
                if is_reasoning:
                    self.reasoning += text
                else:
                    self.content += text
                yield TextPiece(text, is_reasoning)
        written = [*_list(delta, "tool_calls")]
        if legacy := _field(delta, "function_call"):
            written.append({"index": 0, "function": legacy})
        for each in written:
            yield from self._call_delta(each)

    def _call_delta(self, written: Any) -> Iterator[Happening]:
        function, index = _field(written, "function"), _index(written)
        call_id, name, arguments = _text(written, "id"), _text(function, "name"), _arguments(function)
        self._is_in_order &= _field(written, "index") is None
        call = self._call_of(index, call_id, name, arguments)
        if call is None:
            return
        self._is_in_order &= call is self._calls[-1]
        self._last = call
        if call.is_complete:
            self.late += bool(arguments.strip())
            return
        self._gather(call, written, function)
        if call_id != call.id:
            call.id += call_id
        call.has_begun |= function is not None
        if not self._is_said_again(call, name):
            call.name += name
        rest = call.add_arguments(arguments)
        self.late += bool(rest.strip())
        if arguments:
            yield ArgumentsPiece(call)
        is_named = bool(call.name) and (call.name in self._names or call.name not in self._beginnings)
        if call.is_closed and is_named and not call.is_unclear:
            call.complete()
            yield CompleteCall(call)

    def _gather(self, call: StreamedCall, written: Any, function: Any) -> None:
        if isinstance(written, Mapping):
            gather(call.extra, written, _CALL_FIELDS)
        if isinstance(function, Mapping):
            gather(call.function_extra, function, _FUNCTION_FIELDS)

    def _is_said_again(self, call: StreamedCall, name: str) -> bool:
        return name == call.name and not self._goes_on(call, name)

    def _goes_on(self, call: StreamedCall, name: str) -> bool:
        """What is held of the name and this make a tool's name, or its beginning."""
        return call.name + name in self._names or call.name + name in self._beginnings

    # -- whose piece it is ---------------------------------------------------------------------------------------

    def _call_of(self, index: int | None, call_id: str, name: str, arguments: str) -> StreamedCall | None:
        """The call that a piece belongs to, be it a new one; `None`: nobody can tell."""
        if self._contradicts(index, call_id):
            self._mark_unclear()
            return None
        held = self._named(index, call_id)
        is_named = held is not None
        if held is None and (index is None or not (call_id or name)):
            held = self._last if index is None else self._only_without_index()
        if held is None or _opens_another(held, call_id, name, arguments) or self._begins(is_named, held, name):
            held = StreamedCall(index)
            self._calls.append(held)
        elif not is_named and not self._is_only_one(held):
            if call_id or name or arguments.strip():
                self._mark_unclear()
            return None
        elif index is not None and held.index is None:
            held.index = index
        return held

    def _named(self, index: int | None, call_id: str) -> StreamedCall | None:
        """The call that index and id speak of."""
        for call in reversed(self._calls):
            is_same_id = bool(call_id) and call.id == call_id
            if is_same_id and (index is None or call.index is None or call.index == index):
                return call
        by_index = [call for call in self._calls if index is not None and call.index == index]
        return by_index[-1] if by_index else None

    def _contradicts(self, index: int | None, call_id: str) -> bool:
        """Index and id speak of two calls."""
        if index is None or not call_id:
            return False
        ids = {call.id for call in self._calls if call.index == index and call.has_begun}
        return bool(ids) and call_id not in ids and any(call.id == call_id for call in self._calls)

    def _only_without_index(self) -> StreamedCall | None:
        """The open call that was begun without an index and now goes on with one; the last, if there are several."""
        return next((call for call in reversed(self._calls) if call.index is None and not call.is_complete), None)

    def _begins(self, is_named: bool, held: StreamedCall, name: str) -> bool:
        """A name that comes after arguments, from nowhere, and does not go on with the one that is held."""
        return bool(not is_named and name and held.arguments and name != held.name and not self._goes_on(held, name))

    def _is_only_one(self, held: StreamedCall) -> bool:
        """A piece that says nothing of whose it is can only be this call's."""
        others = [call for call in self._calls if call is not held and not call.is_complete]
        return not others or (self._is_in_order and not any(call.is_in_the_middle for call in others))

    def _mark_unclear(self) -> None:
        for call in self._calls:
            call.is_unclear |= not call.is_complete


_TEXT_FIELDS = (("reasoning_content", True), ("reasoning", True), ("content", False), ("refusal", False))
_READ_FIELDS = frozenset({"role", "content", "refusal", "tool_calls", "function_call"})
_CALL_FIELDS = frozenset({"index", "id", "function"})
_FUNCTION_FIELDS = frozenset({"name", "arguments"})


def _opens_another(held: StreamedCall, call_id: str, name: str, arguments: str) -> bool:
    if call_id and held.id and call_id != held.id and held.has_begun:
        return True
    if not held.is_complete or not name:
        return False
    return name != held.name or arguments.lstrip().startswith("{") or bool(call_id and not held.id)


def _arguments(function: Any) -> str:
    """The piece of JSON text; some providers send the object itself."""
    value = _field(function, "arguments")
    if isinstance(value, str):
        return value
    return json_text(to_jsonable(value).value) if isinstance(value, Mapping) else ""


def _index(written: Any) -> int | None:
    """The place of a call in its message, as a number, a text of one, or a float of one."""
    value = _field(written, "index")
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _whole(message: Any) -> Any:
    """A message that comes in one piece, as a delta."""
    if not isinstance(message, Mapping):
        return message
    calls = [
        {**call, "index": place} for place, call in enumerate(_list(message, "tool_calls")) if isinstance(call, Mapping)
    ]
    return {**message, "tool_calls": calls, "function_call": None if calls else _field(message, "function_call")}


def _field(owner: Any, name: str) -> Any:
    return owner.get(name) if isinstance(owner, Mapping) else None


def _text(owner: Any, name: str) -> str:
    value = _field(owner, name)
    return value if isinstance(value, str) else ""


def _list(owner: Any, name: str) -> list[Any]:
    value = _field(owner, name)
    return value if isinstance(value, list) else []
