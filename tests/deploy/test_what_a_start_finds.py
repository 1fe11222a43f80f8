"""What `check` says of a store, and what is in it once the new topology has started.

The old topology runs in the simulation, with stores on the disk and changelogs; then the new one
starts over what that left.
"""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path

import pytest

from pystreams.deploy.fingerprint import fingerprint_of
from pystreams.deploy.store_rules import is_empty_at_each_start
from pystreams.deploy.verdicts import Verdict
from pystreams.errors import FatalStreamsError, StreamsError
from pystreams.testing.simulation import SimulatedDisk, SimulatedProcess
from tests.deploy.pairs import BEHIND_ANOTHER, COUNT, ON_DISK, PAIRS, UNLOGGED, topology_of
from tests.deploy.test_comparison import compared
from tests.simulation.applications import PATIENCE, Application, tasks_of

Rows = dict[str, set[tuple[bytes | None, bytes | None]]]

READ = ("in", "first", "others", "other", "rows", "a", "b")
NOT_BY_ITS_ROWS = {
    "one window of all time that begins later": "rows of the former window stay under their key",
    "a global table that becomes a table": "its tasks read its rows with all other input",
    "another number of partitions of a repartition topic": "a broker refuses it",
}
FILLED = {name for name in PAIRS if "becomes a global" in name}
"""They may have rows of their topic that are as those that were there."""


class Deployed:
    """An application that is deployed again, over what it left on its disk and in its topics."""

    def __init__(self, directory: Path) -> None:
        self._app = Application(directory)
        for topic in ("copy", *READ[1:]):
            self._app.broker.create_topic(topic, 1)
        self._disk = SimulatedDisk(directory / "disk", self._app.faults)

    def feed(self) -> None:
        """Write two values of each of two keys to each topic."""
        records = itertools.product((b"1", b"2"), (b"ann", b"bob"), READ)
        for number, (value, key, topic) in enumerate(records):
            self._app.broker.produce(topic, key, value, 1_000_000 + number * 500)

    def run(self, code: str, steps: int = 0, **config: str) -> Rows:
        """Start a topology, and step it when all its tasks run; return what its stores hold."""
        process = SimulatedProcess(
            topology_of(code),
            {
                "application.id": "app",
                "processing.guarantee": "exactly_once",
                "commit.interval.ms": 100,
                **{name.replace("_", "."): value for name, value in config.items()},
            },
            self._app.broker,
            self._disk,
            real_stores=True,
        )
        process.start()
        for _ in range(PATIENCE):
            if len(tasks_of(process)) == len(process.plan.subtopologies):
                break
            process.step()
        for _ in range(steps):
            self._app.clock.advance_ms(60)
            process.step()
            self._app.broker.settle()
        rows = rows_of(process)
        process.stop()
        self._app.broker.settle()
        return rows


def rows_of(process: SimulatedProcess) -> Rows:
    """Return all that the stores of a process hold, as their changelogs would tell it."""
    holders = [task.state_manager for task in tasks_of(process).values()]
    stores = [each for holder in holders for each in holder.stores().items()]
    if process.global_state is not None:
        stores += process.global_state.task.state.stores().items()
    rows: Rows = {name: set() for name, _ in stores}
    for name, store in stores:
        rows[name] |= {record[:2] for record in store.changelog_records()}
    return rows


def check_told(old: str, new: str, directory: Path, *, filled: bool = False) -> None:
    """See that a start finds in each store what is told of it."""
    deployed = Deployed(directory)
    verdicts = {judged.name: judged.verdict for judged in compared(old, new).judgements}
    deployed.feed()
    had = deployed.run(old, 40)
    if any(verdict is Verdict.REFUSED for verdict in verdicts.values()):
        with pytest.raises(StreamsError):
            deployed.run(new)
        return
    has = deployed.run(new)
    for name, facts in fingerprint_of(topology_of(old))["stores"].items():
        if is_empty_at_each_start(facts):
            had[name] = set()
    for name in has:
        if verdicts[name] in {Verdict.KEPT, Verdict.REBUILT}:
            assert has[name] == had[name]
        elif verdicts[name] in {Verdict.NEW, Verdict.EMPTY} and not filled:
            assert has[name] == set()


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, pair in PAIRS.items()
        if not {Verdict.WRONG, Verdict.UNSURE} & set(pair.verdicts.values())
        and name not in NOT_BY_ITS_ROWS
    ],
)
def test_a_start_finds_in_each_store_what_check_has_told(name: str, tmp_path: Path) -> None:
    check_told(PAIRS[name].old, PAIRS[name].new, tmp_path, filled=name in FILLED)


WAYS = [
    f"words.group_by_key().count(materialized=Materialized({', '.join(options)}))"
    for options in itertools.product(
        ['name="counts"'],
        ["store_type=StoreEngine.ROCKSDB", "store_type=StoreEngine.IN_MEMORY"],
        ["logging=True", "logging=False"],
        ["ttl_ms=None", "ttl_ms=1_000_000_000"],
    )
]
"""All ways in which rows may be kept."""
DEPLOYS = [
    (old, f"{place}{new}")
    for old, new, place in itertools.product(WAYS, WAYS, ("", BEHIND_ANOTHER))
]


@pytest.mark.parametrize(("old", "new"), random.Random(2).sample(DEPLOYS, 40))
def test_however_rows_are_kept_and_are_to_be_a_start_finds_what_check_has_told(
    old: str, new: str, tmp_path: Path
) -> None:
    check_told(old, new, tmp_path)


OF_OTHERS = f'words = builder.stream("others", **text)\n{COUNT}'


def test_rows_of_other_topics_are_refused_with_exactly_once_until_the_cure_is_followed(
    tmp_path: Path,
) -> None:
    (judged,) = compared(COUNT, OF_OTHERS).judgements
    deployed = Deployed(tmp_path)
    deployed.feed()
    had = deployed.run(COUNT, 40)

    assert "with exactly-once the start is refused over them" in judged.in_words()
    with pytest.raises(FatalStreamsError) as refused:
        deployed.run(OF_OTHERS)
    deployed.run(OF_OTHERS.replace("counts", "anew"))

    asked = re.search(r"set accepted\.source\.topic\.ids=(.*)", str(refused.value))
    assert asked is not None
    assert deployed.run(OF_OTHERS, accepted_source_topic_ids=asked[1]) == had


@pytest.mark.parametrize(("guarantee", "keeps"), [("exactly_once", False), ("at_least_once", True)])
def test_a_store_that_gets_a_changelog_starts_empty_with_exactly_once(
    guarantee: str, keeps: bool, tmp_path: Path
) -> None:
    (judged,) = compared(UNLOGGED.format(ON_DISK), COUNT).judgements
    deployed = Deployed(tmp_path)
    deployed.feed()
    had = deployed.run(UNLOGGED.format(ON_DISK), 40, processing_guarantee=guarantee)

    has = deployed.run(COUNT, processing_guarantee=guarantee)

    assert "with exactly-once it is rebuilt from it, and starts empty" in judged.in_words()
    assert len(had["counts"]) == 2
    assert has == (had if keeps else {"counts": set()})
