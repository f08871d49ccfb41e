"""The responses that the engine itself gives: for exceptions, time limits, cancellations, denials and broken tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors.codes import Effect, ToolErrorCode
from ..errors.traces import trace_text
from ..jsonable.redaction import hidden_values, mask_values, short_name
from ..response.error_info import ErrorInfo
from ..response.tool_response import ToolResponse

if TYPE_CHECKING:
    from ..machine.lifecycle import Outcome
    from .invocation import ToolInvocation


def error_response(error: BaseException, *, wall: float | None = None) -> ToolResponse:
    """The response for whatever a tool raised, with the most precise code.

    Args:
        wall: seconds since the epoch, for a Retry-After that is a date.
    """
    return ToolResponse.from_exception(error, now=wall)


_ENDINGS = frozenset({ToolErrorCode.CANCELLED, ToolErrorCode.APPROVAL_DENIED, ToolErrorCode.APPROVAL_EXPIRED})


def as_tools_own(response: ToolResponse) -> ToolResponse:
    """A tool's own failure, which never passes for an ending of the engine's.

    Nobody has cancelled, denied or let lapse a call whose function says so of itself. Its words stay, the code becomes
    `EXECUTION_ERROR`, and the reason says what the function had called it.
    """
    info = response.error_info
    if info is None or info.code not in _ENDINGS:
        return response
    info = replace(info, code=ToolErrorCode.EXECUTION_ERROR.value, reason=info.reason or info.code.lower())
    return replace(response, error_info=info)


def without_hidden(response: ToolResponse, arguments: Mapping[str, Any], hides: frozenset[str]) -> ToolResponse:
    """An error whose texts do not repeat the values of arguments that nobody may see."""
    info = response.error_info
    values = hidden_values(arguments, hides)
    if info is None or not values:
        return response

    def masked(text: str) -> str:
        return mask_values(text, values)

    issues = tuple(replace(issue, message=masked(issue.message)) for issue in info.issues)
    info = replace(info, message=masked(info.message), detail=masked(info.detail), issues=issues)
    return replace(response, text=masked(response.text), error_info=info)


def broken_tool_response(tool: str, part: str, error: BaseException) -> ToolResponse:
    """A part of the tool's set-up raised where it must not: its author's mistake, and none of the model's."""
    return ToolResponse.error(
        ToolErrorCode.INTERNAL_ERROR,
        f"{tool} was not run to its end, as {part} is broken.",
        reason="broken_tool",
        exception_type=short_name(error),
        detail=trace_text(error),
        counts=False,
    )


def timeout_response(tool: str, message: str, *, reason: str, effect: Effect) -> ToolResponse:
    """A time limit passed."""
    return ToolResponse.error(ToolErrorCode.TIMEOUT, f"{tool} {message}", reason=reason, effect=effect)


def cancelled_response(tool: str, why: str, *, effect: Effect) -> ToolResponse:
    """Somebody no longer wants the result."""
    because = f": {why}" if why else ""
    return ToolResponse.error(
        ToolErrorCode.CANCELLED, f"{tool} was cancelled{because}.", reason="cancelled", effect=effect
    )


def out_of_time(invocation: ToolInvocation) -> None:
    """The deadline passed in a state of the user's. The error of an earlier attempt says more than that, so it stands."""
    response, state = invocation.response, invocation.state
    if response is not None and response.error_info is not None:
        about = {"state": state, "reason": "deadline"}
        invocation.response = response.with_facts(context={"unfinished": about})
    else:
        words = f"did not answer before the call's deadline, which passed in {state}."
        effect = invocation.effect_so_far
        invocation.response = timeout_response(invocation.tool_name, words, reason="deadline", effect=effect)


def response_of_end(invocation: ToolInvocation, outcome: Outcome | None) -> ToolResponse:
    """The response that goes with the final state that an invocation has reached, by whichever row.

    The one rule that keeps state, response, event and log line in agreement: a state of results takes a result, one of
    errors an error, one of cancellations the error that says so. What does not fit is put into words that do.

    Args:
        outcome: of the final state; `None`: it takes a result as well as an error.
    """
    response, tool, state = invocation.response, invocation.tool_name, invocation.state
    info = None if response is None else response.error_info
    if response is not None and (outcome is None or outcome == ("result" if info is None else "error")):
        return response
    if outcome == "cancelled":
        is_one = response is not None and info is not None and info.code == ToolErrorCode.CANCELLED
        return response if is_one and response is not None else _as_cancelled(invocation, info)
    if outcome == "result":
        return _as_result(tool, state, info)
    return _as_error(invocation)


def _as_cancelled(invocation: ToolInvocation, info: ErrorInfo | None) -> ToolResponse:
    why, effect = invocation.cancel_reason, invocation.effect_so_far
    response = cancelled_response(invocation.tool_name, why, effect=effect)
    return response if info is None else response.with_facts(context={"error": _brief(info)})


def _as_result(tool: str, state: str, info: ErrorInfo | None) -> ToolResponse:
    if info is None:
        return ToolResponse.partial(f"{tool} ended as {state} without a result.", reason="no_response")
    reason = info.reason or info.code.lower()
    return ToolResponse.partial(info.message, reason=reason, context={"error": _brief(info)})


def _as_error(invocation: ToolInvocation) -> ToolResponse:
    tool, effect = invocation.tool_name, invocation.effect_so_far
    if invocation.response is None:
        words = f"{tool} ended as {invocation.state} without a response."
        return ToolResponse.error(ToolErrorCode.INTERNAL_ERROR, words, reason="no_response", effect=effect)
    return ToolResponse.error(
        ToolErrorCode.EXECUTION_ERROR,
        f"{tool} has answered, but its result was not accepted.",
        reason="result_refused",
        effect=effect,
        transient=False,
        counts=False,
    )


def _brief(error: ErrorInfo) -> dict[str, str]:
    return {"code": error.code, "message": error.message}


_OF_ONE_CALL = frozenset({"time_ms", "attempts", "queue_ms", "tool", "arguments", "call_id", "notes", "approval"})


def shared_response(response: ToolResponse) -> ToolResponse:
    """Another call's response without what the engine has added for that call."""
    return replace(
        response,
        stats={key: value for key, value in response.stats.items() if key not in _OF_ONE_CALL},
        context={key: value for key, value in response.context.items() if key not in _OF_ONE_CALL},
    )


def denied_response(tool: str, why: str, by: str | None = None) -> ToolResponse:
    """A person has said no."""
    because = f": {why}" if why else ""
    return ToolResponse.error(
        ToolErrorCode.APPROVAL_DENIED,
        f"{tool} was not run, as {by or 'a person'} denied it{because}.",
        reason="denied",
        effect=Effect.NONE,
    )


def unanswered_response(tool: str, seconds: float) -> ToolResponse:
    """Nobody decided in time."""
    return ToolResponse.error(
        ToolErrorCode.APPROVAL_EXPIRED,
        f"{tool} was not run, as nobody approved it within {seconds:g} s.",
        reason="approval_expired",
        effect=Effect.NONE,
    )


def refuse_for_circuit(invocation: ToolInvocation) -> None:
    """No call is made: the circuit is open, or all probes of a half-open one are out."""
    runtime = invocation.runtime
    breaker = None if runtime is None else runtime.breaker
    assert breaker is not None, "only a tool with a circuit is refused for it"
    retry_after = breaker.retry_after
    invocation.refuse_admission(
        ToolResponse.error(
            ToolErrorCode.CIRCUIT_OPEN,
            f"{invocation.tool_name} was not called, as it has failed too often and is given time to recover.",
            reason="circuit_breaker_open",
            retry_after=retry_after,
            effect=Effect.NONE,
        ),
        "circuit_breaker_open",
    )


def refuse_for_queue(invocation: ToolInvocation, retry_after: float, *, reason: str) -> None:
    """No call is made: too many are waiting, or a rate token comes too late for the deadline."""
    why = "too many calls wait for it already" if reason == "queue_full" else "it may not be called that often"
    invocation.refuse_admission(
        ToolResponse.error(
            ToolErrorCode.RATE_LIMIT,
            f"{invocation.tool_name} was not called, as {why}.",
            reason=reason,
            retry_after=retry_after,
            effect=Effect.NONE,
            transient=False,
            counts=False,
        ),
        reason,
    )
