"""Changelogs of suppressions that older versions of Kafka Streams wrote: each is read.

The bytes are those that Kafka's own tests have of its versions 2.1 to 2.4.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams import StateStoreError, StoreEngine
from pystreams.record import Headers, RecordMetadata, StaticMessage
from tests.stores.kinds.suppression_buffers import Buffer, Left, let_leave, opened
from tests.stores.support import CHANGELOG, Home

CONTEXT = "000000000000000000000005746F70696300000000FFFFFFFF"
"""Offset, topic, partition and no headers; before it stands the record's timestamp."""
TIME = "{:016X}".format
KEYS = (b"todelete", b"asdf", b"zxcv", b"zxcv")
CHANGES = (
    ("FFFFFFFF", "00000006646F6F6D6564"),
    ("FFFFFFFF", "0000000471776572"),
    ("0000000749474E4F524544", "00000005336F34696D"),
    ("00000005336F34696D", "000000046E657874"),
)
PREVIOUS = "0000000870726576696F7573"
PRIORS = ("FFFFFFFF", "FFFFFFFF", PREVIOUS, PREVIOUS)
TIMES = (0, 2, 1, 1)


def version_0() -> list[str]:
    first = (PREVIOUS, "00000005656F34696D")
    last = ("00000005656F34696D", "000000046E657874")
    changes = (*CHANGES[:2], first, last)
    return [TIME(time) + old + new for time, (old, new) in zip(TIMES, changes, strict=True)]


def version_1() -> list[str]:
    changes = (*CHANGES[:2], (PREVIOUS, CHANGES[2][1]), CHANGES[3])
    return [
        TIME(time) + TIME(number) + CONTEXT + f"{len(old + new) // 2:08X}" + old + new
        for number, (time, (old, new)) in enumerate(zip(TIMES, changes, strict=True))
    ]


def version_2() -> list[str]:
    return [
        TIME(number) + CONTEXT + f"{len(old + new) // 2:08X}" + old + new + prior + TIME(time)
        for number, (time, (old, new), prior) in enumerate(zip(TIMES, CHANGES, PRIORS, strict=True))
    ]


def version_3() -> list[str]:
    return [
        TIME(number) + CONTEXT + prior + old + new + TIME(time)
        for number, (time, (old, new), prior) in enumerate(zip(TIMES, CHANGES, PRIORS, strict=True))
    ]


VERSIONS: dict[str, tuple[list[str], Headers]] = {
    "no version": (version_0(), ()),
    "version 1": (version_1(), (("v", b"\x01"),)),
    "version 2": (version_2(), (("v", b"\x02"),)),
    "version 3 that says it is 2": (version_3(), (("v", b"\x02"),)),
    "version 3": (version_3(), (("v", b"\x03"),)),
}


def restored(buffer: Buffer, values: list[str], headers: Headers, *, at_once: bool) -> None:
    """Restore records, all in one batch or each in its own, and then the deletion of one."""
    messages = [
        StaticMessage(*CHANGELOG, offset, key, bytes.fromhex(value), offset, headers)
        for offset, (key, value) in enumerate(zip(KEYS, values, strict=True))
    ]
    if at_once:
        buffer.restore(messages)
    else:
        for message in messages:
            buffer.restore([message])


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("engine", StoreEngine)
def test_each_version_is_read(
    engine: StoreEngine, version: str, *, at_once: bool, tmp_path: Path
) -> None:
    buffer = opened(Home(tmp_path), engine)
    values, headers = VERSIONS[version]
    restored(buffer, values, headers, at_once=at_once)
    # Without a context of its own a record has that of the changelog, whose name is longer, and
    # its headers.
    is_first = version == "no version"
    longer_bytes = len(CHANGELOG.topic) - len("topic")
    extra_bytes = 3 * longer_bytes if is_first else 0
    assert buffer.totals.records == 3
    assert buffer.totals.counted_bytes == 142 + extra_bytes

    buffer.restore([StaticMessage(*CHANGELOG, 4, b"todelete", None, 5)])

    assert buffer.totals.records == 2
    assert buffer.totals.counted_bytes == 95 + extra_bytes // 3 * 2
    assert buffer.prior_value("todelete") is None
    assert buffer.prior_value("asdf") == (None,)
    assert buffer.prior_value("zxcv") == ("previous",)
    origins = [change.origin for _, change in buffer.leave_while(lambda _: False)]
    assert origins == []
    left = list(buffer.leave_while(lambda _: True))
    of_its_own = RecordMetadata("topic", 0, 0)
    assert [change.origin for _, change in left] == (
        [RecordMetadata(*CHANGELOG, 3), RecordMetadata(*CHANGELOG, 1)]
        if is_first
        else [of_its_own, of_its_own]
    )
    assert [Left(*buffer.typed(key, change), change.timestamp) for key, change in left] == [
        Left("zxcv", ("next", "previous"), 3),
        Left("asdf", ("qwer", None), 1),
    ]
    assert let_leave(buffer) == []


@pytest.mark.parametrize(
    ("headers", "value", "why"),
    [
        ((("v", b"\x07"),), b"doomed", "of version 07.*the version is not known"),
        ((("v", b"\x03"),), b"doomed", "of version 03.*no buffered change that can be read"),
        ((), b"doomed", "without a version"),
    ],
)
def test_record_that_can_not_be_read_is_told_with_its_place(
    headers: Headers, value: bytes, why: str, tmp_path: Path
) -> None:
    buffer = opened(Home(tmp_path))
    message = StaticMessage(*CHANGELOG, 3, b"todelete", value, 3, headers)

    with pytest.raises(StateStoreError, match=f"offset 3 of app-s-changelog-0, {why}"):
        buffer.restore([message])
    buffer.close()
