"""Hashing many keys at a time gives what hashing them one by one gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystreams.backfill.tasks.key_partitions import partitions_of
from pystreams.kernel.partitioner import partition_of

KEYS = st.lists(st.none() | st.binary(max_size=19), max_size=60)


@pytest.mark.property
@given(KEYS, st.integers(1, 1000), st.integers(0, 7))
def test_many_keys_go_where_each_of_them_goes(
    keys: list[bytes | None], num_partitions: int, without_key: int
) -> None:
    expected = [without_key if key is None else partition_of(key, num_partitions) for key in keys]

    assert partitions_of(keys, num_partitions, without_key) == expected


@pytest.mark.property
@given(st.integers(0, 13).flatmap(lambda size: st.lists(st.binary(min_size=size, max_size=size))))
def test_keys_of_one_length_go_where_each_of_them_goes(keys: list[bytes]) -> None:
    assert partitions_of(keys, 8, 0) == [partition_of(key, 8) for key in keys]
