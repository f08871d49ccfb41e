"""pydantic-ai: the toolset's own validator and call, and the tool manager through which an agent runs them."""

import json
from typing import Annotated, Any

import _harness
from pydantic import Field
from pydantic_ai import FunctionToolset, RunContext, RunUsage, ToolCallPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager


async def search(query: Annotated[str, Field(min_length=_harness.MIN_LENGTH)], limit: int = 10) -> dict[str, Any]:
    """Search the web."""
    return {"query": query, "limit": limit, "hits": 3}


def context() -> RunContext[None]:
    return RunContext(deps=None, model=TestModel(), usage=RunUsage())


async def toolset_alone(name: str, time_limit: float | None) -> _harness.Variant:
    toolset = FunctionToolset[None]([search], timeout=time_limit)
    run_context = context()
    tool = (await toolset.get_tools(run_context))["search"]

    async def call(arguments: str) -> str:
        valid = tool.args_validator.validate_json(arguments)
        return json.dumps(await toolset.call_tool("search", valid, run_context, tool))

    return _harness.Variant(name, call)


async def through_manager(name: str, time_limit: float | None) -> _harness.Variant:
    toolset = FunctionToolset[None]([search], timeout=time_limit)
    manager = await ToolManager[None](toolset).for_run_step(context())

    async def call(arguments: str) -> str:
        return json.dumps(await manager.handle_call(ToolCallPart("search", arguments, "call_1")))

    return _harness.Variant(name, call)


async def main() -> None:
    await _harness.report(
        "pydantic-ai-slim",
        [
            await toolset_alone("validation, time limit", _harness.TIME_LIMIT),
            await toolset_alone("validation", None),
            await through_manager("validation, time limit, through the tool manager", _harness.TIME_LIMIT),
            await through_manager("validation, through the tool manager", None),
        ],
    )


_harness.run(main)
