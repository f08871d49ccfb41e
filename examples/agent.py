"""An agent: a model uses tools until it has an answer, seen while it happens. A script plays the model here."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fsm_engine import Agent, FinalAnswerEvent, RunFailedError, ThinkingEvent, ToolEngine, ToolResultEvent, tool

# With a real one: from openai import AsyncOpenAI; model = OpenAIModel(AsyncOpenAI(), "gpt-4o")


@tool(read_only=True)
async def stock(sku: str) -> dict[str, int]:
    """How many pieces of an article there are."""
    return {"pieces": {"LAMP-1": 3}.get(sku, 0)}


async def model(messages: list[Any], tools: list[Any]) -> AsyncIterator[Any]:
    """Say something, ask for one tool, and answer with what came of it."""
    last = messages[-1]
    if last["role"] == "tool":
        yield {"choices": [{"delta": {"content": f"There are {json.loads(last['content'])['pieces']}."}}]}
        yield {"choices": [{"delta": {}, "finish_reason": "stop"}]}
        return
    yield {"choices": [{"delta": {"content": "Let me look."}}]}
    function = {"name": "stock", "arguments": '{"sku": "LAMP-1"}'}
    yield {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c1", "function": function}]}}]}
    yield {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}


async def main() -> None:
    async with ToolEngine([stock]) as engine:
        agent = Agent(engine, model, system="You run a shop.", max_turns=5, max_seconds=30)
        run = agent.run("How many lamps are there?")
        async for event in run:
            if isinstance(event, ThinkingEvent) and not event.piece:
                print(f"says: {event.content}")
            elif isinstance(event, ToolResultEvent):
                print(f"is told: {event.result.text}")
            elif isinstance(event, FinalAnswerEvent):
                print(f"answers: {event.content}")
        # The conversation goes on where it ended.
        again = await agent.run([*run.messages, {"role": "user", "content": "Look again."}])
        print(f"{len(again.messages)} messages, the last: {again.answer}")
        try:
            await Agent(engine, model, max_turns=1).run("How many lamps are there?")
        except RunFailedError as error:
            print(error)


asyncio.run(main())
