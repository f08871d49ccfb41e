"""The log of a run: any number of readers, each at its own pace, late ones and stuck ones; and what it costs."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_engine import (
    ConfigurationError,
    Event,
    FinalAnswerEvent,
    GapEvent,
    ReaderDroppedError,
    RunEndedEvent,
    RunLog,
    ThinkingEvent,
    ToolArgumentsEvent,
    ToolErrorEvent,
    ToolExecutionEvent,
    ToolResponse,
)
from fsm_engine.engine.stream import CHUNKS_KEPT
from fsm_engine.events.log import BATCH, Reader

from .support import idle


def state(number: int = 0) -> Event:
    return ToolExecutionEvent(0, float(number), "i", "u", "EXECUTING", 1)


def progress(uid: str = "u") -> Event:
    return ToolExecutionEvent(0, 0.0, "i", uid, "EXECUTING", 1, 0.5)


def chunk(text: str = "x") -> Event:
    return ToolExecutionEvent(0, 0.0, "i", "u", "EXECUTING", 1, chunk=text)


def filled(count: int, **bounds: int) -> RunLog:
    log = RunLog(**bounds)
    for number in range(count):
        log.append(state(number))
    return log


async def rest(reader: Reader) -> list[Event]:
    return [event async for event in reader]


def numbers(events: list[Event]) -> list[int | str]:
    return [f"gap {event.seq}+{event.missed}" if isinstance(event, GapEvent) else event.seq for event in events]


async def test_every_reader_gets_everything_in_order_whenever_it_comes() -> None:
    log = RunLog()
    early = asyncio.create_task(rest(log.reader()))
    await idle()
    for number in range(200):
        log.append(state(number))
    late = asyncio.create_task(rest(log.reader()))
    await idle()
    log.append(state())
    log.close()
    after_the_end = await rest(log.reader())
    assert numbers(await early) == numbers(await late) == numbers(after_the_end) == list(range(1, 202))


@pytest.mark.parametrize(("after", "expected"), [(None, [1, 2, 3]), (0, [1, 2, 3]), (1, [2, 3]), (2, [3]), (3, [])])
async def test_a_reader_that_comes_back_gets_what_it_has_missed(after: int | None, expected: list[int]) -> None:
    log = filled(3)
    log.close()
    assert numbers(await rest(log.reader(after))) == expected


async def test_a_reader_waits_for_the_next_event_and_is_woken_by_it() -> None:
    log = RunLog()
    reader = log.reader()
    waiting = asyncio.create_task(reader.take())
    await idle()
    assert not waiting.done()
    log.append(state())
    assert numbers(await waiting) == [1]


async def test_a_cancelled_reader_leaves_nothing_behind() -> None:
    log = RunLog()
    waiting = asyncio.create_task(log.reader().take())
    await idle()
    assert len(log._waiting) == 1
    waiting.cancel()
    log.append(state())  # before its task has come to say so
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not log._waiting


async def test_a_reader_that_is_cancelled_while_nothing_happens_leaves_nothing_behind() -> None:
    log = RunLog()
    waiting = asyncio.create_task(log.reader().take())
    await idle()
    waiting.cancel()
    await idle()
    assert not log._waiting


async def test_a_reader_that_is_abandoned_is_forgotten() -> None:
    log = filled(1)
    await anext(log.reader())
    gc.collect()
    assert log.reader_count == 0


async def test_a_number_that_no_event_has_gets_all_there_is_and_is_told_so() -> None:
    log = filled(2)
    reader = log.reader(after=99)
    log.close()
    gap, *events = await rest(reader)
    assert gap.to_dict() == {"type": "gap", "seq": 0, "at": 0.0, "missed": 0, "reason": "unknown_id"}
    assert numbers(events) == [1, 2]


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        RunLog().reader(after=-1)


@pytest.mark.parametrize("bounds", [{"max_events": 7}, {"max_chars": 0}])
def test_a_bound_that_cannot_work_is_refused(bounds: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        RunLog(**bounds)


async def test_what_comes_after_the_end_is_left_out() -> None:
    log = filled(1)
    log.close()
    log.append(state())
    assert (len(log), log.last_seq, log.is_closed) == (1, 1, True)


# -- when it is full -------------------------------------------------------------------------------------------------


async def test_old_progress_and_chunks_go_first_and_a_gap_stands_for_them() -> None:
    log = RunLog(max_events=16)
    for event in (state(), *(progress(uid) for uid in "uvuuu"), *(state() for _ in range(11))):
        log.append(event)
    log.close()
    assert numbers(await rest(log.reader())) == [1, "gap 2+1", 3, "gap 4+2", *range(6, 18)]  # the newest of each call
    assert log.lost_to == 0


async def test_the_newest_quarter_is_never_thinned_out() -> None:
    """So a reader that stays that near to the end misses nothing, however much there is."""
    log = RunLog(max_events=1_000)
    reader = log.reader()
    seen: list[Event] = []
    for number in range(10_000):
        log.append(progress())
        if number % 250 == 249:
            while reader.last_seq < log.last_seq:
                seen += await reader.take()
    assert numbers(seen) == list(range(1, 10_001))


async def test_chunks_are_reduced_to_the_newest_hundred() -> None:
    log = RunLog(max_events=400)
    for _ in range(401):
        log.append(chunk())
    assert len(log) == CHUNKS_KEPT + 100  # and the newest quarter
    log.close()
    assert numbers(await rest(log.reader())) == ["gap 1+201", *range(202, 402)]


async def test_a_late_reader_is_told_what_is_lost() -> None:
    log = filled(17, max_events=16)
    assert (log.lost_to, len(log)) == (3, 14)
    log.close()
    gap, *events = await rest(log.reader(after=1))
    assert gap.to_dict() == {"type": "gap", "seq": 2, "at": 3.0, "missed": 2, "reason": "lost"}
    assert numbers(events) == list(range(4, 18))
    assert numbers(await rest(log.reader(after=3))) == numbers(events)


async def test_a_stuck_reader_is_dropped_and_one_that_keeps_up_is_not() -> None:
    log = RunLog(max_events=16)
    dropped: list[str] = []
    stuck, quick = log.reader(on_drop=lambda: dropped.append("stuck")), log.reader()
    unwatched = late = log.reader()
    for number in range(40):
        log.append(state(number))
        assert numbers(await quick.take()) == [number + 1]
        late = log.reader(after=0)  # not stuck: it has only just come
    assert (stuck.is_dropped, unwatched.is_dropped, quick.is_dropped, late.is_dropped) == (True, True, False, False)
    await idle()
    assert dropped == ["stuck"]
    with pytest.raises(ReaderDroppedError, match="after 0"):
        await stuck.take()
    assert log.reader_count == 2
    log.close()
    assert numbers(await rest(late))[0] == f"gap 1+{log.lost_to}"


async def test_a_reader_is_stuck_from_the_first_lost_event_on_that_it_has_not_read() -> None:
    log = RunLog(max_events=16)
    readers = [log.reader() for _ in range(2)]
    for number in range(17):
        log.append(state(number))
        if number < 3:
            await readers[1].take()
        if number < 2:
            await readers[0].take()
    assert log.lost_to == 3
    assert [reader.is_dropped for reader in readers] == [True, False]
    assert (await readers[1].take())[0].seq == 4


async def test_a_reader_that_is_dropped_while_it_works_off_a_batch_gets_the_batch_first() -> None:
    log = filled(8, max_events=8)
    reader = log.reader()
    assert (await anext(reader)).seq == 1
    for _ in range(20):
        log.append(state())
    assert numbers([await anext(reader) for _ in range(7)]) == list(range(2, 9))
    with pytest.raises(ReaderDroppedError, match="after 8"):
        await anext(reader)


async def test_a_reader_that_is_closed_is_counted_no_longer() -> None:
    log = filled(1)
    reader, other = log.reader(), log.reader()
    assert log.reader_count == 2
    reader.close()
    log.close()
    await rest(other)
    assert log.reader_count == 0


async def test_a_reader_that_never_has_to_wait_lets_others_run() -> None:
    log = filled(3 * BATCH)
    log.close()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await rest(log.reader())
    task.cancel()
    assert turns >= 2


@pytest.mark.parametrize(
    ("event", "is_lasting"),
    [
        (state(), True),
        (progress(), False),
        (chunk(), False),
        (ToolExecutionEvent(0, 0.0, "i", "u", "EXECUTING", 1, message="words"), False),
        (ToolArgumentsEvent(0, 0.0, "i", "u", "add", '{"a'), False),
        (ThinkingEvent(0, 0.0, "piece", piece=True), False),
        (ThinkingEvent(0, 0.0, "whole"), True),
        (FinalAnswerEvent(0, 0.0, "whole"), True),
        (RunEndedEvent(0, 0.0, "done"), True),
        (GapEvent(1, 0.0, 1), False),
    ],
)
def test_what_is_whole_lasts_and_what_is_a_piece_of_it_does_not(event: Event, is_lasting: bool) -> None:
    assert event.is_lasting is is_lasting


# -- texts -----------------------------------------------------------------------------------------------------------


async def test_the_text_is_one_line_of_ascii_and_written_once() -> None:
    log = RunLog()
    log.append(ThinkingEvent(0, 0.0, "a\r\nb\u2028ü"))
    reader = log.reader()
    (event,) = await reader.take()
    text = log.text(event)
    assert text.isascii()
    assert text.splitlines() == [text]
    assert log.text(event) is text
    assert json.loads(text) == event.to_dict()
    assert log.chars == len(text)


async def test_the_text_of_an_event_that_the_log_has_no_longer_and_of_a_gap_can_be_had() -> None:
    log = RunLog(max_events=8)
    reader = log.reader()
    log.append(state(7))
    (event,) = await reader.take()
    for number in range(20):
        log.append(state(number))
    assert json.loads(log.text(event)) == event.to_dict()
    assert json.loads(log.text(GapEvent(log.last_seq, 0.0, 5)))["type"] == "gap"


def test_values_that_are_no_json_do_not_break_the_log() -> None:
    log = RunLog()
    log.append(ToolExecutionEvent(0, 0.0, "i", "u", "AWAITING_APPROVAL", arguments={"of": object(), "n": float("nan")}))
    log.append(ThinkingEvent(0, 0.0, "half a character: \ud83d"))
    arguments, thinking = (json.loads(log.text(event)) for event in log._events)
    assert arguments["arguments"]["n"] == "NaN"
    assert thinking["content"].encode()


# -- bounds ----------------------------------------------------------------------------------------------------------


def test_memory_is_bounded_by_events_and_by_characters() -> None:
    """Scenario: a hundred stuck readers, and 40 MB of events for a log that keeps 1,000 of them, or a million characters."""
    log = RunLog(max_events=1_000, max_chars=1_000_000)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        asyncio.run(_flood(log))
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(log) <= 1_000
    assert log.chars <= 1_000_000
    assert log.chars == sum(map(len, log._texts.values()))
    assert used < 6 * 1_000_000


async def _flood(log: RunLog) -> None:
    readers = [log.reader() for _ in range(100)]
    for number in range(20_000):
        log.append(chunk("x" * 2_000 + str(number)) if number % 2 else state(number))
    assert all(reader.is_dropped for reader in readers)


def test_one_event_larger_than_the_log_is_kept() -> None:
    log = filled(5, max_events=8, max_chars=10)
    assert len(log) == 1


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["state", "progress", "chunk", "read", "come", "back"]), max_size=120),
    st.integers(8, 24),
)
async def test_no_reader_is_told_anything_twice_or_out_of_order_and_every_hole_is_a_gap(
    steps: list[str], bound: int
) -> None:
    log = RunLog(max_events=bound, max_chars=100_000)
    makers: dict[str, Any] = {"state": state, "progress": progress, "chunk": chunk}
    readers: list[tuple[list[Event], Reader]] = []
    for step in steps:
        if step in makers:
            log.append(makers[step]())
        elif step == "come":
            readers.append(([], log.reader()))
        elif readers:
            seen, reader = readers.pop(0)
            if step == "back" or reader.is_dropped:
                reader = log.reader(after=reader.last_seq)
            if reader.last_seq < log.last_seq:
                seen += await reader.take()
            readers.append((seen, reader))
    log.close()
    for taken, reader in readers:
        seen = [*taken, *await rest(log.reader(after=reader.last_seq) if reader.is_dropped else reader)]
        expected = 1
        for event in seen:
            assert event.seq == expected
            expected += event.missed if isinstance(event, GapEvent) else 1
        assert expected == log.last_seq + 1


@pytest.mark.parametrize("chunk", ["x" * 50_000, ["x" * 1_000] * 50], ids=["text", "list"])
def test_results_stay_while_any_piece_of_output_could_go(chunk: Any) -> None:
    """Three calls have ended; a fourth writes more than the whole log may hold."""
    log = RunLog(max_chars=500_000)
    for number in range(3):
        log.append(ToolErrorEvent(0, 0.0, f"c{number}", f"u{number}", "t", ToolResponse.error("TIMEOUT", "late")))
    for _ in range(100):
        log.append(ToolExecutionEvent(0, 0.0, "big", "big", "EXECUTING", 1, chunk=chunk))
    log.append(RunEndedEvent(0, 0.0, "done"))
    log.close()
    assert log.chars <= 500_000
    assert log.lost_to == 0
    kept = [event.type for event in log.unread(0)]
    assert kept.count("tool_error") == 3
    assert kept[-1] == "run_ended"


LASTING = st.builds(lambda size: FinalAnswerEvent(0, 0.0, "a" * size), st.integers(0, 200))
PIECES = st.builds(lambda size: ThinkingEvent(0, 0.0, "a" * size, piece=True), st.integers(0, 3_000))


@given(st.lists(LASTING | PIECES, min_size=1, max_size=120), st.integers(8, 40), st.integers(1_000, 20_000))
def test_nothing_that_lasts_is_lost_while_a_piece_is_kept(events: list[Event], count: int, chars: int) -> None:
    """Not until it alone is too much; the newest event, whatever it is, stays."""
    log = RunLog(max_events=count, max_chars=chars)
    for event in events:
        lost = log.lost_to
        log.append(event)
        if log.lost_to > lost:
            *older, _ = log._events
            assert all(each.is_lasting for each in older)
