"""What to say of a function that returned something else than its operation asks for.

Operations take what they are given, and ask here once that has failed; the function is not called
again. Beforehand only results are looked at that are no tuples where a pair is asked for: text of
two letters and a dict of two fields can be taken apart, too.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from typing import Any

from pystreams.exception_texts import exception_text
from pystreams.kernel.async_functions import COROUTINES, told_coroutine
from pystreams.kernel.user_tracebacks import has_users_line

_PAIR = "a pair (key, value)"
_NO_LISTS = (str, bytes, bytearray, dict, set, frozenset)
"""Whose items are no results, or in no order."""


def as_pair(returned: Any) -> Any:
    """Return a result that is to be taken apart as a pair.

    Raises:
        TypeError: It has no first and second, whatever its length.
    """
    if isinstance(returned, _NO_LISTS):
        raise TypeError(f"{_told(returned)} is no pair")
    return returned


def wrong_result(returned: Any, wanted: str, more: str = "") -> TypeError:
    """Return the error of a function that returned what its operation can't take."""
    return TypeError(f"its function must return {wanted}, and returned {_told(returned)}{more}")


def is_iterable(returned: Any) -> bool:
    """Return whether values can be taken from a result, one after the other."""
    try:
        iter(returned)
    except TypeError:
        return False
    return True


def is_in_order(returned: Any) -> bool:
    """Return whether a result is iterable and its items are results in an order of their own."""
    return not isinstance(returned, _NO_LISTS) and is_iterable(returned)


def no_pair(error: Exception, returned: Any, wanted: str = _PAIR) -> Exception:
    """Return what is wrong with a result that should have been a pair; the error itself if it is.

    Args:
        error: What taking it apart raised, or the function itself.
        wanted: What it should have been.
    """
    return error if _is_pair(returned) else wrong_result(returned, wanted)


def no_pairs(error: Exception, returned: Any) -> Exception:
    """Return what is wrong with a result that should have been pairs, one after the other."""
    wanted = "an iterable of pairs (key, value)"
    if not is_iterable(returned):
        return wrong_result(returned, wanted)
    if isinstance(returned, Iterator):  # What it gave is gone.
        more = f": {exception_text(error)}"
        return error if has_users_line(error) else wrong_result(returned, wanted, more)
    wrong = [item for item in returned if not _is_pair(item)]
    return wrong_result(wrong[0], wanted, " among them") if wrong else error


def no_values(error: Exception, returned: Any) -> Exception:
    """Return what is wrong with a result that should have been values, one after the other."""
    return error if is_iterable(returned) else wrong_result(returned, "an iterable of values")


def _is_pair(returned: Any) -> bool:
    try:
        _, _ = as_pair(returned)
    except (TypeError, ValueError):
        return False
    return True


def _told(returned: Any) -> str:
    if isinstance(returned, COROUTINES):
        return told_coroutine(returned)
    return f"{reprlib.repr(returned)} of type {type(returned).__name__}"
