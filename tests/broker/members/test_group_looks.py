"""Looks at a group of which no coordinator can be reached."""

from __future__ import annotations

import subprocess
import sys

from pystreams.broker import DevelopmentBroker
from pystreams.runtime.adapters.administering.confluent_admin import ConfluentAdmin
from pystreams.runtime.adapters.connection.connections import BrokerOutage
from pystreams.runtime.adapters.connection.timeouts import Timeouts
from tests.broker.waiting import DEADLINE_S

LOOKS = (1, 1, 1, 2)
"""In each outage: a client that does not answer is closed after two."""
LOOKS_WHILE_ITS_BROKER_COMES_AND_GOES = """
import contextlib
import sys

from pystreams.errors import RetriableClientError
from pystreams.runtime.adapters.administering.confluent_admin import ConfluentAdmin
from pystreams.runtime.adapters.connection.connections import BrokerOutage
from pystreams.runtime.adapters.connection.timeouts import Timeouts
from tests.broker.troubles.request_proxy import RequestProxy

proxy = RequestProxy(sys.argv[1])
servers = proxy.bootstrap_servers
config = {"bootstrap.servers": servers}
admin = ConfluentAdmin(config, BrokerOutage(servers), timeouts=Timeouts(look_s=1.5))


def members():
    # Asked again for as long as it takes, as a thread does: its coordinator begins, or comes back.
    while True:
        with contextlib.suppress(RetriableClientError):
            return admin.group_members(sys.argv[2])


for looks in sys.argv[3:]:
    members()
    proxy.refuse()
    for _ in range(int(looks)):
        error = None
        while "no coordinator has answered" not in str(error):  # One may be sent and lost.
            error = admin.describe_group(sys.argv[2]).exception()
        print(error, flush=True)
    proxy.accept()
members()
print("is there", flush=True)
"""
"""A process of its own, as librdkafka would end it."""


def test_process_outlives_looks_that_timed_out_before_its_coordinator_came_back(
    broker: DevelopmentBroker, unique_name: str
) -> None:
    arguments = [broker.bootstrap_servers, unique_name, *map(str, LOOKS)]
    program = [sys.executable, "-c", LOOKS_WHILE_ITS_BROKER_COMES_AND_GOES, *arguments]
    done = subprocess.run(program, capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    assert done.returncode == 0, done.stderr
    about = f"members of group '{unique_name}': no coordinator has answered within 1.5 s"
    assert done.stdout.splitlines() == [about] * sum(LOOKS) + ["is there"]


def test_looks_at_one_moment_are_all_answered_by_one_client(
    broker: DevelopmentBroker, unique_name: str
) -> None:
    servers = broker.bootstrap_servers
    config, timeouts = {"bootstrap.servers": servers}, Timeouts(look_s=DEADLINE_S)
    admin = ConfluentAdmin(config, BrokerOutage(servers), timeouts=timeouts)
    admin.group_members(unique_name)  # Its coordinator is there.

    looks = [admin.describe_group(unique_name) for _ in range(3)]

    assert [look.result().members for look in looks] == [()] * 3
