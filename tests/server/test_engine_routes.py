"""What the server tells of the engine: tools, health, circuits, lifecycles, and the description of all its routes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fsm_engine import INVOCATION, ToolEngine, VirtualClock, tool
from fsm_engine.breaker import BreakerPolicy
from fsm_engine.diagram import render, to_mermaid
from fsm_engine.server import create_app

from .support import client_of, read_all, says


@tool(read_only=True, tags=("shop",), timeout=3.0, health_check={"number": 1})
async def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


@tool(destructive=True, needs_approval=lambda arguments: arguments["amount"] > 100)
async def pay(amount: float) -> None:
    """Pay money."""


async def test_tools_are_told_with_what_a_person_wants_to_know() -> None:
    async with client_of(create_app(ToolEngine([double, pay]), says("Hello."))) as client:
        first, second = (await client.get("/tools")).json()["tools"]
    assert first == {
        "name": "double",
        "description": "Twice a number.",
        "version": "1",
        "parameters": {
            "type": "object",
            "properties": {"number": {"type": "integer"}},
            "required": ["number"],
            "additionalProperties": False,
        },
        "read_only": True,
        "destructive": False,
        "idempotent": False,
        "needs_approval": "never",
        "timeout": 3.0,
        "tags": ["shop"],
    }
    assert (second["destructive"], second["needs_approval"]) == (True, "sometimes")


async def test_health_asks_the_tools_probes_and_an_answer_stands_for_a_while() -> None:
    clock = VirtualClock()
    asked = 0

    def probe() -> bool:
        nonlocal asked
        asked += 1
        return asked != 2

    @tool(health_check=probe)
    async def fragile() -> None:
        """May fail."""

    async with client_of(create_app(ToolEngine([double, fragile], clock=clock), says("Hello."))) as client:
        first = (await client.get("/health")).json()
        clock.advance(4.9)
        assert (await client.get("/health")).json() == first
        assert asked == 1
        clock.advance(0.1)
        second = (await client.get("/health")).json()
    assert (first["status"], second["status"]) == ("healthy", "degraded")
    assert [each["status"] for each in second["tools"]] == ["healthy", "failing"]
    assert (first["runs"], first["readers"]) == (0, 0)


async def test_circuits_are_told_with_what_they_have_counted() -> None:
    @tool(read_only=True, breaker=BreakerPolicy.consecutive(2, wait=60.0))
    async def broken() -> None:
        raise ConnectionError("refused")

    model = says([("broken", {})], [("broken", {})], "It is broken.")
    async with client_of(create_app(ToolEngine([double, broken]), model)) as client:
        before = (await client.get("/circuits")).json()["circuits"]
        await read_all(client)
        [after] = (await client.get("/circuits")).json()["circuits"]
    assert [(each["state"], each["failure_rate"], each["retry_after"]) for each in before] == [("CLOSED", None, None)]
    assert (after["scope"], after["state"], after["failed"], after["failure_rate"]) == ("broken@1", "OPEN", 2, 100.0)
    assert 59.0 < after["retry_after"] <= 60.0


async def test_lifecycles_are_told_as_data_as_mermaid_and_as_svg(monkeypatch: pytest.MonkeyPatch) -> None:
    async with client_of(create_app(ToolEngine([]), says("Hello."))) as client:
        invocation, circuit = (await client.get("/lifecycles")).json()["lifecycles"]
        assert (invocation["name"], invocation["initial"], circuit["name"]) == ("invocation", "PENDING", "circuit")
        assert [each["name"] for each in invocation["states"]] == [each.name for each in INVOCATION.states]
        assert {"source": "*", "trigger": "cancel", "dest": "CANCELLED", "guard": None} in invocation["rows"]
        mermaid = await client.get("/lifecycles/invocation.mmd")
        assert (mermaid.text, mermaid.headers["content-type"]) == (
            to_mermaid(INVOCATION),
            "text/vnd.mermaid; charset=utf-8",
        )
        svg = await client.get("/lifecycles/circuit.svg")
        assert (svg.headers["content-type"], "</svg>" in svg.text) == ("image/svg+xml", True)
        assert (await client.get("/lifecycles/other.svg")).json()["detail"].endswith("there are: invocation, circuit")
        assert (await client.get("/lifecycles/circuit.gif")).status_code == 422


async def test_svg_needs_its_extra_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pygraphviz", None)
    assert not render.can_draw()
    async with client_of(create_app(ToolEngine([]), says("Hello."))) as client:
        response = await client.get("/lifecycles/circuit.svg")
    assert response.status_code == 501
    assert "diagrams" in response.json()["detail"]


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_description_is_complete() -> None:
    """Each operation has words, and each body and answer a schema; every reference leads somewhere."""
    described = json.loads(json.dumps(create_app(ToolEngine([]), says("Hello.")).openapi()))
    paths = described["paths"]
    assert sorted(paths) == [
        "/chat/stream",
        "/circuits",
        "/health",
        "/lifecycles",
        "/lifecycles/{name}.{form}",
        "/runs/{run_id}/calls/{uid}/approve",
        "/runs/{run_id}/calls/{uid}/cancel",
        "/runs/{run_id}/calls/{uid}/check",
        "/runs/{run_id}/calls/{uid}/deny",
        "/runs/{run_id}/cancel",
        "/runs/{run_id}/events",
        "/tools",
    ]
    for path, operations in paths.items():
        for method, operation in operations.items():
            assert operation["description"], path
            assert ("requestBody" in operation) == (method == "post"), path
            assert {"200", "401", "403"} <= set(operation["responses"]), path
            for code, answer in operation["responses"].items():
                assert answer["description"], (path, code)
                for content in answer.get("content", {}).values():
                    assert content["schema"], (path, code)
    for reference in references(described):
        found: Any = described
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
    assert "text/event-stream" in paths["/chat/stream"]["post"]["responses"]["200"]["content"]
    assert "X-Run-ID" in paths["/chat/stream"]["post"]["responses"]["200"]["headers"]
