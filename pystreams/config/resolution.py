"""From what users wrote, in several places, to the values of a configuration.

All problems are collected and raised in one error, each with the place it stands in and, for an
unknown name, the nearest right one. Aliases become the main name in each source before sources
are merged, so that a stronger source wins whichever name it uses.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pystreams.config import client_overrides
from pystreams.config.definitions import KeyDefinition
from pystreams.config.known_keys import (
    ALIASES,
    MEANT,
    PREFIXES,
    SHARED_KEYS,
    UNSUPPORTED,
    UNSUPPORTED_PREFIXES,
    WITHOUT_EFFECT,
)
from pystreams.errors import ConfigError

SECRET_WORDS = (
    "password",
    "passphrase",
    "secret",
    "credentials",
    "user.info",
    "oauthbearer.config",
    ".pem",
)
"""What names of keys have whose values are never shown."""
_LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Source:
    """Values from one place.

    Attributes:
        label: What error messages call the place, such as a file's name; may be empty.
        values: Names -> values, as the user wrote them; nested mappings add their keys with dots.
    """

    label: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One value that was set, and where."""

    written_name: str
    value: Any
    label: str


@dataclass(slots=True)
class _Findings:
    """What has been worked out so far."""

    parsed: dict[str, Any] = field(default_factory=dict)
    overrides: dict[str, Any] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def refuse(self, entry: _Entry, reason: str) -> None:
        place = f" (from {entry.label})" if entry.label else ""
        self.problems.append(f"{entry.written_name} {reason}{place}")


def resolve(definitions: Sequence[KeyDefinition], sources: Sequence[Source]) -> dict[str, Any]:
    """Merge the sources, the strongest first, and check what they say.

    Returns:
        A value for each field of `StreamsConfig`.

    Raises:
        ConfigError: With every problem found.
    """
    findings = _Findings()
    by_name = {definition.name: definition for definition in definitions}
    entries = _merged(sources, by_name, findings)
    for name, entry in entries.items():
        definition = by_name.get(name)
        if definition is not None:
            _parse(definition, entry, findings)
        else:
            _classify(name, entry, by_name, findings)
    exactly_once = _is_exactly_once(findings)
    values = _with_defaults(definitions, entries, findings, exactly_once=exactly_once)
    _check_overrides(entries, findings, exactly_once=exactly_once)
    if exactly_once and not findings.problems:
        _check_transaction_timeout(values["commit_interval_ms"], findings)
    if not findings.problems:
        _check_heartbeats(findings)
    if findings.problems:
        error = ConfigError(_in_one_message(findings.problems))
        error.missing = tuple(findings.missing)
        raise error
    overrides = MappingProxyType(findings.overrides)
    return {**values, "overrides": overrides, "ignored": tuple(findings.ignored)}


def entries_of(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a configuration says of one key, by how it is written there.

    Raises:
        ConfigError: It is no configuration.
    """
    _check_mapping(values)
    return {
        written: value for written, value in _flattened(values) if written.replace("_", ".") == name
    }


def _merged(
    sources: Sequence[Source], by_name: Mapping[str, KeyDefinition], findings: _Findings
) -> dict[str, _Entry]:
    """Return the strongest value of each name."""
    merged: dict[str, _Entry] = {}
    for source in sources:
        _check_mapping(source.values)
        own: dict[str, _Entry] = {}
        for written, value in _flattened(source.values):
            name = _dotted(written, by_name)
            name = ALIASES.get(name, name)
            entry = _Entry(written, value, source.label)
            other = own.setdefault(name, entry)
            if other.value != value:
                findings.refuse(entry, f"contradicts {other.written_name}: they are one key")
        for name, entry in own.items():
            merged.setdefault(name, entry)
    return merged


def _check_mapping(values: object) -> None:
    if not isinstance(values, Mapping):
        raise ConfigError(
            "a configuration is a mapping of names to values, such as "
            f"{{'application.id': 'orders'}}, and is given as {type(values).__name__}"
        )


def _flattened(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield names and values; None means not set."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", value


def _dotted(written: str, by_name: Mapping[str, KeyDefinition]) -> str:
    """Return the dotted form of a name that may be a Python keyword argument."""
    if written in by_name or "." in written:
        return written
    return written.replace("_", ".")


def _parse(definition: KeyDefinition, entry: _Entry, findings: _Findings) -> None:
    try:
        findings.parsed[definition.name] = definition.kind.parse(entry.value)
    except ValueError as error:
        findings.refuse(entry, f"= {_shown(entry)} {error}")


def _classify(
    name: str, entry: _Entry, by_name: Mapping[str, KeyDefinition], findings: _Findings
) -> None:
    """Decide about a name that is no key of `StreamsConfig`."""
    if name in WITHOUT_EFFECT:
        findings.ignored.append(f"{entry.written_name}: {WITHOUT_EFFECT[name]}")
    elif name in UNSUPPORTED:
        unsupported = UNSUPPORTED[name]
        if str(entry.value).strip().lower() not in unsupported.accepted:
            reason = unsupported.reason
            findings.refuse(entry, f"= {_shown(entry)} is not supported: {reason}")
    elif prefix := next((known for known in UNSUPPORTED_PREFIXES if name.startswith(known)), None):
        findings.refuse(entry, f"is not supported: {UNSUPPORTED_PREFIXES[prefix]}")
    elif name.startswith(tuple(PREFIXES)) or client_overrides.is_shared(name):
        if isinstance(entry.value, str | int | float):
            findings.overrides[name] = entry.value
        else:
            findings.refuse(entry, "must be text, a number, or true or false")
    else:
        findings.refuse(entry, f"is no configuration key{_hint(name, by_name)}")


def _hint(name: str, by_name: Mapping[str, KeyDefinition]) -> str:
    """Return what a wrong name may have meant, or why there is none such."""
    if (reason := client_overrides.why_never(name)) is not None:
        return f": {reason}"
    known = [*by_name, *ALIASES, *UNSUPPORTED, *WITHOUT_EFFECT, *SHARED_KEYS]
    meant = MEANT | {name: name for name in known}
    near = difflib.get_close_matches(name, meant, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {meant[near[0]]}?"
    return "; keys of the Kafka clients need a prefix, such as consumer. or producer."


def _is_exactly_once(findings: _Findings) -> bool:
    guarantee = findings.parsed.get("processing.guarantee")
    return guarantee is not None and bool(guarantee.exactly_once)


def _with_defaults(
    definitions: Sequence[KeyDefinition],
    entries: Mapping[str, _Entry],
    findings: _Findings,
    *,
    exactly_once: bool,
) -> dict[str, Any]:
    """Return a value for every definition; a wrong one counts as not set."""
    values: dict[str, Any] = {}
    for definition in definitions:
        if definition.name in findings.parsed:
            values[definition.field] = findings.parsed[definition.name]
            continue
        if definition.required and definition.name not in entries:
            findings.problems.append(f"{definition.name} is required and not set")
            findings.missing.append(definition.name)
        default = definition.default_exactly_once if exactly_once else definition.default
        values[definition.field] = default
    return values


def _check_overrides(
    entries: Mapping[str, _Entry], findings: _Findings, *, exactly_once: bool
) -> None:
    for name, value in findings.overrides.items():
        problem = client_overrides.override_problem(name, value, exactly_once=exactly_once)
        if problem is not None:
            findings.refuse(entries[name], problem)
    problem = client_overrides.token_problem(findings.overrides)
    if problem is not None:
        findings.problems.append(f"sasl.mechanism = OAUTHBEARER {problem}")


def _check_transaction_timeout(interval_ms: int, findings: _Findings) -> None:
    """Refuse transactions that the broker would abort before they are due to commit."""
    timeout_ms = client_overrides.transaction_timeout_ms(findings.overrides)
    if timeout_ms < interval_ms:
        findings.problems.append(
            f"commit.interval.ms = {interval_ms} is longer than "
            f"producer.transaction.timeout.ms = {timeout_ms}: the broker would abort every "
            "transaction before its commit; lower the first or raise the second"
        )


def _check_heartbeats(findings: _Findings) -> None:
    """Refuse sessions that end between two heartbeats, as Kafka does."""
    interval_ms = client_overrides.heartbeat_interval_ms(findings.overrides)
    session_ms = client_overrides.session_timeout_ms(findings.overrides)
    if interval_ms >= session_ms:
        findings.problems.append(
            f"consumer.heartbeat.interval.ms = {interval_ms} is not below "
            f"consumer.session.timeout.ms = {session_ms}: the broker would put members out "
            "between two heartbeats; lower the first to a third of the second"
        )


def is_secret(name: str) -> bool:
    """Return whether the value of a key is never shown."""
    return any(word in name.lower() for word in SECRET_WORDS)


def _shown(entry: _Entry) -> str:
    """Return the value for a message; never a secret, never pages of it."""
    if is_secret(entry.written_name):
        return "(hidden)"
    text = repr(entry.value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def _in_one_message(problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return f"configuration: {problems[0]}"
    lines = "\n".join(f"  - {problem}" for problem in problems)
    return f"configuration: {len(problems)} problems\n{lines}"
