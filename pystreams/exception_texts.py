"""What exceptions say in messages and logs, those that can't say it among them.

An exception of the user's code may have a `__str__` that raises. Whoever tells of an exception that
may be the user's asks here: its type, the record and the cure must be told all the same.
"""

from __future__ import annotations


def exception_text(error: BaseException) -> str:
    """Return what an exception says; where its `__str__` fails, that."""
    try:
        return str(error)
    except Exception as raised:  # noqa: BLE001 - the user's code may raise anything
        return f"(its __str__ raised {type(raised).__name__})"


def named_exception(error: BaseException) -> str:
    """Return its type and what it says, as `KeyError: 'total'`."""
    return f"{type(error).__name__}: {exception_text(error)}"
