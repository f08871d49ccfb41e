"""How users hang their own hooks on states, and how hooks are kept from breaking the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..errors.codes import Effect, ToolErrorCode
from ..errors.exceptions import ConfigurationError, ToolError
from ..invocation.invocation import ToolInvocation
from ..invocation.outcomes import broken_tool_response, error_response
from ..logs import tell_fault
from ..machine.lifecycle import Hook, Lifecycle, State
from ..machine.machine import Firing
from ..settings.callbacks import callback_problem, refuse_awaitable

Place = Literal["gate", "on_enter", "on_exit", "on_transition", "named"]


@dataclass(frozen=True, slots=True)
class HookSpec:
    """A function and the place where it hangs; made by `gate`, `on_enter`, `on_exit`, `on_transition` and `named`."""

    place: Place
    function: Hook
    state: str | None = None
    name: str | None = None


def gate(state: str, function: Hook) -> HookSpec:
    """A hook that decides: it lets the invocation pass by returning nothing or `True`, and refuses it by raising `ToolError`.

    One that answers `False` refuses with `PERMISSION_DENIED`.

    Gates run on entering the state, before every observer, the built-in ones first, then in the order written.
    A gate that raises anything else fails the invocation with `INTERNAL_ERROR`.

    Example:
        >>> def office_hours(event):
        ...     if event.model.tool_name == "transfer" and not 8 <= clock_hour() < 18:
        ...         raise ToolError("PERMISSION_DENIED", "Transfers are made from 8 to 18 h.", reason="closed")
        >>> hook = gate("VALIDATING", office_hours)
    """
    return HookSpec("gate", function, str(state))


def on_enter(state: str, function: Hook) -> HookSpec:
    """A hook that watches a state being entered. What it raises is logged and changes nothing."""
    return HookSpec("on_enter", function, str(state))


def on_exit(state: str, function: Hook) -> HookSpec:
    """A hook that watches a state being left. What it raises is logged and changes nothing."""
    return HookSpec("on_exit", function, str(state))


def on_transition(function: Hook) -> HookSpec:
    """A hook that watches every transition, after the built-in ones. What it raises is logged and changes nothing."""
    return HookSpec("on_transition", function)


def named(name: str, function: Hook) -> HookSpec:
    """The function behind a gate or hook name that a lifecycle of your own declares."""
    return HookSpec("named", function, name=name)


def read_hooks(hooks: Iterable[Any]) -> list[HookSpec]:
    """Hook specs as they are; a function watches every transition; an object's methods hang where they are called.

    Raises:
        ConfigurationError: a hook is a coroutine function, or is none of these.
    """
    found: list[HookSpec] = []
    for hook in hooks:
        if isinstance(hook, HookSpec):
            found.append(hook)
        elif methods := [
            name for name in ("on_enter", "on_exit", "on_transition") if callable(getattr(hook, name, None))
        ]:
            found.extend(HookSpec(name, getattr(hook, name)) for name in methods)  # type: ignore[arg-type]  # three Places
        elif callable(hook):
            found.append(HookSpec("on_transition", hook))
        else:
            raise ConfigurationError(
                f"a hook is a function, an object with on_enter, on_exit or on_transition, or made by gate(), on_enter(), "
                f"on_exit(), on_transition() or named(); this is {type(hook).__name__}"
            )
    for hook in found:
        if problem := callback_problem(hook.function, "hook"):
            raise ConfigurationError(f"the hook {_name_of(hook)} {problem}")
    return found


def with_hooks(
    lifecycle: Lifecycle, specs: Iterable[HookSpec], builtin: Mapping[str, Hook], logger: Any
) -> tuple[Lifecycle, dict[str, Hook]]:
    """The lifecycle with users' hooks in their places, and the function of every hook that it then names.

    Raises:
        ConfigurationError: a hook hangs on a state that does not exist, or where it could never do anything.
    """
    functions: dict[str, Hook] = {name: hook for name, hook in builtin.items() if name in lifecycle.hook_names}
    states: dict[str, State] = dict(lifecycle.by_name)
    observers: list[str] = []
    gates = {name for state in lifecycle.states for name in state.gates}
    for spec in specs:
        if spec.place == "named":
            assert spec.name is not None, "named() has set it"
            if spec.name in builtin or spec.name in functions:
                whose = "built in" if spec.name in builtin else "given already"
                raise ConfigurationError(f"a hook called {spec.name!r} is {whose}; choose another name")
            is_gate = spec.name in gates
            functions[spec.name] = _as_gate(spec.function, logger) if is_gate else observer(spec.function, logger)
            continue
        name = _unique(_name_of(spec), functions)
        functions[name] = _as_gate(spec.function, logger) if spec.place == "gate" else observer(spec.function, logger)
        if spec.place == "on_transition":
            observers.append(name)
            continue
        for state_name in states if spec.state is None else (spec.state,):
            state = states.get(state_name)
            if state is None:
                raise ConfigurationError(
                    f"the hook {name} hangs on the state {state_name}, which the lifecycle {lifecycle.name!r} does not "
                    f"have; it has {', '.join(states)}"
                )
            if spec.state is not None:
                _refuse_idle_hook(lifecycle, state, spec, name)
            states[state_name] = _with_hook(state, spec.place, name)
    return lifecycle.extended(states=states.values(), on_transition=observers), functions


def _with_hook(state: State, place: Place, name: str) -> State:
    if place == "gate":
        return replace(state, gates=(*state.gates, name))
    if place == "on_enter":
        return replace(state, on_enter=(*state.on_enter, name))
    return replace(state, on_exit=(*state.on_exit, name))


def _refuse_idle_hook(lifecycle: Lifecycle, state: State, spec: HookSpec, name: str) -> None:
    """A hook that would never run, or decide nothing, is a mistake; where it is a gate, a dangerous one."""
    problem = None
    if spec.place == "gate" and state.final:
        problem = "a gate cannot refuse what has ended; hang it on the state before"
    elif spec.place == "on_exit" and state.final:
        problem = "a final state is never left; use on_enter"
    elif spec.place != "on_exit" and all(row.dest != state.name for row in lifecycle.moves):
        problem = "no row leads into it, so it is never entered; hang the hook on a later state, or use on_exit"
    if problem is not None:
        raise ConfigurationError(f"the hook {name} hangs on {state.name}: {problem}")


def observer(function: Hook, logger: Any) -> Hook:
    """A hook that cannot break what it watches: whatever it raises is logged."""

    def watch(event: Firing) -> None:
        invocation = event.model
        invocation.heading_for = event.transition.row.dest
        try:
            answer = function(event)
            if answer is not None:
                refuse_awaitable(answer)
        except BaseException as error:  # noqa: BLE001 # whatever it is, it is the observer's own affair
            tell_fault(logger, "hook failed", error, hook=_function_name(function))
        finally:
            invocation.heading_for = None

    return watch


def _as_gate(function: Hook, logger: Any) -> Hook:
    def decide(event: Firing) -> None:
        invocation: ToolInvocation = event.model
        if invocation.is_refused:
            return
        try:
            _check_answer(function(event), invocation, _function_name(function))
        except ToolError as error:
            invocation.refuse(error_response(error))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 # nothing that a gate raises leaves an invocation without an end
            name = _function_name(function)
            tell_fault(logger, "gate failed", error, gate=name, uid=invocation.uid)
            invocation.refuse(broken_tool_response(invocation.tool_name, f"the gate {name}", error))

    return decide


def _check_answer(answer: object, invocation: ToolInvocation, name: str) -> None:
    """A gate lets pass by returning; `False`, or a `ToolError` that is returned, is the no that its author meant."""
    if answer is None or answer is True:
        return
    if isinstance(answer, ToolError):
        raise answer
    if answer is False:
        words = f"{invocation.tool_name} was not run, as {name} does not allow it."
        raise ToolError(ToolErrorCode.PERMISSION_DENIED, words, reason="gate_refused", effect=Effect.NONE)
    refuse_awaitable(answer)
    raise ConfigurationError(
        f"a gate answers nothing or True to let pass, and raises ToolError; not {type(answer).__name__}"
    )


def _function_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _name_of(spec: HookSpec) -> str:
    return spec.name or _function_name(spec.function)


def _unique(name: str, taken: Mapping[str, Any]) -> str:
    number = 1
    unique = name
    while unique in taken:
        number += 1
        unique = f"{name} ({number})"
    return unique
