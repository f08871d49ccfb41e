"""A server on this machine that speaks the wire format of OpenAI's chat completions, whole and in pieces."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from openai import AsyncOpenAI

HEAD = "HTTP/1.1 {status} Whatever\r\nContent-Type: {kind}\r\nConnection: close\r\n"


@dataclass
class Reply:
    """What the model says next.

    Attributes:
        calls: id, name and arguments of each call.
        cut: how many characters a piece has.
        breaks_off: the connection is cut after this many pieces.
        status: of the answer; other than 200 it is an error.
        held: pieces from this number on are sent when `go_on` is set.
    """

    content: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    finish: str | None = None
    cut: int = 5
    breaks_off: int | None = None
    status: int = 200
    held: int | None = None
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def finish_reason(self) -> str:
        return self.finish or ("tool_calls" if self.calls else "stop")

    def whole(self) -> dict[str, Any]:
        calls = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in self.calls
        ]
        message = {"role": "assistant", "content": self.content or None, "tool_calls": calls or None}
        return self._envelope({"index": 0, "message": message, "finish_reason": self.finish_reason}, "chat.completion")

    def pieces(self) -> Iterator[dict[str, Any]]:
        """The deltas; those of the calls turn by turn, as a provider that writes them side by side sends them."""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": part} for part in self._cut(self.content)]
        for index, (call_id, name, _) in enumerate(self.calls):
            function = {"name": name, "arguments": ""}
            deltas.append({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]})
        waiting = [(index, self._cut(arguments)) for index, (_, _, arguments) in enumerate(self.calls)]
        while waiting := [(index, parts) for index, parts in waiting if parts]:
            deltas += [{"tool_calls": [{"index": i, "function": {"arguments": parts.pop(0)}}]} for i, parts in waiting]
        for delta in deltas:
            yield self._envelope({"index": 0, "delta": delta, "finish_reason": None}, "chat.completion.chunk")
        yield self._envelope({"index": 0, "delta": {}, "finish_reason": self.finish_reason}, "chat.completion.chunk")
        yield {**self._envelope({}, "chat.completion.chunk"), "choices": [], "usage": {"total_tokens": 1}}

    def _cut(self, text: str) -> list[str]:
        return [text[start : start + self.cut] for start in range(0, len(text), self.cut)]

    @staticmethod
    def _envelope(choice: dict[str, Any], kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": kind, "created": 1_700_000_000, "model": "scripted", "choices": [choice]}


class ModelServer:
    """Answers each request with the next reply.

    Attributes:
        requests: the bodies of the requests so far.
    """

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.requests: list[dict[str, Any]] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.client = AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="sk-secret", max_retries=0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.client.close()
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            assert head.startswith("post /v1/chat/completions ")
            size = int(head.partition("content-length:")[2].split("\r\n", 1)[0])
            request = json.loads(await reader.readexactly(size))
            self.requests.append(request)
            reply = self._replies.pop(0)
            if reply.status != 200:
                self._send_whole(writer, reply.status, {"error": {"message": "wrong key sk-secret", "type": "x"}})
            elif request.get("stream"):
                await self._send_pieces(writer, reply)
            else:
                self._send_whole(writer, 200, reply.whole())
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has left
        finally:
            writer.close()

    @staticmethod
    def _send_whole(writer: asyncio.StreamWriter, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        head = HEAD.format(status=status, kind="application/json") + f"Content-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)

    @staticmethod
    async def _send_pieces(writer: asyncio.StreamWriter, reply: Reply) -> None:
        head = HEAD.format(status=200, kind="text/event-stream") + "Transfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        lines = [f"data: {json.dumps(piece)}\n\n" for piece in reply.pieces()]
        for number, line in enumerate([*lines, "data: [DONE]\n\n"]):
            if number == reply.breaks_off:
                return  # without the end of the chunked body
            if number == reply.held:
                await reply.go_on.wait()
            data = line.encode()
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
