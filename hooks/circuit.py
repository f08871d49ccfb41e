"""The gate of `ADMITTING`: an open circuit is seen before anything is waited for."""

from __future__ import annotations

from ..invocation import ToolInvocation
from ..machine import Firing
from ..outcome import refuse_for_circuit


def check_circuit(event: Firing) -> None:
    """Refuse the call if its circuit is open; half-open is decided by the permit, which is taken last."""
    invocation: ToolInvocation = event.model
    runtime = invocation.runtime
    if runtime is not None and runtime.breaker is not None and runtime.breaker.is_open:
        runtime.breaker.count_refusal()
        refuse_for_circuit(invocation)
