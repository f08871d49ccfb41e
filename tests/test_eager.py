"""Coroutines that begin at once: whose task they see, how they are cancelled, what is left of them."""

from __future__ import annotations

import asyncio
import gc
import itertools
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from types import coroutine
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_engine.concurrency.eager import EagerRun, Spawner

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")
HELD: ContextVar[list[object]] = ContextVar("HELD")


class Nursery:
    """A spawner on the running loop, and which of its runs have ended later."""

    def __init__(self) -> None:
        self.spawner = Spawner()
        self.spawner.bind(asyncio.get_running_loop())
        self.ended: list[str] = []

    def begin(
        self, coro: Coroutine[Any, Any, Any], name: str = "it"
    ) -> tuple[EagerRun | None, Any, BaseException | None]:
        return self.spawner.start(coro, copy_context(), lambda: self.ended.append(name))

    def start(self, coro: Coroutine[Any, Any, Any], name: str = "it") -> EagerRun:
        """Begin what will wait."""
        run, result, error = self.begin(coro, name)
        assert run is not None
        assert (run.finished, result, error) == (False, None, None)
        return run

    async def outcome(self, coro: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
        """Begin anything, and see what comes of it now or later."""
        run, result, error = self.begin(coro)
        if run is None:
            return result, error
        await finished(run)
        return run.result, run.error


async def turns(count: int = 1) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def finished(run: EagerRun) -> EagerRun:
    """Turn the loop until the outcome is in; a hundred turns are plenty for everything here."""
    for _ in range(100):
        if run.finished:
            return run
        await asyncio.sleep(0)
    raise AssertionError("the run goes on")


async def answer(value: Any = 7) -> Any:
    return value


async def wait(gate: asyncio.Future[Any]) -> Any:
    return await gate


def gate() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


def this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """The loop has nothing to complain of, not even about what the garbage collector finds."""
    complaints: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    yield
    gc.collect()
    assert complaints == []


@pytest.mark.parametrize("suspensions", [0, 1, 2])
async def test_outcome_of_a_coroutine_that_returns(suspensions: int) -> None:
    async def tool() -> str:
        await turns(suspensions)
        return "done"

    nursery = Nursery()
    run, result, error = nursery.begin(tool())
    assert (run is None) == (suspensions == 0)
    if run is not None:
        await finished(run)
        result, error = run.result, run.error
    assert (result, error) == ("done", None)
    assert nursery.ended == (["it"] if suspensions else [])


async def test_what_answers_without_waiting_costs_no_turn_of_the_loop() -> None:
    """The outcome is there when `start` returns; nothing that was scheduled before has run."""
    turned: list[int] = []
    asyncio.get_running_loop().call_soon(turned.append, 1)
    nursery = Nursery()
    assert [nursery.begin(answer(number)) for number in range(5)] == [(None, number, None) for number in range(5)]
    assert (turned, nursery.ended) == ([], [])
    assert len(asyncio.all_tasks()) == 2  # this test's, and one that all five had


async def test_the_first_step_is_made_within_start() -> None:
    steps: list[str] = []

    async def tool() -> None:
        steps.append("first")
        await turns()
        steps.append("second")

    run = Nursery().start(tool())
    assert (steps, run.finished) == (["first"], False)
    await finished(run)
    assert steps == ["first", "second"]


# -- the current task, and what hangs on it -------------------------------------------------------------------------


async def test_the_current_task_is_the_runs_own_from_the_first_step_on() -> None:
    seen: list[Any] = []

    async def tool() -> None:
        seen.append(asyncio.current_task())
        await turns()
        seen.append(asyncio.current_task())

    caller = asyncio.current_task()
    run = Nursery().start(tool())
    task = run.task
    assert asyncio.current_task() is caller
    await finished(run)
    assert asyncio.current_task() is caller
    assert seen == [task, task]
    assert task is not caller


@pytest.mark.parametrize("error", [None, ValueError, SystemExit])
async def test_the_caller_is_current_again_however_the_first_step_ends(error: type[BaseException] | None) -> None:
    async def tool() -> None:
        if error is not None:
            raise error

    caller = asyncio.current_task()
    run, _, raised = Nursery().begin(tool())
    assert asyncio.current_task() is caller
    assert (run, type(raised)) == (None, error or type(None))


@pytest.mark.parametrize("suspensions", [0, 1])
async def test_a_callback_of_the_loop_can_start_a_run_though_it_is_no_task(suspensions: int) -> None:
    nursery, seen = Nursery(), []

    async def tool() -> None:
        seen.append(asyncio.current_task())
        await turns(suspensions)

    def callback() -> None:
        nursery.begin(tool())
        seen.append(asyncio.current_task())

    asyncio.get_running_loop().call_soon(callback)
    await turns(4)
    assert isinstance(seen[0], asyncio.Task)
    assert (seen[1:], nursery.ended) == ([None], ["it"] * suspensions)


async def test_time_limit_entered_before_the_first_suspension_ends_that_run_alone() -> None:
    async def tool() -> None:
        async with asyncio.timeout(0):
            await gate()

    with nothing_left_behind():
        run = await finished(Nursery().start(tool()))
        assert isinstance(run.error, TimeoutError)
        assert this_task().cancelling() == 0


async def test_time_limit_that_is_not_reached_changes_nothing() -> None:
    async def tool() -> int:
        async with asyncio.timeout(60):
            await turns(2)
        return 7

    run = await finished(Nursery().start(tool()))
    assert (run.result, run.error) == (7, None)


async def test_task_group_entered_before_the_first_suspension_belongs_to_the_run() -> None:
    async def tool() -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(answer(number)) for number in (1, 2)]
        return [task.result() for task in tasks]

    run = await finished(Nursery().start(tool()))
    assert run.result == [1, 2]


async def test_a_failing_child_of_a_task_group_stops_the_body_that_waits_since_the_first_step() -> None:
    async def fail() -> None:
        raise LookupError("child")

    async def tool() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await gate()

    with nothing_left_behind():
        run = await finished(Nursery().start(tool()))
        assert isinstance(run.error, ExceptionGroup)
        assert run.error.subgroup(LookupError) is not None
        assert len(asyncio.all_tasks()) <= 2


async def test_anyio_scopes_entered_before_the_first_suspension_work() -> None:
    async def tool() -> list[Any]:
        seen: list[Any] = []
        with anyio.move_on_after(0) as scope:
            await gate()
        seen.append(scope.cancelled_caught)
        with pytest.raises(TimeoutError), anyio.fail_after(0):
            await gate()
        async with anyio.create_task_group() as group:
            group.start_soon(answer)
            group.start_soon(wait, gate())
            await turns(2)
            group.cancel_scope.cancel()
        seen.append(group.cancel_scope.cancelled_caught)
        with anyio.CancelScope(shield=True):
            await turns()
        return seen

    with nothing_left_behind():
        run = Nursery().start(tool())
        task = run.task
        await finished(run)
        assert (run.error, run.result) == (None, [True, True])
        assert task.cancelling() == 0


async def test_an_anyio_scope_can_be_cancelled_from_outside_before_the_tasks_first_step() -> None:
    scopes: list[anyio.CancelScope] = []

    async def tool() -> str:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await gate()
        return "stopped"

    run = Nursery().start(tool())
    scopes[0].cancel()
    await finished(run)
    assert (run.result, run.error) == ("stopped", None)


async def test_context_variables_are_seen_throughout_and_do_not_leak() -> None:
    seen: list[str] = []

    async def tool() -> None:
        seen.append(NAME.get())
        NAME.set("tool")
        await turns()
        seen.append(NAME.get())
        NAME.set("still the tool")
        await asyncio.ensure_future(child())

    async def child() -> None:
        seen.append(NAME.get())

    token = NAME.set("caller")
    nursery = Nursery()
    run = nursery.start(tool())
    assert NAME.get() == "caller"
    NAME.set("changed meanwhile")
    await finished(run)
    assert (seen, NAME.get()) == (["caller", "tool", "still the tool"], "changed meanwhile")
    nursery.start(tool())
    assert (seen[3], NAME.get()) == ("changed meanwhile", "changed meanwhile")
    await turns(4)
    NAME.reset(token)


async def test_a_cancelled_run_unwinds_in_its_own_context() -> None:
    seen: list[str] = []

    async def tool() -> None:
        NAME.set("tool")
        try:
            await gate()
        finally:
            seen.append(NAME.get())

    nursery = Nursery()
    for waited in (0, 2):
        run = nursery.start(tool())
        await turns(waited)
        run.cancel()
        await finished(run)
    assert seen == ["tool", "tool"]


# -- cancelling -----------------------------------------------------------------------------------------------------

BEFORE_AND_AFTER = pytest.mark.parametrize("waited", [0, 1, 2], ids=["before its first step", "just after it", "later"])


@BEFORE_AND_AFTER
async def test_cancelling_a_run_that_waits_is_its_outcome(waited: int) -> None:
    """Its task ends without an error: nobody else hears of it."""
    nursery, awaited = Nursery(), gate()
    with nothing_left_behind():
        run = nursery.start(wait(awaited))
        task = run.task
        await turns(waited)
        run.cancel()
        await finished(run)
        assert isinstance(run.error, asyncio.CancelledError)
        assert (nursery.ended, awaited.cancelled()) == (["it"], True)
        await turns()
        assert (task.done(), task.cancelled()) == (True, False)


@BEFORE_AND_AFTER
async def test_cancelling_passes_on_the_message(waited: int) -> None:
    for awaited in (gate(), None):
        run = Nursery().start(turns(5) if awaited is None else wait(awaited))
        await turns(waited)
        run.task.cancel("enough")
        await finished(run)
        assert isinstance(run.error, asyncio.CancelledError)
        assert run.error.args == ("enough",)


@BEFORE_AND_AFTER
async def test_cancelling_reaches_a_task_that_the_run_waits_for(waited: int) -> None:
    """Nothing is left running: neither a child, nor the children of a `gather`."""
    children: list[asyncio.Task[Any]] = []

    async def alone() -> None:
        children.append(asyncio.ensure_future(wait(gate())))
        await children[-1]

    async def together() -> None:
        children.extend(asyncio.ensure_future(wait(gate())) for _ in range(2))
        await asyncio.gather(*children[-2:])

    for tool in (alone, together):
        run = Nursery().start(tool())
        await turns(waited)
        run.cancel()
        await finished(run)
        assert isinstance(run.error, asyncio.CancelledError)
    assert [child.cancelled() for child in children] == [True] * 3


async def test_a_run_waits_for_its_child_to_clean_up_as_any_task_does() -> None:
    """Also if it is cancelled before its task's first step; a child that refuses decides the outcome."""

    async def stubborn(cleaning: asyncio.Future[None]) -> str:
        try:
            await gate()
        except asyncio.CancelledError:
            await cleaning
        return "cleaned up"

    cleaning = gate()
    child = asyncio.ensure_future(stubborn(cleaning))
    await turns()
    run = Nursery().start(wait(child))
    run.cancel()
    await turns(5)
    assert not run.finished
    cleaning.set_result(None)
    await finished(run)
    assert (run.result, run.error) == ("cleaned up", None)


@BEFORE_AND_AFTER
async def test_cancelling_wins_over_a_result_that_the_coroutine_has_not_seen(waited: int) -> None:
    awaited = gate()
    run = Nursery().start(wait(awaited))
    await turns(waited)
    awaited.set_result("too late")
    run.cancel()
    await finished(run)
    assert isinstance(run.error, asyncio.CancelledError)
    assert awaited.result() == "too late"


@BEFORE_AND_AFTER
async def test_a_coroutine_that_swallows_the_cancellation_goes_on(waited: int) -> None:
    async def tool() -> str:
        for _ in range(2):
            try:
                await gate()
            except asyncio.CancelledError as cancelled:
                reasons.append(cancelled)
        await turns(2)
        return "went on"

    reasons: list[BaseException] = []
    with nothing_left_behind():
        nursery = Nursery()
        run = nursery.start(tool())
        task = run.task
        await turns(waited)
        run.cancel()
        await turns(3)
        assert (len(reasons), run.finished) == (1, False)
        run.cancel()
        await finished(run)
        assert (run.result, run.error, nursery.ended) == ("went on", None, ["it"])
        assert task.cancelling() == 2


async def test_cancelling_what_has_finished_is_nothing() -> None:
    run = Nursery().start(turns())
    task = run.task
    await finished(run)
    run.cancel()
    await turns()
    assert (run.error, task.cancelled()) == (None, False)


# -- outcomes -------------------------------------------------------------------------------------------------------


class OwnError(BaseException):
    """Nobody's business but the tool's."""


ERRORS = [
    ValueError("wrong"),
    asyncio.CancelledError("the tool's own"),
    TimeoutError(),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    StopAsyncIteration(),
    ExceptionGroup("several", [ValueError(), OSError()]),
    BaseExceptionGroup("grave", [SystemExit()]),
    OwnError(),
]


@pytest.mark.parametrize("suspensions", [0, 1, 2])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_whatever_a_coroutine_raises_is_an_outcome_and_no_more(error: BaseException, suspensions: int) -> None:
    async def tool() -> None:
        await turns(suspensions)
        raise error

    with nothing_left_behind():
        nursery = Nursery()
        assert await nursery.outcome(tool()) == (None, error)
        assert nursery.ended == (["it"] if suspensions else [])
        await turns()
        assert asyncio.all_tasks() == {this_task()}


@pytest.mark.parametrize("suspensions", [0, 1])
async def test_a_stop_iteration_that_a_coroutine_raises_is_no_result(suspensions: int) -> None:
    async def tool() -> None:
        await turns(suspensions)
        raise StopIteration(7)

    result, error = await Nursery().outcome(tool())
    assert (result, type(error)) == (None, RuntimeError)


@coroutine
def _yield(thing: Any) -> Generator[Any, Any, Any]:
    return (yield thing)


async def yielding(thing: Any) -> None:
    await _yield(thing)


@pytest.mark.parametrize("thing", [7, "text", answer], ids=["number", "text", "function"])
async def test_a_coroutine_that_yields_what_no_task_can_wait_for_is_told_so(thing: Any) -> None:
    run = await finished(Nursery().start(yielding(thing)))
    assert isinstance(run.error, RuntimeError)
    assert "bad yield" in str(run.error)


async def test_a_coroutine_that_yields_nonsense_can_be_cancelled_before_its_task_sees_it() -> None:
    run = Nursery().start(yielding(7))
    run.cancel()
    await finished(run)
    assert isinstance(run.error, asyncio.CancelledError)


async def test_an_outcome_is_taken_once() -> None:
    async def fail() -> None:
        await turns()
        raise ValueError("wrong")

    nursery = Nursery()
    run = await finished(nursery.start(wait(asyncio.ensure_future(answer()))))
    assert run.take() == (7, None)
    run = await finished(nursery.start(fail()))
    result, error = run.take()
    assert (result, type(error)) == (None, ValueError)
    assert (run.take(), run.finished) == ((None, None), True)


async def test_what_has_ended_is_freed_without_the_garbage_collector() -> None:
    """Though the task knows its run, and a context variable too: thousands of calls a second leave no rings behind."""
    nursery, held = Nursery(), list[object]()
    HELD.set(held)
    gc.disable()
    try:
        run = nursery.start(turns(2))
        HELD.set([])
        held.append(run)
        freed: list[Callable[[], object]] = [weakref.ref(run.task), weakref.ref(run)]
        del held
        await finished(run)
        del run
        await turns()
        assert [ref() for ref in freed] == [None, None]
    finally:
        gc.enable()


async def test_a_spare_is_freed_without_the_garbage_collector() -> None:
    tasks: list[Callable[[], object]] = []

    async def tool() -> None:
        tasks.append(weakref.ref(this_task()))

    nursery = Nursery()
    gc.disable()
    try:
        nursery.begin(tool())
        await turns()
        assert tasks[0]() is None
    finally:
        gc.enable()


async def test_somebody_else_can_be_told_of_the_end() -> None:
    nursery, told = Nursery(), []
    run = nursery.start(turns(2))
    run.when_ended(lambda: told.append((run.finished, run.error)))
    await finished(run)
    assert (told, nursery.ended) == ([(True, None)], [])


# -- tasks that are used again --------------------------------------------------------------------------------------


async def test_nothing_is_left_of_any_run_after_one_more_turn() -> None:
    before = asyncio.all_tasks()
    with nothing_left_behind():
        nursery = Nursery()
        for _ in range(3):
            nursery.begin(answer())
        waiting = nursery.start(turns())
        nursery.begin(answer())
        await finished(waiting)
        await turns()
        assert asyncio.all_tasks() == before


async def own_task() -> str:
    return this_task().get_name()


def task_called(name: str) -> asyncio.Task[Any]:
    return next(task for task in asyncio.all_tasks() if task.get_name() == name)


async def kept_task(kept: list[asyncio.Task[Any]]) -> str:
    kept.append(this_task())
    return kept[-1].get_name()


async def test_a_task_that_the_coroutine_has_kept_is_nobody_elses() -> None:
    """Or whoever kept it could cancel a stranger by it."""
    nursery, kept = Nursery(), list[asyncio.Task[Any]]()
    _, first, _ = nursery.begin(kept_task(kept))
    run = nursery.start(turns())
    assert run.task.get_name() != first
    await finished(run)
    assert kept[0].done()


async def test_a_spare_is_used_in_its_own_turn_only() -> None:
    """Its task has ended after that."""
    nursery = Nursery()
    _, first, _ = nursery.begin(own_task())
    assert nursery.begin(own_task()) == (None, first, None)
    await turns()
    assert first not in {task.get_name() for task in asyncio.all_tasks()}
    later = nursery.start(wait(awaited := gate()))
    assert later.task.get_name() != first
    awaited.set_result("later")
    assert (await finished(later)).result == "later"


async def test_a_run_may_wait_in_the_task_of_one_that_did_not() -> None:
    nursery = Nursery()
    _, task, _ = nursery.begin(own_task(), "first")
    run = nursery.start(wait(awaited := gate()), "second")
    assert run.task.get_name() == task
    awaited.set_result(3)
    await finished(run)
    assert (run.result, run.error, nursery.ended) == (3, None, ["second"])


@pytest.mark.parametrize("again", [False, True], ids=["cancelled", "cancelled and taken back"])
async def test_a_coroutine_that_cancels_its_own_task_does_not_cancel_the_next(again: bool) -> None:
    async def tool() -> int:
        this_task().cancel()
        if again:
            this_task().uncancel()
        return 7

    nursery = Nursery()
    assert nursery.begin(tool()) == (None, 7, None)
    run = await finished(nursery.start(turns(), "next"))
    assert (run.error, nursery.ended) == (None, ["next"])


@pytest.mark.parametrize("waited", [0, 1])
async def test_a_spare_whose_task_somebody_cancelled_is_not_used(waited: int) -> None:
    """Whoever cancels every task of the loop, at its end or in panic, does not hit the calls that follow."""
    nursery = Nursery()
    task = task_called(nursery.begin(own_task())[1])
    task.cancel()
    await turns(waited)
    with nothing_left_behind():
        run = await finished(nursery.start(turns()))
        assert run.error is None
        await turns()
        assert task.cancelled()


@BEFORE_AND_AFTER
async def test_a_spare_that_is_closed_ends_quietly(waited: int) -> None:
    with nothing_left_behind():
        task = task_called(Nursery().begin(own_task())[1])
        await turns(waited)
        task.get_coro().close()
        await turns(2)
        assert (task.done(), task.cancelled(), task.exception()) == (True, False, None)


async def test_a_task_whose_coroutine_raised_at_once_is_used_again_too() -> None:
    async def tool() -> None:
        raise OwnError(this_task().get_name())

    nursery = Nursery()
    _, _, error = nursery.begin(tool())
    assert error is not None
    assert nursery.begin(own_task()) == (None, *error.args, None)


async def test_spares_are_given_up_when_another_loop_is_bound() -> None:
    nursery = Nursery()
    _, first, _ = nursery.begin(own_task())
    nursery.spawner.bind(asyncio.get_running_loop())
    _, second, _ = nursery.begin(own_task())
    assert second is not first


Plan = tuple[int, bool, list[Any]]
PLANS: st.SearchStrategy[Plan] = st.recursive(
    st.tuples(st.integers(0, 3), st.booleans(), st.just([])),
    lambda plans: st.tuples(st.integers(0, 3), st.booleans(), st.lists(plans, max_size=3)),
    max_leaves=8,
)


class Nest:
    """Runs within runs; each waits some turns and returns or raises its own number."""

    def __init__(self) -> None:
        self.nursery = Nursery()
        self.waiting: list[tuple[EagerRun, int, bool]] = []
        self.numbers = itertools.count()

    def launch(self, suspensions: int, fails: bool, inner: list[Plan]) -> None:
        number = next(self.numbers)
        run, *outcome = self.nursery.begin(self.tool(number, suspensions, fails, inner), str(number))
        if run is None:
            self.check(outcome, number, fails)
        else:
            self.waiting.append((run, number, fails))

    async def tool(self, number: int, suspensions: int, fails: bool, inner: list[Plan]) -> int:
        mine = this_task()
        for index, plan in enumerate(inner):
            self.launch(*plan)
            assert this_task() is mine
            if index % 2:
                await turns(suspensions)
        await turns(suspensions)
        assert this_task() is mine
        if fails:
            raise OwnError(number)
        return number

    @staticmethod
    def check(outcome: Sequence[Any], number: int, fails: bool) -> None:
        result, error = outcome
        assert (result, error and error.args) == ((None, (number,)) if fails else (number, None))


@settings(max_examples=60)
@given(plans=st.lists(PLANS, min_size=1, max_size=6))
async def test_outcomes_are_never_mixed_up_however_runs_are_nested(plans: list[Plan]) -> None:
    with nothing_left_behind():
        nest = Nest()
        for plan in plans:
            nest.launch(*plan)
        await turns(60)
        for run, number, fails in nest.waiting:
            assert run.finished
            nest.check(run.take(), number, fails)
        assert sorted(nest.nursery.ended) == sorted(str(number) for _, number, _ in nest.waiting)
        assert asyncio.all_tasks() == {this_task()}


# -- what others look at --------------------------------------------------------------------------------------------


async def test_a_task_is_described_by_its_coroutine() -> None:
    """In `repr` and in a stack, for whoever looks for what hangs."""

    async def hanging() -> None:
        await gate()

    run = Nursery().start(hanging())
    task = run.task
    await turns()
    assert f"running at {__file__}" in repr(task)
    [frame] = task.get_stack()
    assert frame.f_code.co_name == "hanging"
    assert (run.cr_running, run.cr_suspended) == (False, True)
    assert run.cr_await is not None
    run.cancel()
    await finished(run)
    assert "running at" not in repr(task)
    assert (run.cr_running, run.cr_suspended, run.cr_await, run.cr_frame) == (False, False, None, None)


async def test_a_run_is_running_while_it_is_stepped() -> None:
    seen: list[bool] = []

    async def tool() -> None:
        await turns()
        seen.append(run.cr_running)

    run = Nursery().start(tool())
    await finished(run)
    assert seen == [True]


async def test_a_run_is_not_awaited() -> None:
    run = await finished(Nursery().start(turns()))
    with pytest.raises(TypeError, match="stepped by its task"):
        await run


@BEFORE_AND_AFTER
async def test_closing_unwinds_the_coroutine_and_its_task_ends_by_itself(waited: int) -> None:
    unwound: list[str] = []

    async def tool() -> None:
        try:
            await awaited
        finally:
            unwound.append("unwound")

    nursery, awaited = Nursery(), gate()
    with nothing_left_behind():
        run = nursery.start(tool())
        task = run.task
        await turns(waited)
        run.close()
        assert (unwound, run.finished, type(run.error), nursery.ended) == (["unwound"], True, GeneratorExit, ["it"])
        assert not awaited.cancelled()
        awaited.set_result(None)
        await turns(2)
        assert (task.done(), task.exception()) == (True, None)
        run.close()
        assert nursery.ended == ["it"]


async def test_closing_keeps_what_the_coroutine_raises_on_its_way_out() -> None:
    async def tool() -> None:
        try:
            await gate()
        finally:
            raise ValueError("on the way out")

    run = Nursery().start(tool())
    run.close()
    assert isinstance(run.error, ValueError)


async def test_closing_refuses_a_coroutine_that_goes_on_waiting() -> None:
    async def tool() -> None:
        try:
            await gate()
        except GeneratorExit:
            await turns()

    run = Nursery().start(tool())
    with pytest.raises(RuntimeError, match="went on waiting while it was closed"):
        run.close()
    await finished(run)
