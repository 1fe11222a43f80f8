"""A fingerprint of which a part is gone, or another thing, in a file or in a state directory."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from pystreams import StreamsConfig
from pystreams.cli.commands.development.check import check
from pystreams.deploy.fingerprint import Fingerprint, fingerprint_of, former_stores
from pystreams.deploy.shared_fingerprint import shared
from pystreams.errors import TopologyError
from pystreams.runtime.adapters.state_directory import StateDirectory
from pystreams.runtime.maintenance.earlier_topology import FINGERPRINT_FILE, EarlierTopology
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.deploy.pairs import BY_FOREIGN_KEY, COUNT, OFTEN, TUMBLING, topology_of

CONFIG = StreamsConfig.of({"application.id": "app", "bootstrap.servers": "none:1"})
TOPICS = dict.fromkeys(("in", "out", "rows", "goods"), 2)
CODE = f"""
{OFTEN.format(TUMBLING, "windows")}
{BY_FOREIGN_KEY.format(orders="rows", key="STRING", goods="goods", of="LONG")}
once = words.distinct(within_ms=10, name="once").repartition(name="spread", **text)
once.group_by_key().count(materialized=Materialized(name="counts", logging=False))
words.group_by_key().aggregate(
    aggregations.several(best=aggregations.top_n(3, by=len), n=aggregations.count()),
    name="several",
)
words.group_by_key().count(name="fading", ttl_ms=60_000, store_type=StoreEngine.IN_MEMORY)
words.to("in")
"""
FILTER = "words = words.filter(lambda key, word: True)\n"
OLD = fingerprint_of(topology_of(CODE))
OLD["former_stores"] = former_stores(
    fingerprint_of(topology_of(COUNT.replace("counts", "former"))), OLD
)
NEW = fingerprint_of(topology_of(f"{FILTER}{CODE}"))

OTHERS: list[Any] = [None, True, 0, -1, 1.0, "", "\x1b[2J", "\ud800", [], [1], [[]], {}, {"a": 1}]
OTHERS += [{"name": 1, "format": None}, {"type": "SessionWindows"}, [{"type": "TimeWindows"}]]


def paths_in(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    named = part.items() if isinstance(part, dict) else ()
    for key, value in (*named, *(enumerate(part) if isinstance(part, list) else ())):
        yield from paths_in(value, (*path, key))


PATHS = sorted({*paths_in(OLD), *paths_in(NEW)} - {()}, key=repr)


@st.composite
def damages(draw: st.DrawFn) -> list[tuple[tuple[Any, ...], bool, Any]]:
    one = st.tuples(st.sampled_from(PATHS), st.booleans(), st.sampled_from(OTHERS))
    return draw(st.lists(one, min_size=1, max_size=2))


def damaged(whole: Fingerprint, damage: list[tuple[tuple[Any, ...], bool, Any]]) -> str:
    """Return a fingerprint as JSON, with parts removed or replaced."""
    found = json.loads(json.dumps(whole))
    for (*path, last), removed, other in damage:
        place = found
        try:
            for key in path:
                place = place[key]
            if removed:
                del place[last]
            else:
                place[last] = other
        except (LookupError, TypeError):
            continue  # What it was part of is gone.
    return json.dumps(found)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(check, [str(argument) for argument in arguments])


@pytest.mark.property
@settings(deadline=None)
@given(damage=damages(), which=st.sampled_from(("old", "new", "both")), as_json=st.booleans())
def test_check_ends_with_a_verdict_or_names_the_file(
    damage: list[tuple[tuple[Any, ...], bool, Any]], which: str, as_json: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder) / "old.json", Path(folder) / "new.json"
        old.write_text(json.dumps(OLD) if which == "new" else damaged(OLD, damage))
        new.write_text(json.dumps(NEW) if which == "old" else damaged(NEW, damage))

        answer = run(old, new, *(["--json"] if as_json else []))

    assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
    assert answer.exit_code in {0, 1, 2}
    if answer.exit_code == 2:
        assert str(old) in answer.stderr or str(new) in answer.stderr
        assert "make it again" in answer.stderr


@pytest.mark.property
@settings(deadline=None)
@given(damage=damages())
def test_a_start_goes_on_or_is_refused_with_the_file(
    damage: list[tuple[tuple[Any, ...], bool, Any]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = StateDirectory(Path(folder), "app")
        file = directory.directory / FINGERPRINT_FILE
        file.parent.mkdir(exist_ok=True)
        file.write_text(damaged(OLD, damage))
        try:
            start(directory)
        except TopologyError as error:
            refused = str(error)
        else:
            refused = ""
            shared(json.loads(file.read_text()))
        finally:
            directory.close()

    assert not refused or str(file) in refused


DEEP = "[" * 100_000
NESTED = f'{json.dumps(OLD)[:-1]}, "more": {"[" * 150}{"]" * 150}}}'


@pytest.mark.parametrize("text", [DEEP, NESTED], ids=["deep", "nested"])
def test_what_is_nested_too_deeply_is_no_topology(tmp_path: Path, text: str) -> None:
    new = tmp_path / "new.json"
    new.write_text(json.dumps(NEW))
    directory = StateDirectory(tmp_path, "app")
    file = directory.directory / FINGERPRINT_FILE
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)

    checked = run(file, new)
    with capture_logs() as logs:
        start(directory)
    directory.close()

    assert (checked.exit_code, str(file) in checked.stderr) == (2, True)
    assert [(line["log_level"], line["file"]) for line in logs] == [("warning", str(file))]
    assert json.loads(file.read_text())["stores"].keys() == NEW["stores"].keys()


def test_a_damaged_state_directory_is_told_with_what_else_to_name(tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    new.write_text(json.dumps(NEW))
    (tmp_path / FINGERPRINT_FILE).write_text(json.dumps({**OLD, "stores": {"counts": {}}}))

    answer = run(tmp_path, new)

    assert answer.exit_code == 2
    assert f"{tmp_path / FINGERPRINT_FILE} is damaged" in answer.stderr
    assert "name the old topology's file" in answer.stderr


def test_a_new_topology_that_an_earlier_pystreams_has_described_is_compared(
    tmp_path: Path,
) -> None:
    described = json.loads(json.dumps(NEW))
    for facts in (*described["stores"].values(), *described["repartition_topics"].values()):
        del facts["key_windows"]
        facts.pop("partitioner", None)
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(NEW))
    new.write_text(json.dumps(described))

    answer = run(old, new)

    assert answer.exit_code == 0, answer.output


def start(directory: StateDirectory) -> None:
    """Do what a start does, without the broker's part."""
    plan = TopologyPlan(topology_of(f"{FILTER}{CODE}"), "app")
    earlier = EarlierTopology(directory, plan, CONFIG)
    earlier.check()
    earlier.learn(plan_partitions(plan, TOPICS))
    earlier.keep()
