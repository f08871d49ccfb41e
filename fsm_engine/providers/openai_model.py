"""A model behind OpenAI's chat completions, or behind any server that speaks that protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors.exceptions import ConfigurationError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIModel"]

_NEEDED = frozenset({"role", "content", "tool_calls", "tool_call_id", "id", "type", "function", "custom"})


class OpenAIModel:
    """Gives what an `Agent` takes as its model. Needs the extra `openai`.

    Args:
        client: an `openai.AsyncOpenAI`; its address, key, time limits and retries are its own affair.
        model: the name of the model.
        stream: whether the message is to come in pieces. Without it the reader waits for the whole.
        leave_out: fields of messages and calls that this server refuses. What a provider says beside its messages
            (`reasoning_content`, say) is sent back to it otherwise, as some refuse a request without it.
        params: further parameters of each request, such as `temperature`.

    Raises:
        ConfigurationError: the client is one that blocks, or a field to leave out is none that may be missing.

    Example:
        >>> from openai import AsyncOpenAI
        >>> model = OpenAIModel(AsyncOpenAI(api_key="...", base_url="http://localhost:1234/v1"), "qwen3", temperature=0.2)
    """

    def __init__(
        self, client: AsyncOpenAI, model: str, *, stream: bool = True, leave_out: Collection[str] = (), **params: Any
    ) -> None:
        from openai import OpenAI

        given: object = client  # whatever the caller's type checker has not seen
        if isinstance(given, OpenAI):
            raise ConfigurationError("openai.OpenAI would block the event loop; give an openai.AsyncOpenAI")
        self._client = client
        self._params = {"model": model, **params}
        self._stream = stream
        if isinstance(leave_out, str) or not _NEEDED.isdisjoint(leave_out):
            raise ConfigurationError(
                f"leave_out is a list of fields such as ['reasoning_content'], none of {', '.join(sorted(_NEEDED))}; "
                f"not {leave_out!r}"
            )
        self._left_out = frozenset(leave_out)

    async def __call__(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Ask the model, and yield its chunks as dictionaries.

        Args:
            messages: the conversation so far.
            tools: the definitions of the tools that it may call.
        """
        request: dict[str, Any] = {**self._params, "messages": [self._sent(each) for each in messages]}
        if tools:
            request["tools"] = list(tools)
        create: Any = self._client.chat.completions.create
        if not self._stream:
            yield _as_chunk(await create(**request))
            return
        async with await create(**request, stream=True) as chunks:
            async for chunk in chunks:
                yield chunk.model_dump(warnings=False)

    def _sent(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self._left_out:
            return message
        sent = {name: value for name, value in message.items() if name not in self._left_out}
        if calls := sent.get("tool_calls"):
            sent["tool_calls"] = [
                {name: value for name, value in call.items() if name not in self._left_out} for call in calls
            ]
        return sent


def _as_chunk(completion: Any) -> dict[str, Any]:
    """A whole message in the form of a chunk that brings all of it."""
    choices = completion.model_dump(warnings=False)["choices"] or []
    for choice in choices:
        choice["delta"] = message = choice.pop("message")
        for index, call in enumerate(message.get("tool_calls") or ()):
            call["index"] = index
    return {"choices": choices}
