"""Classes as values: what is written as JSON is read again, and what does not fit is named."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import math
import uuid
from dataclasses import InitVar, dataclass, field, make_dataclass
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec
import orjson
import pydantic
import pytest

from pystreams import StreamsBuilder, serdes
from pystreams.testing import TopologyTestDriver


class Currency(enum.Enum):
    EURO = "EUR"
    YEN = "JPY"


class Priority(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Line:
    product: str
    price: decimal.Decimal
    quantity: int = 1


@dataclass(frozen=True)
class Order:
    id: uuid.UUID
    customer: str
    placed_at: dt.datetime
    due: dt.date
    currency: Currency
    lines: list[Line] = field(default_factory=list)
    tags: dict[str, float] = field(default_factory=dict)
    note: str | None = None
    priority: Priority = Priority.LOW


ORDER = Order(
    uuid.UUID(int=7),
    "Ada",
    dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
    dt.date(2026, 2, 1),
    Currency.YEN,
    [Line("tea", decimal.Decimal("3.10")), Line("cup", decimal.Decimal(5), 2)],
    {"weight": 1.5},
    priority=Priority.HIGH,
)


class Point(NamedTuple):
    x: int
    y: int = 0


@dataclass
class Path:
    points: list[Point]
    corners: tuple[Point, Point]
    names: dict[int, str]


class Person(TypedDict):
    name: str
    nickname: NotRequired[str]
    parent: NotRequired[Person | None]


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


@dataclass
class Circle:
    radius: float
    kind: Literal["circle"] = "circle"


@dataclass
class Square:
    side: float
    kind: Literal["square"] = "square"


@dataclass
class Drawing:
    shapes: list[Circle | Square]


@dataclass
class Hidden:
    _secret: Line
    shown: dict[Currency, int]


@dataclass(kw_only=True)
class Keywords:
    first: int
    second: str = "s"
    length: int = field(init=False)

    def __post_init__(self) -> None:
        self.length = len(self.second)


class StructModel(msgspec.Struct):
    name: str
    count: int


class PydanticModel(pydantic.BaseModel):
    name: str
    count: int = pydantic.Field(alias="theCount")


def written_and_read(model: Any, value: Any) -> Any:
    serde = serdes.json_of(model)
    return serde.deserializer("t")(serde.serializer("t")(value))


@pytest.mark.parametrize(
    "value",
    [
        ORDER,
        Path([Point(1, 2)], (Point(1), Point(2, 3)), {1: "a", -2: "b"}),
        Tree(1, [Tree(2, [Tree(3)]), Tree(4)]),
        Drawing([Circle(1.5), Square(2.5)]),
        Hidden(Line("tea", decimal.Decimal(1)), {Currency.EURO: 3}),
        Keywords(first=3, second="four"),
        Point(3, 4),
        StructModel("a", 3),
        PydanticModel(name="a", theCount=3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back_equal_and_of_its_class(value: Any) -> None:
    again = written_and_read(type(value), value)

    assert again == value
    assert type(again) is type(value)


def test_a_typed_dict_comes_back_with_the_keys_it_had() -> None:
    person: Person = {"name": "Ada", "parent": {"name": "Byron"}}

    assert written_and_read(Person, person) == person


def test_the_json_is_what_others_would_write() -> None:
    data = serdes.json_of(Order).serializer("t")(ORDER)

    assert orjson.loads(data) == {
        "id": "00000000-0000-0000-0000-000000000007",
        "customer": "Ada",
        "placed_at": "2026-01-02T03:04:05+00:00",
        "due": "2026-02-01",
        "currency": "JPY",
        "lines": [
            {"product": "tea", "price": "3.10", "quantity": 1},
            {"product": "cup", "price": "5", "quantity": 2},
        ],
        "tags": {"weight": 1.5},
        "note": None,
        "priority": 2,
    }


GOOD_LINE: dict[str, object] = {"product": "tea", "price": "1.5", "quantity": 1}
GOOD: dict[str, object] = {
    "id": str(uuid.UUID(int=7)),
    "customer": "Ada",
    "placed_at": "2026-01-02T03:04:05Z",
    "due": "2026-02-01",
    "currency": "EUR",
    "lines": [GOOD_LINE],
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"customer": 3}, "Order.customer: expected a string, found an integer"),
        ({"customer": None}, "Order.customer: expected a string, found null"),
        ({"id": "x"}, "Order.id: expected a UUID, found another string"),
        ({"due": "soon"}, "Order.due: expected a date (ISO 8601), found another string"),
        (
            {"placed_at": 3},
            "Order.placed_at: expected a date and time (ISO 8601), found an integer",
        ),
        ({"currency": "USD"}, "Order.currency: expected one of 'EUR', 'JPY', found another string"),
        ({"currency": ["EUR"]}, "Order.currency: expected one of 'EUR', 'JPY', found an array"),
        ({"priority": True}, "Order.priority: expected one of 1, 2, found a boolean"),
        ({"lines": {}}, "Order.lines: expected an array, found an object"),
        (
            {"lines": [GOOD_LINE, {**GOOD_LINE, "quantity": 1.5}]},
            "Order.lines[1].quantity: expected an integer, found a number",
        ),
        (
            {"lines": [{**GOOD_LINE, "price": 1.5}]},
            "Order.lines[0].price: expected a decimal number as a string, found a number",
        ),
        ({"lines": [{}]}, "Order.lines[0].product: expected a value, found no such field"),
        ({"lines": [3]}, "Order.lines[0]: expected an object (Line), found an integer"),
        ({"tags": {"a": "b"}}, "Order.tags.a: expected a number, found a string"),
        ({"note": 3}, "Order.note: expected a string, found an integer"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(changes: dict[str, object], message: str) -> None:
    read = serdes.json_of(Order).deserializer("t")

    with pytest.raises(ValueError) as caught:
        read(orjson.dumps(GOOD | changes))

    assert str(caught.value) == message


def test_a_union_that_nothing_fits_tells_of_each_choice() -> None:
    read = serdes.json_of(Drawing).deserializer("t")

    with pytest.raises(ValueError, match=r"Drawing\.shapes\[0\]: .*kind: .*'circle'.*'square'"):
        read(b'{"shapes": [{"kind": "star", "radius": 1, "side": 2}]}')


def test_unknown_fields_are_ignored_unless_strict() -> None:
    data = orjson.dumps(GOOD | {"lines": [{**GOOD_LINE, "colour": "red"}]})

    assert serdes.json_of(Order).deserializer("t")(data).lines[0].product == "tea"
    with pytest.raises(ValueError, match=r"Order\.lines\[0\]\.colour: .* no such field in Line"):
        serdes.json_of(Order, strict=True).deserializer("t")(data)


def test_strict_reads_what_it_wrote_where_the_constructor_makes_a_field() -> None:
    serde = serdes.json_of(Keywords, strict=True)

    assert serde.deserializer("t")(serde.serializer("t")(Keywords(first=1))) == Keywords(first=1)


def test_a_whole_number_is_read_where_a_number_is_asked_for() -> None:
    drawing = serdes.json_of(Drawing).deserializer("t")(b'{"shapes":[{"kind":"square","side":2}]}')

    assert drawing == Drawing([Square(2.0)])


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (StructModel, b'{"name": "a", "count": "b"}', r"^StructModel\.count: .*int"),
        (PydanticModel, b'{"name": "a", "theCount": "b"}', r"PydanticModel\.theCount: "),
    ],
)
def test_models_of_other_packages_name_the_field_too(model: Any, data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        serdes.json_of(model).deserializer("t")(data)

    assert "input_value" not in str(caught.value)


@pytest.mark.parametrize("model", [StructModel, PydanticModel])
def test_models_of_other_packages_say_themselves_what_is_strict(model: Any) -> None:
    with pytest.raises(TypeError, match="forbid"):
        serdes.json_of(model, strict=True)


@pytest.mark.parametrize("model", [Order, StructModel, PydanticModel, Person, Point])
def test_a_value_of_another_class_is_not_written(model: Any) -> None:
    with pytest.raises(TypeError, match=rf"json_of\({model.__name__}\) takes a .*, not int"):
        serdes.json_of(model).serializer("t")(3)


@dataclass
class Reading:
    name: str
    celsius: float | None = None
    after: list[Line | float] = field(default_factory=list)


@dataclass
class Unset:
    celsius: float | None = None
    later: float = field(init=False, repr=False)


class StructReading(msgspec.Struct):
    name: str
    celsius: float | None = None


class PydanticReading(pydantic.BaseModel):
    name: str
    celsius: float | None = None
    within: list[PydanticReading] = []


class Spelled(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_inf_nan="strings")
    celsius: float
    note: str | None = None


class Span(NamedTuple):
    start: float
    end: float


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Reading("roof", math.nan), r"Reading\.celsius: nan has no form in JSON: make it None"),
        (Reading("roof", None, [1.0, -math.inf]), r"Reading\.after\[1\]: -inf has no form in JSON"),
        (Span(math.inf, 1.0), r"Span\.start: inf has no form in JSON"),
        (StructReading("roof", math.nan), r"StructReading\.celsius: nan has no form"),
        (PydanticReading(name="roof", celsius=math.nan), r"PydanticReading\.celsius: nan has no"),
        (
            PydanticReading(name="roof", within=[PydanticReading(name="wall", celsius=math.inf)]),
            r"PydanticReading\.within\[0\]\.celsius: inf has no form",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_number_that_json_has_not_is_refused_with_its_path(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        serdes.json_of(type(value)).serializer("t")(value)


@pytest.mark.parametrize(
    "value",
    [
        Reading("null", None, [Line("null", decimal.Decimal("NaN")), 1.5]),
        Unset(),
        StructReading("null"),
        PydanticReading(name="null", within=[PydanticReading(name="wall", celsius=1.5)]),
        Spelled(celsius=math.inf),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_null_that_stands_for_nothing_else_is_written(value: Any) -> None:
    assert repr(written_and_read(type(value), value)) == repr(value)


class Access(enum.Flag, boundary=enum.STRICT):
    READ = 1
    WRITE = 2


@dataclass
class Grants:
    own: Access
    by_group: dict[Access, int]
    by_priority: dict[Priority, Access] = field(default_factory=dict)


def test_flags_that_are_combined_come_back_also_as_keys() -> None:
    both = Access.READ | Access.WRITE
    grants = Grants(both, {both: 1, Access.READ: 2}, {Priority.HIGH: Access(0)})

    assert written_and_read(Grants, grants) == grants
    with pytest.raises(ValueError, match=r"Grants\.own: expected"):
        serdes.json_of(Grants).deserializer("t")(b'{"own":4,"by_group":{}}')


class Corner(enum.Enum):
    LEFT = (0, 1)


@dataclass
class WithTuples:
    corner: Corner


@dataclass
class WithFlagKeys:
    by_flag: dict[bool, int]


@dataclass
class WithNumberKeys:
    by_number: dict[float, int]


@dataclass
class WithOneOfKeys:
    by_choice: dict[Literal[1, "two"], int]


@dataclass
class WithInitVar:
    given: InitVar[int]
    kept: int = 0


@dataclass
class WithBytes:
    data: bytes


@dataclass
class WithSet:
    inner: list[set[int]]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (WithBytes, "WithBytes holds bytes, which have no form in JSON"),
        (WithSet, r"WithSet\.inner: set.* can't be read"),
        (WithTuples, r"WithTuples\.corner: Corner can't be read: .*text or numbers"),
        (WithFlagKeys, r"WithFlagKeys\.by_flag: keys of bool can't be read"),
        (WithNumberKeys, r"WithNumberKeys\.by_number: keys of float can't be read"),
        (WithOneOfKeys, r"WithOneOfKeys\.by_choice: keys of .*Literal.* can't be read"),
        (WithInitVar, r"WithInitVar\.given is an InitVar"),
    ],
)
def test_a_type_that_has_no_json_is_refused_when_the_serde_is_made(
    model: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        serdes.json_of(model)


def test_a_class_whose_annotations_are_unknown_names_is_refused_with_the_cure() -> None:
    @dataclass
    class Local:
        tree: Inner

    @dataclass
    class Inner:
        value: int

    with pytest.raises(TypeError, match=r"Local can't be read: .*'Inner'.*top of a module"):
        serdes.json_of(Local)


def test_a_topology_reads_and_writes_classes() -> None:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key_serde=serdes.STRING, value_serde=serdes.json_of(Order))
    first_lines = orders.map_values(lambda order: order.lines[0])
    first_lines.to("lines", value_serde=serdes.json_of(Line))

    with TopologyTestDriver(builder.build()) as driver:
        orders_in = driver.create_input_topic("orders", serdes.STRING, serdes.json_of(Order))
        lines_out = driver.create_output_topic("lines", serdes.STRING, serdes.json_of(Line))
        orders_in.pipe_input("k", ORDER)
        assert lines_out.read_key_values() == [("k", ORDER.lines[0])]


def test_paths_look_the_same_whichever_package_finds_the_misfit() -> None:
    class LineStruct(msgspec.Struct):
        product: int

    class LineModel(pydantic.BaseModel):
        product: int

    @dataclass
    class LineClass:
        product: int

    others: list[Any] = [
        msgspec.defstruct("Other", [("lines", list[LineStruct])]),
        pydantic.create_model("Other", lines=(list[LineModel], ...)),
        make_dataclass("Other", [("lines", list[LineClass])]),
    ]

    for other in others:
        with pytest.raises(ValueError, match=r"^Other\.lines\[1\]\.product: "):
            serdes.json_of(other).deserializer("t")(
                b'{"lines": [{"product": 1}, {"product": "tea"}]}'
            )
        with pytest.raises(ValueError, match=r"^Other: "):
            serdes.json_of(other).deserializer("t")(b"7")
