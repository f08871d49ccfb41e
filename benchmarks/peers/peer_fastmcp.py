"""FastMCP: the tool object's own `run`, and the server's `call_tool`, which its documentation names for this."""

import json
from typing import Annotated, Any

import _harness
from fastmcp import FastMCP
from fastmcp.tools import Tool
from pydantic import Field


async def search(query: Annotated[str, Field(min_length=_harness.MIN_LENGTH)], limit: int = 10) -> dict[str, Any]:
    """Search the web."""
    return {"query": query, "limit": limit, "hits": 3}


async def main() -> None:
    server = FastMCP("peer")
    server.add_tool(Tool.from_function(search, timeout=_harness.TIME_LIMIT))
    limited = Tool.from_function(search, timeout=_harness.TIME_LIMIT)
    unlimited = Tool.from_function(search)

    async def call_server(arguments: str) -> object:
        return await server.call_tool("search", json.loads(arguments))

    async def call_limited(arguments: str) -> object:
        return await limited.run(json.loads(arguments))

    async def call_unlimited(arguments: str) -> object:
        return await unlimited.run(json.loads(arguments))

    await _harness.report(
        "fastmcp",
        [
            _harness.Variant("validation, time limit", call_limited),
            _harness.Variant("validation", call_unlimited),
            _harness.Variant("validation, time limit, through the server", call_server),
        ],
    )


_harness.run(main)
