"""The gate of `VALIDATING`: schema, business rules, binding, and whether a person must agree."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from ..errors.exceptions import ConfigurationError, ToolError, classify
from ..invocation.arguments import Parsed
from ..invocation.invocation import ToolInvocation
from ..invocation.outcomes import broken_tool_response, error_response
from ..invocation.stages import Stages
from ..machine.machine import Firing
from ..settings.kinds import shown
from ..tools.tool_settings import NeedsApproval


def check_arguments(stages: Stages, logger: Any) -> Callable[[Firing], None]:
    """The gate `check_arguments`; it refuses by giving the invocation an error response."""
    validate, bind = stages.validate, stages.bind

    def check(event: Firing) -> None:
        invocation: ToolInvocation = event.model
        spec, arguments = invocation.spec, invocation.arguments
        if invocation.is_refused or spec is None or arguments is None:
            return  # the tool could not be resolved, or the arguments not be parsed: refused already
        try:
            checked = validate(spec, arguments)
            if isinstance(checked, Parsed):
                checked, notes = checked
                invocation.notes = (*invocation.notes, *notes)
            invocation.arguments = checked
            invocation.bound = bind(spec, checked)
            if spec.needs_approval:
                _ask_if_wanted(invocation, spec.needs_approval, checked)
        except ToolError as error:
            invocation.refuse(error_response(error))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 # whatever it is, the invocation ends with a clear error
            # A rule that raises is its author's mistake: the model can do nothing about it.
            logger.error("validation is broken", tool=spec.name, uid=invocation.uid, detail=classify(error).detail)
            invocation.refuse(broken_tool_response(spec.name, "a check of its arguments", error))

    return check


def _ask_if_wanted(invocation: ToolInvocation, wanted: NeedsApproval, arguments: dict[str, Any]) -> None:
    """Once a person is wanted, that stands: what was decided is on record, and is not decided again."""
    if not invocation.is_approval_wanted:
        invocation.is_approval_wanted = wanted if isinstance(wanted, bool) else _answer(wanted(arguments))
    invocation.is_approval_missing = invocation.is_approval_wanted and not invocation.is_approval_given
    if invocation.is_approval_missing:
        invocation.ask()


def _answer(answer: object) -> bool:
    """Whether a person is wanted. A function that forgets to answer must not mean that nobody is."""
    if isinstance(answer, bool):
        return answer
    if isinstance(answer, Coroutine):
        answer.close()  # or Python warns that nobody has awaited it
    raise ConfigurationError(f"needs_approval must answer True or False, not {shown(answer)}")
