"""Secrets in texts that others wrote: lines of the log, messages of errors."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pystreams.config import StreamsConfig
from pystreams.config.resolution import is_secret
from pystreams.config.shown_values import values_by_key

_HIDDEN = "(hidden)"
_ASSIGNED = re.compile(
    r"((?:password|secret|token)[\w.]*['\"]?\s*[=:]\s*)(?!\(hidden\))\S+", re.IGNORECASE
)


def secrets_of(config: StreamsConfig) -> list[str]:
    """Return the secrets of a configuration, longest first."""
    found = {
        value
        for name, value in values_by_key(config).items()
        if isinstance(value, str) and value and is_secret(name)
    }
    return sorted(found, key=len, reverse=True)


def without_secrets(text: str, secrets: Sequence[str]) -> str:
    """Return a text without the given secrets, and without what looks like one."""
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return _ASSIGNED.sub(rf"\1{_HIDDEN}", text)
