"""What a metric is called in Prometheus, by one rule.

1. The name is `pystreams_`, the group without `stream-` and `-metrics`, and the name, with `_` for
   `-`. Of the group `stream-metrics` nothing is left.
2. Prometheus measures in seconds and bytes: values in ms and ns are divided, and the name ends in
   the unit. It stands once: `cache_size_bytes_total` is `cache_size_bytes`.
3. `_total` is the end of counters, and of nothing else.
4. A text is the label of a metric that is always 1 and ends in `_info`.
5. Labels are the tags, with `_` for `-`. The tag `<store type>-state-id` becomes two labels, so
   that all stores have the same: `store_type` and `state_id`.

Example: `commit-latency-avg` of `stream-state-metrics`, 1500000 ns, with the tags `thread-id`,
`task-id` and `rocksdb-state-id`, is 0.0015 under
`pystreams_state_commit_latency_avg_seconds{thread_id=..., task_id=..., store_type="rocksdb",
state_id=...}`.
"""

from __future__ import annotations

from pystreams.metrics.definitions import (
    STATE_ID_SUFFIX,
    Kind,
    MetricDefinition,
    MetricName,
    Unit,
)

_SUFFIXES = {
    Unit.BYTES: "_bytes",
    Unit.MILLISECONDS: "_seconds",
    Unit.NANOSECONDS: "_seconds",
    Unit.TEXT: "_info",
}
_FACTORS = {Unit.MILLISECONDS: 1e-3, Unit.NANOSECONDS: 1e-9}


def prometheus_name(definition: MetricDefinition) -> str:
    """Return a metric's name, `_total` of counters included."""
    group = definition.group.removeprefix("stream-").removesuffix("metrics").removesuffix("-")
    words = ["pystreams", group, definition.name.removesuffix("-total")]
    name = "_".join(word for word in words if word).replace("-", "_")
    suffix = _SUFFIXES.get(definition.unit, "")
    if not name.endswith(suffix):
        name += suffix
    return f"{name}_total" if definition.kind is Kind.COUNTER else name


def prometheus_value(definition: MetricDefinition, value: float) -> float:
    """Return a value in Prometheus' base units: seconds, bytes, plain numbers."""
    return value * _FACTORS.get(definition.unit, 1)


def prometheus_labels(name: MetricName) -> dict[str, str]:
    """Return a metric's labels."""
    labels: dict[str, str] = {}
    for tag, value in name.tags:
        if tag.endswith(STATE_ID_SUFFIX):
            labels["store_type"] = tag.removesuffix(STATE_ID_SUFFIX)
            labels["state_id"] = value
        else:
            labels[tag.replace("-", "_")] = value
    return labels
