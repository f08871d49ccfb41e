"""Every transition becomes an event."""

from __future__ import annotations

from fsm_engine import Stages, ToolCall, ToolErrorEvent, ToolResultEvent, tool
from fsm_engine.invocation.substitute import FallbackPolicy

from ..support import Watch, virtual


@tool
async def add(a: int, secret: str = "") -> int:
    return a + 1


async def test_the_events_of_a_call_in_their_order_with_ids_and_masked_arguments() -> None:
    watch = Watch()
    invocation = await virtual(add, stages=Stages(publish=watch)).execute_tool_call(
        ToolCall("add", {"a": 1, "secret": "s"}, "c1")
    )
    assert [event.to_dict() | {"uid": 0, "at": 0} for event in watch.events[:-1]] == [
        {
            "type": "tool_call",
            "seq": 0,
            "at": 0,
            "id": "c1",
            "uid": 0,
            "name": "add",
            "arguments": {"a": 1, "secret": "***"},
        },
        *(
            {"type": "tool_execution", "seq": 0, "at": 0, "id": "c1", "uid": 0, "status": state, "attempt": attempt}
            for state, attempt in (("VALIDATING", 0), ("ADMITTING", 0), ("EXECUTING", 1))
        ),
    ]
    end = watch.events[-1]
    assert isinstance(end, ToolResultEvent)
    assert end.result is invocation.response
    assert end.to_dict()["status"] == "success"
    assert {event.uid for event in watch.events} == {invocation.uid}  # type: ignore[attr-defined]  # all speak of the call


async def test_a_call_of_an_unknown_tool_is_told_with_its_error() -> None:
    watch = Watch()
    await virtual(add, stages=Stages(publish=watch)).invoke("nope", {"a": 1})
    assert [event.type for event in watch.events] == ["tool_call", "tool_execution", "tool_error"]
    end = watch.events[-1]
    assert isinstance(end, ToolErrorEvent)
    assert end.to_dict()["error"]["code"] == "NOT_FOUND"
    assert "result" not in end.to_dict()


async def test_a_fallback_is_told_with_its_reason_before_the_result() -> None:
    @tool(fallback=FallbackPolicy(value=0, on_failure=True))
    async def stock() -> int:
        raise TimeoutError

    watch = Watch()
    await virtual(stock, stages=Stages(publish=watch)).invoke("stock")
    told = [event.to_dict() for event in watch.events[-3:]]
    assert [each["type"] for each in told] == ["tool_fallback", "tool_execution", "tool_result"]
    assert (told[0]["reason"], told[0]["tool_name"]) == ("timeout", "stock")
    assert told[2]["status"] == "partial"
