"""Every value becomes strict JSON, whatever it is and whatever it does."""

from __future__ import annotations

import array
import collections
import collections.abc
import dataclasses
import datetime
import decimal
import doctest
import enum
import fractions
import ipaddress
import json
import math
import pathlib
import sys
import types
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_engine.jsonable import jsonable
from fsm_engine.jsonable import strict as _json
from fsm_engine.jsonable.jsonable import Jsonable, to_jsonable
from fsm_engine.jsonable.strict import json_text


def is_strict(value: object) -> bool:
    """Whether the value is made of the exact built-in types, and of nothing that JSON does not have."""
    if type(value) is dict:
        return all(type(key) is str and is_strict(key) and is_strict(item) for key, item in value.items())
    if type(value) is list:
        return all(map(is_strict, value))
    if type(value) is str:
        return not any("\ud800" <= char <= "\udfff" for char in value)
    return value is None or type(value) in {bool, int} or (type(value) is float and math.isfinite(value))


def size_of(value: object) -> int:
    if isinstance(value, dict):
        return sum(1 + len(key) + size_of(item) for key, item in value.items())
    if isinstance(value, list):
        return sum(1 + size_of(item) for item in value)
    return len(value) if isinstance(value, str) else 0


def assert_strict(found: Jsonable) -> None:
    assert is_strict(found.value)
    text = json.dumps(found.value, allow_nan=False, ensure_ascii=False)
    assert json.loads(text.encode("utf-8")) == found.value
    assert json.loads(json_text(found.value)) == found.value


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.StrEnum):
    YES = "yes"


class Text(str):  # noqa: SLOT000 # a subclass as a tool might write it
    def __str__(self) -> str:
        return "overridden"

    def isascii(self) -> bool:
        raise ZeroDivisionError


class Number(int):
    def __int__(self) -> int:
        return 13

    def __lt__(self, other: object) -> bool:
        raise ZeroDivisionError


class Real(float):
    def __float__(self) -> float:
        return 13.0


class Table(dict[Any, Any]):
    def items(self) -> Any:
        raise ZeroDivisionError


class Row(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        raise ZeroDivisionError


@dataclasses.dataclass
class Point:
    x: int
    y: Any = None
    hidden: str = dataclasses.field(default="secret", metadata={"jsonable": False})


class Pair(NamedTuple):
    left: int
    right: Any


class Model(pydantic.BaseModel):
    when: datetime.date
    point: Any = None
    password: pydantic.SecretStr = pydantic.SecretStr("hunter2")
    site: pydantic.HttpUrl = pydantic.HttpUrl("https://example.org/")


ordered = collections.OrderedDict(a=1, b=2)
ordered.move_to_end("a")
UTC = datetime.UTC

VALUES: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (5, 5),
    (2**2000, 2**2000),
    (-0.0, -0.0),
    (float("nan"), "NaN"),
    (float("inf"), "Infinity"),
    (float("-inf"), "-Infinity"),
    ("é😀", "é😀"),
    ("\ud835", "�"),
    ("a\ud83d\ude00b\udc00", "a😀b�"),
    ({"\ud835": "\ud835"}, {"�": "�"}),
    (Text("plain"), "plain"),
    (Number(5), 5),
    (Real(2.5), 2.5),
    (Table(a=1), {"a": 1}),
    (Row([1, (2,)]), [1, [2]]),
    ((1, "a"), [1, "a"]),
    (range(3), [0, 1, 2]),
    (collections.deque([1, 2]), [1, 2]),
    (array.array("i", [1, 2]), [1, 2]),
    ({"a": 1}.values(), [1]),
    ({"b": 1, "a": 2}.keys(), ["a", "b"]),
    (ordered, {"b": 2, "a": 1}),
    (collections.Counter("aab"), {"a": 2, "b": 1}),
    (types.MappingProxyType({"a": 1}), {"a": 1}),
    (collections.ChainMap({"a": 1}, {"a": 2}), {"a": 1}),
    ({3, 20, 1}, [1, 3, 20]),
    ({"b", "a", 2, 1.5, None, (1, 2), True + 9}, [1.5, 2, 10, "a", "b", [1, 2], None]),
    (frozenset({Word.YES, "no"}), ["no", "yes"]),
    (b"ok\n\xc3\xa9", "ok\né"),
    (b"", ""),
    (bytearray(b"ok"), "ok"),
    (memoryview(b"ok"), "ok"),
    (b"\xff\x00", {"base64": "/wA=", "size": 2}),
    (b"\x00", {"base64": "AA==", "size": 1}),
    (Colour.RED, "red"),
    (Level.HIGH, 3),
    (Word.YES, "yes"),
    (Point(1, Point(2)), {"x": 1, "y": {"x": 2, "y": None}}),
    (Pair(1, {2}), {"left": 1, "right": [2]}),
    (
        Model(when=datetime.date(2024, 5, 20), point={1, 2}),
        {"when": "2024-05-20", "point": [1, 2], "password": "***", "site": "https://example.org/"},
    ),
    (pydantic.RootModel[list[int]]([1]), [1]),
    (datetime.datetime(2024, 5, 20, 1, 2, 3, tzinfo=UTC), "2024-05-20T01:02:03+00:00"),
    (datetime.date(2024, 5, 20), "2024-05-20"),
    (datetime.time(1, 2, 3, 4), "01:02:03.000004"),
    (datetime.timedelta(), "P0DT0H0M0S"),
    (datetime.timedelta(days=400, hours=5, seconds=3.5), "P400DT5H0M3.5S"),
    (datetime.timedelta(seconds=-1), "-P0DT0H0M1S"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (decimal.Decimal("1.10"), "1.10"),
    (decimal.Decimal("nan"), "NaN"),
    (pathlib.PurePosixPath("/a/b"), "/a/b"),
    (ipaddress.ip_address("10.0.0.1"), "10.0.0.1"),
    (ValueError("password=hunter2"), {"type": "ValueError", "message": "password=***"}),
    ({1: "a", None: "b", True + 1: "c", 2.5: "d"}, {"1": "a", "null": "b", "2": "c", "2.5": "d"}),
    ({(1, 2): "a", Colour.RED: "b", Word.YES: "c", b"k": "d"}, {"[1,2]": "a", "red": "b", "yes": "c", "k": "d"}),
    ({datetime.date(2024, 5, 20): 1}, {"2024-05-20": 1}),
]


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=lambda each: type(each).__name__)
def test_a_value_has_the_form_of_the_table_without_loss(value: object, expected: object) -> None:
    found = to_jsonable(value)
    assert found == (expected, (), False)
    assert repr(found.value) == repr(expected)  # tells 1 from True and 0.0 from -0.0
    assert_strict(found)
    assert_strict(to_jsonable({"in": [value]}))


class Odd:
    """Nothing that JSON could show; its `repr` must not be shown."""

    def __repr__(self) -> str:
        return "password=hunter2"


ODD = f"<{__name__}.Odd>"

LOSSY: list[tuple[Any, Any, tuple[str, ...]]] = [
    (Odd(), ODD, ("$",)),
    ({"a": [1, Odd()]}, {"a": [1, ODD]}, ("$.a[1]",)),
    ({"odd key": Odd(), "class": Odd}, {"odd key": ODD, "class": "<builtins.type>"}, ('$["odd key"]', "$.class")),
    ({Odd()}, [ODD], ("$[*]",)),
    ({Odd(): 1}, {ODD: 1}, ("$",)),
    ((i for i in ()), "<builtins.generator>", ("$",)),
    (1j, "<builtins.complex>", ("$",)),
    (fractions.Fraction(1, 3), "<fractions.Fraction>", ("$",)),
    (test_a_value_has_the_form_of_the_table_without_loss, "<builtins.function>", ("$",)),
    (10**5000, "1.000000e+5000", ("$",)),
    ({"n": [10**5000]}, {"n": ["1.000000e+5000"]}, ("$.n[0]",)),
    ({"n": 10**5000}, {"n": "1.000000e+5000"}, ("$.n",)),
    (-(12345 * 10**5000), "-1.234500e+5004", ("$",)),
    ({1: "a", "1": "b"}, {"1": "a", "1#2": "b"}, ('$["1#2"]',)),
    (
        {"1#2": "x", 1: "a", "1": "b"},
        {"1#2": "x", "1": "a", "1#3": "b"},
        ('$["1#3"]',),
    ),
]


@pytest.mark.parametrize(("value", "expected", "paths"), LOSSY, ids=lambda each: type(each).__name__)
def test_what_cannot_be_shown_is_replaced_by_its_type_and_its_path_is_noted(
    value: object, expected: object, paths: tuple[str, ...]
) -> None:
    found = to_jsonable(value)
    assert found == (expected, paths, False)
    assert_strict(found)


def test_many_keys_that_fall_together_are_all_kept() -> None:
    class Same:
        pass

    found = to_jsonable({Same(): number for number in range(1000)})
    assert isinstance(found.value, dict)
    assert sorted(found.value.values()) == list(range(1000))  # type: ignore[type-var] # all are integers


def test_a_result_shares_no_container_with_its_source() -> None:
    source = {"a": [1, {"b": 2}]}
    found = to_jsonable(source).value
    source["a"][1]["b"] = 3
    source["a"].append(4)
    assert found == {"a": [1, {"b": 2}]}


def test_a_value_that_contains_itself_is_cut_where_it_begins_again() -> None:
    loop: dict[str, Any] = {"name": "x"}
    loop["self"] = [loop]
    found = to_jsonable(loop)
    assert found == ({"name": "x", "self": ["<builtins.dict>"]}, ("$.self[0]",), False)


def test_the_same_object_may_appear_twice_side_by_side() -> None:
    point = Point(1)
    assert to_jsonable([point, point]).lossy == ()


def nest(levels: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: Point(1, v)])
def test_nesting_is_kept_to_the_bound_and_cut_beyond(wrap: Callable[[Any], Any]) -> None:
    assert to_jsonable(nest(5, wrap), max_depth=5).lossy == ()
    found = to_jsonable(nest(6, wrap), max_depth=5)
    assert (len(found.lossy), found.truncated) == (1, True)
    assert_strict(to_jsonable(nest(100_000, lambda v: [v])))
    assert_strict(to_jsonable(nest(300, wrap), max_depth=200))


def test_a_leaf_at_the_deepest_level_may_be_of_any_type() -> None:
    assert to_jsonable([[Colour.RED, {1}]], max_depth=3) == ([["red", [1]]], (), False)


def test_a_chain_of_conversions_without_end_is_cut() -> None:
    class Turning(pydantic.BaseModel):
        def model_dump(self, **_: Any) -> Any:
            return Turning()

    assert to_jsonable(Turning()).truncated is False
    assert_strict(to_jsonable(Turning()))
    assert to_jsonable(Turning()).lossy == ("$",)


class Endless(collections.abc.Mapping[Any, Any]):
    def __getitem__(self, key: Any) -> Any:
        return key

    def __iter__(self) -> Iterator[int]:
        yield from iter(int, 1)

    def __len__(self) -> int:
        return 1


doubling: list[Any] = []
for _ in range(60):
    doubling = [doubling, doubling]

HUGE: list[Any] = [
    "x" * 5000,
    ["x" * 600] * 10,
    {"k" * 600: 1, "l" * 600: 2, "m": 3},
    list(range(5000)),
    tuple(range(5000)),
    range(10**12),
    dict.fromkeys(map(str, range(5000))),
    b"x" * 5000,
    b"\xff" * 5000,
    [b"\xff" * 500] * 10,
    set(range(5000)),
    doubling,
    [doubling, Odd()],
    Endless(),
    [Odd()] * 5000,
    {"a": ["x" * 5000, (1,)], "b": [2]},
    [[(), "x" * 2000, "y"], (1,)],
]


@pytest.mark.parametrize("value", HUGE, ids=lambda each: type(each).__name__)
def test_a_size_beyond_the_bound_is_cut_and_noted(value: object) -> None:
    found = to_jsonable(value, max_size=1000)
    assert found.truncated
    assert found.lossy
    assert len(found.lossy) <= 101
    assert size_of(found.value) <= 1300  # the marks of what was left out come on top
    assert_strict(found)


def test_the_list_of_paths_is_bounded_and_says_so() -> None:
    found = to_jsonable([Odd()] * 500)
    assert len(found.lossy) == 101
    assert found.lossy[-2:] == ("$[99]", "...")


def test_a_long_key_is_cut_in_a_path() -> None:
    assert to_jsonable({"k" * 1000: Odd()}).lossy == ("$." + "k" * 64,)


@pytest.mark.parametrize(("depth", "size"), [(0, 1), (201, 1), (1, 0)])
def test_bounds_out_of_range_are_refused(depth: int, size: int) -> None:
    with pytest.raises(ValueError, match=f"not {depth} and {size}"):
        to_jsonable(1, max_depth=depth, max_size=size)


class Raising:
    """A class whose instances raise wherever they are looked at."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __getattribute__(self, name: str) -> Any:
        raise object.__getattribute__(self, "_error")


class Mean(type):
    @property
    def __module__(cls) -> str:  # type: ignore[override] # as hostile as can be
        raise ZeroDivisionError


class MeanValue(metaclass=Mean):
    pass


class BadField:
    def __get__(self, owner: object, kind: type) -> Any:
        raise SystemExit(1)


@dataclasses.dataclass
class HalfReadable:
    good: int
    bad: int

    def __getattribute__(self, name: str) -> Any:
        if name == "bad":
            raise LookupError
        return super().__getattribute__(name)


class MeanMapping(collections.abc.Mapping[Any, Any]):
    def __getitem__(self, key: Any) -> Any:
        raise LookupError

    def __iter__(self) -> Iterator[str]:
        yield "a"
        raise SystemExit(1)

    def __len__(self) -> int:
        return -1  # noqa: PLE0303 # as hostile as can be


class MeanModel(pydantic.BaseModel):
    def model_dump(self, **_: Any) -> Any:
        raise RecursionError


class MeanDate(datetime.date):
    def isoformat(self) -> str:
        raise OSError


class MeanExitError(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)


class WithClass:
    @property
    def __class__(self) -> Any:  # type: ignore[override] # as hostile as can be
        raise ZeroDivisionError


# Made when used: pytest looks at the values of its parameters, too.
HOSTILE: dict[str, Callable[[], Any]] = {
    "raising": lambda: Raising(ValueError()),
    "exiting": lambda: Raising(SystemExit(1)),
    "metaclass": MeanValue,
    "mapping": MeanMapping,
    "model": MeanModel.model_construct,
    "date": lambda: MeanDate(2024, 5, 20),
    "class": WithClass,
    "class as key": lambda: {WithClass(): 1},
    "fields": type("Broken", (), {"__dataclass_fields__": BadField()}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_value_is_replaced_and_its_neighbours_stay(name: str) -> None:
    found = to_jsonable([1, HOSTILE[name](), {"a": 2}])
    assert isinstance(found.value, list)
    assert (found.value[0], found.value[2]) == (1, {"a": 2})
    assert found.lossy[0].startswith("$[1]")
    assert_strict(found)


def test_a_hostile_exception_keeps_its_type() -> None:
    assert to_jsonable(MeanExitError()).value == {"type": "MeanExitError", "message": ""}


def test_a_field_that_raises_costs_only_itself() -> None:
    found = to_jsonable(HalfReadable(1, 2))
    assert found == ({"good": 1, "bad": "<fsm_engine.jsonable.normalise._Unreadable>"}, ("$.bad",), False)


def test_a_container_that_changes_while_it_is_read_is_no_danger() -> None:
    class Sneaky(collections.abc.Sequence[Any]):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: Any) -> Any:
            owner[str(len(owner))] = 0
            if index:
                raise IndexError
            return 1

    owner: dict[str, Any] = {"a": Sneaky(), "b": 1}
    found = to_jsonable(owner)
    assert found.value == {"a": [1], "b": 1}


def test_only_the_users_interrupt_passes() -> None:
    class Interrupting(collections.abc.Sequence[Any]):
        def __len__(self) -> int:
            raise KeyboardInterrupt

        def __getitem__(self, index: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        to_jsonable([1, Interrupting()])


def test_an_interrupt_while_a_type_is_named_passes() -> None:
    class Stop(type):
        def __getattribute__(cls, name: str) -> Any:
            if name == "__qualname__":
                raise KeyboardInterrupt
            return super().__getattribute__(name)

    class Value(metaclass=Stop):
        pass

    with pytest.raises(KeyboardInterrupt):
        to_jsonable(Value())


class FakeNumpy:
    """numpy is no dependency: this has what its scalars and arrays have, and says that it is of its module."""

    def __init__(self, plain: Any, size: int = 1) -> None:
        self.plain = plain
        self.size = size

    def tolist(self) -> Any:
        return self if self.plain is None else self.plain


FakeNumpy.__module__ = "numpy"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (FakeNumpy(5), (5, (), False)),
        (FakeNumpy([[1.5, float("nan")]], 2), ([[1.5, "NaN"]], (), False)),
        (FakeNumpy(None), ("<numpy.FakeNumpy>", ("$",), False)),  # longdouble: its tolist() gives itself
        (FakeNumpy([0], 10**9), ("<numpy.FakeNumpy>", ("$",), True)),
    ],
)
def test_numpy_values_are_known_by_their_module(value: object, expected: object) -> None:
    assert to_jsonable(value) == expected


def test_an_object_that_only_looks_like_numpy_is_not_asked() -> None:
    class Asked:
        def tolist(self) -> Any:
            raise AssertionError

    assert to_jsonable(Asked()).lossy == ("$",)


def test_a_result_is_its_own_result() -> None:
    for value, _ in VALUES:
        once = to_jsonable(value).value
        assert to_jsonable(once) == (once, (), False)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**700), 10**700)
    | st.floats()
    | st.text()
    | st.text(st.characters(categories=["Cs", "L"]))
    | st.binary()
    | st.dates()
    | st.datetimes(timezones=st.none() | st.just(UTC))
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.decimals()
    | st.fractions()
    | st.complex_numbers()
    | st.sampled_from([Colour.RED, Level.HIGH, Word.YES, Odd, Text("x"), Number(2**70), Real("nan"), ValueError("x")])
    | st.builds(Odd)
    | st.sampled_from(["mapping", "model", "date", "fields"]).map(lambda name: HOSTILE[name]())
)
HASHABLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.dates()
    | st.tuples(st.integers())
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.lists(inner).map(Row)
        | st.dictionaries(HASHABLE, inner)
        | st.dictionaries(st.text(), inner)
        | st.dictionaries(st.text(), inner).map(Table)
        | st.sets(HASHABLE)
        | st.builds(Point, st.integers(), inner)
        | st.builds(Pair, st.integers(), inner)
        | st.builds(Model, when=st.dates(), point=inner)
    ),
    max_leaves=20,
)


@settings(max_examples=300)
@given(ANYTHING, st.integers(1, 6), st.integers(1, 200))
def test_anything_becomes_strict_json_within_the_bounds(value: object, depth: int, size: int) -> None:
    assert_strict(to_jsonable(value))
    found = to_jsonable(value, max_depth=depth, max_size=size)
    assert_strict(found)
    assert not found.truncated or found.lossy
    again = to_jsonable(found.value)
    assert again == (found.value, (), False)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**600), 10**600)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)


@given(JSON)
def test_strict_json_stays_exactly_what_it_is(value: object) -> None:
    found = to_jsonable(value)
    assert repr(found) == repr(Jsonable(value))  # type: ignore[arg-type] # strict by construction


@given(JSON)
def test_the_long_way_and_the_short_one_agree(value: Any) -> None:
    assert repr(jsonable.normalise(value)) == repr(to_jsonable(value))


@pytest.mark.parametrize("limit", [640, 0])
def test_a_huge_integer_is_written_whatever_limit_python_has(limit: int) -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(limit)
    try:
        for value in (2**2048 - 1, 2**2048, -(2**2048), 9_999_999_999 * 10**5000):
            json.dumps(to_jsonable([value]).value)
    finally:
        sys.set_int_max_str_digits(before)


def test_sets_look_the_same_whatever_their_order() -> None:
    words = [f"w{n}" for n in range(50)]
    assert to_jsonable(set(words)).value == to_jsonable(dict.fromkeys(reversed(words)).keys()).value == sorted(words)


@pytest.mark.parametrize("module", [jsonable, _json])
def test_examples_in_the_documentation_are_true(module: Any) -> None:
    assert doctest.testmod(module, extraglobs={"datetime": datetime}).failed == 0
