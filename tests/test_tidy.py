"""The house's limits, counted: sizes of modules and functions, names, paths of one machine.

A limit that is only written down erodes. An exception is listed here, with its reason. Each rule
is one test, which names all that break it.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULE_LINES_MAX = 400
MODULE_LINES_HARD_MAX = 2000
FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 7

# Between 400 and 2,000 lines: why the module is still one concept.
LONG_MODULES: dict[str, str] = {
    "pystreams/__init__.py": "every public name: where it is, for readers, for types",
    "pystreams/config/streams_config.py": "one class, one field a key; most of it is their text",
    "pystreams/topology/dsl/streams_and_tables.py": "classes that name each other, see ADR 7",
}
# Above 7 parameters: why they can't be grouped.
MANY_PARAMETERS: dict[str, str] = {
    "pystreams/backfill/execution/backfill.py:run": "a user's one call, by keyword",
    "pystreams/topology/graph/topology.py:add_read_only_state_store": "Kafka Streams' own",
}

# Names that say nothing about what is inside.
VAGUE_NAMES = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}

# Directories of one developer's machine. Spelled in parts, so that this file passes its own test.
MACHINE_PATHS = re.compile(
    "|".join(("/" + "work" + r"/\w", "/" + "root" + r"/\w", "/" + "Users" + r"/\w"))
)
TEXT_SUFFIXES = {
    "",
    ".cfg",
    ".java",
    ".json",
    ".md",
    ".py",
    ".sh",
    ".sha256",
    ".toml",
    ".txt",
    ".yaml",
    ".yml",
}
SKIPPED_DIRECTORIES = {
    "__pycache__",
    "build",
    "dist",
    "node_modules",
    "target",
}


def project_files() -> Iterator[Path]:
    """All files that a reader of the project sees, without the directories of tools."""
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = [
            name
            for name in subfolders
            if name not in SKIPPED_DIRECTORIES and (name == ".ci" or not name.startswith("."))
        ]
        yield from (Path(folder, name) for name in names if name != ".git")  # A worktree's file.


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def modules() -> dict[str, str]:
    """The texts of the library's modules."""
    paths = sorted((ROOT / "pystreams").rglob("*.py"))
    return {name_of(path): path.read_text("utf-8") for path in paths}


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in modules().items()}


def line_counts() -> dict[str, int]:
    return {name: len(text.splitlines()) for name, text in modules().items()}


def functions() -> Iterator[tuple[str, str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Each function of the library: its module, where it is, and itself."""
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield name, f"{name}:{node.name}", node


def refuse(offenders: Iterable[str]) -> None:
    """Fail with all of them, one a line; of a long list in an assertion pytest shows a part."""
    listed = sorted(offenders)
    assert not listed, "\n".join(listed)


def test_no_module_is_too_long() -> None:
    refuse(
        f"{name} has {lines} lines"
        for name, lines in line_counts().items()
        if lines > (MODULE_LINES_HARD_MAX if name in LONG_MODULES else MODULE_LINES_MAX)
    )


def test_functions_fit_a_screen() -> None:
    refuse(
        f"{where} has {code_lines(node)} lines"
        for _, where, node in functions()
        if code_lines(node) > FUNCTION_LINES_MAX
    )


def test_functions_take_few_parameters() -> None:
    refuse(
        f"{where} takes {parameter_count(node)} parameters"
        for module, where, node in functions()
        # A command has one parameter for each option of its command line.
        if not (module.startswith("pystreams/cli/") and node.decorator_list)
        if parameter_count(node) > PARAMETERS_MAX and where not in MANY_PARAMETERS
    )


def test_every_exception_is_still_needed() -> None:
    long_ones = {name for name, lines in line_counts().items() if lines > MODULE_LINES_MAX}
    wide_ones = {where for _, where, node in functions() if parameter_count(node) > PARAMETERS_MAX}

    refuse([*LONG_MODULES.keys() - long_ones, *MANY_PARAMETERS.keys() - wide_ones])


def code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring, which is there to be long where it must be."""
    assert node.end_lineno is not None
    lines = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is not None and first.end_lineno is not None:
        lines -= first.end_lineno - first.lineno + 1
    return lines


def parameter_count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = node.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return sum(argument.arg not in {"self", "cls"} for argument in given)


def test_names_of_modules_and_packages_say_what_is_inside() -> None:
    refuse(name for name in modules() if VAGUE_NAMES & {*Path(name).with_suffix("").parts})


def test_one_module_imports_the_consumer_and_the_producer() -> None:
    """import-linter sees packages, not the names in them: here is what it can't say."""
    importers = {
        name
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if imported_names(node, "confluent_kafka")
        & {"*", "Consumer", "Producer", "confluent_kafka"}
    }

    assert importers == {"pystreams/runtime/adapters/connection/confluent.py"}


def imported_names(node: ast.AST, package: str) -> set[str]:
    """What a statement imports from a package; the package's name when it imports that whole."""
    if isinstance(node, ast.Import):
        return {package for alias in node.names if alias.name == package}
    if isinstance(node, ast.ImportFrom) and node.module == package:
        return {alias.name for alias in node.names}
    return set()


def test_no_file_names_a_path_of_one_machine() -> None:
    offenders = []
    for path in project_files():
        if path.suffix not in TEXT_SUFFIXES:
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        offenders += [f"{name_of(path)}: {match}" for match in MACHINE_PATHS.findall(text)]
    refuse(offenders)


def test_names_for_the_shared_broker_are_drawn_in_one_place() -> None:
    """Two files that count for themselves, in one process, ask for the same topic."""
    places = {name_of(path) for path in (ROOT / "tests").rglob("*.py")}
    own_counts = "-{os." + "getpid()}"  # In parts, so that this file passes its own test.
    found = {name for name in places if own_counts in (ROOT / name).read_text("utf-8")}

    assert found == {"tests/names.py"}
