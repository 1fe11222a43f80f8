"""What becomes of the errors that a group consumer finds among its messages."""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore.

from __future__ import annotations

import structlog
from confluent_kafka import KafkaError, KafkaException

from pystreams.errors import FatalStreamsError, MissingSourceTopicError, RetriableClientError
from pystreams.runtime.adapters.confluent import Consumer, Message
from pystreams.runtime.adapters.confluent_errors import (
    MISSING_TOPIC,
    OUT_OF_RANGE,
    error_of,
    translate,
)

_log = structlog.get_logger("pystreams.consumer")

_ANSWER_TIMEOUT_S = 10.0


def handle(error: KafkaError, message: Message, client: Consumer, doing: str) -> None:
    """Return when the consumer goes on by itself.

    Args:
        error: The error.
        message: The message it came as.
        client: The consumer; asked for the topics there are.
        doing: The start of an error's message.

    Raises:
        MissingSourceTopicError: A subscribed topic was deleted, or never was.
        FatalStreamsError: The consumer can't go on.
        TaskMigratedError: The member was fenced out of the group.
    """
    code = error.code()
    if code in MISSING_TOPIC:
        topic = message.topic() or "^"
        is_pattern = topic.startswith("^")  # That nothing matches it yet is no error.
        if not is_pattern and not _exists(topic, client, doing):
            raise MissingSourceTopicError([topic])
    elif code in OUT_OF_RANGE:
        text = (
            f"{message.topic()}-{message.partition()}: {error.str()}; auto.offset.reset says "
            "to stop: set it to earliest or latest, or commit an offset that exists"
        )
        raise FatalStreamsError(text)
    elif code == KafkaError._MAX_POLL_EXCEEDED:
        _log.warning(
            "poll was not called for max.poll.interval.ms: the member left the group and "
            "joins again; raise consumer.max.poll.interval.ms or process smaller batches"
        )
    else:
        _raise_if_lasting(error, doing)


def _exists(topic: str, client: Consumer, doing: str) -> bool:
    """Return whether there is such a topic; taken for granted while no broker answers."""
    try:
        return topic in client.list_topics(timeout=_ANSWER_TIMEOUT_S).topics
    except KafkaException as raised:
        _raise_if_lasting(error_of(raised), doing)
        return True


def _raise_if_lasting(error: KafkaError, doing: str) -> None:
    translated = translate(error, doing)
    if not isinstance(translated, RetriableClientError):
        raise translated
    _log.debug("consumer", error=str(translated))
