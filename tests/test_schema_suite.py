"""Both validators are held to the official JSON-Schema-Test-Suite (draft 2020-12 and its formats).

`data/json-schema-test-suite-2020-12.json.xz` holds the files of that folder by name, as jsonschema 4.26 carries them in
its source distribution; the licence is beside it. What is listed here is every difference: a test that fails without
being listed, or is listed without failing, is news.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fsm_engine.errors import SchemaError
from fsm_engine.schema.compiled import python_validator, rust_validator
from fsm_engine.schema.issues import Explainer, Failure, from_python, from_rust
from fsm_engine.schema.reader import SchemaFacts, read_schema

DATA = Path(__file__).parent / "data" / "json-schema-test-suite-2020-12.json.xz"
SUITE: dict[str, list[dict[str, Any]]] = json.loads(lzma.decompress(DATA.read_bytes()))

# Schemas that are refused when they are read: (file, group) with the reason.
FETCHED = "refers to a schema that would have to be fetched"
META = "refers to the meta-schema, which is not part of the schema either"
VOCABULARY = "is in a dialect of its own"
REFUSED = {
    ("defs.json", "validate definition against metaschema"): META,
    ("dynamicRef.json", "strict-tree schema, guards against misspelled properties"): FETCHED,
    ("dynamicRef.json", "tests for implementation dynamic anchor and reference link"): FETCHED,
    ("dynamicRef.json", "$ref and $dynamicAnchor are independent of order - $defs first"): FETCHED,
    ("dynamicRef.json", "$ref and $dynamicAnchor are independent of order - $ref first"): FETCHED,
    ("dynamicRef.json", "$ref to $dynamicRef finds detached $dynamicAnchor"): FETCHED,
    ("ref.json", "remote ref, containing refs itself"): META,
    ("refRemote.json", "remote ref"): FETCHED,
    ("refRemote.json", "fragment within remote ref"): FETCHED,
    ("refRemote.json", "anchor within remote ref"): FETCHED,
    ("refRemote.json", "ref within remote ref"): FETCHED,
    ("refRemote.json", "base URI change"): FETCHED,
    ("refRemote.json", "base URI change - change folder"): FETCHED,
    ("refRemote.json", "base URI change - change folder in subschema"): FETCHED,
    ("refRemote.json", "root ref in remote ref"): FETCHED,
    ("refRemote.json", "remote ref with ref to defs"): FETCHED,
    ("refRemote.json", "Location-independent identifier in remote ref"): FETCHED,
    ("refRemote.json", "retrieved nested refs resolve relative to their URI not $id"): FETCHED,
    ("refRemote.json", "remote HTTP ref with different $id"): FETCHED,
    ("refRemote.json", "remote HTTP ref with different URN $id"): FETCHED,
    ("refRemote.json", "remote HTTP ref with nested absolute ref"): FETCHED,
    ("refRemote.json", "$ref to $ref finds detached $anchor"): FETCHED,
    ("vocabulary.json", "schema that uses custom metaschema with with no validation vocabulary"): VOCABULARY,
    ("vocabulary.json", "ignore unrecognized optional vocabulary"): VOCABULARY,
}

# Where both validators say something else than the suite: how many tests of the file, and the reason.
OTHERWISE = {"format.json": (19, "formats are annotations there, and are checked here (optional/format says how)")}

Explain = Callable[[Any], Iterable[Failure]]
Judges = dict[str, tuple[Callable[[Any], bool], Explain]]


def groups() -> Iterator[tuple[str, str, Any, list[dict[str, Any]]]]:
    for file, listed in SUITE.items():
        for group in listed:
            schema = group["schema"]
            if isinstance(schema, bool):  # a tool's schema is always an object
                schema = {} if schema else {"not": {}}
            yield file, group["description"], schema, group["tests"]


def judges(facts: SchemaFacts) -> Judges:
    rust, python = rust_validator(facts), python_validator(facts)
    return {
        "jsonschema-rs": (
            rust.is_valid,
            lambda value: (from_rust(error, facts, value) for error in rust.iter_errors(value)),
        ),
        "jsonschema": (
            python.is_valid,
            lambda value: (from_python(error, value) for error in python.iter_errors(value)),
        ),
    }


def test_what_is_refused_is_what_is_listed() -> None:
    refused = set()
    for file, description, schema, _ in groups():
        try:
            read_schema(schema, "suite")
        except SchemaError:
            refused.add((file, description))
    assert refused == REFUSED.keys()


@pytest.mark.parametrize("engine", ["jsonschema-rs", "jsonschema"])
def test_verdicts_are_those_of_the_suite_save_where_listed(engine: str) -> None:
    differences: Counter[str] = Counter()
    judged = 0
    for file, description, schema, tests in groups():
        if (file, description) in REFUSED:
            continue
        is_valid, _ = judges(read_schema(schema, "suite"))[engine]
        for test in tests:
            judged += 1
            differences[file] += is_valid(test["data"]) is not test["valid"]
    assert judged > 1_600
    assert +differences == {file: count for file, (count, _) in OTHERWISE.items()}


@pytest.mark.parametrize("engine", ["jsonschema-rs", "jsonschema"])
def test_there_are_issues_for_exactly_the_values_that_are_not_valid(engine: str) -> None:
    for file, description, schema, tests in groups():
        if (file, description) in REFUSED:
            continue
        facts = read_schema(schema, "suite")
        is_valid, explain = judges(facts)[engine]
        explainer = Explainer(facts)
        for test in tests:
            issues = explainer.issues(explain(test["data"]), test["data"])
            assert bool(issues) is not is_valid(test["data"]), (file, description, test["description"])
            assert all(issue.reason and issue.message for issue in issues)
