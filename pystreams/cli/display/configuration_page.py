"""The reference page of the configuration, made from the definitions.

`docs/reference/configuration.md` is the output of `reference_page`; write it with
`pystreams config --markdown > docs/reference/configuration.md`. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pystreams.config import KEY_DEFINITIONS, Importance, KeyDefinition
from pystreams.config.known_keys import (
    ALIASES,
    PREFIXES,
    UNSUPPORTED,
    UNSUPPORTED_PREFIXES,
    WITHOUT_EFFECT,
)

LIBRDKAFKA_KEYS = "https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md"
"""Where the client's own keys are described."""

_INTRODUCTION = """\
# Configuration

<!-- Made by `pystreams config --markdown`; don't edit. -->

Keys, meanings and defaults are Kafka Streams'. A value is looked up in this order:

1. the program: `StreamsConfig.of({"commit.interval.ms": 100})`, or keywords with underscores,
   `StreamsConfig.of(commit_interval_ms=100)`; on the command line `pystreams run -c key=value`,
2. the environment, for the commands of `pystreams` only: `PYSTREAMS_COMMIT_INTERVAL_MS=100`,
3. a file, `pystreams run --config FILE`: TOML when it ends in `.toml`, else Java properties,
4. the topology's module: a dict named `config`.

Whole numbers have no unit: milliseconds and bytes are in the key's name. An unknown key or a wrong
value stops the start with one message that lists all of them. A serde or a function can be named in
a file as `module:attribute`."""

_CLIENT_KEYS = f"""\
## Keys for the Kafka clients

A key with one of these prefixes, such as `topic.segment.bytes`, is passed on to librdkafka
([its keys]({LIBRDKAFKA_KEYS})), or to internal topics:
"""

_PASSED_ON = """
`sasl.*` and `ssl.*` need no prefix and go to all clients. Names of the Java clients that librdkafka
spells differently are translated (`consumer.fetch.max.wait.ms`, `producer.max.request.size`, ...).
Keys that correctness depends on can't be overridden: `group.id`, `enable.auto.commit`, the
partition assignment, `partitioner`, `transactional.id`, and under exactly-once `isolation.level`,
`enable.idempotence` and `max.in.flight.requests.per.connection`.

Where nothing is set the clients get: consumers `auto.offset.reset` earliest, `queued.min.messages`
200000 within `queued.max.messages.kbytes` 65536, or an eighth of the thread's part of
`input.buffer.max.bytes` if that is less, with the classic protocol `heartbeat.interval.ms` 500 and
`session.timeout.ms` 42500 (Kafka Streams: 3000 and 45000; either way a process may be silent for
42 s); producers `queue.buffering.max.kbytes`, their part of
`output.buffer.max.bytes`, `linger.ms` 20 (Kafka Streams: 100),
`batch.size` 1 MiB (or what the smallest `max.message.bytes` of the topics they write to is, if that
is less), `acks` all, `delivery.timeout.ms` at least once two heartbeats less than the session
(41500; with the consumer protocol 35000), which is the most it may be (Kafka Streams: 120000), and
under exactly-once `transaction.timeout.ms` 10000, which must not be shorter than
`commit.interval.ms`, nor than `delivery.timeout.ms`."""


def reference_page() -> str:
    """Return the page as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    for importance in Importance:
        yield f"\n## {importance.value.capitalize()} importance\n"
        chosen = [key for key in KEY_DEFINITIONS if key.importance is importance]
        yield from _table(key for key in chosen if not key.client)
        passed_on = [key for key in chosen if key.client]
        if passed_on:
            yield "\nFor the Kafka clients:\n"
            yield from _table(passed_on)
    yield f"\n{_CLIENT_KEYS}"
    yield "| Prefix | For |\n|---|---|"
    yield from (f"| `{prefix}` | {whom} |" for prefix, whom in PREFIXES.items())
    yield _PASSED_ON
    yield "\n## Other names\n"
    yield "| Name | Is |\n|---|---|"
    yield from (f"| `{alias}` | `{name}` |" for alias, name in sorted(ALIASES.items()))
    yield "\n## Keys of Kafka Streams that are not supported\n"
    yield "Refused at the start, except with the value that changes nothing.\n"
    yield "| Key | Accepted | Why |\n|---|---|---|"
    for name, unsupported in sorted(UNSUPPORTED.items()):
        accepted = ", ".join(f"`{value}`" for value in unsupported.accepted if value)
        yield f"| `{name}` | {accepted} | {unsupported.reason} |"
    for prefix, reason in sorted(UNSUPPORTED_PREFIXES.items()):
        yield f"| `{prefix}*` |  | {reason} |"
    yield "\n## Keys of Kafka Streams without effect\n"
    yield "Accepted with any value, and ignored.\n"
    yield "| Key | Why |\n|---|---|"
    yield from (f"| `{name}` | {reason} |" for name, reason in sorted(WITHOUT_EFFECT.items()))
    yield ""


def _table(keys: Iterable[KeyDefinition]) -> Iterator[str]:
    yield "| Key | Type | Default | Meaning |\n|---|---|---|---|"
    for key in sorted(keys, key=lambda key: (not key.required, key.name)):
        kind = f"{key.kind.name}: {key.kind.valid}" if key.kind.valid else key.kind.name
        default = key.default_in_words().replace("<", "&lt;")
        yield f"| `{key.name}` | {_cell(kind)} | {_cell(default)} | {_cell(key.doc)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
