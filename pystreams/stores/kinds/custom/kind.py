"""The kind of a user's store whose builder names none: it is read key by key, if it can be."""

from __future__ import annotations

from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.kinds.key_value.kind import KeyValueKind


class CustomKind(KeyValueKind):
    """Stores of which nothing is known but that their logged key is their key."""

    name = "custom"
    factory = ""
    has_serdes = False
    holds_tables = False

    def form(self, spec: StoreSpec) -> str:
        """Return "": nothing is known of what stores take and give."""
        return ""


CUSTOM = CustomKind()
