"""What an aggregation is: how a state is made of records, and which result it stands for.

A mean keeps a sum and a count, and says a number. What is kept is the *state* (S): it is in the
store and in its changelog, in bytes of its own. What downstream gets, and who queries the store, is
the *result* (R). So a sketch or a sum may be kept in whatever form is exact and small.

States are values: an aggregator returns a new one, or the same if nothing has changed, and leaves
the one it was given as it is. A state of None is no state: the key or group has no row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CoroutineType
from typing import Any, Generic, TypeVar

from pystreams.errors import TopologyError
from pystreams.kernel.async_functions import refuse_coroutine
from pystreams.serdes import Serde
from pystreams.topology.aggregations.state_bytes import OfParts, Parts
from pystreams.topology.contracts.user_functions import VALUE, checked

V_contra = TypeVar("V_contra", contravariant=True)
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")

Select = Callable[[Any], Any]
"""Called with a value; returns what is aggregated of it, None for nothing."""


@dataclass(frozen=True)
class Aggregation(Generic[V_contra, S, R_co]):
    """An aggregation of values, which keeps a state and has a result: `Aggregation[V, S, R]`.

    `grouped.aggregate(aggregation, name="mean-price")` makes a `KTable[K, R]`. The functions
    `count`, `sum`, `mean` and so on return ready ones; one of your own is made of its parts.

    Attributes:
        name: What error messages call it.
        initializer: Returns the state before the first record; None if that is no state.
        aggregator: Called with (key, value, so far); returns the new state, None to have none.
        merger: Called with (key, so far, other) when two sessions become one; `other` is the later
            one, and `so far` may be what the initializer returns.
        result: Called with the state; returns the result, never None.
        subtractor: Called with (key, value, so far); undoes what the aggregator did with a value.
            None if that can't be undone: tables can't be aggregated so.
        result_serde: Serde of the result, for what follows; None if it is not known.
        with_timestamp: Whether the aggregator is called with (key, value, so far, timestamp in ms).
    """

    name: str
    initializer: Callable[[], S]
    aggregator: Callable[..., S]
    merger: Callable[[Any, S, S], S]
    serde: Serde[S]
    result: Callable[[S], R_co]
    subtractor: Callable[[Any, V_contra, S], S] | None = None
    result_serde: Serde[R_co] | None = None
    with_timestamp: bool = False

    def __post_init__(self) -> None:
        """Refuse functions of other parameters."""
        given = ("key", "value", "so_far")
        timed = (*given, "timestamp") if self.with_timestamp else given
        checked(self.initializer, self.name, ())
        checked(self.aggregator, self.name, timed)
        checked(self.merger, self.name, ("key", "so_far", "other"))
        checked(self.result, self.name, ("state",))
        if self.subtractor is not None:
            checked(self.subtractor, self.name, given)
            if self.with_timestamp:
                raise TopologyError(
                    f"{self.name}: what depends on timestamps can't be undone: leave out the "
                    "subtractor, or with_timestamp"
                )

    def state_serde(self) -> AggregationSerde:
        """Return the serde of a store that keeps states and shows results."""
        return AggregationSerde(self.serde, self.result, self.name)

    def check_alone(self, *functions: object) -> None:
        """Refuse functions that were given beside the aggregation, which has its own.

        Raises:
            TopologyError: There are some.
        """
        if any(function is not None for function in functions):
            raise TopologyError(
                f"aggregate: {self.name} brings its own functions: give options alone beside it"
            )

    def subtractor_or_raise(self) -> Callable[[Any, V_contra, S], S]:
        """Return the subtractor, for a table whose rows change.

        Raises:
            TopologyError: There is none.
        """
        if self.subtractor is not None:
            return self.subtractor
        raise TopologyError(
            f"{self.name} can't aggregate a table: when a row changes, its old value must be taken "
            "out again, and the state does not tell what it was without it. "
            "Aggregate a stream instead (KStream.group_by), or give aggregate(...) an initializer, "
            "an adder and a subtractor of your own"
        )


class AggregationSerde:
    """Reads and writes states; shows results to who queries the store.

    Attributes:
        parts: What can differ between the states of two aggregations of one name.
    """

    def __init__(self, serde: Serde[Any], result: Callable[[Any], Any], name: str) -> None:
        self.parts: Parts = serde.parts if isinstance(serde, OfParts) else {"state": serde}
        self._serde = serde
        self._result = result
        self._name = name

    def serializer(self, topic: str) -> Callable[[Any], bytes]:
        """Return the function that writes states."""
        return self._serde.serializer(topic)

    def deserializer(self, topic: str) -> Callable[[bytes], Any]:
        """Return the function that reads states."""
        return self._serde.deserializer(topic)

    def result_deserializer(self, topic: str) -> Callable[[bytes], Any]:
        """Return the function that reads results."""
        deserialize, result = self._serde.deserializer(topic), self._result
        return lambda data: result(deserialize(data))

    def __repr__(self) -> str:
        return f"states of {self._name}"


@dataclass(frozen=True)
class Growth(Generic[S]):
    """How a state grows by values that were selected; none of them is None.

    Attributes:
        begin: Called with (value); returns the state of that value alone.
        add: Called with (state, value).
        merge: Called with (state, state).
        subtract: Called with (state, value); None as a result leaves no state.
        with_timestamp: Whether `begin` and `add` are called with the timestamp (ms) as well.
    """

    begin: Callable[..., S]
    add: Callable[..., S]
    merge: Callable[[S, S], S]
    subtract: Callable[[S, Any], S | None] | None = None
    with_timestamp: bool = False


def aggregation_of(
    name: str,
    select: Select | None,
    growth: Growth[S],
    serde: Serde[S],
    result: Callable[[S], R],
    result_serde: Serde[R] | None = None,
) -> Aggregation[Any, Any, R]:
    """Return the aggregation of selected values; one of which nothing is selected changes nothing.

    A value of None is none: of windows aggregators get such values.

    Args:
        select: The user's function; None takes the values themselves.
        result_serde: Serde of the result, if it is known.

    Raises:
        TopologyError: `select` is no function of a value.
    """
    full_name = f"aggregations.{name}"
    chosen = _itself if select is None else _refusing_coroutines(checked(select, full_name, VALUE))
    begin, add, merge, subtract = growth.begin, growth.add, growth.merge, growth.subtract

    def aggregator(_key: Any, value: Any, so_far: Any) -> Any:
        selected = None if value is None else chosen(value)
        if selected is None:
            return so_far
        return begin(selected) if so_far is None else add(so_far, selected)

    def aggregator_of_values(_key: Any, value: Any, so_far: Any) -> Any:
        if value is None:
            return so_far
        return begin(value) if so_far is None else add(so_far, value)

    def timed_aggregator(_key: Any, value: Any, so_far: Any, timestamp: int) -> Any:
        selected = None if value is None else chosen(value)
        if selected is None:
            return so_far
        if so_far is None:
            return begin(selected, timestamp)
        return add(so_far, selected, timestamp)

    def merger(_key: Any, so_far: Any, other: Any) -> Any:
        if so_far is None or other is None:
            return other if so_far is None else so_far
        return merge(so_far, other)

    def subtractor(_key: Any, value: Any, so_far: Any) -> Any:
        selected = chosen(value)
        if selected is None or so_far is None or subtract is None:
            return so_far
        return subtract(so_far, selected)

    if growth.with_timestamp:
        chosen_aggregator: Callable[..., Any] = timed_aggregator
    else:
        chosen_aggregator = aggregator_of_values if select is None else aggregator
    return Aggregation(
        full_name,
        no_state,
        chosen_aggregator,
        merger,
        serde,
        result,
        None if subtract is None else subtractor,
        result_serde,
        with_timestamp=growth.with_timestamp,
    )


def _itself(value: Any) -> Any:
    return value


def _refusing_coroutines(select: Select) -> Select:
    """Return the user's function, refused where it makes a coroutine instead of a value."""

    def chosen(value: Any) -> Any:
        selected = select(value)
        if type(selected) is CoroutineType:
            refuse_coroutine(selected)
        return selected

    return chosen


def no_state() -> Any:
    """Return the state before the first record, of all ready aggregations."""
    return None
