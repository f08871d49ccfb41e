"""A person decides: one call is approved as it is, one with other arguments, one is denied."""

import asyncio

from fsm_engine import ToolEngine, ToolExecutionEvent, ToolState, tool


@tool(needs_approval=lambda arguments: arguments["amount"] >= 100, approval_timeout=60)
async def transfer(amount: float, recipient: str) -> str:
    """Send money."""
    return f"{amount:g} sent to {recipient}"


async def main() -> None:
    calls = [
        {"id": "small", "name": "transfer", "arguments": {"amount": 5, "recipient": "Ada"}},
        {"id": "fine", "name": "transfer", "arguments": {"amount": 200, "recipient": "Ben"}},
        {"id": "too_much", "name": "transfer", "arguments": {"amount": 900, "recipient": "Cy"}},
        {"id": "no", "name": "transfer", "arguments": {"amount": 5000, "recipient": "Dee"}},
    ]
    async with ToolEngine([transfer]) as engine, engine.stream(calls) as run:
        async for event in run:
            if isinstance(event, ToolExecutionEvent) and event.status == ToolState.AWAITING_APPROVAL:
                invocation = run[event.uid]
                print(f"{event.id} asks for {dict(event.arguments or {})}")
                if event.id == "no":
                    invocation.deny("ask the head of finance")
                elif event.id == "too_much":
                    invocation.approve({"amount": 500, "recipient": "Cy"})
                else:
                    invocation.approve()
        for invocation in run.invocations:
            print(f"{invocation.id}: {invocation.response.for_model() if invocation.response else ''}")


asyncio.run(main())
