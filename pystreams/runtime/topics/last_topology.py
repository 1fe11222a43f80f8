"""The topology that a group ran last, and a start whose state directory does not know it.

A directory remembers the topology that made its state (`maintenance.earlier_topology`). A new one
remembers none, and that of a process that was away for a deploy an outdated one. So the start is
also compared with what the group has noted (`cluster.topology_note`), before anything is restored.

Refused is what is wrong by what the group tells: the changelog has records of a store that would
take them for something else. That can be untrue: the last version may have told its digest only, so
that the one before is compared, and the records may be of a process of the version that starts,
which has not committed yet. It is refused all the same: a refusal can be overruled, and wrong rows
that nobody sees can't be taken back. Where the directory knows the very topology that starts,
somebody has said so, or goes back to it, and is told. All else is told, too, but for wrong results
of a store that has no rows to be restored: nothing can be wrong there.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pystreams.deploy.comparison import compare
from pystreams.deploy.fingerprint import Fingerprint, comparable
from pystreams.deploy.operator_facts import Facts
from pystreams.deploy.shared_fingerprint import with_shared_serdes
from pystreams.deploy.verdicts import Judgement, Verdict
from pystreams.errors import RetriableClientError, TopologyError
from pystreams.ids import all_partitions
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.topology_note import NotedTopology, started_since
from pystreams.runtime.ports import AdminPort
from pystreams.topology.plan.topology_plan import TopologyPlan

_TOLD = (Verdict.WRONG, Verdict.EMPTY, Verdict.UNSURE)

_log = get_logger("pystreams.topics")


class LastTopology:
    """Compares the topology that starts with the one that its group ran last.

    Args:
        fingerprint: That of the topology that starts.
        kept: That of the one before, as the state directory has it; None if it has none.
        file: Where the directory has it.

    Attributes:
        compared_with: Which one it was compared with last, in this start or an earlier one, by its
            digest and when it was started (ms); "" for none.
        outdated: Stores with a changelog of which the group knows something else, as they have
            changed while the directory was away: what it knows counts no more, once they are gone.
    """

    def __init__(
        self,
        plan: TopologyPlan,
        admin: AdminPort,
        fingerprint: Fingerprint,
        kept: Fingerprint | None,
        file: Path,
    ) -> None:
        self._plan, self._admin, self._file = plan, admin, file
        self._digest: str = fingerprint["digest"]
        self._starting: Fingerprint = with_shared_serdes(fingerprint)
        known = kept or {}
        self._kept_digest = known.get("digest")
        self._kept_stores: dict[str, Facts] = {
            **known.get("former_stores", {}),
            **known.get("stores", {}),
        }
        self.outdated: set[str] = set()
        self.compared_with = str(known.get("compared_with", ""))

    def compare(self, noted: Sequence[NotedTopology]) -> None:
        """Tell, once, what becomes of what the last topology has left.

        Args:
            noted: What the group has noted, the last start first.

        Raises:
            TopologyError: A store would give wrong results, and nothing would show it.
            RetriableClientError: No answer in time.
        """
        self._find_outdated(noted)
        if not noted or noted[0].digest == self._digest:
            return
        last = noted[0]
        which = f"{last.digest} {last.started_ms}"
        if not (self._is_known and which == self.compared_with):
            self._compare(noted)
        self.compared_with = which

    def _find_outdated(self, noted: Sequence[NotedTopology]) -> None:
        latest: dict[str, Facts] = {}
        since = len(started_since(str(self._kept_digest), noted))
        # What it has of former stores may be older than what the group has of the same version.
        for each in reversed(noted[: since + 1]):
            if (told := each.fingerprint().fingerprint) is not None:
                latest.update({**told["former_stores"], **told["stores"]})
        for name in latest.keys() & self._kept_stores.keys():
            here, elsewhere = self._kept_stores[name], latest[name]
            # Rows without a changelog are on this disk alone, as the directory knows them.
            in_changelog = here["logged"] and elsewhere["logged"]
            if in_changelog and _kept_of(here) != _kept_of(elsewhere):
                self.outdated.add(name)

    @property
    def _is_known(self) -> bool:
        """Whether the directory has the very topology that starts."""
        return bool(self._kept_digest == self._digest)

    def _compare(self, noted: Sequence[NotedTopology]) -> None:
        last = noted[0].digest
        told = ((each.digest, each.fingerprint().fingerprint) for each in noted)
        digest, former = next((each for each in told if each[1] is not None), ("", None))
        if former is not None:
            self._tell_or_refuse(last, digest, former)
        if last not in (digest, self._kept_digest):
            self._tell_without(last)

    def _tell_or_refuse(self, last: str, digest: str, former: Fingerprint) -> None:
        """Go by what a topology has noted: the last one, or one before, if the last has nothing."""
        found = compare(former, self._starting)
        judgements = found.of(*_TOLD)
        if self._kept_digest in (last, digest):
            judgements = [judged for judged in judgements if self._is_unknown(judged)]
        judgements = [self._as_the_rows_are(judged) for judged in judgements]
        wrong = [judged for judged in judgements if judged.verdict is Verdict.WRONG]
        refused = [judged for judged in wrong if self._has_same_changelog(former, judged.name)]
        if refused and not self._is_known:
            raise TopologyError(self._refusal(refused, last, digest))
        for judged in judgements:
            if judged.verdict not in _TOLD:
                continue
            _log.warning("the topology has changed", former_digest=digest, **told_fields(judged))

    def _refusal(self, refused: Sequence[Judgement], last: str, digest: str) -> str:
        told = "\n".join(f"  {judged.in_words()}" for judged in refused)
        group = self._plan.application_id
        if self._kept_digest in (last, digest):
            by = (
                f"has noted of stores of earlier versions, with digest {digest} (this state "
                "directory knows less of them, or something older)"
            )
        elif digest == last:
            by = f"ran last (digest {digest}, which this state directory knows nothing of)"
        else:
            by = (
                f"ran last (digest {digest}; of the last one, {last}, it tells no more than its "
                "digest), which this state directory knows nothing of"
            )
        return (
            "this topology would go on with state that is not its own, with wrong results:\n"
            f"{told}\nThat is so by what group {group!r} {by}; `pystreams check NEW --group "
            f"{group}` shows what else would happen. The rows may also be of another process "
            "of this version that has not committed yet, or was started before the last one of the "
            "other version: if one runs, start again once it has committed, or was started again. "
            f"{how_to_take_the_rows(self._file)}. Where each start has a new directory, as in a "
            "container without a volume, that comes before the start in its command, for this "
            f"deploy only, behind `mkdir -p {shlex.quote(str(self._file.parent))}`"
        )

    def _is_unknown(self, judged: Judgement) -> bool:
        """Return whether it is of a store that the group knows of, or knows better.

        The rest of what the directory knows was compared before.
        """
        known = self._kept_stores.keys() - self.outdated
        stores = self._starting["stores"].keys() - known
        return judged.kind == "store" and judged.name in stores

    def _as_the_rows_are(self, judged: Judgement) -> Judgement:
        """Return a judgement without wrong results where no row comes that could make them."""
        if judged.verdict is not Verdict.WRONG or self._restores_rows(judged.name):
            return judged
        others = tuple(each for each in judged.findings if each.verdict is not Verdict.WRONG)
        return replace(judged, findings=others)

    def _restores_rows(self, store: str) -> bool:
        """Return whether there are records in the topic that a store is restored from, if any."""
        facts = self._starting["stores"][store]
        if facts["restored_from"] is not None:
            topic = self._plan.topic_name(facts["restored_from"])
        elif facts["logged"]:
            topic = self._plan.changelog_topic(store)
        else:
            return False
        counts = self._admin.partition_counts()
        partitions = all_partitions([topic] if topic in counts else [], counts)
        try:
            held = self._admin.offset_ranges(partitions).values()
        except RetriableClientError as error:
            raise RetriableClientError(
                f"whether topic {topic!r} has records that store {store!r} would take for "
                f"something else is not known: {error}"
            ) from error
        return any(found.beginning < found.high_watermark for found in held)

    def _has_same_changelog(self, former: Fingerprint, store: str) -> bool:
        had = {**former["former_stores"], **former["stores"]}[store]
        return bool(had["logged"] and self._starting["stores"][store]["logged"])

    def _tell_without(self, digest: str) -> None:
        if not comparable(digest, self._digest):
            return  # It may be the same: an earlier pystreams has noted it.
        if not any(map(self._plan.logged_stores, self._plan.subtopologies)):
            return  # Nothing is restored.
        _log.warning(
            "the group ran another topology before, and this state directory does not know it: "
            "what changelogs hold is restored as it is. `pystreams check OLD NEW` tells whether "
            "that is right",
            digest=self._digest,
            former_digest=digest,
        )


def _kept_of(facts: Facts) -> Facts:
    """Return what is to be known of a store's rows, as a group tells it."""
    shared = with_shared_serdes(facts)
    return {key: shared[key] for key in shared.keys() - {"declared", "partitions"}}


def told_fields(judged: Judgement) -> dict[str, str]:
    """Return what the log says of a store or topic that loses something."""
    return {
        "verdict": judged.verdict.value,
        "kind": judged.kind,
        "name": judged.name,
        "why": "; ".join(each.what for each in judged.worst()),
        "cure": ". ".join(dict.fromkeys(each.cure for each in judged.worst() if each.cure)),
    }


def how_to_take_the_rows(file: Path) -> str:
    """Return the advice for those who know better than a refusal.

    A command that fails leaves the file as it is: without what it has, nothing is refused.
    """
    old, new = shlex.quote(str(file)), shlex.quote(f"{file}.new")
    return (
        "Should the old rows be right all the same, say so on this host, with the -c and --config "
        f"of the start: `pystreams describe NEW --json > {new} && mv {new} {old}`, and start "
        "again"
    )
