"""Joins each row of a table with the row of another one that it names: by a foreign key.

    primary table -> send ==subscription topic==> receive -> answer -+
                                                     |               |
                                              [subscriptions]        +==response topic==> resolve
                                                     |               |                       |
    foreign table -------------------------------> tell -------------+              looks into the
                                                                                 primary table again

A primary row subscribes to its foreign row, where that lives; what it hears comes back to where it
lives itself. Until then it may have changed: a response says of which value it is (by a hash), and
is dropped if the row has another one now. `unanswered` says when such a row of an inner join has to
ask again. Of a row that an earlier version of the program has kept, whose serde wrote it in other
bytes, the hash is that of the bytes in its store. Differs from Kafka, which drops its answers.

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
from pystreams.topology.operators.joins.unanswered import KeysOfNow, Unanswered
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
        value_serde: Serde of the primary table's values.
    """

    topic: str
    foreign_key_of: Callable[[Any, Any], Any]
    left: bool
    foreign_key_serde: Serde[Any] | None
    primary_key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        task, name, forward = node.task, node.name, node.forward
        foreign_key_of, left, partition = self.foreign_key_of, self.left, task.task_id.partition
        record_dropped, report_error = task.record_dropped, task.report_error
        topic = task.topic_name(self.topic)
        foreign_serde = task.key_serde(self.foreign_key_serde, name)
        serialize_foreign = foreign_serde.serializer(topic + FOREIGN_KEY_SUFFIX)
        primary_serde = task.key_serde(self.primary_key_serde, name)
        serialize_primary = primary_serde.serializer(topic + PRIMARY_KEY_SUFFIX)
        value_serde = task.value_serde(self.value_serde, name)
        serialize_value = value_serde.serializer(topic + VALUE_HASH_SUFFIX)
        unanswered: Unanswered = task.shared(self.topic, Unanswered)
        in_turn = task.settings.answers_in_turn
        asked = KeysOfNow(task.time) if in_turn else unanswered

        def differ(foreign: Any, other: Any) -> bool:
            if foreign is None or other is None:
                return foreign is not other
            return serialize_foreign(foreign) != serialize_foreign(other)

        def ask(key: Any, foreign: Any, digest: Any, timestamp: int, headers: Headers) -> None:
            forward(foreign, Subscription(digest, _ANSWER, key, partition), timestamp, headers)

        unanswered.ask = ask

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if type(change) is LateChange:
                record_dropped(name, "a late update of a versioned table", level="info")
                return
            new, old = change
            if new is None and old is None:
                return
            try:
                before = None if old is None else foreign_key_of(key, old)
                now = None if new is None else foreign_key_of(key, new)
                digest = None if new is None else hash_of(serialize_value(new))
                moved = before is not None and differ(now, before)
                answered = left or moved
                if not left and (moved or asked.keys):
                    answered = asked.asks(
                        serialize_primary(key), moved=moved, names=now is not None
                    )
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            if now is None and not left:
                if new is not None:
                    record_dropped(name, "null foreign key")
                if moved:
                    subscription = Subscription(digest, _UNSUBSCRIBE_AND_ANSWER, key, partition)
                    forward(before, subscription, timestamp, headers)
                return
            if moved:
                subscription = Subscription(digest, _UNSUBSCRIBE, key, partition)
                forward(before, subscription, timestamp, headers)
            instruction = _ANSWER if answered else _ANSWER_IF_THERE
            forward(now, Subscription(digest, instruction, key, partition), timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class SubscriptionReceiveOperator:
    """Keeps subscriptions, where the foreign rows live.

    Attributes:
        topic: The subscription topic, without the application's prefix.
        store: Keeps subscriptions by foreign and primary key.
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
        topic: The subscription topic, without the application's prefix.
        table: How to look into the foreign table.
    """

    topic: str
    foreign_key_serde: Serde[Any] | None
    table: TableView

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        task, name, forward = node.task, node.name, node.forward
        lookup, report_error = self.table.as_sent().bind(node), task.report_error
        topic = task.topic_name(self.topic)
        foreign_serde = task.key_serde(self.foreign_key_serde, name)
        serialize_foreign = foreign_serde.serializer(topic + FOREIGN_KEY_SUFFIX)
        gone: KeysOfNow = task.shared(f"{self.topic} gone", lambda: KeysOfNow(task.time))

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
                if (
                    row is None
                    and instruction is _ANSWER_IF_THERE
                    and not (gone.keys and gone.has(serialize_foreign(key)))
                ):
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
        gone: KeysOfNow = task.shared(f"{self.topic} gone", lambda: KeysOfNow(task.time))
        in_turn = task.settings.answers_in_turn

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if key is None:
                record_dropped(name, "null key")
                return
            if type(change) is LateChange:
                record_dropped(name, "a late update of a versioned table", level="info")
                return
            try:
                foreign = serialize_foreign(key)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                report_error(error, name)
                return
            if in_turn and change[0] is None:
                gone.add(foreign)
            for stored_key, (subscription, _) in prefix_scan(combined_key(foreign, b"")):
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
        foreign_key_of: Called with (key, value) of a primary row; returns its foreign key, or None.
        joiner: Called with (key, value, foreign value).
        left: Whether rows without a foreign row are in the result.
    """

    topic: str
    table: TableView
    primary_key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    foreign_key_of: Callable[[Any, Any], Any]
    joiner: Callable[[Any, Any, Any], Any]
    left: bool

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        task, name, forward = node.task, node.name, node.forward
        record_dropped, report_error = task.record_dropped, task.report_error
        view, joiner, left = self.table.as_sent(), self.joiner, self.left
        lookup, bytes_of = view.bind(node), view.bind_bytes(node)
        topic = task.topic_name(self.topic)
        primary_serde = task.key_serde(self.primary_key_serde, name)
        serialize_primary = primary_serde.serializer(topic + PRIMARY_KEY_SUFFIX)
        value_serde = task.value_serde(self.value_serde, name)
        serialize_value = value_serde.serializer(topic + VALUE_HASH_SUFFIX)
        foreign_key_of = self.foreign_key_of
        unanswered: Unanswered = task.shared(self.topic, Unanswered)
        waiting, in_turn = unanswered.keys, task.settings.answers_in_turn

        def step(key: Any, response: Response, timestamp: int, headers: Headers) -> None:
            digest, foreign_value, _ = response
            asks = None
            try:
                value, row_timestamp = lookup(key)
                present = None if value is None else hash_of(serialize_value(value))
                late = digest != present
                if late and value is not None and bytes_of is not None:
                    stored = bytes_of(key)
                    late = stored is None or digest != hash_of(stored)
                if late and not left and foreign_value is None:
                    late = serialize_primary(key) in waiting
                    if not late and value is not None:
                        asks = foreign_key_of(key, value)
                elif waiting and not late:
                    waiting.discard(serialize_primary(key))
                if late or (foreign_value is None and (not left or value is None)):
                    joined = None
                else:
                    joined = joiner(key, value, foreign_value)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            if late or asks is not None:
                record_dropped(name, "the row has changed since it asked", level="debug")
                if asks is not None and not in_turn:
                    waiting.add(serialize_primary(key))
                    # A store of the user's may keep rows without their times: -1.
                    asked_at = timestamp if row_timestamp < 0 else row_timestamp
                    unanswered.ask(key, asks, present, asked_at, headers)
                return
            forward(key, joined, timestamp, headers)

        return step
