"""A schema whose rules are carried out: what for, by which rules, and into what values are read.

- Values are written by the rules of the schema that they are written with.
- They are read by those of the schema that they were written with, and resolved to the serde's own
  as any others are.
- Where the serde's own schema was given with rules, or it writes with the subject's latest version,
  values are read into that one, by its rules, after the migrations between the two.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pystreams.errors import SchemaRegistryError
from pystreams.registry.registry_client import RegistryClient
from pystreams.registry.rules import (
    encrypted_tags,
    has_any_rules,
    has_migrations,
    has_rules,
    is_encrypted,
)


class RuledSchema(NamedTuple):
    """A schema with rules, and what it is used for.

    Confluent's serializers take it for their client: it answers what they ask with what is known.

    Attributes:
        schema_id: The id, or GUID, of the schema that values are, or were, written with.
        schema: The client's form of it.
        subject: Whose rules and keys these are.
        topic: Where the values are.
        is_key: Whether they are keys.
        where: What is written or read, for errors.
        latest: The client's form of what they are written with, or read into; None to read them as
            they were written.
        source: The client's form of the version that they were written with; None to write.
        own: What they are read into, where the subject does not have it.
    """

    client: RegistryClient
    schema_id: int | str
    schema: Any
    subject: str
    topic: str
    is_key: bool
    where: str
    latest: Any = None
    source: Any = None
    own: Any = None

    @property
    def read_into(self) -> Any:
        """Return the schema that values which were read are of."""
        return self.own or (self.schema if self.latest is None else self.latest.schema)

    @property
    def is_secret(self) -> bool:
        """Return whether errors are to show no values."""
        return is_encrypted(self.schema) or is_encrypted(self.read_into)

    def config(self) -> dict[str, Any]:
        """Return how the client is configured, with which keys of fields are asked for, too."""
        configuration: dict[str, Any] = self.client.confluent_client.config()
        return configuration

    def get_latest_version(self, *_: Any) -> Any:
        """Return what is "latest" here."""
        return self.latest

    def get_schema(self, *_: Any) -> Any:
        """Return the schema that values were written with."""
        return self.schema

    def get_schema_by_guid(self, *_: Any) -> Any:
        """Return the same."""
        return self.schema

    def lookup_schema(self, *_: Any, **__: Any) -> Any:
        """Return the version that values were written with."""
        return self.source

    def get_version(self, subject: str, version: int, deleted: Any, fmt: str | None = None) -> Any:
        """Return a version that is referred to, or is between two others."""
        return self.client.registered_version(subject, version, self.where, fmt)


def read_by_rules(written: RuledSchema, given: Any, *, by_latest: bool) -> RuledSchema | None:
    """Return by which rules values are read, and into what; None where there are no rules for it.

    Args:
        given: The serde's own schema; None without one.
        by_latest: Whether they are read into the subject's latest version.

    Raises:
        SchemaRegistryError: They would stay encrypted.
    """
    as_written = written if has_rules(written.schema) else None
    client, subject, where = written.client, written.subject, written.where
    into = None
    if has_any_rules(given):
        into = client.found(subject, given, where)
    elif by_latest:
        into = client.latest_of(subject, where)
    if into is not None and written.schema_id in {into.schema_id, into.guid}:
        return as_written
    source = None if into is None else client.found(subject, written.schema, where)
    migrates = False
    if into is not None and source is not None:
        migrates = _migrates(written, source, into)
        read = written._replace(latest=into, source=source)
    elif has_any_rules(given):
        read = written._replace(own=given)
    else:
        return as_written
    if not (migrates or has_rules(read.read_into)):
        return as_written
    if encrypted_tags(written.schema) <= encrypted_tags(read.read_into):
        return read
    if not migrates:
        return as_written
    raise SchemaRegistryError(
        f"{where} have fields that are encrypted, and the version of subject {subject!r} that they "
        "are to be migrated to has no rule that decrypts them: add it there"
    )


def _migrates(written: RuledSchema, source: Any, into: Any) -> bool:
    """Return whether a rule of a version brings values from one to the other, or may."""
    first, last = sorted((source, into), key=lambda registered: int(registered.version))
    client, where = written.client, written.where
    return has_migrations(last.schema) or any(
        has_migrations(client.known_version(written.subject, version, where))
        for version in range(first.version + 1, last.version)
    )
