"""A state of one's own between failure and `FAILED`: what a booking may have done is undone first."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from fsm_engine import INVOCATION, Effect, Firing, Row, State, ToolEngine, ToolInvocation, named, tool

booked: set[str] = set()


@tool
async def book_room(hotel: str) -> str:
    """Book a room for tonight."""
    booked.add(hotel)
    if hotel == "Grand":
        raise ConnectionError("the line went dead after the booking was sent")
    return f"A room in the {hotel} is yours."


async def cancel_room(hotel: str) -> None:
    """Undo a booking that may have been made."""
    booked.discard(hotel)


UNDO: dict[str, Callable[..., Awaitable[None]]] = {"book_room": cancel_room}


def can_be_undone(event: Firing) -> bool:
    """The failed attempt may have taken effect, and there is a way to undo that."""
    error = event.model.error
    return event.model.tool_name in UNDO and error is not None and error.effect != Effect.NONE


# The guarded row is tried after those for retry and fallback, and before the unguarded one to FAILED.
COMPENSATING = INVOCATION.extended(
    name="compensating",
    states=[
        State(
            "COMPENSATING",
            on_enter=("tell_operator",),
            activity="undo what the attempts may have done",
            doc="It failed, and may have done something all the same.",
        )
    ],
    rows=[
        Row("EXECUTING", "fail", "COMPENSATING", guard="can_be_undone", doc="It may have taken effect."),
        Row("COMPENSATING", "finish", "FAILED", doc="It is undone, or that failed as well; the first error stands."),
    ],
    guards={"can_be_undone": can_be_undone},
)


def tell_operator(event: Firing) -> None:
    """Watches the state being entered."""
    print(f"undoing {event.model.tool_name} after {event.model.error.code}")


async def compensate(invocation: ToolInvocation) -> str:
    """What is done in COMPENSATING; answers the next trigger. Whatever it raised would hide the first error."""
    response, arguments = invocation.response, invocation.arguments
    assert response is not None
    assert response.error_info is not None
    try:
        await UNDO[invocation.tool_name](**(arguments or {}))
    except Exception as error:  # noqa: BLE001 # whatever it is, the call has failed already
        print(f"not undone: {type(error).__name__}")
    else:
        invocation.response = replace(response, error_info=replace(response.error_info, effect=Effect.NONE))
    return "finish"


def build_engine(*tools: Any, **settings: Any) -> ToolEngine:
    """An engine whose failed calls are undone."""
    return ToolEngine(
        tools,
        lifecycle=COMPENSATING,
        activities={"COMPENSATING": compensate},
        hooks=[named("tell_operator", tell_operator)],
        **settings,
    )


async def main() -> None:
    async with build_engine(book_room) as engine:
        calls = [{"name": "book_room", "arguments": {"hotel": hotel}} for hotel in ("Astoria", "Grand")]
        for invocation in await engine.execute_tool_calls(calls):
            print(" > ".join(invocation.path))
            assert invocation.response is not None
            print(invocation.response.for_model())
            print("effect:", None if invocation.error is None else invocation.error.effect)
    print("booked:", sorted(booked))


if __name__ == "__main__":
    asyncio.run(main())
