"""Under which subject a schema is, and with which schema values are written."""

from __future__ import annotations

import enum
from collections.abc import Callable

from pystreams.errors import ConfigError

SubjectName = Callable[[str, str, str | None], str]
"""A strategy of one's own: topic, "key" or "value", and the record's name if it has one."""


class SubjectNameStrategy(enum.Enum):
    """Confluent's names of subjects."""

    TOPIC = "topic"
    """`orders-value`: one type of record a topic."""
    RECORD = "record"
    """`com.shop.Order`: the record's full name, the same in all topics."""
    TOPIC_RECORD = "topic_record"
    """`orders-com.shop.Order`: several types of records a topic."""


class SchemaUse(enum.Enum):
    """Which schema values are written with, where it is not a fixed id."""

    REGISTER = "register"
    """The one given, registered if the subject does not have it."""
    LOOK_UP = "look_up"
    """The one given, which the subject must have."""
    LATEST = "latest"
    """The subject's latest version, whichever that is when a task writes first."""


def subject_of(
    strategy: SubjectNameStrategy | SubjectName, topic: str, part: str, record: str | None
) -> str:
    """Return a subject's name.

    Raises:
        ConfigError: The strategy asks for the name of a record, and there is none.
    """
    if not isinstance(strategy, SubjectNameStrategy):
        return strategy(topic, part, record)
    if strategy is SubjectNameStrategy.TOPIC:
        return f"{topic}-{part}"
    if record is None:
        raise ConfigError(
            f"topic {topic!r}: the subject of its {part}s is named after a record, and no schema "
            "with a name is given; give schema=..., or use SubjectNameStrategy.TOPIC"
        )
    return record if strategy is SubjectNameStrategy.RECORD else f"{topic}-{record}"
