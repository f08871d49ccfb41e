"""Executes the tool calls of language-model agents as an explicit finite-state machine.

Begin with `ToolEngine` and `tool`; `Lifecycle` is for those who extend the machine.
"""

from . import _annotations as _annotations
from .agent.agent import Agent, AgentRun
from .agent.run import LiveRun, RunFailedError
from .agent.store import RunStore, StoredRun, TooManyRunsError
from .breaker.circuit_breaker import CircuitBreaker
from .breaker.policy import BreakerPolicy
from .clock import Clock, SystemClock, VirtualClock
from .engine.alerts import Alert, AlertKind
from .engine.call_group import Ending, RunEnd
from .engine.engine import ToolEngine
from .engine.health import HealthReport, HealthStatus, ToolHealth
from .engine.oversight import Activity
from .engine.runtimes import ThreadUse
from .engine.stream import CallStream
from .errors.codes import Effect, ErrorCategory, ToolErrorCode
from .errors.exceptions import (
    ConfigurationError,
    EngineClosedError,
    FsmEngineError,
    LifecycleError,
    ReentrantTransitionError,
    RegistrationError,
    SchemaError,
    ToolError,
    TransitionRefusedError,
)
from .errors.issue import Issue
from .events.log import ReaderDroppedError, RunLog
from .events.types import (
    Event,
    FinalAnswerEvent,
    GapEvent,
    RunEndedEvent,
    ThinkingEvent,
    ToolArgumentsEvent,
    ToolCallEvent,
    ToolErrorEvent,
    ToolEvent,
    ToolExecutionEvent,
    ToolFallbackEvent,
    ToolResultEvent,
)
from .hooks.specs import gate, named, on_enter, on_exit, on_transition
from .invocation.approval import Approval, Approve, Decision, Deny, Verdict
from .invocation.arguments import Parsed
from .invocation.attempt import Attempt
from .invocation.invocation import HistoryEntry, ToolInvocation
from .invocation.stages import Stages
from .invocation.substitute import FallbackPolicy
from .machine.checks import ANY_UNFINISHED
from .machine.lifecycle import Lifecycle, Row, State
from .machine.machine import Firing, LifecycleMachine
from .providers.openai_model import OpenAIModel
from .response.error_info import ErrorInfo
from .response.tool_response import ToolResponse, ToolStatus
from .schema.answers import Invalid
from .states.circuit import CIRCUIT, CircuitState
from .states.invocation import INVOCATION, ToolState
from .tools.call import ToolCall
from .tools.context import ToolContext
from .tools.rate import RateLimit
from .tools.registry import ToolRegistry
from .tools.retry import RetryPolicy
from .tools.spec import ToolSpec, tool

__version__ = "0.1.0"

__all__ = [
    "ANY_UNFINISHED",
    "CIRCUIT",
    "INVOCATION",
    "Activity",
    "Agent",
    "AgentRun",
    "Alert",
    "AlertKind",
    "Approval",
    "Approve",
    "Attempt",
    "BreakerPolicy",
    "CallStream",
    "CircuitBreaker",
    "CircuitState",
    "Clock",
    "ConfigurationError",
    "Decision",
    "Deny",
    "Effect",
    "Ending",
    "EngineClosedError",
    "ErrorCategory",
    "ErrorInfo",
    "Event",
    "FallbackPolicy",
    "FinalAnswerEvent",
    "Firing",
    "FsmEngineError",
    "GapEvent",
    "HealthReport",
    "HealthStatus",
    "HistoryEntry",
    "Invalid",
    "Issue",
    "Lifecycle",
    "LifecycleError",
    "LifecycleMachine",
    "LiveRun",
    "OpenAIModel",
    "Parsed",
    "RateLimit",
    "ReaderDroppedError",
    "ReentrantTransitionError",
    "RegistrationError",
    "RetryPolicy",
    "Row",
    "RunEnd",
    "RunEndedEvent",
    "RunFailedError",
    "RunLog",
    "RunStore",
    "SchemaError",
    "Stages",
    "State",
    "StoredRun",
    "SystemClock",
    "ThinkingEvent",
    "ThreadUse",
    "TooManyRunsError",
    "ToolArgumentsEvent",
    "ToolCall",
    "ToolCallEvent",
    "ToolContext",
    "ToolEngine",
    "ToolError",
    "ToolErrorCode",
    "ToolErrorEvent",
    "ToolEvent",
    "ToolExecutionEvent",
    "ToolFallbackEvent",
    "ToolHealth",
    "ToolInvocation",
    "ToolRegistry",
    "ToolResponse",
    "ToolResultEvent",
    "ToolSpec",
    "ToolState",
    "ToolStatus",
    "TransitionRefusedError",
    "Verdict",
    "VirtualClock",
    "gate",
    "named",
    "on_enter",
    "on_exit",
    "on_transition",
    "tool",
]
