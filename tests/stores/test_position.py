"""Positions: values that merge and compare, their bytes, and bounds on them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystreams import Position, PositionBound, TopicPartition

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
RETURNS_0 = TopicPartition("returns", 0)

POSITIONS = st.dictionaries(
    st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 2**31 - 1)),
    st.integers(0, 2**63 - 1),
    max_size=6,
).map(Position)


def test_merge_keeps_the_higher_offset_of_each_partition() -> None:
    left = Position({ORDERS_0: 5, ORDERS_1: 9})
    right = Position({ORDERS_0: 7, ORDERS_1: 2, RETURNS_0: 0})

    assert left.merge(right) == Position({ORDERS_0: 7, ORDERS_1: 9, RETURNS_0: 0})


def test_nothing_changes_a_position() -> None:
    given_offsets = {ORDERS_0: 5}
    position = Position(given_offsets)

    given_offsets[ORDERS_0] = 6
    position.with_component("orders", 0, 7)
    position.merge(Position({RETURNS_0: 1}))

    assert position == Position({ORDERS_0: 5})
    with pytest.raises(TypeError):
        position.offsets[ORDERS_0] = 8  # type: ignore[index]


def test_a_component_never_takes_a_position_back() -> None:
    position = Position().with_component("orders", 0, 5).with_component("orders", 0, 3)

    assert position.offsets == {ORDERS_0: 5}


def test_a_position_dominates_what_it_covers_whole() -> None:
    position = Position({ORDERS_0: 5, ORDERS_1: 0})

    assert position.dominates(Position())
    assert position.dominates(Position({ORDERS_0: 5}))
    assert not position.dominates(Position({ORDERS_0: 6}))
    assert not position.dominates(Position({RETURNS_0: 0}))


def test_the_documented_bytes() -> None:
    data = bytes.fromhex("00 00000001 00000006 6f7264657273 00000001 00000000 0000000000000029")
    position = Position({ORDERS_0: 41})

    assert position.serialize() == data
    assert Position.deserialize(data) == position


def test_zeros_behind_the_end_are_ignored_because_kafka_writes_them() -> None:
    position = Position({ORDERS_0: 41, RETURNS_0: 2})

    assert Position.deserialize(position.serialize() + bytes(300)) == position


def test_bytes_of_an_unknown_version_are_refused() -> None:
    with pytest.raises(ValueError, match="version 1; only 0"):
        Position.deserialize(b"\x01" + Position().serialize()[1:])


@given(POSITIONS)
def test_bytes_cut_off_anywhere_are_refused(position: Position) -> None:
    data = position.serialize()

    for length in range(len(data)):
        with pytest.raises(ValueError):
            Position.deserialize(data[:length])


@given(POSITIONS)
def test_a_position_survives_its_bytes(position: Position) -> None:
    assert Position.deserialize(position.serialize()) == position


@given(POSITIONS, POSITIONS)
def test_a_merged_position_is_the_lowest_that_dominates_both(
    left: Position, right: Position
) -> None:
    merged = left.merge(right)

    assert merged == right.merge(left)
    assert hash(merged) == hash(right.merge(left))
    assert merged.dominates(left)
    assert merged.dominates(right)
    assert not (merged.beyond(left) and merged.beyond(left).beyond(right))


def test_a_bound_asks_a_partition_only_for_components_of_its_number() -> None:
    bound = PositionBound.at(Position({ORDERS_0: 5, ORDERS_1: 7}))

    assert not bound.missing(Position({ORDERS_0: 5}), 0)
    assert bound.missing(Position({ORDERS_0: 5}), 1) == Position({ORDERS_1: 7})
    assert not bound.missing(Position(), 2)


def test_a_bound_is_missed_by_a_partition_that_has_not_seen_the_topic() -> None:
    bound = PositionBound.at(Position({ORDERS_0: 0}))

    assert bound.missing(Position(), 0) == Position({ORDERS_0: 0})


def test_unbounded_asks_nothing() -> None:
    assert not PositionBound.unbounded().missing(Position(), 0)


def test_a_position_prints_its_partitions_in_order() -> None:
    assert repr(Position({RETURNS_0: 1, ORDERS_0: 5})) == "Position(orders-0: 5, returns-0: 1)"


def test_a_position_of_nothing_covers_nothing() -> None:
    assert Position(None) == Position({}) == Position()
    assert not Position()
    assert Position({ORDERS_0: 5}).merge(Position()) == Position({ORDERS_0: 5})


def test_positions_are_equal_by_what_they_cover_and_may_be_keys() -> None:
    one, same = Position({ORDERS_0: 5, ORDERS_1: 6}), Position({ORDERS_1: 6, ORDERS_0: 5})

    assert one == same
    assert len({one, same, Position({ORDERS_0: 5})}) == 2
    assert one not in (Position({ORDERS_0: 5}), Position({ORDERS_0: 5, ORDERS_1: 7}), None)


def test_bounds_are_equal_by_their_position() -> None:
    position = Position({ORDERS_0: 5})

    assert PositionBound.at(position) == PositionBound.at(Position({ORDERS_0: 5}))
    assert PositionBound.at(position) != PositionBound.unbounded()
    assert PositionBound.unbounded() == PositionBound.at(Position())
    assert len({PositionBound.at(position), PositionBound.unbounded(), PositionBound()}) == 2
