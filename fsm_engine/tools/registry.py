"""The tools that an engine has: by name, and of each name one stable version and any number of canaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Unpack

from ..errors.exceptions import RegistrationError
from ..settings.kinds import shown
from .call import ToolCall, fingerprint
from .names import spellings
from .spec import ToolSpec, tool_of
from .tool_settings import ToolSettings


def _is_always_well(spec: ToolSpec) -> bool:
    return True


def several_tools(given: Any) -> Iterable[Any]:
    """Tools as they were given, if there may be several of them.

    Raises:
        RegistrationError: it is one tool alone, or nothing of the kind.
    """
    if isinstance(given, ToolSpec) or (callable(given) and not isinstance(given, Iterable)):
        name = getattr(given, "name", None) or getattr(given, "__name__", None) or type(given).__name__
        raise RegistrationError(f"tools is a list of tools, not one alone; write [{name}]")
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise RegistrationError(f"tools is a list of functions or ToolSpecs, not {shown(given)}")
    return given


class ToolRegistry:
    """Tools by name and version, and by the names that providers give them (see `names`).

    Args:
        tools: `ToolSpec`s or plain functions.

    Attributes:
        is_well: whether a canary may be called; the engine answers by its circuit.

    Example:
        >>> def add(a: int, b: int) -> int: return a + b
        >>> registry = ToolRegistry([add])
        >>> registry.nearest("ad")
        ('add',)
    """

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        self._stable: dict[str, ToolSpec] = {}
        self._canaries: dict[str, tuple[ToolSpec, ...]] = {}
        self._own_names: dict[str, str] = {}
        self.is_well: Callable[[ToolSpec], bool] = _is_always_well
        for each in several_tools(tools):
            self.register(each)

    def register(self, tool: Any, *, replace: bool = False, **settings: Unpack[ToolSettings]) -> ToolSpec:
        """Add a tool, a `ToolSpec` or a plain function.

        Args:
            replace: it may take the place of the same version of the same name, or, if it is no canary, of the stable
                version.
            settings: any of `ToolSpec`, to say otherwise or more.

        Raises:
            RegistrationError: the name or version is taken, the canaries' shares come to more than 100 per cent, or
                the tool cannot work.
        """
        spec = tool_of(tool, **settings)
        if spec.canary is not None:
            self._add_canary(spec, replace=replace)
            return spec
        taken = self._stable.get(spec.name)
        if taken is not None and not replace:
            raise RegistrationError(
                f"a tool called {spec.name!r} is registered (version {taken.version}); rename one, say replace=True, or "
                "give the new one a version of its own and a canary share"
            )
        self._spell(spec.name)
        if spec.name in self._canaries:  # a canary that becomes the stable version is no canary any more
            others = (canary for canary in self._canaries[spec.name] if canary.version != spec.version)
            self._canaries[spec.name] = tuple(others)
        self._stable[spec.name] = spec
        return spec

    def _spell(self, name: str) -> None:
        """Know the tool by every name that a provider may call it by."""
        for spelling in spellings(name):
            other = self._own_names.get(spelling, name)
            if other != name:
                raise RegistrationError(
                    f"models would call both {name!r} and {other!r} {spelling!r}, as not every provider takes every "
                    "letter; rename one"
                )
        self._own_names |= dict.fromkeys(spellings(name), name)

    def own_name(self, spelling: str) -> str:
        """The name of the tool that a provider calls by this one; a name that no tool has is its own."""
        return self._own_names.get(spelling, spelling)

    def spellings(self) -> frozenset[str]:
        """Every name by which a model may call a tool."""
        return frozenset(self._own_names)

    def _add_canary(self, spec: ToolSpec, *, replace: bool) -> None:
        others = tuple(canary for canary in self.canaries(spec.name) if canary.version != spec.version)
        stable = self._stable.get(spec.name)
        if stable is None:
            raise RegistrationError(f"register the stable version of {spec.name!r} before its canary {spec.version}")
        if (len(others) < len(self.canaries(spec.name)) and not replace) or stable.version == spec.version:
            raise RegistrationError(f"version {spec.version} of {spec.name!r} is registered; give it another version")
        if sum(canary.canary or 0.0 for canary in (*others, spec)) > 100:
            raise RegistrationError(f"the canaries of {spec.name!r} come to more than 100 per cent; lower a share")
        self._canaries[spec.name] = (*others, spec)

    def beside(self, spec: ToolSpec) -> list[ToolSpec]:
        """The tools that stay when this one takes the place of another."""
        return [
            other
            for other in self
            if other.name != spec.name
            or not (other.version == spec.version or (other.canary is None and spec.canary is None))
        ]

    def get(self, name: str, version: str | None = None) -> ToolSpec | None:
        """The stable tool of this very name, or this very version of it; never one that is merely like it."""
        name = self.own_name(name)
        stable = self._stable.get(name)
        if version is None or (stable is not None and stable.version == version):
            return stable
        return next((canary for canary in self.canaries(name) if canary.version == version), None)

    def choose(self, call: ToolCall) -> ToolSpec | None:
        """The tool for a call: the version that it names, or by a stable hash of its id the canary or stable one.

        Calls of one id always meet the same version; a call without one is told apart by its arguments. A canary that
        is not well gives its share back to the stable version.
        """
        name = self._own_names.get(call.name, call.name)
        if call.version is not None:
            return self.get(name, call.version)
        stable = self._stable.get(name)
        if not self._canaries or name not in self._canaries:
            return stable
        place = int(fingerprint(name, call.id or call.arguments)[:8], 16) / 0x1_0000_0000 * 100
        for canary in self._canaries[name]:
            place -= canary.canary or 0.0
            if place < 0:
                return canary if stable is None or self.is_well(canary) else stable
        return stable

    def canaries(self, name: str) -> tuple[ToolSpec, ...]:
        """The canary versions of a name."""
        return self._canaries.get(name, ())

    def versions(self, name: str) -> tuple[str, ...]:
        """Every version of a name, the stable one first."""
        name = self.own_name(name)
        stable = self._stable.get(name)
        return tuple(spec.version for spec in (*([] if stable is None else [stable]), *self.canaries(name)))

    def nearest(self, name: str) -> tuple[str, ...]:
        """Up to three names that look like this one, the best first."""
        return tuple(get_close_matches(name, self._stable, n=3, cutoff=0.5))

    def __iter__(self) -> Iterator[ToolSpec]:
        for spec in self._stable.values():
            yield spec
            yield from self.canaries(spec.name)

    def __len__(self) -> int:
        return len(self._stable)

    def __contains__(self, name: object) -> bool:
        return name in self._own_names
