"""Changes the code, one expression or statement at a time, and counts how many changes some test notices.

A sample of the changes is drawn, the same every time; `--all` takes every one (hours). mutmut is not used: it copies the
package, and `states` and `hooks` are in the package through links.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from _forks import ROOT, Mutant, Verdict, judge

_BREAKER = (
    "tests/test_breaker.py",
    "tests/states/test_circuit.py",
    "tests/test_breaker_rules.py",
    "tests/test_breaker_edges.py",
)
_BREAKER_ALL = (*_BREAKER, "tests/test_breaker_policy.py", "tests/test_breaker_golden.py")
_ENGINE = ("tests/test_activities.py", "tests/test_acceptance.py", "tests/test_engine.py")

_DRIVEN = ("tests/test_small_promises.py", *_ENGINE)

TESTS: dict[str, tuple[str, ...]] = {
    "states/invocation.py": ("tests/states/test_invocation.py", *_ENGINE),
    "states/circuit.py": _BREAKER,
    "fsm_engine/machine/lifecycle.py": (
        "tests/test_lifecycle.py",
        "tests/test_machine.py",
        "tests/test_soundness.py",
        "tests/test_diagram.py",
    ),
    "fsm_engine/machine/machine.py": (
        "tests/test_machine.py",
        "tests/test_machine_differential.py",
        "tests/states/test_invocation.py",
    ),
    "fsm_engine/response/tool_response.py": (
        "tests/test_response.py",
        "tests/test_fallback.py",
        "tests/test_acceptance.py",
    ),
    "fsm_engine/response/returned.py": ("tests/test_response.py", "tests/test_outcome.py", "tests/test_acceptance.py"),
    "fsm_engine/breaker/circuit_breaker.py": _BREAKER_ALL,
    "fsm_engine/breaker/circuit.py": _BREAKER_ALL,
    "fsm_engine/breaker/events.py": _BREAKER_ALL,
    "fsm_engine/breaker/permits.py": _BREAKER_ALL,
    "fsm_engine/breaker/policy.py": ("tests/test_breaker_policy.py", *_BREAKER_ALL),
    "fsm_engine/breaker/states.py": _BREAKER_ALL,
    "fsm_engine/breaker/window.py": ("tests/test_window.py", *_BREAKER_ALL),
    "fsm_engine/tools/retry.py": ("tests/test_policies.py", "tests/test_spec.py", *_ENGINE),
    "hooks/history.py": ("tests/hooks/test_history.py", *_DRIVEN),
    "hooks/lease.py": ("tests/hooks/test_lease.py", *_DRIVEN),
    "hooks/circuit.py": ("tests/test_admission.py", *_DRIVEN),
    "hooks/validation.py": ("tests/hooks/test_validation.py", "tests/test_approval.py", *_DRIVEN),
    "fsm_engine/engine/driver.py": ("tests/test_own_states.py", "tests/hooks/test_lease.py", *_DRIVEN),
    "fsm_engine/engine/oversight.py": ("tests/test_own_states.py", *_DRIVEN),
    "fsm_engine/engine/activities.py": ("tests/test_own_states.py", "tests/test_fallback.py", *_DRIVEN),
    "fsm_engine/invocation/stages.py": ("tests/test_stages.py", "tests/cases/test_argument_payloads.py", *_DRIVEN),
    "fsm_engine/invocation/arguments.py": ("tests/test_stages.py", "tests/cases/test_argument_payloads.py", *_DRIVEN),
    "fsm_engine/engine/admission.py": ("tests/test_admission.py", "tests/test_rate.py", *_DRIVEN),
}
"""The files that are changed, and the tests that should notice."""

THIRD_PARTY = ("anyio", "hypothesis.stateful", "jsonschema", "jsonschema_rs", "msgspec", "pybreaker", "pydantic")
THIRD_PARTY += (
    "pydantic_core",
    "pytest",
    "referencing",
    "structlog",
    "tenacity",
    "transitions",
    "typer",
    "rich.console",
)

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip  # pairs read better side by side


@dataclass(frozen=True)
class Change:
    """One change of a tree: the number of the node in `ast.walk`, which of its fields, and the new value."""

    node: int
    line: int
    words: str
    field: str
    value: Any
    index: int | None = None


def changes(tree: ast.Module) -> Iterator[Change]:
    """Every change that is tried. What only people or type checkers read is left alone, and so is every text."""
    skipped = set(_unread(tree))
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        line = getattr(node, "lineno", 0)
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                for index, item in enumerate(value):
                    for words, new in _changed(node, field, item, skipped):
                        yield Change(number, getattr(item, "lineno", line), words, field, new, index)
            else:
                for words, new in _changed(node, field, value, skipped):
                    yield Change(number, getattr(value, "lineno", line), words, field, new)


def _changed(node: ast.AST, field: str, value: Any, skipped: set[int]) -> Iterator[tuple[str, Any]]:
    """What may stand in a field instead."""
    if id(value) in skipped or not isinstance(value, ast.AST):
        return
    if type(value) in SWAPS and not _joins_texts(node):
        new = SWAPS[type(value)]()
        yield f"{type(value).__name__} -> {type(new).__name__} in {_short(node)}", new
    elif isinstance(value, ast.Constant) and isinstance(value.value, int | float):
        other = not value.value if isinstance(value.value, bool) else value.value + 1
        yield f"{value.value} -> {other} in {_short(node)}", ast.Constant(other)
    elif isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not):
        yield f"drop `not` of {_short(value)}", value.operand
    elif field == "test" and isinstance(value, ast.expr) and not isinstance(value, ast.Compare | ast.BoolOp):
        yield f"negate {_short(value)}", ast.UnaryOp(ast.Not(), value)
    elif isinstance(value, ast.Return) and value.value is not None and not _is_none(value.value):
        yield f"return None, not {_short(value.value)}", ast.Return(ast.Constant(None))
    elif isinstance(value, ast.Expr) and isinstance(value.value, ast.Call | ast.Await) and "_log" not in _short(value):
        yield f"drop {_short(value)}", ast.Pass()


def _unread(tree: ast.Module) -> Iterator[int]:
    """Annotations, decorators, `__all__`, type checking, assertions, messages of exceptions."""
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts = [node.returns, *node.decorator_list]
        elif isinstance(node, ast.arg | ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, ast.ClassDef):
            parts = [*node.decorator_list]
        elif _is_for_readers(node):
            parts = [node]
        for part in parts:
            if part is not None:
                yield from (id(each) for each in ast.walk(part))


def _is_for_readers(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.If(test=test):
            return "TYPE_CHECKING" in ast.unparse(test)
        case ast.Assign(targets=[target, *_]):
            return ast.unparse(target) in {"__all__", "__slots__"}
    return False


def _joins_texts(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return f"`{text if len(text) <= 90 else text[:87] + '...'}`"


def mutated(tree: ast.Module, change: Change) -> ast.Module:
    """A copy of the tree with the change in it."""
    changed = copy.deepcopy(tree)
    node = next(each for number, each in enumerate(ast.walk(changed)) if number == change.node)
    new = copy.deepcopy(change.value)
    if change.index is None:
        setattr(node, change.field, new)
    else:
        getattr(node, change.field)[change.index] = new
    return ast.fix_missing_locations(changed)


class _Changed(importlib.machinery.SourceFileLoader, importlib.abc.MetaPathFinder):
    """Finds one module, and gives it the changed code."""

    def __init__(self, name: str, file: Path, code: CodeType) -> None:
        super().__init__(name, str(file))
        self._code = code

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        return importlib.util.spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def get_code(self, fullname: str) -> CodeType:
        return self._code


def _install(file: Path, tree: ast.Module, change: Change) -> None:
    name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
    name = name if name.startswith("fsm_engine.") else f"fsm_engine.{name}"
    sys.meta_path.insert(0, _Changed(name, file, compile(mutated(tree, change), str(file), "exec")))
    importlib.import_module(name)


def mutants_of(path: str, share: float, chance: random.Random) -> list[Mutant]:
    """Changes of a file: a share of them, but ten at least."""
    file = ROOT / path
    tree = ast.parse(file.read_text(encoding="utf-8"))
    every = list(changes(tree))
    chosen = chance.sample(every, min(len(every), max(10, round(share * len(every)))))
    return [
        Mutant(path, f"line {change.line}: {change.words}", TESTS[path], partial(_install, file, tree, change))
        for change in sorted(chosen, key=lambda change: (change.line, change.words))
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--share", type=float, default=0.3, help="of the changes of each file")
    parser.add_argument("--all", action="store_true", help="take every change")
    parser.add_argument("--seed", type=int, default=4, help="of the sample")
    parser.add_argument("--wanted", type=float, default=90.0, help="per cent of all, or the exit status is 1")
    parser.add_argument("files", nargs="*", help="some of the files alone")
    options = parser.parse_args()
    for name in THIRD_PARTY:
        importlib.import_module(name)
    sys.path.insert(0, str(ROOT))
    paths = options.files or list(TESTS)
    for tests in dict.fromkeys(TESTS[path] for path in paths):
        for verdict in judge([Mutant("nothing", "nothing", tests, lambda: None)]):
            if verdict.caught_by:
                sys.exit(f"the tests of the unchanged code fail: {verdict.caught_by}")
    chance = random.Random(options.seed)
    chosen = [mutant for path in paths for mutant in mutants_of(path, 1.0 if options.all else options.share, chance)]
    began = time.monotonic()
    verdicts: list[Verdict] = []
    for verdict in judge(chosen, jobs=options.jobs):
        verdicts.append(verdict)
        if not verdict.caught_by:
            print(f"NOT NOTICED {verdict.mutant.place}, {verdict.mutant.change}", flush=True)
    return 0 if report(verdicts, time.monotonic() - began) >= options.wanted else 1


def report(verdicts: Sequence[Verdict], seconds: float) -> float:
    """Print the score of each file; answers that of all."""
    for place in dict.fromkeys(verdict.mutant.place for verdict in verdicts):
        print(_score(place, [verdict for verdict in verdicts if verdict.mutant.place == place]))
    print(_score("all", verdicts), f"in {seconds:.0f} s")
    return 100.0 * sum(bool(verdict.caught_by) for verdict in verdicts) / max(1, len(verdicts))


def _score(name: str, verdicts: Sequence[Verdict]) -> str:
    noticed = sum(bool(verdict.caught_by) for verdict in verdicts)
    return f"{name}: {noticed} of {len(verdicts)} changes noticed ({100.0 * noticed / max(1, len(verdicts)):.1f} %)"


if __name__ == "__main__":
    sys.exit(main())
