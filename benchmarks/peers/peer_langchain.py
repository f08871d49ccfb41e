"""langchain-core: a structured tool's `ainvoke`; it has no time limit."""

import json
from typing import Annotated, Any

import _harness
from langchain_core.tools import tool
from pydantic import Field


@tool
async def search(query: Annotated[str, Field(min_length=_harness.MIN_LENGTH)], limit: int = 10) -> dict[str, Any]:
    """Search the web."""
    return {"query": query, "limit": limit, "hits": 3}


async def call(arguments: str) -> str:
    return json.dumps(await search.ainvoke(json.loads(arguments)))


async def main() -> None:
    await _harness.report("langchain-core", [_harness.Variant("validation", call)])


_harness.run(main)
