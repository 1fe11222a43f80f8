"""What may differ between two stores of one name, one rule each, and what that does.

A rule is called with the facts of both, and gives what it finds. Whether the bytes of the store's
directory fit is asked beside whether those of its changelog do: a start finds out the first by
itself, nobody finds out the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pystreams.deploy.input_rules import inputs, places, required
from pystreams.deploy.operator_facts import Facts, is_global
from pystreams.deploy.serde_rules import ANOTHER_NAME, identity, key_windows, serdes
from pystreams.deploy.verdicts import Finding, Verdict

Rule = Callable[[Facts, Facts], Iterator[Finding]]

_ON_DISK = "rocksDB"
_IN_MEMORY = "in_memory"
_ALIKE_IN_CHANGELOGS = frozenset(("key-value", "expiring key-value", "versioned"))
_KINDS = _ALIKE_IN_CHANGELOGS | {"buffer", "list-value", "session", "suppression-buffer", "window"}
_EXPIRES = frozenset(("key-value", "expiring key-value"))
_SUPPLIERS: dict[tuple[str, bool | None], str] = {
    ("window", True): "persistent_timestamped_window_store",
    ("window", False): "persistent_window_store",
    ("session", False): "persistent_session_store",
    ("versioned", False): "persistent_versioned_key_value_store",
}
"""Of stores in segments, by their kind and whether their values have timestamps."""
_OTHER_ENGINE = (
    "Leave its engine as it was; or let it start empty: `pystreams reset` or `pystreams backfill` "
    "make it anew of the input"
)


def _kind(old: Facts, new: Facts) -> Iterator[Finding]:
    had, has = old["kind"], new["kind"]
    if had == has:
        return
    if not {had, has} <= _KINDS:
        yield Finding(
            Verdict.UNSURE,
            f"it held a {had} store and is to be a {has} store: whether that reads the old rows is "
            "for you to know",
            ANOTHER_NAME,
        )
    elif not {had, has} <= _ALIKE_IN_CHANGELOGS:
        yield Finding(
            Verdict.WRONG,
            f"it held a {had} store and is to be a {has} store, whose keys are made in another "
            f"way: the rows in its changelog would be noise{_as_sessions(had, has)}",
            ANOTHER_NAME,
        )
    elif {had, has} <= _EXPIRES:
        yield from _expiry(old, new)
    elif _on_disk(old, new):
        yield Finding(
            Verdict.REFUSED,
            f"a {had} store lies in another way on the disk than a {has} store",
            "Stop the application, delete its directory below each task's, on every host, and it "
            "is rebuilt from its changelog (docs/stores.md has the steps); or give it another name",
        )
    else:
        yield Finding(Verdict.REBUILT, f"a {had} store becomes a {has} store")


def _as_sessions(had: str, has: str) -> str:
    if {had, has} != {"window", "session"}:
        return ""
    return f" ({had}s became {has}s: a key has one time more or less)"


def _expiry(old: Facts, new: Facts) -> Iterator[Finding]:
    if not _on_disk(old, new):
        return
    what = "rows begin to expire" if new["ttl_ms"] is not None else "rows expire no more"
    if new["restored_from"] is not None or (old["logged"] and new["logged"]):
        yield Finding(Verdict.REBUILT, f"{what}, and lie in another way on the disk")
    else:
        has = "no changelog" if not new["logged"] else "a changelog that has none of its rows"
        yield Finding(
            Verdict.REFUSED,
            f"{what}, and lie in another way on the disk; the store has {has}",
            "Delete its directory, or give it another name: it starts empty",
        )


def _timestamps(old: Facts, new: Facts) -> Iterator[Finding]:
    had, has = old.get("timestamped"), new.get("timestamped")
    if had is None or had == has or old["kind"] != new["kind"] or not _on_disk(old, new):
        return
    if has and old["kind"] == "key-value":
        yield Finding(Verdict.KEPT, "its values get timestamps: the rows that are there have -1")
        return
    gets = "get timestamps" if has else "have timestamps no more"
    yield Finding(
        Verdict.REFUSED,
        f"its values {gets}, and lie in another way on the disk",
        "Take the builder of `Stores` that it had; or stop the application and delete its "
        "directory below each task's, on every host: it is rebuilt from its changelog, if it has "
        "one",
    )


def _windows(old: Facts, new: Facts) -> Iterator[Finding]:
    had, has = old["windows"], new["windows"]
    if had is None or has is None or old["kind"] != new["kind"]:
        return
    if had["type"] != has["type"]:
        yield Finding(
            Verdict.WRONG,
            f"its rows are of {had['type']} and would be counted on in {has['type']}",
            ANOTHER_NAME,
        )
        return
    changed = [name for name in had if had[name] != has.get(name)]
    told = ", ".join(f"{name} {had[name]} -> {has.get(name)}" for name in changed)
    if had["type"] == "UnlimitedWindows" and changed:
        yield Finding(Verdict.EMPTY, f"its window begins elsewhere ({told})", ANOTHER_NAME)
    elif set(changed) - {"grace_period_ms"}:
        yield Finding(
            Verdict.WRONG,
            f"its windows have changed ({told}): rows of the old windows would be counted on in "
            "new ones that begin at the same time, and others would lack what came before",
            ANOTHER_NAME,
        )
    elif changed:
        yield Finding(Verdict.KEPT, f"it waits for late records in another way ({told})")


def _retention(old: Facts, new: Facts) -> Iterator[Finding]:
    had, has = old["retention"], new["retention"]
    if had is None or has is None or old["kind"] != new["kind"]:
        return
    if had["retain_duplicates"] != has["retain_duplicates"]:
        what = "it kept one row a key and time, and is to keep several, or the other way round"
        yield Finding(Verdict.WRONG, f"{what}: its keys are made in another way", ANOTHER_NAME)
    if _on_disk(old, new):
        yield from _layout(old, had, has)
    sizes = had["window_size_ms"], has["window_size_ms"]
    own = old["windows"] is None and new["windows"] is None and not has["retain_duplicates"]
    if own and sizes[0] != sizes[1]:
        yield Finding(
            Verdict.UNSURE,
            f"its windows were {sizes[0]} ms long and are to be {sizes[1]} ms: what its processors "
            "make of old rows is not known here",
            ANOTHER_NAME,
        )
    told = f"{had['retention_ms']} -> {has['retention_ms']} ms"
    if has["retention_ms"] < had["retention_ms"]:
        yield Finding(Verdict.KEPT, f"it keeps rows for a shorter time ({told}): older ones go")
    elif has["retention_ms"] > had["retention_ms"]:
        yield Finding(
            Verdict.KEPT,
            f"it keeps rows for longer ({told}) from now on; what has gone does not come back, and "
            "the changelog topic keeps the settings it was created with",
        )


def _layout(old: Facts, had: Facts, has: Facts) -> Iterator[Finding]:
    """Compare how the files of a store are laid out, by its retention and its emission."""
    changed = [name for name in ("segment_interval_ms", "time_ordered") if had[name] != has[name]]
    if not changed:
        return
    told = ", ".join(f"{name} {had[name]} -> {has[name]}" for name in changed)
    stop = (
        "stop the application and delete its directory below each task's, on every host: it is "
        "rebuilt from its changelog, if it has one"
    )
    supplier = _SUPPLIERS.get((old["kind"], old.get("timestamped")))
    if supplier is None or "time_ordered" in changed:
        cure = stop.capitalize()
    else:
        interval = f"segment_interval_ms={had['segment_interval_ms']}"
        cure = f"Keep {interval} with the supplier `Stores.{supplier}`; or {stop}"
    yield Finding(
        Verdict.REFUSED,
        f"its files are laid out for another retention or emission ({told})",
        cure,
    )


def _changelog(old: Facts, new: Facts) -> Iterator[Finding]:
    had, has = old["restored_from"], new["restored_from"]
    if had is None and has is not None:
        yield Finding(Verdict.REBUILT, f"it is restored from topic {has!r} from now on")
    elif had is not None and has is None:
        yield Finding(
            Verdict.REFUSED if _on_disk(old, new) else Verdict.EMPTY,
            f"it was restored from topic {had!r} and gets a changelog, which lacks all rows",
            "Switch topology.optimization back, or start anew: `pystreams reset`, or another "
            "application.id",
        )
    elif had != has:
        what = f"it was restored from topic {had!r} and is to be from {has!r}"
        yield Finding(Verdict.UNSURE, f"{what}: rows of both may meet", ANOTHER_NAME)
    elif old["engine"] != new["engine"]:
        return  # Where its rows are then, `_engine` tells.
    elif old["logged"] and not new["logged"]:
        yield Finding(
            Verdict.UNSURE,
            "it has no changelog any more: its rows are on this disk alone, and on no other host",
            "Leave logging on",
        )
    elif new["logged"] and not old["logged"]:
        yield Finding(
            Verdict.UNSURE,
            "it gets a changelog, which has none of the rows that are there: with exactly-once it "
            "is rebuilt from it, and starts empty; else a host without its files does",
            "Leave logging off to keep them; or let it start empty under another name",
        )


def _place(old: Facts, new: Facts) -> Iterator[Finding]:
    had, has = old["subtopology"], new["subtopology"]
    if had == has:
        return
    told = f"its tasks were {had}_* and are {has}_*"
    if new["restored_from"] is not None or (new["logged"] and _is_restored(old)):
        yield Finding(Verdict.REBUILT, f"{told}: their directories have none of it")
    elif old["logged"]:
        yield Finding(
            Verdict.EMPTY,
            f"{told}, and it has no changelog any more: the old one stays, unread",
            "Leave logging on: it is rebuilt from its changelog",
        )
    else:
        why = "its changelog has none of its rows" if new["logged"] else "it has no changelog"
        yield Finding(
            Verdict.EMPTY,
            f"{told}, and {why}: the files stay in the old directories",
            "Declare new parts last, so that its tasks keep their numbers (a changelog only helps "
            "rows that are written from then on); or let it start empty: `pystreams reset` or "
            "`pystreams backfill` make it anew of the input",
        )


def _partitions(old: Facts, new: Facts) -> Iterator[Finding]:
    had, has = old["partitions"], new["partitions"]
    if None not in {had, has} and had != has and new["logged"]:
        yield Finding(
            Verdict.REFUSED,
            f"its changelog has {had} partitions, and its input {has}",
            "Move the state to another application.id with `pystreams rescale`",
        )


def _engine(old: Facts, new: Facts) -> Iterator[Finding]:
    had, has = old["engine"], new["engine"]
    if had == has:
        return
    told = f"its engine was {had} and is {has}"
    if new["restored_from"] is not None or (new["logged"] and _is_restored(old)):
        yield Finding(Verdict.REBUILT, told)
    elif new["logged"]:
        yield Finding(
            Verdict.EMPTY,
            f"{told}, and its changelog has none of its rows: the files stay, unread",
            _OTHER_ENGINE,
        )
    else:
        stays = "changelog stays" if old["logged"] else "files stay"
        yield Finding(
            Verdict.EMPTY, f"{told}, and it has no changelog: the {stays}, unread", _OTHER_ENGINE
        )


def _size(old: Facts, new: Facts) -> Iterator[Finding]:
    had, has = old["max_entries"], new["max_entries"]
    if None not in {had, has} and has < had:
        yield Finding(Verdict.KEPT, f"it keeps {has} entries, no longer {had}: the oldest go")
    had, has = old["ttl_ms"], new["ttl_ms"]
    if None not in {had, has} and had != has:
        yield Finding(Verdict.KEPT, f"ttl_ms {had} -> {has} counts for the rows that are there")


def _on_disk(old: Facts, new: Facts) -> bool:
    """Return whether the files of the one are met by the other: by engine, and in its tasks."""
    are_on_disk = old["engine"] == new["engine"] == _ON_DISK
    return bool(are_on_disk and old["subtopology"] == new["subtopology"])


def _is_restored(facts: Facts) -> bool:
    return bool(facts["logged"]) or facts["restored_from"] is not None


def meets(old: Facts, new: Facts) -> bool:
    """Return whether a store finds anything of an old one: its files, or what it is restored of."""
    files = all(old[fact] == new[fact] for fact in ("engine", "subtopology"))
    return files or new["restored_from"] is not None or (new["logged"] and _is_restored(old))


def is_empty_at_each_start(facts: Facts) -> bool:
    """Return whether a store has its rows in memory and nowhere else."""
    return facts["engine"] == _IN_MEMORY and not _is_restored(facts)


def emptied(old: Facts) -> Finding:
    """Tell of a store that is to be empty at each start, of which there are rows."""
    what = "in memory and without a changelog it is empty at each start"
    if _is_restored(old):
        return Finding(
            Verdict.EMPTY,
            f"{what}: what it was restored from stays, unread",
            "Leave logging on, or leave it on the disk",
        )
    return Finding(Verdict.EMPTY, f"{what}: the files stay, unread", "Leave it on the disk")


def moved_out_of_tasks_or_in(old: Facts, new: Facts) -> Finding | None:
    """Tell of a global store that becomes one of tasks, or the other way round; else None.

    They have no file and no changelog in common, so that nothing else can differ.
    """
    if is_global(old) == is_global(new):
        return None
    return _moved_into_tasks(old, new) if is_global(old) else _became_global(old, new)


def _moved_into_tasks(old: Facts, new: Facts) -> Finding:
    what = f"it was a global store of topic {old['restored_from']!r}"
    if old["made_of"] == new["made_of"]:
        return Finding(
            Verdict.REBUILT,
            f"{what}, which its tasks read: from the offsets that the group has committed of it, "
            "if any, else from the beginning, unless auto.offset.reset says otherwise",
        )
    return Finding(
        Verdict.EMPTY,
        f"{what} and is made of another input: its rows are in their topic, as before",
        "Take its topic again; or let it start empty: its old directory, below `global` in the "
        "application's state directory, is yours to delete",
    )


def _became_global(old: Facts, new: Facts) -> Finding:
    filled = (
        f"it is a global store now, which each process fills from topic {new['restored_from']!r} "
        "before anything is processed"
    )
    left = "Its old changelog topic, and its" if old["logged"] else "Its old"
    cure = f"{left} directory below each task's, on every host, stay unread and are yours to delete"
    if all(old[fact] == new[fact] for fact in ("kind", "made_of", "shape")):
        return Finding(Verdict.REBUILT, f"{filled}, as it was made of it", cure)
    what = f"{filled}: its old rows were made in another way, and are not in it"
    return Finding(Verdict.EMPTY, what, f"Leave it to tasks to keep them. {cure}")


RULES: tuple[Rule, ...] = (
    _kind,
    _timestamps,
    _windows,
    key_windows,
    identity,
    _retention,
    serdes,
    _changelog,
    _place,
    _partitions,
    _engine,
    _size,
    inputs,
    places,
    required,
)
"""All that may differ."""
PLACES: tuple[Rule, ...] = (_place, _engine)
"""What may differ between two of which the new one finds nothing of the old one."""
