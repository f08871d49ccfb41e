"""For programs without an event loop: plain functions as tools, plain calls to run them."""

from fsm_engine import ToolEngine
from fsm_engine.providers.openai_chat import calls_from_message, response_to_message


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def divide(a: float, b: float) -> float:
    """Divide one number by another."""
    return a / b


message = {
    "role": "assistant",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}},
        {"id": "c2", "type": "function", "function": {"name": "divide", "arguments": '{"a": 1, "b": 0}'}},
    ],
}

engine = ToolEngine([add, divide])
for invocation in engine.execute_tool_calls_sync(calls_from_message(message)):
    print(response_to_message(invocation))
engine.close()
