"""Puts an engine's machine together: its lifecycle, the built-in hooks, the user's, and the activities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .activities import Activity
from .errors import ConfigurationError, LifecycleError
from .hooking import read_hooks, with_hooks
from .hooks.circuit import check_circuit
from .hooks.history import record_transitions
from .hooks.lease import release_lease, release_unused_lease
from .hooks.validation import check_arguments
from .lifecycle import Lifecycle
from .machine import LifecycleMachine
from .stages import Stages


def build_machine(lifecycle: Lifecycle, hooks: Iterable[Any], stages: Stages, logger: Any) -> LifecycleMachine:
    """The machine of an engine; its `lifecycle` is the given one with the user's hooks in it.

    Raises:
        ConfigurationError: an invocation could be left without an end, or a hook does not fit.
    """
    _check_endings(lifecycle)
    builtin = {
        "record": record_transitions(lifecycle.final_states, lifecycle.initial, logger),
        "check_arguments": check_arguments(stages, logger),
        "check_circuit": check_circuit,
        "release_lease": release_lease,
        "release_unused_lease": release_unused_lease,
    }
    whole, functions = with_hooks(lifecycle, read_hooks(hooks), builtin, logger)
    return LifecycleMachine(whole, functions)


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


def merge_activities(
    lifecycle: Lifecycle, builtin: Mapping[str, Activity], own: Mapping[str, Activity]
) -> dict[str, Activity]:
    """The activity of every state that is not final; the user's before the built-in ones.

    Raises:
        ConfigurationError: an activity is given for a state that does not exist, or a state has none.
    """
    names = lifecycle.by_name
    given = {str(name): activity for name, activity in own.items()}
    unknown = sorted(given.keys() - names.keys())
    if unknown:
        raise ConfigurationError(
            f"activities are given for states that do not exist: {', '.join(unknown)}; there are {', '.join(names)}"
        )
    merged = {**builtin, **given}
    idle = [state.name for state in lifecycle.states if not state.final and state.name not in merged]
    if idle:
        raise ConfigurationError(
            f"nothing would ever lead out of {', '.join(idle)}: give an activity for each, which answers a trigger"
        )
    return merged


def states_stopped_by_gates(lifecycle: Lifecycle) -> frozenset[str]:
    """States whose gates may refuse although no row of theirs asks whether one did: such a refusal ends the call."""
    return frozenset(
        state.name
        for state in lifecycle.states
        if state.gates and not {row.guard for row in lifecycle.rows_from(state.name)} & {"refused", "permitted"}
    )
