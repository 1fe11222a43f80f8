"""`--where EXPR`: a Python expression about a dead letter."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any

import click

from pystreams.errors import StreamsError
from pystreams.exception_texts import named_exception

if TYPE_CHECKING:
    from pystreams.record import ConsumedMessage

NAMES = (
    "topic, partition, offset, exception, message, attempt, key, value, data, headers, "
    "all_headers, timestamp"
)


@dataclass(frozen=True, slots=True)
class LetterCondition:
    """An expression that says of a letter whether it is meant."""

    text: str
    code: CodeType

    def holds(self, letter: ConsumedMessage, cause: dict[str, str]) -> bool:
        """Return whether a letter is meant.

        Raises:
            StreamsError: The expression raised; says with which letter.
        """
        names = {"__builtins__": builtins} | _names(letter, cause)
        try:
            return bool(eval(self.code, names))  # noqa: S307 - of whoever runs the command
        except (Exception, SystemExit) as error:  # `exit()` would end the command in silence.
            raise StreamsError(
                f"--where {self.text!r} raised {named_exception(error)}; on the letter at "
                f"partition {letter.partition()} offset {letter.offset()} of the queue. Let it "
                "answer for each letter, as in: data and data['total'] > 3"
            ) from error


def condition_of(_: click.Context, __: click.Parameter, text: str | None) -> LetterCondition | None:
    """Return the condition that an option gives; None without the option.

    Raises:
        click.BadParameter: It is no expression, or names what no letter has.
    """
    if text is None:
        return None
    try:
        code = compile(text, "--where", "eval")
    except SyntaxError as error:
        raise click.BadParameter(f"no Python expression: {error.msg}") from None
    known = {*NAMES.split(", "), *vars(builtins)}
    for name in code.co_names:
        if name not in known and f".{name}" not in text:
            raise click.BadParameter(f"there is no {name!r}: a letter has {NAMES}")
    return LetterCondition(text, code)


def _names(letter: ConsumedMessage, cause: dict[str, str]) -> dict[str, Any]:
    from pystreams.runtime.maintenance.redrive import redrive_attempts

    return {
        "topic": cause["topic"],
        "partition": _number(cause.get("partition")),
        "offset": _number(cause.get("offset")),
        "exception": cause["exception"],
        "message": cause.get("message", ""),
        "attempt": redrive_attempts(letter),
        "key": text_of_bytes(letter.key()),
        "value": text_of_bytes(letter.value()),
        "data": _data(letter.value()),
        "headers": dict(header_pairs(letter)),
        "all_headers": header_pairs(letter),
        "timestamp": letter.timestamp()[1],
    }


def _number(text: str | None) -> int:
    """Return the number that a header tells; -1 if it tells none."""
    try:
        return -1 if text is None else int(text)
    except ValueError:
        return -1


def _data(value: bytes | None) -> Any:
    """Return what a value says as JSON; None if it is none."""
    import orjson

    try:
        return None if value is None else orjson.loads(value)
    except orjson.JSONDecodeError:
        return None


def header_pairs(letter: ConsumedMessage) -> list[tuple[str, str | None]]:
    """Return a letter's headers in their order; several may have one name."""
    return [(name, text_of_bytes(data)) for name, data in letter.headers() or ()]


def text_of_bytes(data: bytes | None) -> str | None:
    """Return bytes as a text, with \\xNN for what is not UTF-8."""
    return None if data is None else data.decode(errors="backslashreplace")
