"""What an attempt holds is given back on every way out."""

from __future__ import annotations

from ..invocation.invocation import ToolInvocation
from ..machine.machine import Firing
from ..states.invocation import ToolState


def release_lease(event: Firing) -> None:
    """The attempt is over: its slots and permit are free, or will be when its thread has really ended."""
    invocation: ToolInvocation = event.model
    if invocation.slots or invocation.permit:
        invocation.release()


def release_unused_lease(event: Firing) -> None:
    """Admission was left for something else than an attempt: what was taken for it goes back."""
    invocation: ToolInvocation = event.model
    if (invocation.slots or invocation.permit) and event.transition.row.dest != ToolState.EXECUTING:
        invocation.release()
