"""Small applications as text, for tests that change the code between two runs."""

from __future__ import annotations

from pathlib import Path

COUNTS = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
source = builder.stream("{source}", key_serde=serdes.STRING, value_serde=serdes.LONG)
source.map_values(lambda value: {function}).group_by_key().count(name="counts").to_stream().to(
    "{output}"
)
"""
"""Counts a key's records, after `function` of `value` was applied to each value."""


def write_counts(directory: Path, source: str, output: str, function: str = "value") -> Path:
    """Write the counting application to a file; return the file."""
    file = directory / "counts.py"
    file.write_text(COUNTS.format(source=source, output=output, function=function))
    return file
