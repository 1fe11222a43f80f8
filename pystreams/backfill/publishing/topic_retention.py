"""How long brokers keep what is published: counted from now, not from the end of the history.

A store forgets by stream time, its changelog by the broker's clock: by `retention.ms` where records
are deleted, and versions of a key from `min.compaction.lag.ms` on. Live both clocks agree. Of a
history that ended long ago all would be past both limits on arrival.

So limits of changelogs are moved by as much as the stream time of the oldest of their partitions
lies behind the clock. Then a record stays for as long as it would have stayed had it been published
at stream time, and the live application, which goes on there, finds what it has to restore. Nobody
moves limits back: records go later than they might when stream time has come near the clock.

Topics of the user's, for output records, are left as they are. What would be lost there is said.

Spec: Kafka's UnifiedLog.deleteRetentionMsBreachedSegments and LogCleanerManager.cleanableOffsets:
what counts is the largest timestamp of a segment. Markers of transactions have the clock's time and
save the segments they are in, but a first one comes too far behind old records to join their
segment (`segment.ms`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pystreams.backfill.broker_waiting import ATTEMPTS, Waiting
from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.backfill.publishing.publication import Publication
from pystreams.errors import FatalStreamsError
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.ports import AdminPort
from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.plan.topology_plan import TopologyPlan

_log = get_logger("pystreams.backfill")

_POLICY, _RETENTION, _LAG = "cleanup.policy", "retention.ms", "min.compaction.lag.ms"
_UNKNOWN = {_POLICY: "compact", _RETENTION: "-1", _LAG: "0"}
"""Taken of a topic that may not be described, where nothing else tells."""
_DAY_MS = 86_400_000
BEHIND_MIN_MS = 3_600_000
"""A stream time that is no further behind is covered by the day that changelogs are kept longer."""


@dataclass(slots=True)
class _Times:
    """Timestamps of the records that a topic gets (ms).

    Attributes:
        oldest: The smallest timestamp.
        newest: The largest one of each partition.
        past: How many records the broker may delete, or compact away, as soon as it has them.
    """

    records: int
    oldest: int
    newest: dict[int, int]
    past: int

    @property
    def stream_time(self) -> int:
        """That of the partition where it is least."""
        return min(self.newest.values())


@dataclass(frozen=True, slots=True)
class TopicRetention:
    """Sees to it that brokers keep what is published.

    Attributes:
        waiting: How it waits for them, and what time it is.
    """

    publication: Publication
    plan: TopologyPlan
    admin: AdminPort
    waiting: Waiting

    def extend(self, made_with: Mapping[str, Mapping[str, str]], *, with_outputs: bool) -> None:
        """Let changelogs keep what is published to them; say what other topics will not keep.

        Args:
            made_with: The settings with which internal topics are made, by topic.
            with_outputs: Whether output records are published too.

        Raises:
            PublishingRefusedError: The settings of a changelog can't be changed; says what would
                be lost, and how to set it.
            RetriableClientError: The broker stays unreachable.
            StagingError: A file of the results is damaged or gone.
        """
        stores = self.plan.changelogs()
        topics = [*stores, *(topic for topic, _ in sorted(self.publication.written))]
        found = self.waiting.until_answered(
            lambda: self.admin.topic_settings(topics if with_outputs else list(stores))
        )
        # One that may not be described has what it was made with, as far as is known.
        settings = {
            topic: {**_UNKNOWN, **made_with.get(topic, {}), **found.get(topic, {})}
            for topic in topics
        }
        now_ms = int(self.waiting.clock.now_ms())
        changed: dict[str, Mapping[str, str]] = {}
        for topic, times in sorted(self._times(settings, stores, now_ms).items()):
            if topic in stores:
                limits = limits_of(settings[topic], stores[topic])
                changed[topic] = self._extend(topic, limits, made_with[topic], times, now_ms)
            elif times.past:
                _log.warning(
                    "output records are older than their topic keeps them: raise its retention.ms",
                    topic=topic,
                    records=times.past,
                    retention_ms=int(settings[topic][_RETENTION]),
                    oldest=_shown(times.oldest),
                )

        self._wait_until_shown(changed)

    def _wait_until_shown(self, changed: Mapping[str, Mapping[str, str]]) -> None:
        """Wait for the brokers: the next record may be looked at by the limits of before."""
        for _ in range(ATTEMPTS):
            found = self.waiting.until_answered(lambda: self.admin.topic_settings(list(changed)))
            if all(own.items() <= found.get(topic, own).items() for topic, own in changed.items()):
                return
            self.waiting.before_retry()

    def _times(
        self,
        settings: Mapping[str, Mapping[str, str]],
        stores: Mapping[str, StoreBuilder],
        now_ms: int,
    ) -> dict[str, _Times]:
        """Return the times of what each topic gets."""
        kept_from = {
            topic: now_ms - min(limits.values())
            for topic, own in settings.items()
            if (limits := limits_of(own, stores.get(topic)))
        }
        found: dict[str, _Times] = {}
        for task in self.publication.tasks:
            for kind, name, timestamps in task.timestamps():
                topic = self.plan.changelog_topic(name) if kind is ResultKind.STATE else name
                known = [time for time in timestamps if time >= 0]
                if topic not in kept_from or not known:
                    continue
                times = found.setdefault(topic, _Times(0, now_ms, {}, 0))
                partition = task.task_id.partition
                times.records += len(known)
                times.oldest = min(times.oldest, min(known))
                times.newest[partition] = max(times.newest.get(partition, 0), max(known))
                times.past += sum(time < kept_from[topic] for time in known)
        return found

    def _extend(
        self,
        topic: str,
        limits: Mapping[str, int],
        made_with: Mapping[str, str],
        times: _Times,
        now_ms: int,
    ) -> dict[str, str]:
        """Move the limits of a changelog that would lose records; return what was changed."""
        behind_ms = now_ms - times.stream_time
        changes = {}
        for name, limit_ms in limits.items():
            needed_ms = int(made_with.get(name, 0))
            if behind_ms >= BEHIND_MIN_MS:
                needed_ms += behind_ms
            if name == _RETENTION:
                needed_ms = max(needed_ms, now_ms - times.oldest)
            if needed_ms > limit_ms:
                # So that one that is set by hand, or goes on later, need not be changed again.
                changes[name] = str(needed_ms + _DAY_MS)
        if not changes:
            return changes
        try:
            self.waiting.until_answered(lambda: self.admin.change_topic_settings({topic: changes}))
        except FatalStreamsError as error:
            raise _not_extended(topic, changes, times, error) from error
        _log.info(
            "changelog keeps longer what is published: brokers count from now, and this is old",
            topic=topic,
            now=changes,
            before={name: str(limits[name]) for name in changes},
            records=times.records,
            would_be_past=times.past,
            oldest=_shown(times.oldest),
            stream_time=_shown(times.stream_time),
        )
        return changes


def moved_limits(plan: TopologyPlan, newest_ms: int, now_ms: int) -> list[str]:
    """Return which limits publishing would move, as "topic setting"; for a plan of a backfill.

    Args:
        newest_ms: Where the history ends, about (ms).
    """
    if now_ms - newest_ms < BEHIND_MIN_MS:
        return []
    return [
        f"{topic} {name}"
        for topic, store in sorted(plan.changelogs().items())
        for name in (_RETENTION, _LAG)
        if name in store.changelog_defaults(0)
    ]


def limits_of(settings: Mapping[str, str], store: StoreBuilder | None) -> dict[str, int]:
    """Return the limits of age (ms) by which a topic loses records it should keep, by setting.

    Args:
        store: The store whose changelog it is; None for another topic. A store that keeps versions
            is told by its own `min.compaction.lag.ms`.
    """
    policies = settings[_POLICY].split(",")
    limits = {}
    if "delete" in policies and int(settings[_RETENTION]) >= 0:
        limits[_RETENTION] = int(settings[_RETENTION])
    if "compact" in policies and store is not None and _LAG in store.changelog_defaults(0):
        limits[_LAG] = int(settings[_LAG])
    return limits


def _not_extended(
    topic: str, changes: Mapping[str, str], times: _Times, error: FatalStreamsError
) -> PublishingRefusedError:
    settings = ",".join(f"{name}={value}" for name, value in changes.items())
    return PublishingRefusedError(
        f"brokers would not keep what is published to {topic!r}: {times.past} of {times.records} "
        f"records are past its limits, {_shown(times.oldest)} being the oldest time, and "
        f"{_shown(times.stream_time)} stream time. Its settings can't be changed ({error}). Grant "
        "ALTER_CONFIGS and DESCRIBE_CONFIGS on the topic; or set them yourself (kafka-configs "
        f"--alter --entity-type topics --entity-name {topic} --add-config {settings}), with "
        "DESCRIBE_CONFIGS granted. Then publish again"
    )


def _shown(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError):
        return f"{time_ms} ms"
