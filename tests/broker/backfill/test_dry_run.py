"""`pystreams backfill --dry-run` over Kafka: without Spark, and without a trace in the broker."""

from __future__ import annotations

from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from pystreams.cli.commands.history.backfill import backfill
from tests.broker.exactly_once import counting
from tests.broker.exactly_once.arena import PARTITIONS, Arena
from tests.broker.reading import answer_of, produce
from tests.broker.waiting import DEADLINE_S

RECORDS = 5000
KEY, VALUE = b"key 01", bytes(8)


def planned(arena: Arena) -> list[str]:
    """What a dry run says, line by line."""
    result = CliRunner().invoke(
        backfill,
        [
            str(counting.__file__),
            *("-c", f"bootstrap.servers={arena.servers}", "-c", f"application.id={arena.name}"),
            *("--dry-run", "--output", str(arena.directory / "staged")),
        ],
    )
    assert result.exit_code == 0, result.output
    return str(result.output).splitlines()


def test_size_of_the_history_is_estimated_from_some_of_its_records(
    arena: Arena, admin: AdminClient
) -> None:
    produce(
        arena.servers,
        f"{arena.name}-in",
        [(KEY, VALUE)] * RECORDS,
        partition_of=lambda index: index % PARTITIONS,
    )

    told = planned(arena)

    assert "2 stages; nothing was run" in told[0]
    first = next(line for line in told if f"{arena.name}-in" in line)
    assert first.split()[-2:] == [f"{RECORDS:,}", f"~{RECORDS * len(KEY + VALUE):,}"]
    sampled = PARTITIONS * 100
    assert told[-1] == (
        f"bytes ~: estimated from {sampled} records; keys, values and headers, uncompressed"
    )
    assert not (arena.directory / "staged").exists()
    groups = answer_of(lambda: admin.list_consumer_groups().result(DEADLINE_S).valid)
    assert not [group for group in groups if group.group_id.startswith(arena.name)]


def test_topic_without_records_has_no_bytes(arena: Arena) -> None:
    told = planned(arena)

    first = next(line for line in told if f"{arena.name}-in" in line)
    assert first.split()[-2:] == ["0", "0"]
    assert not [line for line in told if line.startswith("bytes")]
