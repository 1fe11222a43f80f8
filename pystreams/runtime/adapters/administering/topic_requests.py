"""Topics created and deleted, though an answer may be lost; and what refusals mean."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException

from pystreams.errors import FatalStreamsError, RetriableClientError
from pystreams.runtime.adapters.connection.confluent_errors import TRANSIENT, error_of, translate

_PAUSE_S = 0.05


def refused_topics(
    ask: Callable[[list[str]], Mapping[str, Future[None]]],
    topics: Collection[str],
    done: frozenset[int],
    patience_s: float,
) -> dict[str, KafkaException]:
    """Have something done to topics; return what brokers refuse.

    Asked for again while the refusals are such as pass. An answer may be lost with its connection,
    on the way to us, or from the controller to the broker that passed the request on and repeats
    it by itself: the next answer is then that it is so already.

    Args:
        done: The codes which say that it is so already.
        patience_s: For how long it is asked for again (s).
    """
    refused: dict[str, KafkaException] = {}
    left = list(topics)
    deadline_s = time.monotonic() + patience_s
    while left:
        again = []
        for name, answer in ask(left).items():
            try:
                answer.result()
            except KafkaException as raised:
                code = error_of(raised).code()
                if code in TRANSIENT and time.monotonic() < deadline_s:
                    again.append(name)
                elif code not in done:
                    refused[name] = raised
        left = again
        if left:
            time.sleep(_PAUSE_S)
    return refused


def creation_error(
    name: str, raised: KafkaException, replication_factor: int
) -> FatalStreamsError | RetriableClientError:
    """Return what it means that a topic could not be created, with a cure."""
    error = error_of(raised)
    translated = translate(error, f"creating topic {name!r}")
    if isinstance(translated, RetriableClientError):
        return translated
    if error.code() == KafkaError.INVALID_REPLICATION_FACTOR:
        cure = f"set replication.factor (now {replication_factor}) to what there is"
        return FatalStreamsError(f"{translated}: {cure}")
    return FatalStreamsError(str(translated))
