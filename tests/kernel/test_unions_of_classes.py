"""A value of a union of classes comes back as its own class, or the union is refused."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import orjson
import pytest

from pystreams import StreamsBuilder, serdes
from pystreams.testing import TopologyTestDriver


@dataclass
class Paid:
    order: str


@dataclass
class Refunded:
    order: str
    reason: str = ""


class Shipped(NamedTuple):
    order: str
    carrier: str
    days: int = 3


@dataclass
class Event:
    what: Paid | Refunded | Shipped | None
    before: list[Refunded | Paid] = field(default_factory=list)


@dataclass
class Celsius:
    value: int


@dataclass
class Named:
    value: str


@dataclass
class Card:
    amount: int
    kind: Literal["card"] = "card"


@dataclass
class Cash:
    amount: int
    kind: Literal["cash"] = "cash"


@dataclass
class CashInParts:
    amount: int
    parts: list[int] = field(default_factory=list)
    kind: Literal["parts"] = "parts"


@dataclass
class Branch:
    left: Branch | Leaf
    right: Branch | Leaf


@dataclass
class Leaf:
    value: int


class Given(TypedDict):
    name: str
    nickname: NotRequired[str]


class Other(TypedDict):
    name: str
    age: NotRequired[int]


def holder(annotation: Any) -> Any:
    @dataclass
    class Holder:
        value: Any

    Holder.__annotations__["value"] = annotation
    return Holder


def read_of(annotation: Any) -> Any:
    read = serdes.json_of(holder(annotation)).deserializer("t")
    return lambda plain: read(orjson.dumps({"value": plain})).value


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Paid | Refunded, Paid("A-1")),
        (Paid | Refunded, Refunded("A-1", "broken")),
        (Paid | Refunded, Refunded("A-1")),
        (Refunded | Paid, Paid("A-1")),
        (Refunded | Paid | None, None),
        (Paid | Refunded | Shipped, Shipped("A-1", "post")),
        (Celsius | Named, Celsius(3)),
        (Celsius | Named, Named("3")),
        (Card | Cash | CashInParts, Cash(3)),
        (Card | Cash | CashInParts, CashInParts(3, [1, 2])),
        (str | Paid | Refunded, Refunded("A-1")),
        (str | Paid | Refunded, "A-1"),
        (list[Paid | Refunded] | str, [Refunded("A-1"), Paid("A-2")]),
        (Branch | Leaf, Branch(Leaf(1), Branch(Leaf(2), Leaf(3)))),
        (Given | Other, {"name": "Ada", "age": 3}),
        (Given | Other, {"name": "Ada", "nickname": "A."}),
    ],
    ids=str,
)
def test_a_value_of_a_union_comes_back_as_its_own_class(annotation: Any, value: Any) -> None:
    model = holder(annotation)
    serde = serdes.json_of(model)

    assert serde.deserializer("t")(serde.serializer("t")(model(value))).value == value


def test_a_value_of_a_union_is_its_own_class_behind_a_repartition_topic() -> None:
    serde = serdes.json_of(Event)
    event = Event(Refunded("A-1", "broken"), [Paid("A-1"), Refunded("A-0")])
    builder = StreamsBuilder()
    events = builder.stream("in", key_serde=serdes.STRING, value_serde=serde)
    events.repartition(name="r").to("out")

    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", serdes.STRING, serde).pipe_input("k", event)
        out = driver.create_output_topic("out", serdes.STRING, serde)
        assert out.read_values() == [event]


@pytest.mark.parametrize(
    ("annotation", "plain", "value"),
    [
        # Of others, who have added a field.
        (Paid | Refunded, {"order": "A", "by": "Ada"}, Paid("A")),
        (Refunded | Paid, {"order": "A", "by": "Ada"}, Paid("A")),
        (Paid | Refunded, {"order": "A", "reason": "b", "by": "Ada"}, Refunded("A", "b")),
        (Card | CashInParts, {"amount": 1, "kind": "card", "parts": []}, Card(1)),
        # Of a time before there was a field with a default.
        (Card | Cash, {"amount": 1}, Card(1)),
        (Refunded | Shipped, {"order": "A", "carrier": "post"}, Shipped("A", "post")),
        # A class needs a field that is not there.
        (Shipped | Paid, {"order": "A", "days": 3}, Paid("A")),
        # Fields of the same names are told apart by their types, also where one is missing.
        (Named | Celsius, {"value": 3}, Celsius(3)),
    ],
    ids=str,
)
def test_data_of_others_are_read_as_the_class_that_fits_best(
    annotation: Any, plain: Any, value: Any
) -> None:
    assert read_of(annotation)(plain) == value


def test_a_field_that_does_not_fit_the_class_of_its_names_is_told_and_not_lost() -> None:
    read = read_of(Paid | Refunded)

    with pytest.raises(ValueError, match=r"value\.reason: expected a string, found an integer"):
        read({"order": "A", "reason": 7})


@dataclass
class A:
    x: int


@dataclass
class B:
    x: int


@dataclass
class Fraction:
    x: float


@dataclass
class Day:
    x: dt.date


@dataclass
class Text:
    x: str


@dataclass
class Tagged:
    x: int
    kind: Literal["a", "b"] = "a"


@dataclass
class TaggedLikewise:
    x: int
    kind: Literal["b"] = "b"


@dataclass
class HoldsPaid:
    x: Paid


@dataclass
class HoldsRefunded:
    x: Refunded


class Keys(TypedDict):
    x: int
    y: NotRequired[int]


@pytest.mark.parametrize(
    "annotation",
    [
        A | B,
        A | B | None,
        A | Fraction,
        Day | Text,
        Tagged | TaggedLikewise,
        HoldsPaid | HoldsRefunded,
        A | Keys,
        list[A | B],
        list[Paid] | list[Refunded],
        dict[str, A] | dict[str, B],
    ],
    ids=str,
)
def test_a_union_of_classes_that_look_alike_is_refused_when_the_serde_is_made(
    annotation: Any,
) -> None:
    with pytest.raises(TypeError, match=r"Holder\.value: .* can't be told apart"):
        serdes.json_of(holder(annotation))


def test_the_error_names_the_classes_their_fields_and_the_cure() -> None:
    with pytest.raises(TypeError) as caught:
        serdes.json_of(holder(A | B))

    assert str(caught.value) == (
        "Holder.value: A and B can't be told apart: what is written of them has the same fields "
        '(x); give each a field that tells them apart, such as kind: Literal["a"] = "a"'
    )
