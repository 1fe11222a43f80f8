"""Secrets in texts that others wrote: lines of the log, messages of errors."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pystreams.config import StreamsConfig
from pystreams.config.resolution import SECRET_WORDS
from pystreams.config.streams_config import KEY_DEFINITIONS

_HIDDEN = "(hidden)"
_ASSIGNED = re.compile(
    r"((?:password|secret|token)[\w.]*['\"]?\s*[=:]\s*)(?!\(hidden\))\S+", re.IGNORECASE
)


def secrets_of(config: StreamsConfig) -> list[str]:
    """Return the secrets of a configuration, longest first."""
    values = {key.name: getattr(config, key.name.replace(".", "_")) for key in KEY_DEFINITIONS}
    found = {
        value
        for name, value in {**values, **config.overrides}.items()
        if isinstance(value, str) and value and any(word in name.lower() for word in SECRET_WORDS)
    }
    return sorted(found, key=len, reverse=True)


def without_secrets(text: str, secrets: Sequence[str]) -> str:
    """Return a text without the given secrets, and without what looks like one."""
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return _ASSIGNED.sub(rf"\1{_HIDDEN}", text)
