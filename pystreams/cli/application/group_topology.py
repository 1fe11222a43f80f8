"""Whether a group runs a topology, by what it has noted with its offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystreams.cli.application.configuration import configuration_of
from pystreams.cli.display.logs import configure_logging
from pystreams.cli.display.times import told_time
from pystreams.errors import StreamsError

if TYPE_CHECKING:
    from pystreams.cli.options.groups import ApplicationOptions
    from pystreams.deploy.fingerprint import Fingerprint
    from pystreams.runtime.cluster.topology_note import NotedTopology

_ANSWER_TIMEOUT_S = 30.0


def check_group(
    group: str, reference: str, fingerprint: Fingerprint, application: ApplicationOptions
) -> None:
    """Refuse a topology that is not what a group runs.

    Args:
        group: The group: an application.id.

    Raises:
        StreamsError: The group runs another one, or does not say which.
        BrokerUnavailableError: No broker answers.
    """
    from pystreams.deploy.fingerprint import comparable
    from pystreams.runtime.adapters.client_factory import ConfluentClients
    from pystreams.runtime.cluster.topology_note import noted_topologies

    configure_logging("warning", "auto")
    config = configuration_of(application, group, {"application.id": group})
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
            f"Streams or a backfill has committed its offsets. {_NAME_OLD}"
        )
    digest = fingerprint.get("digest", "not known")
    if digest == noted[0].digest:
        return
    if not comparable(digest, noted[0].digest):
        raise StreamsError(
            f"whether {reference} is what group {group!r} runs can't be told: another version of "
            f"pystreams has noted its digest, {_told(noted[0])}, and makes digests in another way. "
            f"Leave --group out until the group runs with this version. {_NAME_OLD}"
        )
    hosts = sorted(
        {member.host for member in admin.describe_group(group).result(_ANSWER_TIMEOUT_S).members}
    )
    where = f" It runs on {', '.join(hosts)}." if hosts else ""
    raise StreamsError(
        f"{reference} is not what group {group!r} runs, as far as state goes: its digest is "
        f"{digest}, and the group's {_told(noted[0])}.{where} "
        "Default serdes, topology.optimization and the version of pystreams count, too: give the "
        f"--config it runs with. {_NAME_OLD}"
    )


_NAME_OLD = (
    "Name what it runs as OLD: what `pystreams describe --json` printed at its deploy, its file "
    "as it was then, or the state directory of a host on which it has run"
)


def _told(noted: NotedTopology) -> str:
    return f"{noted.digest} (started {told_time(noted.started_ms)})"
