"""`pystreams new`: a first application, to begin with."""

from __future__ import annotations

import re
import shlex
from importlib.resources import files
from pathlib import Path
from string import Template

import click

from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.errors import StreamsError
from pystreams.kernel.installed_version import installed_version

_TEMPLATES = files("pystreams.cli.application") / "first_application"
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,199}")
_SUFFIX = ".txt"
_TEST = "test_application.py"


@click.command()
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where the files go: a directory that does not exist, or is empty. Default: ./NAME.",
)
def new(name: str, *, directory: Path | None) -> None:
    """Write a first application: a topology that counts words, its test, its configuration.

    NAME becomes its application.id, and the beginning of the names of its topics.

    \b
    Exit codes:
      0    done
      1    the directory is not empty, or can't be written
      2    wrong usage: a name that Kafka would refuse
      70   a bug in pystreams

    \b
    Example:
      pystreams new words
      cd words
      pystreams run topology.py --dev
    """
    if not _NAME.fullmatch(name):
        raise click.UsageError(
            f"{name!r} can't be an application.id: begin with a letter or a digit, go on with "
            "letters, digits, '.', '_' and '-'; at most 200 characters"
        )
    place = directory or Path(name)
    with streams_errors_as_exit_codes():
        written = _write(place, name)
    click.echo(f"Created {place}: {', '.join(written)}\n")
    click.echo(f"  cd {shlex.quote(str(place))}\n  pystreams run topology.py --dev\n")
    click.echo("and in another terminal, there:\n")
    click.echo(f"  pystreams produce topology.py {name}-lines --dev --from-file lines.txt")


def _write(place: Path, name: str) -> list[str]:
    """Write the files; return their names.

    Raises:
        StreamsError: The directory is not empty, or can't be written.
    """
    try:
        place.mkdir(parents=True, exist_ok=True)
        if any(place.iterdir()):
            raise StreamsError(f"{place} is not empty: choose another name, or --directory")
        # pytest takes no two files of one name, as applications side by side would have.
        test = f"test_{re.sub('[.-]', '_', name)}.py"
        values = {"name": name, "test": test, "version": installed_version()}
        templates = {
            entry.name.removesuffix(_SUFFIX): entry.read_text("utf-8")
            for entry in _TEMPLATES.iterdir()
            if entry.name.endswith(_SUFFIX)
        }
        templates[test] = templates.pop(_TEST)
        for file, text in templates.items():
            (place / file).write_text(Template(text).substitute(values), "utf-8")
    except OSError as error:
        raise StreamsError(f"{place} can't be written: {error.strerror or error}") from error
    return sorted(templates)
