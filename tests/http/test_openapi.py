"""What is told of the server is what it does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from pystreams.http.api_description.openapi import openapi_of
from pystreams.http.server import HttpOptions, HttpServer
from tests.http.asking import Answer, ask
from tests.http.conftest import Served

PAGE = Path(__file__).resolve().parents[2] / "docs" / "http.md"
STORES = ["counts", "windows", "sessions", "versions", "plain", "by-length", "places"]
GOOD = {
    "isolation": "read_committed",
    "min_position": "{}",
    "partition": "0",
    "as_of": "1000005",
    "time_from": "0",
    "time_to": "2000000",
    "from": "1",
    "to": "3",
    "order": "descending",
    "limit": "2",
}
OF_STORES = {"/v1/stores/{store}": "", "/v1/stores/{store}/{key}": "/1"}


@pytest.fixture(scope="module")
def described(filed: Served) -> dict[str, Any]:
    return dict(filed.ask("/v1/openapi.json").json())


@pytest.mark.parametrize("asks_for_token", [False, True])
def test_the_description_is_valid(asks_for_token: bool) -> None:
    validate(openapi_of(asks_for_token=asks_for_token))


def test_each_path_is_served_and_answers_as_it_is_described(
    filed: Served, described: dict[str, Any]
) -> None:
    for path, operations in described["paths"].items():
        if path == "/v1/events":  # It has no end.
            continue
        answer = filed.ask(path.format(store="counts", key="a"))
        assert answer.status == 200, path
        check(described, operations["get"], answer)


def test_a_path_that_is_not_described_is_not_served(filed: Served) -> None:
    for path in (
        "/v1",
        "/v1/",
        "/v1/stores/",
        "/docs",
        "/v1/tasks/0_0",
        "/metrics/x",
        "/v1/openapi.yaml",
    ):
        assert filed.ask(path).status == 404, path


def test_the_page_of_the_documentation_names_the_same_paths_and_parameters(
    described: dict[str, Any],
) -> None:
    text = PAGE.read_text("utf-8")
    first_cells = [row.split("|")[1] for row in text.splitlines() if row.startswith("| `")]
    told = {name for cell in first_cells for name in re.findall(r"`([^`]+)`", cell)}
    paths = {
        path.replace("{store}", "STORE").replace("{key}", "KEY") for path in described["paths"]
    }
    assert {name for name in told if name.startswith("/")} == paths
    assert {name for name in told if not name.startswith("/")} == set().union(
        *(parameters_of(described, path) for path in described["paths"])
    )


@pytest.mark.parametrize("path", OF_STORES)
def test_stores_know_the_parameters_that_are_described_and_no_others(
    filed: Served, described: dict[str, Any], path: str
) -> None:
    known: set[str] = set()
    for store in STORES:
        asked = f"/v1/stores/{store}{OF_STORES[path]}"
        refused = filed.ask(asked, nobody_knows="1").json()["detail"]
        known.update(re.findall(r"\w+", refused.partition("what is: ")[2]))
    assert known == parameters_of(described, path)
    for name in known:
        refusals = [
            filed.ask(f"/v1/stores/{store}{OF_STORES[path]}", **{name: GOOD[name]}).status == 400
            for store in STORES
        ]
        assert not all(refusals), name


def test_with_a_token_it_says_where_it_is_asked_for(filed: Served) -> None:
    token = {"Authorization": "Bearer secret"}
    with HttpServer(filed.streams, HttpOptions(port=0, token="secret")) as server:
        assert ask(server.url, "/v1/openapi.json").status == 401
        described = ask(server.url, "/v1/openapi.json", headers=token).json()
        for path, operations in described["paths"].items():
            if path != "/v1/events":
                answer = ask(server.url, path.format(store="counts", key="a"))
                is_open = operations["get"]["security"] == []
                assert (answer.status != 401) == is_open, path
                check(described, operations["get"], answer)


_WORDS = st.text(st.characters(codec="utf-8"), max_size=8)
_QUESTIONS = st.fixed_dictionaries(
    {},
    optional={
        name: st.sampled_from([value, "", "-1", "x", "1e9", "{}", "99999999999999999999"]) | _WORDS
        for name, value in GOOD.items()
    },
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    store=st.sampled_from(STORES) | _WORDS,
    key=st.sampled_from(["a", "1", "here", None]) | _WORDS,
    question=_QUESTIONS,
)
def test_whatever_stores_are_asked_is_answered_as_described(
    filed: Served, described: dict[str, Any], store: str, key: str | None, question: dict[str, str]
) -> None:
    asked = f"/v1/stores/{quote(store, safe='')}"
    if key is not None:
        asked += f"/{quote(key, safe='')}"
    answer = filed.ask(asked, **question)
    if not store or "/" in store:
        return
    assert answer.status < 500 or answer.json().get("reason"), answer.body
    template = "/v1/stores/{store}" if key is None else "/v1/stores/{store}/{key}"
    check(described, described["paths"][template]["get"], answer)


def parameters_of(described: dict[str, Any], path: str) -> set[str]:
    found = described["paths"][path]["get"]["parameters"]
    return {parameter["name"] for parameter in found if parameter["in"] == "query"}


def check(described: dict[str, Any], operation: dict[str, Any], answer: Answer) -> None:
    """Check an answer against what is described."""
    response = operation["responses"].get(str(answer.status))
    assert response is not None, (operation["operationId"], answer)
    media_type = answer.headers.get_content_type()
    assert [*response["content"]] == [media_type]
    if media_type.endswith("json"):
        schema = response["content"][media_type]["schema"]
        whole = {**schema, "components": described["components"]}
        OAS31Validator(whole).validate(answer.json())
