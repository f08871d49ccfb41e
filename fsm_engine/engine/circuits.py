"""The circuit breakers of an engine, each made when a tool first asks for it and forgotten with the last one that has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..breaker.circuit_breaker import CircuitBreaker
from ..breaker.events import BreakerEvent, BreakerEventKind
from ..clock import Clock
from ..errors.exceptions import ConfigurationError
from ..tools.spec import ToolSpec


class Circuits:
    """The breakers of an engine: one for each tool and version that asks for one, or one for each named group."""

    def __init__(self, clock: Clock, on_change: Callable[[CircuitBreaker, BreakerEvent], object]) -> None:
        self._clock = clock
        self._on_change = on_change
        self._by_scope: dict[str, CircuitBreaker] = {}
        self._deaf: dict[str, Callable[[], None]] = {}

    def of(self, spec: ToolSpec) -> CircuitBreaker | None:
        """The breaker of a tool, made when it is first asked for.

        Raises:
            ConfigurationError: the tools of a group have different policies.
        """
        if spec.breaker is None:
            return None
        scope = spec.breaker_scope
        breaker = self._by_scope.get(scope)
        if breaker is None:
            breaker = self._by_scope[scope] = CircuitBreaker(spec.breaker, name=scope, clock=self._clock)
            self._deaf[scope] = self._watch(breaker)
        elif breaker.policy != spec.breaker:
            if spec.breaker_group is not None:
                raise _other_policy(spec)
            self._forget(scope)  # the tool was replaced by one with other settings
            return self.of(spec)
        return breaker

    def check(self, spec: ToolSpec, others: Iterable[ToolSpec]) -> None:
        """Refuse a tool that would share a circuit with others whose policy is not the same.

        Raises:
            ConfigurationError: it would.
        """
        for other in others:
            is_shared = spec.breaker is not None and other.breaker is not None
            if is_shared and other.breaker_scope == spec.breaker_scope and other.breaker != spec.breaker:
                raise _other_policy(spec)

    def all(self) -> dict[str, CircuitBreaker]:
        """Every breaker by its scope."""
        return _ByScope(self._by_scope)

    def keep_only(self, specs: Iterable[ToolSpec]) -> None:
        """Forget the circuits that none of these tools has, or has with another policy."""
        kept = {spec.breaker_scope: spec.breaker for spec in specs if spec.breaker is not None}
        for scope, breaker in self.all().items():
            if kept.get(scope) != breaker.policy:
                self._forget(scope)

    def stop_timers(self) -> None:
        """Leave the moves that time makes to whoever looks, so that a loop holds nothing of an engine that is closed."""
        for breaker in self._by_scope.values():
            breaker.stop_timer()

    def _forget(self, scope: str) -> None:
        self._deaf.pop(scope)()
        self._by_scope.pop(scope).stop_timer()

    def _watch(self, breaker: CircuitBreaker) -> Callable[[], None]:
        def heard(event: BreakerEvent) -> None:
            if event.kind == BreakerEventKind.STATE_CHANGED:
                self._on_change(breaker, event)

        return breaker.on_event(heard)


class _ByScope(dict[str, CircuitBreaker]):
    """Finds a breaker by the tool's name too, where that leaves no doubt."""

    def __missing__(self, scope: str) -> CircuitBreaker:
        meant = [known for known in self if known.rpartition("@")[0] == scope]
        if len(meant) == 1:
            return self[meant[0]]
        known = f"there are: {', '.join(meant or self)}" if self else "there is none, as no tool has a breaker"
        raise KeyError(f"no circuit is called {scope!r}; {known}; a tool's is called name@version")


def _other_policy(spec: ToolSpec) -> ConfigurationError:
    return ConfigurationError(
        f"tool {spec.name!r}: the circuit {spec.breaker_scope!r} exists with another BreakerPolicy; "
        "give the tools of a group the same one"
    )
