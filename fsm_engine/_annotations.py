"""Makes the names that annotations use known where they are used, for `help`, `inspect.signature` and `get_type_hints`.

Modules that need each other for their types alone cannot import each other. Once all of them are there, each is given
the names that it lacks.
"""

from __future__ import annotations

from . import approval, attempt, breaker_permits, call_group, context, invocation, outcome, run, spec, sync
from .attempt import Attempt
from .breaker import CircuitBreaker, Permit
from .breaker_circuit import Circuit
from .breaker_states import BreakerState
from .clock import Clock, TimerHandle
from .engine import ToolEngine
from .invocation import ToolInvocation
from .limits import Slots
from .response import ErrorInfo
from .run import CallStream
from .runtime import ToolRuntime
from .spec import ToolSpec
from .validators import Invalid

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
