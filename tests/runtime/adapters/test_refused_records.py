"""Who is asked about a record that a topic does not take, and what an answer means."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from pystreams.errors import ProcessingError, ProductionError
from pystreams.record import ProducedRecord
from pystreams.runtime.adapters.batch_limits import BatchLimits, BatchSize
from pystreams.runtime.adapters.refused_records import RefusedRecords
from pystreams.runtime.core.error_handlers import (
    ErrorContext,
    ErrorHandler,
    ErrorResponse,
    log_and_continue,
)
from pystreams.testing.simulation.clock import ManualClock

WRONG: ProducedRecord = (b"a secret", None, 1, ())
INVALID = KafkaError(KafkaError.INVALID_RECORD)


def records_of(handler: ErrorHandler) -> RefusedRecords:
    limits = BatchLimits(lambda _: {}, ManualClock())
    config = {"message.max.bytes": 1_000_000, "batch.size": 1_000_000}
    return RefusedRecords(handler, BatchSize(config, limits, ()))


def test_a_handler_that_raises_is_named_with_what_it_was_asked_about() -> None:
    def forgetful(_context: ErrorContext, _error: Exception) -> ErrorResponse:
        raise KeyError("forgot")

    with pytest.raises(ProcessingError) as caught:
        records_of(forgetful).decide(INVALID, "out", 3, WRONG)

    error = caught.value
    assert (error.task_id, error.node, error.topic, error.partition) == (None, None, "out", 3)
    assert str(error).startswith("the handler of production errors raised KeyError: 'forgot'")
    for part in ("a record for out", "the producer raised ProductionError", "without a key"):
        assert part in str(error)
    assert isinstance(error.__cause__, KeyError)


def test_a_changelog_has_no_handler() -> None:
    asked = records_of(log_and_continue)
    asked.changelogs.add("changelog")
    with pytest.raises(ProductionError, match=r"'changelog' .*without a key"):
        asked.decide(INVALID, "changelog", 0, WRONG)


def test_values_are_not_shown() -> None:
    asked = records_of(lambda _context, _error: ErrorResponse.FAIL)
    with pytest.raises(ProductionError) as caught:
        asked.decide(INVALID, "out", None, WRONG)
    assert "secret" not in str(caught.value)
