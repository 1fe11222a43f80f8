"""A backfill that is complete is not run again: no Spark, no source, and no broker is asked."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pystreams import StreamsConfig, TopicPartition
from pystreams.backfill import (
    ArchiveSource,
    BackfillResult,
    HistoryError,
    HistorySource,
    KafkaBound,
    KafkaSource,
    StagePhase,
    StageProgress,
    run,
    write_dataset,
)
from pystreams.backfill.execution.backfill import Backfill
from pystreams.backfill.plan.fingerprint import declared_configuration
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.backfill.staging.directory import Manifest, StagingDirectory, read_manifest
from pystreams.backfill.staging.errors import StagingError
from tests.backfill.publishing.test_staged_publication import identity, plan_of, staged

__all__ = ["staged"]

CONFIG = {"application.id": "app", "bootstrap.servers": "nobody.invalid:9092"}
IN = TopicPartition("in", 0)


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)


def run_again(staged: Path, source: HistorySource | None = None, **more: Any) -> BackfillResult:
    return run(plan_of().topology, CONFIG, output=staged, source=source, **more)


def complete_before(path: Path, source: HistorySource | None = None) -> Manifest | None:
    return Backfill(plan_of().topology, StreamsConfig.of(CONFIG), path).complete_before(source)


def of_kafka(start: KafkaBound | None = None, end: KafkaBound | None = None) -> KafkaSource:
    return KafkaSource.of(CONFIG, start=start, end=end)


def test_results_are_returned_as_they_were_staged(staged: Path) -> None:
    told: list[StageProgress] = []

    done = run_again(staged, ArchiveSource("an archive that has gone"), progress=told.append)

    assert done.path == staged
    assert done.manifest == read_manifest(staged)
    assert [(stage.position, stage.num_stages, stage.phase) for stage in told] == [
        (number, 3, StagePhase.STAGED_BEFORE) for number in range(3)
    ]


def test_history_in_kafka_is_not_looked_at_again(staged: Path) -> None:
    assert run_again(staged).manifest == read_manifest(staged)
    assert run_again(staged, of_kafka()).manifest == read_manifest(staged)


def test_results_of_another_topology_or_application_are_refused(staged: Path) -> None:
    with pytest.raises(PublishingRefusedError, match="the topology is not the one"):
        run(plan_of(extra="more").topology, CONFIG, output=staged)
    with pytest.raises(PublishingRefusedError, match=r"results for application\.id 'app'"):
        run(plan_of().topology, {**CONFIG, "application.id": "other"}, output=staged)


def test_results_of_another_configuration_are_refused(tmp_path: Path) -> None:
    staging = StagingDirectory(tmp_path / "staged")
    text = declared_configuration(StreamsConfig.of({**CONFIG, "default.key.serde": "string"}))
    of_text = replace(identity(), configuration=text)
    staging.begin(of_text, 77)
    staging.finish(Manifest(of_text, (), 77, 1.0))
    topology, long = plan_of().topology, {**CONFIG, "default.key.serde": "long"}

    with pytest.raises(PublishingRefusedError, match=r"another default\.key\.serde"):
        run(topology, long, output=staging.path)
    with pytest.raises(PublishingRefusedError, match=r"another default\.key\.serde"):
        write_dataset(staging.path, topology, long, tmp_path / "dataset")


def test_bounds_it_was_begun_with_are_the_same_backfill(staged: Path) -> None:
    same = of_kafka(start=KafkaBound({IN: 10}), end=KafkaBound({IN: 25}))

    assert run_again(staged, same).manifest == read_manifest(staged)


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ({"start": KafkaBound({IN: 11})}, "in-0 is to begin at offset 11.*begun with 10"),
        ({"end": KafkaBound({IN: 26})}, "in-0 is to end at offset 26.*begun with 25"),
        ({"end": KafkaBound({TopicPartition("in", 1): 3})}, "end of in-1 is given, which the back"),
        ({"end": KafkaBound(times_ms={"inn": 3})}, "end of topic 'inn' is given, which the backf"),
    ],
)
def test_other_offsets_are_refused(staged: Path, bounds: dict[str, KafkaBound], told: str) -> None:
    with pytest.raises(HistoryError, match=told):
        run_again(staged, of_kafka(**bounds))


def test_other_times_are_refused(tmp_path: Path) -> None:
    staging = StagingDirectory(tmp_path / "staged")
    bounded = of_kafka(end=KafkaBound(times_ms={"in": 1010}))
    staging.begin(identity(), 77, bounded.asked)
    staging.finish(Manifest(identity(), (), 77, 1.0))

    assert complete_before(staging.path, bounded) == read_manifest(staging.path)
    with pytest.raises(StagingError, match=r"the end of in is to be 1970-01-01T00:00:01\.015"):
        run_again(staging.path, of_kafka(end=KafkaBound(times_ms={"in": 1015})))


def test_directory_where_something_is_missing_is_not_complete(staged: Path) -> None:
    (staged / "manifest.json").unlink()

    assert complete_before(staged) is None
    assert complete_before(staged / "elsewhere") is None
