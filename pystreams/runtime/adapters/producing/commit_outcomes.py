"""Waits for the outcome of a step of a commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError

from pystreams.errors import RetriableClientError, StreamsError, TaskMigratedError
from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.connection.confluent_errors import CLIENT_EXCEPTIONS, error_of
from pystreams.runtime.adapters.connection.kafka_partitions import offsets_to_commit
from pystreams.runtime.cluster.committed_offsets import CommittedOffset

_CALL_TIMEOUT_S = 30.0
_PAUSE_S = 0.05
_GRACE_S = 1.0
"""For the client to say itself that a time limit has passed."""

_log = get_logger("pystreams.kafka")


def until_answered(
    call: Callable[[float], None],
    translated: Callable[[KafkaError], StreamsError],
    limit_s: float,
    too_late: type[StreamsError],
    *,
    tell_after_s: float = 5.0,
) -> None:
    """Repeat a step until it has an outcome, and say so once when that takes its time.

    Args:
        call: The step; takes how long it may wait (s).
        translated: Gives what an error of the client means.
        limit_s: How long to repeat it while that is a `RetriableClientError` (s).
        tell_after_s: How long it may take before that is told (s).

    Raises:
        StreamsError: The step has failed.
    """
    begun_s = time.monotonic()
    told = False
    while True:
        try:
            call(_CALL_TIMEOUT_S)
            return
        except CLIENT_EXCEPTIONS as raised:
            error = translated(error_of(raised))
            if not isinstance(error, RetriableClientError):
                raise error from raised
            waited_s = time.monotonic() - begun_s
            if waited_s >= limit_s:
                raise too_late(f"{error}; gave up after {waited_s:.0f} s") from raised
            if waited_s > tell_after_s and not told:
                _log.warning("the commit waits for the broker", why=str(error))
                told = True
            # Usually librdkafka has waited; some errors come back at once.
            time.sleep(_PAUSE_S)


def send_offsets(
    send: Callable[..., None],
    offsets: Mapping[TopicPartition, CommittedOffset],
    group_metadata: Any,
    translated: Callable[[KafkaError], StreamsError],
    transaction_timeout_s: float,
    commit_timeout_s: float,
) -> None:
    """Add offsets to the open transaction.

    Args:
        offsets: The next offset of each partition.
        translated: Gives what an error of the client means.
        transaction_timeout_s: How long the transaction may take (s).
        commit_timeout_s: How long a commit is tried (s).

    Raises:
        StreamsError: They were not sent.
    """
    positions = offsets_to_commit(offsets)

    def send_in_time(timeout_s: float) -> None:
        waits_s = min(timeout_s, transaction_timeout_s)
        limit_s = waits_s + _GRACE_S
        if not _returns(lambda: send(positions, group_metadata, waits_s), limit_s):
            silence = translated(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
            raise TaskMigratedError(f"{silence}; gave up after {limit_s:.0f} s")

    until_answered(
        send_in_time,
        translated,
        min(transaction_timeout_s, commit_timeout_s),
        # librdkafka goes on asking a group coordinator that the cluster has put out, for ever:
        # only a new client finds the next one. The transaction is lost by then.
        TaskMigratedError,
    )


def _returns(call: Callable[[], None], limit_s: float) -> bool:
    """Make a call; return whether it has returned in time, or raise what it raised.

    librdkafka 2.16 heeds no time limit while it waits for the coordinator of a group (its issues
    5456 and 5511). A call that is left behind holds its client until it returns, and the end of the
    process is not held up by it.
    """
    ended = threading.Event()
    failed: list[BaseException] = []

    def make() -> None:
        try:
            call()
        except BaseException as raised:  # noqa: BLE001 - handed over
            # Its frames would hold the client, and with it the error, until a garbage collection.
            failed.append(raised.with_traceback(None))
        finally:
            ended.set()

    threading.Thread(target=make, name="sending-offsets", daemon=True).start()
    if not ended.wait(limit_s):
        return False
    if failed:
        raise failed.pop()
    return True
