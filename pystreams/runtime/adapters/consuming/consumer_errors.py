"""What becomes of the errors that a group consumer finds among its messages."""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore.

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException

from pystreams.errors import (
    ANY_BROKER,
    FatalStreamsError,
    MissingSourceTopicError,
    RetriableClientError,
)
from pystreams.ids import TopicPartition
from pystreams.kernel.clock import Clock, SystemClock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.connection.confluent import Consumer, Message
from pystreams.runtime.adapters.connection.confluent_errors import (
    MISSING_TOPIC,
    OUT_OF_RANGE,
    SHOWN_AFTER_S,
    error_of,
    translate,
)

_log = get_logger("pystreams.consumer")

_ANSWER_TIMEOUT_S = 10.0
_AGAIN_TIMEOUT_S = 3.0
"""How long a stop may have to wait while a topic is in doubt."""
_ASK_AGAIN_S = 10.0
_MISSING_PAUSE_S = 0.5


@dataclass(slots=True)
class ConsumerErrors:
    """Judges the errors of one consumer; owned by its thread.

    librdkafka tells once that a topic is missing. Where no broker confirms it, for then it may be
    an outage that makes topics disappear, the question is kept until one does or denies it. One
    that was created just now may be missing for a moment at this broker, though another shows it.

    Attributes:
        client: The consumer; asked for the topics there are.
        doing: The start of an error's message.
        clock: Tells when to ask again.
        shown_after_s: For how long a topic may be missing that was created just now (s).
        named: The topics that must be there. Others were found by patterns, and may be deleted: the
            group shares out what is left.
        reached_with: The options with which commands of ours reach the brokers.
    """

    client: Consumer
    doing: str
    clock: Clock = field(default_factory=SystemClock)
    shown_after_s: float = field(default=SHOWN_AFTER_S, kw_only=True)
    named: Collection[str] = field(default=(), kw_only=True)
    reached_with: str = field(default=ANY_BROKER, kw_only=True)
    _in_doubt: set[str] = field(default_factory=set, init=False)
    # Since when (s) a broker has been without them.
    _missing_since_s: dict[str, float] = field(default_factory=dict, init=False)
    _ask_at_s: float = field(default=0.0, init=False)

    def take(self, error: KafkaError, message: Message) -> None:
        """Return when the consumer goes on by itself.

        Raises:
            MissingSourceTopicError: A topic subscribed to by its name was deleted, or never was.
            FatalStreamsError: The consumer can't go on.
            TaskMigratedError: The member was fenced out of the group.
        """
        code = error.code()
        if code in MISSING_TOPIC:
            topic = message.topic()
            if topic is not None and topic in self.named:
                self._in_doubt.add(topic)
                self._ask(_ANSWER_TIMEOUT_S)
        elif code in OUT_OF_RANGE:
            raise FatalStreamsError(
                f"{message.topic()}-{message.partition()}: {error.str()}; auto.offset.reset says "
                "to stop: set it to earliest, which goes on behind what was deleted, and stops "
                "with the choices where brokers have lost what was read already"
            )
        elif code == KafkaError._MAX_POLL_EXCEEDED:
            _log.warning(
                "poll was not called for max.poll.interval.ms: the member left the group and "
                "joins again; raise consumer.max.poll.interval.ms or process smaller batches"
            )
        else:
            self._raise_if_lasting(error, message.topic())

    def are_gone(self, error: KafkaError, partitions: Collection[TopicPartition]) -> bool:
        """Return whether an error says that partitions are no more which may be deleted."""
        return error.code() in MISSING_TOPIC and not any(
            partition.topic in self.named for partition in partitions
        )

    def ask_again(self) -> None:
        """Ask about topics in doubt, if there are any, now and then; raises as `take` does."""
        if self._in_doubt and self._now_s() >= self._ask_at_s:
            self._ask(_AGAIN_TIMEOUT_S)

    def _ask(self, timeout_s: float) -> None:
        """Find out which topics there are; all in doubt stay so while no broker answers."""
        try:
            known = self.client.list_topics(timeout=timeout_s).topics
        except KafkaException as raised:
            self._ask_at_s = self._now_s() + _ASK_AGAIN_S
            self._raise_if_lasting(error_of(raised))
            return
        now_s = self._now_s()
        self._in_doubt -= known.keys()
        since_s = {topic: self._missing_since_s.get(topic, now_s) for topic in self._in_doubt}
        self._missing_since_s = since_s
        if lasting := [topic for topic in since_s if now_s - since_s[topic] >= self.shown_after_s]:
            raise MissingSourceTopicError(lasting, self.reached_with)
        self._ask_at_s = now_s + _MISSING_PAUSE_S

    def _now_s(self) -> float:
        return self.clock.monotonic_ms() / 1000

    def _raise_if_lasting(self, error: KafkaError, topic: str | None = None) -> None:
        doing = self.doing if topic is None else f"{self.doing} topic {topic!r}"
        translated = translate(error, doing)
        if not isinstance(translated, RetriableClientError):
            raise translated
        _log.debug("consumer", error=str(translated))
