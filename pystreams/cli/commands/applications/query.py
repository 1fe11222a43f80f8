"""`pystreams query`: what a running application's stores hold."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pystreams.cli.errors import CommandFailure, streams_errors_as_exit_codes
from pystreams.cli.exit_codes import ExitCode
from pystreams.cli.options.http import token_in
from pystreams.cli.options.negative_numbers import CommandOfKeys
from pystreams.cli.options.times import time_ms
from pystreams.errors import StreamsError
from pystreams.kernel.clock import SystemClock

if TYPE_CHECKING:
    from pystreams.client import Client, HttpQueryError

_TIMES = frozenset({"as_of", "time_from", "time_to"})
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_LATER = frozenset((408, 429, 502, 503, 504))
"""HTTP statuses of who has no answer yet, proxies before the application included."""


@click.command(cls=CommandOfKeys)
@click.argument("url")
@click.argument("store")
@click.argument("key", required=False)
@click.option("--from", "lower", metavar="KEY", help="The first key of a range.")
@click.option("--to", "upper", metavar="KEY", help="The last key of a range.")
@click.option(
    "--as-of", metavar="TIME", help="A version's: ISO 8601, epoch ms, or how long ago: 90s, 1h, 2d."
)
@click.option("--time-from", metavar="TIME", help="The first start of a window, likewise.")
@click.option("--time-to", metavar="TIME", help="The last start of a window, likewise.")
@click.option("--limit", type=int, help="How many entries of each partition are printed at most.")
@click.option("--isolation", help="read_committed or read_uncommitted.")
@click.option("--token-file", type=_FILE, metavar="FILE", help="The token that URL asks for.")
@click.option(
    "--tls-ca",
    type=_FILE,
    metavar="FILE",
    help="Certificates (PEM) to trust beside the system's.",
)
def query(
    url: str,
    store: str,
    key: str | None,
    lower: str | None,
    upper: str | None,
    token_file: Path | None,
    tls_ca: Path | None,
    **asked: Any,
) -> None:
    """Ask the application served at URL (`run --http`) what STORE has of KEY, or of a range.

    Each entry is a line of JSON. Any process of the application answers for all of them. Keys that
    are bytes and no text are given as they are shown: {"base64": "..."}. A KEY that begins with -
    and is no number comes last, behind --.

    \b
    Exit codes:
      0    printed; a range may have nothing in it
      1    failed: the store can't be read, a range has more than is given, or what answers
           at URL is no application of pystreams
      2    wrong usage; or refused: no such store, not what it can be asked, the token,
           a certificate that is not trusted
      3    nobody answers at URL, or the application is not ready: ask again
      4    the store has no such key
      70   a bug in pystreams

    \b
    Examples:
      pystreams query http://127.0.0.1:8080 counts alice
      pystreams query http://127.0.0.1:8080 counts --from a --to f --limit 10
    """
    token = None if token_file is None else token_in(token_file, "--token-file")
    tls = None if tls_ca is None else _trusting(tls_ca)
    if key is not None and (lower is not None or upper is not None):
        raise click.UsageError("give a KEY, or --from and --to")
    given = {name: value for name, value in asked.items() if value is not None}
    now_ms = SystemClock().now_ms()
    for name in _TIMES & given.keys():
        given[name] = time_ms(given[name], f"--{name.replace('_', '-')}", now_ms)
    with streams_errors_as_exit_codes(), _refusals_as_exit_codes():
        with _client(url, token, tls) as client:
            if key is None:
                _print_range(client, store, {"from": lower, "to": upper, **given})
                return
            found = client.get(store, key, **given)
        if found is None:
            missing = StreamsError(f"store {store!r} has no key {key!r}")
            raise CommandFailure(missing, ExitCode.NO_SUCH_KEY)
        click.echo(json.dumps(found))


def _client(url: str, token: str | None, tls: ssl.SSLContext | None) -> Client:
    from pystreams.client import Client, HttpQueryError

    try:
        return Client(url, token=token, tls=tls)
    except HttpQueryError as error:
        raise CommandFailure(error, ExitCode.USAGE) from error


@contextmanager
def _refusals_as_exit_codes() -> Iterator[None]:
    """End the command when an application has not answered, with a code that says why."""
    from pystreams.client import HttpQueryError

    try:
        yield
    except HttpQueryError as error:
        raise CommandFailure(error, _code_of(error)) from error


def _code_of(error: HttpQueryError) -> ExitCode:
    cause = error.__cause__
    if error.status in _LATER:
        return ExitCode.NOT_RUNNING
    if 300 <= error.status < 500 or isinstance(cause, ssl.SSLError):
        return ExitCode.USAGE
    if isinstance(cause, OSError | http.client.IncompleteRead):
        return ExitCode.NOT_RUNNING
    return ExitCode.FAILED


def _print_range(client: Client, store: str, asked: dict[str, Any]) -> None:
    """Print the entries of a range, and say on standard error where a limit has cut them.

    Raises:
        StreamsError: There is more, behind all that can be given.
    """
    from pystreams.client import cut_short, in_partitions

    cut = []
    for page in client.range_pages(store, **asked):
        for entry in page["entries"]:
            click.echo(json.dumps({**entry, "partition": page["partition"]}))
        if page["more"]:
            cut.append(page["partition"])
    if not cut:
        return
    if "limit" not in asked:
        raise StreamsError(cut_short(store, cut))
    click.echo(
        f"there are more{in_partitions(cut)}: --limit {asked['limit']} was reached", err=True
    )


def _trusting(certificates: Path) -> ssl.SSLContext:
    trusting = ssl.create_default_context()
    try:
        trusting.load_verify_locations(certificates)
    except OSError as error:
        raise click.BadParameter(f"{certificates} has no certificate: {error}") from error
    return trusting
