"""What is told of restores: `StateRestoreListener`."""

from __future__ import annotations

from pystreams.errors import TopologyError
from pystreams.ids import TopicPartition
from pystreams.topology.contracts.user_functions import refuse_async, refuse_generator

_METHODS = ("on_restore_start", "on_batch_restored", "on_restore_end", "on_restore_suspended")


class StateRestoreListener:
    """Told how stores are restored from their changelogs; override what you want to hear.

    Global stores are filled from their topics, which are told of as their changelogs.

    Called by the thread that restores, which waits meanwhile: be quick. What it raises stops
    that thread, and with it the application. Stores that have nothing to restore are not told of.

    Source: Kafka Streams' `StateRestoreListener`.
    """

    def on_restore_start(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        starting_offset: int,
        ending_offset: int,
    ) -> None:
        """Hear that a store begins to be restored.

        Args:
            topic_partition: Its changelog.
            starting_offset: The first offset that is read.
            ending_offset: The offset after the last one.
        """

    def on_batch_restored(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        batch_end_offset: int,
        num_restored: int,
    ) -> None:
        """Hear that a batch was applied.

        Args:
            topic_partition: The changelog.
            batch_end_offset: The offset of the batch's last record.
            num_restored: How many records it had.
        """

    def on_restore_end(
        self, topic_partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        """Hear that a store is restored; `total_restored` records were applied."""

    def on_restore_suspended(
        self, topic_partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        """Hear that a restore ended before its time: its task was moved away or closed."""


def check_listener(listener: object, where: str) -> None:
    """Refuse what can't be told.

    Args:
        where: Whose it is; begins the error's message.

    Raises:
        TopologyError: It is no listener, or a call of one of its methods would run nothing.
    """
    if not isinstance(listener, StateRestoreListener):
        raise TopologyError(f"{where} must be a StateRestoreListener, not {listener!r}")
    for name in _METHODS:
        refuse_async(getattr(listener, name), where)
        refuse_generator(getattr(listener, name), where)
