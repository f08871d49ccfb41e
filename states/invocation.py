"""Every move of a tool invocation, in one table.

| from | trigger | guard | to |
|---|---|---|---|
| PENDING | validate | | VALIDATING |
| VALIDATING | accept | refused | FAILED |
| VALIDATING | accept | needs_approval | AWAITING_APPROVAL |
| VALIDATING | accept | | ADMITTING |
| AWAITING_APPROVAL | decide | approved | VALIDATING |
| AWAITING_APPROVAL | decide | | FAILED |
| ADMITTING | admit | permitted | EXECUTING |
| ADMITTING | admit | fallback_on_refusal | FALLING_BACK |
| ADMITTING | admit | | FAILED |
| EXECUTING | succeed | | COMPLETED |
| EXECUTING | fail | may_retry | RETRYING |
| EXECUTING | fail | fallback_on_failure | FALLING_BACK |
| EXECUTING | fail | | FAILED |
| RETRYING | retry | | ADMITTING |
| FALLING_BACK | succeed | | COMPLETED |
| FALLING_BACK | fail | | FAILED |
| * | abort | | FAILED |
| * | cancel | | CANCELLED |

`*` is every state that is not final. A test compares this table with `INVOCATION`, which is what runs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from ..machine.checks import ANY_UNFINISHED
from ..machine.lifecycle import Lifecycle, Row, State


class ToolState(StrEnum):
    """The built-in states of an invocation. A user's lifecycle may have more, so `invocation.state` is a string."""

    PENDING = "PENDING"
    VALIDATING = "VALIDATING"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    ADMITTING = "ADMITTING"
    EXECUTING = "EXECUTING"
    RETRYING = "RETRYING"
    FALLING_BACK = "FALLING_BACK"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Facts(Protocol):
    """What the guards read of an invocation; each is settled before the trigger that asks for it is fired."""

    @property
    def is_refused(self) -> bool:
        """A gate, or the admission, has said no."""
        ...

    @property
    def is_approval_missing(self) -> bool:
        """A person must agree to these very arguments and has not."""
        ...

    @property
    def is_approved(self) -> bool:
        """A person has agreed."""
        ...

    @property
    def has_fallback_for_refusal(self) -> bool:
        """What refused the call is something that the tool's fallback stands in for."""
        ...

    @property
    def has_fallback_for_failure(self) -> bool:
        """The tool asks for its fallback after failures of this kind."""
        ...

    @property
    def is_retry_allowed(self) -> bool:
        """The error may pass, an attempt is left, the effect is safe to repeat, and there is time to wait."""
        ...


class _Event(Protocol):
    """The part of `machine.Firing` that guards use."""

    @property
    def model(self) -> Facts: ...


def refused(event: _Event) -> bool:
    """A gate of `VALIDATING` found something wrong with the call."""
    return event.model.is_refused


def needs_approval(event: _Event) -> bool:
    """A person must agree to these very arguments and has not yet."""
    return event.model.is_approval_missing


def approved(event: _Event) -> bool:
    """A person has agreed."""
    return event.model.is_approved


def permitted(event: _Event) -> bool:
    """Nothing stands in the way of an attempt, and what it needs is held."""
    return not event.model.is_refused


def fallback_on_refusal(event: _Event) -> bool:
    """The refusal is one that the tool's fallback stands in for."""
    return event.model.has_fallback_for_refusal


def may_retry(event: _Event) -> bool:
    """Another attempt may help, is allowed, is safe, and fits the time."""
    return event.model.is_retry_allowed


def fallback_on_failure(event: _Event) -> bool:
    """The tool asks for its fallback after a failure like this one."""
    return event.model.has_fallback_for_failure


INVOCATION = Lifecycle(
    name="invocation",
    doc="One tool call of a model, from its text to a result.",
    initial=ToolState.PENDING,
    states=(
        State("PENDING", activity="resolve the tool, parse the arguments", doc="The model asked."),
        State("VALIDATING", gates=("check_arguments",), doc="The arguments are checked and bound."),
        State("AWAITING_APPROVAL", activity="wait for a person's decision", doc="A person must agree."),
        State(
            "ADMITTING",
            gates=("check_circuit",),
            on_exit=("release_unused_lease",),
            activity="wait for a slot and a rate token, then take the circuit's permit",
            doc="Room is made for it.",
        ),
        State("EXECUTING", on_exit=("release_lease",), activity="run one attempt", doc="The tool runs."),
        State("RETRYING", activity="wait before the next attempt", doc="The attempt failed in a way that may pass."),
        State("FALLING_BACK", activity="fetch a substitute", doc="Something else answers."),
        State("COMPLETED", final=True, outcome="result", doc="There is a result, whole or partial."),
        State("FAILED", final=True, outcome="error", doc="There is an error that says what to do next."),
        State("CANCELLED", final=True, outcome="cancelled", doc="Somebody no longer wanted it."),
    ),
    rows=(
        Row("PENDING", "validate", "VALIDATING", doc="The call has been read; what is wrong with it is judged next."),
        Row("VALIDATING", "accept", "FAILED", guard="refused", doc="Wrong tool or arguments: nothing is ever called."),
        Row("VALIDATING", "accept", "AWAITING_APPROVAL", guard="needs_approval", doc="A person has not agreed yet."),
        Row("VALIDATING", "accept", "ADMITTING", doc="The arguments are good, and nobody need agree or somebody has."),
        Row("AWAITING_APPROVAL", "decide", "VALIDATING", guard="approved", doc="A person agrees; it is checked anew."),
        Row("AWAITING_APPROVAL", "decide", "FAILED", doc="A person denies it, or does not answer in time."),
        Row("ADMITTING", "admit", "EXECUTING", guard="permitted", doc="It has its slot, rate token and permit."),
        Row("ADMITTING", "admit", "FALLING_BACK", guard="fallback_on_refusal", doc="An open circuit, most often."),
        Row("ADMITTING", "admit", "FAILED", doc="Open circuit, full queue or no time left, and no substitute."),
        Row("EXECUTING", "succeed", "COMPLETED", doc="The tool has answered, wholly or in part."),
        Row("EXECUTING", "fail", "RETRYING", guard="may_retry", doc="It may pass, and trying again is safe."),
        Row("EXECUTING", "fail", "FALLING_BACK", guard="fallback_on_failure", doc="No retry helps, a substitute may."),
        Row("EXECUTING", "fail", "FAILED", doc="No retry helps, and there is no substitute."),
        Row("RETRYING", "retry", "ADMITTING", doc="The wait is over; a slot and a permit are needed anew."),
        Row("FALLING_BACK", "succeed", "COMPLETED", doc="The substitute answers, as a partial result that says so."),
        Row("FALLING_BACK", "fail", "FAILED", doc="There is no substitute after all; the first error stands."),
        Row(ANY_UNFINISHED, "abort", "FAILED", doc="Something raised where nothing may: a gate, a guard, an activity."),
        Row(ANY_UNFINISHED, "cancel", "CANCELLED", doc="Somebody cancelled the call, its batch or its stream."),
    ),
    guards={
        "refused": refused,
        "needs_approval": needs_approval,
        "approved": approved,
        "permitted": permitted,
        "fallback_on_refusal": fallback_on_refusal,
        "may_retry": may_retry,
        "fallback_on_failure": fallback_on_failure,
    },
    on_transition=("record",),
)
