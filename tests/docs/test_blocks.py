"""Everything in a fence is true: examples run, files are read, commands exist."""

from __future__ import annotations

import doctest
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pystreams.config import StreamsConfig
from pystreams.config.files import parse_properties
from tests.docs.blocks import (
    PAGES,
    PYTHON,
    ROOT,
    Block,
    all_blocks,
    commands_of,
    examples_of,
    inline_commands,
)
from tests.docs.typed_commands import problem_of

RUN_ELSEWHERE = {
    "docs/backfill.md": "tests/broker/backfill/test_backfill_page.py",
    "docs/embedding.md": "tests/broker/serving/test_embedding_page.py",
    "docs/getting-started.md": "tests/distribution/test_getting_started.py",
    "docs/http.md": "tests/http/test_http_page.py",
    "docs/metrics.md": "tests/broker/serving/test_metrics.py",
    "docs/queries.md": "tests/broker/serving/test_queries_page.py",
    "docs/repair.md": "tests/broker/backfill/repair_page.py",
}
"""Pages whose examples need a broker, Spark or an environment of their own, and what runs them."""

IN_CLONES_OF_OTHERS = {"tests/parity/README.md"}
"""Pages whose paths begin in the folder that they describe."""


def read_dockerfile(text: str) -> None:
    for line in re.sub(r"\\\n", " ", text).splitlines():
        assert not line or line.split()[0] in {"FROM", "COPY", "RUN", "CMD", "ENV", "USER", "#"}


def read_configuration(values: Mapping[str, Any]) -> None:
    StreamsConfig.of({"application.id": "page", "bootstrap.servers": "broker:9092", **values})


READERS: dict[str, Callable[[str], object]] = {
    "dockerfile": read_dockerfile,
    "json": json.loads,
    "properties": lambda text: read_configuration(dict(parse_properties(text))),
    "toml": lambda text: read_configuration(tomllib.loads(text)),
    "yaml": lambda text: list(yaml.safe_load_all(text)),
}
UNCHECKED = {"text": "what programs print, and pictures", "java": "Kafka Streams' own language"}
BLOCKS = all_blocks()
TYPED = {"sh", "bash", "console"}


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def pages_with_examples() -> list[Path]:
    return [page for page in PAGES if examples_of(page) and named(page) not in RUN_ELSEWHERE]


@pytest.mark.parametrize("page", pages_with_examples(), ids=named)
def test_the_examples_of_a_page_run_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    printed: list[str] = []
    for block in examples_of(page):
        if block.language == "python":
            exec(compile(block.text, str(block), "exec", dont_inherit=True), names)
        else:
            examples = doctest.DocTestParser().get_doctest(
                block.text, names, str(block), named(page), block.line
            )
            examples.globs = names
            runner.run(examples, out=printed.append, clear_globs=False)

    assert not printed, "".join(printed)


@pytest.mark.parametrize("page", RUN_ELSEWHERE)
def test_pages_that_are_run_elsewhere_are_taken_whole_there(page: str) -> None:
    """What takes `examples_of` a page takes all of them: one more, and it fails."""
    test = RUN_ELSEWHERE[page]
    takes = re.compile(rf"examples_of\([^()]*\b{re.escape(Path(page).name)}")

    assert takes.search((ROOT / test).read_text("utf-8")), f"{test} does not take all of {page}"


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "python" and block.of], ids=str
)
def test_python_of_others_is_python(block: Block) -> None:
    compile(block.text, str(block), "exec", dont_inherit=True)


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language in READERS], ids=str)
def test_files_can_be_read(block: Block) -> None:
    READERS[block.language](block.text)


@pytest.mark.parametrize(
    "block",
    [b for b in BLOCKS if b.language in TYPED and named(b.page) not in IN_CLONES_OF_OTHERS],
    ids=str,
)
def test_commands_options_and_files_of_a_block_exist(block: Block) -> None:
    problems = {line: problem_of(line) for line in commands_of(block)}

    assert not any(problems.values()), {line: why for line, why in problems.items() if why}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_in_the_text_exist(page: Path) -> None:
    problems = {line: problem_of(line, whole=False) for line in inline_commands(page)}

    assert not any(problems.values()), {line: why for line, why in problems.items() if why}


def test_every_block_is_of_a_language_that_is_checked() -> None:
    known = PYTHON | TYPED | READERS.keys() | UNCHECKED.keys()
    strange = {str(block): block.language for block in BLOCKS if block.language not in known}

    assert not strange, "say how they are checked, in this file"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("pystreams run orders.py --dev", None),
        ("PYSTREAMS_X=1 pystreams run orders.py --dev | head -3", None),
        ("pystreams describe orders.py --json > deployed.json", None),
        ("pystreams walk orders.py", "pystreams has no command walk"),
        ("pystreams run orders.py --fast", "pystreams run: No such option"),
        ("pystreams run", "pystreams run: topology is missing"),
        ("python benchmarks/gone.py", "there is no benchmarks/gone.py"),
        ("python -m tests.gone", "there is no module tests.gone"),
        ("scripts/gone", "there is no scripts/gone"),
        ("pysteams run orders.py", "nobody knows pysteams"),
    ],
)
def test_a_dead_command_is_found(line: str, problem: str | None) -> None:
    found = problem_of(line)

    assert (found or "").startswith(problem or ""), found
    assert (found is None) == (problem is None)
