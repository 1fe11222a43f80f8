"""Chaos on a real Kafka: `python -m tests.chaos --minutes 15 --seed 7 --guarantee exactly_once_v2`.

Prints the plan, what is done, and what came of it. Exit code 1 if outputs or stores are not what
they must be, or if a member ended by itself without a reason; logs are kept then.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos import planted
from tests.chaos.cluster import Cluster
from tests.chaos.feed import ChaosFeed
from tests.chaos.nemesis import Nemesis, closing
from tests.chaos.plan import GUESTS, KINDS, MEMBERS, OF_BROKERS, drawn, drawn_settings
from tests.chaos.run import Outcome, Setting, settle

_SHOWN = 40


def main() -> int:
    arguments = _arguments()
    directory = Path(tempfile.mkdtemp(prefix="pystreams-chaos-"))
    began = time.monotonic()
    outcome, nemesis = run(arguments, directory)
    minutes = (time.monotonic() - began) / 60
    for ended in outcome.ended:
        print(f"ENDED member {ended.member} with {ended.code}: {ended.error}")
    for line in outcome.differences[:_SHOWN]:
        print(f"DIFFERENT {line}")
    print(
        f"seed {arguments.seed}, {arguments.guarantee}: {minutes:.1f} minutes, "
        f"faults {sum(nemesis.done.values())} {dict(nemesis.done)}, left out {nemesis.skipped}, "
        f"records {dict(outcome.records)}, {outcome.behind} met an older tariff, "
        f"{len(outcome.full)} ended at a full disk, {len(outcome.ended)} by themselves, "
        f"{len(outcome.differences)} differences"
    )
    for line in outcome.hanging:
        print(f"HANGING {line}: Kafka has forgotten a transaction, and this run says nothing")
    if outcome.differences or outcome.ended:
        print(f"logs and state: {directory}")
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


def run(arguments: argparse.Namespace, directory: Path) -> tuple[Outcome, Nemesis]:
    seconds = arguments.minutes * 60
    name = f"chaos-{arguments.seed}"
    with Cluster(directory, arguments.brokers) as cluster:
        settings: dict[str, object] = {
            "bootstrap.servers": cluster.member_servers,
            "processing.guarantee": arguments.guarantee,
            "statestore.cache.max.bytes": 0,
            "replication.factor": cluster.replicas,
            **drawn_settings(arguments.seed),
        }
        if settings["group.protocol"] == "classic":
            settings["consumer.session.timeout.ms"] = 6_000
        setting = Setting(
            name, cluster.servers, settings, arguments.partitions, replicas=cluster.replicas
        )
        print(f"{settings}")
        setting.create_topics()
        members = [
            setting.member(number, directory, arguments.plant) for number in range(MEMBERS + GUESTS)
        ]
        with closing(members):
            usual = set(KINDS) if arguments.brokers > 1 else set(KINDS) - OF_BROKERS
            kinds = set(arguments.faults.split(",")) if arguments.faults else usual
            mounted = [member.mount_disk() for member in members]
            if not all(mounted):
                print("no disks can be mounted here: none gets full")
                kinds.discard("full disk")
            plan = drawn(arguments.seed, seconds, kinds)
            print(*plan, sep="\n", flush=True)
            nemesis = Nemesis(members, cluster, lambda line: print(line, flush=True))
            feed = ChaosFeed(cluster.servers, name, arguments.seed, arguments.rate)
            feed.rows_that_stay()
            for member in members[:MEMBERS]:
                member.start()
            with feed:
                nemesis.run(plan, seconds)
            print("all troubles are over", flush=True)
            return settle(setting, members[:MEMBERS], nemesis.tend, feed.acknowledged), nemesis


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--guarantee",
        choices=["exactly_once_v2", "exactly_once", "at_least_once"],
        default="exactly_once_v2",
    )
    parser.add_argument("--brokers", type=int, choices=[1, 3], default=3)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--rate", type=int, default=300, help="input records a second")
    parser.add_argument("--faults", help=f"only these, of: {','.join(KINDS)}")
    parser.add_argument("--plant", choices=planted.names(), help="a bug that must be found")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
