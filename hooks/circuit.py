"""The gate of `ADMITTING`: an open circuit is seen before anything is waited for."""

from __future__ import annotations

from ..invocation.invocation import ToolInvocation
from ..invocation.outcomes import refuse_for_circuit
from ..machine.machine import Firing


def check_circuit(event: Firing) -> None:
    """Refuse the call if its circuit lets nobody through: it is open, or half-open with all its probes under way.

    Those may hang, too, so nobody waits behind them. Whether a call is let through the permit says, which is taken last.
    """
    invocation: ToolInvocation = event.model
    runtime = invocation.runtime
    if runtime is not None and runtime.breaker is not None and not runtime.breaker.admits:
        runtime.breaker.count_refusal()
        refuse_for_circuit(invocation)
