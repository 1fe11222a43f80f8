"""The topologies of `OptimizedTopologies.java`, statement by statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystreams import JoinWindows, KStream, StreamsBuilder, serdes

TEN_MS = JoinWindows.of_time_difference_with_no_grace(10)


def several_below_one_key_change(builder: StreamsBuilder) -> None:
    keyed = _stream(builder, "in").select_key(_value)
    keyed.filter(_yes).group_by_key().count().to_stream().to("a")
    keyed.group_by_key().reduce(_right).to_stream().to("b")
    table: Any = builder.table("tab")
    keyed.join(table, _left).to("c")
    keyed.peek(_nothing).to("d")


def one_repartition(builder: StreamsBuilder) -> None:
    stream = _stream(builder, "in")
    stream.group_by(_value).count().to_stream().to("a")
    stream.map(_turned).to_table().to_stream().to("b")


def named_groups(builder: StreamsBuilder) -> None:
    keyed = _stream(builder, "in").select_key(_value)
    grouped = keyed.group_by_key(name="mine")
    grouped.count().to_stream().to("a")
    grouped.reduce(_right).to_stream().to("b")
    keyed.group_by_key(name="other").count(name="named").to_stream().to("c")


def new_values_in_between(builder: StreamsBuilder) -> None:
    keyed = _stream(builder, "in").select_key(_value)
    keyed.map_values(str).group_by_key().count().to_stream().to("a")
    keyed.group_by_key().count().to_stream().to("b")


def below_a_merge(builder: StreamsBuilder) -> None:
    one, two = _stream(builder, "in"), _stream(builder, "in-2")
    merged = one.select_key(_value).merge(two.select_key(_value))
    merged.group_by_key().count().to_stream().to("a")
    merged.group_by_key().reduce(_right).to_stream().to("b")


def branches(builder: StreamsBuilder) -> None:
    split = _stream(builder, "in").select_key(_value).split()
    split.branch(_yes, chain=_counted).default_branch(chain=_written)


def joins_of_streams(builder: StreamsBuilder) -> None:
    one, two = _stream(builder, "in"), _stream(builder, "in-2")
    keyed = one.select_key(_value)
    keyed.left_join(two, _left, windows=TEN_MS).to("a")
    keyed.join(two, _left, windows=TEN_MS, store_name="named", name="joined").to("b")
    keyed.group_by_key().count().to_stream().to("c")


def explicit_repartition(builder: StreamsBuilder) -> None:
    keyed = _stream(builder, "in").select_key(_value)
    explicit = keyed.repartition(name="mine", num_partitions=4)
    explicit.group_by_key().count().to_stream().to("a")
    keyed.group_by_key().count().to_stream().to("b")


def cogroups(builder: StreamsBuilder) -> None:
    one, two = _stream(builder, "in"), _stream(builder, "in-2")
    keyed = one.select_key(_value)
    first, second = keyed.group_by_key(name="first"), two.group_by_key()
    cogroup: Any = first.cogroup(_total)
    cogroup.cogroup(second, _total).aggregate(str).to_stream().to("a")
    keyed.group_by_key().count().to_stream().to("b")


def tables(builder: StreamsBuilder) -> None:
    table: Any = builder.table("tab")
    named: Any = builder.table("tab-2", name="named")
    table.join(named, _left).to_stream().to("a")
    builder.table("tab-3").to_stream().to("b")
    named.group_by(_turned).count().to_stream().to("c")


def self_join(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.join(stream, lambda left, right: left + right, windows=TEN_MS.before(5)).to("a")


def self_join_of_new_keys(builder: StreamsBuilder) -> None:
    keyed = _stream(builder, "in").select_key(_value)
    keyed.join(keyed, _left, windows=TEN_MS).to("a")
    keyed.group_by_key().count().to_stream().to("b")


def several_self_joins(builder: StreamsBuilder) -> None:
    stream, same = _stream(builder, "in"), _stream(builder, "in")
    joined = stream.join(same, _left, windows=TEN_MS)
    joined.join(stream, _left, windows=TEN_MS).to("a")
    wide = JoinWindows.of_time_difference_and_grace(10, 10)
    stream.join(same, _left, windows=wide, store_name="named").to("b")


def self_join_merged_with_its_stream(builder: StreamsBuilder) -> None:
    stream = _stream(builder, "in")
    keyed = stream.select_key(_value)
    keyed.join(keyed, _left, windows=TEN_MS).merge(stream)


TOPOLOGIES: tuple[Callable[[StreamsBuilder], None], ...] = (
    several_below_one_key_change,
    one_repartition,
    named_groups,
    new_values_in_between,
    below_a_merge,
    branches,
    joins_of_streams,
    explicit_repartition,
    cogroups,
    tables,
    self_join,
    self_join_of_new_keys,
    several_self_joins,
    self_join_merged_with_its_stream,
)


def _stream(builder: StreamsBuilder, topic: str) -> KStream[Any, Any]:
    return builder.stream(topic)


def _counted(branch: KStream[Any, Any]) -> None:
    branch.group_by_key().count().to_stream().to("a")


def _written(branch: KStream[Any, Any]) -> None:
    branch.to("b")


def _value(_key: Any, value: Any) -> Any:
    return value


def _turned(key: Any, value: Any) -> tuple[Any, Any]:
    return value, key


def _yes(_key: Any, _value: Any) -> bool:
    return True


def _left(left: Any, _right: Any) -> Any:
    return left


def _right(_left: Any, right: Any) -> Any:
    return right


def _total(_key: Any, value: Any, total: Any) -> Any:
    return total + value


def _nothing(_key: Any, _value: Any) -> None:
    return None
