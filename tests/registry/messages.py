"""Message classes as protoc makes them of two files: shop/line.proto, and shop/order.proto.

package shop;                                    import "shop/line.proto";
message Line {                                   package shop;
  string product = 1;                            message Refund { string order = 1; }
  int64 cents = 2;                               message Order {
}                                                  message Note { string text = 1; }
                                                   string id = 1;
                                                   repeated Line lines = 2;
                                                   map<string, int32> tags = 3;
                                                   Note note = 4;
                                                 }
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

Kind = FieldDescriptorProto


def field(name: str, number: int, kind: Any, type_name: str = "", *, many: bool = False) -> Kind:
    label = Kind.LABEL_REPEATED if many else Kind.LABEL_OPTIONAL
    return Kind(name=name, number=number, type=kind, type_name=type_name or None, label=label)


def message(name: str, *fields: Kind, nested: tuple[DescriptorProto, ...] = ()) -> DescriptorProto:
    return DescriptorProto(name=name, field=fields, nested_type=nested)


TAGS = message("TagsEntry", field("key", 1, Kind.TYPE_STRING), field("value", 2, Kind.TYPE_INT32))
TAGS.options.map_entry = True
LINE_FILE = FileDescriptorProto(
    name="shop/line.proto",
    package="shop",
    syntax="proto3",
    message_type=[
        message("Line", field("product", 1, Kind.TYPE_STRING), field("cents", 2, Kind.TYPE_INT64))
    ],
)
ORDER_FILE = FileDescriptorProto(
    name="shop/order.proto",
    package="shop",
    syntax="proto3",
    dependency=["shop/line.proto"],
    message_type=[
        message("Refund", field("order", 1, Kind.TYPE_STRING)),
        message(
            "Order",
            field("id", 1, Kind.TYPE_STRING),
            field("lines", 2, Kind.TYPE_MESSAGE, ".shop.Line", many=True),
            field("tags", 3, Kind.TYPE_MESSAGE, ".shop.Order.TagsEntry", many=True),
            field("note", 4, Kind.TYPE_MESSAGE, ".shop.Order.Note"),
            nested=(message("Note", field("text", 1, Kind.TYPE_STRING)), TAGS),
        ),
    ],
)


def classes(*files: FileDescriptorProto) -> dict[str, Any]:
    """Return the classes of files, by full name."""
    pool = DescriptorPool()
    for file in files:
        pool.Add(file)
    return {
        name: GetMessageClass(pool.FindMessageTypeByName(name))
        for file in files
        for name in _names(file.package, file.message_type)
    }


def _names(prefix: str, messages: Any) -> list[str]:
    found = []
    for described in messages:
        name = f"{prefix}.{described.name}"
        found += [name, *_names(name, described.nested_type)]
    return found


_CLASSES = classes(LINE_FILE, ORDER_FILE)
Line: Any = _CLASSES["shop.Line"]
Order: Any = _CLASSES["shop.Order"]
Note: Any = _CLASSES["shop.Order.Note"]
Refund: Any = _CLASSES["shop.Refund"]
