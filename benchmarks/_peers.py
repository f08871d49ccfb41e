"""Measures a tool call of other libraries, each in an environment of its own under `.bench/`.

`python benchmarks/_peers.py` prints the table. The first run downloads the libraries, newest versions first; `make clean`
makes the next run do so again. Figures are ratios to a floor measured in the same process (`peers/_harness.py`), which
hold from one machine to the next far better than times do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parent / ".bench"

# From the distribution's name to the script in peers/ that calls it.
PEERS = {
    "pydantic-ai-slim": "peer_pydantic_ai.py",
    "openai-agents": "peer_openai_agents.py",
    "fastmcp": "peer_fastmcp.py",
    "langchain-core": "peer_langchain.py",
    "llama-index-core": "peer_llama_index.py",
    "langgraph": "peer_langgraph.py",
}


@dataclass(frozen=True)
class PeerFigure:
    """What one tool call costs: `ratio` to the floor of the same process, and `microseconds` on this machine."""

    name: str
    version: str
    variant: str
    ratio: float
    microseconds: float


def environment(name: str) -> Path:
    """Return the interpreter of the peer's environment, which is made when it is missing."""
    folder = ENVIRONMENTS / name
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists():
        print(f"installing {name} into {folder.relative_to(HERE.parent)}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", name], check=True)
        ready.touch()
    return python


def measure_one(name: str) -> list[PeerFigure]:
    """Run the peer's script; its last line is the answer, since some peers write to standard output too."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LANGSMITH", "OTEL"))}
    command = [environment(name), HERE / "peers" / PEERS[name]]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{name} could not be measured:\n{done.stderr}")
    answer = json.loads(done.stdout.splitlines()[-1])
    return [PeerFigure(answer["name"], answer["version"], **figure) for figure in answer["figures"]]


def measure() -> list[PeerFigure]:
    """Measure every peer, one after the other."""
    return [figure for name in PEERS for figure in measure_one(name)]


def table(figures: Iterable[PeerFigure]) -> str:
    """Lay figures out as a Markdown table, the cheapest first."""
    lines = ["| library | version | what the call includes | times the floor | µs |", "|---|---|---|---:|---:|"]
    lines += [
        f"| {figure.name} | {figure.version} | {figure.variant} | {figure.ratio:.1f} | {figure.microseconds:.0f} |"
        for figure in sorted(figures, key=lambda figure: figure.ratio)
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(measure()))
