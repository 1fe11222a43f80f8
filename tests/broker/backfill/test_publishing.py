"""Results of a backfill, published to a real broker by a process that is killed; then a live run.

Records keep arriving all the time. In the end each output holds 1, 2, ..., n a key for a
read_committed reader, and each store what its compacted changelog says.

`pytest -m sweep tests/broker/backfill` kills 20 times; `KILL_SEED=...` draws the same moments
again. A kill that comes too late, because a fast machine was through, is drawn again over another
publication.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.backfill import Published, PublishingSettings
from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.broker import DevelopmentBroker
from tests.backfill.in_process import Row, run
from tests.broker.application import Running
from tests.broker.backfill import publish
from tests.broker.backfill.publish import Job
from tests.broker.exactly_once import counting
from tests.broker.exactly_once.arena import (
    GROUPS,
    PARTITIONS,
    SUBTOPOLOGY_OF_STORE,
    Arena,
    one_to,
)
from tests.broker.exactly_once.feed import KEYS
from tests.broker.reading import (
    committed_offsets,
    group_members,
    produce,
    read_all,
)
from tests.broker.waiting import wait_until

ROUNDS = 20
RECORDS = 30
MOMENTS = 60
"""There are about a hundred transactions of so many records: enough for the kills."""
KILLS = 3
SCENES_MAX = 8
"""In so many publications all kills must have come in time."""
ARRIVING_PER_S = 1000
SEED = 5
ALL_KEYS = {f"key {number:02}".encode() for number in range(KEYS)}
ALL_GROUPS = {f"group {number}".encode() for number in range(GROUPS)}
CONFIG = {"statestore.cache.max.bytes": 0}
NO_CACHE: dict[str, object] = {"statestore_cache_max_bytes": 0}
SHORT_SESSION: dict[str, object] = {**NO_CACHE, "consumer_session_timeout_ms": 6000}


@dataclass(frozen=True)
class Scene:
    """A counting application that has never run, a history in its topic, and its results."""

    arena: Arena
    job: Job
    directory: Path
    started: list[Running] = field(default_factory=list)

    def publisher(self) -> Running:
        """Publish in a process of its own."""
        file = self.directory / "job.pickle"
        file.write_bytes(pickle.dumps(self.job))
        command = [sys.executable, str(publish.__file__), str(file)]
        root = str(Path(publish.__file__).parents[3])
        environment = os.environ | {"COUNTING_NAME": self.arena.name, "PYTHONPATH": root}
        log = self.directory / f"publisher-{len(self.started)}.log"
        self.started.append(Running(command, environment, log))
        return self.started[-1]

    def publish(self, **settings: object) -> Published:
        """Publish in this process."""
        chosen = replace(self.job.settings, **settings)  # type: ignore[arg-type]
        return replace(self.job, settings=chosen).run()

    def check(self, rounds: int) -> None:
        outputs = self.arena.outputs()
        assert outputs.echo == one_to(rounds, ALL_KEYS)
        assert outputs.by_key == one_to(rounds, ALL_KEYS)
        assert outputs.by_group == one_to(rounds * KEYS // GROUPS, ALL_GROUPS)
        for store in SUBTOPOLOGY_OF_STORE:
            assert self.arena.stored(store) == self.arena.changelog(store)


@pytest.fixture
def make_scene(
    broker: DevelopmentBroker,
    admin: AdminClient,
    unique_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[], Scene]]:
    made: list[Scene] = []

    def make() -> Scene:
        name = f"{unique_name}-{len(made)}"
        monkeypatch.setenv("COUNTING_NAME", name)
        home = tmp_path / name
        home.mkdir()
        made.append(scene_in(Arena.make(broker, admin, name, home)))
        return made[-1]

    yield make
    for running in (running for scene in made for running in scene.started):
        running.kill()


@pytest.fixture
def scene(make_scene: Callable[[], Scene]) -> Scene:
    return make_scene()


def scene_in(arena: Arena) -> Scene:
    """Write the history, and run a backfill over it."""
    name, topic = arena.name, f"{arena.name}-in"
    keys = sorted(ALL_KEYS)
    rounds = [(key, number.to_bytes(8, "big")) for number in range(1, ROUNDS + 1) for key in keys]
    produce(arena.servers, topic, rounds)
    history = [
        Row(
            topic,
            message.partition() or 0,
            message.offset() or 0,
            message.timestamp()[1],
            message.key(),
            message.value(),
        )
        for message in read_all(arena.servers, topic)
    ]
    config = {"application.id": name, **CONFIG}
    counts = {f"{name}-{end}": PARTITIONS for end in ("in", "echo", "by-key", "by-group")}
    results = run(counting.topology(), config, history, counts, arena.directory / "backfill")
    settings = PublishingSettings(with_outputs=True, transaction_records=RECORDS)
    job = Job(arena.servers, name, results, counts, settings)
    return Scene(arena, job, arena.directory)


def draws(*, same: bool) -> random.Random:
    """Return what draws the moments: the same in each run, or others."""
    given = os.environ.get("KILL_SEED")
    seed = SEED if same else random.SystemRandom().getrandbits(32)
    seed = seed if given is None else int(given)
    print(f"KILL_SEED={seed}")
    return random.Random(seed)


@pytest.mark.parametrize(
    "kills", [KILLS, pytest.param(20, marks=[pytest.mark.sweep, pytest.mark.timeout(600)])]
)
def test_killed_publisher_goes_on_and_the_live_application_takes_over(
    make_scene: Callable[[], Scene], kills: int
) -> None:
    draw = draws(same=kills == KILLS)
    killed = 0
    for _ in range(SCENES_MAX):
        killed += killed_and_taken_over(make_scene(), kills - killed, draw)
        if killed == kills:
            break

    assert killed == kills, f"{SCENES_MAX} publications, and {killed} kills in time"


def killed_and_taken_over(scene: Scene, kills: int, draw: random.Random) -> int:
    """Kill the publisher, then let it end and the application take over; see that all is there.

    Returns:
        How many kills came in time.
    """
    arena = scene.arena
    feed = arena.feed(ARRIVING_PER_S)
    feed.rounds = ROUNDS
    with arena.application("exactly_once", **NO_CACHE) as application:
        with feed:
            killed = killed_until_published(scene, kills, draw)
            last = scene.publisher()
            assert last.ended() == 0, last.tail()
            print(last.tail())
        running = application.start()
        arena.wait_for_outputs(feed.rounds, running)
        running.wait_for_tasks(2 * PARTITIONS)
        running.stop()
    scene.check(feed.rounds)
    return killed


def killed_until_published(scene: Scene, kills: int, draw: random.Random) -> int:
    """Start and kill a publisher; return how many kills came before all was published."""
    for killed in range(kills):
        running = scene.publisher()
        if draw.random() < 0.25:
            # The moment itself: a delay drawn from the seed, not a wait for anything.
            threading.Event().wait(draw.uniform(0.3, 1.2))
        else:
            wait_for_transactions(running, draw.randint(1, MOMENTS // kills))
            threading.Event().wait(draw.uniform(0, 0.02))
        running.kill()
        if running.process.returncode == 0:
            return killed
        assert running.process.returncode == -signal.SIGKILL, running.tail()
    return kills


def wait_for_transactions(running: Running, count: int) -> None:
    """Wait until a publisher has written so many, or has none left."""
    wait_until(
        lambda: len(running.lines("transaction")) >= count or not running.alive(),
        f"{count} transactions",
        told=running.tail,
    )


def test_two_publishers_at_once_publish_once(scene: Scene) -> None:
    scene = replace(scene, job=replace(scene.job, settings=PublishingSettings(True, 5)))
    first = scene.publisher()
    first.wait_for("transaction", count=3)
    second = scene.publisher()
    codes = sorted([first.ended(), second.ended()])

    assert codes == [0, 1], f"{first.tail()}\n{second.tail()}"
    outputs = scene.arena.outputs()
    assert outputs.by_key == one_to(ROUNDS, ALL_KEYS)
    assert outputs.by_group == one_to(ROUNDS * KEYS // GROUPS, ALL_GROUPS)


@pytest.mark.parametrize(
    ("guarantee", "protocol"), [("at_least_once", "classic"), ("exactly_once_v2", "consumer")]
)
def test_state_alone_is_taken_over_and_published_twice_changes_nothing(
    scene: Scene, guarantee: str, protocol: str
) -> None:
    """Producers, members and offsets of these applications differ in all but the group's id."""
    arena = scene.arena
    scene = replace(scene, job=replace(scene.job, protocol=protocol))
    once = scene.publish(with_outputs=False)
    again = scene.publish(with_outputs=False)
    state = sum(result.kind is ResultKind.STATE for result in scene.job.results)
    assert (once.records, once.was_done, again.was_done) == (state, False, True)

    feed = arena.feed(ARRIVING_PER_S)
    feed.rounds = ROUNDS
    with arena.application(guarantee, **NO_CACHE, group_protocol=protocol) as application:
        with feed:
            running = application.start()
            running.wait_for_tasks(2 * PARTITIONS)
        arena.wait_for_outputs(feed.rounds, running)
        running.stop()

    expected = list(range(ROUNDS + 1, feed.rounds + 1))
    assert arena.outputs().by_key == dict.fromkeys(ALL_KEYS, expected)
    for store in SUBTOPOLOGY_OF_STORE:
        assert arena.stored(store) == arena.changelog(store)


def test_running_application_is_refused(scene: Scene) -> None:
    with scene.arena.application("exactly_once_v2").running() as running:
        running.wait_for_tasks(2 * PARTITIONS)
        with pytest.raises(PublishingRefusedError, match=r"has members .*Stop it"):
            scene.publish()


def test_application_that_has_run_is_refused_and_keeps_its_offsets(
    scene: Scene, admin: AdminClient
) -> None:
    name = scene.arena.name
    with scene.arena.application("exactly_once", **SHORT_SESSION).running() as running:
        scene.arena.wait_for_outputs(ROUNDS, running)
        running.stop()
    wait_until(lambda: group_members(admin, name) == 0, "the end of the member's session")
    before = committed_offsets(admin, name)

    with pytest.raises(PublishingRefusedError, match="committed offsets of its own"):
        scene.publish()
    assert committed_offsets(admin, name) == before


def test_live_application_does_not_start_on_half_a_publication(scene: Scene) -> None:
    publisher = scene.publisher()
    publisher.wait_for("transaction", count=3)
    publisher.kill()

    with scene.arena.application("at_least_once", **NO_CACHE).running() as running:
        assert running.ended() == 1
        (line,) = running.lines("stopped by an error")
        assert "a backfill or rescale is publishing this application's state" in line["error"]
