"""Schemas: refused at registration when they cannot work; otherwise verdicts, words, defaults and repairs."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine.errors import ConfigurationError, SchemaError
from fsm_engine.errors.issue import Issue
from fsm_engine.schema.compiled import CompiledSchema
from fsm_engine.schema.patterns import ambiguous_loop
from fsm_engine.schema.reader import pointer_to
from fsm_engine.schema.shape import json_type
from fsm_engine.schema.words import describe, in_words, readable

PYTHON_ONLY = r"^(?P<quote>['\"]?)\w*(?P=quote)\Z"
"""A pattern that only Python's `re` can read, so that the schema is left to jsonschema."""

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def parameters(properties: dict[str, Any], required: list[str] | None = None, /, **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        **more,
    }


def compiled(schema: dict[str, Any], **settings: Any) -> CompiledSchema:
    return CompiledSchema(schema, name="tool", lint=settings.pop("lint", False), **settings)


def both_engines(properties: dict[str, Any], **more: Any) -> list[CompiledSchema]:
    """The same schema for each engine; a field that is never given decides which one it is."""
    made = []
    for pattern in ("^x$", PYTHON_ONLY):
        with_decoy = {**properties, "decoy": {"type": "string", "pattern": pattern}}
        made.append(compiled(parameters(with_decoy, [], **more)))
    assert [schema.engine for schema in made] == ["jsonschema-rs", "jsonschema"]
    return made


def said(schema: CompiledSchema, value: Any) -> list[tuple[str, str, str]]:
    return sorted((issue.path, issue.reason, issue.message) for issue in schema.issues(value))


# ---------------------------------------------------------------------------------------------- registration


REFUSED: dict[str, tuple[Any, str, str]] = {
    "no object": ([], "#", "must be an object"),
    "not JSON": ({"type": "object", "default": {1, 2}}, "#", "is not JSON"),
    "NaN": (parameters({"n": {"minimum": float("nan")}}), "#", "is not JSON"),
    "wrong keyword": (parameters({"n": {"type": "integr"}}), "#/properties/n/type", "'integr'"),
    "long error": (parameters({"n": {"type": "x" * 500}}), "#/properties/n/type", "does not fit the rule"),
    "unknown dialect": (
        {"$schema": "https://example.com/mine", "type": "object"},
        "#/$schema",
        "leave it out for 2020-12",
    ),
    "old dialect": (
        {"$schema": "http://json-schema.org/draft-03/schema#", "type": "object"},
        "#/$schema",
        "no dialect",
    ),
    "http $ref": (parameters({"a": {"$ref": "http://localhost/a.json"}}), "#/properties/a/$ref", "nothing is fetched"),
    "file $ref": (parameters({"a": {"$ref": "file:///a.json"}}), "#/properties/a/$ref", "nothing is fetched"),
    "lost $ref": (parameters({"a": {"$ref": "#/$defs/gone"}}), "#/properties/a/$ref", "under $defs"),
    "lost anchor": (parameters({"a": {"items": {"$ref": "#gone"}}}), "#/properties/a/items/$ref", "leads nowhere"),
    "lost $dynamicRef": (parameters({"a": {"$dynamicRef": "#gone"}}), "#/properties/a/$dynamicRef", "leads nowhere"),
    "root no object": ({"type": "array"}, "#", '"type": "object"'),
    "empty root": ({}, "#", '"type": "object"'),
    "required is nowhere": (parameters({"a": {}}, ["a", "b"]), "#/required", "'b' is required, but no property"),
    "required inside": (parameters({"a": parameters({}, ["b"])}), "#/properties/a/required", "take it out of required"),
    "required in branch": (parameters({"a": {}}, ["a"], anyOf=[{"required": ["b"]}]), "#/anyOf/0/required", "'b'"),
    "siblings of $ref": (
        parameters({"a": {"$ref": "#/definitions/n", "minimum": 5}}, definitions={"n": {}}, **{"$schema": DRAFT_7}),
        "#/properties/a",
        "minimum beside $ref is ignored",
    ),
    "no pattern": (parameters({"a": {"pattern": "("}}), "#/properties/a/pattern", "cannot be read"),
    "pattern in a name": (
        parameters({"a": {"patternProperties": {r"(a+)+\Z": {}}}}),
        r"#/properties/a/patternProperties/(a+)+\Z",
        "exponentially long",
    ),
    "slow pattern": (parameters({"a": {"pattern": r"^(a+)+\Z"}}), "#/properties/a/pattern", "exponentially long"),
    "slow uniqueItems": (
        parameters({"a": {"uniqueItems": True}, "b": {"pattern": PYTHON_ONLY}}),
        "#/properties/a/uniqueItems",
        '"maxItems" of at most 200',
    ),
}


@pytest.mark.parametrize(("schema", "place", "problem"), REFUSED.values(), ids=REFUSED)
def test_a_schema_that_cannot_work_is_refused_with_the_place_and_the_fix(schema: Any, place: str, problem: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compiled(schema)
    assert f"schema of tool, at {place}: " in str(caught.value)
    assert problem in str(caught.value)
    assert isinstance(caught.value, ConfigurationError)


@pytest.mark.parametrize("depth", [300, 5_000])
def test_a_schema_nested_without_end_is_refused(depth: int) -> None:
    deep: dict[str, Any] = {}
    for _ in range(depth):
        deep = {"not": deep}
    with pytest.raises(SchemaError, match="at #: "):
        compiled({"type": "object", "properties": {"a": deep}})


LINTED: dict[str, tuple[dict[str, Any], str]] = {
    "field": (parameters({"a": {"type": "string"}}, []), "#/properties/a: 'a' is never required"),
    "inner field": (parameters({"a": parameters({"b": {}}, [])}), "#/properties/a/properties/b: 'b' is never required"),
    "field of items": (
        parameters({"a": {"items": parameters({"b": {}}, [])}}),
        "#/properties/a/items/properties/b: 'b' is never required",
    ),
    "default that does not fit": (
        parameters({"a": {"type": "integer", "default": None}}, []),
        "#/properties/a/default: does not fit its own field, which must be integer",
    ),
    "the same for jsonschema": (
        parameters({"a": {"type": "string", "pattern": PYTHON_ONLY, "default": 7}}, []),
        "#/properties/a/default: does not fit",
    ),
}


@pytest.mark.parametrize(("schema", "problem"), LINTED.values(), ids=LINTED)
def test_a_schema_that_is_most_likely_wrong_is_refused_unless_lint_is_off(schema: dict[str, Any], problem: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(problem)):
        compiled(schema, lint=True)
    compiled(schema, lint=False)


ACCEPTED: dict[str, dict[str, Any]] = {
    "required through a branch": parameters({"a": {}, "b": {}}, [], anyOf=[{"required": ["a"]}, {"required": ["b"]}]),
    "required by another field": parameters({"a": {}, "b": {}}, ["a"], dependentRequired={"a": ["b"]}),
    "required by allOf": {"type": "object", "allOf": [parameters({"a": {}}, []), {"required": ["a"]}]},
    "fields of a reference": {"$ref": "#/$defs/p", "required": ["a"], "$defs": {"p": parameters({"a": {}}, [])}},
    "default behind a reference": parameters({"a": {"$ref": "#/$defs/d"}}, [], **{"$defs": {"d": {"default": 1}}}),
    "field that is forbidden": parameters({"a": False}, []),
    "other fields allowed": parameters({}, ["a"], additionalProperties={"type": "string"}),
    "fields by pattern": parameters({}, ["a"], patternProperties={"^a": {}}),
    "what `not` says": parameters({"a": {}}, ["a"], **{"not": {"required": ["b"]}}),
    "if and then": parameters({"a": {}, "b": {}}, ["a"], **{"if": {"required": ["a"]}, "then": {"required": ["b"]}}),
    "fields of a dependent schema": parameters({"a": {}}, ["a"], dependentSchemas={"a": parameters({"b": {}})}),
    "recursion": parameters({"a": {"$ref": "#/$defs/n"}}, **{"$defs": {"n": parameters({"n": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}})}}),
    "recursion at one place": parameters({"a": {}}, ["a"], anyOf=[{"$ref": "#"}, {"required": ["a"]}]),
    "draft 7": parameters({"a": {"$ref": "#/definitions/n"}}, definitions={"n": {}}, dependencies={"a": ["a"], "b": {}}, **{"$schema": DRAFT_7}),
    "reference into an odd place": parameters({"a": {"$ref": "#/x/y"}}, **{"x": {"y": {"$ref": "#/$defs/z"}}, "$defs": {"z": {}}}),
    "reference to true": parameters({"a": {"$ref": "#/$defs/t"}}, **{"$defs": {"t": True}}),
    "unknown keyword": parameters({"a": {"dependentSchemas": 7}}, **{"$schema": DRAFT_7}),
}  # fmt: skip


@pytest.mark.parametrize("schema", ACCEPTED.values(), ids=ACCEPTED)
def test_a_schema_whose_parts_make_sense_together_is_accepted(schema: dict[str, Any]) -> None:
    assert compiled(schema, lint=True).engine == "jsonschema-rs"


def test_a_pattern_in_the_form_of_ecma_262_is_read() -> None:
    schema = compiled(parameters({"a": {"pattern": r"^\p{Lu}+$"}}))
    assert (schema.engine, schema.is_valid({"a": "ÄÖ"}), schema.is_valid({"a": "äö"})) == ("jsonschema-rs", True, False)


def test_a_schema_of_results_may_have_any_root() -> None:
    assert compiled({"type": "array"}, any_root=True).is_valid([])


def test_references_that_lead_to_one_place_in_very_many_ways_take_no_longer() -> None:
    steps: dict[str, Any] = {"d50": {"type": "object"}}
    for number in range(50):
        step = {"$ref": f"#/$defs/d{number + 1}"}
        steps[f"d{number}"] = {
            "allOf": [step, step],
            "anyOf": [step, {"type": "null"}],
            "oneOf": [{"type": "null"}, step],
        }
    schema = compiled(parameters({"a": {"$ref": "#/$defs/d0"}}, **{"$defs": steps}), lint=True)
    assert schema.may_embed


def test_the_schema_is_a_copy() -> None:
    source = parameters({"a": {"type": "string"}})
    schema = compiled(source)
    source["properties"].clear()
    assert schema.schema["properties"] == {"a": {"type": "string"}}
    assert repr(schema) == "CompiledSchema(name='tool', engine='jsonschema-rs')"


def test_constraints_beside_a_reference_are_kept() -> None:
    """Case 113: in 2020-12 a `$ref` and what stands beside it hold both."""
    schema = compiled(parameters({"n": {"$ref": "#/$defs/n", "minimum": 5}}, **{"$defs": {"n": {"maximum": 9}}}))
    assert [schema.is_valid({"n": n}) for n in (4, 5, 9, 10)] == [False, True, True, False]


def test_a_raw_schema_is_validated_like_any_other() -> None:
    """Case 122: the form in which MCP tools arrive."""
    schema = compiled({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]})
    assert said(schema, {}) == [("x", "missing_required", "x: is required; give integer")]


# --------------------------------------------------------------------------------------------------- patterns


SLOW = [
    r"^(a+)+$", r"(a|a)*", r"(a?a)*", r"(\w+\d)*", r"^(?=(a+)+$)b", r"(\s*\w+)*", r"(.*)*", r"(x+x+)+y", r"(?>(a+)+b)",
    r"(|a)+", r"((a|b)|[bc])*", r"([^,]+,?)*\Z", r"(?i:(a+A)+)", r"(?:a++|a)*", r"(b)?((?(1)a+|c))*", r"(a)(\1+)*",
    r"([a-f]+[e-z])*", r"(ж+Ж?)*", r"(漢+[字漢])*", r"(x{1,1200000})*", r"((ab?)*b)*",
]  # fmt: skip
FAST = [
    r"^(\w+\.)*\w+$", r"(a|b)*", r"(foo|far)+", r"(a?b)*", r"^[a-z]+(-[a-z]+)*\Z", r"(?>a+)+b", r"(a++b?)+", r"(?:a{3})*",
    r"([^,]+,)*[^,]+\Z", r"(漢+字)*", r"(\d{1,3}\.){3}\d{1,3}", r"(a)?(?(1)b|c)*", r"a+a+", r"(a+)?", r"(?<!x)\w+(?!y)\b", PYTHON_ONLY,
]  # fmt: skip


@pytest.mark.parametrize("pattern", SLOW)
def test_a_pattern_that_can_hang_is_found(pattern: str) -> None:
    assert ambiguous_loop(pattern)


@pytest.mark.parametrize("pattern", FAST)
def test_a_pattern_that_cannot_hang_passes(pattern: str) -> None:
    assert not ambiguous_loop(pattern)


@given(st.text(min_size=1, max_size=3))
def test_any_text_repeated_in_a_repetition_is_found(text: str) -> None:
    assert ambiguous_loop(f"(?:(?:{re.escape(text)})+)+")
    assert not ambiguous_loop(f"(?:{re.escape(text)})+")


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"^(?=(a|aa)+\1$)c"])
def test_a_slow_pattern_that_jsonschema_rs_reads_ends_in_time(pattern: str) -> None:
    schema = compiled(parameters({"a": {"pattern": pattern}}))
    started = time.perf_counter()
    assert not schema.is_valid({"a": "a" * 60 + "b"})
    assert schema.issues({"a": "a" * 60 + "b"})
    assert time.perf_counter() - started < 10  # Python's `re` would need longer than there is time


def test_a_pattern_on_which_the_engine_gives_up_is_said_to_be_unvalidatable() -> None:
    schema = compiled(parameters({"a": {"pattern": r"^(?=(a|aa)+\1$)c"}}))
    assert [issue.reason for issue in schema.issues({"a": "a" * 60 + "b"})] == ["unvalidatable"]


# ----------------------------------------------------------------------------------------------------- issues


ADDRESS = parameters({"zip": {"type": "string", "pattern": "^[0-9]+$"}}, additionalProperties=False)
SHAPES = [
    parameters({"kind": {"const": "circle"}, "r": {"type": "number"}}),
    parameters({"kind": {"const": "square"}, "side": {"type": "number"}}),
]

ISSUES: dict[str, tuple[dict[str, Any], Any, list[tuple[str, str, str]]]] = {
    "type": ({"a": {"type": "integer"}}, {"a": "7"}, [("a", "wrong_type", "a: must be integer, not string")]),
    "bool is no integer": ({"a": {"type": "integer"}}, {"a": True}, [("a", "wrong_type", "a: must be integer, not boolean")]),
    "types": ({"a": {"type": ["integer", "null"]}}, {"a": ""}, [("a", "wrong_type", "a: must be integer or null, not string")]),
    "enum": ({"a": {"enum": ["x", "y", 3]}}, {"a": "z"}, [("a", "not_allowed", 'a: must be one of "x", "y" or 3')]),
    "enum of one": ({"a": {"enum": ["x"]}}, {"a": "z"}, [("a", "not_allowed", 'a: must be "x"')]),
    "const": ({"a": {"const": "x"}}, {"a": "z"}, [("a", "not_allowed", 'a: must be "x"')]),
    "minLength": ({"a": {"minLength": 3}}, {"a": "z"}, [("a", "too_short", "a: must have at least 3 characters")]),
    "maxLength": ({"a": {"maxLength": 1}}, {"a": "zz"}, [("a", "too_long", "a: must have at most 1 character")]),
    "minItems": ({"a": {"minItems": 1}}, {"a": []}, [("a", "too_few_items", "a: must have at least 1 item")]),
    "maxItems": ({"a": {"maxItems": 2}}, {"a": [1, 2, 3]}, [("a", "too_many_items", "a: must have at most 2 items")]),
    "minProperties": ({"a": {"minProperties": 1}}, {"a": {}}, [("a", "too_few_fields", "a: must have at least 1 field")]),
    "maxProperties": ({"a": {"maxProperties": 0}}, {"a": {"b": 1}}, [("a", "too_many_fields", "a: must have at most 0 fields")]),
    "minimum": ({"a": {"minimum": 0.01}}, {"a": 0}, [("a", "too_small", "a: must be at least 0.01")]),
    "maximum": ({"a": {"maximum": 9}}, {"a": 10}, [("a", "too_large", "a: must be at most 9")]),
    "exclusiveMinimum": ({"a": {"exclusiveMinimum": 0}}, {"a": 0}, [("a", "too_small", "a: must be greater than 0")]),
    "exclusiveMaximum": ({"a": {"exclusiveMaximum": 0}}, {"a": 0}, [("a", "too_large", "a: must be less than 0")]),
    "multipleOf": ({"a": {"multipleOf": 5}}, {"a": 7}, [("a", "not_a_multiple", "a: must be a multiple of 5")]),
    "pattern": ({"a": {"pattern": "^x$"}}, {"a": "z"}, [("a", "bad_pattern", "a: must match the pattern ^x$")]),
    "uniqueItems": (
        {"a": {"uniqueItems": True, "maxItems": 9}},
        {"a": [1, 1]},
        [("a", "duplicate_items", "a: must not hold the same item twice")],
    ),
    "contains": (
        {"a": {"contains": {"const": 2}, "minContains": 2}},
        {"a": [2]},
        [("a", "wrong_items", "a: at least 2 of the items must be 2")],
    ),
    "contains at most": (
        {"a": {"contains": {"type": "integer"}, "maxContains": 1}},
        {"a": [2, 3]},
        [("a", "wrong_items", "a: at least 1 and at most 1 of the items must be integer")],
    ),
    "not": ({"a": {"not": {"type": "string"}}}, {"a": "x"}, [("a", "forbidden", "a: must not be string")]),
    "path": (
        {"a": {"items": {"properties": {"first name": {"type": "string"}}}}},
        {"a": [{}, {"first name": 5}]},
        [('a[1]["first name"]', "wrong_type", 'a[1]["first name"]: must be string, not integer')],
    ),
    "missing inside": (
        {"a": ADDRESS},
        {"a": {}},
        [("a.zip", "missing_required", "a.zip: is required; give string")],
    ),
    "unknown field": (
        {"a": ADDRESS},
        {"a": {"zip": "1", "zp": "1"}},
        [("a.zp", "unknown_field", "a.zp: is no known field; did you mean zip? allowed is zip")],
    ),
    "no field at all": (
        {"a": {"additionalProperties": False}},
        {"a": {"b": 1}},
        [("a.b", "unknown_field", "a.b: is no known field; no field is allowed here")],
    ),
    "by pattern": (
        {"a": {"patternProperties": {"^x": {}}, "properties": {"no": False}, "additionalProperties": False}},
        {"a": {"x1": 1, "y": 2}},
        [("a.y", "unknown_field", "a.y: is no known field; no field is allowed here")],
    ),
    "a name that may be a value": (
        {"a": ADDRESS},
        {"a": {"zip": "1", "my password is hunter2": 1}},
        [("a", "unknown_field", "a: has a field that is not known; allowed is zip")],
    ),
    "dependentRequired": (
        {"a": {"dependentRequired": {"b": ["c"], "x": ["y"]}}},
        {"a": {"b": 1}},
        [("a.c", "missing_required", "a.c: is required; give any value")],
    ),
    "names of fields": (
        {"a": {"propertyNames": {"maxLength": 2}}},
        {"a": {"abc": 1}},
        [("a", "bad_field_name", "a: a field's name must have at most 2 characters")],
    ),
    "names by a rule without words": (
        {"a": {"propertyNames": {"not": {"const": "b"}}}},
        {"a": {"b": 1}},
        [("a", "bad_field_name", "a: a field's name must fit the rules for names")],
    ),
    "date-time": (
        {"a": {"type": "string", "format": "date-time"}},
        {"a": "yesterday"},
        [("a", "bad_format", "a: must be in the format date-time (such as 2024-05-20T00:00:00+08:00)")],
    ),
    "format without an example": (
        {"a": {"format": "uri-template"}},
        {"a": "{"},
        [("a", "bad_format", "a: must be in the format uri-template")],
    ),
    "optional value": (
        {"a": {"anyOf": [{"type": "string", "minLength": 3}, {"type": "null"}]}},
        {"a": "x"},
        [("a", "too_short", "a: must have at least 3 characters")],
    ),
    "no alternative's type": (
        {"a": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}, False, {"type": "null"}]}},
        {"a": 7},
        [("a", "wrong_type", "a: must be string, array of integer, nothing or null")],
    ),
    "the alternative that is marked": (
        {"a": {"oneOf": SHAPES}},
        {"a": {"kind": "square", "side": "long"}},
        [("a.side", "wrong_type", "a.side: must be number, not string")],
    ),
    "no alternative's mark": (
        {"a": {"oneOf": SHAPES}},
        {"a": {"kind": "star"}},
        [("a.kind", "not_allowed", 'a.kind: must be one of "circle" or "square"')],
    ),
    "two alternatives at once": (
        {"a": {"oneOf": [{"type": "integer"}, {"type": "number"}]}},
        {"a": 7},
        [("a", "ambiguous", "a: fits more than one of its alternatives; must be exactly one of integer or number")],
    ),
    "all of them": (
        {"a": {"type": "string"}, "b": {"minimum": 3}},
        {"a": 1, "b": 1},
        [("a", "wrong_type", "a: must be string, not integer"), ("b", "too_small", "b: must be at least 3")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("engine", [0, 1], ids=["jsonschema-rs", "jsonschema"])
@pytest.mark.parametrize(("properties", "value", "expected"), ISSUES.values(), ids=ISSUES)
def test_an_issue_says_the_path_the_reason_and_what_is_allowed(
    engine: int, properties: dict[str, Any], value: Any, expected: list[tuple[str, str, str]]
) -> None:
    schema = both_engines(properties)[engine]
    assert not schema.is_valid(value)
    assert said(schema, value) == expected


@pytest.mark.parametrize("engine", [0, 1], ids=["jsonschema-rs", "jsonschema"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("date-time", "2024-05-20"),
        ("date-time", "2024-05-20T08:00"),
        ("date-time", "2024-05-20 08:00:00.5"),
        ("time", "08:00"),
    ],
)
def test_a_time_without_offset_is_refused_with_an_example(engine: int, name: str, value: str) -> None:
    """E5."""
    (issue,) = both_engines({"a": {"type": "string", "format": name}})[engine].issues({"a": value})
    assert (issue.path, issue.reason, issue.rule, issue.allowed) == ("a", "missing_offset", "format", name)
    assert "the offset from UTC is missing" in issue.message
    assert "+08:00" in issue.message


@pytest.mark.parametrize("engine", [0, 1], ids=["jsonschema-rs", "jsonschema"])
def test_a_time_with_offset_is_accepted(engine: int) -> None:
    assert both_engines({"a": {"format": "date-time"}})[engine].is_valid({"a": "2024-05-20T00:00:00+08:00"})


def test_machine_readable_parts_of_an_issue_are_the_rule_and_its_limit() -> None:
    schema = compiled(parameters({"a": {"enum": ["x", "y"]}}))
    assert schema.issues({"a": "SECRET"}) == (
        Issue(reason="not_allowed", path="a", rule="enum", message='a: must be one of "x" or "y"', allowed=["x", "y"]),
    )


def test_a_root_that_is_no_object_is_said() -> None:
    assert said(compiled(parameters({})), [1]) == [("", "wrong_type", "top level: must be object, not array")]


FALLBACK: dict[str, tuple[dict[str, Any], Any, str]] = {
    "false schema": ({"a": False}, {"a": 1}, "is not allowed here; leave it out"),
    "false items": ({"a": {"prefixItems": [{}], "items": False}}, {"a": [1, 2]}, "is not allowed here; leave it out"),
    "unevaluated items": ({"a": {"prefixItems": [{}], "unevaluatedItems": False}}, {"a": [1, 2]}, "has items that are not"),
    "unevaluated field": ({"a": {"allOf": [{"properties": {"b": {}}}], "unevaluatedProperties": False}}, {"a": {"c": 1}}, "allowed is b"),
    "unevaluated field of one of two": ({"a": {"anyOf": [{"$ref": "#/properties/b"}] * 2, "unevaluatedProperties": False}, "b": {"properties": {"x": {}}}}, {"a": {"c": 1}}, "allowed is x"),
    "behind a $dynamicRef": ({"a": {"$dynamicRef": "#n"}, "b": {"$dynamicAnchor": "n", "minLength": 2}}, {"a": "x"}, "rule 'minLength'"),
    "type behind a $dynamicRef": ({"a": {"$dynamicRef": "#n"}, "b": {"$dynamicAnchor": "n", "type": "null"}}, {"a": "x"}, "not string"),
    "required behind a $dynamicRef": ({"a": {"$dynamicRef": "#n"}, "b": {"$dynamicAnchor": "n", "properties": {"c": {}}, "required": ["c"]}}, {"a": {}}, "rule 'required'"),
    "no alternative behind a $dynamicRef": ({"a": {"$dynamicRef": "#n"}, "b": {"$dynamicAnchor": "n", "anyOf": [{"type": "null"}]}}, {"a": 1}, ""),
    "contains behind a $dynamicRef": ({"a": {"$dynamicRef": "#n"}, "b": {"$dynamicAnchor": "n", "contains": {"type": "null"}}}, {"a": []}, "items"),
}  # fmt: skip


@pytest.mark.parametrize(("properties", "value", "part"), FALLBACK.values(), ids=FALLBACK)
def test_rules_that_cannot_be_found_again_still_give_an_issue(
    properties: dict[str, Any], value: Any, part: str
) -> None:
    schema = compiled(parameters(properties, []))
    assert not schema.is_valid(value)
    issues = schema.issues(value)
    assert issues
    assert part in issues[0].message


def test_keywords_of_draft_7_have_words() -> None:
    schema = compiled(
        parameters(
            {"a": {"items": [{}], "additionalItems": False}, "b": {"contentEncoding": "base64"}, "c": {"contentMediaType": "application/json"}},
            [],
            dependencies={"a": ["d"], "c": {"required": ["a"]}},
            **{"$schema": DRAFT_7},
        )
    )  # fmt: skip
    assert said(schema, {"a": [1, 2], "b": "!", "c": "{"}) == [
        ("a", "too_many_items", "a: has more items than are allowed"),
        ("b", "bad_encoding", "b: must be text in the encoding base64"),
        ("c", "bad_encoding", "c: must be text of the media type application/json"),
        ("d", "missing_required", "d: is required; give any value"),
    ]


def test_very_many_issues_are_counted_not_listed() -> None:
    schema = compiled(parameters({"a": {"items": {"type": "string"}}}))
    issues = schema.issues({"a": list(range(60))})
    assert len(issues) == 51
    assert issues[-1] == Issue("more_issues", "", None, "10 more checks failed; correct these first", None)


@pytest.mark.parametrize("value", [{"a": object()}, {"a": "\ud800"}, {1: 2}], ids=["object", "surrogate", "key"])
def test_what_is_no_json_is_unvalidatable_instead_of_an_exception(value: Any) -> None:
    (issue,) = compiled(parameters({"a": {"type": "string", "minLength": 3}}, [])).issues(value)
    assert issue.reason == "unvalidatable"
    assert "send plain JSON" in issue.message


def test_recursion_without_end_is_unvalidatable_instead_of_an_exception() -> None:
    deep: dict[str, Any] = {}
    for _ in range(2_000):
        deep = {"a": deep}
    schema = parameters({"a": {"$ref": "#"}, "b": {"pattern": PYTHON_ONLY}}, [])
    (issue,) = compiled(schema).issues(deep)
    assert (issue.reason, issue.message.partition(";")[0]) == ("unvalidatable", "cannot be checked (RecursionError)")


def test_a_verdict_without_explanation_is_unvalidatable(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = compiled(parameters({"a": {}}))
    monkeypatch.setattr(schema, "is_valid", lambda _: False)
    assert [issue.reason for issue in schema.issues({"a": 1})] == ["unvalidatable"]


@given(st.text(min_size=6, alphabet=st.characters(codec="utf-8")))
def test_no_message_holds_a_part_of_the_value(secret: str) -> None:
    secret = f"s3cr3t{secret}s3cr3t"
    properties = {
        "a": {"type": "integer"}, "b": {"enum": ["x"]}, "c": {"format": "date-time"}, "d": {"maxLength": 1},
        "e": {"pattern": "^x$"}, "f": {"not": {"type": "string"}}, "g": {"anyOf": [{"const": 1}, {"maxLength": 2}]},
        "h": {"propertyNames": {"maxLength": 2}}, "i": {"additionalProperties": {"type": "null"}},
    }  # fmt: skip
    value: dict[str, Any] = dict.fromkeys("abcdefg", secret)
    value |= {"h": {f"{secret} x": 1}, "i": {f"{secret} x": secret}}
    for schema in both_engines(properties):
        issues = schema.issues(value)
        assert {issue.path[0] for issue in issues} == set("abcdefghi")
        assert "s3cr3t" not in repr(issues)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c", "kind"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON)
def test_both_engines_agree_and_explain_exactly_what_they_refuse(value: Any) -> None:
    properties = {
        "a": {
            "anyOf": [{"type": "integer", "minimum": 3}, {"type": "array", "items": {"type": "string", "minLength": 2}}]
        },
        "b": {"oneOf": SHAPES, "type": "object"},
        "c": {"$ref": "#/$defs/c"},
    }
    more = {"$defs": {"c": parameters({"a": {"type": "null"}}, additionalProperties=False)}}
    rust, python = both_engines(properties, **more)
    assert rust.is_valid(value) is python.is_valid(value) is (not rust.issues(value)) is (not python.issues(value))
    assert {(issue.path, issue.reason) for issue in rust.issues(value)} == {
        (issue.path, issue.reason) for issue in python.issues(value)
    }


# --------------------------------------------------------------------------------------------------- defaults


NODE = parameters({"name": {"default": "leaf"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, [])
DEFAULTS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "missing": (parameters({"a": {"default": 1}}), {}, {"a": 1}),
    "given": (parameters({"a": {"default": 1}}), {"a": 2}, {"a": 2}),
    "null is given": (parameters({"a": {"default": 1}}), {"a": None}, {"a": None}),
    "default is null": (parameters({"a": {"default": None}}), {}, {"a": None}),
    "inside": (parameters({"a": parameters({"b": {"default": 1}})}), {"a": {}}, {"a": {"b": 1}}),
    "inside what is missing": (parameters({"a": parameters({"b": {"default": 1}})}), {}, {}),
    "in items": (parameters({"a": {"items": parameters({"b": {"default": 1}})}}), {"a": [{}, {"b": 2}, 3]}, {"a": [{"b": 1}, {"b": 2}, 3]}),
    "in the first items": (
        parameters({"a": {"prefixItems": [{}, parameters({"b": {"default": 1}})]}}),
        {"a": [{}, {}, {}]},
        {"a": [{}, {"b": 1}, {}]},
    ),
    "in other fields": (
        parameters({}, additionalProperties=parameters({"b": {"default": 1}})),
        {"x": {}},
        {"x": {"b": 1}},
    ),
    "through a reference": (
        parameters({"a": {"$ref": "#/$defs/d"}}, **{"$defs": {"d": parameters({"b": {"default": 1}}, []) | {"default": {}}}}),
        {},
        {"a": {}},
    ),
    "through allOf": ({"type": "object", "allOf": [parameters({"a": {"default": 1}})]}, {}, {"a": 1}),
    "in the only fitting branch": (
        parameters({"a": {"anyOf": [parameters({"b": {"default": 1}}), {"type": "null"}]}}),
        {"a": {}},
        {"a": {"b": 1}},
    ),
    "in one of two branches": (
        parameters({"a": {"anyOf": [parameters({"b": {"default": 1}}), parameters({"b": {"default": 2}})]}}),
        {"a": {}},
        {"a": {}},
    ),
    "in a recursive schema": (
        {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
        {"next": {"next": {"name": "x"}}},
        {"name": "leaf", "next": {"name": "leaf", "next": {"name": "x"}}},
    ),
    "that does not fit": (parameters({"a": {"type": "integer", "default": None}}), {}, {}),
    "that does not fit behind an anchor": (
        parameters({"a": {"$ref": "#x", "default": None}}, **{"$defs": {"x": {"$anchor": "x", "type": "integer"}}}),
        {},
        {},
    ),
    "in a place without a pointer": (parameters({"a": {"$ref": "#/x/y"}}, x={"y": parameters({"b": {"default": 1}})}), {"a": {}}, {"a": {"b": 1}}),
    "true beside it": ({"type": "object", "properties": {"a": True}, "allOf": [parameters({"a": {"default": 1}})]}, {}, {"a": 1}),
}  # fmt: skip


@pytest.mark.parametrize("decoy", [{}, {"pattern": PYTHON_ONLY}], ids=["jsonschema-rs", "jsonschema"])
@pytest.mark.parametrize(("schema", "value", "filled"), DEFAULTS.values(), ids=DEFAULTS)
def test_defaults_are_filled_in_where_fields_are_missing(schema: Any, value: Any, filled: Any, decoy: Any) -> None:
    schema = {**schema, "$defs": {**schema.get("$defs", {}), "decoy": decoy}}
    before = json.dumps(value)
    assert compiled(schema).apply_defaults(value) == filled
    assert json.dumps(value) == before


@pytest.mark.parametrize(
    "schema",
    [
        parameters({"a": {}}),
        parameters({"a": {"default": 1}}),
        parameters({"a": {"items": parameters({"b": {"default": 1}})}}),
    ],
    ids=["none", "one", "inside"],
)
def test_an_object_that_lacks_no_default_is_returned_itself(schema: Any) -> None:
    value = {"a": [{"b": 2}]}
    assert compiled(schema).apply_defaults(value) is value


def test_each_default_is_a_copy_of_its_own() -> None:
    schema = compiled(parameters({"a": {"default": []}, "b": {"default": {"c": []}}}))
    first = schema.apply_defaults({})
    first["a"].append(1)
    first["b"]["c"].append(1)
    assert schema.apply_defaults({"a": [2]}) == {"a": [2], "b": {"c": []}}


def test_a_default_for_which_the_validator_never_ends_is_left_out() -> None:
    loop = {"$ref": "#/$defs/l"}
    schema = compiled(
        parameters({"a": {**loop, "default": 1}, "b": {"pattern": PYTHON_ONLY}}, **{"$defs": {"l": {"allOf": [loop]}}})
    )
    assert schema.engine == "jsonschema"
    assert schema.apply_defaults({}) == {}


@given(st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=3))
def test_filling_in_defaults_keeps_what_is_given_and_is_done_once(value: dict[str, int]) -> None:
    schema = compiled(parameters({"a": {"default": 1}, "b": {"default": 2}, "c": {}}))
    filled = schema.apply_defaults(value)
    assert filled == {"a": 1, "b": 2, **value}
    assert schema.apply_defaults(filled) is filled


# ---------------------------------------------------------------------------------------------- decode, nulls


EMBEDDED = compiled(
    parameters(
        {
            "text": {"type": "string"},
            "either": {"anyOf": [{"type": "string"}, {"type": "object"}]},
            "any": {},
            "object": parameters({"inner": {"type": "array"}}, []),
            "list": {"type": "array", "items": {"type": ["object", "null"]}},
            "number": {"type": "number"},
            "choice": {"enum": [{"a": 1}, None]},
            "fixed": {"const": [1]},
        },
        [],
    )
)

DECODED: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "case 9: text stays text": ({"text": '{"message":"hello"}'}, {"text": '{"message":"hello"}'}, ()),
    "where text is one of several": ({"either": "{}"}, {"either": "{}"}, ()),
    "where nothing is said": ({"any": "{}"}, {"any": "{}"}, ()),
    "object": ({"object": '{"inner": []}'}, {"object": {"inner": []}}, ("object",)),
    "one level only": ({"object": '{"inner": "[]"}'}, {"object": {"inner": "[]"}}, ("object",)),
    "inside an object": ({"object": {"inner": "[1]"}}, {"object": {"inner": [1]}}, ("object.inner",)),
    "items": ({"list": ["{}", {}, "null"]}, {"list": [{}, {}, "null"]}, ("list[0]",)),
    "the wrong kind": ({"object": "[]", "list": "{}"}, {"object": "[]", "list": "{}"}, ()),
    "encoded twice": ({"object": '"{}"'}, {"object": '"{}"'}, ()),
    "number": ({"number": "7"}, {"number": "7"}, ()),
    "enum and const": ({"choice": '{"a": 1}', "fixed": "[1]"}, {"choice": {"a": 1}, "fixed": [1]}, ("choice", "fixed")),
    "no JSON": ({"object": "{oops", "list": "[NaN]"}, {"object": "{oops", "list": "[NaN]"}, ()),
    "too deep": ({"list": "[" * 150 + "]" * 150}, {"list": "[" * 150 + "]" * 150}, ()),
    "far too deep": ({"list": "[" * 90_000}, {"list": "[" * 90_000}, ()),
}


@pytest.mark.parametrize(("value", "decoded", "places"), DECODED.values(), ids=DECODED)
def test_json_text_is_decoded_only_where_the_schema_leaves_no_doubt(value: Any, decoded: Any, places: Any) -> None:
    before = json.dumps(value)
    assert EMBEDDED.decode_embedded(value) == (decoded, places)
    assert json.dumps(value) == before


def test_a_schema_without_objects_inside_cannot_hold_embedded_text() -> None:
    assert not compiled(parameters({"a": {"type": "string"}, "b": {}})).may_embed
    assert EMBEDDED.may_embed


@pytest.mark.parametrize(
    ("path", "admitted"),
    [
        (("text",), True),
        (("number",), False),
        (("object", "inner"), False),
        (("list", 0), False),
        (("any", "x", 0), True),
        ((), False),
    ],
)
def test_whether_text_may_stand_at_a_place(path: tuple[str | int, ...], admitted: bool) -> None:
    assert EMBEDDED.admits_string(path) is admitted


NULLS = compiled(
    parameters(
        {
            "celsius": {"type": "boolean", "default": False},
            "limit": {"type": ["integer", "null"], "default": 3},
            "needed": {"type": "string"},
            "inner": parameters({"b": {"type": "string"}}, []),
            "any": {"default": 1},
        },
        ["needed"],
    )
)


@pytest.mark.parametrize(
    ("value", "dropped"),
    [
        ({"celsius": None, "needed": "x"}, {"needed": "x"}),
        ({"limit": None}, {"limit": None}),
        ({"needed": None}, {"needed": None}),
        ({"inner": {"b": None}}, {"inner": {}}),
        ({"inner": None}, {}),
        ({"any": None}, {"any": None}),
        ({"unknown": None}, {"unknown": None}),
    ],
)
def test_nulls_are_dropped_where_a_field_may_be_missing_but_not_null(value: Any, dropped: Any) -> None:
    """Cases 114 and 118: having a default and admitting null are two facts."""
    assert NULLS.drop_nulls(value) == dropped
    if value == dropped:
        assert NULLS.drop_nulls(value) is value


# ------------------------------------------------------------------------------------------------------ words


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (True, "any value"),
        (False, "nothing"),
        ({}, "any value"),
        ({"minimum": 3}, "what its rules allow"),
        ({"allOf": [{"type": "string"}]}, "string"),
        ({"type": ["string", "null"], "format": "date"}, "string in the format date (such as 2024-05-20) or null"),
        ({"type": "string", "format": "odd"}, "string in the format odd"),
        ({"oneOf": [{"const": "a"}, {"const": "a"}, {"enum": [1, 2]}]}, '"a" or 1 or 2'),
        ({"anyOf": [{"anyOf": [{"const": n} for n in range(9)]}, {"type": "null"}]}, "one of many alternatives or null"),
        ({"const": "x" * 300}, f'"{"x" * 199}…'),
        ({"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {}}}}},
         "array of array of array of array of any value"),
    ],
)  # fmt: skip
def test_what_a_schema_admits_is_put_in_few_words(schema: Any, words: str) -> None:
    assert describe(schema, {}) == words


def test_small_helpers_of_wording() -> None:
    assert in_words([]) == ""
    assert in_words([str(n) for n in range(32)]).endswith("28, 29 and 2 more")
    assert readable(["a", 0, "b c", "d"], {"b c"}) == 'a[0]["b c"].d'
    assert readable(["x" * 41]) == '["?"]'
    assert pointer_to(["a~b", "c/d", 0]) == "#/a~0b/c~1d/0"
    assert json_type(object()) == "value that is no JSON"
