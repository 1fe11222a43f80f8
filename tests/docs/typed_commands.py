"""What is wrong with a command that a page tells its reader to type; nothing of it is run."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator, Sequence

import click

from pystreams.cli.main import pystreams
from tests.docs.blocks import ROOT

_OTHERS = {
    *(
        "bash",
        "cat",
        "cd",
        "curl",
        "docker",
        "eval",
        "export",
        "git",
        "kill",
        "ls",
        "mkdir",
        "nohup",
    ),
    *("helm", "jq", "kind", "kubectl", "keytool", "openssl", "systemctl"),
    *("kafka-acls", "kafka-configs", "kafka-topics", "kafka-transactions.sh", "spark-submit"),
    *("mvn", "nice", "pip", "pytest", "rm", "sleep", "taskset", "test", "uv", "which", "echo"),
    *(
        ".",
        "source",
        "sudo",
        "chmod",
        "cp",
        "mv",
        "head",
        "grep",
        "time",
        "wget",
        "podman",
        "conda",
    ),
}
"""Programs that are not ours: what follows them is not looked at, but for paths of ours."""

_OURS = re.compile(
    r"(\./)?(?P<path>(?:docs|tests|examples|benchmarks|scripts|docker|\.ci)/[\w./-]+)"
)
_SEPARATOR = re.compile(r"[|;&()]+")
_REDIRECTION = re.compile(r"[<>]+")
_PLACEHOLDER = re.compile(r"<[^<>|]*>|\[[^\[\]]*\]|\.\.\.|…")


def problem_of(line: str, *, whole: bool = True) -> str | None:
    """Return what is wrong with a line, if something is.

    Args:
        line: What is typed.
        whole: Whether it is to be typed as it stands; else arguments may be missing.
    """
    return next(_problems(line, whole=whole), None)


def _problems(line: str, *, whole: bool) -> Iterator[str]:
    for found in _OURS.finditer(line):
        path = found["path"].rstrip(".")
        inside = line[: found.start()][-1:] not in {"", " ", "=", "'", '"'}
        if not inside and not _PLACEHOLDER.search(line) and not (ROOT / path).exists():
            yield f"there is no {path}"
    for words in _commands(_PLACEHOLDER.sub("X", line.removesuffix(" ..."))):
        program, *arguments = words
        if program == "pystreams":
            yield from _problems_of_ours(arguments, whole=whole)
        elif program.rpartition("/")[2] in {"python", "python3"}:
            yield from _problems_of_python(arguments)
        elif "/" in program:
            ours = program.startswith((".venv/bin/", "bin/", "/")) or (ROOT / program).exists()
            if not ours:
                yield f"there is no {program}"
        elif program not in _OTHERS:
            yield f"nobody knows {program}: a mistake, or one more for _OTHERS"


def _commands(line: str) -> Iterator[list[str]]:
    reader = shlex.shlex(line, posix=True, punctuation_chars="|;&()<>")
    reader.whitespace_split = True
    words: list[str] = []
    tokens = iter([*reader, ";"])
    for token in tokens:
        if _REDIRECTION.fullmatch(token):
            next(tokens)
        elif not _SEPARATOR.fullmatch(token):
            words.append(token)
            continue
        while words and re.fullmatch(r"\w+=.*", words[0]):
            words.pop(0)
        if words:
            yield words
        words = []


def _problems_of_ours(arguments: Sequence[str], *, whole: bool) -> Iterator[str]:
    command: click.Command = pystreams
    path, rest = "pystreams", list(arguments)
    while isinstance(command, click.Group) and rest:
        name = rest.pop(0)
        if name in {"-h", "--help", "--version"}:
            return
        found = command.get_command(click.Context(command), name)
        if found is None:
            if name.isupper() and not whole:
                return  # `pystreams COMMAND --help`
            yield f"{path} has no command {name}"
            return
        command, path = found, f"{path} {name}"
    if isinstance(command, click.Group):
        if whole:
            yield f"{path} alone does nothing"
        return
    context = click.Context(command)
    try:
        values, left, _ = command.make_parser(context).parse_args(rest)
    except click.NoSuchOption as error:
        yield f"{path}: {error.format_message()}"
        return
    except click.UsageError as error:
        if whole:
            yield f"{path}: {error.format_message()}"
        return
    if whole and left:
        yield f"{path} takes no {' '.join(left)}"
    for parameter in command.params:
        value = values.get(parameter.name or "")
        given = [value] if isinstance(value, str) else list(value or ()) if _many(value) else []
        if isinstance(parameter.type, click.Choice):
            known = set(parameter.type.choices)
            yield from (
                f"{path}: {parameter.name} is none of {sorted(known)}: {word}"
                for word in given
                if word not in known and not word.isupper()
            )
        if whole and parameter.required and not given and not values.get("help"):
            yield f"{path}: {parameter.name} is missing"


def _many(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _problems_of_python(arguments: Sequence[str]) -> Iterator[str]:
    if arguments[:1] == ["-m"] and len(arguments) > 1:
        module = arguments[1]
        try:
            there = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            there = False
        if not there and module not in {"venv", "pytest"}:
            yield f"there is no module {module}"
