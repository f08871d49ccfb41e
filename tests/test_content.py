"""What the model reads of results that are binary, hold nothing, or are not finished."""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import doctest
import itertools
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine import FallbackPolicy, ToolEngine, ToolResponse, ToolStatus, tool
from fsm_engine.response import content as _content
from fsm_engine.response.returned import standardise

from .support import play, virtual

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 230
TEXT = base64.b64encode(PNG).decode()
WORDS = "(59 kB of image/png, not shown)"


def test_examples_in_the_documentation_are_true() -> None:
    assert doctest.testmod(_content).failed == 0


BINARY: dict[str, Any] = {
    "bytes": PNG,
    "bytearray": bytearray(PNG),
    "bytes in an object": {"screenshot": PNG},
    "bytes in a list": [PNG],
    "MCP's image": [{"type": "image", "mimeType": "image/png", "data": TEXT}],
    "MCP's resource": [{"type": "resource", "resource": {"mimeType": "image/png", "blob": TEXT}}],
    "Anthropic's image": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": TEXT}},
    "OpenAI's image": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{TEXT}", "detail": "low"}}],
    "OpenAI's picture": {"b64_json": TEXT},
    "an address": f"data:image/png;base64,{TEXT}",
    "an address in an object": {"src": f"data:image/png;base64,{TEXT}"},
    "base64 in lines": {"type": "image", "data": "\n".join(TEXT[at : at + 76] for at in range(0, len(TEXT), 76))},
}


@pytest.mark.parametrize("value", BINARY.values(), ids=BINARY)
def test_binary_content_is_named_to_the_model_and_kept_in_the_data(value: Any) -> None:
    for made in (standardise(value), standardise(ToolResponse.success(data=value))):
        assert WORDS in made.text
        assert len(made.for_model()) < 300
        (attachment,) = made.attachments
        assert (attachment.media_type, attachment.size) == ("image/png", len(PNG))
        assert base64.b64decode(attachment.base64) == PNG
        assert (made.status, made.reason) == (ToolStatus.PARTIAL, "binary")
        assert ToolResponse.from_dict(json.loads(made.to_json())) == made


@pytest.mark.parametrize(
    "beside", [{"caption": "CPU"}, {"type": "text", "text": "CPU"}, {"load": 0.5}, ["CPU"]], ids=str
)
@pytest.mark.parametrize(
    "value", [each for each in BINARY.values() if not isinstance(each, str)][:8], ids=lambda value: type(value).__name__
)
def test_with_something_else_to_read_it_is_a_full_success(value: Any, beside: Any) -> None:
    made = standardise([value, beside])
    assert made.status is ToolStatus.SUCCESS
    assert WORDS in made.text
    assert json.dumps(beside, separators=(",", ":")) in made.text


def test_an_audio_block_says_what_it_is() -> None:
    block = {"type": "input_audio", "input_audio": {"data": TEXT, "format": "wav"}}
    made = standardise({"said": "hello", "voice": block})
    assert TEXT[:50] not in made.text
    assert "not shown" in made.text


@pytest.mark.parametrize("make", [standardise, ToolResponse.success, ToolResponse.partial])
def test_an_address_inside_a_text_is_replaced_and_the_data_has_the_whole(make: Callable[[str], ToolResponse]) -> None:
    text = f"See ![plot](data:image/png;base64,{TEXT}) for the load."
    made = make(text)
    assert made.text == f"See ![plot]({WORDS}) for the load."
    assert made.data == text
    assert len(made.attachments) == 1


def test_a_limit_is_held_by_what_the_model_reads() -> None:
    value = [{"type": "image", "mimeType": "image/png", "data": TEXT}, {"rows": list(range(1_000))}]
    read = standardise(value).for_model(500)
    assert len(read) < 700
    assert WORDS in read
    assert TEXT[:50] not in read


@pytest.mark.parametrize(
    "value",
    [
        {"data": "plain words that are no base64 at all"},
        {"type": "text", "data": "abcdefghijklmnopqrstuvwxyz"},
        {"type": "image", "data": "https://example.org/picture.png"},
        {"data": "abcdefghijklmnopqrstuvwxyz"},
        {"note": "say data:image/png;base64, and then"},
        {"base64": "no"},
        {"body": {"base64": True}},
    ],
)
def test_what_only_looks_like_it_is_read_as_it_is(value: Any) -> None:
    made = standardise(value)
    assert (made.status, made.attachments) == (ToolStatus.SUCCESS, ())
    assert json.loads(made.text) == value


@pytest.mark.parametrize(
    "value",
    ["a\0b", {"a\0": "b\0"}, ["\0"], [[{"x": ["a\0"]}]], {"a\0": 1, "a\ufffd": 2}, ToolResponse.success("a\0", "b\0")],
    ids=lambda value: type(value).__name__,
)
def test_no_result_holds_a_character_that_databases_refuse(value: Any) -> None:
    made = standardise(value)
    assert made.status is ToolStatus.SUCCESS
    assert "\0" not in made.text
    assert "\\u0000" not in made.to_json()
    assert "\ufffd" in made.text


def test_an_errors_words_hold_no_such_character_either() -> None:
    made = ToolResponse.from_exception(RuntimeError("a\0b"))
    assert "\\u0000" not in made.to_json()


class Handle:
    """Something that only its own program can use."""


async def _coroutine() -> int:
    return 7


NOTHING: dict[str, Callable[[], Any]] = {
    "a lock": threading.Lock,
    "an object": Handle,
    "a class": lambda: Handle,
    "a module": lambda: json,
    "a function": lambda: standardise,
    "objects in a list": lambda: [Handle(), Handle()],
    "an object under a name": lambda: {"handle": Handle()},
    "a response of that": lambda: ToolResponse.success(data=Handle()),
    "a generator of that": lambda: (Handle() for _ in range(3)),
}


@pytest.mark.parametrize("make", NOTHING.values(), ids=NOTHING)
async def test_a_result_that_holds_nothing_but_names_of_types_is_an_error_for_the_tools_author(
    make: Callable[[], Any],
) -> None:
    async def get() -> Any:
        return make()

    engine = virtual(get)
    invocation = await engine.execute_tool_call({"name": "get"})
    info = invocation.error
    assert invocation.state == "FAILED"
    assert info is not None
    assert (info.code, info.reason, info.counts, info.effect) == ("EXECUTION_ERROR", "unusable_result", False, "done")
    assert "Return text" in info.detail or "and return what" in info.detail
    assert "fault of the tool" in info.message


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (map(str, [1, 2]), ["1", "2"]),
        (zip("ab", [1, 2], strict=True), [["a", 1], ["b", 2]]),
        (filter(None, [0, 1]), [1]),
        (enumerate("a"), [[0, "a"]]),
        (reversed([1, 2]), [2, 1]),
        ((number for number in (1, 2)), [1, 2]),
        ({"rows": iter([1, 2])}, {"rows": [1, 2]}),
        (range(3), [0, 1, 2]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_iterator_is_read(value: Any, data: Any) -> None:
    made = standardise(value)
    assert (made.status, made.data) == (ToolStatus.SUCCESS, data)


def test_an_iterator_without_end_is_read_so_far_and_says_so() -> None:
    made = standardise(itertools.count())
    assert (made.status, made.reason) == (ToolStatus.PARTIAL, "truncated")
    assert made.data == list(range(10_000))


async def _pieces() -> Any:
    yield "a"
    yield "b"


def _plain_pieces() -> Any:
    yield "a"
    yield "b"


async def _later(value: Any) -> Any:
    await asyncio.sleep(0.01)
    return value


def _done_future() -> Any:
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    future.set_result(7)
    return future


UNFINISHED: dict[str, tuple[Callable[[], Any], Any]] = {
    "a coroutine": (_coroutine, 7),
    "a coroutine of a coroutine": (lambda: _later(_coroutine()), 7),
    "a future of a thread": (_done_future, 7),
    "an async generator": (_pieces, "ab"),
    "a generator": (_plain_pieces, "ab"),
    "a coroutine of a generator": (lambda: _later(_plain_pieces()), "ab"),
}


@pytest.mark.parametrize("form", ["async", "async that waits", "plain", "fallback"])
@pytest.mark.parametrize(("make", "result"), UNFINISHED.values(), ids=UNFINISHED)
async def test_what_a_function_returns_unfinished_is_finished(make: Callable[[], Any], result: Any, form: str) -> None:
    async def quick() -> Any:
        return make()

    async def slow() -> Any:
        await asyncio.sleep(0)
        return make()

    def plain() -> Any:
        return make()

    async def broken() -> Any:
        raise TimeoutError

    forms: dict[str, Any] = {
        "async": tool(name="get")(quick),
        "async that waits": tool(name="get")(slow),
        "plain": tool(name="get")(plain),
        "fallback": tool(name="get", fallback=FallbackPolicy(function=quick, on_failure=True))(broken),
    }
    async with ToolEngine([forms[form]]) as engine:
        invocation = await engine.execute_tool_call({"name": "get"})
    assert invocation.state == "COMPLETED", invocation.error
    assert invocation.result == result


async def test_a_task_that_was_returned_is_waited_for_within_the_time_limit() -> None:
    @tool(timeout=5)
    async def get() -> Any:
        return asyncio.ensure_future(asyncio.Event().wait())

    engine = virtual(get)
    invocation = await play(engine, engine.execute_tool_call({"name": "get"}))
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.reason) == ("TIMEOUT", "timeout")


BARE = "QUJD" * 10  # base64 that nothing declares as such
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=30),
    st.binary(max_size=30),
    st.builds(Handle),
    st.just(BARE),
    st.builds(lambda text: f"data:image/png;base64,{text}", st.just(TEXT[:40])),
    st.builds(iter, st.lists(st.integers(), max_size=3)),
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["type", "data", "mimeType", "base64", "size", "blob", "a\0"]), inner, max_size=4
        ),
    ),
    max_leaves=15,
)


@given(value=_VALUES)
def test_any_value_becomes_a_response_that_is_strict_json_and_reads_no_base64_of_bytes(value: Any) -> None:
    made = standardise(value)
    assert "\0" not in made.text
    assert json.loads(made.to_json())["status"] == made.status
    assert made.for_model()
    for attachment in made.attachments:
        assert len(attachment.base64) < 16 or attachment.base64 == BARE or attachment.base64 not in made.text
    assert ToolResponse.from_dict(json.loads(made.to_json())) == made
