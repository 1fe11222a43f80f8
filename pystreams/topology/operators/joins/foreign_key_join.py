"""Joins each row of a table with the row of another one that it names: by a foreign key.

    primary table -> send ==subscription topic==> receive -> answer -+
                                                     |               |
                                              [subscriptions]        +==response topic==> resolve
                                                     |               |                       |
    foreign table -------------------------------> tell -------------+              looks into the
                                                                                 primary table again

A primary row subscribes to its foreign row, where that lives; what it hears comes back to where it
lives itself. Until then it may have changed: a response says of which value it is (by a hash), and
is dropped if the row has another one now, because another response is on its way. See `unanswered`
for those of an inner join.

Late changes of versioned tables change no present row, and are dropped. Both tables are looked into
as their changes were sent, without what a record cache holds back, and may never send.

Source: Kafka Streams' `SubscriptionSendProcessorSupplier`, `SubscriptionReceiveProcessorSupplier`,
`SubscriptionJoinProcessorSupplier`, `ForeignTableJoinProcessorSupplier`,
`ResponseJoinProcessorSupplier`. Spec: KIP-213, KIP-914, KIP-962.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystreams.record import Headers
from pystreams.serdes import Serde
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.operators.joins.foreign_key_serdes import (
    FOREIGN_KEY_SUFFIX,
    PRIMARY_KEY_SUFFIX,
    VALUE_HASH_SUFFIX,
    Instruction,
    Response,
    Subscription,
    combined_key,
    hash_of,
    primary_key_in,
)
from pystreams.topology.operators.joins.unanswered import Unanswered
from pystreams.topology.operators.tables.table_view import Change, LateChange, TableView

_UNSUBSCRIBE = Instruction.DELETE_KEY_NO_PROPAGATE
_UNSUBSCRIBE_AND_ANSWER = Instruction.DELETE_KEY_AND_PROPAGATE
_ANSWER = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
_ANSWER_IF_THERE = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE


@dataclass(frozen=True, slots=True)
class SubscriptionSendOperator:
    """Subscribes primary rows to their foreign rows, and unsubscribes them from former ones.

    Attributes:
        topic: The subscription topic, without the application's prefix.
        foreign_key_of: Called with (key, value) of a primary row; returns its foreign key, or None.
        left: Whether rows without a foreign row are in the result.
        key_serde: Serde of foreign keys.
        value_serde: Serde of the primary table's values.
    """

    topic: str
    foreign_key_of: Callable[[Any, Any], Any]
    left: bool
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        task, name, forward = node.task, node.name, node.forward
        foreign_key_of, left, partition = self.foreign_key_of, self.left, task.task_id.partition
        record_dropped, report_error = task.record_dropped, task.report_error
        topic = task.topic_name(self.topic)
        key_serde = task.key_serde(self.key_serde, name)
        serialize_key = key_serde.serializer(topic + FOREIGN_KEY_SUFFIX)
        value_serde = task.value_serde(self.value_serde, name)
        serialize_value = value_serde.serializer(topic + VALUE_HASH_SUFFIX)
        unanswered: Unanswered = task.shared(self.topic, Unanswered)
        heeds = not left and not task.settings.answers_in_turn
        if heeds:
            unanswered.commit_with(node)

        def digest_of(value: Any) -> Any:
            return None if value is None else hash_of(serialize_value(value))

        def differ(foreign: Any, other: Any) -> bool:
            if foreign is None or other is None:
                return foreign is not other
            return serialize_key(foreign) != serialize_key(other)

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if type(change) is LateChange:
                record_dropped(name, "a late update of a versioned table")
                return
            new, old = change
            if new is None and old is None:
                return
            try:
                before = None if old is None else foreign_key_of(key, old)
                now = None if new is None else foreign_key_of(key, new)
                digest = digest_of(new)
                waits = heeds and unanswered.was_waiting(old, digest_of)
                moved = before is not None and differ(now, before)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            if left:
                if moved:
                    subscription = Subscription(digest, _UNSUBSCRIBE, key, partition)
                    forward(before, subscription, timestamp, headers)
                forward(now, Subscription(digest, _ANSWER, key, partition), timestamp, headers)
                return
            if heeds and (waits or moved):
                unanswered.asks(digest)
            if now is None:
                if new is not None:
                    record_dropped(name, "null foreign key")
                if before is not None:
                    subscription = Subscription(digest, _UNSUBSCRIBE_AND_ANSWER, key, partition)
                    forward(before, subscription, timestamp, headers)
                return
            if moved:
                subscription = Subscription(digest, _UNSUBSCRIBE, key, partition)
                forward(before, subscription, timestamp, headers)
            instruction = _ANSWER if moved or waits else _ANSWER_IF_THERE
            forward(now, Subscription(digest, instruction, key, partition), timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class SubscriptionReceiveOperator:
    """Keeps subscriptions, where the foreign rows live.

    Attributes:
        topic: The subscription topic, without the application's prefix.
        store: Keeps subscriptions by foreign and primary key.
        foreign_key_serde: Serde of foreign keys.
        primary_key_serde: Serde of primary keys.
    """

    topic: str
    store: str
    foreign_key_serde: Serde[Any] | None
    primary_key_serde: Serde[Any] | None

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        task, name, forward = node.task, node.name, node.forward
        record, record_dropped, report_error = task.record, task.record_dropped, task.report_error
        put = task.store(self.store).put_with_timestamp
        topic = task.topic_name(self.topic)
        foreign_serde = task.key_serde(self.foreign_key_serde, name)
        serialize_foreign = foreign_serde.serializer(topic + FOREIGN_KEY_SUFFIX)
        primary_serde = task.key_serde(self.primary_key_serde, name)
        serialize_primary = primary_serde.serializer(topic + PRIMARY_KEY_SUFFIX)

        def step(key: Any, value: Subscription, timestamp: int, headers: Headers) -> None:
            instruction = value.instruction
            if key is None:
                if instruction is not _ANSWER:
                    record_dropped(name, "null foreign key")
                    return
            else:
                record.timestamp, record.headers = timestamp, headers
                kept = None if instruction <= _UNSUBSCRIBE_AND_ANSWER else value
                try:
                    primary = serialize_primary(value.primary_key)
                    put(combined_key(serialize_foreign(key), primary), kept, timestamp)
                except Exception as error:  # noqa: BLE001 - a serde may raise anything
                    report_error(error, name)
                    return
            forward(key, value, timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class SubscriptionAnswerOperator:
    """Answers a subscription with the foreign row there is.

    Attributes:
        table: How to look into the foreign table.
    """

    table: TableView

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        lookup, forward = self.table.as_sent().bind(node), node.forward
        report_error, name = node.task.report_error, node.name

        def step(key: Any, value: Subscription, timestamp: int, headers: Headers) -> None:
            digest, instruction, primary_key, partition = value
            if instruction is _UNSUBSCRIBE:
                return
            row = None
            if key is not None:
                try:
                    # The lookup may run user functions: those of a table computed on the fly.
                    row, row_timestamp = lookup(key)
                except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                    report_error(error, name)
                    return
                if row is None and instruction is _ANSWER_IF_THERE:
                    return
                if row_timestamp > timestamp:
                    timestamp = row_timestamp
            if instruction is _UNSUBSCRIBE_AND_ANSWER:
                row = None
            forward(primary_key, Response(digest, row, partition), timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class ForeignTableOperator:
    """Tells all who have subscribed to a foreign row that it has changed.

    Attributes:
        topic: The subscription topic, without the application's prefix.
        store: Keeps subscriptions by foreign and primary key.
        foreign_key_serde: Serde of foreign keys.
        primary_key_serde: Serde of primary keys.
    """

    topic: str
    store: str
    foreign_key_serde: Serde[Any] | None
    primary_key_serde: Serde[Any] | None

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        task, name, forward = node.task, node.name, node.forward
        record_dropped, report_error = task.record_dropped, task.report_error
        prefix_scan = task.store(self.store).prefix_scan
        topic = task.topic_name(self.topic)
        foreign_serde = task.key_serde(self.foreign_key_serde, name)
        serialize_foreign = foreign_serde.serializer(topic + FOREIGN_KEY_SUFFIX)
        primary_serde = task.key_serde(self.primary_key_serde, name)
        deserialize_primary = primary_serde.deserializer(topic + PRIMARY_KEY_SUFFIX)

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if key is None:
                record_dropped(name, "null key")
                return
            if type(change) is LateChange:
                record_dropped(name, "a late update of a versioned table")
                return
            try:
                prefix = combined_key(serialize_foreign(key), b"")
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                report_error(error, name)
                return
            for stored_key, (subscription, _) in prefix_scan(prefix):
                primary_key = deserialize_primary(primary_key_in(stored_key))
                response = Response(subscription.hash, change[0], subscription.primary_partition)
                forward(primary_key, response, timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class ResponseOperator:
    """Joins what a primary row hears with the row, if that is still what it was.

    Attributes:
        topic: The subscription topic, without the application's prefix.
        table: How to look into the primary table.
        value_serde: Serde of its values.
        foreign_key_of: Called with (key, value) of a primary row; returns its foreign key, or None.
        joiner: Called with (key, value, foreign value).
        left: Whether rows without a foreign row are in the result.
    """

    topic: str
    table: TableView
    value_serde: Serde[Any] | None
    foreign_key_of: Callable[[Any, Any], Any]
    joiner: Callable[[Any, Any, Any], Any]
    left: bool

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        task, name, forward = node.task, node.name, node.forward
        record_dropped, report_error = task.record_dropped, task.report_error
        lookup, joiner, left = self.table.as_sent().bind(node), self.joiner, self.left
        value_serde = task.value_serde(self.value_serde, name)
        serialize = value_serde.serializer(task.topic_name(self.topic) + VALUE_HASH_SUFFIX)
        foreign_key_of = self.foreign_key_of
        unanswered: Unanswered = task.shared(self.topic, Unanswered)

        def step(key: Any, response: Response, timestamp: int, headers: Headers) -> None:
            digest, foreign_value, _ = response
            try:
                value = lookup(key)[0]
                present = None if value is None else hash_of(serialize(value))
                if digest != present:
                    if left or (value is not None and foreign_key_of(key, value) is not None):
                        record_dropped(name, "the row has changed since it asked")
                        return
                    foreign_value = None  # A row that names no other any more has no result.
                if not left:
                    unanswered.answered(present)
                if foreign_value is None and (not left or value is None):
                    joined = None
                else:
                    joined = joiner(key, value, foreign_value)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            forward(key, joined, timestamp, headers)

        return step
