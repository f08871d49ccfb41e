"""A message of OpenAI's chat completions, put together from the pieces in which it is streamed.

However the same message is cut, the same calls come of it. Providers differ in how they cut; these are the rules:

- A call is told by its `index`; where there is none, by its id; where there is neither, it is the one written last.
- An id may come in pieces before anything else does. After that, another id opens another call, whatever the index.
- A name is appended to, unless it is only said again: what is held is a tool's name, and both together begin none.
- A call whose arguments have closed opens no more. A name, or a further `{`, then belongs to another call; anything
  else is late, counted and dropped.
- A call is complete as soon as the braces of its arguments close and its name is no mere beginning of a tool's name.
  One without arguments, or with something else than an object, is complete when the message is.
- A message that breaks off, or is cut off at a limit, completes nothing more.

The form is that of OpenAI's API reference, "Chat: streaming": https://platform.openai.com/docs/api-reference/chat-streaming.

>>> pieces = [{"index": 0, "id": "c1", "function": {"name": "add"}}, {"index": 0, "function": {"arguments": '{"a": 1}'}}]
>>> assembler = MessageAssembler(["add"])
>>> for piece in pieces:
...     happened = assembler.feed({"choices": [{"delta": {"tool_calls": [piece]}}]})
>>> happened[-1].call.to_call()
ToolCall(name='add', arguments='{"a": 1}', id='c1', version=None)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from ..calls import ToolCall
from ..jsonable import json_text, to_jsonable

__all__ = ["ArgumentsPiece", "CompleteCall", "Happening", "MessageAssembler", "StreamedCall", "TextPiece"]

CUT_OFF_REASONS = frozenset({"length", "content_filter"})
"""Values of `finish_reason` that say that the message is not whole."""

_TOKEN = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)


class StreamedCall:
    """A call that the model is writing.

    Attributes:
        id, name, arguments: what there is of them so far.
        index: its place in the message, if the provider says so.
        has_begun: something of the function was there, so the id is whole.
        is_complete: nothing is added any more.
    """

    __slots__ = (
        "_depth",
        "_in_string",
        "_is_escaped",
        "_is_object",
        "arguments",
        "has_begun",
        "id",
        "index",
        "is_complete",
        "name",
    )

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = self.name = self.arguments = ""
        self.has_begun = self.is_complete = False
        self._depth = 0
        self._in_string = self._is_escaped = False
        self._is_object: bool | None = None

    @property
    def is_closed(self) -> bool:
        """The arguments are an object whose braces have closed."""
        return self._is_object is True and self._depth == 0

    def to_call(self) -> ToolCall:
        """What the engine runs."""
        return ToolCall(self.name, self.arguments, self.id or None)

    def add_arguments(self, text: str) -> str:
        """Append what belongs to the arguments, and answer with the rest, which comes after their end."""
        end = 0 if self.is_closed else self._end_in(text)
        self.arguments += text[:end]
        return text[end:]

    def _end_in(self, text: str) -> int:
        """Where the outermost brace closes in the next piece of the arguments; its length: nowhere."""
        start = 1 if self._is_escaped and text else 0
        self._is_escaped = self._is_escaped and not text
        for token in _TOKEN.finditer(text, start):
            mark = token[0]
            if mark[0] == "\\":
                self._is_escaped = len(mark) == 1
            elif mark == '"':
                self._in_string = not self._in_string
                self._is_object = bool(self._is_object)
            elif not self._in_string:
                if self._is_object is None:
                    self._is_object = mark == "{"
                self._depth += 1 if mark in "{[" else -1
                if self.is_closed:
                    return token.end()
        return len(text)


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
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = frozenset(names)
        self._beginnings = {name[:end] for name in self._names for end in range(1, len(name))}
        self._calls: list[StreamedCall] = []
        self._last: StreamedCall | None = None
        self.content = self.reasoning = ""
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
            happened.extend(self._delta(_field(choice, "delta")))
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
        for call in ended:
            call.is_complete = True
        return [CompleteCall(call) for call in ended]

    @property
    def unfinished(self) -> list[StreamedCall]:
        """The calls that are not complete, and must not be run."""
        return [call for call in self.calls if not call.is_complete and call.name]

    # -- one delta -----------------------------------------------------------------------------------------------

    def _delta(self, delta: Any) -> Iterator[Happening]:
        for name, is_reasoning in _TEXT_FIELDS:
            if text := _text(delta, name):
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
        function, index = _field(written, "function"), _field(written, "index")
        call_id, name, arguments = _text(written, "id"), _text(function, "name"), _arguments(function)
        call = self._last = self._call_of(index if isinstance(index, int) else None, call_id, name, arguments)
        if call.is_complete:
            self.late += bool(arguments.strip())
            return
        if call_id != call.id:
            call.id += call_id
        call.has_begun |= function is not None
        if not (name == call.name and name in self._names and name + name not in self._names | self._beginnings):
            call.name += name
        rest = call.add_arguments(arguments)
        self.late += bool(rest.strip())
        if arguments:
            yield ArgumentsPiece(call)
        if call.is_closed and call.name and (call.name in self._names or call.name not in self._beginnings):
            call.is_complete = True
            yield CompleteCall(call)

    def _call_of(self, index: int | None, call_id: str, name: str, arguments: str) -> StreamedCall:
        held = self._held(index, call_id)
        if held is None or _opens_another(held, call_id, name, arguments):
            held = StreamedCall(index)
            self._calls.append(held)
        return held

    def _held(self, index: int | None, call_id: str) -> StreamedCall | None:
        """The call that a piece would belong to, if it opens no other."""
        for call in reversed(self._calls):
            if (index is not None and call.index == index) or (index is None and call_id and call.id == call_id):
                return call
        return None if index is not None else self._last


_TEXT_FIELDS = (("reasoning_content", True), ("reasoning", True), ("content", False), ("refusal", False))


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


def _field(owner: Any, name: str) -> Any:
    return owner.get(name) if isinstance(owner, Mapping) else None


def _text(owner: Any, name: str) -> str:
    value = _field(owner, name)
    return value if isinstance(value, str) else ""


def _list(owner: Any, name: str) -> list[Any]:
    value = _field(owner, name)
    return value if isinstance(value, list) else []
