"""A `Lifecycle` as a `transitions` machine that one thing alone may move: `LifecycleMachine.fire`.

One machine serves any number of models; a model is any object with a `state` attribute. `transitions` resolves its
callbacks anew at every trigger, which costs about ten microseconds; `CompiledEvent` resolves them once and then runs
the very same callbacks in the very same order (a differential test holds it to that).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from transitions import EventData, Machine, MachineError
from transitions import State as MachineState
from transitions.core import Event, Transition

from .errors import LifecycleError, ReentrantTransitionError, TransitionRefusedError
from .lifecycle import Hook, Lifecycle, Row

_Callbacks = tuple[Callable[[Any], Any], ...]
_Conditions = tuple[tuple[Callable[[Any], Any], bool], ...]


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


class RowTransition(Transition):
    """A transition that knows the row it was made from."""

    def __init__(self, *args: Any, row: Row, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row = row


class _CompiledRow(NamedTuple):
    """One transition with all its callbacks resolved; a tuple, since it is unpacked at every firing.

    `leave` runs before the state is set, `arrive` after it.
    """

    transition: Transition
    prepare: _Callbacks
    conditions: _Conditions
    leave: _Callbacks
    dest: MachineState | None
    dest_name: str
    arrive: _Callbacks


def _compile_row(machine: Machine, transition: Transition) -> _CompiledRow:
    def resolved(*lists: list[Any]) -> _Callbacks:
        return tuple(_resolve(callback) for callbacks in lists for callback in callbacks)

    dest = machine.get_state(transition.dest) if transition.dest else None
    on_exit = machine.get_state(transition.source).on_exit if dest else []
    on_enter = [*dest.on_enter, *(machine.on_final if dest.final else [])] if dest else []
    return _CompiledRow(
        transition=transition,
        prepare=resolved(transition.prepare),
        conditions=tuple((_resolve(condition.func), bool(condition.target)) for condition in transition.conditions),
        leave=resolved(machine.before_state_change, transition.before, on_exit),
        dest=dest,
        dest_name=dest.name if dest else "",
        arrive=resolved(on_enter, transition.after, machine.after_state_change),
    )


_Compiled = dict[str, tuple[MachineState, tuple[_CompiledRow, ...]]]


class CompiledEvent(Event):
    """The stock event, with callbacks resolved at the first trigger and kept.

    It takes callables only (no names to look up on the model), `send_event=True`, and neither a queue,
    `on_exception` nor `finalize_event`: those three hide errors, and `LifecycleMachine` uses none of them.
    """

    by_source: _Compiled | None = None

    def compile(self) -> _Compiled:
        """Resolve every callback; what is added to the machine later is not seen."""
        machine = self.machine
        self._prepare: _Callbacks = tuple(_resolve(callback) for callback in machine.prepare_event)
        self.by_source = {
            source: (machine.get_state(source), tuple(_compile_row(machine, row) for row in rows))
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
        event = Firing(found[0], self, self.machine, model)
        if args or kwargs:
            event.args, event.kwargs = args, kwargs
        return self.take(event, found[1])

    def take(self, event: Firing, rows: tuple[_CompiledRow, ...]) -> bool:
        """Take the first of these rows whose conditions hold; answers whether there was one."""
        # Even an empty loop costs as much as a callback does; most of these are empty.
        if self._prepare:
            for callback in self._prepare:
                callback(event)
        for transition, prepare, conditions, leave, dest, dest_name, arrive in rows:
            event.transition = transition
            if prepare:
                for callback in prepare:
                    callback(event)
            for condition, target in conditions:
                # Compared, not tested for truth: that is how transitions reads an answer.
                if condition(event) != target:
                    break
            else:
                if leave:
                    for callback in leave:
                        callback(event)
                if dest is not None:
                    event.model.state = dest_name
                    event.state = dest
                for callback in arrive:
                    callback(event)
                event.result = True
                return True
        return False


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
        self.fire = _make_fire(self, {name: (event, event.compile()) for name, event in events.items()})

    def triggers_from(self, state: str) -> tuple[str, ...]:
        """The triggers that a state has a row for, in the order of the table."""
        return tuple(dict.fromkeys(row.trigger for row in self.lifecycle.rows_from(state)))

    def guards_of(self, state: str, trigger: str) -> tuple[str, ...]:
        """The guards of the rows that a state has for a trigger, in the order in which they are asked."""
        return tuple(row.guard for row in self.lifecycle.rows_from(state, trigger) if row.guard)


def _make_fire(
    machine: LifecycleMachine, by_trigger: Mapping[str, tuple[CompiledEvent, _Compiled]]
) -> Callable[[Any, str], None]:
    # A function of its own, not a method: `Machine` has a `__getattr__`, which makes Python look every attribute of a
    # machine up the long way.
    moving: set[int] = set()

    def fire(model: Any, trigger: str) -> None:
        key = id(model)
        if key in moving:
            raise ReentrantTransitionError(
                f"{trigger!r} was fired from a hook or guard while {machine.lifecycle.name} moves; "
                "hooks may ask (invocation.cancel(), say), only the driver fires"
            )
        state = model.state
        try:
            event, by_source = by_trigger[trigger]
            source, rows = by_source[state]
        except KeyError:
            raise TransitionRefusedError(state, trigger, allowed=machine.triggers_from(state)) from None
        moving.add(key)
        try:
            moved = event.take(Firing(source, event, machine, model), rows)
        finally:
            moving.discard(key)
        if not moved:
            raise TransitionRefusedError(state, trigger, guards=machine.guards_of(state, trigger))

    return fire


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
