"""Makes the names that annotations use known where they are used, for `help`, `inspect.signature` and `get_type_hints`.

Modules that need each other for their types alone cannot import each other. Once all of them are there, each is given
the names that it lacks.
"""

from __future__ import annotations

from .breaker import permits as breaker_permits
from .breaker.circuit import Circuit
from .breaker.circuit_breaker import CircuitBreaker
from .breaker.permits import Permit
from .breaker.states import BreakerState
from .clock import Clock, TimerHandle
from .concurrency import loop_thread as sync
from .concurrency.slots import Slots
from .engine import call_group
from .engine import stream as run
from .engine.engine import ToolEngine
from .engine.runtimes import ToolRuntime
from .engine.stream import CallStream
from .invocation import approval, attempt, invocation
from .invocation import outcomes as outcome
from .invocation.attempt import Attempt
from .invocation.invocation import ToolInvocation
from .response.error_info import ErrorInfo
from .schema.answers import Invalid
from .tools import context, spec
from .tools.spec import ToolSpec

_GIVEN = (
    (approval, (ToolInvocation, ToolSpec)),
    (attempt, (ToolInvocation,)),
    (breaker_permits, (BreakerState, Circuit, CircuitBreaker)),
    (call_group, (ToolEngine,)),
    (context, (Attempt, Clock, TimerHandle)),
    (invocation, (Clock, Permit, Slots, ToolRuntime, ToolSpec)),
    (outcome, (ToolInvocation,)),
    (run, (ToolEngine,)),
    (spec, (ErrorInfo, Invalid)),
    (sync, (CallStream, ToolInvocation)),
)

for _module, _names in _GIVEN:
    for _name in _names:
        vars(_module).setdefault(_name.__name__, _name)
