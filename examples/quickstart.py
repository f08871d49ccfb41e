"""One tool, two calls: one that fits the tool's signature, one that does not."""

import asyncio

from fsm_engine import ToolEngine, tool


@tool(read_only=True, timeout=10)
async def weather(city: str, days: int = 1) -> dict[str, object]:
    """The forecast for a city."""
    return {"city": city, "days": days, "sky": "clear"}


async def main() -> None:
    async with ToolEngine([weather]) as engine:
        for arguments in ('{"city": "Oslo", "days": 2}', '{"city": "Oslo", "days": "two"}'):
            invocation = await engine.execute_tool_call({"id": "call_1", "name": "weather", "arguments": arguments})
            print(" > ".join(invocation.path))
            print(invocation.error.message if invocation.error else invocation.result)


asyncio.run(main())
