"""What librdkafka's errors mean to the runtime.

Every error of the client is translated here, by what the runtime does next (see `ports`):

| librdkafka says | becomes |
|---|---|
| another member has this one's `group.instance.id` | `IdentityTakenError` |
| a fencing code: a newer producer or member took over | `TaskMigratedError` |
| abort the transaction | `TransactionAbortableError` |
| retriable, or a code that passes by itself | `RetriableClientError` |
| anything else, and what is fatal to the client | `FatalStreamsError` |

A fencing code wins over "abort": after it, aborting would only repeat what somebody else does. Two
processes of one identity, as after a copy of the state directory, would fence each other for ever:
that has an error of its own, by which the thread ends one of them.
"""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore.

from __future__ import annotations

import re

from confluent_kafka import KafkaError, KafkaException

from pystreams.errors import (
    DELETED_CHANGELOG,
    DELETED_REPARTITION,
    FatalStreamsError,
    IdentityTakenError,
    RetriableClientError,
    StreamsError,
    TaskMigratedError,
    TransactionAbortableError,
)
from pystreams.record import ProducedRecord

CLIENT_EXCEPTIONS = (KafkaException, SystemError)
"""What calls that run callbacks raise; see `error_of`."""

FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
        KafkaError.PRODUCER_FENCED,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.UNRELEASED_INSTANCE_ID,
    }
)
"""Somebody else is the owner now; or the broker has ended a transaction by its time limit, after
which librdkafka's producer can't be used any more. Both begin anew from what is committed."""

OLD_LEADER = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError._NOENT,
    }
)
"""The client remembers a leader of before an election, as after a broker's restart, or none."""

TRANSIENT = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._DESTROY_BROKER,  # One that has left the cluster, or has another address now.
        KafkaError._MSG_TIMED_OUT,
        KafkaError._NOENT,  # No leader is known (yet, or any more).
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_CACHE,
        KafkaError._WAIT_COORD,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,  # We knew a leader from before an election.
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
"""The same call may succeed later, whether or not librdkafka says so.

Source: Kafka's subclasses of `RetriableException`, `InvalidMetadataException` among them.
"""

OVERSIZED = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
"""A batch is too large for its topic, whatever its records are."""

SPOILED = frozenset(
    {
        KafkaError._INVALID_DIFFERENT_RECORD,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
    }
)
"""A record of the batch is wrong; the first of these is said of the others."""

MISSING_TOPIC = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
"""The topic may still be created."""
SHOWN_AFTER_S = 5.0
"""How late a broker may show a topic that was created just now."""

OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
"""The broker does not hold the offset to be read, and nothing says where to go on."""

UNFIT = (TypeError, ValueError, OverflowError)
"""What the client raises of a record that has a part it does not take at all."""

FORBIDDEN = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SECURITY_DISABLED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
    }
)
"""Nothing is taken, whatever the record is: no handler drops one for that.

Source: Kafka Streams' `RecordCollectorImpl.isFatalException`.
"""

REFUSED = (
    OVERSIZED
    | SPOILED
    | MISSING_TOPIC
    | FORBIDDEN
    | {
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.POLICY_VIOLATION,
    }
)
"""A record, or its batch, is wrong for its topic: sending it again as it is changes nothing."""

PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""A message we threw away ourselves, in an abort."""


_CURES = {
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant IDEMPOTENT_WRITE on the cluster",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "grant READ on the group (the application.id)",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (
        "grant DESCRIBE on the topic, and READ or WRITE as it is read or written"
    ),
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "grant WRITE on transactional ids that begin with the application.id"
    ),
    KafkaError.INVALID_TRANSACTION_TIMEOUT: (
        "set producer.transaction.timeout.ms below the broker's transaction.max.timeout.ms"
    ),
    KafkaError.UNSUPPORTED_VERSION: "use a newer broker, or group.protocol=classic",
    KafkaError._AUTHENTICATION: "check the sasl.* and ssl.* keys",
    KafkaError._UNKNOWN_PARTITION: (
        "create the topic again, with the partitions it had; or, where a partitioner of yours has "
        "chosen that partition, let it choose one that there is"
    ),
    KafkaError._UNKNOWN_TOPIC: "create the topic",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "create the topic",
    KafkaError.INVALID_RECORD: "a compacted topic takes no record without a key: give it one",
    KafkaError.INVALID_TIMESTAMP: (
        "the topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms say which "
        "timestamps it takes"
    ),
    KafkaError.MSG_SIZE_TOO_LARGE: (
        "raise producer.max.request.size and the topic's max.message.bytes, "
        "or drop such records with production.exception.handler=continue"
    ),
}


_RIGHTS_TO_TOPICS = {
    "changing settings of topic": "ALTER_CONFIGS",
    "creating topic": "CREATE",
    "deleting topic": "DELETE",
    "purging": "DELETE",
}
"""What is done -> the operation that has to be granted."""

_GO_ON = "and start again: it goes on from its last commit, and nothing is lost"

_CURES_OF_WRITES = {
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: f"grant IDEMPOTENT_WRITE on the cluster, {_GO_ON}",
    KafkaError.SECURITY_DISABLED: f"set up an authorizer on the brokers, {_GO_ON}",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: f"grant WRITE on the topic, {_GO_ON}",
    KafkaError.TOPIC_EXCEPTION: (
        "write to a topic whose name the brokers take, and which is not one of their own"
    ),
}

_CURES_OF_CHANGELOGS = {
    KafkaError.MSG_SIZE_TOO_LARGE: (
        "raise producer.max.request.size and the changelog's max.message.bytes "
        "(topic.max.message.bytes for those that are still to be made), or keep less in one value; "
        "no handler may drop a record of a changelog, which would differ from its store then"
    ),
}

_SAME_IDENTITY = (
    "another process has the identity of this one (group.instance.id): stop one of them; if this "
    "one's state directory is a copy, start it with an empty one"
)

_SHOWN_KEY_BYTES = 60
_INTERNAL_TOPIC = re.compile(r"-(changelog|repartition)(?:-\d+)?(?![\w.-])")


def error_of(exception: BaseException) -> KafkaError:
    """Return the error a client exception carries.

    A fatal error is raised from within a callback, and the next callback then stumbles over it:
    what reaches us is a `SystemError` with the client's exception as its cause.
    """
    cause: BaseException | None = exception
    while isinstance(cause, SystemError):
        cause = cause.__cause__ or cause.__context__
    if not isinstance(cause, KafkaException):
        raise exception
    error = cause.args[0]
    assert isinstance(error, KafkaError), "librdkafka's exceptions carry a KafkaError"
    return error


def translate(error: KafkaError, doing: str) -> StreamsError:
    """Return the pystreams error for a client error; the caller raises it `from` the original.

    Args:
        doing: What was being done and for whom, as the start of the message.
    """
    code = error.code()
    message = f"{doing}: {error.str()} ({error.name()})"
    # What is fatal to a consumer arrives without its own code.
    same_identity = code == KafkaError._FATAL and "group.instance.id" in error.str()
    if same_identity or code == KafkaError.FENCED_INSTANCE_ID:
        return IdentityTakenError(f"{message}: {_SAME_IDENTITY}")
    if code in FENCED or (code == KafkaError._FATAL and "fenced" in error.str()):
        return TaskMigratedError(message)
    if error.txn_requires_abort():
        return TransactionAbortableError(message)
    cure = cure_of(code, doing)
    if error.fatal() and cure is None:
        return FatalStreamsError(f"{message}; restart the application")
    if not error.fatal() and (error.retriable() or code in TRANSIENT):
        return RetriableClientError(message)
    return FatalStreamsError(f"{message}: {cure}" if cure else message)


def refusal(
    error: KafkaError,
    topic: str,
    partition: int | None,
    record: ProducedRecord,
    *,
    made: str = "",
    is_changelog: bool = False,
) -> str:
    """Return what to say of a record that a topic does not take, and the cure.

    Args:
        partition: The partition, or None when none was chosen yet.
        made: Of what it was made, in words, as far as that is known.
        is_changelog: Whether the topic is a changelog.

    Differs from Kafka: it names the record's key, as nothing else tells which one it is; Kafka does
    so at the level TRACE (KAFKA-7510). Values are never shown.
    """
    key, value, _, _ = record
    where = repr(topic) if partition is None else f"{topic!r} (partition {partition})"
    which = "without a key" if key is None else f"with the key {key[:_SHOWN_KEY_BYTES]!r}"
    about = f"{len(key or b'') + len(value or b'')} bytes of key and value"
    if made:
        about += f", {made}"
    message = (
        f"topic {where} does not take a record {which} ({about}): {error.str()} ({error.name()})"
    )
    code = error.code()
    changelog_cure = _CURES_OF_CHANGELOGS.get(code) if is_changelog else None
    cure = changelog_cure or _CURES_OF_WRITES.get(code) or cure_of(code, topic)
    return f"{message}: {cure}" if cure else message


def cure_of(code: int, about: str = "") -> str | None:
    """Return what to do about an error, or None.

    Args:
        about: What was being done, or to which topic; internal ones are told by their names.
    """
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        for doing, right in _RIGHTS_TO_TOPICS.items():
            if about.startswith(doing):
                return f"grant {right} on the topic"
    internal = _INTERNAL_TOPIC.search(about) if code in MISSING_TOPIC else None
    if internal is None:
        return _CURES.get(code)
    return DELETED_CHANGELOG if internal[1] == "changelog" else DELETED_REPARTITION
