"""The functions of all generated cases, by name: those of `Functions.java`, one for one.

They work on the text of a key or value, so that each fits each type; texts stay short, however
often they are put together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystreams import Windowed

LONGEST = 16


def text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Windowed):
        return f"{text(value.key)}@{value.window.start}/{value.window.end}"
    return str(value)


def tail(words: str) -> str:
    """Return the end of a text, if it is long."""
    return words[-LONGEST:]


def weight(value: Any) -> int:
    """Return a number that depends on each character."""
    return sum(map(ord, text(value)))


PREDICATES: dict[str, Callable[[Any, Any], bool]] = {
    "even": lambda _, value: weight(value) % 2 == 0,
    "most": lambda _, value: weight(value) % 5 != 0,
    "some_keys": lambda key, _: weight(key) % 3 != 0,
    "present": lambda _, value: value is not None,
    "all": lambda *_: True,
    "none": lambda *_: False,
}

# Called with (key, value); without its key where only values are mapped.
VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "mark": lambda _, value: tail(text(value) + "!"),
    "with_key": lambda key, value: tail(f"{text(key)}={text(value)}"),
    "erase": lambda _, value: None if weight(value) % 3 == 0 else tail(text(value)),
    "weigh": lambda _, value: weight(value),
    "count_down": lambda _, value: None if weight(value) % 4 == 0 else weight(value) % 7 - 3,
}
LONG_VALUES = ("weigh", "count_down")


def mapper(step: dict[str, Any], known: dict[str, Callable[[Any, Any], Any]]) -> dict[str, Any]:
    """Return the arguments that give a step's mapper, with its key or without."""
    called = known[step["fn"]]
    if step.get("with_key"):
        return {"mapper": called, "with_key": True}
    return {"mapper": lambda value: called(None, value)}


KEYS: dict[str, Callable[[Any, Any], str | None]] = {
    "by_value": lambda _, value: f"k{weight(value) % 3}",
    "by_key": lambda key, _: f"g{weight(key) % 2}",
    "of_rows": lambda _, value: ("a", "b", "ab")[weight(value) % 3],
    "drop_some": lambda key, value: None if weight(value) % 4 == 0 else tail(text(key)),
    "text": lambda key, _: None if key is None else text(key),
}

FLAT_VALUES: dict[str, Callable[[Any, Any], list[Any]]] = {
    "twice": lambda _, value: [tail(text(value) + "a"), tail(text(value) + "b")],
    "copies": lambda key, value: [
        tail(f"{text(key)}{text(value)}{copy}") for copy in range(weight(value) % 3)
    ],
    "with_null": lambda _, value: [None if value is None else tail(text(value)), None, "x"],
}


def pair(name: str) -> Callable[[Any, Any], tuple[str | None, Any]]:
    """Return the function of a pair's name, "key+value"."""
    key_name, value_name = name.split("+")
    return lambda key, value: (KEYS[key_name](key, value), VALUES[value_name](key, value))


def pairs(name: str) -> Callable[[Any, Any], list[tuple[str | None, Any]]]:
    """Return the function of a name, "key+flat values"."""
    key_name, values_name = name.split("+")
    return lambda key, value: [
        (KEYS[key_name](key, each), each) for each in FLAT_VALUES[values_name](key, value)
    ]


INITIALS: dict[str, Callable[[], Any]] = {
    "empty": lambda: "",
    "zero": lambda: 0,
    "null": lambda: None,
}

# Called with (so far, value): reducers, adders, subtractors and mergers.
REDUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "append": lambda so_far, value: tail(f"{text(so_far)}+{text(value)}"),
    "latest": lambda _, value: value,
    "delete": lambda so_far, value: (
        None if weight(value) % 5 == 0 else tail(f"{text(so_far)}*{text(value)}")
    ),
    "larger": lambda so_far, value: so_far if text(so_far) > text(value) else value,
    "remove": lambda so_far, value: tail(f"{text(so_far)}-{text(value)}"),
    "sum": lambda so_far, value: so_far + value,
    "minus": lambda so_far, value: so_far - value,
}

# Called with (key, value, so far).
AGGREGATORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "collect": lambda _, value, so_far: tail(f"{text(so_far)},{text(value)}"),
    "uncollect": lambda _, value, so_far: tail(f"{text(so_far)};{text(value)}"),
    "with_key": lambda key, value, so_far: tail(text(so_far) + text(key) + text(value)),
    "delete": lambda _, value, so_far: (
        None if weight(value) % 4 == 0 else tail(f"{text(so_far)}.{text(value)}")
    ),
    "add": lambda _, value, so_far: so_far + weight(value) % 10,
    "subtract": lambda _, value, so_far: so_far - weight(value) % 10,
}

# Called with (record, highest time of its partition so far): which time a record has.
EXTRACTORS: dict[str, Callable[[Any, int], int]] = {
    "shifted": lambda record, _: record.timestamp + weight(record.value) % 40 - 9,
    "sometimes_the_latest": lambda record, latest_ms: (
        latest_ms if weight(record.value) % 3 == 0 else record.timestamp
    ),
}

# Called with (topic, key, value, number of partitions).
PARTITIONERS: dict[str, Callable[[str, Any, Any, int], Any]] = {
    "first": lambda *_: 0,
    # Records without a key may go anywhere, so in any order.
    "open": lambda _topic, key, _value, _count: None if key and weight(key) % 2 else {0},
    "drop_some": lambda _topic, key, value, _count: (
        set() if (weight(key) + weight(value)) % 3 == 0 else {0}
    ),
}

# Called with (key, left, right); without the key where only values are joined.
JOINERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "both": lambda _, left, right: tail(f"{text(left)}&{text(right)}"),
    "with_key": lambda key, left, right: tail(f"{text(key)}:{text(left)}&{text(right)}"),
    "sometimes": lambda _, left, right: (
        None if (weight(left) + weight(right)) % 4 == 0 else tail(f"{text(right)}<{text(left)}")
    ),
}
