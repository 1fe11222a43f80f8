"""What committed offsets tell of the topics that were read."""

from __future__ import annotations

import base64

from pystreams.runtime.core.offsets import decode_partition_time, encode_partition_time, entries_of
from pystreams.runtime.core.publishing_mark import encode_published, published_by
from pystreams.runtime.core.topic_ids import entries_by_topic, known_ids, noted_ids

OFFSET_METADATA_MAX_BYTES = 4096


def test_each_topic_tells_all_ids_and_the_partition_time() -> None:
    entries = entries_by_topic({"a": "id of a", "b": "id of b"})
    metadata = encode_partition_time(1000, entries["b"])

    assert noted_ids(metadata) == {"a": "id of a", "b": "id of b"}
    assert decode_partition_time(metadata) == 1000


def test_the_layout_is_that_of_processor_metadata() -> None:
    data = base64.b64decode(encode_partition_time(1000, entries_by_topic({"a": "X"})["a"]))
    key = b"pystreams-topic a X"

    assert data.hex() == "0200000000000003e8" + "00000001" + "00000013" + key.hex() + "00" * 8


def test_many_topics_stay_below_what_brokers_take_and_none_is_left_out_by_all() -> None:
    topics = {f"a-rather-long-name-of-a-topic-{number:03}": "B" * 22 for number in range(100)}
    texts = {
        topic: encode_partition_time(0, entries)
        for topic, entries in entries_by_topic(topics).items()
    }

    assert all(len(text) < OFFSET_METADATA_MAX_BYTES for text in texts.values())
    for topic in topics:
        telling = [other for other, text in texts.items() if topic in noted_ids(text)]
        assert topic in telling
        assert len(telling) > 10


def test_a_name_of_the_greatest_length_is_told() -> None:
    topics = {letter * 249: "B" * 22 for letter in "ab"}

    assert noted_ids(encode_partition_time(0, entries_by_topic(topics)["a" * 249])) == topics


def test_other_metadata_tells_no_ids() -> None:
    broken = base64.b64encode(b"\x02" + bytes(8) + b"\x00\x00\x00\x01\xff\xff\xff\xff").decode()
    for text in ("", "text", encode_partition_time(5), encode_published(5, "ab"), broken):
        assert noted_ids(text) == {}
    assert published_by(encode_published(5, "ab")) == "ab"
    assert entries_of(broken) == []


def test_ids_that_tell_no_topics_apart_are_not_known() -> None:
    assert known_ids({"a": "A" * 22, "b": "B" * 22}) == {"b": "B" * 22}
