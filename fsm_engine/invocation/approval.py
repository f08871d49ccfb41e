"""A question to a person, and its one answer: `Approval`, the `Decision` on it, and what `on_approval` may answer."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..concurrency.threads import run_in_thread
from ..errors.exceptions import ToolError
from ..jsonable.jsonable import to_jsonable
from ..jsonable.redaction import exception_text
from ..tools.call import canonical_json, fingerprint

if TYPE_CHECKING:
    from ..tools.spec import ToolSpec
    from .invocation import ToolInvocation


class Verdict(StrEnum):
    """What became of a question."""

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Decision(NamedTuple):
    """What was decided on a call that needs approval.

    Attributes:
        verdict: `EXPIRED` and `CANCELLED` are decided by nobody, and close the question all the same.
        by: who decided; `None`: not known.
        reason: in that person's words.
        at: seconds since the epoch.
        arguments: what the call is to run with in place of the model's arguments, checked; `None`: those stand.
    """

    verdict: Verdict
    by: str | None = None
    reason: str = ""
    at: float = 0.0
    arguments: dict[str, Any] | None = None

    @property
    def approved(self) -> bool:
        """A person has agreed."""
        return self.verdict is Verdict.APPROVED


class Approve(NamedTuple):
    """An answer of `on_approval`: run it, with these arguments if there are any."""

    arguments: Mapping[str, Any] | None = None
    by: str | None = None


class Deny(NamedTuple):
    """An answer of `on_approval`: do not run it; the model is told the message."""

    message: str = ""
    by: str | None = None


Answer = Approve | Deny | bool | None
"""`True` is `Approve()`, `False` is `Deny()`; `None` leaves the question open, for whoever else may answer it."""

OnApproval = Callable[["ToolInvocation"], Answer | Awaitable[Answer]]
"""Is asked about a call that waits for approval. A plain function runs in a thread, so it may wait for somebody."""


class Approval:
    """One question, closed by exactly one decision, whoever decides and from whichever thread.

    All that would change it is done under its own lock: of several who decide at once, the first closes it and is told
    `True`. An edit is checked before that, on a copy, for as long as it takes; if somebody else has decided meanwhile,
    it counts for nothing.

    Args:
        spec: the tool.
        arguments: what the person is asked to agree to; kept as a copy.
        check: checks an edit like the model's arguments, and answers what the tool would get.
        wall: seconds since the epoch.
    """

    def __init__(
        self,
        spec: ToolSpec,
        arguments: Mapping[str, Any],
        check: Callable[[Any], dict[str, Any]],
        wall: Callable[[], float],
    ) -> None:
        self._spec = spec
        self._check = check
        self._wall = wall
        self._lock = threading.Lock()
        self._decision: Decision | None = None
        self._agreed_key: str | None = None
        self.arguments: Mapping[str, Any] = _copy(arguments)
        self.asked_at = wall()
        self.taken = asyncio.Event()

    @property
    def decision(self) -> Decision | None:
        """What was decided; `None` while the question is open."""
        return self._decision

    def approve(self, arguments: Mapping[str, Any] | None = None, *, by: str | None = None) -> bool:
        """Agree; `False`: somebody was faster.

        Raises:
            ToolError: the edited arguments are not valid; the question stays open.
        """
        if self._decision is not None:
            return False
        edited = None if arguments is None else self.checked(arguments)
        agreed = self.arguments if edited is None else edited
        return self._close(Decision(Verdict.APPROVED, by, "", self._wall(), edited), agreed)

    def deny(self, message: str = "", *, by: str | None = None) -> bool:
        """Refuse; `False`: somebody was faster."""
        return self._close(Decision(Verdict.DENIED, by, message, self._wall()))

    def expire(self) -> bool:
        """Nobody has answered in time; `False`: somebody has."""
        return self._close(Decision(Verdict.EXPIRED, at=self._wall()))

    def cancel(self, reason: str) -> bool:
        """Nobody wants the call any more; `False`: it is closed in a way that ends the call anyhow.

        A call that was agreed to may still be cancelled, as one that runs may.
        """
        closed = self._close(Decision(Verdict.CANCELLED, None, reason, self._wall()))
        return closed or (self._decision is not None and self._decision.approved)

    def checked(self, arguments: Any) -> dict[str, Any]:
        """What the tool would get for such an edit; nothing is decided.

        Raises:
            ToolError: the arguments are not valid; `issues` says what is wrong.
        """
        found: dict[str, Any] = _copy(self._check(_copy(arguments)))
        return found

    def agrees_to(self, arguments: Mapping[str, Any] | None) -> bool:
        """A person has agreed, and to these very arguments."""
        return self._agreed_key is not None and self._agreed_key == self._key(arguments)

    def told(self) -> dict[str, Any]:
        """Who decided what, when, and what was changed, as JSON; arguments that the tool hides are masked."""
        decision = self._decision
        if decision is None:
            return {}
        told = {"verdict": str(decision.verdict), "by": decision.by, "reason": decision.reason, "at": decision.at}
        found: dict[str, Any] = {key: value for key, value in told.items() if value not in (None, "")}
        if decision.arguments is not None:
            shown, before = self._spec.shown(decision.arguments), self._spec.shown(self.arguments)
            found["arguments"] = shown
            found["changed"] = {
                name: {key: each[name] for key, each in (("from", before), ("to", shown)) if name in each}
                for name in self.changed
            }
        told_as_json: dict[str, Any] = to_jsonable(found).value  # type: ignore[assignment] # an object stays one
        return told_as_json

    @property
    def changed(self) -> tuple[str, ...]:
        """The names of the arguments that the decision has changed."""
        decision = self._decision
        if decision is None or decision.arguments is None:
            return ()
        before, after = self.arguments, decision.arguments
        names = dict.fromkeys((*before, *after))
        return tuple(name for name in names if not _is_same(before, after, name))

    def _close(self, decision: Decision, agreed: Mapping[str, Any] | None = None) -> bool:
        key = None if agreed is None else self._key(agreed)
        with self._lock:
            if self._decision is not None:
                return False
            self._agreed_key = key
            self._decision = decision
        return True

    def _key(self, arguments: Mapping[str, Any] | None) -> str:
        return fingerprint(self._spec.name, self._spec.version, arguments)


async def consult(ask: OnApproval, invocation: ToolInvocation, logger: Any) -> None:
    """Ask the engine's `on_approval`, and do what it answers. What it raises is logged, and leaves the question open."""
    facts = {"tool": invocation.tool_name, "call_id": invocation.id, "uid": invocation.uid}
    try:
        if inspect.iscoroutinefunction(ask):
            answer = await ask(invocation)
        else:
            answer = await run_in_thread(partial(ask, invocation))
            if inspect.isawaitable(answer):
                answer = await answer
        _carry_out(answer, invocation)
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except ToolError as error:
        logger.error(
            "edit of on_approval was refused, the call waits on", reason=error.reason, code=error.code, **facts
        )
    except BaseException as error:  # noqa: BLE001 # whatever it is, nobody has agreed
        kind, detail = type(error).__name__, exception_text(error)
        logger.error("on_approval is broken, the call waits on", exception_type=kind, detail=detail, **facts)


def _carry_out(answer: Any, invocation: ToolInvocation) -> None:
    if answer is None:
        return
    if answer is True or answer is False:
        answer = Approve() if answer else Deny()
    if isinstance(answer, Approve):
        invocation.approve(answer.arguments, by=answer.by)
    elif isinstance(answer, Deny):
        invocation.deny(answer.message, by=answer.by)
    else:
        raise TypeError(
            f"on_approval answers True, False, None, Approve(...) or Deny(...), not {type(answer).__name__}"
        )


def log_question(logger: Any, invocation: ToolInvocation, *, is_anybody_told: bool) -> None:
    """A line for a call that waits for a person; a warning, if whoever made the engine has given nobody to ask."""
    spec = invocation.spec
    seconds = None if spec is None else spec.approval_timeout
    facts = {"tool": invocation.tool_name, "call_id": invocation.id, "uid": invocation.uid, "approval_timeout": seconds}
    if is_anybody_told:
        logger.info("tool call waits for approval", **facts)
    else:
        logger.warning(
            "tool call waits for approval, and nobody is asked: give ToolEngine(on_approval=...), or call approve() or "
            "deny() on the invocation",
            **facts,
        )


def log_decision(logger: Any, invocation: ToolInvocation, seconds: float) -> None:
    """A line for what was decided on a call: who, and the names of what was changed."""
    approval = invocation.approval
    decision = None if approval is None else approval.decision
    assert approval is not None, "somebody was asked"
    assert decision is not None, "something was decided"
    logger.info(
        "approval decided",
        tool=invocation.tool_name,
        call_id=invocation.id,
        uid=invocation.uid,
        verdict=decision.verdict.value,
        by=decision.by,
        at=decision.at,
        changed=list(approval.changed),
        waited_s=round(seconds, 3),
    )


def _copy(value: Any) -> Any:
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001 # too deep, or it holds what cannot be copied: the check says what is wrong with it
        return value


def _is_same(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> bool:
    if (name in before) != (name in after):
        return False
    return canonical_json(before[name]) == canonical_json(after[name])
