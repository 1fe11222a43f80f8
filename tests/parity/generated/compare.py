"""What differs between two answers to a case."""

from __future__ import annotations

import difflib
import json
from typing import Any

from tests.parity.generated.answer import DUPLICATES, OLDEST, Answer, shown, unshown


def differences(java: Answer, ours: Answer) -> list[str]:
    """Return what differs, as lines: "-" is Kafka Streams', "+" ours."""
    if "error" in java or "error" in ours:
        if "error" in java and "error" in ours:
            return []
        return [f"- {java.get('error', 'runs')}", f"+ {ours.get('error', 'runs')}"]
    java = {**java, "topics": {**java["topics"]}}
    ours = {**ours, "topics": {**ours["topics"]}}
    for topic, retention_ms in ours[DUPLICATES].items():
        for each in (java, ours):
            logged = _without_what_expires(each["topics"].pop(topic, []), retention_ms)
            if logged:
                each["topics"][topic] = logged
    java["stores"], ours["stores"] = {**java["stores"]}, {**ours["stores"]}
    _settle(java, ours)
    lines = []
    for part in ("description", "topics", "stores", "seen", "printed"):
        if java[part] != ours[part]:
            lines += _difference(part, java[part], ours[part])
    return lines


def _settle(java: Answer, ours: Answer) -> None:
    """Take out of both what is written differently without being different."""
    for topic, records in list(java["topics"].items()):
        # Kafka Streams leaves the time of a buffer's changelog to the producer.
        if any(record[2] is None for record in records) and topic in ours["topics"]:
            untimed = [[*record[:2], None, *record[3:]] for record in ours["topics"][topic]]
            # Suppressions log what changed since the last commit in the order of a hash set.
            ours["topics"][topic] = sorted(untimed, key=_key)
            java["topics"][topic] = sorted(records, key=_key)
    for each in (java, ours):
        for topic in list(each["topics"]):
            if topic.endswith("-Buffer-changelog"):
                each["topics"][topic] = _what_is_left(each["topics"][topic])
        for name, oldest in ours[OLDEST].items():
            each["stores"][name] = [
                entry for entry in each["stores"].get(name, []) if _start(entry[0]) >= oldest
            ]
        # Windows of several keys come in no order to rely on.
        each["stores"] = {
            name: sorted(entries) if any("@" in key for key, _ in entries) else entries
            for name, entries in each["stores"].items()
        }
        # Partitioners of joins are asked about keys alone here: see docs/reference/differences.md.
        seen = {
            label: [entry for entry in entries if not _is_asked_without_key(label, entry)]
            for label, entries in each["seen"].items()
        }
        each["seen"] = {label: entries for label, entries in seen.items() if entries}
        each["printed"] = {
            file: [line.replace("None", "null") for line in lines]
            for file, lines in each["printed"].items()
        }


def _is_asked_without_key(label: str, entry: list[Any]) -> bool:
    return label.startswith("partitions-") and entry[0] == "null"


def _key(record: list[Any]) -> str:
    return str(record[0])


def _start(windowed_key: str) -> int:
    return int(windowed_key.rpartition("@")[2].partition("/")[0])


def _what_is_left(records: list[Any]) -> list[Any]:
    """Return what a changelog restores: of what came and left between two commits nothing."""
    left = {key: [key, value, *rest] for key, value, *rest in records}
    return [record for record in left.values() if record[1] is not None]


def _without_what_expires(records: list[Any], retention_ms: int) -> list[Any]:
    """Return what is logged of a store with duplicates here as in Kafka Streams: without numbers.

    Its changelogs have records that its stores refuse, without a value or too old; ours have not.
    """
    logged = []
    stream_time = 0
    for key, value, *rest in records:
        data = unshown(key)
        start = int.from_bytes(data[-12:-4])
        if value is not None:
            stream_time = max(stream_time, start)
            if start > stream_time - retention_ms:
                logged.append([shown(data[:-4]), value, *rest])
    return logged


def _difference(part: str, java: Any, ours: Any) -> list[str]:
    if isinstance(java, dict):
        lines = []
        for name in sorted(java.keys() | ours.keys()):
            one, other = java.get(name, []), ours.get(name, [])
            if one != other:
                lines += [f"{part} {name}:", *_diff(_texts(one), _texts(other))]
        return lines
    if isinstance(java, list):
        return [f"{part}:", *_diff(java, ours)]
    return [f"{part}:", *_diff(java.splitlines(), ours.splitlines())]


def _texts(records: list[Any]) -> list[str]:
    return [json.dumps(record) for record in records]


def _diff(java: list[str], ours: list[str]) -> list[str]:
    diff = difflib.unified_diff(java, ours, lineterm="", n=2)
    return [f"  {line}" for line in diff if not line.startswith(("---", "+++", "@@"))]
