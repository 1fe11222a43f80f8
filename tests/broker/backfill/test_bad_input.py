"""`pystreams backfill` over a history that is not good: nothing is published until it is.

What was published in part would be taken for the whole by whoever reads the topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from pystreams.cli.commands.history.backfill import backfill
from tests.backfill.in_process import Row
from tests.backfill.spark.on_spark import write_archive
from tests.broker.exactly_once import counting
from tests.broker.exactly_once.arena import (
    GROUPS,
    OUTPUTS,
    PARTITIONS,
    SUBTOPOLOGY_OF_STORE,
    Arena,
    one_to,
)
from tests.broker.exactly_once.feed import KEYS
from tests.broker.reading import (
    committed_offsets,
    high_watermarks,
    produce,
    read_all,
    reader_of,
    topics_of,
)

ROUNDS = 5
ALL_KEYS = sorted(f"key {number:02}".encode() for number in range(KEYS))
ALL_GROUPS = {f"group {number}".encode() for number in range(GROUPS)}
TOO_SHORT = b"\0\0\1"
"""No long."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def staged_in_a_directory_of_its_own(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results are staged where the command is started, until they are published."""
    monkeypatch.chdir(tmp_path)


def write_rounds(arena: Arena, first: int, last: int) -> None:
    rounds = range(first, last + 1)
    records = [(key, number.to_bytes(8, "big")) for number in rounds for key in ALL_KEYS]
    produce(arena.servers, f"{arena.name}-in", records)


def told_by(arena: Arena, *options: str, code: int) -> str:
    """Run a backfill that publishes all, outputs included; return what it says."""
    result = CliRunner().invoke(
        backfill,
        [
            str(counting.__file__),
            *("-c", f"bootstrap.servers={arena.servers}", "-c", f"application.id={arena.name}"),
            *("-c", "statestore.cache.max.bytes=0", "--log-level", "error"),
            "--publish-outputs",
            *options,
        ],
    )
    assert result.exit_code == code, result.output
    return str(result.output)


def published(arena: Arena, admin: AdminClient) -> dict[str, int]:
    """How many offsets of each topic but the input are taken, uncommitted ones included."""
    topics = topics_of(admin)
    own = [name for name in topics if name.startswith(f"{arena.name}-")]
    with reader_of(arena.servers) as consumer:
        ends = {name: sum(high_watermarks(consumer, name).values()) for name in own}
    return {name: end for name, end in ends.items() if end and name != f"{arena.name}-in"}


def check_nothing_is_published(arena: Arena, admin: AdminClient) -> None:
    assert published(arena, admin) == {}
    assert committed_offsets(admin, arena.name) == {}


def check_all_is_published(arena: Arena, admin: AdminClient) -> None:
    stores = [f"{arena.name}-{store}-changelog" for store in SUBTOPOLOGY_OF_STORE]
    assert published(arena, admin).keys() == {
        *(f"{arena.name}-{output}" for output in OUTPUTS),
        *stores,
    }
    outputs = arena.outputs()
    assert outputs.echo == outputs.by_key == one_to(ROUNDS, set(ALL_KEYS))
    assert outputs.by_group == one_to(ROUNDS * KEYS // GROUPS, ALL_GROUPS)
    with reader_of(arena.servers) as consumer:
        ends = high_watermarks(consumer, f"{arena.name}-in")
    offsets = committed_offsets(admin, arena.name)
    assert {number: offsets[f"{arena.name}-in", number] for number in ends} == ends


def archived(arena: Arena) -> list[Row]:
    """What the input holds, as an archive of it has it."""
    return [
        Row(
            f"{arena.name}-in",
            message.partition() or 0,
            message.offset() or 0,
            message.timestamp()[1],
            message.key(),
            message.value(),
        )
        for message in read_all(arena.servers, f"{arena.name}-in")
    ]


def test_record_that_can_not_be_read_is_named_and_nothing_is_published_until_it_is_skipped(
    arena: Arena, admin: AdminClient
) -> None:
    bad_partition = PARTITIONS - 1
    write_rounds(arena, 1, 2)
    with reader_of(arena.servers) as consumer:
        bad_offset = high_watermarks(consumer, f"{arena.name}-in")[bad_partition]
    bad = [(b"key 01", TOO_SHORT)]
    produce(arena.servers, f"{arena.name}-in", bad, partition_of=lambda _: bad_partition)
    write_rounds(arena, 3, ROUNDS)

    told = told_by(arena, code=1)

    where = f"{arena.name}-in-{bad_partition} offset {bad_offset}"
    assert f"can't read the value of the record at {where}" in told
    check_nothing_is_published(arena, admin)

    told_by(arena, "-c", "deserialization.exception.handler=continue", code=0)

    check_all_is_published(arena, admin)


def archive_without(rows: Sequence[Row], lost: Sequence[Row], path: Path) -> str:
    return f"parquet:{write_archive([row for row in rows if row not in lost], path)}"


def test_gap_in_an_archive_is_named_and_nothing_is_published_until_it_is_filled(
    arena: Arena, admin: AdminClient
) -> None:
    write_rounds(arena, 1, ROUNDS)
    rows = archived(arena)
    lost = [row for row in rows if row.partition == 1 and row.offset in {7, 8}]

    told = told_by(arena, "--from", archive_without(rows, lost, arena.directory / "bad"), code=1)

    assert f"{arena.name}-in-1 has a gap: offset 6 is followed by 9" in told
    check_nothing_is_published(arena, admin)

    told_by(arena, "--from", archive_without(rows, [], arena.directory / "good"), code=0)

    check_all_is_published(arena, admin)
