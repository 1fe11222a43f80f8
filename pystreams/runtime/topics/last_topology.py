"""The topology that a group ran last, and a start whose state directory does not know it.

A directory remembers the topology that made its state (`maintenance.earlier_topology`). A new one
remembers none, and that of a process that was away for a deploy an outdated one. So the start is
also compared with what the group has noted (`cluster.topology_note`), before anything is restored.

Refused is what is certain to be wrong, where nobody can have known better: the directory is new,
and the changelog has records of a store that would take them for something else. All else is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pystreams.deploy.comparison import compare
from pystreams.deploy.fingerprint import Fingerprint, comparable
from pystreams.deploy.shared_fingerprint import with_shared_serdes
from pystreams.deploy.verdicts import Judgement, Verdict
from pystreams.errors import TopologyError
from pystreams.ids import all_partitions
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.topology_note import NotedTopology
from pystreams.runtime.ports import AdminPort
from pystreams.topology.plan.topology_plan import TopologyPlan

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
        self._is_new = kept is None
        self._kept_digest = (kept or {}).get("digest")
        self.compared_with = str((kept or {}).get("compared_with", ""))

    def compare(self, noted: Sequence[NotedTopology]) -> None:
        """Tell, once, what becomes of what the last topology has left.

        Args:
            noted: What the group has noted, the last start first.

        Raises:
            TopologyError: A store would give wrong results, and nothing would show it.
            RetriableClientError: No answer in time.
        """
        if not noted or noted[0].digest == self._digest:
            return
        last = noted[0]
        which = f"{last.digest} {last.started_ms}"
        # What the directory knows was compared before.
        if last.digest != self._kept_digest and which != self.compared_with:
            self._compare(last)
        self.compared_with = which

    def _compare(self, last: NotedTopology) -> None:
        fingerprint = last.fingerprint().fingerprint
        if fingerprint is None:
            self._tell_without(last.digest)
        else:
            self._tell_or_refuse(last.digest, fingerprint)

    def _tell_or_refuse(self, digest: str, last: Fingerprint) -> None:
        found = compare(last, self._starting)
        wrong = found.of(Verdict.WRONG)
        refused = [judged for judged in wrong if self._restores_rows_of(last, judged.name)]
        if refused:
            told = "\n".join(f"  {judged.in_words()}" for judged in refused)
            raise TopologyError(
                "this topology would go on with state that is not its own, with wrong results:\n"
                f"{told}\nThat is so by what group {self._plan.application_id!r} ran last (digest "
                f"{digest}), which this state directory knows nothing of; `pystreams check NEW "
                f"--group {self._plan.application_id}` shows what else would happen. "
                f"{how_to_take_the_rows(self._file)}"
            )
        for judged in [*wrong, *found.of(Verdict.EMPTY, Verdict.UNSURE)]:
            fields = told_fields(judged)
            _log.warning("the topology has changed", former_digest=digest, **fields)

    def _restores_rows_of(self, last: Fingerprint, store: str) -> bool:
        """Return whether a new directory is certain to get rows that a store had."""
        had = {**last["former_stores"], **last["stores"]}.get(store)
        has = self._starting["stores"].get(store)
        if not self._is_new or had is None or has is None:
            return False
        if not (had["logged"] and has["logged"]):
            return False  # They have no changelog in common.
        changelog = self._plan.changelog_topic(store)
        counts = self._admin.partition_counts()
        partitions = all_partitions([changelog] if changelog in counts else [], counts)
        held = self._admin.offset_ranges(partitions).values()
        return any(found.beginning < found.high_watermark for found in held)

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
    """Return the advice for those who know better than a refusal."""
    return (
        "Should the old rows be right all the same, say so on this host, with the -c and --config "
        f"of the start: `pystreams describe NEW --json > {file}`, and start again"
    )
