"""Calls the operations of tables for `build.py`, a step a call."""

from __future__ import annotations

import functools
from typing import Any

from pystreams import KTable, TableJoined
from tests.parity.generated import functions, options
from tests.parity.generated.functions import JOINERS, KEYS, PREDICATES, VALUES
from tests.parity.generated.options import Step


def of_table(step: Step, table: KTable[Any, Any], other: Any) -> Any:
    """Return what a step makes of a table."""
    name: Any = step.get("name")
    kept: Any = options.kept(step.get("materialized"))
    match step["op"]:
        case "filter":
            return table.filter(PREDICATES[step["fn"]], node_name=name, materialized=kept)
        case "filter_not":
            return table.filter_not(PREDICATES[step["fn"]], node_name=name, materialized=kept)
        case "map_values":
            mapper = functions.mapper(step, VALUES)
            return table.map_values(**mapper, node_name=name, materialized=kept)
        case "to_stream":
            key_mapper = KEYS[step["fn"]] if "fn" in step else None
            return table.to_stream(key_mapper, name=name)  # type: ignore[arg-type]
        case "join":
            joiner = functools.partial(JOINERS[step["fn"]], None)
            return _joins(table)[step["kind"]](other, joiner, node_name=name, materialized=kept)
        case "suppress":
            return table.suppress(options.suppressed(step))
    raise AssertionError(f"no operation of a table is called {step['op']}")


def joined_by_foreign_key(
    step: Step, table: KTable[Any, Any], other: Any, joined: TableJoined[Any, Any] | None
) -> Any:
    """Return the join; with keys the foreign key is made of key and value, as Java's is."""
    foreign_key: Any = KEYS[step["foreign_key"]]
    joiner: Any = functools.partial(JOINERS[step["fn"]], None)
    if step.get("with_key"):
        value_joiner = joiner
        joiner = lambda _key, value, other: value_joiner(value, other)  # noqa: E731
    else:
        foreign_key = functools.partial(foreign_key, None)
    return _joins(table)[step["kind"]](
        other,
        joiner,
        foreign_key=foreign_key,
        with_key=step.get("with_key", False),
        table_joined=joined,
        node_name=step.get("name"),
        materialized=options.kept(step.get("materialized")),
    )


def _joins(table: KTable[Any, Any]) -> dict[str, Any]:
    return {"inner": table.join, "left": table.left_join, "outer": table.outer_join}
