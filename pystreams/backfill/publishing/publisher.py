"""Publish the results of a backfill or rescale to Kafka, exactly once.

    check -> fence -> create internal topics -> claim -> each task's rows (-> seed) -> hand over

- **Internal topics** are told to keep what is as old as the history (`topic_retention`).
- **Claim**: one transaction commits, for every source partition of the group, where its history
  begins, with a mark (`runtime.core.publishing_mark`). From then on a live application refuses to
  start on this group.
- **Rows**: a task's rows go out in transactions of bounded size; each commits the task's offsets
  again, with the number of rows published so far. Whoever comes after a crash goes on from there.
- **Seed**, if asked for: the stores are built on this host from the same rows (`store_seeder`).
- **Hand-over**: one transaction commits, for every partition, where the live application goes on.

Whoever publishes is alone: the claim and the hand-over use the transactional id
`<application.id>-publisher`, a task's rows that of the live task, `<application.id>-<task id>`.
A second publisher takes the ids over, reads the marks and goes on. A live application under
`exactly_once` fences and is fenced the same way; one under another guarantee has other ids, so the
group is asked for members right before the claim and after it (one that joined before it is seen
then, one that joins later sees the marks), before each task and before the hand-over.

What goes wrong on the way is mended like a crash: new producer, fence, read the mark, go on
(`transactions`). Who was fenced looks at the marks. It goes on only if they say what
this publisher knows, and the broker has ended its transaction by the time limit; else another
publisher has taken over. So it has for one that stumbles over anything when the group was handed
over meanwhile: rows that were tidied up, or a running application, are nobody's to mend then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from pystreams.backfill.broker_waiting import REAL_WAITING, Waiting
from pystreams.backfill.plan.rows import Result
from pystreams.backfill.publishing.broker_checks import PublishingChecks
from pystreams.backfill.publishing.hand_over import (
    Offsets,
    PublishingRefusedError,
    Standing,
    claimed_offsets,
    edges_of,
    handed_over,
    is_handed_over,
    is_said_of_some,
    marks,
    other_rows,
    published_rows,
    standing,
)
from pystreams.backfill.publishing.publication import Publication, PublishedRecords, TaskResults
from pystreams.backfill.publishing.published_note import PublishedNote
from pystreams.backfill.publishing.row_batches import RowBatches
from pystreams.backfill.publishing.store_seeder import Seeded, StateSeeder
from pystreams.backfill.publishing.topic_retention import TopicRetention
from pystreams.backfill.publishing.transactions import PublisherTransactions
from pystreams.backfill.staging.errors import StagingError
from pystreams.config import ProcessingGuarantee, StreamsConfig
from pystreams.errors import RetriableClientError, TaskMigratedError
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.publishing_mark import PublishingMark
from pystreams.runtime.ports import ClientFactory, ConsumerPort, ProducerPort
from pystreams.runtime.tasks.concurrent_calls import ConcurrentCalls
from pystreams.runtime.topics.application_topics import TopicManager
from pystreams.topology.plan.topology_plan import TopologyPlan

_log = get_logger("pystreams.backfill")


class FencedPublisherError(PublishingRefusedError):
    """Another publisher, or the live application, has taken over a transactional id."""


@dataclass(frozen=True, slots=True)
class PublishingSettings:
    """How results are published.

    Attributes:
        with_outputs: Whether to publish output records too; changelogs always are.
        transaction_records: How many records a transaction has at most.
        transaction_bytes: Above so many bytes of keys, values and headers a transaction ends.
    """

    with_outputs: bool = False
    transaction_records: int = 10_000
    transaction_bytes: int = 16 << 20


@dataclass(frozen=True, slots=True)
class Published:
    """What a publisher has done.

    Attributes:
        records: Records it has written; those of an earlier, interrupted run are not in it.
        transactions: Transactions it has committed, claim and hand-over included.
        resumed: Whether an earlier run had begun.
        was_done: Whether an earlier run had done everything.
        seeded: What of the state was built on this host; None if it was not asked for, or an
            earlier run had done everything.
    """

    records: int
    transactions: int
    resumed: bool
    was_done: bool
    seeded: Seeded | None = None


def publishing_config(config: StreamsConfig) -> StreamsConfig:
    """Return the application's configuration for a publisher: exactly once, whatever it runs with.

    That makes its consumer wait for offsets that are pending in a transaction.
    """
    return replace(config, processing_guarantee=ProcessingGuarantee.EXACTLY_ONCE)


class Publisher:
    """Publishes one publication; used once, by one thread.

    Args:
        clients: Makes clients; of `publishing_config`.
        progress: Told of each committed transaction, and first of what an earlier run published.
    """

    def __init__(
        self,
        publication: Publication,
        plan: TopologyPlan,
        topics: TopicManager,
        clients: ClientFactory,
        settings: PublishingSettings,
        progress: Callable[[PublishedRecords], None] = lambda _: None,
        waiting: Waiting = REAL_WAITING,
    ) -> None:
        self._publication = publication
        self._plan = plan
        self._topics = topics
        self._clients = clients
        self._settings = settings
        self._progress = progress
        self._waiting = waiting
        self._batches = RowBatches(
            plan, settings.with_outputs, settings.transaction_records, settings.transaction_bytes
        )
        self._group = plan.application_id
        self._admin = clients.admin()
        self._checks = PublishingChecks(publication, plan, self._admin, waiting)
        self._transactions = PublisherTransactions(
            self._group, clients, waiting, self._refuse_taken_over
        )
        self._records = 0
        self._done: dict[TaskId, int] = {}

    def run(
        self, seeder: StateSeeder | None = None, note: PublishedNote | None = None
    ) -> Published:
        """Publish everything, or what an earlier run has left.

        Args:
            seeder: Builds the stores on this host before the group is handed over; None to leave
                that to a restore.
            note: Keeps that the group was handed over, when the application has run since; None
                to go by the group alone.

        Raises:
            PublishingRefusedError: The group is in use, belongs to something else, or does not fit
                the results.
            FencedPublisherError: Another publisher took over on the way.
            MissingSourceTopicError: A source topic does not exist.
            TopologyError: An internal topic has another partition count.
            RetriableClientError: The broker stays unreachable.
            StagingError: A file of the results is damaged, or has gone meanwhile.
            StateStoreError: A store can't be seeded. Published again, it goes on.
            StateDirectoryError: Likewise.
        """
        committed = self._committed()
        if note is not None and is_said_of_some(self._publication, committed):
            note.refuse_other_topics()
        if self._is_handed_over(committed, note):
            done = _done_before(seeder)
        else:
            consumer = self._clients.consumer(f"{self._group}-publisher", "")
            try:
                done = self._published(consumer, seeder, note)
            except TaskMigratedError as error:
                raise self._fenced() from error
            finally:
                consumer.close()
        if note is not None:
            note.write()
        return done

    def _published(
        self, consumer: ConsumerPort, seeder: StateSeeder | None, note: PublishedNote | None
    ) -> Published:
        self._checks.check_partition_counts(with_outputs=self._settings.with_outputs)
        self._checks.check_members()
        self._refuse_others()
        self._fence()
        # Looked at before anything is created, so that a refusal leaves nothing behind.
        before = self._standing(consumer)
        if before is Standing.DONE:
            return _done_before(seeder)
        if seeder is not None:
            seeder.check(is_begun=before is Standing.BEGUN)
        self._topics.prepare()
        retention = TopicRetention(self._publication, self._plan, self._admin, self._waiting)
        settings = self._topics.internal_settings()
        retention.extend(settings, with_outputs=self._settings.with_outputs)
        try:
            seeded = self._go_on(consumer, seeder)
        except (PublishingRefusedError, StagingError) as error:
            with suppress(RetriableClientError):
                if self._is_handed_over(self._stable(consumer), note):
                    raise self._fenced() from error
            raise
        transactions, resumed = self._transactions.committed, before is Standing.BEGUN
        return Published(self._records, transactions, resumed, was_done=False, seeded=seeded)

    def _go_on(self, consumer: ConsumerPort, seeder: StateSeeder | None) -> Seeded | None:
        with_producer = self._transactions.with_producer
        with_producer("publisher", partial(self._claim, consumer))
        # Who joined before the claim, without having seen it, is a member by now.
        self._checks.check_members_after_claim()
        for task in self._publication.tasks:
            self._checks.check_members()
            with_producer(str(task.task_id), partial(self._publish, task, consumer))
        self._checks.check_members()
        seeded = None if seeder is None else seeder.seed(self._changelog_ends(consumer))
        with_producer("publisher", partial(self._hand_over, consumer))
        return seeded

    # ------------------------------------------------------------------ checks

    def _committed(self) -> Offsets:
        return self._waiting.until_answered(lambda: self._admin.committed_offsets(self._group))

    def _stable(self, consumer: ConsumerPort) -> Offsets:
        partitions = sorted(self._publication.histories)
        return self._waiting.until_answered(lambda: consumer.committed(partitions))

    def _is_handed_over(self, committed: Offsets, note: PublishedNote | None) -> bool:
        said = is_handed_over(self._publication, committed)
        return said or (note is not None and note.is_true(committed))

    def _standing(self, consumer: ConsumerPort) -> Standing:
        committed = self._stable(consumer)
        return standing(self._publication, committed, with_outputs=self._settings.with_outputs)

    def _refuse_others(self) -> tuple[Standing, Offsets]:
        """Refuse a group that is not ours to publish to before its own publisher is fenced.

        Nothing is waited for here: an offset that is pending in a transaction is looked at again
        when whoever left it is fenced.
        """
        committed = self._committed()
        now = standing(self._publication, committed, with_outputs=self._settings.with_outputs)
        return now, committed

    def _refuse_taken_over(self) -> None:
        """Let who was fenced go on only where nobody else has published meanwhile, or runs.

        Raises:
            FencedPublisherError: Somebody has.
            PublishingRefusedError: The application runs, or has committed.
        """
        now, committed = self._refuse_others()
        if now is Standing.DONE or any(
            published_rows(task, committed, self._publication) != self._done[task.task_id]
            for task in self._publication.tasks
            if task.task_id in self._done
        ):
            raise self._fenced()
        self._checks.check_members()

    def _fence(self) -> None:
        """Abort what a dead publisher left open: its offsets would be waited for."""
        names = ["publisher", *(str(task.task_id) for task in self._publication.tasks)]
        concurrent = ConcurrentCalls(self._waiting.make_pool)
        try:
            with_producer = self._transactions.with_producer
            concurrent.run(lambda name: with_producer(name, lambda _: None), names)
        finally:
            concurrent.close()

    # ------------------------------------------------------------------ claim and hand-over

    def _claim(self, consumer: ConsumerPort, producer: ProducerPort) -> None:
        if self._standing(consumer) is not Standing.FREE:
            return
        self._checks.check_changelogs()
        self._checks.check_sources()
        self._checks.check_edges()
        edges = edges_of(self._publication)
        ranges = self._waiting.until_answered(lambda: self._admin.offset_ranges(edges))
        starts = claimed_offsets(self._publication, ranges)
        mark = PublishingMark(self._publication.id, 0, self._settings.with_outputs)
        offsets = {
            partition: offset
            for task in self._publication.tasks
            for partition, offset in marks(task, starts, mark).items()
        }
        self._checks.check_members()
        self._transactions.commit(producer, (), offsets, consumer)
        _log.info("group claimed", group=self._group, publication=self._publication.id)

    def _hand_over(self, consumer: ConsumerPort, producer: ProducerPort) -> None:
        if self._standing(consumer) is Standing.DONE:
            return
        edges = edges_of(self._publication)
        committed = self._waiting.until_answered(lambda: consumer.committed(edges))
        offsets = {partition: committed[partition].next_offset for partition in edges}
        if self._settings.with_outputs:
            # What was published to them has had its effect already.
            ranges = self._waiting.until_answered(lambda: self._admin.offset_ranges(edges))
            offsets = {partition: held.high_watermark for partition, held in ranges.items()}
        own = handed_over(self._publication, offsets, self._checks.source_ids())
        self._transactions.commit(producer, (), own, consumer)
        _log.info("group handed over", group=self._group, publication=self._publication.id)

    def _changelog_ends(self, consumer: ConsumerPort) -> dict[TopicPartition, int]:
        """Return the offsets behind all that is published, before anybody else writes there.

        Nobody did if the group is still claimed after the brokers have answered.
        """
        ends = self._checks.changelog_ends()
        if self._standing(consumer) is not Standing.BEGUN:
            raise self._fenced()
        return ends

    # ------------------------------------------------------------------ rows

    def _publish(self, task: TaskResults, consumer: ConsumerPort, producer: ProducerPort) -> None:
        if self._standing(consumer) is Standing.DONE:
            raise self._fenced()
        partitions = sorted(task.histories)
        committed = self._waiting.until_answered(lambda: consumer.committed(partitions))
        done = published_rows(task, committed, self._publication)
        starts = {partition: committed[partition].next_offset for partition in partitions}
        rows = task.rows(0)
        self._pass_over(task, islice(rows, done), done)
        while batch := self._batches.take(rows):
            done += batch.rows
            mark = PublishingMark(self._publication.id, done, self._settings.with_outputs)
            self._transactions.commit(producer, batch.outputs, marks(task, starts, mark), consumer)
            self._done[task.task_id] = done
            self._records += batch.records
            self._progress(PublishedRecords(task.task_id, batch.records, by_earlier_run=False))
        if done != task.num_rows:
            raise other_rows(task, done, self._publication.command)

    def _pass_over(self, task: TaskResults, rows: Iterator[Result], done: int) -> None:
        """Pass over rows that are published; tell of them unless this run has published them.

        Raises:
            PublishingRefusedError: There are fewer.
        """
        passed = records = 0
        for row in rows:
            passed += 1
            records += self._batches.place(row) is not None
        if passed < done:
            raise other_rows(task, passed, self._publication.command)
        if records and task.task_id not in self._done:
            self._progress(PublishedRecords(task.task_id, records, by_earlier_run=True))
        self._done[task.task_id] = done

    def _fenced(self) -> FencedPublisherError:
        return FencedPublisherError(
            f"another publisher of this {self._publication.command}, or the live application, has "
            "taken over; nothing is repeated or lost. Let one of them run alone"
        )


def _done_before(seeder: StateSeeder | None) -> Published:
    if seeder is not None:
        _log.info("handed over before: what is not seeded is restored from changelogs")
    return Published(0, 0, resumed=False, was_done=True)
