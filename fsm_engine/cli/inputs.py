"""What the command line is given: calls from a file, tools from a module. Each mistake is answered by its remedy."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from ..engine.engine import ToolEngine
from ..errors.exceptions import ConfigurationError
from ..jsonable.foreign import JsonTextError, read_strictly
from ..providers.openai_chat import calls_from_message
from ..tools.registry import ToolRegistry
from ..tools.spec import ToolSpec

_FORMS = (
    'give a JSON list of calls such as [{"id": "c1", "name": "add", "arguments": {"a": 1}}], or an OpenAI chat message '
    "with tool_calls"
)
_HOLDERS = "give a list of tools, a function, a ToolSpec, a ToolRegistry or a ToolEngine"


def _bad_calls(message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint="CALLS.json")


def _bad_tools(message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint="--tools")


def read_calls(source: str) -> list[Any]:
    """The calls in a file, or in standard input if it is `-`.

    Raises:
        typer.BadParameter: they cannot be read.
    """
    where = "standard input" if source == "-" else source
    if source == "-" and sys.stdin.isatty():
        typer.echo("Reading the calls from standard input; end them by Ctrl+D on a line of its own.", err=True)
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _bad_calls(f"there is no file {source}; name one, or - for standard input") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _bad_calls(f"{where} cannot be read as text in UTF-8: {error}") from None
    try:
        given = read_strictly(text)
    except JsonTextError as error:
        raise _bad_calls(f"{where} is not strict JSON ({error}); {_FORMS}") from None
    return _calls_in(given, where)


def _calls_in(given: Any, where: str) -> list[Any]:
    if isinstance(given, dict):
        if "choices" in given:
            raise _bad_calls(f"{where} is a whole answer of the API; give the message in it, choices[0].message")
        if given.get("tool_calls") or given.get("function_call"):
            return list(calls_from_message(given))
        if "role" in given:
            return []
        if "name" in given or "function" in given:
            return [given]
        raise _bad_calls(f"{where} holds an object that is neither a call nor a message; {_FORMS}")
    if not isinstance(given, list):
        raise _bad_calls(f"{where} holds {_kind(given)}; {_FORMS}")
    for place, each in enumerate(given, 1):
        if not isinstance(each, dict):
            raise _bad_calls(f"item {place} in {where} is {_kind(each)} and no call; {_FORMS}")
        if "role" in each:
            raise _bad_calls(f"item {place} in {where} is a message and no call; give one message at a time")
    return given


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "true or false", str: "text", list: "a list"}.get(type(value), "a number")


def load_engine(references: Sequence[str]) -> ToolEngine:
    """An engine with all tools that `module:name` texts refer to; an engine of the user's own is taken as it is.

    Raises:
        typer.BadParameter: a reference leads nowhere, or to something that holds no tools.
    """
    found = [(reference, _load(reference)) for reference in references]
    if len(found) == 1 and isinstance(found[0][1], ToolEngine):
        return found[0][1]
    registry = ToolRegistry()
    for reference, holder in found:
        if isinstance(holder, ToolEngine):
            raise _bad_tools(f"{reference} is an engine, which runs as it is; give it alone, or give the tools instead")
        for each in _tools_in(reference, holder):
            try:
                registry.register(each)
            except ConfigurationError as error:
                raise _bad_tools(f"{reference}: {error}") from None
    return ToolEngine(registry)


def _tools_in(reference: str, holder: Any) -> list[Any]:
    if isinstance(holder, ToolSpec) or (callable(holder) and not isinstance(holder, type)):
        return [holder]
    if isinstance(holder, list | tuple | set | frozenset | ToolRegistry):
        return list(holder)
    if isinstance(holder, Mapping):
        return list(holder.values())
    kind = "a class" if isinstance(holder, type) else f"of the type {type(holder).__name__}"
    raise _bad_tools(f"{reference} is {kind} and holds no tools; {_HOLDERS}")


def _load(reference: str) -> Any:
    module_name, colon, name = reference.partition(":")
    if not (module_name and colon and name):
        raise _bad_tools(f"{reference!r} is not module:name; to use TOOLS of tools.py, say tools:TOOLS")
    if module_name.endswith(".py") or "/" in module_name or os.sep in module_name:
        raise _bad_tools(
            f"{module_name!r} is a file; give the module's name, such as {Path(module_name).stem}:{name}, and run the "
            "command in its folder"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _import(module_name)
    try:
        return getattr(module, name)
    except AttributeError:
        public = sorted(each for each in vars(module) if not each.startswith("_"))
        raise _bad_tools(f"the module {module_name} has no {name}; it has {', '.join(public) or 'nothing'}") from None


def _import(module_name: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name == missing or module_name.startswith(missing + "."):
            raise _bad_tools(
                f"there is no module {missing}; run the command in the folder that holds it, or install it"
            ) from None
        raise _bad_tools(f"importing {module_name} failed: it needs the module {missing}; install it") from None
    except Exception as error:
        raise _bad_tools(
            f"importing {module_name} failed: {type(error).__name__}: {error}; python -c 'import {module_name}' shows where"
        ) from error
