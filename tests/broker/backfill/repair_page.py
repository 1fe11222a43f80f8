"""Runs the Python of docs/repair.md, which reads Kafka with a connector that a Spark brings along.

A program, since a Spark that runs already would be taken, with what it has. Its one argument is
JSON: the configuration, and texts of the page by what stands in their place.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from confluent_kafka.admin import AdminClient

from tests.broker.reading import raise_partitions
from tests.docs.blocks import ROOT, examples_of

PARTITIONS = 4


def main() -> None:
    """Run the page from top to bottom; what it tells to do at the broker is done in its turn."""
    given = json.loads(sys.argv[1])
    names: dict[str, Any] = {"config": given["config"]}
    # What is typed at the prompt, the test does that has started this.
    topology, _, export, rescale = (
        block.text for block in examples_of(ROOT / "docs" / "repair.md")
    )

    def run(block: str) -> None:
        for text, instead in given["instead"].items():
            assert text in topology + export + rescale, f"the page has no {text}"
            block = block.replace(text, instead)
        exec(block, names)

    run(topology)
    names["topology"] = names["builder"].build()
    run(export)
    admin = AdminClient({"bootstrap.servers": given["config"]["bootstrap.servers"]})
    raise_partitions(admin, given["topic"], PARTITIONS)
    run(rescale)


if __name__ == "__main__":
    main()
