"""What the DSL's methods record: frozen nodes in a `StreamsGraph`, which `build` writes down.

Knows neither `KStream` nor `KTable`: those are in `dsl`, the only one to import this.
"""
