"""Which Kafka the development broker is, and its class path."""

from __future__ import annotations

import os
from importlib import resources

from pystreams.kernel import maven

KAFKA_VERSION = "4.3.1"


def class_path() -> str:
    """Return Java's class path of the Kafka server, downloading its jars on the first use.

    Raises:
        ArtifactError: A jar can't be downloaded, or differs from the pinned one.
    """
    pins = resources.files(__package__).joinpath("kafka_jars.sha256").read_text("utf-8")
    files = maven.fetch(maven.parse_artifacts(pins), title=f"Apache Kafka {KAFKA_VERSION}")
    return os.pathsep.join(str(file) for file in files)
