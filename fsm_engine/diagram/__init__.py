"""Pictures of lifecycles and of the ways that invocations took through them.

DOT, Mermaid and Markdown are text and need nothing; SVG and PNG need the extra `diagrams`, which brings Graphviz along.

Example:
    >>> from fsm_engine import INVOCATION
    >>> from fsm_engine.diagram import to_mermaid
    >>> print(to_mermaid(INVOCATION).splitlines()[3])
    stateDiagram-v2
"""

from .diagrams import (
    FORMATS,
    Diagram,
    invocation_diagram,
    lifecycle_diagram,
    to_dot,
    to_mermaid,
    to_png,
    to_svg,
    to_table,
)
from .folder import check_all, render_all
from .lookup import BUILT_IN, find_lifecycle
from .trace import trace_of

__all__ = [
    "BUILT_IN",
    "FORMATS",
    "Diagram",
    "check_all",
    "find_lifecycle",
    "invocation_diagram",
    "lifecycle_diagram",
    "render_all",
    "to_dot",
    "to_mermaid",
    "to_png",
    "to_svg",
    "to_table",
    "trace_of",
]
