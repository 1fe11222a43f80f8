"""`pystreams config`: every configuration key, or one of them."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem

from pystreams.cli.display.configuration_page import LIBRDKAFKA_KEYS, reference_page
from pystreams.config import KEY_DEFINITIONS, Importance, KeyDefinition
from pystreams.config.client_overrides import is_shared, override_problem, translated, why_never
from pystreams.config.known_keys import (
    ALIASES,
    MEANT,
    PREFIXES,
    UNSUPPORTED,
    UNSUPPORTED_PREFIXES,
    WITHOUT_EFFECT,
)

_NARROWEST = 130
"""Columns: on a narrower terminal the table would leave the meanings a word a line."""
_LEAST = 30
_STYLES = {Importance.HIGH: "bold", Importance.MEDIUM: "", Importance.LOW: "dim"}
_KNOWN = {*(key.name for key in KEY_DEFINITIONS), *ALIASES, *UNSUPPORTED, *WITHOUT_EFFECT}

_ANY_VALUE = "-1"
"""A number, and among the values of each key that is checked."""


def _names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(_KNOWN) if name.startswith(incomplete)]


@click.command()
@click.argument("key", required=False, shell_complete=_names)
@click.option("--markdown", is_flag=True, help="Print the reference page as Markdown.")
def config(key: str | None, *, markdown: bool) -> None:
    """List all configuration keys, or explain KEY.

    Shows type, default, importance and meaning. Set a key with `pystreams run -c KEY=VALUE`, an
    environment variable (PYSTREAMS_COMMIT_INTERVAL_MS=100), or a file (--config). Keys of the Kafka
    clients have a prefix, as consumer.auto.offset.reset: of these it tells to whom they go.
    """
    if markdown:
        click.echo(reference_page(), nl=False)
    elif key is None:
        _print_table()
    else:
        click.echo(_explain(key))


def _print_table() -> None:
    from rich.table import Column

    from pystreams.cli.display.tables import reference_width, show_reference

    columns = [
        Column("Key", no_wrap=True),
        Column("Type", max_width=8),
        Column("Default", max_width=28),
        Column("Importance"),
        Column("Meaning", ratio=1),
    ]
    ranks = list(Importance)
    definitions = sorted(KEY_DEFINITIONS, key=lambda key: (ranks.index(key.importance), key.name))
    if reference_width() < _NARROWEST:
        _print_one_below_the_other(definitions, reference_width())
        return
    rows = [
        (key.name, key.kind.name, key.default_in_words(), key.importance.value, key.doc)
        for key in definitions
    ]
    show_reference(columns, rows, styles=[_STYLES[key.importance] for key in definitions])


def _print_one_below_the_other(definitions: Sequence[KeyDefinition], width: int) -> None:
    margin = " " * 4
    for key in definitions:
        default = key.default_in_words().strip("()")
        click.echo(f"{key.name}  {key.kind.name}, {default}")
        click.echo(
            textwrap.fill(
                key.doc,
                max(width, _LEAST),
                initial_indent=margin,
                subsequent_indent=margin,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
        click.echo()


def _explain(key: str) -> str:
    """Return what is known about one key, given in any of its forms."""
    dotted = key.lower().removeprefix("pystreams_").replace("_", ".")
    wanted = next((known for known in (key, dotted) if known in _KNOWN), dotted)
    wanted = ALIASES.get(wanted, wanted)
    for definition in KEY_DEFINITIONS:
        if wanted == definition.name:
            return _details(definition)
    if wanted in UNSUPPORTED:
        return f"{wanted}\n  Not supported: {UNSUPPORTED[wanted].reason}"
    if wanted in WITHOUT_EFFECT:
        return f"{wanted}\n  Accepted without effect: {WITHOUT_EFFECT[wanted]}"
    for prefix, reason in UNSUPPORTED_PREFIXES.items():
        if wanted.startswith(prefix):
            return f"{wanted}\n  Not supported: {reason}"
    if wanted.startswith(tuple(PREFIXES)) or is_shared(wanted):
        return _passed_on(wanted)
    if (refusal := why_never(wanted)) is not None:
        return f"{wanted}\n  Can't be set: {refusal}"
    meant = MEANT | {definition.name: definition.name for definition in KEY_DEFINITIONS}
    close = difflib.get_close_matches(wanted, meant, n=3)
    near = dict.fromkeys(meant[name] for name in close)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `pystreams config` lists all"
    raise click.BadParameter(f"there is no key {key!r}{hint}", param_hint="KEY")


def _passed_on(key: str) -> str:
    """Return what becomes of a key that is none of pystreams' own."""
    problem = override_problem(key, _ANY_VALUE, exactly_once=False)
    if problem is not None:
        return f"{key}\n  {problem[0].upper()}{problem[1:]}"
    prefix = next((prefix for prefix in PREFIXES if key.startswith(prefix)), "")
    [name] = translated({key: _ANY_VALUE}, prefix)
    lines = [key, f"  Passed on to {PREFIXES.get(prefix, 'all clients')}{name and f', as {name}'}."]
    if prefix != "topic.":
        lines.append(f"  The client is librdkafka; its keys: {LIBRDKAFKA_KEYS}")
    problem = override_problem(key, _ANY_VALUE, exactly_once=True)
    if problem is not None:
        lines.append(f"  Under exactly-once it {problem}")
    return "\n".join(lines)


def _details(definition: KeyDefinition) -> str:
    kind = definition.kind
    aliases = [alias for alias, name in ALIASES.items() if name == definition.name]
    lines = [
        definition.name,
        f"  {definition.doc}",
        "",
        f"  Type         {kind.name}{f' ({kind.valid})' if kind.valid else ''}",
        f"  Default      {definition.default_in_words()}",
        f"  Importance   {definition.importance.value}",
        f"  In Python    {definition.field}=...",
        f"  Environment  PYSTREAMS_{definition.field.upper()}",
    ]
    if aliases:
        lines.append(f"  Other names  {', '.join(aliases)}")
    return "\n".join(lines)
