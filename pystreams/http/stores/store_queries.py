"""`/v1/stores`: what the stores of the application hold, as JSON.

Each answer says how far its partition had come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from pystreams.http.responses import RequestError, as_json, as_problem
from pystreams.http.stores import store_answers
from pystreams.http.stores.byte_keys import key_text_of, parameters_of
from pystreams.http.stores.owners import FORWARDED_HEADER, Owners
from pystreams.http.stores.plain_keys import PlainKeys
from pystreams.http.stores.store_answers import Answers
from pystreams.http.stores.store_requests import (
    Terms,
    key_of_store,
    key_reading,
    limit_of,
    plain_query,
    query_of_key,
    query_of_range,
    terms_of,
)
from pystreams.runtime.application.kafka_streams import KafkaStreams
from pystreams.runtime.cluster.streams_metadata import HostInfo
from pystreams.runtime.queries.query_results import FailureReason, QueryResult
from pystreams.serdes import BYTES, Serde, filled
from pystreams.stores.contracts.queries import Query
from pystreams.stores.contracts.spec import StoreSpec


class Elsewhere(NamedTuple):
    """What is asked for is in another process, or may be.

    Attributes:
        partitions: Where it may be.
        missing: What to say if it is in none of them; None: what the only one says.
    """

    partitions: Sequence[int]
    missing: RequestError | None = None


class _KeyQuestion(NamedTuple):
    """A question for a key; `number` is its partition by Kafka's own partitioner, or as asked."""

    spec: StoreSpec
    key: Any
    query: Query[Any]
    terms: Terms
    number: int | None


class StoreQueries:
    """Queries to the stores of one application."""

    def __init__(self, streams: KafkaStreams, owners: Owners) -> None:
        self._streams = streams
        self._owners = owners
        stores = streams.topology.stores
        self._specs = {name: builder.spec for name, builder in stores.items()}
        default = streams.config.default_key_serde
        self._key_serdes: dict[str, Serde[Any]] = {
            name: filled(spec.key_serde, default) or BYTES for name, spec in self._specs.items()
        }
        self._plain_keys = {
            name: PlainKeys(streams, spec, key_reading(self._key_serdes[name]), query)
            for name, spec in self._specs.items()
            if (query := plain_query(spec)) is not None
        }

    async def names(self, _: Request) -> Response:
        """Answer which stores there are, and what they can be asked."""
        return as_json([store_answers.described(spec) for spec in self._specs.values()])

    async def value(self, request: Request) -> Response:
        """Answer what a store has of one key, here or in the process that has its partition."""
        store, text = request.path_params["store"], key_text_of(request)
        if FORWARDED_HEADER in request.headers and "partition" not in request.query_params:
            return as_json(self._here(store, text, request.query_params))
        answer = self.of_key(store, text, request.query_params)
        if isinstance(answer, Elsewhere):
            return await run_in_threadpool(self._from_others, request, store, text, answer)
        return as_json(answer)

    def of_key(self, store: str, text: str, given: QueryParams) -> dict[str, Any] | Elsewhere:
        """Return what a store has of the key that a text stands for, or where that is.

        Raises:
            RequestError: It can't be answered.
        """
        if not given and (plain := self._plainly(store, text)) is not None:
            return plain
        asked = self._question(store, text, given)
        spec, key, query, terms, number = asked
        found = self._ask(spec, query, terms, number)
        if number is not None and _is_elsewhere(found, number):
            return Elsewhere([number])
        store_answers.check(found)
        answer = store_answers.answer_of_key(spec, query, key, found)
        if answer is not None:
            return answer
        (result,) = found.values()
        missing = _no_key(asked, store_answers.position_of(result.position))
        if number is None or terms.partition is not None:
            raise missing
        return self._in_other_partitions(asked, missing)

    def plain_keys(self, store: str) -> PlainKeys | None:
        """Return what finds keys that are asked for without parameters; None: ask as ever."""
        return self._plain_keys.get(store)

    def known_owner(self, store: str, number: int) -> HostInfo | None:
        """Return the process that had a partition a moment ago; None if none is known to."""
        return self._streams.known_owner_of(store, number)

    def _here(self, store: str, text: str, given: QueryParams) -> dict[str, Any]:
        """Return what the partitions of this process have of a key.

        Raises:
            RequestError: It can't be answered, or none of them has it: that is told with them.
        """
        spec, key, query, terms, _ = self._question(store, text, given)
        found = self._ask(spec, query, terms, None)
        store_answers.check(found)
        answer = store_answers.answer_of_key(spec, query, key, found)
        if answer is None:
            message = f"there is no key {key!r} in the partitions of store {store!r} here"
            raise RequestError(
                404, message, partitions=sorted(number for number in found if number is not None)
            )
        return answer

    async def entries(self, request: Request) -> Response:
        """Answer what a store has of a range, partition by partition."""
        store = request.path_params["store"]
        answer = await run_in_threadpool(self._entries, store, parameters_of(request))
        if isinstance(answer, Elsewhere):
            return await run_in_threadpool(self._owners.ask, request, store, answer.partitions[0])
        return answer

    def _entries(self, store: str, given: QueryParams) -> Response | Elsewhere:
        """Return what is here, or where the partition is that is asked for."""
        spec = self._spec(store)
        query = query_of_range(spec, self._key_serdes[store], given)
        limit, terms = limit_of(given), terms_of(given)
        found = self._ask(spec, query, terms, terms.partition)
        number = terms.partition
        if number is not None and _is_elsewhere(found, number):
            return Elsewhere([number])
        store_answers.check(found)
        partitions = store_answers.answer_of_range(spec, query, found, limit)
        elsewhere = [] if terms.partition is not None else self._elsewhere(spec, found)
        return as_json({"partitions": partitions, "elsewhere": elsewhere})

    # ------------------------------------------------------------------ inside

    def _plainly(self, store: str, text: str) -> dict[str, Any] | Elsewhere | None:
        """Return what is found at once; None: ask as ever."""
        keys = self._plain_keys.get(store)
        if keys is None:
            return None
        try:
            found = keys.ask(text)
        except Exception:  # noqa: BLE001 - it is met again
            return None
        return Elsewhere([found]) if isinstance(found, int) else found

    def _question(self, store: str, text: str, given: QueryParams) -> _KeyQuestion:
        spec = self._spec(store)
        key = key_of_store(text, spec, self._key_serdes[store])
        query, terms = query_of_key(spec, key, given), terms_of(given)
        number = terms.partition
        if number is None:
            number = self._streams.partition_of_key(store, key)
        return _KeyQuestion(spec, key, query, terms, number)

    def _in_other_partitions(
        self, asked: _KeyQuestion, missing: RequestError
    ) -> dict[str, Any] | Elsewhere:
        """Return what the other partitions have of a key that is not where it was looked for.

        Its topic may be partitioned by another rule than Kafka's own, or the key be spelled there
        otherwise than its serde does.
        """
        spec, key, query, terms, number = asked
        found = {**self._ask(spec, query, terms, None)}
        found.pop(number, None)
        answered = {where: result for where, result in found.items() if result.is_success}
        answer = store_answers.answer_of_key(spec, query, key, answered)
        if answer is not None:
            return answer
        store_answers.check(found)
        elsewhere = [other for other in self._elsewhere(spec, found) if other != number]
        if not elsewhere:
            raise missing
        return Elsewhere(elsewhere, missing)

    def _from_others(self, request: Request, store: str, text: str, where: Elsewhere) -> Response:
        """Answer what other processes have of a key; waits for them."""
        partitions, missing = where
        if missing is None:
            answer = self._owners.ask(request, store, partitions[0])
            position = store_answers.position_where_no_key_is(answer)
            if position is None or "partition" in request.query_params:
                return answer
            asked = self._question(store, text, request.query_params)
            missing = _no_key(asked, position)
            found = self._in_other_partitions(asked, missing)
            if not isinstance(found, Elsewhere):
                return as_json(found)
            partitions = found.partitions
        return self._owners.first_found(request, store, partitions) or as_problem(missing)

    def _spec(self, name: str) -> StoreSpec:
        spec = self._specs.get(name)
        if spec is None:
            known = sorted(self._specs)
            raise RequestError(404, f"there is no store {name!r}; there are: {', '.join(known)}")
        return spec

    def _elsewhere(self, spec: StoreSpec, found: Answers) -> list[int]:
        """Return the partitions of a store that other processes have."""
        count = self._streams.num_partitions_of_store(spec.name)
        return sorted(set(range(count)) - set(found))

    def _ask(self, spec: StoreSpec, query: Query[Any], terms: Terms, number: int | None) -> Answers:
        """Return what a partition answers, or all that are here."""
        result = self._streams.query(
            query,
            store=spec.name,
            partitions=None if number is None else [number],
            isolation_level=terms.isolation_level,
            position_bound=terms.position_bound,
        )
        if result.global_result is not None:
            return {None: result.global_result}
        found: dict[int | None, QueryResult[Any]] = {}
        found.update(result.partition_results.items())
        return found


def _is_elsewhere(found: Answers, number: int) -> bool:
    answer = found.get(number)  # None of a global store, which has no partitions.
    return answer is not None and answer.failure_reason is FailureReason.NOT_PRESENT


def _no_key(asked: _KeyQuestion, position: Any) -> RequestError:
    """Return what to say of a key that is not there."""
    store, number = asked.spec.name, asked.number
    if number is None:
        where = f"in store {store!r}"
    elif asked.terms.partition is not None:
        where = f"in partition {number} of store {store!r}"
    else:
        where = f"in any partition of store {store!r}: Kafka's partitioner has it in {number}"
    message = f"there is no key {asked.key!r} {where}"
    return RequestError(404, message, partition=number, position=position)
