"""One message of a model: taken as it comes, its calls started, answered and written into the conversation."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ..engine.call_group import is_turn_due
from ..errors.codes import ToolErrorCode
from ..errors.exceptions import EngineClosedError, ToolError
from ..events.types import FinalAnswerEvent, ThinkingEvent, ToolArgumentsEvent, ToolErrorEvent
from ..invocation.invocation import ToolInvocation
from ..invocation.outcomes import error_response
from ..jsonable.characters import whole_characters
from ..logs import engine_logger
from ..providers.openai_chat import history_message, response_to_message
from ..providers.openai_stream import ArgumentsPiece, Happening, MessageAssembler, TextPiece
from ..providers.streamed_call import StreamedCall
from ..tools.call import duplicate_id_error, fingerprint
from .model_chunks import chunks_of

if TYPE_CHECKING:
    from .agent import Agent, AgentRun


class Turn:
    """One message of the model, and the calls in it.

    Attributes:
        message: what there is of it so far.
    """

    def __init__(self, agent: Agent, run: AgentRun) -> None:
        self._agent = agent
        self._run = run
        registry = agent.engine.registry
        self.message = MessageAssembler(registry.spellings())
        hiding = {spec.name for spec in registry if spec.hides}
        self._shown = {name for name in registry.spellings() if registry.own_name(name) not in hiding}
        self._started: dict[StreamedCall, ToolInvocation] = {}
        self._refused: set[ToolInvocation] = set()
        self._put_off: list[StreamedCall] = []
        self._told: dict[StreamedCall, int] = {}
        self._uids: dict[StreamedCall, str] = {}
        self._said: list[ThinkingEvent] = []  # by the model, since the last thing that was not text
        self._is_reasoning = False  # the last of it was not meant for the reader
        self._is_closed = self._is_written = False

    @property
    def invocations(self) -> list[ToolInvocation]:
        """Those of the message's calls that were started, in call order."""
        return [self._started[call] for call in self.message.calls if call in self._started]

    @property
    def has_calls(self) -> bool:
        """The model wants tools."""
        return bool(self._started or self._put_off)

    @property
    def is_whole(self) -> bool:
        """The model has said why it stopped; or it has stopped after calls that are complete, with nothing open."""
        if self.message.finish_reason is not None:
            return True
        return self.has_calls and all(call.is_complete for call in self.message.calls)

    @property
    def why_broken(self) -> str:
        """In words for a person, if it is not whole."""
        if self.message.content or self.message.reasoning or self.message.calls:
            return "the model's message broke off"
        return "the model's message is empty: no chunk of a chat completion came"

    async def listen(self, given: Any) -> None:
        """Take the message as it comes, and start each call when it is complete. After a stop nothing more is taken."""
        number = 0
        async with aclosing(chunks_of(given)) as chunks:
            async for chunk in chunks:
                number += 1
                if is_turn_due(number):
                    await asyncio.sleep(0)
                if self._is_closed or self._run.is_stopped():
                    return
                begun = len(self._started)
                for happened in self.message.feed(chunk):
                    self._take(happened)
                if len(self._started) > begun:
                    await asyncio.sleep(0)  # a model that never waits would keep the call from beginning
        if self._run.is_stopped():
            return
        for complete in self.message.finish():
            self._take(complete)
        if self.is_whole:
            self.close(_cut_off("was cut off at its limit"))
        if self.message.late:
            engine_logger().warning("late pieces of complete calls were dropped", count=self.message.late)

    def close(self, refuse: ToolError | None = None) -> None:
        """Nothing more is taken: what the model was still writing ends, be it that it is refused. Twice is nothing.

        Args:
            refuse: what the calls that are not complete are answered with. If the run was stopped, that is what they say.
        """
        if self._is_closed:
            return
        self._is_closed = True
        for call in self.message.unfinished:
            if call not in self._started:
                self._start(call, refuse=refuse or _cut_off("broke off"))
        self._text_ends(is_answer_kept=self.is_whole and not self.has_calls and not self._run.is_stopped())

    async def calls_ended(self) -> None:
        """Wait for the calls. Those that were put off begin when it is known how many of the others have run."""
        while True:
            for invocation in self.invocations:
                if not invocation.is_final:
                    await asyncio.wait([invocation.ended])
            if not self._put_off:
                return
            calls, self._put_off = self._put_off, []
            for call in calls:
                self._start(call)

    def give_up_what_was_put_off(self) -> None:
        """The run is over: these calls are not run, and each is answered."""
        calls, self._put_off = self._put_off, []
        for call in calls:
            self._start(call)

    def write(self) -> None:
        """Write message and results into the conversation, when all calls have ended. Twice is nothing."""
        if self._is_written:
            return
        self._is_written = True
        invocations = self.invocations
        self._count_failures(invocations)
        if not invocations and not self.message.content:
            return
        written = self.message.written({call: started.id for call, started in self._started.items()})
        self._run.messages.append(history_message(written, invocations).message)
        self._run.messages.extend(map(response_to_message, invocations))

    def answer(self) -> None:
        """The message calls no tools, so it is the answer."""
        self._run.answer = self.message.content
        self._run.publish(FinalAnswerEvent(0, 0.0, self.message.content))

    def _count_failures(self, invocations: list[ToolInvocation]) -> None:
        """Once a turn for each kind of call: equal calls of one message know nothing of one another."""
        failures = self._run.failures
        own = [each for each in invocations if each not in self._refused]
        failed = {key(each.call.name, each.call.arguments) for each in own if each.error is not None}
        succeeded = {key(each.call.name, each.call.arguments) for each in own if each.error is None}
        failures.update(failed - succeeded)
        for each in succeeded:
            failures[each] = 0

    # -- as it comes -------------------------------------------------------------------------------------------------

    def _take(self, happened: Happening) -> None:
        if isinstance(happened, TextPiece):
            self._say(happened)
            return
        self._text_ends()
        if isinstance(happened, ArgumentsPiece):
            self._tell_arguments(happened.call, whole_characters(happened.call.id))
        else:
            self._start(happened.call)

    def _say(self, piece: TextPiece) -> None:
        if self._said and self._is_reasoning and not piece.is_reasoning:
            self._text_ends()
        self._run.publish(ThinkingEvent(0, 0.0, piece.text, piece=True))
        if not self._said or self._is_reasoning != piece.is_reasoning:
            self._said.append(ThinkingEvent(0, 0.0, ""))
        self._said[-1].content += piece.text
        self._is_reasoning = piece.is_reasoning

    def _text_ends(self, *, is_answer_kept: bool = False) -> None:
        """Something else begins, so what was said is told whole; what is the answer is told as the answer."""
        said, self._said = self._said, []
        if is_answer_kept and said and not self._is_reasoning:
            said.pop()
        for event in said:
            self._run.publish(event)

    def _start(self, call: StreamedCall, refuse: ToolError | None = None) -> None:
        asked = call.to_call()
        if any(each.call.id == asked.id for each in self._started.values() if asked.id):
            # The first of them may be running by now. The answer goes under an id of its own, or no provider takes it.
            refuse, asked = duplicate_id_error(), asked._replace(id=None)
        if refuse is None and not self._run.is_stopped():
            if self._agent.is_budget_unclear(self._run):
                self._put_off.append(call)
                return
            refuse = self._agent.refusal(self._run, call)
        try:
            invocation = self._run.start_call(asked, refuse=refuse, uid=self._uid_of(call))
        except EngineClosedError as error:
            self._end_without_call(call, error)
            return
        if refuse is not None:
            self._refused.add(invocation)
        self._started[call] = invocation
        self._tell_arguments(call, invocation.id)  # what was held back while there was no id

    def _tell_arguments(self, call: StreamedCall, call_id: str) -> None:
        delta = call.arguments[self._told.get(call, 0) :]
        if delta and call_id and call.name in self._shown:
            self._told[call] = len(call.arguments)
            name = self._agent.engine.registry.own_name(call.name)
            self._run.publish(ToolArgumentsEvent(0, 0.0, call_id, self._uid_of(call), name, delta))

    def _uid_of(self, call: StreamedCall) -> str:
        """What the call is named by from its first piece on: ids are the model's, and it gives one twice now and then."""
        uid = self._uids.get(call)
        if uid is None:
            uid = self._uids[call] = self._agent.engine.new_uid()
        return uid

    def _end_without_call(self, call: StreamedCall, error: EngineClosedError) -> None:
        """An engine that is closed makes no calls any more; who has seen the arguments is told all the same."""
        if call in self._told:
            response = error_response(ToolError(ToolErrorCode.CANCELLED, str(error)))
            self._run.publish(ToolErrorEvent(0, 0.0, call.id, self._uid_of(call), call.name, response))


def _cut_off(how: str) -> ToolError:
    return ToolError(
        ToolErrorCode.INVALID_FORMAT,
        f"Your message {how} before this call was complete. Nothing was run. Ask again with less.",
        reason="cut_off",
    )


def key(name: str, arguments: Any) -> str:
    """The same for calls that mean the same."""
    try:
        return fingerprint(name, json.loads(arguments))
    except (TypeError, ValueError, RecursionError):
        return fingerprint(name, arguments)
