"""A union told by a tag names the tags when the tag is unknown or missing."""

from __future__ import annotations

import doctest
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from fsm_engine import tool
from fsm_engine.schema import tags as schema_tags
from fsm_engine.schema.compiled import CompiledSchema

from .support import virtual


class Card(BaseModel):
    kind: Literal["card"]
    number: str


class Transfer(BaseModel):
    kind: Literal["transfer", "wire"]
    iban: str


class Order(BaseModel):
    how: Card | Transfer


def test_examples_in_the_documentation_are_true() -> None:
    assert doctest.testmod(schema_tags).failed == 0


def compiled(schema: dict[str, Any]) -> CompiledSchema:
    return CompiledSchema(schema, name="pay", lint=False)


def _alternative(kind: dict[str, Any], field: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"kind": kind, field: {"type": "string"}}, "required": ["kind", field]}


_CARD, _WIRE = _alternative({"const": "card"}, "number"), _alternative({"enum": ["transfer", "wire"]}, "iban")
_TAGGED: dict[str, dict[str, Any]] = {
    "anyOf": {"anyOf": [_CARD, _WIRE]},
    "oneOf": {"oneOf": [_CARD, _WIRE]},
    "with a discriminator": {"oneOf": [_CARD, _WIRE], "discriminator": {"propertyName": "kind"}},
    "that may be null": {"anyOf": [_CARD, _WIRE, {"type": "null"}]},
    "of alternatives of alternatives": {"anyOf": [{"oneOf": [_CARD, _WIRE]}, {"type": "null"}]},
    "through references": {"anyOf": [{"$ref": "#/$defs/card"}, {"$ref": "#/$defs/wire"}]},
    "with more that holds": {"anyOf": [{"allOf": [_CARD, {"minProperties": 1}]}, _WIRE]},
}
NAMED = '"card", "transfer" or "wire"'


@pytest.mark.parametrize("alternatives", _TAGGED.values(), ids=_TAGGED)
@pytest.mark.parametrize(
    ("value", "words", "reason"),
    [
        ({"kind": "bank", "iban": "DE1"}, f"how.kind: must be one of {NAMED}", "not_allowed"),
        ({"kind": 7}, f"how.kind: must be one of {NAMED}", "not_allowed"),
        ({"iban": "DE1"}, f"how.kind: is required; must be one of {NAMED}", "missing_required"),
        ({}, f"how.kind: is required; must be one of {NAMED}", "missing_required"),
    ],
)
def test_an_unknown_or_missing_tag_is_answered_with_those_that_exist(
    alternatives: dict[str, Any], value: Any, words: str, reason: str
) -> None:
    schema = compiled(
        {
            "type": "object",
            "properties": {"how": alternatives},
            "required": ["how"],
            "$defs": {"card": _CARD, "wire": _WIRE},
        }
    )
    (issue,) = schema.issues({"how": value})
    assert (issue.message, issue.reason, issue.path) == (words, reason, "how.kind")
    assert issue.allowed == ["card", "transfer", "wire"]


@pytest.mark.parametrize("annotation", [Card | Transfer, Annotated[Card | Transfer, Field(discriminator="kind")]])
@pytest.mark.parametrize("value", [{"kind": "bank", "iban": "DE1"}, {"iban": "DE1"}])
async def test_a_tools_union_of_models_names_the_tags(annotation: Any, value: Any) -> None:
    async def pay(how: Any) -> str:
        return str(how.kind)

    pay.__annotations__["how"] = annotation
    text = (await virtual(tool(pay)).invoke("pay", {"how": value})).for_model()
    assert "how.kind: " in text
    assert f"must be one of {NAMED}" in text


def test_a_known_tag_is_still_explained_by_its_own_alternative() -> None:
    schema = compiled({"type": "object", "properties": {"how": _TAGGED["anyOf"]}})
    (issue,) = schema.issues({"how": {"kind": "card", "number": 7}})
    assert issue.path == "how.number"


def test_alternatives_that_nothing_tells_apart_are_described() -> None:
    one = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    two = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}
    (issue,) = compiled({"type": "object", "properties": {"x": {"anyOf": [one, two]}}}).issues({"x": {}})
    assert issue.message == "x: must be object with a or object with b"
