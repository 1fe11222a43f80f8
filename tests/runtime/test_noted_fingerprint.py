"""What committed offsets tell of what a topology keeps."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import Materialized, Serde, StreamsBuilder, TimeWindows, serdes
from pystreams.deploy.comparison import compare
from pystreams.deploy.fingerprint import Fingerprint, fingerprint_of
from pystreams.deploy.shared_fingerprint import shared, with_shared_serdes
from pystreams.ids import TopicPartition
from pystreams.runtime.cluster.committed_offsets import (
    CommittedOffset,
    decode_partition_time,
    encode_entries,
    encode_partition_time,
    entries_of,
    numbers_of,
)
from pystreams.runtime.cluster.noted_fingerprint import FingerprintNote
from pystreams.runtime.cluster.topology_note import TopologyNote, noted_topologies
from tests.deploy.pairs import COUNT, PAIRS, topology_of

Limits = Callable[[str], list[str | None]]
AS_KAFKA = 4096
AT = TopicPartition("in", 0)


def limits(*each: object) -> Limits:
    """Say how much metadata each broker takes."""
    return lambda name: [str(limit) for limit in each if name == "offset.metadata.max.bytes"]


@cache
def fingerprint(code: str) -> Fingerprint:
    return fingerprint_of(topology_of(code))


def metadata_of(
    told: Fingerprint,
    digest: str = "",
    started_ms: int = 1,
    brokers: Limits | None = None,
    numbers: dict[str, int] | None = None,
) -> str:
    """Return what a first task commits with its offset."""
    note = f"pystreams-topology {digest or told['digest']} {started_ms} 0 0"
    entries = encode_entries(["pystreams-topic in X", note])
    fingerprint_note = FingerprintNote.of(shared(told), brokers or limits(AS_KAFKA))
    entries = fingerprint_note.added(entries, numbers or {})
    return encode_partition_time(5, entries, numbers)


def found_in(*metadata: str, partition: int = 0) -> tuple[Fingerprint | None, str]:
    """Return what the offsets of some topics tell of the topology that was started last."""
    offsets = {
        TopicPartition(f"topic-{number}", partition): CommittedOffset(1, text)
        for number, text in enumerate(metadata)
    }
    return noted_topologies(offsets)[0].fingerprint()


def counting(stores: int) -> str:
    return "\n".join(
        f'words.group_by(lambda key, word: word, name="by-word-{number}").windowed_by('
        f"TimeWindows.of_size_with_no_grace({1000 + number})).count(name='counts-{number}')"
        for number in range(stores)
    )


@pytest.mark.parametrize("name", PAIRS)
def test_what_a_group_tells_gives_the_verdicts_that_the_old_topology_gives(name: str) -> None:
    old, new = map(fingerprint, PAIRS[name][:2])

    told, _ = found_in(metadata_of(old, brokers=limits(100_000)))

    assert told is not None
    found, wanted = compare(told, with_shared_serdes(new)), compare(old, new)
    assert [(each.name, each.findings) for each in found.judgements] == [
        (each.name, each.findings) for each in wanted.judgements
    ]


def test_stores_that_earlier_versions_had_are_told_too() -> None:
    old, new = map(fingerprint, PAIRS["a named store renamed"][:2])

    told, _ = found_in(metadata_of({**new, "former_stores": old["stores"]}))

    assert told is not None
    (came_back, *_) = [each for each in compare(told, old).judgements if each.name == "counts"]
    assert "an earlier version had it" in came_back.in_words()


def test_stores_that_the_group_has_had_are_told_on_by_who_does_not_know_of_them() -> None:
    first, second, third = (
        fingerprint(COUNT.replace("counts", name)) for name in ("first", "second", "third")
    )
    told: list[Fingerprint] = []
    for started_ms, started in enumerate((first, second, second, third, first)):
        note = TopologyNote(
            started["digest"],
            *(started_ms, 0),
            fingerprint=FingerprintNote.of(shared(started), limits(AS_KAFKA)),
        )
        noted = noted_topologies({AT: CommittedOffset(1, metadata_of(told[-1]))} if told else {})
        fingerprint_note = note.after(noted).fingerprint
        assert fingerprint_note is not None
        told.append({**fingerprint_note.fingerprint, "digest": started["digest"]})

    assert [list(each["former_stores"]) for each in told] == [
        [],
        ["first"],
        ["first"],
        ["first", "second"],
        ["second", "third"],
    ]


def test_stores_that_the_directory_and_the_group_know_of_are_told() -> None:
    first, second, third = (
        fingerprint(COUNT.replace("counts", name)) for name in ("first", "second", "third")
    )
    note = FingerprintNote.of(
        shared({**second, "former_stores": third["stores"]}), limits(AS_KAFKA)
    ).after([shared(first)])

    assert sorted(note.fingerprint["former_stores"]) == ["first", "third"]


def test_stores_of_the_topology_before_the_last_are_told_on_where_the_last_has_told_nothing() -> (
    None
):
    first, second, third = (
        fingerprint(COUNT.replace("counts", name)) for name in ("first", "second", "third")
    )
    offsets = {
        TopicPartition("in", number): CommittedOffset(1, metadata_of(of, started_ms=number))
        for number, of in enumerate((first, second))
    }
    note = TopologyNote(
        third["digest"], 3, 0, fingerprint=FingerprintNote.of(shared(third), limits(AS_KAFKA))
    )

    told = note.after(noted_topologies(offsets)).fingerprint

    assert told is not None
    assert list(told.fingerprint["former_stores"]) == ["first"]


def test_it_is_an_entry_behind_the_others_which_stay_as_they_are() -> None:
    numbers = {"stream-time x": 7}

    metadata = metadata_of(fingerprint(COUNT), numbers=numbers)

    (entry,) = entries_of(metadata, "pystreams-fingerprint ")
    assert entry.isascii()
    assert decode_partition_time(metadata) == 5
    assert [key.split(" ")[0] for key in numbers_of(metadata)] == [
        "pystreams-topic",
        "pystreams-topology",
        "pystreams-fingerprint",
        "stream-time",
    ]
    assert numbers_of(metadata)["stream-time x"] == 7


def test_forty_windowed_stores_behind_repartition_topics_fit_into_what_kafka_takes() -> None:
    metadata = metadata_of(fingerprint(counting(40)))

    assert found_in(metadata)[0] is not None
    assert len(metadata) < AS_KAFKA


@pytest.mark.parametrize("limit", [0, 50, 200, 300, 500, 1000, 2000, 3000, 4096, 10**9])
@pytest.mark.parametrize("stores", [1, 20, 300])
def test_an_offset_is_never_longer_than_brokers_take_unless_it_was_without_it(
    stores: int, limit: int
) -> None:
    told = {**fingerprint(counting(stores)), "former_stores": fingerprint(counting(9))["stores"]}
    for numbers in ({}, {f"stream-time {'n' * 60}{number}": 1 for number in range(100)}):
        without = len(metadata_of(told, brokers=limits(), numbers=numbers))
        metadata = metadata_of(told, brokers=limits(10**9, limit, 10**9), numbers=numbers)

        assert len(metadata) == without or len(metadata) < min(limit, 16_384)


def test_what_does_not_fit_is_left_out_and_how_much_it_takes_is_told() -> None:
    told, why = found_in(metadata_of(fingerprint(counting(300))))

    assert told is None
    assert "characters of an offset, and there is room for 4032" in why
    assert "offset.metadata.max.bytes" in why


def test_of_stores_that_earlier_versions_had_the_latest_are_told_that_fit() -> None:
    former = fingerprint(counting(300))["stores"]
    now = {**fingerprint(COUNT), "former_stores": former}

    metadata = metadata_of(now)
    with_little_room = metadata_of(now, brokers=limits(800))

    for text, least in ((metadata, 10), (with_little_room, 0)):
        told, why = found_in(text)
        assert told is not None, why
        assert told["stores"] == shared(now)["stores"]
        kept = list(told["former_stores"])
        assert least <= len(kept) < len(former)
        assert kept == list(former)[len(former) - len(kept) :]


def test_a_store_that_left_last_is_told_behind_very_many_that_left_before() -> None:
    left = fingerprint(counting(300))["stores"]
    group = {**fingerprint(COUNT.replace("counts", "latest")), "former_stores": left}

    note = FingerprintNote.of(shared(fingerprint(COUNT)), limits(AS_KAFKA)).after([shared(group)])

    key = f"pystreams-topology {group['digest']} 1 0 0"
    told, _ = found_in(encode_partition_time(5, note.added(encode_entries([key]), {})))
    assert told is not None
    assert list(told["former_stores"])[-1] == "latest"


def test_numbers_come_before_it() -> None:
    numbers = {f"stream-time {'n' * 60}{number}": 1 for number in range(20)}
    metadata = metadata_of(fingerprint(counting(30)), numbers=numbers)

    assert numbers.items() <= numbers_of(metadata).items()
    assert "there is room for 4032" in found_in(metadata)[1]


@pytest.mark.parametrize("brokers", [[], [None], ["4096", None], ["4096", "unknown"]])
def test_nothing_is_noted_before_all_brokers_have_told_how_much_they_take_and_that_is_logged(
    brokers: list[str | None],
) -> None:
    told = fingerprint(COUNT)

    with capture_logs() as lines:
        metadata = metadata_of(told, brokers=lambda _: brokers)

    (line,) = lines
    assert line["log_level"] == "info"
    assert line["reason"].startswith(f"{brokers.count('4096')} of {len(brokers)} brokers")
    assert "goes by the digest" in line["meaning"]
    assert entries_of(metadata, "pystreams-fingerprint") == []
    assert "DESCRIBE_CONFIGS on the cluster" in found_in(metadata)[1]


def test_of_several_starts_the_last_counts() -> None:
    old, new = map(fingerprint, PAIRS["a named store renamed"][:2])

    told, _ = found_in(metadata_of(old, started_ms=2), metadata_of(new, started_ms=1))
    again, _ = found_in(
        metadata_of(old, "d", 2), metadata_of(new, "d", 3), metadata_of(old, "d", 1)
    )

    assert told is not None
    assert again is not None
    assert (list(told["stores"]), list(again["stores"])) == (["counts"], ["totals"])


def test_that_of_another_topology_is_not_believed() -> None:
    old, new = map(fingerprint, PAIRS["a named store renamed"][:2])
    offsets = {
        TopicPartition("in", number): CommittedOffset(1, metadata_of(of, started_ms=number))
        for number, of in enumerate((old, new))
    }

    (last, former) = noted_topologies(offsets)

    assert (last.digest, former.digest) == (new["digest"], old["digest"])
    assert last.fingerprint().fingerprint is None
    assert "had no records, or a tool has set their offsets" in last.fingerprint().why_not
    assert former.fingerprint().fingerprint is not None


def packed(text: str) -> str:
    return f"1 {base64.b85encode(zlib.compress(text.encode())).decode()}"


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "1",
        "1 no-base-85 ",
        "1 " + base64.b85encode(b"no zlib").decode(),
        "2 x",
        "too-large \x1b[2J 7",
        packed("no JSON"),
        packed("[" * 1_000_000),
        packed('{"format": 0, "stores": {}, "repartition_topics": {}, "former_stores": {}}'),
        packed('{"format": 1, "stores": {}, "repartition_topics": {}, "former_stores": []}'),
        packed('{"format": 1, "stores": {"a": 1}, "repartition_topics": {}, "former_stores": {}}'),
    ],
    ids=range(11),
)
def test_what_can_not_be_read_is_taken_for_another_form(entry: str) -> None:
    keys = ["pystreams-topology 3-ab 1 0 0", f"pystreams-fingerprint {entry}"]

    told, why = found_in(encode_partition_time(5, encode_entries(keys)))

    assert (told, why) == (None, "another version of pystreams has noted that in another form")


OTHER_VALUES: tuple[Any, ...] = (
    None,
    True,
    7,
    1.5,
    "",
    "x",
    "\ud800",
    [],
    [7],
    [None],
    {},
    {"x": 7},
    {"x": {}},
)


def places_in(told: Any) -> Iterator[tuple[Any, Any]]:
    """Give each place of a fingerprint: what it is in, and under which name or number."""
    for key in list(told) if isinstance(told, dict) else range(len(told)):
        yield told, key
        if isinstance(told[key], dict | list):
            yield from places_in(told[key])


def damaged(told: Fingerprint) -> Iterator[Fingerprint]:
    """Give a fingerprint with one value less, or another one, again and again."""
    for inside, key in list(places_in(told)):
        value = inside[key]
        for other in OTHER_VALUES:
            inside[key] = other
            yield told
        inside[key] = value
        if isinstance(inside, dict):
            before = dict(inside)
            del inside[key]
            yield told
            inside.clear()
            inside.update(before)


ALL_FACTS = """
words.group_by(lambda key, word: word, name="by-word").windowed_by(
    TimeWindows.of_size_with_no_grace(1000)
).count(name="windowed")
words.repartition(name="moved", num_partitions=3).group_by_key().aggregate(
    aggregations.top_n(3), materialized=Materialized(name="top")
)
words.distinct(within_ms=1000, by=lambda key, value: len(value), by_serde=serdes.LONG, name="seen")
"""


@pytest.mark.parametrize("code", [COUNT, ALL_FACTS], ids=["a store", "all facts"])
def test_whatever_somebody_has_written_for_the_group_can_be_compared_or_is_taken_for_another_form(
    code: str,
) -> None:
    now = fingerprint(code)
    versions = [with_shared_serdes(now), fingerprint("words.to('out')")]
    note = FingerprintNote.of(shared(now), limits(AS_KAFKA))
    written = json.loads(json.dumps({**shared(now), "former_stores": shared(now)["stores"]}))
    unread = 0
    for told in damaged(written):
        keys = [
            "pystreams-topology 3-ab 1 0 0",
            f"pystreams-fingerprint {packed(json.dumps(told))}",
        ]
        found, why = found_in(encode_partition_time(5, encode_entries(keys)))
        if found is None:
            unread += 1
            assert why == "another version of pystreams has noted that in another form"
        else:
            for new in versions:
                for each in compare(found, new).judgements:
                    assert each.in_words().encode()
            assert note.after([found]).entries
    assert unread


class Sealed(Serde[str]):
    """A serde of the user's own, whose `repr` says too much."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __repr__(self) -> str:
        return f"shop.Sealed(key={self.key!r})"

    def serializer(self, topic: str) -> Any:
        return serdes.STRING.serializer(topic)

    def deserializer(self, topic: str) -> Any:
        return serdes.STRING.deserializer(topic)


def sealed(key: str) -> Fingerprint:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=Sealed(key), value_serde=Sealed(key))
    windows = TimeWindows.of_size_with_no_grace(10_000)
    counts = stream.group_by_key().windowed_by(windows).count(name="counts")
    counts.map_values(str, materialized=Materialized(name="told", value_serde=Sealed(key)))
    return fingerprint_of(builder.build())


def test_what_a_serde_of_the_users_own_says_of_itself_is_not_told_but_whether_it_is_another() -> (
    None
):
    told = shared(sealed("hunter2"))

    assert "hunter2" not in str(told)
    assert told["stores"]["counts"]["key_serde"]["name"].startswith("shop.Sealed#")
    for key, loses in (("hunter2", False), ("hunter3", True)):
        assert compare(told, with_shared_serdes(sealed(key))).loses is loses
        assert compare(sealed("hunter2"), sealed(key)).loses is loses


def test_where_a_store_is_declared_is_told_without_folders() -> None:
    names: dict[str, Any] = {}
    code = f"from tests.deploy.pairs import HEAD\nexec(HEAD)\n{COUNT}"
    exec(compile(code, "/home/somebody/shop/orders.py", "exec"), names)

    told = shared(fingerprint_of(names["builder"].build()))

    assert told["stores"]["counts"]["declared"] == "count at orders.py:3"
    assert "somebody" not in str(told)
