"""Circuit breaker: pybreaker's, with explicit permits and Resilience4j's semantics.

`CircuitBreaker` derives from `pybreaker.CircuitBreaker`: `call`, `calling`, the decorator, listeners, `exclude`,
`open()`, `half_open()`, `close()` and the storages are pybreaker's. What differs, and why:

- Nothing is held while a call runs. A caller takes a permit first and settles it afterwards, so coroutines work, and a
  half-open circuit lets through exactly the permitted number, however many come at once.
- What is judged is a sliding window of outcomes (`BreakerPolicy`), step by step as in Resilience4j.
- Listeners run after the lock is released and see the new state; their exceptions are logged, never raised.
- An excluded exception gives the permit back: it speaks neither for the circuit nor against it. So do cancellation and
  every other `BaseException` that is no `Exception`, and errors whose code does not count.
- Whoever made a call gets its own exception, also from the call that opens the circuit.
"""

from ..states.circuit import CircuitState
from .circuit_breaker import CircuitBreaker, CircuitOpenError
from .events import BreakerEvent, BreakerEventKind, ChangeReason
from .permits import Permit
from .policy import BreakerPolicy
from .states import BreakerMetrics, BreakerState

__all__ = [
    "BreakerEvent",
    "BreakerEventKind",
    "BreakerMetrics",
    "BreakerPolicy",
    "BreakerState",
    "ChangeReason",
    "CircuitBreaker",
    "CircuitOpenError",
    "CircuitState",
    "Permit",
]
