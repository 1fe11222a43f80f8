"""Pairs of topologies, an old one and a new one, and what becomes of the old one's state.

Each is a topology's code, as a user would write it, so that it can be loaded by the command, by
the runtime, or here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pystreams import Topology
from pystreams.deploy.verdicts import Verdict

HEAD = """
from pystreams import *
from pystreams import aggregations, serdes

text = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
builder = StreamsBuilder()
words = builder.stream("in", **text)
"""
COUNT = 'words.group_by_key().count(name="counts").to_stream().to("out", value_serde=serdes.LONG)'


class Pair(NamedTuple):
    """What is changed, and what that does.

    Attributes:
        verdicts: By the name of the store or repartition topic; all of either topology.
    """

    old: str
    new: str
    verdicts: dict[str, Verdict]

    @property
    def loses(self) -> bool:
        return any(verdict.loses for verdict in self.verdicts.values())


def windowed(windows: str, options: str = "") -> str:
    return f'words.group_by_key().windowed_by({windows}).count(name="counts"{options})'


def topology_of(code: str, source: str = "in") -> Topology:
    names: dict[str, Any] = {}
    exec(compile(HEAD.replace('"in"', repr(source)) + code, "orders.py", "exec"), names)
    return names["builder"].build(names.get("config"))  # type: ignore[no-any-return]


TUMBLING = "TimeWindows.of_size_with_no_grace(10_000)"
SESSIONS = "SessionWindows.of_inactivity_gap_with_no_grace(10_000)"
UNNAMED = "words{}.group_by_key().count()"
TWO = """
def count(topic):
    builder.stream(topic, **text).group_by_key().count()
{}
"""
FIRST, SECOND, THIRD, LAST = (
    f"KSTREAM-AGGREGATE-STATE-STORE-000000000{number}" for number in (1, 2, 4, 5)
)
SWAPPED = SECOND
BY_WORD = "words.group_by(lambda key, word: word, **text{}).count(name='counts')"
SPREAD = "words.repartition({}name='spread', **text).group_by_key().count(name='counts')"
BY_LENGTH = "partitioner=lambda topic, key, word, count: len(word) % count, "
BY_NUMBER = (
    "words.map(lambda key, word: (7, word)).group_by_key(key_serde=serdes.{}, "
    "value_serde=serdes.STRING).count(name='counts')"
)
UNLOGGED = (
    'words.group_by_key().count(materialized=Materialized(name="counts", logging=False, '
    "store_type=StoreEngine.{}))"
)
WINDOWED_UNLOGGED = (
    "words.group_by_key().windowed_by({}).count("
    'materialized=Materialized(name="counts", logging=False))'
)
ON_DISK, IN_MEMORY = "ROCKSDB", "IN_MEMORY"
BEHIND_ANOTHER = """
# The source that is there already is the first node: another builder begins otherwise.
builder = StreamsBuilder()
builder.stream("first", **text).to("copy", **text)
words = builder.stream("in", **text)
"""
TWO_UNLOGGED = TWO.replace(
    "count()",
    "count(materialized=Materialized(logging=False, store_type=StoreEngine.IN_MEMORY))",
)
COGROUP = """
def add(key, word, had): return had + word
words.group_by_key().cogroup(add){}.aggregate(str, name="made", value_serde=serdes.STRING)
"""
COGROUP_OF_TWO = """
def add(key, word, had): return had + word
def add_upper(key, word, had): return had + word.upper()
first = builder.stream("first", **text)
{}.group_by_key().cogroup(add).cogroup({}.group_by_key(), add_upper).aggregate(
    str, name="made", value_serde=serdes.STRING
)
"""
COGROUP_OF_ONE = COGROUP_OF_TWO.replace(".cogroup({}.group_by_key(), add_upper)", "")
JOINED_TABLES = """
a, b = (builder.table(topic, **text, name=topic) for topic in ("a", "b"))
{0}.{2}_join({1}, lambda left, right: f"{{left}} {{right}}", materialized=Materialized(
    name="both", value_serde=serdes.STRING
))
"""
JOINED = """
a, b = (builder.table(topic, **text, name=topic) for topic in ("a", "b"))
joined = {0}.{2}_join({1}, lambda left, right: f"{{left}} {{right}}")
"""
OF_JOINED_TABLES = (
    JOINED
    + """
joined.filter(lambda *_: True, materialized=Materialized(name="often", value_serde=serdes.STRING))
"""
)
COUNT_OF_JOINED_TABLES = (
    JOINED
    + """
joined.group_by(lambda key, value: (key, value), **text).count(name="counts")
"""
)
CHANGES_OF_JOINED_TABLES = (
    JOINED
    + """
joined.to_stream().group_by_key(**text).count(name="counts")
"""
)
ORDERS = 'orders = builder.stream("orders", **text)\n'
OWN_STORE = """
class Keeps(Processor):
    def process(self, record): ...
builder.add_state_store(Stores.{})
words.process(Keeps, stores=["own"])
"""
KEY_VALUE = (
    'key_value_store_builder(Stores.persistent_key_value_store("own"), serdes.STRING, serdes.{})'
)
JOIN = """
other = builder.stream("other", **text)
words.join(
    other, lambda a, b: a + b, JoinWindows.of_time_difference_with_no_grace({}), **text,
    other_value_serde=serdes.STRING, name="pairs", store_name="pairs",
)
"""
TABLE = """
config = {{"topology.optimization": "{}", "application.id": "a", "bootstrap.servers": "none:1"}}
builder.table("rows", **text, name="table")
"""

GLOBAL = '\nbuilder.global_table("rows", **text, name="table")'
GLOBAL_OF_NUMBERS = GLOBAL.replace("**text", "key_serde=serdes.STRING, value_serde=serdes.LONG")
OWN_COUNT = """
class Counts(Processor):
    def init(self, context):
        self.store = context.get_state_store("own")
    def process(self, record):
        had = self.store.{}
        self.store.put({})
builder.add_state_store(Stores.{})
words.process(Counts, stores=["own"])
"""
PLAIN = OWN_COUNT.format("get(record.key)", "record.key, (had or 0) + 1", KEY_VALUE.format("LONG"))
STAMPED = OWN_COUNT.format(
    "get(record.key)",
    "record.key, ValueAndTimestamp((had.value if had else 0) + 1, record.timestamp)",
    KEY_VALUE.format("LONG").replace("key_value_s", "timestamped_key_value_s"),
)
PLAIN_WINDOWS = OWN_COUNT.format(
    "fetch(record.key, record.timestamp)",
    "record.key, (had or 0) + 1, record.timestamp",
    'window_store_builder(Stores.persistent_window_store("own", 60_000, 10_000), '
    "serdes.STRING, serdes.LONG)",
)
STAMPED_WINDOWS = OWN_COUNT.format(
    "fetch(record.key, record.timestamp)",
    "record.key, ValueAndTimestamp((had.value if had else 0) + 1, record.timestamp), "
    "record.timestamp",
    "timestamped_window_store_builder("
    'Stores.persistent_timestamped_window_store("own", 60_000, 10_000), '
    "serdes.STRING, serdes.LONG)",
)
UPPER = """
words.group_by_key().count(name="{}").to_stream().to("out", value_serde=serdes.LONG)
words.map_values(str.upper).group_by_key().count(name="{}")
"""
DISTINCT = 'words.distinct(within_ms={}, name="once").to("out", **text)'

FINAL = """
words.group_by_key().windowed_by({}).count(name="{}").suppress(
    Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("final")
)
"""
OFTEN = """
words.group_by_key().windowed_by({}).count(name="{}").filter(
    lambda key, count: count > 1, materialized=Materialized(name="often", value_serde=serdes.LONG)
)
"""
SPREAD_WINDOWS = """
words.group_by_key().windowed_by({}).count(name="{}").to_stream().repartition(
    name="spread", value_serde=serdes.LONG
).to("out")
"""
LONGER = "TimeWindows.of_size_with_no_grace(20_000)"
SLIDING = "SlidingWindows.of_time_difference_with_no_grace(10_000)"
BY_FOREIGN_KEY = """
def table(topic, key):
    return builder.table(topic, key_serde=key, value_serde=serdes.STRING, name=topic)
table("{orders}", serdes.{key}).left_join(
    table("{goods}", serdes.{of}), lambda order, good: order, foreign_key=lambda order: None,
    node_name="joined", value_serde=serdes.STRING,
)
"""

BY_WHO = """
from dataclasses import dataclass

@dataclass
class Order:
    who: str
    {field}

once = words.distinct(within_ms=1_000_000_000, name="once")
orders = once.map_values(lambda word: Order(word)).to_table(
    name="orders", key_serde=serdes.STRING, value_serde=serdes.json_of(Order)
)
people = words.group_by_key().reduce(lambda had, word: had + word, name="people")
orders.join(
    people, lambda order, person: person, foreign_key=lambda order: order.who,
    node_name="joined", name="result", value_serde=serdes.STRING,
)
"""
"""An order is read once, and its person changes with each record."""

LIKE_IT = """
words.filter(lambda key, word: word > "a").group_by_key().count()
words.filter(lambda key, word: word > "b").group_by_key().count()
"""
EIGHTH = "KSTREAM-AGGREGATE-STATE-STORE-0000000008"
WINDOWS, LATER_WINDOWS = (f"KSTREAM-AGGREGATE-STATE-STORE-000000000{number}" for number in (1, 3))

PAIRS: dict[str, Pair] = {
    "nothing changed": Pair(COUNT, COUNT, {"counts": Verdict.KEPT}),
    "an operation after the store": Pair(
        COUNT,
        COUNT.replace(".to(", ".filter(lambda key, count: count > 1).to("),
        {"counts": Verdict.KEPT},
    ),
    "an operation before a named store": Pair(
        COUNT,
        COUNT.replace("words.", "words.filter(lambda key, word: bool(word))."),
        {"counts": Verdict.KEPT},
    ),
    "a named store renamed": Pair(
        COUNT,
        COUNT.replace("counts", "totals"),
        {"counts": Verdict.EMPTY, "totals": Verdict.NEW},
    ),
    "an operation before an unnamed store": Pair(
        UNNAMED.format(""),
        UNNAMED.format(".filter(lambda key, word: bool(word))"),
        {FIRST: Verdict.EMPTY, SECOND: Verdict.NEW},
    ),
    "two unnamed stores that change places": Pair(
        TWO.format("count('a'); count('b'); words.to('out')"),
        TWO.format("count('b'); count('a'); words.to('out')"),
        {SWAPPED: Verdict.WRONG, LAST: Verdict.WRONG},
    ),
    "an unnamed store that comes to lie under the name of another": Pair(
        f"{UNNAMED.format('')}\n{UNNAMED.format('.map_values(str.upper)')}",
        UNNAMED.format(".filter(bool).filter(bool).filter(bool)").replace(
            "bool", "lambda *_: True"
        ),
        {FIRST: Verdict.EMPTY, THIRD: Verdict.UNSURE},
    ),
    "a store removed": Pair(COUNT, 'words.to("out", **text)', {"counts": Verdict.EMPTY}),
    "a store added": Pair(
        COUNT,
        f'{COUNT}\nwords.group_by_key().count(name="more")',
        {"counts": Verdict.KEPT, "more": Verdict.NEW},
    ),
    "a tumbling window of another size": Pair(
        windowed(TUMBLING),
        windowed("TimeWindows.of_size_with_no_grace(20_000)"),
        {"counts": Verdict.WRONG},
    ),
    "tumbling windows that begin to hop": Pair(
        windowed(TUMBLING),
        windowed(f"{TUMBLING}.advance_by(5_000)"),
        {"counts": Verdict.WRONG},
    ),
    "another grace period": Pair(
        windowed(TUMBLING),
        windowed("TimeWindows.of_size_and_grace(10_000, 5_000)"),
        {"counts": Verdict.KEPT},
    ),
    "a grace period so long that segments are cut otherwise": Pair(
        windowed(TUMBLING),
        windowed("TimeWindows.of_size_and_grace(10_000, 3_600_000)"),
        {"counts": Verdict.REFUSED},
    ),
    "a tumbling window of another size, without a changelog, in tasks of another number": Pair(
        WINDOWED_UNLOGGED.format(TUMBLING),
        BEHIND_ANOTHER + WINDOWED_UNLOGGED.format(LONGER),
        {"counts": Verdict.EMPTY},
    ),
    "a tumbling window of another size, on another engine, without a changelog": Pair(
        windowed(TUMBLING).replace('"counts"', '"counts", store_type=StoreEngine.IN_MEMORY'),
        WINDOWED_UNLOGGED.format(LONGER),
        {"counts": Verdict.EMPTY},
    ),
    "another gap of sessions": Pair(
        windowed(SESSIONS),
        windowed("SessionWindows.of_inactivity_gap_with_no_grace(20_000)"),
        {"counts": Verdict.WRONG},
    ),
    "windows that become sessions": Pair(
        windowed(TUMBLING), windowed(SESSIONS), {"counts": Verdict.WRONG}
    ),
    "tumbling windows that become sliding ones": Pair(
        windowed(TUMBLING),
        windowed("SlidingWindows.of_time_difference_with_no_grace(10_000)"),
        {"counts": Verdict.WRONG},
    ),
    "windows that hop by less": Pair(
        windowed(f"{TUMBLING}.advance_by(5_000)"),
        windowed(f"{TUMBLING}.advance_by(2_000)"),
        {"counts": Verdict.WRONG},
    ),
    "another difference of sliding windows": Pair(
        windowed("SlidingWindows.of_time_difference_with_no_grace(10_000)"),
        windowed("SlidingWindows.of_time_difference_with_no_grace(20_000)"),
        {"counts": Verdict.WRONG},
    ),
    "sessions that become windows": Pair(
        windowed(SESSIONS), windowed(TUMBLING), {"counts": Verdict.WRONG}
    ),
    "one window of all time that begins later": Pair(
        windowed("UnlimitedWindows.of()"),
        windowed("UnlimitedWindows.of().start_on(1_700_000_000_000)"),
        {"counts": Verdict.EMPTY},
    ),
    "windows where there were none": Pair(COUNT, windowed(TUMBLING), {"counts": Verdict.WRONG}),
    "windows given up": Pair(windowed(TUMBLING), COUNT, {"counts": Verdict.WRONG}),
    "final results asked for": Pair(
        windowed(TUMBLING),
        "words.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10_000))"
        '.emit_strategy(EmitStrategy.on_window_close()).count(name="counts")',
        {"counts": Verdict.REFUSED},
    ),
    "results kept longer, within the same segments": Pair(
        windowed(TUMBLING),
        windowed(TUMBLING, ", retention_ms=60_000"),
        {"counts": Verdict.KEPT},
    ),
    "results kept for a shorter time": Pair(
        windowed(TUMBLING, ", retention_ms=60_000"),
        windowed(TUMBLING),
        {"counts": Verdict.KEPT},
    ),
    "another serde of keys": Pair(
        BY_NUMBER.format("INT"),
        BY_NUMBER.format("LONG"),
        {"counts": Verdict.WRONG, "counts-repartition": Verdict.UNSURE},
    ),
    "another serde of values": Pair(
        OWN_STORE.format(KEY_VALUE.format("LONG")),
        OWN_STORE.format(KEY_VALUE.format("DOUBLE")),
        {"own": Verdict.WRONG},
    ),
    "bytes that are read as text": Pair(
        OWN_STORE.format(KEY_VALUE.format("BYTES")),
        OWN_STORE.format(KEY_VALUE.format("STRING")),
        {"own": Verdict.UNSURE},
    ),
    "another ready aggregation": Pair(
        'words.group_by_key().aggregate(aggregations.mean(len), name="made")',
        'words.group_by_key().aggregate(aggregations.variance(len), name="made")',
        {"made": Verdict.WRONG},
    ),
    "a reduction that becomes an aggregation": Pair(
        'words.group_by_key().reduce(lambda had, word: had + word, name="made")',
        "words.group_by_key().aggregate(str, lambda key, word, had: had + word, "
        'name="made", value_serde=serdes.STRING)',
        {"made": Verdict.KEPT},
    ),
    "a count that becomes a reduction": Pair(
        COUNT,
        'words.group_by_key().reduce(lambda had, word: had + word, name="counts")',
        {"counts": Verdict.WRONG},
    ),
    "a cogroup of one stream more": Pair(
        COGROUP.format(""),
        COGROUP.format('.cogroup(builder.stream("first", **text).group_by_key(), add)'),
        {"made": Verdict.KEPT},
    ),
    "a cogroup of one stream less": Pair(
        COGROUP_OF_TWO.format("words", "first"),
        COGROUP_OF_ONE.format("words"),
        {"made": Verdict.UNSURE},
    ),
    "two streams of a cogroup that change places": Pair(
        COGROUP_OF_TWO.format("words", "first"),
        COGROUP_OF_TWO.format("first", "words"),
        {"made": Verdict.UNSURE},
    ),
    "two streams of a windowed cogroup that change places": Pair(
        COGROUP_OF_TWO.replace(".aggregate", f".windowed_by({TUMBLING}).aggregate").format(
            "words", "first"
        ),
        COGROUP_OF_TWO.replace(".aggregate", f".windowed_by({TUMBLING}).aggregate").format(
            "first", "words"
        ),
        {"made": Verdict.UNSURE},
    ),
    "two tables of a join that change places": Pair(
        JOINED_TABLES.format("a", "b", "left"),
        JOINED_TABLES.format("b", "a", "left"),
        {"both": Verdict.UNSURE, "a": Verdict.KEPT, "b": Verdict.KEPT},
    ),
    "a left join of tables that becomes an outer join": Pair(
        JOINED_TABLES.format("a", "b", "left"),
        JOINED_TABLES.format("a", "b", "outer"),
        {"both": Verdict.UNSURE, "a": Verdict.KEPT, "b": Verdict.KEPT},
    ),
    "tables of a join that keeps nothing, in a table behind it, that change places": Pair(
        OF_JOINED_TABLES.format("a", "b", "left"),
        OF_JOINED_TABLES.format("b", "a", "left"),
        {"often": Verdict.UNSURE, "a": Verdict.KEPT, "b": Verdict.KEPT},
    ),
    "a left join that keeps nothing, and becomes an outer one, below a count of its rows": Pair(
        COUNT_OF_JOINED_TABLES.format("a", "b", "left"),
        COUNT_OF_JOINED_TABLES.format("a", "b", "outer"),
        {
            "counts": Verdict.UNSURE,
            "counts-repartition": Verdict.KEPT,
            "a": Verdict.KEPT,
            "b": Verdict.KEPT,
        },
    ),
    "a left join that becomes an outer one, whose changes are counted": Pair(
        CHANGES_OF_JOINED_TABLES.format("a", "b", "left"),
        CHANGES_OF_JOINED_TABLES.format("a", "b", "outer"),
        {"counts": Verdict.KEPT, "a": Verdict.KEPT, "b": Verdict.KEPT},
    ),
    "a left join by a foreign key that becomes an inner join": Pair(
        BY_FOREIGN_KEY.format(orders="a", key="STRING", goods="b", of="STRING").replace(
            'node_name="joined"', 'node_name="joined", name="both"'
        ),
        BY_FOREIGN_KEY.format(orders="a", key="STRING", goods="b", of="STRING")
        .replace('node_name="joined"', 'node_name="joined", name="both"')
        .replace("left_join", "join"),
        {
            "both": Verdict.UNSURE,
            "a": Verdict.KEPT,
            "b": Verdict.KEPT,
            "joined-subscription-store": Verdict.KEPT,
            "joined-subscription-registration-topic": Verdict.KEPT,
            "joined-subscription-response-topic": Verdict.KEPT,
        },
    ),
    "a name lost": Pair(COUNT, UNNAMED.format(""), {"counts": Verdict.EMPTY, FIRST: Verdict.NEW}),
    "a name given": Pair(UNNAMED.format(""), COUNT, {FIRST: Verdict.EMPTY, "counts": Verdict.NEW}),
    "a cache taken away": Pair(
        COUNT,
        'words.group_by_key().count(materialized=Materialized(name="counts", caching=False))',
        {"counts": Verdict.KEPT},
    ),
    "a store moved out of memory": Pair(
        COUNT.replace('"counts"', '"counts", store_type=StoreEngine.IN_MEMORY'),
        COUNT,
        {"counts": Verdict.REBUILT},
    ),
    "a store moved into memory": Pair(
        COUNT,
        COUNT.replace('"counts"', '"counts", store_type=StoreEngine.IN_MEMORY'),
        {"counts": Verdict.REBUILT},
    ),
    "rows that begin to expire": Pair(
        COUNT, COUNT.replace('"counts"', '"counts", ttl_ms=60_000'), {"counts": Verdict.REBUILT}
    ),
    "rows that begin to expire, without a changelog from now on": Pair(
        COUNT,
        'words.group_by_key().count(materialized=Materialized(name="counts", ttl_ms=60_000, '
        "logging=False))",
        {"counts": Verdict.REFUSED},
    ),
    "rows that begin to expire in a store that gets a changelog": Pair(
        UNLOGGED.format(ON_DISK),
        COUNT.replace('"counts"', '"counts", ttl_ms=60_000'),
        {"counts": Verdict.REFUSED},
    ),
    "rows that expire no more in a table that is restored from its topic from now on": Pair(
        TABLE.format("none").replace(
            'name="table"', 'materialized=Materialized(name="table", ttl_ms=60_000, logging=False)'
        ),
        TABLE.format("reuse.ktable.source.topics"),
        {"table": Verdict.REBUILT},
    ),
    "a grace period that cuts segments otherwise, in tasks of another number": Pair(
        windowed(TUMBLING),
        BEHIND_ANOTHER + windowed("TimeWindows.of_size_and_grace(10_000, 3_600_000)"),
        {"counts": Verdict.REBUILT},
    ),
    "a table restored from its topic that was not there before": Pair(
        COUNT,
        TABLE.format("reuse.ktable.source.topics") + COUNT,
        {"counts": Verdict.KEPT, "table": Verdict.FILLED},
    ),
    "a table of versions that becomes a global table": Pair(
        'builder.table("rows", **text, materialized=Materialized('
        'supplier=Stores.persistent_versioned_key_value_store("table", 60_000)))',
        GLOBAL,
        {"table": Verdict.EMPTY},
    ),
    "a store that gets a changelog": Pair(
        UNLOGGED.format(ON_DISK), COUNT, {"counts": Verdict.UNSURE}
    ),
    "rows that expire no more": Pair(
        COUNT.replace('"counts"', '"counts", ttl_ms=600_000_000'),
        COUNT,
        {"counts": Verdict.REBUILT},
    ),
    "another time to live": Pair(
        COUNT.replace('"counts"', '"counts", ttl_ms=60_000'),
        COUNT.replace('"counts"', '"counts", ttl_ms=30_000'),
        {"counts": Verdict.KEPT},
    ),
    "a part declared before the others": Pair(
        COUNT,
        BEHIND_ANOTHER + COUNT,
        {"counts": Verdict.REBUILT},
    ),
    "a part declared before a store without a changelog": Pair(
        UNLOGGED.format(ON_DISK),
        BEHIND_ANOTHER + UNLOGGED.format(ON_DISK),
        {"counts": Verdict.EMPTY},
    ),
    "a part declared before a store that gets a changelog": Pair(
        UNLOGGED.format(ON_DISK), BEHIND_ANOTHER + COUNT, {"counts": Verdict.EMPTY}
    ),
    "a part declared before a store that gives its changelog up": Pair(
        COUNT, BEHIND_ANOTHER + UNLOGGED.format(ON_DISK), {"counts": Verdict.EMPTY}
    ),
    "another number of partitions of a repartition topic": Pair(
        SPREAD.format("num_partitions=4, "),
        SPREAD.format("num_partitions=8, "),
        {"counts": Verdict.KEPT, "spread-repartition": Verdict.REFUSED},
    ),
    "a number of partitions given to a repartition topic": Pair(
        SPREAD.format(""),
        SPREAD.format("num_partitions=8, "),
        {"counts": Verdict.KEPT, "spread-repartition": Verdict.UNSURE},
    ),
    "the number of partitions of a repartition topic taken away": Pair(
        SPREAD.format("num_partitions=4, "),
        SPREAD.format(""),
        {"counts": Verdict.KEPT, "spread-repartition": Verdict.UNSURE},
    ),
    "a repartition topic renamed": Pair(
        BY_WORD.format(", name='by-word'"),
        BY_WORD.format(", name='of-words'"),
        {
            "counts": Verdict.KEPT,
            "by-word-repartition": Verdict.EMPTY,
            "of-words-repartition": Verdict.NEW,
        },
    ),
    "a changelog given up": Pair(
        COUNT,
        'words.group_by_key().count(materialized=Materialized(name="counts", logging=False))',
        {"counts": Verdict.UNSURE},
    ),
    "a store without a changelog moved into memory": Pair(
        UNLOGGED.format(ON_DISK), UNLOGGED.format(IN_MEMORY), {"counts": Verdict.EMPTY}
    ),
    "a store without a changelog moved out of memory": Pair(
        UNLOGGED.format(IN_MEMORY), UNLOGGED.format(ON_DISK), {"counts": Verdict.KEPT}
    ),
    "a changelog given up in memory": Pair(
        COUNT.replace('"counts"', '"counts", store_type=StoreEngine.IN_MEMORY'),
        UNLOGGED.format(IN_MEMORY),
        {"counts": Verdict.EMPTY},
    ),
    "a changelog given up in a store moved into memory": Pair(
        COUNT, UNLOGGED.format(IN_MEMORY), {"counts": Verdict.EMPTY}
    ),
    "a changelog given up in a store moved out of memory": Pair(
        COUNT.replace('"counts"', '"counts", store_type=StoreEngine.IN_MEMORY'),
        UNLOGGED.format(ON_DISK),
        {"counts": Verdict.EMPTY},
    ),
    "a changelog given to a store moved into memory": Pair(
        UNLOGGED.format(ON_DISK),
        COUNT.replace('"counts"', '"counts", store_type=StoreEngine.IN_MEMORY'),
        {"counts": Verdict.EMPTY},
    ),
    "a store in memory without a changelog removed": Pair(
        UNLOGGED.format(IN_MEMORY), 'words.to("out", **text)', {"counts": Verdict.KEPT}
    ),
    "two unnamed stores in memory without changelogs that change places": Pair(
        TWO_UNLOGGED.format("count('a'); count('b'); words.to('out')"),
        TWO_UNLOGGED.format("count('b'); count('a'); words.to('out')"),
        {
            "KSTREAM-AGGREGATE-STATE-STORE-0000000003": Verdict.KEPT,
            "KSTREAM-AGGREGATE-STATE-STORE-0000000007": Verdict.KEPT,
        },
    ),
    "the stores of a join renamed": Pair(
        JOIN.format("10_000"),
        JOIN.format("10_000").replace("pairs", "couples"),
        {
            "pairs-this-join-store": Verdict.EMPTY,
            "pairs-other-join-store": Verdict.EMPTY,
            "couples-this-join-store": Verdict.NEW,
            "couples-other-join-store": Verdict.NEW,
        },
    ),
    "windows of a join that reach further": Pair(
        JOIN.format("10_000"),
        JOIN.format("20_000"),
        {"pairs-this-join-store": Verdict.KEPT, "pairs-other-join-store": Verdict.KEPT},
    ),
    "a table that is restored from its topic from now on": Pair(
        TABLE.format("none"), TABLE.format("reuse.ktable.source.topics"), {"table": Verdict.REBUILT}
    ),
    "a table that is restored from its topic no more": Pair(
        TABLE.format("reuse.ktable.source.topics"), TABLE.format("none"), {"table": Verdict.REFUSED}
    ),
    "a count of other topics": Pair(
        COUNT, f'words = builder.stream("others", **text)\n{COUNT}', {"counts": Verdict.UNSURE}
    ),
    "a store whose values get timestamps": Pair(PLAIN, STAMPED, {"own": Verdict.KEPT}),
    "a store whose values lose their timestamps": Pair(STAMPED, PLAIN, {"own": Verdict.REFUSED}),
    "windows whose values get timestamps": Pair(
        PLAIN_WINDOWS, STAMPED_WINDOWS, {"own": Verdict.REFUSED}
    ),
    "two stores whose names change places": Pair(
        UPPER.format("counts", "more"),
        UPPER.format("more", "counts"),
        {"counts": Verdict.UNSURE, "more": Verdict.UNSURE},
    ),
    "an operation before one of two stores that is before the other, too": Pair(
        UPPER.format("counts", "more"),
        UPPER.format("counts", "more").replace("words.group", "words.map_values(str.upper).group"),
        {"counts": Verdict.KEPT, "more": Verdict.KEPT},
    ),
    "one topic more": Pair(
        COUNT,
        f'builder = StreamsBuilder()\nwords = builder.stream(["in", "first"], **text)\n{COUNT}',
        {"counts": Verdict.KEPT},
    ),
    "one topic less": Pair(
        f'builder = StreamsBuilder()\nwords = builder.stream(["in", "first"], **text)\n{COUNT}',
        COUNT,
        {"counts": Verdict.UNSURE},
    ),
    "results kept so much longer that segments are cut otherwise": Pair(
        windowed(TUMBLING),
        windowed(TUMBLING, ", retention_ms=3_600_000"),
        {"counts": Verdict.REFUSED},
    ),
    "other settings of a changelog topic": Pair(
        COUNT,
        'words.group_by_key().count(materialized=Materialized(name="counts", '
        'log_config={"min.compaction.lag.ms": "60000"}))',
        {"counts": Verdict.KEPT},
    ),
    "repeated records dropped for longer": Pair(
        DISTINCT.format("10_000"), DISTINCT.format("20_000"), {"once-store": Verdict.WRONG}
    ),
    "repeated records told apart by more than their keys": Pair(
        DISTINCT.format("10_000"),
        DISTINCT.format("10_000, by=lambda key, word: word"),
        {"once-store": Verdict.WRONG},
    ),
    "repeated records told apart by their keys alone": Pair(
        DISTINCT.format("10_000, by=lambda key, word: word"),
        DISTINCT.format("10_000"),
        {"once-store": Verdict.WRONG},
    ),
    "repeated records told apart with another serde": Pair(
        DISTINCT.format("10_000, by=lambda key, word: word"),
        DISTINCT.format("10_000, by=lambda key, word: word, by_serde=serdes.STRING"),
        {"once-store": Verdict.WRONG},
    ),
    "repeated records told apart by another function": Pair(
        DISTINCT.format("10_000, by=lambda key, word: word"),
        DISTINCT.format("10_000, by=lambda key, word: word[0]"),
        {"once-store": Verdict.KEPT},
    ),
    "keys of another serde, of which repeated records are dropped": Pair(
        DISTINCT.format("10_000"),
        DISTINCT.format("10_000, key_serde=serdes.JSON"),
        {"once-store": Verdict.WRONG},
    ),
    "a partitioner given to a repartition topic": Pair(
        SPREAD.format(""),
        SPREAD.format(BY_LENGTH),
        {"counts": Verdict.KEPT, "spread-repartition": Verdict.UNSURE},
    ),
    "a partitioner of a repartition topic taken away": Pair(
        SPREAD.format(BY_LENGTH),
        SPREAD.format(""),
        {"counts": Verdict.KEPT, "spread-repartition": Verdict.UNSURE},
    ),
    "a global table that becomes a table": Pair(
        'builder.global_table("rows", **text, name="table")',
        'builder.table("rows", **text, name="table")',
        {"table": Verdict.REBUILT},
    ),
    "a global table that becomes a table of another topic": Pair(
        'builder.global_table("rows", **text, name="table")',
        'builder.table("others", **text, name="table")',
        {"table": Verdict.EMPTY},
    ),
    "a table that becomes a global one": Pair(
        'builder.table("rows", **text, name="table")',
        'builder.global_table("rows", **text, name="table")',
        {"table": Verdict.REBUILT},
    ),
    "a table that becomes a global one of another topic": Pair(
        'builder.table("others", **text, name="table")',
        'builder.global_table("rows", **text, name="table")',
        {"table": Verdict.EMPTY},
    ),
    "a reduction of a topic that becomes a global table of it": Pair(
        'builder.stream("rows", **text).group_by_key().reduce(max, name="table")',
        'builder.global_table("rows", **text, name="table")',
        {"table": Verdict.EMPTY},
    ),
    "a global table that was not there before": Pair(
        COUNT,
        COUNT + GLOBAL,
        {"counts": Verdict.KEPT, "table": Verdict.FILLED},
    ),
    "a global table of another topic": Pair(
        GLOBAL,
        GLOBAL.replace("rows", "others"),
        {"table": Verdict.UNSURE},
    ),
    "an inner join that becomes a left join": Pair(
        JOIN.format("10_000"),
        JOIN.format("10_000").replace("words.join", "words.left_join"),
        {
            "pairs-this-join-store": Verdict.KEPT,
            "pairs-other-join-store": Verdict.EMPTY,
            "pairs-outer-other-join-store": Verdict.NEW,
            "pairs-left-shared-join-store": Verdict.NEW,
        },
    ),
    "windows of another size, in another store, above a suppression": Pair(
        FINAL.format(TUMBLING, "counts"),
        FINAL.format(LONGER, "totals"),
        {"final-store": Verdict.WRONG, "counts": Verdict.EMPTY, "totals": Verdict.NEW},
    ),
    "windows that begin to hop, in another store, above a suppression": Pair(
        FINAL.format(TUMBLING, "counts"),
        FINAL.format(f"{TUMBLING}.advance_by(5_000)", "totals"),
        {"final-store": Verdict.WRONG, "counts": Verdict.EMPTY, "totals": Verdict.NEW},
    ),
    "another grace period above a suppression": Pair(
        FINAL.format(TUMBLING, "counts"),
        FINAL.format("TimeWindows.of_size_and_grace(10_000, 5_000)", "counts"),
        {"counts": Verdict.KEPT, "final-store": Verdict.KEPT},
    ),
    "windows of another size, in another store, above a table of them": Pair(
        OFTEN.format(TUMBLING, "counts"),
        OFTEN.format(LONGER, "totals"),
        {"often": Verdict.WRONG, "counts": Verdict.EMPTY, "totals": Verdict.NEW},
    ),
    "windows that become sliding ones, in another store, above a table of them": Pair(
        OFTEN.format(TUMBLING, "counts"),
        OFTEN.format(SLIDING, "totals"),
        {"often": Verdict.WRONG, "counts": Verdict.EMPTY, "totals": Verdict.NEW},
    ),
    "windows that become sessions, in another store, above a table of them": Pair(
        OFTEN.format(TUMBLING, "counts"),
        OFTEN.format(SESSIONS, "totals"),
        {"often": Verdict.WRONG, "counts": Verdict.EMPTY, "totals": Verdict.NEW},
    ),
    "windows of another size, in another store, above a repartition topic": Pair(
        SPREAD_WINDOWS.format(TUMBLING, "counts"),
        SPREAD_WINDOWS.format(LONGER, "totals"),
        {
            "counts": Verdict.EMPTY,
            "totals": Verdict.NEW,
            "spread-repartition": Verdict.UNSURE,
        },
    ),
    "foreign keys of another serde, of another table": Pair(
        BY_FOREIGN_KEY.format(orders="copy", key="STRING", goods="first", of="LONG"),
        BY_FOREIGN_KEY.format(orders="copy", key="STRING", goods="out", of="STRING"),
        {
            "joined-subscription-store": Verdict.WRONG,
            "copy": Verdict.KEPT,
            "first": Verdict.EMPTY,
            "out": Verdict.NEW,
            "joined-subscription-registration-topic": Verdict.UNSURE,
            "joined-subscription-response-topic": Verdict.KEPT,
        },
    ),
    "primary keys of another serde, of another table": Pair(
        BY_FOREIGN_KEY.format(orders="copy", key="STRING", goods="first", of="LONG"),
        BY_FOREIGN_KEY.format(orders="out", key="LONG", goods="first", of="LONG"),
        {
            "joined-subscription-store": Verdict.WRONG,
            "copy": Verdict.EMPTY,
            "out": Verdict.NEW,
            "first": Verdict.KEPT,
            "joined-subscription-registration-topic": Verdict.KEPT,
            "joined-subscription-response-topic": Verdict.UNSURE,
        },
    ),
    "a field more in the rows of a left table that is joined by a foreign key": Pair(
        BY_WHO.format(field=""),
        BY_WHO.format(field="pieces: int = 1"),
        {
            "result": Verdict.KEPT,
            "orders": Verdict.KEPT,
            "people": Verdict.KEPT,
            "once-store": Verdict.KEPT,
            "joined-subscription-store": Verdict.KEPT,
            "joined-subscription-registration-topic": Verdict.KEPT,
            "joined-subscription-response-topic": Verdict.KEPT,
        },
    ),
    "an unnamed store declared before others that are made alike": Pair(
        LIKE_IT,
        f"words.filter(lambda key, word: True).group_by_key().count()\n{LIKE_IT}",
        {SECOND: Verdict.UNSURE, LAST: Verdict.UNSURE, EIGHTH: Verdict.NEW},
    ),
    "an unnamed store that comes to lie under the name of another that is made alike": Pair(
        LIKE_IT,
        f'words.map_values(str.upper).map_values(str.lower).to("out", **text)\n{LIKE_IT}',
        {SECOND: Verdict.EMPTY, LAST: Verdict.WRONG, EIGHTH: Verdict.NEW},
    ),
    "an unnamed store declared before another one, of other windows": Pair(
        f"{windowed(TUMBLING)}".replace('name="counts"', ""),
        f"{windowed(TUMBLING)}\n{windowed(LONGER)}".replace('name="counts"', ""),
        {WINDOWS: Verdict.KEPT, LATER_WINDOWS: Verdict.NEW},
    ),
}
