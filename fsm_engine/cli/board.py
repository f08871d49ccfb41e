"""What is known of each call of a run, gathered from its events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..events.types import (
    Event,
    ToolCallEvent,
    ToolErrorEvent,
    ToolEvent,
    ToolExecutionEvent,
    ToolFallbackEvent,
    ToolResultEvent,
)
from ..jsonable.jsonable import to_jsonable
from ..jsonable.strict import JsonValue, json_text
from ..response.tool_response import ToolResponse, ToolStatus
from ..states.invocation import ToolState

LINE_LIMIT = 300
"""Characters of arguments or of a result that are shown; who wants all of it asks for JSON."""


@dataclass
class Card:
    """One call.

    Attributes:
        began, ended: seconds since the epoch; `ended` is `None` while it runs.
        steps: the states that it has entered, each with a remark (`attempt 2`, `0.40 s`).
        progress: between 0 and 1, if the tool says so.
        message: the tool's own words for its progress, or the newest piece of its output.
    """

    id: str
    tool: str
    arguments: str
    began: float
    steps: list[tuple[str, str]] = field(default_factory=lambda: [(ToolState.PENDING.value, "")])
    progress: float | None = None
    message: str = ""
    response: ToolResponse | None = None
    ended: float | None = None

    @property
    def state(self) -> str:
        """Where it is."""
        return self.steps[-1][0]

    @property
    def remark(self) -> str:
        """What there is to say of this state."""
        return self.steps[-1][1]

    @property
    def outcome(self) -> str:
        """The end of an ended call in one line: the text of a result, or code and message of an error."""
        response = self.response
        assert response is not None, "it has ended"
        info = response.error_info
        if info is not None:
            return one_line(f"{info.code}: {info.message}")
        text = response.text
        if response.data is not None and text == json_text(response.data):
            text = spaced(response.data)
        if response.status is not ToolStatus.PARTIAL:
            return one_line(text)
        fallback = response.context.get("fallback")
        age = fallback.get("age_s") if isinstance(fallback, dict) else None
        old = f", {duration(age)} old" if isinstance(age, float) else ""
        return one_line(f"({response.reason}{old}) {text}")


class Board:
    """The cards of a run, in the order in which the calls began."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Card] = {}
        self._reason = ""

    @property
    def cards(self) -> list[Card]:
        """All cards."""
        return list(self._by_uid.values())

    def take(self, event: Event) -> Card | None:
        """Note an event down; the card that it changed, if it changed one.

        The state `FALLING_BACK` is told twice, as a `tool_fallback` with its reason and as a state; the first only
        adds its reason to the second.
        """
        if isinstance(event, ToolCallEvent):
            card = Card(one_line(event.id), one_line(event.name), shown_arguments(event.arguments), event.at)
            self._by_uid[event.uid] = card
            return card
        if not isinstance(event, ToolEvent) or (found := self._by_uid.get(event.uid)) is None:
            return None
        if isinstance(event, ToolFallbackEvent):
            self._reason = event.reason
            return None
        if isinstance(event, ToolExecutionEvent):
            self._note_execution(found, event)
        elif isinstance(event, ToolResultEvent | ToolErrorEvent):
            found.response, found.ended = event.result, event.at
            found.steps.append((_final_state(event), ""))
        return found

    def _note_execution(self, card: Card, event: ToolExecutionEvent) -> None:
        if not event.is_state_change:
            card.progress = event.progress if event.progress is not None else card.progress
            said = event.message if event.chunk is None else str(event.chunk)
            card.message = one_line(said or card.message)
            return
        card.progress, card.message = None, ""
        remark = ""
        if event.status == ToolState.EXECUTING and event.attempt > 1:
            remark = f"attempt {event.attempt}"
        elif event.delay is not None:
            remark = f"in {duration(event.delay)}"
        elif event.status == ToolState.FALLING_BACK:
            remark = one_line(self._reason)
        card.steps.append((event.status, remark))


def _final_state(event: ToolResultEvent | ToolErrorEvent) -> str:
    info = event.result.error_info
    if info is None:
        return ToolState.COMPLETED.value
    return ToolState.CANCELLED.value if info.code == "CANCELLED" else ToolState.FAILED.value


def one_line(text: str) -> str:
    """Text of a model or a tool, fit for a terminal: one line, no control characters, not too long."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in " ".join(text[: 4 * LINE_LIMIT].split()))
    return shown if len(shown) <= LINE_LIMIT else shown[:LINE_LIMIT] + "…"


def shown_arguments(arguments: Mapping[str, Any]) -> str:
    """Arguments in one line."""
    return one_line(spaced(to_jsonable(arguments).value)) if arguments else ""


def spaced(value: JsonValue) -> str:
    """JSON text with spaces, at which a line can be broken."""
    return json.dumps(value, ensure_ascii=False)


def duration(seconds: float) -> str:
    """A span of time with a unit that suits it."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
