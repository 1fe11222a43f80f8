"""`/v1/stores`: what the stores of this process hold, as JSON.

Each answer says how far its partition had come.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from pystreams.http import store_answers
from pystreams.http.responses import RequestError, as_json
from pystreams.http.store_answers import Answers
from pystreams.http.store_requests import (
    Terms,
    key_of,
    limit_of,
    query_of_key,
    query_of_range,
    terms_of,
)
from pystreams.runtime.application.kafka_streams import KafkaStreams
from pystreams.runtime.queries.query_results import QueryResult
from pystreams.serdes import BYTES, Serde, filled
from pystreams.stores.contracts.queries import Query
from pystreams.stores.contracts.spec import StoreSpec


class StoreQueries:
    """Queries to the stores of one application.

    Args:
        streams: The application.
    """

    def __init__(self, streams: KafkaStreams) -> None:
        self._streams = streams
        stores = streams.topology.stores
        self._specs = {name: builder.spec for name, builder in stores.items()}

    async def names(self, _: Request) -> Response:
        """Answer which stores there are, and what they can be asked."""
        return as_json([store_answers.described(spec) for spec in self._specs.values()])

    async def value(self, request: Request) -> Response:
        """Answer what a store has of one key."""
        spec, given = self._spec(request), request.query_params
        key = key_of(request.path_params["key"], self._key_serde(spec))
        query, terms = query_of_key(spec, key, given), terms_of(given)
        found = self._ask(
            spec, query, terms, None if terms.partition is None else [terms.partition]
        )
        answer = store_answers.answer_of_key(spec, query, key, found)
        if answer is None:
            positions = [store_answers.position_of(result.position) for result in found.values()]
            raise RequestError(404, f"no partition here has the key {key!r}", positions=positions)
        return as_json(answer)

    async def entries(self, request: Request) -> Response:
        """Answer what a store has of a range, partition by partition."""
        return await run_in_threadpool(self._entries, request)

    def _entries(self, request: Request) -> Response:
        spec, given = self._spec(request), request.query_params
        query = query_of_range(spec, self._key_serde(spec), given)
        limit, terms = limit_of(given), terms_of(given)
        found = self._ask(
            spec, query, terms, None if terms.partition is None else [terms.partition]
        )
        partitions = store_answers.answer_of_range(spec, query, found, limit)
        return as_json({"partitions": partitions})

    # ------------------------------------------------------------------ inside

    def _spec(self, request: Request) -> StoreSpec:
        name = request.path_params["store"]
        spec = self._specs.get(name)
        if spec is None:
            known = sorted(self._specs)
            raise RequestError(404, f"there is no store {name!r}; there are: {known}")
        return spec

    def _key_serde(self, spec: StoreSpec) -> Serde[Any]:
        return filled(spec.key_serde, self._streams.config.default_key_serde) or BYTES

    def _ask(
        self, spec: StoreSpec, query: Query[Any], terms: Terms, partitions: Collection[int] | None
    ) -> Answers:
        """Return the answers of the partitions; raises if one can't answer."""
        result = self._streams.query(
            query,
            store=spec.name,
            partitions=partitions,
            isolation_level=terms.isolation_level,
            position_bound=terms.position_bound,
        )
        found: dict[int | None, QueryResult[Any]] = {}
        found.update(result.partition_results.items())
        if result.global_result is not None:
            found[None] = result.global_result
        store_answers.check(found)
        if not found:
            raise RequestError(421, f"store {spec.name!r} has no partition in this process")
        return found
