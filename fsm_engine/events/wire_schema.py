"""The JSON Schema of the events on the wire, generated from their classes.

`event_schema.json` beside this module is the published copy. `python -m fsm_engine.events.wire_schema` writes it anew, with
`--check` it only says whether that would change it.

The version grows when a reader of the old one could be misled: a field or an event goes, or means something else. What
is merely added does not count, so readers pass over what they do not know.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec.structs import fields

from ..docstrings import read_docstring
from ..errors.issue import Issue
from ..jsonable.strict import JsonValue
from ..response.error_info import ErrorInfo
from ..response.tool_response import ToolResponse, ToolStatus
from .types import Event, ToolErrorEvent, ToolResultEvent

VERSION = 1
FILE = Path(__file__).with_name("event_schema.json")

_DEFINED = (ToolResponse, ErrorInfo, Issue)
_PLAIN: Mapping[Any, Mapping[str, str]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    Any: {},
    JsonValue: {},
}
_HINTS = {"JsonValue": Any, "Mapping": Mapping}  # names that the modules import for type checkers only


def event_schema() -> dict[str, Any]:
    """The schema, as `event_schema.json` holds it.

    Example:
        >>> event_schema()["$defs"]["run_ended"]["required"]
        ['type', 'seq', 'at', 'reason']
    """
    events = sorted(_leaves(Event), key=lambda event: event.type)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:fsm-engine:events:{VERSION}",
        "title": "fsm_engine events",
        "description": "One event of a run, as it is sent. Readers pass over events and fields that they do not know.",
        "version": VERSION,
        "oneOf": [_reference(event.type) for event in events],
        "$defs": {event.type: _of_event(event) for event in events}
        | {kind.__name__: _of_dataclass(kind) for kind in _DEFINED},
    }


def schema_text() -> str:
    """The text of `event_schema.json`."""
    return json.dumps(event_schema(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Write the file, or with `--check` say whether it is current."""
    if "--check" not in arguments:
        FILE.write_text(schema_text(), encoding="utf-8")
        return 0
    is_current = FILE.exists() and FILE.read_text(encoding="utf-8") == schema_text()
    if not is_current:
        sys.stderr.write(f"{FILE.name} is not what the events are; run: python -m fsm_engine.events.wire_schema\n")
    return 0 if is_current else 1


def _leaves(kind: type[Event]) -> Iterator[type[Event]]:
    below = [each for each in kind.__subclasses__() if each.__module__ == Event.__module__]  # none of a user's own
    if not below:
        yield kind
    for each in below:
        yield from _leaves(each)


def _of_event(event: type[Event]) -> dict[str, Any]:
    words = {name: said for base in reversed(event.__mro__) for name, said in _attributes(base).items()}
    properties: dict[str, Any] = {"type": {"const": event.type}}
    required = ["type"]
    for field in fields(event):
        # What is None is left out, so no field is ever null.
        properties[field.name] = _of_type(field.type, never_null=True) | _description(words.get(field.name))
        if field.required:
            required.append(field.name)
    if issubclass(event, ToolResultEvent):
        statuses = [str(status) for status in ToolStatus if status is not ToolStatus.ERROR]
        properties["status"] = {"enum": statuses, "description": "That of the result."}
        required.append("status")
    elif issubclass(event, ToolErrorEvent):
        del properties["result"]
        properties["error"] = _reference("ErrorInfo")
        required[required.index("result")] = "error"
    return _object(event, properties, required)


def _of_dataclass(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind, localns=_HINTS)
    written = [field.name for field in dataclasses.fields(kind) if field.metadata.get("jsonable", True)]
    return _object(kind, {name: _of_type(hints[name]) for name in written}, written)


def _object(kind: type, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        **_description(_docstring(kind).description.partition("\n\n")[0]),
        "properties": properties,
        "required": required,
    }


def _of_type(annotation: Any, *, never_null: bool = False) -> dict[str, Any]:
    """The schema of a field's type; what is not known here raises, so that nobody forgets it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in _PLAIN:
        return dict(_PLAIN[annotation])
    if annotation in _DEFINED:
        return _reference(annotation.__name__)
    if origin in {Union, UnionType}:
        kinds = [_of_type(each) for each in arguments if not (never_null and each is NoneType)]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if origin is tuple:
        return {"type": "array", "items": _of_type(arguments[0])}
    if origin is Mapping:
        return {"type": "object"}
    return {"enum": [str(each) for each in (arguments if origin is Literal else annotation)]}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _description(text: str | None) -> dict[str, str]:
    return {"description": " ".join(text.split())} if text else {}


def _docstring(kind: type) -> Any:
    return read_docstring((inspect.getdoc(kind) or "").replace("Attributes:", "Args:"))


def _attributes(kind: type) -> Mapping[str, str]:
    return _docstring(kind).parameters if issubclass(kind, Event) else {}


if __name__ == "__main__":  # pragma: no cover # the test runs it in a process of its own
    sys.exit(main(sys.argv[1:]))
