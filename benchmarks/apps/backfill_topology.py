"""The topology of count_app.py for `pystreams backfill`; the environment names its topics."""

from __future__ import annotations

import os

from benchmarks.apps.count_app import count_topology

topology = count_topology(
    os.environ["BENCHMARK_INPUT"], os.environ["BENCHMARK_OUTPUT"], operators=0
)
