"""The rules of the house: what the layout, the imports and the packaging promise."""

from __future__ import annotations

import ast
import graphlib
import importlib.metadata
import io
import itertools
import os
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import fsm_engine

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGE_FOLDERS = {"fsm_engine": "fsm_engine", "fsm_engine.states": "states", "fsm_engine.hooks": "hooks"}

# Programs around the engine; what they need may be an extra.
RIM = frozenset({"cli", "demo", "server", "testing", "__main__"})
TRANSITIONS_IMPORTERS = frozenset({"machine"})


@dataclass(frozen=True)
class Import:
    """One imported module, by its full name, and whether it is imported as soon as the importing module is."""

    target: str
    line: int
    at_import: bool
    for_types: bool = False


def module_files() -> dict[str, Path]:
    """Return every module of the package by its full name; states and hooks are found at their real place."""
    modules = {}
    for package, folder in PACKAGE_FOLDERS.items():
        for file in sorted((ROOT / folder).rglob("*.py")):  # rglob does not follow the two links
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            modules[".".join((package, *parts)).removesuffix(".__init__")] = file
    return modules


MODULES = module_files()


def imports_of(module: str) -> Iterator[Import]:
    """Yield what a module imports, wherever in its text; names for type checkers alone are not imported at import."""
    file = MODULES[module]
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]

    def walk(node: ast.AST, at_import: bool, for_types: bool = False) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, at_import, for_types) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield Import(inner if inner in MODULES else base, node.lineno, at_import, for_types)
        for child in ast.iter_child_nodes(node):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and child in node.body
            yield from walk(child, at_import and not is_function and not is_for_types, for_types or is_for_types)

    yield from walk(ast.parse(file.read_text(encoding="utf-8")), at_import=True)


IMPORTS = {module: tuple(imports_of(module)) for module in MODULES}


def is_ours(target: str) -> bool:
    return target.partition(".")[0] == "fsm_engine"


def room(module: str) -> str:
    """Return the module or folder directly inside the package; the package itself is ''."""
    return ".".join(module.split(".")[1:2])


def place(module: str, line: int) -> str:
    return f"{MODULES[module].relative_to(ROOT)}:{line}"


def text_files() -> Iterator[tuple[str, str]]:
    """Yield path and text of every file of the checkout that is not made by a tool."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [
            name
            for name in folders
            if (not name.startswith(".") or name == ".ci")
            and name not in {"__pycache__", "build", "dist", "htmlcov", "node_modules"}
            and not name.endswith(".egg-info")
        ]
        for name in set(files) - {".git"}:  # a file in a work tree of its own, which names the other one
            file = Path(folder, name)
            data = file.read_bytes()
            if b"\0" not in data and not name.startswith(".coverage"):
                yield file.relative_to(ROOT).as_posix(), data.decode(errors="replace")


def distribution(requirement: str) -> str:
    """Return a requirement's name in the form that all spellings of it share."""
    match = re.match(r"[\w.-]+", requirement)
    assert match, requirement
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def required(extra: str | None = None) -> set[str]:
    project = PROJECT["project"]
    listed = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    return {distribution(requirement) for requirement in listed} - {"fsm-engine"}


CORE = required()
EXTRAS = {name: required(name) for name in PROJECT["project"]["optional-dependencies"] if name not in {"all", "dev"}}
OPTIONAL = set().union(*EXTRAS.values())
DISTRIBUTIONS = importlib.metadata.packages_distributions()


def third_party(module: str) -> Iterator[tuple[Import, str]]:
    """Yield a module's imports from other distributions, each with the distribution's name."""
    for found in IMPORTS[module]:
        top = found.target.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in {"fsm_engine", "__future__"}:
            yield found, distribution(DISTRIBUTIONS.get(top, [top])[0])


def test_packages_of_the_wheel_are_the_folders_of_the_tree() -> None:
    listed = PROJECT["tool"]["setuptools"]["packages"]
    folders = {module for module, file in MODULES.items() if file.name == "__init__.py"}
    assert set(listed) == folders
    assert len(listed) == len(folders)


def test_every_folder_with_modules_is_a_package() -> None:
    bare = {file.parent for file in MODULES.values() if not (file.parent / "__init__.py").exists()}
    assert not bare


@pytest.mark.parametrize("name", ["states", "hooks"])
def test_top_folder_and_sub_package_are_one(name: str) -> None:
    assert (ROOT / "fsm_engine" / name).readlink() == Path("..", name)
    assert PROJECT["tool"]["setuptools"]["package-dir"][f"fsm_engine.{name}"] == name


def test_no_module_imports_itself_by_a_detour() -> None:
    graph = {
        module: {found.target for found in IMPORTS[module] if is_ours(found.target) and found.at_import}
        for module in MODULES
        if room(module) != ""
    }
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


def test_states_and_hooks_import_relatively() -> None:
    """An absolute import there would make a second copy of the enums as soon as someone writes `import states`."""
    absolute = [
        place(module, node.lineno)
        for module, file in MODULES.items()
        if room(module) in {"states", "hooks"}
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and not node.level and is_ours(node.module or ""))
        or (isinstance(node, ast.Import) and any(is_ours(alias.name) for alias in node.names))
    ]
    assert not absolute


def test_only_the_machine_and_the_diagram_know_transitions() -> None:
    importers = {room(module) for module in MODULES for _, name in third_party(module) if name == "transitions"}
    assert importers <= TRANSITIONS_IMPORTERS


def test_only_the_clock_reads_the_time() -> None:
    """Everything else is handed a clock, so that tests need not wait; `asyncio.sleep(0)` merely gives way."""
    banned = {"time.sleep", "time.time", "time.monotonic", "asyncio.sleep", "datetime.now", "datetime.utcnow"}
    found = [
        f"{place(module, node.lineno)} calls {ast.unparse(node)}"
        for module, file in MODULES.items()
        if room(module) not in RIM | {"clock"}
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in banned and ast.unparse(node) != "asyncio.sleep(0)"
    ]
    assert not found


def test_every_import_is_declared() -> None:
    undeclared = [
        f"{place(module, found.line)} imports {found.target} of {name}"
        for module in MODULES
        for found, name in third_party(module)
        if name not in CORE | (OPTIONAL if room(module) in RIM or not found.at_import else set())
    ]
    assert not undeclared


def test_every_requirement_is_imported() -> None:
    used = {name for module in MODULES for _, name in third_party(module)}
    assert used >= CORE | OPTIONAL


def test_every_extra_is_part_of_all() -> None:
    [everything] = PROJECT["project"]["optional-dependencies"]["all"]
    assert everything == f"fsm-engine[{','.join(sorted(EXTRAS))}]"


def test_package_works_without_optional_dependencies() -> None:
    """`import fsm_engine` succeeds where no extra is installed."""
    blocked = {top for top, names in DISTRIBUTIONS.items() if distribution(names[0]) in OPTIONAL - CORE}
    assert blocked
    script = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({sorted(blocked)!r}))\n"  # None there makes an import fail
        "import fsm_engine\n"
        "for name in fsm_engine.__all__: getattr(fsm_engine, name)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("module", "extra", "missing"),
    [
        ("fsm_engine.server", "server", "fastapi"),
        ("fsm_engine.server", "server", "sse_starlette"),
        ("fsm_engine.testing.stateful", "testing", "hypothesis"),
        ("fsm_engine.testing.strategies", "testing", "hypothesis"),
    ],
)
def test_a_part_without_its_packages_names_the_extra(module: str, extra: str, missing: str) -> None:
    script = f"import sys; sys.modules[{missing!r}] = None; import {module}"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ModuleNotFoundError: {module} needs {missing}"), done.stderr
    assert f"with its extra `{extra}`" in last


@pytest.mark.parametrize("module", [name for name, file in MODULES.items() if file.name == "__init__.py"])
def test_every_name_of_a_package_is_listed(module: str) -> None:
    """`__all__` holds exactly the public names that the package's text binds; ruff's RUF022 keeps it sorted."""
    bound: set[str] = set()
    listed: list[str] = []
    body = ast.parse(MODULES[module].read_text(encoding="utf-8")).body
    for node in itertools.chain.from_iterable(each.body if isinstance(each, ast.With) else [each] for each in body):
        if isinstance(node, ast.ImportFrom) and node.level and node.module == "errors.missing_extra":
            continue  # used here alone
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            bound |= {alias.asname or alias.name for alias in node.names if node.level or alias.asname == alias.name}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            listed = ast.literal_eval(node.value)
    public = {name for name in bound if not name.startswith("_")}
    assert len(listed) == len(set(listed))
    assert {name for name in listed if not name.startswith("__")} == public


def test_no_test_is_named_after_an_address(request: pytest.FixtureRequest) -> None:
    """Processes that share the tests between them compare the names, which must be the same in each."""
    named = [item.nodeid for item in request.session.items if re.search(r" at 0x[0-9a-f]+", item.nodeid)]
    assert not named, "give the case a name by `ids`"


def test_version_has_one_source() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "fsm_engine.__version__"}
    literal = f'"{fsm_engine.__version__}"'
    holders = {module for module, file in MODULES.items() if literal in file.read_text(encoding="utf-8")}
    assert holders == {"fsm_engine"}


def test_no_file_names_a_folder_of_one_machine() -> None:
    folders = [f"/{name}/" for name in ("root", "work")]
    named = [f"{path}: {folder}" for path, text in text_files() for folder in folders if folder in text]
    assert not named


MARKER = re.compile(
    r"type: ignore(?P<types>\[[\w, -]+\])?|pyright: ignore(?P<pyright>\[[\w, -]+\])?"
    r"|noqa(?P<noqa>: ?[A-Z]+\d+(?:[, ]+[A-Z]+\d+)*)?|pragma: no (?:cover|branch)"
)


def test_every_ignored_check_names_its_rule_and_its_reason() -> None:
    bare = []
    for path, text in text_files():
        if not path.endswith(".py"):
            continue
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type != tokenize.COMMENT or not (markers := list(MARKER.finditer(token.string))):
                continue
            ruled = all(marker.lastgroup or marker[0].startswith("pragma") for marker in markers)
            if not ruled or len(re.findall(r"\w+", MARKER.sub("", token.string))) < 2:
                bare.append(f"{path}:{token.start[0]}: {token.string}")
    assert not bare
