"""An inner join by a foreign key whose rows change again before an answer has come back.

The rows of the result are those of both tables in the end, however answers and changes interleave,
and whatever a restart has forgotten in between.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from pystreams import Materialized, Stores, StreamsBuilder, Topology, serdes
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import Application
from tests.variants import first_of

pytestmark = pytest.mark.simulation


def joining(
    left_kept: Materialized[str, str] | None = None,
    left_serde: serdes.Serde[str] = serdes.STRING,
    method: str = "join",
) -> Topology:
    """Join rows such as "b:17", which name the row b, with those of `named`."""
    builder = StreamsBuilder()
    strings: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
    left = builder.table(
        "in",
        key_serde=serdes.STRING,
        value_serde=left_serde,
        materialized=left_kept or Materialized(name="left"),
    )
    named = builder.table("named", materialized=Materialized(name="named"), **strings)
    joined = getattr(left, method)(
        named,
        lambda value, row: f"{value}={row}",
        foreign_key=lambda value: value.partition(":")[0] or None,
        value_serde=serdes.STRING,
    )
    joined.to_stream().to("out", **strings)
    return builder.build()


def rows_of(app: Application) -> dict[str, str]:
    rows: dict[str, str] = {}
    for message in app.broker.committed_records("out"):
        key = (message.message_key or b"").decode()
        rows.pop(key, None)
        if message.message_value is not None:
            rows[key] = message.message_value.decode()
    return rows


def step_all(app: Application, process: SimulatedProcess, steps: int) -> None:
    for _ in range(steps):
        app.clock.advance_ms(60)
        process.step()
        app.broker.settle()


def change(app: Application, topic: str, key: str, value: str | None) -> None:
    app.broker.produce(topic, key.encode(), None if value is None else value.encode(), 1000)


@pytest.mark.parametrize("later", ["b:2", ":2", None])
@pytest.mark.parametrize("first", ["b:1", ":1", None])
def test_a_row_that_changes_again_before_it_is_answered_loses_its_result(
    first: str | None, later: str | None, tmp_path: Path
) -> None:
    app = Application(tmp_path)
    app.broker.create_topic("named", 1)
    process = app.process(topology=joining())
    process.start()
    change(app, "named", "a", "A")
    change(app, "in", "k", "a:0")
    step_all(app, process, 60)
    assert rows_of(app) == {"k": "a:0=A"}
    change(app, "in", "k", first)
    change(app, "in", "k", later)
    step_all(app, process, 60)

    assert rows_of(app) == {}


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(Materialized(name="left"), id="rows with their times"),
        pytest.param(
            Materialized(supplier=Stores.persistent_key_value_store("left")), id="without"
        ),
    ],
)
def test_a_row_that_changes_as_the_row_it_names_goes_loses_its_result(
    kept: Materialized[str, str], tmp_path: Path
) -> None:
    """Its foreign key stays: nobody would answer that there is no such row."""
    app = Application(tmp_path)
    app.broker.create_topic("named", 1)
    process = app.process(topology=joining(kept))
    process.start()
    change(app, "named", "a", "A")
    change(app, "in", "k", "a:0")
    step_all(app, process, 60)
    assert rows_of(app) == {"k": "a:0=A"}
    change(app, "named", "a", None)
    change(app, "in", "k", "a:1")
    step_all(app, process, 60)

    assert rows_of(app) == {}


@pytest.mark.parametrize(
    ("others", "cache_bytes"),
    first_of(("klmn", 0), ("klmn", 10_000_000), ("k", 0), ("k", 10_000_000)),
)
@pytest.mark.parametrize("seed", [10, 59, 70, 94, 103, 136])
def test_fast_changes_and_restarts_end_with_the_rows_of_both_tables(
    seed: int, cache_bytes: int, others: str, tmp_path: Path
) -> None:
    """Seen whenever all has settled; values come again, in other rows as well."""
    chance = random.Random(seed)
    guarantee = ["exactly_once", "exactly_once_v2"][seed % 2]
    app = Application(tmp_path, guarantee, statestore_cache_max_bytes=cache_bytes)
    app.broker.create_topic("named", 1)
    process = app.process(topology=joining())
    process.start()
    left: dict[str, str] = {}
    named: dict[str, str] = {}
    for _ in range(15):
        for number in range(chance.randrange(2, 16)):
            if chance.random() < 0.7:
                key, value = chance.choice(others), chance.choice(["a", "b", "c", "", None])
                value = None if value is None else f"{value}:{number % 2}"
                table, topic = left, "in"
            else:
                key, value = chance.choice("abc"), chance.choice([None, str(number)])
                table, topic = named, "named"
            table.pop(key, None)
            if value is not None:
                table[key] = value
            change(app, topic, key, value)
            step_all(app, process, chance.choice([0, 0, 0, 1, 2, 5]))
            if chance.random() < 0.04:
                process.crash()
                process.start()
        step_all(app, process, 40)

        assert rows_of(app) == {
            key: f"{value}={named[name]}"
            for key, value in left.items()
            if (name := value.partition(":")[0]) in named
        }


VERSIONS = [
    serdes.serde_of(
        lambda value, behind=behind: f"{value}{behind}".encode(),  # type: ignore[misc]
        lambda data: data.decode().strip(),
    )
    for behind in ("", " ")
]
"""Each reads what the other one wrote."""


@pytest.mark.parametrize("cache_bytes", first_of(0, 10_000_000))
@pytest.mark.parametrize("method", ["join", "left_join"])
@pytest.mark.parametrize("seed", [10, 59, 70, 94])
def test_so_they_do_over_deploys_after_which_rows_are_written_in_other_bytes(
    seed: int, method: str, cache_bytes: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    app = Application(tmp_path, "exactly_once_v2", statestore_cache_max_bytes=cache_bytes)
    app.broker.create_topic("named", 1)
    versions = itertools.cycle([joining(None, serde, method) for serde in VERSIONS])
    process = app.process(topology=next(versions))
    process.start()
    left: dict[str, str] = {}
    named: dict[str, str] = {}
    for deploy in range(12):
        for number in range(chance.randrange(2, 16)):
            if chance.random() < 0.5:
                key, value = chance.choice("klmn"), chance.choice(["a", "b", "c", "", None])
                value = None if value is None else f"{value}:{number % 2}"
                table, topic = left, "in"
            else:
                key, value = chance.choice("abc"), chance.choice([None, str(number)])
                table, topic = named, "named"
            table.pop(key, None)
            if value is not None:
                table[key] = value
            change(app, topic, key, value)
            step_all(app, process, chance.choice([0, 0, 0, 1, 2, 5]))
            if chance.random() < 0.1:
                process.crash()
                kept = process.disk if chance.random() < 0.5 else None
                process = app.process(f"p{deploy}.{number}", next(versions), disk=kept)
                process.start()
        step_all(app, process, 60)

        joined = {
            key: f"{value}={named.get(value.partition(':')[0])}"
            for key, value in left.items()
            if method == "left_join" or value.partition(":")[0] in named
        }
        assert rows_of(app) == joined
