"""Every error pystreams raises, split by what its reader does next.

One root, `StreamsError`; below it one class for each next step: fix the program (`ConfigError`,
`TopologyError`), look at the machine (`StateDirectoryError`, `StateStoreError`) or the registry
(`SchemaRegistryError`), retry later (`StoreNotAvailableError`), decide about one record
(`SerializationError`, `ProcessingError`, `ProductionError`), or let the runtime recover
(`TaskMigratedError`, `TaskCorruptedError`, `RetriableClientError`; these never reach users).
A message says what happened, to which task or topic, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pystreams.exception_texts import exception_text, named_exception

if TYPE_CHECKING:
    from pystreams.ids import TaskId, TopicPartition
    from pystreams.origin import InputRange


DELETED_REPARTITION = (
    "a repartition topic was deleted: start again. Where a state store here holds what was read of "
    "it, the application then makes it anew and stops with the choices; elsewhere it goes on. "
    "Records in it that were not processed are lost; to have them, process all input again after "
    "`pystreams reset`"
)
DELETED_CHANGELOG = (
    "a changelog was deleted: start again. Where a state store here holds what it held, the "
    "application then stops with the choices (`pystreams recover` shows them); elsewhere the topic "
    "is made anew, and the store holds what is written from then on; to have it all, process all "
    "input again after `pystreams reset`"
)

ANY_BROKER = "-c bootstrap.servers=HOST:PORT"
_NO_THREAD = "can't start new thread"
_NO_MORE_THREADS = (
    "the machine starts no more threads for this process: a limit is reached. Raise it (`ulimit "
    "-u`; TasksMax of a systemd unit; the pids limit of a container, as with docker's "
    "--pids-limit), or run fewer stream threads and processes"
)


class StreamsError(Exception):
    """Root of all errors raised by pystreams."""


class ConfigError(StreamsError):
    """A configuration key or value is wrong. Fix the configuration and start again.

    Attributes:
        missing: Keys that have to be set, and are not.
    """

    missing: tuple[str, ...] = ()


class AuthenticationError(ConfigError):
    """Brokers refuse the client: its user, its protocol, or it does not trust their certificate."""


class TopologyError(StreamsError):
    """The topology can't run as written. The message names the node and the cure."""


def how_to_create(topics: Sequence[str], reached_with: str) -> str:
    """Return the advice to create topics, with the command that does it, and reaches the broker."""
    command = f"pystreams topics create {' '.join(topics)} --partitions 4"
    return f"create it, as with `{command} {reached_with}`"


class MissingSourceTopicError(StreamsError):
    """A source topic does not exist on the broker; commands of ours reach it by `reached_with`.

    Attributes:
        topics: The names that were not found, sorted.
    """

    def __init__(self, topics: list[str], reached_with: str = ANY_BROKER) -> None:
        self.topics = sorted(topics)
        names = ", ".join(repr(topic) for topic in self.topics)
        if all(topic.endswith("-repartition") for topic in self.topics):
            super().__init__(f"topic {names} does not exist on the broker: {DELETED_REPARTITION}")
            return
        super().__init__(
            f"source topic {names} does not exist on the broker: correct its name in the topology, "
            f"or {how_to_create(self.topics, reached_with)}, and start again"
        )


class BrokerNotAvailableError(StreamsError):
    """No broker answered within the configured time. Check `bootstrap.servers` and the network."""


class StateDirectoryError(StreamsError):
    """The state directory can't be used: not writable, full, or owned by another process."""


class TaskLockedError(StateDirectoryError):
    """Another process or thread holds the task's directory; the runtime retries.

    Args:
        thread: The thread of this process that holds it; None if another process does.

    Attributes:
        task_id: The task whose directory is locked.
    """

    def __init__(self, task_id: TaskId, directory: str, thread: str | None = None) -> None:
        self.task_id = task_id
        told = (
            "is locked by another process; the task starts when the other process leaves it, or "
            "set another state.dir"
            if thread is None
            else f"is held by this process's thread {thread!r}; the task starts when that one has "
            "given it up, which it does when it has processed the record it is at, and polled"
        )
        super().__init__(f"task {task_id}: directory {directory} {told}")


class StateStoreError(StreamsError):
    """A state store failed: the disk is full, a file is unreadable, a column family is foreign.

    Attributes:
        store: Its name.
        message: What has happened, without that.
    """

    def __init__(self, store: str, message: str) -> None:
        self.store, self.message = store, message
        super().__init__(f"state store {store!r}: {message}")


class StateStoreCorruptedError(StateStoreError):
    """A store's files are damaged; the runtime rebuilds that store alone, if it has a changelog.

    Attributes:
        holds_nothing: Whether it is known that the store holds nothing, and never did.
    """

    holds_nothing = False

    def with_cure(self, cure: str) -> StateStoreCorruptedError:
        """Return an error that says as well, once, what to do where nothing rebuilds the store."""
        if self.message.endswith(cure):
            return self
        return StateStoreCorruptedError(self.store, f"{self.message}. {cure}")


class ChangelogLossError(StateStoreError):
    """A store holds more than its changelog, and is the last copy of it: decide about the store.

    The message has the choices: `pystreams recover`, or `changelog.loss.policy`.

    Attributes:
        changelog: The changelog, where the runtime raised it.
    """

    changelog: TopicPartition | None = None


class StoreNotAvailableError(StreamsError):
    """The store is not open here now: the task restores, moves, or never lived here. Retry."""


class QueryFailedError(StreamsError):
    """A partition has no answer to a query; the message begins with the reason and has the cure."""


class SerializationError(StreamsError):
    """A record could not be turned into bytes or back; goes to the user's handler.

    The coordinates of the record that was being processed are in the message and in the attributes.

    Attributes:
        topic: The topic it was read from. Where no record was being processed (a punctuation, a
            read of a store by another thread) the topic the bytes are of.
        partition: Its partition, or None.
        offset: Its offset, or None.
        task_id: The task that was processing it, or None where no task was.
        node: The processor node that failed on it, or None where no handler was asked.
    """

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        partition: int | None = None,
        offset: int | None = None,
        task_id: TaskId | None = None,
        node: str | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.task_id = task_id
        self.node = node
        super().__init__(message)


class SchemaRegistryError(StreamsError):
    """A schema registry does not answer, or refuses what the application asks of it.

    No handler is asked: records would be skipped for a reason that is not theirs.
    """


NOT_OF_ONE_RECORD = (ConfigError, SchemaRegistryError)
"""What a serde may raise for a reason that is not the record's: no handler is asked."""


class ProcessingError(StreamsError):
    """The user's code raised while processing a record or a punctuation.

    Attributes:
        task_id: The task that was processing; None where the producer raised it.
        node: The name of the processor node whose code raised; None where the producer raised it.
        topic: The source record's topic; None in a punctuation.
        partition: The source record's partition; None in a punctuation.
        offset: The source record's offset; None in a punctuation.
    """

    def __init__(
        self,
        message: str,
        *,
        task_id: TaskId | None,
        node: str | None,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> None:
        self.task_id = task_id
        self.node = node
        self.topic = topic
        self.partition = partition
        self.offset = offset
        super().__init__(message)


class SuppressionBufferFullError(StreamsError):
    """A suppression holds back more than it may, and was told to shut down then.

    It happens again at the next start, unless the bound is raised or the suppression lets records
    go early.

    Attributes:
        task_id: The task whose buffer is full.
        node: The suppression's node.
    """

    def __init__(self, message: str, *, task_id: TaskId, node: str) -> None:
        self.task_id = task_id
        self.node = node
        super().__init__(message)


class ProductionError(StreamsError):
    """A record could not be produced, after all retries of the client.

    Attributes:
        topic: The topic it was going to.
        task_id: The task that made it, or None where several may have.
        made_of: The input it was made of: one record, or ranges of which one is it; empty where
            that is not known.
    """

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        task_id: TaskId | None = None,
        made_of: tuple[InputRange, ...] = (),
    ) -> None:
        self.topic = topic
        self.task_id = task_id
        self.made_of = made_of
        super().__init__(message)


class RetriableClientError(StreamsError):
    """The broker did not answer in time or refused for now; the same call may succeed later.

    The runtime retries or aborts and rewinds; never reaches users while `task.timeout.ms` lasts.
    """


NO_ANSWER = (BrokerNotAvailableError, RetriableClientError)
"""What is raised where brokers don't answer: no failure of what is told to stop meanwhile."""


class TransactionAbortableError(StreamsError):
    """The open transaction must be aborted; the runtime aborts, rewinds and goes on."""


class TaskMigratedError(StreamsError):
    """This member or producer was fenced: its tasks belong to somebody else now.

    The runtime drops the tasks, keeps their stores, and joins again.
    """


class TaskCorruptedError(StreamsError):
    """A running task has met damage in a store: the cause, a `StateStoreCorruptedError`, says more.

    The runtime rebuilds that store, and the task goes on from its last commit.
    """

    def __init__(self, task_id: TaskId, damage: StateStoreCorruptedError) -> None:
        self.damage = damage
        super().__init__(f"{task_id.told}: {damage}")


def damage_in(error: Exception) -> StateStoreCorruptedError | None:
    """Return the damage that an error tells of, which a task has met perhaps; None for another."""
    if isinstance(error, TaskCorruptedError):
        return error.damage
    return error if isinstance(error, StateStoreCorruptedError) else None


class IdentityTakenError(TaskMigratedError):
    """Another member joined the group with this one's `group.instance.id`.

    Once, that may be the last request of a process that was killed; joining again settles it. Soon
    after that again, it is another process with the same identity.
    """


class FatalStreamsError(StreamsError):
    """The client can't go on: an unrecoverable broker answer or a broken invariant. Restart it."""


class InternalError(FatalStreamsError):
    """A bug in pystreams: an error that nobody foresaw, which is the cause. Please report it."""


class InputLossError(FatalStreamsError):
    """A partition ends before what the group has read of it: brokers have lost records.

    Args:
        group: The group that reads it.
        offset: Where the group goes on.
        end: Where the partition ends.
    """

    def __init__(self, partition: TopicPartition, group: str, offset: int, end: int) -> None:
        self.partition = partition
        topic, number = partition
        super().__init__(
            f"{partition} ends at offset {end}, and group {group!r} goes on at offset {offset}: "
            f"brokers have lost records that were processed, {offset - end} or more (a power cut, "
            "an unclean leader election), and new ones may have their offsets; or the topic was "
            "created again, as the next start then says. Read from the beginning, what is left "
            "would count twice. Either start over: `pystreams reset`; or keep the state, and say "
            f"which record is the next, {end} for the first that is written from now on: stop all "
            "processes, and set the group's offset with Kafka's `kafka-consumer-groups "
            f"--bootstrap-server HOST:PORT --group {group} --topic {topic}:{number} "
            f"--reset-offsets --to-offset {end} --execute`"
        )


class OffsetOutOfRangeError(FatalStreamsError):
    """The broker does not hold the offset to be read: deleted, or the log was cut off before it."""

    def __init__(self, message: str, partition: TopicPartition) -> None:
        self.partition = partition
        super().__init__(message)


def as_streams_error(error: BaseException) -> StreamsError:
    """Return an error if it is one of ours; else the one of ours that it causes.

    That is an `InternalError`; but only the user's code asks for the end of a process or a task,
    and only the machine refuses a thread.
    """
    if isinstance(error, StreamsError):
        return error
    if isinstance(error, RuntimeError) and exception_text(error) == _NO_THREAD:
        refused = StreamsError(_NO_MORE_THREADS)
        refused.__cause__ = error
        return refused
    if not isinstance(error, Exception):
        ended = ProcessingError(
            f"code of the application raised {type(error).__name__} ({exception_text(error)}) in a "
            "thread of pystreams, where it ends nothing but that thread: raise an error instead",
            task_id=None,
            node=None,
        )
        ended.__cause__ = error
        return ended
    internal = InternalError(
        f"unexpected {named_exception(error)}; this is a bug in pystreams: please report it "
        "with its traceback"
    )
    internal.__cause__ = error
    return internal
