"""`Retry`: how often, and how soon, a function is called again with a record it has failed with."""

from __future__ import annotations

from dataclasses import dataclass

from pystreams.errors import TopologyError


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Calls a function again with a record, if it has raised one of some errors.

    The record waits, and so do all that its task reads behind it; the thread goes on polling and
    serves its other tasks. What raises in all calls, or raises another error, goes to
    `processing.exception.handler`. Differs from Kafka, which has none.

    Attributes:
        on: The error, or the errors, that may have passed by the next call.
        max: How often to call again, 1 or more.
        backoff_ms: How long to wait before that (ms); then twice as long each time.
    """

    on: type[Exception] | tuple[type[Exception], ...]
    max: int = 3
    backoff_ms: int = 100

    def __post_init__(self) -> None:
        """Refuse what is no error, and numbers out of range."""
        errors: tuple[object, ...] = self.on if isinstance(self.on, tuple) else (self.on,)
        for error in errors:
            if not (isinstance(error, type) and issubclass(error, Exception)):
                raise TopologyError(
                    f"Retry: on={error!r} is no class of exceptions: give one, or a tuple of them, "
                    "as in on=TimeoutError"
                )
        if not errors:
            raise TopologyError("Retry: on=() names no error: give one, as in on=TimeoutError")
        numbers: list[tuple[str, object, int]] = [
            ("max", self.max, 1),
            ("backoff_ms", self.backoff_ms, 0),
        ]
        for name, value, least in numbers:
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise TopologyError(f"Retry: {name} is a whole number from {least}, not {value!r}")

    @property
    def longest_ms(self) -> int:
        """How long a record waits at most, beside what the calls take (ms)."""
        return self.backoff_ms * ((1 << self.max) - 1)
