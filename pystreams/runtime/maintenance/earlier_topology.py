"""What a state directory remembers of the topology that made its state, and a start over it.

    <state.dir>/<application.id>/pystreams-topology.json

The file is the topology's fingerprint (`pystreams.deploy.fingerprint`), compared at the start,
before a topic is made and the group is joined: refused, with the cure, are wrong results in
silence, and a store whose files can't be opened as it is declared now; what is left behind, or may
not fit, is logged once. When the topology was compared with what the group has noted, too
(`topics.last_topology`), the file is written for it: a start that fails before that is compared
again. `compared_with` in it says which topology of the group that was, so that it is told once. A
backfill that seeds stores writes the file before the first one.

A directory without the file tells nothing: one of an earlier pystreams, one that is new, or one
whose disk is gone. Java passes the file over.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pystreams.config import StreamsConfig
from pystreams.deploy.comparison import compare
from pystreams.deploy.fingerprint import (
    Fingerprint,
    fingerprint_of,
    former_stores,
    with_partitions,
)
from pystreams.deploy.fingerprint_shape import is_fingerprint
from pystreams.deploy.shared_fingerprint import shared
from pystreams.deploy.verdicts import Comparison, Judgement, Verdict
from pystreams.errors import StateDirectoryError, TopologyError
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.state_directory import GLOBAL, StateDirectory
from pystreams.runtime.cluster.noted_fingerprint import FingerprintNote
from pystreams.runtime.cluster.topology_note import TopologyNote
from pystreams.runtime.ports import AdminPort
from pystreams.runtime.topics.last_topology import (
    LastTopology,
    how_to_take_the_rows,
    told_fields,
)
from pystreams.stores.contracts.state_store import StoreEnvironment
from pystreams.stores.files.checkpoint_file import sync_directory, write_synced
from pystreams.topology.plan.partition_plan import PartitionPlan
from pystreams.topology.plan.topology_plan import TopologyPlan

FINGERPRINT_FILE = "pystreams-topology.json"
_ROCKSDB = "rocksdb"
"""Where stores on disk are, in a task's directory."""

_log = get_logger("pystreams.state")


class EarlierTopology:
    """The topology that the state of an application was made with, as its directory has it.

    Args:
        plan: The topology that is to run over what is there.
        defaults: What names the serdes of stores that name none.
    """

    def __init__(
        self,
        directory: StateDirectory,
        plan: TopologyPlan,
        defaults: StreamsConfig | StoreEnvironment,
    ) -> None:
        self.file = directory.directory / FINGERPRINT_FILE
        self._directory = directory
        self._has_state = bool(directory.task_ids())
        self._kept = read_fingerprint(self.file)
        self._plan = plan
        self._fingerprint = fingerprint_of(
            plan.topology, defaults.default_key_serde, defaults.default_value_serde
        )
        self._running = self._fingerprint
        self._last: LastTopology | None = None

    def check(self) -> None:
        """Compare it with the topology that is to run, and tell what is lost or may be.

        Raises:
            TopologyError: A store would give wrong results, and nothing would show it; or its
                files lie here in a way in which it can't open them.
        """
        if self._kept is None:
            if self._has_state:
                _log.info(
                    "the topology that made this state is not known, and is not compared",
                    reason="an earlier pystreams or Kafka Streams has made it",
                )
            return
        found = compare(self._kept, self._fingerprint)
        if wrong := found.of(Verdict.WRONG):
            told = "\n".join(f"  {judged.in_words()}" for judged in wrong)
            raise TopologyError(
                f"this topology would go on with state that is not its own:\n{told}\n"
                "Nothing was changed. `pystreams check` shows what else would happen. "
                f"{how_to_take_the_rows(self.file)}"
            )
        if unfit := [judged for judged in found.of(Verdict.REFUSED) if self._files_of(judged)]:
            told = "\n".join(f"  {self._files_of(each)}: {each.in_words()}" for each in unfit)
            raise TopologyError(
                f"this topology can't open the state that is here:\n{told}\n"
                "Nothing was changed, and the group was not joined. `pystreams check` shows what "
                "else would happen"
            )
        _tell(found)

    def _files_of(self, judged: Judgement) -> str:
        """Return where the files of a store are that its tasks would open; "" if there are none."""
        facts = self._fingerprint["stores"].get(judged.name)
        if judged.kind != "store" or facts is None:
            return ""
        part, root = facts["subtopology"], self._directory.directory
        if part is None:
            homes, pattern = self._directory.global_directories(), f"{GLOBAL}*"
        else:
            tasks = [task for task in self._directory.task_ids() if task.subtopology == part]
            homes, pattern = [root / str(task) for task in tasks], f"{part}_*"
        if not any((home / _ROCKSDB / judged.name).is_dir() for home in homes):
            return ""
        return str(root / pattern / _ROCKSDB / judged.name)

    def last_topology(self, admin: AdminPort) -> LastTopology:
        """Return what compares it with the topology that the group ran last."""
        last = LastTopology(self._plan, admin, self._fingerprint, self._kept, self.file)
        self._last = last
        return last

    def note(self, now_ms: int, standby_replicas: int, admin: AdminPort) -> TopologyNote:
        """Return what the group is to note of the topology that runs, of which all is learnt."""
        fingerprint = FingerprintNote.of(shared(self._running), admin.broker_setting)
        return TopologyNote(
            self._running["digest"],
            now_ms,
            standby_replicas,
            fingerprint,
            known=(self._kept or {}).get("digest", ""),
        )

    def learn(self, partitions: PartitionPlan) -> None:
        """Take what only a broker knows of the topology that is to run."""
        text = with_partitions(self._fingerprint, self._plan.application_id, partitions)
        if self._kept is not None:
            text["former_stores"] = former_stores(self._kept, text)
        self._running = text

    def keep(self) -> None:
        """Write down the topology that runs now.

        Raises:
            StateDirectoryError: The file can't be written.
        """
        text = self._running
        if self._last is not None:
            former = text["former_stores"].items()
            known = {name: facts for name, facts in former if name not in self._last.outdated}
            text = {**text, "former_stores": known}
            if self._last.compared_with:
                text["compared_with"] = self._last.compared_with
        if text == self._kept:
            return
        try:
            _write(self.file, json.dumps(text, indent=1))
        except OSError as error:
            raise StateDirectoryError(
                f"{self.file} can't be written ({error.strerror or error}): free some space, give "
                "this user write access, or set another state.dir"
            ) from error
        self._kept = text


def read_fingerprint(file: Path) -> Fingerprint | None:
    """Return the fingerprint in a file; None if there is none that can be understood."""
    try:
        found: Any = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        _log.warning(
            "what is known of the earlier topology can't be read", why=str(error), file=str(file)
        )
        return None
    if not is_fingerprint(found):
        _log.warning("the earlier topology is written down in another way", file=str(file))
        return None
    return found


def _tell(found: Comparison) -> None:
    """Log what is lost or may be; what is refused is told by what refuses it."""
    for judged in found.of(Verdict.EMPTY, Verdict.UNSURE):
        _log.warning("the topology has changed", **told_fields(judged))
    if moved := found.of(Verdict.REBUILT):
        names = [judged.name for judged in moved]
        _log.info("the topology has changed: stores are rebuilt", stores=names)


def _write(file: Path, text: str) -> None:
    # Processes that share the directory may write at the same time.
    temporary = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    write_synced(temporary, f"{text}\n")
    temporary.replace(file)
    sync_directory(file.parent)
