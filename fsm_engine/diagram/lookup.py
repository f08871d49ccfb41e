"""Lifecycles by their names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ..errors.exceptions import ConfigurationError
from ..machine.lifecycle import Lifecycle
from ..states.circuit import CIRCUIT
from ..states.invocation import INVOCATION

BUILT_IN: Final[Mapping[str, Lifecycle]] = MappingProxyType({each.name: each for each in (INVOCATION, CIRCUIT)})
"""The lifecycles that are drawn and checked unless others are named, by their names."""


def find_lifecycle(target: str) -> Lifecycle:
    """The lifecycle of a name, or of `module:name`; modules of the current folder are found, as `python -m` finds them.

    Raises:
        ConfigurationError: there is none; or it is unsound, which its module says when it is imported.

    Example:
        >>> find_lifecycle("circuit").initial
        'CLOSED'
    """
    if target in BUILT_IN:
        return BUILT_IN[target]
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise ConfigurationError(f"there is no lifecycle {target!r}; name one of {', '.join(BUILT_IN)}, or module:name")
    sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise ConfigurationError(str(error)) from error
    finally:
        sys.path.remove("")
    if not isinstance(found, Lifecycle):
        raise ConfigurationError(f"{name} of the module {module} is no Lifecycle")
    return found
