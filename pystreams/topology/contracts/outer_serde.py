"""What serdes around another one have in common, which may be left to the configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from pystreams.errors import ConfigError
from pystreams.serdes import Serde, filled, is_complete

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class OuterSerde(Generic[T]):
    """A serde around another one.

    Attributes:
        inner: The serde inside; None takes the configured default, through `with_default`.
        missing: What to say where there is neither.
    """

    inner: Serde[T] | None
    missing = ""

    def with_default(self, default: Serde[Any] | None) -> Self:
        """Return this serde, with the configured default where it has none inside."""
        return replace(self, inner=filled(self.inner, default))

    def is_complete(self) -> bool:
        """Return whether it needs no default."""
        return is_complete(self.inner)

    def known_inner(self) -> Serde[T]:
        """Return the serde inside.

        Raises:
            ConfigError: There is neither one of its own nor a default.
        """
        if self.inner is None:
            raise ConfigError(self.missing)
        return self.inner
