"""Orders priced by a table: the second stage merges a repartition topic with one of history.

Reads `<MERGING_NAME>-orders` (order -> product) and `<MERGING_NAME>-prices` (product -> price).
Writes below `<MERGING_OUT>`: `-prices`, the table as it changes; `-priced`, each order with the
price of its time; `-sold`, a running count a product.
"""

from __future__ import annotations

import os
from typing import Any

from pystreams import StreamsBuilder, Topology, serdes

_TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}


def topology() -> Topology:
    name, out = os.environ["MERGING_NAME"], os.environ["MERGING_OUT"]
    builder = StreamsBuilder()
    prices = builder.table(f"{name}-prices", name="prices", **_TEXT)
    prices.to_stream().to(f"{out}-prices", **_TEXT)
    by_product = builder.stream(f"{name}-orders", **_TEXT).map(
        lambda order, product: (product, order)
    )
    by_product = by_product.repartition(name="by-product", **_TEXT)
    priced = by_product.join(prices, lambda order, price: f"{order} at {price}")
    priced.to(f"{out}-priced", **_TEXT)
    priced.group_by_key(**_TEXT).count(name="sold").to_stream().to(f"{out}-sold")
    return builder.build()
