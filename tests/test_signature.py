"""Signatures: the schema that a function's hints give, and the values that the function receives."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import types
import typing
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, Optional, Union
from uuid import UUID

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from fsm_engine.docstrings import read_docstring
from fsm_engine.errors import RegistrationError
from fsm_engine.response.tool_response import ToolResponse
from fsm_engine.schema.binding import BindError
from fsm_engine.schema.compiled import CompiledSchema
from fsm_engine.schema.signature import FunctionSignature, inspect_function

OLD_OPTIONAL = Optional[int]  # noqa: UP045 - the old forms are to be read, too
OLD_UNION = Union[int, str]  # noqa: UP007 - likewise, read at run time
OLD_CONTEXT = Optional["Context"]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    country: str = "CN"


class Person(BaseModel):
    name: str
    home: Address | None = None
    boss: Optional[Person] = None  # noqa: UP045 - old style on purpose


class Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore")
    a: int


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict):
    depth: NotRequired[int]


class Words(TypedDict):
    word: str


class Context:
    """Stands for the engine's own."""


def read(func: Callable[..., Any], **settings: Any) -> FunctionSignature:
    return inspect_function(func, context_type=Context, **settings)


def field(annotation: Any, **default: Any) -> FunctionSignature:
    """The signature of a function with one parameter `x`."""

    def tool(x: Any) -> None: ...

    tool.__annotations__ = {"x": annotation}
    tool.__defaults__ = tuple(default.values()) or None
    return read(tool)


def judge(signature: FunctionSignature) -> CompiledSchema:
    return CompiledSchema(signature.parameters_schema, name="tool", lint=False)


# ----------------------------------------------------------------------------------------------------- schema


AWARE = datetime(2024, 5, 20, tzinfo=timezone(timedelta(hours=8)))
KINDS: list[tuple[Any, Any, Any, list[Any]]] = [  # annotation, JSON that fits, what arrives, JSON that does not fit
    (str, "a", "a", [1, None, True]),
    (int, 7, 7, ["7", True, 1.5, None]),
    (int, 7.0, 7, []),
    (float, 1, 1.0, ["1", True]),
    (bool, True, True, [1, 0, "true", "yes"]),
    (None, None, None, [0, ""]),
    (Any, {"a": [1]}, {"a": [1]}, []),
    (list[int], [1, 2.0], [1, 2], [["1"], 1, [True]]),
    (dict[str, float], {"a": 1}, {"a": 1.0}, [{"a": "1"}]),
    (tuple[int, str], [1, "a"], (1, "a"), [[1], ["a", 1]]),
    (set[str], ["a"], {"a"}, [["a", "a"]]),
    (OLD_OPTIONAL, None, None, ["", "null"]),
    (OLD_UNION, "7", "7", [True, None]),
    (int | str, 7, 7, [1.5]),
    (Literal["a", 1], 1, 1, ["b", "1", True]),
    (Annotated[str, Field(min_length=3)], "abc", "abc", ["ab"]),
    (Annotated[int, Field(ge=1, le=3)], 3, 3, [0, 4]),
    (Colour, "red", Colour.RED, ["RED", "green"]),
    (date, "2024-05-20", date(2024, 5, 20), ["2024-05-20T00:00:00Z", 20240520]),
    (datetime, "2024-05-20T00:00:00+08:00", AWARE, ["2024-05-20", "2024-05-20T00:00:00", 1716134400]),
    (timedelta, "PT15M", timedelta(minutes=15), [900, "15 minutes"]),
    (UUID, "123e4567-e89b-12d3-a456-426614174000", UUID("123e4567-e89b-12d3-a456-426614174000"), ["1"]),
    (Decimal, "1.50", Decimal("1.50"), [True]),
    (bytes, "abc", b"abc", [1]),
    (Address, {"street": "a"}, Address(street="a"), [{}, {"street": "a", "stret": "b"}, "{}"]),
    (Person, {"name": "a", "boss": {"name": "b"}}, Person(name="a", boss=Person(name="b")), [{"name": "a", "boss": {}}]),
    (list[Address], [{"street": "a"}], [Address(street="a")], [[{"street": 1}]]),
    (Lenient, {"a": 1, "b": 2}, Lenient(a=1), [{"a": True}]),
    (Point, {"x": 1}, Point(1), [{"x": 1, "z": 2}, {"y": 1}]),
    (Options, {"depth": 1}, {"depth": 1}, [{"deep": 1}]),
    (dict[str, Words], {"a": {"word": "b"}}, {"a": {"word": "b"}}, [{"a": {}}]),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "fits", "arrives", "refused"), KINDS, ids=lambda value: repr(value)[:40])
def test_the_schema_admits_what_the_type_takes_and_the_function_gets_the_type(
    annotation: Any, fits: Any, arrives: Any, refused: list[Any]
) -> None:
    """Cases 117 and 121: an instance is delivered; nothing is coerced in silence, and no unknown field is dropped."""
    signature = field(annotation)
    schema = judge(signature)
    assert schema.is_valid({"x": fits})
    bound = signature.bind({"x": fits})
    assert bound == {"x": arrives}
    assert type(bound["x"]) is type(arrives)
    assert [value for value in refused if schema.is_valid({"x": value})] == []
    assert not schema.is_valid({})
    assert not schema.is_valid({"x": fits, "bogus": 2})


PLAIN = [
    str, bool, None, Any, list[str], dict[str, Any], str | None, str | bool, Literal["a", "b"], Words, list[dict[str, str]],
    Annotated[str, Field(min_length=3)],
]  # fmt: skip
NOT_PLAIN = [
    int, float, list[int], dict[str, float], int | str, Literal["a", 1], Colour, date, Address, tuple[str, str], set[str], bytes, Point,
    Annotated[str, pydantic.StringConstraints(strip_whitespace=True)], Annotated[str, pydantic.StringConstraints(to_lower=True)],
    Annotated[str, pydantic.AfterValidator(lambda text: text)], OLD_OPTIONAL, list[Person], Options,
]  # fmt: skip


@pytest.mark.parametrize("annotation", PLAIN, ids=repr)
def test_plain_json_needs_no_binding_and_binding_changes_nothing(annotation: Any) -> None:
    signature = field(annotation, default=None)
    assert not signature.needs_binding


@pytest.mark.parametrize("annotation", NOT_PLAIN, ids=lambda value: repr(value)[:40])
def test_what_json_cannot_say_exactly_needs_binding(annotation: Any) -> None:
    assert field(annotation).needs_binding


@given(st.integers(-(2**53), 2**53), st.booleans())
def test_a_whole_number_arrives_as_the_number_type_that_is_declared(number: int, as_float: bool) -> None:
    sent = float(number) if as_float else number
    assert type(field(int).bind({"x": sent})["x"]) is int
    assert type(field(float).bind({"x": sent})["x"]) is float


def test_defaults_are_in_the_schema_and_reach_the_function() -> None:
    def tool(a: str, b: int = 3, c: Colour = Colour.RED, d: Address | None = None, e: list[int] = [1]) -> None: ...  # noqa: B006 - a shared default is under test

    signature = read(tool)
    schema = signature.parameters_schema
    assert schema["required"] == ["a"]
    assert {name: each.get("default", "none") for name, each in schema["properties"].items()} == {
        "a": "none", "b": 3, "c": "red", "d": None, "e": [1],
    }  # fmt: skip
    assert judge(signature).apply_defaults({"a": "x"}) == {"a": "x", "b": 3, "c": "red", "d": None, "e": [1]}
    bound = signature.bind({"a": "x"})
    assert bound == {"a": "x", "b": 3, "c": Colour.RED, "d": None, "e": [1]}
    bound["e"].append(2)
    assert signature.bind({"a": "x"})["e"] == [1]


def test_a_default_that_is_not_of_the_declared_type_is_the_functions_own_affair() -> None:
    """Case 118: a default of None does not mean that null is accepted."""

    def tool(limit: int = None, start: datetime = datetime(2024, 1, 1), mark: Any = object()) -> None: ...  # type: ignore[assignment]  # noqa: B008, DTZ001, RUF013 - sloppy on purpose

    signature = read(tool)
    schema = judge(signature)
    assert not schema.is_valid({"limit": None})
    assert schema.apply_defaults({}) == {}
    assert "default" not in signature.parameters_schema["properties"]["mark"]
    assert signature.bind({})["limit"] is None


def test_a_field_as_default_is_read_like_one_in_the_annotation() -> None:
    def tool(a: int = Field(5, ge=1, description="how many"), b: str = Field(min_length=2)) -> None: ...

    signature = read(tool)
    assert signature.parameters_schema["properties"]["a"] == {
        "default": 5, "description": "how many", "minimum": 1, "type": "integer",
    }  # fmt: skip
    assert signature.parameters_schema["required"] == ["b"]
    assert signature.needs_binding
    assert signature.bind({"b": "xx"}) == {"a": 5, "b": "xx"}


def test_a_plain_default_in_a_field_still_needs_binding() -> None:
    def tool(a: str = Field("x")) -> None: ...

    assert read(tool).needs_binding


def test_names_that_mean_something_to_python_or_pydantic_are_names_like_others() -> None:
    def tool(schema: str, model_config: str, _hidden: str, json: str, copy: str, self_: str) -> None: ...

    arguments: dict[str, str] = dict.fromkeys(("schema", "model_config", "_hidden", "json", "copy", "self_"), "x")
    assert judge(read(tool)).is_valid(arguments)
    assert read(tool).bind(arguments) == arguments


def test_a_function_without_parameters_takes_the_empty_object_only() -> None:
    signature = read(lambda: None)
    assert signature.parameters_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert not signature.needs_binding
    assert signature.bind({}) == {}


def test_a_parameter_without_annotation_takes_anything() -> None:
    def tool(x, y=3) -> None: ...

    assert read(tool).parameters_schema["properties"] == {"x": {}, "y": {"default": 3}}


def test_the_schema_holds_no_titles_of_fields_and_no_name_of_its_own() -> None:
    schema = field(Person).parameters_schema
    assert "title" not in schema
    assert "title" not in schema["properties"]["x"]
    assert "title" not in schema["$defs"]["Person"]["properties"]["name"]


# ------------------------------------------------------------------------------------------------ **kwargs etc.


def test_annotated_keyword_arguments_are_additional_properties() -> None:
    """Case 110."""

    def tool(x: str, **others: int) -> None: ...

    signature = read(tool)
    assert signature.parameters_schema["additionalProperties"] == {"type": "integer"}
    assert signature.bind({"x": "a", "y": 1.0}) == {"x": "a", "y": 1}
    assert not judge(signature).is_valid({"x": "a", "y": "b"})


def test_plain_keyword_arguments_need_no_binding() -> None:
    def tool(**others: str) -> None: ...

    assert not read(tool).needs_binding
    assert read(tool).bind({"a": "b"}) == {"a": "b"}


def test_keyword_arguments_need_no_annotation_if_the_schema_is_given() -> None:
    def tool(**others) -> None: ...

    assert read(tool, schema_given=True).bind({"a": 1}) == {"a": 1}


def test_keyword_arguments_cannot_reach_what_is_not_for_the_model() -> None:
    def tool(ctx: Context, key: str, **others: str) -> None: ...

    signature = read(functools.partial(tool, key="SECRET"))
    assert signature.needs_binding
    assert signature.bind({"a": "b"}) == {"a": "b"}
    with pytest.raises(BindError) as caught:
        signature.bind({"key": "x", "ctx": "y"})
    assert [(issue.path, issue.reason) for issue in caught.value.issues] == [
        ("ctx", "unknown_field"),
        ("key", "unknown_field"),
    ]


def _unpacked(**others: typing.Unpack[Options]) -> None: ...


def _variadic(*rest: str) -> None: ...


def _positional(a: str, /) -> None: ...


def _bare(**others) -> None: ...


def _two_contexts(a: Context, b: Context) -> None: ...


def _callback(a: str, call: Callable[[], None]) -> None: ...


def _opaque(thing: Context2) -> None: ...


class Context2:
    """Not the engine's: an ordinary class without a JSON form."""


def _naive(start: pydantic.NaiveDatetime) -> None: ...


def _bad_extra(**others: Context2) -> None: ...


def _gone(a: Gone) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - under test


class _Service:
    def find(self, query: str) -> str:
        return query


@pytest.mark.parametrize(
    ("func", "problem"),
    [
        (_variadic, r"'_variadic'.*\*rest cannot be given by name; take a list"),
        (_positional, "a cannot be given by name; take the '/' out"),
        (_bare, r"\*\*others: str"),
        (_unpacked, "is not read; name the parameters"),
        (_two_contexts, "two parameters want the context"),
        (_callback, "parameter 'call' has an unfit type"),
        (_opaque, "parameter 'thing' has an unfit type.*use types that have a JSON form"),
        (_naive, "parameter 'start'.*declare datetime or AwareDatetime"),
        (_bad_extra, "the parameters have an unfit type"),
        (_gone, r"cannot be resolved \(name 'Gone' is not defined\).*TYPE_CHECKING"),
        (_Service.find, "self is missing; register the method of an object"),
        (_Service, "a class is no tool"),
        (type, "a class is no tool"),
        (max, "has no signature"),
    ],
)
def test_a_function_that_could_never_be_called_is_refused_with_the_fix(func: Any, problem: str) -> None:
    with pytest.raises(RegistrationError, match=problem):
        read(func)


# ----------------------------------------------------------------------------------------------------- callables


def _decorated(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return inner


def greet(name: str, times: int = 1) -> str:
    """Say hello."""
    return f"hello {name} " * times


class Greeter:
    def __call__(self, name: str, times: int = 1) -> str:
        """Say hello."""
        return greet(name, times)

    def method(self, name: str, times: int = 1) -> str:
        """Say hello."""
        return greet(name, times)


@pytest.mark.parametrize(
    "func",
    [greet, _decorated(greet), _decorated(_decorated(greet)), Greeter(), Greeter().method, functools.partial(greet), functools.partial(Greeter().method), types.MethodType(Greeter.method, Greeter())],
    ids=["function", "decorated", "twice", "object", "method", "partial", "partial of method", "made method"],
)  # fmt: skip
def test_every_kind_of_callable_is_read_alike(func: Any) -> None:
    signature = read(func)
    assert signature.parameters_schema == read(greet).parameters_schema
    assert signature.description == "Say hello."
    assert signature.kind == "sync"
    assert signature.is_sync
    assert func(**signature.bind({"name": "Ann"})) == "hello Ann "


def test_what_a_partial_has_set_is_neither_shown_nor_open_to_the_model() -> None:
    def search(key: str, query: str, limit: int) -> None: ...

    signature = read(functools.partial(functools.partial(search, key="SECRET"), limit=3))
    assert list(signature.parameters_schema["properties"]) == ["query"]
    assert "SECRET" not in repr(signature.parameters_schema)
    assert not judge(signature).is_valid({"query": "x", "key": "y"})
    positional = read(functools.partial(search, "SECRET"))
    assert list(positional.parameters_schema["properties"]) == ["query", "limit"]


async def _async() -> None: ...


async def _async_generator() -> AsyncIterator[int]:
    yield 1


def _sync_generator() -> Iterator[int]:
    yield 1


class _AsyncObject:
    async def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("func", "kind"),
    [
        (greet, "sync"),
        (_async, "async"),
        (functools.partial(_async), "async"),
        (_AsyncObject(), "async"),
        (functools.partial(_AsyncObject()), "async"),
        (_async_generator, "async_generator"),
        (_sync_generator, "sync_generator"),
        (_decorated(_async), "sync"),
    ],
)
def test_the_kind_is_that_of_what_is_called(func: Any, kind: str) -> None:
    assert read(func).kind == kind


CONTEXTS = [Context, OLD_CONTEXT, Context | None, Annotated[Context, "x"], "Context", "Context | None"]


@pytest.mark.parametrize("annotation", CONTEXTS, ids=repr)
def test_the_context_is_found_by_its_type_and_is_no_part_of_the_schema(annotation: Any) -> None:
    def tool(query: str, info: Any) -> None: ...

    tool.__annotations__["info"] = annotation
    signature = read(tool)
    assert signature.context_parameter == "info"
    assert list(signature.parameters_schema["properties"]) == ["query"]
    assert not signature.needs_binding


def test_a_context_that_is_imported_for_type_checkers_only_is_found_by_its_name() -> None:
    namespace: dict[str, Any] = {}
    exec("def tool(ctx: 'Special'): ...", namespace)
    special = type("Special", (), {})
    assert inspect_function(namespace["tool"], context_type=special).context_parameter == "ctx"


def test_another_class_of_the_same_name_is_not_the_context() -> None:
    special = type("Context2", (), {})
    with pytest.raises(RegistrationError, match="unfit type"):
        inspect_function(_opaque, context_type=special)


def test_without_a_context_type_nothing_is_the_context() -> None:
    assert inspect_function(greet).context_parameter is None


def test_types_that_are_local_to_the_defining_function_are_resolved() -> None:
    class Local(BaseModel):
        a: int

    def tool(x: Local, y: list[Local] | None = None) -> None: ...

    assert read(tool).bind({"x": {"a": 1}})["x"] == Local(a=1)


def test_types_that_went_away_with_the_defining_function_are_asked_for() -> None:
    def make() -> Callable[..., Any]:
        class Local(BaseModel):
            a: int

        def tool(x: Local) -> None: ...

        return tool

    with pytest.raises(RegistrationError, match="'Local' is not defined"):
        read(make())


# -------------------------------------------------------------------------------------------------------- return


def _returning(annotation: Any) -> Callable[..., Any]:
    def tool() -> Any: ...

    tool.__annotations__ = {"return": annotation}
    return tool


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, {"type": "integer"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (Address, {"properties": {"street": {"type": "string"}, "country": {"default": "CN", "type": "string"}}, "required": ["street", "country"], "title": "Address", "type": "object"}),
        (None, None),
        (Any, None),
        (ToolResponse, None),
        (ToolResponse | str, None),
        (Context2, None),
    ],
)  # fmt: skip
def test_the_return_annotation_gives_a_schema_if_it_says_anything(annotation: Any, schema: Any) -> None:
    signature = read(_returning(annotation))
    assert signature.return_schema == (schema if schema is None else signature.return_schema)
    if schema is not None:
        assert signature.return_schema is not None
        assert {key: signature.return_schema[key] for key in schema if key != "required"} == {
            key: value for key, value in schema.items() if key != "required"
        }


def test_neither_a_missing_annotation_nor_a_generator_says_what_is_returned() -> None:
    assert read(lambda: 1).return_schema is None
    assert read(_sync_generator).return_schema is None


# ------------------------------------------------------------------------------------------------------- binding


def issues_of(signature: FunctionSignature, arguments: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(BindError) as caught:
        signature.bind(arguments)
    assert "SECRET" not in str(caught.value) + repr(caught.value.issues)
    assert caught.value.__context__ is None
    assert str(caught.value) == "; ".join(issue.message for issue in caught.value.issues)
    return [(issue.path, issue.reason) for issue in caught.value.issues]


class Even(BaseModel):
    n: int

    @pydantic.field_validator("n")
    @classmethod
    def _is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        assert value < 10, "must be below 10"
        return value


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


def test_a_failed_binding_says_where_and_what_without_the_values() -> None:
    def tool(
        *,
        person: Person,
        pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]],
        colour: Colour = Colour.RED,
        when: datetime | None = None,
        number: int | list[int] = 0,
        pair: tuple[int, str] = (1, ""),
    ) -> None: ...

    signature = read(tool)
    assert issues_of(
        signature,
        {
            "person": {"boss": {"name": 5}},
            "pets": [{"kind": "SECRET"}],
            "colour": "SECRET",
            "when": "2024-05-20T00:00:00",
            "number": ["SECRET"],
            "pair": [1],
            "bogus": "SECRET",
        },
    ) == [
        ("person.name", "missing_required"),
        ("person.boss.name", "string_type"),
        ("pets[0]", "union_tag_invalid"),
        ("colour", "enum"),
        ("when", "missing_offset"),
        ("number", "int_type"),
        ("number[0]", "int_parsing"),
        ("pair[1]", "missing_required"),
        ("bogus", "unknown_field"),
    ]


def test_what_an_authors_own_check_says_is_kept() -> None:
    signature = field(Even)
    assert issues_of(signature, {"x": {"n": 3}}) == [("x.n", "invalid_value")]
    with pytest.raises(BindError, match=r"x\.n: must be even"):
        signature.bind({"x": {"n": 3}})
    with pytest.raises(BindError, match=r"x\.n: must be below 10"):
        signature.bind({"x": {"n": 12}})


@pytest.mark.parametrize(
    "annotation", [datetime, datetime | None, list[datetime], dict[str, datetime], pydantic.AwareDatetime]
)
def test_a_date_time_without_offset_is_refused_even_if_a_schema_let_it_through(annotation: Any) -> None:
    value: Any = "2024-05-20T00:00:00"
    if typing.get_origin(annotation) in (list, dict):
        value = [value] if typing.get_origin(annotation) is list else {"k": value}
    ((_, reason),) = issues_of(field(annotation), {"x": value})
    assert reason == "missing_offset"


def test_an_instant_arrives_as_an_aware_datetime() -> None:
    """E5."""
    bound = field(datetime).bind({"x": "2024-05-20T00:00:00+08:00"})["x"]
    assert bound == datetime(2024, 5, 19, 16, tzinfo=UTC)
    assert bound.utcoffset() == timedelta(hours=8)


def test_arguments_are_not_changed_by_binding() -> None:
    arguments = {"x": [{"street": "a"}]}
    field(list[Address]).bind(arguments)
    assert arguments == {"x": [{"street": "a"}]}


# ----------------------------------------------------------------------------------------------------- docstrings


GOOGLE = """Find pages.

    More on it,
    in two lines.

    Args:
        query (str, optional): What to look for:
            any words.
        limit: How many.

        **others: The rest.
        silent:

    Returns:
        list: The pages.

    Note:
        limit: is no parameter here.
    """
NUMPY = """Find pages.

    More on it,
    in two lines.

    Parameters
    ----------
    query : str, optional
        What to look for:
        any words.
    limit
        How many.

    **others : str
        The rest.

    Returns
    -------
    list
        The pages.
    """
SPHINX = """Find pages.

    More on it,
    in two lines.

    :param str query: What to look for:
        any words.
    :type query: str
    :param limit: How many.
    :keyword others: The rest.
    :returns: the pages
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["Google", "NumPy", "Sphinx"])
def test_all_three_styles_of_docstrings_are_read(text: str) -> None:
    said = read_docstring(text)
    assert said.description == "Find pages.\n\nMore on it,\nin two lines."
    assert said.parameters == {"query": "What to look for: any words.", "limit": "How many.", "others": "The rest."}


@pytest.mark.parametrize("text", [None, "", "   "])
def test_without_a_docstring_there_is_nothing_to_say(text: str | None) -> None:
    assert read_docstring(text) == ("", {})


def test_a_docstring_describes_parameters_that_do_not_describe_themselves() -> None:
    def tool(query: str, colour: Colour, limit: Annotated[int, Field(description="own words")]) -> None:
        """Find.

        Args:
            query: what to look for
            colour: which one
            limit: other words
            unknown: no such parameter
        """

    properties = read(tool).parameters_schema["properties"]
    assert {name: each["description"] for name, each in properties.items()} == {
        "query": "what to look for", "colour": "which one", "limit": "own words",
    }  # fmt: skip
    assert "$ref" in properties["colour"]


@given(st.text())
def test_any_text_is_a_docstring(text: str) -> None:
    said = read_docstring(text)
    assert all(name.isidentifier() or name.isalnum() for name in said.parameters)
    assert len(said.description) <= len(inspect.cleandoc(text)) + len(text)
