"""What of a topology's fingerprint may stand where others read it: in its group.

Whoever may describe a group reads what its offsets note. A store is told by its name, its topics,
its windows and its serdes; and by where it is declared, without the folders of that file. The name
of a serde of the user's own is what its `repr` says, which may be anything, a key or a password: of
that stays what its class may be called, and a hash that tells it from others.

    shop.Sealed(key='hunter2')  ->  shop.Sealed#5d41402a
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from pystreams.deploy.fingerprint import Fingerprint

_CLASS = re.compile(r"[\w.<>]*")
_FOLDERS = re.compile(r"(?<= at ).*[/\\]")
_HASH_LENGTH = 8
_SHARED = ("format", "stores", "repartition_topics", "former_stores")


def shared(fingerprint: Fingerprint) -> Fingerprint:
    """Return what of a fingerprint may be told to others, and is needed to compare it."""
    told: Fingerprint = with_shared_serdes({part: fingerprint[part] for part in _SHARED})
    for part in _SHARED[1:]:
        for facts in told[part].values():
            facts["declared"] = _FOLDERS.sub("", facts.get("declared", ""))
    return told


def with_shared_serdes(facts: Any) -> Any:
    """Return a fingerprint, or facts of it, with the names that serdes have in what is shared."""
    if isinstance(facts, list):
        return [with_shared_serdes(each) for each in facts]
    if not isinstance(facts, dict):
        return facts
    found = {name: with_shared_serdes(value) for name, value in facts.items()}
    is_serde = facts.keys() >= {"name", "format"} and isinstance(facts["name"], str)
    if is_serde and facts["format"] is None:
        found["name"] = _shared_name(facts["name"])
    return found


def _shared_name(name: str) -> str:
    known = _CLASS.match(name)
    assert known is not None, "it matches what is empty"
    if known[0] == name:
        return name
    return f"{known[0]}#{hashlib.sha256(name.encode()).hexdigest()[:_HASH_LENGTH]}"
