"""Bugs that are planted into the members, which the checks must find.

Those of the simulation's sweep can be planted here, too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack

from pystreams.record import OutputBuffer
from pystreams.runtime.tasks.producers import StreamsProducer
from tests.simulation.sweeping.planted import PLANTS

VARIABLE = "CHAOS_PLANT"
SENT_TWICE = "some_outputs_sent_twice"
_EVERY = 500
_lasting = ExitStack()


def names() -> list[str]:
    """Return what can be planted."""
    return [SENT_TWICE, *PLANTS]


def apply() -> None:
    """Plant the bug that this process was started with, if any, for all its life."""
    name = os.environ.get(VARIABLE)
    if name == SENT_TWICE:
        _send_some_twice()
    elif name is not None:
        _lasting.enter_context(PLANTS[name]())


def _send_some_twice() -> None:
    send, sent = StreamsProducer.send, 0

    def sometimes_twice(self: StreamsProducer, outputs: Sequence[OutputBuffer]) -> None:
        nonlocal sent
        for output in outputs:
            for record in list(output.records):
                sent += 1
                if sent % _EVERY == 0:
                    output.records.append(record)
        send(self, outputs)

    StreamsProducer.send = sometimes_twice  # type: ignore[method-assign]
