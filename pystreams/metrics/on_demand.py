"""What is measured only while somebody wants to know it."""

from __future__ import annotations


class OnDemand:
    """Says until when something is to be measured; one an application.

    Any thread may ask, and those that measure look at it now and then.

    Attributes:
        until_ms: Until when, on the timer (ms); 0 if nobody has ever asked.
    """

    __slots__ = ("until_ms",)

    def __init__(self) -> None:
        self.until_ms = 0.0
