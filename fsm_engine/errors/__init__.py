"""What can go wrong: the exceptions of the engine, the codes of a response, and how an exception gets its code.

The exceptions::

    Exception
    └── FsmEngineError                 root of all
        ├── ConfigurationError         a wrong set-up, refused when it is made (also a ValueError)
        │   ├── LifecycleError         an unsound lifecycle
        │   ├── SchemaError            a schema that is wrong, or that cannot be checked safely
        │   └── RegistrationError      a tool that cannot be registered
        ├── TransitionRefusedError     no row of the lifecycle allows the trigger; nothing has changed
        ├── ReentrantTransitionError   a trigger was fired while another one was being fired
        ├── EngineClosedError          the engine takes no more calls
        └── ToolError                  raised by a tool on purpose, with a code
"""

from .codes import CodeFacts, Effect, ErrorCategory, ToolErrorCode, code_facts
from .exceptions import (
    Classified,
    ConfigurationError,
    EngineClosedError,
    FsmEngineError,
    LifecycleError,
    ReentrantTransitionError,
    RegistrationError,
    SchemaError,
    ToolError,
    TransitionRefusedError,
    classify,
)
from .issue import Issue

__all__ = [
    "Classified",
    "CodeFacts",
    "ConfigurationError",
    "Effect",
    "EngineClosedError",
    "ErrorCategory",
    "FsmEngineError",
    "Issue",
    "LifecycleError",
    "ReentrantTransitionError",
    "RegistrationError",
    "SchemaError",
    "ToolError",
    "ToolErrorCode",
    "TransitionRefusedError",
    "classify",
    "code_facts",
]
