"""Keys of other processes: three of them, twelve partitions, one is killed and comes back."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import pytest

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application, Running
from tests.broker.waiting import wait_until
from tests.http.asking import Answer, KeptConnection, ask
from tests.http.asking_owners import COMMITTED, OwnersAsked, asking_owners
from tests.http.conftest import Topics
from tests.ports import ports_in_a_row

PARTITIONS = 12
_log = logging.getLogger(__name__)
KEYS = [f"key-{number}" for number in range(36)]
EACH = 3
UNCOMMITTED = {"isolation": "read_uncommitted"}


class Process:
    """One process of the application, on a port and with a state directory of its own."""

    def __init__(self, application: Application, number: int) -> None:
        (port,) = ports_in_a_row(1)
        self.server = f"127.0.0.1:{port}"
        self.topic = application.id
        self._application = application
        self._directory = application.directory / f"state-{number}"
        self.running = self.start()
        # Both ways to ask, which the server tells apart, in turn.
        self._kept = KeptConnection(self.server)
        self._ways = cycle([self.ask, self._kept.ask, self.ask, self._kept.ask, self._kept.ask])

    def start(self) -> Running:
        self.running = self._application.start("--http", self.server, state_dir=self._directory)
        return self.running

    def is_up(self) -> bool:
        """Return whether it was seen to be served, and was not killed since."""
        return self.running.alive() and bool(self.running.lines("served over HTTP"))

    def ask(self, path: str, **parameters: Any) -> Answer:
        return ask(f"http://{self.server}", path, **parameters)

    def ask_for(self, key: str, **parameters: Any) -> Answer:
        return next(self._ways)(f"/v1/stores/counts/{key}", **parameters)

    def close(self) -> None:
        self._kept.close()
        self.running.kill()

    def here(self) -> list[int]:
        """Return the partitions it has; none while it starts."""
        with contextlib.suppress(OSError):
            answer = self.ask("/v1/stores/counts")
            if answer.status == 200:
                return [part["partition"] for part in answer.json()["partitions"]]
        return []


@pytest.fixture
def processes(broker: DevelopmentBroker, topics: Topics, tmp_path: Path) -> Iterator[list[Process]]:
    topic = topics.make("processes", PARTITIONS)
    topics.write(topic, [(key, "x", time) for time in range(EACH) for key in KEYS])
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 100,
    }
    program = Path(__file__).parent / "counting.py"
    application = Application(topic, tmp_path, program, settings, {"HTTP_TOPIC": topic})
    started: list[Process] = []
    try:
        started.extend(Process(application, number) for number in range(3))
        yield started
    finally:
        for process in started:
            process.close()


@pytest.fixture
def owners_asked(processes: list[Process]) -> Iterator[OwnersAsked]:
    with asking_owners(f"http://{processes[1].server}", KEYS) as asked:
        yield asked


def test_each_process_answers_all_keys_and_never_wrongly(
    processes: list[Process], owners_asked: OwnersAsked
) -> None:
    """What is answered while one is killed and comes back is right, or says what to do.

    So it is for a client that asks owners, for which nothing is passed on once it knows them.
    """
    killed, *others = processes
    wait_for_shares(processes)
    shares = {number: process.server for process in processes for number in process.here()}
    assert len(set(shares.values())) == 3
    wait_until(lambda: all(_all_answer(process) for process in processes), "all keys everywhere")

    for process in processes:
        for key in KEYS:
            answer = process.ask_for(key, **COMMITTED)
            owner = shares[answer.json()["partition"]]
            expected = None if owner == process.server else owner
            assert answer.headers["x-pystreams-owner"] == expected
            assert list(answer.json()["position"].values()) != []
        ranges = process.ask("/v1/stores/counts").json()
        assert sorted(process.here() + ranges["elsewhere"]) == [*range(PARTITIONS)]
        away = ranges["elsewhere"][0]
        asked = process.ask("/v1/stores/counts", partition=away).json()
        assert [part["partition"] for part in asked["partitions"]] == [away]
    wait_until(owners_asked.has_nothing_passed_on, "each is asked for its own")
    assert owners_asked.passed_on.count

    killed.running.kill()
    assert owners_asked.is_right(EACH)
    refusals = [answer for process in others for answer in _asked(process)]
    assert {answer.status for answer in refusals} <= {200, 503}
    told = [answer.json() for answer in refusals if answer.status == 503]
    assert any(refusal.get("owner") == killed.server for refusal in told)

    killed.start()

    def all_again() -> bool:
        with contextlib.suppress(OSError):
            return {200} == {answer.status for process in processes for answer in _asked(process)}
        return False

    wait_until(all_again, "all keys again", told=killed.running.tail)
    assert owners_asked.is_right(EACH)
    wait_until(owners_asked.has_nothing_passed_on, "each is asked for its own again")


def wait_for_shares(processes: list[Process]) -> None:
    wait_until(
        lambda: (
            sorted(chain(*(process.here() for process in processes))) == [*range(PARTITIONS)]
            and all(process.here() for process in processes)
        ),
        "all partitions, in three processes",
        told=lambda: "\n".join(process.running.tail() for process in processes),
    )


@pytest.mark.sweep
def test_what_is_counted_meanwhile_is_never_seen_to_fall(
    processes: list[Process], topics: Topics
) -> None:
    """Committed counts, each asked for no earlier than the last answer, while one is killed.

    What is not committed is ahead of that, if anything, and never of what was written.
    """
    wait_for_shares(processes)
    wait_until(lambda: all(_all_answer(process) for process in processes), "all keys everywhere")
    topic = processes[0].topic
    asked = Asked(processes, topic)
    for number in range(EACH, EACH + 6):
        if number == EACH + 2:
            processes[1].running.kill()
        if number == EACH + 4:
            processes[1].start()
        topics.write(topic, [(key, "x", number) for key in KEYS])
        asked.written += 1
        for _ in range(3):
            asked.ask_all()

    def all_counted() -> bool:
        asked.ask_all()
        return all(asked.counts[key] == asked.written for key in KEYS)

    wait_until(all_counted, "all is counted", told=lambda: str(asked.counts))
    assert asked.uncommitted
    taken_s = sorted(asked.taken_s)
    per_s, p99_s = len(taken_s) / sum(taken_s), taken_s[len(taken_s) * 99 // 100]
    _log.info("%d requests, %.0f a second, p99 %.1f ms", len(taken_s), per_s, p99_s * 1000)


class Asked:
    """Asks processes in turn for all keys, and remembers the last answers.

    Half of the questions are for what is not committed: what a kill may take back.

    Attributes:
        written: How many records each key has.
        counts: The last committed count of each key.
        uncommitted: How many answers were of what is not committed.
        taken_s: How long each answer took (s).
    """

    def __init__(self, processes: list[Process], topic: str) -> None:
        self._turns = cycle(processes)
        self._topic = topic
        # Of another length than the keys: each is asked for in both ways.
        self._levels = cycle([COMMITTED] * 4 + [UNCOMMITTED] * 3)
        self._positions: dict[str, dict[str, Any]] = {}
        self.written = EACH
        self.counts = dict.fromkeys(KEYS, 0)
        self.uncommitted = 0
        self.taken_s: list[float] = []

    def ask_all(self) -> None:
        for key in KEYS:
            process, isolation = next(self._turns), next(self._levels)
            was_up, began_s = process.is_up(), time.monotonic()
            try:
                answer = process.ask_for(
                    key,
                    min_position=json.dumps(self._positions.get(key, {})),
                    **isolation,
                )
            except OSError:
                assert not was_up
                continue
            self.taken_s.append(time.monotonic() - began_s)
            assert answer.status in (200, 503), answer.body
            if answer.status == 200:
                found = answer.json()
                assert self.counts[key] <= found["value"] <= self.written, (key, isolation, found)
                if isolation is UNCOMMITTED:
                    self.uncommitted += 1
                    continue
                self.counts[key] = found["value"]
                self._positions[key] = found["position"]


def test_a_request_that_was_forwarded_is_not_forwarded_again(processes: list[Process]) -> None:
    wait_until(lambda: len(processes[0].here()) == PARTITIONS // 3, "a share")
    process = processes[0]
    away = process.ask("/v1/stores/counts").json()["elsewhere"][0]

    answer = process.ask(
        "/v1/stores/counts", partition=away, headers={"x-pystreams-forwarded": "1"}
    )

    assert (answer.status, answer.json()["reason"]) == (421, "NOT_PRESENT")


def test_processes_of_one_command_on_all_addresses_answer_for_each_other(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    topic, (first, second) = topics.make("children", PARTITIONS), ports_in_a_row(2)
    topics.write(topic, [(key, "x", 0) for key in KEYS])
    token = tmp_path / "token"
    token.write_text("secret")
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "application.server": f"127.0.0.1:{first}",
        "commit.interval.ms": 100,
    }
    program = Path(__file__).parent / "counting.py"
    application = Application(topic, tmp_path, program, settings, {"HTTP_TOPIC": topic})
    options = ("--processes", "2", "--http", f"0.0.0.0:{first}", "--http-token-file", str(token))

    def owners_told_by(port: int) -> set[str | None]:
        """Return who has the keys by one process; nobody while a key has no answer."""
        headers = {"authorization": "Bearer secret"}
        with contextlib.suppress(OSError):
            paths = (f"/v1/stores/counts/{key}" for key in KEYS)
            answers = [ask(f"http://127.0.0.1:{port}", path, headers=headers) for path in paths]
            if all(answer.status == 200 for answer in answers):
                return {answer.headers["x-pystreams-owner"] for answer in answers}
        return set()

    with application.running(*options) as running:
        running.wait_until(
            lambda: (
                owners_told_by(first) == {None, f"127.0.0.1:{second}"}
                and owners_told_by(second) == {None, f"127.0.0.1:{first}"}
            ),
            "all keys of both processes",
        )
        running.stop()


def _asked(process: Process) -> list[Answer]:
    """Return the answers to all keys; each is right, or none."""
    answers = [process.ask_for(key, **COMMITTED) for key in KEYS]
    for answer in answers:
        assert answer.status in (200, 503), answer.body
        if answer.status == 200:
            assert answer.json()["value"] == EACH
    return answers


def _all_answer(process: Process) -> bool:
    answers = [process.ask_for(key, **COMMITTED) for key in KEYS]
    return all(answer.status == 200 and answer.json()["value"] == EACH for answer in answers)
