"""Waits for the outcome of a step of a commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError

from pystreams.errors import (
    FatalStreamsError,
    RetriableClientError,
    StreamsError,
    TaskMigratedError,
)
from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.connection.confluent import Producer
from pystreams.runtime.adapters.connection.confluent_errors import CLIENT_EXCEPTIONS, error_of
from pystreams.runtime.adapters.connection.kafka_partitions import offsets_to_commit
from pystreams.runtime.cluster.committed_offsets import CommittedOffset

_TRY_S = 0.5
"""librdkafka goes on with a commit that is called again; in between an order to stop is heard."""
_ANSWER_TIMEOUT_S = 30.0
_LOOK_S = 0.5
_PAUSE_S = 0.05
_GRACE_S = 1.0
"""For the client to say itself that a time limit has passed."""

_log = get_logger("pystreams.kafka")


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """How long a commit may take.

    Attributes:
        transaction_s: How long its transaction may (s).
        commit_s: How long it is tried (s), but never less than an answer may take.
        gives_up: See `ProducerPort`.
    """

    transaction_s: float
    commit_s: float
    gives_up: Callable[[float], bool] = lambda _: False


def until_answered(
    call: Callable[[float], None],
    translated: Callable[[KafkaError], StreamsError],
    limit_s: float,
    too_late: type[StreamsError],
    *,
    gives_up: Callable[[float], bool] = lambda _: False,
    tell_after_s: float = 5.0,
) -> None:
    """Repeat a step until it has an outcome, and say so once when that takes its time.

    Args:
        call: The step; takes how long it may wait (s).
        translated: Gives what an error of the client means. It is not asked about the end of a
            try while an answer may still come: that is no sign of a lost request.
        limit_s: How long to repeat it while that is a `RetriableClientError` (s).
        too_late: What is raised then.
        gives_up: See `ProducerPort`; what is raised then is a `TaskMigratedError`, as the outcome
            is known to the next producer of the same id alone.
        tell_after_s: How long it may take before that is told (s).

    Raises:
        StreamsError: The step has failed.
    """
    begun_s = time.monotonic()
    told = False
    while True:
        try:
            call(_TRY_S)
            return
        except CLIENT_EXCEPTIONS as raised:
            waited_s, found = time.monotonic() - begun_s, error_of(raised)
            given_up = gives_up(waited_s)
            in_time = waited_s < min(limit_s, _ANSWER_TIMEOUT_S) and not given_up
            if in_time and found.code() == KafkaError._TIMED_OUT:  # noqa: SLF001
                why = str(found)
            else:
                error = translated(found)
                if not isinstance(error, RetriableClientError):
                    raise error from raised
                if waited_s >= limit_s:
                    raise too_late(f"{error}; gave up after {waited_s:.0f} s") from raised
                if given_up:
                    raise TaskMigratedError(f"{error}; given up for a stop") from raised
                why = str(error)
            if waited_s > tell_after_s and not told:
                _log.warning("the commit waits for the broker", why=why)
                told = True
            # Usually librdkafka has waited; some errors come back at once.
            time.sleep(_PAUSE_S)


def commit(
    client: Producer,
    offsets: Mapping[TopicPartition, CommittedOffset],
    group_metadata: Any,
    translated: Callable[[KafkaError, str], StreamsError],
    limits: CommitLimits,
) -> None:
    """Add offsets to the open transaction, if there are any, and commit it.

    Args:
        offsets: The next offset of each partition.
        translated: Gives what an error of the client means, and what was done then.

    Raises:
        StreamsError: One of the two has failed.
    """
    if offsets:
        send_offsets(
            client.send_offsets_to_transaction,
            offsets,
            group_metadata,
            lambda error: translated(error, "sending offsets to the transaction"),
            limits,
        )
    until_answered(
        client.commit_transaction,
        lambda error: translated(error, "committing"),
        max(limits.commit_s, _ANSWER_TIMEOUT_S),
        FatalStreamsError,  # Rolling back might undo a success.
        gives_up=limits.gives_up,
    )


def send_offsets(
    send: Callable[..., None],
    offsets: Mapping[TopicPartition, CommittedOffset],
    group_metadata: Any,
    translated: Callable[[KafkaError], StreamsError],
    limits: CommitLimits,
) -> None:
    """Add offsets to the open transaction.

    Args:
        offsets: The next offset of each partition.
        translated: Gives what an error of the client means.

    Raises:
        StreamsError: They were not sent.
    """
    positions = offsets_to_commit(offsets)

    def send_in_time(_: float) -> None:
        waits_s = min(_ANSWER_TIMEOUT_S, limits.transaction_s)
        begun_s = time.monotonic()
        until_s = begun_s + waits_s + _GRACE_S

        def over() -> bool:
            now_s = time.monotonic()
            return now_s >= until_s or limits.gives_up(now_s - begun_s)

        if not _returns(lambda: send(positions, group_metadata, waits_s), over):
            silence = translated(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
            waited_s = time.monotonic() - begun_s
            raise TaskMigratedError(f"{silence}; gave up after {waited_s:.0f} s")

    until_answered(
        send_in_time,
        translated,
        min(limits.transaction_s, limits.commit_s),
        # librdkafka goes on asking a group coordinator that the cluster has put out, for ever:
        # only a new client finds the next one. The transaction is lost by then.
        TaskMigratedError,
        gives_up=limits.gives_up,
    )


def _returns(call: Callable[[], None], over: Callable[[], bool]) -> bool:
    """Make a call; return whether it has returned before its time was over, or raise what it did.

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
    while not ended.wait(_LOOK_S):
        if over():
            return False
    if failed:
        raise failed.pop()
    return True
