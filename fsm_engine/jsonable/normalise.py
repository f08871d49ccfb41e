"""The long way of `jsonable`: turns values of every type into strict JSON, whatever they do when they are looked at."""

from __future__ import annotations

import base64
import dataclasses
import math
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from io import IOBase
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

from .characters import whole_characters
from .redaction import MASK, exception_text, short_name
from .strict import JsonValue, json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["MAX_ITEMS", "WIDE_INT", "Normaliser", "whole_characters"]

WIDE_INT: Final = 1 << 2048
"""From here on an integer is written as text: under 640 digits it can be printed whatever limit Python is given."""

MAX_ITEMS: Final = 10_000
"""Of an iterator in a result; it is read in the event loop, and may have no end."""

_END: Final = object()
_MAX_PATHS: Final = 100
_MAX_TURNS: Final = 8  # how often a value may turn into another one (an enum into its value) at the deepest level
_ANY: Final = -1  # in a path: some member of a set

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_TEXTUAL_MODULES: Final = frozenset({"ipaddress", "pydantic.networks"})


class _Unreadable:
    """Stands for an attribute that raised when it was read."""


class _TooDeepError(Exception):
    """The value is nested too deep to be kept."""


class Normaliser:
    """One run over one value. `left` is what remains of the size, `path` where the run is.

    Attributes:
        lossy: the paths at which something was left out or replaced.
        truncated: a bound was reached.
        is_usable: something was found that says more than the name of a type.
    """

    __slots__ = (
        *("_depth", "_gave_up", "_left", "_max_depth", "_open", "_path", "_reads_iterators"),
        *("is_usable", "lossy", "truncated"),
    )

    def __init__(self, max_depth: int, max_size: int, *, reads_iterators: bool = False) -> None:
        self.lossy: list[str] = []
        self.truncated = self.is_usable = self._gave_up = False
        self._reads_iterators = reads_iterators
        self._max_depth = max_depth
        self._left = max_size
        self._depth = 0
        self._path: list[str | int] = []
        self._open: set[int] = set()

    def visit(self, value: Any) -> JsonValue:
        """The JSON value of `value`; what cannot be had is replaced and noted."""
        self._left -= 1
        if value is None:
            return None
        if value is True or value is False:
            self.is_usable = True
            return value
        depth, steps, notes = self._depth, len(self._path), len(self.lossy)
        fresh = id(value) not in self._open
        try:
            if not fresh or depth >= self._max_depth + _MAX_TURNS:
                return self._give_up(value)
            self._open.add(id(value))
            self._depth = depth + 1
            self._gave_up = False
            made = self._convert(type(value), value)
            if not self._gave_up and (not isinstance(made, dict | list) or not made):
                self.is_usable = True
            return made
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 # a tool's value may raise anything, SystemExit included
            del self._path[steps:], self.lossy[notes:]
            return self._give_up(value)
        finally:
            self._depth = depth
            if fresh:
                self._open.discard(id(value))

    def _convert(self, kind: type, value: Any) -> JsonValue:
        for base, convert in _BY_BASE:
            if issubclass(kind, base):
                return convert(self, value)
        for holds, convert in _BY_TRAIT:
            if holds(kind):
                return convert(self, value)
        if self._reads_iterators and issubclass(kind, Iterator) and not issubclass(kind, IOBase):
            return self._iterator(value)
        return self._give_up(value)

    def _note(self) -> None:
        if len(self.lossy) < _MAX_PATHS:
            self.lossy.append("$" + "".join(map(_step, self._path)))
        elif len(self.lossy) == _MAX_PATHS:
            self.lossy.append("...")

    def _cut(self) -> None:
        self.truncated = True
        self._note()

    def _check_depth(self) -> None:
        if self._depth > self._max_depth:
            self.truncated = True
            raise _TooDeepError

    def _give_up(self, value: Any) -> str:
        self._note()
        self._gave_up = True
        try:
            kind = type(value)
            name = str.__str__(f"{kind.__module__}.{kind.__qualname__}")[:200]
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 # a metaclass may raise anything
            name = "unknown"
        return self._text(f"<{name}>", whole=True)

    def _text(self, value: str, *, whole: bool = False) -> str:
        """`value` as exact text, cut to what is left of the size unless it is `whole`."""
        text = str.__str__(value)
        if not whole and len(text) > self._left:
            text = text[: max(self._left, 0)]
            self._cut()
        self._left -= len(text)
        return whole_characters(text)

    def _integer(self, value: int) -> JsonValue:
        number = int.__int__(value)
        if -WIDE_INT < number < WIDE_INT:
            return number
        self._note()
        exponent = math.floor(math.log10(abs(number)))
        mantissa = 10 ** (math.log10(abs(number)) - exponent)
        return self._text(f"{'-' if number < 0 else ''}{mantissa:.6f}e+{exponent}", whole=True)

    def _number(self, value: float) -> JsonValue:
        number = float.__float__(value)
        if math.isfinite(number):
            return number
        return self._text("NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity", whole=True)

    def _bytes(self, value: bytes | bytearray | memoryview) -> JsonValue:
        data = bytes(value)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = "\0"
        if not _CONTROL.search(text):
            return self._text(text)
        size, kept = len(data), max(self._left, 0) // 4 * 3
        if size > kept:
            data = data[:kept]
            self._cut()
        self._left -= len("base64size") + 2
        return {"base64": self._text(base64.b64encode(data).decode(), whole=True), "size": size}

    def _object(self, pairs: Iterable[tuple[Any, Any]]) -> JsonValue:
        self._check_depth()
        result: dict[str, JsonValue] = {}
        taken: dict[str, int] = {}
        for key, value in pairs:
            if self._left <= 0:
                self._cut()
                break
            name = self._text(key) if isinstance(key, str) and not isinstance(key, Enum) else self._key(key)
            if name in result:
                name = _apart(name, result, taken)
                self._left -= len(name)
                self._path.append(name)
                self._note()
                self._path.pop()
            self._path.append(name)
            result[name] = self.visit(value)
            self._path.pop()
        return result

    def _key(self, key: Any) -> str:
        is_usable = self.is_usable
        value = self.visit(key)
        self.is_usable = is_usable  # a name says nothing by itself
        return value if isinstance(value, str) else self._text(json_text(value))

    def _array(self, values: Iterable[Any], *, ordered: bool = True) -> list[JsonValue]:
        self._check_depth()
        result: list[JsonValue] = []
        for number, value in enumerate(values):
            if self._left <= 0:
                self._cut()
                break
            self._path.append(number if ordered else _ANY)
            result.append(self.visit(value))
            self._path.pop()
        return result

    def _iterator(self, values: Iterator[Any]) -> JsonValue:
        items = self._array(islice(values, MAX_ITEMS))
        if len(items) == MAX_ITEMS and next(values, _END) is not _END:
            self._cut()
        return items

    def _mapping(self, value: Mapping[Any, Any]) -> JsonValue:
        # The base's own method, which a subclass cannot have changed; only OrderedDict keeps its order elsewhere.
        if isinstance(value, dict) and type(value) is not OrderedDict:
            return self._object(list(dict.items(value)))
        return self._object(value.items())

    def _list(self, value: list[Any]) -> JsonValue:
        return self._array(list.__iter__(value))

    def _tuple(self, value: tuple[Any, ...]) -> JsonValue:
        names = getattr(type(value), "_fields", None)
        if isinstance(names, tuple) and len(names) == len(value):
            return self._object(zip(names, tuple.__iter__(value), strict=True))
        return self._array(tuple.__iter__(value))

    def _set(self, value: AbstractSet[Any]) -> JsonValue:
        members = self._array(value, ordered=False)
        members.sort(key=_order)
        return members

    def _dataclass(self, value: Any) -> JsonValue:
        return self._object(
            (field.name, _attribute(value, field.name))
            for field in dataclasses.fields(value)
            if field.metadata.get("jsonable") is not False
        )

    def _numpy(self, value: Any) -> JsonValue:
        if getattr(value, "size", 1) > max(self._left, 1):
            self.truncated = True
            return self._give_up(value)
        plain = value.tolist()
        return self._give_up(value) if type(plain) is type(value) else self.visit(plain)

    def _model(self, value: Any) -> JsonValue:
        return self.visit(value.model_dump(warnings=False))

    def _secret(self, _value: object) -> JsonValue:
        return self._text(MASK, whole=True)

    def _enum(self, value: Enum) -> JsonValue:
        return self.visit(value._value_)

    def _moment(self, value: date | time) -> JsonValue:
        return self._text(value.isoformat())

    def _duration(self, value: timedelta) -> JsonValue:
        rest = abs(value)
        minutes, seconds = divmod(rest.seconds, 60)
        hours, minutes = divmod(minutes, 60)
        fraction = f".{rest.microseconds:06d}".rstrip("0") if rest.microseconds else ""
        sign = "-" if value < timedelta() else ""
        return self._text(f"{sign}P{rest.days}DT{hours}H{minutes}M{seconds}{fraction}S")

    def _textual(self, value: Any) -> JsonValue:
        return self._text(str(value))

    def _exception(self, value: BaseException) -> JsonValue:
        return self._object([("type", short_name(value)), ("message", exception_text(value))])


# The first that fits decides: an enum may be a text too, a named tuple is a tuple.
_Convert: TypeAlias = "Callable[[Normaliser, Any], JsonValue]"
_BY_BASE: Final[tuple[tuple[type, _Convert], ...]] = (
    (Enum, Normaliser._enum),
    (str, Normaliser._text),
    (int, Normaliser._integer),
    (float, Normaliser._number),
    (list, Normaliser._list),
    (tuple, Normaliser._tuple),
    (Mapping, Normaliser._mapping),
    (bytes, Normaliser._bytes),
    (bytearray, Normaliser._bytes),
    (memoryview, Normaliser._bytes),
    (AbstractSet, Normaliser._set),
    (date, Normaliser._moment),
    (time, Normaliser._moment),
    (timedelta, Normaliser._duration),
    (Decimal, Normaliser._textual),
    (UUID, Normaliser._textual),
    (PurePath, Normaliser._textual),
    (BaseException, Normaliser._exception),
    (Sequence, Normaliser._array),
    (ValuesView, Normaliser._array),
)

_BY_TRAIT: Final[tuple[tuple[Callable[[type], bool], _Convert], ...]] = (
    (dataclasses.is_dataclass, Normaliser._dataclass),
    (lambda kind: hasattr(kind, "__pydantic_serializer__") and hasattr(kind, "model_dump"), Normaliser._model),
    (lambda kind: hasattr(kind, "get_secret_value"), Normaliser._secret),
    (lambda kind: kind.__module__ in _TEXTUAL_MODULES, Normaliser._textual),
    (lambda kind: kind.__module__.partition(".")[0] == "numpy", Normaliser._numpy),
)


def _attribute(owner: object, name: str) -> Any:
    try:
        return getattr(owner, name)
    except Exception:  # noqa: BLE001 # a property may raise anything; the other fields are still good
        return _Unreadable()


def _apart(name: str, taken: Mapping[str, object], counts: dict[str, int]) -> str:
    """A free name beside a taken one."""
    number = counts.get(name, 1)
    while True:
        number += 1
        free = f"{name}#{number}"
        if free not in taken:
            counts[name] = number
            return free


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return "[*]" if part == _ANY else f"[{part}]"
    part = part[:64]
    return f".{part}" if part.isidentifier() else f"[{json_text(part)}]"


def _order(member: JsonValue) -> tuple[int, float, str]:
    if isinstance(member, int | float) and not isinstance(member, bool):
        return 0, member, ""
    return (1, 0, member) if isinstance(member, str) else (2, 0, json_text(member))
