"""Names of the built-in functions that a configuration can choose: ours, and Kafka's classes."""

from __future__ import annotations

from pystreams.config.kinds import callable_or_name, topic_or_callable

_HANDLER_NAMES = {
    "fail": "fail",
    "continue": "continue",
    "log_and_fail": "fail",
    "log_and_continue": "continue",
    "logandfailexceptionhandler": "fail",
    "logandcontinueexceptionhandler": "continue",
    "logandfailprocessingexceptionhandler": "fail",
    "logandcontinueprocessingexceptionhandler": "continue",
    "defaultproductionexceptionhandler": "fail",
}
_EXTRACTOR_NAMES = {
    "fail_on_invalid_timestamp": "fail_on_invalid_timestamp",
    "log_and_skip_on_invalid_timestamp": "log_and_skip_on_invalid_timestamp",
    "use_partition_time_on_invalid_timestamp": "use_partition_time_on_invalid_timestamp",
    "wallclock_timestamp": "wallclock_timestamp",
    "failoninvalidtimestamp": "fail_on_invalid_timestamp",
    "logandskiponinvalidtimestamp": "log_and_skip_on_invalid_timestamp",
    "usepartitiontimeoninvalidtimestamp": "use_partition_time_on_invalid_timestamp",
    "wallclocktimestampextractor": "wallclock_timestamp",
}
"""Names of the functions of `pystreams.topology.contracts.extractors`, and Kafka's class names."""

HANDLER = callable_or_name(_HANDLER_NAMES, "a function (context, error) -> ErrorResponse")
"""What decides about a record that fails."""
EXTRACTOR = callable_or_name(_EXTRACTOR_NAMES, "a function (record, partition_time) -> ms")
"""What gives a record its event time."""
DEAD_LETTER_QUEUE = topic_or_callable("a function (context, error) -> topic or None")
"""What names the topic of a dropped record."""
