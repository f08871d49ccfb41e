"""A message put together from its pieces: public bug reports of other libraries, and the rule behind all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_engine import ToolCall
from fsm_engine.providers.openai_stream import ArgumentsPiece, CompleteCall, MessageAssembler, TextPiece

NAMES = ["add", "edit", "edit_existing_file", "bash", "nana", "na"]


def chunk(*deltas: dict[str, Any], finish: str | None = None, **rest: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": list(deltas), **rest}, "finish_reason": finish}]}


def piece(index: Any = None, call_id: str | None = None, name: str | None = None, args: Any = None) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", args)) if value is not None}
    return {
        key: value
        for key, value in (("index", index), ("id", call_id), ("function", function or None))
        if value is not None
    }


def assemble(*pieces: dict[str, Any], finish: str | None = "tool_calls") -> list[ToolCall]:
    """The calls of a message that comes in these pieces, in the order of the message."""
    assembler = MessageAssembler(NAMES)
    complete = []
    for each in pieces:
        complete += [happened.call for happened in assembler.feed(chunk(each)) if isinstance(happened, CompleteCall)]
    assembler.feed(chunk(finish=finish))
    complete += [happened.call for happened in assembler.finish()]
    assert len(complete) == len(set(complete)), "a call is complete once"
    return [call.to_call() for call in assembler.calls if call in complete]


A, B = ToolCall("add", '{"a": 1}', "c1"), ToolCall("bash", '{"b": {"}": "\\"{"}}', "c2")

CASES = {
    "row 2: null arguments are an empty piece": (
        [
            piece(0, "c1", "add"),
            piece(0, args=None),
            {"index": 0, "function": {"arguments": None}},
            piece(0, args=A.arguments),
        ],
        [A],
    ),
    "row 23: equal indexes, two ids": (
        [piece(0, "c1", "add", A.arguments), piece(0, "c2", "bash", B.arguments)],
        [A, B],
    ),
    "row 23: equal indexes, two ids, in pieces": (
        [piece(0, "c1", "add", '{"a"'), piece(0, args=": 1}"), piece(0, "c2", "bash", ""), piece(0, args=B.arguments)],
        [A, B],
    ),
    "row 24: no index anywhere": ([piece(None, "c1", "add"), piece(args='{"a"'), piece(args=": 1}")], [A]),
    "row 26: the second call follows without an end of the first": (
        [piece(None, "c1", "add", '{"a": '), piece(args="1}"), piece(None, "c2", "bash"), piece(args=B.arguments)],
        [A, B],
    ),
    "row 26: the first has no arguments": (
        [piece(None, "c1", "add", ""), piece(None, "c2", "bash"), piece(args=B.arguments)],
        [ToolCall("add", "", "c1"), B],
    ),
    "row 28: interleaved, told by index": (
        [
            *(
                piece(0, "c1", "add", ""),
                piece(1, "c2", "bash", ""),
                piece(0, args='{"a": '),
                piece(1, args=B.arguments[:5]),
            ),
            *(piece(0, args="1}"), piece(1, args=B.arguments[5:])),
        ],
        [A, B],
    ),
    "row 28: interleaved, told by id": (
        [
            *(piece(None, "c1", "add"), piece(None, "c2", "bash"), piece(None, "c1", args='{"a": ')),
            *(piece(None, "c2", args=B.arguments), piece(None, "c1", args="1}")),
        ],
        [A, B],
    ),
    "row 28: the second is opened first": (
        [piece(1, "c2", "bash", B.arguments), piece(0, "c1", "add", A.arguments)],
        [A, B],
    ),
    "row 29: an empty first name": ([piece(0, "c2", "", ""), piece(0, name="bash"), piece(0, args=B.arguments)], [B]),
    "row 29: arguments wait for the name": ([piece(0, "c2", "", B.arguments), piece(0, name="bash")], [B]),
    "row 31: a name in pieces": (
        [piece(0, "c1", "edit_ex"), piece(0, name="isting_file"), piece(0, args="{}")],
        [ToolCall("edit_existing_file", "{}", "c1")],
    ),
    "row 31: a name in pieces, the arguments beside the first": (
        [piece(0, "c1", "edit_ex", "{}"), piece(0, name="isting_file")],
        [ToolCall("edit_existing_file", "{}", "c1")],
    ),
    "row 31: the name is said in every piece": (
        [
            piece(0, "c1", "add", '{"a"'),
            piece(0, "c1", "add", ": 1"),
            piece(0, "c1", "add", "}"),
            piece(0, "c1", "add", ""),
        ],
        [A],
    ),
    "a name that begins another is whole when the arguments are": (
        [piece(0, "c1", "edit", "{}")],
        [ToolCall("edit", "{}", "c1")],
    ),
    "row 32: an empty id": ([piece(0, "", "add"), piece(0, "", args=A.arguments)], [A._replace(id=None)]),
    "row 32: an id that comes late": ([piece(0, "", "add", '{"a"'), piece(0, "c1", args=": 1}")], [A]),
    "row 40: arguments after their end": (
        [piece(0, "c1", "add", '{"a": 1}'), piece(0, args="}"), piece(0, args=" \n")],
        [A],
    ),
    "no ids, one index for all, whole calls": (
        [piece(0, "", "add", '{"a": 1}'), piece(0, "", "bash", B.arguments)],
        [A._replace(id=None), B._replace(id=None)],
    ),
    "no ids, no indexes, the same tool twice": (
        [piece(None, None, "add", '{"a": 1}'), piece(None, None, "add", '{"a": 2}')],
        [ToolCall("add", '{"a": 1}'), ToolCall("add", '{"a": 2}')],
    ),
    "a call without an id, then one with": (
        [piece(None, None, "add", '{"a": 1}'), piece(None, "c2", "bash", B.arguments)],
        [A._replace(id=None), B],
    ),
    "an id in pieces": ([piece(0, "c"), piece(0, "1", "add"), piece(0, args=A.arguments)], [A]),
    "an id in pieces without an index": ([piece(None, "c"), piece(None, "1", "add"), piece(args=A.arguments)], [A]),
    "arguments as an object": ([piece(0, "c1", "add", {"a": 1})], [ToolCall("add", '{"a":1}', "c1")]),
    "arguments that are no object wait for the end": (
        [piece(0, "c1", "add", '"{\\"a\\"'), piece(0, args=': 1}"')],
        [ToolCall("add", '"{\\"a\\": 1}"', "c1")],
    ),
    "a list is no object": ([piece(0, "c1", "add", "[{}]")], [ToolCall("add", "[{}]", "c1")]),
    "a call with nothing in it is none": ([{}, piece(0), piece(1, args=" ")], []),
    "indexes as text and as floats": (
        [
            *(piece("0", "c1", "add"), piece(1.0, "c2", "bash", ""), piece(0, args='{"a": ')),
            *(piece("1", args=B.arguments), piece(0.0, args="1}")),
        ],
        [A, B],
    ),
    "an index that only the first piece lacks": ([piece(None, "c1", "add"), piece(0, args='{"a": 1}')], [A]),
    "an index that is missing while one call is open": (
        [piece(0, "c1", "add", '{"a": 1}'), piece(1, "c2", "bash"), piece(args=B.arguments)],
        [A, B],
    ),
    "a name that no tool has, said in every piece": (
        [piece(0, "c1", "read_files", '{"a"'), piece(0, "c1", "read_files", ": 1}"), piece(0, "c1", "read_files")],
        [A._replace(name="read_files")],
    ),
    "arguments without a name are a call, which the engine will refuse": (
        [piece(0, args='{"a": 1}')],
        [ToolCall("", '{"a": 1}')],
    ),
}


UNREADABLE = [None, "x", "", True, 0.5, [], {}, "9" * 50]


@pytest.mark.parametrize("index", UNREADABLE, ids=repr)
@pytest.mark.parametrize("opened", [("", ""), ('{"a": ', ""), ('{"a": ', '{"b": ')], ids=repr)
def test_a_piece_that_may_be_of_two_calls_runs_neither(index: Any, opened: tuple[str, str]) -> None:
    """First, one call ran with the arguments of another."""
    lost = {"index": index, "function": {"arguments": '{"to": "somebody"}'}}
    found = assemble(piece(0, "c1", "add", opened[0]), piece(1, "c2", "bash", opened[1]), lost)
    assert [call.id for call in found] == ["c1", "c2"]
    assert all(call.problem is not None for call in found)
    assert all("somebody" not in call.arguments for call in found)


@pytest.mark.parametrize(
    "lost",
    [
        piece(0, "c2", args='{"a": 1}'),  # index and id speak of two calls
        piece(7, args='{"a": 1}'),  # an index that no call has
    ],
)
def test_a_piece_of_nobody_runs_no_call_without_its_arguments(lost: dict[str, Any]) -> None:
    found = assemble(piece(0, "c1", "add"), piece(1, "c2", "bash"), lost)
    assert all(call.problem is not None for call in found)


def test_a_call_that_was_complete_before_is_not_touched_by_what_nobody_can_tell() -> None:
    found = assemble(
        *(piece(0, "c1", "add", '{"a": 1}'), piece(1, "c2", "bash"), piece(2, "c3", "na")),
        {"index": "?", "function": {"arguments": "{}"}},
    )
    assert [call.problem is None for call in found] == [True, False, False]


@pytest.mark.parametrize("case", CASES)
def test_pieces_come_to_the_calls_that_were_meant(case: str) -> None:
    pieces, calls = CASES[case]
    assert assemble(*pieces) == calls


def test_the_old_function_call_is_a_call_too() -> None:
    assembler = MessageAssembler(NAMES)
    for delta in ({"function_call": {"name": "add"}}, {"function_call": {"arguments": '{"a": 1}'}}):
        happened = assembler.feed({"choices": [{"delta": delta}]})
    assert [each.call.to_call() for each in happened if isinstance(each, CompleteCall)] == [A._replace(id=None)]


@pytest.mark.parametrize(
    "empty",
    [
        {},
        *({"choices": choices} for choices in ([], None, ["?"], [{}], [{"delta": None}])),
        {"choices": [{"delta": {"tool_calls": None, "content": None}}]},
        {"choices": [{"delta": {"tool_calls": [None]}}]},
        {"choices": [{"index": 1, "delta": {"content": "another wording"}, "finish_reason": "stop"}]},
    ],
)
def test_an_empty_chunk_changes_nothing(empty: dict[str, Any]) -> None:
    assembler = MessageAssembler(NAMES)
    assembler.feed(chunk(piece(0, "c1", "add", '{"a"')))
    assembler.feed(empty)
    assert (assembler.content, assembler.finish_reason) == ("", None)
    assembler.feed(chunk(piece(0, args=": 1}"), finish="tool_calls"))
    assert assembler.calls[0].to_call() == A


def test_text_and_reasoning_are_told_apart_and_kept_whole() -> None:
    assembler = MessageAssembler()
    happened = []
    for delta in ({"reasoning_content": "Hm. "}, {"reasoning": "Yes."}, {"content": "4"}, {"refusal": "2"}):
        happened += assembler.feed({"choices": [{"delta": delta}]})
    assert happened == [TextPiece("Hm. ", True), TextPiece("Yes.", True), TextPiece("4", False), TextPiece("2", False)]
    assert (assembler.reasoning, assembler.content) == ("Hm. Yes.", "42")


@pytest.mark.parametrize("finish", [None, "length", "content_filter"])
@pytest.mark.parametrize("cut_at", range(len(A.arguments)))
def test_an_unfinished_call_never_completes(finish: str | None, cut_at: int) -> None:
    """Nor does one without arguments, which would otherwise be complete by the end of the message."""
    assert assemble(piece(0, "c1", "add", A.arguments[:cut_at]), finish=finish) == []


def test_a_call_completes_with_the_piece_that_closes_its_arguments() -> None:
    assembler = MessageAssembler(NAMES)
    kinds = [
        [type(each) for each in assembler.feed(chunk(each))]
        for each in (piece(0, "c1", "add"), piece(0, args='{"a": "}'), piece(0, args='"'), piece(0, args="}"))
    ]
    assert kinds == [[], [ArgumentsPiece], [ArgumentsPiece], [ArgumentsPiece, CompleteCall]]


@pytest.mark.parametrize("cut_at", range(1, len(B.arguments)))
def test_wherever_the_arguments_are_cut_they_close_with_their_last_brace(cut_at: int) -> None:
    """Between a backslash and what it escapes, too."""
    assembler = MessageAssembler(NAMES)
    first = assembler.feed(chunk(piece(0, "c2", "bash", B.arguments[:cut_at])))
    second = assembler.feed(chunk(piece(0, args=B.arguments[cut_at:])))
    assert [type(each) for each in (*first, *second)] == [ArgumentsPiece, ArgumentsPiece, CompleteCall]


def test_late_pieces_are_counted() -> None:
    assembler = MessageAssembler(NAMES)
    for args in ('{"a": 1}}', " ", "}", "more"):
        assembler.feed(chunk(piece(0, "c1", args=args, name="add" if args[0] == "{" else None)))
    assert assembler.late == 3
    assert assembler.calls[0].to_call() == A


# -- the rule --------------------------------------------------------------------------------------------------------

json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\{}[],: \n', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='k"{}\\', max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
arguments = st.one_of(
    st.dictionaries(st.text(max_size=3), json_value, max_size=3).map(json.dumps),
    st.dictionaries(st.text(max_size=3), json_value, max_size=2).map(lambda value: json.dumps(value, indent=1)),
    st.sampled_from(["", "null", "[1, 2]", '"text"', '{"open": ', "not JSON {}"]),
)
calls = st.lists(st.tuples(st.sampled_from([*NAMES, "unknown"]), arguments), min_size=1, max_size=4)


def cut(text: str, draw: Callable[..., Any]) -> list[str]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@st.composite
def cut_calls(draw: st.DrawFn) -> tuple[list[ToolCall], list[dict[str, Any]]]:
    """Calls, and the pieces of them in some order that keeps each call's own; told by index, or by id, or by nothing."""
    meant = [ToolCall(name, text, f"call_{number}") for number, (name, text) in enumerate(draw(calls))]
    told_by = draw(st.sampled_from(["index", "index and id", "id", "order"]))
    if told_by == "order":  # with one that was left in the middle, nobody could tell what goes on with it
        meant = [call._replace(arguments="") if call.arguments == '{"open": ' else call for call in meant]
    queues: list[Iterator[dict[str, Any]]] = []
    for number, call in enumerate(meant):
        index = number if "index" in told_by else None
        always = {"id": call.id} if "id" in told_by else {}
        ids = [] if always else [{"id": part} for part in cut(call.id or "", draw)]
        names = [{"function": {"name": part}} for part in cut(call.name, draw)]
        texts = [{"function": {"arguments": part}} for part in cut(call.arguments, draw)]
        parts = [{**always, **part} | ({} if index is None else {"index": index}) for part in (*ids, *names, *texts)]
        queues.append(iter(parts))
    pieces = []
    waiting = list(queues)
    while waiting:
        queue = waiting[0] if told_by == "order" else draw(st.sampled_from(waiting))
        following = next(queue, None)
        if following is None:
            waiting.remove(queue)
        else:
            pieces.append(following)
    return meant, pieces


@settings(deadline=None)
@given(cut_calls(), st.data())
def test_any_way_of_cutting_a_message_gives_the_same_calls(cut_up: Any, data: st.DataObject) -> None:
    meant, pieces = cut_up
    places = sorted(data.draw(st.lists(st.integers(0, len(pieces)), max_size=8)))
    chunks = [pieces[start:end] for start, end in zip([0, *places], [*places, len(pieces)], strict=True)]
    assembler = MessageAssembler(NAMES)
    complete = []
    for each in chunks:
        complete += [happened.call for happened in assembler.feed(chunk(*each)) if isinstance(happened, CompleteCall)]
    assembler.feed(chunk(finish="tool_calls"))
    complete += [happened.call for happened in assembler.finish()]
    in_order = sorted(assembler.calls, key=lambda call: call.id)
    assert [call.to_call() for call in in_order] == meant
    assert len(complete) == len(meant)


@settings(deadline=None)
@given(cut_calls(), st.data())
def test_whatever_becomes_of_the_indexes_no_call_runs_with_the_arguments_of_another(
    cut_up: Any, data: st.DataObject
) -> None:
    """A call begins with its index, id and name; after that any index may be lost, or be written in another way."""
    meant, _ = cut_up
    meant = [call for call in meant if call.arguments.startswith("{") and call.arguments != '{"open": ']
    queues = [
        iter(
            [piece(number, call.id, call.name), *(piece(number, args=part) for part in cut(call.arguments, data.draw))]
        )
        for number, call in enumerate(meant)
    ]
    assembler = MessageAssembler(NAMES)
    ways = st.sampled_from([int, str, float, lambda _: None, lambda _: "x", lambda _: "missing"])
    while queues:
        queue = data.draw(st.sampled_from(queues))
        following = next(queue, None)
        if following is None:
            queues.remove(queue)
            continue
        if "id" not in following:
            index = data.draw(ways)(following.pop("index"))
            following |= {} if index == "missing" else {"index": index}
        assembler.feed(chunk(following))
    assembler.feed(chunk(finish="tool_calls"))
    assembler.finish()
    found = [call.to_call() for call in assembler.calls]
    for call in found:
        assert call.problem is not None or call in meant


@pytest.mark.parametrize("field", ["content", "reasoning_content", "arguments"])
def test_a_character_that_was_cut_in_two_is_joined(field: str) -> None:
    assembler = MessageAssembler(NAMES)
    told = ""
    for part in ('{"a": "', "x\ud83d", "\ude00", '"}'):
        delta = {field: part} if field != "arguments" else {"tool_calls": [piece(0, "c1", "add", part)]}
        for happened in assembler.feed({"choices": [{"delta": delta}]}):
            if isinstance(happened, TextPiece):
                told += happened.text
    whole = '{"a": "x\U0001f600"}'
    if field == "arguments":
        assert assembler.calls[0].to_call().arguments == whole
    else:
        assert told == whole


def test_what_the_provider_says_beside_calls_and_texts_goes_back_with_them() -> None:
    """First, a conversation died at its second turn, as the provider wanted its signature back."""
    assembler = MessageAssembler(NAMES)
    signed = {"google": {"thought_signature": "SIG"}}
    assembler.feed(chunk(piece(0, "c1", "add", '{"a"') | {"extra_content": signed}, reasoning_content="2 and "))
    assembler.feed(chunk(piece(0, args=": 1}"), reasoning_content="3", audio={"id": "a", "data": "AA"}))
    assembler.feed(
        chunk(reasoning_details=[{"index": 0, "type": "text", "text": "x", "signature": None}], audio={"data": "B"})
    )
    assembler.feed(chunk(reasoning_details=[{"index": 0, "type": "text", "text": "y"}], finish="tool_calls"))
    [call] = assembler.calls
    function = {"name": "add", "arguments": '{"a": 1}'}
    assert assembler.written({call: "c1"}) == {
        "content": None,
        "reasoning_content": "2 and 3",
        "audio": {"id": "a", "data": "AAB"},
        "reasoning_details": [{"index": 0, "type": "text", "text": "xy", "signature": None}],
        "tool_calls": [{"type": "function", "extra_content": signed, "id": "c1", "function": function}],
    }


def test_a_whole_completion_is_a_message_in_one_piece() -> None:
    assembler = MessageAssembler(NAMES)
    calls = [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}]
    message = {"role": "assistant", "content": "Adding.", "tool_calls": calls}
    happened = assembler.feed({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    assert [each.call.to_call() for each in happened if isinstance(each, CompleteCall)] == [A]
    assert assembler.content == "Adding."
