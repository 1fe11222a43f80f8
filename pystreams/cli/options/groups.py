"""Options that several commands have, declared once.

A group of options reaches its command as one argument: `@application_options` adds `--dev`, `-c`
and `--config`, and the command takes `application: ApplicationOptions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from pystreams.cli.display.logs import FORMATS, LEVELS, is_readable
from pystreams.cli.options.values import pairs

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ApplicationOptions:
    """Which application a command works on, and how it is configured.

    Attributes:
        topology: `FILE`, `FILE:ATTRIBUTE` or `MODULE:ATTRIBUTE`; empty where a command needs none.
        settings: What `-c` said, each as `KEY=VALUE`.
    """

    topology: str = ""
    dev: bool = False
    settings: tuple[str, ...] = ()
    config_file: Path | None = None


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What is logged, and how: `--log-level`, `--log-format`."""

    log_level: str
    log_format: str

    @property
    def is_readable(self) -> bool:
        """Whether lines are for readers, and not JSON."""
        return is_readable(self.log_format)


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where Spark runs, and how: `--master`, `--spark-conf`."""

    master: str | None = None
    spark_conf: tuple[str, ...] = ()

    @property
    def conf(self) -> dict[str, str]:
        """Spark's configuration.

        Raises:
            UsageError: A text of it is not `KEY=VALUE`.
        """
        return pairs(self.spark_conf, "--spark-conf")


def grouped(
    parameter: str, group: type[Any], *options: Callable[[Any], Any]
) -> Callable[[_Command], _Command]:
    """Return a decorator that adds options to a command and hands it their values as one argument.

    Args:
        parameter: What the command calls the argument.
        group: A dataclass whose fields are named as click names the options' values. A field with
            a default may be without an option.
        options: What click makes of each option, in the order of the help.
    """
    names = [field.name for field in fields(group)]

    def add(command: _Command) -> _Command:
        @wraps(command)
        def called(*arguments: Any, **values: Any) -> Any:
            own = {name: values.pop(name) for name in names if name in values}
            return command(*arguments, **values, **{parameter: group(**own)})

        decorated: Any = called
        for option in reversed(options):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]  # click leaves what it decorates

    return add


def complete_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete a file's name: what it does for commands it knows nothing of."""
    return [CompletionItem(incomplete, type="file")]


topology_argument = click.argument(
    "topology", metavar="FILE|MODULE:ATTRIBUTE", shell_complete=complete_file
)

config_file_option = click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Read configuration from a file: TOML, or Java properties.",
)

_setting_option = click.option(
    "-c", "settings", multiple=True, metavar="KEY=VALUE", help="Set a configuration key."
)

application_options = grouped(
    "application",
    ApplicationOptions,
    click.option("--dev", is_flag=True, help="Use the development broker; see `pystreams run`."),
    _setting_option,
    config_file_option,
)

configuration_options = grouped(
    "application", ApplicationOptions, _setting_option, config_file_option
)
"""For commands that ask no broker."""

spark_options = grouped(
    "spark",
    SparkOptions,
    click.option("--master", metavar="URL", help="Spark's master. Default: all cores here."),
    click.option(
        "--spark-conf", multiple=True, metavar="KEY=VALUE", help="Configuration of Spark."
    ),
)

connector_option = click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of Spark's Kafka reader, such as kafka.fetch.max.bytes=1000000.",
)


def log_options(format_help: str = "As in run.") -> Callable[[_Command], _Command]:
    """Return the decorator that adds the options of the log."""
    return grouped(
        "log",
        LogOptions,
        click.option(
            "--log-level",
            type=click.Choice(LEVELS),
            default="info",
            show_default=True,
            help="Least level.",
        ),
        click.option(
            "--log-format",
            type=click.Choice(FORMATS),
            default="auto",
            show_default=True,
            help=format_help,
        ),
    )
