"""`/v1/stores`: what the stores of the application hold, as JSON.

Each answer says how far its partition had come.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from pystreams.http.responses import RequestError, as_json
from pystreams.http.stores import store_answers
from pystreams.http.stores.owners import Owners
from pystreams.http.stores.store_answers import Answers
from pystreams.http.stores.store_requests import (
    Terms,
    key_of,
    limit_of,
    query_of_key,
    query_of_range,
    terms_of,
)
from pystreams.runtime.application.kafka_streams import KafkaStreams
from pystreams.runtime.queries.query_results import FailureReason, QueryResult
from pystreams.serdes import BYTES, Serde, filled
from pystreams.stores.contracts.queries import Query
from pystreams.stores.contracts.spec import StoreSpec


class Elsewhere(NamedTuple):
    """What is asked for is in another process."""

    partition: int


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

    async def names(self, _: Request) -> Response:
        """Answer which stores there are, and what they can be asked."""
        return as_json([store_answers.described(spec) for spec in self._specs.values()])

    async def value(self, request: Request) -> Response:
        """Answer what a store has of one key, here or in the process that has its partition."""
        names = request.path_params
        answer = self.of_key(names["store"], names["key"], request.query_params)
        if isinstance(answer, Elsewhere):
            return await self._owners.ask(request, names["store"], answer.partition)
        return as_json(answer)

    def of_key(self, store: str, text: str, given: QueryParams) -> dict[str, Any] | Elsewhere:
        """Return what a store has of the key that a text stands for, or where that is.

        Raises:
            RequestError: It can't be answered.
        """
        spec = self._spec(store)
        key = key_of(text, self._key_serdes[store])
        query, terms = query_of_key(spec, key, given), terms_of(given)
        number = terms.partition
        if number is None:
            number = self._streams.partition_of_key(store, key)
        found = self._ask(spec, query, terms, number)
        if number is not None and _is_elsewhere(found, number):
            return Elsewhere(number)
        store_answers.check(found)
        answer = store_answers.answer_of_key(spec, query, key, found)
        if answer is None and terms.partition is None:
            # Its topic may be partitioned by another rule than Kafka's own.
            local = self._ask(spec, query, terms, None)
            others = {where: result for where, result in local.items() if result.is_success}
            answer = store_answers.answer_of_key(spec, query, key, others)
        if answer is None:
            positions = [store_answers.position_of(result.position) for result in found.values()]
            raise RequestError(
                404,
                f"there is no key {key!r} in partition {number}, where Kafka's partitioner has it",
                partition=number,
                position=positions[0],
            )
        return answer

    async def entries(self, request: Request) -> Response:
        """Answer what a store has of a range, partition by partition."""
        store = request.path_params["store"]
        answer = await run_in_threadpool(self._entries, store, request.query_params)
        if isinstance(answer, Elsewhere):
            return await self._owners.ask(request, store, answer.partition)
        return answer

    def _entries(self, store: str, given: QueryParams) -> Response | Elsewhere:
        """Return what is here, or where the partition is that is asked for."""
        spec = self._spec(store)
        query = query_of_range(spec, self._key_serdes[store], given)
        limit, terms = limit_of(given), terms_of(given)
        found = self._ask(spec, query, terms, terms.partition)
        number = terms.partition
        if number is not None and _is_elsewhere(found, number):
            return Elsewhere(number)
        store_answers.check(found)
        partitions = store_answers.answer_of_range(spec, query, found, limit)
        elsewhere = [] if terms.partition is not None else self._elsewhere(spec, found)
        return as_json({"partitions": partitions, "elsewhere": elsewhere})

    # ------------------------------------------------------------------ inside

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
