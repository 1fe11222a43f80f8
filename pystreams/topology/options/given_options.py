"""Options given as an object or as keywords: which of the two, and whether they are right."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

from pystreams.errors import TopologyError
from pystreams.topology.graph.declaration_checks import check_values

AnyOptions = TypeVar("AnyOptions", bound="CheckedOptions")


def options_of(
    kind: type[AnyOptions], given: AnyOptions | None, keywords: Mapping[str, Any], where: str
) -> AnyOptions:
    """Return the options object given, or make one of the keywords.

    Args:
        kind: The class of the options.
        given: The object the caller passed, if any.
        keywords: The keywords the caller passed.
        where: The operation, for error messages.

    Raises:
        TopologyError: Both were given, or a keyword or the object is of the wrong kind.
    """
    if given is not None:
        if not isinstance(given, kind):
            raise TopologyError(f"{where} takes {kind.__name__}(...), not {given!r}")
        if keywords:
            raise TopologyError(
                f"{where}: give options either as keywords ({', '.join(keywords)}) or in "
                f"{kind.__name__}(...), not both"
            )
        return given
    known = [option.name for option in fields(kind)]
    for keyword in keywords:
        if keyword not in known:
            near = difflib.get_close_matches(keyword, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}"
            raise TopologyError(f"{where} has no option {keyword}: {hint}")
    return kind(**keywords)


class CheckedOptions:
    """The base of options: a dataclass whose values are looked at when it is made."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __post_init__(self) -> None:
        """Refuse values that would only fail when the first record arrives."""
        values = {option.name: getattr(self, option.name) for option in fields(self)}
        check_values(type(self).__name__, **values)
