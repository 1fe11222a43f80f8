"""A broker that was made anew while the state directory stayed: refused, with cures that work."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pystreams import ChangelogLossError, FatalStreamsError, StreamsError
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import Application, stored_counts

pytestmark = pytest.mark.simulation

each_guarantee = pytest.mark.parametrize(
    "guarantee", ["at_least_once", "exactly_once", "exactly_once_v2"]
)
STEPS = 100


class Wiped:
    """An application that has counted some keys, over a broker that has lost it all.

    The topic it reads is there again, and holds one more `a`.
    """

    def __init__(self, root: Path, guarantee: str, keys: str = "aab") -> None:
        self.app = Application(root, guarantee)
        self.process = self.app.process()
        self.process.start()
        self.app.feed(*keys)
        self.app.run_until_processed(self.process)
        self.process.stop()
        for topic in self.app.broker.partition_counts():
            self.app.broker.delete_topic(topic)
        self.app.broker.group.offsets.clear()
        for topic in ("in", "out"):
            self.app.broker.create_topic(topic, 1)
        self.app.feed("a")

    def refusal(self, **config: str) -> StreamsError:
        process = self.started_with(**config)
        try:
            process.start()
            for _ in range(STEPS):
                process.step()
        except StreamsError as refused:
            return refused
        raise AssertionError("it has started")

    def counts(self, **config: str) -> dict[str, int]:
        process = self.started_with(**config)
        process.start()
        self.app.run_until_processed(process)
        process.stop()
        return stored_counts(process)

    def started_with(self, **config: str) -> SimulatedProcess:
        own = {name.replace("_", "."): value for name, value in config.items()}
        return self.app.process(config=own, disk=self.process.disk)


@each_guarantee
def test_it_is_refused_and_the_state_is_not_touched(guarantee: str, tmp_path: Path) -> None:
    wiped = Wiped(tmp_path, guarantee)
    for _ in range(2):
        refused = wiped.refusal()
        assert isinstance(refused, ChangelogLossError)
        assert "of another topic of that name" in str(refused)
        assert stored_counts(wiped.process) == {"a": 2, "b": 1}


@each_guarantee
@pytest.mark.parametrize("policy", ["restore", "empty"])
def test_state_that_is_given_up_is_made_of_what_the_broker_holds(
    guarantee: str, policy: str, tmp_path: Path
) -> None:
    wiped = Wiped(tmp_path, guarantee)
    assert wiped.counts(changelog_loss_policy=policy) == {"a": 1}


@each_guarantee
@pytest.mark.parametrize("keys", ["aab", "abc"])
def test_state_that_is_kept_goes_on_with_the_input_that_was_accepted(
    guarantee: str, keys: str, tmp_path: Path
) -> None:
    """What is kept holds what was read of the former input: the second refusal asks about that."""
    wiped = Wiped(tmp_path, guarantee, keys)
    refused = wiped.refusal(changelog_loss_policy="keep")
    topic_id = wiped.app.broker.topic_ids()["in"]
    assert isinstance(refused, FatalStreamsError)
    assert f"accepted.source.topic.ids=in:{topic_id}" in str(refused)

    accepted = {"accepted_source_topic_ids": f"in:{topic_id}"}
    kept = Counter(keys) + Counter("a")
    assert wiped.counts(**accepted) == kept
    wiped.app.feed("b")
    assert wiped.counts() == kept + Counter("b")
