"""`pystreams run --backfill`: history on Spark, then live, in one command, started again and again.

Records arrive all the time. In the end each output holds 1, 2, ..., n a key, over what was history
and what was live.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application, Running
from tests.broker.backfill.spark_processes import OPTIONS_FOR_FEW_ROWS
from tests.broker.exactly_once.arena import GROUPS, Arena, one_to
from tests.broker.exactly_once.feed import KEYS
from tests.broker.reading import produce

ROUNDS = 20
SPARK_DEADLINE_S = 300.0
ALL_KEYS = {f"key {number:02}".encode() for number in range(KEYS)}
ALL_GROUPS = {f"group {number}".encode() for number in range(GROUPS)}
STREAMS_NOW = "the backfill is done, and the application goes on behind it"

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def arena(broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path) -> Arena:
    return Arena.make(broker, admin, unique_name, tmp_path)


def write_rounds(arena: Arena, first: int, last: int) -> None:
    rounds = range(first, last + 1)
    records = [(key, number.to_bytes(8, "big")) for number in rounds for key in sorted(ALL_KEYS)]
    produce(arena.servers, f"{arena.name}-in", records)


def start(
    application: Application, arena: Arena, *, above: int = ROUNDS, processes: int = 2
) -> Running:
    output = arena.directory / "staged"
    options = ["--backfill-above", str(above), "--backfill-output", str(output)]
    options += ["--master", "local[2]", "--processes", str(processes)]
    return application.start("--backfill", *options, *OPTIONS_FOR_FEW_ROWS)


def check_outputs(arena: Arena, rounds: int) -> None:
    outputs = arena.outputs()
    assert outputs.echo == one_to(rounds, ALL_KEYS)
    assert outputs.by_key == one_to(rounds, ALL_KEYS)
    assert outputs.by_group == one_to(rounds * KEYS // GROUPS, ALL_GROUPS)


@pytest.mark.parametrize("is_stopped", [False, pytest.param(True, marks=pytest.mark.sweep)])
def test_backfills_first_then_streams_and_does_not_backfill_again(
    arena: Arena, is_stopped: bool
) -> None:
    write_rounds(arena, 1, ROUNDS)
    with arena.application("exactly_once", statestore_cache_max_bytes=0) as application:
        if is_stopped:
            running = start(application, arena)
            running.wait_for("backfill stage", stage=2, deadline_s=SPARK_DEADLINE_S)
            running.process.send_signal(signal.SIGTERM)
            assert running.ended() == 0, running.tail()
            assert running.lines("connecting") == []

        running = start(application, arena)
        running.wait_for("backfill stage", deadline_s=SPARK_DEADLINE_S)
        write_rounds(arena, ROUNDS + 1, 2 * ROUNDS)
        running.wait_for(STREAMS_NOW, deadline_s=SPARK_DEADLINE_S)
        running.wait_for("connecting", count=2)
        write_rounds(arena, 2 * ROUNDS + 1, 3 * ROUNDS)
        arena.wait_for_outputs(3 * ROUNDS, running)
        running.stop()
        first_phase = running.lines("backfill stage")[0]["phase"]
        assert first_phase == ("staged before" if is_stopped else "begun")
        assert [len(running.lines(line)) for line in ("a backfill first", "connecting")] == [1, 2]

        write_rounds(arena, 3 * ROUNDS + 1, 4 * ROUNDS)
        running = start(application, arena, above=0)
        running.wait_for("connecting", count=2)
        arena.wait_for_outputs(4 * ROUNDS, running)
        running.stop()
        told = running.lines("no backfill before the run")
        assert [line["why"] for line in told] == ["the group has committed offsets"]
        assert running.lines("backfill stage") == []

    check_outputs(arena, 4 * ROUNDS)


def test_with_little_waiting_it_streams_at_once(arena: Arena) -> None:
    write_rounds(arena, 1, 2)
    with arena.application("exactly_once", statestore_cache_max_bytes=0) as application:
        running = start(application, arena, above=2 * KEYS, processes=1)
        running.wait_for("connecting")
        arena.wait_for_outputs(2, running)
        running.stop()

    (told,) = running.lines("no backfill before the run")
    assert (told["why"], told["lag_records"]) == ("a live start reads what waits", 2 * KEYS)
    check_outputs(arena, 2)
