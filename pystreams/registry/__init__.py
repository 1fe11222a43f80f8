"""Serdes over a schema registry, in Confluent's wire format.

    from pystreams.registry import SchemaRegistry

    registry = SchemaRegistry({"url": "http://localhost:8081"})
    orders = registry.avro(Order, schema=ORDER_SCHEMA)

Needs the extra `pystreams-kafka[registry]`; for schemas with rules, `[rules]`. Reading order:
`schema_registry`, `registry_serde`, `wire_format`, `avro`, `registry_client`; of rules, `rules`,
`ruled_schema`, `ruled_serdes`, `rule_executors`.
"""

from pystreams.registry.schema_registry import SchemaRegistry
from pystreams.registry.subjects import SchemaUse, SubjectNameStrategy
from pystreams.registry.wire_format import SchemaIdPlace

__all__ = ["SchemaIdPlace", "SchemaRegistry", "SchemaUse", "SubjectNameStrategy"]
