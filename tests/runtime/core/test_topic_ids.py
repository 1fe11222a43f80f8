"""What committed offsets tell of the topics that were read."""

from __future__ import annotations

import base64

from pystreams.runtime.cluster.committed_offsets import (
    decode_partition_time,
    encode_entries,
    encode_partition_time,
    entries_of,
)
from pystreams.runtime.cluster.publishing_mark import encode_published, published_by
from pystreams.runtime.cluster.topic_ids import (
    keys_to_note,
    known_ids,
    noted_ids,
    noted_partitions,
    partitions_to_note,
)

OFFSET_METADATA_MAX_BYTES = 4096


def metadata_of(topic: str, ids: dict[str, str]) -> str:
    return encode_partition_time(1000, encode_entries(keys_to_note(ids, topic)))


def test_each_topic_tells_all_ids_and_the_partition_time() -> None:
    for topic in ("a", "b", "app-again-repartition"):
        metadata = metadata_of(topic, {"a": "id of a", "b": "id of b"})

        assert noted_ids(metadata) == {"a": "id of a", "b": "id of b"}
        assert decode_partition_time(metadata) == 1000


def test_the_layout_is_that_of_processor_metadata() -> None:
    data = base64.b64decode(metadata_of("a", {"a": "X"}))
    key = b"pystreams-topic a X"

    assert data.hex() == "0200000000000003e8" + "00000001" + "00000013" + key.hex() + "00" * 8


def test_many_topics_stay_below_what_brokers_take_and_none_is_left_out_by_all() -> None:
    topics = {f"a-rather-long-name-of-a-topic-{number:03}": "B" * 22 for number in range(100)}
    texts = {topic: metadata_of(topic, topics) for topic in topics}

    assert all(len(text) < OFFSET_METADATA_MAX_BYTES for text in texts.values())
    for topic in topics:
        telling = [other for other, text in texts.items() if topic in noted_ids(text)]
        assert topic in telling
        assert len(telling) > 4


def test_its_own_offsets_tell_a_topic_however_long_its_name() -> None:
    topics = {letter * 249: "B" * 22 for letter in "abc"}

    for topic in topics:
        assert noted_ids(metadata_of(topic, topics))[topic] == "B" * 22


def test_other_metadata_tells_no_ids() -> None:
    broken = base64.b64encode(b"\x02" + bytes(8) + b"\x00\x00\x00\x01\xff\xff\xff\xff").decode()
    for text in ("", "text", encode_partition_time(5), encode_published(5, "ab"), broken):
        assert noted_ids(text) == {}
    assert entries_of(broken) == []


def test_a_hand_over_tells_what_was_published_and_the_ids() -> None:
    metadata = encode_published(1000, "ab", keys_to_note({"a": "X"}, "a"))

    assert published_by(metadata) == "ab"
    assert noted_ids(metadata) == {"a": "X"}
    assert decode_partition_time(metadata) == 1000


def test_ids_that_tell_no_topics_apart_are_not_known() -> None:
    assert known_ids({"a": "A" * 22, "b": "B" * 22}) == {"b": "B" * 22}


def test_a_topics_own_offsets_tell_its_partitions() -> None:
    counts = {"a": 12, "a.b": 3}
    keys = keys_to_note({"a": "X"}, "a") + partitions_to_note(counts, "a")
    metadata = encode_partition_time(1000, encode_entries(keys))

    assert keys[-1] == "pystreams-partitions a 12"
    assert noted_partitions(metadata, "a") == 12
    assert noted_partitions(metadata, "a.b") == noted_partitions("text", "a") == 0
    assert noted_ids(metadata) == {"a": "X"}
    assert partitions_to_note(counts, "other") == []
