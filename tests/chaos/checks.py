"""Outputs and stores beside the model: each check returns what differs, as lines of text.

Under exactly-once the outputs are exactly the model's. At-least-once may repeat what it has done,
and counts what it repeats: there each click, pair and row must be found, and no count be too low.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tests.chaos.application import NOTHING, first, second
from tests.chaos.model import Model, Record, Topics, by_key

Stores = Mapping[str, Mapping[str, str]]
"""What each store holds, by key; windows with their starts, versions with a time behind the key."""


def differences(model: Model, outputs: Topics, *, exactly_once: bool) -> list[str]:
    """Return all differences of the outputs."""
    check = _EXACT if exactly_once else _AT_LEAST
    return [
        f"{output}: {line}"
        for output, found in outputs.items()
        for line in check[output](model, found)
    ]


def differences_of_stores(model: Model, stores: Stores, *, exactly_once: bool) -> list[str]:
    """Return all differences of the stores."""
    lines = []
    tables = {store: model.table(store) for store in ("users", "orders", "products")}
    tables["tariffs"] = {
        f"{user} at {time}": tariff for (user, time), tariff in model.versions.items()
    }
    for store, rows in tables.items():
        lines += [f"store {store}: {line}" for line in _rows(rows, stores[store])]
    counts = {
        "pages": {
            page: sum(map(len, users.values())) for page, users in model.clicks_of_pages.items()
        },
        "windows": model.windows,
    }
    for store, wanted in counts.items():
        found = {key: int(first(value)) for key, value in stores[store].items()}
        lines += [
            f"store {store}: {key}: {found.get(key)} where {wanted.get(key)} is right"
            for key in sorted(wanted.keys() | found.keys())
            if not _right(found.get(key), wanted.get(key), exactly_once=exactly_once)
        ]
    return lines


def differences_of_input(model: Model, acknowledged: Mapping[str, int]) -> list[str]:
    """Return where the brokers themselves have lost or repeated what they took."""
    lines = []
    for topic, records in model.inputs.items():
        values = [record.value for record in records]
        if len(values) != acknowledged[topic] or len(set(values)) != len(values):
            taken = f"{acknowledged[topic]} records were acknowledged"
            lines.append(f"{topic}: {taken}, {len(values)} are there, {len(set(values))} different")
    return lines


def _right(found: int | None, wanted: int | None, *, exactly_once: bool) -> bool:
    if exactly_once or found is None or wanted is None:
        return found == wanted
    return found >= wanted


def _rows(wanted: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(wanted.keys() | found.keys()):
        if wanted.get(key) != found.get(key):
            yield f"{key}: {found.get(key)!r} where {wanted.get(key)!r} is right"


# ------------------------------------------------------------------ exactly once


def _pages(model: Model, found: Sequence[Record]) -> Iterator[str]:
    """Counts go up by one; each click is counted once, those of a user in their order."""
    wanted = model.clicks_of_pages
    pages = by_key(found)
    for page in sorted(wanted.keys() | pages.keys()):
        records = pages.get(page, [])
        counts = [int(first(record.value)) for record in records]
        yield from _sequence(page, counts, list(range(1, len(counts) + 1)))
        user_of = {click: user for user, clicks in wanted.get(page, {}).items() for click in clicks}
        counted: dict[str, list[str]] = {}
        for record in records:
            click = second(record.value)
            counted.setdefault(user_of.get(click, "nobody"), []).append(click)
        for user, clicks in wanted.get(page, {}).items():
            yield from _sequence(f"{page} of {user}", counted.pop(user, []), clicks)
        yield from (f"{page}: clicks of {user}: {clicks}" for user, clicks in counted.items())


def _windows(model: Model, found: Sequence[Record]) -> Iterator[str]:
    windows = by_key(found)
    for window in sorted(model.windows.keys() | windows.keys()):
        counts = [record.value for record in windows.get(window, [])]
        yield from _sequence(window, counts, [f"{n + 1}" for n in range(model.windows[window])])


def _pairs(model: Model, found: Sequence[Record]) -> Iterator[str]:
    pairs = Counter((record.key, record.value) for record in found)
    for pair in sorted(model.pairs | pairs.keys()):
        if pairs[pair] != (pair in model.pairs):
            yield f"{pair} {pairs[pair]} times where {int(pair in model.pairs)} is right"


def _joined(topic: str) -> Callable[[Model, Sequence[Record]], Iterator[str]]:
    def check(model: Model, found: Sequence[Record]) -> Iterator[str]:
        results = by_key(found)
        for user in sorted(model.clicks().keys() | results.keys()):
            clicks = model.clicks().get(user, ())
            wanted = [first(click.value) for click in clicks]
            joined = results.get(user, [])
            yield from _sequence(user, [first(record.value) for record in joined], wanted)
            yield from _rows_met(model, topic, user, joined)

    return check


def _rows_met(model: Model, topic: str, user: str, joined: Sequence[Record]) -> Iterator[str]:
    """A row is one that the table has had, none older than the one before."""
    history = model.history(topic, user)
    turn = {
        row.value: (row.time, row.offset) if topic == "tariffs" else (row.offset, 0)
        for row in history
    }
    stays = len(history) == 1 and int(user.split()[1]) % 2 == 0
    before = (-1, -1)
    for record in joined:
        row = second(record.value)
        met = (-1, -1) if row == NOTHING else turn.get(row)
        if met is None:
            yield f"{user}: {record.value!r}: there was no such row"
        elif stays and row == NOTHING:
            yield f"{user}: {record.value!r}: the row was there"
        elif topic == "users" and met < before:
            yield f"{user}: {record.value!r}: a newer row was met before"
        elif topic == "tariffs" and met[0] > record.time:
            yield f"{user}: {record.value!r} at {record.time}: of the future"
        else:
            before = met


def _sold(model: Model, found: Sequence[Record]) -> Iterator[str]:
    """The last rows are the model's; on the way each row is of what both tables have had."""
    results = by_key(found)
    last = {key: records[-1].value for key, records in results.items()}
    yield from _rows(model.sold, {key: value for key, value in last.items() if value})
    turns = {(row.key, row.value): row.offset for row in model.inputs["products"]}
    for order, records in results.items():
        turn = {row.value: row.offset for row in model.history("orders", order)}
        before = -1
        before_of_product: dict[str, int] = {}
        for record in records:
            if not record.value:
                continue  # Its order names a product of which there is no row.
            row, _, product_row = record.value.rpartition(" ")
            product = second(row)
            if row not in turn or (product, product_row) not in turns:
                yield f"{order}: {record.value!r}: there were no such rows"
                continue
            met = turns[product, product_row]
            if turn[row] < before or met < before_of_product.get(product, -1):
                yield f"{order}: {record.value!r}: a newer row was met before"
            before, before_of_product[product] = turn[row], met


def _sequence(what: str, found: Sequence[object], wanted: Sequence[object]) -> Iterator[str]:
    if list(found) == list(wanted):
        return
    missing, repeated = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    at = next(
        (at for at, pair in enumerate(zip(found, wanted, strict=False)) if pair[0] != pair[1]),
        min(len(found), len(wanted)),
    )
    yield (
        f"{what}: {len(found)} where {len(wanted)} are right; at {at}: {list(found[at : at + 4])} "
        f"for {list(wanted[at : at + 4])}; missing {_some(missing)}, too many {_some(repeated)}"
    )


def _some(counted: Counter[object]) -> str:
    return f"{sum(counted.values())} {list(counted)[:5]}"


_EXACT = {
    "pages": _pages,
    "windows": _windows,
    "pairs": _pairs,
    "greeted": _joined("users"),
    "priced": _joined("tariffs"),
    "sold": _sold,
}


# ------------------------------------------------------------------ at least once


def _covered(what: str, wanted: Iterable[object], found: Iterable[object]) -> Iterator[str]:
    wanted, found = set(wanted), set(found)
    if wanted != found:
        yield (
            f"{what}: {len(wanted - found)} lost: {list(wanted - found)[:5]}, "
            f"{len(found - wanted)} of nothing: {list(found - wanted)[:5]}"
        )


def _clicks_lost(
    model: Model, found: Sequence[Record], click: Callable[[str], str]
) -> Iterator[str]:
    wanted = (first(record.value) for record in model.inputs["clicks"])
    yield from _covered("clicks", wanted, (click(record.value) for record in found))


def _windows_at_least(model: Model, found: Sequence[Record]) -> Iterator[str]:
    highest: Counter[str] = Counter()
    for record in found:
        highest[record.key] = max(highest[record.key], int(record.value))
    for window in sorted(model.windows.keys() | highest.keys()):
        if highest[window] < model.windows[window] or window not in model.windows:
            yield f"{window}: {highest[window]} where {model.windows[window]} is the least"


def _pairs_at_least(model: Model, found: Sequence[Record]) -> Iterator[str]:
    yield from _covered("pairs", model.pairs, ((record.key, record.value) for record in found))


def _sold_at_least(model: Model, found: Sequence[Record]) -> Iterator[str]:
    told = {(record.key, record.value) for record in found}
    yield from (f"{row} was never sent" for row in model.sold.items() if row not in told)


_AT_LEAST: Mapping[str, Callable[[Model, Sequence[Record]], Iterator[str]]] = {
    "pages": lambda model, found: _clicks_lost(model, found, second),
    "windows": _windows_at_least,
    "pairs": _pairs_at_least,
    "greeted": lambda model, found: _clicks_lost(model, found, first),
    "priced": lambda model, found: _clicks_lost(model, found, first),
    "sold": _sold_at_least,
}
