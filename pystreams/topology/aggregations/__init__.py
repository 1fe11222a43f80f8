"""Ready aggregations: `from pystreams import aggregations`.

    grouped.aggregate(aggregations.mean(lambda order: order.price), name="mean-price")

Each function returns an `Aggregation`, which grouped streams take with windows and without, and
grouped tables if it can be undone. What is here imports serdes and what checks functions, and no
operator: it knows values and states, no streams.
"""

from pystreams.topology.aggregations.aggregation import Aggregation
from pystreams.topology.aggregations.of_numbers import count, mean, stddev, sum, variance  # noqa: A004
from pystreams.topology.aggregations.of_values import (
    bottom_n,
    collect,
    distinct_count,
    first,
    last,
    max,  # noqa: A004
    min,  # noqa: A004
    top_n,
)
from pystreams.topology.aggregations.several import several
from pystreams.topology.aggregations.sketches import (
    approx_distinct_count,
    percentile,
    percentiles,
)

__all__ = [
    "Aggregation",
    "approx_distinct_count",
    "bottom_n",
    "collect",
    "count",
    "distinct_count",
    "first",
    "last",
    "max",
    "mean",
    "min",
    "percentile",
    "percentiles",
    "several",
    "stddev",
    "sum",
    "top_n",
    "variance",
]
