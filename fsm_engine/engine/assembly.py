"""Puts an engine's machine together: its lifecycle, the built-in hooks, the user's, and the activities."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..errors.exceptions import ConfigurationError, LifecycleError
from ..hooks.circuit import check_circuit
from ..hooks.history import record_transitions
from ..hooks.lease import release_lease, release_unused_lease
from ..hooks.specs import read_hooks, with_hooks
from ..hooks.validation import check_arguments
from ..invocation.stages import Stages
from ..machine.checks import ANY_UNFINISHED, near_misses
from ..machine.lifecycle import Hook, Lifecycle, Outcome, Row
from ..machine.machine import LifecycleMachine
from ..settings.callbacks import activity_problem
from ..states.invocation import INVOCATION
from .oversight import Activity, Oversight


def build_machine(
    lifecycle: Lifecycle, hooks: Iterable[Any], stages: Stages, logger: Any
) -> tuple[LifecycleMachine, Hook]:
    """The machine of an engine, and the hook that records; its `lifecycle` is the given one with the user's hooks in it.

    Raises:
        ConfigurationError: an invocation could be left without an end, or a hook does not fit.
    """
    _check_endings(lifecycle)
    _check_built_in_states(lifecycle)
    builtin: dict[str, Hook] = {
        "record": record_transitions(_outcomes(lifecycle), lifecycle.initial, logger),
        "check_arguments": check_arguments(stages, logger),
        "check_circuit": check_circuit,
        "release_lease": release_lease,
        "release_unused_lease": release_unused_lease,
    }
    whole, functions = with_hooks(lifecycle, read_hooks(hooks), builtin, logger)
    return LifecycleMachine(whole, functions), builtin["record"]


def _outcomes(lifecycle: Lifecycle) -> dict[str, Outcome | None]:
    """The kind of response of each final state; one that is declared anew under a built-in name takes what that takes."""
    built_in: dict[str, Outcome | None] = {state.name: state.outcome for state in INVOCATION.states}
    final = (state for state in lifecycle.states if state.final)
    return {state.name: state.outcome or built_in.get(state.name) for state in final}


def _check_endings(lifecycle: Lifecycle) -> None:
    if lifecycle.on_transition[:1] != ("record",):
        raise LifecycleError(
            f"the lifecycle {lifecycle.name!r} must name 'record' first in on_transition, or nothing would know that an "
            "invocation has ended; extend INVOCATION, or add it"
        )
    for state in lifecycle.states:
        for trigger in ("abort", "cancel"):
            rows = lifecycle.rows_from(state.name, trigger)
            ends = len(rows) == 1 and rows[0].guard is None and rows[0].dest in lifecycle.final_states
            if not (state.final or ends):
                raise LifecycleError(
                    f"the lifecycle {lifecycle.name!r} must have one row from {state.name} on {trigger!r}, unguarded and to "
                    f"a final state, or an invocation could be left without an end; Row(ANY_UNFINISHED, {trigger!r}, ...) "
                    "is one for all states"
                )


def _check_built_in_states(lifecycle: Lifecycle) -> None:
    """What the built-in activities rely on: checked arguments before an attempt, and a lease that is given back."""
    for state in INVOCATION.states:
        found = lifecycle.by_name.get(state.name)
        lost = [] if found is None else [*_lost(state.gates, found.gates), *_lost(state.on_exit, found.on_exit)]
        if lost:
            raise LifecycleError(
                f"the lifecycle {lifecycle.name!r} has the state {state.name} without its built-in {', '.join(lost)}; name "
                "them in the state, or extend INVOCATION, which keeps them"
            )
    if "EXECUTING" in _reached_unchecked(lifecycle):
        raise LifecycleError(
            f"the lifecycle {lifecycle.name!r} leads to EXECUTING past the gate 'check_arguments', so that a tool would run "
            "without its arguments; lead through VALIDATING, or hang that gate on a state on the way"
        )


def _lost(wanted: Iterable[str], there: Iterable[str]) -> list[str]:
    return [name for name in wanted if name not in there]


def _reached_unchecked(lifecycle: Lifecycle) -> set[str]:
    reached, todo = {lifecycle.initial}, [lifecycle.initial]
    while todo:
        for row in lifecycle.rows_from(todo.pop()):
            if row.dest not in reached and "check_arguments" not in lifecycle.by_name[row.dest].gates:
                reached.add(row.dest)
                todo.append(row.dest)
    return reached


def merge_activities(
    lifecycle: Lifecycle, builtin: Mapping[str, Activity], own: Mapping[str, Activity], oversight: Oversight
) -> dict[str, Activity]:
    """The activity of every state that is not final; the user's, watched, before the built-in ones.

    Raises:
        ConfigurationError: an activity is given for a state that does not exist or cannot do its work, a state has none,
            or a row waits for a trigger that the built-in activity of its source never answers.
    """
    names = lifecycle.by_name
    given = {str(name): activity for name, activity in own.items()}
    unknown = sorted(given.keys() - names.keys())
    if unknown:
        raise ConfigurationError(
            f"activities are given for states that do not exist: {', '.join(unknown)}; there are {', '.join(names)}"
        )
    for name, activity in given.items():
        if names[name].final:
            raise ConfigurationError(f"an activity is given for {name}, which is final: nothing is done in it")
        if problem := activity_problem(activity):
            raise ConfigurationError(f"the activity of {name} {problem}")
    _check_triggers(lifecycle, builtin.keys() - given.keys(), has_own=bool(given))
    merged = {**builtin, **{name: oversight.over(activity) for name, activity in given.items()}}
    idle = [state.name for state in lifecycle.states if not state.final and state.name not in merged]
    if idle:
        raise ConfigurationError(
            f"nothing would ever lead out of {', '.join(idle)}: give an activity for each, which answers a trigger"
        )
    return merged


def _check_triggers(lifecycle: Lifecycle, built_in: Collection[str], *, has_own: bool) -> None:
    """A row whose trigger nothing ever answers would never be taken, and what it was meant for never be done."""
    for row in lifecycle.rows:
        if row.source == ANY_UNFINISHED:
            allowed: Iterable[str] = INVOCATION.triggers
            if has_own and not near_misses(row.trigger, allowed):
                continue  # an activity of the user's may answer it
        elif row.source in built_in:
            allowed = dict.fromkeys(each.trigger for each in INVOCATION.rows_from(row.source))
        else:
            continue
        if row.trigger not in allowed:
            raise ConfigurationError(_words_for_trigger(row, tuple(allowed)))


def _words_for_trigger(row: Row, allowed: tuple[str, ...]) -> str:
    near = near_misses(row.trigger, allowed)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return (
        f"row {row}: nothing ever answers {row.trigger!r} there, so it would never be taken; {hint}the built-in activity "
        f"answers {', '.join(allowed)}, and one of your own, given by activities=, what you like"
    )


def states_stopped_by_gates(lifecycle: Lifecycle) -> frozenset[str]:
    """States whose gates may refuse although no row of theirs asks whether one did: such a refusal ends the call."""
    return frozenset(
        state.name
        for state in lifecycle.states
        if state.gates and not {row.guard for row in lifecycle.rows_from(state.name)} & {"refused", "permitted"}
    )
