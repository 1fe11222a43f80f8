"""Confluent's registry client, with errors that say whether the record is at fault, and the cure.

The only module here that imports it. The client asks again what was not answered (`max.retries`);
it keeps what it has learned, and the serdes keep what they have made of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from types import ModuleType
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from pystreams.errors import ConfigError, SchemaRegistryError

T = TypeVar("T")

_TIMEOUT_S = 10


class UnknownSchemaError(ValueError):
    """The registry does not know the schema id of a record: that record is at fault."""


class RegisteredId(NamedTuple):
    """What a registry calls a schema.

    Attributes:
        guid: Its GUID; None where the registry has none.
        version: Its version in the subject, where that was asked for.
    """

    schema_id: int
    guid: str | None
    version: int | None


def _id_of(registered: Any) -> RegisteredId:
    return RegisteredId(int(registered.schema_id), registered.guid, registered.version)


class RegistryClient:
    """Asks a registry for what the serdes need.

    Args:
        config: Confluent's keys: `url`, `basic.auth.user.info`, `bearer.auth...`, `ssl....`. Where
            `timeout` is not given, an answer is waited for 10 seconds.
        rule_config: What the executors of rules are configured with: the key store's, mostly.
    """

    def __init__(
        self, config: Mapping[str, Any], rule_config: Mapping[str, Any] | None = None
    ) -> None:
        self.url = without_user_info(str(config.get("url")))
        self.rule_config = dict(rule_config or {})
        self._config = dict(config)
        self._lock = Lock()
        self._client: Any = None
        self._reading: Any = None
        self._rules: Any = None
        self._module = _confluent()

    @property
    def confluent_client(self) -> Any:
        """Return Confluent's client, made when it is first needed.

        Raises:
            ConfigError: It refuses the configuration.
        """
        with self._lock:
            if self._client is None:
                self._client = self._new_client()
            return self._client

    @property
    def rule_registry(self) -> Any:
        """Return what carries out rules, one for all serdes: it knows the keys of fields."""
        from pystreams.registry.rule_executors import new_rule_registry  # noqa: PLC0415 - an extra

        with self._lock:
            if self._rules is None:
                self._rules = new_rule_registry()
            return self._rules

    def _client_by_guid(self) -> Any:
        """Return a client that registers nothing.

        One that does has, for the GUID it is told, what it was given: without the registry's rules.
        """
        if self.url.startswith("mock://"):
            return self.confluent_client
        with self._lock:
            if self._reading is None:
                self._reading = self._new_client()
            return self._reading

    def _new_client(self) -> Any:
        try:
            new_client = self._module.SchemaRegistryClient.new_client
            return new_client({"timeout": _TIMEOUT_S, **_without_url_credentials(self._config)})
        except (TypeError, ValueError, OSError) as error:
            told = without_user_info(str(error))
            raise ConfigError(f"the schema registry's configuration is wrong: {told}") from error

    def __reduce__(self) -> tuple[type[RegistryClient], tuple[dict[str, Any], dict[str, Any]]]:
        """Let a backfill's workers make clients of their own."""
        return RegistryClient, (self._config, self.rule_config)

    def schema_of(self, text: str, schema_type: str, references: Sequence[Any] = ()) -> Any:
        """Return the client's form of a schema."""
        return self._module.Schema(text, schema_type, list(references))

    def reference(self, name: str, subject: str, version: int) -> Any:
        """Return the client's form of a schema's reference to another one."""
        return self._module.SchemaReference(name, subject, version)

    def schema(self, schema_id: int | str, where: str) -> Any:
        """Return the schema of an id, or a GUID, that a record has.

        Raises:
            UnknownSchemaError: There is none of this id.
            SchemaRegistryError: The registry does not answer, or not to this client.
        """
        asked = f"schema id {schema_id} of {where}"
        try:
            if isinstance(schema_id, str):
                by_guid = self._client_by_guid
                return self._answer(asked, lambda _: by_guid().get_schema_by_guid(schema_id))
            return self._answer(asked, lambda client: client.get_schema(schema_id))
        except SchemaRegistryError as error:
            if not self._is_unknown(error.__cause__):
                raise
            raise UnknownSchemaError(
                f"the schema registry at {self.url} does not know schema id {schema_id}: the "
                "record was written with another registry, or not in Confluent's format"
            ) from error

    def register(self, subject: str, schema: Any, where: str) -> RegisteredId:
        """Return the id of a schema in a subject, after registering it where need be."""
        asked = f"to register a schema in subject {subject!r} for {where}"
        return self._answer(
            asked,
            lambda client: _id_of(client.register_schema_full_response(subject, schema)),
        )

    def look_up(self, subject: str, schema: Any, where: str) -> RegisteredId:
        """Return the id of a schema that the subject must have."""
        asked = f"for a schema of subject {subject!r} for {where}"
        return self._answer(asked, lambda client: _id_of(client.lookup_schema(subject, schema)))

    def found(self, subject: str, schema: Any, where: str) -> Any:
        """Return what the client calls a schema that the subject had once, or None."""
        asked = f"for a schema of subject {subject!r} for {where}"
        return self._known(
            asked, lambda client: client.lookup_schema(subject, schema, deleted=True)
        )

    def latest_of(self, subject: str, where: str) -> Any:
        """Return what the client calls a subject's latest version; None without the subject."""
        asked = f"for the latest version of subject {subject!r} for {where}"
        return self._known(asked, lambda client: client.get_latest_version(subject))

    def latest(self, subject: str, where: str) -> tuple[RegisteredId, Any]:
        """Return id and schema of a subject's latest version."""
        asked = f"for the latest version of subject {subject!r} for {where}"
        found = self._answer(asked, lambda client: client.get_latest_version(subject))
        return _id_of(found), found.schema

    def version(self, subject: str, version: int, where: str) -> Any:
        """Return a version of a subject, as references name them."""
        return self.registered_version(subject, version, where).schema

    def registered_version(
        self, subject: str, version: int, where: str, form: str | None = None
    ) -> Any:
        """Return what the client calls a version of a subject, deleted or not."""
        asked = f"for version {version} of subject {subject!r}, which {where} refers to"
        return self._answer(
            asked, lambda client: client.get_version(subject, version, deleted=True, fmt=form)
        )

    def known_version(self, subject: str, version: int, where: str) -> Any:
        """Return the schema of a version of a subject, or None where it is gone."""
        asked = f"for version {version} of subject {subject!r} for {where}"
        found = self._known(
            asked, lambda client: client.get_version(subject, version, deleted=True)
        )
        return None if found is None else found.schema

    def text(self, schema_id: int | str, form: str, where: str) -> str:
        """Return the text of a schema in a form that the registry knows.

        It is asked for anew: the client keeps one form of a schema.
        """

        def ask(_: Any) -> Any:
            with self._new_client() as client:
                if isinstance(schema_id, str):
                    return client.get_schema_by_guid(schema_id, form)
                return client.get_schema(schema_id, fmt=form)

        return str(self._answer(f"schema id {schema_id} of {where}, {form}", ask).schema_str)

    def registered(self, name: RegisteredId, subject: str, schema: Any) -> Any:
        """Return what the client calls a version of a subject."""
        return self._module.RegisteredSchema(
            subject=subject,
            version=name.version,
            schema_id=name.schema_id,
            guid=name.guid,
            schema=schema,
        )

    def with_text(self, schema: Any, text: str) -> Any:
        """Return a schema with its text in another form."""
        return self._module.Schema(
            text, schema.schema_type, schema.references, schema.metadata, schema.rule_set
        )

    def _answer(self, asked: str, ask: Callable[[Any], T]) -> T:
        client = self.confluent_client
        try:
            return ask(client)
        except Exception as error:
            raise SchemaRegistryError(
                f"the schema registry at {self.url} was asked {asked}: {self._told(error)}"
            ) from error

    def _known(self, asked: str, ask: Callable[[Any], T]) -> T | None:
        try:
            return self._answer(asked, ask)
        except SchemaRegistryError as error:
            if self._is_unknown(error.__cause__):
                return None
            raise

    def _is_unknown(self, error: BaseException | None) -> bool:
        refused = isinstance(error, self._module.SchemaRegistryError)
        return refused and getattr(error, "http_status_code", None) == 404

    def _told(self, error: Exception) -> str:
        if isinstance(error, TypeError):
            return f"its client can't take the answer: {told_with_cure(error)}"
        if not isinstance(error, self._module.SchemaRegistryError):
            return (
                f"it does not answer ({type(error).__name__}: {without_user_info(str(error))}); "
                "check its url, the network and `ssl.ca.location`, and start again: no record was "
                "skipped"
            )
        status = error.http_status_code
        return f"it refused ({error}); {_CURES.get(status) or _CURE}"


_USER_INFO = re.compile(r"//[^/?#\s,]*@")
_CURE = "look at the registry's log, and start again: no record was skipped"
_CURES: dict[int, str] = {
    401: "set basic.auth.user.info or bearer.auth... in its configuration",
    403: "give this user the rights to read and, with SchemaUse.REGISTER, to write the subject",
    404: "register it there, or let SchemaUse.REGISTER do it",
    409: "it is incompatible with the versions before: change the schema, or the subject's level",
    422: "it is not valid there: correct the schema",
}


def told_with_cure(error: Exception) -> str:
    """Return what an error of the client's own says, with the cure of the one that is known."""
    told = f"{type(error).__name__}: {error}"
    if "unhashable" in told:
        told += "; of a schema whose metadata has tags, confluent-kafka 2.16.1 or newer can"
    return told


def without_user_info(text: str) -> str:
    """Return a text whose URLs name no user and no password."""
    return _USER_INFO.sub("//", text)


def _without_url_credentials(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration that names user and password beside the URL, not in it.

    The client's HTTP library logs each URL it asks.
    """
    urls = str(config.get("url"))
    parts = [urlsplit(url.strip()) for url in urls.split(",")]
    named = next((part for part in parts if part.username and part.password), None)
    if named is None or "basic.auth.user.info" in config:
        return dict(config)
    user_info = f"{unquote(named.username or '')}:{unquote(named.password or '')}"
    return {**config, "url": without_user_info(urls), "basic.auth.user.info": user_info}


def _confluent() -> ModuleType:
    try:
        from confluent_kafka import schema_registry  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(
            f"a schema registry needs packages: pip install 'pystreams-kafka[registry]' ({error})"
        ) from error
    module: ModuleType = schema_registry
    return module
