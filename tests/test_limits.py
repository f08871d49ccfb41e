"""Slots against a plain model, and by example."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine.concurrency.slots import SlotRequest, Slots


def silent() -> None:
    """Wake nobody."""


def test_a_free_slot_is_taken_at_once_and_a_taken_one_is_not() -> None:
    slots = Slots(2)
    assert [slots.try_acquire() for _ in range(3)] == [True, True, False]
    assert slots.held == 2
    slots.release()
    assert slots.held == 1
    assert slots.try_acquire()


def test_without_a_limit_any_number_is_held() -> None:
    slots = Slots(None)
    assert all(slots.try_acquire() for _ in range(1_000))
    assert slots.held == 1_000
    slots.release()
    assert slots.held == 999


def test_a_released_slot_goes_to_the_first_in_the_queue_before_anybody_else_can_take_it() -> None:
    slots = Slots(1)
    slots.try_acquire()
    seen: list[tuple[bool, int, bool]] = []
    request = slots.request(lambda: seen.append((request.granted, slots.held, slots.try_acquire())))
    assert (request.granted, slots.waiting) == (False, 1)
    slots.release()
    assert seen == [(True, 1, False)]
    assert slots.waiting == 0


def test_nobody_overtakes_the_queue() -> None:
    """Not even one who asks while a slot is free, from within the wake-up of another, say."""
    slots = Slots(2)
    slots.request(silent)
    assert not slots.try_acquire()


def test_who_withdraws_in_time_leaves_the_queue() -> None:
    slots = Slots(1)
    slots.try_acquire()
    woken: list[str] = []
    first, _ = slots.request(lambda: woken.append("first")), slots.request(lambda: woken.append("second"))
    slots.withdraw(first)
    assert slots.waiting == 1
    slots.release()
    assert woken == ["second"]


def test_who_withdraws_too_late_gives_the_slot_back_once() -> None:
    slots = Slots(1)
    slots.try_acquire()
    first, second = slots.request(silent), slots.request(silent)
    slots.release()
    assert (first.granted, second.granted) == (True, False)
    slots.withdraw(first)
    assert (first.granted, second.granted, slots.held) == (False, True, 1)
    slots.withdraw(first)
    assert (second.granted, slots.held) == (True, 1)
    slots.withdraw(second)
    assert slots.held == 0


@pytest.mark.parametrize("times", [1, 2])
def test_withdrawing_again_is_nothing(times: int) -> None:
    slots = Slots(1)
    slots.try_acquire()
    request = slots.request(silent)
    for _ in range(times):
        slots.withdraw(request)
    assert (slots.waiting, slots.held) == (0, 1)


def test_a_slot_that_nobody_waits_for_is_told_of_when_it_is_free_again() -> None:
    seen: list[tuple[int, bool]] = []
    slots = Slots(1, on_idle=lambda: seen.append((slots.held, slots.try_acquire())))
    slots.try_acquire()
    request = slots.request(silent)
    slots.release()
    assert seen == []  # it was handed on
    slots.withdraw(request)
    assert seen == [(0, True)]


def test_lines_take_turns() -> None:
    """Three calls of one tool came before the first of another, and do not all go first."""
    slots = Slots(1)
    slots.try_acquire()
    order: list[str] = []
    for name in ("a1", "a2", "a3", "b1", "c1", "b2"):
        slots.request(lambda name=name: order.append(name), line=name[0])
    for _ in range(6):
        slots.release()
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert (slots.waiting, slots.held) == (0, 1)


def test_a_line_that_everybody_has_left_has_no_turn() -> None:
    slots = Slots(1)
    slots.try_acquire()
    order: list[str] = []
    left = slots.request(lambda: order.append("left"), line="a")
    slots.request(lambda: order.append("b"), line="b")
    slots.withdraw(left)
    slots.withdraw(left)
    slots.release()
    assert (order, slots.waiting) == (["b"], 0)


STEPS = st.lists(st.tuples(st.sampled_from(["ask", "release", "withdraw"]), st.integers(0, 100)), max_size=60)


@given(limit=st.none() | st.integers(1, 4), steps=STEPS)
def test_slots_are_handed_on_in_the_order_of_asking_and_none_is_lost(
    limit: int | None, steps: list[tuple[str, int]]
) -> None:
    """Callers ask, release what they hold and withdraw while they wait; a counter and a deque say who holds what."""
    slots = Slots(limit)
    holders: list[int] = []
    queue: deque[int] = deque()
    requests: dict[int, SlotRequest] = {}
    woken: list[int] = []
    expected: list[int] = []

    def waker(caller: int) -> Callable[[], None]:
        return lambda: woken.append(caller)

    def hand_on() -> None:
        if queue:
            expected.append(queue.popleft())
            holders.append(expected[-1])

    for caller, (step, which) in enumerate(steps):
        if step == "ask":
            is_free = limit is None or len(holders) < limit
            assert slots.try_acquire() is is_free
            if is_free:
                holders.append(caller)
            else:
                requests[caller] = slots.request(waker(caller))
                queue.append(caller)
        elif step == "release" and holders:
            gone = holders.pop(which % len(holders))
            requests.pop(gone, None)
            slots.release()
            hand_on()
        elif step == "withdraw" and requests:
            gone = sorted(requests)[which % len(requests)]
            slots.withdraw(requests.pop(gone))
            if gone in holders:
                holders.remove(gone)
                hand_on()
            else:
                queue.remove(gone)
        assert slots.held == len(holders)
        assert limit is None or slots.held <= limit
        assert slots.waiting == len(queue)
        assert woken == expected
        assert {c for c, request in requests.items() if request.granted} == set(holders) & set(requests)
