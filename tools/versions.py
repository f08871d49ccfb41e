"""Run the tests on every supported version of CPython but the one that the other checks use.

    python tools/versions.py [TEST PATHS...]

A version that is not there is fetched with uv, pyenv or apt, whichever the machine has; where none of them can, the run
fails, since a version that nobody tests is not supported. Each has an environment of its own in `.versions`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / ".versions"
LEFT_OUT = ("tests/browser",)  # drives the page, not the library


def main(paths: Sequence[str]) -> int:
    """The exit status: 0 if the tests pass on every version."""
    failed = [version for version in wanted() if not _passes(version, paths)]
    if failed:
        print(f"FAIL on CPython {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


def wanted() -> list[str]:
    """The versions that the package says it supports, without the one that runs this."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [line.removeprefix("Programming Language :: Python :: ") for line in project["classifiers"]]
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return [version for version in named if version.startswith("3.") and version != own]


def _passes(version: str, paths: Sequence[str]) -> bool:
    print(f"==> CPython {version}", flush=True)
    python = _environment(version)
    if python is None:
        print(
            f"CPython {version} is not here and could not be fetched: install it so that python{version} runs, or install "
            "uv, which can fetch it",
            file=sys.stderr,
        )
        return False
    command = [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    ignored = [f"--ignore={folder}" for folder in LEFT_OUT]
    return subprocess.run([*command, *ignored, *paths], cwd=ROOT, check=False).returncode == 0


def _environment(version: str) -> Path | None:
    """The interpreter of an environment with the package and what its tests need; `None`: there is no such version."""
    folder = HERE / version
    python, stamp = folder / "bin" / "python", folder / ".ready"
    declared = ROOT / "pyproject.toml"
    if stamp.exists() and stamp.stat().st_mtime >= declared.stat().st_mtime and _runs(python, version):
        return python
    base = _find(version) or _fetch(version)
    if base is None:
        return None
    for command in _setting_up(base, folder, python):
        subprocess.run([*map(str, command)], cwd=ROOT, check=True)
    stamp.touch()
    return python


def _setting_up(base: Path, folder: Path, python: Path) -> Iterator[Sequence[Path | str]]:
    if uv := shutil.which("uv"):  # takes seconds where pip takes a minute
        yield uv, "venv", "--quiet", "--clear", "--python", base, folder
        yield uv, "pip", "install", "--quiet", "--python", python, "--editable", ".[dev]"
    else:
        yield base, "-m", "venv", "--clear", folder
        yield python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable", ".[dev]"


def _find(version: str) -> Path | None:
    return next((python for python in _candidates(version) if _runs(python, version)), None)


def _candidates(version: str) -> Iterator[Path]:
    for folder in os.get_exec_path():
        yield Path(folder, f"python{version}")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
    if uv := shutil.which("uv"):
        found = subprocess.run([uv, "python", "find", version], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            yield Path(found.stdout.strip())


def _runs(python: Path, version: str) -> bool:
    """It is that version, and can make environments; a shim of pyenv may be there and lead nowhere."""
    if not python.exists():
        return False
    script = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    said = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False)
    return said.returncode == 0 and said.stdout.strip() == version


def _fetch(version: str) -> Path | None:
    for command in _fetchers(version):
        if shutil.which(command[0]) and subprocess.run(command, check=False).returncode == 0:
            found = _find(version)
            if found is not None:
                return found
    return None


def _fetchers(version: str) -> Iterator[list[str]]:
    yield ["uv", "python", "install", version]
    yield ["pyenv", "install", "--skip-existing", version]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        yield ["apt-get", "install", "--yes", "--quiet", f"python{version}", f"python{version}-venv"]
    yield [sys.executable, "-m", "pip", "install", "--quiet", "uv"]
    yield [str(Path(sys.executable).with_name("uv")), "python", "install", version]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
