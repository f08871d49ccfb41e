"""How a tool's function is called: as a coroutine, in a thread, in a process, on an executor; and generators of both kinds.

Each way is one coroutine that ends with the function's result or exception, so time limits and cancellation are the
same for all; what differs is whether the function can be stopped. A coroutine is cancelled, a process is killed, a
thread goes on: its slot stays taken until it has really ended.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from types import AsyncGeneratorType, CoroutineType, GeneratorType, NoneType
from typing import Any, Final

from ..concurrency.processes import Shipped, run_in_process
from ..concurrency.threads import run_in_thread, settle
from ..concurrency.turns import Turns
from ..jsonable.jsonable import to_jsonable
from ..jsonable.strict import json_text
from ..response.tool_response import ToolResponse
from ..tools.context import ToolContext
from ..tools.spec import ToolSpec
from .attempt import MAX_CHUNK_CHARS_KEPT, MAX_CHUNKS_KEPT, Attempt

_MOST_STEPS: Final = 8


def call_function(spec: ToolSpec, arguments: Mapping[str, Any], attempt: Attempt) -> Coroutine[Any, Any, Any]:
    """The default `execute` stage: a coroutine, not yet begun, that calls the tool's function.

    Args:
        arguments: bound to the types that the function declares, by parameter name.
    """
    signature = spec.signature
    if spec.is_plain_coroutine:  # most tools are, and what follows would cost as much as calling one
        made = spec.func(**arguments)
        return made if made.__class__ is CoroutineType else _awaited(made)
    if signature.context_parameter is not None:
        arguments = {**arguments, signature.context_parameter: ToolContext(attempt)}
    if signature.kind == "async":
        made = spec.func(**arguments)
        return made if made.__class__ is CoroutineType else _awaited(made)
    if signature.kind == "async_generator":
        return _drain_async(spec.func(**arguments), attempt)
    if spec.executor == "thread":
        return _in_thread(partial(spec.func, **arguments), attempt)
    if spec.executor == "process":
        return run_in_process(spec.func, arguments)
    assert isinstance(spec.executor, Executor), "the spec has checked it"
    return _on_executor(spec.executor, partial(Shipped(spec.func), **arguments), attempt)


async def _awaited(value: Any) -> Any:
    return await value


async def _in_thread(call: Callable[[], Any], attempt: Attempt) -> Any:
    # Whoever takes the ticket first decides: the thread begins the job, or the job is given up before it has begun.
    ticket = [None]
    has_begun = False

    def job() -> Any:
        nonlocal has_begun
        try:
            ticket.pop()
        except IndexError:
            return None
        has_begun = True
        try:
            result = call()
            return _drain(result, attempt) if isinstance(result, GeneratorType) else result
        except StopIteration as stop:  # a future cannot carry one
            raise RuntimeError(f"the tool raised {stop!r}") from stop

    def ended(error: BaseException | None) -> None:
        if has_begun:
            attempt.function_ended(error)

    attempt.thread_running = True
    try:
        result = await run_in_thread(job, ended)
    finally:
        with suppress(IndexError):  # the thread has it, and says itself when it ends
            ticket.pop()
            attempt.thread_running = False
    # A plain function may hand out a coroutine: a partial of an async one, say.
    return await finish(result, attempt) if is_unfinished(result) else result


FINISHED: Final = frozenset({str, dict, list, int, float, bool, NoneType, ToolResponse})
"""Types of results that need no second look."""


def is_unfinished(result: Any) -> bool:
    """Whether a function returned what is still to be run or awaited: a coroutine, a future, a generator."""
    return isinstance(result, AsyncGeneratorType | GeneratorType | Future) or inspect.isawaitable(result)


async def finish(result: Any, attempt: Attempt | None = None) -> Any:
    """What an unfinished result comes to: an awaitable is awaited, a generator run like that of a declared one.

    Args:
        attempt: is told of the pieces; `None`: nobody is.
    """
    for _ in range(_MOST_STEPS):  # what gives itself when awaited would never end
        if isinstance(result, AsyncGeneratorType):
            return await _drain_async(result, attempt)
        if isinstance(result, GeneratorType):
            drain = partial(_drain, result, attempt)
            return await (run_in_thread(drain) if attempt is None else _in_thread(drain, attempt))
        if isinstance(result, Future):
            result = await asyncio.wrap_future(result)
        elif inspect.isawaitable(result):
            result = await result
        else:
            return result
    return result


async def _on_executor(executor: Executor, call: Callable[[], Any], attempt: Attempt) -> Any:
    answer: asyncio.Future[Any] = attempt.loop.create_future()

    def ended(future: Future[Any]) -> None:
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        result = None if error is not None else future.result()
        attempt.call_in_loop(settle, answer, result, error, told)

    def told(error: BaseException | None) -> None:
        attempt.function_ended(None if isinstance(error, asyncio.CancelledError) else error)

    future = executor.submit(call)
    attempt.thread_running = True
    future.add_done_callback(ended)
    try:
        return await answer
    finally:
        future.cancel()  # one that waits for its turn is taken back; nothing happens to one that runs or has ended


class _Chunks:
    """The pieces that a generator has handed out, and what they come to."""

    def __init__(self, attempt: Attempt | None) -> None:
        self._kept: list[Any] = []
        self._count = 0
        self._chars = 0
        self._last: ToolResponse | None = None
        self._context = None if attempt is None else ToolContext(attempt)

    def add(self, chunk: Any) -> None:
        if isinstance(chunk, ToolResponse):
            self._last = chunk
            return
        self._last = None
        self._count += 1
        if self._count <= MAX_CHUNKS_KEPT and self._chars <= MAX_CHUNK_CHARS_KEPT:
            self._chars += len(chunk) if isinstance(chunk, str | bytes) else len(json_text(to_jsonable(chunk).value))
            if self._chars <= MAX_CHUNK_CHARS_KEPT:
                self._kept.append(chunk)
        if self._context is not None:
            self._context.emit(chunk)

    def result(self, returned: Any = None) -> Any:
        """What the generator returned, or a last `ToolResponse`; else the strings joined, or the list."""
        if returned is not None:
            return returned
        if self._last is not None:
            return self._last
        pieces = self._kept
        texts = bool(pieces) and all(isinstance(piece, str) for piece in pieces)
        if self._count > len(pieces):
            reason = f"only the first {len(pieces):,} of {self._count:,} pieces were kept"
            return ToolResponse.partial("".join(pieces) if texts else "", None if texts else pieces, reason=reason)
        return "".join(pieces) if texts else pieces


def _drain(generator: Generator[Any, Any, Any], attempt: Attempt | None) -> Any:
    """Run a generator to its end, in the thread that it began in."""
    chunks = _Chunks(attempt)
    try:
        while attempt is None or not attempt.is_unwanted:
            chunks.add(next(generator))
    except StopIteration as stop:
        return chunks.result(stop.value)
    finally:
        generator.close()
    return chunks.result()


async def _drain_async(generator: AsyncGenerator[Any, Any], attempt: Attempt | None) -> Any:
    chunks = _Chunks(attempt)
    try:
        turns = Turns()
        async for chunk in generator:
            chunks.add(chunk)
            await turns.give()
    finally:
        await generator.aclose()
    return chunks.result()
