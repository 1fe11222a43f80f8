"""Notices that a request of a producer had no answer, by what librdkafka's log says.

librdkafka repeats by itself what had no answer, and the call that waits for it succeeds all the
same. The first copy may still reach the broker. These lines tell, and they are there before the
call returns:

| facility | says |
|---|---|
| `FAIL` | a connection is lost, and with it what was asked on it |
| `REQTMOUT` | a request had no answer in time |
| `RETRY` | a request is sent again |

`FAIL` is only complete with librdkafka's `debug=broker`: without, a connection that the other end
has closed, and whatever was said in the last 30 seconds, are left out. A connection that never came
about has lost nothing. Rejected: how long a call takes, since a broker with much to do takes longer
than librdkafka waits before it repeats; statistics, which come too late.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from pystreams.runtime.adapters.connection.confluent import Producer
from pystreams.runtime.adapters.connection.confluent_errors import CLIENT_EXCEPTIONS
from pystreams.runtime.adapters.connection.connections import ClientLog

_TELLING = frozenset({"FAIL", "REQTMOUT", "RETRY"})
_NEVER_CONNECTED = re.compile(r"in state (?:INIT|DOWN|TRY_CONNECT|CONNECT)\b")


class LostRequests:
    """Takes the log lines of one client and passes on what the user is to see.

    Args:
        config: The client's configuration, without what `telling` adds.

    Attributes:
        noticed: Whether there was one; set it back to learn of the next.
    """

    def __init__(self, log: ClientLog, config: Mapping[str, Any]) -> None:
        self.noticed = False
        self._log = log
        self._shows_debug = "debug" in config

    @staticmethod
    def telling(config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with which librdkafka says all that is needed of a producer.

        `eos` is for `implicit_acknowledgements`, of any producer.
        """
        asked = [config["debug"]] if config.get("debug") else []
        needed = ["eos", "broker"] if "transactional.id" in config else ["eos"]
        return {"debug": ",".join(asked + needed)}

    def hear(self, client: Producer) -> None:
        """Take the lines a client has for us; an error of the client leaves doubt, no more."""
        try:
            client.poll(0)
        except CLIENT_EXCEPTIONS:
            self.noticed = True

    def log(self, level: int, template: str, facility: str, client: str, line: str) -> None:
        """Take one line."""
        if facility in _TELLING and not _NEVER_CONNECTED.search(line):
            self.noticed = True
        if self._shows_debug or level > logging.DEBUG:
            self._log.log(level, template, facility, client, line)
