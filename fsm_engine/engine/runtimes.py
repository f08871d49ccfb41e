"""What an engine keeps of each tool while it runs: slots, rate tokens, circuit, last good results."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..breaker.circuit_breaker import CircuitBreaker
from ..breaker.events import BreakerEvent
from ..clock import Clock
from ..concurrency.slots import Slots
from ..invocation.attempt import Attempt
from ..invocation.substitute import LastGood
from ..logs import log_warning
from ..response.tool_response import ToolResponse
from ..tools.call import fingerprint
from ..tools.rate import RateTokens
from ..tools.spec import SYNC_CONCURRENCY, ToolSpec
from .alerts import Alerts
from .circuits import Circuits
from .health import probe_of

if TYPE_CHECKING:
    from ..invocation.invocation import ToolInvocation

_NOBODY = object()

FIRST_GUESS = 1.0
"""Seconds that an attempt is taken to last before the first one has ended."""


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
        own, shared: the slots that an attempt needs, in the order in which they are taken; `slots`: all of them.
        turnstile: one at a time waits for a rate token, the others in line behind it.
        fallback_slots: for a fallback that is a plain function; threads of its own, as those of the tool may all hang.
        is_limited: there is something to wait for.
        waiting: the calls that wait for what they need, in no order that matters.
        want_token: how many calls stand in line for a rate token, whatever else they wait for before it.
        breaker: its circuit, or that of its group; `None`: it has none.
        rate: its rate tokens; `None`: no limit.
        last_good: its good results; `None`: its fallback does not ask for them.
        flights: the calls that identical ones wait for, by tool and arguments; `None`: identical calls run each for itself.
    """

    def __init__(self, spec: ToolSpec, breaker: CircuitBreaker | None, shared: SharedSlots, clock: Clock) -> None:
        self.spec = spec
        self.breaker = breaker
        self.rate = None if spec.rate_limit is None else RateTokens(spec.rate_limit, clock)
        policy = spec.fallback_policy
        self.last_good = LastGood(policy, clock) if policy is not None and policy.last_good else None
        self._last_good_key = (policy and policy.key) or spec.key
        self.own: tuple[Slots, ...] = ()
        self.shared: tuple[Slots, ...] = ()
        self.slots: tuple[Slots, ...] = ()
        self.threads: Slots | None = None
        self.turnstile = Slots(1)
        self.fallback_slots = Slots(SYNC_CONCURRENCY)
        self.flights: dict[Hashable, ToolInvocation] | None = None
        self.is_limited = False
        self.want_token = 0
        self.waiting: dict[ToolInvocation, None] = {}
        self.mean_seconds = 0.0
        self.renew_slots(shared)

    def renew_slots(self, shared: SharedSlots) -> None:
        """Begin with free slots; those of an event loop that is gone are never given back."""
        limit = self.spec.slots
        self.threads = shared.threads if self.spec.runs_in_thread else None
        if limit is not None and self.spec.max_concurrency is None and shared.threads.limit is not None:
            # Unless somebody wants it so, a tool that hangs leaves a thread to the others.
            limit = min(limit, max(1, shared.threads.limit - 1))
        self.own = () if limit is None else (Slots(limit),)
        threads = () if self.threads is None else (self.threads,)
        everybody = () if shared.engine.limit is None else (shared.engine,)
        self.shared = (*threads, *everybody)
        self.turnstile, self.fallback_slots = Slots(1), Slots(SYNC_CONCURRENCY)
        self.waiting, self.want_token = {}, 0
        self.slots = (*self.own, *self.shared)
        self.flights = {} if self.spec.single_flight else None
        self.is_limited = bool(self.slots or self.rate or self.spec.single_flight)

    def try_acquire(self) -> bool:
        """Take all slots and a token, if they are there and nobody waits for them; else nothing."""
        if self.flights is not None:  # an identical call may be under way
            return False
        if self.turnstile.held:
            return False
        for number, slots in enumerate(self.slots):
            if not slots.try_acquire():
                self._give_back(number)
                return False
        if self.rate is None or self.rate.try_take():
            return True
        self._give_back(len(self.slots))
        return False

    def _give_back(self, number: int) -> None:
        for slots in self.slots[:number]:
            slots.release()

    def flight_key(self, invocation: ToolInvocation) -> Hashable | None:
        """What calls must share to share a run; `None`: this one shares with nobody, as nobody can say whose it is."""
        arguments = invocation.arguments or {}
        whose = self._whose(self.spec.key, arguments)
        return None if whose is _NOBODY else (fingerprint(arguments), whose)

    def inherit(self, invocation: ToolInvocation, heir: ToolInvocation) -> None:
        """Whoever makes the same call waits for the heir from now on."""
        assert self.flights is not None, "there is a run to inherit"
        flights = self.flights
        for key in [key for key, first in flights.items() if first is invocation]:
            flights[key] = heir
            heir.ended.add_done_callback(partial(self.land, key, heir))

    def land(self, key: Hashable, invocation: ToolInvocation, _: object = None) -> None:
        """Nobody waits any more for what this invocation runs."""
        if self.flights is not None and self.flights.get(key) is invocation:
            del self.flights[key]

    def remember(self, arguments: Mapping[str, Any], response: ToolResponse) -> None:
        """Keep a good result for whoever asks the same again."""
        assert self.last_good is not None, "the caller has looked"
        whose = self._whose(self._last_good_key, arguments)
        if whose is not _NOBODY:
            self.last_good.remember(arguments, response, whose)

    def recall(self, arguments: Mapping[str, Any]) -> tuple[ToolResponse, float | None]:
        """The newest good result of whoever asks, and its age in seconds; else an error."""
        assert self.last_good is not None, "the caller has looked"
        return self.last_good.recall(arguments, self._whose(self._last_good_key, arguments))

    def _whose(self, key: Callable[[Mapping[str, Any]], Hashable] | None, arguments: Mapping[str, Any]) -> Hashable:
        """What a result depends on beside the arguments. A key that fails must never make two callers one."""
        if key is None:
            return None
        try:
            whose = key(arguments)
            hash(whose)
        except Exception as error:  # noqa: BLE001 # a function of the user's; the call goes on without sharing
            log_warning("key failed, so nothing is shared", tool=self.spec.name, exception_type=type(error).__name__)
            return _NOBODY
        return whose

    def took(self, seconds: float) -> None:
        """An attempt has taken so long; the mean says when it is worth coming back to a full queue."""
        self.mean_seconds += (0.2 if self.mean_seconds else 1.0) * (seconds - self.mean_seconds)

    @property
    def is_queue_full(self) -> bool:
        """No more calls may wait for this tool."""
        limit = self.spec.max_queue
        return limit is not None and len(self.waiting) >= limit

    def wake_waiting(self) -> None:
        """Let everybody who waits look at the circuit; from any thread."""
        for invocation in tuple(self.waiting):
            invocation.wake_from_any_thread()

    @property
    def seconds_until_free(self) -> float:
        """A guess at how long those who wait will take."""
        before, rate = len(self.waiting) + 1, self.spec.rate_limit
        limits = [slots.limit for slots in self.slots if slots.limit is not None]
        for_slots = (self.mean_seconds or FIRST_GUESS) * before / min(limits) if limits else 0.0
        for_tokens = 0.0 if rate is None else rate.per * before / rate.limit
        return max(0.1, round(max(for_slots, for_tokens), 1))


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
        self._probes: dict[ToolSpec, tuple[ToolSpec, Mapping[str, Any]]] = {}
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

    def check(self, spec: ToolSpec, others: Iterable[ToolSpec]) -> None:
        """Refuse a tool that cannot work, or not beside these others.

        Raises:
            ConfigurationError: its probe cannot be called, or its circuit's group has another policy.
        """
        probe_of(spec)
        self.circuits.check(spec, others)

    def probe_of(self, spec: ToolSpec) -> tuple[ToolSpec, Mapping[str, Any]] | None:
        """The probe of a tool, made once, and its arguments.

        It has a slot of its own, so that one that hangs keeps one thread and not another at every check; it needs none
        of the engine's attempts, so that an engine that is busy is not taken for a tool that is not well.
        """
        found = self._probes.get(spec)
        if found is None and (found := probe_of(spec)) is not None:
            self._probes[spec] = found
            self._by_spec[found[0]] = ToolRuntime(found[0], None, self._for_probes(), self._clock)
        return found

    def renew_slots(self) -> None:
        """Begin anew in another event loop; what runs on from the one before can tell nobody when it ends."""
        self._alerts.threads_free()
        self.abandoned.clear()
        self.shared = self._new_shared()
        probes = {probe for probe, _ in self._probes.values()}
        for spec, runtime in self._by_spec.items():
            runtime.renew_slots(self._for_probes() if spec in probes else self.shared)

    def begin_in_child(self) -> None:
        """In a child process: begin anew, and tell nobody, as whoever listens may belong to the parent."""
        self._alerts.begin_in_child()
        self.renew_slots()
        for runtime in self._by_spec.values():
            if runtime.last_good is not None:
                runtime.last_good.clear()

    def keep_only(self, specs: Iterable[ToolSpec]) -> None:
        """Forget the tools that were replaced, their probes and their circuits."""
        kept = set(specs)
        self._probes = {spec: probe for spec, probe in self._probes.items() if spec in kept}
        kept.update(probe for probe, _ in self._probes.values())
        self._by_spec = {spec: runtime for spec, runtime in self._by_spec.items() if spec in kept}
        self.circuits.keep_only(kept)

    def _for_probes(self) -> SharedSlots:
        return SharedSlots(Slots(None), self.shared.threads)

    def _new_shared(self) -> SharedSlots:
        max_concurrency, max_threads = self._limits
        return SharedSlots(Slots(max_concurrency), Slots(max_threads, on_idle=self._alerts.threads_free))

    def _circuit_changed(self, breaker: CircuitBreaker, event: BreakerEvent) -> None:
        users = [runtime for runtime in tuple(self._by_spec.values()) if runtime.breaker is breaker]
        self._alerts.circuit_changed(breaker, event, next((runtime.spec for runtime in users), None))
        for runtime in users:
            runtime.wake_waiting()
