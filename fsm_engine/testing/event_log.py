"""The events of every invocation, kept for a test to look at."""

from __future__ import annotations

from collections import Counter

from ..events.types import Event, ToolEvent
from ..invocation.invocation import ToolInvocation


class EventLog:
    """A `publish` stage that keeps what it is given; `engine_factory` puts it into every engine.

    Attributes:
        events: all of them, in the order in which they happened.

    Example:
        >>> from fsm_engine import Stages, ToolEngine
        >>> log = EventLog()
        >>> engine = ToolEngine([], stages=Stages(publish=log))
    """

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Keep an event."""
        self.events.append(event)

    def __len__(self) -> int:
        return len(self.events)

    def of(self, invocation: ToolInvocation) -> list[Event]:
        """The events of one invocation."""
        return [event for event in self.events if isinstance(event, ToolEvent) and event.uid == invocation.uid]

    def types(self, invocation: ToolInvocation | None = None) -> list[str]:
        """What happened, by type alone: `["tool_call", "tool_execution", ...]`."""
        return [event.type for event in (self.events if invocation is None else self.of(invocation))]

    def counts(self) -> Counter[str]:
        """How many there are of each type."""
        return Counter(event.type for event in self.events)

    def clear(self) -> None:
        """Forget what happened so far."""
        self.events.clear()
