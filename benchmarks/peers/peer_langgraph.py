"""langgraph: a graph of one tool node, which cannot run outside a graph; the time limit is the node's."""

import json
from typing import Annotated, Any

import _harness
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import Field


@tool
async def search(query: Annotated[str, Field(min_length=_harness.MIN_LENGTH)], limit: int = 10) -> dict[str, Any]:
    """Search the web."""
    return {"query": query, "limit": limit, "hits": 3}


def variant(name: str, time_limit: float | None) -> _harness.Variant:
    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([search]), timeout=time_limit)
    builder.add_edge(START, "tools")
    graph = builder.compile()

    async def call(arguments: str) -> object:
        request = {"name": "search", "args": json.loads(arguments), "id": "call_1", "type": "tool_call"}
        state = await graph.ainvoke({"messages": [AIMessage("", tool_calls=[request])]})
        return state["messages"][-1].content

    return _harness.Variant(name, call)


async def main() -> None:
    await _harness.report(
        "langgraph",
        [variant("validation, time limit", _harness.TIME_LIMIT), variant("validation", None)],
    )


_harness.run(main)
