"""Writes records as lines of text, for a look into a topology. Source: Kafka's `Printed`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

from pystreams.errors import FatalStreamsError, TopologyError
from pystreams.kernel.async_functions import refuse_coroutine
from pystreams.record import Headers
from pystreams.topology.contracts.operator import NodeContext, Step


@dataclass(frozen=True, slots=True)
class PrintOperator:
    """Writes each record as `[label]: key, value`.

    Attributes:
        label: What stands in brackets.
        file: Where to write; the standard output when None. Never closed.
        mapper: Called with (key, value); returns what stands after the label.
    """

    label: str
    file: TextIO | None
    mapper: Callable[[Any, Any], str] | None

    def __post_init__(self) -> None:
        """Refuse what can't be written to."""
        if self.file is not None and not callable(getattr(self.file, "write", None)):
            raise TopologyError(
                "print: file must be one that is open for writing, such as sys.stderr or "
                f'open("records.txt", "w"), not {self.file!r}'
            )

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        mapper, file, prefix = self.mapper, self.file, f"[{self.label}]: "
        report_error, name = node.task.report_error, node.name

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:  # noqa: ARG001
            try:
                if mapper is None:
                    refuse_coroutine(value, "it is given")
                    text = f"{key}, {value}"
                else:
                    text = mapper(key, value)
                    refuse_coroutine(text)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            try:
                # Looked up each time: the standard output may be redirected while the task runs.
                (file or sys.stdout).write(f"{prefix}{text}\n")
            except (OSError, ValueError) as error:
                where = "standard output" if file is None else getattr(file, "name", repr(file))
                raise FatalStreamsError(
                    f"{name}: print can't write to {where}: {error}; give it a file that can be "
                    "written, or leave print out"
                ) from error

        return step
