"""Configuration from files and the environment: TOML, Java properties, `PYSTREAMS_...`.

This only reads; `StreamsConfig` checks. The command line uses both; a program may call
`read_config_file` and pass the result to `StreamsConfig.of`.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pystreams.config.known_keys import (
    ALIASES,
    MEANT,
    PREFIXES,
    SHARED_KEYS,
    SHARED_PREFIXES,
    UNSUPPORTED,
    UNSUPPORTED_PREFIXES,
    WITHOUT_EFFECT,
)
from pystreams.config.streams_config import KEY_DEFINITIONS
from pystreams.errors import ConfigError

ENVIRONMENT_PREFIX = "PYSTREAMS_"

_NEAR = 0.85
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_PROPERTY = re.compile(r"((?:\\.|[^\\:=\s])+)\s*[:=]?\s*(.*)", re.DOTALL)


def read_config_file(path: Path) -> dict[str, Any]:
    """Read a file of configuration: TOML when it ends in `.toml`, else Java properties.

    In TOML, dotted keys and tables both work: `commit.interval.ms = 100`, or a table `[consumer]`.

    Raises:
        ConfigError: The file can't be read, or its form is wrong. Names the file and the line.
    """
    try:
        content = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"configuration file {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"configuration file {path} is not UTF-8 text ({error})") from error
    if path.suffix == ".toml":
        try:
            return tomllib.loads(content)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"configuration file {path} is not TOML: {error}") from error
    return dict(parse_properties(content))


def parse_properties(content: str) -> Iterator[tuple[str, str]]:
    """Yield keys and values of a Java properties file, in order.

    Knows comments (`#`, `!`), separators (`=`, `:`, space), escapes and lines continued with a
    backslash.
    """
    for line in _logical_lines(content.splitlines()):
        match = _PROPERTY.fullmatch(line)
        if match is not None:
            yield _unescaped(match[1]), _unescaped(match[2]).strip()


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration in variables such as `PYSTREAMS_COMMIT_INTERVAL_MS`.

    A variable is taken when its name is a key in capitals with underscores for dots, or begins
    with a client's prefix (`PYSTREAMS_CONSUMER_FETCH_MIN_BYTES`). One that is nearly a key is
    refused. Others are left alone: Kubernetes sets `PYSTREAMS_PORT` and the like by itself for a
    service of that name, and pystreams has variables that are no configuration.

    Raises:
        ConfigError: A variable looks like a misspelt key.
    """
    known = _names_by_variable()
    prefixes = tuple(_variable(prefix) for prefix in (*PREFIXES, *UNSUPPORTED_PREFIXES))
    shared = tuple(_variable(prefix) for prefix in SHARED_PREFIXES)
    found: dict[str, str] = {}
    for variable, value in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        if variable in known:
            found[known[variable]] = value
        elif variable.startswith((*prefixes, *shared)):
            found[variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")] = value
        elif (meant := _meant_by(variable, known)) is not None:
            raise ConfigError(
                f"environment variable {variable} is no configuration key; did you mean {meant}?"
            )
    return found


def _meant_by(variable: str, known: Iterable[str]) -> str | None:
    """Return the variable that a misspelt one may stand for, if one is near."""
    meant = {_variable(name): _variable(key) for name, key in MEANT.items()}
    meant |= {name: name for name in known}
    near = difflib.get_close_matches(variable, meant, n=1, cutoff=_NEAR)
    return meant[near[0]] if near else None


def _names_by_variable() -> dict[str, str]:
    """Return every key that can be set, by the name of its variable."""
    names = [definition.name for definition in KEY_DEFINITIONS]
    names += [*ALIASES, *UNSUPPORTED, *WITHOUT_EFFECT, *SHARED_KEYS]
    return {_variable(name): name for name in names}


def _variable(name: str) -> str:
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "_")


def _logical_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without comments and blanks, with continued ones joined."""
    pending = ""
    for raw in lines:
        line = raw.lstrip()
        if not pending and (not line or line[0] in "#!"):
            continue
        # An odd number of backslashes at the end: the last one is not itself escaped.
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2 == 1:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _unescaped(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escape = match[1]
        if escape[0] == "u" and len(escape) > 1:
            return chr(int(escape[1:], 16))
        return _ESCAPES.get(escape, escape)

    return _ESCAPE.sub(replace, text)
