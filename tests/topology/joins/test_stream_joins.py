"""Joins of two streams: which records meet, when those that meet none are joined with None."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from typing import Any

import pytest

from pystreams import (
    ConfigError,
    JoinWindows,
    ProcessingError,
    StoreEngine,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    TopologyError,
)
from pystreams.serdes import LONG, STRING
from pystreams.testing import TopologyTestDriver
from tests.topology.joins.joined_streams import KINDS, JoinedStreams, Kind

LEAST = {"application.id": "app", "bootstrap.servers": "unused:9092"}
AROUND_100 = JoinWindows.of_time_difference_with_no_grace(100)
AROUND_100_GRACE_10 = JoinWindows.of_time_difference_and_grace(100, 10)
each_kind = pytest.mark.parametrize("kind", KINDS)
outer_kinds = pytest.mark.parametrize("kind", ["left_join", "outer_join"])


@each_kind
def test_each_record_meets_all_of_its_key_that_came_before_on_the_other_side(kind: Kind) -> None:
    with JoinedStreams(kind, AROUND_100) as streams:
        assert streams.left("a", "A1", 0) == []
        assert streams.left("b", "B1", 0) == []
        assert streams.right("a", "a1", 5) == [("a", "A1+a1", 5)]
        assert streams.left("a", "A2", 3) == [("a", "A2+a1", 5)]
        assert streams.right("a", "a2", 4) == [("a", "A1+a2", 4), ("a", "A2+a2", 4)]


@each_kind
def test_records_of_one_key_and_time_are_all_joined(kind: Kind) -> None:
    with JoinedStreams(kind, AROUND_100) as streams:
        for value in ("A1", "A2"):
            streams.left("a", value, 7)
        assert streams.right("a", "a1", 7) == [("a", "A1+a1", 7), ("a", "A2+a1", 7)]
        assert streams.right("a", "a2", 7) == [("a", "A1+a2", 7), ("a", "A2+a2", 7)]


@each_kind
def test_both_ends_of_a_window_belong_to_it(kind: Kind) -> None:
    with JoinedStreams(kind, AROUND_100_GRACE_10) as streams:
        streams.left("a", "A", 1000)
        found = {time: streams.right("a", "a", time)[-1:] for time in (899, 900, 1100, 1101)}

    assert found[900] == [("a", "A+a", 1000)]
    assert found[1100] == [("a", "A+a", 1100)]
    assert ("a", "A+a", 1000) not in found[899]
    assert ("a", "A+a", 1101) not in found[1101]


@each_kind
@pytest.mark.parametrize(
    ("windows", "first", "last"),
    [
        (AROUND_100.before(0), 1000, 1100),
        (AROUND_100.after(0), 900, 1000),
        (AROUND_100.before(30).after(70), 970, 1070),
        (AROUND_100.before(-20), 1020, 1100),
        (AROUND_100.after(-20), 900, 980),
    ],
    ids=str,
)
def test_sides_of_a_window_may_differ(
    kind: Kind, windows: JoinWindows, first: int, last: int
) -> None:
    """Whichever stream comes first."""
    for sides in (("left", "right"), ("right", "left")):
        met = []
        for time in (first - 1, first, last, last + 1):
            with JoinedStreams(kind, windows) as streams:
                records = {"left": ("A", 1000), "right": ("a", time)}
                for side in sides:
                    value, at = records[side]
                    results = streams.pipe(side, "k", value, at)
                if ("k", "A+a", max(1000, time)) in results:
                    met.append(time)
        assert met == [first, last]


def test_joiner_with_key_is_called_with_all_three() -> None:
    builder = StreamsBuilder()
    left = builder.stream("left", key_serde=STRING, value_serde=STRING)
    right = builder.stream("right", key_serde=STRING, value_serde=LONG)
    left.join(right, lambda key, one, other: key + one * other, AROUND_100, with_key=True).to(
        "out", value_serde=STRING
    )
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("left", STRING, STRING).pipe_input("k", "x")
        driver.create_input_topic("right", STRING, LONG).pipe_input("k", 3)
        out = driver.create_output_topic("out", STRING, STRING).read_values()

    assert out == ["kxxx"]


@each_kind
def test_records_without_a_value_meet_nothing_and_are_counted(kind: Kind) -> None:
    with JoinedStreams(kind, AROUND_100) as streams:
        assert streams.left("a", None, 0) == []
        assert streams.right("a", "a", 0) == []
        assert streams.right("a", None, 1) == []
        assert streams.dropped() == 2


def test_records_without_a_key_are_dropped_by_an_inner_join_and_counted() -> None:
    with JoinedStreams("join", AROUND_100) as streams:
        assert streams.left(None, "A", 0) == []
        assert streams.right(None, "a", 0) == []
        assert streams.dropped() == 2


def test_left_join_joins_records_of_the_left_without_a_key_at_once() -> None:
    with JoinedStreams("left_join", AROUND_100) as streams:
        assert streams.left(None, "A", 0) == [(None, "A+none", 0)]
        assert streams.right(None, "a", 0) == []
        assert streams.dropped() == 1


def test_outer_join_joins_records_of_both_sides_without_a_key_at_once() -> None:
    with JoinedStreams("outer_join", AROUND_100) as streams:
        assert streams.left(None, "A", 0) == [(None, "A+none", 0)]
        assert streams.right(None, "a", 0) == [(None, "none+a", 0)]
        assert streams.right(None, None, 0) == []
        assert streams.dropped() == 1


@each_kind
def test_a_record_older_than_the_stores_retention_is_not_kept_and_counted(kind: Kind) -> None:
    """Retention is the window's size and the grace period, and goes by segments of a minute."""
    with JoinedStreams(kind, AROUND_100_GRACE_10) as streams:
        streams.left("a", "new", 600_000)
        before = streams.dropped()
        streams.left("a", "late", 1_000)
        assert streams.dropped() == before + 1
        assert ("a", "late+a", 1_000) not in streams.right("a", "a", 1_000)


@each_kind
def test_a_late_record_within_the_retention_still_finds_its_partners(kind: Kind) -> None:
    with JoinedStreams(kind, JoinWindows.of_time_difference_and_grace(100, 1_000)) as streams:
        streams.left("a", "A", 0)
        streams.left("b", "B", 900)
        assert ("a", "A+a", 50) in streams.right("a", "a", 50)


@outer_kinds
@pytest.mark.parametrize("mover", ["left", "right"])
def test_left_records_without_a_match_come_out_when_stream_time_passes_their_window(
    kind: Kind, mover: str
) -> None:
    with JoinedStreams(kind, AROUND_100) as streams:
        assert streams.left("a", "A1", 1) == []
        assert streams.left("b", "B1", 2) == []
        assert streams.left("a", "A2", 3) == []
        assert streams.right("b", "b1", 3) == [("b", "B1+b1", 3)]
        assert streams.pipe(mover, "z", "moves", 401) == [("a", "A1+none", 1), ("a", "A2+none", 3)]


@pytest.mark.parametrize("mover", ["left", "right"])
def test_right_records_without_a_match_come_out_of_an_outer_join(mover: str) -> None:
    with JoinedStreams("outer_join", AROUND_100) as streams:
        assert streams.right("a", "a1", 1) == []
        assert streams.right("b", "b1", 2) == []
        assert streams.right("a", "a2", 3) == []
        assert streams.left("b", "B1", 3) == [("b", "B1+b1", 3)]
        assert streams.pipe(mover, "z", "moves", 401) == [("a", "none+a1", 1), ("a", "none+a2", 3)]


@pytest.mark.parametrize("mover", ["left", "right"])
def test_right_records_without_a_match_never_come_out_of_a_left_join(mover: str) -> None:
    with JoinedStreams("left_join", AROUND_100) as streams:
        for time, key in enumerate("aba", 1):
            assert streams.right(key, key, time) == []
        assert streams.left("b", "B1", 3) == [("b", "B1+b", 3)]
        assert streams.pipe(mover, "z", "moves", 401) == []


@outer_kinds
def test_duplicates_without_a_match_all_come_out(kind: Kind) -> None:
    with JoinedStreams(kind, AROUND_100_GRACE_10) as streams:
        for value in ("A1", "A2", "A3"):
            streams.left("a", value, 0)
        assert streams.right("z", "moves", 500) == [
            ("a", "A1+none", 0),
            ("a", "A2+none", 0),
            ("a", "A3+none", 0),
        ]


def test_at_one_time_right_records_come_out_before_left_ones() -> None:
    with JoinedStreams("outer_join", AROUND_100_GRACE_10) as streams:
        streams.left("a", "A", 0)
        streams.right("b", "b", 0)
        assert streams.right("z", "moves", 211) == [("b", "none+b", 0), ("a", "A+none", 0)]


@outer_kinds
def test_what_came_first_comes_out_before_what_the_record_itself_meets(kind: Kind) -> None:
    with JoinedStreams(kind, AROUND_100) as streams:
        streams.left("a", "A", 0)
        streams.left("b", "B", 100)
        assert streams.right("b", "b", 110) == [("a", "A+none", 0), ("b", "B+b", 110)]


@outer_kinds
def test_records_without_a_match_wait_for_the_grace_period(kind: Kind) -> None:
    with JoinedStreams(kind, AROUND_100_GRACE_10) as streams:
        assert streams.left("a", "A", 0) == []
        assert streams.left("b", "B", 101) == []
        assert streams.left("c", "C", 110) == []
        assert streams.left("d", "D", 111) == [("a", "A+none", 0)]


@outer_kinds
def test_a_match_within_the_grace_period_forestalls_the_result_without_one(kind: Kind) -> None:
    with JoinedStreams(kind, AROUND_100_GRACE_10) as streams:
        streams.left("a", "A", 0)
        streams.left("b", "B", 110)
        assert streams.right("a", "a", 50) == [("a", "A+a", 50)]
        assert streams.left("c", "C", 500) == [("b", "B+none", 110)]


@outer_kinds
def test_a_record_whose_window_has_ended_when_it_comes_is_joined_with_none_at_once(
    kind: Kind,
) -> None:
    with JoinedStreams(kind, AROUND_100_GRACE_10) as streams:
        streams.right("z", "moves", 1000)
        assert streams.left("a", "late", 899) == [("a", "late+none", 899)]
        assert streams.left("a", "not late", 900) == []


def test_left_join_without_time_after_waits_for_the_next_moment_only() -> None:
    with JoinedStreams("left_join", AROUND_100.after(0)) as streams:
        assert streams.left("a", "A", 1000) == []
        assert streams.left("b", "B", 1001) == [("a", "A+none", 1000)]
        assert streams.right("b", "b", 1001) == [("b", "B+b", 1001)]


def test_left_join_without_time_before_waits_for_all_the_time_after() -> None:
    with JoinedStreams("left_join", AROUND_100.before(0)) as streams:
        assert streams.left("a", "A", 0) == []
        assert streams.left("b", "B", 1) == []
        assert streams.right("a", "a", 100) == [("a", "A+a", 100)]
        assert streams.right("b", "b", 102) == [("b", "B+none", 1)]


def test_outer_join_with_different_sides_lets_each_stream_go_by_its_own() -> None:
    """Left records wait for the time after, right ones for the time before."""
    with JoinedStreams(
        "outer_join", JoinWindows.of_time_difference_with_no_grace(5).after(20)
    ) as streams:
        assert streams.left("0", "A", 29) == []
        assert streams.left("1", "B", 30) == []
        assert streams.right("2", "c", 31) == []
        assert streams.right("3", "d", 36) == []
        assert streams.right("4", "e", 37) == [("2", "none+c", 31)]
        assert streams.right("5", "f", 50) == [
            ("0", "A+none", 29),
            ("3", "none+d", 36),
            ("4", "none+e", 37),
        ]


def test_a_window_of_no_length_joins_records_of_one_time_while_it_is_now() -> None:
    with JoinedStreams("join", JoinWindows.of_time_difference_and_grace(0, 1)) as streams:
        streams.left("a", "A", 5)
        assert streams.right("a", "a", 5) == [("a", "A+a", 5)]
        assert streams.right("a", "later", 6) == []


@outer_kinds
def test_looks_for_what_has_no_match_are_a_second_of_the_wall_clock_apart(kind: Kind) -> None:
    """The first look counts too, though there is nothing to find yet."""
    with JoinedStreams(kind, AROUND_100, config={"outer.join.emit.interval.ms": 1000}) as streams:
        streams.left("a", "A", 0)
        assert streams.left("b", "B", 500) == []
        streams.driver.advance_wall_clock_ms(999)
        assert streams.left("c", "C", 501) == []
        streams.driver.advance_wall_clock_ms(1)
        assert streams.left("d", "D", 502) == [("a", "A+none", 0)]


def test_the_interval_is_a_second_and_goes_by_kafkas_internal_name_too() -> None:
    internal = "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__"
    assert StreamsConfig.of(LEAST).outer_join_emit_interval_ms == 1000
    assert StreamsConfig.of({**LEAST, internal: 7}).outer_join_emit_interval_ms == 7
    with JoinedStreams("left_join", AROUND_100, config={internal: 1000}) as streams:
        streams.left("a", "A", 0)
        assert streams.left("b", "B", 500) == []


@outer_kinds
def test_a_result_without_a_match_carries_the_headers_of_the_record_that_let_it_go(
    kind: Kind,
) -> None:
    with JoinedStreams(kind, AROUND_100) as streams:
        out = streams.driver.create_output_topic("out", STRING, STRING)
        streams.driver.pipe_raw("left", b"a", b"A", 0, (("trace", b"waits"),))
        streams.driver.pipe_raw("right", b"b", b"b", 500, (("trace", b"moves"),))
        headers = [record.headers for record in out.read_records()]

    assert headers == [(("trace", b"moves"),)]


def test_results_carry_the_headers_of_the_later_record() -> None:
    with JoinedStreams("join", AROUND_100) as streams:
        out = streams.driver.create_output_topic("out", STRING, STRING)
        streams.driver.pipe_raw("left", b"a", b"A", 9, (("trace", b"one"),))
        streams.driver.pipe_raw("right", b"a", b"a", 5, (("trace", b"two"),))
        [record] = out.read_records()

    assert (record.timestamp, record.headers) == (9, (("trace", b"two"),))


def test_stream_joined_with_itself_meets_itself() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    windows = JoinWindows.of_time_difference_and_grace(10_000, 1_000)
    stream.join(stream, lambda value, other: f"{value}-{other}", windows).to("out")
    with TopologyTestDriver(builder.build(), {"default.value.serde": "string"}) as driver:
        topic = driver.create_input_topic("in", STRING, STRING)
        out = driver.create_output_topic("out", STRING, STRING)
        topic.pipe_input("k", "A", timestamp=2)
        assert out.read_values() == ["A-A"]
        topic.pipe_input("k", "B", timestamp=3)
        assert out.read_values() == ["B-A", "A-B", "B-B"]
        topic.pipe_input("k", "C", timestamp=5)
        assert out.read_values() == ["C-A", "C-B", "A-C", "B-C", "C-C"]


@each_kind
def test_error_of_the_joiner_drops_the_record_when_the_handler_says_so(kind: Kind) -> None:
    builder = StreamsBuilder()
    left = builder.stream("left", key_serde=STRING, value_serde=STRING)
    right = builder.stream("right", key_serde=STRING, value_serde=STRING)

    def joiner(one: Any, other: Any) -> str:
        if "bad" in {one, other}:
            raise ValueError("bad")
        return f"{one}+{other}"

    getattr(left, kind)(right, joiner, AROUND_100).to("out", value_serde=STRING)
    config = {"processing.exception.handler": "continue"}
    with TopologyTestDriver(builder.build(), config) as driver:
        one = driver.create_input_topic("left", STRING, STRING)
        other = driver.create_input_topic("right", STRING, STRING)
        one.pipe_input("k", "good", timestamp=0)
        other.pipe_input("k", "bad", timestamp=1)
        other.pipe_input("k", "fine", timestamp=2)
        one.pipe_input("n", "bad", timestamp=3)
        one.pipe_input("m", "alone", timestamp=3)
        one.pipe_input("z", "moves", timestamp=900)
        values = driver.create_output_topic("out", STRING, STRING).read_values()

    assert values == ["good+fine"] + ([] if kind == "join" else ["alone+None"])


@outer_kinds
def test_a_waiting_record_that_the_joiner_fails_with_is_dropped_and_the_one_that_came_is_not(
    kind: Kind,
) -> None:
    builder = StreamsBuilder()
    left = builder.stream("left", key_serde=STRING, value_serde=STRING)
    right = builder.stream("right", key_serde=STRING, value_serde=STRING)
    asked = []

    def joiner(one: Any, other: Any) -> str:
        asked.append(one)
        if one == "bad":
            raise ValueError("bad")
        return f"{one}+{other}"

    getattr(left, kind)(right, joiner, AROUND_100).to("out", value_serde=STRING)
    config = {"processing.exception.handler": "continue"}
    with TopologyTestDriver(builder.build(), config) as driver:
        one = driver.create_input_topic("left", STRING, STRING)
        one.pipe_input("w", "bad", timestamp=0)
        for number in range(1, 4):
            driver.advance_wall_clock_ms(2_000)
            one.pipe_input("k", f"came {number}", timestamp=1_000 * number)
        values = driver.create_output_topic("out", STRING, STRING).read_values()

    assert values == ["came 1+None", "came 2+None"]
    assert asked.count("bad") == 1


@each_kind
def test_error_of_the_joiner_names_its_node(kind: Kind) -> None:
    builder = StreamsBuilder()
    left = builder.stream("left", key_serde=STRING, value_serde=STRING)
    right = builder.stream("right", key_serde=STRING, value_serde=STRING)
    getattr(left, kind)(right, lambda value, other: value - other, AROUND_100).to("out")
    config = {"default.value.serde": "string"}
    with TopologyTestDriver(builder.build(), config) as driver:
        driver.create_input_topic("left", STRING, STRING).pipe_input("k", "A")
        with pytest.raises(ProcessingError, match=r"'KSTREAM-\w+OTHER-0000000005' raised TypeErr"):
            driver.create_input_topic("right", STRING, STRING).pipe_input("k", "a")


@each_kind
def test_restarted_join_goes_on_where_it_was(kind: Kind, tmp_path: Any) -> None:
    with JoinedStreams(kind, AROUND_100, directory=tmp_path) as streams:
        streams.left("a", "A", 0)
        streams.left("b", "B", 1)
        streams.right("c", "c", 2)
    with JoinedStreams(kind, AROUND_100, directory=tmp_path) as streams:
        assert streams.right("a", "a", 50) == [("a", "A+a", 50)]
        left = [] if kind == "join" else [("b", "B+none", 1)]
        right = [("c", "none+c", 2)] if kind == "outer_join" else []
        assert streams.left("z", "moves", 900) == left + right


# ---------------------------------------------------------------------- options


def test_stores_may_be_in_memory_as_a_whole() -> None:
    with JoinedStreams("outer_join", AROUND_100, store_type=StoreEngine.IN_MEMORY) as streams:
        persistent = {
            name: store.persistent for name, store in streams.driver.get_all_state_stores().items()
        }

    assert set(persistent.values()) == {False}
    assert len(persistent) == 3


@each_kind
@pytest.mark.parametrize("engine", [StoreEngine.ROCKSDB, StoreEngine.IN_MEMORY])
def test_suppliers_say_where_each_stream_is_kept(
    kind: Kind, engine: StoreEngine, tmp_path: Any
) -> None:
    make = (
        Stores.persistent_window_store
        if engine is StoreEngine.ROCKSDB
        else Stores.in_memory_window_store
    )
    this = make("this", 210, 200, retain_duplicates=True)
    other = make("other", 210, 200, retain_duplicates=True)
    with JoinedStreams(
        kind,
        AROUND_100_GRACE_10,
        directory=tmp_path,
        this_store_supplier=this,
        other_store_supplier=other,
    ) as streams:
        streams.left("a", "A", 0)
        assert streams.right("a", "a", 1) == [("a", "A+a", 1)]
        stores = streams.driver.get_all_state_stores()

    shared = {
        "join": set(),
        "left_join": {"this-left-shared-join-store"},
        "outer_join": {"this-outer-shared-join-store"},
    }
    assert set(stores) == {"this", "other"} | shared[kind]
    assert {store.persistent for store in stores.values()} == {engine is StoreEngine.ROCKSDB}


@pytest.mark.parametrize("side", ["this", "other"])
@pytest.mark.parametrize(
    ("supplier", "message"),
    [
        (
            Stores.persistent_window_store("s", 500, 200, retain_duplicates=True),
            "retention_ms=500 and window_size_ms=200, but .* need 210 and 200",
        ),
        (
            Stores.persistent_window_store("s", 210, 150, retain_duplicates=True),
            "retention_ms=210 and window_size_ms=150, but .* need 210 and 200",
        ),
        (Stores.persistent_window_store("s", 210, 200), "retain_duplicates=True"),
        (Stores.persistent_key_value_store("s"), "must be made with Stores.persistent_window"),
    ],
)
def test_suppliers_of_stores_that_do_not_fit_are_refused(
    side: str, supplier: Any, message: str
) -> None:
    with pytest.raises(TopologyError, match=f"{side}_store_supplier.*{message}"):
        JoinedStreams("join", AROUND_100_GRACE_10, **{f"{side}_store_supplier": supplier})


def test_suppliers_of_one_name_are_refused() -> None:
    supplier = Stores.persistent_window_store("same", 210, 200, retain_duplicates=True)

    with pytest.raises(TopologyError, match="both stores are named 'same'"):
        JoinedStreams(
            "join",
            AROUND_100_GRACE_10,
            this_store_supplier=supplier,
            other_store_supplier=supplier,
        )


@each_kind
def test_changelogs_of_windows_are_deleted_by_time_and_that_of_waiting_records_compacted(
    kind: Kind,
) -> None:
    with JoinedStreams(
        kind, AROUND_100_GRACE_10, store_name="kept", log_config={"segment.ms": "9"}
    ) as streams:
        stores = streams.topology.stores.values()
        configs = {
            builder.name: {**builder.changelog_defaults(1_000), **builder.changelog_config}
            for builder in stores
        }

    windows = {"cleanup.policy": "delete", "retention.ms": "1210", "segment.ms": "9"}
    waiting = {"cleanup.policy": "compact", "segment.ms": "9"}
    assert (
        configs
        == {
            "join": {"kept-this-join-store": windows, "kept-other-join-store": windows},
            "left_join": {
                "kept-this-join-store": windows,
                "kept-outer-other-join-store": windows,
                "kept-left-shared-join-store": waiting,
            },
            "outer_join": {
                "kept-outer-this-join-store": windows,
                "kept-outer-other-join-store": windows,
                "kept-outer-shared-join-store": waiting,
            },
        }[kind]
    )


@each_kind
def test_logging_may_be_left_out(kind: Kind) -> None:
    with JoinedStreams(kind, AROUND_100, logging=False) as streams:
        streams.left("a", "A", 0)
        streams.right("b", "b", 0)

        assert not any(builder.logging for builder in streams.topology.stores.values())
        assert streams.driver.produced_topic_names() == set()


@each_kind
def test_stores_may_write_through(kind: Kind, tmp_path: Any) -> None:
    with JoinedStreams(kind, AROUND_100, directory=tmp_path, transactional=False) as streams:
        streams.left("a", "A", 0)
        streams.left("b", "B", 0)
        assert streams.right("a", "a", 1) == [("a", "A+a", 1)]
        stores = streams.driver.get_all_state_stores().values()
        assert not any(store.transactional for store in stores)
        alone = [] if kind == "join" else [("b", "B+none", 0)]
        assert streams.left("z", "moves", 900) == alone


@outer_kinds
@pytest.mark.parametrize("moves", ["left", "right"])
def test_a_restart_of_an_outer_join_changes_no_result(
    kind: Kind, moves: str, tmp_path: Any
) -> None:
    """A record whose window has closed is joined with None at once, whichever side moved on."""
    for name, restarted in (("undisturbed", False), ("restarted", True)):
        streams = JoinedStreams(kind, AROUND_100, directory=tmp_path / name)
        streams.pipe(moves, "z", "z", 6000)
        if restarted:
            streams.driver.close()
            streams = JoinedStreams(kind, AROUND_100, directory=tmp_path / name)
        with streams:
            assert streams.left("a", "A", 5850) == [("a", "A+none", 5850)]
            assert streams.right("a", "a", 5860) == [("a", "A+a", 5860)]


def test_serdes_of_the_streams_are_taken_where_none_are_given() -> None:
    """Differs from Kafka, which takes the defaults."""
    builder = StreamsBuilder()
    left = builder.stream("left", key_serde=STRING, value_serde=LONG)
    right = builder.stream("right", key_serde=STRING, value_serde=STRING)
    left.outer_join(right, lambda value, other: f"{value}{other}", AROUND_100).to(
        "out", value_serde=STRING
    )
    with TopologyTestDriver(builder.build()) as driver:
        one = driver.create_input_topic("left", STRING, LONG)
        driver.create_input_topic("right", STRING, STRING).pipe_input("k", "a", timestamp=0)
        one.pipe_input("k", 7, timestamp=0)
        one.pipe_input("n", 8, timestamp=0)
        one.pipe_input("z", 9, timestamp=900)
        values = driver.create_output_topic("out", STRING, STRING).read_values()

    assert values == ["7a", "8None"]


def test_a_join_without_any_serde_is_refused_when_it_starts() -> None:
    builder = StreamsBuilder()
    left, right = builder.stream("left"), builder.stream("right")
    left.left_join(right, lambda value, other: (value, other), AROUND_100)

    with pytest.raises((ConfigError, TopologyError), match="has no key serde"):
        TopologyTestDriver(builder.build())


# ---------------------------------------------------------------------- wrong declarations


def test_streams_are_joined_in_windows(builder: StreamsBuilder) -> None:
    left, right = builder.stream("left"), builder.stream("right")
    wrong: Any = left

    with pytest.raises(TopologyError, match=r"join of two streams needs windows, such as JoinWi"):
        wrong.join(right, lambda value, other: value)
    with pytest.raises(TopologyError, match=r"needs windows.*not 1000"):
        wrong.outer_join(right, lambda value, other: value, 1000)


def test_a_table_has_no_windows(builder: StreamsBuilder) -> None:
    wrong: Any = builder.stream("left")

    with pytest.raises(TopologyError, match="leave windows out"):
        wrong.join(builder.table("right"), lambda value, other: value, AROUND_100)


def test_an_outer_join_is_one_of_streams(builder: StreamsBuilder) -> None:
    wrong: Any = builder.stream("left")

    with pytest.raises(TopologyError, match="outer_join: a stream is joined with a KStream here"):
        wrong.outer_join(builder.table("right"), lambda value, other: value, AROUND_100)


def test_joiners_that_take_too_little_are_refused(builder: StreamsBuilder) -> None:
    left, right = builder.stream("left"), builder.stream("right")
    wrong: Any = left

    with pytest.raises(TopologyError, match=r"calls its function with \(value, other_value\)"):
        wrong.join(right, lambda value: value, AROUND_100)


def test_options_of_a_join_with_a_table_are_not_those_with_a_stream(
    builder: StreamsBuilder,
) -> None:
    left, right = builder.stream("left"), builder.stream("right")
    wrong: Any = left

    with pytest.raises(TopologyError, match="join has no option grace_period_ms"):
        wrong.join(right, lambda value, other: value, AROUND_100, grace_period_ms=5)


def test_streams_of_two_builders_are_not_joined(builder: StreamsBuilder) -> None:
    other = StreamsBuilder().stream("right")

    with pytest.raises(TopologyError, match="two StreamsBuilders"):
        builder.stream("left").join(other, lambda value, other: value, AROUND_100)


def test_two_joins_can_not_share_a_store_name(builder: StreamsBuilder) -> None:
    left, right = builder.stream("left"), builder.stream("right")
    left.join(right, lambda value, other: value, AROUND_100, store_name="kept")
    left.join(right, lambda value, other: value, AROUND_100, store_name="kept")

    with pytest.raises(TopologyError, match=r"a store .kept-this-join-store., and another"):
        builder.build()


# ---------------------------------------------------------------------- windows


def test_windows_of_a_difference_reach_as_far_to_both_sides() -> None:
    assert JoinWindows(100, 100, 0) == AROUND_100
    assert JoinWindows(100, 100, 10) == AROUND_100_GRACE_10
    assert (AROUND_100_GRACE_10.size_ms, AROUND_100_GRACE_10.retention_ms) == (200, 210)


def test_another_side_leaves_the_grace_period_as_it_is() -> None:
    assert AROUND_100_GRACE_10.before(5) == JoinWindows(5, 100, 10)
    assert AROUND_100_GRACE_10.after(-5) == JoinWindows(100, -5, 10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: JoinWindows.of_time_difference_with_no_grace(-1), "time_difference_ms must be 0"),
        (lambda: JoinWindows.of_time_difference_and_grace(1, -1), "grace_period_ms must be 0"),
        (lambda: AROUND_100.before(-101), "ends before it begins"),
        (lambda: AROUND_100.after(-101), "ends before it begins"),
    ],
)
def test_windows_that_no_record_can_be_in_are_refused(make: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        make()
