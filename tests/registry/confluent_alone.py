"""Confluent's serializers in a process without any of ours: `python confluent_alone.py < asked`.

It is given, as JSON, how the registry is reached, the key store's secret, the schema's type and the
data of a bill in hexadecimal; it prints what it has read, and the data of the same bill as it
writes it.
"""

import copy
import json
import sys

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor
from confluent_kafka.schema_registry.rules.cel.cel_field_executor import CelFieldExecutor
from confluent_kafka.schema_registry.rules.encryption import encrypt_executor
from confluent_kafka.schema_registry.rules.encryption.localkms.local_driver import LocalKmsDriver
from confluent_kafka.schema_registry.rules.jsonata.jsonata_executor import JsonataExecutor
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass

for kind in (
    CelExecutor,
    CelFieldExecutor,
    JsonataExecutor,
    LocalKmsDriver,
    encrypt_executor.EncryptionExecutor,
    encrypt_executor.FieldEncryptionExecutor,
):
    kind.register()

asked = json.load(sys.stdin)
client = SchemaRegistryClient(asked["registry"])
to_read = {"subject.name.strategy.type": "TOPIC", "use.latest.version": asked["latest"]}
to_write = {**to_read, "use.latest.version": True, "auto.register.schemas": False}
rules = {"secret": asked["secret"]}
context = SerializationContext("bills", MessageField.VALUE)
data = bytes.fromhex(asked["data"])
if asked["type"] == "AVRO":
    read = value = AvroDeserializer(client, conf=to_read, rule_conf=rules)(data, context)
    write = AvroSerializer(client, conf=to_write, rule_conf=rules)
elif asked["type"] == "JSON":
    reader = JSONDeserializer(None, schema_registry_client=client, conf=to_read, rule_conf=rules)
    read = value = reader(data, context)
    write = JSONSerializer(None, client, conf=to_write, rule_conf=rules)
else:
    pool = DescriptorPool()
    pool.Add(FileDescriptorProto.FromString(bytes.fromhex(asked["file"])))
    bill = GetMessageClass(pool.FindMessageTypeByName("shop.Bill"))
    value = ProtobufDeserializer(bill, to_read, client, rule_conf=rules)(data, context)
    read = MessageToDict(value)
    write = ProtobufSerializer(bill, client, to_write, rule_conf=rules)
    read["cents"] = int(read["cents"])
print(json.dumps({"read": read, "data": write(copy.deepcopy(value), context).hex()}))
