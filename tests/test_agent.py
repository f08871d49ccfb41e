"""A model and an engine in conversation, through OpenAI's own SDK and a server on this machine that speaks its format."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion

from fsm_engine import (
    Agent,
    ConfigurationError,
    Event,
    OpenAIModel,
    RunEnd,
    RunEndedEvent,
    RunFailedError,
    RunLog,
    ThinkingEvent,
    ToolArgumentsEvent,
    ToolEngine,
    ToolResponse,
    VirtualClock,
    tool,
)

from .support import assert_snippets_print_what_stands_below_them, assert_told_in_full, idle, logged
from .support_openai import ModelServer, Reply


@tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(read_only=True)
async def fetch(page: int) -> ToolResponse:
    if page == 0:
        raise LookupError("no such page")
    return ToolResponse.partial("half of it", reason="truncated")


@tool(timeout=None)
async def forever() -> None:
    await asyncio.get_running_loop().create_future()


@tool(needs_approval=True)
async def transfer(amount: int) -> str:
    return f"sent {amount}"


@tool
async def log_in(user: str, password: str) -> str:
    return user


def engine(**settings: Any) -> ToolEngine:
    return ToolEngine([add, fetch, forever, transfer, log_in], **settings)


def call(call_id: str, name: str = "add", **arguments: Any) -> tuple[str, str, str]:
    return call_id, name, json.dumps(arguments)


async def converse(*replies: Reply, prompt: Any = "Go.", stream: bool = True, **settings: Any) -> Any:
    """The run, its events and what the model was asked, when all is over."""
    async with ModelServer(*replies) as server:
        run = Agent(engine(), OpenAIModel(server.client, "scripted", stream=stream), **settings).run(prompt)
        events = [event async for event in run]
    return run, events, server.requests


def last(events: list[Event]) -> RunEndedEvent:
    assert [event.type for event in events].count("run_ended") == 1
    assert isinstance(events[-1], RunEndedEvent)
    return events[-1]


def told(request: dict[str, Any]) -> list[str]:
    """What the model has been told of its calls so far."""
    return [message["content"] for message in request["messages"] if message["role"] == "tool"]


@pytest.mark.parametrize("stream", [True, False])
async def test_the_model_asks_is_told_and_answers(stream: bool) -> None:
    two = [call("c1", a=2, b=3), call("c2", a=10, b=20)]
    run, events, requests = await converse(
        Reply("Let me see.", two), Reply("It is 5 and 30."), stream=stream, system="Be brief."
    )
    assert run.answer == "It is 5 and 30."
    assert last(events).reason == run.reason == RunEnd.FINAL_ANSWER
    assert [each["role"] for each in requests[1]["messages"]] == ["system", "user", "assistant", "tool", "tool"]
    assert told(requests[1]) == ["5", "30"]
    assert [each["tool_call_id"] for each in requests[1]["messages"][3:]] == ["c1", "c2"]
    assert requests[1]["messages"][2]["content"] == "Let me see."
    assert requests[0]["model"] == "scripted"
    offered = {each["function"]["name"] for each in requests[0]["tools"]}
    assert offered == {"add", "fetch", "forever", "transfer", "log_in"}
    assert run.messages == [*requests[1]["messages"][1:], {"role": "assistant", "content": "It is 5 and 30."}]


@pytest.mark.parametrize("cut", [1, 3, 1000])
async def test_events_say_what_happens_while_it_happens(cut: int) -> None:
    _, events, _ = await converse(Reply("Hm.", [call("c1", a=2, b=3), call("c2", a=1, b=1)], cut=cut), Reply("5"))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for call_id in ("c1", "c2"):
        mine = [event for event in events if getattr(event, "id", None) == call_id]
        written = [event for event in mine if isinstance(event, ToolArgumentsEvent)]
        assert mine[: len(written)] == written
        assert json.loads("".join(event.delta for event in written))
        assert_told_in_full(mine[len(written) :])
    said = [event for event in events if isinstance(event, ThinkingEvent)]
    assert "".join(event.content for event in said if event.piece) == "Hm.5"
    assert [event.content for event in said if not event.piece] == ["Hm."]
    assert [event.type for event in events[-2:]] == ["final_answer", "run_ended"]


async def test_a_call_starts_as_soon_as_it_is_complete_while_the_model_still_writes_the_next() -> None:
    reply = Reply(calls=[call("c1", a=2, b=3), call("c2", a=1, b=1)], cut=1000, held=4)
    async with ModelServer(reply, Reply("done")) as server:
        run = Agent(engine(), OpenAIModel(server.client, "scripted")).run("Go.")
        async for event in run:
            if event.type == "tool_result":
                if not reply.go_on.is_set():
                    assert len(run.invocations) == 1
                reply.go_on.set()
    assert (run.reason, len(run.invocations)) == (RunEnd.FINAL_ANSWER, 2)


async def test_success_partial_and_error_are_told_apart_and_lead_the_model_on() -> None:
    calls = [call("c1", a=1, b=1), call("c2", "fetch", page=7), call("c3", "fetch", page=0), call("c4", "nope")]
    calls += [("c5", "add", '{"a": 1'), call("c6", a="one")]
    run, _, requests = await converse(Reply(calls=calls), Reply("ok"))
    success, partial, failed, unknown, broken, invalid = told(requests[1])
    assert success == "2"
    assert partial.startswith("This result is incomplete. Reason: truncated.")
    assert failed.startswith("Error EXECUTION_ERROR: ")
    assert unknown.startswith("Error NOT_FOUND: ")
    assert broken.startswith("Error INVALID_FORMAT: ")
    assert invalid.startswith("Error INVALID_PARAM: ")
    sent_back = requests[1]["messages"][1]["tool_calls"]
    assert [json.loads(each["function"]["arguments"]) for each in sent_back][4] == {}  # or the provider would refuse it
    assert [each.attempts for each in run.invocations if each.id == "c5"] == [[]]


async def test_the_conversation_can_go_on() -> None:
    run, *_ = await converse(Reply(calls=[call("c1", a=2, b=3)]), Reply("5"))
    later, _, requests = await converse(
        Reply("5, as I said"), prompt=[*run.messages, {"role": "user", "content": "Sure?"}]
    )
    assert requests[0]["messages"] == later.messages[:-1]
    assert [each["role"] for each in later.messages] == ["user", "assistant", "tool", "assistant", "user", "assistant"]


async def test_a_call_is_approved_by_its_uid() -> None:
    async with ModelServer(Reply(calls=[call("c1", "transfer", amount=5)]), Reply("sent")) as server:
        run = Agent(engine(), OpenAIModel(server.client, "scripted")).run("Pay.")
        async for event in run:
            if getattr(event, "status", None) == "AWAITING_APPROVAL":
                assert run.invocation(event.uid).approve()  # type: ignore[attr-defined]  # it speaks of a call
        assert told(server.requests[1]) == ["sent 5"]


# -- what is unfinished, doubled or hidden ---------------------------------------------------------------------------


async def test_a_stream_that_breaks_off_runs_what_is_complete_and_nothing_else() -> None:
    calls = [call("c1", a=2, b=3), ("c2", "add", '{"a": 1, "b": 1} ')]
    with logged() as lines:
        run, events, requests = await converse(Reply(calls=calls, cut=12, breaks_off=6))
    assert last(events).reason == RunEnd.MODEL_ERROR
    complete, broken = run.invocations
    assert (complete.id, complete.state) == ("c1", "COMPLETED")
    assert (broken.id, broken.attempts, broken.error and broken.error.reason) == ("c2", [], "cut_off")
    assert len(requests) == 1
    assert [each["role"] for each in run.messages] == ["user", "assistant", "tool", "tool"]
    assert "model failed" in [line["event"] for line in lines]


async def test_a_message_without_an_end_counts_as_broken_off() -> None:
    async def model(messages: Any, tools: Any) -> AsyncIterator[Any]:
        yield {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "forever"}}]}}]}

    run = Agent(engine(), model).run("Go.")
    assert last([event async for event in run]).message == "the model's message broke off"
    assert run.reason == RunEnd.MODEL_ERROR
    assert [each.attempts for each in run.invocations] == [[]]


async def test_a_call_that_is_cut_off_at_the_limit_is_not_run_and_the_model_is_told() -> None:
    calls = [call("c1", a=2, b=3), ("c2", "add", '{"a": 1'), ("c3", "forever", "")]
    run, events, requests = await converse(Reply(calls=calls, finish="length"), Reply("5"))
    added, *refused = told(requests[1])
    assert added == "5"
    assert all(text.startswith("Error INVALID_FORMAT: Your message was cut off at its limit") for text in refused)
    assert [each.attempts == [] for each in run.invocations] == [False, True, True]
    assert last(events).reason == RunEnd.FINAL_ANSWER


async def test_an_answer_that_is_cut_off_says_so() -> None:
    run, events, _ = await converse(Reply("It is", finish="length"))
    assert (run.answer, last(events).reason) == ("It is", RunEnd.CUT_OFF)


async def test_a_second_call_of_the_same_id_is_refused_and_both_are_answered_under_ids_of_their_own() -> None:
    _, _, requests = await converse(Reply(calls=[call("same", a=1, b=1), call("same", a=2, b=2)]), Reply("ok"))
    first, second = told(requests[1])
    assert first == "2"
    assert second.startswith("Error INVALID_PARAM: Another call of the same message has this id")
    ids = [each["tool_call_id"] for each in requests[1]["messages"] if each["role"] == "tool"]
    assert ids == [each["id"] for each in requests[1]["messages"][1]["tool_calls"]]
    assert len(set(ids)) == 2


async def test_the_same_id_in_the_next_message_is_another_call() -> None:
    replies = [Reply(calls=[call("call_0", a=number, b=0)]) for number in (1, 2)]
    _, _, requests = await converse(*replies, Reply("ok"))
    assert told(requests[2]) == ["1", "2"]


async def test_a_call_without_an_id_gets_one_by_which_it_is_written_and_answered() -> None:
    _, events, requests = await converse(Reply(calls=[call("", a=2, b=3)]), Reply("5"))
    (made,) = {event.id for event in events if hasattr(event, "id")}
    assert made.startswith("call_")
    assert events[[event.type for event in events].index("tool_call") - 1].type == "tool_arguments"
    assert requests[1]["messages"][1]["tool_calls"][0]["id"] == requests[1]["messages"][2]["tool_call_id"] == made


async def test_arguments_of_a_tool_that_hides_some_are_not_shown_as_they_are_written() -> None:
    _, events, _ = await converse(
        Reply(calls=[call("c1", "log_in", user="ann", password="hunter2"), call("c2", "nope")]), Reply("ok")
    )
    assert "tool_arguments" not in {event.type for event in events}
    assert "hunter2" not in json.dumps([event.to_dict() for event in events])


async def test_late_pieces_are_logged_and_dropped() -> None:
    with logged() as lines:
        run, *_ = await converse(Reply(calls=[("c1", "add", '{"a": 1, "b": 1}}')], cut=16), Reply("ok"))
    assert run.invocations[0].state == "COMPLETED"
    assert [line["count"] for line in lines if "late pieces" in line["event"]] == [1]


# -- limits ----------------------------------------------------------------------------------------------------------


async def test_the_number_of_turns_is_limited() -> None:
    replies = [Reply(calls=[call("c", a=number, b=0)]) for number in range(3)]
    run, events, requests = await converse(*replies, max_turns=2)
    assert (last(events).reason, len(requests), run.answer) == (RunEnd.MAX_TURNS, 2, None)
    assert last(events).message == "the model wanted more than 2 turns"


async def test_calls_beyond_the_limit_are_refused_and_the_model_is_told_to_answer() -> None:
    calls = [call(str(number), a=number, b=0) for number in range(3)]
    run, _, requests = await converse(Reply(calls=calls), Reply("ok"), max_calls=2)
    assert told(requests[1])[:2] == ["0", "1"]
    assert told(requests[1])[2].startswith(
        "Error PERMISSION_DENIED: All 2 calls that this conversation may make are used up."
    )
    assert run.invocations[2].attempts == []


async def scripted_forever(messages: Any, tools: Any) -> AsyncIterator[Any]:
    function = {"name": "forever", "arguments": "{}"}
    yield {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": function}]}}]}
    yield {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}


async def never_answers(messages: Any, tools: Any) -> AsyncIterator[Any]:
    await asyncio.get_running_loop().create_future()
    yield {}


@pytest.mark.parametrize("model", [scripted_forever, never_answers])
async def test_the_time_is_limited_for_tools_and_model_alike(model: Any) -> None:
    clock = VirtualClock()
    run = Agent(engine(clock=clock), model, max_seconds=60).run("Go.")
    run.begin()
    await idle()
    clock.advance(59)
    await idle()
    assert not run.is_over
    clock.advance(1)
    assert await run.wait() == RunEnd.MAX_SECONDS
    assert last([event async for event in run]).message == "the run may take 60 seconds"
    assert all(each.state == "CANCELLED" for each in run.invocations)
    assert clock.next_timer is None


async def test_no_time_limit_is_no_timer() -> None:
    clock = VirtualClock()
    run = Agent(engine(clock=clock), scripted_forever, max_seconds=None).run("Go.")
    run.begin()
    await idle()
    assert clock.next_timer is None
    assert run.cancel()
    assert await run.wait() == RunEnd.CANCELLED


async def test_an_identical_call_that_keeps_failing_is_stopped() -> None:
    """However the model spells the arguments. Other arguments are another call, and a success makes it good again."""
    spellings = ['{"page": 0}', '{ "page" : 0 }', '{"page": 0}']
    replies = [Reply(calls=[(f"c{number}", "fetch", text)]) for number, text in enumerate(spellings)]
    run, _, requests = await converse(*replies, Reply(calls=[call("d", "fetch", page=1)]), Reply("ok"))
    assert [len(each.attempts) for each in run.invocations] == [1, 1, 0, 1]
    assert told(requests[3])[2].startswith(
        "Error INVALID_PARAM: This very call has failed 2 times in this conversation"
    )


async def test_a_success_makes_a_call_good_again() -> None:
    outcomes = [False, True, False, True, False]

    @tool(read_only=True)
    async def flaky() -> str:
        if outcomes.pop():
            return "ok"
        raise ValueError

    async with ModelServer(
        *(Reply(calls=[(str(number), "flaky", "{}")]) for number in range(5)), Reply("ok")
    ) as server:
        with logged():
            run = Agent(ToolEngine([flaky]), OpenAIModel(server.client, "scripted")).run("Go.")
            await run.wait()
    assert [len(each.attempts) for each in run.invocations] == [1, 1, 1, 1, 1]


async def test_an_engine_that_is_closed_meanwhile_is_no_fault_of_the_models_and_its_stream_is_closed() -> None:
    steps = []
    own = engine()

    async def model(messages: Any, tools: Any) -> AsyncIterator[Any]:
        try:
            await own.aclose()
            async for chunk in scripted_forever(messages, tools):
                yield chunk
        finally:
            steps.append("closed")

    with logged():
        run = Agent(own, model).run("Go.")
        run.when_over(lambda: steps.append("over"))
        assert await run.wait() == RunEnd.CANCELLED
    assert steps == ["closed", "over"]
    assert last([event async for event in run]).message == "the engine is closing"


async def test_arguments_that_are_no_json_are_compared_as_they_are() -> None:
    replies = [Reply(calls=[("c", "add", '{"a": ')]) for _ in range(3)]
    _, _, requests = await converse(*replies, Reply("ok"))
    assert [text[:44] for text in told(requests[3])] == [
        *2 * ["Error INVALID_FORMAT: The arguments are not "],
        "Error INVALID_PARAM: This very call has fail",
    ]


@pytest.mark.parametrize("setting", ["max_turns", "max_calls", "max_seconds", "max_same_failures"])
def test_a_limit_out_of_range_is_refused(setting: str) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        Agent(engine(), scripted_forever, **{setting: 0})  # type: ignore[arg-type]  # each is a limit


# -- a model that fails ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "code"), [(401, "ACCESS_DENIED"), (429, "RATE_LIMIT"), (500, "API_ERROR")])
async def test_a_model_that_cannot_answer_ends_the_run_without_its_secrets(status: int, code: str) -> None:
    with logged() as lines:
        _, events, _ = await converse(Reply(status=status))
    end = last(events)
    assert end.reason == RunEnd.MODEL_ERROR
    assert end.message is not None
    assert end.message.startswith(f"the model could not answer: {code} (")
    assert "sk-secret" not in json.dumps([event.to_dict() for event in events])
    assert any(line["event"] == "model failed" for line in lines)


async def test_a_model_that_fails_in_its_text_keeps_what_it_has_said() -> None:
    async def model(messages: Any, tools: Any) -> AsyncIterator[Any]:
        yield {"choices": [{"delta": {"content": "It is"}}]}
        raise ConnectionError

    with logged():
        run = Agent(engine(), model).run("Go.")
        await run.wait()
    assert run.messages[-1] == {"role": "assistant", "content": "It is"}


class Chunks:
    """An async iterator that has no `aclose`."""

    def __init__(self) -> None:
        self.left = [{"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}]

    def __aiter__(self) -> Chunks:
        return self

    async def __anext__(self) -> Any:
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop()


async def test_any_async_iterator_will_do_as_a_model() -> None:
    run = Agent(engine(), lambda messages, tools: Chunks()).run("Go.")
    await run.wait()
    assert run.answer == "ok"


async def test_the_sdks_own_chunks_will_do() -> None:
    async with ModelServer(Reply(calls=[call("c", a=1, b=2)]), Reply("3")) as server:

        async def model(messages: Any, tools: Any) -> AsyncIterator[Any]:
            create: Any = server.client.chat.completions.create
            async for chunk in await create(model="m", messages=messages, tools=tools, stream=True):
                yield chunk

        run = Agent(engine(), model).run("Go.")
        await run.wait()
    assert run.answer == "3"


async def test_cancelling_a_run_closes_the_models_connection() -> None:
    reply = Reply("It is a long story.", held=3)
    async with ModelServer(reply) as server:
        run = Agent(engine(), OpenAIModel(server.client, "scripted")).run("Go.")
        async for event in run:
            if event.type == "thinking":
                break
        run.cancel()
        assert await run.wait() == RunEnd.CANCELLED
        reply.go_on.set()


async def test_no_tools_are_offered_where_there_are_none() -> None:
    async with ModelServer(Reply("Hi.")) as server:
        run = Agent(ToolEngine([]), OpenAIModel(server.client, "scripted", temperature=0.5)).run("Hello.")
        await run.wait()
    assert "tools" not in server.requests[0]
    assert server.requests[0]["temperature"] == 0.5


def test_a_client_that_blocks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="AsyncOpenAI"):
        OpenAIModel(openai.OpenAI(api_key="x"), "m")  # type: ignore[arg-type]  # the mistake


async def test_the_log_can_be_bounded_by_the_caller() -> None:
    log = RunLog(max_events=50)
    run = Agent(engine(), lambda messages, tools: Chunks()).run("Go.", log=log)
    assert run.log is log
    await run.wait()


# -- what a newcomer writes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a text", scripted_forever), r"ToolEngine, not 'a text'; write Agent\(ToolEngine"),
        ((None, scripted_forever), "ToolEngine, not None"),
        ((engine(), "gpt-4o"), r"OpenAIModel\(AsyncOpenAI\(\), 'gpt-4o'\)"),
        ((engine(), None), "model is None; give OpenAIModel"),
        ((engine(), OpenAIModel), "the class OpenAIModel; give an instance"),
        ((engine(), openai.AsyncOpenAI(api_key="x")), "say which model"),
    ],
)
def test_an_agent_of_something_else_is_refused_with_what_to_write(arguments: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Agent(*arguments)


def test_a_system_message_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="system is the text"):
        Agent(engine(), scripted_forever, system=["Be brief."])  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize("messages", [None, 5, {"role": "user", "content": "x"}, ["Hi"], [{"content": "x"}]])
def test_what_is_no_conversation_is_refused_and_named(messages: Any) -> None:
    with pytest.raises(ConfigurationError, match="messages"):
        Agent(engine(), scripted_forever).run(messages)


ASKS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}}],
}
SAYS = {"role": "assistant", "content": "5"}


def as_sdk(message: Any) -> Any:
    return ChatCompletion.model_validate(
        {
            "id": "x",
            "created": 1,
            "model": "m",
            "object": "chat.completion",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        }
    )


@pytest.mark.parametrize("is_yielded", [True, False])
@pytest.mark.parametrize(
    "form", [lambda message: message, lambda message: {"choices": [{"message": message}]}, as_sdk], ids="mcs"
)
async def test_a_model_may_give_its_message_whole(form: Any, is_yielded: bool) -> None:
    async def yields(messages: Any, tools: Any) -> AsyncIterator[Any]:
        yield form(ASKS if messages[-1]["role"] == "user" else SAYS)

    async def returns(messages: Any, tools: Any) -> Any:
        return form(ASKS if messages[-1]["role"] == "user" else SAYS)

    run = await Agent(engine(), yields if is_yielded else returns).run("2 + 3?")
    assert run.answer == "5"
    assert [each["role"] for each in run.messages] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("given", ["text", None, 5])
async def test_what_is_no_message_is_named_to_the_models_author(given: Any) -> None:
    async def model(messages: Any, tools: Any) -> AsyncIterator[Any]:
        yield given

    with logged():
        run = Agent(engine(), model).run("Go.")
        assert await run.wait() == RunEnd.MODEL_ERROR
    assert run.message == (
        "the model could not answer: a model function gives chunks of a chat completion, a whole one, or an assistant's "
        f"message, not {type(given).__name__}"
    )


async def test_a_stream_without_a_finish_reason_goes_on_after_calls_that_are_complete() -> None:
    async def model(messages: Any, tools: Any) -> AsyncIterator[Any]:
        if messages[-1]["role"] == "tool":
            yield {"choices": [{"delta": {"content": "5"}, "finish_reason": "stop"}]}
        else:
            function = {"name": "add", "arguments": '{"a": 2, "b": 3}'}
            yield {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": function}]}}]}

    assert (await Agent(engine(), model).run("Go.")).answer == "5"


async def test_an_empty_stream_says_that_it_was_empty() -> None:
    async def model(messages: Any, tools: Any) -> AsyncIterator[Any]:
        yield {"error": "busy"}

    run = Agent(engine(), model).run("Go.")
    await run.wait()
    assert run.message == "the model's message is empty: no chunk of a chat completion came"


# -- limits count where a turn is meant ------------------------------------------------------------------------------


async def test_equal_calls_of_one_message_that_fail_together_are_one_failure() -> None:
    twice = Reply(calls=[call("c1", "fetch", page=0), call("c2", "fetch", page=0)])
    run, *_ = await converse(
        twice, Reply(calls=[call("c3", "fetch", page=0)]), Reply(calls=[call("c4", "fetch", page=0)]), Reply("ok")
    )
    assert [len(each.attempts) for each in run.invocations] == [1, 1, 1, 0]


@pytest.mark.parametrize("together", [True, False])
async def test_calls_that_were_never_run_use_up_nothing_of_the_budget(together: bool) -> None:
    bad, good = [call("c1", "nope"), call("c2", a="one")], [call("c3", a=1, b=2), call("c4", a=2, b=2)]
    replies = [Reply(calls=bad + good)] if together else [Reply(calls=bad), Reply(calls=good)]
    run, *_ = await converse(*replies, Reply(calls=[call("c5", a=0, b=0)]), Reply("ok"), max_calls=2)
    assert [len(each.attempts) for each in run.invocations] == [0, 0, 1, 1, 0]
    assert run.invocations[-1].error.reason == "call_limit"


# -- a text ends where the next thing begins -------------------------------------------------------------------------


async def test_what_the_model_has_said_is_told_whole_before_the_calls_that_followed_it() -> None:
    async def model(messages: Any, tools: Any) -> AsyncIterator[Any]:
        if messages[-1]["role"] == "tool":
            yield {"choices": [{"delta": {"reasoning_content": "So"}}]}
            yield {"choices": [{"delta": {"content": "5"}, "finish_reason": "stop"}]}
            return
        yield {"choices": [{"delta": {"reasoning_content": "2 and "}}]}
        yield {"choices": [{"delta": {"reasoning_content": "3"}}]}
        yield {"choices": [{"delta": {"content": "Let me add."}}]}
        function = {"name": "add", "arguments": '{"a": 2, "b": 3}'}
        yield {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": function}]}}]}
        yield {"choices": [{"delta": {"content": "Done."}, "finish_reason": "tool_calls"}]}

    events = [event async for event in Agent(engine(), model).run("2 + 3?")]
    whole = [each for each in events if not (isinstance(each, ThinkingEvent) and each.piece)]
    told_ = [getattr(each, "content", each.type) for each in whole if each.type != "tool_execution"]
    assert told_[:4] == ["2 and 3", "Let me add.", "tool_arguments", "tool_call"]
    assert sorted(told_[4:6]) == ["Done.", "tool_result"]
    assert told_[6:] == ["So", "5", "run_ended"]


def test_the_guide_runs_and_prints_what_stands_below_it() -> None:
    page = Path(__file__).resolve().parents[1] / "docs" / "agent.md"
    assert_snippets_print_what_stands_below_them(page, more_than=4)


def test_code_without_a_loop_has_the_whole_run() -> None:
    async def model(messages: Any, tools: Any) -> Any:
        return SAYS if messages[-1]["role"] == "tool" else ASKS

    with engine_in_threads() as own:
        assert Agent(own, model).run_sync("2 + 3?").answer == "5"
        with pytest.raises(RunFailedError, match="max_turns"):
            Agent(own, model, max_turns=1).run_sync("2 + 3?")


@contextmanager
def engine_in_threads() -> Iterator[ToolEngine]:
    own = engine()
    try:
        yield own
    finally:
        own.close()


async def test_two_calls_of_one_id_are_told_apart_from_their_first_piece_on() -> None:
    """In one message, and in the next turn."""
    turns = 0

    async def add(a: int) -> int:
        return a

    async def model(messages: Any, tools: Any) -> Any:
        nonlocal turns
        turns += 1
        if turns == 3:
            yield {"choices": [{"delta": {"content": "done"}, "finish_reason": "stop"}]}
            return
        for index in range(2):
            for part in ('{"a": ', f"{turns}{index}", "}"):
                function = {"arguments": part} | ({"name": "add"} if part[0] == "{" else {})
                call = {"index": index, "id": "same", "function": function}
                yield {"choices": [{"delta": {"tool_calls": [call]}}]}
        yield {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}

    async with ToolEngine([add]) as engine:
        run = Agent(engine, model).run("Add")
        events = [event async for event in run]
    written: dict[str, str] = {}
    for event in events:
        if isinstance(event, ToolArgumentsEvent):
            written[event.uid] = written.get(event.uid, "") + event.delta
    assert sorted(written.values()) == ['{"a": 10}', '{"a": 11}', '{"a": 20}', '{"a": 21}']
    assert written == {each.uid: each.call.arguments for each in run.invocations}


async def test_half_a_character_leaves_no_conversation_and_no_event() -> None:
    """Whoever has said it: the model, the user, the system's message, a tool, or whoever stops the run."""
    half = "\ud83d"
    asked: list[Any] = []

    async def echo(text: str) -> str:
        return text + half

    async def model(messages: Any, tools: Any) -> Any:
        asked.append(messages)
        call = {"index": 0, "id": half, "function": {"name": "echo", "arguments": f'{{"text": "{half}"}}'}}
        unknown = {"index": 1, "id": "c2", "function": {"name": half, "arguments": "{}"}}
        yield {"choices": [{"delta": {"content": half, "tool_calls": [call, unknown]}, "finish_reason": "tool_calls"}]}

    async with ToolEngine([echo]) as engine:
        agent = Agent(engine, model, system=half, max_turns=2)
        events = [event async for event in agent.run([{"role": "user", "content": half, half: [half]}])]
        stopped = agent.run(half)
        stopped.cancel(half, half)
        events += [event async for event in stopped]
    for each in (*asked, *(event.to_dict() for event in events)):
        json.dumps(each, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize("leave_out", [(), ("reasoning_content", "extra_content")])
async def test_what_a_provider_says_beside_a_call_is_sent_back_unless_it_is_left_out(leave_out: Any) -> None:
    said = {
        "role": "assistant",
        "content": None,
        "reasoning_content": "2 and 3",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "extra_content": {"google": {"thought_signature": "SIG"}},
                "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'},
            }
        ],
    }
    async with ModelServer(Reply("5")) as server:
        conversation = [
            {"role": "user", "content": "2 + 3?"},
            said,
            {"role": "tool", "tool_call_id": "c1", "content": "5"},
        ]
        await Agent(engine(), OpenAIModel(server.client, "scripted", leave_out=leave_out)).run(conversation).wait()
        sent = server.requests[0]["messages"][1]
    assert ("SIG" in str(sent)) is ("2 and 3" in str(sent)) is (not leave_out)
    assert sent["tool_calls"][0]["function"]["name"] == "add"


@pytest.mark.parametrize("leave_out", ["reasoning_content", ["content"], ["role"]])
def test_a_field_that_every_message_needs_cannot_be_left_out(leave_out: Any) -> None:
    with pytest.raises(ConfigurationError, match="leave_out is a list of fields"):
        OpenAIModel(openai.AsyncOpenAI(api_key="x"), "m", leave_out=leave_out)
