"""llama-index-core: a function tool's `acall`, and the `acall_tool` of its agents; no validation, no time limit."""

import json
from typing import Annotated, Any

import _harness
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.calling import acall_tool
from pydantic import Field


async def search(query: Annotated[str, Field(min_length=_harness.MIN_LENGTH)], limit: int = 10) -> dict[str, Any]:
    """Search the web."""
    return {"query": query, "limit": limit, "hits": 3}


async def main() -> None:
    tool = FunctionTool.from_defaults(async_fn=search)

    async def call(arguments: str) -> object:
        return await tool.acall(**json.loads(arguments))

    async def call_helper(arguments: str) -> object:
        return await acall_tool(tool, json.loads(arguments))

    await _harness.report(
        "llama-index-core",
        [
            _harness.Variant("no validation", call, validates=False),
            _harness.Variant("no validation, through acall_tool", call_helper, validates=False),
        ],
    )


_harness.run(main)
