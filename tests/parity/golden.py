"""A golden file as Python values, and what a run through pystreams gives to compare with it."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pystreams import Headers, Topology
from pystreams.record import MAX_TIME
from pystreams.stores.kinds.key_value.timestamped import TypedTimestampedKeyValueStore
from pystreams.stores.kinds.window.keys import start_of
from pystreams.stores.kinds.window.store import TypedWindowStore
from pystreams.testing import TopologyTestDriver

GOLDEN = Path(__file__).parent / "golden"


class Produced(NamedTuple):
    """One record of a topic."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers


@dataclass
class Observations:
    """What side effects saw, and names that the DSL gave back while it built.

    Attributes:
        seen: What `peek` and `foreach` were called with, by label.
        facts: Names the DSL gave, by label.
        print_file: What `print` writes to.
    """

    seen: dict[str, list[list[str | None]]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    print_file: io.StringIO = field(default_factory=io.StringIO)

    def see(self, label: str) -> Callable[[str | None, str | None], None]:
        """Return an action that notes what it is called with under the label."""

        def action(key: str | None, value: str | None) -> None:
            self.seen.setdefault(label, []).append([key, value])

        return action


@dataclass(frozen=True)
class Outcome:
    """All that a topology did.

    Attributes:
        description: The text of `describe`.
        produced: The records of each topic, internal ones included.
        stores: Kind and raw entries of each store.
        seen: See `Observations`.
        printed: The lines that `print` wrote; None is "None", which Java calls "null".
        facts: See `Observations`.
    """

    description: str
    produced: dict[str, list[Produced]]
    stores: dict[str, tuple[str, list[tuple[bytes, bytes]]]]
    seen: dict[str, list[list[str | None]]]
    printed: list[str]
    facts: dict[str, Any]


def read(name: str) -> dict[str, Any]:
    """Return a golden file's JSON."""
    content: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    return content


def decoded(text: str | None) -> bytes | None:
    """Return the bytes of base64 text; None stays None."""
    return None if text is None else base64.b64decode(text)


def expected(golden: dict[str, Any]) -> Outcome:
    """Return what Kafka Streams did."""
    return Outcome(
        golden["description"],
        {
            topic: [_record(record) for record in records]
            for topic, records in golden["produced"].items()
        },
        {
            name: (
                store["kind"],
                [
                    (base64.b64decode(key), base64.b64decode(value))
                    for key, value in store["entries"]
                ],
            )
            for name, store in golden["stores"].items()
        },
        golden["seen"],
        [line.replace("null", "None") for line in golden["printed"]],
        golden["facts"],
    )


def run(
    golden: dict[str, Any], build: Callable[[Observations], Topology], state_directory: Path
) -> Outcome:
    """Send a golden file's steps through pystreams and return what it did."""
    observations = Observations()
    topology = build(observations)
    config = {
        "application.id": golden["application_id"],
        "default.key.serde": "string",
        "default.value.serde": "string",
        **golden.get("config", {}),
    }
    with TopologyTestDriver(
        topology,
        config,
        wall_clock_ms=golden["initial_wall_clock_ms"],
        state_directory=state_directory,
    ) as driver:
        for step in golden["steps"]:
            if "pipe" in step:
                record = _record(step["pipe"])
                driver.pipe_raw(step["pipe"]["topic"], *record)
            else:
                driver.advance_wall_clock_ms(step["advance_wall_clock_ms"])
        return Outcome(
            str(topology.describe()),
            {
                topic: [
                    Produced(key, value, timestamp, tuple(headers))
                    for key, value, timestamp, headers in driver.produced_raw(topic)
                ]
                for topic in sorted(driver.produced_topic_names())
            },
            {name: _content(store) for name, store in driver.get_all_state_stores().items()},
            observations.seen,
            observations.print_file.getvalue().splitlines(),
            observations.facts,
        )


def _record(record: dict[str, Any]) -> Produced:
    return Produced(
        decoded(record["key"]),
        decoded(record["value"]),
        record["timestamp"],
        tuple((name, decoded(value)) for name, value in record["headers"]),
    )


def _content(store: Any) -> tuple[str, list[tuple[bytes, bytes]]]:
    """Return a store's kind and the bytes in its engine, below serdes and buffer."""
    if isinstance(store, TypedWindowStore):
        windows, oldest = store._reader, store._reader.oldest_readable()
        entries = windows.range((0, MAX_TIME), b"", None)
        return "window", [(key, value) for key, value in entries if start_of(key) >= oldest]
    timestamped = isinstance(store, TypedTimestampedKeyValueStore)
    return "timestamped" if timestamped else "keyvalue", list(store._buffer.range(None, None))
