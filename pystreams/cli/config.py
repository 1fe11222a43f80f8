"""`pystreams config`: every configuration key, or one of them."""

from __future__ import annotations

import difflib
import shutil

import click

from pystreams.config import KEY_DEFINITIONS, Importance, KeyDefinition
from pystreams.config.known_keys import ALIASES, UNSUPPORTED, WITHOUT_EFFECT

_WIDTH_WITHOUT_TERMINAL = 160
_STYLES = {Importance.HIGH: "bold", Importance.MEDIUM: "", Importance.LOW: "dim"}
_KNOWN = {*(key.name for key in KEY_DEFINITIONS), *ALIASES, *UNSUPPORTED, *WITHOUT_EFFECT}


@click.command()
@click.argument("key", required=False)
@click.option("--markdown", is_flag=True, help="Print the reference page as Markdown.")
def config(key: str | None, *, markdown: bool) -> None:
    """List all configuration keys, or explain KEY.

    Shows type, default, importance and meaning. Set a key with `pystreams run -c KEY=VALUE`, an
    environment variable (PYSTREAMS_COMMIT_INTERVAL_MS=100), or a file (--config).
    """
    if markdown:
        from pystreams.cli.config_reference import reference_page

        click.echo(reference_page(), nl=False)
    elif key is None:
        _print_table()
    else:
        click.echo(_explain(key))


def _print_table() -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold underline")
    table.add_column("Key", no_wrap=True)
    table.add_column("Type", max_width=8)
    table.add_column("Default", max_width=28)
    table.add_column("Importance")
    table.add_column("Meaning", ratio=1)
    for definition in sorted(KEY_DEFINITIONS, key=_importance_then_name):
        cells = [
            definition.name,
            definition.kind.name,
            definition.default_in_words(),
            definition.importance.value,
            definition.doc,
        ]
        table.add_row(*map(escape, cells), style=_STYLES[definition.importance])
    width = shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 0)).columns
    Console(width=width, highlight=False).print(table)


def _importance_then_name(definition: KeyDefinition) -> tuple[int, str]:
    return list(Importance).index(definition.importance), definition.name


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
    known = [definition.name for definition in KEY_DEFINITIONS]
    near = difflib.get_close_matches(wanted, known, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `pystreams config` lists all"
    raise click.BadParameter(f"there is no key {key!r}{hint}", param_hint="KEY")


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
