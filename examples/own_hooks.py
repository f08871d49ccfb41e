"""A gate that refuses calls, an observer that counts states, and a state of one's own."""

import asyncio
from collections import Counter

from fsm_engine import INVOCATION, Firing, Row, State, ToolEngine, ToolError, ToolInvocation, gate, on_transition, tool

seen: Counter[str] = Counter()


@tool
async def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def only_temporary_files(event: Firing) -> None:
    """Decides: what it raises as a ToolError is the model's answer."""
    if not event.model.arguments["path"].startswith("tmp/"):
        raise ToolError("PERMISSION_DENIED", "Only files under tmp/ may be deleted.", reason="outside_tmp")


def count(event: Firing) -> None:
    """Watches: what it raises is logged and changes nothing."""
    seen[event.row.dest] += 1


async def note_down(invocation: ToolInvocation) -> str:
    """What is done in the state JOURNALLING; answers the next trigger."""
    print(f"about to run {invocation.tool_name}")
    return "noted"


# VALIDATING leads to JOURNALLING now, and that to ADMITTING.
journalled = INVOCATION.extended(
    states=[State("JOURNALLING", activity="write the call down")],
    rows=[Row("VALIDATING", "accept", "JOURNALLING"), Row("JOURNALLING", "noted", "ADMITTING")],
)


async def main() -> None:
    engine = ToolEngine(
        [delete_file],
        lifecycle=journalled,
        activities={"JOURNALLING": note_down},
        hooks=[gate("VALIDATING", only_temporary_files), on_transition(count)],
    )
    async with engine:
        calls = [{"name": "delete_file", "arguments": {"path": path}} for path in ("tmp/a.txt", "letters/b.txt")]
        for invocation in await engine.execute_tool_calls(calls):
            print(" > ".join(invocation.path))
            print(invocation.response.for_model() if invocation.response else "")
    print(dict(seen))


asyncio.run(main())
