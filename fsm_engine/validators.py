"""Business rules that a schema cannot say: small functions that look at a call's arguments.

A validator gets the arguments as a JSON object with its defaults, and answers in any of these ways:

============================  ==============================================================================
`None` or `True`              nothing is wrong
`False`                       something is; the validator's name is the reason
``(ok, message)``             both in one
:class:`Invalid`, or several  what is wrong, where, and what is allowed
raising `ValueError`          its text is the message
============================  ==============================================================================

Anything else, and any other exception, is a fault of the validator's author: :class:`ValidatorFault`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal

from .errors.exceptions import ConfigurationError
from .schema.answers import (
    Invalid,
    Validator,
    ValidatorAnswer,
    ValidatorFault,
    as_validators,
    read_answer,
    run_validators,
)
from .schema.words import FORMAT_EXAMPLES, in_words, offset_issue

__all__ = [
    "Invalid",
    "Validator",
    "ValidatorAnswer",
    "ValidatorFault",
    "allowed_values",
    "as_validators",
    "aware_datetime",
    "blocked_words",
    "in_range",
    "ordered",
    "phone_number",
    "read_answer",
    "run_validators",
    "size",
]

_MISSING: Final = object()


def _at(arguments: Any, path: str) -> Any:
    """The value of a field; `_MISSING` if it, or what it is in, is not there or null."""
    for key in path.split("."):
        arguments = arguments.get(key) if isinstance(arguments, Mapping) else None
        if arguments is None:
            return _MISSING
    return arguments


def _field_rule(name: str, path: str, check: Callable[[Any], Invalid | None]) -> Validator:
    """A validator of one field, which may be missing."""
    _check_path(name, path)

    def validate(arguments: Mapping[str, Any]) -> Invalid | None:
        value = _at(arguments, path)
        return None if value is _MISSING else check(value)

    validate.__name__ = name
    return validate


def _check_path(name: str, path: str) -> None:
    if not all(path.split(".")):
        raise ConfigurationError(f'{name}: {path!r} is no field; give a name, or names with dots, such as "order.date"')


def allowed_values(path: str, values: Iterable[Any], *, reason: str = "not_allowed") -> Validator:
    """A field must be one of `values`, which are read anew for each call if they are a set or list of your own.

    Example:
        >>> run_validators([allowed_values("warehouse", ["north"], reason="invalid_warehouse")], {"warehouse": "x"})[0].message
        'warehouse must be one of: north'
    """
    known = values if isinstance(values, Collection) and not isinstance(values, str) else list(values)

    def check(value: Any) -> Invalid | None:
        if _is_member(value, known):
            return None
        allowed = list(known)
        return Invalid(reason, path, f"{path} must be one of: {in_words(list(map(str, allowed)))}", allowed)

    return _field_rule("allowed_values", path, check)


def _is_member(value: Any, known: Collection[Any]) -> bool:
    try:
        found = value in known
    except TypeError:  # a list or object, asked of a set
        return False
    # To Python True is 1; to JSON it is not.
    return found and (not isinstance(value, int) or any(value == each and type(value) is type(each) for each in known))


def in_range(
    path: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    unit: str = "",
    reason: str = "out_of_range",
) -> Validator:
    """A number must be within limits, both included.

    Example:
        >>> run_validators([in_range("amount", minimum=100, unit="yuan")], {"amount": 5})[0].message
        'amount must be at least 100 yuan'
    """
    wanted = _limits("in_range", minimum, maximum, unit)

    def check(value: Any) -> Invalid | None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and _within(value, minimum, maximum):
            return None
        return Invalid(reason, path, f"{path} must be {wanted}", {"minimum": minimum, "maximum": maximum})

    return _field_rule("in_range", path, check)


def size(
    path: str, *, min_length: int | None = None, max_length: int | None = None, reason: str = "wrong_size"
) -> Validator:
    """A text, list or object must have a number of characters, items or fields within limits, both included.

    Example:
        >>> run_validators([size("message", max_length=70)], {"message": "a" * 71})[0].message
        'message must have at most 70 characters'
    """
    _limits("size", min_length, max_length, "")

    def check(value: Any) -> Invalid | None:
        if isinstance(value, str | list | tuple | Mapping) and _within(len(value), min_length, max_length):
            return None
        unit = "characters" if isinstance(value, str) else "entries"
        wanted = _limits("size", min_length, max_length, unit)
        return Invalid(reason, path, f"{path} must have {wanted}", {"min_length": min_length, "max_length": max_length})

    return _field_rule("size", path, check)


def _limits(rule: str, least: float | None, most: float | None, unit: str) -> str:
    if least is None and most is None:
        raise ConfigurationError(f"{rule}: give a lower limit, an upper limit or both")
    if least is not None and most is not None and least > most:
        raise ConfigurationError(f"{rule}: nothing is at least {least} and at most {most}")
    texts = [f"at least {least}"] * (least is not None) + [f"at most {most}"] * (most is not None)
    return " and ".join(texts) + (f" {unit}" if unit else "")


def _within(number: float, least: float | None, most: float | None) -> bool:
    return (least is None or number >= least) and (most is None or number <= most)


_PHONES: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    "CN": (
        re.compile(r"1[3-9][0-9]{9}"),
        "a mobile number of mainland China: 11 digits, the first 1, the second 3 to 9",
    ),
    "E164": (re.compile(r"\+[1-9][0-9]{6,14}"), "an international number: + and 7 to 15 digits, the first not 0"),
}


def phone_number(
    path: str, *, region: Literal["CN", "E164"] = "E164", reason: str = "invalid_phone_number"
) -> Validator:
    """A text must be a telephone number: a mainland-China mobile number, or in the international form of E.164.

    The numbers' form is checked, not whether they are in use. E.164 allows up to 15 digits (ITU-T E.164, 6.2).
    """
    if region not in _PHONES:
        raise ConfigurationError(f"phone_number: the region is one of {', '.join(_PHONES)}, not {region!r}")
    pattern, wanted = _PHONES[region]

    def check(value: Any) -> Invalid | None:
        if isinstance(value, str) and pattern.fullmatch(value):
            return None
        return Invalid(reason, path, f"{path} must be {wanted}, without spaces", region)

    return _field_rule("phone_number", path, check)


def blocked_words(path: str, words: Iterable[str], *, reason: str = "blocked_word") -> Validator:
    """A text must hold none of the words, in upper or lower case, also as a part of a longer word.

    The message does not say which word it was: lists of this kind are not meant to be found out by trying.
    """
    blocked = tuple(word.casefold() for word in ([words] if isinstance(words, str) else words))
    if not all(blocked):
        raise ConfigurationError("blocked_words: an empty word is in every text; take it out")

    def check(value: Any) -> Invalid | None:
        text = value.casefold() if isinstance(value, str) else ""
        if not any(word in text for word in blocked):
            return None
        return Invalid(reason, path, f"{path} holds a word that is not allowed; say it in other words")

    return _field_rule("blocked_words", path, check)


def aware_datetime(path: str) -> Validator:
    """A text must be a date and time in the form of ISO 8601 that says its offset from UTC.

    Example:
        >>> run_validators([aware_datetime("start")], {"start": "2024-05-20"})[0].reason
        'missing_offset'
    """
    missing = offset_issue(path)
    example = FORMAT_EXAMPLES["date-time"]

    def check(value: Any) -> Invalid | None:
        moment = _moment(value)
        if moment is None:
            return Invalid("bad_format", path, f"{path} must be a date and time such as {example}", "date-time")
        if moment.tzinfo is None:
            return Invalid(missing.reason, path, missing.message, "date-time")
        return None

    return _field_rule("aware_datetime", path, check)


def _moment(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None


def ordered(first: str, second: str, *, strict: bool = False, reason: str = "wrong_order") -> Validator:
    """The value of one field must not be above that of another, or, if `strict`, must be below it.

    Numbers and texts are compared as such; texts that are dates and times are compared as moments, whatever their
    offsets are. If one field is missing, or the two cannot be compared, there is nothing to say.

    Example:
        >>> run_validators([ordered("start", "end")], {"start": "2024-05-21", "end": "2024-05-20"})[0].message
        'start must not be after end'
    """
    for path in (first, second):
        _check_path("ordered", path)
    wanted = "must be before" if strict else "must not be after"

    def validate(arguments: Mapping[str, Any]) -> Invalid | None:
        low, high = (_comparable(_at(arguments, path)) for path in (first, second))
        try:
            fits = low < high if strict else low <= high
        except TypeError:
            return None
        return None if fits else Invalid(reason, first, f"{first} {wanted} {second}")

    validate.__name__ = "ordered"
    return validate


def _comparable(value: Any) -> Any:
    moment = _moment(value)
    return value if moment is None else moment
