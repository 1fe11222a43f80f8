"""Serdes over a schema registry, in Confluent's wire format.

    from pystreams.registry import SchemaRegistry

    registry = SchemaRegistry({"url": "http://localhost:8081"})
    orders = registry.avro(Order, schema=ORDER_SCHEMA)

Needs the extra `pystreams-kafka[registry]`. Reading order: `schema_registry`, `registry_serde`,
`avro`, `registry_client`.
"""

from pystreams.registry.schema_registry import SchemaRegistry
from pystreams.registry.subjects import SchemaUse, SubjectNameStrategy

__all__ = ["SchemaRegistry", "SchemaUse", "SubjectNameStrategy"]
