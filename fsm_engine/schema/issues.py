"""From what a validator found to issues that a model can act on: path, rule, what is allowed; never a value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jsonschema
import jsonschema_rs

from ..errors.issue import Issue
from .reader import SchemaFacts
from .shape import Path, always_applied, json_type
from .tags import wrong_tag
from .words import RULES, describe, in_words, lacks_offset, listed, offset_issue, readable, shown_name

__all__ = ["Explainer", "Failure", "from_python", "from_rust", "offset_issue", "unvalidatable"]

_MAX_ISSUES: Final = 50
_ENGINE_GAVE_UP: Final = (
    jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded,
    jsonschema_rs.ValidationErrorKind.RegexEngineFailure,
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One broken rule, whichever validator found it.

    `path`: where in the value. `rule`: the keyword; "false" is the schema that admits nothing, "" a rule on which the
    validator gave up. `schema`: the schema that holds the rule, or `True` if it cannot be found. `branches`: what each
    alternative of anyOf and oneOf did not like. `unexpected`: the names of unknown fields.
    """

    path: Path
    rule: str
    schema: Any
    branches: tuple[tuple[Failure, ...], ...] = ()
    unexpected: tuple[str, ...] = ()

    @property
    def limit(self) -> Any:
        """What the schema says beside the keyword."""
        return self.schema.get(self.rule) if isinstance(self.schema, dict) else None


def from_rust(error: jsonschema_rs.ValidationError, facts: SchemaFacts, value: Any) -> Failure:
    """The failure in an error of jsonschema-rs; `value` is the whole that was validated."""
    kind: Any = error.kind
    path, where = tuple(error.instance_path), error.evaluation_path
    schema = _schema_at(where[:-1], facts)
    if isinstance(kind, _ENGINE_GAVE_UP):
        return Failure(path, "", schema)
    if kind.name == "propertyNames":
        return Failure(path, "propertyNames", True, ((from_rust(kind.error, facts, value),),))
    rule = str(where[-1])
    if kind.name == "falseSchema":
        if rule == "additionalProperties":  # an object for which the schema has no other word
            return Failure(path, rule, schema, unexpected=tuple(_unexpected(_value_at(value, path), schema)))
        rule = "false"
    branches = tuple(tuple(from_rust(each, facts, value) for each in branch) for branch in getattr(kind, "context", ()))
    unexpected = getattr(kind, "unexpected", ()) if rule.endswith("Properties") else ()
    return Failure(path, rule, schema, branches, tuple(unexpected))


def _schema_at(path: Iterable[str | int], facts: SchemaFacts) -> Any:
    """The schema at the end of an evaluation path, which goes through references."""
    current: Any = facts.schema
    try:
        for key in path:
            current = facts.targets[id(current)] if key == "$ref" else current[key]
    except (LookupError, TypeError):  # through a $dynamicRef, which leads elsewhere each time
        return True
    return current


def from_python(error: jsonschema.ValidationError, value: Any) -> Failure:
    """The failure in an error of jsonschema; `value` is the whole that was validated."""
    path = tuple(error.absolute_path)
    branches: dict[Any, list[Failure]] = {}
    context: Any = error.context  # the stubs say that it may be unset
    for each in context:
        # An alternative that is `false` has no path; each is an alternative of its own.
        branch = each.relative_schema_path[0] if each.relative_schema_path else ("false", len(branches))
        branches.setdefault(branch, []).append(from_python(each, value))
    schema = error.schema if isinstance(error.schema, dict) else True
    rule = str(error.validator or "false")
    unexpected = tuple(_unexpected(error.instance, schema)) if rule == "additionalProperties" else ()
    failure = Failure(path, rule, schema, tuple(map(tuple, branches.values())), unexpected)
    place = _value_at(value, path)
    if "propertyNames" in error.absolute_schema_path and isinstance(place, dict) and place is not error.instance:
        return Failure(path, "propertyNames", True, ((failure,),))
    return failure


def _unexpected(value: Any, schema: Any) -> Iterator[str]:
    """The fields of an object for which a schema has neither a name nor a pattern."""
    patterns = schema.get("patternProperties", ())
    for name in value:
        if name not in schema.get("properties", ()) and not any(re.search(pattern, name) for pattern in patterns):
            yield name


def _value_at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def unvalidatable(why: str = "") -> Issue:
    """The issue of a value that no validator could judge."""
    return Issue(
        reason="unvalidatable",
        path="",
        rule=None,
        message=f"cannot be checked{why}; send plain JSON that is smaller, less deeply nested and valid Unicode",
        allowed=None,
    )


class Explainer:
    """Puts the failures of one schema into words."""

    def __init__(self, facts: SchemaFacts) -> None:
        self._known = facts.field_names
        self._targets = facts.targets
        self._special: Mapping[str, Callable[[Failure, Any], Iterator[Issue]]] = {
            "required": self._missing,
            "dependentRequired": self._missing,
            "dependencies": self._missing,
            "additionalProperties": self._unknown,
            "unevaluatedProperties": self._unknown,
            "anyOf": self._alternatives,
            "oneOf": self._alternatives,
            "propertyNames": self._field_names,
            "type": self._type,
            "format": self._format,
            "contains": self._contains,
            "minContains": self._contains,
            "maxContains": self._contains,
        }

    def issues(self, failures: Iterable[Failure], value: Any) -> tuple[Issue, ...]:
        """All failures as issues, each said once; of very many, the first ones and how many more there are."""
        found: dict[tuple[str, str | None, str], Issue] = {}
        for failure in failures:
            for issue in tuple(self._explain(failure, value)) or (self._by_table(failure),):
                found.setdefault((issue.path, issue.rule, issue.message), issue)
        issues = tuple(found.values())
        if len(issues) <= _MAX_ISSUES:
            return issues
        more = f"{len(issues) - _MAX_ISSUES} more checks failed; correct these first"
        return (*issues[:_MAX_ISSUES], Issue(reason="more_issues", path="", rule=None, message=more, allowed=None))

    def _explain(self, failure: Failure, value: Any) -> Iterator[Issue]:
        if failure.rule in self._special:
            yield from self._special[failure.rule](failure, value)
        elif failure.rule == "":
            yield unvalidatable(f" at {self._where(failure)}: the pattern takes too long")
        elif failure.rule == "not":
            yield self._issue(failure, "forbidden", f"must not be {describe(failure.limit, self._targets)}")
        elif failure.rule == "false":
            yield self._issue(failure, "forbidden", "is not allowed here; leave it out")
        else:
            yield self._by_table(failure)

    def _by_table(self, failure: Failure) -> Issue:
        rule = RULES.get(failure.rule)
        if rule is None or failure.limit is None:  # a keyword of a later dialect, or behind a $dynamicRef
            return self._issue(failure, "invalid", f"does not fit the rule {failure.rule!r} of its schema")
        return self._issue(failure, rule.reason, rule.sentence(failure.limit), allowed=failure.limit)

    def _where(self, failure: Failure, *more: str) -> str:
        return readable((*failure.path, *more), self._known)

    def _issue(
        self, failure: Failure, reason: str, sentence: str, *, allowed: Any = None, path: str | None = None
    ) -> Issue:
        path = self._where(failure) if path is None else path
        message = f"{path or 'top level'}: {sentence}"
        return Issue(reason=reason, path=path, rule=failure.rule, message=message, allowed=allowed)

    def _missing(self, failure: Failure, value: Any) -> Iterator[Issue]:
        given = _value_at(value, failure.path)
        fields = self._fields(failure.schema)
        for name in _needed(failure.limit, given):
            if name not in given:
                sentence = f"is required; give {describe(fields.get(name, True), self._targets)}"
                yield self._issue(failure, "missing_required", sentence, path=self._where(failure, name))

    def _fields(self, schema: Any) -> dict[str, Any]:
        """The fields that a schema and its branches know of."""
        fields: dict[str, Any] = {}
        seen: set[int] = set()
        waiting = [schema]
        while waiting:
            for part in always_applied(waiting.pop(0), self._targets):
                if id(part) not in seen:
                    seen.add(id(part))
                    fields.update(part.get("properties", {}))
                    waiting += [*part.get("anyOf", ()), *part.get("oneOf", ())]
        return fields

    def _unknown(self, failure: Failure, _value: Any) -> Iterator[Issue]:
        fields = [name for name, schema in self._fields(failure.schema).items() if schema is not False]
        allowed = f"allowed is {in_words(fields)}" if fields else "no field is allowed here"
        hidden = not failure.unexpected
        for name in failure.unexpected:
            if shown_name(name, self._known) is None:
                hidden = True
                continue
            nearest = difflib.get_close_matches(name, fields, n=2)
            hint = f"did you mean {in_words(nearest)}? " if nearest else ""
            path = self._where(failure, name)
            yield self._issue(
                failure, "unknown_field", f"is no known field; {hint}{allowed}", allowed=fields, path=path
            )
        if hidden:
            yield self._issue(failure, "unknown_field", f"has a field that is not known; {allowed}", allowed=fields)

    def _alternatives(self, failure: Failure, value: Any) -> Iterator[Issue]:
        """One alternative that was clearly meant is explained in full; otherwise all are named, without their noise."""
        branches, place = failure.branches, failure.path
        if not branches or not all(branches):
            sentence = f"fits more than one of its alternatives; must be exactly one of {self._summary(failure)}"
            yield self._issue(failure, "ambiguous", sentence, allowed=self._names(failure))
            return
        of_type = [branch for branch in branches if not any(_is_mismatch(each, place) for each in branch)]
        marked = [branch for branch in of_type if not any(_is_wrong_mark(each, place) for each in branch)]
        meant = of_type if len(of_type) == 1 else marked
        if len(meant) == 1:
            for each in meant[0]:
                yield from self._explain(each, value)
            return
        given = _value_at(value, place)
        tag = wrong_tag(failure.schema, failure.limit, given, self._targets) if isinstance(given, dict) else None
        if tag is not None:
            is_given = tag.name in given
            sentence = f"must be {'one of ' if len(tag.values) > 1 else ''}{listed(tag.values)}"
            reason = "not_allowed" if is_given else "missing_required"
            sentence = sentence if is_given else f"is required; {sentence}"
            yield self._issue(failure, reason, sentence, allowed=tag.values, path=self._where(failure, tag.name))
            return
        reason = "no_match" if of_type else "wrong_type"
        yield self._issue(failure, reason, f"must be {self._summary(failure)}", allowed=self._names(failure))

    def _names(self, failure: Failure) -> list[str]:
        return list(dict.fromkeys(describe(branch, self._targets) for branch in failure.limit or ()))

    def _summary(self, failure: Failure) -> str:
        return in_words(self._names(failure)) or "one of its alternatives"

    def _field_names(self, failure: Failure, _value: Any) -> Iterator[Issue]:
        inner = failure.branches[0][0]
        rule = RULES.get(inner.rule)
        sentence = rule.sentence(inner.limit) if rule and inner.limit is not None else "must fit the rules for names"
        yield self._issue(failure, "bad_field_name", f"a field's name {sentence}", allowed=inner.limit)

    def _type(self, failure: Failure, value: Any) -> Iterator[Issue]:
        given = json_type(_value_at(value, failure.path))
        sentence = RULES["type"].sentence(failure.limit or "of another type")
        yield self._issue(failure, "wrong_type", f"{sentence}, not {given}", allowed=failure.limit)

    def _format(self, failure: Failure, value: Any) -> Iterator[Issue]:
        if lacks_offset(str(failure.limit), _value_at(value, failure.path)):
            yield offset_issue(self._where(failure), str(failure.limit))
        else:
            yield self._by_table(failure)

    def _contains(self, failure: Failure, _value: Any) -> Iterator[Issue]:
        schema = failure.schema if isinstance(failure.schema, dict) else {}
        least, most = schema.get("minContains", 1), schema.get("maxContains")
        limit = f"at least {least}" + ("" if most is None else f" and at most {most}")
        sentence = f"{limit} of the items must be {describe(schema.get('contains', True), self._targets)}"
        yield self._issue(failure, "wrong_items", sentence)


def _needed(limit: Any, given: Mapping[str, Any]) -> Iterator[str]:
    """The names that `required` lists, or that `dependentRequired` does for the fields that are given."""
    if isinstance(limit, list):
        yield from limit
    elif isinstance(limit, dict):
        for name, needed in limit.items():
            if name in given and isinstance(needed, list):
                yield from needed


def _is_mismatch(failure: Failure, place: Path) -> bool:
    """Whether the value as a whole is of another type than the alternative wants."""
    return failure.path == place and failure.rule in {"type", "false"}


def _is_wrong_mark(failure: Failure, place: Path) -> bool:
    """Whether a field that tells the alternatives apart, such as "kind", names another one."""
    return len(failure.path) == len(place) + 1 and failure.rule in {"const", "enum"}
