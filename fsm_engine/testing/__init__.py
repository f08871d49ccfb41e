"""What tests of tools and lifecycles need: the fixtures are in the pytest plugin, the rest is imported from here.

The extra `testing` brings pytest and Hypothesis along; the plugin registers itself. `strategies` and `stateful` need
Hypothesis and are imported by name.
"""

from ..errors.missing_extra import needed_by

with needed_by("fsm_engine.testing", "testing"):
    from .cases import Refusal, every_refusal, every_row, walks
    from .clock import PacedClock
    from .event_log import EventLog
    from .paths import assert_path
    from .rehearsal import Rehearsal
    from .script import Action, Delays, Emits, Hangs, Raises, Reports, Returns, ScriptedTool, scripted
    from .tables import assert_table

__all__ = [
    "Action",
    "Delays",
    "Emits",
    "EventLog",
    "Hangs",
    "PacedClock",
    "Raises",
    "Refusal",
    "Rehearsal",
    "Reports",
    "Returns",
    "ScriptedTool",
    "assert_path",
    "assert_table",
    "every_refusal",
    "every_row",
    "scripted",
    "walks",
]
