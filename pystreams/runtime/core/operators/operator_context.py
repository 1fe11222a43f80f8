"""What the operators of one task are given: stores, outputs, serdes, schedules, error handling.

One object a running task; made anew when the task starts again, so that nothing of an aborted
life is left over. It implements `TaskContext` of the topology.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pystreams.errors import (
    NOT_OF_ONE_RECORD,
    ConfigError,
    ProcessingError,
    SerializationError,
    StateStoreCorruptedError,
    StreamsError,
)
from pystreams.exception_texts import exception_text, named_exception
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.async_functions import refuse_coroutine
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.user_tracebacks import has_users_line
from pystreams.origin import Origin
from pystreams.record import OutputBuffer, PresentRecord, TaskTime
from pystreams.runtime.core.failures.dead_letters import DeadLetterRecord
from pystreams.runtime.core.failures.error_context import ErrorContext
from pystreams.runtime.core.failures.error_handlers import (
    ErrorHandler,
    ErrorResponse,
    ask,
    in_attempts,
    where,
)
from pystreams.runtime.core.failures.record_warnings import RecordWarnings
from pystreams.runtime.core.operators.committed_numbers import CommittedNumbers
from pystreams.runtime.core.operators.held_records import HeldRecords
from pystreams.runtime.core.operators.idle_input import IdleInput
from pystreams.runtime.core.operators.punctuation import PunctuationQueue, Schedule
from pystreams.runtime.core.operators.unfinished_work import UnfinishedWork
from pystreams.runtime.core.queues.record_queue import RecordQueue
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.serdes import Serde, filled, filled_value
from pystreams.stores.contracts.spec import StoreKind
from pystreams.topology.contracts.operator import Details, LogLevel
from pystreams.topology.contracts.processor import PunctuationType, Punctuator
from pystreams.topology.plan.topology_plan import TopologyPlan

_log = get_logger("pystreams.tasks")


class OperatorContext:
    """Context of the operators of one task.

    Args:
        time: The task's stream time, and the wall clock's.
        store: Returns a store of the task by name.
        end_run: Lets the run end with the present record.

    Attributes:
        time: The task's stream time, and the wall clock's.
        app_configs: All of the configuration by Kafka's names.
        state_directory: The task's directory; set before the processors start.
        committed_numbers: What operators commit with the offsets; the task reads and writes it.
        call_of: Returns the user's call that declared a node.
        origin: The input of what waits in the buffers; the task adds to it.
        punctuations: What the processors have scheduled.
        idle_input: Who is told of a silent input.
        unfinished: What operators have left for later.
        held: What operators hold back.
        monotonic_ms: Tells a time that never goes back (ms).
        commit_requested: A processor asked for a commit.
        dropped_records: Records dropped so far: by an operation's semantics or by a handler.
        warnings: Tells of those, and of functions that are called again.
        skips_by: What has records skipped that fail in processing, in an error's words.
    """

    skips_by = "processing.exception.handler=continue"

    def __init__(
        self,
        task_id: TaskId,
        plan: TopologyPlan,
        settings: TaskSettings,
        record: PresentRecord,
        time: TaskTime,
        store: Callable[[str], Any],
        end_run: Callable[[], None] = lambda: None,
    ) -> None:
        self.application_id = plan.application_id
        self.task_id = task_id
        self.record = record
        self.time = time
        self.settings = settings.operators
        self.app_configs = settings.app_configs
        self.state_directory = Path()
        self.committed_numbers = CommittedNumbers()
        self.committed_number = self.committed_numbers.committed
        self.commit_number = self.committed_numbers.commit
        self.store = store
        self.origin = Origin()
        self.held = HeldRecords(plan.topology.nodes)
        self.punctuations = PunctuationQueue(self.held)
        self.idle_input = IdleInput()
        self.on_idle_input = self.idle_input.watch
        self.unfinished = UnfinishedWork(self.held)
        self.hold_records = self.held.add
        self.async_calls = settings.async_calls()
        self.end_run = end_run
        self.monotonic_ms = settings.monotonic_ms or (lambda: time.monotonic_ms)
        self.commit_requested = False
        self.dropped_records = 0
        self.warnings = RecordWarnings(task_id, record, time)
        self.called_again = self.warnings.called_again
        self.not_called_again = self.warnings.not_called_again
        self._plan = plan
        self.call_of = plan.topology.call_of
        self._settings = settings
        self._environment = settings.stores.environment
        self._outputs: dict[tuple[str, int | None], OutputBuffer] = {}
        self._shared: dict[str, Any] = {}
        self._on_init: list[Callable[[], None]] = []
        self._on_close: list[Callable[[], None]] = []

    # ------------------------------------------------------------------ what the task calls

    def outputs(self) -> list[OutputBuffer]:
        """Return the buffers of all topics written to so far."""
        return list(self._outputs.values())

    def send_dead_letters(self, letters: Iterable[DeadLetterRecord]) -> None:
        """Put dead letters into the buffers of their topics."""
        for topic, key, value, timestamp, headers in letters:
            self.output(topic).records.append((key, value, timestamp, headers))

    def all_outputs(self, queues: Mapping[TopicPartition, RecordQueue]) -> list[OutputBuffer]:
        """Return the buffers, with the dead letters of records that queues are past."""
        for queue in queues.values():
            self.send_dead_letters(queue.dead_letters.take(queue.next_offset))
        return self.outputs()

    def init_processors(self) -> None:
        """Run what the operators left for the start, in the order in which nodes were added.

        They were attached in the opposite order, from the sinks up.

        Raises:
            ProcessingError: A processor's `init` raised.
        """
        for action in reversed(self._on_init):
            self._run_user_code(action, "init")

    def close_processors(self) -> None:
        """Run what the operators left for the end, in the order in which nodes were added.

        A second call does nothing.

        Raises:
            ProcessingError: A processor's `close` raised; the others were closed all the same.
        """
        self.warnings.tell_rest()
        if self.held:
            self.held.discard()
            self.async_calls.cancel()
        closing, self._on_close = self._on_close, []
        self.punctuations.clear()
        first_error: StreamsError | None = None
        for action in reversed(closing):
            try:
                self._run_user_code(action, "close")
            except StateStoreCorruptedError as error:  # The task rebuilds it when it next uses it.
                _log.warning("processor not closed", task=self.task_id.logged, why=str(error))
            except StreamsError as error:
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    def begin_silence(self, partitions: Iterable[TopicPartition]) -> None:
        """Let silence begin now, when the task does; behind a repartition with the first record.

        There what fills the topic may not run yet: see ADR 9.
        """
        if not any(self._plan.is_repartition(partition.topic) for partition in partitions):
            self.idle_input.heard(self.time.now_ms)

    def wall_clock_due_ms(self) -> int | None:
        """Return when the wall clock makes something due (ms); None if nothing."""
        due_ms = self.punctuations.next_due_ms(PunctuationType.WALL_CLOCK_TIME)
        idle_due_ms = self.idle_input.due_ms
        if due_ms is None or idle_due_ms is None:
            return due_ms if idle_due_ms is None else idle_due_ms
        return min(due_ms, idle_due_ms)

    def fire(self, kind: PunctuationType, time_ms: int, is_silent: Callable[[], bool]) -> int:
        """Fire what a clock has made due; return how much.

        Args:
            kind: Which clock.
            time_ms: The clock's time (ms).
            is_silent: Whether no record waits to be processed, here or at the broker.
        """
        fired = self.punctuations.fire(kind, time_ms, self.run_punctuator)
        if kind is PunctuationType.STREAM_TIME or not self.idle_input.due(time_ms):
            return fired
        self._begin_punctuation(time_ms)
        return fired + self.idle_input.look(time_ms, is_silent)

    def run_punctuator(self, schedule: Schedule, time_ms: int) -> None:
        """Call one punctuator with its clock's time (ms)."""
        self._begin_punctuation(time_ms)
        punctuator: Callable[[int], object] = schedule.punctuator
        try:
            returned = punctuator(time_ms)
            refuse_coroutine(returned, "its punctuator returned", of_records=False)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            self.report_error(error, schedule.node)

    # ------------------------------------------------------------------ what operators call

    def global_store(self, name: str, reader: str) -> Any:
        """Return a node's view of a global store; None if there is none of the name."""
        if name not in self._plan.topology.global_stores:
            return None
        return self._settings.global_stores.view(name, reader)

    def store_kind(self, name: str) -> StoreKind:
        """Return what a store of the task can do."""
        return self._plan.topology.stores[name].store_kind

    def shared(self, key: str, make: Callable[[], Any]) -> Any:
        """Return what nodes of the task share under a key."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def output(self, topic: str, partition: int | None = None) -> OutputBuffer:
        """Return the buffer of records going to a topic."""
        key = (topic, partition)
        output = self._outputs.get(key)
        if output is None:
            output = OutputBuffer(topic, partition, task_id=self.task_id, origin=self.origin)
            output.records = self._settings.records_for(topic)
            self._outputs[key] = output
        return output

    def topic_name(self, topic: str) -> str:
        """Return the real name of a topic."""
        return self._plan.topic_name(topic)

    def num_partitions(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        return self._settings.num_partitions(topic)

    def key_serde(self, serde: Serde[Any] | None, node: str) -> Serde[Any]:
        """Return the serde given, else the configured default."""
        return _found(filled(serde, self._environment.default_key_serde), "key", node)

    def value_serde(self, serde: Serde[Any] | None, node: str) -> Serde[Any]:
        """Return the serde given, else the configured default."""
        defaults = self._environment.default_value_serde, self._environment.default_key_serde
        return _found(filled_value(serde, *defaults), "value", node)

    def report_error(self, error: Exception, node: str, attempts: int = 1) -> None:
        """Give what went wrong with a record at a node to the processing handler."""
        if not _is_about_the_record(error):
            raise error
        context = replace(self._error_context("processing", node), attempts=attempts)
        if self._drops(self._settings.processing_handler, context, error):
            return
        told_by_traceback = has_users_line(error) and not isinstance(error, SerializationError)
        declared = "" if told_by_traceback else self.call_of(node).told()
        message = (
            f"{self.task_id.told}: processor {node!r}{declared} raised {type(error).__name__}"
            f"{in_attempts(attempts)} on {where(context)}: {exception_text(error)}; "
            f"fix the code, or set {self.skips_by} to skip such records"
        )
        raise ProcessingError(
            message,
            task_id=self.task_id,
            node=node,
            topic=context.topic,
            partition=context.partition,
            offset=context.offset,
        ) from error

    def report_serialization_error(self, error: SerializationError, node: str) -> None:
        """Give a record that can't be serialized to the production handler."""
        context = self._error_context("production", node)
        if self._drops(self._settings.production_handler, context, error):
            return
        raise SerializationError(
            f"{self.task_id.told}: node {node!r}{self.call_of(node).told()} can't write what "
            f"came of {where(context)}: {error}, or production.exception.handler=continue "
            "to leave such records out",
            topic=context.topic or error.topic,
            partition=context.partition,
            offset=context.offset,
            task_id=self.task_id,
            node=node,
        ) from error

    def record_dropped(
        self, node: str, reason: str, details: Details | None = None, level: LogLevel = "warning"
    ) -> None:
        """Count a record dropped by an operation's semantics, and tell of it now and then."""
        self.dropped_records += 1
        self.warnings.dropped(node, reason, details, level)

    def schedule(
        self,
        node: str,
        interval_ms: int,
        kind: PunctuationType,
        punctuator: Punctuator,
        start_time_ms: int | None = None,
    ) -> Schedule:
        """Schedule a punctuation of a node."""
        now_ms = self.time.now_ms
        if kind is PunctuationType.STREAM_TIME:
            now_ms = self.time.stream_time
            self.end_run()
        return self.punctuations.schedule(
            node, interval_ms, kind, punctuator, now_ms=now_ms, start_time_ms=start_time_ms
        )

    def go_on_later(self, node: str, go_on: Callable[[], None]) -> None:
        """Go on with something before the next record, and after a commit if one is due."""
        self.unfinished.add(node, go_on)
        self.end_run()

    def request_commit(self) -> None:
        """Ask for a commit."""
        self.commit_requested = True

    def on_init(self, action: Callable[[], None]) -> None:
        """Run `action` when the task starts."""
        self._on_init.append(action)

    def on_close(self, action: Callable[[], None]) -> None:
        """Run `action` when the processors close."""
        self._on_close.append(action)

    # ------------------------------------------------------------------ inside

    def _begin_punctuation(self, time_ms: int) -> None:
        """Take note that what follows comes of no record, but of a time (ms)."""
        self.origin.punctuated = True
        record = self.record
        record.message = None
        record.headers = ()
        record.timestamp = time_ms

    def _run_user_code(self, action: Callable[[], None], stage: str) -> None:
        try:
            action()
        except Exception as error:
            if not _is_about_the_record(error):
                raise
            message = f"{self.task_id.told}: a processor's {stage} raised {named_exception(error)}"
            raise ProcessingError(message, task_id=self.task_id, node=stage) from error

    def _drops(self, handler: ErrorHandler, context: ErrorContext, error: Exception) -> bool:
        """Ask a handler; return whether the record is dropped, its dead letters being sent."""
        if (response := ask(handler, context, error)).result is not ErrorResponse.CONTINUE:
            return False
        self.dropped_records += 1
        self.send_dead_letters(response.dead_letter_queue_records)
        return True

    def _error_context(self, stage: str, node: str) -> ErrorContext:
        if (message := self.record.message) is None:
            return ErrorContext(stage, self.task_id, node, timestamp=self.record.timestamp)
        return ErrorContext.of(stage, self.task_id, node, message)


def _is_about_the_record(error: Exception) -> bool:
    """Return whether an error may be left behind together with the record.

    What the user's code raised may, and so may what does not fit a store's serdes. A store that
    failed, a broker or a schema registry that does not answer stop the task, and so does what a
    handler has decided further down the chain.

    Differs from Kafka, which asks the handler about failed stores and brokers as well: going on
    would lose the record for a reason that is not its own.
    """
    if isinstance(error, SerializationError):
        return error.node is None and not isinstance(error.__cause__, NOT_OF_ONE_RECORD)
    return not isinstance(error, StreamsError)


def _found(chosen: Serde[Any] | None, part: str, node: str) -> Serde[Any]:
    if chosen is None:
        raise ConfigError(
            f"node {node!r} has no {part} serde: give it {part}_serde=..., or set "
            f"default.{part}.serde in the configuration"
        )
    return chosen
