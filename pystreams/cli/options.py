"""Options that several commands have, declared once: decorators for click's commands."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pystreams.cli.logs import FORMATS, LEVELS

_KEY = re.compile(r"[^\s:=]+")

_Command = TypeVar("_Command", bound=Callable[..., Any])

config_file_option = click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Read configuration from a file: TOML, or Java properties.",
)

connector_option = click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of Spark's Kafka reader, such as kafka.security.protocol=SASL_SSL.",
)


def pair_of(text: str, option: str) -> tuple[str, str]:
    """Return key and value of a `KEY=VALUE` text.

    Raises:
        UsageError: It is none. The message does not repeat what may be its value, and a secret.
    """
    key, equals, value = text.partition("=")
    if equals and _KEY.fullmatch(key.strip()):
        return key.strip(), value
    begun = _KEY.match(text)
    shown = f"{begun[0]} ..." if begun and begun[0] != text else "..."
    raise click.UsageError(f"{option} {shown}: write KEY=VALUE")


def application_options(command: _Command) -> _Command:
    """Add the options that configure an application that another command works on."""
    dev = click.option(
        "--dev", is_flag=True, help="Use the development broker; see `pystreams run`."
    )
    settings = click.option(
        "-c", "settings", multiple=True, metavar="KEY=VALUE", help="Set a configuration key."
    )
    return dev(settings(config_file_option(command)))


def spark_options(command: _Command) -> _Command:
    """Add the options that say where Spark runs."""
    conf = click.option(
        "--spark-conf", multiple=True, metavar="KEY=VALUE", help="Configuration of Spark."
    )
    master = click.option(
        "--master", metavar="URL", help="Spark's master. Default: all cores here."
    )
    return master(conf(command))


def log_options(format_help: str = "As in run.") -> Callable[[_Command], _Command]:
    """Return what adds the options of the log.

    Args:
        format_help: What `--log-format` means to the command.
    """
    level = click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        default="info",
        show_default=True,
        help="Least level.",
    )
    form = click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        default="auto",
        show_default=True,
        help=format_help,
    )

    def add(command: _Command) -> _Command:
        return level(form(command))

    return add
