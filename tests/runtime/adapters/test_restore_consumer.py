"""The consumer of changelogs: deltas, ends, partitions that come and go."""

from __future__ import annotations

import pytest

from pystreams import TopicPartition
from pystreams.errors import OffsetOutOfRangeError
from pystreams.runtime.adapters.consuming.confluent_restore_consumer import ConfluentRestoreConsumer
from tests.broker.flushing import flush
from tests.runtime.adapters.application import (
    Application,
    delete_before,
    numbered,
    numbers,
    until,
)


def test_reads_the_delta_and_tells_the_end(application: Application) -> None:
    changelog = TopicPartition(application.topic(), 0)
    application.fill(changelog.topic, 1000)
    reader = application.restore_consumer()
    reader.assign({changelog: 990})
    assert _restore(reader, {changelog}) == {changelog: (list(range(990, 1000)), 1000)}


def test_a_changelog_that_was_cut_off_before_the_position_is_named(
    application: Application,
) -> None:
    changelog = TopicPartition(application.topic(), 0)
    application.fill(changelog.topic, 10)
    delete_before(application, changelog, 8)
    reader = application.restore_consumer()
    reader.assign({changelog: 3})
    with pytest.raises(OffsetOutOfRangeError) as raised:
        until(lambda: reader.poll(100, 0.1))
    assert raised.value.partition == changelog

    reader.assign({})
    reader.assign({changelog: 8})
    assert _restore(reader, {changelog}) == {changelog: ([8, 9], 10)}


def test_the_end_of_an_empty_changelog_is_told(application: Application) -> None:
    changelog = TopicPartition(application.topic(), 0)
    reader = application.restore_consumer()
    reader.assign({changelog: 0})
    assert _restore(reader, {changelog}) == {changelog: ([], 0)}


def test_the_end_lies_behind_the_markers_of_transactions(exactly_once: Application) -> None:
    changelog = TopicPartition(exactly_once.topic(), 0)
    producer = exactly_once.transactional()
    for start in (0, 10):
        producer.begin_transaction()
        producer.send(numbered(changelog.topic, 10, start=start))
        flush(producer)
        producer.commit_transaction({}, None)
    until(lambda: exactly_once.admin.offset_ranges([changelog])[changelog].end == 22)
    reader = exactly_once.restore_consumer()
    reader.assign({changelog: 11})
    assert _restore(reader, {changelog}) == {changelog: (list(range(10, 20)), 22)}


def test_an_open_transaction_is_not_restored(exactly_once: Application) -> None:
    changelog = TopicPartition(exactly_once.topic(), 0)
    producer = exactly_once.transactional()
    producer.begin_transaction()
    producer.send(numbered(changelog.topic, 10))
    flush(producer)
    reader = exactly_once.restore_consumer()
    reader.assign({changelog: 0})
    assert _restore(reader, {changelog}) == {changelog: ([], 0)}


@pytest.mark.parametrize("committed", [True, False])
def test_a_changelog_is_read_on_beyond_its_end_as_transactions_are_decided(
    exactly_once: Application, committed: bool
) -> None:
    changelog = TopicPartition(exactly_once.topic(), 0)
    producer = exactly_once.transactional()
    producer.begin_transaction()
    producer.send(numbered(changelog.topic, 10))
    flush(producer)
    reader = exactly_once.restore_consumer()
    reader.assign({changelog: 0})
    before = _restore(reader, {changelog})
    if committed:
        producer.commit_transaction({}, None)
    else:
        producer.abort_transaction()

    assert before == {changelog: ([], 0)}
    decided = list(range(10)) if committed else []
    assert _restore(reader, {changelog}) == {changelog: (decided, 11)}


def test_partitions_come_and_go_while_others_are_read(application: Application) -> None:
    topic = application.topic(partitions=3)
    first, second, third = (TopicPartition(topic, number) for number in range(3))
    for partition in (first, second, third):
        application.fill(topic, 100, partition.partition)
    reader = application.restore_consumer()
    reader.assign({first: 0, second: 50})
    found = _restore(reader, {first, second})
    assert found == {first: (list(range(100)), 100), second: (list(range(50, 100)), 100)}

    reader.assign({second: 0, third: 99})
    assert _restore(reader, {third}) == {third: ([99], 100)}, "the second one goes on at its end"
    reader.assign({})
    assert reader.poll(100, 0.1) == []
    reader.assign({first: 98})
    assert _restore(reader, {first}) == {first: ([98, 99], 100)}


def _restore(
    reader: ConfluentRestoreConsumer, partitions: set[TopicPartition]
) -> dict[TopicPartition, tuple[list[int], int]]:
    values: dict[TopicPartition, list[int]] = {partition: [] for partition in partitions}
    ends: dict[TopicPartition, int] = {}

    def done() -> bool:
        for partition, messages, end_reached_at in reader.poll(30, 0.1):
            values[partition] += numbers(messages)
            if end_reached_at is not None:
                ends[partition] = end_reached_at
        return ends.keys() == partitions

    until(done, "the end of the changelogs")
    return {partition: (values[partition], ends[partition]) for partition in partitions}
