"""How a validator is run, and what its answers mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pydantic

from ..errors.exceptions import ConfigurationError, FsmEngineError
from ..errors.issue import Issue
from ..settings.kinds import called_function, shown, takes
from .binding import binding_issues

__all__ = [
    "Invalid",
    "Validator",
    "ValidatorAnswer",
    "ValidatorFault",
    "as_validators",
    "read_answer",
    "run_validators",
]


@dataclass(frozen=True, slots=True)
class Invalid:
    """What a validator has against the arguments.

    Args:
        reason: machine-readable, such as ``"invalid_warehouse"``.
        path: the field, such as ``"items[0].sku"``; empty if it is about several.
        message: for the model: what is wanted. Leave out the value that was given. By default the reason in words.
        allowed: what is allowed, as JSON.
    """

    reason: str
    path: str = ""
    message: str = ""
    allowed: Any = None


ValidatorAnswer: TypeAlias = bool | tuple[bool, str] | Invalid | Sequence[Invalid] | None
Validator: TypeAlias = Callable[[Mapping[str, Any]], ValidatorAnswer]


class ValidatorFault(FsmEngineError):  # noqa: N818 - it says whose fault it is
    """A validator is broken: it raised, or answered in a way that means nothing. No fault of the call.

    `validator`: its name. What it raised is the cause.
    """

    def __init__(self, validator: str, problem: str) -> None:
        super().__init__(validator, problem)
        self.validator = validator
        self.problem = problem

    def __str__(self) -> str:
        return f"validator {self.validator!r} {self.problem}"


def as_validators(given: Validator | Iterable[Validator] | None) -> tuple[Validator, ...]:
    """One validator, several or none, as a tuple.

    Raises:
        ConfigurationError: one of them cannot be called, or is a coroutine function: its answer would come too late.
    """
    if given is None:
        return ()
    several = (given,) if callable(given) or not isinstance(given, Iterable) else tuple(given)
    each: Any  # whatever somebody has given
    for each in several:
        if not callable(each) or issubclass(type(each), type):
            raise ConfigurationError(f"a validator is a function of the arguments, not {shown(each)}")
        if not takes(each, 1):
            raise ConfigurationError(
                f"validator {_name(each)!r} is called with one argument, the call's arguments as a dict"
            )
        call = called_function(each)
        if inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call) or inspect.isgeneratorfunction(call):
            raise ConfigurationError(
                f"validator {_name(each)!r} must be a plain function that returns its answer; "
                "do what has to be awaited in the tool itself"
            )
    return several


def run_validators(validators: Iterable[Validator], arguments: Mapping[str, Any]) -> tuple[Issue, ...]:
    """All issues of all validators, in their order.

    Raises:
        ValidatorFault: a validator is broken.
    """
    issues: tuple[Issue, ...] = ()
    for validator in validators:
        try:
            answer = validator(arguments)
        except pydantic.ValidationError as exc:
            issues += binding_issues(exc)
        except ValueError as exc:
            issues += (_issue(Invalid("invalid_value", message=str(exc)), _name(validator)),)
        except Exception as exc:
            raise ValidatorFault(_name(validator), f"raised {type(exc).__name__}") from exc
        else:
            if answer is not None and answer is not True:
                issues += read_answer(answer, _name(validator))
    return issues


def read_answer(answer: object, validator_name: str) -> tuple[Issue, ...]:
    """What a validator's answer says, as issues; none if it is content.

    Raises:
        ValidatorFault: the answer is none of those that a validator may give.

    Example:
        >>> read_answer((False, "amount must be at least 100"), "check_amount")[0].message
        'amount must be at least 100'
    """
    if answer is None or answer is True:
        return ()
    if answer is False:
        answer = Invalid(validator_name)
    if (
        isinstance(answer, tuple)
        and len(answer) == 2
        and isinstance(answer[0], bool)
        and isinstance(answer[1], str | None)
    ):
        answer = [] if answer[0] else Invalid(validator_name, message=answer[1] or "")
    if isinstance(answer, Invalid):
        answer = [answer]
    if isinstance(answer, list | tuple) and all(isinstance(each, Invalid) for each in answer):
        return tuple(_issue(each, validator_name) for each in answer)
    kinds = type(answer).__name__
    if inspect.iscoroutine(answer):
        answer.close()  # or Python warns that nobody has awaited it
    raise ValidatorFault(
        validator_name, f"answered with {kinds}; give None, True, False, (ok, message), Invalid or a list of Invalid"
    )


def _issue(invalid: Invalid, validator_name: str) -> Issue:
    if not all(isinstance(text, str) for text in (invalid.reason, invalid.path, invalid.message)):
        raise ValidatorFault(validator_name, "gave an Invalid whose reason, path or message is no text")
    message = invalid.message or f"{invalid.path or 'the arguments'}: {invalid.reason.replace('_', ' ')}"
    return Issue(
        reason=invalid.reason, path=invalid.path, rule=validator_name, message=message, allowed=invalid.allowed
    )


def _name(validator: object) -> str:
    name = getattr(validator, "__name__", None)
    return name if isinstance(name, str) else type(validator).__name__
