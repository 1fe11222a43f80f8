"""What a group runs, by what it has noted with its offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystreams.cli.application.configuration import configuration_of
from pystreams.cli.display.logs import configure_logging
from pystreams.cli.display.times import told_time
from pystreams.errors import StreamsError

if TYPE_CHECKING:
    from pystreams.cli.options.groups import ApplicationOptions
    from pystreams.deploy.fingerprint import Fingerprint
    from pystreams.runtime.cluster.topology_note import NotedTopology

_ANSWER_TIMEOUT_S = 30.0
_AS_OLD = (
    "what it runs as OLD: what `pystreams describe --json` printed at its deploy, its file as it "
    "was then, or the state directory of a host on which it has run"
)
_NAME_OLD = f"Name {_AS_OLD}"


@dataclass(frozen=True, slots=True)
class GroupTopology:
    """The topology that a group runs, or has run last.

    Attributes:
        group: An application.id.
        hosts: Where its members are.
    """

    group: str
    noted: NotedTopology
    hosts: tuple[str, ...]

    def told(self) -> str:
        """Return which it is, as a sentence without an end."""
        verb, where = ("runs", f" on {', '.join(self.hosts)}") if self.hosts else ("has run", "")
        return f"group {self.group!r} {verb} {self._digest()}{where}"

    def beside(self, reference: str, new: Fingerprint) -> tuple[Fingerprint, Fingerprint]:
        """Return its fingerprint, and that of a topology as it is to be compared with it.

        Raises:
            StreamsError: The topology is another one, and the group does not tell what it runs.
        """
        from pystreams.deploy.shared_fingerprint import with_shared_serdes

        found = self.noted.fingerprint()
        if found.fingerprint is not None:
            return found.fingerprint, with_shared_serdes(new)
        self._refuse_another(
            reference, new, f"What it keeps the group does not tell: {found.why_not}. {_NAME_OLD}"
        )
        return new, new

    def check(self, reference: str, old: Fingerprint) -> None:
        """Refuse a topology that is not what the group runs.

        Raises:
            StreamsError: It runs another one, or it can't be told.
        """
        itself = self.noted.fingerprint().fingerprint
        self._refuse_another(
            reference, old, _NAME_OLD if itself is None else "Leave OLD out: the group tells it"
        )

    def _refuse_another(self, reference: str, fingerprint: Fingerprint, cure: str) -> None:
        from pystreams.deploy.fingerprint import comparable

        digest = fingerprint.get("digest", "not known")
        if digest == self.noted.digest:
            return
        if not comparable(digest, self.noted.digest):
            raise StreamsError(
                f"whether {reference} is what group {self.group!r} runs can't be told: another "
                f"version of pystreams has noted its digest, {self._digest()}, and makes digests "
                f"in another way. Leave --group out until the group runs with this version. {cure}"
            )
        where = f" It runs on {', '.join(self.hosts)}." if self.hosts else ""
        raise StreamsError(
            f"{reference} is not what group {self.group!r} runs, as far as state goes: its digest "
            f"is {digest}, and the group's {self._digest()}.{where} "
            "Default serdes, topology.optimization and the version of pystreams count, too: give "
            f"the --config it runs with. {cure}"
        )

    def _digest(self) -> str:
        return f"{self.noted.digest} (started {told_time(self.noted.started_ms)})"


def topology_of_group(
    group: str, application: ApplicationOptions, weakest: Mapping[str, Any]
) -> GroupTopology:
    """Return what a group runs.

    Args:
        weakest: Configuration that all that the command line gives overrides.

    Raises:
        StreamsError: It does not say.
        BrokerUnavailableError: No broker answers.
    """
    from pystreams.runtime.adapters.client_factory import ConfluentClients
    from pystreams.runtime.cluster.topology_note import noted_topologies

    configure_logging("warning", "auto")
    config = configuration_of(application, group, {**weakest, "application.id": group})
    admin = ConfluentClients(config).admin()
    admin.partition_counts()  # The first to be asked, which says why brokers do not answer.
    committed = admin.committed_offsets(group)
    if not committed:
        raise StreamsError(
            f"group {group!r} has committed nothing: it keeps no state to be checked"
        )
    noted = noted_topologies(committed)
    if not noted:
        raise StreamsError(
            f"group {group!r} does not say which topology it runs: an earlier pystreams, Kafka "
            "Streams or a backfill has committed its offsets, or a tool has set them. Leave "
            f"--group out, and name {_AS_OLD}"
        )
    members = admin.describe_group(group).result(_ANSWER_TIMEOUT_S).members
    return GroupTopology(group, noted[0], tuple(sorted({member.host for member in members})))
