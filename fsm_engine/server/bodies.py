"""The bodies of requests and answers; OpenAPI describes them from here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..breaker.circuit_breaker import CircuitBreaker
from ..engine.health import HealthReport
from ..machine.lifecycle import Lifecycle
from ..tools.spec import ToolSpec


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Said(BaseModel):
    """A part of a conversation. What a provider puts beside it is kept as it came, since the provider wants it back."""

    model_config = ConfigDict(extra="allow")


class FunctionCall(_Said):
    """What an earlier call asked for, in the form of OpenAI's chat completions."""

    name: str
    arguments: str


class EarlierCall(_Said):
    """A tool call of an earlier assistant message; one of another type than `function` says in its own fields what for."""

    id: str
    type: str = "function"
    function: FunctionCall | None = None

    @model_validator(mode="after")
    def _check_function(self) -> EarlierCall:
        if self.type == "function" and self.function is None:
            raise ValueError("a call of the type function has a function")
        return self


Content = str | list[dict[str, Any]]


class UserMessage(_Said):
    """What the person said, as text or as parts (`{"type": "text", ...}`, `{"type": "image_url", ...}`)."""

    role: Literal["user"]
    content: Content


class AssistantMessage(_Said):
    """What the model said earlier."""

    role: Literal["assistant"]
    content: Content | None = None
    tool_calls: list[EarlierCall] | None = None


class ToolMessage(_Said):
    """What a tool answered earlier."""

    role: Literal["tool"]
    tool_call_id: str
    content: Content


Message = Annotated[UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


class ChatRequest(_Asked):
    """A conversation to answer. What the model is told about its task is the server's affair: no system messages."""

    messages: list[Message] = Field(min_length=1, max_length=1_000)
    cancel_on_disconnect: bool = Field(
        default=False, description="Cancel the run when this reader goes away; else it goes on and can be read again."
    )

    def plain_messages(self) -> list[dict[str, Any]]:
        """The messages as the model is sent them: as they came, and each call with its type."""
        plain = [message.model_dump(exclude_unset=True) for message in self.messages]
        for message in plain:
            for call in message.get("tool_calls") or ():
                call.setdefault("type", "function")
        return plain


class Approval(_Asked):
    """Agreement to a call."""

    arguments: dict[str, Any] | None = Field(
        default=None, description="Run it with these instead; they are checked like the model's."
    )


class Edit(_Asked):
    """Arguments that somebody thinks of approving a call with."""

    arguments: dict[str, Any] = Field(default_factory=dict, description="As for an approval.")


class Checked(BaseModel):
    """What the call would run with: defaults filled in, hidden values masked."""

    arguments_json: str = Field(description="JSON text, with escapes for all that cannot be seen")


class Reason(_Asked):
    """A refusal or a cancellation."""

    reason: str = Field(default="", max_length=1_000, description="Why; the model is told.")


class CallState(BaseModel):
    """Where a call is."""

    uid: str
    id: str
    tool: str
    state: str


class RunState(BaseModel):
    """Where a run is."""

    run_id: str
    is_over: bool


class ToolInfo(BaseModel):
    """A tool as a person reads of it."""

    name: str
    description: str
    version: str
    parameters: dict[str, Any] = Field(description="JSON Schema")
    read_only: bool
    destructive: bool
    idempotent: bool
    needs_approval: Literal["always", "sometimes", "never"]
    timeout: float | None = Field(description="seconds for each attempt")
    tags: list[str]

    @classmethod
    def of(cls, spec: ToolSpec) -> ToolInfo:
        """What there is to say of a tool."""
        asks = spec.needs_approval
        return cls(
            name=spec.name,
            description=spec.description,
            version=spec.version,
            parameters=dict(spec.parameters),
            read_only=spec.read_only,
            destructive=spec.destructive,
            idempotent=spec.idempotent,
            needs_approval="sometimes" if callable(asks) else "always" if asks else "never",
            timeout=spec.timeout,
            tags=list(spec.tags),
        )


class Tools(BaseModel):
    """All tools, in the order of registration."""

    tools: list[ToolInfo]


class ToolHealthInfo(BaseModel):
    """How one tool is."""

    tool: str
    version: str
    status: Literal["healthy", "failing", "skipped"]
    latency_ms: float | None
    message: str
    code: str | None
    circuit: str | None


class Health(BaseModel):
    """How the server and its tools are. A tool that is not well is no reason to restart the server."""

    status: Literal["healthy", "degraded"]
    runs: int
    readers: int
    tools: list[ToolHealthInfo]

    @classmethod
    def of(cls, report: HealthReport, runs: int, readers: int) -> Health:
        """The report in this form."""
        tools = [
            ToolHealthInfo(
                tool=tool.tool,
                version=tool.version,
                status=tool.status.value,
                latency_ms=tool.latency_ms,
                message=tool.message,
                code=tool.code,
                circuit=tool.circuit,
            )
            for tool in report.tools
        ]
        return cls(status="healthy" if report.is_healthy else "degraded", runs=runs, readers=readers, tools=tools)


class CircuitInfo(BaseModel):
    """A circuit breaker."""

    scope: str = Field(description="name@version of the tool, or the name of the group that shares it")
    state: str
    failure_rate: float | None = Field(description="per cent; null while too few calls are known")
    slow_call_rate: float | None = Field(description="likewise")
    buffered: int = Field(description="calls in the window")
    failed: int = Field(description="those of them that failed")
    slow: int = Field(description="those of them that were slow")
    refused: int = Field(description="calls refused so far")
    retry_after: float | None = Field(description="seconds until calls are tried again; null: not open, or not known")

    @classmethod
    def of(cls, scope: str, breaker: CircuitBreaker) -> CircuitInfo:
        """What it has counted by now."""
        metrics = breaker.metrics()
        wait = breaker.retry_after if breaker.is_open else None
        return cls(
            scope=scope,
            state=str(metrics.state),
            failure_rate=None if metrics.failure_rate < 0 else metrics.failure_rate,
            slow_call_rate=None if metrics.slow_call_rate < 0 else metrics.slow_call_rate,
            buffered=metrics.buffered,
            failed=metrics.failed,
            slow=metrics.slow,
            refused=metrics.refused,
            retry_after=wait,
        )


class Circuits(BaseModel):
    """All circuit breakers that have been used."""

    circuits: list[CircuitInfo]


class StateInfo(BaseModel):
    """A state of a lifecycle."""

    name: str
    final: bool
    doc: str


class RowInfo(BaseModel):
    """A row of a lifecycle; the source `*` is any state that is not final."""

    source: str
    trigger: str
    dest: str
    guard: str | None


class LifecycleInfo(BaseModel):
    """A lifecycle as data."""

    name: str
    doc: str
    initial: str
    states: list[StateInfo]
    rows: list[RowInfo]

    @classmethod
    def of(cls, lifecycle: Lifecycle) -> LifecycleInfo:
        """The declaration in this form."""
        return cls(
            name=lifecycle.name,
            doc=lifecycle.doc,
            initial=lifecycle.initial,
            states=[StateInfo(name=each.name, final=each.final, doc=each.doc) for each in lifecycle.states],
            rows=[
                RowInfo(source=each.source, trigger=each.trigger, dest=each.dest, guard=each.guard)
                for each in lifecycle.rows
            ],
        )


class Lifecycles(BaseModel):
    """The lifecycle of invocations first, then that of circuits."""

    lifecycles: list[LifecycleInfo]


class Refusal(BaseModel):
    """Why a request was refused, in words that say what to do instead."""

    detail: str
    issues: list[dict[str, Any]] | None = Field(
        default=None,
        description="of arguments: each failed check with its `path`, `rule`, `message` and what is `allowed`",
    )
