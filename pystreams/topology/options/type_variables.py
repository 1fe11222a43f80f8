"""Type variables of the DSL: `KStream[K, V]` and what its operations turn keys and values into.

They default to `Any` for type checkers, so that a stream without serdes is a `KStream[Any, Any]`
and asks for no annotation. Python 3.11 itself knows no such defaults and needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
    K2 = TypeVar("K2", default=Any)
    V2 = TypeVar("V2", default=Any)
    VOther = TypeVar("VOther", default=Any)
    VAgg = TypeVar("VAgg", default=Any)
    # With a default mypy would pass over an initializer that is none.
    VFolded = TypeVar("VFolded")
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    K2 = TypeVar("K2")
    V2 = TypeVar("V2")
    VOther = TypeVar("VOther")
    VAgg = TypeVar("VAgg")
    VFolded = TypeVar("VFolded")

__all__ = ["K2", "V2", "K", "V", "VAgg", "VFolded", "VOther"]
