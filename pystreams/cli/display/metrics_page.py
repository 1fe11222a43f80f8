"""The page of the metrics, made from their definitions.

`docs/metrics.md` is the output of `reference_page`; write it with
`pystreams metrics --markdown > docs/metrics.md`. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator

from pystreams.metrics import DEFINITIONS
from pystreams.metrics.definitions import GROUP_TAGS
from pystreams.metrics.prometheus_names import prometheus_name

_INTRODUCTION = """\
# Metrics

<!-- Made by `pystreams metrics --markdown`; don't edit. -->

Groups, names and tags are Kafka Streams'. There are three ways to them:

- In the program: `KafkaStreams.metrics()` returns a mapping from (name, group, tags) to the value
  of this moment, in the unit below. Any thread may call it.
- In Prometheus: `pystreams run --metrics-port 9464` (or the key `metrics.prometheus.port`, which
  works in programs as well) serves `http://127.0.0.1:9464/metrics`. `--metrics-host 0.0.0.0` lets
  other machines in; there is no password, so think of who they are. Of `--processes N`, process n
  takes the port n - 1 higher.
- In the log: a line `summary` every `log.summary.interval.ms`.

```python
for name, value in streams.metrics().items():
    if name.name == "uncommitted-bytes":
        print(name.tag("task-id"), value)
```

**Windows.** Rates, averages and maxima are over the last `metrics.num.samples` (2) samples of
`metrics.sample.window.ms` (30 s) each. Without a value in that time, rates are 0, averages and
maxima NaN. Totals (`-total`, unless they are gauges) count from the start of what their tags name:
a task that moves away takes its totals with it, the thread's go on.

**Levels.** At `metrics.recording.level` INFO, the default, nothing is measured per record: what is
read is counted a batch at a time, and a store's commit is timed once. At DEBUG each call of a
store's methods by a processor is timed, which costs a microsecond or two, and each node of the
topology, which costs about one. TRACE is DEBUG. Which node is the slowest is known at INFO too:
[the page](page.md) has the nodes measured in some of the runs, while somebody looks.

**Names in Prometheus** follow from Kafka's by one rule:

1. `pystreams_`, the group without `stream-` and `-metrics`, and the name, with `_` for `-`.
2. Seconds and bytes: values in ms and ns are divided, and the name ends in the unit.
3. `_total` is the end of counters, and of nothing else.
4. A text is the label of a metric that is always 1 and ends in `_info`.
5. Labels are the tags with `_` for `-`. The tag `<store type>-state-id` becomes two labels,
   `store_type` and `state_id`. Store types are Kafka's: `rocksdb`, `rocksdb-window`,
   `rocksdb-session`, `in-memory`, `in-memory-window`, `in-memory-session`, `in-memory-lru`, and
   `custom` for a store or an engine of the user's own.

What prometheus_client measures of the process, such as `process_resident_memory_bytes`, is served
as well on Linux.

**Differs from Kafka.** RocksDB's memory is shared by all stores, so its metrics are the client's;
RocksDB's statistics are not read. Metrics of processor nodes other than those below, byte counts of
topics and ratios of the thread's time are missing, and topic metrics have no `processor-node-id`.
`restore-*` of a store times batches of changelog records, not the opening of the store. Queries
from other threads are not metered."""


def reference_page() -> str:
    """Return the page as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    for group, tags in GROUP_TAGS.items():
        yield f"\n## {group}\n"
        yield f"Tags: {', '.join(f'`{tag}`' for tag in tags)}.\n"
        yield "| Metric | Unit | Level | In Prometheus | Meaning |\n|---|---|---|---|---|"
        for definition in DEFINITIONS:
            if definition.group == group:
                cells = [
                    f"`{definition.name}`",
                    definition.unit.value,
                    definition.level.value,
                    f"`{prometheus_name(definition)}`",
                    definition.doc,
                ]
                yield f"| {' | '.join(cells)} |"
    yield ""
