"""What an engine and an invocation are asked for by name."""

from __future__ import annotations

import pytest

from fsm_engine import BreakerPolicy, ToolEngine, tool


@tool(breaker=BreakerPolicy())
async def search(query: str) -> str:
    return query


async def test_a_circuit_is_found_by_the_name_of_its_tool_where_that_leaves_no_doubt() -> None:
    async with ToolEngine([search]) as engine:
        await engine.invoke("search", {"query": "x"})
        used = dict(engine.circuits)
        [scope] = used
        assert engine.circuits["search"] is used[scope] is engine.circuits[scope]
        with pytest.raises(KeyError, match=f"no circuit is called 'find'; there are: {scope}"):
            engine.circuits["find"]
        assert "find" not in engine.circuits
    async with ToolEngine([]) as engine:
        with pytest.raises(KeyError, match="no tool has a breaker"):
            engine.circuits["search"]


async def test_an_invocation_has_an_outcome_once_it_has_ended() -> None:
    async with ToolEngine([search]) as engine:
        invocation = engine.start({"name": "search", "arguments": {"query": "x"}})
        if not invocation.is_final:
            with pytest.raises(RuntimeError, match="search has not ended"):
                _ = invocation.outcome
        await invocation
        assert invocation.outcome is invocation.response
