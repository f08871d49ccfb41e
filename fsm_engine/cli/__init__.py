"""The command `fsm-engine` (extra `cli`)."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; without the packages that it needs, say how to get them."""
    try:
        from .app import app
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.stderr.write(
            "fsm-engine needs packages that are not installed: install this package with its extra `cli`\n"
        )
        sys.exit(2)
    app(prog_name="fsm-engine")
