"""How long the adapters wait for brokers."""

from __future__ import annotations

from dataclasses import dataclass

from pystreams.runtime.adapters.connection.confluent_errors import SHOWN_AFTER_S


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Waits of a client, in seconds.

    Attributes:
        answer_s: For the answer to a request.
        again_s: For an answer before it is asked again who has to give it.
        metadata_s: For the first broker that answers at all.
        look_s: For who is in a group: tasks that are to start wait for it.
        shown_s: For a topic that another broker shows already.
        last_s: For the answer to a request once the application is to stop.
    """

    answer_s: float = 30.0
    again_s: float = 3.0
    metadata_s: float = 15.0
    look_s: float = 5.0
    shown_s: float = SHOWN_AFTER_S
    last_s: float = 2.0
