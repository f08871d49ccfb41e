"""What an engine keeps of each tool while it runs: slots, rate tokens, circuit, last good results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .alerts import Alerts
from .attempt import Attempt
from .breaker import BreakerEvent, BreakerEventKind, CircuitBreaker
from .clock import Clock
from .errors import ConfigurationError
from .fallback import LastGood
from .limits import Slots
from .rate import RateTokens
from .spec import ToolSpec


@dataclass(frozen=True, slots=True)
class SharedSlots:
    """What all tools of an engine share: its own limit, and its threads."""

    engine: Slots
    threads: Slots


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """How an engine's threads are used.

    Attributes:
        limit: how many there may be.
        busy: how many run a tool's function.
        abandoned: how many of those nobody waits for any more; they keep their tool's slots.
        waiting: how many calls wait for one.
    """

    limit: int
    busy: int
    abandoned: int
    waiting: int


class ToolRuntime:
    """The engine's side of one tool.

    Attributes:
        spec: the tool.
        own, shared: the slots that an attempt needs, in the order in which they are taken.
        turnstile: one at a time waits for a rate token, the others in line behind it.
        is_limited: there is something to wait for.
        breaker: its circuit, or that of its group; `None`: it has none.
        rate: its rate tokens; `None`: no limit.
        last_good: its good results; `None`: its fallback does not ask for them.
    """

    def __init__(self, spec: ToolSpec, breaker: CircuitBreaker | None, shared: SharedSlots, clock: Clock) -> None:
        self.spec = spec
        self.breaker = breaker
        self.rate = None if spec.rate_limit is None else RateTokens(spec.rate_limit, clock)
        policy = spec.fallback_policy
        self.last_good = LastGood(policy, clock) if policy is not None and policy.last_good else None
        self.own: tuple[Slots, ...] = ()
        self.shared: tuple[Slots, ...] = ()
        self.threads: Slots | None = None
        self.turnstile = Slots(1)
        self.is_limited = False
        self.mean_seconds = 0.0
        self.renew_slots(shared)

    def renew_slots(self, shared: SharedSlots) -> None:
        """Begin with free slots; those of an event loop that is gone are never given back."""
        # The tool's own are taken first: who waits for a busy tool keeps no place that another tool could use.
        self.own = () if self.spec.slots is None else (Slots(self.spec.slots),)
        self.threads = shared.threads if self.spec.runs_in_thread else None
        threads = () if self.threads is None else (self.threads,)
        everybody = () if shared.engine.limit is None else (shared.engine,)
        self.shared = (*threads, *everybody)
        self.turnstile = Slots(1)
        self.is_limited = bool(self.own or self.shared or self.rate)

    def took(self, seconds: float) -> None:
        """An attempt has taken so long; the mean says when it is worth coming back to a full queue."""
        self.mean_seconds += 0.2 * (seconds - self.mean_seconds)

    def is_queue_full(self) -> bool:
        """No more calls may wait for this tool."""
        limit = self.spec.max_queue
        return limit is not None and self.waiting >= limit

    @property
    def queues(self) -> tuple[Slots, ...]:
        """Where calls of this tool wait."""
        return (*self.own, self.turnstile, *self.shared)

    @property
    def waiting(self) -> int:
        """How many calls wait for what is this tool's own."""
        return sum(slots.waiting for slots in (*self.own, self.turnstile))

    def wake_waiting(self) -> None:
        """Let everybody who waits look at the circuit."""
        for slots in self.queues:
            slots.wake_all()

    def seconds_until_free(self) -> float:
        """A guess at how long those who wait will take."""
        at_once = (self.own[0].limit if self.own else None) or 1
        return max(0.1, round(self.mean_seconds * (self.waiting + 1) / at_once, 1))


class Circuits:
    """The breakers of an engine: one for each tool and version that asks for one, or one for each named group."""

    def __init__(self, clock: Clock, on_change: Callable[[CircuitBreaker, BreakerEvent], object]) -> None:
        self._clock = clock
        self._on_change = on_change
        self._by_scope: dict[str, CircuitBreaker] = {}

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
            breaker = CircuitBreaker(spec.breaker, name=scope, clock=self._clock)
            self._watch(breaker)
            self._by_scope[scope] = breaker
        elif breaker.policy != spec.breaker:
            if spec.breaker_group is None:  # the tool was replaced by one with other settings
                del self._by_scope[scope]
                return self.of(spec)
            raise ConfigurationError(
                f"tool {spec.name!r}: the circuit {scope!r} exists with another BreakerPolicy; "
                "give the tools of a group the same one"
            )
        return breaker

    def get(self, scope: str) -> CircuitBreaker | None:
        """The breaker of a scope: a group's name, or `name@version`."""
        return self._by_scope.get(scope)

    def all(self) -> dict[str, CircuitBreaker]:
        """Every breaker by its scope."""
        return dict(self._by_scope)

    def _watch(self, breaker: CircuitBreaker) -> None:
        def heard(event: BreakerEvent) -> None:
            if event.kind == BreakerEventKind.STATE_CHANGED:
                self._on_change(breaker, event)

        breaker.on_event(heard)


class Runtimes:
    """The runtimes of all tools of an engine."""

    def __init__(
        self,
        clock: Clock,
        alerts: Alerts,
        *,
        max_concurrency: int | None,
        max_threads: int,
    ) -> None:
        self._clock = clock
        self._alerts = alerts
        self._limits = (max_concurrency, max_threads)
        self._by_spec: dict[ToolSpec, ToolRuntime] = {}
        self.circuits = Circuits(clock, self._circuit_changed)
        self.shared = self._new_shared()
        self.abandoned: set[Attempt] = set()

    @property
    def threads(self) -> ThreadUse:
        """How the threads are used now."""
        slots = self.shared.threads
        abandoned = sum(attempt.thread_running for attempt in self.abandoned)
        return ThreadUse(slots.limit or 0, slots.held, abandoned, slots.waiting)

    def of(self, spec: ToolSpec) -> ToolRuntime:
        """The runtime of a tool, made when it is first asked for.

        Raises:
            ConfigurationError: its circuit's group has another policy.
        """
        runtime = self._by_spec.get(spec)
        if runtime is None:
            runtime = self._by_spec[spec] = ToolRuntime(spec, self.circuits.of(spec), self.shared, self._clock)
        return runtime

    def renew_slots(self) -> None:
        """Begin anew in another event loop."""
        self.shared = self._new_shared()
        for runtime in self._by_spec.values():
            runtime.renew_slots(self.shared)

    def keep_only(self, specs: Iterable[ToolSpec]) -> None:
        """Forget the tools that were replaced."""
        kept = set(specs)
        self._by_spec = {spec: runtime for spec, runtime in self._by_spec.items() if spec in kept}

    def _new_shared(self) -> SharedSlots:
        max_concurrency, max_threads = self._limits
        return SharedSlots(Slots(max_concurrency), Slots(max_threads, on_idle=self._alerts.threads_free))

    def _circuit_changed(self, breaker: CircuitBreaker, event: BreakerEvent) -> None:
        users = [runtime for runtime in self._by_spec.values() if runtime.breaker is breaker]
        group = next((runtime.spec.breaker_group for runtime in users), None)
        self._alerts.circuit_changed(breaker, event, group)
        for runtime in users:
            runtime.wake_waiting()
