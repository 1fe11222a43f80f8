"""What topologies and configurations declare: another where results may be, the same elsewhere."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    JoinWindows,
    Materialized,
    Processor,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    Topology,
    serdes,
    wallclock_timestamp,
)
from pystreams.backfill.plan.fingerprint import (
    declared_configuration,
    other_keys,
    topology_fingerprint,
)
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.turns import topics_in_turn
from pystreams.backfill.staging.directory import StagingDirectory
from pystreams.backfill.staging.errors import StagingError
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.own_topics.own_topologies import read_again_before
from tests.backfill.sources.covered import two_repartitions

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}


def joined(left: str, right: str) -> str:
    return left + right


def joined_in_turn(left: str, right: str) -> str:
    return right + left


def last(*_: object) -> int:
    return -1


def joining(
    windows: JoinWindows | None = None,
    joiner: Callable[..., str] = joined,
    store: Materialized[str, str] | None = None,
    source: dict[str, Any] | None = None,
    sink: dict[str, Any] | None = None,
) -> Topology:
    builder = StreamsBuilder()
    left = builder.stream("left", **{**TEXT, **(source or {})})
    windows = windows or JoinWindows.of_time_difference_and_grace(7_000, 3_000)
    pairs = left.outer_join(builder.stream("right", **TEXT), joiner, windows, name="pairs")
    pairs.to("pairs", **{**TEXT, **(sink or {})})
    table = builder.table("table", materialized=store or Materialized(name="rows"), **TEXT)
    table.to_stream().to("rows", **TEXT)
    return builder.build()


WITH_GRACE = JoinWindows.of_time_difference_and_grace
CHANGES: dict[str, dict[str, Any]] = {
    "join window": {"windows": WITH_GRACE(8_000, 3_000)},
    "one side of it": {"windows": WITH_GRACE(7_000, 3_000).after(8_000).before(6_000)},
    "grace period": {"windows": WITH_GRACE(7_000, 4_000)},
    "joiner": {"joiner": joined_in_turn},
    "serde of a source": {"source": {"value_serde": serdes.JSON}},
    "default serde of a source": {"source": {"value_serde": None}},
    "timestamp extractor": {"source": {"timestamp_extractor": wallclock_timestamp}},
    "serde of a sink": {"sink": {"key_serde": serdes.BYTES}},
    "partitioner": {"sink": {"partitioner": last}},
    "versioned store": {"store": Materialized(name="rows", history_retention_ms=60_000)},
}


@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES)
def test_change_that_the_description_does_not_show_is_another_topology(
    changed: dict[str, Any],
) -> None:
    before, after = joining(), joining(**changed)

    assert str(before.describe()) == str(after.describe())
    assert topology_fingerprint(before) != topology_fingerprint(after)


def test_history_retention_is_part_of_the_topology() -> None:
    minute, hour = (
        joining(store=Materialized(name="rows", history_retention_ms=retention_ms))
        for retention_ms in (60_000, 3_600_000)
    )

    assert topology_fingerprint(minute) != topology_fingerprint(hour)


class Cipher:
    """A serde of the user's, which says nothing of itself."""

    def __init__(self) -> None:
        self.uses = 0

    def serializer(self, _: str) -> Callable[[str], bytes]:
        self.uses += 1
        return str.encode

    def deserializer(self, _: str) -> Callable[[bytes], str]:
        return bytes.decode


@dataclass(frozen=True)
class Versioned(Cipher):
    """A serde of the user's that declares what it is."""

    version: int
    cache: dict[int, object] = field(default_factory=dict, compare=False)


class Kept(Processor[Any, Any, Any, Any]):
    """A processor that needs a few values to be made."""

    def __init__(self, least: int, names: object = ()) -> None:
        self.least = least

    def process(self, record: Any) -> None:
        pass


KEPT = partial(Kept, 3)


def processing(
    serde: object = None, supplier: Callable[[], Any] = KEPT, size_ms: int = 1_000
) -> Topology:
    topology = Topology()
    topology.add_source("read", "in", value_serde=serde)  # type: ignore[arg-type]
    topology.add_processor("keep", supplier, "read")
    store = Stores.persistent_window_store("windows", 60_000, size_ms)
    return topology.add_state_store(Stores.window_store_builder(store, None, serdes.LONG), "keep")


def test_what_is_held_by_objects_of_the_user_s_counts_as_far_as_it_is_declared() -> None:
    fingerprints = {
        name: topology_fingerprint(topology)
        for name, topology in {
            "none": processing(),
            "cipher": processing(Cipher()),
            "version 1": processing(Versioned(1)),
            "version 2": processing(Versioned(2)),
            "other arguments": processing(supplier=partial(Kept, 4)),
            "a function": processing(supplier=lambda: Kept(3)),
            "longer windows": processing(size_ms=2_000),
        }.items()
    }

    assert len(set(fingerprints.values())) == len(fingerprints)


def test_what_changes_while_records_are_processed_is_no_part_of_it() -> None:
    cipher, declared = Cipher(), Versioned(1)
    topologies = processing(cipher), processing(declared)
    before = [topology_fingerprint(topology) for topology in topologies]
    cipher.serializer("in")
    declared.cache[1] = object()

    assert [topology_fingerprint(topology) for topology in topologies] == before
    assert topology_fingerprint(processing(Cipher())) == before[0]


def test_object_that_holds_itself_has_a_fingerprint() -> None:
    rounds: list[object] = []
    rounds.append(rounds)

    assert topology_fingerprint(processing(supplier=partial(Kept, 3, rounds)))


SHOP = """
from dataclasses import dataclass
from functools import partial

from pystreams import StreamsBuilder, serdes
from pystreams.backfill.plan.fingerprint import declared_configuration, topology_fingerprint
from pystreams.config import StreamsConfig

class Custom:
    def serializer(self, topic): ...

    def deserializer(self, topic): ...

@dataclass(frozen=True)
class Known:
    codes: frozenset
    prices: dict

    def __call__(self, key, value):
        return value in self.codes

def skip(context, error): ...

builder = StreamsBuilder()
text = {"key_serde": serdes.STRING, "value_serde": Custom()}
known = Known(frozenset({"a", "b", "c", "d", "e", "f"}), {"x": 1.5, "y": None})
source = builder.stream("in", **text).filter(known)
source.group_by(lambda key, value: value, name="by-value", **text).count(name="counts")
source.map_values(partial(max, "m")).to("out", **text)

def told():
    config = {"application.id": "a", "bootstrap.servers": "none:9092"}
    config |= {"processing.exception.handler": skip, "default.key.serde": Custom()}
    found = declared_configuration(StreamsConfig.of(config))
    return topology_fingerprint(builder.build()) + str(sorted(found.items()))

if __name__ == "__main__":
    print(told())
"""
LOAD = """
import sys
from pathlib import Path
from pystreams.cli.application.topology_loader import _import_file
"""


def test_fingerprint_is_the_same_in_each_process_under_each_name_of_the_user_s_module(
    tmp_path: Path,
) -> None:
    file = tmp_path / "stores" / "shop.py"
    file.parent.mkdir()
    file.write_text(SHOP)

    def told(hash_seed: int, *arguments: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
        return subprocess.check_output(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, text=True
        )

    expected = told(1, str(file))

    assert " at 0x" not in expected
    assert told(2, "-m", "stores.shop") == expected
    assert told(3, "-c", "from stores.shop import told; print(told())") == expected
    taken = LOAD + "sys.modules['shop'] = sys; print(_import_file(Path('stores/shop.py')).told())"
    assert told(4, "-c", taken) == expected


def configured(**values: object) -> dict[str, str]:
    given = {name.replace("_", "."): value for name, value in values.items()}
    required = {"application.id": "app", "bootstrap.servers": "none:9092"}
    return declared_configuration(StreamsConfig.of({**required, **given}))


CONTINUES: Any = {"processing_exception_handler": "continue"}


@pytest.mark.parametrize(
    ("staged", "wanted", "keys"),
    [
        ({"default_key_serde": "string"}, {"default_key_serde": "long"}, ["default.key.serde"]),
        ({"default_value_serde": "json"}, {}, ["default.value.serde"]),
        (
            {},
            {"default_timestamp_extractor": "wallclock_timestamp"},
            ["default.timestamp.extractor"],
        ),
        (CONTINUES, {"processing_exception_handler": last}, ["processing.exception.handler"]),
        (CONTINUES, {}, ["processing.exception.handler"]),
        ({}, CONTINUES, []),
        ({}, {"default_key_serde": "string"}, []),
        ({}, {"num_stream_threads": 4, "bootstrap_servers": "elsewhere:9092"}, []),
    ],
)
def test_key_that_would_have_made_other_results_is_named(
    staged: dict[str, Any], wanted: dict[str, Any], keys: list[str]
) -> None:
    assert other_keys(configured(**staged), configured(**wanted)) == keys


def test_backfill_does_not_go_on_with_another_topology_or_configuration(tmp_path: Path) -> None:
    staging = StagingDirectory(tmp_path / "staged")

    def begin(topology: Topology, now_ms: int, **values: object) -> int:
        plan = TopologyPlan(topology, "app")
        return staging.begin(BackfillIdentity.of(plan, {}, {}, {}, configured(**values)), now_ms)

    begin(joining(), 7, default_value_serde="string")

    assert begin(joining(), 8, default_value_serde="string", **CONTINUES) == 7
    with pytest.raises(StagingError, match=r"\(its topology differ"):
        begin(joining(WITH_GRACE(9_000, 3_000)), 8, default_value_serde="string")
    with pytest.raises(StagingError, match=r"\(its default\.value\.serde differ"):
        begin(joining(), 8, default_value_serde="json")


def test_backfill_does_not_go_on_over_offsets_of_another_kind(tmp_path: Path) -> None:
    staging, plan = StagingDirectory(tmp_path / "staged"), TopologyPlan(joining(), "app")
    staging.begin(replace(BackfillIdentity.of(plan, {}, {}, {}), computed_offsets=True), 7)

    with pytest.raises(StagingError, match="its way to offsets differ"):
        staging.begin(BackfillIdentity.of(plan, {}, {}, {}), 8)


def test_backfill_that_was_begun_with_another_order_of_its_own_records_is_refused(
    tmp_path: Path,
) -> None:
    plan = TopologyPlan(read_again_before(), "app")
    assert topics_in_turn(plan) == {"alerts"}
    StagingDirectory(tmp_path).begin(BackfillIdentity.of(plan, {}, {}, {}), 7)
    now = BackfillIdentity.of(plan, {}, {}, {}, topics_in_turn=topics_in_turn(plan))

    with pytest.raises(StagingError, match=r"\(its order of own records differ from this one's\)"):
        StagingDirectory(tmp_path).begin(now, 8)

    StagingDirectory(tmp_path / "new").begin(now, 7)
    assert StagingDirectory(tmp_path / "new").begin(now, 8) == 7


def test_backfill_without_records_of_its_own_is_what_it_was_before() -> None:
    plan = TopologyPlan(two_repartitions(), "app")
    identity = BackfillIdentity.of(plan, {}, {}, {})
    noted = {name: part for name, part in asdict(identity).items() if name != "topics_in_turn"}

    assert topics_in_turn(plan) == frozenset()
    assert BackfillIdentity.read(noted) == identity
    text = json.dumps(noted, sort_keys=True).encode()
    assert identity.fingerprint == hashlib.sha256(text).hexdigest()[:16]
