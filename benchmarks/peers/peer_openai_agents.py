"""openai-agents: the function tool with the runner's helper that keeps its time limit, and without."""

import json
from typing import Annotated, Any

import _harness
from agents import function_tool
from agents.tool import invoke_function_tool
from agents.tool_context import ToolContext
from pydantic import Field


async def search(query: Annotated[str, Field(min_length=_harness.MIN_LENGTH)], limit: int = 10) -> dict[str, Any]:
    """Search the web."""
    return {"query": query, "limit": limit, "hits": 3}


def context(arguments: str) -> ToolContext[None]:
    return ToolContext(context=None, tool_name="search", tool_call_id="call_1", tool_arguments=arguments)


async def main() -> None:
    limited = function_tool(search, timeout=_harness.TIME_LIMIT)
    unlimited = function_tool(search)

    async def call_limited(arguments: str) -> str:
        answer = await invoke_function_tool(function_tool=limited, context=context(arguments), arguments=arguments)
        return json.dumps(answer)

    async def call_unlimited(arguments: str) -> str:
        return json.dumps(await unlimited.on_invoke_tool(context(arguments), arguments))

    await _harness.report(
        "openai-agents",
        [
            _harness.Variant("validation, time limit", call_limited),
            _harness.Variant("validation", call_unlimited),
        ],
    )


_harness.run(main)
