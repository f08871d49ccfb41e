"""What a model function gives, read as the chunks of one message, whatever form its author has found natural."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from ..errors.exceptions import ConfigurationError

Message = Mapping[str, Any]
"""A message of a conversation in the form of OpenAI's chat completions."""

Model = Callable[[list[Message], list[Message]], AsyncIterator[Any] | Awaitable[Any]]
"""Is given the conversation and the definitions of the tools, and gives the next message.

Usually it is an async generator that yields the chunks of a chat completion; the last one says why the model stopped
(`finish_reason`). A whole completion, or an assistant's message, will do: yielded, or returned by a coroutine function.
"""

_WANTED = "a model function gives chunks of a chat completion, a whole one, or an assistant's message"


def check_model(model: object) -> None:
    """Refuse what cannot be a model.

    Raises:
        ConfigurationError: with what to write instead.
    """
    if isinstance(model, str):
        raise ConfigurationError(
            f"model is the text {model!r}; give OpenAIModel(AsyncOpenAI(), {model!r}), or an async function that yields "
            "the model's chunks"
        )
    if isinstance(model, type):
        raise ConfigurationError(f"model is the class {model.__name__}; give an instance, OpenAIModel(client, 'name')")
    if hasattr(model, "chat") and not inspect.isroutine(model):
        raise ConfigurationError("model is a client; say which model it is to ask: OpenAIModel(client, 'name')")
    if not callable(model):
        raise ConfigurationError(
            f"model is {model!r}; give OpenAIModel(client, 'name'), or an async function that yields the model's chunks"
        )


async def chunks_of(given: Any) -> AsyncGenerator[Any]:
    """The chunks of what a model function has given, be it an async iterator, a coroutine, or a whole completion.

    Raises:
        ConfigurationError: it is none of these.
    """
    if inspect.isawaitable(given):
        given = await given
    if not hasattr(given, "__aiter__"):
        yield _as_chunk(given)
        return
    async with AsyncExitStack() as stack:
        if close := getattr(given, "aclose", None):
            stack.push_async_callback(close)
        async for chunk in given:
            yield _as_chunk(chunk)


def _as_chunk(given: Any) -> Mapping[str, Any]:
    """What the assembler of messages reads; a message by itself becomes a completion with nothing around it."""
    plain: object = given.model_dump(warnings=False) if hasattr(given, "model_dump") else given
    if not isinstance(plain, Mapping):
        raise ConfigurationError(f"{_WANTED}, not {type(given).__name__}")
    if "choices" not in plain and ("content" in plain or "tool_calls" in plain):
        plain = {"choices": [{"message": plain}]}
    whole = [each for each in _choices(plain) if isinstance(each.get("message"), Mapping) and not each.get("delta")]
    if not whole:
        return plain
    return {**plain, "choices": [_finished(each) for each in whole]}


def _choices(plain: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    choices = plain.get("choices")
    given = choices if isinstance(choices, Sequence) and not isinstance(choices, str) else ()
    return [each for each in given if isinstance(each, Mapping)]


def _finished(choice: Mapping[str, Any]) -> dict[str, Any]:
    """A whole message has an end, whether it says so or not."""
    why = "tool_calls" if choice["message"].get("tool_calls") else "stop"
    return {**choice, "finish_reason": choice.get("finish_reason") or why}
