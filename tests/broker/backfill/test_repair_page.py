"""The Python of docs/repair.md: what an application has counted is exported, and moved."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from pystreams import KafkaStreams, StreamsBuilder, serdes
from pystreams.broker import DevelopmentBroker
from tests.broker.backfill import repair_page
from tests.broker.conftest import CreateTopic
from tests.broker.reading import committed_offsets, produce
from tests.broker.waiting import wait_until
from tests.docs.blocks import ROOT, examples_of

CUSTOMERS = [b"ann", b"bob", b"ann", b"ann"]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def examples_of_the_page() -> list[doctest.Example]:
    """Return what the page types at a prompt of Python."""
    (block,) = (it for it in examples_of(ROOT / "docs" / "repair.md") if it.language == "pycon")
    return doctest.DocTestParser().get_examples(block.text)


def test_the_python_of_the_page_of_repairs_gives_what_it_says(
    broker: DevelopmentBroker,
    admin: AdminClient,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
) -> None:
    topic, numbers, shop = create_topic("orders"), create_topic("numbers"), unique_name
    servers = broker.bootstrap_servers
    config = {
        "application.id": shop,
        "bootstrap.servers": servers,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": str(tmp_path / "state"),
    }
    produce(servers, topic, [(customer, b"tea") for customer in CUSTOMERS])
    builder = StreamsBuilder()
    orders = builder.stream(topic, key_serde=serdes.STRING, value_serde=serdes.STRING)
    orders.group_by_key().count(name="by-customer").to_stream().to(numbers)
    with KafkaStreams(builder.build(), config) as streams:
        wait_until(
            lambda: streams.statistics().processed_records == len(CUSTOMERS), "all is counted"
        )
        streams.close(leave_group=True)
    directory = f'"{tmp_path}/'
    instead = {'"orders"': f'"{topic}"', '"numbers"': f'"{numbers}"'}
    instead |= {'"shop-8"': f'"{shop}-8"', '"/data/': directory}
    given = json.dumps({"config": config, "instead": instead, "topic": topic})
    program = [sys.executable, "-m", repair_page.__name__, given]

    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 [True]\n"
    manifest = json.loads((tmp_path / "shop-stores" / "manifest.json").read_text("utf-8"))
    assert manifest["stores"]["by-customer"]["rows"] == 2
    reading, shown = examples_of_the_page()
    exec(reading.source, names := dict[str, Any]())
    assert '"stores/' in shown.source
    read = eval(shown.source.replace('"stores/', f'"{tmp_path}/shop-stores/'), names)
    assert list(read.columns) == shown.want.splitlines()[0].split()
    assert list(zip(read["key"], read["value"], strict=True)) == [("ann", 3), ("bob", 1)]
    moved = committed_offsets(admin, f"{shop}-8")
    assert sorted(moved.values()) == [0, 0, 0, len(CUSTOMERS)]
