"""What both benchmarks need around them: a directory, a broker, a console."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from benchmarks.harness.output_check import WrongOutputError
from benchmarks.harness.processes import ProgramError
from pystreams.broker import DevelopmentBroker

_WIDTH_WITHOUT_TERMINAL = 140

console = Console(width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL, highlight=False)


@contextmanager
def setting(
    chosen: Path | None, settings: Mapping[str, str] | None = None
) -> Iterator[tuple[Path, DevelopmentBroker]]:
    """Yield a directory and a broker of its own; both are gone at the end.

    Ends the program with exit code 1 when an output is wrong, 2 when a program fails.

    Args:
        chosen: Where the directory is made; None for the system's place.
        settings: Kafka server settings that win over the development broker's.
    """
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="pystreams-benchmark-", dir=chosen))
    try:
        broker = DevelopmentBroker.start(directory / "broker", settings=settings)
        try:
            yield directory, broker
        finally:
            broker.stop()
    except WrongOutputError as error:
        console.print(f"wrong output: {error}", style="bold red", markup=False)
        sys.exit(1)
    except ProgramError as error:
        console.print(str(error), markup=False)
        sys.exit(2)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
