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
        return host.strip("[]") or "127.0.0.1", number

    def token(self) -> str | None:
        """Return the token, without the line's end.

        Raises:
            UsageError: The file is empty.
        """
        if self.http_token_file is None:
            return None
        token = self.http_token_file.read_text(encoding="utf-8").strip()
        if not token:
            raise click.UsageError(f"--http-token-file: {self.http_token_file} is empty")
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
