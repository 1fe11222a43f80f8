"""`--http` and its kin: where an application shows itself over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from pystreams.cli.options.groups import grouped

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class HttpFlags:
    """Where an application is served over HTTP, and to whom."""

    http: str | None = None
    http_token_file: Path | None = None
    http_tls_cert: Path | None = None
    http_tls_key: Path | None = None

    def address(self, process_number: int | None) -> tuple[str, int] | None:
        """Return host and port of a process, the first one's counted up; None serves nothing.

        Raises:
            UsageError: It is no address, or a file was given without one.
        """
        if self.http is None:
            given = (self.http_token_file, self.http_tls_cert, self.http_tls_key)
            if any(file is not None for file in given):
                raise click.UsageError("--http-token-file and --http-tls-... are for --http")
            return None
        host, colon, port = self.http.rpartition(":")
        if not port.isdecimal() or (colon and not host) or int(port) > PORT_MAX:
            raise click.UsageError(f"--http takes HOST:PORT or PORT, not {self.http!r}")
        number = int(port)
        if number and process_number is not None:
            number += process_number - 1
        if number > PORT_MAX:
            raise click.UsageError(
                f"--http {self.http}: process {process_number} would listen on port {number}, and "
                f"ports end at {PORT_MAX}: give a lower one"
            )
        return host.strip("[]") or "127.0.0.1", number

    def token(self) -> str | None:
        """Return the token, without the line's end.

        Raises:
            UsageError: The file has none.
        """
        if self.http_token_file is None:
            return None
        return token_in(self.http_token_file, "--http-token-file")


def token_in(file: Path, option: str) -> str:
    """Return the token in a file, without the line's end and a byte order mark.

    Args:
        option: What has named the file.

    Raises:
        UsageError: There is none, or none that a request can carry.
    """
    try:
        token = file.read_text(encoding="utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{option}: {file} is no text in UTF-8: {error}") from error
    except OSError as error:
        raise click.UsageError(f"{option}: {file} can't be read: {error}") from error
    if not token:
        raise click.UsageError(f"{option}: {file} is empty")
    if not token.isprintable():
        raise click.UsageError(f"{option}: {file} has more than one line: a token is one")
    return token


http_options = grouped(
    "http",
    HttpFlags,
    click.option(
        "--http",
        metavar="[HOST:]PORT",
        help="Serve health, metrics, state and queries over HTTP, on 127.0.0.1 if no HOST is given;"
        " process n of --processes on PORT + n - 1. Needs pip install 'pystreams-kafka[http]'.",
    ),
    click.option(
        "--http-token-file",
        type=_FILE,
        metavar="FILE",
        help="Answer only requests that carry the token in FILE (`Authorization: Bearer TOKEN`); "
        "/livez and /readyz are for all.",
    ),
    click.option(
        "--http-tls-cert", type=_FILE, metavar="FILE", help="Certificate chain (PEM), for HTTPS."
    ),
    click.option(
        "--http-tls-key",
        type=_FILE,
        metavar="FILE",
        help="Its private key (PEM), if the certificate's file has none.",
    ),
)
