"""A model and an engine in conversation: the model asks for tools, is told what came of it, and answers in the end.

The whole loop is `Agent._converse` and what it calls, from top to bottom.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from .call_group import Ending, RunEnd
from .calls import duplicate_id_error, fingerprint
from .engine import ToolEngine
from .errors import EngineClosedError, ToolError, ToolErrorCode, classify
from .events import FinalAnswerEvent, ThinkingEvent, ToolArgumentsEvent
from .hooks.logging import engine_logger
from .invocation import ToolInvocation
from .live_run import LiveRun
from .providers.openai_chat import history_message, response_to_message
from .providers.openai_stream import ArgumentsPiece, Happening, MessageAssembler, TextPiece
from .providers.streamed_call import StreamedCall
from .run_log import RunLog
from .settings import AGENT, check_settings

Message = Mapping[str, Any]
"""A message of a conversation in the form of OpenAI's chat completions."""

Model = Callable[[list[Message], list[Message]], AsyncIterator[Any]]
"""Is given the conversation and the definitions of the tools; yields the next message in chunks of chat completions.

The last chunk says why the model stopped (`finish_reason`); without that the message counts as broken off.
"""


class AgentRun(LiveRun):
    """One conversation under way. Made by `Agent.run`; see `LiveRun` for how it begins and is stopped.

    Attributes:
        messages: the conversation so far, without the system's message: what was handed over, then what the model said
            and what it was told. It can be handed to `Agent.run` again with a further message.
        answer: the model's last message, once there is one.
    """

    def __init__(self, agent: Agent, messages: str | Sequence[Message], log: RunLog | None = None) -> None:
        super().__init__(agent.engine, lambda _: agent._converse(self), log=log)
        self.messages: list[Message] = (
            [{"role": "user", "content": messages}] if isinstance(messages, str) else [dict(each) for each in messages]
        )
        self.answer: str | None = None
        self.failures: Counter[str] = Counter()


class Agent:
    """Lets a model use an engine's tools until it answers.

    A call starts as soon as the model has written the last of it; the model is asked again when all calls of its
    message have ended. It is told of every call what `ToolResponse.for_model` says.

    Args:
        engine: runs the calls; all of its tools are offered.
        model: `OpenAIModel(client, "name")`, or a function that yields chunks; see `Model`.
        system: the system's message, before all others.
        max_turns: how often the model may be asked. The run ends with `max_turns` if it still wants tools then.
        max_calls: how many calls may run. Those beyond are refused, and the model is told to answer.
        max_seconds: for all of it, people's decisions included; `None`: no limit. The run ends with `max_seconds`.
        max_same_failures: how often a call may fail with the very same arguments before it is refused, and the model is
            told to change course.

    Raises:
        ConfigurationError: a limit is out of range.

    Example:
        >>> import asyncio
        >>> async def model(messages, tools):
        ...     yield {"choices": [{"delta": {"content": "Good day."}, "finish_reason": "stop"}]}
        >>> async def main():
        ...     run = Agent(ToolEngine([]), model).run("Hello!")
        ...     return [event.type async for event in run], run.answer
        >>> asyncio.run(main())
        (['thinking', 'final_answer', 'run_ended'], 'Good day.')
    """

    def __init__(
        self,
        engine: ToolEngine,
        model: Model,
        *,
        system: str | None = None,
        max_turns: int = 10,
        max_calls: int = 100,
        max_seconds: float | None = 600.0,
        max_same_failures: int = 2,
    ) -> None:
        given = {
            "max_turns": max_turns,
            "max_calls": max_calls,
            "max_seconds": max_seconds,
            "max_same_failures": max_same_failures,
        }
        check_settings("Agent.", AGENT, given)
        self.engine = engine
        self._model = model
        self._system: list[Message] = [] if system is None else [{"role": "system", "content": system}]
        self._max_turns = max_turns
        self._max_calls = max_calls
        self._max_seconds = max_seconds
        self._max_same_failures = max_same_failures

    def run(self, messages: str | Sequence[Message], *, log: RunLog | None = None) -> AgentRun:
        """A conversation that begins when it is entered, awaited or iterated over: `async for event in agent.run("Hi")`.

        Args:
            messages: what the user says, or a conversation so far.
            log: where the events go; one of the usual size if it is not given.
        """
        return AgentRun(self, messages, log)

    async def _converse(self, run: AgentRun) -> Ending:
        clock, seconds = self.engine.clock, self._max_seconds
        if seconds is None:
            return await self._turns(run)
        message = f"the run may take {seconds:g} seconds"
        timer = clock.call_at(clock.monotonic() + seconds, run.cancel, RunEnd.MAX_SECONDS, message)
        try:
            return await self._turns(run)
        finally:
            timer.cancel()

    async def _turns(self, run: AgentRun) -> Ending:
        stable = [spec for spec in self.engine.registry if spec.canary is None]
        for _ in range(self._max_turns):
            turn = _Turn(self, run)
            try:
                await turn.listen(
                    self._model([*self._system, *run.messages], [spec.to_openai_function() for spec in stable])
                )
            except EngineClosedError:
                raise
            except Exception as error:  # noqa: BLE001 # the model is a foreign service: whatever it raises, it has failed
                await turn.calls_ended()
                return _model_failed(error)
            await turn.calls_ended()
            if turn.message.finish_reason is None:
                return Ending(RunEnd.MODEL_ERROR, "the model's message broke off")
            if not turn.invocations:
                return turn.answer()
        return Ending(RunEnd.MAX_TURNS, f"the model wanted more than {self._max_turns} turns")

    def refusal(self, run: AgentRun, call: StreamedCall) -> ToolError | None:
        """Why a call is not run, in words for the model; `None`: it may be."""
        if len(run.invocations) >= self._max_calls:
            return ToolError(
                ToolErrorCode.PERMISSION_DENIED,
                f"All {self._max_calls} calls that this conversation may make are used up. Nothing was run. "
                "Answer with what you have.",
                reason="call_limit",
            )
        failures = run.failures[_key(call.name, call.arguments)]
        if failures >= self._max_same_failures:
            return ToolError(
                ToolErrorCode.INVALID_PARAM,
                f"This very call has failed {failures} times in this conversation, so it was not run again. Change the "
                "arguments, choose another tool, or answer with what you have.",
                reason="repeated_failure",
            )
        return None


class _Turn:
    """One message of the model, and the calls in it."""

    def __init__(self, agent: Agent, run: AgentRun) -> None:
        self._agent = agent
        self._run = run
        registry = agent.engine.registry
        self.message = MessageAssembler({spec.name for spec in registry})
        self._shown = {spec.name for spec in registry} - {spec.name for spec in registry if spec.hides}
        self._started: dict[StreamedCall, ToolInvocation] = {}
        self._told: Counter[StreamedCall] = Counter()

    @property
    def invocations(self) -> list[ToolInvocation]:
        """Those of the message's calls that were started, in call order."""
        return [self._started[call] for call in self.message.calls if call in self._started]

    async def listen(self, chunks: AsyncIterator[Any]) -> None:
        """Take the message as it comes, and start each call when it is complete."""
        async with AsyncExitStack() as stack:
            if close := getattr(chunks, "aclose", None):
                stack.push_async_callback(close)
            async for chunk in chunks:
                for happened in self.message.feed(chunk):
                    self._take(happened)
        for complete in self.message.finish():
            self._take(complete)
        if self.message.finish_reason is not None:
            for call in self.message.unfinished:
                self._start(call, refuse=_cut_off())
        if self.message.late:
            engine_logger().warning("late pieces of complete calls were dropped", count=self.message.late)
        said = self.message.reasoning + (self.message.content if self._started else "")
        if said:
            self._run.publish(ThinkingEvent(0, 0.0, said))

    async def calls_ended(self) -> None:
        """Wait for the calls, and write message and results into the conversation."""
        invocations = self.invocations
        for invocation in invocations:
            await invocation
            key = _key(invocation.call.name, invocation.call.arguments)
            self._run.failures[key] = 0 if invocation.error is None else self._run.failures[key] + 1
        if not invocations and not self.message.content:
            return
        written = self.message.written({call: started.id for call, started in self._started.items()})
        self._run.messages.append(history_message(written, invocations).message)
        self._run.messages.extend(map(response_to_message, invocations))

    def answer(self) -> Ending:
        """The message calls no tools, so it is the answer."""
        self._run.answer = self.message.content
        self._run.publish(FinalAnswerEvent(0, 0.0, self.message.content))
        return Ending(RunEnd.CUT_OFF if self.message.is_cut_off else RunEnd.FINAL_ANSWER)

    def _take(self, happened: Happening) -> None:
        match happened:
            case TextPiece(text):
                self._run.publish(ThinkingEvent(0, 0.0, text, piece=True))
            case ArgumentsPiece(call):
                self._tell_arguments(call, call.id)
            case _:
                self._start(happened.call)

    def _start(self, call: StreamedCall, refuse: ToolError | None = None) -> None:
        asked = call.to_call()
        if any(each.call.id == asked.id for each in self._started.values() if asked.id):
            # The first of them may be running by now. The answer goes under an id of its own, or no provider takes it.
            refuse, asked = duplicate_id_error(), asked._replace(id=None)
        invocation = self._run.start_call(asked, refuse=refuse or self._agent.refusal(self._run, call))
        self._started[call] = invocation
        self._tell_arguments(call, invocation.id)  # what was held back while there was no id

    def _tell_arguments(self, call: StreamedCall, call_id: str) -> None:
        delta = call.arguments[self._told[call] :]
        if delta and call_id and call.name in self._shown:
            self._told[call] = len(call.arguments)
            self._run.publish(ToolArgumentsEvent(0, 0.0, call_id, call.name, delta))


def _cut_off() -> ToolError:
    return ToolError(
        ToolErrorCode.INVALID_FORMAT,
        "Your message was cut off at its limit before this call was complete. Nothing was run. Ask again with less.",
        reason="cut_off",
    )


def _model_failed(error: Exception) -> Ending:
    classified = classify(error)
    engine_logger().error("model failed", detail=classified.detail)
    return Ending(RunEnd.MODEL_ERROR, f"the model could not answer: {classified.code} ({type(error).__name__})")


def _key(name: str, arguments: Any) -> str:
    """The same for calls that mean the same."""
    try:
        return fingerprint(name, json.loads(arguments))
    except (TypeError, ValueError, RecursionError):
        return fingerprint(name, arguments)
