"""Executes the tool calls of language-model agents as an explicit finite-state machine.

Begin with `ToolEngine` and `tool`; `Lifecycle` is for those who extend the machine.
"""

from . import _annotations as _annotations
from .agent import Agent, AgentRun
from .alerts import Alert, AlertKind
from .approval import Approval, Approve, Decision, Deny, Verdict
from .arguments import Parsed
from .attempt import Attempt
from .breaker import CircuitBreaker
from .breaker_policy import BreakerPolicy
from .call_group import Ending, RunEnd
from .calls import ToolCall
from .clock import Clock, SystemClock, VirtualClock
from .context import ToolContext
from .engine import ToolEngine
from .errors import (
    ConfigurationError,
    Effect,
    EngineClosedError,
    ErrorCategory,
    FsmEngineError,
    LifecycleError,
    ReentrantTransitionError,
    RegistrationError,
    SchemaError,
    ToolError,
    ToolErrorCode,
    TransitionRefusedError,
)
from .events import (
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
from .fallback import FallbackPolicy
from .health import HealthReport, HealthStatus, ToolHealth
from .hooking import gate, named, on_enter, on_exit, on_transition
from .invocation import HistoryEntry, ToolInvocation
from .lifecycle import ANY_UNFINISHED, Lifecycle, Row, State
from .live_run import LiveRun, RunFailedError
from .machine import Firing, LifecycleMachine
from .oversight import Activity
from .policies import RetryPolicy
from .providers.openai_model import OpenAIModel
from .rate import RateLimit
from .registry import ToolRegistry
from .response import ErrorInfo, Issue, ToolResponse, ToolStatus
from .run import CallStream
from .run_log import ReaderDroppedError, RunLog
from .run_store import RunStore, StoredRun, TooManyRunsError
from .runtime import ThreadUse
from .spec import ToolSpec, tool
from .stages import Stages
from .states.circuit import CIRCUIT, CircuitState
from .states.invocation import INVOCATION, ToolState
from .validators import Invalid

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
