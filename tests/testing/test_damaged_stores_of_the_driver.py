"""A damaged store in the state directory of a `TopologyTestDriver`: told, and what helps."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    IsolationLevel,
    Processor,
    ProcessorContext,
    StateStoreCorruptedError,
    Stores,
    StreamsBuilder,
    Topology,
    serdes,
)
from pystreams.testing import TopologyTestDriver

KEYS = "abcde"
TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
CHANGELOG = "test-driver-counts-changelog"


def counting() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", **TEXT).group_by_key().count(name="counts").to_stream().to("out")
    return builder.build()


def pipe_all(driver: TopologyTestDriver) -> list[tuple[str, int]]:
    topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
    for key in KEYS:
        topic.pipe_input(key, "x" * 100)
    return driver.create_output_topic("out", serdes.STRING, serdes.LONG).read_key_values()


def damage_current(directory: Path) -> None:
    for file in directory.rglob("CURRENT"):
        file.write_bytes(b"no manifest")


def damage_data(directory: Path) -> None:
    for file in directory.rglob("*.sst"):
        content = file.read_bytes()
        file.write_bytes(bytes(255 - byte for byte in content[:-60]) + content[-60:])


def told_directory(error: StateStoreCorruptedError) -> Path:
    """Return which directory is to be deleted, as far as the error says so."""
    found = re.search(r"its files are damaged \((.*?): .*delete its directory", str(error))
    assert found, error
    return Path(found[1])


def damaged(directory: Path) -> StateStoreCorruptedError:
    """Return what a driver says that meets the damage as it opens its stores."""
    with pytest.raises(StateStoreCorruptedError, match=r"^state store 'counts': can't be") as told:
        TopologyTestDriver(counting(), state_directory=directory)
    return told.value


@pytest.mark.parametrize("damage", [damage_current, damage_data])
def test_a_damaged_store_is_told_and_is_empty_once_it_is_deleted(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    with TopologyTestDriver(counting(), state_directory=tmp_path) as driver:
        assert pipe_all(driver) == [(key, 1) for key in KEYS]
    damage(tmp_path)

    for _ in range(2):  # It is not emptied in silence.
        error = damaged(tmp_path)
    assert "rebuilt from it" not in str(error)
    shutil.rmtree(told_directory(error))

    with TopologyTestDriver(counting(), state_directory=tmp_path) as driver:
        assert pipe_all(driver) == [(key, 1) for key in KEYS]


def test_a_damaged_store_goes_on_from_records_of_its_changelog(tmp_path: Path) -> None:
    with TopologyTestDriver(counting(), state_directory=tmp_path) as driver:
        pipe_all(driver)
        changelog = driver.produced_raw(CHANGELOG)
    damage_data(tmp_path)
    assert "restore_stores fills it from records of its changelog" in str(damaged(tmp_path))

    with TopologyTestDriver(counting(), state_directory=tmp_path / "another") as driver:
        driver.restore_stores({"counts": changelog})
        assert pipe_all(driver) == [(key, 2) for key in KEYS]


def test_damage_that_a_record_meets_is_told_until_there_is_a_new_driver(tmp_path: Path) -> None:
    with TopologyTestDriver(counting(), state_directory=tmp_path) as driver:
        pipe_all(driver)
    with TopologyTestDriver(counting(), state_directory=tmp_path) as driver:
        damage_data(tmp_path)
        for _ in range(2):
            with pytest.raises(StateStoreCorruptedError, match="'counts': can't be read") as told:
                pipe_all(driver)
    shutil.rmtree(told_directory(told.value))

    with TopologyTestDriver(counting(), state_directory=tmp_path) as driver:
        assert pipe_all(driver) == [(key, 1) for key in KEYS]


@pytest.mark.parametrize(
    "read",
    [
        lambda driver: driver.get_key_value_store("counts").get("a"),
        lambda driver: list(driver.get_key_value_store("counts").all()),
        lambda driver: driver.get_timestamped_key_value_store("counts").get("a"),
        lambda driver: list(driver.get_state_store("counts").range("a", "c")),
        lambda driver: (
            driver.get_state_store("counts").read_only(IsolationLevel.READ_COMMITTED).get("a")
        ),
    ],
)
def test_damage_that_the_test_itself_reads_is_told_with_what_helps(
    tmp_path: Path, read: Callable[[TopologyTestDriver], object]
) -> None:
    with TopologyTestDriver(counting(), state_directory=tmp_path) as driver:
        pipe_all(driver)
    with TopologyTestDriver(counting(), state_directory=tmp_path) as driver:
        damage_data(tmp_path)
        for _ in range(2):
            with pytest.raises(StateStoreCorruptedError, match="'counts': can't be read") as told:
                read(driver)
    shutil.rmtree(told_directory(told.value))

    with TopologyTestDriver(counting(), state_directory=tmp_path) as driver:
        assert driver.get_key_value_store("counts").get("a") is None


def test_damage_that_a_processor_meets_as_it_begins_is_told(tmp_path: Path) -> None:
    class Reads(Processor[str, str, None, None]):
        def init(self, context: ProcessorContext[None, None]) -> None:
            list(context.get_state_store("plain").all())

    builder = StreamsBuilder()
    plain = Stores.persistent_key_value_store("plain")
    builder.add_state_store(Stores.key_value_store_builder(plain, serdes.STRING, serdes.STRING))
    builder.stream("in", **TEXT).process(Reads, stores=["plain"])
    topology = builder.build()
    with TopologyTestDriver(topology, state_directory=tmp_path) as driver:
        driver.get_key_value_store("plain").put("a", random.randbytes(1000).hex())
        driver.advance_wall_clock_ms(1)
    values = max(tmp_path.rglob("plain/*.sst"), key=lambda file: file.stat().st_size)
    content = values.read_bytes()
    values.write_bytes(content[:20] + b"?" + content[21:])

    with pytest.raises(StateStoreCorruptedError) as told:
        TopologyTestDriver(topology, state_directory=tmp_path)
    shutil.rmtree(told_directory(told.value))
    TopologyTestDriver(topology, state_directory=tmp_path).close()


def test_a_damaged_global_store_is_told_and_is_empty_once_it_is_deleted(tmp_path: Path) -> None:
    def opened() -> TopologyTestDriver:
        builder = StreamsBuilder()
        builder.global_table("people", name="people", **TEXT)
        return TopologyTestDriver(builder.build(), state_directory=tmp_path)

    with opened() as driver:
        driver.create_input_topic("people", serdes.STRING, serdes.STRING).pipe_input("a", "x")
    damage_current(tmp_path)

    for _ in range(2):
        with pytest.raises(StateStoreCorruptedError, match="'people': can't be opened") as told:
            opened()
    shutil.rmtree(told_directory(told.value))

    with opened() as driver:
        people = driver.get_key_value_store("people")
        assert people.get("a") is None
        driver.create_input_topic("people", serdes.STRING, serdes.STRING).pipe_input("a", "y")
        assert people.get("a") == "y"
