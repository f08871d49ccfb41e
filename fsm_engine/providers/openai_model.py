"""A model behind OpenAI's chat completions, or behind any server that speaks that protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIModel"]


class OpenAIModel:
    """Gives what an `Agent` takes as its model. Needs the extra `openai`.

    Args:
        client: an `openai.AsyncOpenAI`; its address, key, time limits and retries are its own affair.
        model: the name of the model.
        stream: whether the message is to come in pieces. Without it the reader waits for the whole.
        params: further parameters of each request, such as `temperature`.

    Raises:
        ConfigurationError: the client is one that blocks.

    Example:
        >>> from openai import AsyncOpenAI
        >>> model = OpenAIModel(AsyncOpenAI(api_key="...", base_url="http://localhost:1234/v1"), "qwen3", temperature=0.2)
    """

    def __init__(self, client: AsyncOpenAI, model: str, *, stream: bool = True, **params: Any) -> None:
        from openai import OpenAI

        given: object = client  # whatever the caller's type checker has not seen
        if isinstance(given, OpenAI):
            raise ConfigurationError("openai.OpenAI would block the event loop; give an openai.AsyncOpenAI")
        self._client = client
        self._params = {"model": model, **params}
        self._stream = stream

    async def __call__(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Ask the model, and yield its chunks as dictionaries.

        Args:
            messages: the conversation so far.
            tools: the definitions of the tools that it may call.
        """
        request: dict[str, Any] = {**self._params, "messages": list(messages)}
        if tools:
            request["tools"] = list(tools)
        create: Any = self._client.chat.completions.create
        if not self._stream:
            yield _as_chunk(await create(**request))
            return
        async with await create(**request, stream=True) as chunks:
            async for chunk in chunks:
                yield chunk.model_dump(warnings=False)


def _as_chunk(completion: Any) -> dict[str, Any]:
    """A whole message in the form of a chunk that brings all of it."""
    choices = completion.model_dump(warnings=False)["choices"] or []
    for choice in choices:
        choice["delta"] = message = choice.pop("message")
        for index, call in enumerate(message.get("tool_calls") or ()):
            call["index"] = index
    return {"choices": choices}
