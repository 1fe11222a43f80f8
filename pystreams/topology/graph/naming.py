"""Names of nodes and stores, as Kafka Streams generates them.

One counter a builder numbers nodes and stores in the order in which operations are declared:
`KSTREAM-FILTER-0000000003`, `KSTREAM-AGGREGATE-STATE-STORE-0000000004`. A number is used up in
many places even when the user gives a name, so that naming one operation leaves the names of all
others as they were. Topics are derived from these names, therefore a changed name loses state:
never change which operation takes a number.

Source: Kafka Streams' `InternalStreamsBuilder.newProcessorName` and `NamedInternal`.
"""

from __future__ import annotations

import re

from pystreams.errors import TopologyError

STREAM_SOURCE = "KSTREAM-SOURCE-"
STREAM_SINK = "KSTREAM-SINK-"
STREAM_FILTER = "KSTREAM-FILTER-"
STREAM_MAP = "KSTREAM-MAP-"
STREAM_MAP_VALUES = "KSTREAM-MAPVALUES-"
STREAM_MAP_VALUES_BATCH = "KSTREAM-MAPVALUES-BATCH-"
STREAM_MAP_VALUES_ASYNC = "KSTREAM-MAPVALUES-ASYNC-"
STREAM_FLAT_MAP = "KSTREAM-FLATMAP-"
STREAM_FLAT_MAP_VALUES = "KSTREAM-FLATMAPVALUES-"
STREAM_SELECT_KEY = "KSTREAM-KEY-SELECT-"
STREAM_PEEK = "KSTREAM-PEEK-"
STREAM_FOREACH = "KSTREAM-FOREACH-"
STREAM_PRINT = "KSTREAM-PRINTER-"
STREAM_MERGE = "KSTREAM-MERGE-"
STREAM_BRANCH = "KSTREAM-BRANCH-"
STREAM_REPARTITION = "KSTREAM-REPARTITION-"
STREAM_TO_TABLE = "KSTREAM-TOTABLE-"
STREAM_JOIN = "KSTREAM-JOIN-"
STREAM_LEFT_JOIN = "KSTREAM-LEFTJOIN-"
STREAM_WINDOWED = "KSTREAM-WINDOWED-"
STREAM_JOIN_THIS = "KSTREAM-JOINTHIS-"
STREAM_JOIN_OTHER = "KSTREAM-JOINOTHER-"
STREAM_OUTER_THIS = "KSTREAM-OUTERTHIS-"
STREAM_OUTER_OTHER = "KSTREAM-OUTEROTHER-"
STREAM_OUTER_SHARED = "KSTREAM-OUTERSHARED-"
STREAM_PROCESS = "KSTREAM-PROCESSOR-"
STREAM_PROCESS_VALUES = "KSTREAM-PROCESSVALUES-"
STREAM_AGGREGATE = "KSTREAM-AGGREGATE-"
STREAM_REDUCE = "KSTREAM-REDUCE-"
STREAM_DISTINCT = "KSTREAM-DISTINCT-"
COGROUP_AGGREGATE = "COGROUPKSTREAM-AGGREGATE-"
COGROUP_MERGE = "COGROUPKSTREAM-MERGE-"
TABLE_SOURCE = "KTABLE-SOURCE-"
TABLE_FILTER = "KTABLE-FILTER-"
TABLE_MAP_VALUES = "KTABLE-MAPVALUES-"
TABLE_TRANSFORM_VALUES = "KTABLE-TRANSFORMVALUES-"
TABLE_TO_STREAM = "KTABLE-TOSTREAM-"
TABLE_SELECT = "KTABLE-SELECT-"
TABLE_AGGREGATE = "KTABLE-AGGREGATE-"
TABLE_REDUCE = "KTABLE-REDUCE-"
TABLE_MERGE = "KTABLE-MERGE-"
TABLE_JOIN_THIS = "KTABLE-JOINTHIS-"
TABLE_JOIN_OTHER = "KTABLE-JOINOTHER-"
TABLE_SUPPRESS = "KTABLE-SUPPRESS-"
TABLE_SINK = "KTABLE-SINK-"
_FOREIGN_KEY_JOIN = "KTABLE-FK-JOIN-"
FOREIGN_KEY_REGISTRATION = f"{_FOREIGN_KEY_JOIN}SUBSCRIPTION-REGISTRATION-"
FOREIGN_KEY_STORE = f"{_FOREIGN_KEY_JOIN}SUBSCRIPTION-STATE-STORE-"
FOREIGN_KEY_SUBSCRIPTION = f"{_FOREIGN_KEY_JOIN}SUBSCRIPTION-PROCESSOR-"
FOREIGN_KEY_RESPONSE = f"{_FOREIGN_KEY_JOIN}SUBSCRIPTION-RESPONSE-"
FOREIGN_KEY_RESOLVER = f"{_FOREIGN_KEY_JOIN}SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"
FOREIGN_KEY_OUTPUT = f"{_FOREIGN_KEY_JOIN}OUTPUT-"

REPARTITION_SUFFIX = "-repartition"
GENERATED_STREAM_NAME = re.compile(r"KSTREAM.*-[0-9]{10}")
"""Names that need no `-sink` and `-source` behind them; Kafka numbers those nodes instead."""

_GENERATED = re.compile(
    r"(KSTREAM|KTABLE|COGROUPKSTREAM)-[A-Z-]*[0-9]{10}(-[A-Za-z-]+)?|.+-STATE-STORE-[0-9]{10}"
)
_VALID_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_name(name: object, what: str) -> None:
    """Refuse a name that Kafka would refuse: it becomes part of topic names.

    Raises:
        TopologyError: The name is empty, too long or has other characters; says what is allowed.
    """
    if not isinstance(name, str) or name in {".", ".."} or not _VALID_NAME.fullmatch(name):
        raise TopologyError(
            f"{name!r} can't be the name of {what}: use 1 to 249 letters, digits, '.', '_' or '-'"
        )


def is_generated(name: str) -> bool:
    """Return whether a name looks like one of `NameCounter`, whoever has given it."""
    return _GENERATED.fullmatch(name) is not None


class NameCounter:
    """Hands out the names of one builder. Not for several threads.

    Attributes:
        generated: The names it has handed out, and those made of them. One that a user gives is
            none of them, whatever it looks like.
    """

    def __init__(self) -> None:
        self._next = 0
        self.generated: set[str] = set()

    def node(self, prefix: str) -> str:
        """Return the next node's name, `<prefix><10 digits>`."""
        name = f"{prefix}{self._next:010d}"
        self.use_up_a_number()
        self.generated.add(name)
        return name

    def use_up_a_number(self) -> None:
        """Pass over a number that Kafka Streams takes for nothing that has its name."""
        self._next += 1

    def made_of(self, base: str, name: str) -> str:
        """Return a name that was made of another: generated, if that is."""
        if base in self.generated:
            self.generated.add(name)
        return name

    def store(self, prefix: str) -> str:
        """Return the next store's name, `<prefix>STATE-STORE-<10 digits>`."""
        return self.node(f"{prefix}STATE-STORE-")

    def node_or(self, given: str | None, prefix: str) -> str:
        """Return the given name, else a generated one; a number is used up in both cases.

        Raises:
            TopologyError: The given name has characters that Kafka refuses.
        """
        if given is None:
            return self.node(prefix)
        self.use_up_a_number()
        check_name(given, "a node")
        return given

    def suffixed_or(self, given: str | None, suffix: str, prefix: str) -> str:
        """Return the given name with a suffix, else a generated one; uses up a number too.

        Raises:
            TopologyError: The suffixed name has characters that Kafka refuses, or is too long.
        """
        return self.node_or(None if given is None else given + suffix, prefix)
