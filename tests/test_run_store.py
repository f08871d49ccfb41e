"""Runs that outlive the request that began them: who finds them, for how long, and how many there may be."""

from __future__ import annotations

import asyncio

import pytest

from fsm_engine import (
    ConfigurationError,
    Ending,
    EngineClosedError,
    LiveRun,
    RunStore,
    ThinkingEvent,
    TooManyRunsError,
    VirtualClock,
)

from .support import idle, virtual


async def waits(run: LiveRun) -> None:
    await asyncio.get_running_loop().create_future()


async def speaks(run: LiveRun) -> Ending:
    run.publish(ThinkingEvent(0, 0.0, "hm"))
    return Ending("well", "all is well")


async def test_a_run_goes_on_by_itself_and_is_read_later_from_any_number() -> None:
    store = RunStore(virtual())
    stored = store.start(speaks, owner="ann")
    assert await stored.run.wait() == "well"
    found = store.find(stored.id, "ann")
    assert found is not None
    assert found is stored
    assert stored.is_over
    assert [event.type async for event in found.log.reader()] == ["thinking", "run_ended"]
    assert [event.to_dict()["message"] async for event in found.log.reader(after=1)] == ["all is well"]


async def test_a_run_is_found_by_its_owner_alone() -> None:
    store = RunStore(virtual())
    of_ann, of_nobody = store.start(speaks, owner="ann"), store.start(speaks)
    assert store.find(of_ann.id, "ann") is of_ann
    assert store.find(of_ann.id, "bob") is store.find(of_ann.id) is store.find("no such id", "ann") is None
    assert store.find(of_nobody.id) is of_nobody
    assert store.find(of_nobody.id, "ann") is None
    assert store.get(of_ann.id) is of_ann
    await store.aclose()


async def test_ids_cannot_be_guessed() -> None:
    store = RunStore(virtual())
    ids = [store.start(speaks).id for _ in range(50)]
    assert len(set(ids)) == 50
    assert min(map(len, ids)) == 32  # 24 random bytes
    await store.aclose()


async def test_a_run_that_has_ended_is_kept_for_the_set_time_and_one_under_way_for_ever() -> None:
    clock = VirtualClock()
    store = RunStore(virtual(), clock=clock, keep_seconds=60)
    short, long = store.start(speaks), store.start(waits)
    await short.run.wait()
    clock.advance(59.9)
    assert {each.id for each in store} == {short.id, long.id}
    clock.advance(0.1)
    assert store.get(short.id) is None
    assert len(store) == 1
    clock.advance(1e6)
    assert store.get(long.id) is long
    await store.aclose()


async def test_the_number_of_runs_is_bounded_and_the_one_that_ended_first_makes_room() -> None:
    store = RunStore(virtual(), max_runs=3)
    runs = [store.start(work) for work in (waits, speaks, speaks)]
    await runs[2].run.wait()
    await runs[1].run.wait()
    fourth = store.start(waits)
    assert [store.get(each.id) is not None for each in runs] == [True, False, True]
    fifth = store.start(waits)
    with pytest.raises(TooManyRunsError, match="3 runs"):
        store.start(speaks)
    assert {each.id for each in store} == {runs[0].id, fourth.id, fifth.id}
    await store.aclose()


async def test_the_logs_of_all_runs_together_are_bounded() -> None:
    async def speaks_at_length(run: LiveRun) -> None:
        run.publish(ThinkingEvent(0, 0.0, "x" * 1_000))

    store = RunStore(virtual(), max_chars=3_500)
    runs = [store.start(speaks_at_length) for _ in range(5)]
    for each in runs:
        await each.run.wait()
    assert [store.get(each.id) is not None for each in runs] == [False, False, True, True, True]
    assert sum(each.log.chars for each in store) <= 3_500


async def test_a_stored_run_is_stopped_and_its_calls_are_reached_by_uid() -> None:
    engine = virtual(forever)
    store = RunStore(engine)
    stored = store.start(LiveRun.of_calls(engine, [{"name": "forever"}]))
    await idle()
    (invocation,) = stored.run.invocations
    assert stored.invocation(invocation.uid) is invocation
    assert stored.cancel("seen enough")
    assert await stored.run.wait() == "seen enough"
    assert invocation.state == "CANCELLED"


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def test_closing_ends_what_is_under_way_and_begins_nothing_more() -> None:
    store = RunStore(virtual())
    stored, over = store.start(waits), store.start(speaks)
    await over.run.wait()
    await store.aclose()
    assert (stored.run.reason, over.run.reason) == ("cancelled", "well")
    with pytest.raises(EngineClosedError):
        store.start(speaks)


@pytest.mark.parametrize("settings", [{"max_runs": 0}, {"max_chars": 0}, {"keep_seconds": -1}])
def test_a_setting_out_of_range_is_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        RunStore(virtual(), **settings)  # type: ignore[arg-type]  # each is what its name takes
