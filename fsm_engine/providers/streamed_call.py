"""One call of a message that is being written."""

from __future__ import annotations

import re
from typing import Any

from ..jsonable.characters import CharacterJoiner, whole_characters
from ..tools.call import ToolCall

__all__ = ["StreamedCall"]

_TOKEN = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)

_UNCLEAR = (
    "Pieces of this call and of another came without saying which of them they belong to. Nothing was run; ask again, "
    "with one call at a time."
)


class StreamedCall:
    """A call that the model is writing.

    Attributes:
        id, name, arguments: what there is of them so far.
        index: its place in the message, if the provider says so.
        has_begun: something of the function was there, so the id is whole.
        is_complete: nothing is added any more.
        is_unclear: a piece came that may have been this call's or another's, so what is here must not be run.
        extra, function_extra: what the provider says beside these, of the call and of its function.
    """

    __slots__ = (
        "_depth",
        "_in_string",
        "_is_escaped",
        "_is_object",
        "_joiner",
        "arguments",
        "extra",
        "function_extra",
        "has_begun",
        "id",
        "index",
        "is_complete",
        "is_unclear",
        "name",
    )

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = self.name = self.arguments = ""
        self.has_begun = self.is_complete = self.is_unclear = False
        self.extra: dict[str, Any] = {}
        self.function_extra: dict[str, Any] = {}
        self._joiner = CharacterJoiner()
        self._depth = 0
        self._in_string = self._is_escaped = False
        self._is_object: bool | None = None

    @property
    def is_closed(self) -> bool:
        """The arguments are an object whose braces have closed."""
        return self._is_object is True and self._depth == 0

    @property
    def is_in_the_middle(self) -> bool:
        """The arguments have begun with something that has not closed."""
        return self._depth > 0 or self._in_string

    def to_call(self) -> ToolCall:
        """What the engine runs, or refuses if it is not clear what is meant."""
        call_id = whole_characters(self.id) or None
        return ToolCall(
            whole_characters(self.name), self.arguments, call_id, None, _UNCLEAR if self.is_unclear else None
        )

    def written(self, call_id: str) -> dict[str, Any]:
        """The call as it stands in a message, under the id by which it is answered."""
        function = {**self.function_extra, "name": whole_characters(self.name), "arguments": self.arguments}
        return {"type": "function", **self.extra, "id": call_id, "function": function}

    def add_arguments(self, text: str) -> str:
        """Append what belongs to the arguments, and answer with the rest, which comes after their end."""
        text = self._joiner.add(text)
        end = 0 if self.is_closed else self._end_in(text)
        self.arguments += text[:end]
        return text[end:]

    def complete(self) -> None:
        """Nothing more comes."""
        self.arguments += self._joiner.rest()
        self.is_complete = True

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
