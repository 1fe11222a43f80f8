"""`/v1/openapi.json`: what is served, for programs. Spec: OpenAPI 3.1."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from typing import Any

from pystreams.http.api_description.api import OPERATIONS, Operation
from pystreams.http.api_description.openapi_schemas import SCHEMAS, schema_named
from pystreams.http.api_description.parameters import IN_PATH, IN_QUERY
from pystreams.kernel.installed_version import installed_version

_OF_ALL = (414, 431, 500)
_WITH_TOKEN, _WITHOUT_TOKEN = 401, 421
_SCHEME = "token"


@cache
def openapi_of(*, asks_for_token: bool) -> dict[str, Any]:
    """Return the description of a server."""
    components: dict[str, Any] = {"schemas": SCHEMAS}
    if asks_for_token:
        components["securitySchemes"] = {_SCHEME: {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "pystreams",
            "description": "Health, metrics, state and queries of one process of an application. "
            "All is read; HEAD is answered wherever GET is.",
            "version": installed_version(),
        },
        "servers": [{"url": "/"}],
        "paths": {
            operation.path.replace(":key", ""): {
                "get": _described(operation, asks_for_token=asks_for_token)
            }
            for operation in OPERATIONS
        },
        "components": components,
    }


def _described(operation: Operation, *, asks_for_token: bool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [
            *(_parameter(name, "path", IN_PATH[name]) for name in operation.in_path),
            *(_parameter(name, "query", IN_QUERY[name]) for name in operation.in_query),
        ],
        "responses": {
            str(status): response
            for status, response in sorted(
                _responses(operation, asks_for_token=asks_for_token).items()
            )
        },
    }
    if asks_for_token:
        told["security"] = [] if operation.is_open else [{_SCHEME: []}]
    return told


def _parameter(name: str, place: str, parameter: Any) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": parameter.text,
        "schema": parameter.schema,
    }


def _responses(operation: Operation, *, asks_for_token: bool) -> dict[int, dict[str, Any]]:
    refused = {*operation.problems, *_OF_ALL}
    if not asks_for_token:
        refused.add(_WITHOUT_TOKEN)
    elif not operation.is_open:
        refused.add(_WITH_TOKEN)
    problem = {"application/problem+json": {"schema": schema_named("Problem")}}
    responses = {status: _response(status, problem) for status in refused}
    content = (
        {"application/json": {"schema": schema_named(operation.answer)}}
        if operation.is_json
        else {operation.answer: {"schema": {"type": "string"}}}
    )
    return responses | {status: _response(status, content) for status in operation.statuses}


def _response(status: int, content: dict[str, Any]) -> dict[str, Any]:
    return {"description": HTTPStatus(status).phrase, "content": content}
