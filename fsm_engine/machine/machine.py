"""A `Lifecycle` as a `transitions` machine that one thing alone may move: `LifecycleMachine.fire`.

One machine serves any number of models; a model is any object with a `state` attribute. `transitions` resolves its
callbacks anew at every trigger, which costs about ten microseconds; `CompiledEvent` resolves them once and then runs
the very same callbacks in the very same order (a differential test holds it to that).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from types import CodeType, FrameType, MappingProxyType
from typing import Any, NamedTuple, NoReturn, cast

from transitions import EventData, Machine, MachineError
from transitions import State as MachineState
from transitions.core import Event, Transition

from ..errors.exceptions import LifecycleError, ReentrantTransitionError, TransitionRefusedError
from ..forking import renew_in_children
from ..settings.callbacks import refuse_awaitable
from .lifecycle import Hook, Lifecycle, Row


class Firing(EventData):
    """What guards and hooks are told: the model, and what is happening to it.

    Attributes (beside those of `transitions.EventData`):
        model: the thing that moves (a `ToolInvocation`, in the engine).
        row: the declared row that is being tried (in a guard) or was taken (in a hook).
        source, trigger, dest: of that row.
    """

    # The base class sets nine attributes, one by one; what is the same for every firing is a class attribute here.
    args = ()
    kwargs: Mapping[str, Any] = MappingProxyType({})  # type: ignore[assignment]  # read-only, since all firings share it
    model: Any
    transition: Any = None
    error = None
    result = False

    def __init__(self, state: MachineState, event: Event, machine: Machine, model: Any) -> None:
        self.state = state
        self.event = event
        self.machine = machine
        self.model = model

    @property
    def row(self) -> Row:
        """The declared row."""
        row: Row = self.transition.row
        return row

    @property
    def source(self) -> str:
        """The state that is left."""
        return self.row.source

    @property
    def trigger(self) -> str:
        """What happened."""
        return self.row.trigger

    @property
    def dest(self) -> str:
        """The state that is entered."""
        return self.row.dest


_CHANGES = ("add_transition", "add_states", "remove_transition", "add_model")
"""What `transitions` lets people do to a machine that runs; its other methods of the kind go through these."""


class RowTransition(Transition):
    """A transition that knows the row it was made from."""

    def __init__(self, *args: Any, row: Row, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row = row


class _Compiled(NamedTuple):
    """What an event does in one state: `take` moves the model of a firing, or answers `False`."""

    state: MachineState
    take: Callable[[Any], bool]


class CompiledEvent(Event):
    """The stock event, with callbacks resolved at the first trigger and kept.

    It takes callables only (no names to look up on the model), `send_event=True`, and neither a queue,
    `on_exception` nor `finalize_event`: those three hide errors, and `LifecycleMachine` uses none of them.
    """

    by_source: dict[str, _Compiled] | None = None

    def compile(self) -> dict[str, _Compiled]:
        """Resolve every callback; what is added to the machine later is not seen."""
        self.by_source = {
            source: _Compiled(self.machine.get_state(source), _compile_rows(self.machine, rows))
            for source, rows in self.transitions.items()
        }
        return self.by_source

    def trigger(self, model: Any, *args: Any, **kwargs: Any) -> bool:
        """Take the first row whose conditions hold; answers whether there was one.

        Raises:
            MachineError: the model's state has no row for this event.
        """
        found = (self.by_source or self.compile()).get(model.state)
        if found is None:
            return bool(super().trigger(model, *args, **kwargs))
        event = Firing(found.state, self, self.machine, model)
        if args or kwargs:
            event.args, event.kwargs = args, kwargs
        return found.take(event)


def _compile_rows(machine: Machine, rows: Iterable[Transition]) -> Callable[[Any], bool]:
    """One function that tries the rows in their order: the calls of the stock event, written out one after the other.

    It is made of source text, as `dataclasses` make their methods: going through lists of callbacks, most of them
    empty, takes longer than the callbacks do. Nothing but names made here goes into the text.
    """
    names: dict[str, Any] = {}

    def name(value: Any) -> str:
        names[f"v{len(names)}"] = value
        return f"v{len(names) - 1}"

    def calls(callbacks: Iterable[Any], indent: str) -> list[str]:
        return [f"{indent}{name(_resolve(callback))}(event)" for callback in callbacks]

    lines = ["def take(event):", *calls(machine.prepare_event, "  ")]
    for row in rows:
        lines += [f"  event.transition = {name(row)}", *calls(row.prepare, "  ")]
        # transitions compares an answer; a guard of a lifecycle is tested for its truth, as people write them.
        test = "((answer := {asked}(event)) is True or answer is not False and {is_yes}(answer))"
        test = test if isinstance(row, RowTransition) else "{asked}(event) == {target}"
        tests = [
            test.format(asked=name(_resolve(each.func)), is_yes=name(_is_yes), target=bool(each.target))
            for each in row.conditions
        ]
        lines.append(f"  if {' and '.join(tests) or 'True'}:")
        lines += calls([*machine.before_state_change, *row.before], "    ")
        if row.dest:
            dest = machine.get_state(row.dest)
            lines += calls(machine.get_state(row.source).on_exit, "    ")
            lines += [f"    event.model.state = {name(dest.name)}", f"    event.state = {name(dest)}"]
            lines += calls([*dest.on_enter, *(machine.on_final if dest.final else [])], "    ")
        lines += calls([*row.after, *machine.after_state_change], "    ")
        lines += ["    event.result = True", "    return True"]
    exec("\n".join([*lines, "  return False"]), names)  # noqa: S102 # text of names that were made above
    take: Callable[[Any], bool] = names["take"]
    return take


def _is_yes(answer: Any) -> bool:
    """What a guard answers is tested for its truth, as people write them; what is to be awaited has none."""
    refuse_awaitable(answer)
    return bool(answer)


def _resolve(callback: Any) -> Callable[[Any], Any]:
    if not callable(callback):
        raise LifecycleError(f"{callback!r} is not a function; a compiled machine takes the function itself, no name")
    resolved: Callable[[Any], Any] = callback
    return resolved


class LifecycleMachine(Machine):
    """Runs any number of models through one lifecycle.

    Args:
        lifecycle: the declaration.
        hooks: the function behind every gate and hook name of the lifecycle. What they raise goes through `fire`
            with the state already changed, so whoever builds the machine wraps them first (the engine does).

    Raises:
        LifecycleError: a hook that the lifecycle names is missing, or one is given that it does not name.

    Example:
        >>> from types import SimpleNamespace
        >>> from fsm_engine import Lifecycle, Row, State
        >>> lamp = Lifecycle("lamp", "OFF", (State("OFF"), State("ON")),
        ...                  (Row("OFF", "press", "ON"), Row("ON", "press", "OFF")), perpetual=True)
        >>> machine, model = LifecycleMachine(lamp), SimpleNamespace(state="OFF")
        >>> machine.fire(model, "press"); model.state
        'ON'
    """

    event_cls = CompiledEvent
    transition_cls = RowTransition

    fire: Callable[[Any, str], None]
    """Move a model: guards pick the row, exit hooks run, the state is set, enter hooks run.

    Args:
        model: any object with a `state` attribute.
        trigger: what happened.

    Raises:
        TransitionRefusedError: no row takes this trigger in this state, or no guard passed; nothing has changed.
        ReentrantTransitionError: a hook or guard fired for the model that is being moved.
    """

    def __init__(self, lifecycle: Lifecycle, hooks: Mapping[str, Hook] | None = None) -> None:
        self.lifecycle = lifecycle
        hooks = hooks or {}
        _check_hooks(lifecycle, hooks)
        # transitions' stubs take functions that answer `bool | None` only; what a hook answers is nobody's concern.
        functions = cast("Mapping[str, Callable[..., bool | None]]", hooks)
        super().__init__(
            model=None,
            states=[
                MachineState(
                    name=state.name,
                    final=state.final,
                    on_enter=[functions[name] for name in (*state.gates, *state.on_enter)],
                    on_exit=[functions[name] for name in state.on_exit],
                )
                for state in lifecycle.states
            ],
            initial=lifecycle.initial,
            auto_transitions=False,
            send_event=True,
            after_state_change=[functions[name] for name in lifecycle.on_transition],
        )
        for row in lifecycle.moves:
            condition = None if row.guard is None else lifecycle.guards[row.guard]
            self.add_transition(row.trigger, row.source, row.dest, conditions=condition, row=row)
        events = cast("Mapping[str, CompiledEvent]", self.events)  # made by `event_cls`
        self._moving: dict[int, Firing] = {}
        self.fire = _make_fire(self, {name: (event, event.compile()) for name, event in events.items()}, self._moving)
        vars(self).update(dict.fromkeys(_CHANGES, self._refuse_change))
        renew_in_children(self._begin_in_child)

    def _begin_in_child(self) -> None:
        """In a child process: what another thread of the parent was just moving moves no more."""
        self._moving.clear()

    def _refuse_change(self, *_: Any, **__: Any) -> NoReturn:
        raise LifecycleError(
            f"a machine runs the lifecycle that it was made of, and {self.lifecycle.name!r} cannot be changed; make another "
            "machine of lifecycle.extended(states=..., rows=...); a model is handed to fire"
        )

    def triggers_from(self, state: str) -> tuple[str, ...]:
        """The triggers that a state has a row for, in the order of the table."""
        return tuple(dict.fromkeys(row.trigger for row in self.lifecycle.rows_from(state)))

    def guards_of(self, state: str, trigger: str) -> tuple[str, ...]:
        """The guards of the rows that a state has for a trigger, in the order in which they are asked."""
        return tuple(row.guard for row in self.lifecycle.rows_from(state, trigger) if row.guard)


def _make_fire(
    machine: LifecycleMachine,
    by_trigger: Mapping[str, tuple[CompiledEvent, dict[str, _Compiled]]],
    moving: dict[int, Firing],
) -> Callable[[Any, str], None]:
    # A function of its own, not a method: `Machine` has a `__getattr__`, which makes Python look every attribute of a
    # machine up the long way.
    new = object.__new__

    def fire(model: Any, trigger: str) -> None:
        key = id(model)
        firing = new(Firing)  # as `Firing(...)` does, without a call
        if moving.setdefault(key, firing) is not firing:  # one step, so that of two threads one is told
            raise ReentrantTransitionError(_why_refused(machine.lifecycle.name, trigger, fire.__code__, key))
        try:
            state = model.state
            try:
                event, by_source = by_trigger[trigger]
                source, take = by_source[state]
            except KeyError:
                raise TransitionRefusedError(state, trigger, allowed=machine.triggers_from(state)) from None
            firing.state, firing.event, firing.machine, firing.model = source, event, machine, model
            moved = take(firing)
        finally:
            del moving[key]
        if not moved:
            raise TransitionRefusedError(state, trigger, guards=machine.guards_of(state, trigger))

    return fire


def _why_refused(lifecycle: str, trigger: str, fire: CodeType, key: int) -> str:
    frame: FrameType | None = sys._getframe(2)  # beyond the `fire` that was refused
    while frame is not None:
        if frame.f_code is fire and frame.f_locals.get("key") == key:
            return (
                f"{trigger!r} was fired from a hook or guard while {lifecycle} moves; "
                "hooks may ask (invocation.cancel(), say), only the driver fires"
            )
        frame = frame.f_back
    return f"{trigger!r} was fired while another thread moves the same model through {lifecycle}; fire from one thread"


def _check_hooks(lifecycle: Lifecycle, hooks: Mapping[str, Hook]) -> None:
    missing = sorted(lifecycle.hook_names - hooks.keys())
    if missing:
        raise LifecycleError(
            f"The lifecycle {lifecycle.name!r} names hooks that were not given: {', '.join(missing)}. "
            "Give the function of each by that name, or take the name out of the state."
        )
    unused = sorted(hooks.keys() - lifecycle.hook_names)
    if unused:
        raise LifecycleError(
            f"Hooks were given that the lifecycle {lifecycle.name!r} does not name: {', '.join(unused)}. "
            f"It names: {', '.join(sorted(lifecycle.hook_names)) or 'none'}."
        )


__all__ = ["CompiledEvent", "Firing", "LifecycleMachine", "MachineError", "RowTransition"]
