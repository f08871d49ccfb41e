"""A model and an engine in conversation: the model asks for tools, is told what came of it, and answers in the end.

The whole loop is `Agent._converse` and what it calls, from top to bottom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..engine.call_group import Ending, RunEnd
from ..engine.engine import ToolEngine
from ..errors.codes import ToolErrorCode
from ..errors.exceptions import ConfigurationError, ToolError, classify
from ..events.log import RunLog
from ..jsonable.characters import whole_characters
from ..jsonable.strict import NotFiniteError, own_json
from ..logs import engine_logger
from ..providers.definitions import openai_definitions
from ..providers.streamed_call import StreamedCall
from ..settings.table import AGENT, check_settings
from .model_chunks import Message, Model, check_model
from .run import LiveRun
from .turn import Turn, key


class AgentRun(LiveRun):
    """One conversation under way. Made by `Agent.run`; see `LiveRun` for how it begins and is stopped.

    Attributes:
        messages: the conversation so far, without the system's message: what was handed over, then what the model said
            and what it was told. It can be handed to `Agent.run` again with a further message.
        answer: the model's last message, once there is one.
    """

    def __init__(self, agent: Agent, messages: str | Sequence[Message], log: RunLog | None = None) -> None:
        super().__init__(agent.engine, lambda _: agent._converse(self), log=log)
        self.messages: list[Message] = _check_messages(messages)
        self.answer: str | None = None
        self.failures: Counter[str] = Counter()
        self.turn: Turn | None = None
        self.ends_at: float | None = None

    def is_stopped(self) -> bool:
        """See `CallGroup`; the time is looked at too, since a model that holds up the loop holds up the timer."""
        if self.ends_at is not None and not self._endings and self._engine.clock.monotonic() >= self.ends_at:
            self.cancel(RunEnd.MAX_SECONDS, "the time that the run may take is over")
        return super().is_stopped()

    def _close_what_is_open(self) -> None:
        if self.turn is not None:
            self.turn.close()
            self.turn.give_up_what_was_put_off()

    def _before_end(self) -> None:
        if self.turn is not None:
            self.turn.write()


class Agent:
    """Lets a model use an engine's tools until it answers.

    A call starts as soon as the model has written the last of it; the model is asked again when all calls of its
    message have ended. It is told of every call what `ToolResponse.for_model` says.

    Args:
        engine: runs the calls; all of its tools are offered.
        model: `OpenAIModel(client, "name")`, or a function that yields chunks; see `Model`.
        system: the system's message, before all others.
        max_turns: how often the model may be asked. The run ends with `max_turns` if it still wants tools then.
        max_calls: how many calls may run; those that were refused or found invalid do not count. Those beyond are
            refused, and the model is told to answer.
        max_seconds: for all of it, people's decisions included; `None`: no limit. The run ends with `max_seconds`.
        max_same_failures: in how many messages a call may fail with the very same arguments before it is refused, and the
            model is told to change course.

    Raises:
        ConfigurationError: a limit is out of range, or engine or model is something else.

    Example:
        >>> import asyncio
        >>> async def model(messages, tools):
        ...     yield {"choices": [{"delta": {"content": "Good day."}, "finish_reason": "stop"}]}
        >>> async def main():
        ...     run = Agent(ToolEngine([]), model).run("Hello!")
        ...     return [event.type async for event in run], run.answer
        >>> asyncio.run(main())
        (['thinking', 'final_answer', 'run_ended'], 'Good day.')

    `await Agent(engine, model).run("Hello!")` answers the run when it has ended, and raises `RunFailedError` if it failed.
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
        used: object = engine  # whatever the caller's type checker has not seen
        if not isinstance(used, ToolEngine):
            raise ConfigurationError(
                f"an Agent's engine is a ToolEngine, not {used!r}; write Agent(ToolEngine([your_tools]), model)"
            )
        check_model(model)
        said: object = system
        if not (said is None or isinstance(said, str)):
            raise ConfigurationError(f"system is the text of the system's message, not {said!r}")
        self.engine = engine
        self._model = model
        self._system: list[Message] = (
            [] if system is None else [{"role": "system", "content": whole_characters(system)}]
        )
        self._max_turns = max_turns
        self._max_calls = max_calls
        self._max_seconds = max_seconds
        self._max_same_failures = max_same_failures

    def run(self, messages: str | Sequence[Message], *, log: RunLog | None = None) -> AgentRun:
        """A conversation that begins when it is entered, awaited or iterated over: `async for event in agent.run("Hi")`.

        Args:
            messages: what the user says, or a conversation so far.
            log: where the events go; one of the usual size if it is not given.

        Raises:
            ConfigurationError: messages are neither text nor a list of messages.
        """
        return AgentRun(self, messages, log)

    def run_sync(self, messages: str | Sequence[Message]) -> AgentRun:
        """`await agent.run(messages)` for code without a running loop; see `ToolEngine.invoke_sync`.

        Raises:
            RunFailedError: it was stopped, or has failed; its `run` has the conversation.
            ConfigurationError: a loop is running here, or messages are neither text nor a list of messages.
        """
        run = self.run(messages)

        async def ended() -> AgentRun:
            return await run

        return self.engine.run_sync(ended())

    async def _converse(self, run: AgentRun) -> Ending | None:
        clock, seconds = self.engine.clock, self._max_seconds
        if seconds is None:
            return await self._turns(run)
        run.ends_at = clock.monotonic() + seconds
        timer = clock.call_at(run.ends_at, run.cancel, RunEnd.MAX_SECONDS, f"the run may take {seconds:g} seconds")
        try:
            return await self._turns(run)
        finally:
            timer.cancel()

    async def _turns(self, run: AgentRun) -> Ending | None:
        offered, left_out = openai_definitions(spec for spec in self.engine.registry if spec.canary is None)
        for name, reason in left_out.items():
            engine_logger().warning("tool is not offered", tool=name, reason=reason)
        for _ in range(self._max_turns):
            if run.is_stopped():
                return None
            turn = run.turn = Turn(self, run)
            failed: Ending | None = None
            try:
                await turn.listen(self._model([*self._system, *run.messages], list[Message](offered)))
            except Exception as error:  # noqa: BLE001 # the model is a foreign service: whatever it raises, it has failed
                failed = _model_failed(error)
            if run.is_stopped():
                return None
            turn.close()
            await turn.calls_ended()
            turn.write()
            if failed is not None:
                return failed
            if not turn.is_whole:
                return Ending(RunEnd.MODEL_ERROR, turn.why_broken)
            if not turn.has_calls:
                turn.answer()
                return Ending(RunEnd.CUT_OFF if turn.message.is_cut_off else RunEnd.FINAL_ANSWER)
        return Ending(RunEnd.MAX_TURNS, f"the model wanted more than {self._max_turns} turns")

    def is_budget_unclear(self, run: AgentRun) -> bool:
        """Whether another call may run depends on calls of which nobody knows yet whether they will run."""
        open_calls = sum(not each.is_final and not each.attempts for each in run.invocations)
        return open_calls > 0 and self._calls_run(run) + open_calls >= self._max_calls > self._calls_run(run)

    @staticmethod
    def _calls_run(run: AgentRun) -> int:
        return sum(bool(each.attempts) for each in run.invocations)

    def refusal(self, run: AgentRun, call: StreamedCall) -> ToolError | None:
        """Why a call is not run, in words for the model; `None`: it may be."""
        if self._calls_run(run) >= self._max_calls:
            return ToolError(
                ToolErrorCode.PERMISSION_DENIED,
                f"All {self._max_calls} calls that this conversation may make are used up. Nothing was run. "
                "Answer with what you have.",
                reason="call_limit",
            )
        failures = run.failures[key(call.name, call.arguments)]
        if failures >= self._max_same_failures:
            return ToolError(
                ToolErrorCode.INVALID_PARAM,
                f"This very call has failed {failures} times in this conversation, so it was not run again. Change the "
                "arguments, choose another tool, or answer with what you have.",
                reason="repeated_failure",
            )
        return None


def _check_messages(messages: object) -> list[Message]:
    if isinstance(messages, str):
        return [{"role": "user", "content": whole_characters(messages)}]
    if isinstance(messages, Mapping) or not isinstance(messages, Sequence):
        raise ConfigurationError(
            f"messages is a {type(messages).__name__}; give what the user says as text, or a list of messages"
        )
    for place, each in enumerate(messages):
        if not (isinstance(each, Mapping) and isinstance(each.get("role"), str)):
            raise ConfigurationError(
                f'messages[{place}] is no message: it must be a dictionary with a role, {{"role": "user", "content": ...}}'
            )
    try:
        return [own_json(dict(each)) for each in messages]
    except NotFiniteError as error:
        raise ConfigurationError(f"messages cannot be sent as JSON: {error}") from None


def _model_failed(error: Exception) -> Ending:
    classified = classify(error)
    engine_logger().error("model failed", detail=classified.detail)
    # What this package says of a model function is for its author, and tells nothing of what went through it.
    why = str(error) if isinstance(error, ConfigurationError) else f"{classified.code} ({type(error).__name__})"
    return Ending(RunEnd.MODEL_ERROR, f"the model could not answer: {why}")
